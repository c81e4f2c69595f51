"""Many files: isolated workers, reports in the order of the jobs.

The analysis runs in worker processes always, even for one file (design §4): a worker that crashes, hangs or runs out of
memory costs its one file. A small run has one worker, a bare fork; a larger one has a pool of pebble's, which is not
imported before. Nothing here imports libcst, so that a worker starts in milliseconds.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from types import TracebackType
from typing import TYPE_CHECKING, Any

from torchlint.base.finding import INVALID_SYNTAX, FileReport, Finding, Severity
from torchlint.base.span import Position
from torchlint.engine.job import Job
from torchlint.run import limits
from torchlint.run.fork import AVAILABLE, ForkedWorker
from torchlint.run.prescan import Prescan, prescan
from torchlint.run.worker import Analyse, analyse_job, before_fork, death, failed, prepare, work
from torchlint.source.document import Document

if TYPE_CHECKING:
    from pebble import ProcessFuture, ProcessPool

SMALL_RUN = 200_000
"""Bytes of source up to which a second worker costs more than it brings."""
_WINDOW_FILES = 256
_WINDOW_BYTES = 16_000_000
"""How far reading runs ahead of the file whose report is next."""
_TERM = 0.2
"""Seconds that pebble waits for a worker to end before it kills it; its 3 would make Ctrl-C slow."""
_SLEEP = 0.02
"""Seconds between pebble's looks at its workers; its 0.1 would make every small run longer."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run.

    Args:
        jobs: the most workers to use; the number of usable CPUs where None.
        timeout: CPU seconds that one file may take (see `limits`).
        quarantine_timeout: the same for a file that looks like one that the parser hangs on.
        memory: bytes that a worker may take for one file; 0 for no limit.
    """

    jobs: int | None = None
    timeout: float = 30.0
    quarantine_timeout: float = 10.0
    memory: int = 2 * 2**30


@dataclass(slots=True)
class _Slot:
    """A job on its way: its report where that is known already, else the future that will bring it."""

    job: Job
    timeout: float = 0.0
    report: FileReport | None = None
    future: ProcessFuture[FileReport] | None = None
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.job.document.data)


def run(jobs: Iterable[Job], options: RunOptions, analyse: Analyse = analyse_job) -> Generator[FileReport, None, None]:
    """Yield the report of each job, in the order of `jobs`, as soon as it and all before it are there.

    `jobs` is read on demand, a bounded number of files ahead. On every exit, Ctrl-C too, all workers are stopped.

    Args:
        jobs: the files with their settings.
        options: limits.
        analyse: what a worker does with a job; for tests.
    """
    source = iter(jobs)
    head: list[Job] = []
    size = 0
    for job in source:
        head.append(job)
        size += len(job.document.data)
        if size > SMALL_RUN or len(head) == _WINDOW_FILES:
            break
    else:
        if AVAILABLE and size <= SMALL_RUN:
            yield from _small([_slot(job, options) for job in head], options, analyse)
            return
    small = size <= SMALL_RUN
    with _Workers(1 if small else min(options.jobs or cpu_count(), cpu_count()), options, analyse) as workers:
        yield from _reports(chain(head, source), options, workers)


def _small(slots: list[_Slot], options: RunOptions, analyse: Analyse) -> Iterator[FileReport]:
    tasks = [(slot.job, slot.timeout) for slot in slots if slot.report is None]
    with ForkedWorker(tasks, options.memory, analyse) as worker:
        for slot in slots:
            yield slot.report or worker.next()


def refused(document: Document, found: Prescan) -> FileReport:
    """Return the report of a file that no parser needs to see."""
    name, line, words = document.filename, found.line, found.refuse
    start = Position(line, 1)
    finding = Finding(INVALID_SYNTAX, INVALID_SYNTAX, words, Severity.ERROR, name, start, start, line, line)
    report = FileReport(name, (finding,))
    if document.notebook is None:
        return report
    from torchlint.engine.cells import Cells

    return Cells(document).told(report, document.text)


def cpu_count() -> int:
    """Return the number of CPUs that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _reports(jobs: Iterator[Job], options: RunOptions, workers: _Workers) -> Iterator[FileReport]:
    window: deque[_Slot] = deque()
    size = 0
    exhausted = False
    while True:
        while not exhausted and len(window) < _WINDOW_FILES and size < _WINDOW_BYTES:
            job = next(jobs, None)
            if job is None:
                exhausted = True
                break
            slot = _slot(job, options)
            if slot.report is None:
                workers.submit(slot)
            window.append(slot)
            size += slot.size
        if not window:
            return
        slot = window.popleft()
        size -= slot.size
        yield slot.report or workers.finish(slot, window)


