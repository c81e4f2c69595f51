"""What the host does with a value in the very step that brings it over: then no later read will
do."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.destinations import arrivals, destinations
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.guards import throttled
from torchlint.semantic.code.names import dotted_text, last_part
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import name_outside
from torchlint.semantic.code.tree import is_name, keyword_of, last_name, method_called
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside, heat_of
from torchlint.semantic.time.loops import LoopKind, has_model_call, loop_kind
from torchlint.semantic.torch import libraries, ops
from torchlint.semantic.uses.dominance import is_optional, leaves_loop
from torchlint.semantic.values.definitions_behind import functions, returned
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.place import on_device
from torchlint.semantic.values.value import CPU

_WORKS = frozenset(
    (
        "scipy sklearn faiss cv2 PIL matplotlib lap pycocotools skimage pandas seaborn onnxruntime "
        "nltk soundfile"
    ).split()
)
"""Libraries that compute on the host alone."""
_SENDS = frozenset("requests httpx aiohttp urllib socket zmq grpc json pickle redis".split())
"""Libraries that write a value out, or send it away."""
_SAVES = regex(r"^(save\w*|serialize\w*|imsave|imwrite|write_(video|jpeg|png)|dump|export)$")
_PRIORITIES = regex(r"^(set_|update_|batch_update_)priorit(y|ies)$|^priorit(y|ies)_update$")
"""Methods by which a replay memory takes the priorities that its next sample is drawn by."""
_HANDS_ON = frozenset("append_data put put_nowait tofile write writeframes".split())
"""Methods of queues, and of writers of files, videos and sound."""
_TEXT = regex(r"^(batch_decode|convert_ids_to_\w+|convert_tokens_to_\w+|detokenize)$")
_SIZED = (ops.having("sizes") | {"topk", "range"}) - {"full"}
"""Functions and methods that take how many elements there will be."""
_FACTORIES = ops.dotted("factory", "sizes")
_SIZE_WORDS = frozenset(
    """dim_size num_segments num_nodes num_edges num_classes minlength max_num_nodes max_len
    max_length""".split()
)
"""Arguments that take how many elements there will be, whatever takes them."""
_LONGEST = regex(
    r"(^|_)max_?(seq_?)?(len(gth)?|size)s?(_|$)|^(batch|dim)_size$"
    r"|^(num|n)_(hyper)?(nodes|edges|graphs|segments|groups|clusters)$"
)
"""What people call the longest length of a batch, or the number of a graph's parts, which kernels,
masks and loops take as a size."""
_SPELLS = regex(r"^decode(_|$)|(_to_|2)(str|string|text|word|char)s?$")
"""Functions of projects that may make texts of numbers; boxes are decoded too."""
_TEXT_NAME = regex(r"(^|_)(str|string|text|word|sentence|caption|transcript)s?$")
_ESTIMATES = frozenset(
    "decision_function fit_predict fit_transform kneighbors partial_fit predict_log_proba "
    "predict_proba score_samples".split()
)
"""Methods of scikit-learn's estimators, and of what is made like them; no network of torch has
them."""
_SOLVES = ops.having("precise")
"""Decompositions, solutions of systems, determinants: work for a CPU where they are small."""
_NORMS = ops.having("linalg", "reduce")
_TOKENIZER = regex(r"token|vocab|processor|bpe|sentencepiece|(^|_)sp(_|$)", re.IGNORECASE)
_VOCABULARY = regex(r"vocab(ulary)?$", re.IGNORECASE)
_LOOKS_UP = regex(r"^((get|look_?up|find)(_|$)|(id|idx|index)(2|_?to_))")
"""Methods of a vocabulary that give what stands at a number."""
_GATHERS = frozenset("append extend add insert print".split())
"""What may as well be done with the results of many steps, later."""
_TOKENIZES = regex(r"(tokenizer|processor|tokenize)$")
"""What takes texts, called as it is."""
_SHOWS = regex(r"^wandb\.(Image|Video|Audio|Table|Histogram|Object3D)$")
"""What makes a file of an array where it is made."""
_NO_TEXT = ("dict", "list", "tuple", "number", "bool", "tensor", "accumulated")
_PICTURES = regex(r"^add_(images?(_with_boxes)?|video|audio|figure|mesh)$")
"""Methods of a board that write out what they are given."""
_CALLS = 3
"""Functions through which a value is followed."""


@question(
    yes="the host decides on `{0}` whether the loop goes on",
    no="the host does not decide on `{0}` whether a loop goes on",
)
def decides_to_go_on(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the host needs a value to know whether a loop goes on, which is no loop over
    batches: decoding, sampling, a solver."""
    return any(ends_a_loop(module, place) for place in _tests_in_iteration(module, node))


