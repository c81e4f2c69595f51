"""Kinds of findings that readers of new code called wrong, each with near misses of which they are
true."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check
from tests.semantic.test_unused import project_of
from torchlint.base.finding import Finding
from torchlint.catalog.rules import load_catalog
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job
from torchlint.testing.source import job

DEFAULT = frozenset(info.code for info in load_catalog().rules if info.default)


def found(source: str, code: str) -> list[Finding]:
    """Return the findings of one rule in a file that stands alone."""
    return [each for each in check(source, codes=DEFAULT).findings if each.code == code]


def found_among(root: Path, files: dict[str, str], name: str, code: str) -> list[Finding]:
    """Return the findings of one rule in a file of a project."""
    project_of(root, files)
    forget()
    asked = job(files[name], name=name, codes=DEFAULT, root=str(root.resolve()))
    return [each for each in analyse_job(asked).findings if each.code == code]


EMBEDDING = """\
import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(9, size))
        self.local = {made}

    def forward(self, x):
        {filled}
        return self.local.to(torch.bfloat16)(x)


model = Embedding(8).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in torch.utils.data.DataLoader(list(torch.ones(9, 8)), num_workers=2):
    loss = model(x.cuda()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("made", "filled", "told"),
    [
        ("nn.Buffer(torch.zeros(9, size))", "self.local.copy_(self.weights[x])", False),
        ("torch.nn.parameter.Buffer(torch.zeros(9, size))", "self.local.add_(1)", False),
        ("nn.Linear(8, 8)", "self.local.weight.data.copy_(self.weights[x])", False),
        ("nn.Linear(8, 8)", "self.local.weight = nn.Parameter(self.weights[x])", False),
        ("nn.Linear(8, 8)", "self.local.weight.data = self.weights[x]", False),
        ("nn.Linear(8, 8)", "self.weights.data.copy_(self.local.weight)", True),
        ("nn.Linear(8, 8)", "self.locals = x", True),
        ("nn.Linear(8, 8)", "self.local.weight.data.clamp_(0, 1)", True),
    ],
)
def test_what_each_forward_refills_is_not_hoisted(made: str, filled: str, told: bool) -> None:
    source = EMBEDDING.format(made=made, filled=filled)
    assert bool(found(source, "TL504")) is told


HEADS = """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, anchors: torch.Tensor, classes: int):
        super().__init__()
        self.anchors: torch.Tensor = anchors
        self.classes: int = classes
        {more}

    def forward(self, x):
        return torch.sigmoid(x) * self.anchors.to(x.device)


class Net(nn.Module):
    def __init__(self, anchors, names):
        super().__init__()
        self.anchors = {anchors}
        self.head = nn.DataParallel({wrapped})
"""


@pytest.mark.parametrize(
    ("anchors", "wrapped", "more", "told"),
    [
        ("torch.from_numpy(anchors)", "Head(self.anchors, len(names))", "", False),
        ("torch.ones(3)", "Head(self.anchors, 3)", "self.act = nn.ReLU()", False),
        ("torch.ones(3)", "Head(self.anchors, 3)", "self.b = nn.Buffer(torch.ones(3))", False),
        ("None", "nn.Softmax(dim=1)", "", False),
        ("anchors", "Head(self.anchors, 3)", "", True),
        ("nn.Parameter(torch.ones(2))", "Head(self.anchors, 3)", "", True),
        ("torch.ones(3)", "Head(self.anchors, 3)", "self.act = nn.PReLU()", True),
        ("torch.ones(3, requires_grad=True)", "Head(self.anchors, 3)", "", True),
        (
            "torch.ones(3)",
            "Head(self.anchors, 3)",
            "self.scale = nn.Parameter(torch.ones(1), requires_grad=False)",
            True,
        ),
    ],
)
def test_a_network_without_parameters_is_not_replicated(
    anchors: str, wrapped: str, more: str, told: bool
) -> None:
    source = HEADS.format(anchors=anchors, wrapped=wrapped, more=more or "pass")
    assert bool(found(source, "TL301")) is told


EPOCH = """\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.model = nn.Linear(8, 8).cuda()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train_step(self, x):
        loss = self.model(x.cuda()).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {{"loss": loss.item(), "size": len(x)}}

    def train_epoch(self, loader):
        keys = ["loss", "size"]
        kept = {{k: [] for k in keys}}
        for x in loader:
            m = self.train_step(x)
            {asks}
        return {{k: sum(v) / len(v) for k, v in kept.items()}}
"""
LOOPED = """for k in {keys}:
                if k {op} m:
                    kept[k].append({value})"""


