"""The options that come from the table of configuration keys, those that `check` and `fix` share,
and the variables that set some of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torchlint.base.errors import UsageError
from torchlint.base.finding import Severity
from torchlint.base.places import VARIABLES
from torchlint.cli.destinations import AskedType, printed_format
from torchlint.report.kit.tokens import DEFAULT
from torchlint.settings import values
from torchlint.settings.keys import CACHE_DIR, KEYS, Key, checked

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])
Given = Mapping[str, Any]
"""The parameters of a command by name, as click passes them."""


def _comma_list(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> tuple[str, ...] | None:
    pieces = (piece.strip() for part in value for piece in part.split(","))
    items = tuple(item for item in pieces if item)
    return items if value else None


def _rules_by_glob(
    _context: click.Context, _parameter: click.Parameter, value: tuple[str, ...]
) -> dict[str, list[str]] | None:
    """Return the rules of each glob, of pairs as ruff has them: ``GLOB:RULE,GLOB:RULE``."""
    found: dict[str, list[str]] = {}
    for pair in filter(None, map(str.strip, ",".join(value).split(","))):
        glob, _, rule = map(str.strip, pair.rpartition(":"))
        if not glob or not rule:
            raise click.BadParameter(f"{pair!r} is not GLOB:RULE, such as 'scripts/*:TL101'")
        found.setdefault(glob, []).append(rule)
    return found or None


def complete_rules(
    _context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the codes and names of rules that begin as typed, or a whole family or severity; of a
    list, its last one."""
    from click.shell_completion import CompletionItem

    from torchlint.catalog.rules import load_catalog

    before, comma, typed = "", "", incomplete
    if parameter.multiple:
        before, comma, typed = incomplete.rpartition(",")
    catalog = load_catalog()
    words = [(word, info.title) for info in catalog.rules for word in (info.code, info.name)]
    words += [(group, f"All {group} rules") for group in sorted(catalog.groups)]
    return [
        CompletionItem(f"{before}{comma}{word}", help=title)
        for word, title in words
        if word.startswith((typed, typed.upper())) and (typed or catalog.find(word))
    ]


_RULES = {
    "multiple": True,
    "metavar": "RULE,...",
    "callback": _comma_list,
    "shell_complete": complete_rules,
}
_AS_OPTION: Mapping[values.Checker, Mapping[str, Any]] = {
    values.selection: _RULES,
    values.rules: _RULES,
    values.texts: {"multiple": True, "callback": _comma_list},
    values.rules_by_glob: {"multiple": True, "callback": _rules_by_glob},
    values.flag: {"is_flag": True, "default": None},
    values.count: {"type": int},
    values.seconds: {"type": float},
    values.severity: {"type": click.Choice([severity.value for severity in Severity])},
    values.report_format: {"type": AskedType(), "multiple": True},
}
"""The kind of value → what click is to know of an option that takes it."""


def with_variable(option: str, words: str) -> str:
    """Return the help of an option with the variable that sets it, where there is one."""
    return f"{words} [env: {VARIABLES[option]}]" if option in VARIABLES else words


def variable(option: str) -> str | None:
    """Return what the variable of an option says, None where it is not set.

    Raises:
        UsageError: it is empty.
    """
    value = os.environ.get(VARIABLES[option])
    if value == "":
        raise UsageError(f"{VARIABLES[option]} is empty: unset it, or give it a value")
    return value


def variable_is_true(option: str) -> bool:
    """Say whether the variable of an option without a value asks for it.

    Raises:
        UsageError: it is neither ``true`` nor ``false``.
    """
    value = variable(option)
    if value not in (None, "true", "false"):
        shown = values.shortened(value)
        raise UsageError(f"{VARIABLES[option]} must be true or false, not {shown}")
    return value == "true"


def from_environment(given: Given) -> dict[str, object]:
    """Return the keys that variables set, of those that are options of a command, and the folder
    of the cache for all.

    Raises:
        UsageError: a variable has a value that its key does not take.
    """
    found: dict[str, object] = {}
    for key in filter(KEYS.__contains__, VARIABLES):
        value = variable(key) if parameter(key) in given or key == CACHE_DIR else None
        if value is not None:
            at = os.path.abspath(value) if KEYS[key].check is values.path else value
            found[key] = checked(key, at, f"{VARIABLES[key]}: ", UsageError)
    return found


def _from_table(key: str, row: Key, group: str) -> Callable[[F], F]:
    option = row.option
    assert option is not None
    flag = f"--{key}/--no-{key}" if option.negative else f"--{key}"
    known: dict[str, Any] = {**_AS_OPTION.get(row.check, {})}
    if isinstance(row.check, values.Choice) and not known:
        known["type"] = click.Choice(row.check.names)
    if option.lowest is not None:
        known["type"] = click.IntRange(min=option.lowest)
    if option.metavar is not None:
        known["metavar"] = option.metavar
    return click.option(
        *filter(None, [option.short]), flag, help=with_variable(key, option.helps[group]), **known
    )


