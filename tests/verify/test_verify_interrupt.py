"""``torchlint verify`` is interrupted, terminated and killed: nothing of it is left. Times are
never asserted."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import torchlint
from tests.verify.verify_lab import FAST, FAULTY, fingerprint, left
from torchlint.program.machine.process_tree import run_of, table
from torchlint.program.machine.processes import sweep

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes"
    ),
]

# The real command line, with what it would learn from a first import of torch given.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import torchlint.program.machine.doctor
from tests.verify.verify_lab import doctor
if "--python" not in sys.argv:
    torchlint.program.machine.doctor.diagnose = doctor
from torchlint.cli.main import entry
entry()
"""
SLEEPS = """
import subprocess, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
open("started", "w")
time.sleep(1000)
"""
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + SLEEPS
TRAINS = """
import os
import torch
from model import make
weights = torch.ones(2, 2, device=os.environ.get("PLACE", "cpu"), requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
while True:
    optimizer.zero_grad()
    (weights + make(weights)).sum().backward()
    optimizer.step()
"""


class Terminal:
    """A torchlint on a terminal; `text` is what its standard error has shown so far."""

    def __init__(self, root: Path, temp: Path, *arguments: str) -> None:
        self.temp = temp
        self.text = ""
        self._screen, end = pty.openpty()
        repository = str(Path(torchlint.__file__).parents[1])
        output = os.open(temp / "report.json", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                repository,
                "verify",
                ".",
                *FAST,
                "--budget",
                "300s",
                *arguments,
                "--",
                "train.py",
            ],
            cwd=root,
            env={**os.environ, "TMPDIR": str(temp)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=end,
        )
        os.close(end)
        os.close(output)

    def read(self) -> None:
        """Take what is there to read."""
        while select.select([self._screen], [], [], 0.01)[0]:
            try:
                data = os.read(self._screen, 65536)
            except OSError:  # the other end is closed
                return
            self.text += data.decode()

    def until(self, condition: Callable[[], object]) -> None:
        """Read until something holds; the test's own timeout ends it otherwise."""
        while not condition():
            assert self.process.poll() is None, self.text
            self.read()

    def started(self) -> bool:
        """Say whether the first run of the original, which goes alone, has started its child."""
        return len(list(self.temp.glob("torchlint-*/v*/*/started"))) == 1

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        while self.process.poll() is None:
            self.read()
        self.read()
        return self.process.returncode

    def report(self) -> dict[str, Any]:
        """Return what it has written as JSON."""
        return dict(json.loads((self.temp / "report.json").read_text()))

    def close(self) -> None:
        """End it whatever happened."""
        self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def temp() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="lab-", dir="/tmp") as name:
        yield Path(name)
        for folder in Path(name).glob("torchlint-*"):
            sweep(str(folder))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "model.py").write_text(FAULTY)
    (folder / "train.py").write_text(SLEEPS)
    return folder


@pytest.fixture
def begin(root: Path, temp: Path) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        terminals.append(Terminal(root, temp, *arguments))
        return terminals[-1]

    yield start
    for terminal in terminals:
        terminal.close()


def interrupted(terminal: Terminal) -> None:
    """See that a torchlint has ended as after Ctrl-C, with nothing left on the terminal's last
    line."""
    assert terminal.ended() == 130, terminal.text
    assert terminal.text.endswith("\r\x1b[K\r\ntorchlint: interrupted\r\n"), terminal.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_while_the_program_runs(
    begin: Callable[..., Terminal], root: Path, temp: Path, number: signal.Signals
) -> None:
    before = fingerprint(root)
    terminal = begin()
    terminal.until(terminal.started)
    terminal.process.send_signal(number)
    interrupted(terminal)
    assert left(temp) == []
    assert fingerprint(root) == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_it_is_timed_the_report_says_what_is_known(
    begin: Callable[..., Terminal], root: Path, temp: Path, number: signal.Signals
) -> None:
    (root / "train.py").write_text(TRAINS)
    terminal = begin("--output-format", "json")
    terminal.until(lambda: "round 1 of" in terminal.text)
    terminal.process.send_signal(number)
    assert terminal.ended() == 130, terminal.text
    report = terminal.report()
    assert report["cut"] == "interrupted"
    assert "this is what was known by then" in report["warnings"][0]
    (variant,) = report["variants"]
    assert variant["equivalence"]["ok"] is True
    assert variant["counts"]["basis"] == "virtual-cuda"
    assert variant["speed"]["verdict"] == "inconclusive"
    assert len(variant["blocks_ns"]) == variant["speed"]["n"] >= 1
    assert report["safety"]["tree_unchanged"] is True
    assert left(temp) == []


