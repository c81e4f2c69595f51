"""``torchlint merge``: the reports of shards as the one report that the whole run would have given."""

from __future__ import annotations

import json
from typing import Any

import click

from torchlint.base.errors import SourceError, UsageError
from torchlint.cli.output import check_output_file, emit, write_output_file
from torchlint.report.ascii_json import dump
from torchlint.report.merging import MergeError, merged
from torchlint.report.text import visible_path
from torchlint.source.document import read_bytes

_LARGEST = 512_000_000


@click.command("merge")
@click.argument("reports", nargs=-1, required=True, metavar="REPORT...")
@click.option("-o", "--output-file", metavar="FILE", help="Write the report to FILE instead of standard output.")
def merge_command(reports: tuple[str, ...], output_file: str | None) -> int:
    """Join the REPORTs of shards, all json or all sarif, into one. Those of json-lines can be concatenated.

    Shards know which part of how many they are: all have to be there, once, and be of one run.

    Exit code: 0, or 2 when a report cannot be used or a shard is missing. Whether findings fail a build is said by the
    shards themselves.
    """
    if output_file is not None:
        check_output_file(output_file, ())
    values = [_read(path) for path in reports]
    try:
        text = dump(merged(values))
    except MergeError as error:
        where = "" if error.at is None else f"{visible_path(reports[error.at])}: "
        raise UsageError(f"{where}{error}") from None
    if output_file is not None:
        write_output_file(output_file, text.encode())
    else:
        emit(text)
    return 0


def _read(path: str) -> Any:
    try:
        return json.loads(read_bytes(path, path, _LARGEST))
    except SourceError as error:
        raise UsageError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path}: not JSON: {error}") from None
