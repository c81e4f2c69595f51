"""What the calls of one file say of a function in another one: how often, with a graph or without,
and with what.

The last step of the index of callers, see `torchlint.semantic.project.calls`. A `CallSite` holds no
node, so that it outlives its file's analysis.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import libcst as cst

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.base.trail import Dependencies
from torchlint.semantic.code.benchmarks import is_benchmark
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import callees_of, writes_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import name_outside
from torchlint.semantic.code.tree import is_name, last_name, parameters_of
from torchlint.semantic.code.unreached import unreached
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.project import exports
from torchlint.semantic.project.index import CLASS
from torchlint.semantic.question import question
from torchlint.semantic.time.autograd import no_grad
from torchlint.semantic.time.grades import COLD, Grade, Heat, Link
from torchlint.semantic.time.heat import entrances, heat_of
from torchlint.semantic.time.once import runs_once
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.inferred import classes_of_instance, home_of_parameters, inferred
from torchlint.semantic.values.value import Value

T = TypeVar("T")
MEMBER = "member"
"""The kind of `Definition` that a method is, as ``Class.method``."""
_PICTURES = regex(r"(^|_)(display|show|plot|draw|vis|visuali[sz]e|render)(_|$)")
HOPS = 4
"""Files up which callers are looked for."""


Given = tuple[tuple[str, Callable[[], Value]], ...]
"""The arguments of a call: each one's star or keyword, and what works out its value, to be used at
once."""


@frozen
class Wanted:
    """The function that calls are looked for of.

    Args:
        definition: where it stands; of a method the name is ``Class.method``.
        spelled: the names that the calling file has for it, of a method its own.
        alone: says whether a call of a method of an unknown object of some name means it.
        overridden: says whether a class of another file has a method of the name itself.
        stands_in: says of a class, with its ancestors, whether the method that its objects find
            does nothing, so that an object of the function's class may be meant.
    """

    definition: Definition
    spelled: Collection[str]
    alone: Callable[[str], bool]
    overridden: Callable[[Definition], bool]
    stands_in: Callable[[Sequence[Definition]], bool]


@frozen
class CallSite:
    """One call of a function, in another file than its own.

    Args:
        path: the file.
        row: the row of the call's statement.
        grade: how often the call runs, as far as its file shows.
        why: the evidence.
        no_grad: whether autograd is off there, as far as its file shows.
        once: whether the call runs once, as far as its file shows.
        optional: whether it takes what is off by default, or what nothing uses, to run that often.
        entrances: the functions of the file that, once called, come to the call unthrottled, by
            name, each with the calls on the way.
    """

    path: str
    row: int
    grade: Grade
    why: tuple[Link, ...]
    no_grad: bool | None
    once: bool
    optional: bool
    entrances: tuple[tuple[str, tuple[Link, ...]], ...]


class Told(Generic[T]):
    """What the calls of a function say, worked out as far as somebody looks; false for none.

    Args:
        begin: gives it from the first on.
    """

    def __init__(self, begin: Callable[[], Iterator[T]]) -> None:
        self._begin = begin

    def __iter__(self) -> Iterator[T]:
        return self._begin()

    def __bool__(self) -> bool:
        return any(True for _ in self)


class Growing(Generic[T]):
    """An answer of several parts, each worked out when somebody comes to it for the first time.

    Args:
        known: the parts so far.
        trail: what they rest on.
    """

    def __init__(self) -> None:
        self.known: list[T] = []
        self.trail = Dependencies()
        self._rest: Iterator[T] | None = None
        self._whole = False

    def has(self, at: int, begin: Callable[[], Iterator[T]]) -> bool:
        """Say whether there is a part at a place, where those before it are known.

        `begin` gives the parts from the first on, where nobody is on the way through them."""
        if at < len(self.known) or self._whole:
            return at < len(self.known)
        rest = self._rest or itertools.islice(begin(), at, None)
        self._rest = iter(())  # who comes back here on the way to the next part finds none
        self.known += itertools.islice(rest, 1)
        self._rest = rest
        self._whole = at == len(self.known)
        return not self._whole

    def rest(self) -> None:
        """Let go of what is used to work out further parts; who comes to them begins anew."""
        self._rest = None


def call_sites(module: Module, wanted: Wanted) -> Iterator[CallSite]:
    """Yield the calls of a function of another file in a module."""
    return (_site(module, call, wanted) for call in calls_of(module, wanted))


def passed(module: Module, wanted: Wanted) -> Iterator[Given]:
    """Yield what each of these calls passes."""
    for call in calls_of(module, wanted):
        values = (functools.partial(_value, module, arg.value) for arg in call.args)
        yield tuple(zip(exports.shape(call), values, strict=True))


def _value(module: Module, node: cst.BaseExpression) -> Value:
    """Return the value of an argument; of a parameter that a model's method hands on, at least
    where it lives if it is a tensor."""
    found = exports.exported(module, inferred(module, node))
    function = module.function(node)
    if found.kind != "?" or function is None or not isinstance(node, cst.Name):
        return found
    params = {p.name.value for p in parameters_of(function)}
    handed = node.value in params and not writes_of(module, function.body, node.value)
    return Value(device=home_of_parameters(module, function)) if handed else found


def calls_of(module: Module, wanted: Wanted) -> Iterator[cst.Call]:
    """Yield the calls themselves."""
    by_name = _calls_by_name(module)
    for call in (call for name in wanted.spelled for call in by_name.get(name, ())):
        if (
            _means(module, call, wanted)
            and not is_benchmark(module, call)
            and not unreached(module, call)
        ):
            yield call


@question(ground=True)
def _calls_by_name(module: Module) -> dict[str, list[cst.Call]]:
    """Return the calls of a file by the last name of what is called, ``C()`` for ``C()(x)``."""
    found: dict[str, list[cst.Call]] = {}
    for call in module.nodes(cst.Call):
        inner = call.func
        name = f"{last_name(inner.func)}()" if isinstance(inner, cst.Call) else last_name(inner)
        found.setdefault(name, []).append(call)
    return found


def _site(module: Module, call: cst.Call, wanted: Wanted) -> CallSite:
    off = _off_by_default(module, call)
    heat, ways = (COLD, {}) if off else (heat_of(module, call), entrances(module, call))
    called = f"{wanted.definition.name.rpartition('.')[2]}() is called"
    link = Link(called, module.path, _row(module, call))
    return CallSite(
        module.path,
        link.row,
        heat.grade,
        (link, *(Link(why.text, module.path, _row(module, why.node)) for why in heat.why)),
        no_grad(module, call),
        runs_once(module, call),
        heat.optional,
        tuple(
            (
                name,
                (link, *(Link(why.text, module.path, _row(module, why.node)) for why in whys)),
            )
            for function, whys in ways.items()
            if (name := name_outside(module, function)) is not None
        ),
    )


def _off_by_default(module: Module, call: cst.Call) -> bool:
    """Say whether a call runs only where a parameter asks for it that is False or None by default,
    or that is called after pictures: the caller decides when they are wanted."""
    function = module.function(call)
    if function is None:
        return False
    off = {
        param.name.value
        for param in parameters_of(function)
        if is_name(param.default, "False", "None") or _PICTURES.search(param.name.value)
    }
    return any(
        needed and is_name(test, *off) for test, needed in conditions_around(module, call, function)
    )


def _row(module: Module, node: cst.CSTNode) -> int:
    return module.statements.row(module.small_statement(node) or module.statement(node))


def _means(module: Module, call: cst.Call, wanted: Wanted) -> bool:
    """Say whether a call reaches the function."""
    if wanted.definition.name.endswith(".__call__"):
        return _inherits(module, call.func, wanted) is True
    found = module.outside.find(module.name(call.func))
    if found is not None:
        return (found.path, found.name) == (wanted.definition.path, wanted.definition.name)
    if "." not in wanted.definition.name or not isinstance(call.func, cst.Attribute):
        return False
    if module.name(call.func) is not None or callees_of(module, call):
        return False
    receiver = call.func.value
    inherits = _inherits(module, receiver, wanted)
    if inherits is not None:
        return inherits or wanted.stands_in(_family(module, receiver))
    if any(_has(family, wanted) for family in _one_of(module, receiver)):
        return True
    value = inferred(module, receiver)
    unknown = value.kind in ("?", "object", "module") and value.node is None
    return unknown and wanted.alone(last_name(receiver))


def _inherits(module: Module, receiver: cst.BaseExpression, wanted: Wanted) -> bool | None:
    """Say whether an object has the method of its own class or an ancestor's, None where its class
    is unknown."""
    family = _family(module, receiver)
    return _has(family, wanted) if family else None


def _has(family: Sequence[Definition], wanted: Wanted) -> bool:
    """Say whether the method is the one that an object finds by its class and its ancestors."""
    cls = wanted.definition.name.rpartition(".")[0]
    owner = Definition(wanted.definition.path, cls, CLASS)
    return owner in family and not any(map(wanted.overridden, family[: family.index(owner)]))


def _one_of(module: Module, receiver: cst.BaseExpression) -> Iterator[Sequence[Definition]]:
    """Yield the families of the objects that a name or ``self.x`` may be, where a function, its
    file or its class gives it several, one for each setting."""
    yield from values(module).families(inferred(module, receiver))
    text = dotted_text(receiver) or ""
    if isinstance(receiver, cst.Name):
        _, bindings = module.names.bindings(text, receiver)
        made = [each.value for each in bindings if each.kind == "assign"]
    else:
        cls = module.class_of(receiver) if text.startswith("self.") else None
        made = [
            assign.value
            for assign in (module.within(cls, cst.Assign, nested=True) if cls else ())
            if any(dotted_text(target.target) == text for target in assign.targets)
        ]
    for value in made:
        if isinstance(value, cst.Call):
            yield classes_of_instance(module, inferred(module, value))


def _family(module: Module, receiver: cst.BaseExpression) -> list[Definition]:
    """Return the classes of other files that the receiver of a call inherits from, nearest
    first."""
    cls = module.class_of(receiver)
    match receiver:
        case cst.Name("self" | "cls") | cst.Call(cst.Name("super")) if cls is not None:
            return list(classes_of_instance(module, Value("object", node=cls)))
    return list(classes_of_instance(module, inferred(module, receiver)))


@frozen
class Calling:
    """How often a function is called from other files, the evidence from the call on, and whether
    it takes what is off by default, or what nothing uses."""

    grade: Grade
    why: tuple[Link, ...]
    optional: bool

    @property
    def order(self) -> tuple[float, Grade]:
        """Where it stands among the others, see `Heat.order`."""
        return Heat(self.grade, optional=self.optional).order


Sites = Callable[[Definition], Iterable[CallSite]]


def hottest(
    definition: Definition, sites: Sites, often: Callable[[Definition], bool]
) -> Calling | None:
    """Return the most frequent call of a function, through callers of callers; the nearest where
    several are hot.

    Args:
        definition: the function.
        sites: gives the calls of one.
        often: says whether one may be called often at all.
    """
    best: Calling | None = None
    seen = {definition}
    level: list[tuple[Definition, tuple[Link, ...]]] = [(definition, ())]
    for _ in range(HOPS):
        above: list[tuple[Definition, tuple[Link, ...]]] = []
        for at, way in level:
            for site in sites(at) if often(at) else ():
                found = Calling(site.grade, (*way, *site.why), site.optional)
                best = found if best is None else max(best, found, key=lambda each: each.order)
                if best.grade is Grade.TRAIN and not best.optional:
                    return best
                for name, links in site.entrances:
                    caller = Definition(site.path, name, MEMBER)
                    if caller not in seen:
                        seen.add(caller)
                        above.append((caller, (*way, *links)))
        if best is not None and best.order >= (Grade.FORWARD, Grade.FORWARD):
            break
        level = above
    return best if best is not None and best.grade > Grade.COLD else None


def graphless(definition: Definition, sites: Sites) -> set[bool | None]:
    """Return what the calls of a function say of autograd being off, through callers of callers, up
    to the first that says otherwise than one before it; nothing where there are none."""
    return _graphless(definition, sites, frozenset(), HOPS)


def _graphless(
    definition: Definition, sites: Sites, seen: frozenset[Definition], hops: int
) -> set[bool | None]:
    found: set[bool | None] = set()
    for site in sites(definition):
        above: set[bool | None] = set()
        if site.no_grad is False and hops:
            for name, _ in site.entrances:
                caller = Definition(site.path, name, MEMBER)
                if caller not in seen:
                    above |= _graphless(caller, sites, seen | {caller}, hops - 1)
        found |= above or {site.no_grad}
        if len(found) > 1:
            break
    return found
