"""Whether the autograd graph of a value is ever asked for: by what becomes of the value, not by
names.

The value is followed through names, containers, attributes, functions of the project and returns
to its callers, until it is back-propagated, leaves what is known, or ends where no graph goes on:
in `detach()`, positions and truth values, numbers, text, files.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from functools import partial

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.flow import call_sites, callees_of, escapes
from torchlint.semantic.code.handed_classes import hands_on
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.tree import is_name, root_of
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import CRITERION, METRIC, SHOWING, called
from torchlint.semantic.uses.gradients import written_out
from torchlint.semantic.uses.networks import GROWS, TRANSFORMS, is_transform, methods_of
from torchlint.semantic.uses.observers import is_stored
from torchlint.semantic.uses.value_search import ValueSearch, parameter_of
from torchlint.semantic.values.definitions_behind import named
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.unknown_objects import calls_of_unknown

_CUTS = ops.having("cuts")
_WANTS = ops.having("wants-graph")
_WHOLE = ops.INT_METHODS | ops.BOOL_METHODS
_PAIRS = ops.having("second-whole")
_NEW = ops.having("new")
_READS = ops.having("reads") - {"numpy"}
_FUNCTIONS_CUT = frozenset(
    name for name in ops.dotted("gives-int") | ops.dotted("gives-bool") | ops.dotted("truth")
)
_WRITE_OUT = ("print", "str", "repr", "format")
_NEVER_RAISE = ("float", "int", "bool", "round", "complex")
_FACTS = frozenset(("len", "isinstance", "type", "id", "hasattr", "callable", "hash"))
_PASSING = frozenset(
    "sum max min abs list tuple set dict sorted reversed iter next map getattr".split()
)
_OUT_OF_REACH = frozenset("numpy matplotlib sklearn scipy seaborn skimage cv2 PIL pandas".split())
_OWN = GROWS | {"clear", "pop", "popleft", "keys", "update", "add", "remove", "index"}
_BACK = frozenset(("backward", "manual_backward", "scale", "step", "minimize"))
_TRAINS = regex(r"backward|step|train|optim|update|fit|learn|grad|loss", re.IGNORECASE)
_FUEL = 500
_DEEP = 3


class GraphOutcome(enum.IntEnum):
    """What becomes of a graph in the end; higher is more."""

    UNREAD = 0
    """Nobody reads the value, or only its shape and the like."""
    DROPPED = 1
    """The value is read, and each way ends where no graph goes on."""
    SHOWN = 2
    """So it is, but on a way the tensor is written out with what it is, ``grad_fn=<...>``, or asked
    which object it is."""
    UNKNOWN = 3
    """A way leaves what is known."""
    WANTED = 4
    """The value is back-propagated."""

    @property
    def ended(self) -> bool:
        """The value is read, and no graph goes on."""
        return self in (GraphOutcome.DROPPED, GraphOutcome.SHOWN)


@question(yes="{answer} becomes of the graph of `{0}`", no="nobody reads `{0}`")
def graph_fate(module: Module, node: cst.CSTNode, *, nothing_trains: bool = False) -> GraphOutcome:
    """Say what becomes of the graph that an expression's value carries.

    Where `nothing_trains`, a function that is not known and whose result is used is taken to
    compute it from its arguments, and to do nothing else with them.
    """
    return graph_end(module, node, nothing_trains=nothing_trains)[0]


@question()
def graph_end(
    module: Module, node: cst.CSTNode, *, nothing_trains: bool = False
) -> tuple[GraphOutcome, cst.CSTNode]:
    """Return what becomes of the graph that an expression's value carries, and the expression
    where that is seen."""
    way = _GraphSearch(module, None, _DEEP, nothing_trains)
    way.recorder = node
    way.value(node)
    way.run()
    return way.worst, way.where


@question()
def handed_on(module: Module, function: cst.FunctionDef, node: cst.CSTNode) -> bool:
    """Say whether a value reaches the `return` of its function, and the function itself makes
    nothing of its graph."""
    way = _GraphSearch(module, function, _DEEP, True)
    way.value(node)
    way.run()
    return way.returned and way.worst <= GraphOutcome.SHOWN


@question()
def parameter_fate(
    module: Module, function: cst.FunctionDef, name: str, depth: int, nothing_trains: bool = False
) -> tuple[GraphOutcome, bool]:
    """Say what a function makes of the graph that a parameter carries, and whether it gives it
    back."""
    way = _GraphSearch(module, function, depth, nothing_trains)
    way.name(function, name)
    way.run()
    return way.worst, way.returned


class _GraphSearch(ValueSearch):
    """One search; inside a function that the value was given to, `return` is told and not
    followed."""

    def __init__(
        self,
        module: Module,
        inside: cst.FunctionDef | None,
        depth: int,
        nothing_trains: bool = False,
    ) -> None:
        super().__init__(module, _FUEL)
        self.nothing_trains = nothing_trains
        self.inside = inside
        self.depth = depth
        self.recorder: cst.CSTNode | None = None
        self.worst = GraphOutcome.UNREAD
        self.where: cst.CSTNode = module.root
        self._at: cst.CSTNode = module.root
        self.returned = False
        self._todo: list[cst.CSTNode] = []

    def end(self, fate: GraphOutcome) -> None:
        if fate > self.worst:
            self.worst, self.where = fate, self._at

    # -- expressions -------------------------------------------------------------------------------

    def unknown(self, node: cst.CSTNode, definition: cst.CSTNode | None = None) -> None:
        self.end(GraphOutcome.UNKNOWN)

    def value(self, node: cst.CSTNode) -> None:
        if not self.known(node):
            self._todo.append(node)

    def run(self) -> None:
        """Follow all that is noted, until the answer cannot change."""
        while self._todo and self.worst < GraphOutcome.WANTED:
            self._at = self._todo.pop()
            self.around(self._at)

    def used(self, node: cst.CSTNode, above: cst.CSTNode) -> None:
        match above:
            case cst.AugAssign(target):
                self.bound(target, above)
            case cst.If() | cst.While() | cst.Assert() | cst.Raise():
                self.end(GraphOutcome.DROPPED)
            case cst.Return():
                self._given_back(above)
            case cst.Subscript(value) if value is node:
                if not _stored_to(self.module, above):
                    self.value(above)
            case _ if written_out(self.module, above) or _asks_which(self.module, above):
                self.end(GraphOutcome.SHOWN)
            case _ if _read_at_once(node, above):
                self.end(GraphOutcome.DROPPED)
            case cst.StarredElement():
                self.value(self.module.tree.parents[above])
            case cst.CompFor() | cst.CompIf() | cst.Lambda() | cst.Yield() | cst.Await():
                self.end(GraphOutcome.UNKNOWN)
            case cst.BaseSmallStatement() | cst.BaseCompoundStatement():
                self.end(GraphOutcome.UNKNOWN)
            case _:
                self.value(above)

    def _returned_parts(self, target: cst.CSTNode, assign: cst.CSTNode) -> bool:
        """Follow ``a, b = f(x)`` to those names alone for which the function returns what may have
        a graph; say whether its parts are known one by one."""
        if not (
            isinstance(target, cst.Tuple)
            and isinstance(assign, cst.Assign)
            and isinstance(assign.value, cst.Call)
            and assign.value is self.recorder
        ):
            return False  # What it was given may have a graph of its own.
        count = len(target.elements)
        parts = returned_with_graph(self.module, assign.value)
        if parts is None or len(parts) != count:
            return False
        for place, recorded in enumerate(parts):
            if recorded:
                self.part(target, place, count, assign)
            elif any(
                readers_of(self.module, assign, name.value)
                for name in self.module.within(target.elements[place], cst.Name)
            ):
                self.end(GraphOutcome.DROPPED)
        return True

    def attribute(self, node: cst.Attribute) -> None:
        name, above = node.attr.value, self.module.parent(node)
        if isinstance(above, cst.Call) and above.func is node:
            # Follow the value into the result of its own method.
            if name in _WANTS or name in _BACK:
                self.end(GraphOutcome.WANTED)
            elif name in _CUTS or name in _READS or name in _WHOLE:
                self.end(GraphOutcome.DROPPED)
            elif name in ("numpy", "requires_grad_"):
                self.end(GraphOutcome.UNKNOWN)  # It raises where there is a graph.
            elif inferred(self.module, above).grad is False and name == "sample":
                self.end(GraphOutcome.DROPPED)
            elif name in _PAIRS and above.args:
                self._pair(above)
            elif name not in ops.HOST_METHODS and name not in _OWN and name not in _NEW:
                self.value(above)
        elif name in _CUTS:
            self.end(GraphOutcome.DROPPED)
        elif name in ("grad", "grad_fn"):
            self.end(GraphOutcome.WANTED)
        elif name in ("requires_grad", "is_leaf"):
            self.end(GraphOutcome.SHOWN)
        elif name not in ops.HOST_ATTRIBUTES and not _stored_to(self.module, node):
            self.value(node)

    def _pair(self, call: cst.Call) -> None:
        """Follow the first of two tensors, of which the second is of positions."""
        above = self.module.parent(call)
        match above:
            case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(cst.Integer("1")))]):
                self.end(GraphOutcome.DROPPED)
            case cst.Attribute(attr=cst.Name("indices")):
                self.end(GraphOutcome.DROPPED)
            case cst.Assign([cst.AssignTarget(cst.Tuple([first, second]))]):
                if any(
                    readers_of(self.module, above, name.value)
                    for name in self.module.within(second, cst.Name)
                ):
                    self.end(GraphOutcome.DROPPED)
                self.bound(first.value, above)
            case _:
                self.value(call)

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, call: cst.Call, arg: cst.Arg) -> None:
        name = self.module.called(call)
        package, _, last = name.partition(".")
        if package == "builtins":
            self._builtin(call, arg, last)
        elif package == "torch":
            self._torch(call, name)
        elif package == "torchvision" and "utils" in name:
            self.end(GraphOutcome.DROPPED)  # ``make_grid`` and ``save_image`` run under no_grad.
        elif package == "math":
            self.end(GraphOutcome.DROPPED)
        elif package in _OUT_OF_REACH:
            self.end(GraphOutcome.UNKNOWN)  # An array of it would raise, so there is no graph here.
        elif inferred(self.module, call.func).kind == "module":
            self.value(call)
        elif callees_of(self.module, call):
            self._called(call, arg)
        else:
            self._unresolved(call, arg, name)

    def _builtin(self, call: cst.Call, arg: cst.Arg, name: str) -> None:
        if name in _WRITE_OUT:
            self.end(GraphOutcome.SHOWN)
        elif name in _NEVER_RAISE:
            self.end(GraphOutcome.DROPPED)
        elif name in ("zip", "enumerate"):
            self.zipped(call, arg)
        elif name in _PASSING:
            self.value(call)
        elif name not in _FACTS:
            self.end(GraphOutcome.UNKNOWN)

    def _torch(self, call: cst.Call, name: str) -> None:
        last = name.rpartition(".")[2]
        if name == "torch.autograd.Variable":
            self.value(call)
        elif name.startswith(("torch.autograd.", "torch.func.")):
            self.end(GraphOutcome.WANTED)
        elif name in ops.FACTORIES:
            return  # ``randn_like(x)`` asks for its shape.
        elif name == "torch.save":
            self.end(GraphOutcome.SHOWN)
        elif name in _FUNCTIONS_CUT:
            self.end(GraphOutcome.DROPPED)
        elif last in _PAIRS and len(call.args) > 1:
            self._pair(call)
        elif name not in ops.NO_TENSOR:
            self.value(call)

    def _called(self, call: cst.Call, arg: cst.Arg) -> None:
        """Follow an argument into the functions of this file that a call may reach."""
        functions = callees_of(self.module, call)
        for function in functions:
            if not isinstance(function, cst.FunctionDef) or _is_overridden(
                self.module, function, alone=len(functions) == 1
            ):
                self.end(GraphOutcome.UNKNOWN)
                return
            self._into(self.module, function, call, arg)

    def _into(
        self, module: Module, function: cst.FunctionDef, call: cst.Call, arg: cst.Arg
    ) -> None:
        name = parameter_of(module, function, call, arg)
        if name is None or not self.depth:
            self.end(GraphOutcome.UNKNOWN)
            return
        asked = parameter_fate(module, function, name, self.depth - 1, self.nothing_trains)
        if asked is None:
            return  # A recursive call adds nothing.
        fate, returned = asked
        self.end(fate)
        if returned:
            self.value(call)

    def _unresolved(self, call: cst.Call, arg: cst.Arg, name: str) -> None:
        func = call.func
        word = (dotted_text(func) or name).rpartition(".")[2]
        if isinstance(func, cst.Attribute) and word in GROWS:
            self.container(func.value)
        elif word in _BACK:
            self.end(GraphOutcome.WANTED)
        elif isinstance(func, cst.Attribute) and inferred(self.module, func.value).tensor:
            if word.endswith("_"):
                self.container(func.value)  # ``best.copy_(x)``: it takes the graph over.
            self.value(call)
        elif called(word, SHOWING):
            numbers = word.startswith("add_") or _formatted(call)
            self.end(GraphOutcome.DROPPED if numbers else GraphOutcome.SHOWN)
        elif self._elsewhere(call, arg):
            return
        elif (
            called(word, CRITERION)
            or self._computes(call, word)
            or name.startswith(TRANSFORMS)
            or is_transform(self.module, call.func)
        ):
            self.value(call)
        else:
            self.end(GraphOutcome.UNKNOWN)

    def _computes(self, call: cst.Call, word: str) -> bool:
        """Say whether a function that is not known only computes its result, as metrics do."""
        if isinstance(self.module.parent(call), cst.Expr):
            return False
        return called(word, METRIC) or (self.nothing_trains and not _TRAINS.search(word))

    def _elsewhere(self, call: cst.Call, arg: cst.Arg) -> bool:
        """Follow an argument into a function of another file, or a method of a network there; say
        whether there is one."""
        func = call.func
        methods = list(methods_of(self.module, func)) if isinstance(func, cst.Attribute) else []
        for where, callee in methods:
            self._into(where, callee, call, arg)
        found = named(self.module, func) if not methods else None
        if found is not None:
            self._into(*found, call, arg)
        return bool(methods) or found is not None

    # -- names, containers, attributes -------------------------------------------------------------

    def bound(self, target: cst.CSTNode, definition: cst.CSTNode) -> None:
        match target:
            case cst.Subscript(value):
                self.container(value)
            case cst.Attribute():
                self._kept(target)
            case _ if not self._returned_parts(target, definition):
                super().bound(target, definition)

    def container(self, node: cst.CSTNode) -> None:
        """Follow all that a container may hand out, into which the value was put."""
        node = root_of(node, cst.Subscript)
        match node:
            case cst.Attribute():
                self._kept(node)
            case cst.Name(name):
                made = definitions_of(self.module, node)
                if not made or any(isinstance(each, cst.FunctionDef) for each in made):
                    self.end(GraphOutcome.UNKNOWN)
                for each in made:
                    self.name(each, name)
            case _:
                self.end(GraphOutcome.UNKNOWN)

    def _kept(self, node: cst.Attribute) -> None:
        """Follow the reads of ``self.x``: those of its class, where other files may read it."""
        cls = self.module.class_of(node)
        name = node.attr.value
        if dotted_text(node.value) != "self" or cls is None:
            self.end(GraphOutcome.UNKNOWN)
            return
        if self.known(cls, name):
            return
        others = scopes(self.module).family_outside(cls) or self.module.outside.others_say(
            partial(says_attribute, name)
        )
        if others:
            self.end(GraphOutcome.UNKNOWN)
        for read in self.module.nodes(cst.Attribute):
            mine = not others or self.module.class_of(read) is cls
            if read.attr.value == name and mine and not _stored_to(self.module, read):
                self.value(read)

    # -- returns -----------------------------------------------------------------------------------

    def _given_back(self, statement: cst.CSTNode) -> None:
        function = self.module.function(statement)
        if function is self.inside:
            self.returned = True
        elif function is None or self.inside is not None:
            self.end(GraphOutcome.UNKNOWN)
        else:
            sites = list(self._sites(function))
            if not sites or escapes(self.module, function) or self._called_as_object(function):
                self.end(GraphOutcome.UNKNOWN)
            # Those alone prove nothing: what is wasted there is said there.
            for module, site in (*sites, *_calls_of_method(self.module, function)):
                if module is self.module:
                    self.value(site)
                elif self.depth:
                    found = graph_fate(module, site, nothing_trains=self.nothing_trains)
                    self.end(found or GraphOutcome.UNREAD)

    def _called_as_object(self, function: cst.FunctionDef) -> bool:
        """Say whether a function is the forward of a network of which another file speaks, which
        may call it as ``net(x)``."""
        cls = self.module.class_of(function) if function.name.value == "forward" else None
        return cls is not None and (
            self.module.outside.others_say(partial(says_name, cls.name.value)) is not False
        )

    def _sites(self, function: cst.FunctionDef) -> Iterator[tuple[Module, cst.Call]]:
        for site in call_sites(self.module, function):
            yield self.module, site
        for caller in callers_outside(self.module, function):
            yield caller.module, caller.call
        yield from _calls_elsewhere(self.module, function)


@question(
    yes="a class derived from its own has a method `{0}` itself",
    no="no class derived from its own has a method `{0}` itself",
)
def _is_overridden(module: Module, function: cst.FunctionDef, *, alone: bool) -> bool:
    """Say whether another may run in place of a method: it is a stub, the only one in its file, or
    another file derives a class from its own and has a method of its name."""
    cls = module.class_of(function) if module.is_method(function) else None
    if cls is None:
        return False
    names = (function.name.value, cls.name.value)
    return (alone and values(module).is_abstract(function)) or (
        module.outside.others_say(partial(_overrides, *names)) is not False
    )


def _overrides(method: str, cls: str, text: str) -> bool:
    return (
        f"def {method}(" in text
        and cls in text
        and bool(re.search(rf"^\s*class \w+\([^)]*\b{re.escape(cls)}\b", text, re.MULTILINE))
    )


@question(yes="`{0}` is called", no="no call of `{0}` is in view")
def calls_in_view(module: Module, function: cst.FunctionDef) -> list[tuple[Module, cst.Call]]:
    """Return the calls of a function in this file and in others, and those that may be of it: of a
    method of its name."""
    return [
        *((module, site) for site in call_sites(module, function)),
        *((caller.module, caller.call) for caller in callers_outside(module, function)),
        *_calls_of_method(module, function),
    ]


def _calls_elsewhere(
    module: Module, function: cst.FunctionDef
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the calls in other files of a function that no file hands on; none of a library, whose
    callers are not in view."""
    outside, name = module.outside, scopes(module).name_outside(function)
    if name is None or module.class_of(function) is not None or function.decorators:
        return
    handed = outside.others_say(partial(hands_on, name))
    if handed is False and not outside.of_library():
        yield from outside.calling(Definition(outside.path, name, ""))


