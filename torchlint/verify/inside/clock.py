"""Times blocks of runs: wall time with the device's work included, and the process' CPU time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch

from .program import Program

WARM_RUNS = 3
"""Runs before anything is timed, where one takes less than `LONG_NS`."""
LONG_NS = 250_000_000


def uses_cuda() -> bool:
    """Say whether this process has begun to use a CUDA device."""
    return bool(torch.cuda.is_initialized())


def synchronize() -> None:
    """Wait for the device, where one is in use."""
    if uses_cuda():
        torch.cuda.synchronize()


def calibrate(program: Program, block_ns: int) -> dict[str, Any]:
    """Warm up and find how many runs make a block of at least `block_ns`; a run longer than that is
    a block."""
    reps, taken = 1, program.run(1)[0]
    if taken < LONG_NS:
        for _ in range(WARM_RUNS - 1):
            taken = program.run(1)[0]
    while taken < block_ns and reps < 10_000_000:
        # A short run's time is mostly that of the clock: grow step by step.
        reps = max(reps + 1, min(reps * 10, math.ceil(1.1 * reps * block_ns / max(taken, 1))))
        taken = program.run(reps)[0]
    return {"reps": reps, "ns": taken / reps}


def timed_loop(code: Callable[[], Any], reps: int) -> tuple[int, int]:
    """Call `code` so often; return nanoseconds of wall and CPU time, device work included."""
    rounds = range(reps)
    synchronize()
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    for _ in rounds:
        code()
    synchronize()
    return time.perf_counter_ns() - wall, time.process_time_ns() - cpu
