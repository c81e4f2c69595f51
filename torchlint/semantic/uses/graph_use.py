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
from torchlint.semantic.code.bindings import sole_definition
from torchlint.semantic.code.conditions import conditions_around
from torchlint.semantic.code.flow import call_sites, callees_of, escapes
from torchlint.semantic.code.handed_classes import hands_on
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import assigned_to, definitions_of, readers_of
from torchlint.semantic.code.scopes import base_names, method_of, scopes
from torchlint.semantic.code.tree import attr_of, targets_of
from torchlint.semantic.code.updates import is_step, updates
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import callers_outside
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.spelling import CRITERION, METRIC, SHOWING, called
from torchlint.semantic.uses.gradients import switches_off, written_out
from torchlint.semantic.uses.observers import is_stored
from torchlint.semantic.uses.value_search import ValueSearch, parameter_of
from torchlint.semantic.values.classes import is_network
from torchlint.semantic.values.definitions_behind import classes, method, named
from torchlint.semantic.values.inferred import inferred, is_model_call
from torchlint.semantic.values.value import CLASSES, Value

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
_REGISTERS = ("register_parameter", "add_module", "register_module", "setattr", "Parameter")
_LEARNS = ("module", "tensor")
"""Kinds of attributes that may be trained."""
_PLAIN = ("number", "str", "bool", "none", "ndarray", "device")
_PLAIN_BASES = frozenset(("torch.nn.Module", "abc.ABC"))
_STATELESS = ops.dotted("layer", "stateless")
_TRANSFORMS = ("torchaudio.transforms.", "torchvision.transforms.")
"""Packages of layers without parameters."""
_GROWS = frozenset(("append", "extend", "insert", "appendleft", "setdefault"))
_OWN = _GROWS | {"clear", "pop", "popleft", "keys", "update", "add", "remove", "index"}
_BACK = frozenset(("backward", "manual_backward", "scale", "step", "minimize"))
_TRAINS = regex(r"backward|step|train|optim|update|fit|learn|grad|loss", re.IGNORECASE)
_NOT_RUNS = ("forward", "__init__", "__call__", "generate")
_FUEL = 500
_DEEP = 3


