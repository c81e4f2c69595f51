"""Which lines of a git working tree differ from a revision.

A repository comes with the code that is checked, and its configuration can name programs for git to run. Git is called
so that it runs none: no shell, no file system monitor, no hooks, no external diff, no text conversion, no filters.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from torchlint.base.errors import UsageError

_TIMEOUT = 120
"""Seconds for one call of git."""
_PLACES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")
"""Variables that git sets for hooks, and that would lead it to another place than the one named."""
_SAFE = ("core.fsmonitor=", f"core.hooksPath={os.devnull}", "core.quotePath=false", "core.pager=cat", "diff.external=")
_ENVIRONMENT = {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"}
_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """The changed lines of one file: half-open ranges of 1-based rows, in order.

    A range of no rows stands for lines that were taken out before its row.
    """

    ranges: tuple[tuple[int, int], ...]

    def touches(self, first: int, last: int) -> bool:
        """Say whether one of these rows is changed, or something was taken out between them."""
        for start, end in self.ranges:
            if (start < end and start <= last and first < end) or (start == end and first < start <= last):
                return True
        return False


ALL_LINES = ChangedLines(((1, 2**62),))
"""What is changed in a new file."""


@dataclass(frozen=True, slots=True)
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
        """Return the changed lines of a file (absolute, links resolved); None where there are none."""
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
    if not revision or revision.startswith("-") or "\0" in revision:
        raise UsageError(f"--since {revision[:60]!r}: not the name of a revision")
    git = _Git(os.path.realpath(root), revision)
    commit = git.commit()
    tracked = frozenset(os.fsdecode(name) for name in git.run("ls-files", "-z").split(b"\0") if name)
    patch = git.run(
        "diff",
        *"--unified=0 --inter-hunk-context=0 --no-color --no-ext-diff --no-textconv --text --find-renames".split(),
        *"--no-relative --ignore-submodules=all --diff-filter=d --src-prefix=a/ --dst-prefix=b/".split(),
        commit,
        "--",
    )
    return Changes(git.root, tracked, {os.fsdecode(name): lines for name, lines in _files(patch)})


class _Git:
    """Calls git in one working tree."""

    def __init__(self, root: str, revision: str) -> None:
        self.root = root
        self.revision = revision
        self.settings = list(_SAFE)
        filters = self.run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", codes=(0, 1))
        for name in filters.split(b"\0"):
            # Taken apart at the last dot: what stands before it may hold anything.
            driver, _, last = os.fsdecode(name).rpartition(".")
            if "=" in driver:  # -c would take it for another name, and the filter would run
                raise UsageError(
                    f"--since {revision}: git would run the filter {driver!r}, which cannot be switched off"
                )
            if last in ("clean", "smudge", "process"):
                self.settings.append(f"{driver}.{last}=")
            if last == "required":
                self.settings.append(f"{driver}.{last}=false")

    def commit(self) -> str:
        """Return the name of the revision's commit."""
        left, dots, right = self.revision.partition("...")
        words = ("merge-base", left, right or "HEAD") if dots else ("rev-parse", "--verify", f"{left}^{{commit}}")
        if any(word.startswith("-") for word in (left, right)):
            raise UsageError(f"--since {self.revision[:60]!r}: not the name of a revision")
        found = self.run(*words, missing=True).decode("ascii", "replace").strip()
        if re.fullmatch(r"[0-9a-f]{40,64}", found) is None:
            shallow = os.path.lexists(os.path.join(self.root, ".git", "shallow"))
            more = "; it is a shallow clone, which lacks older commits: git fetch --unshallow" if shallow else ""
            raise UsageError(f"--since {self.revision}: no such revision in {self.root}{more}")
        return found

    def run(self, *words: str, codes: tuple[int, ...] = (0,), missing: bool = False) -> bytes:
        """Return what git prints; nothing where it fails and may, as what it is asked for is `missing`."""
        options = [part for setting in self.settings for part in ("-c", setting)]
        command = ["git", *options, "--no-pager", "--no-optional-locks", "-C", self.root, *words]
        environment = {name: value for name, value in os.environ.items() if name not in _PLACES}
        try:
            done = subprocess.run(
                command,
                env={**environment, **_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": os.path.dirname(self.root)},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except FileNotFoundError:
            raise UsageError("--since needs git, which is not installed") from None
        except subprocess.TimeoutExpired:
            raise UsageError(f"--since {self.revision}: git {words[0]} took longer than {_TIMEOUT} s") from None
        except OSError as error:
            raise UsageError(f"--since {self.revision}: git cannot be run: {error.strerror or error}") from None
        if done.returncode not in codes:
            reason = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
            if missing and not any(word in reason for word in ("ambiguous", "dubious", "not a git repository")):
                return b""
            raise UsageError(f"--since {self.revision}: git {words[0]} failed: {reason[:300]}")
        return done.stdout


def _files(patch: bytes) -> Iterator[tuple[bytes, ChangedLines]]:
    """Yield the names and changed lines of a patch's files."""
    lines = iter(patch.split(b"\n"))
    name = b""
    ranges: list[tuple[int, int]] = []
    for line in lines:
        hunk = _HUNK.match(line)
        if hunk is not None and name:
            ranges.append(_range(hunk))
            _skip_hunk(lines, hunk)
        elif line.startswith(b"diff --git "):
            if name:
                yield name, ChangedLines(tuple(ranges))
            name, ranges = b"", []
        elif line.startswith(b"+++ "):
            name = _unquoted(line[4:]).removeprefix(b"b/")
    if name:
        yield name, ChangedLines(tuple(ranges))


def _range(hunk: re.Match[bytes]) -> tuple[int, int]:
    start, count = int(hunk[2]), int(hunk[3] or 1)
    return (start, start + count) if count else (start + 1, start + 1)


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
    """Return a file's name from a patch's header, where odd ones stand in quotes and some have a tab behind them."""
    if not name.startswith(b'"'):
        return name.removesuffix(b"\t")
    inner = name.rstrip(b"\t")[1:-1]
    return _ESCAPE.sub(lambda found: bytes([int(found[1], 8)]) if len(found[1]) == 3 else _letter(found[1]), inner)


def _letter(escaped: bytes) -> bytes:
    return _LETTERS.get(escaped, escaped)
