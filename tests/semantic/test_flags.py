"""Flags that functions hand to each other: asked once each, and not along each way."""

from __future__ import annotations

from collections import Counter

import libcst as cst
import pytest

from tests.semantic.test_heat import probe
from torchlint.semantic.code.flags import Flags
from torchlint.semantic.time.grades import Grade
from torchlint.semantic.time.heat import heat_of

LOOP = """
def train(model, loader, optimizer, epochs):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        f0(x, log={start})

def last(x, log):
    if log:
        probe()
"""


def ring(count: int, start: str, odd: str = "log") -> str:
    """Return functions that hand a flag to all the others, the last of them to what is probed."""
    lines = [LOOP.format(start=start)]
    for one in range(count):
        calls = "\n".join(
            f"    f{other}(x, {odd if (one, other) == (1, 0) else 'log'})"
            for other in range(count)
            if other != one
        )
        lines.append(f"def f{one}(x, log=False):\n{calls}\n    last(x, log)\n")
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("start", "odd", "expected"),
    [
        ("False", "log", Grade.COLD),
        ("True", "log", Grade.TRAIN),
        ("False", "True", Grade.TRAIN),  # one of the calls in the ring asks for it
    ],
)
def test_a_ring_of_functions_answers_as_its_calls_say(
    start: str, odd: str, expected: Grade
) -> None:
    module, call = probe(ring(4, start, odd))
    assert (heat_of(module, call).grade >= Grade.TRAIN) is (expected >= Grade.TRAIN)


def test_each_name_is_worked_out_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 functions there are more than 10 ** 12 ways from one to another."""
    asked: Counter[cst.CSTNode] = Counter()
    original = Flags._by_bindings

    def counted(self: Flags, bindings: list, needed: bool, **kinds: bool) -> bool:  # type: ignore[type-arg]
        asked[bindings[0].node] += 1
        assert asked[bindings[0].node] < 100
        return original(self, bindings, needed, **kinds)

    monkeypatch.setattr(Flags, "_by_bindings", counted)
    module, call = probe(ring(16, "False"))
    heat_of(module, call)
    assert len(asked) >= 16


@pytest.mark.parametrize(("asked", "grade"), [("other", Grade.TRAIN), ("third", Grade.COLD)])
def test_a_text_that_is_asked_for_says_nothing_of_another(asked: str, grade: Grade) -> None:
    """Whether one way is ever chosen rests on whether the other is."""
    source = f"""
    def train(model, loader, optimizer):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
            shown(x, {asked!r})

    def shown(x, way="fast"):
        if way == "slow":
            probe()
        if way == "other":
            shown(x, "slow")
    """
    module, call = probe(source)
    assert heat_of(module, call).grade is grade


def test_each_text_is_compared_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function that calls itself from each of its branches asks of each text once."""
    texts = [f"from_{one}" for one in range(16)]
    branches = "\n".join(
        f"    {'el' if one else ''}if kind == '{text}':\n        x = convert(x, '{texts[one - 1]}')"
        for one, text in enumerate(texts)
    )
    asked: Counter[object] = Counter()
    original = Flags._parameter

    def counting(self: Flags, param: cst.Param, needed: bool, same: str | None = None) -> bool:
        asked[needed, same] += 1
        assert asked.total() < 50 * len(texts), "asked along each way"
        return original(self, param, needed, same)

    monkeypatch.setattr(Flags, "_parameter", counting)
    loop = LOOP.partition("def last")[0].format(start="False")
    start = loop.replace("f0(x, log=False)", "convert(x, 'from_3')")
    code = (
        f"{start}\ndef convert(x, kind):\n{branches}\n    if kind == 'from_5':\n        probe()\n"
    )
    module, call = probe(code)
    assert heat_of(module, call).grade is Grade.TRAIN
    assert asked, "texts are compared"


ASKED = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x, parts=False):
        loss = x.sum()
        {test}probe()
        return loss

def fit(net, loader, optimizer, held):
    for step, x in enumerate(loader):
        loss = net(x)
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            {seldom}
        {often}

class Board:
    def note(self, net, x):
        {noted}

def look(net, x):
    {look}

{last}
"""
PARTS = {
    "test": "if parts: ",
    "seldom": "pass",
    "often": "pass",
    "look": "pass",
    "noted": "pass",
    "last": "pass",
}
GIVEN = "net(x, parts=True)"


@pytest.mark.parametrize(
    ("words", "hot"),
    [
        ({"seldom": "look(net, held)", "look": GIVEN}, False),
        ({"seldom": "Board().note(net, held)", "noted": GIVEN}, False),
        ({"noted": GIVEN, "last": "Board().note(Net(), torch.ones(3))"}, False),
        ({"last": "def main():\n    Net()(torch.ones(3), parts=True)\nmain()"}, False),
        ({"often": "look(net, x)", "look": GIVEN}, True),
        ({"seldom": "look(net, held)", "often": GIVEN, "look": GIVEN}, True),
        ({"seldom": "look(net, held)", "look": f"for x in held: {GIVEN}"}, True),
        (
            {
                "seldom": "look(net, held)",
                "look": GIVEN,
                "test": "for y in x:\n            if parts: ",
            },
            True,
        ),
        ({"last": "class Task(Unknown):\n    def note(self, x): self.net(x, parts=True)"}, True),
        ({"look": GIVEN, "last": "run(look)\nlook(1, 2)"}, True),
        ({"look": GIVEN}, True),
        ({"seldom": GIVEN, "test": "if parts or self.always: "}, True),
        ({"seldom": GIVEN, "test": "if parts and self.always: "}, False),
    ],
)
def test_what_a_call_asks_for_is_as_rare_as_the_call(words: dict[str, str], *, hot: bool) -> None:
    """A branch behind a parameter is run by the calls that give it."""
    module, call = probe(ASKED.format(**PARTS | words))
    assert heat_of(module, call).hot is hot


LOOPED = """
def run(model, loader, optimizer, log=False):
    for x, y in loader:
        loss = model(x, y)
        loss.backward()
        optimizer.step()
        if log:
            probe()

def start(model, loader, optimizer, log=False):
    run(model, loader, optimizer, log)

start(1, 2, 3, log=True)
"""


def test_a_call_that_runs_once_says_nothing_of_the_steps_in_it() -> None:
    module, call = probe(LOOPED)
    assert heat_of(module, call).train
