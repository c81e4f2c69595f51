"""Pinned memory and kernels for lists of tensors are no advice to a program for Apple's device
alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, job
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

HEAD = """\
import torch
from torch import nn
from torch.utils.data import DataLoader
"""
LOOP = """
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
TRAIN = f"{HEAD}def train(model, loader, opt, device):{LOOP}"
MAKES = "data = torch.load('data.pt')\nloader = DataLoader(data, 8, num_workers=4)\n"
NET = "model = nn.Linear(8, 2).to(device)\nopt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
RUN = f"{MAKES}{NET}for _ in range(9):{LOOP}"
START = (
    f"from steps import train\n{MAKES}{NET}"
    "for _ in range(9):\n    train(model, loader, opt, device)\n"
)
PINNING = {"TL103", "TL202"}


def codes(root: Path, **files: str) -> set[str]:
    """Return the codes about pinned memory that files of a project have."""
    for name, text in files.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    forget()
    jobs = [job(text, name=f"{name}.py", root=str(root)) for name, text in files.items()]
    return PINNING & {finding.code for each in jobs for finding in analyse_job(each).findings}


@pytest.mark.parametrize(
    ("device", "pinned"),
    [
        ("device = 'mps'\n", set()),
        ("device = torch.device('mps' if torch.backends.mps.is_available() else 'cpu')\n", set()),
        ('device: str = "mps"\n', set()),
        ("device = torch.device('cuda')\n", PINNING),
        ("device = 'mps' if torch.backends.mps.is_available() else 'cuda'\n", PINNING),
        ("import sys\ndevice = torch.device(sys.argv[1])\n", PINNING),
        (
            "import sys\ndevice = torch.device(sys.argv[1])\n"
            "if device.type == 'mps':\n    print('slow')\n",
            PINNING,
        ),
    ],
)
def test_what_a_file_chooses(device: str, pinned: set[str], tmp_path: Path) -> None:
    assert codes(tmp_path, train=f"{HEAD}{device}{RUN}") == pinned


@pytest.mark.parametrize(
    ("device", "pinned"),
    [
        ("device = 'mps'\n", set()),
        ("device = 'cuda'\n", PINNING),
        ("device = 'mps'  # or cuda\n", PINNING),
    ],
)
def test_what_another_file_chooses(device: str, pinned: set[str], tmp_path: Path) -> None:
    assert codes(tmp_path, run=f"{HEAD}{device}{START}", steps=TRAIN) == pinned


AVERAGE = (
    "for a, b in zip(slow.parameters(), model.parameters()):\n            a.data.lerp_(b.data, 0.1)"
)
CLIP = "for p in model.parameters():\n            p.grad.clamp_(-1, 1)"
PENALTY = "loss = loss + sum(p.square().sum() for p in model.parameters())"
MPS = "torch.device('mps')"
BOTH = "'mps' if torch.backends.mps.is_available() else 'cuda'"


@pytest.mark.parametrize(
    ("device", "work", "count"),
    [
        *((MPS, work, 0) for work in (AVERAGE, CLIP, PENALTY)),
        *((BOTH, work, 1) for work in (AVERAGE, CLIP, PENALTY)),
        ("pick()", AVERAGE, 1),
    ],
)
def test_lists_of_parameters(device: str, work: str, count: int) -> None:
    program = f"""\
{HEAD}from nets import Net, Slow
device = {device}
model, slow = Net().to(device), Slow().to(device)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def train(loader):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        opt.zero_grad()
        loss.backward()
        {work}
        opt.step()
"""
    found = check(program, codes=frozenset({"TL510"})).findings
    assert len(found) == count


@pytest.mark.parametrize(("device", "pinned"), [(MPS, False), (BOTH, True), ("pick()", True)])
def test_what_workers_would_pin(device: str, pinned: bool) -> None:
    source = f"{HEAD}device = {device}\n{RUN.replace(', num_workers=4', '')}"
    found = check(source, codes=frozenset({"TL201"})).findings
    assert [("pin_memory" in each.message) for each in found] == [pinned]
