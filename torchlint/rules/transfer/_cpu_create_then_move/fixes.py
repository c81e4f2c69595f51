"""Fixes that build a tensor on the device: at its factory, or with all that it is computed with."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from torchlint.fixes.notes import safe_unless
from torchlint.rule import (
    Fix,
    Module,
    NodeEdit,
    Remove,
    Replace,
    Rewrite,
    Transfer,
    conditions_around,
    inferred,
    keyword_argument,
    nested,
    with_keyword,
)
from torchlint.rules.transfer._cpu_create_then_move.placement import placement_of, spare_move
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.tree import attr_of, components, method_called
from torchlint.semantic.device.factories import (
    any_dtype,
    device_effect,
    is_sized_type,
    size_by_name,
)
from torchlint.semantic.device.transfers import certainly_tensor
from torchlint.semantic.question import question
from torchlint.semantic.torch import dtypes, ops
from torchlint.semantic.uses.assumptions import PATCHED, TORCH
from torchlint.semantic.values.tensor_types import device_flag

_CASTS = frozenset(("long", "float", "bool"))
_STEPS = (
    _CASTS | {"repeat"} | ops.having("method", "view") - ops.having("part") - ops.having("spreads")
)
_ZERO_ONE = {
    **dict.fromkeys(("0", "0.0", "0.", "False"), "zeros"),
    **dict.fromkeys(("1", "1.0", "1.", "True"), "ones"),
}
"""What makes a tensor of these numbers, as they are written."""
_REAL_DTYPES = dtypes.spelled(dtypes.FULL)
_EYE_DTYPES = _REAL_DTYPES | dtypes.spelled(dtypes.of_kind("complex"))
"""Dtypes for which every factory of zeros and ones exists; torch.eye has no others."""
_FILLED_DTYPES = dtypes.spelled(dtypes.DTYPES)
_DTYPES = dtypes.dotted(dtypes.DTYPES)
_STRANGE = frozenset("layout memory_format names".split())
_NOTES = {
    "random": (
        "The CPU generator is no longer advanced: the numbers, later CPU draws and the "
        "next shuffle change."
    ),
    "range": "The values may differ in the last place from those that the CPU computes.",
    "fill": "The fill value is not known to be a plain number.",
    "grad": "The tensor on the device becomes the leaf that gets .grad.",
    "cuda": (
        "Where the argument is None, .cuda(None) means the current GPU, but device=None the CPU."
    ),
    "other": "What gives the device may be no tensor, or is evaluated twice.",
    "cast": "The values are made in the other dtype at once instead of being converted to it.",
    "dtype": (
        "Where the dtype given to .to is None, the tensor keeps its own, and gets the "
        "default one from the factory."
    ),
    "rounds": "What is computed on the device may round differently in the last place.",
    "several": "Tensors on several devices can no longer be indexed with it.",
    "items": "A tensor with dimensions among the items of the loop's sequence would raise.",
    "view": "What was moved is a view, with the strides of one, and is no longer copied.",
    "named": "That the argument is a size, and no data, is said by its name alone.",
}


@question(remember=False)
def shown_choice_of_device(module: Module, transfer: Transfer, factory: cst.Call) -> str | None:
    """Return the device in words where a test decides whether the tensor is moved: ``if use_cuda: z
    = z.cuda()`` leaves a program that also runs without a GPU."""
    made = {test for test, _ in conditions_around(module, factory)}
    tests = [each for each in conditions_around(module, transfer.call) if each[0] not in made]
    if transfer.target is not None or len(tests) != 1 or not device_flag(tests[0][0]):
        return None
    test, truth = tests[0]
    there, elsewhere = ('"cuda"', '"cpu"') if truth else ('"cpu"', '"cuda"')
    return f"{there} if {module.shown(test)} else {elsewhere}"


@question(remember=False)
def shown_device(module: Module, factory: cst.Call, device: str) -> str:
    """Return the device that a repair makes a tensor on; `device` where there is none."""
    placement = placement_of(module, factory)
    return module.shown(placement.device) if placement is not None else device


def moved_fix(module: Module, transfer: Transfer, factory: cst.Call) -> Fix | None:
    """Return the fix that passes ``device=`` to a factory at the start of the moved chain of
    calls."""
    given = {arg.keyword.value for arg in factory.args if arg.keyword is not None}
    direct = transfer.source is factory or not (transfer.like or transfer.dtype)
    if (
        transfer.given & {"copy", "memory_format"}
        or given & _STRANGE
        or not direct
        or method_called(transfer.call) == "type"
        or is_sized_type(module, factory)
        or not _chain(module, transfer, factory)
    ):
        return None
    cuda = cst.SimpleString('"cuda"')
    options: dict[str, cst.BaseExpression] = {"device": transfer.target or cuda}
    if _may_be_no_number(transfer) and transfer.target is not None and _repeatable(transfer.target):
        # .cuda(None) means the current GPU, but device=None the CPU.
        unset = cst.parse_expression(f"{module.source_of(transfer.target)} is None")
        options["device"] = cst.IfExp(unset, cuda, transfer.target)
    if transfer.like and transfer.target is not None:
        options = {
            name: cst.Attribute(transfer.target, cst.Name(name)) for name in ("device", "dtype")
        }
    elif transfer.dtype is not None:
        options["dtype"] = transfer.dtype
    new = factory
    for name, value in options.items():
        new = with_keyword(new, name, value)
    edit = Replace(
        transfer.call,
        new if transfer.source is factory else transfer.source.deep_replace(factory, new),
    )
    whys = [
        *_factory_effects(module, factory),
        *_effects(module, transfer, factory),
    ]
    notes, title = (_NOTES[why] for why in whys), "Pass device= to the factory"
    return safe_unless(notes, [edit], title, {TORCH: PATCHED})


def placed_fix(module: Module, factory: cst.Call) -> Fix | None:
    """Return the fix that makes on the device what a factory makes, and what it is computed with,
    where all uses of it meet the device."""
    placement = placement_of(module, factory)
    if placement is None:
        return None
    rewrites: dict[cst.BaseExpression, Rewrite] = {}
    for each in placement.factories:
        rewrites[each] = partial(_with_device, module, each, placement.device)
        filled = maker_in_place_of(module, each)[1] if is_sized_type(module, each) else None
        if filled is not None:
            rewrites[filled] = partial(_without_move, False)
    removed: list[NodeEdit] = []
    for move in placement.moves:
        line = spare_move(module, move)
        if line is None:
            # Whether what is moved needs no parentheses where the move stands.
            one_line = "\n" not in module.root.code_for_node(move.source)
            operation = isinstance(
                move.source, (cst.BinaryOperation, cst.Comparison, cst.UnaryOperation)
            )
            rewrites[move.call] = partial(
                _without_move,
                one_line
                and operation
                and isinstance(module.parent(move.call), (cst.Assign, cst.Return)),
            )
        else:
            removed.append(Remove(line, remark=True))
    whys = [*placement.changes]
    for each in placement.factories:
        if not is_sized_type(module, each):
            whys.extend(_factory_effects(module, each))
        elif size_by_name(module, each):
            whys.append("named")
    notes = (_NOTES[why] for why in sorted(set(whys)))
    edits = (*nested(module, rewrites), *removed)
    return safe_unless(notes, edits, "Make it on the device", {TORCH: PATCHED})


def _with_device(
    module: Module, factory: cst.Call, device: cst.BaseExpression, new: cst.Call
) -> cst.BaseExpression:
    """Return a factory's call with ``device=``; an old type that is given sizes becomes
    ``torch.empty``, or what gives the number at once that it is filled with."""
    if is_sized_type(module, factory):
        new = _of_sizes(new, maker_in_place_of(module, factory)[0])
    return with_keyword(new, "device", device)


@question(remember=False)
def maker_in_place_of(module: Module, factory: cst.Call) -> tuple[str, cst.Call | None]:
    """Return what torch calls the factory that takes the place of an old type, and the call right
    behind it that fills the tensor, which then goes."""
    match call := module.method_call(factory):
        case cst.Call(cst.Attribute(attr=cst.Name("zero_")), []):
            return "zeros", call
        case cst.Call(
            cst.Attribute(attr=cst.Name("fill_")),
            [cst.Arg(value, None, star="")],
        ):
            number = _ZERO_ONE.get(module.source_of(value))
            return (number, call) if number is not None else ("empty", None)
    return "empty", None


def _of_sizes(new: cst.Call, maker: str) -> cst.Call:
    func = new.func
    assert isinstance(func, cst.Attribute)
    called = new.with_changes(func=func.with_changes(attr=cst.Name(maker)))
    dtype = dtypes.LEGACY.get(func.attr.value)
    if dtype is None:
        return called
    return with_keyword(called, "dtype", cst.Attribute(func.value, cst.Name(dtype)))


def _without_move(bare: bool, call: cst.Call) -> cst.BaseExpression:
    assert isinstance(call.func, cst.Attribute)
    source = call.func.value
    return source.with_changes(lpar=[], rpar=[]) if bare else source


def _factory_effects(module: Module, factory: cst.Call) -> list[str]:
    found = device_effect(module, factory)
    return found.split(", ") if found else []


def _chain(module: Module, transfer: Transfer, factory: cst.Call) -> bool:
    """Say whether the moved expression is the factory's result, or an exact view or cast of it."""
    source = transfer.source
    while source is not factory:
        match source:
            case cst.Call(cst.Attribute(inner, cst.Name(step))) if (
                step in _STEPS or _casts_to_dtype(module, source)
            ):
                source = inner
            case _:
                return False
    return True


