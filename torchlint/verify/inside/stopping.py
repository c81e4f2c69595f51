"""How far the program runs: to an agreed point, or until the places that fixes change have been
reached."""

from __future__ import annotations

import os
import time
from typing import Any

from ...program.inside.imports import module_files


class StoppingPoint:
    """Counts steps of training and batches of evaluation together, as ticks, and says where to
    stop.

    Args (keys of the settings):
        steps: of training, at least; ``least`` of them once ``patience`` seconds have passed.
        until: the tick to stop at; 0 for the program's own end. Absent where the place is looked
        for. explore: seconds after the first tick for which a place that has not run is waited for.
        marks, out: the places, and where `Marks` notes them: see `marks`.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.steps = int(settings.get("steps", 0))
        self.least = int(settings.get("least", self.steps))
        self.patience = float(settings.get("patience", 0.0))
        self.until = settings.get("until")
        self.explore = float(settings.get("explore", 0.0))
        self.ticks = 0
        self.enough = 0
        """The tick at which the steps asked for were done."""
        self.newest = 0
        """The tick before which the last place was reached that had not been before."""
        self._folder = os.path.join(settings.get("out", ""), "marks")
        self._places = {mark[0].partition("-")[0]: mark[1] for mark in settings.get("marks") or ()}
        self._seen: set[str] = set()
        self._begun = 0.0

    def tick(self, steps: int) -> bool:
        """Take the end of a step or of a batch of evaluation; return whether the program goes
        on."""
        self.ticks += 1
        if self.until is not None:
            return not self.until or self.ticks < int(self.until)
        if not self._begun:
            self._begun = time.monotonic()
        late = steps >= self.least and time.monotonic() - self._begun >= self.patience
        if (steps >= self.steps or late) and not self.enough:
            self.enough = self.ticks
        if not self.explore:
            return not self.enough
        self._look()
        if not self.enough:
            return True
        return bool(self._hoped_for()) and time.monotonic() - self._begun < self.explore

    def horizon(self, ended: bool) -> int:
        """Return the tick to stop at so that all that was reached is reached again; 0 for the
        program's own end."""
        if self.until is not None:
            return int(self.until)
        before = len(self._seen)
        self._look()
        if ended and (len(self._seen) > before or not self.enough):
            return 0
        return max(self.enough, self.newest)

    def _look(self) -> None:
        if not self._places:
            return
        try:
            found = {name.partition("-")[0] for name in os.listdir(self._folder)}
        except OSError:
            return
        if found - self._seen:
            self._seen |= found
            self.newest = self.ticks

    def _hoped_for(self) -> set[str]:
        """Places that have not run, in files that this program has imported: others will hardly
        ever run."""
        files = {file for _, file in module_files()}
        return {
            name for name, file in self._places.items() if name not in self._seen and file in files
        }
