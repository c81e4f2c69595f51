"""Names the paths outside a program's copy that it writes to. It refuses nothing: that is
Landlock's work.

An audit hook sees what Python code opens, makes, moves and removes, but not what C++ writes;
`watch_saves` adds ``torch.save``. Other libraries that write from C or C++ (HDF5, image writers)
stay unnamed.
"""

from __future__ import annotations

import os
import sys
from typing import Any

LIMIT = 20
"""Paths that one process names at most."""
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAKES = {"os.mkdir": (0,), "os.symlink": (1,), "os.link": (1,)}
"""Audit events that need a name that is free, with the arguments that hold it."""
_CHANGES = {"os.remove": (0,), "os.rmdir": (0,), "os.truncate": (0,), "os.rename": (0, 1)}
"""Audit events that need a name that is taken; the target of a rename is another matter."""

_HEARD = {"open", "torch.save", *_MAKES, *_CHANGES}


class Writes:
    """Notes each path that is not below one of the allowed ones as a line of a file.

    Lines, not memory: DataLoader workers and programs that are killed leave theirs as well.

    Args:
        allowed: paths that may be written, as `os.path.realpath` gives them.
        file: where to note the others.
    """

    def __init__(self, allowed: list[str], file: str) -> None:
        self.allowed = (*allowed, "/dev", "/proc", os.path.realpath("/dev/shm"))
        self.file = file
        self.seen: set[str] = set()

    def start(self) -> None:
        """Listen, for good: Python takes no audit hook back."""
        sys.addaudithook(self._hear)

    def watch_saves(self, torch: Any) -> None:
        """See the files of ``torch.save`` too, which C++ opens."""
        opened = getattr(torch.serialization, "_open_zipfile_writer", None)
        if opened is None:
            return

        def watched(target: Any) -> Any:
            self._hear("torch.save", (target,))
            return opened(target)

        torch.serialization._open_zipfile_writer = watched

    def _hear(self, event: str, arguments: Any) -> None:
        try:
            if event not in _HEARD:  # an import of torch has some 100,000 of others
                return
            for path in _written(event, arguments):
                self._see(path, follow=event in ("open", "torch.save", "os.truncate"))
        except Exception:
            # An error here would end what the program does, or be printed below what it failed
            # with: a process that ends takes this module's names away first.
            pass

    def _see(self, path: Any, follow: bool) -> None:
        if not isinstance(path, (str, bytes, os.PathLike)) or len(self.seen) >= LIMIT:
            return  # a number: the file is open
        folder, name = os.path.split(os.path.abspath(os.fsdecode(path)))
        real = os.path.join(os.path.realpath(folder), name)
        if follow:  # what removes or moves a link leaves alone where it leads
            real = os.path.realpath(real)
        if real in self.seen or any(
            real == place or real.startswith(place + os.sep) for place in self.allowed
        ):
            return
        self.seen.add(real)
        line = os.fsencode(real).replace(b"\n", b"?") + b"\n"
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line)
        os.close(descriptor)


def _written(event: str, arguments: Any) -> list[Any]:
    """Return what an event would write to, if there is nothing else in its way than a refusal."""
    if event == "open":
        writes = isinstance(arguments[2], int) and arguments[2] & _WRITING
        return [arguments[0]] if writes and _reachable(arguments[0]) else []
    if event == "torch.save":
        return [arguments[0]] if _reachable(arguments[0]) else []
    if event in _MAKES:
        return [arguments[at] for at in _MAKES[event] if not os.path.lexists(arguments[at])]
    if event in _CHANGES and os.path.lexists(arguments[0]):
        return [arguments[at] for at in _CHANGES[event]]
    return []


def _reachable(path: Any) -> bool:
    """Say whether the folder of a file exists; without it, opening fails with or without a
    refusal."""
    return isinstance(path, (str, bytes, os.PathLike)) and os.path.isdir(
        os.path.dirname(os.path.abspath(path))
    )
