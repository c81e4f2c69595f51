"""Warm processes that programs are forked from: they have imported torch, and what the program's
files import at their top, once for all runs."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from torchlint.base.errors import TorchlintError
from torchlint.program.command import LAUNCHERS, Command
from torchlint.program.machine.environment import child_environment
from torchlint.verify.script.preload import Imports, common, imports_of
from torchlint.verify.session.site import Site
from torchlint.verify.session.workers import Zygote

COMPILER = "torch._dynamo"
"""What an optimizer's first step imports, whether the program compiles or not."""


class Warm:
    """The zygotes of one verification: one a launch, as each has an address layout of its own, and
    the first for all else. Where a program cannot be forked safely, it is started cold.

    Args:
        site: where.
        command: the program.
        original: the user's project; cwd: where the user stands.
        device: "cpu" or "cuda": what the program will find.
        trees: the versions of the project that are run.
    """

    def __init__(
        self,
        site: Site,
        command: Command,
        original: Path,
        cwd: Path,
        device: str,
        trees: Sequence[Path],
    ) -> None:
        self.site = site
        self.command = command
        self.original = original
        self.device = device
        self.seconds = 0.0
        """What it took until the first one was there."""
        self.why_cold = "" if _can_fork(command) else "this system or launcher starts each anew"
        self._imports = Imports()
        if not self.why_cold:
            place = cwd.relative_to(original)
            self._imports = common([imports_of(tree, tree / place, command) for tree in trees])
        self.why_cold = self.why_cold or self._imports.early
        self._preloads = [(COMPILER, *self._imports.modules), (COMPILER,)]
        self._stack = ExitStack()
        self._zygotes: dict[int, Zygote] = {}
        self._comparing: Zygote | None = None
        self._made = 0
        self._begun = time.monotonic()

    def start(self, numbers: Iterable[int]) -> None:
        """Start zygotes that are not there yet, all at once; `zygote` waits for them."""
        try:
            for number in numbers:
                if not self.why_cold and number not in self._zygotes:
                    self._zygotes[number] = self._started(self._preloads[0])
        except TorchlintError as error:  # the interpreter cannot be run; the doctor says so
            self.why_cold = str(error)

    def missing(self, numbers: Iterable[int]) -> bool:
        """Say whether zygotes would have to be started and waited for."""
        return not self.why_cold and any(number not in self._zygotes for number in numbers)

    def wait(self, numbers: Iterable[int], end: float) -> None:
        """Wait until zygotes are there; one that imports in another's measured time disturbs it.

        Raises:
            TimeoutError: they were not by `end` (`time.monotonic`).
        """
        wanted = list(numbers)
        self.start(wanted)
        for number in wanted:
            self.zygote(number, end)

    def zygote(self, number: int, end: float = math.inf) -> Zygote | None:
        """Return what programs of this launch are forked from; None where they are started cold.

        Raises:
            TimeoutError: it was not there by `end` (`time.monotonic`).
        """
        self.start([number])
        while not self.why_cold:
            zygote = self._zygotes[number]
            try:
                zygote.ready(max(0.0, end - time.monotonic()))
            except TorchlintError as error:  # the program will say it, or the doctor
                self.why_cold = str(error)
                break
            self.seconds = self.seconds or time.monotonic() - self._begun
            reason = zygote.facts["unsafe"] or self._shadowed(zygote.facts["modules"])
            if not reason:
                return zygote
            # Do without the program's imports, or else without forks.
            self._zygotes.clear()
            del self._preloads[0]
            if not self._preloads:
                self.why_cold = reason
            self.start([number])
        return None

    def comparing(self, end: float) -> Zygote:
        """Return the one that results are compared in.

        Raises:
            TimeoutError: it was not there by `end` (`time.monotonic`).
        """
        zygote = self.zygote(0, end)
        if zygote is None:
            if self._comparing is None:
                self._made += 1
                self._comparing = self._stack.enter_context(Zygote(self.site, self._made))
            zygote = self._comparing
            zygote.ready(max(0.0, end - time.monotonic()))
        return zygote

    def be_cold(self, reason: str) -> None:
        """Start programs cold from now on."""
        self.why_cold = reason

    def close(self) -> None:
        """End all zygotes, and with them what was forked from them."""
        self._zygotes.clear()
        self._stack.close()

    def _started(self, preload: Sequence[str]) -> Zygote:
        self._made += 1
        typed = self.command.arguments
        made = Zygote(self.site, self._made, preload, self._variables(), typed)
        return self._stack.enter_context(made)

    def _variables(self) -> Mapping[str, str]:
        own = self.site.options.env
        given = {**os.environ, **own}.get("PYTHONPATH", "").split(os.pathsep)
        kept = [e for e in given if e and not Path(e).resolve().is_relative_to(self.original)]
        extra = {
            **own,
            "PYTHONPATH": os.pathsep.join([str(self.site.inject), *kept]),
            # Whether there is a GPU is then asked of the driver's manager, not of CUDA, which does
            # not outlive a fork.
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        threads = self.site.options.threads if self.device == "cpu" else None
        return child_environment(os.environ, self.site.folder, threads=threads, extra=extra)

    def _shadowed(self, modules: Sequence[str]) -> str:
        """Say which module of the zygote the program would find among its own files."""
        both = self._imports.own & set(modules)
        return f"the project has a file with the name of {min(both)}" if both else ""


def _can_fork(command: Command) -> bool:
    launched = command.arguments[:1] == ("-m",) and command.arguments[1] in LAUNCHERS.values()
    if launched or not sys.platform.startswith("linux"):
        return False
    try:
        os.close(os.pidfd_open(os.getpid()))  # Linux 5.3
    except (AttributeError, OSError):
        return False
    return True
