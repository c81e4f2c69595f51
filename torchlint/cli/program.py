"""What commands share that run a program of the user: the words behind ``--``, the interpreter, and
where it may write."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from torchlint.base.errors import UsageError

COMMAND, DASHES = "torchlint.command", "torchlint.dashes"
"""Where the context of a command keeps what stands behind ``--``, and whether that was there."""


class ProgramCommand(click.Command):
    """Keeps what stands behind ``--``: the program to run."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[COMMAND] = args[at + 1 :]
        ctx.meta[DASHES] = at < len(args)
        try:
            return super().parse_args(ctx, args[:at])
        except click.NoSuchOption as error:
            words = None if ctx.meta[DASHES] else _with_dashes(args)
            if words is None:
                raise
            raise click.UsageError(
                f"{error.option_name} is no option of {ctx.info_name}; put -- before the program: "
                f"{ctx.command_path} {words}",
                ctx,
            ) from error


def _with_dashes(args: Sequence[str]) -> str | None:
    """Return a command line with ``--`` before its program, or None where none is in sight."""
    at = next((at for at, word in enumerate(args) if word == "-m" or word.endswith(".py")), None)
    return None if at is None else shlex.join([*args[:at], "--", *args[at:]])


class Seconds(click.ParamType[float]):
    """``300``, ``300s`` or ``5m``."""

    name = "seconds"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds, more than none."""
        text = str(value).strip().lower()
        factor = 60 if text.endswith("m") else 1
        try:
            seconds = float(text.removesuffix("m").removesuffix("s")) * factor
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            self.fail(f"{value!r} is no time; write 300s or 5m", param, ctx)
        return seconds


def writable(named: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders of ``--allow-write``.

    Raises:
        UsageError: one does not exist.
    """
    paths = [Path(path) for path in named]
    for path in paths:
        if not path.exists():
            raise UsageError(f"--allow-write {path}: there is no such file or folder")
    return tuple(path.resolve() for path in paths)


def interpreter(named: str | None) -> str:
    """Return the interpreter as an absolute path where it can be found; the child says what is
    wrong with others."""
    if named is None:
        return sys.executable
    found = shutil.which(named)
    # Links stay: a virtual environment's python is a link, and knows its packages by where it
    # stands.
    return str(Path(found).absolute()) if found else named


def variables(given: Sequence[str]) -> dict[str, str]:
    """Return the variables of ``--env``.

    Raises:
        UsageError: one is not K=V, or K that is set here.
    """
    return dict(map(_variable, given))


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name:
        raise UsageError(f"--env {text}: write NAME=VALUE, or NAME to pass it on")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"--env {name}: it is not set here; write {name}=VALUE")
    return name, os.environ[name]
