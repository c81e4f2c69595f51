"""Old tensor types as values: what ``torch.cuda.FloatTensor`` stands for, makes and moves to; and
flags that choose between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.tree import children, is_name, operands
from torchlint.semantic.torch import dtypes
from torchlint.semantic.torch.spelling import DEVICE_FLAG, called
from torchlint.semantic.values.value import CPU, CUDA, Value, join, moved_or_not

_AGAINST = regex(r"(^|_)(no|not|cpu|disable\w*|without)(_|$)", re.IGNORECASE)
"""What a word of a device flag says that speaks against a GPU: ``no_cuda``, ``args.cpu``."""
_BELOW = (cst.Equal, cst.Is, cst.LessThan, cst.LessThanEqual)


@cache
def tensor_type(name: str) -> Value | None:
    """Return the tensor type that a dotted name stands for, or None for any other thing."""
    package, _, last = name.rpartition(".")
    if package not in ("torch", "torch.cuda"):
        return None
    dtype = "float32" if last == "Tensor" and package == "torch" else dtypes.LEGACY.get(last)
    if dtype is None:
        return None
    device = CUDA if package == "torch.cuda" else CPU
    return Value("type", device=device, dtype=dtypes.KINDS[f"torch.{dtype}"], name=name)


def meant_type(value: Value) -> Value | None:
    """Return the tensor type that an argument of ``.type(…)`` means, as a type or in a string."""
    if value.kind == "type":
        return value
    return tensor_type(value.name) if value.kind == "str" and value.name is not None else None


def only_sizes(arguments: list[Value]) -> bool:
    """Say whether a tensor type is called with sizes, so that it makes an empty tensor; data are
    one argument."""
    return bool(arguments) and (
        all(each.kind == "shape" or _may_be_size(each) for each in arguments)
        and (len(arguments) > 1 or arguments[0].kind not in ("?", "plain"))
    )


def _may_be_size(value: Value) -> bool:
    return value.kind in ("?", "plain") or (value.kind == "number" and value.dtype in ("int", None))


@cache
def device_flag(test: cst.BaseExpression) -> bool:
    """Say whether a test asks for nothing but the device that the program runs on: ``use_cuda``,
    ``x.is_cuda and torch.cuda.is_available()``."""
    return all(any(called(word, DEVICE_FLAG) for word in _words(part)) for part in operands(test))


@cache
def holds_on_gpu(test: cst.BaseExpression) -> bool:
    """Say whether a test that asks for the device alone is true where the program runs on a GPU,
    ``use_cuda``, ``device.type != "cpu"``, or else where it does not."""
    match test:
        case cst.BooleanOperation(left, right=right):
            return holds_on_gpu(left) and holds_on_gpu(right)
        case cst.UnaryOperation(cst.Not(), inner):
            return not holds_on_gpu(inner)
    against = any(_AGAINST.search(word) for word in _words(test))
    match test:
        case cst.Comparison(comparisons=[cst.ComparisonTarget(op, other)]):
            number = isinstance(other, (cst.Integer, cst.UnaryOperation))
            if number or is_name(other, "None"):
                return against == isinstance(op, _BELOW)  # ``gpu is None``, ``gpu < 0``
            same = not isinstance(op, (cst.NotEqual, cst.IsNot, cst.NotIn))
            if is_name(other, "True", "False"):
                return (other.value == "True") == (same != against)  # ``use_cuda == False``
            return against != same
    return not against


def chosen(test: cst.BaseExpression, a: Value, b: Value) -> Value:
    """Return what is known of a value that is `a` where a test holds, and `b` where it does not."""
    if a.device == b.device or not device_flag(test):
        return join(a, b)
    return moved_or_not(a, b) if holds_on_gpu(test) else moved_or_not(b, a)


def _words(node: cst.CSTNode) -> Iterator[str]:
    if isinstance(node, cst.Name):
        yield node.value
    elif isinstance(node, cst.SimpleString):
        yield str(node.raw_value)
    else:
        for child in children(node):
            yield from _words(child)
