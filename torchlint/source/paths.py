"""What a path leads to, told without reading it: what every command may ask before it has started
anything."""

from __future__ import annotations

import os
import stat


def real_folder_of(path: str) -> str:
    """Return the folder that a path is or lies in, links resolved; of a link to a file, that of the
    link itself.

    Raises:
        OSError: the current directory was deleted.
        ValueError: no path can be like this.
    """
    return os.path.realpath(path if os.path.isdir(path) else os.path.dirname(path) or os.curdir)


def leads_out(path: str) -> bool:
    """Say whether a path is a link to something outside of the folder it lies in: a stranger may
    have put it there."""
    if not os.path.islink(path):
        return False
    folder = os.path.realpath(os.path.dirname(path) or os.curdir)
    return not os.path.realpath(path).startswith(os.path.join(folder, ""))


def lies_in(path: str, root: str) -> bool:
    """Say whether a path of the configuration leads to a place under the root, links and all."""
    if path.startswith("~"):
        return False
    return os.path.join(os.path.realpath(os.path.join(root, path)), "").startswith(
        os.path.join(root, "")
    )


def folder_under(root: str, folder: str) -> str:
    """Return the posix path under `root` of a folder as it was named; empty for the root itself."""
    try:
        inside = os.path.relpath(os.path.realpath(folder), root)
    except ValueError:  # another drive
        return ""
    return "" if inside == os.curdir else inside.replace(os.sep, "/")


def kind_of(mode: int) -> str:
    """Return what sort of thing a file mode (`os.stat_result.st_mode`) stands for, with its
    article."""
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def shown(path: str) -> str:
    """Return a file's path as the user would name it: relative to the current folder where it lies
    below it."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder was deleted, or it is on another drive
        return path
    return path if relative.startswith(os.pardir) else relative
