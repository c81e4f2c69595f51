"""The tables of a report as CSV: those of its JSON document, by the names that they have there."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def tables(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name of each table and its text.

    A list of objects has a row for each of them, an object one row, and what the document itself
    holds is `report`. Objects in a row are columns with a dot in their names; what is not known is
    empty, and a table of which nothing is known is left out.

    Args:
        document: see `torchlint.profile.output.json_report.document`.
    """
    yield from _tables_of("report", document, "")


def _tables_of(name: str, value: Any, below: str) -> Iterator[tuple[str, str]]:
    """Yield the tables of a value: its own, and those in it, whose names begin with `below`."""
    if isinstance(value, Mapping):
        inner = {key: part for key, part in value.items() if isinstance(part, Sequence | Mapping)}
        inner = {key: part for key, part in inner.items() if not isinstance(part, str)}
        single = {key: part for key, part in value.items() if key not in inner}
        yield from _written(name, [single])
        for key, part in inner.items():
            path = f"{below}{key}"
            yield from _tables_of(path, part, f"{path}.")
    elif value and isinstance(value[0], Mapping):
        yield from _written(name, [dict(_columns("", row)) for row in value])
    else:
        yield from _written(name, [{name: each} for each in value])


def _columns(prefix: str, row: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in row.items():
        if isinstance(value, Mapping):
            yield from _columns(f"{prefix}{key}.", value)
        elif isinstance(value, list):
            plain = all(isinstance(each, str) for each in value)
            yield f"{prefix}{key}", "; ".join(value) if plain else json.dumps(value)
        else:
            yield f"{prefix}{key}", value


def _written(name: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    heads = list(dict.fromkeys(key for row in rows for key in row))
    if not any(value is not None for row in rows for value in row.values()):
        return
    text = io.StringIO()
    out = csv.DictWriter(text, heads, lineterminator="\n")
    out.writeheader()
    out.writerows(rows)
    yield name, text.getvalue()
