"""Which layer of a network runs behind which: by a Sequential, or by how ``forward`` calls
attribute pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import sole_use
from torchlint.semantic.code.scopes import base_names, method_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.values.classes import family_of, is_network

_SEQUENTIAL = "torch.nn.Sequential"
_DICTS = ("collections.OrderedDict", "builtins.dict")
# What may be read of a layer beside its output, and changes nothing about who gets that output.
_PLAIN = frozenset(
    (
        "weight apply in_channels out_channels in_features out_features kernel_size stride padding "
        "dilation groups"
    ).split()
)


@question(yes="the next layer is `{answer}`", no="the next layer is not known, or not the only one")
def next_layer(module: Module, layer: cst.Call) -> cst.Call | None:
    """Return the call that constructs the layer which alone gets the output of the layer that
    `layer` constructs."""
    place: cst.CSTNode | None = layer
    pair = module.parent(layer)
    if isinstance(pair, cst.Assign) and isinstance(pair.targets[0].target, cst.Attribute):
        return _attribute_pair(module, pair)
    if isinstance(pair, cst.Assign):
        place = sole_use(module, layer)
    follower = _in_a_row(module, place) if place is not None else None
    if isinstance(follower, cst.Name):
        follower = sole_definition(module, follower)
    return follower if isinstance(follower, cst.Call) else None


# -- Sequential ------------------------------------------------------------------------------------


def _in_a_row(module: Module, place: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the expression behind `place` in the arguments or the list that makes a Sequential."""
    above = module.parent(place)
    holder = module.parent(above) if above is not None else None
    if (
        isinstance(above, cst.Element)
        and isinstance(holder, cst.Tuple)
        and len(holder.elements) == 2
    ):
        # ``("conv", layer)`` of an OrderedDict.
        above = module.parent(holder)
        holder = module.parent(above) if above is not None else None
        if not isinstance(holder, cst.List) or not _runs_in_order(module, holder):
            return None
        named = _behind(holder.elements, above)
        return (
            named.elements[1].value
            if isinstance(named, cst.Tuple) and len(named.elements) == 2
            else None
        )
    if isinstance(above, cst.Element) and isinstance(holder, cst.List):
        return _behind(holder.elements, above) if _runs_in_order(module, holder) else None
    if not isinstance(above, cst.Arg) or not isinstance(holder, cst.Call):
        return None
    if _makes_sequential(module, holder):
        return _behind(holder.args, above)
    return _added(module, holder, above)


def _behind(
    row: Sequence[cst.BaseElement | cst.Arg], at: cst.CSTNode | None
) -> cst.BaseExpression | None:
    index = next(i for i, each in enumerate(row) if each is at)
    follower = row[index + 1] if index + 1 < len(row) else None
    if isinstance(follower, cst.StarredElement) or (
        isinstance(follower, cst.Arg) and follower.star
    ):
        return None
    return follower.value if isinstance(follower, (cst.Element, cst.Arg)) else None


def _makes_sequential(module: Module, call: cst.Call) -> bool:
    """Say whether a call is ``nn.Sequential(...)``, or ``super().__init__(...)`` in a class derived
    from it."""
    if module.name(call.func) == _SEQUENTIAL:
        return True
    func = call.func
    if (
        not isinstance(func, cst.Attribute)
        or func.attr.value != "__init__"
        or not isinstance(func.value, cst.Call)
    ):
        return False
    return dotted_text(func.value.func) == "super" and _is_sequential(module, module.class_of(call))


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
        if not isinstance(call, cst.Call):
            return False
        if module.name(call.func) in _DICTS:
            outer = module.parent(call)
            holder = module.parent(outer) if isinstance(outer, cst.Arg) else None
            return isinstance(holder, cst.Call) and _makes_sequential(module, holder)
        if _makes_sequential(module, call):
            return above.star == "*"
        func = call.func
        if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
            return False
        return func.attr.value == "extend" and _unpacked(module, row, func.value.value)
    if isinstance(above, cst.Assign) and isinstance(above.targets[0].target, cst.Name):
        return _unpacked(module, row, above.targets[0].target.value)
    if isinstance(above, cst.AugAssign) and isinstance(above.target, cst.Name):
        return _unpacked(module, row, above.target.value)
    return False


def _unpacked(module: Module, at: cst.CSTNode, name: str) -> bool:
    """Say whether the function of `at` makes a Sequential of the list called `name`, and never
    picks from it."""
    found = False
    for read in reads_of(module, module.function(at) or module.root, name):
        above = module.parent(read)
        call = module.parent(above) if above is not None else None
        if (
            isinstance(above, cst.Arg)
            and isinstance(call, cst.Call)
            and _makes_sequential(module, call)
        ):
            found = above.star == "*"
        elif isinstance(above, cst.Subscript) or (
            isinstance(above, cst.Attribute) and above.attr.value == "insert"
        ):
            return False
    return found


