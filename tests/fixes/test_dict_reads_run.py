"""A dictionary that a step fills with numbers one by one is filled with tensors that are read at
once; programs are executed before and after, and all that they hold is the same."""

from __future__ import annotations

import pytest

from tests.checking import check, fixed
from torchlint.base.finding import Safety

torch = pytest.importorskip("torch")

from tests.executed import differences, ran  # noqa: E402 - it imports torch

CODES = frozenset({"TL101"})
HEAD = """\
from collections import OrderedDict

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(3, 1).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
criterion = nn.L1Loss()
found = []


class Trainer:
    def __init__(self):
        self.log, self.extra, self.steps = {}, True, 0

    def show(self):
        found.append(len(self.log))

    def look(self):
        found.append(dict(self.log))

    def after(self):
        self.look()

    def run(self, x, y):
"""
END = """\


trainer = Trainer()
for _ in range(3):
    x, y = torch.rand(4, 3), torch.rand(4, 1)
    trainer.run(x.cuda(), y.cuda())
    found.append(dict(trainer.log))
    trainer.extra = not trainer.extra
"""
BODY = """\
{start}
out = net(x)
loss = criterion(out, y)
self.log["loss"] = loss.item()
{between}
if self.extra:
    loss_more = 0.5 * out.exp().mean()
    self.log["more"] = loss_more.item()
    loss = loss + loss_more
optimizer.zero_grad()
loss.backward()
optimizer.step()
self.log["sum"] = loss.item()
{end}
"""


def program(start: str, between: str = "", end: str = "", body: str = BODY) -> str:
    lines = body.format(start=start, between=between, end=end).splitlines()
    return HEAD + "".join(f"        {line}\n" for line in lines if line) + END


ALWAYS = """\
{start}
out = net(x)
loss = criterion(out, y)
self.log["loss"] = loss.item()
{between}
optimizer.zero_grad()
loss.backward()
optimizer.step()
self.log["mean"] = out.mean().item()
{end}
"""
ONCE = {
    "one in a branch": program("self.log = {}"),
    "an ordered one": program("self.log = OrderedDict()"),
    "a number beside": program("self.log = {}", 'self.log["rate"] = 0.1'),
    "a text beside": program("self.log = dict()", 'self.log["name"] = "a"'),
    "looked at behind the step": program("self.log = {}", end="found.append(list(self.log))"),
    "returned": program("self.log = {}", end="return self.log"),
    "a method that does not look": program("self.log = {}", "self.steps += 1"),
    "always, in one that is older": program("pass", body=ALWAYS),
    "always, in one of the step": program("self.log = {}", body=ALWAYS),
    "copied": program("self.log = {}", body=ALWAYS.replace("loss.item()", "loss.cpu().item()")),
    "changed in place behind": program(
        "self.log = {}", body=ALWAYS.replace("optimizer.zero_grad()", "loss *= 2")
    ),
}
APART = {
    "looked at in between": program("self.log = {}", "found.append(dict(self.log))"),
    "by a method": program("self.log = {}", "self.look()"),
    "by a method of a method": program("self.log = {}", "self.after()"),
    "its length": program("self.log = {}", "self.show()"),
    "another name": program("self.log = held = {}", "found.append(dict(held))"),
    "it returns in between": program("self.log = {}", "if self.steps:\n    return"),
    "one that is older, and a branch": program("pass"),
    "of the host in some case": program(
        "self.log = {}",
        body=ALWAYS.replace(
            "self.log", "if not self.extra:\n    loss = torch.zeros(1)\nself.log", 1
        ),
    ),
    "whole numbers": program(
        "self.log = {}",
        body=ALWAYS.replace("out.mean()", "(out > 0).sum()"),
    ),
}


def named(before: str, between: str, start: str = "pass") -> str:
    """Return the program whose dictionary is a name's, with what stands before the class."""
    source = program(start, between, body=ALWAYS).replace("self.log[", "shown[")
    return source.replace("found = []\n", f"found, shown = [], {{}}\n\n\n{before}\n")


SEE = "def see():\n    found.append({})"
NAMED = {
    "by a function": (named(SEE.format("dict(shown)"), "see()"), False),
    "by a function of a function": (
        named(SEE.format("dict(shown)") + "\n\n\ndef after():\n    see()", "after()"),
        False,
    ),
    "by one within": (
        named("", "look()", "shown = {}\ndef look():\n    found.append(dict(shown))"),
        False,
    ),
    "a name of its own": (
        named("def see():\n    shown = 3\n    found.append(shown)", "see()"),
        True,
    ),
    "something else": (named(SEE.format("3"), "see()"), True),
}


@pytest.mark.parametrize(("source", "once"), NAMED.values(), ids=NAMED)
def test_a_function_may_see_the_dictionary_of_a_name(source: str, once: bool) -> None:
    after = fixed(source, "safe", codes=CODES).after
    assert ('shown["loss"], ' in after) is once
    if once:
        assert differences("found", ran(source)[0]["found"], ran(after)[0]["found"]) == []


@pytest.mark.parametrize("source", ONCE.values(), ids=ONCE)
def test_numbers_of_a_step_are_read_at_once_and_are_the_same(source: str) -> None:
    report = fixed(source, "safe", codes=CODES)
    assert ".tolist()" in report.after
    assert report.after.count(".item()") == 0
    before, after = (ran(each)[0]["found"] for each in (source, report.after))
    assert differences("found", before, after) == []


@pytest.mark.parametrize("source", APART.values(), ids=APART)
def test_what_may_see_the_dictionary_keeps_the_numbers(source: str) -> None:
    after = fixed(source, "unsafe", codes=CODES).after
    assert "values.tolist()" not in after
    assert 'self.log["loss"], ' not in after


@pytest.mark.parametrize(
    ("put", "safeties"), [("out", set()), ("unknown(out)", {Safety.UNSAFE}), ("0", {Safety.SAFE})]
)
def test_another_tensor_in_the_dictionary_would_become_a_number(
    put: str, safeties: set[Safety]
) -> None:
    source = program("self.log = {}", f'self.log["out"] = {put}')
    found = [each.fix for each in check(source, codes=CODES).findings if each.fix is not None]
    assert {each.safety for each in found} == safeties
