"""``torchlint profile … -- train.py``: the program is run, and what it left is read like any other
trace."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from torchlint.base.errors import UsageError
from torchlint.cli.options import Given
from torchlint.cli.program import Seconds, interpreter, variables, writable
from torchlint.program.machine.environment import is_credential

if TYPE_CHECKING:
    from torchlint.cli.scope import Scope
    from torchlint.profile.live import Recorded
    from torchlint.profile.running import Wanted

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--steps", type=click.IntRange(1), default=5, metavar="N",
                 help="Steps that are profiled (default: 5)."),
    click.option("--warmup", type=click.IntRange(2), default=10, metavar="N",
                 help="Steps before; the later half of them is timed without the profiler "
                      "(default: 10)."),
    click.option("--sweep-workers", is_flag=True,
                 help="Try 0, 1, 2, 4 ... workers for the program's DataLoaders, up to the number "
                      "of cores, and say from which on it stops mattering."),
    click.option("--memory", is_flag=True, help="Record shapes and allocations too: slower."),
    click.option("--shapes", is_flag=True, help="Record shapes: they say what limits operators."),
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

_OF_REPORT = frozenset(
    {"output_format", *"paths output_file max_tokens color quiet against history".split()}
)
"""Parameters that `torchlint verify` has too, and that are not about the program that is run."""

_OF_TRACES = tuple("traces against merge summary perfetto csv fail_above rank all_steps".split())
"""Parameters that are about traces."""


def live_options(function: F) -> F:
    """Give a command the options of a run of the user's program."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def prepared(typed: list[str], found: Scope, given: Given, show: Callable[[str], None]) -> Wanted:
    """Return the program, and how it is run.

    Raises:
        UsageError: it cannot be run as it was typed.
        NoTorchError: the interpreter has no torch, or no GPU where one is asked for.
    """
    from torchlint.profile.running import Wanted
    from torchlint.program.command import parse
    from torchlint.program.machine.doctor import ready

    root, cwd = Path(found.settings.root), Path.cwd()
    if not cwd.is_relative_to(root):
        cwd = root
    command = parse(typed, cwd, root, "profile")
    python = interpreter(given["python"])
    show("asking the interpreter")
    doctor = ready(python, given["device"])
    asked = given["device"]
    return Wanted(
        root=root,
        cwd=cwd,
        command=command,
        doctor=doctor,
        python=python,
        device=("cuda" if doctor.gpus else "cpu") if asked == "auto" else asked,
        steps=given["steps"],
        warmup=given["warmup"],
        memory=given["memory"],
        shapes=given["shapes"],
        predict=asked == "auto" and not doctor.gpus,
        timeout=given["timeout"],
        isolation=given["isolation"],
        allow_write=writable(given["allow_write"]),
        env=variables(given["env"]),
    )


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
    from torchlint.profile.live import kept, recorded

    with recorded(prepared(typed, found, given, show), show) as left:
        if given["keep_trace"] is not None:
            kept(left.traces, given["keep_trace"])
        yield left


def for_verify(ctx: click.Context) -> tuple[str, ...]:
    """Return, as words, the options that were given and that `torchlint verify` has too: it is to
    run the program as this run did.

    The values of credentials are left out: of those the name alone is passed on.
    """
    from torchlint.cli.verify import verify_command

    words: list[str] = []
    known = {param.name for param in verify_command.params} - _OF_REPORT
    for param in ctx.command.params:
        given = ctx.get_parameter_source(param.name or "") is ParameterSource.COMMANDLINE
        if param.name not in known or not given:
            continue
        value = ctx.params[param.name]
        if value is True:
            words.append(param.opts[0])
            continue
        for each in value if isinstance(value, tuple) else (value,):
            text = f"{each:g}" if isinstance(each, float) else str(each)
            name, _, content = text.partition("=")
            secret = param.name == "env" and is_credential(name, content)
            words += [param.opts[0], name if secret else text]
    return tuple(words)


def refuse_traces(given: Given, option: str, more: Iterable[str] = ()) -> None:
    """Refuse options about traces beside one that reads none.

    Args:
        given: the parameters.
        option: as the user wrote it.
        more: other parameters that it says nothing of.

    Raises:
        UsageError: naming the first.
    """
    for name in (*_OF_TRACES, *more):
        if given[name] not in (None, False, ()):
            other = "--trace" if name == "traces" else f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} and {other} cannot be used together")


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
    for name in ("sweep_workers", "memory", "shapes", "keep_trace", "allow_write", "env", "python"):
        if given[name]:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{option} is for a program to run: torchlint profile {os.curdir} -- train.py"
            )
