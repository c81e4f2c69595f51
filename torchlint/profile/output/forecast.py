"""What the ledger predicts for a GPU, in words and as plain values: counts and bytes, never
times."""

from __future__ import annotations

from typing import Any

from torchlint.profile.join import FindingCost
from torchlint.profile.predicted import Predicted, Traffic
from torchlint.report.kit.words import number, size, visible

_ABOUT = ("wait", "copy", "upload")
"""Effects of rules that are about waits and copies."""
HEAD = ("waits", "to the GPU", "back", "line")
"""What is shown of a line: how often the host waits, and what is copied, in each step."""


def headline(found: Predicted) -> str:
    """Return what a step would wait for and copy, in a sentence without its full stop."""
    if found.unavailable:
        return f"nothing is predicted for a GPU: {visible(found.unavailable)}"
    return f"predicted for a GPU, in each step: {words(found.of)}"


def of_finding(cost: FindingCost, found: Predicted | None) -> str:
    """Return what the statement of a finding would wait for and copy; empty where that is not
    known.

    That there is nothing is told of a statement that ran, and whose rule is about waits or copies.
    """
    of = None if found is None else found.at(cost.finding)
    if of is None or not (of or (cost.seen and cost.effect in _ABOUT)):
        return ""
    return f"predicted for a GPU, in each step: {words(of)}"


def rows(found: Predicted, top: int) -> list[tuple[str, ...]]:
    """Return the lines that wait or copy, one cell for each of `HEAD`."""
    return [
        (
            number(one.of.waits) if one.of.waits else "0",
            size(one.of.to_device) if one.of.to_device else "0",
            size(one.of.to_host) if one.of.to_host else "0",
            visible(f"{one.file}:{one.line}, {', '.join(one.causes)}" if one.line else one.file),
        )
        for one in found.each[:top]
    ]


def words(of: Traffic) -> str:
    """Return what a step waits for and copies: ``2 waits, 8 B back``."""
    parts = []
    if of.waits:
        parts.append(f"{number(of.waits)} wait{'s' * (of.waits != 1)}")
    if of.to_device:
        parts.append(f"{size(of.to_device)} to the GPU")
    if of.to_host:
        parts.append(f"{size(of.to_host)} back")
    return ", ".join(parts) or "no wait and no copy"


def document(found: Predicted | None) -> dict[str, Any] | None:
    """Return the same as plain values; None where nothing was tried."""
    if found is None:
        return None
    known = not found.unavailable
    return {
        "unavailable": found.unavailable or None,
        "steps": found.steps,
        "per_step": traffic(found.of) if known else None,
        "lines": [
            {
                "file": one.file if one.line else None,
                "line": one.line or None,
                "causes": list(one.causes),
                **traffic(one.of),
            }
            for one in found.each
        ],
    }


def traffic(of: Traffic) -> dict[str, float]:
    """Return counts and bytes of a step as plain values."""
    return {
        "waits": of.waits,
        "to_device_bytes": of.to_device,
        "to_host_bytes": of.to_host,
    }
