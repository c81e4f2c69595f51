"""Waits for the device that stay in a step whatever becomes of one of its reads: then to put that
one off saves next to nothing."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Set

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.calls import keyword_argument
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    LOOPS,
    argument_for,
    keyword_of,
    method_called,
    root_of,
)
from torchlint.semantic.device.host_reads import copies_around, host_copy, scalar_reads
from torchlint.semantic.device.possible_waits import (
    ALL_WORK,
    SCALED,
    STOPS,
    WAITING,
    possible_waits,
    scaler_waits,
)
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.device.uploads import host_data, upload_of
from torchlint.semantic.device.value_sized import gathers, scatters
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import argument_reads
from torchlint.semantic.question import question
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import is_structural, iteration_count
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.time.runs import runs_model
from torchlint.semantic.time.step_overhead import backward_reads
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.dominance import (
    either_runs_whenever,
    in_each_iteration,
    is_optional,
    runs_as_often,
    runs_whenever,
)
from torchlint.semantic.uses.host_needs import decides, needed_at_once, reads_inside, sizes
from torchlint.semantic.uses.iteration_places import (
    _Place,
    asked_first,
    back_propagates_or_steps,
    iteration_steps,
    nearest,
    starts_work,
)
from torchlint.semantic.uses.network_waits import network_wait
from torchlint.semantic.values.definitions_behind import reached
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU, OF_NETWORKS

_COPIES = frozenset(("cpu", "numpy", "tolist"))
_READS = _COPIES | {"item"}
_NUMBERS = frozenset(("builtins.float", "builtins.int", "builtins.bool"))
_CALLS = 3
"""Functions in functions that are looked into."""
_ITERATIONS, _OPERATIONS = 8, 3
"""From how many iterations, and operations in each, a loop keeps the host busy launching
kernels."""
_GENERATION = regex(r"max_(new_tokens|length)|num_beams|do_sample|generation_config|attention_mask")
_LIBRARIES = ("builtins.", "torch.")
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


@question(
    yes="`{answer}` launches one kernel after the other behind it",
    no="no loop behind it launches one kernel after the other",
)
def before_many_runs(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the loop behind a place that comes before it, once, and always goes on to it: one that
    runs a model in each iteration, where nothing is trained, as decoding does, or one that computes
    with tensors of the device step by step; or the call behind it of a function that has such a
    loop. The host is never ahead of the device there."""
    function = module.function(node)
    heat = heat_of(module, node)
    iteration = module.loop(node)
    if (
        iteration is not None
        and heat.grade is Grade.EVAL
        and loop_kind(module, iteration) is LoopKind.OTHER
    ):
        calls = (each for each in module.within(iteration, cst.Call) if module.before(node, each))
        return next(
            (
                e
                for e in calls
                if runs_whenever(module, e, node) and _runs_often(module, e, waits=False)
            ),
            None,
        )
    if function is None or module.loops(node) or not heat.hot:
        return None
    return next(
        (
            loop
            for loop in module.within(function.body, cst.For, cst.While)
            if isinstance(loop, LOOPS)
            and module.before(node, loop)
            and runs_whenever(module, loop, node)
            and not any(
                module.before(node, end) and module.before(end, loop)
                for end in module.within(function.body, cst.Return)
            )
            and loop_kind(module, loop) is LoopKind.OTHER
            and (
                runs_model(module, loop)
                if heat.grade is Grade.EVAL
                else _launches_often(module, loop)
            )
        ),
        None,
    )


@question(
    yes="its iteration runs a network many times, in `{answer}`",
    no="its iteration is not known to run a network many times",
)
def beside_many_waits(
    module: Module, node: cst.CSTNode, *, waits: bool = True
) -> cst.CSTNode | None:
    """Return what generates text in an iteration that comes to a place, or the loop beside it, of
    its own or of a function that it calls, each iteration of which runs a model and, if `waits`,
    waits for the device."""
    iteration = module.loop(node) or module.function(node)
    return next(
        (
            each
            for each in (module.within(iteration, cst.Call, *LOOPS) if iteration else ())
            if each is not iteration
            and _runs_often(module, each, waits)
            and not module.is_within(node, each)
            and not module.is_within(each, node)
            and runs_whenever(module, each, node)
        ),
        None,
    )


