"""What the ledger writes down: events by step and source line, and their summary."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .tags import Use

LIBRARY = "<library>"
"""The file of an event that no frame of the project leads to; its line is 0."""
_Key = tuple[int, str, str, int, str]
_CHECKING = frozenset({"__init__", "_validate_sample"})
"""Functions of torch's class `Distribution` that check arguments, and nothing else that waits."""
_DISTRIBUTION = os.path.join("torch", "distributions", "distribution.py")
_HERE = os.path.abspath(os.path.join(__file__, *[os.pardir] * 4))


class Frames:
    """Finds the project's own frame nearest to where an event happens.

    Args:
        root: the project's folder. Files below it count, save installed packages and this recorder.
    """

    def __init__(self, root: str) -> None:
        self._roots = [os.path.abspath(root), os.path.realpath(root)]
        self._known: dict[str, str] = {}

    def _relative(self, filename: str) -> str:
        if filename.startswith("<"):
            return ""
        for path, root in zip((os.path.abspath(filename), os.path.realpath(filename)), self._roots):  # noqa: B905
            if path.startswith(root.rstrip(os.sep) + os.sep) and not path.startswith(
                _HERE + os.sep
            ):
                relative = os.path.relpath(path, root).replace(os.sep, "/")
                parts = relative.split("/")
                return "" if "site-packages" in parts or "dist-packages" in parts else relative
        return ""

    def here(self) -> tuple[str, int, str]:
        """(file relative to the root with forward slashes, line) of the innermost project frame,
        and why a library waits below it, where that is known."""
        frame: FrameType | None = sys._getframe(1)
        why = ""
        while frame is not None:
            filename = frame.f_code.co_filename
            relative = self._known.get(filename)
            if relative is None:
                relative = self._known[filename] = self._relative(filename)
            if relative:
                return relative, frame.f_lineno, why
            if filename.endswith(_DISTRIBUTION) and frame.f_code.co_name in _CHECKING:
                why = "argument check of torch.distributions; validate_args=False leaves it out"
            frame = frame.f_back
        return LIBRARY, 0, why


class Log(threading.local):
    """What one thread is about: causes and silences. Class attributes are each thread's start."""

    what = ""
    silent = 0
    ambient = False
    """Whether the running torch function was given a CUDA tensor."""
    mixed: tuple[bool, bool] = (False, False)
    """Whether it was also given host tensors: (with dimensions, numbers)."""
    host_check: bool = False
    """Whether the running function reads of tensors only where they truly lie on the host."""
    requested: bool | None = None
    """The device that the running factory function was asked for: CUDA, host, or not in a
    factory."""


