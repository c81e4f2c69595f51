"""What the recorders share: the hooks that see where a step ends, the ends of processes, and the
record that each leaves."""

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

from .ending import Ending
from .imports import leaked
from .steps import Boundary


class Recording:
    """What one process of the program has done so far.

    Args (keys of the settings):
        out: where records go.
        root: the copy of the project; original: the project.
        device: "cpu" or "cuda".
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.boundary = Boundary()
        self.ending = Ending()
        self.torch: Any = None
        self.main = threading.main_thread()
        self.reason = "ended"
        self.steps = 0
        self.loader_ns = 0
        """Nanoseconds spent in DataLoaders so far."""
        self.from_workers: tuple[int, int] = (0, 0)
        """Batches that worker processes made so far, and nanoseconds spent in taking them."""
        self.dumped = False
        self.trouble: list[str] = []

    # Hooks

    def torch_imported(self, torch: Any) -> None:
        """Hook torch; what fails is noted and disables the recorder, not the program."""
        self.torch = torch
        try:
            self._hook()
        except Exception as error:
            self.trouble.append(f"recorder disabled: {type(error).__name__}: {error}")

    def _hook(self) -> None:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._after_optimizer)
        self._wrap_backward()
        self._wrap_loader()
        atexit.register(self.dump)
        os.register_at_fork(after_in_child=self._forked)

    def started_ledger(self) -> Any:
        """Begin to count what the program waits for and copies: observed on a GPU, predicted
        without one."""
        ledger: Any
        if self.settings["device"] == "cuda":
            from .cuda_counts import CudaCounts

            ledger = CudaCounts(self.settings["root"])
        else:
            from .ledger import Ledger

            ledger = Ledger(self.settings["root"], self.settings["operations"])
        ledger.start()
        return ledger

    def _wrap_backward(self) -> None:
        backward = self.torch.autograd.backward

        def watched(tensors: Any, *args: Any, **kwargs: Any) -> None:
            self._before_backward(tensors)
            backward(tensors, *args, **kwargs)
            if self._ours():
                self._after_backward()

        self.torch.autograd.backward = watched

    def _wrap_loader(self) -> None:
        from torch.utils.data import dataloader

        following = dataloader._BaseDataLoaderIter.__next__

        def watched(this: Any) -> Any:
            self._before_batch(this, sys._getframe(1))
            start = time.perf_counter_ns()
            try:
                batch = following(this)
            except StopIteration:
                self._after_last_batch(this)
                raise
            took = time.perf_counter_ns() - start
            self.loader_ns += took
            if getattr(this, "_num_workers", 0):
                batches, waited = self.from_workers
                self.from_workers = batches + 1, waited + took
            self._after_batch(this)
            return batch

        dataloader._BaseDataLoaderIter.__next__ = watched

    def _before_backward(self, tensors: Any) -> None:
        """Take what is about to be differentiated, in any thread."""

    def _after_backward(self) -> None:
        if self.boundary.backward():
            self.step()

    def _before_batch(self, iterator: Any, caller: FrameType) -> None:
        """Take an iterator of a DataLoader that is asked for a batch, in any thread.

        Raises:
            StopIteration: it is to give no more.
        """

    def _after_last_batch(self, iterator: Any) -> None:
        """Take an iterator of a DataLoader that has no more, in any thread."""

    def _after_batch(self, iterator: Any) -> None:
        """Take an iterator of a DataLoader that has given a batch, in any thread."""
        if self._ours() and self.boundary.batch():
            self.step()

    def _after_optimizer(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        compiling = getattr(getattr(self.torch, "compiler", None), "is_compiling", None)
        if (compiling is not None and compiling()) or not self._ours():
            return
        self._optimized(optimizer)

    def _optimized(self, optimizer: Any) -> None:
        if self.boundary.optimizer(optimizer):
            self.step()

    def _ours(self) -> bool:
        """Say whether this is the thread that counts steps."""
        return threading.current_thread() is self.main

    def _forked(self) -> None:
        """A forked child starts with nothing done."""
        self.steps, self.dumped, self.reason = 0, False, "ended"
        self.main = threading.main_thread()
        self.boundary = Boundary()
        atexit.unregister(self.dump)

    # Steps

    def step(self) -> None:
        """Take the end of a step."""
        if self.reason != "ended":
            self.ending.stop()
        self.steps += 1
        if self.steps == 1:
            signal.signal(signal.SIGTERM, self._terminated)
        self._step()

    def _step(self) -> None:
        """Do what a recorder does at the end of a step."""
        raise NotImplementedError

    def _end(self) -> None:
        """End the program: all that was asked for has been measured."""
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

    # Its record

    def rank(self) -> tuple[int, int]:
        """Return this process' rank, and how many there are."""
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return int(distributed.get_rank()), int(distributed.get_world_size())
        with contextlib.suppress(ValueError):
            return int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
        return 0, 1

    def dump(self) -> None:
        """Write this process' record, once."""
        raise NotImplementedError

    def write(self, more: dict[str, Any]) -> None:
        """Write ``record-<pid>.json`` in the run's folder; whole or not at all.

        Args:
            more: what a recorder says beside what all say, which it may replace.
        """
        settings = self.settings
        content = {
            "pid": os.getpid(),
            "reason": self.reason,
            "steps": self.steps,
            "boundary": self.boundary.kind,
            "trouble": self.trouble,
            "leaked": leaked(settings.get("original", ""), settings["root"]),
            **more,
        }
        path = os.path.join(settings["out"], f"record-{os.getpid()}.json")
        with open(f"{path}.part", "w", encoding="utf-8") as out:  # noqa: PTH123
            json.dump(content, out)
        os.replace(f"{path}.part", path)
