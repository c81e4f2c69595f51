"""The command for a GPU, without one: each stage starts and is understood, results are kept as they
come, and what was ended is taken up."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks import on_gpu
from torchlint.catalog.rules import load_catalog

ROOT = Path(__file__).resolve().parents[2]


def run(until: float = 60.0, only: tuple[str, ...] = ()) -> on_gpu.Run:
    return on_gpu.Run("cuda", quick=True, only=only, until=time.monotonic() + until)


def command(*words: str) -> list[str]:
    return [sys.executable, str(ROOT / "benchmarks" / "on_gpu.py"), *words]


def shell(text: str) -> list[str]:
    return ["bash", "-c", text]


@pytest.fixture
def book(tmp_path: Path) -> on_gpu.Book:
    return on_gpu.Book(tmp_path / "results" / "made.json", {"gpu": "none", "driver": ""})


def asked(
    book: on_gpu.Book, stage: Any, monkeypatch: pytest.MonkeyPatch, digest: str = "1"
) -> tuple[bool, dict[str, Any]]:
    monkeypatch.setattr(on_gpu, "STAGES", {"made": on_gpu.Stage(60, stage, lambda _: ["said"])})
    complete = on_gpu.ask(book, "made", run(), digest, again=False)
    content = json.loads(book.path.read_text())
    return complete, content["stages"]["made"]


def test_results_are_written_as_they_come_and_kept_where_a_stage_fails(
    book: on_gpu.Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stage(_: on_gpu.Run, __: set[str]) -> on_gpu.Found:
        yield "one", {"report": 1}
        assert json.loads(book.path.read_text())["stages"]["made"]["items"].keys() == {"one"}
        raise ValueError("no more")

    complete, kept = asked(book, stage, monkeypatch)
    assert not complete
    assert kept["error"] == "ValueError: no more"
    assert kept["items"]["one"] == {"report": 1, "sources": "1"}
    assert "made: ValueError: no more\n  said" in on_gpu.summary(book, ["made"])


def test_what_was_answered_is_not_asked_again_unless_the_code_is_another(
    book: on_gpu.Book, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[set[str]] = []

    def stage(_: on_gpu.Run, done: set[str]) -> on_gpu.Found:
        seen.append(done)
        yield "good", {}
        yield "bad", {"error": "it broke"}
        yield "absent", {"left_out": "a package"}

    assert not asked(book, stage, monkeypatch)[0]
    again = on_gpu.Book(book.path, {"gpu": "none", "driver": ""})
    asked(again, stage, monkeypatch)
    asked(again, stage, monkeypatch, digest="2")
    assert seen == [set(), {"good"}, set()]
    said = on_gpu.summary(book, ["made"])
    assert "FAILED bad: it broke" in said
    assert "left out absent: a package" in said


def test_a_damaged_file_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    path.write_text("{")
    assert on_gpu.Book(path, {"gpu": "none"}).content == {"gpu": "none", "stages": {}}


def test_a_command_is_ended_at_its_limit_with_all_that_it_started(tmp_path: Path) -> None:
    text = f"sleep 300 & echo $! > {tmp_path}/pid; echo '{{}}'; sleep 300"
    found: list[str] = []
    with pytest.raises(subprocess.TimeoutExpired):
        found.extend(run().lines(shell(text), 0.5))
    sleeper = int((tmp_path / "pid").read_text())
    for _ in range(100):
        state = Path(f"/proc/{sleeper}/stat")
        if not state.exists() or ") Z" in state.read_text():
            break
        time.sleep(0.05)
    else:
        raise AssertionError("it still runs")


def test_what_goes_wrong_is_said() -> None:
    assert run().report(shell("echo '[1]'"), 9)["report"] == [1]
    assert run().report(shell("echo oh >&2; exit 3"), 9)["error"] == "exit code 3: oh"
    assert run().report(shell("sleep 9"), 0.2)["error"] == "no time was left"
    assert run(until=0.2).report(shell("sleep 9"), 9)["error"] == "no time was left"
    assert "JSONDecodeError" in run().report(shell("echo no"), 9)["error"]
    assert run().report(shell("echo '[1]'; exit 3"), 9)["error"] == "exit code 3: "
    told = shell("trap 'echo [2]; exit 0' TERM; sleep 9 & wait")
    assert run().report(told, 0.5)["report"] == [2]


def test_a_package_that_is_not_there_leaves_its_program_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_gpu, "PACKAGED", {"tabnet": "no_such_package"})
    found = dict(on_gpu.STAGES["verify"].ask(run(only=("tabnet",)), set()))
    assert found == {"tabnet": {"left_out": "no_such_package is not installed"}}


def test_the_rules_are_asked_by_family() -> None:
    assert set(on_gpu.FAMILIES) == {rule.code[:3] for rule in load_catalog().rules}


def test_the_summary_says_what_reports_say() -> None:
    speed = {"ratio": 1.5, "verdict": "faster"}
    variants = [{"kind": "all", "speed": speed, "equivalence": {"ok": True}}]
    report = {"variants": variants, "null_control": {"ratio": 1.01}}
    clock = {"report": {"mean_ms": 2.0}}
    profile = {"run": {"unprofiled": {"step_ns": 3e6}}}
    wall = {"ratio": 1.0, "launches": [1.0, 1.0], "ok": True}
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("ledger", {"agrees": True}, "1 of 1 programs agree"),
        ("ledger", {"agrees": False, "unavailable": "why"}, "differs: it why"),
        ("null", {"wall": wall, "other": wall}, "it: wall 1 [1.0, 1.0], ok; other clock 1"),
        ("verify", {"report": report, "seconds": 39.5, "budget": 40}, "39.5 s of a budget of 40 s"),
        ("verify", {"report": report}, "together faster, 1.5x; results kept by 1 of 1"),
        ("verify", {"report": {}}, "together None, ?x"),
        ("profile", {"clock": clock, "report": profile}, "2 ms by its own clock, 3 ms by profile"),
        ("profile", {"report": {"run": None}}, "? ms by its own clock"),
        ("rules", {"report": report}, "it: 1 faster; null control 1.01x"),
        ("bounds", {"report": {"bounds": [{"holds": True}, {"holds": None}]}}, "1 of 2 bounds"),
    ]
    for stage, result, said in cases:
        assert said in "\n".join(on_gpu.STAGES[stage].says({"it": result}))


@pytest.mark.slow
def test_without_a_gpu_it_says_so(tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command("--out", str(tmp_path)), capture_output=True, text=True, env=environment
    )
    assert done.returncode == 4
    assert done.stderr == "on_gpu: torch sees no CUDA device; --device virtual-cuda tries\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("stage", "device", "only"),
    [
        ("ledger", "virtual-cuda", "item"),
        ("null", "cpu", "host, one"),
        ("verify", "virtual-cuda", "mask"),
        ("verify", "cpu", "stars"),
        ("profile", "cpu", "mask"),
        ("rules", "virtual-cuda", "TL2"),
        ("bounds", "cpu", "bounds"),
    ],
)
def test_every_stage_runs_without_a_gpu(tmp_path: Path, stage: str, device: str, only: str) -> None:
    words = ["--quick", "--device", device, "--out", str(tmp_path), "--only", only, stage]
    done = subprocess.run(command(*words), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = tmp_path.iterdir()
    content = json.loads(path.read_text())
    items = content["stages"][stage]["items"]
    assert only in items
    assert not any("error" in result for result in items.values()), items
    assert f"{stage}:" in done.stdout
    assert {"gpu", "driver", "torch", "python", "date"} <= content.keys()


@pytest.mark.slow
def test_a_run_that_is_ended_keeps_what_it_has_and_goes_on(tmp_path: Path) -> None:
    words = ["--quick", "--device", "virtual-cuda", "--out", str(tmp_path), "--only", "mask"]
    first = subprocess.Popen(command(*words, "ledger"), stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    assert first.stdout.readline() == "ledger: mask: done\n"
    first.send_signal(signal.SIGTERM)
    rest = first.communicate()[0]
    assert first.returncode == 1
    assert "Results: " in rest
    done = subprocess.run(command(*words, "ledger"), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ledger: mask: done\n" not in done.stdout
    assert "programs agree" in done.stdout
