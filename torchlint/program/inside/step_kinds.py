"""What a step does that others do not, as the program's own calls tell it.

An evaluation shows by a module that is put into evaluation mode and back into training within one
step, a second loader by the data that batches come from. What most steps do is the program's way,
and no step's own: see `unusual`.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any

EVALUATION, DATA, SAVE, PASS = "evaluation", "data", "save", "pass"
"""A module was put into evaluation mode and back; batches came from another loader; something was
saved; a pass over the data began."""


class StepKinds:
    """Collects what the step that is under way does."""

    def __init__(self) -> None:
        self._found: set[str] = set()
        self._evaluating: set[int] = set()
        self._numbers: dict[int, int] = {}
        self._passes: dict[int, weakref.ref[Any]] = {}

    def watch(self, torch: Any) -> None:
        """See modules change their mode, and what is saved."""
        module, train, save = torch.nn.Module, torch.nn.Module.train, torch.save

        @functools.wraps(train)
        def changed(this: Any, mode: bool = True) -> Any:
            found = train(this, mode)
            module = id(this)
            if not mode:
                self._evaluating.add(module)
            elif module in self._evaluating:
                self._evaluating.discard(module)
                self._found.add(EVALUATION)
            return found

        @functools.wraps(save)
        def saved(*args: Any, **kwargs: Any) -> None:
            self._found.add(SAVE)
            save(*args, **kwargs)

        module.train = changed
        torch.save = torch.serialization.save = saved

    def batch(self, iterator: Any) -> None:
        """Take an iterator of a DataLoader that is asked for a batch."""
        data = getattr(iterator, "_dataset", None)
        number = self._numbers.setdefault(id(data), len(self._numbers))
        self._found.add(f"{DATA} {number}")
        before = self._passes.get(number)
        if before is None or before() is not iterator:
            self._passes[number] = weakref.ref(iterator)
            if before is not None:
                self._found.add(PASS)

    def take(self) -> list[str]:
        """Return what was done since this was asked last."""
        found = sorted(self._found)
        self._found.clear()
        self._evaluating.clear()
        return found


def unusual(steps: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return of what each step does what fewer than half of them do; the number of a loader is
    nobody's matter then."""
    counts = Counter(each for step in steps for each in step)
    return [
        sorted({each.partition(" ")[0] for each in step if 2 * counts[each] < len(steps)})
        for step in steps
    ]
