"""One run of `check` or `fix`: from the files in scope to a report, with fixes written where
asked."""

from __future__ import annotations

import dataclasses
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.base.errors import SourceError, TooLargeError, WriteError
from torchlint.base.finding import (
    FAILING,
    INVALID_SYNTAX,
    UNANALYSED,
    UNREADABLE,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Safety,
    Severity,
)
from torchlint.base.span import Position
from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given, parameter, variable, variable_is_true
from torchlint.cli.progress import Progress
from torchlint.cli.rule_metas import rule_metas
from torchlint.cli.scope import STDIN, Scope, Target, read_target
from torchlint.engine.job import Job, Silence
from torchlint.report.formats import WITH_MANUAL, WITH_SOURCE, WITH_WEIGHTS
from torchlint.report.run_report import RunReport
from torchlint.run.jobs import job_for
from torchlint.settings.keys import CACHE_DIR, Settings
from torchlint.settings.load import severities
from torchlint.source.discover import SkipKind
from torchlint.source.document import Document, encode
from torchlint.source.former import former_content, half_written

if TYPE_CHECKING:
    from torchlint.run.cache import Cache
    from torchlint.run.run import RunOptions
    from torchlint.run.worker import Analyse

Keep = Callable[[Target, FileReport], FileReport]
"""Gives the report of a file without the findings that shall not be seen."""
BROKEN = frozenset({INVALID_SYNTAX, UNREADABLE})
"""Codes of findings that fail a run whatever their severity counts for."""


