"""Copies that the step itself writes to a file or hands to a queue: they are needed on the host
right there."""

from __future__ import annotations

import libcst as cst

from torchlint.semantic.code.flow import callees_of, reads_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import libraries, ops

_METHODS = frozenset("append_data put put_nowait save tofile write writeframes".split())
"""Of pictures, arrays, queues, and writers of files, videos and sound."""
_PACKAGES = ("numpy", "torch", "PIL", "torchvision", "cv2")
_PASSING = frozenset(("list", "tuple", "zip", "enumerate"))
_PARTS = (
    cst.BinaryOperation,
    cst.UnaryOperation,
    cst.Element,
    cst.DictElement,
    cst.Tuple,
    cst.List,
    cst.Dict,
)
_NAMES = 3
"""Names that a copy may be given before it is written."""


@question(
    yes="each use of the copy writes it to a file, or hands it to a queue, in the same step",
    no="the copy is not only written to a file",
    remember=False,
)
def saved_at_once(module: Module, copy: cst.BaseExpression) -> bool:
    """Say whether a copy to the host does nothing but to be written to a file, or to be handed to a
    queue, in the turn that makes it."""
    return _saved(module, copy, _NAMES)


def _saved(module: Module, node: cst.CSTNode, names: int) -> bool:
    above = module.parent(node)
    match above:
        case cst.Attribute(attr=cst.Name(attr)) if _is_called(module, above):
            return attr in _METHODS or _saved(module, module.parent(above) or above, names)
        case cst.Attribute(value=value) | cst.Subscript(value=value) if value is node:
            return _saved(module, above, names)
        case cst.Arg():
            call = module.parent(above)
            return isinstance(call, cst.Call) and _takes(module, call, above, names)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name(name))]):
            return _all_saved(module, above, name, names)
        case cst.For(target=cst.Name(name), iter=iterated) if iterated is node:
            return _all_saved(module, above, name, names)
    return isinstance(above, _PARTS) and _saved(module, above, names)


def _is_called(module: Module, node: cst.Attribute) -> bool:
    call = module.parent(node)
    return isinstance(call, cst.Call) and call.func is node


def _takes(module: Module, call: cst.Call, arg: cst.Arg, names: int) -> bool:
    """Say whether a call writes what it is given, or gives it to what does."""
    name = module.name(call.func) or ""
    package, _, last = name.partition(".")
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    if name in libraries.WRITERS:
        return True
    if package == "builtins" and last in ("zip", "enumerate"):
        item = _item_of(module, call, arg)
        return item is not None and _all_saved(module, item[0], item[1], names)
    if package in _PACKAGES or (package == "builtins" and last in _PASSING):
        return _saved(module, call, names)
    return not name and method in _METHODS and not callees_of(module, call)


def _item_of(module: Module, call: cst.Call, arg: cst.Arg) -> tuple[cst.For, str] | None:
    """Return the loop over what ``zip`` and ``enumerate`` give, and the name of the item that comes
    from one of their arguments."""
    path: list[int] = []
    while True:
        enumerates = isinstance(call.func, cst.Name) and call.func.value == "enumerate"
        path.append(1 if enumerates else call.args.index(arg))
        above = module.parent(call)
        outer = module.parent(above) if isinstance(above, cst.Arg) else None
        if not isinstance(above, cst.Arg) or not isinstance(outer, cst.Call):
            break
        call, arg = outer, above
    if not isinstance(above, cst.For):
        return None
    target: cst.BaseExpression = above.target
    for position in reversed(path):
        if not isinstance(target, cst.Tuple) or len(target.elements) <= position:
            return None
        target = target.elements[position].value
    return (above, target.value) if isinstance(target, cst.Name) else None


def _all_saved(module: Module, binding: cst.Assign | cst.For, name: str, names: int) -> bool:
    """Say whether each use of a name that a statement binds writes it, in the same turn."""
    if not names:
        return False
    scope = module.function(binding) or module.root
    turn = binding if isinstance(binding, cst.For) else next(iter(module.loops(binding)), scope)
    later = [
        read
        for read in reads_of(module, scope, name)
        if module.before(binding, read)
        and (isinstance(binding, cst.For) or not module.is_within(read, binding))
        and not _asks_for_a_fact(module, read)
    ]
    return bool(later) and all(
        module.is_within(read, turn) and _saved(module, read, names - 1) for read in later
    )


def _asks_for_a_fact(module: Module, read: cst.CSTNode) -> bool:
    above = module.parent(read)
    return isinstance(above, cst.Attribute) and above.attr.value in ops.HOST_ATTRIBUTES
