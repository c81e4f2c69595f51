"""The ``torchlint`` command: finds the subcommand, and turns every error into one line and an exit code."""

from __future__ import annotations

import importlib
import os
import signal
import sys
from collections.abc import Sequence

import click

from torchlint import __version__
from torchlint.base.errors import TorchlintError
from torchlint.cli.arguments import expanded
from torchlint.cli.output import complain, make_lenient
from torchlint.report.text import visible

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
_COMMANDS = {
    "check": "check:check_command",
    "fix": "fix:fix_command",
    "rule": "rule:rule_command",
    "rules": "rules:rules_command",
    "verify": "verify:verify_command",
}


class _Commands(click.Group):
    """A group that imports a command when it is asked for: ``--version`` should not wait for the engine."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, name = _COMMANDS[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"torchlint.cli.{module}"), name)
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="torchlint", message="%(prog)s %(version)s")
def main() -> None:
    """Find PyTorch code that wastes a GPU, and fix it without changing what it computes."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit code; no exception leaves, and no traceback."""
    if not arguments:
        arguments = ["--help"]
    try:
        result = main.main(list(expanded(arguments)), prog_name="torchlint", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except TorchlintError as error:
        complain(f"torchlint: error: {visible(str(error))}")
        return error.exit_code
    except click.ClickException as error:
        complain(f"torchlint: error: {visible(' '.join(error.format_message().split()))}{_hint(error)}")
        return 2
    except (KeyboardInterrupt, click.Abort):
        complain("torchlint: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        _forget_output()
        complain(f"torchlint: error: {visible(str(error))}")
        return 2


def entry() -> None:
    """Run as a program: the console script and ``python -m torchlint``."""
    _distrust_current_directory()
    make_lenient()
    signal.signal(signal.SIGTERM, _interrupt)  # like Ctrl-C: no worker may outlive us
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)  # the terminal was closed, and there is no nohup
    sys.exit(run(sys.argv[1:]))


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" (see '{error.ctx.command_path} --help')"
    return ""


def _forget_output() -> None:
    """Leave nothing for the interpreter to flush at its exit, which would fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    except OSError:
        pass


def _distrust_current_directory() -> None:
    """Take the current directory off the import path: what is checked must not be able to pose as a module of ours."""
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted
        here = ""
    sys.path[:] = [entry for entry in sys.path if entry and (os.path.realpath(entry) != here or _is_library(here))]


def _is_library(directory: str) -> bool:
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return directory in {os.path.realpath(sysconfig.get_paths()[name]) for name in names}
