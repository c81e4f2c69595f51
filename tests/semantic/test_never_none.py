"""A name that is never None is not asked for that in earnest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.checking import check

FUNCTION = """import numpy as np
import torch


def score(clean, noisy):
    found = np.array([a - b for a, b in zip(clean, noisy)])
{ends}
"""
LOOP = """

def train(model, loader, opt, quality):
    model.cuda().train()
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        opt.zero_grad()
        out = model(x)
{lines}
        if found is not None:
            loss = torch.nn.functional.mse_loss(out, y)
        else:
            loss = torch.tensor([0.0], requires_grad=True).cuda()
        loss.backward()
        opt.step()
"""
ALWAYS = "    return torch.FloatTensor(found) / 3.5"
BRANCHES = """    if len(found) > 3:
        return torch.FloatTensor(found)
    elif len(found) == 2:
        raise ValueError
    else:
        best = found.mean() if len(found) else 0.0
        return best"""
ENDS = "    if len(found):\n        return torch.FloatTensor(found)"
NOTHING = "    if len(found):\n        return None\n    return torch.FloatTensor(found)"
GIVEN = "    return clean"
CALLED = "        found = score([1.0], [2.0])"
USED = "        found = quality(out)\n        weight = torch.softmax(1 - found, 0)"

NEVER = [
    (ALWAYS, CALLED),
    (BRANCHES, CALLED),
    (ENDS, USED),
    (ENDS, "        found = quality(out)\n        print(found.shape)"),
    (ENDS, "        found = out * 2"),
]
MAYBE = [
    (ENDS, CALLED),
    (NOTHING, CALLED),
    (GIVEN, CALLED),
    (ALWAYS, "        found = quality(out)"),
    (ALWAYS, "        found = None\n        if quality:\n    " + CALLED),
    (ALWAYS, USED + "\n        if quality:\n            found = quality(x)"),
    (ALWAYS, "        found = quality(out)\n        weight = 1 - found if found else 2"),
    (ALWAYS, "        found = quality(out)\n        if quality:\n            print(1 - found)"),
]


def _text(ends: str, lines: str) -> str:
    return FUNCTION.format(ends=ends) + LOOP.format(lines=lines)


@pytest.mark.parametrize(("ends", "lines"), NEVER)
def test_what_is_never_none_takes_one_branch(ends: str, lines: str) -> None:
    assert not check(_text(ends, lines), codes=frozenset(("TL106",))).findings


@pytest.mark.parametrize(("ends", "lines"), MAYBE)
def test_what_may_be_none_takes_both(ends: str, lines: str) -> None:
    assert len(check(_text(ends, lines), codes=frozenset(("TL106",))).findings) == 1


@pytest.mark.parametrize(("ends", "never"), [(ALWAYS, True), (BRANCHES, True), (ENDS, False)])
def test_a_function_of_another_file_says_so_too(tmp_path: Path, ends: str, never: bool) -> None:
    main = "import torch\n\nfrom scores import score\n" + LOOP.format(lines=CALLED)
    files = {"scores.py": FUNCTION.format(ends=ends), "main.py": main}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    report = check(main, codes=frozenset(("TL106",)), name="main.py", root=str(tmp_path))
    assert bool(report.findings) is not never


def test_a_long_chain_of_names_is_given_up() -> None:
    lines = "".join(f"    a{i} = a{i - 1} if x else a{i - 1} * 2\n" for i in range(1, 400))
    end = "    if a399 is None:\n        x = torch.zeros(1).cuda()\n    return a399\n"
    text = f"import torch\n\n\ndef run(x):\n    a0 = torch.zeros(1)\n{lines}{end}"
    assert not check(text, codes=frozenset(("TL106",))).notes
