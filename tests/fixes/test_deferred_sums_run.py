"""Sums that TL101 keeps on the device are executed in all kinds of surroundings: what is printed
and returned is the same, to the last digit, before and after.

The safe fixes among them are held to the same; `tests/test_fixes_run.py` has the page's examples.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

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
criterion = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
loader = [(torch.randn(5, 4), torch.randint(3, (5,))) for _ in range(7)]


def step(x, y):
    loss = criterion(model(x), y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    return loss


"""
ITERATION = """\
for i, (x, y) in enumerate(loader):
    x, y = x.to(device), y.to(device)
    out = model(x)
    loss = criterion(out, y)
    sgd.zero_grad()
    loss.backward()
    sgd.step()
"""


def indented(text: str, by: int = 4) -> str:
    return "".join(" " * by + line if line.strip() else line for line in text.splitlines(True))


def function(start: str, body: str, end: str, iteration: str = ITERATION) -> str:
    """Return a function `run` that starts sums, runs the loop with a body, ends and is printed."""
    inside = start + iteration + indented(body) + end
    return f"def run():\n{indented(inside)}\nprint(run())\n"


ADD = "total += loss.item()\n"
PROGRAMS = {
    "plain": function("total = 0.0\n", ADD, "return total / len(loader)\n"),
    "starts as a whole number": function("total = 0\n", ADD, "return total\n"),
    "scaled by the batch": function(
        "total, seen = 0.0, 0\n",
        "total += loss.item() * x.size(0)\nseen += x.size(0)\n",
        "return total / seen\n",
    ),
    "made a float": function(
        "total, seen = 0.0, 0\n",
        "total += float(loss.item()) * x.size(0)\nseen += x.size(0)\n",
        "return total / seen\n",
    ),
    "scaled by a whole number of its size": function(
        "total, seen = 0.0, 0\n",
        "rows = int(x.numel())\ntotal += float(loss.cpu()) * rows\nseen += rows\n",
        "return total / seen\n",
    ),
    "made a whole number": function(
        "right = 0\n",
        "right += int((out.argmax(1) == y).sum().item())\n",
        "return right\n",
    ),
    "divided": function("total = 0\n", "total += loss.item() / len(loader)\n", "return total\n"),
    "two reads in a term": function(
        "total = 0.0\n", "total += loss.item() + 0.5 * float(loss)\n", "return total\n"
    ),
    "two steps": function(
        "total = 0.0\n", ADD + "total += (out * 2).mean().item()\n", "return total\n"
    ),
    "a count": function(
        "right = 0\n", "right += (out.argmax(1) == y).sum().item()\n", "return right\n"
    ),
    "printed now and then, and set back": function(
        "total = 0.0\n",
        ADD + "if i % 3 == 2:\n    print(f'{total / 3:.6f}', total)\n    total = 0.0\n",
        "return total\n",
    ),
    "read by float already": function(
        "right = 0\n",
        "right += (out.argmax(1) == y).sum().item()\n"
        "if i % 3 == 2:\n    print(float(right) / 3, right)\n",
        "return right\n",
    ),
    "scaled now and then": function(
        "total = 0\n",
        ADD + "if i % 3 == 2:\n    total /= 3\n    print(total)\n    total = 0\n",
        "return total\n",
    ),
    "written out": function("total = 0.0\n", "total = total + loss.item()\n", "return total / 7\n"),
    "written out, in two steps": function(
        "total = 0\n", "total = total + loss.item() * 2\n" + ADD, "return total\n"
    ),
    "set back before": function(
        "total = 0.0\n",
        "if i % 3 == 0:\n    print('%f' % total)\n    total = 0.0\n" + ADD,
        "return total\n",
    ),
    "break and else": function(
        "total = 0.0\n",
        ADD + "if i == 8 // 2:\n    break\n",
        "else:\n    print('all')\nreturn total\n",
    ),
    "continue": function("total = 0.0\n", "if i == 2:\n    continue\n" + ADD, "return total\n"),
    "returned inside": function(
        "total = 0.0\n", ADD + "if i == 10 // 2:\n    return total / 6\n", "return None\n"
    ),
    "epochs": "def run():\n    total = 0.0\n    for epoch in range(2):\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "        print(epoch, total)\n    return total\n\nprint(run())\n",
    "try around": "def run():\n    total = 0.0\n    try:\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "    finally:\n        print('ended')\n    return total\n\nprint(run())\n",
    "with around": "def run():\n    total = 0.0\n    with torch.enable_grad():\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "    return total\n\nprint(run())\n",
    "top level": "total = 0.0\n" + ITERATION + indented(ADD) + "print(total, type(total))\n",
    "class attribute beside": "class Run:\n    def epoch(self):\n        total = 0.0\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "        self.last = total\n        return total\n\n"
    + "run = Run()\nprint(run.epoch(), type(run.last))\n",
    "generator": "def run():\n    total = 0.0\n"
    + indented(ITERATION, 4)
    + indented(ADD + "yield i\n", 8)
    + "    print(total)\n\nprint(list(run()))\n",
    "one line": function("total = 0.0\n", "if len(y): total += loss.item()\n", "return total\n"),
    "walrus": function(
        "total = 0.0\n", "total += (value := 2.0) * loss.item()\n", "return total, value\n"
    ),
    "async": "import asyncio\n\nasync def run():\n    total = 0.0\n"
    + indented(ITERATION, 4)
    + indented(ADD + "await asyncio.sleep(0)\n", 8)
    + "    return total\n\nprint(asyncio.run(run()))\n",
    "deleted afterwards": function(
        "total = 0.0\n", ADD, "mean = total / 7\ndel total\nreturn mean\n"
    ),
    "one element": function(
        "total = 0.0\n", "total += out[:1, :1].abs().mean(0).item()\n", "return total\n"
    ),
    "empty loop": function(
        "total = 0.0\n", ADD, "return total\n", ITERATION.replace("(loader)", "(loader[:0])")
    ),
}
PLAIN = ITERATION.replace("for i, (x, y) in enumerate(loader):", "for x, y in loader:")
SHOWN = {
    "a sum": function("total = 0.0\n", ADD + "print(total / (i + 1))\n", "return total\n"),
    "a sum, in a loop that counts nothing": function(
        "total, seen = 0.0, 0\n",
        "seen += len(x)\n" + ADD + "print('%.9f' % (total / seen), f'{total:.9f}')\n",
        "return total / seen\n",
        PLAIN,
    ),
    "two sums in one line": function(
        "total, right, seen = 0.0, 0.0, 0\n",
        "seen += x.size(0)\n"
        + ADD
        + "right += torch.sum((out.argmax(1) == y).float()).item()\n"
        + "print('{} of {:.3f}%'\n      .format(total / seen * 100,  # in %\n"
        + "              right / seen * 100))\n",
        "return total, right\n",
    ),
    "a sum under an if, beside other logs": function(
        "total, verbose = 0.0, True\n",
        ADD + "if verbose:\n    print('step', i)\n    print(total)\n",
        "return total\n",
    ),
    "a number that is bound, summed up and listed": function(
        "total, found = 0.0, []\n",
        "now = loss.item()\ntotal += now\nfound.append(now)\nprint(now, total / (i + 1))\n",
        "return total, found\n",
    ),
    "a sum between other logs, with lines between": function(
        "total = 0.0\n",
        ADD + "print('step', i)\n\nprint(total)\n\n\nprint('end')\n",
        "return total\n",
    ),
    "a number that is bound, and summed up now and then": function(
        "seen = []\n",
        "now = loss.item()\nprint(now)\nif i % 3 == 0:\n    seen.append(now)\n",
        "return seen\n",
    ),
}
STEPS = """\
def losses_of(x, y):
    out = model(x.to(device))
    loss, size = criterion(out, y.to(device)), out.abs().mean()
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    return {given}


"""
LOOP = "def run():\n    rows = []\n    for x, y in loader:\n        rows.append(losses_of(x, y))\n"
TOLD = LOOP + "    return rows\n\nprint(run())\n"
PROGRAMS |= {
    "a list of losses": function("found = []\n", "found.append(loss.item())\n", "return found\n"),
    "a list by float, read twice": function(
        "found = []\n",
        "found.append(float(loss))\n",
        "return max(found), sum(found)\n",
    ),
    "a list of views": function(
        "found = []\n",
        "found.append(out[0, 0].item())\nout.data.zero_()\n",
        "return found\n",
    ),
    "a list over epochs": "def run():\n    found = []\n    for epoch in range(2):\n"
    + indented(ITERATION, 8)
    + indented("found.append(loss.item())\n", 12)
    + "    return found\n\nprint(run())\n",
    "an empty list": function(
        "found = []\n",
        "found.append(loss.item())\n",
        "return found\n",
        ITERATION.replace("(loader)", "(loader[:0])"),
    ),
    "returned together": STEPS.format(given="loss.item(), size.item(), size.exp().item()") + TOLD,
    "returned beside others": STEPS.format(
        given="len(x), loss.item(), size.item(), size.exp().item(), 'end'"
    )
    + TOLD,
    "unpacked together": function(
        "seen = {}\n",
        "first, second, third = loss.item(), out.abs().max().item(), out.mean().item()\n"
        "seen[i] = first > second > third\n",
        "return seen, first\n",
    ),
}
BACK = """\
def losses_of(x, y):
    out = model(x.to(device))
    loss = criterion(out, y.to(device))
    sgd.zero_grad()
    loss.backward()
    sgd.step()
    return {given}


"""
ONE, TWO = (
    BACK.format(given="loss.item()"),
    BACK.format(given="loss.item(), out.abs().max().item()"),
)
EACH = "for i, (x, y) in enumerate(loader):\n"
PROGRAMS |= {
    "returned and thrown away": ONE + function("", "losses_of(x, y)\n", "return 0\n", EACH),
    "returned and summed up": ONE
    + function("total = 0.0\n", "total += losses_of(x, y) * 2\n", "return total\n", EACH),
    "returned into a list": ONE
    + function("found = []\n", "found.append(losses_of(x, y))\n", "return found\n", EACH),
    "returned, bound, summed up, listed and printed": ONE
    + function(
        "total, found = 0.0, []\n",
        "now = losses_of(x, y)\ntotal += now / 2\nfound.append(now)\n"
        "if i % 3 == 0:\n    print(now, total)\n",
        "return total, found, now\n",
        EACH,
    ),
    "returned in two places": ONE
    + function(
        "total, more = 0.0, 0.0\n",
        "total += losses_of(x, y)\nmore = more + losses_of(x, y)\n",
        "return total, more\n",
        EACH,
    ),
    "two returned, taken apart": TWO
    + function(
        "total = 0.0\n",
        "loss, size = losses_of(x, y)\ntotal += loss\ntotal += size * len(x)\n",
        "return total, size\n",
        EACH,
    ),
    "a method returns it": "class Run:\n"
    + indented(ONE.replace("(x, y):", "(self, x, y):").rstrip() + "\n\n")
    + "    def epoch(self):\n        total = 0.0\n"
    + indented(EACH + "    total += self.losses_of(x, y)\n", 8)
    + "        return total\n\n\nprint(Run().epoch())\n",
    "bound, and returned among others": BACK.replace(
        "return {given}", "first = loss.item()\n    return first, len(x)"
    ).format(given="")
    + function(
        "total = 0.0\n",
        "now, size = losses_of(x, y)\ntotal += now * size\n",
        "return total, now\n",
        EACH,
    ),
    "returned through two functions": TWO
    + "def outer(x, y):\n    loss, size = losses_of(x, y)\n    return size, loss\n\n\n"
    + function("found = []\n", "_, now = outer(x, y)\n", "found.append(now)\nreturn found\n", EACH),
    "bound, summed up and listed": function(
        "total, found = 0.0, []\n",
        "now = loss.item()\ntotal += now\nfound.append(now)\n",
        "return total, found, now\n",
    ),
}
SIZES = "hits, most = (out.argmax(1) == y).sum(), out.abs().max()\n"