@question(
    yes="the test ends a loop that is none over batches",
    no="the test ends no loop, or one over batches",
)
def ends_a_loop(module: Module, holder: cst.CSTNode) -> bool:
    """Say whether a test only ends a loop that goes over no batches: a ``while`` that asks whether
    to go on, an ``if`` that ends in ``break`` or ``return``; not where the loop does nothing but
    look for something, as all could be looked at at once."""
    if isinstance(holder, cst.While):
        return loop_kind(module, holder) is LoopKind.OTHER
    loop = module.loop(holder)
    if not isinstance(holder, cst.If) or loop is None:
        return False
    return (
        loop_kind(module, loop) is LoopKind.OTHER
        and leaves_loop(holder.body)
        and not only_looks(module, loop)
    )


@question(
    yes="the loop does nothing with each element but test it",
    no="the loop does more with each element than test it",
)
def only_looks(module: Module, loop: cst.CSTNode) -> bool:
    """Say whether a loop does nothing with each element but test it: ``for p in params: if
    bad(p.grad): return True``."""
    if not isinstance(loop, cst.For):
        return False
    bound = module.names_in(loop.target)
    return all(
        isinstance(each, cst.If)
        and each.orelse is None
        and not bound.isdisjoint(module.names_in(each.test))
        and not module.contains(each.body, cst.Call)
        and not has_model_call(module, each.test)
        for each in loop.body.body
    )


@question(yes="Python decides by `{0}`", no="Python decides nothing by `{0}`")
def decides(module: Module, node: cst.CSTNode) -> bool:
    """Say whether Python chooses by a value which code runs next, also under another name, or
    where a function hands back the truth value of a comparison."""
    if _tests_in_iteration(module, node):
        return True
    loops = set(module.loops(node))
    return any(
        isinstance(place, cst.Return)
        and place.value is not None
        and inferred(module, place.value).kind == "bool"
        and loops.issubset(module.loops(place))
        for place in destinations(module, node)
    )


@question(circular=())
def _tests_in_iteration(module: Module, node: cst.CSTNode) -> list[cst.CSTNode]:
    """Return the tests of a value in the iteration of the loop that reads it, not behind the loop
    and not at intervals; where a function gives it back, those of all its callers."""
    loops, found = set(module.loops(node)), []
    for place in destinations(module, node):
        if not loops <= {place, *module.loops(place)}:
            continue
        if isinstance(place, cst.Return):
            found += _tests_of_callers(module, place)
        elif asks_value(module, place) and not throttled(module, place):
            found.append(place)
    return found


@question(remember=False)
def asks_value(module: Module, place: cst.CSTNode) -> bool:
    """Say whether a place that a value comes to is a test of it, and not whether there is anything
    in a table or list that holds it; a loop goes on for as long as something is left."""
    tests = (cst.If, cst.While, cst.IfExp)
    return (
        isinstance(place, tests)
        and (isinstance(place, cst.While) or not _is_container(module, place.test))
        and not _asks_what_came(module, place.test)
    )


