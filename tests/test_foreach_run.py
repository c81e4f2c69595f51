"""Loops over parameters that TL510 gives to ``torch._foreach_*`` are executed before and after:
parameters, gradients, buffers and what else refers to them end as they did, up to the rounding
that the note tells."""

from __future__ import annotations

from typing import Any

import pytest

from tests.checking import check, fixed
from torchlint.engine.overlaps import spliced

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL510"})
HEAD = """\
import copy
import torch
from torch import nn

torch.manual_seed(0)
fast = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
slow = copy.deepcopy(fast)
first = copy.deepcopy(slow.state_dict())
aliases = [p.data for p in slow.parameters()]
optimizer = torch.optim.SGD(fast.parameters(), lr=0.1)
loader = [torch.randn(5, 4) for _ in range(4)]
rate, most = 0.1, 0.01
seen = []


"""
STEP = """\
for x in loader:
    optimizer.zero_grad()
    fast(x).square().mean().backward()
"""
LONG = "scale_of_the_gradients_of_all_the_layers_before_the_optimizer_steps"
"""Longer than what a message shows."""
ZIP = "for a, b in zip(slow.parameters(), fast.parameters()):\n"


def step(body: str, behind: str = "") -> str:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{STEP}{lines}    optimizer.step()\n{behind}"


