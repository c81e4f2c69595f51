"""Misread kinds of library code, each with near misses: fallbacks off CUDA, waits behind an early
return, lists that `torch._foreach_*` gives, and lists that a loop reads every few steps."""

from __future__ import annotations

import pytest

from tests.findings.test_fresh_misreadings import messages

FALLBACK = """\
import torch
from torch import nn

HAS_CLUSTER = find_spec("torch_cluster") is not None
try:
    import triton
    HAS_TRITON = True
except ImportError:
    triton = None
    HAS_TRITON = False
USE_KERNEL = True


def radius_kernel(x, y):
    return kernel[(4,)](x, y)


def radius_plain(x, y):
    rows = []
    for b in torch.unique(y):
        rows.append(x[y == b].mean(0))
    return torch.stack(rows)


def radius(x, y):
    {lines}


class Net(nn.Module):
    def forward(self, x, y):
        return radius(x, y)
"""
PLAIN = "return radius_plain(x, y)"
KERNEL = "return radius_kernel(x, y)"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("if x.is_cuda:", f"    {KERNEL}", PLAIN), False),
        (("if not x.is_cuda:", f"    {PLAIN}", KERNEL), False),
        (("x = x.contiguous()", "if x.is_cuda:", f"    {KERNEL}", PLAIN), False),
        (("if x.device.type in ['cuda', 'hip']:", f"    {KERNEL}", PLAIN), False),
        (("if HAS_TRITON and x.is_cuda:", f"    {KERNEL}", PLAIN), False),
        (("if triton is not None and x.is_cuda:", f"    {KERNEL}", PLAIN), False),
        (
            (
                "if not HAS_CLUSTER and HAS_TRITON and x.device.type == 'cuda':",
                f"    {KERNEL}",
                "if not HAS_CLUSTER:",
                f"    {PLAIN}",
                "return other(x, y)",
            ),
            False,
        ),
        ((PLAIN,), True),
        (("if HAS_TRITON:", f"    {KERNEL}", PLAIN), True),
        (("if USE_KERNEL and x.is_cuda:", f"    {KERNEL}", PLAIN), True),
        (("if HAS_TRITON or x.is_cuda:", f"    {PLAIN}", KERNEL), True),
        (("if not HAS_CLUSTER and x.is_cuda:", f"    {KERNEL}", PLAIN), True),
        (("if x.is_cuda:", f"    {PLAIN}", KERNEL), True),
        (("if not x.is_cuda:", "    x = x.cuda()", "    " + PLAIN, PLAIN), True),
        (("if not x.is_cuda:", "    x = placed(x)", "    " + PLAIN, KERNEL), True),
    ],
)
def test_a_fallback_that_runs_off_cuda(lines: tuple[str, ...], said: bool) -> None:
    program = FALLBACK.format(lines="\n    ".join(lines))
    assert bool(messages(program, "TL601")) is said
    assert said or not messages(program, "TL107")


KEPT = """\
class Net(nn.Module):
    def forward(self, x: torch.Tensor, index: torch.Tensor):
        if {test}:
            {leaves}
        count = int(index.max().item()) + 1
        self.kept = torch.zeros(count, device=x.device) + x.sum()
        self.index = index.clone()
        return self.kept


net = Net().to(device)
for x, index in loader:
    out = net(x.to(device), index.to(device))
    out.sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("test", "leaves", "named"),
    [
        ("torch.equal(self.index, index)", "return self.kept", False),
        ("self.index is not None and torch.equal(self.index, index)", "return self.kept", False),
        ("(self.index == index).all()", "x = x + 1; return self.kept + x", False),
        ("torch.equal(self.index, index)", "raise ValueError(index)", True),
        ("torch.equal(self.index, index)", "x = x + 1", True),
    ],
)
def test_waits_behind_an_early_return(test: str, leaves: str, named: bool) -> None:
    found = messages(KEPT.format(test=test, leaves=leaves), "TL602")
    assert len(found) == 1
    assert ("as well" in found[0] or "so does" in found[0]) is named


FOREACH = """\
class Signs(torch.optim.Optimizer):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = [p for p in group["params"] if p.grad is not None]
            moments = [self.state[p]["moment"] for p in params]
            update(params, [p.grad for p in params], moments)


def update(params, grads, moments):
    grads = [torch.view_as_real(x) if torch.is_complex(x) else x for x in grads]
    moments = [x.cuda() for x in moments]
    updates = {made}
    {line}
    torch._foreach_add_(params, updates)
"""


@pytest.mark.parametrize(
    ("made", "line", "said"),
    [
        ("torch._foreach_mul(moments, 0.9)", "updates = tuple(u.sign_() for u in updates)", False),
        ("torch._foreach_mul(grads, 0.9)", "updates = [u.sign() for u in updates]", False),
        (
            "torch._foreach_neg(tuple(moments))",
            "updates = [u * (g > 0) for u, g in zip(updates, grads)]",
            False,
        ),
        ("torch.stack(moments)", "updates = tuple(u.sign_() for u in updates)", True),
        ("torch.cat(moments) * 0.9", "updates = [u.sign() for u in updates]", True),
    ],
)
def test_a_list_of_tensors_as_the_parameters(made: str, line: str, said: bool) -> None:
    assert bool(messages(FOREACH.format(made=made, line=line), "TL601")) is said


AVERAGED = """\
losses, times = [], []
for step, (x, y) in enumerate(loader):
    loss = criterion(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    losses.append({read})
    times.append(step)
    {lines}
print(len(losses))
"""
EVERY = "if step % 50 == 0:"


@pytest.mark.parametrize(
    ("read", "lines", "where"),
    [
        (
            "loss.data.cpu().numpy()",
            (EVERY, "    print(sum(losses) / len(losses))", "    losses, times = [], []"),
            "where `step % 50 == 0`",
        ),
        (
            "loss.detach().cpu()",
            (EVERY, "    print(torch.stack(losses).mean())", "    losses.clear()"),
            "where `step % 50 == 0`",
        ),
        (
            "loss.detach().cpu()",
            (EVERY, "    mean = sum(losses) / 50", "    losses = []"),
            "where `step % 50 == 0`",
        ),
        ("loss.detach().cpu()", (EVERY, "    print(step)"), "once after the loop"),
        ("loss.detach().cpu()", ("seen = len(times)",), "once after the loop"),
    ],
)
def test_a_list_that_is_averaged_every_few_steps(
    read: str, lines: tuple[str, ...], where: str
) -> None:
    (found,) = messages(AVERAGED.format(read=read, lines="\n    ".join(lines)), "TL113")
    assert where in found
