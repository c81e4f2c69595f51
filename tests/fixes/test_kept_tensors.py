"""What fixes keep in place of a number that a step would wait for: without ``.detach()`` where the
tensor has no graph, without ``.clone()`` where nothing changes it."""

from __future__ import annotations

import textwrap

import pytest

from tests.checking import fixed
from torchlint.semantic.uses.assumptions import ERRORS

HEAD = """
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

device = torch.device("cuda")
model = nn.Linear(4, 2).to(device)
criterion = nn.MSELoss()

"""
LOOP = """
def evaluate(loader, {given}):
    losses, total = [], 0.0
    {around}
        for x, y in loader:
            {line}
    return sum(losses) / len(losses), total
"""
LOSS = "loss = criterion(model(x.to(device)), y.to(device))"
NO_GRAD = "with torch.no_grad():"


def after(
    *lines: str,
    around: str = NO_GRAD,
    given: str = "given=None",
    before: str = "",
    code: str = "TL101",
) -> str:
    """Return a loop of an evaluation with its fixes."""
    line = textwrap.indent("\n".join(lines), " " * 12).strip()
    text = HEAD + before + LOOP.format(around=around, line=line, given=given)
    new = fixed(text, "unsafe", codes=frozenset({code})).after
    assert new not in ("", text)
    assert fixed(new, "unsafe", codes=frozenset({code})).after in ("", new)
    return new


WITHOUT = {
    "a loss of torch": (LOSS, "total += loss.item()"),
    "computed in place": (f"total += {LOSS.removeprefix('loss = ')}.item()",),
    "a function of torch": (
        "loss = F.mse_loss(model(x.to(device)), y.to(device))",
        "total += loss.item()",
    ),
    "a method": (
        "loss = (model(x.to(device)) - y.to(device)).pow(2).mean()",
        "total += loss.item()",
    ),
    "arithmetic": (LOSS, "loss = 2 * loss", "total += loss.item()"),
    "grown": (LOSS, "loss += 1.0", "total += loss.item()"),
    "seen otherwise": (LOSS, "loss = loss.float().squeeze()", "total += loss.item()"),
    "one of two": (LOSS, "if x.dim() > 2:", "    loss = loss.abs()", "total += loss.item()"),
}


@pytest.mark.parametrize("name", WITHOUT)
@pytest.mark.parametrize(
    "around",
    [NO_GRAD, "with torch.inference_mode(), torch.autocast('cuda'):"],
)
def test_what_is_computed_with_autograd_off_is_kept_as_it_is(name: str, around: str) -> None:
    new = after(*WITHOUT[name], around=around)
    assert ".double()" in new
    assert ".detach()" not in new


@pytest.mark.parametrize("decorator", ["@torch.no_grad()", "@torch.inference_mode"])
def test_a_decorator_covers_the_function(decorator: str) -> None:
    new = after(LOSS, "total += loss.item()", around="if loader:", before=decorator)
    assert "total += loss.double()" in new


def test_a_loss_of_ones_own_is_believed_where_the_project_switches_nothing_on() -> None:
    lines = (LOSS, "total += loss.item()")
    trained = (
        "def train(x, y, criterion):\n    loss = criterion(model(x), y)\n    loss.backward()\n"
    )
    assert "total += loss.double()" in after(*lines, given="criterion", before=trained)
    other = "def other():\n    with torch.enable_grad():\n        return 1\n"
    new = after(*lines, given="criterion", before=trained + other)
    assert "total += loss.detach().double()" in new


WITH = {
    "autograd is on": (("with torch.autograd.set_detect_anomaly(False):",), LOSS),
    "it is switched on": ((NO_GRAD,), "with torch.enable_grad():", f"    {LOSS}"),
    "it is switched on by a call": ((NO_GRAD,), "torch.set_grad_enabled(True)", LOSS),
    "the inner block has it on": ((NO_GRAD,), "torch.ones(1, requires_grad=True)", LOSS),
    "a flag says so": (("with torch.inference_mode(False):",), LOSS),
    "a flag may say so": (("with torch.set_grad_enabled(bool(device)):",), LOSS),
    "the result of a network": ((NO_GRAD,), "loss = model(x.to(device))"),
    "a parameter": ((NO_GRAD,), LOSS, "loss = model.bias[0]"),
    "a view of what is older": ((NO_GRAD,), LOSS, "loss = model.bias.view(-1)[0]"),
    "one of two is older": ((NO_GRAD,), LOSS, "if x.dim() > 2:", "    loss = given"),
}


@pytest.mark.parametrize("name", WITH)
def test_what_may_have_a_graph_is_detached(name: str) -> None:
    (around,), *lines = WITH[name]
    given = "given=model(torch.ones(4, device=device)).mean()"
    new = after(*lines, "total += loss.item()", around=around, given=given)
    assert "total += loss.detach()" in new


def test_a_loss_from_before_the_block_is_detached() -> None:
    line = f"{LOSS}\n{NO_GRAD}\n    total += loss.item()"
    assert "total += loss.detach()" in after(*line.split("\n"), around="if True:")


def test_what_an_expression_computes_has_no_other_name() -> None:
    loss, out = LOSS.removeprefix("loss = "), "out = model(x.to(device))"
    assert f"losses.append({loss})\n" in after(f"losses.append({loss}.item())")
    assert "append(torch.sum(out > 1) / len(x))\n" in after(
        out, "losses.append((torch.sum(out > 1) / len(x)).item())"
    )
    assert "append(2 * out.sum())\n" in after(out, "losses.append(float(2 * out.sum()))")
    assert "append(model(x.to(device)).detach().clone())\n" in after(
        "losses.append(model(x.to(device)).item())"
    )