EXACT = {
    "its variable deleted": step("for p in fast.parameters():\n    p.grad.mul_(0.5)\ndel p\n"),
    "its variable seen by a closure": "def last():\n    return p.shape\n\n\n"
    + step("for p in fast.parameters():\n    p.grad.mul_(0.5)\n", "print(last())\n"),
    "mul and add": step(ZIP + "    a.data.mul_(1 - rate).add_(b.data, alpha=rate)\n"),
    "numbers that a message cuts": step(
        f"{LONG} = 2.0\nfor p in fast.parameters():\n    p.grad.mul_({LONG} * 0.25)\n"
    ),
    "names that a message cuts": step(
        f"for {LONG} in fast.parameters():\n    {LONG}.grad /= 4\n    {LONG}.data.mul_(rate)\n"
    ),
    "a bound that a message cuts": step(
        f"{LONG} = 0.01\nfor p in fast.parameters():\n    p.data.clamp_(min=-1 * {LONG})\n"
    ),
    "two statements": step(
        ZIP + "    a.data.mul_(1 - rate)\n    a.data.add_(b.data, alpha=rate)\n"
    ),
    "no data": step(
        "with torch.no_grad():\n    for a, b in zip(slow.parameters(), fast.parameters()):\n"
        "        a *= 1 - rate\n        a.add_(b, alpha=rate)\n"
    ),
    "lerp": step(ZIP + "    a.data.lerp_(b.data, rate)\n"),
    "copy": step(ZIP + "    a.data.copy_(b.data)\n"),
    "gradients divided": step("for p in fast.parameters():\n    p.grad /= 4\n"),
    "gradients, a number on the device": step(
        "scale = torch.tensor(0.25)\nfor p in fast.parameters():\n    p.grad.mul_(scale)\n"
    ),
    "clipped to bounds of their own": step(
        "for p in fast.parameters():\n    p.grad.data.clamp_(-most, 2 * most)\n"
    ),
    "none is there": step(
        "for p in slow.parameters():\n    if p.grad is not None:\n        p.grad.mul_(rate)\n"
    ),
    "one line": step("for p in fast.parameters():\n    if p.grad is not None: p.grad.mul_(rate)\n"),
    "one line each": step("for p in fast.parameters(): p.data.clamp_(-most, most)\n"),
    "continue": step(
        "for p in fast.parameters():\n    if p.grad is None:\n        continue\n"
        "    p.grad.mul_(rate)\n"
    ),
    "a comment": step("for p in fast.parameters():  # all\n    # halved\n    p.grad.mul_(0.5)\n"),
    "one bound": step("for p in fast.parameters():\n    p.data.clamp_(min=-most)\n"),
    "by names": step(
        "table = dict(slow.named_parameters())\nfor name, p in fast.named_parameters():\n"
        "    table[name].data.lerp_(p.data, rate)\n"
    ),
    "forth and back": step(ZIP + "    a.data.lerp_(b.data, rate)\n    b.data.copy_(a.data)\n"),
    "floats of a state": step(
        "state = fast.state_dict()\nfor k, v in slow.state_dict().items():\n"
        "    if v.dtype.is_floating_point:\n"
        "        v.mul_(0.9).add_(state[k].detach(), alpha=0.1)\n"
    ),
    "the last one is read": step(
        "for p in fast.parameters():\n    p.grad.mul_(0.5)\nseen.append(p.shape)\n"
    ),
    "zeroed": step("for p in fast.parameters():\n    p.grad.mul_(rate)\n    p.grad.zero_()\n"),
    "in a method": "class Average:\n    def __init__(self, net):\n"
    "        self.shadow = {k: p.data.clone() for k, p in net.named_parameters()}\n\n"
    "    def update(self, net):\n        for k, p in net.named_parameters():\n"
    "            self.shadow[k].lerp_(p.data, rate)\n\n\naverage = Average(fast)\n"
    + step("average.update(fast)\n", "print([v.sum().item() for v in average.shadow.values()])\n"),
    "a generator": "def updates():\n    for x in loader:\n        optimizer.zero_grad()\n"
    "        fast(x).square().mean().backward()\n        for p in fast.parameters():\n"
    "            p.grad.mul_(0.5)\n        optimizer.step()\n        yield p.shape\n\n\n"
    "seen.extend(updates())\n",
}
CLIPPED = {
    "gradients that are there": step(
        "for p in fast.parameters():\n    if p.grad is not None and p.requires_grad:\n"
        "        p.grad.data.clamp_(-most, most)\n"
    ),
    "a bound and a network that a message cuts": f"{LONG}, {LONG}_net = 0.01, fast\n"
    + step(
        f"for p in {LONG}_net.parameters():\n    if p.grad is not None and p.requires_grad:\n"
        f"        p.grad.data.clamp_(-{LONG}, {LONG})\n"
    ),
    "by groups": step(
        "for group in optimizer.param_groups:\n    for p in group['params']:\n"
        "        if p.grad is not None:\n            p.grad.data.clamp_(-most, most)\n"
    ),
    "those without a gradient passed over": step(
        "for p in fast.parameters():\n    if p.grad is None:\n"
        "        continue\n    p.grad.clamp_(min=-most, max=most)\n"
    ),
}
ROUNDED = {
    "a mixture is copied": step(ZIP + "    a.data.copy_(a.data * (1.0 - rate) + b.data * rate)\n"),
    "the other way": step(ZIP + "    a.data.copy_(rate * b.data + (1 - rate) * a.data)\n"),
    "a product is added": step(ZIP + "    a.data.mul_(0.9)\n    a.data += 0.1 * b.data\n"),
    "gradient descent": step(
        "for p in fast.parameters():\n    p.data -= rate * p.grad\n"
        "for p in fast.parameters():\n    p.data.add_(p.grad, alpha=-rate)\n"
    ),
}
LONGER = {
    "data is bound anew": step(ZIP + "    a.data = a.data * 0.9 + b.data * (1 - 0.9)\n"),
    "a table is bound anew": "shadow = {k: p.data for k, p in slow.named_parameters()}\n"
    + step(
        "for k, p in fast.named_parameters():\n    assert k in shadow\n"
        "    mixed = 0.1 * p.data + 0.9 * shadow[k]\n    shadow[k] = mixed.clone()\n",
        "print(sum(v.sum() for v in shadow.values()).item() - 1e-9 > -1e9)\n"
        "seen.extend(shadow.values())\n",
    ),
}
LEFT = {
    "a copy that does not wait": step(
        "with torch.no_grad():\n    for a, b in zip(slow.parameters(), fast.parameters()):\n"
        "        a.copy_(b, non_blocking=True)\n"
    ),
    "in the body of a class": "fast(loader[0]).sum().backward()\nclass Space:\n"
    "    for p in fast.parameters():\n        p.grad.mul_(0.5)\n",
    "a number for each": step(
        "for i, p in enumerate(fast.parameters()):\n    p.grad.mul_(1 / (i + 1))\n"
    ),
    "drawn for each": step(
        "import random\nfor p in fast.parameters():\n    p.grad.mul_(random.random())\n"
    ),
    "else": step("for p in fast.parameters():\n    p.grad.mul_(0.5)\nelse:\n    seen.append(1)\n"),
    "break": step(
        "for p in fast.parameters():\n    if p.dim() > 1:\n        break\n    p.grad.mul_(0.5)\n"
    ),
    "one way or the other": step(
        "for p in fast.parameters():\n    if p.dim() > 1:\n        p.grad.mul_(0.5)\n"
        "    else:\n        p.grad.mul_(0.1)\n"
    ),
    "shown in between": step(
        "for p in fast.parameters():\n    p.grad.mul_(0.5)\n    seen.append(p.grad.sum())\n"
    ),
    "a vector for all": step(
        "scale = torch.ones(1, 1)\nfor p in fast.parameters():\n    p.grad.mul_(scale)\n"
    ),
}


