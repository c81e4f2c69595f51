"""A wait's message names the other waits of its step, of which each alone gains little; what a
remedy rests on is said, or the remedy is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from tests.checking import fixed as report_of
from torchlint.base.finding import Finding, Severity

TRAIN = """\
import torch
from torch import nn

from helpers import unseen

device = torch.device("cuda")
DEVICE = device.type
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def score(out, y):
    return (out.argmax(1) == y).sum().item()


def train(loader, limit):
    total, hits, parts = 0.0, 0, []
    for step, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        {first}
        out = model(x)
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
        {last}
    return total, hits, parts
"""
NAMED = " waits for the GPU in "


def of(source: str, code: str, part: str = "") -> list[Finding]:
    report = check(source, codes=frozenset({code}), name="train.py")
    return [e for e in report.findings if part in e.message.partition(NAMED)[0]]


def fixed(source: str, code: str, *, unsafe: bool = False) -> str:
    safety = "unsafe" if unsafe else "safe"
    return report_of(source, safety, codes=frozenset({code})).after or source


def told(first: str = "pass", last: str = "pass") -> str:
    findings = of(TRAIN.format(first=first, last=last), "TL101")
    (finding,) = (each for each in findings if each.message.startswith("`loss.item()` reads"))
    return finding.message.partition("The step waits for the GPU in ")[2]


@pytest.mark.parametrize(
    ("first", "last", "others"),
    [
        (
            "pass",
            "hits += (out.argmax(1) == y).sum().item()",
            "`(out.argmax(1) == y).sum().item()`",
        ),
        ("pass", "hits += score(out, y)", "`score(out, y)`"),
        ("kept = x[x > 0]", "pass", "`x[x > 0]`"),
        (
            'if DEVICE == "cuda":\n            torch.cuda.synchronize()',
            "pass",
            "`torch.cuda.synchronize()`",
        ),
        ("pass", "for row in out:\n            hits += row.max().item()", "`row.max().item()`"),
    ],
)
def test_another_wait_of_the_step_is_named(first: str, last: str, others: str) -> None:
    assert told(first, last) == f"{others} as well; while it does, the host does not run ahead."


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("pass", "pass"),
        ("pass", "hits += len(y)"),
        ("pass", "hits += unseen(step)"),
        ("pass", "parts.append(loss.detach())"),
        # Not in each step.
        ("pass", "hits += score(out, y) if step % 100 == 0 else 0"),
        ("pass", "if step % 100 == 0:\n            hits += score(out, y)"),
        ("pass", "later = lambda: out.max().item()"),
        ("pass", "hits += step > limit and score(out, y)"),
        ("assert len(x), f'{score(model(x), y)}'", "pass"),
        ("pass", "assert step < limit, f'nothing in {out[0].max().item()}'"),
    ],
)
def test_what_does_not_wait_in_each_step_is_not_named(first: str, last: str) -> None:
    assert told(first, last) == ""


def test_of_many_waits_two_are_named_and_the_rest_counted() -> None:
    last = "hits += out.max().item(); parts.append(out.min().item()); hits += out.sum().item()"
    assert told(last=last) == (
        "`out.max().item()`, `out.min().item()` and one more place as well; while it does, the "
        "host does not run ahead."
    )


def test_the_same_text_is_another_one() -> None:
    source = TRAIN.format(first="pass", last="parts.append(loss.item())")
    first, second = of(source, "TL101")
    assert "in another `loss.item()` as well" in first.message
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.INFO)
    assert NAMED not in second.message


EVALUATION = """\
import torch
from torch import nn

model = nn.Linear(8, 3).cuda()


@torch.no_grad()
def evaluate(loader):
    total = hits = 0
    for x, y in loader:
        out = model(x.cuda())
        total += nn.functional.cross_entropy(out, y.cuda()).item()
        hits += (out.argmax(1) == y.cuda()).sum().item()
    return total, hits
"""


def test_of_an_evaluation_it_is_the_batch_that_waits() -> None:
    finding = of(EVALUATION, "TL101", "cross_entropy")[0]
    assert "The batch waits for the GPU in `(out.argmax(1)" in finding.message


SCALED = """\
import torch
from torch import nn

model = nn.Linear(8, 3).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cuda"{enabled})


def train(loader, dtype):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        total += loss.item()
    return total
"""


@pytest.mark.parametrize(
    ("enabled", "words", "severity"),
    [
        ("", " `scaler.step(optimizer)` waits for the same work", Severity.INFO),
        (", enabled=DTYPE == 'float16'", "Where its scaler is on, `scaler", Severity.INFO),
        (", enabled=False", "", Severity.WARNING),
    ],
)
def test_a_scaler_that_may_be_off_is_no_certain_wait(
    enabled: str, words: str, severity: Severity
) -> None:
    (finding,) = of(SCALED.format(enabled=enabled), "TL101")
    assert words in finding.message
    assert ("waits for the same work" in finding.message) is bool(words)
    assert finding.severity is severity


HOST = """\
import torch
from torch import nn

device = torch.device("cuda")