class Events:
    """Counts of events, by step, kind, line and cause."""

    def __init__(self, root: str) -> None:
        self._frames = Frames(root)
        self._counts: dict[_Key, list[int]] = {}
        self._lock = threading.Lock()
        self._step = 0
        self._kinds: list[tuple[str, bool]] = []
        """Of each finished step, its kind and whether it is a whole one."""
        self._used: list[bool] = []
        """Of each finished step, whether anything of it lay on the virtual device."""
        self.active = True
        """Whether events count: not in forked workers, and not after the end."""
        self.stopped = False
        self.unavailable = ""
        self.notes: list[str] = []
        self.now = Log()

    def add(self, kind: str, what: str, nbytes: int = 0) -> None:
        """Count one event at the project's line. kind: "sync", "h2d", "d2h", "staged" or
        "mismatch"."""
        if not self.active or self.now.silent:
            return
        file, line, why = self._frames.here()
        with self._lock:
            entry = self._counts.setdefault(
                (self._step, kind, file, line, why or self.now.what or what), [0, 0]
            )
            entry[0] += 1
            entry[1] += nbytes

    def sync(self, what: str, d2h_bytes: int = 0) -> None:
        """Count one wait of the host for the device, with the bytes that come back with it."""
        self.add("sync", what)
        if d2h_bytes:
            self.add("d2h", what, d2h_bytes)

    def mark(self, kind: str = "train", *, whole: bool = True) -> None:
        """End the current step; see `recorder.Ledger.mark_step`."""
        with self._lock:
            self._step += 1
            self._kinds.append((kind, whole))
            self._used.append(Use.lately)
            Use.lately = False

    def used(self, first_step: int) -> bool:
        """Say whether the steps that are counted had anything on the virtual device; a probe before
        them is none."""
        trained = [number for number, (kind, _) in enumerate(self._kinds) if kind == "train"][
            first_step:
        ]
        return any(self._used[trained[0] :]) if trained else Use.cuda

    def gap(self, reason: str) -> None:
        """Note why the counts cannot be trusted; the first reason stays."""
        self.unavailable = self.unavailable or reason

    def note(self, text: str) -> None:
        """Say something that the reader of the counts must know, once."""
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def cause(self, what: str) -> Iterator[None]:
        """Name the cause of all events in the block, whatever operation brings them; the outermost
        name stays."""
        before = self.now.what
        self.now.what = before or what
        try:
            yield
        finally:
            self.now.what = before

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Count nothing in the block: what happens there is the recorder's doing, or counted
        already."""
        self.now.silent += 1
        try:
            yield
        finally:
            self.now.silent -= 1

    def summary(self, first_step: int) -> dict[str, Any]:
        """The counts of the finished steps from `first_step` on, as plain data; all of them where
        no step ended."""
        base: dict[str, Any] = {
            "basis": "virtual-cuda",
            "unavailable": self.unavailable,
            "notes": list(self.notes),
        }
        empty: dict[str, Any] = {
            "steps": 0,
            "syncs": None,
            "h2d_bytes": None,
            "d2h_bytes": None,
            "staged": None,
            "lines": [],
        }
        trained = sum(kind == "train" for kind, _ in self._kinds)
        if self._step and trained <= first_step:
            base["unavailable"] = (
                base["unavailable"] or f"only {trained} steps ran; counting starts at {first_step}"
            )
        if base["unavailable"]:
            return {**base, **empty}
        if not self._step:
            return {**base, **self._counted(None, 0)}
        chosen, steps = self._training(first_step)
        evaluated = {number for number, (kind, _) in enumerate(self._kinds) if kind == "evaluation"}
        found = {**base, **self._counted(chosen, steps)}
        if evaluated:
            found["evaluation"] = self._counted(evaluated, len(evaluated))
        return found

    def _training(self, first_step: int) -> tuple[set[int], int]:
        """Return the marks between which whole steps lie, and their number.

        Where there is none, as each epoch has one batch, all but evaluation, shared out to the
        steps.
        """
        train = [number for number, (kind, _) in enumerate(self._kinds) if kind == "train"][
            first_step:
        ]
        whole = {number for number in train if self._kinds[number][1]}
        if whole:
            return whole, len(whole)
        since = train[0]
        return {
            number for number in range(since, self._step) if self._kinds[number][0] != "evaluation"
        }, len(train)

    def _counted(self, chosen: set[int] | None, steps: int) -> dict[str, Any]:
        """Return the totals and rows of some steps; of everything for None."""
        lines: dict[tuple[str, str, int, str], list[int]] = {}
        for (step, kind, file, line, what), (count, nbytes) in self._counts.items():
            if chosen is None or step in chosen:
                entry = lines.setdefault((kind, file, line, what), [0, 0])
                entry[0] += count
                entry[1] += nbytes
        return {
            "steps": steps,
            **_totals(lines, max(steps, 1)),
            "lines": [
                {
                    "kind": kind,
                    "file": file,
                    "line": line,
                    "count": count,
                    "bytes": nbytes,
                    "what": what,
                }
                for (kind, file, line, what), (count, nbytes) in sorted(
                    lines.items(), key=lambda item: (item[0][1:3], item[0])
                )
            ],
        }


def _totals(lines: dict[tuple[str, str, int, str], list[int]], steps: int) -> dict[str, float]:
    def total(kind: str, column: int) -> float:
        return sum(entry[column] for key, entry in lines.items() if key[0] == kind) / steps

    return {
        "syncs": total("sync", 0),
        "h2d_bytes": total("h2d", 1),
        "d2h_bytes": total("d2h", 1),
        "staged": total("staged", 0),
    }
