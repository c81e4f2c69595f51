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
        ("src/contest/model.py", WRAPPED, "warning"),
    ],
)
def test_where_nothing_is_trained_it_is_an_info(name: str, source: str, severity: str) -> None:
    found = check(source, codes=frozenset({"TL301"}), name=name).findings
    assert [each.severity.value for each in found] == [severity]


EVALUATES = """\
import torch
from torch import nn


def restored(net, batches):
    net = nn.DataParallel(net.cuda())
    net.eval()
    return [net(x) for x in batches]
"""


@pytest.mark.parametrize(
    "source",
    [
        EVALUATES,
        EVALUATES.replace("net.cuda())\n    net.eval()", "net).eval()"),
        EVALUATES.replace("net = nn", "self.net = nn").replace("net.eval()", "self.net.eval()"),
    ],
)
def test_where_nothing_is_trained_the_wrapper_is_to_be_dropped(source: str) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/model.py").findings
    assert found.severity.value == "info"
    assert "drop the wrapper" in found.message


@pytest.mark.parametrize("source", [EVALUATES + TRAINS, WRAPPED])
def test_who_may_train_is_advised_to_use_ddp(source: str) -> None:
    (found,) = check(source, codes=frozenset({"TL301"}), name="src/model.py").findings
    assert found.severity.value == "warning"
    assert "DistributedDataParallel" in found.message


@pytest.mark.parametrize("folder", ["testing", "tests", "lib/tests/gpu"])
def test_a_folder_of_tests_may_test_the_wrapper(folder: str) -> None:
    assert not check(WRAPPED, codes=frozenset({"TL301"}), name=f"{folder}/models.py").findings
