"""Suppressions that would not work are not written."""

from __future__ import annotations

import pytest

from tests.checking import fixed
from torchlint.base.finding import Finding, NoteKind, Severity
from torchlint.base.span import Position
from torchlint.engine.checked import Changed, Checked
from torchlint.engine.job import Silence
from torchlint.engine.suppress import silenced

AT = Position(1, 1)
FOUND = Finding("TL101", "x", "m", Severity.WARNING, "a.py", AT, AT, 1, 1, fingerprint="f")
OTHER = Finding("TL102", "y", "m", Severity.WARNING, "a.py", AT, AT, 1, 1, fingerprint="g")
WANTED = Silence(frozenset({"f"}))


def made_of(text: str, before: tuple[Finding, ...], after: tuple[Finding, ...]) -> Changed:
    """Silence `WANTED` in a text; the comments that are written turn the findings before into those
    after."""
    return silenced(text, lambda now: Checked(now, after if "ignore" in now else before), WANTED)


def test_what_is_wanted_is_silenced() -> None:
    made = made_of("x\n", (FOUND, OTHER), (OTHER,))
    assert (made.checked.text, made.checked.findings, made.count, made.notes) == (
        "x  # torchlint: ignore[TL101]\n",
        (OTHER,),
        1,
        (),
    )


def test_a_comment_that_does_not_help_is_taken_back() -> None:
    for left in ((FOUND, OTHER), (), (OTHER, OTHER)):
        made = made_of("x\n", (FOUND, OTHER), left)
        assert (made.checked.text, made.checked.findings, made.count) == ("x\n", (FOUND, OTHER), 0)
        assert [note.kind for note in made.notes] == [NoteKind.FAILED]


def test_where_python_cannot_read_the_text_nothing_is_known() -> None:
    made = made_of("x = 1 2\n", (FOUND,), ())
    assert made.checked.text == "x = 1 2\n"
    assert [note.kind for note in made.notes] == [NoteKind.FAILED]


MOVES = """\
import torch
from torch.utils.data import DataLoader


def train(model, dataset, optimizer):
    loader = DataLoader(dataset, batch_size=8, num_workers=2, pin_memory=True)
    model.cuda()
    for x, y in loader:
        x = x.cuda(){comment}
        y = y.cuda()
        loss = model(x, y).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
READS = """\
import torch


def train(model, loader, optimizer, shown):
    for x, y in loader:
        out = model(x.cuda())
        loss = torch.nn.functional.cross_entropy(out, y.cuda())
        right = (out.argmax(1) == y.cuda()).float().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        shown.losses.append(loss.item())
        shown.top.append(out.max().item())
        shown.right.append(right.item()){comment}
"""


@pytest.mark.parametrize("comment", ["# torchlint: ignore[{}] here", "# noqa: {}"])
@pytest.mark.parametrize(
    ("program", "code"), [(MOVES, "TL103"), (READS, "TL101")], ids=["copies", "reads"]
)
def test_a_fix_of_one_statement_leaves_a_silenced_one_alone(
    program: str, code: str, comment: str
) -> None:
    """Copies of one batch, and reads of one step, are repaired together."""
    given = program.format(comment="  " + comment.format(code))
    for fix in ("safe", "unsafe"):
        after = fixed(given, fix, codes=frozenset({code, "TL001"})).after
        line = next(line for line in given.split("\n") if "#" in line)
        assert not after or line in after.split("\n")
    assert fixed(program.format(comment=""), "unsafe", codes=frozenset({code})).after
