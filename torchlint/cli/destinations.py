"""Where reports go: ``--output-format FORMAT[:FILE]``, any number of times, and
``--output-file``."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Set
from typing import TYPE_CHECKING, Any

import click

from torchlint.base.errors import OutputError, UsageError
from torchlint.base.places import VARIABLES
from torchlint.base.records import frozen
from torchlint.cli.output import check_output_file, write_output_file
from torchlint.report.formats import FORMATS
from torchlint.report.kit.words import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from torchlint.report.run_report import RunReport


@frozen
class Asked:
    """A report that the user asked for; without a file it is the one that is printed."""

    format: str
    file: str = ""

    @property
    def option(self) -> str:
        """The option as it was written, for messages."""
        return f"--output-format {self.format}{':' * bool(self.file)}{visible(self.file)}"


class AskedType(click.ParamType[Asked]):
    """``sarif`` or ``sarif:out.sarif``."""

    name = "format"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Asked:
        """Return what was asked for; a file named ``-`` is standard output."""
        name, colon, file = str(value).partition(":")
        if name not in FORMATS:
            import difflib  # only a mistake needs it

            near = difflib.get_close_matches(name.lower(), FORMATS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"the formats are {', '.join(FORMATS)}"
            self.fail(f"there is no format {name!r}; {hint}", param, ctx)
        if colon and not file:
            self.fail(f"{value!r} names no file after the colon", param, ctx)
        return Asked(name, "" if file == "-" else file)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the formats that begin as typed."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in FORMATS if name.startswith(incomplete)]


def printed_format(asked: tuple[Asked, ...]) -> str | None:
    """Return the format of the report that is printed, or None where the configuration decides.

    Raises:
        UsageError: there are two.
    """
    names = list(dict.fromkeys(report.format for report in asked if not report.file))
    if len(names) > 1:
        raise UsageError(
            f"--output-format: {names[0]} and {names[1]} would both be printed; "
            f"give one a file: --output-format {names[1]}:FILE"
        )
    return names[0] if names else None


def to_files(given: Mapping[str, Any]) -> tuple[Asked, ...]:
    """Return the reports that go to files of their own."""
    return tuple(report for report in given["output_format"] if report.file)


def check_destinations(given: Mapping[str, Any], inputs: Set[str]) -> None:
    """Refuse files that reports cannot be meant to go to, before any work is done.

    Args:
        given: the command's parameters.
        inputs: real paths of the files that are checked.

    Raises:
        OutputError: see `check_output_file`; or two reports would go to one file.
    """
    before: dict[str, str] = {}
    for path, option in _places(given):
        check_output_file(path, inputs, option)
        real = os.path.realpath(path)
        if real in before:
            raise OutputError(f"{option}: {before[real]} writes the same file")
        before[real] = option


def refuse_reports(given: Mapping[str, Any], what: str) -> None:
    """Refuse reports that the user asks for where a command prints something else.

    Raises:
        UsageError: there is one.
    """
    for report in given["output_format"]:
        raise UsageError(
            f"{report.option}: {what} writes a patch and no report; `torchlint check` has reports"
        )


def printed_to(given: Mapping[str, Any]) -> str:
    """Return the option, or its variable, that names the file of the report else printed."""
    source = click.get_current_context().get_parameter_source("output_file")
    typed = source is click.core.ParameterSource.COMMANDLINE
    name = "--output-file" if typed else VARIABLES["output-file"]
    return f"{name} {visible(given['output_file'])}"


def write_reports(run: RunReport, reports: tuple[Asked, ...]) -> None:
    """Write the reports that go to files; none before all are made.

    Raises:
        OutputError: a file cannot be written.
    """
    plain = dataclasses.replace(run, color=False)
    for report, text in [(report, FORMATS[report.format](plain)) for report in reports]:
        write_output_file(report.file, text.encode("utf-8", "backslashreplace"), report.option)


def _places(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each file with the option that names it."""
    if given["output_file"] is not None:
        yield given["output_file"], printed_to(given)
    yield from ((report.file, report.option) for report in to_files(given))
