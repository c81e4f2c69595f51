"""What is certainly a plain tensor of a known kind, proven by the calls that made it and not by its
name or use.

`inferred` says what a thing most likely is, which is right for a finding. A safe rewrite needs
more: a parameter may be given anything, an object called ``criterion`` may return anything, and ``a
== b`` of unknown things is whatever their classes say. Here only torch's own functions and methods
count, on what is itself certain. A tensor is also certain where the code has handed it to a loss of
torch before, which raises for everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import COMPREHENSIONS, FUNCTIONS, has_star, keyword_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.uses.plain_numbers import is_python_number
from torchlint.semantic.uses.tensor_origins import rebound_elsewhere

FLOAT, BOOL, COUNT, INDEX = "float", "bool", "count", "index"
"""Kinds of elements: real floating numbers; truth values; sums of truth values; positions in a
tensor.

The last two are integers that stay far below what 64 bits hold, however many of them are added.
"""


@frozen
class Certain:
    """A plain tensor: the kind of its elements, None for any, and whether it has no dimension."""

    kind: str | None = None
    scalar: bool = False


_LOSSES = ops.values("class", "loss")
LOSS_NAMES = (*_LOSSES, *_LOSSES.values())
_LOSS_FUNCTIONS = frozenset(f"torch.nn.functional.{name}" for name in _LOSSES)
_LOSS_CLASSES = frozenset(f"torch.nn.{name}" for name in _LOSSES.values())
_LAYERS = ops.dotted("layer", "one-tensor")
_REDUCTIONS = frozenset(("reduction", "reduce", "size_average"))
_CHAINS = ops.having("module", "chains", "plain")
_FUNCTIONS = ops.dotted("reduce") | ops.dotted("compare")
_COMPARISONS = ops.having("compare")
_POSITIONS = ops.having("reduce", "gives-int")
_SAME = ops.having("method", "same") | {"clone", "cpu", "cuda"}
_SHAPES = ops.SAME_VALUES | {"repeat"}
_TO_FLOAT = frozenset(method for method, kind in dtypes.CASTS.items() if "float" in kind)
_TO_INT = ops.having("cast", "gives-int")
_COMPARED = (
    cst.Equal,
    cst.NotEqual,
    cst.LessThan,
    cst.LessThanEqual,
    cst.GreaterThan,
    cst.GreaterThanEqual,
)
_HARMLESS = frozenset(
    f"builtins.{name}"
    for name in "print float int bool len str repr format isinstance type round".split()
)


@question()
def certain(module: Module, node: cst.CSTNode) -> Certain | None:
    """Return what is certain of an expression that is a plain tensor, or None where it may be
    something else."""
    match node:
        case cst.Name():
            return _named(module, node)
        case cst.Call():
            return _called(module, node)
        case cst.Comparison(
            left=left, comparisons=[cst.ComparisonTarget(operator=operator, comparator=right)]
        ):
            if not isinstance(operator, _COMPARED):
                return None
            operands = _operands(module, left, right)
            return Certain(BOOL, all(each.scalar for each in operands)) if operands else None
        case cst.BinaryOperation(
            left=left, operator=cst.Add() | cst.Subtract() | cst.Multiply() | cst.Divide()
        ):
            operands = _operands(module, left, node.right)
            floating = bool(operands) and all(each.kind == FLOAT for each in operands)
            return (
                Certain(FLOAT if floating else None, all(each.scalar for each in operands))
                if operands
                else None
            )
        case cst.UnaryOperation(operator=cst.Minus(), expression=inner):
            found = certain(module, inner)
            return found if found is not None and found.kind == FLOAT else None
    return None


def _operands(module: Module, left: cst.CSTNode, right: cst.CSTNode) -> list[Certain]:
    """Return the tensors among two operands, at least one; nothing where one is neither a tensor
    nor a number."""
    found = [certain(module, side) for side in (left, right)]
    sides = zip((left, right), found, strict=True)
    if not any(found) or any(
        each is None and not is_python_number(module, side) for side, each in sides
    ):
        return []
    return [each for each in found if each is not None]


# -- calls -----------------------------------------------------------------------------------------


def _called(module: Module, call: cst.Call) -> Certain | None:
    if has_star(call):
        return None
    if is_loss(module, call):
        return Certain(FLOAT, True)
    if len(call.args) == 1 and _made_by(module, call.func, _LAYERS):
        return Certain()
    func, name = call.func, module.name(call.func)
    if name in _FUNCTIONS and call.args:
        inner = certain(module, call.args[0].value)
        rest = call.args[1:]
        return _method(inner, name.rpartition(".")[2], rest) if inner is not None else None
    if name is not None or not isinstance(func, cst.Attribute):
        return None
    receiver = certain(module, func.value)
    return _method(receiver, func.attr.value, call.args) if receiver is not None else None


def is_loss(module: Module, call: cst.Call) -> bool:
    """Say whether a call is one of a loss of torch that gives one floating number, and takes
    nothing but tensors."""
    if len(call.args) < 2 or has_star(call):
        return False
    if module.name(call.func) in _LOSS_FUNCTIONS:
        plain = sum(arg.keyword is None for arg in call.args) <= 2
        return plain and not any(keyword_of(arg) in _REDUCTIONS for arg in call.args)
    return _made_by(module, call.func, _LOSS_CLASSES) and len(call.args) == 2


def _made_by(module: Module, func: cst.BaseExpression, classes: frozenset[str]) -> bool:
    """Say whether what is called is the instance of one of torch's classes, which nothing has
    altered."""
    if not isinstance(func, cst.Name) or rebound_elsewhere(module, func.value):
        return False
    made = sole_definition(module, func)
    while (
        isinstance(made, cst.Call)
        and isinstance(made.func, cst.Attribute)
        and made.func.attr.value in _CHAINS
    ):
        if module.name(made.func) in classes:
            break
        made = made.func.value
    if not isinstance(made, cst.Call) or module.name(made.func) not in classes:
        return False
    given = {keyword_of(arg) for arg in made.args}
    if classes is _LOSS_CLASSES and given & (_REDUCTIONS | {""}):
        return False
    return all(_leaves_alone(module, read) for read in reads_of(module, module.root, func.value))


_ASKED = ops.having("module", "plain")


def _leaves_alone(module: Module, read: cst.Name) -> bool:
    """Say whether a use of a module of torch cannot change what calling it gives: a call of it or
    of known methods."""
    above = module.parent(read)
    if isinstance(above, cst.Call):
        return above.func is read
    if isinstance(above, cst.Attribute) and above.value is read and above.attr.value in _ASKED:
        call = module.parent(above)
        return isinstance(call, cst.Call) and call.func is above
    return False


def _method(tensor: Certain, name: str, args: Sequence[cst.Arg]) -> Certain | None:
    """Return what a method of a plain tensor gives."""
    if name in _COMPARISONS:
        return Certain(BOOL)
    if name in _POSITIONS:
        return Certain(COUNT if name == "count_nonzero" else INDEX, not args)
    if name in _SAME:
        return tensor
    if name in _SHAPES:
        return Certain(tensor.kind)
    whole = tensor.kind is not None and tensor.kind != FLOAT
    return _of_whole(tensor, name, args) if whole else None


def _of_whole(tensor: Certain, name: str, args: Sequence[cst.Arg]) -> Certain | None:
    if name in _TO_FLOAT:
        return Certain(FLOAT, tensor.scalar)
    if name in _TO_INT:  # A cast to few bits may wrap, but what comes out stays small.
        return Certain(BOOL if tensor.kind == BOOL else COUNT, tensor.scalar)
    if tensor.kind != BOOL or args:
        return None
    return (
        Certain(COUNT, True)
        if name == "sum"
        else Certain(BOOL, True)
        if name in ("any", "all")
        else None
    )


# -- names -----------------------------------------------------------------------------------------


def _named(module: Module, name: cst.Name) -> Certain | None:
    found = definitions_of(module, name)
    made = [
        each.value
        for each in found
        if isinstance(each, cst.Assign)
        and len(each.targets) == 1
        and isinstance(each.targets[0].target, cst.Name)
    ]
    kinds = [certain(module, each) for each in made] if len(made) == len(found) else []
    if kinds and None not in kinds:
        same = all(each == kinds[0] for each in kinds) and not _altered(module, name)
        return kinds[0] if same else Certain()
    return Certain() if _taken_by_loss(module, name) else None


def _altered(module: Module, name: cst.Name) -> bool:
    """Say whether the function may change the named tensor in place: ``x.fill_(…)``, ``x.data =
    …``, ``x[0] = …``."""
    scope: cst.CSTNode = module.scope(name)
    return any(_alters(module, read) for read in reads_of(module, scope, name.value)) or any(
        isinstance(module.parent(write), (cst.AugAssign, cst.Del))
        for write in writes_of(module, scope, name.value)
    )


def _alters(module: Module, read: cst.Name) -> bool:
    above = module.parent(read)
    match above:
        case cst.Attribute(attr=cst.Name(value=attr)) if above.value is read:
            called = module.parent(above)
            mutates = attr.endswith("_") and not attr.endswith("__")
            stored = isinstance(called, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign, cst.Del))
            return mutates or stored or attr in ("data", "set_")
        case cst.Subscript(value=value) if value is read:
            return isinstance(module.parent(above), (cst.AssignTarget, cst.AugAssign))
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and _may_write(module, call, above)
        case cst.Assign() | cst.NamedExpr() | cst.AnnAssign():
            return True  # Another name for the same tensor.
    return False


def _may_write(module: Module, call: cst.Call, arg: cst.Arg) -> bool:
    """Say whether a call may change an argument: a function of the user's, or ``out=`` of
    torch's."""
    if keyword_of(arg) == "out":
        return True
    name = module.name(call.func)
    if name is not None and (name.startswith("torch.") or name in _HARMLESS):
        return name.endswith("_") or name.startswith(("torch.nn.init.", "torch.utils."))
    return isinstance(call.func, cst.Name) and not _made_by(
        module, call.func, _LOSS_CLASSES | _LAYERS
    )


