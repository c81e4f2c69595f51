"""Rules with a sentence of its own for a special case use it there, and nowhere else: lines of
their fixtures."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, rules

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
NAMES = {info.code: info.name.replace("-", "_") for info in rules()}
MESSAGES = [
    ("TL105", "        late = loss.item()", "logged only now and then"),
    ("TL105", "        both = loss.item()", "for losses.update; pass the detached tensor"),
    ("TL105", "        value = loss.item()", "for print; log every N steps"),
    ("TL113", "        losses.append(loss.cpu())", "drops the graph without a copy"),
    ("TL113", "        total += loss.detach().cpu()", "copy once after the loop"),
    (
        "TL606",
        "            torch.tensor([torch.pow(sign, k) for k in range(n)][::-1]),",
        "without a dimension, torch.cat those of shape (1,)",
    ),
    ("TL606", "            torch.tensor([one, one + 1]),", "; use torch.cat, which keeps"),
    (
        "TL606",
        "            torch.tensor([out.mean().unsqueeze(0), out.std()]),",
        "without a dimension, torch.cat those of shape (1,)",
    ),
    ("TL606", "            torch.tensor([out.sum(), out.std() + 1]),", "; use torch.stack."),
    ("TL606", "            torch.tensor([v.item() for v in values]),", "; on the device, use"),
]


@pytest.mark.parametrize(
    ("code", "line", "phrase"), MESSAGES, ids=[f"{m[0]}-{m[1].strip()}" for m in MESSAGES]
)
def test_special_case_has_its_sentence(code: str, line: str, phrase: str) -> None:
    path = next(FIXTURES.glob(f"*/{NAMES[code]}.py"))
    text = path.read_text(encoding="utf-8")
    row = text.split("\n").index(f"{line}  # {code}") + 1
    findings = check(text, codes=frozenset({code}), name="src/train.py").findings
    assert [phrase in found.message for found in findings if found.start.row == row] == [True]


STEP = """
import torch

net = torch.nn.Linear(4, 4).cuda()
kept = []


def training_step(x):
    x = net(x.cuda())
    x.mean().backward()
    kept.append((x.detach().cpu(), 1))
    torch.cuda.empty_cache()
"""


def test_no_loop_is_named_where_none_is_in_sight() -> None:
    codes = frozenset({"TL113", "TL701"})
    said = {each.code: each.message for each in check(STEP, codes=codes).findings}
    assert "keep it on the device and copy the values of many steps at once" in said["TL113"]
    assert "in every step" in said["TL701"]


PLACED = """
import torch

net = torch.nn.Linear(4, 4).cuda()


def training_step(x):
    out = net(x.cuda())
    mask = torch.zeros(out.size())
    if out.is_cuda:
        mask = mask.cuda()
    longest = out.argmax(1).max()
    (out * mask)[:, :longest].mean().backward()
"""


def test_the_device_of_the_repair_is_the_one_that_is_named() -> None:
    found = check(PLACED, codes=frozenset({"TL102"})).findings
    assert {"device=out.device" in each.message for each in found} == {True}
    assert not any("cuda" in each.message for each in found)


def test_a_number_that_cuts_a_tensor_is_named() -> None:
    found = check(PLACED, codes=frozenset({"TL101"})).findings
    assert [each.message.partition(" waits")[0] for each in found] == ["`longest`"]
    assert [each.severity.value for each in found] == ["info"]


WORKED_ON = """
import numpy as np
import torch

net = torch.nn.Linear(4, 4).cuda()


def training_step(x):
    out = net(x.cuda())
    far = np.sort(out.detach().cpu().numpy())
    (out.mean() * far.mean()).backward()


def train(batches):
    for x in batches:
        out = net(x.cuda())
        far = np.sort(out.detach().cpu().numpy())
        (out.mean() * far.mean()).backward()
"""


def test_many_iterations_are_promised_only_where_a_loop_is_in_sight() -> None:
    found = check(WORKED_ON, codes=frozenset({"TL113"})).findings
    promised = [
        "do what torch can do on the device, or copy the values of many steps at once"
        in each.message
        for each in found
    ]
    spared = ["do that work with torch on the device" in each.message for each in found]
    assert (promised, spared) == ([False, True], [True, False])


CONDITIONAL = """
import torch

