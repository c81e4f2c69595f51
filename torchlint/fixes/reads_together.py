"""Reads that stand beside other waits: several are made one, and the fix of one that gains nothing
alone is only shown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import libcst as cst

from torchlint.base.finding import Safety
from torchlint.fixes.fix import Fix, InsertBefore, NeedImport, NodeEdit, Remove, Replace
from torchlint.fixes.notes import safe_unless
from torchlint.semantic.code.imports import torch_name
from torchlint.semantic.data.evaluated_batches import shown_beside
from torchlint.semantic.device.host_reads import HostRead
from torchlint.semantic.device.possible_waits import scaler_waits
from torchlint.semantic.module import Module
from torchlint.semantic.uses.assumptions import ONE_DEVICE, TORCH
from torchlint.semantic.uses.plain_numbers import has_no_dimension
from torchlint.semantic.uses.reads_together import (
    ReadsTogether,
    bound_to,
    neighbours_in_tuple,
    reads_together,
)
from torchlint.semantic.uses.unavoidable_syncs import stays_beside, waited_before
from torchlint.semantic.values.inferred import inferred

_TOGETHER = "Tensors of different devices would raise; each has one number, by what is known."
_NEEDED = "Other calls in the step read the device as well: this alone saves next to nothing."
_WAITED = "The step has waited for the device just before: this read waits for nothing more."
LOGGED = "The step waits for what it logs beside it all the same: first log every N steps."
_ALONE = " `{other}` waits for the same work: little is gained by fixing one of them alone."
_WHERE_SCALED = (
    " Where its scaler is on, `{other}` waits for the same work: little is gained by fixing one "
    "of them alone."
)
_STEPS_OF_NAMES = 3
_DIGITS = "_0123456789"


def read_together(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which neighbours in a tuple, or all that lines below each other bind,
    become one read of a stacked tensor in their place."""
    found = reads_together(module, read.node) or neighbours_in_tuple(module, read.node)
    if found is None:
        return None
    torch = torch_name(module)
    bare = [each.tensor.with_changes(lpar=(), rpar=()) for each in found.reads]
    parts = ", ".join(cst.Module(()).code_for_node(each) for each in bare)
    edits = _in_their_place(module, found, f"{torch}.stack(({parts})).tolist()")
    if not edits:
        return None
    note, assumes = stacked_safely(module, found.reads)
    every = (*edits, NeedImport("torch", torch))
    return safe_unless([note], every, "Read all of them at once", assumes)


def _in_their_place(module: Module, found: ReadsTogether, numbers: str) -> Sequence[NodeEdit]:
    """Return the edits that put a list of numbers where reads stand; none where these are neither
    neighbours in a tuple nor all that their lines bind."""
    nodes = [each.node for each in found.reads]
    first, *others = found.lines
    if others:
        targets = [*map(bound_to, found.lines, found.reads)]
        codes = [module.source_of(each) for each in targets if each is not None]
        if not len(codes) == len(nodes) == len(found.lines):
            return ()
        code = f"{', '.join(codes)} = {numbers}"
        return [Replace(first.body[0], _small(code)), *(Remove(each) for each in others)]
    row = module.parent(module.parent(nodes[0]) or first)
    if not isinstance(row, cst.Tuple) or any(not isinstance(e, cst.Element) for e in row.elements):
        return ()
    values = [each.value for each in row.elements]
    at = values.index(nodes[0]) if nodes[0] in values else 0
    if values[at : at + len(nodes)] != nodes:
        return ()
    match module.parent(row):
        case cst.Assign([cst.AssignTarget(cst.Tuple() | cst.List())]) if values == nodes:
            new = numbers
        case _ if values == nodes:
            new = f"tuple({numbers})"
        case _:
            codes = [module.source_of(each) for each in values]
            codes[at : at + len(nodes)] = [f"*{numbers}"]
            new = f"({', '.join(codes)})"
    return [Replace(row, cst.parse_expression(new))]


def _small(code: str) -> cst.BaseSmallStatement:
    return cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine).body[0]


