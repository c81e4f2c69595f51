"""Findings beside what was measured at their places, and what fixing them saves at most."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from torchlint.base.finding import Finding, Safety
from torchlint.base.records import frozen
from torchlint.profile.bounds import (
    Bound,
    Effects,
    Recording,
    Whole,
    bounds,
    ceiling,
    saved,
    together,
)
from torchlint.profile.lines import LineCost, about, extent
from torchlint.profile.places import Places
from torchlint.profile.replay import Dropped, Replay
from torchlint.profile.waits import Wait, Waits
from torchlint.trace.columns import CALL_CATS, OPERATOR, Ints
from torchlint.trace.intervals import length, union
from torchlint.trace.marks import recorded
from torchlint.trace.threads import training

_PLAYED = 40
"""Findings of which the trace is played alone; what others save is bounded more coarsely."""
LOADING = ("loader", "sample")
"""Effects that take out waits for batches. They are told without the place of the finding: of a
loader that was built before, or of samples whose lines the trace does not show."""
_FORWARD = ("wait", "copy", "host", "upload", "sample")
"""Effects that leave alone what autograd does for the statement."""
OF_DEVICE = ("wait", "copy", "upload", "memory")
"""Effects of what costs nothing where there is no device."""
ELSEWHERE = "the cost arises elsewhere than at the line"
NOT_SEEN = "not seen, the line did not run while the trace was recorded"
NOT_TOLD = "the line's own calls cannot be told from others of its function"
NO_DEVICE = "what fixing saves, only a trace of a GPU tells"
NO_LOADER = "not seen, no batch was waited for"
NO_LINES = "the trace names no lines"


@frozen
class FindingCost:
    """A finding, with what was measured in its statement.

    Args:
        finding: the finding.
        effect: what fixing it takes out, see `torchlint.base.declaration.Declaration`.
        default: whether its rule is on when nothing is selected.
        cost: what its most costly line cost; None where none is known to have run.
        wait: the wait in it, the most saving where there are several.
        bound: what fixing it saves at most; None where that is not known.
        seen: whether its statement ran; None where that is not known.
        why: why there is no bound; empty where there is one.
        worker_ns: nanoseconds of its statement for a batch in a worker of a DataLoader; None where
            that is not in its bound.
        inclusive_ns: nanoseconds of the training thread in its statement, with all that it calls;
            None where the trace names no lines.
        aside: what fixing it saves at most of steps of another kind; None where its statement ran
            in the others, or in none.
    """

    finding: Finding
    effect: str = "none"
    default: bool = True
    cost: LineCost | None = None
    wait: Wait | None = None
    bound: Bound | None = None
    seen: bool | None = None
    why: str = ""
    worker_ns: float | None = None
    inclusive_ns: int | None = None
    aside: Aside | None = None

    @property
    def most_ns(self) -> int:
        """Return the greatest of the times of its most costly line, in nanoseconds."""
        return 0 if self.cost is None else self.cost.most_ns

    @property
    def fixable(self) -> bool:
        """Whether torchlint can fix it."""
        fix = self.finding.fix
        return fix is not None and not fix.withheld and fix.safety is not Safety.SUGGESTION


@frozen
class Aside:
    """What fixing a finding saves at most of steps of another kind than the others; in
    nanoseconds, None where that is not known. `whole` is what it is told as a part of, the time of
    the steps of that kind."""

    kind: str
    alone_ns: int | None
    whole: Whole


@frozen
class Costs:
    """All findings, the most saving first; times in nanoseconds.

    `joint` is what fixing all of them saves at most, `fixable` what fixing those saves that
    torchlint can fix, of steps that took `span` when they were recorded; they are told as parts of
    `whole`. `device` says whether a device worked.
    """

    each: tuple[FindingCost, ...]
    joint: int
    fixable: int
    span: int
    device: bool
    whole: Whole

    @property
    def recorded(self) -> Whole:
        """Return what times are compared with that are no bounds: they were taken there."""
        return Whole(self.span, self.whole.steps)

    def share(self, cost: FindingCost) -> float:
        """Return which part of the run a finding's bound is; 0 where there is none."""
        return self.whole.share(cost.bound.alone_ns) if cost.bound is not None else 0.0

    def negligible(self, cost: FindingCost) -> bool:
        """Say whether a finding has a bound, and none that is worth a look."""
        bound = cost.bound
        return bound is not None and self.whole.small(max(bound.alone_ns, bound.joint_ns))


@frozen
class Found:
    """What a trace has to be asked of findings, and what bounds are compared with."""

    replay: Replay
    places: Places
    waits: Waits
    lines: Sequence[LineCost]
    whole: Whole

    @property
    def span(self) -> int:
        """Return the nanoseconds of what is looked at, as it was recorded."""
        return self.waits.span


