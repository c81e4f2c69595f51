"""What a call does besides returning a value: output, warnings, files, torch's own settings.

Text is taken at the file descriptors, so that what C++ code and child processes print is seen too.
Files are those below the copy of the project and the working folder; a call's own changes to them
are taken back after it, so that every call starts from the same files.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import torch

NAMES = (
    "printed",
    "printed to stderr",
    "warnings",
    "files",
    "raised",
    "settings of torch",
    "environment",
    "working folder",
)
"""Top-level names of a snapshot that hold effects, not values."""
_PASSED_OVER = frozenset({"__pycache__", ".git"})
Stamp = tuple[int, int, int, int]


class Effects:
    """Watches one call; use it with ``with`` around the call, then read `values`.

    Args:
        folder: the copy of the project; the working folder of the process is watched too.
        pristine: a folder with the same files, of which changed and removed ones are put back; None
            for none.
    """

    def __init__(self, folder: str, pristine: str | None) -> None:
        self.folders = _outermost([os.path.realpath(folder), os.path.realpath(os.getcwd())])
        self.pristine = pristine
        self.values: dict[str, Any] = {}
        self.notes: list[str] = []
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Effects:
        self._place, self._variables = os.getcwd(), dict(os.environ)
        self._before = dict(self._stamps())
        self._warned = self._stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        self._texts = [self._stack.enter_context(_captured(number)) for number in (1, 2)]
        return self

    def __exit__(self, *raised: object) -> None:
        self._stack.close()
        out, err = (text.getvalue() for text in self._texts)
        self.values = {
            "printed": out,
            "printed to stderr": err,
            "warnings": [
                f"{type(each.message).__name__}: {each.message}" for each in self._warned or ()
            ],
            "files": self._files(),
            "settings of torch": _settings(),
            "environment": self._changed_variables(),
            "working folder": self._folder_left(),
        }

    def _changed_variables(self) -> dict[str, str]:
        """Return the variables of the environment that the call set or removed; then take that
        back."""
        now = dict(os.environ)
        names = {
            name
            for name in now.keys() | self._variables.keys()
            if now.get(name) != self._variables.get(name)
        }
        for name in names:
            if name in self._variables:
                os.environ[name] = self._variables[name]
            else:
                del os.environ[name]
        return {name: now.get(name, "removed") for name in sorted(names)}

    def _folder_left(self) -> str:
        """Return the folder that the call went to, if it went; then go back."""
        try:
            now = os.getcwd()
        except OSError:
            now = "removed"
        if now == self._place:
            return ""
        with contextlib.suppress(OSError):
            os.chdir(self._place)
        return now

    def say(self, mark: str) -> None:
        """Put a mark between what is printed: the text before it was printed before it happened."""
        sys.stdout.flush()
        os.write(1, f"[{mark}]\n".encode())

    # Files

    def _stamps(self) -> Iterator[tuple[str, Stamp]]:
        for top in self.folders:
            for parent, folders, files in os.walk(top):
                folders[:] = [name for name in folders if name not in _PASSED_OVER]
                links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
                for name in (*files, *links):
                    path = os.path.join(parent, name)
                    yield path, _stamp(path)
                if not files and not folders:
                    yield parent + os.sep, (0, 0, 0, os.stat(parent).st_mode)

    def _files(self) -> dict[str, str]:
        """Return what became of the files that the call touched, by path; then take it back."""
        after = dict(self._stamps())
        found: dict[str, str] = {}
        for path in sorted(self._before.keys() | after.keys()):
            if self._before.get(path) == after.get(path):
                continue
            shown = os.path.relpath(path, self.folders[0])
            if path in after:
                found[shown] = (
                    f"a folder, mode {after[path][3] & 0o777:o}"
                    if path.endswith(os.sep)
                    else _content(path)
                )
            elif not os.path.isdir(path):  # an empty folder that is none any more is another matter
                found[shown] = "removed"
            self._take_back(path, shown)
        return found

    def _take_back(self, path: str, shown: str) -> None:
        if path.endswith(os.sep):
            with contextlib.suppress(OSError):
                if path not in self._before:
                    os.removedirs(path)
                else:
                    os.makedirs(path, exist_ok=True)
                    os.chmod(path, self._before[path][3] & 0o7777)
            return
        if path not in self._before:
            with contextlib.suppress(OSError):
                os.unlink(path)
                os.removedirs(os.path.dirname(path))
            return
        if os.path.lexists(path) and _stamp(path)[:3] == self._before[path][:3]:
            os.chmod(path, self._before[path][3] & 0o7777)
            return
        source = os.path.join(self.pristine, shown) if self.pristine else ""
        same = (
            source and os.path.isfile(source) and os.path.getsize(source) == self._before[path][1]
        )
        if not same:
            self.notes.append(
                f"{shown}: changed by the call and not put back, so later calls meet it changed"
            )
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy2(source, path)


@contextlib.contextmanager
def _captured(number: int) -> Iterator[io.StringIO]:
    """Collect what is written to a file descriptor; it goes to where it belongs as well,
    afterwards."""
    stream = sys.stdout if number == 1 else sys.stderr
    stream.flush()
    text = io.StringIO()
    kept = os.dup(number)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), number)
        try:
            yield text
        finally:
            with contextlib.suppress(ValueError):
                stream.flush()
            os.dup2(kept, number)
            os.close(kept)
            file.seek(0)
            data = file.read()
            text.write(data.decode("utf-8", "backslashreplace"))
            os.write(number, data)


def _outermost(folders: list[str]) -> list[str]:
    """Return the folders that do not lie in an earlier one."""
    kept: list[str] = []
    for folder in folders:
        if not any(folder == top or folder.startswith(top + os.sep) for top in kept):
            kept.append(folder)
    return kept


def _stamp(path: str) -> Stamp:
    """Return the time of the last change, size, number and mode of a file."""
    found = os.lstat(path)
    return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


def _content(path: str) -> str:
    if os.path.islink(path):
        return f"a link to {os.readlink(path)}"
    if not os.path.isfile(path):
        return "no regular file"
    with open(path, "rb") as file:  # noqa: PTH123 - a path of the program's, as it is
        digest = hashlib.sha256()
        while block := file.read(1 << 20):
            digest.update(block)
    found = os.stat(path)
    return (
        f"{found.st_size} bytes, mode {found.st_mode & 0o777:o}, sha256 {digest.hexdigest()[:16]}"
    )


def _settings() -> dict[str, str]:
    """Return what of torch a call can leave changed behind it."""
    return {
        "default dtype": str(torch.get_default_dtype()),
        "grad mode": str(torch.is_grad_enabled()),
        "inference mode": str(torch.is_inference_mode_enabled()),
        "anomaly mode": str(torch.is_anomaly_enabled()),
        "deterministic algorithms": str(torch.are_deterministic_algorithms_enabled()),
        "threads": str(torch.get_num_threads()),
        "default device": str(getattr(torch, "get_default_device", str)()),
        "deterministic warn only": str(torch.is_deterministic_algorithms_warn_only_enabled()),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "autocast": str([torch.is_autocast_enabled(), torch.is_autocast_cpu_enabled()]),
        "autocast cache": str(torch.is_autocast_cache_enabled()),
        "cuDNN benchmark": str(torch.backends.cudnn.benchmark),
        "cuDNN deterministic": str(torch.backends.cudnn.deterministic),
        "print options": str(vars(torch._tensor_str.PRINT_OPTS)),
    }
