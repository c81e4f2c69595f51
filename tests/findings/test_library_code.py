"""What was said wrongly of library code: each kind in three programs, with near misses of which it
is true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from tests.semantic.test_broken import project_of
from tests.test_misread_programs import HEAD, found_in, marked
from torchlint.base.finding import Severity

PROGRAMS = {
    "the last number of a list ends the decoding": """\
@torch.no_grad()
def decode(x, threshold):
    scores, parts = [], []
    for _ in range(100):
        x = model(x)
        parts.append(x)
        scores.append(float(x[0].mean()))
        if scores[-1] < threshold:
            break
        x = torch.cat([x, x], 1)[:, :8]
    return parts, scores
""",
    "a solver that keeps its residuals": """\
@torch.no_grad()
def solve(x, tolerance):
    residuals = []
    for _ in range(1000):
        after = model(x)
        residuals.append((after - x).norm().item())
        x = after
        if residuals[-1] <= tolerance:
            return x, residuals
    return x, residuals
""",
    "a while loop that asks the last one": """\
@torch.no_grad()
def relax(x, tolerance):
    errors = [1.0]
    while errors[-1] > tolerance:
        after = model(x)
        errors.append((after - x).abs().max().item())
        x = after
    return x, errors
""",
    "a list of which another element is asked": """\
@torch.no_grad()
def decode(x, threshold):
    scores = [1.0]
    for _ in range(100):
        x = model(x)
        scores.append(float(x[0].mean()))  # TL101
        if scores[0] < threshold:
            break
    return x, scores
""",
    "the last number of a list is only printed at the end": """\
