"""What ``check --explain`` says about one place of a file, as plain picklable values."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from torchlint.base.finding import FileReport, Reason
from torchlint.base.records import frozen


@frozen
class Place:
    """A place that the user asks about: a 1-based row, and a column in code points or None for the
    whole line.

    In a notebook `cell` is the cell's number, as in `torchlint.base.finding.Edit`, and the row is
    counted in it.
    """

    row: int
    column: int | None = None
    cell: int | None = None

    @property
    def words(self) -> str:
        """``88``, ``88:12``, or ``cell 3:5:12``."""
        cell = "" if self.cell is None else f"cell {self.cell}:"
        return f"{cell}{self.row}" + ("" if self.column is None else f":{self.column}")


@frozen
class Asked:
    """What the user asks about one file.

    Args:
        places: the places.
        off: why a rule is off for this file, by code.
        named: codes that the user named one by one: they are told of even where they have nothing
            to say.
    """

    places: tuple[Place, ...]
    off: Mapping[str, str]
    named: tuple[str, ...] = ()


@frozen
class Belief:
    """What the analysis holds an expression to be.

    Args:
        expression: its source on one line.
        row: where it starts; `column` too.
        kind: as `torchlint.semantic.values.value.Value` has it; ``?`` for unknown. So are `device`
            and `dtype`.
        on_device: whether it is a tensor on the accelerator; None for unknown.
        grad: whether it carries an autograd graph; None for unknown.
        words: all of that in words.
        origin: where it came from, link by link.
        unknown: what is not known and why; empty where nothing is amiss.
    """

    expression: str
    row: int
    column: int
    kind: str
    device: str | None
    dtype: str | None
    on_device: bool | None
    grad: bool | None
    words: str
    origin: tuple[Reason, ...] = ()
    unknown: str = ""


@frozen
class Guard:
    """A condition on which the line runs, and whether it makes the line rare."""

    test: str
    row: int
    needed: bool
    throttles: bool
    cell: int | None = None


@frozen
class Pace:
    """How often a line runs.

    Args:
        grade: train, eval, forward, sample, epoch or cold.
        words: the same in words; of a cold line with the reason.
        why: the chain of evidence.
        guards: the conditions around the line.
        roles: what else is known of the place: benchmark code, autograd off, …
    """

    grade: str
    words: str
    why: tuple[Reason, ...] = ()
    guards: tuple[Guard, ...] = ()
    roles: tuple[str, ...] = ()


class State(enum.Enum):
    """What came of a rule that looked at a place."""

    FLAGGED = "flagged"
    SUPPRESSED = "suppressed"
    YIELDED = "yielded"
    OFF = "off"
    SILENT = "silent"
    LOOKED = "looked"
    """It looks at such code, and no single fact keeps it silent; told where nothing else is."""
    ASKED = "asked"
    """It asked something about the line, and nothing of that holds; told as above."""
    ABSENT = "absent"
    """It was asked for by name, and finds nothing here that it is about."""


@frozen
class Verdict:
    """What one rule says about one expression, and why; `decided_by` is the file of the rule, or of
    the question that decided."""

    code: str
    name: str
    state: State
    row: int
    column: int
    expression: str
    because: str
    message: str = ""
    decided_by: str = ""


@frozen
class Explanation:
    """All about one place; `remark` says why there is nothing to tell, where that is so, and
    `waits` for what the host waits there, or may wait.

    In a notebook the rows of beliefs and verdicts are those of the place's cell.
    """

    place: Place
    source: str
    pace: Pace | None = None
    beliefs: tuple[Belief, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    remark: str = ""
    waits: tuple[str, ...] = ()


@frozen
class ExplainedReport(FileReport):
    """A file's report that also explains places."""

    explanations: tuple[Explanation, ...] = ()
