"""Which lines of a git working tree differ from a revision."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from torchlint.base.errors import UsageError
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.source.git import Git

_HUNK = regex(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_SUBMODULE = b"160000 "
"""What git's lists of files begin a submodule with."""
_ESCAPE = regex(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


@frozen
class ChangedLines:
    """The changed lines of one file: half-open ranges of 1-based rows, in order.

    A range of no rows stands for lines that were taken out before its row.
    """

    ranges: tuple[tuple[int, int], ...]

    def touches(self, first: int, last: int) -> bool:
        """Say whether one of these rows is changed, or something was taken out between them."""
        for start, end in self.ranges:
            if (start < end and start <= last and first < end) or (
                start == end and first < start <= last
            ):
                return True
        return False


ALL_LINES = ChangedLines(((1, 2**62),))
"""What is changed in a new file."""


@frozen
class Changes:
    """What differs from a revision in one repository.

    Args:
        root: the top folder of the working tree, absolute, links resolved.
        tracked: the names that git knows, under `root`.
        changed: the changed ones among them.
    """

    root: str
    tracked: frozenset[str] = field(default_factory=frozenset)
    changed: Mapping[str, ChangedLines] = field(default_factory=dict)

    def lines(self, path: str) -> ChangedLines | None:
        """Return the changed lines of a file (absolute, links resolved); None where there are
        none."""
        name = os.path.relpath(path, self.root).replace(os.sep, "/")
        return self.changed.get(name) if name in self.tracked else ALL_LINES


def changes_since(revision: str, root: str) -> Changes:
    """Compare a working tree with a revision.

    Args:
        revision: as git understands it; ``main...`` stands for where the current branch left main.
        root: the top folder of the working tree.

    Raises:
        UsageError: there is no git, no such revision, or git fails.
    """
    git = Git(os.path.realpath(root), f"--since {revision}")
    commit = commit_of(git, revision)
    tracked = frozenset(
        os.fsdecode(name) for name in git.run("ls-files", "-z").split(b"\0") if name
    )
    patch = git.run(
        "diff",
        *(
            "--unified=0 --inter-hunk-context=0 --no-color --no-ext-diff --no-textconv --text "
            "--find-renames"
        ).split(),
        *"--no-relative --ignore-submodules=all --submodule=short".split(),
        *"--diff-filter=d --src-prefix=a/ --dst-prefix=b/".split(),
        commit,
        "--",
    )
    return Changes(git.root, tracked, {os.fsdecode(name): lines for name, lines in _files(patch)})


def submodule_commit(revision: str, root: str, folder: str) -> str | None:
    """Return which commit of a submodule a revision of the repository around it names: None
    where it has none yet, and the revision itself for what is no submodule.

    Args:
        revision: as of `changes_since`.
        root: the top folder of the working tree around it.
        folder: the top folder of the submodule's own.

    Raises:
        UsageError: there is no git, no such revision, or git fails.
    """
    git = Git(os.path.realpath(root), f"--since {revision}")
    place = os.path.relpath(folder, git.root).replace(os.sep, "/")
    literal = {"GIT_LITERAL_PATHSPECS": "1"}
    if not git.run("ls-files", "--stage", "--", place, more=literal).startswith(_SUBMODULE):
        return revision
    row = git.run("ls-tree", commit_of(git, revision), "--", place, more=literal)
    return row.split()[2].decode("ascii") if row.startswith(_SUBMODULE) else None


def commit_of(git: Git, revision: str) -> str:
    """Return the name of a revision's commit.

    Raises:
        UsageError: there is no such revision.
    """
    left, dots, right = revision.partition("...")
    if not revision or "\0" in revision or any(word.startswith("-") for word in (left, right)):
        option = git.what.partition(" ")[0]
        raise UsageError(f"{option} {revision[:60]!r}: not the name of a revision")
    words = (
        ("merge-base", left, right or "HEAD")
        if dots
        else ("rev-parse", "--verify", f"{left}^{{commit}}")
    )
    found = git.run(*words, missing=True).decode("ascii", "replace").strip()
    if re.fullmatch(r"[0-9a-f]{40,64}", found) is None:
        shallow = os.path.lexists(os.path.join(git.root, ".git", "shallow"))
        more = (
            "; it is a shallow clone, which lacks older commits: git fetch --unshallow"
            if shallow
            else ""
        )
        raise UsageError(f"{git.what}: no such revision in {git.root}{more}")
    return found


def _files(patch: bytes) -> Iterator[tuple[bytes, ChangedLines]]:
    """Yield the names and changed lines of a patch's files."""
    lines = iter(patch.split(b"\n"))
    name = b""
    ranges: list[tuple[int, int]] = []
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk is not None and name:
            start, count = int(hunk[2]), int(hunk[3] or 1)
            ranges.append((start, start + count) if count else (start + 1, start + 1))
            _skip_hunk(lines, hunk)
        elif line.startswith(b"diff --git "):
            if name:
                yield name, ChangedLines(tuple(ranges))
            name, ranges = b"", []
        elif line.startswith(b"+++ "):
            name = _unquoted(line[4:]).removeprefix(b"b/")
    if name:
        yield name, ChangedLines(tuple(ranges))


def _skip_hunk(lines: Iterable[bytes], hunk: re.Match[bytes]) -> None:
    """Skip the lines of a hunk by their number: a line of the file may look like a header."""
    old, new = int(hunk[1] or 1), int(hunk[3] or 1)
    if old or new:
        for line in lines:
            old -= line[:1] in (b"-", b" ")
            new -= line[:1] in (b"+", b" ")
            if not (old or new):
                break


def _unquoted(name: bytes) -> bytes:
    """Return a file's name from a patch's header, where odd ones stand in quotes and some have a
    tab behind them."""
    if not name.startswith(b'"'):
        return name.removesuffix(b"\t")
    inner = name.rstrip(b"\t")[1:-1]
    return _ESCAPE.sub(
        lambda found: bytes([int(found[1], 8)]) if len(found[1]) == 3 else _letter(found[1]), inner
    )


def _letter(escaped: bytes) -> bytes:
    return _LETTERS.get(escaped, escaped)
