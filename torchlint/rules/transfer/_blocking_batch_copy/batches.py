"""Which moves bring a batch to the device that a loader or a caller gave, so that the host waits
for each."""

from __future__ import annotations

import re
from functools import partial

import libcst as cst

from torchlint.base.regex import regex
from torchlint.rule import Module, Transfer, conditions_around, inferred, on_device
from torchlint.rules.transfer._blocking_batch_copy.overlaps import changed_later
from torchlint.rules.transfer._blocking_batch_copy.tensor_origins import lies_with_batch
from torchlint.semantic.code.flow import call_sites, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import (
    assigned_value,
    assigned_values,
    definitions_of,
    readers_of,
)
from torchlint.semantic.code.scopes import name_outside
from torchlint.semantic.code.tree import (
    DISPLAYS,
    attr_of,
    components,
    is_name,
    last_name,
    method_called,
    root_of,
)
from torchlint.semantic.data.datasets import takes_samples
from torchlint.semantic.data.graphs import is_dgl_graph
from torchlint.semantic.device.host_reads import copies_around
from torchlint.semantic.device.new_memory import in_new_memory, values_of_name
from torchlint.semantic.device.transfers import (
    cast_before,
    certainly_tensor,
    is_network_moved,
    transfer_of,
)
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.packed_lengths import becomes_lengths
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.apple import only_apple
from torchlint.semantic.values.classes import in_lightning
from torchlint.semantic.values.place import named_device
from torchlint.semantic.values.value import CPU

_TURNS = ops.having("turns")
_VIEWS = ops.having("view")
_WAITS = ops.having("waits", "method")
_MOVES_ITSELF = regex(r"^[ \t]+def (?:to|cuda)\(self(?![^)]*(?:non_blocking|\*\*))", re.MULTILINE)
_OWNS_DEVICE = regex(
    r"model|net|module|cfg|conf|args|opt|accelerator|fabric|trainer|engine|strategy|policy|actor"
    r"|critic|agent|coder|vae|transformer|pipe",
    re.IGNORECASE,
)
"""What has a device and is no tensor, by its name: the device of the program."""


@question(remember=False)
def blocking_move(module: Module, node: cst.Call) -> Transfer | None:
    """Return the move of a batch for which the host waits; None for any other call."""
    transfer = transfer_of(module, node)
    if (
        transfer is None
        or "non_blocking" in transfer.given
        or only_apple(module)
        or transfer.like
        or not _from_loader(module, transfer)
        or _from_dataset(module, transfer.source)
        or in_new_memory(module, transfer.source)
        or _there_already(module, transfer)
        or lies_with_batch(module, transfer)
        or cast_before(module, transfer.source)
        or is_network_moved(module, transfer.source)
        or _is_scattered(transfer.source)
        or is_dgl_graph(module, transfer.source)
        or waited_for(module, node)
        or _asked_before(module, transfer)
        or older_than_loops(module, transfer.source)
        or _brings_back(module, transfer)
        or _of_objects(module, transfer.source)
    ):
        return None
    return None if changed_later(module, transfer.source) else transfer


def _from_loader(module: Module, transfer: Transfer) -> bool:
    """Say whether what is moved is a batch that a loader or a caller hands to this step, or a part
    of one."""
    value = inferred(module, transfer.source)
    if value.device not in (None, CPU) or in_lightning(module, transfer.call):
        return False
    if value.origin == "batch":
        return value.kind in ("tensor", "batch")
    # What the program makes on the host itself no loader pins.
    made_here = value.device == CPU
    if made_here or value.origin is not None or value.kind not in ("?", "tensor"):
        return False
    # A loss gets what the model made, which is on the device; ``.to(other.device)`` lines two
    # tensors up.
    function = module.function(transfer.call)
    if _aligns(module, transfer.target) or (function is not None and "loss" in function.name.value):
        return False
    return _handed_in(module, transfer.source)


