"""The last lines of a run: how much was found, what can be fixed, and all that was not done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.base.finding import UNANALYSED, UNREADABLE, Finding, Note, NoteKind, Severity
from torchlint.report.kit.terminal import BOLD, CYAN, paint
from torchlint.report.kit.words import pluralise, visible
from torchlint.report.run_report import RunReport, fixable
from torchlint.report.text import note_place

_TITLES = {
    NoteKind.SKIPPED: "not analysed",
    NoteKind.UNSUPPORTED: "not analysed",
    NoteKind.FAILED: "not analysed",
    NoteKind.UNWRITTEN: "not written",
    NoteKind.WITHHELD: "withheld",
    NoteKind.CHECKED_LESS: "fixed with fewer checks",
}
_PARTLY = {NoteKind.UNWRITTEN: "fix", NoteKind.WITHHELD: "fix", NoteKind.CHECKED_LESS: "file"}
"""What was done in part, and what there is one of."""


def summary(run: RunReport, unlisted: Sequence[Finding] = (), *, fixes: bool = True) -> str:
    """Return the closing lines; what was not analysed, not written or withheld is always among
    them. `unlisted` are the findings that the report above only counts; `fixes` asks for the
    command that writes what can be fixed."""
    offered = _fixable(run, unlisted) if fixes else ()
    lines = [*_fixed(run), _found(run), *offered, *_undone(run)]
    return "".join(f"{line}\n" for line in lines)


def next_steps(run: RunReport) -> str:
    """Return what a reader of a long list may do next, a command a line; nothing after a report in
    full."""
    from torchlint.report.ranked import first_rule, folded, in_full

    first = first_rule(run)
    if in_full(run) or not (first or folded(run)):
        return ""
    steps = [
        *_fixes(run),
        ("torchlint check --show-source", "the code, why it runs so often, the repair"),
        ("torchlint check --statistics", "how often each rule was broken"),
    ]
    if folded(run):
        steps.append(("torchlint check --show-infos", "the infos, too"))
    if run.named:
        steps = [(f"{command} {run.named}", words) for command, words in steps]
    if first:
        steps.append((f"torchlint rule {first}", "why it costs, and when it is left alone"))
    column = max(len(command) for command, _ in steps)
    beside = column + 4 + max(len(words) for _, words in steps) <= run.width
    lines = [
        f"  {command:<{column}}  {words}" if beside else f"  {command}\n    {words}"
        for command, words in steps
    ]
    return "".join(f"{line}\n" for line in [paint("Next:", BOLD, run.color), *lines])


def _fixes(run: RunReport) -> Iterator[tuple[str, str]]:
    safe, unsafe = fixable(run.findings())
    if safe:
        yield "torchlint fix", f"{pluralise(safe, 'safe repair')} [*] as a diff (--apply: write)"
    if unsafe:
        yield (
            "torchlint fix --unsafe-fixes",
            f"{pluralise(unsafe, 'repair')} [~] more, and what each may change",
        )


def _fixed(run: RunReport) -> Iterator[str]:
    if run.fix_applied:
        yield f"Fixed {applied(run)}."


def applied(run: RunReport) -> str:
    """Return how many findings are gone by changes of how many files, with how many edits, how many
    of those are of unsafe fixes, and how many findings could only be fixed behind others."""
    files = sum(1 for file in run.files if file.before != file.after)
    edits = sum(file.edits for file in run.files)
    unsafe = sum(file.unsafe for file in run.files)
    risk = f", {unsafe} of them unsafe" if unsafe else ""
    where = f"in {pluralise(files, 'file')} with {pluralise(edits, 'edit')}"
    later = run.fix_applied - sum(file.could for file in run.files)
    behind = f"; {later} could be fixed only once others were" if later > 0 else ""
    return f"{pluralise(run.fix_applied, 'finding')} {where}{risk}{behind}"


def _found(run: RunReport) -> str:
    findings = list(run.findings())
    if {finding.code for finding in findings} == {UNREADABLE}:
        return f"No findings, but {pluralise(len(findings), 'path')} could not be read."
    if findings:
        files = pluralise(len({finding.filename for finding in findings}), "file")
        return f"Found {pluralise(len(findings), 'finding')} ({_graded(findings)}) in {files}."
    if any(note.kind not in (NoteKind.WITHHELD, NoteKind.CHECKED_LESS) for note in run.notes()):
        return "No findings, but not everything was done."
    return "All checks passed." if run.files_checked else "No files were checked."


def _graded(findings: list[Finding]) -> str:
    grades = [finding.severity for finding in findings]
    return ", ".join(
        pluralise(grades.count(grade), grade.value)
        for grade in (Severity.ERROR, Severity.WARNING, Severity.INFO)
    )


def _fixable(run: RunReport, unlisted: Sequence[Finding]) -> Iterator[str]:
    safe, unsafe = fixable(run.findings())
    hidden_safe, hidden_unsafe = fixable(unlisted)
    mark = paint("[*]" if safe else "[~]", CYAN, run.color)
    fix = "torchlint fix --apply"
    paths = f" {run.named}" if run.named else ""
    if run.unsafe_fixes or (unsafe and not safe):
        if safe + unsafe:
            infos = _in_infos(hidden_safe + hidden_unsafe, safe + unsafe)
            yield f"{mark} {safe + unsafe} fixable with `{fix} --unsafe-fixes{paths}`{infos}."
    elif safe:
        infos = _in_infos(hidden_unsafe, unsafe)
        more = f" ({unsafe} more with `--unsafe-fixes`{infos})" if unsafe else ""
        yield f"{mark} {safe} fixable with `{fix}{paths}`{_in_infos(hidden_safe, safe)}{more}."


def _in_infos(hidden: int, count: int) -> str:
    """Say how many of so many findings are not in the list above."""
    if not hidden:
        return ""
    part = "" if count == 1 else "all " if hidden == count else f"{hidden} of them "
    return f", {part}in infos not listed"


def _undone(run: RunReport) -> Iterator[str]:
    unanalysed = list(run.notes(*UNANALYSED))
    if unanalysed:
        files = len({note.filename for note in unanalysed})
        yield f"{pluralise(files, 'file')} not analysed:"
        yield from map(_noted, unanalysed)
    for kind, word in _PARTLY.items():
        notes = list(run.notes(kind))
        if notes:
            yield f"{pluralise(sum(note.count for note in notes), word)} {_TITLES[kind]}:"
            yield from map(_noted, notes)


def _noted(note: Note) -> str:
    return f"  {note_place(note)}: {visible(note.message)}"


def undone(run: RunReport, *kinds: NoteKind) -> str:
    """Return a line for each thing that was not done, for standard error; all kinds where none is
    named."""
    return "".join(
        f"{note_place(note)}: {_TITLES[note.kind]}: {visible(note.message)}\n"
        for note in run.notes(*kinds)
    )
