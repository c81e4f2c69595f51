"""A loader whose batches have expanded tensors cannot pin them: ``Tensor.pin_memory`` copies into a
tensor of the same strides, and raises where one is 0. No fix pins there; near misses are pinned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.checking import check, job
from torchlint.base.finding import Finding, Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

torch = pytest.importorskip("torch")

CODES = frozenset(("TL103", "TL201", "TL202"))
HEAD = """\
import functools
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate


class Pairs(Dataset):
    grid = torch.arange(8.0)

    def __len__(self):
        return 6

    def __getitem__(self, index):
        {sample}

    def collate(self, batch):
        {method}

"""
TAIL = """

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pairs = Pairs()
loader = DataLoader(pairs, shuffle=True, {how})
for epoch in range(3):
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SAMPLE = "return torch.full((8,), float(index)), torch.tensor(index % 2)"
NAMED = "batch_size=2, num_workers=2, collate_fn=collate"
PLAIN = "return default_collate(batch)"


def program(
    made: str = "", how: str = NAMED, sample: str = SAMPLE, method: str = PLAIN, more: str = ""
) -> str:
    collate = f"\ndef collate(batch):\n    times = torch.arange(8.0)\n    {made}\n" if made else ""
    return HEAD.format(sample=sample, method=method) + more + collate + TAIL.format(how=how)


def findings(text: str) -> dict[str, Finding]:
    found = check(text, codes=CODES, name="src/train.py").findings
    return {each.code: each for each in found}


def pinned(found: dict[str, Finding]) -> bool:
    """Say whether a fix of some findings sets ``pin_memory``."""
    return any(
        "pin_memory" in edit.text
        for each in found.values()
        if each.fix is not None
        for edit in each.fix.edits
    )


EXPANDED = {
    "in a tuple": {"made": "return default_collate(batch)[0], times.expand(len(batch), -1)"},
    "in a dictionary": {"made": "return {'x': 1, 't': times.unsqueeze(0).expand(len(batch), -1)}"},
    "stored": {"made": "out = {}\n    out['t'] = times.expand(2, 8)\n    return out"},
    "by a name": {"made": "t = torch.broadcast_to(times, (2, 8))\n    u = t[:1]\n    return u, u"},
    "one of several": {
        "made": "x, t = torch.broadcast_tensors(torch.ones(2, 8), times)\n    return x, t"
    },
    "a view of it": {"made": "return times.expand_as(torch.ones(2, 8)).t(), 1"},
    "of an array": {"made": "return torch.from_numpy(np.broadcast_to(np.ones(8), (2, 8))), 1"},
    "strides": {"made": "return times.as_strided((2, 8), (0, 1)), 1"},
    "by a helper": {
        "made": "return repeated(times, 2), 1",
        "more": "\ndef repeated(t, n):\n    return t[None].expand(n, -1)\n",
    },
    "a lambda": {
        "how": "batch_size=2, num_workers=2, collate_fn=lambda b: (b[0][0].expand(2, -1), 1)"
    },
    "partial": {
        "made": "return times.expand(2, 8), 1",
        "how": "batch_size=2, num_workers=2, collate_fn=functools.partial(collate)",
    },
    "a method": {
        "method": "return self.grid.expand(len(batch), -1), 1",
        "how": "batch_size=2, num_workers=2, collate_fn=pairs.collate",
    },
    "an object": {
        "more": (
            "\nclass Joined:\n    def __call__(self, batch):\n"
            "        return batch[0][0].expand(2, -1), 1\n"
        ),
        "how": "batch_size=2, num_workers=2, collate_fn=Joined()",
    },
    "whole batches": {
        "sample": "return self.grid.expand(4, -1), torch.ones(4)",
        "how": "batch_size=None, num_workers=2",
    },
    "samples as they are": {
        "made": "return tuple(zip(*batch))",
        "sample": "return self.grid.expand(4, -1), torch.ones(4)",
    },
}
ORDINARY = {
    "cloned": {"made": "return times.expand(2, 8).clone(), 1"},
    "contiguous": {"made": "return times.expand(len(batch), -1).contiguous(), 1"},
    "contiguous by a name": {
        "made": "t = times.expand(2, 8)\n    t = t.contiguous()\n    return t, 1"
    },
    "an operand": {"made": "return torch.ones(2, 8) + times.expand(2, 8), 1"},
    "only counted": {"made": "n = times.expand(2, 8).shape\n    return torch.ones(n), 1"},
    "repeated": {"made": "return times.repeat(2, 1), 1"},
    "windows": {"made": "return times.unfold(0, 4, 1), 1"},
    "stacked": {"made": "return torch.stack([times.expand(2, 8)]), 1"},
    "a row of it": {"made": "return times.expand(2, 8)[0], 1"},
    "flat": {"made": "return times.expand(2, 8).flatten(), 1"},
    "in the model": {
        "made": "return default_collate(batch)",
        "more": "\nclass N(nn.Module):\n    def forward(self, x):\n        return x.expand(2, 8)\n",
    },
    "samples that are stacked": {
        "sample": "return self.grid.expand(4, -1), torch.ones(4)",
        "how": "batch_size=2, num_workers=2",
    },
    "samples that are collated": {
        "made": "return default_collate(batch)",
        "sample": "return self.grid.expand(4, -1), torch.ones(4)",
    },
    "out of view": {
        "more": "\nfrom elsewhere import collate\n",
    },
}


