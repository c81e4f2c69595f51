"""Which hits yield to others: to one of a rule that says more, or to an earlier one of the same
cause."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import libcst as cst

from torchlint.base.finding import Edit, Finding, Safety, TextFix
from torchlint.base.span import Span
from torchlint.engine.overlaps import touch
from torchlint.engine.placing import Placed
from torchlint.engine.waits import policy, weighed
from torchlint.fixes.notes import one_sentence
from torchlint.rule import Wait
from torchlint.semantic.module import Module

_MOST_TOGETHER = 40
"""Findings of one rule in one step from which on each keeps its own fix, as each would hold all
edits."""


def strongest(
    module: Module, found: Sequence[Placed], wanted: Collection[str]
) -> list[tuple[Placed, Placed | None]]:
    """Return each hit of a wanted rule, and the one that it yields to if there is one: of another
    rule, or an earlier one of its own with the same cause."""
    named = {code for each in found for code in each.rule.yields_to}
    strong = sorted((each for each in found if each.rule.code in named), key=_start)
    longest = max((each.span.end - each.span.start for each in strong), default=0)
    caused: dict[object, list[Placed]] = {}
    for each in strong:
        caused.setdefault(each.hit.cause, []).append(each)
    first: dict[tuple[str, object], Placed] = {}
    judged: list[tuple[Placed, Placed | None]] = []
    for each in found:
        if each.rule.code in wanted:
            low = bisect.bisect_left(strong, each.span.start - longest, key=_start)
            near = strong[low : bisect.bisect_right(strong, each.span.end, key=_start)]
            near += caused.get(each.hit.cause, ()) if each.hit.cause is not None else ()
            stronger = next((other for other in near if _yields(each, other)), None)
            if stronger is None and isinstance(each.hit.cause, Wait):
                same = first.setdefault((each.rule.code, each.hit.cause), each)
                stronger = same if same.span != each.span else None
            judged.append((each, stronger))
    return weighed(module, judged)


def _yields(weak: Placed, strong: Placed) -> bool:
    if strong.rule.code not in weak.rule.yields_to:
        return False
    causes = (weak.hit.cause, strong.hit.cause)
    if strong.span == weak.span or (causes[0] is not None and causes[0] == causes[1]):
        return True
    if weak.compound or strong.compound or all(isinstance(cause, Wait) for cause in causes):
        return False
    low, high = (
        (weak.span, strong.span)
        if weak.span.start >= strong.span.start
        else (strong.span, weak.span)
    )
    return high.start <= low.start and low.end <= high.end


def joined(first: Finding, other: Finding) -> Finding:
    """Return a finding whose fix also fixes another place of the same cause, where their edits do
    not meet and they are as safe."""
    one, two = first.fix, other.fix
    if one is None or two is None or one.safety is not two.safety or two.elsewhere or two.withheld:
        return first
    edits = [e for e in two.edits if e not in one.edits and not _begins(e, one.edits)]
    kept = [each for each in one.edits if not _begins(each, edits)]
    if any(touch(each, mine) for each in edits for mine in kept):
        return first
    whole = replace(
        one,
        title=_all_clauses(one.title, two.title).removesuffix("."),
        edits=tuple(sorted((*kept, *edits), key=lambda edit: edit.span)),
        note=_all_clauses(one.note, two.note),
        uses=(*one.uses, *two.uses),
        assumes=tuple(dict.fromkeys((*one.assumes, *two.assumes))),
    )
    return replace(first, fix=whole)


def _begins(edit: Edit, others: Iterable[Edit]) -> bool:
    """Say whether another edit does what one does, and goes on: the same test before a line, of
    which it changes more."""
    place = edit.span
    return place.start == place.end and any(
        other.span.start == place.start and other.text.startswith(edit.text) and other != edit
        for other in others
    )


def step_of(module: Module, placed: Placed) -> cst.CSTNode | None:
    """Return the loop in each iteration of which something is found, or the function in each call
    of which a wait or a copy is; None where it is in neither."""
    loop = module.loop(placed.hit.node)
    return loop or (module.function(placed.hit.node) if policy(placed).together else None)


def fixed_together(beside: Mapping[tuple[str, Span], Finding]) -> dict[tuple[str, Span], Finding]:
    """Return the findings of one rule in one step with the same fix for those that can be fixed
    together: to fix one alone saves next to nothing."""
    fixed = dict(beside)
    if len(beside) > _MOST_TOGETHER:
        return fixed
    for (code, span), finding in beside.items():
        for (_, its), other in beside.items():
            if _fixes_both(other, finding, (its.start, span.start)):
                fixed[code, span] = replace(finding, fix=other.fix)
    for safety in (Safety.SAFE, Safety.UNSAFE):
        members: list[tuple[str, Span]] = []
        for key, finding in list(fixed.items()):
            fix = finding.fix
            if fix is None or fix.safety is not safety or fix.withheld:
                continue
            if members:
                first = fixed[members[0]]
                whole = joined(first, finding)
                if whole is first:
                    continue
                fixed[members[0]] = whole
            members.append(key)
        for key in members:
            fixed[key] = replace(fixed[key], fix=fixed[members[0]].fix)
    return fixed


def parts_of_wider(beside: Mapping[tuple[str, Span], Finding]) -> dict[tuple[str, Span], Finding]:
    """Return the findings of one step with the fix of another one for those whose own is a part of
    it, as safe: to log more rarely, where a read beside the log is put off as well."""
    fixes = dict.fromkeys(each.fix for each in beside.values() if each.fix is not None)
    shared = dict(beside)
    for key, finding in beside.items():
        for wider in fixes if (fix := finding.fix) is not None else ():
            if fix and fix.safety is wider.safety and not wider.withheld and _part_of(fix, wider):
                shared[key] = replace(finding, fix=wider)
    return shared


def _part_of(fix: TextFix, wider: TextFix) -> bool:
    """Say whether a fix does what another one does, and less."""
    return not set(wider.edits) <= set(fix.edits) and all(
        edit in wider.edits or _begins(edit, wider.edits) for edit in fix.edits
    )


def _fixes_both(one: Finding, other: Finding, places: tuple[int, int]) -> bool:
    """Say whether the fix of a finding rewrites the place of another one too, whose own is as safe
    and does not rewrite the first one's; `places` are where the two start."""
    mine, theirs = one.fix, other.fix
    return (
        mine is not None
        and theirs is not None
        and mine.safety is theirs.safety
        and _rewrites(mine, places[1])
        and not _rewrites(theirs, places[0])
    )


def _rewrites(fix: TextFix, place: int) -> bool:
    return any(edit.span.start <= place < edit.span.end for edit in fix.edits)


def _all_clauses(one: str, two: str) -> str:
    """Return one sentence of the clauses of two sentences, each once."""
    once: dict[str, str] = {}
    for clause in (*one.removesuffix(".").split("; "), *two.removesuffix(".").split("; ")):
        once.setdefault(clause.lower(), clause)
    return one_sentence(once.values())


def _start(placed: Placed) -> int:
    return placed.span.start
