"""The files of a run that fixes them, until nothing is left to fix in any of them.

A worker knows one file, so that it cannot apply a fix that changes several; it reports what it
found in the text as it was read (`FileReport.joint`). Here those are chosen that do not meet, in
the order of their findings and the same however many workers there were; then the files that rest
on a changed one are analysed again as they will be, which applies the fixes of each one alone on
top. Once there is no such fix, what each file's own fixes changed counts for the others in the same
way: where a loader got pinned memory, a copy in another file need not wait any more. That goes on
until a second run would find nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from torchlint.base.content import text_digest
from torchlint.base.errors import SourceError, TooLargeError
from torchlint.base.finding import (
    INVALID_SYNTAX,
    AppliedFix,
    Edit,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Safety,
    codes_of,
    fewer,
)
from torchlint.base.trail import ASKED
from torchlint.catalog.rules import Catalog
from torchlint.cli.scope import Scope, Target, read_target
from torchlint.engine.job import Job
from torchlint.engine.overlaps import as_applied, rows_before, spliced
from torchlint.settings.load import codes_for
from torchlint.source.document import Document, encode, fixable, generated
from torchlint.source.write import refused

MAX_ROUNDS = 10
Reports = Generator[FileReport, None, None]
Fact = tuple[str, str]
"""What a report rests on, see `torchlint.base.trail`."""


@dataclass(slots=True)
class Analysed:
    """A file of the run: its report, and the file as it was read, where that is still needed.

    `together` are the paths of the files that are written with it: all or none.
    """

    report: FileReport
    target: Target
    document: Document | None
    together: frozenset[str] = frozenset()


@dataclass(slots=True)
class Settling:
    """The files of a run that fixes them.

    Args:
        scope: the files of the run.
        files: what is known of them.
        catalog: the rules.
        writing: whether the fixes will be written, so that a file must be writable now.
        job: gives the job of a file with a text.
        run: runs jobs, in order.
        confirm: says of jobs which of their facts still hold, in order.

    `told` says in a line what each fix that changes several files changes.
    """

    scope: Scope
    files: list[Analysed]
    catalog: Catalog
    writing: bool
    job: Callable[[Document, Target], Job]
    run: Callable[[Sequence[Job]], Reports]
    confirm: Callable[[Iterable[Job]], Reports]
    told: list[str] = field(init=False, default_factory=list)
    _at: dict[str, int] = field(init=False, default_factory=dict)
    _documents: dict[str, Document] = field(init=False, default_factory=dict)
    _texts: dict[str, str] = field(init=False, default_factory=dict)
    _applied: dict[int, list[Finding]] = field(init=False, default_factory=dict)
    _edits: dict[str, int] = field(init=False, default_factory=dict)
    _unsafe: dict[str, int] = field(init=False, default_factory=dict)
    _fixes: dict[str, list[AppliedFix]] = field(init=False, default_factory=dict)
    _own: dict[int, list[FileReport]] = field(init=False, default_factory=dict)
    _because: dict[str, frozenset[str]] = field(init=False, default_factory=dict)
    _groups: dict[str, frozenset[str]] = field(init=False, default_factory=dict)
    _notes: dict[tuple[int, str, str], Note] = field(init=False, default_factory=dict)

    def settle(self) -> None:
        """Fix until nothing is left, and say of fixes of several files that are not applied why."""
        before = [file.report for file in self.files]
        self._at = {file.target.found.path: at for at, file in enumerate(self.files)}
        for _ in range(MAX_ROUNDS):
            chosen = self._chosen()
            changed = self._apply(chosen) if chosen else self._take_own()
            affected = self._affected(changed, moved=not chosen)
            if not affected:
                break
            if not self._analysed_again(affected) and chosen:
                self._take_back(before, chosen)
                break
        for path in sorted(self._texts):
            self._finish(self._at[path])
        for (at, _, _), note in self._notes.items():
            report = self.files[at].report
            self.files[at].report = replace(report, notes=(*report.notes, note))
        for file, first in zip(self.files, before, strict=True):
            had = first.had or codes_of(first.findings)
            gone = fewer(had, file.report.findings)
            file.report = replace(file.report, had=had, could=first.could, applied=gone)

    def _candidates(self) -> list[tuple[int, Finding]]:
        found = [(at, each) for at, file in enumerate(self.files) for each in file.report.joint]
        return sorted(found, key=lambda pair: pair[1].sort_key)

    def _chosen(self) -> list[tuple[int, Finding]]:
        """Return the fixes of this round: those that meet none before them."""
        taken: dict[str, list[Edit]] = {}
        chosen = []
        for at, finding in self._candidates():
            if self._is_refused(at, finding):
                continue
            parts = dict(_edits_by_file(self.files[at].target.found.path, finding))
            if any(_meets(edit, taken.get(path, ())) for path in parts for edit in parts[path]):
                continue
            for path, edits in parts.items():
                taken.setdefault(path, []).extend(edits)
            chosen.append((at, finding))
        return chosen

    def _is_refused(self, at: int, finding: Finding) -> bool:
        """Say whether a fix is not for this run, and note why."""
        assert finding.fix is not None
        own = self.files[at].target
        for path, edits in _edits_by_file(own.found.path, finding):
            kind, reason = self._reason(path, finding, own, edits)
            if reason:
                name = next((p.filename for p in finding.fix.elsewhere if p.path == path), "")
                also = f"it also changes {name}, which {reason}" if name else f"the file {reason}"
                also = also if own.found.path else "it also changes other files"
                words = f"{finding.code}: fix not applied, {also}"
                note = Note(kind, finding.filename, words, finding.start.row)
                self._notes.setdefault((at, finding.fingerprint, words), note)
                return True
        return False

    def _reason(
        self, path: str, finding: Finding, own: Target, edits: Sequence[Edit]
    ) -> tuple[NoteKind, str]:
        """Return why a file is not changed by a fix of another file, or of itself."""
        held, late = NoteKind.WITHHELD, NoteKind.UNWRITTEN
        if not path or path not in self._at:
            return held, "is excluded, or not among the files that are fixed"
        target = self.files[self._at[path]].target
        if target.settings.root != own.settings.root:
            return held, "belongs to another project"
        if finding.code not in codes_for(target.settings, self.catalog, target.relative):
            return held, f"has {finding.code} switched off"
        document = self._document(path)
        if document is None:
            return late, "cannot be read"
        assert finding.fix is not None
        wanted = next((part.text for part in finding.fix.elsewhere if part.path == path), None)
        if wanted not in (None, text_digest(self._text(path))):
            return late, "changed while fixing"
        if document.left_out or fixable(document):
            return held, f"is not fixed: {document.left_out or fixable(document)}"
        if target is not own and generated(document.text):
            return held, "says that a program wrote it"
        try:
            encode(document, "".join(edit.text for edit in edits))
        except SourceError:
            return held, f"is written in {document.encoding}, which cannot hold its text"
        if not self.writing:
            return held, ""
        if not self.scope.holds(target):
            return late, f"is a link to {document.path}, outside of what is fixed"
        return late, refused(document).partition(",")[0]

    def _document(self, path: str) -> Document | None:
        """Return a file as it was read, or as it is where its analysis has not kept it."""
        if path not in self._documents:
            file = self.files[self._at[path]]
            try:
                self._documents[path] = file.document or read_target(file.target)
            except (SourceError, TooLargeError):
                return None
        return self._documents[path]

    def _text(self, path: str) -> str:
        return self._texts.get(path, self._documents[path].text)

    def _apply(self, chosen: Sequence[tuple[int, Finding]]) -> frozenset[str]:
        """Change the texts by the chosen fixes; return the files that they change."""
        edits: dict[str, set[Edit]] = {}
        risky: dict[str, set[Edit]] = {}
        for at, finding in chosen:
            safe = finding.fix is not None and finding.fix.safety is Safety.SAFE
            self._applied.setdefault(at, []).append(finding)
            parts = _edits_by_file(self.files[at].target.found.path, finding)
            self._join(path for path, _ in parts)
            for path, each in parts:
                edits.setdefault(path, set()).update(each)
                if not safe:
                    risky.setdefault(path, set()).update(each)
                row_before = rows_before(self._documents[path].text, self._text(path))
                self._fixes.setdefault(path, []).append(as_applied(finding, each, row_before))
        for path, changes in edits.items():
            ordered = sorted({(edit.span, edit.text): edit for edit in changes}.items())
            self._edits[path] = self._edits.get(path, 0) + len(ordered)
            unsafe = len(changes & risky.get(path, set()))
            self._unsafe[path] = self._unsafe.get(path, 0) + unsafe
            self._texts[path] = spliced(self._text(path), (edit for _, edit in ordered))
        return frozenset(edits)

    def _take_own(self) -> frozenset[str]:
        """Make the texts what each file's own fixes made of them; return the files that they
        change. What is read from standard input is no file, and no file imports a notebook."""
        changed = set()
        for at, file in enumerate(self.files):
            path, report = file.target.found.path, file.report
            if report.before == report.after or report.cells or not path:
                continue
            if self._document(path) is None:
                continue
            self._texts[path] = report.after
            self._own.setdefault(at, []).append(report)
            file.report = unchanged(report)
            self._join(self._because.pop(path, frozenset()) | {path})
            changed.add(path)
        return frozenset(changed)

    def _join(self, paths: Iterable[str]) -> None:
        """Have files written together: all or none."""
        paths = frozenset(paths)
        joined = paths.union(*(self._groups.get(path, ()) for path in paths))
        self._groups.update(dict.fromkeys(joined, joined))

    def _affected(self, changed: frozenset[str], moved: bool) -> list[Analysed]:
        """Return the files whose reports may be others by now, and remember what they rest on.

        Of what their own fixes changed, which have come to rest, only files where fixes of several
        files have `moved` with the text.
        """
        found = []
        held = self._answers_still_right() if changed else frozenset()
        for file in self.files if changed else ():
            path, rests = file.target.found.path, file.report.rests_on
            if rests is None or not held.issuperset(_answers_used(file)):
                because = changed
            else:
                because = changed & {other for other, _ in rests}
            if because or (path in changed and (file.report.joint or not moved)):
                found.append(file)
                self._because[path] = self._because.get(path, frozenset()) | because
        return found

    def _answers_still_right(self) -> frozenset[Fact]:
        """Return the answers to questions about all files that are still right, now that some files
        say something else."""
        asked: dict[str, dict[Fact, None]] = {}
        for file in self.files:
            asked.setdefault(file.target.settings.root, {}).update(
                dict.fromkeys(_answers_used(file))
            )
        unsaved = tuple(sorted(self._texts.items()))
        jobs = []
        for root, facts in asked.items():
            document = Document(root, "", "", "utf-8", bom=False, data=b"")
            job = Job(document, "", frozenset(), root=root, facts=tuple(facts), unsaved=unsaved)
            jobs.append(job)
        with closing(self.confirm(job for job in jobs if job.facts)) as reports:
            return frozenset(fact for report in reports for fact in report.rests_on or ())

    def _analysed_again(self, affected: Iterable[Analysed]) -> bool:
        """Analyse files as they are by now; say whether those that were changed are still
        Python."""
        unsaved = tuple(sorted(self._texts.items()))
        jobs, files = [], []
        for file in affected:
            path = file.target.found.path
            document = self._document(path)
            if document is None or document.left_out:
                continue
            if path in self._texts:
                data = encode(document, self._texts[path])
                document = replace(document, text=self._texts[path], data=data)
            jobs.append(replace(self.job(document, file.target), unsaved=unsaved))
            files.append(file)
        with closing(self.run(jobs)) as reports:
            for file, report in zip(files, reports, strict=True):
                file.report = report
                if report.before != report.after:
                    file.document = self._documents[file.target.found.path]
        return not any(
            found.code == INVALID_SYNTAX
            for path in self._texts
            for found in self.files[self._at[path]].report.findings
        )

    def _take_back(
        self, before: Sequence[FileReport], chosen: Sequence[tuple[int, Finding]]
    ) -> None:
        """Undo all of it: the fixes together do not give Python, which is our bug."""
        for file, report in zip(self.files, before, strict=True):
            file.report = report
        for at, finding in chosen:
            words = f"{finding.code} in line {finding.start.row}: its fix, with those of other "
            words += "files, would break a file; please report this"
            note = Note(NoteKind.FAILED, finding.filename, words, finding.start.row)
            self._notes[at, finding.fingerprint, words] = note
        for state in (
            self._texts,
            self._applied,
            self._own,
            self._groups,
            self._edits,
            self._unsafe,
            self._fixes,
        ):
            state.clear()
        self.told.clear()

    def _finish(self, at: int) -> None:
        """Put all that was fixed into the report on a file."""
        file = self.files[at]
        path = file.target.found.path
        mine = self._applied.get(at, [])
        file.document = self._documents[path]
        file.together = self._groups[path]
        report = file.report
        own = [*self._own.get(at, ()), report]
        # What was checked less was so when it was fixed; all other notes hold of the last text.
        less = [n for each in own for n in each.notes if n.kind is NoteKind.CHECKED_LESS]
        rows = [rows_before(file.document.text, each.before) for each in own]
        fixes = [
            replace(fix, row=row(fix.row), rows=tuple(map(row, fix.rows)))
            for row, each in zip(rows, own, strict=True)
            for fix in each.fixes
        ]
        file.report = replace(
            report,
            before=file.document.text,
            after=report.after or self._texts[path],
            edits=sum(each.edits for each in own) + self._edits.get(path, 0),
            unsafe=sum(each.unsafe for each in own) + self._unsafe.get(path, 0),
            fixes=(*self._fixes.get(path, ()), *fixes),
            notes=tuple(dict.fromkeys((*less, *report.notes))),
        )
        self.told += _lines_of_fixes(mine)


def unchanged(report: FileReport) -> FileReport:
    """Return the report on a file without what was changed in it."""
    return replace(report, applied=0, edits=0, unsafe=0, fixes=(), before="", after="", cells=())


def _answers_used(file: Analysed) -> Iterator[Fact]:
    """Yield the answers to questions about all files that a report rests on."""
    return (fact for fact in file.report.rests_on or () if fact[1].startswith(ASKED))


def _edits_by_file(own: str, finding: Finding) -> list[tuple[str, tuple[Edit, ...]]]:
    """Return the files that a fix changes, each with its edits: the finding's own first."""
    assert finding.fix is not None
    others = [(part.path, part.edits) for part in finding.fix.elsewhere]
    return [(own, finding.fix.edits), *others]


def _meets(edit: Edit, others: Iterable[Edit]) -> bool:
    """Say whether an edit meets one of others; the same one, which several fixes need, does not."""
    return any(
        edit.span.start <= other.span.end
        and other.span.start <= edit.span.end
        and (edit.span, edit.text) != (other.span, other.text)
        for other in others
    )


def _lines_of_fixes(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each fix; those of neighbours are often the same one."""
    known = set()
    for finding in findings:
        assert finding.fix is not None
        changes = (frozenset(finding.fix.edits), finding.fix.elsewhere)
        if changes not in known:
            known.add(changes)
            places = [f"{part.filename}:{part.edits[-1].start.row}" for part in changes[1]]
            yield (
                f"{finding.filename}:{finding.start.row}: {finding.code}: one fix with "
                f"{' and '.join(places)}, all of it or nothing"
            )
