"""The repair of a dictionary that a step fills with numbers one by one: it holds tensors until the
step's last one is there, and all of them are read at once."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.fixes.after_loop import kept_for_later
from torchlint.fixes.notes import safe_unless
from torchlint.rule import Fix, InsertAfter, Module, NeedImport, NodeEdit, Replace, inferred
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import attr_of
from torchlint.semantic.device.host_reads import HostRead, number_kind, scalar_reads
from torchlint.semantic.torch.spelling import LOSS, called
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, ONE_DEVICE, TORCH
from torchlint.semantic.uses.plain_numbers import has_no_dimension
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.detachable import detachable
from torchlint.semantic.values.value import CPU

_HELD = "Until the last number is there the dictionary holds tensors, for an exception handler too."
_APART = "Tensors of different devices would raise."
_OTHERS = (
    "Other tensors in the dictionary become numbers as well, and one of several numbers raises."
)
_NEW = {"logged", "values"}
_LEAVES = (cst.Return, cst.Break, cst.Continue, cst.Yield, cst.Await)
_NO_TENSORS = ("number", "bool", "str", "none", "ndarray")
_EMPTY = ("builtins.dict", "collections.OrderedDict")


def read_when_filled(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which ``log["loss"] = loss.item()`` and its likes in the same step are read
    at once behind the last of them; None where something looks at the dictionary before."""
    holder, function = _filled(module, read.node), module.function(read.node)
    home = next(iter(module.loops(read.node)), function)
    if holder is None or function is None or not isinstance(home, (cst.FunctionDef, cst.For)):
        return None
    fills = list(_fills(module, home, holder))
    nodes = [each.node for each in fills]
    if len(fills) < 2 or read.node not in nodes or _NEW & module.names_in(function):
        return None
    lines = home.body.body
    behind = [e for e in lines if module.is_within(nodes[-1], e) or module.before(nodes[-1], e)]
    last = next((e for e in behind[::-1] if _is_unseen(module, home, holder, nodes[0], e)), None)
    if last is None:
        return None
    name, torch = module.source_of(holder), torch_name(module)
    plain = all(has_no_dimension(module, each.tensor) for each in fills)
    always = [module.statement(each) in lines for each in nodes]
    puts = _assigned_items(module, home, holder)
    places = dict.fromkeys(module.source_of(place) for place, value in puts if value in nodes)
    row = ", ".join(places) if plain and all(always) and len(places) > 1 else ""
    if row:
        code = f"{row} = {torch}.stack(({row})).tolist()"
    elif any(always) and _made_anew(module, home, holder, nodes[0]):
        numbers = "[value.reshape(()) for value in logged.values()]"
        numbers = "list(logged.values())" if plain else numbers
        items = f"for key, value in {name}.items() if {torch}.is_tensor(value)"
        code = (
            f"logged = {{key: value {items}}}\n"
            f"values = {torch}.stack({numbers})\n"
            f"{name}.update(zip(logged, values.tolist()))"
        )
    else:
        return None
    others = [inferred(module, value) for _, value in puts if value not in nodes]
    if not row and any(each.tensor for each in others):
        return None
    note = "" if row or all(each.kind in _NO_TENSORS for each in others) else _OTHERS
    edits: list[NodeEdit] = [
        Replace(each.node, kept_for_later(module, each, each.node)) for each in fills
    ]
    edits += [InsertAfter(last, code), NeedImport("torch", torch)]
    assumes = dict.fromkeys((FRAMES, TORCH, LOSSES), _HELD) | {ONE_DEVICE: _APART}
    return safe_unless([note], edits, "Read all of them at once", assumes)


def _filled(module: Module, node: cst.BaseExpression) -> cst.BaseExpression | None:
    """Return the dictionary under whose key, a text, an expression is put."""
    match module.small_statement(node):
        case cst.Assign(
            [
                cst.AssignTarget(
                    cst.Subscript(
                        holder,
                        [cst.SubscriptElement(cst.Index(cst.SimpleString()))],
                    )
                )
            ],
            value,
        ) if value is node and dotted_text(holder) is not None:
            return holder
    return None


