"""The progress bar on a real terminal: it counts files, and leaves nothing behind."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.cli.conftest import Cli
from tests.patience import PATIENCE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="it has no pseudo-terminals"),
]
EAGER = (
    "import sys; from torchlint.cli import main, progress; "
    "progress._PATIENCE = progress._PAUSE = 0; main.entry()"
)
"""A torchlint that finds every run long."""
BAR = re.compile(r"\[#*-*\] (\d+)/(\d+) files")


class Terminal:
    """Runs a command on a pseudo-terminal of a width; `text` is all that it printed there."""

    def __init__(
        self,
        cli: Cli,
        command: list[str],
        environment: dict[str, str] | None = None,
        columns: int = 80,
    ) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        variables = {**cli.variables(), "TERM": "xterm", "CI": "", **(environment or {})}
        self.process = subprocess.Popen(
            command, cwd=cli.cwd, env=variables, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.text = ""

    def read(self, wanted: str = "") -> str:
        """Read until something stands in the text, else until the command has ended."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and not (wanted and wanted in self.text):
            if not select.select([self.master], [], [], 1)[0]:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:  # Linux: nobody holds the other end any more
                data = b""
            if not data:
                self.process.wait(PATIENCE)
                break
            self.text += data.decode()
        return self.text

    @property
    def screen(self) -> str:
        """What a person sees in the end."""
        lines = []
        for line in self.text.split("\n"):
            shown = ""
            for part in line.rstrip("\r").split("\r"):
                part = part.replace("\x1b[K", "\0")
                at, cleared, rest = part.partition("\0")
                shown = rest if cleared else at + shown[len(at) :]
            lines.append(shown)
        return "\n".join(lines)


def programs(cli: Cli, count: int) -> None:
    for number in range(count):
        cli.write(f"m{number}.py", "import torch\ntorch.fine()\n")


def eager(*arguments: str) -> list[str]:
    return [sys.executable, "-c", EAGER, *arguments]


@pytest.mark.parametrize(
    "command", [("check", "--no-cache"), ("check", "--no-cache", "--jobs", "2"), ("fix",)]
)
def test_files_are_counted_and_the_line_is_wiped(cli: Cli, command: tuple[str, ...]) -> None:
    programs(cli, 5)
    cli.write("large.py", "import torch\n" + "x = 1  # a line among many\n" * 9000)
    terminal = Terminal(cli, eager(*command))
    counts = [(int(done), int(total)) for done, total in BAR.findall(terminal.read())]
    assert counts[-1] == (6, 6)
    assert counts == sorted(counts)
    assert "files" not in terminal.screen.partition("All checks")[0]
    assert "\x1b[K" not in terminal.screen


def test_a_bar_is_never_broken_over_two_lines(cli: Cli) -> None:
    programs(cli, 3)
    terminal = Terminal(cli, eager("check", "--no-cache"), columns=20)
    shown = [part for part in terminal.read().split("\r\x1b[K") if part.startswith("[#")]
    assert shown
    assert max(map(len, shown)) < 20


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_leaves_nothing_behind(cli: Cli, jobs: str) -> None:
    """A second is over while nothing is done: that is said, too."""
    programs(cli, 2)
    cli.write("a.py", "import torch\ntorch.hang()\n")
    if jobs == "2":
        cli.write("large.py", "import torch\n" + "x = 1  # a line among many\n" * 9000)
    terminal = Terminal(cli, cli.command("check", "--no-cache", "--jobs", jobs))
    assert BAR.search(terminal.read("files")), terminal.text
    terminal.process.send_signal(signal.SIGINT)
    terminal.read()
    assert terminal.process.returncode == 130
    assert terminal.screen.strip() == "torchlint: interrupted"


def test_what_is_done_behind_a_slow_file_is_counted(cli: Cli) -> None:
    cli.write("a.py", "import torch\ntorch.hang()\n")
    cli.write("large.py", "import torch\n" + "x = 1  # a line among many\n" * 9000)
    programs(cli, 3)
    terminal = Terminal(cli, cli.command("check", "--no-cache", "--jobs", "2"))
    assert "4/5 files" in terminal.read("4/5 files")
    terminal.process.send_signal(signal.SIGINT)
    terminal.read()


@pytest.mark.parametrize(
    ("arguments", "environment"), [(("--quiet",), {}), ((), {"CI": "true"}), ((), {"TERM": "dumb"})]
)
def test_none_where_nobody_waits(
    cli: Cli, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\n")
    terminal = Terminal(cli, eager("check", "--no-cache", *arguments), environment)
    assert "TL101" in terminal.read()
    assert "files" not in terminal.text


def test_none_in_a_pipe(cli: Cli) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\n")
    done = subprocess.run(
        eager("check", "--no-cache"),
        cwd=cli.cwd,
        env=cli.variables(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr == ""
