"""Which definitions of a program it uses: those to which code at the level of a module comes, over
any number of definitions, by the names that code says. Comments and docstrings say nothing."""

from __future__ import annotations

import ast
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol, TypeGuard

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.text import defines, spoken
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.elsewhere import Definition, Lineage
from torchlint.semantic.project.calls import bound, speaks_for
from torchlint.semantic.project.index import CLASS, FUNCTION
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.search import Search
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import CALLED_BY_TORCH
from torchlint.source.python import DEFS, LEAVES, children, parsed, problem

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
_BY_TEXT = Wording(
    regex(
        rf"\b({'|'.join(map(re.escape, _SAID))})\b|\b(Fire|getmembers)\b"
        rf"|(?<![.\w])(?!getattr\([\w.]+,\s*[\"']\w*[\"']\s*[,)])({'|'.join(_CALLED)})\("
    ),
    (*_SAID, *_CALLED),
)
_OPTIONS = regex(r"(args?|opts?|options?|cfg|config|conf|hparams|params?|flags)\b", re.I)
_IS_CLASS = regex(r"(.*\.)?(cls|__class__|[A-Z]\w*|\?)\Z").match
"""Names of what may be a class: the dictionary of an object holds no methods."""
_VALUES = regex(rf"(self|cls)\b|{_OPTIONS.pattern}", re.I)
"""Names of what is no module, whatever its attributes are."""
_LOGGER = regex(r"(self\.)?_*log(ger)?\Z", re.I)
"""Names of what is no module either: its methods are those of a logger."""
_PROGRAM = regex(
    r"^(if __name__\b|for |while |with |[\w.]+\()|parse_args\(|sys\.argv", re.MULTILINE
)
"""What does something where the file itself is run."""
_ACTS = regex(
    rf"{_PROGRAM.pattern}|^(?!(async )?def |class |from |import |@)\w[^#\n]*\(", re.MULTILINE
)
"""What does something, or calls something, where the file is run or imported."""
_MAGIC = regex(r"^([ \t]*)[%!](?!run\b|load\b)[^(\n]*$", re.MULTILINE)
"""A line of a notebook that is no Python and uses no name."""
_TRAINS = regex(r"train|main|^run|experiment|finetune|fine_tune")
"""Names of files that are programs where a package holds them."""
_SCRIPTS = ("", "scripts", "tools", "experiments", "bin")
"""Names of packages that hold programs for others; no package has an empty one."""
_GUARD = regex(r"^if __name__\b", re.MULTILINE)
_BARE = regex(r"^(?:from|import) (\w+)\b", re.MULTILINE)
_STEPS = regex(r"\.(backward|step)\(")
"""What a file says that trains itself."""
_PLAIN_BASES = (
    *("torch.", "builtins.", "abc.", "typing.", "enum.", "collections.", "argparse.", "json."),
    *("pytorch_lightning.", "lightning.", "gym.", "gymnasium."),
)
"""Bases by which nothing makes an object of a class that nobody names."""
_CALLING_NOTHING = frozenset(("torch.nn.Module", "builtins.object", "object"))
"""Bases that call no method of a class but those that they have themselves."""
_KEPT = frozenset(("main", "__getattr__", "model_fn", "input_fn", "predict_fn", "output_fn"))
"""Functions that something else than Python code calls."""
_OF_TOOLS = frozenset(("setup", "conftest", "hubconf"))
"""Files whose definitions tools look for."""
_GUARDED = "if __name__"
"""The place of what a guard holds at a module's own level."""
_TOP = ("", _GUARDED)
"""The places outside of definitions."""
_WORKS = regex(
    r"\.(backward|step|fit|run|launch|serve|export|save)\(|\b(load\w*|open|imread|input|spawn)\("
    r"|\w*from_pretrained|DataLoader|Trainer\b|ArgumentParser|argv\b|\bwhile (True|1)\b"
    r"|\b(argparse|fire|click|typer|absl|hydra|environ|set_default_(device|tensor_type))\b"
)
"""What a file says that trains, loads, parses, keeps or serves something: it is no mere test of
itself."""
_PLACED = regex(r"to\Z|(?i:.*(cuda|gpu|device|mps|xpu))")
"""Names and texts of code that may put something on a GPU."""
_FILLED = ops.dotted("torch", "factory")
"""Functions of torch that make the input of a test."""
_NETWORK = "torch.nn.Module"
_NAME_AT_END = regex(r"[.:](\w+)\Z")
_ANYTHING = ".*"
_LABEL = r"\w*"
"""What stands for a text that is an attribute's name as well: it has no dots."""
_WORDS = regex(r"\w")
_MOST_GAPS = 2
"""Gaps of a pattern; one with more keeps its ends, as many gaps take too long to be matched."""
_MOST_NAMES = 16
"""Names of modules that one text may stand for; behind that it is any."""
_MOST = 100
"""Definitions that are looked at for one question; behind that the answer is yes."""
_PARSED = 4_000_000
"""Characters of source that are parsed for one question; behind that the answer is yes."""

