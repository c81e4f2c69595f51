"""Which plugins are installed, told without importlib.metadata where there are none: its import costs 15 ms."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "torchlint.rules"
"""The entry point group of plugins; each entry names a package of rule files, or one rule file."""
_METADATA = (".dist-info", ".egg-info")


def installed() -> Sequence[EntryPoint]:
    """Return the entry points of the installed plugins."""
    if not any(map(_may_hold_plugins, sys.path)) and not _has_other_finders():
        return ()
    import importlib.metadata

    return tuple(importlib.metadata.entry_points(group=GROUP))


def _may_hold_plugins(place: str) -> bool:
    """Say whether an entry of the import path has to be looked at properly: it names our group, or is no folder."""
    if place.lower().endswith(".egg"):
        return os.path.exists(place)
    try:
        names = os.listdir(place or os.curdir)
    except NotADirectoryError:  # a zip file, say
        return True
    except OSError:
        return False
    return any(_names_group(os.path.join(place, name)) for name in names if name.lower().endswith(_METADATA))


def _names_group(metadata: str) -> bool:
    try:
        with io.FileIO(os.path.join(metadata, "entry_points.txt")) as file:
            return GROUP.encode() in file.readall()
    except OSError:
        return False


def _has_other_finders() -> bool:
    """Say whether something besides Python's own finder can know of distributions."""
    from importlib.machinery import PathFinder

    return any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder)
