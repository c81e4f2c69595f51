"""One run of the program: in its copy, under the recorder, with what became of it."""

from __future__ import annotations

import json
import math
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.api import ledger_rows
from torchlint.base.errors import TorchlintError
from torchlint.base.records import frozen
from torchlint.program.command import Command, free_port
from torchlint.program.machine.environment import RUN_VARIABLE, child_environment, python_path
from torchlint.program.machine.processes import Child, ending
from torchlint.verify.model import Level, Status
from torchlint.verify.script.pristine import Pristine
from torchlint.verify.script.warm import Warm
from torchlint.verify.session.promise import Comparison, comparison
from torchlint.verify.session.site import Site
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Worker

STOPPED = "step budget"
"""The reason in a record of a program that was stopped after the steps that were asked for."""
NOTHING = (
    "no loss, no weight and no output of a model in evaluation mode was seen, so no "
    "results were compared"
)
"""Of a program that does not train: its random streams alone are no result."""
_LINGER = 20.0
"""Seconds that a program may take to end after its record is there."""
_POLL = 0.05
_STOP_SECONDS = 0.3
"""Seconds that a run for which there is no time any more gets to end."""
_COMPARE_SECONDS = 300.0
_LEAST_COMPARE_SECONDS = 1.0
"""What the comparison of runs gets at the end of the budget, as they would be lost without it."""
_MEMORY_WORDS = ("out of memory", "memoryerror", "can't allocate memory", "cannot allocate memory")


@frozen
class RunRecord:
    """What became of one run.

    Args:
        status: `Status.OK` where it did its steps or ended by itself without error.
        steps: optimizer steps (or what stands for them) that were seen.
        record: what the recorder wrote; empty where it wrote nothing.
        code: the exit code; None when it was stopped.
        tail: its last output.
        folder: where its record, results and marks lie.
    """

    status: Status
    steps: int
    record: Mapping[str, Any]
    code: int | None
    tail: str
    folder: Path

    def writes(self) -> tuple[str, ...]:
        """Return the paths outside its copy that the program, or one it started, wanted to write;
        see inside/writes."""
        try:
            text = os.fsdecode((self.folder / "writes").read_bytes())
        except OSError:
            return ()
        return tuple(dict.fromkeys(filter(None, text.split("\n"))))

    def marks(self) -> frozenset[str]:
        """Return the names of the marks that ran."""
        try:
            return frozenset(os.listdir(self.folder / "marks"))
        except OSError:
            return frozenset()


@frozen
class Home:
    """Where a variant lives: its copy of the project, and a folder for its records, caches and
    temporary files.

    `pristine` puts the copy back before each run.
    """

    name: str
    copy: Path
    folder: Path
    pristine: Pristine | None = None


Run = tuple[Home, str, Mapping[str, Any]]
"""A copy, a phase and its settings."""


@dataclass(slots=True)
class _Going:
    """A run that goes on: until when, and whether it has left its record."""

    child: Child
    out: Path
    deadline: float
    left: bool = False


class SpentError(Exception):
    """No time is left for what comes next; what is known by then is reported."""


