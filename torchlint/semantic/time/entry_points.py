"""What may run although no code shows it: whatever a package offers to others. A private function
is none of it, nor is what nothing uses in a program."""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

import libcst as cst

from torchlint.base.regex import regex
from torchlint.semantic.code.failures import fails_at_top
from torchlint.semantic.code.names import dotted_text
from torchlint.semantic.code.scopes import scopes
from torchlint.semantic.code.text import defines, has_main_guard, in_main_guard, uncommented
from torchlint.semantic.module import Module
from torchlint.semantic.question import question


@question(
    yes="it stands in `{answer}`, a private function of which nobody in the project speaks",
    no="somebody may call the function",
    ground=True,
)
def uncalled(module: Module, node: cst.CSTNode) -> str | None:
    """Return the private function around a node, or that it is, whose name stands nowhere in the
    project but at its definition, commented lines apart; None where there is none.

    What has a decorator is handed to it, and a method may be called by a base class of a library
    other than torch. Where the project is too large to tell, somebody may call anything.
    """
    around = [node, *module.ancestors(node)]
    for each in around:
        if isinstance(each, cst.FunctionDef) and _is_private(module, each):
            name = each.name.value
            said = functools.partial(_speaks_of, name)
            if not said(module.text) and module.outside.others_say(said) is False:
                return name
    return None


@question(
    yes="it stands in `{answer}`, which nothing that runs in this program uses",
    no="the program may use the function",
    ground=True,
)
def unused(module: Module, node: cst.CSTNode) -> str | None:
    """Return the name of the outermost function or class around a node, or of a method in it,
    where nothing that runs in the program of its file says it, and no text may name it; None where
    something may use it.

    A library, whose callers are elsewhere, is no program, and neither is a file that stands alone.
    What ``assume-hot`` names is used.
    """
    around = (node, *module.ancestors(node))
    homes = [each for each in around if isinstance(each, (cst.FunctionDef, cst.ClassDef))]
    names = [each.name.value for each in homes]
    assumed = any(
        fnmatch.fnmatchcase(*each) for each in itertools.product(names, module.assume_hot)
    )
    asked = names[-1:] if not assumed else []
    if asked and len(homes) > 1:
        asked.append(f"{names[-1]}.{names[-2]}")
    return next((name for name in asked if module.outside.uses(name) is False), None)


_WORK = (cst.For, cst.While, cst.With)
"""Statements at the top of a script that has begun, whatever it imports further down."""


@question(ground=True)
def broken_import(module: Module) -> tuple[cst.CSTNode, str] | None:
    """Return the statement that shows that the file cannot be imported, and why: what it imports in
    any case before the first loop or block that runs, or one of the files does which it imports,
    stands nowhere in the project, or is no Python, or another statement ends in an error before any
    work is done. None where nothing shows it."""
    for line in itertools.takewhile(lambda each: not isinstance(each, _WORK), module.root.body):
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            found = (module.outside.broken(*each) for each in _needs(small))
            if why := next((each for each in found if each is not None), None):
                return small, why
    return fails_at_top(module)


def _needs(small: cst.CSTNode) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield what an import statement needs, as `torchlint.source.python.needs` does for a file."""
    match small:
        case cst.ImportFrom(names=names):
            taken = names if isinstance(names, Sequence) else ()
            parts = tuple(dotted_text(each.name) or "" for each in taken) or ("*",)
            yield "." * len(small.relative) + (dotted_text(small.module) or ""), parts
        case cst.Import(names):
            yield from ((dotted_text(each.name) or "", ()) for each in names)


@question(
    yes="it shows what a module of a package does, under the guard of a file that others import",
    no="it shows no module of a package",
)
def shows_module(module: Module, node: cst.CSTNode) -> bool:
    """Say whether a node stands under ``if __name__ == "__main__":`` in a file of a package that is
    installed, and that another file imports for the networks in it: a demonstration, which the
    users of the package never run."""
    return (
        in_main_guard(module, node)
        and module.outside.in_package()
        and (module.outside.of_library() or module.outside.offered())
        and any(scopes(module).is_module(each) for each in module.nodes(cst.ClassDef))
        and module.outside.others_say(functools.partial(_imports, PurePath(module.path).stem))
        is True
    )


def _imports(stem: str, text: str) -> bool:
    """Say whether a file that is no test imports a module, or from it."""
    found = stem in text and re.search(
        rf"^[ \t]*(from[ \t]+[\w.]*\b{stem}[ \t]+import|import[ \t].*\b{stem}\b"
        rf"|from[ \t]+[\w.]+[ \t]+import[ \t].*\b{stem}\b)",
        text,
        re.MULTILINE,
    )
    return bool(found) and _TESTED.search(text) is None


_OF_CLASS = frozenset(("__init__", "forward", "__call__"))
_TESTED = regex(r"^[ \t]*(import|from)[ \t]+(pytest|unittest)\b", re.MULTILINE)


@question(
    yes="it is offered to others by a package in which nobody calls it",
    no="code in view calls it, or nothing offers it to others",
)
def called_out_of_view(module: Module, node: cst.CSTNode, *, callers: int = 0) -> bool:
    """Say whether those who come to a node are not in view: it stands in a public function, or a
    class, of a package, which no file of the project calls, tests apart.

    Functions that nobody calls either count as nobody, up to `callers` above. The function of a
    program, with a ``__main__`` guard in its file, is in view.
    """
    if not module.outside.in_package() or has_main_guard(module):
        return False
    return _is_unseen(module, node, callers)


def _is_unseen(module: Module, node: cst.CSTNode, callers: int) -> bool:
    home = module.function(node)
    if home is None or home.decorators:
        return False
    cls = module.class_of(home) if home.name.value in _OF_CLASS else None
    name = cls.name.value if cls is not None else home.name.value
    if name.startswith("_") or name == "main":
        return False
    if module.outside.others_say(functools.partial(_calls, name)) is not False:
        return False
    sites = [call for each in module.tree.named(name) if (call := module.tree.call_of(each))]
    return not sites or (callers > 0 and all(_is_unseen(module, s, callers - 1) for s in sites))


def _calls(name: str, text: str) -> bool:
    """Say whether a file that is no test calls something of a name."""
    called = name in text and re.search(rf"(?<!def )(?<!class )\b{name}\(", text) is not None
    return called and _TESTED.search(text) is None


def _is_private(module: Module, function: cst.FunctionDef) -> bool:
    name, cls = function.name.value, module.class_of(function)
    if not name.startswith("_") or name.endswith("__") or len(name) < len("_ab"):
        return False
    bases = scopes(module).base_names(cls) if cls is not None else []
    return not function.decorators and all(
        base.startswith(("torch.", "builtins.")) for base in bases
    )


def _speaks_of(name: str, text: str) -> bool:
    """Say whether a file speaks of a name, commented lines and one definition apart."""
    places = list(itertools.islice(uncommented(text, name), 2))
    if len(places) != 1:
        return bool(places)
    at, before = places[0]
    return not (defines(before) and text.startswith(f"{name}(", at))
