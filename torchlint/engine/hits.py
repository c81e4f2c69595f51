"""From one parsed file to findings: the hits of the rules, their places, and which of them yield to
others.

Each step gives values to the next: `module_of`, `hits`, `Placing.placed`, `strongest`,
`Placing.finding`.
"""

from __future__ import annotations

import ast
import bisect
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.base.span import LineIndex, Span
from torchlint.catalog.rule_file import OURS
from torchlint.catalog.rules import load_catalog
from torchlint.edits.positions import Layout
from torchlint.edits.statement_spans import StatementSpans
from torchlint.edits.text_fix import EditContext, text_fix
from torchlint.edits.validation import Validator
from torchlint.engine import syntax
from torchlint.engine.job import Job
from torchlint.engine.overlaps import spliced, touch
from torchlint.engine.unused_imports import removals, without_imports
from torchlint.fixes.fix import Append, Fix, NodeEdit, Prepend, Remove, Replace
from torchlint.fixes.notes import one_sentence
from torchlint.rule import Grade, Hit, Module, Rule, Safety, Wait
from torchlint.semantic.code.bindings import imported_over
from torchlint.semantic.code.text import reasoned
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.time.heat import Link, Why, heat_of, not_used
from torchlint.semantic.time.step_overhead import backward_reads
from torchlint.semantic.uses.assumptions import broken
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.uses.spare_imports import SpareImport
from torchlint.semantic.uses.unavoidable_syncs import may_read, wait_beside, waits_besides
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
_IMPORTED = (
    "An import gives a name in this code another meaning than it had, so that nothing is "
    "proven of it."
)
_SAID = "A comment there may say why the code is as it is."
_RECORD = (
    "The file stands among what programs wrote, and may be a copy that says how a run was made."
)
_UNUSED = "Nothing runs this code, so that nothing is gained."
_BESIDE = ("copy", "host", "upload", "wait")
_OF_A_WAIT = ("wait", "copy", "host")
_OTHERS = (
    "The {step_or_batch} waits for the GPU in {other_waits} as well: only without {both_or_all} "
    "does the host run ahead."
)
_NAMES = frozenset(("beside", "other", "wait"))
"""Words of a message that name another wait."""
_MANY = 40
"""Waits of one file from which on none names the others: each would look at each."""
_HALF = "Another wait of the same statement stays, so that nothing is gained."
_APPLIED = {
    Safety.SUGGESTION: (Safety.SAFE, Safety.UNSAFE),
    Safety.UNSAFE: (Safety.SAFE,),
}
"""Which fixes fix a wait, and how safe one is beside a wait that no such fix fixes."""
_SILENCES = regex(r"#.*\b(noqa|torchlint)\b")
_COMPOUND = (cst.BaseCompoundStatement, cst.Else, cst.Finally, cst.ExceptHandler)

Found = tuple[tuple[Finding, ...], tuple[Note, ...]]
"""What the rules find in a file, and what to say of those that crashed."""


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


def findings(
    module: Module,
    filename: str,
    rules: Iterable[Rule],
    wanted: Collection[str],
    job: Job | None = None,
) -> Found:
    """Return what the rules of the codes in `wanted` find in a file; the others of `rules` are
    those they yield to.

    A rule that crashes costs a note that names it, and only its own findings.
    """
    strict, unfixable = (job.strict, job.unfixable) if job is not None else (False, ())
    found, crashes = hits(module, rules, strict, unfixable)
    placing = Placing(module, filename, job)
    made: dict[tuple[str, Span], Finding] = {}
    beside: dict[tuple[str, cst.CSTNode], list[tuple[str, Span]]] = {}
    for placed, stronger in strongest(module, placing.placed(found), wanted):
        key = (placed.rule.code, placed.span)
        if key in made or (stronger is not None and stronger.rule is not placed.rule):
            continue
        finding, crash = placing.finding(placed)
        crashes += [crash] if crash is not None else []
        if stronger is None:
            made[key] = finding
            if (step := _step(module, placed)) is not None:
                beside.setdefault((placed.rule.code, step), []).append(key)
        else:
            first = (stronger.rule.code, stronger.span)
            made[first] = _joined(made[first], finding)
    for keys in beside.values():
        made.update(_fixed_together({key: made[key] for key in keys}))
    return tuple(made.values()), tuple(map(placing.note, crashes))


