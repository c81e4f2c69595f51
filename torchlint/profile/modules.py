"""What each module of the program's models cost in a trace: with the modules that it calls, and
without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.trace.columns import NONE, OPERATOR, Ints
from torchlint.trace.intervals import covered_by, summed, within
from torchlint.trace.marks import of_marks
from torchlint.trace.modules import Module, ModuleCalls, module_calls
from torchlint.trace.nest import exclusive, innermost, nearest
from torchlint.trace.threads import training

_INDEX = re.compile(r"(?<![^._])\d+(?![^.])")
"""A number that is a whole part of a name, or ends one behind an underscore."""


@frozen
class ModuleCost:
    """What a module cost; times in nanoseconds, None where no device worked.

    Each is told with the modules that it calls, and as `own_` without them.

    Args:
        module: the module; of several that are told as one the name has `*` where theirs differ.
        count: how many are told as one.
        calls: how often they were called.
        host_ns: time of the training thread in their calls.
        backward_ns: time of autograd in the backward of what they called.
        gpu_ns: time in which a device worked for them, forward or backward.
        kernels: how many pieces of work they gave to a device.
        operators: how many operators of torch they called, without those in other operators.
    """

    module: Module
    count: int
    calls: int
    host_ns: int
    own_host_ns: int
    backward_ns: int
    own_backward_ns: int
    gpu_ns: int | None
    own_gpu_ns: int | None
    kernels: int | None
    own_kernels: int | None
    operators: int
    own_operators: int

    @property
    def most_ns(self) -> int:
        """Return what they are ordered by: the device's time, else the host's and autograd's."""
        return self.host_ns + self.backward_ns if self.gpu_ns is None else self.gpu_ns


@frozen
class Modules:
    """All modules, the most costly first; `exact` says whether names are those of
    `named_modules()`, else they are classes with the profiler's numbers, from call to call."""

    each: tuple[ModuleCost, ...]
    exact: bool

    def folded(self) -> tuple[ModuleCost, ...]:
        """Return those of one class whose names differ in numbers alone as one, the most costly
        first."""
        groups: dict[tuple[str, str, str], list[ModuleCost]] = {}
        for cost in self.each:
            of = cost.module
            key = _INDEX.sub("*", of.model), _INDEX.sub("*", of.name), of.kind
            groups.setdefault(key, []).append(cost)
        return tuple(sorted(map(_folded, groups.values()), key=lambda cost: -cost.most_ns))


def modules(places: Places, replay: Replay) -> Modules | None:
    """Return what modules cost; None where the trace shows no module.

    Args:
        places: of the events of a trace, or of some of its steps.
        replay: of the trace.
    """
    calls = module_calls(places.trace)
    return None if calls is None else _Costs(calls, places, replay).found()


