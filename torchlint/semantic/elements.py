"""Elements of tensors: what is one tensor and not several, and loops that read every element on the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard

import libcst as cst

from torchlint.semantic.part import Part
from torchlint.semantic.values.value import ACCEL, CUDA

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_CASTS = {"builtins.float": "float", "builtins.int": "int", "builtins.bool": "bool", "torch.Tensor.item": "item"}
_READS = ("item", "float", "int", "bool", "complex")
_CONTAINERS = ("tensor", "list", "tuple", "iterator")
_TYPE_TESTS = ("builtins.isinstance", "torch.is_tensor", "builtins.type")
_FLAT_FACTORIES = frozenset(("torch.arange", "torch.linspace", "torch.logspace", "torch.randperm", "torch.flatten"))
_FLAT_METHODS = frozenset(("flatten", "ravel"))
_SAME_SHAPE = frozenset(
    ("cpu", "cuda", "to", "detach", "clone", "float", "double", "half", "long", "int", "contiguous")
)
# What may stand between an element and its read.
_PLAIN_STEPS = frozenset(("item", "detach", "data", "cpu", "to", "float", "double", "half", "squeeze"))
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class ElementRead:
    """One read on the host of an element of a tensor.

    Args:
        node: the read: ``v.item()``, ``float(v)``, ``int(v[0])``, or a whole ``map(float, t)``.
        how: ``item``, ``float``, ``int``, ``bool`` or ``complex``.
        direct: the use of the element, where it is the element itself that is read and not a part of it, else None.
    """

    node: cst.BaseExpression
    how: str
    direct: cst.CSTNode | None


@dataclass(frozen=True, slots=True)
class ElementReads:
    """All that a loop does with the elements of a device tensor, or of a list of them: it reads them on the host.

    Args:
        tensor: what the loop goes over.
        single: whether that is one tensor (True), or a list or tuple of tensors (False); None for either.
        reads: the reads, one at least.
        whole: the comprehension whose value is the elements that the one read gives and nothing else, or None.
    """

    tensor: cst.BaseExpression
    single: bool | None
    reads: tuple[ElementRead, ...]
    whole: cst.BaseExpression | None


class Elements(Part):
    """The part of `Module` that knows single tensors and their elements."""

    def one_tensor(self, node: cst.BaseExpression) -> bool:
        """Say whether an expression is certainly one tensor: not a list, a batch, or what a model may return."""
        value = self._module.value(node)
        return value.tensor and not value.loose and not self.asked_for_type(node)

    def asked_for_type(self, node: cst.BaseExpression) -> bool:
        """Say whether the function asks an expression for its type: then it may be a list of tensors."""
        return _asked(self._module, node)

    def one_dimensional(self, node: cst.BaseExpression) -> bool:
        """Say whether a tensor has exactly one dimension, by the way it was made."""
        return _flat(self._module, node, _DEPTH)

    def holds_device_tensors(self, node: cst.BaseExpression) -> bool:
        """Say whether a list or tuple holds tensors that are on the accelerator."""
        return _holds(self._module, node)

    def element_reads(self, loop: cst.For | cst.CompFor | cst.Call) -> Iterator[ElementReads]:
        """Yield what a loop, a comprehension or a ``map`` goes over and does nothing with but read its elements."""
        if isinstance(loop, cst.Call):
            yield from _mapped(self._module, loop)
        else:
            yield from _looped(self._module, loop)


def _asked(module: Module, node: cst.BaseExpression) -> bool:
    function = module.function(node)
    calls = module.within(function.body, cst.Call) if function is not None else ()
    return any(
        isinstance(c, cst.Call) and c.args and c.args[0].value.deep_equals(node) and module.name(c.func) in _TYPE_TESTS
        for c in calls
    )


def _holds(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.List(elements=elements) | cst.Tuple(elements=elements):
            return any(module.on_device(element.value) is True for element in elements)
        case cst.ListComp(elt=elt) | cst.GeneratorExp(elt=elt):
            return module.on_device(elt) is True
    value = module.value(node)
    item = value.item
    kept = value.kind in ("list", "tuple") and item is not None and item.tensor and not item.loose
    return kept and module.accel and item is not None and item.device in (CUDA, ACCEL)


def _flat(module: Module, node: cst.BaseExpression, depth: int) -> bool:
    if module.value(node).rank == 1:
        return True
    match node:
        case cst.Name() if depth:
            definition = module.definition(node)
            return definition is not None and _flat(module, definition, depth - 1)
        case cst.Call(func=func) if module.name(func) in _FLAT_FACTORIES:
            return module.name(func) != "torch.flatten" or len(node.args) == 1
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method)), args=args):
            if not module.value(inner).tensor:
                return False
            if method in ("view", "reshape"):
                return len(args) == 1 and _minus_one(args[0].value)
            return (method in _FLAT_METHODS and not args) or (method in _SAME_SHAPE and _flat(module, inner, depth))
    return False


def _minus_one(node: cst.BaseExpression) -> bool:
    match node:
        case cst.UnaryOperation(operator=cst.Minus(), expression=cst.Integer(value="1")):
            return True
    return False


# -- loops ----------------------------------------------------------------------------------------------------------


def _looped(module: Module, loop: cst.For | cst.CompFor) -> Iterator[ElementReads]:
    holder = loop if isinstance(loop, cst.For) else _holder(module, loop)
    parts = _repeated(loop, holder)
    for goes in module.over(loop):
        if not isinstance(goes.target, cst.Name) or not _iterable(module, goes.iterated):
            continue
        name = goes.target.value
        uses = [u for part in parts for u in module.reads(part, name) if module.value(u).kind not in ("number", "bool")]
        # What is a tensor in some calls of a helper only may stand beside plain numbers: they cannot be stacked.
        if any(module.value(use).kind in ("?", "accumulated") for use in uses):
            continue
        found = [_read(module, use) for use in uses]
        reads = tuple(read for read in found if read is not None)
        if reads and len(reads) == len(found):
            whole = holder if _exactly(holder, reads[0].node, goes.iterated) else None
            yield ElementReads(goes.iterated, _single(module, goes.iterated), reads, whole)


def _holder(module: Module, loop: cst.CompFor) -> cst.CSTNode:
    return next(a for a in module.ancestors(loop) if not isinstance(a, cst.CompFor))


def _repeated(loop: cst.For | cst.CompFor, holder: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what is done with each element: a loop's body, or a comprehension's element and conditions."""
    if isinstance(loop, cst.For):
        return [loop.body]
    out: list[cst.CSTNode] = [*loop.ifs]
    if isinstance(holder, cst.DictComp):
        out += [holder.key, holder.value]
    elif isinstance(holder, (cst.ListComp, cst.SetComp, cst.GeneratorExp)):
        out.append(holder.elt)
    if loop.inner_for_in is not None:
        out.append(loop.inner_for_in)
    return out


