"""What one file may ask about the rest of its project."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import TYPE_CHECKING, TypeVar

from torchlint.base.records import frozen
from torchlint.semantic.code.flags import Flag
from torchlint.semantic.code.tree import is_name, keyword_of
from torchlint.semantic.elsewhere import Definition, Lineage
from torchlint.semantic.project import exports
from torchlint.semantic.project.callers import (
    MEMBER,
    Calling,
    CallSite,
    Given,
    Told,
    graphless,
    hottest,
)
from torchlint.semantic.project.exports import ArgumentRead
from torchlint.semantic.project.index import CLASS, FUNCTION
from torchlint.semantic.project.offered import dependencies
from torchlint.semantic.project.project import Project
from torchlint.semantic.project.reach import MINE, OUTSIDE, Aim, reach, stem_of
from torchlint.semantic.time.loops import STEPS
from torchlint.semantic.torch import names as torch_names
from torchlint.semantic.values.value import CLASSES, ITERATED, TRUTHS, UNKNOWN, Value

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantic.module import Module
    from torchlint.semantic.time.grades import Caller


T = TypeVar("T")
_SEPARATOR = ".py:"
_NO_LINEAGE = Lineage()
_RECORDS = frozenset("log logs lightning_logs mlruns records results runs wandb".split())
"""Folders into which programs write, or people put what a run was made with."""
_INSTANCES = ("module", "object", "loader")


@frozen
class Outside:
    """The project as one file sees it.

    Args:
        project: the project, or None for a file that stands alone.
        path: the file that asks, absolute.
        deep: whether facts of other files may be asked for; else only the structure is known, so
            that an analysis goes at most one file far.
    """

    project: Project | None = None
    path: str = ""
    deep: bool = False
    _found: dict[str, Definition | None] = field(default_factory=dict, compare=False, repr=False)

    # -- structure ---------------------------------------------------------------------------------

    def find(self, dotted: str | None) -> Definition | None:
        """Return the definition in another file of the project that a dotted name of this file
        stands for."""
        if (
            self.project is None
            or not dotted
            or "." not in dotted
            or dotted.startswith(("torch.", "builtins."))
        ):
            return None
        if dotted not in self._found:
            found = self.project.definitions.find(self.path, dotted)
            self._found[dotted] = (
                found if isinstance(found, Definition) and found.path != self.path else None
            )
        return self._found[dotted]

    def starred(self, stars: Iterable[str], name: str) -> str | None:
        """Return the dotted name that the star imports of this file bind `name` to, or None."""
        if self.project is None:
            return next(
                (f"{star}.{name}" for star in stars if torch_names.exports(star, name)), None
            )
        found = self.project.definitions.starred(self.path, stars, [name])
        if isinstance(found, Definition):
            return next(
                (f"{star}.{name}" for star in stars if self._is(f"{star}.{name}", found)), None
            )
        return found

    def may_bind(self, stars: Iterable[str], name: str) -> bool:
        """Say whether a star import of this file might bind `name`, as far as is known."""
        if self.project is None:
            return any(torch_names.may_export(star, name) for star in stars)
        return self.project.definitions.may_star(self.path, stars, name)

    def _is(self, dotted: str, definition: Definition) -> bool:
        return (
            self.project is not None
            and self.project.definitions.find(self.path, dotted) == definition
        )

    def lineage(self, dotted: str | None) -> Lineage:
        """Return the ancestors of a class of another file, itself first; nothing where it is none
        of the project."""
        found = self.find(dotted)
        if self.project is None or found is None or found.kind != CLASS:
            return _NO_LINEAGE
        return self.project.definitions.lineage(found)

    def named(self, value: Value) -> Definition | None:
        """Return the class of another file that an instance is of; see `instance`."""
        path, separator, name = (value.name or "").rpartition(_SEPARATOR)
        if CLASSES in path:
            return None
        return (
            Definition(path + ".py", name, CLASS)
            if separator and value.kind in _INSTANCES
            else None
        )

    def instance(self, dotted: str) -> Value:
        """Return what calling a class of another file gives, or unknown.

        Its `Value.name` holds file and class (``/p/nets.py:Net``), as a name alone says nothing in
        another file.
        """
        found = self.find(dotted)
        return self._instance(found) if found is not None and found.kind == CLASS else UNKNOWN

    def _instance(self, cls: Definition) -> Value:
        assert self.project is not None
        bases = [
            torch_names.canonical(name) for name in self.project.definitions.lineage(cls).outside
        ]
        if "torch.utils.data.DataLoader" in bases:
            return Value("loader", name=f"{cls.path}:{cls.name}")
        if any(name.startswith("torch.optim.") for name in bases):
            return Value("optimizer")
        module = any(
            name in torch_names.MODULE_BASES or name.startswith("torch.nn.") for name in bases
        )
        return Value("module" if module else "object", name=f"{cls.path}:{cls.name}")

    def reached(self, name: str, text: str, filename: str) -> bool | None:
        """Say whether other code than this file's functions may read or replace a top-level name of
        it.

        None where the project is too large to tell. A file that stands alone is only asked itself.

        Args:
            name: the name.
            text: the file's text as it is now.
            filename: the file's path where it has none in a project.
        """
        path = self.path or filename
        if self.project is None:
            stem = stem_of(path)
            known = reach(text)
            return known is None or known.reaches(
                Aim(name, lambda dotted: MINE if dotted.rpartition(".")[2] == stem else OUTSIDE)
            )
        return self.project.definitions.reaches(path, text, path, name) or self.project.reached(
            path, name
        )

    def uses(self, name: str) -> bool | None:
        """Say whether the program uses a function or class of this file that stands in no other
        one, or may use it; None where that is not known."""
        return self.project.uses(self.path, name) if self.project is not None else None

    def self_tested(self, name: str) -> bool:
        """Say whether what the program does not use is used by the self-test of a file."""
        return self.project is not None and self.project.self_tested(self.path, name)

    def broken(self, dotted: str, names: Iterable[str]) -> str | None:
        """Return what shows that this file cannot import names from a module of its project: what
        stands nowhere, or a file that is no Python; None where nothing does."""
        return self.project.broken(self.path, dotted, names) if self.project is not None else None

    def failing_user(self, name: str) -> str | None:
        """Return which other file speaks of a function or class of this one and cannot be imported,
        and why, or calls it with arguments that it does not take; None where there is none."""
        return self.project.failing_user(self.path, name) if self.project is not None else None

    def others_say(
        self,
        test: Callable[[str], bool],
        *,
        near: bool = False,
        by_place: bool = False,
        anywhere: bool = False,
    ) -> bool | None:
        """Say whether a test holds for the text of any other file that may run with this one; None
        where the project is too large.

        `near` are those alone that hold the name of this file's module, `by_place` those alone that
        meet it by what imports find where they stand, `anywhere` all files of the project.
        """
        return (
            self.project.others_say(
                self.path, test, near=near, by_place=by_place, anywhere=anywhere
            )
            if self.project is not None
            else False
        )

    def in_package(self) -> bool:
        """Say whether this file lies in a package of the project, beside an ``__init__.py``."""
        return self.project is not None and self.project.files.search.in_package(self.path)

    def recorded(self) -> bool:
        """Say whether this file lies in a folder of what programs wrote, beside no ``__init__.py``:
        a copy that says how a run was made."""
        if self.project is None or self.in_package():
            return False
        folders = os.path.relpath(self.path, self.project.files.search.root).split(os.sep)[:-1]
        return not _RECORDS.isdisjoint(map(str.lower, folders))

    def of_library(self) -> bool:
        """Say whether this file lies in a package of a project that holds no program."""
        return self.project is not None and self.project.of_library(self.path)

    def offered(self) -> bool:
        """Say whether who installs the project may call what this file defines."""
        return self.project is not None and self.project.offered(self.path)

    def dependencies(self) -> Iterator[str]:
        """Yield the texts that may list what this file depends on."""
        return dependencies(self.project.files, self.path) if self.project is not None else iter(())

    def is_ours(self, dotted: str) -> bool:
        """Say whether a module that an import statement of this file names lies in the project."""
        found = (
            self.project.definitions.imported(self.path, dotted)
            if self.project is not None
            else dotted
        )
        return not isinstance(found, str)

    # -- facts -------------------------------------------------------------------------------------

    def call(self, dotted: str, call: cst.Call, given: list[Value]) -> Value:
        """Return what calling a function or class of another file gives; `given` are the values of
        the arguments."""
        found = self.find(dotted)
        if found is None:
            return UNKNOWN
        if found.kind == CLASS:
            return self._iterated(found, call, given) or self._instance(found)
        if found.kind != FUNCTION:
            return UNKNOWN
        if not self.deep and self.project is not None:
            made = self.project.definitions.made_by(found)
            return self._instance(made) if made is not None else UNKNOWN
        flags = tuple(tuple(is_name(arg.value, word) for word in TRUTHS) for arg in call.args)
        key = (found, exports.shape(call), flags, tuple(exports.plain(value) for value in given))
        return (
            self._answer(
                key, found, lambda module: exports.returned(module, found.name, call, given)
            )
            or UNKNOWN
        )

    def _iterated(self, cls: Definition, call: cst.Call, given: list[Value]) -> Value | None:
        """Return what an object of a class is given to iterate, and hands out as it is."""
        key = (exports.hands_out, cls)
        ask = functools.partial(exports.hands_out, name=cls.name)
        parameter = self._answer(key, cls, ask, "def __iter__")
        pairs = enumerate(zip(call.args, given, strict=True))
        return next(
            (
                value
                for at, (arg, value) in pairs
                if (keyword_of(arg) or at) in (parameter or ())
                and value.kind in ITERATED
                and not arg.star
            ),
            None,
        )

    def method(self, classes: Iterable[Definition], name: str) -> Value:
        """Return what calling a method gives that the first of these classes has."""
        for cls in classes:
            found = self._of_class(exports.method_returned, cls, name, f"def {name}")
            if found is not None:
                return found
        return UNKNOWN

    def attribute(self, classes: Iterable[Definition], name: str) -> Value:
        """Return what ``self.name`` holds by the assignments of the first of these classes that
        makes any."""
        for cls in classes:
            found = self._of_class(exports.attribute, cls, name, name)
            if found is not None and found.kind not in ("?", "none"):
                return found
        return UNKNOWN

    def _of_class(
        self,
        question: Callable[[Module, str, str], Value | None],
        cls: Definition,
        name: str,
        needed: str,
    ) -> Value | None:
        return self._answer(
            (question, cls, name), cls, lambda module: question(module, cls.name, name), needed
        )

    def _answer(
        self,
        key: object,
        definition: Definition,
        question: Callable[[Module], T | None],
        needed: str = "",
    ) -> T | None:
        """Return the answer to a question about a definition, which is remembered longer than its
        file's analysis."""
        if not self.deep or self.project is None:
            return None
        if not self.project.analyses.knows(key, definition.path):
            module = self._facts(definition, needed)
            self.project.analyses.answers[key] = question(module) if module is not None else None
        found: T | None = self.project.analyses.answers[key]
        return found

    def callers(self, classes: Iterable[Definition], method: str) -> Iterator[Caller]:
        """Yield the places in the files of these classes where one of them calls
        ``self.method``."""
        for cls in classes:
            module = self._facts(cls, f"self.{method}(")
            if module is not None:
                yield from exports.callers(module, cls.name, method)

    # -- from callers ------------------------------------------------------------------------------

    def may_run_often(self, name: str | None) -> bool:
        """Say whether calls in other files may make a function of this one run often; False is
        certain. Names are ``f`` or ``Class.method``."""
        return (
            name is not None
            and self.deep
            and self.project is not None
            and self.project.calls.may_run_often(Definition(self.path, name, MEMBER))
        )

    def calls(self, name: str | None) -> Told[CallSite] | tuple[()]:
        """Return the calls of a function of this file in others."""
        if name is None or not self.deep or self.project is None:
            return ()
        return self.project.calls.sites(Definition(self.path, name, MEMBER))

    def passed(
        self, name: str | None, *, trains: bool, keeps: Callable[[], bool] | None
    ) -> Told[Given] | tuple[()]:
        """Return what the calls of a function of this file in others pass, each as its arguments'
        stars or keywords and values; nothing where the function cannot run often, does not train in
        a loop of its own, and is no constructor whose object keeps what it is given."""
        if name is None or self.project is None or not (trains or keeps or self.deep):
            return ()
        calls, target = self.project.calls, Definition(self.path, name, MEMBER)
        if not calls.may_be_called(target):
            return ()
        counts = trains or (keeps is not None and keeps()) or self.may_run_often(name)
        return calls.passed(target) if counts else ()

    def flag(self, name: str | None, flag: Flag) -> tuple[bool, ...] | None:
        """Return of each call in another file that may be one of a function of this one whether it
        gives a flag the truth that is asked about only now and then, up to the first that does not;
        None where that is not asked for."""
        if name is None or self.project is None:
            return ()
        return (
            self.project.calls.flag(Definition(self.path, name, MEMBER), flag)
            if self.deep
            else None
        )

    def rarely_returns(self, definitions: Iterable[Definition], method: str, needed: bool) -> bool:
        """Say whether a function of another file, or a method of the first of these classes that
        has it, returns what is true (or false, as needed) only now and then."""
        return self._is_so(exports.rarely_returns, definitions, method, needed)

    def never_returns_none(self, definitions: Iterable[Definition]) -> bool:
        """Say whether a function of another file returns something else than None on every way."""
        return self._is_so(exports.never_returns_none, definitions, "")

    def takes_step(self, definitions: Iterable[Definition], method: str) -> bool:
        """Say whether one call of a function of another file, or of a method of the first of these
        classes that has it, is one training step; of a file that is looked at for another one, by
        how the function is written."""
        project = self.project
        if project is None:
            return False
        near = [
            each for each in definitions if any(project.files.says(each.path, s) for s in STEPS)
        ]
        if self.deep:
            return self._is_so(exports.takes_step, near, method)
        known = (project.calls.steps_as_written(each.path, each.name, method) for each in near)
        return next((found for found in known if found is not None), False)

    def runs_model(self, definitions: Iterable[Definition], method: str) -> bool:
        """Say whether one call of a function of another file, or of a method of the first of these
        classes that has it, runs a model; not known of a file that is looked at for another
        one."""
        project = self.project
        near = (
            each
            for each in (definitions if project is not None else ())
            if project is not None and project.files.says(each.path, "torch")
        )
        return self._is_so(exports.runs_model, near, method)

    def _is_so(
        self,
        question: Callable[..., bool | None],
        definitions: Iterable[Definition],
        method: str,
        *more: bool,
    ) -> bool:
        """Say what the first file says that defines the function or method."""
        for each in definitions if self.deep else ():
            key = (question, each, method, *more)
            if self.project is not None and not self.project.analyses.knows(key, each.path):
                module = self._facts(each, f"def {method or each.name}")
                self.project.analyses.answers[key] = (
                    question(module, each.name, method, *more) if module is not None else None
                )
            known = self.project.analyses.answers[key] if self.project is not None else None
            if known is not None:
                return bool(known)
        return False

    def calling(self, definition: Definition) -> Iterator[tuple[Module, cst.Call]]:
        """Yield the calls of a function of any file in the others, each with the analysis of its
        file."""
        if self.deep and self.project is not None:
            yield from self.project.calls.calling(
                Definition(definition.path, definition.name, MEMBER)
            )

    def hottest_call(self, name: str | None) -> Calling | None:
        """Return the most frequent call of a function of this file in others, through callers of
        callers."""
        if name is None or not self.deep or self.project is None:
            return None
        return hottest(
            Definition(self.path, name, MEMBER),
            functools.partial(self.project.calls.sites, often=True),
            self.project.calls.may_run_often,
        )

    def graphless_calls(self, name: str | None) -> set[bool | None]:
        """Return what the calls of a function of this file in others say of autograd being off
        there; nothing where there are none."""
        if name is None or not self.deep or self.project is None:
            return set()
        target = Definition(self.path, name, MEMBER)
        if not self.project.calls.may_be_graphless(target):
            return {False} if self.project.calls.may_be_called(target) else set()
        return graphless(target, self.project.calls.sites)

    def reads(self, dotted: str) -> tuple[ArgumentRead, ...]:
        """Return the arguments that a function of another file always reads on the host."""
        found = self.find(dotted)
        if self.project is None or found is None or found.kind != FUNCTION:
            return ()
        may_read = self.project.calls.may_call(found, exports.READING)
        module = self._facts(found) if may_read else None
        return exports.argument_reads(module, found.name) if module is not None else ()

    def family(self, value: Value) -> tuple[Definition, ...]:
        """Return the class in another file that a value is an instance of, with its ancestors in
        the project."""
        found = self.named(value)
        return (
            self.project.definitions.lineage(found).classes
            if found is not None and self.project is not None
            else ()
        )

    def families(self, value: Value) -> list[tuple[Definition, ...]]:
        """Return for each of the classes in other files of which a value may be an instance the
        class with its ancestors in the project."""
        names = (value.name or "").split(CLASSES)
        found = (self.family(value.but(name=name)) for name in names)
        return [each for each in found if each]

    def bases(self, value: Value) -> tuple[str, ...]:
        """Return the dotted names of the bases outside the project of the class that a value is an
        instance of."""
        found = self.named(value)
        names = (
            self.project.definitions.lineage(found).outside
            if found is not None and self.project is not None
            else ()
        )
        return tuple(torch_names.canonical(name) for name in names)

    def module_of(self, definition: Definition) -> Module | None:
        """Return the analysis of the file of a definition, where facts may be asked for."""
        return self._facts(definition)

    def file(self, dotted: str) -> Module | None:
        """Return the analysis of the other file of the project that a module's name stands for."""
        found = self._imported(dotted)
        return self._facts(found) if found is not None else None

    def text_of(self, dotted: str) -> str:
        """Return the text of the other file that a module's name stands for; empty for others."""
        found = self._imported(dotted)
        return (self.text(found) or "") if found is not None else ""

    def _imported(self, dotted: str) -> Definition | None:
        if self.project is None:
            return None
        found = self.project.definitions.imported(self.path, dotted)
        return found if isinstance(found, Definition) and found.path != self.path else None

    def text(self, definition: Definition) -> str | None:
        """Return the text of a definition's file."""
        return self.project.files.text(definition.path) if self.project is not None else None

    def _facts(self, definition: Definition, needed: str = "") -> Module | None:
        """Return the analysis of a definition's file; None where its text does not even hold what
        is `needed`."""
        if (
            not self.deep
            or self.project is None
            or not self.project.files.says(definition.path, needed)
        ):
            return None
        return self.project.analyses.module(definition.path)
