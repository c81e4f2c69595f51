"""Which definitions of a program it uses: those to which code at the level of a module comes, over
any number of definitions, by the names that code says. Comments and docstrings say nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Protocol

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.code.text import defines, spoken
from torchlint.semantic.code.wording import Wording
from torchlint.semantic.elsewhere import Definition, Lineage
from torchlint.semantic.project.index import CLASS, FUNCTION
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.said import BY_TEXT, GUARDED, LABEL, TOP, Said
from torchlint.semantic.project.scripts import OF_TOOLS, PROGRAM, Scripts, below
from torchlint.semantic.project.search import Search
from torchlint.semantic.torch import ops
from torchlint.semantic.torch.names import CALLED_BY_TORCH
from torchlint.source.python import parsed

_OPTIONS = regex(r"(args?|opts?|options?|cfg|config|conf|hparams|params?|flags)\b", re.I)
_VALUES = regex(rf"(self|cls)\b|{_OPTIONS.pattern}", re.I)
"""Names of what is no module, whatever its attributes are."""
_LOGGER = regex(r"(self\.)?_*log(ger)?\Z", re.I)
"""Names of what is no module either: its methods are those of a logger."""
_ACTS = regex(
    rf"{PROGRAM.pattern}|^(?!(async )?def |class |from |import |@)\w[^#\n]*\(", re.MULTILINE
)
"""What does something, or calls something, where the file is run or imported."""
_MAGIC = regex(r"^([ \t]*)[%!](?!run\b|load\b)[^(\n]*$", re.MULTILINE)
"""A line of a notebook that is no Python and uses no name."""
_PLAIN_BASES = (
    *("torch.", "builtins.", "abc.", "typing.", "enum.", "collections.", "argparse.", "json."),
    *("pytorch_lightning.", "lightning.", "gym.", "gymnasium."),
)
"""Bases by which nothing makes an object of a class that nobody names."""
_CALLING_NOTHING = frozenset(("torch.nn.Module", "builtins.object", "object"))
"""Bases that call no method of a class but those that they have themselves."""
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
_WORDS = regex(r"\w")
_MOST = 100
"""Definitions that are looked at for one question; behind that the answer is yes."""
_PARSED = 4_000_000
"""Characters of source that are parsed for one question; behind that the answer is yes."""


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
        may_match: says of a file whether it may hold a pattern.
        fails: says of a file what it cannot import, None where it may run.
        programs: says which files run.
    """

    def __init__(
        self,
        search: Search,
        names: Names,
        read: Callable[[str], str | None],
        every: tuple[str, ...],
        program: Callable[[str], frozenset[str]],
        holding: Callable[[str], frozenset[str]],
        may_match: Callable[[str, Wording], bool],
        fails: Callable[[str], str | None],
        programs: Scripts,
    ) -> None:
        self._search = search
        self._find = names
        self._read = read
        self._every = every
        self._program = program
        self._holding = holding
        self._may_match = may_match
        self._fails = fails
        self._programs = programs
        self._by_text: dict[frozenset[str], frozenset[str] | None] = {}
        self._finding: set[frozenset[str]] = set()
        self._by_object: list[list[tuple[str, Said | None]]] = []
        self._known: dict[tuple[str, str, frozenset[str]], tuple[tuple[str, str], ...] | None] = {}
        self._tested: set[tuple[str, str]] = set()
        self._by_test: set[tuple[str, str]] = set()
        self._misfits: dict[tuple[str, str], str] = {}

    def used(self, path: str, name: str) -> bool:
        """Say whether a definition of a file, or ``Net.method`` of one, is used, or may be; False
        is certain as far as names are."""
        if not self._programs.runs(path):
            return True
        if "." in name:
            return self._method_used(path, name)
        taken = self._files_taken_from(path)
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
                if user[1] not in TOP:
                    users.append(user)
                elif user == (path, GUARDED) and self._tests_itself(path):
                    self._tested.add((path, name))
                elif user[0] in taken or self._is_loaded(user[0]):
                    return None
            self._known[key] = tuple(dict.fromkeys(users))
        return self._known[key]

    def _is_kept(self, path: str, name: str) -> bool:
        """Say whether a definition may be used though no code of the program says its name."""
        said = self._said_by(path)
        if said is None or self._is_handed_on(path, said, name) or not self._programs.runs(path):
            return True
        lineage = self._find.lineage(Definition(path, name, CLASS))
        heirs = self._program(path) in self._finding
        return not all(base.startswith(_PLAIN_BASES) for base in lineage.outside) or any(
            heirs
            or (above := self._said_by(each.path)) is None
            or self._is_handed_on(each.path, above, each.name)
            for each in lineage.classes[1:]
        )

    def _is_handed_on(self, path: str, said: Said, name: str) -> bool:
        """Say whether something may call a definition that it is handed where that stands, or that
        no Python code calls: one of the project's own decorators may do anything."""
        tested = name == "main" and not said.handed[name] and GUARDED in said.names[name]
        return (name in said.kept and not (tested and self._tests_itself(path))) or any(
            not isinstance(self._find.find(path, maker), str) for maker in said.makers.get(name, ())
        )

    def _is_loaded(self, path: str) -> bool:
        """Say whether what a file says at its own level counts: the level calls something, or
        another file holds the name of the module."""
        stem = stem_of(path)
        return (
            not path.endswith(".py")
            or stem in OF_TOOLS
            or _ACTS.search(self._read(path) or "") is not None
            or not _WORDS.search(stem)
            or bool(self._holding(stem) - {path})
        )

    @remembered
    def _tests_itself(self, path: str) -> bool:
        """Say whether what a file does when it is run is a test of itself: its guard makes tensors
        or networks of the file's own, and neither it nor what it calls does work or puts something
        on a GPU. A file that stands alone is looked at for what it holds."""
        return len(self._every) > 1 and self._tries_itself(path)

    def _tries_itself(self, path: str) -> bool:
        todo, makes = [(path, GUARDED)], False
        for at, place in todo:
            said = self._said_by(at)
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

    def _files_taken_from(self, path: str) -> frozenset[str] | None:
        """Return the files of which the program of a file may take any name; None where it may take
        those of any file."""
        program = self._program(path)
        if program not in self._by_text:
            some = [each for each in program if self._takes_by_text(each)]
            few = sum(len(self._read(each) or "") for each in some) < _PARSED
            found = [self._taken_by(each) for each in some] if few else [None]
            if any((said := self._said_by(each)) is not None and said.finding for each in some):
                self._finding.add(program)
            known = [each for each in found if each is not None]
            self._by_text[program] = frozenset().union(*known) if len(known) == len(found) else None
        return self._by_text[program]

    @remembered
    def _takes_by_text(self, path: str) -> bool:
        """Say whether a file holds a word by which code may take names that it does not say."""
        return self._may_match(path, BY_TEXT) and BY_TEXT.search(self._read(path) or "") is not None

    def _taken_by(self, path: str) -> set[str] | None:
        said = self._said_by(path)
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
        if not all(_WORDS.search(each.replace(LABEL, "")) for each in named):
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
                if user == (at[0], GUARDED) and self._tests_itself(at[0]):
                    self._by_test.add((path, name))
                elif home in TOP or self.used(user[0], home):
                    if "." not in user[1]:
                        return True
                    todo.append(user)
        return False

    def _is_open(self, path: str, name: str) -> bool:
        """Say whether something else than the project's own code may call a method by its name."""
        cls, _, method = name.partition(".")
        said = self._said_by(path)
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
            self._by_object.append([(path, self._said_by(path)) for path in texts])
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
        return home in TOP or self.used(path, home)

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
            said = self._said_by(path)
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
            if self._fails(other) is not None:
                continue
            said = self._said_by(other)
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
    def _said_by(self, path: str) -> Said | None:
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
            said = self._said_by(other)
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
        own = self._said_by(target.path)
        sole = own is not None and target.name not in own.imports
        takes = own.takes.get(target.name) if own is not None and sole else None
        places = said.names.get(local, set())
        problems = {at: why for at in places if (why := said.misfit(local, at, takes))}
        if problems and not self._is_replaced(target.name):
            shown = below(self._search.root, path)
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


def _module(path: str) -> str:
    """Return a path as the name of a module."""
    return path.removesuffix(".py").replace(os.sep, ".")


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
