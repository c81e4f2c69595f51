"""How a numbered fault is shown to be survived: torchlint runs as a process beside a good file,
five invariants hold.

I1 contained: it ends by itself with 0, 1, 2 or 130, without a traceback, a signal or a raw control
byte. I2 others untouched: the good file's finding is reported, and its fix applied.
I3 truthful: the right kind, file and line, the right exit code, nothing skipped silently.
I4 bytes: a file is as before, or before and exactly the announced edits.
I5 bounded: it ends within the CPU time that its files may take, however busy the machine is.

Each check says which invariant it speaks of; ``benchmarks/reliability.py`` counts them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forked import Origin
from tests.patience import PATIENCE

TORCHLINT = os.path.join(os.path.dirname(sys.executable), "torchlint")
CODES = (0, 1, 2, 130)
GOOD = """import torch


def f(model, loader, n):
    for x in loader:
        mask = torch.ones(n).cuda()
        model(x, mask).sum().backward()
"""
"""The control file: one finding with a safe fix."""
GOOD_CODE = "TL102"
GOOD_FIXED = 'torch.ones(n, device="cuda")'
_RAW = re.compile(
    rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xaa-\xae]|\xe2\x81[\xa6-\xa9]"
)


@dataclass(frozen=True, slots=True)
class Done:
    """A process that has ended.

    Args:
        code: exit code, or minus a signal's number.
        out: standard output.
        err: standard error.
        seconds: how long it took by the clock.
        cpu: the CPU seconds that it and its workers took; 0 where that was not measured.
        peak: the most KiB of memory that one of them had; 0 where that was not measured.
    """

    code: int
    out: bytes
    err: bytes
    seconds: float
    cpu: float = 0.0
    peak: int = 0

    @property
    def text(self) -> str:
        """Both streams, decoded leniently."""
        return (self.out + self.err).decode("utf-8", "backslashreplace")

    def findings(self) -> list[dict[str, Any]]:
        """Return what ``--output-format json`` printed."""
        found: list[dict[str, Any]] = json.loads(self.out)
        return found

    def of(self, filename: str) -> list[dict[str, Any]]:
        """Return the JSON entries whose file has this name."""
        return [
            entry for entry in self.findings() if os.path.basename(entry["filename"]) == filename
        ]


def _children() -> float:
    """Return the CPU seconds of all ended children of this process; 0 where the system does not
    tell."""
    if sys.platform == "win32":
        return 0.0
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@dataclass(slots=True)
class Fault:
    """One case under way; made by the fixture `fault`.

    Args:
        folder: an empty folder that the case may fill; the control file ``good.py`` is put there by
            `run`.
        seconds: the per-file timeout given to torchlint, which counts CPU time.
        origin: what runs are forks of; None for processes that start from nothing.
        broken: the invariants that did not hold, read by the score.
    """

    folder: Path
    origin: Origin | None = None
    seconds: int = 5
    broken: list[str] = field(default_factory=list)

    def write(self, name: str, data: bytes | str) -> Path:
        """Write a file of the case and return its path."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode("utf-8") if isinstance(data, str) else data)
        return path

    def holds(self, invariant: str, condition: object, words: object = "") -> None:
        """Assert that a condition of one invariant (``"I1"`` to ``"I5"``) holds."""
        if not condition:
            self.broken.append(invariant)
        assert condition, f"{invariant}: {words}"

    def run(
        self,
        *arguments: str | bytes,
        bad: int = 1,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        cwd: Path | None = None,
        command: Sequence[str] | None = None,
        control: bool = True,
    ) -> Done:
        """Run torchlint in the case's folder beside the control file, and check I1 and I5.

        Args:
            arguments: command and options, such as ``"check", "."``; ``--timeout`` is added to
                `check` and `fix`.
            bad: files that may use up their time, for I5.
            env: variables on top of the environment.
            stdin: standard input.
            cwd: where to run; the case's folder where None.
            command: what to start in place of a fork of `origin`, such as ``(TORCHLINT,)``.
            control: whether to write the good file first.
        """
        if control and not (self.folder / "good.py").exists():
            self.write("good.py", GOOD)
        words = list(arguments)
        if arguments and arguments[0] in ("check", "fix"):
            words.append(f"--timeout={self.seconds}")
        limit = 60 + bad * (self.seconds + 10)
        environment = {**os.environ, **(env or {})}
        start = time.monotonic()
        try:
            if command is None and self.origin is not None and self.origin.takes(environment):
                ended = self.origin.run(
                    words,
                    cwd=cwd or self.folder,
                    env=environment,
                    stdin=stdin,
                    timeout=limit + PATIENCE,
                )
                cpu, peak, code, out, err = ended.cpu, ended.peak, ended.code, ended.out, ended.err
            else:
                before, peak = _children(), 0
                done = subprocess.run(
                    [*(command or (TORCHLINT,)), *words],
                    cwd=cwd or self.folder,
                    env=environment,
                    input=stdin,
                    capture_output=True,
                    timeout=limit + PATIENCE,
                    check=False,
                )
                cpu, code, out, err = (
                    _children() - before,
                    done.returncode,
                    done.stdout,
                    done.stderr,
                )
        except subprocess.TimeoutExpired:
            self.holds("I5", False, f"still running after {limit + PATIENCE} s")
            raise
        result = Done(code, out, err, time.monotonic() - start, cpu, peak)
        self.contained(result)
        self.holds("I5", result.cpu < limit, f"it took {result.cpu:.1f} s of CPU time")
        return result

    def contained(self, done: Done) -> None:
        """Check I1 on a process that has ended."""
        self.holds("I1", done.code in CODES, f"exit code {done.code}\n{done.text[-2000:]}")
        self.holds("I1", b"Traceback" not in done.err + done.out, done.text[-3000:])
        raw = _RAW.search(done.out + done.err)
        self.holds("I1", raw is None, f"raw control byte {raw and raw[0]!r}")

    def others(self, done: Done) -> None:
        """Check I2: the control file's finding is in the report (any format that names file and
        code)."""
        line = [row for row in done.text.splitlines() if "good.py" in row]
        self.holds("I2", line and GOOD_CODE in done.text, done.text[-3000:])

    def others_fixed(self) -> None:
        """Check I2 after ``fix --apply``: the control file's fix was written."""
        self.holds(
            "I2",
            GOOD_FIXED in (self.folder / "good.py").read_text("utf-8"),
            "the good file was not fixed",
        )
