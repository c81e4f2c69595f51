"""Fixes of what one step waits for: those that stand beside each other are one, and what gains
nothing as another wait stays, or as nothing runs the code, is only shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, fixed, job
from torchlint.base.finding import Finding, Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

SAFE, UNSAFE, SHOWN = Safety.SAFE, Safety.UNSAFE, Safety.SUGGESTION

HEAD = """\
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

device = torch.device("cuda")
model = nn.Linear(8, 2).to(device)
criterion = nn.CrossEntropyLoss()


"""
EVALUATE = (
    HEAD
    + """\
def evaluate(loader: DataLoader, write):
    total, correct, n = 0.0, 0, 0
    losses, names = [], []
    with torch.no_grad():
        for x, y in loader:
            x = x.to(device)
            y = y.to(device)
            out = model(x)
            loss = criterion(out, y)
            {lines}
    return total, correct, losses, names


evaluate(DataLoader(torch.load("data"), num_workers=2, pin_memory=True), print)
"""
)
SUM = "total += loss.item()"
COUNT = "correct += (out.argmax(1) == y).sum().item()"
LIST = "losses.append(loss.item())"


def found(text: str, code: str) -> list[Finding]:
    return list(check(text, codes=frozenset({code}), name="train.py").findings)


def evaluated(*lines: str) -> str:
    return EVALUATE.format(lines="\n            ".join(lines))


@pytest.mark.parametrize("lines", [(SUM, COUNT), (COUNT, LIST), (SUM, COUNT, LIST)])
def test_reads_of_one_step_have_one_fix(lines: tuple[str, ...]) -> None:
    text = evaluated(*lines)
    reads = found(text, "TL101")
    fixes = {each.fix for each in reads}
    assert len(reads) == len(lines)
    assert len(fixes) == 1
    whole = fixes.pop()
    assert whole is not None
    assert whole.safety is SAFE
    after = fixed(text, "safe", codes=frozenset({"TL101"})).after
    assert ".item()" not in after.replace("value.item() for value", "")
    assert all(edit.text in after for edit in whole.edits)


def test_one_fix_says_each_thing_once() -> None:
    lines = ("print(loss.item())", "n += 1", "print(out.mean().item())")
    text = evaluated(*lines).replace("with torch.no_grad():", "if True:")
    text = text.replace("loss = criterion(out, y)", "loss = criterion(out, y); loss.backward()")
    fixes = {each.fix for each in found(text, "TL105")}
    notes = [each.note for each in fixes if each is not None]
    assert len(notes) == 1
    clauses = notes[0].lower().removesuffix(".").split("; ")
    assert len(clauses) == len(set(clauses)) > 1


@pytest.mark.parametrize(
    "lines",
    [
        (SUM, "for _ in range(len(x)):\n                correct += out.argmax(1).sum().item()"),
        (SUM, "if torch.isnan(loss): raise OverflowError"),
        (SUM, COUNT + "  # torchlint: ignore[TL101] asked for"),
    ],
)
def test_what_is_of_another_step_or_stays_has_its_own(lines: tuple[str, ...]) -> None:
    reads = found(evaluated(*lines), "TL101")
    safe = {each.fix for each in reads if each.fix is not None and each.fix.safety is SAFE}
    assert all(len([e for e in fix.edits if "\n" in e.text]) < 2 for fix in safe)


NEEDED = "if torch.isnan(loss): raise OverflowError"
FILLED = (
    "if n == 0:\n                names = y.cpu().numpy()\n            else:\n"
    "                names = np.append(names, y.cpu().numpy(), axis=0)\n            n += 1"
)
ONE_ARM = "if write:\n                names = np.append(names, y.cpu().numpy(), axis=0)"


@pytest.mark.parametrize(
    ("line", "code", "shown"),
    [
        (FILLED, "TL113", True),
        ("write(y.cpu().numpy())", "TL113", True),
        (ONE_ARM, "TL113", False),
        ("n += 1", "TL113", False),
    ],
)
def test_a_copy_beside_one_that_either_arm_makes_is_only_shown(
    line: str, code: str, shown: bool
) -> None:
    text = evaluated("losses.append(loss.detach().cpu())", line)
    (own,) = [each for each in found(text, code) if "loss" in each.message.partition(" ")[0]]
    assert own.fix is not None
    assert (own.fix.safety is SHOWN) is shown


PARTS = """\
def write(loader: DataLoader, limit, show):
    with torch.no_grad():
        for x, names in loader:
            x = x.to(device)
            out = model(x)
            for i in range(len(names)):
                {lines}


