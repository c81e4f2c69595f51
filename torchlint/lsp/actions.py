"""Code actions: the fix of a finding, all safe fixes, and a comment that ignores a finding."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator

from lsprotocol import types as lsp

from torchlint.base.finding import ENGINE_CODES, FileEdits, Finding, Safety, TextFix
from torchlint.lsp.client import Client
from torchlint.lsp.convert import Place, Places, diagnostic, text_edits, workspace_edit
from torchlint.source.add_ignore import additions

FIX_ALL = "source.fixAll.torchlint"
Other = Callable[[FileEdits], Place | str]
"""Gives the text of a file that a fix changes besides its own, or why it cannot be changed."""
IGNORES = "ignores"
"""Key of an action's data: the fingerprint of the finding that it ignores."""


def wanted(kind: str, only: Iterable[str] | None) -> bool:
    """Say whether a client that asks for the kinds `only` wants this kind."""
    return only is None or any(
        kind == each or kind.startswith(f"{each}.") or not each for each in only
    )


def touched(
    findings: Iterable[Finding], places: Places, uri: str, span: lsp.Range
) -> list[Finding]:
    """Return the findings in the text `uri` that share a line with a range."""
    return [
        finding
        for finding in findings
        if finding.cell in places
        and places[finding.cell].uri == uri
        and finding.start.row - 1 <= span.end.line
        and finding.end.row - 1 >= span.start.line
    ]


def fixes(
    findings: Iterable[Finding], places: Places, client: Client, other: Other
) -> Iterator[lsp.CodeAction]:
    """Yield an action for the fix of each finding that has one; `other` gives the files that it
    changes too."""
    for finding in findings:
        if finding.fix is not None:
            yield from _fix(finding, finding.fix, places, client, other)


def _fix(
    finding: Finding, fix: TextFix, places: Places, client: Client, other: Other
) -> Iterator[lsp.CodeAction]:
    title = f"{finding.code}: {fix.title}{_words(fix)}"
    shown = [diagnostic(finding, places, related=client.related)]
    edits, reason = text_edits(fix, places), fix.withheld
    others = []
    for part in fix.elsewhere if not reason else ():
        found = other(part)
        if isinstance(found, str):
            reason = f"it also changes {os.path.basename(part.path)}, which {found}"
            break
        others.append(found)
        edits[found.uri] = [
            lsp.TextEdit(found.columns.range(edit.start, edit.end), edit.text)
            for edit in part.edits
        ]
    if not reason:
        every = (*places.values(), *others)
        edit = workspace_edit(edits, every, versioned=client.versioned)
        safe = fix.safety is Safety.SAFE
        yield lsp.CodeAction(
            title, lsp.CodeActionKind.QuickFix, shown, is_preferred=safe or None, edit=edit
        )
    elif client.disabled:
        disabled = lsp.CodeActionDisabled(reason)
        yield lsp.CodeAction(title, lsp.CodeActionKind.QuickFix, shown, disabled=disabled)


def _words(fix: TextFix) -> str:
    if fix.safety is Safety.SAFE:
        return ""
    word = "unsafe" if fix.safety is Safety.UNSAFE else "suggestion, check the result"
    return f" ({word}: {fix.note})" if fix.note else f" ({word})"


def ignores(
    findings: Iterable[Finding], places: Places, client: Client
) -> Iterator[lsp.CodeAction]:
    """Yield an action for each finding that writes a comment which ignores it; `ignoring` gives its
    edit."""
    for finding in findings:
        if finding.code not in ENGINE_CODES:
            shown = [diagnostic(finding, places, related=client.related)]
            data = {IGNORES: finding.fingerprint}
            yield lsp.CodeAction(
                f"{finding.code}: Ignore on this line",
                lsp.CodeActionKind.QuickFix,
                shown,
                data=data,
            )


def ignoring(finding: Finding, places: Places, client: Client) -> lsp.WorkspaceEdit | None:
    """Return the edit that ignores a finding, or None where no comment can. Slow: it reads the
    whole text."""
    place = places[finding.cell]
    edits = [
        lsp.TextEdit(place.columns.range(edit.start, edit.end), edit.text)
        for edit in additions(place.columns.text, (finding,)).edits
    ]
    if not edits:
        return None
    return workspace_edit({place.uri: edits}, places.values(), versioned=client.versioned)
