"""Objects of the project that average what they are handed: what their class computes of it, and
who looks at one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

import libcst as cst

from torchlint.base.records import dataclass
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.guards import throttled, unreached
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.device.host_reads import scalar_reads
from torchlint.semantic.module import Module
from torchlint.semantic.project.asked import reached_elsewhere
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.uses.accumulators import shared
from torchlint.semantic.uses.observers import is_stored
from torchlint.semantic.values.classes import class_named, class_seen_from, family_of
from torchlint.semantic.values.params import bind

_LINEAR = (cst.Add, cst.Subtract, cst.Multiply, cst.Divide)
_SCALING = (cst.AddAssign, cst.SubtractAssign, cst.MultiplyAssign, cst.DivideAssign)
_BASES = 4
"""Files in which a meter is looked for, along the base classes."""
_HOOKS = ("__getattr__", "__getattribute__", "__setattr__", "__new__")


@dataclass(frozen=True, slots=True)
class Averages:
    """What a class makes of the numbers that one of its methods is handed.

    Args:
        attributes: those that hold them, or are computed from them by arithmetic alone.
        properties: those that do no more than hand one of these back.
        results: the methods that do no more than hand one of these back.
        harmless: the methods that do not look at them.
        methods: all that the class defines.
    """

    attributes: frozenset[str]
    properties: frozenset[str]
    results: frozenset[str]
    harmless: frozenset[str]
    methods: frozenset[str]


@dataclass(frozen=True, slots=True)
class MeterReads:
    """All that looks at what a meter of a loop has averaged.

    Args:
        seldom: what reads a result now and then, or behind the loop.
        each_step: what does so in every step.
        filled_in: the meter itself where ``"{loss.avg:.3f}".format(loss=meter)`` formats results
            of it; these stand in the other two as well.
    """

    seldom: tuple[cst.BaseExpression, ...]
    each_step: tuple[cst.BaseExpression, ...]
    filled_in: tuple[cst.BaseExpression, ...]


@question(
    yes="all that looks at the meter is known",
    no="the meter's class does more than average, or the meter is looked at by code that is not "
    "followed",
)
def meter_reads(module: Module, update: cst.Call, given: cst.BaseExpression) -> MeterReads | None:
    """Return what looks at the meter that ``meter.update(loss.item(), n)`` feeds in a loop; None
    where its class computes more than averages, or where not all who may look at it are known.

    `given` is the number that becomes a tensor; what other calls hand the meter has to be numbers.
    """
    loops = module.loops(update)
    func = update.func
    if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name) or not loops:
        return None
    name, outermost = func.value.value, loops[-1]
    made = _made(module, outermost, name)
    if made is None or not isinstance(outermost, (cst.For, cst.While)):
        return None
    found = class_named(module, made.func)
    if found is None:
        return None
    where, cls = found
    method = next((each for each in _methods(cls) if each.name.value == func.attr.value), None)
    handed = bind(method, update, method=True) if method is not None else {}
    parameter = next((key for key, value in handed.items() if _is_it(value, given)), None)
    averages = averages_of(where, cls, func.attr.value, parameter) if parameter else None
    if averages is None or method is None or parameter is None:
        return None
    reads = reads_of(module, module.tree.owners[outermost], name)
    uses = [_use(module, read, averages, (method, parameter), given) for read in reads]
    if False in uses:
        return None
    results = [each for each in uses if isinstance(each, cst.BaseExpression)]
    seldom = [
        each
        for each in results
        if not module.is_within(each, loops[0])
        or throttled(module, each, loops[0])
        or unreached(module, each)
    ]
    return MeterReads(
        tuple(seldom),
        tuple(each for each in results if each not in seldom),
        tuple(each for each in results if each in reads),
    )


@question(
    yes="the meter is one of torchmetrics that stays on the CPU, and takes no tensor of the device",
    no="the meter is not known to stay on the CPU",
)
def meter_on_host(module: Module, update: cst.Call) -> bool:
    """Say whether a meter is made by torchmetrics, under a plain name, and nothing moves it: its
    state is on the CPU then, and to add a tensor of the device to it raises."""
    meter = update.func.value if isinstance(update.func, cst.Attribute) else None
    if not isinstance(meter, cst.Name):
        return False
    made = definitions_of(module, meter)
    uses = (
        module.parent(each) for each in reads_of(module, module.tree.owners[meter], meter.value)
    )
    moved = any(not isinstance(use, cst.Attribute) or use.attr.value in MOVES for use in uses)
    return bool(made) and not moved and all(_by_torchmetrics(module, each) for each in made)


@question(
    yes="the meter's class computes with NumPy, which takes no tensor of the device",
    no="the meter's class computes without NumPy, or is not known",
)
def meter_in_numpy(module: Module, update: cst.Call) -> bool:
    """Say whether the class of a meter computes with NumPy on what it is handed or holds: to add a
    tensor of the device to it raises, at once or when the next one is added."""
    classes = list(_classes(module, update))
    return bool(classes) and any(_uses_numpy(where, cls) for where, cls in classes)


def _classes(module: Module, update: cst.Call) -> Iterator[tuple[Module, cst.ClassDef]]:
    """Yield the classes of the project of which a meter may be: by what is assigned to its name,
    attribute or key, or handed over beside its key (``register("loss", Average())``), in this file
    or in that of a base class."""
    meter = update.func.value if isinstance(update.func, cst.Attribute) else None
    if isinstance(meter, cst.Name):
        values = (each.value for each in definitions_of(module, meter) if _is_assign(each))
        made = [(module, each) for each in values]
    elif isinstance(meter, (cst.Attribute, cst.Subscript)):
        made = [
            (where, value) for where in _files(module, update) for value in _given(where, meter)
        ]
    else:
        return
    for where, value in made:
        called = value.func if isinstance(value, cst.Call) else None
        found = class_seen_from(module, where, called) if called is not None else None
        if found is not None:
            yield found


def _is_assign(node: cst.CSTNode) -> TypeGuard[cst.Assign]:
    return isinstance(node, cst.Assign)


def _files(module: Module, node: cst.CSTNode) -> Iterator[Module]:
    """Yield the file of a class's method, and those of its bases and its subclasses' bases."""
    cls = module.class_of(node)
    ways = [(module, each) for each in (family_of(module, cls) if cls is not None else ())]
    files = {module.path: module}
    while ways and len(files) < _BASES:
        where, each = ways.pop(0)
        for base in each.bases:
            found = class_seen_from(module, where, base.value)
            if found is not None and found[0].path not in files:
                files[found[0].path] = found[0]
                ways.append(found)
    yield from files.values()


def _given(module: Module, meter: cst.Attribute | cst.Subscript) -> Iterator[cst.BaseExpression]:
    """Yield what a file assigns to an attribute or a key, or hands over beside the key."""
    for assign in module.nodes(cst.Assign):
        if any(target.target.deep_equals(meter) for target in assign.targets):
            yield assign.value
    match meter:
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(value=cst.SimpleString() as key))]
        ):
            pass
        case _:
            return
    for call in module.nodes(cst.Call):
        match call.args:
            case [cst.Arg(value=cst.SimpleString(value=name)), cst.Arg(value=value)] if (
                name == key.value
            ):
                yield value
    for element in module.nodes(cst.DictElement):
        if element.key.deep_equals(key):
            yield element.value


def _uses_numpy(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a method hands an attribute of the object, or what the method is given, to
    NumPy."""
    for method in _methods(cls):
        mine = {each.name.value for each in method.params.params}
        for call in module.within(method.body, cst.Call, nested=True):
            named = (module.name(call.func) or "").startswith("numpy.")
            names = {name for arg in call.args for name in module.names_in(arg.value)}
            if named and names & mine:
                return True
    return False


