"""What was measured of each rule, in words: read from the file that `torchlint verify rules`
writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from torchlint.base.errors import CatalogError

T = TypeVar("T")
NO_GPU = "- Not measured on a GPU."
_EQUAL = {
    "bitwise": "results bitwise equal",
    "close": "results equal up to rounding",
    "within rounding band": "results equal up to rounding",
    "same distribution, different random numbers": "same distribution, other random numbers",
    "different": "results differ",
}
"""Levels of equality in a page's words; what was not compared is left out."""


def read(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the lines of each rule's page by code; empty where there is no file.

    Args:
        path: JSON, rule code → entries, one per kind of device.

    Raises:
        CatalogError: the file is damaged.
    """
    return _read_by_code(path, lambda entries: tuple(lines(entries)))


def read_costs(path: Path) -> Mapping[str, str]:
    """Return what each rule's example cost, in a few words by code; empty words where nothing was
    measured.

    Args:
        path: as for `read`.

    Raises:
        CatalogError: the file is damaged.
    """
    return _read_by_code(path, cost)


def read_weights(path: Path) -> Mapping[str, tuple[float, float]]:
    """Return by code which share of its waits for the device a rule's example saves, and how much
    faster it is.

    Args:
        path: as for `read`.

    Raises:
        CatalogError: the file is damaged.
    """
    return _read_by_code(path, weight)


def _read_by_code(path: Path, words: Callable[[Sequence[Mapping[str, Any]]], T]) -> dict[str, T]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return {str(code): words(entries) for code, entries in data.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise CatalogError(f"{path}: {error}") from None


def lines(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a list in markdown: a line for each device, and the predicted traffic between host and
    device."""
    found = [_on_device(entry) for entry in entries if entry["device"] != "virtual-cuda"]
    traffic = next((entry["counts"] for entry in entries if entry.get("counts")), None)
    if traffic is not None:
        found.append(_traffic(traffic))
    if not any(entry["device"] == "cuda" and entry["ratio"] is not None for entry in entries):
        found.append(NO_GPU)
    return [line for line in found if line]


def cost(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return ``19.9x faster on a GPU``, else the same of a CPU, else how many waits it saves, else
    nothing."""
    for kind, name in (("cuda", "a GPU"), ("cpu", "a CPU")):
        for entry in entries:
            if (
                entry["device"] == kind
                and entry["verdict"] == "faster"
                and entry["ratio"] is not None
            ):
                return f"{times(entry['ratio'])}x faster on {name}"
    counts: Mapping[str, Any] = next(
        (entry["counts"] for entry in entries if entry.get("counts")), {}
    )
    syncs = counts.get("syncs")
    if syncs and syncs[0] > syncs[1]:
        basis = "predicted" if counts["basis"] == "virtual-cuda" else "observed"
        return (
            f"saves {_number(syncs[0] - syncs[1])} of {_number(syncs[0])} waits for the "
            f"device, {basis}"
        )
    return ""


def weight(entries: Sequence[Mapping[str, Any]]) -> tuple[float, float]:
    """Return the share of waits for the device that is saved, 0 where that is not known, and the
    ratio of times.

    The ratio is that of a GPU where it was measured, else of a CPU; 1 where no difference was
    shown.
    """
    syncs = next(
        (entry["counts"]["syncs"] for entry in entries if (entry.get("counts") or {}).get("syncs")),
        None,
    )
    saved = (syncs[0] - syncs[1]) / syncs[0] if syncs and syncs[0] else 0.0
    ratios = {
        entry["device"]: entry["ratio"]
        for entry in entries
        if entry["verdict"] == "faster" and entry["ratio"] is not None
    }
    return max(saved, 0.0), ratios.get("cuda", ratios.get("cpu", 1.0))


def _on_device(entry: Mapping[str, Any]) -> str:
    """``- CPU (2 cores, torch 2.13.0, 2026-11-21): 19.9x [17.8, 22.4], n = 24: faster; results
    bitwise equal.``; of a GPU also what identical work read."""
    parts = []
    if entry["ratio"] is not None:
        parts.append(
            f"{times(entry['ratio'])}x {_interval(entry['ci95'])}, n = {entry['n']}: "
            f"{entry['verdict']}"
        )
    if entry["equal"] in _EQUAL:
        intended = entry["equal"] == "different" and entry["expected"] == "opt-in"
        parts.append(_EQUAL[entry["equal"]] + (", as the page says" if intended else ""))
    if not parts:
        return ""
    if entry.get("nulls"):
        parts.append(f"null controls of that run {' to '.join(map(_times, entry['nulls']))}")
    version = str(entry["torch"]).partition("+")[0]
    cores = f"{entry['cores']} core{'s' * (entry['cores'] != 1)}"
    device = (
        f"CPU ({cores}" if entry["device"] == "cpu" else f"GPU ({entry['device_name'] or 'CUDA'}"
    )
    return f"- {device}, torch {version}, {entry['date']}): {'; '.join(parts)}."


def _traffic(counts: Mapping[str, Any]) -> str:
    """Return the line on traffic; what the ledger on a CPU says is labelled as predicted."""
    if counts.get("unavailable") or counts.get("syncs") is None:
        return ""
    parts = [
        f"{_number(pair[0])} → {_number(pair[1])} {what}"
        for what, pair in (
            ("waits for the device", counts["syncs"]),
            ("bytes to the device", counts["h2d_bytes"]),
            ("bytes to the host", counts["d2h_bytes"]),
        )
        if pair is not None and any(pair)
    ]
    if not parts:
        return ""
    basis = (
        "Predicted for CUDA, not observed"
        if counts["basis"] == "virtual-cuda"
        else "Observed on CUDA"
    )
    return f"- {basis}: {', '.join(parts)} a run."


def times(ratio: float) -> str:
    """Return a ratio with three digits: ``"1.05"``, ``"19.9"``, ``"302"``."""
    for digits, least in ((0, 99.95), (1, 9.995)):
        if ratio >= least:
            return f"{ratio:.{digits}f}"
    return f"{ratio:.2f}"


def _times(ratio: float) -> str:
    return f"{times(ratio)}x"


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    return f"[{'0' if low is None else times(low)}, {'∞' if high is None else times(high)}]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