class GraphOutcome(enum.IntEnum):
    """What becomes of a graph in the end; higher is more."""

    UNREAD = 0
    """Nobody reads the value, or only its shape and the like."""
    DROPPED = 1
    """The value is read, and each way ends where no graph goes on."""
    SHOWN = 2
    """So it is, but on a way the tensor is written out with what it is: ``grad_fn=<...>``."""
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
            case cst.AugAssign(target=target):
                self.bound(target, above)
            case cst.If() | cst.While() | cst.Assert() | cst.Raise():
                self.end(GraphOutcome.DROPPED)
            case cst.Return():
                self._given_back(above)
            case cst.Subscript(value=value) if value is node:
                if not _stored_to(self.module, above):
                    self.value(above)
            case _ if written_out(self.module, above):
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
            case cst.Subscript(
                slice=[cst.SubscriptElement(slice=cst.Index(value=cst.Integer(value="1")))]
            ):
                self.end(GraphOutcome.DROPPED)
            case cst.Attribute(attr=cst.Name(value="indices")):
                self.end(GraphOutcome.DROPPED)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Tuple(elements=[first, second]))]):
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
            self._torch(call, arg, name)
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

    def _torch(self, call: cst.Call, arg: cst.Arg, name: str) -> None:
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
        for function in callees_of(self.module, call):
            if not isinstance(function, cst.FunctionDef):
                self.end(GraphOutcome.UNKNOWN)
                return
            method = scopes(self.module).is_method(function)
            self._into(self.module, function, call, arg, method)

    def _into(
        self,
        module: Module,
        function: cst.FunctionDef,
        call: cst.Call,
        arg: cst.Arg,
        method: bool,
    ) -> None:
        name = parameter_of(module, function, call, arg, method)
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
        if isinstance(func, cst.Attribute) and word in _GROWS:
            self.container(func.value)
        elif word in _BACK:
            self.end(GraphOutcome.WANTED)
        elif isinstance(func, cst.Attribute) and inferred(self.module, func.value).tensor:
            if word.endswith("_"):
                self.container(func.value)  # ``best.copy_(x)``: it takes the graph over.
            self.value(call)
        elif called(word, SHOWING):
            numbers = word.startswith("add_") or _formatted(self.module, call, arg)
            self.end(GraphOutcome.DROPPED if numbers else GraphOutcome.SHOWN)
        elif self._elsewhere(call, arg):
            return
        elif (
            called(word, CRITERION)
            or self._computes(call, word)
            or name.startswith(_TRANSFORMS)
            or _is_transform(self.module, call.func)
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
        methods = list(_methods(self.module, func)) if isinstance(func, cst.Attribute) else []
        for where, callee in methods:
            self._into(where, callee, call, arg, True)
        found = named(self.module, func) if not methods else None
        if found is not None:
            self._into(*found, call, arg, False)
        return bool(methods) or found is not None

    # -- names, containers, attributes -------------------------------------------------------------

    def bound(self, target: cst.CSTNode, definition: cst.CSTNode) -> None:
        match target:
            case cst.Subscript(value=value):
                self.container(value)
            case cst.Attribute():
                self._kept(target)
            case _ if not self._returned_parts(target, definition):
                super().bound(target, definition)

    def container(self, node: cst.CSTNode) -> None:
        """Follow all that a container may hand out, into which the value was put."""
        while isinstance(node, cst.Subscript):
            node = node.value
        match node:
            case cst.Attribute():
                self._kept(node)
            case cst.Name(value=name):
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
            partial(_names_attribute, name), near=False
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
            self.module.outside.others_say(partial(_names, cls.name.value), near=False) is not False
        )

    def _sites(self, function: cst.FunctionDef) -> Iterator[tuple[Module, cst.Call]]:
        for site in call_sites(self.module, function):
            yield self.module, site
        for caller in callers_outside(self.module, function):
            yield caller.module, caller.call
        yield from _calls_elsewhere(self.module, function)


