"""Which part of a program runs: epochs end early, so that evaluation and what comes behind it are
reached soon.

The iterator of a DataLoader that has given enough says that it has no more. Nothing of the program
is changed: it sees a smaller data set, whose ``len()`` is that of the whole. Both sides of a
comparison are cut alike.
"""

from __future__ import annotations

import opcode
import weakref
from dataclasses import dataclass
from types import FrameType
from typing import Any

TRAIN, EVALUATION, OTHER = "train", "evaluation", "other"
"""What lies between two marks: a step of training, a batch of evaluation, or the way from one to
the other."""


@dataclass
class _Pass:
    """One way through a DataLoader: how many batches it gave, and what had been done when it
    began."""

    batches: int = 0
    backwards: int = 0
    steps: int = 0
    ended: bool = False


class Schedule:
    """Tells training from evaluation, and says when a DataLoader has given enough.

    A batch is one of evaluation where a module was called and nothing differentiated before the
    next one.

    Args:
        cut: ``train`` and ``evaluation`` (steps and batches of the first way through each data
            set), ``later`` (of the further ones); empty to end nothing early.
    """

    def __init__(self, cut: dict[str, int]) -> None:
        self.cut = cut
        self.steps = self.backwards = self.forwards = 0
        self.epochs = self.evaluations = self.batches = 0
        """How many ways of training through a data set were ended early; ways of evaluation, and
        their batches."""
        self._passes: Any = weakref.WeakKeyDictionary()
        self._last: _Pass | None = None
        self._then = (0, 0)
        self._known: set[tuple[int, bool]] = set()

    def begin(self, iterator: Any) -> None:
        """Take a new way through a data set."""
        self._passes[iterator] = _Pass(backwards=self.backwards, steps=self.steps)

    def behind(self, iterator: Any | None) -> str:
        """Say what ends where this iterator is asked for a batch; None at the program's end."""
        if self._last is None or not self.backwards:
            return ""
        same = iterator is not None and self._passes.get(iterator) is self._last
        backwards, forwards = self._then
        if self.backwards == backwards and self.forwards > forwards:
            self._then = (self.backwards, self.forwards)
            self.batches += 1
            return EVALUATION
        return OTHER if not same and self.backwards > backwards else ""

    def enough(self, iterator: Any, caller: FrameType) -> bool:
        """Say whether an iterator has given enough, and its caller is one that takes an early end
        well."""
        one: _Pass = self._passes.setdefault(
            iterator, _Pass(backwards=self.backwards, steps=self.steps)
        )
        if one.ended or not self.cut or not one.batches or not self.backwards:
            return one.ended
        trains = self.backwards > one.backwards
        key = (id(getattr(iterator, "_dataset", None)), trains)
        amount = (
            self.cut["later"] if key in self._known else self.cut[TRAIN if trains else EVALUATION]
        )
        done = self.steps - one.steps if trains else one.batches
        if done < amount or not takes_an_end(caller):
            return False
        one.ended = True
        self.end(iterator, cut=True)
        return True

    def end(self, iterator: Any, *, cut: bool = False) -> None:
        """Take the end of a way through a data set."""
        one = self._passes.get(iterator)
        if one is None or not one.batches or not self.backwards:
            return
        trains = self.backwards > one.backwards
        self._known.add((id(getattr(iterator, "_dataset", None)), trains))
        if trains:
            self.epochs += cut
        else:
            self.evaluations += 1

    def give(self, iterator: Any) -> None:
        """Take a batch that was handed out."""
        one: _Pass = self._passes.setdefault(
            iterator, _Pass(backwards=self.backwards, steps=self.steps)
        )
        one.batches += 1
        self._last = one
        self._then = (self.backwards, self.forwards)

    def facts(self) -> dict[str, int]:
        """Return what was cut and evaluated, for the record."""
        return {"epochs": self.epochs, "evaluations": self.evaluations, "batches": self.batches}


def takes_an_end(caller: FrameType) -> bool:
    """Say whether a frame asks for a batch by a loop, or names ``StopIteration``: others would
    crash."""
    code = caller.f_code
    name = opcode.opname[code.co_code[caller.f_lasti]]
    return name.startswith(("FOR_ITER", "SEND", "YIELD_FROM")) or "StopIteration" in code.co_names
