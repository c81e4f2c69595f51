"""What torchlint says about a place in a file, as plain picklable values.

The command line, JSON, SARIF, the cache and the editor all speak in these.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable

from torchlint.base.records import frozen
from torchlint.base.span import Position, Span


class Severity(enum.Enum):
    """How much a finding matters: wrong results, hot-path cost, or a hint."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for info, 1 for warning, 2 for error."""
        return _RANK[self]


_RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.ERROR: 2}


class Frequency(enum.IntEnum):
    """How often a line runs, as far as that is known; more often is higher."""

    UNUSED = -1
    NOT_HOT = 0
    EPOCH = 1
    SAMPLE = 2
    EVALUATION = 3
    FORWARD = 4
    TRAINING = 5


class Safety(enum.Enum):
    """What applying a fix may change."""

    SAFE = "safe"
    """Bit-for-bit the same values, RNG streams, dtype, device, requires_grad and exceptions."""
    UNSAFE = "unsafe"
    """May change something, and the fix says what."""
    SUGGESTION = "suggestion"
    """Shown as a patch, never applied."""


@frozen
class Edit:
    """Replace ``text[span.start:span.end]`` by `text`; both ends also as positions for reports.

    `cell` is the 1-based number of the notebook cell, counted over cells of every kind, in which
    `start` and `end` lie, their rows counted from the cell's first; None outside of notebooks. The
    same holds for the other values here.
    """

    span: Span
    text: str
    start: Position
    end: Position
    cell: int | None = None


@frozen
class FileEdits:
    """The part of a fix that lies in another file than its finding.

    Args:
        filename: the file's path as the user should see it.
        path: its absolute path, links resolved.
        text: the digest of the text that the edits are for, see `torchlint.base.content`.
        edits: what is changed.
        source: the rows around the edits, for reports.
    """

    filename: str
    path: str
    text: str
    edits: tuple[Edit, ...]
    source: tuple[tuple[int, str], ...] = ()


@frozen
class Uses:
    """Uses of an import that a fix takes away, of which some are left.

    Args:
        name: stands for the import.
        gone: which of its uses go.
        every: how many there are.
        edits: what takes the import away.
    """

    name: str
    gone: frozenset[int]
    every: int
    edits: tuple[Edit, ...]


@frozen
class TextFix:
    """A fix as text edits that apply together or not at all.

    `title` says what is done; `note` (unsafe fixes) what it changes. `withheld`, where set, is the
    reason why the engine will not apply it although it is offered (a comment inside the edited
    span, say). `elsewhere` are its edits in other files. `uses` are those of imports that it takes
    away: fixes that take the last ones together leave an import behind. `assumes` names what it
    takes for granted of the project.
    """

    safety: Safety
    title: str
    edits: tuple[Edit, ...]
    note: str = ""
    withheld: str = ""
    elsewhere: tuple[FileEdits, ...] = ()
    uses: tuple[Uses, ...] = ()
    assumes: tuple[str, ...] = ()


@frozen
class Reason:
    """One link of the chain that explains why a line is hot: words, and the place they speak of."""

    text: str
    filename: str
    line: int
    cell: int | None = None


@frozen
class Measured:
    """What fixing a finding saves at most, by a trace: parts of the time from 0 to 1, where no
    other finding is fixed and where all others are, and nanoseconds; `negligible` says that it is
    not worth a look."""

    share: float
    joint: float
    alone_ns: int
    negligible: bool

    @property
    def words(self) -> str:
        """What a report says of it: ``at most 28.8 %``."""
        if self.negligible:
            return f"at most {100 * self.share:.1f} %, negligible"
        once = f", {100 * self.joint:.1f} % once the others are fixed"
        more = once if round(1000 * self.joint) > round(1000 * self.share) else ""
        return f"at most {100 * self.share:.1f} %{more}"


@frozen
class Finding:
    """One finding. `code` is a rule code, or one of the engine's own: see `ENGINE_CODES`.

    `filename` is the path as the user should see it. `statement` is the first physical row of the
    statement that holds the finding and `statement_end` its last: suppression comments on either
    count. `file_row` is the row of the file as it is stored in which the finding starts, where that
    is not `start.row`: in the JSON text of a notebook. `content` stands for the code and the
    statement's words, see `torchlint.base.content`. `frequency` says how often the line of the
    finding runs: what a rule says of set-up code is not hot, although its cost may be. `measured`
    is what a trace says, where the user named a report of one.
    """

    code: str
    name: str
    message: str
    severity: Severity
    filename: str
    start: Position
    end: Position
    statement: int
    statement_end: int
    fingerprint: str = ""
    fix: TextFix | None = None
    why_hot: tuple[Reason, ...] = ()
    cell: int | None = None
    help: str = ""
    file_row: int | None = None
    content: str = ""
    frequency: Frequency = Frequency.NOT_HOT
    measured: Measured | None = None

    @property
    def said(self) -> str:
        """The message, with what was measured."""
        measured = f" (fixing saves {self.measured.words})" if self.measured is not None else ""
        return f"{self.message}{measured}"

    @property
    def sort_key(self) -> tuple[str, int, int, str]:
        """Order of findings in every report: file, row, column, code."""
        return (self.filename, self.start.row, self.start.column, self.code)


