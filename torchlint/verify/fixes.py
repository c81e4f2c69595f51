"""Findings with a fix, as units that are verified: what each changes, where, and what it
promises."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from torchlint.api import (
    Catalog,
    Document,
    encode,
    fixable,
    generated,
    independent,
    syntax_fault,
)
from torchlint.base.content import text_digest
from torchlint.base.errors import SourceError
from torchlint.base.finding import Finding, Safety
from torchlint.base.records import frozen
from torchlint.verify.model import Expected

BUNDLES: tuple[frozenset[str], ...] = (frozenset({"TL103", "TL202"}),)
"""Fixes that need each other: a copy is asynchronous only from pinned memory."""
OVERLAPS = "overlaps with another fix: verify it again after that one is written"
UNSAFE = "unsafe (--unsafe-fixes verifies it)"


@frozen
class Replacement:
    """Replace ``text[start:end]`` of a file by `text`; offsets in code points of the decoded
    text."""

    file: str
    start: int
    end: int
    text: str


@frozen
class Rows:
    """The rows of a file, first and last, whose running shows that a fix matters."""

    file: str
    first: int
    last: int


@frozen
class FixUnit:
    """What is applied together or not at all.

    Args:
        id: ``"TL603@pkg/model.py:15"``, with the column where a line has several; of a bundle the
            first one's, with the number of the others: ``" +2"``.
        codes: the rules.
        title: what is done, in the imperative.
        where: ``"pkg/model.py:15"``.
        expected: what it promises of the results.
        note: what an unsafe fix says it changes.
        replacements: the text edits, by posix path under the project root.
        places: where it takes effect.
        safe: whether it is a safe fix, which keeps all that a caller can see.
    """

    id: str
    codes: tuple[str, ...]
    title: str
    where: str
    expected: Expected
    note: str
    replacements: tuple[Replacement, ...]
    places: tuple[Rows, ...]
    safe: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files that it changes."""
        return tuple(dict.fromkeys(edit.file for edit in self.replacements))


@frozen
class Offered:
    """The fixes of a project: the units, and in words the fixes that are left out."""

    units: tuple[FixUnit, ...]
    skipped: tuple[str, ...]


def offered(
    findings: Mapping[str, Sequence[Finding]],
    documents: Mapping[str, Document],
    catalog: Catalog,
    *,
    unsafe: bool,
) -> Offered:
    """Turn findings into units.

    Args:
        findings: by posix path under the project root.
        documents: the files, by the same paths.
        catalog: says what the unsafe fix of a rule keeps.
        unsafe: whether unsafe fixes are wanted too.
    """
    units: list[FixUnit] = []
    skipped: list[str] = []
    names = {document.path: file for file, document in documents.items()}
    for file, found in sorted(findings.items()):
        usable = []
        for finding in found:
            reason = _unusable(finding, unsafe) or _unwritable(finding, documents[file])
            reason = reason or _unreachable(finding, names, documents)
            if not reason:
                usable.append(finding)
            elif finding.fix is not None:
                skipped.append(f"{finding.code}@{file}:{finding.start.row}: {reason}")
        chosen = independent(usable)
        fixes = [finding.fix for finding in chosen]
        for finding in usable:
            if finding.fix not in fixes:  # several findings may have one fix
                skipped.append(f"{finding.code}@{file}:{finding.start.row}: {OVERLAPS}")
        rows = Counter((finding.code, finding.start.row) for finding in chosen)
        for finding in chosen:
            alone = rows[finding.code, finding.start.row] == 1
            units.append(_unit(file, finding, catalog, names, alone=alone))
    kept, crossing = _split_by_overlap(units)
    skipped += (f"{unit.id}: {OVERLAPS}" for unit in crossing)
    return Offered(tuple(_bundled(kept)), tuple(skipped))


def _split_by_overlap(units: Sequence[FixUnit]) -> tuple[list[FixUnit], list[FixUnit]]:
    """Return the units that can be applied together, and the others: of two that meet in a file,
    that of several files stays, else the first. The same edit in both is one."""
    kept: list[FixUnit] = []
    for unit in sorted(units, key=lambda unit: len(unit.files) == 1):
        rivals = kept if len(unit.files) > 1 else [each for each in kept if len(each.files) > 1]
        if not any(
            one.file == two.file and one != two and one.start <= two.end and two.start <= one.end
            for each in rivals
            for one in each.replacements
            for two in unit.replacements
        ):
            kept.append(unit)
    return [unit for unit in units if unit in kept], [unit for unit in units if unit not in kept]


def _unusable(finding: Finding, unsafe: bool) -> str:
    fix = finding.fix
    if fix is None:
        return "no fix"
    if finding.cell is not None:
        return "in a notebook, which is not run"
    if fix.withheld:
        return fix.withheld
    if fix.safety is Safety.SUGGESTION or not fix.edits:
        return "a suggestion, which is never applied"
    if fix.safety is Safety.UNSAFE and not unsafe:
        return UNSAFE
    return ""