def _is_container(module: Module, node: cst.BaseExpression) -> bool:
    match node:
        case cst.Comparison(
            (cst.SimpleString() | cst.Name()) as key,
            [cst.ComparisonTarget(cst.In() | cst.NotIn(), table)],
        ) if inferred(module, key).kind == "str":
            # A name that a loop binds, not a text that may have been made of the value.
            made = definitions_of(module, key) if isinstance(key, cst.Name) else []
            looped = not any(isinstance(each, cst.Assign) for each in made)
            return looped and inferred(module, table).kind == "dict"
    return inferred(module, node).kind in ("dict", "list", "tuple")


@question(
    yes="the test asks for a kind, or for a text that is written out where the value comes from",
    no="the test asks for the value itself",
)
def _asks_what_came(module: Module, test: cst.BaseExpression) -> bool:
    """Say whether a test asks for the kind of a value, or whether a text came in place of it, which
    is written out where it comes from: ``results == "exhausted"``."""
    match test:
        case cst.Call(cst.Name("isinstance")):
            return True
        case cst.Comparison(
            cst.Name() as name,
            [cst.ComparisonTarget(comparator=cst.SimpleString() as text)],
        ):
            made = [each for each in definitions_of(module, name) if isinstance(each, cst.Assign)]
            return any(_or_text(module, each, name.value, text) for each in made)
    return False


def _or_text(module: Module, made: cst.Assign, name: str, text: cst.SimpleString) -> bool:
    """Say whether a function of the project gives a name a text or else something that is none."""
    at = None
    if isinstance(target := made.targets[0].target, cst.Tuple):
        names = [getattr(each.value, "value", None) for each in target.elements]
        at = names.index(name) if name in names else None
    if not isinstance(made.value, cst.Call):
        return False
    given = [
        (where, _element(back, at))
        for where, function in functions(module, made.value)
        for back in returned(where, function)
    ]
    return any(text.deep_equals(each) for _, each in given) and any(
        inferred(where, each).kind in _NO_TEXT for where, each in given
    )


def _element(node: cst.BaseExpression, at: int | None) -> cst.BaseExpression:
    if at is not None and isinstance(node, cst.Tuple) and at < len(node.elements):
        return node.elements[at].value
    return node


def _tests_of_callers(module: Module, place: cst.Return) -> list[cst.CSTNode]:
    """Return the tests of what a function gives back, where each of its calls is in this file and
    leads to one."""
    function = module.function(place)
    if function is None or place.value is None or _is_container(module, place.value):
        return []
    sites = call_sites(module, function)
    tests = [_tests_in_iteration(module, site) for site in sites]
    outside = callers_outside(module, function)
    return [each for its in tests for each in its] if all(tests) and not outside else []