def joined(
    findings: Sequence[Finding],
    effects: Mapping[str, tuple[str, bool]],
    found: Found,
    in_workers: Callable[[Finding], bool] = lambda finding: False,
) -> Costs:
    """Join findings with what was measured in their statements, and play the trace without them.

    Args:
        findings: what the linter says of the program.
        effects: what fixing a rule's findings takes out and whether the rule is on when nothing is
            selected, by code; rules that are not in it take out nothing.
        found: the trace.
        in_workers: says whether a finding's statement ran in workers of DataLoaders, which the
            trace does not show.
    """
    statements = _Statements(found, in_workers)
    taken = Effects(found.places.trace, found.replay, found.places.spans)
    costs: list[FindingCost] = []
    dropped: list[Dropped] = []
    for finding in findings:
        cost, without = statements.cost(finding, *effects.get(finding.code, ("none", True)), taken)
        costs.append(cost)
        dropped.append(without)
    known = [at for at, cost in enumerate(costs) if not cost.why]
    effects_of = [(costs[at].effect, dropped[at]) for at in known]
    recording = Recording(found.replay, found.places.trace, found.whole)
    joint, limits = _bounded(found.replay, effects_of, found.whole, recording)
    for at, bound in zip(known, limits, strict=True):
        costs[at] = replace(costs[at], bound=bound)
    fixable_at = [at for at in known if costs[at].fixable]
    fixable = _bound_of_several(found.replay, [dropped[at] for at in fixable_at], recording)
    alone = [one.bound.alone_ns for at in fixable_at if (one := costs[at]).bound is not None]
    fixable = max([fixable, *alone]) if fixable_at else 0
    return Costs(
        tuple(sorted(costs, key=ranked)),
        max(joint, fixable),
        fixable,
        found.span,
        bool(len(found.replay.work)),
        found.whole,
    )


def _bound_of_several(replay: Replay, each: Sequence[Dropped], recording: Recording) -> int:
    """Return what fixing several findings saves at most."""
    dropped = together(each)
    return recording.without(dropped, saved(replay, dropped))


def _bounded(
    replay: Replay, each: Sequence[tuple[str, Dropped]], of: Whole, recording: Recording
) -> tuple[int, list[Bound]]:
    """Return what all save together, and the bound of each: played where it may be worth it."""
    most = [ceiling(replay, dropped) for _, dropped in each]
    worth = [at for at, limit in enumerate(most) if not of.small(limit)]
    played = sorted(worth, key=lambda at: -most[at])[:_PLAYED]
    found = [Bound(limit, limit, effect) for limit, (effect, _) in zip(most, each, strict=True)]
    whole, exact = bounds(replay, each, played, recording)
    for at, bound in zip(played, exact, strict=True):
        found[at] = bound
    return whole, found


def ranked(cost: FindingCost) -> tuple[bool, int, int, int, tuple[str, int, int, str]]:
    """Return the key by which findings are sorted, the most saving first."""
    bound, finding = cost.bound, cost.finding
    alone, joint = (bound.alone_ns, bound.joint_ns) if bound is not None else (0, 0)
    return (bound is None, -alone, -joint, -finding.severity.rank, finding.sort_key)


