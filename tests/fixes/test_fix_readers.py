"""Programs written to notice a fix of TL502: what they print is the same after all safe fixes.

Where a reader, an alias or a later write could tell the difference, no safe fix is offered; where
none can, one is.
"""

from __future__ import annotations

import contextlib
import io
import random
import warnings

import pytest

from tests.checking import fixed

torch = pytest.importorskip("torch")

SETUP = """\
import torch
from torch import nn
import torch.nn.functional as F

device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Linear(6, 3).to(device)
criterion = nn.CrossEntropyLoss()
sgd = torch.optim.SGD(net.parameters(), lr=0.1)
batches = [(torch.randn(4, 6), torch.randint(3, (4,))) for _ in range(3)]
KEPT = {}
"""
STEP = """\
        sgd.zero_grad()
        loss = criterion(net(x.to(device)), y.to(device))
        loss.backward(retain_graph=True)
        sgd.step()
"""
OWN_LOSS = """\
class V:
    def __init__(s, t): s.t = t
    def backward(s, **k): s.t.backward(**k)
    def item(s): return 1
"""


def lines(text: str, indent: int) -> str:
    return "".join(" " * indent + line + "\n" for line in text.splitlines())


def training(start: str, grow: str, after: str, before: str = "") -> str:
    """Return a program that accumulates something in a training loop and looks at it afterwards."""
    loop = f"    for x, y in batches:\n{STEP}{lines(grow, 8)}"
    return f"{SETUP}{before}\ndef run():\n{lines(start, 4)}{loop}{lines(after, 4)}\nprint(run())\n"


def collected(
    after: str, start: str = "kept = []", grow: str = "kept.append(loss)", before: str = ""
) -> str:
    return training(start, grow, after, before)


def added(
    after: str, start: str = "total = 0.0", grow: str = "total += loss", before: str = ""
) -> str:
    return training(start, grow, after, before)


