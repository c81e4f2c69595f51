"""The places of a function that may call something, in the order in which they run."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from torchlint.base.records import frozen
from torchlint.profile.protocols import (
    ATTRIBUTES,
    BINARY,
    COMPARISONS,
    CONVERSIONS,
    INDEXING,
    ITERATION,
    READS,
    STORING,
    UNARY,
    spelled,
)

Names = frozenset[str]
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_NO_NAMES: Names = frozenset()
COMPREHENSIONS = {
    ast.ListComp: "<listcomp>",
    ast.SetComp: "<setcomp>",
    ast.DictComp: "<dictcomp>",
    ast.GeneratorExp: "<genexpr>",
}
_ALIKE: dict[type[ast.AST], type[ast.AST]] = {
    ast.AsyncFunctionDef: ast.FunctionDef,
    ast.AsyncFor: ast.For,
    ast.AsyncWith: ast.With,
    ast.ImportFrom: ast.Import,
    ast.List: ast.Tuple,
    **dict.fromkeys((ast.SetComp, ast.DictComp, ast.GeneratorExp), ast.ListComp),
}
_IMPORT = spelled("_find_and_load _handle_fromlist __import__ import_")
_LOAD = spelled("__getattr__ __getattribute__ __get__")
_STORE = spelled("__setattr__ __set__")


@frozen
class CallSite:
    """A place that may call something.

    Args:
        line: where it stands.
        kind: ``"call"``, or what else it is: ``"load"``, ``"next"``, ``"operator"`` …
        names: under which what it calls may stand in a trace: as it is written, or of a protocol.
        operators: what torch runs for it without a call.
        classes: of the module that it calls, where the class says it; empty where it is not known.
        open: whether it calls what a variable holds, so that names say nothing.
        method: whether it looks like a call of a method, and less like one of a variable.
        own: whether it reads an attribute of ``self``.
        arms: in which arms of conditions it stands, (condition, arm).
    """

    line: int
    kind: str
    names: Names = _NO_NAMES
    operators: Names = _NO_NAMES
    classes: Names = _NO_NAMES
    open: bool = False
    method: bool = False
    own: bool = False
    arms: tuple[tuple[int, int], ...] = ()


@frozen
class Body:
    """The call sites of a function, its loops as (first site, behind the last), and how many arms
    each condition has."""

    sites: tuple[CallSite, ...]
    loops: tuple[tuple[int, int], ...]
    arms: Mapping[int, int]


@frozen
class Scope:
    """What is known around a function.

    Args:
        attributes: classes of what its class keeps in attributes of ``self``.
        aliases: what imported names are called where they come from.
        known: names of functions and classes of the file, and imported ones.
        inline: whether comprehensions run in the function itself, as since Python 3.12.
    """

    attributes: Mapping[str, Names]
    aliases: Mapping[str, str]
    known: Names
    inline: bool


def body(function: ast.AST, scope: Scope) -> Body:
    """List the call sites of a function, a module, a class body, a lambda or a comprehension."""
    found = _Order(scope, _locals(function))
    match function:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Module() | ast.ClassDef():
            found.each(function.body)
        case ast.Lambda():
            found.visit(function.body)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
            found.comprehended(function)
    return Body(tuple(found.sites), tuple(found.loops), found.conditions)


def _locals(function: ast.AST) -> Names:
    """Return names that a function binds: what they call is not known by them."""
    if isinstance(function, (ast.Module, ast.ClassDef)):
        return _NO_NAMES
    found = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return frozenset(found)


class _Order(ast.NodeVisitor):
    """Walks a function in the order in which it runs."""

    def __init__(self, scope: Scope, bound: Names) -> None:
        self.scope = scope
        self.bound = bound
        self.sites: list[CallSite] = []
        self.loops: list[tuple[int, int]] = []
        self._arms: tuple[tuple[int, int], ...] = ()
        self.conditions: dict[int, int] = {}

    def visit(self, node: ast.AST) -> None:
        """Visit a node; some kinds are treated alike."""
        kind = _ALIKE.get(type(node), type(node)).__name__
        getattr(self, f"visit_{kind}", self.generic_visit)(node)

    def each(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _add(
        self,
        line: int,
        kind: str,
        names: Names = _NO_NAMES,
        operators: Names = _NO_NAMES,
        classes: Names = _NO_NAMES,
        **flags: bool,
    ) -> None:
        site = CallSite(line, kind, names, operators, classes, arms=self._arms, **flags)
        self.sites.append(site)

    @contextmanager
    def _loop(self) -> Iterator[None]:
        first = len(self.sites)
        yield
        if len(self.sites) > first:
            self.loops.append((first, len(self.sites)))

    def _branches(self, *arms: Iterable[ast.AST | None]) -> None:
        outer, condition = self._arms, len(self.conditions)
        self.conditions[condition] = len(arms)
        for number, arm in enumerate(arms):
            self._arms = (*outer, (condition, number))
            self.each(arm)
        self._arms = outer

    def _test(self, node: ast.expr) -> None:
        """Visit a value that is asked whether it is true."""
        self.visit(node)
        self._add(node.lineno, "test", spelled("__bool__ __len__"), READS)

    # Statements

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.each(node.decorator_list)
        self.each((*node.args.defaults, *node.args.kw_defaults))
        self._decorated(node.decorator_list)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self.each(node.decorator_list)
        self.each((*node.bases, *(keyword.value for keyword in node.keywords)))
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        names = {node.name, "__build_class__", "__new__", "__init__", "__prepare__"}
        self._add(first, "class", frozenset(names))
        self._decorated(node.decorator_list)

    def _decorated(self, decorators: list[ast.expr]) -> None:
        for node in reversed(decorators):
            name = last_name(node.func if isinstance(node, ast.Call) else node)
            self._add(node.lineno, "call", frozenset({name, "__call__", "__init__"}), open=True)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.each((*node.args.defaults, *node.args.kw_defaults))

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> None:
        self._add(node.lineno, "import", _IMPORT)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        written = isinstance(node.value, (ast.Tuple, ast.List))
        for target in node.targets:
            # What is written out is not gone over.
            self.each(target.elts if written and isinstance(target, ast.Tuple) else (target,))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.each((node.value, node.target))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        target = node.target
        if isinstance(target, ast.Subscript):
            self.each((target.value, target.slice))
            self._subscript(target, ast.Load())
        elif isinstance(target, ast.Attribute):
            self.visit(target.value)
            self._attribute(target, ast.Load())
        self.visit(node.value)
        self._binary(node)
        if isinstance(target, ast.Subscript):
            self._subscript(target, ast.Store())
        elif isinstance(target, ast.Attribute):
            self._attribute(target, ast.Store())

    def visit_If(self, node: ast.If) -> None:
        self._test(node.test)
        self._branches(node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._test(node.test)
        self._branches((node.body,), (node.orelse,))

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        for case in node.cases:
            if case.guard is not None:
                self._test(case.guard)
        self._branches(*(case.body for case in node.cases))

    def visit_Assert(self, node: ast.Assert) -> None:
        self._test(node.test)
        self.each((node.msg,))

    def visit_While(self, node: ast.While) -> None:
        with self._loop():
            self._test(node.test)
            self.each(node.body)
        self.each(node.orelse)

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self._iterated(node.iter)
        with self._loop():
            self._next(node)
            self.each(node.body)
        self.each(node.orelse)

    def visit_With(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            self._add(item.context_expr.lineno, "enter", spelled("__enter__ __aenter__"))
            self.each((item.optional_vars,))
        self.each(node.body)
        for item in reversed(node.items):
            names = spelled("__exit__ __aexit__")
            self._add(item.context_expr.lineno, "exit", names)

    # Expressions

    def visit_Call(self, node: ast.Call) -> None:
        func = node.func
        if isinstance(func, ast.Attribute):
            self.visit(func.value)
            self._add(func.end_lineno or func.lineno, "load", _LOAD, own=_of_self(func))
        else:
            self.visit(func)
        self.each((*node.args, *(keyword.value for keyword in node.keywords)))
        line = (func.end_lineno if isinstance(func, ast.Attribute) else None) or node.lineno
        name = last_name(func)
        converts = CONVERSIONS.get(name) if isinstance(func, ast.Name) else None
        names = {name, self.scope.aliases.get(name, name)}
        operators = _NO_NAMES
        if converts is not None:
            names |= converts
            operators = READS if name in ("float", "int", "bool", "complex") else _NO_NAMES
            names |= {last_name(arg.func) for arg in node.args if isinstance(arg, ast.Call)}
        self._add(
            line,
            "call",
            frozenset(names),
            operators,
            self.scope.attributes.get(name, _NO_NAMES) if _of_self(func) else _NO_NAMES,
            open=converts is None and self._may_be_anything(func),
            method=not self._variable(func),
        )

    def _variable(self, func: ast.expr) -> bool:
        """Say whether what is called is a variable of the function, kept in ``self``, or taken out
        of something, rather than a method."""
        if isinstance(func, ast.Name):
            return func.id in self.bound
        return not isinstance(func, ast.Attribute) or _of_self(func)

    def _may_be_anything(self, func: ast.expr) -> bool:
        """Say whether a call's name may stand for anything: it is a variable, or none at all."""
        known = self.scope.known
        if isinstance(func, ast.Name):
            return func.id in self.bound or func.id not in known
        if not isinstance(func, ast.Attribute):
            return True
        of_known = isinstance(func.value, ast.Name) and func.value.id in known
        return func.attr not in known and (not of_known or _of_self(func))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.visit(node.value)
        self._attribute(node, node.ctx)

    def _attribute(self, node: ast.Attribute, context: ast.expr_context) -> None:
        line = node.end_lineno or node.lineno
        if isinstance(context, ast.Load):
            names = _LOAD | {node.attr}
            operators = ATTRIBUTES.get(node.attr, _NO_NAMES)
            self._add(line, "load", names, operators, own=_of_self(node))
        elif isinstance(context, ast.Store):
            self._add(line, "store", _STORE | {node.attr}, ATTRIBUTES.get(node.attr, _NO_NAMES))
        else:
            self._add(line, "store", spelled("__delattr__ __delete__"))

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.each((node.value, node.slice))
        self._subscript(node, node.ctx)

    def _subscript(self, node: ast.Subscript, context: ast.expr_context) -> None:
        if isinstance(context, ast.Load):
            names = spelled("__getitem__ __class_getitem__ __missing__ inner")
            self._add(node.lineno, "subscript", names, INDEXING)
        elif isinstance(context, ast.Store):
            self._add(node.lineno, "subscript", spelled("__setitem__"), INDEXING | STORING)
        else:
            self._add(node.lineno, "subscript", spelled("__delitem__"))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self.each((node.left, node.right))
        self._binary(node)

    def _binary(self, node: ast.BinOp | ast.AugAssign) -> None:
        name, operators = BINARY[type(node.op).__name__]
        names = frozenset({f"__{name}__", f"__r{name}__", f"__i{name}__"})
        self._add(node.lineno, "operator", names, operators)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._test(node.operand)
        else:
            self.visit(node.operand)
            name, operators = UNARY[type(node.op).__name__]
            self._add(node.lineno, "operator", frozenset({f"__{name}__"}), operators)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for value in node.values:
            self._test(value)

    def visit_Compare(self, node: ast.Compare) -> None:
        self.visit(node.left)
        for operator, other in zip(node.ops, node.comparators, strict=True):
            self.visit(other)
            names, operators = COMPARISONS.get(type(operator).__name__, (_NO_NAMES, _NO_NAMES))
            if names:
                self._add(node.lineno, "operator", names, operators)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> None:
        self.each((node.value, node.format_spec))
        names = spelled("__format__ __str__ __repr__")
        self._add(node.value.lineno, "format", names, READS)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> None:
        if isinstance(node.ctx, ast.Store):
            self._add(node.lineno, "unpack", ITERATION, spelled("unbind"))
        self.each(node.elts)

    def visit_Starred(self, node: ast.Starred) -> None:
        self.visit(node.value)
        if isinstance(node.ctx, ast.Load):
            self._add(node.lineno, "unpack", ITERATION | _called(node.value), spelled("unbind"))

    def visit_Dict(self, node: ast.Dict) -> None:
        for key, value in zip(node.keys, node.values, strict=True):
            self.each((key, value))
            self._add(value.lineno, "hash", spelled("__hash__ __eq__ keys"))

    def visit_ListComp(self, node: Comprehension) -> None:
        self._iterated(node.generators[0].iter)
        self._add(node.lineno, "inner", frozenset({COMPREHENSIONS[type(node)]}))
        if self.scope.inline and not isinstance(node, ast.GeneratorExp):
            self.comprehended(node)

    def comprehended(self, node: Comprehension, level: int = 0) -> None:
        """Add what runs inside of a comprehension; what its first loop iterates over is outside."""
        if level == len(node.generators):
            self.each((node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,))
            return
        loop = node.generators[level]
        if level:
            self._iterated(loop.iter)
        with self._loop():
            self._next(loop)
            for test in loop.ifs:
                self._test(test)
            self.comprehended(node, level + 1)

    def _iterated(self, over: ast.expr) -> None:
        self.visit(over)
        self._add(over.lineno, "iter", spelled("__iter__ __aiter__ __len__"))

    def _next(self, loop: ast.For | ast.AsyncFor | ast.comprehension) -> None:
        """Add the call that gives a loop its next element, and what binding it runs."""
        names = ITERATION | _called(loop.iter)
        if isinstance(loop.iter, ast.GeneratorExp):
            names |= {"<genexpr>"}
        self._add(loop.iter.lineno, "next", names, open=True)
        self.visit(loop.target)


