"""Repairs of copies to the host: those that a list collects are made after its loop, those of one
tensor's parts before it, and none where the copy is only counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torchlint.base.regex import regex
from torchlint.fixes.after_loop import kept_for_later
from torchlint.fixes.expressions import as_receiver, detached, method_call
from torchlint.fixes.notes import safe_unless
from torchlint.rule import (
    Fix,
    InsertAfter,
    InsertBefore,
    Module,
    NodeEdit,
    Replace,
    Safety,
    inferred,
    on_device,
)
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.reaching import definitions_of, uses_of
from torchlint.semantic.code.tree import links, method_called, root_of
from torchlint.semantic.device.host_reads import HostRead, host_copy
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.accumulators import (
    gathering_loop,
    keeps_its_values,
    reaches_line_after,
)
from torchlint.semantic.uses.assumptions import FRAMES, LOSSES, MEMORY, TORCH
from torchlint.semantic.uses.dominance import is_optional
from torchlint.semantic.uses.unchanged_values import bound_per_iteration, fresh_per_iteration
from torchlint.semantic.values.detachable import detachable

_SHAPES = ops.having("view")
_NUMBER = ("builtins.float", "builtins.int")
_PARTS_NOTE = (
    "The whole tensor is copied before the loop, also the parts that the loop does not come to; "
    "the parts share the memory of that copy."
)
_ROWS = 2
_FORMS = regex(r"numpy\.\w+$|builtins\.(bool|float|int|list|tuple)$")
_TYPES = ("numpy.int64", "numpy.float32", "builtins.int", "builtins.float")
_HELD = "Until the loop has ended the list keeps what is on the device, whose memory fills with it."
_SAME = "What it keeps has to be another tensor in each step, as torch's functions give."
_CLONED = "Without a GPU the list had a tensor that may change later; it now keeps a copy."
NO_GRAPH = "What is kept no longer takes a graph along."
_LEFT = (
    "Where the program does not go on at the line after the loop (an exception, an interrupted "
    "cell), the list is left with tensors of the device."
)


@question(
    yes="a loop copies `{0}`, one part of a tensor after the other",
    no="`{0}` is not copied as one of a tensor's parts",
)
def parts_of(
    module: Module, tensor: cst.BaseExpression, node: cst.CSTNode
) -> tuple[cst.For, cst.Name] | None:
    """Return the loop that takes ``x[i]`` of a tensor on the device for each of its `i`, with
    ``x``; None where one copy of ``x`` before the loop would not do."""
    loop = module.loop(node)
    part = next(
        (p for p in links(tensor, cst.Attribute, cst.Call) if isinstance(p, cst.Subscript)), None
    )
    if not isinstance(loop, cst.For) or part is None or not isinstance(part.value, cst.Name):
        return None
    if on_device(module, part.value) is not True or not inferred(module, part.value).tensor:
        return None
    iterations = module.names_in(loop.target)
    chosen = module.names_in(*part.slice)
    if not chosen or not chosen <= iterations or part.value.value in iterations:
        return None  # What the loop binds itself is another tensor in each iteration.
    if writes_of(module, loop.body, part.value.value):
        return None
    return (loop, part.value) if _only_seen_otherwise(module, tensor) else None


def _only_seen_otherwise(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether what is copied is the part itself, in another shape or without its graph: nothing
    is computed of it."""
    return all(
        (each.attr.value in _SHAPES or each.attr.value in ("detach", "data"))
        and not any(_is_named(module, arg) for arg in _arguments(module, each))
        for each in links(tensor, cst.Attribute, cst.Call)
        if isinstance(each, cst.Attribute)
    )


def _arguments(module: Module, method: cst.Attribute) -> Sequence[cst.Arg]:
    above = module.parent(method)
    return above.args if isinstance(above, cst.Call) and above.func is method else ()


def _is_named(module: Module, given: cst.CSTNode) -> bool:
    return module.contains(given, cst.Name, cst.Call, cst.Attribute)


@question(yes="a loop takes the copy apart", no="no loop takes the copy apart")
def taken_apart(module: Module, copy: cst.CSTNode) -> bool:
    """Say whether a copy is bound to a name, of which a loop takes part after part: as the repair
    leaves it."""
    above = module.parent(copy)
    if isinstance(above, cst.IfExp) and copy is not above.test:
        copy = above
    reads = uses_of(module, copy)
    return copy not in reads and any(
        isinstance(part := module.parent(read), cst.Subscript)
        and part.value is read
        and module.loops(read)[:1] != module.loops(copy)[:1]
        for read in reads
    )