def epochs(body: str, end: str, before: str = "") -> str:
    """Return a program that fills a list in two epochs, with code behind each."""
    return (
        "import numpy as np\n\n\ndef run():\n    found, kept = [], []\n"
        + "    for epoch in range(2):\n"
        + indented(before, 8)
        + indented(ITERATION, 8)
        + indented("found.append(loss.item())\n", 12)
        + indented(body, 8)
        + f"    return {end}\n\nprint(run())\n"
    )


PROGRAMS |= {
    "a list over epochs, filled in two loops": epochs(
        "", "found", "for x in range(3):\n    found.append(x)\n"
    ),
    "below each other": function(
        "seen = {}\n",
        "first = loss.item()\nsecond = (out * 2).mean().item()\n\nthird = out.std().item()\n"
        "seen[i] = first, second, third\n",
        "return seen\n",
    ),
    "below each other, under keys": function(
        "seen, kept = {}, {}\n",
        "seen['loss'] = loss.item()\nseen['mean'] = out.mean().item()\nkept[i] = dict(seen)\n",
        "return kept\n",
    ),
    "below each other, whole numbers": function(
        "seen = {}\n",
        "right = (out.argmax(1) == y).sum().item()\nones = (y == 1).sum().item()\n"
        "twos = (y == 2).sum().item()\nseen[i] = right / (1 + ones) + right // (1 + twos)\n",
        "return seen, right, ones\n",
    ),
    "the ends of one tensor, of any kind": "def run(rows):\n    seen = {}\n    for i, row in "
    "enumerate(rows):\n        model(torch.ones(1, 4))\n        row = row.to(device)\n"
    "        seen[i] = (row.min().item(), row.max().item())\n    return seen\n\n"
    "print(run([torch.arange(4), torch.randn(3)]))\n",
    "divided by each other": function(
        "seen = {}\n",
        SIZES + "seen[i] = float(hits) / (float(most) + 1e-6)\n",
        "return seen\n",
    ),
    "divided by each other, counts": function(
        "seen = {}\n",
        "tp, fp = (out.argmax(1) == y).sum(), (out.argmax(1) != y).sum()\n"
        "seen[i] = 2 * tp.item() / (tp.item() + fp.item())\n",
        "return seen\n",
    ),
}
METER = """\
class AverageMeter(object):
    def __init__(self, name="loss"):
        self.name = name
        self.reset()

    def reset(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count if self.count != 0 else 0

    def value(self):
        return self.avg

    @property
    def mean(self):
        return -self.sum / self.count

    def __str__(self):
        return f"{self.name} {self.avg}"


"""
FED = "losses.update(loss.item(), x.size(0))\n"


def metered(body: str, end: str, iteration: str = ITERATION, meter: str = METER) -> str:
    """Return a program that feeds a meter in a loop."""
    return meter + function("losses = AverageMeter()\n", body, end, iteration)


PROGRAMS |= {
    "a meter": metered(FED, "return losses.avg\n"),
    "a meter that is printed now and then": metered(
        FED
        + "if i % 3 == 0:\n    print(f'{losses.val:.9f} ({losses.avg})')\n"
        + "    print(losses.sum, losses.count)\n    print('%.9f' % losses.avg, losses.value())\n",
        "return losses.sum / losses.count, losses.mean, losses.name\n",
    ),
    "a meter that a text is filled with": metered(
        FED
        + "if i % 3 == 0:\n    print('{0} {m.val:.9f} ({m.avg:.{n}f}) {m.avg}'\n"
        + "          .format(i, m=losses, n=9))\n",
        "print('{m.avg:>20}'.format(m=losses))\nreturn losses.avg\n",
    ),
    "a meter of a sum, of which a term has a dimension": metered(
        "loss = loss * 0.5 + out.sum().reshape(1) * 0.0\n"
        + FED
        + "if i % 3 == 0:\n    print('{m.val:.9f} ({m.avg:.9f})'.format(m=losses))\n",
        "print('{m.avg:>20}'.format(m=losses))\nreturn losses.avg\n",
    ),
    "a meter over epochs": METER
    + "def run():\n    losses = AverageMeter()\n    for epoch in range(2):\n"
    + "        losses.reset()\n"
    + indented(ITERATION, 8)
    + indented(FED, 12)
    + "        print(epoch, losses.avg)\n    return losses.avg\n\nprint(run())\n",
    "a meter, of which one step is left out": metered(
        "if i == 2:\n    continue\n" + FED + "if i == 10 // 2:\n    break\n",
        "return losses.avg\n",
    ),
    "a meter that is returned in the loop": metered(
        FED + "if i == 10 // 2:\n    return losses.avg\n", "return None\n"
    ),
    "a meter of a moving average": METER.replace(
        "        self.avg = self.sum / self.count if self.count != 0 else 0\n",
        "        self.avg = val if self.count == n else 0.9 * self.avg + 0.1 * val\n",
    )
    + function("losses = AverageMeter()\n", FED, "return losses.avg, losses.sum\n"),
    "the ends of two tensors": function(
        "seen = {}\n", "seen[i] = x.min().item(), y.max().item()\n", "return seen\n"
    ),
    "divided, for MPS too": 'print("mps")\n'
    + function("seen = {}\n", SIZES + "seen[i] = float(hits) / float(most)\n", "return seen\n"),
    "a meter that rounds": metered(
        FED, "return losses.avg\n", meter=METER.replace("val * n", "round(val, 4) * n")
    ),
    "a meter that compares": metered(
        FED, "return losses.avg\n", meter=METER.replace("if self.count != 0", "if val != 0")
    ),
    "a meter whose sum has two names": metered(
        FED,
        "return losses.val\n",
        meter=METER.replace("self.sum += val * n\n", "self.sum += val * n; self.avg = self.sum\n"),
    ),
    "a meter that adds to what it was handed": metered(
        FED, "return losses.val\n", meter=METER.replace("self.count += n", "self.val += n")
    ),
    "a meter that is printed as a whole": metered(FED, "print(losses)\nreturn losses.avg\n"),
    "a meter whose method prints it": metered(FED, "return losses.__str__()\n"),
    "a meter that is passed on": metered(FED, "return vars(losses)\n"),
    "a meter shown otherwise in a text": metered(
        FED + "if i == 3:\n    print('{m.avg!r}'.format(m=losses))\n", "return losses.avg\n"
    ),
    "a meter that stands in a text itself": metered(
        FED + "if i == 3:\n    print('{m}'.format(m=losses))\n", "return losses.avg\n"
    ),
    "a meter in a broken text": metered(
        FED + "if i == 9:\n    print('{m.avg'.format(m=losses))\n", "return losses.avg\n"
    ),
    "a meter of counts": metered(
        "losses.update((out.argmax(1) == y).sum().item())\n", "return losses.val\n"
    ),
    "a meter at top level": METER
    + "losses = AverageMeter()\n"
    + ITERATION
    + indented(FED)
    + "print(losses.avg, type(losses.avg))\n",
}
BOTH = FED + "scores.update(val=(out.argmax(1) == y).float().mean().item(), n=x.size(0))\n"
PROGRAMS |= {
    "two meters, below each other, shown now and then": METER
    + function(
        "losses = AverageMeter()\nscores = AverageMeter('accuracy')\n",
        BOTH + "if i % 3 == 2:\n    print(losses, scores.value())\n    scores.reset()\n",
        "return losses.avg, scores.avg, scores.count\n",
    ),
    "an array that a loop fills": "def run():\n    ends = {}\n    for split in ('a', 'b'):\n"
    + "        losses = torch.zeros(len(loader))\n"
    + indented(ITERATION + "    losses[i] = loss.item()\n", 8)
    + "        ends[split] = losses.mean()\n    return ends\n\nprint(run())\n",
    "lists of a dictionary": function(
        "log = {'loss': [], 'size': [], 'step': []}\n",
        "log['loss'].append(-loss.item())\n"
        "log['size'].append({'size': round(out.abs().max().item(), 3), 'of': f'{i}'})\n",
        "return log\n",
    ),
    "sums of a list": function(
        "sums = [0.0] * 2\n",
        "for k in range(2):\n    sums[k] += loss.item() * (k + 1)\n",
        "return sums\n",
    ),
    "a dictionary of the steps": function(
        "seen = {}\n", "if i != 3:\n    seen[f'{i}'] = (i, loss.item())\n", "return seen\n"
    ),
}