def _by_torchmetrics(module: Module, made: cst.CSTNode) -> bool:
    match made:
        case cst.Assign(value=cst.Call(func=func)):
            return (module.name(func) or "").startswith("torchmetrics.")
    return False


def _is_it(value: cst.BaseExpression, given: cst.BaseExpression) -> bool:
    """Say whether an argument is a given number, maybe under a condition."""
    if isinstance(value, cst.IfExp):
        return any(_is_it(each, given) for each in (value.body, value.orelse))
    return value is given


def _made(module: Module, loop: cst.CSTNode, name: str) -> cst.Call | None:
    """Return the call that a plain name of a loop's function is bound to, and nothing else is."""
    if not isinstance(loop, (cst.For, cst.While)) or shared(module, loop, name):
        return None
    owner = module.tree.owners[loop]
    if isinstance(owner, cst.Module) and reached_elsewhere(module, name) is not False:
        return None
    writes = writes_of(module, owner, name)
    binding = module.small_statement(writes[0]) if len(writes) == 1 else None
    if isinstance(binding, cst.Assign) and len(binding.targets) == 1:
        plain = binding.targets[0].target is writes[0]
        return binding.value if plain and isinstance(binding.value, cst.Call) else None
    return None


def _use(
    module: Module,
    read: cst.Name,
    averages: Averages,
    fed: tuple[cst.FunctionDef, str],
    given: cst.BaseExpression,
) -> cst.BaseExpression | bool:
    """Return what reads a result by one use of a meter; True where nothing does, and False where
    that is not known."""
    above = module.parent(read)
    if isinstance(above, cst.Arg):
        return read if _only_filled_in(module, above, averages) else False
    if not isinstance(above, cst.Attribute) or is_stored(module, above):
        return False
    call, name = module.parent(above), above.attr.value
    if not isinstance(call, cst.Call) or call.func is not above:
        plain = name in averages.attributes or name in averages.properties
        return above if plain else name not in averages.methods
    if name == fed[0].name.value:
        value = bind(fed[0], call, method=True).get(fed[1])
        return value is not None and _is_number(module, value, given)
    return call if name in averages.results else name in averages.harmless


