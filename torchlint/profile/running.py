"""A run of the user's program in a copy of its project, with marks in its statements and a recorder
that times its steps."""

from __future__ import annotations

import json
import os
import shlex
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Any

from torchlint.base.records import frozen
from torchlint.program.command import Command, free_port
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.beside import words_of_missed
from torchlint.program.machine.doctor import Doctor
from torchlint.program.machine.environment import RUN_VARIABLE, child_environment, python_path
from torchlint.program.machine.processes import Child, ending, start
from torchlint.program.machine.workspace import Workspace
from torchlint.report.kit.words import pluralise
from torchlint.trace.typical import odd

PROFILING = "program.inside.profiling"
COUNTING = "program.inside.counting"
"""Recorders of a run."""
_LAUNCH = "torchlint_inside.program.inside.launch"
_MEASURED = "step budget"
"""The reason in the record of a process that was ended after the steps that were asked for."""
_LINGER = 20.0
"""Seconds that a program may take to end after all its records are there."""
_POLL = 0.05
NO_STEP = (
    "the program ended without a step: no optimizer stepped, and there were too few calls of "
    "backward or batches of a DataLoader to take them for steps"
)


@frozen
class Wanted:
    """A program, and how it is profiled; the command line's options, checked.

    Args:
        root: the project, which is copied.
        cwd: where the program is run, in the project.
        command: the program.
        doctor: the interpreter and the machine.
        python: the interpreter that has torch.
        device: "cuda" or "cpu": what the program will find.
        steps: how many are profiled.
        warmup: how many come before; the later half of them is timed without the profiler.
        memory: whether shapes and allocations are recorded.
        shapes: whether shapes are, with or without allocations.
        predict: whether what a GPU would wait for and copy is predicted, in a run of its own.
        timeout: seconds for the program.
        isolation: "auto" (copy, and Landlock where the kernel has it) or "copy".
        allow_write: folders outside the copy that the program may write to.
        env: variables passed to the program as they are, credentials too.
    """

    root: Path
    cwd: Path
    command: Command
    doctor: Doctor
    python: str
    device: str
    steps: int = 5
    warmup: int = 10
    memory: bool = False
    shapes: bool = False
    predict: bool = False
    timeout: float = 600.0
    isolation: str = "auto"
    allow_write: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@frozen
class Pace:
    """The steps of a program without the profiler; times in nanoseconds.

    Args:
        each: of the single steps, as the host saw them.
        loading: how long each of them waited for a DataLoader.
        total: of all together, with the work of the device.
        batches: that worker processes made and these steps took; waited: how long they took to.
        threads: that its operators use, cores: that it may use; 0 where that is not known.
    """

    each: tuple[int, ...]
    loading: tuple[int, ...]
    total: int
    batches: int = 0
    waited: int = 0
    threads: int = 0
    cores: int = 0

    @property
    def step(self) -> float:
        """Return the mean time of a step: of all together, as the host does not wait for the work
        of a device."""
        return self.total / len(self.each)

    @property
    def median(self) -> float:
        """Return the median step."""
        return statistics.median(self.each)