def _fills(module: Module, home: cst.CSTNode, holder: cst.BaseExpression) -> Iterator[HostRead]:
    """Yield the reads of floating numbers of the device that a step puts into a dictionary; not of
    a name that may be bound to a tensor of the CPU, ``loss = torch.zeros(1)``."""
    for call in module.within(home, cst.Call):
        other = _filled(module, call)
        if other is None or not other.deep_equals(holder):
            continue
        for read in scalar_reads(module, call):
            tensor, kind = read.tensor, number_kind(module, read)
            made = definitions_of(module, tensor) if isinstance(tensor, cst.Name) else []
            of_host = (inferred(module, m.value).device for m in made if isinstance(m, cst.Assign))
            if (
                read.node is call
                and read.how in ("item", "float")
                and (kind == "float" or (not kind and called(module.source_of(tensor), LOSS)))
                and next(iter(module.loops(call)), home) is home
                and detachable(module, tensor)
                and CPU not in of_host
            ):
                yield read


def _assigned_items(
    module: Module, home: cst.CSTNode, holder: cst.BaseExpression
) -> list[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Return the places in a dictionary to which a step assigns, with what it puts there."""
    return [
        (target.target, each.value)
        for each in module.within(home, cst.Assign)
        for target in each.targets
        if isinstance(target.target, cst.Subscript) and target.target.value.deep_equals(holder)
    ]


def _is_unseen(
    module: Module,
    home: cst.CSTNode,
    holder: cst.BaseExpression,
    first: cst.CSTNode,
    last: cst.CSTNode,
) -> bool:
    """Say whether a step goes on from its first number to the end of a line, and nothing does
    anything with the dictionary there but put something else into it."""
    for node in module.within(home, type(holder), cst.Call, *_LEAVES, nested=True):
        if not module.is_within(node, last) and not (
            module.before(first, node) and module.before(node, last)
        ):
            continue
        if isinstance(node, _LEAVES):
            return False
        place = module.parent(node)
        put = isinstance(place, cst.Subscript) and place.value is node
        put = put and isinstance(module.parent(place), cst.AssignTarget)
        if node.deep_equals(holder) and not put:
            return False
        if isinstance(node, cst.Call) and _seen_inside(module, node, holder):
            return False
    return True


def _seen_inside(module: Module, call: cst.Call, holder: cst.BaseExpression) -> bool:
    """Say whether a function that a call comes to, by way of others too, names a dictionary that is
    not its own."""
    todo, known = [(module, call)], set[cst.CSTNode]()
    while todo:
        for where, function in definitions_behind.functions(*todo.pop()):
            if function in known:
                continue
            known.add(function)
            name = holder.value if isinstance(holder, cst.Name) else ""
            if name and reads_of(where, function, name) and not writes_of(where, function, name):
                return True
            for each in where.within(function.body, cst.Attribute, cst.Call, nested=True):
                if isinstance(each, cst.Call):
                    todo.append((where, each))
                elif attr_of(each) == attr_of(holder):
                    return True
    return False


def _made_anew(
    module: Module, home: cst.CSTNode, holder: cst.BaseExpression, first: cst.CSTNode
) -> bool:
    """Say whether a step makes the dictionary itself, empty, before it fills it."""
    for each in module.within(home, cst.Assign):
        match each:
            case cst.Assign([cst.AssignTarget(target)], value) if target.deep_equals(
                holder
            ) and module.before(each, first):
                name = (
                    module.called(value) if isinstance(value, cst.Call) and not value.args else ""
                )
                empty = isinstance(value, cst.Dict) and not value.elements
                return (empty or name in _EMPTY) and _is_unseen(module, home, holder, value, first)
    return False
