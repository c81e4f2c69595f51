"""Whole processes measured: CPU, wall, peak memory, exit code and output; and targets beside what
was measured."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
_MEASURE = """
import json, resource, subprocess, sys, time
start = time.monotonic()
with open(sys.argv[1], "wb") as out, open(sys.argv[2], "wb") as err:
    done = subprocess.run(sys.argv[3:], stdin=subprocess.DEVNULL, stdout=out, stderr=err)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, done.returncode]))
"""  # noqa: E501


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command.

    Args:
        wall: seconds.
        cpu: seconds of the process and all its children.
        peak_mib: of the largest single process.
        exit: the exit code.
        lines: of standard output.
        digest: of standard output.
    """

    wall: float
    cpu: float
    peak_mib: float
    exit: int
    lines: int
    digest: str


@dataclass(frozen=True, slots=True)
class Row:
    """A target and what was measured; met where the median is.

    Args:
        part: the part of the benchmark.
        what: what is measured.
        sign: ``"<="`` or ``">="``.
        limit: the target.
        values: one for each round; of a pair, the ratio within the round.
        detail: what stands behind the values, for people.
    """

    part: str
    what: str
    sign: str
    limit: float
    values: tuple[float, ...]
    detail: str = ""

    @property
    def met(self) -> bool:
        middle = statistics.median(self.values)
        return middle <= self.limit if self.sign == "<=" else middle >= self.limit

    def __str__(self) -> str:
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        figures = f"{low:.3g}/{middle:.3g}/{high:.3g}"
        verdict = "met" if self.met else "MISSED"
        head = (
            f"{self.part:10} {self.what:52} {self.sign} {self.limit:<5g} {figures:>20}  "
            f"n={len(self.values)}  {verdict}"
        )
        return f"{head}  {self.detail}".rstrip()

    def as_json(self) -> dict[str, Any]:
        middle = statistics.median(self.values)
        return {**asdict(self), "median": middle, "n": len(self.values), "met": self.met}


class Bench:
    """Runs commands as a user's shell would, with compiled modules as after an installation.

    Args:
        folder: an empty one; for outputs, compiled modules and caches.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = {
            key: value for key, value in os.environ.items() if key not in {"CI", "FORCE_COLOR"}
        }
        self.environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self.environment["PYTHONPYCACHEPREFIX"] = str(folder / "compiled")
        self.digests: dict[tuple[str, ...], str] = {}

    def run(self, command: Sequence[str | Path], exits: Sequence[int] = (0,)) -> Run:
        """Run a command below a fresh parent, so that the usage of its children is its own.

        Raises:
            SystemExit: another exit code than `exits`, or another output than the same command gave
                before.
        """
        words = tuple(map(str, command))
        out, err = self.folder / "out", self.folder / "err"
        measuring = [sys.executable, "-I", "-S", "-c", _MEASURE, str(out), str(err), *words]
        done = subprocess.run(
            measuring, capture_output=True, text=True, check=True, env=self.environment
        )
        wall, cpu, peak, code = json.loads(done.stdout)
        data = out.read_bytes()
        run = Run(wall, cpu, peak, code, data.count(b"\n"), hashlib.sha256(data).hexdigest()[:16])
        shown = " ".join(words)[:200]
        if code not in exits:
            raise SystemExit(f"exit code {code} of {shown}\n{_end(out)}\n{_end(err)}")
        if self.digests.setdefault(words, run.digest) != run.digest:
            raise SystemExit(f"not the output of the run before: {shown}")
        return run

    def output(self, command: Sequence[str | Path], exits: Sequence[int] = (0,)) -> str:
        """Run a command and return what it prints; errors as for `run`."""
        self.run(command, exits)
        return (self.folder / "out").read_text(errors="surrogateescape")

    def errors(self) -> str:
        """Return what the last command wrote to its standard error."""
        return (self.folder / "err").read_text(errors="replace")


def environment(versions: dict[str, str]) -> dict[str, Any]:
    """Return date, machine, load and versions, for the results that are kept."""
    model = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            (line.partition(":")[2].strip() for line in lines if line.startswith("model name")),
            model,
        )
    return {
        "date": datetime.datetime.now(tz=datetime.timezone.utc).isoformat(timespec="minutes"),
        "machine": f"{model}, {os.cpu_count()} cores, {platform.system()}",
        "load": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "versions": versions,
    }


def keep(name: str, value: dict[str, Any]) -> None:
    """Write ``benchmarks/results/NAME.json``."""
    (RESULTS / f"{name}.json").write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _end(path: Path) -> str:
    return path.read_text(errors="replace")[-1000:].strip()
