"""``--watch``: check again whenever something has changed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torchlint.base.errors import TorchlintError
from torchlint.catalog.rules import load_catalog
from torchlint.cli.options import Given
from torchlint.cli.output import complain, emit
from torchlint.cli.scope import scope
from torchlint.cli.terminal import is_terminal
from torchlint.report.kit.words import visible
from torchlint.settings.files import find_config
from torchlint.source.discover import SkipKind

_WAITS = "torchlint: watching for changes (Ctrl-C ends)"
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"
_PAUSE = 1.0
"""Seconds between looks where watchfiles is not installed."""
_State = dict[str, tuple[int, int, int]]


def watch(given: Given, check: Callable[[Given], int]) -> int:
    """Check now and after every change, until the user interrupts.

    A file counts as changed when it is another one than before, or is there or not: also a
    configuration and a baseline. What breaks a later run is said, and the next change is waited
    for.

    Args:
        given: the parameters of the command.
        check: checks once.

    Raises:
        TorchlintError: the first run cannot start.
        KeyboardInterrupt: the user gave up.
    """
    wake_ups = _wake_ups(given["paths"] or (os.curdir,))
    before = _state(given)
    check(given)
    complain(_WAITS)
    said = ""
    for _ in wake_ups:
        try:
            now = _state(given)
            if now == before:
                continue
            before, said = now, ""
            if is_terminal(sys.stdout):
                emit(_CLEAR)
            check(given)
        except TorchlintError as error:
            before = {}  # the next look that succeeds is followed by a run
            if str(error) == said:
                continue
            said = str(error)
            complain(f"torchlint: error: {visible(said)}")
        complain(_WAITS)
    return 0


def _state(given: Given) -> _State:
    """Return the state of all that decides on a run, as far as it lies where the user looks."""
    found = scope(given, load_catalog())
    paths = {target.found.path for target in found.targets}
    for settings in {found.settings, *(target.settings for target in found.targets)}:
        paths.update(path for path in (settings.config, settings.baseline) if path)
    paths.update(config for path in found.named if (config := find_config(path)))
    # What is excluded decides on nothing: the cache, say, which the first run makes.
    skipped = (skip.filename for skip in found.skipped if skip.kind is not SkipKind.EXCLUDED)
    return {path: _stamp(path) for path in paths} | dict.fromkeys(skipped, (0, 0, 0))


def _stamp(path: str) -> tuple[int, int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def _wake_ups(paths: tuple[str, ...]) -> Iterator[object]:
    """Yield whenever something may have changed near the paths."""
    try:
        from watchfiles import watch as changes
    except ImportError:
        return _ticks()
    folders = {
        path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path)) for path in paths
    }
    folders = {folder for folder in folders if os.path.isdir(folder)}
    if not folders:
        return _ticks()
    return _noticed(
        changes(
            *folders,
            watch_filter=None,
            debounce=300,
            rust_timeout=500,
            yield_on_timeout=True,
            raise_interrupt=True,
        )
    )


def _noticed(changes: Iterable[set[Any]]) -> Iterator[object]:
    """Yield what changed, and once nothing: what changed before the system was asked to tell goes
    unnoticed else."""
    first = True
    for changed in changes:
        if changed or first:
            yield changed
        first = False


def _ticks() -> Iterator[object]:
    while True:
        time.sleep(_PAUSE)
        yield None
