"""How other files of a project call a function: from where, with what, and whether they turn on a
flag of its."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from torchlint.base.trail import Dependencies
from torchlint.semantic.code.flags import Flag
from torchlint.semantic.code.guards import flag_given
from torchlint.semantic.elsewhere import Definition
from torchlint.semantic.project.analyses import Analyses
from torchlint.semantic.project.caller_files import callers_of
from torchlint.semantic.project.callers import (
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
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.index import CLASS
from torchlint.semantic.project.reach import stem_of

if TYPE_CHECKING:
    import libcst as cst

    from torchlint.semantic.module import Module

T = TypeVar("T")
K = TypeVar("K")
_CALLERS = 16
"""Files that are analysed for the calls of one function."""

FlagOf = tuple[Definition, Flag]
"""A flag of a function, which is defined in some file."""


class CallsElsewhere:
    """Says how other files call functions; what a call says comes from the analysis of its file."""

    def __init__(self, files: Files, definitions: Definitions, analyses: Analyses) -> None:
        self.files = files
        self.definitions = definitions
        self.analyses = analyses
        self._given: dict[tuple[Definition, str], Growing[Given]] = {}
        self._called: dict[tuple[Definition, str], Growing[CallSite]] = {}
        self._growing: set[Growing[Any]] = set()
        self._flags: dict[FlagOf, tuple[tuple[bool, ...], Dependencies]] = {}
        self._rare: dict[FlagOf, tuple[bool, Dependencies]] = {}

    def view(self, trail: Dependencies) -> CallsElsewhere:
        """Return these calls for one who asks, whose answers are noted in `trail`."""
        seen = copy.copy(self)
        seen.files = self.files.view(trail)
        seen.definitions = self.definitions.view(seen.files)
        seen.analyses = self.analyses.view(seen.files)
        return seen

    def may_run_often(self, target: Definition) -> bool:
        """Say whether a call in another file, or one of those that lead there, may run often; False
        is certain. Nothing is analysed for it."""
        found: bool = self.files.ask(("often", target.path, target.name))
        return found

    def may_be_graphless(self, target: Definition) -> bool:
        """Say whether a file from which calls lead to a function speaks of autograd being off;
        False is certain."""
        found: bool = self.files.ask(("graphless", target.path, target.name))
        return found

    def may_call(self, function: Definition, names: Iterable[str]) -> bool:
        """Say whether a function, as it is written, calls something of one of some names."""
        self.files.trail.read.add(function.path)
        calls = self.files.calls_in(function.path)
        return calls.unread or any(
            site.within == function.name for name in names for site in calls.sites.get(name, ())
        )

    def steps_as_written(self, path: str, name: str, method: str) -> bool | None:
        """Say whether a function, or a method of a class, runs a backward pass outside of its
        loops, as it is written; None where the file defines none. Nothing is analysed for it."""
        self.files.trail.read.add(path)
        origin = self.files.index(path).names.get(name) if method else None
        if method and (origin is None or method not in origin.methods):
            return None
        return (f"{name}.{method}" if method else name) in self.files.calls_in(path).backward

    def may_be_called(self, target: Definition) -> bool:
        """Say whether other files hold calls that may reach a function."""
        return bool(callers_of(self.files, target))

    def sites(self, target: Definition, *, often: bool = False) -> Told[CallSite]:
        """Return the calls of a function in other files, of as many as one question is worth; those
        alone that may run `often`, or are led to by such calls, if that is asked for."""
        return Told(lambda: self._said_by_calls(self._called, target, call_sites, often=often))

    def passed(self, target: Definition) -> Told[Given]:
        """Return what the calls of a function in other files pass."""
        return Told(lambda: self._said_by_calls(self._given, target, passed))

    def _said_by_calls(
        self,
        memory: dict[tuple[Definition, str], Growing[T]],
        target: Definition,
        say: Callable[[Module, Wanted], Iterator[T]],
        *,
        often: bool = False,
    ) -> Iterator[T]:
        """Yield what the calls of a function in other files say, each when those before it were not
        enough for who asks."""
        for caller in callers_of(self.files, target)[:_CALLERS]:
            path, _ = caller
            if often and not self.files.ask(("often", target.path, target.name, path)):
                continue
            found = memory.get((target, path))
            if found is None:
                found = memory[target, path] = Growing()
            self._growing.add(found)
            begin = functools.partial(self._begun, found.trail, target, caller, say)
            at = 0
            while found.has(at, begin):
                self.files.trail.add(found.trail)
                yield found.known[at]
                at += 1
            self.files.trail.add(found.trail)

    def _begun(
        self,
        trail: Dependencies,
        target: Definition,
        caller: tuple[str, tuple[str, ...]],
        say: Callable[[Module, Wanted], Iterator[T]],
    ) -> Iterator[T]:
        for module, wanted in self.view(trail)._calling_modules(target, [caller]):
            yield from say(module, wanted)

    def calling(self, target: Definition) -> Iterator[tuple[Module, cst.Call]]:
        """Yield the calls of a function in other files as nodes, to be used at once."""
        callers = callers_of(self.files, target)[:_CALLERS]
        for module, wanted in self._calling_modules(target, callers):
            for call in calls_of(module, wanted):
                yield module, call

    def _calling_modules(
        self, target: Definition, callers: Iterable[tuple[str, tuple[str, ...]]]
    ) -> Iterator[tuple[Module, Wanted]]:
        name = target.name.rpartition(".")[2]

        def overridden(cls: Definition) -> bool:
            called = name == "__call__" and self.files.says(cls.path, "def forward(")
            return called or self.files.says(cls.path, f"def {name}(")

        home = Definition(target.path, target.name.rpartition(".")[0], CLASS)
        for path, names in callers:
            module = (
                self.analyses.module(path) if self.files.calls_in(path).reach_out(names) else None
            )
            if module is not None:
                alone = functools.partial(self._is_alone, target, path)
                stands_in = functools.partial(self._stands_in, name, home, alone(""))
                yield module, Wanted(target, names, alone, overridden, stands_in)

    def _stands_in(
        self, method: str, home: Definition, alone: bool, family: Sequence[Definition]
    ) -> bool:
        """Say whether what an object of a class, with its ancestors, finds as a method does
        nothing, and the class `home` derives from it, or `alone` has methods of that name."""
        origins = (self.files.index(cls.path).names.get(cls.name) for cls in family)
        first = next((each for each in origins if each and method in each.methods), None)
        abstract = first is not None and method in first.abstract
        return abstract and (alone or family[0] in self.definitions.lineage(home).classes)

    def _is_alone(self, target: Definition, path: str, receiver: str) -> bool:
        """Say whether a call of a method of this name in a file may mean this one, whatever the
        object of the name `receiver` is: only classes of one family have it, the file may run with
        the class's own, and the method's name tells the class, or objects of it have that name."""
        if "." not in target.name or target.name.rpartition(".")[2].startswith("__"):
            return False
        found: bool = self.files.ask(("alone", target.path, target.name, path, receiver))
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
                self._rare[key] = False, self.files.trail
                return
        # What one of them rests on is among them.
        self._rare.update(dict.fromkeys(visited - {key}, (True, self.files.trail)))

    def _flag_calls(
        self, target: Definition, flag: Flag
    ) -> Iterator[tuple[bool, tuple[FlagOf, ...]]]:
        """Yield of each call in other files whether it gives the flag only now and then, and the
        flags of other functions on which that rests; of too many files one that does not."""
        plain = stem_of(target.path) if flag.classes == () else ""
        where = ("", flag.name) if flag.by_object else (flag.function, plain)
        found: tuple[str, ...] = self.files.ask(("flag", target.path, *where))
        if len(found) > _CALLERS:
            yield False, ()
            return
        for path in found:
            key = (flag_given, path, flag)
            if not self.analyses.knows(key, path):
                module = self.analyses.module(path)
                self.analyses.answers[key] = flag_given(module, flag) if module is not None else ()
            for rarely, rests_on in self.analyses.answers[key]:
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
                        self._rare[key] = False, self.files.trail
                        return False
                    fresh = [each for each in further if each not in visited]
                    visited.update(fresh)
                    todo += fresh
                if not calls and key[1].default is None:
                    return False
                continue
            known, trail = self._rare[key]
            self.files.trail.add(trail)
            if not known:
                return False
        return True

    def _noted(
        self,
        memory: dict[K, tuple[tuple[T, ...], Dependencies]],
        key: K,
        answer: Callable[[CallsElsewhere], Iterator[T]],
    ) -> tuple[T, ...]:
        """Return an answer that is worked out once, and note what it rests on for each who
        asks."""
        if key not in memory:
            trail = Dependencies()
            memory[key] = tuple(answer(self.view(trail))), trail
        found, trail = memory[key]
        self.files.trail.add(trail)
        return found

    def settle(self) -> None:
        """Let go of the analyses that answers begun have in use."""
        for each in self._growing:
            each.rest()
        self._growing.clear()
        self._given.clear()