def _calls_of_method(
    module: Module, function: cst.FunctionDef
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the calls of a method in other files, of objects and in classes derived from its own,
    and those in this file of what may be such an object."""
    yield from ((module, call) for call in calls_of_unknown(module, function))
    name = scopes(module).name_outside(function)
    if name is not None and module.class_of(function) is not None:
        yield from module.outside.calling(Definition(module.outside.path, name, ""))


@question(ground=True)
def returned_with_graph(module: Module, call: cst.Call) -> list[bool] | None:
    """Say of each of several values that a call gives, whether the function may have recorded a
    graph for it; None where they are not known one by one."""
    functions: list[tuple[Module, cst.CSTNode]] = [(module, f) for f in callees_of(module, call)]
    if not functions and isinstance(call.func, cst.Attribute):
        functions = list(methods_of(module, call.func))
    if len(functions) != 1 or not isinstance(functions[0][1], cst.FunctionDef):
        return None
    where, function = functions[0]
    returns = [r.value for r in where.within(function, cst.Return)]
    rows = [r.elements if isinstance(r, cst.Tuple) else () for r in returns]
    if len({len(row) for row in rows}) != 1 or where.contains(function, cst.Yield):
        return None
    return [
        not all(
            isinstance(e, cst.Element) and _computed_without_graph(where, e.value) for e in part
        )
        for part in zip(*rows, strict=True)
    ]


@question(yes="`{0}` has no graph of its function", no="`{0}` may have a graph")
def _computed_without_graph(module: Module, node: cst.BaseExpression) -> bool:
    """Say whether the function that computes a value records no graph for it: it gives positions,
    truth values or samples, detaches it, or was given it as it is."""
    match node:
        case cst.Name(name):
            made = definitions_of(module, node)
            return bool(made) and all(
                each is module.function(node)
                or (
                    isinstance(each, cst.Assign)
                    and dotted_text(each.targets[0].target) == name
                    and _computed_without_graph(module, each.value)
                )
                for each in made
            )
        case cst.Call(cst.Attribute(inner, cst.Name(method))) if module.name(node.func) is None:
            if method in _CUTS or method in _WHOLE:
                return True
            if method == "sample":
                return inferred(module, node).grad is False
            return method in ops.ALIASING_METHODS and _computed_without_graph(module, inner)
        case cst.Call(func):
            return (module.name(func) or "") in _FUNCTIONS_CUT
        case cst.Attribute(attr=cst.Name(attr)):
            return attr in _CUTS
    return False


def _formatted(call: cst.Call) -> bool:
    """Say whether the text whose ``format`` is called makes a number of what it is given."""
    text = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(text, cst.SimpleString):
        return False
    return "{}" not in text.value and "!" not in text.value


def _asks_which(module: Module, above: cst.CSTNode) -> bool:
    """Say whether a comparison asks if a value is another object: `x is y`."""
    whole = module.parent(above) if isinstance(above, cst.ComparisonTarget) else above
    match whole:
        case cst.Comparison(_, [cst.ComparisonTarget(cst.Is() | cst.IsNot(), other)]):
            return not is_name(other, "None")
    return False


def _read_at_once(node: cst.CSTNode, above: cst.CSTNode) -> bool:
    """Say whether the host reads a value where it stands: compares it, formats it, indexes with
    it."""
    match above:
        case cst.UnaryOperation(cst.Not()) | cst.IfExp():
            return isinstance(above, cst.UnaryOperation) or above.test is node
        case cst.BinaryOperation(
            operator=cst.Modulo(), left=cst.SimpleString() | cst.ConcatenatedString()
        ):
            return True
    return isinstance(
        above,
        (
            cst.Index,
            cst.Slice,
            cst.SubscriptElement,
            cst.Comparison,
            cst.ComparisonTarget,
            cst.FormattedStringExpression,
        ),
    )


def _stored_to(module: Module, node: cst.CSTNode) -> bool:
    """Say whether an attribute or a subscript is written and not read."""
    return is_stored(module, node) and not isinstance(module.parent(node), cst.AugAssign)


def says_name(name: str, text: str) -> bool:
    """Say whether a text holds a name."""
    return name in text


def says_attribute(name: str, text: str) -> bool:
    """Say whether a text holds an attribute's name."""
    return f".{name}" in text