@question(circular=False)
def _runs_often(module: Module, node: cst.CSTNode, waits: bool) -> bool:
    if isinstance(node, cst.Call):
        return _generates(module, node) or any(
            isinstance(each, LOOPS) or _generates(where, each)
            for where, function in (reached(module, node) if _is_own(module, node) else ())
            for each in where.within(function.body, cst.Call, *LOOPS)
            if not is_optional(where, each, function)
            and (isinstance(each, cst.Call) or _runs_often(where, each, waits))
        )
    runs = runs_model(module, node) or loop_kind(module, node) is not LoopKind.OTHER
    return runs and (not waits or bool(_known_waits(module, node)))


def _is_own(module: Module, call: cst.Call) -> bool:
    """Say whether a call may run a function of the project: none of a library, nor a tensor's
    method."""
    held = call.func.value if isinstance(call.func, cst.Attribute) else None
    return not (
        (module.name(call.func) or "").startswith(_LIBRARIES)
        or (held is not None and inferred(module, held).tensor)
    )


def _generates(module: Module, call: cst.CSTNode) -> bool:
    """Say whether a call generates text, token by token."""
    match call:
        case cst.Call(cst.Attribute(model, cst.Name("generate")), args):
            asks = any(_GENERATION.match(keyword_of(arg)) for arg in args)
            return asks or inferred(module, model).kind == "module"
    return False


def _launches_often(module: Module, loop: cst.For | cst.While) -> bool:
    """Say whether a loop of more than a few iterations, which are no parts of a network, computes
    several tensors of the device in each."""
    count = iteration_count(module, loop)
    if (count is not None and count < _ITERATIONS) or is_structural(module, loop):
        return False
    made = module.within(loop.body, cst.Call, cst.BinaryOperation)
    found = (e for e in made if isinstance(e, cst.BaseExpression) and on_device(module, e) is True)
    return sum(1 for _ in itertools.islice(found, _OPERATIONS)) == _OPERATIONS


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
    name, loops = _name_behind(tensor), module.loops(tensor)
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
        each for each in module.within(iteration, cst.Call) if _stays_inside(module, each, left)
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


@question(
    yes="`{0}` reads what may be on the device",
    no="`{0}` reads nothing of which it is unknown where it is",
)
def may_read(module: Module, call: cst.CSTNode, *, anywhere: bool = False) -> bool:
    """Say whether ``x.item()`` or ``x.cpu()`` reads what may be a tensor of the device, as nothing
    says where it is, or a function that a call runs copies such a one, where it runs a network for
    what it returns. What waits `anywhere` in the step are also steps of gradient scalers that may.
    The part of a batch that nobody moves is on the host."""
    match call:
        case cst.Call(cst.Attribute(read, cst.Name("item")), []):
            value = inferred(module, read)
            known = value.device is not None or value.origin == "batch"
            asked = known or any(scalar_reads(module, call))
            return value.kind in ("?", "tensor") and not asked
        case cst.Call(cst.Attribute(read, cst.Name("cpu")), []):
            return host_copy(module, call) is None and _may_be_on_device(module, read)
        case cst.Call():
            scales = anywhere and _may_scale(module, call)
            return scales or bool(_copies_inside(module, call, anywhere))
    return False