def train(loader):
    losses = []
    for x in loader:
        loss = model(x.to(device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())  # TL101
    print(losses[-1])
    return losses
""",
    "a size asked of what is computed with the number": """\
class Sigmas(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("sigmas", torch.linspace(0, 1, 1000))
        self.register_buffer("steps", torch.arange(1000))

    def forward(self, timesteps, n_dim):
        found = [(self.steps == t).nonzero().item() for t in timesteps.to(device)]  # TL101 TL601
        sigma = self.sigmas[found].flatten()  # TL102
        while sigma.dim() < n_dim:
            sigma = sigma.unsqueeze(-1)
        return sigma
""",
    "parts of a batch size, which spare memory": """\
class Similarity(nn.Module):
    def forward(self, a, b, size: int):
        count = a.size(0)
        parts = (count - 1) // size + 1
        rows = torch.arange(count, device=a.device)
        losses = []
        for i in range(parts):
            here = rows[i * size : (i + 1) * size]
            losses.append(torch.exp(a[here] @ b.T).sum(1).log())
        return torch.cat(losses).mean()
""",
    "parts whose number is rounded up": """\
class Distances(nn.Module):
    def forward(self, x, chunk: int):
        out = []
        for i in range((x.shape[0] + chunk - 1) // chunk):
            out.append((x[i * chunk : (i + 1) * chunk] @ x.T).amin(1))
        return torch.cat(out)
""",
    "parts counted by a name": """\
class Scores(nn.Module):
    def forward(self, x, chunk: int):
        length = x.size(0)
        count = (length - 1) // chunk + 1
        out = []
        for i in range(count):
            out.append((x[chunk * i : chunk * (i + 1)] @ x.T).softmax(-1).amax(1))
        return torch.cat(out)
""",
    "rows of a batch": """\
class Rows(nn.Module):
    def forward(self, x):
        out = []
        for i in range(x.shape[0]):  # TL601
            out.append((x[i] * x[i]).sum().sqrt())
        return torch.stack(out)
""",
    "a comment above the loop says that memory is short": """\
class Posterior(nn.Module):
    def forward(self, psd, cov):
        out = torch.zeros_like(psd[..., 0])
        # one source after the other, which saves a lot of memory
        for j in range(psd.shape[-1]):
            out = out + psd[..., j] * cov[j]
        return out
""",
    "a comment in an outer loop says so": """\
class Posterior(nn.Module):
    def forward(self, psd, cov, iterations: int):
        out = torch.zeros_like(psd[..., 0])
        for _ in range(iterations):
            # in a loop, to avoid storing anytime in RAM the whole 6D tensor
            out = out * 0.5

            for j in range(psd.shape[-1]):
                out = out + psd[..., j] * cov[j]
        return out
""",
    "a comment as the first line of the loop": """\
class Posterior(nn.Module):
    def forward(self, psd, cov):
        out = torch.zeros_like(psd[..., 0])
        for j in range(psd.shape[-1]):
            # low memory
            out = out + psd[..., j] * cov[j]
        return out
""",
    "a memory that is a part of the network": """\
class Posterior(nn.Module):
    def forward(self, psd, cov):
        out = torch.zeros_like(psd[..., 0])
        # read the memory of each source
        for j in range(psd.shape[-1]):  # TL601
            out = out + psd[..., j] * cov[j]
        return out
""",
    "behind a try that returns": """\
import gc


def train(loader):
    for x in loader:
        loss = step(x.to(device, non_blocking=True))
    return loss


def step(x):
    try:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss
    except RuntimeError as error:
        print(error)
    gc.collect()
    return torch.zeros(())
""",
    "behind a try that goes on": """\
def train(loader):
    total = 0.0
    for x in loader:
        try:
            loss = model(x.to(device, non_blocking=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            continue
        except ValueError:
            x = x[:1].to(device, non_blocking=True)
        total += model(x).mean().item()
    return total
""",
    "a helper that is called behind such a try": """\
def train(loader):
    for x in loader:
        step(x.to(device, non_blocking=True))


def step(x):
    try:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return
    except RuntimeError as error:
        print(error)
    settle()


def settle():
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
""",
    "behind a try that comes to its end": """\
import gc


def train(loader):
    for x in loader:
        try:
            loss = model(x.to(device, non_blocking=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except ValueError as error:
            print(error)
        gc.collect()  # TL702
""",
    "a report of gradients that are dropped": """\
def census(x):
    model.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    norms = {}
    for name, p in model.named_parameters():
        norms[name] = 0.0 if p.grad is None else float(p.grad.norm())
    model.zero_grad(set_to_none=True)
    return {"loss": float(loss), "norms": norms}
""",
    "dead parameters": """\
def dead(x):
    model(x).sum().backward()
    found = [n for n, p in model.named_parameters() if p.grad.abs().sum() == 0]
    optimizer.zero_grad()
    return found
""",
    "one loss, and whether it has a gradient at all": """\
def probe(x):
    loss = model(x).square().mean()
    loss.backward()
    print(loss.item())
    reached = all(p.grad is not None for p in model.parameters())
    model.zero_grad()
    return reached
""",
    "a step that empties them behind the optimizer": """\
def advance(x):
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()  # TL101
""",
    "gradients that somebody keeps": """\
def gradients(x):
    loss = model(x).square().mean()
    loss.backward()
    kept = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    return kept, loss.item()  # TL101
""",
    "a step that waits for the scale": """\
def advance(x, scaler):
    loss = model(x).square().mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    model.zero_grad()
    return loss.item()  # TL101
""",
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_it_is_said_where_it_is_right(name: str, tmp_path: Path) -> None:
    text = HEAD + PROGRAMS[name]
    assert found_in(tmp_path, {"main.py": text}, "main.py") == marked(text)


NORMS = """\
def step(x):
    optimizer.zero_grad()
    model(x).square().mean().backward()
    total = 0.0
    for p in model.parameters():
        {added}
    optimizer.step()
    return total
"""


@pytest.mark.parametrize(
    ("added", "same"),
    [
        ("total += p.grad.norm(2).item()", False),
        ("total += float(p.grad.data.norm())", False),
        ("total += torch.norm(p.grad).item()", False),
        ("total += p.grad.norm(2).item() ** 2", True),
        ("total += p.grad.square().sum().item()", True),
    ],
)
def test_what_gives_the_sum_of_norms(added: str, same: bool) -> None:
    """The norm of all gradients is another number than the sum of their norms."""
    text = HEAD + NORMS.format(added=added)
    (found,) = check(text, codes=frozenset({"TL505"})).findings
    assert ("clip_grad_norm_" in found.message) is same


CONTAINER = """\
import torch


class {name}:
    def __init__(self, **tensors):
        self.tensors = tensors

    def dict(self):
        return self.tensors

    def {method}:
        return {name}(**{{k: v.{call} for k, v in self.tensors.items()}})
"""
LOOP = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

from inputs import {name}

device = torch.device("cuda")
model = nn.Linear(8, 8).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(data):
    loader = DataLoader(data, num_workers=4, pin_memory=True)
    for inputs, targets in loader:
        inputs = inputs.{call}
        targets = targets.{call}
        loss = (model({given}) - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("method", "call", "given", "said"),
    [
        ("cuda(self)", "cuda()", "**inputs.dict()", False),
        ("to(self, device)", "to(device)", "inputs.dict()['x']", False),
        ("cuda(self, inplace: bool = False)", "cuda()", "**inputs.dict()", False),
        ("cuda(self)", "cuda()", "inputs.view(-1, 8)", True),
        ("cuda(self, non_blocking=False)", "cuda()", "**inputs.dict()", True),
    ],
)
def test_containers_that_move_themselves(
    method: str, call: str, given: str, said: bool, tmp_path: Path
) -> None:
    """A batch with a method of a class of the project, which takes no ``non_blocking``."""
    files = {
        "inputs.py": CONTAINER.format(name="Inputs", method=method, call=call),
        "main.py": LOOP.format(name="Inputs", call=call, given=given),
    }
    assert ("TL103" in {code for _, code in found_in(tmp_path, files, "main.py")}) is said


NET = """\
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn


{record}
    logits: torch.Tensor


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x):
        return Out(self.linear(x + torch.zeros(3, device=x.device)))
"""
PLACE = """\
def prepare(net):
    net.cuda()
"""
USE = """\
import torch
import torch.nn.functional as F

from net import Net
from place import prepare


def fit(rows):
    net = Net()
    prepare(net)

    @torch.no_grad()
    def evaluate(count, chunk=8):
        total = 0.0
        for _ in range(0, count, chunk):
            given = []
            for _ in range(chunk):
                given.append(rows[0])
            out = net({given})
            total += F.cross_entropy(out.logits, torch.tensor([1]{there})).item()
        return total

    return evaluate(96)
"""


@pytest.mark.parametrize(
    ("record", "given", "there", "said"),
    [
        ("@dataclass\nclass Out:", "torch.tensor(given)", "", False),
        ("@dataclass\nclass Out:", "torch.as_tensor(given)", "", False),
        ("class Out(NamedTuple):", "torch.tensor([given])", "", False),
        ("@dataclass\nclass Out:", "torch.tensor(given, device='cuda')", ", device='cuda'", True),
        ("class Out(NamedTuple):", "torch.tensor(given).cuda()", ", device='cuda'", True),
    ],
)
def test_a_record_of_what_a_network_computes_on_the_host(
    record: str, given: str, there: str, said: bool, tmp_path: Path
) -> None:
    """A network that is given tensors of the host lies there, and so do the fields of its
    record."""
    use = USE.format(given=given, there=there)
    files = {"net.py": NET.format(record=record), "place.py": PLACE, "use.py": use}
    assert ("TL101" in {code for _, code in found_in(tmp_path, files, "use.py")}) is said


SHOWN = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)

    def forward(self, x):
        return self.linear(x)


{guard}
    net = Net().cuda()
    optimizer = torch.optim.Adam(net.parameters())
    total = 0.0
    for step in range(1000):
        loss = net(torch.ones(4, 3, device="cuda")).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(total)
"""
GUARD = 'if __name__ == "__main__":'
WHEEL = {"pkg-1.0.dist-info/METADATA": "Name: pkg\n", "pkg-1.0.dist-info/RECORD": "pkg/net.py,,\n"}


@pytest.mark.parametrize(
    ("guard", "user", "said"),
    [
        (GUARD, {"pkg/__init__.py": "from .net import Net\n"}, False),
        (GUARD, {"pkg/__init__.py": "", "pkg/big.py": "from pkg.net import Net\n"}, False),
        (GUARD, {"pkg/__init__.py": "from . import net\n"}, False),
        (GUARD, {"pkg/__init__.py": "", "pkg/big.py": "# like net\nimport torch\n"}, True),
        ("def fit():", {"pkg/__init__.py": "from .net import Net, fit\n"}, True),
    ],
)
def test_what_a_module_of_a_package_shows_when_it_is_run(
    guard: str, user: dict[str, str], said: bool, tmp_path: Path
) -> None:
    """Users of a package run no guards of the files that others of it import."""
    files = {"pkg/net.py": SHOWN.format(guard=guard), **user, **WHEEL}
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg-1.0.dist-info").mkdir()
    assert ("TL101" in {code for _, code in found_in(tmp_path, files, "pkg/net.py")}) is said


LIGHTNING = """\
import pytorch_lightning as pl
import torch
from torch import nn


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 1)
        self.losses = []

    def training_step(self, batch, index):
        loss = self.linear(batch).mean()
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


if __name__ == "__main__":
    pl.Trainer({given}).fit(Net())
"""


@pytest.mark.parametrize(
    ("given", "needed", "said"),
    [
        ("max_epochs=3", "pytorch-lightning==1.5.0", False),
        ("", "torch\npytorch_lightning>=1.4,<2", False),
        ("logger=False, max_steps=9", "pytorch-lightning~=1.6.0", False),
        ("max_epochs=3", "pytorch-lightning>=1.5.0", True),
        ("max_epochs=3, gpus=1", "pytorch-lightning==1.5.0", True),
        ("max_epochs=3, accelerator='auto'", "pytorch-lightning==1.9.0", True),
        ("**options", "pytorch-lightning==1.5.0", True),
    ],
)
def test_a_trainer_of_lightning_1(given: str, needed: str, said: bool, tmp_path: Path) -> None:
    """Before version 2 a Trainer that is told of no device trains on the CPU."""
    files = {"main.py": LIGHTNING.format(given=given), "requirements.txt": f"{needed}\n"}
    assert ("TL901" in {code for _, code in found_in(tmp_path, files, "main.py")}) is said


WORKER = """\
import ray
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


{made}
{kind}
        net = nn.Linear(3, 1).to(device)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        total = 0.0
        for x in loader:
            loss = net(x.to(device, non_blocking=True)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total
"""
ACTOR = "class Worker:\n    def fit(self, loader):"
TASK = "def fit(loader):\n    with torch.random.fork_rng():"


@pytest.mark.parametrize(
    ("made", "kind", "other", "said"),
    [
        ("@ray.remote", ACTOR, "", False),
        ("@ray.remote(num_cpus=2)", ACTOR, "", False),
        ("@ray.remote", TASK, "", False),
        ("@ray.remote(num_gpus=1)", ACTOR, "", True),
        ("@ray.remote", ACTOR, "Worker.options(num_gpus=0.5).remote()\n", True),
        ("@torch.enable_grad()", TASK, "", True),
    ],
)
def test_a_worker_of_ray(made: str, kind: str, other: str, said: bool, tmp_path: Path) -> None:
    """Ray hides the GPUs from what asks for none."""
    files = {"work.py": WORKER.format(made=made, kind=kind), "main.py": f"import work\n{other}"}
    assert ("TL101" in {code for _, code in found_in(tmp_path, files, "work.py")}) is said


SETTINGS = "STATS = {constant}\n"
BASE = """\
from torch import nn

import settings


class Base(nn.Module):
    def __init__(self, stats={default}):
        super().__init__()
        self.stats = {kept}
"""
LOSS = """\
import torch

from base import Base


class Loss(Base):
    def forward(self, x):
        if self.stats:
            self.norm = x.norm(dim=1).mean().item()
        return x.square().mean()
"""
EITHER = "settings.STATS if stats is None else stats"


@pytest.mark.parametrize(
    ("constant", "default", "kept", "other", "said"),
    [
        ("False", "None", EITHER, "", False),
        ("True", "False", "stats", "", False),
        ("True", "None", "stats", "", False),
        ("True", "None", EITHER, "", True),
        ("False", "None", EITHER, "loss = Loss(stats=True)\n", True),
        ("False", "None", EITHER, "settings.STATS = True\n", True),
        ("False", "True", "stats", "", True),
    ],
)
def test_an_option_of_a_base_in_another_file(
    constant: str, default: str, kept: str, other: str, said: bool, tmp_path: Path
) -> None:
    """What a constructor keeps is off by default, and so is what stands behind it."""
    files = {
        "settings.py": SETTINGS.format(constant=constant),
        "base.py": BASE.format(default=default, kept=kept),
        "main.py": f"import settings\nfrom loss import Loss\n{other}",
        "loss.py": LOSS,
    }
    project_of(tmp_path, files)
    found = check(LOSS, codes=frozenset({"TL101"}), name="loss.py", root=str(tmp_path)).findings
    assert [each.severity for each in found] == [Severity.WARNING if said else Severity.INFO]


SPIKES = (
    HEAD
    + """\
def train(loader):
    for data, targets in loader:
        data = data.to(device, non_blocking=True)
        targets = targets.to(device, non_blocking=True)
        {reset}
        for step in range(data.size(0)):
            spikes = model(data[step].unsqueeze(0))
            loss = (spikes - targets).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
)


@pytest.mark.parametrize(
    ("reset", "said"),
    [
        ("utils.reset(model)", False),
        ("model.reset_states()", False),
        ("model.init_hidden(8)", False),
        ("model.reset_parameters()", True),
        ("meter.reset()", True),
    ],
)
def test_a_network_with_a_state_takes_one_item_after_the_other(reset: str, said: bool) -> None:
    found = check(SPIKES.format(reset=reset), codes=frozenset({"TL609"})).findings
    assert bool(found) is said


ROWS = """\
import torch
from torch.utils.data import DataLoader, Dataset

from tree import tuplefy


class Pairs(Dataset):
    def __init__(self, *data):
        self.data = tuplefy(*data)

    def __getitem__(self, index):
        return self.data.iloc[index]

    def __len__(self):
        return 9


loader = DataLoader(Pairs(torch.ones(9, 3)), num_workers=2)
"""


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ("class Tree(tuple):\n    @property\n    def iloc(self):\n        return self\n", False),
        ("class Tree:\n    def iloc(self):\n        return self\n", False),
        ("class Tree:\n    iloc = None\n\n    def iloc(self, at):\n        return at\n", False),
        ("class Tree(tuple):\n    @property\n    def rows(self):\n        return self\n", True),
    ],
)
def test_rows_of_a_class_of_the_project(tree: str, said: bool, tmp_path: Path) -> None:
    files = {"tree.py": f"{tree}\n\ndef tuplefy(*data):\n    return Tree(data)\n", "main.py": ROWS}
    assert ("TL205" in {code for _, code in found_in(tmp_path, files, "main.py")}) is said


MINED = """\
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 8).to(device)
models = nn.ModuleList([model])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


class Trainer:
    def __init__(self, batches):
        self.batches = batches

    def mine(self, embeddings, labels):
        labels = labels.to({place})
        return (embeddings[0] * labels).sum()

    def train(self):
        for batch in self.batches:
            x, labels = self.taken(batch)
            loss = self.mine(self.embed(x), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("embeddings[0].device", False),
        ("embeddings[-1].device", False),
        ("embeddings['anchor'].device", False),
        ("device", True),
        ("models[0].device", True),
    ],
)
def test_a_move_to_where_a_part_of_something_is(place: str, said: bool) -> None:
    found = check(MINED.format(place=place), codes=frozenset({"TL103"})).findings
    assert bool(found) is said


COUNTED = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x, index):
        {line}
        return self.convs(x, index, {name})


def train(net, loader, optimizer):
    net = net.cuda()
    for x, index in loader:
        net(x.cuda(), index.cuda()).mean().backward()
        optimizer.step()


train(Net(), batches, steps)
"""


@pytest.mark.parametrize(
    ("line", "name", "size"),
    [
        ("num_edges = int(index[1].max().item()) + 1", "num_edges", True),
        ("num_nodes = int(index[0].max().item()) + 1 if len(index) else 0", "num_nodes", True),
        ("batch_size = int(index[1].max().item()) + 1", "batch_size", True),
        ("n_graphs = index[1].max().item() + 1", "n_graphs", True),
        ("num_right = int((x == index).sum().item())", "num_right", False),
        ("loss_edges = index[1].max().item()", "loss_edges", False),
    ],
)
def test_how_many_parts_a_graph_has_is_a_size(line: str, name: str, size: bool) -> None:
    source = COUNTED.format(line=line, name=name)
    (found,) = check(source, codes=frozenset({"TL101"})).findings
    assert ("because it sets the size" in found.message) is size


CARDS = """\
import torch
from pydantic import BaseModel


class Card(BaseModel):
    name: str


def read(text):
    return {call}(text.strip())


def main(net, loader, texts):
    net.cuda().eval()
    for x, text in zip(loader, texts):
        print(read(text))
"""


@pytest.mark.parametrize(
    ("call", "count"),
    [
        ("Card.model_validate_json", 0),
        ("Card.model_validate", 0),
        ("Card.model_construct", 0),
        ("Card.model_b", 1),
    ],
)
def test_what_pydantic_asks_of_its_models_runs_none(call: str, count: int) -> None:
    found = check(CARDS.format(call=call), codes=frozenset({"TL501"})).findings
    assert len(found) == count
