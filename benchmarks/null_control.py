"""Times identical work as if it were two versions, and says the ratio that should be 1.

    python benchmarks/null_control.py [--device cuda|cpu] [--pairs 24] [--launches 3]

Ways to take turns:

- stopped: two processes, the waiting one held by SIGSTOP
- turns: two processes, the waiting one blocked in a read
- one: one process that holds both, with one CUDA context
- remade: the same, both made anew every 4 pairs, in random order

Work: host (many small operations), compute (large products), copy (to the device and back). A
process is forked after ``import torch`` and before CUDA starts. A way is good where the ratio of
each launch lies within the aim. Prints a line of JSON for each way of timing each work, as it
comes; `on_gpu.py` keeps them.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import random
import signal
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from torchlint.verify.statistics import ratio

WORKS = ("host", "compute", "copy")
WAYS = ("stopped", "turns", "one", "remade")
EVEN, MOST_WARMUP = 1.05, 5.0
"""Warm enough: the last five rounds within 5 %, or so many seconds."""
SETTLE_NS = 2e6
"""Work before each block that does not count, nanoseconds."""
MAKE = 0
"""A block of no runs makes the work anew."""


def workload(work: str, device: str) -> Callable[[], Any]:
    """Return a function that does the work once."""
    import torch

    torch.manual_seed(0)
    if work == "copy":
        data = torch.randn(1 << 21)
        return lambda: (data.to(device) * 2).sum().item()
    width, batch = (64, 16) if work == "host" else (4096, 2048) if device == "cuda" else (512, 128)
    net = torch.nn.Sequential(*(torch.nn.Linear(width, width) for _ in range(4))).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(batch, width, device=device)

    def step() -> None:
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()

    return step


def serve(work: str, device: str, copies: int, words: Any, answers: Any) -> None:
    """Time blocks of the copies of some work, as asked line by line: copy, runs before, runs."""
    import torch

    torch.set_num_threads(1)
    cuda = device == "cuda"
    settled: Callable[[], Any] = torch.cuda.synchronize if cuda else lambda: None
    steps: list[Any] = [workload(work, device) for _ in range(copies)]
    for line in words:
        which, before, runs = map(int, line.split())
        if runs == MAKE:
            steps[which] = None
            steps[which] = workload(work, device)
        for _ in range(before):
            steps[which]()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)] if cuda else []
        settled()
        wall, used = time.perf_counter_ns(), time.process_time_ns()
        for event in events[:1]:
            event.record()
        for _ in range(runs):
            steps[which]()
        for event in events[1:]:
            event.record()
        settled()
        wall, used = time.perf_counter_ns() - wall, time.process_time_ns() - used
        other = events[0].elapsed_time(events[1]) * 1e6 if cuda else used
        each = max(runs, 1)
        print(json.dumps({"wall": wall / each, "other": other / each}), file=answers, flush=True)


class Process:
    """A fork that does the work; `held` stops it whenever it is not asked."""

    def __init__(self, work: str, device: str, copies: int, *, held: bool) -> None:
        (words_in, words_out), (answers_in, answers_out) = os.pipe(), os.pipe()
        self._held = held
        self._pid = os.fork()
        if not self._pid:
            os.close(words_out)
            os.close(answers_in)
            try:
                serve(work, device, copies, os.fdopen(words_in), os.fdopen(answers_out, "w"))
            finally:
                os._exit(0)
        os.close(words_in)
        os.close(answers_out)
        self._words, self._answers = os.fdopen(words_out, "w"), os.fdopen(answers_in)
        self._hold()

    def _hold(self) -> None:
        if self._held:
            os.kill(self._pid, signal.SIGSTOP)
            os.waitpid(self._pid, os.WUNTRACED)

    def block(self, which: int, before: int, runs: int) -> dict[str, float]:
        """Return nanoseconds a run by two clocks: "wall", and "other", CUDA's events or CPU time.

        Raises:
            ValueError: the process ended.
        """
        if self._held:
            os.kill(self._pid, signal.SIGCONT)
        print(which, before, runs, file=self._words, flush=True)
        found: dict[str, float] = json.loads(self._answers.readline())
        self._hold()
        return found

    def close(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._words.close()
        self._answers.close()


Lane = tuple[Process, int]


def lanes(way: str, work: str, device: str) -> list[Lane]:
    """Return the two versions: a process each, or both in one."""
    if way in ("one", "remade"):
        process = Process(work, device, 2, held=False)
        return [(process, 0), (process, 1)]
    return [(Process(work, device, 1, held=way == "stopped"), 0) for _ in range(2)]


def warmed(both: list[Lane], block_ns: float) -> tuple[int, float]:
    """Find the runs of a block, and go on until blocks are even; return (runs, ns of a run)."""
    runs, end = 1, time.monotonic() + MOST_WARMUP
    last: list[float] = []
    while True:
        taken = [process.block(which, 1, runs)["wall"] for process, which in both]
        if min(taken) * runs < block_ns:
            wanted = math.ceil(1.1 * block_ns / min(taken))
            runs = max(runs + 1, min(10 * runs, wanted))
            continue
        last = [*last, sum(taken)][-5:]
        if (len(last) == 5 and max(last) < EVEN * min(last)) or time.monotonic() > end:
            return runs, min(taken)


def launch(
    way: str, work: str, given: argparse.Namespace, rng: random.Random
) -> list[tuple[dict[str, float], dict[str, float]]]:
    """Start both versions and return their paired blocks."""
    both = lanes(way, work, given.device)
    try:
        runs, taken = warmed(both, given.block_ms * 1e6)
        before = max(1, math.ceil(SETTLE_NS / taken))
        pairs = []
        for pair in range(given.pairs):
            if way == "remade" and pair and not pair % 4:
                for at in rng.sample((0, 1), 2):
                    both[at][0].block(at, 3, MAKE)
            order = rng.sample((0, 1), 2)
            one = {at: both[at][0].block(both[at][1], before, runs) for at in order}
            pairs.append((one[0], one[1]))
        return pairs
    finally:
        for process in {process for process, _ in both}:
            process.close()


def control(way: str, work: str, given: argparse.Namespace) -> dict[str, Any]:
    """Return by clock the ratio of all pairs, its 95 % interval and the ratio of each launch."""
    rng = random.Random(0)
    launches = [launch(way, work, given, rng) for _ in range(given.launches)]
    found: dict[str, Any] = {"device": given.device, "pairs": given.pairs}
    for clock in ("wall", "other"):
        times = [[(a[clock], b[clock]) for a, b in pairs] for pairs in launches]
        all_of = ratio(*zip(*itertools.chain(*times), strict=True))
        each = [ratio(*zip(*pairs, strict=True)).estimate for pairs in times]
        found[clock] = {
            "ratio": round(all_of.estimate, 4),
            "ci95": [round(end, 4) if math.isfinite(end) else None for end in all_of.ci95],
            "launches": [round(one, 4) for one in each],
            "ok": max(*each, *(1 / one for one in each)) <= given.aim,
        }
    walls = [math.log(a["wall"]) for pairs in launches for a, _ in pairs]
    found["noise"] = round(statistics.stdev(walls), 4)
    return found


def main() -> int:
    """Measure, and print as it comes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--pairs", type=int, default=24, help="blocks of both versions, a launch")
    parser.add_argument("--launches", type=int, default=3)
    parser.add_argument("--block-ms", type=float, default=20)
    parser.add_argument("--aim", type=float, default=1.03, help="a launch is ok within 1/aim..aim")
    parser.add_argument("--works", nargs="+", default=WORKS, choices=WORKS)
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--skip", nargs="*", default=[], help="items, as printed")
    given = parser.parse_args()
    import torch
    import torch._dynamo  # noqa: F401 (an optimizer imports it)

    for work, way in itertools.product(given.works, given.ways):
        item = f"{work}, {way}"
        if item not in given.skip:
            try:
                result = control(way, work, given)
            except ValueError as error:  # the process ended; its own words are on standard error
                result = {"error": f"no answer: {error}"}
            print(json.dumps({"item": item, "result": result}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
