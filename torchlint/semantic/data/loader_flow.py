"""Where a loader goes, and where a batch comes from, in this file and in others of the project.

Near: the loops of a file over a loader. Forward: from the call that makes a loader through returns,
containers, arguments and attributes to all loops that go over it, wherever one way leads there.
Back: from a batch to the calls that make its loader, where every way back ends at one, else nothing
is known. A path says how to get from what is held to the loader: the index of a tuple's element, a
key, or `EACH` for all elements of a list.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import libcst as cst

from torchlint.semantic.code.flow import call_sites, callees_of, reads_of
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.reaching import definitions_of, readers_of
from torchlint.semantic.code.scopes import local_class, name_outside
from torchlint.semantic.code.tree import (
    COMPREHENSIONS,
    DISPLAYS,
    components,
    is_name,
    last_small,
    literal,
    method_called,
    parameters_of,
    root_of,
    targets_of,
)
from torchlint.semantic.data.loader_calls import built, makes_loader
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.values.definitions_behind import classes, made, method, named
from torchlint.semantic.values.inferred import classes_of_instance, inferred, is_loader
from torchlint.semantic.values.value import Value

EACH = None
"""The selector of a path that any element of a container answers."""
Path = tuple[int | str | None, ...]
Consumer = tuple[Module, cst.For | cst.While]
"""A loop that takes batches from a loader, and the analysis of its file."""
Made = tuple[Module, cst.Call]
"""A call that makes a loader, and the analysis of its file."""
_FORWARD, _BACK = 400, 80
"""Places that are looked at for one loader, and for one batch."""
_SAME = ("builtins.enumerate", "builtins.iter", "itertools.cycle", "itertools.islice")
_PARTS = frozenset(("items", "values"))
"""Methods by which a loop goes over the parts of a batch."""
_NOTHING = ("None", "False")


@question(ground=True)
def _loops_by_loader(module: Module) -> dict[cst.Call, list[cst.For | cst.CompFor]]:
    """Return for each call that makes a loader the loops and comprehensions that go over it."""
    out: dict[cst.Call, list[cst.For | cst.CompFor]] = {}
    for loop in module.nodes(cst.For, cst.CompFor):
        assert isinstance(loop, (cst.For, cst.CompFor))
        for goes in loop_sources(module, loop):
            for call in built(module, goes.iterated):
                out.setdefault(call, []).append(loop)
    return out


@question(
    yes="a loop of this file goes over the loader", no="no loop of this file goes over the loader"
)
def loader_loops(module: Module, loader: cst.Call) -> list[cst.For | cst.CompFor]:
    """Return the loops and comprehensions of this file that go over the loader that a call
    makes."""
    return _loops_by_loader(module).get(loader, [])


@question(
    yes="the batch comes from `{answer}`",
    no="it is not known which loader makes the batch",
    circular=(),
)
def feeding_loaders(module: Module, node: cst.CSTNode) -> list[cst.Call]:
    """Return the calls that may have made the loader whose batches are at hand at `node`."""
    for loop in module.loops(node):
        if isinstance(loop, cst.For):
            for goes in loop_sources(module, loop):
                found = built(module, goes.iterated)
                if found or is_loader(module, goes.iterated):
                    return found
    function = module.function(node)
    if function is None:
        return []
    return [call for site in call_sites(module, function) for call in feeding_loaders(module, site)]


@question(yes="loops go over the loader", no="no loop is known to go over the loader", ground=True)
def consumers_of(module: Module, loader: cst.Call) -> list[Consumer]:
    """Return the loops that go over the loader that a call makes, or take its batches by ``next``,
    in any file of the project."""
    tracker = _Forward(module)
    tracker.follow(module, loader, ())
    return tracker.loops


@question(yes="only its first batch is taken", no="more than its first batch may be taken")
def gives_one_batch(module: Module, loader: cst.Call) -> bool:
    """Say whether each loop over a loader ends after its first batch, ``plot(batch); break``, or
    all that reads it is ``next(iter(loader))``."""
    loops = [loop for _, loop in consumers_of(module, loader)]
    ends = (isinstance(loop, cst.For) and _ends_at_once(loop) for loop in loops)
    return (bool(loops) and all(ends)) or _begun_alone(module, loader)


def _begun_alone(module: Module, loader: cst.Call) -> bool:
    """Say whether all that reads a loader is ``next(iter(loader))``, in no step."""
    reads = only_begun(module, loader)
    return bool(reads) and not any(heat_of(module, read).hot for read in reads)


def only_begun(module: Module, loader: cst.Call) -> list[cst.Name]:
    """Return the reads of a loader that has a name, where each is in ``next(iter(loader))``, or
    makes an iterator that is only asked for its first batches; else none."""
    reads = _reads(module, loader)
    begun = [module.parent(module.parent(read) or read) for read in reads]
    alone = all(
        isinstance(call, cst.Call)
        and module.name(call.func) == "builtins.iter"
        and _only_asked(module, call, call)
        for call in begun
    )
    return reads if alone else []


def _reads(module: Module, node: cst.BaseExpression) -> list[cst.Name]:
    match module.small_statement(node):
        case cst.Assign([cst.AssignTarget(cst.Name(name))], value) as home if value is node:
            return readers_of(module, home, name)
    return []


def _only_asked(module: Module, node: cst.BaseExpression, made: cst.Call) -> bool:
    """Say whether all that is done with an iterator is ``next(iterator)``, as often as it is
    made."""
    if isinstance(given := module.parent(node), cst.Arg):
        next_one = module.called(module.parent(given)) == "builtins.next"
        return next_one and module.loop(node) is module.loop(made)
    reads = _reads(module, node) if node is made else []
    return bool(reads) and all(_only_asked(module, read, made) for read in reads)


def _ends_at_once(loop: cst.For) -> bool:
    return isinstance(last_small(loop.body), cst.Break)


@question(
    yes="the loaders that make the batch are known",
    no="it is not known which loaders of the project make the batch",
    ground=True,
)
def loaders_of_batch(module: Module, batch: cst.BaseExpression) -> list[Made]:
    """Return the calls, in any file of the project, that make the loaders from which a batch, or
    the part of one, comes; nothing where one of them is not known."""
    tracker = _Back(module)
    return tracker.loaders if tracker.batch(module, batch) else []


def _passes_batches(name: str) -> bool:
    """Say whether what a call of that name gives goes over the batches of the loader that it is
    given first."""
    return name in _SAME or name.startswith("tqdm.")


class _Tracker:
    """Follows one loader or batch.

    Args:
        origin: the file that asks, which alone may ask for the analyses of others.
    """

    def __init__(self, origin: Module) -> None:
        self.origin = origin
        self._seen: set[tuple[Module, cst.CSTNode, Path]] = set()

    def _functions(self, where: Module, call: cst.Call) -> list[tuple[Module, cst.FunctionDef]]:
        """Return the functions that a call may run, of a class its constructor, in any file."""
        here = (each for each in callees_of(where, call) if isinstance(each, cst.FunctionDef))
        functions = dict.fromkeys((where, each) for each in here)
        found = named(where, call.func, self.origin) or method(
            where, made(where, call), "__init__", self.origin
        )
        if found is None and isinstance(call.func, cst.Attribute):
            owner = self._owner(where, call.func.value)
            found = method(where, owner, call.func.attr.value, self.origin)
        return list(functions | ({found: None} if found is not None else {}))

    def _owner(self, where: Module, node: cst.BaseExpression) -> Value:
        """Return the object whose attribute is asked for."""
        own = is_name(node, "self")
        return Value("object", node=where.class_of(node)) if own else inferred(where, node)

    def _calls(self, where: Module, function: cst.FunctionDef) -> Iterator[Made]:
        """Yield the calls of a function, of a constructor those of its class, in any file."""
        here, cls = call_sites(where, function), where.class_of(function)
        if function.name.value == "__init__" and cls is not None:
            here = [each for each in where.nodes(cst.Call) if local_class(where, each.func) is cls]
        yield from ((where, site) for site in here)
        name = name_outside(where, function)
        if name is not None:
            yield from self.origin.outside.calling(Definition(where.path, name, ""))


class _Forward(_Tracker):
    """Follows one loader to the loops that take its batches."""

    def __init__(self, origin: Module) -> None:
        super().__init__(origin)
        self.loops: list[Consumer] = []

    def follow(self, where: Module, node: cst.CSTNode, path: Path) -> None:
        """Follow an expression that holds the loader."""
        if (where, node, path) in self._seen or len(self._seen) > _FORWARD or len(path) > 3:
            return
        self._seen.add((where, node, path))
        above = where.parent(node)
        match above:
            case cst.For() | cst.CompFor() if above.iter is node:
                self._iterated(where, above, path)
            case cst.Arg():
                self._follow_argument(where, above, path)
            case cst.Assign() | cst.AnnAssign() | cst.NamedExpr() | cst.WithItem():
                for target in targets_of(above):
                    if target is not node:
                        self._bound(where, target, path)
            case cst.Return():
                self._returned(where, where.function(node), path)
            case cst.Element() | cst.DictElement() | cst.ListComp() | cst.DictComp():
                self._contained(where, node, above, path)
            case cst.IfExp() | cst.BooleanOperation():
                self.follow(where, above, path)
            case cst.Subscript() if above.value is node and path:
                if path[0] in (EACH, key := _selector(above)) or key == EACH:
                    self.follow(where, above, path[1:])

    def _iterated(self, where: Module, loop: cst.For | cst.CompFor, path: Path) -> None:
        if path:
            self._bound(where, loop.target, path[1:])
        elif isinstance(loop, cst.For):
            self._consumed(where, loop)

    def _consumed(self, where: Module, loop: cst.For | cst.While) -> None:
        if (where, loop) not in self.loops:
            self.loops.append((where, loop))

    def _contained(self, where: Module, node: cst.CSTNode, above: cst.CSTNode, path: Path) -> None:
        if isinstance(above, (cst.ListComp, cst.DictComp)):
            if node is (above.elt if isinstance(above, cst.ListComp) else above.value):
                self.follow(where, above, (EACH, *path))
            return
        holder = where.parent(above)
        if isinstance(above, cst.DictElement) and holder is not None and node is above.value:
            self.follow(where, holder, (literal(above.key), *path))
        elif isinstance(holder, DISPLAYS):
            index = next(i for i, each in enumerate(holder.elements) if each is above)
            self.follow(where, holder, (index, *path))

    def _bound(self, where: Module, target: cst.CSTNode, path: Path) -> None:
        """Follow what a target is bound to."""
        match target:
            case cst.Name():
                scope, _ = where.names.bindings(target.value, target)
                if scope is not None:
                    self._named(where, scope, target.value, path)
            case cst.Tuple() | cst.List() if path:
                for index, element in enumerate(target.elements):
                    if path[0] in (EACH, index):
                        self._bound(where, element.value, path[1:])
            case cst.Attribute(cst.Name("self"), cst.Name(attr)):
                cls = where.class_of(target)
                if cls is not None:
                    self._follow_attribute(where, cls, attr, path)
            case cst.Subscript():
                self._bound(where, target.value, (_selector(target), *path))

    def _named(self, where: Module, scope: cst.CSTNode, name: str, path: Path) -> None:
        for read in reads_of(where, scope, name):
            if where.names.bindings(name, read)[0] is scope:
                self.follow(where, read, path)

    def _follow_attribute(self, where: Module, cls: cst.ClassDef, attr: str, path: Path) -> None:
        """Follow the reads of ``self.attr`` in a class and its relatives."""
        for home, each in self._family(where, cls):
            for node in home.within(each.body, cst.Attribute, nested=True):
                if node.attr.value == attr and is_name(node.value, "self"):
                    self.follow(home, node, path)
        made = Definition(where.path, cls.name.value, "")
        makers = [where, *(home for home, _ in self.origin.outside.calling(made))]
        for home in dict.fromkeys(makers):
            for name in home.tree.named(attr):
                read = home.parent(name)
                if isinstance(read, cst.Attribute) and self._is_of(home, read, where, cls):
                    self.follow(home, read, path)

    def _is_of(self, home: Module, read: cst.Attribute, where: Module, cls: cst.ClassDef) -> bool:
        """Say whether ``data.loader`` reads from an object of a class, or of one derived from
        it."""
        if is_name(read.value, "self"):
            return False
        held = inferred(home, read.value)
        return held.node is cls or any(
            (each.path, each.name) == (where.path, cls.name.value)
            for each in classes_of_instance(home, held)
        )

    def _family(self, where: Module, cls: cst.ClassDef) -> Iterator[tuple[Module, cst.ClassDef]]:
        for each in where.nodes(cst.ClassDef):
            if each is not cls and any(local_class(where, arg.value) is cls for arg in each.bases):
                yield where, each
        yield from classes(where, Value("object", node=cls), self.origin)

    def _returned(self, where: Module, function: cst.FunctionDef | None, path: Path) -> None:
        if function is None:
            return
        for home, call in self._calls(where, function):
            self.follow(home, call, path)

    def _follow_argument(self, where: Module, arg: cst.Arg, path: Path) -> None:
        """Follow an argument of a call."""
        call = where.parent(arg)
        if not isinstance(call, cst.Call) or arg.star:
            return
        name = where.called(call)
        if name == "builtins.next":
            loops = where.loops(call)
            if loops and not path:
                self._consumed(where, loops[0])
        elif name == "builtins.zip":
            at = where.parent(call)
            while isinstance(at, cst.Arg):  # enumerate(zip(…))
                at = where.parent(where.parent(at) or at)
            if isinstance(at, cst.For) and any(
                goes.iterated in (arg.value, call) for goes in loop_sources(where, at)
            ):
                self._consumed(where, at)
        elif _passes_batches(name):
            self._wrapped(where, call, arg, path)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            self._bound(where, call.func.value, (EACH, *path))
        else:
            for home, function in self._functions(where, call):
                passed = home.bind(function, call)
                for param in (name for name, value in passed.items() if value is arg.value):
                    self._named(home, function, param, path)

    def _wrapped(self, where: Module, call: cst.Call, arg: cst.Arg, path: Path) -> None:
        if call.args[0] is not arg:
            return
        loop = where.parent(call)
        if path and isinstance(loop, cst.For) and loop.iter is call:
            for goes in loop_sources(where, loop):
                if goes.iterated is arg.value:
                    self._bound(where, goes.target, path[1:])
        else:
            self.follow(where, call, path)


class _Back(_Tracker):
    """Looks for the loaders of one batch; each step says whether all of them were found."""

    def __init__(self, origin: Module) -> None:
        super().__init__(origin)
        self.loaders: list[Made] = []

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
                if _made_of(where, node, loop, where.names_in(goes.target)):
                    if method_called(goes.iterated) in _PARTS:
                        return self.batch(where, goes.iterated)
                    return self.loader(where, goes.iterated, ())
        function = where.function(node)
        for param in _params(function) if function is not None else ():
            if function is not None and _made_of(where, node, function, {param}):
                given = self._arguments_for(where, function, param)
                return bool(given) and all(
                    arg is not None and self.batch(home, arg) for home, arg in given
                )
        return False

    def _is_first_look(self, where: Module, node: cst.CSTNode, path: Path) -> bool:
        """Say whether a place was not looked at before, nor too many were."""
        key = (where, node, path)
        again = where.path == self.origin.path and where is not self.origin
        if key in self._seen or len(self._seen) > _BACK or again:
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
                key = _selector(node)
                return key is not None and self.loader(where, node.value, (key, *path))
            case cst.Tuple() | cst.List() | cst.Dict() if path:
                part = _display_part(node, path[0])
                return part is not None and self.loader(where, part, path[1:])
            case cst.IfExp():
                return all(self.loader(where, each, path) for each in (node.body, node.orelse))
        return False

    def _called(self, where: Module, call: cst.Call, path: Path) -> bool:
        if not path and makes_loader(where, call):
            if (where, call) not in self.loaders:
                self.loaders.append((where, call))
            return True
        name = where.called(call)
        if _passes_batches(name) and call.args:
            return self.loader(where, call.args[0].value, path)
        functions = self._functions(where, call)
        if len(functions) != 1:
            return False
        home, function = functions[0]
        if function.decorators or home.contains(function.body, cst.Yield):
            return False
        # None and False are told apart by the caller: no loop goes over them.
        given = [each.value for each in home.within(function.body, cst.Return)]
        given = [v for v in given if not isinstance(v, cst.Name) or v.value not in _NOTHING]
        return bool(given) and all(
            value is not None and self.loader(home, value, path) for value in given
        )

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
        for home, cls in classes(where, self._owner(where, node.value), self.origin):
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

    def _arguments_for(
        self, where: Module, function: cst.FunctionDef, name: str
    ) -> list[tuple[Module, cst.BaseExpression | None]]:
        """Return what the calls of a function, or of its class, give for a parameter; None where a
        call does not say."""
        return [
            (home, None if function.decorators else where.bind(function, call).get(name))
            for home, call in self._calls(where, function)
        ]


def _selector(node: cst.Subscript) -> int | str | None:
    """Return the index or key that a subscript asks for; None for any other."""
    index = node.slice[0].slice
    return literal(index.value) if isinstance(index, cst.Index) else None


def _root_name(node: cst.BaseExpression) -> cst.Name | None:
    """Return the name that ``batch["x"]``, ``batch.x`` and ``batch.float()`` start with."""
    at = root_of(node)
    return at if isinstance(at, cst.Name) else None


def _made_of(
    where: Module, node: cst.BaseExpression, origin: cst.CSTNode, names: Collection[str]
) -> bool:
    """Say whether an expression is, or is made of, what a loop or a function binds to some names,
    whichever way led to it."""
    todo = [*components(node, cst.Tuple, cst.IfExp)]
    seen: set[cst.CSTNode] = set()
    while todo:
        root = _root_name(todo.pop())
        made = definitions_of(where, root) if root is not None else []
        if not made:
            return False
        for each in made:
            own = each is origin and root is not None and root.value in names
            if own or each in seen:
                continue
            seen.add(each)
            if not isinstance(each, cst.Assign):
                return False
            todo += components(each.value, cst.Tuple, cst.IfExp)
    return True


def _params(function: cst.FunctionDef) -> list[str]:
    names = (param.name.value for param in parameters_of(function))
    return [name for name in names if name not in ("self", "cls")]


def _position(target: cst.BaseExpression, attr: str) -> Path | None:
    """Return where in a target ``self.attr`` stands; None for nowhere."""
    match target:
        case cst.Attribute(cst.Name("self"), cst.Name(name)) if name == attr:
            return ()
        case cst.Tuple(elements):
            places = (dotted_text(each.value) for each in elements)
            return next(((i,) for i, each in enumerate(places) if each == f"self.{attr}"), None)
    return None


def _display_part(
    node: cst.Tuple | cst.List | cst.Dict, key: int | str | None
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