@dataclass(slots=True)
class Session:
    """A run, before it and after it.

    Args:
        scope: the files.
        catalog: the rules.
        fix: ``""`` to check only, else ``"safe"`` or ``"unsafe"``: which fixes to work out.
        apply: whether to write them to the files; standard input is never written.
        progress: whether to show progress.
        cache: the reports of earlier runs; None for a run that uses none.
        formats: the formats of the reports that will be made of it.
        keep: what takes findings out of the reports that shall not be seen.
        silences: by file name, what to silence by comments.
        suppressed: whether to report suppressed findings, as such.
        ignore_noqa: whether to report what comments suppress like anything else.

    `files`, `documents` and the counters are filled by `execute`. `documents` holds the changed
    files, by name; for standard input its one document always. `joint` tells, a line each, of the
    fixes that change several files.
    """

    scope: Scope
    catalog: Catalog
    fix: str = ""
    apply: bool = False
    progress: bool = False
    cache: Cache | None = None
    formats: frozenset[str] = frozenset()
    keep: Keep | None = None
    silences: Mapping[str, Silence] = field(default_factory=dict)
    suppressed: bool = False
    ignore_noqa: bool = False
    files: list[FileReport] = field(init=False, default_factory=list)
    documents: dict[str, Document] = field(init=False, default_factory=dict)
    checked: int = field(init=False, default=0)
    gated: bool = field(init=False, default=False)
    joint: list[str] = field(init=False, default_factory=list)
    _known: list[tuple[FileReport, Target]] = field(init=False, default_factory=list)
    _pending: deque[tuple[Document, Target]] = field(init=False, default_factory=deque)
    _changed: dict[int, tuple[Document, Target]] = field(init=False, default_factory=dict)
    _together: dict[int, frozenset[str]] = field(init=False, default_factory=dict)
    _unchanged: list[int] = field(init=False, default_factory=list)
    _severities: dict[Settings, dict[str, Severity]] = field(init=False, default_factory=dict)

    def execute(self) -> RunReport:
        """Check all files, and write fixes where asked."""
        for skip in self.scope.skipped:
            if skip.kind is SkipKind.ERROR:
                self.files.append(_unreadable(skip.filename, skip.reason))
            elif skip.kind is SkipKind.NOTE:
                self._note(skip.filename, skip.reason)
        for problem in self.catalog.problems:
            note = Note(NoteKind.FAILED, problem.path, problem.message)
            self.files.append(FileReport(problem.path, notes=(note,)))
        targets = [target for target in self.scope.targets if not self._is_cached(target)]
        try:
            if targets or self._known:
                self._analyse(targets)
        finally:  # after Ctrl-C, too: the next run goes on where this one was
            if self.cache is not None:
                self.cache.save()
        # Nothing is written before all files are read: what a file imports must not change under
        # its analysis.
        for group in self._groups():
            self._write(group)
        if self._unchanged:
            self._check_unchanged()
        self._tell_half_written()
        if self.apply:
            # Remove the temporary files that killed runs left beside the files of this one.
            from torchlint.source.write import remove_stale

            for directory in {
                os.path.dirname(target.found.path)
                for target in self.scope.targets
                if target.found.path
            }:
                remove_stale(directory)
        return self.report()

    def _is_cached(self, target: Target) -> bool:
        """Take the report of an earlier run on a file that says the same again; say whether there
        is one."""
        cache = self.cache.of(target.settings) if self.cache is not None else None
        path, name, limit = target.found.path, target.found.filename, target.settings.max_file_size
        report = (
            cache.look_up(target.relative, path, name, limit, target.identity)
            if cache is not None
            else None
        )
        if report is None or (self.fix and self._has_fix(report)):
            return False
        if self.fix:
            self._known.append((report, target))
        else:
            self._take(report, target)
        return True

    def _has_fix(self, report: FileReport) -> bool:
        """Say whether a file has to be analysed by a run that fixes."""
        wanted = (Safety.SAFE, Safety.UNSAFE) if self.fix == "unsafe" else (Safety.SAFE,)
        return any(each.fix is not None and each.fix.safety in wanted for each in report.findings)

    def _analyse(self, targets: list[Target]) -> None:
        from torchlint.run.run import RunOptions

        settings = self.scope.settings
        options = RunOptions(jobs=settings.jobs or None, timeout=settings.timeout)
        with closing(self._reports(targets, options)) as reports:
            if self.fix:
                self._settle(reports, options)
            else:
                for report, document, target in reports:
                    self._take_report(report, document, target)

    def _reports(
        self, targets: list[Target], options: RunOptions
    ) -> Generator[tuple[FileReport, Document, Target], None, None]:
        with closing(self._run_jobs(self._jobs(targets), len(targets), options)) as reports:
            for report in reports:  # in the order of the jobs
                yield report, *self._pending.popleft()

    def _run_jobs(
        self,
        jobs: Iterable[Job],
        total: int,
        options: RunOptions,
        analyse: Analyse | None = None,
        *,
        again: bool = False,
    ) -> Generator[FileReport, None, None]:
        """Run jobs, and show how many are done."""
        from torchlint.run.run import run
        from torchlint.run.worker import analyse_job

        things = "files again, with the fixes of others" if again else "files"
        with Progress(total, self.progress, things) as progress:
            options = dataclasses.replace(options, waiting=progress.waiting)
            with closing(run(jobs, options, analyse or analyse_job)) as reports:
                for report in reports:
                    progress.step()
                    yield report

    def _settle(
        self, reports: Iterable[tuple[FileReport, Document, Target]], options: RunOptions
    ) -> None:
        """Take the reports of a fix run when all are there, as one file's fix may change others, or
        what there is to fix in them."""
        from torchlint.cli.fix_until_stable import Analysed, Settling
        from torchlint.run.run import run
        from torchlint.run.worker import analyse_among, confirm_job

        files = [Analysed(report, target, None) for report, target in self._known]
        for report, document, target in reports:
            kept = report.joint or report.before != report.after or not document.path
            files.append(Analysed(report, target, document if kept else None))
        if any(file.report.joint or file.report.before != file.report.after for file in files):
            settling = Settling(
                self.scope,
                files,
                self.catalog,
                self.apply,
                self._job,
                lambda jobs: self._run_jobs(jobs, len(jobs), options, analyse_among, again=True),
                lambda jobs: run(jobs, options, confirm_job),
            )
            settling.settle()
            self.joint += settling.told
        for file in files:
            self._take_report(file.report, file.document, file.target, file.together)

    def report(self) -> RunReport:
        """Return what is known so far."""
        settings = self.scope.settings
        every = [held.finding for file in self.files for held in file.suppressed]
        every += [finding for file in self.files for finding in file.findings]
        found = {finding.code: finding for finding in every}
        return RunReport(
            files=tuple(sorted(self.files, key=lambda file: file.filename)),
            version=__version__,
            rules=rule_metas(
                settings,
                self.catalog,
                found,
                manual=bool(self.formats & WITH_MANUAL),
                weights=bool(self.formats & WITH_WEIGHTS),
            ),
            root=settings.root,
            files_checked=self.checked,
            fix_applied=sum(file.applied for file in self.files),
            unsafe_fixes=settings.unsafe_fixes,
            cwd=_cwd(),
        )

    def _jobs(self, targets: list[Target]) -> Iterator[Job]:
        """Read the files one by one; what cannot be read is reported at once."""
        for target in targets:
            name = target.found.filename
            try:
                document = read_target(target)
            except TooLargeError as error:
                self._note(name, _words_of_error(error, name))
                continue
            except SourceError as error:
                self.files.append(_unreadable(name, _words_of_error(error, name), error.place))
                continue
            if document.left_out:
                self._note(name, document.left_out)
                if not document.path:
                    self.documents[name] = document
                continue
            self._pending.append((document, target))
            yield self._job(document, target)

    def _job(self, document: Document, target: Target) -> Job:
        return dataclasses.replace(
            job_for(document, target.relative, target.settings, self.catalog),
            fix=self.fix,
            show_source=bool(self.formats & WITH_SOURCE)
            or (self.cache is not None and not self.fix),
            traced=self.cache is not None or bool(self.fix),
            silence=self.silences.get(target.found.filename),
            identity=target.identity,
            ignore_noqa=self.ignore_noqa,
        )

    def _take_report(
        self,
        report: FileReport,
        document: Document | None,
        target: Target,
        together: frozenset[str] = frozenset(),
    ) -> None:
        """Take the report of a file that was analysed; without its document, of one that stays as
        it is."""
        cache = self.cache.of(target.settings) if self.cache is not None else None
        if cache is not None and document is not None and not self.fix:
            from torchlint.run.digests import digest

            cache.store(
                target.relative, target.found.path, digest(document.data), report, target.identity
            )
        changed = report.before != report.after
        if document is not None and (changed or not document.path):
            self.documents[document.filename] = document
        self._take(report, target)
        if self.apply and document is not None and document.path and changed:
            self._changed[len(self.files) - 1] = document, target
            self._together[len(self.files) - 1] = together

    def _take(self, report: FileReport, target: Target) -> None:
        """Take a file's report."""
        self.checked += not any(note.kind in UNANALYSED for note in report.notes)
        report = self._to_see(report, target)
        changed = report.applied or report.before != report.after
        if report.findings or report.suppressed or report.notes or changed:
            self.files.append(report)

    def _to_see(self, report: FileReport, target: Target) -> FileReport:
        """Return a file's report as the user wants to see it; what is in it decides on the exit
        code."""
        settings = target.settings
        if self.keep is not None:
            report = self.keep(target, report)
        if report.suppressed and not self.suppressed:
            report = dataclasses.replace(report, suppressed=())
        if settings.severity:
            report = self._graded(report, settings)
        self.gated = self.gated or any(
            finding.severity.rank >= settings.fail_on.rank
            for finding in report.findings
            if finding.code not in BROKEN
        )
        return report

    def _graded(self, report: FileReport, settings: Settings) -> FileReport:
        if settings not in self._severities:
            self._severities[settings] = severities(settings, self.catalog)
        grades = self._severities[settings]

        def graded(finding: Finding) -> Finding:
            return dataclasses.replace(finding, severity=grades.get(finding.code, finding.severity))

        findings = tuple(map(graded, report.findings))
        suppressed = tuple(
            dataclasses.replace(held, finding=graded(held.finding)) for held in report.suppressed
        )
        return dataclasses.replace(report, findings=findings, suppressed=suppressed)

    def _groups(self) -> list[list[int]]:
        """Return the changed files, by number; those that one fix changes together."""
        groups: dict[object, list[int]] = {}
        for index in self._changed:
            groups.setdefault(self._together[index] or index, []).append(index)
        return list(groups.values())

    def _write(self, group: Sequence[int]) -> None:
        """Write changed files: all of them, or none."""
        from torchlint.cli.undisturbed import undisturbed
        from torchlint.source.write import write, written

        changes: dict[str, tuple[Document, str]] = {}
        try:
            for index in group:
                document, target = self._changed[index]
                if os.path.realpath(document.path) != document.path:
                    raise WriteError(f"{document.filename}: moved while fixing, not written")
                if not self.scope.holds(target):
                    place = f"a link to {document.path}, outside of what is fixed"
                    raise WriteError(f"{document.filename}: is {place}; name that file itself")
                changes[document.filename] = document, self.files[index].after
            if len(group) == 1:
                write(*next(iter(changes.values())))
                return
            with undisturbed(), written(changes):
                pass
        except WriteError as error:
            self._unwritten(group, str(error))

    def _unwritten(self, group: Sequence[int], words: str) -> None:
        """Say once of files that belong together why none of them was written."""
        from torchlint.cli.fix_until_stable import unchanged

        names = {index: self._changed[index][0].filename for index in group}
        at = next((i for i in group if words.startswith(f"{names[i]}: ")), group[0])
        said = words.removeprefix(f"{names[at]}: ")
        others = [names[index] for index in group if index != at]
        if others:
            said += f"; so {' and '.join(others)} not either, which is fixed with it"
        lost = max(1, sum(self.files[index].applied for index in group))
        for index in group:
            report = unchanged(self.files[index])
            if index == at:
                note = Note(NoteKind.UNWRITTEN, names[at], said, count=lost)
                report = dataclasses.replace(report, notes=(*report.notes, note))
            self.files[index] = report
        self._unchanged += group

    def _check_unchanged(self) -> None:
        """Report of the files that were not written what is found in them as they are."""
        from torchlint.run.run import RunOptions

        settings = self.scope.settings
        options = RunOptions(jobs=settings.jobs or None, timeout=settings.timeout)
        targets = [self._changed[index] for index in self._unchanged]
        jobs = [dataclasses.replace(self._job(*each), fix="", silence=None) for each in targets]
        with closing(self._run_jobs(jobs, len(jobs), options)) as reports:
            for index, (_, target), found in zip(self._unchanged, targets, reports, strict=True):
                report = self._to_see(found, target)
                unwritten = (n for n in self.files[index].notes if n.kind is NoteKind.UNWRITTEN)
                self.files[index] = dataclasses.replace(report, notes=(*report.notes, *unwritten))

    def _tell_half_written(self) -> None:
        """Tell of files that a killed run may have left half written, where that was no reason not
        to write them."""
        told = {(note.filename, note.message) for file in self.files for note in file.notes}
        for target in self.scope.targets:
            former = former_content(target.found.path) if target.found.path else ""
            if not former:
                continue
            note = Note(NoteKind.UNWRITTEN, target.found.filename, half_written(former))
            if (note.filename, note.message) not in told:
                self.files.append(FileReport(note.filename, notes=(note,)))

    def fixed_stdin(self, run: RunReport) -> bytes:
        """Return what standard input should become: its own bytes where nothing changed, nothing if
        unreadable."""
        for name, document in self.documents.items():
            after = [
                file.after
                for file in run.files
                if file.filename == name and file.before != file.after
            ]
            return encode(document, after[0]) if after else document.data
        return b""

    def _note(self, filename: str, message: str) -> None:
        self.files.append(FileReport(filename, notes=(Note(NoteKind.SKIPPED, filename, message),)))


