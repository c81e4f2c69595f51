"""``torchlint profile --sweep-workers``: from which number of workers on it stops mattering."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

from jsonschema import validate

from tests.profile.test_live import Profiled, laboratory
from tests.verify.prepared import Prepared
from torchlint.profile import sweep
from torchlint.profile.output import sweeping
from torchlint.profile.sweep import Sweep, Tried, counts

SCHEMA = Path(sweeping.__file__).with_name("sweep-report.schema.json")
TRAIN = """\
import time
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


class Slow(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, at):
        time.sleep(0.002)
        return torch.ones(8)


class Stream(IterableDataset):
    def __iter__(self):
        return (torch.ones(8) for _ in range(4096))


model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in LOADER:
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepared) -> Iterator[Profiled]:
    monkeypatch.setattr(sweep, "available", lambda: 2)
    yield from laboratory(tmp_path / "project", monkeypatch, prepared)


def tried(**rounds: list[float]) -> tuple[Tried, ...]:
    """Return what was measured, ``w2=[30, 31, 30]``; an empty list failed."""
    return tuple(
        Tried(int(name[1:]), steps, [step / 2 for step in steps], "" if steps else "it fails")
        for name, steps in rounds.items()
    )


def swept(*, own: tuple[int, ...] = (), **rounds: list[float]) -> Sweep:
    return Sweep(("train.py",), tried(**rounds), own, 4, 20, "", ())


# The rule


@pytest.mark.parametrize(("cores", "found"), [(1, [0, 1]), (2, [0, 1, 2]), (6, [0, 1, 2, 4, 6])])
def test_numbers_that_are_tried(cores: int, found: list[int]) -> None:
    assert counts(cores) == found


def test_the_least_number_that_no_larger_one_beats_in_every_round() -> None:
    found = swept(w0=[90, 91, 89], w1=[50, 52, 51], w2=[30, 31, 30], w4=[30, 29, 31])
    assert (found.enough.workers, found.unsettled, found.slower) == (2, (), ())
    assert sweeping.verdict(found) == (
        "From 2 workers on it stops mattering: no larger number is more than 3 % faster in all 3 "
        "rounds."
    )


def test_a_number_that_is_faster_in_some_rounds_alone_settles_nothing() -> None:
    found = swept(w0=[90, 91, 89], w1=[50, 52, 51], w2=[30, 60, 40])
    assert found.enough.workers == 1
    assert [one.workers for one in found.unsettled] == [2]
    assert sweeping.verdict(found).startswith("Not settled: some rounds are faster with 2 than")
    assert list(sweeping.further(found)) == []


def test_rounds_that_lie_far_apart_settle_nothing_though_their_medians_agree() -> None:
    found = swept(w0=[44, 34, 142], w1=[50, 27, 109], w2=[43, 163, 60])
    assert [one.workers for one in found.unsettled] == [1, 2]
    assert "do not matter" not in sweeping.text(found, False)


def test_workers_that_do_not_matter_and_those_that_harm() -> None:
    found = swept(w0=[30, 30, 31], w1=[30, 31, 30], w2=[40, 41, 42], own=(2,))
    assert found.enough.workers == 0
    assert sweeping.verdict(found).startswith("Workers do not matter here")
    words = list(sweeping.further(found))
    assert "Slower in every round: 2." in words
    assert "The program itself uses 2: with 0 a step takes 73.2 % of that." in words


def test_the_largest_number_may_still_help() -> None:
    found = swept(w0=[90, 91, 89], w1=[50, 52, 51], w2=[30, 31, 30])
    assert "up to the largest number tried, 2" in sweeping.verdict(found)


def test_numbers_with_which_the_program_fails_are_left_out() -> None:
    found = swept(w0=[90, 91, 89], w1=[], w2=[30, 31, 30])
    assert found.enough.workers == 2
    assert "fails" in sweeping.text(found, False)
    document = json.loads(sweeping.document(found, (), "1"))
    validate(document, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert document["tried"][1]["failed"] == "it fails"
    assert "| 1 | fails | it fails |  |" in sweeping.markdown(found)


# Programs


@pytest.mark.slow
def test_a_program_whose_items_are_slow_needs_workers(lab: Profiled) -> None:
    lab.write(train=TRAIN.replace("LOADER", "DataLoader(Slow(), 8, num_workers=3)"))
    ran = lab.profile("--sweep-workers", "--output-format", "json", "--", "train.py")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    assert [one["workers"] for one in found["tried"]] == [0, 1, 2, 3]
    assert found["own"] == [3]
    assert found["enough"] >= 2
    assert all(len(one["steps_ns"]) == 3 for one in found["tried"])
    assert found["tried"][0]["wait_ns"] > 8 * 2e6  # items of a batch, one after the other


@pytest.mark.slow
def test_a_stream_is_read_by_every_worker_and_that_is_told(lab: Profiled) -> None:
    lab.write(train=TRAIN.replace("LOADER", "DataLoader(Stream(), 8)"))
    ran = lab.profile("--sweep-workers", "--", "train.py")
    assert ran.code == 0, ran.err
    assert "Stream is an IterableDataset whose __iter__ does not ask get_worker_info()" in ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loader", "message"),
    [
        ("(torch.ones(2, 8) for _ in range(40))", "makes no DataLoader of torch.utils.data"),
        ("DataLoader(Slow(), 1024)", "a sweep needs 10 at least"),
    ],
)
def test_programs_that_cannot_be_swept(lab: Profiled, loader: str, message: str) -> None:
    lab.write(train=TRAIN.replace("LOADER", loader).replace("0.002", "0"))
    ran = lab.profile("--sweep-workers", "--", "train.py")
    assert ran.code == 2
    assert message in ran.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep-workers", "--memory", "--", "train.py"], "--sweep-workers and --memory"),
        (["--sweep-workers"], "--sweep-workers is for a program to run"),
    ],
)
def test_what_makes_no_sense_is_refused(lab: Profiled, arguments: list[str], message: str) -> None:
    lab.write(train="raise SystemExit('it ran')\n")
    ran: Any = lab.profile(*arguments)
    assert (ran.code, message in ran.message) == (2, True)
