"""The door: all that a rule file needs.

A rule file is one module under ``torchlint/rules/<family>/``. Its docstring is its manual, it binds
one `Rule` to the name ``rule``, and its checks are plain functions that take ``(node, module)`` and
yield `Hit`. Checks keep no state; what they know of the code are answers to questions, functions
``(module, …)`` of `torchlint.semantic`. Those that most rules ask are here, the others are imported
from the file that decides them; the documentation lists them all. A decorator says what a check
looks at:

- ``@rule.call("torch.cuda.empty_cache")``: calls of what has one of these dotted names, whatever
  the file calls it;
- ``@rule.method("backward")``: calls of an attribute of one of these names;
- ``@rule.on(cst.For)``: nodes of these types; ``about=`` is a cheap test of them, ``calls=`` and
  ``file=`` leave out calls and files in which there is nothing to find.

``runs=``, in ``Rule(...)`` for all checks or in a decorator for one, says how often a place has
to run; for all but ``"anywhere"`` the hits say by themselves why it is hot. Places in benchmark
code (but for ``benchmarks=True``) and on the way to an exception are left out. All this holds for
the node that a check is asked about and for the place that its hit points at.

The parent process reads a rule file with `ast` and never imports it, so every argument of
``Rule(...)`` is a literal (design §4).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any, TypeGuard, TypeVar

import libcst as cst

from torchlint.base.declaration import Declaration
from torchlint.base.errors import CatalogError
from torchlint.base.finding import Safety, Severity
from torchlint.base.records import dataclass, frozen
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.calls import arguments_of, keyword_argument, spare_statement
from torchlint.semantic.code.failures import fails_before
from torchlint.semantic.code.guards import conditions_around, unreached
from torchlint.semantic.code.imports import name_for_module
from torchlint.semantic.code.names import CallNames
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, method_called
from torchlint.semantic.data.evaluated_batches import shown_beside
from torchlint.semantic.data.later_steps import LaterSteps, later_steps
from torchlint.semantic.data.per_step_use import LogLines, log_lines
from torchlint.semantic.device.host_reads import HostRead
from torchlint.semantic.device.possible_waits import scaler_waits
from torchlint.semantic.device.transfers import Transfer
from torchlint.semantic.device.value_sized import gathers
from torchlint.semantic.module import Module
from torchlint.semantic.time.entry_points import broken_import, uncalled
from torchlint.semantic.time.heat import (
    COLD,
    Grade,
    Heat,
    Why,
    heat_of,
    hot_nodes,
    may_be_hot,
    not_used,
)
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.accumulators import (
    NumberUses,
    bound_per_iteration,
    first_read_behind,
    fresh_per_iteration,
    keeps_its_values,
    reaches_line_behind,
    read_in_blocks,
)
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, MEMORY, ONE_DEVICE, PATCHED, TORCH
from torchlint.semantic.uses.graphless import graphless
from torchlint.semantic.uses.host_elements import HostElements
from torchlint.semantic.uses.host_loops import HostLoop
from torchlint.semantic.uses.plain_numbers import has_no_dimension
from torchlint.semantic.uses.reads_together import reads_together
from torchlint.semantic.uses.unavoidable_syncs import (
    stays_beside,
    wait_that_stays,
    waited_before,
)
from torchlint.semantic.values.detachable import detachable
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

__all__ = [
    "Append",
    "Fix",
    "Grade",
    "Hit",
    "InFile",
    "InsertAfter",
    "InsertBefore",
    "Module",
    "NeedImport",
    "NodeEdit",
    "Prepend",
    "Remove",
    "Replace",
    "Rewrite",
    "Rule",
    "Safety",
    "Severity",
    "Transfer",
    "Why",
    "arguments_of",
    "conditions_around",
    "deletion",
    "heat_of",
    "inferred",
    "keyword_argument",
    "nested",
    "on_device",
    "one_sentence",
    "with_keyword",
    "without_argument",
]


@frozen
class Replace:
    """Put the code of `new` in the place of `node` (an expression, or a statement by a
    statement)."""

    node: cst.CSTNode
    new: cst.CSTNode


@frozen
class Remove:
    """Delete a whole simple statement line, one small statement of a ``a; b`` line, or an ``if``
    that stands in a block with other statements.

    Where the statement is the only one of its block, the engine writes ``pass``. With `comments`,
    those right above it go too, where a blank line, another comment or the end of the block comes
    behind it, so that they would stand above nothing. With `remark`, a comment behind it stays as a
    line of its own.
    """

    node: cst.CSTNode
    comments: bool = False
    remark: bool = False


@frozen
class InsertBefore:
    """Put statement source `code` on lines of its own before `statement`, indented like it."""

    statement: cst.CSTNode
    code: str


@frozen
class InsertAfter:
    """Put statement source `code` on lines of its own after `statement`, indented like it.

    Of a compound statement (a loop), that is after its whole body.
    """

    statement: cst.CSTNode
    code: str


@frozen
class Append:
    """Put the text `code` straight behind the expression `node`: ``x`` becomes ``x.detach()``."""

    node: cst.CSTNode
    code: str


@frozen
class Prepend:
    """Put the text `code` straight in front of the expression or decorator `node`."""

    node: cst.CSTNode
    code: str


@frozen
class NeedImport:
    """Make sure that ``import {module}`` (or ``import {module} as {alias}``) is in effect at module
    level."""

    module: str
    alias: str | None = None


NodeEdit = Replace | Remove | InsertBefore | InsertAfter | Append | Prepend | NeedImport


@frozen
class InFile:
    """The node edits of a fix in another file of the project, whose nodes they name."""

    module: Module
    edits: tuple[NodeEdit, ...]


@frozen
class Fix:
    """Node edits that belong together, and how safe they are.

    `title` says in the imperative what is done ("Pass device= to the factory"). `note` is demanded
    for unsafe fixes: one sentence on what may change. `elsewhere` are edits in other files: all are
    written, or none. `assumes` says what the fix takes for granted, by its name in
    `torchlint.semantic.uses.assumptions`, and what may change where that does not hold: the engine
    asks the project, and makes the fix unsafe there.
    """

    edits: tuple[NodeEdit, ...]
    safety: Safety
    title: str
    note: str = ""
    elsewhere: tuple[InFile, ...] = ()
    assumes: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.safety is Safety.UNSAFE and not self.note:
            raise CatalogError("an unsafe fix must say in one sentence what may change")


@frozen
class Wait:
    """The cause of a read: a statement waits for the device until a value is there.

    A statement that waits twice is no faster with one of the waits: fixes of its reads are applied
    where each of them has one, or is mended by another's.

    Args:
        statement: the statement.
        scope: the innermost comprehension or lambda in it, or the statement, in which the value is
            the same.
        value: the source of what is read, or its node where each evaluation gives another value.
    """

    statement: cst.CSTNode
    scope: cst.CSTNode
    value: str | cst.CSTNode


def wait_for(module: Module, tensor: cst.BaseExpression) -> Wait:
    """Return the wait for a tensor's value where it stands."""
    value = tensor
    while True:
        match value:
            case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(name)), args=[]) if (
                name in _SAME_VALUE
            ):
                value = inner
            case (
                cst.Attribute(value=inner, attr=cst.Name("data"))
                | cst.Call(func=cst.Name("float" | "int"), args=[cst.Arg(value=inner)])
            ):
                value = inner
            case _:
                break
    statement = module.small_statement(tensor) or module.statement(tensor)
    scopes = (a for a in module.ancestors(tensor) if isinstance(a, (*COMPREHENSIONS, cst.Lambda)))
    scope = next(scopes, statement)
    if not module.is_within(scope, statement):
        scope = statement
    called = any(True for _ in module.within(value, cst.Call, cst.NamedExpr, nested=True))
    return Wait(statement, scope, value if called else module.source_of(value))


