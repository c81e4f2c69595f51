"""What the worker processes of DataLoaders do: how long each batch takes them, and which lines of
the program.

A worker writes a line of JSON for each batch as soon as that is made, so that nothing is lost where
it is killed. Times are those of ``time.perf_counter_ns``, which on one machine is the same clock in
all processes. Lines are timed while the file `FLAG` is there: that slows a worker down.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import runpy
import threading
import time
from collections.abc import Callable
from typing import Any

from . import statement_marks
from .statement_marks import Marks

FLAG = "lines-of-workers"
"""In the run's folder while the lines of workers are timed."""
_MOST = 100
"""Lines of a batch that are written, the most costly first."""


class WorkerBatches:
    """The batches of this process, where it is a worker of a DataLoader.

    Args:
        out: the run's folder.
        marks: of this process.
    """

    def __init__(self, out: str, marks: Marks) -> None:
        self.out = out
        self.marks = marks
        self._file: tuple[int, int] = (0, -1)
        """Of which process, and its descriptor."""

    def watch(self) -> None:
        """Time what workers fetch from now on, in this process and those that it forks."""
        from torch.utils.data import get_worker_info
        from torch.utils.data._utils import fetch

        for fetcher in (fetch._MapDatasetFetcher, fetch._IterableDatasetFetcher):
            fetcher.fetch = self._timed(fetcher.fetch, get_worker_info)

    def _timed(self, fetch: Callable[..., Any], worker: Callable[[], Any]) -> Callable[..., Any]:
        busy = False

        def timed(this: Any, index: Any) -> Any:
            nonlocal busy
            info = worker()
            if info is None or busy:  # a loader in the program's own process, or in a dataset
                return fetch(this, index)
            busy = True
            watch = Stopwatch() if os.path.exists(os.path.join(self.out, FLAG)) else None
            if watch is not None:
                statement_marks.use(watch.mark)
            start = time.perf_counter_ns()
            try:
                batch = fetch(this, index)
            finally:
                end = time.perf_counter_ns()
                busy = False
                if watch is not None:
                    statement_marks.forget()
            with contextlib.suppress(OSError):
                self._write(info, start, end, watch)
            return batch

        return timed

    def _write(self, info: Any, start: int, end: int, watch: Stopwatch | None) -> None:
        parent = multiprocessing.parent_process()
        content = {
            "parent": parent.pid if parent is not None else os.getppid(),
            "worker": info.id,
            "workers": info.num_workers,
            "loader": info.seed - info.id,
            "start": start,
            "end": end,
            "lines": None if watch is None else watch.lines(self.marks),
        }
        pid, descriptor = self._file
        if pid != os.getpid():
            path = os.path.join(self.out, f"worker-{os.getpid()}.jsonl")
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            self._file = os.getpid(), descriptor
        os.write(descriptor, f"{json.dumps(content)}\n".encode())


class Stopwatch:
    """Adds up the time of each marked statement of this thread, without that of marked statements
    in it, and with it."""

    def __init__(self) -> None:
        self.spent: dict[str, list[int]] = {}
        """(nanoseconds by itself, all nanoseconds, times) by the name of a mark."""
        self.running: list[_Running] = []
        self._thread = threading.get_ident()

    def mark(self, name: str) -> Any:
        """Return the mark of a statement."""
        if threading.get_ident() != self._thread:
            return statement_marks.NOTHING
        return _Running(name, self)

    def lines(self, marks: Marks) -> list[tuple[Any, ...]]:
        """Return the most costly statements as (file, first line, last line, function, nanoseconds
        by itself, all nanoseconds, times)."""
        most = sorted(self.spent.items(), key=lambda each: -each[1][1])[:_MOST]
        return [
            (*marks.rows[int(name[len(statement_marks.PREFIX) :])], *spent) for name, spent in most
        ]


class _Running:
    """A statement that runs."""

    __slots__ = ("inner", "name", "start", "watch")

    def __init__(self, name: str, watch: Stopwatch) -> None:
        self.name = name
        self.watch = watch

    def __enter__(self) -> None:
        self.inner = 0
        self.watch.running.append(self)
        self.start = time.perf_counter_ns()

    def __exit__(self, *raised: object) -> None:
        took = time.perf_counter_ns() - self.start
        running = self.watch.running
        while running and running.pop() is not self:
            pass  # the head of a statement that raised has no end
        if running:
            running[-1].inner += took
        spent = self.watch.spent.setdefault(self.name, [0, 0, 0])
        spent[0] += took - self.inner
        if all(other.name != self.name for other in running):  # else it is in the outer one
            spent[1] += took
        spent[2] += 1


def mark_main(marks: Marks) -> None:
    """Have a script marked that Python runs again as ``__mp_main__``, in a process that was not
    forked: it is not imported, as all else is."""
    original = runpy._get_code_from_file  # type: ignore[attr-defined]

    def marked(*given: Any) -> Any:
        found = original(*given)  # (code, path) before Python 3.12
        path = os.fsdecode(given[-1])
        if not path.endswith(".py") or not marks.below(path):
            return found
        with open(path, "rb") as source:  # noqa: PTH123
            code = marks.code(source.read(), path)
        if code is None:
            return found
        return (code, *found[1:]) if isinstance(found, tuple) else code

    runpy._get_code_from_file = marked  # type: ignore[attr-defined]
