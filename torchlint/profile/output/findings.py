"""Findings in words: what fixing each saves at most, the most saving first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from torchlint.base.records import frozen
from torchlint.profile.bounds import NEGLIGIBLE
from torchlint.profile.join import LOADING, NO_LOADER, NOT_SEEN, Aside, Costs, FindingCost
from torchlint.profile.output.content import Content
from torchlint.profile.output.forecast import of_finding
from torchlint.profile.output.run import again, proof
from torchlint.profile.output.table import kind_words, measure, part, share, span
from torchlint.profile.statements import HEAVY
from torchlint.report.kit.terminal import BOLD, paint
from torchlint.report.kit.words import clipped, pluralise, visible

_LONGEST = 100
"""Characters of a finding's message that are shown."""
NEGLIGIBLE_WORDS = f"measured, negligible: below {100 * NEGLIGIBLE:g} % at most"
WITHOUT = "without a bound: "
_FEW = 5
"""Findings that are shown of those that are not worth a look, or whose worth is not known."""
BASES: Mapping[str, str] = {
    "wait": "without its waits",
    "copy": "without its copies and waits",
    "host": "without what the host does there",
    "launch": "with one launch for all of its own",
    "gpu": "without all it does",
    "upload": "without what the host does there",
    "sample": "without what the host does there",
    "loader": "without the waits for batches",
    "memory": "without the allocator's calls of the driver",
}
"""Effects of rules, in words."""
_SLOWER = 1.2
"""From which ratio on a bound is told as a part of both steps, with the profiler and without."""
_LINES, _WORTH = 3, 0.05
"""Lines of a batch that are named, each of this part of its time or more."""
_ALIKE = 1.03
"""From which ratio on it is told what a statement takes with what it calls, beside its line's own.
"""
_KEEPS = ("TL501", "TL502")
"""Rules about graphs that stay alive: memory may grow."""
_ARITHMETIC = ("launch", "gpu")
"""Effects that take out, of a CPU's trace, what fixing may leave."""


@frozen
class Told:
    """Findings of one line that say the same, as one: the first of them, and how many there are."""

    cost: FindingCost
    count: int


def bounded(content: Content, costs: Costs, color: bool) -> Iterator[str]:
    """Yield the section on findings that have a bound, where there are any.

    Args:
        content: what is shown.
        costs: the findings.
        color: whether a terminal takes colours.
    """
    measured, negligible, _ = parts(costs)
    if not measured and not negligible:
        return
    yield ""
    yield paint(f"findings: {together(costs)}", BOLD, color)
    for told in measured[: content.top]:
        yield f"{paint(saves(told.cost, costs), BOLD, color)}  {_finding(told)}"
        yield from (f"  {visible(words)}" for words in details(content, costs, told.cost))
    yield from _more(measured, content.top)
    if negligible:
        yield from _listed(content, costs, NEGLIGIBLE_WORDS, negligible)


def details(content: Content, costs: Costs, cost: FindingCost) -> Iterator[str]:
    """Yield what is told of a finding that is worth a look: what its bound rests on, what a batch
    goes into, what is predicted, and the command that proves its fix."""
    proved = proof(cost, content.steps)
    command = "" if proved is None else f"prove its fix: {proved}"
    predicted = of_finding(cost, content.predicted)
    yield from filter(None, (basis(cost, costs), batches(content, cost), predicted, command))


def batches(content: Content, cost: FindingCost) -> str:
    """Return what a batch goes into, of a finding whose bound is the wait for it, and what says
    whether workers help; empty for others."""
    waits = cost.effect == "loader" or (cost.effect == "sample" and cost.seen is not True)
    if cost.effect not in LOADING or not waits or cost.worker_ns is not None:
        return ""
    found = [
        f"{one.cost.site.file}:{one.cost.site.line} ({share(one.share, 1)})"
        for one in content.loading
        if one.share >= _WORTH
    ]
    workers = content.workers
    if workers is not None and workers.timed_batch:
        found = [
            f"{line.file}:{line.line} ({share(line.ns, workers.timed_batch)})"
            for line in workers.lines
            if line.ns >= _WORTH * workers.timed_batch
        ]
    goes = f"a batch goes into {', '.join(found[:_LINES])}" if found else ""
    command = again(content.steps, "--sweep-workers")
    if command is None:
        return goes
    asked = f"{command} says whether {'more ' * (workers is not None)}workers help"
    return "; ".join(filter(None, (goes, asked)))


