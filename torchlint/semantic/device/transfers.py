"""Copies that bring a tensor to the accelerator, and what they copy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.torch import api as torch_api
from torchlint.semantic.values.evidence import is_device_name
from torchlint.semantic.values.object_uses import ObjectUse, Way, binding_uses, may_follow, object_uses
from torchlint.semantic.values.observers import sees_variables
from torchlint.semantic.values.tensor_origins import host_roots
from torchlint.semantic.values.value import ACCEL, CUDA

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_METHODS = frozenset(("to", "cuda", "type_as"))
_RANKS = frozenset(("rank", "local_rank", "gpu", "gpu_id", "gpu_idx", "LOCAL_RANK"))
_OF_OTHER = ("other", "non_blocking", "copy")


@dataclass(frozen=True, slots=True)
class Transfer:
    """One call of ``.to``, ``.cuda`` or ``.type_as`` whose target is the accelerator.

    Args:
        call: the call.
        source: the expression that is moved.
        device: `CUDA` or `ACCEL`.
        target: the expression that names the device, or the tensor (`like`) whose device and dtype are meant;
            None for ``.cuda()``.
        dtype: the dtype that the same call casts to, if any.
        given: the names of all parameters that the call gives.
    """

    call: cst.Call
    source: cst.BaseExpression
    device: str
    target: cst.BaseExpression | None
    like: bool
    dtype: cst.BaseExpression | None
    given: frozenset[str]


def transfer(module: Module, call: cst.Call) -> Transfer | None:
    """Return the transfer to the accelerator that a method call asks for, or None where it asks for none."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _METHODS:
        return None
    if not module.accel or module.name(func) is not None or any(arg.star for arg in call.args):
        return None
    if func.attr.value == "type_as":
        return _like(module, call, func.value, call.args[0].value) if len(call.args) == 1 else None
    if func.attr.value == "cuda":
        bound = module.arguments(call, "Tensor.cuda")
        given = frozenset(bound.named)
        return Transfer(call, func.value, CUDA, bound.value("device"), False, None, given)
    return _to(module, call, func.value)


def _to(module: Module, call: cst.Call, source: cst.BaseExpression) -> Transfer | None:
    first = call.args[0] if call.args else None
    if first is None:
        return None
    keyword = first.keyword.value if first.keyword is not None else ""
    if keyword == "other" or (not keyword and module.value(first.value).tensor):
        return _like(module, call, source, first.value)
    bound = module.arguments(call, "Tensor.to")
    target, dtype = bound.value("device"), bound.value("dtype")
    if target is None:
        return None
    device = module.devlike(target)
    last = (dotted_text(target) or "").rpartition(".")[2]
    if device is None and last in _RANKS:
        device = CUDA
    elif device is None and module.value(target).kind == "str" and is_device_name(last):
        device = ACCEL
    if device not in (CUDA, ACCEL):
        return None
    return Transfer(call, source, device, target, False, dtype, frozenset(bound.named))


def _like(module: Module, call: cst.Call, source: cst.BaseExpression, other: cst.BaseExpression) -> Transfer | None:
    if module.on_device(other) is not True:
        return None
    device = module.value(other).device or ACCEL
    given = {arg.keyword.value if arg.keyword else name for arg, name in zip(call.args, _OF_OTHER, strict=False)}
    return Transfer(call, source, device, other, True, None, frozenset(given))


def cached(module: Module, node: cst.CSTNode) -> bool:
    """Say whether what a statement stores is kept, and a condition spares later calls the work."""
    statement = module.small_statement(node)
    if not isinstance(statement, cst.Assign):
        return False
    places: list[cst.Attribute | cst.Name] = []
    for target in statement.targets:
        at: cst.CSTNode = target.target
        while isinstance(at, cst.Subscript):
            at = at.value
        if isinstance(at, cst.Attribute) or (isinstance(at, cst.Name) and at is not target.target):
            places.append(at)
    for test, _ in module.tests(node):
        for place in places:
            if module.same(test, place):
                return True
            if any(
                isinstance(s, cst.SimpleString) and isinstance(place, cst.Attribute) and s.raw_value == place.attr.value
                for s in module.within(test, cst.SimpleString)
            ):
                return True
    return False


# -- what is certainly a tensor -------------------------------------------------------------------------------------

# What other objects with a ``.to`` lack, though arrays have it.
_WITH_TO = frozenset("shape ndim requires_grad is_cuda view reshape flatten long".split())
_NOT_FUNCTIONS = ("torch.utils.", "torch.is_tensor", "torch.save", "torch.nn.Module")


