"""Marks of the program's statements, in traces that torchlint recorded."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import Mask, Trace

TABLE = "torchlint_marks"
"""What the table of marks is called that stands beside the events."""
_QUEUED = "torchlint_queued"
_MARK = re.compile(r"tl#\d+")


@frozen
class Statement:
    """A statement of the program: its file and first line, and the function that it is in."""

    file: str
    line: int
    function: str


def recorded(trace: Trace) -> bool:
    """Say whether torchlint recorded the trace."""
    return TABLE in trace.meta


def queued(trace: Trace) -> dict[int, int]:
    """Return for how many nanoseconds of each marked step, by number, the training thread was ready
    to run and had no core; nothing where that was not recorded."""
    table = trace.meta.get(_QUEUED)
    rows = table.items() if isinstance(table, dict) else ()
    return {int(number): ns for number, ns in rows if number.isdecimal() and isinstance(ns, int)}


def of_marks(trace: Trace) -> Mask:
    """Return which events are marks of statements."""
    return np.isin(trace.columns.name, trace.named(_MARK) if recorded(trace) else [])


def statements(trace: Trace) -> Mapping[str, Statement]:
    """Return the statements that marks stand for, by the names of the marks."""
    table = trace.meta.get(TABLE)
    found = {}
    for number, row in table.items() if isinstance(table, dict) else ():
        match row:
            case [str(file), int(line), int(), str(function)]:
                found[f"tl#{number}"] = Statement(file, line, function)
    return found
