"""What limits operators: the device's arithmetic, its memory, or their launches.

The roofline (Williams et al. 2009, Communications of the ACM 52/4): an operator takes no less than
its operations at the device's peak rate, and no less than its bytes at that of its memory; the
longer of the two is its limit, and what it is of the time that its kernels took is the share of the
peak.
Launches are a third limit (Wang et al. 2020, arXiv:2009.04598): an operator counts to them where
the device had nothing left to do once it was launched, and the host took longer for it than the
device.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.arithmetic import Work, has_formula, work
from torchlint.profile.peaks import FLOAT, TF32, Peak, peak
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.trace.columns import NONE, OPERATOR, Ints, Mask
from torchlint.trace.kinds import COMMUNICATION, kind_of
from torchlint.trace.marks import of_marks
from torchlint.trace.nest import exclusive, nearest

ARITHMETIC, MEMORY, LAUNCHES = "arithmetic", "memory", "launches"
_SINGLE = re.compile(r".*(?:tf32|tensorop_s|s1688)")
"""Names of kernels that multiply matrices of float32 in TF32."""
_CACHED, _QUICKER, _UNKNOWN = "from a cache", "computes less", "not known"
"""Why no share of the peak is told: its bytes took less time than its memory needs for them, its
operations less than the arithmetic needs, or it is not known what it has to do."""
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "long int": "int64",
    "long": "int64",
    "int": "int32",
}


@frozen
class Operator:
    """Operators of one name that were given the same shapes and dtypes; nanoseconds.

    Args:
        name: of torch, as the profiler writes it.
        shapes: what they were given.
        dtypes: of what they were given.
        calls: how often they ran.
        kernels: how many kernels they started; None where no device worked.
        ns: the time of the kernels; without a device that of the host, of operators without a
            formula without that of others in them.
        flops: operations of all calls; None where they are not known.
        nbytes: bytes that all calls read and write at least.
        limit: "arithmetic", "memory" or "launches"; None where it is not known.
        share: of the peak of arithmetic or of memory, whichever is nearer, while kernels ran; None
            where it is not known.
        why: why one of the two is not; empty where both are.
    """

    name: str
    shapes: str
    dtypes: str
    calls: int
    kernels: int | None
    ns: int
    flops: int | None
    nbytes: int | None
    limit: str | None
    share: float | None
    why: str


@frozen
class Operators:
    """All operators that started kernels, without a device all; the most costly first. `why` says
    why no limits are known, empty where they are."""

    each: tuple[Operator, ...]
    why: str


@dataclass(slots=True)
class _Group:
    """Calls of operators as they are added up."""

    calls: int = 0
    kernels: int = 0
    ns: int = 0
    host_ns: int = 0
    late: int = 0
    works: list[Work | None] = field(default_factory=list)
    tf32: bool = False


def operators(places: Places, replay: Replay, device: str) -> Operators | None:
    """Return what limits operators; None where the trace has no shapes.

    Args:
        places: of the events of a trace, or of some of its steps.
        replay: of the trace.
        device: the GPU's name.
    """
    trace = places.trace
    if not trace.shapes:
        return None
    grouping = _Grouping(places, replay)
    worked = bool(len(replay.work))
    most = peak(device) if worked else None
    of = (device or "the device") if worked else "a CPU"
    why = "" if most is not None else f"peak rates of {of} are not known"
    groups = grouping.groups().items()
    found = [_operator(names, group, worked, most, why) for names, group in groups]
    return Operators(tuple(sorted(found, key=lambda of: -of.ns)), why)


class _Grouping:
    """The operators of a trace, by name, shapes and dtypes."""

    def __init__(self, places: Places, replay: Replay) -> None:
        self._places, self._replay, self._trace = places, replay, places.trace
        trace = self._trace
        self._all: Mask = trace.of_cat(OPERATOR) & ~of_marks(trace)
        known = [at for at, name in enumerate(trace.names) if has_formula(name)]
        shaped = trace.columns.shape != NONE
        self._known: Mask = self._all & shaped & np.isin(trace.columns.name, known)
        self._works: dict[tuple[int, int], Work | None] = {}

    def groups(self) -> dict[tuple[str, str, str], _Group]:
        groups: dict[tuple[str, str, str], _Group] = {}
        timed = self._on_device() if len(self._replay.work) else self._on_host()
        for row, kernels, ns, late, tf32 in timed:
            group = groups.setdefault(self._names(row), _Group())
            group.calls += 1
            group.kernels += kernels
            group.ns += ns
            group.host_ns += int(self._trace.columns.dur[row])
            group.late += late
            group.tf32 |= tf32
            group.works.append(self._work_of(row))
        return groups

    def _names(self, row: int) -> tuple[str, str, str]:
        trace, at = self._trace, int(self._trace.columns.shape[row])
        return trace.names[int(trace.columns.name[row])], *self._shown[at]

    @cached_property
    def _shown(self) -> list[tuple[str, str]]:
        """The tensors that operators were given, in words: their sizes and their dtypes; at the end
        those of an operator that has none."""
        return [*(_shown(*shape[:2]) for shape in self._trace.shapes), ("", "")]

    def _work_of(self, row: int) -> Work | None:
        if not self._known[row]:
            return None
        columns = self._trace.columns
        key = int(columns.name[row]), int(columns.shape[row])
        if key not in self._works:
            self._works[key] = work(self._trace.names[key[0]], self._trace.shapes[key[1]])
        return self._works[key]

    def _on_host(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        """Yield the operators that lie in no other of which it is known what it does: such with all
        that they call, the others without."""
        columns, around = self._trace.columns, self._places.around
        inside = (around >= 0) & (nearest(around, self._known)[np.maximum(around, 0)] != NONE)
        time = np.where(self._known, columns.dur, exclusive(columns, around))
        rows = np.flatnonzero(self._all & ~inside)
        for row in rows[self._places.looked_at(rows)].tolist():
            yield row, 0, int(time[row]), False, False

    def _on_device(self) -> Iterator[tuple[int, int, int, bool, bool]]:
        """Yield the operators that started kernels: the innermost of which it is known what it
        does, else the innermost; (row, kernels, their time, whether the device had nothing to do
        when the first was launched, whether one computes in TF32)."""
        columns, names, replay = self._trace.columns, self._trace.names, self._replay
        work_ = replay.work
        kernels = self._trace.of_cat("kernel", "Kernel")[work_] & (replay.launched >= 0)
        others = {at for at, name in enumerate(names) if kind_of(name) == COMMUNICATION}
        kernels &= ~np.isin(columns.name[work_], list(others))
        started = np.flatnonzero(kernels)
        calls = replay.calls[replay.launched[started]]
        holders = nearest(self._places.around, self._known)[calls]
        holders = np.where(holders >= 0, holders, nearest(self._places.around, self._all)[calls])
        inside = (holders >= 0) & self._places.looked_at(np.maximum(holders, 0))
        idle = self._idle(columns.end[calls], work_[started])
        order = np.flatnonzero(inside)
        order = order[np.lexsort((columns.ts[calls[order]], holders[order]))]
        rows, first = np.unique(holders[order], return_index=True)
        single = {at for at, name in enumerate(names) if _SINGLE.match(name)}
        for row, these in zip(rows.tolist(), np.split(order, first[1:]), strict=False):
            ran = work_[started[these]]
            tf32 = not single.isdisjoint(columns.name[ran].tolist())
            yield row, len(these), int(columns.dur[ran].sum()), bool(idle[these[0]]), tf32

    def _idle(self, launched: Ints, work_: Ints) -> Mask:
        """Return of which work all that the device had to do before was done when it had been
        launched."""
        columns, every = self._trace.columns, self._replay.work
        order = every[np.argsort(columns.ts[every], kind="stable")]
        ended = np.maximum.accumulate(columns.end[order])
        before = np.searchsorted(columns.ts[order], columns.ts[work_], side="left") - 1
        found: Mask = (before >= 0) & (ended[np.maximum(before, 0)] <= launched)
        return found


def _shown(dims: str, types: str) -> tuple[str, str]:
    """Return sizes and dtypes of tensors: ``5185x1024, 1024x1024`` and ``bfloat16``."""
    with suppress(ValueError, TypeError):
        pairs = zip(json.loads(dims), json.loads(types), strict=False)
        given = [(size, _DTYPES.get(dtype, dtype)) for size, dtype in pairs if size]
        sizes = [
            f"{len(size)} tensors" if isinstance(size[0], list) else "x".join(map(str, size))
            for size, _ in given
        ]
        return ", ".join(sizes), ", ".join(dict.fromkeys(dtype for _, dtype in given))
    return "", ""


def _operator(
    names: tuple[str, str, str], group: _Group, worked: bool, most: Peak | None, why: str
) -> Operator:
    works = [each for each in group.works if each is not None]
    known = len(works) == group.calls
    limit, share, reason = _limit(group, works, most) if known and most else (None, None, why)
    if not known:
        reason = _UNKNOWN
    if worked and 2 * group.late > group.calls and group.host_ns > group.ns:
        limit = LAUNCHES
    return Operator(
        *names,
        group.calls,
        group.kernels if worked else None,
        group.ns,
        sum(each.flops for each in works) if known else None,
        sum(each.nbytes for each in works) if known else None,
        limit,
        share,
        reason,
    )


def _limit(group: _Group, works: list[Work], most: Peak) -> tuple[str | None, float | None, str]:
    """Return what limits operators while their kernels run, the share of the peak, and why one of
    the two is not known."""
    of, flops, kind = works[0], sum(each.flops for each in works), works[0].kind
    if of.matrices and kind == FLOAT and TF32 in most.rates:
        quick = flops / most.rates[FLOAT] / 1000 > group.ns  # more than is possible without TF32
        kind = TF32 if group.tf32 or quick else kind
    if kind not in most.rates:
        return None, None, f"no peak of {kind} is known"
    computing = flops / most.rates[kind] / 1000  # nanoseconds
    moving = sum(each.nbytes for each in works) / most.memory
    limit = ARITHMETIC if computing >= moving else MEMORY
    share = max(computing, moving) / max(group.ns, 1)
    if share <= 1:
        return limit, share, ""
    return None, None, _CACHED if limit == MEMORY else _QUICKER
