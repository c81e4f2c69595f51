"""Elements of tensors: what is one tensor and not several, and loops that read every element on the
host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.reaching import definitions_of, read_after
from torchlint.semantic.code.tree import has_star
from torchlint.semantic.device.host_reads import scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.object_uses import ObjectUse, shared_loop
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import ACCEL, CUDA

_CASTS = {
    "builtins.float": "float",
    "builtins.int": "int",
    "builtins.bool": "bool",
    "torch.Tensor.item": "item",
}
_READS = ("item", "float", "int", "bool", "complex")
_CONTAINERS = ("tensor", "list", "tuple", "iterator")
_TYPE_TESTS = ("builtins.isinstance", "torch.is_tensor", "builtins.type")
_FLAT = ops.dotted("flat")
# What may stand between an element and its read.
_PLAIN_STEPS = ops.SAME_VALUES | ops.having("cast") | ops.having("move") | {"item", "data"}
_OF_TENSORS = ops.TENSOR_ONLY_METHODS | ops.having("weak") | {"clone", "dim", "shape"}


@frozen
class ElementRead:
    """One read on the host of an element of a tensor.

    Args:
        node: the read: ``v.item()``, ``float(v)``, ``int(v[0])``, or a whole ``map(float, t)``.
        how: ``item``, ``float``, ``int``, ``bool`` or ``complex``.
        direct: the use of the element, where it is the element itself that is read and not a part
            of it, else None.
    """

    node: cst.BaseExpression
    how: str
    direct: cst.CSTNode | None


@frozen
class ElementReads:
    """All that a loop does with the elements of a device tensor, or of a list of them: it reads
    them on the host.

    Args:
        tensor: what the loop goes over.
        single: whether that is one tensor (True), or a list or tuple of tensors (False); None for
            either.
        reads: the reads, one at least.
        whole: the comprehension whose value is the elements that the one read gives and nothing
            else, or None.
    """

    tensor: cst.BaseExpression
    single: bool | None
    reads: tuple[ElementRead, ...]
    whole: cst.BaseExpression | None


@question(
    yes="the code asks `{0}` for its type: it may be a list",
    no="the code does not ask for its type",
)
def asked_for_type(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the function asks an expression for its type: then it may be a list of
    tensors."""
    function = module.function(node)
    calls = module.within(function.body, cst.Call) if function is not None else ()
    return any(
        c.args and c.args[0].value.deep_equals(node) and module.name(c.func) in _TYPE_TESTS
        for c in calls
    )