def _is_number(module: Module, value: cst.BaseExpression, given: cst.BaseExpression) -> bool:
    if isinstance(value, cst.IfExp):
        return all(_is_number(module, each, given) for each in (value.body, value.orelse))
    read = any(each.node is value for each in scalar_reads(module, value))
    return value is given or read or isinstance(value, (cst.Integer, cst.Float))


def _only_filled_in(module: Module, arg: cst.Arg, averages: Averages) -> bool:
    """Say whether an argument of ``"…".format(loss=meter)`` is only asked for results, which stand
    in the text as they are."""
    call = module.parent(arg)
    match call:
        case cst.Call(
            func=cst.Attribute(
                value=cst.SimpleString() | cst.ConcatenatedString() as text, attr=cst.Name("format")
            )
        ):
            pattern = text.evaluated_value
        case _:
            return False
    if arg.keyword is None or arg.star or not isinstance(pattern, str):
        return False
    try:
        fields = list(_fields(pattern))
    except ValueError:
        return False
    known = {f"{arg.keyword.value}.{name}" for name in averages.attributes}
    own = [each for each in fields if each[0].partition(".")[0] == arg.keyword.value]
    return all(name in known and not conversion for name, conversion in own)


def _fields(pattern: str) -> Iterator[tuple[str, str | None]]:
    """Yield the fields of a format string with their conversions, those in other fields too.

    Raises:
        ValueError: it is none.
    """
    import string  # few files have a meter

    for _, name, spec, conversion in string.Formatter().parse(pattern):
        if name is not None:
            yield name, conversion
            yield from _fields(spec or "")


# -- the class -------------------------------------------------------------------------------------


@question(ground=True)
def averages_of(module: Module, cls: cst.ClassDef, method: str, parameter: str) -> Averages | None:
    """Return what a class makes of what one of its methods is handed for a parameter; None where it
    does more than arithmetic with it: formats it, compares it, keeps it in a list."""
    plain = all(module.name(base.value) == "builtins.object" for base in cls.bases)
    methods = _methods(cls)
    names = [each.name.value for each in methods]
    if not plain or cls.decorators or cls.keywords or len(set(names)) != len(names):
        return None
    fed = next((each for each in methods if each.name.value == method), None)
    if fed is None or fed.decorators or fed.asynchronous or any(name in _HOOKS for name in names):
        return None
    attributes = _held(module, fed, parameter)
    if attributes is None:
        return None
    others = [each for each in methods if each is not fed]
    back = [each for each in others if _hands_back(module, each, attributes)]
    harmless = [each for each in others if not _looks(module, each, attributes)]
    while True:
        safe = {each.name.value for each in harmless}
        left = [each for each in harmless if _own_calls(module, each) <= safe]
        if len(left) == len(harmless):
            break
        harmless = left
    if not _own_calls(module, fed) <= safe:
        return None
    properties = frozenset(each.name.value for each in back if each.decorators)
    results = frozenset(each.name.value for each in back if not each.decorators)
    return Averages(attributes, properties, results, frozenset(safe), frozenset(names))


def _methods(cls: cst.ClassDef) -> list[cst.FunctionDef]:
    return [each for each in cls.body.body if isinstance(each, cst.FunctionDef)]


def _me(function: cst.FunctionDef) -> str | None:
    """Return the name of a method's first parameter, which is the object."""
    params = (*function.params.posonly_params, *function.params.params)
    static = any(
        isinstance(each.decorator, cst.Name)
        and each.decorator.value in ("staticmethod", "classmethod")
        for each in function.decorators
    )
    return params[0].name.value if params and not static else None


def _own_calls(module: Module, function: cst.FunctionDef) -> set[str]:
    """Return the names of the methods that a method calls on its object."""
    return {
        call.func.attr.value
        for call in module.within(function.body, cst.Call, nested=True)
        if isinstance(call.func, cst.Attribute) and _is_name(call.func.value, _me(function))
    }


def _is_name(node: cst.CSTNode, name: str | None) -> bool:
    return isinstance(node, cst.Name) and node.value == name


