"""What fixing a statement saves at most that runs in worker processes of DataLoaders, where no
trace sees it: from what a run says of its steps, and its workers of each batch.

**The line's own time.** A batch is there once its worker has made it, a worker makes its batches
one behind the other, and the program takes them in order. Whatever the last step of a run waited
for, and what that waited for, is a chain of the program's own steps and of batches; each batch of
the chain was asked for, or begun, when one was done that came at least as many places before it as
there are workers W. So of n batches the chain holds n / W at most. Work that is taken out of
batches shortens this chain by no more than what these take for it, and no other chain can be
shorter than the chain was. Nobody knows which batches they are, so the dearest are taken: of n
batches whose lines were timed the mean of the n / W to which the statement cost most, divided by W,
for each batch that a step takes. Where one worker makes more batches than its turn, as those of
others ran out of data, as many are taken as it made.

**The waits.** A step gets no shorter than what it takes with all batches ready: its time without
the waits for batches of workers. These are what was measured without the profiler; or, where the
program still lived on batches that had been made ahead, what they will be when those are used up:
what the workers take for the batches of a step, W at a time, less what the rest of the step takes.
This says nothing where workers and the program have fewer cores than they could use: without the
work the program itself would be faster too. There the line's time alone is the bound.

So a statement saves at most the smaller of the two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from torchlint.base.finding import Finding
from torchlint.base.records import frozen
from torchlint.profile.bounds import Bound
from torchlint.profile.join import (
    ELSEWHERE,
    LOADING,
    NO_DEVICE,
    NO_LINES,
    NO_LOADER,
    NOT_SEEN,
    OF_DEVICE,
    Costs,
    FindingCost,
    ranked,
)
from torchlint.profile.running import Pace
from torchlint.profile.workers import Batch, Workers, at_line

IN_WORKERS = "it ran in workers of a DataLoader, of which no step was timed without the profiler"
_NOT_THERE = (NOT_SEEN, NO_LINES, NO_LOADER)
"""Why the trace has no bound of what ran elsewhere."""


@frozen
class Loading:
    """What a step of a run has to do with the workers of its DataLoaders.

    Args:
        workers: what they did.
        step: nanoseconds of a step without the profiler.
        batches: of workers that a step takes, on the mean.
        waits: nanoseconds that a step waits for them.
        crowded: whether workers and program can use more cores than there are.
    """

    workers: Workers
    step: float
    batches: float
    waits: float
    crowded: bool

    @property
    def most(self) -> float:
        """Return what a step can be shorter at most, whatever is taken out of workers."""
        return self.step if self.crowded else min(self.step, self.lasting)

    @property
    def lasting(self) -> float:
        """Return how long a step waits once all batches that were made ahead are used up."""
        untimed = [each for each in self.workers.single if each.lines is None]
        made = self._time_side_by_side(
            untimed or self.workers.single, lambda each: each.took, _shared
        )
        return max(self.waits, made - (self.step - self.waits))

    def without(self, findings: Iterable[Finding]) -> float:
        """Return what a step is shorter at most without the statements of findings in workers."""
        of = list(findings)
        at = {
            key
            for each in self.workers.single
            for key in each.lines or ()
            if any(at_line(finding, *key) for finding in of)
        }

        def spent(each: Batch) -> int:
            return min(
                each.took, sum(time for key, time in (each.lines or {}).items() if key in at)
            )

        timed = [each for each in self.workers.single if each.lines is not None]
        return min(self._time_side_by_side(timed, spent, _dearest), self.most)

    def _time_side_by_side(
        self,
        found: Sequence[Batch],
        spent: Callable[[Batch], int],
        rate: Callable[[Sequence[int], Sequence[int], int], float],
    ) -> float:
        """Return what the batches of a step take for something, side by side.

        Args:
            found: batches.
            spent: nanoseconds of one.
            rate: what one costs of some batches, from the times of each, which worker made it, and
                how many there are.
        """
        total = 0.0
        for count in {each.workers for each in found}:
            of = [each for each in found if each.workers == count]
            each = rate([spent(one) for one in of], [one.worker for one in of], count)
            total += each * len(of) / len(found)
        return total * self.batches


def _dearest(times: Sequence[int], made_by: Sequence[int], workers: int) -> float:
    """Return what a batch takes of the longest chain, where it holds the dearest batches."""
    turn, longest = math.ceil(len(times) / workers), max(Counter(made_by).values())
    most = sorted(times, reverse=True)
    if longest > turn + 1:
        return sum(most[:longest]) / len(times)
    return sum(most[:turn]) / turn / workers


def _shared(times: Sequence[int], made_by: Sequence[int], workers: int) -> float:
    """Return what a batch takes where workers take turns: as the slowest of them does."""
    means = []
    for worker in set(made_by):
        of = [time for time, by in zip(times, made_by, strict=True) if by == worker]
        means.append(sum(of) / len(of))
    return max(means) / workers


def loading(workers: Workers | None, pace: Pace | None, queued: bool) -> Loading | None:
    """Return what a step has to do with workers; None where nobody knows.

    Args:
        workers: of the program's DataLoaders.
        pace: its steps without the profiler.
        queued: whether the program had to wait for a core.
    """
    if workers is None or pace is None or not pace.batches:
        return None
    steps = len(pace.each)
    crowded = queued or workers.processes + pace.threads > pace.cores
    return Loading(workers, pace.step, pace.batches / steps, pace.waited / steps, crowded)


def with_workers(costs: Costs, workers: Workers | None, of: Loading | None) -> Costs:
    """Return what findings cost, with the bounds of those whose statements ran in workers.

    What the trace says is added to: a statement may run here and there. A finding about the waits
    for batches has the trace's bound, or that of the steps without the profiler where it is
    greater: batches that were made while the profiler started hide waits from the trace.
    """
    if workers is None:
        return costs
    ran = {at: workers.of(cost.finding) for at, cost in enumerate(costs.each)}
    if of is None:
        each = tuple(
            replace(cost, seen=True, why=IN_WORKERS) if cost.why == NOT_SEEN and ran[at] else cost
            for at, cost in enumerate(costs.each)
        )
        return replace(costs, each=each)
    return _Together(costs, of, ran).costs()


class _Together:
    """The bounds of a trace and those of its workers."""

    def __init__(self, costs: Costs, of: Loading, ran: dict[int, float]) -> None:
        self._costs = costs
        self._of = of
        self._scale = costs.whole.ns / of.step
        each = enumerate(costs.each)
        self._inside = {at for at, cost in each if ran[at] and self._counts(cost)}
        self._loading = {
            at
            for at, cost in enumerate(costs.each)
            if cost.effect in LOADING
            and at not in self._inside
            and (cost.bound is not None or cost.why == NO_LOADER)
        }
        most = max(
            (_alone(costs.each[at]) for at in self._loading),
            default=0,
        )
        self._hidden = max(0, self._in_trace(of.lasting) - most)
        """What the waits for batches are longer than the trace shows."""
        self._ran = ran

    def _counts(self, cost: FindingCost) -> bool:
        """Say whether time of a finding's statement in a worker is what fixing it takes out."""
        if cost.effect in ("none", "loader") or (cost.why and cost.why not in _NOT_THERE):
            return False
        return self._costs.device or cost.effect not in OF_DEVICE

    def costs(self) -> Costs:
        """Return all findings, the most saving first."""
        given = self._costs
        everything = self._more(range(len(given.each)))
        fixable_at = [at for at, cost in enumerate(given.each) if cost.fixable]
        return replace(
            given,
            each=tuple(
                sorted((self._cost(at, everything) for at in range(len(given.each))), key=ranked)
            ),
            joint=given.joint + everything,
            fixable=given.fixable + self._more(fixable_at),
        )

    def _cost(self, at: int, everything: int) -> FindingCost:
        cost = self._costs.each[at]
        if at not in self._inside and at not in self._loading:
            if cost.why != NOT_SEEN or not self._ran[at]:
                return cost
            why = NO_DEVICE if cost.effect in OF_DEVICE else ELSEWHERE
            return replace(cost, seen=True, why=why)
        others = [other for other in range(len(self._costs.each)) if other != at]
        joint = cost.bound.joint_ns if cost.bound is not None else 0
        bound = Bound(
            _alone(cost) + self._more([at]),
            max(0, joint + everything - self._more(others)),
            cost.effect,
            None if cost.bound is None else cost.bound.recorded_ns,
        )
        worker = self._ran[at] if at in self._inside else None
        return replace(cost, bound=bound, seen=True, why="", worker_ns=worker)

    def _more(self, which: Iterable[int]) -> int:
        """Return what fixing some findings saves in workers, beside what it does in the trace."""
        chosen = set(which)
        if chosen & self._loading:
            return self._hidden
        inside = [self._costs.each[at].finding for at in chosen & self._inside]
        return self._in_trace(self._of.without(inside)) if inside else 0

    def _in_trace(self, time: float) -> int:
        return round(time * self._scale)


def _alone(cost: FindingCost) -> int:
    return 0 if cost.bound is None else cost.bound.alone_ns