def _taken_by_loss(module: Module, name: cst.Name) -> bool:
    """Say whether, on every way to here, a loss of torch has taken this very value as one of its
    two tensors."""
    child: cst.CSTNode = name
    for above in module.ancestors(name):
        if isinstance(above, FUNCTIONS):
            return False
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            for line in reversed(
                [part for part in above.body if module.before(part, child) and part is not child]
            ):
                if any(
                    _same_value(module, given, name) for given in _given_to_losses(module, line)
                ):
                    return True
        child = above
    return False


def _given_to_losses(module: Module, line: cst.CSTNode) -> Iterator[cst.Name]:
    if not isinstance(line, cst.SimpleStatementLine):
        return
    for call in module.within(line, cst.Call):
        if is_loss(module, call) and _always(module, call, line):
            for arg in call.args[:2]:
                if arg.keyword is None and isinstance(arg.value, cst.Name):
                    yield arg.value


def _always(module: Module, call: cst.Call, line: cst.CSTNode) -> bool:
    for above in module.ancestors(call):
        if above is line:
            return True
        if isinstance(above, (cst.BooleanOperation, cst.IfExp, *COMPREHENSIONS, *FUNCTIONS)):
            return False
    return False


def _same_value(module: Module, given: cst.Name, name: cst.Name) -> bool:
    """Say whether a name still means at its second use what it meant at the first."""
    if given.value != name.value:
        return False
    scope: cst.CSTNode = module.scope(name)
    inside = [loop for loop in module.loops(name) if not module.is_within(given, loop)]
    owners = module.tree.owners
    for write in writes_of(module, scope, name.value):
        if owners[write] is not owners[name]:
            return False
        between = module.before(given, write) and module.before(write, name)
        if between or any(module.is_within(write, loop) for loop in inside):
            return False
    return not any(
        module.tree.owners[write] is not module.tree.owners[name]
        for write in writes_of(module, scope, name.value)
    )