def _iterable(module: Module, node: cst.BaseExpression) -> bool:
    value = module.value(node)
    return value.kind in _CONTAINERS and not (value.tensor and value.rank == 0)


def _single(module: Module, node: cst.BaseExpression) -> bool | None:
    if module.value(node).kind in ("list", "tuple"):
        return False
    return True if module.one_tensor(node) else None


def _read(module: Module, use: cst.CSTNode) -> ElementRead | None:
    """Return the read on the host in which a use of an element ends."""
    node = use
    while True:
        above = module.parent(node)
        if isinstance(above, cst.Call):
            found = next((r for r in module.scalar_reads(above) if r.how in _READS), None)
            if found is not None and module.is_within(use, found.tensor):
                return ElementRead(found.node, found.how, use if found.tensor is use and _bare(above, use) else None)
            if above.func is not node or above.args:
                return None
        elif isinstance(above, (cst.Attribute, cst.Subscript)):
            if above.value is not node or (isinstance(above, cst.Attribute) and above.attr.value not in _PLAIN_STEPS):
                return None
        elif not isinstance(above, cst.Arg):
            return None
        node = above


def _bare(read: cst.Call, use: cst.CSTNode) -> bool:
    """Say whether nothing stands between the element and its read, as ``.cpu()`` may."""
    if isinstance(read.func, cst.Attribute):
        return read.func.value is use
    return read.args[0].value is use


def _exactly(holder: cst.CSTNode, node: cst.CSTNode, iterated: cst.CSTNode) -> TypeGuard[cst.BaseExpression]:
    match holder:
        case (
            cst.ListComp(elt=elt, for_in=cst.CompFor(iter=at, ifs=[], inner_for_in=None, asynchronous=None))
            | cst.GeneratorExp(elt=elt, for_in=cst.CompFor(iter=at, ifs=[], inner_for_in=None, asynchronous=None))
        ):
            return elt is node and at is iterated
    return False


def _mapped(module: Module, call: cst.Call) -> Iterator[ElementReads]:
    if module.name(call.func) != "builtins.map" or len(call.args) != 2 or any(arg.star for arg in call.args):
        return
    how, tensor = _mapper(module, call.args[0].value), call.args[1].value
    if how is None or not _iterable(module, tensor):
        return
    if module.on_device(tensor) is True or module.holds_device_tensors(tensor):
        yield ElementReads(tensor, _single(module, tensor), (ElementRead(call, how, None),), None)


def _mapper(module: Module, function: cst.BaseExpression) -> str | None:
    match function:
        case cst.Lambda(
            params=cst.Parameters(params=[cst.Param(name=cst.Name(value=name))]),
            body=cst.Call(func=cst.Attribute(value=cst.Name(value=used), attr=cst.Name(value="item")), args=[]),
        ):
            return "item" if used == name else None
    return _CASTS.get(module.name(function) or "")


__all__ = ["ElementRead", "ElementReads", "Elements"]