def _step(module: Module, placed: Placed) -> cst.CSTNode | None:
    """Return the loop in each turn of which something is found, or the function in each call of
    which a wait or a copy is; None where a comment of the file may keep a fix of it back."""
    if _SILENCES.search(module.text):
        return None
    loop = module.loop(placed.hit.node)
    once = placed.rule.effect in _BESIDE or _waits(placed)
    return loop or (module.function(placed.hit.node) if once else None)


def _fixed_together(beside: Mapping[tuple[str, Span], Finding]) -> dict[tuple[str, Span], Finding]:
    """Return the findings of one rule in one step with the same fix for those that can be fixed
    together: to fix one alone saves next to nothing."""
    fixed = dict(beside)
    for safety in _APPLIED[Safety.SUGGESTION]:
        members: list[tuple[str, Span]] = []
        for key, finding in beside.items():
            fix = finding.fix
            if fix is None or fix.safety is not safety or fix.withheld:
                continue
            if members:
                first = fixed[members[0]]
                joined = _joined(first, finding)
                if joined is first:
                    continue
                fixed[members[0]] = joined
            members.append(key)
        for key in members:
            fixed[key] = replace(fixed[key], fix=fixed[members[0]].fix)
    return fixed


def module_of(
    job: Job,
    tree: cst.Module,
    text: str,
    python: ast.Module | None = None,
    outside: Outside | None = None,
) -> Module:
    """Return the analysis of a parsed file under the settings of its job."""
    # What the code runs on; a notebook may say so outside of its cells.
    notebook = job.document.notebook
    seen = job.accelerator == "auto" and notebook is not None and notebook.accelerated
    return Module(
        tree,
        text,
        job.relative,
        target_torch=job.target_torch,
        torch_declared=job.torch_declared,
        newest_torch=job.newest_torch,
        accelerator="cuda" if seen else job.accelerator,
        assume_hot=job.assume_hot,
        contract=job.contract,
        python=python,
        structure=syntax.structure(text, tree),
        outside=outside if outside is not None else Outside(),
    )


def hits(
    module: Module, rules: Iterable[Rule], strict: bool = False, unfixable: Collection[str] = ()
) -> tuple[list[tuple[Rule, Hit]], list[Crash]]:
    """Run the checks of `rules` over a file; return what they yield, and which of them crashed.

    With `strict`, fixes take nothing for granted of the project; those of rules whose code is
    `unfixable` are dropped before anything is asked of them."""
    found: list[tuple[Rule, Hit]] = []
    crashes: list[Crash] = []
    for rule in rules:
        for node_type, check in rule.checks:
            for node in check.nodes(module, node_type):
                try:
                    for hit in check(node, module):
                        found.append((rule, _told(module, rule, hit, strict, unfixable)))
                except (RecursionError, MemoryError, MisreadError):
                    raise
                except Exception as error:
                    crashes.append(Crash(rule, node, _described(error)))
    return found, crashes


def _told(module: Module, rule: Rule, hit: Hit, strict: bool, unfixable: Collection[str]) -> Hit:
    """Return a hit as it is reported; whatever is wrong with it is raised here, where the rule is
    known."""
    if not isinstance(hit, Hit) or not isinstance(hit.node, cst.CSTNode):
        raise TypeError(f"a check yields Hit(node, ...), not {type(hit).__name__}")
    _message(rule, hit)
    return _proven(module, replace(hit, fix=None) if rule.code in unfixable else hit, strict)


