"""What git ignores: ``.gitignore`` from the repository's top down, and ``.git/info/exclude``.

Not read are the user's own ``core.excludesFile``, with which the same tree would give other results
on another machine, and the ``info/exclude`` of a linked worktree.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from torchlint.base.errors import SourceError
from torchlint.base.records import frozen
from torchlint.base.remembered import remembered
from torchlint.source.document import read_bytes
from torchlint.source.globs import GlobList

MAX_SIZE = 1_000_000
"""Bytes; a larger ``.gitignore`` is not read, with a note."""

_BAD_SHOWN = 3

Chain = tuple["IgnoreFile", ...]
"""The ignore files that hold for a directory, from the least to the most important."""


@frozen
class IgnoreFile:
    """The patterns of one file; `base` is the real directory they are relative to, `path` the file
    itself."""

    base: str
    path: str
    globs: GlobList


def reason_to_ignore(chain: Chain, path: str, is_directory: bool) -> str:
    """Return which pattern ignores the real `path` itself, or an empty string.

    The parents of `path` must be known not to be ignored.
    """
    for ignore in reversed(chain):
        relative = path[len(ignore.base.rstrip(os.sep)) + 1 :].replace(os.sep, "/")
        glob = ignore.globs.deciding(relative, is_directory)
        if glob is not None:
            return "" if glob.negated else f"ignored by '{glob.text}' in {ignore.path}"
    return ""


class GitIgnores:
    """Finds and reads ignore files, each once. `note` is told (path, reason) of those that cannot
    be used."""

    def __init__(self, root: str, note: Callable[[str, str], None]) -> None:
        self.root = root
        self.note = note

    @remembered
    def chain(self, directory: str) -> Chain:
        """Return the ignore files that hold for what lies in the real `directory`.

        Outside a git repository they start at the project root.
        """
        levels = [directory]
        while not os.path.lexists(os.path.join(levels[-1], ".git")):
            parent = os.path.dirname(levels[-1])
            if parent == levels[-1]:
                levels = levels[: levels.index(self.root) + 1] if self.root in levels else []
                break
            levels.append(parent)
        return tuple(ignore for level in reversed(levels) for ignore in self.own(level))

    @remembered
    def own(self, directory: str) -> Chain:
        """Return the ignore files in `directory` itself."""
        found = (
            self._read(directory, name)
            for name in (os.path.join(".git", "info", "exclude"), ".gitignore")
        )
        return tuple(ignore for ignore in found if ignore is not None)

    def _read(self, directory: str, name: str) -> IgnoreFile | None:
        path = os.path.join(directory, name)
        if not os.path.lexists(path):
            return None
        try:
            # As git does, a link is not followed: it could lead anywhere.
            data = read_bytes(path, path, MAX_SIZE, follow=False)
        except SourceError as error:
            self.note(path, f"not used: {str(error).removeprefix(path + ': ')}")
            return None
        text = os.fsdecode(data.removeprefix(b"\xef\xbb\xbf"))
        globs = GlobList.parse([line.removesuffix("\r") for line in text.split("\n")])
        for pattern, reason in globs.bad[:_BAD_SHOWN]:
            self.note(path, f"the pattern '{pattern}' is not used: {reason}")
        if len(globs.bad) > _BAD_SHOWN:
            self.note(path, f"{len(globs.bad) - _BAD_SHOWN} more patterns are not used")
        return IgnoreFile(directory, path, globs)
