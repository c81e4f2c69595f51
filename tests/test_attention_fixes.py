"""Attention that the fix of TL405 fuses computes what it did: results and gradients, with masks of
all spellings, with dropout; and what is no plain attention stays."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tests.checking import fixed

HEAD = """
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, dim=8, heads=2, scale=None, rate=0.0):
        super().__init__()
        width = dim // heads
        self.width = width
        self.scale = scale or width**-0.5
        self.temperature = nn.Parameter(torch.ones(1))
        self.drop = nn.Dropout(rate)
        self.attend = nn.Softmax(dim=-1)
        self.bias = nn.Parameter(torch.linspace(-1, 1, 6))
        self.out = nn.Linear(width, width)

    def forward(self, q, k, v, mask=None):
        b, h, n, c = q.shape
"""

PLAIN = {
    "scaled by the constructor's number": """
        a = (q @ k.transpose(-2, -1)) * self.scale
        a = a.softmax(dim=-1)
        a = self.drop(a)
        x = (a @ v).transpose(1, 2).reshape(b, n, h * c)
        return x
    """,
    "one statement": "return F.softmax(q @ k.mT / math.sqrt(q.size(-1)), -1) @ v",
    "one scale of another width": "return F.softmax(q @ k.mT / math.sqrt(v.size(-2)), -1) @ v",
    "matmul, keys turned before": """
        k = k.permute(0, 1, 3, 2)
        s = torch.matmul(q, k)
        s = s / np.sqrt(self.width)
        w = torch.softmax(s, dim=-1)

        y = torch.matmul(w, v)
        return self.out(y)
    """,
    "batches of matrices": """
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
        s = torch.bmm(q, k.transpose(1, 2)) * c**-0.5
        w = F.softmax(s, dim=2)
        v = v * 2
        return torch.bmm(w, v)
    """,
    "einsum": """
        s = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        w = self.attend(s)
        return torch.einsum("bhij,bhjd->bhid", w, v)
    """,
    "queries scaled before": """
        q = q * self.scale
        s = q @ k.transpose(-1, -2)
        out = s.softmax(-1) @ v
        return out
    """,
    "queries scaled in the product": "return F.softmax((q * self.scale) @ k.mT, -1) @ v",
    "masked where equal to zero": """
        s = q @ k.transpose(-2, -1) / self.width**0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        w = self.drop(F.softmax(s, dim=-1))
        return torch.matmul(w, v)
    """,
    "masked by what is left out": """
        left_out = ~mask
        s = (q @ k.transpose(-2, -1)).masked_fill(left_out, float("-inf")) * self.scale
        return s.softmax(dim=-1) @ v
    """,
    "masked by what is not kept": """
        s = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        s = s.masked_fill(~mask, -np.inf)
        return s.softmax(dim=-1) @ v
    """,
    "a bias": """
        s = q @ k.transpose(-2, -1) * self.scale
        s = s + self.bias
        return s.softmax(dim=-1) @ v
    """,
    "dropout by function": """
        s = q @ k.transpose(-2, -1) * self.scale
        w = F.dropout(s.softmax(dim=-1), 0.0, self.training)
        return w @ v
    """,
    "in a chain that is returned": """
        s = q @ k.transpose(-2, -1) * self.scale
        return (s.softmax(dim=-1) @ v).transpose(1, 2)
    """,
}
"""Bodies of a forward that are fused."""

STAYS = {
    "the weights are returned, too": """
        w = (q @ k.transpose(-2, -1) * self.scale).softmax(-1)
        return w @ v, w.amax()
    """,
    "a scale that is trained": "return (q @ k.mT * self.temperature).softmax(-1) @ v",
    "a scale that may be a tensor": """
        w = (q @ k.mT / self.scale_of(q)).softmax(-1)
        return w @ v
    """,
    "two scales": "return (q @ k.mT * self.scale / math.sqrt(c)).softmax(-1) @ v",
    "a bias under the scale": "return ((q @ k.mT + self.bias) * self.scale).softmax(-1) @ v",
    "a mask that may be of booleans": "return (q @ k.mT * self.scale + mask).softmax(-1) @ v",
    "filled with a number that counts": """
        s = (q @ k.mT * self.scale).masked_fill(mask == 0, -10.0)
        return s.softmax(-1) @ v
    """,
    "two masks": """
        s = (q @ k.mT * self.scale + self.bias).masked_fill(mask == 0, -1e9)
        return s.softmax(-1) @ v
    """,
    "another condition": """
        s = q @ k.mT * self.scale
        if self.training:
            s = s.masked_fill(mask == 0, -1e9)
        return s.softmax(-1) @ v
    """,
    "a mask that is none where another is": """
        s = q @ k.mT * self.scale
        if self.kept is not None:
            s = s.masked_fill(mask == 0, -1e9)
        return s.softmax(-1) @ v
    """,
    "another axis": "return (q @ k.mT * self.scale).softmax(2) @ v",
    "keys that change before the end": """
        s = q @ k.mT * self.scale
        k = k * 2
        return s.softmax(-1) @ v + k
    """,
    "something happens in between": """
        s = q @ k.mT * self.scale
        q.mul_(2)
        return s.softmax(-1) @ v
    """,
    "the end stands in another block": """
        s = q @ k.mT * self.scale
        if c > 2:
            return s.softmax(-1) @ v
        return v
    """,
    "a cast": "return (q @ k.mT * self.scale).softmax(-1, dtype=torch.float32).to(q.dtype) @ v",
    "tensors that lie the other way round": """
        s = q.transpose(-2, -1) @ k * self.scale
        return v @ s.softmax(-1).mT
    """,
    "axes that are the last two for some ranks only": """
        return F.softmax(q @ k.transpose(2, 3) * self.scale, -1) @ v
    """,
    "dropout that is always on": """
        w = nn.Dropout(0.5)((q @ k.mT * self.scale).softmax(-1))
        return w @ v
    """,
}
"""Bodies of a forward that are not fused."""


def program(body: str) -> str:
    lines = [line.removeprefix("        ") for line in body.strip("\n").splitlines()]
    return HEAD + "".join(f"        {line}\n" for line in lines)


def repaired(before: str, **options: object) -> str:
    return fixed(before, "unsafe", codes=frozenset({"TL405"}), **options).after or before


def run(source: str, *, training: bool, seed: int) -> list[torch.Tensor]:
    """Return result and gradients of a network on random queries, keys and values, in float64."""
    module = ModuleType("net")
    exec(compile(source, "net", "exec"), module.__dict__)  # noqa: S102
    torch.manual_seed(seed)
    net = module.Net().double().train(training)
    q, k, v = (torch.randn(2, 2, n, 4, dtype=torch.float64) for n in (5, 6, 6))
    inputs = [each.requires_grad_() for each in (q, k, v)]
    mask = torch.rand(5, 6) > 0.4
    mask[:, 0] = True
    torch.manual_seed(seed)
    out = net(*inputs, mask)
    weights = torch.linspace(0, 1, out.numel(), dtype=torch.float64)
    (out.flatten() * weights).sum().backward()
    grads = [each.grad for each in inputs if each.grad is not None]
    return [out, *grads, *[p.grad for p in net.parameters() if p.grad is not None]]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", PLAIN)
def test_results_and_gradients_are_the_same(name: str, training: bool) -> None:
    before = program(PLAIN[name])
    after = repaired(before)
    assert "scaled_dot_product_attention" in after
    assert "softmax(" not in after.partition("def forward")[2]
    assert repaired(after) == after
    for seed in (0, 1):
        old, new = (run(text, training=training, seed=seed) for text in (before, after))
        assert len(old) == len(new) > 3
        for one, other in zip(old, new, strict=True):
            torch.testing.assert_close(other, one)


@pytest.mark.parametrize("name", STAYS)
def test_what_is_no_plain_attention_stays(name: str) -> None:
    before = program(STAYS[name])
    assert repaired(before) == before
