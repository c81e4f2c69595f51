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


SAMPLING = """\
import random

import numpy as np
import torch
import torch.nn.functional as F

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def draw(net, image, word, h):
    out, h = net(image, word, hidden=h)
    p = F.softmax(out, dim=1)
    {line}
    return {drawn}, h


def sample(net, image, length):
    net.to(device).eval()
    h, words, fed = None, [], torch.zeros(1, 1, device=device)
    with torch.no_grad():
        for _ in range(length):
            drawn, h = draw(net, image.to(device), fed, h)
            words.append(drawn)
            {feeds}
    return words
"""
FED = "fed = torch.tensor([[drawn]], device=device)"


@pytest.mark.parametrize(
    ("line", "drawn", "feeds", "phrase"),
    [
        (
            "p, top = p.cpu().topk(5); p = p.numpy()[0]; top = top.numpy()[0]",
            "np.random.choice(top, p=p / p.sum())",
            FED,
            "computes on the device with what becomes of the copy",
        ),
        (
            "p, top = p.cpu().sort(); p = p[0].numpy()",
            "int(np.random.choice(len(p), p=p))",
            FED,
            "computes on the device with what becomes of the copy",
        ),
        (
            "p, _ = p.cpu().max(0); p = p.numpy()",
            "random.choices(range(5), p)[0]",
            FED,
            "computes on the device with what becomes of the copy",
        ),
        (
            "p, top = p.cpu().topk(5); p = p.numpy()[0]; top = top.numpy()[0]",
            "np.random.choice(top, p=p / p.sum())",
            "pass",
            "collect on the device and copy once after the loop",
        ),
        (
            "top = p.cpu().topk(5)",
            "top",
            "fed = torch.zeros(1, 1, device=device)",
            "collect on the device and copy once after the loop",
        ),
    ],
)
def test_what_is_drawn_for_the_next_pass_is_not_collected(
    line: str, drawn: str, feeds: str, phrase: str
) -> None:
    source = SAMPLING.format(line=line, drawn=drawn, feeds=feeds)
    messages = [each.message for each in check(source, codes=frozenset({"TL113"})).findings]
    assert len(messages) == 1
    assert phrase in messages[0], messages


STEP = """\
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader


def train_step(model, batch, optimizer, device, weight):
    x, y = batch
    loss = F.cross_entropy(model(x), y, weight.to(device))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def train(model, data, optimizer, device, weight):
    for {target} in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True):
        {call}
"""
HANDED_ON = """\


def train_step_of(model, batch, optimizer, device, weight=None):
    train_step(model, batch, optimizer, device, weight)
"""


@pytest.mark.parametrize(
    ("target", "call", "batch"),
    [
        ("batch", "train_step(model, batch, optimizer, device, weight)", False),
        ("batch", "train_step(model, batch, optimizer, device, weight=weight[:4])", False),
        ("batch", "train_step_of(model, batch, optimizer, device, weight=weight)", False),
        ("*batch, w", "train_step(model, batch, optimizer, device, w)", True),
        ("batch", "train_step(model, batch, optimizer, device, batch[0])", True),
        ("*batch, w", "train_step_of(model, batch, optimizer, device, weight=w)", True),
    ],
)
def test_what_callers_have_from_before_their_loop_is_no_batch(
    target: str, call: str, batch: bool
) -> None:
    source = STEP.format(target=target, call=call) + (HANDED_ON if "step_of" in call else "")
    findings = check(source, codes=frozenset({"TL103"})).findings
    assert bool(findings) is batch


MAP = """\
import geometry
import kornia
import mapping.core
import torch


def near(x, y):
    return [each.angle for each in mapping.core.within(mapping.core.Point(x, float(y)))]


def far(x, y):
    return geometry.Line(x, y).angles


def plain(x, y):
    return [x + y, x - y]


def turned(x, y):
    return [kornia.geometry.turn(x, y)]


def orientation_loss(states: torch.Tensor):
    states, out = states.cuda(), []
    for state in states:
        x, y = float(state[0]), float(state[1])
        angles = {call}
        gap = torch.tensor(angles).cuda() - state[2]
        out.append(gap.min())
    return torch.stack(out)
"""


