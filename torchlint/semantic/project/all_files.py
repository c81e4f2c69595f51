"""Questions about all files of a project, each asked once and again when any file has changed: who
calls, what is used, what fails, which files run together."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from typing import Any

from torchlint.base.trail import Asked
from torchlint.semantic.code.text import spoken
from torchlint.semantic.project.broken import Broken
from torchlint.semantic.project.caller_files import CallerFiles
from torchlint.semantic.project.definitions import Definitions
from torchlint.semantic.project.files import Files
from torchlint.semantic.project.offered import Offered, is_packaged
from torchlint.semantic.project.programs import Meetings
from torchlint.semantic.project.reach import stem_of
from torchlint.semantic.project.scripts import Scripts
from torchlint.semantic.project.together import Together
from torchlint.semantic.project.used import Used


class AllFiles:
    """Answers questions about all files; what is read for it is noted for nobody, as who asks rests
    on the answer alone."""

    def __init__(self, files: Files, definitions: Definitions) -> None:
        self.files = files
        self.definitions = definitions
        self.together = Together(files, definitions)
        self.caller_files = CallerFiles(files, definitions, self.together)
        self.offered = Offered(files, self.together)
        self._started_files: list[Scripts] = []
        self._used: list[Used] = []
        self._imports_by_place: list[Meetings] = []
        self._broken: list[Broken] = []
        self._answers: Mapping[str, Callable[..., Any]] = {
            "alone": self.caller_files.is_alone,
            "broken": self._why_broken,
            "callers": self.caller_files.callers,
            "failing user": self._failing_user,
            "flag": self.caller_files.with_flag,
            "graphless": self.caller_files.may_be_graphless,
            "offered": self.offered.holds,
            "packaged": functools.partial(is_packaged, files),
            "often": self.caller_files.may_run_often,
            "reached": self.together.any_reaches,
            "says": self.together.say,
            "tested": self._is_tested,
            "used": self._is_used,
            "library": self._is_library,
            "started": self._started,
        }
        """By kind of question; each is given the file that it is about and the further words."""

    def answer(self, question: Asked) -> Any:
        """Return the answer to a question: its kind, the file that it is about and further words;
        None for a kind that there is not."""
        kind, path, *rest = question
        answer = self._answers.get(kind)
        return answer(path, *rest) if answer is not None else None

    def _why_broken(self, importer: str, dotted: str, *names: str) -> str | None:
        # What was installed may hold modules of a compiler.
        fails = self._imports_that_fail()
        return fails.why(importer, dotted, names) if not self.files.search.installed() else None

    def _failing_user(self, path: str, name: str) -> str | None:
        fails = self._imports_that_fail()
        words = name.split(".")
        for other in sorted(self.together.holding(" ".join((stem_of(path), *words))) - {path}):
            why = fails.file(other)
            text = self.files.text(other) or "" if why is not None else ""
            if all(any(True for _ in spoken(text, each)) for each in words):
                return f"`{os.path.relpath(other, self.files.search.root)}` fails at import: {why}"
        use = self._use()
        return use.misfit(path, name) if use is not None else None

    def _imports_that_fail(self) -> Broken:
        if not self._broken:
            self._broken.append(Broken(self.files, self.together))
        return self._broken[0]

    def _is_used(self, path: str, name: str) -> bool | None:
        use = self._use()
        return use.used(path, name) if use is not None else None

    def _is_tested(self, path: str, name: str) -> bool:
        use = self._use()
        return use is not None and use.self_tested(path, name)

    def _is_library(self, _: str) -> bool:
        scripts = self._scripts()
        return scripts is not None and (bool(self.files.search.installed()) or scripts.no_program())

    def _started(self, path: str) -> tuple[str, ...]:
        """Return the scripts that run a file, as they import it or are it, the likeliest first;
        none where the project has too many files. What a script may import by a text is not looked
        at: nothing rests on the answer."""
        every, scripts = self.files.every(), self._scripts()
        if every is None or scripts is None:
            return ()
        if not self._imports_by_place:
            found = lambda each: self.together.found_from(each, self.together.imported_by(each))  # noqa: E731
            self._imports_by_place.append(Meetings(frozenset(every), found))
        return scripts.programs(self._imports_by_place[0].above(path))

    def _scripts(self) -> Scripts | None:
        """Return what says which files are started; None where the project has too many."""
        every = self.files.every()
        if every is not None and not self._started_files:
            search, read = self.files.search, self.files.text
            self._started_files.append(Scripts(search, read, every, self.offered.holds))
        return self._started_files[0] if every is not None else None

    def _use(self) -> Used | None:
        """Return what says what the project uses; None where it has too many files."""
        every, scripts = self.files.every(), self._scripts()
        if every is None or scripts is None:
            return None
        if not self._used:
            program = functools.partial(self.together.program, every=every)
            fails = self._imports_that_fail().file
            known = (self.files.search, self.definitions, self.files.text, every, program)
            says = (self.together.holding, self.together.may_match)
            self._used.append(Used(*known, *says, fails, scripts))
        return self._used[0]
