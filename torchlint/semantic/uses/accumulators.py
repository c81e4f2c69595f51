"""What one loop gathers, and nothing looks at before the loop has ended: running sums, and lists of
results."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from pathlib import PurePath

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.bindings import binds_globally
from torchlint.semantic.code.conditions import leaves
from torchlint.semantic.code.flow import call_sites, callees_of, escapes, reads_of, writes_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.named_tests import Holds, names
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import is_compiled
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    callee,
    is_name,
    method_called,
)
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import said_somewhere
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.network_waits import called_object
from torchlint.semantic.uses.object_uses import ObjectUse, Way, binding_uses
from torchlint.semantic.uses.observers import (
    elsewhere_reached,
    is_interactive,
    reads_by_string,
    says,
)
from torchlint.semantic.uses.plain_numbers import is_python_number
from torchlint.semantic.uses.swallowing import may_be_swallowed
from torchlint.semantic.values.definitions_behind import functions
from torchlint.semantic.values.inferred import inferred

_FRAME_READERS = frozenset(
    "builtins." + name for name in ("locals", "globals", "vars", "eval", "exec", "dir")
)
_REDUCES = regex(r"reduce|broadcast")
_IN_PLACE = ops.having("in-place")
_NUMBERS = (cst.Integer, cst.Float)
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


def grown_name(statement: cst.CSTNode | None) -> str | None:
    """Return the name that ``name += …`` or ``name = name + …`` adds to."""
    match statement:
        case cst.AugAssign(target=cst.Name(name), operator=cst.AddAssign()):
            return name
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Name(name))],
            value=cst.BinaryOperation(left=cst.Name(left), operator=cst.Add()),
        ) if name == left:
            return name
    return None


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
    steps = tuple(each for write in writes if (each := _step_of(module, write)) is not None)
    others = [write for write in writes if _step_of(module, write) is None]
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
    before, as by the next turn of a loop around it."""
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


