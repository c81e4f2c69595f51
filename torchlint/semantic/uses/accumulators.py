"""What one loop gathers, and nothing looks at before the loop has ended: running sums, and lists of
results."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import binds_globally
from torchlint.semantic.code.conditions import always_leaves
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import LOOPS, callee, is_name
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.uses.object_uses import Way, binding_uses
from torchlint.semantic.uses.observers import (
    elsewhere_reached,
    is_interactive,
    reads_by_string,
    says,
)
from torchlint.semantic.uses.swallowing import may_be_swallowed
from torchlint.semantic.uses.unchanged_values import grown_name, growth_at, may_change_in_place
from torchlint.semantic.values.inferred import inferred

_FRAME_READERS = frozenset(
    "builtins." + name for name in ("locals", "globals", "vars", "eval", "exec", "dir")
)
_BLOCKS = (cst.BaseCompoundStatement, cst.ExceptHandler, cst.Finally)
_SWALLOWERS = frozenset(("contextlib.suppress", "pytest.raises"))


@frozen
class LoopSum:
    """A plain name that starts as a number literal and grows by ``+=`` or ``name = name + …`` in a
    loop.

    Args:
        name: the variable.
        loop: the outermost loop between the literal and the first of these.
        start: ``int`` or ``float``: the kind of the literal.
        steps: the statements by which it grows.
        scaled: whether the loop also divides or multiplies it, now and then.
        whole: whether the loop sets it back to a whole number.
        reads: what reads it inside the loop.
        each_step: those of the reads that happen in every step.
        read_after: whether anything outside the loop may read it.
    """

    name: str
    loop: cst.For | cst.While
    start: str
    steps: tuple[cst.AugAssign | cst.Assign, ...]
    scaled: bool
    whole: bool
    reads: tuple[cst.Name, ...]
    each_step: tuple[cst.Name, ...]
    read_after: bool


@question(ground=True, remember=False)
def added(module: Module, step: cst.AugAssign | cst.Assign) -> cst.BaseExpression:
    """Return what ``name += …`` or ``name = name + …`` adds."""
    if isinstance(step.value, cst.BinaryOperation) and isinstance(step, cst.Assign):
        return step.value.right
    return step.value


@question(
    yes="it feeds a sum that a loop gathers",
    no="it feeds no sum, or one that is looked at by code that is not followed",
)
def sum_of_loop(module: Module, step: cst.AugAssign | cst.Assign) -> LoopSum | None:
    """Return the sum that ``name += …`` or ``name = name + …`` feeds, or None where not all who may
    look at it are known.

    In the loop it may also be set back to a number literal, or be scaled now and then.
    """
    name = grown_name(step)
    if name is None:
        return None
    loop, binding = _start(module, step, name, resets=True)
    literal = _assigned_by(module, binding, name)
    # Whether a start value leaves room for every count that a loop can add to it in 64 bits.
    if (
        loop is None
        or not isinstance(literal, (cst.Integer, cst.Float))
        or not (isinstance(literal, cst.Float) or literal.evaluated_value <= _LARGEST_START)
    ):
        return None
    if shared(module, loop, name) or _read_after_exception(module, loop, name):
        return None
    writes = writes_of(module, loop, name)
    steps = tuple(each for write in writes if (each := growth_at(module, write)) is not None)
    others = [write for write in writes if growth_at(module, write) is None]
    scalings = [write for write in others if _is_scaling(module, write, loop)]
    if not all(write in scalings or _is_reset(module, write) for write in others):
        return None
    own = [
        each.value.left
        for each in steps
        if isinstance(each, cst.Assign) and isinstance(each.value, cst.BinaryOperation)
    ]
    reads = tuple(read for read in reads_of(module, loop, name) if read not in own)
    often = tuple(read for read in reads if not _now_and_then(module, read, loop))
    start = "int" if isinstance(literal, cst.Integer) else "float"
    behind = _seen_behind(module, loop, name, [*steps, *map(module.small_statement, scalings)])
    set_back = [module.statement(write) for write in others if write not in scalings]
    whole = any(isinstance(_assigned_by(module, each, name), cst.Integer) for each in set_back)
    return LoopSum(name, loop, start, steps, bool(scalings), whole, reads, often, behind)


def _seen_behind(
    module: Module, loop: cst.CSTNode, name: str, made: Iterable[cst.CSTNode | None]
) -> bool:
    """Say whether what a loop makes of a name is read behind it: not where the name is set anew
    before, as by the next iteration of a loop around it."""
    owner = module.tree.owners[loop]
    if isinstance(owner, cst.Module):
        inside = any(isinstance(above, LOOPS) for above in module.ancestors(loop))
        shown = is_interactive(module) or reads_by_string(module)
        if not inside or shown or elsewhere_reached(module, name):
            return True
    return any(
        not module.is_within(read, loop)
        for each in made
        if each is not None
        for read in readers_of(module, each, name)
    )


def _is_scaling(module: Module, write: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Say whether a write is a ``name /= …`` or ``name *= …`` that runs now and then, also spelled
    ``name = name / …`` and ``name = float(name) / …``."""
    above = module.parent(write)
    match module.parent(above) if isinstance(above, cst.AssignTarget) else None:
        case cst.Assign([_], cst.BinaryOperation(scaled, cst.Divide() | cst.Multiply())) as line:
            match scaled:
                case cst.Call(args=[cst.Arg(own)]) if module.called(scaled) == "builtins.float":
                    scaled = own
            return scaled.deep_equals(write) and _now_and_then(module, line, loop)
    return (
        isinstance(above, cst.AugAssign)
        and isinstance(above.operator, (cst.DivideAssign, cst.MultiplyAssign))
        and _now_and_then(module, above, loop)
    )


