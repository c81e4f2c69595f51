"""``@file`` arguments: one argument per line, for where command lines are short (pre-commit on Windows)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from torchlint.base.errors import UsageError


def expanded(arguments: Iterable[str]) -> Iterator[str]:
    """Yield the arguments with each ``@file`` replaced by the lines of that file, blank ones left out.

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
        from pathlib import Path

        try:
            text = Path(name).read_text("utf-8-sig", "surrogateescape")
        except OSError as error:
            raise UsageError(f"{argument}: {error.strerror or error}") from error
        yield from (line for line in text.split("\n") if line.strip())
