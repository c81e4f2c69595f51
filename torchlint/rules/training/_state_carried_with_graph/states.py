"""Values that one step hands to the next one with their autograd graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.rule import Module, conditions_around, heat_of, inferred
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import DISPLAYS, components, method_called, positional, targets_of
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.iterations import is_reset
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.gradients import hands_graph_on

_WITHOUT_GRAPH = ops.having("cuts") | ops.having("attribute", "fact")
_CHANGING = regex(r"detach|reset|init|clear|repackage|truncate|zero_(?!grad)")

Binding = cst.Assign | cst.AugAssign


@frozen
class Step:
    """One step: the body of a loop, or a function that is one."""

    body: cst.BaseSuite
    loop: cst.For | cst.While | None


@question()
def carried_with_graph(module: Module, backward: cst.Call) -> tuple[cst.BaseExpression, ...]:
    """Return the places (``h``, ``self.memory``) that a step binds to what has a graph, that the
    next step reads, and on which the back-propagated loss depends; empty where a graph may be cut
    on the way."""
    for loop in module.loops(backward):
        found = _States(module, Step(loop.body, loop)).behind(backward)
        if found:
            return found
    function = module.function(backward)
    if function is None or module.loops(backward) or not heat_of(module, backward).train:
        return ()
    return _States(module, Step(function.body, None)).behind(backward)


class _States:
    """What is bound in one step, and by what."""

    def __init__(self, module: Module, step: Step) -> None:
        self.module, self.step = module, step
        self.bound: dict[str, list[tuple[cst.BaseExpression, Binding]]] = {}
        for statement in module.within(step.body, cst.Assign, cst.AugAssign):
            assert isinstance(statement, Binding)
            for whole in targets_of(statement):
                for target in components(whole, *DISPLAYS):
                    name = dotted_text(target)
                    if name is not None:
                        self.bound.setdefault(name, []).append((target, statement))

    def behind(self, backward: cst.Call) -> tuple[cst.BaseExpression, ...]:
        """Return the carried states on which the loss of a backward pass depends, and themselves
        depend on what they were."""
        roots = positional(backward)
        if isinstance(backward.func, cst.Attribute):
            roots.append(backward.func.value)
        reads = self._reads_behind(roots)
        return tuple(
            self.bound[name][-1][0]
            for name in reads
            if self._is_carried(name, reads[name])
            and self._depends_on_itself(name)
            and not self._is_changed_apart(name)
        )

    def _depends_on_itself(self, name: str) -> bool:
        values = [part for _, statement in self.bound[name] for part in _operands(statement)]
        return bool(self._reads_behind(values).get(name))

    def _reads_behind(self, roots: list[cst.BaseExpression]) -> dict[str, list[cst.CSTNode]]:
        """Return the reads, by what is read, that may bring a graph into these expressions."""
        found: dict[str, list[cst.CSTNode]] = {}
        todo = list(roots)
        while todo:
            for place in self._with_graph(todo.pop()):
                name = dotted_text(place) or ""
                if name not in found and name in self.bound:
                    todo.extend(
                        part
                        for target, statement in self.bound[name]
                        if self._has_graph(target)
                        for part in _operands(statement)
                    )
                if name in self.bound:
                    found.setdefault(name, []).append(place)
        return found

    def _with_graph(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """Yield the names and attributes in an expression whose graph comes into its value."""
        match node:
            case cst.Lambda() | cst.Comparison() | cst.BaseComp():
                return
            case cst.Attribute(attr=cst.Name(attr)) if attr in _WITHOUT_GRAPH:
                return
            case cst.Name() | cst.Attribute() if dotted_text(node) is not None:
                yield node
            case cst.Call(func, args):
                if hands_graph_on(self.module, node):
                    if isinstance(func, cst.Attribute):
                        yield from self._with_graph(func.value)
                    for arg in args:
                        yield from self._with_graph(arg.value)
            case cst.Subscript(value):
                yield from self._with_graph(value)
            case _:
                for child in node.children:
                    yield from self._with_graph(child)

    def _has_graph(self, target: cst.BaseExpression) -> bool:
        value = inferred(self.module, target)
        if no_grad(self.module, target) is not False:
            return False
        parts = (value, value.item, *(value.items or ()))
        return any(each is not None and each.grad is True for each in parts)

    def _is_carried(self, name: str, reads: list[cst.CSTNode]) -> bool:
        """Say whether a read of a place finds what the step before has bound, always with a
        graph."""
        bound = self.bound[name]
        always = all(self._has_graph(t) or self._is_first(name, s) for t, s in bound)
        if not always or not any(self._has_graph(target) for target, _ in bound):
            return False
        loop = self.step.loop
        if loop is None:
            return "." in name and self._only_here(name, reads)
        if "." not in name and len(writes_of(self.module, loop, name)) != len(bound):
            return False
        return any(not is_reset(self.module, loop, read, read) for read in reads)

    def _is_first(self, name: str, statement: Binding) -> bool:
        """Say whether a statement binds a place only where it is still None."""
        return any(
            isinstance(test, cst.Comparison)
            and dotted_text(test.left) == name
            and isinstance(test.comparisons[0].operator, cst.Is)
            for test, needed in conditions_around(self.module, statement, self.step.loop)
            if needed
        )

    def _only_here(self, name: str, reads: list[cst.CSTNode]) -> bool:
        """Say whether a function reads an attribute before it binds it, and no other function of
        the class does that as often."""
        module = self.module
        first = min(module.tree.end(statement) for _, statement in self.bound[name])
        cls = module.class_of(self.step.body)
        others = module.within(cls, cst.Attribute, nested=True) if cls is not None else ()
        return any(module.tree.order[read] < first for read in reads) and not any(
            isinstance(module.parent(other), cst.AssignTarget)
            and dotted_text(other) == name
            and not module.is_within(other, self.step.body)
            and heat_of(module, other).hot
            for other in others
        )

    def _is_changed_apart(self, name: str) -> bool:
        """Say whether the step has a call that may cut the graph of a state in place."""
        root = name.partition(".")[0]
        for call in self.module.within(self.step.body, cst.Call):
            method = method_called(call)
            if method == "detach_" or (
                isinstance(self.module.parent(call), cst.Expr)
                and _CHANGING.search(dotted_text(call.func) or "")
                and root in self.module.names_in(call)
            ):
                return True
        return False


def _operands(statement: Binding) -> Iterator[cst.BaseExpression]:
    yield statement.value
    if isinstance(statement, cst.AugAssign):
        yield statement.target
