"""Whether `torchlint verify` answers within its budget where starting is slow, as on a machine with
a GPU.

    python benchmarks/slow_machine.py [PROGRAM ...] [--budget SECONDS] [--cores N]
        [--import SECONDS] [--optimizer SECONDS] [--context SECONDS] [--keep NAME]

A slow machine is simulated by a ``sitecustomize`` on PYTHONPATH: importing torch takes 8 s more and
importing its compiler, which the first optimizer does, 2 s more, both asleep, and 16 cores are
pretended (0: those that are there). --context adds what each process takes at its first optimizer,
as the start of a GPU's context would; its default is 0. Three programs that train on
made-up data: ``waves`` (of fixtures/projects), ``digits`` (convolutions, an evaluation behind each
epoch, with faults in both) and ``long`` (a step of 250 ms asleep, as of a host that waits for a
GPU).

Of each it is told how long the command took, how many pairs it timed, its verdict on all fixes, and
how many of its fixes ran. Ends with 1 where a report came later than 1.05 times the budget, or (but
with --cores 0) held fewer than 16 pairs, or a fix was not reached. --keep writes
``benchmarks/results/NAME.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import environment, keep

REPOSITORY = Path(__file__).parents[1]
PAIRS = 16
OVER = 1.05

SLOW = """
import importlib.abc
import importlib.util
import os
import sys
import time

CORES = int(os.environ["SLOW_CORES"])
IMPORT, OPTIMIZER, CONTEXT = map(float, os.environ["SLOW_SECONDS"].split())
if CORES:
    os.cpu_count = lambda: CORES
    os.sched_getaffinity = lambda pid: set(range(CORES))
done = set()


def first(optimizer):
    init = optimizer.__init__

    def slow(this, *args, **kwargs):
        if os.getpid() not in done:
            done.add(os.getpid())
            time.sleep(CONTEXT)
        init(this, *args, **kwargs)

    optimizer.__init__ = slow


class Slow(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in ("torch", "torch._dynamo", "torch.optim.optimizer"):
            return None
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        run = spec.loader.exec_module

        def executed(module):
            time.sleep({"torch": IMPORT, "torch._dynamo": OPTIMIZER}.get(name, 0))
            run(module)
            if name == "torch.optim.optimizer":
                first(module.Optimizer)

        spec.loader.exec_module = executed
        return spec


sys.meta_path.insert(0, Slow())
"""

DIGITS = '''"""Learns made-up digits; evaluates behind each epoch."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.fc = nn.Linear(2304, 10)

    def forward(self, x):
        noise = torch.zeros(x.size(0), 1, 28, 28).to(x.device)
        x = F.relu(self.conv1(x + noise))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return F.log_softmax(self.fc(torch.flatten(x, 1)), dim=1)


def train(model, device, loader, optimizer, epoch):
    model.train()
    total = 0.0
    for data, target in loader:
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.4f}")


def test(model, device, loader):
    model.eval()
    test_loss = 0
    correct = 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            weights = torch.ones(10).to(device)
            test_loss += F.nll_loss(output, target, weight=weights, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    print(f"test: loss {test_loss / len(loader.dataset):.4f}, right {correct}")


def digits(count):
    labels = torch.randint(10, (count,))
    return TensorDataset(torch.randn(count, 1, 28, 28) + labels.view(-1, 1, 1, 1) / 10, labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=14)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    loader = DataLoader(digits(20_000), batch_size=32, shuffle=True)
    held_out = DataLoader(digits(2_000), batch_size=100)
    model = Net().to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=1.0)
    scheduler = StepLR(optimizer, step_size=1, gamma=0.7)
    for epoch in range(1, args.epochs + 1):
        train(model, device, loader, optimizer, epoch)
        test(model, device, held_out)
        scheduler.step()


if __name__ == "__main__":
    main()
'''

LONG = '''"""Steps of 250 ms, most of it asleep, as a host that waits for a GPU is."""

