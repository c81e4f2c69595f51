"""What one loop gathers, and nothing looks at before the loop has ended: running sums, and lists of
results."""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from torchlint.semantic.code.bindings import binds_globally
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import LOOPS, callee
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.uses.object_uses import ObjectUse, Way, binding_uses
from torchlint.semantic.uses.observers import says, sees_globals, sees_variables
from torchlint.semantic.uses.swallowing import may_be_swallowed
from torchlint.semantic.uses.tensor_origins import made_by_torch
from torchlint.semantic.values.inferred import inferred

_FRAME_READERS = frozenset(
    "builtins." + name for name in ("locals", "globals", "vars", "eval", "exec", "dir")
)
_BLOCKS = (cst.BaseCompoundStatement, cst.ExceptHandler, cst.Finally)
_SWALLOWERS = frozenset(("contextlib.suppress", "pytest.raises"))


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A plain name that starts as a number literal and grows by one ``+=`` in a loop.

    Args:
        name: the variable.
        loop: the outermost loop between the literal and the ``+=``.
        start: ``int`` or ``float``: the kind of the literal.
        unseen: whether nothing at all can look at the variable before the line behind the loop: not
            even after an exception, by its name in a string, or from another file.
    """

    name: str
    loop: cst.For | cst.While
    start: str
    unseen: bool


@question(
    yes="it feeds a running sum that is read after the loop",
    no="the sum is also read inside the loop",
)
def running_sum(module: Module, step: cst.AugAssign) -> Accumulator | None:
    """Return the accumulator that ``name += …`` feeds, or None where anything could see it inside
    the loop.

    The literal dominates the loop, the loop binds the name only here and never reads it, no other
    function sees it, and no ``try`` of the same function could carry a half-finished sum out of the
    loop.
    """
    if not isinstance(step.operator, cst.AddAssign) or not isinstance(step.target, cst.Name):
        return None
    name = step.target.value
    loop, binding = _start(module, step, name)
    literal = _assigned_by(module, binding, name)
    if loop is None or not isinstance(literal, (cst.Integer, cst.Float)):
        return None
    start = "int" if isinstance(literal, cst.Integer) else "float"
    if reads_of(module, loop, name) or writes_of(module, loop, name) != [step.target]:
        return None
    if _seen_elsewhere(module, loop, name) or binding is None:
        return None
    plain = _is_small(literal) and not _imported_since(module, binding, loop, name)
    unseen = plain and not _in_changing_mode(module, step, loop) and is_unseen(module, loop, name)
    return Accumulator(name, loop, start, unseen)


_LARGEST_START = 2**53
_INFERENCE = re.compile("inference_mode|InferenceMode")


def _is_small(literal: cst.Integer | cst.Float) -> bool:
    """Say whether a start value leaves room for every count that a loop can add to it in 64
    bits."""
    return isinstance(literal, cst.Float) or literal.evaluated_value <= _LARGEST_START


def is_unseen(module: Module, loop: cst.For | cst.While, name: str) -> bool:
    """Say whether only the loop's own lines touch a variable until control reaches the line behind
    the loop.

    That line is always reached, or the variable is gone: no exception is caught in between, no
    ``else`` of the loop goes elsewhere, no generator is left in the middle of it, and nobody looks
    into frames or modules.
    """
    owner = module.tree.owners[loop]
    if may_be_swallowed(module, loop) or _leaves_in_else(module, loop):
        return False
    if isinstance(owner, cst.Module):
        return not sees_globals(module, name)
    yields = any(True for _ in module.within(owner, cst.Yield))
    return not yields and not sees_variables(module)


def _leaves_in_else(module: Module, loop: cst.For | cst.While) -> bool:
    leaving = (cst.Break, cst.Continue, cst.Return)
    return loop.orelse is not None and any(True for _ in module.within(loop.orelse, *leaving))


def _imported_since(
    module: Module, binding: cst.BaseStatement, loop: cst.CSTNode, name: str
) -> bool:
    """Say whether an import behind the start value, inside the loop or before it, might bind the
    name anew."""
    for each in module.nodes(cst.ImportFrom):
        if module.before(binding, each):
            names = () if isinstance(each.names, cst.ImportStar) else each.names
            bound = {alias.name.value for alias in names if isinstance(alias.name, cst.Name)}
            inside = module.is_within(each, loop) or module.before(each, loop)
            if inside and (name in bound or isinstance(each.names, cst.ImportStar)):
                return True
    return False


def _in_changing_mode(module: Module, step: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Say whether a context inside the loop may make the sum an inference tensor, which refuses a
    later ``+=``."""
    contexts = any(
        isinstance(above, cst.With) and module.is_within(above, loop)
        for above in module.ancestors(step)
    )
    return contexts and says(module, _INFERENCE)


@question(yes="the list is read after the loop only", no="the list is also read inside the loop")
def gathered_reads(module: Module, append: cst.Call) -> list[cst.Name] | None:
    """Return the reads, all behind the loop, of a list that starts empty and grows only by
    ``name.append(…)`` in it.

    None where the list could be seen inside the loop, or was not made by ``[]`` just for it.
    """
    func = append.func
    if (
        not isinstance(func, cst.Attribute)
        or not isinstance(func.value, cst.Name)
        or func.attr.value != "append"
    ):
        return None
    name = func.value.value
    loop, binding = _start(module, append, name)
    start = _assigned_by(module, binding, name)
    if (
        loop is None
        or not isinstance(start, cst.List)
        or start.elements
        or _seen_elsewhere(module, loop, name)
    ):
        return None
    if not _its_own(binding):
        return None
    if writes_of(module, loop, name) or reads_of(module, loop, name) != [func.value]:
        return None
    reads = reads_of(module, module.tree.owners[loop], name)
    return (
        [r for r in reads if r is not func.value]
        if all(not module.before(r, loop) for r in reads)
        else None
    )


