"""The repair of one read is only shown where the step waits for others in any case."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check, fixed
from torchlint.base.finding import Finding, Safety, Severity

PROGRAM = """\
import torch
from torch import nn

device = "cuda"
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(7)]


def score(out, y):
    return float((out.argmax(1) == y).sum()) / 5.0


def size(out, y):
    return out.size(0) + y.size(0)


class Scores:
    def of(self, out, y):
        return score(out, y)


scores = Scores()


def run(verbose):
    total, a, b = 0.0, 0.0, 0.0
    for data, target in loader:
        x, y = data.to(device), target.to(device)
        out = model(x)
        loss = criterion(out, y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        {line}
        {body}
    return total, a, b


print(run(True))
"""
TWICE = "a += score(out, y); b += score(out, x)"
SUM = "total += loss.item()"


def found(body: str, line: str = SUM, code: str = "TL101") -> Finding:
    source = PROGRAM.format(line=line, body=body)
    all_of_it = check(source, codes=frozenset({"TL101", code})).findings
    told = ((each, each.message.partition(" waits for the GPU in ")[0]) for each in all_of_it)
    return next(each for each, first in told if "`loss.item()`" in first)


@pytest.mark.parametrize(
    "body", [TWICE, "a += score(out, y)", f"criterion(model(x), y).backward(); {TWICE}"]
)
@pytest.mark.parametrize(("line", "code"), [(SUM, "TL101"), ("print(loss.item())", "TL105")])
def test_a_step_that_waits_for_a_function_is_not_repaired_for_one_read(
    line: str, code: str, body: str
) -> None:
    fix = found(body, line, code).fix
    assert fix is not None
    assert fix.safety is Safety.SUGGESTION
    assert "`score(out, y)` beside it waits as well" in fix.note


LOGS = {
    "print(loss)": True,
    "print('loss', float(loss))": True,
    "wandb.log({'loss': loss})": True,
    "writer.add_scalar('loss', loss, 1)": True,
    "bar.set_postfix(loss=loss)": True,
    "bar.set_postfix(loss=(out.argmax(1) == y).sum().item())": True,
    "wandb.log({'size': len(y)})": False,
    "print(loss.shape)": False,
    "if verbose: print(loss)": False,
    "logging.debug('%s', loss)": False,
    "with torch.no_grad(): print(model(x).shape)": False,
    "again = model(x); print(again.sum())": False,
    "meter.update(loss)": False,
}


@pytest.mark.parametrize("line", LOGS)
def test_a_read_beside_what_a_training_step_logs_is_put_off_with_the_log(line: str) -> None:
    imports = "import logging\nimport wandb\nfrom tqdm import tqdm\nfrom torch.utils.tensorboard"
    imports += " import SummaryWriter\nbar = tqdm()\nwriter = SummaryWriter()\n"
    source = imports + PROGRAM.format(line=SUM, body=line)
    (read,) = (
        each
        for each in check(source, codes=frozenset({"TL101"})).findings
        if "`loss.item()`" in each.message
    )
    assert read.fix is not None
    assert read.fix.safety is (Safety.UNSAFE if LOGS[line] else Safety.SAFE)
    assert ("Only every 50th step is logged" in read.fix.note) is LOGS[line]
    assert any("% 50" in each.text for each in read.fix.edits) is LOGS[line]
    assert (read.severity is Severity.INFO) is LOGS[line]


def test_a_read_beside_a_log_that_cannot_be_made_rare_is_only_shown() -> None:
    source = PROGRAM.format(line=SUM, body="print(loss); step = iteration = step_number = a")
    read = next(e for e in check(source, codes=frozenset({"TL101"})).findings)
    assert read.fix is not None
    assert read.fix.safety is Safety.SUGGESTION
    assert "first log every N steps" in read.fix.note


def test_what_a_logging_call_reads_by_itself_is_no_other() -> None:
    source = PROGRAM.format(line="print(loss)\n        bar.set_postfix(loss=loss)", body=TWICE)
    source = source.replace("def run", "from tqdm import tqdm\n\nbar = tqdm()\n\n\ndef run")
    all_of_it = check(source, codes=frozenset({"TL101", "TL105"})).findings
    shown = [each.fix for each in all_of_it if each.code == "TL105"]
    assert [fix.safety for fix in shown if fix] == [Safety.SUGGESTION] * 2


NEEDED = {
    "a check of the number": "if not torch.isfinite(loss).item():\n            raise OverflowError",
    "a check of the tensor": "if torch.isnan(loss):\n            raise OverflowError",
    "the first of several": "if torch.isnan(loss) or a > 9:\n            raise OverflowError",
    "a size": "a += len(torch.zeros(int(y.max().item())))",
}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize(("line", "code"), [(SUM, "TL101"), ("print(loss.item())", "TL105")])
def test_a_read_beside_one_that_the_host_needs_at_once_is_not_repaired(
    name: str, line: str, code: str
) -> None:
    for first, last in ((line, NEEDED[name]), (NEEDED[name], line)):
        fix = found(last, first, code).fix
        assert fix is not None
        assert fix.safety is Safety.SUGGESTION
        assert "saves next to nothing" in fix.note


OTHERS = {
    "a function behind more work": "criterion(model(x), y).backward(); a += score(out, y)",
    "a check now and then": (
        "a += 1\n        if a % 50 == 0 and torch.isnan(loss):\n            raise OverflowError"
    ),
    "a check on a branch": (
        "if verbose:\n            if torch.isnan(loss):\n                raise OverflowError"
    ),
    "a check of what lies on the host": "if data.max() > 9:\n            raise OverflowError",
    "a check behind more work": (
        "criterion(model(x), y).backward()\n        if torch.isnan(loss):\n            break"
    ),
    "on a branch": "if verbose:\n            a += score(out, y); b += score(out, x)",
    "by a choice": "a += score(out, y) if verbose else 0",
    "later": "later = lambda: (score(out, y), score(out, x))",
    "sizes": "a += size(out, y); b += size(out, x)",
    "of the host": "a += score(data, target); b += score(target, data)",
    "of a library": "a += math.sqrt(len(x)); b += math.sqrt(len(y))",
    "in a loop of its own": "for _ in range(2):\n            a += score(out, y); b += score(x, y)",
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_calls_keep_no_repair_back(name: str) -> None:
    fix = found(OTHERS[name]).fix
    assert fix is not None
    assert fix.safety is not Safety.SUGGESTION


WHILE = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        ends = torch.arange(5, device=x.device)
        far = torch.zeros((), device=x.device)
        turn = 0
        while {test}:
            x = self.layer(x)
            if ends[turn] > 3:
                x = x.clone()
            far = far + 1
            turn += 1
        return x


net = Net().cuda()
for data in [torch.ones(2, 4)]:
    net(data.cuda()).sum().backward()
"""


@pytest.mark.parametrize(
    ("test", "waits"),
    [("far < 3", True), ("turn < 3", False), ("far < 3 if turn else turn < 3", True)],
)
def test_a_while_that_asks_the_device_gets_no_copies(test: str, waits: bool) -> None:
    source = WHILE.format(test=test)
    tests = check(source, codes=frozenset({"TL602"})).findings
    fixes = [each.fix for each in tests if each.start.row == 16]
    assert len(fixes) == 1
    assert (fixes[0] is None) is waits


@pytest.mark.parametrize(
    ("after", "counted"), [("pass", True), ("n = 0", True), ("n = None", False)]
)
def test_a_name_that_is_also_none_counts_no_steps(after: str, counted: bool) -> None:
    text = (
        "import torch\nfrom torch import nn\nfrom torch.utils.data import DataLoader\n\n"
        "model = nn.Linear(2, 2).cuda()\nopt = torch.optim.SGD(model.parameters())\n\n\n"
        "def train(data):\n    n = 0\n    for epoch in range(2):\n"
        "        for x in DataLoader(data):\n            loss = model(x).sum()\n"
        "            loss.backward()\n            opt.step()\n            print(loss.item())\n"
        f"            n += 1\n        {after}\n"
    )
    new = fixed(text, "unsafe", codes=frozenset({"TL105"})).after
    assert "% 50 == 0" in new
    assert ("if n % 50 == 0" in new) is counted


STEP = """\
import torch
from torch import nn
from tqdm import tqdm

from scores import Deep, Hits, Shape, half, hits, named, shape, share, sized, weighed

device = "cuda"
model = nn.Linear(4, 3).to(device)
criterion = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(7)]


def run(verbose):
    total, a, names, bar, deep = 0.0, 0, {{}}, tqdm(), Deep()
    for i, (data, target) in enumerate(loader):
        x, y = data.to(device), target.to(device)
        out = model(x)
        loss = criterion(out, y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        total += loss.item()
        {beside}
    return total, a


print(run(True))
"""
SCORES = """\
import numpy as np
import torch
from torch import nn


class Hits:
    def __call__(self, out, y):
        share = (out.argmax(1) == y).sum() / out.size(0)
        return share.item()


class Shape:
    def __call__(self, out, y):
        return out.size(0) + y.size(0)


class Deep(nn.Module):
    def forward(self, out, y):
        best = out.max().item()
        return ((out - best).exp() * y[:, None]).sum()


def hits(out, y):
    return (out.argmax(1) == y).sum().item()


def shape(out, y):
    return out.size(0) + y.size(0)


def half(out, y):
    return float((out.argmax(1) == y).sum()) / 2


NAMES = np.array(["a", "b"])


def named(out, y):
    return out.max() * len(NAMES.tolist())


def sized(out, y):
    return out.max() / np.prod(out.shape).item()


def share(out, y):
    return out.size(0) / y.size(0)


def weighed(out, weights):
    return out.max() * weights.tolist()[0]
"""
HITS = "(out.argmax(1) == y).sum()"
STAYS = {
    "a number of which nothing is known": f"bar.names[{HITS}.item()] = i",
    "a function of another file": "a += hits(out, y)",
    "an object of another file": "a += Hits()(out, y)",
    "a number made in another file": "a += half(out, y)",
    "an unsafe repair": f"a += {HITS}.item()\n        bar.set_postfix(a=a)",
    "a safe repair": f"a += {HITS}.item()",
    "on a branch": f"if verbose:\n            names[{HITS}.item()] = i",
    "behind more work": f"out = model(x)\n        names[{HITS}.item()] = i",
    "a function that reads nothing": "a += shape(out, y)",
    "an object that reads nothing": "a += Shape()(out, y)",
    "a function that reads an array": "a += named(out, y)",
    "a function of sizes": "a += share(out, y)",
    "a function that reads its own number": "a += sized(out, y)",
    "a function that reads another argument": "a += weighed(out, target)",
    "a network that reads before its work": "a += deep(out, y).detach()",
    "of the host": "a += hits(data, target)",
}
APPLIED = {
    "a number of which nothing is known": Safety.SUGGESTION,
    "a function of another file": Safety.SUGGESTION,
    "an object of another file": Safety.SUGGESTION,
    "a number made in another file": Safety.SUGGESTION,
    "an unsafe repair": Safety.UNSAFE,
}


@pytest.mark.parametrize("name", STAYS)
def test_the_repair_of_a_read_is_no_safer_than_that_of_another_right_beside_it(
    name: str, tmp_path: Path
) -> None:
    (tmp_path / "scores.py").write_text(SCORES)
    source = STEP.format(beside=STAYS[name])
    codes = frozenset({"TL101", "TL105"})
    found = check(source, codes=codes, root=str(tmp_path)).findings
    (read,) = (each for each in found if each.message.startswith("`loss.item()`"))
    assert read.fix is not None
    assert read.fix.safety is APPLIED.get(name, Safety.SAFE)
    assert ("beside it waits as well" in read.fix.note) is (name in APPLIED)
    told_there = name.endswith("of another file") or name == "a number made in another file"
    assert (read.severity is Severity.INFO) is told_there


CACHE = "torch.cuda.empty_cache()"
SEEN = f"if verbose:\n            {CACHE}"


@pytest.mark.parametrize(
    ("line", "body"),
    [
        (SUM, CACHE),
        (CACHE, SUM),
        (SUM, "torch.accelerator.empty_cache()"),
        (SUM, SEEN),
    ],
)
def test_a_read_beside_an_emptied_cache_is_put_off_with_it(line: str, body: str) -> None:
    """Whoever gives memory back to the driver waits for the device: to put the read off gains where
    the call goes too, which is no safe fix."""
    certain = "if" not in body
    for comment in ("", "print()  # noqa: TL203\n"):
        source = PROGRAM.format(line=line, body=body) + comment
        both = check(source, codes=frozenset({"TL101", "TL701"})).findings
        fixes = {each.code: each.fix for each in both if each.code in ("TL101", "TL701")}
        read, call = fixes["TL101"], fixes.get("TL701")
        assert read is not None
        assert read.safety is (Safety.UNSAFE if certain else Safety.SAFE)
        assert ("beside it waits as well" in read.note) is (certain and bool(comment))
        if line == CACHE:
            assert (read == call) is not bool(comment)
        after = fixed(source, "unsafe", codes=frozenset({"TL101", "TL701"})).after or ""
        assert ("empty_cache" in after or "loss.item()" in after) is not certain


@pytest.mark.parametrize(
    "body",
    [
        f"if len(data) % 50 == 0:\n            {CACHE}",
        f"criterion(model(x), y).backward(); sgd.step()\n    {CACHE}",
        f"try:\n            size(out, y)\n        except RuntimeError:\n            {CACHE}",
    ],
)
def test_a_cache_that_is_seldom_emptied_keeps_no_read_back(body: str) -> None:
    fix = found(body, SUM, "TL701").fix
    assert fix is not None
    assert fix.safety is Safety.SAFE
