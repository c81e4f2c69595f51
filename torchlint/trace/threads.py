"""Which threads of a trace train: one that runs the program, and autograd's, which take turns."""

from __future__ import annotations

import numpy as np

from torchlint.trace.columns import ANNOTATION, NONE, OPERATOR, PYTHON, Ints, Mask, Trace
from torchlint.trace.window import STEP

BACKWARD = "autograd::engine::evaluate_function"
"""How names of events begin in which autograd runs the backward of one operator."""


def backward(trace: Trace) -> Mask:
    """Return which events run the backward of one operator."""
    places = [at for at, name in enumerate(trace.names) if name.startswith(BACKWARD)]
    return np.isin(trace.columns.name, places)


def training(trace: Trace) -> int:
    """Return the thread that runs the program, `NONE` where there is none: it marks steps, or calls
    a device, a Python function or an operator most; where possible it is not one of autograd's."""
    columns = trace.columns
    marks = [at for at, name in enumerate(trace.names) if STEP.match(name)]
    autograd = np.unique(columns.thread[backward(trace)])
    marked = columns.thread[np.isin(columns.name, marks) & trace.of_cat(ANNOTATION)]
    callers = columns.thread[trace.calls()]
    others = callers[~np.isin(callers, autograd)]
    hosts = (columns.thread[trace.of_cat(cat)] for cat in (PYTHON, OPERATOR))
    return next(
        (_most(threads) for threads in (marked, others, callers, *hosts) if len(threads)), NONE
    )


def together(trace: Trace) -> list[int]:
    """Return the training thread and autograd's; all of the host where nothing tells them apart."""
    columns = trace.columns
    autograd = np.unique(columns.thread[backward(trace)]).tolist()
    steps = any(STEP.match(name) for name in trace.names)
    if trace.calls().any() or steps:
        return sorted({training(trace), *autograd})
    return sorted({*np.unique(columns.thread[~trace.device()]).tolist(), *autograd})


def recorded_events(trace: Trace) -> Ints:
    """Return the events of the training thread, as rows."""
    return np.flatnonzero((trace.columns.thread == training(trace)) & ~trace.device())


def _most(threads: Ints) -> int:
    names, counts = np.unique(threads, return_counts=True)
    return int(names[np.argmax(counts)])
