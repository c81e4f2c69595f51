"""Runs the rules over one parsed file and turns their hits into findings."""

from __future__ import annotations

import ast
import bisect
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePath

import libcst as cst

from torchlint.base.finding import Finding, Frequency, Note, NoteKind, Reason, Severity, TextFix
from torchlint.base.span import LineIndex, Span
from torchlint.catalog.rule_file import OURS
from torchlint.catalog.rules import load_catalog
from torchlint.edits.positions import Layout
from torchlint.edits.statement_spans import StatementSpans
from torchlint.edits.text_fix import EditContext, text_fix
from torchlint.engine.job import Job
from torchlint.rule import Append, Grade, Hit, Module, Prepend, Remove, Replace, Rule, Safety, Why
from torchlint.semantic.project.outside import Outside
from torchlint.source.paths import shown

_FREQUENCIES = {
    Grade.COLD: Frequency.NOT_HOT,
    Grade.EPOCH: Frequency.EPOCH,
    Grade.SAMPLE: Frequency.SAMPLE,
    Grade.FORWARD: Frequency.FORWARD,
    Grade.EVAL: Frequency.EVALUATION,
    Grade.TRAIN: Frequency.TRAINING,
}
_IMPORTED = "An import gives a name in this code another meaning than it had, so that nothing is proven of it."
_COMPOUND = (cst.BaseCompoundStatement, cst.Else, cst.Finally, cst.ExceptHandler)


def collect(
    tree: cst.Module, text: str, python: ast.Module | None, job: Job, rules: list[Rule], outside: Outside | None
) -> Collected:
    """Run `rules` over a parsed file. A check that crashes costs a note that names it, and only its own findings."""
    module = Module(
        tree,
        text,
        job.relative,
        target_torch=job.target_torch,
        accelerator=job.accelerator,
        assume_hot=job.assume_hot,
        python=python,
        outside=outside,
    )
    hits: list[tuple[Rule, Hit]] = []
    crashes: list[tuple[Rule, cst.CSTNode, str]] = []
    for rule in rules:
        for node_type, check in rule.checks:
            for node in module.nodes(node_type):
                try:
                    hits.extend((rule, _proven(_sound(rule, hit), module)) for hit in check(node, module))
                except (RecursionError, MemoryError):
                    raise
                except Exception as error:
                    crashes.append((rule, node, _crash(error)))
    return Collected(tree, text, job, module, hits, crashes)


def _sound(rule: Rule, hit: Hit) -> Hit:
    """Return a hit that can be reported; whatever is wrong with it is raised here, where the rule is known."""
    if not isinstance(hit, Hit) or not isinstance(hit.node, cst.CSTNode):
        raise TypeError(f"a check yields Hit(node, ...), not {type(hit).__name__}")
    _message(rule, hit)
    return hit


def _proven(hit: Hit, module: Module) -> Hit:
    """Return a hit whose fix is not safe where an import may have given a name in it another meaning."""
    fix = hit.fix
    if fix is None or fix.safety is not Safety.SAFE:
        return hit
    places = [hit.node, *(edit.node for edit in fix.edits if isinstance(edit, (Append, Prepend, Remove, Replace)))]
    if not any(module.imported_over(place) for place in places):
        return hit
    return replace(hit, fix=replace(fix, safety=Safety.UNSAFE, note=_IMPORTED))


def _message(rule: Rule, hit: Hit) -> str:
    return (hit.message if hit.message is not None else rule.message).format_map(dict(hit.args))


def _layout(module: Module) -> Layout:
    units = StatementSpans(module.root, module.text, module.statements, module.parent)
    return Layout(module.root, module.text, units)


