"""``@file`` arguments: one argument per line, for where command lines are short (pre-commit on
Windows)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from torchlint.base.errors import SourceError, TooLargeError, UsageError

_LARGEST = 100_000_000
"""Bytes of the largest file of arguments: the names of a million files."""


def expanded(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments with each ``@file`` replaced by the lines of that file, blank ones left
    out.

    An argument that names no file this way stays as it is, and so do all after ``--``.

    Raises:
        UsageError: the file cannot be read.
    """
    literal = False
    for argument in arguments:
        literal = literal or argument == "--"
        name = argument[1:]
        if literal or not argument.startswith("@") or not os.path.isfile(name):
            yield argument
            continue
        from torchlint.source.document import read_bytes

        try:
            text = read_bytes(name, argument, _LARGEST).decode("utf-8-sig", "surrogateescape")
        except TooLargeError:
            raise UsageError(f"{argument}: is larger than {_LARGEST} bytes") from None
        except SourceError as error:
            raise UsageError(str(error)) from None
        if "\0" in text:
            line = text.count("\n", 0, text.index("\0")) + 1
            raise UsageError(f"{argument}: holds a NUL byte in line {line}, which no argument can")
        yield from (line for line in re.split(r"\r\n|\r|\n", text) if line.strip())
