"""Many files: isolated workers, reports in the order of the jobs.

The analysis runs in worker processes always, even for one file: a worker that crashes, hangs or
runs out of memory costs its one file. A small run has one worker, a bare fork (`fork`); a larger
one has a pool (`workers`), which is not imported before. Nothing here imports libcst, so that a
worker starts in milliseconds.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from torchlint.base.finding import INVALID_SYNTAX, FileReport, Finding, Severity
from torchlint.base.records import frozen
from torchlint.base.span import Position
from torchlint.engine.job import Job
from torchlint.run.fork import AVAILABLE, ForkedWorker
from torchlint.run.prescan import Prescan, prescan
from torchlint.run.worker import Analyse, Task, analyse_job
from torchlint.source.document import Document

if TYPE_CHECKING:
    from torchlint.run.workers import Pending, Workers

SMALL_RUN = 200_000
"""Bytes of source up to which a second worker costs more than it brings."""
_WINDOW_FILES = 256
_WINDOW_BYTES = 16_000_000
"""How far reading runs ahead of the file whose report is next."""


@frozen
class RunOptions:
    """How to run.

    Args:
        jobs: the most workers to use; the number of usable CPUs where None.
        timeout: CPU seconds that one file may take (see `limits`).
        quarantine_timeout: the same for a file that looks like one that the parser hangs on.
        memory: bytes that a worker may take for one file; 0 for no limit.
        waiting: is called every second in which no report comes, with the number of reports that
            are there and wait for one before them.
    """

    jobs: int | None = None
    timeout: float = 30.0
    quarantine_timeout: float = 10.0
    memory: int = 2 * 2**30
    waiting: Callable[[int], object] = lambda _: None


def run(
    jobs: Iterable[Job], options: RunOptions, analyse: Analyse = analyse_job
) -> Generator[FileReport, None, None]:
    """Yield the report of each job, in the order of `jobs`, as soon as it and all before it are
    there.

    `jobs` is read on demand, a bounded number of files ahead. On every exit, Ctrl-C too, all
    workers are stopped.

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
            yield from _small([_planned(job, options, analyse) for job in head], options)
            return
    from torchlint.run.workers import Workers

    small = size <= SMALL_RUN
    with Workers(1 if small else min(options.jobs or cpu_count(), cpu_count())) as workers:
        planned = (_planned(job, options, analyse) for job in chain(head, source))
        yield from _large(planned, workers, options)


def _planned(job: Job, options: RunOptions, analyse: Analyse) -> Task | FileReport:
    """Return what a worker is to do, or the report of a file that none needs to see."""
    document = job.document
    # The text, not the bytes as read: in some encodings the second byte of a character looks like a
    # bracket.
    found = prescan(document.text.encode("utf-8", "surrogatepass"))
    if found.refuse:
        return refused(document, found)
    timeout = (
        min(options.timeout, options.quarantine_timeout) if found.quarantine else options.timeout
    )
    return Task(analyse, job, timeout, options.memory)


def _small(planned: list[Task | FileReport], options: RunOptions) -> Iterator[FileReport]:
    tasks = [task for task in planned if isinstance(task, Task)]
    with ForkedWorker(tasks, lambda: options.waiting(0)) as worker:
        for task in planned:
            yield worker.next() if isinstance(task, Task) else task


def _large(
    planned: Iterator[Task | FileReport], workers: Workers, options: RunOptions
) -> Iterator[FileReport]:
    window: deque[Pending | FileReport] = deque()
    size = 0
    workers.waiting = lambda: options.waiting(
        sum(isinstance(each, FileReport) or each.done for each in window)
    )
    while True:
        while len(window) < _WINDOW_FILES and size < _WINDOW_BYTES:
            task = next(planned, None)
            if task is None:
                break
            if isinstance(task, Task):
                size += len(task.job.document.data)
                window.append(workers.submit(task))
            else:
                window.append(task)
        if not window:
            return
        first = window.popleft()
        if isinstance(first, FileReport):
            yield first
        else:
            size -= len(first.task.job.document.data)
            behind = (other for other in window if not isinstance(other, FileReport))
            yield workers.finish(first, behind)


def refused(document: Document, found: Prescan) -> FileReport:
    """Return the report of a file that no parser needs to see."""
    name, line, words = document.filename, found.line, found.refuse
    start = Position(line, 1)
    finding = Finding(
        INVALID_SYNTAX, INVALID_SYNTAX, words, Severity.ERROR, name, start, start, line, line
    )
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