def cache_for(catalog: Catalog, given: Given, *, reading: bool) -> Cache | None:
    """Return the cache for a run that may use it, which all but `check` only read."""
    if variable_is_true("no-cache") or STDIN in given.get("paths", ()):
        return None
    if any(map(given.get, ("no_cache", "ignore_noqa", "show_settings", "show_files"))):
        return None
    from torchlint.run.cache import Cache

    named = (given.get(parameter(CACHE_DIR)) or variable(CACHE_DIR)) is not None
    return Cache(catalog, named=named, reading=reading)


def fix_level(scope: Scope) -> str:
    """Return which fixes to work out where the user wants any: ``"safe"`` or ``"unsafe"``."""
    return "unsafe" if scope.settings.unsafe_fixes else "safe"


def exit_code(run: RunReport, gated: bool) -> int:
    """Return the exit code of a run.

    Args:
        run: what came of the run.
        gated: whether the command has a reason of its own to fail: findings to gate on, a diff.
    """
    if any(run.notes(NoteKind.FAILED)):
        return 2
    broken = any(finding.code in BROKEN for file in run.files for finding in file.findings)
    return 1 if gated or broken or any(run.notes(*FAILING)) else 0


def _words_of_error(error: Exception, filename: str) -> str:
    """Return an error's words without the file's name, which every report puts in front."""
    return str(error).removeprefix(f"{filename}: ")


def _unreadable(filename: str, reason: str, place: tuple[int, int] = (1, 1)) -> FileReport:
    start = Position(*place)
    finding = Finding(
        UNREADABLE, UNREADABLE, reason, Severity.ERROR, filename, start, start, start.row, start.row
    )
    return FileReport(filename, (finding,))


def _cwd() -> str:
    try:
        return os.getcwd()
    except OSError:  # it was deleted
        return ""
