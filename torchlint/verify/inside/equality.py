"""How far two runs agree, in everything a caller can see.

Both runs write a snapshot (see `snapshot`) in their own process and a third one compares the files.
Two versions of one module cannot live in one interpreter without disturbing each other, and a file
keeps what it says when the run that wrote it crashes afterwards.

Levels are the words of the report: "bitwise", "close" (defaults of ``torch.testing.assert_close``
for the dtype), "same distribution, different random numbers", "different", "not compared".
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

from .effects import NAMES as EFFECTS
from .snapshot import MARK, OF_MODULE, Leaf, snapshot, top

BITWISE, CLOSE = "bitwise", "close"
DISTRIBUTION = "same distribution, different random numbers"
DIFFERENT, UNKNOWN = "different", "not compared"
ORDER = (BITWISE, CLOSE, DISTRIBUTION, DIFFERENT)
NOTES = 12
"""The most notes; the rest is counted."""
MOST_PLACES = 2000
_FACTS = (
    "type",
    "layout",
    "stride",
    "requires_grad",
    "is_leaf",
    "same object as",
    "memory shared with",
    "inference",
    "coalesced",
    "writeable",
)
"""What a caller can see of a value besides its numbers; a difference is noted and does not lower
the level."""
_HARD_FACTS = ("dtype", "shape", "device", "text", "order", "hooks", "retains_grad")
"""What makes two leaves different, whatever a fix promises."""
_NAMED = ("order", "hooks", "retains_grad")
_NUMBER = re.compile(r"[-+]?\d+\.\d*(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+")
"""A floating-point number in a text; whole numbers are compared as text."""
_SIGMAS = 5.0
"""Standard errors within which means and standard deviations of redrawn numbers agree."""
_FEW = 8
"""Numbers below which a distribution cannot be told from another."""


class Comparer:
    """Two snapshots, compared leaf by leaf.

    Args:
        band: absolute difference that counts as close whatever the dtype: three times what the
            original differs from itself.
        redrawn: whether other random numbers are allowed: then values that differ are compared as
            samples.
        shared: whether to leave out top-level names that only one side has; a module's own
            variables that only the second side has are left out in any case, for a fix may need one
            more.
        ignored: top-level names that are not compared: effects in which the original differs from
            itself.
        anywhere: whether a value may lie on another device; that it does is noted.
    """

    def __init__(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        *,
        band: float = 0.0,
        redrawn: bool = False,
        shared: bool = False,
        ignored: Collection[str] = (),
        anywhere: bool = False,
    ) -> None:
        self.before, self.after, self.band, self.shared = before, after, band, shared
        self.ignored = ignored
        self.noted = ("device", *_FACTS) if anywhere else _FACTS
        self.level = self.values = BITWISE
        self.notes: list[str] = []
        self.facts: list[str] = []
        self.unseen: list[str] = []
        self.different: list[str] = []
        self.largest: dict[str, float] = {}
        self.infinite = False
        self.generators = list(_other_generators(before.get("rng", {}), after.get("rng", {})))
        self.asked = redrawn
        self.redrawn = redrawn or bool(self.generators)
        self._compare()

    def result(self) -> dict[str, Any]:
        """Return level, max_abs, notes, facts, rng_changed, and where they differ
        (``"path|fact"``)."""
        notes = _folded([*self.notes, *self.facts, *self.generators, *self.unseen])
        if len(notes) > NOTES:
            notes = [*notes[:NOTES], f"and {len(notes) - NOTES} more differences"]
        known = self.level != UNKNOWN and not self.infinite
        return {
            "level": self.level,
            "values": self.values,
            "max_abs": max(self.largest.values(), default=0.0) if known else None,
            "max_abs_by_name": self.largest,
            "notes": notes,
            "facts": self.facts[:NOTES],
            "different": self.different[:MOST_PLACES],
            "effects": sorted(
                {top(place.partition("|")[0]) for place in self.different} & {*EFFECTS}
            ),
            "rng_changed": bool(self.generators),
        }

    def _compare(self) -> None:
        left, right = self.before["values"], self.after["values"]
        first = {top(path) for path in left}
        both = first & {top(path) for path in right}
        left, right = (
            {path: leaf for path, leaf in side.items() if self._counts(top(path), both, first)}
            for side in (left, right)
        )
        for path in left:
            if path in right:
                self._leaf(path, left[path], right[path])
        # Below a container of other length or keys that was said already.
        for path in [p for p in (*left, *right) if (p in left) != (p in right)]:
            if path.endswith(".grad") and _zero(left.get(path) or right[path]):
                # As zero_grad() leaves it: what is computed stays, but a caller sees it.
                self.facts.append(
                    f"{path}: zeros in the {'original' if path in left else 'fixed'} run, else None"
                )
                continue
            said = bool(self.notes)
            self._different(
                path, "presence", f"only in the {'original' if path in left else 'fixed'} run"
            )
            if said:
                self.notes.pop()
        self.values = self.level
        if self.generators:
            self._worse(DISTRIBUTION)

    def _counts(self, name: str, both: set[str], first: set[str]) -> bool:
        if name in self.ignored:
            return False
        return name in both or not (
            self.shared or (name.startswith(OF_MODULE) and name not in first)
        )

    def _worse(self, level: str) -> None:
        self.level = max(self.level, level, key=ORDER.index)

    def _different(self, path: str, fact: str, words: str) -> None:
        self._worse(DIFFERENT)
        self.different.append(f"{path}|{fact}")
        self.notes.append(f"{path}: {words}")

    def _leaf(self, path: str, left: Leaf, right: Leaf) -> None:
        if left["kind"] != right["kind"] or (
            left["kind"] != "tensor" and left["type"] != right["type"]
        ):
            self._different(path, "type", f"{left['type']} and {right['type']}")
            return
        if left.get("unseen") and right.get("unseen") and not path.startswith(OF_MODULE):
            self.unseen.append(f"{path}: what a {left['type']} holds is not compared")
        if top(path) in EFFECTS and left["kind"] == "plain":
            self._text(path, left["text"], right["text"])
            return
        hard = (fact for fact in _HARD_FACTS if fact not in self.noted)
        facts = [fact for fact in hard if left.get(fact) != right.get(fact)]
        for fact in facts if "text" not in facts else [fact for fact in facts if fact != "order"]:
            name = f"{fact} " if fact in _NAMED else ""
            self._different(path, fact, f"{name}{_shown(left, fact)} and {_shown(right, fact)}")
        for fact in self.noted:
            if left.get(fact) != right.get(fact):
                self.facts.append(f"{path}: {fact} {left.get(fact)} and {right.get(fact)}")
        a, b = left.get("value"), right.get("value")
        if a is not None and b is not None and a.shape == b.shape:
            self._values(path, a, b, left["kind"] == "number")

    def _text(self, path: str, left: str, right: str) -> None:
        """Compare what was printed: numbers in it as numbers, to the last digit that is shown."""
        if left == right:
            return
        lines = itertools.zip_longest(left.splitlines(), right.splitlines(), fillvalue="")
        for number, (one, other) in enumerate(lines, 1):
            if one != other and not _same_numbers(one, other):
                self._different(
                    path, "text", f"line {number}: {_short(one)!r} and {_short(other)!r}"
                )
                return
        if left.splitlines() == right.splitlines():
            self._different(path, "text", "other line ends")
        else:
            self._worse(CLOSE)

    def _values(self, path: str, a: torch.Tensor, b: torch.Tensor, number: bool) -> None:
        if a.dtype == b.dtype and _same_bits(a, b):
            return
        gap = _largest_difference(a, b)
        name = top(path)
        if math.isfinite(gap):
            self.largest[name] = max(self.largest.get(name, 0.0), gap)
        else:
            self.infinite = True
        if a.dtype != b.dtype:
            return  # said already
        if _is_close(a, b, number) or gap <= self.band:
            self._worse(CLOSE)
        elif self.redrawn and _same_distribution(a, b):
            self._worse(DISTRIBUTION)
            if a.numel() < _FEW and self.asked:
                self.notes.append(f"{path}: too few numbers to compare how they are distributed")
        else:
            self._different(path, "value", _gap_in_words(a, b, gap))


def _folded(notes: list[str]) -> list[str]:
    """Join notes that say the same of places under one name: ``losses[0]: is_leaf False and True
    (and 3 more)``."""
    groups: dict[tuple[str, str], list[str]] = {}
    for note in notes:
        path, _, words = note.partition(": ")
        groups.setdefault((path.partition("[")[0].partition(".")[0], words), []).append(note)
    return [
        f"{same[0]} (and {len(same) - 1} more)" if len(same) > 1 else same[0]
        for same in groups.values()
    ]


def compare(before: Mapping[str, Any], after: Mapping[str, Any], **how: Any) -> dict[str, Any]:
    """Compare two snapshots; see `Comparer` for the arguments and its `result` for the answer."""
    return Comparer(before, after, **how).result()


def compare_files(before: str, after: str, **how: Any) -> dict[str, Any]:
    """Compare two files of ``torch.save``: snapshots, or plain containers of tensors and numbers.

    Returns:
        level, values (the same, wherever random streams end), max_abs, max_abs_by_name (by
        top-level key), notes, facts (visible differences that leave the values as they are),
        different (the places, ``"path|fact"``), effects (the names of effects among them),
        rng_changed. A file that cannot be read gives the level "not compared" and the reason.
    """
    read = []
    for path in (before, after):
        try:
            data = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            reason = f"{path}: {type(error).__name__}: {str(error).partition(chr(10))[0]}"
            nothing: dict[str, Any] = {"notes": [reason], "max_abs": None, "max_abs_by_name": {}}
            lists: dict[str, list[str]] = {"facts": [], "different": [], "effects": []}
            return {"level": UNKNOWN, **nothing, **lists, "rng_changed": None}
        marked = isinstance(data, dict) and MARK in data
        read.append(
            data if marked else snapshot(data if isinstance(data, dict) else {"value": data})
        )
    return compare(*read, **how)


def _other_generators(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for name in before:
        if name in after:
            a, b = before[name], after[name]
            if not (torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b):
                yield f"random numbers: the {name} generator ends in another state"


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say whether each number is the same to the sign of zero; one NaN is as good as another."""
    if a.is_complex():
        a, b = torch.view_as_real(a), torch.view_as_real(b)
    if not a.is_floating_point():
        return bool(torch.equal(a, b))
    wide_a, wide_b = _wide(a), _wide(b)
    same = (wide_a == wide_b) & (wide_a.signbit() == wide_b.signbit())
    return bool((same | (wide_a.isnan() & wide_b.isnan())).all())


