"""The recorder of `torchlint profile`: times the steps of a program as they are, then records a few
under torch's profiler, and ends it.

Of the steps before, the first half settle (memory, caches, compilation) and the others are timed
without the profiler; one more takes what starting it costs. Every process that does steps leaves a
record of its own, so every rank does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import os
import re
import time
from collections.abc import Mapping
from types import FrameType
from typing import Any

from . import statement_marks
from .imports import after_import
from .loader_workers import override
from .module_marks import ModuleMarks
from .recording import Recording
from .statement_marks import Marks
from .step_kinds import StepKinds, unusual
from .worker_batches import FLAG, WorkerBatches, mark_main

MARKS = "torchlint_marks"
"""What the table of marks is called in a trace."""
STEPS = "torchlint_steps"
QUEUED = "torchlint_queued"
"""What is called so in a trace says what steps did that others did not."""
_EMPTY = "torchlint: an empty mark"
_EMPTY_MARKS = 1_000
_NAME = re.compile(rb'"name": ?"tl#(\d+)"')
_PIECE = 1 << 20
_current: Profiling | None = None


def install(settings_path: str) -> None:
    """Read the settings, mark what is imported from now on, and wait for torch."""
    global _current
    with open(settings_path, encoding="utf-8") as source:  # noqa: PTH123 - keeps start-up small
        _current = Profiling(json.load(source))
    _current.marks.start()
    mark_main(_current.marks)
    after_import("torch", _current.torch_imported)


def marks() -> Marks:
    """Return the marks of this process."""
    assert _current is not None
    return _current.marks


class Profiling(Recording):
    """What one process of the program has done so far; every rank counts its steps.

    Args (keys of the settings, beside those of all):
        out: where traces go too.
        warmup, steps: how many steps are waited for, and profiled; without any of the latter the
            program is ended when its steps were timed.
        settle: how many of the former are not timed; half of them where it is not said.
        hold: seconds from the first step for which more steps are not timed: a GPU's first ones are
            slow (on an H200, 5.3 ms where later ones take 3.9).
        memory, shapes: whether allocations and shapes are recorded.
        workers: where it is said, DataLoaders are seen, and all get this number of workers, or
            keep theirs where it is None.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.marks = Marks(settings["root"])
        self.profiler: Any = None
        self.step_mark: Any = None
        self.trace = ""
        self.settle = int(settings.get("settle", max(1, int(settings["warmup"]) // 2)))
        self.timed_to = max(self.settle + 1, int(settings["warmup"]))
        self.held_until = math.inf if settings.get("hold") else 0.0
        """When steps begin to be timed, by the clock."""
        self.ends: list[tuple[int, int, int, int]] = []
        """(time, nanoseconds in DataLoaders so far, batches of worker processes so far, nanoseconds
        in taking these) at the ends of the steps that are timed."""
        self.total: int | None = None
        self.queued: int | None = None
        """Nanoseconds in which the training thread could have run in these steps, had it had a
        core."""
        self.since: tuple[int, int | None] = (0, None)
        """The step that is profiled, and the same so far when it began."""
        self.queues: dict[int, int] = {}
        """The same of each step that was profiled."""
        self.kinds = StepKinds()
        self.modules = ModuleMarks()
        self.timed: list[list[str]] = []
        """What steps did that end at `ends`."""
        self.marked: dict[int, list[str]] = {}
        """The same of those that were profiled, by the number of their mark."""
        self.event: float | None = None
        """Nanoseconds that recording an event takes: an empty mark."""
        self.loaders: list[dict[str, Any]] = []
        """The DataLoaders that got another number of workers."""

    # Hooks

    def _hook(self) -> None:
        statement_marks.compiled_by(self.torch)
        super()._hook()
        self.kinds.watch(self.torch)
        if "workers" in self.settings:
            self.loaders = override(self.settings["workers"])
        WorkerBatches(self.settings["out"], self.marks).watch()

    def _forked(self) -> None:
        """A forked child starts with nothing done, and what it does is not in its parent's
        trace."""
        statement_marks.forget()
        self.modules.hide()
        self.profiler = None
        super()._forked()

    def _before_batch(self, iterator: Any, caller: FrameType) -> None:
        self.kinds.batch(iterator)

    # Steps

    def _step(self) -> None:
        did = self.kinds.take()
        self._hold()
        if self.steps == self.settle:
            self._sync()
        if self.settle <= self.steps <= self.timed_to:
            self.timed.append(did)
            self._time()
        if self.steps == self.timed_to and not self.settings["steps"]:
            self._end()
        elif self.steps == self.timed_to:
            self._make()
        elif self.steps == self.timed_to + 1:
            self._start()
        elif self.steps > self.timed_to + 1:
            self.marked[self.steps - 1] = did
            self._go_on()

    def _hold(self) -> None:
        """Put the schedule off by a step while the device is not at its pace; ranks of a program
        have to agree on their steps, and do not wait."""
        now = time.monotonic()
        if self.held_until == math.inf:
            self.held_until = now + float(self.settings["hold"]) if self.rank()[1] == 1 else 0.0
        if self.steps == self.settle and now < self.held_until:
            self.settle += 1
            self.timed_to += 1

    def _time(self) -> None:
        if self.steps == self.settle:
            self.queued = _queued()
        self.ends.append((time.perf_counter_ns(), self.loader_ns, *self.from_workers))
        if self.steps == self.timed_to:
            self._sync()
            self.total = time.perf_counter_ns() - self.ends[0][0]
            now = _queued()
            self.queued = None if now is None or self.queued is None else now - self.queued

    def _go_on(self) -> None:
        self._end_mark()
        if self.steps <= self.timed_to + int(self.settings["steps"]):
            self._begin_mark()
            return
        self._end()

    def _make(self) -> None:
        """Prepare the profiler: for CUDA that takes a while, and the step behind it is no steady
        one. From here on workers time their lines: batches are made ahead."""
        with open(os.path.join(self.settings["out"], FLAG), "w"):  # noqa: PTH123
            pass
        from torch.profiler import ProfilerActivity, _KinetoProfile

        activities = [ProfilerActivity.CPU]
        if self.settings["device"] == "cuda" and self.torch.cuda.is_available():
            activities.append(ProfilerActivity.CUDA)
        self.profiler = _KinetoProfile(
            activities=activities,
            record_shapes=bool(self.settings["shapes"]),
            profile_memory=bool(self.settings["memory"]),
            experimental_config=_config(),
        )
        self.profiler.prepare_trace()
        try:
            self.modules.find(self.torch)
        except Exception as error:
            self.trouble.append(f"modules have no names: {type(error).__name__}: {error}")

    def _start(self) -> None:
        self._sync()
        self.profiler.start_trace()
        statement_marks.show()
        self.modules.show()
        self._begin_mark()

    def _begin_mark(self) -> None:
        from torch.autograd.profiler import record_function

        self.since = self.steps, _queued()
        self.step_mark = record_function(f"ProfilerStep#{self.steps}")
        self.step_mark.__enter__()

    def _end_mark(self) -> None:
        if self.step_mark is not None:
            self.step_mark.__exit__(None, None, None)
            self.step_mark = None
            (number, before), now = self.since, _queued()
            if before is not None and now is not None:
                self.queues[number] = now - before

    # Its record

    def dump(self) -> None:
        """Write the trace and this process' record, once; nothing where it did no step."""
        if self.dumped or not self.steps:
            return
        self.dumped = True
        try:
            self._export()
        except Exception as error:
            self.trouble.append(f"the trace cannot be written: {type(error).__name__}: {error}")
        rank, world = self.rank()
        timed, _ = self._unusual()
        cuda = self.settings["device"] == "cuda" and self.torch.cuda.is_initialized()
        self.write(
            {
                "rank": rank,
                "world": world,
                "trace": self.trace,
                "total_ns": self.total,
                "queued_ns": None if self.total is None else self.queued,
                "timed_to": self.timed_to,
                "ends_ns": self.ends,
                "kinds": timed,
                "event_ns": self.event,
                "threads": self.torch.get_num_threads(),
                "cores": _cores(),
                "device": self.torch.cuda.get_device_name() if cuda else "",
                "marks": len(self.marks.rows),
                "unmarked": self.marks.unmarked,
                "loaders": self.loaders,
            }
        )

    def _export(self) -> None:
        if self.profiler is None or self.steps <= self.timed_to:
            return
        statement_marks.forget()
        self.modules.hide()
        self._end_mark()
        if self.settings["memory"]:
            gc.collect()  # what only waits for the collector is given back while that is recorded
        self._sync()
        # The nanoseconds that a mark takes in which nothing is done, while the profiler runs.
        from torch._C._profiler import _RecordFunctionFast

        start = time.perf_counter_ns()
        for _ in range(_EMPTY_MARKS):
            with _RecordFunctionFast(_EMPTY):
                pass
        self.event = (time.perf_counter_ns() - start) / _EMPTY_MARKS
        self.profiler.stop_trace()
        if self.steps == self.timed_to + 1:
            return
        raw = os.path.join(self.settings["out"], f"raw-{os.getpid()}")
        self.profiler.export_chrome_trace(raw)
        done = os.path.join(self.settings["out"], f"trace-{os.getpid()}.json")
        more = {STEPS: self._unusual()[1], QUEUED: self.queues}
        with_table(raw, f"{done}.part", self.marks, more)
        os.remove(raw)
        os.replace(f"{done}.part", done)
        self.trace = done

    def _unusual(self) -> tuple[list[list[str]], dict[int, list[str]]]:
        """Return what steps did that others did not: those that were timed, one for each of `ends`,
        and those that were profiled, by number."""
        found = unusual([*self.timed[1:], *self.marked.values()])
        timed = [[], *found[: len(self.timed) - 1]] if self.timed else []
        return timed, dict(zip(self.marked, found[len(found) - len(self.marked) :], strict=True))


def _queued() -> int | None:
    """Return for how many nanoseconds this thread has waited for a core so far, ready to run; None
    where the system does not say it. (Linux: ``Documentation/scheduler/sched-stats.rst``.)"""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as line:  # noqa: PTH123
            return int(line.read().split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _cores() -> int:
    """Return how many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not everywhere
        return os.cpu_count() or 1


def _config() -> Any:
    """Return what newer versions of torch can be told: to make no objects of events, which nobody
    reads here, and to record what waits for the device."""
    from torch._C._profiler import _ExperimentalConfig

    make: Any = _ExperimentalConfig
    for more in ({"trace_only": True}, {}):
        with contextlib.suppress(TypeError):
            return make(enable_cuda_sync_events=True, **more)
    return None


def with_table(raw: str, path: str, marks: Marks, more: Mapping[str, Any]) -> None:
    """Write a trace once more, with the table of those marks that it holds before all else, and
    with more tables.

    Args:
        raw: the trace as the profiler wrote it, one object of JSON.
        path: where to write.
        marks: all of them.
        more: these, by name: what its steps did that others did not, and for how long the training
            thread waited for a core in each.
    """
    numbers: set[int] = set()
    with open(raw, "rb") as trace:  # noqa: PTH123
        before = b""
        while piece := trace.read(_PIECE):
            numbers.update(int(number) for number in _NAME.findall(before + piece))
            before = piece[-64:]
    table = {str(number): marks.rows[number] for number in sorted(numbers)}
    with open(raw, "rb") as trace, open(path, "wb") as out:  # noqa: PTH123
        head = trace.read(_PIECE)
        opening = head.index(b"{") + 1
        tables = json.dumps({MARKS: table, **more})[1:-1] + ","
        out.write(head[:opening] + tables.encode() + head[opening:])
        while piece := trace.read(_PIECE):
            out.write(piece)
