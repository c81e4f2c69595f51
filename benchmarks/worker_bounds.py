"""Whether a line in worker processes of a DataLoader saves no more than `torchlint profile` says.

    python benchmarks/worker_bounds.py [--keep NAME]

Runs programs with a line in ``__getitem__`` that sleeps, and a step that sleeps too, so that no
core is fought for: with 0, 1 and 2 workers, and with the step or the workers as the bottleneck.
Each is profiled, and then run once more without the line's sleep; says what was promised, and what
the step became shorter. --keep writes it to ``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).with_name("results")
BATCH, STEPS = 4, 20
"""Samples of a batch, and steps that are timed behind as many that settle."""
PROGRAM = """\
import os
import time

import torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)


def slow():
    time.sleep(float(os.environ["LINE"]))
    return 0.0


class Rows(Dataset):
    def __init__(self):
        self.rows = torch.randn(4096, 16)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        found = torch.zeros(0)
        time.sleep(float(os.environ["REST"]))
        row = self.rows[at]
        for part in row[:8]:
            found = torch.cat([found, part[None] + slow()])
        return found


model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for x in DataLoader(Rows(), 4, num_workers=int(os.environ["WORKERS"])):
    optimizer.zero_grad()
    model(x).sum().backward()
    time.sleep(float(os.environ["STEP"]))
    optimizer.step()
"""


def profiled(workers: int, line: float, rest: float, step: float) -> dict[str, Any]:
    """Return the report of a run; times in seconds, of the line and the rest for a sample."""
    given = {"WORKERS": workers, "LINE": line / 8, "REST": rest, "STEP": step}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "train.py").write_text(PROGRAM, encoding="utf-8")
        command = [sys.executable, "-m", "torchlint", "profile", ".", "-q", "--isolated"]
        command += ["--output-format", "json", "--device", "cpu", "--warmup", str(2 * STEPS)]
        for name, value in given.items():
            command += ["--env", f"{name}={value}"]
        done = subprocess.run(
            [*command, "--", "train.py"],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise SystemExit(f"exit code {done.returncode}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def judged(workers: int, line: float, rest: float, step: float) -> dict[str, Any]:
    """Return what is promised of a program without its line, and what it saves; milliseconds of a
    step."""
    found = profiled(workers, line, rest, step)
    before = found["run"]["unprofiled"]["step_ns"] / 1e6
    after = profiled(workers, 0, rest, step)["run"]["unprofiled"]["step_ns"] / 1e6
    bounds = [each["bound"] for each in found["findings"] if each["code"] == "TL603"]
    return {
        "workers": workers,
        "line_ms": 1e3 * line * BATCH,
        "rest_ms": 1e3 * rest * BATCH,
        "own_ms": 1e3 * step,
        "step_ms": before,
        "without_ms": after,
        "saved_ms": before - after,
        "bound_ms": bounds[0]["share"] * before if bounds and bounds[0] else None,
    }


def main() -> int:
    """Run, print and keep."""
    parser = argparse.ArgumentParser(description="Bounds of lines in workers of DataLoaders.")
    parser.add_argument("--keep", metavar="NAME")
    asked = parser.parse_args()
    found = []
    for workers in (0, 1, 2):
        for line, rest, step in ((0.01, 0.002, 0.005), (0.005, 0.005, 0.03), (0.01, 0.002, 0.06)):
            each = judged(workers, line, rest, step)
            found.append(each)
            print(
                "{workers} workers, line {line_ms:.0f} ms, rest {rest_ms:.0f}, own {own_ms:.0f}: "
                "step {step_ms:.1f} ms, without {without_ms:.1f}: saves {saved_ms:.1f}, at most "
                "{bound_ms:.1f}".format(**each),
                flush=True,
            )
    kept = sum(each["saved_ms"] <= each["bound_ms"] + 0.03 * each["step_ms"] for each in found)
    print(f"{kept} of {len(found)} save no more than is promised, within 3 % of the step")
    if asked.keep:
        content = {
            "date": datetime.date.today().isoformat(),
            "device": "CPU",
            "python": platform.python_version(),
            "kept": kept,
            "programs": found,
        }
        path = RESULTS / f"{asked.keep}.json"
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
