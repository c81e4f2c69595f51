"""What part of a program runs: epochs end early, evaluation is told from training, and a place that
runs is enough."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torchlint.verify.inside.schedule import EVALUATION, OTHER, Schedule, takes_an_end
from torchlint.verify.inside.stopping import StoppingPoint

CUT = {"train": 4, "later": 2, "evaluation": 3}


class Loader:
    """A data set of ten batches, as the recorder sees one: with an end that the schedule may bring
    forward."""

    def __init__(self, schedule: Schedule, size: int = 10) -> None:
        self.schedule, self.size = schedule, size
        self.kinds: list[str] = []

    def __iter__(self) -> Iterator[int]:
        return Batches(self)


class Batches(Iterator[int]):
    def __init__(self, loader: Loader) -> None:
        self.loader, self.at, self._dataset = loader, 0, loader
        loader.schedule.begin(self)

    def __next__(self) -> int:
        schedule = self.loader.schedule
        self.loader.kinds.append(schedule.behind(self))
        if schedule.enough(self, sys._getframe(1)):
            raise StopIteration
        if self.at == self.loader.size:
            schedule.end(self)
            raise StopIteration
        self.at += 1
        schedule.give(self)
        return self.at


def train(schedule: Schedule, loader: Loader, accumulate: int = 1) -> int:
    batches = 0
    for batches in loader:
        schedule.forwards += 1
        schedule.backwards += 1
        schedule.steps += batches % accumulate == 0
    return batches


def evaluate(schedule: Schedule, loader: Loader) -> int:
    batches = 0
    for batches in loader:  # noqa: B007
        schedule.forwards += 1
    return batches


def test_epochs_end_early_and_later_ones_earlier() -> None:
    schedule = Schedule(CUT)
    loader, other = Loader(schedule), Loader(schedule)
    assert [train(schedule, loader), evaluate(schedule, other)] == [4, 3]
    assert [train(schedule, loader), evaluate(schedule, other)] == [2, 2]
    assert schedule.facts() == {"epochs": 2, "evaluations": 2, "batches": 5}


def test_steps_are_counted_where_gradients_are_accumulated() -> None:
    schedule = Schedule({**CUT, "train": 2})
    assert train(schedule, Loader(schedule), accumulate=3) == 6


def test_nothing_is_cut_before_training_and_without_a_cut() -> None:
    schedule = Schedule(CUT)
    assert evaluate(schedule, Loader(schedule)) == 10
    plain = Schedule({})
    assert train(plain, Loader(plain)) == 10


def test_batches_of_evaluation_are_told_from_steps() -> None:
    schedule = Schedule(CUT)
    loader, other = Loader(schedule), Loader(schedule)
    train(schedule, loader)
    evaluate(schedule, other)
    assert loader.kinds == ["", "", "", "", ""]
    assert other.kinds == [OTHER, EVALUATION, EVALUATION, EVALUATION]


def test_batches_that_are_drawn_together_are_no_evaluation() -> None:
    schedule = Schedule(CUT)
    schedule.backwards = 1
    loader, other = Loader(schedule), Loader(schedule)
    for _ in zip(loader, other, strict=True):
        schedule.forwards += 1
        schedule.backwards += 1
        schedule.steps += 1
    assert EVALUATION not in loader.kinds + other.kinds


def test_batch_inside_a_step_is_one_of_evaluation() -> None:
    schedule = Schedule(CUT)
    loader, other = Loader(schedule), Loader(schedule)
    for _ in loader:
        schedule.forwards += 1
        schedule.backwards += 1
        schedule.steps += 1
        next(iter(other))
        schedule.forwards += 1
    assert loader.kinds[1] == EVALUATION
    assert other.kinds[0] == OTHER


def asked_by_a_loop(ask: Any) -> bool:
    for found in ask:
        return bool(found)
    return False


def asked_by_next(ask: Any) -> bool:
    return bool(next(ask))


def asked_with_care(ask: Any) -> bool:
    try:
        return bool(next(ask))
    except StopIteration:
        return False


def asked_by_enumerate(ask: Any) -> bool:
    for _, found in enumerate(ask):
        return bool(found)
    return False


class Ask:
    def __iter__(self) -> Ask:
        return self

    def __next__(self) -> bool:
        return takes_an_end(sys._getframe(1))


@pytest.mark.parametrize(
    ("asked", "well"),
    [
        (asked_by_loop, True)
        for asked_by_loop in (asked_by_a_loop, asked_by_enumerate, asked_with_care)
    ]
    + [(asked_by_next, False)],
)
def test_end_is_brought_forward_only_where_it_is_expected(
    asked: Callable[[Any], bool], well: bool
) -> None:
    assert asked(Ask()) is well


# How far


def search(folder: Path, **settings: Any) -> StoppingPoint:
    here = str(Path(__file__).resolve())
    marks = [("0-0", here, 1, 1), ("1-0", here, 2, 2), ("2-0", "/nowhere/else.py", 1, 1)]
    (folder / "marks").mkdir(exist_ok=True)
    return StoppingPoint(
        {"steps": 3, "explore": 100.0, "marks": marks, "out": str(folder), **settings}
    )


def test_search_ends_when_all_that_can_run_has_run(tmp_path: Path) -> None:
    one = search(tmp_path)
    (tmp_path / "marks" / "0-0").touch()
    assert [one.tick(1), one.tick(2), one.tick(3), one.tick(3)] == [True, True, True, True]
    (tmp_path / "marks" / "1-0").touch()
    assert not one.tick(3), "the third place is in a file that was never imported"
    assert one.horizon(ended=False) == 5


def test_search_gives_up_and_goes_no_further_than_what_ran(tmp_path: Path) -> None:
    one = search(tmp_path, explore=1e-9)
    (tmp_path / "marks" / "0-0").touch()
    assert [one.tick(1), one.tick(2), one.tick(3)] == [True, True, False]
    assert one.horizon(ended=False) == 3


def test_place_behind_the_last_step_needs_the_whole_program(tmp_path: Path) -> None:
    one = search(tmp_path)
    for step in (1, 2, 3):
        assert one.tick(step)
    (tmp_path / "marks" / "1-0").touch()
    assert one.horizon(ended=True) == 0


def test_every_other_run_stops_at_the_agreed_place(tmp_path: Path) -> None:
    one = StoppingPoint({"steps": 3, "until": 2})
    assert [one.tick(1), one.tick(1)] == [True, False]
    assert StoppingPoint({"steps": 1, "until": 0}).tick(5), "to its own end"
    plain = StoppingPoint({"steps": 2})
    assert [plain.tick(1), plain.tick(2)] == [True, False]


def test_fewer_steps_are_enough_where_they_are_long() -> None:
    slow = StoppingPoint({"steps": 5, "least": 2, "patience": 1e-9, "explore": 0.0})
    assert [slow.tick(1), slow.tick(2)] == [True, False]
    assert slow.horizon(ended=False) == 2
    quick = StoppingPoint({"steps": 3, "least": 2, "patience": 100.0, "explore": 0.0})
    assert [quick.tick(1), quick.tick(2), quick.tick(3)] == [True, True, False]
    others = StoppingPoint({"steps": 5, "least": 2, "patience": 1e-9, "until": 4})
    assert [others.tick(1), others.tick(2), others.tick(3), others.tick(4)] == [True] * 3 + [False]
