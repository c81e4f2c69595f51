"""A flag that a call gives, or leaves to its default, decides which way a function goes."""

from __future__ import annotations

import pytest

from tests.checking import check

PREPARE = """\
import torch


def prepare(x, {flag}):
    {body}


"""
LOOP = """\
def evaluate(net: torch.nn.Module, loader, known=None):
    net.cuda().eval()
    total = 0.0
    with torch.no_grad():
        for x in loader:
            net(x.cuda(non_blocking=True))
            made, scale = {call}
            total += scale.item()
    return total
"""
ELSE = """if reverse:
        return x / 2
    else:
        x = x.cuda()
        return x * 2, x.sum()"""
EARLY = """if not reverse or x is None:
        x = x.cuda()
        return x * 2, x.sum()
    return x"""
ELIF = """if reverse:
        return x / 2
    elif x is None:
        return None
    x = x.cuda()
    return x * 2, x.sum()"""
CHOSEN = "return x / 2 if reverse else (x * 2, x.cuda().sum())"

FOUND = [
    ("reverse=False", ELSE, "prepare(x)"),
    ("reverse", ELSE, "prepare(x, False)"),
    ("*, reverse=True", ELSE, "prepare(x, reverse=False)"),
    ("reverse=False", EARLY, "prepare(x)"),
    ("reverse=False", ELIF, "prepare(x)"),
    ("reverse=False", CHOSEN, "prepare(x)"),
]
SILENT = [
    ("reverse=False", ELSE, "prepare(x, True)"),
    ("reverse=False", ELSE, "prepare(x, known)"),
    ("reverse=False", ELSE, "prepare(*known)"),
    ("reverse=False", ELSE, "prepare(x, **known)"),
    ("reverse=False", f"reverse = bool(x)\n    {ELSE}", "prepare(x)"),
    ("reverse=None", ELSE, "prepare(x)"),
    ("reverse=False", CHOSEN.replace(".cuda()", ".cpu()"), "prepare(x)"),
]


def _text(flag: str, body: str, call: str) -> str:
    return PREPARE.format(flag=flag, body=body) + LOOP.format(call=call)


def _reads(text: str) -> list[str]:
    return [each.code for each in check(text, codes=frozenset({"TL101"})).findings]


@pytest.mark.parametrize(("flag", "body", "call"), FOUND)
def test_it_goes_the_way_of_the_flag(flag: str, body: str, call: str) -> None:
    assert _reads(_text(flag, body, call)) == ["TL101"]


@pytest.mark.parametrize(("flag", "body", "call"), SILENT)
def test_another_flag_is_not_known(flag: str, body: str, call: str) -> None:
    assert _reads(_text(flag, body, call)) == []
