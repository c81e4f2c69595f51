"""Comments that switch rules off, and which of them do nothing.

Known forms, where a code may also be a prefix (``TL1``) or a rule's name:

- ``# torchlint: ignore[TL101, TL102] reason`` behind a statement's first or last row, or on the
  line above it;
- ``# torchlint: disable[TL101]`` until ``# torchlint: enable[TL101]`` or the end of the file;
- ``# torchlint: file-ignore[TL101]`` anywhere;
- ``# noqa: TL101`` behind the statement, and ``# noqa`` for everything;
- ``# torchlint: allow-wait[owner] reason`` as ``ignore``, for a wait under a contract of no waits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field

from torchlint.base.contract import GONE, NO_WAITS
from torchlint.base.finding import (
    ENGINE_CODES,
    UNUSED_SUPPRESSION,
    Edit,
    Finding,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.nearest import nearest_rule
from torchlint.base.records import dataclass, frozen
from torchlint.base.span import LineIndex, Span
from torchlint.source.comments import comments
from torchlint.source.pragma import (
    ALLOW_WAIT,
    DISABLE,
    ENABLE,
    FILE_IGNORE,
    IGNORE,
    NOQA,
    Entry,
    Pragma,
    pragmas,
)

UNUSED = "unused-suppression"
"""The name of `UNUSED_SUPPRESSION`."""
_UNFILTERED = frozenset(ENGINE_CODES) - {UNUSED_SUPPRESSION}
_IDLE = (
    "unused suppression: there is no {} finding here",
    f"the wait that {{}} answers for {GONE} here",
)
_GUESSES = 20
"""Near matches looked up per file: each costs about a millisecond."""


class _Codes:
    """What the words in pragmas stand for. `names` maps every known code to its rule's name."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.known = {**names, UNUSED_SUPPRESSION: UNUSED}
        self.by_name = {name.lower(): code for code, name in self.known.items()}
        self.guesses = _GUESSES
        self._expanded: dict[str, frozenset[str]] = {}

    def expand(self, word: str) -> frozenset[str]:
        """Return the codes that a code, prefix or name stands for; none if it is unknown."""
        if word not in self._expanded:
            folded = word.upper()
            by_name = self.by_name.get(word.lower())
            # A prefix holds all letters of a code: ``T`` stands for nothing, and ``TL`` for no
            # plugin's ``TLX101``.
            letters = folded.rstrip("0123456789")
            codes = {
                code
                for code in self.known
                if code.startswith(folded) and code.rstrip("0123456789") == letters
            }
            self._expanded[word] = frozenset({by_name} if by_name else codes)
        return self._expanded[word]

    def meant(self, pragma: Pragma, entry: Entry) -> frozenset[str]:
        """Return the codes that an entry of a pragma speaks of."""
        if pragma.verb == ALLOW_WAIT:
            return frozenset((NO_WAITS,))
        return self.expand(entry.text)

    def near(self, word: str) -> str:
        """Return the known code or name most like `word`, or an empty string."""
        self.guesses -= 1
        if self.guesses < 0:
            return ""
        return nearest_rule(word, self.known, self.by_name)


@dataclass(slots=True)
class _Verdicts:
    """One run of `Suppressions.filter`: which entries were of use so far."""

    codes: _Codes
    used: set[Span] = field(default_factory=set)
    _named: dict[Span, dict[str, list[Span]]] = field(default_factory=dict)

    def named(self, pragma: Pragma) -> Mapping[str, Sequence[Span]]:
        """Return the codes that `pragma` names, each with the entries that do."""
        if pragma.span not in self._named:
            by_code = self._named[pragma.span] = {}
            for entry in pragma.entries:
                for code in self.codes.meant(pragma, entry):
                    by_code.setdefault(code, []).append(entry.span)
        return self._named[pragma.span]

    def names(self, pragma: Pragma, code: str) -> bool:
        """Say whether `pragma` names `code`, and remember that it was of use."""
        hits = self.named(pragma).get(code, ())
        self.used.update(hits)
        return bool(hits) or pragma.blanket


