"""Where a loader goes: through returns, containers, arguments and attributes to the loops that go
over it, in this file and in others of the project.

What holds a loader is followed from the call that makes it. A path says how to get from what is
held to the loader: the index of a tuple's element, a key, or `EACH` for all elements of a list.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.code.flow import call_sites, callees_of, reads_of
from torchlint.semantic.code.reaching import readers_of
from torchlint.semantic.code.scopes import local_class, name_outside
from torchlint.semantic.code.tree import DISPLAYS, is_name, last_small, literal, targets_of
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.time.iterations import loop_sources
from torchlint.semantic.values.definitions_behind import classes, made, method, named
from torchlint.semantic.values.inferred import classes_of_instance, inferred
from torchlint.semantic.values.value import Value

EACH = None
"""The selector of a path that any element of a container answers."""
Path = tuple[int | str | None, ...]
Consumer = tuple[Module, cst.For | cst.While]
"""A loop that takes batches from a loader, and the analysis of its file."""
_STEPS = 400
"""Places that are looked at for one loader."""
_SAME = ("builtins.enumerate", "builtins.iter", "itertools.cycle", "itertools.islice")


def passes_batches(name: str) -> bool:
    """Say whether what a call of that name gives goes over the batches of the loader that it is
    given first."""
    return name in _SAME or name.startswith("tqdm.")


@question(yes="loops go over the loader", no="no loop is known to go over the loader", ground=True)
def consumers_of(module: Module, loader: cst.Call) -> list[Consumer]:
    """Return the loops that go over the loader that a call makes, or take its batches by ``next``,
    in any file of the project."""
    tracer = _Tracer(module)
    tracer.follow(module, loader, ())
    return tracer.found


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


class _Tracer:
    """Follows one loader.

    Args:
        origin: the file that makes it, which alone may ask for the analyses of others.
    """

    def __init__(self, origin: Module) -> None:
        self.origin = origin
        self.found: list[Consumer] = []
        self._seen: set[tuple[Module, cst.CSTNode, Path]] = set()

    def follow(self, where: Module, node: cst.CSTNode, path: Path) -> None:
        """Follow an expression that holds the loader."""
        if (where, node, path) in self._seen or len(self._seen) > _STEPS or len(path) > 3:
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
                if path[0] in (EACH, key := selector(above)) or key == EACH:
                    self.follow(where, above, path[1:])

    def _iterated(self, where: Module, loop: cst.For | cst.CompFor, path: Path) -> None:
        if path:
            self._bound(where, loop.target, path[1:])
        elif isinstance(loop, cst.For):
            self._consumed(where, loop)

    def _consumed(self, where: Module, loop: cst.For | cst.While) -> None:
        if (where, loop) not in self.found:
            self.found.append((where, loop))

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
                self._bound(where, target.value, (selector(target), *path))

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
        for site in call_sites(where, function):
            self.follow(where, site, path)
        name = name_outside(where, function)
        if name is not None:
            for home, call in self.origin.outside.calling(Definition(where.path, name, "")):
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
        elif passes_batches(name):
            self._wrapped(where, call, arg, path)
        elif isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            self._bound(where, call.func.value, (EACH, *path))
        else:
            for home, function in self._callees(where, call):
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

    def _callees(self, where: Module, call: cst.Call) -> Iterator[tuple[Module, cst.FunctionDef]]:
        """Yield the functions that a call runs, of a class its constructor, in any file."""
        for callee in callees_of(where, call):
            if isinstance(callee, cst.FunctionDef):
                yield where, callee
        instance = made(where, call)
        found = named(where, call.func, self.origin) or method(
            where, instance, "__init__", self.origin
        )
        if found is None and isinstance(call.func, cst.Attribute):
            owner = inferred(where, call.func.value)
            found = method(where, owner, call.func.attr.value, self.origin)
        if found is not None:
            yield found


def selector(node: cst.Subscript) -> int | str | None:
    """Return the index or key that a subscript asks for; None for any other."""
    index = node.slice[0].slice
    return literal(index.value) if isinstance(index, cst.Index) else None