def test_the_budget_ends_it_whatever_the_program_does(
    begin: Callable[..., Terminal], temp: Path
) -> None:
    terminal = begin("--output-format", "json", "--budget", "6s")
    assert terminal.ended() == 0, terminal.text
    report = terminal.report()
    assert report["cut"] == "spent"
    (variant,) = report["variants"]
    assert variant["speed"]["verdict"] == "not measured"
    assert variant["speed"]["why"] == "no time was left for it (--budget)"
    assert (variant["counts"], variant["equivalence"], variant["exercised"]) == (None, None, None)
    assert left(temp) == []


def test_while_the_interpreter_is_asked(
    begin: Callable[..., Terminal], temp: Path, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text(
        f"#!/bin/sh\necho $$ > {temp}/asked.part; mv {temp}/asked.part {temp}/asked; sleep 1000\n"
    )
    python.chmod(0o755)
    terminal = begin("--python", str(python))
    terminal.until((temp / "asked").exists)
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.ended() == 130, terminal.text
    session = int((temp / "asked").read_text())
    assert [
        process
        for process in table().values()
        if process.session == session and process.state != "Z"
    ] == []


def test_while_copying(begin: Callable[..., Terminal], root: Path, temp: Path) -> None:
    for number in range(3000):
        (root / f"{number}.txt").write_text("data")
    terminal = begin()
    terminal.until(lambda: "copying project" in terminal.text)
    terminal.process.send_signal(signal.SIGINT)
    interrupted(terminal)
    assert left(temp) == []


def test_twice_while_a_program_refuses_to_end(
    begin: Callable[..., Terminal], root: Path, temp: Path
) -> None:
    (root / "train.py").write_text(DEAF)
    terminal = begin()
    terminal.until(terminal.started)
    terminal.process.send_signal(signal.SIGINT)
    time.sleep(0.3)  # it is now waiting for the program, or has given up on it: both must do
    terminal.process.send_signal(signal.SIGINT)
    interrupted(terminal)
    assert left(temp) == []


def test_kept_copies_have_no_processes(begin: Callable[..., Terminal], temp: Path) -> None:
    terminal = begin("--keep")
    terminal.until(terminal.started)
    terminal.process.send_signal(signal.SIGINT)
    interrupted(terminal)
    (folder,) = left(temp)
    assert (temp / folder / "v0" / "project" / "model.py").read_text() == FAULTY


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="needs Linux to die with the parent"
)
def test_kill_without_a_chance_to_tidy_up(
    begin: Callable[..., Terminal], root: Path, temp: Path
) -> None:
    terminal = begin()
    terminal.until(terminal.started)
    programs = {
        process.pid
        for process in table().values()
        if f"{temp}/" in run_of(process.pid) and _runs(process.pid, "train")
    }
    assert programs
    terminal.process.kill()
    terminal.process.wait()
    while programs & table().keys():
        time.sleep(0.01)
    assert any(temp.glob("torchlint-*")), "nobody was there to remove it"
    (root / "train.py").write_text("raise SystemExit(7)\n")
    following = begin()
    assert following.ended() == 3, following.text
    assert left(temp) == []


def _runs(pid: int, word: str) -> bool:
    try:
        return word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_while_timing(begin: Callable[..., Terminal], root: Path, temp: Path) -> None:
    """All programs but one are frozen then."""
    (root / "train.py").write_text(TRAINS)
    terminal = begin("--budget", "600s", "--pairs", "10000")
    terminal.until(lambda: "round 2 of" in terminal.text)
    own = [process for process in table().values() if f"{temp}/" in run_of(process.pid)]
    assert sum(process.state == "T" for process in own) >= 2
    plans = [before[-1:] for before in terminal.text.split("plan: ")[1:-1]]
    assert set(plans) <= {"\n", "K"}, terminal.text
    terminal.process.send_signal(signal.SIGINT)
    interrupted(terminal)
    assert left(temp) == []


def test_reader_that_goes_away_is_no_error(root: Path, temp: Path) -> None:
    repository = str(Path(torchlint.__file__).parents[1])
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, repository, "verify", "--doctor"],
        cwd=root,
        env={**os.environ, "TMPDIR": str(temp)},
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_workspace_of_a_run_that_goes_on_is_left_alone(
    begin: Callable[..., Terminal], root: Path, temp: Path
) -> None:
    first = begin()
    first.until(first.started)
    (folder,) = temp.glob("torchlint-*")
    second = begin("--timeout", "1s")
    assert second.ended() == 3, second.text
    assert folder.exists()
    assert first.process.poll() is None
    first.process.send_signal(signal.SIGINT)
    interrupted(first)
    assert left(temp) == []