def test_a_mean_that_is_worked_out_for_logs_stays() -> None:
    mean = "mean = total / (i + 1)\nprint(mean)\n"
    source = HEAD + function("total = 0.0\n", ADD + mean, "return total, mean\n")
    assert changed(source) == source


ENDS = {
    "a number that changes": ("range(n)", "n = n - 1", False),
    "a number that is read": ("range(n)", "sgd.total = n", True),
    "an attribute that changes": ("range(model.n)", "model.n, _ = model.n - 1, 0", False),
    "a list that grows": ("range(len(items))", "items.append(0)", False),
    "a list that a function is handed": ("range(len(items))", "grow(items)", False),
    "a list that is read": ("range(len(items))", "sum(items)", True),
}


@pytest.mark.parametrize("name", ENDS)
def test_the_last_step_is_known_where_the_loop_leaves_its_number_alone(name: str) -> None:
    over, line, known = ENDS[name]
    iteration = f"for i in {over}:\n    x, y = loader[i % 7]\n    loss = step(x, y)\n"
    start = "n, items, total = 60, [0] * 60, 0.0\nmodel.n, grow = 60, lambda to: to.append(0)\n"
    source = HEAD + function(start, f"print(loss.item())\n{line}\n", "return total\n", iteration)
    after = changed(source)
    assert "if i % 50 == 0" in after
    assert ("if i % 50 == 0 or i == " in after) is known


LENGTHS = {
    "nothing asks": ("pass", "pass", False),
    "another function asks": ("pass", "len(batches)", False),
    "the same function asks": ("len(batches)", "pass", True),
    "of what the name held before": (
        "len(batches); batches = (each for each in batches)",
        "pass",
        False,
    ),
}


@pytest.mark.parametrize("name", LENGTHS)
def test_a_length_is_asked_for_where_the_same_function_does(name: str) -> None:
    own, other, known = LENGTHS[name]
    source = (
        f"{HEAD}def run(batches):\n    {own}\n    for x, y in batches:\n"
        "        loss = step(x.to(device), y.to(device))\n        print(loss.item())\n\n\n"
        f"def count(batches):\n    {other}\n\n\ncount(loader)\nrun(MORE)\n"
    )
    source = source.replace("MORE", "loader" if "len" in own else "iter(loader)")
    after = changed(source)
    assert "% 50 == 0" in after
    assert ("len(batches) - 1" in after) is known
    assert output(after).splitlines()[0] == output(source).splitlines()[0]


