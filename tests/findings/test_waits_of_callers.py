"""A message names the waits of the caller's iteration, and those behind a test for a GPU."""

from __future__ import annotations

import pytest

from tests.checking import check

MODULE = """\
import torch
from torch import nn


class Neurons(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.register_buffer("state", torch.zeros(n))
        self.register_buffer("rest", torch.ones(1))

    def charge(self, x):
        active = torch.logical_not(self.state > 1)
        {charge}

    def reset(self, x):
        spikes = x > 1
        self.state.masked_fill_(spikes, self.rest.item())
        return spikes

    def forward(self, x):
        {forward}
        return self.reset(x)


def train(loader, opt):
    net = Neurons(4).cuda()
    for x in loader:
        loss = net(x.cuda(non_blocking=True)).sum()
        loss.backward()
        opt.step()
"""
TRAINER = """\
import torch


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model.cuda(), optimizer
        self.losses, self.hits = [], []

    def count(self, out, y):
        found = out.argmax(1) == y
        {count}

    def note(self, loss):
        self.losses.append(loss.item())

    def fit(self, loader):
        for x, y in loader:
            x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
            out = self.model(x)
            loss = torch.nn.functional.cross_entropy(out, y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            {call}
            self.note(loss)
"""
CLOCK = """\
import time

import torch


def train(model, loader, optimizer, args, losses):
    model.cuda()
    for x, y in loader:
        start = time.time()
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if {test}:
            torch.cuda.synchronize()
        print(time.time() - start)
        losses.append(loss.item())
"""
CHARGE = "self.charge(x)"
MASKED = "self.state[active] += 1"
NONZERO = "self.hits.append(found.nonzero())"
CUDA = "torch.cuda.is_available()"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (MODULE.format(charge=MASKED, forward=CHARGE), "self.charge(x)"),
        (TRAINER.format(count=NONZERO, call="self.count(out, y)"), "self.count(out, y)"),
        (CLOCK.format(test=CUDA), "torch.cuda.synchronize()"),
        (CLOCK.format(test=f"{CUDA} and getattr(args, 'use_cuda', False)"), "synchronize()"),
        (MODULE.format(charge="return active", forward=CHARGE), ""),
        (MODULE.format(charge=MASKED, forward="x = x + 1"), ""),
        (
            MODULE.format(charge=MASKED, forward="if x.shape[0] > 3:\n            " + CHARGE),
            "",
        ),
        (TRAINER.format(count="return found", call="self.count(out, y)"), ""),
        (
            TRAINER.format(
                count=NONZERO, call="if len(y) > 9:\n                self.count(out, y)"
            ),
            "",
        ),
        (CLOCK.format(test="args.timed"), ""),
        (CLOCK.format(test=f"{CUDA} and args.timed"), ""),
        (CLOCK.format(test=f"not {CUDA}"), ""),
    ],
)
def test_what_else_the_step_waits_for_is_named(text: str, named: str) -> None:
    (found,) = check(text, codes=frozenset(("TL101",))).findings
    assert ("as well" in found.message) is bool(named)
    assert named in found.message
