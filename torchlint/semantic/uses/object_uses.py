"""Who may change one object, under all its names, or take it away.

An object is followed from an expression through the names it is bound to, the containers it is put
into, its parts and its views. The answer is closed: a use that is not understood is an escape, so
what is not listed does not happen.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.flow import callees_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.tree import COMPREHENSIONS, LOOPS, has_star, keyword_of, literal
from torchlint.semantic.device.host_reads import host_copy
from torchlint.semantic.device.transfers import transfer_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import ops
from torchlint.semantic.uses.observers import is_stored
from torchlint.semantic.uses.value_search import ValueSearch, parameter_of
from torchlint.semantic.values.inferred import inferred

_COPYING_NUMPY = frozenset(
    f"numpy.{name}"
    for name in (
        "array sum mean std var max min median argmax argmin unique concatenate stack"
    ).split()
)
_GROWS = frozenset(("append", "extend", "insert", "clear", "appendleft"))
_HANDS_OUT = ops.ALIASING_METHODS | set("items values get copy pop popleft keys".split())
_CHANGES_NOTHING = (
    (ops.HOST_METHODS - {"register_hook", "data_ptr", "type"})
    | ops.COMPUTING_METHODS
    | ops.having("method", "reads")
    | {"backward"}
)
_HARMLESS_FUNCTIONS = (
    ops.COMPUTING_FUNCTIONS | _COPYING_NUMPY | {"torch.is_tensor", "torch.numel"}
) | frozenset(
    f"builtins.{name}"
    for name in (
        "len isinstance type id hash float int bool complex range print str repr format "
        "sum abs round any all"
    ).split()
)
_PASSING_BUILTINS = frozenset(
    f"builtins.{name}" for name in "max min sorted list tuple set iter next reversed".split()
)
_ARITHMETIC = ops.COMPUTING_METHODS | ops.having("in-place", "arithmetic")
_HARMLESS = (
    *(cst.Assert, cst.If, cst.While, cst.CompIf, cst.Index, cst.Slice, cst.UnaryOperation),
    *(cst.Comparison, cst.ComparisonTarget, cst.FormattedStringExpression),
)
"""Where a value is read, or something new computed from it."""
_HOLDERS = (
    *(cst.StarredElement, cst.DictElement, cst.StarredDictElement, *COMPREHENSIONS),
    *(cst.Tuple, cst.List, cst.Set, cst.Dict, cst.IfExp, cst.BooleanOperation),
)
"""What may give the value that it is made of."""
_FUEL = 400

Key = int | str
"""The literal index by which a part of a container is taken."""


class Way(enum.Enum):
    """How a use may change an object."""

    WRITTEN = "changed in place"
    ESCAPES = "handed to code that is not known, returned, or stored"


@frozen
class ObjectUse:
    """One use of an object that may change it.

    Args:
        way: what is done.
        node: the expression or statement that does it.
        at: where that happens in the function that is asked about: `node`, or the call that leads
            to it; None where code may do it at any time that reads the name from elsewhere.
        reached: the last binding by which the object came there, or None for the very expression
            asked for.
        read: the name by which that binding is read, or None.
        carried: whether a name on the way is read above its binding, so that it holds the object of
            the iteration before.
    """

    way: Way
    node: cst.CSTNode
    at: cst.CSTNode | None
    reached: cst.CSTNode | None
    read: cst.Name | None
    carried: bool


@question(remember=False)
def object_uses(
    module: Module, node: cst.CSTNode, lives: str = "", copy: cst.Call | None = None
) -> list[ObjectUse]:
    """Return all uses that may change the object that an expression evaluates to.

    Where the tensor `lives` on the ``host`` a move to CUDA makes another object, and on the
    ``device`` one to the host does; otherwise ``.to()`` may give the tensor itself. Behind `copy`
    the search ends, too: that gives another object, or has copied nothing.
    """
    search = _Search(module, lives, copy)
    search.value(node)
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
    """Return all uses that may change the object that a definition, as `Module.definitions` tells
    it, binds to a name.

    With `part`, the uses of that part of a container alone: its other parts are other objects.
    """
    search = _Search(module, lives, copy)
    # Where it is also used as a whole, its parts may change their places.
    reads = readers_of(module, definition, name) if part is not None else []
    if all(_taken_apart(module, read) for read in reads):
        search.taken = part
    search.name(definition, name)
    search.taken = None
    if isinstance(definition, cst.Assign) and len(definition.targets) > 1:
        for target in definition.targets:
            search.bound(target.target, definition)
    return search.found


def written_key(node: cst.CSTNode | None) -> Key | None:
    """Return the one number from the front, or the one text, by which a subscript takes a part of a
    container."""
    match node:
        case cst.Subscript(slice=[cst.SubscriptElement(cst.Index(star="" | None, value=index))]):
            return literal(index)
    return None


@question(remember=False)
def may_follow(module: Module, use: ObjectUse, node: cst.CSTNode, origin: cst.CSTNode) -> bool:
    """Say whether a use of the object that `origin` gives may run after `node` has, while it is the
    same object."""
    if use.at is None or module.before(node, use.at) or module.is_within(use.at, node):
        return True
    if any(isinstance(above, cst.GeneratorExp) for above in module.ancestors(use.at)):
        return True
    # A name that is read above its binding holds the object of the iteration before.
    carried = use.reached is not None and module.before(use.at, use.reached)
    return carried or use.carried or shared_loop(module, use.at, node, origin)


def shared_loop(module: Module, a: cst.CSTNode, b: cst.CSTNode, origin: cst.CSTNode) -> bool:
    """Say whether a loop repeats both nodes without the node from which their object comes."""
    loops = [loop for loop in module.ancestors(a) if isinstance(loop, LOOPS)]
    return any(
        module.is_within(b, loop) and (origin is not loop) and not module.is_within(origin, loop)
        for loop in loops
    )


def _taken_apart(module: Module, read: cst.Name) -> bool:
    """Say whether a read takes no more than parts of a container, by number, by key, or by
    unpacking it."""
    above = module.parent(read)
    match above:
        case cst.Subscript(value) if value is read:
            return written_key(above) is not None and not is_stored(module, above)
        case cst.Assign([cst.AssignTarget(cst.Tuple(elements))]):
            return all(isinstance(each, cst.Element) for each in elements)
    return False


class _Way(NamedTuple):
    """How a search came to a place: the fields of `ObjectUse`."""

    at: cst.CSTNode | None = None
    reached: cst.CSTNode | None = None
    read: cst.Name | None = None
    carried: bool = False


class _Search(ValueSearch):
    """One search through the uses of an object."""

    def __init__(self, module: Module, lives: str, copy: cst.Call | None) -> None:
        super().__init__(module, _FUEL)
        self._lives = lives
        self._copy = copy
        self.taken: Key | None = None
        self.found: list[ObjectUse] = []
        self._way = _Way()

    def _end(self, way: Way, node: cst.CSTNode, definition: cst.CSTNode | None = None) -> None:
        at, reached, read, carried = self._way
        if at is None:
            at, reached = (None if node is definition else node), definition or reached
        self.found.append(ObjectUse(way, node, at, reached, read, carried))

    def unknown(self, node: cst.CSTNode, definition: cst.CSTNode | None = None) -> None:
        self._end(Way.ESCAPES, node, definition)

    def known(self, *place: object) -> bool:
        return super().known(*place, self._way.at, self._way.carried)

    def value(self, node: cst.CSTNode) -> None:
        if not self.known(node):
            self.around(node)

    def read(self, read: cst.Name, definition: cst.CSTNode) -> None:
        module, before = self.module, self._way
        owners = module.tree.owners
        owner = definition if isinstance(definition, cst.FunctionDef) else owners[definition]
        first = before.reached is None and self.taken is not None
        if not isinstance(definition, cst.CompFor):
            carried = before.carried or module.before(read, definition)
            reached = before if before.at else before._replace(reached=definition, read=read)
            self._way = reached._replace(carried=carried)
        above = module.parent(read)
        if owners[read] is not owner:
            self.unknown(definition, definition)
        elif not first:
            self.value(read)
        elif isinstance(above, cst.Assign):
            target = above.targets[0].target
            count = len(target.elements) if isinstance(target, cst.Tuple) else 0
            if isinstance(self.taken, int) and self.taken < count:
                self.part(target, self.taken, count, above)
        elif written_key(above) == self.taken:
            self.value(read)
        self._way = before

    def used(self, node: cst.CSTNode, above: cst.CSTNode) -> None:
        match above:
            case cst.AugAssign(target) if target is node:
                self._end(Way.WRITTEN, above)
                self.bound(target, above)
            case cst.AugAssign(target):
                if inferred(self.module, target).kind not in ("tensor", "number", "accumulated"):
                    self.bound(target, above)  # ``kept += [x]``
            case cst.Subscript(value) if value is node:
                if is_stored(self.module, above):
                    self._end(Way.WRITTEN, above)
                else:
                    self.value(above)
            case cst.BinaryOperation():
                # ``[x] + rest`` holds the same elements; a sum of what is not known may be such a
                # list.
                if inferred(self.module, above).kind in ("list", "tuple", "?"):
                    self.value(above)
            case cst.IfExp(test=test) if test is node:
                return
            case _ if isinstance(above, _HOLDERS):
                self.value(above)
            case _ if not isinstance(above, _HARMLESS):
                self.unknown(above)

    def attribute(self, node: cst.Attribute) -> None:
        name, above = node.attr.value, self.module.parent(node)
        if isinstance(above, cst.Call) and above.func is node:
            self._method(above, name)
        elif is_stored(self.module, node):
            self._end(Way.WRITTEN, node)
        elif name in ops.ALIASING_ATTRIBUTES:
            self.value(node)
        elif name not in ops.HOST_ATTRIBUTES:
            self.unknown(node)

    def _method(self, call: cst.Call, name: str) -> None:
        if call is self._copy or self._is_moved(call) or name in _CHANGES_NOTHING - _HANDS_OUT:
            return
        if name in _HANDS_OUT:
            self.value(call)
        elif name in _GROWS:
            self._end(Way.WRITTEN, call)
        elif name.endswith("_") and not name.startswith("_"):
            self._end(Way.WRITTEN, call)
            self.value(call)
        else:
            self.unknown(call)

    def _is_moved(self, call: cst.Call) -> bool:
        """Say whether a call copies from the host to the device, or back: the result is another
        object."""
        if self._lives == "device":
            return host_copy(self.module, call) is not None
        transfer = transfer_of(self.module, call) if self._lives == "host" else None
        return transfer is not None and transfer.device == "cuda"

    # -- arguments ---------------------------------------------------------------------------------

    def argument(self, call: cst.Call, arg: cst.Arg) -> None:
        name = self.module.called(call)
        plain = all(keyword_of(a) in ("", "reverse", "strict", "start") for a in call.args)
        if any(keyword_of(a) in ("out", "inplace") for a in call.args):
            self._end(Way.WRITTEN, call)
        elif name in _HARMLESS_FUNCTIONS or self._reads_alone(call, name):
            return
        elif name in ("builtins.zip", "builtins.enumerate"):
            self.zipped(call, arg)
        elif name in ops.ALIASING_FUNCTIONS or (name in _PASSING_BUILTINS and plain):
            self.value(call)
        elif name.startswith("builtins."):
            self.unknown(call)
        else:
            self._called(call, arg)

    def _reads_alone(self, call: cst.Call, name: str) -> bool:
        """Say whether a call is that of a loss of torch.nn, which keeps nothing, of a scaler's
        ``scale``, of a tensor's method that only reads what it is given (``total.add_(x)``), or of
        ``map`` with what makes a number or a text of each."""
        if name == "builtins.map":
            each = self.module.name(call.args[0].value) or ""
            return each == "torch.Tensor.item" or each in _HARMLESS_FUNCTIONS
        match call.func:
            case cst.Attribute(holder, cst.Name(method)):
                owner = inferred(self.module, holder)
                if (method == "scale" and owner.kind == "scaler") or (
                    method in _ARITHMETIC and owner.tensor
                ):
                    return True
        callee = inferred(self.module, call.func)
        kind = callee.name or ""
        return callee.kind == "module" and kind[:9] == "torch.nn." and kind[-4:] == "Loss"

    def _called(self, call: cst.Call, arg: cst.Arg) -> None:
        """Follow an argument into the function of this file that a call certainly reaches."""
        callees = callees_of(self.module, call)
        function = callees[0] if len(callees) == 1 else None
        if (
            not isinstance(function, cst.FunctionDef)
            or function.decorators
            or function.asynchronous
            or has_star(call)
        ):
            self.unknown(call)
            return
        name = parameter_of(self.module, function, call, arg)
        if name is None:
            self.unknown(call)
            return
        before = self._way
        self._way = before._replace(at=before.at or call)
        self.name(function, name)
        self._way = before