net = torch.nn.Linear(4, 4)
for x in batches:
    noise = torch.randn(8, 4)
    if {test}:
        x, noise = x.cuda(), {move}
    net(noise + x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "move", "device"),
    [
        ("args.cuda", "noise.cuda()", 'device="cuda" if args.cuda else "cpu" instead'),
        ("not args.cpu", "noise.cuda()", 'device="cuda" if not args.cpu else "cpu" instead'),
        ("args.cuda", "noise.to(device)", "device=device instead"),
    ],
)
def test_where_a_test_decides_the_message_keeps_the_cpu(test: str, move: str, device: str) -> None:
    findings = check(CONDITIONAL.format(test=test, move=move), codes=frozenset({"TL102"})).findings
    assert [device in each.message for each in findings if each.severity.value == "warning"] == [
        True
    ]


WRITTEN = """
import json
import torch

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(loader, record, losses):
    for x in loader:
        loss = net(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        row = {"loss": loss.item(), "size": x.size(0)}
        losses.append(row["loss"])
        record.write(json.dumps(row))
"""


def test_what_is_written_in_each_step_is_not_to_be_read_behind_the_loop() -> None:
    (found,) = check(WRITTEN, codes=frozenset({"TL101"})).findings
    assert "because `record.write(json.dumps(row))` uses it right away" in found.message
    assert "do that every N steps" in found.message


@pytest.mark.parametrize(
    ("case", "phrase"),
    [
        ("sizes_of_one_tensor", "before the loop, with one .tolist()"),
        ("sizes_of_one_tensor_twin", "a mask"),
    ],
)
def test_elements_of_an_older_tensor_are_brought_over_at_once(case: str, phrase: str) -> None:
    text = (FIXTURES.parent / "cases" / case / "train.py").read_text(encoding="utf-8")
    found = check(text, codes=frozenset({"TL101"})).findings
    assert [phrase in each.message for each in found] == [True] * len(found)
    assert found


SAMPLED = """
import torch


def sample(model, x, top_p):
    for _ in range(100):
        logits = model(x.cuda())[:, -1]
        ordered, order = torch.sort(logits, descending=True)
        indices = order
        removed = ordered.softmax(-1).cumsum(-1) > top_p
        mask = torch.zeros_like(logits, dtype=torch.bool)
        kept, groups = [], logits.argmax(-1)
        for i in range(logits.shape[0]):
            {body}
        x = logits.argmax(-1)
"""
BESIDE = "keep all elements with the mask beside them (torch.where, a product with the mask)"


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        ("kept.append(ordered[i, removed[i]])", BESIDE),
        ("kept.append(indices[i, removed[i]])", BESIDE),
        ("mask[i, order[i, removed[i]]] = mask[i, 0]", BESIDE),
        (
            "chosen = order[i, removed[i]]; kept.append(chosen); mask[i, chosen] = True",
            "torch.where",
        ),
    ],
)
def test_what_does_without_the_number_of_elements_is_possible(body: str, phrase: str) -> None:
    (found,) = check(SAMPLED.format(body=body), codes=frozenset({"TL107"})).findings
    assert phrase in found.message


METERS = """
import torch
from torchmetrics import MeanMetric, SumMetric
from torchmetrics.aggregation import MaxMetric

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(loader, bar):
    mean_metric = {made}
    for x in loader:
        loss = net(x.cuda()).mean()
        loss.backward()
        optimizer.step()
        {body}
    return mean_metric.compute()
"""
ON_HOST = "move the meter to the device, pass the detached tensor, and"


@pytest.mark.parametrize(
    ("made", "body", "phrase"),
    [
        ("MeanMetric()", "mean_metric.update(loss.item())", f"{ON_HOST} read the average"),
        ("SumMetric()", "value = loss.item(); mean_metric.update(value)", f"{ON_HOST} read the"),
        (
            "MaxMetric()",
            "value = loss.item(); mean_metric.update(value); bar.set_postfix(loss=value)",
            f"{ON_HOST} show the number",
        ),
        ("MeanMetric().cuda()", "mean_metric.update(loss.item())", "; pass the detached tensor"),
        (
            "MeanMetric(); mean_metric.to('cuda')",
            "mean_metric.update(loss.item())",
            "; pass the detached tensor, and read the average",
        ),
        ("Meter()", "mean_metric.update(loss.item())", "; pass the detached tensor"),
    ],
)
def test_a_meter_on_the_cpu_is_to_be_moved_first(made: str, body: str, phrase: str) -> None:
    (found,) = check(METERS.format(made=made, body=body), codes=frozenset({"TL105"})).findings
    assert phrase in found.message
    assert found.fix is None or not phrase.startswith(ON_HOST)