def certainly_tensor(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether the code uses what is moved, or what the move is assigned to, as nothing but a tensor can be.

    A batch's elements may be any object with a ``.to``: graphs, nested tensors, encodings of a tokenizer.
    """
    scope: cst.CSTNode = module.function(source) or module.root
    names = {source.value} if isinstance(source, cst.Name) else set()
    names.update(_targets(module, source))
    func = module.parent(source)
    call = module.parent(func) if func is not None else None
    if call is not None and _used_as_tensor(module, call, 2):
        return True
    return any(_used_as_tensor(module, read, 2) for name in names for read in module.reads(scope, name))


def _targets(module: Module, source: cst.BaseExpression) -> Iterator[str]:
    """Yield the name to which the call that moves `source` is assigned, alone or as part of a tuple."""
    statement = module.small_statement(source)
    if not isinstance(statement, cst.Assign):
        return
    for target in statement.targets:
        pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = [(target.target, statement.value)]
        if isinstance(target.target, cst.Tuple) and isinstance(statement.value, cst.Tuple):
            pairs = [(a.value, b.value) for a, b in zip(target.target.elements, statement.value.elements, strict=False)]
        for left, right in pairs:
            moved = isinstance(right, cst.Call) and isinstance(right.func, cst.Attribute) and right.func.value is source
            if isinstance(left, cst.Name) and moved:
                yield left.value


def _used_as_tensor(module: Module, read: cst.CSTNode, depth: int) -> bool:
    above = module.parent(read)
    match above:
        case cst.Attribute(value=value, attr=cst.Name(value=attr)) if value is read:
            return attr in torch_api.TENSOR_ONLY_METHODS or attr in _WITH_TO
        case cst.Arg(star=""):
            call = module.parent(above)
            return isinstance(call, cst.Call) and _takes_tensor(module, call, above, depth)
    return False


def _takes_tensor(module: Module, call: cst.Call, arg: cst.Arg, depth: int) -> bool:
    name = module.name(call.func) or ""
    if name.startswith("torch.") and not name.startswith(_NOT_FUNCTIONS) and name not in torch_api.NOT_TENSOR:
        return not name.startswith("torch.nn.") or name.startswith("torch.nn.functional.")
    callee = module.value(call.func)
    if callee.kind == "module" and (callee.name or "").startswith("torch.nn."):
        return True
    if not depth or callee.kind != "module" or not isinstance(callee.node, cst.ClassDef):
        return False
    forward = module.method(callee.node, "forward")
    if forward is None or arg.keyword is not None:
        return False
    position = next(i for i, each in enumerate(call.args) if each is arg) + 1
    params = forward.params.params
    if position >= len(params):
        return False
    name = params[position].name.value
    return any(_used_as_tensor(module, read, depth - 1) for read in module.reads(forward.body, name))


def changed_later(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether the host's copy is written in place after the move, while the name still means that copy."""
    if not isinstance(source, cst.Name) or source.value in _targets(module, source):
        return False
    for read in module.reads(module.function(source) or module.root, source.value):
        if not module.before(source, read):
            continue
        above = module.parent(read)
        if isinstance(above, cst.Subscript) and isinstance(module.parent(above), (cst.AssignTarget, cst.AugAssign)):
            return True
        if isinstance(above, cst.Attribute) and above.attr.value.endswith("_"):
            return True
    return False


# Work on another stream does not wait for a copy on this one.
_STREAMS = re.compile(r"\bStream\b|\bset_stream\b|\bstream\(|CUDAGraph|cuda\.graph")


def may_overlap(module: Module, transfer: Transfer) -> bool | None:
    """Say whether a copy may overlap with what the host does next, as nothing writes its source before it has ended.

    None where the source is not certain to be a tensor of torch's own, that the turn of the loop has made.
    """
    roots = host_roots(module, transfer.source)
    if roots is None:
        return None
    if module.mentions(_STREAMS) or sees_variables(module):
        return False
    for root in roots:
        uses = (
            binding_uses(module, root.node, root.name, "host", root.part)
            if root.name
            else object_uses(module, root.node, "host")
        )
        if any(_endangers(module, use, transfer.call, root.node) for use in uses):
            return False
    return True


def _endangers(module: Module, use: ObjectUse, copy: cst.Call, origin: cst.CSTNode) -> bool:
    """Say whether a use of the source may write it while the copy is on its way."""
    if use.read is not None and _rebinds(module, copy, use.read.value) and use.reached in _sources(module, copy):
        return False  # The name still means what was to be copied: so it has not been copied.
    if use.reached is not None and use.reached is _choice(module, copy):
        return False  # What is not a copy came out of the other branch.
    if use.way is Way.WRITTEN:
        return may_follow(module, use, copy, origin)
    return use.way in (Way.ESCAPES, Way.GROWN)


def _choice(module: Module, copy: cst.Call) -> cst.CSTNode | None:
    """Return the assignment of ``y = y.cuda() if on_gpu else y``, where the copy is one branch."""
    above = module.parent(copy)
    assign = module.parent(above) if isinstance(above, cst.IfExp) and above.test is not copy else None
    return assign if isinstance(assign, cst.Assign) else None


def _rebinds(module: Module, copy: cst.Call, name: str) -> bool:
    statement = module.small_statement(copy)
    return isinstance(statement, cst.Assign) and any(
        name in module.names_in(target.target) for target in statement.targets if _plain_names(target.target)
    )


def _plain_names(target: cst.CSTNode) -> bool:
    if isinstance(target, cst.Tuple):
        return all(isinstance(element.value, cst.Name) for element in target.elements)
    return isinstance(target, cst.Name)


def _sources(module: Module, copy: cst.Call) -> list[cst.CSTNode]:
    """Return the bindings of the name to which the call chain that copies belongs: `y` of ``y.long().cuda()``."""
    at: cst.CSTNode = copy
    while isinstance(at, (cst.Call, cst.Attribute, cst.Subscript)):
        at = at.func if isinstance(at, cst.Call) else at.value
    return module.definitions(at) if isinstance(at, cst.Name) else []