@question(
    yes="`{0}` is the size of something in this very step", no="`{0}` is no size that is known of"
)
def sizes(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a number is a size in the iteration of the loop that reads it: the `k` of a
    ``topk``, a bound of a slice, how many iterations a loop takes, or by its name the longest
    length; also in another function of the file, or as a part of a sum that is one."""
    places = (node, *_sums_of(module, node))
    return any(True for place in places for _ in needed_by(module, place, _is_size, far=True))


def _sums_of(module: Module, node: cst.CSTNode) -> Iterator[cst.Name]:
    """Yield the reads, behind ``count += …`` and in the same iteration, of a name to which a number
    is added."""
    match module.small_statement(node):
        case cst.AugAssign(cst.Name(name)) as line:
            for read in readers_of(module, line, name):
                if module.before(line, read) and module.loops(read) == module.loops(line):
                    yield read


@question(yes="a tensor gets its size by `{0}`", no="no tensor is known to get its size by `{0}`")
def given_as_size(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a number is handed to what makes a tensor of that size, also in another function
    of the file; no bound of a slice."""
    return any(True for _ in needed_by(module, node, _takes_a_size))


def _is_size(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    match place:
        case cst.Slice():
            return True
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value):
            return value is part and bool(_LONGEST.search(name))
    return _takes_a_size(module, part, place)


Need = Callable[[Module, cst.CSTNode, cst.CSTNode], bool]


@question(remember=False)
def needed_by(
    module: Module, node: cst.CSTNode, needs: Need, calls: int = _CALLS, *, far: bool = False
) -> Iterator[cst.CSTNode]:
    """Yield the places that need a value in the iteration of the loop that reads it: also in a
    function of the file that it is handed to, or behind all calls that give it back, if `far` is
    asked for those of other files, too; for what a function of another file always does with it its
    call."""
    loops = set(module.loops(node))
    for part, place in arrivals(module, node):
        if not loops.issubset(module.loops(place)) or module.is_within(place, node):
            continue
        if needs(module, part, place):
            yield place
        elif calls > 0:
            yield from _needed_further(module, part, place, needs, calls - 1, far)


def _needed_further(
    module: Module, part: cst.CSTNode, place: cst.CSTNode, needs: Need, calls: int, far: bool
) -> Iterator[cst.CSTNode]:
    if isinstance(place, cst.Call) and isinstance(part, cst.Arg):
        if needs is _computes_with and inferred(module, place).device == CPU:
            return  # What it gives is on the host, and so is what it computes that of.
        for where, read in reads_inside(module, part, place):
            needed = needed_by(where, read, needs, calls, far=far)
            if where is module:
                yield from needed
            elif far and any(not is_optional(where, at, where.function(at)) for at in needed):
                yield place
        return
    function = module.function(place) if isinstance(place, cst.Return) else None
    if function is None or callers_outside(module, function):
        return
    found: list[cst.CSTNode] = []
    sites = [(module, site) for site in call_sites(module, function)]
    name = name_outside(module, function)
    if far and name is not None:
        sites += module.outside.calling(Definition(module.path, name, ""))
    for where, site in sites:
        reads = _given_back(where, part, site)
        needed = (at for each in reads for at in needed_by(where, each, needs, calls, far=far))
        first = next(needed, None)
        if first is None:
            return
        found.append(first)
    yield from found[:1]


def reads_inside(module: Module, arg: cst.Arg, call: cst.Call) -> Iterator[tuple[Module, cst.Name]]:
    """Yield the reads of the parameters that an argument is bound to, with the file that they are
    in."""
    for where, function in functions(module, call):
        if isinstance(function, cst.FunctionDef):
            bound = where.bind(function, call)
            for name in (name for name, value in bound.items() if value is arg.value):
                for read in readers_of(where, function, name):
                    yield where, read


def _given_back(module: Module, part: cst.CSTNode, site: cst.Call) -> list[cst.CSTNode]:
    """Return where a caller has a value that a function returns, or one element of the tuple."""
    if not isinstance(part, cst.Element):
        return [site]
    holder, assign = module.parent(part), module.parent(site)
    at = holder.elements.index(part) if isinstance(holder, cst.Tuple) else 0
    match assign:
        case cst.Assign([cst.AssignTarget(cst.Tuple(targets))]) if at < len(targets) and isinstance(
            target := targets[at].value, cst.Name
        ):
            return list(readers_of(module, assign, target.value))
    return []


def _takes_a_size(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    if not isinstance(place, cst.Call) or not isinstance(part, cst.Arg):
        return False
    if keyword_of(part) in _SIZE_WORDS:
        return True
    last = last_name(place.func)
    name = module.called(place)
    if name.startswith("torch.") and name not in _FACTORIES and part is place.args[0]:
        return False  # What is cut or resized, not the size.
    return last in _SIZED and not callees_of(module, place)


@question(
    yes="a library that knows no GPU works on `{0}`", no="no library of the host works on `{0}`"
)
def worked_on_by_host(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a library that computes on the host alone takes a value, also in a function of
    the file."""
    return any(True for _ in needed_by(module, node, _calls_unknown, far=True))


def _calls_unknown(module: Module, _: cst.CSTNode, place: cst.CSTNode) -> bool:
    name = module.called(place)
    if name or not isinstance(place, cst.Call) or method_called(place) not in _ESTIMATES:
        return name.partition(".")[0] in _WORKS
    return not functions(module, place)


@question(
    yes="a package that is not known to compute with tensors takes `{0}`",
    no="no package takes `{0}` but those that compute with tensors",
)
def taken_by_another_package(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a function of another package takes a value, also in a function of the project
    that it is handed to; not of Python's own, nor of one that computes with tensors."""
    return any(True for _ in needed_by(module, node, _of_another_package, far=True))


def _of_another_package(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    name = module.called(place)
    package = name.partition(".")[0]
    return (
        isinstance(part, cst.Arg)
        and package not in ("", *sys.stdlib_module_names)
        and not libraries.on_tensors(name)
        and module.outside.find(name) is None
    )


@question(yes="NumPy works on `{0}`", no="NumPy is not known to work on `{0}`")
def worked_on_by_arrays(module: Module, node: cst.CSTNode) -> bool:
    """Say whether NumPy computes with a value, also in a function of the file."""
    return any(True for _ in needed_by(module, node, _works_on_arrays, far=True))


def _works_on_arrays(module: Module, _: cst.CSTNode, place: cst.CSTNode) -> bool:
    name = module.called(place)
    return name.partition(".")[0] == "numpy"


@question(
    yes="the host needs `{0}` in this very step: a solve, a text, a file, a queue, a request",
    no="nothing is known for which the host needs `{0}` in this very step",
)
def needed_at_once(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the host cannot go on without a copy in the step that makes it: a system of
    equations is solved on the CPU, a text is made of it, it is saved or sent away; also in another
    function of the file, or in what calls this one."""
    return any(True for _ in needed_by(module, node, _needs_at_once, far=True))


def _needs_at_once(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    return isinstance(place, cst.Call) and (
        _takes_it_away(module, place)
        or (isinstance(part, cst.Arg) and (_spells(module, place) or _looks_up(module, place)))
    )


def _looks_up(module: Module, call: cst.Call) -> bool:
    """Say whether a number is looked up in a vocabulary, and the step goes on with what stands
    there: it builds an object of it, or tests it, and does not only gather it."""
    match call.func:
        case cst.Attribute(holder, cst.Name(method)):
            name = last_part(holder)
        case _:
            return False
    if not _VOCABULARY.search(name) or inferred(module, holder).kind == "module":
        return False
    known = functions(module, call)
    if not (all(_gives_element(*each) for each in known) if known else _LOOKS_UP.match(method)):
        return False
    places = destinations(module, call)
    return any(
        (isinstance(place, cst.Call) and last_name(place.func) not in _GATHERS)
        or asks_value(module, place)
        for place in places
    )


def _gives_element(where: Module, function: cst.FunctionDef | cst.Lambda) -> bool:
    """Say whether all that a function returns are elements of a list or dict of its object."""
    back = returned(where, function)
    return bool(back) and all(
        isinstance(each, cst.Subscript) and not inferred(where, each.value).tensor for each in back
    )


@question(
    yes="a generator hands out `{0}` in the step that makes it",
    no="no generator is known to hand out `{0}` in the step that makes it",
)
def yielded_out(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a generator hands a value out in the iteration of the loop that makes it, here or
    behind all calls that give it back."""
    return any(True for _ in needed_by(module, node, _hands_out, far=True))


def _hands_out(_module: Module, _part: cst.CSTNode, place: cst.CSTNode) -> bool:
    return isinstance(place, cst.Yield)


@question(remember=False)
def host_needs(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    """Say whether a place that a value comes to is work of the host: of a library that knows no
    GPU, or what cannot wait."""
    return _calls_unknown(module, part, place) or _needs_at_once(module, part, place)


@question(
    yes="the step that brings `{0}` over computes on the device with it",
    no="nothing on the device is known to be computed with `{0}` in the step that brings it over",
)
def computed_with(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the step that brings a value to the host computes on the device with it, or with
    what becomes of it there: a loss is scaled by it, a tensor is made of it."""
    return any(True for _ in needed_by(module, node, _computes_with))


def _computes_with(module: Module, part: cst.CSTNode, place: cst.CSTNode) -> bool:
    match place:
        case cst.Assign(value=whole) | cst.AugAssign(value=whole):
            pass
        case cst.Call() as whole if isinstance(part, cst.Arg) and not callees_of(module, place):
            pass
        case _:
            return False
    value = inferred(module, whole)
    return value.tensor and not value.loose and on_device(module, whole) is True


@question(
    yes="the host keeps `{0}` in an object that other steps ask",
    no="no object that other steps ask is known to keep `{0}`",
)
def kept_in_object(module: Module, node: cst.CSTNode) -> bool:
    """Say whether the host keeps a value in an attribute of an object, not of its own class, that
    code of another function reads in each step: the nodes of a tree that is searched."""
    return any(True for _ in needed_by(module, node, _keeps_in_object))


def _keeps_in_object(module: Module, _: cst.CSTNode, place: cst.CSTNode) -> bool:
    match place:
        case cst.AugAssign(cst.Attribute(holder, cst.Name(name)) as kept) | cst.Assign(
            [cst.AssignTarget(cst.Attribute(holder, cst.Name(name)) as kept)]
        ) if not is_name(holder, "self"):
            pass
        case _:
            return False
    home = module.function(place)
    own = any(
        each.attr.value == name and dotted_text(each) == f"self.{name}"
        for each in module.nodes(cst.Attribute)
        if isinstance(module.parent(each), (cst.AssignTarget, cst.AnnAssign, cst.Element))
    )
    return own and any(
        read.attr.value == name
        and read is not kept
        and module.function(read) is not home
        and isinstance(module.parent(read), (cst.BinaryOperation, cst.ComparisonTarget))
        and heat_of(module, read).hot
        and not throttled(module, read)
        for read in module.nodes(cst.Attribute)
    )


def _spells(module: Module, call: cst.Call) -> bool:
    """Say whether a function, by its name one that may, makes texts of its argument: what it gives
    is called a text, or it joins strings."""
    if not _SPELLS.search(last_name(call.func)):
        return False
    match module.small_statement(call):
        case cst.Assign([cst.AssignTarget(target), *_], value) if value is call:
            if _TEXT_NAME.search(last_part(target)):
                return True
    joins = (
        each.func for callee in callees_of(module, call) for each in module.within(callee, cst.Call)
    )
    return any(
        isinstance(each, cst.Attribute)
        and isinstance(each.value, cst.SimpleString)
        and each.attr.value == "join"
        for each in joins
    )


def _tokenizes(module: Module, call: cst.Call) -> bool:
    name = dotted_text(call.func) or ""
    return bool(_TOKENIZES.search(name)) and inferred(module, call.func).kind != "module"


def _takes_it_away(module: Module, call: cst.Call) -> bool:
    name = module.called(call)
    package, _, last = name.rpartition(".")
    if package == "torch.linalg":
        return last not in _NORMS
    if package.partition(".")[0] in _SENDS or (package == "torch" and last in _SOLVES):
        return True
    if name in libraries.WRITERS or _SHOWS.match(name) or _tokenizes(module, call):
        return True
    match call.func:
        case cst.Attribute(attr=cst.Name(method)) if not name and method in _SOLVES:
            return True
        case cst.Attribute(receiver, cst.Name(method)) if not name:
            text = _TEXT.match(method) or (
                method in ("decode", "decode_batch")
                and _TOKENIZER.search(dotted_text(receiver) or "")
            )
            if _PRIORITIES.match(method):
                return True
            own = bool(callees_of(module, call)) or inferred(module, receiver).kind == "module"
            written = method in _HANDS_ON or _SAVES.match(method) or _PICTURES.match(method)
            return bool(text or written) and not own
    return bool(_SAVES.match(last)) and not callees_of(module, call)
