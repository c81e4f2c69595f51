"""What a program's steps take by its own clock: no profiler, no marks, no copy of the tree.

    python benchmarks/own_clock.py [--warmup 20] [--steps 100] SCRIPT [ARGUMENTS ...]

A step ends where an optimizer's does. Prints one line of JSON: the mean step between two waits for
the device, and the median of steps as the host sees them, milliseconds.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import runpy
import statistics
import sys
import time
from pathlib import Path
from typing import Any


class _Enough(BaseException):
    """No more steps are needed."""


def main() -> int:
    """Run the program for some steps."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    stamps: list[float] = []

    def hook(*_: Any) -> None:
        if len(stamps) in (given.warmup, given.warmup + given.steps) and torch.cuda.is_available():
            torch.cuda.synchronize()
        stamps.append(time.perf_counter() * 1e3)
        if len(stamps) > given.warmup + given.steps:
            raise _Enough

    register_optimizer_step_post_hook(hook)
    sys.argv = [given.script, *given.arguments]
    sys.path.insert(0, str(Path(given.script).resolve().parent))
    with contextlib.suppress(_Enough):
        runpy.run_path(given.script, run_name="__main__")
    counted = stamps[given.warmup :]
    steps = len(counted) - 1
    if steps < 1:
        print(f"own_clock: only {len(stamps)} steps ran", file=sys.stderr)
        return 1
    each = [after - before for before, after in itertools.pairwise(counted)]
    mean, median = (counted[-1] - counted[0]) / steps, statistics.median(each)
    found = {"steps": steps, "mean_ms": round(mean, 4), "median_ms": round(median, 4)}
    print(json.dumps({**found, "cuda": torch.cuda.is_available()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
