"""Functions of the project that make a tensor of sizes on the CPU, which their callers move: they
are told the device."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import libcst as cst

from torchlint.rule import (
    Append,
    Fix,
    InFile,
    Module,
    NodeEdit,
    Replace,
    Safety,
    Transfer,
    inferred,
    with_keyword,
)
from torchlint.rules.transfer._cpu_create_then_move.placement import EXACT, SETS
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.tree import has_star, method_called
from torchlint.semantic.device.factories import (
    device_effect,
    is_sized_type,
    makes_of_sizes,
    takes_device,
)
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.torch import dtypes
from torchlint.semantic.uses.assumptions import PATCHED, TORCH
from torchlint.semantic.values.definitions_behind import functions

_NAME = "device"
_DTYPES = dtypes.spelled(dtypes.DTYPES)
_OF_NUMBERS = frozenset(
    f"builtins.{name}" for name in ("float", "int", "bool", "len", "max", "min")
)
_NUMBERS = frozenset(("number", "bool", "shape"))
_TITLE = "Tell the function the device"


def helper_fix(module: Module, transfer: Transfer) -> Fix | None:
    """Return the fix that gives a function a ``device=None``, and its calls the device to which
    what they give is moved; None where it does more than make a tensor of numbers, exactly."""
    call = transfer.source
    found = functions(module, call) if isinstance(call, cst.Call) else []
    if len(found) != 1 or not isinstance(call, cst.Call):
        return None
    where, function = found[0]
    if not isinstance(function, cst.FunctionDef) or not _only_makes(where, function):
        return None
    given = [inferred(module, arg.value).kind for arg in call.args]
    if not _NUMBERS.issuperset(given) or _defined_again(where, function):
        return None
    factory = next(
        each for each in where.within(function.body, cst.Call) if makes_of_sizes(where, each)
    )
    last = function.params.params[-1]
    at = last.default or (last.annotation.annotation if last.annotation else last.name)
    edits: dict[Module, list[NodeEdit]] = {
        where: [
            Append(at, f", {_NAME}=None"),
            Replace(factory, with_keyword(factory, _NAME, cst.Name(_NAME))),
        ]
    }
    sites = [(where, site) for site in call_sites(where, function)]
    if where is not module:
        own = (each for each in module.nodes(cst.Call) if functions(module, each) == found)
        sites += [(module, each) for each in own]
    sites += [
        (place, site)
        for place, site in where.outside.calling(Definition(where.path, function.name.value, ""))
        if place.path not in (module.path, where.path)
    ]
    for place, site in sites:
        above = place.method_call(site)
        move = transfer_of(place, above) if above is not None else None
        if move is not None and move.source is site and _is_plain(move) and not has_star(site):
            device = move.target or cst.SimpleString('"cuda"')
            told = with_keyword(site, _NAME, device)
            edits.setdefault(place, []).append(Replace(move.call, told))
    if not any(isinstance(e, Replace) and e.node is transfer.call for e in edits.get(module, ())):
        return None
    elsewhere = tuple(
        InFile(place, tuple(its)) for place, its in edits.items() if place is not module
    )
    return Fix(
        tuple(edits[module]), Safety.SAFE, _TITLE, elsewhere=elsewhere, assumes={TORCH: PATCHED}
    )


def _is_plain(move: Transfer) -> bool:
    # .cuda(None) means the current GPU, device=None the CPU.
    current = method_called(move.call) == "cuda" and move.target is not None
    return not (move.like or current) and move.given <= {_NAME}


def _only_makes(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a function makes one tensor, in the same way on every device, and gives it back,
    and does no more."""
    params = function.params
    calls = list(module.within(function.body, cst.Call, nested=True))
    made = [each for each in calls if makes_of_sizes(module, each)]
    if (
        function.decorators
        or not params.params
        or params.kwonly_params
        or params.posonly_params
        or params.star_kwarg is not None
        or params.star_arg != cst.MaybeSentinel.DEFAULT
        or len(made) != 1
        or _NAME in {each.value for each in module.within(function, cst.Name, nested=True)}
    ):
        return False
    (factory,) = made
    return (
        takes_device(module, factory)
        and not is_sized_type(module, factory)
        and not device_effect(module, factory)
        and not any(inferred(module, each).tensor for each in _computed(module, function))
        and all(each is factory or _is_exact(module, each) for each in calls)
        and all(isinstance(line, cst.SimpleStatementLine) for line in function.body.body)
        and sum(1 for _ in module.within(function.body, cst.Return)) == 1
    )


def _is_exact(module: Module, call: cst.Call) -> bool:
    """Say whether a call gives a number, or changes a tensor in the same way on every device."""
    match call:
        case cst.Call(cst.Attribute(attr=cst.Name("to")), [cst.Arg(dtype)]):
            kind = module.name(dtype) or ""
            return kind.removeprefix("builtins.").removeprefix("torch.") in _DTYPES
    name = module.name(call.func) or method_called(call)
    operation = name.rpartition(".")[2]
    return name in _OF_NUMBERS or operation in SETS or operation.removesuffix("_") in EXACT


def _computed(module: Module, function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
    """Yield what a function computes, or changes, that need not be the same on every device."""
    yield from module.within(function.body, cst.BinaryOperation)
    yield from (each.target for each in module.within(function.body, cst.AugAssign))


def _defined_again(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether the project may give a method of the same name to another class, which would not
    take the argument."""
    if not module.is_method(function):
        return False
    word = f"def {function.name.value}("
    return (
        module.text.count(word) > 1 or module.outside.others_say(partial(_says, word)) is not False
    )


def _says(word: str, text: str) -> bool:
    return word in text
