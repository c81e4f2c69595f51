"""The place in the program that each event of a trace belongs to.

An event belongs to the call in the innermost function of the program that is around it; functions
of PATHS are taken before those of other libraries, and torch's own and Python's are nobody's. What
autograd runs backward belongs where the operator stands whose backward it is: both have one
sequence number. The time that no call of a function explains is the function's own.
"""

from __future__ import annotations

import copy
import re
import sys
from collections.abc import Callable
from functools import cached_property

import numpy as np

from torchlint.profile.recovery import Recovery
from torchlint.profile.sites import FRAME, Site, Sources
from torchlint.trace.columns import (
    ANNOTATION,
    DEVICE_ANNOTATION,
    NONE,
    OPERATOR,
    PYTHON,
    Columns,
    Ints,
    Mask,
    Trace,
)
from torchlint.trace.intervals import Spans, within
from torchlint.trace.marks import of_marks, statements
from torchlint.trace.nest import nearest, parents
from torchlint.trace.threads import backward, training

UNKNOWN_BACKWARD = Site("", 0, "backward, line unknown", "call")
"""Where backward work belongs whose forward operator is not known."""
GRADIENTS = Site("", 0, "backward, gradients of parameters", "call")
"""Where autograd adds up the gradients of parameters, and where hooks on them run, such as the
exchange of gradients among ranks."""
_ACCUMULATES = re.compile(r".*\bAccumulateGrad")
_AMBIGUOUS = frozenset({"code", "profile", "test", "trace"})
"""Modules of Python whose names programs use too."""
_STANDARD = sys.stdlib_module_names - _AMBIGUOUS


