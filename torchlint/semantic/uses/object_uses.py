"""What is done with one object, under all its names: who looks at it, computes with it, writes it,
or takes it away.

An object is followed from an expression through the names it is bound to, the containers it is put
into, its parts and its views. The answer is closed: a use that is not understood is an escape, so
what is not listed does not happen.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.bindings import names_of_outer_scopes
from torchlint.semantic.code.flow import callees_of, reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, has_star, keyword_of
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.params import bind

_COPYING_NUMPY = frozenset(
    f"numpy.{name}"
    for name in (
        "array sum mean std var max min median argmax argmin unique concatenate stack"
    ).split()
)
_LOOKS = ops.HOST_METHODS - {"register_hook", "data_ptr", "type"}
_READS = frozenset(("item", "tolist"))
_GROWS = frozenset(("append", "extend", "insert", "clear", "appendleft"))
_HANDS_OUT = frozenset(("items", "values", "get", "copy", "pop", "popleft", "keys"))
_LOOKING_BUILTINS = frozenset(("len", "isinstance", "type", "id", "hash"))
_READING_BUILTINS = frozenset(("float", "int", "bool", "complex"))
_PASSING_BUILTINS = frozenset(
    "max min sorted list tuple set iter next reversed zip enumerate".split()
)
_COMPUTING_BUILTINS = frozenset(("sum", "abs", "round", "any", "all"))
_SHOWING_BUILTINS = frozenset(("print", "str", "repr", "format"))
_HOLDERS = (
    cst.Element,
    cst.StarredElement,
    cst.DictElement,
    cst.StarredDictElement,
    cst.Tuple,
    cst.List,
    cst.Set,
    cst.Dict,
    *COMPREHENSIONS,
)
_ARITHMETIC = ops.having("in-place", "arithmetic")
_OF_THE_GRAPH = ops.having("method", "of-graph")
_FUEL = 400

Key = int | str
"""The literal index by which a part of a container is taken."""


class Way(enum.Enum):
    """What a use does with an object."""

    LOOKED = "asked for a fact beside the values: its shape, its length"
    READ = "its values are read on the host"
    SHOWN = "turned into text"
    COMPUTED = "something new is computed from it"
    GROWN = "a list that gets more elements, or loses them all"
    WRITTEN = "changed in place"
    DIFFERENTIATED = "back-propagated"
    ESCAPES = "handed to code that is not known, returned, or stored"


@frozen
class ObjectUse:
    """One use of an object.

    Args:
        way: what is done.
        node: the expression or statement that does it; where something is computed, what gives the
            result.
        name: the attribute, method, function or operator by which it is done; empty where there is
            none.
        reached: the last binding by which the object came there, or None for the very expression
            asked for.
        read: the name by which that binding is read, or None.
        carried: whether a name on the way is read above its binding, so that it holds the object of
            the turn before.
        at: where that happens in the function that is asked about: `node`, or the call that leads
            to it.
    """

    way: Way
    node: cst.CSTNode
    name: str
    reached: cst.CSTNode | None
    read: cst.Name | None
    at: cst.CSTNode
    carried: bool = False


@question(remember=False)
def object_uses(
    module: Module, node: cst.CSTNode, lives: str = "", copy: cst.Call | None = None
) -> list[ObjectUse]:
    """Return all uses of the object that an expression evaluates to, or that ``x += …`` leaves in
    `x`.

    Where the tensor `lives` on the ``host`` a move to CUDA makes another object, and on the
    ``device`` one to the host does; otherwise ``.to()`` may give the tensor itself. In a ``graph``
    the search ends where the graph is dropped, and what raises for a tensor with a graph
    (``numpy()``, ``requires_grad_()``) is an escape. Behind `copy` it ends, too: that gives another
    object, or has copied nothing.
    """
    search = _Search(module, lives, copy)
    if isinstance(node, cst.AugAssign):
        search.bound(node.target, node)
    else:
        search.climb(node, None)
    return search.found


@question(remember=False)
def binding_uses(
    module: Module,
    definition: cst.CSTNode,
    name: str,
    lives: str = "",
    part: Key | None = None,
    copy: cst.Call | None = None,
) -> list[ObjectUse]:
    """Return all uses of the object that a definition, as `Module.definitions` tells it, binds to a
    name.

    With `part`, the uses of that part of a container alone: its other parts are other objects.
    """
    search = _Search(module, lives, copy)
    search.name(name, definition, part)
    if isinstance(definition, cst.Assign) and len(definition.targets) > 1:
        for target in definition.targets:
            search.bound(target.target, definition)
    return search.found


def literal_key(node: cst.CSTNode | None) -> Key | None:
    """Return the one number from the front, or the one text, by which a subscript takes a part of a
    container."""
    match node:
        case cst.Subscript(
            slice=[cst.SubscriptElement(slice=cst.Index(star="" | None, value=index))]
        ):
            if isinstance(index, (cst.Integer, cst.SimpleString)):
                key = index.evaluated_value
                return key if isinstance(key, (int, str)) else None
    return None


@question(remember=False)
def may_follow(module: Module, use: ObjectUse, node: cst.CSTNode, origin: cst.CSTNode) -> bool:
    """Say whether a use of the object that `origin` gives may run after `node` has, while it is the
    same object."""
    if module.before(node, use.at) or module.is_within(use.at, node):
        return True
    if any(isinstance(above, cst.GeneratorExp) for above in module.ancestors(use.at)):
        return True
    # A name that is read above its binding holds the object of the turn before.
    carried = use.reached is not None and module.before(use.at, use.reached)
    return carried or use.carried or shared_loop(module, use.at, node, origin)


def shared_loop(module: Module, a: cst.CSTNode, b: cst.CSTNode, origin: cst.CSTNode) -> bool:
    """Say whether a loop repeats both nodes without the node from which their object comes."""
    loops = [loop for loop in module.ancestors(a) if isinstance(loop, LOOPS)]
    return any(
        module.is_within(b, loop) and (origin is not loop) and not module.is_within(origin, loop)
        for loop in loops
    )


def _is_target(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a subscript or an attribute is stored to or deleted, alone or as part of a
    tuple."""
    child = node
    for above in module.ancestors(node):
        if not isinstance(above, (cst.Tuple, cst.List, cst.Element, cst.StarredElement)):
            target = (
                getattr(above, "target", None) if not isinstance(above, cst.Attribute) else None
            )
            return target is child or isinstance(above, (cst.Del, cst.AsName))
        child = above
    return False


