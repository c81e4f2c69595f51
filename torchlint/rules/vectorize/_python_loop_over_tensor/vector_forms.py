"""The vector form of a loop over the parts of tensors: what the body does with one part, written
for all of them at once.

An expression of the body is followed with two numbers: at which dimension of the whole tensor the
parts lie side by side, and how many dimensions a part has. ``x[:, i]`` becomes ``x``, whose parts
lie at dimension 1; a reduction of a part along its dimension 1 is one of the whole along 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torchlint.base.records import frozen
from torchlint.fixes.expressions import as_receiver
from torchlint.rule import (
    Fix,
    InsertAfter,
    Module,
    NeedImport,
    NodeEdit,
    Remove,
    Replace,
    Safety,
    inferred,
    one_sentence,
)
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, read_after
from torchlint.semantic.code.tree import method_called
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops

_POINTWISE = (
    ops.having("pointwise") | ops.having("compare") | ops.having("cast") | ops.having("same")
) - (ops.having("random") | ops.having("several") | ops.having("in-place") | {"frexp", "isin"})
_FUNCTIONS = (ops.dotted("pointwise") | ops.dotted("compare")) - ops.dotted("random")
_REDUCTIONS = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}
_REDUCTIONS |= {name: name for name in ("amax", "amin", "prod", "all", "any", "std", "var")}
_WITHOUT_DIMENSION = ("max", "min")
"""Along a dimension these give two tensors, in one number else."""
_ROW = 50
"""Characters of what torch.where chooses from that stand in one line."""
_TITLE = "Compute all of them at once"
_ORDER = "Sums are made in another order and may round differently in the last place"
_SHAPES = (
    "What all iterations compute is in memory at once; tensors of different numbers of dimensions, "
    "or of other sizes than the loop counts, raise or are paired otherwise."
)
_BOTH = "Both sides are computed; a NaN or infinity in the side not taken can reach the gradients."


class _UnknownError(Exception):
    """An expression whose vector form is not known."""


@frozen
class _Part:
    """An expression for all parts at once.

    Args:
        node: its code.
        at: the dimension at which the parts lie, -1 for the last one; None for a number that all
            parts share.
        rank: how many dimensions one part has; None for unknown.
    """

    node: cst.BaseExpression
    at: int | None
    rank: int | None


def vector_form(module: Module, loop: cst.For, sized: bool) -> Fix | None:
    """Return the fix that does for all parts at once what a loop does one by one; `sized` says
    that the loop counts up to the size of a tensor."""
    try:
        form = _Form(module, loop, sized)
        edits = form.of_loop(loop)
    except _UnknownError:
        return None
    notes = (_ORDER, _SHAPES, *form.notes)
    return Fix(tuple(edits), Safety.UNSAFE, _TITLE, one_sentence(notes))


class _Form:
    """The way from the body of one loop to its vector form."""

    def __init__(self, module: Module, loop: cst.For, sized: bool) -> None:
        self.module = module
        self.sized = sized
        self.loop = loop
        self.notes: list[str] = []
        self.index = ""
        self.parts: dict[str, _Part] = {}
        self.starts: dict[cst.Assign, set[str]] = {}
        self._take_in_loop(loop)

    # -- what the loop goes over -------------------------------------------------------------------

    def _take_in_loop(self, loop: cst.For) -> None:
        """Take in the loop's index, and the tensors whose rows it binds to names."""
        bound = self.module.names_in(loop.target)
        match loop.iter:
            case cst.Call(func, args) if self.module.name(func) == "builtins.range":
                self._range(loop.target, args)
                return
            case cst.Call(func) if self.module.name(func) == "builtins.enumerate":
                match loop.target:
                    case cst.Tuple([cst.Element(cst.Name(index)), _]):
                        self.index = index
        for goes in loop_sources(self.module, loop):
            value = inferred(self.module, goes.iterated)
            if not isinstance(goes.target, cst.Name) or not value.tensor or value.loose:
                raise _UnknownError
            if dotted_text(goes.iterated) is None:
                raise _UnknownError
            rank = None if value.rank is None else value.rank - 1
            self.parts[goes.target.value] = _Part(goes.iterated, 0, rank)
        if not self.parts or bound - {self.index, *self.parts}:
            raise _UnknownError

    def _range(self, target: cst.CSTNode, args: Sequence[cst.Arg]) -> None:
        """Take in ``for i in range(stop)``; it ends at a size, and so takes all parts."""
        match target, args:
            case cst.Name(index), [cst.Arg(keyword=None, star="")] if self.sized:
                self.index = index
            case _:
                raise _UnknownError

    # -- statements --------------------------------------------------------------------------------

    def of_loop(self, loop: cst.For) -> list[NodeEdit]:
        """Return the edits for a ``for`` statement.

        Raises:
            _UnknownError: a statement has no vector form.
        """
        if loop.orelse is not None or not isinstance(loop.body, cst.IndentedBlock):
            raise _UnknownError
        if loop.body.footer and any(line.comment for line in loop.body.footer):
            raise _UnknownError
        edits: list[NodeEdit] = []
        new: list[cst.SimpleStatementLine] = []
        for line in loop.body.body:
            match line:
                case cst.SimpleStatementLine([only]):
                    made, also = self._statement(only)
                    new.append(line.with_changes(body=[made]))
                    edits += also
                case cst.If():
                    made, also = self._chosen(line)
                    new.append(cst.SimpleStatementLine([made], leading_lines=line.leading_lines))
                    edits += also
                case _:
                    raise _UnknownError
        self._unseen_after(loop)
        first, *others = new
        if any(line.comment for line in first.leading_lines):
            raise _UnknownError
        code = cst.Module([]).code_for_node
        edits.append(Replace(loop, first.with_changes(leading_lines=[])))
        edits += [InsertAfter(loop, code(each).strip()) for each in others]
        return [*edits, *self._spare()]

    def _spare(self) -> list[NodeEdit]:
        """Return the removal of what started the variables that are bound at once now."""
        for start, names in self.starts.items():
            bound = {
                name.value
                for target in start.targets
                for name in self.module.within(target, cst.Name)
            }
            if bound != names:
                raise _UnknownError
        return [Remove(start) for start in self.starts]

    def _unseen_after(self, loop: cst.For) -> None:
        """Refuse where a name that the last iteration leaves behind is read later."""
        for name in (*self.parts, self.index):
            if name and read_after(self.module, loop, name):
                raise _UnknownError

    def _statement(
        self, node: cst.BaseSmallStatement
    ) -> tuple[cst.BaseSmallStatement, list[NodeEdit]]:
        match node:
            case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
                match value:
                    case cst.BinaryOperation(cst.Name(left), cst.Add(), term) if (
                        left == name and name not in self.parts
                    ):
                        return self._added(name, term)
                made = self._mapped(value)
                self.parts[name] = replace(made, node=cst.Name(name))
                return node.with_changes(value=made.node), []
            case cst.AugAssign(cst.Name(name), cst.AddAssign(), term) if name not in self.parts:
                return self._added(name, term)
            case cst.Assign([cst.AssignTarget(cst.Subscript() as into)]):
                return self._assignment_of_all(node, into), []
        raise _UnknownError

    def _added(
        self, name: str, term: cst.BaseExpression
    ) -> tuple[cst.BaseSmallStatement, list[NodeEdit]]:
        """Return the statement that adds up all terms."""
        return self._summed(name, self._mapped(term), _floats(self.module, term))

    def _summed(
        self, name: str, part: _Part, floats: bool
    ) -> tuple[cst.BaseSmallStatement, list[NodeEdit]]:
        """Return the statement that adds up parts; a sum that starts at nothing is bound by it."""
        total = self._call(part.node, "sum", f"dim={part.at}")
        start = self._bound_before(name)
        match start:
            case cst.Assign([_], cst.Integer("0")):
                dropped = True
            case cst.Assign([_], cst.Float(zero)) if float(zero) == 0:
                dropped = floats
            case _:
                dropped = False
        target = cst.Name(name)
        if not dropped or start is None:
            return cst.AugAssign(target, cst.AddAssign(), total), []
        self.starts.setdefault(start, set()).add(name)
        return cst.Assign([cst.AssignTarget(target)], total), []

    def _chosen(self, node: cst.If) -> tuple[cst.BaseSmallStatement, list[NodeEdit]]:
        """Return the statement that chooses for each part what a test of it, one number, chooses
        in the loop: what is added to a sum, or bound to a name."""
        test = self._mapped(node.test)
        if test.rank != 0 or inferred(self.module, node.test).dtype != "bool":
            raise _UnknownError
        if node.orelse is not None and not isinstance(node.orelse, cst.Else):
            raise _UnknownError
        name, adds, value = _one_step(node.body)
        other = self.parts.get(name)
        added = [value]
        if node.orelse is not None:
            name_of_other, adds_other, otherwise = _one_step(node.orelse.body)
            if (name_of_other, adds_other) != (name, adds):
                raise _UnknownError
            other = self._part_of(otherwise)
            added.append(otherwise)
        elif adds:
            other = _Part(cst.Integer("0"), None, 0)
        if other is None or (adds and name in self.parts):
            raise _UnknownError
        sides = [self._part_of(value), other]
        if any(each.rank != 0 for each in sides):
            raise _UnknownError
        torch = torch_name(self.module)
        codes = [cst.Module([]).code_for_node(each.node) for each in (test, *sides)]
        apart = len("".join(codes)) > _ROW
        args = "".join(f"\n    {each}," for each in codes) + "\n" if apart else ", ".join(codes)
        part = self._paired(cst.parse_expression(f"{torch}.where({args})"), [test, *sides])
        self.notes.append(_BOTH)
        edits: list[NodeEdit] = [NeedImport("torch", torch)]
        if adds:
            floats = all(_floats(self.module, each) for each in added)
            made, also = self._summed(name, part, floats)
            return made, [*edits, *also]
        self.parts[name] = replace(part, node=cst.Name(name))
        return cst.Assign([cst.AssignTarget(cst.Name(name))], part.node), edits

    def _bound_before(self, name: str) -> cst.Assign | None:
        """Return the assignment in the loop's own block that alone starts a variable, and that
        nothing else reads than the loop and what comes behind it."""
        found: cst.Assign | None = None
        for each in self.module.tree.beside(self.loop)[0]:
            match each:
                case cst.SimpleStatementLine([cst.Assign() as assign]) if any(
                    name in self.module.names_in(target.target) for target in assign.targets
                ):
                    found = assign
                case _ if name in self.module.names_in(each):
                    found = None
        return found

    def _assignment_of_all(self, node: cst.Assign, into: cst.Subscript) -> cst.BaseSmallStatement:
        """Return ``out[:] = …`` for ``out[i] = …``."""
        part = self._mapped(node.value)
        if self.index in self.module.names_in(into.value) or dotted_text(into.value) is None:
            raise _UnknownError
        at, slices = self._slices(into)
        if part.at != at:
            raise _UnknownError
        target = into.with_changes(slice=slices)
        return node.with_changes(targets=[cst.AssignTarget(target)], value=part.node)

    # -- expressions -------------------------------------------------------------------------------

    def _mapped(self, node: cst.BaseExpression) -> _Part:
        """Return the vector form of an expression that is another one for each part."""
        found = self._part_of(node)
        if found.at is None:
            raise _UnknownError
        return found

    def _part_of(self, node: cst.BaseExpression) -> _Part:
        names = self.module.names_in(node)
        if self.index not in names and not names & self.parts.keys():
            return self._shared(node)
        match node:
            case cst.Name(name) if name in self.parts:
                return self.parts[name]
            case cst.Subscript():
                return self._subscript(node)
            case cst.BinaryOperation(left, right=right):
                one, two = self._part_of(left), self._part_of(right)
                new = node.with_changes(left=one.node, right=two.node)
                return self._paired(new, [one, two])
            case cst.Comparison(left, [target]) if not isinstance(
                target.operator, (cst.In, cst.NotIn, cst.Is, cst.IsNot)
            ):
                one, two = self._part_of(left), self._part_of(target.comparator)
                against = target.with_changes(comparator=two.node)
                return self._paired(
                    node.with_changes(left=one.node, comparisons=[against]), [one, two]
                )
            case cst.Call(cst.Attribute(receiver, cst.Name(method))) if (
                self.module.name(node.func) is None
            ):
                return self._method(node, self._part_of(receiver), method)
        raise _UnknownError

    def _shared(self, node: cst.BaseExpression) -> _Part:
        """Return a number, of the host or of the device, that all parts share."""
        value = inferred(self.module, node)
        number = isinstance(node, cst.BaseNumber) or value.kind in ("number", "bool")
        if not number and not (value.tensor and value.rank == 0):
            raise _UnknownError
        return _Part(node, None, 0)

    def _paired(self, node: cst.BaseExpression, parts: Sequence[_Part]) -> _Part:
        """Return what an operation makes of parts that lie at the same dimension."""
        mapped = [each for each in parts if each.at is not None]
        if len({each.at for each in mapped}) != 1:
            raise _UnknownError
        ranks = {each.rank for each in mapped}
        known = ranks - {None}
        if len(known) > 1 or (0 in known and len(ranks) > 1):
            raise _UnknownError
        return _Part(node, mapped[0].at, next(iter(known), None))

    def _slices(self, node: cst.Subscript) -> tuple[int, list[cst.SubscriptElement]]:
        """Return at which dimension a subscript takes parts by the loop's index, and the slices
        that take all parts."""
        at, new = None, []
        for number, each in enumerate(node.slice):
            match each.slice:
                case cst.Index(cst.Name(name)) if name == self.index and at is None:
                    at = number
                    new.append(each.with_changes(slice=cst.Slice(None, None)))
                case cst.Slice(lower=None, upper=None, step=None):
                    new.append(each)
                case _:
                    raise _UnknownError
        if at is None:
            raise _UnknownError
        return at, new

    def _subscript(self, node: cst.Subscript) -> _Part:
        """Return the whole tensor for ``x[:, i]``."""
        if dotted_text(node.value) is None or self.index in self.module.names_in(node.value):
            raise _UnknownError
        value = inferred(self.module, node.value)
        if not _is_tensor(self.module, node.value, several=len(node.slice) > 1):
            raise _UnknownError
        at, _ = self._slices(node)
        rank = None if value.rank is None else value.rank - 1
        if rank is not None and len(node.slice) > rank + 1:
            raise _UnknownError
        return _Part(node.value, at, rank)

    def _method(self, node: cst.Call, part: _Part, method: str) -> _Part:
        func = node.func
        assert isinstance(func, cst.Attribute)
        if part.at is None:
            raise _UnknownError
        new = node.with_changes(func=func.with_changes(value=as_receiver(part.node)))
        if method in _REDUCTIONS:
            return self._reduced(new, part, method, node.args)
        if method not in _POINTWISE:
            raise _UnknownError
        return self._arguments(new, part, node.args)

    def _arguments(self, new: cst.Call, part: _Part, args: Sequence[cst.Arg]) -> _Part:
        """Return a pointwise operation whose arguments are numbers, or parts like its own."""
        given: list[cst.Arg] = []
        parts = [part]
        for arg in args:
            if arg.star:
                raise _UnknownError
            names = self.module.names_in(arg.value)
            if self.index not in names and not names & self.parts.keys():
                if inferred(self.module, arg.value).tensor:
                    self._shared(arg.value)
                given.append(arg)
                continue
            found = self._part_of(arg.value)
            parts.append(found)
            given.append(arg.with_changes(value=found.node))
        return self._paired(new.with_changes(args=given), parts)

    # -- reductions --------------------------------------------------------------------------------

    def _reduced(self, new: cst.Call, part: _Part, method: str, args: Sequence[cst.Arg]) -> _Part:
        """Return a reduction of each part, along a dimension or to one number."""
        assert part.at is not None
        match args:
            case []:
                return self._to_numbers(part, _REDUCTIONS[method])
            case [cst.Arg(cst.Integer(dim), None | cst.Name("dim" | "axis"), star="") as only]:
                if method not in _WITHOUT_DIMENSION:
                    whole = int(dim) + (int(dim) >= part.at)
                    made = new.with_changes(args=[only.with_changes(value=cst.Integer(str(whole)))])
                    rank = None if part.rank is None else part.rank - 1
                    return _Part(made, part.at - (whole < part.at), rank)
        raise _UnknownError

    def _to_numbers(self, part: _Part, method: str) -> _Part:
        """Return the reduction of each part to one number."""
        if part.rank == 0 or part.at is None:
            raise _UnknownError
        node = self._call(part.node, "transpose", f"0, {part.at}") if part.at else part.node
        return _Part(self._call(self._call(node, "flatten", "1"), method, "dim=1"), 0, 0)

    def _call(self, node: cst.BaseExpression, method: str, args: str) -> cst.Call:
        code = cst.Module([]).code_for_node(as_receiver(node))
        found = cst.parse_expression(f"({code}.{method}({args}))")
        assert isinstance(found, cst.Call)
        return found.with_changes(lpar=[], rpar=[])


