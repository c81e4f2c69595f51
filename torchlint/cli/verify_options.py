"""The options of ``torchlint verify``, and what they mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from operator import itemgetter
from typing import Any, TypeVar

import click

from torchlint.cli.options import (
    Given,
    color_option,
    config_option,
    isolated_option,
    max_tokens,
    table_options,
)
from torchlint.cli.program import Seconds, interpreter, variables, writable
from torchlint.verify.options import PAIRED_LAUNCHES, PROGRAM_LAUNCHES, Options

F = TypeVar("F", bound=Callable[..., Any])
FORMATS = ("text", "json", "markdown", "html", "agent")
FAILURES = ("slower", "different", "inconclusive")


class Percent(click.ParamType[float]):
    """``3%`` or ``0.03``."""

    name = "percent"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return a share, 0.03 for 3 %."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share < 1:
            self.fail(f"{value!r} is no share below 1; write 3% or 0.03", param, ctx)
        return share


def _words(
    allowed: tuple[str, ...],
) -> Callable[[click.Context, click.Parameter, str | None], tuple[str, ...] | None]:
    def split(
        ctx: click.Context, parameter: click.Parameter, value: str | None
    ) -> tuple[str, ...] | None:
        if value is None:
            return None
        found = tuple(
            word.strip() for word in value.split(",") if word.strip() and word.strip() != "never"
        )
        for word in found:
            if word not in allowed:
                raise click.BadParameter(
                    f"{word!r} is none of {', '.join(allowed)}, never", ctx, parameter
                )
        return found

    return split


_MEASURING: tuple[Callable[[Any], Any], ...] = (
    click.option("--device", type=click.Choice(["auto", "cuda", "cpu", "virtual-cuda"]),
                 default="auto",
                 help=("Where to run; virtual-cuda counts transfers without a GPU, and takes no "
                       "times.")),
    click.option("--python", metavar="PATH", help=("The interpreter that has torch (default: this "
                                                   "one).")),
    click.option("--pairs", type=click.IntRange(8), default=24, help=("Paired blocks of each "
                                                                      "variant (default: 24).")),
    click.option("--launches", type=click.IntRange(1), help=("Fresh starts of each variant "
                                                             "(default: 4; of functions and rules "
                                                             "2).")),
    click.option("--block", type=click.IntRange(1), help=("Steps of a block (default: at least 10 "
                                                          "and 50 ms).")),
    click.option("--warmup", type=click.IntRange(1), default=10, help=("Steps before anything is "
                                                                       "measured.")),
    click.option("--settle", type=click.IntRange(0), default=2, help=("Steps before each block "
                                                                      "that do not count.")),
    click.option("--budget", type=Seconds(), help=("Time until the report is printed (default: "
                                                   "300s, of rules none; of functions and rules "
                                                   "about).")),
    click.option("--timeout", type=Seconds(), default="600s", help=("Time for one process "
                                                                    "(default: 600s).")),
    click.option("--ablation", type=click.Choice(["auto", "each", "none"]),
                 default="auto",
                 help=("Which combinations of fixes to time (default: all, and each alone if "
                       "these move).")),
    click.option("--min-effect", type=Percent(), default="3%", help=("The least change worth a "
                                                                     "verdict.")),
    click.option("--seed", type=click.IntRange(0), default=0, help="Of all random streams."),
    click.option("--check-steps", type=click.IntRange(1), default=20, help=("Steps whose results "
                                                                            "are compared.")),
    click.option("--threads", type=click.IntRange(1), default=1, help=("Threads of each process "
                                                                       "on a CPU.")),
)  # fmt: skip
_WRITING: tuple[Callable[[Any], Any], ...] = (
    click.option("--apply", is_flag=True, help=("Write the fixes that were proved to the files, "
                                                "safe or not, and no other.")),
    click.option("--commit", is_flag=True, help=("With --apply: make a git commit of each fix that "
                                                 "was proved.")),
    click.option("--patch", metavar="FILE", help=("Write the fixes that were proved as a patch to "
                                                  "FILE (-: standard output), and change no "
                                                  "file.")),
)  # fmt: skip
_VERSIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--against", metavar="REV|DIR|PATCH", help=("Compare the working tree with this "
                                                             "git revision or folder, or with and "
                                                             "without this patch, not with and "
                                                             "without fixes.")),
    click.option("--between", nargs=2, metavar="OLD NEW", help=("Compare two git revisions or "
                                                                "folders.")),
    click.option("--history", metavar="FILE", help=("Append what two versions came to, as a line "
                                                    "of JSON, for torchlint history.")),
)  # fmt: skip
_RUNNING: tuple[Callable[[Any], Any], ...] = (
    click.option("--isolation", type=click.Choice(["auto", "copy"]), default="auto",
                 help=("auto: a copy, writes elsewhere refused where the system can; copy: a copy "
                       "only.")),
    click.option("--allow-write", multiple=True, metavar="PATH", help=("Let the program write "
                                                                       "here too. Repeatable.")),
    click.option("--env", multiple=True, metavar="K=V|K", help=("Pass a variable, credentials "
                                                                "too. Repeatable.")),
    click.option("--keep", is_flag=True, help="Leave the copies."),
    click.option("--inputs", metavar="CODE|FILE:FUNCTION", help=('Arguments of a function: '
                                                                 '"randn(64, 512), n=10".')),
    click.option("--grad", is_flag=True, help="Compare gradients of a function too."),
    click.option("--no-waits", is_flag=True, help=("Run the program, and fail where a step waits "
                                                   "at a line that the contract of no waits does "
                                                   "not list.")),
    click.option("--doctor", is_flag=True, help="Say what can be measured here, and stop."),
    *(option for _, option in sorted(table_options("verify"), key=itemgetter(0))),
    config_option,
    isolated_option,
    click.option("--output-format", type=click.Choice(FORMATS), default="text", help=("How to "
                                                                                      "print the "
                                                                                      "report.")),
    max_tokens,
    click.option("-o", "--output-file", metavar="FILE", help="Write the report to FILE."),
    click.option("--fail-on", callback=_words(FAILURES), metavar="VERDICT,...",
                 help="What makes the exit code 1: slower, different, inconclusive, never "
                      "(default: slower,different; "
                 "for rules different)."),
    color_option,
    click.option("-q", "--quiet", is_flag=True, help="Print the report only."),
)  # fmt: skip


def verify_options(function: F) -> F:
    """Give a command the options of verify."""
    for option in reversed((*_VERSIONS, *_WRITING, *_MEASURING, *_RUNNING)):
        function = option(function)
    return function


def options(given: Given) -> Options:
    """Return the options as `Options`.

    Raises:
        UsageError: a path does not exist, or a variable is not K=V.
    """
    taken = {each.name: given[each.name] for each in fields(Options)}
    rules = given["targets"][:1] == ("rules",)
    paired = rules or any("::" in name for name in given["targets"])
    taken["launches"] = given["launches"] or (PAIRED_LAUNCHES if paired else PROGRAM_LAUNCHES)
    taken["budget"] = given["budget"] or (math.inf if rules else 300.0)
    taken["python"] = interpreter(given["python"])
    taken["allow_write"] = writable(given["allow_write"])
    taken["env"] = variables(given["env"])
    return Options(**taken)
