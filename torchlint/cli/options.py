"""The options that `check` and `fix` share, and what they mean for the configuration."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from torchlint.base.finding import Severity
from torchlint.cli.destinations import AskedType, printed_format
from torchlint.report.formats import FORMATS

F = TypeVar("F", bound=Callable[..., Any])
Given = Mapping[str, Any]
"""The parameters of a command by name, as click passes them."""

_SETTINGS = (
    "accelerator",
    "fail-on",
    "force-exclude",
    "jobs",
    "max-file-size",
    "output-format",
    "target-torch",
    "timeout",
    "unsafe-fixes",
)
"""Configuration keys that are options too."""
_LISTS = ("select", "ignore", "extend-select")


def _comma_list(_context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...] | None:
    items = tuple(item for part in value for item in (piece.strip() for piece in part.split(",")) if item)
    return items if value else None


def rule_list(name: str, text: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar="RULE,...", callback=_comma_list, help=text)


_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.argument("paths", nargs=-1),
    rule_list("--select", "Check these rules only: codes, prefixes of codes, names or ALL."),
    rule_list("--ignore", "Leave these rules out."),
    rule_list("--extend-select", "Check these rules as well."),
    click.option("--unsafe-fixes/--no-unsafe-fixes", default=None, help="Count and apply unsafe fixes too."),
    click.option("--target-torch", metavar="X.Y", help="The lowest torch version that fixes must work on."),
    click.option(
        "--accelerator",
        type=click.Choice(["auto", "cuda", "mps", "cpu"]),
        help="What the code is known to run on.",
    ),
    click.option(
        "--output-format",
        type=AskedType(),
        multiple=True,
        metavar="FORMAT[:FILE]",
        help="How to print findings (default: ranked), or a report to write. Repeatable. "
        f"Formats: {', '.join(FORMATS)}.",
    ),
    click.option("-o", "--output-file", metavar="FILE", help="Write the report to FILE instead of standard output."),
    click.option(
        "--fail-on",
        type=click.Choice([severity.value for severity in Severity]),
        help="The lowest severity that makes the exit code 1 (default: warning).",
    ),
    click.option("-j", "--jobs", type=click.IntRange(min=0), metavar="N", help="Worker processes at most."),
    click.option("--timeout", type=float, metavar="SECONDS", help="CPU time for one file (default: 30)."),
    click.option(
        "--max-file-size",
        type=int,
        metavar="BYTES",
        help="Leave out larger files (default: 1000000; 0: no limit).",
    ),
    click.option("--stdin-filename", metavar="PATH", help="The name of what is read from standard input (-)."),
    click.option("--force-exclude", is_flag=True, default=None, help="Obey excludes for named paths too."),
    click.option(
        "--config",
        "configs",
        multiple=True,
        metavar="FILE|KEY=VALUE",
        help="Use this configuration file, or set one key (TOML). Repeatable.",
    ),
    click.option("--isolated", is_flag=True, help="Ignore all configuration files."),
    click.option("--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colours."),
    click.option("-q", "--quiet", is_flag=True, help="Print findings only."),
    click.option("-v", "--verbose", is_flag=True, help="Also say what is left out, and why."),
    click.option("--show-files", is_flag=True, help="List the files that would be checked, and stop."),
    click.option("--show-settings", is_flag=True, help="Print the settings of the first path, and stop."),
)


def common_options(function: F) -> F:
    """Give a command the common options; it takes them as keywords, see `Given`."""
    for option in reversed(_COMMON):
        function = option(function)
    return function


def overrides(given: Given) -> dict[str, object]:
    """Return the options that replace configuration keys, by key; None where not given.

    Raises:
        UsageError: two reports would be printed.
    """
    found = {key: given[key.replace("-", "_")] for key in (*_SETTINGS, *_LISTS)}
    found["output-format"] = printed_format(given["output_format"] or ())
    for key in ("cache-dir", "baseline"):  # of `check` alone; a path of the command line starts from where the user is
        path = given.get(key.replace("-", "_"))
        found[key] = os.path.abspath(path) if path else path
    return found


def wants_color(choice: str, is_terminal: bool, environment: Mapping[str, str] = os.environ) -> bool:
    """Decide on colours: the option, then ``NO_COLOR``, then ``FORCE_COLOR``, then whether it is a terminal."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environment.get(name, "0") not in ("", "0"):
            return True
    return is_terminal and environment.get("TERM") != "dumb"
