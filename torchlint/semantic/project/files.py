"""The files of a project as each asker reads them: texts, the names that they bind, their calls as
they are written, and the answers to questions about all of them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torchlint.base.remembered import TEXTS
from torchlint.base.trail import Asked, Dependencies
from torchlint.semantic.project.calls import Calls, written
from torchlint.semantic.project.index import Index, index
from torchlint.semantic.project.search import Search
from torchlint.source.python import parsed


class Files:
    """Reads and remembers the files below one root.

    Each file asks through a view of its own, which notes what the answers rest on; the memory is
    one for all.

    Args:
        root: the project's folder; imports resolve under it.
        read: gives the text of a file, or None where it cannot be read.
        answer: answers a question about all files.
    """

    def __init__(
        self,
        root: str,
        read: Callable[[str], str | None],
        answer: Callable[[Asked], Any],
    ) -> None:
        self.search = Search(root)
        self.trail = self.search.trail
        self.asked: dict[Asked, Any] = {}
        self.whole = False
        """Whether all files may be looked at: what is found so is noted by its question alone."""
        self._read = read
        self._answer = answer
        self._indexes: dict[str, Index] = {}
        self._texts: dict[str, str | None] = {}
        self._calls: dict[str, Calls] = {}

    def view(self, trail: Dependencies, *, whole: bool = False) -> Files:
        """Return these files for one who asks, whose answers are noted in `trail`."""
        seen = copy.copy(self)
        seen.trail = trail
        seen.whole = whole
        seen.search = self.search.view(trail)
        return seen

    def index(self, path: str) -> Index:
        """Return the names of a file; none where it cannot be read."""
        self.trail.read.add(path)
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
        self.trail.read.add(path)
        if path not in self._texts:
            self._texts[path] = self._read(path)
        return self._texts[path]

    def says(self, path: str, text: str) -> bool:
        """Say whether a file's text holds these characters: a cheap look before its analysis is
        asked for."""
        self.trail.read.add(path)
        return text in (self.text(path) or "")

    def calls_in(self, path: str) -> Calls:
        """Return the calls of a file as they are written."""
        if path not in self._calls:
            self._survey(path)
        return self._calls[path]

    def ask(self, question: Asked) -> Any:
        """Return the answer to a question about all files, which is worked out once.

        Who asks rests on the answer alone, and not on all that was read for it: what the cache
        holds is asked again when any file has changed (see `torchlint.run.cache`).
        """
        self.trail.asked.add(question)
        if question not in self.asked:
            self.asked[question] = self._answer(question)
        return self.asked[question]

    def every(self) -> tuple[str, ...] | None:
        """Return all files, which only a question about all of them may read: see `ask`."""
        assert self.whole, "who looks at all files is to be asked"
        return self.search.every_file()

    def forget_texts(self) -> None:
        """Free the texts where they are many."""
        if len(self._texts) > TEXTS:
            self._texts.clear()