class Trainer:
    def __init__(self, net, loss_fn, metric):
        self.net = nn.Linear(4, 2).to(device)
        self.loss = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def fit(self, loader, kept):
        for x, y in loader:
            out = self.net(x.to(device))
            {line}
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("out = out.cpu(); loss = self.loss(out, y)", "for `self.loss`; compute that with torch"),
        (
            "grid = torch.linspace(0, 1, 2); loss = (out.cpu() * grid).sum()",
            "to compute there with `grid`; make `grid` on the GPU",
        ),
        ("loss = out.sum(); kept.append(out.detach().cpu())", "collect on the device"),
        ("loss = out.sum(); half = out.detach().cpu() * 0.5", "collect on the device"),
    ],
)
def test_a_copy_that_is_computed_with_is_not_collected(line: str, words: str) -> None:
    (finding,) = of(HOST.format(line=line), "TL113")
    assert words in finding.message


KEPT = """\
import random
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Store:
    def __init__(self):
        self.db = {{"rewards": {start}}}

    def add(self, reward):
        {line}

    def get(self, size):
        idx = [random.randrange(8) for _ in range(size)]
        return torch.tensor([self.db["rewards"][i] for i in idx]).to("cuda")


store = Store()
for step in range(100):
    optimizer.zero_grad()
    loss = (model(torch.ones(8, 4, device="cuda")).sum(1) - store.get(8)).sum()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("start", "line", "drawn"),
    [
        ("[]", 'self.db["rewards"].append(reward)', False),
        ("[0.0] * 8", 'self.db["rewards"][0] = reward', False),
        ("[]", 'self.db["rewards"] += [reward]', False),
        ("[0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]", "pass", True),
    ],
)
def test_what_a_class_puts_into_its_tables_is_not_drawn(start: str, line: str, drawn: bool) -> None:
    assert bool(of(KEPT.format(start=start, line=line), "TL114")) is drawn


REWARDS = """\
import torch
from torch import nn

model = nn.Linear(4, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(loader):
    for x, a, y in loader:
        x, a, y = x.cuda(), a.cuda(), y.cuda()
        table = torch.zeros(4, 2{where})
        table[:, {index}] = y
        loss = (model(x) - table.cuda()).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("index", "said"), [("a", False), ("a.long()", False), ("0", True), ("[0, 1]", True)]
)
def test_a_host_tensor_that_is_indexed_there_raises_and_exchanges_nothing(
    index: str, said: bool
) -> None:
    findings = of(REWARDS.format(where="", index=index), "TL102", "exchanges values")
    assert bool(findings) is said


ASKED = """\
import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def fit(sample, label=None):
    sample = torch.as_tensor(sample).cuda()
    label = torch.as_tensor(label).cuda() if label is not None else None
    for _ in range(100):
        i = torch.randint(0, 8, (4,))
        {use}
        loss = model(sample).sum() + rows.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("use", "device"),
    [
        ("rows = label[i] if label is not None else None", ""),
        ("if label is not None:\n            rows = label[i]", ""),
        ("rows = sample[i]", "sample.device"),
        ("if len(sample) > 4:\n            rows = sample[i]", ""),
    ],
)
def test_a_tensor_that_is_asked_first_names_no_device(use: str, device: str) -> None:
    after = fixed(ASKED.format(use=use), "TL102", unsafe=True)
    assert ("label.device" in after) is False
    assert (f"device={device}" in after) is bool(device)


PINNED = """\
import numpy as np
import torch
from torch import nn

model = nn.Linear(4, 4).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = np.ones((100, 4), dtype=np.float32)


def get_batch():
    x = torch.stack([torch.from_numpy(data[i]) for i in range(4)])
    {line}
    return x


for step in range(100):
    loss = model(get_batch()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('x = x.pin_memory().to("cuda", non_blocking=True)', False),
        ("x = x.pin_memory().cuda(non_blocking=True)", False),
        ('x = x.pin_memory().to("cuda")', True),
    ],
)
def test_what_the_step_makes_no_loader_can_pin(line: str, said: bool) -> None:
    assert bool(of(PINNED.format(line=line), "TL108")) is said


def test_a_schedule_between_two_reads_starts_no_work() -> None:
    last = "if step % 10 == 0:\n            scheduler.step()\n        print(out.max().item())"
    source = TRAIN.format(first="pass", last=last)
    assert "total += loss.item()" in fixed(source, "TL101")
    assert "total += loss.item()" not in fixed(TRAIN.format(first="pass", last="pass"), "TL101")


GROWN = """\
import torch
from torch import nn

model = nn.Linear(4, 4).cuda().eval()


@torch.no_grad()
def tiles(x, loader):
    out = torch.zeros(0, 4).cuda()
    {head}
        {iteration}
    return out
"""