AVERAGE = """
class Average:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, value):
        self.total += value
        self.count += 1

    def mean(self):
        return self.total / self.count
"""
SPREAD = """
import numpy as np


class Spread:
    def __init__(self):
        self.squares, self.count = 0.0, 0
        self.std = np.nan

    def add(self, value):
        self.squares += value * value
        self.count += 1
        self.std = np.sqrt(self.squares / self.count)
"""
WINDOW = """
from collections import deque

import numpy


class Window:
    def __init__(self):
        self.kept = deque(maxlen=20)

    def add(self, value):
        self.kept.append(value)

    @property
    def mean(self):
        return numpy.mean(self.kept)
"""
TRAINER = """
import torch
{imports}

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


class Trainer{base}:
    def begin(self, meters):
        {begin}

    def train(self, loader):
        for x in loader:
            loss = net(x.cuda()).mean()
            loss.backward()
            optimizer.step()
            {meter}.add(loss.item())
"""
BASE = """
from meters import Average, Spread


class Base:
    def begin(self, meters):
        self.meters = meters
        meters.register("loss", Spread())
        meters.register("time", Average())
"""
BY_KEY = {"meter": 'self.meters["loss"]', "base": ""}
NUMPY = [
    # By attribute, by key in this file, by key in a table, in a base class of another file.
    ({"begin": "self.loss_meter = Spread()", "meter": "self.loss_meter", "base": ""}, True),
    ({"begin": "self.loss_meter = Average()", "meter": "self.loss_meter", "base": ""}, False),
    ({**BY_KEY, "begin": 'meters.register("loss", Window())'}, True),
    ({**BY_KEY, "begin": 'meters.register("time", Window())'}, False),
    ({**BY_KEY, "begin": 'self.meters = {"loss": Spread()}'}, True),
    ({**BY_KEY, "begin": 'self.meters = {"loss": Average(), "time": Spread()}'}, False),
    ({**BY_KEY, "begin": 'self.meters["loss"] = Window()'}, True),
    ({**BY_KEY, "begin": "pass", "base": "(Base)"}, True),
    ({"meter": 'self.meters["time"]', "begin": "pass", "base": "(Base)"}, False),
]


@pytest.mark.parametrize(("parts", "numpy"), NUMPY)
def test_a_meter_that_computes_with_numpy_is_not_handed_a_tensor(
    tmp_path: Path, parts: dict[str, str], numpy: bool
) -> None:
    imports = "from base import Base\nfrom meters import Average, Spread, Window"
    (tmp_path / "meters.py").write_text(AVERAGE + SPREAD + WINDOW)
    (tmp_path / "base.py").write_text(BASE)
    source = TRAINER.format(imports=imports, **parts)
    codes = frozenset({"TL105"})
    (found,) = check(source, codes=codes, name="train.py", root=str(tmp_path)).findings
    assert ("computes with NumPy" in found.message) is numpy
    assert ("pass the detached tensor" in found.message) is not numpy
    assert found.fix is None or not numpy


def test_a_meter_under_a_plain_name_computes_with_numpy() -> None:
    for made, numpy in (("Spread()", True), ("Average()", False)):
        body = "mean_metric.add(loss.item())"
        source = AVERAGE + SPREAD + METERS.format(made=made, body=body)
        (found,) = check(source, codes=frozenset({"TL105"})).findings
        assert ("computes with NumPy" in found.message) is numpy


LOGGED = """
import logging
import torch

net = torch.nn.Linear(4, 4).cuda()
adam = torch.optim.Adam(net.parameters())
log = logging.getLogger()


def train(loader, args):
    one = 1
    for step, x in enumerate(loader):
        loss = net(x.cuda()).mean()
        loss.backward()
        adam.step()
        {line}
"""
HELD = ", as the interval `one` is 1; log every N steps."


@pytest.mark.parametrize(
    ("line", "end"),
    [
        ("if step % one == 0: log.info(loss.item())", HELD),
        ('if step % one == 0: print(f"{loss}")', HELD),
        ("if args.verbose and not step % one: log.info('%f', loss)", HELD),
        ("log.info(loss.item(), step % one)", "for log.info; log every N steps."),
        ("if step % 1 == 0: log.info(loss.item())", "for log.info; log every N steps."),
        ("if step > one: log.info(loss.item())", "for log.info; log every N steps."),
    ],
)
def test_an_interval_of_one_is_to_blame_where_it_lets_each_step_log(line: str, end: str) -> None:
    found = check(LOGGED.replace("{line}", line), codes=frozenset({"TL105"})).findings
    assert [each.message.endswith(end) for each in found] == [True]


