"""What names and uses alone say about a value whose definition is not known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cache

import libcst as cst

from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.torch.spelling import (
    CRITERION,
    DEVICE,
    LOADER,
    LOSS,
    MODEL,
    NUMBER,
    OPTIMIZER,
    SCALER,
    called,
)
from torchlint.semantic.values import library
from torchlint.semantic.values.backprop import COMPUTING, part_text, place_text
from torchlint.semantic.values.value import ACCEL, UNKNOWN, Value

_CALLED = (
    (LOADER, Value("loader", origin="name")),
    (CRITERION, Value("module", origin="name", name="loss")),
    (MODEL, Value("module", origin="name")),
    (OPTIMIZER, Value("optimizer", origin="name")),
    (SCALER, Value("scaler", origin="name")),
    (DEVICE, Value("device", device=ACCEL, origin="name")),
    (NUMBER, Value("plain", origin="name")),
)
"""What a name says, the first that does."""
NETWORK = Value("module", origin="name")
OF_NETWORKS = frozenset("parameters named_parameters train eval requires_grad_".split())
"""Methods that networks have, and nothing else that is called as well."""


@cache
def by_name(name: str) -> Value:
    """Return what a bare name suggests: a loader, model, criterion, optimizer, scaler or device, or
    a number of Python's."""
    return next((value for what, value in _CALLED if called(name, what)), UNKNOWN)


def is_text(node: cst.BaseExpression) -> bool:
    """Say whether an expression is a text that is written out, or several of them."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        return bool(node.elements) and all(is_text(each.value) for each in node.elements)
    return isinstance(node, cst.SimpleString)


_ANNOTATIONS = {
    "torch.Tensor": Value("tensor"),
    "torch.tensor": Value("tensor"),  # the function, as people write it
    **{
        f"torch.{old}": Value("tensor", dtype=dtypes.KINDS[f"torch.{dtype}"])
        for old, dtype in dtypes.LEGACY.items()
    },
    "torch.nn.Module": Value("module"),
    "torch.utils.data.DataLoader": Value("loader"),
    "torch.optim.Optimizer": Value("optimizer"),
    "torch.device": Value("device", device=ACCEL),
    "numpy.ndarray": Value("ndarray"),
    "numpy.array": Value("ndarray"),
    "builtins.int": Value("number", dtype="int"),
    "builtins.float": Value("number", dtype="float"),
    "builtins.bool": Value("bool"),
    "builtins.str": Value("str"),
}


def by_annotation(name: str | None) -> Value:
    """Return what a type annotation's dotted name says."""
    if name is None:
        return UNKNOWN
    if name.endswith((".Tensor", "jaxtyping.Float")) and (
        name.startswith(("torch", ".")) or name.endswith("kornia.core.Tensor")
    ):
        return Value("tensor")
    return _ANNOTATIONS.get(name) or library.instance(name)


def tensor_names(
    calls: Sequence[cst.Call],
    attributes: Sequence[cst.Attribute],
    trained: dict[str, bool],
    beside: Collection[str],
) -> dict[str, Value]:
    """Return the plain names on which methods or attributes are used that only tensors have.

    ``loss.backward()`` says more: a 0-dim tensor with a graph. Names in `trained` flow into such a
    loss: they live with the model, but for those that are moved here, and are tensors where that is
    certain (True), ``.item()`` is read from them, or they compute like one; so is what comes
    `beside` a loss, and what that holds.
    """
    moved = {
        call.func.value.value
        for call in calls
        if type(call.func) is cst.Attribute
        and type(call.func.value) is cst.Name
        and call.func.attr.value in MOVES
    }
    out = {name: _lives_with(name, moved) for name, certain in trained.items() if certain}
    for call in calls:
        if type(call.func) is not cst.Attribute:
            continue
        receiver, method = call.func.value, call.func.attr.value
        text = place_text(receiver)
        if method in _READS and (part := _part_beside(receiver, beside)) is not None:
            out.setdefault(part, _lives_with(part, moved))
        if text is None or text == "self":
            continue
        if method == "backward" and text not in ("torch", "ctx"):
            out[text] = Value("tensor", origin="loss", grad=True)
        elif method == "item" and text in trained:
            out.setdefault(text, _lives_with(text, moved))
        elif isinstance(receiver, cst.Name):
            used = _by_method(text, method, text in trained)
            if used is not None:
                unplaced = used.origin == "model" and text in moved
                out.setdefault(text, used.but(origin=None) if unplaced else used)
    for node in attributes:
        if type(node.value) is cst.Name and node.attr.value in ("grad_fn", "is_cuda"):
            out.setdefault(node.value.value, Value("tensor"))
    return out


def _by_method(text: str, method: str, trained: bool) -> Value | None:
    """Return what it says of a name that a method is called on it."""
    if method in ("item", "cpu") and called(text, LOSS):
        return Value("tensor", origin="loss")
    if trained and method in COMPUTING:
        return Value("tensor", origin="model")
    return Value("tensor") if method in _OWN_METHODS else None


def _part_beside(node: cst.BaseExpression, beside: Collection[str]) -> str | None:
    """Return the text of what comes beside a loss, ``kl`` or ``parts["kl"]``."""
    if type(node) is cst.Name:
        return node.value if node.value in beside else None
    if not beside or not isinstance(node, (cst.Attribute, cst.Subscript)):
        return None
    return (
        part_text(node) if isinstance(node.value, cst.Name) and node.value.value in beside else None
    )


def _lives_with(name: str, moved: Collection[str]) -> Value:
    """A tensor of the model's device, or, where it is moved, of one that is not known."""
    return Value("tensor", origin=None if name in moved else "model")


_READS = ("item", "detach", "cpu")
# Methods that arrays, strings, paths or modules have as well.
_OWN_METHODS = ops.having("own")
