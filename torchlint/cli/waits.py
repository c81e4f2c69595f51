"""``torchlint check --waits``: the waits that the contract lists, and those that it does not."""

from __future__ import annotations

from torchlint.base.errors import UsageError
from torchlint.cli.destinations import to_files
from torchlint.cli.fix import report_undone
from torchlint.cli.options import Given
from torchlint.cli.output import write_report
from torchlint.cli.session import exit_code
from torchlint.report.formats import TEXT_FORMATS
from torchlint.report.listed_waits import amiss, document, table
from torchlint.report.measured import read_waits
from torchlint.report.run_report import RunReport
from torchlint.settings.keys import Settings


def demand(given: Given, settings: Settings) -> None:
    """Refuse formats that the list cannot have.

    Raises:
        UsageError: a report is wanted as a file, or in another format than text or JSON.
    """
    if settings.output_format not in ("json", *TEXT_FORMATS) or to_files(given):
        raise UsageError("--waits prints a table, or --output-format json")


def shown(run: RunReport, given: Given, settings: Settings) -> int:
    """Print the list, and return the exit code: 1 where something waits that is not listed, or is
    listed and gone.

    Raises:
        UsageError: the profile cannot be read.
    """
    costs = read_waits(given["profile"]) if given["profile"] is not None else None
    render = document if settings.output_format == "json" else table
    write_report(given["output_file"], render(run, costs))
    report_undone(run, given)
    return exit_code(run, bool(amiss(run)) and not given["exit_zero"])
