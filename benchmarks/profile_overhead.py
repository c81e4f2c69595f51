"""What `torchlint profile` adds to a step: marks of statements, PyTorch's profiler, and both, each
as a ratio to the plain step.

    python benchmarks/profile_overhead.py [--rounds N] [--keep NAME]

One process runs the same training steps in blocks: as they are, with marks that nobody sees, under
the profiler, with marks under the profiler, and with those of modules too, in a new random order
each round. Starting and
stopping the profiler lies outside of the blocks. Ratios are of the CPU time of one process with one
thread, as other work on the machine does not count in it: the median over rounds, with the
quartiles. Prints them; --keep writes them to ``benchmarks/results/NAME.json``.

These are figures of a CPU, where a step's operators run on the thread that the marks run on. On a
GPU the host is often ahead, and hides some of it.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, _KinetoProfile

from torchlint.program.inside import statement_marks
from torchlint.program.inside.module_marks import ModuleMarks
from torchlint.program.inside.profiling import _config
from torchlint.program.inside.statement_marks import Marks

RESULTS = Path(__file__).with_name("results")
LIMITS = {"mlp": 1.3, "transformer": 1.1}
"""What marks and the profiler together may cost: the design's acceptance."""
BLOCK_SECONDS = 0.15
CONDITIONS = {
    "marks": (True, False, False),
    "profiler": (False, True, False),
    "marks and profiler": (True, True, False),
    "marks, modules and profiler": (True, True, True),
}
"""By name: whether the step has marks, whether it is profiled, and whether modules are marked."""
SOURCE = """
import torch
from torch import nn


def mlp():
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss()
    x, y = torch.randn(128, 64), torch.randint(10, (128,))

    def step():
        optimizer.zero_grad()
        scores = model(x)
        loss = criterion(scores, y)
        loss.backward()
        optimizer.step()

    return step


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.behind = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        hidden = self.before(x)
        q, k, v = self.qkv(hidden).chunk(3, dim=-1)
        q = q.view(batch, length, self.heads, -1).transpose(1, 2)
        k = k.view(batch, length, self.heads, -1).transpose(1, 2)
        v = v.view(batch, length, self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        attended = scores.softmax(dim=-1) @ v
        attended = attended.transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(attended)
        hidden = self.up(self.behind(x))
        return x + self.down(nn.functional.gelu(hidden))


def transformer():
    model = nn.Sequential(*[Block(256, 4) for _ in range(2)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.randn(8, 96, 256)

    def step():
        optimizer.zero_grad()
        found = model(x)
        loss = (found - x).square().mean()
        loss.backward()
        optimizer.step()

    return step


def reads():
    values = torch.randn(64)

    def step():
        total = 0.0
        for value in values:
            total += value.item()

    return step
"""


def made(marks: Marks, *, marked: bool) -> dict[str, Any]:
    """Return the functions of the source."""
    path = str(Path(__file__).with_name("profiled.py"))
    code = marks.code(SOURCE.encode(), path) if marked else compile(SOURCE, path, "exec")
    assert code is not None, marks.unmarked
    names: dict[str, Any] = {"__name__": "profiled"}
    exec(code, names)  # noqa: S102 - the source above
    return names


def block(step: Callable[[], None], steps: int, *, profiled: bool, modules: bool) -> float:
    """Return CPU seconds of a step."""
    profiler = _KinetoProfile(activities=[ProfilerActivity.CPU], experimental_config=_config())
    found = ModuleMarks()
    if modules:
        found.find(torch)
        found.show()
    if profiled:
        profiler.start()
        statement_marks.show()
    step()
    begun = time.process_time()
    for _ in range(steps):
        step()
    taken = (time.process_time() - begun) / steps
    if profiled:
        statement_marks.forget()
        profiler.stop()
    found.hide()
    return taken


def measured(name: str, versions: dict[bool, Any], rounds: int) -> dict[str, Any]:
    """Return the ratios of one program."""
    steps_of = {}
    for marked, module in versions.items():
        torch.manual_seed(0)
        steps_of[marked] = module[name]()
        for _ in range(5):
            steps_of[marked]()
    once = block(steps_of[False], 3, profiled=False, modules=False)
    steps = max(3, round(BLOCK_SECONDS / once))
    order = random.Random(0)
    ratios: dict[str, list[float]] = {condition: [] for condition in CONDITIONS}
    plain: list[float] = []
    for _ in range(rounds):
        conditions = {"plain": (False, False, False), **CONDITIONS}
        taken = {}
        for condition in order.sample(sorted(conditions), len(conditions)):
            marked, profiled, modules = conditions[condition]
            step = steps_of[marked]
            taken[condition] = block(step, steps, profiled=profiled, modules=modules)
        plain.append(taken["plain"])
        for condition, values in ratios.items():
            values.append(taken[condition] / taken["plain"])
    return {
        "step_cpu_ms": 1000 * statistics.median(plain),
        "steps_a_block": steps,
        "ratios": {
            condition: dict(
                zip(("low", "median", "high"), statistics.quantiles(values, n=4), strict=True)
            )
            for condition, values in ratios.items()
        },
    }


def main() -> int:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description="What profiling adds to a step.")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--keep", metavar="NAME")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    marks = Marks(str(Path(__file__).parent))
    marks.start()
    statement_marks.compiled_by(torch)
    versions = {marked: made(marks, marked=marked) for marked in (False, True)}
    found = {
        name: measured(name, versions, asked.rounds) for name in ("mlp", "transformer", "reads")
    }
    for name, each in found.items():
        print(f"{name}: {each['step_cpu_ms']:.2f} ms of CPU time a step")
        for condition, ratio in each["ratios"].items():
            spread = f"{ratio['low']:.2f} to {ratio['high']:.2f}"
            print(f"  {condition:20} {ratio['median']:.2f} ({spread})")
    kept = {
        "date": datetime.date.today().isoformat(),
        "device": "CPU: no figure of a GPU was measured",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "rounds": asked.rounds,
        "limits": LIMITS,
        "programs": found,
    }
    if asked.keep:
        path = RESULTS / f"{asked.keep}.json"
        path.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    over = [
        name
        for name, limit in LIMITS.items()
        if found[name]["ratios"]["marks and profiler"]["median"] > limit
    ]
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
