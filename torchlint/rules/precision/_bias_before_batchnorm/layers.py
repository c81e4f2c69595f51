"""Which layer of a network runs behind which, where layers stand in a row: a Sequential, a list
that becomes one, or a ModuleList that ``forward`` goes through."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import libcst as cst

from torchlint.rule import Module
from torchlint.rules.precision._bias_before_batchnorm.layer_attributes import (
    attribute_of,
    fed_by_attribute,
    go_through,
    passes_on,
)
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import call_sites, reads_of
from torchlint.semantic.code.reaching import sole_use
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.question import question

_SEQUENTIAL = "torch.nn.Sequential"
_DICTS = ("collections.OrderedDict", "builtins.dict")
_MODULE_LIST = "torch.nn.ModuleList"


@question(yes="the next layer is known", no="the next layer is not known, or not the only one")
def next_layers(module: Module, layer: cst.Call) -> tuple[cst.Call, ...]:
    """Return the calls that construct the layers which alone get the output of the layer that
    `layer` constructs."""
    place: cst.CSTNode | None = _outermost(module, layer)
    above = module.parent(place)
    if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Name):
        place = sole_use(module, layer) or place
    follower = _in_a_row(module, place) if place is not None else None
    if isinstance(follower, cst.Name):
        follower = sole_definition(module, follower)
    if isinstance(follower, cst.Call):
        return (follower,)
    return fed_by_attribute(module, layer)


def _outermost(module: Module, layer: cst.Call) -> cst.Call:
    """Return the call around a layer that only wraps it, such as ``spectral_norm(layer)``."""
    place = layer
    while True:
        call = module.taker(place)
        if not isinstance(call, cst.Call) or not passes_on(module, call):
            return place
        place = call


def _in_a_row(module: Module, place: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression behind `place` in the arguments or the list that makes a Sequential."""
    above = module.parent(place)
    holder = module.parent(above)
    if (
        isinstance(above, cst.Element)
        and isinstance(holder, cst.Tuple)
        and len(holder.elements) == 2
    ):
        # ``("conv", layer)`` of an OrderedDict.
        above = module.parent(holder)
        holder = module.parent(above)
        if not isinstance(holder, cst.List) or not _runs_in_order(module, holder):
            return None
        named = _follower(holder.elements, above)
        return (
            named.elements[1].value
            if isinstance(named, cst.Tuple) and len(named.elements) == 2
            else None
        )
    if isinstance(above, cst.Element) and isinstance(holder, cst.List):
        if not _runs_in_order(module, holder):
            return None
        last = holder.elements[-1] is above
        return _added_next(module, holder) if last else _follower(holder.elements, above)
    if not isinstance(above, cst.Arg) or not isinstance(holder, cst.Call):
        return None
    if _makes_sequential(module, holder):
        return _follower(holder.args, above)
    return _added(module, holder, above)


def _follower(
    row: Sequence[cst.BaseElement | cst.Arg], at: cst.CSTNode | None
) -> cst.BaseExpression | None:
    match next((after for here, after in pairwise(row) if here is at), None):
        case cst.Element(follower) | cst.Arg(follower, star=""):
            return follower
    return None


def _makes_sequential(module: Module, call: cst.CSTNode | None) -> bool:
    """Say whether a call is ``nn.Sequential(...)``, or ``super().__init__(...)`` in a class derived
    from it."""
    match call:
        case cst.Call(cst.Attribute(cst.Call(cst.Name("super")), cst.Name("__init__"))):
            return _is_sequential(module, module.class_of(call))
    return module.called(call) == _SEQUENTIAL


def _is_sequential(module: Module, cls: cst.ClassDef | None) -> bool:
    return (
        cls is not None
        and _SEQUENTIAL in base_names(module, cls)
        and method_of(module, cls, "forward") is None
    )


def _runs_in_order(module: Module, row: cst.List) -> bool:
    """Say whether a list of layers becomes a Sequential: ``Sequential(*[…])``, or by the name it is
    kept under."""
    above = module.parent(row)
    if isinstance(above, cst.Arg):
        call = module.parent(above)
        return isinstance(call, cst.Call) and _taken_in_order(module, row, above, call)
    if isinstance(above, cst.Return):
        return _returned_in_order(module, above)
    if isinstance(above, cst.Assign):
        return _kept_in_order(module, row, above.targets[0].target)
    if isinstance(above, cst.AugAssign):
        return _kept_in_order(module, row, above.target)
    return False


