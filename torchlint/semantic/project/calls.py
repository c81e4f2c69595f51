"""The calls of a project as they are written: which files may call a function of another one.

The index of callers has three steps, each asked only where the one before it leaves a doubt.

1. `lexicon`: the words before an opening bracket and after ``def`` in each file's text. That is a
   pass over the text, so that all files of a project are read through for any question. A file
   that does not hold the name of a function calls it by no means that could be followed.
2. `written`: of a file that holds the name, its calls by ``ast``: the receiver, the function
   around, and whether that or a loop may make it run often. Import statements say whether the name
   leads to the function. `Project.may_run_often` ends here, and with it the cheap bound of heat.
3. `torchlint.semantic.project.callers`: of a file with such a call, its analysis, which looks no
   further than the file itself: how often the call runs there, whether autograd is off, what is
   passed, and which functions of the file, run from outside, come to the call.

From a function upwards, step by step, callers of callers are asked, each function once: a circle
ends, and what is found does not depend on which function was asked about first.

Who asks the first two steps rests on their answers (`Project.ask`), who asks the third on the texts
of the files that were analysed for it as well. So what is read for the first two must be all that
decides on them: texts, and nothing that an analysis found out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.semantic.code.benchmarks import holds_tests
from torchlint.semantic.torch import ops
from torchlint.source.python import BELOW, DEFS

_WORD = regex(r"\w+$")
_HEAD = regex(r"\s*([^\W\d]\w*)\s*[(:]")
"""The name in a class statement."""
_LONGEST = 80
"""Characters of the longest name."""
_NO_PROGRAM = regex(
    r"(^|/)(tests?|testing|unit_?tests?|benchmarks?|examples?|demos?|docs?|tutorials?|sandbox)/"
)
_TEST_FILE = regex(r"(^|/)(conftest|(test_[^/]*|[^/]*_tests?)|bench(mark)?_?[^/]*)\.py$")
_OF_LIBRARIES = ops.METHODS | frozenset(
    (
        "add_argument add_scalar add_image apply_async fit_transform parse_args read_text "
        "save_pretrained set_description set_epoch set_postfix to_csv to_dict write_text"
    ).split()
)
"""Names of two words that methods of torch and of other libraries have."""
_TWO_WORDS = regex(r"[a-z0-9]_[a-z0-9]|[a-z][A-Z]")


@frozen
class Lexicon:
    """The words of a file that count for the index: what it may call or import, and how often it
    defines what."""

    called: frozenset[str]
    defined: Mapping[str, int]


def lexicon(text: str) -> Lexicon:
    """Return the words of a text."""
    tails = {
        last.rpartition(".")[2]
        for behind in ("(", " as ")
        for part in text.split(behind)
        for last in part[-_LONGEST:].rsplit(None, 1)[-1:]
    }
    called = {tail for tail in tails if tail.isidentifier()}  # most of them
    called |= {found.group() for tail in tails - called if (found := _WORD.search(tail))}
    defined: dict[str, int] = {}
    for part in text.split("def ")[1:]:
        name = part[: part.find("(")].strip() if "(" in part[:_LONGEST] else ""
        if name.isidentifier():
            defined[name] = defined.get(name, 0) + 1
    for part in text.split("class ")[1:]:
        found = _HEAD.match(part)
        if found is not None:
            defined[found[1]] = defined.get(found[1], 0) + 1
    return Lexicon(frozenset(called), defined)


def speaks_for(caller: str, text: Callable[[], str]) -> str | None:
    """Return the folder of the files about whose use a call in one file speaks, empty for all; None
    for no file. Tests, benchmarks and examples speak for none but what lies with them; a script
    that tests a model, ``test_net.py``, holds no tests.

    Args:
        caller: the path of the file that calls, from the root on.
        text: gives the text of that file.
    """
    named = _TEST_FILE.search(caller)
    if named is not None and (named[3] is None or holds_tests(text())):
        return None
    found = _NO_PROGRAM.search(caller)
    return caller[: found.end()] if found is not None else ""


def objects_of(cls: str, text: str) -> set[str]:
    """Return the last names under which a text may call objects that it makes of a class."""
    made = rf"=\s*(?:\w+\.)*{re.escape(cls)}\("
    if f"{cls}(" not in text or not re.search(made, text):
        return {f"{cls}()"}
    return {f"{cls}()", *re.findall(rf"\b(\w+)\s*(?::[^=\n]{{1,99}})?{made}", text)}


def telling(method: str) -> bool:
    """Say whether a method's name, where one class of a project alone has it, tells the class:
    ``forward``, ``update`` and what else is one word may be a method of anything."""
    return (
        _TWO_WORDS.search(method) is not None
        and not method.startswith("__")
        and method not in _OF_LIBRARIES
    )


class Written(NamedTuple):
    """One call as it is written.

    Args:
        receiver: what stands before the last dot; empty for a plain name, None for what is no
            dotted name.
        within: the outermost function that it stands in, as ``f`` or ``Class.method``; empty at the
            top level.
        often: whether it stands in a loop, or in a function that may run in each step by its name
            or by what it calls.
        own: whether it calls a method of the class around it that this class itself defines.
        looped: whether it stands in a loop of its function.
    """

    receiver: str | None
    within: str
    often: bool
    own: bool
    looped: bool


@frozen
class Calls:
    """The calls of one file by the last name of what is called, ``C()`` for ``C()(x)``, what its
    imports bind, in whatever scope, and which functions run a backward pass; or `unread`, where
    Python does not accept its text."""

    sites: Mapping[str, tuple[Written, ...]] = field(default_factory=dict)
    imports: Mapping[str, frozenset[str]] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    backward: frozenset[str] = frozenset()
    unread: bool = False
    _around: dict[tuple[str, bool], frozenset[str] | None] = field(default_factory=dict)

    def around(self, name: str, *, method: bool) -> frozenset[str] | None:
        """Return the functions around the calls of a name; None where one of them may run often of
        its own."""
        key = (name, method)
        if key not in self._around:
            found = [site for site in self.sites.get(name, ()) if not method or site.receiver != ""]
            some = any(site.often for site in found)
            withins = frozenset(site.within for site in found if site.within)
            self._around[key] = None if some else withins
        return self._around[key]

    def reach_out(self, names: Iterable[str]) -> bool:
        """Say whether a call of one of these names may reach what another file defines: it is not
        of a method of the file's own class."""
        return self.unread or any(
            not site.own for name in names for site in self.sites.get(name, ())
        )


