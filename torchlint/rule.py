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
- ``@rule.on(cst.For)``: nodes of these types; ``about=`` is a cheap test of them, ``calls=``,
  ``file=`` and ``where=`` leave out calls, files and nodes of which there is nothing to find.

``runs=``, in ``Rule(...)`` for all checks or in a decorator for one, says how often a place has
to run; for all but ``"anywhere"`` the hits say by themselves why it is hot. Places in benchmark
code (but for ``benchmarks=True``) and on the way to an exception are left out. All this holds for
the node that a check is asked about and for the place that its hit points at.

The parent process reads a rule file with `ast` and never imports it, so every argument of
``Rule(...)`` is a literal.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, TypeVar

import libcst as cst

from torchlint.base.declaration import Declaration
from torchlint.base.finding import Safety, Severity
from torchlint.base.records import dataclass, frozen
from torchlint.base.waits import policy_of
from torchlint.fixes.deletion import deletion
from torchlint.fixes.expressions import Rewrite, nested, with_keyword, without_argument
from torchlint.fixes.fix import (
    Append,
    Fix,
    InFile,
    InsertAfter,
    InsertBefore,
    NeedImport,
    NodeEdit,
    Prepend,
    Remove,
    Replace,
)
from torchlint.fixes.notes import one_sentence
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.failures import fails_before
from torchlint.semantic.code.names import CallNames
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, method_called
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.device.transfers import Transfer
from torchlint.semantic.device.value_sized import gathers
from torchlint.semantic.module import Module
from torchlint.semantic.time.entry_points import broken_import, uncalled
from torchlint.semantic.time.grades import COLD, Grade, Heat, Why
from torchlint.semantic.time.heat import heat_of, hot_nodes, may_be_hot, not_used
from torchlint.semantic.time.once import while_constructing
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.lasting_waits import wait_that_stays
from torchlint.semantic.uses.many_runs import beside_many_waits
from torchlint.semantic.values.accelerator import kept_on_cpu
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
    "Wait",
    "arguments_of",
    "conditions_around",
    "deletion",
    "heat_of",
    "inferred",
    "keyword_argument",
    "nested",
    "on_device",
    "one_sentence",
    "wait_for",
    "with_keyword",
    "without_argument",
]

_SAME_VALUE = (
    ops.having("method", "same") | ops.having("method", "move") | ops.having("method", "reads")
)
_STAYS = "`{beside}` waits for the device as well, whatever becomes of this."
_ENOUGH: Mapping[str, Callable[[Heat], bool]] = {
    "once": lambda heat: True,
    "sample": lambda heat: heat.grade >= Grade.SAMPLE,
    "hot": lambda heat: heat.hot,
    "batch": lambda heat: heat.grade >= Grade.EVAL,
    "step": lambda heat: heat.step,
    "train": lambda heat: heat.train,
}
_UNBOUNDED = ("anywhere", "once", "sample")
"""What `may_be_hot` says nothing of: it knows steps alone."""