class _Statements:
    """Finds what of a trace belongs to the statement of a finding."""

    def __init__(self, found: Found, in_workers: Callable[[Finding], bool]) -> None:
        self._found = found
        self._in_workers = in_workers
        places = found.places
        self._of = places.at
        self._by_file: dict[str, list[int]] = {}
        for number, site in enumerate(places.sites):
            self._by_file.setdefault(site.file, []).append(number)
        self._device = bool(len(found.replay.work))
        trace = places.trace
        self._marks = recorded(trace)
        self._main = trace.columns.thread == training(trace)
        self._calls = trace.of_cat(OPERATOR, *CALL_CATS)
        self._called = _called(places)

    def cost(
        self, finding: Finding, effect: str, default: bool, taken: Effects
    ) -> tuple[FindingCost, Dropped]:
        """Return what is known of a finding but its bound, and what fixing it takes out."""
        rows = self._rows(finding)
        seen = True if len(rows) else self._whether_it_ran(finding)
        measured = FindingCost(
            finding,
            effect,
            default,
            self._line(finding),
            self._wait(finding),
            None,
            seen,
            inclusive_ns=self._inclusive(rows) if self._is_named else None,
        )
        if effect == "none":
            return replace(measured, why=ELSEWHERE), Dropped()
        if effect == "loader" or (
            effect == "sample" and not len(rows) and not self._in_workers(finding)
        ):
            without = taken.without("loader", rows)
            some = without.host is not None and len(without.host[0]) > 0
            return (measured if some else replace(measured, why=NO_LOADER)), without
        if seen is False or not self._is_named:
            return replace(measured, why=NOT_SEEN if self._is_named else NO_LINES), Dropped()
        if effect in OF_DEVICE and not self._device:
            return replace(measured, why=NO_DEVICE), Dropped()
        if effect == "memory":
            unsure = "" if seen else NOT_TOLD
            return replace(measured, why=unsure), taken.without(effect, rows)
        if effect in _FORWARD:
            rows = rows[~self._found.places.backward[rows]]
        without = taken.without(effect, np.union1d(rows, self._untold(finding)))
        if self._differ(taken.without(effect, rows), without):
            return replace(measured, why=NOT_TOLD), Dropped()
        return measured, without

    def _inclusive(self, rows: Ints) -> int:
        """Return how long the training thread was in some events, backward left out."""
        columns = self._found.places.trace.columns
        of = rows[self._main[rows] & ~self._found.places.backward[rows]]
        return length(union(columns.ts[of], columns.end[of]))

    def _differ(self, own: Dropped, with_others: Dropped) -> bool:
        """Say whether calls that may be a statement's or not make a difference."""
        replay, whole = self._found.replay, self._found.whole
        if whole.small(ceiling(replay, with_others) - ceiling(replay, own)):
            return False
        return not whole.small(saved(replay, with_others) - saved(replay, own))

    @property
    def _is_named(self) -> bool:
        """Whether the trace names any function of a file."""
        return any(self._by_file)

    def _rows(self, finding: Finding) -> Ints:
        """Return the events of the host that a statement makes; what runs in them is the
        statement's too."""
        if finding.cell is not None:
            return np.zeros(0, np.int64)
        first, last = extent(finding)
        sites = self._found.places.sites
        numbers = [
            number
            for number in self._by_file.get(finding.filename, ())
            if first <= sites[number].line <= last
            and (sites[number].has_line or sites[number].function.startswith("<"))
        ]
        called = [
            row
            for line in range(first, last + 1)
            for row in self._called.get((finding.filename, line, "", 0), ())
        ]
        rows = np.flatnonzero(np.isin(self._of, numbers))
        return np.union1d(rows, np.array(called, dtype=np.int64))

    def _untold(self, finding: Finding) -> Ints:
        """Return the calls of a finding's function whose line is not known, and the functions that
        it calls from such lines."""
        function = self._function(finding)
        sites = self._found.places.sites
        numbers = [
            number
            for number in self._by_file.get(finding.filename, ())
            if function is not None
            and not sites[number].has_line
            and (sites[number].function, sites[number].line) == function
        ]
        rows = np.flatnonzero(np.isin(self._of, numbers) & self._calls)
        called = self._called.get((finding.filename, 0, *function), ()) if function else ()
        return np.union1d(rows, np.array(called, dtype=np.int64))

    def _whether_it_ran(self, finding: Finding) -> bool | None:
        """Say of a finding in whose statement nothing was measured whether it ran: not where its
        function did not, and lines are known, nor where it would have left a mark."""
        function = self._function(finding)
        sites = self._found.places.sites
        ran = any(
            function is not None and sites[number].function == function[0]
            for number in self._by_file.get(finding.filename, ())
        )
        if not self._is_named or function is None:
            return None
        source = self._found.places.sources.named(finding.filename)
        marked = self._marks and source is not None and source.marked(finding.statement)
        return None if ran and not marked else False

    def _function(self, finding: Finding) -> tuple[str, int] | None:
        """Return name and first line of the innermost function around a finding."""
        source = self._found.places.sources.named(finding.filename)
        if source is None or finding.cell is not None:
            return None
        return source.function_at(finding.start.row)

    def _line(self, finding: Finding) -> LineCost | None:
        """Return the costs of the most costly line of a finding's statement."""
        inside = (cost for cost in self._found.lines if about(finding, cost.site))
        return max(inside, key=lambda cost: cost.most_ns, default=None)

    def _wait(self, finding: Finding) -> Wait | None:
        """Return the wait in a finding's statement, the most saving where there are several."""
        inside = (
            wait
            for wait in self._found.waits.each
            if wait.site.has_line
            and wait.site.file == finding.filename
            and finding.statement <= wait.site.line <= finding.statement_end
        )
        return next(inside, None) if finding.cell is None else None


def _called(places: Places) -> Mapping[tuple[str, int, str, int], list[int]]:
    """Return the functions of the program that lines call, as rows: they are places themselves, and
    lie in the calling statement all the same.

    They go by file and line; where the line is not known by file, 0, and the name and the first
    line of the function that calls.
    """
    whole = np.array([not site.has_line for site in places.sites], dtype=np.bool_)
    rows = np.flatnonzero((places.made_at >= 0) & (places.at >= 0))
    found: dict[tuple[str, int, str, int], list[int]] = {}
    for row in rows[whole[places.at[rows]] & (places.at[rows] != places.made_at[rows])].tolist():
        site = places.sites[int(places.made_at[row])]
        known = site.has_line
        key = (site.file, site.line, "", 0) if known else (site.file, 0, site.function, site.line)
        found.setdefault(key, []).append(row)
    return found
