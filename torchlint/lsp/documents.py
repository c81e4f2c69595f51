"""What is open at the client."""

from __future__ import annotations

from lsprotocol import types as lsp

from torchlint.lsp.buffers import Buffer, changed
from torchlint.lsp.columns import Columns
from torchlint.lsp.convert import Place, Places


class Documents:
    """The open documents, by URI as the client writes it. Messages that do not fit are no error."""

    def __init__(self) -> None:
        self.encoding: str = lsp.PositionEncodingKind.Utf16
        self.buffers: dict[str, Buffer] = {}

    def open(self, item: lsp.TextDocumentItem) -> str:
        """Take a document, or its new text where it is open already; return its key."""
        self.buffers[item.uri] = Buffer(item.uri, item.version, item.text, item.language_id)
        return item.uri

    def change(self, params: lsp.DidChangeTextDocumentParams) -> str | None:
        """Change a document, and return its key; None where it is not open."""
        found = self.buffers.get(params.text_document.uri)
        if found is None:
            return None
        changes, version = params.content_changes, params.text_document.version
        self.buffers[found.uri] = changed(found, changes, version, self.encoding)
        return found.uri

    def close(self, uri: str) -> str | None:
        """Forget a document, and return the key that it had; None where it is not open."""
        return uri if self.buffers.pop(uri, None) is not None else None

    def key(self, uri: str) -> str:
        """Return the key under which a document is analysed."""
        return uri

    def version(self, key: str) -> object:
        """Return what tells the state of what is open under a key from any other; None where nothing is."""
        buffer = self.buffers.get(key)
        return buffer.version if buffer is not None else None

    def places(self, key: str) -> Places:
        """Return the texts of what is open under a key."""
        buffer = self.buffers[key]
        return {None: Place(buffer.uri, buffer.version, Columns(buffer.text, self.encoding))}
