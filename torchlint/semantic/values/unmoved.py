"""Which networks and parameters stay on the host: those that a file builds, whose every use it
shows, and that nothing moves."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torchlint.semantic.code.flow import Flow
from torchlint.semantic.code.tree import attr_of, has_star, is_name, method_called, root_of
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.torch import ops

_MOVES = ops.having("move") | frozenset(("apply", "share_memory", "to_empty", "type", "xpu"))
_LOOKS = frozenset(
    ("builtins.print", "builtins.len", "builtins.id", "builtins.isinstance", "torch.save")
)
_PLACES = ("device", "cuda")
_LEARNING = ops.having("layer", "parameters")
_DEPTH = 3


def stays(
    flow: Flow, made: cst.Call, cls: cst.ClassDef | None, others: Sequence[Definition] = ()
) -> bool:
    """Say whether a network that a call makes is never moved: one of a class of this file, of
    classes of `others`, or of torch.

    All is known of it: one name of a function, or of a script that no other file reads, is bound to
    it, neither its class nor what it is given to speaks of a device, and it goes nowhere else."""
    match flow.tree.parents.get(made):
        case cst.Assign([cst.AssignTarget(cst.Name(name) as target)]):
            outside = flow.names.outside
            scope, bindings = flow.names.bindings(name, target)
            if sum(not _is_itself(each.value, name) for each in bindings) != 1:
                return False
            if cls is None and not others:
                placed = _is_placed(flow, made)
            else:
                texts = [outside.text(each) or "" for each in others]
                placed = (cls is not None and _places_itself(flow, cls)) or not all(
                    _learns_where_it_is(text) for text in texts
                )
            return (
                not placed
                and not (scope is flow.tree.root and outside.reached(name, flow.text, ""))
                and _is_unmoved(flow, scope, name, _DEPTH)
            )
    return False


def _learns_where_it_is(text: str) -> bool:
    """Say whether a file makes layers that have parameters, and speaks of no device."""
    return not any(place in text.lower() for place in _PLACES) and any(
        f"{layer}(" in text for layer in _LEARNING
    )


def _is_itself(value: cst.BaseExpression | None, name: str) -> bool:
    """Say whether what is bound to a name is what it held before: ``model = model.float()``."""
    return isinstance(value, cst.Call) and is_name(root_of(value), name)


def kept_apart(flow: Flow, made: cst.Call) -> bool:
    """Say whether a parameter that a call makes belongs to no module, which would take it along: a
    name alone is bound to it, with which the file computes, or which it gives an optimizer."""
    match flow.tree.parents.get(made):
        case cst.Assign([cst.AssignTarget(cst.Name() as target)]):
            scope, _ = flow.names.bindings(target.value, target)
            return all(_computes(flow, each) for each in _uses(flow, scope, target.value))
    return False


def _computes(flow: Flow, node: cst.BaseExpression) -> bool:
    """Say whether a use of a parameter computes with it, or gives it an optimizer."""
    above = flow.tree.parents.get(node)
    match above:
        case cst.Attribute(attr=attr) if above.attr is not node:
            taken = isinstance(flow.tree.parents.get(above), (cst.AssignTarget, cst.Arg))
            return not taken and attr.value not in _MOVES and _is_chained(flow, above)
        case cst.Element():
            display = flow.tree.parents.get(above)
            arg = flow.tree.parents.get(display) if display is not None else None
            call = flow.tree.parents.get(arg) if isinstance(arg, cst.Arg) else None
            return isinstance(call, cst.Call) and _optimizes(flow, call)
        case cst.Arg():
            call = flow.tree.parents.get(above)
            name = (flow.names.name(call.func) if isinstance(call, cst.Call) else None) or ""
            return name in _LOOKS or (
                name.startswith("torch.") and name.rpartition(".")[2][:1].islower()
            )
    computed = (cst.BinaryOperation, cst.UnaryOperation, cst.FormattedStringExpression)
    return isinstance(above, (cst.Attribute, cst.AssignTarget, *computed))


def _optimizes(flow: Flow, call: cst.Call) -> bool:
    cls = flow.scopes.local_class(call.func)
    name = flow.names.name(call.func) or ""
    return name.startswith("torch.optim.") or flow.scopes.is_optimizer(cls)


def _places_itself(flow: Flow, cls: cst.ClassDef) -> bool:
    """Say whether a class may move what it holds: it speaks of a device, or is not all seen."""
    if flow.scopes.family_outside(cls) or flow.scopes.subclasses(cls):
        return True
    return any(
        place in name.value.lower()
        for member in flow.scopes.lineage(cls)
        for name in flow.tree.within(member, cst.Name, nested=True)
        for place in _PLACES
    )


def _is_placed(flow: Flow, made: cst.Call) -> bool:
    """Say whether what a call makes may be made on a device, or has no parameters, which lie
    anywhere: it is no layer of torch that has some, and no sequence of those alone."""
    name = flow.names.name(made.func) or ""
    if has_star(made) or any(is_name(arg.keyword, "device") for arg in made.args):
        return True
    if name != "torch.nn.Sequential":
        return name.removeprefix("torch.nn.") not in _LEARNING
    parts = [arg.value for arg in made.args if isinstance(arg.value, cst.Call)]
    layers = [(flow.names.name(part.func) or "").partition("torch.nn.")[2] for part in parts]
    learning = [part for part, layer in zip(parts, layers, strict=True) if layer in _LEARNING]
    whole = len(parts) == len(made.args) and all(layers) and bool(learning)
    return not whole or any(_is_placed(flow, part) for part in learning)


def _is_unmoved(flow: Flow, scope: cst.CSTNode | None, name: str, depth: int) -> bool:
    """Say whether nothing that is done with what is bound to a name of a scope moves it."""
    return all(_is_harmless(flow, each, depth) for each in _uses(flow, scope, name))


def _uses(flow: Flow, scope: cst.CSTNode | None, name: str) -> list[cst.Name]:
    """Return where a name stands that a scope binds."""
    named = flow.names_in(flow.tree.root, name)
    return [each for each in named if flow.names.bindings(name, each)[0] is scope]


def _is_harmless(flow: Flow, node: cst.BaseExpression, depth: int) -> bool:
    """Say whether a use of a network leaves it where it is, and gives it to nobody who may move
    it."""
    above = flow.tree.parents.get(node)
    match above:
        case cst.AssignTarget() | cst.ImportFrom():
            return True
        case cst.Param(name=cst.Name() as bound):
            return bound is node
        case cst.Attribute(attr=attr):
            return attr.value not in _MOVES and _is_chained(flow, above)
        case cst.Call(func):
            return func is node
        case cst.Arg():
            return _taker_leaves(flow, above, depth)
        case cst.Return():
            return _trains(flow, above)
        case cst.Element():
            given = flow.tree.parents.get(flow.tree.parents[above])
            return isinstance(given, cst.Return) and _trains(flow, given)
        case cst.Assign([cst.AssignTarget(cst.Attribute() as kept)]) if depth:
            return _attribute_stays(flow, kept, depth - 1)
    return False


def _trains(flow: Flow, given: cst.Return) -> bool:
    """Say whether a function that gives a network to its caller has trained it before."""
    function = flow.tree.function(given)
    calls = flow.tree.within(function, cst.Call) if function is not None else ()
    return any(method_called(call) == "backward" for call in calls)


def _is_chained(flow: Flow, node: cst.BaseExpression) -> bool:
    """Say whether what is asked of a part of a network moves nothing either."""
    _, *around = flow.tree.links_around(node)
    return _MOVES.isdisjoint(map(attr_of, around))


def _attribute_stays(flow: Flow, kept: cst.Attribute, depth: int) -> bool:
    """Say whether nothing in the file moves what ``self.model`` holds."""
    if not is_name(kept.value, "self"):
        return False
    same = [
        flow.tree.parents[name]
        for name in flow.tree.named(kept.attr.value)
        if isinstance(flow.tree.parents.get(name), cst.Attribute)
        and flow.tree.parents[name].attr is name  # type: ignore[attr-defined]
    ]
    return all(isinstance(each, cst.Attribute) and _is_harmless(flow, each, depth) for each in same)


def _taker_leaves(flow: Flow, arg: cst.Arg, depth: int) -> bool:
    """Say whether the function or the class of this file that gets a network leaves it where it
    is."""
    call = flow.tree.parents.get(arg)
    if not isinstance(call, cst.Call):
        return False
    if flow.names.name(call.func) in _LOOKS:
        return True
    cls = flow.scopes.local_class(call.func)
    if cls is not None:
        made = flow.scopes.method(cls, "__init__")
        return made is not None and _passed_on(flow, made, call, arg, depth)
    found = flow.callees(call)
    return bool(found) and all(
        isinstance(each, cst.FunctionDef) and _passed_on(flow, each, call, arg, depth)
        for each in found
    )


def _passed_on(
    flow: Flow, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg, depth: int
) -> bool:
    """Say whether a function leaves what it gets as an argument where it is."""
    if not depth or has_star(call):
        return False
    if arg.keyword is not None:
        return _is_unmoved(flow, function, arg.keyword.value, depth - 1)
    names = [each.name.value for each in function.params.params]
    names = names[1:] if flow.tree.is_method(function) else names
    at = list(call.args).index(arg)
    return at < len(names) and _is_unmoved(flow, function, names[at], depth - 1)