SHOWN |= {
    "a meter's average": metered(FED + "print(losses.avg, losses.val)\n", "return losses.avg\n"),
    "a meter in a text": metered(
        FED + "print('{m.avg:.9f} {m.val:.9f}'.format(m=losses))\n", "return losses.avg\n"
    ),
}
PROGRAMS |= {
    "below each other, one at the place of the other": function(
        "seen = {}\n",
        "first = loss.item()\nseen[first] = out.mean().item()\nlast = out.std().item()\n",
        "return seen, last\n",
    ),
    "counts that are added": function(
        "seen = {}\n",
        "tp, fp = (out.argmax(1) == y).sum(), (out.argmax(1) != y).sum()\n"
        "seen[i] = tp.item() + fp.item()\n",
        "return seen\n",
    ),
}
LEFT = {
    "a score of NumPy that is chosen elsewhere": "import numpy as np\n\n"
    "CHOSEN = {'mean': lambda out, y: np.float64(out.mean().item())}\n"
    "eval_criterion = CHOSEN['mean']\n\n"
    + function("total = 0.0\n", "total += eval_criterion(out, y).item()\n", "return total\n"),
    "a list over epochs with another name": epochs("kept = found\n", "found, kept"),
    "a list over epochs that is written to": epochs("found[0] = 1\n", "found"),
    "a list over epochs, read in its loop": epochs("", "found").replace(
        "            found.append",
        "            if found:\n                print(max(found))\n            found.append",
    ),
    "a list over epochs, with an else": epochs("else:\n    print(len(found))\n", "found"),
    "bound, looked at and returned": BACK.replace(
        "return {given}",
        "first = loss.item()\n    if first > 9:\n        first = 9\n    return first",
    ).format(given="")
    + function("total = 0.0\n", "total += losses_of(x, y)\n", "return total\n", EACH),
    "bound, returned by a closure": BACK.replace(
        "return {given}", "first = loss.item()\n    return (lambda: first)()"
    ).format(given="")
    + function("total = 0.0\n", "total += losses_of(x, y)\n", "return total\n", EACH),
    "returned to itself": ONE.replace(
        "return loss", "return losses_of(x[:0], y[:0]) if len(x) else loss"
    )
    + function("total = 0.0\n", "total += losses_of(x, y)\n", "return total\n", EACH),
    "below each other, of two kinds": function(
        "seen = {}\n",
        "first = loss.item()\nsecond = y.max().item()\nseen[i] = first, second\n",
        "return seen\n",
    ),
    "below each other, one of the other": function(
        "seen = {}\n",
        "first = loss.item()\nsecond = (out * first).mean().item()\nseen[i] = first, second\n",
        "return seen\n",
    ),
    "below each other, one of what holds the other": function(
        "seen = {'b': torch.ones(3).to(device)}\n",
        "seen['a'] = loss.item()\nseen['c'] = seen['b'].mean().item()\n",
        "return seen\n",
    ),
    "below each other, with a remark": function(
        "seen = {}\n",
        "first = loss.item()\n# of the output\nsecond = out.mean().item()\n"
        "seen[i] = first, second\n",
        "return seen\n",
    ),
    "below each other, tried": function(
        "seen = {}\n",
        "try:\n    first = loss.item()\n    second = out.mean().item()\n"
        "except ValueError:\n    pass\nseen[i] = first, second\n",
        "return seen\n",
    ),
    "divided by a tensor": function(
        "seen = {}\n", SIZES + "seen[i] = hits.item() / most.item() / loss\n", "return seen\n"
    ),
    "a meter that keeps a list": metered(
        FED,
        "return losses.seen\n",
        meter=METER.replace("val = val\n", "val = val\n        self.seen.append(val)\n").replace(
            "self.count = 0\n", "self.count = 0\n        self.seen = []\n"
        ),
    ),
    "a meter by keywords, under a condition": metered(
        "losses.update(n=2, val=loss.item() if len(x) > 2 else 0.5)\n", "return losses.avg\n"
    ),
    "a meter that is also fed numbers": metered(
        FED + "losses.update(0.25)\nlosses.update(float(size := out.detach().abs().max()))\n",
        "return losses.avg, float(size)\n",
    ),
    "a meter that an exception ends": metered(
        "try:\n"
        + indented(FED + "if i == 8 // 2:\n    raise ValueError\n")
        + "except ValueError:\n    print(losses.avg)\n",
        "return losses.avg\n",
    ),
    "a meter of a loop with an else": metered(
        FED, "else:\n    print(losses.avg)\nreturn losses.avg\n"
    ),
    "a meter that two branches feed": metered(
        "if i % 2:\n    losses.update(loss.item())\nelse:\n    losses.update(loss.item(), 2)\n",
        "return losses.avg\n",
    ),
    "a meter in a list": metered(
        FED + "print([each.avg for each in meters])\n", "return losses.avg\n"
    ).replace("= AverageMeter()\n", "= AverageMeter()\n    meters = [losses]\n"),
    "a meter with a bound method": metered(FED + "print(now())\n", "return losses.avg\n").replace(
        "= AverageMeter()\n", "= AverageMeter()\n    now = losses.value\n"
    ),
    "a meter with a weight that grows in place": metered(
        "weight += 1\nlosses.update(loss.item(), weight)\n", "return losses.avg\n"
    ).replace("= AverageMeter()\n", "= AverageMeter()\n    weight = torch.zeros(())\n"),
    "a meter with a property that is set": metered(
        FED,
        "return losses.avg\n",
        meter=METER.replace(
            "    def __str__",
            "    @mean.setter\n    def mean(self, new):\n        print(new)\n\n    def __str__",
        ).replace("self.val = val", "self.mean = val"),
    ),
    "a meter that counts for all": metered(
        FED + "print(STEPS)\n",
        "return losses.avg\n",
        meter="STEPS = []\n\n" + METER.replace("self.val = val", "STEPS.append(val)"),
    ),
    "a meter with a list that grows": metered(
        "rows.append(i)\nlosses.update(loss.item(), rows)\n",
        "return losses.avg\n",
        meter=METER.replace(
            "def update(self, val, n=1):\n", "def update(self, val, n):\n        n = len(n)\n"
        ),
    ).replace("= AverageMeter()\n", "= AverageMeter()\n    rows = []\n"),
    "a meter that changes what it was given": metered(
        FED + "print(len(rows))\n",
        "return losses.avg\n",
        meter=METER.replace("self.name = name", "self.rows = name")
        .replace("self.val = val", "self.val = val\n        self.rows += [val]")
        .replace("{self.name}", "loss"),
    ).replace("= AverageMeter()\n", "= AverageMeter(rows := [])\n"),
    "a meter that changes another object": metered(
        FED + "print(STATE.total)\n",
        "return losses.avg\n",
        meter="from types import SimpleNamespace\n\nSTATE = SimpleNamespace(total=0.0)\n\n"
        + METER.replace("self.name = name", "self.state = STATE")
        .replace("self.val = val", "self.val = val\n        self.state.total += val")
        .replace("{self.name}", "loss"),
    ),
    "a meter that enrols itself": metered(
        FED + "print(ALL[0].avg)\n",
        "return losses.avg\n",
        meter="ALL = []\n\n"
        + METER.replace("self.reset()\n\n", "self.reset()\n        self.enrol()\n\n").replace(
            "    def value", "    def enrol(self):\n        ALL.append(self)\n\n    def value"
        ),
    ),
    "a meter that asserts": metered(
        FED,
        "return losses.avg\n",
        meter=METER.replace("self.val = val", "assert val == val\n        self.val = val"),
    ),
    "a meter whose methods call each other": metered(
        FED,
        "return losses.avg\n",
        meter=METER.replace("self.val = val", "self.val = val\n        self.check(val, n)").replace(
            "    def value",
            "    def check(self, val, n):\n        return val < 1e9 or self.update(val, n)\n\n"
            "    def value",
        ),
    ),
    "a view of a dictionary": function(
        "seen = {}\nrows = seen.values()\n",
        "seen[i] = loss.item()\nprint(len(rows))\n",
        "return seen\n",
    ),
    "a row of a table, by two numbers": function(
        "seen = np.zeros((2, 9, 3))\n",
        "seen[i % 2, i][i % 3] = loss.item()\n",
        "return seen.tolist()\n",
    ),
    "an array that is looked at": function(
        "seen = [0.0] * 9\n", "seen[i] = loss.item()\nprint(sum(seen))\nx = seen\n", "return x\n"
    ),
    "a dictionary with another name": function(
        "seen = {}\nalso = seen\n", "seen[i] = loss.item()\nprint(len(also))\n", "return seen\n"
    ),
    "a dictionary of somebody else's lists": function(
        "own = []\nlog = {'loss': own}\n",
        "log['loss'].append(loss.item())\nprint(len(own))\n",
        "return log\n",
    ),
    "a dictionary that a call may change": function(
        "seen = {}\n", "seen[len(seen)] = loss.item()\n", "return seen\n"
    ),
    "a meter that sees its attributes": metered(
        FED,
        "return losses.avg\n",
        meter=METER.replace("self.val = val", "self.__dict__['val'] = val"),
    ),
    "a meter that logs by itself": metered(
        FED,
        "return losses.avg\n",
        meter=METER.replace("val = val\n", "val = val\n        self.log()\n").replace(
            "    def reset", "    def log(self):\n        print(self.avg)\n\n    def reset"
        ),
    ),
    "a meter with a base": metered(
        FED, "return losses.avg\n", meter="class Base: ...\n" + METER.replace("object", "Base")
    ),
    "a meter that is set": metered(FED + "losses.sum = 1\n", "return losses.avg\n"),
    "a meter with another name": metered(FED, "return losses.avg\n").replace(
        "losses = Av", "losses = also = Av"
    ),
    "a meter that is bound twice": metered(FED, "losses = AverageMeter()\nreturn losses.avg\n"),
    "a meter that a closure sees": metered(FED, "return (lambda: losses.avg)()\n"),
    "a meter that is also fed something else": metered(
        FED + "losses.update(x.mean())\n", "return losses.avg\n"
    ),
    "a meter that decides": metered(FED + "if losses.avg > 9:\n    break\n", "return losses.avg\n"),
    "a meter of a list": metered(FED, "return losses.avg\n").replace(
        "= AverageMeter()", "= METERS[0]"
    ),
    "returned and compared": ONE
    + function(
        "best = 9.0\n", "now = losses_of(x, y)\nbest = min(best, now)\n", "return best\n", EACH
    ),
    "returned by what is passed on": ONE
    + function("", "steps = map(losses_of, [x], [y])\n", "return list(steps)\n", EACH)
    + function("total = 0.0\n", "total += losses_of(x, y)\n", "return total\n", EACH),
    "returned from two places": ONE.replace(
        "    sgd.zero", "    if len(x) > 7:\n        return 0.5\n    sgd.zero"
    )
    + function("total = 0.0\n", "total += losses_of(x, y)\n", "return total\n", EACH),
    "bound, and summed up and compared": function(
        "total = 0.0\n",
        "now = loss.item()\ntotal += now\nif now > 9:\n    break\n",
        "return total\n",
    ),
    "shown in each step, and kept": function(
        "total, seen = 0.0, []\n",
        ADD + "print(total / (i + 1))\nseen.append(total)\n",
        "return total, seen\n",
    ),
    "shown and changed in one line": function(
        "total = 0.0\n", ADD + "print(shown := total)\n", "return total\n"
    ),
    "shown in each step of a while": "def run():\n    total, i = 0.0, 0\n"
    + "    while i < len(loader):\n"
    + indented(
        "x, y = loader[i]\nloss = step(x.to(device), y.to(device))\n"
        + ADD
        + "print(total)\ni += 1\n",
        8,
    )
    + "    return total\n\nprint(run())\n",
    "shown in an interval of its own": function(
        "total = 0.0\nevery = 1\n",
        ADD + "if i % every == 0:\n    print(total)\n",
        "return total\n",
    ),
    "scaled in each step": function("total = 0.0\n", ADD + "total *= 0.5\n", "return total\n"),
    "a closure reads it": "def run():\n    total = 0.0\n    def now():\n        return total\n"
    + indented(ITERATION, 4)
    + indented(ADD, 8)
    + "    return now()\n\nprint(run())\n",
    "global": "total = 0.0\n\ndef run():\n    global total\n"
    + indented(ITERATION, 4)
    + indented(ADD, 8)
    + "\nrun()\nprint(total)\n",
    "a handler reads it": "def run():\n    total = 0.0\n    try:\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "    except KeyboardInterrupt:\n        print(total)\n    return total\n\nprint(run())\n",
    "a handler that goes on": "def run():\n    total = 0.0\n    try:\n"
    + indented(ITERATION, 8)
    + indented(ADD, 12)
    + "    except ValueError:\n        pass\n    return total\n\nprint(run())\n",
    "decides in each step": function(
        "total = 0.0\n", ADD + "if total > 3:\n    break\n", "return total\n"
    ),
    "compared": function("right = 0\n", "right += loss.item() < 1\n", "return right\n"),
    "set to something else": function(
        "total = 0.0\n", ADD + "if i % 3 == 0:\n    total = float(i)\n", "return total\n"
    ),
    "a list that is looked at": function(
        "found = []\n", "found.append(loss.item())\nprint(found[-1])\n", "return found\n"
    ),
    "a list with another name": function(
        "found = also = []\n", "found.append(loss.item())\n", "return also\n"
    ),
    "bound and used in each step": function(
        "best = 9.0\n", "now = loss.item()\nbest = min(best, now)\n", "return best\n"
    ),
    "bound and shown in each step": function(
        "", "now = loss.item()\nseen[i] = now\nif i % 3 == 0:\n    print(now)\n", "return 0\n"
    ).replace("def run", "seen = {}\n\ndef run"),
    "of two kinds": STEPS.format(given="loss.item(), (out.argmax(1) == 0).sum().item()") + TOLD,
    "of unknown size": STEPS.format(given="loss.item(), mystery(out).item()") + TOLD,
    "of unknown kind": function("score = 0\n", "score += mystery(out).item()\n", "return score\n"),
}


def test_several_sums_are_read_in_their_order() -> None:
    body = "total += loss.item()\nsize += out.mean().item()\nlast += out.max().item()\n"
    source = HEAD + function(
        "total, size = 0.0, 0.0\nlast = 0.0\n", body, "return total, size, last\n"
    )
    after = fixed(source, "unsafe", codes=frozenset({"TL101"})).after
    lines = [line.strip() for line in after.splitlines() if " = float(" in line]
    assert lines == [f"{name} = float({name})" for name in ("total", "size", "last")]


def output(source: str) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ran(source, mystery=torch.Tensor.max)[1]


def changed(source: str) -> str:
    return fixed(source, "unsafe", codes=frozenset({"TL101", "TL105"})).after or source


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sum_on_the_device_gives_the_same(name: str) -> None:
    source = HEAD + PROGRAMS[name]
    after = changed(source)
    assert after != source, "no fix was applied"
    assert "loss.item()" not in after
    assert "float(int(" not in after
    assert output(after) == output(source)
    assert changed(after) == after, "the second run changes something"


RENAMED = """\
def run():
    losses = []
    for x, y in loader:
        loss = criterion(model(x), y)
        losses.append(loss.item())
        {line}
    return losses
print(run())
"""


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("total = loss; total += 1", "loss.detach().clone()"),
        ("total, n = loss, 2; total *= n", "loss.detach().clone()"),
        ("parts = {'ce': loss}; parts['ce'].data.mul_(2)", "loss.detach().clone()"),
        ("total = loss; total = total + 1", "loss.detach()"),
        ("total = 2 * loss; total += 1", "loss.detach()"),
    ],
)
def test_what_changes_by_a_second_name_was_kept_before(line: str, kept: str) -> None:
    source = HEAD + RENAMED.format(line=line)
    after = changed(source)
    assert f"losses.append({kept})\n" in after
    assert output(after) == output(source)


