"""How often verify calls a fix faster or slower that changes nothing, on this machine's own noise.

    python benchmarks/aa_noise.py [--launches N] [--rounds N] [--seconds N] [--runs N] [--keep NAME]
    [--from FILE]

Records identical train steps: each launch starts three resident processes of one program (original,
null control and a "fix" that changes nothing), which take turns in a new random order each round,
the others stopped with SIGSTOP. Then it plays many verifications on windows of that recording,
roles shuffled, and counts the verdicts of ``torchlint.verify.statistics``; for power the fix's
times are divided by 1.10 and 1.25. The same on synthetic noise with drift and a fixed seed. --from
plays an earlier recording again. Prints the rates; --keep writes them with the recording to
``benchmarks/results/NAME.json``.

The played runs are windows of one recording and overlap, so they are not independent: the rates are
rough.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import math
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.program.machine import host
from torchlint.verify import statistics
from torchlint.verify.model import Ratio, Verdict

RESULTS = Path(__file__).with_name("results")
ROLES = 3
"""Processes a launch: original, null control, fix."""
EFFECTS = (1.0, 1.10, 1.25)
SYNTHETIC_SEED = 20261121
SYNTHETIC_LAUNCHES = 4000
"""So many that the played runs hardly share any; with 400, chance alone moved a rate of 2.6 % to
3.8 %."""
DECIDED = (Verdict.FASTER, Verdict.SLOWER)

Launch = tuple[tuple[float, ...], ...]
"""Milliseconds a step of each process, by round."""

CHILD = """
import sys, time, torch
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 64), torch.nn.ReLU(),
                            torch.nn.Linear(64, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x, y = torch.randn(128, 64), torch.randint(0, 10, (128,))
def steps(n):
    for _ in range(n):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
steps(50)
print(torch.__version__, flush=True)
for line in sys.stdin:
    steps(2)
    n, start = int(line), time.perf_counter_ns()
    steps(n)
    print(time.perf_counter_ns() - start, flush=True)
"""  # noqa: E501


# Recording


class Resident:
    """One process of the program, stopped except during its blocks."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            env=environment,
        )

    def answer(self) -> str:
        """Wait for the next line."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the recorded program ended; does this Python have torch?")
        return line.strip()

    def freeze(self) -> None:
        os.kill(self._process.pid, signal.SIGSTOP)

    def block(self, steps: int) -> int:
        """Thaw, run a block, freeze; nanoseconds."""
        os.kill(self._process.pid, signal.SIGCONT)
        assert self._process.stdin
        self._process.stdin.write(f"{steps}\n")
        taken = int(self.answer())
        self.freeze()
        return taken

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextlib.contextmanager
def residents() -> Iterator[list[Resident]]:
    """Start the processes of one launch, ready and frozen."""
    started = [Resident() for _ in range(ROLES)]
    try:
        yield started
    finally:
        for resident in started:
            resident.end()


def record_launch(
    rounds: int, seconds: float, chance: random.Random
) -> tuple[Launch, dict[str, Any]]:
    """Record one launch of so many rounds or seconds, whichever ends first; the second value says
    under which load."""
    end = time.monotonic() + seconds
    before = os.getloadavg()[0]
    with residents() as processes:
        for process in processes:
            version = process.answer()
            process.freeze()
        steps = 10
        while min(process.block(steps) for process in processes) < 50e6:
            steps = math.ceil(steps * 1.5)
        times: list[list[float]] = [[] for _ in processes]
        for _ in range(rounds):
            if time.monotonic() > end:
                break
            for role in chance.sample(range(ROLES), ROLES):
                times[role].append(processes[role].block(steps) / steps / 1e6)
    facts = {
        "torch": version,
        "block_steps": steps,
        "loadavg": [round(before, 2), round(os.getloadavg()[0], 2)],
    }
    return tuple(tuple(float(f"{time:.4g}") for time in series) for series in times), facts


def record(launches: int, rounds: int, seconds: float) -> dict[str, Any]:
    """Record the noise of this machine; `seconds` bounds all launches together."""
    chance = random.Random(0)
    start = time.monotonic()
    recorded = [record_launch(rounds, seconds / launches, chance) for _ in range(launches)]
    return {
        "date": datetime.date.today().isoformat(),
        "machine": {
            "cpu": cpu_name(),
            "cores": host.cores(),
            "system": platform.system(),
            "python": platform.python_version(),
            "torch": recorded[0][1]["torch"],
            "threads": 1,
            "psi_cpu_some_avg10": host.cpu_pressure(),
        },
        "seconds": round(time.monotonic() - start),
        "launches": [
            {
                "block_steps": facts["block_steps"],
                "loadavg": facts["loadavg"],
                "ms_per_step": launch,
            }
            for launch, facts in recorded
        ],
    }


def cpu_name() -> str:
    """Return the processor's name as Linux has it."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def synthetic(launches: int, rounds: int, seed: int) -> list[Launch]:
    """Invent noise with drift: shared slow drift, bursts of load, white noise and a bias of each
    process.

    Blocks follow each other in a random order each round, as in the recording. Log times: an AR(1)
    drift with a standard deviation of 15 % and a memory of 20 blocks, white noise of 5 %, load that
    starts in 2 % of the blocks, lasts 10 and costs 40 %, and 0.3 % between processes of one launch.
    """
    chance = random.Random(seed)
    made = []
    for _ in range(launches):
        bias = [chance.gauss(0, 0.003) for _ in range(ROLES)]
        series: list[list[float]] = [[] for _ in range(ROLES)]
        drift, burst, memory = chance.gauss(0, 0.15), 0, math.exp(-1 / 20)
        for _ in range(rounds):
            for role in chance.sample(range(ROLES), ROLES):
                drift = memory * drift + chance.gauss(0, 0.15 * math.sqrt(1 - memory**2))
                burst = 10 if chance.random() < 0.02 else max(0, burst - 1)
                series[role].append(
                    math.exp(drift + (0.34 if burst else 0) + chance.gauss(0, 0.05) + bias[role])
                )
        made.append(tuple(map(tuple, series)))
    return made


