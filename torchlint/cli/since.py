"""``--since``: which files and findings of a run lie on changed lines."""

from __future__ import annotations

import os
from dataclasses import replace

from torchlint.base.errors import SourceError, UsageError
from torchlint.base.finding import FileReport, Finding
from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.cli.scope import Scope, Target
from torchlint.cli.session import BROKEN
from torchlint.report.kit.words import visible_path
from torchlint.source.changes import (
    ALL_LINES,
    ChangedLines,
    Changes,
    changes_since,
    submodule_commit,
)
from torchlint.source.document import read_bytes
from torchlint.source.git import working_tree

_LONE_CR = regex(rb"\r(?!\n)")


class Since:
    """What has changed since a revision, in each repository that a run's files lie in.

    Args:
        revision: what the user named.
    """

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self._named: set[str] = set()
        self._changes: dict[str, Changes] = {}

    def narrowed(self, scope: Scope) -> Scope:
        """Return the files that have changed.

        Raises:
            UsageError: a file lies in no repository, or the revision is unknown there.
        """
        named = [os.path.realpath(path) for path in scope.named or (os.curdir,)]
        self._named = {self._top(_folder(path)) for path in named}
        self._changes_around(named[0])  # also where there are no files
        return replace(
            scope,
            targets=tuple(target for target in scope.targets if self._lines(target) is not None),
        )

    def keep(self, target: Target, report: FileReport) -> FileReport:
        """Return the report of a changed file with the findings on its changed lines."""
        lines = self._lines(target)
        if lines is None or lines is ALL_LINES or _has_other_lines(target):
            return report
        return replace(
            report,
            findings=tuple(found for found in report.findings if _is_new(found, lines)),
            suppressed=tuple(held for held in report.suppressed if _is_new(held.finding, lines)),
        )

    def _lines(self, target: Target) -> ChangedLines | None:
        return self._changes_around(os.path.dirname(target.found.path)).lines(target.found.path)

    def _changes_around(self, path: str) -> Changes:
        folder = _folder(path)
        top = self._top(folder)
        if not top:
            raise UsageError(
                f"--since {self.revision}: {visible_path(folder)} is in no git repository"
            )
        if top not in self._changes:
            revision = self._revision(top)
            self._changes[top] = Changes(top) if revision is None else changes_since(revision, top)
        return self._changes[top]

    def _revision(self, top: str) -> str | None:
        """Return what a working tree is compared with: of a submodule that no path leads into, the
        commit that the repository around it had; None where it had none."""
        outer = self._top(os.path.dirname(top))
        if top in self._named or not outer:
            return self.revision
        around = self._revision(outer)
        return submodule_commit(around, outer, top) if around is not None else None

    @remembered
    def _top(self, folder: str) -> str:
        """Return the top of the working tree that holds a folder, or an empty string."""
        return working_tree(folder)


def _folder(path: str) -> str:
    return path if os.path.isdir(path) else os.path.dirname(path)


def _has_other_lines(target: Target) -> bool:
    """Say whether a file has lines that git does not know for such: those that end with a carriage
    return alone."""
    try:
        return _LONE_CR.search(read_bytes(target.found.path, target.found.filename, 0)) is not None
    except SourceError:
        return True


def _is_new(finding: Finding, lines: ChangedLines) -> bool:
    """Say whether the statement of a finding has changed; what speaks of the whole file counts in
    any changed one."""
    if finding.code in BROKEN:
        return True
    first, last = (
        min(finding.statement, finding.start.row),
        max(finding.statement_end, finding.start.row),
    )
    if finding.cell is not None:
        if finding.file_row is None:
            return True
        # Rows of a cell are rows of the file; where the source is one string, its neighbours there
        # count too.
        shift = finding.file_row - finding.start.row
        first, last = first + shift, last + shift
    return lines.touches(first, last)