Placed = tuple[int, Callable[[Any], Any]]
"""An option of click with its place among the others."""


def table_options(group: str) -> list[Placed]:
    """Return the options of a group with their places, see `torchlint.settings.keys.Option`."""
    return [
        (row.option.place, _from_table(key, row, group))
        for key, row in KEYS.items()
        if row.option is not None and group in row.option.helps
    ]


def parameter(key: str) -> str:
    """Return the name that click gives the option of a key."""
    return key.replace("-", "_")


def asked_in(group: str) -> tuple[str, ...]:
    """Return the names that click gives the options of a group."""
    rows = KEYS.items()
    return tuple(parameter(key) for key, row in rows if row.option and group in row.option.helps)


def in_order(options: Iterable[Placed]) -> Callable[[F], F]:
    """Return a decorator that gives a command options, in the order of their places."""
    ordered = [option for _, option in sorted(options, key=itemgetter(0))]

    def decorate(function: F) -> F:
        for option in reversed(ordered):
            function = option(function)
        return function

    return decorate


CONFIG_HELP = with_variable(
    "config", "Use this configuration file, or set one key (TOML). Repeatable."
)
max_tokens = click.option(
    "--max-tokens",
    type=click.IntRange(min=1),
    default=DEFAULT,
    show_default=True,
    metavar="N",
    help="With --output-format agent: the most tokens to print, estimated as characters / 4.",
)
"""The option of the commands that have a report for agents."""
color_option = click.option(
    "--color", type=click.Choice(["auto", "always", "never"]), default="auto", help="Use colours."
)
config_option = click.option(
    "--config", "configs", multiple=True, metavar="FILE|KEY=VALUE", help=CONFIG_HELP
)
isolated_option = click.option("--isolated", is_flag=True, help="Ignore all configuration files.")
common_options = in_order(
    [
        (0, click.argument("paths", nargs=-1)),
        *table_options("common"),
        (
            80,
            click.option(
                "-o",
                "--output-file",
                metavar="FILE",
                help=with_variable(
                    "output-file", "Write the report to FILE instead of standard output."
                ),
            ),
        ),
        (
            130,
            click.option(
                "--stdin-filename",
                metavar="PATH",
                help="The name of what is read from standard input (-).",
            ),
        ),
        (
            145,
            click.option(
                "--ignore-noqa",
                is_flag=True,
                help="Report what comments suppress, too; waits that they list stay listed.",
            ),
        ),
        (150, config_option),
        (160, isolated_option),
        (170, color_option),
        (180, click.option("-q", "--quiet", is_flag=True, help="Print findings only.")),
        (
            185,
            click.option(
                "-s",
                "--silent",
                is_flag=True,
                help="Print no finding, in whatever format, and no message; the exit code tells.",
            ),
        ),
        (
            190,
            click.option(
                "-v", "--verbose", is_flag=True, help="Also say what is left out, and why."
            ),
        ),
        (
            200,
            click.option(
                "--show-files",
                is_flag=True,
                help="List the files that would be checked, and stop.",
            ),
        ),
        (
            210,
            click.option(
                "--show-settings",
                is_flag=True,
                help="Print the settings of the first path, and stop.",
            ),
        ),
    ]
)
"""Gives a command the common options; it takes them as keywords, see `Given`."""


def quietened(given: Given) -> Given:
    """Return the parameters of a command that is quiet where it is silent.

    Raises:
        UsageError: it shall also say more.
    """
    asked = [name for name in ("silent", "quiet", "verbose") if given[name]]
    if len(asked) > 1:
        raise UsageError(f"--{asked[0]} and --{asked[1]} cannot be used together")
    return {**given, "quiet": given["quiet"] or given["silent"]}


def overrides(given: Given) -> dict[str, object]:
    """Return the options that replace configuration keys, by key; None where not given.

    Raises:
        UsageError: two reports would be printed.
    """
    return {
        key: _as_written(row, given.get(parameter(key)))
        for key, row in KEYS.items()
        if row.option is not None
    }


def _as_written(row: Key, value: Any) -> object:
    """Return an option's value as the key would have it in a configuration."""
    if row.check is values.report_format:
        return printed_format(value or ())
    if row.check is values.path and value:  # on the command line it starts from where the user is
        return os.path.abspath(value)
    return value


def wants_color(
    choice: str, is_terminal: bool, environment: Mapping[str, str] = os.environ
) -> bool:
    """Decide on colours: the option, then ``NO_COLOR``, then ``FORCE_COLOR``, then whether it is a
    terminal."""
    if choice != "auto":
        return choice == "always"
    if environment.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if environment.get(name, "0") not in ("", "0"):
            return True
    return is_terminal and environment.get("TERM") != "dumb"