_SAYING = LEAVES | {
    *(*DEFS, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Call, ast.Subscript),
    *(ast.Attribute, ast.Assign, ast.arg, ast.Global),
}
"""The nodes that say something of what is used."""


class Said:
    """What the code of one file says. What is around a node is the outermost definition around it,
    empty for the module's own level, and `_GUARDED` for what stands there behind a guard.

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
                    (each, _GUARDED if each in guarded else place)
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
            case ast.Constant(value=value):
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
        if around in _TOP:
            sole = node.name not in self.takes and not node.decorator_list
            takes = node.args if not isinstance(node, ast.ClassDef) else None
            self.takes[node.name] = takes if sole else None
            self.handed[node.name] |= _makers(node)
        self.free = self.free or node.name in _FREE | _FREE_IMPORTED
        self.finding = self.finding or node.name in _KEEPING
        place = node.name if at in _TOP else at
        if isinstance(node, ast.ClassDef):
            self.bases.setdefault(node.name, set()).update(map(_dotted, node.bases))
            if at in _TOP:
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
        level = "" if around in _TOP else around
        match node:
            case ast.Assign(targets=[ast.Name(name) as target], value=value):
                self._given[level, name].append(value)
                self._assigned.add(target)
            case ast.Name(id=name) if node not in self._assigned:
                self._given[level, name].append(None)
            case ast.arg(arg=name):
                self._given[level, name].append(None)
            case ast.Global(names=names):
                for name in names:
                    self._given["", name].append(None)
            case ast.Subscript() if module := _of_loaded(node):
                self._modules.append((module, around))
            case ast.Subscript(
                value=ast.Attribute(value=value, attr="__dict__") as names,
                slice=ast.Constant(value=str(name)),
            ):
                self.attributes[name].add((_dotted(value), around))
                self._by_key.add(names)

    def _patterns(self, node: ast.expr | None, around: str, depth: int) -> set[str]:
        """Return patterns of the texts that an expression may be."""
        match node:
            case ast.Constant(value=str(text)):
                return {re.escape(text.lstrip("."))}
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
                return {_ANYTHING.join(map(re.escape, re.split(r"%\w", text)))}
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
                return {_ANYTHING.join(map(re.escape, re.split(r"\{.*?\}", text)))}
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                before, after = (self._patterns(each, around, depth) for each in (left, right))
                few = len(before) * len(after) <= _MOST_NAMES
                return {first + last for first in before for last in after} if few else {_ANYTHING}
            case ast.JoinedStr(values=values):
                labels = {each for each in values if self._is_label(each, around)}
                parts = [
                    re.escape(str(each.value))
                    if isinstance(each, ast.Constant)
                    else _LABEL
                    if each in labels
                    else _ANYTHING
                    for each in values
                ]
                return {"".join(parts).removeprefix(re.escape("."))}
            case ast.Name(name) if (around, name) in self._labels:
                return {_LABEL}
            case ast.Name(name) if depth:
                given = self._given["" if around in _TOP else around, name]
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
            self.taken |= {"."} if own and (name != "locals" or around in _TOP) else set()
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
        case ast.If(test=ast.Compare(ast.Name("__name__"), [ast.Eq()])):
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
        case ast.Subscript(value=ast.Attribute(value=ast.Name("sys"), attr="modules"), slice=named):
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


def _module(path: str) -> str:
    """Return a path as the name of a module."""
    return path.removesuffix(".py").replace(os.sep, ".")


def _below(folder: str, path: str) -> str:
    return path[len(folder) + 1 :]


def _dotted(node: ast.AST | None) -> str:
    """Return a dotted name as it is written, `?` for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else "?"