def _slot(job: Job, options: RunOptions) -> _Slot:
    document = job.document
    # The text, not the bytes as read: in some encodings the second byte of a character looks like a bracket.
    found = prescan(document.text.encode("utf-8", "surrogatepass"))
    if found.refuse:
        return _Slot(job, report=refused(document, found))
    timeout = min(options.timeout, options.quarantine_timeout) if found.quarantine else options.timeout
    return _Slot(job, timeout)


class _Workers:
    """pebble's pool, started anew where it breaks.

    Only one pool lives at a time: a worker that inherited another pool's pipes would keep that pool's workers from
    noticing that the parent is gone.
    """

    def __init__(self, count: int, options: RunOptions, analyse: Analyse) -> None:
        self.count = count
        self.options = options
        self.analyse = analyse
        self.pool: ProcessPool | None = None
        self.trouble = ""

    def __enter__(self) -> _Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def submit(self, slot: _Slot) -> None:
        """Schedule a slot's job; where no worker can be started, the slot has no future."""
        if self.pool is None:
            self.pool = _new_pool(self.count)
        arguments = (self.analyse, slot.job, slot.timeout, self.options.memory)
        try:
            slot.future = self.pool.schedule(work, args=arguments)
        except (OSError, RuntimeError) as error:  # no process, no pipe, no semaphore; or a pool that broke
            slot.future = None
            self.trouble = str(error.__cause__ or error)

    def finish(self, slot: _Slot, behind: Iterable[_Slot]) -> FileReport:
        """Wait for a slot's report.

        Where the pool breaks, nobody knows which file was to blame: this one is run once more by itself, and then
        those `behind` it are scheduled again.
        """
        report = self.outcome(slot)
        if report is None:
            report = self.alone(slot)
            for other in behind:
                if other.report is None and _lost(other.future):
                    self.submit(other)
        return report

    def alone(self, slot: _Slot) -> FileReport:
        self.stop()
        self.count = max(1, self.count // 2)  # fewer, in case the system has no room for more
        self.submit(slot)
        report = self.outcome(slot)
        if report is None:
            self.stop()
            message = f"no worker could be started: {self.trouble}" if slot.future is None else "crashed"
            report = failed(slot.job.document.filename, message)
        return report

    def outcome(self, slot: _Slot) -> FileReport | None:
        """Return what became of a slot, or None where the pool broke."""
        from concurrent import futures

        from pebble import ProcessExpired

        future, name = slot.future, slot.job.document.filename
        if future is None:
            return None
        try:
            return future.result() if self.awaited(future, limits.Patience(slot.timeout)) else None
        except TimeoutError:
            future.cancel()  # type: ignore[no-untyped-call]  # which has pebble end its worker
            return failed(name, limits.given_up(slot.timeout))
        except ProcessExpired as error:
            return failed(name, death(error.exitcode, slot.timeout))
        except (RuntimeError, futures.CancelledError):  # BrokenProcessPool is one
            return None
        except Exception as error:  # a report that cannot cross the process boundary
            return failed(name, f"internal error: {type(error).__name__}: {error}")

    def awaited(self, future: ProcessFuture[FileReport], patience: limits.Patience) -> bool:
        """Wait until `future` is done; return False where the pool, or its worker, has died without saying so.

        Raises:
            TimeoutError: it took longer than its outer bound, not counting the time in the queue.
        """
        from concurrent import futures

        gone = 0
        while not futures.wait((future,), timeout=limits.TICK).done:
            if self.pool is None or not self.pool.active:
                return future.done()
            gone = gone + 1 if _abandoned(self.pool, future) else 0
            if gone > 1:  # once may be between the end of a worker and the word of it
                return False
            if future.running():
                patience.tick()
        return True

    def stop(self) -> None:
        """End all workers now."""
        if self.pool is not None:
            pool, self.pool = self.pool, None
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()


def _lost(future: ProcessFuture[FileReport] | None) -> bool:
    """Say whether nothing can be learnt from `future` as its pool broke."""
    if future is None or not future.done() or future.cancelled():
        return True
    return isinstance(future.exception(), RuntimeError)


def _abandoned(pool: ProcessPool, future: ProcessFuture[FileReport]) -> bool:
    """Say whether the worker that took a task is no more: for pebble, one that exits with 0 has left in peace."""
    manager = pool._pool_manager
    workers = manager.worker_manager.workers
    tasks = list(manager.task_manager.tasks.values())
    return any(task.future is future and task.worker_id and task.worker_id not in workers for task in tasks)


def _new_pool(count: int) -> ProcessPool:
    import multiprocessing

    from pebble import CONSTS, ProcessPool

    before_fork()
    CONSTS.term_timeout = _TERM
    CONSTS.sleep_unit = _SLEEP
    method = "fork" if sys.platform == "linux" else None
    context: Any = multiprocessing.get_context(method)
    return ProcessPool(max_workers=count, initializer=prepare, context=context)
