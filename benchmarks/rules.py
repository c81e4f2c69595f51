"""Measures the examples of the rules' pages, and keeps the results where the pages are printed
from.

    python benchmarks/rules.py [--python PATH] [--device auto|cpu|cuda] [--pairs N] [TL603 ...]

Writes ``torchlint/manual/measured.json``: rule code -> one entry per kind of device, so that a run
on a CPU leaves what a GPU has measured; an interval's infinite end, and whatever was not measured,
is null. When all rules were measured, also ``benchmarks/results/rules-DEVICE-DATE.json``: the whole
report of `torchlint verify rules --output-format json`. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from typing import Any

from torchlint.manual.pages import MEASURED
from torchlint.verify.model import Counts, Report, Status, VariantResult
from torchlint.verify.options import PAIRED_LAUNCHES, Options
from torchlint.verify.output import json_report, text
from torchlint.verify.paired import rule_mode

RESULTS = Path(__file__).parent / "results"
_PAIRED = ("syncs", "h2d_bytes", "d2h_bytes", "staged")


def main() -> int:
    """Measure, keep, and print the table; the exit code is 1 where a fix breaks its promise."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("codes", nargs="*")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=24)
    given = parser.parse_args()
    options = Options(
        python=given.python, device=given.device, pairs=given.pairs, launches=PAIRED_LAUNCHES
    )
    report = rule_mode.run(given.codes, options, lambda line: print(line, file=sys.stderr))
    write(report, MEASURED)
    if not given.codes:
        device = (report.machine.device_name or report.machine.device).replace(" ", "-").lower()
        (RESULTS / f"rules-{device}-{report.date}.json").write_text(
            json_report.render(report), encoding="utf-8"
        )
    print(text.render(report))
    return (
        1
        if any(each.equality is not None and not each.equality.ok for each in report.variants)
        else 0
    )


def write(report: Report, path: Path) -> None:
    """Put a report's results into `path`; entries of other devices and of rules that did not run
    stay.

    Args:
        report: of mode "rules".
        path: ``torchlint/manual/measured.json``; made where it does not exist.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read or written.
    """
    known = _read(path)
    for variant in report.variants:
        code = variant.id.removeprefix("rule:")
        others = [
            entry for entry in known.get(code, []) if entry.get("device") != report.machine.device
        ]
        entries = [*others, *([entry(variant, report)] if _says_something(variant) else [])]
        known[code] = sorted(entries, key=lambda one: str(one.get("device")))
    kept = {code: entries for code, entries in sorted(known.items()) if entries}
    path.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def entry(variant: VariantResult, report: Report) -> dict[str, Any]:
    """Return one rule's entry: plain values, with machine, versions and date."""
    machine, speed, equality = report.machine, variant.speed, variant.equality
    ratio = speed.ratio
    return {
        "device": machine.device,
        "device_name": machine.device_name,
        "cores": machine.cores,
        "threads": machine.threads,
        "torch": machine.torch,
        "python": machine.python,
        "date": report.date,
        "verdict": speed.verdict.value,
        "why": speed.why,
        "n": ratio.n if ratio else 0,
        "ratio": _rounded(ratio.estimate) if ratio else None,
        "ci95": [_rounded(end) for end in ratio.ci95] if ratio else None,
        "before_ms": _rounded(speed.before_ms),
        "after_ms": _rounded(speed.after_ms),
        "cpu_ratio": _rounded(speed.cpu_ratio),
        "equal": equality.level.value if equality else None,
        "expected": equality.expected.value if equality else None,
        "kept": equality.ok if equality else None,
        "max_abs": _rounded(equality.max_abs) if equality else None,
        "notes": list(equality.notes) if equality else [],
        "counts": _counts(variant.counts),
    }


def _says_something(variant: VariantResult) -> bool:
    """Say whether the examples ran: else (a package is absent, they fail) there is nothing to
    keep."""
    return variant.status is Status.OK and (
        variant.equality is not None or variant.speed.ratio is not None
    )


def _counts(counts: Counts | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    pairs = {name: getattr(counts, name) for name in _PAIRED}
    return {
        "basis": counts.basis,
        "unavailable": counts.unavailable,
        **{name: list(pair) if pair is not None else None for name, pair in pairs.items()},
    }


def _rounded(value: float | None) -> float | None:
    """Return a number with five significant digits: more would be the noise of one machine, and
    churn in the file."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    data = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if not isinstance(data, dict) or not all(
        isinstance(entries, list) for entries in data.values()
    ):
        raise ValueError(f"{path}: not a file of measurements; remove it to begin anew")
    return data


if __name__ == "__main__":
    sys.exit(main())
