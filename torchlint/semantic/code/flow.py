"""Who calls whom inside the file, and where a name is read and written."""

from __future__ import annotations

import functools
import itertools

import libcst as cst

from torchlint.base.remembered import remembered
from torchlint.semantic.code.handed_classes import objects_leave
from torchlint.semantic.code.instances import Instances
from torchlint.semantic.code.names import Binding, Names
from torchlint.semantic.code.scopes import Scopes, scopes
from torchlint.semantic.code.tree import Function, Tree, argument_for, is_name, parameters_of
from torchlint.semantic.module import Module
from torchlint.semantic.question import question

_PARTS = frozenset((cst.Tuple, cst.List, cst.Element, cst.StarredElement))
_BINDING = {
    **dict.fromkeys((cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.NamedExpr), "target"),
    **dict.fromkeys((cst.For, cst.CompFor, cst.Del), "target"),
    **dict.fromkeys((cst.AsName, cst.MatchAs, cst.MatchStar, cst.Param), "name"),
    **dict.fromkeys((cst.FunctionDef, cst.ClassDef), "name"),
    cst.MatchMapping: "rest",
}
"""By type of node the field that it binds; a default, a decorator or a base class is read."""


class Flow:
    """The call graph and the definitions and uses of names in one file."""

    def __init__(self, tree: Tree, names: Names, scopes: Scopes, text: str) -> None:
        self.tree = tree
        self.names = names
        self.scopes = scopes
        self.text = text
        self._asked: set[cst.Name] = set()
        self._sites: dict[cst.CSTNode, list[cst.Call]] | None = None
        self.instances = Instances(tree, names, scopes)
        self._uses: dict[str, tuple[list[cst.Name], list[int]]] = {}
        self._told_apart: dict[tuple[str, bool], tuple[list[cst.Name], list[int]]] = {}

    @remembered
    def callees(self, call: cst.Call) -> tuple[Function, ...]:
        """Return the functions of this file that a call may reach; empty where unknown.

        A method called on ``self`` reaches the class's own method and every override in a subclass
        in the file.
        """
        return tuple(self._resolve(call.func) or self._of_object(call.func))

    def _of_object(self, func: cst.BaseExpression) -> list[Function]:
        """Return what runs where an object of a class of this file is called itself, if no other
        code may call such objects."""
        if not self.tree.named("__call__") or self.scopes.local_class(func) is not None:
            return []
        made = self.instances.class_of(func)
        method = self.scopes.method(made, "__call__") if made is not None else None
        return [method] if made is not None and method is not None and not self._leave(made) else []

    @remembered
    def _leave(self, cls: cst.ClassDef) -> bool:
        leave = functools.partial(objects_leave, cls.name.value)
        others = self.names.outside.others_say
        return leave(self.text) or others(leave, near=False) is not False

    def _resolve(self, func: cst.BaseExpression) -> list[Function]:
        if type(func) is cst.Name:
            scope, bindings = self.names.bindings(func.value, func)
            return self._bound(bindings) or self._by_value(func, scope, bindings)
        if type(func) is cst.Subscript:
            return self._functions_in_dict(func.value)
        if type(func) is not cst.Attribute:
            return []
        receiver = func.value
        if type(receiver) is cst.Name:
            # Resolve ``obj.method`` of an object made from a class of this file, or ``module.f``
            # of this very module.
            cls = self.scopes.tree.class_of(func)
            if receiver.value in ("self", "cls") and cls is not None:
                return list(self.methods(cls, func.attr.value))
            if self.names.is_this_module(receiver):
                table = self.names.tables.get(self.tree.root, {}).get(func.attr.value, [])
                return self._bound(table)
            made = self.scopes.local_class(receiver) or self.instances.class_of(receiver)
            return self._method_of(made, func)
        if isinstance(receiver, cst.Subscript) and isinstance(receiver.value, cst.Name):
            return self._method_of(self.instances.class_held(receiver.value), func)
        if isinstance(receiver, cst.Attribute):
            return self._method_of(self.instances.class_of(receiver), func)
        if isinstance(receiver, cst.Call) and is_name(receiver.func, "super"):
            cls = self.scopes.tree.class_of(func)
            for member in self.scopes.lineage(cls)[1:] if cls is not None else ():
                found = self.scopes.own_method(member, func.attr.value)
                if found is not None:
                    return [found]
        return []

    def _by_value(
        self, func: cst.Name, scope: cst.CSTNode | None, bindings: list[Binding]
    ) -> list[Function]:
        """Return the functions that a name stands for by what is assigned to it, ``step =
        self.train_step``, or by what all calls of the function whose parameter it is pass."""
        given = [each.value for each in bindings if each.kind == "assign"]
        if not bindings or func in self._asked:
            return []
        self._asked.add(func)
        if (
            len(bindings) == 1
            and bindings[0].kind == "param"
            and isinstance(scope, cst.FunctionDef)
        ):
            given = self._passed(scope, func.value)
        elif len(given) != len(bindings):
            given = []
        found = [self._stands_for(each) for each in given]
        self._asked.discard(func)
        return list(dict.fromkeys(itertools.chain(*found))) if found and all(found) else []

    def _stands_for(self, value: cst.BaseExpression | None) -> list[Function]:
        match value:
            case cst.Lambda():
                return [value]
            case cst.Name() | cst.Attribute():
                return self._resolve(value)
            case cst.IfExp(body=body, orelse=orelse):
                sides = self._stands_for(body), self._stands_for(orelse)
                return [*sides[0], *sides[1]] if all(sides) else []
            case cst.Subscript(held) | cst.Call(cst.Attribute(held, cst.Name("get"))):
                return self._functions_in_dict(held)
        return []

    def _functions_in_dict(self, held: cst.BaseExpression) -> list[Function]:
        """Return the functions that a dictionary holds which is written out, where it holds nothing
        else: ``LOSSES = {"l1": l1, "l2": l2}``."""
        table = self.names.sole_definition(held) if isinstance(held, cst.Name) else None
        if not isinstance(table, cst.Dict) or not table.elements:
            return []
        found = [self._stands_for(each.value) for each in table.elements]
        return list(dict.fromkeys(itertools.chain(*found))) if all(found) else []

    def _passed(self, function: cst.FunctionDef, name: str) -> list[cst.BaseExpression | None]:
        """Return what the calls of a function by its name pass as a parameter; None for one that
        passes nothing, or by stars."""
        names = [param.name.value for param in parameters_of(function)]
        if self.tree.class_of(function) is not None:
            names = names[1:]
        calls = (self.tree.call_of(each) for each in self.tree.named(function.name.value))
        return [
            argument_for(call, names.index(name), name) if name in names else None
            for call in calls
            if call is not None and function in self._resolve(call.func)
        ]

    def _method_of(self, made: cst.ClassDef | None, func: cst.Attribute) -> list[Function]:
        method = self.scopes.method(made, func.attr.value) if made is not None else None
        return [method] if method is not None else []

    def methods(self, cls: cst.ClassDef, name: str) -> tuple[cst.FunctionDef, ...]:
        """Return what ``self.name`` may be on an instance of `cls` or of a subclass in this
        file."""
        out: list[cst.FunctionDef] = []
        own = self.scopes.method(cls, name)
        if own is not None:
            out.append(own)
        for member in self.scopes.subclasses(cls):
            found = self.scopes.own_method(member, name)
            if found is not None and found not in out:
                out.append(found)
        return tuple(out)

    def _bound(self, bindings: list[Binding]) -> list[Function]:
        """Return the function that a name is bound to, where it is bound to nothing else; of those
        that one block defines one after the other, the last."""
        if not bindings or (len(bindings) > 1 and not self._defined_again(bindings)):
            return []
        binding = bindings[-1]
        if binding.kind == "def" and isinstance(binding.node, cst.FunctionDef):
            return [binding.node]
        if binding.kind == "assign" and isinstance(binding.value, cst.Lambda):
            return [binding.value]
        return []

    def shadowed(self, function: cst.FunctionDef) -> bool:
        """Say whether the block that defines a function defines it anew behind it, so that nobody
        calls the first one."""
        _, bindings = self.names.bindings(function.name.value, function)
        if len(bindings) < 2 or bindings[-1].node is function:
            return False
        alike = [binding for binding in bindings if binding.kind == "def"]
        return (
            len(alike) == len(bindings)
            and any(binding.node is function for binding in bindings)
            and self._defined_again(bindings)
            and not self._read_between(function, bindings[-1].node)
        )

    def _read_between(self, function: cst.FunctionDef, last: cst.CSTNode) -> bool:
        """Say whether code at the level of two definitions uses the name before the second."""
        tree = self.scopes.tree
        home = tree.function(function)
        return any(
            tree.order[function] < tree.order[name] < tree.order[last]
            and tree.function(name) is home
            and name is not function.name
            for name in tree.named(function.name.value)
        )

    def _defined_again(self, bindings: list[Binding]) -> bool:
        blocks = {self.scopes.tree.parents.get(binding.node) for binding in bindings}
        plain = all(
            isinstance(binding.node, cst.FunctionDef) and not binding.node.decorators
            for binding in bindings
        )
        return plain and len(blocks) == 1

    def sites(self, function: cst.CSTNode) -> list[cst.Call]:
        """Return every call in the file that may reach `function`."""
        if self._sites is None:
            self._sites = {}
            for call in self.tree.nodes(cst.Call):
                for callee in self.callees(call):
                    self._sites.setdefault(callee, []).append(call)
        return self._sites.get(function, [])

    def escapes(self, function: cst.FunctionDef) -> bool:
        """Say whether the function's name is used other than as a callee (passed on, stored,
        decorated around)."""
        return self.hands_on(function.name.value)

    def hands_on(self, name: str) -> bool:
        """Say whether the file uses a name, or an attribute of that name, other than to call it."""
        for node in self.tree.named(name):
            above = self.tree.parents.get(node)
            if isinstance(above, cst.Arg) and above.keyword is node:
                continue  # ``splits(train=path)``
            top = above if isinstance(above, cst.Attribute) and above.attr is node else node
            user = self.tree.parents.get(top)
            if isinstance(user, cst.Call) and user.func is top:
                continue
            if isinstance(user, (cst.Arg, cst.Assign, cst.Return, cst.Element, cst.DictElement)):
                return True
        return False

    # -- definitions and uses ----------------------------------------------------------------------

    def is_write(self, node: cst.Name) -> bool:
        """Say whether a Name node is bound here (assignment, loop target, ``as``, parameter), not
        read."""
        parents = self.tree.parents
        child: cst.CSTNode = node
        while type(above := parents[child]) in _PARTS:
            child = above
        kind = type(above)
        return kind in _BINDING and getattr(above, _BINDING[kind]) is child

    def names_in(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the Name nodes spelled `name` inside `scope`, nested functions included, in source
        order.

        Attribute names, keyword names and import names of the same spelling are left out.
        """
        if name not in self._uses:
            self._uses[name] = self._with_orders(
                [n for n in self.tree.named(name) if not self._other_name(n)]
            )
        nodes, orders = self._uses[name]
        return self.tree.inside(nodes, orders, scope) if nodes else nodes

    def _with_orders(self, nodes: list[cst.Name]) -> tuple[list[cst.Name], list[int]]:
        return nodes, [self.tree.order[node] for node in nodes]

    def _other_name(self, node: cst.Name) -> bool:
        above = self.tree.parents[node]
        if type(above) is cst.Attribute:
            return above.attr is node
        if type(above) is cst.Arg:
            return above.keyword is node
        return isinstance(above, (cst.ImportAlias, cst.NameItem))

    def reads(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the reads of `name` inside `scope`; ``x += 1`` counts as a write only."""
        return self._writes_or_reads(scope, name, writes=False)

    def writes(self, scope: cst.CSTNode, name: str) -> list[cst.Name]:
        """Return the places inside `scope` that bind `name`, augmented assignments included."""
        return self._writes_or_reads(scope, name, writes=True)

    def _writes_or_reads(self, scope: cst.CSTNode, name: str, *, writes: bool) -> list[cst.Name]:
        """Return the writes of a name inside `scope`, or else its reads."""
        if (name, writes) not in self._told_apart:
            every = self.names_in(self.tree.root, name)
            kind = [node for node in every if self.is_write(node) == writes]
            self._told_apart[name, writes] = self._with_orders(kind)
        nodes, orders = self._told_apart[name, writes]
        return self.tree.inside(nodes, orders, scope) if nodes else []


@question(ground=True)
def flow(module: Module) -> Flow:
    """Return the call graph of a file, and where its names are read and written."""
    return Flow(module.tree, module.names, scopes(module), module.text)


@question(ground=True)
def escapes(module: Module, function: cst.FunctionDef) -> bool:
    """Say whether a function's name is used other than to call it, so that the file does not show
    all calls."""
    return flow(module).escapes(function)


@question(ground=True, remember=False)
def callees_of(module: Module, call: cst.Call) -> tuple[Function, ...]:
    """Return the functions of this file that a call may reach."""
    return flow(module).callees(call)


@question(ground=True, remember=False)
def call_sites(module: Module, function: cst.CSTNode) -> list[cst.Call]:
    """Return the calls in this file that may reach a function."""
    return flow(module).sites(function)


@question(ground=True, remember=False)
def reads_of(module: Module, scope: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the reads of a plain name inside `scope` (nested functions included)."""
    return flow(module).reads(scope, name)


@question(ground=True, remember=False)
def writes_of(module: Module, scope: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the places inside `scope` that bind a plain name."""
    return flow(module).writes(scope, name)
