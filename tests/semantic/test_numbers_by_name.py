"""Sizes and rates that nothing else tells are numbers; so is what layers are made of."""

from __future__ import annotations

import pytest

from tests.semantic.test_values import value_of


@pytest.mark.parametrize("name", ["batch_size", "epoch", "num_classes", "hidden_dim", "lr"])
def test_a_name_says_that_it_is_a_number(name: str) -> None:
    assert value_of(f"def f({name}):\n    probe({name})\n").kind == "plain"
    assert value_of(f"def f(self):\n    probe(self.{name})\n").kind == "plain"


@pytest.mark.parametrize("name", ["num_boxes", "n_pos", "lengths", "step", "size", "index"])
def test_a_count_of_what_the_data_hold_stays_unknown(name: str) -> None:
    assert value_of(f"def f({name}):\n    probe({name})\n").kind == "?"


def test_a_value_goes_before_the_name() -> None:
    text = "def f(x):\n    num_classes = torch.ones(3).cuda().max()\n    probe(num_classes)\n"
    assert value_of(text).kind == "tensor"


NET = """
class Net(nn.Module):
    def __init__(self, wide, steps, blocks, layer):
        super().__init__()
        self.wide, self.steps, self.blocks = wide, steps, blocks
        self.first = nn.Linear(wide * 2, steps[0])
        self.rest = nn.Sequential(*blocks)
        self.last = nn.TransformerEncoder(layer, 2)
        self.layer = layer

    def forward(self, x):
        probe({})
"""


@pytest.mark.parametrize("told", ["self.wide", "self.steps[-1]", "x.shape[0] <= self.wide"])
def test_what_layers_are_made_of_is_on_the_host(told: str) -> None:
    assert value_of(NET.format(told)).kind in ("plain", "bool")


@pytest.mark.parametrize("untold", ["self.blocks", "self.layer", "x.shape[0] <= self.blocks"])
def test_what_holds_layers_is_not_told(untold: str) -> None:
    assert value_of(NET.format(untold)).kind == "?"


OPTIMIZER = """
class Sgd(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["mean"] = torch.zeros_like(p)
                probe({})
"""


def test_an_optimizer_keeps_numbers_beside_tensors() -> None:
    assert value_of(OPTIMIZER.format('state["step"]')).kind == "number"
    assert value_of(OPTIMIZER.format('state["mean"]')).kind == "tensor"
    assert value_of(OPTIMIZER.format('state["other"]')).kind == "?"
    assert value_of(OPTIMIZER.format("self.state")).kind == "dict"


def test_a_group_of_parameters_holds_rates_and_what_else_was_put_there() -> None:
    text = "def f(opt):\n    for group in opt.param_groups:\n        probe(group[{}])\n"
    assert value_of(text.format('"lr"')).kind == "plain"
    assert value_of(text.format('"buffer"')).kind == "?"


def test_a_list_times_a_number_is_a_list() -> None:
    assert value_of("def f(n):\n    probe([0.0] * n)\n").kind == "list"
    assert value_of("def f(n):\n    probe(n * n)\n").kind == "?"