def read_at_once(module: Module, read: HostRead) -> Fix | None:
    """Return the fix by which a read, and those beside it, are made as one before their lines; None
    where it is alone, or where nothing would be a good name for a number."""
    found = reads_together(module, read.node)
    if found is None or not found.in_order:
        return None
    names: dict[str, str] = {}
    for each in found.reads:
        code = module.source_of(each.tensor)
        if code in names:
            continue
        name = _name_of_number(each.tensor)
        same = [other for other in names.values() if other.rstrip(_DIGITS) == name]
        if not name or name in module.text:
            return None
        names[code] = f"{name}_{len(same) + 1}" if same else name
    torch = torch_name(module)
    stacked = f"{torch}.stack(({', '.join(names)})).tolist()"
    edits: list[NodeEdit] = [
        InsertBefore(found.lines[0], f"{', '.join(names.values())} = {stacked}")
    ]
    edits += [
        Replace(each.node, cst.Name(names[module.source_of(each.tensor)])) for each in found.reads
    ]
    edits.append(NeedImport("torch", torch))
    note, assumes = stacked_safely(module, found.reads)
    return safe_unless([note], edits, "Read all of them at once", assumes)


def stacked_safely(module: Module, reads: Iterable[HostRead]) -> tuple[str, dict[str, str]]:
    """Return the note of a fix that reads several tensors as one stack, empty where each of them
    certainly has no dimension, and what the fix takes for granted."""
    tensors = [each.tensor for each in reads]
    apart = [_may_lie_apart(module, each) for each in tensors]
    if any(apart) != all(apart) or not all(has_no_dimension(module, each) for each in tensors):
        return _TOGETHER, {}
    return "", dict.fromkeys((ONE_DEVICE, TORCH), _TOGETHER)


def _may_lie_apart(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is a parameter or buffer without dimensions of a module that runs no
    layer of its own: such a one computes with tensors of the device even where nobody has moved it
    there, as torch takes a scalar of the host beside them."""
    while isinstance(tensor, cst.Call) and isinstance(tensor.func, cst.Attribute):
        tensor = tensor.func.value
    cls = module.class_of(tensor)
    match tensor:
        case cst.Attribute(cst.Name("self")) if cls is not None:
            return inferred(module, tensor).origin in ("param", "buffer") and not any(
                inferred(module, call.func).kind == "module"
                for call in module.within(cls, cst.Call, nested=True)
            )
    return False


def alone(module: Module, node: cst.CSTNode, other: cst.CSTNode) -> str:
    """Return the sentence on another wait for the same work as a node, which a setting may switch
    off."""
    off = isinstance(other, cst.Call) and scaler_waits(module, other) is None
    sentence, another = (_WHERE_SCALED, "another") if off else (_ALONE, "Another")
    return sentence.replace("`{", f"{another} `{{") if node.deep_equals(other) else sentence


def in_vain(fix: Fix, note: str) -> Fix:
    """Return a fix that is only shown because of another wait, which the note tells."""
    return replace(fix, safety=Safety.SUGGESTION, note=note, in_vain=True)


def shown_if_in_vain(
    module: Module, node: cst.BaseExpression, tensor: cst.BaseExpression, fix: Fix | None
) -> Fix | None:
    """Return the fix of one read of a tensor, which is only shown where the host needs another read
    right beside it, or shows one there, or where a copy just before has waited for it."""
    if fix is None:
        return None
    if waited_before(module, tensor) is not None:
        return in_vain(fix, _WAITED)
    if stays_beside(module, node) is not None or shown_beside(module, node) is not None:
        return in_vain(fix, _NEEDED)
    return fix


def _name_of_number(tensor: cst.BaseExpression) -> str:
    """Return a name for the number that a tensor holds, of the names in it: ``loss_value``,
    ``mean_angles``; empty for none."""
    parts: list[str] = []
    node: cst.CSTNode = tensor
    while len(parts) < _STEPS_OF_NAMES:
        match node:
            case cst.Name(name):
                parts.append(name)
                break
            case cst.Attribute(cst.Name("self"), cst.Name(name)):
                parts.append(name)
                break
            case cst.Attribute(inner, cst.Name("data")) | cst.Comparison(inner):
                node = inner
            case cst.Call(cst.Attribute(cst.Name(), method), [first]):
                parts.append(method.value)
                node = first.value
            case cst.Call(cst.Attribute(inner, method), []):
                if method.value != "detach":
                    parts.append(method.value)
                node = inner
            case _:
                return ""
    return f"{parts[0]}_value" if len(parts) == 1 else "_".join(parts)
