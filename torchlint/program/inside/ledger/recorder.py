"""The ledger itself: switches the virtual device on and off, and gives the counts."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Any

from torch.utils import _device

from . import methods, stubs
from .events import Events
from .modes import DispatchMode, FunctionMode
from .operations import Operations
from .patches import Patches
from .tags import Use

_WORDS = ("cuda", "cudnn", "nccl", "nvml", "accelerator")


class Ledger:
    """Counts the syncs and copies that a program would make on a machine with one CUDA GPU, without
    the GPU.

    All arithmetic is done on the CPU; storages carry a virtual device. The counts are predictions
    (basis ``"virtual-cuda"``). One ledger at a time.

    Args:
        root: the project's folder. Events are given to the nearest frame below it, else to
            ``"<library>"``.
        rows: what the table of operations says; see `torchlint.api.ledger_rows`.
    """

    def __init__(self, root: str, rows: dict[str, Any]) -> None:
        self._events = Events(root)
        self._operations = Operations(rows)
        self._patches = Patches()
        self._modes = ExitStack()
        self._earlier = getattr(sys, "last_value", None)

    def start(self) -> None:
        """Make the virtual device visible, from now on and in all threads that start later.

        Called in the main thread right after ``import torch``, before the program's own code.
        """
        Use.cuda = Use.lately = False
        constructors: Any = getattr(_device, "_device_constructors", None)
        if constructors is not None:
            constructors()  # cached by PyTorch: must hold the functions as they are now
        methods.install(self._events, self._patches, self._operations.legacy)
        stubs.install(self._events, self._patches, self._operations.legacy)
        self._threads()
        self._modes.enter_context(stubs.environment())
        self._modes.enter_context(
            FunctionMode(self._events, self._patches.originals, self._operations)
        )
        self._modes.enter_context(DispatchMode(self._events, self._operations))
        os.register_at_fork(after_in_child=self._forked)

    def _threads(self) -> None:
        """Follow threads too: the modes are per thread."""
        plain: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
        events, originals, operations = self._events, self._patches.originals, self._operations

        def bootstrap(thread: Any) -> None:
            with FunctionMode(events, originals, operations), DispatchMode(events, operations):
                plain(thread)

        self._patches.set(threading.Thread, "_bootstrap_inner", bootstrap)

    def _forked(self) -> None:
        """A forked worker has no GPU and is not counted; one that trains has no counts, rather than
        counts of 0."""
        self._events.active = False
        self._events.gap("the training ran in a forked process, which the ledger does not follow")

    def mark_step(self, kind: str = "train", *, whole: bool = True) -> None:
        """End a step: what comes next belongs to the following one.

        Args:
            kind: "train", "evaluation" (a batch) or "other" (the way from one to the other).
            whole: whether it also began where one of its kind ended.
        """
        self._events.mark(kind, whole=whole)

    def silence(self) -> AbstractContextManager[None]:
        """Return a context in which nothing is counted: the recorder's own reading."""
        return self._events.silence()

    def stop(self) -> None:
        """Switch everything off again; the counts stay."""
        self._events.active, self._events.stopped = False, True
        with suppress(
            Exception
        ):  # inside a torch function the mode is off the stack, and comes back inert
            self._modes.close()
        self._patches.undo()

    def failed(self, error: BaseException) -> str:
        """Say that an exception ended the program, and learn whether it comes from a gap of the
        virtual device.

        Returns:
            the reason, which `summary` then carries as "unavailable"; empty where the program
            itself failed.
        """
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1].filename.replace(os.sep, "/") if frames else ""
        text = f"{type(error).__name__}: {error}"
        about_cuda = any(word in text.lower() for word in _WORDS)
        lacking = type(getattr(error, "obj", None)).__module__.startswith(f"{__package__}.")
        if lacking or (about_cuda and "/torch/" in last):
            self._events.gap(text.splitlines()[0])
        return self._events.unavailable

    def summary(self, first_step: int) -> dict[str, Any]:
        """The counts of the finished steps from `first_step` (0 is the first) on; of everything
        where no step ended.

        Returns:
            plain data. "syncs", "h2d_bytes", "d2h_bytes", "staged" (copies) are per step; "lines"
            holds totals over the counted steps. A sync line and a byte line of the same copy stand
            next to each other. Where the virtual device has a gap, "unavailable" tells it and the
            numbers are None. "used" says whether the steps had anything on the device: where they
            had not, numbers of 0 predict nothing.
        """
        last = getattr(sys, "last_value", None)
        if isinstance(last, BaseException) and last is not self._earlier:
            self.failed(last)
        return {**self._events.summary(first_step), "used": self._events.used(first_step)}


@contextmanager
def virtual_cuda(root: str, rows: dict[str, Any]) -> Iterator[Ledger]:
    """Count what a block does; everything is as before at its end."""
    ledger = Ledger(root, rows)
    ledger.start()
    try:
        yield ledger
    except Exception as error:
        ledger.failed(error)
        raise
    finally:
        ledger.stop()
