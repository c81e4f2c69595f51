"""The analyses of a project's files, for the facts that need a whole one: what a helper returns,
from where a base class calls a method.

Such a fact comes from the file that defines it, analysed without looking any further; so no answer
depends on which question came first.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torchlint.semantic.project.files import Files

if TYPE_CHECKING:
    from torchlint.semantic.module import Module

_KEPT = 6_000_000
"""Characters of source whose analyses are remembered, but for those that are in use."""


class Analyses:
    """Makes and remembers analyses of files.

    Args:
        files: the files.
        analyse: gives the analysis of a file, which may not look at other files' facts, or None
            where it cannot be.
    """

    def __init__(self, files: Files, analyse: Callable[[str, str], Module | None]) -> None:
        self.files = files
        self.answers: dict[object, Any] = {}
        self._analyse = analyse
        self._modules: OrderedDict[str, tuple[Module | None, int]] = OrderedDict()
        self._in_use: set[str] = set()

    def view(self, files: Files) -> Analyses:
        """Return these analyses for one who asks."""
        seen = copy.copy(self)
        seen.files = files
        return seen

    def module(self, path: str) -> Module | None:
        """Return the analysis of one file, for its facts; None where there can be none."""
        self.files.trail.read.add(path)
        self.files.trail.helpers.add(path)
        self._in_use.add(path)
        if path in self._modules:
            self._modules.move_to_end(path)
            return self._modules[path][0]
        text = self.files.text(path)
        self._shrink(_KEPT - len(text or ""))
        found = self._analyse(path, text) if text is not None else None
        self._modules[path] = found, len(text or "")
        return found

    def knows(self, key: object, path: str) -> bool:
        """Say whether the answer to a question about a file is in `answers`; it then counts as
        asked again."""
        self.files.trail.read.add(path)
        self.files.trail.helpers.add(path)
        return key in self.answers

    def settle(self) -> None:
        """Free the analyses that are asked least, down to `_KEPT`; to be called when no answer from
        them is in use.

        Those that are asked until the next call are kept: they could not be freed, and would be
        made again where they are asked again. Each takes the place of one that is not asked.
        """
        self._in_use.clear()
        self._shrink(_KEPT)

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
