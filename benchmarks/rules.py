"""Measures the examples of the rules' pages, and keeps the results where the pages are printed
from.

    python benchmarks/rules.py [--python PATH] [--device auto|cpu|cuda] [--pairs N] [TL603 ...]
    python benchmarks/rules.py --from REPORT [TL603 ...]

Writes ``torchlint/manual/measured.json``: rule code -> one entry per kind of device, so that a run
on a CPU leaves what a GPU has measured; an interval's infinite end, and whatever was not measured,
is null. When all rules were measured, also ``benchmarks/results/rules-DEVICE-DATE.json``: the whole
report of `torchlint verify rules --output-format json`. Run it on a machine that does nothing else.
--from takes such a report, or a file of `on_gpu.py`, in the place of a measurement.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torchlint.manual.pages import MEASURED
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
    parser.add_argument("--from", dest="report", type=Path, help="a report in JSON")
    given = parser.parse_args()
    if given.report is not None:
        for document in _documents(json.loads(given.report.read_text(encoding="utf-8"))):
            write(document, MEASURED, given.codes)
        return 0
    options = Options(
        python=given.python, device=given.device, pairs=given.pairs, launches=PAIRED_LAUNCHES
    )
    report = rule_mode.run(given.codes, options, lambda line: print(line, file=sys.stderr))
    write(json_report.document(report), MEASURED)
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


def _documents(found: dict[str, Any]) -> list[dict[str, Any]]:
    """The reports in a file: itself, or those of `on_gpu.py`."""
    if "stages" not in found:
        return [found]
    items = found["stages"].get("rules", {}).get("items", {})
    return [item["report"] for item in items.values() if "report" in item]


def write(document: dict[str, Any], path: Path, codes: Collection[str] = ()) -> None:
    """Put a report's results into `path`; entries of other devices and of rules that did not run
    stay.

    Args:
        document: of mode "rules", as `torchlint verify rules --output-format json` prints it.
        path: ``torchlint/manual/measured.json``; made where it does not exist.
        codes: of these rules only; of all for none.

    Raises:
        ValueError: the file is damaged.
        OSError: it cannot be read or written.
    """
    known = _read(path)
    for variant in document["variants"]:
        code = variant["id"].removeprefix("rule:")
        if codes and code not in codes:
            continue
        device = document["env"]["device"]
        others = [entry for entry in known.get(code, []) if entry.get("device") != device]
        entries = [*others, *([entry(variant, document)] if _says_something(variant) else [])]
        known[code] = sorted(entries, key=lambda one: str(one.get("device")))
    kept = {code: entries for code, entries in sorted(known.items()) if entries}
    path.write_text(json.dumps(kept, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def entry(variant: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    """Return one rule's entry: plain values, with machine, versions and date."""
    machine, speed = document["env"], variant["speed"] or {}
    equality = variant["equivalence"] or {}
    nulls = _nulls(document)
    timed = speed.get("ratio") is not None
    found = {
        "device": machine["device"],
        "device_name": machine["device_name"],
        "cores": machine["cores"],
        "threads": machine["threads"],
        "torch": machine["torch"],
        "python": machine["python"],
        "date": document["date"],
        "verdict": speed.get("verdict"),
        "why": speed.get("why") or "",
        "n": speed["n"] if timed else 0,
        "ratio": _rounded(speed.get("ratio")),
        "ci95": [_rounded(end) for end in speed["ci95"]] if timed else None,
        "before_ms": _rounded(speed.get("before_ms")),
        "after_ms": _rounded(speed.get("after_ms")),
        "cpu_ratio": _rounded(speed.get("cpu_ratio")),
        "equal": equality.get("level"),
        "expected": equality.get("expected"),
        "kept": equality.get("ok"),
        "max_abs": _rounded(equality.get("max_abs")),
        "notes": list(equality.get("notes", ())),
        "counts": _counts(variant["counts"]),
    }
    if nulls and machine["device"] == "cuda":
        found["nulls"] = [_rounded(min(nulls)), _rounded(max(nulls))]
    return found


def _nulls(document: dict[str, Any]) -> list[float]:
    """The ratios of the null controls, one a rule; none where they were not kept."""
    blocks = (document["null_control"] or {}).get("blocks_ns") or []
    return [before / after for before, after in blocks if before and after]


def _says_something(variant: dict[str, Any]) -> bool:
    """Say whether the examples ran: else (a package is absent, they fail) there is nothing to
    keep."""
    timed = (variant["speed"] or {}).get("ratio") is not None
    return variant["status"] == "ok" and (variant["equivalence"] is not None or timed)


def _counts(counts: dict[str, Any] | None) -> dict[str, Any] | None:
    if counts is None:
        return None
    pairs = {name: counts[name] for name in _PAIRED}
    return {"basis": counts["basis"], "unavailable": counts["unavailable"] or "", **pairs}


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