def _of_self(node: ast.expr) -> bool:
    """Say whether something is an attribute of ``self``."""
    owner = node.value if isinstance(node, ast.Attribute) else None
    return isinstance(owner, ast.Name) and owner.id == "self"


def _called(node: ast.expr) -> Names:
    """Return the names of what is called in an expression: generators run where one goes over
    them."""
    return frozenset(last_name(each.func) for each in ast.walk(node) if isinstance(each, ast.Call))


def last_name(func: ast.expr) -> str:
    """Return the last name of what is called; empty where it has none."""
    if isinstance(func, ast.Attribute):
        return func.attr
    return func.id if isinstance(func, ast.Name) else ""


def kept_classes(owner: ast.ClassDef) -> dict[str, Names]:
    """Return the classes of what the methods of a class assign to attributes of ``self``: empty for
    an attribute that gets anything else as well."""
    found: dict[str, set[str] | None] = {}
    for node in ast.walk(owner):
        match node:
            case ast.Assign([ast.Attribute(ast.Name("self"), name)], v):
                made = last_name(v.func) if isinstance(v, ast.Call) else ""
                old = found.get(name, set())
                known = bool(made) and made[:1].isupper() and old is not None
                found[name] = {*(old or ()), made} if known else None
    return {name: frozenset(classes) for name, classes in found.items() if classes}
