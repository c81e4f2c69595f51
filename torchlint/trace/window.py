"""The part of a trace that is told of: all steps but the last, whose work may not be all there."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from torchlint.trace.columns import DEVICE_ANNOTATION, DEVICE_CATS, Mask, Trace
from torchlint.trace.marks import recorded

STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
"""What ``profiler.step()`` calls a step in a trace."""


def step_marks(trace: Trace) -> list[tuple[int, int, int]]:
    """Return (number, start, end) of the steps that the program marked, by start."""
    numbers = {
        at: int(found[1]) for at, name in enumerate(trace.names) if (found := STEP.match(name))
    }
    columns = trace.columns
    marked = np.isin(columns.name, list(numbers)) & ~trace.of_cat(DEVICE_ANNOTATION)
    marks = columns.where(marked)
    rows = zip(marks.name.tolist(), marks.ts.tolist(), marks.end.tolist(), strict=True)
    return sorted(
        ((numbers[name], start, end) for name, start, end in rows), key=lambda row: row[1]
    )


def window(trace: Trace, all_steps: bool = False) -> Trace:
    """Return the part of a trace that everything is told of.

    Of two marked steps or more that is what the host began before the last of them, up to then, and
    what that started on the device, as for Holistic Trace Analysis, so that its figures and ours
    can be compared. torchlint waits for the work of the last step, which counts in what it recorded
    itself; there the rest is left out, as the profiler is stopped inside of the statement that ends
    this step, which seems to last until then.

    Args:
        trace: one rank's.
        all_steps: whether the last step counts in any trace.
    """
    marks = step_marks(trace)
    columns = trace.columns
    device = trace.of_cat(*DEVICE_CATS, DEVICE_ANNOTATION)
    if recorded(trace) and marks:
        end = max(end for *_, end in marks)
        inside = device | (columns.ts < end)
    elif all_steps or len({number for number, *_ in marks}) < 2:
        return trace
    else:
        end = marks[-1][1]
        inside = before(trace, end)
    kept = columns.where(inside)
    dur = np.where(device[inside], kept.dur, np.minimum(kept.dur, end - kept.ts))
    return trace.with_columns(replace(kept, dur=dur))


def before(trace: Trace, time: int) -> Mask:
    """Return the host's events that began before a time, and what those started on the device."""
    columns = trace.columns
    device = trace.device()
    on_device = trace.of_cat(*DEVICE_CATS, DEVICE_ANNOTATION)
    host = ~on_device & (columns.ts < time)
    started = columns.corr[host & (columns.corr >= 0)]
    return host | (device & np.isin(columns.corr, started))