def _proven(module: Module, hit: Hit, strict: bool) -> Hit:
    """Return a hit whose fix is only suggested where a comment gives a reason for the code, and not
    safe where the project does not keep to what it takes for granted, or where an import may have
    given a name in it another meaning."""
    fix = hit.fix
    if fix is None or fix.safety is Safety.SUGGESTION:
        return hit
    if fix.assumes:
        fix = _granted(module, fix, strict)
        hit = replace(hit, fix=fix)
    for stays, note in (
        (reasoned(module, hit.node), _SAID),
        (module.outside.recorded(), _RECORD),
        (not_used(module, hit.node), _UNUSED),
    ):
        if stays:
            return replace(hit, fix=replace(fix, safety=Safety.SUGGESTION, note=note))
    if fix.safety is not Safety.SAFE:
        return hit
    places = [
        hit.node,
        *(edit.node for edit in fix.edits if isinstance(edit, (Append, Prepend, Remove, Replace))),
    ]
    if not any(imported_over(module, place) for place in places):
        return hit
    return replace(hit, fix=replace(fix, safety=Safety.UNSAFE, note=_IMPORTED))


def _granted(module: Module, fix: Fix, strict: bool) -> Fix:
    """Return a fix that is as safe as what it takes for granted allows; what holds is left in
    `Fix.assumes`."""
    lost = [name for name in fix.assumes if strict or broken(module, name)]
    if not lost:
        return fix
    names = " and ".join(f"`{name}`" for name in lost)
    why = "" if strict else f"This project does not keep to {names}."
    note = one_sentence([fix.note, *(fix.assumes[name] for name in lost), why])
    held = {name: text for name, text in fix.assumes.items() if name not in lost}
    return replace(fix, safety=Safety.UNSAFE, note=note, assumes=held)


def _message(rule: Rule, hit: Hit, device: str = "GPU") -> str:
    words = hit.message if hit.message is not None else rule.message
    return words.replace("GPU", device).format_map(dict(hit.args))


def _described(error: Exception) -> str:
    import traceback  # of a rule that crashed

    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__}: {error} ({PurePath(frame.filename).name}:{frame.lineno})"


def strongest(
    module: Module, found: Sequence[Placed], wanted: Collection[str]
) -> list[tuple[Placed, Placed | None]]:
    """Return each hit of a wanted rule, and the one that it yields to if there is one: of another
    rule, or an earlier one of its own with the same cause."""
    named = {code for each in found for code in each.rule.yields_to}
    strong = sorted((each for each in found if each.rule.code in named), key=_start)
    longest = max((each.span.end - each.span.start for each in strong), default=0)
    caused: dict[object, list[Placed]] = {}
    for each in strong:
        caused.setdefault(each.hit.cause, []).append(each)
    first: dict[tuple[str, object], Placed] = {}
    judged: list[tuple[Placed, Placed | None]] = []
    for each in found:
        if each.rule.code in wanted:
            low = bisect.bisect_left(strong, each.span.start - longest, key=_start)
            near = strong[low : bisect.bisect_right(strong, each.span.end, key=_start)]
            near += caused.get(each.hit.cause, ()) if each.hit.cause is not None else ()
            stronger = next((other for other in near if _yields(each, other)), None)
            if stronger is None and isinstance(each.hit.cause, Wait):
                same = first.setdefault((each.rule.code, each.hit.cause), each)
                stronger = same if same.span != each.span else None
            judged.append((each, stronger))
    return _whole(module, judged)


def _whole(
    module: Module, judged: list[tuple[Placed, Placed | None]]
) -> list[tuple[Placed, Placed | None]]:
    """Return the hits, the fix of a wait no safer than the one of another for which its statement,
    or its step beside it, waits as well: to fix one alone saves next to nothing."""
    waits = [
        each
        for each, stronger in judged
        if _waits(each) and (stronger is None or stronger.rule is each.rule)
    ]
    weaker: dict[int, Placed] = {}
    for safety, applied in _APPLIED.items():
        now = [weaker.get(id(each), each) for each in waits]
        left: list[Placed] = []
        mended: list[cst.CSTNode] = []
        for each in now:
            if _mended(module, each, now, applied):
                mended.append(each.hit.node)
            else:
                left.append(each)
        for first, each in zip(waits, now, strict=True):
            fix = each.hit.fix
            if fix is None or fix.safety not in applied:
                continue
            if any(_beside(module, each, other) for other in left if other is not each):
                fix = replace(fix, safety=safety, note=one_sentence([fix.note, _HALF]))
                weaker[id(first)] = replace(each, hit=replace(each.hit, fix=fix))
            else:
                weaker[id(first)] = _in_vain(module, each, left, mended, safety)
    weakened = [
        (weaker.get(id(each), each), weaker.get(id(stronger), stronger))
        for each, stronger in judged
    ]
    # What a loader gives has to be copied anyway.
    stops = [
        each.hit.node
        for each, stronger in weakened
        if stronger is None and _stops(each) and each.rule.code != "TL103"
    ]
    return [
        (_with_others(module, each, stops) if stronger is None else each, stronger)
        for each, stronger in weakened
    ]


