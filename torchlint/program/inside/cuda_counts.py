"""Counts of syncs and copied bytes on a real GPU: PyTorch's sync debug mode and the profiler's
memory copies.

The reading of traces is tested on made-up ones; a run on a GPU is kept in
``tests/verify/ledger_observed.json``. The sync count is a lower bound: the debug mode is
experimental, does not see ``torch.distributed`` and ``torch.sparse``, nor copies into pageable
memory with ``non_blocking=True`` (PyTorch's documentation of ``set_sync_debug_mode``).
"""

from __future__ import annotations

import bisect
import itertools
import json
import os
import tempfile
import warnings
from typing import Any

import torch

from .ledger.events import Events

_MARK = "torchlint#step"
_MESSAGE = "called a synchronizing CUDA operation"
_KINDS = {"HtoD": "h2d", "DtoH": "d2h"}


class CudaCounts:
    """The ledger's interface with observed numbers (basis ``"cuda"``).

    Args:
        root: the project's folder. Syncs are given to the nearest frame below it, else to
            ``"<library>"``.
    """

    def __init__(self, root: str) -> None:
        self._events = Events(root)
        self._profile: Any = None
        self._show: Any = None
        self._trace: list[dict[str, Any]] = []

    def start(self) -> None:
        """Switch sync warnings and the profiler on."""
        if not torch.cuda.is_available():
            self._events.gap("torch sees no CUDA device")
            return
        self._show = warnings.showwarning
        warnings.showwarning = self._shown
        self._listen()
        torch.cuda.set_sync_debug_mode("warn")
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        self._profile = torch.profiler.profile(activities=activities)
        self._profile.__enter__()

    def _listen(self) -> None:
        warnings.filterwarnings("always", message=f".*{_MESSAGE}.*")

    def _shown(self, message: Any, *rest: Any, **keywords: Any) -> None:
        if _MESSAGE in str(message):
            self._events.add("sync", "synchronizing CUDA operation")
        else:
            self._show(message, *rest, **keywords)

    def mark_step(self, kind: str = "train", *, whole: bool = True) -> None:
        """End a step: what comes next belongs to the following one. Nothing is cut here, so only
        steps are marked."""
        if kind != "train":
            return
        with torch.profiler.record_function(_MARK):
            self._events.mark()
        if self._show is not None:
            self._listen()  # the program may have put other filters in front

    def stop(self) -> None:
        """Switch everything off, and read the profiler's trace."""
        if self._profile is None:
            return
        torch.cuda.set_sync_debug_mode("default")
        warnings.showwarning = self._show
        self._profile.__exit__(None, None, None)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            self._profile.export_chrome_trace(path)
            with open(path, encoding="utf-8") as trace:  # noqa: PTH123
                self._trace = json.load(trace)["traceEvents"]
        self._profile = None

    def summary(self, first_step: int) -> dict[str, Any]:
        """The counts of the finished steps from `first_step` on; see `ledger.Ledger.summary`.

        Bytes are known per step, not per source line: "lines" holds syncs only.
        """
        found = self._events.summary(first_step)
        found["basis"] = "cuda"
        if not found["unavailable"]:
            found.update(copies(self._trace, first_step, int(found["steps"])))
        return found


def copies(trace: list[dict[str, Any]], first_step: int, steps: int) -> dict[str, float]:
    """Read bytes copied, and staged copies, per step from a Kineto trace.

    Args:
        trace: the ``traceEvents`` of a Chrome trace; times are microseconds.
        first_step, steps: the steps to count, between the recorder's marks.
    """
    marks = sorted(
        event["ts"]
        for event in trace
        if event.get("name") == _MARK and event.get("cat") == "user_annotation"
    )
    calls = {
        event["args"]["correlation"]: event
        for event in trace
        if event.get("cat") in ("cuda_runtime", "cuda_driver")
        and "correlation" in event.get("args", {})
    }
    following = _following(list(calls.values()))
    totals = {"h2d_bytes": 0.0, "d2h_bytes": 0.0, "staged": 0.0}
    for event in trace:
        kind = next(
            (value for key, value in _KINDS.items() if key in str(event.get("name", ""))), ""
        )
        call = calls.get(event.get("args", {}).get("correlation"))
        if event.get("cat") != "gpu_memcpy" or not kind or call is None:
            continue
        step = bisect.bisect_right(marks, call["ts"])
        if marks and not first_step <= step < first_step + steps:
            continue
        totals[f"{kind}_bytes"] += float(event["args"].get("bytes", 0))
        waits = "StreamSynchronize" in following.get(event["args"]["correlation"], "")
        totals["staged"] += kind == "h2d" and "Pageable" in event["name"] and not waits
    return {name: value / max(steps, 1) for name, value in totals.items()}


def _following(calls: list[dict[str, Any]]) -> dict[Any, str]:
    """By correlation number, the name of the runtime call that its thread makes next.

    A copy that waits is followed by a wait for its stream; the profiler itself waits for the device
    at its end, after whatever came last.
    """
    calls.sort(key=lambda call: (call.get("tid", 0), call["ts"]))
    return {
        call["args"]["correlation"]: after["name"]
        for call, after in itertools.pairwise(calls)
        if call.get("tid") == after.get("tid")
    }
