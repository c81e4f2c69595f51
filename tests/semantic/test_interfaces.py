"""What is known across the borders of files where people meet by an interface: factories, a
network that is called, a base class, the results of functions."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from tests.semantic.test_project import analysed, probe, probed
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of
from torchlint.semantic.uses.graph_use import GraphOutcome, graph_fate
from torchlint.semantic.values.inferred import inferred

NET = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def encode(self, x):
        return self.layer(x)


class Other(nn.Module):
    def forward(self, x):
        return x
"""
TRAIN = """
from {module} import build
from steps import run


def main(loader, device, wide):
    model = build(wide)
    for x in loader:
        loss = run(model, x.to(device))
        loss.backward()
"""
STEPS = """
def run(model, x):
    probe(model)
    return model.encode(x).sum()
"""


@pytest.mark.parametrize(
    ("module", "build", "known"),
    [
        ("net", "def build(wide):\n    return Net()\n", True),
        ("net", "def build(wide):\n    made = Net()\n    return made.cuda().eval()\n", True),
        ("make", "from net import Net\n\ndef build(wide):\n    return inner()\n", True),
        ("net", "def build(wide):\n    return Net() if wide else Other()\n", False),
        (
            "net",
            "def build(wide):\n    if wide:\n        return Other()\n    return Net()\n",
            False,
        ),
        (
            "net",
            "def build(wide):\n    made = Net()\n    if wide:\n        made = Other()\n"
            "    return made\n",
            False,
        ),
        ("net", "async def build(wide):\n    return Net()\n", False),
        ("net", "def build(wide):\n    def inner():\n        return Net()\n    return 1\n", False),
        ("net", "def build(wide):\n    made = yield\n    return made\n", False),
    ],
)
def test_a_factory_in_a_third_file(module: str, build: str, known: bool, tmp_path: Path) -> None:
    inner = "\n\ndef inner():\n    return Net().to('cuda')\n" if module == "make" else ""
    files = {
        "net.py": NET + ("\n\n" + build if module == "net" else ""),
        "make.py": build + inner,
        "train.py": TRAIN.format(module=module),
        "steps.py": STEPS,
    }
    value = probed(tmp_path, files, "steps.py")
    assert value.kind == "module"
    assert ((value.name or "").endswith(":Net")) is known


FORWARD = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = device
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        probe(x)
        return self.layer({moved})
"""
LOOP = """
import torch
from torch.utils.data import DataLoader
from net import Net


def main(data):
    device = torch.device("cuda")
    net = Net(device).to(device)
    for batch in DataLoader(data, batch_size=4):
        loss = {call}.sum()
        loss.backward()


if __name__ == "__main__":
    main([])
"""


@pytest.mark.parametrize(
    ("moved", "call", "origin"),
    [
        ("x.to(self.device)", "net(batch)", "batch"),
        ("x.cuda()", "net(x=batch)", "batch"),
        ("x['a'].to(self.device)", "net(batch)", "batch"),
        ("x.to(self.device)", "net(torch.randn(4, 8, device=device))", "factory"),
        ("x.to(self.device)", "(net(batch) + net(torch.randn(4, 8)))", None),
        ("x.to(self.device)", "(net(batch) + net(unknown()))", None),
        ("x", "net(batch)", "forward"),
    ],
)
def test_what_forward_is_given(moved: str, call: str, origin: str | None, tmp_path: Path) -> None:
    if "cuda" in moved:
        moved = "x.to('cuda')"
    files = {"net.py": FORWARD.format(moved=moved), "train.py": LOOP.format(call=call)}
    assert probed(tmp_path, files, "net.py").origin == origin


BASE = """
from abc import ABC, abstractmethod


class Decoder(ABC):
    {decorator}
    def decode_all(self, x):
        {body}
"""
DERIVED = """
from base import Decoder


class Beam({bases}):
    def decode_all(self, x):
        probe(x)
"""
USER = """
from torch.utils.data import DataLoader
from base import Decoder


def evaluate(model, loader: DataLoader, decoder: Decoder):
    for x in loader:
        model(x).sum().backward()
        decoder.decode_all(x)
"""


@pytest.mark.parametrize(
    ("decorator", "body", "bases", "hot"),
    [
        ("@abstractmethod", "pass", "Decoder", True),
        ("# By hand.", "raise NotImplementedError", "Decoder", True),
        ("# Words.", '"""Decode."""', "Decoder", True),
        ("# It does something.", "return x", "Decoder", False),
        ("# It fails.", "raise ValueError(x)", "Decoder", False),
    ],
)
def test_the_method_of_a_base_class_that_does_nothing(
    decorator: str, body: str, bases: str, hot: bool, tmp_path: Path
) -> None:
    files = {
        "base.py": BASE.format(decorator=decorator, body=body),
        "beam.py": DERIVED.format(bases=bases),
        "train.py": USER + "\n\nfrom beam import Beam\n",
    }
    module = analysed(tmp_path, files, "beam.py")
    assert (heat_of(module, probe(module)).grade >= Grade.FORWARD) is hot


@pytest.mark.parametrize(
    ("kept", "kind"),
    [
        ("self.part = part(width)", "?"),
        ("self.part = part(width, width)", "?"),
        ("self.part = part", "module"),
        ("self.out = self.part = part", "module"),
    ],
)
def test_a_parameter_that_makes_a_part(kept: str, kind: str, tmp_path: Path) -> None:
    text = f"""
    from torch import nn


    class Net(nn.Module):
        def __init__(self, part: nn.Module, width: int):
            super().__init__()
            probe(part)
            {kept}
    """
    assert probed(tmp_path, {"net.py": text}, "net.py").kind == kind


HELPER = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return self.layer(x)


def predict(net: Net, x):
    out = net(x)
    return out, out.argmax(1).tolist()
"""
CALLER = """
from helper import Net, predict


def main(loader):
    net = Net()
    for x in loader:
        out, found = predict(net, x)
        {use}
"""


@pytest.mark.parametrize(
    ("use", "fate"),
    [
        ("total = len(found)", GraphOutcome.DROPPED),
        ("print(out.argmax(1).tolist())", GraphOutcome.DROPPED),
        ("total = out.detach()", GraphOutcome.DROPPED),
        ("out.sum().backward()", GraphOutcome.WANTED),
        ("hook(predict)", GraphOutcome.UNKNOWN),
        ("keep(out)", GraphOutcome.UNKNOWN),
    ],
)
def test_the_graph_of_what_a_function_returns(use: str, fate: GraphOutcome, tmp_path: Path) -> None:
    files = {"helper.py": HELPER, "train.py": CALLER.format(use=use)}
    module = analysed(tmp_path, files, "helper.py")
    call = next(each for each in module.nodes(cst.Call) if module.source_of(each) == "net(x)")
    assert inferred(module, call).tensor
    assert graph_fate(module, call) == fate
