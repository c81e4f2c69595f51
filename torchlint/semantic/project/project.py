"""The files of one project: what their names stand for, and their modules as the analysis sees
them.

Two layers. The structure (which name is defined where, which class has which bases) is walked
through any number of files, with care for circles. The facts that need a whole analysis (what a
helper returns, from where a base class calls a method) come from the file that defines them,
analysed without looking any further; so no answer depends on which question came first.
"""

from __future__ import annotations

import copy
import functools
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from torchlint.base.regex import regex
from torchlint.base.remembered import TEXTS, remembered
from torchlint.base.trail import UNNAMED, Asked, Dependencies, closed, highest
from torchlint.semantic.code.flags import Flag
from torchlint.semantic.code.guards import flag_given
from torchlint.semantic.code.named_tests import Test, name_of, named, words_of
from torchlint.semantic.code.text import spoken
from torchlint.semantic.elsewhere import Definition, Lineage
from torchlint.semantic.project.broken import Broken
from torchlint.semantic.project.callers import (
    HOPS,
    MEMBER,
    CallSite,
    Given,
    Growing,
    Told,
    Wanted,
    call_sites,
    calls_of,
    passed,
)
from torchlint.semantic.project.calls import (
    Calls,
    lexicon,
    objects_of,
    speaks_for,
    telling,
    written,
)
from torchlint.semantic.project.index import ALIAS, CLASS, FUNCTION, IMPORT, Index, index
from torchlint.semantic.project.programs import (
    NOTHING,
    Imports,
    Meetings,
    Programs,
    imports,
    named_modules,
)
from torchlint.semantic.project.reach import (
    MINE,
    OTHERS,
    OUTSIDE,
    Aim,
    Reach,
    reach,
    stem_of,
)
from torchlint.semantic.project.search import LIBRARIES, Search
from torchlint.semantic.project.used import Used, is_same
from torchlint.semantic.project.vocabulary import Vocabulary, imported_words
from torchlint.semantic.torch import names as torch_names
from torchlint.source.python import parsed

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantic.module import Module

T = TypeVar("T")
K = TypeVar("K")
_KEPT = 6_000_000
"""Characters of source whose analyses are remembered, but for those that are in use."""
_PARSED = 4_000_000
"""Characters of source that one question has parsed; behind that the answer is taken to be yes."""
_HOPS = 20
_IMPORT = regex(r"\bimport\b")
_WORD = regex(r"\w+")
_GRAPHLESS = ("no_grad", "inference_mode", "set_grad_enabled", "grad_enabled")
_FAMILY = 40
"""Files of a family of classes that are looked at."""
_CALLERS = 16
"""Files that are analysed for the calls of one function."""


FlagOf = tuple[Definition, Flag]
"""A flag of a function, which is defined in some file."""
_Targets = tuple[Definition | str, ...]
"""Where imports lead: files of the project, and names of modules outside of it."""


class Step(NamedTuple):
    """A name by which a file may call a function, and whether it is a method's."""

    path: str
    name: str
    method: bool


class Tested(NamedTuple):
    """Of which files it is known whether a test of their text holds, those for which it does, and
    the programs of which all files are known."""

    files: set[str]
    saying: set[str]
    programs: set[frozenset[str]]


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


