"""What ran only in steps of another kind than the others: it is told of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torchlint.base.records import frozen
from torchlint.profile.bounds import Whole
from torchlint.profile.join import NOT_SEEN, Aside, Costs, FindingCost, Found, joined
from torchlint.profile.lines import LineCost, Lines
from torchlint.profile.places import Places
from torchlint.profile.waits import waits
from torchlint.trace.division import Division

ELSEWHEN = "the line ran only in steps of another kind"


@frozen
class Elsewhen:
    """Places that ran only in steps of another kind, the most costly first, and the time of these,
    which they are told as parts of; the kind as `torchlint.trace.typical.kind_of` names it."""

    kind: str
    lines: tuple[LineCost, ...]
    whole: Whole


def elsewhen(
    costs: Costs,
    effects: Mapping[str, tuple[str, bool]],
    on: Found,
    everywhere: Places,
    parts: Division,
) -> tuple[Costs, tuple[Elsewhen, ...]]:
    """Return findings, with what those cost that ran only in steps of another kind; and by kind the
    places that did.

    Args:
        costs: of the steps that are like each other.
        effects: what fixing a rule's findings takes out, as for `joined`.
        on: what they were joined with.
        everywhere: the places of the whole trace.
        parts: its steps, some of them of another kind.
    """
    known = {line.site for line in on.lines}
    each, found = list(costs.each), []
    for kind, steps in parts.kinds.items():
        time = sum(part.time for part in steps)
        whole = Whole(time, len(steps))
        places = everywhere.within(parts.spans(everywhere.trace, steps))
        lines = Lines(places, on.replay).each
        there = Found(on.replay, places, waits(on.replay, places, 0, time), lines, whole)
        absent = [cost.finding for cost in each if cost.why == NOT_SEEN]
        ran = {id(cost.finding): cost for cost in joined(absent, effects, there).each if cost.seen}
        each = [_with_other_steps(cost, ran.get(id(cost.finding)), kind, whole) for cost in each]
        found.append(Elsewhen(kind, tuple(one for one in lines if one.site not in known), whole))
        known |= {line.site for line in lines}
    return replace(costs, each=tuple(each)), tuple(found)


def _with_other_steps(
    cost: FindingCost, there: FindingCost | None, kind: str, whole: Whole
) -> FindingCost:
    """Return what a finding costs, with what it costs in steps of a kind, where it ran in these."""
    if there is None:
        return cost
    alone = None if there.bound is None else there.bound.alone_ns
    return replace(cost, seen=True, why=ELSEWHEN, aside=Aside(kind, alone, whole))