def _calls_elsewhere(
    module: Module, function: cst.FunctionDef
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the calls in other files of a function that no file hands on; none of a library, whose
    callers are not in view."""
    outside, name = module.outside, scopes(module).name_outside(function)
    if name is None or module.class_of(function) is not None or function.decorators:
        return
    handed = outside.others_say(partial(hands_on, name), near=False)
    if handed is False and not outside.of_library():
        yield from outside.calling(Definition(outside.path, name, ""))


def _calls_of_method(
    module: Module, function: cst.FunctionDef
) -> Iterator[tuple[Module, cst.Call]]:
    """Yield the calls of a method in other files: of objects, and in classes derived from its
    own."""
    name = scopes(module).name_outside(function)
    if name is not None and module.class_of(function) is not None:
        yield from module.outside.calling(Definition(module.outside.path, name, ""))


@question(ground=True)
def returned_with_graph(module: Module, call: cst.Call) -> list[bool] | None:
    """Say of each of several values that a call gives, whether the function may have recorded a
    graph for it; None where they are not known one by one."""
    functions: list[tuple[Module, cst.CSTNode]] = [(module, f) for f in callees_of(module, call)]
    if not functions and isinstance(call.func, cst.Attribute):
        functions = list(_methods(module, call.func))
    if len(functions) != 1 or not isinstance(functions[0][1], cst.FunctionDef):
        return None
    where, function = functions[0]
    returns = [r.value for r in where.within(function, cst.Return) if isinstance(r, cst.Return)]
    rows = [r.elements if isinstance(r, cst.Tuple) else () for r in returns]
    if len({len(row) for row in rows}) != 1 or any(True for _ in where.within(function, cst.Yield)):
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
        case cst.Name(value=name):
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
        case cst.Call(func=cst.Attribute(value=inner, attr=cst.Name(value=method))) if (
            module.name(node.func) is None
        ):
            if method in _CUTS or method in _WHOLE:
                return True
            if method == "sample":
                return inferred(module, node).grad is False
            return method in ops.ALIASING_METHODS and _computed_without_graph(module, inner)
        case cst.Call(func=func):
            return (module.name(func) or "") in _FUNCTIONS_CUT
        case cst.Attribute(attr=cst.Name(value=attr)):
            return attr in _CUTS
    return False


def _formatted(module: Module, call: cst.Call, arg: cst.Arg) -> bool:
    """Say whether the text whose ``format`` is called makes a number of what it is given."""
    text = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(text, cst.SimpleString):
        return False
    return "{}" not in text.value and "!" not in text.value


def _read_at_once(node: cst.CSTNode, above: cst.CSTNode) -> bool:
    """Say whether the host reads a value where it stands: compares it, formats it, indexes with
    it."""
    match above:
        case cst.UnaryOperation(operator=cst.Not()) | cst.IfExp():
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


# -- what records a graph --------------------------------------------------------------------------


@question(yes="`{0}` runs a model", no="`{0}` is not known to run a model")
def runs_module_method(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a method, other than `forward`, of a network of this project that runs
    its layers with autograd as the caller has it."""
    func = call.func
    if not isinstance(func, cst.Attribute):
        return False
    found = list(_methods(module, func))
    return bool(found) and all(_runs(where, method) for where, method in found)


def _methods(module: Module, func: cst.Attribute) -> Iterator[tuple[Module, cst.FunctionDef]]:
    """Yield the method of a network that an attribute stands for: of its class, or of the one class
    of this file that has a method of that name."""
    name = func.attr.value
    for receiver in _instances(module, func.value):
        found = method(module, receiver, name)
        if found is not None:
            yield found
    if inferred(module, func.value).kind == "?" and module.name(func) is None:
        yield from _alone(module, dotted_text(func.value), name)


def _instances(module: Module, node: cst.BaseExpression) -> list[Value]:
    """Return the networks that an expression may be: of ``self.x``, all that the class assigns to
    it."""
    found = inferred(module, node)
    if found.kind != "module":
        return []
    cls = module.class_of(node)
    one = found.name is not None and CLASSES not in found.name
    known = isinstance(found.node, cst.ClassDef) or one
    if known or cls is None or dotted_text(node) is None:
        return [found]
    assigned = [inferred(module, value) for value in assigned_to(module, node)]
    return [value for value in assigned if value.kind == "module"] or [found]


def _alone(
    module: Module, receiver: str | None, name: str
) -> Iterator[tuple[Module, cst.FunctionDef]]:
    """Yield the method of that name, where one class of this file alone has it, is a network, and
    the file elsewhere gives an instance of it the receiver's name."""
    methods = [f for f in scopes(module).functions_named(name) if module.class_of(f) is not None]
    method = methods[0] if len(methods) == 1 else None
    cls = module.class_of(method) if method is not None else None
    if method is None or cls is None or receiver is None or not is_network(module, cls):
        return
    named = [
        assign.value
        for assign in module.nodes(cst.Assign)
        if dotted_text(assign.targets[0].target) == receiver
    ]
    if any(inferred(module, value).node is cls for value in named):
        yield module, method


def _runs(
    module: Module, method: cst.FunctionDef, seen: frozenset[cst.FunctionDef] = frozenset()
) -> bool:
    """Say whether a method of a network runs a part of it, itself or by another one of its methods,
    and leaves autograd as it is."""
    if method.name.value in _NOT_RUNS or any(True for _ in module.within(method, cst.Yield)):
        return False
    calls = list(module.within(method, cst.Call))
    if _trains(module, method):
        return False
    runs = [
        call
        for call in calls
        if (is_model_call(module, call) and not _generates(module, call.func))
        or any(_runs(module, each, seen | {method}) for each in _own(module, call) - seen)
    ]
    inside = scopes(module)
    return bool(runs) and not any(
        inside.lexical_no_grad(call) is True or inside.conditional_grad(call) for call in runs
    )


def _own(module: Module, call: cst.Call) -> set[cst.FunctionDef]:
    """Return the methods of this file that ``self.m()`` may run."""
    match call.func:
        case cst.Attribute(value=cst.Name("self")):
            found = callees_of(module, call)
            return {each for each in found if isinstance(each, cst.FunctionDef)}
    return set()


@question(yes="`{0}` may be a training step of its own", no="`{0}` does not train the model itself")
def may_train_itself(module: Module, call: cst.Call) -> bool:
    """Say whether a call is a method of a network that back-propagates or makes optimizer steps
    itself, and needs its graph for that; ``forward_step()`` of an unknown class may be one."""
    func = call.func
    if not isinstance(func, cst.Attribute):
        return False
    found = list(_methods(module, func))
    found = found or list(_alone(module, dotted_text(func.value), func.attr.value))
    if not found:
        return func.attr.value.startswith("forward_")
    return any(_trains(where, method) for where, method in found)


def _trains(module: Module, method: cst.FunctionDef) -> bool:
    steps = any(is_step(module, call) for call in module.within(method, cst.Call))
    return steps or updates(module).is_step_function(method)


@question(
    yes="the class switches off the gradients of its own parameters",
    no="the class leaves its parameters trainable",
)
def freezes_itself(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the class of a model switches off gradients: of its parameters, or for its
    `forward`; or the network whose part it is does."""
    home = module.class_of(model)
    classes = list(model_classes(module, model))
    if home is not None and is_network(module, home):
        classes.append((module, home))
    return any(_freezes(where, cls) for where, cls in classes)


@question(remember=False)
def model_classes(
    module: Module, model: cst.BaseExpression
) -> Iterator[tuple[Module, cst.ClassDef]]:
    """Yield the classes of the project that a model may be of, with their files."""
    for value in _instances(module, model):
        yield from classes(module, value)


@question(
    yes="running the model keeps something in it", no="running the model is not seen to keep more"
)
def keeps_what_it_computes(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the `forward` of a model's class stores or collects something on `self`, whose
    graph may be asked for later."""
    for where, cls in model_classes(module, model):
        forward = method_of(where, cls, "forward")
        for node in where.within(forward, cst.Attribute) if forward is not None else ():
            above = where.parent(node)
            grown = attr_of(above) in _GROWS
            if dotted_text(node.value) == "self" and (grown or _stored_to(where, node)):
                return True
    return False


def _names(name: str, text: str) -> bool:
    """Say whether a text holds a name."""
    return name in text


def _names_attribute(name: str, text: str) -> bool:
    """Say whether a text holds an attribute's name."""
    return f".{name}" in text


@question(
    yes="the `forward` of `{0}` runs under no_grad", no="the `forward` of `{0}` records its graph"
)
def records_nothing(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether the `forward` of a model's class, of this file or another one, runs all that it
    runs with autograd off, or the class has nothing that could be trained."""
    classes = list(model_classes(module, model))
    silent = bool(classes) and all(_silent(where, cls) for where, cls in classes)
    return silent or has_no_parameters(module, model)


@question(yes="`{0}` has no parameters", no="`{0}` may have parameters")
def has_no_parameters(module: Module, model: cst.BaseExpression) -> bool:
    """Say whether a network, or what makes one, is of layers and classes of which none has
    parameters."""
    if isinstance(model, cst.Call) and _is_stateless(module.called(model)):
        return True
    known = inferred(module, model)
    if known.kind == "module" and known.name in _STATELESS:
        return True
    classes = list(model_classes(module, model))
    return bool(classes) and all(_learns_nothing(where, cls) for where, cls in classes)


def _is_stateless(name: str) -> bool:
    return name in _STATELESS or name.startswith(_TRANSFORMS)


def _is_transform(module: Module, func: cst.BaseExpression) -> bool:
    """Say whether a callee is an object of these packages: ``Resize(128)(x)``."""
    if "transforms" not in module.text:
        return False
    made = [func] if isinstance(func, cst.Call) else assigned_to(module, func)
    alone = sole_definition(module, func) if isinstance(func, cst.Name) else None
    made = [alone] if alone is not None else made
    return bool(made) and all(
        isinstance(each, cst.Call) and module.called(each).startswith(_TRANSFORMS) for each in made
    )


def _learns_nothing(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether a class that derives from Module alone keeps numbers, buffers and parts without
    parameters, and no parameter."""
    if set(base_names(module, cls)) - _PLAIN_BASES:
        return False
    bodies = [each.body for each in scopes(module).lineage(cls)]
    calls = [each for body in bodies for each in module.within(body, cst.Call, nested=True)]
    if any((dotted_text(c.func) or "").rpartition(".")[2] in _REGISTERS for c in calls):
        return False
    bound: list[cst.Assign | cst.AnnAssign] = [
        assign
        for body in bodies
        for assign in module.within(body, cst.Assign, cst.AnnAssign, nested=True)
        if isinstance(assign, (cst.Assign, cst.AnnAssign))
    ]
    return all(
        inferred(module, assign.value).kind in _PLAIN or has_no_parameters(module, assign.value)
        for assign in bound
        if assign.value is not None
        and any(
            dotted_text(kept.value) == "self"
            for target in targets_of(assign)
            for kept in module.within(target, cst.Attribute)
        )
    )


def _silent(module: Module, cls: cst.ClassDef) -> bool:
    """Say whether the `forward` of a class is under ``no_grad``: as a whole, or all layers that it
    calls, of parameters of its own nothing being read."""
    forward = method_of(module, cls, "forward")
    if forward is None:
        return False
    if scopes(module).lexical_no_grad(forward.body.body[0]) is True:
        return True
    used = [
        node
        for node in module.within(forward.body, cst.Attribute)
        if dotted_text(node.value) == "self" and inferred(module, node).kind in ("?", *_LEARNS)
    ]
    run = [node for node in used if _is_run(module, node)]
    alone = any(
        _generates(module, module.parent(node)) or _chooses(module, node, forward) for node in run
    )
    return bool(run) and all(
        scopes(module).lexical_no_grad(node) is True
        or _generates(module, module.parent(node))
        or _chooses(module, node, forward)
        for node in (run if alone else used)
    )


def _chooses(module: Module, part: cst.CSTNode, forward: cst.FunctionDef) -> bool:
    """Say whether an attribute of the network decides whether it runs a part, or does so under
    ``no_grad``."""
    tests = {
        (test, not needed)
        for test, needed in conditions_around(module, part, forward)
        if any(dotted_text(node.value) == "self" for node in module.within(test, cst.Attribute))
    }
    return bool(tests) and any(
        scopes(module).lexical_no_grad(block.body.body[0]) is True
        and not tests.isdisjoint(conditions_around(module, block, forward))
        for block in module.within(forward.body, cst.With)
    )


def _is_run(module: Module, part: cst.Attribute) -> bool:
    """Say whether a network calls a part of its own, or has it generate."""
    above = module.parent(part)
    return isinstance(above, cst.Call) or _generates(module, above)


def _generates(module: Module, func: cst.CSTNode | None) -> bool:
    """Say whether `func` is called to generate, which networks of other libraries do with autograd
    off, and those of the project where they say so."""
    call = module.parent(func)
    if not isinstance(func, cst.Attribute) or func.attr.value != "generate":
        return False
    return (
        isinstance(call, cst.Call)
        and call.func is func
        and all(
            scopes(where).lexical_no_grad(method.body.body[0]) is True
            for where, method in _methods(module, func)
        )
    )


def _freezes(module: Module, cls: cst.ClassDef) -> bool:
    silent = _silent(module, cls)
    return silent or switches_off(module.source(cls))
