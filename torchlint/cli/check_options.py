"""The options that only `check` has, and what cannot be asked for together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from torchlint.base.errors import UsageError
from torchlint.cli.options import Given, max_tokens, table_options, with_variable
from torchlint.cli.scope import STDIN

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--fix", is_flag=True, help="Apply safe fixes, and report what remains."),
    click.option("--diff", is_flag=True, help="Show what --fix would change, and change nothing."),
    click.option(
        "--statistics",
        is_flag=True,
        help="Count the findings of each rule instead of listing them.",
    ),
    click.option(
        "--show-source/--no-show-source",
        default=None,
        help=(
            "Show the source of each finding, why it matters and the repair (default: of up to "
            "5 findings)."
        ),
    ),
    click.option(
        "--show-infos", is_flag=True, help="List infos too, where there are many findings."
    ),
    max_tokens,
    click.option(
        "--skip",
        type=click.IntRange(min=0),
        default=0,
        metavar="N",
        help="With --output-format agent: leave out the first N findings, which were read before.",
    ),
    click.option(
        "--explain", is_flag=True, help="Say why the line FILE:LINE is flagged, or why it is not."
    ),
    click.option(
        "--profile",
        metavar="FILE",
        help="Show what fixing saves at most, by this report of `torchlint profile` in JSON.",
    ),
    click.option(
        "--waits",
        is_flag=True,
        help="List the waits that the contract of no waits allows, with owner, reason and cost.",
    ),
    click.option("-e", "--exit-zero", is_flag=True, help="Exit with 0 whatever the rules find."),
    click.option(
        "--exit-non-zero-on-fix", is_flag=True, help="Exit with 1 when a fix was applied."
    ),
    *(option for _, option in table_options("adoption")),
    click.option(
        "--no-baseline", is_flag=True, help="Report all findings, whatever baseline is configured."
    ),
    click.option(
        "--write-baseline",
        is_flag=True,
        help="Put all findings into the baseline, and report none.",
    ),
    click.option(
        "--add-ignore",
        metavar="[=REASON]",
        help="Write a '# torchlint: ignore[CODE]' behind everything that is found.",
    ),
    click.option("--add-noqa", metavar="[=REASON]", help="The same with '# noqa: CODE'."),
    click.option(
        "--report-suppressed",
        is_flag=True,
        help="List suppressed findings, marked as such, in reports of sarif.",
    ),
    click.option(
        "--since",
        metavar="REV",
        help="Report only findings on lines changed since this git revision.",
    ),
    click.option(
        "--shard", metavar="I/N", help="Check part I of N; `torchlint merge` joins the reports."
    ),
    click.option(
        "-w", "--watch", is_flag=True, help="Check again whenever a file changes, until Ctrl-C."
    ),
    click.option(
        "-n",
        "--no-cache",
        is_flag=True,
        help=with_variable("no-cache", "Neither use nor keep the results of earlier runs."),
    ),
    *(option for _, option in table_options("check")),
)
_ALONE = (
    "write_baseline",
    "add_ignore",
    "add_noqa",
    "watch",
    "diff",
    "show_files",
    "show_settings",
    "waits",
)
"""Of these only one can be given."""
_APART = (
    (
        "write_baseline",
        ("no_baseline", "since", "shard", "fix", "statistics", "output_file", "report_suppressed"),
    ),
    ("add_ignore", ("fix", "statistics")),
    ("add_noqa", ("fix", "statistics")),
    ("no_baseline", ("baseline",)),
    ("silent", ("watch",)),
    ("ignore_noqa", ("add_ignore", "add_noqa", "report_suppressed", "explain")),
    ("waits", ("fix", "statistics", "explain", "since", "shard", "report_suppressed")),
    ("profile", ("explain", "diff", "statistics", "show_files", "show_settings")),
    (
        "explain",
        ("fix", "diff", "statistics", "show_files", "show_settings", "exit_non_zero_on_fix"),
    ),
    (
        "explain",
        (
            "write_baseline",
            "add_ignore",
            "add_noqa",
            "since",
            "shard",
            "watch",
            "report_suppressed",
        ),
    ),
)
_NOT_FROM_STDIN = ("write_baseline", "add_ignore", "add_noqa", "since", "shard", "watch")


class Checking(click.Command):
    """A command whose ``--add-ignore`` and ``--add-noqa`` take a value after ``=`` only: the next
    word is a path."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)
        bare = {"--add-ignore", "--add-noqa"}
        return super().parse_args(
            ctx, [f"{word}=" if word in bare else word for word in args[:end]] + args[end:]
        )


def check_options(function: F) -> F:
    """Give a command the options of this module."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def refuse_contradictions(given: Given) -> None:
    """Refuse options that cannot be meant together.

    Raises:
        UsageError: naming two of them.
    """
    alone = [name for name in _ALONE if _is_given(given, name)]
    pairs = [tuple(alone[:2])] if len(alone) > 1 else []
    pairs += [
        (one, other) for one, others in _APART for other in others if _is_given(given, one, other)
    ]
    for one, other in pairs:
        raise UsageError(f"{_option(one)} and {_option(other)} cannot be used together")
    for name in _NOT_FROM_STDIN:
        if STDIN in given["paths"] and _is_given(given, name):
            raise UsageError(f"{_option(name)} cannot be used with - (standard input)")


def _is_given(given: Given, *names: str) -> bool:
    return all(given[name] not in (None, False) for name in names)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
