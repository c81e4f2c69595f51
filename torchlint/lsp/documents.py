"""What is open at the client: documents, and notebooks whose cells are documents too."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from lsprotocol import types as lsp

from torchlint.base.records import frozen
from torchlint.lsp.columns import Columns
from torchlint.lsp.convert import Place, Places
from torchlint.lsp.uris import path_of, real_place
from torchlint.source.notebook import Cell, Notebook, assembled

_SUFFIXES = (".py", ".pyi")
Change = lsp.TextDocumentContentChangePartial | lsp.TextDocumentContentChangeWholeDocument


@frozen
class Buffer:
    """One open document, or one cell of a notebook; versions are the client's."""

    uri: str
    version: int
    text: str
    language: str = "python"


@frozen
class Book:
    """An open notebook: its version, and the URIs of its cells of every kind, in order."""

    version: int
    cells: tuple[str, ...]


class Documents:
    """The open documents, by URI as the client writes it. Messages that do not fit are no error.

    What is analysed as one has a *key*: the URI of a document, or for a cell that of its notebook.
    """

    def __init__(self) -> None:
        self.encoding: str = lsp.PositionEncodingKind.Utf16
        self.buffers: dict[str, Buffer] = {}
        self.books: dict[str, Book] = {}
        self._owners: dict[str, str] = {}

    def open(self, item: lsp.TextDocumentItem) -> str:
        """Take a document, or its new text where it is open already; return its key."""
        self.buffers[item.uri] = Buffer(item.uri, item.version, item.text, item.language_id)
        return self.key(item.uri)

    def change(
        self, document: lsp.VersionedTextDocumentIdentifier, changes: Iterable[Change]
    ) -> str | None:
        """Change a document, and return its key; None where it is not open."""
        found = self.buffers.get(document.uri)
        if found is None:
            return None
        self.buffers[found.uri] = changed(found, changes, document.version, self.encoding)
        return self.key(found.uri)

    def close(self, uri: str) -> bool:
        """Forget a document; say whether it was open."""
        self._owners.pop(uri, None)
        return self.buffers.pop(uri, None) is not None

    def open_book(self, params: lsp.DidOpenNotebookDocumentParams) -> str:
        """Take a notebook with its cells, and return its key."""
        book = params.notebook_document
        self._arrange(book.uri, Book(book.version, tuple(cell.document for cell in book.cells)))
        for item in params.cell_text_documents:
            self.open(item)
        return book.uri

    def change_book(
        self, params: lsp.DidChangeNotebookDocumentParams
    ) -> tuple[str, list[str]] | None:
        """Change a notebook; return its key and the cells that it has no more, or None where it is
        not open."""
        uri, cells = params.notebook_document.uri, params.change.cells
        book = self.books.get(uri)
        if book is None:
            return None
        names = list(book.cells)
        gone: list[str] = []
        if cells is not None and cells.structure is not None:
            array = cells.structure.array
            names[array.start : array.start + array.delete_count] = [
                cell.document for cell in array.cells or ()
            ]
            gone = [each.uri for each in cells.structure.did_close or () if self.close(each.uri)]
        self._arrange(uri, Book(params.notebook_document.version, tuple(names)))
        if cells is not None and cells.structure is not None:
            for item in cells.structure.did_open or ():
                self.open(item)
        for content in (cells.text_content if cells is not None else None) or ():
            self.change(content.document, content.changes)
        return uri, gone

    def close_book(self, uri: str) -> list[str]:
        """Forget a notebook, and return the cells that were open."""
        book = self.books.pop(uri, None)
        return [cell for cell in book.cells if self.close(cell)] if book is not None else []

    def _arrange(self, uri: str, book: Book) -> None:
        self.books[uri] = book
        self._owners.update(dict.fromkeys(book.cells, uri))

    def key(self, uri: str) -> str:
        """Return the key under which a document is analysed."""
        return self._owners.get(uri, uri)

    def version(self, key: str) -> str | None:
        """Return what tells the state of what is open under a key from any other; None where
        nothing is."""
        book = self.books.get(key)
        if book is not None:
            return " ".join(
                map(str, (book.version, *(buffer.version for _, buffer in self._cells(book))))
            )
        buffer = self.buffers.get(key)
        return str(buffer.version) if buffer is not None else None

    def _cells(self, book: Book) -> list[tuple[int, Buffer]]:
        """Return the cells with code, each with its number among cells of every kind."""
        found = [
            (number, self.buffers.get(uri))
            for number, uri in enumerate(dict.fromkeys(book.cells), 1)
        ]
        return [
            (number, buffer)
            for number, buffer in found
            if buffer is not None and buffer.language == "python"
        ]

    def notebook(self, key: str) -> Notebook | None:
        """Return the cells of a notebook as one text; None for what is none."""
        book = self.books.get(key)
        if book is None:
            return None
        return assembled(
            Cell(number, buffer.text.removeprefix("\ufeff")) for number, buffer in self._cells(book)
        )

    def places(self, key: str) -> Places:
        """Return the texts of what is open under a key."""
        book = self.books.get(key)
        if book is None:
            return {None: self._place_of(self.buffers[key])}
        return {number: self._place_of(buffer) for number, buffer in self._cells(book)}

    def texts(self) -> tuple[tuple[str, str], ...]:
        """Return the open files of Python by path, links of their folders resolved: other files may
        import them."""
        found = {}
        for uri, buffer in self.buffers.items():
            path = path_of(uri) if uri.endswith(_SUFFIXES) and uri not in self._owners else ""
            if path:
                found[real_place(path)] = buffer.text.removeprefix("\ufeff")
        return tuple(found.items())

    def opened(self, path: str) -> Place | None:
        """Return the text of an open file that is no part of a notebook, by its path with all links
        resolved; None where it is not open."""
        for uri, buffer in self.buffers.items():
            if uri not in self._owners and os.path.realpath(path_of(uri) or os.sep) == path:
                return self._place_of(buffer)
        return None

    def _place_of(self, buffer: Buffer) -> Place:
        return Place(buffer.uri, buffer.version, Columns(buffer.text, self.encoding))


def changed(buffer: Buffer, changes: Iterable[Change], version: int, encoding: str) -> Buffer:
    """Return a buffer after changes, each of which starts from the text that the one before
    left."""
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
