"""Findings as the protocol has them: diagnostics and text edits. Nothing here knows of a server."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from lsprotocol import types as lsp

from torchlint.base.finding import (
    NOT_ANALYSED,
    UNANALYSED,
    UNUSED_SUPPRESSION,
    FileReport,
    Finding,
    Note,
    Reason,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.places import rule_page
from torchlint.base.records import frozen
from torchlint.base.span import LineIndex, Position
from torchlint.lsp.columns import Columns
from torchlint.lsp.pool import HOME
from torchlint.lsp.uris import uri_of

SOURCE = "torchlint"
_SEVERITIES = {
    Severity.ERROR: lsp.DiagnosticSeverity.Error,
    Severity.WARNING: lsp.DiagnosticSeverity.Warning,
    Severity.INFO: lsp.DiagnosticSeverity.Information,
}
_DEPRECATED = frozenset({"TL408", "TL903"})
"""Rules on what torch or Lightning has deprecated or removed."""


@frozen
class Place:
    """A text that findings lie in, a document or a cell of a notebook; or a file that a fix changes
    too, without a version where it is not open."""

    uri: str
    version: int | None
    columns: Columns


Places = Mapping[int | None, Place]
"""The text of each cell; that of a document that is no notebook is under None."""


Pages = Mapping[str, str]
"""The address of the page of each code."""
_NO_PAGES: Pages = MappingProxyType({})


def diagnostics(
    report: FileReport, places: Places, *, related: bool, pages: Pages = _NO_PAGES
) -> dict[str, list[lsp.Diagnostic]]:
    """Return the diagnostics of each text of a document, by URI; none of them is missing.

    Args:
        report: on the document; what lies in no place of `places` is left out.
        places: its texts.
        related: whether the client shows related information; else the message holds why a line is
            hot.
        pages: where the codes of findings lead that have no page on the web.
    """
    found: dict[str, list[lsp.Diagnostic]] = {place.uri: [] for place in places.values()}
    for finding in report.findings:
        if finding.cell in places:
            found[places[finding.cell].uri].append(
                diagnostic(finding, places, related=related, pages=pages)
            )
    for note in report.notes:
        place = places.get(note.cell) or next(iter(places.values()), None)
        if note.kind in UNANALYSED and place is not None:
            found[place.uri].append(_not_analysed(note, place))
    return found


def diagnostic(
    finding: Finding, places: Places, *, related: bool, pages: Pages = _NO_PAGES
) -> lsp.Diagnostic:
    """Return one finding; parameters are as of `diagnostics`."""
    place, page = places[finding.cell], rule_page(finding.code) or pages.get(finding.code)
    lines = [finding.said]
    if not related:
        lines += (f"why: {reason.text}" for reason in finding.why_hot)
    if finding.help:
        lines.append(f"help: {finding.help}")
    return lsp.Diagnostic(
        range=place.columns.range(finding.start, finding.end),
        message="\n".join(lines),
        severity=_SEVERITIES[finding.severity],
        code=finding.code,
        code_description=lsp.CodeDescription(href=page) if page else None,
        source=SOURCE,
        tags=_tags(finding) or None,
        related_information=[_related(reason, finding, places) for reason in finding.why_hot]
        if related
        else None,
        data=_data(finding, places),
    )


def _tags(finding: Finding) -> list[lsp.DiagnosticTag]:
    fix = finding.fix
    tags = [lsp.DiagnosticTag.Deprecated] if finding.code in _DEPRECATED else []
    removed = fix is not None and not fix.withheld and fix.safety is not Safety.SUGGESTION
    if finding.code == UNUSED_SUPPRESSION or (
        removed and fix and not any(edit.text.strip() for edit in fix.edits)
    ):
        tags.append(lsp.DiagnosticTag.Unnecessary)
    return tags


def _related(reason: Reason, finding: Finding, places: Places) -> lsp.DiagnosticRelatedInformation:
    line = max(reason.line, 1)
    if reason.filename == finding.filename and reason.cell in places:
        place = places[reason.cell]
        location = lsp.Location(place.uri, place.columns.line(line))
    else:
        # The worker names other files as they are seen from where it runs.
        path = os.path.normpath(os.path.join(HOME, reason.filename))
        start = lsp.Position(line - 1, 0)
        location = lsp.Location(uri_of(path), lsp.Range(start, start))
    return lsp.DiagnosticRelatedInformation(location, reason.text)


def _data(finding: Finding, places: Places) -> dict[str, Any]:
    """Return what a client that applies fixes by itself needs; our own actions do not rest on
    it."""
    data: dict[str, Any] = {"fingerprint": finding.fingerprint}
    fix = finding.fix
    if fix is not None and not fix.withheld and not fix.elsewhere:
        edits = [
            {"uri": uri, "range": _as_mapping(edit.range), "newText": edit.new_text}
            for uri, group in text_edits(fix, places).items()
            for edit in group
        ]
        version = places[finding.cell].version
        data["fix"] = {
            "title": fix.title,
            "safety": fix.safety.value,
            "note": fix.note,
            "version": version,
            "edits": edits,
        }
    return data


def _as_mapping(span: lsp.Range) -> dict[str, dict[str, int]]:
    return {
        name: {"line": place.line, "character": place.character}
        for name, place in (("start", span.start), ("end", span.end))
    }


def _not_analysed(note: Note, place: Place) -> lsp.Diagnostic:
    return lsp.Diagnostic(
        range=place.columns.line(note.line or 1),
        message=f"not analysed: {note.message}",
        severity=lsp.DiagnosticSeverity.Information,
        code=NOT_ANALYSED,
        source=SOURCE,
    )


def text_edits(fix: TextFix, places: Places) -> dict[str, list[lsp.TextEdit]]:
    """Return the edits of a fix by the URI of the text that they lie in."""
    found: dict[str, list[lsp.TextEdit]] = {}
    for edit in fix.edits:
        place = places[edit.cell]
        found.setdefault(place.uri, []).append(
            lsp.TextEdit(place.columns.range(edit.start, edit.end), edit.text)
        )
    return found


def difference(place: Place, before: str, after: str) -> list[lsp.TextEdit]:
    """Return edits of whole lines that turn the text of a place into another.

    Args:
        place: where the text stands.
        before: the text as it was analysed.
        after: the text to reach.
    """
    old, new = _lines(before), _lines(after)
    edits = []
    for kind, start, end, low, high in difflib.SequenceMatcher(
        None, old, new, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            where = place.columns.range(_line_after(old, start), _line_after(old, end))
            edits.append(lsp.TextEdit(where, "".join(new[low:high])))
    return edits


def _lines(text: str) -> list[str]:
    starts = [*LineIndex(text).starts, len(text)]
    return [text[start:end] for start, end in pairwise(starts)]


def _line_after(lines: Sequence[str], count: int) -> Position:
    """Return where the line after so many begins; the end of the text for one after the last."""
    if count < len(lines):
        return Position(count + 1, 1)
    return Position(len(lines), len(lines[-1]) + 1)


def workspace_edit(
    edits: Mapping[str, Sequence[lsp.TextEdit]], places: Iterable[Place], *, versioned: bool
) -> lsp.WorkspaceEdit:
    """Return edits of several texts as one.

    Args:
        edits: by URI.
        places: the texts.
        versioned: whether the client understands edits that hold for one version of a text only.
    """
    if not versioned:
        return lsp.WorkspaceEdit(changes=dict(edits))
    versions = {place.uri: place.version for place in places}
    return lsp.WorkspaceEdit(
        document_changes=[
            lsp.TextDocumentEdit(
                lsp.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]), list(group)
            )
            for uri, group in edits.items()
        ]
    )
