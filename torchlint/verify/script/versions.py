"""Two whole versions of a project, which are compared as a program is with and without a fix."""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.program.command import Command
from torchlint.program.machine.copying import LARGE_BYTES, walk
from torchlint.verify.fixes import FixUnit, Rows
from torchlint.verify.model import Expected

CHANGE = "version"
"""The name of the one variant, and of what it changes."""
_WORDS = frozenset({".md", ".rst"})
"""Ends of files that no program runs."""
_LONGEST_DIFF = 1_000_000


@frozen
class Version:
    """A version of the project: what it is called, the folder that copies of it are made from, and
    the revision that it is, where it is one."""

    name: str
    folder: Path
    commit: str = ""


@dataclass(frozen=True)
class Versions:
    """What is compared with what: the older version stands where the original does, the newer one
    where the program with a fix does."""

    before: Version
    after: Version

    @property
    def folders(self) -> tuple[Path, Path]:
        """The folders of both."""
        return self.before.folder, self.after.folder

    @property
    def commits(self) -> dict[str, str]:
        """The revisions that were compared, by what they are called."""
        return {each.name: each.commit for each in (self.before, self.after) if each.commit}

    @cached_property
    def changed(self) -> tuple[str, ...]:
        """The files that differ, by posix path under the project."""
        one, two = map(_files, self.folders)
        return tuple(
            sorted(
                name
                for name in one.keys() | two.keys()
                if name not in one or name not in two or _differ(one[name], two[name])
            )
        )

    def demand(self, command: Command, root: Path, cwd: Path) -> None:
        """See that both have the program.

        Args:
            command: the program.
            root: the project.
            cwd: where it is run, in the project.

        Raises:
            UsageError: a version has not.
        """
        if command.script is not None:
            names = [command.arguments[command.script]]
        else:
            module = command.arguments[1].replace(".", "/")
            names = [f"{place}{module}{end}" for place in ("", "src/") for end in _ENDS]
        places = [Path(os.path.relpath(cwd / name, root)) for name in names]
        there = [any((each / place).is_file() for place in places) for each in self.folders]
        for version, has in zip((self.before, self.after), there, strict=True):
            # A module that neither has is an installed one.
            if not has and (command.script is not None or any(there)):
                raise UsageError(
                    f"{version.name} has no {places[0].as_posix()}, so the program cannot be run "
                    "there"
                )

    def unit(self) -> FixUnit:
        """Return the change as what is applied: a whole version may compute what it likes, but is
        asked for the same results but for rounding."""
        return FixUnit(
            id=CHANGE,
            codes=(),
            title=self.after.name,
            where="",
            expected=Expected.CLOSE,
            note="",
            replacements=(),
            places=tuple(self._places()),
        )

    def diff(self) -> str:
        """Return what differs as a unified diff, without what is no text."""
        parts: list[str] = []
        for name in self.changed:
            before, after = (_text(folder / name) for folder in self.folders)
            if before is not None and after is not None:
                lines = difflib.unified_diff(
                    before.splitlines(keepends=True),
                    after.splitlines(keepends=True),
                    f"a/{name}",
                    f"b/{name}",
                )
                parts += [line if line.endswith("\n") else f"{line}\n" for line in lines]
        return "".join(parts)[:_LONGEST_DIFF]

    def _places(self) -> Iterator[Rows]:
        """Yield the rows of the older version whose running shows that the change matters: of
        changed functions their bodies, of a changed top level all. None where anything else
        differs, of which nobody can see whether it is used."""
        found: list[Rows] = []
        for name in self.changed:
            if os.path.splitext(name)[1] in _WORDS:
                continue
            before, after = (folder / name for folder in self.folders)
            if not (name.endswith(".py") and before.is_file() and after.is_file()):
                return
            try:
                found += _changed_rows(name, _text(before) or "", _text(after) or "")
            except (SyntaxError, ValueError):
                return
        yield from found


_ENDS = (".py", "/__main__.py")


def _changed_rows(name: str, before: str, after: str) -> Iterator[Rows]:
    """Yield the functions of a file in which a line differs, and the whole file for a line outside
    of any."""
    old = before.splitlines()
    bodies = [
        (node.body[0].lineno, node.end_lineno or 0)
        for node in ast.walk(ast.parse(before))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    matcher = difflib.SequenceMatcher(None, old, after.splitlines(), autojunk=False)
    for kind, start, end, _, _ in matcher.get_opcodes():
        if kind == "equal":
            continue
        first, last = (start + 1, end) if end > start else (start, start + 1)
        around = [(low, high) for low, high in bodies if low <= first and last <= high]
        yield Rows(name, *max(around, default=(1, len(old) + 1)))


def _files(root: Path) -> dict[str, Path]:
    return {
        Path(os.path.relpath(entry.path, root)).as_posix(): Path(entry.path)
        for entry in walk(root, [])
        if not entry.is_dir(follow_symlinks=False)
    }


def _differ(one: Path, two: Path) -> bool:
    """Say whether two files differ; of large ones, which are linked to, size and time count."""
    try:
        if one.is_symlink() and two.is_symlink():
            return os.readlink(one) != os.readlink(two)
        states = one.stat(), two.stat()
        if os.path.samestat(*states):
            return False
        if states[0].st_size != states[1].st_size:
            return True
        if states[0].st_size > LARGE_BYTES:
            return states[0].st_mtime_ns != states[1].st_mtime_ns
        return one.read_bytes() != two.read_bytes()
    except OSError:  # of a broken link, or of what cannot be read: it is in no copy either
        return False


def _text(path: Path) -> str | None:
    """Return a file's text, empty where there is none; None of what is no text."""
    try:
        return path.read_text("utf-8") if path.is_file() else ""
    except (OSError, ValueError):
        return None
