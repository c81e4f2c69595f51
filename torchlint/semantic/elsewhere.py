"""The rest of a project, as the analysis of one file may ask about it: what is asked, and not how
it is found.

`torchlint.semantic.project` answers. Where an answer speaks of another file's analysis (a `Module`)
its type is left open here, as that lies above.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import libcst as cst

from torchlint.semantic.values.value import Value


@dataclass(frozen=True, slots=True)
class Definition:
    """A class, function or module of the project: its file, its name in there, and which of these
    it is."""

    path: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class Lineage:
    """The ancestors of a class: those in the project, nearest first, and the names of those
    outside."""

    classes: tuple[Definition, ...] = ()
    outside: tuple[str, ...] = ()


class Elsewhere(Protocol):
    """The project as one file sees it; see `torchlint.semantic.project.outside.Outside`, which says
    what each gives."""

    @property
    def path(self) -> str: ...
    def find(self, dotted: str | None) -> Definition | None: ...
    def starred(self, stars: Iterable[str], name: str) -> str | None: ...
    def may_bind(self, stars: Iterable[str], name: str) -> bool: ...
    def lineage(self, dotted: str | None) -> Lineage: ...
    def instance(self, dotted: str) -> Value: ...
    def reached(self, name: str, text: str, filename: str) -> bool | None: ...
    def others_say(self, test: Callable[[str], bool], *, near: bool) -> bool | None: ...
    def is_ours(self, dotted: str) -> bool: ...
    def call(self, dotted: str, call: cst.Call, given: list[Value]) -> Value: ...
    def method(self, classes: Iterable[Definition], name: str) -> Value: ...
    def attribute(self, classes: Iterable[Definition], name: str) -> Value: ...
    def callers(self, classes: Iterable[Definition], method: str) -> Iterator[Any]: ...
    def reads(self, dotted: str) -> tuple[Any, ...]: ...
    def family(self, value: Value) -> tuple[Definition, ...]: ...
    def bases(self, value: Value) -> tuple[str, ...]: ...
    def module_of(self, definition: Definition) -> Any: ...