_VIEWS = ops.having("view")
_SAME_VALUE = (
    ops.having("method", "same") | ops.having("method", "move") | ops.having("method", "reads")
)


@frozen
class Hit:
    """A place that a rule objects to.

    Args:
        node: the expression or statement; its first character is where the finding points.
        args: values for the placeholders of the rule's message.
        fix: what could be done, if anything.
        severity: overrides the rule's own, where the catalogue grades by context.
        message: replaces the rule's message, where the catalogue gives another sentence for a row.
        why_hot: links that come before the chain that makes this place hot, which is added where
            ``runs=`` is given.
        cause: what is at fault, where that is not the place alone. A rule also yields to a more
            specific one with the same cause, and hits of one rule for one `Wait` are one finding.
    """

    node: cst.CSTNode
    args: Mapping[str, str] = field(default_factory=dict)
    fix: Fix | None = None
    severity: Severity | None = None
    message: str | None = None
    why_hot: tuple[Why, ...] = ()
    cause: Wait | cst.CSTNode | None = None


Check = Callable[[Any, Module], Iterable[Hit]]
C = TypeVar("C", bound=Check)


@dataclass(frozen=True, slots=True, eq=False)
class Mark:
    """A check with what a node must be before it decides, and what comes of its hits.

    Args:
        check: the check itself.
        about: what the node must be, see `Rule.on`.
        runs: how often it must run.
        benchmarks: whether benchmark code counts.
        calls: of a check of certain calls the names: dotted ones, and methods' with a dot in front;
            or a test of such names.
        file: a test of the file, without which no node of it is one.
        declared: what the rule declares of all its hits.
    """

    check: Check
    about: Callable[[Module, Any], object] | None
    runs: str
    benchmarks: bool
    calls: CallNames
    file: Callable[[Module], object] | None
    declared: Declaration

    def __call__(self, node: cst.CSTNode, module: Module) -> Iterator[Hit]:
        """Yield the hits of any node of the check's type."""
        if self.fits(module, node) if self.about is not None else self.may_run(module, node):
            for hit in self.check(node, module):
                yield from self.kept(module, node, hit)

    def nodes(self, module: Module, kind: type[cst.CSTNode]) -> Sequence[cst.CSTNode]:
        """Return the nodes of a type that the check may say something of, by what is worked out
        once for all checks."""
        if self.file is not None and not self.file(module):
            return ()
        if self.calls:
            called = module.names.calls_of(self.calls)
            cheap = self.about is not None
            return called if cheap else [each for each in called if self.may_run(module, each)]
        return module.nodes(kind) if self.runs in _UNBOUNDED else hot_nodes(module, kind)

    def may_run(self, module: Module, node: cst.CSTNode) -> bool:
        """Say whether a node may run often enough, by a cheap bound."""
        return self.runs in _UNBOUNDED or may_be_hot(module, node)

    def counts(self, module: Module, node: cst.CSTNode) -> bool:
        """Say whether a place counts for the check, by how often it runs and what it is for."""
        return _counted(module, node, self.runs, self.benchmarks) is not None

    def fits(self, module: Module, node: cst.CSTNode) -> bool:
        """Say whether a node is what the check is about, and counts."""
        return self.about is None or (
            bool(self.about(module, node))
            and self.may_run(module, node)
            and self.counts(module, node)
        )

    def kept(self, module: Module, node: cst.CSTNode, hit: Hit) -> Iterator[Hit]:
        """Yield a hit that the check gives for a node with what is to be said of its place, if that
        counts."""
        if not isinstance(hit, Hit) or not isinstance(hit.node, cst.CSTNode):
            yield hit  # The engine says what is wrong with it.
            return
        if self.about is None and hit.node is not node and not self.counts(module, node):
            return
        there = _counted(module, hit.node, self.runs, self.benchmarks)
        if there is not None:
            graded, unused = _graded(module, hit, self.declared), not_used(module, hit.node)
            if unused:
                text = unused[0].text
                words = {**graded.args, "unused": f"{text[0].upper()}{text[1:]}."}
                message = f"{graded.message or self.declared.message} {{unused}}"
                graded = replace(graded, args=words, message=message)
            yield replace(graded, why_hot=unused or (*hit.why_hot, *there.why))


