"""Measures the examples of the rules' pages, and keeps the results where the pages are printed from.

    python benchmarks/rules.py [--python PATH] [--device auto|cpu|cuda] [--pairs N] [TL603 ...]

Writes ``torchlint/manual/measured.json`` (entries of other devices stay) and, when all rules were measured,
``benchmarks/results/rules-DEVICE-DATE.json``: the whole report of `torchlint verify rules --output-format json`. Run it
on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from torchlint.manual.pages import MEASURED
from torchlint.verify.options import Options
from torchlint.verify.output import json_report, text
from torchlint.verify.paired import measured, rule_mode

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measure, keep, and print the table; the exit code is 1 where a fix breaks its promise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=24)
    given = parser.parse_args()
    options = Options(python=given.python, device=given.device, pairs=given.pairs)
    report = rule_mode.run(given.codes, options, lambda line: print(line, file=sys.stderr))
    measured.write(report, MEASURED)
    if not given.codes:
        device = (report.machine.device_name or report.machine.device).replace(" ", "-").lower()
        (RESULTS / f"rules-{device}-{report.date}.json").write_text(json_report.render(report), encoding="utf-8")
    print(text.render(report))
    return 1 if any(each.equality is not None and not each.equality.ok for each in report.variants) else 0


if __name__ == "__main__":
    sys.exit(main())
