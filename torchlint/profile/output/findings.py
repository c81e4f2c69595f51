"""Findings in words: what mending each saves at most, the most saving first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from torchlint.profile.bounds import NEGLIGIBLE
from torchlint.profile.join import Costs, FindingCost
from torchlint.profile.live import Steps
from torchlint.profile.output.run import proof
from torchlint.profile.output.table import share, span
from torchlint.report.kit.terminal import BOLD, paint
from torchlint.report.kit.words import clipped, pluralise, visible

_LONGEST = 100
"""Characters of a finding's message that are shown."""
BASES: Mapping[str, str] = {
    "wait": "without its waits",
    "copy": "without its copies and waits",
    "host": "without what the host does there",
    "launch": "with one launch for all of its own",
    "gpu": "without all it does",
    "loader": "without the waits for batches",
    "memory": "without the allocator's calls of the driver",
}
"""Effects of rules, in words."""


def findings(costs: Costs, top: int, color: bool, steps: Steps | None = None) -> Iterator[str]:
    """Yield the section on findings, where there are any.

    Args:
        costs: the findings.
        top: how many of each kind are shown.
        color: whether a terminal takes colours.
        steps: what a run of the program says, where it was run.
    """
    if not costs.each:
        return
    measured, negligible, others = parts(costs)
    yield ""
    if measured or negligible:
        yield paint(f"findings: {together(costs)}", BOLD, color)
    for cost in measured[:top]:
        yield f"{paint(saves(cost, costs), BOLD, color)}  {_finding(cost)}"
        yield f"  {basis(cost, costs)}"
        command = proof(cost, steps)
        if command is not None:
            yield f"  prove its fix: {visible(command)}"
    yield from _more(measured, top)
    if negligible:
        count = pluralise(len(negligible), "finding")
        yield f"{count} measured, negligible: below {100 * NEGLIGIBLE:g} % at most"
        yield from _listed(negligible, top)
    for why, found in others.items():
        yield f"{pluralise(len(found), 'finding')} without a bound: {why}"
        yield from _listed(found, top)


def parts(
    costs: Costs,
) -> tuple[list[FindingCost], list[FindingCost], dict[str, list[FindingCost]]]:
    """Return the findings that are worth a look, those that are negligible, and by reason those
    that have no bound."""
    measured = [cost for cost in costs.each if cost.bound and not costs.negligible(cost)]
    negligible = [cost for cost in costs.each if costs.negligible(cost)]
    others: dict[str, list[FindingCost]] = {}
    for cost in costs.each:
        if cost.bound is None:
            others.setdefault(cost.why, []).append(cost)
    return measured, negligible, others


def together(costs: Costs) -> str:
    """Return what mending all findings saves at most."""
    return (
        f"mending all saves at most {_part(costs.joint, costs)} of {span(costs.span)}; those that "
        f"have a fix, at most {_part(costs.fixable, costs)}"
    )


def saves(cost: FindingCost, costs: Costs) -> str:
    """Return what mending a finding alone saves at most."""
    assert cost.bound is not None
    return f"at most {_part(cost.bound.alone_ns, costs)}"


def basis(cost: FindingCost, costs: Costs) -> str:
    """Return what a bound rests on, and what it is once all others are mended."""
    assert cost.bound is not None
    words = BASES.get(cost.effect, cost.effect)
    waited = "" if cost.wait is None else f"; it waits {_part(cost.wait.waited, costs)}"
    joint = cost.bound.joint_ns
    once = "" if joint == cost.bound.alone_ns else f"; {_part(joint, costs)} once all others are"
    sure = cost.cost is None or cost.cost.site.certainty != "aligned"
    return f"{words}{waited}{once}{'' if sure else '; its calls are probably those of the line'}"


def _part(time: int, costs: Costs) -> str:
    return f"{span(time)} ({share(time, costs.span)})"


def _listed(found: list[FindingCost], top: int) -> Iterator[str]:
    yield from (f"  {_finding(cost)}" for cost in found[:top])
    yield from (f"  {line}" for line in _more(found, top))


def _more(found: list[FindingCost], top: int) -> Iterator[str]:
    if len(found) > top:
        yield f"and {len(found) - top} more"


def _finding(cost: FindingCost) -> str:
    one = cost.finding
    at = f"{one.filename}:{one.start.row}"
    return visible(f"{at}: {one.code} {clipped(one.message, _LONGEST)}")