@pytest.mark.parametrize(
    ("asks", "used"),
    [
        (LOOPED.format(keys="keys", op="in", value="m[k]"), None),
        (LOOPED.format(keys='("loss", "other")', op="in", value="m[k]"), None),
        (LOOPED.format(keys="keys", op="not in", value="0"), None),
        ("if m['loss'] > 9:\n                print('high')", "m['loss'] > 9"),
        ("if m['loss'] in (0, 1):\n                print('high')", "m['loss'] in (0, 1)"),
        (
            "name = str(m['loss'])\n            if name in kept:\n                print('high')",
            "name in kept",
        ),
    ],
)
def test_a_key_of_a_mapping_is_no_use_of_what_it_holds(asks: str, used: str | None) -> None:
    (finding,) = found(EPOCH.format(asks=asks), "TL101")
    assert ("because" in finding.message) is (used is not None)
    assert used is None or f"`{used}` uses it right away" in finding.message


CONV = """\
import torch
from torch import nn


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, x):
        return self.blocks(x)


def restore(model, path):
    model.load_state_dict(torch.load(path))
"""
OTHER = """\
import torch
from torch import nn


class Generator({base}):
    def __init__(
        self,
        size,
    ):
        super().__init__()
        self.layers = nn.Sequential({layers})

    def forward(self, x):
        return self.layers(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential({others})
"""
CONVS = "nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)"


@pytest.mark.parametrize(
    ("layers", "others", "told"),
    [
        ("nn.Linear(8, 8), nn.Tanh()", "nn.Linear(8, 1)", False),
        ("nn.Linear(8, 8), nn.Tanh()", CONVS, False),
        ("nn.Conv2d(3, 8, 3), nn.Tanh()", "nn.Conv2d(3, 8, 3)", False),
        (CONVS, "nn.Linear(8, 1)", True),
        ("conv3x3(3, 8), nn.BatchNorm2d(8)", "nn.Linear(8, 1)", True),
    ],
)
def test_another_class_is_a_copy_where_it_has_such_a_layer(
    layers: str, others: str, told: bool, tmp_path: Path
) -> None:
    other = OTHER.format(base="nn.Module", layers=layers, others=others)
    files = {"conv.py": CONV, "other.py": other}
    (finding,) = found_among(tmp_path, files, "conv.py", "TL409")
    assert finding.message.endswith("change both.") is told


LOSS = """\
import torch
from torch import nn

net = nn.Linear(4, 4).cuda()


class Distance(nn.Module):
    def forward(self, x):
        return (x - torch.zeros(4).cuda()).square().mean()


def fit(loader):
    distance = Distance()
    for x in loader:
        distance(net(x.cuda(non_blocking=True))).backward()


{used}


if __name__ == "__main__":
    {run}
"""


@pytest.mark.parametrize(
    ("used", "run", "told"),
    [
        ("", "print(torch.load('x'))", "`Distance`"),
        ("def outer(loader):\n    fit(loader)", "print(torch.load('x'))", "`Distance`"),
        ("KEPT = 1  # fit(loader)", "print(torch.load('x'))", "`Distance`"),
        ("", "fit(torch.load('x'))", None),
        ("def outer(loader):\n    fit(loader)", "outer(torch.load('x'))", None),
    ],
)
def test_what_unused_code_alone_uses(used: str, run: str, told: str | None, tmp_path: Path) -> None:
    files = {"train.py": LOSS.format(used=used, run=run)}
    (finding,) = found_among(tmp_path, files, "train.py", "TL102")
    said = f"Nothing that runs in this program uses {told}."
    assert finding.message.endswith(said) is (told is not None)


DECODER = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 8)

    def forward(self, x):
        given = []
        for _ in range(20):
            x, attention = self.step(x)
            given.append(attention)
        return x, given

    def step(self, x):
        x = self.cell(x)
        return x, self.out(x)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 8)
        self.decoder = Decoder()

    def forward(self, x):
        return self.decoder(self.encoder(x))


if __name__ == "__main__":
    {run}
    print(out.shape, [each.detach().cpu().numpy() for each in given])
"""
TRIES = "model, x = Both().to(device), torch.ones((4, 8)).to(device)\n    out, given = "
LOADS = "model, x = Both().to(device), torch.load('x').to(device)\n    out, given = "
OWN = "out, given = Decoder().to(device).forward(torch.randn(4, 8, device=device))"
EACH = """\
model = Both().to(device)
    for x in torch.load('x'):
        out, given = model.forward(x.to(device))"""


@pytest.mark.parametrize(
    ("run", "told"),
    [
        (f"{TRIES}model.forward(x)", False),
        (TRIES.replace("Both", "Decoder") + "model.forward(x)", False),
        (
            "model = Decoder().cuda()\n    out, given = model.forward(torch.zeros(4, 8).cuda())",
            False,
        ),
        (OWN, False),
        (f"{LOADS}model.forward(x)", True),
        (EACH, True),
    ],
)
def test_a_forward_that_its_own_file_alone_tries_may_be_trained(run: str, told: bool) -> None:
    assert bool(found(DECODER.format(run=run), "TL501")) is told