class Names(Protocol):
    """What names of a project's files stand for; see `torchlint.semantic.project.project`."""

    def find(self, importer: str, dotted: str) -> Definition | str | None: ...
    def starred(self, path: str, stars: list[str], parts: list[str]) -> Definition | str | None: ...
    def lineage(self, definition: Definition) -> Lineage: ...


class Used:
    """Says of the outermost definitions of a project's files whether it uses them.

    Args:
        search: finds its files.
        names: what names stand for.
        read: gives the text of a file.
        every: all files.
        program: gives the files that may run in one process with one.
        holding: gives the files whose text holds a word.
        fails: says of a file what it cannot import, None where it may run.
        offers: says whether who installs the project may call what a file defines.
    """

    def __init__(
        self,
        search: Search,
        names: Names,
        read: Callable[[str], str | None],
        every: tuple[str, ...],
        program: Callable[[str], frozenset[str]],
        holding: Callable[[str], frozenset[str]],
        fails: Callable[[str], str | None],
        offers: Callable[[str], bool],
    ) -> None:
        self._search = search
        self._find = names
        self._read = read
        self._every = every
        self._program = program
        self._holding = holding
        self._fails = fails
        self._offers = offers
        self._by_text: dict[frozenset[str], frozenset[str] | None] = {}
        self._finding: set[frozenset[str]] = set()
        self._programs: dict[str, bool] = {}
        self._by_object: list[list[tuple[str, Said | None]]] = []
        self._known: dict[tuple[str, str, frozenset[str]], tuple[tuple[str, str], ...] | None] = {}
        self._tested: set[tuple[str, str]] = set()
        self._by_test: set[tuple[str, str]] = set()
        self._misfits: dict[tuple[str, str], str] = {}

    def used(self, path: str, name: str) -> bool:
        """Say whether a definition of a file, or ``Net.method`` of one, is used, or may be; False
        is certain as far as names are."""
        if not self._runs(path):
            return True
        if "." in name:
            return self._method_used(path, name)
        taken = self._taken(path)
        seen, todo = {(path, name)}, [(path, name)]
        while todo:
            at = todo.pop()
            if taken is None or len(seen) > _MOST or at[0] in taken or self._is_kept(*at):
                return True
            users = self._users_known(*at, taken)
            if users is None:
                return True
            todo += [user for user in users if user not in seen]
            seen.update(users)
        if not self._tested.isdisjoint(seen):
            self._by_test.add((path, name))
        return False

    def self_tested(self, path: str, name: str) -> bool:
        """Say whether a definition, or a method, is not used but by the self-test of a file."""
        return not self.used(path, name) and (path, name) in self._by_test

    def _users_known(
        self, path: str, name: str, taken: frozenset[str]
    ) -> tuple[tuple[str, str], ...] | None:
        """Return what uses a definition, which is looked for once; None where code at the level of
        a file does, which is run or loaded, and no self-test of the definition's own file."""
        key = (path, name, taken)
        if key not in self._known:
            self._known[key] = None
            users: list[tuple[str, str]] = []
            for user in self._users(*key):
                if user[1] not in _TOP:
                    users.append(user)
                elif user == (path, _GUARDED) and self._tests_itself(path):
                    self._tested.add((path, name))
                elif user[0] in taken or self._is_loaded(user[0]):
                    return None
            self._known[key] = tuple(dict.fromkeys(users))
        return self._known[key]

    def _is_kept(self, path: str, name: str) -> bool:
        """Say whether a definition may be used though no code of the program says its name."""
        said = self._says(path)
        if said is None or self._is_handed_on(path, said, name) or not self._runs(path):
            return True
        lineage = self._find.lineage(Definition(path, name, CLASS))
        heirs = self._program(path) in self._finding
        return not all(base.startswith(_PLAIN_BASES) for base in lineage.outside) or any(
            heirs
            or (above := self._says(each.path)) is None
            or self._is_handed_on(each.path, above, each.name)
            for each in lineage.classes[1:]
        )

    def _is_handed_on(self, path: str, said: Said, name: str) -> bool:
        """Say whether something may call a definition that it is handed where that stands, or that
        no Python code calls: one of the project's own decorators may do anything."""
        tested = name == "main" and not said.handed[name] and _GUARDED in said.names[name]
        return (name in said.kept and not (tested and self._tests_itself(path))) or any(
            not isinstance(self._find.find(path, maker), str) for maker in said.makers.get(name, ())
        )

    def _is_loaded(self, path: str) -> bool:
        """Say whether what a file says at its own level counts: the level calls something, or
        another file holds the name of the module."""
        stem = stem_of(path)
        return (
            not path.endswith(".py")
            or stem in _OF_TOOLS
            or _ACTS.search(self._read(path) or "") is not None
            or not _WORDS.search(stem)
            or bool(self._holding(stem) - {path})
        )

    def _runs(self, path: str) -> bool:
        """Say whether a file is part of a program, and of no library: the project holds a file that
        does something, in no package, and that imports a package beside the file's own."""
        if stem_of(path) in _OF_TOOLS or self._offers(path):
            return False
        top = self._top(path)
        if top not in self._programs:
            package = top != self._search.root and self._search.in_package(top)
            self._programs[top] = not package and any(True for _ in self._programs_for(top))
        return self._programs[top]

    def _top(self, path: str) -> str:
        """Return the folder that holds the outermost package of a file, the project's root at
        most; a folder in a package belongs to it without an ``__init__.py``, too."""
        top = self._search.top(path)
        while self._search.in_package(top):
            above = self._search.top(top)
            if not above.startswith(self._search.root):
                break
            top = above
        return top if top.startswith(self._search.root) else self._search.root

    def _programs_for(self, top: str) -> Iterator[str]:
        """Yield the programs that the project holds for the packages in a folder, whose own name
        leads to them too (``from models.kit import x``), or, where there are none, all; for a
        folder below the root of a program any file of that does."""
        root = self._search.root
        packages = {
            _below(top, path).partition(os.sep)[0]
            for path in self._every
            if path.startswith(top + os.sep)
            and os.sep in _below(top, path)
            and self._top(path) == top
        }
        below = bool(packages) and top != root and any(True for _ in self._programs_for(root))
        if packages and top != root:
            packages.add(os.path.basename(top))
        for path in self._every:
            own = self._package(path)
            beside = packages - {own} if packages else None
            acts = self._does_something(path) or (
                below and own not in packages and self._is_of_program(path)
            )
            if acts and self._imports(path, beside):
                yield path

    @remembered
    def _tests_itself(self, path: str) -> bool:
        """Say whether what a file does when it is run is a test of itself: its guard makes tensors
        or networks of the file's own, and neither it nor what it calls does work or puts something
        on a GPU. A file that stands alone is looked at for what it holds."""
        return len(self._every) > 1 and self._tries_itself(path)

    def _tries_itself(self, path: str) -> bool:
        todo, makes = [(path, _GUARDED)], False
        for at, place in todo:
            said = self._says(at)
            if said is None or len(todo) > _MOST or _WORKS.search(self._read(at) or ""):
                return False
            names, texts = said.words(place)
            if _places(names, texts):
                return False
            for found in (found for name in names for found in self._meant(at, said, name)):
                if found is None:
                    return False
                if isinstance(found, str):
                    makes = makes or found in _FILLED
                elif _NETWORK in self._find.lineage(found).outside:
                    makes = makes or found.path == path
                elif found.kind != "module" and found[:2] not in todo:
                    todo.append(found[:2])
        return makes

    def _meant(self, path: str, said: Said, name: str) -> Iterator[Definition | str | None]:
        """Yield what a dotted name of a file, which is no variable, may stand for."""
        first, dot, rest = name.partition(".")
        for whole in said.imports.get(first, ()):
            yield self._find.find(path, f"{whole}{dot}{rest}")
        if name in said.handed:
            yield Definition(path, name, CLASS if name in said.methods else FUNCTION)
        elif said.stars and first not in said.imports:
            yield self._find.starred(path, said.stars, name.split(".")) or ""

    def no_program(self) -> bool:
        """Say whether the project holds nothing to be run: no notebook, no file outside of packages
        that does something, and none of a package that Python runs by its name, or that is guarded
        and trains, by its name or by what it says, or imports as a script does."""
        return not any(self._does_something(path) or self._starts(path) for path in self._every)

    def _starts(self, path: str) -> bool:
        """Say whether a file is there to be run wherever it lies."""
        if not self._is_of_program(path):
            return False
        if path.endswith(".ipynb") or stem_of(path) == "__main__":
            return True
        text = self._read(path) or "" if self._package(path) else ""
        runs = self._trains(path, text) or self._imports_beside(path, text)
        return runs and _GUARD.search(text) is not None

    def _imports_beside(self, path: str, text: str) -> bool:
        """Say whether a file imports by its bare name what lies beside it in a package, as only a
        script can."""
        folder = os.path.dirname(path)
        return any(
            self._search.module(path, name) == os.path.join(folder, f"{name}.py")
            for name in _BARE.findall(text)
        )

    def programs(self, files: Iterable[str]) -> tuple[str, ...]:
        """Return those of some files that are scripts to be run, those first that train."""
        scripts = [
            path
            for path in files
            if path.endswith(".py") and (self._does_something(path) or self._starts(path))
        ]
        return tuple(
            sorted(scripts, key=lambda path: not self._trains(path, self._read(path) or ""))
        )

    def _trains(self, path: str, text: str) -> bool:
        """Say whether a file trains, by its name or by what it says."""
        return _TRAINS.search(stem_of(path)) is not None or _STEPS.search(text) is not None

    def _is_of_program(self, path: str) -> bool:
        """Say whether a file is no test, benchmark or example."""
        shown = _below(self._search.root, path).replace(os.sep, "/")
        return speaks_for(shown, lambda: self._read(path) or "") == ""

    def _imports(self, path: str, packages: set[str] | None) -> bool:
        """Say whether a file imports one of some packages, or any module where they are None."""
        names = r"\w+" if packages is None else "|".join(map(re.escape, sorted(packages))) or "(?!)"
        said = rf"^[ \t]*(from|import)[ \t]+(\w+\.)*({names})\b|[\"']({names})\."
        return re.search(said, self._read(path) or "", re.MULTILINE) is not None

    def _package(self, path: str) -> str:
        """Return the name of the outermost package that a file lies in, empty for none."""
        own, _, inside = _below(self._top(path), path).partition(os.sep)
        return own if inside else ""

    def _does_something(self, path: str) -> bool:
        """Say whether a file is there to be run: it does something, and in a package, one of
        scripts by its name, it says that it is run itself."""
        package = self._package(path)
        starts = _GUARD if package else _PROGRAM
        return (
            path.endswith(".py")
            and package in _SCRIPTS
            and stem_of(path) not in _OF_TOOLS
            and self._is_of_program(path)
            and starts.search(self._read(path) or "") is not None
        )

    def _taken(self, path: str) -> frozenset[str] | None:
        """Return the files of which the program of a file may take any name; None where it may take
        those of any file."""
        program = self._program(path)
        if program not in self._by_text:
            some = [each for each in program if self._takes_by_text(each)]
            few = sum(len(self._read(each) or "") for each in some) < _PARSED
            found = [self._taken_by(each) for each in some] if few else [None]
            if any((said := self._says(each)) is not None and said.finding for each in some):
                self._finding.add(program)
            known = [each for each in found if each is not None]
            self._by_text[program] = frozenset().union(*known) if len(known) == len(found) else None
        return self._by_text[program]

    @remembered
    def _takes_by_text(self, path: str) -> bool:
        """Say whether a file holds a word by which code may take names that it does not say."""
        return _BY_TEXT.search(self._read(path) or "") is not None

    def _taken_by(self, path: str) -> set[str] | None:
        said = self._says(path)
        if said is None:
            return set() if path.endswith(".ipynb") else None
        if said.free:
            return None
        found, named = set[str](), set(said.whole)
        for dotted in said.taken:
            first, _, rest = dotted.partition(".")
            whole = [f"{each}.{rest}" if rest else each for each in said.imports.get(first, ())]
            if dotted == ".":
                found.add(path)
            elif not whole and not _VALUES.match(dotted):
                named |= said.loose
            for each in whole:
                module = self._find.find(path, each)
                found |= {module.path} if isinstance(module, Definition) else set()
        if not all(_WORDS.search(each.replace(_LABEL, "")) for each in named):
            return None
        return found.union(self._named_as(path, named))

    def _named_as(self, importer: str, patterns: set[str]) -> Iterator[str]:
        """Yield the files whose module has a name that fits a pattern, as a file imports it: from
        its own folder on where some stand there and no package is around it, else from any."""
        here = "?" if self._search.in_package(importer) else os.path.dirname(importer) + os.sep
        every = [each for each in self._every if each.endswith(".py")]
        beside = [each for each in every if each.startswith(here)]
        for pattern in patterns:
            whole = re.compile(rf"({pattern})(\.__init__)?")
            ends = re.compile(rf"(.*[./])?{whole.pattern}")
            near = [each for each in beside if whole.fullmatch(_module(each[len(here) :]))]
            yield from near or (each for each in every if ends.fullmatch(_module(each)))

    def _says_elsewhere(self, path: str, name: str) -> bool:
        """Say whether another file than one speaks of a name."""
        others = self._holding(name) - {path}
        return any(any(True for _ in spoken(self._read(each) or "", name)) for each in others)

    def _method_used(self, path: str, name: str) -> bool:
        """Say whether a method is used, or may be."""
        seen, todo = {(path, name)}, [(path, name)]
        while todo:
            at = todo.pop()
            if len(seen) > _MOST or self._is_open(*at):
                return True
            for user in self._callers(*at) - seen:
                seen.add(user)
                home = user[1].partition(".")[0]
                if user == (at[0], _GUARDED) and self._tests_itself(at[0]):
                    self._by_test.add((path, name))
                elif home in _TOP or self.used(user[0], home):
                    if "." not in user[1]:
                        return True
                    todo.append(user)
        return False

    def _is_open(self, path: str, name: str) -> bool:
        """Say whether something else than the project's own code may call a method by its name."""
        cls, _, method = name.partition(".")
        said = self._says(path)
        return (
            said is None
            or method not in said.methods.get(cls, ())
            or method in CALLED_BY_TORCH
            or method.startswith("__")
            or not said.open.isdisjoint((cls, name))
            or self._asked_of(Definition(path, cls, CLASS))
            or self._inherits(Definition(path, cls, CLASS), set())
        )

    def _asked_of(self, cls: Definition) -> bool:
        """Say whether a place that is run may take any method of an object of a class."""
        if not self._by_object:
            texts = filter(self._takes_by_text, self._every)
            self._by_object.append([(path, self._says(path)) for path in texts])
        return any(
            said is None
            or any(
                self._may_be(cls, path, said, receiver, at) and self._is_run(path, at)
                for receiver, at in said.asked
            )
            for path, said in self._by_object[0]
        )

    def _is_run(self, path: str, place: str) -> bool:
        """Say whether a place is at a file's own level, or in a definition that is used."""
        home = place.partition(".")[0]
        return home in _TOP or self.used(path, home)

    def _may_be(self, cls: Definition, path: str, said: Said, receiver: str, place: str) -> bool:
        """Say whether a dotted name may stand for an object of a class, or for the class."""
        first, dot, rest = receiver.partition(".")
        if first in said.imports:
            whole = [self._find.find(path, f"{each}{dot}{rest}") for each in said.imports[first]]
            return any(isinstance(each, Definition) and each.kind == CLASS for each in whole)
        if receiver in ("self", "cls") and "." in place:
            own = Definition(path, place.partition(".")[0], CLASS)
            return own in self._find.lineage(cls).classes or cls in self._find.lineage(own).classes
        return not _OPTIONS.match(receiver.removeprefix("self."))

    def _inherits(self, cls: Definition, seen: set[Definition]) -> bool:
        """Say whether a class, or one that inherits from it, may have a base that calls methods."""
        seen.add(cls)
        if not set(self._find.lineage(cls).outside) <= _CALLING_NOTHING:
            return True
        for path in self._holding(cls.name):
            said = self._says(path)
            if said is None:
                heir = rf"class \w+\([^)]*\b{cls.name}\b"
                if re.search(heir, self._read(path) or ""):
                    return True
                continue
            names = {cls.name} | {
                local
                for local, whole in said.imports.items()
                if any(each.rpartition(".")[2] == cls.name for each in whole)
            }
            for heir, bases in said.bases.items():
                if all(base.rpartition(".")[2] not in names for base in bases):
                    continue
                nested = heir not in said.methods and len(bases) > 1
                at = Definition(path, heir, CLASS)
                if nested or (at not in seen and self._inherits(at, seen)):
                    return True
        return False

    def _callers(self, path: str, name: str) -> set[tuple[str, str]]:
        """Return the places that may call a method: a file, and the outermost definition or method
        in it, empty for its own level. A method that is taken of `self` is that of the class, where
        the class defines one; files that never run with the class's own have no object of it."""
        cls, _, method = name.partition(".")
        lineage = self._find.lineage(Definition(path, cls, CLASS)).classes
        family = {(each.path, each.name) for each in lineage}
        found: set[tuple[str, str]] = set()
        for other in self._holding(method) & self._program(path):
            said = self._says(other)
            if said is None:
                text = self._read(other) or ""
                if not all(map(defines, spoken(text, method))):
                    found.add((other, ""))
                continue
            # In the body of its class a method is a name.
            places = said.takers(method) | (said.names[method] & {cls} if other == path else set())
            own = {at for at in said.own[method] if (other, at.partition(".")[0]) in family}
            found |= {(other, at) for at in places | own}
        return found

    @remembered
    def _says(self, path: str) -> Said | None:
        text = self._read(path) or ""
        cells = path.endswith(".ipynb")
        tree = parsed(_MAGIC.sub(r"\1pass", text) if cells else text)
        return Said(tree) if tree is not None else None

    def _users(self, path: str, name: str, taken: frozenset[str]) -> Iterator[tuple[str, str]]:
        """Yield what uses a definition: a file with the outermost definition in it, empty for its
        own level; `taken` are the files of which any name may be taken."""
        size, holding = 0, self._holding(name)
        for other in self._every:
            if (other not in holding and other not in taken) or self._fails(other) is not None:
                continue
            text = self._read(other) or ""
            size += len(text)
            said = self._says(other)
            if size > _PARSED:
                yield other, ""
            elif said is None:
                if any(True for _ in spoken(text, name)):
                    yield other, ""
            else:
                users = self._users_in(other, said, Definition(path, name, ""), other in taken)
                yield from ((other, user) for user in users)

    def _users_in(self, path: str, said: Said, target: Definition, taken: bool) -> set[str]:
        name = target.name
        if path == target.path:
            return self._fitting(path, said, name, target) - {name}
        users: set[str] = set()
        for local, dotted in said.imports.items():
            if any(self._leads(path, each, target) for each in dotted):
                other = local != name and self._says_elsewhere(path, local)
                users |= {""} if taken or other else self._fitting(path, said, local, target)
        for receiver, around in said.attributes.get(name, ()):
            first, _, rest = receiver.partition(".")
            whole = f"{rest}.{name}" if rest else name
            # What is no import may be a module that somebody handed on.
            own = not said.loose and receiver in ("self", "cls")
            unknown = first not in said.imports and not own and not _LOGGER.match(receiver)
            if unknown or any(
                self._leads(path, f"{dotted}.{whole}", target)
                for dotted in said.imports.get(first, ())
            ):
                users.add(around)
        if said.stars and (taken or name in said.names):
            found = self._find.starred(path, said.stars, [name])
            near = found is None and any(
                each.rpartition(".")[2] == stem_of(target.path) for each in said.stars
            )
            if near or is_same(found, target):
                users |= {""} if taken else self._fitting(path, said, name, target)
        module = re.compile(rf"\b{re.escape(stem_of(target.path))}\b")
        return users | ({""} if any(map(module.search, said.texts.get(name, ()))) else set())

    def _fitting(self, path: str, said: Said, local: str, target: Definition) -> set[str]:
        """Return the places of a file that use what a name stands for, and not only call it in ways
        in which no call of it can run."""
        own = self._says(target.path)
        sole = own is not None and target.name not in own.imports
        takes = own.takes.get(target.name) if own is not None and sole else None
        places = said.names.get(local, set())
        problems = {at: why for at in places if (why := said.misfit(local, at, takes))}
        if problems and not self._is_replaced(target.name):
            shown = _below(self._search.root, path)
            why = f"the call in `{shown}` {next(iter(problems.values()))}"
            self._misfits.setdefault((target.path, target.name), why)
            return places - problems.keys()
        return places

    def _is_replaced(self, name: str) -> bool:
        """Say whether a file may put something else in the place of a function."""
        said = re.compile(
            rf"\.{name}\s*=(?!=)|(setattr|patch)\b[^\n]*\b{name}\b|^\s*{name}\s*=", re.MULTILINE
        )
        return any(said.search(self._read(each) or "") for each in self._holding(name))

    def misfit(self, path: str, name: str) -> str | None:
        """Return how something calls a function that is not used, where its parameters take no such
        arguments; None where nothing does."""
        return self._misfits.get((path, name)) if not self.used(path, name) else None

    def _leads(self, path: str, dotted: str, target: Definition) -> bool:
        """Say whether a dotted name of a file stands for a definition, or may: the name of its
        module is the same, and leads to no other one."""
        before, _, last = dotted.rpartition(".")
        if last != target.name:
            return False
        found = self._find.find(path, dotted)
        if isinstance(found, Definition):
            return is_same(found, target)
        return found is None or before.rpartition(".")[2] == stem_of(target.path)


def _places(names: set[str], texts: set[str]) -> bool:
    """Say whether code that says some dotted names and texts may put something on a GPU; a tensor
    that joins one that `is_cuda` does not count."""
    parts = {part for each in names for part in each.split(".")}
    joins = "is_cuda" in parts and not any(
        each.startswith("torch.") for each in names if "cuda" in each
    )
    return any(map(_PLACED.match, (parts - {"is_cuda", "cuda"} if joins else parts) | texts))


def is_same(found: Definition | str | None, target: Definition) -> bool:
    """Say whether what a name stands for is this very definition."""
    return isinstance(found, Definition) and (found.path, found.name) == (target.path, target.name)