def _taken_in_order(module: Module, row: cst.List, arg: cst.Arg, call: cst.Call) -> bool:
    if module.name(call.func) in _DICTS:
        return _makes_sequential(module, module.taker(call))
    if _makes_sequential(module, call):
        return arg.star == "*"
    if module.name(call.func) == _MODULE_LIST:
        kept = module.parent(call)
        return isinstance(kept, cst.Assign) and _kept_in_order(module, row, kept.targets[0].target)
    func = call.func
    return (
        isinstance(func, cst.Attribute)
        and func.attr.value == "extend"
        and _kept_in_order(module, row, func.value)
    )


def _kept_in_order(module: Module, at: cst.CSTNode, place: cst.BaseExpression) -> bool:
    """Say whether the layers that a name or attribute holds run one behind the other."""
    if isinstance(place, cst.Name):
        return _is_unpacked(module, at, place.value)
    attr = attribute_of(place)
    cls = module.class_of(at)
    return bool(attr) and cls is not None and go_through(module, cls, attr)


def _is_unpacked(module: Module, at: cst.CSTNode, name: str) -> bool:
    """Say whether the function of `at` makes a Sequential of the list called `name`, and never
    picks from it."""
    found = False
    for read in reads_of(module, module.scope(at), name):
        above = module.parent(read)
        if isinstance(above, cst.Arg) and _makes_sequential(module, module.parent(above)):
            found = above.star == "*"
        elif isinstance(above, cst.Return):
            found = _returned_in_order(module, above)
        elif isinstance(above, (cst.Subscript, cst.Attribute)) and attr_of(above) not in (
            "append",
            "extend",
        ):
            return False
    return found


def _returned_in_order(module: Module, leave: cst.Return) -> bool:
    """Say whether all calls of the function that returns a list unpack it into a Sequential."""
    function = module.function(leave)
    sites = call_sites(module, function) if function is not None else []
    places = [module.parent(site) for site in sites]
    return bool(places) and all(
        isinstance(place, cst.Arg)
        and place.star == "*"
        and _makes_sequential(module, module.parent(place))
        for place in places
    )


def _added(module: Module, call: cst.Call, arg: cst.Arg) -> cst.BaseExpression | None:
    """Return the layer that the very next statement adds: ``layers.append(…)``,
    ``net.add_module(name, …)``."""
    func = call.func
    if (
        not isinstance(func, cst.Attribute)
        or func.attr.value not in ("append", "add_module")
        or call.args[-1] is not arg
        or not _collects(module, call, func)
    ):
        return None
    return _added_next(module, call)


def _added_next(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the layer that the statement right behind that of `node` adds to the same row."""
    row = _row(module.statement(node))
    if row is None:
        return None
    match module.tree.beside(node)[1][:1]:
        case [
            cst.SimpleStatementLine(
                [cst.Expr(cst.Call(cst.Attribute(other, cst.Name(method)), [*_, cst.Arg(added)]))]
            )
        ] if other.deep_equals(row):
            if method == "extend":
                return _first(added)
            return added if method in ("append", "add_module") else None
        case [cst.SimpleStatementLine([cst.AugAssign(target, value=added)])] if target.deep_equals(
            row
        ):
            return _first(added)
    return None


def _row(line: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the name or attribute to which a statement binds or adds layers."""
    match line:
        case cst.SimpleStatementLine(
            [
                cst.Expr(cst.Call(cst.Attribute(row)))
                | cst.AugAssign(row)
                | cst.Assign([cst.AssignTarget(row)])
            ]
        ):
            return row
    return None


def _first(row: cst.BaseExpression) -> cst.BaseExpression | None:
    match row:
        case cst.List([cst.Element(value), *_]):
            return value
    return None


def _collects(module: Module, call: cst.Call, func: cst.Attribute) -> bool:
    """Say whether what is appended to, or gets a module added, is (or becomes) a Sequential."""
    receiver = func.value
    if isinstance(receiver, cst.Attribute):
        return func.attr.value == "append" and _kept_in_order(module, call, receiver)
    if not isinstance(receiver, cst.Name):
        return False
    if receiver.value == "self":
        return _is_sequential(module, module.class_of(call))
    made = sole_definition(module, receiver)
    if module.called(made) == _SEQUENTIAL:
        return True
    return func.attr.value == "append" and _is_unpacked(module, call, receiver.value)
