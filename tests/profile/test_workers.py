"""Workers of DataLoaders: what they take for a batch, which lines, and that they compute the
same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

from jsonschema import validate

from tests.profile.test_live import SCHEMA, Profiled, laboratory
from tests.verify.prepared import Prepared
from torchlint.profile import workers
from torchlint.profile.output import loading
from torchlint.profile.output.tables import loading_title
from torchlint.profile.workers import Batch, WorkerLine, Workers
from torchlint.program.inside import worker_batches
from torchlint.program.inside.statement_marks import Marks
from torchlint.program.inside.worker_batches import FLAG, Stopwatch
from torchlint.program.machine.workspace import Workspace

DATA = """\
import random
import numpy
import torch
from torch.utils.data import Dataset


class Rows(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, at):
        row = torch.randn(32)
        total = sum(value * random.random() for value in range(2000))
        row += float(numpy.random.rand()) + total
        return row, at % 10


def collated(items):
    rows, labels = zip(*items)
    return torch.stack(rows), torch.tensor(labels)
"""
TRAIN = """\
import torch
from data import Rows, collated
from torch.utils.data import DataLoader


def main():
    model = torch.nn.Linear(32, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    loader = DataLoader(Rows(), 32, num_workers=2, collate_fn=collated, OPTIONS)
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main()
"""


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepared) -> Iterator[Profiled]:
    yield from laboratory(tmp_path / "project", monkeypatch, prepared)


def profiled(lab: Profiled, **files: str) -> tuple[dict[str, Any], str]:
    """Return what a run says of workers, and its report in words."""
    lab.write(**files)
    ran = lab.profile("--keep-trace", "/dev/null", "--output-format", "json", "--", "train.py")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return found["run"]["workers"], ran.out


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        "multiprocessing_context='fork'",
        "multiprocessing_context='spawn'",
        "multiprocessing_context='forkserver'",
        "persistent_workers=True, pin_memory=False",
    ],
)
def test_lines_of_workers_are_told(lab: Profiled, options: str) -> None:
    found, _ = profiled(lab, train=TRAIN.replace("OPTIONS", options), data=DATA)
    assert found["processes"] == 2
    assert found["batches"] >= 1
    assert found["timed_batches"] >= 1
    first = found["lines"][0]
    assert (first["file"], first["line"], first["function"]) == ("data.py", 13, "__getitem__")
    assert first["calls"] == 32
    assert first["ns"] > found["timed_batch_ns"] / 2
    assert {line["function"] for line in found["lines"]} >= {"__getitem__", "collated"}
    assert sum(line["ns"] for line in found["lines"]) <= found["timed_batch_ns"]
    assert 0 < found["busy"] <= 1


@pytest.mark.slow
def test_a_dataset_in_the_script_itself_has_lines_in_processes_that_are_not_forked(
    lab: Profiled,
) -> None:
    train = TRAIN.replace("from data import Rows, collated\n", DATA)
    found, _ = profiled(lab, train=train.replace("OPTIONS", "multiprocessing_context='spawn'"))
    assert found["lines"][0]["file"] == "train.py"
    assert found["lines"][0]["function"] == "__getitem__"


@pytest.mark.slow
def test_a_loader_without_workers_has_none(lab: Profiled) -> None:
    train = TRAIN.replace("num_workers=2, ", "").replace("OPTIONS", "")
    found, _ = profiled(lab, train=train, data=DATA)
    assert found is None


ITEMS = """\
import hashlib, sys
from data import Rows, collated
from torch.utils.data import DataLoader
import torch

torch.manual_seed(3)
found = hashlib.sha256()
for at, (x, y) in enumerate(DataLoader(Rows(), 32, shuffle=True, num_workers=2, collate_fn=collated)):
    found.update(x.numpy().tobytes() + y.numpy().tobytes())
    if at == 5:
        break
print(found.hexdigest(), torch.rand(3).tolist(), "torchlint_inside.program.inside.profiling" in sys.modules)
"""  # noqa: E501


@pytest.mark.slow
def test_what_workers_make_is_the_same_to_the_last_bit(tmp_path: Path) -> None:
    for name, text in (("items.py", ITEMS), ("data.py", DATA)):
        (tmp_path / name).write_text(text)
    settings, out = tmp_path / "settings.json", tmp_path / "out"
    out.mkdir()
    (out / FLAG).touch()
    values = {"out": str(out), "root": str(tmp_path), "device": "cpu"}
    settings.write_text(
        json.dumps({**values, "warmup": 1000, "steps": 5, "memory": False, "shapes": False})
    )
    with Workspace(base=tmp_path) as workspace:
        own = {
            "PYTHONPATH": str(workspace.inject()),
            "TORCHLINT_RECORDER": "program.inside.profiling",
            "TORCHLINT_RECORD": str(settings),
        }
        plain, watched = (
            subprocess.run(
                [sys.executable, "items.py"],
                cwd=tmp_path,
                env={**os.environ, **more},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.split()
            for more in ({}, own)
        )
    assert (plain[-1], watched[-1]) == ("False", "True")
    assert watched[:-1] == plain[:-1]
    rows = [
        json.loads(line) for path in out.glob("*.jsonl") for line in path.read_text().splitlines()
    ]
    assert len(rows) >= 6
    assert all(row["lines"] for row in rows)


# The stopwatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the time, which each look at it moves on by ten."""
    now = [0]

    def look() -> int:
        now[0] += 10
        return now[0]

    monkeypatch.setattr(worker_batches.time, "perf_counter_ns", look)
    return now


def test_a_statement_is_told_without_those_in_it(clock: list[int]) -> None:
    watch = Stopwatch()
    with watch.mark("tl#0"), watch.mark("tl#1"):
        pass
    assert watch.spent == {"tl#0": [20, 30, 1], "tl#1": [10, 10, 1]}


def test_a_statement_that_calls_itself_counts_once(clock: list[int]) -> None:
    watch = Stopwatch()
    with watch.mark("tl#0"), watch.mark("tl#0"), watch.mark("tl#0"):
        pass
    assert watch.spent == {"tl#0": [50, 50, 3]}


def test_what_raised_is_closed_with_what_it_stood_in(clock: list[int]) -> None:
    watch = Stopwatch()
    with watch.mark("tl#0"):
        watch.mark("tl#1").__enter__()
    with watch.mark("tl#2"):
        pass
    assert watch.running == []
    assert set(watch.spent) == {"tl#0", "tl#2"}


def test_other_threads_are_not_timed(clock: list[int], tmp_path: Path) -> None:
    watch = Stopwatch()

    def run() -> None:
        with watch.mark("tl#0"):
            pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert watch.lines(Marks(str(tmp_path))) == []


# Reading what workers wrote


def wrote(folder: Path, name: int, *rows: dict[str, Any], end: str = "") -> None:
    base = {"parent": 7, "worker": 0, "workers": 2, "loader": 1, "lines": None}
    lines = "".join(f"{json.dumps({**base, **row})}\n" for row in rows)
    (folder / f"worker-{name}.jsonl").write_text(lines + end)


def test_use_is_of_the_time_in_which_steps_were_timed(tmp_path: Path) -> None:
    wrote(tmp_path, 1, {"start": 0, "end": 90}, {"start": 150, "end": 250}, end='{"parent": 7, "st')
    wrote(tmp_path, 2, {"start": 120, "end": 130}, {"start": 290, "end": 400})
    found = workers.read(tmp_path, Path("/p"), 7, (100, 300))
    assert found is not None
    assert (found.processes, found.batches, found.batch, found.longest) == (2, 3, 100, 110)
    assert found.busy == pytest.approx((100 + 10 + 10) / 400)
    assert (found.timed, found.lines) == (0, ())


def test_lines_are_of_one_batch(tmp_path: Path) -> None:
    lines = [["a.py", 3, 4, "f", 60, 70, 8], ["b/c.py", 1, 1, "g", 20, 30, 1]]
    wrote(
        tmp_path,
        1,
        {"start": 0, "end": 50},
        {"start": 60, "end": 160, "lines": lines},
        {"start": 200, "end": 260, "lines": lines[:1]},
    )
    found = workers.read(tmp_path, Path("/p"), 7, None)
    assert found is not None
    assert (found.batches, found.timed, found.timed_batch, found.busy) == (1, 2, 80, None)
    assert found.lines == (
        WorkerLine("/p/a.py", 3, 4, "f", 60, 70, 8),
        WorkerLine("/p/b/c.py", 1, 1, "g", 10, 15, 0.5),
    )


def test_workers_of_other_processes_are_theirs(tmp_path: Path) -> None:
    wrote(tmp_path, 1, {"start": 0, "end": 90, "parent": 8})
    assert workers.read(tmp_path, Path("/p"), 7, None) is None


def test_a_batch_that_takes_longer_is_shown_among_the_rows() -> None:
    of = Workers(2, 5, 100.0, 120, 0.5, 3, 100.0, ())
    assert list(loading.rows(of)) == [
        (
            "workers of a DataLoader",
            "2, busy for 50.0 % of the time; a batch takes one 100 ns, at most 120 ns",
        )
    ]
    assert loading_title(of) == "in the workers: lines above 3 % of a batch, 100 ns in 3 batches"
    dear = replace(of, single=(Batch(1, 2, 0, 40, None), Batch(1, 2, 1, 60, None)))
    assert loading_title(dear).endswith("in 3 batches, which timing them makes 2.0 x as long")
