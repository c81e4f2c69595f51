"""What the body of a loop does: whether its iterations are independent, and whether torch could do
them at once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import callees_of, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.tree import Function
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import carried_reads, spelled_alike
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred

_PLAIN_BUILTINS = frozenset(
    "builtins." + n
    for n in (
        "range len enumerate zip int float bool abs min max sum tuple list slice isinstance"
    ).split()
)
_GROWERS = ("append", "extend", "insert", "add", "appendleft", "update")
_LEAVES = (
    cst.Break,
    cst.Return,
    cst.Raise,
    cst.Yield,
    cst.Await,
    cst.With,
    cst.Try,
    cst.While,
    cst.Global,
    cst.Del,
)
_NOT_ELEMENTWISE = (
    "torch.nn.",
    "torch.autograd.",
    "torch.distributed.",
    "torch.cuda.",
    "torch.utils.",
    "torch.save",
)


@question(yes="`{0}` is a size of a tensor", no="`{0}` is not a size of a tensor")
def is_size(module: Module, node: cst.CSTNode | None, depth: int = 3) -> bool:
    """Say whether a number is a size of a tensor: ``x.shape[0]``, ``x.size(1)``, ``len(x)``, or
    computed from one."""
    match node:
        case cst.Subscript(value=holder):
            return _shape_of_tensor(module, holder)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value="size" | "numel")), args=[_, *_]):
            return True
        case cst.Call(func=cst.Name(value="len"), args=[cst.Arg(value=holder)]):
            value = inferred(module, holder)
            return value.tensor and not value.loose
        case cst.Call(func=cst.Name(value="int" | "min" | "max"), args=args):
            return any(is_size(module, arg.value, depth) for arg in args)
        case cst.BinaryOperation(left=left, right=right):
            return is_size(module, left, depth) or is_size(module, right, depth)
        case cst.Name() if depth:
            return _name_sized(module, node, depth)
    return False


def _shape_of_tensor(module: Module, node: cst.CSTNode) -> bool:
    match node:
        case (
            cst.Attribute(attr=cst.Name(value="shape"), value=holder)
            | cst.Call(func=cst.Attribute(attr=cst.Name(value="size"), value=holder), args=[])
        ):
            return inferred(module, holder).kind not in ("ndarray", "list")
    return False


def _name_sized(module: Module, node: cst.Name, depth: int) -> bool:
    definition = sole_definition(module, node)
    if definition is not None:
        return is_size(module, definition, depth - 1)
    function = module.function(node) or module.root
    writes = writes_of(module, function, node.value)
    statements = [module.small_statement(write) for write in writes]
    unpacked = [
        s
        for s in statements
        if isinstance(s, cst.Assign) and not isinstance(s.targets[0].target, cst.Name)
    ]
    return (
        bool(unpacked)
        and len(unpacked) == len(writes)
        and all(_unpacks_size(module, s, node, depth) for s in unpacked)
    )


def _unpacks_size(module: Module, statement: cst.Assign, name: cst.Name, depth: int) -> bool:
    # ``b, n = x.shape``, and ``b, device = x.size(0), x.device``.
    if _shape_of_tensor(module, statement.value):
        return True
    target, value = statement.targets[0].target, statement.value
    if (
        not isinstance(target, cst.Tuple)
        or not isinstance(value, cst.Tuple)
        or len(target.elements) != len(value.elements)
    ):
        return False
    pairs = zip(target.elements, value.elements, strict=True)
    return any(t.value.deep_equals(name) and is_size(module, v.value, depth - 1) for t, v in pairs)


@question(
    yes="no iteration needs an earlier one",
    no="an iteration needs what an earlier one made, or ends the loop",
)
def independent_rounds(module: Module, loop: cst.For) -> bool:
    """Say whether no iteration of a loop needs what an earlier one has made, and none ends the
    loop.

    Running sums and lists that only grow do not count as needing.
    """
    body = loop.body
    if (
        any(True for _ in module.within(body, *_LEAVES))
        or loop.orelse is not None
        or carried_reads(module, loop)
    ):
        return False
    for target in _targets(module, body):
        if isinstance(target, cst.Attribute):
            return False
        if isinstance(target, cst.Subscript) and _reads_other(module, body, target):
            return False
    return not any(_grown_and_read(module, body, call) for call in _calls(module, body))


def _targets(module: Module, body: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    for node in module.within(body, cst.Assign, cst.AugAssign):
        if isinstance(node, cst.Assign):
            found = [t.target for t in node.targets]
        else:
            found = [getattr(node, "target")]  # noqa: B009
        for target in found:
            elements = target.elements if isinstance(target, (cst.Tuple, cst.List)) else ()
            yield from (e.value for e in elements) if elements else (target,)


def _reads_other(module: Module, body: cst.CSTNode, target: cst.Subscript) -> bool:
    """Say whether a tensor that an iteration writes into is also read, but for the very part that
    is written."""
    holder = target.value
    while isinstance(holder, cst.Subscript):
        holder = holder.value
    for use in spelled_alike(module, body, holder):
        above = module.parent(use)
        if isinstance(above, cst.Subscript) and above.value is use and above.deep_equals(target):
            continue
        if isinstance(above, cst.Attribute) and above.attr.value in (
            "shape",
            "device",
            "dtype",
            "ndim",
            "size",
        ):
            continue
        if isinstance(above, cst.Subscript) and isinstance(module.parent(above), cst.AssignTarget):
            continue
        return True
    return False


def _calls(module: Module, body: cst.CSTNode) -> list[cst.Call]:
    return list(module.within(body, cst.Call))


def _grown_and_read(module: Module, body: cst.CSTNode, call: cst.Call) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _GROWERS:
        return False
    uses = spelled_alike(module, body, func.value)
    receivers = [c.func for c in _calls(module, body)]
    grows = [
        f.value for f in receivers if isinstance(f, cst.Attribute) and f.attr.value in _GROWERS
    ]
    return any(use not in grows for use in uses)


@question(yes="the loop does tensor work only", no="the loop does more than tensor work")
def only_tensor_work(module: Module, body: cst.CSTNode, depth: int = 2) -> bool:
    """Say whether every call inside `body` is a torch operation, a list's ``append``, or a function
    of only such."""
    return all(_plain(module, call, depth) for call in _calls(module, body))


def _plain(module: Module, call: cst.Call, depth: int) -> bool:
    name = module.name(call.func)
    if name is not None and name.startswith("torch."):
        functional = name.startswith("torch.nn.functional.")
        return functional or (not name.startswith(_NOT_ELEMENTWISE) and name not in ops.NO_TENSOR)
    if name in _PLAIN_BUILTINS:
        return True
    func = call.func
    if isinstance(func, cst.Attribute) and name is None:
        value = inferred(module, func.value)
        method = func.attr.value
        if value.kind in ("tensor", "accumulated", "number", "shape"):
            return not value.loose or method in ops.TENSOR_ONLY_METHODS or method in ops.REDUCTIONS
        if method in _GROWERS and dotted_text(func.value) is not None:
            return value.kind in ("list", "?")
        if method in ops.TENSOR_ONLY_METHODS:
            return True
    callees = callees_of(module, call)
    return (
        bool(callees) and depth > 0 and all(_function_plain(module, f, depth - 1) for f in callees)
    )


def _function_plain(module: Module, function: Function, depth: int) -> bool:
    body = function.body
    if any(True for _ in module.within(body, cst.For, cst.While, cst.Yield, cst.Raise)):
        return False
    return only_tensor_work(module, body, depth)


__all__ = ["independent_rounds", "is_size", "only_tensor_work"]
