"""What is certainly a number of Python, or a tensor without dimensions, by what computes it and not
by its name."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred

_LOSSES = frozenset(f"torch.nn.functional.{name}" for name in ops.values("class", "loss"))
_REDUCTIONS = frozenset(("reduction", "reduce", "size_average"))


@question(yes="`{0}` is a number of Python", no="`{0}` may be no number of Python")
def is_python_number(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an expression is certainly a real Python number: a literal, or a size."""
    match node:
        case cst.Integer() | cst.Float():
            return True
        case cst.UnaryOperation(cst.Minus(), inner):
            return is_python_number(module, inner)
        case cst.Call(cst.Attribute(attr=cst.Name("size")), args):
            return bool(args)
        case cst.Call(cst.Attribute(attr=cst.Name("numel" | "dim")), []):
            return True
        case cst.Call(func, [cst.Arg(inner)]):
            name = module.name(func)
            return name == "builtins.len" or (
                name == "builtins.int" and is_python_number(module, inner)
            )
        case cst.Subscript(cst.Attribute(attr=cst.Name("shape")), [part]):
            return isinstance(part.slice, cst.Index)
        case cst.Name():
            values = _bound(module, node)
            return bool(values) and all(
                each is not None and is_python_number(module, each) for each in values
            )
    return False


def _bound(module: Module, name: cst.Name) -> list[cst.BaseExpression | None]:
    """Return what the definitions of a name bind to it alone, None for each that does more."""
    return [
        each.value
        if isinstance(each, cst.Assign)
        and len(each.targets) == 1
        and isinstance(each.targets[0].target, cst.Name)
        else None
        for each in definitions_of(module, name)
    ]


@question(
    yes="`{0}` has no dimension, by what computes it",
    no="`{0}` may have a dimension",
)
def has_no_dimension(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor has no dimension, so that it can be stacked with others like it; that it
    is called a loss proves nothing."""
    value = inferred(module, tensor)
    if value.rank == 0 and value.origin != "loss":
        return True
    match tensor:
        case cst.Name():
            values = _bound(module, tensor)
            return bool(values) and all(
                each is not None and has_no_dimension(module, each) for each in values
            )
        case cst.BinaryOperation(left, right=right):
            return all(
                is_python_number(module, each) or has_no_dimension(module, each)
                for each in (left, right)
            )
        case cst.Attribute(inner, cst.Name("data")):
            return has_no_dimension(module, inner)
        case cst.Call(func, args):
            if module.name(func) in _LOSSES:
                named = {arg.keyword.value for arg in args if arg.keyword is not None}
                return not named & _REDUCTIONS and not any(arg.star for arg in args)
            own = (inferred(module, func).name or "").startswith("torch.nn.")
            return value.rank == 0 and own
    return False