class Places:
    """Finds the place of each event of the host.

    `spans` are the times that are looked at, None where it is all of them; `around` is the row of
    the event around each one, annotations left out; `backward` says which events autograd runs,
    and `forward` has the row of the operator whose backward the outermost of them run, `NONE` where
    it is not known.
    """

    def __init__(self, trace: Trace, sources: Sources) -> None:
        self.trace = trace
        self.spans: Spans | None = None
        self.sources = sources
        skipped = trace.device() | trace.of_cat(ANNOTATION, DEVICE_ANNOTATION)
        self.around: Ints = parents(trace, ~skipped)
        self.sites: list[Site] = []
        """All places."""
        self._number: dict[Site, int] = {}
        self._evaluated = backward(trace) & ~skipped
        self.backward: Mask = nearest(self.around, self._evaluated) != NONE
        self.forward: Ints = np.full(len(self.around), NONE)
        self._recovery = Recovery(trace, sources, self.around)
        self._resolve(~skipped)

    def within(self, spans: Spans) -> Places:
        """Return the same of what began in some times: all else has no place."""
        found = copy.copy(self)
        outside = ~within(spans, self.trace.columns.ts)
        found.spans = spans
        found.at = np.where(outside, NONE, self.at)
        found.made_at = np.where(outside, NONE, self.made_at)
        return found

    def looked_at(self, rows: Ints) -> Mask:
        """Return which of some events began in these times."""
        if self.spans is None:
            return np.ones(len(rows), dtype=np.bool_)
        return within(self.spans, self.trace.columns.ts[rows])

    def of(self, row: int) -> Site:
        """Return the place of an event of the host."""
        return self.sites[int(self.at[row])]

    def _resolve(self, host: Mask) -> None:
        """Fill in `at`, the number of each event's place, `NONE` for those of devices and
        annotations; `made_at`, the number of the place that called what a function of the program
        called, functions of the program among them; and `heads`, the events that are a function or
        a call of the program, or the first that is known of what runs outside of them."""
        marks = of_marks(self.trace) & host
        frames = self._frames() & (nearest(self.around, marks) == NONE)
        bounds = frames | marks | self._evaluated
        above = np.maximum(self.around, 0)
        inside = (self.around >= 0) & bounds[above] & ~bounds
        head = nearest(self.around, bounds | inside)
        outside = head == NONE
        operator = self._outermost(self.trace.of_cat(OPERATOR))
        head = np.where(outside, np.where(operator >= 0, operator, np.arange(len(head))), head)
        self.heads: Ints = np.unique(head[host])
        self.at: Ints = np.full(len(head), NONE)
        below = frames & (self.around >= 0) & frames[above]
        makers = np.flatnonzero(below | (inside & frames[above]))
        makers = makers[host[makers]]
        self.made_at: Ints = np.full(len(head), NONE)
        self.made_at[makers] = self._of_calls(self.around[makers], makers)

        def put(which: Mask, numbers: Callable[[Ints], Ints]) -> None:
            rows = self.heads[which[self.heads]]
            self.at[rows] = numbers(rows)

        put(outside, self._of_operators)
        put(frames, self._of_functions)
        put(marks, self._of_marks)
        put(inside & frames[above], lambda rows: self.made_at[rows])
        put(inside & marks[above], lambda rows: self.at[self.around[rows]])
        put(self._evaluated, lambda rows: self._of_backward(rows, head))
        put(inside & self._evaluated[above], lambda rows: self.at[self.around[rows]])
        self.at = np.where(host, self.at[head], NONE)

    def _outermost(self, chosen: Mask) -> Ints:
        """Return for each event the outermost one of a mask around it, or itself; `NONE` where
        there is none."""
        above = nearest(self.around, chosen)
        outer = (self.around == NONE) | (above[np.maximum(self.around, 0)] == NONE)
        return nearest(self.around, chosen & outer)

    @cached_property
    def _marked(self) -> dict[str, Site]:
        """The statements that marks stand for, by the names of the marks."""
        return {
            name: Site(self._shown(of.file), of.line, of.function, "marked")
            for name, of in statements(self.trace).items()
        }

    def _shown(self, path: str) -> str:
        source = self.sources.of(path)
        return path if source is None else source.name

    def _frames(self) -> Mask:
        """Return which events are functions of the program: of PATHS, or of others where none of
        PATHS is around them."""
        python = self.trace.of_cat(PYTHON)
        names = self.trace.columns.name
        ours, theirs = [], []
        for name in np.unique(names[python]).tolist():
            found = FRAME.fullmatch(self.trace.names[name])
            if found is not None:
                source = self.sources.of(found[1])
                known = source is not None and source.holds(found[3], int(found[2]))
                if known or (source is not None and not _of_library(found[1])):
                    ours.append(name)
                elif not _of_library(found[1]):
                    theirs.append(name)
        first = python & np.isin(names, ours)
        others: Mask = python & np.isin(names, theirs) & (nearest(self.around, first) == NONE)
        return first | others

    def _numbered(self, keys: Ints, site: Callable[[int], Site]) -> Ints:
        """Return the numbers of the places of keys; each key is asked once."""
        distinct, back = np.unique(keys, return_inverse=True)
        return np.array([self._number_of(site(key)) for key in distinct.tolist()], dtype=np.int64)[
            back
        ]

    def _number_of(self, site: Site) -> int:
        """Return the number of a place."""
        number = self._number.setdefault(site, len(self.sites))
        if number == len(self.sites):
            self.sites.append(site)
        return number

    def _of_operators(self, rows: Ints) -> Ints:
        """Return the places of what runs outside of functions that are known: those that old
        profilers wrote beside operators, else no more than what is called."""
        columns, names = self.trace.columns, self.trace.names
        stacks, name = columns.stack[rows], columns.name[rows]
        distinct = {
            stack: _innermost(self.trace.stacks[stack])
            for stack in np.unique(stacks).tolist()
            if stack != NONE
        }
        keys = zip(stacks.tolist(), name.tolist(), strict=True)
        found = []
        for stack, called in keys:
            frame = distinct.get(stack)
            site = (
                None
                if frame is None
                else Site(self._shown(frame[1]), int(frame[2]), frame[3], "unique")
            )
            found.append(self._number_of(site or Site("", 0, names[called], "call")))
        return np.array(found, dtype=np.int64)

    def _of_functions(self, rows: Ints) -> Ints:
        return self._numbered(self.trace.columns.name[rows], self._recovery.function)

    def _of_marks(self, rows: Ints) -> Ints:
        names = self.trace.names
        return self._numbered(
            self.trace.columns.name[rows],
            lambda name: self._marked.get(names[name], Site("", 0, names[name], "call")),
        )

    def _of_calls(self, frames: Ints, calls: Ints) -> Ints:
        """Return the places of calls in functions."""
        sites = self._recovery.sites(frames, calls)
        return np.array([self._number_of(site) for site in sites], dtype=np.int64)

    def _of_backward(self, rows: Ints, head: Ints) -> Ints:
        """Return the places of what autograd runs: where the last operator of the same sequence
        number stands that began before, as the number counts on with it.

        Threads count by themselves. Most backward is that of the training thread; what has another
        thread's number was computed by autograd's own thread, where a checkpoint computes again.
        """
        columns = self.trace.columns
        made = self.trace.of_cat(OPERATOR) & (columns.seq >= 0) & ~self._evaluated
        made &= self.at[head] >= 0
        numbered = rows[columns.seq[rows] >= 0]
        threads, counts = np.unique(columns.forward[numbered], return_counts=True)
        most = int(threads[np.argmax(counts)]) if len(threads) else NONE
        main = training(self.trace)
        found = np.full(len(rows), NONE)
        for thread in np.unique(columns.thread[rows]).tolist():
            for ours in (True, False):
                of = (columns.thread[rows] == thread) & ((columns.forward[rows] == most) == ours)
                owners = _last_before(
                    columns,
                    np.flatnonzero(made & (columns.thread == (main if ours else thread))),
                    rows[of],
                )
                self.forward[rows[of]] = owners
                found[of] = np.where(owners >= 0, self.at[head[owners]], found[of])
        parameters = np.isin(columns.name[rows], self.trace.named(_ACCUMULATES))
        for which, site in ((parameters, GRADIENTS), (~parameters & (found < 0), UNKNOWN_BACKWARD)):
            if which.any():
                found[which] = self._number_of(site)
        return found


