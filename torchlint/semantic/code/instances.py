"""The class of this file that an object is an instance of: by what makes it, by what a function or
a constructor is given at each of its calls, by an annotation."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.names import Binding, Names, stored
from torchlint.semantic.code.scopes import Scopes
from torchlint.semantic.code.tree import (
    Tree,
    argument_for,
    has_star,
    is_name,
    positional_parameters,
    targets_of,
)
from torchlint.semantic.torch import ops

_SAME_MODULE = ops.having("module", "chains")
"""Methods of a network that return the network."""
_CHECKS = frozenset(("isinstance", "issubclass", "super", "type"))
_DEPTH = 6
"""Names that an object may pass through: more of them are taken for unknown."""

Classes = frozenset[cst.ClassDef | None]
"""What an expression may be an instance of: None for what is unknown; empty where it only says
again what another place says."""

_NOTHING: Classes = frozenset()
_UNKNOWN: Classes = frozenset((None,))


class Instances:
    """The classes of the objects of one file."""

    def __init__(self, tree: Tree, names: Names, scopes: Scopes) -> None:
        self.tree = tree
        self.names = names
        self.scopes = scopes
        self._known: dict[object, Classes] = {}
        self._open: set[object] = set()
        self._stored: dict[str, list[tuple[cst.Attribute, cst.BaseExpression | None]]] | None = None

    def class_of(self, node: cst.BaseExpression) -> cst.ClassDef | None:
        """Return the one class of this file that an expression is an instance of, or None."""
        return _sole_class(self._classes(node))

    def class_held(self, container: cst.Name) -> cst.ClassDef | None:
        """Return the one class of this file whose instances a list or dictionary holds."""
        _, bindings = self.names.bindings(container.value, container)
        values = [each.value if each.kind == "assign" else None for each in bindings]
        return _sole_class(
            frozenset().union(*(self._classes_of_elements(value) for value in values))
        )

    def _classes_of_elements(self, value: cst.BaseExpression | None) -> Classes:
        """Return the classes of the elements of ``{key: C() for …}``, ``[C() for …]``,
        ``defaultdict(C)``, or of a literal."""
        match value:
            case cst.Name("None"):
                return _NOTHING
            case cst.DictComp(value=held) | cst.ListComp(held):
                return self._classes(held)
            case cst.Call(cst.Name("defaultdict"), [cst.Arg(cst.Name() as held)]):
                return frozenset((self.scopes.local_class(held),))
            case cst.Dict([_, *_] as every) | cst.List([_, *_] as every):
                return frozenset().union(*(self._classes(each.value) for each in every))
        return _UNKNOWN

    def _classes(self, node: cst.BaseExpression) -> Classes:
        match node:
            case cst.Call():
                return self._of_call(node)
            case cst.Name("None"):
                return _NOTHING
            case cst.Name(name):
                scope, bindings = self.names.bindings(name, node)
                return self._remembered((scope, name), [self._bound(each) for each in bindings])
            case cst.Attribute(cst.Name("self"), cst.Name(name)):
                cls = self.tree.class_of(node)
                return (
                    self._remembered((cls, name), [self._stored_in(cls, name)]) if cls else _UNKNOWN
                )
            case cst.IfExp(body=one, orelse=other):
                return self._classes(one) | self._classes(other)
        return _UNKNOWN

    def _remembered(self, key: object, parts: list[Iterator[Classes]]) -> Classes:
        """Work out each name once; what a name says of itself, ``net = net.to(device)``, says
        nothing."""
        if key in self._known:
            return self._known[key]
        if key in self._open:
            return _NOTHING
        if not parts or len(self._open) >= _DEPTH:
            return _UNKNOWN
        self._open.add(key)
        found: set[cst.ClassDef | None] = set()
        for part in parts:
            for each in part:
                found |= each
                if None in found:
                    break
        self._open.remove(key)
        if not self._open:  # Within another one's circle, a part may be missing.
            self._known[key] = frozenset(found)
        return frozenset(found)

    def _of_call(self, call: cst.Call) -> Classes:
        cls = self.scopes.local_class(call.func)
        if cls is not None:
            return frozenset((cls,))
        if self.names.name(call.func) == "torch.compile" and call.args:
            return self._classes(call.args[0].value)
        match call.func:
            case cst.Attribute(inner, cst.Name(name)) if name in _SAME_MODULE:
                found = self._classes(inner)
                own = any(cls is not None and self.scopes.method(cls, name) for cls in found)
                return _UNKNOWN if own else found
            case cst.Name():
                return self._aliased(call.func) or self._returned(call.func)
        return _UNKNOWN

    def _aliased(self, func: cst.Name) -> Classes:
        """Return the classes that a name may stand for, ``Linear = Noisy if noisy else nn.Linear``:
        those of torch have no method of this file."""
        _, bindings = self.names.bindings(func.value, func)
        found: set[cst.ClassDef | None] = set()
        for each in bindings:
            value = each.value if each.kind == "assign" else None
            named = (value.body, value.orelse) if isinstance(value, cst.IfExp) else (value,)
            found.update(map(self.scopes.local_class, itertools.filterfalse(self._is_layer, named)))
        return _NOTHING if None in found else frozenset(found)

    def _is_layer(self, named: cst.BaseExpression | None) -> bool:
        return named is not None and (self.names.name(named) or "").startswith("torch.nn.")

    def _returned(self, func: cst.Name) -> Classes:
        """Return what a function of this file makes and returns, ``build()``."""
        _, bindings = self.names.bindings(func.value, func)
        made = bindings[0].node if len(bindings) == 1 else None
        if not isinstance(made, cst.FunctionDef) or made.decorators or made.asynchronous:
            return _UNKNOWN
        values = [each.value for each in self.tree.within(made.body, cst.Return)]
        if self.tree.contains(made.body, cst.Yield):
            return _UNKNOWN
        parts = (self._classes(value) for value in values if value is not None)
        return self._remembered(made, [parts]) if values else _UNKNOWN

    def _bound(self, binding: Binding) -> Iterator[Classes]:
        if binding.kind in ("assign", "unpack") and binding.value is not None:
            yield self._classes(binding.value)
        elif binding.kind == "param" and isinstance(binding.node, cst.Param):
            yield from self._classes_passed(binding.node)
        else:
            yield _UNKNOWN

    def _stored_in(self, cls: cst.ClassDef, name: str) -> Iterator[Classes]:
        """Yield what an attribute of `self` may be, by all that the file stores under its name."""
        if self._stored is None:
            self._stored = {}
            for node in self.tree.nodes(cst.Assign, cst.AnnAssign, cst.AugAssign):
                assert isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign))
                targets = [node.target] if isinstance(node, cst.AugAssign) else targets_of(node)
                for target in targets:
                    for each, value in stored(target, node.value):
                        if isinstance(each, cst.Attribute):
                            self._stored.setdefault(each.attr.value, []).append((each, value))
        family = {*self.scopes.lineage(cls), *self.scopes.subclasses(cls)}
        found = False
        for target, value in self._stored.get(name, ()):
            own = is_name(target.value, "self")
            if own and self.tree.class_of(target) not in family:
                continue
            found = True
            if not _wraps(value, target):
                yield self._classes(value) if value is not None else _UNKNOWN
        if not found:
            yield _UNKNOWN

    def _classes_passed(self, param: cst.Param) -> Iterator[Classes]:
        """Yield what a parameter is by its annotation, else by what each call passes."""
        if param.annotation is not None:
            cls = self.scopes.local_class(param.annotation.annotation)
            if cls is not None:
                yield frozenset((cls,))
                return
        function = self.tree.function(param)
        if function is None or param.star:
            yield _UNKNOWN
            return
        calls = self._calls(function)
        if not calls:
            yield _UNKNOWN
        for call in calls:
            passed = self._passed(function, param, call) if call is not None else None
            yield self._classes(passed) if passed is not None else _UNKNOWN

    def _calls(self, function: cst.FunctionDef) -> list[cst.Call | None]:
        """Return the calls of a function in this file, None for any other use of its name."""
        cls = self.tree.class_of(function) if self.tree.is_method(function) else None
        name = function.name.value
        if cls is not None and name == "__init__":
            return self._uses(cls.name.value, cls)
        if cls is not None:
            if len(list(filter(self.tree.is_method, self.scopes.functions_named(name)))) > 1:
                return []
            calls = [self.tree.call_of(node) for node in self.tree.named(name)]
            return [call for call in calls if call and isinstance(call.func, cst.Attribute)]
        return self._uses(name, function)

    def _uses(self, name: str, meant: cst.CSTNode) -> list[cst.Call | None]:
        found: list[cst.Call | None] = []
        for node in self.tree.named(name):
            above = self.tree.parents[node]
            if above is meant or (isinstance(above, cst.Attribute) and above.attr is node):
                continue
            if isinstance(above, (cst.Annotation, cst.Param)) or (
                isinstance(above, cst.Arg) and self._only_checks(above)
            ):
                continue
            _, bindings = self.names.bindings(name, node)
            if [each.node for each in bindings] == [meant]:
                found.append(self.tree.call_of(node))
        return found

    def _only_checks(self, arg: cst.Arg) -> bool:
        """Say whether an argument is a base of a class, ``super(C, self)``, or what isinstance()
        looks for."""
        call = self.tree.parents.get(arg)
        return isinstance(call, cst.ClassDef) or (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Name)
            and call.func.value in _CHECKS
        )

    def _passed(
        self, function: cst.FunctionDef, param: cst.Param, call: cst.Call
    ) -> cst.BaseExpression | None:
        """Return what a call passes for a parameter, its default where nothing; None where that
        cannot be told."""
        if has_star(call):
            return None
        params = positional_parameters(function)
        bound = self.tree.is_method(function) and not any(
            text == "staticmethod" for _, text in self.scopes.decorators(function)
        )
        at = params.index(param) - bound if param in params else -1
        given = argument_for(call, at, param.name.value)
        return given if given is not None else param.default


def _sole_class(classes: Classes) -> cst.ClassDef | None:
    return next(iter(classes)) if len(classes) == 1 else None


def _wraps(value: cst.BaseExpression | None, target: cst.Attribute) -> bool:
    """Say whether a function gives an attribute back: ``self.fc = initialised(self.fc)``."""
    match value:
        case cst.Call(cst.Name(), [cst.Arg(cst.Attribute() as given), *_]):
            return given.deep_equals(target)
    return False