@frozen
class Filtered:
    """The findings of a file after its suppressions.

    Args:
        kept: those that are left.
        unused: one for every comment that did nothing or could not be understood.
        silenced: those that a comment suppresses, each with what silences it; `unused` ones are
            left out of it.
    """

    kept: list[Finding]
    unused: list[Finding]
    silenced: list[tuple[Finding, Pragma]]


@frozen
class Suppressions:
    """The suppression comments of one text."""

    index: LineIndex
    pragmas: tuple[Pragma, ...]
    by_rows: Mapping[tuple[int, int], Sequence[Pragma]]
    """Those that speak of some rows, under the first and the last of these."""
    rows: Mapping[int, Collection[tuple[int, int]]]
    """The keys of `by_rows` that hold a row."""
    wide: tuple[Pragma, ...]
    """Ranges and whole files, in order."""

    @classmethod
    def parse(cls, text: str, *, waits_only: bool = False) -> Suppressions:
        """Find the suppression comments of `text`, or only those that list waits; never raises."""
        index = LineIndex(text)
        lowered = text.lower()
        found: list[Pragma] = []
        if "torchlint" in lowered or "noqa" in lowered:
            found = [pragma for comment in comments(index) for pragma in pragmas(comment)]
        if waits_only:
            found = [pragma for pragma in found if pragma.verb == ALLOW_WAIT]
        good = [pragma for pragma in found if not pragma.problem]
        by_rows: dict[tuple[int, int], list[Pragma]] = {}
        for pragma in good:
            if pragma.verb in (IGNORE, ALLOW_WAIT) or (
                pragma.verb == NOQA and not pragma.comment.alone
            ):
                by_rows.setdefault((pragma.comment.first, pragma.comment.last), []).append(pragma)
        rows: dict[int, list[tuple[int, int]]] = {}
        for key in by_rows:
            for row in range(key[0], key[1] + 1):
                rows.setdefault(row, []).append(key)
        wide = tuple(pragma for pragma in good if pragma.verb in (DISABLE, ENABLE, FILE_IGNORE))
        return cls(index, tuple(found), by_rows, rows, wide)

    def filter(
        self,
        findings: Sequence[Finding],
        codes_on: frozenset[str],
        names: Mapping[str, str],
        filename: str,
    ) -> Filtered:
        """Take out the findings that a comment suppresses.

        Args:
            findings: of this file. What the engine reports itself (syntax errors, say) is never
                suppressed.
            codes_on: the codes that are on for this file; an entry is only called unused if all it
                names are.
            names: every known code, on or off, with its rule's name.
            filename: the file as the user should see it.

        `unused` does not ask whether `UNUSED_SUPPRESSION` is on.
        """
        verdicts = _Verdicts(_Codes(names))
        kept: list[Finding] = []
        silenced: list[tuple[Finding, Pragma]] = []
        for finding in findings:
            pragma = self._silencer(finding, verdicts)
            if pragma is None:
                kept.append(finding)
            else:
                silenced.append((finding, pragma))
        unused = [
            self._finding(filename, *complaint)
            for complaint in self._complaints(codes_on, verdicts)
        ]
        return Filtered(
            kept, [found for found in unused if self._silencer(found, verdicts) is None], silenced
        )

    def silencer(self, finding: Finding, names: Mapping[str, str]) -> Pragma | None:
        """Return the comment that suppresses a finding, the first where there are several; else
        None."""
        return self._silencer(finding, _Verdicts(_Codes(names)))

    def _silencer(self, finding: Finding, verdicts: _Verdicts) -> Pragma | None:
        """Return what `silencer` does; all comments that would do were of use."""
        if finding.code in _UNFILTERED:
            return None
        keys = {
            key for row in (finding.start.row, finding.statement) for key in self.rows.get(row, ())
        }
        near = [pragma for key in keys for pragma in self.by_rows[key]]
        end = finding.statement_end
        near += [pragma for pragma in self.by_rows.get((end, end), ()) if pragma.comment.guessed]
        near += self._in_range(finding, verdicts)
        named = [pragma for pragma in near if verdicts.names(pragma, finding.code)]
        return min(named, key=lambda pragma: pragma.span.start, default=None)

    def _in_range(self, finding: Finding, verdicts: _Verdicts) -> Iterator[Pragma]:
        """Yield those for the file, and the last range comment before the finding that names its
        code."""
        last: Pragma | None = None
        for pragma in self.wide:
            if pragma.verb == FILE_IGNORE:
                yield pragma
            elif pragma.comment.row <= finding.start.row and finding.code in verdicts.named(pragma):
                last = pragma
        if last is not None and last.verb == DISABLE:
            yield last

    def _complaints(
        self, codes_on: frozenset[str], verdicts: _Verdicts
    ) -> Iterator[tuple[Pragma, str, Span, TextFix | None]]:
        disabled: set[str] = set()
        for pragma in self.pragmas:
            if pragma.problem:
                yield pragma, pragma.problem, pragma.span, None
                continue
            idle: list[tuple[int, str]] = []
            for at, entry in enumerate(pragma.entries):
                codes = verdicts.codes.meant(pragma, entry)
                if not codes:
                    if pragma.verb != NOQA or entry.text.upper().startswith("TL"):
                        yield pragma, _unknown_code(entry.text, verdicts.codes), entry.span, None
                elif pragma.verb == ENABLE:
                    if not codes & disabled:
                        idle.append(
                            (at, f"unused 'enable': no 'disable' of {entry.text} stands above it")
                        )
                elif entry.span not in verdicts.used and codes <= codes_on:
                    idle.append((at, _IDLE[pragma.verb == ALLOW_WAIT].format(entry.text)))
                disabled |= codes if pragma.verb == DISABLE else frozenset()
            for at, message in idle:
                yield pragma, message, pragma.entries[at].span, self._removal(pragma, at, len(idle))

    def _finding(
        self, filename: str, pragma: Pragma, message: str, span: Span, fix: TextFix | None
    ) -> Finding:
        row = pragma.comment.row
        start, end = self.index.position(span.start), self.index.position(span.end)
        no_list = pragma.verb == ALLOW_WAIT and pragma.problem
        severity = Severity.ERROR if no_list else Severity.WARNING
        return Finding(
            UNUSED_SUPPRESSION, UNUSED, message, severity, filename, start, end, row, row, fix=fix
        )

    def _removal(self, pragma: Pragma, at: int, idle: int) -> TextFix | None:
        """Return the fix that takes out one entry, or the whole remark where all of its entries are
        idle."""
        entry = pragma.entries[at]
        row, text = pragma.comment.row, self.index.text
        if idle < len(pragma.entries):
            title = f"Remove {entry.text} from the suppression"
            if at + 1 < len(pragma.entries):
                span = Span(entry.span.start, pragma.entries[at + 1].span.start)
            else:
                span = Span(pragma.entries[at - 1].span.end, entry.span.end)
        else:
            title = "Remove the suppression"
            start, end = pragma.span.start, pragma.span.end
            if pragma.whole_comment and pragma.comment.alone:
                if row <= 2 and any("coding" in line for line in text[:1000].splitlines()[:3]):
                    return (
                        None  # taking out a line could make another one the file's encoding cookie
                    )
                start = self.index.starts[row - 1]
                end = self.index.starts[row] if row < len(self.index) else end
            elif start > pragma.comment.start or pragma.whole_comment:
                while start and text[start - 1] in " \t\f":
                    start -= 1
            else:
                end += len(text[end:]) - len(text[end:].lstrip(" \t\f"))
            span = Span(start, end)
        edit = Edit(span, "", self.index.position(span.start), self.index.position(span.end))
        return TextFix(Safety.SAFE, title, (edit,))


def _unknown_code(word: str, codes: _Codes) -> str:
    near = codes.near(word)
    return f"unknown rule '{word}' in a suppression" + (f"; did you mean {near}?" if near else "")