def _last_before(columns: Columns, made: Ints, rows: Ints) -> Ints:
    """Return for each of some rows the last row of `made` that has its sequence number and began
    before it, `NONE` where there is none."""
    if not len(made):
        return np.full(len(rows), NONE)
    made = made[np.lexsort((columns.ts[made], columns.seq[made]))]
    # One order of numbers and times together, so that one search finds both.
    both = np.concatenate((made, rows))
    order = np.lexsort((np.arange(len(both)), columns.ts[both], columns.seq[both]))
    seen = np.maximum.accumulate(np.where(order < len(made), order, NONE))
    last = np.full(len(both), NONE)
    last[order] = seen
    owner = last[len(made) :]
    fits = (owner >= 0) & (columns.seq[made[owner]] == columns.seq[rows]) & (columns.seq[rows] >= 0)
    return np.where(fits, made[owner], NONE)


def _innermost(stack: str) -> re.Match[str] | None:
    """Return the innermost function of a call stack that is no library's; the innermost stands
    first."""
    frames = [FRAME.fullmatch(frame.strip()) for frame in stack.split(";")]
    return next(
        (frame for frame in frames if frame is not None and not _of_library(frame[1])), None
    )


def _of_library(path: str) -> bool:
    """Say whether a file is torch's or Python's own."""
    path = path.replace("\\", "/")
    first = path.partition("/")[0].removesuffix(".py")
    standard = first in _STANDARD or ("/lib/python3" in path and "-packages/" not in path)
    return standard or path.startswith(("torch/", "<")) or "/torch/" in path
