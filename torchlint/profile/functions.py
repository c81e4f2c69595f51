"""What functions of a program take of the host's time themselves: Python, without operators, calls
of drivers and waits for batches."""

from __future__ import annotations

from collections import Counter

import numpy as np

from torchlint.base.records import frozen
from torchlint.profile.places import Places
from torchlint.trace.columns import ANNOTATION, DEVICE_ANNOTATION, PYTHON
from torchlint.trace.loader import of_loaders
from torchlint.trace.marks import of_marks
from torchlint.trace.nest import exclusive, parents
from torchlint.trace.threads import training


@frozen
class FunctionCost:
    """A function of the program, with the nanoseconds of the training thread's Python in it, that
    of libraries which it calls included."""

    file: str
    function: str
    python_ns: int


def functions(places: Places) -> tuple[FunctionCost, ...]:
    """Return the functions of the program, the most costly first.

    Args:
        places: of a trace with marks or Python frames.
    """
    trace = places.trace
    annotations = trace.of_cat(ANNOTATION, DEVICE_ANNOTATION) & ~of_loaders(trace)
    host = ~trace.device() & ~annotations
    own = exclusive(trace.columns, parents(trace, host))
    python = (of_marks(trace) | trace.of_cat(PYTHON)) & ~places.backward & (places.at >= 0)
    python &= trace.columns.thread == training(trace)
    times: Counter[tuple[str, str]] = Counter()
    for row in np.flatnonzero(python & (own > 0)).tolist():
        site = places.of(row)
        if site.file:
            times[site.file, site.function] += int(own[row])
    return tuple(FunctionCost(*key, time) for key, time in times.most_common())
