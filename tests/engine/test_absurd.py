"""Valid but absurd code: the analysis stays bounded, and still says what is true of the ordinary
code beside it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.checking import job
from torchlint.run.run import RunOptions, run

LOOP = """
def train(model, loader, optimizer, loss_fn):
    total = 0.0
    for x, y in loader:
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total
"""


def branches(count: int) -> str:
    rows = (f"    if n > {k}:\n        x = x + {k}\n" for k in range(count))
    return f"def f(x, n):\n{''.join(rows)}    return x\n"


def elifs(count: int) -> str:
    rows = (f"    elif n == {k}:\n        x = x + {k}\n" for k in range(count))
    return f"def f(x, n):\n    if n is None:\n        pass\n{''.join(rows)}    return x\n"


def nested(count: int) -> str:
    rows = (f"{' ' * depth}def f{depth}(x):\n" for depth in range(count))
    return f"{''.join(rows)}{' ' * count}return x.sum().item()\n"


def chain(count: int) -> str:
    rows = (f"def f{k}(x):\n    return f{k + 1}(f{k + 1}(x))\n" for k in range(count))
    return f"{''.join(rows)}def f{count}(x):\n    return x.item()\n"


def rebound(count: int) -> str:
    return "def f(x):\n" + "".join(f"    x = x.sub({k})\n" for k in range(count)) + "    return x\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "count"),
    [
        (branches, 2000),
        (elifs, 250),
        (nested, 90),
        (chain, 300),
        (rebound, 2000),
        (lambda n: f"y = {' + '.join(['x'] * n)}\n", 1500),
        (lambda n: f"y = {' and '.join(['x'] * n)}\n", 1500),
        (lambda n: f"y = x{'.sum()' * n}\n", 400),
        (lambda n: f"y = {'f(' * n}x{')' * n}\n", 90),
        (lambda n: f"y = {'(lambda a: ' * n}a{')(x)' * n}\n", 60),
        (lambda n: f"d = {{{', '.join(f'{k}: torch.zeros({k})' for k in range(n))}}}\n", 3000),
        (
            lambda n: (
                "class A(B): pass\nclass B(A): pass\ndef f(x): return g(x)\ndef g(x): return f(x)\n"
                * n
            ),
            1,
        ),
    ],
    ids="branches elifs nested chain rebound terms ands methods calls lambdas dict circles".split(),
)
def test_absurd_code(make: Callable[[int], str], count: int) -> None:
    text = f"import torch\n{make(count)}{LOOP}"
    asked = job(text, codes=frozenset(["TL101", "TL102", "TL602"]))
    (report,) = run(iter([asked]), RunOptions(jobs=1, timeout=120))
    assert not report.notes
    row = text[: text.index("total += loss.item()")].count("\n") + 1
    assert [(f.code, f.start.row) for f in report.findings if f.start.row > row - 8] == [
        ("TL101", row)
    ]
    assert not [f for f in report.findings if f.start.row < row - 8]
