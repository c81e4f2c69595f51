"""``torchlint profile … -- train.py``: the program is run, and what it left is read like any other
trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from torchlint.base.errors import UsageError
from torchlint.cli.options import Given
from torchlint.cli.program import Seconds, interpreter, ready, variables, writable

if TYPE_CHECKING:
    from torchlint.cli.scope import Scope
    from torchlint.profile.live import Recorded

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--steps", type=click.IntRange(1), default=5, metavar="N",
                 help="Steps that are profiled (default: 5)."),
    click.option("--warmup", type=click.IntRange(2), default=10, metavar="N",
                 help="Steps before; the later half of them is timed without the profiler "
                      "(default: 10)."),
    click.option("--memory", is_flag=True, help="Record shapes and allocations too: slower."),
    click.option("--keep-trace", metavar="FILE", help="Write the trace to FILE (.json, .json.gz)."),
    click.option("--device", type=click.Choice(["auto", "cuda", "cpu"]), default="auto",
                 help="What the program finds: with cpu no GPU."),
    click.option("--python", metavar="PATH", help="The interpreter that has torch (default: this "
                                                  "one)."),
    click.option("--timeout", type=Seconds(), default="600s", help="Time for the program (default: "
                                                                   "600s)."),
    click.option("--isolation", type=click.Choice(["auto", "copy"]), default="auto",
                 help="auto: a copy, writes elsewhere refused where the system can; copy: a copy "
                      "only."),
    click.option("--allow-write", multiple=True, metavar="PATH", help="Let the program write here "
                                                                      "too. Repeatable."),
    click.option("--env", multiple=True, metavar="K=V|K", help="Pass a variable, credentials too. "
                                                               "Repeatable."),
)  # fmt: skip


def live_options(function: F) -> F:
    """Give a command the options of a run of the user's program."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@contextmanager
def run(
    typed: list[str], found: Scope, given: Given, show: Callable[[str], None]
) -> Iterator[Recorded]:
    """Run a program, and give what it left for as long as the context lasts.

    Raises:
        UsageError: it cannot be run as it was typed, or ends too early.
        NoTorchError: the interpreter has no torch, or no GPU where one is asked for.
        ProgramFailedError: the program fails.
    """
    from torchlint.profile.live import Wanted, kept, recorded
    from torchlint.program.command import parse

    root, cwd = Path(found.settings.root), Path.cwd()
    if not cwd.is_relative_to(root):
        cwd = root
    command = parse(typed, cwd, root, "profile")
    python = interpreter(given["python"])
    show("asking the interpreter")
    doctor = ready(python, given["device"])
    asked = given["device"]
    wanted = Wanted(
        python=python,
        device=("cuda" if doctor.gpus else "cpu") if asked == "auto" else asked,
        steps=given["steps"],
        warmup=given["warmup"],
        memory=given["memory"],
        timeout=given["timeout"],
        isolation=given["isolation"],
        allow_write=writable(given["allow_write"]),
        env=variables(given["env"]),
    )
    with recorded(root, cwd, command, wanted, doctor, show) as left:
        if given["keep_trace"] is not None:
            kept(left.traces, given["keep_trace"])
        yield left


def demand_run(given: Given) -> None:
    """Refuse what makes no sense beside a program to run.

    Raises:
        UsageError: naming it.
    """
    for option, value in (("--trace", given["traces"]), ("--merge", given["merge"])):
        if value:
            raise UsageError(f"{option} reads what has been measured; leave out -- and the program")


def demand_trace(given: Given) -> None:
    """Refuse options of a run where nothing is run.

    Raises:
        UsageError: naming the first.
    """
    for name in ("memory", "keep_trace", "allow_write", "env", "python"):
        if given[name]:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} is for a program to run: torchlint profile {os.curdir} -- train.py"
            )
