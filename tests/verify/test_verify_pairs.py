"""Resident workers answer, fail alone, and are timed in pairs."""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
if sys.platform == "win32":
    pytest.skip("zygotes fork", allow_module_level=True)

import torch

from torchlint.program.errors import NoTorchError
from torchlint.verify.inside import clock
from torchlint.verify.model import Status, Verdict
from torchlint.verify.options import Options
from torchlint.verify.paired import sessions
from torchlint.verify.paired.sessions import Session, Version, pairs_of_making
from torchlint.verify.session.times import Times
from torchlint.verify.session.timing import Block, Lane, take_turns
from torchlint.verify.session.wire import Listener, ProgramError
from torchlint.verify.session.workers import Worker, Zygote
from torchlint.verify.variants import NULL, ORIGINAL

SAME = "x = 1\n"


@pytest.fixture(scope="module", name="live")
def twice(live: Session) -> Iterator[Session]:
    """Return the session with a second zygote, for a second launch."""
    with Zygote(live.site, 1) as second:
        yield replace(live, zygotes=(*live.zygotes, second))


@pytest.fixture
def worker(live: Session) -> Iterator[Worker]:
    found = live.zygotes[0].fork()
    yield found
    found.close()


def program(side: str, **more: object) -> dict[str, object]:
    plain: dict[str, object] = {
        "kind": "example",
        "seed": 0,
        "setup": "import torch\n",
        "prepare": "",
        "side": side,
    }
    return {**plain, "timed": "", "whole": False, "standin": False, "file": "example.py", **more}


def refused(worker: Worker, side: str, **more: object) -> ProgramError:
    with pytest.raises(ProgramError) as caught:
        worker.load(program(side, **more))
    return caught.value


def test_blocks_run_as_often_as_asked(worker: Worker, live: Session) -> None:
    log = live.site.folder / "count"
    worker.load(
        program(
            "n += 1\nif n == 7:\n    open(path, 'w').close()\n",
            setup=f"n = 0\npath = {str(log)!r}\n",
        )
    )
    worker.ask(block=3)
    assert not log.exists()
    block = worker.ask(block=2, before=2)
    assert log.exists()
    assert block["wall_ns"] > 0
    assert block["events_ns"] == 0
    assert worker.ask(calibrate=1)["reps"] == 1


def test_calibration_fills_a_block(worker: Worker) -> None:
    worker.load(program("x = 1\n"))
    found = worker.ask(calibrate=1_000_000)
    assert found["reps"] > 100
    assert found["ns"] * found["reps"] >= 1_000_000


def test_definitions_run_once_and_the_rest_is_timed(worker: Worker) -> None:
    side = (
        "import math\ndef f():\n    return 1\nassert calls == "
        "[]\ncalls.append(f())\ncalls.clear()\n"
    )
    worker.load(program(side, setup="calls = []\n"))
    worker.ask(block=3)


def test_with_a_second_block_the_side_runs_once(worker: Worker) -> None:
    worker.load(program("n += 1\n", setup="n = 0\n", timed="assert n == 1\n"))
    worker.ask(block=3)