def _of_objects(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what a loop gives beside what is moved, or that itself, has a method that no
    tensor has, but a class of the project whose ``to`` or ``cuda`` takes no ``non_blocking``."""
    if not said_somewhere(module, _moves_itself):
        return False
    own = module.names_in(source)
    for loop in module.loops(source):
        given = module.names_in(loop.target) if isinstance(loop, cst.For) else frozenset()
        if own.isdisjoint(given):
            continue
        asked = {
            method_called(module.method_call(each))
            for name in given
            for each in module.tree.named(name)
            if module.is_within(each, loop)
        }
        if any(
            said_somewhere(module, partial(_has_both, each)) for each in asked - ops.METHODS - {""}
        ):
            return True
    return False


def _has_both(method: str, text: str) -> bool:
    """Say whether a file defines a method, and moves that take no ``non_blocking``."""
    return f"def {method}(self" in text and _moves_itself(text)


def _moves_itself(text: str) -> bool:
    return ("def to(" in text or "def cuda(" in text) and _MOVES_ITSELF.search(text) is not None


def _aligns(module: Module, target: cst.BaseExpression | None) -> bool:
    """Say whether a move only lines two tensors up: ``x.to(self._counts.device)``."""
    if not isinstance(target, cst.Attribute) or target.attr.value != "device":
        return False
    held, place = inferred(module, target.value), root_of(target.value, cst.Subscript)
    part = place is not target.value or isinstance(place, cst.Attribute)
    part = part and not _OWNS_DEVICE.search(last_name(place))
    return held.tensor or (held.kind == "?" and part)


def _asked_before(module: Module, transfer: Transfer) -> bool:
    """Say whether a test asks first where the tensor is: ``if x.device != device:``."""
    return any(
        isinstance(test, cst.Comparison)
        and attr_of(test.left) == "device"
        and isinstance(test.comparisons[0].operator, cst.NotEqual)
        for test, _ in conditions_around(module, transfer.call)
    )


def _from_dataset(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether a loop takes what is moved from a dataset itself, or by its place in what it
    counts, ``data[i]`` for ``i in range(len(data))``: no loader pins that memory."""
    source = root_of(source, cst.Subscript)
    loops = [loop for loop in module.loops(source) if isinstance(loop, cst.For)]
    return isinstance(source, cst.Name) and any(
        (source.value in module.names_in(loop.target) and takes_samples(module, loop))
        or any(_by_place(module, each, loop) for each in definitions_of(module, source))
        for loop in loops
    )


def _by_place(module: Module, definition: cst.CSTNode, loop: cst.For) -> bool:
    match definition:
        case cst.Assign(
            value=cst.Subscript(data, [cst.SubscriptElement(cst.Index(cst.Name(index)))])
        ):
            return is_name(loop.target, index) and any(
                module.called(call) == "builtins.len" and call.args[0].value.deep_equals(data)
                for call in module.within(loop.iter, cst.Call)
            )
    return False


def older_than_loops(module: Module, source: cst.BaseExpression, calls: int = 3) -> bool:
    """Say whether all loops around a copy have what is moved from before them, also around all
    calls of the function that gets it: it is the same in each iteration, and no batch."""
    loops = module.loops(source)
    names = list(module.within(source, cst.Name))
    made = [definition for name in names for definition in definitions_of(module, name)]
    if loops:
        return bool(made) and not any(module.is_within(each, loops[-1]) for each in made)
    function = module.function(source)
    if function is None or set(made) != {function} or len(names) != 1 or not calls:
        return False
    given = _given_by_callers(module, function, names[0].value)
    return bool(given) and all(
        each is not None and older_than_loops(where, each, calls - 1) for where, each in given
    )


def _given_by_callers(
    module: Module, function: cst.FunctionDef, name: str
) -> list[tuple[Module, cst.BaseExpression | None]]:
    """Return what each call in view gives a parameter, with the file of the call."""
    sites = [(module, site) for site in call_sites(module, function)]
    if (known := name_outside(module, function)) is not None:
        sites += module.outside.calling(Definition(module.path, known, ""))
    return [(where, module.bind(function, site).get(name)) for where, site in sites]


@question(remember=False)
def waited_for(module: Module, call: cst.Call) -> bool:
    """Say whether the host waits for what is moved in the same expression:
    ``x.to(device).tolist()``."""
    return method_called(module.method_call(call)) in _WAITS


@question(remember=False)
def only_copied_back(module: Module, call: cst.Call) -> bool:
    """Say whether all that is done with what is moved is to copy it back to the host: it should
    stay there (TL113)."""
    match module.small_statement(call):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) as home if value is call:
            reads = readers_of(module, home, name)
            kinds = (cst.Attribute, cst.Call)
            return bool(reads) and all(
                becomes_lengths(module, r) or any(copies_around(module, r, *kinds)) for r in reads
            )
    return False


