"""The recorder that counts what steps of the program wait for and copy, and ends it after a few: on
the ledger's virtual device where there is no GPU.

It takes no times, as the ledger changes them.
"""

from __future__ import annotations

import json
from typing import Any

from .imports import after_import
from .recording import Recording


def install(settings_path: str) -> None:
    """Read the settings, and wait for torch."""
    with open(settings_path, encoding="utf-8") as source:  # noqa: PTH123 - keeps start-up small
        counting = Counting(json.load(source))
    after_import("torch", counting.torch_imported)


class Counting(Recording):
    """What one process of the program has done so far.

    Args (keys of the settings, beside those of `Recording`):
        skipped, steps: how many steps come before those that are counted, and how many are.
        operations: what the ledger reads of the table of operations.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(settings)
        self.ledger: Any = None

    def _hook(self) -> None:
        self.ledger = self.started_ledger()
        super()._hook()

    def _step(self) -> None:
        self.ledger.mark_step()
        if self.steps >= int(self.settings["skipped"]) + int(self.settings["steps"]):
            self._end()

    def dump(self) -> None:
        """Write this process' counts, once; nothing where it did no step."""
        if self.dumped or not self.steps:
            return
        self.dumped = True
        self.ledger.stop()
        rank, _ = self.rank()
        self.write({"rank": rank, "counts": self.ledger.summary(int(self.settings["skipped"]))})