def _wide(a: torch.Tensor) -> torch.Tensor:
    """Return real numbers as float64, in which every narrower float is exact."""
    if a.is_complex():
        a = torch.view_as_real(a)
    return a.to(torch.float64)


def _largest_difference(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the largest absolute difference; infinite where a NaN or an infinity meets a
    number."""
    wide_a, wide_b = _wide(a), _wide(b)
    if wide_a.shape != wide_b.shape or not wide_a.numel():
        return math.inf if wide_a.shape != wide_b.shape else 0.0
    alike = (wide_a == wide_b) | (wide_a.isnan() & wide_b.isnan())
    gap = torch.where(alike, 0.0, (wide_a - wide_b).abs())
    return float(gap.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _is_close(a: torch.Tensor, b: torch.Tensor, number: bool) -> bool:
    if number and not a.is_complex():
        # A Python float was most often read from a float32 tensor and carries that rounding.
        return bool(torch.allclose(a, b, rtol=1.3e-6, atol=1e-5, equal_nan=True))
    try:
        torch.testing.assert_close(a, b, equal_nan=True)
    except (AssertionError, NotImplementedError, RuntimeError):
        return False
    return True


def _same_distribution(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Say whether mean and standard deviation agree within sampling error, elements taken as
    independent.

    The standard error of a standard deviation s is sqrt((m4 / s**4 - 1) / n) * s / 2 with the
    fourth central moment m4 (the delta method on the variance of the sample variance).
    """
    wide_a, wide_b = _wide(a).flatten(), _wide(b).flatten()
    count = wide_a.numel()
    if not (wide_a.isfinite().all() and wide_b.isfinite().all()):
        return False
    if count < _FEW:
        return True
    (mean_a, sd_a, error_a), (mean_b, sd_b, error_b) = _moments(wide_a), _moments(wide_b)
    apart = abs(mean_a - mean_b) <= _SIGMAS * math.hypot(sd_a, sd_b) / math.sqrt(count)
    return apart and abs(sd_a - sd_b) <= _SIGMAS * math.hypot(error_a, error_b)


def _moments(sample: torch.Tensor) -> tuple[float, float, float]:
    """Return mean, standard deviation and the latter's standard error."""
    mean = sample.mean()
    centred = sample - mean
    variance = float(centred.square().mean())
    if variance == 0.0:
        return float(mean), 0.0, 0.0
    peaked = float(centred.pow(4).mean()) / variance**2
    spread = math.sqrt(variance)
    return float(mean), spread, spread / 2 * math.sqrt(max(peaked - 1, 0.0) / sample.numel())


def _same_numbers(one: str, other: str) -> bool:
    """Say whether two lines are one text whose floating-point numbers agree, to one in the last
    digit shown."""
    if _NUMBER.split(one) != _NUMBER.split(other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other))  # noqa: B905 - the texts between them are as many
    return all(
        abs(float(a) - float(b)) <= 1.01 * max(_last_digit(a), _last_digit(b)) for a, b in pairs
    )


def _last_digit(number: str) -> float:
    """Return what one in the last digit of a written number is worth: 0.01 for ``1.25``."""
    mantissa, _, exponent = number.lower().partition("e")
    places = len(mantissa.partition(".")[2])
    return float(10.0 ** (int(exponent or 0) - places))


def _zero(leaf: Leaf) -> bool:
    value = leaf.get("value")
    return value is not None and not bool(value.any())


def _gap_in_words(a: torch.Tensor, b: torch.Tensor, gap: float) -> str:
    if a.numel() == 1:
        return f"{_short(a.item())} and {_short(b.item())}"
    if not math.isfinite(gap):
        return "NaN or infinity on one side only"
    count = int((_wide(a) != _wide(b)).sum())
    return f"{count} of {_wide(a).numel()} numbers differ, by up to {gap:.3g}"


def _shown(leaf: Leaf, fact: str) -> str:
    return f"shape {tuple(leaf['shape'])}" if fact == "shape" else _short(leaf.get(fact))


def _short(value: object) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 80 else text[:77] + "..."