def _stops(placed: Placed) -> bool:
    """Say whether what is found is a wait for the device."""
    uploads = placed.rule.effect == "upload" and _severity(placed) is Severity.WARNING
    return _waits(placed) or placed.rule.effect == "copy" or uploads


def _with_others(module: Module, wait: Placed, stops: Sequence[cst.CSTNode]) -> Placed:
    """Return a wait whose message names the others of its step, unless it names one by itself."""
    many = len(stops) > _MANY
    if many or not _stops(wait) or not _NAMES.isdisjoint(wait.hit.args):
        return wait
    node = wait.hit.node
    others = list({module.source_of(e): e for e in waits_besides(module, node, stops)}.values())
    if not others:
        return wait
    first = [
        f"{'another ' if each.deep_equals(node) else ''}`{module.shown(each)}`"
        f"{_inside(module, each)}"
        for each in others[:2]
    ]
    more = len(others) - 2
    rest = "one more place" if more == 1 else f"{more} more places"
    named = f"{', '.join(first)} and {rest}" if more > 0 else " and ".join(first)
    message = f"{wait.hit.message or wait.rule.message} {_OTHERS}"
    unit = "batch" if heat_of(module, node).grade is Grade.EVAL else "step"
    every = "both" if len(others) == 1 else "all of them"
    words = {"step_or_batch": unit, "other_waits": named, "both_or_all": every}
    args = {**wait.hit.args, **words}
    return replace(wait, hit=replace(wait.hit, args=args, message=message))


def _inside(module: Module, node: cst.BaseExpression) -> str:
    """Return in words where a network that a call runs waits, or what makes a backward pass do."""
    if method_called(node) == "backward" and (switch := backward_reads(module)) is not None:
        return f" (`{module.shown(switch)}`)"
    wait = network_wait(module, node) if isinstance(node, cst.Call) else None
    return f" ({wait.shown_from(module)})" if wait is not None else ""


def _waits(placed: Placed) -> bool:
    return isinstance(placed.hit.cause, Wait) or placed.rule.effect == "wait"


def _in_vain(
    module: Module,
    wait: Placed,
    left: Sequence[Placed],
    mended: Sequence[cst.CSTNode],
    safety: Safety,
) -> Placed:
    """Return a wait with its fix, which is no more than `safety` where the step waits beside it as
    well; it is a hint, where what no fix fixes is a warning, here or in the function that waits."""
    fix = wait.hit.fix
    if fix is None or wait.rule.effect not in _OF_A_WAIT:
        return wait
    others = {e.hit.node: e for e in left if e is not wait and _stays(e)}
    node = wait_beside(module, wait.hit.node, others, mended)
    if node is None or any(_rewrites(module, edit, node) for edit in fix.edits):
        return wait
    beside = f"`{module.shown(node)}` beside it"
    note = one_sentence([fix.note, f"As long as {beside} waits as well, little is gained."])
    told = (
        _severity(others[node]) is Severity.WARNING
        if node in others
        else not may_read(module, node)
    )
    hint = told and safety is Safety.SUGGESTION and _severity(wait) is Severity.WARNING
    severity = Severity.INFO if hint else wait.hit.severity
    weaker = replace(fix, safety=safety, note=note)
    return replace(wait, hit=replace(wait.hit, fix=weaker, severity=severity))


def _stays(wait: Placed) -> bool:
    """Say whether a wait that no fix fixes is one, and goes with none of those beside it."""
    fix = wait.hit.fix
    return wait.rule.effect != "upload" and (fix is None or not fix.in_vain)


