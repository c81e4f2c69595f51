"""A test of a class that the value surely is not of never holds."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """import torch


def train(model, extra_loss, loader, opt, weight):
    model.cuda().train()
    for x, y in loader:
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        opt.zero_grad()
        out = model(x)
{lines}
        loss.backward()
        opt.step()
"""

NEVER = {
    "unpacked": """
        if isinstance(out, tuple):
            out, extra = out
        loss = torch.nn.functional.mse_loss(out, y)
        if isinstance(out, tuple):
            if loss > 1:
                loss += weight * extra
""",
    "taken by number, of two classes": """
        if isinstance(out, (tuple, list)):
            extra = out[1]
            out = out[0]
        loss = torch.nn.functional.mse_loss(out, y)
        if weight and isinstance(out, (tuple, list)) and loss > 1:
            loss = loss * 2
""",
    "the other branch, after a loop": """
        if isinstance(out, list):
            first, *out = out[0], out[1]
            [out, extra] = out
        for _ in range(2):
            loss = torch.nn.functional.mse_loss(out, y)
            if not isinstance(out, list):
                continue
            if loss > 1:
                print("large")
""",
}

MAYBE = {
    "bound anew": """
        if isinstance(out, tuple):
            out, extra = out
        loss = torch.nn.functional.mse_loss(out, y)
        out = extra_loss(out)
        if isinstance(out, tuple):
            if loss > 1:
                loss += weight * out[1]
""",
    "the first test is not always asked": """
        if weight:
            if isinstance(out, tuple):
                out, extra = out
        loss = torch.nn.functional.mse_loss(x, y)
        if isinstance(out, tuple):
            if loss > 1:
                loss += weight * out[1]
""",
    "another class": """
        if isinstance(out, tuple):
            out, extra = out
        loss = torch.nn.functional.mse_loss(x, y)
        if isinstance(out, dict):
            if loss > 1:
                loss += weight * out["extra"]
""",
    "peeled twice": """
        if isinstance(out, tuple):
            out, extra = out
        loss = torch.nn.functional.mse_loss(x, y)
        if isinstance(out, tuple):
            out, more = out
            if loss > 1:
                loss += weight * more
""",
    "of tensors the parts are tensors": """
        if isinstance(out, torch.Tensor):
            out = out[0]
        loss = torch.nn.functional.mse_loss(x, y)
        if isinstance(out, torch.Tensor):
            if loss > 1:
                loss = loss * 2
""",
}


@pytest.mark.parametrize("lines", NEVER.values(), ids=list(NEVER))
def test_what_was_taken_apart_is_no_tuple_any_more(lines: str) -> None:
    text = PROGRAM.format(lines=lines)
    assert not check(text, codes=frozenset(("TL602",))).findings


@pytest.mark.parametrize("lines", MAYBE.values(), ids=list(MAYBE))
def test_what_may_be_one_is_asked(lines: str) -> None:
    text = PROGRAM.format(lines=lines)
    assert len(check(text, codes=frozenset(("TL602",))).findings) == 1
