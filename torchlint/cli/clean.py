"""``torchlint clean``: remove what torchlint keeps between runs, and what killed runs left
behind."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

import click

from torchlint.base.errors import UsageError
from torchlint.base.places import is_temporary
from torchlint.cli.options import from_environment, in_order, overrides, table_options
from torchlint.cli.output import complain, emit
from torchlint.report.kit.words import pluralise, visible, visible_path
from torchlint.run.cache_folder import remove
from torchlint.settings.files import find_config
from torchlint.settings.load import load_settings
from torchlint.source.discover import DEFAULT_EXCLUDE

_YOUNG = 60.0
"""Seconds for which a temporary file may still be somebody's."""


@click.command("clean")
@click.argument("paths", nargs=-1)
@in_order(table_options("clean"))
def clean_command(paths: tuple[str, ...], **given: Any) -> int:
    """Remove the caches of the projects that PATHS lie in (default: here), and temporary files of
    killed runs.

    Exit code: 0, or 1 when something could not be removed.
    """
    for path in paths:
        if not os.path.exists(path):
            raise UsageError(f"{visible_path(path)}: No such file or directory")
    typed = {key: value for key, value in overrides(given).items() if value is not None}
    asked = {**from_environment(given), **typed}
    found = [load_settings(find_config(path), asked, start=path) for path in paths or (os.curdir,)]
    failed = False
    for folder in dict.fromkeys(settings.cache_dir for settings in found):
        try:
            reason = remove(folder)
        except OSError as error:
            reason = error.strerror or str(error)
        if reason:
            failed = True
            complain(f"torchlint: {visible_path(folder)}: not removed: {visible(reason)}")
        elif reason is not None:
            emit(f"Removed {visible_path(folder)}\n")
    count = sum(
        _is_unlinked(path)
        for root in dict.fromkeys(settings.root for settings in found)
        for path in _leftovers(root)
    )
    if count:
        emit(f"Removed {pluralise(count, 'temporary file')}\n")
    return int(failed)


def _leftovers(root: str) -> Iterator[str]:
    """Yield the temporary files below a folder that nobody can be writing any more."""
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in DEFAULT_EXCLUDE]
        for name in files:
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                if is_temporary(name) and time.time() - os.lstat(path).st_mtime > _YOUNG:
                    yield path


def _is_unlinked(path: str) -> bool:
    with contextlib.suppress(OSError):
        os.unlink(path)
        return True
    return False
