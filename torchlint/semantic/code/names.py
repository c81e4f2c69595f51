"""Which name binds what, and the one dotted name of an expression.

``name(expr)`` is a fully qualified dotted name such as ``torch.utils.data.DataLoader``, or None
where the origin is not certain: a name with two different origins has none. Names from relative
imports start with a dot, so that they never equal a name of torch; unbound names are
``builtins.*``.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import libcst as cst

from torchlint.base.records import frozen
from torchlint.semantic.code.tree import COMPREHENSIONS, DISPLAYS, FUNCTIONS, Tree, is_name
from torchlint.semantic.torch import names as torch_names

if TYPE_CHECKING:
    from torchlint.semantic.elsewhere import Elsewhere

_BUILTINS = frozenset(dir(builtins))
CallNames = Collection[str] | Callable[[str], object]
"""Dotted names, and methods' with a dot in front; or a test of such a name."""


@frozen
class Binding:
    """One place that gives a name its value.

    `kind` is import, assign, unpack, param, def, class, loop, with, except, match, augment, global
    or comprehension; `value` the expression assigned where there is one, `dotted` the imported
    name.
    """

    kind: str
    node: cst.CSTNode
    value: cst.BaseExpression | None = None
    dotted: str = ""


_MOST_PARTS = 50
"""No name of a program has more; each part of a generated one would be read along the whole
chain."""


def one_by_one(
    target: cst.Tuple | cst.List, value: cst.BaseExpression | None
) -> Sequence[cst.BaseExpression | None]:
    """Return what each part of a target is given by a tuple that is written out: ``a, b = 1, 2``;
    None for what is not known."""
    if isinstance(value, DISPLAYS) and len(value.elements) == len(target.elements):
        every = (*target.elements, *value.elements)
        if not any(isinstance(each, cst.StarredElement) for each in every):
            return [each.value for each in value.elements]
    return [None] * len(target.elements)


def stored(
    target: cst.BaseExpression, value: cst.BaseExpression | None
) -> list[tuple[cst.BaseExpression, cst.BaseExpression | None]]:
    """Return the places that an assignment stores to, with what is known to be stored there."""
    if not isinstance(target, DISPLAYS):
        return [(target, value)]
    parts = zip(target.elements, one_by_one(target, value), strict=True)
    return [pair for part, given in parts for pair in stored(part.value, given)]


def dotted_text(node: cst.CSTNode | None) -> str | None:
    """Return ``a.b.c`` for a chain of plain names, else None."""
    text = ""
    for _ in range(_MOST_PARTS + 1):
        if type(node) is cst.Name:
            return node.value + text
        if type(node) is not cst.Attribute:
            break
        text = f".{node.attr.value}{text}"
        node = node.value
    return None


def last_part(node: cst.CSTNode | None) -> str:
    """Return ``c`` for ``a.b.c``, a chain of plain names; empty for any other node."""
    return (dotted_text(node) or "").rpartition(".")[2]


