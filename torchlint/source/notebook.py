"""Code cells as one Python text, and a changed text as cells again.

The cells follow each other in the order of the notebook, so that names flow between them. Between
two cells stands a row of Python that nothing else looks like, the *seam*; what only IPython
understands is covered by such rows as well (see `ipython`). Both are found again in any text that
fixes made of the first one: so a text alone tells where its cells are. Where the cells come from, a
file or an editor, does not matter here.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.span import LineIndex, Span
from torchlint.source.ipython import covers

MARK = "_ipynb"
"""How the words begin that stand in for what is no Python in cells, and between cells; longer
where cells hold it themselves."""
_ROW = regex(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_CODE = regex(r"(?:[ \t\f]*(?:#[^\r\n]*)?[\r\n])*([ \t]+)[^\s#]")
"""The first row with code is indented. IPython takes such an indentation off the whole cell."""


class SeamError(ValueError):
    """A text in which the seams or covered rows are not those of its notebook: no cells can be made
    of it."""


@frozen
class Cell:
    """One code cell as it is stored.

    Args:
        number: 1-based, counted over cells of every kind.
        source: its text.
        id: what nbformat 4.5 calls it by; empty in older notebooks.
        file_rows: for each row of `source`, the row of the file that holds it; empty where there is
            no file.
    """

    number: int
    source: str
    id: str = ""
    file_rows: tuple[int, ...] = ()


@frozen
class Part:
    """One cell within the text of a notebook.

    Args:
        cell: the cell.
        seam: the row above it, without its newline; empty above the first, which mostly needs none.
        python: the cell's text with covered rows.
        covered: of each covered row, how it reads here, and what it reads in the cell.
        head: how many of these are the cell's magics, which must stay at its top.
    """

    cell: Cell
    seam: str
    python: str
    covered: tuple[tuple[str, str], ...] = ()
    head: int = 0

    def restored(self, python: str) -> str:
        """Return the source of the cell where its text here is `python`.

        Raises:
            SeamError: covered rows are changed, gone, or in another order.
        """
        if python == self.python:
            return self.cell.source
        left = list(self.covered)
        rows = []
        for row in _ROW.findall(python):
            body = row.rstrip("\r\n")
            if left and body == left[0][0]:
                row = left.pop(0)[1] + row[len(body) :]
            rows.append(row)
        if left:
            raise SeamError(f"cell {self.cell.number} has lost the row {left[0][1]!r}")
        return "".join(rows)


@frozen
class Notebook:
    """The code cells of a notebook that hold Python, in order."""

    parts: tuple[Part, ...]
    mark: str
    """What every seam and covered row holds, and no cell does."""
    accelerated: bool = False
    """Whether its metadata ask for an accelerator, or its outputs show one."""

    @property
    def text(self) -> str:
        """All cells as one Python text."""
        pieces = []
        for part in self.parts:
            pieces += [f"{part.seam}\n{part.python}" if part.seam else part.python]
        return "\n".join(pieces)

    def sources(self, text: str) -> tuple[str, ...]:
        """Return the source of each part's cell in `text`, which is `self.text` after some edits.

        Raises:
            SeamError: the edits reached beyond the cells.
        """
        layout = Layout(self, text)
        found = tuple(place.part.restored(text[place.start : place.end]) for place in layout.places)
        if text.count(self.mark) != self.text.count(self.mark):
            raise SeamError("a row that is not Python is doubled")
        return found


@frozen
class Place:
    """Where a part stands in a text: its range, without the newline before the next seam, and its
    first row."""

    part: Part
    start: int
    end: int
    row: int

    @property
    def indented(self) -> bool:
        """Whether the seam above the part is a block that holds it."""
        return self.part.seam.startswith("if")


class Layout:
    """The places of all cells in one text of a notebook.

    Raises:
        SeamError: a seam is missing, or not where it was.
    """

    def __init__(self, notebook: Notebook, text: str) -> None:
        self.notebook = notebook
        self.text = text
        self.index = LineIndex(text)
        self.places = tuple(self._places())
        self._rows = [place.row for place in self.places]

    def _places(self) -> Iterator[Place]:
        parts = self.notebook.parts
        at = 0
        for number, part in enumerate(parts):
            start = self._below(part.seam, at) if part.seam else 0
            follower = parts[number + 1].seam if number + 1 < len(parts) else ""
            at = end = len(self.text)
            if follower:
                at = self._below(follower, start) - len(follower) - 1
                end = at - 1 if at > start else at
            yield Place(part, start, end, self.index.position(start).row)

    def _below(self, seam: str, at: int) -> int:
        """Return the start of the row below a seam that stands at or behind `at`."""
        found = self.text.find(f"{seam}\n", at)
        if found < 0 or (found and self.text[found - 1] != "\n"):
            raise SeamError(f"there is no row {seam!r}")
        return found + len(seam) + 1

    def place_of(self, row: int) -> Place:
        """Return the place that holds a row; a seam belongs to the cell above it, or to the first.

        Raises:
            IndexError: the notebook has no parts.
        """
        return self.places[max(bisect.bisect_right(self._rows, row) - 1, 0)]

    def cell_of(self, row: int) -> tuple[Cell, int]:
        """Return the cell that holds a row of the text, and the row counted from the cell's
        first."""
        place = self.place_of(row)
        return place.part.cell, max(row - place.row + 1, 1)

    def covered(self, place: Place) -> list[Span]:
        """Return where the covered rows of a cell are now, without their newlines."""
        found = []
        at = place.start
        for row, _ in place.part.covered:
            at = self.text.index(row, at, place.end)
            found.append(Span(at, at + len(row)))
            at += len(row)
        return found


def assembled(cells: Iterable[Cell]) -> Notebook:
    """Return the notebook made of code cells; those that hold no Python as a whole (``%%bash``) are
    left out."""
    cells = tuple(cells)
    mark = MARK
    while any(mark in cell.source for cell in cells):
        mark += "_"
    parts: list[Part] = []
    number = 0
    for cell in cells:
        found = covers(cell.source)
        if found is None:
            continue
        seam_number = number
        rows = _ROW.findall(cell.source)
        covered = []
        for row, (before, after) in found[0].items():
            number += 1
            body = rows[row - 1].rstrip("\r\n")
            covered.append((f"{before}{mark}{number}_{after}", body))
            rows[row - 1] = covered[-1][0] + rows[row - 1][len(body) :]
        python = "".join(rows)
        # An indented cell runs as if it were not, and so does what a cell's magic runs; below an
        # ``if`` it keeps its columns.
        block = "if True:" if _CODE.match(python) else "pass"
        seam = f"{block}  # {mark}{seam_number}_" if parts or block != "pass" else ""
        parts.append(Part(cell, seam, python, tuple(covered), found[1]))
        number += 1
    return Notebook(tuple(parts), mark)
