"""Indices that lie on the host: lists, ranges, arrays and CPU tensors by which a tensor is
indexed."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, heat_of, inferred
from torchlint.semantic.code.reaching import assignments_of, definitions_of
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.device.factories import factories_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import arrays
from torchlint.semantic.values.value import CPU, Value


@question(
    yes="the index `{0}` lies on the host", no="`{0}` is not known to be an index on the host"
)
def host_index(module: Module, index: cst.BaseExpression) -> str | None:
    """Return what to do instead of an index that lies on the host; None where it does not, or is
    not known to."""
    if isinstance(index, cst.List):
        values = [_innermost(inferred(module, each.value)) for each in index.elements]
        numbers = bool(values) and all(map(_is_whole, values))
        return "use a slice, flip or an index kept on the device" if numbers else None
    value = inferred(module, index)
    if value.kind == "iterator":
        return "use torch.arange(…, device=…)" if value.name == "range" else None
    if value.kind == "list":
        return "build the index on the device" if _is_whole(_innermost(value)) else None
    if value.kind == "ndarray":
        return "build the index on the device" if _is_array(module, index) else None
    return _tensor(module, index)


def _innermost(value: Value) -> Value:
    """Return what a list of lists holds in its innermost ones, as far as all of them hold one."""
    while value.kind == "list" and value.item is not None:
        value = value.item
    return value


def _is_whole(value: Value) -> bool:
    return value.kind == "number" and value.dtype == "int"


def _tensor(module: Module, index: cst.BaseExpression) -> str | None:
    value = inferred(module, index)
    if value.device != CPU or value.rank == 0 or value.dtype != "int":
        return None
    if isinstance(index, cst.Name) and not all(
        isinstance(d, cst.Assign) for d in definitions_of(module, index)
    ):
        # An element of a tensor that a loop goes over is one number, and is read on the host.
        return None
    # A factory's tensor is found where it is built, if that is in each step.
    made = factories_of(module, index, filled=True)
    anew = any(heat_of(module, each).hot for each in made)
    return None if anew else "build the index on the device"


@question()
def _is_array(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is certainly an array with dimensions, as a number of NumPy's is no
    upload."""
    match node:
        case cst.Call(func) if name := module.name(func) or "":
            sized = arrays.DRAWS.get(name)
            told = any(keyword_of(arg) == "size" for arg in node.args)
            plain = [arg for arg in node.args if arg.keyword is None]
            return name in arrays.POSITIONS or (
                sized is not None
                and (told or len(plain) > sized)
                and not any(a.star for a in plain)
            )
        case cst.Subscript(value, [cst.SubscriptElement(cst.Slice())]):
            return _is_array(module, value)
        case cst.Name():
            found = assignments_of(module, node)
            return bool(found) and all(
                isinstance(each.targets[0].target, cst.Name) and _is_array(module, each.value)
                for each in found
            )
    return False
