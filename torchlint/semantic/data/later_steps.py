"""Statements that hand a number of the device to a meter, or store it in an array or a dictionary,
and could do so after their loop, or before something looks at what they change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.text import remarked
from torchlint.semantic.code.tree import components, is_name, root_of
from torchlint.semantic.data.per_step_use import LogLines, log_lines
from torchlint.semantic.device.host_reads import HostRead, host_copy, scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.loops import endless
from torchlint.semantic.uses.accumulators import shared, sum_of_loop
from torchlint.semantic.uses.graphless import graphless
from torchlint.semantic.uses.meters import display_of, number_store
from torchlint.semantic.uses.plain_numbers import is_python_number
from torchlint.semantic.values.classes import class_named
from torchlint.semantic.values.detachable import detachable
from torchlint.semantic.values.inferred import inferred

_MAY_RAISE = (cst.Divide, cst.FloorDivide, cst.Modulo, cst.Power)
_LITERALS = (cst.Integer, cst.Float, cst.SimpleString)
_PURE = frozenset(f"builtins.{name}" for name in ("round", "float", "int", "abs", "len", "sum"))
_LOOKERS = _PURE | {"builtins.print", "builtins.str", "builtins.max", "builtins.min"}
_REDUCERS = frozenset(f"numpy.{name}" for name in ("mean", "sum", "median", "std", "max", "min"))
_ARRAYS = frozenset(
    f"{library}.{name}"
    for library in ("torch", "numpy")
    for name in ("zeros", "ones", "empty", "full")
)
_CONTAINERS = _ARRAYS | {"builtins.dict", "builtins.list", "collections.defaultdict"}


@frozen
class Step:
    """A statement that changes one object by numbers that it reads.

    Args:
        line: its line.
        root: the name of the object.
        kept: what it needs of its iteration of the loop, with a name for each.
        reads: the reads among them.
        raises: whether it may raise: an index past the end, a key that lacks, a division by zero.
    """

    line: cst.SimpleStatementLine
    root: cst.Name
    kept: tuple[tuple[cst.BaseExpression, str], ...]
    reads: tuple[HostRead, ...]
    raises: bool


@frozen
class Place:
    """The loop after which a statement can run as well, and where in it something looks at what it
    changes: the ``if`` that holds now and then, or the lines that log it in each step."""

    loop: cst.For | cst.While
    shown: cst.If | LogLines | None


@frozen
class LaterSteps:
    """Neighbouring statements that can run after a loop, in their order."""

    steps: tuple[Step, ...]
    place: Place


@question(
    yes="its statement can run after the loop, on tensors that are kept",
    no="something looks at what its statement changes, or what that does is not known",
)
def later_steps(module: Module, node: cst.BaseExpression) -> LaterSteps | None:
    """Return the statement of a read, and its neighbours, where they give the same when they run
    after the loop; None where something may look at what they change before."""
    line = module.statement(node)
    block = module.parent(line)
    runs = _runs_of(module, block) if isinstance(block, cst.IndentedBlock) else []
    found = next((run for run in runs if any(each.line is line for each, _ in run)), [])
    steps = [each for each, _ in found]
    own, place = next((each for each in found if each[0].line is line), (None, None))
    if own is None or node not in [each.node for each in own.reads]:
        return None
    run = [each for each, at in found if at == place]
    apart = [each.root.value for each in steps if each not in run]
    if place is None or steps.index(run[-1]) - steps.index(run[0]) + 1 != len(run):
        return None
    return None if any(e.root.value in apart for e in run) else LaterSteps(tuple(run), place)


@question()
def _runs_of(module: Module, block: cst.IndentedBlock) -> list[list[tuple[Step, Place | None]]]:
    """Return the steps of a block that stand together, without a gap or a comment between them,
    each with where it may go."""
    runs: list[list[Step]] = [[]]
    for each in block.body:
        step = _step(module, each)
        if step is None or (runs[-1] and remarked(module, each, behind=False)):
            runs.append([])
        if step is not None:
            runs[-1].append(step)
    return [
        [(step, _loop_before(module, step, steps)) for step in steps] for steps in runs if steps
    ]


def _step(module: Module, line: cst.CSTNode) -> Step | None:
    """Return the step that a line is, where its iteration of the loop catches no exception around
    it."""
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    reads = tuple(_reads(module, line.body[0]))
    changed = _changed(module, line.body[0]) if reads else None
    if changed is None or not module.loops(line):
        return None
    root, parts = changed
    iteration = (
        each for each in module.ancestors(line) if module.is_within(each, module.loops(line)[0])
    )
    if any(isinstance(each, (cst.Try, cst.TryStar)) for each in iteration):
        return None
    kept: list[tuple[cst.BaseExpression, str]] = []
    numbers = [read.tensor for read in reads]
    for part, hint in parts:
        for node in _needed(module, part, reads):
            if node is None:
                return None
            if isinstance(node, cst.Name) and hint == "value" and node not in numbers:
                kept.append((node, f"kept_{node.value}"))
            elif hint == "value" and _counts(module, node):
                kept.append((node, "count"))
            else:
                kept.append((node, hint))
    whole = all(any(node is each for node, _ in kept) for each in numbers)
    counted = isinstance(line.body[0], cst.AugAssign) and line.body[0].target is root
    looks = [each for each in reads_of(module, line, root.value) if each is not root or not counted]
    whole = whole and len(looks) == (0 if counted else 1)
    return Step(line, root, tuple(kept), reads, _raises(module, root, line)) if whole else None


def _raises(module: Module, root: cst.Name, line: cst.SimpleStatementLine) -> bool:
    """Say whether a step may raise for numbers that an ordinary program has: it divides, makes a
    whole number of what may be nan, or asks an object for a place that it may not have."""
    made = sole_definition(module, root)
    kind = module.name(made.func) if isinstance(made, cst.Call) else ""
    set_there = isinstance(line.body[0], cst.Assign)
    stored = int(
        set_there and (isinstance(made, (cst.Dict, cst.DictComp)) or kind == "builtins.dict")
    )
    asked = [
        each
        for each in module.within(line, cst.Subscript)
        if root_of(each, cst.Subscript) is root and not _is_key_of(made, each)
    ]
    # What a defaultdict makes for a new key need not have the next place.
    if isinstance(made, cst.Call) and kind == "collections.defaultdict":
        of_dict = bool(made.args) and is_name(made.args[0].value, "dict")
        stored = 1 + (set_there and of_dict)
    places = len(asked) > stored
    return places or _may_raise(module, line) or _raises_within(module, line)


def _is_key_of(made: cst.CSTNode | None, asked: cst.Subscript) -> bool:
    """Say whether a dictionary is asked for a key that it was made with."""
    match made, asked.slice:
        case cst.Dict(elements), [cst.SubscriptElement(cst.Index(cst.SimpleString() as key))]:
            return any(
                isinstance(each, cst.DictElement) and key.deep_equals(each.key) for each in elements
            )
    return False


def _may_raise(module: Module, node: cst.CSTNode) -> bool:
    """Say whether code divides, or makes a whole number of what may be nan."""
    # With a number of digits, round() leaves nan as it is.
    calls = (each for each in module.within(node, cst.Call) if len(each.args) == 1)
    casts = (module.name(each.func) for each in calls)
    return any(each in ("builtins.int", "builtins.round") for each in casts) or any(
        isinstance(each.operator, _MAY_RAISE)
        and (isinstance(each.operator, cst.Power) or not _counts(module, each.right))
        for each in module.within(node, cst.BinaryOperation)
    )


def _raises_within(module: Module, line: cst.SimpleStatementLine) -> bool:
    """Say whether the class of a meter may raise for the numbers of a step: by ``math``, as
    `_may_raise` says, but for a mean over counts of which none is handed over as 0."""
    match line.body[0]:
        case cst.Expr(cst.Call(cst.Attribute(meter)) as call):
            made = sole_definition(module, meter)
        case _:
            return False
    found = class_named(module, made.func) if isinstance(made, cst.Call) else None
    if found is None:
        return False
    where, cls = found
    for each in where.within(cls.body, cst.Call, nested=True):
        name = where.called(each)
        whole = name in ("builtins.int", "builtins.round") and len(each.args) == 1
        if whole or name.startswith("math."):
            return True
    divided = [
        each.right
        for each in where.within(cls.body, cst.BinaryOperation, nested=True)
        if isinstance(each.operator, _MAY_RAISE)
    ]
    counted = all(_counts(module, arg.value) for arg in call.args[1:])
    return bool(divided) and not (counted and all(_is_own_count(where, each) for each in divided))


def _is_own_count(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a meter divides by what it has counted, or was handed as a count: by an attribute
    of its own, a number, or a parameter behind its method's first."""
    match node:
        case cst.Integer(value):
            return value != "0"
        case cst.Attribute(cst.Name("self")):
            return True
        case cst.Call(cst.Name("max"), args):
            return any(_counts(module, arg.value) for arg in args)
        case cst.Name(name):
            function = module.function(node)
            return isinstance(function, cst.FunctionDef) and name in {
                each.name.value for each in function.params.params[2:]
            }
    return False


