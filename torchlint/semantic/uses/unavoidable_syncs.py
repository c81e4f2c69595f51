"""Waits for the device that stay in an iteration whatever becomes of one of its reads: then to put
that one off saves next to nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    argument_for,
    last_small,
    method_called,
)
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.device.host_reads import copies_around, host_copy, scalar_reads
from torchlint.semantic.device.value_sized import gathers
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import argument_reads
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dominance import (
    either_runs_whenever,
    in_each_iteration,
    is_optional,
    runs_whenever,
)
from torchlint.semantic.uses.host_needs import decides, needed_at_once, reads_inside, sizes
from torchlint.semantic.uses.iteration_places import (
    _Place,
    asked_first,
    back_propagates_or_steps,
    iteration_steps,
    nearest,
)
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.uses.waits_inside import (
    COPIES,
    known_waits,
    may_read,
    name_behind,
    scales,
    stays_inside,
)
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device

_KINDS = (cst.Name, cst.Attribute, cst.Subscript, cst.Comparison, cst.Call)


@question(
    yes="each iteration of the loop waits for the device in `{answer}` as well",
    no="nothing else in the iteration of the loop is known to wait for the device",
)
def iteration_waits(module: Module, node: cst.CSTNode) -> tuple[cst.BaseExpression, ...]:
    """Return the other reads of the device, and copies to the host, that each iteration of the
    innermost loop around `node` makes and that the host needs in that very iteration."""
    loop = module.loop(node)
    own = module.small_statement(node) or node
    every = _waiting(module, loop) if loop is not None else ()
    return tuple(place for place in every if not module.is_within(place, own))


@question(circular=())
def _waiting(module: Module, loop: cst.For | cst.While) -> list[cst.BaseExpression]:
    """Return what each iteration of a loop waits for, see `iteration_waits`."""
    return [place for place in iteration_steps(module, loop) if _waits(module, place)]


@question(
    yes="the step has to wait for `{answer}` right beside it",
    no="nothing right beside it makes the step wait whatever becomes of this",
)
def stays_beside(module: Module, node: cst.CSTNode) -> cst.BaseExpression | None:
    """Return a read of the device that the host needs in the same iteration of the loop, with no
    run of a model, backward pass or step between it and `node`: then `node` waits for next to
    nothing."""
    return nearest(module, node, iteration_waits(module, node))


def _waits(module: Module, place: cst.BaseExpression) -> bool:
    asks = isinstance(module.parent(place), (cst.If, cst.BooleanOperation, cst.UnaryOperation))
    if asks and _is_asked_there(module, place):
        return True
    if not isinstance(place, cst.Call):
        return False
    if any(read.how not in ("format", "print") for read in scalar_reads(module, place)):
        return decides(module, place) or sizes(module, place)
    return host_copy(module, place) is not None and needed_at_once(module, place)


@question(
    yes="the same iteration of the loop has just waited for `{answer}`",
    no="the iteration of the loop is not known to have waited for the device before it",
)
def waited_before(module: Module, tensor: cst.BaseExpression) -> cst.Call | None:
    """Return the copy for other code than torch's that an iteration of the loop has waited for
    behind the making of a tensor, without work for the device since: to read the tensor then waits
    for nothing more. None where no such copy is known."""
    name, loops = name_behind(tensor), module.loops(tensor)
    if name is None or not loops or not isinstance(loops[0], cst.For):
        return None
    loop = loops[0]
    made = definitions_of(module, name)
    if not made or not all(
        isinstance(each, cst.Assign) and module.is_within(each, loop.body) for each in made
    ):
        return None
    calls = [
        call
        for call in module.within(loop.body, cst.Call)
        if all(module.before(each, call) for each in made) and module.before(call, tensor)
    ]
    copies = [
        call
        for call in calls
        if module.loop(call) is loop
        and in_each_iteration(module, call, loop)
        and goes_on_elsewhere(module, call)
    ]
    since = [call for call in calls if copies and module.before(copies[-1], call)]
    return copies[-1] if copies and not any(_gives_work(module, call) for call in since) else None


@question(
    yes="`{answer}` waits for the same work",
    no="nothing else is known to wait for the same work",
)
def waits_for_the_same(
    module: Module, node: cst.CSTNode, *, copies: bool = False
) -> cst.CSTNode | None:
    """Return another read of a number of the same iteration of a loop, or of the same run of a
    function, with `copies` also a copy of a tensor, with no run of a model, backward pass or step
    between the two: the one before `node`, or behind it where `node` has a condition of its own. Of
    several that wait for the same work one is left, for which there is none."""
    iteration = module.loop(node) or module.function(node)
    if iteration is None:
        return None
    places = (
        place
        for place in _readers(module, iteration, copies)
        if not module.is_within(node, place)
        and not module.is_within(place, node)
        and runs_whenever(module, place, node)
        and (module.before(place, node) or not runs_whenever(module, node, place))
    )
    found = nearest(module, node, places, iteration)
    if isinstance(found, cst.If):  # One of the reads in its branches stands for both.
        reads = module.within(found.body, cst.Call)
        return next((each for each in reads if _reads_number(module, each)), found)
    return found


def wait_beside(
    module: Module,
    node: cst.CSTNode,
    left: Collection[cst.CSTNode],
    fixed: Collection[cst.CSTNode] = (),
) -> cst.CSTNode | None:
    """Return what each iteration that comes to `node` waits for as well, with no run of a model,
    backward pass or step between the two: one of the places `left`, a call of a function in which
    one of them certainly lies, or of one in another file that reads what it is given; of several
    such calls one that stands anywhere in the iteration. What a mask selects waits too, in the
    statement of `node` as well, but for what is `fixed`."""
    iteration = module.loop(node) or module.function(node)
    if iteration is None:
        return None
    own = module.small_statement(node) or node
    sized = [
        each
        for each in _sized(module, iteration)
        if not any(module.is_within(place, each) for place in (node, *fixed))
    ]
    selected = next((each for each in sized if module.is_within(each, own)), None)
    if selected is not None:
        return selected

    def beside(places: Collection[_Place]) -> Iterator[_Place]:
        for place in places:
            if (
                (module.loop(place) or module.function(place)) is iteration
                and not module.is_within(place, own)
                and not module.is_within(node, place)
                and not (isinstance(own, cst.Return) and module.before(own, place))
                and (
                    runs_whenever(module, place, node)
                    or either_runs_whenever(module, place, places, node)
                )
            ):
                yield place

    calls = [
        each for each in module.within(iteration, cst.Call) if stays_inside(module, each, left)
    ]
    inside = list(beside(calls))
    unknown = [
        each
        for each in module.within(iteration, cst.Call)
        if may_read(module, each) and each not in fixed
    ]
    places = [*beside(left), *inside, *beside(sized), *beside(unknown)]
    near = nearest(module, node, places, iteration)
    return inside[0] if near is None and len(inside) > 1 else near


@question()
def _sized(module: Module, iteration: cst.CSTNode) -> list[cst.CSTNode]:
    """Return what waits in an iteration for the number of elements that a mask selects, or the
    like."""
    nodes = module.within(iteration, cst.Call, cst.Subscript)
    return [
        each for each in nodes if isinstance(each, cst.BaseExpression) and gathers(module, each)
    ]


@question(remember=False)
def waits_besides(
    module: Module, node: cst.CSTNode, left: Collection[cst.CSTNode] | None, *, likely: bool = False
) -> list[cst.BaseExpression]:
    """Return what makes the host wait in each iteration that comes to `node`, other than its own
    statement: calls of functions that wait themselves, and of networks that wait in each run, what
    is known to wait, with `likely` also what may read the device, and those of the places `left`
    that stand in the iteration; where there are none, what the functions of the file read."""
    iteration = module.loop(node) or module.function(node)
    if iteration is None:
        return []
    own = module.small_statement(node) or node
    calls = (
        call
        for call in module.within(iteration, cst.Call)
        if stays_inside(module, call, left, True)
        or network_wait(module, call) is not None
        or (likely and may_read(module, call, anywhere=True))
    )
    every = dict.fromkeys((*calls, *known_waits(module, iteration), *(left or ())))
    places = [
        place
        for place in every
        if module.is_within(place, iteration)
        and isinstance(place, cst.BaseExpression)
        and not module.is_within(place, own)
        and not module.is_within(node, place)
        and (
            runs_whenever(module, place, node, inner=True)
            or either_runs_whenever(module, place, every, node)
        )
        and not _returned_before(module, place, node, iteration)
        and not unreached(module, place)
    ]
    return [
        place
        for place in places
        if not any(module.is_within(place, other) for other in places if other is not place)
    ]


def _returned_before(
    module: Module, place: cst.CSTNode, node: cst.CSTNode, iteration: cst.CSTNode
) -> bool:
    """Say whether a place runs only where the test that `node` is a part of is false, as the
    function returns where it is true: ``if torch.equal(key, self.key): return self.kept``."""
    return any(
        not needed
        and module.is_within(node, test)
        and isinstance(holder := module.parent(test), cst.If)
        and isinstance(last_small(holder.body), cst.Return)
        for test, needed in conditions_around(module, place, iteration)
    )


def waits_of_caller(
    module: Module, node: cst.CSTNode, left: Collection[cst.CSTNode]
) -> list[cst.BaseExpression]:
    """Return what makes the host wait as well in each iteration of the only caller in the file of
    the function around `node`, which is in no loop of its own: as `waits_besides`, and the calls of
    functions that are known to wait."""
    function = module.function(node)
    sites = call_sites(module, function) if function is not None and not module.loop(node) else []
    iteration = (module.loop(sites[0]) or module.function(sites[0])) if len(sites) == 1 else None
    if iteration is None or iteration is function:
        return []
    calls = module.within(iteration, cst.Call)
    return waits_besides(module, sites[0], left) + [
        call
        for call in calls
        if not module.is_within(sites[0], call)
        and runs_whenever(module, call, sites[0], inner=True)
        and any(
            not is_optional(module, wait, callee)
            for callee in callees_of(module, call)
            for wait in known_waits(module, callee)
        )
    ]


@question()
def _readers(module: Module, iteration: cst.CSTNode, copies: bool) -> list[cst.CSTNode]:
    found: list[cst.CSTNode] = []
    for place in module.within(iteration, cst.Call, cst.If):
        test = asked_first(place.test) if isinstance(place, cst.If) else None
        if test is not None and _is_asked_there(module, test):
            found.append(test)
        elif isinstance(place, (cst.Call, cst.If)) and (
            _reads(module, place) or (copies and _copies(module, place))
        ):
            found.append(place)
    return found


def _is_asked_there(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether Python asks the device for the truth of a test."""
    value = inferred(module, test)
    return value.tensor and not value.loose and on_device(module, test) is True