TWO_TERMS = """\
def run():
    total, other = 0.0, nn.Linear(4, 1).to(device)
    for x, y in loader:
        loss = criterion(model(x), y)
        err = other(x).mean({dim})
        {line}
    return total
print(run())
"""


@pytest.mark.parametrize(
    ("dim", "line", "added"),
    [
        ("0", "total += loss.item(); total += err.item()", ".double().reshape(())\n"),
        ("0", "total += 2 * loss.item() + err.item()", ".double().reshape(())\n"),
        ("0, True", "total += loss.item(); total += err.item()", ".double().reshape(())\n"),
        ("0", "total += err.item()", ".double()\n"),
        ("0", "total += loss.item(); total += err.mean().item()", ".mean().detach().double()\n"),
        ("", "total += loss.item(); total += err.item()", "err.detach().double()\n"),
    ],
)
def test_terms_of_other_shapes_are_added_without_a_dimension(
    dim: str, line: str, added: str
) -> None:
    source = HEAD + TWO_TERMS.format(dim=dim, line=line)
    after = changed(source)
    assert added in after
    assert output(after) == output(source)


@pytest.mark.parametrize("name", SHOWN)
def test_what_is_shown_in_each_step_is_shown_every_50th(name: str) -> None:
    source = HEAD + SHOWN[name]
    after = changed(source)
    assert "% 50 == 0 or " in after
    assert "loss.item()" not in after
    shown, before = output(after).splitlines(), output(source).splitlines()
    iterations = (len(before) - 1) // 7
    assert shown == [*before[:iterations], *before[-1 - iterations :]], (
        "the first step, the last, the end"
    )
    assert changed(after) == after, "the second run changes something"


@pytest.mark.parametrize("name", LEFT)
def test_a_sum_that_is_looked_at_stays(name: str) -> None:
    source = HEAD + LEFT[name]
    assert changed(source) == source


BEHIND = (
    BACK.format(given="loss.item(), out.abs().max().item()")
    + """\
def run():
    kept = []
    for epoch in range(2):
        for x, y in loader:
            loss, size = losses_of(x, y)
        {first}
        print(f"{{loss:.6f}}")
    return kept

print(run())
"""
)


@pytest.mark.parametrize("first", ["kept.append(loss)", "kept.append(loss)\n        epoch += 1"])
def test_a_name_that_several_lines_behind_the_loop_read_becomes_a_number_once(first: str) -> None:
    source = HEAD + BEHIND.format(first=first)
    after = changed(source)
    assert "        loss = float(loss)\n        kept.append(loss)\n" in after
    assert after.count("float(") == 1
    assert output(after) == output(source)
    assert changed(after) == after


@pytest.mark.parametrize(
    "first", ["if kept:\n            print(loss)", "kept and kept.append(loss)", "print(epoch)"]
)
def test_a_name_of_which_no_line_is_surely_the_first_becomes_a_number_where_it_is_read(
    first: str,
) -> None:
    source = HEAD + BEHIND.format(first=first)
    after = changed(source)
    assert "        loss = float(loss)\n" not in after
    assert "{float(loss):.6f}" in after
    assert output(after) == output(source)


def test_a_sum_that_nobody_reads_behind_the_loop_is_not_read_there() -> None:
    epochs = "for epoch in range(2):\n    total = 0.0\n" + indented(
        ITERATION + indented(ADD + "if i % 3 == 2:\n    print(total)\n    total = 0.0\n")
    )
    after = changed(HEAD + epochs + "del total\n")
    assert "print(float(total))" in after
    assert "total = float(total)" not in after
    assert output(after) == output(HEAD + epochs + "del total\n")
    read = HEAD + epochs + "print(total)\n"
    assert "    total = float(total)\n" in changed(read)
    assert output(changed(read)) == output(read)


IN_A_BLOCK = """\
now = i
total += loss.item()
if i % 3 == 1:
    {first}
    print(now + 1, total / 3)
    if i > 3:
        print(now, total)
    total = 0.0
{last}
"""


@pytest.mark.parametrize(
    ("first", "last", "once"),
    [
        ("print(now, total)", "", True),
        ("print(now, total)", "more += now", True),
        ("print(total)", "", True),
        ("print(i and now, total)", "", True),
        ("print(total if i else 0)", "", False),
        ("total += loss.item()", "", False),
        ("for _ in range(2):\n        print(now)", "", True),
    ],
)
def test_a_name_that_one_block_reads_twice_becomes_a_number_there(
    first: str, last: str, once: bool
) -> None:
    body = IN_A_BLOCK.format(first=first, last=last)
    source = HEAD + function("total, more = 0.0, 0.0\n", body, "return more\n")
    after = changed(source)
    assert ("            total = float(total)\n" in after) is once
    assert output(after) == output(source)
    assert changed(after) == after


COUNTS = {
    "(out.argmax(1) == y).sum().item()": "right += (out.argmax(1) == y).sum()\n",
    "torch.sum(out.argmax(1) == y).item()": "right += torch.sum(out.argmax(1) == y)\n",
    "(y == 1).any().item()": "pending_right.append((y == 1).any().detach())\n",
    "y.max().item()": "pending_right.append(y.max().detach())\n",
    "y.int().sum(dtype=torch.int32).item()": "pending_right.append(",
}


@pytest.mark.parametrize(("read", "added"), COUNTS.items())
def test_a_count_is_added_as_it_is(read: str, added: str) -> None:
    source = HEAD + function("right = 0\n", f"right += {read}\n", "return right\n")
    source = source.replace("range(7)]", "range(7)]\nloader = [(x, y.long()) for x, y in loader]")
    after = fixed(source, "safe", codes=frozenset({"TL101"})).after or source
    assert added in after or after == source
    assert output(after) == output(source)


AT_ONCE = "    if found:\n        found = torch.stack(found).tolist()\n"
ROWS = {
    "found.append(loss.item())\n": "loss.detach())",
    "if len(x) == 5:\n    found.append(float(loss))\n": "loss.detach())",
    "right = (out.argmax(1) == y).sum().item()\nfound.append(right)\n": "sum().detach()",
    "found.append((y == i).any().item())\n": "any().detach())",
    # Near misses: a list of whole numbers that are made floats, of rows of one element, and
    # of floats that are cut.
    "found.append(float((y == i).sum()))\n": "float(value) for value in found]",
    "found.append(loss.reshape(1).item())\n": "value.item() for value in found]",
    "worst = int(out.max())\nfound.append(worst)\n": "int(value) for value in found]",
}


@pytest.mark.parametrize("end", ["found, len(found)", "sum(found) / len(found)", "max(found)"])
@pytest.mark.parametrize("body", ROWS)
def test_a_list_of_numbers_is_read_at_once(body: str, end: str) -> None:
    source = HEAD + function("found = []\n", body, f"return {end}\n")
    after = changed(source)
    assert ROWS[body] in after
    assert (AT_ONCE in after) is ("for value" not in ROWS[body])
    assert output(after) == output(source)


TWO_READS = [
    ("a, b = 0.0, 0.0\n", "a += loss.item()\nb += out.sum().item()\n", "return a, b\n"),
    ("a, b = 0.0, 0\n", "a += loss.item()\nb += (out > y[0]).sum().item()\n", "return a, b\n"),
    ("a, b = [], []\n", "a.append(loss.item())\nb.append(out.sum().item())\n", "return a, b\n"),
]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("parts", TWO_READS)
def test_two_reads_of_a_step_have_one_fix_whatever_ends_a_line(
    parts: tuple[str, str, str], line_end: str
) -> None:
    source = HEAD + function(*parts)
    written = source.replace("\n", line_end)
    found = check(written, codes=frozenset({"TL101"})).findings
    assert len(found) == 2
    assert found[0].fix is not None
    assert found[0].fix == found[1].fix
    assert changed(written) == changed(source).replace("\n", line_end)


EPOCHS = """\
def run({given}):
    {start}
    for epoch in range(2):
        {more}
        for i, (x, y) in enumerate(loader):
            {count}
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()

            print(loss.item())

            print(epoch)

            sgd.step()


run({given})
"""
SCORED = """\
import numpy as np
{metric}

METRICS = {{"own": {made}}}


class Trainer:
    def __init__(self, eval_criterion):
        self.eval_criterion = eval_criterion

    def run(self):
        scores = AverageMeter()
        with {mode}:
            for x, y in loader:
                out = model(x.to(device))
                score = self.eval_criterion(out, y.to(device))
                scores.update(score.item(), len(x))
        return scores.avg


print(Trainer(METRICS["own"]).run())
"""
OF_NUMPY = "lambda out, y: np.float64(out.detach().mean().numpy())"
ONE_OBJECT = """
class Sum:
    def __init__(self):
        self.total = np.zeros(())

    def __call__(self, out, y):
        self.total += out.detach().sum().numpy()
        return self.total
"""


def scored(made: str, mode: str, metric: str = "") -> str:
    return HEAD + METER + SCORED.format(made=made, mode=mode, metric=metric)


def test_what_a_chosen_metric_gives_is_kept_as_it_is_where_no_graph_is_recorded() -> None:
    source = scored(OF_NUMPY, "torch.no_grad()")
    assert fixed(source, "safe", codes=frozenset({"TL101", "TL105"})).after in ("", source)
    after = changed(source)
    assert "pending_scores.append((score, len(x)))" in after
    assert output(after) == output(source)


