"""The analysis of each open document: after a pause in typing, for its last version only."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from torchlint.base.finding import FileReport, Finding
from torchlint.base.records import frozen
from torchlint.base.trail import TREE
from torchlint.lsp.configured import Task
from torchlint.lsp.convert import Places
from torchlint.lsp.pool import Pool

PAUSE = 0.2
"""Seconds without a change after which a document is analysed."""


@frozen
class Subject:
    """What is analysed as one: a document, or all cells of a notebook.

    Args:
        task: what to do; None where it is none of ours.
        places: its texts as they are now.
    """

    task: Task | None
    places: Places


@frozen
class Analysis:
    """A subject with its report, severities as configured."""

    subject: Subject
    report: FileReport


@dataclass(slots=True)
class _Work:
    """One analysis on its way. `hurry` ends the pause before it."""

    hurry: asyncio.Event
    task: asyncio.Task[Analysis]


class Analyses:
    """Keeps one analysis for each open document.

    Args:
        pool: the workers.
        subject: gives what is open under a key.
        done: is told of each analysis that is still wanted.
        failed: is told of our own mistakes.
        beside: puts what was measured beside the findings of a report.
    """

    def __init__(
        self,
        pool: Pool,
        subject: Callable[[str], Subject],
        done: Callable[[str, Analysis], object],
        failed: Callable[[str], object],
        beside: Callable[[FileReport], FileReport],
    ) -> None:
        self._pool = pool
        self._subject = subject
        self._done = done
        self._failed = failed
        self._beside = beside
        self._work: dict[str, _Work] = {}

    def renew(self, key: str, pause: float = PAUSE) -> None:
        """Analyse a document anew; what was under way for it is dropped."""
        self.drop(key)
        hurry = asyncio.Event()
        task = asyncio.ensure_future(self._run(key, hurry, pause))
        self._work[key] = _Work(hurry, task)
        task.add_done_callback(lambda done: self._ended(key, done))

    def renew_all(self) -> None:
        """Analyse all documents anew, as what they rest on may have changed."""
        for key in list(self._work):
            self.renew(key)

    def renew_resting_on(self, path: str, changed: str) -> bool:
        """Analyse the documents anew whose analysis rests on a file, or is not done; say whether
        there are any.

        Args:
            path: the file.
            changed: its key, which is left to the caller.
        """
        found = [
            key for key, work in self._work.items() if key != changed and _rests_on(work.task, path)
        ]
        for key in found:
            self.renew(key)
        return bool(found)

    def drop(self, key: str) -> None:
        """Forget a document."""
        work = self._work.pop(key, None)
        if work is not None:
            work.task.cancel()

    async def latest(self, key: str, *, hurry: bool) -> Analysis | None:
        """Return the analysis of a document's last version, or None for one that is not open.

        Args:
            key: the document.
            hurry: whether a person waits for it, so that there is no pause.
        """
        while (work := self._work.get(key)) is not None:
            if hurry:
                work.hurry.set()
            await asyncio.wait((work.task,))
            if not work.task.cancelled():
                return work.task.result()
        return None

    async def close(self) -> None:
        """Drop all."""
        tasks = [work.task for work in self._work.values()]
        for key in list(self._work):
            self.drop(key)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def report(self, task: Task) -> FileReport:
        """Return the report on what is to be done, severities as configured."""
        if task.job is None:
            return task.known or FileReport("")
        report = await self._pool.analyse(task.job, task.settings.timeout)
        findings = tuple(_graded(task, report))
        return self._beside(dataclasses.replace(report, findings=findings))

    async def _run(self, key: str, hurry: asyncio.Event, pause: float) -> Analysis:
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(hurry.wait(), pause)
        subject = self._subject(key)
        report = await self.report(subject.task) if subject.task is not None else FileReport("")
        return Analysis(subject, report)

    def _ended(self, key: str, task: asyncio.Task[Analysis]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            self._failed(f"internal error: {type(error).__name__}: {error}")
        elif key in self._work and self._work[key].task is task:
            self._done(key, task.result())


def _rests_on(task: asyncio.Task[Analysis], path: str) -> bool:
    if not task.done():
        return True
    if task.cancelled() or task.exception() is not None:
        return False
    rests_on = task.result().report.rests_on
    return rests_on is not None and any(
        path == other or (state.startswith(TREE) and path.startswith(os.path.join(other, "")))
        for other, state in rests_on
    )


def _graded(task: Task, report: FileReport) -> Iterator[Finding]:
    for finding in report.findings:
        grade = task.grades.get(finding.code, finding.severity)
        yield finding if grade is finding.severity else dataclasses.replace(finding, severity=grade)
