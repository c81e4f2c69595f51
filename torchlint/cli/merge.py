"""``torchlint merge``: the reports of shards as the one report that the whole run would have
given."""

from __future__ import annotations

import json
import math
import os
from typing import Any

import click

from torchlint.base.errors import OutputError, SourceError, UsageError
from torchlint.cli.output import check_output_file, complain, emit, write_output_file
from torchlint.report.kit.ascii_json import dump
from torchlint.report.kit.words import visible_path
from torchlint.report.merging import MergeError, merged, say_nothing_of_shards
from torchlint.source.document import read_bytes

_LARGEST = 512_000_000


@click.command("merge")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
@click.option(
    "-o",
    "--output-file",
    metavar="FILE",
    help="Write the report to FILE instead of standard output.",
)
@click.option(
    "--of", "total", type=click.IntRange(1), metavar="N", help="How many shards there have to be."
)
def merge_command(reports: tuple[str, ...], output_file: str | None, total: int | None) -> int:
    """Join the REPORTs of shards, all json or all sarif, into one. Those of json-lines can be
    concatenated.

    Shards know which part of how many they are: all have to be there, once, and be of one run. An
    empty report of the json format alone does not know: where there may be nothing else, name the
    number of shards with --of.

    Exit code: 0, or 2 when a report cannot be used or a shard is missing. Whether findings fail a
    build is said by the shards themselves.
    """
    if output_file is not None:
        if os.path.realpath(output_file) in map(os.path.realpath, reports):
            raise OutputError(
                f"--output-file {visible_path(output_file)}: is one of the reports to join"
            )
        check_output_file(output_file, ())
    values = [_read(path) for path in reports]
    try:
        text = dump(merged(values, total))
    except RecursionError:
        raise UsageError("the reports are nested too deeply to be joined") from None
    except MergeError as error:
        where = "" if error.at is None else f"{visible_path(reports[error.at])}: "
        raise UsageError(f"{where}{error}") from None
    if total is None and say_nothing_of_shards(values):
        complain(
            "torchlint: warning: all reports are empty, so none says of how many shards it is; "
            "--of N makes sure that none is missing"
        )
    if output_file is not None:
        write_output_file(output_file, text.encode())
    else:
        emit(text)
    return 0


def _read(path: str) -> Any:
    try:
        return json.loads(
            read_bytes(path, path, _LARGEST), parse_constant=_number, parse_float=_number
        )
    except SourceError as error:
        raise UsageError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None


def _number(text: str) -> float:
    """Return a number of JSON, which has none that is not finite."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number")
    return number
