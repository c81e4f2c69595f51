"""The analysis of open documents, in worker processes that stay warm.

libcst can hang or crash (conventions.md B1), so it never runs in the server. A worker that is late is killed, one that
dies costs its one request; both are told of, and another one takes its place. The second worker is started when the
first is busy for the first time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Coroutine
from typing import Any

import torchlint
from torchlint.base.finding import FileReport
from torchlint.engine.job import Job
from torchlint.lsp.resident import PREFIX, Request
from torchlint.run import limits
from torchlint.run.worker import death, failed

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
"""Seconds by the clock that stand for `_PATIENCE` where the CPU time of another process is not known."""
_START = 300.0
"""Seconds that a worker may take until it is ready: a machine under load imports slowly."""
_END = 30.0
"""Seconds that a process may take to end after it has closed its pipe."""
_BOOT = "import sys; sys.path[:] = sys.argv[1:]; from torchlint.lsp.resident import main; main()"

HOME = os.path.dirname(os.path.abspath(torchlint.__file__))
"""Where the workers run: what is checked does not lie there, so no module of it can pose as one of ours."""


class Worker:
    """One process; it answers one job at a time."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Worker:
        """Start a process, and wait until it has imported all it needs.

        Raises:
            OSError: the system has no room for it, or it ends, or takes too long.
        """
        words = [sys.executable, "-c", _BOOT, *map(os.path.abspath, sys.path)]
        hidden = getattr(subprocess, "CREATE_NO_WINDOW", 0)
        # A session of its own: Ctrl-C in a terminal is for the server, which stops its workers.
        process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, stdout=PIPE, cwd=HOME, creationflags=hidden, start_new_session=True
        )
        worker = cls(process)
        try:
            await asyncio.wait_for(worker._received(), _START)
        except asyncio.IncompleteReadError as error:
            raise OSError(f"no worker could be started: {death(await worker.ended(), TIMEOUT)}") from error
        except asyncio.TimeoutError as error:
            await worker.stop()
            raise OSError(f"no worker could be started in {_START:g} s") from error
        except BaseException:
            await worker.stop()
            raise
        return worker

    async def ask(self, request: Request) -> FileReport:
        """Return the report on a job.

        Raises:
            asyncio.IncompleteReadError: the process has ended.
            OSError: so it has.
        """
        data = pickle.dumps(request)
        assert self._process.stdin is not None
        self._process.stdin.write(len(data).to_bytes(PREFIX, "big") + data)
        await self._process.stdin.drain()
        report: FileReport = pickle.loads(await self._received())
        return report

    async def _received(self) -> bytes:
        assert self._process.stdout is not None
        size = int.from_bytes(await self._process.stdout.readexactly(PREFIX), "big")
        return await self._process.stdout.readexactly(size)

    @property
    def cpu_seconds(self) -> float | None:
        """The CPU time that the process has taken; None where that is not known."""
        return limits.cpu_seconds(self._process.pid)

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    async def ended(self) -> int:
        """Return the exit code of a process that closed its end of the pipe, so that it is about to end."""
        try:
            # Whoever signals a process takes its exit code, if there is one, away from those who wait for it.
            return await asyncio.wait_for(self._process.wait(), _END)
        except asyncio.TimeoutError:
            return await self.stop()

    async def stop(self) -> int:
        """End the process now; return its exit code, or minus the signal that ended it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        return await self._process.wait()


class Pool:
    """Workers, started when there is work.

    Args:
        tell: is given a line on each worker that failed.
        timeout: CPU seconds that one analysis may take.
        memory: bytes that a worker may take for one analysis.
    """

    def __init__(self, tell: Callable[[str], object], timeout: float = TIMEOUT, memory: int = MEMORY) -> None:
        self._tell = tell
        self._timeout = timeout
        self._memory = memory
        self._idle: asyncio.LifoQueue[Worker | OSError] = asyncio.LifoQueue()
        self._count = 0
        self._starting = 0
        self._waiting = 0
        self._workers: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def warm(self) -> None:
        """Start the first worker, so that the first document need not wait for it."""
        if not self._count:
            self._more()

    async def analyse(self, job: Job, timeout: float = TIMEOUT) -> FileReport:
        """Return the report on a job; whatever happens to the worker, there is one.

        Where the caller is cancelled, the worker may finish what it is at for a short while; then it is killed.
        """
        name = job.document.filename
        worker = await self._free()
        if isinstance(worker, OSError):
            return failed(name, str(worker))
        seconds = min(timeout, self._timeout)
        asked = asyncio.ensure_future(worker.ask(Request(job, seconds, self._memory)))
        asked.add_done_callback(_seen)
        try:
            report = await _patiently(asked, limits.Patience(seconds))
        except TimeoutError:
            asked.cancel()
            return self._lost(worker, name, limits.given_up(seconds))
        except asyncio.CancelledError:
            self._spawn(self._abandoned(worker, asked, name))
            raise
        except (asyncio.IncompleteReadError, OSError):
            return self._lost(worker, name, death(await worker.ended(), seconds))
        self._idle.put_nowait(worker)
        return report

    async def _free(self) -> Worker | OSError:
        """Wait for a worker that is alive and has nothing to do; an error where none can be started."""
        while True:
            if self._idle.empty() and not self._starting and self._count < MOST:
                self._more()
            self._waiting += 1
            try:
                worker = await self._idle.get()
            finally:
                self._waiting -= 1
            if isinstance(worker, OSError) or worker.alive:
                return worker
            self._tell("a worker ended while it had nothing to do; it is replaced")
            self._spawn(self._replaced(worker))

    async def close(self) -> None:
        """End all workers; none is left when this returns."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in list(self._workers):
            await worker.stop()

    def _more(self) -> None:
        self._count += 1
        self._starting += 1
        self._spawn(self._started())

    async def _started(self) -> None:
        """Start a worker, which is counted as one that starts already."""
        try:
            worker = await Worker.start()
        except OSError as error:
            self._count -= 1
            self._tell(str(error))
            for _ in range(0 if self._count else self._waiting):
                self._idle.put_nowait(error)  # who waits is told, as there is nobody left to wait for
            return
        finally:
            self._starting -= 1
        self._workers.add(worker)
        self._idle.put_nowait(worker)

    async def _abandoned(self, worker: Worker, asked: asyncio.Future[FileReport], name: str) -> None:
        """Wait a little for a worker whose answer nobody wants: for a little of its work, as a new one costs more."""
        begun, looks = worker.cpu_seconds, 0
        while not (await asyncio.wait((asked,), timeout=_LOOK))[0]:
            looks += 1
            now = worker.cpu_seconds
            if begun is None or now is None:
                enough = looks * _LOOK >= _UNKNOWN
            else:
                enough = now - begun >= _PATIENCE
            if enough:
                asked.cancel()
                break
        if asked.done() and not asked.cancelled() and asked.exception() is None:
            self._idle.put_nowait(worker)
        else:
            self._lost(worker, name, "was given up for a newer version")

    def _lost(self, worker: Worker, name: str, words: str) -> FileReport:
        """Replace a worker; return the report of the file that it was at."""
        self._tell(f"{name}: {words}; the worker is replaced")
        self._spawn(self._replaced(worker))
        return failed(name, words)

    async def _replaced(self, worker: Worker) -> None:
        await worker.stop()
        self._workers.discard(worker)
        self._starting += 1
        await self._started()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._closed:
            work.close()
            return
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _seen(asked: asyncio.Future[FileReport]) -> None:
    """Take note of an answer's failure: where the server ends, nobody else does, and asyncio would complain."""
    if not asked.cancelled():
        asked.exception()


async def _patiently(asked: asyncio.Future[FileReport], patience: limits.Patience) -> FileReport:
    """Wait for an answer; where the caller is cancelled, it may still come.

    Raises:
        TimeoutError: it does not come.
        asyncio.IncompleteReadError: the process has ended.
        OSError: so it has.
    """
    while not (await asyncio.wait((asked,), timeout=limits.TICK))[0]:
        patience.tick()
    return asked.result()
