"""What the examples of one rule compute and would move between host and device; each run in a fresh
worker."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from torchlint.api import ledger_rows
from torchlint.verify.model import Counts, Equality, Expected, Level
from torchlint.verify.paired.rule_page import Page
from torchlint.verify.paired.sessions import Session
from torchlint.verify.session.counts import side_by_side
from torchlint.verify.session.promise import Comparison, comparison, judged, together
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.session.workers import Worker

STANDIN, VIRTUAL = "a CPU stand-in for CUDA", "a virtual CUDA device"
INSTEAD = ("", STANDIN, VIRTUAL)
"""What an example runs on that needs CUDA, in the order of trying: ``""`` is the machine as it
is."""
_ON_CUDA = re.compile(r"cuda|pin_memory")
_NO_FIX = "for information: no fix is applied to this example"
_NOTHING = "the example binds and changes nothing that could be compared"


class ExampleRunner:
    """Runs the examples of one rule's page.

    Args:
        live: forks the workers.
        page: the rule's page.

    Attributes:
        instead: what stands in for CUDA, one of `INSTEAD`.
    """

    def __init__(self, live: Session, page: Page) -> None:
        self.live = live
        self.page = page
        self.seed = live.options.seed
        self.instead = ""

    def program(self, side: str, **more: object) -> dict[str, object]:
        """Return the settings (see `inside.example`) of the timed program of one side."""
        page = self.page
        return {
            "kind": "example",
            "seed": self.seed,
            "setup": page.setup,
            "prepare": page.prepare,
            "side": side,
            "timed": page.timed,
            "whole": False,
            "standin": self.instead == STANDIN,
            "ledger": self.instead == VIRTUAL,
            "operations": ledger_rows(),
            "root": str(self.live.zygotes[0].cwd),
            "file": str(self.live.zygotes[0].cwd / f"{page.info.code}.py"),
            **more,
        }

    def absent(self) -> str:
        """Return a package that the examples import and the interpreter has not; empty where
        nothing lacks."""
        with self.live.fork() as worker:
            lacking = worker.ask(find=sorted(self.page.imports))["absent"]
        return str(lacking[0]) if lacking else ""

    def equality(self, fixes: Sequence[str]) -> Equality:
        """Compare Bad and Good of the first example, and of every other one that a fix leads from
        and to.

        Sets `instead` where the examples fail as they are, for want of a CUDA device.

        Args:
            fixes: per example "safe", "unsafe" or "".

        Raises:
            ProgramError: an example fails.
        """
        found = []
        for index, fix in enumerate(fixes):
            if fix or index == 0:
                title = f"example {index + 1}" if len(fixes) > 1 else ""
                found.append((title, self._somewhere(index, fix)))
        return together(found)

    def _somewhere(self, index: int, fix: str) -> Equality:
        """Compare on what there is, else with the CPU in the place of CUDA, else on a virtual CUDA
        device."""
        try:
            return self._compared(index, fix)
        except ProgramError as error:
            if error.kind != "raised" or not _ON_CUDA.search(self.page.text):
                raise
            told = error
        for instead in INSTEAD[INSTEAD.index(self.instead) + 1 :]:
            self.instead = instead
            try:
                return self._compared(index, fix)
            except ProgramError as error:
                # What fails on the stand-in says more than that there is no CUDA, and more than a
                # gap of the ledger.
                told = error if instead == STANDIN else told
        raise told

    def _compared(self, index: int, fix: str) -> Equality:
        bad, good = self.page.pairs[index]
        expected = Expected.BITWISE if fix == "safe" else Expected(self.page.info.equivalence)
        redrawn = expected is Expected.RNG
        files = [
            str(self.live.site.folder / f"{self.page.info.code}-{name}.pt")
            for name in ("a", "b", "c")
        ]
        own = self._checked(index, bad, files[0])
        others = self._checked(index, good, files[2])
        with self.live.fork() as worker:
            # The original once more; the same worker compares, as it is through with the example.
            self._check_in(worker, index, bad, files[1])
            itself = self._compare(worker, files[0], files[1])
            fixed = self._compare(worker, files[0], files[2], band=itself.band, redrawn=redrawn)
        equality = judged(fixed, itself, expected, safe=fix == "safe")
        if not own & others:
            equality = replace(
                equality, level=Level.UNKNOWN, ok=True, notes=(*equality.notes, _NOTHING)
            )
        if not fix:
            equality = replace(equality, ok=True, notes=(*equality.notes, _NO_FIX))
        return equality

    def _checked(self, index: int, side: str, path: str) -> frozenset[str]:
        """Run one side from the start, save its snapshot, and return the names of values that it
        bound or changed."""
        with self.live.fork() as worker:
            return self._check_in(worker, index, side, path)

    def _check_in(self, worker: Worker, index: int, side: str, path: str) -> frozenset[str]:
        more: dict[str, object] = {"whole": True}
        if index:  # sizes and statements of Measure are made for the first example
            more |= {"prepare": "", "timed": ""}
        worker.load(self.program(side, **more))
        return frozenset(worker.ask(check=path, seed=self.seed)["told"])

    def _compare(self, worker: Worker, before: str, after: str, **how: object) -> Comparison:
        # All names of an example are compared, also those that a fix keeps on the device.
        shown = {"shared": True, "anywhere": True, **how}
        return comparison(worker.ask(compare=[before, after], how=shown))

    def _counted(self, side: str) -> Mapping[str, Any]:
        with self.live.fork() as worker:
            worker.load(self.program(side, standin=False, ledger=True))
            found: Mapping[str, Any] = worker.ask(count=True)["counts"]
            return found

    def counts(self) -> Counts:
        """Return the traffic of one timed run as the virtual-CUDA ledger predicts it, or why there
        is none."""
        summaries = []
        for side in self.page.pairs[0]:
            try:
                told = self._counted(side)
            except ProgramError as error:
                return Counts(
                    "virtual-cuda", unavailable=f"the example does not run under it: {error}"
                )
            if told.get("unavailable"):
                return Counts("virtual-cuda", unavailable=str(told["unavailable"]))
            summaries.append(told)
        before, after = summaries
        return side_by_side("virtual-cuda", before, after)
