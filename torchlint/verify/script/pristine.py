"""Puts a copy back to what it was before a run: each run starts as the user's first one would.

A program that finds its own checkpoint goes on from there, and one that makes its run folder fails
if it is there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from torchlint.program.machine.copying import copy_file
from torchlint.program.machine.manifest import manifest


class Pristine:
    """What a copy is like before any run.

    Args:
        copy: the copy, with its fixes.
        source: the user's project, from where lost files are taken again; only read.
        fixed: the new contents of the files that differ, by posix path.
    """

    def __init__(self, copy: Path, source: Path, fixed: Mapping[str, bytes]) -> None:
        self.copy = copy
        self.source = source
        self.fixed = dict(fixed)
        self.files = manifest(copy)
        self.links = {
            name: os.readlink(copy / name) for name in self.files if (copy / name).is_symlink()
        }

    def restore(self) -> None:
        """Remove what is new, and bring back what was changed or removed. Caches and bytecode
        stay."""
        now = manifest(self.copy)
        if now == self.files:
            return
        for name in sorted(
            now.keys() - self.files.keys(), reverse=True
        ):  # what is in a folder before the folder
            _remove(self.copy / name)
        for name, state in sorted(self.files.items()):
            if now.get(name) != state:
                target, source = self.copy / name, self.source / name
                if name in self.links:
                    _remove(target)
                    target.symlink_to(self.links[name])
                elif name in self.fixed:
                    _remove(target)
                    target.write_bytes(self.fixed[name])
                elif source.is_dir():
                    if target.is_symlink() or not target.is_dir():
                        _remove(target)
                        target.mkdir()
                    target.chmod(0o700)
                elif source.is_file():
                    _remove(target)
                    copy_file(source, target)
        self.files = manifest(self.copy)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
