"""Tensors that are copied to the host once before a loop that reads them there."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import libcst as cst

from torchlint.fixes.expressions import Rewrite, Rewriter, instead, method_call, nested
from torchlint.fixes.fix import Fix, InsertBefore, NodeEdit, Replace
from torchlint.fixes.notes import safe_unless
from torchlint.semantic.code.flow import writes_of
from torchlint.semantic.code.tree import is_name, method_called, root_of
from torchlint.semantic.module import Module
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.uses.assumptions import FRAMES, PATCHED, TORCH
from torchlint.semantic.uses.host_elements import HostElements
from torchlint.semantic.uses.host_loops import HostLoop, on_condition

_AS_BEFORE = (
    "A tensor that shares memory with one that the loop changes in place is read as it was before "
    "the loop."
)


def brought_to_host(module: Module, found: HostLoop) -> Fix | None:
    """Return the fix that copies to the host, before a loop, the tensors of which the loop reads
    something in each iteration; None where a name for a copy is taken."""
    made = _copied_before(module, found)
    if made is None:
        return None
    copied, rewrites = made
    for asked, mask in found.counted:
        renamed = mask.visit(Rewriter({use: rewrites[use] for use in found.uses}))
        assert isinstance(renamed, cst.BaseExpression)
        number = method_call(method_call(renamed, "sum"), "item")
        rewrites[asked] = partial(instead, number)
    if found.writes:  # The note says what may change, whichever loop it is.
        copied = InsertBefore(_widest(module, found), copied.code)
    return _once_before([copied, *nested(module, rewrites)], found.writes)


def _widest(module: Module, found: HostLoop) -> cst.CSTNode:
    """Return the outermost loop of a step that neither binds a loop's tensors nor writes into them
    by their names."""
    widest: cst.CSTNode = found.loop
    for loop in module.loops(widest):
        targets = module.within(loop, cst.AssignTarget)
        stored: list[cst.BaseExpression] = [each.target for each in targets]
        stored += [each.target for each in module.within(loop, cst.AugAssign)]
        calls = module.within(loop, cst.Call)
        stored += [each.func for each in calls if method_called(each).endswith("_")]
        if (
            loop_kind(module, loop) is not LoopKind.OTHER
            or on_condition(module, loop, widest)
            or any(writes_of(module, loop, name) for name in found.tensors)
            or any(is_name(root_of(each), name) for each in stored for name in found.tensors)
        ):
            break
        widest = loop
    return widest


def elements_on_host(module: Module, found: HostElements) -> Fix | None:
    """Return the fix that copies to the host, before a loop, the tensors of which the loop reads
    elements one by one; what else it does with them stays on the device. None where a name for a
    copy is taken."""
    made = _copied_before(module, found)
    if made is None:
        return None
    copied, rewrites = made
    edits: list[NodeEdit] = [*nested(module, rewrites)]
    if found.iterated is not None:
        edits.append(Replace(found.iterated, method_call(found.iterated, "cpu")))
    else:
        edits.insert(0, copied)
    return _once_before(edits, not found.kept)


def _copied_before(
    module: Module, found: HostLoop | HostElements
) -> tuple[InsertBefore, dict[cst.BaseExpression, Rewrite]] | None:
    """Return the line that copies a loop's tensors to the host, and what then reads the copies."""
    names = {name: f"{name}_cpu" for name in found.tensors}
    if any(new in module.text for new in names.values()):
        return None
    rewrites: dict[cst.BaseExpression, Rewrite] = {}
    for use in found.uses:
        rewrites[use] = lambda node: node.with_changes(value=names[node.value])
    for copy in found.copies:
        rewrites[copy] = lambda node: node.func.value
    right = ", ".join(f"{name}.cpu()" for name in names)
    return InsertBefore(found.loop, f"{', '.join(names.values())} = {right}"), rewrites


def _once_before(edits: Iterable[NodeEdit], written: bool) -> Fix:
    notes = (_AS_BEFORE if written else "",)
    title = "Copy to the host once, before the loop"
    return safe_unless(notes, edits, title, {FRAMES: _AS_BEFORE, TORCH: PATCHED})
