"""Times blocks of runs: wall time with the device's work included, and beside it the process' CPU
time and what CUDA's events say."""

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
EVEN, ROUNDS = 1.05, 5
"""Warm enough: so many blocks, of which the longest takes at most so many times the shortest."""

Taken = tuple[int, int, int]
"""Nanoseconds of wall time, of CPU time, and between two events of CUDA; 0 where it is not used."""


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


def warm_up(program: Program, reps: int, seconds: float) -> dict[str, Any]:
    """Run blocks of `reps` runs until they take even times, or so many seconds have passed; one in
    any case. Return the nanoseconds of a run."""
    end = time.monotonic() + seconds
    taken = [program.run(reps)[0]]
    while time.monotonic() < end and not _is_even(taken[-ROUNDS:]):
        taken.append(program.run(reps)[0])
    return {"ns": taken[-1] / reps}


def _is_even(taken: list[int]) -> bool:
    return len(taken) == ROUNDS and max(taken) <= EVEN * min(taken)


def timed_loop(code: Callable[[], Any], reps: int) -> Taken:
    """Call `code` so often; return what it took, device work included."""
    rounds = range(reps)
    events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if uses_cuda() else []
    synchronize()
    cpu, wall = time.process_time_ns(), time.perf_counter_ns()
    for event in events[:1]:
        event.record()
    for _ in rounds:
        code()
    for event in events[1:]:
        event.record()
    synchronize()
    wall, cpu = time.perf_counter_ns() - wall, time.process_time_ns() - cpu
    # torch gives milliseconds.
    return wall, cpu, round(events[0].elapsed_time(events[1]) * 1e6) if events else 0
