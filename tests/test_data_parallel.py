"""TL301 is an info where nothing is trained: in a function or a script that evaluates."""

from __future__ import annotations

import pytest

from tests.checking import check

WRAPPED = """\
import torch
from torch import nn


def main(model, loader):
    model = nn.DataParallel(model)
    return [model(x) for x in loader]
"""
TRAINS = """\


def fit(model, loader, optimizer):
    for x in loader:
        model(x).sum().backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("name", "source", "severity"),
    [
        ("src/predict.py", WRAPPED, "info"),
        ("src/test_model.py", WRAPPED, "info"),
        ("src/model.py", WRAPPED, "warning"),
        ("src/model.py", WRAPPED.replace("main", "sample"), "info"),
        ("src/predict.py", WRAPPED + TRAINS, "warning"),
        ("src/latest.py", WRAPPED, "warning"),
    ],
)
def test_where_nothing_is_trained_it_is_an_info(name: str, source: str, severity: str) -> None:
    found = check(source, codes=frozenset({"TL301"}), name=name).findings
    assert [each.severity.value for each in found] == [severity]
