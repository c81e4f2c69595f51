"""Doubles one file from 1,000 to 64,000 lines and prints what each doubling costs.

    python benchmarks/scaling.py [--shape SHAPE] [--largest LINES] [--keep NAME]

Each size is analysed in a process of its own, with all default rules and no limit on size, three
times; the least CPU time counts. The file repeats a training loop, a module, a loss and helpers
under other names; ``--shape calls`` lets each unit call the one before, ``--shape branches`` makes
one function of so many branches. Prints CPU seconds, the ratio to the size before (2.0 is linear),
and the peak memory; with --keep, writes ``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measuring import environment, keep

ROOT = Path(__file__).parent.parent
SHAPES = ("units", "calls", "branches")
SMALLEST = 1_000
HEAD = (
    "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\nfrom "
    "torch.utils.data import DataLoader\n\n"
)
UNIT = """
class Net{n}(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 4)

    def forward(self, x):
        hidden = F.relu(self.first(x))
        if hidden.sum() > 3:
            hidden = hidden * 2
        return self.second(hidden)


def loss_{n}(output, target):
    total = 0.0
    for row in range(output.shape[0]):
        total = total + F.cross_entropy(output[row : row + 1], target[row : row + 1])
    return total / output.shape[0]


def scores_{n}(model, loader, device):
    found = []
    for x, y in loader:
        found.append(loss_{n}(model(x.to(device)), y.to(device)).item())
    return found


def train_{n}(dataset, device, epochs):
    model = Net{n}().to(device)
    loader = DataLoader(dataset, batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    running = 0.0
    for epoch in range(epochs):
        for step, (x, y) in enumerate(loader):
            x, y = x.to(device), y.to(device)
            noise = torch.randn(8, 16).to(device)
            loss = loss_{n}(model(x + noise), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running += loss.item()
            if step % 100 == 0:
                print(epoch, step, running)
    return scores_{n}({called}(model), loader, device)
"""


def source(lines: int, shape: str) -> str:
    """Return a file of about so many lines."""
    if shape == "branches":
        rows = (
            f"    {'if' if n == 0 else 'elif'} x.sum() > {n}:\n        x = x + {n}.0\n"
            for n in range(lines // 2)
        )
        return f"{HEAD}def forward(x):\n{''.join(rows)}    return x\n"
    size = UNIT.count("\n")
    units = []
    for n in range(lines // size):
        called = f"train_{n - 1}" if shape == "calls" and n else ""
        units.append(UNIT.format(n=n, called=called))
    return HEAD + "".join(units)


def analysed(lines: int, shape: str) -> None:
    """Analyse one file in this process, and print its CPU seconds, peak memory and findings as
    JSON."""
    sys.path.insert(0, str(ROOT))
    from torchlint.catalog.rules import load_catalog
    from torchlint.engine.job import Job
    from torchlint.run.worker import Task, _on_large_stack, analyse_job
    from torchlint.source.document import decode

    sys.setrecursionlimit(20_000)
    gc.set_threshold(200_000, 50, 1000)  # as in a worker
    codes = frozenset(info.code for info in load_catalog().rules if info.default)
    text = source(lines, shape)
    times = []
    for _ in range(3):
        began = time.process_time()
        job = Job(decode(text.encode(), "", "big.py"), "big.py", codes)
        report = _on_large_stack(Task(analyse_job, job, timeout=600, memory=0))
        times.append(time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    notes = [note.message for note in report.notes]
    result = {
        "lines": text.count("\n"),
        "cpu_s": times,
        "peak_mib": peak,
        "findings": len(report.findings),
    }
    print(json.dumps({**result, "notes": notes}))


def measure(lines: int, shape: str) -> dict[str, Any]:
    """Analyse one file in a process of its own; return lines, CPU seconds, peak memory, findings
    and notes."""
    command = [sys.executable, __file__, "--one", str(lines), "--shape", shape]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    row: dict[str, Any] = json.loads(done.stdout)
    return row


def sizes(largest: int) -> list[int]:
    """Return the sizes up to `largest`, each twice the one before."""
    found = [SMALLEST]
    while found[-1] * 2 <= largest:
        found.append(found[-1] * 2)
    return found


def main() -> None:
    """Run all sizes and print the ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="units")
    parser.add_argument("--largest", type=int, default=64_000)
    parser.add_argument("--keep", metavar="NAME")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        analysed(args.one, args.shape)
        return
    rows: list[dict[str, object]] = []
    before = 0.0
    for lines in sizes(args.largest):
        row = measure(lines, args.shape)
        now = min(row["cpu_s"])
        ratio = round(now / before, 2) if before else None
        figures = f"{row['lines']:>6} lines  {now:8.2f} s  x{ratio}  {row['peak_mib']:7.0f} MiB"
        print(f"{figures}  {row['findings']} findings {row['notes']}", flush=True)
        rows.append({**row, "ratio": ratio})
        before = now
    if args.keep:
        keep(args.keep, {**environment({}), "shape": args.shape, "n": 3, "sizes": rows})


if __name__ == "__main__":
    main()
