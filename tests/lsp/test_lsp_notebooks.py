"""Notebooks in the editor, end to end: one analysis over all cells, each cell with its own
diagnostics and edits."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import pytest_asyncio
from lsprotocol import types as lsp

from tests.lsp.editor import Editor, able, applied, span

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
SETUP = "%matplotlib inline\nimport torch\n"
LOOP = (
    "for x in loader:\n    é = '\U0001f600', torch.ones(n).cuda()\n    model(x, "
    "é).sum().backward()\n"
)
FOUND = span(1, 14, 1, 34)
"""Where the finding of `LOOP` is, in UTF-16."""


class Book:
    """A notebook in an editor; cells with code are named after their place when it was opened."""

    def __init__(self, editor: Editor) -> None:
        self.editor = editor
        self.uri = (editor.folder / "a b.ipynb").as_uri()
        self.version = 1

    def cell(self, number: int) -> str:
        return f"vscode-notebook-cell:/a%20b.ipynb#W{number}"

    def open(self, *sources: str | None) -> None:
        """Open it; None is a cell of words."""
        cells = [self._cell(number, source) for number, source in enumerate(sources, 1)]
        items = [
            self._item(number, source)
            for number, source in enumerate(sources, 1)
            if source is not None
        ]
        book = lsp.NotebookDocument(self.uri, "jupyter-notebook", 1, cells)
        self.editor.client.notebook_document_did_open(
            lsp.DidOpenNotebookDocumentParams(book, items)
        )

    def _cell(self, number: int, source: str | None) -> lsp.NotebookCell:
        kind = lsp.NotebookCellKind.Markup if source is None else lsp.NotebookCellKind.Code
        return lsp.NotebookCell(kind, self.cell(number))

    def _item(self, number: int, source: str) -> lsp.TextDocumentItem:
        return lsp.TextDocumentItem(self.cell(number), "python", 1, source)

    def change(self, cells: lsp.NotebookDocumentCellChanges) -> None:
        self.version += 1
        identifier = lsp.VersionedNotebookDocumentIdentifier(self.version, self.uri)
        event = lsp.NotebookDocumentChangeEvent(cells=cells)
        self.editor.client.notebook_document_did_change(
            lsp.DidChangeNotebookDocumentParams(identifier, event)
        )

    def write(self, number: int, version: int, change: lsp.TextDocumentContentChangeEvent) -> None:
        """Change the text of a cell."""
        identifier = lsp.VersionedTextDocumentIdentifier(version, self.cell(number))
        content = lsp.NotebookDocumentCellContentChanges(identifier, [change])
        self.change(lsp.NotebookDocumentCellChanges(text_content=[content]))

    def arrange(
        self,
        start: int,
        count: int,
        opened: Sequence[tuple[int, str]] = (),
        closed: Sequence[int] = (),
    ) -> None:
        """Take `count` cells away at a place, and put others there."""
        cells = [self._cell(number, source) for number, source in opened]
        self.change(
            lsp.NotebookDocumentCellChanges(
                structure=lsp.NotebookDocumentCellChangeStructure(
                    lsp.NotebookCellArrayChange(start, count, cells),
                    did_open=[self._item(number, source) for number, source in opened],
                    did_close=[lsp.TextDocumentIdentifier(self.cell(number)) for number in closed],
                )
            )
        )


@pytest_asyncio.fixture
async def book(bare: Editor) -> Book:
    """Return a notebook at an editor that knows notebooks, and asks for the diagnostics of other
    documents."""
    can = able(pulls=True)
    sync = lsp.NotebookDocumentSyncClientCapabilities()
    can.notebook_document = lsp.NotebookDocumentClientCapabilities(synchronization=sync)
    result = await bare.initialize(capabilities=can)
    assert result.capabilities.notebook_document_sync
    return Book(bare)


async def test_names_flow_between_cells_and_each_has_its_own_diagnostics(book: Book) -> None:
    book.open(None, SETUP, "!ls 'it's'\n", LOOP)
    assert await book.editor.diagnostics(book.cell(2)) == []
    (found,) = await book.editor.diagnostics(book.cell(4))
    assert (found.code, found.range) == ("TL102", FOUND)
    assert found.related_information
    assert found.related_information[0].location == lsp.Location(book.cell(4), span(0, 0, 0, 16))
    params = lsp.DocumentDiagnosticParams(lsp.TextDocumentIdentifier(book.cell(4)))
    report = await book.editor.client.text_document_diagnostic_async(params)
    assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
    assert not report.items, "they would be shown twice"


async def test_changes_of_text_and_of_cells(book: Book) -> None:
    editor = book.editor
    book.open(SETUP, "pass")
    await editor.diagnostics(book.cell(2))
    book.write(2, 2, lsp.TextDocumentContentChangeWholeDocument(LOOP))
    assert [each.range for each in await editor.diagnostics(book.cell(2), 2)] == [FOUND]
    book.write(2, 3, lsp.TextDocumentContentChangePartial(FOUND, "0"))
    assert await editor.diagnostics(book.cell(2), 3) == []
    book.arrange(2, 0, opened=[(7, LOOP)])
    assert len(await editor.diagnostics(book.cell(7))) == 1
    editor.published.clear()
    book.arrange(0, 1, closed=[1])  # torch is not imported any more
    assert await editor.diagnostics(book.cell(7)) == []
    await editor.until(
        lambda: [
            each for each in editor.published if each.uri == book.cell(1) and not each.diagnostics
        ]
    )


async def test_fixes_are_for_one_cell_and_fix_all_for_all(book: Book) -> None:
    editor = book.editor
    book.open(SETUP, None, LOOP, "x = 1\n" + LOOP)
    assert len(await editor.diagnostics(book.cell(3))) == 1
    fix, ignore = await editor.actions(book.cell(3), 1, only=["quickfix"])
    fixed = LOOP.replace("torch.ones(n).cuda()", 'torch.ones(n, device="cuda")')
    assert applied(LOOP, await editor.edit(fix), book.cell(3)) == fixed
    ignored = applied(LOOP, await editor.edit(ignore), book.cell(3))
    assert ignored.splitlines()[1].endswith("  # torchlint: ignore[TL102]")
    (every,) = await editor.actions(book.cell(3), 0, only=["source.fixAll"])
    edit = await editor.edit(every)
    assert applied(LOOP, edit, book.cell(3)) == fixed
    assert applied("x = 1\n" + LOOP, edit, book.cell(4)) == "x = 1\n" + fixed
    assert applied(SETUP, edit, book.cell(1)) == SETUP
    hover = await editor.client.text_document_hover_async(
        lsp.HoverParams(lsp.TextDocumentIdentifier(book.cell(4)), lsp.Position(2, 20))
    )
    assert hover


async def test_a_faulty_cell_is_the_one_with_the_error(book: Book) -> None:
    book.open(SETUP, "x = (\n", LOOP)
    (found,) = await book.editor.diagnostics(book.cell(2))
    assert (found.code, found.range.start) == ("invalid-syntax", lsp.Position(0, 4))
    (other,) = await book.editor.diagnostics(book.cell(3))
    assert other.code == "TL102"


async def test_a_closed_notebook_is_forgotten(book: Book) -> None:
    editor = book.editor
    book.open(SETUP, LOOP)
    assert await editor.diagnostics(book.cell(2))
    cells = [lsp.TextDocumentIdentifier(book.cell(number)) for number in (1, 2)]
    identifier = lsp.NotebookDocumentIdentifier(book.uri)
    for _ in range(2):
        editor.client.notebook_document_did_close(
            lsp.DidCloseNotebookDocumentParams(identifier, cells)
        )
    await editor.until(
        lambda: not editor.published[-1].diagnostics and editor.published[-1].uri == book.cell(2)
    )
    book.write(2, 2, lsp.TextDocumentContentChangeWholeDocument(LOOP))  # told in the log
    await editor.until(
        lambda: [each for each in editor.client.log_messages if "not open" in each.message]
    )
    assert await editor.actions(book.cell(2), 1) == []


async def test_settings_hold_for_notebooks(book: Book) -> None:
    book.editor.write("torchlint.toml", '[per-file-ignores]\n"*.ipynb" = ["TL102"]\n')
    book.open(SETUP, LOOP)
    assert await book.editor.diagnostics(book.cell(2)) == []


async def test_a_notebook_without_cells(book: Book) -> None:
    book.open()
    book.arrange(5, 9, opened=[(1, SETUP + LOOP)])
    assert len(await book.editor.diagnostics(book.cell(1))) == 1