@pytest.mark.parametrize(
    ("call", "phrase"),
    [
        ("near(x, y)", "because code outside torch uses the number"),
        ("far(x=x, y=y)", "because code outside torch uses the number"),
        ("geometry.angles([x, y])", "because code outside torch uses the number"),
        ("plain(x, y)", "do all of that with torch"),
        ("turned(x, y)", "do all of that with torch"),
        ("[x, max(x, y)]", "do all of that with torch"),
    ],
)
def test_another_package_cannot_be_told_to_use_torch(call: str, phrase: str) -> None:
    findings = check(MAP.format(call=call), codes=frozenset({"TL101"})).findings
    assert findings
    assert phrase in findings[0].message, findings


SHOWN = """\
import numpy as np
import torch
from torch import nn
from tqdm import tqdm

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def epoch(loader):
    losses = []
    bar = tqdm(loader)
    for step, (x, y) in enumerate(bar):
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append({read})
        {line}
    return np.mean(losses)


def validate(loader):
    losses = []
    bar = tqdm(loader)
    with torch.no_grad():
        for step, (x, y) in enumerate(bar):
            loss = criterion(model(x.to(device)), y.to(device))
            losses.append({read})
            {line}
    return np.mean(losses)
"""
UPDATED = "row = {'n': step}; row.update({'loss': loss.item()}); losses.append(row); "


@pytest.mark.parametrize(
    ("code", "read", "line", "shown"),
    [
        ("TL113", "loss.detach().cpu().numpy()", 'bar.set_postfix_str(f"{losses[-1]:.2f}")', True),
        ("TL113", "loss.detach().cpu().numpy()", "bar.set_postfix(loss=np.mean(losses))", True),
        ("TL113", "loss.detach().cpu()", "print(losses[-1])", True),
        ("TL101", "loss.item()", 'bar.set_postfix_str(f"{np.mean(losses):.2f}")', True),
        ("TL113", "loss.detach().cpu().numpy()", 'bar.set_postfix_str(f"{step}")', False),
        ("TL113", "loss.detach().cpu().numpy()", "bar.set_postfix(n=len(losses))", False),
        (
            "TL113",
            "loss.detach().cpu().numpy()",
            "step % 50 or bar.set_postfix(loss=losses[-1])",
            False,
        ),
        ("TL101", "loss.item()", 'bar.set_postfix_str(f"{len(losses)}")', False),
        ("TL101", "step", UPDATED + "bar.set_postfix(loss=row.get('loss', 0))", True),
        ("TL101", "step", UPDATED + "bar.set_postfix(loss=row['loss'])", True),
        ("TL101", "step", UPDATED + "bar.set_postfix(n=row.get('n', 0))", False),
        ("TL101", "step", UPDATED + "bar.set_postfix(n=row['n'])", False),
    ],
)
def test_what_a_bar_shows_of_a_list_is_to_be_shown_less_often(
    code: str, read: str, line: str, shown: bool
) -> None:
    source = SHOWN.replace("{read}", read).replace("{line}", line)
    findings = check(source, codes=frozenset({code})).findings
    assert findings
    assert all(("uses it right away" in each.message) is shown for each in findings), findings


DETECTED = """\
import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn

model = fasterrcnn_resnet50_fpn().to("cuda").eval()


def detect(image):
    with torch.no_grad():
        found = model([image.to("cuda")])[0]
    boxes, scores = found["boxes"].cpu(), found["scores"]
    return boxes, scores


def follow(boxes, tracker):
    for box in boxes:
        tracker.update(box.numpy())


def run(images, tracker, rows):
    for image in images:
        {line}
    return rows
"""


@pytest.mark.parametrize(
    ("line", "at_once"),
    [
        ("boxes, _ = detect(image)\n        for box in boxes: tracker.update(box)", True),
        ("at, how = detect(image)\n        for b, s in zip(at, how): tracker.update(b, s)", True),
        ("boxes, _ = detect(image)\n        follow(boxes, tracker)", True),
        ("boxes, _ = detect(image)\n        rows.append(boxes)", False),
        ("boxes, _ = detect(image)\n        for _ in range(len(boxes)): rows.append(0)", False),
        ("boxes, scores = detect(image)\n        for each in scores: tracker.add(each)", False),
    ],
)
def test_a_caller_goes_over_the_copy_in_the_step(line: str, at_once: bool, tmp_path: Path) -> None:
    found = of("TL113", line, DETECTED, tmp_path)
    assert ["in that step" in each.message for each in found] == [at_once]