def _counts(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a number is a count that no batch has as 0: its length, or a literal."""
    match node:
        case cst.Integer(value):
            return value != "0"
        case cst.Name():
            made = sole_definition(module, node)
            return (
                isinstance(made, cst.BaseExpression)
                and not isinstance(made, cst.Name)
                and (_counts(module, made))
            )
        case cst.Call(cst.Attribute(attr=cst.Name("size")), [_]):
            return True
        case cst.Call(func):
            return module.name(func) == "builtins.len"
        case cst.Subscript(cst.Attribute(attr=cst.Name("shape"))):
            return True
    return False


def _needed(
    module: Module, node: cst.BaseExpression, reads: Sequence[HostRead]
) -> Iterator[cst.BaseExpression | None]:
    """Yield the tensors that an expression reads, and what else it needs of its iteration; None
    where that may not be the same later, or it does more than arithmetic."""
    own = next((each for each in reads if each.node is node), None)
    if own is not None:
        yield own.tensor
        return
    if isinstance(node, _LITERALS):
        return
    if not any(module.is_within(each.node, node) for each in reads):
        stay = all(_stays(module, each) for each in components(node, cst.BinaryOperation))
        yield node if stay else None
        return
    match node:
        case cst.BinaryOperation(left, right=right):
            parts = [left, right]
        case cst.UnaryOperation(expression=inner):
            parts = [inner]
        case cst.Tuple(elements) | cst.List(elements):
            parts = [each.value for each in elements]
        case cst.Dict(elements):
            parts = [getattr(each, "key", each.value) for each in elements]
            parts += [each.value for each in elements]
        case cst.Call(cst.Name() as func, args) if module.name(func) in _PURE:
            parts = [each.value for each in args]
        case _:
            yield None
            return
    for part in parts:
        yield from _needed(module, part, reads)


def _stays(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether nothing changes a value once it is made: a number or a text."""
    match node:
        case cst.FormattedString():
            return True
        case cst.Call(func) if module.name(func) in _PURE:
            return inferred(module, node).kind != "tensor"
    return is_python_number(module, node) or inferred(module, node).kind in ("number", "str")


def _reads(module: Module, small: cst.CSTNode) -> Iterator[HostRead]:
    """Yield the reads of single numbers in a statement whose tensors can be kept."""
    for call in module.within(small, cst.Call):
        for read in scalar_reads(module, call):
            moved = any(host_copy(module, c) for c in module.within(read.tensor, cst.Call))
            plain = read.how in ("item", "float", "int") and not moved
            # Where no graph is recorded, the thing itself is kept, whatever has an .item().
            itself = read.how == "item" and graphless(module, read.tensor)
            if plain and (itself or detachable(module, read.tensor)):
                yield read


def _changed(
    module: Module, small: cst.CSTNode
) -> tuple[cst.Name, list[tuple[cst.BaseExpression, str]]] | None:
    """Return the object that a statement changes, and the expressions of which it does so, each
    with a name for it; None where it may do more."""
    target: cst.CSTNode
    match small:
        case cst.Expr(cst.Call(cst.Attribute(cst.Name() as root, method)) as call) if (
            method.value != "append"
        ):
            store = number_store(module, call)
            return None if store is None else (root, [(v, k) for k, v in store.items()])
        case cst.AugAssign(cst.Name() as root, value=value):
            return (root, [(value, "value")]) if sum_of_loop(module, small) is not None else None
        case cst.Expr(
            cst.Call(
                cst.Attribute(target, cst.Name("append")),
                [cst.Arg(value, star="")],
            )
        ):
            pass
        case cst.Assign([cst.AssignTarget(cst.Subscript() as target)], value) | cst.AugAssign(
            cst.Subscript() as target, value=value
        ):
            pass
        case _:
            return None
    parts = [(value, "value")]
    while isinstance(target, cst.Subscript):
        match target.slice:
            case [cst.SubscriptElement(cst.Index(index, None))]:
                parts.insert(0, (index, "index"))
            case _:
                return None
        target = target.value
    if not isinstance(target, cst.Name):
        return None
    made = sole_definition(module, target)
    return (target, parts) if made is not None and _is_fresh(module, made) else None


def _is_fresh(module: Module, made: cst.CSTNode) -> bool:
    """Say whether an expression makes a list, a dictionary or an array that nothing else leads
    to, and neither to what it holds."""
    match made:
        case cst.Integer() | cst.Float() | cst.SimpleString():
            return True
        case cst.Name("None" | "int" | "float" | "list" | "dict"):
            return True
        case cst.List(elements) | cst.Dict(elements):
            values = [getattr(each, "value", made) for each in elements]
            return all(each is not made and _is_fresh(module, each) for each in values)
        case cst.DictComp(value=value) | cst.ListComp(value):
            return _is_fresh(module, value)
        case cst.BinaryOperation(cst.List() as row, cst.Multiply()):
            return all(isinstance(each.value, _LITERALS) for each in row.elements)
        case cst.Call(func, args):
            name = module.name(func)
            return name in _ARRAYS or (
                name in _CONTAINERS and all(_is_fresh(module, arg.value) for arg in args)
            )
    return False


def _loop_before(module: Module, step: Step, steps: Sequence[Step]) -> Place | None:
    """Return the widest loop after which a step may run, where nothing but steps beside it uses
    its object in the loop, or looks at it in one branch now and then."""
    name, loops = step.root.value, module.loops(step.line)
    if isinstance(step.line.body[0], cst.AugAssign) and step.line.body[0].target is step.root:
        return _place_of_sum(module, step, steps)
    owner = module.tree.owners[loops[0]]
    writes, reads = writes_of(module, owner, name), reads_of(module, owner, name)
    binding = module.small_statement(writes[0]) if len(writes) == 1 else None
    plain = isinstance(binding, cst.AnnAssign) or (
        isinstance(binding, cst.Assign) and len(binding.targets) == 1
    )
    if binding is None or not plain or shared(module, loops[0], name):
        return None
    own = [each.line for each in steps if each.root.value == name]
    others = [each for each in reads if not any(module.is_within(each, line) for line in own)]
    others = [seen for each in others for seen in _seen_by(module, each, loops[0])]
    found: Place | None = None
    for loop in loops:
        if module.is_within(binding, loop) or loop.orelse is not None or endless(module, loop):
            break
        inside = [each for each in others if module.is_within(each, loop)]
        shown = {_shown(module, each, loop) for each in inside}
        if (
            None in shown
            or len(shown) > 1
            or any(_is_within_shown(module, each, step) for each in shown)
        ):
            break
        found = Place(loop, next(iter(shown), None))
    if found is None or heat_of(module, found.loop).hot:
        return None
    outer = [each for each in module.loops(found.loop) if not module.is_within(binding, each)]
    widest = outer[-1] if outer else found.loop
    early = [
        each for each in others if module.before(each, found.loop) or module.is_within(each, widest)
    ]
    return found if all(_looks(module, each) for each in early) else None


def _place_of_sum(module: Module, step: Step, steps: Sequence[Step]) -> Place | None:
    """Return the loop after which the steps of a sum may run, where one branch at the most looks at
    it, or starts it anew, now and then."""
    grows = step.line.body[0]
    found = sum_of_loop(module, grows) if isinstance(grows, cst.AugAssign) else None
    if found is None or found.loop.orelse is not None or endless(module, found.loop):
        return None
    own = [each.line for each in steps if each.root.value == found.name]
    uses = [*found.reads, *writes_of(module, found.loop, found.name)]
    others = [each for each in uses if not any(module.is_within(each, line) for line in own)]
    shown = {_shown(module, each, found.loop) for each in others}
    if (
        None in shown
        or len(shown) > 1
        or any(_is_within_shown(module, each, step) for each in shown)
    ):
        return None
    return None if heat_of(module, found.loop).hot else Place(found.loop, next(iter(shown), None))


def _seen_by(module: Module, use: cst.Name, loop: cst.For | cst.While) -> list[cst.Name]:
    """Return a use of an object; in the place of one that hands it to what only writes it out, the
    uses of that."""
    shown = display_of(module, use)
    if not shown or shared(module, loop, shown[0].value):
        return [use]
    return shown


def _is_within_shown(module: Module, shown: cst.If | LogLines | None, step: Step) -> bool:
    lines = shown.lines if isinstance(shown, LogLines) else [shown] if shown is not None else ()
    return any(module.is_within(step.line, each) for each in lines)


def _shown(module: Module, use: cst.CSTNode, loop: cst.CSTNode) -> cst.If | LogLines | None:
    """Return the widest ``if`` of a loop's iteration whose body runs now and then, and holds a use;
    else the lines that log it in each iteration."""
    found, child = None, use
    for above in module.ancestors(use):
        if above is loop:
            break
        if isinstance(above, cst.If) and child is above.body:
            line, iterations = above.body.body[0], module.loops(above)
            if isinstance(above.body, cst.IndentedBlock) and throttled(module, line, iterations[0]):
                found = above
        child = above
    match module.small_statement(use):
        case cst.Expr(cst.Call() as call) if found is None:
            return log_lines(module, call)
    return found


def _looks(module: Module, use: cst.CSTNode) -> bool:
    """Say whether a use of an object gives neither it nor a part of it a second name: a text or a
    number made of it, or a line that binds nothing."""
    above = module.parent(use)
    call = module.parent(above) if isinstance(above, (cst.Arg, cst.Attribute)) else None
    match above:
        case cst.Attribute():
            # What an attribute or a method gives may lead to the object.
            return isinstance(module.small_statement(use), (cst.Expr, cst.Return))
        case cst.FormattedStringExpression() | cst.Return():
            return True
        case cst.Subscript():
            # What it holds at a place grows, ``sums["train"] += x``.
            growth = module.small_statement(use)
            return isinstance(growth, cst.AugAssign) and growth.target is above
        case cst.Arg() if isinstance(call, cst.Call):
            name = module.name(call.func) or ""
            text = isinstance(call.func, cst.Attribute) and call.func.attr.value == "format"
            return text or name in _LOOKERS or name in _REDUCERS
    return False