@dataclass(frozen=True, eq=False)
class Rule(Declaration):
    """What a rule declares, and its checks.

    Args:
        module_name: ``__name__`` of the rule file.
        manual: ``__doc__`` of the rule file.
    """

    module_name: str
    manual: str | None
    checks: list[tuple[type[cst.CSTNode], Mark]] = field(default_factory=list, init=False)

    @property
    def name(self) -> str:
        """The file's stem with dashes."""
        return self.module_name.rpartition(".")[2].replace("_", "-")

    def call(
        self, *names: str, runs: str | None = None, benchmarks: bool = False
    ) -> Callable[[C], C]:
        """Mark a function as a check of calls of what has one of these dotted names, whatever a
        file calls it."""
        wanted = frozenset(names)

        def about(module: Module, node: cst.Call) -> bool:
            return _means(module, node.func, wanted)

        return self.on(cst.Call, about=about, runs=runs, benchmarks=benchmarks, calls=names)

    def method(
        self, *names: str, runs: str | None = None, benchmarks: bool = False
    ) -> Callable[[C], C]:
        """Mark a function as a check of calls of an attribute of one of these names."""

        def about(_: Module, node: cst.Call) -> bool:
            return method_called(node) in names

        calls = [f".{name}" for name in names]
        return self.on(cst.Call, about=about, runs=runs, benchmarks=benchmarks, calls=calls)

    def on(
        self,
        *node_types: type[cst.CSTNode],
        about: Callable[[Module, Any], object] | None = None,
        runs: str | None = None,
        benchmarks: bool = False,
        calls: CallNames = (),
        file: Callable[[Module], object] | None = None,
    ) -> Callable[[C], C]:
        """Mark a function as a check of these node types (exact types, no subclasses).

        Args:
            node_types: the types.
            about: what else the node must be: a cheap test, which is asked before how often the
                node runs.
            runs: how often the node must run, where that is not what the rule declares.
            benchmarks: whether benchmark code counts too.
            calls: names of which the calls that it may say something of have one, or a test of
                them, see `Mark.calls`.
            file: a test of the file, without which it has nothing to say of any node.
        """
        often = runs or self.runs

        def mark(check: C) -> C:
            marked = Mark(check, about, often, benchmarks, calls, file, self)
            self.checks.extend((node_type, marked) for node_type in node_types)
            return check

        return mark


_STAYS = "`{beside}` waits for the device as well, whatever becomes of this."
_AS_BEFORE = (
    "A tensor that shares memory with one that the loop changes in place is read as it was before "
    "the loop."
)
_ENOUGH: Mapping[str, Callable[[Heat], bool]] = {
    "once": lambda heat: True,
    "sample": lambda heat: heat.grade >= Grade.SAMPLE,
    "hot": lambda heat: heat.hot,
    "batch": lambda heat: heat.grade >= Grade.EVAL,
    "step": lambda heat: heat.step,
    "train": lambda heat: heat.train,
}
_NONE: Mapping[str, str] = {}
_UNBOUNDED = ("anywhere", "once", "sample")
"""What `may_be_hot` says nothing of: it knows steps alone."""


def _means(module: Module, func: cst.BaseExpression, wanted: Collection[str]) -> bool:
    """Say whether a callee has one of these dotted names, and is no definition of the project,
    which may have a package that is called as a library."""
    name = module.name(func)
    return name in wanted and module.outside.find(name) is None