def _unpacked(assign: cst.Assign) -> Sequence[cst.BaseElement] | None:
    """Return the targets of ``a, b = …``; None where one target takes all."""
    left = assign.targets[0].target
    plain = len(assign.targets) == 1 and isinstance(left, cst.Tuple) and _unstarred(left.elements)
    return left.elements if plain and isinstance(left, cst.Tuple) else None


def _unstarred(elements: Sequence[cst.BaseElement]) -> bool:
    return all(isinstance(element, cst.Element) for element in elements)


class _Search:
    """One search through the uses of an object."""

    def __init__(self, module: Module, lives: str, copy: cst.Call | None) -> None:
        self.module = module
        self._lives = lives
        self._copy = copy
        self.found: list[ObjectUse] = []
        self._seen: set[tuple[cst.CSTNode, str, cst.CSTNode | None, bool]] = set()
        self._fuel = _FUEL
        self._read: cst.Name | None = None
        self._carried = False
        self._entry: tuple[cst.Call, cst.CSTNode | None, cst.Name | None] | None = None

    def _end(self, way: Way, node: cst.CSTNode, name: str, reached: cst.CSTNode | None) -> None:
        at, reached, read = self._entry or (node, reached, self._read)
        self.found.append(ObjectUse(way, node, name, reached, read, at, self._carried))

    def _known(self, node: cst.CSTNode, name: str) -> bool:
        """Say whether a place has been searched before, on the way through the same call."""
        key = (node, name, self._entry[0] if self._entry is not None else None, self._carried)
        known = key in self._seen
        self._seen.add(key)
        return known

    # -- names -------------------------------------------------------------------------------------

    def bound(self, target: cst.CSTNode, definition: cst.CSTNode) -> None:
        """Follow all names that a target binds; what it stores elsewhere escapes."""
        if isinstance(target, cst.Name):
            self.name(target.value, definition)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self.bound(element.value, definition)
        else:
            self._end(Way.ESCAPES, target, "stored", definition)

    def name(self, name: str, definition: cst.CSTNode, part: Key | None = None) -> None:
        """Follow the reads that may find what a definition binds to a name, but for those of other
        parts of it."""
        if self._known(definition, name):
            return
        module = self.module
        owner = (
            definition
            if isinstance(definition, cst.FunctionDef)
            else module.tree.owners[definition]
        )
        if any(name in names for names in names_of_outer_scopes(module)):
            self._end(Way.ESCAPES, definition, "global", definition)
            return
        reads = readers_of(module, definition, name)
        # Where it is also used as a whole, its parts may change their places.
        apart = part is not None and all(self._taken_apart(read) for read in reads)
        for read in reads:
            before, self._read = self._read, read
            turn, self._carried = self._carried, self._carried or module.before(read, definition)
            if module.tree.owners[read] is not owner:
                self._end(Way.ESCAPES, read, "closure", definition)
            elif part is not None and apart:
                self._part(read, definition, part)
            else:
                self.climb(read, definition)
            self._read, self._carried = before, turn

    def _taken_apart(self, read: cst.Name) -> bool:
        """Say whether a read takes no more than parts of a container, by number, by key, or by
        unpacking it."""
        above = self.module.parent(read)
        if isinstance(above, cst.Subscript):
            return (
                above.value is read
                and literal_key(above) is not None
                and not _is_target(self.module, above)
            )
        return isinstance(above, cst.Assign) and _unpacked(above) is not None

    def _part(self, read: cst.Name, definition: cst.CSTNode, part: Key) -> None:
        """Follow one part of a container from a read that takes parts."""
        above = self.module.parent(read)
        targets = _unpacked(above) if isinstance(above, cst.Assign) else None
        if targets is None:
            if literal_key(above) == part:
                self.climb(read, definition)
        elif isinstance(part, int) and part < len(targets) and above is not None:
            self.bound(targets[part].value, above)

    def _comprehension(
        self, loop: cst.CompFor, target: cst.CSTNode, reached: cst.CSTNode | None
    ) -> None:
        """Follow the elements of what a comprehension goes over."""
        holder: cst.CSTNode = loop
        while isinstance(holder, cst.CompFor):
            holder = self.module.tree.parents[holder]
        names = list(self.module.within(target, cst.Name))
        for name in names:
            for read in reads_of(self.module, holder, name.value):
                if read is name or self.module.is_within(read, loop.iter):
                    continue
                if self.module.tree.owners[read] is not self.module.tree.owners[loop]:
                    self._end(Way.ESCAPES, read, "closure", reached)
                else:
                    self.climb(read, reached)

    # -- expressions -------------------------------------------------------------------------------

    def climb(self, node: cst.CSTNode, reached: cst.CSTNode | None) -> None:
        """Follow the object that an expression evaluates to, by what stands around it."""
        if self._known(node, ""):
            return
        self._fuel -= 1
        above = self.module.parent(node)
        if above is None or self._fuel < 0:
            self._end(Way.ESCAPES, node, "", reached)
        elif isinstance(above, cst.BaseSmallStatement):
            self._statement(node, above, reached)
        elif isinstance(above, cst.BaseCompoundStatement):
            match above:
                case cst.For(iter=iterated) if iterated is node:
                    self.bound(above.target, above)
                case cst.If() | cst.While():
                    self._end(Way.READ, above, "test", reached)
                case _:
                    self._end(Way.ESCAPES, above, "", reached)
        else:
            self._expression(node, above, reached)

    def _statement(
        self, node: cst.CSTNode, above: cst.BaseSmallStatement, reached: cst.CSTNode | None
    ) -> None:
        match above:
            case cst.Expr() | cst.Del() | cst.Assert():
                return
            case cst.Assign(targets=targets):
                for target in targets:
                    self.bound(target.target, above)
            case cst.AnnAssign(target=target) if above.value is node:
                self.bound(target, above)
            case cst.AugAssign(target=target) if target is node:
                self._end(Way.WRITTEN, above, "augmented", reached)
                self.bound(target, above)
            case cst.AugAssign(target=target):
                self._end(Way.COMPUTED, above, "augmented", reached)
                if inferred(self.module, target).kind not in ("tensor", "number", "accumulated"):
                    self.bound(target, above)  # ``kept += [x]``
            case _:
                self._end(Way.ESCAPES, above, "", reached)

    def _expression(
        self, node: cst.CSTNode, above: cst.CSTNode, reached: cst.CSTNode | None
    ) -> None:
        match above:
            case cst.Attribute(value=value) if value is node:
                self._attribute(above, reached)
            case cst.Arg():
                self._argument(above, reached)
            case cst.Subscript(value=value) if value is node:
                self._subscript(above, reached)
            case cst.BinaryOperation() | cst.UnaryOperation():
                self._operation(above, reached)
            case cst.Comparison() | cst.ComparisonTarget():
                self._comparison(above, reached)
            case cst.IfExp() | cst.BooleanOperation() | cst.CompIf() | cst.Index() | cst.Slice():
                self._choice(node, above, reached)
            case cst.NamedExpr(value=value) if value is node:
                statement = self.module.small_statement(above) or self.module.statement(above)
                self.bound(above.target, statement)
                self.climb(above, reached)
            case cst.FormattedStringExpression():
                self._end(Way.SHOWN, above, "", reached)
            case cst.CompFor(iter=iterated) if iterated is node:
                self._comprehension(above, above.target, reached)
            case cst.Element() if (target := self._paired(above)) is not None:
                self.bound(target, self.module.small_statement(above) or above)
            case _ if isinstance(above, _HOLDERS):
                self.climb(above, reached)
            case _:
                self._end(Way.ESCAPES, above, "", reached)

    def _choice(self, node: cst.CSTNode, above: cst.CSTNode, reached: cst.CSTNode | None) -> None:
        """Note the use by what chooses: an index, a test, or an operand that may be the result."""
        if isinstance(above, (cst.Index, cst.Slice)):
            self._end(Way.READ, above, "index", reached)
        elif isinstance(above, cst.CompIf) or (isinstance(above, cst.IfExp) and above.test is node):
            self._end(Way.READ, above, "test", reached)
        else:
            self.climb(above, reached)

    def _paired(self, element: cst.Element) -> cst.BaseExpression | None:
        """Return what alone ``a, b = x, y`` binds to an element of its right side."""
        right = self.module.parent(element)
        assign = self.module.parent(right) if isinstance(right, cst.Tuple) else None
        left = _unpacked(assign) if isinstance(assign, cst.Assign) else None
        if left is None or not isinstance(right, cst.Tuple) or not _unstarred(right.elements):
            return None
        pairs = zip(left, right.elements, strict=False)
        return (
            next(a.value for a, b in pairs if b is element)
            if len(left) == len(right.elements)
            else None
        )

    def _operation(
        self, node: cst.BinaryOperation | cst.UnaryOperation, reached: cst.CSTNode | None
    ) -> None:
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            self._end(Way.READ, node, "test", reached)
        elif isinstance(node, cst.BinaryOperation) and inferred(self.module, node).kind in (
            "list",
            "tuple",
            "?",
        ):
            # ``[x] + rest`` holds the same elements; a sum of what is not known may be such a list.
            self._end(Way.COMPUTED, node, "operator", reached)
            self.climb(node, reached)
        elif isinstance(node, cst.BinaryOperation) and inferred(self.module, node).kind == "str":
            self._end(Way.SHOWN, node, "%", reached)
        else:
            self._end(Way.COMPUTED, node, "operator", reached)

    def _comparison(self, node: cst.CSTNode, reached: cst.CSTNode | None) -> None:
        whole = node if isinstance(node, cst.Comparison) else self.module.parent(node)
        by = (
            {type(part.operator) for part in whole.comparisons}
            if isinstance(whole, cst.Comparison)
            else set()
        )
        if by & {cst.Is, cst.IsNot, cst.In, cst.NotIn}:
            self._end(Way.LOOKED, whole or node, "is", reached)
        else:
            self._end(Way.COMPUTED, whole or node, "compare", reached)

    def _subscript(self, node: cst.Subscript, reached: cst.CSTNode | None) -> None:
        if _is_target(self.module, node):
            self._end(Way.WRITTEN, node, "[]", reached)
        else:
            self.climb(node, reached)

    def _attribute(self, node: cst.Attribute, reached: cst.CSTNode | None) -> None:
        name, above = node.attr.value, self.module.parent(node)
        if isinstance(above, cst.Call) and above.func is node:
            self._method(above, name, reached)
        elif _is_target(self.module, node):
            self._end(Way.WRITTEN, node, name, reached)
        elif name == "data" and self._lives == "graph":
            self._end(Way.LOOKED, node, name, reached)
        elif name in ops.ALIASING_ATTRIBUTES:
            self.climb(node, reached)
        elif name in ops.HOST_ATTRIBUTES:
            self._end(Way.LOOKED, node, name, reached)
        else:
            self._end(Way.ESCAPES, node, name, reached)

    def _method(self, call: cst.Call, name: str, reached: cst.CSTNode | None) -> None:
        if self._lives == "graph" and name in _OF_THE_GRAPH:
            self._end(Way.LOOKED if name == "detach" else Way.ESCAPES, call, name, reached)
        elif call is self._copy or self._moved(call):
            self._end(Way.COMPUTED, call, name, reached)
        elif name in ops.ALIASING_METHODS or name in _HANDS_OUT:
            self.climb(call, reached)
        elif name in ops.COMPUTING_METHODS:
            self._end(Way.COMPUTED, call, name, reached)
        elif name in _LOOKS:
            self._end(Way.LOOKED, call, name, reached)
        elif name in _READS:
            self._end(Way.READ, call, name, reached)
        elif name in _GROWS:
            self._end(Way.GROWN, call, name, reached)
        elif name == "backward":
            self._end(Way.DIFFERENTIATED, call, name, reached)
        elif name.endswith("_") and not name.startswith("_"):
            self._end(Way.WRITTEN, call, name, reached)
            self.climb(call, reached)
        else:
            self._end(Way.ESCAPES, call, name, reached)

    def _moved(self, call: cst.Call) -> bool:
        """Say whether a call copies from the host to the device, or back: the result is another
        object."""
        if self._lives == "device":
            return host_copy(self.module, call) is not None
        transfer = transfer_of(self.module, call) if self._lives == "host" else None
        return transfer is not None and transfer.device == "cuda"

    # -- arguments ---------------------------------------------------------------------------------

    def _argument(self, arg: cst.Arg, reached: cst.CSTNode | None) -> None:
        call = self.module.parent(arg)
        if not isinstance(call, cst.Call):
            self._end(Way.ESCAPES, arg, "", reached)
            return
        name = self.module.called(call)
        if any(keyword_of(a) in ("out", "inplace") for a in call.args):
            self._end(Way.WRITTEN, call, "out", reached)
        elif name.startswith("numpy.") and self._lives == "graph":
            self._end(Way.ESCAPES, call, name, reached)
        elif name.startswith("builtins."):
            self._builtin(call, arg, name.removeprefix("builtins."), reached)
        elif name in ops.COMPUTING_FUNCTIONS or name in _COPYING_NUMPY or self._criterion(call):
            self._end(Way.COMPUTED, call, name, reached)
        elif name in ops.ALIASING_FUNCTIONS:
            self.climb(call, reached)
        elif name in ("torch.is_tensor", "torch.numel"):
            self._end(Way.LOOKED, call, name, reached)
        elif not self._tensor_method(call, reached):
            self._called(call, arg, reached)

    def _criterion(self, call: cst.Call) -> bool:
        """Say whether a call is that of a loss of torch.nn, which keeps nothing, or of a scaler's
        ``scale``."""
        callee = inferred(self.module, call.func)
        if (
            callee.kind == "module"
            and (callee.name or "").startswith("torch.nn.")
            and (callee.name or "").endswith("Loss")
        ):
            return True
        match call.func:
            case cst.Attribute(value=holder, attr=cst.Name("scale")):
                return inferred(self.module, holder).kind == "scaler"
        return False

    def _builtin(
        self, call: cst.Call, arg: cst.Arg, name: str, reached: cst.CSTNode | None
    ) -> None:
        plain = all(keyword_of(a) in ("", "reverse", "strict", "start") for a in call.args)
        if name in _LOOKING_BUILTINS:
            self._end(Way.LOOKED, call, name, reached)
        elif name in _READING_BUILTINS:
            self._end(Way.READ, call, name, reached)
        elif name in _SHOWING_BUILTINS:
            self._end(Way.SHOWN, call, name, reached)
        elif name in ("enumerate", "zip") and plain and self._by_position(call, name, arg, reached):
            return
        elif name in _PASSING_BUILTINS and plain:
            self.climb(call, reached)
        elif name == "map" and self._cast(call):
            self._end(Way.READ, call, name, reached)
        elif name in _COMPUTING_BUILTINS and plain:
            self._end(Way.COMPUTED, call, name, reached)
        else:
            self._end(Way.ESCAPES, call, name, reached)

    def _by_position(
        self, call: cst.Call, name: str, arg: cst.Arg, reached: cst.CSTNode | None
    ) -> bool:
        """Follow the one target that a loop over ``zip`` or ``enumerate`` binds to the object's
        elements."""
        loop = self.module.parent(call)
        if (
            not isinstance(loop, (cst.For, cst.CompFor))
            or not isinstance(loop.target, cst.Tuple)
            or arg.star
        ):
            return False
        place = (
            1 if name == "enumerate" else next(i for i, each in enumerate(call.args) if each is arg)
        )
        starred = any(isinstance(each, cst.StarredElement) for each in loop.target.elements)
        if starred or place >= len(loop.target.elements):
            return False
        target = loop.target.elements[place].value
        if isinstance(loop, cst.For):
            self.bound(target, loop)
        else:
            self._comprehension(loop, target, reached)
        return True

    def _cast(self, call: cst.Call) -> bool:
        """Say whether a ``map`` applies nothing but a cast to a number or a text."""
        name = self.module.name(call.args[0].value) or ""
        return name == "torch.Tensor.item" or name.removeprefix("builtins.") in (
            *_READING_BUILTINS,
            "str",
        )

    def _tensor_method(self, call: cst.Call, reached: cst.CSTNode | None) -> bool:
        """Follow the argument of a tensor's method, which is only read: ``total.add_(x)``,
        ``a.copy_(x)``."""
        match call.func:
            case cst.Attribute(value=holder, attr=cst.Name(value=name)) if inferred(
                self.module, holder
            ).tensor:
                known = name in ops.COMPUTING_METHODS or name in _ARITHMETIC
                if known:
                    self._end(Way.COMPUTED, call, name, reached)
                return known
        return False

    def _called(self, call: cst.Call, arg: cst.Arg, reached: cst.CSTNode | None) -> None:
        """Follow an argument into the function of this file that a call certainly reaches."""
        callees = callees_of(self.module, call)
        function = callees[0] if len(callees) == 1 else None
        if (
            arg.star
            or not isinstance(function, cst.FunctionDef)
            or function.decorators
            or function.asynchronous
        ):
            self._end(Way.ESCAPES, call, "called", reached)
            return
        method = isinstance(call.func, cst.Attribute) and self.module.class_of(function) is not None
        passed = bind(function, call, method)
        names = [name for name, value in passed.items() if value is arg.value]
        yields = any(True for _ in self.module.within(function, cst.Yield, nested=True))
        if len(names) != 1 or yields or has_star(call):
            self._end(Way.ESCAPES, call, "called", reached)
            return
        before = self._entry
        self._entry = before or (call, reached, self._read)
        self.name(names[0], function)
        self._entry = before