class Names:
    """The name tables of one file."""

    def __init__(self, tree: Tree, filename: str, outside: Elsewhere) -> None:
        self.tree = tree
        self.outside = outside
        self.filename = filename.replace("\\", "/")
        self.tables: dict[cst.CSTNode, dict[str, list[Binding]]] = {}
        self.outer: dict[cst.CSTNode, set[str]] = {}
        self.stars: list[str] = []
        self._star_imports: list[tuple[str, cst.ImportFrom]] = []
        self._origins: dict[tuple[cst.CSTNode, str], str | None] = {}
        self._over: dict[tuple[cst.CSTNode | None, str], list[cst.CSTNode]] = {}
        self._memory: dict[cst.CSTNode | None, str | None] = {}
        self._calls: dict[str, list[cst.Call]] | None = None
        self._collect()

    # -- building ----------------------------------------------------------------------------------

    def scope(self, node: cst.CSTNode) -> cst.CSTNode:
        """Return the function, class body or module in which a name bound at `node` lives."""
        scope = self.tree.scope(node)
        while type(scope) in COMPREHENSIONS:
            scope = self.tree.scope(scope)
        return scope

    def _add(self, name: str, binding: Binding, scope: cst.CSTNode) -> None:
        if name in self.outer.get(scope, ()):
            scope = self.tree.root
        self.tables.setdefault(scope, {}).setdefault(name, []).append(binding)

    def _collect(self) -> None:
        tree = self.tree
        for outer in tree.nodes(cst.Global, cst.Nonlocal):
            assert isinstance(outer, (cst.Global, cst.Nonlocal))
            self.outer.setdefault(self.scope(outer), set()).update(
                item.name.value for item in outer.names
            )
        for statement in tree.nodes(cst.Import, cst.ImportFrom):
            self._imports(statement)
        for node in tree.nodes(cst.FunctionDef, cst.ClassDef):
            assert isinstance(node, (cst.FunctionDef, cst.ClassDef))
            kind = "def" if isinstance(node, cst.FunctionDef) else "class"
            self._add(node.name.value, Binding(kind, node), self.scope(node))
        for param in tree.nodes(cst.Param):
            self._add(param.name.value, Binding("param", param), tree.owners[param])
        self._assignments()
        self._headers()
        self._patterns()

    def _assignments(self) -> None:
        for node in self.tree.nodes(cst.Assign, cst.AnnAssign, cst.AugAssign, cst.NamedExpr):
            if isinstance(node, cst.Assign):
                for target in node.targets:
                    self._target(target.target, Binding("assign", node, node.value))
            elif isinstance(node, (cst.AnnAssign, cst.NamedExpr)):
                if node.value is not None:
                    self._target(node.target, Binding("assign", node, node.value))
            elif isinstance(node, cst.AugAssign):
                self._target(node.target, Binding("augment", node, node.value))

    def _headers(self) -> None:
        for node in self.tree.nodes(cst.For, cst.CompFor, cst.WithItem, cst.ExceptHandler):
            if isinstance(node, cst.For):
                self._target(node.target, Binding("loop", node))
            elif isinstance(node, cst.CompFor):
                self._target(node.target, Binding("comprehension", node))
            elif isinstance(node, cst.WithItem) and node.asname is not None:
                self._target(node.asname.name, Binding("with", node))
            elif isinstance(node, cst.ExceptHandler) and node.name is not None:
                self._target(node.name.name, Binding("except", node))

    def _patterns(self) -> None:
        for node in self.tree.nodes(cst.MatchAs, cst.MatchStar, cst.MatchMapping):
            assert isinstance(node, (cst.MatchAs, cst.MatchStar, cst.MatchMapping))
            captured = node.rest if isinstance(node, cst.MatchMapping) else node.name
            if captured is not None:
                self._target(captured, Binding("match", node))

    def _target(self, target: cst.CSTNode, binding: Binding) -> None:
        if isinstance(target, cst.Name):
            # A comprehension's target lives in the comprehension; we file it under that node.
            scope = (
                self.scope(binding.node)
                if binding.kind != "comprehension"
                else self._comprehension(binding.node)
            )
            self._add(target.value, binding, scope)
        elif isinstance(target, DISPLAYS):
            values = one_by_one(target, binding.value)
            for element, value in zip(target.elements, values, strict=True):
                inner = Binding("unpack", binding.node, value)
                parts = binding.kind in ("assign", "unpack")
                self._target(element.value, inner if parts else binding)
        elif isinstance(target, cst.StarredElement):
            self._target(target.value, Binding("unpack", binding.node))

    def _comprehension(self, node: cst.CSTNode) -> cst.CSTNode:
        for above in self.tree.ancestors(node):
            if isinstance(above, COMPREHENSIONS):
                return above
        return self.scope(node)

    def _imports(self, node: cst.CSTNode) -> None:
        scope = self.scope(node)
        if isinstance(node, cst.Import):
            for item in node.names:
                full = dotted_text(item.name) or ""
                if item.asname is not None and isinstance(item.asname.name, cst.Name):
                    self._add(item.asname.name.value, Binding("import", node, dotted=full), scope)
                else:
                    first = full.partition(".")[0]
                    self._add(first, Binding("import", node, dotted=first), scope)
        elif isinstance(node, cst.ImportFrom):
            base = "." * len(node.relative) + (dotted_text(node.module) or "")
            if isinstance(node.names, cst.ImportStar):
                self.stars.append(base)
                self._star_imports.append((base, node))
                return
            for item in node.names:
                name = dotted_text(item.name) or ""
                local = (
                    item.asname.name.value
                    if item.asname and isinstance(item.asname.name, cst.Name)
                    else name
                )
                full = base + name if base.endswith(".") else f"{base}.{name}"
                self._add(local, Binding("import", node, dotted=full), scope)

    # -- asking ------------------------------------------------------------------------------------

    def sole_definition(self, node: cst.CSTNode | None) -> cst.BaseExpression | None:
        """Return the expression that a plain name is assigned in its one and only binding, also
        beside others: ``a, b = 0, []``."""
        if not isinstance(node, cst.Name):
            return None
        _, bindings = self.bindings(node.value, node)
        alone = len(bindings) == 1 and bindings[0].kind in ("assign", "unpack")
        return bindings[0].value if alone else None

    def bindings(self, name: str, at: cst.CSTNode) -> tuple[cst.CSTNode | None, list[Binding]]:
        """Return the scope in which `name`, used at `at`, is bound, and its bindings there."""
        scopes, owners, tables = self.tree.scopes, self.tree.owners, self.tables
        scope = scopes.get(at) or owners[at]
        passed_function = False
        while True:
            kind = type(scope)
            # A class body's names are visible in the body itself, not in its methods.
            hidden = kind is cst.ClassDef and passed_function
            if (
                scope in tables
                and name in tables[scope]
                and not hidden
                and not (scope in self.outer and name in self.outer[scope])
            ):
                return scope, tables[scope][name]
            if kind is cst.Module:
                return None, []
            passed_function = passed_function or kind in FUNCTIONS
            scope = scopes.get(scope) or owners[scope]

    def name(self, node: cst.CSTNode | None) -> str | None:
        """Return the one dotted name of an expression, canonical for torch's re-exports, or
        None."""
        found = self._memory.get(node, "")
        if found != "":
            return found
        if node is None:
            return None
        self._memory[node] = None  # where it comes back to itself
        found = self._name(node)
        if found is not None:
            found = torch_names.canonical(found)
        self._memory[node] = found
        return found

    def _name(self, node: cst.CSTNode) -> str | None:
        if type(node) is cst.Attribute:
            base = self.name(node.value)
            return f"{base}.{node.attr.value}" if base is not None else None
        return self.meaning(node.value, node) if type(node) is cst.Name else None

    def calls_of(self, names: CallNames) -> list[cst.Call]:
        """Return the calls of what has one of some dotted names, or, for a name with a dot in
        front, of a method of that name, in source order; or of what has a name that a test says is
        meant."""
        if self._calls is None:
            self._calls = {}
            for call in self.tree.nodes(cst.Call):
                func, dotted = call.func, self.name(call.func)
                method = f".{func.attr.value}" if isinstance(func, cst.Attribute) else None
                for each in (dotted, method):
                    if each is not None:
                        self._calls.setdefault(each, []).append(call)
        meant = filter(names, self._calls) if callable(names) else names
        found = {call for name in meant for call in self._calls.get(name, ())}
        return sorted(found, key=self.tree.order.__getitem__)

    def meaning(self, name: str, at: cst.CSTNode) -> str | None:
        """Return the one dotted name that a plain name stands for, or would stand for, where `at`
        stands."""
        scope, bindings = self.bindings(name, at)
        if scope is None:
            found = self.outside.starred(self.stars, name) if self.stars else None
            if found is not None:
                return found
            return (
                f"builtins.{name}"
                if name in _BUILTINS and not self.outside.may_bind(self.stars, name)
                else None
            )
        key = (scope, name)
        if key not in self._origins:
            origins = {self._origin(b) for b in bindings if not self._placeholder(b)}
            self._origins[key] = origins.pop() if len(origins) == 1 else None
        return self._origins[key]

    def imported_over(self, name: str, at: cst.CSTNode) -> list[cst.CSTNode]:
        """Return the imports that may give a name, used at `at`, another meaning than a binding
        above them gave it."""
        scope, bindings = self.bindings(name, at)
        key = (scope, name)
        if key not in self._over:
            order = self.tree.order
            found = [b.node for b in bindings if b.kind == "import"]
            if scope is self.tree.root:
                found += self._starred(name)
            others = (b for b in bindings if b.kind != "import" and not self._placeholder(b))
            first = min((order[b.node] for b in others), default=None) if found else None
            self._over[key] = [n for n in found if first is not None and order[n] > first]
        return self._over[key]

    def starred_over(self, home: cst.CSTNode, names: Iterable[str]) -> bool:
        """Say whether an ``import *`` below a statement may bind anew one of the names that the
        statement binds."""
        return any(
            self.tree.order[node] > self.tree.order[home]
            for name in names
            for node in self._starred(name)
        )

    def _starred(self, name: str) -> list[cst.ImportFrom]:
        """Return the star imports that may bind a name."""
        return [node for star, node in self._star_imports if self.outside.may_bind([star], name)]

    def bound_by_import(self, node: cst.Import | cst.ImportFrom, names: Iterable[str]) -> list[str]:
        """Return those of some names that an import statement binds, or may bind."""
        if isinstance(node.names, cst.ImportStar):
            stars = [star for star, each in self._star_imports if each is node]
            return [name for name in names if self.outside.may_bind(stars, name)]
        local = [
            dotted_text(item.asname.name if item.asname is not None else item.name) or ""
            for item in node.names
        ]
        bound = {name.partition(".")[0] for name in local}
        return [name for name in names if name in bound]

    def is_this_module(self, node: cst.CSTNode) -> bool:
        """Say whether an expression is a name for the file's own module.

        That is ``this = sys.modules[__name__]``, or ``from package import this`` in
        ``package/this.py``.
        """
        if type(node) is not cst.Name or node.value not in self._own_names:
            return False
        _, bindings = self.bindings(node.value, node)
        return len(bindings) == 1 and self._is_own(bindings[0])

    @cached_property
    def _own_names(self) -> frozenset[str]:
        """The names that somewhere in the file may be one for its own module."""
        return frozenset(
            name
            for table in self.tables.values()
            for name, bindings in table.items()
            if any(map(self._is_own, bindings))
        )

    def _is_own(self, binding: Binding) -> bool:
        if binding.kind == "import":
            path = binding.dotted.replace(".", "/")
            return "/" in path and f"/{self.filename}".endswith(
                (f"/{path}.py", f"/{path}/__init__.py")
            )
        value = binding.value
        if type(value) is not cst.Subscript or dotted_text(value.value) != "sys.modules":
            return False
        index = value.slice[0].slice
        return isinstance(index, cst.Index) and dotted_text(index.value) == "__name__"

    def _origin(self, binding: Binding) -> str | None:
        if binding.kind == "import":
            return binding.dotted
        if binding.kind == "assign" and isinstance(binding.value, (cst.Name, cst.Attribute)):
            return self.name(binding.value)
        return None

    def _placeholder(self, binding: Binding) -> bool:
        """Say whether a binding is the ``torch = None`` of a failed optional import."""
        if binding.kind != "assign" or not is_name(binding.value, "None"):
            return False
        return any(
            isinstance(above, cst.ExceptHandler) for above in self.tree.ancestors(binding.node)
        )
