"""A value that the host needs in the very step that reads it gets no remedy that puts it off, also
where the need lies in another file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from torchlint.base.finding import Finding, Severity

DRAWING = """\
import cv2
import numpy as np
import torch
import torch.nn.functional as F


def as_array(image):
    return image.permute(1, 2, 0).numpy()


def compare(image, title=None):
    picture = as_array(image)
    return cv2.putText(picture, title or "", (4, 4), 0, 0.5, (255, 255, 255))


def resize(x, length):
    return F.interpolate(x, size=length)


def scale(x, factor):
    return x * factor


def measure(image):
    if isinstance(image, str):
        image = cv2.imread(image)
    return image.mean()


def spread(image):
    return torch.sqrt(image.var())
"""
EVALUATED = """\
import torch
from torch import nn

from drawing import compare, measure, resize, scale, spread

model = nn.Conv2d(3, 3, 3).to("cuda")


@torch.no_grad()
def run(loader, named):
    rows = []
    for x, names in loader:
        out = model(x.to("cuda"))
        {line}
    return rows


run(torch.utils.data.DataLoader(torch.load("data")), True)
"""


def of(code: str, line: str, program: str, root: Path) -> list[Finding]:
    (root / "drawing.py").write_text(DRAWING, encoding="utf-8")
    source = program.format(line=line)
    return list(check(source, codes=frozenset({code}), root=str(root)).findings)


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("rows.append(compare(out[0].cpu()))", False),
        ("picture = compare(out[0].cpu(), title='a'); rows.append(picture)", False),
        (
            "values = out.mean((1, 2, 3)).cpu() if named else None\n"
            "        for at in range(4): print(names[at], float(values[at]))",
            False,
        ),
        ("rows.append(out[0].cpu())", True),
        ("rows.append(spread(out[0].cpu()))", True),
        ("rows.append(measure(out[0].cpu()))", True),
        ("values = out.mean((1, 2, 3)).cpu() if named else None; rows.append(values)", True),
    ],
)
def test_what_is_drawn_or_taken_apart_in_the_batch_is_not_collected(
    line: str, told: bool, tmp_path: Path
) -> None:
    assert bool(of("TL113", line, EVALUATED, tmp_path)) is told


TRAINED = """\
import torch
from torch import nn

from drawing import resize, scale

model = nn.Conv1d(3, 3, 3).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Memory:
    def update_priorities(self, indices, errors):
        self.errors[indices] = errors

    def record(self, indices, errors):
        self.errors[indices] = errors


memory = Memory()


def train(loader):
    kept = torch.zeros(100, 3)
    for step, (x, lengths, indices) in enumerate(loader):
        x, lengths = x.to("cuda"), lengths.to("cuda")
        out = model(x)
        {line}
        optimizer.zero_grad()
        out.square().mean().backward()
        optimizer.step()


train(torch.utils.data.DataLoader(torch.load("data")))
"""


@pytest.mark.parametrize(
    ("line", "sized"),
    [
        ("out = resize(out, lengths.max().item())", True),
        ("out = nn.functional.interpolate(out, lengths.max().item())", True),
        ("size = int(lengths.max()); out = resize(out, size)", True),
        ("out = scale(out, lengths.max().item())", False),
        ("top = torch.topk(out, 3).values.max().item(); out = out * top", False),
    ],
)
def test_a_size_in_another_file_is_one(line: str, sized: bool, tmp_path: Path) -> None:
    (finding,) = of("TL101", line, TRAINED, tmp_path)
    assert ("because it sets the size" in finding.message) is sized
    assert (finding.severity is Severity.INFO) is sized


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("memory.update_priorities(indices, out.mean((1, 2)).detach().cpu())", False),
        ("memory.priority_update(indices, out.mean((1, 2)).detach().cpu().numpy())", False),
        ("memory.set_priority(indices, out.mean((1, 2)).detach().cpu().numpy())", False),
        ("memory.record(indices, out.mean((1, 2)).detach().cpu())", True),
    ],
)
def test_the_next_sample_needs_the_priorities(line: str, told: bool, tmp_path: Path) -> None:
    assert bool(of("TL113", line, TRAINED, tmp_path)) is told


@pytest.mark.parametrize(
    ("line", "partner"),
    [
        ("both = torch.zeros(8, 3); both[:4] = out.mean(2).cpu(); out = out + both.sum()", True),
        ("both = torch.zeros(8, 3); both[1::2] = out.argmax(1).cpu(); print(both.sum())", True),
        ("both = torch.empty(8, 3, 3); both[0] = out[0].cpu(); out = out * both.mean()", True),
        ("kept[step] = out.mean((0, 2)).cpu()", False),
        ("both = {}; both['out'] = out.mean(2).cpu(); out = out + len(both)", False),
    ],
)
def test_a_copy_that_fills_a_tensor_of_its_step_is_computed_on_the_device(
    line: str, partner: bool, tmp_path: Path
) -> None:
    findings = of("TL113", line, TRAINED, tmp_path)
    assert any("to compute there with `both`" in each.message for each in findings) is partner


ROWS = """\
import torch
from torch.utils.data import DataLoader, Dataset


class OnDevice(Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.load(self.rows[index]).to("cuda")


class OnHost(OnDevice):
    def __getitem__(self, index):
        return torch.load(self.rows[index])


def main(model, rows, kind):
    {made}
    loader = DataLoader(dataset, batch_size=4, shuffle=True)
    optimizer = torch.optim.SGD(model.cuda().parameters(), lr=0.1)
    for x in loader:
        optimizer.zero_grad()
        model(x.to("cuda")).sum().backward()
        optimizer.step()


main(torch.nn.Linear(4, 1), ["a", "b"], "host")
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("dataset = OnDevice(rows)", False),
        (
            "if kind:\n        dataset = OnHost(rows)\n    else:\n        dataset = OnDevice(rows)",
            False,
        ),
        ("dataset = OnDevice(rows)\n    if kind:\n        dataset = OnHost(rows)", False),
        ("dataset = OnHost(rows)", True),
        (
            "if kind:\n        dataset = OnHost(rows)\n    else:\n        dataset = OnHost([])",
            True,
        ),
    ],
)
def test_workers_cannot_load_what_a_branch_puts_on_the_device(made: str, told: bool) -> None:
    source = ROWS.format(made=made)
    findings = check(source, codes=frozenset({"TL201"}), name="train.py").findings
    assert bool(findings) is told
