"""Calls of tensor factories: where values come from, and what ``device=`` would change."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.calls import arguments_of, keyword_argument
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import CPU

_DEPTH = 8
_TIED = frozenset(("generator", "out", "pin_memory"))
_EXACT = ops.having("factory", "exact")
_RANDOM = ops.having("factory", "random")
_SIZED = ops.having("factory", "only-sizes")
_ANY_DTYPE = ops.having("factory", "zero-one")
_WHOLE = dtypes.dotted(dtype for dtype in dtypes.of_kind("int") if dtype.name in ("int32", "int64"))
_SIZES = ("builtins.len", "builtins.isinstance", "builtins.type")
_ELEMENT_WRITERS = ops.having("host-memory")


@question(
    yes="the values come from `{answer}`", no="`{0}` is not made by a factory whose result moves"
)
def factories_of(module: Module, node: cst.BaseExpression, filled: bool = False) -> list[cst.Call]:
    """Return the factory calls of this function from which a tensor expression got its values,
    nearest first.

    Unless `filled` ones are wanted, a tensor whose elements the host reads or writes on the way
    counts as made of data, not by its factory.
    """
    return list(_factories(module, node, filled, _DEPTH))


def _factories(
    module: Module, node: cst.BaseExpression, filled: bool, depth: int
) -> Iterator[cst.Call]:
    inner: list[cst.BaseExpression] = []
    match node:
        case cst.Call(func=func) if module.name(func) in ops.FACTORIES:
            yield node
        case cst.Call(func=cst.Attribute(value=receiver)) if inferred(module, receiver).tensor:
            inner = [receiver]
        case cst.Call(func=func) if (module.name(func) or "").startswith("torch."):
            inner = [
                arg.value
                for arg in node.args
                if not arg.star and inferred(module, arg.value).tensor
            ]
        case cst.BinaryOperation(left=left, right=right):
            inner = [left, right]
        case cst.UnaryOperation(expression=operand) | cst.Subscript(value=operand):
            inner = [operand]
        case cst.Name():
            definition = _last_definition(module, node)
            if definition is not None and (filled or not _by_elements(module, node)):
                inner = [definition]
    if depth:
        for each in inner:
            yield from _factories(module, each, filled, depth - 1)


def _last_definition(module: Module, node: cst.Name) -> cst.BaseExpression | None:
    scope: cst.CSTNode = module.function(node) or module.root
    for write in reversed(
        [w for w in writes_of(module, scope, node.value) if module.before(w, node)]
    ):
        at = module.small_statement(write)
        if at is not None and module.is_within(node, at):
            continue  # ``x = x.to(d)`` binds after it has read.
        if isinstance(at, cst.Assign) and len(at.targets) == 1 and at.targets[0].target is write:
            return at.value
        return None
    return None


def _by_elements(module: Module, name: cst.Name) -> bool:
    """Say whether the function reads or writes single elements of a named tensor, or uses the
    host's copy elsewhere."""
    scope: cst.CSTNode = module.function(name) or module.root
    for read in reads_of(module, scope, name.value):
        above = module.parent(read)
        if _used_elsewhere(module, read, above):
            return True
        if isinstance(above, cst.Attribute) and above.attr.value in _ELEMENT_WRITERS:
            return True
        if isinstance(above, cst.Subscript) and isinstance(
            module.parent(above), (cst.AssignTarget, cst.AugAssign)
        ):
            return True
    return False


def _used_elsewhere(module: Module, read: cst.Name, above: cst.CSTNode | None) -> bool:
    """Say whether a tensor goes, while it is on the host, to code of others, to the caller, or to
    an object."""
    if inferred(module, read).device != CPU:
        return False
    match above:
        case cst.Arg():
            call = module.parent(above)
            name = module.name(call.func) if isinstance(call, cst.Call) else None
            receiver = (
                call.func.value
                if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
                else None
            )
            computes = (name or "").startswith("torch.") or name in _SIZES
            return not computes and (receiver is None or not inferred(module, receiver).tensor)
        case cst.Element():
            return isinstance(module.parent(module.parent(above) or above), cst.Return)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute())]):
            return True
    return isinstance(above, cst.Return)


@question(yes="`{0}` takes device=", no="`{0}` cannot take device=: an argument ties it to the CPU")
def takes_device(module: Module, factory: cst.Call) -> bool:
    """Say whether ``device=`` of a factory call spares a copy: nothing ties it to the CPU, and it
    has elements."""
    if _without_elements(module, factory):
        return False
    if any(
        arg.star == "**" or (arg.keyword is not None and arg.keyword.value in _TIED)
        for arg in factory.args
    ):
        return False
    # ``normal(mean, std)`` of two tensors takes none; with a size it does.
    sized = keyword_argument(module, factory, "size") is not None or len(factory.args) > 2
    return sized or module.name(factory.func) != "torch.normal"


def _without_elements(module: Module, factory: cst.Call) -> bool:
    """Say whether a size of a new tensor is written as 0: there is nothing to copy."""
    if (module.name(factory.func) or "").rpartition(".")[2] not in _SIZED:
        return False
    sizes = [arg.value for arg in factory.args if arg.keyword is None]
    if sizes and isinstance(sizes[0], (cst.Tuple, cst.List)):
        sizes = [element.value for element in sizes[0].elements]
    return any(isinstance(size, cst.Integer) and size.value == "0" for size in sizes)


@question(yes="device= would also change: {answer}", no="device= changes nothing but the place")
def device_effect(module: Module, factory: cst.Call) -> str:
    """Return what ``device=`` changes beside the place: ``random``, ``grad``, ``fill``, ``range``,
    joined by a comma.

    Random numbers come from another generator, ``.grad`` lands on another leaf, a fill value may be
    a tensor, and a range that is not of whole numbers may differ in the last place.
    """
    grad = keyword_argument(module, factory, "requires_grad")
    asked = grad is not None and not (isinstance(grad, cst.Name) and grad.value == "False")
    return ", ".join(
        each for each in (_effect_on_values(module, factory), "grad" if asked else "") if each
    )


def _effect_on_values(module: Module, factory: cst.Call) -> str:
    name = (module.name(factory.func) or "").rpartition(".")[2]
    if name in _RANDOM:
        return "random"
    if name in _EXACT:
        return ""
    if name == "full":
        fill = arguments_of(module, factory, "torch.full").value("fill_value")
        return (
            "" if fill is not None and inferred(module, fill).kind in ("number", "bool") else "fill"
        )
    return "" if name == "arange" and _whole(module, factory) else "range"


def _whole(module: Module, factory: cst.Call) -> bool:
    """Say whether a range is one of whole numbers."""
    dtype = keyword_argument(module, factory, "dtype")
    if dtype is not None and module.name(dtype) not in _WHOLE:
        return False
    numbers = [
        a.value
        for a in factory.args
        if a.keyword is None or a.keyword.value in ("start", "end", "step")
    ]
    return all(
        inferred(module, n).kind == "number" and inferred(module, n).dtype == "int" for n in numbers
    )


@question(yes="`{0}` is exact in every dtype", no="`{0}` is not exact in every dtype")
def any_dtype(module: Module, factory: cst.Call) -> bool:
    """Say whether a factory takes every dtype, and its values are exact in each: zeros, ones, an
    identity.

    Not of what is left empty: in torch's deterministic mode it is filled with NaN, or with the
    largest integer.
    """
    return (module.name(factory.func) or "").rpartition(".")[2] in _ANY_DTYPE
