"""How the path of a file is shown to the user where the user did not name the file."""

from __future__ import annotations

import os


def shown(path: str) -> str:
    """Return a file's path as the user would name it: relative to the current folder where it lies below it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder was deleted, or it is on another drive
        return path
    return path if relative.startswith(os.pardir) else relative