_LOOPS = frozenset((ast.For, ast.AsyncFor, ast.While, ast.ListComp, ast.SetComp, ast.DictComp))
_TOLD = frozenset((*DEFS, ast.Call, ast.ClassDef, ast.Import, ast.ImportFrom))
"""The nodes that say something of calls."""
_OBJECTS = ("self", "cls")
_STEPPING = frozenset(("backward", "step"))
_MAY_STEP = regex(
    r"forward|backward|step|batch|loss|criterion|collat|predict|decode|encode|update|optimi[sz]e"
    r"|^__(call|getitem|getitems|iter|next)__$",
    re.IGNORECASE,
)
"""Names of functions that may have a part in each step; `torchlint.semantic.time.roles` knows."""


class _Reader:
    """Gathers the calls of one file."""

    def __init__(self) -> None:
        self.sites: dict[str, dict[Written, None]] = {}
        self.imports: dict[str, set[str]] = {}
        self.stars: list[str] = []

    def read(self, tree: ast.Module) -> Calls:
        """Return the calls of a tree."""
        # Each node with the class around it, the outermost function, whether that may run often,
        # whether it stands in a loop, and the methods of the class.
        todo: list[tuple[Any, Any]] = [(tree, ("", "", False, False, frozenset()))]
        while todo:
            node, around = todo.pop()
            kind = type(node)
            cls, within, often, looped, methods = around
            if kind in _LOOPS:
                around = (cls, within, True, True, methods)
            elif kind not in _TOLD:
                pass
            elif kind is ast.Call:
                name, receiver = _callee(node.func)
                if name:
                    own = receiver in _OBJECTS and name in methods
                    site = Written(receiver, within, often, own, looped)
                    self.sites.setdefault(name, {})[site] = None
            elif kind in DEFS:
                within = within or (f"{cls}.{node.name}" if cls else node.name)
                often = often or _MAY_STEP.search(node.name) is not None
                around = (cls, within, often, False, methods)
            elif kind is ast.ClassDef:
                methods = frozenset(each.name for each in node.body if isinstance(each, DEFS))
                around = (cls or node.name, within, often, looped, methods)
            else:
                self._import(node)
                continue
            for value in map(node.__getattribute__, BELOW[kind]):
                if type(value) is list:
                    todo += [(each, around) for each in value if type(each) not in _LEAVES]
                elif type(value) not in _LEAVES:
                    todo.append((value, around))
        stepping = {site.within for name in _STEPPING for site in self.sites.get(name, ())}
        return Calls(
            {
                name: tuple(
                    each if each.often or each.within not in stepping else each._replace(often=True)
                    for each in found
                )
                for name, found in self.sites.items()
            },
            {name: frozenset(found) for name, found in self.imports.items()},
            tuple(self.stars),
            frozenset(self._backward()),
        )

    def _backward(self) -> set[str]:
        """Return the functions that run a backward pass outside of their loops, by themselves or by
        a method of their own class."""
        passes = self.sites.get("backward", ())
        found = {site.within for site in passes if site.within and not site.looped}
        own = [
            (site.within, f"{site.within.partition('.')[0]}.{name}")
            for name, sites in self.sites.items()
            for site in sites
            if site.own and not site.looped
        ]
        before = -1
        while before < len(found):
            before = len(found)
            found |= {within for within, called in own if called in found}
        return found

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        for local, dotted in bound(node):
            if local:
                self.imports.setdefault(local, set()).add(dotted)
            else:
                self.stars.append(dotted)


_LEAVES: frozenset[type] = frozenset(
    (ast.Name, ast.Constant, ast.alias, ast.Pass, ast.Global, type(None), str, bool)
)


def written(tree: ast.Module | None) -> Calls:
    """Return the calls of a file by CPython's tree; none where Python does not accept its text."""
    return _Reader().read(tree) if tree is not None else Calls(unread=True)


def _callee(func: ast.expr) -> tuple[str, str | None]:
    if isinstance(func, ast.Name):
        return func.id, ""
    if isinstance(func, ast.Call):
        name, receiver = _callee(func.func)
        return (f"{name}()" if name else "", receiver)
    if not isinstance(func, ast.Attribute):
        return "", None
    parts: list[str] = []
    at = func.value
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    plain = isinstance(at, ast.Name)
    return func.attr, ".".join([at.id, *reversed(parts)]) if plain else None  # type: ignore[attr-defined]


def bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds with what they stand for; no name for a star."""
    if isinstance(node, ast.Import):
        for item in node.names:
            first = item.name.partition(".")[0]
            yield item.asname or first, item.name if item.asname else first
        return
    base = "." * node.level + (node.module or "")
    for item in node.names:
        if item.name == "*":
            yield "", base
        else:
            full = base + item.name if base.endswith(".") else f"{base}.{item.name}"
            yield item.asname or item.name, full
