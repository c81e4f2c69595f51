"""What a loop goes over, how many iterations it has, and what one iteration hands to the next."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.conditions import always_leaves
from torchlint.semantic.code.flow import call_sites, flow
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    DISPLAYS,
    Loop,
    is_name,
    parameters_of,
    root_of,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.parts import PARAM_GROUP

_WRAPPERS = (
    "builtins.enumerate",
    "builtins.reversed",
    "builtins.list",
    "builtins.tuple",
    "builtins.sorted",
)
_STRUCTURE = regex(
    r"(^|_)(layers?|blocks?|stages?|heads?|convs?|levels?|scales?|modules?|branch(es)?|paths|stacks?|cells?|hops?|"
    r"decoders?|encoders?|resnets?|attns?|attentions?|mlps?|downs?|ups?|strides|dilations"
    r"|augmentations?)$"
)


@frozen
class LoopSource:
    """One thing that a loop goes over: the target bound to each element, and what is iterated."""

    target: cst.CSTNode
    iterated: cst.BaseExpression


class Iterations:
    """Questions about the iterations of loops and comprehensions of one file."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.tree = module.tree
        self.names = module.names
        self.flow = flow(module)
        self.values = values(module)

    # -- what is iterated --------------------------------------------------------------------------

    def over(self, loop: cst.For | cst.CompFor) -> list[LoopSource]:
        """Return what a loop goes over, seen through ``enumerate``, ``zip`` and the like."""
        return list(self._sources(loop.target, loop.iter))

    def _sources(self, target: cst.CSTNode, iterated: cst.BaseExpression) -> Iterator[LoopSource]:
        if isinstance(iterated, cst.Call) and iterated.args:
            name = self.names.name(iterated.func)
            parts = [e.value for e in target.elements] if isinstance(target, DISPLAYS) else []
            if name == "builtins.zip" and len(parts) == len(iterated.args):
                for part, arg in zip(parts, iterated.args, strict=True):
                    yield from self._sources(part, arg.value)
                return
            if name == "builtins.zip" and isinstance(target, cst.Name):
                for arg in iterated.args:  # ``for pair in zip(x, y)``: it holds one of each.
                    yield from self._sources(target, arg.value)
                return
            if name == "builtins.enumerate" and len(parts) == 2:
                yield from self._sources(parts[1], iterated.args[0].value)
                return
            if name in _WRAPPERS or (name or "").partition(".")[0] == "tqdm":
                yield from self._sources(target, iterated.args[0].value)
                return
        yield LoopSource(target, iterated)

    def count(self, loop: Loop | cst.CompFor) -> int | None:
        """Return the number of iterations where the source says it in literals, else None."""
        if isinstance(loop, cst.While):
            return None
        found = [n for goes in self.over(loop) if (n := self._length(goes.iterated, 3)) is not None]
        return min(found) if found else None

    def _length(self, node: cst.BaseExpression, depth: int) -> int | None:
        if isinstance(node, DISPLAYS):
            # What begins empty grows before a loop goes over it.
            starred = any(isinstance(e, cst.StarredElement) for e in node.elements)
            return None if starred else len(node.elements) or None
        if isinstance(node, cst.Call) and self.names.name(node.func) == "builtins.range":
            numbers = [self.number(arg.value) for arg in node.args]
            known = [n for n in numbers if n is not None]
            return (
                len(range(*known))
                if known and len(known) == len(numbers) and 0 not in known[2:]
                else None
            )
        if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
            part = node.slice[0].slice
            upper = self.number(part.upper) if part.upper is not None else None
            lower = self.number(part.lower) if part.lower is not None else None
            if upper is not None and upper >= 0:
                return max(upper - max(lower or 0, 0), 0)
            return -lower if lower is not None and lower < 0 and part.upper is None else None
        definition = self.names.sole_definition(node) if depth else None
        return self._length(definition, depth - 1) if definition is not None else None

    def most(self, loop: Loop | cst.CompFor) -> int | None:
        """Return the number of iterations that a loop has at most, as far as the source writes down
        what it goes over, in the default of a parameter too; else None."""
        if isinstance(loop, cst.While):
            return None
        found = [self._most(goes.iterated, 3) for goes in self.over(loop)]
        return min((n for n in found if n), default=None)

    def _most(self, node: cst.BaseExpression, depth: int) -> int | None:
        if is_name(node, "None"):
            return 0
        length = self._length(node, depth)
        if length is not None or not depth:
            return length
        parts: list[cst.BaseExpression | None] = [None]
        match node:
            case cst.ListComp(part, each) | cst.GeneratorExp(part, each) if (
                each.inner_for_in is None and part.deep_equals(each.target)
            ):
                parts = [each.iter]  # A choice of these; others may be made up to try something.
            case cst.Call(args=[cst.Arg(value), *_]) if self.names.name(node.func) in _WRAPPERS:
                parts = [value]
            case cst.IfExp(body=one, orelse=other) | cst.BooleanOperation(one, right=other):
                parts = [one, other]
            case cst.Name(name):
                made = definitions_of(self.module, node)
                parts = [part for each in made for part in self._given(each, name)] or parts
        found = [None if part is None else self._most(part, depth - 1) for part in parts]
        return None if None in found else max(n for n in found if n is not None)

    def _given(self, definition: cst.CSTNode, name: str) -> Iterator[cst.BaseExpression | None]:
        """Yield what a name is given: by an assignment, or as a parameter, by its default and by
        the calls in the file."""
        match definition:
            case cst.Assign([cst.AssignTarget(cst.Name())], value):
                yield value
            case cst.FunctionDef():
                yield next(
                    (p.default for p in parameters_of(definition) if p.name.value == name), None
                )
                for site in call_sites(self.module, definition):
                    given = self.module.bind(definition, site)
                    if name in given:
                        yield given[name]
            case _:
                yield None

    def number(self, node: cst.CSTNode | None, depth: int = 2) -> int | None:
        """Return the whole number that an expression spells, also through one assignment."""
        if isinstance(node, cst.Integer):
            return node.evaluated_value
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
            found = self.number(node.expression)
            return -found if found is not None else None
        definition = self.names.sole_definition(node) if depth else None
        return self.number(definition, depth - 1) if definition is not None else None

    def structural(self, loop: Loop | cst.CompFor) -> bool:
        """Say whether a loop goes over parts of a network (layers, heads, scales, parameters), not
        over data."""
        if isinstance(loop, cst.While):
            return False
        targets = self.tree.names_in(*(goes.target for goes in self.over(loop)))
        holder = self.tree.parents[loop] if isinstance(loop, cst.CompFor) else loop
        for call in self.tree.within(holder, cst.Call):
            if self._callee_root(call) in targets:
                return True
        return any(self._is_structure(goes.iterated) for goes in self.over(loop))

    def _callee_root(self, call: cst.Call) -> str | None:
        # ``layer(x)`` and ``self.layers[i](x)``: the loop's target is called, or picks what is
        # called.
        func = call.func
        if isinstance(func, cst.Subscript):
            index = func.slice[0].slice
            return dotted_text(index.value) if isinstance(index, cst.Index) else None
        return func.value if isinstance(func, cst.Name) else None

    def _is_structure(self, node: cst.BaseExpression) -> bool:
        value = self.values.value(node)
        if value.kind == "module" or (
            value.item is not None and value.item.kind in ("module", "optimizer")
        ):
            return True
        if value.item is not None and (
            value.item.origin == "param" or value.item.name == PARAM_GROUP
        ):
            return True
        words = self._words(node)
        if (
            isinstance(node, cst.Call)
            and len(node.args) == 3
            and self.names.name(node.func) == "builtins.range"
        ):
            # ``range(hop, end, hop)`` goes over positions, so many apart: of no network.
            words -= self._words(node.args[2].value)
        return any(_STRUCTURE.search(word) for word in words)

    def _words(self, node: cst.CSTNode) -> set[str]:
        return {
            part.value if isinstance(part, cst.Name) else part.attr.value
            for part in self.tree.within(node, cst.Name, cst.Attribute)
            if isinstance(part, (cst.Name, cst.Attribute))
        }

    # -- what is handed on -------------------------------------------------------------------------

    def reset(self, loop: Loop, place: cst.CSTNode, at: cst.CSTNode) -> bool:
        """Say whether every iteration binds a place (``x``, ``self.x``, ``d[k]``) anew before it
        comes to `at`."""
        root = root_of(place, cst.Attribute, cst.Subscript)
        name = root.value if isinstance(root, cst.Name) else ""
        if isinstance(loop, cst.For) and name in self.tree.names_in(loop.target):
            return True
        writes: list[cst.CSTNode] = [*self.flow.writes(loop.body, name)]
        if not isinstance(place, cst.Name):
            writes += [
                w
                for w in self.same(loop.body, place)
                if isinstance(self.tree.parents.get(w), cst.AssignTarget)
            ]
        fresh = [w for w in writes if not self._reads_itself(w)]
        child = at
        for above in self.tree.ancestors(at):
            if isinstance(above, (cst.For, cst.CompFor)) and any(
                self.tree.is_within(w, above.target) for w in fresh
            ):
                return True
            for part in above.body if isinstance(above, cst.IndentedBlock) else ():
                if part is child:
                    break
                if self._binds(part, fresh):
                    return True
            if above is loop:
                return False
            child = above
        return False

    def _binds(self, statement: cst.CSTNode | None, writes: list[cst.CSTNode]) -> bool:
        """Say whether a statement makes one of the writes whenever it runs to its end."""
        if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            return any(
                self.tree.is_within(w, statement)
                and not any(isinstance(above, cst.CompFor) for above in self.tree.ancestors(w))
                for w in writes
            )
        if isinstance(statement, cst.If):
            other = (
                statement.orelse.body
                if isinstance(statement.orelse, cst.Else)
                else statement.orelse
            )
            return (
                other is not None
                and self._binds(statement.body, writes)
                and self._binds(other, writes)
            )
        if isinstance(statement, cst.IndentedBlock):
            return any(self._binds(part, writes) or always_leaves(part) for part in statement.body)
        return isinstance(statement, cst.With) and self._binds(statement.body, writes)

    def same(self, scope: cst.CSTNode, place: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the expressions inside `scope` that are spelled like a name, attribute or
        subscript."""
        if isinstance(place, cst.Name):
            return [*self.flow.names_in(scope, place.value)]
        return [
            n for n in self.tree.within(scope, type(place)) if n is place or n.deep_equals(place)
        ]

    def _reads_itself(self, write: cst.CSTNode) -> bool:
        statement = self.tree.small_statement(write)
        if isinstance(statement, cst.AugAssign):
            return True
        return isinstance(statement, cst.Assign) and bool(self.same(statement.value, write))

    def carried(self, loop: Loop) -> list[cst.Name]:
        """Return the reads in a loop's body of names that the body binds and may find from an
        earlier iteration."""
        out: list[cst.Name] = []
        body = self.tree.within(loop.body, cst.Name)
        for name in sorted(
            {n.value for n in body if self.flow.is_write(n) and self._outlives_comprehension(n)}
        ):
            reads = [
                read
                for read in self.flow.reads(loop.body, name)
                if self._outlives_comprehension(read)
            ]
            if len(reads) == 1 and self._running_sum(reads[0]):
                continue
            out.extend(read for read in reads if not self.reset(loop, read, read))
        return out

    def _outlives_comprehension(self, name: cst.Name) -> bool:
        """Say whether a name is no comprehension's own, which ends with it."""
        scope, _ = self.names.bindings(name.value, name)
        return not isinstance(scope, (*COMPREHENSIONS, cst.Lambda))

    def _running_sum(self, read: cst.Name) -> bool:
        """Say whether a read is the ``total`` on the right of ``total = total + x``: order aside, a
        reduction."""
        above = self.tree.parents.get(read)
        match above, self.tree.parents.get(above) if above is not None else None:
            case cst.BinaryOperation(operator=cst.Add()), cst.Assign(
                [cst.AssignTarget(cst.Name(name))], value
            ):
                return name == read.value and value is above
        return False


@question(ground=True)
def iterations(module: Module) -> Iterations:
    """Return what the loops of a file go over."""
    return Iterations(module)


@question(
    yes="the loop iterates over one thing",
    no="it is not known what the loop iterates over",
    ground=True,
)
def loop_sources(module: Module, loop: cst.For | cst.CompFor) -> list[LoopSource]:
    """Return what a loop goes over, seen through ``enumerate``, ``zip`` and the like."""
    return iterations(module).over(loop)


@question(
    yes="the loop runs {answer} times, as the source says",
    no="how often the loop runs is not known",
    ground=True,
)
def iteration_count(module: Module, loop: Loop | cst.CompFor) -> int | None:
    """Return how often a loop runs where the source says it in literals."""
    return iterations(module).count(loop)


@question(
    yes="the loop iterates over parts of a network (layers, heads, parameters), not over data",
    no="the loop iterates over data, not over parts of a network",
    ground=True,
)
def is_structural(module: Module, loop: Loop | cst.CompFor) -> bool:
    """Say whether a loop goes over parts of a network (layers, heads, parameters), not over
    data."""
    return iterations(module).structural(loop)


@question(
    yes="every iteration starts `{1}` anew", no="`{1}` grows over the iterations", ground=True
)
def is_reset(module: Module, loop: Loop, place: cst.CSTNode, at: cst.CSTNode) -> bool:
    """Say whether every iteration binds a place (``x``, ``self.x``, ``d[k]``) anew before it comes
    to `at`."""
    return iterations(module).reset(loop, place, at)


@question(
    yes="an iteration reads what an earlier one has bound",
    no="no iteration needs an earlier one",
    ground=True,
)
def carried_reads(module: Module, loop: Loop) -> list[cst.Name]:
    """Return the reads in a loop's body that may find what an earlier iteration has bound."""
    return iterations(module).carried(loop)


@question(ground=True)
def spelled_alike(module: Module, scope: cst.CSTNode, place: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the expressions inside `scope` that are spelled like a name, attribute or
    subscript."""
    return iterations(module).same(scope, place)


@question(yes="`{0}` is {answer}", no="`{0}` is no literal number", ground=True, remember=False)
def number_of(module: Module, node: cst.CSTNode | None) -> int | None:
    """Return the whole number that an expression spells, also through one assignment."""
    return iterations(module).number(node)
