"""The project around a job's file, as a worker keeps it: other files are read when a question needs them."""

from __future__ import annotations

import os

from torchlint.base.errors import SourceError
from torchlint.engine import syntax
from torchlint.engine.job import Job
from torchlint.semantic.module import Module
from torchlint.semantic.project import Outside, Project
from torchlint.source.document import read

_LARGEST = 400_000
"""Bytes of the largest file that is read for what others import from it; larger ones are data, not helpers."""
_TORCH = (b"torch", b"lightning")

_projects: dict[tuple[object, ...], Project] = {}


def outside_of(job: Job) -> Outside:
    """Return what the file of a job may ask about its project; nothing where the job names no root."""
    if not job.root:
        return Outside()
    key = (job.root, job.target_torch, job.accelerator, job.assume_hot)
    if key not in _projects:
        _projects.clear()  # A run is about one project at a time.
        _projects[key] = Project(job.root, _text, _Analyst(job).module)
    return Outside(_projects[key], os.path.normpath(os.path.join(job.root, job.relative)), deep=True)


def forget() -> None:
    """Forget all projects: files may have changed."""
    _projects.clear()


def shown(path: str) -> str:
    """Return a file's path as the user would name it: relative to the current folder where it lies below it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder was deleted, or it is on another drive
        return path
    return path if relative.startswith(os.pardir) else relative


def _text(path: str) -> str | None:
    try:
        return read(path, path, _LARGEST).text
    except SourceError:
        return None


class _Analyst:
    """Analyses files with the settings of a job; the settings of all files of one run's project are the same."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def module(self, project: Project, path: str, text: str) -> Module | None:
        """Return the analysis of a file that may hold facts for others; None for what has nothing to do with torch."""
        if not any(word in text.encode("utf-8", "replace") for word in _TORCH):
            return None
        try:
            if syntax.syntax_fault(text) is not None:
                return None
        except syntax.TooDeepError:
            return None
        tree = syntax.parse(text)
        if isinstance(tree, str):
            return None
        return Module(
            tree,
            text,
            os.path.relpath(path, self._job.root).replace(os.sep, "/"),
            target_torch=self._job.target_torch,
            accelerator=self._job.accelerator,
            assume_hot=self._job.assume_hot,
            outside=Outside(project, path, deep=False),
        )
