"""A verification as one JSON document; ``verify-report.schema.json`` beside this file describes it.

Every number is finite. What was not measured, and an end of an interval that the sample does not
bound, is null.
"""

from __future__ import annotations

import enum
import math
from typing import Any

from torchlint.report.kit import ascii_json
from torchlint.verify.model import Counts, Equality, NullControl, Ratio, Report, Speed
from torchlint.verify.output import phrases

SCHEMA_VERSION = 1
_WORDS = frozenset({"where", "error", "diff", "note", "why", "unavailable", "cut", "outcome"})
"""Fields of words that are null where there is nothing to say."""
_RATIO = ("ratio", "ci95", "ci99", "p", "n")
_COUNTED = ("steps", "syncs", "h2d_bytes", "d2h_bytes", "staged")


def render(report: Report, *, color: bool = False) -> str:
    """Return the report as JSON, ASCII only, with a final newline; it has no colours."""
    return ascii_json.dump(document(report))


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    found: dict[str, Any] = _as_json(report)
    for variant in found["variants"]:
        speed = variant["speed"]
        timed = speed["ratio"] is not None
        speed |= (
            {"basis": report.machine.device, "clock": "wall"}
            if timed
            else dict.fromkeys(("basis", "clock"))
        )
        variant["equivalence"] = variant.pop("equality")
    safety = {name: found.pop(name) for name in ("tree_unchanged", "blocked_writes")}
    versions = found["versions"]
    return {
        "schema_version": SCHEMA_VERSION,
        "unit": phrases.unit(report),
        "torchlint": found.pop("version"),
        "env": found.pop("machine"),
        **found,
        "safety": safety,
        "versions": versions and dict(zip(("before", "after"), versions, strict=True)),
    }


def _as_json(value: Any) -> Any:
    """Return records as objects, lists for tuples, and null for what JSON has no number for."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(each) for each in value]
    if not hasattr(value, "__match_args__"):
        return value
    names = value.__match_args__
    found = {name: _as_json(getattr(value, name)) for name in names}
    found |= {name: None for name in _WORDS & found.keys() if found[name] == ""}
    match value:
        case Ratio():
            ends = ([phrases.bounded(end) for end in ci] for ci in (value.ci95, value.ci99))
            numbers = (found["estimate"], *ends, found["p"], value.n)
            return dict(zip(_RATIO, numbers, strict=True))
        case Speed() | NullControl():
            return {**found, **(found["ratio"] or dict.fromkeys(_RATIO))}
        case Equality():
            del found["excused"]
        case Counts():
            found["label"] = phrases.basis_label(value.basis)
            found |= dict.fromkeys(_COUNTED) if value.unavailable else {}
    return found
