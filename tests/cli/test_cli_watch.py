"""``check --watch``: another run after every change that matters, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE

Cli = Any
Source = Callable[..., str]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals"),
]
WAITS = "torchlint: watching for changes (Ctrl-C ends)"


class Watching:
    """A run under way, and what it printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], stream: int) -> None:
        self.process = process
        self.stream = stream
        self.text = ""
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        while True:
            try:
                data = os.read(self.stream, 4096)
            except OSError:  # a terminal whose other end is gone
                return
            if not data:
                return
            self.text += data.decode("utf-8", "replace")

    def until(self, words: str, count: int = 1) -> None:
        """Wait until `words` were printed so often."""
        limit = time.monotonic() + PATIENCE
        while self.text.count(words) < count:
            assert self.process.poll() is None, self.text
            assert time.monotonic() < limit, self.text
            time.sleep(0.02)

    def interrupt(self) -> int:
        self.process.send_signal(signal.SIGINT)
        code = self.process.wait(PATIENCE)
        self.thread.join(PATIENCE)
        return code


@contextmanager
def watching(cli: Cli, *arguments: str, terminal: bool = False) -> Iterator[Watching]:
    main, other = os.openpty() if terminal else os.pipe()
    process = subprocess.Popen(
        cli.command("check", "--watch", "--output-format", "concise", *arguments),
        cwd=cli.cwd,
        env=cli.variables(),
        stdin=subprocess.DEVNULL,
        stdout=other,
        stderr=other,
    )
    os.close(other)
    try:
        yield Watching(process, main)
    finally:
        process.kill()
        process.wait()
        os.close(main)


@pytest.fixture(params=["watchfiles", "looks"])
def project(cli: Cli, source: Source, request: pytest.FixtureRequest, tmp_path: Path) -> Cli:
    """Return a project with one finding, watched with watchfiles and, where that is not installed,
    by looks."""
    cli.write("a.py", source("slow"))
    if request.param == "looks":
        (tmp_path / "none").mkdir()
        (tmp_path / "none" / "watchfiles.py").write_text("raise ImportError\n")
        cli.environment["PYTHONPATH"] = f"{tmp_path / 'none'}{os.pathsep}{cli.package}"
    else:
        pytest.importorskip("watchfiles")
    return cli


def test_each_change_is_followed_by_a_run(project: Cli, source: Source) -> None:
    with watching(project) as run:
        run.until(WAITS)
        assert run.text.count("a.py:2:1: TL101") == 1
        project.write("a.py", source("fine", "slow"))
        run.until("a.py:3:1: TL101")
        run.until(WAITS, 2)
        project.write("new.py", "x = (\n")
        run.until("new.py:1:5: invalid-syntax")
        run.until(WAITS, 3)
        (project.cwd / "a.py").unlink()
        (project.cwd / "new.py").unlink()
        run.until("torchlint: no Python files found")
        run.until("Ctrl-C", run.text.count("No files were checked.") + 3)
        assert run.interrupt() == 130
    assert run.text.endswith("torchlint: interrupted\n")
    assert "\x1b" not in run.text


def test_the_first_run_is_one_run_although_it_makes_the_cache(project: Cli) -> None:
    with watching(project, ".") as run:
        run.until(WAITS)
        time.sleep(2.5)  # a run that is not to be cannot be waited for
        assert (project.cwd / ".torchlint_cache").is_dir()
        assert run.text.count("Found 1 finding") == run.text.count(WAITS) == 1
        assert run.interrupt() == 130


def test_a_broken_configuration_is_said_and_waited_out(project: Cli) -> None:
    with watching(project) as run:
        run.until(WAITS)
        project.write("torchlint.toml", "jobs = [\n")
        run.until("torchlint.toml:1: not valid TOML")
        run.until(WAITS, 2)
        time.sleep(2.5)  # words that are not to be cannot be waited for
        assert run.text.count("not valid TOML") == 1
        project.write("torchlint.toml", 'ignore = ["TL101"]\n')
        run.until("All checks passed.")
        assert run.interrupt() == 130


def test_what_is_excluded_wakes_nobody(project: Cli, source: Source) -> None:
    with watching(project, "--config", 'extend-exclude = ["old"]') as run:
        run.until(WAITS)
        project.write("old/b.py", source("odd"))
        project.write("notes.txt", "x")
        project.write(".git/x", "x")
        time.sleep(2.5)  # a run that is not to be cannot be waited for
        project.write("a.py", source("fine"))
        run.until(WAITS, 2)
        assert run.text.count(WAITS) == 2
        assert run.interrupt() == 130


def test_a_file_that_is_named_may_go_and_come(project: Cli, source: Source) -> None:
    with watching(project, "a.py") as run:
        run.until(WAITS)
        (project.cwd / "a.py").unlink()
        run.until("a.py:1:1: unreadable")
        run.until(WAITS, 2)
        project.write("a.py", source("odd"))
        run.until("a.py:2:1: TL102")
        assert run.interrupt() == 130


def test_a_terminal_is_cleared_before_the_next_run(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    with watching(cli, terminal=True) as run:
        run.until(WAITS)
        assert "\x1b[2J" not in run.text
        cli.write("a.py", source("odd"))
        run.until("TL102")
        assert run.text.index("\x1b[2J") < run.text.index("TL102")
        assert run.interrupt() == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--watch", "-"], "--watch cannot be used with - (standard input)"),
        (["--watch", "--show-files"], "--watch and --show-files cannot be used together"),
        (["--watch", "--silent"], "--silent and --watch cannot be used together"),
        (["--watch", "--config", "nonsense = 1"], "unknown key 'nonsense'"),
        (["--watch", "--since", "HEAD"], "--since HEAD: "),
    ],
)
def test_a_first_run_that_cannot_start_ends_it(cli: Cli, arguments: list[str], words: str) -> None:
    assert words in cli("check", *arguments, code=2).stderr