def _added(module: Module, call: cst.Call, arg: cst.Arg) -> cst.BaseExpression | None:
    """Return the layer that the very next statement adds: ``layers.append(…)``,
    ``net.add_module(name, …)``."""
    func = call.func
    if (
        not isinstance(func, cst.Attribute)
        or func.attr.value not in ("append", "add_module")
        or call.args[-1] is not arg
    ):
        return None
    line = module.statement(call)
    block = module.parent(line)
    lines = block.body if isinstance(block, (cst.IndentedBlock, cst.Module)) else ()
    behind = next((after for at, after in pairwise(lines) if at is line), None)
    match behind:
        case cst.SimpleStatementLine(
            body=[cst.Expr(value=cst.Call(func=cst.Attribute() as other) as following)]
        ):
            if other.deep_equals(func) and following.args and _collects(module, call, func):
                return following.args[-1].value
    return None


def _collects(module: Module, call: cst.Call, func: cst.Attribute) -> bool:
    """Say whether what is appended to, or gets a module added, is (or becomes) a Sequential."""
    receiver = func.value
    if not isinstance(receiver, cst.Name):
        return False
    if receiver.value == "self":
        return _is_sequential(module, module.class_of(call))
    made = sole_definition(module, receiver)
    if isinstance(made, cst.Call) and module.name(made.func) == _SEQUENTIAL:
        return True
    return func.attr.value == "append" and _unpacked(module, call, receiver.value)


# -- attributes ------------------------------------------------------------------------------------


def _attribute_pair(module: Module, made: cst.Assign) -> cst.Call | None:
    """Return the layer called on the output of the attribute that `made` binds, as its one and only
    use."""
    target = made.targets[0].target
    attr = (
        target.attr.value
        if isinstance(target, cst.Attribute) and dotted_text(target.value) == "self"
        else ""
    )
    cls = module.class_of(made)
    if not attr or cls is None or len(made.targets) != 1 or not is_network(module, cls):
        return None
    if _constructed(module, cls, attr) is not made.value:
        return None
    call = _only_call(module, cls, attr)
    read = sole_use(module, call) if call is not None else None
    arg = module.parent(read) if read is not None else None
    outer = module.parent(arg) if isinstance(arg, cst.Arg) else None
    match outer:
        case cst.Call(
            func=cst.Attribute(value=cst.Name(value="self"), attr=cst.Name(value=norm)), args=[_]
        ):
            return _constructed(module, cls, norm)
    return None


def _uses(module: Module, cls: cst.ClassDef, attr: str) -> Iterator[cst.Attribute]:
    """Yield ``self.attr`` in a class, its bases and its subclasses of this file."""
    for member in family_of(module, cls):
        for node in module.within(member, cst.Attribute, nested=True):
            if node.attr.value == attr and dotted_text(node.value) == "self":
                yield node


def _constructed(module: Module, cls: cst.ClassDef, attr: str) -> cst.Call | None:
    """Return the call whose result ``self.attr`` is, if not None: bound once in the whole hierarchy
    of this file."""
    targets = [
        above
        for use in _uses(module, cls, attr)
        if isinstance(above := module.parent(use), cst.AssignTarget)
    ]
    made = [module.parent(target) for target in targets]
    values = [m.value if isinstance(m, cst.Assign) else None for m in made]
    real = [v for v in values if not (isinstance(v, cst.Name) and v.value == "None")]
    return real[0] if len(real) == 1 and isinstance(real[0], cst.Call) else None


def _only_call(module: Module, cls: cst.ClassDef, attr: str) -> cst.Call | None:
    """Return the one call of the layer ``self.attr``; None where it is called twice or used in
    another way."""
    calls = []
    for use in _uses(module, cls, attr):
        above = module.parent(use)
        plain = isinstance(above, cst.Attribute) and above.attr.value in _PLAIN
        if plain or isinstance(above, (cst.AssignTarget, cst.If, cst.Comparison)):
            continue
        if not isinstance(above, cst.Call) or above.func is not use:
            return None
        calls.append(above)
    picks = (c for m in family_of(module, cls) for c in module.within(m, cst.Call, nested=True))
    if any(module.name(c.func) == "builtins.getattr" and _of_self(c) for c in picks):
        return None
    return calls[0] if len(calls) == 1 else None


def _of_self(call: cst.Call) -> bool:
    literal = len(call.args) > 1 and isinstance(call.args[1].value, cst.SimpleString)
    return bool(call.args) and dotted_text(call.args[0].value) == "self" and not literal