def _casts_to_dtype(module: Module, call: cst.BaseExpression) -> bool:
    """Say whether a call is ``.to(dtype)`` or ``.type(dtype)``, with one of torch's or with what
    something has as its own."""
    match call:
        case cst.Call(cst.Attribute(attr=cst.Name("to" | "type")), [cst.Arg(star="") as arg]):
            if arg.keyword is not None and arg.keyword.value != "dtype":
                return False
            own = attr_of(arg.value) == "dtype"
            return own or (module.name(arg.value) or "") in _DTYPES
    return False


def _effects(module: Module, transfer: Transfer, factory: cst.Call) -> Iterator[str]:
    """Yield the keys of the notes on what it changes that the transfer goes."""
    exact = any_dtype(module, factory)
    if transfer.like or transfer.dtype is not None:
        if not exact or _may_be_complex(module, factory):
            yield "cast"
        if transfer.dtype is not None and not _is_dtype(module, transfer.dtype, factory):
            yield "dtype"
    elif _casts(module, transfer) and not exact and module.name(factory.func) != "torch.arange":
        yield "cast"
    method = method_called(transfer.call)
    if transfer.like:
        plain = isinstance(transfer.target, cst.Name) and (
            method == "type_as" or certainly_tensor(module, transfer.target)
        )
        if not plain:
            yield "other"
    if _may_be_no_number(transfer) and not _repeatable(transfer.target):
        yield "cuda"


