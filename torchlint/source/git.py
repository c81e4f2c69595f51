"""Calls git in a working tree that belongs to a stranger: the one place that does.

A repository comes with the code that is checked, and its configuration can name programs for git to
run. Git is called so that it runs none, and reaches no other machine: no shell, no file system
monitor, no hooks, no external diff, no text conversion, no filters, no pager, no fetching of what a
partial clone lacks.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping

from torchlint.base.errors import UsageError
from torchlint.base.regex import regex
from torchlint.source.paths import kind_of

_TIMEOUT = 60
"""Seconds for one call of git."""
_KEPT = regex(
    r"GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|PARAMETERS|COUNT|(KEY|VALUE)_\d+)"
    r"|GIT_ALTERNATE_OBJECT_DIRECTORIES|GIT_(AUTHOR|COMMITTER)_(NAME|EMAIL|DATE)"
)
"""Git's variables that stay: where the user's own configuration lies (``safe.directory``, say),
more objects, and whom a commit is by.

All others go. Some lead git to another place than the one that is named (``GIT_DIR`` and its like,
which git sets for hooks), others change what it prints (``GIT_DIFF_OPTS``), or which configuration
``git config`` reads (``GIT_CONFIG``).
"""
_SETTINGS = {
    "core.alternateRefsCommand": "",
    "core.askPass": "",
    "core.attributesFile": os.devnull,
    "core.checkStat": "default",
    "core.editor": "false",
    "core.excludesFile": os.devnull,
    "core.fsmonitor": "false",
    "core.gitProxy": "none",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.sshCommand": "false",
    "core.trustctime": "true",
    "credential.helper": "",
    "diff.external": "",
    "diff.ignoreSubmodules": "all",
    "diff.orderFile": os.devnull,
    "gc.auto": "0",
    "gpg.program": "false",
    "i18n.commitEncoding": "UTF-8",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "protocol.allow": "never",
    "submodule.recurse": "false",
}
"""What holds instead of the repository's word."""
_ENVIRONMENT = {
    "GIT_ALLOW_PROTOCOL": "none",  # also where git is too old to know the next one
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "LC_ALL": "C",
}
_DRIVERS = {"clean": "", "smudge": "", "process": "", "required": "false"}
"""What each filter of the configuration is set to."""
_UNKNOWN = (
    "Needed a single revision",
    "Not a valid object name",
    "Not a valid commit name",
    "unknown revision",
)
"""Words of git where it knows no such revision."""
_LACKING = (
    "unable to read",
    "could not fetch",
    "lazy fetching disabled",
    "bad object",
    "missing blob",
    "promisor",
)
"""Words of git where an object is not there."""


class GitError(UsageError):
    """Git cannot be run, or cannot answer; the message is one line that starts with what was asked
    for."""


class Git:
    """Calls git in one working tree.

    Args:
        root: the top folder of the working tree, absolute, links resolved.
        what: what the user asked for, which messages start with.

    Raises:
        GitError: a filter that cannot be switched off, or a pipe where git reads a file and would
            wait for ever.
    """

    def __init__(self, root: str, what: str) -> None:
        self.root = root
        self.what = what
        for path, mode in _odd_files(os.path.join(root, ".git")):
            raise GitError(
                f"{what}: {os.path.relpath(path, root)} is {kind_of(mode)}, not a regular file"
            )
        self._settings = dict(_SETTINGS)
        filters = self.run(
            "config", "-z", "--name-only", "--get-regexp", r"^filter\.", codes=(0, 1)
        )
        for name in filters.split(b"\0"):
            # Taken apart at the last dot: what stands before it may hold anything.
            driver, _, last = os.fsdecode(name).rpartition(".")
            if "=" in driver:  # -c would take it for another name, and the filter would run
                raise GitError(
                    f"{what}: git would run the filter {driver!r}, which cannot be switched off"
                )
            if last in _DRIVERS:
                self._settings[f"{driver}.{last}"] = _DRIVERS[last]

    def run(
        self,
        *words: str,
        codes: tuple[int, ...] = (0,),
        missing: bool = False,
        given: bytes = b"",
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return what git prints; nothing where it fails and may, as what it is asked for is
        `missing`.

        Args:
            words: the command and its arguments.
            codes: the exit codes that are no failure.
            missing: whether what is asked for may not be there.
            given: what it reads from standard input.
            more: variables of this call.

        Raises:
            GitError: there is no git, or it fails, takes too long, or would have to fetch what is
                missing.
        """
        try:
            done = subprocess.run(
                command(self.root, self._settings, *words),
                env={**environment(self.root), **(more or {})},
                input=given,
                capture_output=True,
                timeout=_TIMEOUT,
                check=False,
            )
        except FileNotFoundError:
            raise GitError(f"{self.what} needs git, which is not installed") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"{self.what}: git {words[0]} took longer than {_TIMEOUT} s") from None
        except OSError as error:
            raise GitError(f"{self.what}: git cannot be run: {error.strerror or error}") from None
        if done.returncode in codes:
            return done.stdout
        reason = " ".join(done.stderr.decode("utf-8", "backslashreplace").split())
        if (
            missing
            and "ambiguous" not in reason
            and (not reason or any(word in reason for word in _UNKNOWN))
        ):
            return b""
        if any(word in reason for word in _LACKING):
            raise GitError(
                f"{self.what}: this clone lacks objects that git {words[0]} needs, and they are "
                "not fetched, as that "
                "can start programs that the repository names; fetch them yourself first "
                f"({reason[:200]})"
            )
        raise GitError(f"{self.what}: git {words[0]} failed: {reason[:300]}")


def working_tree(folder: str) -> str:
    """Return the top of the working tree that holds a folder (absolute), or an empty string."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return ""
        folder = above
    return folder


def _odd_files(folder: str) -> Iterator[tuple[str, int]]:
    """Yield what git would open as a file in its folder although it is a pipe, a socket or a
    device, with its mode."""
    for path in (os.path.join(folder, *names) for names in ((), ("info",), ("objects", "info"))):
        try:
            mode = os.stat(path).st_mode
            inside = [entry.path for entry in os.scandir(path)] if stat.S_ISDIR(mode) else [path]
        except OSError:  # what is wrong with it, git says
            continue
        for each in inside:
            with contextlib.suppress(OSError):
                mode = os.stat(each).st_mode
                if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                    yield each, mode


def command(root: str, settings: Mapping[str, str], *words: str) -> list[str]:
    """Return the command line of one call.

    Raises:
        FileNotFoundError: there is no git.
    """
    program = shutil.which("git", path=_absolute(os.environ.get("PATH", os.defpath)))
    if program is None or not os.path.isabs(program):
        raise FileNotFoundError("git")
    options = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    # core.worktree of the repository would have another folder compared.
    places = ["-C", root, "--work-tree", root]
    return [program, *options, "--no-pager", "--no-optional-locks", *places, *words]


def environment(root: str) -> dict[str, str]:
    """Return the variables of one call."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.upper().startswith("GIT_") or _KEPT.fullmatch(name)
    }
    if "PATH" in kept:
        kept["PATH"] = _absolute(kept["PATH"])
    return {**kept, **_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": os.path.dirname(root)}


def _absolute(path: str) -> str:
    """Return a search path without its relative entries: these would be folders of what is
    checked."""
    return os.pathsep.join(entry for entry in path.split(os.pathsep) if os.path.isabs(entry))
