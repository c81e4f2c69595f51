"""Safe fixes that take for granted what ordinary programs do are executed: what is printed is the
same, to the last digit, before and after; near misses have no safe fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, fixed, job
from torchlint.base.finding import Safety
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

torch = pytest.importorskip("torch")

from tests.executed import ran  # noqa: E402 - it imports torch

HEAD = """\
import torch
from torch import nn

torch.manual_seed(0)
device = "cuda"
model = nn.Linear(4, 3).to(device)
loader = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(7)]


"""


def same(source: str, code: str) -> str:
    """Return a program after its safe fixes of one rule, which prints what it printed before."""
    codes = frozenset({code})
    report = fixed(source, "safe", codes=codes)
    assert report.applied
    assert ran(report.after)[1] == ran(source)[1] != ""
    assert not check(report.after, codes=codes).findings
    return report.after


# -- sums of losses --------------------------------------------------------------------------------

SUM = (
    HEAD
    + """\
class Trainer:
    def __init__(self, criterion):
        self.criterion = criterion
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def epoch(self):
        total = 0
        for count, (x, y) in enumerate(loader):
            self.optimizer.zero_grad()
            loss = self.criterion(model(x.to(device)), y.to(device))
            loss.backward()
            self.optimizer.step()
            total += loss
        {end}


print(Trainer(nn.CrossEntropyLoss()).epoch())
"""
)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True")
@pytest.mark.parametrize(
    "end",
    [
        "return total.cpu().data.numpy() / (count + 1)",
        "print('mean loss: %f' % (total / len(loader)))\n        return count",
        "print(f'{total / 7:.9f}', f'{total.item():.3f}')\n        return total.item()",
        "return float(total) / 7, len(total.shape)",
    ],
)
def test_a_sum_of_losses_that_only_numbers_are_read_of_needs_no_graph(end: str) -> None:
    assert "total += loss.detach()" in same(SUM.format(end=end), "TL502")


@pytest.mark.parametrize(
    "end",
    [
        "return total / len(loader)",
        "print(total)\n        return 0",
        "print('mean loss: %s' % total)\n        return 0",
        "print(f'{total!r}')\n        return 0",
        "torch.save(total, 'total.pt')\n        return 0",
    ],
)
def test_a_sum_that_may_show_its_graph_is_not_detached_safely(end: str) -> None:
    (found,) = check(SUM.format(end=end), codes=frozenset({"TL502"})).findings
    assert found.fix is not None
    assert found.fix.safety is Safety.UNSAFE


# -- numbers that are made of numbers --------------------------------------------------------------

READ = (
    HEAD
    + """\
{before}optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def train():
    losses = []
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x.to(device)), y.to(device))
        loss.backward()
        optimizer.step()
        losses.append({read})
    return losses


print(train())
"""
)


@pytest.mark.parametrize("read", ["float(loss.item())", "float(loss.detach().item())"])
def test_a_number_that_is_made_a_float_is_one_read(read: str) -> None:
    after = same(READ.format(before="", read=read), "TL101")
    once = "losses.append(loss.detach())\n    if losses:\n        losses = torch.stack(losses)"
    assert (once in after) is (read == "float(loss.item())")
    assert ("losses = [float(value) for value in losses]" in after) is (once not in after)


@pytest.mark.parametrize(
    ("before", "read"),
    [
        ("float = lambda number: round(number, 2)\n", "float(loss.item())"),
        ("", "float(str(loss.item()))"),
    ],
)
def test_a_number_that_becomes_another_one_stays_a_number(before: str, read: str) -> None:
    (found,) = check(READ.format(before=before, read=read), codes=frozenset({"TL101"})).findings
    assert found.fix is None


def test_a_number_that_is_rounded_is_rounded_after_the_loop() -> None:
    after = same(READ.format(before="", read="round(loss.item(), 2)"), "TL101")
    assert "losses.append(round(value.item(), 2))\n    return losses" in after


# -- functions that record nothing -----------------------------------------------------------------

EVALUATION = (
    HEAD
    + """\
critic = nn.Linear(3, 1)


def largest(scores):
    return scores.topk(2, 1)[0]


def measure(scores, target):
    {measure}


def evaluate():
    model.eval()
    right = 0
    for x, y in loader:
        scores = model(x.to(device))
        right += {use}
    return right