class Runner:
    """Starts runs of one command in the copies of a project, and compares what they compute; use it
    with ``with``.

    Args:
        site: where.
        command: the program.
        original: the user's project.
        cwd: where the user stands, in the project or at its root.
        device: "cpu" or "cuda": what the program will find.
        end: when all runs must be over (`time.monotonic`).
        trees: the versions of the project that are run, where it is not the user's own.
    """

    def __init__(
        self,
        site: Site,
        command: Command,
        original: Path,
        cwd: Path,
        device: str,
        end: float = math.inf,
        trees: Sequence[Path] = (),
    ) -> None:
        self.site = site
        self.options = site.options
        self.command = command
        self.original = original
        self.cwd = cwd
        self.device = device
        self.end = end
        self.interrupted = False
        self.launch = 0
        """Which launch runs belong to; see `warm`."""
        self._trees = trees or (original,)
        self.warm = Warm(site, command, original, cwd, device, self._trees)
        self._number = 0

    def __enter__(self) -> Runner:
        self.warm.start([0])
        return self

    def __exit__(self, *raised: object) -> None:
        self.warm.close()

    @property
    def left(self) -> float:
        """Seconds until the end."""
        return self.end - time.monotonic()

    def be(self, device: str) -> None:
        """Take note of what the program will find, where something else was expected."""
        if device != self.device:
            self.device = device
            self.warm.close()
            self.warm = Warm(self.site, self.command, self.original, self.cwd, device, self._trees)

    def start(self, home: Home, phase: str, **more: Any) -> tuple[Child, Path]:
        """Start one run, and return it with the folder that its record will lie in.

        Raises:
            SpentError: there was no time to begin.
        """
        self._number += 1
        if home.pristine is not None:
            home.pristine.restore()
        own = [home.copy, home.folder]
        if more.get("writes"):
            more["writes"] = [os.path.realpath(path) for path in (*own, *self.options.allow_write)]
        out = home.folder / f"{self._number}-{phase}"
        out.mkdir(parents=True)
        settings = {
            "phase": phase,
            "out": str(out),
            "root": str(home.copy),
            "operations": ledger_rows(),
            "original": str(self.original),
            "device": self.device,
            "seed": self.options.seed,
            "threads": self.options.threads if self.device == "cpu" else None,
            "warmup": self.options.warmup,
            **more,
        }
        path = out / "settings.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        child = self._begin(
            self.command.in_copy(self.original, home.copy, free_port()),
            cwd=home.copy / self.cwd.relative_to(self.original),
            env=self._environment(home, path, phase, bool(more.get("ledger"))),
            log=out / "output.txt",
            own=own,
        )
        return child, out

    def _begin(self, arguments: Sequence[str], **how: Any) -> Child:
        """Fork a program where that is safe, else start it cold."""
        try:
            zygote = self.warm.zygote(self.launch, self.end)
        except TimeoutError:
            raise SpentError from None
        if zygote is not None:
            try:
                return zygote.program(arguments, **how)
            except ProgramError as error:
                self.warm.be_cold(str(error))
        return self.site.start(arguments, **how)

    def _environment(self, home: Home, settings: Path, phase: str, ledger: bool) -> dict[str, str]:
        own = self.options.env
        path = python_path({**os.environ, **own}, self.site.inject, self.original, home.copy)
        extra = {
            "TORCHLINT_RECORDER": "verify.inside.recorder",
            "TORCHLINT_RECORD": str(settings),
        }
        if "MASTER_PORT" in os.environ:
            extra["MASTER_PORT"] = str(free_port())
        if phase == "check":
            extra["CUBLAS_WORKSPACE_CONFIG"] = (
                ":4096:8"  # cuBLAS' condition for reproducible results
            )
        if phase == "count" or ledger:
            extra["TORCHDYNAMO_DISABLE"] = "1"
        threads = self.options.threads if self.device == "cpu" else None
        # Caches and temporary files are each variant's own; by the name of the verification its
        # processes are found.
        own_places = child_environment(
            os.environ, home.folder, threads=threads, extra={**extra, **own, "PYTHONPATH": path}
        )
        return {**own_places, RUN_VARIABLE: str(self.site.folder)}

    def finished(self, child: Child, out: Path, timed_out: bool = False) -> RunRecord:
        """Stop what is left of a run, and read what it left."""
        code = child.poll()
        child.stop(2.0)
        record = record_in(out)
        tail = child.tail(20)
        status = Status.OK
        if timed_out:
            status = Status.TIMEOUT
        elif record.get("reason") != STOPPED and code != 0:
            memory = code == -9 or any(word in tail.lower() for word in _MEMORY_WORDS)
            status = Status.OUT_OF_MEMORY if memory else Status.BROKEN
        return RunRecord(status, int(record.get("steps", 0)), record, code, tail, out)

    def compare(
        self, first: RunRecord, others: Sequence[tuple[RunRecord, bool]]
    ) -> list[Comparison]:
        """Compare the results of a run with those of others; of each: whether it may draw other
        random numbers.

        Raises:
            TorchlintError: the comparing process fails: a bug of torchlint.
            SpentError: there was no time for it.
        """
        left = max(_LEAST_COMPARE_SECONDS, self.left)
        try:
            zygote = self.warm.comparing(time.monotonic() + left)
            with zygote.fork() as worker:
                worker.timeout = min(_COMPARE_SECONDS, left)
                return [_compared(worker, first, other, redrawn) for other, redrawn in others]
        except TimeoutError:
            raise SpentError from None
        except ProgramError as error:
            if error.kind == "timeout" and left < _COMPARE_SECONDS:
                raise SpentError from None
            raise TorchlintError(
                f"the results could not be compared (please report this): {error}"
            ) from None

    def failure(self, record: RunRecord) -> str:
        """Say how a run failed, and after how many steps."""
        after = f" after {record.steps} step{'s' * (record.steps != 1)}"
        if record.status is Status.TIMEOUT:
            return f"timed out after {self.options.timeout:g} s{after} (--timeout)"
        if record.status is Status.OUT_OF_MEMORY and record.code == -9:
            return (
                f"was killed{after}, most often by the system for want of memory: lower the "
                "batch size"
            )
        if record.status is Status.OUT_OF_MEMORY:
            return f"ran out of memory{after}: lower the batch size, or close other programs"
        last = next(
            (f": {line.strip()}" for line in reversed(record.tail.splitlines()) if line.strip()), ""
        )
        return f"{ending(record.code)}{after}{last}"

    def all(
        self, wanted: Iterable[Run], together: int, tick: Callable[[str], None]
    ) -> list[RunRecord | None]:
        """Run several programs to their end, a few at a time, and return their records in order.

        Two in one copy are in each other's way, and run one after the other. One that ran out of
        memory beside others runs once more, alone. Those that have not ended when the time is over
        or an interrupt comes are stopped, and None.

        Raises:
            KeyboardInterrupt: it came before any had ended, or again.
        """
        runs = list(wanted)
        found: dict[int, RunRecord] = {}
        self._run_all(runs, list(range(len(runs))), together, tick, found)
        for number, record in list(found.items()):
            if record.status is Status.OUT_OF_MEMORY and len(runs) > 1 and together > 1:
                self._run_all(runs, [number], 1, tick, found)
        return [found.get(number) for number in range(len(runs))]

    def _run_all(
        self,
        runs: Sequence[Run],
        waiting: list[int],
        together: int,
        tick: Callable[[str], None],
        found: dict[int, RunRecord],
    ) -> None:
        going: dict[int, _Going] = {}
        try:
            while (waiting or going) and time.monotonic() < self.end:
                busy = {runs[number][0].name for number in going}
                free = [number for number in waiting if runs[number][0].name not in busy]
                if free and len(going) < together:
                    home, phase, more = runs[free[0]]
                    waiting.remove(free[0])
                    tick(home.name)
                    try:
                        child, out = self.start(home, phase, **more)
                    except SpentError:
                        break
                    going[free[0]] = _Going(child, out, time.monotonic() + self.options.timeout)
                    continue
                for number, one in list(going.items()):
                    ended = self._look(one)
                    if ended is not None:
                        found[number] = ended
                        del going[number]
                time.sleep(_POLL)
        except KeyboardInterrupt:
            if not found:
                raise
            self.interrupted, self.end = True, 0.0
        finally:
            for one in going.values():
                one.child.stop(_STOP_SECONDS)

    def _look(self, one: _Going) -> RunRecord | None:
        """Return a run's record if it is over; one that has left its record has a while to end by
        itself."""
        now = time.monotonic()
        if one.child.poll() is None and now < one.deadline:
            if not one.left and record_in(one.out).get("reason") == STOPPED:
                one.left, one.deadline = True, min(one.deadline, now + _LINGER)
            return None
        return self.finished(
            one.child, one.out, timed_out=one.child.poll() is None and not one.left
        )