def _unwritable(finding: Finding, document: Document) -> str:
    """Return why a fix cannot be written in the file's encoding; ``fix`` refuses the same."""
    assert finding.fix is not None
    try:
        encode(document, "".join(edit.text for edit in finding.fix.edits))
    except SourceError:
        return f"its text cannot be written in {document.encoding}"
    return fixable(document)


def _unreachable(
    finding: Finding, names: Mapping[str, str], documents: Mapping[str, Document]
) -> str:
    """Return why a fix cannot be written to the other files that it changes."""
    assert finding.fix is not None
    for part in finding.fix.elsewhere:
        document = documents.get(names.get(part.path, ""))
        if document is None:
            return f"it also changes {part.filename}, which is not verified"
        if text_digest(document.text) != part.text:
            return f"it also changes {part.filename}, which changed meanwhile"
        if generated(document.text):
            return f"it also changes {part.filename}, which says that a program wrote it"
        reason = fixable(document)
        if reason:
            return f"it also changes {part.filename}: {reason}"
    return ""


def _unit(
    file: str, finding: Finding, catalog: Catalog, names: Mapping[str, str], *, alone: bool
) -> FixUnit:
    fix = finding.fix
    assert fix is not None
    edits = [(file, edit) for edit in fix.edits]
    edits += [(names[part.path], edit) for part in fix.elsewhere for edit in part.edits]
    info = catalog.find(finding.code)
    keeps = Expected(info.equivalence) if info else Expected.CLOSE
    where = f"{file}:{finding.start.row}" + ("" if alone else f":{finding.start.column}")
    return FixUnit(
        id=f"{finding.code}@{where}",
        codes=(finding.code,),
        title=fix.title,
        where=where,
        expected=Expected.BITWISE if fix.safety is Safety.SAFE else keeps,
        note=fix.note,
        replacements=tuple(
            Replacement(where, edit.span.start, edit.span.end, edit.text) for where, edit in edits
        ),
        places=(Rows(file, finding.statement, finding.statement_end),),
        safe=fix.safety is Safety.SAFE,
    )


def _bundled(units: Sequence[FixUnit]) -> Iterable[FixUnit]:
    """Join the units of each bundle of codes into one, in the place of its first."""
    left = list(units)
    for codes in BUNDLES:
        members = [unit for unit in left if codes.issuperset(unit.codes)]
        if {code for unit in members for code in unit.codes} == codes:
            at = left.index(members[0])
            left = [unit for unit in left if unit not in members]
            left.insert(at, joined(members))
    return left


_WEAKEST = (Expected.BITWISE, Expected.CLOSE, Expected.RNG, Expected.ANY)


def joined(units: Sequence[FixUnit], name: str = "") -> FixUnit:
    """Return several units as one; its promise is the weakest of theirs."""
    first = units[0]
    if len(units) == 1 and not name:
        return first
    return FixUnit(
        id=name or f"{first.id} +{len(units) - 1}",
        codes=tuple(dict.fromkeys(code for unit in units for code in unit.codes)),
        title="; ".join(dict.fromkeys(unit.title for unit in units)),
        where=first.where,
        expected=max((unit.expected for unit in units), key=_WEAKEST.index),
        note=" ".join(dict.fromkeys(unit.note for unit in units if unit.note)),
        replacements=tuple(edit for unit in units for edit in unit.replacements),
        places=tuple(place for unit in units for place in unit.places),
        safe=all(unit.safe for unit in units),
    )


def applied(units: Iterable[FixUnit], documents: Mapping[str, Document]) -> dict[str, bytes]:
    """Return the new content of each file that the units change, by its path under the root.

    Raises:
        ValueError: the result is not Python: a bug of a rule.
        SourceError: a file's encoding cannot hold the new text.
    """
    return {file: encode(documents[file], text) for file, text in texts(units, documents).items()}


def texts(units: Iterable[FixUnit], documents: Mapping[str, Document]) -> dict[str, str]:
    """Return the new text of each file that the units change; errors are those of `applied`."""
    edits: dict[str, set[tuple[int, int, str]]] = {}
    for unit in units:
        for edit in unit.replacements:
            edits.setdefault(edit.file, set()).add((edit.start, edit.end, edit.text))
    found = {}
    for file, changes in edits.items():
        found[file] = _spliced(documents[file].text, sorted(changes))
        fault = syntax_fault(found[file])
        if fault is not None:
            raise ValueError(
                f"{file}: the fixes together do not parse: {fault.message} in line {fault.row}"
            )
    return found


def _spliced(text: str, changes: Sequence[tuple[int, int, str]]) -> str:
    parts = []
    at = 0
    for start, end, new in changes:
        parts += [text[at:start], new]
        at = end
    return "".join((*parts, text[at:]))


def diff(units: Iterable[FixUnit], documents: Mapping[str, Document]) -> str:
    """Return what the units change as a unified diff."""
    parts: list[str] = []
    for file, after in sorted(texts(units, documents).items()):
        before = documents[file].text.splitlines(keepends=True)
        lines = difflib.unified_diff(
            before, after.splitlines(keepends=True), f"a/{file}", f"b/{file}"
        )
        parts += [
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in lines
        ]
    return "".join(parts)
