"""The names that a file gives to others: its top-level classes, functions, imports and aliases.

Read with `ast`, which is many times faster than libcst and enough for the structure of a project.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import field

from torchlint.base.records import frozen
from torchlint.semantic.torch.names import MOVES
from torchlint.source.python import DEFS, children, needs

CLASS, FUNCTION, IMPORT, ALIAS, OTHER = "class", "function", "import", "alias", "other"


@frozen
class Origin:
    """Where a top-level name comes from.

    Args:
        kind: `CLASS`, `FUNCTION`, `IMPORT`, `ALIAS` (``Net = Other``) or `OTHER`.
        dotted: the name that an import or alias stands for; relative ones start with dots.
        bases: the bases of a class as dotted names; ``""`` for one that is no plain name.
        line: of a definition, so that two of one name are told apart.
        methods: those that a class itself defines.
        abstract: those of them that do nothing, and are for other classes to define.
        makes: what each return of a function is a call of, as a dotted name: ``return Net(n)``.
    """

    kind: str
    dotted: str = ""
    bases: tuple[str, ...] = ()
    line: int = 0
    methods: frozenset[str] = frozenset()
    abstract: frozenset[str] = frozenset()
    makes: str = ""


@frozen
class Index:
    """The top-level names of one file, None for a name with two origins, the modules it imports
    with a star, and what is imported in any case when the file runs: modules, each with the names
    that are taken from it. `readable` says whether Python accepts the file."""

    names: Mapping[str, Origin | None] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()
    readable: bool = True


def index(tree: ast.Module | None) -> Index:
    """Return the index of a file by CPython's tree; an empty one for a text that Python does not
    accept."""
    if tree is None:
        return Index(readable=False)
    found = _Collector()
    found.block(tree.body)
    names = {
        name: next(iter(origins)) if len(origins) == 1 else None
        for name, origins in found.origins.items()
    }
    return Index(names, tuple(found.stars), tuple(needs(tree)))


def _dotted(node: ast.expr) -> str:
    while isinstance(node, ast.Subscript):
        node = node.value  # ``Generic[T]``
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def _is_idle(node: ast.stmt) -> bool:
    """Say whether a statement does nothing: a docstring, ``pass``, ``...``, and ``raise
    NotImplementedError`` too."""
    match node:
        case ast.Pass() | ast.Expr(ast.Constant()):
            return True
        case ast.Raise(ast.Call(ast.Name(name)) | ast.Name(name)):
            return name == "NotImplementedError"
    return False


_HOLDING_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)
_BACK = MOVES | {"eval", "train"}
"""Methods of a network that give it back."""


def _made_by_returns(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return the one name of which each return of a function gives a call, ``""`` where one gives
    anything else: also under a name of its own that nothing else is bound to."""
    if not isinstance(function, ast.FunctionDef):
        return ""
    found = ""
    for node in _statements(function):
        if not isinstance(node, ast.Return):
            continue
        name = _constructed(node.value, function)
        if name != (found or name) or not name:
            return ""
        found = name
    return found


def _statements(function: ast.FunctionDef) -> list[ast.AST]:
    """Return the statements of a function, those in blocks among them, but not those of functions
    in it."""
    found: list[ast.AST] = [*function.body]
    for node in found:
        if not isinstance(node, DEFS):
            found += [each for each in children(node) if isinstance(each, _HOLDING_STATEMENTS)]
    return found


def _constructed(value: ast.expr | None, function: ast.FunctionDef | None) -> str:
    while (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr in _BACK
    ):
        value = value.func.value
    if isinstance(value, ast.Call):
        return _dotted(value.func)
    if not isinstance(value, ast.Name) or function is None:
        return ""
    made = {
        _constructed(node.value, None)
        for node in _statements(function)
        if isinstance(node, ast.Assign) and any(_dotted(each) == value.id for each in node.targets)
    } - {""}
    if len(made) != 1:
        return ""
    own: list[ast.AST] = [*function.body]
    for node in own:
        own += () if isinstance(node, (*DEFS, ast.Lambda)) else children(node)
    bound = sum(
        isinstance(node, ast.Name) and node.id == value.id and isinstance(node.ctx, ast.Store)
        for node in own
    )
    return made.pop() if bound == 1 else ""


class _Collector:
    def __init__(self) -> None:
        self.origins: dict[str, set[Origin]] = {}
        self.stars: list[str] = []

    def block(self, body: Iterable[ast.stmt]) -> None:
        for node in body:
            self._statement(node)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.ClassDef):
            bases = tuple(_dotted(base) for base in node.bases)
            defined = [each for each in node.body if isinstance(each, DEFS)]
            methods = frozenset(each.name for each in defined)
            abstract = frozenset(each.name for each in defined if all(map(_is_idle, each.body)))
            self._bind(node.name, Origin(CLASS, "", bases, node.lineno, methods, abstract))
        elif isinstance(node, DEFS):
            self._bind(node.name, Origin(FUNCTION, line=node.lineno, makes=_made_by_returns(node)))
        elif isinstance(node, ast.Import):
            for item in node.names:
                first = item.name.partition(".")[0]
                self._bind(
                    item.asname or first, Origin(IMPORT, item.name if item.asname else first)
                )
        elif isinstance(node, ast.ImportFrom):
            self._import_from(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            self._assigned(node)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            self._nested(node)

    def _assigned(self, node: ast.Assign | ast.AnnAssign) -> None:
        if node.value is None or (
            isinstance(node.value, ast.Constant) and node.value.value is None
        ):
            return  # ``torch = None`` of a failed optional import says nothing
        dotted = _dotted(node.value)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            for name in ast.walk(target):
                if isinstance(name, ast.Name):
                    whole = dotted and name is target
                    self._bind(
                        name.id, Origin(ALIAS, dotted) if whole else Origin(OTHER, line=node.lineno)
                    )

    def _nested(self, node: ast.If | ast.Try | ast.With) -> None:
        self.block(node.body)
        if not isinstance(node, ast.With):
            self.block(node.orelse)
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                self.block(handler.body)
            self.block(node.finalbody)

    def _import_from(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        for item in node.names:
            if item.name == "*":
                self.stars.append(base)
            else:
                full = base + item.name if base.endswith(".") else f"{base}.{item.name}"
                self._bind(item.asname or item.name, Origin(IMPORT, full))

    def _bind(self, name: str, origin: Origin) -> None:
        self.origins.setdefault(name, set()).add(origin)