def parts_fix(module: Module, copy: HostRead) -> Fix | None:
    """Return the repair that copies a tensor once before the loop over its parts, where the loop
    does nothing else with it but to copy parts."""
    found = parts_of(module, copy.tensor, copy.node)
    if found is None:
        return None
    loop, whole = found
    name = f"{whole.value}_host"
    sole = isinstance(loop.body, cst.IndentedBlock) and loop.asynchronous is None
    if name in module.names_in(module.root) or not sole:
        return None
    edits = []
    for read in reads_of(module, loop.body, whole.value):
        edit = _on_the_copy(module, loop, read, name)
        if edit is None:
            return None
        edits.append(edit)
    before = InsertBefore(loop, f"{name} = {whole.value}.cpu()")
    # Where a branch copies parts now and then, the whole would be copied for nothing.
    safety = Safety.SUGGESTION if is_optional(module, copy.node, loop) else Safety.UNSAFE
    return Fix((before, *edits), safety, "Copy the tensor before the loop", _PARTS_NOTE)


def _on_the_copy(module: Module, loop: cst.For, read: cst.Name, name: str) -> Replace | None:
    """Return the edit that takes a part from the copy instead; None where a read does anything else
    but to copy one."""
    part = module.parent(read)
    if not isinstance(part, cst.Subscript) or part.value is not read:
        return None
    call = next((a for a in module.ancestors(part) if _plain_copy(module, a)), None)
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    if part not in links(call.func.value, cst.Attribute, cst.Call) or module.loop(call) is not loop:
        return None
    tensor = call.func.value
    return Replace(call, tensor.deep_replace(read, cst.Name(name)))


def _plain_copy(module: Module, node: cst.CSTNode) -> bool:
    copy = host_copy(module, node) if isinstance(node, cst.Call) else None
    return copy is not None and copy.how == "cpu" and copy.node is node and _has_no_arguments(copy)


def _has_no_arguments(copy: HostRead) -> bool:
    return isinstance(copy.node, cst.Call) and not copy.node.args


def count_fix(module: Module, copy: HostRead) -> Fix | None:
    """Return the repair of ``hits = a.eq(b).cpu().sum()``, of which the number alone is read: the
    sum is taken on the device, and one number crosses the bus instead of all truth values."""
    summed = _summed(module, copy)
    if summed is None or inferred(module, copy.tensor).dtype != "bool":
        return None
    bound, home = module.parent(summed), module.function(summed)
    if not isinstance(bound, cst.Assign) or not isinstance(bound.targets[0].target, cst.Name):
        return None
    everywhere = reads_of(module, home or module.root, bound.targets[0].target.value)
    reads = uses_of(module, summed)
    if not reads or any(module.function(read) is not home for read in everywhere):
        return None
    if not all(_number_read(module, read) for read in reads):
        return None
    return Fix((Replace(copy.node, copy.tensor),), Safety.SAFE, "Count on the device")


def _summed(module: Module, copy: HostRead) -> cst.Call | None:
    """Return the ``.sum()`` of all of a copy."""
    if copy.how != "cpu" or not _has_no_arguments(copy):
        return None
    call = module.method_call(copy.node)
    return call if call is not None and method_called(call) == "sum" and not call.args else None


def _number_read(module: Module, read: cst.CSTNode) -> bool:
    """Say whether a read of a tensor of one number asks for that number."""
    above = module.parent(read)
    match above:
        case cst.Attribute(attr=cst.Name("item")):
            return isinstance(module.parent(above), cst.Call)
        case cst.Arg():
            call = module.parent(above)
            return module.called(call) in _NUMBER
    return False


