"""Host data that one expression sends to the device, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import argument_for, components, has_star, is_name, positional
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import arrays, ops
from torchlint.semantic.values.accelerator import on_accelerator
from torchlint.semantic.values.definitions_behind import constant
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.kept import made_once, refilled
from torchlint.semantic.values.place import named_device, on_device
from torchlint.semantic.values.tensor_types import only_sizes, tensor_type
from torchlint.semantic.values.value import ACCEL, CPU, CUDA

_SAME = ops.SAME_VALUES | ops.having("repeats") | ops.having("cast") | ops.having("move")
_TAKEN = ops.having("method", "part") | ops.having("pick", "own", "keeps-whole")
_DATA = ("list", "tuple", "ndarray", "iterator")
_HELD = ("ndarray", "list", "tuple", "tensor", "batch", "dict")
_SIZES = ops.having("attribute", "fact") | ops.having("method", "fact")
_NUMBERS = frozenset(f"builtins.{name}" for name in "int float max min abs round".split())
_LISTS = frozenset(f"builtins.{name}" for name in "list tuple sorted reversed zip".split())

_ENTRIES = ("forward", "__init__", "__call__")
_MAX_SITES = 12
_PACKAGES = ("numpy.", "torch.", "math.")

MADE, SIZE, RANDOM = "made", "size", "random"


@frozen
class Upload:
    """Host data on the way to the device.

    Args:
        node: what copies, or what makes the tensor that is copied elsewhere.
        data: the data.
    """

    node: cst.BaseExpression
    data: cst.BaseExpression


@question(
    yes="`{0}` sends host data to the device",
    no="`{0}` is not known to send host data to the device",
)
def upload_of(module: Module, call: cst.Call) -> Upload | None:
    """Return the host data that a call sends to the device: a tensor of them that is moved, or is
    made there."""
    transfer = transfer_of(module, call)
    if transfer is not None:
        maker = _maker(module, transfer.source)
        if maker is None or inferred(module, transfer.source).device != CPU:
            return None
        inside = module.is_within(maker, call)
        data = maker if _is_sample(module, maker) else maker.args[0].value
        return Upload(call if inside else maker, data)
    if not call.args or call.args[0].star or not on_accelerator(module):
        return None
    first = call.args[0].value
    return Upload(call, first) if _makes_there(module, call, first) else None


def _makes_there(module: Module, call: cst.Call, first: cst.BaseExpression) -> bool:
    """Say whether a call makes a tensor of host data that lies on the device."""
    if module.name(call.func) in ops.DATA_FACTORIES:
        device = keyword_argument(module, call, "device")
        there = named_device(module, device) in (CUDA, ACCEL)
        return there and inferred(module, first).kind in _DATA
    meant = tensor_type(module.called(call)) or inferred(module, call.func)
    if meant.kind == "type":
        given = [inferred(module, arg.value) for arg in call.args]
        return meant.device in (CUDA, ACCEL) and len(given) == 1 and not only_sizes(given)
    match call.func:
        case cst.Attribute(receiver, cst.Name("new" | "new_tensor")):
            data = inferred(module, first).kind in _DATA
            return data and on_device(module, receiver) is True
    return False


@question()
def _maker(module: Module, node: cst.BaseExpression) -> cst.Call | None:
    """Return the call that makes a tensor of host data, or draws one there, of which an expression
    is a view, a cast or a copy."""
    match node:
        case cst.Call() if _is_sample(module, node):
            return node
        case cst.Call(cst.Attribute(receiver, cst.Name(method))) if (
            method in _SAME | _TAKEN and module.name(node.func) is None
        ):
            return _maker(module, receiver)
        case cst.Call(func, [first, *rest]):
            name = module.name(func) or ""
            if name in ops.DATA_FACTORIES:
                return None if rest and rest[0].keyword is None else node
            return _maker(module, first.value) if name in ops.ALIASING_FUNCTIONS else None
        case cst.Subscript(value):
            return _maker(module, value)
        case cst.Name():
            found = definitions_of(module, node)
            match found[0] if len(found) == 1 else None:
                case cst.Assign([cst.AssignTarget(cst.Name())], value):
                    return _maker(module, value)
    return None


@question(yes="the tensor is made of `{answer}`", no="nothing shows of what the tensor is made")
def tensor_data(module: Module, tensor: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the host data of which a tensor is made, also where it is a view, a cast or a part."""
    maker = _maker(module, tensor)
    return maker.args[0].value if maker is not None and not _is_sample(module, maker) else None