def _may_scale(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a step of a gradient scaler that is made elsewhere: few are made to do
    nothing."""
    match call.func:
        case cst.Attribute(scaler) if scaler_waits(module, call) is None:
            return not isinstance(inferred(module, scaler).node, cst.Call)
    return False


@question(circular=())
def _copies_inside(
    module: Module, call: cst.Call, anywhere: bool, calls: int = _CALLS
) -> list[cst.Call]:
    """Return what copies a value of which nobody says that it lies on the host there in the only
    function that a call may reach, or in one that it calls: who writes ``.cpu()`` expects it on the
    device. `anywhere` adds the steps of gradient scalers that may wait."""
    reached = _function_reached(module, call)
    if reached is None:
        return []
    where, function = reached
    bound = where.bind(function, call)
    works = not anywhere and starts_work(module, call)
    found: list[cst.Call] = []
    for each in where.within(function.body, cst.Call):
        match each:
            case cst.Call(cst.Attribute(tensor, cst.Name("cpu")), []):
                name = _name_behind(tensor)
                given = bound.get(name.value) if name is not None else None
                places = [(where, tensor), *([(module, given)] if given is not None else [])]
                copies = all(_may_be_on_device(home, value) for home, value in places)
            case _:
                copies = (anywhere and _may_scale(where, each)) or (
                    calls > 1 and bool(_copies_inside(where, each, anywhere, calls - 1))
                )
        returned = isinstance(where.small_statement(each), cst.Return)
        if copies and not is_optional(where, each, function) and (returned or not works):
            found.append(each)
    return found


def _may_be_on_device(module: Module, tensor: cst.BaseExpression) -> bool:
    value = inferred(module, tensor)
    return value.kind in ("?", "tensor") and value.device != CPU and value.origin != "batch"


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
        if _stays_inside(module, call, left, True)
        or network_wait(module, call) is not None
        or (likely and may_read(module, call, anywhere=True))
    )
    every = dict.fromkeys((*calls, *_known_waits(module, iteration), *(left or ())))
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
    ]
    return [
        place
        for place in places
        if not any(module.is_within(place, other) for other in places if other is not place)
    ]


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
            for wait in _known_waits(module, callee)
        )
    ]


@question(circular=())
def _known_waits(module: Module, iteration: cst.CSTNode) -> list[cst.BaseExpression]:
    """Return the expressions in an iteration for which the host waits: copies to the device may
    overlap, and are none."""
    passes = [
        call
        for call in module.within(iteration, cst.Call)
        if method_called(call) == "backward" and backward_reads(module) is not None
    ]
    return passes + [
        wait.node
        for node in module.within(iteration, *WAITING)
        for wait in possible_waits(module, node)
        if (wait.why in (ALL_WORK, SCALED) and wait.tensor is None)
        or (
            wait.why in STOPS
            and wait.tensor is not None
            and (
                on_device(module, wait.tensor) is True
                or (isinstance(node, cst.Call) and host_copy(module, node) is not None)
            )
        )
    ]


def _stays_inside(
    module: Module,
    call: cst.Call,
    left: Collection[cst.CSTNode] | None,
    anywhere: bool = False,
) -> bool:
    """Say whether the only function that a call may reach waits: at one of the places `left`, or as
    `_reads_inside` says. One that runs a network waits behind it only where it returns what it
    reads, which does not matter to what waits `anywhere` in the step."""
    reached = _function_reached(module, call)
    if reached is None:
        return False
    where, function = reached
    places: Iterable[cst.CSTNode] = _reads_inside(module, call, frozenset(), left is None)
    if where is module and left:
        places = itertools.chain(places, _leading_to(module, function, left))
    works = not anywhere and starts_work(module, call)
    return any(not works or isinstance(where.small_statement(e), cst.Return) for e in places)


def _leading_to(
    module: Module, function: cst.FunctionDef, left: Collection[cst.CSTNode]
) -> Iterator[cst.CSTNode]:
    """Yield those of some places that each run of a function comes to, and its calls of functions
    of the file that come to one."""
    certain = [each for each in left if not is_optional(module, each, module.function(each))]
    homes = {module.function(each) for each in certain}
    yield from (each for each in certain if module.function(each) is function)
    for call in module.within(function.body, cst.Call) if homes else ():
        if not is_optional(module, call, function) and not homes.isdisjoint(
            _functions_run(module, call)
        ):
            yield call


@question(circular=frozenset())
def _functions_run(module: Module, call: cst.Call) -> frozenset[cst.CSTNode]:
    """Return the functions of the file that a call comes to whatever is asked on the way."""
    callees = callees_of(module, call)
    if len(callees) != 1 or not isinstance(callees[0], cst.FunctionDef):
        return frozenset()
    calls = module.within(callees[0].body, cst.Call)
    inner = (_functions_run(module, e) for e in calls if not is_optional(module, e, callees[0]))
    return frozenset(callees).union(*inner)


@question(circular=())
def _reads_inside(
    module: Module, call: cst.Call, given: frozenset[str], own: bool, calls: int = _CALLS
) -> list[cst.Call]:
    """Return what waits in the only function that a call may reach: the steps of a gradient scaler,
    in another file, or with `own` in this one, what brings something of the device to the host that
    it is given, and calls of functions that wait so themselves. `given` are the parameters of the
    function around the call that are known to be on the device."""
    reached = _function_reached(module, call)
    if reached is None:
        return []
    where, function = reached
    bound = where.bind(function, call)
    there = frozenset(name for name, value in bound.items() if _is_there(module, value, given))
    asked = {} if function.name.value == "forward" else bound
    own = own or where is not module
    return [
        each
        for each in where.within(function.body, cst.Call)
        if not is_optional(where, each, function)
        and (
            scaler_waits(where, each)
            or (
                own
                and there
                and (read := _read_by(where, each)) is not None
                and _may_be_there(where, read, asked, there)
            )
            or (calls > 1 and _reads_inside(where, each, there, own, calls - 1))
        )
    ]


@question()
def _function_reached(module: Module, call: cst.Call) -> tuple[Module, cst.FunctionDef] | None:
    """Return the only function of the project that a call may reach."""
    match reached(module, call):
        case [(where, cst.FunctionDef() as function)]:
            return where, function
    return None


def _is_there(module: Module, value: cst.BaseExpression, given: Set[str]) -> bool:
    """Say whether an argument is known to be on the device, by itself or as a parameter is."""
    name = _name_behind(value)
    return (name is not None and name.value in given) or on_device(module, value) is True


def _read_by(module: Module, call: cst.Call) -> cst.BaseExpression | None:
    """Return the tensor, if it is one, that a call reads on the host: ``x.item()``,
    ``float(x)``."""
    match call:
        case cst.Call(cst.Attribute(read, cst.Name(name))) if name in _READS:
            return read
        case cst.Call(func, [cst.Arg(read)]) if module.name(func) in _NUMBERS:
            return read
    return None


def _may_be_there(
    where: Module, read: cst.BaseExpression, bound: Collection[str], there: Set[str]
) -> bool:
    """Say whether something may be a tensor on the device: of what a function of another file is
    given it is only what is known to be `there`."""
    root = root_of(read)
    if isinstance(root, cst.Name) and root.value in bound:
        return root.value in there
    value = inferred(where, read)
    return value.kind in ("?", "tensor", "batch") and value.device != CPU


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


def scales(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a step of a GradScaler that may wait."""
    return method_called(call) == "step" and scaler_waits(module, call) is not False


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
    name, loop = _name_behind(tensor), module.loop(tensor)
    if name is None or loop is None:
        return None
    made, own = definitions_of(module, name), module.small_statement(tensor)
    for call in module.within(loop.body, cst.Call):
        if module.loop(call) is not loop or module.small_statement(call) is own:
            continue
        others = (_name_behind(each) for each in _copied_by(module, call))
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
        if each.how in _COPIES and given is not None:
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


def _name_behind(tensor: cst.BaseExpression) -> cst.Name | None:
    """Return the name of which a tensor is the value itself: ``loss``, ``loss.detach()``."""
    while True:
        match tensor:
            case cst.Name():
                return tensor
            case cst.Call(cst.Attribute(inner, cst.Name(method)), []) if method in ops.SAME_VALUES:
                tensor = inner
            case cst.Attribute(inner, cst.Name("data")):
                tensor = inner
            case _:
                return None


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
    yes="`{answer}` waits for the device as well, whatever becomes of this",
    no="nothing else in the function is known to wait for the device whatever becomes of this",
)
def wait_that_stays(
    module: Module, node: cst.CSTNode, *, beside: bool = False
) -> cst.CSTNode | None:
    """Return another place of the same function that waits for the device at least as often, as
    only values there say how many elements it takes, or as it copies what only the host has:
    itself, or in a function of the file that it calls. To mend `node` alone then does not let the
    host run ahead. With `beside` it is one of the former, with no run of a model, backward pass or
    step between the two."""
    places = _as_often_as(module, node, beside=beside)
    if beside:
        return nearest(module, node, places, module.loop(node) or module.function(node))
    return next(places, None)


