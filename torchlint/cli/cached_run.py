"""The cached run of a command: the last one word for word, where the states of files say that
nothing has changed.

A run that would say the same again need not find its files, know its rules or look at a single
report. What a run read, looked for, and is made of is listed with it, and one digest of all their
states decides. This module is imported before any other part of torchlint, and imports little
itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.base.places import CACHE_NAME, VARIABLES
from torchlint.cli.terminal import terminal_width
from torchlint.run.cache_folder import CacheFolder, identity_of, on_ci, owned
from torchlint.source.paths import real_folder_of

if TYPE_CHECKING:
    from torchlint.cli.scope import Scope
    from torchlint.run.cache import Cache

Outcome = tuple[str, str, int]
"""What a run wrote to standard output and standard error, and its exit code."""
_LARGEST = 16_000_000
"""Characters of the longest report that is stored."""
_ENVIRONMENT = (
    "CI_PROJECT_DIR",
    "CLICOLOR_FORCE",
    "FORCE_COLOR",
    "HOME",
    "NO_COLOR",
    "TERM",
    "USERPROFILE",
    *VARIABLES.values(),
)
_GIT = (".gitignore", os.path.join(".git", "info", "exclude"))
_MISSING = (0, 0, -1, 0)
Watched = Mapping[str, Sequence[str]]
"""Names of files by folder; an empty name stands for the folder itself."""


def look_up(arguments: Sequence[str]) -> Outcome | None:
    """Return what this command came to the last time, or None where that is not known or may have
    changed."""
    if "--no-cache" in arguments or "-" in arguments or on_ci() or sys.platform == "win32":
        return None
    try:
        name = _name(arguments)
        for path, identity in _places(arguments, name):
            try:
                found = CacheFolder(path, identity).read(name)
                if (
                    found is None
                    or _signature(found["watched"], found["there"]) != found["signature"]
                ):
                    continue
                out, err, code = found["outcome"]
            except (AttributeError, KeyError, OSError, OverflowError, TypeError, ValueError):
                continue
            if isinstance(out, str) and isinstance(err, str) and code in (0, 1):
                return out, err, int(code)
        return None
    except OSError:  # the working folder was deleted, or a cache as it was looked at
        return None


def store(
    arguments: Sequence[str], found: Scope, cache: Cache, outcome: Outcome, others: Iterable[str]
) -> None:
    """Store what a command came to, if all that it saw is older than the run, so that no change can
    go unseen.

    `others` are paths that the outcome depends on besides what `found` and `cache` know of.
    """
    folder = cache.folder(found.settings)
    if folder is None or cache.exact or cache.warning or len(outcome[0]) > _LARGEST:
        return
    watched: dict[str, list[str]] = {}
    for path in sorted({*_watched(found, cache), *others}):
        head, tail = (path, "") if path in found.folders else os.path.split(path)
        watched.setdefault(head, []).append(tail)
    there = sorted({os.path.join(above, ".git") for above in _above(found.named)})
    try:
        signature = _signature(watched, there, folder.settled)
        early = all(map(folder.long_settled, filter(os.path.exists, _read_early(found))))
    except (OSError, OverflowError):
        return
    if signature and early:
        value = {
            "watched": watched,
            "there": there,
            "signature": signature,
            "outcome": list(outcome),
        }
        folder.write(_name(arguments), value)


def _name(arguments: Sequence[str]) -> str:
    """Return the file name for a command: the digest of all that it depends on and that is no
    file."""
    try:
        here = os.getcwd()
    except OSError:  # it was deleted
        here = ""
    terminal = sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    width = terminal_width(sys.stdout)
    values = [
        __version__,
        sys.version,
        sys.prefix,
        sys.path,
        here,
        terminal,
        width,
        user,
        *arguments,
    ]
    values += [os.environ.get(variable) for variable in _ENVIRONMENT]
    return f"run-{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:32]}.json"


def _places(arguments: Sequence[str], name: str) -> Iterator[tuple[str, str]]:
    """Yield the cache folders that hold a file of this name, with their identity."""
    # Before the table of keys can be had, which takes longer to import than all this; a folder that
    # is named otherwise, or twice, is a miss and no more, as the name of the file holds all
    # arguments.
    for index, argument in enumerate(arguments):
        if argument.startswith("--cache-dir"):
            value = argument.partition("=")[2] or "".join(arguments[index + 1 : index + 2])
            yield os.path.realpath(value), ""
            return
    if named := os.environ.get(VARIABLES["cache-dir"]):
        yield os.path.realpath(named), ""
        return
    starts = [
        argument
        for argument in arguments[1:]
        if not argument.startswith("-") and os.path.exists(argument)
    ]
    seen: set[str] = set()
    for start in starts[:4] or [os.curdir]:
        above = real_folder_of(start)
        while above not in seen:
            seen.add(above)
            path = os.path.join(above, CACHE_NAME)
            if os.path.lexists(os.path.join(path, name)):
                state = os.lstat(path)
                if stat.S_ISDIR(state.st_mode) and owned(state):
                    yield path, identity_of(state)
            above = os.path.dirname(above)


def _signature(
    watched: Watched, there: Iterable[str], settled: Callable[[os.stat_result], bool] | None = None
) -> str:
    """Return the digest of the states of files; empty where one is not `settled`."""
    states = array("q")
    for folder, names in watched.items():
        for name in names:
            try:
                found = os.stat(f"{folder}{os.sep}{name}" if name else folder)
            except (OSError, ValueError):
                states.extend(_MISSING)
                continue
            if settled is not None and not settled(found):
                return ""
            states.extend((found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino))
    states.extend(os.path.lexists(path) for path in there)
    return hashlib.sha256(states.tobytes()).hexdigest()


def _above(paths: Iterable[str]) -> Iterator[str]:
    """Yield each path and the folders above it, as named and with links resolved, some more than
    once."""
    for path in paths:
        for start in (os.path.abspath(path), os.path.realpath(path)):
            while True:
                yield start
                if os.path.dirname(start) == start:
                    break
                start = os.path.dirname(start)


def _watched(found: Scope, cache: Cache) -> Iterator[str]:
    """Yield the paths on whose state a run depends, whether there is something or not."""
    from torchlint.source.former import former_content

    yield from found.folders
    yield from found.marks
    yield from (os.path.abspath(path) for path in found.named)
    for target in found.targets:
        yield target.found.path
        if former := former_content(target.found.path):
            yield former
    yield from _read_early(found)
    yield from _modules(found, cache)
    yield from _watched_files(cache)


def _read_early(found: Scope) -> Iterator[str]:
    """Yield the paths that were looked at before the folder of the cache was known, and so before
    the run's time."""
    from torchlint.settings.dependencies import lists_in, watched
    from torchlint.settings.files import NAMES, read_chain
    from torchlint.settings.line_length import watched as formatters
    from torchlint.settings.load import PROJECT_MARKS

    for above in set(_above(found.named)) - found.folders:
        yield from (os.path.join(above, name) for name in (*NAMES, *_GIT, *PROJECT_MARKS))
    for settings in {found.settings, *(target.settings for target in found.targets)}:
        yield from watched(settings.root)
        yield from formatters(settings.root)
        if settings.config:
            yield from watched(os.path.dirname(os.path.realpath(settings.config)))
            yield from (layer.path for layer in read_chain(settings.config))
    for folder in found.declaring:  # What is new in a watched folder needs no word of its own.
        yield from lists_in(folder) if folder in found.folders else watched(folder)


def _modules(found: Scope, cache: Cache) -> Iterator[str]:
    """Yield the other files that reports depend on; what is absent from a watched folder needs no
    word of its own."""
    from torchlint.base.trail import NO_MODULE, NOTHING

    for path, state in set(cache.facts()):
        absent = state in (NOTHING, NO_MODULE)
        if absent and os.path.dirname(path) in found.folders:
            continue
        yield path
        if state == NO_MODULE:
            yield f"{path}.py"


def _watched_files(cache: Cache) -> Iterator[str]:
    """Yield torchlint's own files, those of plugins, and the folders where more of these would be
    installed."""
    import torchlint
    from torchlint.run.cache import PARTS, libcst_version_file, own_files, plugin_files

    package = os.path.dirname(os.path.abspath(torchlint.__file__))
    yield from sys.path
    yield libcst_version_file()
    yield from own_files(package, (*PARTS, "cli", "manual", "report"))
    yield from plugin_files(cache.catalog)
    yield from {os.path.dirname(info.path) for info in cache.catalog.rules}