def after_loop_fix(module: Module, copy: HostRead) -> Fix | None:
    """Return the repair of ``names.extend(x.argmax(1).cpu().tolist())``: until the loop has ended
    the list keeps what is on the device, and then gets what it was to have."""
    whole, placed = _bound(module, copy.node)
    match module.small_statement(placed):
        case cst.Expr(
            cst.Call(
                cst.Attribute(cst.Name(name), cst.Name("append" | "extend" as method)),
                [cst.Arg(value, star="")],
            ) as call
        ) if _is_formed(module, whole, copy.node) and _is_formed(module, value, placed):
            loop = gathering_loop(module, call)
        case _:
            return None
    if loop is None or loop is not module.loop(copy.node) or not detachable(module, copy.tensor):
        return None
    if _is_older(module, root_of(copy.tensor), loop):
        return None  # Each part would still be copied by itself.
    item = as_receiver(whole.deep_replace(copy.tensor, cst.Name("value")))
    row = cst.Module(()).code_for_node(value.deep_replace(placed, item))
    kept, notes = _kept_on_device(module, copy, call, row)
    rows = f"row for value in {name} for row in" if method == "extend" else ""
    after = f"{name} = [{rows} {row}]" if rows else f"{name} = [{row} for value in {name}]"
    append = cst.Call(
        cst.Attribute(cst.Name(name), cst.Name("append")),
        [cst.Arg(kept if whole is copy.node else placed)],
    )
    edits: list[NodeEdit] = [Replace(call, append), InsertAfter(loop, after)]
    if whole is not copy.node:
        edits.append(Replace(whole, kept))
    if not reaches_line_after(module, loop):
        notes.append(_LEFT)
    assumes = dict.fromkeys((FRAMES, LOSSES, MEMORY, TORCH), _HELD)
    fix = safe_unless(notes, edits, "Copy what the list holds after the loop", assumes)
    # Images were perhaps moved to spare the device's memory.
    large = (inferred(module, copy.tensor).rank or 0) > _ROWS
    return replace(fix, safety=Safety.SUGGESTION) if large else fix


def _is_older(module: Module, root: cst.BaseExpression, loop: cst.CSTNode) -> bool:
    """Say whether what is copied is a part of what was there before a loop: no result of a function
    of a library, or of a network, that runs in it."""
    if not isinstance(root, cst.Name) or module.name(root) is not None:
        return False
    made = definitions_of(module, root) if inferred(module, root).kind != "module" else []
    return bool(made) and not any(module.is_within(each, loop) for each in made)


def _bound(
    module: Module, node: cst.BaseExpression
) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """Return what a copy is bound to a name as, and the only read of that; else the copy for
    both."""
    line = module.small_statement(node)
    reads = uses_of(module, line.value) if isinstance(line, cst.Assign) else []
    match line, reads:
        case cst.Assign(value=value), [cst.Name() as read] if read is not value:
            return (value, read) if definitions_of(module, read) == [line] else (node, node)
    return node, node


def _kept_on_device(
    module: Module, copy: HostRead, call: cst.Call, row: str
) -> tuple[cst.BaseExpression, list[str]]:
    """Return what a list keeps for the code `row`, which makes of it what the list is to have, and
    what may change by that."""
    if inferred(module, copy.tensor).rank == 0:
        kept, notes = kept_for_later(module, copy, call), []
        if method_called(kept) != "clone" and not keeps_its_values(module, copy.tensor, call):
            notes.append(_SAME)
    else:
        kept, notes = detached(module, copy.tensor), [_HELD]
        bare = copy.tensor
        while isinstance(bare, cst.Call) and method_called(bare) == "detach":
            assert isinstance(bare.func, cst.Attribute)
            bare = bare.func.value
        made = definitions_of(module, bare) if isinstance(bare, cst.Name) else []
        held = any(isinstance(getattr(each, "value", None), cst.Attribute) for each in made)
        if held or not bound_per_iteration(module, bare):
            kept = method_call(kept, "clone")
        elif not fresh_per_iteration(module, bare):
            notes.append(_SAME)
    if method_called(kept) == "clone":
        notes.append(_CLONED)
    # What NumPy takes has no graph.
    plain = ".numpy()" in row and "detach()" not in row
    if not plain and inferred(module, copy.tensor).grad is not False:
        graph = detached(module, copy.tensor) is not copy.tensor
        return kept, [*notes, NO_GRAPH] if graph else notes
    match kept:
        case cst.Call(cst.Attribute(inner, cst.Name("detach")), []) if kept is not copy.tensor:
            kept = inner
    return kept, notes


def _is_formed(module: Module, whole: cst.BaseExpression, part: cst.CSTNode) -> bool:
    """Say whether an expression is a part of it in another form, by methods, literals and what
    NumPy or Python makes of it: ``np.argmax(part.numpy(), axis=1)``."""
    while part is not whole:
        above = module.parent(part)
        call = module.parent(above)
        given: Sequence[cst.CSTNode] = ()
        match above:
            case cst.Attribute() if isinstance(call, cst.Call):
                given, above = [arg.value for arg in call.args], call
            case cst.Subscript():
                given = above.slice
            case cst.Arg(star="") if isinstance(call, cst.Call) and _FORMS.match(
                module.called(call)
            ):
                given, above = [arg.value for arg in call.args if arg is not above], call
            case _:
                return False
        if any(_is_named(module, each) and module.name(each) not in _TYPES for each in given):
            return False
        part = above
    return True
