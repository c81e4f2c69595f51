"""Attention that the fix of TL405 fuses computes what it did: results and gradients, with masks of
all spellings, with dropout; and what is no plain attention stays."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from tests.checking import check, fixed

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
        q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1) * 2
        s = torch.bmm(q, k.transpose(1, 2)) * c**-0.5
        w = F.softmax(s, dim=2)
        return torch.bmm(w, v)
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

HEADS = """
class Heads(Net):
    def __init__(self, dim=8, heads=2):
        super().__init__(dim, heads)
        self.heads, self.other = heads, dim // heads
        self.size = dim // heads
        self.factor = self.size**-0.5
        self.root = math.sqrt(self.size)
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(dim // heads, self.size)

    def forward(self, q, k, v, mask=None):
        b, h, n, c = q.shape
        q, k, v = (each.transpose(1, 2).flatten(2) for each in (q, k, v))
        size = c
"""
"""Behind it queries, keys and values have three axes."""
SPLIT = "\n        ".join(
    f"{each} = {each}.view(b, {each}.size(1), h, {{0}}).transpose(1, 2)" for each in "qkv"
)
ATTEND = "return F.softmax(q @ k.transpose(-2, -1) {}, -1) @ v"
USUAL = {
    "views of an attribute": (SPLIT.format("self.size"), ATTEND.format("* self.size**-0.5")),
    "a factor of the constructor": (SPLIT.format("self.size"), ATTEND.format("* self.factor")),
    "a root of the constructor": (SPLIT.format("self.size"), ATTEND.format("/ self.root")),
    "views of a name": (SPLIT.format("size"), ATTEND.format("/ np.sqrt(size)")),
    "the size of a shape": (SPLIT.format("c"), ATTEND.format("/ math.sqrt(c)")),
    "a number": (SPLIT.format("4"), ATTEND.format("/ 4**0.5")),
    "asked of the queries": (
        SPLIT.format("-1"),
        "width = q.size(-1)",
        "scale = 1.0 / math.sqrt(float(width))",
        ATTEND.format("* scale"),
    ),
    "asked of the keys": (SPLIT.format("-1"), ATTEND.format("* k.shape[-1] ** (-1 / 2)")),
    "asked before they are turned": (
        "q, k, v = q.reshape(b, -1, h, c), k.reshape(b, -1, h, c), v.reshape(b, -1, h, c)",
        "width = k.shape[-1]",
        "q, v = q.permute(0, 2, 1, 3), v.transpose(1, 2)",
        "k = k.transpose(-3, -2)",
        "k = k.contiguous()",
        ATTEND.format("/ width**0.5"),
    ),
}
"""Lines of a forward whose scale is the one that the fused call takes by itself."""

UNUSUAL = {
    "another size of one shape": (SPLIT.format("c"), ATTEND.format("/ math.sqrt(h)")),
    "of another width": (SPLIT.format("-1"), ATTEND.format("/ math.sqrt(v.size(-2))")),
    "a size that is worked out": (SPLIT.format("-1"), ATTEND.format("* self.factor")),
    "of the whole width": (SPLIT.format("c"), ATTEND.format("/ math.sqrt(h * c)")),
    "a root that is multiplied by": (SPLIT.format("c"), ATTEND.format("* math.sqrt(c)")),
    "two over the root": (SPLIT.format("c"), ATTEND.format("* (2 / math.sqrt(c))")),
    "another power": (SPLIT.format("c"), ATTEND.format("* c**-0.25")),
    "another attribute": (SPLIT.format("self.size"), ATTEND.format("/ math.sqrt(self.other)")),
    "another layer": (
        SPLIT.format("c"),
        "q, k = self.one(q), self.one(k)",
        ATTEND.format("/ math.sqrt(c)"),
    ),
    "a name that is bound again": (
        SPLIT.format("size"),
        "size = 2 * size",
        ATTEND.format("/ math.sqrt(size)"),
    ),
    "a size of before": (
        "width = q.size(-1)",
        SPLIT.format("-1"),
        ATTEND.format("/ math.sqrt(width)"),
    ),
    "the last axis is another one": (
        "width = q.view(b, -1, h, c).size(-1)",
        "q, k, v = (x.view(b, -1, h, c).permute(0, 1, 3, 2) for x in (q, k[:, :5], v[:, :5]))",
        ATTEND.format("/ math.sqrt(width)"),
    ),
    "a tensor that is turned in place": (
        "width = q.size(-1)",
        "q.unsqueeze_(1)",
        "k, v = k[:, None], v[:, None]",
        ATTEND.format("/ math.sqrt(width)"),
    ),
    "bound in a loop": (
        SPLIT.format("c"),
        "for number in (c, 2):",
        "    width = number",
        ATTEND.format("/ math.sqrt(width)"),
    ),
}
"""Lines of a forward whose scale may be another one."""

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
    "einsum": """
        s = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        w = self.attend(s)
        return torch.einsum("bhij,bhjd->bhid", w, v)
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


def heads(lines: tuple[str, ...]) -> str:
    text = HEAD + "        return q\n\n" + HEADS + "".join(f"        {line}\n" for line in lines)
    return f"{text}\n\nNet = Heads\n"


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL])
def test_the_usual_scale_is_left_to_the_call(name: str) -> None:
    lines = USUAL.get(name) or UNUSUAL[name]
    before = heads(lines)
    after = repaired(before)
    assert "scaled_dot_product_attention" in after
    assert ("scale=" in after.rpartition("scaled_dot_product")[2]) is (name in UNUSUAL)
    old, new = (run(text, training=True, seed=0) for text in (before, after))
    for one, other in zip(old, new, strict=True):
        torch.testing.assert_close(other, one)


def test_what_only_the_scale_was_computed_for_goes_with_it() -> None:
    assert "width" not in repaired(heads(USUAL["asked of the queries"])).rpartition("size = c")[2]
    assert "size = c" in repaired(heads(USUAL["views of a name"]))
    lines = ("width = q.size(-1)", "if self.training:", "    scale = 1 / math.sqrt(width)")
    inner = (*lines, f"    {ATTEND.format('* scale')}", "return v")
    after = repaired(heads(inner)).rpartition("size = c")[2]
    assert "width = q.size(-1)" in after
    assert "scale" not in after.replace("scaled_dot", "")
    both = (lines[0], "scale = 1 / math.sqrt(width)", "print(width)", ATTEND.format("* scale"))
    after = repaired(heads(both)).rpartition("size = c")[2]
    assert "width = q.size(-1)\n" in after


@pytest.mark.parametrize(
    ("name", "needs"), [("one statement", "2.0"), ("one scale of another width", "2.1")]
)
def test_the_note_says_which_torch_it_needs(name: str, needs: str) -> None:
    for declared in (True, False):
        report = check(program(PLAIN[name]), codes=frozenset({"TL405"}), torch_declared=declared)
        fix = report.findings[0].fix
        assert fix is not None
        said = f"it needs torch {needs} or newer, and nothing in the project says which torch"
        assert (said in fix.note) is not declared


@pytest.mark.parametrize(("target", "count"), [((2, 0), 1), ((2, 1), 2)])
def test_a_scale_asks_for_a_torch_that_takes_one(target: tuple[int, int], count: int) -> None:
    names = ("one statement", "one scale of another width")
    codes = frozenset({"TL405"})
    found = [check(program(PLAIN[each]), codes=codes, target_torch=target) for each in names]
    assert sum(each.findings[0].fix is not None for each in found) == count
