"""Findings of one statement and of one cause: repaired whole or not at all, and told once."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import check, fixed

_HEAD = """import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(8, 3).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader([torch.ones(8)], batch_size=2)
rows = []
"""
_STEP = """
for x, y in loader:
    out = model(x.to(device))
    loss = criterion(out, y.to(device))
    loss.backward()
    optimizer.step()
    {}
print(rows)
"""
_FUNCTION = """
def step(x, y, short):
    out = model(x)
    loss = criterion(out, y)
    loss.backward()
    optimizer.step()
    return {}


for x, y in loader:
    print(step(x.to(device), y.to(device), len(x) > 2))
"""
_EVALUATION = """
def validate(model, loader):
    model.eval()
    total, outs = 0.0, []
    for x, y in loader:
        {}
    print(float(total), len(outs))
"""
_WAITS = frozenset(("TL101", "TL102", "TL105", "TL113", "TL604"))


def program(frame: str, line: str) -> str:
    """Return a whole program with one line, or several, in its frame."""
    depth = " " * (frame[: frame.index("{}")].rpartition("\n")[2].count(" "))
    body = textwrap.indent(textwrap.dedent(line), depth).lstrip()
    return _HEAD + frame.replace("{}", body)


def told(source: str, codes: frozenset[str] = _WAITS) -> list[tuple[str, str]]:
    """Return code and source of each finding of a program."""
    lines = source.split("\n")
    return [
        (each.code, lines[each.start.row - 1][each.start.column - 1 : each.end.column - 1])
        for each in check(source, codes=codes).findings
    ]


NORM = "out.detach().norm().item()"
TOP = "out.detach().mean().item()"
HALVES = {
    "a number that makes a range": (
        _FUNCTION,
        f"loss.item(), {NORM}, {TOP}, range(int(out.argmax()))",
    ),
    "a copy of another rule": (
        _FUNCTION,
        f'{{"loss": loss.item(), "norm": {NORM}, "top": {TOP}, '
        '"rows": out.detach().cpu().numpy()}',
    ),
    "a copy for each element": (
        _STEP,
        "rows += [(str(t.item()), str(out.cpu())) for t in out.argmax(1)]",
    ),
}


@pytest.mark.parametrize(("frame", "line"), HALVES.values(), ids=HALVES)
def test_no_fix_mends_half_of_a_statement(frame: str, line: str) -> None:
    source = program(frame, line)
    fixes = [each.fix for each in check(source, codes=_WAITS).findings if each.fix is not None]
    assert fixes
    assert {fix.safety.value for fix in fixes} == {"suggestion"}
    assert fixed(source, "unsafe", codes=_WAITS).after in ("", source)


WHOLE = {
    "a part among scalars": (
        _STEP,
        "rows.append((loss.item(), out.norm().item(), out[0].argmax().item()))",
    ),
    "all reads have fixes": (_FUNCTION, f"loss.item(), {NORM}, {TOP}"),
    "only one of the arms runs": (
        _FUNCTION,
        f"(loss.item(), {NORM}, {TOP}) if short else range(int(out.argmax()))",
    ),
    "another statement of the line": (
        _FUNCTION,
        f"loss.item(), {NORM}, {TOP}; rows.append(out.cpu().numpy())",
    ),
    "a copy beside reads of each element": (
        _STEP,
        "rows.append(([t.item() for t in out.argmax(1)], str(out.cpu())))",
    ),
}


@pytest.mark.parametrize(("frame", "line"), WHOLE.values(), ids=WHOLE)
def test_what_is_mended_whole_or_gains_alone_keeps_its_fix(frame: str, line: str) -> None:
    found = check(program(frame, line), codes=_WAITS).findings
    assert any(each.fix is not None and each.fix.safety.value != "suggestion" for each in found)


SAME = {
    "in what a step gives back": (_FUNCTION, "loss.item(), float(loss)", "loss.item()"),
    "printed": (_STEP, "print(loss.item(), loss.item())", "loss.item()"),
    "of a detached copy": (
        _STEP,
        "rows.append((loss.item(), loss.detach().item()))",
        "loss.item()",
    ),
    "as a number and as an array": (
        _STEP,
        "rows.append((float(loss.cpu()), loss.cpu().numpy()))",
        "float(loss.cpu())",
    ),
    "copied and taken apart": (_STEP, "rows.append((out.cpu(), out.cpu().numpy()))", "out.cpu()"),
    "for each element": (
        _STEP,
        "rows += [(str(t.item()), t.item()) for t in out.argmax(1)]",
        "t.item()",
    ),
}


@pytest.mark.parametrize(("frame", "line", "first"), SAME.values(), ids=SAME)
def test_one_value_of_a_statement_is_one_finding(frame: str, line: str, first: str) -> None:
    assert [text for _, text in told(program(frame, line))] == [first]


INDEXED = {
    "rows of two tensors": (
        "keep = range(2)\nrows.append(criterion(out[keep], y.to(device)[keep]))",
        "out[keep]",
    ),
    "the same rows written and read": ("keep = [2, 0, 1]\nout[keep] = out[keep] * 2", "out[keep]"),
    "rows of an array": (
        "keep = np.flatnonzero(labels)\nrows.append(out[keep].sum() + out.exp()[keep].sum())",
        "out[keep]",
    ),
}


@pytest.mark.parametrize(("line", "first"), INDEXED.values(), ids=INDEXED)
def test_one_index_of_a_statement_is_one_finding(line: str, first: str) -> None:
    found = told("import numpy as np\n" + program(_STEP, line), frozenset(("TL102",)))
    assert [text for _, text in found] == [first]


OTHER = {
    "two indices": (_STEP, "i, j = [2, 0], [1, 2]\nrows.append(out[i].sum() + out[j].sum())"),
    "other values": (_STEP, "print(loss.item(), out.max().item())"),
    "another draw": (_STEP, "rows.append((pick(out).cpu(), pick(out).cpu()))"),
    "another element": (_STEP, "rows.append((out[0].cpu().numpy(), out[1].cpu().numpy()))"),
    "the loops of two comprehensions": (
        _STEP,
        "rows.append([t.item() for t in out.argmax(1)] + [t.item() for t in y.to(device)])",
    ),
    "other statements": (_STEP, "rows.append(loss.item())\nrows.append(loss.item())"),
}


@pytest.mark.parametrize(("frame", "line"), OTHER.values(), ids=OTHER)
def test_two_causes_are_two_findings(frame: str, line: str) -> None:
    assert len(told(program(frame, line))) == 2


def test_a_bound_beside_what_it_cuts_is_one_finding() -> None:
    """The copy waits all the same, so that a bound on the device costs nothing more."""
    found = told(program(_STEP, "rows.append(out[: out.argmax()].cpu().numpy())"))
    assert found == [("TL113", "out[: out.argmax()].cpu()")]


def test_the_fix_of_a_value_that_is_read_twice_mends_both_places() -> None:
    source = program(_STEP, "rows.append((loss.item(), loss.item()))")
    (found,) = check(source, codes=_WAITS).findings
    assert found.fix is not None
    after = fixed(source, "unsafe").after
    assert "pending_rows.append(loss.detach())\nfor value in pending_rows:" in after
    assert "rows.append((value.item(), value.item()))" in after


GRAPHS = frozenset(("TL501", "TL502"))
KEPT = {
    "a sum": "total += criterion(model(x.to(device)), y.to(device))",
    "a list under a name": "out = model(x.to(device))\nouts.append(out)",
    "a loss of an output": (
        "out = model(x.to(device))\nloss = criterion(out, y.to(device))\ntotal = total + loss"
    ),
}


@pytest.mark.parametrize("line", KEPT.values(), ids=KEPT)
def test_a_graph_kept_in_an_evaluation_is_a_missing_no_grad(line: str) -> None:
    source = program(_EVALUATION, line)
    assert [code for code, _ in told(source, GRAPHS)] == ["TL501"]
    assert told(source, frozenset(("TL502",))) == []


def test_a_graph_kept_in_training_is_told_beside_an_evaluation() -> None:
    training = program(_STEP, "rows.append(loss)")
    both = training + _EVALUATION.replace("{}", "total += criterion(model(x), y)")
    assert [code for code, _ in told(both, GRAPHS)] == ["TL502", "TL501"]


def test_two_graphs_kept_in_one_loop_are_two_findings() -> None:
    source = program("\ntotal = 0.0" + _STEP, "rows.append(loss)\ntotal += loss")
    assert [code for code, _ in told(source, GRAPHS)] == ["TL502", "TL502"]
