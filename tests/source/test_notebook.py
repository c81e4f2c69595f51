"""Cells as one text, and back."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.source.notebook import Cell, Layout, SeamError, assembled

ROWS = [
    "x = 1",
    "%magic",
    "!ls \\",
    "y = !ls",
    "",
    "    ",
    "# note",
    "if x:",
    "    %time z = 1",
    "    y = 2",
    "(",
    "'''",
    "_ipynb1_",
]
SOURCES = st.lists(st.sampled_from(ROWS), max_size=5).map("\n".join) | st.text(
    alphabet="ab%!?'\n\r\\ (#=", max_size=20
)


def cells(*sources: str) -> list[Cell]:
    return [Cell(number, source) for number, source in enumerate(sources, 1)]


@settings(deadline=None, derandomize=True)
@given(st.lists(SOURCES, max_size=5))
def test_the_text_gives_its_cells_back(sources: list[str]) -> None:
    notebook = assembled(cells(*sources))
    assert notebook.sources(notebook.text) == tuple(part.cell.source for part in notebook.parts)


@settings(deadline=None, derandomize=True)
@given(st.lists(SOURCES, min_size=1, max_size=4), st.data())
def test_an_edit_inside_a_cell_comes_back_in_that_cell(
    sources: list[str], data: st.DataObject
) -> None:
    notebook = assembled(cells(*sources))
    layout = Layout(notebook, notebook.text)
    if not layout.places:
        return
    at = data.draw(st.integers(0, len(layout.places) - 1))
    place = layout.places[at]
    text = notebook.text[: place.end] + "\nnew = 1" + notebook.text[place.end :]
    found = notebook.sources(text)
    old = [part.cell.source for part in notebook.parts]
    assert found == (*old[:at], f"{old[at]}\nnew = 1", *old[at + 1 :])


def test_rows_are_those_of_the_cells() -> None:
    notebook = assembled(
        [
            Cell(2, "import torch"),
            Cell(3, "%%bash\nls"),
            Cell(5, "\n%foo\nx = 1\n"),
            Cell(9, "y = 2"),
        ]
    )
    layout = Layout(notebook, notebook.text)
    rows = notebook.text.split("\n")
    places = {rows[row - 1]: layout.cell_of(row) for row in range(1, len(rows) + 1)}
    assert [
        (cell.number, row)
        for cell, row in (places["import torch"], places["x = 1"], places["y = 2"])
    ] == [
        (2, 1),
        (5, 3),
        (9, 1),
    ]
    ast.parse(notebook.text)


def test_a_cell_that_loses_its_only_row_is_empty_and_the_others_stay() -> None:
    notebook = assembled(cells("a", "b", "c"))
    for row, due in (("a\n", ("", "b", "c")), ("b\n", ("a", "", "c")), ("\nc", ("a", "b", ""))):
        with_newline = notebook.text.replace(row, "" if row != "\nc" else "\n", 1)
        assert notebook.sources(with_newline) == due


def test_an_indented_cell_is_a_block_with_the_same_columns() -> None:
    notebook = assembled(cells("  x = 1\n  if x:\n    y = 2", "# note\n  z = 1", "  # note\nz = 1"))
    assert [part.seam.startswith("if True:") for part in notebook.parts] == [True, True, False]
    ast.parse(notebook.text)
    assert notebook.sources(notebook.text) == tuple(part.cell.source for part in notebook.parts)


@pytest.mark.timeout(20)  # a row that ended in one of two ways took twice as long for each
@pytest.mark.parametrize("row", ["# a note\r\n", "    \r\n", "  # a note\r\n\r\n"])
def test_many_rows_of_comments_are_read(row: str) -> None:
    notebook = assembled(cells(40 * row, 40 * row + "  x = 1", 40 * row + "x = 1"))
    assert [part.seam.startswith("if True:") for part in notebook.parts] == [False, True, False]


def test_the_mark_is_in_no_cell() -> None:
    notebook = assembled(cells("pass  # _ipynb1_", "pass  # _ipynb_1_", "%foo"))
    assert notebook.sources(notebook.text) == ("pass  # _ipynb1_", "pass  # _ipynb_1_", "%foo")


@pytest.mark.parametrize(
    "change",
    [
        lambda text, mark: text.replace("\npass", "\nPASS", 1),
        lambda text, mark: text.replace("\npass", " ;pass", 1),
        lambda text, mark: "\n".join(row for row in text.split("\n") if f"{mark}1_" not in row),
        lambda text, mark: "\n".join(row for row in text.split("\n") if f"{mark}2_" not in row),
        lambda text, mark: "\n".join(
            "    " + row if f"{mark}2_" in row else row for row in text.split("\n")
        ),
        lambda text, mark: f"{text}\n{mark}",
        lambda text, mark: "",
    ],
)
def test_a_text_that_lost_a_seam_or_a_magic_is_refused(change: object) -> None:
    notebook = assembled(cells("a", "b", "x = 1\n%foo\ny"))
    text = change(notebook.text, notebook.mark)  # type: ignore[operator]
    assert text != notebook.text
    with pytest.raises(SeamError):
        notebook.sources(text)


def test_magics_keep_their_order() -> None:
    notebook = assembled(cells("%one\n%two"))
    one, two = notebook.text.split("\n")
    with pytest.raises(SeamError):
        notebook.sources(f"{two}\n{one}")