def _copies(module: Module, place: cst.CSTNode) -> bool:
    copy = host_copy(module, place) if isinstance(place, cst.Call) else None
    return copy is not None and on_device(module, copy.tensor) is True


def _reads(module: Module, place: cst.Call | cst.If) -> bool:
    """Say whether a call reads a number of the device, or an ``if`` does whichever way it goes."""
    if isinstance(place, cst.Call):
        return _reads_number(module, place) or scales(module, place)
    other = place.orelse
    arms = (place.body, other.body if isinstance(other, cst.Else) else other)
    return all(
        arm is not None
        and any(
            runs_whenever(module, each, arm) and _reads_number(module, each)
            for each in module.within(arm, cst.Call)
        )
        for arm in arms
    )


def _reads_number(module: Module, call: cst.Call) -> bool:
    copy = host_copy(module, call)
    return (copy is not None and inferred(module, copy.tensor).rank == 0) or any(
        read.how not in ("format", "print") for read in scalar_reads(module, call)
    )


@question(
    yes="`{answer}` copies the same tensor to the host in the same iteration",
    no="nothing else in the iteration is known to copy the same tensor to the host",
)
def copied_as_well(module: Module, tensor: cst.BaseExpression) -> cst.Call | None:
    """Return another call in the same iteration of the loop that copies a tensor to the host, for
    other code than torch's: itself, or in a function that is handed the tensor."""
    name, loop = name_behind(tensor), module.loop(tensor)
    if name is None or loop is None:
        return None
    made, own = definitions_of(module, name), module.small_statement(tensor)
    for call in module.within(loop.body, cst.Call):
        if module.loop(call) is not loop or module.small_statement(call) is own:
            continue
        others = (name_behind(each) for each in _copied_by(module, call))
        same = any(
            other is not None
            and other.value == name.value
            and definitions_of(module, other) == made
            for other in others
        )
        if same and in_each_iteration(module, call, loop):
            return call
    return None


