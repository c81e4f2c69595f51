"""Reads of tensors put off: a statement that reads one runs after its loop, and a name that holds a
number holds the tensor until something needs the number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from torchlint.fixes.expressions import detached, method_call, number_of, swapped
from torchlint.fixes.fix import Fix, InsertAfter, InsertBefore, NodeEdit, Remove, Replace
from torchlint.fixes.log_every_n import logged_every
from torchlint.fixes.notes import safe_unless
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.data.later_steps import LaterSteps, later_steps
from torchlint.semantic.data.per_step_use import LogLines
from torchlint.semantic.device.host_reads import HostRead
from torchlint.semantic.module import Module
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.accumulators import keeps_its_values, reaches_line_after
from torchlint.semantic.uses.assumptions import ERRORS, FRAMES, LOSSES, MEMORY, TORCH
from torchlint.semantic.uses.number_uses import NumberUses, first_read_after, read_in_blocks
from torchlint.semantic.uses.unchanged_values import bound_per_iteration, fresh_per_iteration
from torchlint.semantic.values.detachable import detachable

_LATER = (
    "Until the loop has ended the numbers are tensors, for an exception handler or debugger too."
)
_LEFT = (
    "Where the program does not go on at the line after the loop (an exception, an interrupted "
    "cell), what was to be done after it is left out."
)
_SAME = "What is kept has to be another object in each step, as torch's functions give."
_RAISED = "An index past the end, or a division by zero, raises after the loop."
_VIEWS = ops.having("view")


def done_after_loop(module: Module, count: int, read: HostRead, logged: str) -> Fix | None:
    """Return the fix by which the statement of a read, ``losses.update(loss.item(), n)``, and its
    neighbours run after the loop, in the same order and with the same numbers.

    What logs them in each step does so every `count` steps, which `logged` says.
    """
    later = later_steps(module, read.node)
    names = _names_of_kept(module, later) if later is not None else None
    if later is None or names is None:
        return None
    loop, shown = later.place.loop, later.place.shown
    pending = f"pending_{later.steps[0].root.value}"
    if pending in module.text:
        return None
    tensors = {each.tensor: each for step in later.steps for each in step.reads}
    codes: dict[str, str] = {}
    for node, name in names.items():
        own = tensors.get(node)
        kept = kept_for_later(module, own, own.node) if own is not None else node
        if kept is not node and own is not None and not detachable(module, node):
            return None
        codes.setdefault(name, cst.Module(()).code_for_node(kept))
    row, targets = ", ".join(codes.values()), ", ".join(codes)
    append = cst.parse_statement(f"{pending}.append({f'({row})' if len(codes) > 1 else row})")
    assert isinstance(append, cst.SimpleStatementLine)
    new: dict[cst.CSTNode, cst.CSTNode] = {n: cst.Name(name) for n, name in names.items()}
    lines = [cst.SimpleStatementLine(swapped(each.line, new).body[:1]) for each in later.steps]
    again = cst.ensure_type(cst.parse_statement(f"for {targets} in {pending}: pass"), cst.For)
    again = again.with_changes(body=cst.IndentedBlock(lines))
    replay = cst.Module(()).code_for_node(again).rstrip("\n")
    edits: list[NodeEdit] = [
        InsertBefore(loop, f"{pending} = []"),
        Replace(later.steps[0].line.body[0], append.body[0]),
        *(Remove(each.line) for each in later.steps[1:]),
    ]
    emptied = f"{replay}\n{pending}.clear()\n"
    match shown:
        case cst.If(body=block):
            edits.append(InsertBefore(block.body[0], emptied))
        case LogLines():
            edits += logged_every(count, shown, before=emptied)
    edits.append(InsertAfter(loop, replay))
    notes = (
        logged if isinstance(shown, LogLines) else "",
        "" if reaches_line_after(module, loop) else _LEFT,
        "" if all(detachable(module, each) for each in tensors) else _SAME,
    )
    assumes = dict.fromkeys((FRAMES, TORCH, LOSSES, MEMORY), _LATER)
    if any(each.raises for each in later.steps):
        assumes[ERRORS] = _RAISED
    title, logs = "Keep the tensors for after the loop", isinstance(shown, LogLines)
    return safe_unless(notes, edits, title, assumes, logs_every_n=logs)


def _names_of_kept(module: Module, later: LaterSteps) -> dict[cst.BaseExpression, str] | None:
    """Return a new name for each expression that is kept, one for those of the same code; None
    where the names are taken."""
    owner = module.tree.owners[later.place.loop]
    taken = {each.value for each in module.within(owner, cst.Name, nested=True)}
    names: dict[cst.BaseExpression, str] = {}
    of_code: dict[tuple[str, bool], str] = {}
    for step in later.steps:
        for node, hint in step.kept:
            code = module.source_of(node), any(node is each.tensor for each in step.reads)
            hints = (hint, f"{step.root.value}_{hint}", f"{step.root.value}_{hint}_2")
            name = of_code.get(code) or next((n for n in hints if n not in taken), None)
            if name is None:
                return None
            taken.add(name)
            names[node] = of_code[code] = name
    return names


def kept_for_later(
    module: Module, read: HostRead, keeper: cst.BaseExpression
) -> cst.BaseExpression:
    """Return what holds the values that a read finds now, for a list that `keeper` fills."""
    kept: cst.BaseExpression = detached(module, read.tensor)
    # What may be no tensor has no clone(): the note `_SAME` says what it has to be.
    anew = fresh_per_iteration if detachable(module, read.tensor) else bound_per_iteration
    lasts = anew(module, read.tensor) or keeps_its_values(module, kept, keeper)
    held = lasts and not _may_be_view(module, read.tensor)
    return kept if held else method_call(kept, "clone")


def _may_be_view(module: Module, tensor: cst.CSTNode | None, depth: int = 3) -> bool:
    """Say whether a tensor may be a part of a larger one, or what a loop takes out of it, and would
    keep all of that in memory."""
    match tensor:
        case cst.Attribute(whole, cst.Name("data")):
            return _may_be_view(module, whole, depth)
        case cst.Call(cst.Attribute(attr=cst.Name(method))):
            return method in _VIEWS
        case cst.Call() | cst.BinaryOperation():
            return False
        case cst.Name() if depth:
            made = definitions_of(module, tensor)
            values = [
                each.target if isinstance(each, cst.AugAssign) else getattr(each, "value", None)
                for each in made
            ]
            return not made or any(_may_be_view(module, each, depth - 1) for each in values)
    return True


def numbers_of(
    module: Module, reads: Iterable[cst.Name], changed: Sequence[cst.CSTNode], kind: str
) -> list[Replace | InsertBefore]:
    """Return the edits that make numbers of the reads of a name that holds a tensor: once before
    those of one block, elsewhere each. `changed` are the nodes that change the name."""
    blocks = read_in_blocks(module, reads := list(reads), changed)
    edits: list[Replace | InsertBefore] = []
    for line, held in blocks.items():
        edits.append(InsertBefore(line, f"{held[0].value} = {kind}({held[0].value})"))
    done = [read for held in blocks.values() for read in held]
    single = [read for read in reads if read not in done]
    return edits + [Replace(each, number_of(module, each, kind)) for each in single]


def rare_reads_as_numbers(
    module: Module, target: cst.Name, uses: NumberUses, kind: str
) -> list[Replace | InsertBefore]:
    """Return the edits by which what reads a name now and then, or after the loop that binds it to
    a tensor, gets a number. Where each step uses the tensor, the name goes on to hold it."""
    line = first_read_after(module, target, uses)
    if uses.each_step:
        return [Replace(each, number_of(module, each, kind)) for each in uses.rarely]
    if line is None:
        return numbers_of(module, uses.rarely, [target], kind)
    iteration = module.loops(target)[0]
    inside = [each for each in uses.rarely if module.is_within(each, iteration)]
    once = InsertBefore(line, f"{target.value} = {kind}({target.value})")
    return [once, *numbers_of(module, inside, [target], kind)]