@question()
def fresh_per_iteration(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is made anew in each turn of the loop, as `bound_per_iteration` says,
    by torch's own functions or losses: what else gives one may give the same again, a buffer."""
    if not bound_per_iteration(module, tensor):
        return False
    if not isinstance(tensor, cst.Name) or not module.loops(tensor):
        return True
    made, seen = definitions_of(module, tensor), set[cst.CSTNode]()
    while made:
        each = made.pop()
        if isinstance(each, cst.AugAssign) and isinstance(each.target, cst.Name):
            # Made anew before it is changed: ``loss *= 2``.
            if each not in seen:
                seen.add(each)
                made += definitions_of(module, each.target)
        elif not _is_fresh(module, each, tensor.value):
            return False
    return True


@question()
def bound_per_iteration(module: Module, tensor: cst.BaseExpression) -> bool:
    """Say whether a tensor is made anew in each turn of the loop: by a name that nothing changes in
    place there, or by a reduction; without a loop, in each call: by torch."""
    iterations = module.loops(tensor)
    match tensor:
        case cst.Name() if not iterations:
            return _fresh_and_unchanged(module, tensor)
        case cst.Name(value=name):
            made = definitions_of(module, tensor)
            return (
                bool(made)
                and all(module.is_within(each, iterations[0]) for each in made)
                and not _grows_or_changes(module, iterations[0], name)
                and not _changed_behind(module, iterations[0], name, made)
                and not _has_second_name(module, tensor)
            )
        case (
            cst.Call(func=cst.Attribute(value=inner, attr=cst.Name("detach")))
            | cst.Attribute(value=inner, attr=cst.Name("data"))
        ):
            if isinstance(inner, cst.Name):
                return _fresh_and_unchanged(module, inner)
            return bound_per_iteration(module, inner)
        case cst.Call(func=cst.Attribute(attr=cst.Name(method))):
            return method in ops.REDUCTIONS
    return False


@question(circular=False)
def _grows_or_changes(module: Module, iteration: cst.CSTNode, name: str) -> bool:
    """Say whether a turn of a loop adds to what a name holds, or may change it in place by one of
    its uses."""
    uses = [module.parent(each) for each in reads_of(module, iteration, name)]
    return (
        any(_step_of(module, each) for each in writes_of(module, iteration, name))
        or any(isinstance(u, cst.Attribute) and u.attr.value[-1] == "_" for u in uses)
        or any(_may_reduce(module, use) or _may_change(module, use) for use in uses)
    )


_CHANGES = regex(r"[a-z]_\Z")


def _may_change(module: Module, use: cst.CSTNode | None) -> bool:
    """Say whether a tensor gets a second name by which it may be changed in place, ``loss.data``,
    or goes to a function of the file that changes something in place."""
    node: cst.CSTNode | None = use
    aliased = False
    while isinstance(node, (cst.Attribute, cst.Call)):
        if isinstance(node, cst.Attribute):
            if node.attr.value.endswith("_"):
                return True
            if node.attr.value not in ops.ALIASING_ATTRIBUTES | ops.ALIASING_METHODS:
                return False
            aliased = True
        node = module.parent(node)
    if aliased and isinstance(node, (cst.Assign, cst.AssignTarget, cst.AugAssign)):
        return True
    call = module.parent(node) if isinstance(node, cst.Arg) else None
    return isinstance(call, cst.Call) and any(
        isinstance(each, cst.AugAssign)
        or (isinstance(each.func, cst.Attribute) and _CHANGES.search(each.func.attr.value))
        for callee in callees_of(module, call)
        for each in module.within(callee, cst.Call, cst.AugAssign, nested=True)
        if isinstance(each, (cst.AugAssign, cst.Call))
    )


_CAPTURES = regex(
    r"reduce-overhead|max-autotune|cudagraphs|CUDAGraph|graphed_callables|cuda\.graph\b"
)
_NAMING = (cst.Assign, cst.AnnAssign, cst.NamedExpr, cst.BaseElement, cst.BaseDictElement)
_COMPUTED = (cst.Integer, cst.Float, cst.BinaryOperation)
_KEEPS_VALUES = regex(r"^(clip_grad|unscale_|requires_grad_)|^torch\.nn\.(init|utils)\.")


def _has_second_name(module: Module, tensor: cst.Name) -> bool:
    """Say whether what a name holds gets a second one in its function (``total = loss``,
    ``{"loss": loss}``), where something is changed in place that may be it."""
    owner, made = module.tree.owners[tensor], set(definitions_of(module, tensor))
    return any(
        not made.isdisjoint(definitions_of(module, read))
        for read in _named_reads(module, owner, tensor.value)
    ) and _may_change_others(module, owner)


@question(ground=True)
def _named_reads(module: Module, owner: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the reads of a name by which what it holds gets another one."""
    return [read for read in reads_of(module, owner, name) if _is_named(module, read)]


@question(circular=False)
def _may_change_others(module: Module, owner: cst.CSTNode) -> bool:
    """Say whether code may change in place what has another name too."""
    changes = module.within(owner, cst.AugAssign, cst.Call)
    return any(_may_change_another(module, each) for each in changes)


def _is_named(module: Module, read: cst.CSTNode) -> bool:
    """Say whether an expression is given a name, or a place in a row or table, as it is."""
    above = module.parent(read)
    if isinstance(above, cst.IfExp) and read is not above.test:
        return _is_named(module, above)
    return isinstance(above, _NAMING) and getattr(above, "value", None) is read


def _may_change_another(module: Module, change: cst.CSTNode) -> bool:
    """Say whether ``total += …`` or ``total.mul_(…)`` may change what has another name too: not
    where the name holds a number, or what was computed for it."""
    match change:
        case cst.AugAssign(target=cst.Name() as target):
            made = definitions_of(module, target)
            return not made or any(
                not isinstance(each, cst.AugAssign)
                and not isinstance(getattr(each, "value", None), _COMPUTED)
                and not is_python_number(module, getattr(each, "value", None) or each)
                and not _is_fresh(module, each, target.value)
                for each in made
            )
        case cst.AugAssign(target=target):
            return not is_python_number(module, target)
        case cst.Call(func=cst.Attribute(attr=cst.Name(value=method)) as func):
            name = module.name(func) or method
            kept = _KEEPS_VALUES.search(method) or _KEEPS_VALUES.search(name)
            return bool(_CHANGES.search(method)) and not kept
    return False


@question(
    yes="`{answer}` changes the tensor in place, in the same iteration",
    no="nothing is known that changes the tensor in place in the same iteration",
)
def changed_below(module: Module, tensor: cst.BaseExpression) -> cst.CSTNode | None:
    """Return what changes a tensor in place behind a read of it, in the same turn of the loop or
    call of the function: ``loss += …``, ``loss.add_(…)``."""
    if not isinstance(tensor, cst.Name):
        return None
    iteration = module.loop(tensor) or module.function(tensor) or module.root
    made = set(definitions_of(module, tensor))
    for each in module.within(iteration, cst.AugAssign, cst.Call):
        match each:
            case cst.AugAssign(target=cst.Name() as name):
                pass
            case cst.Call(
                func=cst.Attribute(value=cst.Name() as name, attr=cst.Name(value=method))
            ) if method in _IN_PLACE:
                pass
            case _:
                continue
        same = name.value == tensor.value and made == set(definitions_of(module, name))
        if same and module.before(tensor, each):
            return each
    return None


def _may_reduce(module: Module, use: cst.CSTNode | None) -> bool:
    """Say whether a tensor is handed to what may put into it what all processes have together."""
    call = module.parent(use) if isinstance(use, cst.Arg) else None
    name = dotted_text(call.func) if isinstance(call, cst.Call) else None
    return _REDUCES.search(name or "") is not None


def _changed_behind(module: Module, loop: cst.CSTNode, name: str, made: list[cst.CSTNode]) -> bool:
    """Say whether a loop has a ``name *= …`` that changes in place what these have bound."""
    return any(
        is_name(step.target, name) and not set(made).isdisjoint(definitions_of(module, step.target))
        for step in module.within(loop, cst.AugAssign)
    )


def _fresh_and_unchanged(module: Module, read: cst.Name) -> bool:
    """Say whether torch makes a tensor of its own before each read of a name, in the turn or the
    call, and nothing that is known changes it in place."""
    made, iterations = definitions_of(module, read), module.loops(read)
    home = iterations[0] if iterations else module.function(read)
    if home is None or is_compiled(module, read) or _has_second_name(module, read):
        return False
    return bool(made) and all(
        module.is_within(each, home)
        and _is_fresh(module, each, read.value)
        and not any(
            use.way is Way.WRITTEN or _is_reduced(module, use)
            for use in binding_uses(module, each, read.value, "device")
        )
        for each in made
    )


def _is_reduced(module: Module, use: ObjectUse) -> bool:
    """Say whether a call that is not known may put what all processes have together in a tensor's
    place."""
    name = dotted_text(use.node.func) if isinstance(use.node, cst.Call) else None
    return use.way is Way.ESCAPES and _REDUCES.search(name or "") is not None


def _is_fresh(module: Module, made: cst.CSTNode, name: str) -> bool:
    """Say whether an assignment binds a name to what torch has just computed: a loss, a reduction,
    a sum, or what code that is not in view gives and the same turn back-propagates."""
    match made:
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Name())], value=value):
            return _is_computed(module, value) or _is_back_propagated(module, made, name)
        case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=parts))]):
            places = [i for i, part in enumerate(parts) if is_name(part.value, name)]
            behind = _reached(module, made.value) if len(places) == 1 else []
            return len(behind) == 1 and _computes_all(*behind[0], part=places[0], of=len(parts))
    return False


def _is_back_propagated(module: Module, made: cst.Assign, name: str) -> bool:
    """Say whether each turn of a loop back-propagates what an unknown call gives it, and lets its
    graph go: no other turn can get the same tensor. One that a graph of CUDA computes lies where
    the next turn's will."""
    loop = module.loop(made)
    if not isinstance(loop, LOOPS) or not isinstance(made.value, cst.Call):
        return False
    if _reached(module, made.value):
        return False
    for call in module.within(loop.body, cst.Call):
        match call:
            case (
                cst.Call(func=cst.Attribute(value=loss, attr=cst.Name("backward")), args=[])
                | cst.Call(
                    func=cst.Attribute(attr=cst.Name("backward")), args=[cst.Arg(value=loss)]
                )
            ):
                if method_called(loss) == "scale" and isinstance(loss, cst.Call) and loss.args:
                    loss = loss.args[0].value
                if is_name(loss, name) and definitions_of(module, loss) == [made]:
                    return not said_somewhere(module, Holds(_CAPTURES))
    return False


def _reached(module: Module, call: cst.BaseExpression) -> list[tuple[Module, Function]]:
    """Return the functions of the project that a call may reach."""
    if not isinstance(call, cst.Call):
        return []
    return functions(module, call) or [*called_object(module, call)]


def _is_computed(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether an expression gives what torch has just computed, itself or in a function of the
    project that returns nothing else."""
    match value:
        case cst.BinaryOperation():
            return inferred(module, value).kind == "tensor"
        case cst.Call(func=func):
            name, callee = module.name(func) or "", inferred(module, func)
            layer = callee.kind == "module" and (callee.name or "").startswith("torch.nn.")
            if name in ops.COMPUTING_FUNCTIONS or (layer and (callee.name or "").endswith("Loss")):
                return True
            method = func.attr.value if isinstance(func, cst.Attribute) and not name else ""
            if inferred(module, value).kind == "tensor" and method in ops.COMPUTING_METHODS:
                return True
            behind = _reached(module, value)
            return len(behind) == 1 and _computes_all(*behind[0])
    return False


@question(circular=False)
def _computes_all(module: Module, function: Function, *, part: int = 0, of: int = 1) -> bool:
    """Say whether all that a function returns, or a part of it `of` several, are tensors that its
    run has computed."""
    if not isinstance(function, cst.FunctionDef) or function.decorators:
        return False
    given = [each.value for each in module.within(function.body, cst.Return)]
    if of > 1:
        given = [
            each.elements[part].value
            if isinstance(each, cst.Tuple) and len(each.elements) == of
            else None
            for each in given
        ]
    return bool(given) and all(
        each is not None and _is_computed_there(module, each) for each in given
    )


def _is_computed_there(module: Module, value: cst.BaseExpression) -> bool:
    """Say whether a function has computed what an expression gives, wherever in it, and keeps it
    under no other name: a name that began as a number too, to which it has added."""
    if not isinstance(value, cst.Name):
        return _is_computed(module, value)
    owner = module.tree.owners[value]
    if not all(_computes_with(module, each) for each in reads_of(module, owner, value.value)):
        return False
    seen: set[cst.CSTNode] = set()
    made = definitions_of(module, value)
    while new := [each for each in made if each not in seen]:
        seen.update(new)
        made = [
            earlier
            for each in new
            if isinstance(each, cst.AugAssign) and isinstance(each.target, cst.Name)
            for earlier in definitions_of(module, each.target)
        ]
    return any(not isinstance(_number(each), _NUMBERS) for each in seen) and all(
        isinstance(each, cst.AugAssign)
        or isinstance(_number(each), _NUMBERS)
        or _is_fresh(module, each, value.value)
        for each in seen
    )


def _computes_with(module: Module, read: cst.CSTNode) -> bool:
    """Say whether a use of a tensor leaves no second name of it behind."""
    match module.parent(read):
        case cst.Return() | cst.BinaryOperation() | cst.AugAssign():
            return True
        case cst.Element() as part if isinstance(row := module.parent(part), cst.Tuple):
            return isinstance(module.parent(row), cst.Return)
        case cst.Attribute(attr=cst.Name(method)):
            return method in ops.COMPUTING_METHODS | ops.REDUCTIONS
    return False


def _number(made: cst.CSTNode) -> cst.CSTNode | None:
    return made.value if isinstance(made, cst.Assign) else None


@frozen
class NumberUses:
    """The reads of a plain name that a loop binds to a number.

    Args:
        rarely: those that happen now and then, or behind the loop.
        each_step: those that happen in each step.
    """

    rarely: tuple[cst.Name, ...]
    each_step: tuple[cst.Name, ...]


@question(
    yes="all that reads it after the loop comes after `{0}`",
    no="what reads it after the loop is read in one place, or here and there",
    remember=False,
)
def first_read_after(
    module: Module, target: cst.Name, uses: NumberUses
) -> cst.SimpleStatementLine | None:
    """Return the first of the lines of one block that read a name behind the loop, where there are
    several reads, all of them in lines below it: to make a number of it there is enough."""
    loop = module.loops(target)[0]
    behind = [each for each in uses.rarely if not module.is_within(each, loop)]
    if len(behind) < 2:
        return None
    for above in module.ancestors(behind[0]):
        if isinstance(above, (cst.IndentedBlock, cst.Module)):
            lines = [line for line in above.body if _holds_any(module, line, behind)]
            holds_all = all(_holds_any(module, above, [each]) for each in behind)
            if not holds_all or not lines:
                continue
            first = lines[0]
            if not isinstance(first, cst.SimpleStatementLine) or not module.before(loop, first):
                return None
            inside = module.is_within(loop, above)
            return first if inside and _reads_surely(module, first, behind) else None
    return None


@question(
    yes="lines of one block below `{0}` read it several times",
    no="no block reads it several times",
    remember=False,
)
def read_in_blocks(
    module: Module, reads: Iterable[cst.Name], changed: Iterable[cst.CSTNode]
) -> dict[cst.SimpleStatementLine, tuple[cst.Name, ...]]:
    """Return, by the line that surely is the first to read a name in a block of a loop, the reads
    in that block, where there are several: to make a number of it before that line is enough.

    `changed` are the nodes that change it, none of which stands in the block.
    """
    blocks: dict[cst.CSTNode, list[cst.Name]] = {}
    for read in reads:
        inner = [
            above
            for above in _upto(module, read, next(iter(module.loops(read)), read))
            if isinstance(above, cst.IndentedBlock) and not isinstance(module.parent(above), LOOPS)
        ]
        free = [each for each in inner if not _holds_any(module, each, changed)]
        if free:
            blocks.setdefault(free[-1], []).append(read)
    found: dict[cst.SimpleStatementLine, tuple[cst.Name, ...]] = {}
    for block, held in blocks.items():
        assert isinstance(block, cst.IndentedBlock)
        first = next(line for line in block.body if _holds_any(module, line, held))
        plain = isinstance(first, cst.SimpleStatementLine) and len(held) > 1
        if plain and _reads_surely(module, first, held):
            found[first] = tuple(held)  # type: ignore[index]
    return found


def _holds_any(module: Module, node: cst.CSTNode, reads: Iterable[cst.CSTNode]) -> bool:
    return any(module.is_within(each, node) for each in reads)


_CHOOSING = (cst.IfExp, cst.BooleanOperation, cst.Lambda)


def _reads_surely(module: Module, line: cst.CSTNode, reads: Iterable[cst.Name]) -> bool:
    """Say whether a line makes one of some reads on each way."""
    return any(
        not any(
            isinstance(above, (*_CHOOSING, *COMPREHENSIONS)) for above in _upto(module, read, line)
        )
        for read in reads
        if module.is_within(read, line)
    )


_SAME_RESULT = frozenset(("torch.no_grad", "torch.enable_grad", "torch.inference_mode"))


@question(
    yes="all its calls are known: `{answer}`",
    no="it may be called by code that is not followed",
)
def all_calls(module: Module, function: cst.FunctionDef) -> list[cst.Call] | None:
    """Return the calls of a function that hands back one result in one place; None where others may
    call it too: it is passed on, overridden, or named in another file."""
    sites = call_sites(module, function)
    returns = list(module.within(function.body, cst.Return))
    waiting = any(True for _ in module.within(function.body, cst.Yield))
    if not sites or len(returns) != 1 or waiting or function.asynchronous is not None:
        return None
    decorators = [module.name(callee(each.decorator)) for each in function.decorators]
    if any(name not in _SAME_RESULT for name in decorators) or escapes(module, function):
        return None
    if any(callees_of(module, site) != (function,) for site in sites):
        return None
    return None if _named_elsewhere(module, function) else sites


def _named_elsewhere(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether another file may call a function, or put another in its place."""
    name, cls = function.name.value, module.class_of(function)
    stem = PurePath(module.filename).stem
    test = (
        functools.partial(names, name)
        if cls is None
        else functools.partial(_names_method, name, cls.name.value, stem)
    )
    return module.outside.others_say(test, near=False) is not False


_COMMENT = regex(r"(^|\s)#[^\n]*")


def _names_method(method: str, cls: str, stem: str, text: str) -> bool:
    """Say whether a text names a method by more than defining one of its own and calling that; in a
    file that imports the class, or all of its file, such a one may override it."""
    if method not in text:
        return False
    text = _COMMENT.sub("", text)
    if re.search(rf"(?<!\bself\.)(?<!\bdef )\b{re.escape(method)}\b", text):
        return True
    if method not in text:
        return False
    imported = rf"^\s*(from|import)\b[^\n]*\b({re.escape(stem)}|{re.escape(cls)})\b"
    return re.search(imported, text, re.MULTILINE) is not None


@question(
    yes="the name is only returned, once",
    no="the name is more than returned",
)
def only_returned(module: Module, target: cst.Name) -> list[cst.Name] | None:
    """Return the read of a plain name that a function binds outside of loops, where all that it
    does with it is to return it, in one place; else None."""
    function, name = module.function(target), target.value
    if function is None or module.loops(target) or binds_globally(module, function, name):
        return None
    reads = reads_of(module, function, name)
    if writes_of(module, function, name) != [target] or len(reads) != 1:
        return None
    own = module.function(reads[0]) is function
    return reads if own and isinstance(module.small_statement(reads[0]), cst.Return) else None


@question(
    yes="all that uses the number is known",
    no="the number is used by code that is not followed, or bound twice",
)
def uses_of_number(module: Module, target: cst.Name) -> NumberUses | None:
    """Return the reads of a plain name that an assignment in a loop binds, and nothing else does;
    None where not all who may read it are known."""
    binding = module.small_statement(target)
    loops = module.loops(target)
    if not isinstance(binding, cst.Assign) or len(binding.targets) != 1 or not loops:
        return None
    outermost, name = loops[-1], target.value
    if not isinstance(outermost, (cst.For, cst.While)):
        return None
    owner = module.tree.owners[outermost]
    if shared(module, outermost, name) or writes_of(module, owner, name) != [target]:
        return None
    if any(isinstance(each, (cst.Try, cst.TryStar)) for each in _upto(module, binding, owner)):
        return None
    reads = reads_of(module, owner, name)
    rarely = tuple(
        each
        for each in reads
        if throttled(module, each, loops[0]) or not module.is_within(each, loops[0])
    )
    return NumberUses(rarely, tuple(each for each in reads if each not in rarely))


def _step_of(module: Module, write: cst.CSTNode) -> cst.AugAssign | cst.Assign | None:
    """Return the ``name += …`` or ``name = name + …`` of which a node is the target."""
    above = module.parent(write)
    above = module.parent(above) if isinstance(above, cst.AssignTarget) else above
    if isinstance(above, (cst.AugAssign, cst.Assign)) and grown_name(above) is not None:
        return above
    return None


def _is_scaling(module: Module, write: cst.CSTNode, loop: cst.For | cst.While) -> bool:
    """Say whether a write is a ``name /= …`` or ``name *= …`` that runs now and then."""
    above = module.parent(write)
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
    for above in _upto(module, loop, owner):
        if isinstance(above, (cst.Try, cst.TryStar)):
            caught = [handler for handler in above.handlers if not leaves(module, handler.body)]
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
    for above in _upto(module, module.small_statement(step) or step, loop):
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
    return loop.orelse is not None and any(True for _ in module.within(loop.orelse, *leaving))


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


_OF_SOME = frozenset(
    ("numpy.mean", "numpy.average", "statistics.mean", "builtins.max", "builtins.min")
)


@question(yes="its mean is taken after the loop", no="it may well be empty", remember=False)
def averaged_after(module: Module, append: cst.Call) -> bool:
    """Say whether of a list, which only lines behind the loop read, one takes the mean or an end:
    an empty list has none."""
    for read in gathered_reads(module, append) or ():
        call = module.taker(read)
        name = module.name(call.func) if isinstance(call, cst.Call) else None
        if name in _OF_SOME:
            return True
        match module.parent(call):
            case cst.BinaryOperation(operator=cst.Divide(), right=right) if (
                right is call and name == "builtins.len"
            ):
                return True
    return False


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
    nobody unknown gets it. A tensor that is older than the loop's turn (a buffer, the output of a
    graph) does not.
    """
    match detached:
        case cst.Call(func=cst.Attribute(value=cst.Name() as loss, attr=cst.Name("detach"))):
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
    return all(_harmless(module, use, kept) for use in uses) and not any(
        _may_change(module, each) for each in named
    )


def _harmless(module: Module, use: ObjectUse, kept: cst.CSTNode) -> bool:
    """Say whether a use leaves a tensor as it is; that of the list which keeps it is known."""
    return use.way is Way.ESCAPES and use.node is kept


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
        _step_of(module, write) is not None or (reset and _is_reset(module, write))
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
    if any(isinstance(above, (cst.Try, cst.TryStar)) for above in _upto(module, loop, owner)):
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


def _upto(module: Module, node: cst.CSTNode, owner: cst.CSTNode) -> list[cst.CSTNode]:
    out = []
    for above in module.ancestors(node):
        if above is owner:
            break
        out.append(above)
    return out
