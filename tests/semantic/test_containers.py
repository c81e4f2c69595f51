"""Values that pass through containers, wrappers and calls before they are read."""

from __future__ import annotations

import textwrap

import libcst as cst
import pytest

from tests.checking import check
from torchlint.semantic.module import Module
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.values.inferred import inferred
from torchlint.semantic.values.value import CUDA, Value

HEAD = """
import functools
import sys
from dataclasses import dataclass
from typing import NamedTuple
import torch
lib = sys.modules[__name__]
there = torch.zeros(3, device="cuda")
"""


def probed(source: str) -> Value:
    """Return the value passed to the only call ``probe(...)``."""
    text = HEAD + textwrap.dedent(source)
    module = Module(cst.parse_module(text), text, "train.py", Outside())
    (call,) = [
        c
        for c in module.nodes(cst.Call)
        if isinstance(c, cst.Call) and module.source_of(c.func) == "probe"
    ]
    return inferred(module, call.args[0].value)


RECORD = """
@dataclass
class Out:
    loss: torch.Tensor
    count: int

class Pair(NamedTuple):
    left: torch.Tensor
    right: float
"""


@pytest.mark.parametrize(
    ("source", "kind", "device"),
    [
        ("out = Out(there, 3)\nprobe(out.loss)", "tensor", "cuda"),
        ("out = Out(count=3, loss=there)\nprobe(out.loss)", "tensor", "cuda"),
        ("out = Out(there, 3)\nprobe(out.count)", "number", None),
        ("def f(out: Out):\n    probe(out.count)", "number", None),
        ("def f(out: Out):\n    probe(out.missing)", "?", None),
        ("a, b = Out(there, 3), Out(there.cpu(), 4)\nprobe(a.loss)", "tensor", None),
        ("probe(Out(*given).loss)", "tensor", None),
        ("probe(Pair(there, 1.0).left)", "tensor", "cuda"),
        ("probe(Pair(there, 1.0).right)", "number", None),
    ],
)
def test_fields_of_records(source: str, kind: str, device: str | None) -> None:
    found = probed(RECORD + source)
    assert (found.kind, found.device) == (kind, device)


@pytest.mark.parametrize(
    ("source", "kind", "device"),
    [
        ("probe(there.max(dim=0).values)", "tensor", "cuda"),
        ("probe(torch.sort(there).indices)", "tensor", "cuda"),
        ("probe((there, 3).values)", "?", None),
        ("def f(*args):\n    probe(args[0])\nf(there, 3)", "tensor", "cuda"),
        ("def f(*args):\n    probe(args[1])\nf(there, 3)", "number", None),
        ("def f(x, *args):\n    probe(args[0])\nf(3, there)", "tensor", "cuda"),
        ("def f(*args):\n    probe(args[0])\nf(there)\nf(*there)", "?", None),
        (
            "def f(*args):\n    for a in args:\n        probe(a)\nf(there, 3, 4)",
            "accumulated",
            "cuda",
        ),
        ("def f(*args):\n    a, *rest = args\n    probe(a)\nf(there, 3, 4)", "tensor", CUDA),
        ("def double(x):\n    return x * 2\nprobe(double(there))", "tensor", "cuda"),
        ("def double(x):\n    return x * 2\ndouble(3)\nprobe(double(there))", "tensor", "cuda"),
        ("def host(x):\n    return x.cpu()\nhost(3)\nprobe(host(there))", "tensor", "cpu"),
        ("to = lambda x, *args: x.to(*args)\nprobe(lib.to(there, 'cpu'))", "tensor", "cpu"),
        ("to = lambda x, *args: x.to(*args)\nprobe(to(there.cpu(), 'cuda'))", "tensor", "cuda"),
        (
            (
                "def on(device, x):\n    return x.to(device)\nprobe(functools.partial(on, "
                "'cuda')(there).sum())"
            ),
            "tensor",
            "accel",
        ),
        ("def f(x):\n    probe(x.to('cuda').argmax(dim=1))", "tensor", "cuda"),
        ("def f(x):\n    probe(x.to('cuda').float())", "?", None),
    ],
)
def test_values_through_containers_and_calls(source: str, kind: str, device: str | None) -> None:
    found = probed(source)
    assert (found.kind, found.device) == (kind, device)


