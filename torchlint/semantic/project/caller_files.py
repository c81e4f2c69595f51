"""Which files of a project hold calls that may reach a function, by what the text of each says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from torchlint.base.regex import regex
from torchlint.base.remembered import remembered
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.project.callers import HOPS, MEMBER
from torchlint.semantic.project.calls import lexicon, objects_of, speaks_for, telling
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.index import CLASS
from torchlint.semantic.project.together import Together
from torchlint.semantic.project.used import is_same

_IMPORT = regex(r"\bimport\b")
_STAR = regex(r"import[\s\\(]*\*")
_GRAPHLESS = ("no_grad", "inference_mode", "set_grad_enabled", "grad_enabled")
_FAMILY = 40
"""Files of a family of classes that are looked at."""


class Step(NamedTuple):
    """A name by which a file may call a function, and whether it is a method's."""

    path: str
    name: str
    method: bool


class CallerFiles:
    """Finds the files that may call functions; for questions about all files alone."""

    def __init__(self, files: Files, definitions: Definitions, together: Together) -> None:
        self.files = files
        self.definitions = definitions
        self.together = together
        self._lexicon: dict[str, set[str]] = {}
        self._defined: dict[str, dict[str, int]] = {}
        self._families: dict[str, bool] = {}
        self._asides: dict[str, str | None] = {}
        self._ways: dict[Definition, list[Step]] = {}
        self._frequent: dict[Step, bool] = {}

    def callers(self, path: str, name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(self._each_caller(Definition(path, name, MEMBER)))

    def _each_caller(self, target: Definition) -> Iterator[tuple[str, tuple[str, ...]]]:
        every = self.files.every() or ()
        cls, _, name = target.name.rpartition(".")
        if cls and name == "__call__":
            yield from self._calling_objects(target, cls)
            return
        calling = self._words(every).get(name, set())
        mentioning = self._mentioning(cls) if cls and calling else frozenset()
        if cls and not telling(name):
            held = map(self.together.holding, self._objects(cls) if calling else ())
            calling = calling & mentioning.union(*held)
        for path in sorted(calling):
            if path == target.path or not self._speaks(path, target.path):
                continue
            if cls:
                near = path in mentioning or any(
                    self.is_alone(target.path, target.name, path, receiver)
                    for receiver in self._receivers(path, name)
                )
                names = {name} if near else set()
            else:
                names = self._names_for(path, target)
            if names:
                yield path, tuple(sorted(names))

    def _receivers(self, path: str, method: str) -> set[str]:
        """Return the last names of what a file calls a method of; of one whose name tells its class
        none is looked at."""
        if telling(method):
            return {""}
        sites = self.files.calls_in(path).sites.get(method, ())
        return {(site.receiver or "").rpartition(".")[2] for site in sites}

    @remembered
    def _objects(self, cls: str) -> frozenset[str]:
        """Return the names that files have for objects that they make of a class: another file that
        is handed one may call its methods without a word of the class."""
        made = (objects_of(cls, self.files.text(path) or "") for path in self._mentioning(cls))
        return frozenset(each for names in made for each in names if each.isidentifier())

    def _calling_objects(
        self, target: Definition, cls: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the files that make objects of a class and may call them, each with the names that
        it has for them."""
        for path in sorted(self._words(self.files.every() or ()).get(cls, ())):
            if path != target.path and self._speaks(path, target.path):
                made = objects_of(cls, self.files.text(path) or "")
                names = made & self.files.calls_in(path).sites.keys()
                if names:
                    yield path, tuple(sorted(names))

    def _names_for(self, path: str, target: Definition) -> set[str]:
        """Return the last names under which a file's import statements let it call a top-level
        function."""
        if not self._may_name(path, target.name):
            return set()
        calls = self.files.calls_in(path)
        found = {
            local
            for local, dotted in calls.imports.items()
            if local in calls.sites and any(self._leads(path, each, target) for each in dotted)
        }
        for site in calls.sites.get(target.name, ()):
            first, _, rest = (site.receiver or "").partition(".")
            whole = f"{rest}.{target.name}" if rest else target.name
            through = any(
                self._leads(path, f"{dotted}.{whole}", target)
                for dotted in calls.imports.get(first, ())
            )
            if through or (
                site.receiver == ""
                and calls.stars
                and target.name not in calls.imports
                and is_same(self.definitions.starred(path, calls.stars, [target.name]), target)
            ):
                found.add(target.name)
        return found

    def _may_name(self, path: str, name: str) -> bool:
        """Say whether a file may call a top-level function of another one by a name: it imports the
        name or a star, or calls it as an attribute; most define one of their own. Nothing is parsed
        for it."""
        text = self.files.text(path) or ""
        return (
            name in self.together.imported_by(path).words
            or _STAR.search(text) is not None
            or re.search(rf"\.[\s\\]*{name}\b", text) is not None
        )

    def _leads(self, path: str, dotted: str, target: Definition) -> bool:
        last = dotted.rpartition(".")[2]
        return last == target.name and is_same(self.definitions.find(path, dotted), target)

    def _mentioning(self, cls: str) -> frozenset[str]:
        """Return the files whose text holds the name of a class, which has dots where it stands in
        another class."""
        found = self.together.holding(cls)
        if "." in cls:
            return frozenset(path for path in found if cls in (self.files.text(path) or ""))
        return found

    def _speaks(self, path: str, called: str) -> bool:
        """Say whether calls in the file `path` say how the file `called` is used."""
        root = len(self.files.search.root) + 1
        if path not in self._asides:
            shown = path[root:].replace(os.sep, "/")
            self._asides[path] = speaks_for(shown, lambda: self.files.text(path) or "")
        folder = self._asides[path]
        return folder == "" or (
            folder is not None and called[root:].replace(os.sep, "/").startswith(folder)
        )

    def _words(self, every: Iterable[str]) -> Mapping[str, set[str]]:
        """Return by name the files that may call it, of the names that the project defines."""
        if not self._lexicon:
            lexica = {
                path: lexicon(self.files.text(path) or "") for path in every if path.endswith(".py")
            }
            for path, found in lexica.items():
                for name, count in found.defined.items():
                    self._defined.setdefault(name, {})[path] = count
            self._lexicon.update({name: set() for name in self._defined})
            for path, found in lexica.items():
                for name in found.called & self._defined.keys():
                    self._lexicon[name].add(path)
        return self._lexicon

    def is_alone(self, home: str, method: str, path: str, receiver: str) -> bool:
        cls, _, name = method.rpartition(".")
        if not telling(name) and receiver not in self._objects(cls):
            return False
        every = self.files.every() or ()
        self._words(every)
        homes = self._defined.get(name, {})
        if path not in self.together.program(home, every):
            return False
        if homes != {home: 1} and name not in self._families:
            self._families[name] = self._of_one_family(name, homes)
        return homes == {home: 1} or self._families[name]

    def _of_one_family(self, name: str, homes: Mapping[str, int]) -> bool:
        """Say whether a name is that of methods alone, of classes that one class of the project is
        an ancestor of, or that stand in one folder and have the same ancestors elsewhere: one of
        them is chosen by a setting.

        Args:
            name: the method.
            homes: how often each file defines it.
        """
        if len(homes) > _FAMILY:
            return False
        common: set[Definition] | None = None
        outside: set[tuple[str, ...]] = set()
        for path, count in homes.items():
            origins = self.files.index(path).names.items()
            classes = [cls for cls, origin in origins if origin and name in origin.methods]
            if len(classes) != count:
                return False
            for cls in classes:
                lineage = self.definitions.lineage(Definition(path, cls, CLASS))
                ancestors = lineage.classes
                common = set(ancestors) if common is None else common.intersection(ancestors)
                outside.add(tuple(lineage.outside))
        beside = len(set(map(os.path.dirname, homes))) == len(outside) == 1 and outside != {()}
        return bool(common) or beside

    def with_flag(self, home: str, function: str, name: str) -> tuple[str, ...]:
        """Return the files that may call a function, or of one that is empty, those of its program
        that hold a name; a function with a name is one of the module of that name, and no
        method."""
        every = self.files.every() or ()
        calling = (
            self._words(every).get(function, ()) if function else self.together.program(home, every)
        )
        return tuple(
            path
            for path in sorted(calling)
            if path != home
            and (
                path in self.together.holding(name)
                if not function
                else not name or _names(self.files.text(path) or "", function, name)
            )
            and self._speaks(path, home)
        )

    def may_run_often(self, path: str, name: str, *callers: str) -> bool:
        # Of its own file callers are known already.
        return any(
            self._some_often(step)
            for step in self._steps(Definition(path, name, MEMBER))
            if step.path != path and (not callers or step.path in callers)
        )

    def _some_often(self, first: Step) -> bool:
        """Say whether a call of a name in a file, or one of those that lead there, may run often;
        each is looked at once."""
        way, level = {first: first}, [first]
        while level:
            step = level.pop()
            around = self.files.calls_in(step.path).around(step.name, method=step.method)
            if around is None or self._frequent.get(step, False):
                self._frequent[step] = True
                while step != first:
                    step = way[step]
                    self._frequent[step] = True
                return True
            if step in self._frequent:
                continue
            for within in around:
                for above in self._steps(Definition(step.path, within, MEMBER)):
                    if above not in way:
                        way[above] = step
                        level.append(above)
        self._frequent.update(dict.fromkeys(way, False))
        return False

    def may_be_graphless(self, path: str, name: str) -> bool:
        target = Definition(path, name, MEMBER)
        return any(
            word in (self.files.text(path) or "")
            for path, _ in self._upwards(target)
            for word in _GRAPHLESS
        )

    def _upwards(self, target: Definition) -> Iterator[tuple[str, frozenset[str] | None]]:
        """Yield the files from which calls lead to a function, with the functions around the calls
        there; None where one of them may run often. Of its own file callers are known already."""
        seen, level = {target}, [target]
        for hop in range(2 * HOPS):
            above: list[Definition] = []
            for at in level:
                for path, name, method in self._steps(at):
                    if hop == 0 and path == target.path:
                        continue
                    around = self.files.calls_in(path).around(name, method=method)
                    yield path, around
                    callers = [Definition(path, within, MEMBER) for within in around or ()]
                    above += [caller for caller in callers if caller not in seen]
                    seen.update(callers)
            level = above

    def _steps(self, target: Definition) -> list[Step]:
        """Return the names by which files may call a function, its own file first."""
        if target not in self._ways:
            method = "." in target.name and not target.name.endswith(".__call__")
            self._ways[target] = [Step(target.path, target.name.rpartition(".")[2], method)]
            self._ways[target] += [
                Step(path, name, method)
                for path, names in callers_of(self.files, target)
                for name in names
            ]
        return self._ways[target]


def callers_of(files: Files, target: Definition) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the files whose calls may reach a function, each with the names that it has for
    it."""
    found: tuple[tuple[str, tuple[str, ...]], ...]
    found = files.ask(("callers", target.path, target.name))
    return found


def _names(text: str, function: str, module: str) -> bool:
    """Say whether a text holds the name of a function of a module as no method's, or imports from
    what has the module's name. Each pattern begins with a word, which is found soon."""
    if re.search(rf"{function}(?<![\w.]{function})\b", text) or re.search(
        rf"{module}\.{function}(?<!\w{module}\.{function})\b", text
    ):
        return True
    for found in re.finditer(rf"{module}(?<!\w{module})\b", text):
        end = text.find("\n", found.end())
        line = text[text.rfind("\n", 0, found.start()) + 1 : end if end >= 0 else None]
        if _IMPORT.search(line):
            return True
    return False
