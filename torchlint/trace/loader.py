"""How long a program waited for its DataLoaders."""

from __future__ import annotations

import re

import numpy as np

from torchlint.trace.columns import Mask, Trace
from torchlint.trace.intervals import Spans, union

NEXT = re.compile(r"enumerate\(DataLoader\)#.*__next__")
"""What PyTorch calls the wait for the next batch."""


def of_loaders(trace: Trace) -> Mask:
    """Return which events are the wait for the next batch."""
    return np.isin(trace.columns.name, trace.named(NEXT))


def waits(trace: Trace) -> Spans:
    """Return when the program waited for data; spans that lie apart."""
    found = trace.columns.where(of_loaders(trace))
    return union(found.ts, found.end)
