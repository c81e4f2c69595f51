"""A verification as one JSON document; ``verify-report.schema.json`` beside this file describes it.

Every number is finite. What was not measured, and an end of an interval that the sample does not
bound, is null.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from torchlint.report.kit import ascii_json
from torchlint.verify.model import (
    Counts,
    Equality,
    Interval,
    Judged,
    Memory,
    Proof,
    Ratio,
    Report,
    Speed,
    VariantResult,
)
from torchlint.verify.output import phrases

SCHEMA_VERSION = 1


def render(report: Report, *, color: bool = False) -> str:
    """Return the report as JSON, ASCII only, with a final newline; it has no colours."""
    return ascii_json.dump(document(report))


def document(report: Report) -> dict[str, Any]:
    """Return the report as plain values."""
    null = report.null_control
    return {
        "schema_version": SCHEMA_VERSION,
        "mode": report.mode,
        "command": list(report.command),
        "torchlint": report.version,
        "date": report.date,
        "unit": phrases.unit(report),
        "env": _plain(dataclasses.asdict(report.machine)),
        "plan": _plain(dataclasses.asdict(report.plan)),
        "variants": [_variant(report, each) for each in report.variants],
        "null_control": None
        if null is None
        else {**_ratio(null.ratio), "ok": null.ok, "blocks_ns": _plain(null.blocks_ns)},
        "interactions": list(report.interactions),
        "safety": {
            "tree_unchanged": report.tree_unchanged,
            "blocked_writes": list(report.blocked_writes),
        },
        "warnings": list(report.warnings),
        "skipped": list(report.skipped),
        "seconds": _plain(report.seconds),
        "extra": dict(report.extra),
        "cut": report.cut or None,
        "proof": None if report.proof is None else _proof(report.proof),
        "versions": None
        if report.versions is None
        else dict(zip(("before", "after"), report.versions, strict=True)),
    }


def _variant(report: Report, variant: VariantResult) -> dict[str, Any]:
    return {
        "id": variant.id,
        "kind": variant.kind,
        "fixes": list(variant.fixes),
        "title": variant.title,
        "where": variant.where or None,
        "exercised": variant.exercised,
        "speed": _speed(report, variant.speed),
        "counts": None if variant.counts is None else _counts(variant.counts),
        "memory": None if variant.memory is None else _memory(variant.memory),
        "equivalence": None if variant.equality is None else _equivalence(variant.equality),
        "blocks_ns": _plain(variant.blocks_ns),
        "status": variant.status.value,
        "error": variant.error or None,
        "diff": variant.diff or None,
        "note": variant.note or None,
    }


def _proof(proof: Proof) -> dict[str, Any]:
    return {
        "fixes": [_judged(each) for each in proof.fixes],
        "together": None if proof.together is None else _judged(proof.together),
        "written": list(proof.written),
        "outcome": proof.outcome or None,
    }


def _judged(judged: Judged) -> dict[str, Any]:
    return {
        "fix": judged.fix,
        "proven": judged.proven,
        "gains": list(judged.gains),
        "why": judged.why or None,
    }


def _speed(report: Report, speed: Speed) -> dict[str, Any]:
    timed = speed.ratio is not None
    return {
        **_ratio(speed.ratio),
        "before_ms": _plain(speed.before_ms),
        "after_ms": _plain(speed.after_ms),
        "cpu_ratio": _plain(speed.cpu_ratio),
        "events_ratio": _plain(speed.events_ratio),
        "basis": report.machine.device if timed else None,
        "clock": "wall" if timed else None,
        "verdict": speed.verdict.value,
        "why": speed.why or None,
    }


def _ratio(ratio: Ratio | None) -> dict[str, Any]:
    if ratio is None:
        return {"ratio": None, "ci95": None, "ci99": None, "p": None, "n": None}
    return {
        "ratio": _plain(ratio.estimate),
        "ci95": _interval(ratio.ci95),
        "ci99": _interval(ratio.ci99),
        "p": _plain(ratio.p),
        "n": ratio.n,
    }


def _interval(ends: Interval) -> list[float | None]:
    return [phrases.bounded(end) for end in ends]


def _counts(counts: Counts) -> dict[str, Any]:
    known = not counts.unavailable
    pairs = {
        name: _plain(getattr(counts, name)) if known else None
        for name in ("syncs", "h2d_bytes", "d2h_bytes", "staged")
    }
    return {
        "basis": counts.basis,
        "label": phrases.basis_label(counts.basis),
        "steps": counts.steps if known else None,
        **pairs,
        "before": [dataclasses.asdict(line) for line in counts.before],
        "after": [dataclasses.asdict(line) for line in counts.after],
        "unavailable": counts.unavailable or None,
        "evaluation": None if counts.evaluation is None else _counts(counts.evaluation),
    }


def _memory(memory: Memory) -> dict[str, Any]:
    plain: dict[str, Any] = _plain(dataclasses.asdict(memory))
    return plain


def _equivalence(equality: Equality) -> dict[str, Any]:
    return {
        "level": equality.level.value,
        "expected": equality.expected.value,
        "ok": equality.ok,
        "max_abs": _plain(equality.max_abs),
        "max_loss_diff": _plain(equality.max_loss_diff),
        "self_noise": _plain(equality.self_noise),
        "rng_changed": equality.rng_changed,
        "notes": list(equality.notes),
    }


def _plain(value: Any) -> Any:
    """Return lists for tuples and null for what JSON has no number for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