class Project:
    """Reads and remembers the files below one root.

    Each file asks through a view of its own, which notes what the answers rest on; the memory is
    one for all.

    Args:
        root: the project's folder; imports resolve under it.
        read: gives the text of a file, or None where it cannot be read.
        analyse: gives the analysis of a file, which may not look at other files' facts, or None
            where it cannot be.
    """

    def __init__(
        self,
        root: str,
        read: Callable[[str], str | None],
        analyse: Callable[[Project, str, str], Module | None],
    ) -> None:
        self.search = Search(root)
        self._read = read
        self._analyse = analyse
        self._indexes: dict[str, Index] = {}
        self._texts: dict[str, str | None] = {}
        self.answers: dict[object, Any] = {}
        self.asked: dict[Asked, Any] = {}
        self._modules: OrderedDict[str, tuple[Module | None, int]] = OrderedDict()
        self._in_use: set[str] = set()
        self._lineages: dict[Definition, tuple[Lineage, Dependencies]] = {}
        self._stars: dict[tuple[str, tuple[str, ...]], tuple[_Targets, Dependencies]] = {}
        self._helpers: dict[str, Dependencies] = {}
        self._said: dict[object, Tested] = {}
        self._reaches: dict[str, tuple[str, Reach | None]] = {}
        self._words_imported: dict[str, frozenset[str]] = {}
        self._by_names: list[Programs] = []
        self._by_place: dict[frozenset[str], Meetings] = {}
        self._programs: dict[str, frozenset[str]] = {}
        self._met: dict[str, frozenset[str]] = {}
        self._lexicon: dict[str, set[str]] = {}
        self._defined: dict[str, dict[str, int]] = {}
        self._families: dict[str, bool] = {}
        self._calls: dict[str, Calls] = {}
        self._given: dict[tuple[Definition, str], Growing[Given]] = {}
        self._flags: dict[FlagOf, tuple[tuple[bool, ...], Dependencies]] = {}
        self._rare: dict[FlagOf, tuple[bool, Dependencies]] = {}
        self._called: dict[tuple[Definition, str], Growing[CallSite]] = {}
        self._growing: set[Growing[Any]] = set()
        self._ways: dict[Definition, list[Step]] = {}
        self._frequent: dict[Step, bool] = {}
        self._vocabulary: list[Vocabulary] = []
        self._used: list[Used] = []
        self._imports_by_place: list[Meetings] = []
        self._broken: list[Broken] = []
        self._asides: dict[str, str | None] = {}
        self._aside: list[Project] = []
        self._beyond = Dependencies()
        self._trail = self.search.trail
        self._offered: dict[str, list[set[str] | None]] = {}
        """By folder of an outermost package what `_shown` says of the folders that install it."""

    # -- views -------------------------------------------------------------------------------------

    def view(self, trail: Dependencies) -> Project:
        """Return this project for one who asks, whose answers are noted in `trail`."""
        seen = copy.copy(self)
        seen._trail = trail
        seen.search = self.search.view(trail)
        return seen

    def helper(self, path: str) -> Project:
        """Return this project for the analysis of a file that others ask about."""
        return self.view(self._helpers.setdefault(path, Dependencies()))

    def rests_on(self, trail: Dependencies) -> Dependencies:
        """Return a trail with those of all the helpers that it names."""
        return closed(trail, self._helpers)

    # -- structure ---------------------------------------------------------------------------------

    def index(self, path: str) -> Index:
        """Return the names of a file; none where it cannot be read."""
        self._trail.read.add(path)
        if path not in self._indexes:
            self._survey(path)
        return self._indexes[path]

    def _survey(self, path: str) -> None:
        """Gather what a file binds and what it calls: its text is parsed once for both."""
        tree = parsed(self.text(path) or "")
        self._indexes[path] = index(tree)
        self._calls[path] = written(tree)

    def text(self, path: str) -> str | None:
        """Return the text of a file, read once; None where it cannot be read."""
        self._trail.read.add(path)
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def says(self, path: str, text: str) -> bool:
        """Say whether a file's text holds these characters: a cheap look before its analysis is
        asked for."""
        self._trail.read.add(path)
        return text in (self.text(path) or "")

    # -- about all files ---------------------------------------------------------------------------

    def ask(self, question: Asked) -> Any:
        """Return the answer to a question about all files, which is worked out once.

        Who asks rests on the answer alone, and not on all that was read for it: what the cache
        holds is asked again when any file has changed (see `torchlint.run.cache`).
        """
        self._trail.asked.add(question)
        if question not in self.asked:
            kind, path, *rest = question
            answer = _QUESTIONS.get(kind)
            found = answer(self._unnoted(), path, *rest) if answer is not None else None
            self.asked[question] = found
        return self.asked[question]

    def _unnoted(self) -> Project:
        """Return this project for what is worked out once, and asked again where it counts."""
        if not self._aside:
            self._aside.append(self.view(Dependencies()))
        return self._aside[0]

    def _every(self) -> tuple[str, ...] | None:
        """Return all files, which only a question about all of them may read: see `ask`."""
        assert self._aside
        assert self._trail is self._aside[0]._trail, "who looks at all files is to be asked"
        return self.search.every_file()

    def beyond(self) -> Dependencies:
        """Return what answers about all files rest on besides these: what is no Python, and what
        is in folders that are not listed, as those behind links, where import statements lead all
        the same."""
        if self._aside:
            trail, there = self._aside[0]._trail, dict[str, bool]()
            for mine, seen in (
                (self._beyond.read, trail.read),
                (self._beyond.looked, trail.looked),
            ):
                for path in seen:
                    listed = os.path.dirname(highest(path, there)) in self.search.listings
                    if not (listed and path.endswith((".py", ".ipynb"))):
                        mine.add(path)
                seen.clear()
        return self._beyond

    # -- from other files --------------------------------------------------------------------------

    def others_say(
        self, path: str, test: Test, *, near: bool, by_place: bool = False
    ) -> bool | None:
        """Say whether a test holds for the text of any other file that may run with this one; None
        for too many files.

        `near` are those alone that hold the name of the file's module; `by_place` are those alone
        that meet it by the files which imports find where they stand, not by names.
        """
        which = "near" if near else "place" if by_place else ""
        name = name_of(test)
        if name is None:
            self._trail.asked.add(UNNAMED)
            return self._unnoted()._others_say(path, test, test, which)
        found: bool | None = self.ask(("says", path, which, *name))
        return found

    def _says(self, path: str, which: str, *name: str) -> bool | None:
        test = named(name)
        return self._others_say(path, test, name, which) if test is not None else None

    def _others_say(self, path: str, test: Test, key: object, which: str) -> bool | None:
        every = self._every()
        if every is None:
            return None
        program = (self._meeting if which == "place" else self._program)(path, every)
        known = self._said.setdefault(key, Tested(set(), set(), set()))

        def counts(other: str) -> bool:
            if other == path or other not in program:
                return False
            return which != "near" or stem_of(path) in (self.text(other) or stem_of(path))

        if any(map(counts, known.saying)):
            return True
        if program in known.programs:
            return False
        # Imports by place lead to files that are not listed, too.
        words = words_of(test) if which != "place" else ()
        holding = program & frozenset().union(*map(self._holding, words)) if words else program
        for other in holding - known.files:
            text = self.text(other)
            known.files.add(other)
            if text is not None and test(text):
                known.saying.add(other)
                if counts(other):
                    return True
        known.programs.add(program)
        return False

    def _program(self, path: str, every: Iterable[str]) -> frozenset[str]:
        if path not in self._programs:
            if not self._by_names:
                self._by_names.append(Programs(every, self._imported_by))
            self._programs[path] = self._by_names[0].of(path)
        return self._programs[path]

    def _meeting(self, path: str, every: Iterable[str]) -> frozenset[str]:
        """Return the files that meet one, itself among them, where imports find them."""
        if path not in self._met:
            program = self._program(path, every)
            if program not in self._by_place:
                self._by_place[program] = Meetings(program, self._imported_from)
            self._met[path] = self._by_place[program].of(path)
        return self._met[path]

    @remembered
    def _imported_from(self, path: str) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the files that a file imports, found where its imports look for them, and the
        names of the modules that are not found there; None for any file."""
        words = self._imported_by(path)
        return None if words.any else self._found_from(path, words)

    def _found_from(self, path: str, words: Imports) -> tuple[frozenset[str], frozenset[str]]:
        modules, named = named_modules(self.text(path) or "")
        named |= {"conftest"} & words.words
        found: set[str] = set()
        for dotted, names in modules:
            home = self.search.module(path, dotted)
            if home is None:
                named |= {*dotted.split("."), *names}
                continue
            above = dotted.split(".")[:-1] if not dotted.startswith(".") else []
            near = [self.search.module(path, ".".join(above[: n + 1])) for n in range(len(above))]
            found |= {home, *(each for each in near if each is not None)}
            if home.endswith("__init__.py"):
                below = dotted if dotted.endswith(".") else f"{dotted}."
                inner = [self.search.module(path, f"{below}{name}") for name in names]
                found |= {each for each in inner if each is not None}
        return frozenset(found), frozenset(named)

    @remembered
    def _imported_by(self, path: str) -> Imports:
        return imports(path, self.text(path))

    def reached(self, path: str, name: str) -> bool | None:
        """Say whether any other file may read or replace the top-level name `name` of the file
        `path`.

        None for a project of too many files. A file that cannot be read does not: Python cannot run
        it either.
        """
        found: bool | None = self.ask(("reached", path, name))
        return found

    def _any_reaches(self, path: str, name: str) -> bool | None:
        every = self._every()
        if every is None:
            return None
        stem, holding = _WORD.findall(stem_of(path)), self._holding(name)
        size = 0
        for other in every:
            text = self.text(other) or ""
            if other == path or not (other in holding or self._imports_words(other, text, stem)):
                continue
            size += len(text)
            if size > _PARSED or self.reaches(other, text, path, name):
                return True
        return False

    def _imports_words(self, path: str, text: str, words: Iterable[str]) -> bool:
        if path not in self._words_imported:
            self._words_imported[path] = imported_words(text)
        return self._words_imported[path].issuperset(words)

    def reaches(self, other: str, text: str | None, path: str, name: str) -> bool:
        """Say whether the file `other` with a text may read or replace a top-level name of the
        module `path`."""
        stem = stem_of(path)
        if text is None:
            return False  # Python cannot run what cannot be read.
        if other.endswith(".ipynb") and other != path:
            return name in text and stem in text

        def leads(dotted: str) -> str:
            found = self.search.module(other, dotted)
            if found is None:  # The path of modules may have been changed.
                same = dotted.lstrip(".").rpartition(".")[2] == stem
                return MINE if same else OTHERS if dotted.startswith(".") else OUTSIDE
            return MINE if found == path else OTHERS

        known = self._reach(other, text)
        return known is None or known.reaches(Aim(name, leads))

    def _reach(self, path: str, text: str) -> Reach | None:
        """Return what the code of a file with a text reaches; None where it is no Python."""
        known = self._reaches.get(path)
        if known is None or known[0] != text:
            known = self._reaches[path] = text, reach(text)
        return known[1]

    def broken(self, importer: str, dotted: str, names: Iterable[str]) -> str | None:
        """Return what shows that a file of a project cannot import names from a module, as
        `Broken.why` does; None where nothing does."""
        found: str | None = self.ask(("broken", importer, dotted, *names))
        return found

    def _why_broken(self, importer: str, dotted: str, *names: str) -> str | None:
        # What was installed may hold modules of a compiler.
        fails = self._imports_that_fail()
        return fails.why(importer, dotted, names) if not self.search.installed() else None

    def cut_off(self, path: str) -> str | None:
        """Return what shows that a package around a file cannot be imported, and with it the file;
        None where nothing does."""
        found: str | None = self.ask(("cut off", path))
        return found

    def _why_cut_off(self, path: str) -> str | None:
        fails = self._imports_that_fail()
        return fails.around(path) if not self.search.installed() else None

    def failing_user(self, path: str, name: str) -> str | None:
        """Return which file speaks of a definition of another one and cannot be imported, and why,
        or how one calls a function that does not take the arguments; None where there is none."""
        found: str | None = self.ask(("failing user", path, name))
        return found

    def _failing_user(self, path: str, name: str) -> str | None:
        fails = self._imports_that_fail()
        for other in sorted(self._holding(f"{stem_of(path)} {name}") - {path}):
            why = fails.file(other)
            if why is not None and any(True for _ in spoken(self.text(other) or "", name)):
                return f"`{os.path.relpath(other, self.search.root)}` fails at import: {why}"
        use = self._use()
        return use.misfit(path, name) if use is not None else None

    def _imports_that_fail(self) -> Broken:
        if not self._broken:
            known = (self.search, self.index, self.text, self._has_module)
            self._broken.append(Broken(*known, self._every, self._holding))
        return self._broken[0]

    def _has_module(self, _: str, name: str) -> bool:
        """Say whether a file or folder of the project may have a name."""
        parts = [f"{os.sep}{name}{end}" for end in (os.sep, ".")]
        every = self._every()
        return every is None or any(part in path for path in every for part in parts)

    def uses(self, path: str, name: str) -> bool | None:
        """Say whether the program uses a function or class that stands in no other one, in the file
        `path`, or may use it, as who installs the project may; None for a project of too many
        files."""
        found: bool | None = self.ask(("used", path, name))
        return found

    def self_tested(self, path: str, name: str) -> bool:
        """Say whether what the program does not use is used by the self-test of a file."""
        found: bool = self.ask(("tested", path, name))
        return found

    def _is_offered(self, path: str) -> bool:
        """Say whether who installs the project may call what a file defines: something says how to
        install the file's package or the project, whose README names no module, or leads to the
        file by those that it names and what their packages import."""
        top = self.search.top(path)
        if top not in self._offered:
            self._offered[top] = [
                self._shown(folder)
                for folder in {top, self.search.root}
                if any(_installs(name, self._beside(folder, name)) for name in _INSTALLS)
            ]
        return any(shown is None or path in shown for shown in self._offered[top])

    def _beside(self, folder: str, name: str) -> str:
        return self.text(os.path.join(folder, name)) or ""

    def dependencies(self, path: str) -> Iterator[str]:
        """Yield the texts that may list what a file depends on: those of the usual names in its
        folder and in each one above it, up to the root."""
        folder, root = os.path.dirname(path), self.search.root
        while f"{folder}{os.sep}".startswith(f"{root}{os.sep}"):
            yield from (self._beside(folder, name) for name in _DEPENDENCIES)
            folder = os.path.dirname(folder)

    def _shown(self, folder: str) -> set[str] | None:
        """Return the files to which the import statements of a folder's README and examples lead,
        with what packages, and files that define nothing, import on the way, what it names by dots
        and what commands are made of; None where it has no import of ours, pages are made of all,
        or a package imports what it is asked."""
        readmes = [os.path.join(folder, name) for name in _READMES]
        shown = set[str]().union(*(self._found_from(each, NOTHING)[0] for each in readmes))
        if not shown or any(self.search.is_file(os.path.join(folder, name)) for name in _PAGES):
            return None
        examples = [path for path in self._every() or () if _EXAMPLES.search(path[len(folder) :])]
        todo = [*examples, *filter(self._hands_on, shown)]
        for each in todo:
            more = self._found_from(each, NOTHING)[0] - shown
            shown |= more
            todo += filter(self._hands_on, more)
        handing = todo[len(examples) :]
        if any(_IMPORTS_LATE.search(self.text(path) or "") for path in handing):
            return None
        texts = (self._beside(folder, name) for name in (*_READMES, *_INSTALLS))
        said = {each for text in texts for each in _DOTTED.findall(text) if each[-3:] != ".py"}
        return shown.union(*(self._named(readmes[0], each) for each in said))

    def _hands_on(self, path: str) -> bool:
        """Say whether a file is a package's, or defines nothing: who imports it wants what it
        imports."""
        defined = (origin for origin in self.index(path).names.values() if origin is not None)
        made = any(origin.kind in (CLASS, FUNCTION) for origin in defined)
        return path.endswith("__init__.py") or not made

    def _named(self, path: str, dotted: str) -> set[str]:
        """Return the modules on the way to a dotted name, as a file's imports find them."""
        parts = dotted.split(".")
        ways = (".".join(parts[: n + 1]) for n in range(len(parts)))
        return {found for each in ways if (found := self.search.module(path, each)) is not None}

    def _is_used(self, path: str, name: str) -> bool | None:
        use = self._use()
        return use.used(path, name) if use is not None else None

    def _is_tested(self, path: str, name: str) -> bool:
        use = self._use()
        return use is not None and use.self_tested(path, name)

    def of_library(self, path: str) -> bool:
        """Say whether a file lies in a package that was installed, or whose project holds no
        program: those who train with it are elsewhere; False for a project of too many files, and
        where only a part of the package is in view."""
        found: bool = self._is_packaged(path) and self.ask(("library", ""))
        return found

    def _is_packaged(self, path: str) -> bool:
        """Say whether all of a file's package is in view; one without an ``__init__.py`` is one
        that lies beside the metadata of its wheel, or whose name says what installs the project."""
        root = self.search.root + os.sep
        if self.search.in_package(path):
            return f"{self.search.top(path)}{os.sep}".startswith(root)
        if not path.startswith(root):
            return False
        first, _, inside = path[len(root) :].removeprefix(f"src{os.sep}").partition(os.sep)
        name = re.escape(first).replace("_", "[-_.]")
        said = rf"\b(name|packages|modules|include)\s*=[^\]=]*(?<![\w.-]){name}(?![\w-])"
        return self.search.installed() or any(
            inside and re.search(said, self.text(f"{root}{each}") or "") for each in _INSTALLS
        )

    def _is_library(self, _: str) -> bool:
        use = self._use()
        return use is not None and (self.search.installed() or use.no_program())

    def _started(self, path: str) -> tuple[str, ...]:
        """Return the scripts that run a file, as they import it or are it, the likeliest first;
        none where the project has too many files. What a script may import by a text is not looked
        at: nothing rests on the answer."""
        every, use = self._every(), self._use()
        if every is None or use is None:
            return ()
        if not self._imports_by_place:
            found = lambda each: self._found_from(each, self._imported_by(each))  # noqa: E731
            self._imports_by_place.append(Meetings(frozenset(every), found))
        return use.programs(self._imports_by_place[0].above(path))

    def _use(self) -> Used | None:
        """Return what says what the project uses; None where it has too many files."""
        every = self._every()
        if every is None:
            return None
        if not self._used:
            program = functools.partial(self._program, every=every)
            fails = self._imports_that_fail().file
            known = (self.search, self, self.text, every, program, self._holding, fails)
            self._used.append(Used(*known, self._is_offered))
        return self._used[0]

    # -- callers -----------------------------------------------------------------------------------

    def may_run_often(self, target: Definition) -> bool:
        """Say whether a call in another file, or one of those that lead there, may run often; False
        is certain. Nothing is analysed for it."""
        found: bool = self.ask(("often", target.path, target.name))
        return found

    def _may_run_often(self, path: str, name: str, *callers: str) -> bool:
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
            around = self._written(step.path).around(step.name, method=step.method)
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

    def may_call(self, function: Definition, names: Iterable[str]) -> bool:
        """Say whether a function, as it is written, calls something of one of some names."""
        self._trail.read.add(function.path)
        calls = self._written(function.path)
        return calls.unread or any(
            site.within == function.name for name in names for site in calls.sites.get(name, ())
        )

    def steps_as_written(self, path: str, name: str, method: str) -> bool | None:
        """Say whether a function, or a method of a class, runs a backward pass outside of its
        loops, as it is written; None where the file defines none. Nothing is analysed for it."""
        self._trail.read.add(path)
        origin = self.index(path).names.get(name) if method else None
        if method and (origin is None or method not in origin.methods):
            return None
        return (f"{name}.{method}" if method else name) in self._written(path).backward

    def may_be_called(self, target: Definition) -> bool:
        """Say whether other files hold calls that may reach a function."""
        return bool(self._callers(target))

    def may_be_graphless(self, target: Definition) -> bool:
        """Say whether a file from which calls lead to a function speaks of autograd being off;
        False is certain."""
        found: bool = self.ask(("graphless", target.path, target.name))
        return found

    def _may_be_graphless(self, path: str, name: str) -> bool:
        target = Definition(path, name, MEMBER)
        return any(
            word in (self.text(path) or "")
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
                    around = self._written(path).around(name, method=method)
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
                Step(path, name, method) for path, names in self._callers(target) for name in names
            ]
        return self._ways[target]

    def calls(self, target: Definition, *, often: bool = False) -> Told[CallSite]:
        """Return the calls of a function in other files, of as many as one question is worth; those
        alone that may run `often`, or are led to by such calls, if that is asked for."""
        return Told(lambda: self._told(self._called, target, call_sites, often=often))

    def passed(self, target: Definition) -> Told[Given]:
        """Return what the calls of a function in other files pass."""
        return Told(lambda: self._told(self._given, target, passed))

    def _told(
        self,
        memory: dict[tuple[Definition, str], Growing[T]],
        target: Definition,
        say: Callable[[Module, Wanted], Iterator[T]],
        *,
        often: bool = False,
    ) -> Iterator[T]:
        """Yield what the calls of a function in other files say, each when those before it were not
        enough for who asks."""
        for caller in self._callers(target)[:_CALLERS]:
            path, _ = caller
            if often and not self.ask(("often", target.path, target.name, path)):
                continue
            found = memory.get((target, path))
            if found is None:
                found = memory[target, path] = Growing()
            self._growing.add(found)
            begin = functools.partial(self._begun, found.trail, target, caller, say)
            at = 0
            while found.has(at, begin):
                self._trail.add(found.trail)
                yield found.known[at]
                at += 1
            self._trail.add(found.trail)

    def _begun(
        self,
        trail: Dependencies,
        target: Definition,
        caller: tuple[str, tuple[str, ...]],
        say: Callable[[Module, Wanted], Iterator[T]],
    ) -> Iterator[T]:
        for module, wanted in self.view(trail)._calling_modules(target, [caller]):
            yield from say(module, wanted)

    def _noted(
        self,
        memory: dict[K, tuple[tuple[T, ...], Dependencies]],
        key: K,
        answer: Callable[[Project], Iterator[T]],
    ) -> tuple[T, ...]:
        """Return an answer that is worked out once, and note what it rests on for each who
        asks."""
        if key not in memory:
            trail = Dependencies()
            memory[key] = tuple(answer(self.view(trail))), trail
        found, trail = memory[key]
        self._trail.add(trail)
        return found

    def flag(self, target: Definition, flag: Flag) -> tuple[bool, ...]:
        """Return of each call of a function in other files whether it gives a flag the truth that
        is asked about only now and then, up to the first that does not."""
        key = (target, flag)
        return self._noted(self._flags, key, lambda view: view._flag_given(key))

    def _flag_given(self, key: FlagOf) -> Iterator[bool]:
        visited = {key}
        for rarely, further in self._flag_calls(*key):
            found = rarely and self._are_rare(further, visited)
            yield found
            if not found:
                self._rare[key] = False, self._trail
                return
        # What one of them rests on is among them.
        self._rare.update(dict.fromkeys(visited - {key}, (True, self._trail)))

    def _flag_calls(
        self, target: Definition, flag: Flag
    ) -> Iterator[tuple[bool, tuple[FlagOf, ...]]]:
        """Yield of each call in other files whether it gives the flag only now and then, and the
        flags of other functions on which that rests; of too many files one that does not."""
        plain = stem_of(target.path) if flag.classes == () else ""
        where = ("", flag.name) if flag.by_object else (flag.function, plain)
        found: tuple[str, ...] = self.ask(("flag", target.path, *where))
        if len(found) > _CALLERS:
            yield False, ()
            return
        for path in found:
            key = (flag_given, path, flag)
            if not self.knows(key, path):
                module = self.module(path)
                self.answers[key] = flag_given(module, flag) if module is not None else ()
            for rarely, rests_on in self.answers[key]:
                yield (
                    rarely,
                    tuple((Definition(path, name, MEMBER), each) for name, each in rests_on),
                )

    def _are_rare(self, flags: tuple[FlagOf, ...], visited: set[FlagOf]) -> bool:
        """Say whether flags, and those that they rest on over any number of files, are given now
        and then only: each is looked at once, and those in `visited` are elsewhere."""
        todo = [each for each in flags if each not in visited]
        visited.update(todo)
        while todo:
            key = todo.pop()
            if key not in self._rare:
                calls = False
                for rarely, further in self._flag_calls(*key):
                    calls = True
                    if not rarely:
                        self._rare[key] = False, self._trail
                        return False
                    fresh = [each for each in further if each not in visited]
                    visited.update(fresh)
                    todo += fresh
                if not calls and key[1].default is None:
                    return False
                continue
            known, trail = self._rare[key]
            self._trail.add(trail)
            if not known:
                return False
        return True

    def _files_with_flag(self, home: str, function: str, name: str) -> tuple[str, ...]:
        """Return the files that may call a function, or of one that is empty, those of its program
        that hold a name; a function with a name is one of the module of that name, and no
        method."""
        every = self._every() or ()
        calling = self._words(every).get(function, ()) if function else self._program(home, every)
        return tuple(
            path
            for path in sorted(calling)
            if path != home
            and (
                path in self._holding(name)
                if not function
                else not name or _names(self.text(path) or "", function, name)
            )
            and self._speaks(path, home)
        )

    def calling(self, target: Definition) -> Iterator[tuple[Module, cst.Call]]:
        """Yield the calls of a function in other files as nodes, to be used at once."""
        callers = self._callers(target)[:_CALLERS]
        for module, wanted in self._calling_modules(target, callers):
            for call in calls_of(module, wanted):
                yield module, call

    def _calling_modules(
        self, target: Definition, callers: Iterable[tuple[str, tuple[str, ...]]]
    ) -> Iterator[tuple[Module, Wanted]]:
        name = target.name.rpartition(".")[2]

        def overridden(cls: Definition) -> bool:
            called = name == "__call__" and self.says(cls.path, "def forward(")
            return called or self.says(cls.path, f"def {name}(")

        home = Definition(target.path, target.name.rpartition(".")[0], CLASS)
        for path, names in callers:
            module = self.module(path) if self._written(path).reach_out(names) else None
            if module is not None:
                alone = self._alone(target, path)
                stands_in = functools.partial(self._stands_in, name, home, alone)
                yield module, Wanted(target, names, alone, overridden, stands_in)

    def _stands_in(
        self, method: str, home: Definition, alone: bool, family: Sequence[Definition]
    ) -> bool:
        """Say whether what an object of a class, with its ancestors, finds as a method does
        nothing, and the class `home` derives from it, or `alone` has methods of that name."""
        origins = (self.index(cls.path).names.get(cls.name) for cls in family)
        first = next((each for each in origins if each and method in each.methods), None)
        abstract = first is not None and method in first.abstract
        return abstract and (alone or family[0] in self.lineage(home).classes)

    def _callers(self, target: Definition) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Return the files whose calls may reach a function, each with the names that it has for
        it."""
        found: tuple[tuple[str, tuple[str, ...]], ...]
        found = self.ask(("callers", target.path, target.name))
        return found

    def _found_callers(self, path: str, name: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return tuple(self._each_caller(Definition(path, name, MEMBER)))

    def _each_caller(self, target: Definition) -> Iterator[tuple[str, tuple[str, ...]]]:
        every = self._every() or ()
        cls, _, name = target.name.rpartition(".")
        if cls and name == "__call__":
            yield from self._calling_objects(target, cls)
            return
        calling = self._words(every).get(name, set())
        mentioning = self._mentioning(cls) if cls and calling else frozenset()
        if cls and not telling(name):
            calling = calling & mentioning
        for path in sorted(calling):
            if path == target.path or not self._speaks(path, target.path):
                continue
            if cls:
                near = path in mentioning or self._is_alone(target.path, name, path)
                names = {name} if near else set()
            else:
                names = self._names_for(path, target)
            if names:
                yield path, tuple(sorted(names))

    def _calling_objects(
        self, target: Definition, cls: str
    ) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the files that make objects of a class and may call them, each with the names that
        it has for them."""
        for path in sorted(self._words(self._every() or ()).get(cls, ())):
            if path != target.path and self._speaks(path, target.path):
                made = objects_of(cls, self.text(path) or "")
                names = made & self._written(path).sites.keys()
                if names:
                    yield path, tuple(sorted(names))

    def _speaks(self, path: str, called: str) -> bool:
        """Say whether calls in the file `path` say how the file `called` is used."""
        root = len(self.search.root) + 1
        if path not in self._asides:
            shown = path[root:].replace(os.sep, "/")
            self._asides[path] = speaks_for(shown, lambda: self.text(path) or "")
        folder = self._asides[path]
        return folder == "" or (
            folder is not None and called[root:].replace(os.sep, "/").startswith(folder)
        )

    def _mentioning(self, cls: str) -> frozenset[str]:
        """Return the files whose text holds the name of a class, which has dots where it stands in
        another class."""
        found = self._holding(cls)
        if "." in cls:
            return frozenset(path for path in found if cls in (self.text(path) or ""))
        return found

    def _holding(self, words: str) -> frozenset[str]:
        """Return the files whose text holds each of some words, also inside of a longer one."""
        if not self._vocabulary:
            texts = ((path, self.text(path) or "") for path in self._every() or ())
            self._vocabulary.append(Vocabulary(texts))
        return self._vocabulary[0].holding(words)

    def _names_for(self, path: str, target: Definition) -> set[str]:
        """Return the last names under which a file's import statements let it call a top-level
        function."""
        calls = self._written(path)
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
                and is_same(self.starred(path, calls.stars, [target.name]), target)
            ):
                found.add(target.name)
        return found

    def _leads(self, path: str, dotted: str, target: Definition) -> bool:
        last = dotted.rpartition(".")[2]
        return last == target.name and is_same(self.find(path, dotted), target)

    def _alone(self, target: Definition, path: str) -> bool:
        """Say whether a call of a method of this name in a file may mean this one, whatever the
        object is: only classes of one family have it, and the file may run with the class's own."""
        cls, _, name = target.name.rpartition(".")
        if not cls or not telling(name):
            return False
        found: bool = self.ask(("alone", target.path, name, path))
        return found

    def _is_alone(self, home: str, name: str, path: str) -> bool:
        every = self._every() or ()
        self._words(every)
        homes = self._defined.get(name, {})
        if path not in self._program(home, every):
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
            origins = self.index(path).names.items()
            classes = [cls for cls, origin in origins if origin and name in origin.methods]
            if len(classes) != count:
                return False
            for cls in classes:
                lineage = self.lineage(Definition(path, cls, CLASS))
                ancestors = lineage.classes
                common = set(ancestors) if common is None else common.intersection(ancestors)
                outside.add(tuple(lineage.outside))
        beside = len(set(map(os.path.dirname, homes))) == len(outside) == 1 and outside != {()}
        return bool(common) or beside

    def _words(self, every: Iterable[str]) -> Mapping[str, set[str]]:
        """Return by name the files that may call it, of the names that the project defines."""
        if not self._lexicon:
            lexica = {
                path: lexicon(self.text(path) or "") for path in every if path.endswith(".py")
            }
            for path, found in lexica.items():
                for name, count in found.defined.items():
                    self._defined.setdefault(name, {})[path] = count
            self._lexicon.update({name: set() for name in self._defined})
            for path, found in lexica.items():
                for name in found.called & self._defined.keys():
                    self._lexicon[name].add(path)
        return self._lexicon

    def _written(self, path: str) -> Calls:
        if path not in self._calls:
            self._survey(path)
        return self._calls[path]

    # -- names -------------------------------------------------------------------------------------

    def find(self, importer: str, dotted: str, hops: int = _HOPS) -> Definition | str | None:
        """Return what a dotted name in the file `importer` stands for.

        Returns:
            Its definition in the project, or its dotted name where it leads out of the project, or
            None for unknown.
        """
        found = self._found(importer, dotted, hops)
        theirs = found is None and dotted.partition(".")[0] in LIBRARIES
        return dotted if theirs else found

    def _found(self, importer: str, dotted: str, hops: int) -> Definition | str | None:
        """Return what a dotted name stands for, where a package of the project that is called as a
        library holds all that is asked of it."""
        head = dotted[: len(dotted) - len(dotted.lstrip("."))]
        parts = dotted.lstrip(".").split(".")
        for count in range(len(parts), -1 if head else 0, -1):
            path = self.search.module(importer, head + ".".join(parts[:count]))
            if path is not None and count == len(parts):
                return self._shadowing(importer, head, parts, hops) or Definition(
                    path, "", "module"
                )
            if path is not None:
                rest = [part for part in parts[count:] if part]
                return self.member(path, rest, hops) if rest else Definition(path, "", "module")
        return None if head else dotted

    def _shadowing(
        self, importer: str, head: str, parts: list[str], hops: int
    ) -> Definition | None:
        """Return what a package binds under the name of its own submodule: ``from .psnr import
        psnr``."""
        package = (
            self.search.module(importer, head + ".".join(parts[:-1]))
            if head or len(parts) > 1
            else None
        )
        if package is None or package == importer or not parts[-1]:
            return None
        found = self.member(package, parts[-1:], hops)
        return found if isinstance(found, Definition) and found.kind in (CLASS, FUNCTION) else None

    def imported(self, importer: str, dotted: str) -> Definition | str | None:
        """Return the module of the project that an import statement names; results are as of
        `find`."""
        path = self.search.module(importer, dotted)
        return (
            Definition(path, "", "module")
            if path is not None
            else None
            if dotted.startswith(".")
            else dotted
        )

    def member(self, path: str, parts: list[str], hops: int = _HOPS) -> Definition | str | None:
        """Return what a name of the file `path` stands for, through re-exports; results are as of
        `find`."""
        if hops <= 0:
            return None  # A circle of imports.
        found = self.index(path)
        if parts[0] in found.names:
            origin = found.names[parts[0]]
            if origin is None:
                return None
            if origin.kind in (CLASS, FUNCTION):
                kind = origin.kind if len(parts) == 1 else "member"
                return Definition(path, ".".join(parts), kind)
            if origin.kind == IMPORT:
                return self.find(path, ".".join([origin.dotted, *parts[1:]]), hops - 1)
            return (
                self.member(path, [*origin.dotted.split("."), *parts[1:]], hops - 1)
                if origin.kind == ALIAS
                else None
            )
        return self.starred(path, found.stars, parts, hops - 1)

    def starred(
        self, path: str, stars: Iterable[str], parts: list[str], hops: int = _HOPS
    ) -> Definition | str | None:
        """Return what a name means that only ``from module import *`` statements of the file `path`
        can bind; each file that they lead to is looked into once."""
        todo = [*self._leading(path, tuple(stars))]
        seen: set[str] = set()
        while todo:
            target = todo.pop(0)
            if isinstance(target, str):
                if torch_names.exports(target, parts[0]):
                    return ".".join([target, *parts])
            elif target.path not in seen:
                seen.add(target.path)
                names = self.index(target.path)
                if parts[0] not in names.names:
                    todo[:0] = self._leading(target.path, tuple(names.stars))
                elif (found := self.member(target.path, parts, hops - 1)) is not None:
                    return found
        return None

    def may_star(self, path: str, stars: Iterable[str], name: str) -> bool:
        """Say whether ``from module import *`` statements of the file `path` might bind `name`, as
        far as is known; each file that they lead to is looked into once."""
        todo = [(path, star) for star in stars]
        seen: set[str] = set()
        while todo:
            at, star = todo.pop()
            found = self.imported(at, star)
            if not isinstance(found, Definition) or found.kind != "module":
                if torch_names.may_export(star, name):
                    return True
            elif found.path not in seen:
                seen.add(found.path)
                names = self.index(found.path)
                if name in names.names:
                    return True
                todo += [(found.path, star) for star in names.stars]
        return False

    def _leading(self, path: str, stars: tuple[str, ...]) -> _Targets:
        """Return where star imports of a file lead to, as far as is known."""
        if (path, stars) not in self._stars:
            trail = Dependencies()
            found = (self.view(trail).imported(path, star) for star in stars)
            self._stars[path, stars] = tuple(each for each in found if each is not None), trail
        targets, trail = self._stars[path, stars]
        self._trail.add(trail)
        return targets

    def made_by(self, function: Definition) -> Definition | None:
        """Return the class of the project of which a function returns a new object each time, as
        the text of its file says."""
        for _ in range(_HOPS):
            origin = self.index(function.path).names.get(function.name)
            makes = origin.makes if origin is not None else ""
            found = self.member(function.path, makes.split(".")) if makes else None
            if not isinstance(found, Definition) or found.kind == CLASS:
                return found if isinstance(found, Definition) else None
            function = found
        return None

    def lineage(self, definition: Definition) -> Lineage:
        """Return the ancestors of a class of the project, itself first."""
        if definition not in self._lineages:
            trail = Dependencies()
            self._lineages[definition] = self.view(trail)._ancestors(definition), trail
        lineage, trail = self._lineages[definition]
        self._trail.add(trail)
        return lineage

    def _ancestors(self, definition: Definition) -> Lineage:
        classes: list[Definition] = []
        outside: list[str] = []
        todo = [definition]
        while todo:
            at = todo.pop(0)
            if at in classes:
                continue
            classes.append(at)
            origin = self.index(at.path).names.get(at.name)
            for base in origin.bases if origin is not None else ():
                found = self.member(at.path, base.split(".")) if base else None
                if isinstance(found, Definition) and found.kind == CLASS:
                    todo.append(found)
                else:
                    outside.append(found if isinstance(found, str) else base)
        return Lineage(tuple(classes), tuple(outside))

    # -- facts -------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Free the analyses that are asked least, down to `_KEPT`; to be called when no answer from
        them is in use.

        Those that are asked until the next call are kept: they could not be freed, and would be
        made again where they are asked again. Each takes the place of one that is not asked.
        """
        self._in_use.clear()
        for each in self._growing:
            each.rest()
        self._growing.clear()
        self._given.clear()
        self._shrink(_KEPT)
        if len(self._texts) > TEXTS:
            self._texts.clear()

    def close(self) -> None:
        """Free all analyses; their parts point at each other, so that they would stay for long."""
        self._in_use.clear()
        self._shrink(0)

    def _shrink(self, kept: int) -> None:
        total = sum(size for _, size in self._modules.values())
        while total > kept and len(self._modules) > (kept > 0):
            if (first := next(iter(self._modules))) in self._in_use:
                return
            old, size = self._modules.pop(first)
            total -= size
            if old is not None:
                old.close()

    def knows(self, key: object, path: str) -> bool:
        """Say whether the answer to a question about a file is in `answers`; it then counts as
        asked again."""
        self._trail.read.add(path)
        self._trail.helpers.add(path)
        return key in self.answers

    def module(self, path: str) -> Module | None:
        """Return the analysis of one file, for its facts; None where there can be none."""
        self._trail.read.add(path)
        self._trail.helpers.add(path)
        self._in_use.add(path)
        if path in self._modules:
            self._modules.move_to_end(path)
            return self._modules[path][0]
        text = self.text(path)
        self._shrink(_KEPT - len(text or ""))
        found = self._analyse(self, path, text) if text is not None else None
        self._modules[path] = found, len(text or "")
        return found


_INSTALLS = {
    "pyproject.toml": r"^\[(build-system|(project|tool\.poetry)\.(scripts|entry-points.*))\]",
    "setup.cfg": r"^\[options",
    "setup.py": r"\bsetup\(",
}
"""What says how to install a project, by the file that says it."""
_DEPENDENCIES = (
    *_INSTALLS,
    *"""Pipfile environment.yml environment.yaml env.yml env.yaml conda.yml conda.yaml