BARE = HEAD.replace(
    "fast = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))",
    "fast, last = nn.Sequential(nn.ReLU()), nn.Linear(4, 2)",
).replace("SGD(fast", "SGD(last")
BARE_STEP = """\
for x in loader:
    optimizer.zero_grad()
    last(fast(x)).square().mean().backward()
    for {loop}
    optimizer.step()
"""
EMPTY = {
    "an average": "a, b in zip(slow.parameters(), fast.parameters()):\n"
    "        a.data.mul_(1 - rate).add_(b.data, alpha=rate)",
    "gradients scaled": "p in fast.parameters():\n        p.grad.mul_(rate)",
    "copied under a comment": "a, b in zip(slow.parameters(), fast.parameters()):\n"
    "        # as it is\n        a.data.copy_(b.data)",
    "clipped": "p in fast.parameters():\n        p.grad.data.clamp_(-most, most)",
    "clipped, none with a gradient": "p in slow.parameters():\n"
    "        if p.grad is not None:\n            p.grad.data.clamp_(-most, most)",
}


def ended(source: str) -> tuple[str, list[Any]]:
    names, out = ran(source)
    kept = [*names["fast"].state_dict().values(), *names["slow"].state_dict().values()]
    grads = [p.grad for p in (*names["fast"].parameters(), *names["slow"].parameters())]
    return out, [*kept, *grads, *names["aliases"], *names["seen"], torch.rand(1)]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=CODES).after or source


def same(source: str, after: str, exact: bool) -> None:
    (old, before), (new, behind) = ended(source), ended(after)
    assert old == new
    assert len(before) == len(behind)
    for one, two in zip(before, behind, strict=True):
        if not isinstance(one, torch.Tensor):
            assert one == two
            continue
        assert one.dtype == two.dtype
        assert one.requires_grad == two.requires_grad
        bound = {"rtol": 0, "atol": 0} if exact else {"rtol": 1e-5, "atol": 1e-6}
        torch.testing.assert_close(one, two, **bound)


@pytest.mark.parametrize("name", CLIPPED)
def test_clipping_is_that_of_torch(name: str) -> None:
    source = HEAD + CLIPPED[name]
    after = changed(source)
    assert "torch.nn.utils.clip_grad_value_(" in after
    assert "clamp" not in after
    same(source, after, exact=True)


@pytest.mark.parametrize("name", EMPTY)
def test_a_network_without_parameters_does_nothing(name: str) -> None:
    source = BARE + BARE_STEP.format(loop=EMPTY[name])
    after = changed(source)
    assert "_foreach_" in after or "clip_grad_value_" in after, after
    same(source, after, exact=True)


def test_clipping_says_what_it_does_not_ask() -> None:
    loop = "for p in fast.parameters():\n    p.grad.clamp_(-most, most)\n"
    found = check(HEAD + step(loop), codes=CODES).findings
    note = found[0].fix.note if found[0].fix else ""
    assert "create_graph=True" in note
    assert "is left out, where the loop raised" in note


