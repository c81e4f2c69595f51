"""The folder a run works in: copies of the user's project, logs, caches; nothing of it is left when
the run is over."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from torchlint.base.errors import UsageError
from torchlint.program.machine import processes
from torchlint.program.machine.beside import link_beside
from torchlint.program.machine.copying import free_bytes, survey, write_copy

if sys.platform != "win32":
    import fcntl

PREFIX = "torchlint-"
_OWNER = "owner"
_INSIDE = Path(__file__).parents[1] / "inside"
_BASE_BYTES = 45
"""Longest base folder: an address of a Unix socket has 103 bytes (macOS; Linux 107), and
``/torchlint-abcdefgh/tmp`` with what multiprocessing adds (``/pymp-abcdefgh/listener-abcdefgh``)
takes 56 of them."""


class Workspace:
    """One folder for one run; use it with ``with``. It stops the run's processes and removes the
    folder at the end.

    The end may be success, an error or Ctrl-C. What a run leaves that was killed with ``kill -9``
    (the folder, frozen processes) is cleared away when the next one starts: a folder of ours, whose
    owner holds no lock on it any more.

    Args:
        keep: leave the folder (the processes are stopped all the same).
        base: where to make it; None for the system's temporary folder, or /tmp where that has too
            long a name.

    Attributes:
        path: the folder, absolute and without links. Subfolders in use: ``tmp``, ``cache``,
            ``inject``.
        notes: what was left out of copies or could not be removed, in words.
    """

    path: Path

    def __init__(self, *, keep: bool = False, base: Path | None = None) -> None:
        self.keep = keep
        self.notes: list[str] = []
        self._base = base
        self._lock = -1

    def __enter__(self) -> Workspace:
        base = _base() if self._base is None else self._base
        # Kill and remove what runs have left whose process has gone; another user's and kept
        # ones are not touched.
        for folder in _stale(base):
            processes.sweep(str(folder))
            _remove_tree(folder)
        try:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=base)).resolve()
        except OSError as error:
            raise UsageError(
                f"no workspace can be made in {base}: {error.strerror}; set TMPDIR"
            ) from None
        self._lock = _hold(self.path)
        return self

    def __exit__(self, *raised: object) -> None:
        try:
            processes.stop_run(str(self.path))
        finally:
            if self.keep:
                (self.path / _OWNER).unlink(
                    missing_ok=True
                )  # so that no later run takes it for stale
            else:
                self._remove()
            if self._lock >= 0:
                os.close(self._lock)

    def copy(self, source: Path, name: str, *, beside: Path | None = None) -> Path:
        """Copy a project into the folder `name` of the workspace, and return that.

        Left out: version control, virtual environments, caches (`copying.SKIPPED`), and what is no
        file, folder or link; unreadable files too, each with a note. Large files become links to
        the originals: see `copying.survey`.

        Args:
            source: the project.
            name: of the copy's folder.
            beside: the project; what lies beside it is linked to beside the copy, see
                `beside.link_beside`, and the folder that `name` lies in is the copy's own. None:
                nothing is.

        Raises:
            UsageError: `source` is no folder or holds the workspace, or there is too little room.
        """
        self.demand_outside(source)
        found = survey(source.resolve())
        free = free_bytes(self.path)
        if found.bytes > free:
            raise UsageError(
                f"{found.root} takes {_size(found.bytes)} to copy and {self.path.parent} has "
                f"{_size(free)} free; "
                "set TMPDIR to a larger disk"
            )
        self.notes += [note for note in found.notes if note not in self.notes]
        target = self.path / name
        self.notes += [note for note in write_copy(found, target) if note not in self.notes]
        if beside is not None:
            link_beside(beside.resolve(), target)
        return target

    def inject(self, *more: Path) -> Path:
        """Copy the code that works inside the user's interpreter; return the folder for its
        ``PYTHONPATH``.

        It holds ``torchlint_inside/`` and, at its top, the ``sitecustomize.py`` that starts a
        recorder. Below the former, folders lie as they do below ``torchlint/``, so that one reaches
        the other in both places.

        Args:
            more: further folders named ``inside``, besides that of this part of the house.
        """
        target = self.path / "inject"
        package = target / "torchlint_inside"
        for inside in (_INSIDE, *more):
            shutil.copytree(
                inside,
                package / inside.parent.name / inside.name,
                ignore=shutil.ignore_patterns("__pycache__", "*.pyc"),
            )
        (package / "__init__.py").touch()
        hook = package / _INSIDE.parent.name / _INSIDE.name / "sitecustomize.py"
        shutil.move(hook, target / "sitecustomize.py")
        return target

    def demand_outside(self, source: Path) -> None:
        """Refuse a project that cannot be copied here.

        Raises:
            UsageError: it is no folder, or holds the workspace.
        """
        if not source.is_dir():
            raise UsageError(f"{source} is no folder, so it cannot be copied")
        if self.path.is_relative_to(source.resolve()):
            raise UsageError(
                f"{source} holds {self.path.parent}, where its copies would go; set TMPDIR to a "
                "folder outside, "
                "or keep the program in a folder of its own"
            )

    def _remove(self) -> None:
        try:
            _remove_tree(self.path)
        except KeyboardInterrupt:
            _remove_tree(self.path)
            raise
        finally:
            if self.path.exists():
                self.notes.append(f"{self.path} could not be removed")


def replace_file(copy: Path, file: str, data: bytes) -> None:
    """Give a file of a copy new contents; a link out of the copy is replaced, never followed.

    Raises:
        UsageError: it lies in a folder that is linked to, so that writing it would write the user's
            own file.
    """
    path, top = copy / file, copy.resolve()
    if path.resolve().is_relative_to(top):
        path.write_bytes(data)
    elif path.is_symlink() and path.parent.resolve().is_relative_to(top):
        path.unlink()
        path.write_bytes(data)
    else:
        raise UsageError(
            f"{file} lies in a folder that the project links to, so its fixes cannot be verified "
            "here"
        )


def _base() -> Path:
    base = Path(tempfile.gettempdir())
    short = Path("/tmp")
    if len(os.fsencode(base.resolve())) > _BASE_BYTES and os.access(short, os.W_OK | os.X_OK):
        return short
    return base


def _hold(folder: Path) -> int:
    """Lock a workspace for as long as this process lives; the system lets go of it whatever ends
    us."""
    if sys.platform == "win32":
        return -1
    new = folder / f"{_OWNER}.new"
    descriptor = os.open(new, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    new.rename(
        folder / _OWNER
    )  # it gets its name when it is locked, so nobody sees it free meanwhile
    return descriptor


def _stale(base: Path) -> Iterator[Path]:
    """Yield our workspaces that nobody holds. One without an owner file is being made right now, or
    was kept."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(base.resolve()) as entries:
        found = [
            Path(entry.path)
            for entry in entries
            if entry.name.startswith(PREFIX) and _is_own(entry)
        ]
        for folder in found:
            with contextlib.suppress(OSError):
                descriptor = os.open(folder / _OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield folder
                finally:
                    os.close(descriptor)


def _is_own(entry: os.DirEntry[str]) -> bool:
    status = entry.stat(follow_symlinks=False)
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()


def _remove_tree(root: Path) -> None:
    """Remove a folder with all in it, also read-only folders; what still resists is left."""
    for _ in range(3):
        for folder, names, _files in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                with contextlib.suppress(OSError):
                    if not os.path.islink(path) and os.lstat(path).st_mode & 0o700 != 0o700:
                        os.chmod(path, 0o700)
        shutil.rmtree(root, ignore_errors=True)
        if not root.exists():
            return


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