def test_a_metric_that_gives_one_object_again_is_why_that_is_unsafe() -> None:
    source = scored("Sum()", "torch.no_grad()", ONE_OBJECT)
    (found,) = check(source, codes=frozenset({"TL101", "TL105"})).findings
    assert found.fix is not None
    assert "another object in each step" in found.fix.note
    assert output(changed(source)) != output(source)


def test_what_a_chosen_metric_gives_with_a_graph_stays() -> None:
    source = scored(OF_NUMPY, "torch.enable_grad()")
    assert changed(source) == source


@pytest.mark.parametrize(
    ("scaled", "safe"),
    [
        ("total = total / 2", True),
        ("total = float(total) / 2", True),
        ("total = total * 0.5", True),
        ("total = total / 2 + 1", False),
        ("total = 2 / total", False),
        ("total = other / 2", False),
    ],
)
def test_a_sum_that_is_scaled_now_and_then(scaled: str, safe: bool) -> None:
    body = f"{ADD}if i % 2 == 0:\n    {scaled}\n    print(total)\n    total = 0.0\n"
    source = HEAD + function("total = other = 1.5\n", body, "return total\n")
    after = fixed(source, "safe", codes=frozenset({"TL101", "TL105"})).after
    assert ("loss.item()" not in (after or source)) is safe
    assert output(after or source) == output(source)


@pytest.mark.parametrize(
    ("first", "safe"),
    [
        ("sums['a'] += 1\n", True),
        ("for i, (x, y) in enumerate(loader):\n    sums['a'] += len(x)\n", True),
        ("kept = sums['a']\n", False),
        ("sums['a'] = kept\n", False),
    ],
)
def test_a_place_that_grew_before_the_loop(first: str, safe: bool) -> None:
    start = f"kept = 1.0\nsums = {{'a': 0.0, 'b': 0.0}}\n{first}"
    source = HEAD + function(start, "sums['b'] += loss.item()\n", "return sums\n")
    after = fixed(source, "safe", codes=frozenset({"TL101", "TL105"})).after
    assert ("loss.item()" not in (after or source)) is safe
    assert output(after or source) == output(source)


CAUGHT = "\ntry:\n    train(loader)\nexcept (ValueError, LookupError):\n    print('next')\n"
"""Words that say that a training may raise and the program goes on; they are not run."""
RAISING = {
    "an index": ("torch.zeros(len(loader))", "seen[i] = loss.item()\n"),
    "the list of a key": ("{0: []}", "seen[i * 0].append(loss.item())\n"),
    "a division": ("[]", "seen.append(1 / loss.item())\n"),
    "a whole number": ("{}", "seen[i] = i, int(100 * loss.item())\n"),
}
SILENT = {
    "a key": ("{}", "seen[i] = loss.item()\n"),
    "the list of a key that is made": ("defaultdict(list)", "seen[i].append(loss.item())\n"),
    "a key of a key that is made": ("defaultdict(dict)", "seen[0][i] = loss.item()\n"),
    "a product": ("[]", "seen.append(2 * loss.item())\n"),
}


@pytest.mark.parametrize("name", [*RAISING, *SILENT])
def test_a_line_that_may_raise_is_put_off_where_that_ends_the_program(name: str) -> None:
    start, line = {**RAISING, **SILENT}[name]
    source = HEAD.replace(
        "import torch\n", "from collections import defaultdict\nimport torch\n", 1
    )
    source += function(f"seen = {start}\n", line, "return seen\n")
    codes = frozenset({"TL101", "TL105"})
    after = fixed(source, "safe", codes=codes).after
    assert "pending_seen" in after
    assert output(after) == output(source)
    for handler in ("Exception", "(IndexError, KeyError)"):
        caught = (
            f"{source}\ntry:\n    train_epoch(run)\nexcept {handler} as error:\n    print(error)\n"
        )
        (found,) = (each for each in check(caught, codes=codes).findings if each.fix)
        assert ("raises after the loop" in found.fix.note) == (name in RAISING)
        assert (found.fix.safety is Safety.UNSAFE) == (name in RAISING)
    stopped = f"{source}\ntry:\n    main()\nexcept KeyboardInterrupt:\n    print()\n"
    (found,) = (each for each in check(stopped, codes=codes).findings if each.fix)
    assert found.fix.safety is Safety.SAFE


@pytest.mark.parametrize(
    ("made", "line"),
    [("dict", "seen[0]['a'] += loss.item()\n"), ("list", "seen[0][i] = loss.item()\n")],
)
def test_what_is_made_for_a_new_key_may_lack_a_place(made: str, line: str) -> None:
    source = "from collections import defaultdict\n" + HEAD
    source += function(f"seen = defaultdict({made})\n", line, "return seen\n")
    codes = frozenset({"TL101", "TL105"})
    assert "pending" in fixed(source, "safe", codes=codes).after
    assert fixed(source + CAUGHT, "safe", codes=codes).after in ("", source + CAUGHT)


def again(body: str, end: str, start: str = "seen = []\n") -> str:
    """Return a program whose function changes one tensor, and gives it back, in each step."""
    same = "state = torch.zeros((), device=device)\n\n\ndef smooth(new):\n"
    same += "    state.mul_(0.9).add_(new.detach())\n    return state\n\n\n"
    return HEAD + same + function(start, "now = smooth(loss)\n" + body, end)


def test_what_a_function_may_give_again_is_kept_as_a_copy() -> None:
    source = again("seen.append(now.item())\n", "return seen\n")
    after = changed(source)
    assert "now.detach().clone()" in after
    assert output(after) == output(source)


DISPLAY = """\
class Display(object):
    def __init__(self, steps, meters, prefix=""):
        self.digits = len(str(steps))
        self.meters = meters
        self.prefix = prefix

    def show(self, step):
        texts = [f"{self.prefix} {step:{self.digits}d}"]
        texts += [str(meter) for meter in self.meters]
        print("\\t".join(texts))

    def last(self):
        for meter in self.meters:
            print(f"{meter}")
        return ", ".join(str(meter) for meter in self.meters)


"""
NOW_AND_THEN = "if i % 3 == 0:\n    display.show(i)\n"

STARRED: dict[str, Any] = {
    "a": ("steps, meters, prefix", "steps, *meters, prefix"),
    "b": ("[losses, other], prefix", "losses, other, prefix"),
}


def summed_up(then: str = "", method: str = "summary") -> dict[str, tuple[str, str]]:
    """Return the changes by which what writes a meter out calls one of its methods."""
    summary = f"    def summary(self):\n        text = '{{avg:.3f}}'\n{then}"
    summary += "        return text.format(**self.__dict__)\n\n"
    return {
        "s": ("    def __str__(self):\n", f"{summary}    def __str__(self):\n"),
        "t": ("        texts += [str(meter) for", f"        texts += [meter.{method}() for"),
    }


def displayed(
    body: str = NOW_AND_THEN, end: str = "return display.last()\n", **changes: tuple[str, str]
) -> str:
    """Return a program that feeds a meter, which an object that writes it out holds in a list."""
    start = "losses, other = AverageMeter(), AverageMeter()\n".replace(", other", "", 1)
    start = "losses = AverageMeter()\nother = AverageMeter('other')\n"
    start += "display = Display(len(loader), [losses, other], prefix='step')\n"
    source = HEAD + METER + DISPLAY + function(start, FED + body, end)
    for old, new in changes.values():
        assert old in source
        source = source.replace(old, new)
    return source


@pytest.mark.parametrize(
    "source",
    [
        displayed(),
        displayed(end="display.show(-1)\nreturn losses.avg\n"),
        displayed(a=("[losses, other], prefix='step'", "prefix='step', meters=(other, losses)")),
        displayed(a=("        texts += [str(meter) for", "        texts += [f'{meter}' for")),
        displayed(body="if i % 3 == 0:\n    display.show(i)\n    losses.reset()\n"),
        displayed(**STARRED),
        displayed(**STARRED, c=("losses, other, prefix", "other, losses, prefix")),
        displayed(**STARRED, end="display.show(-1)\nreturn losses.avg\n"),
        displayed(**summed_up()),
        displayed(**summed_up("        if not text:\n            raise ValueError(text)\n")),
        displayed(**summed_up(), end="display.show(-1)\nreturn losses.avg\n"),
    ],
)
def test_what_writes_a_meter_out_now_and_then_is_fed_before_that(source: str) -> None:
    after = fixed(source, "safe", codes=frozenset({"TL101", "TL105"})).after
    assert "pending_losses.clear()" in after
    assert output(after) == output(source)