@pytest.mark.parametrize(
    ("side", "message", "kind", "where"),
    [
        ("x = 1\n", "", "", ""),
        ("1 / 0\n", "ZeroDivisionError: division by zero", "raised", "example.py:1"),
        ("raise ValueError('one\\ntwo')\n", "ValueError: one", "raised", "example.py:1"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", "raised", "example.py:2"),
        ("raise KeyboardInterrupt\n", "KeyboardInterrupt", "raised", "example.py:1"),
        ("import os\nos._exit(3)\n", "its process ended with exit code 3", "ended", ""),
        ("import os\nos.kill(os.getpid(), 11)\n", "crashed (SIGSEGV)", "ended", ""),
        (
            "import os\nos.kill(os.getpid(), 9)\n",
            "killed by the system, most often for want of memory",
            "memory",
            "",
        ),
        ("raise MemoryError\n", "MemoryError", "memory", "example.py:1"),
        ("def f(\n", "SyntaxError: '(' was never closed", "raised", ""),
    ],
)
def test_each_way_to_fail_is_told_apart(
    live: Session, side: str, message: str, kind: str, where: str
) -> None:
    worker = live.zygotes[0].fork()
    try:
        if not message:
            assert worker.load(program(side, timed="1\n"))["device"] in ("cpu", "cuda")
            return
        error = refused(worker, side, timed="1\n")
    finally:
        worker.close()
    assert (str(error), error.kind, error.where) == (message, kind, where)


def test_a_worker_that_cannot_start_says_why(live: Session) -> None:
    with pytest.raises(
        ProgramError, match=r"no worker could be started: FileNotFoundError: .*nowhere"
    ) as caught:
        live.zygotes[0].fork(live.site.folder / "nowhere")
    assert caught.value.kind == "ended"
    live.zygotes[0].fork().close()


def test_a_worker_that_cannot_call_back_is_noticed(live: Session) -> None:
    """Its socket is gone; nobody waits for it until the time is over."""
    zygote = live.zygotes[1]
    zygote.ready()
    address = live.site.folder / f"z{zygote.number}"
    hidden = address.rename(address.with_name("hidden"))
    with pytest.raises(
        ProgramError, match="no worker could be started: ConnectionError: nobody has called"
    ):
        zygote.fork()
    hidden.rename(address)
    zygote.fork().close()


def test_a_program_that_hangs_is_ended(live: Session) -> None:
    worker = live.zygotes[0].fork()
    worker.timeout = 1.0
    with pytest.raises(ProgramError, match="timed out after 1 s") as caught:
        worker.load(program("while True:\n    pass\n", timed="1\n"))
    assert caught.value.kind == "timeout"
    assert worker.close() is None


def test_what_a_worker_has_started_ends_with_it(live: Session) -> None:
    worker = live.zygotes[0].fork()
    note = live.site.folder / "pid"
    side = "import os, time\npid = os.fork()\nif not pid:\n    time.sleep(600)\n"
    side += f"with open({str(note)!r}, 'w') as file:\n    file.write(str(pid))\n"
    worker.load(program(side, timed="1\n"))
    pid = int(note.read_text())
    os.kill(pid, 0)
    worker.close()
    while _lives(pid):  # the signal is sent; pytest's own timeout ends this if it is not
        time.sleep(0.01)


def _lives(pid: int) -> bool:
    """Say whether a process runs; one that has ended and waits for init does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_missing_package_is_named(worker: Worker) -> None:
    assert (
        refused(worker, "import no_such_package.part\n", timed="1\n").missing == "no_such_package"
    )
    assert worker.ask(find=["json", "no_such_package"])["absent"] == ["no_such_package"]


def test_an_example_without_a_statement_is_empty(worker: Worker) -> None:
    assert refused(worker, "def f():\n    pass\n").kind == "empty"


def test_what_a_program_prints_disturbs_nobody(worker: Worker) -> None:
    worker.load(program("print('{\"wall_ns\": 1}', flush=True)\n"))
    assert worker.ask(block=1)["wall_ns"] > 1


def test_pairs_are_timed_in_makings_of_all_versions(live: Session) -> None:
    slow, fast = (Version(program(f"for _ in range({count}):\n    pass\n")) for count in (2000, 20))
    times = live.measure({ORIGINAL: slow, NULL: slow, "fixed": fast}, 0.2)
    assert {name: list(map(len, launches)) for name, launches in times.launches.items()} == {
        NULL: [2, 2, 2, 2],
        "fixed": [2, 2, 2, 2],
    }
    speed = live.speed(times, "fixed", None)
    assert speed.ratio is not None
    assert (speed.ratio.n, len(times.blocks_ns("fixed"))) == (8, 8)
    control = times.null_control()
    assert control is not None
    assert control.ratio.n == 8


@pytest.mark.parametrize(
    ("total", "seconds", "size"),
    [(24, 0.1, 4), (8, 0.1, 2), (3, 0.1, 1), (96, 0.1, 4), (24, 9.0, 6), (98, 9.0, 25)],
)
def test_versions_are_made_anew_every_few_pairs(total: int, seconds: float, size: int) -> None:
    """What takes long to make is made four times only."""
    assert pairs_of_making(total, seconds) == size


def test_all_versions_run_as_often(live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """As often as the original needs for a block, however fast they are, and in each making in a
    process of its own. Runs before a block, which depend on how long one takes, are left out."""
    monkeypatch.setattr(sessions, "SETTLE_NS", -1)
    log = live.site.folder / "runs"
    side = (
        "import os, time\ntime.sleep({})\n"
        f"with open({str(log)!r}, 'a') as file:\n    print({{!r}}, os.getpid(), file=file)\n"
    )
    delays = {ORIGINAL: 0.002, NULL: 0.002, "fixed": 0.0005}
    versions = {
        name: Version(program(side.format(delay, name.replace(" ", "-"))))
        for name, delay in delays.items()
    }
    live.measure(versions, 4.0)
    runs: dict[tuple[str, str], int] = {}
    for line in log.read_text().splitlines():
        name, pid = line.split()
        runs[name, pid] = runs.get((name, pid), 0) + 1
    assert len(runs) == 3 * 4
    blocks = {number for (name, _), number in runs.items() if name == "fixed"}
    copies = {number for (name, _), number in runs.items() if name == NULL.replace(" ", "-")}
    assert len(blocks) == 1
    assert copies == blocks


def test_a_long_program_gets_twelve_pairs(live: Session) -> None:
    many = replace(live, site=replace(live.site, options=replace(live.options, pairs=24)))
    times = many.measure(
        {ORIGINAL: Version(program(SAME)), "fixed": Version(program(SAME))}, 0.01, long_ms=0.0
    )
    assert list(map(len, times.launches["fixed"])) == [3, 3, 3, 3]


def test_when_the_time_is_over_one_round_is_there(live: Session) -> None:
    same = Version(program(SAME))
    times = live.measure({ORIGINAL: same, "fixed": same}, 0.01, end=0.0)
    assert (list(map(len, times.launches["fixed"])), times.cut) == ([1], True)
    speed = live.speed(times, "fixed", None)
    assert (speed.verdict, speed.why) == (Verdict.INCONCLUSIVE, "only 1 round; raise --budget")
    assert not live.measure({ORIGINAL: same, "fixed": same}, 0.01).cut


def test_an_interrupt_keeps_complete_rounds(live: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [3]

    def turns(lanes: Sequence[Lane], rounds: int, rng: random.Random, **more: object) -> None:
        left[0] -= 1
        take_turns(lanes, rounds if left[0] else 1, rng)
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(sessions, "take_turns", turns)
    same, told = Version(program(SAME)), list[float]()
    times = live.measure({ORIGINAL: same, "fixed": same}, 0.01, tell=told.append)
    assert (list(map(len, times.launches["fixed"])), times.ended) == ([2, 2, 1], "interrupted")
    assert len(told) == 1
    assert live.speed(times, "fixed", None).why == "only 5 rounds; it was interrupted"
    assert live.speed(times, "other", None).why == "interrupted before that"


class Fake:
    """A worker in the place of one on CUDA: a run takes 1 ms."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.asked: list[dict[str, object]] = []

    def load(self, program: object) -> dict[str, object]:
        return {"device": self.device, "device_name": None}

    def ask(self, **message: object) -> dict[str, float]:
        self.asked.append(message)
        return {"ns": 1e6, "reps": 2, "wall_ns": 6e6, "cpu_ns": 6e6, "events_ns": 5e6}


@pytest.mark.parametrize(
    ("device", "reps", "seconds"), [("cuda", 5, (5.0, 1.0)), ("cpu", 2, (0, 0))]
)
def test_on_cuda_blocks_are_long_and_even_before_they_count(
    device: str, reps: int, seconds: tuple[float, float]
) -> None:
    fake = Fake(device)
    lane = sessions._Resident("v", fake, Version({}))  # type: ignore[arg-type]
    assert sessions._warmed([lane], 0, 2.0) == reps
    assert sessions._warmed([lane], reps, 2.0) == reps
    assert [each["seconds"] for each in fake.asked if "warm" in each] == list(seconds)
    block = lane.block()
    assert fake.asked[-1] == {"block": reps, "before": 2}  # 2 ms of its own work
    assert (block.wall, block.events) == (6e6 / reps, 5e6 / reps)
    lane.ns = 6e6
    assert lane.before == 0


class Scripted:
    """A program whose runs take the times given, then the last one."""

    def __init__(self, *taken: int) -> None:
        self.taken = list(taken)
        self.runs = 0

    def run(self, reps: int) -> tuple[int, int, int]:
        self.runs += 1
        return self.taken.pop(0) if len(self.taken) > 1 else self.taken[0], 0, 0


@pytest.mark.parametrize(
    ("seconds", "taken", "runs"),
    [(0.0, [900, 100], 1), (60.0, [900, 500, 104, 100], 7), (60.0, [100], 5), (0.05, [], 0)],
)
def test_a_program_is_warm_once_its_blocks_take_even_times(
    seconds: float, taken: list[int], runs: int
) -> None:
    one = Scripted(*(taken or [number % 2 + 1 for number in range(10**6)]))
    found = clock.warm_up(one, 2, seconds)  # type: ignore[arg-type]
    assert one.runs == runs or not runs
    assert found["ns"] == (one.taken[0] / 2 if runs > 1 else found["ns"])


def test_blocks_on_cuda_are_timed_by_events_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both events are there before the device is waited for, and read after that."""
    said: list[str] = []

    class Event:
        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            said.append("record")

        def elapsed_time(self, end: Event) -> float:
            said.append("read")
            return 1.5

    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: said.append("wait"))
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert clock.timed_loop(lambda: said.append("run"), 2)[2] == 1_500_000
    assert said == ["wait", "record", "run", "run", "record", "wait", "read"]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert clock.timed_loop(lambda: None, 2)[2] == 0


def test_a_version_that_fails_is_left_out_and_the_others_go_on(live: Session) -> None:
    sides = {ORIGINAL: SAME, "broken": "1 / 0\n", "dies": _DYING, "fine": SAME}
    times = live.measure({name: Version(program(side)) for name, side in sides.items()}, 0.2)
    assert {name: len(times.pairs(name)) for name in ("broken", "dies", "fine")} == {
        "broken": 0,
        "dies": 0,
        "fine": 8,
    }
    assert list(times.failures) == ["broken", "dies"]
    assert (str(times.failures["broken"]), times.failures["dies"].kind) == (
        "ZeroDivisionError: division by zero",
        "ended",
    )
    speed = live.speed(times, "broken", None)
    assert (speed.verdict, speed.ratio, speed.why) == (
        Verdict.NOT_MEASURED,
        None,
        "ZeroDivisionError: division by zero",
    )


_DYING = "import os\nn = globals().get('n', 0) + 1\nif n > 3:\n    os._exit(1)\n"


def test_an_original_that_fails_ends_the_measurement(live: Session) -> None:
    times = live.measure({ORIGINAL: Version(program("1 / 0\n")), NULL: Version(program(SAME))}, 0.2)
    assert list(times.failures) == [ORIGINAL]
    assert (times.pairs(NULL), times.null_control()) == ([], None)


def timed(device: str = "cpu", null: float = 1.0, events: float = 0.0) -> Times:
    after = Block(1e6, 1e6, events=1e6)
    makings = {
        "fixed": [[(Block(2e6, 2e6, events=events), after)] * 3] * 4,
        NULL: [[(Block(null * 1e6, 1e6), after)] * 3] * 4,
    }
    return Times(makings, remade=True, device=device)


def test_cpu_time_is_left_out_on_a_gpu_and_with_threads(live: Session) -> None:
    speed = live.speed(timed(), "fixed", None)
    assert (speed.verdict, speed.before_ms, speed.after_ms) == (Verdict.FASTER, 2.0, 1.0)
    assert speed.cpu_ratio == pytest.approx(2.0)
    assert speed.events_ratio is None
    assert live.speed(timed("cuda"), "fixed", None).cpu_ratio is None
    busy = replace(live, site=replace(live.site, options=replace(live.options, threads=2)))
    assert busy.speed(timed(), "fixed", None).cpu_ratio is None


@pytest.mark.parametrize(
    ("events", "why"), [(2e6, ""), (1.9e6, "CUDA events disagree: 1.90x [1.90, 1.90]")]
)
def test_events_are_a_second_clock_that_decides_nothing(
    live: Session, events: float, why: str
) -> None:
    speed = live.speed(timed("cuda", events=events), "fixed", None)
    assert (speed.verdict, speed.events_ratio, speed.why) == (
        Verdict.FASTER,
        pytest.approx(events / 1e6),
        why,
    )


def test_makings_that_differ_decide_nothing() -> None:
    """Each pair is at least 1.05 times as fast, but no two makings agree."""
    makings = [[(Block(ratio, 1.0), Block(1.0, 1.0))] * 4 for ratio in (1.05, 1.1, 1.5, 2.5)]
    times = Times({"fixed": makings, NULL: makings}, remade=True)
    pooled = Times({"fixed": makings, NULL: makings})
    control, own = times.null_control(), pooled.null_control()
    assert control is not None
    assert own is not None
    assert (control.ok, own.ok) == (True, False)
    said = times.speed("fixed", Options(), None, cpu_time=False, remedy="")
    assert said.verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("gain", "verdict", "why"),
    [
        (1.3, Verdict.FASTER, ""),
        (1.08, Verdict.INCONCLUSIVE, "no more than the null control, the same code twice"),
        (1 / 1.08, Verdict.INCONCLUSIVE, "no more than the null control, the same code twice"),
        (1 / 1.3, Verdict.SLOWER, ""),
        (1.0, Verdict.NO_CHANGE, ""),
    ],
)
def test_a_gain_below_what_equal_versions_show_decides_nothing(
    gain: float, verdict: Verdict, why: str
) -> None:
    """All makings agree on the gain, but those of the null control read 1.1 and 1 / 1.1."""
    block = Block(1.0, 1.0)
    makings = {
        "fixed": [[(Block(gain, 1.0), block)] * 4] * 4,
        NULL: [[(Block(read, 1.0), block)] * 4 for read in (1.1, 1 / 1.1, 1.1, 1 / 1.1)],
    }
    times = Times(makings, remade=True)
    said = times.speed("fixed", Options(), times.null_control(), cpu_time=False, remedy="")
    assert said.verdict is verdict
    assert said.why.startswith(why)
    assert bool(said.why) is bool(why)


def test_a_null_control_that_reads_a_difference_spoils_the_verdict(live: Session) -> None:
    control = timed(null=1.5).null_control()
    assert control is not None
    assert not control.ok
    assert live.speed(timed(), "fixed", control).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("memory", Status.OUT_OF_MEMORY),
        ("timeout", Status.TIMEOUT),
        ("ended", Status.BROKEN),
        ("raised", Status.BROKEN),
        ("done", Status.OK),
    ],
)
def test_status_of_a_failure(kind: str, status: Status) -> None:
    assert ProgramError("", kind).status is status
    times = Times(failures={"fixed": ProgramError("", kind)})
    assert ("fixed" in times.failed()) is (status is not Status.OK)


def test_an_address_is_free_when_its_listener_is_closed(live: Session) -> None:
    address = live.site.folder / "again"
    first = Listener(address)
    with pytest.raises(OSError, match="in use"):
        Listener(address)
    first.close()
    Listener(address).close()
    assert not address.exists()


def test_an_interpreter_without_torch_is_named(tmp_path: Path, live: Session) -> None:
    hidden = tmp_path / "torch"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("raise ImportError('no torch here')\n")
    bare = Options(
        env={"PYTHONPATH": f"{tmp_path}{os.pathsep}{live.site.inject}"}, isolation="copy"
    )
    changed = replace(live.site, options=bare)
    with (
        Zygote(changed, 9) as zygote,
        pytest.raises(NoTorchError, match="cannot import torch: ImportError: no torch here"),
    ):
        zygote.fork()