@pytest.mark.parametrize(
    ("number", "maker"),
    [("0.0", "zeros"), ("1.0", "ones"), ("0.5", "full"), ("0", "full"), ("-1.0", "full")],
)
def test_the_message_names_the_factory_of_the_fix(number: str, maker: str) -> None:
    text = f"""
import torch
from torch import nn


class Margin(nn.Module):
    def forward(self, x):
        return x + torch.tensor({number}, device="cuda")
"""
    (found,) = check(text, codes=frozenset({"TL112"})).findings
    assert f"with torch.{maker}((), ...)." in found.message
    assert found.fix is not None
    assert f"{maker}(()" in found.fix.edits[0].text


BUILT = """
import torch

net = torch.nn.Linear(4, 4).cuda()


def training_step(x):
    out = net(x.cuda())
    {made}
    {moved}
    out.mean().backward()
"""


@pytest.mark.parametrize(
    ("made", "moved", "row"),
    [
        ("eye = torch.eye(4)[x]", "out = out + eye[:, :3].permute(1, 0).to(out.device)", 9),
        ("mask = torch.ones(4)", "out = out * mask.unsqueeze(0).cuda()", 9),
        ("order = torch.arange(4)", "out = out[order.flip(0).to(out.device)]", 9),
        ("pass", "out = out + torch.eye(4).permute(1, 0).to(out.device)", 10),
    ],
)
def test_a_tensor_that_is_built_and_moved_apart_is_one_finding(
    made: str, moved: str, row: int
) -> None:
    text = BUILT.replace("{made}", made).replace("{moved}", moved)
    found = check(text, codes=frozenset({"TL102"})).findings
    assert [each.start.row for each in found] == [row]


USED = """
import torch
from torch import nn

model = nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def show(logs, step):
    for name, value in logs.items():
        print(name, value, step)


def train(loader, every, history):
    logs = {}
    for step, x in enumerate(loader):
        loss = model(x.cuda()).square().mean()
        loss.backward()
        optimizer.step()
BODY
"""


@pytest.mark.parametrize(
    ("body", "phrase"),
    [
        (
            """
        logs["loss"] = loss.item()
        if step % 50 == 0:
            show(logs, step)
            """,
            "but is used only where `step % 50 == 0`; read it there.",
        ),
        (
            """
        seen = {}
        seen["loss"] = float(loss)
        seen["size"] = len(x)
        if (step + 1) % every == 0:
            print(" ".join(f"{key}: {value:.3f}" for key, value in seen.items()))
            """,
            "but is used only where `(step + 1) % every == 0`; read it there.",
        ),
        (
            """
        value = loss.item()
        if step % 50 == 0:
            history.put(value)
            """,
            "but is used only where `step % 50 == 0`; read it there.",
        ),
        (
            """
        logs["loss"] = loss.item()
        show(logs, step)
            """,
            "because `print(name, value, step)` uses it right away",
        ),
        (
            """
        logs["loss"] = loss.item()
        if step % 50 == 0:
            show(logs, step)
    return logs
            """,
            "read it once after the loop.",
        ),
        (
            """
        logs[step] = loss.item()
        if step % 50 == 0:
            show(logs, step)
            """,
            "read it once after the loop.",
        ),
    ],
)
def test_what_is_used_now_and_then_is_to_be_read_there(body: str, phrase: str) -> None:
    source = USED.replace("BODY", body)
    findings = check(source, codes=frozenset({"TL101"}), name="src/train.py").findings
    assert [phrase in found.message for found in findings] == [True]


KEPT = """
import torch

net = torch.nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(batches):
    kept = []
    for x in batches:
        out = net(x.cuda())
        out.mean().backward()
        optimizer.step()
        kept.append({copied})
    return kept
"""


@pytest.mark.parametrize(
    ("copied", "keeps"),
    [("out[0].cpu()", True), ("out[0].to('cpu')", True), ("out[0].tolist()", False)],
)
def test_numbers_keep_no_graph(copied: str, keeps: bool) -> None:
    source = KEPT.format(copied=copied)
    (found,) = check(source, codes=frozenset({"TL113"})).findings
    assert ("keeps the graph" in found.message) is keeps
