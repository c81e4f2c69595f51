"""Whether a model is another one for each item: its weights, adapters or hooks change."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import attr_of, last_name, method_called
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.uses.each_item import each_item, regions_of

_PARTS = frozenset(
    "parameters named_parameters state_dict modules named_modules children named_children "
    "get_submodule get_parameter items values detach".split()
)
_CHANGES = regex(
    r"(^|_)(set|load|add|delete|enable|disable|merge|unmerge|fuse|unfuse|register|remove|apply|inject|"
    r"patch|edit|steer\w*|hooks?|insert|replace|swap|reset|update|ablate|interven\w*)(_|$)"
)
_RESETS = regex(
    r"\b_*(reset(?!_param|_peak)\w*|(init|clear|zero|detach)\w*_(hidden|states?|mem\w*))\b"
)
_FACTS = ("device", "dtype", "config", "generation_config")
_HANDED = ("zip", "enumerate", "list", "dict")
_SAME = ("requires_grad_", "share_memory_")
_TRAINS = ("backward", "step")


@question(
    yes="what `{0}` is, or its weights, change from item to item",
    no="`{0}` is seen to be the same model for each item",
)
def changes_for_each(module: Module, model: cst.BaseExpression, text: cst.BaseExpression) -> bool:
    """Say whether a model is made of the item of which a text is made, or is changed where that
    item is worked on: by other weights, an adapter, a hook, a training step."""
    made = definitions_of(module, model) if isinstance(model, cst.Name) else []
    values = [each.value for each in made if isinstance(each, cst.Assign)]
    return any(each_item(module, value) for value in values) or any(
        _changes(module, region, name) for region, name in regions_of(module, text, model)
    )


@question(
    yes="the state that `{0}` keeps is reset before the loop",
    no="nothing resets a state of `{0}` before the loop",
)
def keeps_state(module: Module, model: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Say whether a network goes through a loop with a state of its own, which its function resets
    before the loop, ``net.reset()``, ``reset_states(net)``: each item follows the one before."""
    known = {module.source_of(model)}
    return _RESETS.search(module.text) is not None and any(
        _RESETS.search(last_name(call.func)) is not None
        and module.before(call, loop)
        and any(
            _is_part(module, each, known) for each in (call.func, *(arg.value for arg in call.args))
        )
        for call in module.within(module.scope(loop), cst.Call)
    )


def _changes(module: Module, region: cst.CSTNode, model: cst.BaseExpression) -> bool:
    known = {module.source_of(model)}
    for each in module.within(region, cst.Assign, cst.For):
        match each:
            case cst.For(target, source):
                targets = [target]
            case cst.Assign(several, source):
                targets = [one.target for one in several]
            case _:
                continue
        if any(_is_part(module, part, known) for part in (source, *_handed(source))):
            known |= module.names_in(*targets)
    for place in module.within(region, cst.Call, cst.AssignTarget, cst.AugAssign, cst.WithItem):
        if _changes_here(module, place, known):
            return True
    return False


def _handed(source: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """Yield what is handed to ``zip``, ``enumerate`` or the like."""
    if isinstance(source, cst.Call) and last_name(source.func) in _HANDED:
        yield from (arg.value for arg in source.args)


def _is_part(module: Module, node: cst.BaseExpression, known: set[str]) -> bool:
    """Say whether an expression is a model, or a part of it."""
    while module.source_of(node) not in known:
        match node:
            case cst.Attribute(value, attr) if attr.value not in _FACTS:
                node = value
            case cst.Subscript(value):
                node = value
            case cst.Call(cst.Attribute(value)) if attr_of(node.func) in _PARTS:
                node = value
            case _:
                return False
    return True


def _changes_here(module: Module, place: cst.CSTNode, known: set[str]) -> bool:
    match place:
        case cst.AssignTarget(cst.Attribute(held) | cst.Subscript(held)) | cst.AugAssign(
            cst.Attribute(held) | cst.Subscript(held)
        ):
            return _is_part(module, held, known)
        case cst.WithItem(cst.Call(args=args)):
            return any(module.source_of(arg.value) in known for arg in args)
        case cst.Call(cst.Attribute(held), args) if _is_part(module, held, known):
            name = method_called(place) or ""
            return bool(_CHANGES.search(name)) or (name.endswith("_") and name not in _SAME)
        case cst.Call(func, args):
            if method_called(place) in _TRAINS:
                return True
            given = any(_is_part(module, arg.value, known) for arg in args)
            return given and bool(_CHANGES.search(last_name(func)))
    return False
