"""The exact dtype of a tensor, where the source spells it: what a copy of it weighs."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, inferred, keyword_argument
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import keyword_of
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops

BYTES = {dtype.name: dtype.nbytes for dtype in dtypes.FULL}
"""Bytes per element of the dtypes for which every operation on a device exists."""
_OTHER_NAMES = {**dtypes.OTHER_NAMES, "bool_": "bool"}
_SAME = ops.SAME_VALUES | ops.having("repeats") | {"cpu", "cuda", "copy"}
_ARRAYS = ops.dotted("from-data", "own-dtype")


@question(yes="`{0}` names the dtype {answer}", no="`{0}` names no dtype")
def named_dtype(module: Module, node: cst.BaseExpression | None) -> str | None:
    """Return the dtype that an expression names (``torch.float``, ``np.uint8``, ``"uint8"``), or
    None."""
    if node is None:
        return None
    if isinstance(node, cst.SimpleString):
        last = str(node.raw_value).rpartition(".")[2]
    else:
        package, _, last = (module.name(node) or "").partition(".")
        if package not in ("torch", "numpy"):
            return None
    last = _OTHER_NAMES.get(last, last)
    return last if last in BYTES else None


@question(yes="`{0}` casts to {answer}", no="`{0}` is no cast")
def cast_target(module: Module, call: cst.Call) -> str | None:
    """Return the dtype to which a method call casts without a move: ``.float()``,
    ``.to(torch.float)``."""
    func = call.func
    if not isinstance(func, cst.Attribute) or module.name(func) is not None:
        return None
    if func.attr.value in dtypes.CASTS and not call.args:
        return dtypes.CASTS[func.attr.value]
    if func.attr.value in ("to", "type", "astype") and call.args:
        first = call.args[0]
        if keyword_of(first) in ("", "dtype"):
            found = named_dtype(module, first.value) if not first.star else None
            return found if len(call.args) == 1 or func.attr.value == "astype" else None
    return None


@question(yes="`{0}` is of dtype {answer}", no="the dtype of `{0}` is not spelled in the source")
def exact_dtype_of(module: Module, node: cst.BaseExpression) -> str | None:
    """Return the dtype of a tensor or array, where its source spells it or its operation fixes it;
    else None."""
    match node:
        case cst.Call(func):
            return _of_call(module, node, func)
        case cst.Name():
            found = definitions_of(module, node)
            made = found[0] if len(found) == 1 else None
            if (
                isinstance(made, cst.Assign)
                and len(made.targets) == 1
                and isinstance(made.targets[0].target, cst.Name)
            ):
                return exact_dtype_of(module, made.value)
            return None
        case cst.Subscript(value):
            return exact_dtype_of(module, value)
    found_value = inferred(module, node)
    return "bool" if found_value.tensor and found_value.dtype == "bool" else None


def _of_call(module: Module, call: cst.Call, func: cst.BaseExpression) -> str | None:
    target = cast_target(module, call)
    if target is not None:
        return target
    name = module.name(func) or ""
    if name in ops.FACTORIES or name in _ARRAYS:
        given = keyword_argument(module, call, "dtype")
        if given is not None:
            return named_dtype(module, given)
        return exact_dtype_of(module, call.args[0].value) if name in _ARRAYS and call.args else None
    if name == "cv2.imread":
        return "uint8"
    if name.startswith("numpy."):
        return named_dtype(module, keyword_argument(module, call, "dtype"))
    if isinstance(func, cst.Attribute) and not name:
        if func.attr.value in _SAME:
            return exact_dtype_of(module, func.value)
        if func.attr.value == "to" and transfer_of(module, call) is not None:
            moved = transfer_of(module, call)
            given = moved.dtype if moved is not None else None
            return (
                named_dtype(module, given)
                if given is not None
                else exact_dtype_of(module, func.value)
            )
    value = inferred(module, call)
    return "bool" if value.tensor and value.dtype == "bool" else None