write(DataLoader(torch.load("data"), num_workers=2, pin_memory=True), 5, print)
"""
SHOW = "show(out[i].cpu().numpy())"
SHOW_BOTH = "show(out[i].cpu().numpy(), x[i].cpu().numpy())"


@pytest.mark.parametrize(
    ("line", "safety", "copies"),
    [
        (SHOW, UNSAFE, ["out_host"]),
        (SHOW_BOTH, UNSAFE, ["out_host", "x_host"]),
        (f"if i < limit:\n                    {SHOW}", SHOWN, ["out_host"]),
        (f"if i < limit:\n                    {SHOW_BOTH}", SHOWN, ["out_host", "x_host"]),
        (
            f"if i == limit:\n                    break\n                {SHOW}",
            UNSAFE,
            ["out_host"],
        ),
    ],
)
def test_parts_that_a_loop_copies_are_copied_at_once_where_it_copies_all(
    line: str, safety: Safety, copies: list[str]
) -> None:
    made = {each.fix for each in found(HEAD + PARTS.format(lines=line), "TL113")}
    fixes = [each for each in made if each is not None]
    assert {each.safety for each in fixes} == {safety}
    assert len(fixes) == (1 if safety is UNSAFE else len(copies))
    texts = [edit.text for each in fixes for edit in each.edits]
    assert sorted(text.split(" = ")[0].strip() for text in texts if " = " in text) == copies


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("n += write(out).item()", True),
        ("n += loader.last.item()", True),
        ("names.append(write(out, y).item())", True),
        ("n += (out.argmax(1) == y).sum().item()", False),
        ("n += np.mean(names).item()", False),
        ("n += write.items()", False),
    ],
)
def test_a_read_beside_one_that_may_wait_is_only_shown(line: str, shown: bool) -> None:
    read = found(evaluated(SUM, line), "TL101")[0]
    assert read.fix is not None
    assert (read.fix.safety is SHOWN) is shown
    assert ("beside it waits as well" in read.fix.note) is shown


READ = (
    HEAD
    + """\
def evaluate(loader):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            loss = criterion(model(x.to(device)), y.to(device))
            total += loss.item()
    return total
"""
)


FAILS = READ.replace("total += loss.item()\n", "total += loss.item()\n            note(x)\n")
RUN = "import steps\nprint(steps.evaluate(torch.load('data')))\n"


@pytest.mark.parametrize(
    ("text", "run", "safety"),
    [
        (READ, RUN, SAFE),
        (READ, "import steps\n# steps.evaluate()\nprint(steps)\n", SAFE),
        (FAILS, RUN, SHOWN),
        (FAILS.replace("note(", "len("), RUN, SAFE),
    ],
)
def test_the_fix_of_what_ends_in_an_error_is_only_shown(
    text: str, run: str, safety: Safety, tmp_path: Path
) -> None:
    for each, content in {"run.py": run, "steps.py": text}.items():
        (tmp_path / each).write_text(content, encoding="utf-8")
    forget()
    done = job(text, name="steps.py", root=str(tmp_path), codes=frozenset({"TL101"}))
    (read,) = analyse_job(done).findings
    assert read.fix is not None
    assert read.fix.safety is safety


OWN = (
    HEAD
    + """\