import time

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Linear(32, 10).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(10_000):
    x = torch.randn(16, 32).to(device)
    noise = torch.zeros(16, 32).to(device)
    loss = model(x + noise).square().mean()
    optimizer.zero_grad()
    loss.backward()
    time.sleep(0.25)
    optimizer.step()
'''


def project(name: str, root: Path) -> None:
    """Write one of the programs as ``train.py``."""
    if name == "waves":
        shutil.copytree(REPOSITORY / "fixtures" / "projects" / "waves", root)
    else:
        root.mkdir()
        text = {"digits": DIGITS, "long": LONG}[name]
        (root / "train.py").write_text(text, encoding="utf-8")
    (root / ".git").mkdir()
    (root / ".git" / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")


def verified(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Verify a program; return what came of it, and how long it took."""
    with tempfile.TemporaryDirectory(prefix="slow-", dir="/tmp") as folder:
        root, site = Path(folder, name), Path(folder, "site")
        project(name, root)
        site.mkdir()
        (site / "sitecustomize.py").write_text(SLOW, encoding="utf-8")
        seconds = f"{given.importing} {given.optimizer} {given.context}"
        path = os.pathsep.join([str(site), str(REPOSITORY)])
        command = [sys.executable, "-m", "torchlint", "verify", ".", "--output-format", "json"]
        start = time.monotonic()
        done = subprocess.run(
            [*command, "--budget", f"{given.budget}s", "--", "train.py"],
            cwd=root,
            env={
                **os.environ,
                "PYTHONPATH": path,
                "SLOW_CORES": str(given.cores),
                "SLOW_SECONDS": seconds,
            },
            capture_output=True,
            text=True,
            check=False,
        )
        took = time.monotonic() - start
    if not done.stdout.strip():
        return {"program": name, "seconds": took, "code": done.returncode, "said": done.stderr}
    report = json.loads(done.stdout)
    whole = report["variants"][-1]
    fixes = {
        each["fixes"][0]: each["exercised"] for each in report["variants"] if each["kind"] != "all"
    }
    if len(report["variants"]) == 1:
        fixes = dict.fromkeys(whole["fixes"], whole["exercised"])
    return {
        "program": name,
        "seconds": round(took, 1),
        "code": done.returncode,
        "cut": report["cut"],
        "pairs": whole["speed"]["n"] or 0,
        "launches": report["plan"]["launches"],
        "ratio": whole["speed"]["ratio"],
        "ci95": whole["speed"]["ci95"],
        "verdict": whole["speed"]["verdict"],
        "why": whole["speed"]["why"],
        "reached": sum(value is True for value in fixes.values()),
        "fixes": len(fixes),
        "load": report["env"]["loadavg"],
        "plan": [line for line in done.stderr.splitlines() if line.startswith("plan:")],
    }


def main() -> None:
    """Verify, print, keep."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("programs", nargs="*", default=["waves", "digits", "long"])
    parser.add_argument("--budget", type=float, default=40.0)
    parser.add_argument("--cores", type=int, default=16)
    parser.add_argument("--import", dest="importing", type=float, default=8.0)
    parser.add_argument("--optimizer", type=float, default=2.0)
    parser.add_argument("--context", type=float, default=0.0)
    parser.add_argument("--keep", metavar="NAME")
    given = parser.parse_args()
    found, late = [], False
    for name in given.programs:
        one = verified(name, given)
        found.append(one)
        print(json.dumps({key: value for key, value in one.items() if key != "plan"}), flush=True)
        late |= one["seconds"] > OVER * given.budget or "pairs" not in one
        late |= bool(given.cores) and (one.get("pairs", 0) < PAIRS or one["reached"] < one["fixes"])
    if given.keep:
        result = {
            "what": "seconds until the report, on a simulated slow machine",
            **environment({}),
            "settings": {
                "budget": given.budget,
                "cores": given.cores,
                "import_s": given.importing,
                "optimizer_s": given.optimizer,
                "context_s": given.context,
            },
            "programs": found,
        }
        keep(given.keep, result)
    sys.exit(late)


if __name__ == "__main__":
    main()