def _copied_by(module: Module, call: cst.Call) -> Iterator[cst.BaseExpression]:
    """Yield the tensors that a call copies to the host for other code than torch's."""
    copy, line = host_copy(module, call), module.small_statement(call)
    collected = isinstance(line, cst.Expr) and method_called(line.value) in ("append", "extend")
    if copy is not None and not collected and goes_on_elsewhere(module, call):
        yield copy.tensor
    for each in argument_reads(module, module.called(call)):
        given = argument_for(call, each.position, each.name)
        if each.how in COPIES and given is not None:
            yield given
    for arg in call.args:
        if any(
            host_copy(module, inner) is not None and goes_on_elsewhere(module, inner)
            for where, read in reads_inside(module, arg, call)
            if where is module and isinstance(inner := _copy_of(module, read), cst.Call)
        ):
            yield arg.value


def _copy_of(module: Module, read: cst.Name) -> cst.CSTNode:
    """Return the outermost of the calls without arguments that a name's methods are,
    ``x.detach().cpu()``, or that in it which copies."""
    copies = copies_around(module, read, cst.Attribute, cst.Call)
    return next(copies, module.chain_around(read))


def goes_on_elsewhere(module: Module, call: cst.Call) -> bool:
    """Say whether a call copies a tensor to the host for other code than torch's: as an array or a
    list."""
    whole = inferred(module, module.chain_around(call))
    return host_copy(module, call) is not None and whole.kind in ("ndarray", "list")


def _gives_work(module: Module, call: cst.Call) -> bool:
    method = method_called(call)
    if back_propagates_or_steps(call):
        return True
    return (
        method not in ops.SAME_VALUES
        and on_device(module, call) is not False
        and (inferred(module, call).tensor)
    )


@question(
    yes="the same iteration has waited for `{answer}` just before it",
    no="none of these places makes the iteration wait just before it",
)
def waits_before(
    module: Module, node: cst.CSTNode, places: tuple[cst.CSTNode, ...]
) -> cst.CSTNode | None:
    """Return the first of some places of an iteration that wait which each run that comes to `node`
    has come to before it, with no run of a model, backward pass or step between the two."""
    before = (p for p in places if module.before(p, node) and runs_whenever(module, p, node))
    return nearest(module, node, before, module.loop(node) or module.function(node))


@question(
    yes="the condition of the loop waits in each iteration",
    no="no condition waits in each iteration",
)
def condition_waits(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a ``while`` asks a tensor on the device, in each iteration, whether to go on."""
    if not isinstance(loop, cst.While):
        return False
    parts = [loop.test, *module.within(loop.test, *_KINDS)]
    return any(on_device(module, part) is True for part in parts)
