"""A project, a folder for workspaces, and ``torchlint verify`` on them; what each run leaves behind
is looked at."""

from __future__ import annotations

import functools
import hashlib
import io
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from torchlint.catalog.rules import load_catalog, load_rules
from torchlint.cli.main import run
from torchlint.program.machine.doctor import Doctor
from torchlint.program.machine.host import look
from torchlint.program.machine.process_tree import run_of, table
from torchlint.verify.script.pacing import Pace
from torchlint.verify.session.times import Times
from torchlint.verify.session.timing import Block
from torchlint.verify.variants import ORIGINAL, Variant

FAST = (
    "--pairs",
    "8",
    "--launches",
    "1",
    "--budget",
    "100s",
    "--check-steps",
    "5",
    "--warmup",
    "2",
    "--color",
    "never",
)
FAULTY = """\
import torch


def make(like):
    return torch.zeros(2, 2).to(like.device)
"""
"""A module with one safe fix, TL102 in line 5."""


def git(folder: Path, *words: str) -> str:
    """Run git, and return what it says."""
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


class RecordedTimes:
    """Stands in the place of the time pass: gives each version pairs of a ratio, by its name."""

    ratios: Mapping[str, float] = {}
    shake = 0.002

    def __init__(self, *given: object) -> None:
        self.found = Times(block_steps=10)
        self.started = 0.0
        self.launches = 0

    def launch(self, variants: Sequence[Variant], rounds: int, seconds: float, pace: Pace) -> None:
        self.launches += 1
        for variant in variants:
            if variant.name != ORIGINAL:
                ratio = self.ratios.get(variant.name.removeprefix("fix:"), 1.0)
                # Spread evenly, so that the interval is as wide as it is by no chance.
                steps = [(2 * number + 1) / rounds - 1 for number in range(rounds)]
                shaken = [1 + self.shake * step for step in steps]
                pairs = [(Block(1e6, 1e6), Block(1e6 * each / ratio, 1e6)) for each in shaken]
                self.found.launches.setdefault(variant.name, []).append(pairs)


def doctor(python: str, asked: object = None) -> Doctor:
    """Return what a look at the interpreter finds, without waiting for its torch."""
    host = look(Path(tempfile.gettempdir()))
    return Doctor(python, host, executable=python, python_version="3.11.0", torch="2.13.0")


def fingerprint(root: Path) -> dict[str, str]:
    """Return kind, permissions, and contents or target of everything below a folder, and when it
    was changed."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            state = path.lstat()
            content = ""
            if path.is_symlink():
                content = os.readlink(path)
            elif path.is_file() and os.access(path, os.R_OK):
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            times = "" if path.is_dir() else str(state.st_mtime_ns)
            found[str(path)] = f"{state.st_mode:o} {times} {content}"
    return found


def left(temp: Path) -> list[str]:
    """Return the workspaces in a folder, and the processes that belong to one of them."""
    processes = (f"{process.pid}: {run_of(process.pid)}" for process in table().values())
    folders = [path.name for path in temp.iterdir() if path.name.startswith("torchlint-")]
    return folders + [text for text in processes if f"{temp}/" in text]


@dataclass
class Ran:
    """What a run came to."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The one line that says what is wrong."""
        lines = [line for line in self.err.splitlines() if line.startswith("torchlint: error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("torchlint: error: ")


@dataclass
class Lab:
    """A project that is verified; ``temp`` is where the workspaces are made."""

    root: Path
    temp: Path
    keeps: list[str] = field(default_factory=list)

    def write(self, **files: str) -> None:
        """Write modules: ``train="..."`` is train.py."""
        for name, text in files.items():
            path = self.root / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def verify(self, *arguments: str, settings: tuple[str, ...] = FAST) -> Ran:
        """Run ``torchlint verify``, and see that the project is as before and nothing is left."""
        before = fingerprint(self.root)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(["verify", *settings, *arguments])
        said = err.getvalue()
        own = [line for line in said.splitlines() if not line.startswith("  | ")]
        assert "Traceback" not in "".join(own), said
        assert fingerprint(self.root) == before
        assert [name[: len("torchlint-")] for name in left(self.temp)] == self.keeps
        return Ran(code, out.getvalue(), said)


@functools.cache
def warm() -> None:
    """Import what the workers of an analysis need, once: they are forks of this process, and have
    it then."""
    catalog = load_catalog()
    load_rules(catalog.codes, catalog)


@contextmanager
def laboratory(
    root: Path, monkeypatch: pytest.MonkeyPatch, probe: Callable[..., Doctor] = doctor
) -> Iterator[Lab]:
    """Give a `Lab` whose project holds one fix, in model.py; the current folder is the project."""
    warm()
    with tempfile.TemporaryDirectory(
        prefix="lab-", dir="/tmp"
    ) as name:  # short, as sockets are made there
        root.mkdir()
        (root / "model.py").write_text(FAULTY)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", probe)
        monkeypatch.chdir(root)
        yield Lab(root, Path(name))
