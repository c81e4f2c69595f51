"""Which of the places that a fix changes are run, seen by a trace function on the functions that
hold them alone.

A place that ran leaves a file, so that DataLoader workers and other child processes count as well.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from types import CodeType, FrameType, ModuleType
from typing import Any

from ...program.inside.imports import Run, executed_by, found_behind

Mark = tuple[str, str, int, int]
"""(name, file, first line, last line); the file as `os.path.realpath` gives it."""

_PACKAGES = {"site-packages", "dist-packages"}
"""Folders that hold what is installed."""


class Marks:
    """Watches for marks, and notes each that runs as an empty file ``<folder>/<name>``."""

    def __init__(self, marks: list[Mark], folder: str) -> None:
        self.folder = folder
        self._open: dict[str, list[Mark]] = {}
        for mark in marks:
            self._open.setdefault(mark[1], []).append(mark)
        # By number, as code of two files is equal where the text is; kept, as numbers are used
        # again.
        self._of_code: dict[int, tuple[CodeType, list[Mark]]] = {}
        self._files: dict[str, str] = {}

    def start(self) -> None:
        """Watch this thread and those to come. A program that sets a trace function of its own ends
        the watch."""
        os.makedirs(self.folder, exist_ok=True)
        threading.settrace(self._call)
        sys.settrace(self._call)
        sys.meta_path.insert(0, _Pauses(self))

    def watching(self) -> bool:
        """Say whether the program has left this thread's trace function alone so far."""
        return sys.gettrace() == self._call

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Do not watch this thread meanwhile; a trace function that is set in between stays."""
        sys.settrace(None)
        try:
            yield
        finally:
            if sys.gettrace() is None:
                sys.settrace(self._call)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        known = self._of_code.get(id(code))
        if known is None:
            known = self._of_code[id(code)] = (code, self._inside(code))
        return self._line if known[1] else None

    def _inside(self, code: CodeType) -> list[Mark]:
        name = code.co_filename
        if name not in self._files:
            self._files[name] = os.path.realpath(name)
        marks = self._open.get(self._files[name])
        if not marks:
            return []
        rows = [line for _, _, line in code.co_lines() if line]
        return [mark for mark in marks if rows and min(rows) <= mark[3] and mark[2] <= max(rows)]

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            marks = self._of_code[id(frame.f_code)][1]
            for mark in [mark for mark in marks if mark[2] <= frame.f_lineno <= mark[3]]:
                marks.remove(mark)
                self._note(mark[0])
        return self._line

    def _note(self, name: str) -> None:
        # Where it cannot be written, the parent reads "not seen"; the program must not fail for
        # that.
        with contextlib.suppress(OSError):
            os.close(os.open(os.path.join(self.folder, name), os.O_CREAT | os.O_WRONLY))


class _Pauses(importlib.abc.MetaPathFinder):
    """Pauses the watch while an installed package is imported: torch and its compiler call millions
    of functions."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks
        self._library = os.path.join(sysconfig.get_path("stdlib"), "")

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if not self._marks.watching():
            return None
        spec = found_behind(self, name, path, target)
        if spec is None or not spec.has_location or not self._is_installed(spec.origin or ""):
            return spec
        return executed_by(self._execute, spec)

    def _execute(self, run: Run, module: ModuleType) -> None:
        with self._marks.paused():
            run(module)

    def _is_installed(self, origin: str) -> bool:
        return origin.startswith(self._library) or not _PACKAGES.isdisjoint(origin.split(os.sep))
