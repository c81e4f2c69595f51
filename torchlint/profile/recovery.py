"""The lines of calls in traces that name functions by their first line alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from torchlint.profile.align import CONSTRUCTS, NOWHERE, Aligner, Called, Placed
from torchlint.profile.sites import FRAME, Site, Source, Sources
from torchlint.trace.columns import NONE, OPERATOR, PYTHON, Ints, Trace

_BUILTIN = re.compile(r"<built-in (?:method|function) (\w+)(?: of .*)?>", re.DOTALL)
_MODULE = re.compile(r"nn\.Module: (\w+?)(?:_\d+)?")
_COMPREHENSION = re.compile(r"[^<].*\): <(?:list|set|dict)comp>")
_WRAPPERS = frozenset(
    {
        *("__init__", "__new__", "__call__", "__enter__", "__exit__", "__getattr__"),
        *("__setattr__", "__get__", "__torch_function__", "__instancecheck__", "__len__"),
    }
)
"""Methods that a wrapper calls for itself."""
_MODES = frozenset({"__torch_function__", "__torch_dispatch__"})
"""Methods that run instead of operators, and run them."""
_LEVELS = 4
"""Levels of calls in a wrapper among which what it wraps is looked for."""
_INNER = 16
"""Calls in a wrapper that are looked at on each level."""
_EVIDENCE = 2
"""Names of functions that no site can call, and a third of all, show that the source is another."""


class Recovery:
    """Finds the lines of what functions of the program called."""

    def __init__(self, trace: Trace, sources: Sources, around: Ints) -> None:
        self._trace = trace
        self._sources = sources
        self._around = around
        builtin = any(name.startswith("<built-in") for name in trace.names)
        self._builtins = builtin
        self._inline = not any(_COMPREHENSION.match(name) for name in trace.names)
        self._aligners: dict[int, Aligner | None] = {}
        self._called: dict[tuple[int, str], Called] = {}

    def sites(self, frames: Ints, calls: Ints) -> list[Site]:
        """Return where calls stand.

        Args:
            frames: for each call the row of the function of the program that it stands in.
            calls: the rows of the calls.
        """
        names = self._trace.columns.name
        order = np.lexsort((calls, self._trace.columns.ts[calls], frames))
        starts = np.flatnonzero(np.diff(frames[order], prepend=NONE))
        placed: list[tuple[int, Placed]] = [(0, NOWHERE)] * len(calls)
        for part in np.split(order, starts[1:]) if len(order) else ():
            name = int(names[frames[part[0]]])
            aligner = self._aligner(name)
            if aligner is None:
                found: Sequence[Placed] = [NOWHERE] * len(part)
            else:
                path = self.frame(name)[0]
                found = aligner.lines(
                    tuple(self._callee_of(row, path, aligner) for row in calls[part].tolist())
                )
            for at, one in zip(part.tolist(), found, strict=True):
                placed[at] = name, one
        return [self._site(name, one) for name, one in placed]

    def function(self, name: int) -> Site:
        """Return the place of a function's own time, by its name in the trace."""
        path, first, function = self.frame(name)
        source = self._sources.of(path)
        if source is None:
            return Site(path, first, function, "function")
        if name in self.differing:
            return Site(path, 0, function, "function", differs=True)
        certainty = "unique" if source.one_line(function, first) else "function"
        return Site(source.name, first, function, certainty)

    def frame(self, name: int) -> tuple[str, int, str]:
        """Return the file, first line and name of a function."""
        found = FRAME.fullmatch(self._trace.names[name])
        assert found is not None
        return found[1], int(found[2]), found[3]

    def _site(self, name: int, placed: Placed) -> Site:
        path, _, function = self.frame(name)
        source = self._sources.of(path)
        aligner = self._aligners.get(name)
        if source is None or aligner is None or not placed.line or _is_another(aligner):
            return self.function(name)
        only = placed.only and name not in self._doubtful
        return Site(source.name, placed.line, function, "unique" if only else "aligned")

    def _aligner(self, name: int) -> Aligner | None:
        """Return what finds the lines of a function's calls; None where it has no source."""
        if name not in self._aligners:
            path, first, function = self.frame(name)
            source = self._sources.of(path)
            body = None
            if source is not None and name not in self.differing:
                body = source.body(function, first, inline=self._inline)
            self._aligners[name] = None if body is None else Aligner(body, builtins=self._builtins)
        return self._aligners[name]

    @cached_property
    def differing(self) -> frozenset[int]:
        """The names of functions whose source is not the one that ran: it has no such function, or
        the next function, which ran too, stands elsewhere in it."""
        return frozenset(name for name, certain in self._doubtful.items() if not certain)

    @cached_property
    def _doubtful(self) -> dict[int, bool]:
        """The names of functions behind which the source is not the one that ran, and whether they
        themselves may well be the same: what is another may stand in functions behind them."""
        by_source: dict[Source, list[tuple[int, int, bool]]] = {}
        python = self._trace.of_cat(PYTHON)
        for name in np.unique(self._trace.columns.name[python]).tolist():
            if FRAME.fullmatch(self._trace.names[name]) is None:
                continue
            path, first, function = self.frame(name)
            source = self._sources.of(path)
            if source is not None:
                there = source.holds(function, first)
                by_source.setdefault(source, []).append((first, name, there))
        found = {}
        for source, functions in by_source.items():
            functions.sort()
            following = (0, True)
            for first, name, there in reversed(functions):
                if not there:
                    found[name] = False
                elif not following[1]:
                    found[name] = source.between(first, following[0])
                following = first, there
        return found

    def _callee_of(self, row: int, path: str, aligner: Aligner) -> Called:
        """Return what a row of the trace calls."""
        name = int(self._trace.columns.name[row])
        key = name, path
        called = self._called.get(key)
        if called is None:
            called = self._called[key] = self._named(row, name, path)
        constructs = called.name in CONSTRUCTS
        if called.kind != "function" or constructs or aligner.candidates(called)[1]:
            return called
        return self._unwrapped(row, called) if self._wraps(name) else called

    def _named(self, row: int, name: int, caller: str) -> Called:
        text = self._trace.names[name]
        if builtin := _BUILTIN.fullmatch(text):
            return Called("builtin", builtin[1])
        if module := _MODULE.fullmatch(text):
            return Called("module", module[1])
        if FRAME.fullmatch(text):
            path, first, function = self.frame(name)
            source = self._sources.of(path)
            owner = "" if source is None else source.owner(function, first)
            return Called(
                "function",
                function,
                first,
                path == caller,
                self._sources.heirs(owner) if owner else frozenset(),
                source is not None and source.generates(function, first),
            )
        cat = self._trace.cats[int(self._trace.columns.cat[row])]
        if cat == OPERATOR:
            return Called("operator", text.rpartition("::")[2])
        return Called("call", text)

    def _wraps(self, name: int) -> bool:
        """Say whether a function may be a wrapper of another: it is a library's, or stands in
        another function."""
        path, first, function = self.frame(name)
        source = self._sources.of(path)
        return source is None or source.nested(function, first)

    def _unwrapped(self, row: int, called: Called) -> Called:
        """Return what a wrapper calls with the names of what that calls first."""
        found: set[str] = set()
        own: set[str] = set()
        level = [row]
        for _ in range(_LEVELS):
            level = [inner for outer in level[:_INNER] for inner in self._children(outer)[:_INNER]]
            for inner in level:
                text = int(self._trace.columns.name[inner])
                one = self._named(inner, text, "")
                if called.name in _MODES and one.kind == "operator":
                    found.add(one.name)
                elif one.kind in ("builtin", "function") and one.name not in _WRAPPERS:
                    found |= {one.name, one.name.lstrip("_")}
                    if one.kind == "function" and self._sources.of(self.frame(text)[0]):
                        own.add(one.name)
        return replace(called, inner=frozenset(found), own=frozenset(own))

    def _children(self, row: int) -> list[int]:
        """Return what runs directly inside of an event, in order."""
        order, first = self._inside
        begin, end = np.searchsorted(first, [row, row + 1])
        rows: list[int] = order[begin:end].tolist()
        return rows

    @cached_property
    def _inside(self) -> tuple[Ints, Ints]:
        inner = np.flatnonzero(self._around >= 0)
        columns = self._trace.columns
        order = inner[np.lexsort((columns.ts[inner], self._around[inner]))]
        return order, self._around[order]


def _is_another(aligner: Aligner) -> bool:
    """Say whether a function's calls show that its source is not the one that ran."""
    strange = len(aligner.unexplained())
    return strange >= _EVIDENCE and 3 * strange > aligner.asked
