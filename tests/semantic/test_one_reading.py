"""What a file's comments say is looked for in its lines: libcst reads the whole text only for those
that may say it."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.checking import check
from torchlint.base.finding import Safety
from torchlint.semantic.code.spelling import Spelling

PROGRAM = """\
import torch

# Must stay below the imports, because of the seed.
SEED = 3


def train(model, loader, optimizer):
    {above}
    for x, y in loader:
        {first}
        loss = model(x.cuda()).sum(){behind}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # otherwise nothing is learned


train(model, torch.utils.data.DataLoader(samples, pin_memory=True), optimizer)
"""


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[cst.CSTNode]:
    """The nodes for which the whole text was read."""
    found: list[cst.CSTNode] = []
    learn = Spelling.learn

    def learning(self: Spelling, node: cst.CSTNode) -> None:
        found.append(node)
        learn(self, node)

    monkeypatch.setattr(Spelling, "learn", learning)
    return found


def safety(above: str = "pass", first: str = "pass", behind: str = "") -> Safety:
    """Return how safe the fix of the copy is."""
    program = PROGRAM.format(above=above, first=first, behind=behind)
    report = check(program, codes=frozenset({"TL103"}))
    (fix,) = [each.fix for each in report.findings if each.code == "TL103"]
    assert fix is not None
    return fix.safety


@pytest.mark.parametrize(
    "places",
    [
        {"first": "# the batch"},
        {"first": "# the batch\n\n        # on the device"},
        {"behind": "  # the batch"},
        {"above": "with torch.autocast('cuda'):  # must be"},
        {"first": "y = 'because'"},
    ],
)
def test_a_comment_that_gives_no_reason_costs_no_reading(
    places: dict[str, str], readings: list[cst.CSTNode]
) -> None:
    places = {
        key: f"{text}\n        pass" if "with" in text else text for key, text in places.items()
    }
    assert safety(**places) is Safety.UNSAFE
    assert not readings


@pytest.mark.parametrize(
    "places",
    [
        {"first": "# it must wait here"},
        {"first": "# it must wait here\n\n        # the batch"},
        {"behind": "  # a workaround"},
        {"behind": "; y = 1  # a workaround"},
    ],
)
def test_a_comment_that_gives_a_reason_is_found(
    places: dict[str, str], readings: list[cst.CSTNode]
) -> None:
    assert safety(**places) is Safety.SUGGESTION
    assert readings
