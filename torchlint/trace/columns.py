"""The events of a trace as columns of numbers: about 110 bytes each, whatever their arguments
say."""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torchlint.base.records import frozen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
NONE = -1
"""Stands in a column of integers for what an event does not say."""
DEVICE_CATS = frozenset({"kernel", "Kernel", "gpu_memcpy", "Memcpy", "gpu_memset", "Memset"})
"""Categories of what a device does; old traces write them with capitals."""
COPY_CATS = frozenset({"gpu_memcpy", "Memcpy"})
"""Those of them that are copies."""
CALL_CATS = frozenset({"cuda_runtime", "cuda_driver", "Runtime", "hip_runtime", "hip_driver"})
"""Categories of calls to the driver of a device."""
PYTHON = "python_function"
ANNOTATION = "user_annotation"
DEVICE_ANNOTATION = "gpu_user_annotation"
OPERATOR = "cpu_op"


@frozen
class Columns:
    """One entry per event in each column, in the order of the file.

    `name`, `cat`, `thread`, `stack` and `shape` are places in the tables of `Trace`. The others are
    as the profiler wrote them, `NONE` where it did not: `corr` the correlation of a call with what
    it started on the device, `seq` the sequence number of an operator and its backward, `forward`
    the number of the thread that an operator's backward comes from (0 in forward), `pyid` and
    `parent` the number of a Python frame and of the one that called it, `bw` GB/s.
    """

    ts: Ints
    dur: Ints
    name: Ints
    cat: Ints
    thread: Ints
    corr: Ints
    stream: Ints
    seq: Ints
    forward: Ints
    pyid: Ints
    parent: Ints
    nbytes: Ints
    bw: Floats
    stack: Ints
    shape: Ints

    @property
    def end(self) -> Ints:
        """When each event ended."""
        return self.ts + self.dur

    def where(self, chosen: Mask | Ints) -> Columns:
        """Return the events of a mask, or those with these numbers."""
        return Columns(**{name: getattr(self, name)[chosen] for name in self.__match_args__})


@frozen
class Memory:
    """Changes of memory, as ``profile_memory=True`` records them: when, on which thread, how many
    bytes (negative where they were freed), of which kind of device (0 is the host's), and at which
    address (`NONE` where the profiler did not write it)."""

    ts: Ints
    thread: Ints
    nbytes: Ints
    device: Ints
    address: Ints


@frozen
class Trace:
    """One rank's trace.

    Args:
        path: the file, as the user named it.
        meta: what stands beside the events.
        names: what events are called.
        cats: their categories.
        threads: (process, thread) of events, as text.
        stacks: call stacks of operators, as old profilers wrote them.
        columns: the events that took time.
        lost: how many events could not be read.
        repaired: how many could be read although they are no JSON.
        cut_off: why the file ends before its end; empty where it does not.
        thread_names: what threads are called, by their place in `threads`.
        memory: changes of memory; None where none was recorded.
        modules: calls of modules that torchlint marked: they are no operators, and stand apart from
            `columns`; None where none was marked.
        shapes: what operators were given, with `record_shapes=True`: sizes, dtypes, strides and
            values, each as JSON, empty where the profiler did not write it.
    """

    path: str
    meta: dict[str, Any]
    names: list[str]
    cats: list[str]
    threads: list[tuple[str, str]]
    stacks: list[str]
    columns: Columns
    lost: int = 0
    repaired: int = 0
    cut_off: str = ""
    thread_names: dict[int, str] = field(default_factory=dict)
    memory: Memory | None = None
    modules: Columns | None = None
    shapes: list[tuple[str, ...]] = field(default_factory=list)

    def with_columns(self, columns: Columns) -> Trace:
        """Return the trace with other events of the same tables."""
        return replace(self, columns=columns)

    def named(self, pattern: re.Pattern[str]) -> list[int]:
        """Return the places of the names that a pattern matches as a whole."""
        return [at for at, name in enumerate(self.names) if pattern.fullmatch(name)]

    def of_cat(self, *cats: str) -> Mask:
        """Return which events have one of these categories."""
        places = [at for at, cat in enumerate(self.cats) if cat in cats]
        return np.isin(self.columns.cat, places)

    def device(self) -> Mask:
        """Return which events are work of a device: kernels, copies and sets of memory."""
        return self.of_cat(*DEVICE_CATS) & (self.columns.stream >= 0)

    def calls(self) -> Mask:
        """Return which events are calls to the driver of a device."""
        return self.of_cat(*CALL_CATS)

    def rank(self) -> int | None:
        """Return the rank that the trace says it is of."""
        info = self.meta.get("distributedInfo")
        rank = info.get("rank") if isinstance(info, dict) else None
        return rank if isinstance(rank, int) and not isinstance(rank, bool) else None