requirements.txt requirement.txt requirements.in requirements/requirements.txt requirements/base.txt
requirements/main.txt requirements/train.txt requirements/default.txt""".split(),
)
_READMES = ("README.md", "README.rst", "README.txt", "README", "readme.md")
_EXAMPLES = regex(r"[\\/](examples?|demos?|tutorials?|notebooks?)[\\/]")
_PAGES = """mkdocs.yml docs/conf.py docs/source/conf.py doc/conf.py doc/source/conf.py docs/index.md
docs/index.rst docs/README.md .readthedocs.yml .readthedocs.yaml""".split()
"""What makes a site of all that a project documents, or leads to its pages."""
_DOTTED = regex(r"(?<![\w/])[A-Za-z_]\w*(?:\.\w+)+")
_IMPORTS_LATE = regex(r"\bdef __getattr__\b|\bimport_module\b|\bpkgutil\b|\b_?[lL]azy")
_SAID_WITH = r"""["']?\s*[=:]\s*(?!(""|'')\s*([,)\]}]|$)|["']Add[ ]your[ ]description[ ]here)\S"""
_SAYS_WHAT = regex(
    rf"""^\[project\.(scripts|gui-scripts|entry-points.*)\]|^\[tool\.poetry\.(scripts|plugins.*)\]
    |\[options\.entry_points\]|\bentry_points\b|\bsetup\([\s\S]*?\bscripts\s*=\s*(?!\[\s*\])\S
    |\b(?:description|long_description|readme|classifiers|keywords){_SAID_WITH}
    |(?:^\[(?:project|metadata)\].*(?:\n(?!\[).*)*?\n|\bsetup\([\s\S]*?\b)
    (?:download_)?url{_SAID_WITH}
    """,
    re.MULTILINE | re.VERBOSE,
)
"""What tells others what is installed; a project that says nothing installs its own imports."""


@functools.lru_cache(maxsize=64)
def _installs(name: str, text: str) -> bool:
    """Say whether a file of a name that says how to install a project tells others what for."""
    return bool(re.search(_INSTALLS[name], text, re.MULTILINE) and _SAYS_WHAT.search(text))


_QUESTIONS: Mapping[str, Callable[..., Any]] = {
    "alone": Project._is_alone,
    "broken": Project._why_broken,
    "callers": Project._found_callers,
    "cut off": Project._why_cut_off,
    "failing user": Project._failing_user,
    "flag": Project._files_with_flag,
    "graphless": Project._may_be_graphless,
    "often": Project._may_run_often,
    "reached": Project._any_reaches,
    "says": Project._says,
    "tested": Project._is_tested,
    "used": Project._is_used,
    "library": Project._is_library,
    "started": Project._started,
}
"""What is asked about all files, by kind; each is given the file that it is about and the rest of
the question."""
