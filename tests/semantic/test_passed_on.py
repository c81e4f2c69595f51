"""What an object hands out that iterates for others, and what runs under another name, or is handed
to a call that runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.semantic.test_project import analysed, probe, probed
from torchlint.semantic.time.heat import heat_of

LOADER = """
from torch.utils.data import DataLoader
import torch
from bars import Bar

loader = DataLoader(torch.arange(9), num_workers=2)
for batch in Bar("name", loader):
    probe(batch)
"""


@pytest.mark.parametrize(
    "methods",
    [
        "def __iter__(self):\n        for x in self.it:\n            yield x",
        "def __iter__(self):\n        yield from self.it",
        "def __iter__(self):\n        return iter(self.it)",
        "def __iter__(self):\n        for n, x in enumerate(self.it):\n            print(n)\n"
        "            yield x",
        "def __iter__(self):\n        self.at = iter(self.it)\n        return self\n"
        "    def __next__(self):\n        return next(self.at)",
        "def __iter__(self):\n        self.at = iter(self.it)\n        return self\n"
        "    def __next__(self):\n        value = next(self.at)\n        self.n += 1\n"
        "        return value",
    ],
)
def test_an_object_hands_out_what_it_is_given(tmp_path: Path, methods: str) -> None:
    bars = "class Bar:\n    def __init__(self, name, it):\n        self.it, self.n = it, 0\n"
    bars = bars.replace("self.it, self.n = it, 0", "self.it = it\n        self.n = 0")
    for files in (
        {"bars.py": f"{bars}    {methods}\n", "train.py": LOADER},
        {"train.py": LOADER.replace("from bars import Bar", f"{bars}    {methods}\n")},
    ):
        assert probed(tmp_path, files).kind == "batch"


@pytest.mark.parametrize(
    "methods",
    [
        "def __iter__(self):\n        for x in self.it:\n            yield x.cuda()",
        "def __iter__(self):\n        for x in self.it:\n            x = x.cuda()\n"
        "            yield x",
        "def __iter__(self):\n        for n, x in enumerate(self.it):\n            yield n",
        "def __iter__(self):\n        for x in range(3):\n            yield self.it",
        "def __iter__(self):\n        for x in self.it:\n            yield x\n        yield None",
        "def __iter__(self):\n        return self\n    def __next__(self):\n        return self.it",
        "def __len__(self):\n        return len(self.it)",
    ],
)
def test_an_object_hands_out_something_else(tmp_path: Path, methods: str) -> None:
    bars = f"class Bar:\n    def __init__(self, name, it):\n        self.it = it\n    {methods}\n"
    assert probed(tmp_path, {"bars.py": bars, "train.py": LOADER}).kind != "batch"


STEPS = """
import torch
from torch import nn

class Trainer:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer

    def first(self):
        probe(1)
        return torch.ones(1)

    def second(self):
        return torch.ones(2)

    def step(self, draw, other=None):
        self.optimizer.zero_grad()
        self.net(draw()).sum().backward()
        self.optimizer.step()

    def fit(self, flag):
        while True:
            CALL
"""


@pytest.mark.parametrize(
    ("call", "hot"),
    [
        ("self.step(self.first)", True),
        ("self.step(draw=self.first)", True),
        ("self.step(self.first if flag else self.second)", True),
        ("draw = self.first; self.step(draw)", True),
        ("self.step(self.second)", False),
        ("self.step(self.second, self.first)", False),
        ("self.step(flag.first)", False),
    ],
)
def test_a_function_that_is_passed_runs_where_it_is_called(
    tmp_path: Path, call: str, hot: bool
) -> None:
    found = analysed(tmp_path, {"train.py": STEPS.replace("CALL", call)}, "train.py")
    assert heat_of(found, probe(found)).hot is hot


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("KINDS = {'a': first, 'b': second}\nprobe(KINDS[name](x))", "tensor"),
        ("KINDS = {'a': first, 'b': second}\nprobe(KINDS.get(name)(x))", "?"),
        ("run = {'a': first, 'b': second}.get(name)\nprobe(run(x))", "?"),
        ("KINDS = {'a': first, 'b': second}\nrun = KINDS[name]\nprobe(run(x))", "tensor"),
        ("KINDS = {'a': first, 'b': other}\nprobe(KINDS[name](x))", "?"),
        ("run = first if name else second\nprobe(run(x))", "tensor"),
        ("run = first if name else other\nprobe(run(x))", "?"),
    ],
)
def test_functions_kept_under_names(tmp_path: Path, source: str, kind: str) -> None:
    head = (
        "import torch\nfrom far import other, name, x\n"
        "def first(x): return torch.ones(3)\ndef second(x): return torch.zeros(3)\n"
    )
    assert probed(tmp_path, {"train.py": head + source}).kind == kind


BLOCK = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        HELD

    def forward(self, x):
        GIVEN
        return x

    def part(self, x):
        probe(x)
        return x
"""


@pytest.mark.parametrize(
    ("held", "given", "hot"),
    [
        ("self.n = 1", "x = checkpoint(self.part, x)", True),
        ("self.n = 1", "x = checkpoint(self.part, x, use_reentrant=False) if self.n else x", True),
        ("self.n = 1", "x = nn.Identity()(self.apply(fn=self.part))", True),
        ("self.register_forward_hook(self.part)", "x = x + 1", False),
        ("self.n = 1", "x = x + self.part", False),
        ("self.n = 1", "x = checkpoint(x.part, x)", False),
    ],
)
def test_a_method_that_is_handed_to_a_call(
    tmp_path: Path, held: str, given: str, hot: bool
) -> None:
    source = BLOCK.replace("HELD", held).replace("GIVEN", given)
    found = analysed(tmp_path, {"train.py": source}, "train.py")
    assert heat_of(found, probe(found)).hot is hot


LOOPS = """
import torch
from torch import nn
from torch.utils.data import DataLoader
from far import names, read, sampler, table

device = torch.device("cuda")
loader = DataLoader(table, num_workers=2)
net = nn.Linear(3, 3).to(device)
"""


@pytest.mark.parametrize(
    ("loop", "hot"),
    [
        ("for x, y in loader:\n    x = x.to(device)\n    probe(net.frob(x))", True),
        ("for b in loader:\n    probe(net.frob(b.cuda()))", True),
        ("for x, y in loader:\n    x = x.to(device)\n    probe(x)", False),
        ("for x, y in loader:\n    x = x.to(device)\n    probe(table.frob(x))", False),
        ("for name in names:\n    probe(sampler.sample(net, torch.ones(3, device=device)))", True),
        ("for name in names:\n    for k in range(3):\n        x = net(read(name).cuda())\n"
         "        probe(x)", True),
        ("for x, y in loader:\n    probe(len(x))", False),
        ("for name in names:\n    probe(sampler.save(net, torch.ones(3, device=device)))", False),
        ("for name in names:\n    probe(sampler.sample(net, name))", False),
        ("for name in names:\n    probe(sampler.sample(name, torch.ones(3).cuda()))", False),
        ("for k in range(3):\n    x = net(read(k).cuda())\n    probe(x)", False),
    ],
)  # fmt: skip
def test_loops_over_data(tmp_path: Path, loop: str, hot: bool) -> None:
    found = analysed(tmp_path, {"train.py": LOOPS + loop}, "train.py")
    assert heat_of(found, probe(found)).hot is hot