def _its_own(binding: cst.CSTNode | None) -> bool:
    """Say whether a binding gives what it makes one name only: not ``self.losses = losses =
    []``."""
    smalls = binding.body if isinstance(binding, cst.SimpleStatementLine) else ()
    return all(not isinstance(small, cst.Assign) or len(small.targets) == 1 for small in smalls)


@question()
def keeps_its_values(module: Module, detached: cst.BaseExpression, kept: cst.Call) -> bool:
    """Say whether ``loss.detach()``, which a list keeps, holds its values for good: a 0-dim loss
    that torch made.

    A copy would; the tensor itself does where nothing changes it in place, by whatever name, and
    nobody unknown gets it. A tensor that is older than the loop's turn (a buffer, the output of a
    graph) does not.
    """
    match detached:
        case cst.Call(func=cst.Attribute(value=cst.Name() as loss, attr=cst.Name("detach"))):
            value = inferred(module, detached)
        case _:
            return False
    turns = module.loops(kept)
    definitions = definitions_of(module, loss)
    if (
        value.rank != 0
        or value.origin != "loss"
        or not turns
        or is_compiled(module, kept)
        or sees_variables(module)
    ):
        return False
    if not all(isinstance(d, cst.Assign) and module.is_within(d, turns[0]) for d in definitions):
        return False
    if not made_by_torch(module, loss):
        return False
    uses = [
        use
        for definition in definitions
        for use in binding_uses(module, definition, loss.value, "device")
    ]
    return all(_harmless(module, use, kept) for use in uses)


def _harmless(module: Module, use: ObjectUse, kept: cst.Call) -> bool:
    """Say whether a use leaves a tensor as it is; that of the list which keeps it is known."""
    if use.way is Way.ESCAPES:
        return use.node is kept
    return use.way not in (Way.WRITTEN, Way.GROWN)


def _start(
    module: Module, step: cst.CSTNode, name: str
) -> tuple[cst.For | cst.While | None, cst.BaseStatement | None]:
    """Return the outermost loop around `step` in which nothing binds `name` before it, and the
    binding before that."""
    loop: cst.For | cst.While | None = None
    child = step
    for above in module.ancestors(step):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            before = [s for s in above.body if module.before(s, child)]
            binding = next(
                (s for s in reversed(before) if s is not child and writes_of(module, s, name)), None
            )
            if binding is not None:
                return loop, binding
        elif isinstance(above, LOOPS):
            loop = above
        elif isinstance(above, cst.With):
            if any(module.name(callee(item.item)) in _SWALLOWERS for item in above.items):
                return None, None
        elif isinstance(above, _BLOCKS) and not isinstance(above, cst.If):
            return None, None
        child = above
    return None, None


def _assigned_by(
    module: Module, statement: cst.CSTNode | None, name: str
) -> cst.BaseExpression | None:
    """Return the expression that a plain assignment statement gives to `name`, or None where it
    binds it twice."""
    found = None
    if statement is None or len(writes_of(module, statement, name)) != 1:
        return None
    for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if (
            isinstance(small, cst.AnnAssign)
            and isinstance(small.target, cst.Name)
            and small.target.value == name
        ):
            found = small.value
        elif isinstance(small, cst.Assign):
            for target in small.targets:
                found = _assigned(target.target, small.value, name) or found
    return found


def _assigned(
    target: cst.CSTNode, value: cst.BaseExpression, name: str
) -> cst.BaseExpression | None:
    if isinstance(target, cst.Name):
        return value if target.value == name else None
    if (
        isinstance(target, cst.Tuple)
        and isinstance(value, cst.Tuple)
        and len(target.elements) == len(value.elements)
    ):
        for left, right in zip(target.elements, value.elements, strict=True):
            plain = isinstance(left, cst.Element) and isinstance(right, cst.Element)
            if plain and isinstance(left.value, cst.Name) and left.value.value == name:
                return right.value
    return None


def _seen_elsewhere(module: Module, loop: cst.For | cst.While, name: str) -> bool:
    owner = module.tree.owners[loop]
    function = module.function(loop)
    if module.class_of(loop) is not None and function is None:
        return True
    if function is not None and binds_globally(module, function, name):
        return True
    if any(isinstance(above, (cst.Try, cst.TryStar)) for above in _upto(module, loop, owner)):
        return True
    everywhere = [*reads_of(module, owner, name), *writes_of(module, owner, name)]
    if any(module.tree.owners[node] is not owner for node in everywhere):
        return True
    calls = list(module.within(loop, cst.Call, nested=True))
    return any(module.name(call.func) in _FRAME_READERS for call in calls)


def _upto(module: Module, node: cst.CSTNode, owner: cst.CSTNode) -> list[cst.CSTNode]:
    out = []
    for above in module.ancestors(node):
        if above is owner:
            break
        out.append(above)
    return out
