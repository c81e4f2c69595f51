"""Reads of a tensor of which only values on the device say how many elements they give."""

from __future__ import annotations

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import last_name, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import MASK, called
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.operations import operation_of
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

SIZED_BY_VALUES = ops.having("values-decide", "method") - ops.having(
    "several-with-more"
) | ops.having("pick", "several-on-request")
"""Methods and functions; `where` is one of them with a condition alone."""
_NAMES = frozenset(("none", "str"))
_ONE_HOT = "torch.nn.functional.one_hot"
_REPEATS = "repeat_interleave"
SIZED_BY_ARGUMENT = (_ONE_HOT, f"torch.{_REPEATS}", f".{_REPEATS}")
"""Calls of which `unsized` says something."""


@question(
    yes="how many elements `{0}` gives is known on the device only",
    no="`{0}` is not known to select by a mask, or to ask for positions, on the device",
)
def gathers(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a read takes the elements of a device tensor that a mask selects, or asks for
    their positions."""
    tensor = gathered(module, node)
    if tensor is None or on_device(module, tensor) is not None:
        return tensor is not None and bool(on_device(module, tensor))
    match node:
        case cst.Subscript(cst.Name(), [cst.SubscriptElement(cst.Index(index))]):
            # Nothing but a tensor that lies there takes a mask of the device.
            return on_device(module, index) is True
    return False


@question()
def gathered(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the tensor of which a read takes what a mask selects, or asks for positions, wherever
    it lies; None for any other read."""
    if isinstance(node, cst.Subscript):
        if isinstance(module.parent(node), (cst.AssignTarget, cst.Del)):
            return None
        indices = [part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)]
        return node.value if any(_is_mask(module, index) for index in indices) else None
    found = operation_of(module, node)
    if found is None or found.name not in SIZED_BY_VALUES or not found.operands:
        return None
    if found.name == "where" and len(found.operands) + len(found.keywords) > 1:
        return None
    return found.operands[0]


@frozen
class Unsized:
    """A call that reads values to size its result, and the keyword that would say the size."""

    values: cst.BaseExpression
    keyword: str


@question()
def unsized(module: Module, call: cst.Call) -> Unsized | None:
    """Return the values that a call of one_hot, or of repeat_interleave by a tensor, sizes its
    result by; None where the call says the size."""
    name = module.name(call.func)
    method = method_called(call)
    if name == _ONE_HOT:
        bound, values, size = arguments_of(module, call, name), "tensor", "num_classes"
    elif name == f"torch.{_REPEATS}" or (
        method == _REPEATS and inferred(module, getattr(call.func, "value")).tensor  # noqa: B009
    ):
        # With one argument alone, that is the tensor of repeats.
        alone = name is None or len(call.args) == 1
        signature = f"Tensor.{_REPEATS}" if alone else f"torch.{_REPEATS}"
        bound, values, size = arguments_of(module, call, signature), "repeats", "output_size"
    else:
        return None
    given = bound.value(values)
    told = bound.named.get(size) is not None or bound.open
    return Unsized(given, size) if given is not None and not told else None


@question()
def _is_mask(module: Module, index: cst.BaseExpression) -> bool:
    """Say whether an index is a tensor of truth values; a comparison is one where what it indexes
    is a tensor."""
    value = inferred(module, index)
    if value.tensor:
        truth = value.dtype == "bool" or (value.dtype is None and _asked_whether_any(module, index))
        return truth and value.rank != 0 and value.device != CPU
    if value.kind not in ("?", "bool"):
        return False
    match index:
        case cst.Comparison(left, [cst.ComparisonTarget(comparator=right)]):
            return not inferred(module, left).host and inferred(module, right).kind not in _NAMES
        case cst.BinaryOperation(operator=cst.BitAnd() | cst.BitOr(), left=left, right=right):
            return _is_mask(module, left) or _is_mask(module, right)
        case cst.UnaryOperation(cst.BitInvert(), inner):
            return _is_mask(module, inner)
        case cst.Name() | cst.Attribute():
            if value.kind == "?" and (
                called(last_name(index), MASK) or _asked_whether_any(module, index)
            ):
                return True
            definition = sole_definition(module, index) if isinstance(index, cst.Name) else None
            return definition is not None and _is_mask(module, definition)
        case cst.Call(cst.Attribute(attr=cst.Name("bool")), []):
            return True
    return False


def _asked_whether_any(module: Module, index: cst.BaseExpression) -> bool:
    """Say whether the code around an index asks it for ``any()``, as one asks truth values."""
    if not isinstance(index, cst.Name):
        return False
    made = definitions_of(module, index)
    return any(
        method_called(call) == "any"
        and isinstance(asked := getattr(call.func, "value", None), cst.Name)
        and asked.value == index.value
        and definitions_of(module, asked) == made
        for call in module.within(module.scope(index), cst.Call)
    )


@question(yes="the device is asked where `{0}` writes", no="the host knows where `{0}` writes")
def scatters(module: Module, node: cst.Subscript) -> bool:
    """Say whether a write takes elements of a tensor to where a mask of the device is set: then the
    host waits for their number, which a plain number as the value does not need."""
    above = module.parent(node)
    assign = module.parent(above) if isinstance(above, cst.AssignTarget) else None
    if not isinstance(assign, cst.Assign) or not inferred(module, assign.value).tensor:
        return False
    indices = [part.slice.value for part in node.slice if isinstance(part.slice, cst.Index)]
    masks = (_is_mask(module, index) or _called_mask(module, index) for index in indices)
    return any(masks) and bool(on_device(module, node.value))


def _called_mask(module: Module, index: cst.BaseExpression) -> bool:
    value = inferred(module, index)
    name = last_part(index)
    return value.tensor and value.dtype is None and value.device != CPU and called(name, MASK)