NAN = "loss = loss * float('nan')\nkept.append(loss)"
SEES_THE_GRAPH = {
    "several tensors at once": collected(
        "return [each[0].tolist() for each in kept]",
        grow="kept.append(torch.median(net(x.to(device)), dim=1))",
    ),
    "another method back-propagates the list": collected(
        "n = len(kept)\nagent.finish()\nreturn n",
        start="kept = agent.log_probs",
        before="class Agent:\n    log_probs = []\n    def finish(self): "
        "print(sum(self.log_probs).requires_grad)\n"
        "agent = Agent()\n",
    ),
    "the list has a second name from the start": collected(
        "n = len(kept)\nprint(KEPT['l'][0].requires_grad)\nreturn n", start="KEPT['l'] = kept = []"
    ),
    "the list is stored before the loop": collected(
        "n = len(kept)\nprint(KEPT['l'][0].requires_grad)\nreturn n",
        start="kept = []\nKEPT['l'] = kept",
    ),
    "the list is a global one": collected(
        "n = len(kept)\nprint(STORE[0].requires_grad)\nreturn n",
        start="kept = STORE",
        before="STORE = []\n",
    ),
    "the list may be a global one": collected(
        "n = len(kept)\nprint(STORE[0].requires_grad)\nreturn n",
        start="kept = STORE if batches else []",
        before="STORE = []\n",
    ),
    "the list is bound by a walrus": collected(
        "n = len(kept)\nprint(KEPT['l'][0].requires_grad)\nreturn n",
        start="KEPT.update(l=(kept := []))",
    ),
    "the list is a subclass that looks": collected(
        "return kept.seen",
        start="kept = Seeing()",
        before=(
            "class Seeing(list):\n    seen = ()\n    def append(self, t): self.seen += "
            "(t.requires_grad,)\n"
        ),
    ),
    "a slice of the list": collected("return kept[1:][0].requires_grad"),
    "a copy of the list": collected("c = kept.copy()\nreturn c[0].is_leaf"),
    "an unpacked list": collected("first, *rest = kept\nreturn first.requires_grad"),
    "a dictionary with the list": collected("return {'l': kept}['l'][0].requires_grad"),
    "a zip over the list": collected("return [a.requires_grad for a, b in zip(kept, range(3))]"),
    "a map": collected("return list(map(lambda t: t.requires_grad, kept))"),
    "the highest element": collected("return max(kept).requires_grad"),
    "a mean": collected("return torch.stack(kept).mean().requires_grad"),
    "an array, which raises": collected(
        "try:\n    return torch.stack(kept).numpy().shape\nexcept RuntimeError:\n    return "
        "'raises'"
    ),
    "an array of the list, which raises": collected(
        "import numpy\ntry:\n    return numpy.asarray(kept).shape\nexcept RuntimeError:\n    "
        "return 'raises'"
    ),
    "a plotting library, which raises": collected(
        "try:\n    plt.plot(kept)\nexcept RuntimeError:\n    return 'raises'\nreturn 'plots'",
        before="import numpy, types\nplt = types.SimpleNamespace(plot=numpy.asarray)\n",
    ),
    "a count of not-a-number": collected("return kept.count(loss)", grow=NAN),
    "a pickle": collected(
        "import pickle\nreturn pickle.loads(pickle.dumps(kept))[0].requires_grad"
    ),
    "a deep copy, which raises": collected(
        "import copy\ntry:\n    return len(copy.deepcopy(kept))\nexcept RuntimeError:\n    "
        "return 'raises'"
    ),
    "a function of the file": collected(
        "return look(kept)", before="def look(ts):\n    return [t.requires_grad for t in ts]\n"
    ),
    "a frame": collected(
        "return look()",
        before=(
            "import sys\ndef look():\n    return "
            "sys._getframe(1).f_locals['kept'][0].requires_grad\n"
        ),
    ),
    "a closure": collected(
        "return look()", start="kept = []\ndef look():\n    return kept[0].requires_grad"
    ),
    "an attribute of one's own": collected(
        "return [t.turn for t in kept]", grow="loss.turn = 1\nkept.append(loss)"
    ),
    "a flag that only leaves take": collected(
        "try:\n    kept[0].requires_grad_(False)\nexcept RuntimeError:\n    return "
        "'raises'\nreturn kept[0].item()"
    ),
    "an object with its own backward": collected(
        "return [t.item() for t in kept]",
        before=OWN_LOSS + "raw = criterion\ncriterion = lambda a, b: V(raw(a, b))\n",
    ),
    "a hook that makes an object": collected(
        "return [t.item() for t in kept]",
        before=OWN_LOSS + "criterion.register_forward_hook(lambda m, i, o: V(o))\n",
    ),
    "another forward that makes an object": collected(
        "return [t.item() for t in kept]",
        before=OWN_LOSS
        + "raw = criterion.forward\ncriterion.forward = lambda a, b: V(raw(a, b))\n",
    ),
    "a criterion that a function replaces": collected(
        "return [t.item() for t in kept]",
        before=OWN_LOSS + "def swap():\n    global criterion\n    raw = criterion\n"
        "    criterion = lambda a, b: V(raw(a, b))\nswap()\n",
    ),
    "a subclass of Tensor that looks": collected(
        "return [t.item() for t in kept]",
        before="class Seeing(torch.Tensor):\n    def detach(self):\n        print('detached')\n"
        "        return super().detach()\nbatches = [(x.as_subclass(Seeing), y) for x, y in "
        "batches]\n",
    ),
    "which object it is": collected(
        "return [t.item() for t in kept]",
        grow="kept.append(loss)\nprint(any(t is loss for t in kept))",
    ),
    "which object the last one is": collected(
        "return [t.item() for t in kept]", grow="kept.append(loss)\nprint(loss is kept[-1])"
    ),
    "that a loop's is another": collected(
        "for t in kept:\n    if t is not loss:\n        print('older')\nreturn kept[0].item()"
    ),
    "a second name of the sum": added("other = total\nreturn other.requires_grad"),
    "the sum of sums": added(
        "return grand.requires_grad", "total, grand = 0.0, 0.0", "total += loss\ngrand += total"
    ),
    "a quotient": added("return (total / 3).grad_fn is None"),
    "the graph by getattr": added("return getattr(total, 'requires_grad')"),
    "a test for the graph": added("if total.is_leaf:\n    print('leaf')\nreturn total.item()"),
    "a match statement": added(
        "match total:\n    case torch.Tensor(requires_grad=True):\n        return "
        "'graph'\nreturn total.item()"
    ),
    "an exception": added(
        "try:\n    raise ValueError(total)\nexcept ValueError as e:\n    return "
        "e.args[0].requires_grad"
    ),
    "a change in place that leaves refuse": added(
        "try:\n    total.requires_grad_()\n    total *= 2\nexcept RuntimeError:\n    return "
        "'raises'\n"
        "return total.item()"
    ),
    "a generator": added("yield total").replace(
        "print(run())", "print([t.requires_grad for t in run()])"
    ),
    "text": added("return f'{total}'"),
}
SEES_NO_GRAPH = {
    "numbers of the list": collected("return [t.item() for t in kept], len(kept)"),
    "numbers of the list's parts": collected(
        "return max(kept).item(), [float(t) for t in kept[1:]]"
    ),
    "the number of a mean": collected("return torch.stack(kept).mean().item()"),
    "a detached array": collected("return torch.stack(kept).detach().numpy().tolist()"),
    "the number of the sum": added("return total.item()"),
    "the number of a quotient": added("return (total / 3).item()"),
    "which are there at all": collected("return [t.item() for t in kept if t is not None]"),
    "a test of the sum": added("if total:\n    print('more')\nreturn int(total)"),
}


def output(source: str) -> str:
    """Return what a program prints, and how it ends."""
    torch.manual_seed(0)
    random.seed(0)
    text = io.StringIO()
    with contextlib.redirect_stdout(text), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(source, "main.py", "exec"), {"__name__": "__main__"})  # noqa: S102 - programs of this file
        except Exception as error:
            text.write(f"{type(error).__name__} {error}")
    return text.getvalue()


@pytest.mark.parametrize("source", SEES_THE_GRAPH.values(), ids=SEES_THE_GRAPH.keys())
def test_what_a_reader_could_notice_is_not_fixed(source: str) -> None:
    after = fixed(source, "safe", codes=frozenset({"TL502"})).after
    assert not after or output(source) == output(after)
    assert not after or after == source


@pytest.mark.parametrize("source", SEES_NO_GRAPH.values(), ids=SEES_NO_GRAPH.keys())
def test_what_no_reader_can_notice_is_fixed(source: str) -> None:
    after = fixed(source, "safe", codes=frozenset({"TL502"})).after
    assert after not in ("", source)
    assert output(source) == output(after)
