"""Where words go: standard output, standard error, or a file, each of which can fail or be gone."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress

from torchlint.base.errors import OutputError
from torchlint.report.kit.words import visible
from torchlint.source.paths import kind_of, leads_out


def make_lenient() -> None:
    """Make the standard streams print what their encoding cannot hold as escapes, not as an
    error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError, ValueError, OSError):  # None, closed, or a stand-in of a test
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def emit(text: str) -> None:
    """Write to standard output. A reader that has gone away is no error.

    Raises:
        OutputError: the output takes no more (a full disk).
    """
    if sys.stdout is None or not text:
        return
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, ValueError) as error:
        _failed(error)


def emit_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are; errors as for `emit`."""
    if sys.stdout is None or not data:
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except (OSError, ValueError) as error:
        _failed(error)


def complain(text: str) -> None:
    """Write a line or more to standard error; where that fails, there is nobody left to tell."""
    if sys.stderr is not None and text:
        with suppress(OSError, ValueError):
            sys.stderr.write(text if text.endswith("\n") else f"{text}\n")
            sys.stderr.flush()


def _failed(error: OSError | ValueError) -> None:
    # Point a stream that cannot be written to nowhere: the interpreter flushes it once more at
    # its exit.
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    if isinstance(error, BrokenPipeError | ValueError):  # the latter: the stream was closed
        return
    reason = error.strerror or str(error)
    raise OutputError(f"standard output cannot be written: {reason}") from error


def check_output_file(path: str, inputs: Iterable[str], option: str = "") -> None:
    """Refuse an output file that cannot be meant, before any work is done.

    Args:
        path: what the user named.
        inputs: real paths of the files that are checked.
        option: what the user wrote, for the message; ``--output-file`` and the path where empty.

    Raises:
        OutputError: it is one of the inputs, a directory, or lies in no directory.
    """
    option = option or f"--output-file {visible(path)}"
    real = os.path.realpath(path)
    if real in inputs:
        raise OutputError(f"{option}: is one of the files to check")
    if os.path.isdir(real):
        raise OutputError(f"{option}: is a directory")
    if _is_stream(path):
        return
    if not os.path.isdir(os.path.dirname(real)):
        raise OutputError(f"{option}: its directory does not exist")
    try:
        mode = os.stat(real).st_mode
    except OSError:  # there is none yet
        mode = stat.S_IFREG
    if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
        raise OutputError(f"{option}: is {kind_of(mode)}, not a regular file")
    if leads_out(path) and stat.S_ISREG(mode):
        raise OutputError(
            f"{option}: is a link to {visible(real)}, out of its folder; name that file itself"
        )


def check_output_folder(path: str, option: str) -> None:
    """Refuse a folder to write into that cannot be meant, before any work is done.

    Raises:
        OutputError: it cannot be made, or written into.
    """
    folder = os.path.abspath(path)
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    if not path or not os.path.isdir(folder):
        raise OutputError(f"{option}: name a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"{option}: {visible(folder)} cannot be written into")


def _is_stream(path: str) -> bool:
    """Say whether a path names something that is open already: ``/dev/stdout``, or ``>(gzip)`` of a
    shell."""
    name = os.path.abspath(path)
    return name in ("/dev/stdout", "/dev/stderr") or name.startswith(("/dev/fd/", "/proc/self/fd/"))


def write_output_file(path: str, data: bytes | Iterable[bytes], option: str = "") -> None:
    """Write a report, or its pieces, to a file, all or nothing; to a device or pipe as it comes.
    For `option` see `check_output_file`.

    Raises:
        OutputError: the file cannot be written.
    """
    from torchlint.source.write import atomically, remove_stale, write_all

    pieces = (data,) if isinstance(data, bytes) else data
    check_output_file(path, (), option)  # once more: it may have become something else
    real = os.path.realpath(path)
    try:
        if _is_stream(path) or (os.path.exists(real) and stat.S_ISCHR(os.stat(real).st_mode)):
            descriptor = os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0))
            with os.fdopen(descriptor, "wb") as stream:
                stream.writelines(pieces)
            return
        remove_stale(os.path.dirname(real))
        state = os.stat(real) if os.path.exists(real) else None
        with atomically(real, state) as descriptor:
            for piece in pieces:
                write_all(descriptor, piece)
    except BrokenPipeError:
        return
    except OSError as error:
        named = option or f"--output-file {visible(path)}"
        raise OutputError(f"{named}: {error.strerror or error}") from error


def write_report(path: str | None, text: str) -> None:
    """Write a report to a file, all or nothing, or to standard output where None.

    Raises:
        OutputError: it cannot be written.
    """
    if path is None:
        emit(text)
    else:
        write_output_file(path, text.encode("utf-8", "backslashreplace"))
