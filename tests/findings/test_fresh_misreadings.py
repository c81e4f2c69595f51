"""Kinds of false findings on code that nobody had seen, each with near misses of which they are
true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from tests.test_misread_programs import DEFAULT, HEAD, found_in, marked

BLOCK = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weights = nn.Parameter(torch.ones(size))
        self.net = nn.Linear(size, size)
        self.register_buffer("code", torch.randn(size))

    def mask(self):
        return torch.sigmoid(self.net(self.code))

    def explain(self):
        return [(self.weights * self.mask()).sum().item() for _ in range(3)]
"""
INHERITED = """\
from block import Block


class And(Block):
    def forward(self, x):
        mask = self.mask()
        return {given}
"""
HELD = """\
import torch

from block import Block

block = Block(8).cuda()
optimizer = torch.optim.SGD(block.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(list(torch.ones(9, 8)), num_workers=2):
    loss = (block.mask() * x.cuda()).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (INHERITED.format(given="(x * self.weights * mask).sum(-1)"), False),
        (INHERITED.format(given="x * self.weights * (mask > 0.5)"), True),
        (HELD, False),
        (HELD.replace("block.mask()", "block.mask().detach()"), True),
    ],
)
def test_what_other_files_make_of_the_result_of_a_method(
    use: str, said: bool, tmp_path: Path
) -> None:
    """A method that explains drops the graph, and the one that trains stands in another file."""
    found = found_in(tmp_path, {"block.py": BLOCK, "use.py": use}, "block.py")
    assert ("TL501" in {code for _, code in found}) is said


WARNED = {
    "a warning with its numbers": """\
import warnings


def step(x, low):
    loss = model(x).square().mean()
    if loss < low:  # TL602
        share = (x < low).float().mean()
        warnings.warn(f"only {share} of {x.numel()}, {loss.item()}")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a logger's warning before the step is left": """\
import logging

logger = logging.getLogger(__name__)


def step(x):
    loss = model(x).square().mean()
    if torch.isnan(loss):  # TL602
        logger.error("loss %f of %s", loss.item(), x.mean().item())
        return
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a warning in the forward pass": """\
from logging import warning


class Histogram(nn.Module):
    def forward(self, values):
        out = (values < 0) + (values > 1)
        if out.sum() > 0:  # TL602
            warning(f"{out.sum()} values are out of range: {values.min().item()}")
        return values.clamp(0, 1)
""",
    "what is shown in each step": """\
import logging


def step(x):
    loss = model(x).square().mean()
    if loss < 1:  # TL602
        logging.info("loss %f", loss.item())  # TL105
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a warning beside the step": """\
import logging


def step(x, stale):
    loss = model(x).square().mean()
    if stale:
        logging.warning("stale")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()  # TL101
""",
}


@pytest.mark.parametrize("program", WARNED.values(), ids=WARNED)
def test_what_a_warning_reads_is_read_now_and_then(program: str) -> None:
    source = HEAD + program + "\n\nfor x in torch.ones(9, 8).cuda():\n    step(x, 1)\n"
    source = source if "def step" in program else HEAD + program
    report = check(source, codes=DEFAULT)
    assert sorted((each.start.row, each.code) for each in report.findings) == marked(source)
    check_rows = {row for row, code in marked(source) if code == "TL602"}
    assert {
        each.severity.value
        for each in report.findings
        if each.start.row in check_rows and ("warn" in program or "error" in program)
    } <= {"info"}


def messages(program: str, code: str, head: str = HEAD) -> list[str]:
    """Return what the findings of one rule say of a program."""
    found = check(head + program, codes=frozenset({code})).findings
    return [f"{each.severity.value}: {each.message}" for each in found]


TWICE = """\
def step(x, log):
    losses = []
    losses.append(model(x).sum())
    log["a"].append({first})
    {between}
    log["b"].append({first})
    loss = sum(losses)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("first", "between", "again"),
    [
        ("float(losses[-1])", "losses.append(model(x).mean())", False),
        ("float(losses[0])", "losses[0] = model(x).mean()", False),
        ("float(log['c'])", "log['c'] = model(x).mean()", False),
        ("float(losses[-1])", "x = x + 1", True),
        ("float(losses[0])", "other = losses[0] * 2", True),
    ],
)
def test_what_a_list_holds_at_a_place_may_be_another(first: str, between: str, again: bool) -> None:
    program = TWICE.format(first=first, between=between)
    program = program.replace("losses = []", "losses = []\n    log['c'] = model(x).mean()")
    found = messages(program, "TL101")
    assert any("has read before" in each for each in found) is again


