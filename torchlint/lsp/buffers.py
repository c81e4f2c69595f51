"""The open documents as the client has them, and what its changes make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from lsprotocol import types as lsp

from torchlint.lsp.columns import Columns

Change = lsp.TextDocumentContentChangePartial | lsp.TextDocumentContentChangeWholeDocument


@dataclass(frozen=True, slots=True)
class Buffer:
    """One open document, or one cell of a notebook; versions are the client's."""

    uri: str
    version: int
    text: str
    language: str = "python"


def changed(buffer: Buffer, changes: Iterable[Change], version: int, encoding: str) -> Buffer:
    """Return a buffer after changes, each of which starts from the text that the one before left."""
    text = buffer.text
    for change in changes:
        if isinstance(change, lsp.TextDocumentContentChangePartial):
            columns = Columns(text, encoding)
            start = columns.offset(change.range.start)
            end = max(start, columns.offset(change.range.end))
            text = text[:start] + change.text + text[end:]
        else:
            text = change.text
    return replace(buffer, version=version, text=text)