def _is_sample(module: Module, call: cst.Call) -> bool:
    """Say whether a call draws from a distribution of torch, where its parameters lie."""
    match call.func:
        case cst.Attribute(made, cst.Name("sample" | "rsample")):
            return (inferred(module, made).name or "").startswith("torch.distributions.")
    return False


# -- what data are made of -------------------------------------------------------------------------


@question(
    yes="the data are {answer}",
    no="the data are not known to be constants, random numbers or made of sizes",
)
def host_data(module: Module, node: cst.BaseExpression) -> str | None:
    """Return what host data are: ``random`` numbers, ``sizes`` (computed of shapes and constants as
    torch could on the device), ``constant``, or None for what only the host may have."""
    words = _words(module, node)
    if words is None:
        return None
    if RANDOM in words:
        return "random"
    if MADE in words:
        return "sizes"
    return None if SIZE in words else "constant"


_Words = frozenset[str]
_NOTHING: _Words = frozenset()


@question()
def _words(module: Module, node: cst.CSTNode) -> _Words | None:
    """Return what an expression is computed of: nothing but constants, `SIZE`, `MADE`, `RANDOM`; or
    None where other things enter."""
    match node:
        case cst.BaseNumber() | cst.BaseString() | cst.Name("None" | "True" | "False"):
            return _NOTHING
        case cst.Name() | cst.Attribute() if elsewhere := constant(module, node):
            return _words(*elsewhere)
        case cst.Call():
            return _of_call(module, node)
        case cst.Name():
            return _of_name(module, node)
        case cst.Attribute():
            if (module.name(node) or "").startswith(_PACKAGES):
                return _NOTHING  # a dtype, or a number such as pi
            if node.attr.value in _SIZES and inferred(module, node.value).kind in _HELD:
                return frozenset([SIZE])
            if not is_name(node.value, "self"):
                return _words(module, node.value)
            cls = module.class_of(node)
            if cls is None or inferred(module, node).kind in (
                "module",
                "loader",
                "function",
                "object",
            ):
                return None
            kept = made_once(module, cls, node.attr.value) is not None
            return _NOTHING if kept and not refilled(module, cls, node.attr.value) else None
        case cst.ListComp(each, cst.CompFor(iter=iterated, ifs=[], inner_for_in=None)):
            # What a list is computed of: one whose element does not depend on what it goes over,
            # or a new one of the elements of another list, as torch could compute it of a
            # tensor.
            words = _common_words(module, [each, iterated])
            if words and module.names_in(node.for_in.target) & module.names_in(each):
                return words | {MADE}
            return words
    parts = _operands(node)
    return _common_words(module, parts) if parts is not None else None


def _operands(node: cst.CSTNode) -> Iterable[cst.CSTNode] | None:
    """Return the operands of an expression that computes with nothing else."""
    match node:
        case cst.UnaryOperation(expression=operand):
            return [operand]
        case cst.BinaryOperation(left, right=right):
            return [left, right]
        case cst.Comparison(left, others):
            return [left, *(each.comparator for each in others)]
        case cst.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case cst.List(elements) | cst.Tuple(elements) if elements:
            return [each.value for each in elements]
        case cst.Subscript(value, parts):
            return [value, *(part for each in parts for part in _bounds(each.slice))]
    return None


def _bounds(node: cst.BaseSlice) -> Iterator[cst.BaseExpression]:
    if isinstance(node, cst.Index):
        yield node.value
    elif isinstance(node, cst.Slice):
        yield from (each for each in (node.lower, node.upper, node.step) if each is not None)


def _common_words(module: Module, nodes: Iterable[cst.CSTNode]) -> _Words | None:
    found: _Words = _NOTHING
    for node in nodes:
        words = _words(module, node)
        if words is None:
            return None
        found |= words
    return found


def _of_name(module: Module, name: cst.Name) -> _Words | None:
    """Return what a name is computed of: what plain assignments gave it, in the function or once at
    the top of the file."""
    definition = sole_definition(module, name)
    if _is_filled(module, name):
        return None
    if definition is not None:
        return _words(module, definition)
    comprehended = _of_element(module, name)
    if comprehended is not None:
        return comprehended
    found: _Words = _NOTHING
    for each in definitions_of(module, name):
        words = _words(module, each.value) if isinstance(each, cst.Assign) else None
        if isinstance(each, cst.FunctionDef):
            words = _of_parameter(module, each, name.value)
        if words is None:
            return None
        found |= words
    return found


