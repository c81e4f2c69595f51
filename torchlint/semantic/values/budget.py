"""Which answers were cut short for want of budget. A part of `Values`."""

from __future__ import annotations


class Budgeted:
    """Counts the times that an answer was cut short, and knows of which remembered answers that is
    true.

    What is made without a count is *full*: it is the same with any more budget, and need not be
    made again.
    """

    def __init__(self) -> None:
        self._short: set[tuple[object, ...]] = set()
        self._open: set[tuple[object, ...]] = set()
        self.asked = 0
        """How often an answer was wanted that may depend on budget."""
        self.starved = 0
        """How often one was cut short."""
        self.unfinished = 0
        """How often one was used that was still being worked out."""

    def starve(self) -> None:
        """Take note that an answer would have been another with more budget."""
        self.starved += 1

    def _begin(self, key: tuple[object, ...]) -> int:
        """Take note that what is remembered under `key` is being made: until it is done, it counts
        as cut short. Return how often that happened so far, for `_end`."""
        self._short.add(key)
        self._open.add(key)
        return self.starved

    def _end(self, key: tuple[object, ...], before: int) -> None:
        """Take note that it is made, and whether it was cut short since."""
        self._open.discard(key)
        if self.starved == before:
            self._short.discard(key)

    def _used(self, key: tuple[object, ...]) -> None:
        """Take note that what is remembered under `key` is used."""
        if key in self._short:
            self.starved += 1
        if key in self._open:
            self.unfinished += 1
