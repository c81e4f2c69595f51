"""Writes what a run of rule mode has measured to the file that rule pages are printed from.

JSON: rule code → one entry per kind of device, so that a run on a CPU leaves what a GPU has measured. An interval's
infinite end, and whatever was not measured, is null.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from torchlint.api import write_file
from torchlint.base.errors import OutputError
from torchlint.verify.model import Counts, Report, Status, VariantResult

_PAIRED = ("syncs", "h2d_bytes", "d2h_bytes", "staged")


def write(report: Report, path: Path) -> None:
    """Put a report's results into `path`; entries of other devices and of rules that did not run stay.

    Args:
        report: of mode "rules".
        path: ``torchlint/manual/measured.json``; made where it does not exist.

    Raises:
        ValueError: the report is of another mode.
        OutputError: the file is damaged or cannot be written.
    """
    if report.mode != "rules":
        raise ValueError(f"only rule mode measures pages, not {report.mode} mode")
    known = _read(path)
    for variant in report.variants:
        code = variant.id.removeprefix("rule:")
        others = [entry for entry in known.get(code, []) if entry.get("device") != report.machine.device]
        entries = [*others, *([entry(variant, report)] if _says_something(variant) else [])]
        known[code] = sorted(entries, key=lambda one: str(one.get("device")))
    kept = {code: entries for code, entries in sorted(known.items()) if entries}
    _replace(path, json.dumps(kept, indent=1, allow_nan=False) + "\n")


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
    """Say whether the examples ran: else (a package is absent, they fail) there is nothing to keep."""
    return variant.status is Status.OK and (variant.equality is not None or variant.speed.ratio is not None)


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
    """Return a number with five significant digits: more would be the noise of one machine, and churn in the file."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.5g}")


def _read(path: Path) -> dict[str, list[dict[str, Any]]]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise OutputError(f"{path}: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(entries, list) for entries in data.values()):
        raise OutputError(f"{path}: not a file of measurements; remove it to begin anew")
    return data


def _replace(path: Path, text: str) -> None:
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