def _of_element(module: Module, name: cst.Name) -> _Words | None:
    """Return what the elements are computed of that a comprehension binds to a name."""
    for above in module.ancestors(name):
        if isinstance(above, (cst.FunctionDef, cst.Lambda)):
            return None
        each = above.for_in if isinstance(above, cst.ListComp) else None
        if each is not None and name.value in module.names_in(each.target):
            return _words(module, each.iter)
    return None


def _of_parameter(module: Module, function: cst.FunctionDef, name: str) -> _Words | None:
    """Return what the calls of a function in this file pass for a parameter, where it is a helper
    of theirs: a network's own input is data."""
    names = [param.name.value for param in function.params.params]
    sites = call_sites(module, function)
    if function.name.value in _ENTRIES or name not in names or not 0 < len(sites) <= _MAX_SITES:
        return None
    at = names.index(name) - (names[0] == "self")
    given = [argument_for(site, at, name) for site in sites]
    passed = [each for each in given if each is not None]
    return _common_words(module, passed) if len(passed) == len(sites) else None


def _is_filled(module: Module, name: cst.Name) -> bool:
    """Say whether the function writes into what a name holds, or may do so: ``x[i] = …``,
    ``x.append(…)``, ``shuffle(x)``."""
    for read in reads_of(module, module.scope(name), name.value):
        match above := module.parent(read):
            case cst.Subscript() if isinstance(
                module.parent(above), (cst.AssignTarget, cst.AugAssign)
            ):
                return True
            case cst.Attribute() | cst.Arg():
                call = module.parent(above)
                if isinstance(call, cst.Call) and isinstance(module.parent(call), cst.Expr):
                    return True
    return False


def _of_call(module: Module, call: cst.Call) -> _Words | None:
    if _is_sample(module, call):
        return frozenset([RANDOM])
    if has_star(call):
        return None
    name = module.called(call)
    given = positional(call)
    if _draws(module, call, name, given):
        return None if any(_is_data(module, each) for each in given) else frozenset([RANDOM])
    if name in arrays.MADE_OF_SIZES:
        filled = name == "numpy.full" and len(given) > 1
        counts = name not in arrays.SHAPED and not name.endswith("_like")
        if counts and any(_is_data(module, each) for each in given):
            return None
        own = frozenset([MADE])
        rest = _words(module, given[1]) if filled else _NOTHING
        return own | rest if rest is not None else None
    if name == "builtins.len":
        return frozenset([SIZE]) if given and inferred(module, given[0]).tensor else None
    if (name.startswith("numpy.") and not name.startswith("numpy.random.")) and (
        name not in arrays.READS
    ):
        return _common_words(module, given)
    if name in _NUMBERS or name in _LISTS or name in ops.ALIASING_FUNCTIONS:
        return _common_words(module, given)
    if not isinstance(call.func, cst.Attribute) or name:
        return None
    receiver = call.func.value
    if call.func.attr.value in _SIZES and inferred(module, receiver).kind in _HELD:
        return frozenset([SIZE])
    computes = inferred(module, receiver).kind in ("ndarray", "number", "shape")
    return _common_words(module, [receiver, *given]) if computes else None


def _draws(module: Module, call: cst.Call, name: str, given: list[cst.BaseExpression]) -> bool:
    """Say whether a call draws many random numbers, or the positions below a number; not one, which
    is for Python, and not elements of the host's own data."""
    if name in arrays.SHUFFLES:
        return bool(given) and inferred(module, given[0]).kind == "number"
    if name in arrays.RANDOM_NUMBERS or name in arrays.RANDOM:
        sized = name in arrays.RANDOM and (
            len(given) > arrays.RANDOM[name] or keyword_argument(module, call, "size") is not None
        )
        return sized or any(isinstance(above, cst.ListComp) for above in module.ancestors(call))
    return False


def _is_data(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an argument holds data, so that it is no size."""
    parts = components(node, cst.List, cst.Tuple)
    return any(inferred(module, each).kind in _HELD for each in parts)