def _crash(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({PurePath(frame.filename).name}:{frame.lineno})"


@dataclass(frozen=True, slots=True)
class Placed:
    """A hit with its place in the text."""

    rule: Rule
    hit: Hit
    span: Span
    compound: bool


class _Overlaps:
    """Finds the hits that may overlap a span without looking at all of them."""

    def __init__(self, placed: list[Placed]) -> None:
        self._placed = sorted(placed, key=lambda each: each.span.start)
        self._longest = max((each.span.end - each.span.start for each in placed), default=0)

    def near(self, span: Span) -> list[Placed]:
        def start(each: Placed) -> int:
            return each.span.start

        low = bisect.bisect_left(self._placed, span.start - self._longest, key=start)
        return self._placed[low : bisect.bisect_right(self._placed, span.end, key=start)]


class Collected:
    """The hits of one file; positions are worked out only if there are any. `notes` tell of crashes of rules."""

    def __init__(
        self,
        tree: cst.Module,
        text: str,
        job: Job,
        module: Module,
        hits: list[tuple[Rule, Hit]],
        crashes: list[tuple[Rule, cst.CSTNode, str]],
    ) -> None:
        self.job = job
        self.text = text
        self.module = module
        self._hits = hits
        self._others: dict[Module, tuple[Layout, LineIndex]] = {}
        self._tree = tree
        self.notes = [self._crash_note(*crash) for crash in crashes]

    @cached_property
    def index(self) -> LineIndex:
        """The lines of the text."""
        return LineIndex(self.text)

    @cached_property
    def layout(self) -> Layout:
        """The places of all nodes."""
        return _layout(self.module)

    @cached_property
    def _context(self) -> EditContext:
        module = self.module
        return EditContext(self._tree, self.text, self.index, self.layout, module.parent, module.statements.python)

    def _crash_note(self, rule: Rule, node: cst.CSTNode, error: str) -> Note:
        line = self.row(node)
        info = load_catalog().find(rule.code)
        package = info.package if info is not None else OURS
        words = f"{rule.code} failed on line {line}: {error}; this is a bug in {package}, please report it"
        return Note(NoteKind.FAILED, self.job.document.filename, words, line)

    def row(self, node: cst.CSTNode) -> int:
        """Return the row on which a node starts; 0 where that is not known."""
        span = self.layout.span(node)
        return self.index.position(span.start).row if span is not None else 0

    def findings(self, wanted: frozenset[str]) -> Iterator[Finding]:
        """Yield a finding for each hit of a wanted rule that yields to no other hit."""
        seen: set[tuple[str, Span]] = set()
        for each, stronger in self.judged(wanted):
            key = (each.rule.code, each.span)
            if key in seen or stronger is not None:
                continue
            seen.add(key)
            yield self.finding(each)

    def judged(self, wanted: frozenset[str]) -> Iterator[tuple[Placed, Placed | None]]:
        """Yield each hit of a wanted rule, and the one that it yields to if there is one."""
        if not self._hits:
            return
        placed = [found for rule, hit in self._hits if (found := self._place(rule, hit)) is not None]
        named = {code for each in placed for code in each.rule.yields_to}
        strong = _Overlaps([each for each in placed if each.rule.code in named])
        for each in placed:
            if each.rule.code in wanted:
                yield each, self._stronger(each, strong)

    def _place(self, rule: Rule, hit: Hit) -> Placed | None:
        span = self.layout.span(hit.node)
        return Placed(rule, hit, span, isinstance(hit.node, _COMPOUND)) if span is not None else None

    def _stronger(self, weak: Placed, others: _Overlaps) -> Placed | None:
        for strong in others.near(weak.span):
            if strong.rule.code not in weak.rule.yields_to:
                continue
            if strong.span == weak.span:
                return strong
            if weak.compound or strong.compound:
                continue
            low, high = (weak.span, strong.span) if weak.span.start >= strong.span.start else (strong.span, weak.span)
            if high.start <= low.start and low.end <= high.end:
                return strong
        return None

    def finding(self, placed: Placed) -> Finding:
        """Return the finding that a hit makes."""
        rule, hit, span = placed.rule, placed.hit, placed.span
        first, last = self._statement_rows(hit.node, span)
        return Finding(
            code=rule.code,
            name=rule.name,
            message=_message(rule, hit),
            severity=hit.severity or Severity(rule.severity),
            filename=self.job.document.filename,
            start=self.index.position(span.start),
            end=self.index.position(span.end),
            statement=first,
            statement_end=last,
            fix=self._fix(rule, hit),
            why_hot=tuple(self.reason(why) for why in hit.why_hot),
            frequency=_FREQUENCIES[self.module.heat(hit.node).grade],
        )

    def reason(self, why: Why) -> Reason:
        """Return a link of a chain of evidence with the place it speaks of."""
        if why.elsewhere is None:
            return Reason(why.text, self.job.document.filename, self.row(why.node))
        other, node = why.elsewhere
        if other not in self._others:
            self._others[other] = _layout(other), LineIndex(other.text)
        layout, index = self._others[other]
        span = layout.span(node)
        return Reason(why.text, shown(other.path), index.position(span.start).row if span is not None else 0)

    def _statement_rows(self, node: cst.CSTNode, span: Span) -> tuple[int, int]:
        statement = self.module.statement(node)
        whole = self.layout.span(statement)
        if whole is None:
            return self.index.position(span.start).row, self.index.position(span.end).row
        if isinstance(statement, _COMPOUND):
            # Of a compound statement only the header counts; its body holds statements of its own.
            first = self.index.position(whole.start).row
            return first, max(first, self.index.position(span.end).row if span.end < whole.end else first)
        return self.index.position(whole.start).row, self.index.position(whole.end).row

    def _fix(self, rule: Rule, hit: Hit) -> TextFix | None:
        if hit.fix is None:
            return None
        try:
            made = text_fix(hit.fix, self._context)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            self.notes.append(self._crash_note(rule, hit.node, _crash(error)))
            return None
        if isinstance(made, str):
            return TextFix(hit.fix.safety, hit.fix.title, (), hit.fix.note, withheld=made)
        return made