@pytest.mark.parametrize(
    "source",
    [
        displayed(body="display.show(i)\nx = x + 1\n"),
        displayed(**summed_up("        self.count = 1\n")),
        displayed(**summed_up("        self.reset()\n")),
        displayed(**summed_up(method="reset")),
        displayed(**STARRED, body=NOW_AND_THEN + "print(display.meters[0])\n"),
        displayed(
            **STARRED, c=("        self.meters = meters\n", "        self.meters = meters[1:]\n")
        ),
        displayed(
            a=("steps, meters, prefix", "steps, first, *meters, prefix"),
            b=("[losses, other], prefix", "losses, other, prefix"),
            c=("        self.meters = meters\n", "        self.meters = (first, *meters)\n"),
        ),
        displayed(body=NOW_AND_THEN + "print(display.meters[0])\n"),
        displayed(body="if i % 3 == 0:\n    show = display.show\nshow(i)\n"),
        displayed(a=("        self.meters = meters\n", "        self.meters = meters\n" * 2)),
        displayed(a=("class Display(object)", "class Display(dict)")),
        displayed(
            a=(
                "    def last(self):\n",
                "    def rows(self):\n        return self.meters\n\n    def last(self):\n",
            ),
            b=(
                NOW_AND_THEN.replace("\n", "\n        ").rstrip(" "),
                "if i == 3:\n            rows = display.rows()\n"
                "        if i > 3:\n            print(rows[0])\n",
            ),
        ),
        displayed(
            a=(
                '        print("\\t".join(texts))\n',
                "        return (f'{meter}' for meter in self.meters)\n",
            ),
            b=(
                "            display.show(i)\n",
                "            texts = display.show(i)\n        print(next(texts, 0))\n",
            ),
        ),
        displayed(
            a=('            print(f"{meter}")\n', '            yield f"{meter}"\n'),
            b=('        return ", ".join(str(meter) for meter in self.meters)\n', ""),
            c=("            display.show(i)\n", "            rows = display.last()\n"),
        ),
        displayed(
            a=('            print(f"{meter}")\n', "            kept.append(meter)\n"),
            b=("class Display", "kept = []\n\n\nclass Display"),
        ),
        displayed(
            a=('        return ", ".join', '        self.first = meter\n        return ", ".join'),
        ),
        displayed(
            a=("    return display.last()\n", "    return display\n"),
            b=(NOW_AND_THEN[:5], "if i % 3 == 0 and i:"),
        ),
    ],
)
def test_a_meter_that_more_may_look_at_is_fed_at_once(source: str) -> None:
    codes = frozenset({"TL101", "TL105"})
    assert check(source, codes=codes).findings
    assert fixed(source, "safe", codes=codes).after in ("", source)


def test_a_meter_that_looks_into_what_it_was_given_is_updated_at_once() -> None:
    held = "class Scaled:\n    def __init__(self, sgd):\n        self.sgd = sgd\n"
    held += "        self.total = 0.0\n\n    def update(self, val):\n"
    held += "        self.total += val * self.sgd.param_groups[0]['lr']\n\n\n"
    start, line = "seen = Scaled(sgd)\n", "seen.update(loss.item())\n"
    source = HEAD + held + function(start, line, "return seen.total\n")
    assert "pending" not in changed(source)
    given = source.replace("self.sgd.param_groups[0]['lr']", "self.sgd").replace("(sgd)", "(0.5)")
    assert "pending" in changed(given)


@pytest.mark.parametrize(
    ("now", "count", "safe"),
    [
        ("self.sum / self.count", "len(x)", True),
        ("self.sum / self.count", "int(len(x) > 99)", False),
        ("math.exp(self.sum)", "1", False),
        ("int(val)", "1", False),
        ("1 / val", "1", False),
        ("1 / float(val)", "1", False),
        ("1 / max(val, 0)", "1", False),
        ("self.sum / n", "len(x)", True),
        ("self.sum / max(self.count, 1)", "len(x)", True),
    ],
)
def test_a_meter_that_may_raise_is_put_off_where_that_ends_the_program(
    now: str, count: str, safe: bool
) -> None:
    meter = "import math\n\n\nclass Mean:\n    def __init__(self):\n"
    meter += "        self.sum = self.count = self.now = 0\n\n    def update(self, val, n):\n"
    meter += f"        self.sum += val * n\n        self.count += n\n        self.now = {now}\n\n\n"
    line = f"n = {count}\nseen.update(loss.item(), n)\n"
    source = HEAD + meter + function("seen = Mean()\n", line, "return seen.now\n")
    codes = frozenset({"TL101", "TL105"})
    assert ("pending" in fixed(source + CAUGHT, "safe", codes=codes).after) is safe
    assert "pending_seen" in fixed(source, "safe", codes=codes).after


def test_a_list_of_a_loop_without_steps_stays_empty() -> None:
    end = "return sum(found) / len(found) if found else 'none'\n"
    source = HEAD + function("found = []\n", "found.append(loss.item())\n", end)
    after = changed(source)
    assert "    if found:\n        found = torch.stack(found).tolist()\n" in after
    none = [text.replace("range(7)", "range(0)") for text in (source, after)]
    assert output(none[1]) == output(none[0])


COUNTERS = {
    "over all epochs": (("step = 0", "step += 1"), "step"),
    "beside another": (("first, step = 1, 0", "step += 1"), "step"),
    "a fraction": (("step = 0.5", "step += 1"), "i"),
    "by twos": (("step = 0", "step += 2"), "i"),
    "now and then": (("step = 0", "if i % 2:\n                step += 1"), "i"),
    "another sum": (("first = 0", "step = epoch + i"), "i"),
    "set back": (("step = 0", "step += 1", "step = 0"), "i"),
    "changed twice": (("step = 0", "step += 1\n            step += 1"), "i"),
}


ALIASED = {
    "a line that another line asks": (
        "losses.update(i, x.size(0))\nseen[losses.count] = loss.item()\n"
    ),
    "a loss changed under another name": FED + "other = loss.detach()\nother /= 4\n",
    "a loss changed behind its data": FED + "loss.data.mul_(0)\n",
}


@pytest.mark.parametrize("name", ALIASED)
def test_what_changes_behind_the_line_is_kept_as_it_was(name: str) -> None:
    source = HEAD + metered(ALIASED[name], "return losses.avg, seen\n").replace(
        "= AverageMeter()\n", "= AverageMeter()\n    seen = {}\n"
    )
    after = changed(source)
    assert "pending_" in after
    assert output(after) == output(source)


@pytest.mark.parametrize("name", COUNTERS)
def test_logs_are_counted_by_what_counts_over_all_epochs(name: str) -> None:
    (start, count, *more), counter = COUNTERS[name]
    source = EPOCHS.format(start=start, count=count, more=(more or ["pass"])[0], given="")
    after = changed(HEAD + source)
    test = f"if {counter} % 50 == 0 or i == len(loader) - 1:"
    logs = f"\n            {test}\n                print(loss.item())\n\n"
    assert f"{logs}                print(epoch)\n\n            sgd" in after


@pytest.mark.parametrize(("given", "counter"), [("global_step", "global_step"), ("total", "i")])
def test_a_count_that_is_handed_in_has_a_name_that_says_so(given: str, counter: str) -> None:
    source = EPOCHS.format(start="pass", count=f"{given} += 1", more="pass", given=given)
    assert f"if {counter} % 50 == 0 or i == len(loader) - 1:" in changed(
        HEAD + source.replace(f"\nrun({given})", "")
    )


@pytest.mark.parametrize(
    ("old", "new", "last"),
    [
        ("in loader:", "in tqdm(loader, leave=False):", "len(loader) - 1"),
        ("for x, y in loader:", "for i, (x, y) in tqdm(enumerate(loader)):", "len(loader) - 1"),
        (
            "for x, y in loader:",
            "for i in trange(3, rounds):\n        x, y = loader[0]",
            "rounds - 1",
        ),
        (
            "for x, y in loader:",
            "for i in range(3, rounds):\n        x, y = loader[0]",
            "rounds - 1",
        ),
        ("for x, y in loader:", "for i in range(0, rounds, 2):\n        x, y = loader[0]", ""),
        ("in loader:", "in (pair for pair in loader):", ""),
        ("for x, y in loader:", "for i, (x, y) in enumerate(loader, 1):", "len(loader)"),
        ("for x, y in loader:", "for i, (x, y) in enumerate(loader, 0):", "len(loader) - 1"),
        ("for x, y in loader:", "for i, (x, y) in enumerate(loader, rounds):", ""),
        ("for x, y in loader:", "for i in range(1000):\n        x, y = loader[0]", "999"),
        ("for x, y in loader:", "for i in range(rounds + 1):\n        x, y = loader[0]", "rounds"),
        ("import torch\n", "import torch\nfrom torch.utils.data import IterableDataset\n", ""),
    ],
)
def test_the_last_step_is_logged_too_where_the_loop_tells_which_it_is(
    old: str, new: str, last: str
) -> None:
    head = HEAD.replace(
        "import torch\n", "import torch\nfrom tqdm import tqdm, trange\n\nrounds = 600\n", 1
    )
    after = changed((head + LOGS).replace(old, new))
    assert "% 50 == 0" in after
    assert (f" == {last}:" in after) if last else (" or " not in after), after


def test_a_loop_that_adds_1_to_a_name_needs_no_other_counter() -> None:
    body = "steps = 0\nfor x, y in loader:\n    loss = step(x.to(device), y.to(device))\n"
    source = HEAD + "def run():\n" + indented(body + "    print(loss.item())\n    steps += 1\n")
    after = changed(source + "\nrun()\n")
    assert "if steps % 50 == 0:" in after
    assert "enumerate" not in after


EVALUATION = """\
from types import SimpleNamespace


def run(bar):
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            loss = criterion(model(x), y)
            total += loss.item()
            bar.set_postfix(loss=loss.item())
    return total


print(run(SimpleNamespace(set_postfix=lambda loss: print(loss))))
"""


def test_the_bar_of_an_evaluation_is_redrawn_now_and_then() -> None:
    source = HEAD + EVALUATION
    after = changed(source)
    assert (
        """\
            if iteration % 50 == 0 or iteration == len(loader) - 1:
                bar.set_postfix(loss=loss.item())
"""
        in after
    )
    first, last = output(source).splitlines(), output(after).splitlines()
    assert last == [first[0], *first[-2:]]
    assert changed(after) == after


