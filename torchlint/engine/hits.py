"""Runs the rules over one parsed file and turns their hits into findings."""

from __future__ import annotations

import ast
import bisect
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

import libcst as cst

from torchlint.base.finding import Finding, Note, NoteKind, Reason, TextFix
from torchlint.base.span import LineIndex, Span
from torchlint.engine.catalog import load_catalog
from torchlint.engine.edits import EditContext, text_fix
from torchlint.engine.job import Job
from torchlint.engine.positions import Layout
from torchlint.engine.projects import outside_of
from torchlint.engine.rule_file import OURS
from torchlint.engine.shown import shown
from torchlint.engine.units import Units
from torchlint.rule import Hit, Module, Rule, Why

_COMPOUND = (cst.BaseCompoundStatement, cst.Else, cst.Finally, cst.ExceptHandler)


def collect(tree: cst.Module, text: str, python: ast.Module | None, job: Job, rules: list[Rule]) -> Collected:
    """Run `rules` over a parsed file. A check that crashes costs a note that names it, and only its own findings."""
    module = Module(
        tree,
        text,
        job.relative,
        target_torch=job.target_torch,
        accelerator=job.accelerator,
        assume_hot=job.assume_hot,
        python=python,
        outside=outside_of(job),
    )
    hits: list[tuple[Rule, Hit]] = []
    crashes: list[tuple[Rule, cst.CSTNode, str]] = []
    for rule in rules:
        for node_type, check in rule.checks:
            for node in module.nodes(node_type):
                try:
                    hits.extend((rule, _sound(rule, hit)) for hit in check(node, module))
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


def _message(rule: Rule, hit: Hit) -> str:
    return (hit.message if hit.message is not None else rule.message).format_map(dict(hit.args))


def _layout(module: Module) -> Layout:
    units = Units(module.root, module.text, module.statements, module.parent)
    return Layout(module.root, module.text, units)


def _crash(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({PurePath(frame.filename).name}:{frame.lineno})"


@dataclass(frozen=True, slots=True)
class _Placed:
    rule: Rule
    hit: Hit
    span: Span
    compound: bool


class _Overlaps:
    """Finds the hits that may overlap a span without looking at all of them."""

    def __init__(self, placed: list[_Placed]) -> None:
        self._placed = sorted(placed, key=lambda each: each.span.start)
        self._longest = max((each.span.end - each.span.start for each in placed), default=0)

    def near(self, span: Span) -> list[_Placed]:
        def start(each: _Placed) -> int:
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
        if hits or crashes:
            self.index = LineIndex(text)
            self.layout = _layout(module)
            self.context = EditContext(tree, text, self.index, self.layout, module.parent, module.statements.python)
        self.notes = [self._crash_note(*crash) for crash in crashes]

    def _crash_note(self, rule: Rule, node: cst.CSTNode, error: str) -> Note:
        line = self._row(node)
        info = load_catalog().find(rule.code)
        package = info.package if info is not None else OURS
        words = f"{rule.code} failed on line {line}: {error}; this is a bug in {package}, please report it"
        return Note(NoteKind.FAILED, self.job.document.filename, words, line)

    def _row(self, node: cst.CSTNode) -> int:
        span = self.layout.span(node)
        return self.index.position(span.start).row if span is not None else 0

    def findings(self, wanted: frozenset[str]) -> Iterator[Finding]:
        """Yield a finding for each hit of a wanted rule that yields to no other hit."""
        if not self._hits:
            return
        placed = [found for rule, hit in self._hits if (found := self._place(rule, hit)) is not None]
        named = {code for each in placed for code in each.rule.yields_to}
        strong = _Overlaps([each for each in placed if each.rule.code in named])
        seen: set[tuple[str, Span]] = set()
        for each in placed:
            key = (each.rule.code, each.span)
            if each.rule.code not in wanted or key in seen or self._yields(each, strong):
                continue
            seen.add(key)
            yield self._finding(each)

    def _place(self, rule: Rule, hit: Hit) -> _Placed | None:
        span = self.layout.span(hit.node)
        return _Placed(rule, hit, span, isinstance(hit.node, _COMPOUND)) if span is not None else None

    def _yields(self, weak: _Placed, others: _Overlaps) -> bool:
        for strong in others.near(weak.span):
            if strong.rule.code not in weak.rule.yields_to:
                continue
            if strong.span == weak.span:
                return True
            if weak.compound or strong.compound:
                continue
            low, high = (weak.span, strong.span) if weak.span.start >= strong.span.start else (strong.span, weak.span)
            if high.start <= low.start and low.end <= high.end:
                return True
        return False

    def _finding(self, placed: _Placed) -> Finding:
        rule, hit, span = placed.rule, placed.hit, placed.span
        first, last = self._statement_rows(hit.node, span)
        return Finding(
            code=rule.code,
            name=rule.name,
            message=_message(rule, hit),
            severity=hit.severity or rule.severity,
            filename=self.job.document.filename,
            start=self.index.position(span.start),
            end=self.index.position(span.end),
            statement=first,
            statement_end=last,
            fix=self._fix(rule, hit),
            why_hot=tuple(self._reason(why) for why in hit.why_hot),
        )

    def _reason(self, why: Why) -> Reason:
        if why.elsewhere is None:
            return Reason(why.text, self.job.document.filename, self._row(why.node))
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
            made = text_fix(hit.fix, self.context)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:
            self.notes.append(self._crash_note(rule, hit.node, _crash(error)))
            return None
        if isinstance(made, str):
            return TextFix(hit.fix.safety, hit.fix.title, (), hit.fix.note, withheld=made)
        return made
