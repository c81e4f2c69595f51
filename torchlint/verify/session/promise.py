"""Whether two runs agree as a fix promises: the one judge of all modes.

The comparing process (`inside.equality`) says how far results agree. Here the original's own noise
is excused, and what is left is held against the promise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from torchlint.base.records import frozen
from torchlint.verify.model import Equality, Expected, Level

NOISE = 3.0
"""How often the original's difference from itself, or from its shaken self, a variant may
differ."""
_ORDER = (
    Level.UNKNOWN,
    Level.BITWISE,
    Level.CLOSE,
    Level.BAND,
    Level.DISTRIBUTION,
    Level.DIFFERENT,
)
_APART = (Level.DIFFERENT, Level.DISTRIBUTION)
_KEEPING: Mapping[Expected, tuple[Level, ...]] = {
    Expected.BITWISE: (Level.BITWISE,),
    Expected.CLOSE: (Level.BITWISE, Level.CLOSE, Level.BAND),
    Expected.RNG: (Level.BITWISE, Level.CLOSE, Level.BAND, Level.DISTRIBUTION),
    Expected.ANY: tuple(Level),
}
_MOST_NOTES = 12


@frozen
class Comparison:
    """Two runs side by side.

    Args:
        level: how far their results agree.
        largest: the largest absolute difference by kind of result; None where it is not finite, or
            none was measured.
        notes: what differs, in words.
        rng_changed: whether a random stream ends in another state; None where nobody looked.
        different: the places that differ beyond rounding, ``"path|fact"``.
        facts: what a caller sees differ besides values: strides, ``requires_grad`` ...
        steps: of both runs, where they are training programs: what these compute are numbers, their
            noise has a bound. A function may as well return the time of day as a text. None of
            functions and examples.
        effects: what a call did besides returning a value that differs: output, files ...
        values: how far results agree, wherever random streams end; None where nobody looked.
    """

    level: Level
    largest: Mapping[str, float] | None = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rng_changed: bool | None = False
    different: frozenset[str] = frozenset()
    facts: tuple[str, ...] = ()
    steps: tuple[int, int] | None = None
    effects: tuple[str, ...] = ()
    values: Level | None = None

    @property
    def max_abs(self) -> float | None:
        """The largest difference: of training programs that of a weight."""
        if self.largest is None:
            return None
        return (
            max(self.largest.values(), default=0.0)
            if self.steps is None
            else self.largest.get("weights", 0.0)
        )

    @property
    def max_loss(self) -> float | None:
        """The largest difference of a loss."""
        return None if self.largest is None or self.steps is None else self.largest.get("loss", 0.0)

    @property
    def band(self) -> float:
        """The absolute difference that counts as close, if this is the original against itself."""
        return NOISE * (self.max_abs or 0.0)

    def within(self, other: Comparison) -> bool:
        """Say whether nothing but numbers differs, and each kind no more than `NOISE` times as far
        as in another."""
        if self.largest is None or other.largest is None:
            return False
        if not all(place.endswith("|value") for place in self.different):
            return False
        return all(
            gap <= NOISE * other.largest.get(name, 0.0) for name, gap in self.largest.items()
        )


def comparison(raw: Mapping[str, Any], steps: tuple[int, int] | None = None) -> Comparison:
    """Return an answer of `inside.equality` as a value."""
    return Comparison(
        Level(raw["level"]),
        raw.get("max_abs_by_name", {}) if raw.get("max_abs") is not None else None,
        tuple(raw.get("notes", ())),
        raw.get("rng_changed"),
        frozenset(raw.get("different", ())),
        tuple(raw.get("facts", ())),
        steps,
        tuple(raw.get("effects", ())),
        Level(raw["values"]) if "values" in raw else None,
    )


def judged(
    compared: Comparison,
    itself: Comparison,
    expected: Expected,
    *,
    shaken: Comparison | None = None,
    safe: bool = False,
    whole: bool = False,
) -> Equality:
    """Say how far a variant's results agree with the original's, and whether that keeps its
    promise.

    Args:
        compared: the original against the variant.
        itself: the original against itself.
        expected: what the fix promises.
        shaken: the original against itself with initial weights times 1 + 2**-20; None where not
            run.
        safe: a safe fix also keeps strides, ``requires_grad`` and all else that a caller can see.
        whole: a whole version may draw numbers that nothing computed with yet, such as those of the
            next batch.
    """
    seen = compared.values if whole and compared.values is not None else compared.level
    level, notes = seen, list(compared.notes)
    reproducible = itself.level in (Level.BITWISE, Level.UNKNOWN)
    if not reproducible:
        notes.append("the original does not reproduce itself")
        if level in _APART and compared.within(itself):
            level = Level.CLOSE
            notes = [  # by how much which tensor differs is noise
                *compared.facts,
                notes[-1],
                "no further from the original than the original is from itself: seed each random "
                "stream and each process to see more",
            ]
        elif level in _APART and compared.steps is None and compared.different <= itself.different:
            level = Level.UNKNOWN
    excused = level is not seen or itself.level is Level.UNKNOWN
    if level in _APART and shaken is not None and compared.within(shaken):
        level = Level.BAND
    streams = bool(compared.rng_changed) and not itself.rng_changed
    if compared.steps is not None and compared.steps[0] != compared.steps[1]:
        notes.append(f"{compared.steps[0]} steps before, {compared.steps[1]} after")
        level = Level.DIFFERENT
    if streams and not whole and expected in (Expected.BITWISE, Expected.CLOSE):
        level = Level.DIFFERENT
    promise = Expected.CLOSE if expected is Expected.BITWISE and not reproducible else expected
    kept = level in _KEEPING[promise] or (level is Level.UNKNOWN and excused)
    return Equality(
        level=level,
        expected=expected,
        ok=kept and not (safe and compared.facts),
        max_abs=compared.max_abs,
        max_loss_diff=compared.max_loss,
        self_noise=0.0 if itself.level is Level.BITWISE else itself.max_abs,
        rng_changed=None if compared.rng_changed is None else streams,
        notes=tuple(notes),
        excused=level is not seen and level is Level.CLOSE,
    )


def together(found: Sequence[tuple[str, Equality]]) -> Equality:
    """Return one answer for several comparisons (seeds, examples): the worst level, every note
    under its title."""
    worst = max(
        (each for _, each in found), key=lambda each: (not each.ok, _ORDER.index(each.level))
    )
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