@pytest.mark.parametrize(
    ("head", "iteration", "severity"),
    [
        ("for i in range(len(x)):", "out = torch.cat([out, model(x[i].cuda())])", Severity.INFO),
        (
            "k = 0\n    while k < len(x):",
            "out = torch.cat([out, model(x[k].cuda())]); k += 1",
            Severity.INFO,
        ),
        ("for y in loader:", "out = torch.cat([out, model(y.cuda())])", Severity.WARNING),
    ],
)
def test_an_iteration_that_runs_a_model_costs_more_than_what_grows(
    head: str, iteration: str, severity: Severity
) -> None:
    (finding,) = of(GROWN.format(head=head, iteration=iteration), "TL603")
    assert finding.severity is severity
    assert ("Each iteration runs a model" in finding.message) is (severity is Severity.INFO)


ROWS = """\
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    \"\"\"On the host, or moved by cuda().\"\"\"

    def __init__(self, rows):
        self.rows = rows
        {start}

    def __len__(self):
        return len(self.rows)

    {more}

    def __getitem__(self, index):
        {line}
        return self.rows[position]
"""
HELD = "@property\n    def device(self):\n        return self.rows.device"


@pytest.mark.parametrize(
    ("start", "more", "line", "said"),
    [
        ("pass", HELD, "position = torch.tensor(index, device=self.device)", False),
        (
            "pass",
            "",
            "at = index.device if torch.is_tensor(index) else 'cpu'\n"
            "        position = torch.zeros(1, device=at)",
            False,
        ),
        (
            "pass",
            "",
            "at = self.rows.device\n        position = torch.tensor(index, device=at)",
            False,
        ),
        (
            "self.device = torch.device('cuda')",
            "",
            "position = torch.tensor(index, device=self.device)",
            True,
        ),
        ("pass", "", "position = torch.tensor(index, device='cuda')", True),
    ],
)
def test_the_device_of_the_data_is_no_use_of_a_gpu(
    start: str, more: str, line: str, said: bool
) -> None:
    assert bool(of(ROWS.format(start=start, more=more, line=line), "TL206")) is said


MASKED = """\
import torch


def zero_pruned(model, optimizer, loader):
    model.cuda()
    for x in loader:
        model(x.cuda()).sum().backward()
        for weight in model.parameters():
            data = weight.data{copy}
            zeros = torch.zeros(4, 4)
            masked = torch.where({test}, zeros, {other})
            weight.grad.data = masked.to("cuda")
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "other", "first"),
    [
        ("data == 0.0", "zeros + 1", True),
        ("data > 0", "data", True),
        ("zeros == 0.0", "zeros + 1", False),
    ],
)
def test_what_is_computed_with_copies_on_the_host_needs_them_first(
    test: str, other: str, first: bool
) -> None:
    findings = of(MASKED.format(copy=".cpu()", test=test, other=other), "TL102", "torch.zeros")
    assert findings
    for finding in findings:
        assert ("the host computes with it" in finding.message) is first


SAMPLER = """\
import torch
from torch import nn


class Sampler(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 4)

    def forward(self, x):
        return self.net(x)

    @torch.no_grad()
    def sample(self, x, steps):
        {loop}
        return x
"""
SAMPLED = """\
import torch

from sampler import Sampler

sampler = Sampler().to("cuda")
for i in range(100):
    start = torch.ones(4, 4).to("cuda")
    first = sampler(start)
    {last}
"""
STEPS = "for _ in range(steps):\n            x = self.net(x)"
CALL = 'torch.save(sampler.sample(first, 256), f"{i}.pt")'


@pytest.mark.parametrize(
    ("loop", "last", "severity"),
    [
        (STEPS, CALL, Severity.INFO),
        ("x = self.net(x)", CALL, Severity.WARNING),
        (
            "if steps > 300:\n            for _ in range(steps):\n                x = self.net(x)",
            CALL,
            Severity.WARNING,
        ),
        (STEPS, f"if i % 10 == 0:\n        {CALL}", Severity.WARNING),
    ],
)
def test_what_is_copied_before_a_call_that_decodes_is_little(
    loop: str, last: str, severity: Severity, tmp_path: Path
) -> None:
    (tmp_path / "sampler.py").write_text(SAMPLER.format(loop=loop), encoding="utf-8")
    source = SAMPLED.format(last=last)
    (finding,) = check(source, codes=frozenset({"TL102"}), root=str(tmp_path)).findings
    assert finding.severity is severity
    assert ("before a `sampler.sample`" in finding.message) is (severity is Severity.INFO)


CHOSEN = """\
import torch
from torch.utils.data import DataLoader


def score(found, wanted):
    return (found == wanted).float().mean().item()


def choose(model, data):
    limits = torch.linspace(0.05, 0.95, steps=19, device="cuda")
    {before}
    scores = []
    for x in DataLoader(data):
        x = x.to("cuda")
        {within}
        scores.append(score(model(x) > numbers[0], x))
    return scores
"""
READ = "numbers = [limit.item() for limit in limits]"


@pytest.mark.parametrize(
    ("before", "within", "named"), [(READ, "pass", False), ("pass", READ, True)]
)
def test_a_read_before_the_steps_is_said_to_wait_in_none(
    before: str, within: str, named: bool
) -> None:
    findings = check(CHOSEN.format(before=before, within=within)).findings
    (finding,) = (each for each in findings if each.code == "TL604")
    assert (NAMED in finding.message) is named
