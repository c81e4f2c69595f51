"""The record that a process leaves: why it ended, how many steps it did, its peak memory, counts
and results."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from .timing import peak_resident

if TYPE_CHECKING:
    from .recorder import Recorder


def content(recorder: Recorder) -> dict[str, Any]:
    """Return what the record says beside what every recorder's does; results are written beside
    it."""
    return {
        "compiled": "torch._dynamo.eval_frame" in sys.modules and _has_compiled(),
        "ticks": recorder.stopping.ticks,
        "horizon": recorder.stopping.horizon(recorder.reason == "ended"),
        "schedule": recorder.schedule.facts(),
        "watched": recorder.marks is not None and recorder.marks.watching(),
        **_pace(recorder),
        **_peak(recorder),
        **_results(recorder),
    }


def _results(recorder: Recorder) -> dict[str, Any]:
    found: dict[str, Any] = {}
    try:
        if recorder.ledger is not None and recorder.steps:
            found["counts"] = recorder.ledger.summary(int(recorder.settings.get("warmup", 0)))
        if recorder.results is not None and recorder.steps:
            path = os.path.join(recorder.settings["out"], f"results-{os.getpid()}.pt")
            recorder.results.save(path)
            found["results"] = path
            found["seen"] = recorder.results.seen
    except Exception as error:
        found["trouble"] = [*recorder.trouble, f"{type(error).__name__}: {error}"]
    return found


def _pace(recorder: Recorder) -> dict[str, float]:
    """Return the seconds up to the first step, and those of a step; the plan's estimate is made of
    them."""
    ran = time.perf_counter() - recorder.first
    return {
        "start_seconds": recorder.first - recorder.begun,
        "step_seconds": ran / (recorder.steps - 1) if recorder.steps > 1 else ran,
    }


def _peak(recorder: Recorder) -> dict[str, Any]:
    cuda = recorder.torch.cuda
    if recorder.settings["device"] == "cuda" and cuda.is_initialized():
        return {
            "peak": cuda.max_memory_allocated(),
            "peak_basis": "cuda",
            "alloc_retries": cuda.memory_stats().get("num_alloc_retries"),
        }
    return {"peak": peak_resident(), "peak_basis": "vmhwm"}


def _has_compiled() -> bool:
    """Say whether torch.compile has compiled a frame: its lines then run where no trace function
    sees them."""
    try:
        from torch._dynamo.utils import counters

        return bool(counters["frames"])
    except Exception:
        return False