def _severity(placed: Placed) -> Severity:
    return placed.hit.severity or Severity(placed.rule.severity)


def _mended(
    module: Module, wait: Placed, waits: Iterable[Placed], applied: Collection[Safety]
) -> bool:
    """Say whether a wait has a fix that is applied, or another's fix rewrites the place."""
    if wait.hit.fix is not None:
        return wait.hit.fix.safety in applied
    fixes = (each.hit.fix for each in waits if each.rule is wait.rule)
    return any(
        _rewrites(module, edit, wait.hit.node)
        for fix in fixes
        if fix is not None and fix.safety in applied
        for edit in fix.edits
    )


def _rewrites(module: Module, edit: NodeEdit, node: cst.CSTNode) -> bool:
    """Say whether an edit takes the place of an expression, or of a part of it."""
    match edit:
        case Replace(node=place, new=new) if module.is_within(node, place):
            return module.source_of(node) not in module.root.code_for_node(new)
        case Replace(node=place):
            return module.is_within(place, node)
        case Remove(node=place):
            return module.is_within(node, place)
    return False


def _beside(module: Module, one: Placed, other: Placed) -> bool:
    """Say whether a wait of the same statement comes with another, as often: not in the other arm
    of ``a if test else b``, nor outside of its comprehension."""
    mine, its = one.hit.cause, other.hit.cause
    if not isinstance(mine, Wait) or not isinstance(its, Wait):
        return False
    same = mine.statement is its.statement and mine.scope in (mine.statement, its.scope)
    return same and not any(
        isinstance(above, cst.IfExp)
        and module.is_within(other.hit.node, above)
        and {_arm(module, above, one), _arm(module, above, other)} == {"body", "orelse"}
        for above in module.ancestors(one.hit.node)
    )


def _arm(module: Module, choice: cst.IfExp, placed: Placed) -> str:
    arms = (
        arm for arm in ("body", "orelse") if module.is_within(placed.hit.node, getattr(choice, arm))
    )
    return next(arms, "test")


def _joined(first: Finding, other: Finding) -> Finding:
    """Return a finding whose fix also fixes another place of the same cause, where their edits do
    not meet and they are as safe."""
    one, two = first.fix, other.fix
    if one is None or two is None or one.safety is not two.safety or two.elsewhere or two.withheld:
        return first
    edits = [each for each in two.edits if each not in one.edits]
    if any(touch(each, mine) for each in edits for mine in one.edits):
        return first
    whole = replace(
        one,
        title=_all_clauses(one.title, two.title).removesuffix("."),
        edits=tuple(sorted((*one.edits, *edits), key=lambda edit: edit.span)),
        note=_all_clauses(one.note, two.note),
        uses=(*one.uses, *two.uses),
        assumes=tuple(dict.fromkeys((*one.assumes, *two.assumes))),
    )
    return replace(first, fix=whole)


def _all_clauses(one: str, two: str) -> str:
    """Return one sentence of the clauses of two sentences, each once."""
    once: dict[str, str] = {}
    for clause in (*one.removesuffix(".").split("; "), *two.removesuffix(".").split("; ")):
        once.setdefault(clause.lower(), clause)
    return one_sentence(once.values())


def _start(placed: Placed) -> int:
    return placed.span.start


def _yields(weak: Placed, strong: Placed) -> bool:
    if strong.rule.code not in weak.rule.yields_to:
        return False
    causes = (weak.hit.cause, strong.hit.cause)
    if strong.span == weak.span or (causes[0] is not None and causes[0] == causes[1]):
        return True
    if weak.compound or strong.compound or all(isinstance(cause, Wait) for cause in causes):
        return False
    low, high = (
        (weak.span, strong.span)
        if weak.span.start >= strong.span.start
        else (strong.span, weak.span)
    )
    return high.start <= low.start and low.end <= high.end


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
            message=_message(rule, hit, "TPU" if on_tpu(self.module) else "GPU"),
            severity=_severity(placed),
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
            return None, Crash(rule, hit.node, _described(error))
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
