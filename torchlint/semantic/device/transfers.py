"""Copies that bring a tensor to the accelerator, and what they copy."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.calls import arguments_of
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import assigned_values
from torchlint.semantic.code.scopes import method_of, scopes
from torchlint.semantic.code.tree import attr_of, has_star, keyword_of, method_called, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import REMEMBERS
from torchlint.semantic.time.iterations import spelled_alike
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import DEVICE, RANK, called
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import named_device, on_device
from torchlint.semantic.values.tensor_types import meant_type
from torchlint.semantic.values.value import ACCEL, CUDA

_METHODS = ops.having("move") - {"cpu"} | {"type"}
TRANSFERS = tuple(f".{name}" for name in sorted(_METHODS))
"""Calls of which `transfer_of` says something."""
_OF_NETWORKS = ops.having("module") - ops.having("method")
_OF_OTHER = ("other", "non_blocking", "copy")

_CASTS = ops.having("cast") - ops.having("move")
"""Methods that change the dtype, and not the device."""


@frozen
class Transfer:
    """One call of ``.to``, ``.cuda``, ``.type_as`` or ``.type`` whose target is the accelerator.

    Args:
        call: the call.
        source: the expression that is moved.
        device: `CUDA` or `ACCEL`.
        target: the expression that names the device, or the tensor or the old tensor type (`like`)
            whose device and dtype are meant; None for ``.cuda()``.
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


@question(yes="`{0}` moves data to the accelerator", no="`{0}` is no move to the accelerator")
def transfer_of(module: Module, call: cst.Call) -> Transfer | None:
    """Return the transfer to the accelerator that a method call asks for, or None where it asks for
    none."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value not in _METHODS:
        return None
    if not on_accelerator(module) or module.name(func) is not None or has_star(call):
        return None
    if func.attr.value == "type_as":
        return _like(module, call, func.value, call.args[0].value) if len(call.args) == 1 else None
    if func.attr.value == "type":
        return _typed(module, call, func.value)
    if func.attr.value == "cuda":
        bound = arguments_of(module, call, "Tensor.cuda")
        given = frozenset(bound.named)
        return Transfer(call, func.value, CUDA, bound.value("device"), False, None, given)
    source = func.value
    first = call.args[0] if call.args else None
    if first is None:
        return None
    keyword = keyword_of(first)
    if keyword == "other" or (not keyword and inferred(module, first.value).tensor):
        return _like(module, call, source, first.value)
    bound = arguments_of(module, call, "Tensor.to")
    target, dtype = bound.value("device"), bound.value("dtype")
    if target is None:
        return None
    device = named_device(module, target)
    last = last_part(target)
    if device is None and called(last, RANK):
        device = CUDA
    elif device is None and inferred(module, target).kind == "str" and called(last, DEVICE):
        device = ACCEL
    if device not in (CUDA, ACCEL):
        return None
    return Transfer(call, source, device, target, False, dtype, frozenset(bound.named))


def _typed(module: Module, call: cst.Call, source: cst.BaseExpression) -> Transfer | None:
    if not call.args or call.args[0].keyword is not None:
        return None
    target = call.args[0].value
    meant = meant_type(inferred(module, target))
    if meant is None or meant.device not in (CUDA, ACCEL):
        return None
    given = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    return Transfer(call, source, meant.device, target, True, None, frozenset(given))


def _like(
    module: Module, call: cst.Call, source: cst.BaseExpression, other: cst.BaseExpression
) -> Transfer | None:
    meant = inferred(module, other)
    named = method_called(call) == "type_as"
    if named and meant.kind == "?" and meant.device in (CUDA, ACCEL):
        pass  # Only a tensor can be meant there.
    elif on_device(module, other) is not True:
        return None
    device = meant.device or ACCEL
    given = {
        arg.keyword.value if arg.keyword else name
        for arg, name in zip(call.args, _OF_OTHER, strict=False)
    }
    return Transfer(call, source, device, other, True, None, frozenset(given))


@question(
    yes="the result is kept, and a condition spares later calls the work",
    no="the result is not kept",
)
def is_cached(module: Module, node: cst.CSTNode) -> bool:
    """Say whether what a statement stores is kept, and a condition spares later calls the work.

    So it is where the branch also sets the attribute that its test compares: what it makes is as
    good as the shape that it was made for. What a function makes is kept where `lru_cache` or the
    like decorates it.
    """
    function = module.function(node)
    if function is not None and any(
        name in REMEMBERS for _, name in scopes(module).decorators(function)
    ):
        return True
    statement = module.small_statement(node)
    if not isinstance(statement, cst.Assign):
        return False
    tests = [test for test, _ in conditions_around(module, node)]
    if any(_sets_what_it_asks(module, test) for test in tests):
        return True
    places = list(_places(statement))
    return any(_speaks_of(module, test, place) for test in tests for place in places) or any(
        _stores_what_lacked(module, test, statement) for test in tests
    )


def _stores_what_lacked(module: Module, test: cst.CSTNode, statement: cst.Assign) -> bool:
    """Say whether a test asks for the name that a statement binds, and its branch stores that:
    ``table = cache.get(key)``, ``if table is None: table = …; cache[key] = table``."""
    branch = module.parent(test)
    names = {each.target.value for each in statement.targets if isinstance(each.target, cst.Name)}
    if not isinstance(branch, cst.If) or names.isdisjoint(module.names_in(test)):
        return False
    return any(
        isinstance(kept.value, cst.Name)
        and kept.value.value in names
        and not isinstance(kept.targets[0].target, cst.Name)
        for kept in module.within(branch.body, cst.Assign)
    )


def _places(statement: cst.Assign) -> Iterator[cst.Attribute | cst.Name]:
    """Yield the attributes and the tables that an assignment keeps its value in."""
    for target in statement.targets:
        at: cst.CSTNode = target.target
        at = root_of(at, cst.Subscript)
        if isinstance(at, cst.Attribute) or (isinstance(at, cst.Name) and at is not target.target):
            yield at


def _speaks_of(module: Module, test: cst.CSTNode, place: cst.Attribute | cst.Name) -> bool:
    """Say whether a test asks for a place, also by its name in a string."""
    if spelled_alike(module, test, place):
        return True
    return isinstance(place, cst.Attribute) and any(
        s.raw_value == place.attr.value for s in module.within(test, cst.SimpleString)
    )


def _sets_what_it_asks(module: Module, test: cst.CSTNode) -> bool:
    """Say whether the branch of a test assigns an attribute that the test compares."""
    branch = module.parent(test)
    if not isinstance(branch, cst.If):
        return False
    asked = {dotted_text(each) for each in module.within(test, cst.Attribute)}
    return any(
        isinstance(target.target, cst.Attribute) and dotted_text(target.target) in asked
        for target in module.within(branch.body, cst.AssignTarget)
    )


@question(
    yes="`{0}` is a network, which the code around runs or has do what networks alone do",
    no="`{0}` is not known to be a network",
)
def is_network_moved(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what is moved is a network: the code around runs it, or has it do what networks
    alone do: ``for net in nets: net = net.to(device); net(x)``."""
    if inferred(module, source).kind == "module":
        return True
    if not isinstance(source, cst.Name):
        return False
    for read in reads_of(module, module.scope(source), source.value):
        above = module.parent(read)
        if isinstance(above, cst.Call) and above.func is read:
            return True
        if attr_of(above) in _OF_NETWORKS and isinstance(module.parent(above), cst.Call):
            return True
    return False