class _Costs:
    """The calls of modules, and what belongs to each: by its place among `calls`."""

    def __init__(self, calls: ModuleCalls, places: Places, replay: Replay) -> None:
        self._calls, self._places, self._replay = calls, places, replay
        self._columns, self._count = calls.columns, len(calls.modules)
        begun = self._columns.ts
        self._inside = np.ones(len(begun), dtype=np.bool_)
        if places.spans is not None:
            self._inside = within(places.spans, begun)
        self._outer = self._with_outer()

    def found(self) -> Modules:
        calls, count, columns = self._calls, self._count, self._places.trace.columns
        main = self._columns.thread == training(self._places.trace)
        of = np.where(main & self._inside & (self._recomputed == NONE), calls.of, NONE)
        counted = summed(np.where(self._inside, calls.of, NONE), np.ones_like(calls.of), count)
        host = covered_by(of, self._columns.ts, self._columns.end, count)
        own_host = summed(of, exclusive(self._columns, calls.around), count)
        behind, own_behind = self._summed(*self._of_backward())
        operators = self._operators()
        called, own_called = self._summed(operators, np.ones_like(operators))
        device = bool(len(self._replay.work))
        gpu = own_gpu = kernels = own_kernels = [0] * count
        if device:
            # What devices did, as rows, and the call each belongs to.
            replay = self._replay
            known = np.flatnonzero(replay.launched >= 0)
            started = replay.calls[replay.launched[known]]
            inside = self._places.looked_at(started)
            work, launched = replay.work[known[inside]], self._calls_around(started[inside])
            gpu, own_gpu = self._covered(launched, columns.ts[work], columns.end[work])
            kernels, own_kernels = self._summed(launched, np.ones_like(launched))
        costs = [
            ModuleCost(
                module,
                1,
                counted[at],
                host[at],
                own_host[at],
                behind[at],
                own_behind[at],
                gpu[at] if device else None,
                own_gpu[at] if device else None,
                kernels[at] if device else None,
                own_kernels[at] if device else None,
                called[at],
                own_called[at],
            )
            for at, module in enumerate(calls.modules)
            if counted[at]
        ]
        return Modules(tuple(sorted(costs, key=lambda cost: -cost.most_ns)), calls.exact)

    def _around_each(self) -> Ints:
        """Return the call around each one; around one that a checkpoint makes in backward that of
        its module in forward."""
        calls, places = self._calls, self._places
        found: Ints = calls.around.copy()
        again = np.flatnonzero((self._recomputed != NONE) & (found == NONE))
        for call, above in zip(
            again.tolist(),
            self._innermost_calls(places.forward[self._recomputed[again]]).tolist(),
            strict=True,
        ):
            while above != NONE and calls.of[above] != calls.of[call]:
                above = int(calls.around[above])
            found[call] = calls.around[above] if above != NONE else NONE
        return found

    def _with_outer(self) -> tuple[Ints, Ints]:
        """Return each call with the modules around it, once each, and itself: calls, modules."""
        calls, rows = self._calls, np.arange(len(self._calls.of))
        around = self._around_each()
        above, held, modules_ = rows, [], []
        while len(rows):
            held.append(rows)
            modules_.append(calls.of[above])
            outer = around[above]
            rows, above = rows[outer >= 0], outer[outer >= 0]
        pairs = np.unique(np.stack((np.concatenate(held), np.concatenate(modules_))), axis=1)
        return pairs[0], pairs[1]

    def _pairs(self, of: Ints) -> tuple[Ints, Ints]:
        """Return what belongs to calls once for each module around its call: places, modules."""
        held, outer = self._outer
        first = np.searchsorted(held, of, side="left")
        times = np.searchsorted(held, of, side="right") - first
        at = np.repeat(np.arange(len(of)), times)
        step = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
        return at, outer[np.repeat(first, times) + step]

    def _summed(self, of: Ints, values: Ints) -> tuple[list[int], list[int]]:
        """Return the sums of values for each module, with the modules that it calls and without.

        Args:
            of: the call that each belongs to, `NONE` where it belongs to none.
            values: as many.
        """
        of, values = of[of >= 0], values[of >= 0]
        at, modules_ = self._pairs(of)
        own = summed(self._calls.of[of], values, self._count)
        return summed(modules_, values[at], self._count), own

    def _covered(self, of: Ints, starts: Ints, ends: Ints) -> tuple[list[int], list[int]]:
        """Return the same of how much time spans cover."""
        known = of >= 0
        of, starts, ends = of[known], starts[known], ends[known]
        at, modules_ = self._pairs(of)
        own = covered_by(self._calls.of[of], starts, ends, self._count)
        return covered_by(modules_, starts[at], ends[at], self._count), own

    def _calls_around(self, rows: Ints) -> Ints:
        """Return the call that each of some events of the host belongs to: the one that it runs in,
        or, of backward, that of the operator whose backward it is, but for a call within that, as a
        checkpoint makes."""
        places = self._places
        found = self._innermost_calls(rows)
        evaluated = nearest(places.around, places.forward != NONE)[rows]
        owner = np.where(evaluated >= 0, places.forward[evaluated], NONE)
        begun = places.trace.columns.ts[evaluated]
        within_ = (found >= 0) & (self._columns.ts[np.maximum(found, 0)] >= begun)
        left = np.flatnonzero((owner >= 0) & ~within_)
        found[left] = self._innermost_calls(owner[left])
        return found

    @cached_property
    def _recomputed(self) -> Ints:
        """The event of autograd that each call lies in which a checkpoint makes in backward, `NONE`
        for all others."""
        places, calls = self._places, self._calls.columns
        rows = np.flatnonzero(places.forward != NONE)
        return innermost(places.trace.columns, places.around, rows, calls.thread, calls.ts)

    def _innermost_calls(self, rows: Ints) -> Ints:
        columns, calls = self._places.trace.columns, self._calls
        every = np.arange(len(calls.of))
        return innermost(calls.columns, calls.around, every, columns.thread[rows], columns.ts[rows])

    def _of_backward(self) -> tuple[Ints, Ints]:
        """Return the calls that backward belongs to, and its nanoseconds: what autograd runs
        without what a checkpoint computes again in it, and that."""
        places, calls = self._places, self._calls
        evaluated = places.forward != NONE
        left = places.trace.columns.dur.copy()
        inner = np.flatnonzero(evaluated & (places.around >= 0))
        around = nearest(places.around, evaluated)[places.around[inner]]
        np.subtract.at(left, around[around >= 0], left[inner[around >= 0]])
        again = self._recomputed != NONE
        outermost = np.flatnonzero(again & ~((calls.around >= 0) & again[calls.around]))
        np.subtract.at(left, self._recomputed[outermost], calls.columns.dur[outermost])
        rows = np.flatnonzero(evaluated)
        rows = rows[places.looked_at(rows)]
        computed = np.flatnonzero(again & self._inside)
        of = np.concatenate((self._calls_around(rows), computed))
        own = exclusive(calls.columns, calls.around)[computed]
        return of, np.concatenate((np.maximum(left[rows], 0), own))

    def _operators(self) -> Ints:
        """Return the call that each operator belongs to that lies in no other, forward."""
        places, trace = self._places, self._places.trace
        operators = trace.of_cat(OPERATOR) & ~of_marks(trace) & ~places.backward
        inside = nearest(places.around, operators)[np.maximum(places.around, 0)] != NONE
        rows = np.flatnonzero(operators & ~((places.around >= 0) & inside))
        return self._calls_around(rows[places.looked_at(rows)])


def _folded(costs: Sequence[ModuleCost]) -> ModuleCost:
    if len(costs) == 1:
        return costs[0]
    numbers = (
        _added(getattr(cost, name) for cost in costs)
        for name in ModuleCost.__match_args__
        if name not in ("module", "count")
    )
    model, name = (
        _common([getattr(cost.module, part) for cost in costs]) for part in ("model", "name")
    )
    module = Module(model, name, costs[0].module.kind)
    return ModuleCost(module, len(costs), *numbers)  # type: ignore[arg-type]


def _added(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _common(names: Sequence[str]) -> str:
    """Return names that differ in numbers as one: ``*`` stands where they do."""
    found = []
    for parts in zip(*(name.split(".") for name in names), strict=True):
        same = len(set(parts)) == 1
        found.append(parts[0] if same else _INDEX.sub("*", parts[0]))
    return ".".join(found)