@question(
    yes="the statement beside it copies what only the host has, `{answer}`, and waits as well",
    no="no statement beside it is known to copy to the device what only the host has",
)
def copied_up_beside(module: Module, node: cst.CSTNode) -> cst.CSTNode | None:
    """Return the copy to the device of what only the host has in the statement before that of
    `node`, or behind it: the host waits there for all work that is queued."""
    line = module.statement(node)
    home = module.parent(line)
    lines = home.body if isinstance(home, cst.IndentedBlock) else ()
    at = next((i for i, each in enumerate(lines) if each is line), 0)
    return next(
        (
            call
            for beside in lines[max(at - 1, 0) : at + 2]
            if beside is not line
            for call in module.within(beside, cst.Call)
            if copies_up(module, call) and not is_optional(module, call, home)
        ),
        None,
    )


@question(
    yes="`{0}` copies to the device what only the host has, and waits for it",
    no="`{0}` is not known to copy to the device what only the host has",
)
def copies_up(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether a call copies lists or arrays of the host to the device, which are no constants
    and could not be made there; the host waits until all work before is done."""
    if not isinstance(node, cst.Call) or keyword_argument(module, node, "non_blocking") is not None:
        return False
    upload = upload_of(module, node)
    return upload is not None and host_data(module, upload.data) is None


@question(
    yes="the same iteration has just copied `{answer}` to the device, and waited for that",
    no="nothing is known to be copied to the device just before it",
)
def waits_to_copy_up(module: Module, node: cst.CSTNode) -> cst.Call | None:
    """Return the copy of a tensor of the host to the device, which waits for all work that is
    queued, in the same iteration before `node`, with no run of a model, backward pass or step
    between the two: a small copy behind it waits for nothing more. The copy of a batch need not
    wait, and what a factory makes need not be copied: neither is one."""
    iteration = module.loop(node)
    if iteration is None:
        return None
    copies = (
        call
        for call in module.within(iteration, cst.Call)
        if module.before(call, node)
        and (transfer := transfer_of(module, call)) is not None
        and "non_blocking" not in transfer.given
        and _comes_from_host(module, transfer.source)
        and runs_whenever(module, call, node)
    )
    return nearest(module, node, copies, iteration)


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


def _comes_from_host(module: Module, tensor: cst.BaseExpression) -> bool:
    value = inferred(module, tensor)
    own = value.kind in ("?", "tensor") and value.origin not in {*OF_NETWORKS, "batch", "factory"}
    return own and value.device in (None, CPU)


def _stays_put(module: Module, other: cst.BaseExpression, *, beside: bool) -> bool:
    """Say whether a place waits because only values on the device say how many elements it takes,
    or, unless `beside`, as it copies what only the host has."""
    return (
        gathers(module, other)
        or (isinstance(other, cst.Subscript) and scatters(module, other))
        or (not beside and (copies_up(module, other) or _waits_inside(module, other)))
    )


@question(circular=())
def _staying(module: Module, function: cst.FunctionDef, beside: bool) -> list[cst.BaseExpression]:
    """Return the places of a function that wait whatever becomes of others, see `_stays_put`."""
    places: Iterator[cst.BaseExpression] = module.within(function.body, cst.Subscript, cst.Call)
    return [place for place in places if _stays_put(module, place, beside=beside)]


def _as_often_as(
    module: Module, node: cst.CSTNode, *, beside: bool
) -> Iterator[cst.BaseExpression]:
    """Yield the places of the same function that wait whatever becomes of others and run at least
    as often as `node`: outside of its statement, but for ``x[mask] if mask.any() else x``, and the
    calls that give its operands."""
    function, above = module.function(node), module.parent(node)
    chooses = isinstance(above, cst.IfExp) and above.test is node
    own = node if chooses else module.small_statement(node)
    if function is None:
        return
    for other in _staying(module, function, beside):
        apart = own is None or not module.is_within(other, own)
        if (
            (apart or (module.is_within(other, node) and _waits_inside(module, other)))
            and not module.is_within(node, other)
            and runs_as_often(module, other, node, function)
        ):
            yield other


@question(
    yes="a function of the file that `{0}` calls waits for the device whatever becomes of this",
    no="`{0}` calls no function of the file that is known to wait for the device",
)
def _waits_inside(module: Module, node: cst.CSTNode) -> bool:
    callees = callees_of(module, node) if isinstance(node, cst.Call) else ()
    return len(callees) == 1 and any(
        gathers(module, each) or copies_up(module, each)
        for each in module.within(callees[0].body, cst.Subscript, cst.Call)
        if not is_optional(module, each, callees[0])
    )


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