def record_in(out: Path) -> dict[str, Any]:
    """Return the record of the process with the most steps: of torchrun's, that is a rank and not
    the launcher.

    Of several that trained side by side it is the one with the least process number, so most likely
    the first: two versions of the program are to be compared by the same one of them.
    """
    best: dict[str, Any] = {}
    for path in sorted(
        out.glob("record-*.json"), key=lambda path: int(path.stem.rpartition("-")[2])
    ):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # it is being written, or the disk is full
        if not best or record.get("steps", 0) > best.get("steps", 0):
            best = record
    disabled = "".join(path.read_text(encoding="utf-8") for path in sorted(out.glob("*.disabled")))
    if disabled:
        best.setdefault("trouble", []).append(disabled.strip())
    return best


def _compared(worker: Worker, first: RunRecord, other: RunRecord, redrawn: bool) -> Comparison:
    files = [first.record["results"], other.record.get("results") or ""]
    return compared_runs(worker.ask(compare=files, how={"redrawn": redrawn}), first, other)


def compared_runs(answer: Mapping[str, Any], one: RunRecord, other: RunRecord) -> Comparison:
    """Return what the comparing process said of two runs."""
    if Level(answer["level"]) is Level.BITWISE and one.record.get("seen") == 0:
        answer = {"level": Level.UNKNOWN.value, "notes": [NOTHING]}
    return comparison(answer, (one.steps, other.steps))


def in_words(commands: Sequence[str]) -> str:
    """Return a command as one would type it."""
    return shlex.join(commands)
