"""A run of the user's program under torch's profiler, in a copy of its project, with marks in its
statements."""

from __future__ import annotations

import gzip
import json
import os
import shlex
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from torchlint.base.errors import OutputError, UsageError
from torchlint.profile.replay import Replay
from torchlint.profile.report import Summary
from torchlint.program.command import Command, free_port
from torchlint.program.errors import ProgramFailedError
from torchlint.program.machine.doctor import Doctor
from torchlint.program.machine.environment import RUN_VARIABLE, child_environment, python_path
from torchlint.program.machine.manifest import manifest, warnings
from torchlint.program.machine.processes import Child, signal_name, start
from torchlint.program.machine.workspace import Workspace
from torchlint.trace.columns import Trace
from torchlint.trace.division import Division, division

_RECORDER = "program.inside.profiling"
_LAUNCH = "torchlint_inside.program.inside.launch"
_MEASURED = "step budget"
"""The reason in the record of a process that was ended after the steps that were asked for."""
_LINGER = 20.0
"""Seconds that a program may take to end after all its records are there."""
_POLL = 0.05


@dataclass(frozen=True, slots=True)
class Wanted:
    """How a program is profiled; the command line's options, checked.

    Args:
        python: the interpreter that has torch.
        device: "cuda" or "cpu": what the program will find.
        steps: how many are profiled.
        warmup: how many come before; the later half of them is timed without the profiler.
        memory: whether shapes and allocations are recorded.
        timeout: seconds for the program.
        isolation: "auto" (copy, and Landlock where the kernel has it) or "copy".
        allow_write: folders outside the copy that the program may write to.
        env: variables passed to the program as they are, credentials too.
    """

    python: str
    device: str
    steps: int = 5
    warmup: int = 10
    memory: bool = False
    timeout: float = 600.0
    isolation: str = "auto"
    allow_write: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pace:
    """The steps of a program without the profiler; times in nanoseconds.

    Args:
        each: of the single steps, as the host saw them.
        loading: how long each of them waited for a DataLoader.
        total: of all together, with the work of the device.
    """

    each: tuple[int, ...]
    loading: tuple[int, ...]
    total: int

    @property
    def step(self) -> float:
        """Return the time of a step: of all together where there is a device, whose work the host
        does not wait for."""
        return self.total / len(self.each)

    @property
    def median(self) -> float:
        """Return the median step."""
        return statistics.median(self.each)


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run left.

    Args:
        traces: one of each rank, by rank.
        typed: the command.
        pace: of the lowest rank's steps; None where the program ended before they were timed.
        device: the GPU's name; empty for a run on a CPU.
        boundary: what ends a step: "optimizer", "backward" or "batch".
        profiled: how many steps were.
        notes: what a reader has to know.
    """

    traces: tuple[Path, ...]
    typed: tuple[str, ...]
    pace: Pace | None
    device: str
    boundary: str
    profiled: int
    notes: tuple[str, ...]


@contextmanager
def recorded(
    root: Path,
    cwd: Path,
    command: Command,
    wanted: Wanted,
    doctor: Doctor,
    show: Callable[[str], None],
) -> Iterator[Recorded]:
    """Run a program, and give what it left for as long as the context lasts.

    Args:
        root: the project, which is copied.
        cwd: where the program is run, in the project.
        command: the program.
        wanted: how.
        doctor: the interpreter and the machine.
        show: takes a line of progress.

    Raises:
        ProgramFailedError: the program fails, or takes too long.
        UsageError: it ends before enough steps, or the project cannot be copied.
    """
    before = manifest(root)
    with Workspace() as workspace:
        show(f"copying {root.name or 'the project'}")
        found = _Run(root, cwd, command, wanted, doctor, workspace).recorded(show)
        changed = warnings(root, before)
        busy = (doctor.host.busy,) if doctor.host.busy else ()
        yield Recorded(
            traces=tuple(Path(record["trace"]) for record in found),
            typed=command.typed,
            pace=_pace(found[0]),
            device=found[0]["device"],
            boundary=found[0]["boundary"],
            profiled=_profiled(found[0], wanted),
            notes=(*changed, *workspace.notes, *busy, *_notes(found, wanted)),
        )


class _Run:
    """One run of the program, in its copy."""

    def __init__(
        self,
        root: Path,
        cwd: Path,
        command: Command,
        wanted: Wanted,
        doctor: Doctor,
        workspace: Workspace,
    ) -> None:
        self.root = root
        self.command = command
        self.wanted = wanted
        self.folder = workspace.path
        self.out = workspace.path / "out"
        self.out.mkdir()
        self.copy = workspace.copy(root, f"v/{root.name or 'project'}")
        self.cwd = self.copy / cwd.relative_to(root)
        self.inject = workspace.inject()
        self.sandboxed = wanted.isolation == "auto" and doctor.host.landlock > 0

    def recorded(self, show: Callable[[str], None]) -> list[dict[str, Any]]:
        """Run it to its end; return the records that have a trace, by rank."""
        words = self.command.in_copy(self.root, self.copy, free_port())
        if self.command.script is not None:
            words = ["-m", _LAUNCH, *words]
        with start(
            [self.wanted.python, *words],
            cwd=self.cwd,
            env=self._environment(),
            log=self.folder / "output.txt",
            writable=[self.folder, *self.wanted.allow_write] if self.sandboxed else None,
        ) as child:
            show("running the program")
            late = self._wait(child, show)
            code = child.poll()
            child.stop(2.0)
        return self._judged(child, code, late)

    def _environment(self) -> dict[str, str]:
        settings = self.folder / "settings.json"
        content = {
            "out": str(self.out),
            "root": str(self.copy),
            "original": str(self.root),
            "warmup": self.wanted.warmup,
            "steps": self.wanted.steps,
            "memory": self.wanted.memory,
            "device": self.wanted.device,
        }
        settings.write_text(json.dumps(content), encoding="utf-8")
        extra = {
            "PYTHONPATH": python_path(os.environ, self.inject, self.root, self.copy),
            "TORCHLINT_RECORDER": _RECORDER,
            "TORCHLINT_RECORD": str(settings),
        }
        if self.command.script is None and os.name == "posix":  # what torchrun starts ranks by
            extra["PYTHON_EXEC"] = str(self._launcher())
        if self.wanted.device == "cpu":
            extra["CUDA_VISIBLE_DEVICES"] = ""
        if "MASTER_PORT" in os.environ:
            extra["MASTER_PORT"] = str(free_port())
        return {
            **child_environment(
                os.environ, self.folder, threads=None, extra={**extra, **self.wanted.env}
            ),
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

    def _judged(self, child: Child, code: int | None, late: bool) -> list[dict[str, Any]]:
        records = self._records()
        tail = child.tail(20).replace(str(self.copy), str(self.root))
        steps = max((record["steps"] for record in records), default=0)
        after = f"after {steps} step{'s' * (steps != 1)}"
        measured = any(record["reason"] == _MEASURED for record in records)
        if late:
            raise ProgramFailedError(
                f"the program did not get there within {self.wanted.timeout:g} s (--timeout), "
                f"{after}",
                tail,
            )
        if not measured and code != 0:
            raise ProgramFailedError(f"the program {_ending(code)} {after}", tail)
        traced = [record for record in records if record["trace"]]
        if traced:
            return traced
        trouble = [*self._disabled(), *(line for each in records for line in each["trouble"])]
        if trouble:
            raise ProgramFailedError("; ".join(trouble), tail)
        raise UsageError(_too_short(steps, self.wanted))

    def _disabled(self) -> list[str]:
        return [path.read_text(encoding="utf-8").strip() for path in self.folder.glob("*.disabled")]


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return f"was ended by {signal_name(-code)}"
    return f"failed with exit code {'unknown' if code is None else code}"


def _too_short(steps: int, wanted: Wanted) -> str:
    """Say why there is no trace of a program that ended by itself."""
    if not steps:
        return (
            "the program ended without a step: no optimizer stepped, and there were too few calls "
            "of backward or batches of a DataLoader to take them for steps"
        )
    needed = wanted.warmup + 1 + wanted.steps
    warmup = max(2, (steps - 1) // 2)
    hint = f": --warmup {warmup} --steps {steps - 1 - warmup}" if steps > 3 else ""
    return (
        f"the program ended after {steps} step{'s' * (steps != 1)}, and {needed} are needed{hint}"
    )


def _profiled(record: Mapping[str, Any], wanted: Wanted) -> int:
    steps: int = record["steps"]
    return min(wanted.steps, steps - max(2, wanted.warmup) - 1)


def _pace(record: Mapping[str, Any]) -> Pace | None:
    ends: Sequence[tuple[int, int]] = record["ends_ns"]
    if record["total_ns"] is None or len(ends) < 2:
        return None
    pairs = list(pairwise(ends))
    return Pace(
        tuple(later[0] - earlier[0] for earlier, later in pairs),
        tuple(later[1] - earlier[1] for earlier, later in pairs),
        record["total_ns"],
    )


def _notes(records: Sequence[Mapping[str, Any]], wanted: Wanted) -> Iterator[str]:
    first = records[0]
    profiled = _profiled(first, wanted)
    if profiled < wanted.steps:
        yield f"the program ended after {profiled} of {wanted.steps} profiled steps"
    if first["boundary"] != "optimizer":
        yield f"no optimizer stepped where it can be seen: a step is a {first['boundary']}"
    if not first["marks"]:
        yield "no file of the project was imported or run, so that no line is known"
    for file, path in first["leaked"].items():
        yield f"{file} was imported from {path}, not from the copy: it has no marks"
    yield from (f"without marks: {words}" for words in first["unmarked"])
    yield from first["trouble"]


def kept(traces: Sequence[Path], path: str) -> None:
    """Write traces where the user wants them: of several ranks, each has its number in the name.

    Raises:
        OutputError: one cannot be written.
    """
    for rank, trace in enumerate(traces):
        target = Path(path)
        if len(traces) > 1:
            stem, dot, ending = target.name.partition(".")
            target = target.with_name(f"{stem}-{rank}{dot}{ending}")
        try:
            opened = gzip.open if target.name.endswith(".gz") else open
            with trace.open("rb") as source, opened(target, "wb") as out:
                shutil.copyfileobj(source, out)
        except OSError as error:
            raise OutputError(f"{target}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True)
class Steps:
    """What a run says of a step, beside its trace.

    Args:
        paths: the program's files, as the user named them.
        typed: the command.
        boundary: what ends a step: "optimizer", "backward" or "batch".
        pace: without the profiler; None where the program ended before.
        division: what the profiled steps went into; None where none was whole.
    """

    paths: tuple[str, ...]
    typed: tuple[str, ...]
    boundary: str
    pace: Pace | None
    division: Division | None


def steps_of(left: Recorded, paths: tuple[str, ...], trace: Trace, replay: Replay) -> Steps:
    """Return what a run says of a step, with the trace of the rank that is shown."""
    waiting = np.zeros(len(trace.columns.ts), dtype=np.bool_)
    waiting[replay.calls[replay.blocking]] = True
    return Steps(paths, left.typed, left.boundary, left.pace, division(trace, waiting))


def renamed(summary: Summary, left: Recorded) -> Summary:
    """Return what was counted of a run with the command in the place of files that are gone
    afterwards, and what is to be known of the run."""
    name = shlex.join(left.typed)
    notes = list(left.notes)
    for note in summary.notes:
        for trace in left.traces:
            note = note.replace(f"{trace}: ", "")
        notes.append(note)
    ranks = tuple(
        replace(rank, path=name, device=left.device or rank.device or "CPU")
        for rank in summary.ranks
    )
    return Summary(ranks, tuple(notes))
