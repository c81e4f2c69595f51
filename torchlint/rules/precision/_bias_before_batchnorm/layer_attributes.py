"""Which layers a network keeps as attributes, alone or in lists, and which of them ``forward``
calls on the output of which."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torchlint.rule import Module
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of, sole_use
from torchlint.semantic.code.scopes import own_method
from torchlint.semantic.code.tree import is_name
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.values.classes import class_named, family_of, is_network

_LISTS = ("torch.nn.ModuleList", "builtins.list", "builtins.tuple")
_ON_WEIGHTS = ("spectral_norm", "weight_norm")
_UTILITIES = ("torch.nn.utils.", "torch.nn.utils.parametrizations.")
# What may be read of a layer beside its output, and changes nothing about who gets that output.
_PLAIN = frozenset(
    (
        "weight apply in_channels out_channels in_features out_features kernel_size stride padding "
        "dilation groups"
    ).split()
)


@dataclass(slots=True)
class _Kept:
    """What an attribute holds: the calls that construct its layers, and those of the layers."""

    layers: list[cst.Call] = field(default_factory=list)
    calls: list[cst.Call] = field(default_factory=list)
    uses: list[cst.CSTNode] = field(default_factory=list)
    whole: bool = True
    """Whether nothing else is known to be done with them."""


def attribute_of(node: cst.CSTNode | None) -> str:
    """Return the name of an attribute of ``self``, or nothing."""
    if isinstance(node, cst.Attribute) and dotted_text(node.value) == "self":
        return node.attr.value
    return ""


@question()
def fed_by_attribute(module: Module, layer: cst.Call) -> tuple[cst.Call, ...]:
    """Return the constructions of all layers that get the output of `layer`, which an attribute
    keeps; empty where something else may get it."""
    cls = module.class_of(layer)
    if cls is None or not is_network(module, cls):
        return ()
    attr = next(
        (
            a
            for a in _uses(module, cls)
            if any(made is layer for made in _kept_layers(module, cls, a).layers)
        ),
        "",
    )
    if not attr or _picked_by_name(module, cls):
        return ()
    kept = _kept_layers(module, cls, attr)
    found: list[cst.Call] = []
    for call in kept.calls:
        behind = _fed(module, cls, call)
        if not behind:
            return ()
        found += behind
    return tuple(found) if kept.whole else ()


def _fed(module: Module, cls: cst.ClassDef, call: cst.Call) -> list[cst.Call]:
    """Return the constructions of the layers that alone get what a call of a layer gives."""
    read = sole_use(module, call)
    outer = module.taker(read)
    if not isinstance(outer, cst.Call) or len(outer.args) != 1:
        return []
    attr = _holder(module, outer.func)
    return _kept_layers(module, cls, attr).layers if attr else []


@question(ground=True)
def _uses(module: Module, cls: cst.ClassDef) -> dict[str, list[cst.Attribute]]:
    """Return each ``self.attr`` in a class, its bases and its subclasses of this file, by name."""
    found: dict[str, list[cst.Attribute]] = {}
    for member in family_of(module, cls):
        for node in module.within(member, cst.Attribute, nested=True):
            if attr := attribute_of(node):
                found.setdefault(attr, []).append(node)
    return found


@question()
def _kept_layers(module: Module, cls: cst.ClassDef, attr: str) -> _Kept:
    """Return what an attribute of a network keeps, and where it is called."""
    kept = _Kept()
    for use in _uses(module, cls).get(attr, ()):
        _sort(module, use, kept)
    if any(made is _OPEN for made in kept.layers):
        kept.layers.clear()
    return kept


_OPEN = cst.Call(cst.Name("unknown"))
"""Stands for a layer of which the construction is not seen."""


def _sort(module: Module, use: cst.CSTNode, kept: _Kept) -> None:
    """Say what a read or write of a layer, or of a list of layers, does with it."""
    above = module.parent(use)
    match above:
        case cst.AssignTarget():
            made = module.parent(above)
            kept.layers += (
                _constructing_calls(module, made.value) if isinstance(made, cst.Assign) else [_OPEN]
            )
        case cst.AugAssign(value=value):
            kept.layers += _constructing_calls(module, value)
        case cst.Call(func) if func is use:
            kept.calls.append(above)
        case cst.Attribute(attr=cst.Name("append" | "extend")):
            kept.layers += _grown(module, above)
        case cst.Attribute() if above.attr.value in _PLAIN:
            pass
        case cst.If() | cst.Comparison() | cst.ComparisonTarget():
            pass
        case cst.Subscript(value) if value is use:
            kept.uses.append(use)
            _follow(module, above, kept)
        case cst.For(iter=iterated) if iterated is use:
            kept.uses.append(use)
            _follow_target(module, above, above.target, kept)
        case cst.Arg():
            _as_argument(module, above, kept, use)
        case _:
            kept.whole = False


def _follow(module: Module, node: cst.CSTNode, kept: _Kept) -> None:
    """Go from an element of a list of layers to what is done with it."""
    above = module.parent(node)
    if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Name):
        _follow_target(module, above, above.targets[0].target, kept)
    elif isinstance(above, cst.AssignTarget):
        kept.layers.append(_OPEN)  # ``self.layers[i] = …``
    else:
        _sort(module, node, kept)


def _as_argument(module: Module, arg: cst.Arg, kept: _Kept, use: cst.CSTNode) -> None:
    """A list of layers as argument: of ``len``, or of what a loop goes over."""
    call = module.parent(arg)
    if module.called(call) in ("builtins.len", "builtins.range"):
        return
    loop = module.parent(call)
    over = loop_sources(module, loop) if isinstance(loop, cst.For) else ()
    target = next((goes.target for goes in over if goes.iterated is use), None)
    if isinstance(loop, cst.For) and target is not None:
        kept.uses.append(use)
        _follow_target(module, loop, target, kept)
    else:
        kept.whole = False


def _follow_target(module: Module, bound: cst.CSTNode, target: cst.CSTNode, kept: _Kept) -> None:
    """Go on to the reads of a name that a layer is bound to; of anything else, nothing is known."""
    if isinstance(target, cst.Name):
        for read in readers_of(module, bound, target.value):
            _sort(module, read, kept)
    else:
        kept.whole = False


# -- what constructs layers ------------------------------------------------------------------------


def _constructing_calls(module: Module, value: cst.BaseExpression) -> list[cst.Call]:
    """Return the calls that construct the layers of an expression, with `_OPEN` for what is not
    seen."""
    match value:
        case cst.Name("None"):
            return []
        case cst.Name():
            return _local(module, value)
        case cst.List(elements) | cst.Tuple(elements):
            parts = [
                _constructing_calls(module, e.value) if isinstance(e, cst.Element) else [_OPEN]
                for e in elements
            ]
            return [made for part in parts for made in part]
        case cst.ListComp(elt) | cst.GeneratorExp(elt):
            return _constructing_calls(module, elt)
        case cst.IfExp(body=body, orelse=orelse):
            return _constructing_calls(module, body) + _constructing_calls(module, orelse)
        case cst.Call(args=[cst.Arg(star="", value=inner), *_]) if passes_on(module, value):
            return _constructing_calls(module, inner)
        case cst.Call(args=args) if module.name(value.func) in _LISTS:
            return _constructing_calls(module, args[0].value) if args else []
        case cst.Call():
            return [value]
    return [_OPEN]


def _local(module: Module, name: cst.Name) -> list[cst.Call]:
    """Return what a local name stands for: one layer, or a list with what is appended to it."""
    value = sole_definition(module, name)
    if value is None:
        return [_OPEN]
    found = _constructing_calls(module, value)
    for read in reads_of(module, module.scope(name), name.value):
        above = module.parent(read)
        if isinstance(above, cst.Attribute) and above.value is read:
            if above.attr.value in ("append", "extend"):
                found += _grown(module, above)
            elif above.attr.value not in _PLAIN:
                found.append(_OPEN)
        elif isinstance(above, cst.Subscript):
            found.append(_OPEN)
    return found


def _grown(module: Module, method: cst.Attribute) -> list[cst.Call]:
    """Return what ``layers.append(…)`` or ``layers.extend(…)`` adds."""
    call = module.parent(method)
    if isinstance(call, cst.Call) and len(call.args) == 1:
        return _constructing_calls(module, call.args[0].value)
    return [_OPEN]


def _holder(module: Module, func: cst.BaseExpression) -> str:
    """Return the attribute that holds the layer which an expression stands for, or nothing."""
    if isinstance(func, cst.Subscript):
        return _holder(module, func.value)
    if isinstance(func, cst.Name):
        found = {_holder_of(module, bound, func.value) for bound in definitions_of(module, func)}
        return found.pop() if len(found) == 1 else ""
    return attribute_of(func)


def _holder_of(module: Module, bound: cst.CSTNode, name: str) -> str:
    if isinstance(bound, cst.Assign):
        return _holder(module, bound.value) if len(bound.targets) == 1 else ""
    over = loop_sources(module, bound) if isinstance(bound, cst.For) else ()
    held = (goes.iterated for goes in over if is_name(goes.target, name))
    return next((_holder(module, each) for each in held), "")


# -- wrappers and order ----------------------------------------------------------------------------


@question()
def passes_on(module: Module, call: cst.Call) -> bool:
    """Say whether a call wraps the layer that is its only argument, works on the layer's weight,
    and gives what the layer gives: ``spectral_norm(layer)``, or a class with such a ``forward``."""
    if len(call.args) != 1 or call.args[0].star or call.args[0].keyword is not None:
        return False
    name = module.called(call)
    package, _, last = name.rpartition(".")
    if f"{package}." in _UTILITIES:
        return last in _ON_WEIGHTS
    named = class_named(module, call.func) if name not in _LISTS else None
    return named is not None and _hands_through(*named)


@question(ground=True)
def _hands_through(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class keeps its first argument as a layer whose output it returns as it is, and
    says nothing of a bias."""
    forward, made = own_method(module, cls, "forward"), own_method(module, cls, "__init__")
    if forward is None or made is None or len(made.params.params) < 2:
        return False
    wrapped = made.params.params[1].name.value
    attr = next(
        (
            attribute_of(assign.targets[0].target)
            for assign in module.within(made, cst.Assign)
            if is_name(assign.value, wrapped)
        ),
        "",
    )
    left = list(module.within(forward, cst.Return))
    return (
        bool(attr and left)
        and "bias" not in module.source(cls)
        and all(
            (dotted_text(leave.value.func) if isinstance(leave.value, cst.Call) else None)
            in (f"self.{attr}", f"self.{attr}.forward")
            for leave in left
        )
    )


