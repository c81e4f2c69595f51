"""Lock-step with residents that are threads of this process and speak the protocol; no time is
asserted."""

from __future__ import annotations

import json
import random
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from torchlint.verify.script import lockstep
from torchlint.verify.script.lockstep import LaunchSettings, Resident


class Fake:
    """A resident in this process: a thread that speaks the protocol, with blocks of a set length.

    Args:
        blocks: how many blocks it gives before it ends; `hangs` makes it go silent instead.
        step_ns: nanoseconds that a step is said to take.
        slower: by how much its first blocks are.
    """

    def __init__(
        self, name: str, folder: Path, log: list[tuple[str, Any]], *, blocks: int = 1000, step_ns: float = 1e6,  # noqa: E501
        wait_ns: float = 0.0, hangs: bool = False, silent: bool = False,
        slower: Sequence[float] = (),
    ) -> None:  # fmt: skip
        self.name, self.log, self.blocks, self.step_ns, self.wait_ns = (
            name,
            log,
            blocks,
            step_ns,
            wait_ns,
        )
        self.hangs, self.silent, self.slower = hangs, silent, slower
        self.address = folder / f"{name}.s"
        self.code: int | None = None
        self.frozen = False
        self.stopped = False
        self._thread = threading.Thread(target=self._live, daemon=True)

    def resident(self) -> Resident:
        return Resident(self.name, self._start, self.address)

    def _start(self) -> Fake:
        self.log.append((self.name, "start"))
        if not self.silent or self.hangs:
            self._thread.start()
        else:
            self.code = 1
        return self

    def _live(self) -> None:
        if self.silent:
            return
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(self.address))
        with connection, connection.makefile("rwb") as stream:
            self._say(stream, {"ready": 2, "prefetched": 6})
            for number, line in enumerate(stream):
                word = json.loads(line)
                self.log.append((self.name, word))
                if word.get("quit") or number == self.blocks:
                    break
                factor = self.slower[number] if number < len(self.slower) else 1.0
                time_ns = factor * self.step_ns * word["steps"]
                self._say(
                    stream,
                    {
                        "wall_ns": time_ns,
                        "cpu_ns": time_ns,
                        "wait_ns": self.wait_ns * word["steps"],
                    },
                )
            else:
                return
            if self.hangs and not word.get("quit"):
                time.sleep(0.5)
            self.code = 0

    @staticmethod
    def _say(stream: Any, message: dict[str, Any]) -> None:
        stream.write(json.dumps(message).encode() + b"\n")
        stream.flush()

    def poll(self) -> int | None:
        return self.code

    def wait(self, timeout: float | None = None) -> int | None:
        self._thread.join(timeout)
        return self.code

    def freeze(self) -> None:
        self.frozen = True
        self.log.append((self.name, "freeze"))

    def thaw(self) -> None:
        self.frozen = False
        self.log.append((self.name, "thaw"))

    def stop(self, grace: float = 0.0) -> None:
        self.stopped = True


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a name short enough for addresses of sockets."""
    with tempfile.TemporaryDirectory(prefix="tl") as path:
        yield Path(path)


def run(fakes: Sequence[Fake], **pace: Any) -> tuple[list[Resident], int]:
    residents = [fake.resident() for fake in fakes]
    steps = lockstep.run(
        residents,
        LaunchSettings(**{"rounds": 4, "timeout": 5.0, **pace}),
        random.Random(1),
        lambda done: None,
    )
    assert all(fake.stopped for fake in fakes)
    return residents, steps


def test_every_variant_has_every_round(folder: Path) -> None:
    log: list[tuple[str, Any]] = []
    fakes = [
        Fake("one", folder, log),
        Fake("two", folder, log, step_ns=5e5),
        Fake("three", folder, log),
    ]
    residents, steps = run(fakes)
    assert steps == 50  # of 1 ms make 50 ms
    assert [len(resident.blocks) for resident in residents] == [4, 4, 4]
    assert {block.wall for block in residents[1].blocks} == {5e5}
    assert {resident.prefetched for resident in residents} == {6}
    assert [resident.failure for resident in residents] == [None, None, None]


COLD = (2.0, 2.0, 1.9, 1.6, 1.3)
"""As on an H200: the block that gives their length, and four rounds before the pace is found."""


@pytest.mark.parametrize(
    ("trials", "blocks", "kept"),
    [
        (0, 1 + 4, [2.0, 1.9, 1.6, 1.3]),
        (10, 1 + 7 + 1, [1.0, 1.0, 1.0, 1.0]),
        (3, 1 + 3 + 3, [1.6, 1.3, 1.0, 1.0]),
    ],
)
def test_rounds_are_given_up_until_the_pace_is_found(
    folder: Path, trials: int, blocks: int, kept: list[float]
) -> None:
    log: list[tuple[str, Any]] = []
    fakes = [Fake("one", folder, log, slower=COLD), Fake("two", folder, log, slower=COLD[1:])]
    residents, _ = run(fakes, trials=trials)
    asked = [word for name, word in log if name == "one" and isinstance(word, dict)]
    assert len([word for word in asked if "steps" in word]) == blocks
    assert [block.wall / 1e6 for block in residents[0].blocks] == kept
    assert len(residents[1].blocks) == 4


def test_a_version_that_ends_before_the_pace_is_found_has_no_round(folder: Path) -> None:
    log: list[tuple[str, Any]] = []
    fakes = [Fake("one", folder, log, slower=COLD), Fake("two", folder, log, blocks=2)]
    residents, _ = run([*fakes, Fake("three", folder, log, slower=COLD[1:])], trials=10)
    assert [len(resident.blocks) for resident in residents] == [4, 0, 4]


def test_only_one_runs_at_a_time(folder: Path) -> None:
    log: list[tuple[str, Any]] = []
    run([Fake(name, folder, log) for name in ("one", "two", "three")], together=1)
    awake = {"one", "two", "three"}
    blocks = 0
    for name, what in log:
        if what == "freeze":
            awake.discard(name)
        elif what == "thaw":
            awake.add(name)
        elif what != "start" and "steps" in what:
            blocks += 1
            assert awake == {name}
    assert blocks == 13  # four rounds of three, and the trial


@pytest.mark.parametrize("together", [1, 2])
def test_few_start_at_the_same_time(folder: Path, together: int) -> None:
    log: list[tuple[str, Any]] = []
    run([Fake(name, folder, log) for name in "abcd"], together=together)
    starting = most = 0
    for _, what in log[: log.index(("a", "thaw"))]:
        starting += {"start": 1, "freeze": -1}.get(what, 0)
        most = max(most, starting)
    assert most == together


def test_order_is_another_one_in_each_round(folder: Path) -> None:
    log: list[tuple[str, Any]] = []
    run([Fake(name, folder, log) for name in ("one", "two", "three")], rounds=8)
    order = [name for name, what in log if isinstance(what, dict) and "steps" in what][1:]
    rounds = [tuple(order[at : at + 3]) for at in range(0, len(order), 3)]
    assert all(sorted(each) == ["one", "three", "two"] for each in rounds)
    assert len(set(rounds)) > 1


def test_variant_that_ends_early_keeps_its_complete_rounds(folder: Path) -> None:
    fakes = [Fake("one", folder, []), Fake("two", folder, [], blocks=2), Fake("three", folder, [])]
    residents, _ = run(fakes)
    assert [len(resident.blocks) for resident in residents] == [4, 2, 4]
    assert str(residents[1].failure) == "ended"


def test_original_that_ends_early_ends_the_launch(folder: Path) -> None:
    fakes = [Fake("one", folder, [], blocks=3), Fake("two", folder, []), Fake("three", folder, [])]
    residents, _ = run(fakes, rounds=10)
    assert [len(resident.blocks) for resident in residents] == [
        2,
        2,
        2,
    ]  # its first block was the trial
    assert str(residents[0].failure) == "ended"


def test_variant_that_fails_to_start_leaves_the_others(folder: Path) -> None:
    fakes = [
        Fake("one", folder, []),
        Fake("two", folder, [], silent=True),
        Fake("three", folder, []),
    ]
    residents, _ = run(fakes)
    assert [len(resident.blocks) for resident in residents] == [4, 0, 4]
    assert str(residents[1].failure) == "ended before its warm-up was over"


def test_variant_that_hangs_in_warm_up_leaves_the_others(folder: Path) -> None:
    fakes = [
        Fake("one", folder, []),
        Fake("two", folder, [], silent=True, hangs=True),
        Fake("three", folder, []),
    ]
    residents, _ = run(fakes, timeout=0.3)
    assert [len(resident.blocks) for resident in residents] == [4, 0, 4]
    assert str(residents[1].failure) == "timed out after 0.3 s"


def test_variant_that_hangs_in_a_block_leaves_the_others(folder: Path) -> None:
    fakes = [
        Fake("one", folder, []),
        Fake("two", folder, [], blocks=1, hangs=True),
        Fake("three", folder, []),
    ]
    residents, _ = run(fakes, timeout=0.3)
    assert [len(resident.blocks) for resident in residents] == [4, 1, 4]
    assert str(residents[1].failure) == "timed out after 0.3 s"


def test_original_that_does_not_start_ends_the_launch(folder: Path) -> None:
    log: list[tuple[str, Any]] = []
    residents, steps = run(
        [
            Fake("one", folder, log, silent=True),
            Fake("two", folder, log),
            Fake("three", folder, log),
        ]
    )
    assert steps == 0
    assert [name for name, what in log if what == "thaw"] == []
    assert residents[1].blocks == []


@pytest.mark.parametrize(
    ("step_ns", "pace", "steps"),
    [
        (1e6, {"seconds": 300}, 50),  # 50 ms
        (1e8, {"seconds": 300}, 10),  # ten steps at least
        (1e6, {"seconds": 300, "block": 7}, 7),  # as asked for
        (1e8, {"seconds": 6}, 5),  # 6 s / (0.1 s * 2 variants * 4 rounds), less 2 steps to settle
        (1e8, {"seconds": 0.001}, 1),  # no room at all: a step each
        (1e8, {"seconds": 0.001, "block": 7}, 7),
    ],
)
def test_block_length(folder: Path, step_ns: float, pace: dict[str, Any], steps: int) -> None:
    _, found = run([Fake("one", folder, [], step_ns=step_ns), Fake("two", folder, [])], **pace)
    assert found == steps


def test_budget_that_is_spent_leaves_one_round(folder: Path) -> None:
    residents, _ = run([Fake("one", folder, []), Fake("two", folder, [])], seconds=0.0)
    assert [len(resident.blocks) for resident in residents] == [1, 1]


@pytest.mark.parametrize(("wait_ns", "settle"), [(1.9e5, 2), (2.1e5, 6)])
def test_prefetched_batches_are_drained_first(folder: Path, wait_ns: float, settle: int) -> None:
    log: list[tuple[str, Any]] = []
    run([Fake("one", folder, log, wait_ns=wait_ns), Fake("two", folder, log)])
    asked = [what["settle"] for _, what in log if isinstance(what, dict) and "settle" in what]
    assert asked[0] == 2
    assert set(asked[1:]) == {settle}