INVALID_SYNTAX = "invalid-syntax"
UNREADABLE = "unreadable"
NOT_ANALYSED = "not-analysed"
UNUSED_SUPPRESSION = "TL001"
ENGINE_CODES = (INVALID_SYNTAX, UNREADABLE, NOT_ANALYSED, UNUSED_SUPPRESSION)
"""Codes that the engine itself reports; no rule may use them."""


class NoteKind(enum.Enum):
    """Why a file, or part of the work on it, was left out."""

    SKIPPED = "skipped"
    """Left out by a limit: does not fail the run."""
    UNSUPPORTED = "unsupported"
    """Valid Python that our parser does not support: exit code 1."""
    FAILED = "failed"
    """The tool itself failed on the file (crash, timeout, memory, a bug): exit code 2."""
    UNWRITTEN = "unwritten"
    """A fix that could not be written, or was refused because the file changed: exit code 1."""
    WITHHELD = "withheld"
    """A fix that was not applied, with the reason: does not fail the run."""
    CHECKED_LESS = "checked-less"
    """Fixes that were applied with fewer checks than usual, with the reason: does not fail the
    run."""


UNANALYSED = frozenset({NoteKind.SKIPPED, NoteKind.UNSUPPORTED, NoteKind.FAILED})
"""The kinds of note that say that a file was not analysed, or not in full."""
FAILING = frozenset({NoteKind.UNSUPPORTED, NoteKind.FAILED, NoteKind.UNWRITTEN})
"""The kinds of note that fail a run."""


@frozen
class Note:
    """One line on something that was not done, so that nothing is skipped silently; `count` says
    how many fixes or files it speaks of."""

    kind: NoteKind
    filename: str
    message: str
    line: int = 0
    cell: int | None = None
    count: int = 1


@frozen
class Suppressed:
    """A finding that is not reported: a comment in the file silences it, or else a baseline holds
    it back.

    `reason` is what the comment says behind its codes; empty where it says nothing. `owner` is who
    answers for a wait that a contract of no waits lists, in a comment or in the configuration.
    """

    finding: Finding
    in_source: bool
    reason: str = ""
    owner: str = ""


@frozen
class AppliedFix:
    """A fix that was applied: the code of its finding, how safe it is and what it may change.

    `row` is where its finding starts in the text as it was read, and `rows` are those of its edits
    there. In a notebook they are counted in the cell `cell`. `assumes` names what it takes for
    granted.
    """

    code: str
    safety: Safety
    note: str
    row: int
    rows: tuple[int, ...]
    cell: int | None = None
    assumes: tuple[str, ...] = ()


@frozen
class FileReport:
    """All that is known about one file after a run.

    `before` and `after` are its decoded text and the fixed text, both empty strings unless a fix
    run changed it. Of a notebook they are the text that was analysed, and `cells` holds what a
    reader knows: of each changed cell its number (see `Edit`), its source before and its source
    after. `suppressed` holds the findings that comments and baselines keep out of `findings`; those
    of comments have neither fixes nor reasons why they are hot.
    `had` holds the codes of the findings before a fix run changed anything, `could` says how many
    of them had a fix that it may apply, and `applied` how many are gone. `edits` says how many
    places were changed, `unsafe` how many of them by unsafe fixes, and `fixes` are the fixes that
    did it.
    `source` holds excerpt lines for reports: cell, row, text.
    `rests_on` holds the other paths that decided on the report, each with its state:
    `torchlint.base.trail`; None where that is not known.
    `joint` holds, of a fix run, the findings of the text as it was read whose fix, allowed, changes
    other files as well: no file's own run applies those.
    """

    filename: str
    findings: tuple[Finding, ...] = ()
    notes: tuple[Note, ...] = ()
    applied: int = 0
    before: str = ""
    after: str = ""
    source: tuple[tuple[int | None, int, str], ...] = ()
    rests_on: tuple[tuple[str, str], ...] | None = None
    cells: tuple[tuple[int, str, str], ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    joint: tuple[Finding, ...] = ()
    edits: int = 0
    unsafe: int = 0
    fixes: tuple[AppliedFix, ...] = ()
    had: tuple[str, ...] = ()
    could: int = 0


def codes_of(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Return the codes of findings, one for each."""
    return tuple(found.code for found in findings)


def fewer(had: Iterable[str], left: Iterable[Finding]) -> int:
    """Return how many findings are gone, by the codes of those there were: a finding whose
    statement was changed for another one has no lasting identity."""
    return (Counter(had) - Counter(codes_of(left))).total()


def normalised(statement: str) -> str:
    """Return a statement's text with comments and runs of white space folded, for fingerprints."""
    lines = [
        line.partition("#")[0] if "'" not in line and '"' not in line else line
        for line in statement.split("\n")
    ]
    return " ".join(" ".join(lines).split())


def fingerprint(
    code: str, posix_path: str, cell: int | str | None, statement: str, ordinal: int
) -> str:
    """Return the identity of a finding: 16 hex digits that survive line shifts.

    Args:
        code: the rule's code.
        posix_path: the file's path under the project root, with forward slashes.
        cell: the notebook cell's id, else its number; None outside of notebooks.
        statement: the statement's source text; it is normalised here.
        ordinal: 0 for the first finding with all of these equal, 1 for the second, and so on.
    """
    import hashlib  # loads OpenSSL; a run that finds nothing needs none

    parts = (
        code,
        posix_path,
        "" if cell is None else str(cell),
        normalised(statement),
        str(ordinal),
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