@question()
def go_through(module: Module, cls: cst.ClassDef, attr: str) -> bool:
    """Say whether the layers of a ModuleList are only run one behind the other: ``for layer in
    self.layers: x = layer(x)``."""
    if not is_network(module, cls) or _picked_by_name(module, cls):
        return False
    kept = _kept_layers(module, cls, attr)
    loops = [module.parent(use) for use in kept.uses]
    return kept.whole and bool(loops) and all(_only_calls(loop) for loop in loops)


def _only_calls(loop: cst.CSTNode | None) -> bool:
    match loop:
        case cst.For(
            cst.Name(layer),
            body=cst.IndentedBlock(
                [
                    cst.SimpleStatementLine(
                        [
                            cst.Assign(
                                [cst.AssignTarget(cst.Name(out))],
                                cst.Call(
                                    cst.Name(called),
                                    [cst.Arg(cst.Name(given), star="")],
                                ),
                            )
                        ]
                    )
                ]
            ),
        ):
            return layer == called and out == given
    return False


@question(ground=True)
def _picked_by_name(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class looks its attributes up by names that are not written out."""
    return any(
        module.called(call) == "builtins.getattr"
        and call.args
        and dotted_text(call.args[0].value) == "self"
        and not any(isinstance(arg.value, cst.SimpleString) for arg in call.args[1:2])
        for member in family_of(module, cls)
        for call in module.within(member, cst.Call, nested=True)
    )
