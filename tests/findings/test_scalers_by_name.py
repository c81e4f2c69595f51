"""A call of a scaler of gradients is a step; what prepares or fits a scaler of data is none."""

from __future__ import annotations

import pytest

from tests.checking import check

PROGRAM = """\
import torch
from sources import fit_scaler, get_scaler, grad_scaler, loss_scaler, prepare_inputs_and_scaler


class Estimator:
    def fit(self, data, optimizer):
        {line}
        return self.start()

    def start(self):
        scaler = torch.amp.GradScaler("cuda")
        return scaler.state_dict()
"""


def set_up_in_each_step(line: str) -> bool:
    return bool(check(PROGRAM.format(line=line), codes=frozenset({"TL504"})).findings)


@pytest.mark.parametrize(
    "line",
    [
        "state = prepare_inputs_and_scaler(self, data)",
        "scaler = get_scaler('standard', data)",
        "data = fit_scaler(data, axis=0)",
    ],
)
def test_a_scaler_of_data_is_no_step(line: str) -> None:
    assert not set_up_in_each_step(line)


@pytest.mark.parametrize(
    "line", ["loss_scaler(data.sum(), optimizer)", "grad_scaler(data.sum(), optimizer)"]
)
def test_a_scaler_of_gradients_is_one(line: str) -> None:
    assert set_up_in_each_step(line)
