"""Which method of this file a call reaches: by what makes the object, what callers give, and what
is stored in attributes."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.semantic.test_values import module
from torchlint.semantic.code.flow import callees_of

_CLASSES = """
import torch
from torch import nn, optim
class Net(nn.Module):
    def probe(self, x): return x
class Other(nn.Module):
    def probe(self, x): return -x
class Plain:
    def to(self, device): return device
    def probe(self, x): return x
"""


def reached(source: str) -> list[str]:
    """Return the classes whose ``probe`` the call ``….probe(x)`` may reach."""
    found = module(_CLASSES + source)
    [call] = [
        call
        for call in found.nodes(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "probe"
    ]
    owners = [found.class_of(callee) for callee in callees_of(found, call)]
    return [owner.name.value for owner in owners if owner is not None]


@pytest.mark.parametrize(
    "source",
    [
        "net = Net()\nnet.probe(x)",
        "net = Net().to(device)\nnet.probe(x)",
        "net = Net().half().cuda().train()\nnet.probe(x)",
        "net = Net()\nnet = net.cuda()\nnet.probe(x)",
        "net = None\nnet = torch.compile(Net().to(0))\nnet.probe(x)",
        "net = Net(1) if small else Net(2)\nnet.probe(x)",
        "def build(kind):\n    net = Net()\n    return net.cuda()\nnet = build(1)\nnet.probe(x)",
        "def run(net):\n    net.probe(x)\nrun(Net())",
        "def run(n, *, net=None):\n    net.probe(x)\nrun(3, net=Net().cuda())\nrun(4)",
        "def run(net: Net):\n    net.probe(x)",
        (
            "def run(net):\n    net.probe(x)\ndef main():\n    m = Net()\n    run(m)\n"
            "    run(m.eval())"
        ),
        (
            "class Trainer:\n    def __init__(self, net): self.net = net\n    def fit(self):\n"
            "        self.net.probe(x)\nTrainer(Net().cuda()).fit()"
        ),
        (
            "class Trainer:\n    def __init__(self):\n        self.net = Net()\n"
            "        self.net = self.net.cuda()\n    def fit(self):\n        self.net.probe(x)"
        ),
        (
            "class Base:\n    def __init__(self): self.net = Net()\nclass Trainer(Base):\n"
            "    def fit(self):\n        self.net.probe(x)"
        ),
        (
            "class Trainer:\n    def fit(self, net):\n        net.probe(x)\nt = Trainer()\n"
            "t.fit(Net())"
        ),
        "net, other = Net().to(device), Other()\nnet.probe(x)",
        "(first, net), n = (Other(), Net()), 3\nnet.probe(x)",
        (
            "class Trainer:\n    def __init__(self): self.net, self.n = Net(), 3\n"
            "    def fit(self):\n        self.net.probe(x)"
        ),
        "nets = {k: Net().cuda() for k in 'ab'}\nnets['a'].probe(x)",
        "nets = [Net(), Net().eval()]\nnets[0].probe(x)",
        "Kind = Net\nnet = Kind()\nnet.probe(x)",
        "Kind = Net if noisy else nn.Linear\nnet = Kind(3, 3)\nnet.probe(x)",
        (
            "class Trainer:\n    def __init__(self, noisy):\n        if noisy:\n"
            "            Kind = Net\n        else:\n            Kind = nn.Linear\n"
            "        self.net = Kind(3, 3)\n        if not noisy:\n"
            "            self.net = initialised(self.net)\n"
            "    def fit(self):\n        self.net.probe(x)"
        ),
    ],
)
def test_the_class_of_an_object(source: str) -> None:
    assert reached(source) == ["Net"]


@pytest.mark.parametrize(
    "source",
    [
        "net = Net()\nnet = wrap(net)\nnet.probe(x)",
        "net = Net() if small else Other()\nnet.probe(x)",
        "net = nn.DataParallel(Net())\nnet.probe(x)",
        "net = Plain().to(device)\nnet.probe(x)",
        "net = Net().parameters()\nnet.probe(x)",
        "for net in nets():\n    net.probe(x)",
        "def build():\n    yield Net()\nnet = build()\nnet.probe(x)",
        "def build(kind):\n    return Net() if kind else load()\nnet = build(1)\nnet.probe(x)",
        "def run(net):\n    net.probe(x)\nrun(Net())\nrun(Other())",
        "def run(net):\n    net.probe(x)\nrun(Net())\napply(run)",
        "def run(net):\n    net.probe(x)\nrun(*[Net()])",
        "def run(*net):\n    net.probe(x)\nrun(Net())",
        "def run(net):\n    net.probe(x)",
        (
            "class Trainer:\n    def __init__(self, net): self.net = net\n    def fit(self):\n"
            "        self.net.probe(x)\nTrainer(Net())\nTrainer(Other())"
        ),
        (
            "class Trainer:\n    def __init__(self): self.net = Net()\n    def fit(self):\n"
            "        self.net.probe(x)\ndef change(t): t.net = Other()"
        ),
        (
            "class Trainer:\n    def __init__(self): self.net, self.o = make()\n"
            "    def fit(self):\n        self.net.probe(x)"
        ),
        (
            "class Trainer:\n    def fit(self, net):\n        net.probe(x)\nclass Tester:\n"
            "    def fit(self, net): pass\nTrainer().fit(Net())"
        ),
        "net, other = Net(), Other()\nnet, other = other, net\nnet.probe(x)",
        "net, *rest = Net(), Other(), Net()\nnet.probe(x)",
        "net, other = make(Net(), Other())\nnet.probe(x)",
        "nets = [Net(), Other()]\nnets[0].probe(x)",
        "def a(net): return b(net)\ndef b(net):\n    net.probe(x)\n    return a(net)",
        "Kind = Net if small else Other\nnet = Kind()\nnet.probe(x)",
        "Kind = Net if small else load()\nnet = Kind()\nnet.probe(x)",
        "for Kind in (Net, nn.Linear):\n    net = Kind(3, 3)\n    net.probe(x)",
        (
            "class Trainer:\n    def __init__(self, old):\n        self.net = Net()\n"
            "        self.net = wrapped(old, self.net)\n"
            "    def fit(self):\n        self.net.probe(x)"
        ),
    ],
)
def test_what_may_be_another_object_has_no_class(source: str) -> None:
    assert reached(source) == []