ROWS = """
def evaluate(loader):
    rows = []
    with torch.no_grad():
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            rows.append(
                {
                    "loss": float(loss),
                }
            )
    return report(rows)
"""


def test_a_statement_of_several_lines_keeps_its_shape() -> None:
    new = fixed(HEAD + ROWS, "unsafe", codes=frozenset({"TL101"})).after
    line = ROWS[ROWS.index("            rows.append") : ROWS.index("    return")]
    line = textwrap.dedent(line).replace("(loss)", "(value)")
    assert f"in pending_rows:\n{textwrap.indent(line, ' ' * 12)}" in new


def test_lists_and_meters_too() -> None:
    assert "losses.append(loss)\n" in after(LOSS, "losses.append(loss.item())")
    assert "losses.append(loss)\n" in after(LOSS, "losses.append(loss.cpu())", code="TL113")
    assert "total += loss\n" in after(LOSS, "total += loss.cpu()", code="TL113")


STEP = """
def train(loader, optimizer):
    losses = []
    for x, y in loader:
        {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().cpu())
        {then}
    return {{"first": losses[0], "mean": torch.mean(torch.stack(losses))}}
"""
PLAIN = "loss = F.mse_loss(model(x.to(device)), y.to(device))"


def collected(loss: str = PLAIN, then: str = "pass") -> str:
    text = HEAD + STEP.format(loss=loss, then=then)
    return fixed(text, "unsafe", codes=frozenset({"TL113"})).after.rpartition("append(")[2]


@pytest.mark.parametrize(
    "loss", [PLAIN, LOSS, f"{PLAIN} + 1", f"{PLAIN}.sum()", f"{PLAIN}\n        print(loss.isnan())"]
)
def test_what_each_iteration_makes_anew_is_not_cloned(loss: str) -> None:
    assert collected(loss).startswith("loss.detach())\n")


@pytest.mark.parametrize(
    ("loss", "then"),
    [
        (PLAIN, "loss.mul_(2)"),
        (PLAIN, "loss /= 2"),
        (PLAIN, "loss.data.zero_()"),
        (PLAIN, "loss[...] = 0"),
        (PLAIN, "dist.all_reduce(loss)"),
        (PLAIN, "torch.abs(loss, out=loss)"),
        ("loss = model.loss", "pass"),
        ("loss = compiled(x.to(device)).loss", "pass"),
    ],
)
def test_what_may_change_is_cloned(loss: str, then: str) -> None:
    assert collected(loss, then).startswith("loss.detach().clone())\n")


SECOND_NAMES = [
    "total = loss\n        total += 1",
    "total: object = loss\n        total += 1",
    "if (total := loss) is None:\n            break\n        total += 1",
    "total, n = loss, 1\n        total += n",
    "total = loss if len(x) else 0\n        total += 1",
    "self.total = loss\n        self.total += 1",
    'parts = {"loss": loss}\n        parts["loss"] *= 2',
    "parts = [loss]\n        for part in parts:\n            part.mul_(2)",
]
NOTHING_CHANGED = [
    "total = loss",
    "total = loss\n        total = total + 1",
    "total = 2 * loss\n        total += 1",
    "total = loss if len(x) else 0\n        n = 0\n        n += 1",
    "total = loss\n        nn.utils.clip_grad_norm_(model.parameters(), 1)",
    "total = loss\n        n = len(x)\n        n += 1\n        scaler.unscale_(optimizer)",
]


@pytest.mark.parametrize("then", SECOND_NAMES)
def test_what_may_change_by_a_second_name_is_cloned(then: str) -> None:
    assert collected(then=then).startswith("loss.detach().clone())\n")
    line = "losses.append(loss.item())\n" + then.replace("\n        ", "\n")
    assert "losses.append(loss.clone())" in after(LOSS, *line.split("\n"))


@pytest.mark.parametrize("then", NOTHING_CHANGED)
def test_a_second_name_alone_changes_nothing(then: str) -> None:
    assert collected(then=then).startswith("loss.detach())\n")
    line = "losses.append(loss.item())\n" + then.replace("\n        ", "\n")
    assert "losses.append(loss)\n" in after(LOSS, *line.split("\n"))


@pytest.mark.parametrize("step", ["loss *= 2", "loss /= 2", "loss.add_(1)"])
def test_a_number_that_changes_behind_its_read_is_cloned(step: str) -> None:
    assert "losses.append(loss.clone())" in after(LOSS, "losses.append(loss.item())", step)
    before = after(LOSS, step, "losses.append(loss.item())")
    assert ("losses.append(loss)\n" in before) is ("=" in step)


HELD = """
def train(loader, optimizer):
    {made}
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
    return kept
"""


@pytest.mark.parametrize(
    ("made", "line", "raises"),
    [
        ('kept = {"loss": 0.0}', 'kept["loss"] += loss.item()', False),
        ('kept = {"loss": []}', 'kept["loss"].append(loss.item())', False),
        ('kept, rest = {"loss": 0.0}, []', 'kept["loss"] += loss.item()', False),
        ('kept = {"loss": 0.0}', 'kept["los"] += loss.item()', True),
        ('kept = {"loss": {}}', 'kept["loss"]["first"] += loss.item()', True),
        ("kept = [0.0]", "kept[0] += loss.item()", True),
    ],
)
def test_a_key_that_a_dictionary_is_made_with_raises_nothing(
    made: str, line: str, raises: bool
) -> None:
    text = HEAD + HELD.format(made=made, line=line)
    codes = frozenset({"TL101"})
    report = fixed(text, "safe", codes=codes)
    assert "pending_kept" in report.after
    assert [ERRORS in each.assumes for each in report.fixes] == [raises]