def _graded(module: Module, hit: Hit, declared: Declaration) -> Hit:
    """Return a hit with its severity: what costs only where somebody turns on an option that is off
    by default, or uses what nothing uses here, is a hint, and so are all in a file that cannot be
    imported, and a wait or a copy beside another that stays."""
    severity = hit.severity or Severity(declared.severity)
    node = hit.node.body if isinstance(hit.node, LOOPS) else hit.node
    if severity is Severity.WARNING and (
        heat_of(module, node).optional or bool(not_used(module, node))
    ):
        severity = Severity.INFO
    waits = isinstance(hit.cause, Wait) or declared.effect in ("wait", "copy")
    # What the host fills takes as long as it is large; a row of numbers costs the wait alone.
    row = declared.effect == "upload" and inferred(module, hit.node).rank in (0, 1)
    if severity is Severity.WARNING and (waits or row):
        other = _waits_all_the_same(module, node)
        if other is not None:
            words = {**hit.args, "beside": module.shown(other)}
            message = f"{hit.message or declared.message} {_STAYS}"
            return replace(hit, args=words, message=message, severity=Severity.INFO)
    if broken_import(module) is not None:
        severity = Severity.INFO
    return replace(hit, severity=severity)


def _waits_all_the_same(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return what makes the host wait whatever becomes of a place: anywhere in an evaluation, of
    places that are alike one before it, else of another kind right beside it."""
    evaluates = heat_of(module, node).grade is Grade.EVAL
    alike = isinstance(node, (cst.Subscript, cst.Call)) and gathers(module, node)
    if alike and not evaluates:
        return None
    other = wait_that_stays(module, node, beside=not evaluates)
    return None if alike and other is not None and module.before(node, other) else other


def _counted(module: Module, node: cst.CSTNode, runs: str, benchmarks: bool) -> Heat | None:
    """Return how often a place runs, of a loop its body; None where it does not count for a
    check."""
    heat = COLD
    if runs != "anywhere":
        heat = heat_of(module, node.body if isinstance(node, LOOPS) else node)
        if not _ENOUGH[runs](heat):
            return None
    around = (node, *(why.node for why in heat.why))
    if not benchmarks and any(is_benchmark(module, each) for each in around):
        return None
    if unreached(module, node):
        return None
    if runs != "anywhere" and uncalled(module, node):
        return None
    return heat if fails_before(module, node) is None else None


def deletion(module: Module, node: cst.Call, safety: Safety, note: str) -> Fix | None:
    """Return the fix that deletes a call; None where its value is used, or where it is all that a
    block holds.

    A call that is all its ``if cuda:`` holds would leave an empty branch; that is better done by
    hand.
    """
    statement = spare_statement(module, node)
    return (
        Fix((Remove(statement, comments=True),), safety, "Delete the call", note)
        if statement is not None
        else None
    )


def _safe_unless(
    notes: Iterable[str], edits: Iterable[NodeEdit], title: str, assumes: Mapping[str, str] = _NONE
) -> Fix:
    """Return a fix that is safe unless a note says what may change."""
    note = one_sentence(notes)
    safety = Safety.UNSAFE if note else Safety.SAFE
    return Fix(tuple(edits), safety, title, note, assumes=assumes)


def detached(module: Module, tensor: cst.BaseExpression) -> cst.BaseExpression:
    """Return ``tensor.detach()``; behind ``.detach()`` or ``.data``, and of what was computed with
    autograd off, it is left out."""
    if graphless(module, tensor):
        return tensor
    match tensor:
        case cst.Call(func=cst.Attribute(attr=cst.Name("detach"))):
            return tensor
        case cst.Attribute(attr=cst.Name("data")):
            return tensor
    return method_call(tensor, "detach")


def as_receiver(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return an expression with the parentheses that an attribute of it needs."""
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def method_call(receiver: cst.BaseExpression, name: str) -> cst.Call:
    """Return ``receiver.name()``, with parentheses around what needs them."""
    return cst.Call(cst.Attribute(as_receiver(receiver), cst.Name(name)))


def logged_every(
    count: int,
    found: LogLines,
    replaced: Mapping[cst.CSTNode, cst.CSTNode] | None = None,
    before: str = "",
) -> tuple[NodeEdit, ...]:
    """Return the edits by which lines that only log do so every `count` steps and in the last one,
    with the code `before` ahead of them; the loop is made to count its steps where it does not.
    `replaced` says what is replaced inside the lines."""
    lines = [_with(line, replaced or {}) for line in found.lines]
    # What stands behind the first line stays there, which then is the block's end.
    first = lines[0].with_changes(leading_lines=[], trailing_whitespace=cst.TrailingWhitespace())
    last = f" or {found.last}" if found.last is not None else ""
    test = cst.parse_expression(f"{found.counter} % {count} == 0{last}")
    block = found.loop.body
    indent = block.indent if isinstance(block, cst.IndentedBlock) else None
    body = cst.IndentedBlock([*cst.parse_module(before).body, first, *lines[1:]], indent=indent)
    guarded = cst.If(test, body, leading_lines=found.lines[0].leading_lines)
    return (
        *(() if found.counted else _step_counted(found.loop, found.counter)),
        Replace(found.lines[0], guarded),
        *(Remove(line) for line in found.lines[1:]),
    )


def log_every_n(
    module: Module, count: int, shown: Mapping[cst.BaseExpression, str]
) -> tuple[NodeEdit, ...] | None:
    """Return the edits by which the lines that log tensors in each step do so every `count` steps,
    and read them there, each by a builtin (``float``, ``int``); None where one of the tensors
    stands in no such line."""
    found: dict[cst.CSTNode, tuple[LogLines, dict[cst.CSTNode, cst.CSTNode]]] = {}
    for node, kind in shown.items():
        lines = next(
            (each for each, _ in found.values() if module.statement(node) in each.lines), None
        )
        if lines is None:
            match module.small_statement(node):
                case cst.Expr(value=cst.Call() as call):
                    lines = log_lines(module, call)
            if lines is None or any(
                set(lines.lines) & set(each.lines) for each, _ in found.values()
            ):
                return None
        _, reads = found.setdefault(lines.lines[0], (lines, {}))
        reads[node] = number_of(module, node, kind) if kind else node
    edits = [edit for each in found.values() for edit in logged_every(count, *each)]
    return tuple(dict.fromkeys(edits))


_LATER = (
    "Until the loop has ended the numbers are tensors, for an exception handler or debugger too."
)
_LEFT = (
    "Where the program does not go on at the line after the loop (an exception, an interrupted "
    "cell), what was to be done after it is left out."
)

_SAME = "What is kept has to be another object in each step, as torch's functions give."
_RAISED = "An index past the end, or a division by zero, raises after the loop."


def done_after_loop(module: Module, count: int, read: HostRead, seldom: str) -> Fix | None:
    """Return the fix by which the statement of a read, ``losses.update(loss.item(), n)``, and its
    neighbours run after the loop, in the same order and with the same numbers.

    What logs them in each step does so every `count` steps, which `seldom` says.
    """
    later = later_steps(module, read.node)
    names = _names_of_kept(module, later) if later is not None else None
    if later is None or names is None:
        return None
    loop, shown = later.place.loop, later.place.shown
    pending = f"pending_{later.steps[0].root.value}"
    if pending in module.text:
        return None
    tensors = {each.tensor: each for step in later.steps for each in step.reads}
    codes: dict[str, str] = {}
    for node, name in names.items():
        own = tensors.get(node)
        kept = kept_for_later(module, own, own.node) if own is not None else node
        if kept is not node and own is not None and not detachable(module, node):
            return None
        codes.setdefault(name, cst.Module(()).code_for_node(kept))
    row, targets = ", ".join(codes.values()), ", ".join(codes)
    append = cst.parse_statement(f"{pending}.append({f'({row})' if len(codes) > 1 else row})")
    assert isinstance(append, cst.SimpleStatementLine)
    new: dict[cst.CSTNode, cst.CSTNode] = {n: cst.Name(name) for n, name in names.items()}
    lines = [_with(each.line, new).body[0] for each in later.steps]
    body = "\n".join(f"    {cst.Module(()).code_for_node(each)}" for each in lines)
    replay = f"for {targets} in {pending}:\n{body}"
    edits: list[NodeEdit] = [
        InsertBefore(loop, f"{pending} = []"),
        Replace(later.steps[0].line.body[0], append.body[0]),
        *(Remove(each.line) for each in later.steps[1:]),
    ]
    emptied = f"{replay}\n{pending}.clear()\n"
    match shown:
        case cst.If(body=block):
            edits.append(InsertBefore(block.body[0], emptied))
        case LogLines():
            edits += logged_every(count, shown, before=emptied)
    edits.append(InsertAfter(loop, replay))
    notes = (
        seldom if isinstance(shown, LogLines) else "",
        "" if reaches_line_behind(module, loop) else _LEFT,
        _RAISED if any(each.raises for each in later.steps) else "",
        "" if all(detachable(module, each) for each in tensors) else _SAME,
    )
    assumes = dict.fromkeys((FRAMES, TORCH, LOSSES, MEMORY), _LATER)
    return _safe_unless(notes, edits, "Keep the tensors for after the loop", assumes)


def _names_of_kept(module: Module, later: LaterSteps) -> dict[cst.BaseExpression, str] | None:
    """Return a new name for each expression that is kept, one for those of the same code; None
    where the names are taken."""
    owner = module.tree.owners[later.place.loop]
    taken = {each.value for each in module.within(owner, cst.Name, nested=True)}
    names: dict[cst.BaseExpression, str] = {}
    of_code: dict[tuple[str, bool], str] = {}
    for step in later.steps:
        for node, hint in step.kept:
            code = module.source_of(node), any(node is each.tensor for each in step.reads)
            hints = (hint, f"{step.root.value}_{hint}", f"{step.root.value}_{hint}_2")
            name = of_code.get(code) or next((n for n in hints if n not in taken), None)
            if name is None:
                return None
            taken.add(name)
            names[node] = of_code[code] = name
    return names


def kept_for_later(
    module: Module, read: HostRead, keeper: cst.BaseExpression
) -> cst.BaseExpression:
    """Return what holds the values that a read finds now, for a list that `keeper` fills."""
    kept: cst.BaseExpression = detached(module, read.tensor)
    # What may be no tensor has no clone(): the note `_SAME` says what it has to be.
    anew = fresh_per_iteration if detachable(module, read.tensor) else bound_per_iteration
    lasts = anew(module, read.tensor) or keeps_its_values(module, kept, keeper)
    held = lasts and not _may_be_view(module, read.tensor)
    return kept if held else method_call(kept, "clone")


def _may_be_view(module: Module, tensor: cst.CSTNode | None, depth: int = 3) -> bool:
    """Say whether a tensor may be a part of a larger one, or what a loop takes out of it, and would
    keep all of that in memory."""
    match tensor:
        case cst.Call(func=cst.Attribute(attr=cst.Name(method))):
            return method in _VIEWS
        case cst.Call() | cst.BinaryOperation():
            return False
        case cst.Name() if depth:
            made = definitions_of(module, tensor)
            values = [
                each.target if isinstance(each, cst.AugAssign) else getattr(each, "value", None)
                for each in made
            ]
            return not made or any(_may_be_view(module, each, depth - 1) for each in values)
    return True


def number_of(module: Module, tensor: cst.BaseExpression, kind: str) -> cst.BaseExpression:
    """Return ``float(tensor)`` or ``int(tensor)``, by `kind`; the tensor where it stands in such a
    call already."""
    call = module.taker(tensor)
    if module.called(call) in ("builtins.float", "builtins.int"):
        return tensor
    return cst.Call(cst.Name(kind), [cst.Arg(tensor)])


def numbers_of(
    module: Module, reads: Iterable[cst.Name], changed: Sequence[cst.CSTNode], kind: str
) -> list[Replace | InsertBefore]:
    """Return the edits that make numbers of the reads of a name that holds a tensor: once before
    those of one block, elsewhere each. `changed` are the nodes that change the name."""
    blocks = read_in_blocks(module, reads := list(reads), changed)
    edits: list[Replace | InsertBefore] = []
    for line, held in blocks.items():
        edits.append(InsertBefore(line, f"{held[0].value} = {kind}({held[0].value})"))
    done = [read for held in blocks.values() for read in held]
    single = [read for read in reads if read not in done]
    return edits + [Replace(each, number_of(module, each, kind)) for each in single]


def seldom_as_numbers(
    module: Module, target: cst.Name, uses: NumberUses, kind: str
) -> list[Replace | InsertBefore]:
    """Return the edits by which what reads a name now and then, or behind the loop that binds it to
    a tensor, gets a number. Where each step uses the tensor, the name goes on to hold it."""
    line = first_read_behind(module, target, uses)
    if uses.each_step:
        return [Replace(each, number_of(module, each, kind)) for each in uses.seldom]
    if line is None:
        return numbers_of(module, uses.seldom, [target], kind)
    turn = module.loops(target)[0]
    inside = [each for each in uses.seldom if module.is_within(each, turn)]
    once = InsertBefore(line, f"{target.value} = {kind}({target.value})")
    return [once, *numbers_of(module, inside, [target], kind)]


class _Swap(cst.CSTTransformer):
    """Puts other nodes in the place of some, all at once: a first replacement makes every node
    anew, so that a second one would find none of its own."""

    def __init__(self, replaced: Mapping[cst.CSTNode, cst.CSTNode]) -> None:
        super().__init__()
        self._replaced = replaced

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> Any:
        return self._replaced.get(original_node, updated_node)


def _with(
    line: cst.SimpleStatementLine, replaced: Mapping[cst.CSTNode, cst.CSTNode]
) -> cst.SimpleStatementLine:
    changed = line.visit(_Swap(replaced)) if replaced else line
    assert isinstance(changed, cst.SimpleStatementLine)
    return changed


def _step_counted(loop: cst.For, counter: str) -> tuple[NodeEdit, ...]:
    target = loop.target
    bare = isinstance(target, cst.Tuple) and not target.lpar
    opened, closed = ("(", ")") if bare else ("", "")
    edits: list[NodeEdit] = [Prepend(target, f"{counter}, {opened}")]
    edits += [Append(target, closed)] if closed else []
    return (*edits, Prepend(loop.iter, "enumerate("), Append(loop.iter, ")"))


def brought_to_host(module: Module, found: HostLoop) -> Fix | None:
    """Return the fix that copies to the host, before a loop, the tensors of which the loop reads
    something in each turn; None where a name for a copy is taken."""
    made = _copied_before(module, found)
    if made is None:
        return None
    copied, rewrites = made
    for asked, mask in found.counted:
        renamed = mask.visit(_Rewriter({use: rewrites[use] for use in found.uses}))
        assert isinstance(renamed, cst.BaseExpression)
        number = method_call(method_call(renamed, "sum"), "item")
        rewrites[asked] = partial(_instead, number)
    return _once_before([copied, *nested(module, rewrites)], found.writes)


def elements_on_host(module: Module, found: HostElements) -> Fix | None:
    """Return the fix that copies to the host, before a loop, the tensors of which the loop reads
    elements one by one; what else it does with them stays on the device. None where a name for a
    copy is taken."""
    made = _copied_before(module, found)
    if made is None:
        return None
    copied, rewrites = made
    edits: list[NodeEdit] = [*nested(module, rewrites)]
    if found.iterated is not None:
        edits.append(Replace(found.iterated, method_call(found.iterated, "cpu")))
    else:
        edits.insert(0, copied)
    return _once_before(edits, not found.kept)


def _copied_before(
    module: Module, found: HostLoop | HostElements
) -> tuple[InsertBefore, dict[cst.BaseExpression, Rewrite]] | None:
    """Return the line that copies a loop's tensors to the host, and what then reads the copies."""
    names = {name: f"{name}_cpu" for name in found.tensors}
    if any(new in module.text for new in names.values()):
        return None
    rewrites: dict[cst.BaseExpression, Rewrite] = {}
    for use in found.uses:
        rewrites[use] = lambda node: node.with_changes(value=names[node.value])
    for copy in found.copies:
        rewrites[copy] = lambda node: node.func.value
    right = ", ".join(f"{name}.cpu()" for name in names)
    return InsertBefore(found.loop, f"{', '.join(names.values())} = {right}"), rewrites


def _once_before(edits: Iterable[NodeEdit], written: bool) -> Fix:
    notes = (_AS_BEFORE if written else "",)
    title = "Copy to the host once, before the loop"
    return _safe_unless(notes, edits, title, {FRAMES: _AS_BEFORE, TORCH: PATCHED})


_TOGETHER = "Tensors of different devices would raise; each has one number, by what is known."


def read_at_once(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which a read, and those beside it, are made as one before their lines; None
    where it is alone, or where nothing would be a good name for a number."""
    found = reads_together(module, read.node)
    if found is None:
        return None
    names: dict[str, str] = {}
    for each in found.reads:
        code = module.source_of(each.tensor)
        if code in names:
            continue
        name = _name_of_number(each.tensor)
        same = [other for other in names.values() if other.rstrip(_DIGITS) == name]
        if not name or name in module.text:
            return None
        names[code] = f"{name}_{len(same) + 1}" if same else name
    torch = name_for_module(module, "torch", "torch")
    stacked = f"{torch}.stack(({', '.join(names)})).tolist()"
    edits: list[NodeEdit] = [InsertBefore(found.line, f"{', '.join(names.values())} = {stacked}")]
    edits += [
        Replace(each.node, cst.Name(names[module.source_of(each.tensor)])) for each in found.reads
    ]
    edits.append(NeedImport("torch", torch))
    note, assumes = stacked_safely(module, found.reads)
    return _safe_unless([note], edits, "Read all of them at once", assumes)


def stacked_safely(module: Module, reads: Iterable[HostRead]) -> tuple[str, dict[str, str]]:
    """Return the note of a fix that reads several tensors as one stack, empty where each of them
    certainly has no dimension, and what the fix takes for granted."""
    if not all(has_no_dimension(module, each.tensor) for each in reads):
        return _TOGETHER, {}
    return "", dict.fromkeys((ONE_DEVICE, TORCH), _TOGETHER)


_NEEDED = "Other calls in the step read the device as well: this alone saves next to nothing."
_WAITED = "The step has waited for the device just before: this read waits for nothing more."
LOGGED = "The step waits for what it logs beside it all the same: first log every N steps."
_ALONE = " `{other}` waits for the same work: little is gained by mending one of them alone."
_WHERE_SCALED = (
    " Where its scaler is on, `{other}` waits for the same work: little is gained by mending one "
    "of them alone."
)
IN_VAIN = (_NEEDED, _WAITED, LOGGED)
"""Notes of fixes that are only shown because of another wait."""


def alone(module: Module, other: cst.CSTNode) -> str:
    """Return the sentence on another wait for the same work, which a setting may switch off."""
    off = isinstance(other, cst.Call) and scaler_waits(module, other) is None
    return _WHERE_SCALED if off else _ALONE


def shown_if_in_vain(
    module: Module, node: cst.BaseExpression, tensor: cst.BaseExpression, fix: Fix | None
) -> Fix | None:
    """Return the fix of one read of a tensor, which is only shown where the host needs another read
    right beside it, or shows one there, or where a copy just before has waited for it."""
    if fix is None:
        return None
    if waited_before(module, tensor) is not None:
        return replace(fix, safety=Safety.SUGGESTION, note=_WAITED)
    if stays_beside(module, node) is not None or shown_beside(module, node) is not None:
        return replace(fix, safety=Safety.SUGGESTION, note=_NEEDED)
    return fix


_STEPS_OF_NAMES = 3
_DIGITS = "_0123456789"


def _name_of_number(tensor: cst.BaseExpression) -> str:
    """Return a name for the number that a tensor holds, of the names in it: ``loss_value``,
    ``mean_angles``; empty for none."""
    parts: list[str] = []
    node: cst.CSTNode = tensor
    while len(parts) < _STEPS_OF_NAMES:
        match node:
            case cst.Name(value=name):
                parts.append(name)
                break
            case cst.Attribute(value=cst.Name("self"), attr=cst.Name(value=name)):
                parts.append(name)
                break
            case cst.Attribute(value=inner, attr=cst.Name("data")) | cst.Comparison(left=inner):
                node = inner
            case cst.Call(func=cst.Attribute(value=cst.Name(), attr=method), args=[first]):
                parts.append(method.value)
                node = first.value
            case cst.Call(func=cst.Attribute(value=inner, attr=method), args=[]):
                if method.value != "detach":
                    parts.append(method.value)
                node = inner
            case _:
                return ""
    return f"{parts[0]}_value" if len(parts) == 1 else "_".join(parts)


def _instead(new: cst.BaseExpression, _: cst.BaseExpression) -> cst.BaseExpression:
    return new


def one_sentence(notes: Iterable[str]) -> str:
    """Return one sentence that says what all notes say: the note of a fix that several things make
    unsafe."""
    parts = [note.removesuffix(".") for note in dict.fromkeys(notes) if note]
    return "; ".join([*parts[:1], *map(_inside, parts[1:])]) + "." if parts else ""


def _inside(sentence: str) -> str:
    """Return a sentence as it goes on behind a semicolon: names keep their capitals."""
    first = sentence.partition(" ")[0]
    plain = first[1:].islower() or len(first) == 1
    return sentence[0].lower() + sentence[1:] if plain and first.isalpha() else sentence


Rewrite = Callable[[Any], cst.BaseExpression]
"""From an expression, in which what it holds has been replaced, to what comes in its place."""


def nested(module: Module, rewrites: Mapping[cst.BaseExpression, Rewrite]) -> list[Replace]:
    """Return one edit for each expression that is rewritten and lies in no other one."""
    out: list[Replace] = []
    for node in rewrites:
        if not any(other is not node and module.is_within(node, other) for other in rewrites):
            new = node.visit(_Rewriter(rewrites))
            assert isinstance(new, cst.BaseExpression)
            out.append(Replace(node, new))
    return out


class _Rewriter(cst.CSTTransformer):
    def __init__(self, rewrites: Mapping[cst.BaseExpression, Rewrite]) -> None:
        super().__init__()
        self._rewrites = rewrites

    def on_leave(
        self, original_node: cst.CSTNodeT, updated_node: cst.CSTNodeT
    ) -> cst.CSTNodeT | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNodeT]:
        """Rewrite a node that is to be rewritten, what it holds first."""
        if isinstance(original_node, cst.BaseExpression) and original_node in self._rewrites:
            return self._rewrites[original_node](updated_node)  # type: ignore[return-value]
        return updated_node


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """Return the white space between the last arguments of a call, without a comment there."""
    comma = call.args[-2].comma if len(call.args) > 1 else None
    space = comma.whitespace_after if isinstance(comma, cst.Comma) else None
    if isinstance(space, cst.ParenthesizedWhitespace):
        return space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])
    return cst.SimpleWhitespace(" ")


def _commented(
    space: cst.BaseParenthesizableWhitespace,
) -> TypeGuard[cst.ParenthesizedWhitespace]:
    return isinstance(space, cst.ParenthesizedWhitespace) and space.first_line.comment is not None


def with_keyword(call: cst.Call, name: str, value: cst.BaseExpression) -> cst.Call:
    """Return a call that passes ``name=value``: in the place of that keyword if it is there, else
    behind the rest."""
    args = list(call.args)
    if isinstance(value, cst.NamedExpr) and not value.lpar:
        value = value.with_changes(
            lpar=[cst.LeftParen()], rpar=[cst.RightParen()]
        )  # As in ``.to(dev := x.device)``.
    for index, arg in enumerate(args):
        if arg.keyword is not None and arg.keyword.value == name:
            args[index] = arg.with_changes(value=value)
            return call.with_changes(args=args)
    # Spaced as the last keyword of the call.
    equal = args[-1].equal if args else None
    spaced = isinstance(equal, cst.AssignEqual) and equal.deep_equals(cst.AssignEqual())
    blank = cst.SimpleWhitespace(" " if spaced else "")
    new = cst.Arg(value, cst.Name(name), cst.AssignEqual(blank, blank))
    if args:
        # A trailing comma and the line break behind it stay at the end; arguments on lines of their
        # own get one more line, and a comment behind the last one stays with it.
        last, between = args[-1], _between(call)
        comma, space = last.comma, last.whitespace_after_arg
        end = comma.whitespace_after if isinstance(comma, cst.Comma) else space
        if _commented(end) and isinstance(between, cst.ParenthesizedWhitespace):
            between = between.with_changes(first_line=end.first_line)
            bare = end.with_changes(first_line=cst.TrailingWhitespace())
            if isinstance(comma, cst.Comma):
                comma = comma.with_changes(whitespace_after=bare)
            else:
                space = bare
        args[-1] = last.with_changes(
            comma=cst.Comma(whitespace_after=between),
            whitespace_after_arg=cst.SimpleWhitespace(""),
        )
        new = new.with_changes(comma=comma, whitespace_after_arg=space)
    return call.with_changes(args=[*args, new])


def without_argument(call: cst.Call, arg: cst.Arg) -> cst.Call:
    """Return a call without one of its arguments."""
    args = [each for each in call.args if each is not arg]
    if args and call.args[-1] is arg:
        # What stands behind the last argument, a trailing comma or a line break, stays there.
        args[-1] = args[-1].with_changes(
            comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg
        )
    return call.with_changes(args=args)
