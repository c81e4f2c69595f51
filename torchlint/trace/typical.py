"""Which steps are of another kind than the others, and why: they are not what a step takes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from torchlint.trace.columns import OPERATOR, Ints, Trace
from torchlint.trace.marks import of_marks, recorded
from torchlint.trace.threads import training

TABLE = "torchlint_steps"
"""What is called so beside the events says what steps did that others did not."""
EVALUATION, DATA, SAVE, PASS = "evaluation", "data", "save", "pass"
"""What that can be: see `torchlint.program.inside.step_kinds`."""
FORWARD = "forward"
"""What a trace shows: a model ran that autograd did not record."""
KINDS = (EVALUATION, FORWARD, DATA, SAVE, PASS)
"""The same, the first that a step did being its kind."""
_FAR = 2.0
"""A step that takes longer than so many times the median, or less than the median divided by it, is
of another kind, where it is ..."""
_FEW = 4
"""... one of so many, or fewer: what more of them do is the program's way."""


def kind_of(why: Sequence[str]) -> str:
    """Return the kind of a step that did what others did not; empty where nothing is known."""
    return next((kind for kind in KINDS if kind in why), "")


class _Step(Protocol):
    @property
    def why(self) -> tuple[str, ...]: ...


S = TypeVar("S", bound=_Step)


def by_kind(steps: Iterable[S]) -> dict[str, list[S]]:
    """Return steps by their kind, as `kind_of` names it."""
    found: dict[str, list[S]] = {}
    for step in steps:
        found.setdefault(kind_of(step.why), []).append(step)
    return found


def odd(times: Sequence[int], waits: Sequence[int], why: Sequence[Sequence[str]]) -> list[bool]:
    """Return which steps are of another kind.

    They are those that did what others did not, and took longer than any of these; and the few that
    take much more or less than the others. Waits for data do not count among the latter: workers
    hand out their batches in bursts.

    Args:
        times: of the steps, in nanoseconds.
        waits: for data, in them.
        why: what each did that others did not.
    """
    plain = [time for time, reasons in zip(times, why, strict=True) if not reasons]
    found = [
        bool(reasons) and bool(plain) and time > max(plain)
        for time, reasons in zip(times, why, strict=True)
    ]
    own = [time - wait for time, wait in zip(times, waits, strict=True)]
    rest = [at for at, known in enumerate(found) if not known]
    if not rest:
        return found
    middle = statistics.median(own[at] for at in rest)
    far = [at for at in rest if not middle / _FAR <= own[at] <= middle * _FAR]
    for at in far if _FEW * len(far) <= len(rest) else ():
        found[at] = True
    return found


def reasons(trace: Trace, numbers: Sequence[int], starts: Ints, ends: Ints) -> list[list[str]]:
    """Return what marked steps did that others did not: what the recorder saw, and a forward pass
    that autograd did not record.

    Args:
        trace: torchlint's own; of others nothing is known.
        numbers: of the steps; starts, ends: when they began and ended.
    """
    if not recorded(trace):
        return [[] for _ in numbers]
    table = trace.meta.get(TABLE)
    rows = table if isinstance(table, dict) else {}
    told = [rows.get(str(number)) for number in numbers]
    found = [
        [kind for kind in KINDS if kind in row] if isinstance(row, list) else [] for row in told
    ]
    ungraphed = _ungraphed(trace, starts, ends)
    for at in ungraphed if _FEW * len(ungraphed) <= len(numbers) else ():
        found[at].append(FORWARD)
    return found


def _ungraphed(trace: Trace, starts: Ints, ends: Ints) -> list[int]:
    """Return the steps in which, beside what is usual, as many operators as a graph has ran without
    one: such as have a sequence number elsewhere, and had none."""
    columns = trace.columns
    operators = trace.of_cat(OPERATOR) & ~of_marks(trace)
    rows = np.flatnonzero(operators & (columns.thread == training(trace)))
    graphed = columns.seq[rows] >= 0
    differentiable = np.isin(columns.name[rows], np.unique(columns.name[rows[graphed]]))
    with_graph, without = (
        np.diff(np.searchsorted(np.sort(columns.ts[of]), (starts, ends)), axis=0)[0]
        for of in (rows[graphed], rows[differentiable & ~graphed])
    )
    many = without - np.median(without) >= max(np.median(with_graph), 1)
    found: list[int] = np.flatnonzero(many).tolist()
    return found