@pytest.mark.parametrize(
    ("made", "sized"),
    [
        ("torch.full((4, 8), x.max(), device=device)", False),
        ("torch.full(x.shape, x.max(), device=device)", False),
        ("x.new_full((4, 8), x.max())", False),
        ("torch.full((n, 8), 0.0, device=device)", True),
        ("torch.zeros(n, 8, device=device)", True),
        ("x.new_zeros(n, 8)", True),
    ],
)
def test_what_fills_a_tensor_is_no_size(made: str, sized: bool) -> None:
    program = f"""\
class Pad(nn.Module):
    def forward(self, x):
        x = x.to("cuda")
        n = (x > 0).sum()
        return model(x) + {made}
"""
    assert any("sets the size" in each for each in messages(program, "TL101")) is sized


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "Losses are computed on the CPU: results take too much memory\\n    for the GPU.",
            0,
        ),
        ("Keep outputs in host RAM: they do not fit into GPU memory.", 0),
        ("Results go to the CPU to spare the device's memory.", 0),
        ("Return predictions on the CPU.", 1),
        ("Report how much GPU memory the model takes.", 1),
    ],
)
def test_what_a_function_says_of_memory(text: str, said: bool) -> None:
    program = f'''\
def predict(loader):
    """Predict.

    {text}
    """
    model.eval()
    with torch.no_grad():
        outs = []
        for x in loader:
            outs.append(model(x.to(device, non_blocking=True)).cpu())
    return torch.cat(outs)
'''
    assert len(messages(program, "TL113")) == said


@pytest.mark.parametrize(
    ("name", "method", "said"),
    [
        ("ReplayMemory", "push", 0),
        ("PrioritizedReplayBuffer", "add", 0),
        ("ExperiencePool", "store", 0),
        ("ReplayMemory", "evaluate", 1),
        ("Tracker", "push", 1),
    ],
)
def test_a_replay_memory_is_on_the_host(name: str, method: str, said: int) -> None:
    program = f"""\
class {name}:
    def __init__(self):
        self.rows = []

    def {method}(self, state):
        self.rows.append((state * 255).type(torch.uint8).cpu())


kept = {name}()
for x in torch.ones(9, 8).to(device):
    kept.{method}(model(x))
    loss = model(x).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    assert len(messages(program, "TL113")) == said


@pytest.mark.parametrize(
    ("cast", "said"),
    [
        ("bad.sum().double() / bad.shape[0]", 0),
        ("x.mean().double()", 0),
        ("x.abs().max().to(torch.float64)", 0),
        ("x.mean(0).double()", 1),
        ("x.sum(1).double()", 1),
    ],
)
def test_one_number_in_float64_costs_nothing(cast: str, said: int) -> None:
    program = f"""\
class Scale(nn.Module):
    def forward(self, x):
        bad = x > 0
        return {cast}
"""
    assert len(messages(program, "TL402")) == said


@pytest.mark.parametrize(
    ("line", "counted"),
    [
        ("rewards[i, ends[i]] += scores[i]", False),
        ("rewards[i, int(ends[i])] += 1", False),
        ("rewards[int(ends[i]), i] += scores[i]", False),
        ("rewards[int(ends[i])] += 1", True),
        ("rewards[0, int(ends[i])] += scores[i]", True),
    ],
)
def test_what_is_added_once_to_each_row_is_not_counted(line: str, counted: bool) -> None:
    program = f"""\
