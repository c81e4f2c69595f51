"""Whether a variant computed what the original does (verify's check pass), from comparisons made by the child."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torchlint.verify.model import Equality, Expected, Level

NOISE = 3.0
"""How often the original's difference from itself, or from its shaken self, a variant may differ."""
NOTHING = "no loss, no weight and no output of a model in evaluation mode was seen, so no results were compared"
"""Of a program that does not train: its random streams alone are no result."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Two runs side by side.

    Args:
        level: how far the losses and final weights agree.
        max_abs: the largest difference of a weight.
        max_loss: the largest difference of a loss.
        notes: what differs, in words.
        rng_changed: whether a random stream ends in another state.
        steps: of both runs.
        values_only: whether nothing but numbers differs: no dtype, no shape, no weight that only one run has.
    """

    level: Level
    max_abs: float | None
    max_loss: float | None
    notes: tuple[str, ...]
    rng_changed: bool
    steps: tuple[int, int]
    values_only: bool = True


def compared(raw: Mapping[str, Any], one: Mapping[str, Any], other: Mapping[str, Any]) -> Compared:
    """Put together what the comparing process said and what two records hold."""
    if Level(raw["level"]) is Level.BITWISE and one.get("seen") == 0:
        raw = {"level": Level.UNKNOWN.value, "notes": [NOTHING]}
    known = raw.get("max_abs") is not None
    largest = raw.get("max_abs_by_name", {})
    return Compared(
        Level(raw["level"]),
        largest.get("weights", 0.0) if known else None,
        largest.get("loss", 0.0) if known else None,
        tuple(raw.get("notes", ())),
        bool(raw.get("rng_changed")),
        (int(one.get("steps", 0)), int(other.get("steps", 0))),
        all(place.endswith("|value") for place in raw.get("different", ())),
    )


def judged(variant: Compared, itself: Compared, expected: Expected, shaken: Compared | None = None) -> Equality:
    """Say how far a variant's results agree with the original's, and whether that keeps its promise.

    Args:
        variant: the original against the variant.
        itself: the original against itself.
        expected: what the fix promises.
        shaken: the original against itself with initial weights times 1 + 2**-20; None where not run.
    """
    level, notes = variant.level, list(variant.notes)
    reproducible = itself.level in (Level.BITWISE, Level.UNKNOWN)
    noise = 0.0 if itself.level is Level.BITWISE else itself.max_abs
    if not reproducible:
        notes.append("the program does not reproduce itself")
        if level in (Level.DIFFERENT, Level.DISTRIBUTION) and _within(variant, itself):
            level = Level.CLOSE
            notes.append("no further from the original than the original is from itself")
    if level in (Level.DIFFERENT, Level.DISTRIBUTION) and shaken is not None and _within(variant, shaken):
        level = Level.BAND
    streams = variant.rng_changed and not itself.rng_changed
    if variant.steps[0] != variant.steps[1]:
        notes.append(f"{variant.steps[0]} steps before, {variant.steps[1]} after")
        level = Level.DIFFERENT
    level = _levelled(level, expected, streams)
    return Equality(
        level=level,
        expected=expected,
        ok=itself.level is level is Level.UNKNOWN or _kept(level, expected, reproducible=reproducible),
        max_abs=variant.max_abs,
        max_loss_diff=variant.max_loss,
        self_noise=noise,
        rng_changed=streams,
        notes=tuple(notes),
    )


def _levelled(level: Level, expected: Expected, streams: bool) -> Level:
    """A fix that must keep the random streams and does not is different, whatever the values say so far."""
    if streams and expected in (Expected.BITWISE, Expected.CLOSE):
        return Level.DIFFERENT
    return level


def _within(variant: Compared, band: Compared) -> bool:
    """Say whether a difference is no more than `NOISE` times another one, in weights and in losses."""
    if not variant.values_only:
        return False
    pairs = ((variant.max_abs, band.max_abs), (variant.max_loss, band.max_loss))
    return all(mine is not None and theirs is not None and mine <= NOISE * theirs for mine, theirs in pairs)


def _kept(level: Level, expected: Expected, *, reproducible: bool) -> bool:
    if expected is Expected.ANY:
        return True
    if expected is Expected.RNG:
        return level is not Level.DIFFERENT
    if expected is Expected.BITWISE and reproducible:
        return level is Level.BITWISE
    return level in (Level.BITWISE, Level.CLOSE, Level.BAND)