# Playing verifications


@dataclass(frozen=True)
class Played:
    """One verification of a fix at one number of pairs."""

    found: Verdict
    null_ok: bool
    without_null: Verdict


Window = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]
"""Original, null control and fix over some rounds of one launch."""


def window(launch: Launch, rounds: int, chance: random.Random) -> Window:
    """Cut consecutive rounds out of a launch and shuffle the roles."""
    start = chance.randrange(len(launch[0]) - rounds + 1)
    original, null, fix = (
        launch[role][start : start + rounds] for role in chance.sample(range(ROLES), ROLES)
    )
    return original, null, fix


def play(
    windows: Sequence[Window], pairs: int, effect: float, level: float = statistics.ALPHA
) -> Played:
    """Give the verdict at `pairs` pairs, taken in equal parts from the start of each launch's
    window."""
    each = pairs // len(windows)
    parts = [tuple(series[:each] for series in one) for one in windows]
    original, null, fix = ([time for part in parts for time in part[role]] for role in range(ROLES))
    control = statistics.null_control(original, null)
    ratio = statistics.ratio(original, [time / effect for time in fix])
    launches: list[Ratio] = []
    samples = None
    if len(parts) > 1:
        launches = [
            statistics.ratio(part[0], [time / effect for time in part[2]]) for part in parts
        ]
        nulls = (statistics.ratio(part[0], part[1]) for part in parts)
        samples = statistics.Samples(
            *(tuple(math.log(each.estimate) for each in found) for found in (launches, nulls))
        )
    return Played(
        found=statistics.verdict(
            ratio, exercised=True, null=control, launches=launches, samples=samples, level=level
        )[0],
        null_ok=control.ok,
        without_null=statistics.verdict(ratio, exercised=True, launches=launches, samples=samples)[
            0
        ],
    )


def by_looks(looks: Sequence[Played]) -> Verdict:
    """Return the first verdict that is not inconclusive, over the looks in order."""
    return next(
        (look.found for look in looks if look.found is not Verdict.INCONCLUSIVE),
        Verdict.INCONCLUSIVE,
    )