def step(batch, ends, scores):
    rewards = torch.zeros(len(ends), 8, device=device)
    for i in range(len(ends)):
        {line}
    loss = (model(batch) * rewards).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def fit(loader):
    for x, e, s in loader:
        step(x.to(device), e.to(device), s.to(device))
"""
    found = messages(program, "TL601")
    assert any("counts elements" in each for each in found) is counted


@pytest.mark.parametrize(
    ("lines", "severity"),
    [
        (("if loss > 0.1:", "    loss.backward()", "    optimizer.step()"), "info"),
        (("if loss > 0.1:", "    optimizer.step()"), "info"),
        (("if x.any():", "    pass", "if not x.any():", "    continue", "model(x)"), "info"),
        (("if loss > 9:", "    continue", "loss.backward()"), "info"),
        (("if not loss.isfinite():", "    print(loss)", "    continue", "x.mean()"), "info"),
        (("loss.backward()", "if loss < 0.1:", "    print(loss)", "    break"), "info"),
        (("if loss < 0.1:", "    break", "elif len(x) > 9:", "    break"), "info"),
        (("if loss < 0.1:", "    break", "else:", "    loss.backward()"), "info"),
        (("if loss < 0.1:", "    x = x * 2", "else:", "    x = x * 3"), "warning"),
        (("if loss > 0.1:", "    x = model(x)", "loss.backward()"), "warning"),
        (("if loss > 0.1:", "    loss = loss * 2", "loss.backward()"), "warning"),
        (("loss.backward()", "if loss > 9:", "    continue", "x.mean()"), "warning"),
        (("loss.backward()", "if loss < 0.1:", "    seen.append(x)", "x.mean()"), "warning"),
    ],
)
def test_a_test_that_decides_whether_to_train(lines: tuple[str, ...], severity: str) -> None:
    body = "\n        ".join(lines)
    program = f"""\
def fit(loader):
    for x in loader:
        x = x.to(device)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        {body}
"""
    assert messages(program, "TL602")[-1].partition(":")[0] == severity


@pytest.mark.parametrize(
    ("stop", "severity"),
    [
        ("if (change < 0.1).all(): break", "info"),
        ("if loss < 0.1 or i > 90: break", "info"),
        ("if change.mean() < 0.1:\n            print(i)\n            break", "info"),
        ("if i % 10 == 0 and loss < 0.1: break", "warning"),
        ("if i > 90: break", "warning"),
        ("if change.mean() < 0.1: x = x * 2", "warning"),
    ],
)
def test_the_best_of_a_loop_that_stops_early(stop: str, severity: str) -> None:
    program = f"""\
def attack(x):
    best, adversarial = float("inf"), x.to(device).requires_grad_(True)
    for i in range(500):
        model.zero_grad()
        loss = model(adversarial).square().mean()
        loss.backward()
        change = adversarial.grad.abs().amax(1)
        if loss < best:
            best = loss
        {stop}
    return best
"""
    assert messages(program, "TL602")[0].partition(":")[0] == severity


@pytest.mark.parametrize(
    ("layers", "said"),
    [("pass", "grows with the number"), ("self.a = nn.Linear(8, 8)", "2 launches at most")],
)
def test_a_network_without_parameters_stands_for_others(layers: str, said: str) -> None:
    program = f"""\
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        {layers}


