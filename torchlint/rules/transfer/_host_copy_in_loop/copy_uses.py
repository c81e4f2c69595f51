"""What becomes of a copy on the host: who takes it, collects it, iterates or computes with it."""

from __future__ import annotations

import libcst as cst

from torchlint.rule import Module, heat_of, inferred, on_device
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.destinations import destinations
from torchlint.semantic.code.flow import call_sites
from torchlint.semantic.code.names import last_part
from torchlint.semantic.code.reaching import assigned_to, definitions_of, readers_of
from torchlint.semantic.code.tree import LOOPS, method_called, receiver
from torchlint.semantic.data.per_step_use import logging_call
from torchlint.semantic.device.host_reads import HostRead, host_copy, scalar_reads, widened_copy
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import inner_loop
from torchlint.semantic.time.loops import LoopKind, loop_kind
from torchlint.semantic.torch import libraries
from torchlint.semantic.torch.spelling import CRITERION, LOSS, called
from torchlint.semantic.uses.elements import one_dimensional
from torchlint.semantic.uses.host_needs import needed_by
from torchlint.semantic.values.definitions_behind import functions
from torchlint.semantic.values.value import CPU

_NUMBERS = ("builtins.float", "builtins.int", "builtins.bool")
_ITERATES = (cst.For, cst.CompFor)
_KEEPS = frozenset("add insert update format".split())
_KNOWN = ("module", "tensor", "ndarray", "number", "accumulated", "list")
_COMPUTES = frozenset("abs all any float int max min print round sum".split())
_PLAIN = frozenset("bool enumerate isinstance iter len list next range str tuple type zip".split())
"""Python's own functions that go over numbers, or look at them."""
JOINERS = frozenset(("torch.stack", "torch.cat"))


@question(
    yes="`{answer}` computes with the copy in the step that makes it",
    no="nothing is known to compute with the copy in the step that makes it",
)
def computing_user(module: Module, whole: cst.CSTNode) -> cst.Call | None:
    """Return the call that takes the copy in its iteration, of torch or of the project, and of
    which the result is used, and not only collected: a loss, a metric."""
    around = set(module.loops(whole))
    return next(
        (
            call
            for call in takers_of(module, whole)
            if around.issubset(module.loops(call))
            and not isinstance(module.parent(call), cst.Expr)
            and not (_appends(module, call) or module.name(call.func) in JOINERS)
            and not is_collected(module, module.chain_around(call))
            and _may_compute_anywhere(module, call)
        ),
        None,
    )


@question(remember=False)
def host_partner(module: Module, whole: cst.CSTNode) -> cst.BaseExpression | None:
    """Return the tensor of the host with which the copy is computed in its very expression, or of
    which it fills a part in the same iteration that makes it."""
    match module.parent(whole):
        case cst.Assign([cst.AssignTarget(cst.Subscript(cst.Name() as filled))]):
            made = definitions_of(module, filled)
            value = inferred(module, filled)
            fresh = all(module.loops(each) == module.loops(whole) for each in made)
            return filled if made and fresh and value.tensor and value.device == CPU else None
        case cst.BinaryOperation(left, right=right):
            other = right if left is whole else left
            value = inferred(module, other)
            return other if value.tensor and value.device == CPU and value.rank != 0 else None
    return None


def _may_compute_anywhere(module: Module, call: cst.Call) -> bool:
    """Say whether a call is of torch, or of the project, and so may be given tensors of the GPU;
    one that makes an object only keeps them."""
    name = module.called(call)
    if last_part(call.func)[:1].isupper():
        return False
    own = not name or bool(functions(module, call)) or module.outside.find(name) is not None
    return own or name.startswith("torch.") or inferred(module, call).origin == "loss"


@question(
    yes="the copy takes the place of what was copied, so that later steps have nothing to copy",
    no="what is copied stays on the device, or comes back to it in every step",
)
def moved_for_good(module: Module, whole: cst.CSTNode, tensor: cst.BaseExpression) -> bool:
    """Say whether an attribute is assigned the copy of itself, and nothing else where steps are
    made."""
    match module.parent(whole):
        case cst.Assign([cst.AssignTarget(cst.Attribute(cst.Name("self")) as target)]):
            return target.deep_equals(receiver(tensor)) and all(
                (isinstance(value, cst.Call) and host_copy(module, value) is not None)
                or not heat_of(module, value).hot
                for value in assigned_to(module, target)
            )
    return False


@question(remember=False)
def computes_in_double(module: Module, node: cst.Call) -> bool:
    """Say whether the host goes on in float64, in which a GPU is slow, with the copy or what it
    makes of it; not where it collects that."""
    cast = module.parent(module.parent(node) or node)
    wide = isinstance(cast, cst.Call) and widened_copy(module, cast) is not None
    places = (each for each in destinations(module, node) if isinstance(each, cst.Assign))
    found = (inferred(module, each.value) for each in places)
    wide = wide or any(v.dtype == "double" and v.device == CPU for v in found)
    return wide and not is_collected(module, module.chain_around(node))