@question(yes="`{0}` holds tensors on the device", no="`{0}` is not known to hold device tensors")
def holds_device_tensors(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a list or tuple holds tensors that are on the accelerator."""
    match node:
        case cst.List(elements) | cst.Tuple(elements):
            return any(on_device(module, element.value) is True for element in elements)
        case cst.ListComp(elt) | cst.GeneratorExp(elt):
            return on_device(module, elt) is True
    value = inferred(module, node)
    item = value.item
    if value.kind == "list" and (item is None or not item.tensor):
        return any(on_device(module, each) is True for each in _appended(module, node))
    kept = value.kind in ("list", "tuple") and item is not None and item.tensor and not item.loose
    return kept and on_accelerator(module) and item is not None and item.device in (CUDA, ACCEL)


def _appended(module: Module, node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what the function appends to a list of its own."""
    if isinstance(node, cst.Name) and isinstance(sole_definition(module, node), cst.List):
        for read in reads_of(module, module.scope(node), node.value):
            match module.parent(module.parent(read) or read):
                case cst.Call(cst.Attribute(holder, cst.Name("append")), [cst.Arg(value)]):
                    if holder is read:
                        yield value


@question()
def _is_flat(module: Module, node: cst.BaseExpression) -> bool:
    if inferred(module, node).rank == 1:
        return True
    match node:
        case cst.Name():
            definition = sole_definition(module, node)
            return definition is not None and _is_flat(module, definition)
        case cst.Call(func):
            return module.name(func) in _FLAT
    return False


def base_of_views(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression of which one is a view or a part, or may be the tensor itself."""
    while True:
        match node:
            case cst.Call(cst.Attribute(inner, cst.Name(name))) if module.name(node.func) is None:
                if name not in ops.ALIASING_METHODS:
                    return node
                node = inner
            case cst.Call(func, [cst.Arg(inner), *_]) if (
                module.name(func) in ops.ALIASING_FUNCTIONS
            ):
                node = inner
            case cst.Subscript(inner):
                node = inner
            case _:
                return node


def certainly_later(module: Module, use: ObjectUse, node: cst.CSTNode, origin: cst.CSTNode) -> bool:
    """Say whether a use comes only after `node` has run, for the object that `origin` makes."""
    if use.at is None or not module.before(node, use.at) or module.is_within(use.at, node):
        return False
    return not shared_loop(module, use.at, node, origin)


# -- loops -----------------------------------------------------------------------------------------


def _holder(module: Module, loop: cst.CompFor) -> cst.CSTNode:
    return next(a for a in module.ancestors(loop) if not isinstance(a, cst.CompFor))


def _repeated(loop: cst.For | cst.CompFor, holder: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what is done with each element: a loop's body, or a comprehension's element and
    conditions."""
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
    value = inferred(module, node)
    return value.kind in _CONTAINERS and not (value.tensor and value.rank == 0)


def _single(module: Module, node: cst.BaseExpression) -> bool | None:
    if inferred(module, node).kind in ("list", "tuple"):
        return False
    return True if one_tensor(module, node) else None


def _read(module: Module, use: cst.CSTNode) -> ElementRead | None:
    """Return the read on the host in which a use of an element ends."""
    node = use
    while True:
        above = module.parent(node)
        if isinstance(above, cst.Call):
            found = next((r for r in scalar_reads(module, above) if r.how in _READS), None)
            if found is not None and module.is_within(use, found.tensor):
                read, how = _innermost(above), found.how
                direct = use if found.tensor is use and _is_read_at_once(read, use) else None
                return ElementRead(read, "item" if read is not above else how, direct)
            if above.func is not node or above.args:
                return None
        elif isinstance(above, (cst.Attribute, cst.Subscript)):
            if above.value is not node or (
                isinstance(above, cst.Attribute) and above.attr.value not in _PLAIN_STEPS
            ):
                return None
        elif not isinstance(above, cst.Arg):
            return None
        node = above


def _innermost(read: cst.Call) -> cst.Call:
    """Return ``x.item()`` of ``float(x.item())``, where x is to be a number."""
    match read:
        case cst.Call(args=[cst.Arg(cst.Call(cst.Attribute(attr=cst.Name("item"))))]):
            inner = read.args[0].value
            return inner if isinstance(inner, cst.Call) else read
    return read


def _is_read_at_once(read: cst.Call, use: cst.CSTNode) -> bool:
    """Say whether nothing stands between the element and its read, as ``.cpu()`` may."""
    if isinstance(read.func, cst.Attribute):
        return read.func.value is use
    return read.args[0].value is use


def _exactly(
    holder: cst.CSTNode, node: cst.CSTNode, iterated: cst.CSTNode
) -> TypeGuard[cst.BaseExpression]:
    match holder:
        case cst.ListComp(
            elt, cst.CompFor(iter=at, ifs=[], inner_for_in=None, asynchronous=None)
        ) | cst.GeneratorExp(
            elt, cst.CompFor(iter=at, ifs=[], inner_for_in=None, asynchronous=None)
        ):
            return elt is node and at is iterated
    return False


def _mapped(module: Module, call: cst.Call) -> Iterator[ElementReads]:
    if module.name(call.func) != "builtins.map" or len(call.args) != 2 or has_star(call):
        return
    how, tensor = _CASTS.get(module.name(call.args[0].value) or ""), call.args[1].value
    if how is None or not _iterable(module, tensor):
        return
    if on_device(module, tensor) is True or holds_device_tensors(module, tensor):
        yield ElementReads(tensor, _single(module, tensor), (ElementRead(call, how, None),), None)


@question(yes="`{0}` is one tensor", no="`{0}` may be a list or several tensors")
def one_tensor(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is certainly one tensor: not a list, a batch, or what a model may
    return."""
    value = inferred(module, node)
    if not value.tensor or asked_for_type(module, node):
        return False
    return _asked_as_tensor(module, node) if value.loose else not _by_a_name(module, node)


def _asked_as_tensor(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the function asks what a name is bound to for what no list, tuple or dict has:
    ``labels.clone()``, ``labels.shape``."""
    if not isinstance(node, cst.Name):
        return False
    made = definitions_of(module, node)
    return any(
        isinstance(above := module.parent(use), cst.Attribute)
        and above.attr.value in _OF_TENSORS
        and definitions_of(module, use) == made
        for use in reads_of(module, module.scope(node), node.value)
    )


def _by_a_name(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether something returned a value of which the name alone says that it is a loss or a
    model: it may as well return a list of losses, which is why somebody goes over them."""
    made: list[cst.BaseExpression | None] = [node]
    if isinstance(node, cst.Name):
        _, bindings = module.names.bindings(node.value, node)
        made = [binding.value for binding in bindings if binding.kind == "assign"]
    calls = [each for each in made if isinstance(each, cst.Call)]
    return any(inferred(module, call.func).origin == "name" for call in calls)


@question(yes="`{0}` has one dimension", no="`{0}` is not known to have one dimension")
def one_dimensional(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a tensor has exactly one dimension, by the way it was made."""
    return _is_flat(module, node)


@question(
    yes="the loop reads every element on the host",
    no="the loop does not read every element on the host",
)
def element_reads(module: Module, loop: cst.For | cst.CompFor | cst.Call) -> Iterator[ElementReads]:
    """Yield what a loop, a comprehension or a ``map`` goes over and does nothing with but read its
    elements."""
    if isinstance(loop, cst.Call):
        yield from _mapped(module, loop)
    else:
        holder = loop if isinstance(loop, cst.For) else _holder(module, loop)
        parts = _repeated(loop, holder)
        for goes in loop_sources(module, loop):
            if not isinstance(goes.target, cst.Name) or not _iterable(module, goes.iterated):
                continue
            name = goes.target.value
            uses = [
                u
                for part in parts
                for u in reads_of(module, part, name)
                if inferred(module, u).kind not in ("number", "bool")
            ]
            # What is a tensor in some calls of a helper only may stand beside plain numbers: they
            # cannot be stacked.
            if any(inferred(module, use).kind in ("?", "accumulated") for use in uses):
                continue
            if isinstance(loop, cst.For) and read_after(module, loop, name):
                continue  # It would be a number there.
            found = [_read(module, use) for use in uses]
            reads = tuple(read for read in found if read is not None)
            if reads and len(reads) == len(found):
                whole = holder if _exactly(holder, reads[0].node, goes.iterated) else None
                yield ElementReads(goes.iterated, _single(module, goes.iterated), reads, whole)
