"""Runs one function over abstract values: statements, branches and loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import libcst as cst

from torchlint.semantic.code.calls import literal_key
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.torch.spelling import LENGTHS, LOADER, META, called
from torchlint.semantic.values import evidence
from torchlint.semantic.values.expressions import Expressions
from torchlint.semantic.values.steps import Met, Step
from torchlint.semantic.values.tensor_types import chosen
from torchlint.semantic.values.value import (
    CPU,
    NONE,
    UNKNOWN,
    Keyed,
    Value,
    join,
    join_all,
    mix,
    truth,
)

if TYPE_CHECKING:
    from torchlint.semantic.values.facts import Values

Env = dict[str, Value]
_MOST_KEYS = 64
_FILLED = ("batch", "?")
"""Mappings of which nothing more is known than what the code at hand puts under a key."""
_ENTERED = ("loader", "iterator", "plain")
"""What a ``with`` gives under its name as it is."""


class Interpreter(Expressions):
    """Abstract interpretation of one function body (or of the module's top level).

    Branches join, loops run to a fixed point (their body twice), and a branch that leaves does not
    join. The value recorded for an expression is that of its last, joined visit.
    """

    def __init__(self, values: Values, owner: cst.CSTNode, budget: int) -> None:
        super().__init__(values, owner, budget)
        self.known: dict[cst.CSTNode, Value] = {}
        """The values of the expressions of all steps so far."""
        self.returns: list[Value] = []
        self._quick = False

    @property
    def begun(self) -> bool:
        """Whether anything is recorded."""
        return bool(self.known or self.recorded)

    def value_of(self, node: cst.CSTNode) -> Value:
        """Return what is recorded for an expression."""
        found = self.recorded if node in self.recorded else self.known
        return found.get(node, UNKNOWN)

    def run(self, env: Env) -> None:
        """Interpret the owner's body from `env`."""
        self.env = env
        body = self.owner.body if isinstance(self.owner, (cst.FunctionDef, cst.Module)) else None
        if isinstance(body, cst.BaseSuite):
            self.suite(body)
        elif body is not None:
            for statement in body:
                if type(statement) in _STATEMENTS:
                    _STATEMENTS[type(statement)](self, statement)

    def suite(self, suite: cst.BaseSuite | cst.SimpleStatementLine) -> bool:
        """Interpret a block or a line; return whether control always leaves it (return, raise,
        continue, break)."""
        for line in suite.body:
            # Most statements stand on a line of their own, which is no call more.
            for statement in line.body if type(line) is cst.SimpleStatementLine else (line,):
                kind = type(statement)
                if kind in _SIMPLE:
                    self._step(statement)
                elif kind in _STATEMENTS and _STATEMENTS[kind](self, statement):
                    return True
        return False

    def _step(self, node: cst.CSTNode) -> Value:
        """Evaluate a simple statement or an expression of a header, or repeat what it came to with
        the same values."""
        values, budget = self.values, self.budget
        step = values.steps.get(node)
        if step is None:
            step = values.steps[node] = Step(node)
        before = list(map(self.env.get, step.names))
        for met in step.met:
            if (met.least == budget if met.short else met.least <= budget) and met.before == before:
                self.known.update(met.recorded)
                self.env.update(met.bound)
                if met.short:
                    values.starve()
                return met.value
        asked, starved, unfinished = values.asked, values.starved, values.unfinished
        self.recorded, self.plain, self.at = {}, True, node
        value = _SIMPLE.get(type(node), Interpreter.eval)(self, node)
        self.known.update(self.recorded)
        if self.plain and values.unfinished == unfinished:
            least = budget if values.asked != asked else 0
            short = values.starved != starved
            env = self.env
            bound = {name: env[name] for name in step.targets}
            for name, old, new in zip(step.names, before, map(env.get, step.names), strict=True):
                if new is not old:
                    bound[name] = env[name]
            step.met.append(Met(before, least, short, value, self.recorded, bound))
        return value

    def _receive(self, target: cst.CSTNode, value: Value) -> None:
        """Bind the target of a compound statement."""
        self.recorded = {}
        self.bind(target, value)
        self.known.update(self.recorded)

    def _assign(self, node: cst.Assign) -> Value:
        value = self.eval(node.value)
        for target in node.targets:
            self.bind(target.target, value)
        return value

    def _ann_assign(self, node: cst.AnnAssign) -> Value:
        value = self.eval(node.value) if node.value is not None else UNKNOWN
        declared = self.values.annotation(node.annotation.annotation)
        self.bind(
            node.target, declared if value.kind in ("?", "none") and declared.kind != "?" else value
        )
        return value

    def _aug_assign(self, node: cst.AugAssign) -> Value:
        old = self.eval(node.target)
        value = self.eval(node.value)
        new = mix([old, value]) if old.tensor or value.tensor else join(old, value)
        if value.tensor and not old.tensor and old.kind not in ("number", "accumulated", "?"):
            new = UNKNOWN
        self.recorded[node] = new
        self.bind(node.target, new)
        return new

    def bind(self, target: cst.CSTNode, value: Value) -> None:
        """Bind an assignment target to a value, unpacking tuples."""
        if type(target) is cst.Name:
            if target.value == "batch_sizes" and value.tensor:
                value = value.but(device=CPU)  # A PackedSequence keeps them on the host.
            if value.origin == "batch" and called(target.value, LOADER):
                value = evidence.by_name(
                    target.value
                )  # ``for loader in val_loaders``: not a batch, but a loader.
            if value.origin == "batch" and called(target.value, META):
                value = UNKNOWN
            self.env[target.value] = value
            self.recorded[target] = value
        elif type(target) is cst.Attribute:
            self.eval(target.value)
            self.recorded[target] = value
            text = dotted_text(target)
            if text is not None:
                self.env[text] = value
        elif isinstance(target, (cst.Tuple, cst.List)):
            self._unpack(target, value)
        elif isinstance(target, cst.StarredElement):
            self.bind(target.value, Value("list", item=value))
        elif isinstance(target, cst.Subscript):
            self._store(target, value)

    def _unpack(self, target: cst.Tuple | cst.List, value: Value) -> None:
        elements = target.elements
        items = _spread(elements, value.items) if value.items is not None else ()
        for index, element in enumerate(elements):
            part = items[index] if items else self._any_of(value)
            if value.tensor and isinstance(element.value, cst.Name):
                # A network gives several things, of which these may be numbers in a list.
                part = UNKNOWN if called(element.value.value, LENGTHS) else part
            self.bind(element if isinstance(element, cst.StarredElement) else element.value, part)

    def _any_of(self, value: Value) -> Value:
        found = self.element(value)
        return (
            UNKNOWN if found.kind == "accumulated" else found
        )  # Some of the parts are numbers, some are tensors.

    def _store(self, target: cst.Subscript, value: Value) -> None:
        holder = self.eval(target.value)
        for item in target.slice:
            self.eval(item.slice)
        text = dotted_text(target.value)
        key = literal_key(target)
        if text is not None and key is not None and holder.kind in _FILLED:
            self.env[text] = holder.but(keyed=_keyed_with(holder.keyed or (), key, value))
        elif text is not None and holder.kind in ("list", "dict"):
            old = holder.item
            kept = value if old is None else join(old, value)
            if kept.kind == "accumulated" and holder.kind == "dict":
                kept = UNKNOWN  # Some of its keys hold numbers, some tensors.
            self.env[text] = holder.but(
                item=kept,
                items=None,
                keyed=_keyed_with(holder.keyed, key, value),
            )
        elif holder.tensor:
            self.written(target.value, holder, value)

    def _if(self, node: cst.If) -> bool:
        decided = truth(self._step(node.test))
        if decided is not None:
            taken = node if decided else node.orelse
            if not decided and isinstance(taken, cst.If):
                return self._if(taken)
            return taken is not None and self.suite(taken.body)
        before = dict(self.env)
        known = self.narrow(node.test, True)
        left = self.suite(node.body)
        self.restore(known)
        after, self.env = self.env, before
        other = False
        known = self.narrow(node.test, False)
        if isinstance(node.orelse, cst.If):
            other = self._if(node.orelse)
        elif isinstance(node.orelse, cst.Else):
            other = self.suite(node.orelse.body)
        if left and not other:
            return False  # What the test says holds from here on.
        # What the branch binds anew is here what the test leaves of it.
        self.restore({text: each for text, each in known.items() if after.get(text) is each[0]})
        if other and not left:
            self.env = after
            return False
        self.env = _join_env(after, self.env, node.test)
        return left and other

    def _for_loop(self, node: cst.For) -> None:
        iterated = self._step(node.iter)
        self._loop(node, self.element(iterated))

    def _while(self, node: cst.While) -> None:
        self._loop(node, None)

    def _loop(self, node: cst.For | cst.While, element: Value | None) -> None:
        before = dict(self.env)
        outer_quick = self._quick
        for last in (True,) if outer_quick else (False, True):
            self._quick = outer_quick or not last
            if isinstance(node, cst.While):
                self._step(node.test)
            elif element is not None:
                self._receive(node.target, element)
            self.suite(node.body)
            self.env = _join_env(before, self.env)
        self._quick = outer_quick
        if node.orelse is not None:
            self.suite(node.orelse.body)

    def _with_block(self, node: cst.With) -> bool:
        for item in node.items:
            value = self._step(item.item)
            if item.asname is not None:
                self._receive(item.asname.name, value if value.kind in _ENTERED else UNKNOWN)
        return self.suite(node.body)

    def _try(self, node: cst.Try) -> bool:
        before = dict(self.env)
        leaves = self.suite(node.body)
        if node.orelse is not None:
            leaves = self.suite(node.orelse.body) or leaves
        results = [] if leaves else [self.env]
        for handler in node.handlers:
            self.env = _join_env(before, dict(results[0] if results else before))
            if not self.suite(handler.body):
                results.append(self.env)
        self.env = results[0] if results else before
        for other in results[1:]:
            self.env = _join_env(self.env, other)
        if node.finalbody is not None:
            self.suite(node.finalbody.body)
        return not results

    def _return(self, node: cst.Return) -> bool:
        self.returns.append(self._step(node.value) if node.value is not None else NONE)
        return True

    def _leave(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Raise) and node.exc is not None:
            self._step(node.exc)
        return True

    def _expr(self, node: cst.Expr) -> Value:
        return self.eval(node.value)

    def _assert(self, node: cst.Assert) -> Value:
        value = self.eval(node.test)
        if node.msg is not None:
            self.eval(node.msg)
        return value

    def _import(self, node: cst.Import | cst.ImportFrom) -> None:
        for name in self.values.names.bound_by_import(node, list(self.env)):
            self.env[name] = UNKNOWN

    def _function(self, node: cst.FunctionDef) -> None:
        self.env[node.name.value] = Value("function", node=node)
        for decorator in node.decorators:
            self._step(decorator.decorator)

    def _class(self, node: cst.ClassDef) -> None:
        outer = dict(self.env)
        self.suite(node.body)
        self.env = outer
        self.env[node.name.value] = Value("class", node=node)

    def _match(self, node: cst.Match) -> None:
        self._step(node.subject)
        before = dict(self.env)
        result = before
        for case in node.cases:
            self.env = dict(before)
            if not self.suite(case.body):
                result = _join_env(result, self.env)
        self.env = result

    def result(self) -> Value:
        """Return what a call of the function gives."""
        if self.yields:
            return Value("iterator", item=join_all(self.yields))
        return join_all(self.returns) if self.returns else NONE


def _keyed_with(keyed: Keyed | None, key: str | None, value: Value) -> Keyed | None:
    """Return what a dict holds by its keys when one more is stored; None for a key that is not
    known."""
    if keyed is None or key is None or len(keyed) > _MOST_KEYS:
        return None
    return tuple(sorted({**dict(keyed), key: value}.items(), key=lambda pair: pair[0]))


def _join_env(a: Env, b: Env, test: cst.BaseExpression | None = None) -> Env:
    """Return what is known after one of two ways, which a test chose."""
    if a is b:
        return a
    out = {**a, **b}  # Bound on one path only: a use that runs at all sees this value.
    for name, left in a.items():
        if name in b and left is not b[name]:
            right = b[name]
            out[name] = join(left, right) if test is None else chosen(test, left, right)
    return out


_STATEMENTS: dict[type, Callable[[Any, Any], bool | None]] = {
    cst.SimpleStatementLine: Interpreter.suite,
    cst.SimpleStatementSuite: Interpreter.suite,
    cst.If: Interpreter._if,
    cst.For: Interpreter._for_loop,
    cst.While: Interpreter._while,
    cst.With: Interpreter._with_block,
    cst.Try: Interpreter._try,
    cst.TryStar: Interpreter._try,
    cst.Return: Interpreter._return,
    cst.Raise: Interpreter._leave,
    cst.Continue: Interpreter._leave,
    cst.Break: Interpreter._leave,
    cst.Import: Interpreter._import,
    cst.ImportFrom: Interpreter._import,
    cst.FunctionDef: Interpreter._function,
    cst.ClassDef: Interpreter._class,
    cst.Match: Interpreter._match,
}
_SIMPLE: dict[type, Callable[[Any, Any], Value]] = {
    cst.Assign: Interpreter._assign,
    cst.AnnAssign: Interpreter._ann_assign,
    cst.AugAssign: Interpreter._aug_assign,
    cst.Expr: Interpreter._expr,
    cst.Assert: Interpreter._assert,
}


def _spread(elements: Sequence[cst.BaseElement], items: tuple[Value, ...]) -> tuple[Value, ...]:
    """Return what each of some targets is given of a tuple, a starred one any of what is left;
    nothing where they are not as many."""
    starred = [isinstance(each, cst.StarredElement) for each in elements]
    if True not in starred:
        return items if len(items) == len(elements) else ()
    before, behind = starred.index(True), len(items) - starred[::-1].index(True)
    if behind < before:
        return ()
    return (*items[:before], join_all(list(items[before:behind])), *items[behind:])