class Run:
    """One run of a program, in a copy of its project.

    Args:
        wanted: what program, and how.
        workspace: where the copy is made, and the program may write.
        recorder: what is loaded into the program; `PROFILING` puts marks in its statements.
    """

    def __init__(self, wanted: Wanted, workspace: Workspace, recorder: str = PROFILING) -> None:
        self.root = root = wanted.root
        self.command = wanted.command
        self.wanted = wanted
        self.recorder = recorder
        self.folder = workspace.path
        self.notes = workspace.notes
        self.out = workspace.path / "out"
        self.out.mkdir()
        self.sandboxed = wanted.isolation == "auto" and wanted.doctor.host.landlock > 0
        beside = root if self.sandboxed else None
        self.copy = workspace.copy(root, f"v/{root.name or 'project'}", beside=beside)
        self.inject = workspace.inject()
        self.tail = ""
        """The last lines of the program's output."""
        self._missed = ""

    def records(
        self, settings: Mapping[str, Any], show: Callable[[str], None]
    ) -> list[dict[str, Any]]:
        """Run it to its end; return the records of all processes that did steps, by rank.

        Args:
            settings: for the recorder, beside those that do not depend on what is recorded.
            show: takes a line of progress.

        Raises:
            ProgramFailedError: the program fails, or takes too long.
        """
        words = self.command.in_copy(self.root, self.copy, free_port())
        if self.command.script is not None and self.recorder == PROFILING:
            words = ["-m", _LAUNCH, *words]
        with start(
            [self.wanted.python, *words],
            cwd=self.copy / self.wanted.cwd.relative_to(self.root),
            env=self._environment(settings),
            log=self.folder / "output.txt",
            writable=[self.folder, *self.wanted.allow_write] if self.sandboxed else None,
        ) as child:
            show("running the program")
            late = self._wait(child, show)
            code = child.poll()
            child.stop(2.0)
        tail = child.tail(20)
        self._missed = words_of_missed(
            tail, self.root, self.copy, self.wanted.cwd, "profile", self.command.typed
        )
        self.tail = tail.replace(str(self.copy), str(self.root))
        return self._judged(code, late)

    def check(self, records: Sequence[Mapping[str, Any]]) -> None:
        """See that the recorder worked, where it measured nothing.

        Raises:
            ProgramFailedError: it did not.
        """
        paths = self.folder.glob("*.disabled")
        disabled = [path.read_text(encoding="utf-8").strip() for path in paths]
        trouble = [*disabled, *(line for each in records for line in each["trouble"])]
        if trouble:
            raise ProgramFailedError("; ".join(trouble), self.tail)

    def _environment(self, more: Mapping[str, Any]) -> dict[str, str]:
        settings = self.folder / "settings.json"
        content = {
            "out": str(self.out),
            "root": str(self.copy),
            "original": str(self.root),
            "device": self.wanted.device,
            **more,
        }
        settings.write_text(json.dumps(content), encoding="utf-8")
        given = {**os.environ, **self.wanted.env}
        extra = {
            **self.wanted.env,
            "PYTHONPATH": python_path(given, self.inject, self.root, self.copy),
            "TORCHLINT_RECORDER": self.recorder,
            "TORCHLINT_RECORD": str(settings),
        }
        marked = self.recorder == PROFILING
        if marked and self.command.script is None and os.name == "posix":  # torchrun's ranks
            extra["PYTHON_EXEC"] = str(self._launcher())
        if self.wanted.device == "cpu":
            extra.setdefault("CUDA_VISIBLE_DEVICES", "")
        if "MASTER_PORT" in os.environ:
            extra.setdefault("MASTER_PORT", str(free_port()))
        return {
            **child_environment(os.environ, self.folder, threads=None, extra=extra),
            RUN_VARIABLE: str(self.folder),
        }

    def _launcher(self) -> Path:
        """Write a program that runs a script with marks in it, for launchers of ranks."""
        path = self.folder / "python"
        words = shlex.join([self.wanted.python, "-u", "-m", _LAUNCH])
        path.write_text(f'#!/bin/sh\nexec {words} "$@"\n', encoding="utf-8")
        path.chmod(0o700)
        return path

    def _wait(self, child: Child, show: Callable[[str], None]) -> bool:
        """Wait for the program's end; return whether it took too long.

        One whose processes have left their records has a while to end by itself.
        """
        deadline = time.monotonic() + self.wanted.timeout
        done = False
        while child.poll() is None:
            now = time.monotonic()
            if now >= deadline:
                return not done
            if not done and any(each["reason"] == _MEASURED for each in self._records()):
                done, deadline = True, min(deadline, now + _LINGER)
                show("ending the program")
            time.sleep(_POLL)
        return False

    def _records(self) -> list[dict[str, Any]]:
        found = []
        for path in self.out.glob("record-*.json"):
            found.append(json.loads(path.read_text(encoding="utf-8")))
        return sorted(found, key=lambda record: (record["rank"], record["pid"]))

    def _judged(self, code: int | None, late: bool) -> list[dict[str, Any]]:
        records = self._records()
        after = f"after {pluralise(stepped(records), 'step')}"
        measured = any(record["reason"] == _MEASURED for record in records)
        if late:
            raise ProgramFailedError(
                f"the program did not get there within {self.wanted.timeout:g} s (--timeout), "
                f"{after}",
                self.tail,
            )
        if not measured and code != 0:
            raise ProgramFailedError(f"the program {ending(code)} {after}{self._missed}", self.tail)
        return records


def stepped(records: Sequence[Mapping[str, Any]]) -> int:
    """Return how many steps a program did."""
    return max((record["steps"] for record in records), default=0)


def told(error: ProgramFailedError) -> str:
    """Return why the program fails, with the last line that it wrote."""
    last = error.log.strip().rpartition("\n")[2]
    return f"{error}: {last}" if last else str(error)


@frozen
class Aside:
    """A step of another kind than the others: nanoseconds, and what it did that they did not."""

    time: int
    why: tuple[str, ...]


def pace_of(record: Mapping[str, Any]) -> Pace | None:
    """Return the steps of a process that were timed; None where it ended before."""
    ends = record["ends_ns"]
    timed = record["total_ns"] is not None and len(ends) > 1
    return _pace(record, [False] * (len(ends) - 1)) if timed else None


def usual_of(record: Mapping[str, Any]) -> tuple[Pace | None, tuple[Aside, ...]]:
    """Return the same without the steps of another kind, and these."""
    whole = pace_of(record)
    if whole is None:
        return None, ()
    why = record["kinds"][1:]
    other = odd(whole.each, whole.loading, why)
    both = zip(whole.each, why, other, strict=True)
    return _pace(record, other), tuple(Aside(time, tuple(did)) for time, did, far in both if far)


def _pace(record: Mapping[str, Any], without: Sequence[bool]) -> Pace:
    pairs = list(zip(pairwise(record["ends_ns"]), without, strict=True))

    def differences(at: int, *, far: bool = False) -> tuple[int, ...]:
        return tuple(after[at] - before[at] for (before, after), one in pairs if one == far)

    return Pace(
        differences(0),
        differences(1),
        record["total_ns"] - sum(differences(0, far=True)),
        batches=sum(differences(2)),
        waited=sum(differences(3)),
        threads=1 if record["device"] else record["threads"],
        cores=record["cores"],
    )