# -- what is certainly a tensor --------------------------------------------------------------------

# What other objects with a ``.to`` lack, though arrays have it.
_WITH_TO = ops.having("with-to")
_NOT_FUNCTIONS = ("torch.utils.", "torch.is_tensor", "torch.save", "torch.nn.Module")


@question(
    yes="`{0}` is cast to another dtype first, into memory that no loader pins",
    no="`{0}` is not known to be cast before it is moved",
)
def cast_before(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what is moved is a cast, where it is not known that the tensor has the dtype
    already: then it lies in new memory of the host."""
    made = assigned_values(module, source) if isinstance(source, cst.Name) else [source]
    return bool(made) and all(_casts(module, each) for each in made)


def _casts(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Call(cst.Attribute(inner, cst.Name(method))) if method in _CASTS:
            known = inferred(module, inner).dtype
            return known is None or known != inferred(module, node).dtype
    return False


@question(
    yes="`{0}` is used as only a tensor is",
    no=(
        "nothing proves that `{0}` is a tensor: other things have the same method (a graph, an "
        "encoding, a module)"
    ),
)
def certainly_tensor(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether the code uses what is moved, or what the move is assigned to, as nothing but a
    tensor can be.

    A batch's elements may be any object with a ``.to``: graphs, nested tensors, encodings of a
    tokenizer.
    """
    scope: cst.CSTNode = module.scope(source)
    names = {source.value} if isinstance(source, cst.Name) else set()
    names.update(moved_names(module, source))
    func = module.parent(source)
    call = module.parent(func)
    if call is not None and _used_as_tensor(module, call):
        return True
    return any(
        _used_as_tensor(module, read) for name in names for read in reads_of(module, scope, name)
    )


@question(remember=False)
def moved_names(module: Module, source: cst.BaseExpression) -> Iterator[str]:
    """Yield the name to which the call that moves `source` is assigned, alone or as part of a
    tuple."""
    statement = module.small_statement(source)
    if not isinstance(statement, cst.Assign):
        return
    for target in statement.targets:
        pairs: list[tuple[cst.CSTNode, cst.BaseExpression]] = [(target.target, statement.value)]
        if isinstance(target.target, cst.Tuple) and isinstance(statement.value, cst.Tuple):
            pairs = [
                (a.value, b.value)
                for a, b in zip(target.target.elements, statement.value.elements, strict=False)
            ]
        for left, right in pairs:
            moved = (
                isinstance(right, cst.Call)
                and isinstance(right.func, cst.Attribute)
                and right.func.value is source
            )
            if isinstance(left, cst.Name) and moved:
                yield left.value


@question()
def _used_as_tensor(module: Module, read: cst.CSTNode) -> bool:
    above = module.parent(read)
    match above:
        case cst.Attribute(value, cst.Name(attr)) if value is read:
            return attr in ops.TENSOR_ONLY_METHODS or attr in _WITH_TO
        case cst.Arg(star=""):
            call = module.parent(above)
            return isinstance(call, cst.Call) and _takes_tensor(module, call, above)
    return False


def _takes_tensor(module: Module, call: cst.Call, arg: cst.Arg) -> bool:
    name = module.called(call)
    if (
        name.startswith("torch.")
        and not name.startswith(_NOT_FUNCTIONS)
        and name not in ops.NO_TENSOR
    ):
        return not name.startswith("torch.nn.") or name.startswith("torch.nn.functional.")
    callee = inferred(module, call.func)
    if callee.kind == "module" and (callee.name or "").startswith("torch.nn."):
        return True
    if callee.kind != "module" or not isinstance(callee.node, cst.ClassDef):
        return False
    forward = method_of(module, callee.node, "forward")
    if forward is None or arg.keyword is not None:
        return False
    position = next(i for i, each in enumerate(call.args) if each is arg) + 1
    params = forward.params.params
    if position >= len(params):
        return False
    name = params[position].name.value
    return any(_used_as_tensor(module, read) for read in reads_of(module, forward.body, name))
