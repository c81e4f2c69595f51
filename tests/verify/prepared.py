"""Zygotes and programs that are there at once: forks of a process that has imported torch.

To import torch takes seconds of processor time, and most of what is said about verifications and
profiles takes it several times. Forked by the product's own means, a process has its own session,
variables, folder, output and limits, and goes on as one that has just started; its variables are
those that other processes see too, so that what it leaves behind is found. What is said about how
processes start, and whatever runs from nothing, starts as always.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

if TYPE_CHECKING:
    from torchlint.program.machine.processes import Child
    from torchlint.verify.session.workers import Zygote

_ZYGOTE = "torchlint_inside.verify.inside.zygote"
_LAUNCHER = "torch.distributed.run"
_RECORD = "TORCHLINT_RECORD"
_EARLY = ("PYTHON", "LD_", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "TORCH_")
"""How the names of variables begin that are read while Python and torch start."""
_LATE = frozenset({"PYTHONPATH", "TORCH_EXTENSIONS_DIR"})
"""Those of them that a fork takes as a new process does."""
_MOST = 3
"""How many sets of such variables are prepared for: with and without a number of threads."""
_ROOM = {"TORCHLINT_ROOM": "x" * 30_000}
"""Where a fork writes its own variables: the block is as long as it was at the start."""


def early(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process has read before it can be forked."""
    return {
        name: value
        for name, value in variables.items()
        if name.startswith(_EARLY) and name not in _LATE
    }


class Prepared:
    """Starts processes as forks of ones that it makes when they are first needed, one for each set
    of variables that is read early."""

    def __init__(self) -> None:
        from torchlint.verify.session.workers import Zygote

        self._cold = Zygote._start
        self._stack = ExitStack()
        self._origins: dict[frozenset[tuple[str, str]], Zygote] = {}
        # A test may have changed both by the time of the first start.
        self._base = Path(tempfile.gettempdir())
        self._environment = dict(os.environ)

    def close(self) -> None:
        """End what the others are forks of."""
        self._stack.close()

    @property
    def zygote(self) -> Callable[..., Child]:
        """What to put in the place of `Zygote._start`."""

        def start(
            zygote: Zygote,
            preload: Sequence[str],
            variables: Mapping[str, str],
            typed: Sequence[str],
        ) -> Child:
            site = zygote.site
            words = [str(zygote._listener.path), json.dumps(list(preload))]
            return self.program(
                [site.options.python, "-m", _ZYGOTE, *words, json.dumps(list(typed))],
                cwd=zygote.cwd,
                env=variables,
                log=site.folder / f"z{zygote.number}.log",
                writable=site.writable([site.folder]),
            )

        return start

    def program(
        self,
        command: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        writable: Sequence[Path] | None,
    ) -> Child:
        """Do what `processes.start` does."""
        from torchlint.program.machine import sandbox
        from torchlint.program.machine.processes import adopted, start
        from torchlint.verify.session.workers import Forked

        python, *words = command
        key = frozenset(early(env).items())
        known = key in self._origins or len(self._origins) < _MOST
        same = python == sys.executable and words[:2] != ["-m", _LAUNCHER]
        if not known or not same or not _block()[0]:
            return start(command, cwd=cwd, env=env, log=log, writable=writable)
        if key not in self._origins:
            self._origins[key] = self._made(early(env))
        origin = self._origins[key]

        def begin(env: Mapping[str, str]) -> Forked:
            late = {name: value for name, value in env.items() if name != _RECORD}
            settings = {
                "arguments": [__file__, env.get(_RECORD, ""), *words],
                "cwd": str(cwd),
                "env": late,
                "log": str(log),
                "sandbox": sandbox.__file__,
                "writable": writable and [str(path.resolve()) for path in writable],
            }
            return Forked(origin, int(origin._ask(program=settings)["pid"]))

        return adopted(begin, env=env, log=log)

    def _made(self, variables: Mapping[str, str]) -> Zygote:
        from torchlint.program.machine.workspace import Workspace
        from torchlint.verify.options import Options
        from torchlint.verify.script.warm import COMPILER
        from torchlint.verify.session.site import site_in
        from torchlint.verify.session.workers import Zygote

        workspace = self._stack.enter_context(Workspace(base=self._base))
        site = site_in(workspace, Options(isolation="copy"))
        own = self._environment.items() - early(self._environment).items()
        given = {**dict(own), **variables, **_ROOM, "PYTHONPATH": str(site.inject)}
        with mock.patch.object(Zygote, "_start", self._cold):
            return self._stack.enter_context(Zygote(site, 0, [COMPILER], given))


def _block() -> tuple[int, int]:
    """Return where this process' variables begin and end, as the system shows them; twice 0 where
    it does not say."""
    if sys.platform != "linux":
        return 0, 0
    with open("/proc/self/stat", encoding="utf-8") as stat:  # noqa: PTH123 - before anything else
        fields = stat.read().rpartition(") ")[2].split()
    return int(fields[47]), int(fields[48])  # env_start, env_end: proc_pid_stat(5)


def _show_variables() -> None:
    """Have the system show this process' variables as its own, not as those of what it is a fork
    of."""
    start, end = _block()
    block = b"\0".join(b"%s=%s" % each for each in os.environb.items()) + b"\0"
    assert len(block) < end - start, "there is no room for the variables"
    ctypes.memmove(start, block.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    from torchlint_inside.verify.inside import forked

    record, *arguments = sys.argv[1:]
    if record:
        os.environ[_RECORD] = record
    _show_variables()
    del sys.path[0]
    forked.run(arguments)
