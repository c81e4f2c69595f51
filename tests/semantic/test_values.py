"""Abstract values: what an expression is and where it lives."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import ACCEL, CPU, CUDA, Value

HEAD = """
import copy
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader
"""


def module(source: str, filename: str = "train.py") -> Module:
    """Parse `source` behind the usual imports."""
    text = HEAD + textwrap.dedent(source)
    return Module(cst.parse_module(text), text, filename, Outside())


def value_of(source: str, name: str = "probe") -> Value:
    """Return the value passed to the (only) call ``probe(...)`` in `source`."""
    found = module(source)
    for call in found.nodes(cst.Call):
        if (
            isinstance(call, cst.Call)
            and isinstance(call.func, cst.Name)
            and call.func.value == name
        ):
            return inferred(found, call.args[0].value)
    raise AssertionError("no probe")


@pytest.mark.parametrize(
    ("expression", "kind", "device"),
    [
        ("torch.zeros(3)", "tensor", CPU),
        ("torch.zeros(3, device='cuda')", "tensor", CUDA),
        ("torch.zeros(3).cuda()", "tensor", CUDA),
        ("torch.zeros(3).to('cuda:1')", "tensor", CUDA),
        ("torch.zeros(3).to(device)", "tensor", ACCEL),
        ("torch.zeros(3).cuda().cpu()", "tensor", CPU),
        ("torch.zeros(3).cuda() * 2 + 1", "tensor", CUDA),
        ("torch.zeros(3).to(torch.float16)", "tensor", CPU),
        ("torch.zeros(3).to(bool)", "tensor", CPU),
        ("torch.zeros(3).cuda().to(int)", "tensor", CUDA),
        ("torch.zeros(1).fill_(torch.ones(()).cuda())", "tensor", CPU),
        ("torch.zeros(3).cuda().copy_(torch.ones(3))", "tensor", CUDA),
        ("torch.ones_like(torch.zeros(3).cuda())", "tensor", CUDA),
        ("torch.zeros(3).cuda().detach().numpy()", "ndarray", None),
        ("torch.zeros(3).cuda().sum().item()", "number", None),
        ("torch.zeros(3).cuda().shape", "shape", None),
        ("unheard_of.shape", "shape", None),
        ("unheard_of.shape[0]", "number", None),
        ("unheard_of.ndim", "number", None),
        ("unheard_of.width", "?", None),
        ("torch.zeros(3).cuda().size(0)", "number", None),
        ("torch.zeros(3).cuda().tolist()", "list", None),
        ("len(torch.zeros(3).cuda())", "number", None),
        ("np.zeros(3).mean()", "ndarray", None),
        ("torch.equal(torch.zeros(3).cuda(), torch.zeros(3).cuda())", "bool", None),
        ("torch.zeros(3).cuda() > 0", "tensor", CUDA),
        ("torch.zeros(3).cuda() is None", "bool", None),
        ("copy.deepcopy(torch.zeros(3).cuda())", "tensor", CUDA),
        ("nn.Linear(3, 3).cuda()(torch.zeros(3).cuda())", "tensor", CUDA),
        ("F.mse_loss(torch.zeros(3).cuda(), torch.zeros(3).cuda())", "tensor", CUDA),
        ("nn.Parameter(torch.zeros(3))", "tensor", ACCEL),
        ("unknown(torch.zeros(3).cuda())", "?", None),
        ("nn.utils.rnn.pad_packed_sequence(torch.zeros(3).cuda())[0]", "tensor", CUDA),
        ("nn.utils.rnn.pad_packed_sequence(torch.zeros(3).cuda())[1]", "tensor", CPU),
    ],
)
def test_expression(expression: str, kind: str, device: str | None) -> None:
    found = value_of(f"def f(device):\n    probe({expression})\n")
    assert (found.kind, found.device) == (kind, device)


def test_branches_join_and_two_kinds_are_unknown() -> None:
    assert (
        value_of(
            "def f(c):\n    x = torch.zeros(3).cuda()\n    if c:\n        x = 5\n    probe(x)"
        ).kind
        != "tensor"
    )
    assert (
        value_of(
            "def f(c):\n    x = None\n    if c:\n        x = torch.zeros(3).cuda()\n    probe(x)"
        ).device
        == CUDA
    )
    both = "def f(c):\n    x = torch.zeros(3).cuda()\n    if c:\n        x = x.cpu()\n    probe(x)"
    assert (value_of(both).kind, value_of(both).device) == ("tensor", None)


def test_a_branch_that_leaves_does_not_join() -> None:
    found = value_of(
        "def f(c):\n    x = torch.zeros(3).cuda()\n    if c:\n        x = 5\n        return x\n  "
        "  probe(x)"
    )
    assert found.device == CUDA


def test_loops_reach_a_fixed_point() -> None:
    found = value_of(
        "def f(n):\n    x = torch.zeros(3).cuda()\n    for _ in range(n):\n        probe(x)\n    "
        "    x = x.cpu()"
    )
    assert (found.kind, found.device) == ("tensor", None)


def test_rebinding_is_flow_sensitive() -> None:
    found = value_of("def f():\n    x = torch.zeros(3).cuda()\n    x = x.cpu()\n    probe(x)")
    assert found.host


def test_batches_of_a_loader_are_host_tensors_until_moved() -> None:
    source = """
    def f(ds, device):
        loader = DataLoader(ds)
        for x, y in loader:
            x = x.to(device)
            probe({})
    """
    assert value_of(source.format("x")).device == ACCEL
    assert value_of(source.format("y")).device == CPU
    assert value_of(source.format("y")).origin == "batch"


@pytest.mark.parametrize(
    "wrapped", ["enumerate(loader)", "enumerate(tqdm.tqdm(loader))", "zip(range(9), loader)"]
)
def test_wrapped_loaders_are_loaders(wrapped: str) -> None:
    found = value_of(
        f"import tqdm\ndef f(ds):\n    loader = DataLoader(ds)\n    for i, b in {wrapped}:\n     "
        "   probe(b)"
    )
    assert found.kind == "batch"


def test_local_functions_have_summaries() -> None:
    source = "def to_dev(x):\n    return x.cuda()\ndef f():\n    probe(to_dev(torch.zeros(3)))"
    assert value_of(source).device == CUDA
    assert (
        value_of("to_dev = lambda x: x.cuda()\ndef f():\n    probe(to_dev(torch.zeros(3)))").device
        == CUDA
    )


def test_parameters_take_the_join_of_their_call_sites() -> None:
    source = "def g(x):\n    probe(x)\ndef f():\n    g({})\n    g(torch.zeros(3).cuda())"
    assert value_of(source.format("torch.ones(2).cuda()")).device == CUDA
    assert value_of(source.format("torch.ones(2)")).device is None


def test_self_attributes_are_gathered_over_the_class() -> None:
    source = """
    class A:
        def __init__(self):
            self.x = torch.zeros(3).cuda()
            self.n = 0
        def f(self):
            probe(self.{})
    """
    assert value_of(source.format("x")).device == CUDA
    assert value_of(source.format("n")).kind == "number"


def test_buffers_follow_the_module() -> None:
    source = """
    class A(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.plain = torch.zeros(3)
        def forward(self, x):
            probe(self.{})
    """
    assert value_of(source.format("mean")).device == ACCEL
    assert value_of(source.format("plain")).device == CPU


def test_forward_parameters_live_with_the_module() -> None:
    source = """
    class A(nn.Module):
        def forward(self, x, size, flag=False):
            y = torch.relu(x)
            probe({})
    """
    assert value_of(source.format("x")).device == ACCEL
    assert value_of(source.format("flag")).kind == "bool"
    assert value_of(source.format("size")).kind == "?"


def test_backward_makes_a_loss() -> None:
    found = value_of("def f(loss):\n    loss.backward()\n    probe(loss)")
    assert (found.kind, found.origin, found.grad) == ("tensor", "loss", True)


def test_criteria_give_zero_dimensional_losses() -> None:
    source = "def f(x, y):\n    crit = nn.CrossEntropyLoss({})\n    probe(crit(x, y))"
    assert value_of(source.format("")).rank == 0
    assert value_of(source.format("reduction='none'")).rank is None


def test_packed_batch_sizes_are_on_the_host() -> None:
    source = (
        "def f(x, n):\n    p = nn.utils.rnn.pack_padded_sequence(x.cuda(), n)\n    "
        "probe(p.batch_sizes)"
    )
    assert value_of(source).device == CPU


def test_shadowed_and_rebound_names_have_no_dotted_name() -> None:
    assert value_of("def f(torch):\n    probe(torch.zeros(3))").kind != "tensor"
    assert (
        value_of("class DataLoader:\n    pass\ndef f(ds):\n    probe(DataLoader(ds))").kind
        != "loader"
    )


def test_recursion_ends() -> None:
    source = (
        "def f(x):\n    return g(x)\ndef g(x):\n    return f(x)\ndef h():\n    "
        "probe(f(torch.zeros(3)))"
    )
    assert value_of(source).kind in ("?", "none")


@pytest.mark.parametrize(
    ("fallback", "device"),
    [
        ("torch.device('cuda') if given else torch.device('cpu')", ACCEL),
        ("x.device if given else torch.device('cpu')", None),
    ],
)
def test_a_device_that_may_be_the_cpu_is_the_programs_own_only_next_to_cuda(
    fallback: str, device: str | None
) -> None:
    found = value_of(
        f"def f(x: torch.Tensor, given):\n    probe(torch.zeros(3, device={fallback}))"
    )
    assert (found.kind, found.device) == ("tensor", device)


@pytest.mark.parametrize(
    ("callee", "kind"), [("peft_model", "tensor"), ("is_peft_model", "?"), ("unwrap_model", "?")]
)
def test_what_does_something_with_a_model_is_none(callee: str, kind: str) -> None:
    assert value_of(f"from elsewhere import {callee}\nprobe({callee}(x))").kind == kind


@pytest.mark.parametrize(
    ("expression", "kind"),
    [
        ("given - args.shift", "?"),
        ("args.scale * unheard_of(given)", "?"),
        ("given - A(args).stride", "?"),
        ("-(given - args.shift)", "?"),
        ("given - args.shift >= 0", "?"),
        ("given - 5", "?"),
        ("args.scale * args.shift", "plain"),
        ("3 - args.shift", "plain"),
        ("torch.zeros(3).cuda() - args.shift", "tensor"),
    ],
)
def test_what_is_calculated_of_the_unknown_is_unknown(expression: str, kind: str) -> None:
    source = """
    import argparse
    args = argparse.ArgumentParser().parse_args()
    class A:
        def __init__(self, args):
            self.stride = args.steps // args.count
    def f(given):
        probe({})
    """
    assert value_of(source.format(expression)).kind == kind


SUMS = """
TOTAL = 0.0
class Meter:
    def __init__(self):
        self.sum, self.count, self.best, self.kept = 0.0, 0, 0.0, 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.count /= 2
    @property
    def average(self):
        return self.sum / self.count
class Child(Meter):
    def more(self, value):
        self.kept -= value
def count(value):
    global TOTAL
    TOTAL += value
def given(meter: Meter):
    probe({read})
def run(unknown):
    loss = torch.zeros(()).cuda()
    meter = Child()
    meter.update({value})
    meter.more({value})
    meter.best = {value}
    count({value})
"""


@pytest.mark.parametrize(
    "read", ["Meter().sum", "meter.sum", "meter.best", "Child().kept", "TOTAL", "meter.average"]
)
def test_what_starts_as_a_number_is_what_is_added_to_it(read: str) -> None:
    """In a method, from outside, in a subclass, by a function: a tensor, a number or unknown."""
    found = value_of(SUMS.format(read=read, value="loss"))
    assert (found.kind, found.device) == (
        "tensor" if read == "meter.average" else "accumulated",
        CUDA,
    )
    assert value_of(SUMS.format(read=read, value="loss.item()")).kind == "number"
    assert value_of(SUMS.format(read=read, value="unknown")).kind == "?"


def test_a_count_stays_a_number_beside_a_sum_of_tensors() -> None:
    found = value_of(SUMS.format(read="meter.count", value="loss"))
    assert (found.kind, found.dtype) == ("number", None)
    untouched = "class B:\n    def __init__(self):\n        self.sum = 0\nprobe(B().sum)"
    assert value_of(SUMS.format(read="1", value="loss") + untouched).kind == "number"


@pytest.mark.parametrize(
    ("made", "rank"),
    [
        ("torch.zeros(n, 13, 5 + n)", 3),
        ("torch.ones((n, 2), device='cuda')", 2),
        ("torch.full([n, 2, 3], 0.5)", 3),
        ("torch.rand(())", 0),
        ("torch.zeros(n)", None),
        ("torch.empty(*n)", None),
        ("torch.randn((*n, 3))", None),
        ("torch.eye(n, 3)", None),
    ],
)
def test_factories_have_as_many_dimensions_as_they_are_given_sizes(
    made: str, rank: int | None
) -> None:
    assert value_of(f"def f(n):\n    probe({made})\n").rank == rank