def unbounded(content: Content, costs: Costs) -> Iterator[str]:
    """Yield the section on findings that have no bound, where there are any; arguments as of
    `bounded`."""
    for at, (why, found) in enumerate(parts(costs)[2].items()):
        if not at:
            yield ""
        yield from _listed(content, costs, f"{WITHOUT}{why}", found)
    command = memory(content, costs)
    if command:
        yield f"whether memory grows from step to step: {visible(command)}"


def memory(content: Content, costs: Costs) -> str:
    """Return the command that says whether memory grows, where a finding without a bound is about
    graphs that stay alive, and changes of memory were not recorded; else empty."""
    keeps = any(
        cost.bound is None and cost.finding.code in _KEEPS and cost.seen is not False
        for cost in costs.each
    )
    if not keeps or content.growth is not None:
        return ""
    return again(content.steps, "--memory") or ""


def parts(costs: Costs) -> tuple[list[Told], list[Told], dict[str, list[Told]]]:
    """Return the findings that are worth a look, those that are negligible, and by reason those
    that have no bound, the most costly lines first."""
    measured = [cost for cost in costs.each if cost.bound and not costs.negligible(cost)]
    negligible = [cost for cost in costs.each if costs.negligible(cost)]
    others: dict[str, list[FindingCost]] = {}
    for cost in costs.each:
        if cost.bound is None:
            others.setdefault(cost.why, []).append(cost)
    for found in others.values():
        found.sort(key=lambda cost: (-_heavy(cost, costs), -cost.most_ns))
    first = sorted(others.items(), key=lambda of: -_heavy(of[1][0], costs))
    return _grouped(measured), _grouped(negligible), {why: _grouped(found) for why, found in first}


def others(costs: Costs) -> dict[str, list[Told]]:
    """Return the findings of which no more than a line is told, by what they have in common."""
    _, negligible, unknown = parts(costs)
    found = {f"{WITHOUT}{why}": told for why, told in unknown.items()}
    return {NEGLIGIBLE_WORDS: negligible, **found} if negligible else found


def _heavy(cost: FindingCost, costs: Costs) -> int:
    """Return what a finding's statement takes with all that it calls, where that is much."""
    took = cost.inclusive_ns or 0
    return took if took >= HEAVY * costs.span else 0


def _grouped(found: Iterable[FindingCost]) -> list[Told]:
    same: dict[tuple[str, int, str, str], list[FindingCost]] = {}
    for cost in found:
        one = cost.finding
        same.setdefault((one.filename, one.start.row, one.code, one.message), []).append(cost)
    return [Told(equal[0], len(equal)) for equal in same.values()]


def count(found: Iterable[Told]) -> int:
    """Return how many findings there are."""
    return sum(told.count for told in found)


def together(costs: Costs) -> str:
    """Return what fixing all findings saves at most."""
    return (
        f"fixing all saves at most {part(costs.joint, costs.whole)} of {measure(costs.whole)}; "
        f"those that have a fix, at most {part(costs.fixable, costs.whole)}"
    )


def saves(cost: FindingCost, costs: Costs) -> str:
    """Return what fixing a finding alone saves at most."""
    assert cost.bound is not None
    return f"at most {part(cost.bound.alone_ns, costs.whole)}"


