"""Whether a comparison of two runs (`inside.equality`) keeps what a fix promises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torchlint.verify.model import Equality, Expected, Level

SELF_FACTOR = 3.0
"""How much more than the original differs from itself a fix may differ from it."""
_ORDER = (Level.UNKNOWN, Level.BITWISE, Level.CLOSE, Level.BAND, Level.DISTRIBUTION, Level.DIFFERENT)
_KEEPING: Mapping[Expected, tuple[Level, ...]] = {
    Expected.BITWISE: (Level.BITWISE,),
    Expected.CLOSE: (Level.BITWISE, Level.CLOSE, Level.BAND),
    Expected.RNG: (Level.BITWISE, Level.CLOSE, Level.BAND, Level.DISTRIBUTION),
    Expected.ANY: tuple(Level),
}
_MOST_NOTES = 12


def kept(
    compared: Mapping[str, Any], itself: Mapping[str, Any] | None, expected: Expected, *, safe: bool = False
) -> Equality:
    """Judge one comparison.

    Args:
        compared: the original against the fixed version, made with `band` of `itself`.
        itself: the original against itself; None where it was not run twice.
        expected: what the fix promises.
        safe: a safe fix also keeps dtype, strides, requires_grad and is_leaf, of everything a caller can see.
    """
    own = itself or {"level": Level.BITWISE.value, "max_abs": None, "different": (), "rng_changed": False}
    notes = list(compared["notes"])
    level = Level(compared["level"])
    streams = bool(compared["rng_changed"]) and not own["rng_changed"]
    reproducible = own["level"] == Level.BITWISE.value
    if not reproducible:
        notes.append("the original does not reproduce itself")
        if level in (Level.DIFFERENT, Level.DISTRIBUTION) and set(compared["different"]) <= set(own["different"]):
            level = Level.UNKNOWN  # only where the original differs from itself, and by no bound that it keeps
    if streams and expected in (Expected.BITWISE, Expected.CLOSE):
        level = Level.DIFFERENT
    promise = Expected.CLOSE if expected is Expected.BITWISE and not reproducible else expected
    good = level in _KEEPING[promise] or level is Level.UNKNOWN
    return Equality(
        level=level,
        expected=expected,
        ok=good and not (safe and compared["facts"]),
        max_abs=compared["max_abs"],
        self_noise=own["max_abs"],
        rng_changed=None if compared["rng_changed"] is None else streams,
        notes=tuple(notes),
    )


def band(itself: Mapping[str, Any]) -> float:
    """Return the absolute difference that counts as close, given what the original differs from itself."""
    return SELF_FACTOR * float(itself["max_abs"] or 0.0)


def together(found: Sequence[tuple[str, Equality]]) -> Equality:
    """Return one answer for several comparisons (seeds, examples): the worst level, every note under its title."""
    worst = max((each for _, each in found), key=lambda each: (not each.ok, _ORDER.index(each.level)))
    gaps = [each.max_abs for _, each in found if each.max_abs is not None]
    noises = [each.self_noise for _, each in found if each.self_noise is not None]
    streams = [each.rng_changed for _, each in found if each.rng_changed is not None]
    notes: list[str] = []
    seen: set[str] = set()
    for title, each in found:
        fresh = [note for note in each.notes if note not in seen]
        seen.update(fresh)
        notes += [f"{title}: {note}" if title else note for note in fresh]
    return Equality(
        level=max((each.level for _, each in found), key=_ORDER.index),
        expected=worst.expected,
        ok=all(each.ok for _, each in found),
        max_abs=max(gaps, default=None) if len(gaps) == len(found) else None,
        self_noise=max(noises, default=None),
        rng_changed=any(streams) if streams else None,
        notes=tuple(notes[:_MOST_NOTES]),
    )