def _one_step(suite: cst.BaseSuite) -> tuple[str, bool, cst.BaseExpression]:
    """Return the name that the one line of a block adds to, or binds, and what.

    Raises:
        _UnknownError: it does something else, or more.
    """
    match suite:
        case cst.IndentedBlock([cst.SimpleStatementLine([only])]):
            match only:
                case cst.AugAssign(cst.Name(name), cst.AddAssign(), value):
                    return name, True, value
                case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
                    return name, False, value
    raise _UnknownError


def _is_tensor(module: Module, node: cst.BaseExpression, several: bool) -> bool:
    """Say whether an expression is certainly a tensor: by what it is, by the way it was made or
    used, or, where it is not known to be anything else, by an index of `several` dimensions."""
    value = inferred(module, node)
    if value.tensor:
        return several or not value.loose
    if value.kind != "?" or not isinstance(node, cst.Name):
        return value.kind == "?" and several
    made = [each.value for each in definitions_of(module, node) if isinstance(each, cst.Assign)]
    scope = module.scope(node)
    used = [module.parent(each) for each in reads_of(module, scope, node.value)]
    methods = [
        each.func if isinstance(each, cst.Call) else each
        for each in (*made, *used)
        if isinstance(each, (cst.Call, cst.Attribute))
    ]
    names = {each.attr.value for each in methods if isinstance(each, cst.Attribute)}
    return several or bool(names & ops.TENSOR_ONLY_METHODS)


def _floats(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is of floating numbers: a mean, or by its dtype."""
    dtype = inferred(module, node).dtype or ""
    return method_called(node) == "mean" or dtype.startswith(("float", "bfloat"))