def _held(module: Module, function: cst.FunctionDef, parameter: str) -> frozenset[str] | None:
    """Return the attributes of the object that hold what a method is handed, or are computed from
    it; None where more is done with it."""
    me, names, attributes = _me(function), {parameter}, frozenset[str]()
    if me is None or _looks_at_itself(module, function, me):
        return None
    while True:
        found = list(_loads(module, function, names, attributes, me))
        targets = [_target(module, node, me) for node in found]
        if None in targets:
            return None
        new_names = names | {each.value for each in targets if isinstance(each, cst.Name)}
        new = attributes | {each.attr.value for each in targets if isinstance(each, cst.Attribute)}
        if (new_names, new) == (names, attributes):
            return attributes if _unaliased(module, function, attributes, found) else None
        names, attributes = new_names, new


def _looks_at_itself(module: Module, function: cst.FunctionDef, me: str) -> bool:
    """Say whether a method uses its object by more than a named attribute."""
    uses = [module.parent(each) for each in reads_of(module, function, me)]
    plain = all(isinstance(use, cst.Attribute) and use.attr.value[:2] != "__" for use in uses)
    return not plain or len(writes_of(module, function, me)) != 1


def _loads(
    module: Module,
    function: cst.FunctionDef,
    names: set[str],
    attributes: frozenset[str],
    me: str | None,
) -> Iterator[cst.BaseExpression]:
    """Yield the reads of some names, and of some attributes of the object, in a method."""
    for name in names:
        yield from reads_of(module, function, name)
    for node in module.within(function.body, cst.Attribute, nested=True):
        own = node.attr.value in attributes and _is_name(node.value, me)
        if own and not is_stored(module, node):
            yield node


def _whole(module: Module, node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the expression that only adds, scales or chooses what is read."""
    at: cst.BaseExpression = node
    while True:
        above = module.parent(at)
        match above:
            case cst.BinaryOperation(operator=operator) if isinstance(operator, _LINEAR):
                at = above
            case cst.UnaryOperation(operator=cst.Minus()):
                at = above
            case cst.IfExp(test=test) if test is not at:
                at = above
            case _:
                return at


def _target(module: Module, node: cst.BaseExpression, me: str) -> cst.BaseExpression | None:
    """Return the name or the attribute of the object to which a read leads by arithmetic alone."""
    above = module.parent(_whole(module, node))
    target: cst.CSTNode | None = None
    match above:
        case cst.Assign(targets=[cst.AssignTarget(target=one)]):
            target = one
        case cst.AugAssign(target=one, operator=operator) if isinstance(operator, _SCALING):
            target = one
    if isinstance(target, cst.Name):
        return target
    own = isinstance(target, cst.Attribute) and _is_name(target.value, me)
    return target if own and isinstance(target, cst.Attribute) else None


def _unaliased(
    module: Module,
    function: cst.FunctionDef,
    attributes: frozenset[str],
    loads: list[cst.BaseExpression],
) -> bool:
    """Say whether nothing that ``+=`` changes, in place for a tensor, has a second name."""
    changed = [each.target for each in module.within(function.body, cst.AugAssign, nested=True)]
    grown = {each.attr.value for each in changed if isinstance(each, cst.Attribute)}
    if any(isinstance(each, cst.Name) for each in changed):
        return False
    for node in loads:
        above = module.parent(node)
        if isinstance(above, (cst.Assign, cst.IfExp)):
            alias = isinstance(node, cst.Attribute) and node.attr.value in grown
            target = _target(module, node, _me(function) or "")
            kept = isinstance(target, cst.Attribute) and target.attr.value in grown & attributes
            if alias or kept:
                return False
    return True


def _looks(module: Module, function: cst.FunctionDef, attributes: frozenset[str]) -> bool:
    """Say whether a method may look at what the object has averaged, or hand the object on."""
    me = _me(function)
    if me is None:
        return False
    if _looks_at_itself(module, function, me):
        return True
    return any(True for _ in _loads(module, function, set(), attributes, me))


def _hands_back(module: Module, function: cst.FunctionDef, attributes: frozenset[str]) -> bool:
    """Say whether a method or a property does no more with what was averaged than return one of
    it, maybe scaled."""
    me = _me(function)
    known = all(module.name(each.decorator) == "builtins.property" for each in function.decorators)
    if me is None or not known or function.asynchronous or _looks_at_itself(module, function, me):
        return False
    loads = list(_loads(module, function, set(), attributes, me))
    returned = [module.parent(_whole(module, node)) for node in loads]
    return bool(loads) and all(isinstance(each, cst.Return) for each in returned)