@question(
    yes="a generator cuts `{0}` out of one tensor", no="no generator is known to cut out `{0}`"
)
def cut_by_generator(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether a loop takes what is moved from a generator of the project, which cuts it out of
    what it has from before its own loops: no loader makes it."""
    made = definitions_of(module, source) if isinstance(source, cst.Name) else []
    return bool(made) and all(
        isinstance(loop, cst.For) and _gives_cuts(module, loop, module.source_of(source))
        for loop in made
    )


def _gives_cuts(module: Module, loop: cst.For, name: str) -> bool:
    for goes in loop_sources(module, loop):
        target = goes.target
        parts = list(components(target, cst.Tuple)) if isinstance(target, cst.Tuple) else [target]
        at = next((i for i, each in enumerate(parts) if is_name(each, name)), None)
        if at is None or not isinstance(goes.iterated, cst.Call):
            continue
        given = [
            (where, each.value)
            for where, function in definitions_behind.functions(module, goes.iterated)
            for each in where.within(function.body, cst.Yield)
        ]
        return bool(given) and all(_is_cut(where, each, at, len(parts)) for where, each in given)
    return False


def _is_cut(module: Module, given: cst.CSTNode | None, at: int, parts: int) -> bool:
    """Say whether what a generator gives, or one of several things, is a slice of what it has from
    before its loops, and that is not pinned in its file."""
    if isinstance(given, cst.Tuple) and len(given.elements) == parts:
        given = given.elements[at].value
    elif given is None or parts > 1:
        return False
    cut = assigned_value(module, given) or given
    return (
        isinstance(cut, cst.Subscript)
        and any(isinstance(each.slice, cst.Slice) for each in cut.slice)
        and isinstance(cut.value, cst.Name)
        and bool(module.loops(cut))
        and older_than_loops(module, cut.value)
        and ".pin_memory(" not in module.text
    )


@question()
def unread_copy(module: Module, call: cst.Call) -> bool:
    """Say whether nothing but the copy reads the name to which a copied tensor is bound."""
    line, function = module.small_statement(call), module.function(call)
    if not isinstance(line, cst.Assign) or function is None:
        return False
    match line.targets[0].target, line.value:
        case cst.Name(name), value if value is call:
            pass
        case cst.Tuple(names), cst.Tuple(values) if len(names) == len(values):
            at = next((i for i, each in enumerate(values) if each.value is call), None)
            target = names[at].value if at is not None else None
            if not isinstance(target, cst.Name):
                return False
            name = target.value
        case _:
            return False
    inner = module.within(function.body, cst.FunctionDef, cst.Lambda, nested=True)
    return (
        len(line.targets) == 1
        and all(module.is_within(read, line) for read in readers_of(module, line, name))
        and "locals" not in module.names_in(function)
        and not any(name in module.names_in(each) for each in inner)
    )


def _there_already(module: Module, transfer: Transfer) -> bool:
    """Say whether all that a name may hold was made for the very device that it is moved to, or
    moved there: ``mask = ids.to(x.device)``, ``mask = torch.ones(n, device=x.device)``."""
    target = transfer.target
    if target is None or not isinstance(transfer.source, cst.Name):
        return False
    values = [each for each, _ in values_of_name(module, transfer.source)]
    return bool(values) and all(
        isinstance(each, cst.Call) and any(arg.value.deep_equals(target) for arg in each.args)
        for each in values
    )


def _is_scattered(source: cst.BaseExpression) -> bool:
    """Say whether what is moved is certainly a view of elements that do not lie in a row, ``x[:,
    1:]``: torch copies them into other memory first, which is not pinned."""
    match source:
        case cst.Call(cst.Attribute(attr=cst.Name(name))):
            return name in _TURNS
        case cst.Subscript(slice=parts):
            wide = False
            for part in parts:
                chosen = part.slice
                cut = isinstance(chosen, cst.Slice) and any((chosen.lower, chosen.upper))
                if isinstance(chosen, cst.Slice) and chosen.step is not None:
                    return True
                whole = not cut and (
                    isinstance(chosen, cst.Slice)
                    or (isinstance(chosen, cst.Index) and isinstance(chosen.value, cst.Ellipsis))
                )
                if wide and not whole:
                    return True
                wide = wide or whole or cut
    return False


def _handed_in(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether a name of unknown origin, or what it is made from, is a parameter or a loop's
    target."""
    source = root_of(source, cst.Subscript)
    function = module.function(source)
    if not isinstance(source, cst.Name) or any(
        isinstance(each, cst.CompFor) for each in definitions_of(module, source)
    ):
        return False
    given = (
        {p.name.value for p in function.params.params if p.name.value != "self"}
        if function is not None
        else set()
    )
    around = module.loops(source)
    for loop in around:
        if isinstance(loop, cst.For):
            given.update(module.names_in(loop.target))
    moved = {each for each in given if _moved_by_callers(module, function, each)}
    if source.value in given:
        return source.value not in moved
    for write in writes_of(module, function or module.root, source.value):
        made = module.small_statement(write)
        if around and made is not None and not module.is_within(made, around[-1]):
            continue  # What is there before the loop begins is no batch of it.
        match (
            made.value
            if isinstance(made, cst.Assign) and not module.is_within(source, made)
            else None
        ):
            case cst.Call(args=args) as call:
                if (
                    any(on_device(module, arg.value) is True for arg in call.args)
                    or _from_table(module, call)
                    or _of_another_package(module, call)
                ):
                    continue
                parts: list[cst.CSTNode] = list(args)
                if isinstance(call.func, cst.Attribute) and call.func.attr.value in _VIEWS:
                    parts.append(call.func.value)
            case cst.Subscript(holder) | (cst.Name() as holder):  # ``x, y = batch``
                parts = [holder]
            case _:
                continue
        names = module.names_in(*parts)
        return bool(given.intersection(names)) and moved.isdisjoint(names)
    return False


def _moved_by_callers(module: Module, function: cst.FunctionDef | None, name: str) -> bool:
    """Say whether every call in view gives a parameter what the caller, or a function that makes
    it there, has moved itself."""
    given = _given_by_callers(module, function, name) if function is not None else []
    return bool(given) and all(
        each is not None and _moved_there(where, each) for where, each in given
    )


def _moved_there(module: Module, given: cst.BaseExpression) -> bool:
    made: list[cst.CSTNode] = [given]
    if isinstance(given, cst.Name):
        made = [each for each in definitions_of(module, given) if isinstance(each, cst.Assign)]
    calls = [call for each in made for call in module.within(each, cst.Call)]
    return any(
        transfer_of(module, call) is not None
        or any(
            transfer_of(where, inner) is not None
            for where, function in definitions_behind.functions(module, call)
            for inner in where.within(function.body, cst.Call)
        )
        for call in calls
    )


def _brings_back(module: Module, transfer: Transfer) -> bool:
    """Say whether a method, ``batch.to(device)``, moves what it holds to the device that it is
    given, and a call gives it the CPU: then it copies to the host as well."""
    function, target = module.function(transfer.call), transfer.target
    return (
        isinstance(function, cst.FunctionDef)
        and module.is_method(function)
        and isinstance(target, cst.Name)
        and any(
            each is not None and named_device(where, each) == CPU
            for where, each in _given_by_callers(module, function, target.value)
        )
    )


def _of_another_package(module: Module, call: cst.Call) -> bool:
    """Say whether a call gives what another package than torch makes of a batch and of what is
    computed here, as a reward of answers: that lies in memory of its own."""
    name = module.called(call)
    package = name.partition(".")[0]
    return (
        package not in ("", "torch", "builtins")
        and module.outside.find(name) is None
        and any(_made_by_calls(module, arg.value) for arg in call.args)
    )


@question()
def _made_by_calls(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a name holds what calls have given that give no views."""
    values = assigned_values(module, node)
    return bool(values) and all(
        isinstance(value, cst.Call)
        and (
            not isinstance(value.func, cst.Attribute)
            or value.func.attr.value not in _VIEWS
            or _made_by_calls(module, value.func.value)
        )
        for value in values
    )


def _from_table(module: Module, call: cst.Call) -> bool:
    """Say whether a method of the project gives rows of a table that its object keeps,
    ``self.table[ids]``: no loader makes them, whatever the indices come from."""
    behind = definitions_behind.functions(module, call)
    if not behind and isinstance(call.func, cst.Attribute):
        holder = inferred(module, call.func.value)
        method = definitions_behind.method(module, holder, call.func.attr.value)
        behind = [method] if method is not None else []
    given = [
        each for where, function in behind for each in definitions_behind.returned(where, function)
    ]
    return bool(given) and all(
        isinstance(each, cst.Subscript)
        and isinstance(each.value, cst.Attribute)
        and dotted_text(each.value.value) == "self"
        for each in given
    )


@question(remember=False)
def is_part_of_batch(module: Module, source: cst.BaseExpression) -> bool:
    """Say whether what is moved is used as a tensor, or is a part of a batch: by a key, or unpacked
    with others."""
    if certainly_tensor(module, source) or isinstance(source, cst.Subscript):
        return True
    if not isinstance(source, cst.Name):
        return False
    found = definitions_of(module, source)
    return bool(found) and all(_unpacks(each, source.value) for each in found)


def _unpacks(definition: cst.CSTNode, name: str) -> bool:
    match definition:
        case cst.Assign([cst.AssignTarget(cst.Tuple() as target)]):
            return any(is_name(each.value, name) for each in target.elements)
        case cst.For(cst.Tuple() as target, iterated):
            counted = isinstance(iterated, cst.Call) and is_name(iterated.func, "enumerate")
            if not counted or len(target.elements) != 2:
                return any(is_name(each.value, name) for each in target.elements)
            inner = target.elements[1].value
            return isinstance(inner, DISPLAYS) and any(
                is_name(each.value, name) for each in inner.elements
            )
    return False