@frozen
class Wait:
    """The cause of a read: a statement waits for the device until a value is there.

    A statement that waits twice is no faster with one of the waits: fixes of its reads are applied
    where each of them has one, or is fixed by another's.

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
            case cst.Call(cst.Attribute(inner, cst.Name(name)), []) if name in _SAME_VALUE:
                value = inner
            case cst.Attribute(inner, cst.Name("data")) | cst.Call(
                cst.Name("float" | "int"), [cst.Arg(inner)]
            ):
                value = inner
            case _:
                break
    statement = module.small_statement(tensor) or module.statement(tensor)
    scopes = (a for a in module.ancestors(tensor) if isinstance(a, (*COMPREHENSIONS, cst.Lambda)))
    scope = next(scopes, statement)
    if not module.is_within(scope, statement):
        scope = statement
    called = module.contains(value, cst.Call, cst.NamedExpr, nested=True)
    return Wait(statement, scope, value if called else module.source_of(value))


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
        named: whether other waits of the step name this one as what has to go as well; not where
            what is found stays in any case, however well it is done.
    """

    node: cst.CSTNode
    args: Mapping[str, str] = field(default_factory=dict)
    fix: Fix | None = None
    severity: Severity | None = None
    message: str | None = None
    why_hot: tuple[Why, ...] = ()
    cause: Wait | cst.CSTNode | None = None
    named: bool = True


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
        where: a test of a node, without which it is none, see `Rule.on`.
        declared: what the rule declares of all its hits.
    """

    check: Check
    about: Callable[[Module, Any], object] | None
    runs: str
    benchmarks: bool
    calls: CallNames
    file: Callable[[Module], object] | None
    where: Callable[[Module, Any], object] | None
    declared: Declaration

    def __call__(self, node: cst.CSTNode, module: Module) -> Iterator[Hit]:
        """Yield the hits of one of its `nodes`, most of which it is not about."""
        if self.about is None or (
            self.about(module, node) and self.may_run(module, node) and self.counts(module, node)
        ):
            for hit in self.check(node, module):
                yield from self.kept(module, node, hit)

    def nodes(self, module: Module, kind: type[cst.CSTNode]) -> Sequence[cst.CSTNode]:
        """Return the nodes of a type that the check may say something of, by what is worked out
        once for all checks."""
        found = self._reached(module, kind) if self.in_file(module) else ()
        return found if self.where is None else [one for one in found if self.where(module, one)]

    def in_file(self, module: Module) -> bool:
        """Say whether a file has what the check is about."""
        return self.file is None or bool(self.file(module))

    def _reached(self, module: Module, kind: type[cst.CSTNode]) -> Sequence[cst.CSTNode]:
        """Return the nodes of a type by what is called and by how often they may run."""
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
            if graded is None:
                return
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
        where: Callable[[Module, Any], object] | None = None,
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
            where: a cheap bound of what it asks of a node, without which it says nothing.
        """
        often = runs or self.runs

        def mark(check: C) -> C:
            marked = Mark(check, about, often, benchmarks, calls, file, where, self)
            self.checks.extend((node_type, marked) for node_type in node_types)
            return check

        return mark


def _means(module: Module, func: cst.BaseExpression, wanted: Collection[str]) -> bool:
    """Say whether a callee has one of these dotted names, and is no definition of the project,
    which may have a package that is called as a library."""
    name = module.name(func)
    return name in wanted and module.outside.find(name) is None


def _graded(module: Module, hit: Hit, declared: Declaration) -> Hit | None:
    """Return a hit with its severity: what costs only where somebody turns on an option that is off
    by default, or uses what nothing uses here, is a hint, and so are all in a file that cannot be
    imported, and a wait or a copy beside another that stays; beside many such a hint is none, and
    neither is any on the CPU."""
    severity = hit.severity or Severity(declared.severity)
    node = hit.node.body if isinstance(hit.node, LOOPS) else hit.node
    if severity is Severity.WARNING and (
        heat_of(module, node).optional or bool(not_used(module, node))
    ):
        severity = Severity.INFO
    policy = policy_of(declared.effect, waits=isinstance(hit.cause, Wait))
    if policy.named and kept_on_cpu(module, node) is not None:
        return None
    waits = declared.effect != "copy" or heat_of(module, node).grade is not Grade.EVAL
    hint = policy.hint and severity is Severity.INFO
    if hint and beside_many_waits(module, node, waits=waits) is not None:
        return None
    row = policy.hint_as_row and inferred(module, hit.node).rank in (0, 1)
    if severity is Severity.WARNING and (policy.hint or row):
        other = beside_many_waits(module, node) or _waits_all_the_same(module, node)
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
    if runs != "anywhere" and (uncalled(module, node) or while_constructing(module, node)):
        return None
    return heat if fails_before(module, node) is None else None