def basis(cost: FindingCost, costs: Costs) -> str:
    """Return what a bound rests on, and what it is once all others are fixed."""
    assert cost.bound is not None
    words = BASES.get(cost.effect, cost.effect)
    if cost.effect == "sample" and cost.seen is not True:
        words = BASES["loader"]
    if cost.worker_ns is not None:
        words = f"without the {span(cost.worker_ns)} that it takes a worker for a batch"
    elif not costs.device and cost.effect in _ARITHMETIC:
        words = "without all it does on this CPU, although its arithmetic may stay"
    waited = "" if cost.wait is None else f"; it waits {part(cost.wait.waited, costs.recorded)}"
    joint = cost.bound.joint_ns
    once = (
        "" if joint == cost.bound.alone_ns else f"; {part(joint, costs.whole)} once all others are"
    )
    sure = cost.cost is None or cost.cost.site.certainty != "aligned"
    probably = "" if sure else "; its calls are probably those of the line"
    return f"{words}{waited}{_part_of_step(cost, costs)}{once}{probably}"


def _part_of_step(cost: FindingCost, costs: Costs) -> str:
    """Return which part of a step under the profiler a bound is, where that is another one than of
    a step without it, with which bounds are compared."""
    alone = cost.bound.seen_ns if cost.bound is not None and cost.worker_ns is None else 0
    if not alone or costs.span <= _SLOWER * costs.whole.ns:
        return ""
    return f", {share(alone, costs.span)} of a step under the profiler"


def _listed(content: Content, costs: Costs, why: str, found: Sequence[Told]) -> Iterator[str]:
    yield f"{pluralise(count(found), 'finding')} {why}"
    top = min(content.top, _FEW)
    for told in found[:top]:
        takes, *rest = notes(content, costs, told.cost)
        words = _finding(told)
        if takes and not words.endswith("..."):
            words = words.removesuffix(".")
        yield f"  {words}{'; ' * bool(takes)}{takes}"
        yield from (f"    {visible(line)}" for line in rest if line)
    yield from (f"  {line}" for line in _more(found, top))


def notes(content: Content, costs: Costs, cost: FindingCost) -> tuple[str, str, str]:
    """Return what is told of a finding that is listed: what its line takes, what is predicted, and
    the command that proves its fix; empty where there is nothing."""
    known = cost.bound is not None or cost.why in (NOT_SEEN, NO_LOADER)
    command = None if known else proof(cost, content.steps)
    return (
        line_takes(cost, costs),
        of_finding(cost, content.predicted),
        f"prove its fix: {command}" if command is not None else "",
    )


def line_takes(cost: FindingCost, costs: Costs) -> str:
    """Return what the most costly line of a finding takes, and what its statement does with all
    that it calls, where that is worth a word; of one that ran only in steps of another kind what
    fixing it saves of these."""
    if cost.aside is not None:
        return aside(cost.aside)
    took, line = _heavy(cost, costs), 0 if cost.cost is None else cost.cost.host_ns
    words = f"with what it calls {part(took, costs.recorded)}" if took > _ALIKE * line else ""
    if cost.most_ns >= NEGLIGIBLE * costs.span:
        own = f"its line takes {part(cost.most_ns, costs.recorded)}"
        words = ", ".join(filter(None, (own, words)))
    return words


def aside(of: Aside) -> str:
    """Return what fixing a finding saves of steps of another kind."""
    of_what = f"{measure(of.whole)} under the profiler, of those {kind_words(of.kind)}"
    if of.alone_ns is None:
        return f"it ran in {of_what}"
    return f"saves at most {part(of.alone_ns, of.whole)} of {of_what}"


def _more(found: Sequence[Told], top: int) -> Iterator[str]:
    if len(found) > top:
        yield f"and {count(found[top:])} more"


def _finding(told: Told) -> str:
    one = told.cost.finding
    times = f" ({told.count} times)" if told.count > 1 else ""
    at = f"{one.filename}:{one.start.row}"
    return visible(f"{at}: {one.code} {clipped(one.message, _LONGEST)}{times}")