def _may_be_no_number(transfer: Transfer) -> bool:
    """Say whether a tensor is moved by ``.cuda(gpu)``, whose argument may be None."""
    literal = isinstance(transfer.target, (cst.Integer, cst.SimpleString))
    return method_called(transfer.call) == "cuda" and transfer.target is not None and not literal


def _repeatable(node: cst.CSTNode | None) -> bool:
    """Say whether to evaluate an expression twice changes nothing: a name, an attribute of one, or
    what stands under a written key."""
    match node:
        case cst.Attribute(value):
            return _repeatable(value)
        case cst.Subscript(
            value,
            [cst.SubscriptElement(cst.Index(cst.SimpleString() | cst.Integer()))],
        ):
            return _repeatable(value)
    return isinstance(node, cst.Name)


def _casts(module: Module, transfer: Transfer) -> bool:
    """Say whether a cast stands between the factory and the move."""
    at: cst.BaseExpression = transfer.source
    while isinstance(at, cst.Call) and isinstance(at.func, cst.Attribute):
        if at.func.attr.value in _CASTS or _casts_to_dtype(module, at):
            return True
        at = at.func.value
    return False


def _is_dtype(module: Module, node: cst.BaseExpression, factory: cst.Call) -> bool:
    """Say whether an expression is certainly a dtype that the factory can fill: one of torch's, or
    a tensor's own."""
    name = module.name(node) or ""
    if name.startswith("torch."):
        kinds = _EYE_DTYPES if module.name(factory.func) == "torch.eye" else _FILLED_DTYPES
        return name.removeprefix("torch.") in kinds
    match node:
        case cst.Attribute(cst.Name() as tensor, cst.Name("dtype")):
            return certainly_tensor(module, tensor) or _has_sizes(module, tensor)
        case cst.Attribute(cst.Attribute() as tensor, cst.Name("dtype")):
            return inferred(module, tensor).tensor
    return False


def _has_sizes(module: Module, tensor: cst.Name) -> bool:
    """Say whether the function asks a named object for ``.size(…)``, which of all things with a
    dtype tensors have."""
    for read in reads_of(module, module.scope(tensor), tensor.value):
        above = module.parent(read)
        if attr_of(above) == "size" and inferred(module, read).tensor:
            return isinstance(module.parent(above), cst.Call)
    return False


def _may_be_complex(module: Module, factory: cst.Call) -> bool:
    """Say whether the factory's own dtype may be complex, of which a cast to a real one warns."""
    given = keyword_argument(module, factory, "dtype")
    name = module.name(given) or ""
    real = name.removeprefix("torch.") in _REAL_DTYPES
    return given is not None and not (name.startswith("torch.") and real)


@question(remember=False)
def are_numbers(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether an expression is a number, or holds nothing but such."""
    values = [inferred(module, each) for each in components(node, cst.Tuple, cst.List)]
    return all(each.kind in ("number", "shape") and not each.tensor for each in values)
