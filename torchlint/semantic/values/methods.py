"""What methods of tensors, arrays, containers and loaders give."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.tree import is_name, keyword_of, positional
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.torch.spelling import RANK, called
from torchlint.semantic.values import plain, sharing
from torchlint.semantic.values.tensor_types import meant_type
from torchlint.semantic.values.value import (
    ACCEL,
    CPU,
    CUDA,
    INT,
    NDARRAY,
    NONE,
    NUMBER,
    SHAPE,
    STR,
    UNKNOWN,
    Value,
    graph_of,
    join,
    mix,
)

if TYPE_CHECKING:
    from torchlint.semantic.values.calls import Calls

_SEVERAL = ops.having("method", "several")
ON_REQUEST = ops.having("several-on-request")
_SECOND_WHOLE = ops.having("second-whole")
_SEVERAL_WITH_DIM = ops.having("reduce", "several-with-more")
_CASTS = {method: dtypes.KINDS[f"torch.{dtype}"] for method, dtype in dtypes.CASTS.items()}
SAME_RANK = ops.having("keeps-rank")
_FLATTENS = ops.having("method", "flattens")
_SHAPES = ("view", "reshape")
_NEW = ops.having("new")
_MOVES = ops.having("method", "move") | {"type"}


# What of all things that can be moved to a device only tensors have.
_OF_TENSORS = ops.having("own") & (ops.SAME_VALUES | ops.having("cast") | ops.having("pick")) | {
    "squeeze"
}
_TRUTH = Value("?", dtype="bool")
"""What a comparison gives of operands of which nothing is known."""
_OF_MOVED = (
    ops.having("method", "pointwise")
    | ops.having("method", "compare")
    | ops.having("method", "reduce")
    | ops.SAME_VALUES
    | ops.INT_METHODS - ops.having("cast")
)


def target_device(calls: Calls, node: cst.Call, args: list[Value]) -> str | None:
    """Return the device named by the arguments of ``.to(...)``, or None (a dtype only, or
    unknown)."""
    for arg, value in zip(node.args, args, strict=True):
        if arg.keyword is not None:
            if arg.keyword.value in ("device", "other"):
                return calls.device_of(value)
        elif arg.star == "" and value.kind != "dtype":
            found = calls.device_of(value)
            if (
                found is None
                and value.kind in ("?", "plain")
                and called(last_part(arg.value), RANK)
            ):
                return CUDA
            return found
        elif arg.star == "*" and value.items:
            return calls.device_of(value.items[0])
    return None


_MAPPING_METHODS = frozenset(("items", "keys", "values", "get", "pop"))


def tensor_method(
    calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]
) -> Value:
    """Return what a method of a tensor (or of a batch of tensors) gives."""
    if name in _MOVES:
        return _moved(calls, receiver, name, node, args)
    if name == "numpy":
        return NDARRAY
    if name in ("item", "tolist"):
        number = Value("number", dtype=receiver.dtype)
        return number if name == "item" else Value("list", item=number)
    if name in ("size", "shape"):
        return INT if node.args else SHAPE
    if name in ops.HOST_METHODS:
        return INT
    if name == "backward":
        return NONE
    if receiver.kind == "batch" or (receiver.loose and name in _MAPPING_METHODS):
        return UNKNOWN if _asks_flag(name, args) else _batch_method(receiver, name)
    if name in ("detach", "detach_"):
        return receiver.but(grad=False, node=None)
    if name in _CASTS:
        return receiver.but(dtype=_CASTS[name], node=None)
    if name in _NEW:
        where = next(
            (
                calls.device_of(v)
                for a, v in zip(node.args, args, strict=True)
                if keyword_of(a) == "device"
            ),
            receiver.device,
        )
        return Value("tensor", device=where, origin="factory", grad=False)
    foreign = name in _MAPPING_METHODS or (receiver.loose and name not in ops.METHODS)
    if foreign or not name.islower():
        # Not a method of tensors: the "tensor" is some other thing that a model or a batch holds,
        # or, by this branch, a dict. (That sparse tensors have ``values()`` is not modelled.)
        return UNKNOWN
    return _operated(calls, receiver, name, node, args)


def _operated(calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]) -> Value:
    """Return what an operation gives that is written as a method, and note what it does to its
    operands."""
    assert isinstance(node.func, cst.Attribute)
    calls.meet(name, [node.func.value, *[arg.value for arg in node.args[:1]]])
    if name == "requires_grad_":
        return receiver.but(grad=wants_grad(node, 0, otherwise=True))
    found = _computed(receiver, name, node, args)
    if not name.endswith("_"):
        return calls.without_graph(found)
    found = found.but(device=receiver.device or found.device)
    calls.written(node.func.value, receiver, found)
    return found


def _computed(receiver: Value, name: str, node: cst.Call, args: list[Value]) -> Value:
    """Return what an operation gives, written as a method of its first operand."""
    shaping = name.endswith("_as")  # ``x.expand_as(y)`` takes the shape of `y` and nothing else
    operands = [receiver, *([] if shaping else args)]
    result = mix([each for each in operands if each.tensor]).but(
        dtype=computed_dtype(receiver.dtype, name)
    )
    if sharing.takes_several(name) or name in ("max", "min"):
        result = result.but(grad=graph_of(operands))
    if name in _SEVERAL or (
        name in _SEVERAL_WITH_DIM and (node.args and not (args and args[0].tensor))
    ):
        return several(result.but(rank=None, node=None), name)
    if name in ON_REQUEST and as_tuple(node):
        return several(result.but(dtype="int", grad=False, rank=None, node=None), name)
    if name in ops.REDUCTIONS and not node.args:
        result = result.but(rank=0)
    elif name in _FLATTENS and not node.args:
        result = result.but(rank=1)
    elif name in _SHAPES and args and all(each.kind == "number" for each in args):
        result = result.but(rank=len(args))
    elif name not in SAME_RANK or any(a.kind not in ("tensor", "number", "bool") for a in args):
        result = result.but(rank=None)
    if name in ops.BOOL_METHODS:
        return result.but(dtype="bool", grad=False, node=None)
    if name in ops.INT_METHODS:
        return result.but(dtype="int", grad=False, node=None)
    return result.but(node=None)


def several(one: Value, name: str) -> Value:
    """Return what an operation gives that gives several tensors like one; where the second counts
    or is a place (``x.max(1)``), it has no graph."""
    places = one.but(dtype="int", grad=False)
    return Value("tuple", item=one, items=(one, places) if name in _SECOND_WHOLE else None)


def wants_grad(made: cst.Call, position: int, *, otherwise: bool | None) -> bool | None:
    """Say whether a call asks for a gradient, by keyword or at a position; None where it does not
    write out which."""
    given = positional(made)[position : position + 1]
    given += [a.value for a in made.args if keyword_of(a) == "requires_grad"]
    if not given:
        return otherwise
    said = given[0].value if isinstance(given[0], cst.Name) else ""
    return {"True": True, "False": False}.get(str(said))


_KEEPS_WHOLE = ops.having("keeps-whole")
_COUNTS = ops.having("counts")


def computed_dtype(dtype: str | None, name: str) -> str | None:
    """Return the kind of dtype that an operation on a tensor of such a dtype gives."""
    if dtype not in ("int", "bool"):
        return None if name in ("type_as", "view_as_complex", "heaviside") else dtype
    if name not in _KEEPS_WHOLE:
        return None
    return "int" if name in _COUNTS else dtype


def _moved(calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]) -> Value:
    if name in ("type", "type_as"):
        return _retyped(receiver, name, node, args)
    if name == "cpu":
        return receiver.but(device=CPU, node=None)
    if name == "cuda":
        return receiver.but(device=CUDA, node=None)
    where = target_device(calls, node, args)
    if where is None and node.args and all(v.kind == "dtype" for v in args):
        where = receiver.device
    moved = len(args) == 1 and args[0].kind in ("device", "str", "number")
    return receiver.but(device=where, dtype=receiver.dtype if moved else None, node=None)


def _retyped(receiver: Value, name: str, node: cst.Call, args: list[Value]) -> Value:
    if name == "type_as":
        return _computed(receiver, name, node, args).but(device=args[0].device if args else None)
    if not args:
        return STR
    meant = meant_type(args[0])
    if meant is None:
        kind = dtypes.KINDS.get(args[0].name or "") if args[0].kind == "dtype" else None
        return receiver.but(node=None, dtype=kind)
    return receiver.but(device=meant.device, dtype=meant.dtype, node=None)


def _batch_method(receiver: Value, name: str) -> Value:
    tensor = Value(
        "tensor", device=receiver.device, origin=receiver.origin, loose=True, grad=receiver.grad
    )
    if name == "items":
        return Value("iterator", item=Value("tuple", items=(STR, tensor)))
    if name == "keys":
        return Value("iterator", item=STR)
    if name == "values":
        return Value("iterator", item=tensor)
    return tensor


def plain_method(
    calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]
) -> Value | None:
    """Return what a method of an array, number, string, list, dict or loader gives; None where
    unknown."""
    kind = receiver.kind
    if kind == "ndarray":
        return {"item": NUMBER, "tolist": Value("list", item=NUMBER)}.get(name, NDARRAY)
    fixed = {"number": NUMBER, "shape": INT, "packed": receiver}.get(kind)
    if fixed is not None:
        return fixed
    if (kind == "bool" or receiver == _TRUTH) and (name in _CASTS or name == "type_as"):
        # ``(labels == c).float()`` of operands not known: no Python bool has such a method.
        like = args[0] if name == "type_as" and args else UNKNOWN
        return Value(
            "tensor", device=like.device, dtype=_CASTS.get(name, like.dtype), origin=like.origin
        )
    if kind == "str" and name == "format" and (receiver.name or "").startswith("cuda:"):
        return receiver  # ``"cuda:{}".format(n)`` names a device whatever the number is.
    if kind == "str":
        return plain.of_text(name)
    if kind == "list":
        return _list_method(calls, receiver, name, node, args)
    if kind == "dict":
        return _dict_method(receiver, name, args)
    if kind == "iterator" and name in ("next", "__next__"):
        return calls.element(receiver)
    if kind in ("optimizer", "scaler", "scheduler"):
        return args[0] if kind == "scaler" and name == "scale" and args else UNKNOWN
    if kind == "plain":
        return plain.device_option(receiver, node, args) or plain.method_of(receiver, name)
    return None


def _list_method(
    calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]
) -> Value:
    assert isinstance(node.func, cst.Attribute)
    text = dotted_text(node.func.value)
    if name in ("append", "extend", "insert") and args and text is not None:
        new = calls.element(args[-1]) if name == "extend" else args[-1]
        old = receiver.item
        calls.env[text] = receiver.but(item=new if old is None else join(old, new), items=None)
        return NONE
    if name == "pop":
        return receiver.item or UNKNOWN
    return receiver if name == "copy" else UNKNOWN


def _dict_method(receiver: Value, name: str, args: list[Value]) -> Value:
    key = args[0].name if args and args[0].kind == "str" else None
    item = receiver.under(key) or receiver.item or UNKNOWN
    if name == "items":
        return Value("iterator", item=Value("tuple", items=(UNKNOWN, item)))
    if name == "values":
        return Value("iterator", item=item)
    taken = name in ("get", "pop", "setdefault") and not _asks_flag(name, args)
    return item if taken else UNKNOWN


def _asks_flag(name: str, args: list[Value]) -> bool:
    """Say whether a mapping is asked for a flag, ``batch.get("padded", False)``: no tensor stands
    in for a truth value of Python's."""
    return name in ("get", "pop", "setdefault") and [each.kind for each in args[1:]] == ["bool"]