def rates(recorded: Sequence[Launch], launches: int, runs: int, seed: int) -> dict[str, Any]:
    """Play `runs` verifications on windows of `launches` launches each; percentages by number of
    pairs."""
    chance = random.Random(seed)
    most = max(statistics.LOOKS)
    recorded = [launch for launch in recorded if len(launch[0]) >= most // launches]
    results: dict[float, list[list[Played]]] = {effect: [] for effect in EFFECTS}
    looks: dict[float, list[Verdict]] = {effect: [] for effect in EFFECTS}
    levels = statistics.levels(statistics.LOOKS)
    for _ in range(runs):
        windows = [
            window(launch, most // launches, chance) for launch in chance.sample(recorded, launches)
        ]
        for effect, found in results.items():
            found.append([play(windows, pairs, effect) for pairs in statistics.LOOKS])
            at = zip(statistics.LOOKS, levels, strict=True)
            looks[effect].append(
                by_looks([play(windows, pairs, effect, level) for pairs, level in at])
            )
    table: dict[str, Any] = {}
    for place, pairs in enumerate(statistics.LOOKS):
        at = {effect: [run[place] for run in found] for effect, found in results.items()}
        table[f"n={pairs}"] = {
            "false_verdicts_%": percent([run.found in DECIDED for run in at[1.0]]),
            "false_verdicts_without_null_control_%": percent(
                [run.without_null in DECIDED for run in at[1.0]]
            ),
            "null_control_excludes_1_%": percent([not run.null_ok for run in at[1.0]]),
            "no_change_shown_%": percent([run.found is Verdict.NO_CHANGE for run in at[1.0]]),
            "power_1.10_%": percent([run.found is Verdict.FASTER for run in at[1.10]]),
            "power_1.25_%": percent([run.found is Verdict.FASTER for run in at[1.25]]),
        }
    table["looks 12, 24, 48"] = {
        "false_verdicts_%": percent([found in DECIDED for found in looks[1.0]]),
        "no_change_shown_%": percent([found is Verdict.NO_CHANGE for found in looks[1.0]]),
        "power_1.10_%": percent([found is Verdict.FASTER for found in looks[1.10]]),
        "power_1.25_%": percent([found is Verdict.FASTER for found in looks[1.25]]),
    }
    return table


def percent(hits: Sequence[bool]) -> float:
    """Return the percentage of hits, to a tenth."""
    return round(100 * sum(hits) / len(hits), 1)


def all_rates(recorded: Sequence[Launch], runs: int) -> dict[str, Any]:
    """Play with one, two and four launches a verification, as far as the recorded launches are long
    enough."""
    return {
        f"{count} launch{'es' * (count > 1)}": rates(recorded, count, runs, seed=count)
        for count in (1, 2, 4)
        if sum(len(launch[0]) >= max(statistics.LOOKS) // count for launch in recorded) >= count
    }


def show(name: str, tables: dict[str, Any]) -> None:
    """Print the rates, a line a number of pairs."""
    for launches, table in tables.items():
        for cell, values in table.items() if isinstance(table, dict) else ():
            print(
                f"{name:<10} {launches:<10} {cell:<17}",
                *(f"{key} {value}" for key, value in values.items()),
                sep="  ",
            )


def keep(name: str | None, result: dict[str, Any]) -> None:
    """Write a result, the numbers of one process to a line."""
    if name:
        text = re.sub(r"(?<=[\[\d,])\n +(?=[\d\]])", " ", json.dumps(result, indent=1))
        (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def main() -> None:
    """Record or read, play, print and keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--launches", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=120)
    parser.add_argument(
        "--seconds", type=float, default=210, help="the recording's, all launches together"
    )
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--keep", metavar="NAME")
    parser.add_argument("--from", dest="source", type=Path, metavar="FILE")
    args = parser.parse_args()
    if args.source:
        recording = json.loads(args.source.read_text(encoding="utf-8"))["recording"]
    else:
        recording = record(args.launches, args.rounds, args.seconds)
        keep(
            args.keep, {"recording": recording}
        )  # should the rest be interrupted, --from takes it up
    launches = [tuple(map(tuple, launch["ms_per_step"])) for launch in recording["launches"]]
    drifting = synthetic(SYNTHETIC_LAUNCHES, max(statistics.LOOKS), SYNTHETIC_SEED)
    result = {
        "what": (
            "verdicts on programs that are the same (false_verdicts) or truly 1.10 and 1.25 "
            "times faster (power)"
        ),
        "note": (
            "recorded: overlapping windows of one recording, not independent; wanted: at "
            "most 3 % false verdicts"
        ),
        "runs": args.runs,
        "min_effect": statistics.MIN_EFFECT,
        "recorded": all_rates(launches, args.runs),
        "synthetic": {
            "seed": SYNTHETIC_SEED,
            "launches": SYNTHETIC_LAUNCHES,
            **all_rates(drifting, args.runs),
        },
        "recording": recording,
    }
    show("recorded", result["recorded"])
    show("synthetic", result["synthetic"])
    keep(args.keep, result)


if __name__ == "__main__":
    main()
