"""The recorder: hooks torch as soon as the program imports it, and notes what the program does step
by step.

It imports no torch by itself and changes nothing that the program can compute with. What it does in
which phase:

- ``time``: the optimizer hook alone, and the parent's blocks (`timing`).
- ``check``: losses, final weights, outputs of evaluation and random streams under deterministic
  algorithms, on the ledger's virtual device where the settings ask for it; stops where the settings
  say.
- ``count``: the ledger of host-device traffic; stops after a number of steps.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import Any

from ...program.inside.ending import Ending
from ...program.inside.imports import after_import
from ...program.inside.steps import Boundary
from . import record
from .marks import Marks
from .schedule import EVALUATION, TRAIN, Schedule
from .stopping import StoppingPoint
from .timing import Timing
from .writes import Writes


def install(settings_path: str) -> None:
    """Read the settings and wait for torch to be imported."""
    with open(settings_path, encoding="utf-8") as source:  # noqa: PTH123 - keeps start-up small
        settings = json.load(source)
    recorder = Recorder(settings)
    if settings.get("marks"):
        recorder.marks = Marks(
            [tuple(mark) for mark in settings["marks"]], os.path.join(settings["out"], "marks")
        )
        recorder.marks.start()
    if settings.get("writes"):
        recorder.writes = Writes(settings["writes"], os.path.join(settings["out"], "writes"))
        recorder.writes.start()
    after_import("torch", recorder.torch_imported)


def _compile_deterministically(config: Any) -> None:
    if hasattr(config, "deterministic"):  # older versions of torch have no such setting
        config.deterministic = True


class Recorder:
    """What one process of the program has done so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.phase = settings["phase"]
        self.boundary = Boundary()
        self.schedule = Schedule(settings.get("cut") or {})
        self.stopping = StoppingPoint(settings)
        self.torch: Any = None
        self.results: Any = None
        self.timing: Timing | None = None
        self.ledger: Any = None
        self.writes: Writes | None = None
        self.marks: Marks | None = None
        self.reason = "ended"
        self.steps = 0
        self.ending = Ending()
        self.calls = 0
        self.behind = ""
        self.loader_ns = 0
        self.begun = self.first = time.perf_counter()
        self.prefetched = 0
        self.dumped = False
        self.trouble: list[str] = []
        self.main = threading.main_thread()

    # Hooks

    def torch_imported(self, torch: Any) -> None:
        """Hook torch; what fails is noted and disables the recorder, not the program."""
        self.torch = torch
        try:
            self._hook()
        except Exception as error:
            self.trouble.append(f"recorder disabled: {type(error).__name__}: {error}")

    def _be_deterministic(self) -> None:
        """Have operations be deterministic, as `torch.use_deterministic_algorithms` does with
        ``warn_only``.

        That function imports torch's compiler, for a setting of its own: seconds for each program,
        of which most compile nothing.
        """
        self.torch.set_deterministic_debug_mode("warn")
        after_import("torch._inductor.config", _compile_deterministically)

    def _hook(self) -> None:
        torch = self.torch
        from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

        from .results import Results, shake
        from .snapshot import seed

        seed(int(self.settings.get("seed", 0)))
        if self.settings.get("threads"):
            torch.set_num_threads(int(self.settings["threads"]))
        if self.phase == "check":
            self._be_deterministic()
            self.results = Results()
        if self.phase == "count" or self.settings.get("ledger"):
            self._start_ledger()
        if self.writes is not None:
            self.writes.watch_saves(torch)
        if self.settings.get("shake"):
            self._shake_new(Optimizer, shake)
        if self.phase == "time":
            self.timing = Timing(
                self.settings["socket"],
                int(self.settings["warmup"]),
                self._sync,
                self._facts,
                lambda: self.loader_ns,
            )
        register_optimizer_step_post_hook(self._after_optimizer)
        self._wrap_backward()
        self._wrap_loader()
        if self.timing is None:
            self._wrap_forward()
        atexit.register(self.dump)
        os.register_at_fork(after_in_child=self._forked)

    def _start_ledger(self) -> None:
        if self.settings["device"] == "cuda":
            from .cuda_counts import CudaCounts

            self.ledger = CudaCounts(self.settings["root"])
        else:
            from .ledger import Ledger

            self.ledger = Ledger(self.settings["root"], self.settings["operations"])
        self.ledger.start()

    def _shake_new(self, optimizer: Any, shake: Any) -> None:
        init = optimizer.__init__

        def shaken(this: Any, *args: Any, **kwargs: Any) -> None:
            init(this, *args, **kwargs)
            shake(this)

        optimizer.__init__ = shaken

    def _wrap_backward(self) -> None:
        backward = self.torch.autograd.backward

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            if self.results is not None and self._ours():
                with self._unseen():
                    self.results.see_loss(tensors)
            backward(tensors, *args, **kwargs)
            if self._ours():
                self.schedule.backwards += 1
                if self.boundary.backward():
                    self.step()

        self.torch.autograd.backward = watched

    def _wrap_loader(self) -> None:
        from torch.utils.data import dataloader

        following = dataloader._BaseDataLoaderIter.__next__
        reset = dataloader._BaseDataLoaderIter._reset

        def begun(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._ours():
                self.schedule.begin(this)
            return reset(this, *args, **kwargs)

        def watched(this: Any) -> Any:
            if self.timing is None and self._ours():
                self._before_batch(this, sys._getframe(1))
            start = time.perf_counter_ns()
            try:
                batch = following(this)
            except StopIteration:
                if self.timing is None and self._ours():
                    self.schedule.end(this)
                raise
            self.prefetched = getattr(this, "_num_workers", 0) * (
                getattr(this, "_prefetch_factor", None) or 0
            )
            self.loader_ns += time.perf_counter_ns() - start
            if self._ours():
                self.schedule.give(this)
                if self.boundary.batch():
                    self.step()
            return batch

        dataloader._BaseDataLoaderIter.__next__ = watched
        dataloader._BaseDataLoaderIter._reset = begun

    def _before_batch(self, iterator: Any, caller: FrameType) -> None:
        """End what came before a batch is asked for, and the iterator itself where it has given
        enough."""
        kind = self.schedule.behind(iterator)
        if kind:
            self._mark(kind)
        if kind == EVALUATION:
            self._go_on(self.stopping.tick(self.steps))
        if self.schedule.enough(iterator, caller):
            raise StopIteration

    def _wrap_forward(self) -> None:
        """See calls of modules from outside: they tell evaluation from reading on, and give its
        outputs."""
        module = self.torch.nn.Module
        call = module.__call__
        compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", lambda: False)

        def watched(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self.calls or compiling() or not self._ours():
                return call(this, *args, **kwargs)
            self.calls = 1
            try:
                found = call(this, *args, **kwargs)
            finally:
                self.calls = 0
            self.schedule.forwards += 1
            if self.results is not None and not this.training:
                with self._unseen():
                    self.results.see_output(found)
            return found

        module.__call__ = watched

    def _unseen(self) -> Any:
        """Return a context in which the recorder's own reading is not counted."""
        silence = getattr(self.ledger, "silence", None)
        return silence() if silence is not None else contextlib.nullcontext()

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", None)
        if compiling is not None and compiling():
            return
        if not self._ours():
            return
        if self.results is not None:
            self.results.optimizers.setdefault(id(optimizer), optimizer)
        if self.boundary.optimizer(optimizer):
            self.step()

    def _ours(self) -> bool:
        """Say whether this is the main thread of the first rank: the one that counts steps."""
        if threading.current_thread() is not self.main:
            return False
        distributed = self.torch.distributed
        return not (
            distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_rank() != 0
        )

    def _forked(self) -> None:
        """A forked child starts with nothing done; it leaves no record unless it steps itself."""
        self.steps, self.dumped, self.reason = 0, False, "ended"
        self.main = threading.main_thread()
        self.boundary = Boundary()
        self.schedule = Schedule({})
        atexit.unregister(self.dump)

    # Steps

    def step(self) -> None:
        """Take the end of a step."""
        if self.reason != "ended":
            self.ending.stop()
        self.steps += 1
        self.schedule.steps = self.steps
        if self.steps == 1:
            self.first = time.perf_counter()
            signal.signal(signal.SIGTERM, self._terminated)
        self._mark(TRAIN)
        self._go_on(
            self.timing.step() if self.timing is not None else self.stopping.tick(self.steps)
        )

    def _mark(self, kind: str) -> None:
        """Tell the ledger what ends here; only what also began with a mark of its kind is a whole
        one."""
        if self.ledger is not None:
            self.ledger.mark_step(kind, whole=self.behind in ("", kind))
        self.behind = kind

    def _go_on(self, going: bool) -> None:
        if not going:
            self.reason = "step budget"
            self.dump()
            self.ending.stop()

    def _terminated(self, number: int, frame: Any) -> None:
        if self.reason == "ended":
            self.reason = "terminated"
            self.dump()
        os._exit(128 + number)

    def _sync(self) -> None:
        if self.settings["device"] == "cuda" and self.torch.cuda.is_initialized():
            self.torch.cuda.synchronize()

    def _facts(self) -> dict[str, Any]:
        torch = self.torch
        cuda = self.settings["device"] == "cuda" and torch.cuda.is_initialized()
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        return {
            "pid": os.getpid(),
            "boundary": self.boundary.kind,
            "prefetched": self.prefetched,
            "cuda": cuda,
        }

    def dump(self) -> None:
        """Write this process' record, once."""
        if not self.dumped:
            self.dumped = True
            if self.reason == "ended" and self._ours() and self.schedule.behind(None) == EVALUATION:
                self._mark(EVALUATION)
            if self.ledger is not None:
                self.ledger.stop()
            record.write(self)
