"""An example of a rule's page as a program: Setup, what prepares, definitions, and the statements
that are timed."""

from __future__ import annotations

import ast
import contextlib
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from . import clock
from .equality import compare
from .program import RefusedError
from .snapshot import random_states, snapshot, top
from .standin import StandIn

_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Example:
    """Runs one side, Bad or Good.

    ``settings`` holds source text: ``setup`` and ``prepare`` run once; then of ``side`` the
    imports, functions and classes run once and the other statements are timed; where there is
    ``timed``, all of ``side`` runs once and ``timed`` is timed. With ``whole`` nothing is timed:
    `check` runs ``side`` in its order, then ``timed``. ``standin`` runs it with the CPU in the
    place of CUDA; ``ledger`` under virtual CUDA. ``file`` is its name.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.names: dict[str, Any] = {"__name__": "example", "__file__": settings["file"]}
        self.before: frozenset[str] = frozenset()
        self.code: types.CodeType | None = None
        self.stack = contextlib.ExitStack()
        self.ledger: Any = None

    def load(self) -> None:
        """Run all that comes before the timed part."""
        settings = self.settings
        if settings.get("ledger"):
            from ...program.inside.ledger import virtual_cuda

            self.ledger = self.stack.enter_context(
                virtual_cuda(settings["root"], settings["operations"])
            )
        side, timed = settings["side"], settings["timed"]
        with self._surroundings():
            self._execute(settings["setup"])
            self._execute(settings["prepare"])
            self.before = frozenset(self.names)
            if settings["whole"]:
                return
            if timed:
                self._execute(side)
                self.code = self._compile(timed)
            else:
                definitions, rest = split(side)
                self._execute(definitions)
                self.code = self._compile(rest)

    def run(self, reps: int) -> clock.Taken:
        """Run the timed statements so often."""
        with self._surroundings():
            return clock.timed_loop(self._runner(), reps)

    def check(self, path: str, seed: int) -> dict[str, Any]:
        """Run the side whole, save every name that is bound then, and return those that it bound or
        changed."""
        with self._surroundings():
            start = snapshot(_visible(self.names))
            self._execute(self.settings["side"])
            self._execute(self.settings["timed"])
        self.stack.close()  # the ledger's device is gone: what is left are plain tensors
        taken = snapshot(_visible(self.names), random_states())
        torch.save(taken, path)
        told = {top(path) for path, leaf in taken["values"].items() if leaf["kind"] != "object"}
        changed = compare(start, taken, shared=True)
        moved = {*changed["max_abs_by_name"], *(top(place) for place in changed["different"])}
        return {"told": sorted((told - self.before) | (told & moved))}

    def count(self) -> dict[str, Any]:
        """Run the timed statements once, the second run of two, under the ledger that `load` has
        started."""
        with self.stack:
            self.ledger.mark_step()
            with self._surroundings():
                once = self._runner()
                for _ in range(2):
                    once()
                    self.ledger.mark_step()
            summary: dict[str, Any] = self.ledger.summary(2)
        return summary

    def _runner(self) -> Callable[[], None]:
        """Return a function that runs the timed statements, and nothing else, once."""
        code, names = self.code, self.names
        if code is None:
            raise RefusedError("the example has no statement to time", "empty")

        def once() -> None:
            exec(code, names)  # noqa: S102 - an example of a rule's page

        return once

    def _compile(self, source: str | ast.Module) -> types.CodeType:
        code: types.CodeType = compile(source, self.settings["file"], "exec", dont_inherit=True)
        return code

    def _execute(self, source: str | ast.Module) -> None:
        if source:
            exec(self._compile(source), self.names)  # noqa: S102 - as above

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        with (
            warnings.catch_warnings(),
            StandIn() if self.settings["standin"] else contextlib.nullcontext(),
        ):
            warnings.simplefilter("ignore")
            yield


def split(side: str) -> tuple[ast.Module, ast.Module]:
    """Return a side's imports, functions and classes, and its other statements."""
    tree = ast.parse(side)
    definitions: list[ast.stmt] = [node for node in tree.body if isinstance(node, _DEFINITIONS)]
    rest = [node for node in tree.body if not isinstance(node, _DEFINITIONS)]
    if not rest:
        raise RefusedError("the example has no statement to time", "empty")
    return ast.Module(definitions, []), ast.Module(rest, [])


def _visible(names: dict[str, Any]) -> dict[str, Any]:
    """Return the names but those that Python makes; `random.random` and its kin are modules and
    functions."""
    return {name: value for name, value in names.items() if not name.startswith("__")}