@pytest.mark.parametrize("filler", ["", f"{LONG}_", f"{LONG}_{LONG}_"])
def test_the_note_of_long_names_says_as_much(filler: str) -> None:
    one, two = f"a_{filler}net", f"b_{filler}net"
    loop = (
        f"for a, b in zip({one}.parameters(), {two}.parameters()):\n"
        "    a.grad.mul_(rate)\n    b.grad.mul_(rate)\n"
    )
    found = check(f"{HEAD}{one}, {two} = slow, fast\n{step(loop)}", codes=CODES).findings
    note = found[0].fix.note if found[0].fix else ""
    assert "where zip stopped at the end of the shorter" in note
    assert "list of gradients keeps them in memory" in note
    assert "tied weights" not in note


@pytest.mark.parametrize("name", LONGER)
def test_what_gets_much_longer_is_only_suggested(name: str) -> None:
    source = HEAD + LONGER[name]
    assert changed(source) == source
    found = [each for each in check(source, codes=CODES).findings if each.fix is not None]
    after = spliced(source, found[0].fix.edits if found[0].fix else ())
    assert "_foreach_" in after
    same(source, after, exact=False)


@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_all_at_once_gives_the_same(name: str) -> None:
    source = HEAD + {**EXACT, **ROUNDED}[name]
    after = changed(source)
    assert "_foreach_" in after, after
    assert after.count("_foreach_") >= source.count("for p in") - 1
    same(source, after, name in EXACT)
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", ROUNDED)
def test_the_note_tells_of_rounding(name: str) -> None:
    notes = [
        each.fix.note for each in check(HEAD + ROUNDED[name], codes=CODES).findings if each.fix
    ]
    assert notes
    assert any("rounded differently" in note for note in notes)


@pytest.mark.parametrize("name", LEFT)
def test_what_differs_from_tensor_to_tensor_stays(name: str) -> None:
    source = HEAD + LEFT[name]
    assert changed(source) == source


@pytest.mark.parametrize(("target", "expected"), [((2, 0), False), ((2, 1), True)])
def test_copies_need_the_torch_that_brought_them(target: tuple[int, int], expected: bool) -> None:
    found = check(HEAD + EXACT["copy"], codes=CODES, target_torch=target).findings
    assert [each.fix is not None for each in found] == [True] * expected


@pytest.mark.parametrize("name", ["lerp", "gradients divided"])
def test_what_an_older_torch_has_is_asked_for(name: str) -> None:
    source = HEAD + {**EXACT, **ROUNDED}[name]
    assert check(source, codes=CODES, target_torch=(2, 0)).findings


PLAIN = """
def train(net, loader, sgd, most, coefficient):
    net.cuda()
    for x in loader:
        net(x.cuda()).mean().backward()
        for p in net.parameters():
            if p.grad is not None:
                {}
        sgd.step()
"""
REMEDIES = [
    ("p.grad.data.clamp_(-1, 1)", "clip_grad_value_"),
    ("p.grad.clamp_(max=most)", "clip_grad_value_"),
    ("torch.nn.utils.clip_grad_value_(p, most)", "clip_grad_value_"),
    ("torch.nn.utils.clip_grad_norm_(p, most)", "torch._foreach_norm"),
    ("p.grad.mul_(coefficient)", "torch._foreach_mul_"),
    ("p.grad.data /= coefficient", "torch._foreach_mul_"),
    ("p.grad = p.grad * coefficient", "torch._foreach_mul_"),
    ("p.grad.add_(p.data, alpha=most)", "torch._foreach_*"),
    ("p.grad = p.grad + coefficient * p.data", "torch._foreach_*"),
    ("p.grad.mul_(coefficient).clamp_(-1, 1)", "torch._foreach_*"),
]
NAMED = ("clip_grad_value_", "clip_grad_norm_", "_foreach_mul_", "_foreach_norm")


@pytest.mark.parametrize(("line", "remedy"), REMEDIES)
def test_the_remedy_computes_what_the_loop_does_to_gradients(line: str, remedy: str) -> None:
    (found,) = check(HEAD + PLAIN.format(line), codes=CODES).findings
    assert remedy in found.message
    if remedy in ("clip_grad_value_", "torch._foreach_*"):
        others = [each for each in NAMED if each not in remedy]
        assert not any(each in found.message for each in others)