class Weighted(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros((), device=device)

    def forward(self, out, y):
        {body}


def train(loader: DataLoader, optimizer):
    losses = []
    criterion = Weighted()
    for x, y in loader:
        loss = criterion(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
"""
)
COMPUTED = [
    "return (out - y).pow(2).mean()",
    "loss = 0.0\n        for part in out:\n            loss += (part - y).abs().mean()\n"
    "        return loss",
    "loss = nn.functional.mse_loss(out, y)\n        if self.training:\n"
    "            return loss * 2\n        return loss",
]
OLDER = [
    "loss = (out - y).pow(2).mean()\n        self.last = loss.detach()\n        return loss",
    "loss = (out - y).pow(2).mean()\n        self.parts = [loss]\n        return loss",
    "loss = (out - y).pow(2).mean()\n        keep(loss)\n        return loss",
    "self.last.copy_((out - y).pow(2).mean())\n        return self.last",
    "return out",
    "loss = (out - y).pow(2).mean()\n        if self.training:\n            return loss\n"
    "        return self.last",
]


@pytest.mark.parametrize("body", [*COMPUTED, *OLDER])
def test_what_a_function_of_the_project_computes_is_kept_as_it_is(body: str) -> None:
    after = fixed(OWN.format(body=body), "unsafe", codes=frozenset({"TL101"})).after
    assert ("losses.append(loss.detach())" in after) is (body in COMPUTED)
    assert ("losses.append(loss.detach().clone())" in after) is (body in OLDER)


PART = (
    HEAD
    + """\
def step(out, y):
    loss = nn.functional.mse_loss(out, y)
    {body}


def train(loader: DataLoader, optimizer, criterion, compiled):
    losses = []
    for x, y in loader:
        {line}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
"""
)
OUT = "model(x.to(device)), y.to(device)"
FRESH = {
    f"loss, size = step({OUT})": "return loss, len(out)",
    f"size, loss = step({OUT})": "return len(out), loss * 2",
    f"loss = criterion({OUT})": "return loss",
}
HELD = {
    f"loss, out = step({OUT}) ": "return out, out",
    f"loss, out = step({OUT})": "keep(loss); return loss, out",
    f"loss, size = step({OUT}), 1": "return out",
    f"loss = compiled({OUT}).loss": "return loss",
}


@pytest.mark.parametrize(("line", "body"), [*FRESH.items(), *HELD.items()])
def test_a_loss_that_is_made_in_the_iteration_is_not_copied(line: str, body: str) -> None:
    after = fixed(PART.format(line=line, body=body), "unsafe", codes=frozenset({"TL101"})).after
    assert ("losses.append(loss.detach())" in after) is (line in FRESH)
    assert ("losses.append(loss.detach().clone())" in after) is (line in HELD)


def test_a_loss_of_a_captured_graph_is_copied() -> None:
    line = f"loss = criterion({OUT})  # of model = torch.compile(model, mode='reduce-overhead')"
    after = fixed(PART.format(line=line, body="pass"), "unsafe", codes=frozenset({"TL101"})).after
    assert "losses.append(loss.detach().clone())" in after


ANNOTATED = (
    HEAD
    + """\
def step(x, y, optimizer){said}:
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return {given}


def train(loader: DataLoader, optimizer):
    total = 0.0
    for x, y in loader:
        {line}
        total += value
    return total
"""
)
CALL = "step(x.to(device), y.to(device), optimizer)"


@pytest.mark.parametrize(
    ("said", "given", "line", "anew"),
    [
        ("", "loss.item()", f"value = {CALL}", ""),
        (" -> float", "loss.item()", f"value = {CALL}", " -> torch.Tensor"),
        (
            " -> tuple[float, int]",
            "loss.item(), len(x)",
            f"value, size = {CALL}",
            " -> tuple[torch.Tensor, int]",
        ),
        (" -> 'float'", "loss.item()", f"value = {CALL}", None),
        (" -> tuple[float, ...]", "loss.item(), 1.0", f"value, size = {CALL}", None),
        (" -> float | None", "loss.item()", f"value = {CALL}", None),
    ],
)
def test_a_function_that_returns_a_tensor_says_so(
    said: str, given: str, line: str, anew: str | None
) -> None:
    text = ANNOTATED.format(said=said, given=given, line=line)
    after = fixed(text, "unsafe", codes=frozenset({"TL101"})).after or text
    assert (".item()" in after) is (anew is None)
    assert f"optimizer){said if anew is None else anew}:" in after


WIDER = HEAD + (
    "def train(loader: DataLoader, optimizer, hits):\n"
    "  total, right = 0.0, 0\n"
    "  for x, y in loader:\n"
    "    out = model(x.to(device))\n"
    "    loss = nn.functional.mse_loss(out, y.to(device))\n"
    "    optimizer.zero_grad()\n"
    "    loss.backward()\n"
    "    optimizer.step()\n"
    "    total += loss.item()\n"
    "    right += {right}\n"
    "  return total, right\n"
)


@pytest.mark.parametrize(
    "right", ["torch.sum((out > 0) == (hits > 0)).data.item()", "(out > 0).sum().item()"]
)
def test_a_fix_that_rewrites_two_reads_is_the_fix_of_both(right: str) -> None:
    fixes = {each.fix for each in found(WIDER.format(right=right), "TL101")}
    assert len(fixes) == 1


def test_code_behind_a_loop_is_indented_as_the_loop_is() -> None:
    class_first = "class First:\n        size = 1\n\n\n"
    line = f"loss = nn.functional.mse_loss({OUT})"
    text = class_first + PART.format(line=line, body="pass").replace(
        "return losses", "return np.average(losses)"
    )
    after = fixed(text, "unsafe", codes=frozenset({"TL101"})).after
    assert "\n    if losses:\n        losses = torch.stack(losses).tolist()\n" in after


COUNTED = (
    HEAD
    + """\
def train(loader: DataLoader, optimizer, writer):
    loss_ema = 0.0
    for {target} in enumerate(loader):
        loss = nn.functional.mse_loss(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {line}
        writer.add_scalar("loss", loss, 1)
    return loss_ema
"""
)


@pytest.mark.parametrize(
    ("target", "line", "loop"),
    [
        ("_, (x, y)", "pass", "for iteration, (x, y) in"),
        ("_, (x, y)", "print(_)", "for _, (x, y) in"),
        ("i, (x, y)", "pass", "for i, (x, y) in"),
    ],
)
def test_a_counter_without_a_name_gets_one(target: str, line: str, loop: str) -> None:
    text = COUNTED.format(target=target, line=line)
    after = fixed(text, "unsafe", codes=frozenset({"TL105"})).after
    counter = loop.split()[1].strip(",")
    assert loop in after
    assert f"if {counter} % 50 == 0" in after


@pytest.mark.parametrize(
    ("line", "safety"),
    [
        ("loss_ema = loss.item() if loss_ema == 0 else loss_ema * 0.9 + loss.item()", SHOWN),
        ("loss_ema = loss.item() if loss_ema == 0 else loss_ema * 0.9", UNSAFE),
        ("loss_ema = len(x) if loss_ema == 0 else loss_ema * 0.9", UNSAFE),
    ],
)
def test_what_either_arm_of_a_choice_reads_the_step_waits_for(line: str, safety: Safety) -> None:
    text = COUNTED.format(target="i, (x, y)", line=line)
    codes = frozenset({"TL101", "TL105"})
    findings = check(text, codes=codes, name="train.py").findings
    (log,) = [each.fix for each in findings if each.code == "TL105"]
    assert log is not None
    assert log.safety is safety
