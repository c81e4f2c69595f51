"""What the code of one file says of definitions: names that it reads, attributes that it takes,
texts that may name something. Comments and docstrings say nothing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple, TypeGuard

from torchlint.base.regex import regex
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.project.calls import bound
from torchlint.semantic.project.reach import stem_of
from torchlint.source.python import DEFS, LEAVES, children, problem

_FREE = frozenset("instantiate_from_config get_obj_from_str LightningCLI jsonargparse".split())
"""Names of what finds functions and classes of any file by a text."""
_FREE_IMPORTED = frozenset(
    "locate resolve_name import_string instantiate run_path run_module".split()
)
"""Names of such that are words for something else as well: they count where they are imported."""
_OF_HYDRA = frozenset("get_method get_class get_object".split())
"""Names of such that hydra alone gives."""
_MODULES = frozenset(
    "import_module __import__ spec_from_file_location SourceFileLoader load_source".split()
)
"""Functions that give modules."""
_NAMED_FIRST = frozenset(("import_module", "__import__"))
"""Those whose first argument is the name of the module."""
_KEEPING = frozenset(("__init_subclass__", "__subclasses__"))
"""Names by which a class finds those that inherit from it."""
_TELLING = frozenset(
    (
        "no_grad inference_mode enable_grad autocast compile script ignore custom_fwd custom_bwd"
        " staticmethod classmethod property cached_property lru_cache cache dataclass wraps"
        " total_ordering contextmanager deprecated overload typechecked jaxtyped beartype ABCMeta"
    ).split()
)
"""Decorators and metaclasses that hand what they are given to nobody."""
_OF_OTHERS = regex(r"(torch|functools|contextlib|dataclasses|typing\w*)\b").match
"""Modules whose decorators those are."""
_BUILT_IN = frozenset(("staticmethod", "classmethod", "property"))
_OWN = frozenset(("globals", "locals", "vars", "eval", "exec", "Fire"))
"""Functions that may take any name of the file that calls them."""
_ALL_OF = frozenset(("getattr", "vars", "dir", "getmembers", "__getattribute__"))
"""Functions that may take any name of a module that they are given, or of which they are asked."""
_EXPOSING = frozenset(("Fire", "CLI"))
"""Functions that make commands of the methods of what they are given."""
_BY_NAME = frozenset(("getattr", "hasattr", "__getattribute__"))
_CALLED = sorted(_OWN | _ALL_OF)
_SAID = (
    *sorted(_FREE | _FREE_IMPORTED | _OF_HYDRA | _MODULES | _KEEPING),
    *("__dict__", "__getattribute__", "sys.modules"),
)
BY_TEXT = Wording(
    regex(
        rf"\b({'|'.join(map(re.escape, _SAID))})\b|\b(Fire|getmembers)\b"
        rf"|(?<![.\w])(?!getattr\([\w.]+,\s*[\"']\w*[\"']\s*[,)])({'|'.join(_CALLED)})\("
    ),
    (*_SAID, "Fire", "getmembers", *(f"{each}(" for each in _CALLED)),
    first=True,
)
_IS_CLASS = regex(r"(.*\.)?(cls|__class__|[A-Z]\w*|\?)\Z").match
"""Names of what may be a class: the dictionary of an object holds no methods."""
_KEPT = frozenset(("main", "__getattr__", "model_fn", "input_fn", "predict_fn", "output_fn"))
"""Functions that something else than Python code calls."""
GUARDED = "if __name__"
"""The place of what a guard holds at a module's own level."""
TOP = ("", GUARDED)
"""The places outside of definitions."""
_NAME_AT_END = regex(r"[.:](\w+)\Z")
_ANYTHING = ".*"
LABEL = r"\w*"
"""What stands for a text that is an attribute's name as well: it has no dots."""
_MOST_GAPS = 2
"""Gaps of a pattern; one with more keeps its ends, as many gaps take too long to be matched."""
_MOST_NAMES = 16
"""Names of modules that one text may stand for; behind that it is any."""
_SAYING = LEAVES | {
    *(*DEFS, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Call, ast.Subscript),
    *(ast.Attribute, ast.Assign, ast.arg, ast.Global),
}
"""The nodes that say something of what is used."""