@pytest.mark.parametrize("parts", EXPANDED.values(), ids=EXPANDED)
def test_what_is_expanded_is_not_pinned(parts: dict[str, str]) -> None:
    found = findings(program(**parts))
    assert set(found) == {"TL103", "TL202"}
    assert not pinned(found)
    assert found["TL202"].fix is None
    assert ".contiguous()" in found["TL202"].message
    fix = found["TL103"].fix
    assert fix is None or fix.safety is Safety.SUGGESTION


@pytest.mark.parametrize("parts", ORDINARY.values(), ids=ORDINARY)
def test_what_is_copied_is_pinned(parts: dict[str, str]) -> None:
    found = findings(program(**parts))
    assert set(found) == {"TL103", "TL202"}
    assert pinned({"TL202": found["TL202"]})
    assert pinned({"TL103": found["TL103"]})


@pytest.mark.parametrize(("copied", "pins"), [("", False), (".clone()", True)])
def test_workers_come_with_pinning_where_that_works(copied: str, pins: bool) -> None:
    made = f"return times.expand(2, 8){copied}, 1"
    text = program(made, "batch_size=2, collate_fn=collate", "return np.load(str(index)), index")
    found = findings(text)["TL201"]
    assert pinned({"TL201": found}) is pins
    assert (".contiguous()" in found.message) is not pins


@pytest.mark.parametrize(("copied", "pins"), [("", False), (".contiguous()", True)])
def test_a_collate_function_of_another_file(tmp_path: Path, copied: str, pins: bool) -> None:
    given = f"def collate(batch):\n    return batch[0][0].expand(len(batch), -1){copied}, 1\n"
    (tmp_path / "batches.py").write_text(given)
    text = program(more="\nfrom batches import collate\n")
    (tmp_path / "train.py").write_text(text)
    forget()
    done = job(text, name="train.py", root=str(tmp_path), codes=frozenset(("TL202",)))
    found = analyse_job(done).findings
    assert [pinned({each.code: each}) for each in found] == [pins]


TIMES = torch.arange(6.0)
COPIES = {
    "expand": (TIMES.expand(3, -1), False),
    "part of it": (TIMES.expand(3, -1)[:2], False),
    "turned": (TIMES.expand(3, -1).t(), False),
    "the same dtype": (TIMES.expand(3, -1).float(), False),
    "broadcast_to": (torch.broadcast_to(TIMES, (3, 6)), False),
    "meshgrid": (torch.meshgrid(TIMES, TIMES, indexing="ij")[0], False),
    "as_strided": (TIMES.as_strided((2, 3), (0, 1)), False),
    "windows": (TIMES.unfold(0, 3, 1), True),
    "contiguous": (TIMES.expand(3, -1).contiguous(), True),
    "sum": (TIMES.expand(3, -1) + 1, True),
    "stack": (torch.stack([TIMES.expand(3, -1)]), True),
    "row": (TIMES.expand(3, -1)[0], True),
    "flat": (TIMES.expand(3, -1).flatten(), True),
}


@pytest.mark.parametrize(("tensor", "copies"), COPIES.values(), ids=COPIES)
def test_what_pinning_does_on_the_host(tensor: Any, copies: bool) -> None:
    same = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    if copies:
        assert same.copy_(tensor).equal(tensor)
    else:
        with pytest.raises(RuntimeError, match="more than one element"):
            same.copy_(tensor)
