"""Where a batch comes from: back from the loop that hands it out, through names, arguments,
attributes and returns, to the calls that make its loader, in any file of the project.

This is `loader_flow` the other way round, and stricter: every way back has to end at a loader, else
nothing is known. A path says how to get from what is held to the loader: the index of a tuple's
element, or a key.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import libcst as cst

from torchlint.rule import Module, inferred
from torchlint.semantic.code.flow import call_sites, callees_of
from torchlint.semantic.code.reaching import definitions_of
from torchlint.semantic.code.scopes import local_class, name_outside
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    is_name,
    literal,
    method_called,
    parameters_of,
    root_of,
    targets_of,
)
from torchlint.semantic.data.loader_flow import passes_batches, selector
from torchlint.semantic.data.loaders import makes_loader
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.question import question
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.values import definitions_behind
from torchlint.semantic.values.value import Value

Path = tuple[int | str, ...]
Made = tuple[Module, cst.Call]
"""A call that makes a loader, and the analysis of its file."""
_PLACES = 80
"""Places that are looked at for one batch."""
_PARTS = frozenset(("items", "values"))
"""Methods by which a loop goes over the parts of a batch."""
_NOTHING = ("None", "False")


@question(
    yes="the loaders that make the batch are known",
    no="it is not known which loaders of the project make the batch",
    ground=True,
)
def loaders_of_batch(module: Module, batch: cst.BaseExpression) -> list[Made]:
    """Return the calls, in any file of the project, that make the loaders from which a batch, or
    the part of one, comes; nothing where one of them is not known."""
    search = _Search(module)
    return search.found if search.batch(module, batch) else []


class _Search:
    """Looks for the loaders of one batch; each step says whether all of them were found.

    Args:
        origin: the file that asks, which alone may ask for the analyses of others.
    """

    def __init__(self, origin: Module) -> None:
        self.origin = origin
        self.found: list[Made] = []
        self._seen: set[tuple[Module, cst.CSTNode, Path]] = set()

    def batch(self, where: Module, node: cst.BaseExpression) -> bool:
        """Look for the loop whose batch an expression is or comes from, here or around the calls of
        the function."""
        name = _root_name(node)
        if name is None or not self._is_first_look(where, node, ("batch",)):
            return False
        for above in where.ancestors(node):
            if isinstance(above, COMPREHENSIONS) and name.value in where.names_in(
                above.for_in.target
            ):
                return self.batch(where, above.for_in.iter)
        for loop in where.loops(node):
            for goes in loop_sources(where, loop) if isinstance(loop, cst.For) else ():
                if _made_of(where, node, loop, where.names_in(goes.target), set()):
                    if method_called(goes.iterated) in _PARTS:
                        return self.batch(where, goes.iterated)
                    return self.loader(where, goes.iterated, ())
        function = where.function(node)
        for param in _params(function) if function is not None else ():
            if function is not None and _made_of(where, node, function, {param}, set()):
                given = self._arguments_for(where, function, param)
                return bool(given) and all(
                    arg is not None and self.batch(home, arg) for home, arg in given
                )
        return False

    def _is_first_look(self, where: Module, node: cst.CSTNode, path: Path) -> bool:
        """Say whether a place was not looked at before, nor too many were."""
        key = (where, node, path)
        again = where.path == self.origin.path and where is not self.origin
        if key in self._seen or len(self._seen) > _PLACES or again:
            return False
        self._seen.add(key)
        return True

    def loader(self, where: Module, node: cst.BaseExpression, path: Path) -> bool:
        """Look for what made the loader that an expression holds."""
        if not self._is_first_look(where, node, path):
            return (where, node, path) in self._seen
        match node:
            case cst.Call():
                return self._called(where, node, path)
            case cst.Name():
                _, bindings = where.names.bindings(node.value, node)
                return bool(bindings) and all(
                    self._bound(where, each.kind, each.node, node.value, path) for each in bindings
                )
            case cst.Attribute():
                return self._attribute(where, node, path)
            case cst.Subscript():
                key = selector(node)
                return key is not None and self.loader(where, node.value, (key, *path))
            case cst.Tuple() | cst.List() | cst.Dict() if path:
                part = _display_part(node, path[0])
                return part is not None and self.loader(where, part, path[1:])
            case cst.IfExp():
                return all(self.loader(where, each, path) for each in (node.body, node.orelse))
        return False

    def _called(self, where: Module, call: cst.Call, path: Path) -> bool:
        if not path and makes_loader(where, call):
            if (where, call) not in self.found:
                self.found.append((where, call))
            return True
        name = where.called(call)
        if passes_batches(name) and call.args:
            return self.loader(where, call.args[0].value, path)
        home, function = self._function(where, call)
        if home is None or function is None or function.decorators:
            return False
        if home.contains(function.body, cst.Yield):
            return False
        # None and False are told apart by the caller: no loop goes over them.
        given = [each.value for each in home.within(function.body, cst.Return)]
        given = [v for v in given if not isinstance(v, cst.Name) or v.value not in _NOTHING]
        return bool(given) and all(
            value is not None and self.loader(home, value, path) for value in given
        )

    def _function(
        self, where: Module, call: cst.Call
    ) -> tuple[Module | None, cst.FunctionDef | None]:
        """Return the one function that a call runs, of this file or of another one."""
        here = callees_of(where, call)
        if here:
            sole = here[0] if len(here) == 1 else None
            return where, sole if isinstance(sole, cst.FunctionDef) else None
        found = definitions_behind.named(where, call.func, self.origin)
        if found is None and isinstance(call.func, cst.Attribute):
            owner = self._owner(where, call.func.value)
            found = definitions_behind.method(where, owner, call.func.attr.value, self.origin)
        return found or (None, None)

    def _bound(self, where: Module, kind: str, node: cst.CSTNode, name: str, path: Path) -> bool:
        """Look where one binding of a name leads."""
        if isinstance(node, cst.Param):
            function = where.function(node)
            given = self._arguments_for(where, function, name) if function is not None else []
            return bool(given) and all(
                arg is not None and self.loader(home, arg, path) for home, arg in given
            )
        if isinstance(node, cst.WithItem):
            bar = where.name(node.item.func) if isinstance(node.item, cst.Call) else None
            return (bar or "").startswith("tqdm.") and self.loader(where, node.item, path)
        if kind not in ("assign", "unpack") or not isinstance(node, (cst.Assign, cst.AnnAssign)):
            return False
        targets = targets_of(node)
        return node.value is not None and all(
            self._assigned(where, target, name, node.value, path)
            for target in targets
            if name in where.names_in(target)
        )

    def _assigned(
        self,
        where: Module,
        target: cst.BaseExpression,
        name: str,
        value: cst.BaseExpression,
        path: Path,
    ) -> bool:
        if isinstance(target, cst.Tuple):
            names = [
                e.value.value if isinstance(e.value, cst.Name) else "" for e in target.elements
            ]
            starred = any(isinstance(each, cst.StarredElement) for each in target.elements)
            if starred or names.count(name) != 1:
                return False
            return self.loader(where, value, (names.index(name), *path))
        return isinstance(target, cst.Name) and self.loader(where, value, path)

    def _attribute(self, where: Module, node: cst.Attribute, path: Path) -> bool:
        """Look at all that the nearest class of an object assigns to ``self.name``."""
        for home, cls in definitions_behind.classes(
            where, self._owner(where, node.value), self.origin
        ):
            made: list[tuple[cst.BaseExpression, Path]] = []
            for each in home.within(cls.body, cst.Assign, cst.AnnAssign, nested=True):
                assert isinstance(each, (cst.Assign, cst.AnnAssign))
                for target in targets_of(each):
                    at = _position(target, node.attr.value)
                    if at is not None and each.value is not None:
                        made.append((each.value, (*at, *path)))
            if made:
                return all(self.loader(home, value, there) for value, there in made)
        return False

    def _owner(self, where: Module, node: cst.BaseExpression) -> Value:
        """Return the object whose attribute is asked for."""
        own = is_name(node, "self")
        return Value("object", node=where.class_of(node)) if own else inferred(where, node)

    def _arguments_for(
        self, where: Module, function: cst.FunctionDef, name: str
    ) -> list[tuple[Module, cst.BaseExpression | None]]:
        """Return what the calls of a function, or of its class, give for a parameter; None where a
        call does not say."""
        cls = where.class_of(function)
        makes = cls if function.name.value == "__init__" else None
        return [
            (
                home,
                None if function.decorators else where.bind(function, call).get(name),
            )
            for home, call in self._calls(where, function, makes)
        ]

    def _calls(
        self, where: Module, function: cst.FunctionDef, makes: cst.ClassDef | None
    ) -> Iterator[Made]:
        here: Iterable[cst.Call] = call_sites(where, function)
        if makes is not None:
            made = where.nodes(cst.Call)
            here = (call for call in made if local_class(where, call.func) is makes)
        name = name_outside(where, function)
        yield from ((where, call) for call in here)
        if name is not None:
            yield from self.origin.outside.calling(Definition(where.path, name, ""))


def _root_name(node: cst.BaseExpression) -> cst.Name | None:
    """Return the name that ``batch["x"]``, ``batch.x`` and ``batch.float()`` start with."""
    at = root_of(node)
    return at if isinstance(at, cst.Name) else None


def _made_of(
    where: Module,
    node: cst.BaseExpression,
    origin: cst.CSTNode,
    names: Collection[str],
    seen: set[cst.CSTNode],
) -> bool:
    """Say whether an expression is, or is made of, what a loop or a function binds to some names,
    whichever way led to it."""
    match node:
        case cst.Tuple(elements):
            return all(_made_of(where, each.value, origin, names, seen) for each in elements)
        case cst.IfExp(body=body, orelse=orelse):
            return all(_made_of(where, each, origin, names, seen) for each in (body, orelse))
    root = _root_name(node)
    made = definitions_of(where, root) if root is not None else []
    for each in made:
        own = each is origin and root is not None and root.value in names
        made_here = each.value if isinstance(each, cst.Assign) else None
        if own or each in seen:
            continue
        seen.add(each)
        if made_here is None or not _made_of(where, made_here, origin, names, seen):
            return False
    return bool(made)


def _params(function: cst.FunctionDef) -> list[str]:
    names = (param.name.value for param in parameters_of(function))
    return [name for name in names if name not in ("self", "cls")]


def _position(target: cst.BaseExpression, attr: str) -> Path | None:
    """Return where in a target ``self.attr`` stands; None for nowhere."""
    match target:
        case cst.Attribute(cst.Name("self"), cst.Name(name)) if name == attr:
            return ()
        case cst.Tuple(elements):
            for index, each in enumerate(elements):
                if _position(each.value, attr) == ():
                    return (index,)
    return None


def _display_part(
    node: cst.Tuple | cst.List | cst.Dict, key: int | str
) -> cst.BaseExpression | None:
    """Return the element of a display at an index or key; None where that is not certain."""
    if isinstance(node, cst.Dict):
        held = [
            each.value
            for each in node.elements
            if isinstance(each, cst.DictElement) and literal(each.key) == key
        ]
        plain = all(isinstance(each, cst.DictElement) for each in node.elements)
        return held[0] if plain and len(held) == 1 else None
    plain = not any(isinstance(each, cst.StarredElement) for each in node.elements)
    if not plain or not isinstance(key, int) or key >= len(node.elements):
        return None
    return node.elements[key].value