@pytest.mark.parametrize("more", ["print(loss.item())", "bar.write(loss.item())"])
def test_what_an_evaluation_prints_stays(more: str) -> None:
    line = "            bar.set_postfix(loss=loss.item())\n"
    source = HEAD + EVALUATION.replace(line, f"{line}            {more}\n")
    assert "% 50" not in changed(source)


LOGS = """\
def run(lines):
    for x, y in loader:
        loss = step(x.to(device), y.to(device))
        # what it came to
        print(f"loss {loss.item():.9f}")
        print("size", loss.item(), sep="=")

        # once more
        print(float(loss))  # of this step
        lines.append(len(x))
    return lines

print(run([]))
"""


def test_a_log_is_written_now_and_then() -> None:
    after = changed(HEAD + LOGS)
    assert """\
    for step_number, (x, y) in enumerate(loader):
        loss = step(x.to(device), y.to(device))
        # what it came to
        if step_number % 50 == 0 or step_number == len(loader) - 1:
            print(f"loss {loss.item():.9f}")
            print("size", loss.item(), sep="=")

        # once more
        if step_number % 50 == 0 or step_number == len(loader) - 1:
            print(float(loss))  # of this step
        lines.append(len(x))
""" in after.replace("iteration", "step_number")
    first, last = output(HEAD + LOGS).splitlines(), output(after).splitlines()
    assert last == [*first[:3], *first[-4:]], "the first step's lines, the last's, what is returned"
    assert changed(after) == after


def test_a_file_of_star_imports_and_wide_lines_keeps_its_counter_and_its_indent() -> None:
    program = SHOWN["a sum"].replace("(loader)", "(DataLoader(pairs))")
    program = program.replace("print(run())\n", "").replace("run()", "run(bar)")
    program = program.replace("print(total", "bar.set_postfix(now=total")
    head = HEAD.replace("from torch import nn\n", "from helpers import *\nfrom torch import nn\n")
    head = head.replace("nn\n", "nn\nfrom torch.utils.data import DataLoader\n", 1)
    wide = "def far(\n        a,\n        b,\n):\n        return a\n\n\n" * 3
    after = changed(head + wide + program)
    assert (
        "\n        if i % 50 == 0:\n            bar.set_postfix(now=float(total) / (i + 1))\n"
        in after
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for x, y in loader:", "for n, (x, y) in enumerate(loader):"),
        ("for x, y in loader:", "for batch in loader:\n        x, y = batch"),
        ("for x, y in loader:", "for n in range(len(loader)):\n        x, y = loader[n]"),
        ("for x, y in loader:", "for n in range(0, len(loader)):\n        x, y = loader[n]"),
    ],
)
def test_a_loop_that_counts_keeps_its_counter(old: str, new: str) -> None:
    source = HEAD + LOGS.replace(old, new)
    after = changed(source)
    assert (
        "if n % 50 == 0 or n == len(loader) - 1:"
        if " n" in new
        else "for iteration, batch in enumerate(loader):"
    ) in after
    assert output(after).splitlines()[-1] == output(source).splitlines()[-1]


@pytest.mark.parametrize(
    "line",
    [
        "print(loss.item(), (seen := len(x)))",
        "shown = print(loss.item())",
        "print(loss.item()); a = 1",
    ],
)
def test_a_log_that_does_more_stays(line: str) -> None:
    source = HEAD + LOGS.replace('print("size", loss.item(), sep="=")', line)
    source = source.replace('        print(f"loss {loss.item():.9f}")\n', "")
    source = source.replace("        print(float(loss))  # of this step\n", "")
    assert changed(source) == source


MPS = HEAD.replace('"cuda"', '"mps" if torch.backends.mps.is_available() else "cuda"')
BOUNDED = "if i % 3 == 2:\n    print(total / 3)\n    total = 0.0\n"
ON_MPS = {
    "plain": function("total = 0.0\n", ADD, "return total / len(loader)\n"),
    "starts as a whole number": function("total = 0\n", ADD, "return total, type(total)\n"),
    "of no steps": function("total = 0\n", ADD, "return total, type(total)\n").replace(
        "in enumerate(loader)", "in enumerate(loader[:0])"
    ),
    "divided": function(
        "total = 0.0\n", "total += loss.item() / 7 * x.size(0)\n", "total /= 3\nreturn total\n"
    ),
    "taken down": function("total = 0.0\n", "total += -loss.item()\n", "return total\n"),
    "started anew": function("total = 0.0\n", ADD + BOUNDED, "return total\n"),
    "scaled now and then": function(
        "right = 0\n",
        "right += (out.argmax(1) == y).sum().item()\nif i % 3 == 2:\n    right /= 3\n",
        "return right\n",
    ),
    "set back to a whole number": function(
        "total = 0.0\n", ADD + "if i % 3 == 0:\n    total = 0\n", "return total\n"
    ),
    "two sums": function(
        "total, right = 0.0, 0\n",
        ADD + "right += (out.argmax(1) == y).sum().item() / len(y)\n",
        "return total, right\n",
    ),
    "a quotient": function("total = 0.0\n", "total += 1 / loss.item()\n", "return total\n"),
    "a power": function("total = 0.0\n", "total += loss.item() ** x.size(0)\n", "return total\n"),
    "left early": function(
        "total = 0.0\n", ADD + "if i == 10 // 2:\n    break\n", "return total / len(loader)\n"
    ),
    "only in some steps": function(
        "total = 0.0\n", "if x.size(0) > 1:\n    total += loss.item()\n", "return total\n"
    ),
    "of what changes later": function(
        "total = 0.0\n", ADD + "loss.data.mul_(0)\n", "return total\n"
    ),
}


def test_a_sum_that_ends_as_a_whole_number_stays_one() -> None:
    source = HEAD + ON_MPS["set back to a whole number"]
    after = fixed(source, "safe", codes=frozenset({"TL101"})).after or source
    assert "pending_" in after
    assert output(after) == output(source)


@pytest.mark.parametrize("name", ON_MPS)
def test_where_there_may_be_no_float64_the_numbers_of_a_sum_are_added_after_the_loop(
    name: str,
) -> None:
    source = MPS + ON_MPS[name]
    after = fixed(source, "safe", codes=frozenset({"TL101"})).after
    assert "pending_" in after
    assert "double" not in after
    assert output(after) == output(source)
    assert fixed(after, "unsafe", codes=frozenset({"TL101"})).after in ("", after)


@pytest.mark.parametrize(
    "program",
    [
        function("total = 0.0\n", ADD + "print(total)\n", "return total\n"),
        function("total = 0.0\n", ADD + "if total > 2:\n    break\n", "return total\n"),
        function("total = 0.0\n", ADD + "x = x + 1\ntotal += 1\n", "return total\n"),
        function("total = 0.0\n", ADD + "first = total\n", "return total, first\n"),
        function("total = 0.0\n", "total += total * loss.item()\n", "return total\n"),
        function("total = torch.zeros(())\nseen = total\n", ADD, "return seen\n"),
        function("total = 0.0\n", ADD + "total *= 0.5\n", "return total\n"),
        function("total = 0.0\n\ndef now():\n    return total\n\n", ADD, "return now()\n"),
        function("total = 0.0\n", ADD + "if i == 3:\n    return total\n", "return total\n"),
    ],
)
def test_a_sum_that_more_looks_at_is_not_put_off_where_there_may_be_no_float64(
    program: str,
) -> None:
    source = MPS + program
    assert fixed(source, "safe", codes=frozenset({"TL101"})).after in ("", source)


def test_on_mps_a_sum_that_is_shown_in_each_step_stays_in_its_own_dtype() -> None:
    source = MPS + function(
        "total = 0.0\nbar = tqdm(total=9)\n",
        ADD + "bar.set_postfix(loss=total)\n",
        "return total\n",
    ).replace("def run", "from tqdm import tqdm\n\n\ndef run")
    after = changed(source)
    assert "total += loss.detach()\n" in after
    assert "double" not in after


def test_the_class_of_a_meter_may_stand_in_another_file(tmp_path: Path) -> None:
    program = (
        "from tools import AverageMeter\n" + HEAD + metered(FED, "return losses.avg\n", meter="")
    )
    (tmp_path / "tools.py").write_text(METER)
    (tmp_path / "train.py").write_text(program)
    forget()
    one = job(program, codes=frozenset({"TL101", "TL105"}), fix="unsafe", root=str(tmp_path))
    after = analyse_job(one).after
    assert "        losses.update(val.item(), n)\n    return losses.avg" in after


TRAINER = (
    "class Trainer:\n"
    + indented(ONE.replace("(x, y):", "(self, x, y):").rstrip() + "\n\n")
    + "    def epoch(self):\n        total = 0.0\n"
    + indented(EACH + "    total += self.losses_of(x, y)\n", 8)
    + "        return total\n\n\nprint(Trainer().epoch())\n"
)


@pytest.mark.parametrize(
    ("other", "known"),
    [
        ("class Other:\n    def losses_of(self): ...\n    def f(self): self.losses_of()\n", True),
        ("import train  # losses_of is in there\n", True),
        ("import train\n\ndef f(trainer): trainer.losses_of()\n", False),
        ("from train import Trainer\n\nclass My(Trainer):\n    def losses_of(self): ...\n", False),
    ],
)
def test_a_method_is_followed_where_no_other_file_may_call_it(
    tmp_path: Path, other: str, known: bool
) -> None:
    (tmp_path / "train.py").write_text(HEAD + TRAINER)
    (tmp_path / "other.py").write_text("import torch\n" + other)
    forget()
    codes = frozenset({"TL101", "TL105"})
    after = analyse_job(job(HEAD + TRAINER, codes=codes, fix="unsafe", root=str(tmp_path))).after
    assert ("total += self.losses_of(x, y).double()" in after) is known
