"""Code actions: the fix of a finding, all safe fixes, and a comment that ignores a finding."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from lsprotocol import types as lsp

from torchlint.base.finding import ENGINE_CODES, FileEdits, Finding, Safety, TextFix
from torchlint.lsp.client import Client
from torchlint.lsp.convert import Place, Places, diagnostic, text_edits, workspace_edit
from torchlint.source.add_ignore import additions

FIX_ALL = "source.fixAll.torchlint"
_SAFETY = {Safety.SAFE: "", Safety.UNSAFE: " (unsafe)", Safety.SUGGESTION: " (check the result)"}
"""What a title says of a fix; what an unsafe one may change is told where the pointer rests."""
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
    """Yield an action for each fix, one for all findings that it fixes; `other` gives the files
    that it changes too."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        if (fix := finding.fix) is not None:
            changes = (fix.title, fix.edits, fix.elsewhere, fix.withheld)
            groups.setdefault((finding.code, finding.cell, *changes), []).append(finding)
    titles = Counter((code, title) for code, _, title, *_ in groups)
    for (code, _, title, *_), group in groups.items():
        fix = group[0].fix
        assert fix is not None
        same = titles[code, title] > 1
        where = f", column {group[0].start.column}" if same else ""
        yield from _fix(group, replace(fix, title=f"{fix.title}{where}"), places, client, other)


def _fix(
    group: list[Finding], fix: TextFix, places: Places, client: Client, other: Other
) -> Iterator[lsp.CodeAction]:
    title = f"{group[0].code}: {fix.title}{_SAFETY[fix.safety]}"
    shown = [diagnostic(finding, places, related=client.related) for finding in group]
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


def ignores(
    findings: Iterable[Finding], places: Places, client: Client
) -> Iterator[lsp.CodeAction]:
    """Yield an action for each rule and statement that writes a comment which ignores the rule
    there; `ignoring` gives its edit."""
    told = set()
    for finding in findings:
        key = (finding.code, finding.cell, finding.statement)
        if finding.code not in ENGINE_CODES and key not in told:
            told.add(key)
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