print(evaluate())
"""
)


@pytest.mark.parametrize(
    ("measure", "use"),
    [
        (
            "return (scores.argmax(1) == target).float().mean()",
            "measure(scores.detach(), y).numpy()",
        ),
        ("return largest(scores).max()", "measure(scores.detach(), y.to(device)).numpy()"),
        ("print('a-b'.replace('-', '_'))\n    return scores", "measure(scores.data, y).sum()"),
    ],
)
def test_a_function_that_runs_no_layer_gives_no_graph_of_its_own(measure: str, use: str) -> None:
    source = EVALUATION.format(measure=measure, use=use)
    assert "no_grad" in same(source, "TL501")


@pytest.mark.parametrize(
    "measure",
    [
        "return critic(scores).sum()",
        "return largest(critic(scores)).sum()",
        "return unknown(scores)",
    ],
)
def test_a_function_that_may_run_a_layer_gives_a_graph(measure: str) -> None:
    measure = measure.replace("(critic(scores))", "(critic(scores).repeat(1, 2))")
    source = EVALUATION.format(measure=measure, use="measure(scores.detach(), y)")
    found = [each.fix for each in check(source, codes=frozenset({"TL501"})).findings]
    assert found
    assert Safety.SAFE not in {each.safety for each in found if each is not None}


# -- words of other files --------------------------------------------------------------------------

INDEXED = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x, labels):
        scores = self.layer(x)
        return scores[torch.arange(scores.size(0)), labels].mean()
"""
TRAINED = """\


torch.manual_seed(0)
model = Net().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 4).cuda(), torch.randint(3, (5,)).cuda())
    loss.backward()
    optimizer.step()
print(loss.item())
"""


@pytest.mark.parametrize(
    ("other", "safe"),
    [
        ("", True),
        ("held = torch.jit.trace(lambda: torch.ones([]).to(device), example_inputs=[])", True),
        ("for key in old:\n    setattr(opt, key, getattr(opt, key) or old[key])", True),
        ("args = [setattr(args, k, getattr(args, k, v)) for k, v in old]", True),
        # What a tracer records, and names that no text says, are not promised: `torch-is-torch`.
        ("held = torch.jit.trace(net, example_inputs=[x])", True),
        ("[setattr(where, k, wrap(getattr(where, k))) for k in old]", True),
        ("for key in old:\n    setattr(F, key, wrap(getattr(F, key)))", False),
    ],
)
def test_who_in_another_file_may_see_an_index(tmp_path: Path, other: str, safe: bool) -> None:
    body = other.replace("\n", "\n    ")
    head = "import torch\n\nfrom train import Net\n\n\ndef of(net, x, opt, old):\n"
    written = f"{head}    {body or 'pass'}\n"
    for name, text in {"other.py": written, "train.py": INDEXED}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    forget()
    asked = job(INDEXED, codes=frozenset({"TL102"}), fix="safe", root=str(tmp_path))
    report = analyse_job(asked)
    assert bool(report.applied) is safe
    if safe:
        assert "torch.arange(scores.size(0), device=scores.device" in report.after
        assert ran(report.after + TRAINED)[1] == ran(INDEXED + TRAINED)[1] != ""


# -- models that each step moves -------------------------------------------------------------------

MOVED = (
    HEAD
    + """\
{before}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    model.to(device)
    loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
    loss.backward()
    optimizer.step()
    print(loss)
    {after}
"""
)
SENDS = "def send(module):\n    torch.save(module.cpu().state_dict(), 'weights.pt')\n\n"
MOVES_BACK = {
    "by another name": ("other = model", "other.cpu()"),
    "in a function": (f"{SENDS}\ndef keep():\n    send(model)\n", "keep()"),
    "of a list": ("every = [model]", "for one in every:\n        one.to('cpu')"),
}


def test_a_model_that_each_step_moves_is_moved_before() -> None:
    after = same(MOVED.format(before="", after="print(loss.cpu())"), "TL504")
    assert after.count("model.to(device)\nfor x, y") == 1


@pytest.mark.parametrize(("before", "after"), MOVES_BACK.values(), ids=MOVES_BACK)
def test_a_model_that_may_go_back_is_moved_with_a_note(before: str, after: str) -> None:
    source = MOVED.format(before=before, after=after)
    found = [each.fix for each in check(source, codes=frozenset({"TL504"})).findings]
    assert [each.safety for each in found if each is not None] == [Safety.UNSAFE]
