"""What each module of the program's models cost in a trace: with the modules that it calls, and
without them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.trace.columns import NONE, OPERATOR, Ints, Mask
from torchlint.trace.intervals import covered_by, summed, within
from torchlint.trace.marks import of_marks
from torchlint.trace.modules import Module, ModuleCalls, module_calls
from torchlint.trace.nest import exclusive, innermost, nearest
from torchlint.trace.threads import training

_INDEX = re.compile(r"(?<![^._])\d+(?![^.])")
"""A number that is a whole part of a name, or ends one behind an underscore."""


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
        calls, places, count = self._calls, self._places, self._count
        columns = places.trace.columns
        main = (self._columns.thread == training(places.trace)) & self._inside & ~self._again()
        of = np.where(main, calls.of, NONE)
        counted = summed(np.where(self._inside, calls.of, NONE), np.ones_like(calls.of), count)
        host = covered_by(of, self._columns.ts, self._columns.end, count)
        own_host = summed(of, exclusive(self._columns, calls.around), count)
        backward = self._of_backward()
        behind, own_behind = self._both(*backward, columns.ts, columns.end, covered=True)
        operators, own_operators = self._both(*self._operators())
        device = bool(len(self._replay.work))
        work = self._of_work() if device else (backward[0][:0], backward[1][:0])
        gpu, own_gpu = self._both(*work, columns.ts, columns.end, covered=True)
        kernels, own_kernels = self._both(*work)
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
                operators[at],
                own_operators[at],
            )
            for at, module in enumerate(calls.modules)
            if counted[at]
        ]
        return Modules(tuple(sorted(costs, key=lambda cost: -cost.most_ns)), calls.exact)

    def _with_outer(self) -> tuple[Ints, Ints]:
        """Return each call with the modules around it, once each, and itself: calls, modules."""
        calls, rows = self._calls, np.arange(len(self._calls.of))
        above, held, modules_ = rows, [], []
        while len(rows):
            held.append(rows)
            modules_.append(calls.of[above])
            outer = calls.around[above]
            rows, above = rows[outer >= 0], outer[outer >= 0]
        pairs = np.unique(np.stack((np.concatenate(held), np.concatenate(modules_))), axis=1)
        return pairs[0], pairs[1]

    def _both(
        self, rows: Ints, of: Ints, *spans: Ints, covered: bool = False
    ) -> tuple[list[int], list[int]]:
        """Return for each module what of some rows belongs to it, with the modules that it calls
        and without them: how many rows, or how much time they cover.

        Args:
            rows: of the trace's events.
            of: the call that each belongs to, `NONE` where it belongs to none.
            spans: starts and ends of all events, where time is asked for.
            covered: whether it is.
        """
        known = of >= 0
        rows, of = rows[known], of[known]
        held, outer = self._outer
        first = np.searchsorted(held, of, side="left")
        times = np.searchsorted(held, of, side="right") - first
        at = np.repeat(np.arange(len(rows)), times)
        step = np.arange(len(at)) - np.repeat(np.cumsum(times) - times, times)
        all_of = outer[np.repeat(first, times) + step] if len(at) else at
        result = []
        for numbers, which in ((all_of, rows[at]), (self._calls.of[of], rows)):
            if covered:
                starts, ends = spans
                result.append(covered_by(numbers, starts[which], ends[which], self._count))
            else:
                result.append(summed(numbers, np.ones_like(numbers), self._count))
        return result[0], result[1]

    def _around(self, rows: Ints) -> Ints:
        """Return the call that each of some events of the host belongs to: the one that it runs in,
        or, of backward, that of the operator whose backward it is, but for a call within that, as a
        checkpoint makes."""
        places = self._places
        found = self._at(rows)
        evaluated = nearest(places.around, places.forward != NONE)[rows]
        owner = np.where(evaluated >= 0, places.forward[evaluated], NONE)
        begun = places.trace.columns.ts[evaluated]
        within_ = (found >= 0) & (self._columns.ts[np.maximum(found, 0)] >= begun)
        left = np.flatnonzero((owner >= 0) & ~within_)
        found[left] = self._at(owner[left])
        return found

    def _again(self) -> Mask:
        """Return which calls a checkpoint makes in backward, whose time they are a part of."""
        places, calls = self._places, self._calls.columns
        rows = np.flatnonzero(places.forward != NONE)
        columns = places.trace.columns
        found: Mask = innermost(columns, places.around, rows, calls.thread, calls.ts) != NONE
        return found

    def _at(self, rows: Ints) -> Ints:
        columns, calls = self._places.trace.columns, self._calls
        every = np.arange(len(calls.of))
        return innermost(calls.columns, calls.around, every, columns.thread[rows], columns.ts[rows])

    def _of_backward(self) -> tuple[Ints, Ints]:
        """Return the outermost events that autograd runs, and the call each belongs to."""
        places = self._places
        rows = np.flatnonzero(places.forward != NONE)
        rows = rows[places.looked_at(rows)]
        return rows, self._around(rows)

    def _operators(self) -> tuple[Ints, Ints]:
        """Return the operators that lie in no other, forward, and the call each belongs to."""
        places, trace = self._places, self._places.trace
        operators = trace.of_cat(OPERATOR) & ~of_marks(trace) & ~places.backward
        inside = nearest(places.around, operators)[np.maximum(places.around, 0)] != NONE
        rows = np.flatnonzero(operators & ~((places.around >= 0) & inside))
        rows = rows[places.looked_at(rows)]
        return rows, self._around(rows)

    def _of_work(self) -> tuple[Ints, Ints]:
        """Return what devices did, as rows, and the call each belongs to."""
        replay = self._replay
        known = np.flatnonzero(replay.launched >= 0)
        started = replay.calls[replay.launched[known]]
        inside = self._places.looked_at(started)
        return replay.work[known[inside]], self._around(started[inside])


def _folded(costs: Sequence[ModuleCost]) -> ModuleCost:
    if len(costs) == 1:
        return costs[0]
    numbers = (
        _added(getattr(cost, name) for cost in costs)
        for name in ModuleCost.__slots__
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
