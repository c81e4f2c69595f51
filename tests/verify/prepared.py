"""Zygotes that are there at once: forks of one process for all tests, which has imported torch.

A zygote takes seconds of processor time to import torch, and most of what is said about
verifications takes one or two of them. Forked from another one, by the product's own means, it has
its own session, variables, folder, output and limits, and goes on as one that has just started; its
variables are those that other processes see too, so that what it leaves behind is found. What is
said about how zygotes start, and whatever verifies in a process of its own, starts them as always.
"""

from __future__ import annotations

import ctypes
import json
import os
import runpy
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

MODULE = "torchlint_inside.verify.inside.zygote"
_EARLY = ("PYTHON", "LD_", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "TORCH_")
"""How the names of variables begin that are read while Python and torch start."""
_LATE = frozenset({"PYTHONPATH", "TORCH_EXTENSIONS_DIR"})
"""Those of them that a fork takes as a new process does."""
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
    """Starts zygotes as forks of one that it makes when it is first asked."""

    def __init__(self) -> None:
        from torchlint.verify.session.workers import Zygote

        self._cold = Zygote._start
        self._stack = ExitStack()
        self._origin: Zygote | None = None
        # A test may have changed both by the time of the first start.
        self._base = Path(tempfile.gettempdir())
        self._environment = dict(os.environ)
        self._read: dict[str, str] = {}

    def close(self) -> None:
        """End the one that the others are forks of."""
        self._stack.close()

    @property
    def fork(self) -> Callable[..., Child]:
        """What to put in the place of `Zygote._start`."""
        return lambda zygote, *given: self.start(zygote, *given)

    def start(
        self,
        zygote: Zygote,
        preload: Sequence[str],
        variables: Mapping[str, str],
        typed: Sequence[str],
    ) -> Child:
        """Do what `Zygote._start` does."""
        if zygote.site.options.python != sys.executable or sys.platform != "linux":
            return self._cold(zygote, preload, variables, typed)
        origin = self._origin = self._origin or self._made()
        if early(variables) != self._read:
            return self._cold(zygote, preload, variables, typed)
        from torchlint.program.machine import sandbox
        from torchlint.program.machine.processes import adopted
        from torchlint.verify.session.workers import Forked

        log = zygote.site.folder / f"z{zygote.number}.log"
        writable = zygote.site.writable([zygote.site.folder])
        words = [str(zygote._listener.path), json.dumps(list(preload)), json.dumps(list(typed))]

        def begin(env: Mapping[str, str]) -> Forked:
            settings = {
                "arguments": [__file__, *words],
                "cwd": str(zygote.cwd),
                "env": dict(env),
                "log": str(log),
                "sandbox": sandbox.__file__,
                "writable": None if writable is None else [str(path.resolve()) for path in writable],
            }
            return Forked(origin, int(origin._ask(program=settings)["pid"]))

        return adopted(begin, env=variables, log=log)

    def _made(self) -> Zygote:
        from torchlint.program.machine.workspace import Workspace
        from torchlint.verify.options import Options
        from torchlint.verify.script.warm import COMPILER
        from torchlint.verify.session.site import site_in
        from torchlint.verify.session.workers import Zygote

        workspace = self._stack.enter_context(Workspace(base=self._base))
        site = site_in(workspace, Options(isolation="copy", env=_ROOM))
        with (
            mock.patch.dict(os.environ, self._environment, clear=True),
            mock.patch.object(Zygote, "_start", self._cold),
        ):
            made = self._stack.enter_context(Zygote(site, 0, [COMPILER]))
            self._read = early(made._variables())
            return made


def _show_variables() -> None:
    """Have the system show this process' variables as its own, not as those of what it is a fork
    of."""
    with open("/proc/self/stat", encoding="utf-8") as stat:  # noqa: PTH123 - before anything else
        fields = stat.read().rpartition(") ")[2].split()
    start, end = (int(each) for each in fields[47:49])  # env_start, env_end: proc_pid_stat(5)
    block = b"\0".join(b"%s=%s" % each for each in os.environb.items()) + b"\0"
    assert len(block) < end - start, "there is no room for the variables"
    ctypes.memmove(start, block.ljust(end - start, b"\0"), end - start)


if __name__ == "__main__":
    _show_variables()
    del sys.path[0]
    runpy._run_module_as_main(MODULE)  # type: ignore[attr-defined] # as forked.run does