@question(remember=False)
def gives_elements(module: Module, copy: HostRead) -> bool:
    """Say whether the copy gives all numbers of a tensor of one dimension at once, as the repair of
    a read for each leaves it."""
    return copy.how == "tolist" and one_dimensional(module, copy.tensor)


@question(remember=False)
def is_iterated(module: Module, whole: cst.CSTNode) -> bool:
    """Say whether a loop of the same iteration goes over the copy, also beside others (``zip``), in
    a function that takes it, or behind all calls that give it back."""
    return isinstance(module.parent(whole), _ITERATES) or any(
        needed_by(module, whole, _iterates, far=True)
    )


def _iterates(module: Module, _: cst.CSTNode, place: cst.CSTNode) -> bool:
    return isinstance(place, cst.For) and module.called(place.iter) != "builtins.range"


@question(
    yes="code takes `{0}` of which nothing is known, or for which torch has no function",
    no="no code takes `{0}` but what torch has functions for",
)
def has_no_counterpart(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the iteration that makes a copy gives it to code of which nothing is known, or
    for which torch has no function, also in a function of the project that it is handed to."""
    return any(needed_by(module, node, _works_otherwise, far=True))


def _works_otherwise(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    if not isinstance(place, cst.Call) or not isinstance(part, cst.Arg):
        return False
    name = module.called(place)
    made = isinstance(inferred(module, place).node, cst.ClassDef)
    own = made or functions(module, place) or module.outside.find(name) is not None
    return not (own or name.removeprefix("builtins.") in _PLAIN or _is_known(module, place))


def _is_known(module: Module, call: cst.Call) -> bool:
    """Say whether torch has what a call does, or it keeps or logs what it is given."""
    package, _, last = module.called(call).rpartition(".")
    if package:
        on_tensors = libraries.on_tensors(package) or package == "sklearn.metrics"
        return on_tensors or package == "numpy" or (package == "builtins" and last in _COMPUTES)
    holder = call.func.value if isinstance(call.func, cst.Attribute) else call.func
    kinds = {inferred(module, call.func).kind, inferred(module, holder).kind}
    last_name = last_part(call.func)
    tagged = holder is not call.func and isinstance(module.parent(call), cst.Expr)
    return (
        _appends(module, call)
        or method_called(call) in _KEEPS
        or logging_call(module, call) is not None
        or not kinds.isdisjoint(_KNOWN)
        or any(called(last_name, kind) for kind in (LOSS, CRITERION))
        or (tagged and any(isinstance(arg.value, cst.SimpleString) for arg in call.args))
    )


@question(
    yes="`{0}` is kept, counted or computed with, as torch could do on the device",
    no="nothing is known of what becomes of `{0}`",
)
def has_known_use(module: Module, node: cst.CSTNode) -> bool:
    """Say whether it is known what becomes of a copy in the iteration that makes it: it is kept in
    a list or a place of an array, added up, or given to a function that torch has as well."""
    return any(needed_by(module, node, _uses_it, far=True))


def _uses_it(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    match place:
        case cst.AugAssign() | cst.Assign([cst.AssignTarget(cst.Subscript())]):
            return True
        case cst.Assign(value=cst.BinaryOperation() | cst.Comparison()):
            return True
    return isinstance(place, cst.Call) and isinstance(part, cst.Arg) and _is_known(module, place)


@question(remember=False)
def once_per_run(module: Module, node: cst.Call, copy: HostRead) -> bool:
    """Say whether a model's result leaves torch once for each run of the model, in a loop that is
    hot for these runs alone: a picture, a score, tags that somebody wants on the host."""
    loop = next(
        (why.node for why in heat_of(module, node).why if isinstance(why.node, LOOPS)), None
    )
    return (
        loop is not None
        and loop_kind(module, loop) is LoopKind.OTHER
        and inner_loop(module, node) is None
        and inferred(module, copy.tensor).origin != "batch"
    )


@question(remember=False)
def leaves_torch(module: Module, whole: cst.CSTNode) -> bool:
    """Say whether other code than torch's works with the copy, an array or a list, at once: it is
    not collected, nor made one number."""
    above = module.parent(whole)
    outer = module.taker(whole)
    if isinstance(outer, cst.Call) and module.called(outer).startswith("torch.nn.functional."):
        return leaves_torch(module, module.chain_around(outer))
    number = module.called(outer) in _NUMBERS
    return (
        inferred(module, whole).kind in ("ndarray", "list")
        and not (number or (isinstance(outer, cst.Call) and _appends(module, outer)))
        and not isinstance(above, cst.AugAssign)
    )


def _appends(module: Module, call: cst.Call) -> bool:
    return module.source_of(call.func).endswith(("append", "extend"))


@question(remember=False)
def is_collected(module: Module, node: cst.CSTNode, calls: int = 2) -> bool:
    """Say whether a value is put into a list and nothing else, here or behind all calls of the
    function that gives it back."""
    places = [each for each in destinations(module, node) if not isinstance(each, cst.Assign)]
    return bool(places) and all(
        _appends(module, place)
        if isinstance(place, cst.Call)
        else isinstance(place, cst.Return) and _given_to_lists(module, place, calls)
        for place in places
    )


def _given_to_lists(module: Module, line: cst.Return, calls: int) -> bool:
    function = module.function(line) if calls else None
    sites = call_sites(module, function) if function is not None else []
    return bool(sites) and all(is_collected(module, site, calls - 1) for site in sites)


@question(remember=False)
def is_scalar_read(module: Module, whole: cst.CSTNode) -> bool:
    """Say whether the chain ends in, or is the argument of, a read of one number."""
    if _read_together(module, whole):
        return True
    outer = module.taker(whole)
    return any(scalar_reads(module, call) for call in (whole, outer) if call is not None)


def _read_together(module: Module, whole: cst.CSTNode) -> bool:
    """Say whether numbers, written out in a tuple or list or the values of a dictionary, are
    stacked for one read: that is what TL101's fix makes of a read for each."""
    match whole:
        case cst.Call(cst.Attribute(cst.Name() as name, cst.Name("tolist"))):
            match sole_definition(module, name):
                case cst.Call(stack, [cst.Arg(of)]):
                    by_key = any(method_called(c) == "values" for c in module.within(of, cst.Call))
                    return module.name(stack) == "torch.stack" and by_key
        case cst.Call(
            cst.Attribute(
                cst.Call(stack, [cst.Arg(cst.Tuple() | cst.List() as parts)]),
                cst.Name("tolist"),
            )
        ):
            numbers = all(inferred(module, each.value).rank == 0 for each in parts.elements)
            return module.name(stack) == "torch.stack" and len(parts.elements) > 1 and numbers
    return False


@question(remember=False)
def takers_of(module: Module, whole: cst.CSTNode) -> list[cst.Call]:
    """Return the calls that take the copy as an argument, also under the name it is bound to."""
    above = module.parent(whole)
    if isinstance(above, cst.Arg):
        outer = module.parent(above)
        return [outer] if isinstance(outer, cst.Call) else []
    match above:
        case cst.Assign([cst.AssignTarget(cst.Name(name)), *_]):
            given = [module.parent(read) for read in readers_of(module, above, name)]
            calls = [module.parent(arg) for arg in given if isinstance(arg, cst.Arg)]
            return [call for call in calls if isinstance(call, cst.Call)]
    return []


@question(remember=False)
def is_scalar(module: Module, copy: HostRead) -> bool:
    """Say whether what is copied is one number alone."""
    value = inferred(module, copy.tensor)
    return value.rank == 0 or value.origin == "loss"


@question(remember=False)
def takes_from_device(module: Module, total: cst.BaseExpression) -> bool:
    """Say whether a tensor on the device can be added to what a sum starts as: a number, or another
    tensor there. One on the host would raise."""
    if isinstance(total, cst.Subscript):
        kept = inferred(module, total)
        return kept.kind == "accumulated" or on_device(module, total.value) is True
    starts = assigned_to(module, total)
    return bool(starts) and all(
        inferred(module, value).kind == "number" or on_device(module, value) is True
        for value in starts
    )


def only_moves(copy: HostRead) -> bool:
    """Say whether a copy does nothing else: ``.to("cpu", torch.float64)`` would no longer cast."""
    match copy.node:
        case cst.Call(args=[]):
            return copy.how == "cpu"
        case cst.Call(args=[cst.Arg(star="", keyword=None | cst.Name("device"))]):
            return copy.how == "to"
    return False


_MAPPING_METHODS = frozenset(("items", "keys", "update", "setdefault"))


@question()
def used_as_mapping(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the function around an expression also uses it as a mapping, which no tensor is.

    That is ``**x``, ``x["key"]``, ``"key" in x``, ``x.items()``: an encoding of a tokenizer, say.
    """
    scope = module.scope(node)
    return any(
        _as_mapping(module, each)
        for each in module.within(scope, type(node))
        if each.deep_equals(node)
    )


def _as_mapping(module: Module, node: cst.CSTNode) -> bool:
    above = module.parent(node)
    match above:
        case cst.Arg(star="**") | cst.StarredDictElement():
            return True
        case cst.Subscript(value, [cst.SubscriptElement(cst.Index(index))]) if value is node:
            return isinstance(index, cst.BaseString)
        case cst.Attribute(value, cst.Name(attr)) if value is node:
            return attr in _MAPPING_METHODS
        case cst.ComparisonTarget(cst.In() | cst.NotIn()):
            whole = module.parent(above)
            return isinstance(whole, cst.Comparison) and isinstance(whole.left, cst.BaseString)
    return False
