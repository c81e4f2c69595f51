"""Places of explanations: rows of the text that is analysed, and of a notebook those of its
cells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from torchlint.base.explanation import Belief, Explanation, Guard, Pace, Place, Verdict
from torchlint.base.finding import Reason
from torchlint.base.span import LineIndex
from torchlint.engine.cells import reason_in_cell
from torchlint.source.document import Document
from torchlint.source.notebook import Layout
from torchlint.source.notebook import Place as CellPlace

_MAGIC = "only IPython understands this line: no rule looks at it"


class Rows:
    """Names rows of one file in words."""

    def __init__(self, document: Document) -> None:
        self.layout = (
            Layout(document.notebook, document.text) if document.notebook is not None else None
        )

    def words(self, rows: Iterable[int], most: int = 1) -> str:
        """Return ``line 3`` or ``lines 3, 5, …``; in a notebook ``cell 1 line 3, cell 4 line 5``;
        of none, nothing."""
        found = list(dict.fromkeys(rows))
        if not found:
            return ""
        more = ", …" if len(found) > most else ""
        if self.layout is None:
            return f"line{'s' * (len(found) > 1)} {', '.join(map(str, found[:most]))}{more}"
        places = [self.layout.cell_of(row) for row in found[:most]]
        return ", ".join(f"cell {cell.number} line {row}" for cell, row in places) + more


class Telling:
    """Turns a place that is asked about into one of the text, and an explanation of that into one
    of the place.

    Args:
        layout: of the text of a notebook.
        filename: of the notebook.
    """

    def __init__(self, layout: Layout, filename: str) -> None:
        self.layout = layout
        self.filename = filename
        self._seams = {place.row - 1 for place in layout.places if place.part.seam}
        self._names = re.compile(rf"{layout.notebook.mark}\d+_")
        covered = (pair for part in layout.notebook.parts for pair in part.covered)
        self._hidden = {
            name: _hidden(row, source)
            for row, source in covered
            for name in self._names.findall(row)
        }

    def in_text(self, asked: Place) -> Place:
        """Return the place in the text that stands for one in a cell.

        Raises:
            StopIteration: there is no such cell.
        """
        return Place(self._cell(asked).row + asked.row - 1, asked.column)

    def magic(self, asked: Place) -> Explanation | None:
        """Return the explanation of a line that is no Python; None for any other."""
        place, index = self._cell(asked), self.layout.index
        rows = {index.position(span.start).row for span in self.layout.covered(place)}
        return (
            Explanation(asked, self._source(asked), remark=_MAGIC)
            if self.in_text(asked).row in rows
            else None
        )

    def told(self, explanation: Explanation, asked: Place) -> Explanation:
        """Return an explanation of a place of the text as one of the place in a cell."""
        above = self._cell(asked).row - 1
        return replace(
            explanation,
            place=asked,
            source=self._source(asked),
            pace=explanation.pace and self._pace(explanation.pace),
            beliefs=tuple(self._belief(belief, above) for belief in explanation.beliefs),
            verdicts=tuple(self._verdict(verdict, above) for verdict in explanation.verdicts),
        )

    def _cell(self, asked: Place) -> CellPlace:
        return next(place for place in self.layout.places if place.part.cell.number == asked.cell)

    def _source(self, asked: Place) -> str:
        return LineIndex(self._cell(asked).part.cell.source).line(asked.row).strip()

    def _pace(self, pace: Pace) -> Pace:
        guards = tuple(self._guard(guard) for guard in pace.guards if guard.row not in self._seams)
        return replace(
            pace,
            words=self._shown(pace.words),
            why=tuple(map(self._reason, pace.why)),
            guards=guards,
        )

    def _guard(self, guard: Guard) -> Guard:
        cell, row = self.layout.cell_of(guard.row)
        return replace(guard, test=self._shown(guard.test), row=row, cell=cell.number)

    def _belief(self, belief: Belief, above: int) -> Belief:
        return replace(
            belief,
            row=belief.row - above,
            origin=tuple(map(self._reason, belief.origin)),
            unknown=self._shown(belief.unknown),
        )

    def _verdict(self, verdict: Verdict, above: int) -> Verdict:
        return replace(verdict, row=verdict.row - above, because=self._shown(verdict.because))

    def _reason(self, reason: Reason) -> Reason:
        return replace(
            reason_in_cell(reason, self.layout, self.filename), text=self._shown(reason.text)
        )

    def _shown(self, words: str) -> str:
        """Return words in which what stands for a magic is that magic."""
        return self._names.sub(lambda found: self._hidden.get(found[0], found[0]), words)


def _hidden(row: str, source: str) -> str:
    """Return what a name in a covered row stands for: the magic or command, of ``x = !ls`` the
    ``!ls``."""
    return (source.partition("=")[2] if "=" in row else source).strip()