def as_tuple(node: cst.Call) -> bool:
    """Say whether positions are asked for as a tuple of tensors: ``x.nonzero(as_tuple=True)``."""
    given = (arg.value for arg in node.args if keyword_of(arg) == "as_tuple")
    return any(not is_name(value, "False") for value in given)


def by_method_name(
    calls: Calls, receiver: Value, name: str, node: cst.Call, args: list[Value]
) -> Value:
    """Return what a method of an unknown receiver gives, where its name alone decides."""
    placed = receiver.device is not None or receiver.origin is not None
    if receiver.kind == "?" and placed and (name.removesuffix("_") in _OF_MOVED or name in _NEW):
        moved = Value("tensor", device=receiver.device, origin=receiver.origin)
        return tensor_method(calls, moved, name, node, args)
    known = plain.device_option(receiver, node, args) or plain.by_text(name, args)
    if known is not None:
        return known
    if name == "numpy" and receiver.kind == "?" and not args:
        return NDARRAY
    if name == "tolist":
        return Value("list", item=NUMBER)
    if name in ("item", "numel", "dim"):
        return NUMBER
    if name == "size" and len(args) <= 1:
        return INT if args else SHAPE
    if name == "cpu" and not args:
        return Value("tensor", device=CPU)
    if name in _OF_TENSORS and receiver.kind == "?":
        return Value("tensor", device=receiver.device)
    if name == "detach":
        return Value("tensor", device=receiver.device, grad=False)
    if name in (
        "train_dataloader",
        "val_dataloader",
        "test_dataloader",
        "get_train_dataloader",
        "get_eval_dataloader",
    ):
        return Value("loader", origin="name")
    here = receiver.device == CPU and name in ops.METHODS and name not in _MOVES
    return Value("?", device=CPU if here else _sent_to(calls, name, node, args))


def _sent_to(calls: Calls, name: str, node: cst.Call, args: list[Value]) -> str | None:
    """Return where a method brings what it is called on, whatever that is."""
    if name == "cuda":
        return CUDA
    if name == "type" and len(args) == 1:
        meant = meant_type(args[0])
        return meant.device if meant is not None else None
    where = target_device(calls, node, args) if name == "to" else None
    return where if where in (CUDA, ACCEL) else None