def fit(loader, critic: Critic):
    for x in loader:
        loss = critic(x.to(device)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for p in critic.parameters():
            p.data.clamp_(-1, 1)
"""
    assert [said in each for each in messages(program, "TL510")] == [True]


@pytest.mark.parametrize(
    ("opened", "count"),
    [
        ("h5py.File(self.a) as a, h5py.File(self.b) as b", 1),
        ("h5py.File(self.a) as a, zipfile.ZipFile(self.b) as b", 2),
        ("h5py.File(self.a) as a", 1),
    ],
)
def test_files_that_one_with_opens(opened: str, count: int) -> None:
    program = f"""\
import zipfile

import h5py


class Rows(torch.utils.data.Dataset):
    def __init__(self, a, b):
        self.a, self.b = a, b

    def __getitem__(self, index):
        with {opened}:
            return torch.tensor(a["x"][index])
"""
    assert len(messages(program, "TL205")) == count


@pytest.mark.parametrize(
    ("given", "on_cpu"),
    [("torch.randn(4, 8), x.to(device)", False), ("torch.randn(4, 8), x", True)],
)
def test_what_is_partly_on_the_device_is_not_said_to_run_on_the_cpu(
    given: str, on_cpu: bool
) -> None:
    program = f"""\
def evaluate(net, loader):
    net.eval()
    return [net({given}).mean().item() for x in loader]
"""
    found = messages(program, "TL501")
    assert [("runs on the CPU" in each) for each in found] == [on_cpu]


CHOICES = """\
import os

import torch


def select(device="", apex=False):
    host = device.lower() == "cpu"
    if device and not host:
        os.environ["CUDA_VISIBLE_DEVICES"] = device
        assert torch.cuda.is_available()
    cuda = False if host else torch.cuda.is_available()
    print("CUDA" if cuda else "CPU")
    return torch.device("cuda:0" if cuda else "cpu")


def pick(use_gpu=False):
    if not use_gpu:
        return torch.device("cpu")
    return torch.device("cuda")


def best(no_cuda: bool = False):
    name = "cuda"
    if no_cuda or not torch.cuda.is_available():
        name = "cpu"
    return torch.device(name)


def tried(no_cuda):
    for name in ("cuda", "cpu"):
        if not no_cuda:
            return torch.device(name)
"""
TRAINED = """\
import torch
from torch import nn

{imports}

device = {chosen}
model = nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for x in torch.utils.data.DataLoader(list(torch.ones(9, 8)), num_workers=2):
    loss = model(x.to(device, non_blocking=True)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    total += loss.item()
"""


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("select('cpu')", False),
        ("select(device='CPU')", False),
        ("pick()", False),
        ("pick(use_gpu=False)", False),
        ("best(True)", False),
        ("select('0')", True),
        ("select()", True),
        ("pick(True)", True),
        ("best()", True),
        ("best(no_cuda=input() == 'y')", True),
        ("tried(True)", True),
    ],
)
def test_a_function_that_chooses_the_cpu_for_what_it_is_given(
    chosen: str, said: bool, apart: bool, tmp_path: Path
) -> None:
    imports = "from choices import *" if apart else CHOICES
    files = {"main.py": TRAINED.format(imports=imports, chosen=chosen), "choices.py": CHOICES}
    found = found_in(tmp_path, files, "main.py")
    assert ("TL101" in {code for _, code in found}) is said


def test_two_choices_of_one_function_are_apart(tmp_path: Path) -> None:
    program = TRAINED.format(imports="from choices import *", chosen="pick(True)")
    program = program.replace("model = ", "host = pick(False)\nmodel = ", 1)
    files = {"main.py": program, "choices.py": CHOICES}
    assert "TL101" in {code for _, code in found_in(tmp_path, files, "main.py")}


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("return scatter_mean(emb, index, dim=0, dim_size=int(n))", True),
        ("return torch.bincount(index, minlength=n + 1)", True),
        ("max_seq_size = n\n        return pad_to(emb, max_seq_size)", True),
        ("return scatter_mean(emb, index, dim=n)", False),
        ("return emb * n", False),
    ],
)
def test_a_number_of_elements_that_somebody_takes(use: str, said: bool) -> None:
    program = f"""\
from torch_scatter import scatter_mean
from pads import pad_to


class Pool(nn.Module):
    def forward(self, emb, index: torch.Tensor):
        n = index.long().max().item() + 1
        {use}
"""
    found = messages(program, "TL101")
    assert any("sets the size" in each for each in found) is said


@pytest.mark.parametrize(
    ("lines", "unused"),
    [
        (("out.cpu()",), True),
        (("out.detach().cpu()",), True),
        (("for each in out:", "    each.cpu()"), True),
        (("out = out.cpu()", "kept.append(out)"), False),
        (("kept.append(out.cpu())",), False),
    ],
)
def test_a_copy_that_nothing_uses(lines: tuple[str, ...], unused: bool) -> None:
    body = "\n            ".join(lines)
    program = f"""\
def predict(loader):
    kept = []
    model.eval()
    with torch.no_grad():
        for x in loader:
            out = model(x.to(device, non_blocking=True))
            {body}
    return kept
"""
    assert any("nothing uses the copy" in each for each in messages(program, "TL113")) is unused


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("force_cpu", 0),
        ("force_cpu_scatter", 0),
        ("use_cpu and self.training", 0),
        ("not force_cpu", 1),
        ("per_cpu_core", 1),
        ("deterministic", 1),
    ],
)
def test_what_somebody_has_the_cpu_compute(test: str, said: int) -> None:
    program = f"""\
class Sketch(nn.Module):
    def forward(self, x, force_cpu, force_cpu_scatter, use_cpu, per_cpu_core, deterministic):
        if {test}:
            out = x.cpu().cumsum(0)
            return out.cuda()
        return x.cumsum(0)
"""
    found = check(HEAD + program, codes=frozenset({"TL104", "TL113"})).findings
    assert min(len(found), 1) == said


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        ("Net()", "model", False),
        ("Net()", "model, losses", False),
        ("Net().to(device)", "model", True),
        ("build()", "model", True),
        ("Net()", "losses, model.to(device)", True),
    ],
)
def test_a_network_that_trains_on_the_host_and_is_given_back(
    made: str, given: str, said: bool
) -> None:
    program = f"""\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        return self.a(x)


def build():
    net = Net()
    return net


def train(loader):
    model = {made}
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in loader:
        loss = model(batch[0]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {given}
"""
    assert bool(messages(program, "TL101")) is said


@pytest.mark.parametrize(
    ("base", "name", "said"),
    [
        ("tune.Trainable", "step", 0),
        ("ray.tune.Trainable", "step", 0),
        ("Trainable", "step", 0),
        ("Agent", "step", 1),
        ("tune.Trainable", "train_step", 1),
    ],
)
def test_the_step_of_a_trial_is_an_epoch(base: str, name: str, said: int) -> None:
    program = f"""\
import ray
from agents import Agent
from ray import tune
from ray.tune import Trainable


class Trial({base}):
    def {name}(self, x):
        loss = model(x.to(device)).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {{"loss": loss.item()}}
"""
    assert len(messages(program, "TL101")) == said


@pytest.mark.parametrize(
    ("function", "name", "said"),
    [
        ("inner_update", "optim", 0),
        ("adapt", "optim", 0),
        ("update", "inner_optimizer", 0),
        ("learn", "optimizer", 1),
        ("train_step", "optimizer", 1),
    ],
)
def test_the_optimizer_of_a_task_begins_anew(function: str, name: str, said: int) -> None:
    program = f"""\
def {function}(x):
    loss = model(x.to(device)).sum()
    model.zero_grad()
    loss.backward()
    {name} = torch.optim.Adam(model.parameters(), lr=0.1)
    {name}.step()
    return loss


def fit(loader):
    for x in loader:
        {function}(x)
"""
    found = messages(program, "TL504")
    assert sum("loses its state" in each for each in found) == said


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("if self.add:\n            return sum(x)\n        return torch.cat(x, dim=1)", 0),
        ("total = sum(x)\n        return self.net(total), torch.stack(tensors=x)", 0),
        ("total = sum(x)\n        x = torch.cat(x, 1)\n        return self.net(x) + total", 0),
        ("y = torch.vstack(x)\n        return y + max(x)", 0),
        ("if self.add:\n            return sum(x)\n        return torch.cat([x, x], dim=1)", 1),
        ("if self.add:\n            return sum(x)\n        return torch.relu(x)", 1),
        ("x = self.net(x)\n        return sum(x.flatten()), torch.cat((x,))", 1),
    ],
)
def test_what_a_function_joins_is_a_list(body: str, said: int) -> None:
    program = f"""\
class Merge(nn.Module):
    def __init__(self, add):
        super().__init__()
        self.add, self.net = add, nn.Linear(8, 8)

    def forward(self, x):
        {body}
"""
    assert len(messages(program, "TL605")) == said
