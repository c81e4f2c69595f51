"""The place of a hit in the text, and the finding that it makes there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import PurePath

import libcst as cst

from torchlint.base.content import text_digest
from torchlint.base.finding import (
    Edit,
    FileEdits,
    Finding,
    Frequency,
    Note,
    NoteKind,
    Reason,
    Severity,
    TextFix,
    Uses,
)
from torchlint.base.records import frozen
from torchlint.base.remembered import remembered
from torchlint.base.span import LineIndex, Span
from torchlint.catalog.rule_file import OURS
from torchlint.catalog.rules import load_catalog
from torchlint.edits.positions import Layout
from torchlint.edits.statement_spans import StatementSpans
from torchlint.edits.text_fix import EditContext, text_fix
from torchlint.edits.validation import Validator
from torchlint.engine.job import Job
from torchlint.engine.overlaps import spliced
from torchlint.engine.unused_imports import removals, without_imports
from torchlint.fixes.fix import Fix
from torchlint.rule import Hit, Rule
from torchlint.semantic.module import Module
from torchlint.semantic.time.grades import Grade, Link, Why
from torchlint.semantic.time.heat import heat_of, not_used
from torchlint.semantic.uses.spare_imports import SpareImport
from torchlint.semantic.values.accelerator import on_tpu
from torchlint.source.paths import shown
from torchlint.source.python import MisreadError

_FREQUENCIES = {
    Grade.COLD: Frequency.NOT_HOT,
    Grade.EPOCH: Frequency.EPOCH,
    Grade.SAMPLE: Frequency.SAMPLE,
    Grade.FORWARD: Frequency.FORWARD,
    Grade.EVAL: Frequency.EVALUATION,
    Grade.TRAIN: Frequency.TRAINING,
}
_COMPOUND = (cst.BaseCompoundStatement, cst.Else, cst.Finally, cst.ExceptHandler)


@frozen
class Crash:
    """A rule that raised: the node it was asked about, and what was raised."""

    rule: Rule
    node: cst.CSTNode
    error: str


@frozen
class Placed:
    """A hit with its place in the text."""

    rule: Rule
    hit: Hit
    span: Span
    compound: bool


class Placing:
    """Gives hits their places in the text, and makes findings of them; nothing is worked out before
    it is needed.

    Args:
        module: the analysis of the file.
        filename: as the user knows the file.
        job: says how fixes lay out code; None for as the file does.
    """

    def __init__(self, module: Module, filename: str, job: Job | None = None) -> None:
        self.module = module
        self._job = job
        self._filename = filename

    @cached_property
    def index(self) -> LineIndex:
        """The lines of the text."""
        return LineIndex(self.module.text)

    @cached_property
    def layout(self) -> Layout:
        """The places of all nodes."""
        module = self.module
        spans = StatementSpans(module.root, module.text, module.statements, module.parent)
        return Layout(module.root, module.text, spans)

    @cached_property
    def _context(self) -> EditContext:
        module = self.module
        return EditContext(
            module.root,
            module.text,
            self.index,
            self.layout,
            module.parent,
            module.statements.python,
            self._job.line_length if self._job is not None else 0,
            self._job.aligned if self._job is not None else None,
        )

    def placed(self, found: Iterable[tuple[Rule, Hit]]) -> list[Placed]:
        """Return the hits with their places, those left out that have none."""
        spans = ((rule, hit, self.layout.span(hit.node)) for rule, hit in found)
        return [
            Placed(rule, hit, span, isinstance(hit.node, _COMPOUND))
            for rule, hit, span in spans
            if span is not None
        ]

    def finding(self, placed: Placed) -> tuple[Finding, Crash | None]:
        """Return the finding that a hit makes, and what went wrong with its fix."""
        rule, hit, span = placed.rule, placed.hit, placed.span
        first, last = self._statement_rows(hit.node, span)
        fix, crash = self._fix(rule, hit)
        finding = Finding(
            code=rule.code,
            name=rule.name,
            message=message_of(rule, hit, "TPU" if on_tpu(self.module) else "GPU"),
            severity=severity_of(placed),
            filename=self._filename,
            start=self.index.position(span.start),
            end=self.index.position(span.end),
            statement=first,
            statement_end=last,
            fix=fix,
            why_hot=tuple(map(self.reason, hit.why_hot)),
            frequency=self._frequency(hit.node),
        )
        return finding, crash

    def _frequency(self, node: cst.CSTNode) -> Frequency:
        if not_used(self.module, node):
            return Frequency.UNUSED
        return _FREQUENCIES[heat_of(self.module, node).grade]

    def note(self, crash: Crash) -> Note:
        """Return what to say of a rule that crashed."""
        line = self.row(crash.node)
        info = load_catalog().find(crash.rule.code)
        package = info.package if info is not None else OURS
        words = (
            f"{crash.rule.code} failed on line {line}: {crash.error}; this is a bug in "
            f"{package}, please report it"
        )
        return Note(NoteKind.FAILED, self._filename, words, line)

    def reason(self, why: Why) -> Reason:
        """Return a link of a chain of evidence with the place it speaks of."""
        if why.elsewhere is None:
            return Reason(why.text, self._filename, self.row(why.node))
        if isinstance(why.elsewhere, Link):
            return Reason(why.text, shown(why.elsewhere.path), why.elsewhere.row)
        other, node = why.elsewhere
        return Reason(why.text, shown(other.path), self._placing(other).row(node))

    @remembered
    def _placing(self, other: Module) -> Placing:
        return Placing(other, shown(other.path))

    def row(self, node: cst.CSTNode) -> int:
        """Return the row on which a node starts; 0 where that is not known."""
        row = self.module.statements.sole_row(self.module.small_statement(node) or node)
        if row:
            return row
        span = self.layout.span(node)
        return self.index.position(span.start).row if span is not None else 0

    def _statement_rows(self, node: cst.CSTNode, span: Span) -> tuple[int, int]:
        statement = self.module.statement(node)
        whole = self.layout.span(statement)
        if whole is None:
            return self.index.position(span.start).row, self.index.position(span.end).row
        if isinstance(statement, _COMPOUND):
            # Of a compound statement only the header counts; its body holds statements of its own.
            first = self.index.position(whole.start).row
            return first, max(
                first, self.index.position(span.end).row if span.end < whole.end else first
            )
        return self.index.position(whole.start).row, self.index.position(whole.end).row

    def _fix(self, rule: Rule, hit: Hit) -> tuple[TextFix | None, Crash | None]:
        if hit.fix is None:
            return None, None
        try:
            made = self._text_fix(hit.fix)
        except (RecursionError, MemoryError, MisreadError):
            raise
        except Exception as error:
            return None, Crash(rule, hit.node, described(error))
        if isinstance(made, str):
            return TextFix(hit.fix.safety, hit.fix.title, (), hit.fix.note, withheld=made), None
        return made, None

    def _text_fix(self, fix: Fix) -> TextFix | str:
        """Return a fix as text edits, with those in other files; or why it cannot be had."""
        # Only where fixes are applied together is asked what they leave without a use together.
        partly = self._job is None or bool(self._job.fix)
        whole, some = without_imports(self.module, fix, partly=partly)
        made = text_fix(whole, self._context)
        if whole is not fix and (isinstance(made, str) or made.withheld):
            made = text_fix(fix, self._context)
        if some and isinstance(made, TextFix):
            made = replace(made, uses=tuple(self._uses(fix, some)))
        for part in fix.elsewhere if isinstance(made, TextFix) else ():
            other = self._placing(part.module)
            found = text_fix(replace(fix, edits=part.edits), other._context)
            if isinstance(found, str) or found.withheld:
                reason = found if isinstance(found, str) else found.withheld
                return f"in {other._filename}, {reason}"
            assert isinstance(made, TextFix)
            made = replace(made, elsewhere=(*made.elsewhere, other._file_edits(found.edits)))
        return made

    def _uses(self, fix: Fix, some: Iterable[SpareImport]) -> Iterator[Uses]:
        for each in some:
            removal = text_fix(replace(fix, edits=tuple(removals([each]))), self._context)
            if isinstance(removal, TextFix) and not removal.withheld:
                name = f"{each.name}:{self.module.tree.order[each.home]}"
                yield Uses(name, each.gone, each.uses, removal.edits)

    def _file_edits(self, edits: tuple[Edit, ...]) -> FileEdits:
        text = self.module.text
        if not Validator(text).holds(text, edits, spliced(text, edits)):
            raise ValueError(f"the fix would break {self._filename}")
        rows = (row for edit in edits for row in range(edit.start.row - 1, edit.end.row + 2))
        return FileEdits(
            self._filename,
            os.path.realpath(self.module.path),
            text_digest(text),
            edits,
            tuple(self.index.excerpt(rows)),
        )


def severity_of(placed: Placed) -> Severity:
    """Return how severe a hit is: as it says, or as its rule declares."""
    return placed.hit.severity or Severity(placed.rule.severity)


def message_of(rule: Rule, hit: Hit, device: str = "GPU") -> str:
    """Return the sentence of a hit, with what it says of its place."""
    words = hit.message if hit.message is not None else rule.message
    return words.replace("GPU", device).format_map(dict(hit.args))


def described(error: Exception) -> str:
    """Return what a rule raised, and where, in one line."""
    import traceback  # of a rule that crashed

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({PurePath(frame.filename).name}:{frame.lineno})"
