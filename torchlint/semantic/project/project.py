"""The files of one project: what their names stand for, and their modules as the analysis sees
them."""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from torchlint.base.trail import UNNAMED, Dependencies, closed, highest
from torchlint.semantic.code.named_tests import Test, name_of
from torchlint.semantic.project.all_files import AllFiles
from torchlint.semantic.project.analyses import Analyses
from torchlint.semantic.project.calls_elsewhere import CallsElsewhere
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files

if TYPE_CHECKING:
    from torchlint.semantic.module import Module


class Project:
    """What is known of the files below one root, each subject in a part of its own.

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
        self.files = Files(root, read, lambda question: self._all.answer(question))
        self.definitions = Definitions(self.files)
        self.analyses = Analyses(self.files, functools.partial(analyse, self))
        self.calls = CallsElsewhere(self.files, self.definitions, self.analyses)
        unnoted = self.files.view(Dependencies(), whole=True)
        self._all = AllFiles(unnoted, self.definitions.view(unnoted))
        self._helpers: dict[str, Dependencies] = {}
        self._beyond = Dependencies()

    def view(self, trail: Dependencies) -> Project:
        """Return this project for one who asks, whose answers are noted in `trail`."""
        seen = copy.copy(self)
        seen.calls = self.calls.view(trail)
        seen.files = seen.calls.files
        seen.definitions = seen.calls.definitions
        seen.analyses = seen.calls.analyses
        return seen

    def helper(self, path: str) -> Project:
        """Return this project for the analysis of a file that others ask about."""
        return self.view(self._helpers.setdefault(path, Dependencies()))

    def rests_on(self, trail: Dependencies) -> Dependencies:
        """Return a trail with those of all the helpers that it names."""
        return closed(trail, self._helpers)

    def beyond(self) -> Dependencies:
        """Return what answers about all files rest on besides these: what is no Python, and what
        is in folders that are not listed, as those behind links, where import statements lead all
        the same."""
        trail, there = self._all.files.trail, dict[str, bool]()
        for mine, seen in (
            (self._beyond.read, trail.read),
            (self._beyond.looked, trail.looked),
        ):
            for path in seen:
                listed = os.path.dirname(highest(path, there)) in self.files.search.listings
                if not (listed and path.endswith((".py", ".ipynb"))):
                    mine.add(path)
            seen.clear()
        return self._beyond

    def others_say(
        self, path: str, test: Test, *, near: bool, by_place: bool = False, anywhere: bool = False
    ) -> bool | None:
        """Say whether a test holds for the text of any other file that may run with this one; None
        for too many files.

        `near` are those alone that hold the name of the file's module; `by_place` are those alone
        that meet it by the files which imports find where they stand, not by names; `anywhere`
        those as well that run without it.
        """
        which = "near" if near else "place" if by_place else "all" if anywhere else ""
        name = name_of(test)
        if name is None:
            self.files.trail.asked.add(UNNAMED)
            return self._all.together.others_say(path, test, test, which)
        found: bool | None = self.files.ask(("says", path, which, *name))
        return found

    def reached(self, path: str, name: str) -> bool | None:
        """Say whether any other file may read or replace the top-level name `name` of the file
        `path`.

        None for a project of too many files. A file that cannot be read does not: Python cannot run
        it either.
        """
        found: bool | None = self.files.ask(("reached", path, name))
        return found

    def broken(self, importer: str, dotted: str, names: Iterable[str]) -> str | None:
        """Return what shows that a file of a project cannot import names from a module, as
        `Broken.why` does; None where nothing does."""
        found: str | None = self.files.ask(("broken", importer, dotted, *names))
        return found

    def failing_user(self, path: str, name: str) -> str | None:
        """Return which file speaks of a definition of another one and cannot be imported, and why,
        or how one calls a function that does not take the arguments; None where there is none."""
        found: str | None = self.files.ask(("failing user", path, name))
        return found

    def uses(self, path: str, name: str) -> bool | None:
        """Say whether the program uses a function or class that stands in no other one, in the file
        `path`, or may use it, as who installs the project may; None for a project of too many
        files."""
        found: bool | None = self.files.ask(("used", path, name))
        return found

    def self_tested(self, path: str, name: str) -> bool:
        """Say whether what the program does not use is used by the self-test of a file."""
        found: bool = self.files.ask(("tested", path, name))
        return found

    def offered(self, path: str) -> bool:
        """Say whether who installs the project may call what a file defines."""
        found: bool = self.files.ask(("offered", path))
        return found

    def of_library(self, path: str) -> bool:
        """Say whether a file lies in a package that was installed, or whose project holds no
        program: those who train with it are elsewhere; False for a project of too many files, and
        where only a part of the package is in view."""
        found: bool = self.files.ask(("library", "")) and self.files.ask(("packaged", path))
        return found

    def settle(self) -> None:
        """Free the analyses that are asked least; to be called when no answer from them is in
        use."""
        self.calls.settle()
        self.analyses.settle()
        self.files.forget_texts()

    def close(self) -> None:
        """Free all analyses; their parts point at each other, so that they would stay for long."""
        self.analyses.close()
