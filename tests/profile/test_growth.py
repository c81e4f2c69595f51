"""Memory that grows from step to step is told with the line that allocates it; what merely comes
and goes is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.profile.test_lines import SOURCES, Run
from tests.trace.program import written
from torchlint.profile.growth import LEAST_BYTES, Growth, growth
from torchlint.profile.lines import Lines
from torchlint.profile.output.growing import document, sentences
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.trace.stream import read

MEGA = 1_000_000
MARKS = {
    "1": ["/home/me/train.py", 3, 3, "main"],
    "2": ["/home/me/train.py", 8, 8, "helper"],
}


class Steps(Run):
    """Steps of a program whose lines allocate."""

    def __init__(self) -> None:
        super().__init__()
        self.address = 4096
        self.number = 0

    def step(self, *lines: tuple[int, int]) -> list[tuple[int, int]]:
        """Run a step whose lines (number of the mark, bytes) allocate; return (address, bytes)."""
        begun, got = self.now, []
        for mark, nbytes in lines:
            with self.inside("cpu_op", f"tl#{mark}"), self.inside("cpu_op", "aten::empty"):
                self.address += 1 << 20
                self.change(nbytes, self.address)
                got.append((self.address, nbytes))
        self.now += 1_000
        self.number += 1
        self.event("user_annotation", f"ProfilerStep#{self.number}", begun, self.now - begun)
        return got

    def change(self, nbytes: int, address: int, kind: int = 0) -> None:
        """Take or give back memory."""
        args = {"Bytes": nbytes, "Device Type": kind, "Addr": address}
        self.events.append(
            {
                "ph": "i",
                "name": "[memory]",
                "pid": 1,
                "tid": self.thread,
                "ts": self.now / 1000,
                "args": args,
            }
        )
        self.now += 100

    def free(self, got: list[tuple[int, int]]) -> None:
        for address, nbytes in got:
            self.change(-nbytes, address)


def told(tmp_path: Path, run: Run) -> tuple[Growth, ...] | None:
    trace = read(written(tmp_path / "t.json", run.events, torchlint_marks=MARKS))
    return growth(trace, Lines(Places(trace, SOURCES), Replay(trace)))


def program(kept: int, steps: int = 5, **other: Any) -> Steps:
    """Run a program that keeps so many bytes of line 3 in each step, and none of line 8."""
    run = Steps()
    for _ in range(steps):
        held = run.step((1, kept), (2, 5 * MEGA))
        run.free(held[1:])
    for event in run.events:
        if event["ph"] == "i":
            event["args"].update(other)
    return run


def test_what_each_step_keeps_is_told_with_its_line(tmp_path: Path) -> None:
    found = told(tmp_path, program(MEGA))
    assert found is not None
    (one,) = found
    assert (one.device, one.nbytes, one.steps) == ("CPU", MEGA, 5)
    assert [(kept.site.file, kept.site.line, kept.nbytes) for kept in one.kept] == [
        ("train.py", 3, MEGA)
    ]
    assert list(sentences(found)) == [
        "memory of the CPU grows by 1 MB in each of 5 steps; what stays alive was allocated at "
        "train.py:3, in main (1 MB)"
    ]
    (written_,) = document(found) or []
    assert written_["places"][0]["bytes_per_step"] == MEGA


def test_memory_of_a_gpu_is_told_apart(tmp_path: Path) -> None:
    found = told(tmp_path, program(MEGA, **{"Device Type": 1}))
    assert found is not None
    assert [one.device for one in found] == ["GPU"]


def test_nothing_is_told_where_it_was_not_recorded(tmp_path: Path) -> None:
    run = program(MEGA)
    run.events = [event for event in run.events if event["ph"] != "i"]
    found = told(tmp_path, run)
    assert found is None
    assert list(sentences(found)) == []
    assert document(found) is None


def given_back_later() -> Run:
    """What a step keeps goes in the next one."""
    run, held = Steps(), []
    for _ in range(5):
        got = run.step((1, MEGA))
        run.free(held)
        held = got
    return run


def not_in_each_step() -> Run:
    run = Steps()
    for number in range(6):
        got = run.step((1, MEGA))
        if number == 3:
            run.free(got)
    return run


def collected_at_the_end() -> Run:
    """Cycles that Python's collector has not come to are no leak."""
    run = Steps()
    held = [each for _ in range(5) for each in run.step((1, MEGA))]
    run.free(held)
    return run


def from_elsewhere() -> Run:
    """Most of what grows was allocated where nothing of the program ran."""
    run = Steps()
    for number in range(5):
        run.step((1, MEGA))
        run.change(9 * MEGA, 7 + number)
    return run


@pytest.mark.parametrize(
    "run",
    [
        program(0),
        program(LEAST_BYTES - 1),
        program(MEGA, steps=3),
        program(MEGA, Addr=None),
        given_back_later(),
        not_in_each_step(),
        collected_at_the_end(),
        from_elsewhere(),
    ],
    ids=[
        "nothing is kept",
        "too little",
        "too few steps",
        "no addresses",
        "given back later",
        "not in each step",
        "collected at the end",
        "from elsewhere",
    ],
)
def test_what_is_not_sure_is_not_told(tmp_path: Path, run: Run) -> None:
    assert told(tmp_path, run) == ()