class Said:
    """What the code of one file says. What is around a node is the outermost definition around it,
    empty for the module's own level, and `GUARDED` for what stands there behind a guard.

    Args:
        tree: the file.
    """

    def __init__(self, tree: ast.Module) -> None:
        self.names: defaultdict[str, set[str]] = defaultdict(set)
        """Names that are read, with what is around."""
        self.attributes: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        """By attribute the dotted receivers, each with what is around."""
        self.imports: defaultdict[str, set[str]] = defaultdict(set)
        """By the name that an import statement binds what it stands for."""
        self.stars: list[str] = []
        self.texts: defaultdict[str, set[str]] = defaultdict(set)
        """By the name at their end texts with dots."""
        self.kept: set[str] = set()
        """Outermost definitions that other than Python code may call, and those that are handed to
        something where they stand."""
        self.makers: dict[str, set[str]] = {}
        """By outermost definition what it is handed to, dotted, that hands it to nobody where it is
        what its name says."""
        self.free = False
        """Whether definitions of any file may be found by a text."""
        self.finding = False
        """Whether classes may be found by what they inherit from."""
        self.loose: set[str] = set()
        """Patterns of the names of modules that names may stand for which no import statement
        binds to them."""
        self.whole: set[str] = set()
        """Patterns of the names of modules of which any name is taken."""
        self.taken: set[str] = set()
        """Dotted names of what may be a module of which any name is taken; a dot for the file."""
        self.handed: defaultdict[str, set[str]] = defaultdict(set)
        """By outermost definition its decorators and its metaclass, dotted."""
        self.methods: dict[str, set[str]] = {}
        """By outermost class the methods that it defines."""
        self.open: set[str] = set()
        """Outermost classes and their methods, dotted, that are handed to something where they
        stand."""
        self.bases: dict[str, set[str]] = {}
        """By class the dotted names that it inherits from."""
        self.called: defaultdict[str, set[str]] = defaultdict(set)
        """By name the places that take it of an object: outermost definitions, methods dotted."""
        self.own: defaultdict[str, set[str]] = defaultdict(set)
        """By name the methods that take it of `self`, of classes that define it themselves."""
        self.asked: set[tuple[str, str]] = set()
        """Dotted names of objects of which any method may be taken, with the places that do."""
        self.quoted: list[tuple[str, str]] = []
        """Texts with the places that hold them."""
        self.takes: dict[str, ast.arguments | None] = {}
        """By outermost function its parameters, None where its name may be another one's."""
        self._callees: set[ast.AST] = set()
        self._handed: set[tuple[str, str]] = set()
        self._calls_of: defaultdict[tuple[str, str], list[_Arguments]] = defaultdict(list)
        self._labels: set[tuple[str, str]] = set()
        self._by_key: set[ast.AST] = set()
        self._assigned: set[ast.AST] = set()
        self._given: defaultdict[tuple[str, str], list[ast.expr | None]] = defaultdict(list)
        self._made: defaultdict[str, set[str]] = defaultdict(set)
        self._calls: list[tuple[ast.Call, str]] = []
        self._modules: list[tuple[ast.expr | None, str]] = []
        self._taken_whole: list[tuple[ast.expr | None, str]] = []
        self._walk(tree)
        self._keep()
        for call, place in self._calls:
            name, around = self._called(call), place.partition(".")[0]
            self._call(call, name, around)
            if name in ("getattr", "getmembers") and not self._names_one(call, name):
                self.asked |= {(_dotted(each), place) for each in call.args[:1]}
            elif name in _EXPOSING:
                self.asked.add(("?", place))
            elif name == "vars":
                self.asked |= {(at, place) for at in map(_dotted, call.args) if _IS_CLASS(at)}
            self._modules += [(each, around) for each in _module_asked(call, name)]
        self._find_freely()
        for asked, around in self._modules:
            self.loose |= set(map(_short, self._patterns(asked, around, 2)))
        for asked, around in self._taken_whole:
            self.whole |= set(map(_short, self._patterns(asked, around, 2)))
        self._bound = {place for place, given in self._given.items() if given}
        # What is remembered of a file holds nothing of its tree.
        for nodes in (self._callees, self._by_key, self._assigned, self._given):
            nodes.clear()
        for several in (self._calls, self._modules, self._taken_whole):
            several.clear()

    def _walk(self, tree: ast.Module) -> None:
        todo: list[tuple[ast.AST, str]] = [(tree, "")]
        while todo:
            node, place = todo.pop()
            kind = type(node)
            if kind in _SAYING:
                place = self._say(node, place)
            if kind in LEAVES:
                continue
            if kind is ast.Expr and type(node.value) is ast.Constant:  # type: ignore[attr-defined]
                continue  # a docstring
            guarded = node.body if not place and _is_guard(node) else ()
            if guarded or node is tree:
                behind = _behind_the_end(node.body)  # type: ignore[attr-defined]
                todo += [
                    (each, GUARDED if each in guarded else place)
                    for each in children(node)
                    if each not in behind
                ]
            else:
                todo += [(each, place) for each in children(node)]

    def _say(self, node: ast.AST, place: str) -> str:
        """Note what a node says, and return the place that what lies in it is at."""
        around = place.partition(".")[0]
        match node:
            case ast.Name():
                self._read(node, around)
            case ast.Attribute():
                self._take(node, place, around)
            case ast.Constant(value):
                if isinstance(value, str):
                    self._quote(value, place)
            case ast.Call():
                self._calls.append((node, place))
                if isinstance(node.func, ast.Name):
                    self._callees.add(node.func)
                    self._calls_of[node.func.id, around].append(_arguments(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return self._define(node, place, around)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case _:
                self._give(node, around)
        return place

    def _define(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, at: str, around: str
    ) -> str:
        """Note a definition, and return the place that the code in it is at."""
        if around in TOP:
            sole = node.name not in self.takes and not node.decorator_list
            takes = node.args if not isinstance(node, ast.ClassDef) else None
            self.takes[node.name] = takes if sole else None
            self.handed[node.name] |= _makers(node)
        self.free = self.free or node.name in _FREE | _FREE_IMPORTED
        self.finding = self.finding or node.name in _KEEPING
        place = node.name if at in TOP else at
        if isinstance(node, ast.ClassDef):
            self.bases.setdefault(node.name, set()).update(map(_dotted, node.bases))
            if at in TOP:
                here = {each.name for each in node.body if isinstance(each, DEFS)}
                self.methods.setdefault(node.name, set()).update(here)
        elif node.name in self.methods.get(at, ()):
            place = f"{at}.{node.name}"
        self._made[place] |= _makers(node)
        return place

    def _take(self, node: ast.Attribute, place: str, around: str) -> None:
        receiver, name = _dotted(node.value), node.attr
        self.attributes[name].add((receiver, around))
        if name == "__dict__" and node not in self._by_key:
            self.taken.add(receiver)
        elif (receiver, name) == ("sys", "modules"):
            self.taken.add(".")
        own = name in self.methods.get(around, ())
        mine = own and "." in place and receiver in ("self", "cls")
        (self.own if mine else self.called)[name].add(place)
        if name == "__dict__" and _IS_CLASS(receiver):
            self.asked.add((receiver, place))

    def _quote(self, text: str, place: str) -> None:
        if end := _NAME_AT_END.search(text):
            self.texts[end[1]].add(text)
        self.quoted.append((text, place))

    def _names_one(self, call: ast.Call, name: str) -> bool:
        return name == "getattr" and any(isinstance(each, ast.Constant) for each in call.args[1:2])

    def takers(self, name: str) -> set[str]:
        """Return the places that may take a method of an object, or name it in a text, prose
        apart."""
        word = re.compile(rf"\A\S*\b{name}\b\S*\Z|\.{name}\b|\b{name}\(")
        return self.called[name] | {at for text, at in self.quoted if word.search(text)}

    def misfit(self, name: str, around: str, takes: ast.arguments | None) -> str | None:
        """Return how a place calls a name, and does nothing else with it, that the parameters of
        what it stands for do not take; None where it may."""
        calls = self._calls_of.get((name, around), ())
        bound = not self._bound.isdisjoint(((around, name), ("", name)))
        if takes is None or bound or (name, around) in self._handed:
            return None
        problems = [
            problem(takes, 0, each.places, each.keywords, open_ended=each.open_ended)
            for each in calls
        ]
        return problems[0] if problems and None not in problems else None

    def words(self, around: str) -> tuple[set[str], set[str]]:
        """Return the dotted names that a place says, and its texts."""
        names = {name for name, places in self.names.items() if around in places}
        names |= {
            f"{receiver}.{name}"
            for name, users in self.attributes.items()
            for receiver, at in users
            if at == around
        }
        return names, {text for text, at in self.quoted if at.partition(".")[0] == around}

    def _keep(self) -> None:
        here = {name for around, name in self._given if not around} | {*self.handed}
        for name, makers in self.handed.items():
            if name in _KEPT or any(self._keeps(maker, here) for maker in makers):
                self.kept.add(name)
            elif makers := {each for maker in makers for each in self._stands_for(maker)}:
                self.makers[name] = makers
        for place, named in self._made.items():
            whole = {each for maker in named for each in self._stands_for(maker)}
            if any(self._keeps(maker, here) for maker in named) or not all(map(_OF_OTHERS, whole)):
                self.open.add(place)

    def _find_freely(self) -> None:
        imported = {each.rpartition(".")[2] for whole in self.imports.values() for each in whole}
        imported |= {
            name
            for name in _FREE_IMPORTED
            for receiver, _ in self.attributes.get(name, ())
            if receiver.partition(".")[0] in self.imports
        }
        spoken = {*self.names, *self.attributes, *imported}
        self.free = not (_FREE.isdisjoint(spoken) and _FREE_IMPORTED.isdisjoint(imported)) or (
            self.free
        )
        self.free = self.free or any(map(self._is_of_hydra, _OF_HYDRA & spoken))
        self.finding = self.finding or not _KEEPING.isdisjoint(spoken)

    def _keeps(self, maker: str, here: set[str]) -> bool:
        """Say whether what is handed to something of a dotted name may be called by it."""
        first, _, _ = maker.partition(".")
        ours = first in here or (
            bool(self.stars) and first not in self.imports and first not in _BUILT_IN
        )
        return ours or maker.rpartition(".")[2] not in _TELLING

    def _stands_for(self, dotted: str) -> set[str]:
        first, dot, rest = dotted.partition(".")
        return {f"{each}{dot}{rest}" for each in self.imports.get(first, ())}

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for local, dotted in bound(node):
            if local:
                self.imports[local].add(dotted)
            else:
                self.stars.append(dotted)

    def _read(self, node: ast.Name, around: str) -> None:
        if type(node.ctx) is not ast.Load:
            self._give(node, around)
            return
        self.names[node.id].add(around)
        if node not in self._callees:
            self._handed.add((node.id, around))

    def _give(self, node: ast.AST, around: str) -> None:
        """Note what a name is given, None for unknown, which a guard gives at the module's level,
        and what is taken of an object's dictionary or the loaded modules."""
        level = "" if around in TOP else around
        match node:
            case ast.Assign([ast.Name(name) as target], value):
                self._given[level, name].append(value)
                self._assigned.add(target)
            case ast.Name(name) if node not in self._assigned:
                self._given[level, name].append(None)
            case ast.arg(arg=name):
                self._given[level, name].append(None)
            case ast.Global(names=names):
                for name in names:
                    self._given["", name].append(None)
            case ast.Subscript() if module := _of_loaded(node):
                self._modules.append((module, around))
            case ast.Subscript(
                ast.Attribute(value, "__dict__") as names,
                ast.Constant(str(name)),
            ):
                self.attributes[name].add((_dotted(value), around))
                self._by_key.add(names)

    def _patterns(self, node: ast.expr | None, around: str, depth: int) -> set[str]:
        """Return patterns of the texts that an expression may be."""
        match node:
            case ast.Constant(str(text)):
                return {re.escape(text.lstrip("."))}
            case ast.BinOp(ast.Constant(str(text)), ast.Mod()):
                return {_ANYTHING.join(map(re.escape, re.split(r"%\w", text)))}
            case ast.Call(ast.Attribute(ast.Constant(str(text)), "format")):
                return {_ANYTHING.join(map(re.escape, re.split(r"\{.*?\}", text)))}
            case ast.BinOp(left, ast.Add(), right):
                before, after = (self._patterns(each, around, depth) for each in (left, right))
                few = len(before) * len(after) <= _MOST_NAMES
                return {first + last for first in before for last in after} if few else {_ANYTHING}
            case ast.JoinedStr(values=values):
                labels = {each for each in values if self._is_label(each, around)}
                parts = [
                    re.escape(str(each.value))
                    if isinstance(each, ast.Constant)
                    else LABEL
                    if each in labels
                    else _ANYTHING
                    for each in values
                ]
                return {"".join(parts).removeprefix(re.escape("."))}
            case ast.Name(name) if (around, name) in self._labels:
                return {LABEL}
            case ast.Name(name) if depth:
                given = self._given["" if around in TOP else around, name]
                if len(given) in range(1, _MOST_NAMES):
                    return set().union(*(self._patterns(each, around, depth - 1) for each in given))
        return {_ANYTHING}

    def _is_label(self, node: ast.AST, around: str) -> bool:
        name = node.value if isinstance(node, ast.FormattedValue) else None
        return isinstance(name, ast.Name) and (around, name.id) in self._labels

    def _called(self, node: ast.Call) -> str:
        """Return the last name of what a call calls, as the module that has it says it."""
        if isinstance(node.func, ast.Attribute):
            return node.func.attr
        name = _dotted(node.func)
        whole = {each.rpartition(".")[2] for each in self.imports.get(name, ())}
        return next(iter(sorted(whole & (_MODULES | _OWN | _ALL_OF))), name)

    def _is_of_hydra(self, name: str) -> bool:
        receivers = {receiver.partition(".")[0] for receiver, _ in self.attributes.get(name, ())}
        return any(
            each.partition(".")[0] == "hydra" and (local in receivers or each.endswith(f".{name}"))
            for local, whole in self.imports.items()
            for each in whole
        )

    def _call(self, node: ast.Call, name: str, around: str) -> None:
        plain = isinstance(node.func, ast.Name)
        if name in _OWN and (plain or name == "Fire"):
            own = not (node.args and (name == "vars" or isinstance(node.args[0], ast.Constant)))
            self.taken |= {"."} if own and (name != "locals" or around in TOP) else set()
        last = node.args[-1 if name == "__getattribute__" else 1 :][:1]
        if name in _BY_NAME and last and isinstance(last[0], ast.Constant):
            receiver = node.args[0] if plain else None
            self.attributes[str(last[0].value)].add((_dotted(receiver), around))
        elif name in _ALL_OF and node.args:
            of = node.args[0]
            if name == "__getattribute__" and isinstance(node.func, ast.Attribute):
                of = node.func.value
            given = [*_module_asked(of, self._called(of))] if isinstance(of, ast.Call) else []
            self._taken_whole += [(each, around) for each in given]
            self.taken |= set() if given else {_dotted(of)}
            self._labels |= {(around, each) for each in map(_alone, last)}


def _alone(node: ast.AST) -> str:
    """Return the name whose text an expression is; empty for anything else."""
    match node:
        case ast.Name(name) | ast.JoinedStr([ast.FormattedValue(ast.Name(name))]):
            return name
    return ""


class _Arguments(NamedTuple):
    """What a call gives: how many by place, the keywords, and whether there may be more."""

    places: int
    keywords: list[str]
    open_ended: bool


def _arguments(call: ast.Call) -> _Arguments:
    stars = [isinstance(each, ast.Starred) for each in call.args]
    known = [each.arg for each in call.keywords if each.arg is not None]
    return _Arguments(stars.count(False), known, any(stars) or len(known) < len(call.keywords))


def _is_guard(node: ast.AST) -> TypeGuard[ast.If]:
    """Say whether a statement runs what it holds only where the file itself is run."""
    match node:
        case ast.If(ast.Compare(ast.Name("__name__"), [ast.Eq()])):
            return True
    return False


def _behind_the_end(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements of a program's own level that stand behind its end: ``sys.exit()``."""
    for at, line in enumerate(body, 1):
        match line:
            case ast.Raise() | ast.Expr(
                ast.Call(ast.Name("exit" | "quit") | ast.Attribute(ast.Name("sys"), "exit"))
            ):
                return body[at:]
    return []


def _short(pattern: str) -> str:
    """Return a pattern that fits what another one fits, and maybe more, in a short time."""
    first, *rest = re.sub(r"(\.\*){2,}", _ANYTHING, pattern).split(_ANYTHING)
    parts = [first, *rest] if len(rest) <= _MOST_GAPS else [first, rest[-1]]
    return _ANYTHING.join(parts)


def _of_loaded(node: ast.AST) -> ast.expr | None:
    """Return what names the module that a node takes of those that are loaded, but for its own."""
    match node:
        case ast.Subscript(ast.Attribute(ast.Name("sys"), "modules"), named):
            own = isinstance(named, ast.Name) and named.id == "__name__"
            return named if isinstance(node.ctx, ast.Load) and not own else None
    return None


def _module_asked(node: ast.Call, name: str) -> Iterator[ast.expr | None]:
    """Yield what names the module that a call of a name gives, None for any, where it gives one."""
    loaded = name == "get" and _dotted(node.func) == "sys.modules.get"
    if (name in _NAMED_FIRST or loaded) and node.args:
        yield node.args[0]
    elif name in _MODULES:
        # The file's path, or the end of it: what stands for it is the text in it that ends so.
        texts = [
            each
            for part in (*node.args, *(keyword.value for keyword in node.keywords))
            for each in ast.walk(part)
            if isinstance(each, ast.Constant) and str(each.value).endswith(".py")
        ]
        yield ast.Constant(stem_of(str(texts[-1].value))) if texts else None


def _makers(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
    """Return what is handed a definition where it stands: decorators, and a metaclass."""
    makers = [each.func if isinstance(each, ast.Call) else each for each in node.decorator_list]
    if isinstance(node, ast.ClassDef):
        makers += [each.value for each in node.keywords if each.arg == "metaclass"]
    return set(map(_dotted, makers))


def _dotted(node: ast.AST | None) -> str:
    """Return a dotted name as it is written, `?` for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else "?"
