"""Which argument of a call a parameter gets: ``self`` is left out for methods alone, also for those
under a condition, and not for a function that stands inside of a method."""

from __future__ import annotations

import libcst as cst
import pytest

from tests.semantic.test_values import module as parsed
from torchlint.semantic.data.loader_calls import works_alone

NESTED = """
class Trainer:
    def fit(self, data):
        def probed(x, y):
            return x
        again = probed
        return {call}
"""
METHOD = """
class Trainer:
    {head}
    def probed(self, x, y):
        return x
    def fit(self, data):
        again = self.probed
        return {call}
"""
CHOSEN = """
class Trainer:
    if FAST:
        def probed(self, x, y):
            return x
    else:
        pass
    def fit(self, data):
        return {call}
"""
PLAIN = """
def probed(x, y):
    return x

again = probed
print({call})
"""


@pytest.mark.parametrize(
    "program",
    [
        NESTED.replace("{call}", "again(data, 1)"),
        NESTED.replace("{call}", "probed(data, 1)"),
        METHOD.replace("{call}", "again(data, 1)").replace("{head}", ""),
        METHOD.replace("{call}", "self.probed(data, y=1)").replace("{head}", ""),
        METHOD.replace("{call}", "self.probed(data, 1)")
        .replace("{head}", "@staticmethod")
        .replace("self, x", "x"),
        CHOSEN.replace("{call}", "self.probed(data, 1)"),
        PLAIN.replace("{call}", "again(data, 1)"),
        PLAIN.replace("{call}", "tools.again(data, 1)"),
    ],
)
def test_the_first_parameter_gets_the_data(program: str) -> None:
    """A parameter gets what the call passes for it, whatever name the function is called by."""
    module = parsed(program)
    (function,) = (f for f in module.nodes(cst.FunctionDef) if f.name.value == "probed")
    (call,) = (c for c in module.nodes(cst.Call) if len(c.args) == 2)
    bound = {name: module.source_of(value) for name, value in module.bind(function, call).items()}
    assert bound == {"x": "data", "y": "1"}


LOADER = """
class Trainer:
    def fit(self, data):
        def make(dataset, workers):
            return torch.utils.data.DataLoader(dataset, num_workers=workers)
        build = make
        for x in {call}:
            x.cuda()
"""


@pytest.mark.parametrize(
    ("call", "alone"),
    [
        ("build(data, 0)", True),
        ("make(data, 0)", True),
        ("build(data, workers=0)", True),
        ("build(data, 4)", False),
        ("make(data, 4)", False),
    ],
)
def test_the_workers_of_a_nested_functions_loader(call: str, alone: bool) -> None:
    """How many workers a loader has is read in the calls of the function that makes it, by each of
    its names."""
    module = parsed(LOADER.replace("{call}", call))
    (loader,) = (c for c in module.nodes(cst.Call) if module.called(c).endswith("DataLoader"))
    assert works_alone(module, loader) is alone