def _is_reset(module: Module, write: cst.CSTNode) -> bool:
    """Say whether a write sets a name to a number literal."""
    statement = module.statement(write)
    if not isinstance(write, cst.Name) or statement is None:
        return False
    literal = _assigned_by(module, statement, write.value)
    return isinstance(literal, (cst.Integer, cst.Float))


def _now_and_then(module: Module, read: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Say whether a read inside a loop happens rarely: behind a throttle, between inner loops, or
    on the way out."""
    if throttled(module, read, loop) or not heat_of(module, read).hot:
        return True
    return isinstance(module.small_statement(read), (cst.Return, cst.Raise))


def _read_after_exception(module: Module, loop: cst.For | cst.While, name: str) -> bool:
    """Say whether a handler of the same function, or what comes after one that goes on, reads a
    name that the loop was changing."""
    owner = module.tree.owners[loop]
    for above in ancestors_below(module, loop, owner):
        if isinstance(above, (cst.Try, cst.TryStar)):
            caught = [handler for handler in above.handlers if not always_leaves(handler.body)]
            parts = [*above.handlers, *([above.finalbody] if above.finalbody else [])]
            if caught or any(reads_of(module, part, name) for part in parts):
                return True
    return False


_LARGEST_START = 2**53
_INFERENCE = regex("inference_mode|InferenceMode")


@question(
    yes="what leaves the loop comes to the line after it, or leaves the function",
    no="an exception, an `else` or a notebook's user may go on elsewhere",
    remember=False,
)
def reaches_line_after(module: Module, loop: cst.For | cst.While) -> bool:
    """Say whether nothing but the loop itself sees a variable before the line behind it, in an
    ordinary program: where the loop is left by an exception, its function is left too."""
    if may_be_swallowed(module, loop) or _leaves_in_else(module, loop):
        return False
    return isinstance(module.tree.owners[loop], cst.FunctionDef) or not is_interactive(module)


@question(
    yes="each run of the loop that takes a step comes to `{0}`",
    no="the loop may take steps that do not come to `{0}`",
    remember=False,
)
def in_each_step(module: Module, step: cst.CSTNode, loop: cst.CSTNode) -> bool:
    """Say whether every step of a ``for``, and of those in it, comes to a statement."""
    for above in ancestors_below(module, module.small_statement(step) or step, loop):
        if not isinstance(above, (cst.For, cst.With, cst.IndentedBlock, cst.SimpleStatementLine)):
            return False
        if isinstance(above, cst.For) and _left_before(module, above, step):
            return False
    return isinstance(loop, cst.For) and not _left_before(module, loop, step)


def _left_before(module: Module, loop: cst.For, step: cst.CSTNode) -> bool:
    leaving = module.within(loop.body, cst.Break, cst.Continue, cst.Return, cst.Yield)
    return any(module.before(each, step) for each in leaving)


def _leaves_in_else(module: Module, loop: cst.For | cst.While) -> bool:
    leaving = (cst.Break, cst.Continue, cst.Return)
    return loop.orelse is not None and module.contains(loop.orelse, *leaving)


@question(
    yes="a context inside the loop may switch inference_mode",
    no="no context inside the loop switches inference_mode",
)
def in_changing_mode(module: Module, step: cst.CSTNode, loop: cst.CSTNode) -> bool:
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
    ``name.append(…)``, or ``name.extend(…)``, in it.

    None where the list could be seen inside the loop, or was not made by ``[]`` just for it.
    """
    func = append.func
    if (
        not isinstance(func, cst.Attribute)
        or not isinstance(func.value, cst.Name)
        or func.attr.value not in ("append", "extend")
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


@question(yes="a loop fills the list", no="no loop is known to fill the list")
def gathering_loop(module: Module, append: cst.Call) -> cst.For | cst.While | None:
    """Return the outermost loop that fills a list by ``name.append(…)``, where all that reads it
    stands behind that loop; else None."""
    func = append.func
    if gathered_reads(module, append) is None or not isinstance(func, cst.Attribute):
        return None
    return _start(module, append, module.source_of(func.value))[0]


def _its_own(binding: cst.CSTNode | None) -> bool:
    """Say whether a binding gives what it makes one name only: not ``self.losses = losses =
    []``."""
    smalls = binding.body if isinstance(binding, cst.SimpleStatementLine) else ()
    return all(not isinstance(small, cst.Assign) or len(small.targets) == 1 for small in smalls)


@question()
def keeps_its_values(module: Module, detached: cst.BaseExpression, kept: cst.CSTNode) -> bool:
    """Say whether ``loss.detach()``, which a list keeps, holds its values for good: a 0-dim
    loss.

    A copy would; the tensor itself does where nothing changes it in place, by whatever name, and
    nobody unknown gets it. A tensor that is older than the iteration (a buffer, the output of a
    graph) does not.
    """
    match detached:
        case cst.Call(cst.Attribute(cst.Name() as loss, cst.Name("detach"))):
            value = inferred(module, detached)
        case _:
            return False
    iterations = module.loops(kept)
    definitions = definitions_of(module, loss)
    if value.rank != 0 or value.origin != "loss" or not iterations or is_compiled(module, kept):
        return False
    if not all(
        isinstance(d, cst.Assign) and module.is_within(d, iterations[0]) for d in definitions
    ):
        return False
    uses = [
        use
        for definition in definitions
        for use in binding_uses(module, definition, loss.value, "device")
    ]
    named = (module.parent(each) for each in reads_of(module, iterations[0], loss.value))
    return all(use.way is Way.ESCAPES and use.node is kept for use in uses) and not any(
        may_change_in_place(module, each) for each in named
    )


def _start(
    module: Module, step: cst.CSTNode, name: str, *, resets: bool = False
) -> tuple[cst.For | cst.While | None, cst.BaseStatement | None]:
    """Return the outermost loop around `step` in which nothing binds `name` before it, and the
    binding before that.

    With `resets`, what adds to it and an ``if`` that sets it to a number literal bind nothing, and
    a ``try`` may stand in between.
    """
    loop: cst.For | cst.While | None = None
    child = step
    for above in module.ancestors(step):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            before = [s for s in above.body if module.before(s, child)]
            binding = next(
                (
                    s
                    for s in reversed(before)
                    if s is not child
                    and (writes := writes_of(module, s, name))
                    and not (resets and _resets(module, s, writes))
                ),
                None,
            )
            if binding is not None:
                return loop, binding
        elif isinstance(above, LOOPS):
            loop = above
        elif isinstance(above, cst.With):
            if any(module.name(callee(item.item)) in _SWALLOWERS for item in above.items):
                return None, None
        elif isinstance(above, _BLOCKS) and not isinstance(above, cst.If):
            tried = isinstance(above, (cst.Try, cst.TryStar)) and child is above.body
            if not (resets and tried):
                return None, None
        child = above
    return None, None


def _resets(module: Module, statement: cst.BaseStatement, writes: Iterable[cst.CSTNode]) -> bool:
    """Say whether a statement only adds to a name, or sets it to a literal under an ``if``."""
    reset = isinstance(statement, cst.If)
    return all(
        growth_at(module, write) is not None or (reset and _is_reset(module, write))
        for write in writes
    )


def _assigned_by(
    module: Module, statement: cst.CSTNode | None, name: str
) -> cst.BaseExpression | None:
    """Return the expression that a plain assignment statement gives to `name`, or None where it
    binds it twice."""
    found = None
    if statement is None or len(writes_of(module, statement, name)) != 1:
        return None
    for small in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
        if isinstance(small, cst.AnnAssign) and is_name(small.target, name):
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
            if plain and is_name(left.value, name):
                return right.value
    return None


def _seen_elsewhere(module: Module, loop: cst.For | cst.While, name: str) -> bool:
    owner = module.tree.owners[loop]
    if any(
        isinstance(above, (cst.Try, cst.TryStar)) for above in ancestors_below(module, loop, owner)
    ):
        return True
    return shared(module, loop, name)


@question(remember=False)
def shared(module: Module, loop: cst.For | cst.While, name: str) -> bool:
    """Say whether other functions, or readers of frames, see a variable of the loop's function."""
    owner = module.tree.owners[loop]
    function = module.function(loop)
    if module.class_of(loop) is not None and function is None:
        return True
    if function is not None and binds_globally(module, function, name):
        return True
    everywhere = [*reads_of(module, owner, name), *writes_of(module, owner, name)]
    if any(module.tree.owners[node] is not owner for node in everywhere):
        return True
    return _reads_frames(module, loop)


@question(ground=True)
def _reads_frames(module: Module, loop: cst.For | cst.While) -> bool:
    calls = module.within(loop, cst.Call, nested=True)
    return any(module.name(call.func) in _FRAME_READERS for call in calls)


def ancestors_below(module: Module, node: cst.CSTNode, owner: cst.CSTNode) -> list[cst.CSTNode]:
    out = []
    for above in module.ancestors(node):
        if above is owner:
            break
        out.append(above)
    return out
