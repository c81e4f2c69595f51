"""The analysis of open documents: what the editor's server asks of workers, which stay warm.

libcst can hang or crash, so it never runs in the server. A worker that is late is ended, one that
dies costs its one request; both are told of, and another one takes its place. The second worker is
started when the first is busy for the first time.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
from collections.abc import Callable, Coroutine
from typing import Any

import torchlint
from torchlint.base.finding import FileReport
from torchlint.engine.job import Job
from torchlint.run import limits
from torchlint.run.prescan import prescan
from torchlint.run.run import refused
from torchlint.run.worker import Task, analyse_job, failed, prepare
from torchlint.run.workers import Pending, Workers

MOST = 2
"""Workers at most."""
TIMEOUT = 5.0
"""CPU seconds that one analysis may take."""
MEMORY = 2 * 2**30
"""Bytes that a worker may take for one analysis."""
_PATIENCE = 1.0
"""CPU seconds for which a worker may go on with an analysis that nobody waits for any more."""
_LOOK = 0.25
"""Seconds between looks at how far such a worker is."""
_UNKNOWN = 10.0
"""Seconds by the clock in place of `_PATIENCE`, where CPU time of another process is not known."""
_ALIVE = 0.25
"""Seconds between looks at whether a worker lives; an editor is open all day, and a look costs."""
_TIDY = 20
"""Jobs between two looks of a worker for garbage, which take as long as a job."""
_count = itertools.count(1)

HOME = os.path.dirname(os.path.abspath(torchlint.__file__))
"""Where server and workers run: no module of what is checked lies there and could pose as ours."""


def set_up() -> None:
    """Make a worker ready: import what every analysis needs."""
    prepare()
    os.chdir(HOME)
    import torchlint.engine.fix
    import torchlint.engine.hits
    import torchlint.source.suppress  # noqa: F401
    from torchlint.catalog.rules import load_catalog, load_rules

    load_rules([info.code for info in load_catalog().rules])
    gc.freeze()


def analyse_open(job: Job) -> FileReport:
    """Analyse a document in a worker; changed files of its project are read again."""
    if next(_count) % _TIDY == 0:
        gc.collect()
    found = prescan(job.document.text.encode("utf-8", "surrogatepass"))
    if found.refuse:
        return refused(job.document, found)
    from torchlint.run import projects

    projects.refresh(job.unsaved)
    return analyse_job(job)


class Pool:
    """Workers, started when there is work.

    Args:
        tell: is given a line on each worker that failed.
        timeout: CPU seconds that one analysis may take.
        memory: bytes that a worker may take for one analysis.
    """

    def __init__(
        self,
        tell: Callable[[str], object],
        timeout: float = TIMEOUT,
        memory: int = MEMORY,
    ) -> None:
        self._tell = tell
        self._timeout = timeout
        self._memory = memory
        self._idle: asyncio.LifoQueue[Workers | OSError] = asyncio.LifoQueue()
        self._starting = 0
        self._waiting = 0
        self._processes: dict[Workers, int] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def warm(self) -> None:
        """Start the first worker, so that the first document need not wait for it."""
        if not self._processes:
            self._start(Workers(1, set_up, _ALIVE))

    async def analyse(self, job: Job, timeout: float = TIMEOUT) -> FileReport:
        """Return the report on a job; whatever happens to the worker, there is one.

        Where the caller is cancelled, the worker may go on for a short while; then it is ended.
        """
        worker = await self._free()
        if isinstance(worker, OSError):
            return failed(job.document.filename, str(worker))
        pending = worker.submit(Task(analyse_open, job, min(timeout, self._timeout), self._memory))
        answer = asyncio.ensure_future(asyncio.to_thread(worker.finish, pending))
        try:
            report = await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._spawn(self._abandoned(worker, pending, answer))
            raise
        self._back(worker, pending)
        return report

    async def close(self) -> None:
        """End all workers; none is left when this returns."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._processes:
            worker.close()

    async def _free(self) -> Workers | OSError:
        """Wait for a worker that has nothing to do; an error where none can be started."""
        while True:
            if self._idle.empty() and not self._starting and len(self._processes) < MOST:
                self._start(Workers(1, set_up, _ALIVE))
            self._waiting += 1
            try:
                worker = await self._idle.get()
            finally:
                self._waiting -= 1
            if isinstance(worker, OSError) or not worker.broken:
                return worker
            self._tell("a worker ended while it had nothing to do; it is replaced")
            self._start(worker)

    def _start(self, worker: Workers) -> None:
        self._processes[worker] = 0
        self._starting += 1
        self._spawn(self._started(worker))

    async def _started(self, worker: Workers) -> None:
        """Put a worker to those that have nothing to do, once it is ready."""
        try:
            self._processes[worker] = await asyncio.to_thread(worker.process)
        except OSError as error:
            del self._processes[worker]
            self._tell(str(error))
            for _ in range(0 if self._processes else self._waiting):
                self._idle.put_nowait(error)  # there is nobody left to wait for
            return
        finally:
            self._starting -= 1
        self._idle.put_nowait(worker)

    def _back(self, worker: Workers, pending: Pending) -> None:
        """Take back a worker that has done its task, or was lost by it."""
        if pending.lost:
            self._tell(f"{pending.task.name}: {pending.lost}; the worker is replaced")
            self._start(worker)
        else:
            self._idle.put_nowait(worker)

    async def _abandoned(
        self,
        worker: Workers,
        pending: Pending,
        answer: asyncio.Future[FileReport],
    ) -> None:
        """Wait for a little work of a worker whose answer nobody wants, as a new one costs more."""
        process, looks = self._processes[worker], 0
        begun = limits.cpu_seconds(process)
        while not (await asyncio.wait((answer,), timeout=_LOOK))[0]:
            looks += 1
            now = limits.cpu_seconds(process)
            if begun is None or now is None:
                enough = looks * _LOOK >= _UNKNOWN
            else:
                enough = now - begun >= _PATIENCE
            if enough:
                pending.give_up("was given up for a newer version")
        self._back(worker, pending)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
