"""Which versions of a project are compared with the original."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from torchlint.api import Document
from torchlint.base.records import frozen
from torchlint.verify.fixes import FixUnit, applied, joined
from torchlint.verify.model import Speed, VariantResult

MANY = 8
"""More units than this are first measured by rule; only groups that moved are split."""
ORIGINAL = "original"
NULL = "null control"
ALL = "all"


@frozen
class Variant:
    """One version: `unit` is what it changes, None for the original and its byte-identical copy.

    kind: "original", "null", "single", "group" or "all"; "version" of a unit that is a
    whole version of the project.
    called: what an "all" is called that does not hold all.
    """

    name: str
    kind: str
    unit: FixUnit | None = None
    ids: tuple[str, ...] = ()
    called: str = "all together"

    @property
    def title(self) -> str:
        """What it does, for the report."""
        return self.called if self.kind == "all" or self.unit is None else self.unit.title

    @property
    def where(self) -> str:
        """The one place that it changes; empty for bundles of many."""
        return self.unit.where if self.unit is not None and self.kind == "single" else ""

    def result(self, speed: Speed, **known: Any) -> VariantResult:
        """Return its result: the speed, and what else is known, by the names of the fields."""
        note = "" if self.unit is None else self.unit.note
        return VariantResult(
            self.name, self.kind, self.ids, self.title, self.where, speed, note=note, **known
        )


def planned(units: Sequence[FixUnit], ablation: str) -> list[Variant]:
    """Return the variants of a first round, original and null control first, all together last.

    Args:
        units: the fixes.
        ablation: "each" or "auto" (every fix alone), "none" (all together only), "alone" (every
            fix alone, and no other).
    """
    base = [Variant(ORIGINAL, "original"), Variant(NULL, "null")]
    if not units:
        return base
    if ablation == "none":
        return [*base, together(units)]
    if len(units) == 1 or ablation == "alone":
        return [*base, *map(single, units)]
    grouped = groups(units)
    if len(units) > MANY and len(grouped) > 1:
        return [*base, *grouped, together(units)]
    return [*base, *map(single, units), together(units)]


def sound(
    variants: Sequence[Variant], documents: Mapping[str, Document]
) -> tuple[list[Variant], list[str]]:
    """Return the variants whose text is Python, and in words the others: two fixes may empty one
    block together."""
    kept, notes = [], []
    for variant in variants:
        try:
            applied([variant.unit] if variant.unit is not None else [], documents)
        except ValueError as error:
            notes.append(f"{variant.name} is not compared: {error}")
        else:
            kept.append(variant)
    return kept, notes


def together(units: Sequence[FixUnit], called: str = "all together") -> Variant:
    """Return one variant that holds several units."""
    return Variant(ALL, "all", joined(units, ALL), tuple(unit.id for unit in units), called)


def single(unit: FixUnit) -> Variant:
    """Return the variant that holds one unit; what no rule made is a whole version."""
    if not unit.codes:
        return Variant(unit.id, "version", unit, (unit.id,))
    return Variant(f"fix:{unit.id}", "single", unit, (unit.id,))


def groups(units: Sequence[FixUnit]) -> list[Variant]:
    """Return one variant per rule, or per bundle of rules."""
    ordered = sorted(units, key=lambda unit: unit.codes)
    found = []
    for codes, members in groupby(ordered, key=lambda unit: unit.codes):
        same = list(members)
        if len(same) == 1:
            found.append(single(same[0]))
        else:
            name = f"group:{'+'.join(codes)}"
            found.append(
                Variant(name, "group", joined(same, name), tuple(unit.id for unit in same))
            )
    return found
