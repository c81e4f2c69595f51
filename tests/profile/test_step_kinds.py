"""What a step does that others do not, as calls of the program tell it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from torchlint.program.inside.step_kinds import StepKinds, unusual
from torchlint.trace import typical


class Module:
    """A module whose mode is changed as torch does it, for those in it too."""

    def __init__(self, *inside: Module) -> None:
        self.inside = inside
        self.training = True

    def train(self, mode: bool = True) -> Module:
        """Change the mode."""
        self.training = mode
        for each in self.inside:
            each.train(mode)
        return self

    def eval(self) -> Module:
        """Change it to evaluation."""
        return self.train(False)


class Loader:
    """An iterator of a DataLoader."""

    def __init__(self, data: Any) -> None:
        self._dataset = data


@pytest.fixture
def watched() -> tuple[StepKinds, Any]:
    """Return what watches, and a torch that is watched."""
    kinds, module = StepKinds(), type("Module", (Module,), {"train": Module.train})
    serialization = SimpleNamespace()
    torch = SimpleNamespace(
        nn=SimpleNamespace(Module=module),
        serialization=serialization,
        save=lambda what, where, more=1: where.append((what, more)),
    )
    kinds.watch(torch)
    return kinds, torch


def test_a_module_that_evaluates_and_trains_on(watched: tuple[StepKinds, Any]) -> None:
    kinds, torch = watched
    model = torch.nn.Module(torch.nn.Module())
    assert model.eval() is model
    assert not model.training
    assert kinds.take() == []  # it may stay so, as a frozen one does
    model.train()
    assert kinds.take() == []  # of another step
    model.eval()
    model.train()
    assert kinds.take() == ["evaluation"]
    assert kinds.take() == []


def test_a_frozen_part_is_no_evaluation(watched: tuple[StepKinds, Any]) -> None:
    kinds, torch = watched
    frozen = torch.nn.Module()
    model = torch.nn.Module(frozen)
    for _ in range(2):
        model.train()
        frozen.eval()
        assert kinds.take() == []


def test_what_is_saved_is_saved_all_the_same(watched: tuple[StepKinds, Any]) -> None:
    kinds, torch = watched
    there: list[Any] = []
    torch.save("it", there, more=2)
    torch.serialization.save("it", there)
    assert there == [("it", 2), ("it", 1)]
    assert kinds.take() == ["save"]


def test_batches_are_told_apart_by_their_data_and_passes_by_their_iterator() -> None:
    kinds, training, held = StepKinds(), [1], [2]
    first = Loader(training)
    kinds.batch(first)
    kinds.batch(first)
    assert kinds.take() == ["data 0"]
    kinds.batch(first)
    kinds.batch(Loader(held))
    assert kinds.take() == ["data 0", "data 1"]
    again = Loader(training)
    kinds.batch(again)
    assert kinds.take() == ["data 0", "pass"]
    kinds.batch(again)
    assert kinds.take() == ["data 0"]


def test_what_half_of_the_steps_do_is_no_steps_own() -> None:
    steps = [["data 0"], ["data 0", "data 1", "save"], ["data 0", "save"], ["data 0"]]
    assert unusual(steps) == [[], ["data"], [], []]
    assert unusual([["data 0", "save"], *steps]) == [[], [], ["data"], [], []]
    assert unusual([]) == []
    assert set(typical.KINDS) - {typical.FORWARD} == {"evaluation", "data", "save", "pass"}
