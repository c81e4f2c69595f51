"""The commands as click has them; imported only where a run needs click, which costs a third of a
short one."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence

import click

from torchlint import __version__
from torchlint.cli.output import complain
from torchlint.report.kit.words import visible

COMMANDS = {
    "check": ("check:check_command", "Check PATHS and list what is found."),
    "fix": ("fix:fix_command", "Show the safe fixes for PATHS as a patch."),
    "rule": (
        "rule:rule_command",
        "Explain a rule: why it matters, bad and good code, how safe its fix is.",
    ),
    "docs": (
        "docs:docs_command",
        "Write the manual as HTML pages on this machine, and print where.",
    ),
    "version": ("version:version_command", "Print the version, as JSON too."),
    "rules": ("rules:rules_command", "List all rules with severity, default and kinds of fix."),
    "config": ("config:config_command", "List the keys of the configuration, or explain one."),
    "clean": ("clean:clean_command", "Remove the cache, and temporary files of killed runs."),
    "server": ("server:server_command", "Serve an editor by the Language Server Protocol."),
    "init": (
        "init:init_command",
        "Write a commented configuration, and show how to run torchlint before commits.",
    ),
    "merge": ("merge:merge_command", "Join the reports of shards into one."),
    "agents": ("agents:agents_command", "Print instructions for a coding agent, a skill."),
    "mcp": ("mcp:mcp_command", "Serve a coding agent by the Model Context Protocol."),
    "completion": ("completion:completion_command", "Print the completion script for a shell."),
    "verify": (
        "verify:verify_command",
        "Compare a program with and without its fixes: speed, results, memory.",
    ),
    "profile": (
        "profile:profile_command",
        "Say where a program's time goes, of a run or from traces of its profiler.",
    ),
    "history": (
        "history:history_command",
        "Draw what verify and profile compared, from the file of their --history.",
    ),
}
"""Name of a command → where it lies in this package, and its line in ``torchlint --help``."""


_EXPLAIN = ("explain", "show", "why")
"""Commands that other tools have for a rule or a finding."""
_WRITES = "`torchlint fix --apply` writes fixes"
_INSTEAD = {
    "--apply": _WRITES,
    "--dry-run": "nothing is written without --apply",
    "--fix": _WRITES,
    "--write": _WRITES,
}
"""Options that other tools have → what to do here."""


class _Commands(click.Group):
    """A group that imports a command when it is run: ``--version`` and ``--help`` should not wait
    for the engine."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that words begin with; of others say what may be meant."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            raise click.UsageError(f"there is no command {name!r}; {_nearest(args)}")
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"torchlint.cli.{module}"), name)
        return command


def _nearest(words: Sequence[str]) -> str:
    """Return what to write instead of words that begin with no command."""
    import difflib  # only a mistake needs it

    name, *others = words
    if near := difflib.get_close_matches(name.lower(), COMMANDS, 1):
        return f"did you mean 'torchlint {near[0]}'?"
    if name == "help":
        meant = " ".join([*others[:1], "--help"])
    elif name.lower() not in _EXPLAIN:
        meant = _explains(name) or (f"check {name}" if os.path.exists(name) else "--help")
    elif others:
        meant = _explains(others[0]) or f"check {others[0]}"
    else:
        return "'torchlint rule CODE' explains a rule, 'torchlint check --explain FILE:LINE' a line"
    return f"{'see' if meant.endswith('--help') else 'write'} 'torchlint {meant}'"


def _explains(word: str) -> str:
    """Return the command that explains a rule, or a line of a file; nothing for other words."""
    from torchlint.catalog.rules import load_catalog
    from torchlint.cli.scope import PLACE

    if load_catalog().stands_for(word):
        return f"rule {word}"
    return f"check --explain {word}" if PLACE.fullmatch(word) else ""


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(
    __version__, "-V", "--version", prog_name="torchlint", message="%(prog)s %(version)s"
)
def main() -> None:
    """Find PyTorch code that wastes a GPU, and fix it without changing what it computes."""


def dispatch(arguments: Sequence[str]) -> int:
    """Run a command, and return its exit code; wrong usage is said here.

    Raises:
        KeyboardInterrupt: the user gave up.
        TorchlintError: as the command raises it.
    """
    try:
        result = main.main(
            list(arguments), prog_name="torchlint", standalone_mode=False, obj=tuple(arguments)
        )
    except click.ClickException as error:
        complain(f"torchlint: error: {visible(' '.join(_words(error).split()))}{_hint(error)}")
        return 2
    except click.Abort:
        raise KeyboardInterrupt from None
    return result if isinstance(result, int) else 0


def _words(error: click.ClickException) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name in _INSTEAD:
        return f"there is no option {error.option_name!r}; {_INSTEAD[error.option_name]}"
    return error.format_message()


def _hint(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" (see '{error.ctx.command_path} --help')"
    return ""
