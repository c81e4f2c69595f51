"""Objects of the project that average what they are handed: what their class does with it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.calls import bind
from torchlint.semantic.code.flow import reads_of, writes_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    DISPLAYS,
    attr_of,
    has_star,
    is_name,
    keyword_of,
    positional,
    positional_parameters,
)
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch.names import MOVES
from torchlint.semantic.values.classes import class_named, class_seen_from, family_of

_BASES = 4
"""Files in which a meter is looked for, along the base classes."""
_HOOKS = ("__getattr__", "__getattribute__", "__setattr__", "__new__")


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
        values = (
            each.value for each in definitions_of(module, meter) if isinstance(each, cst.Assign)
        )
        made = [(module, each) for each in values]
    elif isinstance(meter, (cst.Attribute, cst.Subscript)):
        made = [
            (where, value)
            for where in _files(module, update)
            for value in _values_assigned(where, meter)
        ]
    else:
        return
    for where, value in made:
        called = value.func if isinstance(value, cst.Call) else None
        found = class_seen_from(module, where, called) if called is not None else None
        if found is not None:
            yield found


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


def _values_assigned(
    module: Module, meter: cst.Attribute | cst.Subscript
) -> Iterator[cst.BaseExpression]:
    """Yield what a file assigns to an attribute or a key, or hands over beside the key."""
    for assign in module.nodes(cst.Assign):
        if any(target.target.deep_equals(meter) for target in assign.targets):
            yield assign.value
    match meter:
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.SimpleString() as key))]):
            pass
        case _:
            return
    for call in module.nodes(cst.Call):
        match call.args:
            case [cst.Arg(cst.SimpleString(name)), cst.Arg(value)] if name == key.value:
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
            named = module.called(call).startswith("numpy.")
            names = {name for arg in call.args for name in module.names_in(arg.value)}
            if named and names & mine:
                return True
    return False


def _by_torchmetrics(module: Module, made: cst.CSTNode) -> bool:
    match made:
        case cst.Assign(value=cst.Call(func)):
            return (module.name(func) or "").startswith("torchmetrics.")
    return False


@question(
    yes="the class of `{0}` does no more with it than compute its own attributes",
    no="what the class of `{0}` does with it is not known",
)
def number_store(module: Module, update: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """Return what ``meter.update(loss.item(), n)`` hands over, by the names of the parameters; None
    where its class, which is in the project, may do more than compute its own attributes."""
    func = update.func
    if not isinstance(func, cst.Attribute):
        return None
    made = sole_definition(module, func.value)
    found = class_named(module, made.func) if isinstance(made, cst.Call) else None
    if found is None or not _is_plain(*found):
        return None
    where, cls = found
    methods = {each.name.value: each for each in _methods(cls)}
    method, start = methods.get(func.attr.value), methods.get("__init__")
    if method is None or (start is not None and not _only_computes(where, methods, start)):
        return None
    if start is not None and _leads_to_what_it_was_given(where, cls, start):
        return None
    if has_star(update) or not _only_computes(where, methods, method):
        return None
    handed = bind(method, update, method=True)
    return handed if len(handed) == len(update.args) else None


@question(
    yes="it is handed to an object that only writes it out when it is told to",
    no="it is not known what the object does to which it is handed",
)
def display_of(module: Module, use: cst.CSTNode) -> list[cst.Name] | None:
    """Return the reads of what ``progress = ProgressMeter(n, [losses, top1])`` makes, where `use`
    is a meter in the list, or one of ``*meters``: its class writes the meters out in its methods
    and does no more with them, and each read calls one of these."""
    arg = module.parent(use)
    if isinstance(arg, cst.Element):
        row = module.parent(arg)
        arg = module.parent(row) if isinstance(row, DISPLAYS) else None
    made = module.parent(arg)
    match module.parent(made):
        case cst.Assign([cst.AssignTarget(cst.Name() as target)]):
            pass
        case _:
            return None
    if not isinstance(arg, cst.Arg) or not isinstance(made, cst.Call) or has_star(made):
        return None
    found = class_named(module, made.func)
    owner = module.tree.owners[target]
    if found is None or not _is_plain(*found) or len(writes_of(module, owner, target.value)) != 1:
        return None
    where, cls = found
    methods = {each.name.value: each for each in _methods(cls)}
    start = methods.get("__init__")
    name = _parameter(start, made, arg, listed=arg.value is not use) if start is not None else None
    if start is None or name is None or not _only_shows(where, cls, start, name):
        return None
    reads = reads_of(module, owner, target.value)
    for read in reads:
        method = module.parent(read)
        call = module.parent(method)
        known = isinstance(method, cst.Attribute) and method.attr.value in methods
        if not known or not isinstance(call, cst.Call) or call.func is not method:
            return None
    return reads


def _parameter(start: cst.FunctionDef, made: cst.Call, arg: cst.Arg, *, listed: bool) -> str | None:
    """Return the parameter that holds some meters: what takes the list of them, or `*meters`."""
    names = [each.name.value for each in start.params.params[1:]]
    place = positional(made).index(arg.value) if arg.keyword is None else -1
    if listed:
        return keyword_of(arg) or next(iter(names[place : place + 1]), None)
    rest = start.params.star_arg
    return rest.name.value if isinstance(rest, cst.Param) and place >= len(names) else None


def _only_shows(module: Module, cls: cst.ClassDef, start: cst.FunctionDef, name: str) -> bool:
    """Say whether a class keeps a parameter of its constructor in one attribute, and goes over that
    to make texts of what it holds."""
    reads = reads_of(module, start, name)
    assign = module.small_statement(reads[0]) if len(reads) == 1 else None
    match assign:
        case cst.Assign([cst.AssignTarget(cst.Attribute() as kept)], value) if value is reads[
            0
        ] and is_name(kept.value, _self_name(start) or ""):
            pass
        case _:
            return False
    methods = _methods(cls)
    if len(writes_of(module, start, name)) != 1 or any(
        _looks_at_itself(module, each, _self_name(each) or "") for each in methods
    ):
        return False
    for node in module.within(cls.body, cst.Attribute, nested=True):
        if node.attr.value != kept.attr.value or node is kept:
            continue
        above, function = module.parent(node), module.function(node)
        if not isinstance(function, cst.FunctionDef) or function not in methods:
            return False
        # A generator looks at them whenever somebody asks it, but for one that is joined at once.
        if function.asynchronous or any(True for _ in module.within(function.body, cst.Yield)):
            return False
        match above, module.parent(above):
            case cst.For(iter=row, target=cst.Name(name) as target), _ if row is node:
                reads = reads_of(module, function, name)
            case (
                cst.CompFor(iter=row, target=cst.Name(name) as target),
                (cst.ListComp() | cst.GeneratorExp()) as whole,
            ) if row is node and (isinstance(whole, cst.ListComp) or _is_joined(module, whole)):
                inside = module.within(whole, cst.Name, nested=True)
                reads = [each for each in inside if each.value == name]
            case _:
                return False
        if not all(each is target or _as_text(module, each) for each in reads):
            return False
    return True


def _is_joined(module: Module, row: cst.GeneratorExp) -> bool:
    call = module.taker(row)
    return isinstance(call, cst.Call) and attr_of(call.func) == "join"


def _as_text(module: Module, use: cst.CSTNode) -> bool:
    """Say whether a use of an object makes a text of it."""
    above = module.parent(use)
    if isinstance(above, cst.FormattedStringExpression):
        return True
    call = module.parent(above) if isinstance(above, cst.Arg) else None
    return module.called(call) in ("builtins.str", "builtins.print")


_PURE = frozenset(
    f"builtins.{name}" for name in "round float int abs len sum max min isinstance bool".split()
)


def _leads_to_what_it_was_given(module: Module, cls: cst.ClassDef, start: cst.FunctionDef) -> bool:
    """Say whether ``+=`` changes an attribute that the constructor binds to an argument, or a
    method reads what such an object holds: ``self.cfg.momentum``."""
    params = {each.name.value for each in start.params.params}
    given = {
        target.target.attr.value
        for assign in module.within(start.body, cst.Assign)
        for target in assign.targets
        if isinstance(target.target, cst.Attribute)
        and isinstance(assign.value, cst.Name)
        and assign.value.value in params
    }
    grown = (each.target for each in module.within(cls.body, cst.AugAssign, nested=True))
    inner = module.within(cls.body, cst.Attribute, cst.Subscript, nested=True)
    reached = (each.value for each in inner if isinstance(each, (cst.Attribute, cst.Subscript)))
    return any(attr_of(each) in given for each in (*grown, *reached))


def _only_computes(
    module: Module,
    methods: dict[str, cst.FunctionDef],
    method: cst.FunctionDef,
    callers: tuple[cst.FunctionDef, ...] = (),
) -> bool:
    """Say whether a method does no more than compute attributes of its object, itself or by other
    methods, from them and what it is handed."""
    me = _self_name(method)
    if me is None or method.decorators or method.asynchronous:
        return False
    if _looks_at_itself(module, method, me) or any(
        True for _ in module.within(method.body, *_MORE, nested=True)
    ):
        return False
    for call in module.within(method.body, cst.Call, nested=True):
        name = module.called(call)
        pure = name in _PURE or name.startswith("math.")
        match call.func:
            case cst.Attribute(value, cst.Name(other)) if is_name(value, me):
                way = (*callers, method)
                known = other in methods and methods[other] not in way
                pure = known and _only_computes(module, methods, methods[other], way)
        if not pure:
            return False
    stored = [each.target for each in module.within(method.body, cst.AssignTarget, nested=True)]
    stored += [each.target for each in module.within(method.body, cst.AugAssign, nested=True)]
    if not all(
        isinstance(each, cst.Name) or (isinstance(each, cst.Attribute) and is_name(each.value, me))
        for each in stored
    ):
        return False
    own = {each.name.value for each in method.params.params}
    own |= {each.value for each in stored if isinstance(each, cst.Name)}
    for node in module.within(method.body, cst.Name, nested=True):
        above = module.parent(node)
        loose = not (isinstance(above, cst.Attribute) and above.attr is node)
        loose = loose and not (isinstance(above, cst.Arg) and above.keyword is node)
        known = (module.name(node) or "").startswith(("builtins.", "math"))
        if loose and node.value not in own and not known:
            return False
    return True


_MORE = (
    *(cst.Await, cst.Yield, cst.Global, cst.Nonlocal, cst.With, cst.Try, cst.TryStar, cst.Del),
    *(cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.NamedExpr, cst.Import, cst.ImportFrom),
    *(cst.AnnAssign, cst.For, cst.While, cst.Assert, cst.Raise, *COMPREHENSIONS),
)


def _is_plain(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class has no base, decorator or hook that changes what its lines do, and no
    method twice, as a property with a setter."""
    names = [each.name.value for each in _methods(cls)]
    alone = all(module.name(base.value) == "builtins.object" for base in cls.bases)
    changed = cls.decorators or cls.keywords or any(name in _HOOKS for name in names)
    return alone and not changed and len(set(names)) == len(names)


def _methods(cls: cst.ClassDef) -> list[cst.FunctionDef]:
    return [each for each in cls.body.body if isinstance(each, cst.FunctionDef)]


def _self_name(function: cst.FunctionDef) -> str | None:
    """Return the name of a method's first parameter, which is the object."""
    params = positional_parameters(function)
    static = any(
        is_name(each.decorator, "staticmethod", "classmethod") for each in function.decorators
    )
    return params[0].name.value if params and not static else None


def _looks_at_itself(module: Module, function: cst.FunctionDef, me: str) -> bool:
    """Say whether a method uses its object by more than a named attribute."""
    uses = [module.parent(each) for each in reads_of(module, function, me)]
    plain = all(isinstance(use, cst.Attribute) and use.attr.value[:2] != "__" for use in uses)
    return not plain or len(writes_of(module, function, me)) != 1
