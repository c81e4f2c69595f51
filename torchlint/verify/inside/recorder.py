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

import contextlib
import json
import os
import time
from types import FrameType
from typing import Any

from ...program.inside.imports import after_import
from ...program.inside.recording import Recording
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


class Recorder(Recording):
    """What one process of the program has done so far."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.phase = settings["phase"]
        self.schedule = Schedule(settings.get("cut") or {})
        self.stopping = StoppingPoint(settings)
        self.results: Any = None
        self.timing: Timing | None = None
        self.ledger: Any = None
        self.writes: Writes | None = None
        self.marks: Marks | None = None
        self.calls = 0
        self.behind = ""
        self.begun = self.first = time.perf_counter()
        self.prefetched = 0

    # Hooks

    def _hook(self) -> None:
        torch = self.torch
        from torch.optim.optimizer import Optimizer

        from .results import Results, shake
        from .snapshot import seed

        seed(int(self.settings.get("seed", 0)))
        if self.settings.get("threads"):
            torch.set_num_threads(int(self.settings["threads"]))
        if self.phase == "check":
            # Have operations be deterministic, as `torch.use_deterministic_algorithms` does with
            # ``warn_only``. That function imports torch's compiler, for a setting of its own:
            # seconds for each program, of which most compile nothing.
            self.torch.set_deterministic_debug_mode("warn")
            after_import("torch._inductor.config", _compile_deterministically)
            self.results = Results()
        if self.phase == "count" or self.settings.get("ledger"):
            self.ledger = self.started_ledger()
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
        super()._hook()
        if self.timing is None:
            self._wrap_forward()

    def _shake_new(self, optimizer: Any, shake: Any) -> None:
        init = optimizer.__init__

        def shaken(this: Any, *args: Any, **kwargs: Any) -> None:
            init(this, *args, **kwargs)
            shake(this)

        optimizer.__init__ = shaken

    def _before_backward(self, tensors: Any) -> None:
        if self.results is not None and self._ours():
            with self._unseen():
                self.results.see_loss(tensors)

    def _after_backward(self) -> None:
        self.schedule.backwards += 1
        super()._after_backward()

    def _wrap_loader(self) -> None:
        from torch.utils.data import dataloader

        super()._wrap_loader()
        reset = dataloader._BaseDataLoaderIter._reset

        def begun(this: Any, *args: Any, **kwargs: Any) -> Any:
            if self._ours():
                self.schedule.begin(this)
            return reset(this, *args, **kwargs)

        dataloader._BaseDataLoaderIter._reset = begun

    def _before_batch(self, iterator: Any, caller: FrameType) -> None:
        """End what came before a batch is asked for, and the iterator itself where it has given
        enough."""
        if self.timing is not None or not self._ours():
            return
        kind = self.schedule.behind(iterator)
        if kind:
            self._mark(kind)
        if kind == EVALUATION:
            self._go_on(self.stopping.tick(self.steps))
        if self.schedule.enough(iterator, caller):
            raise StopIteration

    def _after_last_batch(self, iterator: Any) -> None:
        if self.timing is None and self._ours():
            self.schedule.end(iterator)

    def _after_batch(self, iterator: Any) -> None:
        self.prefetched = getattr(iterator, "_num_workers", 0) * (
            getattr(iterator, "_prefetch_factor", None) or 0
        )
        if self._ours():
            self.schedule.give(iterator)
        super()._after_batch(iterator)

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

    def _optimized(self, optimizer: Any) -> None:
        if self.results is not None:
            self.results.optimizers.setdefault(id(optimizer), optimizer)
        super()._optimized(optimizer)

    def _ours(self) -> bool:
        """Say whether this is the main thread of the first rank: the one that counts steps."""
        if not super()._ours():
            return False
        distributed = self.torch.distributed
        return not (
            distributed.is_available()
            and distributed.is_initialized()
            and distributed.get_rank() != 0
        )

    def _forked(self) -> None:
        """A forked child starts with nothing done; it leaves no record unless it steps itself."""
        super()._forked()
        self.schedule = Schedule({})

    # Steps

    def _step(self) -> None:
        self.schedule.steps = self.steps
        if self.steps == 1:
            self.first = time.perf_counter()
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
            self._end()

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
            self.write(record.content(self))