def test_a_list_kept_on_self() -> None:
    source = """
    class Meter:
        def __init__(self):
            self.values, self.empty = [], []

        def add(self):
            self.values.append(torch.zeros(3, device="cuda"))

        def show(self):
            for value in self.values:
                probe(value)
    """
    assert probed(source).device == "cuda"
    assert probed(source.replace("in self.values", "in self.empty")).kind == "?"


LOOP = """
import torch

def train(model, loader, optimizer, criterion, device):
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        {call}

{helper}
"""


@pytest.mark.parametrize(
    ("helper", "call", "codes"),
    [
        ("def note(x):\n    return float(x)\nnote(3)\nnote('4')", "note(loss)", ["TL101"]),
        ("def note(x):\n    return float(x)\nnote('4')", "note(3)", []),
        (
            "def note(*xs):\n    return [float(x) for x in xs]\nnote('4')",
            "note(loss, 3)",
            ["TL101"],
        ),
        ("note = lambda x: x.item()", "note(loss)", ["TL101"]),
        ("note = lambda x, y: x.item(y)", "note(loss, 3)", []),
        ("keep = lambda x: x.cpu()", "seen = keep(loss)", ["TL113"]),
        ("keep = lambda x, y: y.cpu()", "seen = keep(3, loss)", []),
        ("def keep(x):\n    return x.cpu()\nkeep('4')", "seen = keep(loss)", ["TL113"]),
        ("def note(x):\n    return float(x)\nnote('4')", "if len(x) % 9 == 0: note(loss)", []),
    ],
)
def test_a_helper_reads_what_one_of_its_calls_passes(
    helper: str, call: str, codes: list[str]
) -> None:
    report = check(LOOP.format(helper=helper, call=call), codes=frozenset(["TL101", "TL113"]))
    assert [finding.code for finding in report.findings] == codes


METER = """
import torch

class ScoreMeter:
    def update(self, {params}):
        self.kept.append({kept})
"""


@pytest.mark.parametrize(
    ("params", "kept", "codes"),
    [
        ("scores: torch.Tensor", "scores.detach().cpu()", ["TL113"]),
        ("scores: torch.Tensor", "scores.detach()", []),
        ("model, scores: torch.Tensor", "torch.stack(model.encode(scores)).cpu()", []),
    ],
)
def test_a_metric_sees_a_batch_unless_it_gets_the_model(
    params: str, kept: str, codes: list[str]
) -> None:
    report = check(METER.format(params=params, kept=kept), codes=frozenset(["TL113"]))
    assert [finding.code for finding in report.findings] == codes


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("peft_model", "tensor"),
        ("is_peft_model", "?"),
        ("load_model", "?"),
        ("resolve_student_checkpoint", "?"),
    ],
)
def test_a_verb_is_no_model(name: str, found: str) -> None:
    assert probed(f"from other import {name}\nprobe({name}(there))").kind == found


@pytest.mark.parametrize("imports", ["", "from helpers import *\n"])
@pytest.mark.parametrize(
    ("kinds", "found"),
    [("tuple", "object"), ("(list, tuple)", "object"), ("torch.Tensor", "tensor")],
)
def test_what_is_asked_to_be_a_container_is_no_tensor(imports: str, kinds: str, found: str) -> None:
    asked = f"def f(x: torch.Tensor):\n    if isinstance(x, {kinds}):\n        probe(x)"
    assert probed(imports + asked).kind == found


@pytest.mark.parametrize(
    ("empty", "device"), [("[]", CUDA), ("list()", CUDA), ("list(given)", None)]
)
def test_an_empty_list_says_nothing_of_what_a_loop_puts_into_it(
    empty: str, device: str | None
) -> None:
    found = probed(
        f"""
        def f(n, given):
            out = {empty}
            for _ in range(n):
                out.append(there)
            probe(out[-1])
        """
    )
    assert found.device == device
