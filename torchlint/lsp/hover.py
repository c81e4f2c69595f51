"""What the client shows where the pointer rests on a finding, or on a code in a suppression
comment."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from lsprotocol import types as lsp

from torchlint.base.finding import Finding, Safety
from torchlint.catalog.rules import Catalog, RuleInfo
from torchlint.lsp.convert import Place
from torchlint.source.comments import Comment
from torchlint.source.pragma import pragmas

_SAFETY = {Safety.SAFE: "safe", Safety.UNSAFE: "unsafe", Safety.SUGGESTION: "a suggestion"}
Page = Callable[[RuleInfo], str]


def hover(
    findings: list[Finding], place: Place, at: lsp.Position, catalog: Catalog, page: Page
) -> lsp.Hover | None:
    """Return the manual of the rules that have to do with a position, or None.

    Args:
        findings: those of the text.
        place: the text.
        at: where the pointer is.
        catalog: the rules.
        page: gives the manual of a rule as markdown.
    """
    found: dict[str, lsp.Range] = {}
    told = ""
    for word, span in _named(place, at):
        info = catalog.find(word.upper()) or catalog.find(word.lower())
        if info is not None:
            found.setdefault(info.code, span)
    for finding in findings:
        span = place.columns.range(finding.start, finding.end)
        if not found and _span_holds(span, at):
            found = {finding.code: span}
            if finding.measured is not None:
                told = f"Fixing this saves {finding.measured.words} of the time.\n\n"
            if finding.fix is not None and finding.fix.note:
                told += f"Its fix is {_SAFETY[finding.fix.safety]}: {finding.fix.note}\n\n"
    infos = [info for info in map(catalog.find, found) if info is not None]
    if not infos:
        return None
    text = "\n\n---\n\n".join(page(info) for info in infos)
    return lsp.Hover(lsp.MarkupContent(lsp.MarkupKind.Markdown, told + text), found[infos[0].code])


def _named(place: Place, at: lsp.Position) -> Iterator[tuple[str, lsp.Range]]:
    """Yield the code or name at a position where it stands in a suppression comment of that
    line."""
    index = place.columns.index
    if at.line >= len(index):
        return
    start = index.starts[at.line]
    line = index.line(at.line + 1)
    hash_at = line.find("#")
    if hash_at < 0:
        return
    offset = place.columns.offset(at)
    row = at.line + 1
    for pragma in pragmas(Comment(line[hash_at:], start + hash_at, row, False, row, row)):
        for entry in pragma.entries:
            if entry.span.start <= offset <= entry.span.end:
                yield entry.text, place.columns.span(entry.span)


def _span_holds(span: lsp.Range, at: lsp.Position) -> bool:
    return (
        (span.start.line, span.start.character)
        <= (at.line, at.character)
        <= (span.end.line, span.end.character)
    )
