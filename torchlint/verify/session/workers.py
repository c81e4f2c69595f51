"""Resident workers: a zygote in the user's interpreter has imported torch, and forks a process for
each program.

A worker that crashes, hangs or runs out of memory costs its own program and nothing else; each way
to end is told apart and said in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from torchlint.base.errors import UsageError
from torchlint.program.errors import NoTorchError
from torchlint.program.machine.environment import child_environment
from torchlint.program.machine.processes import Child
from torchlint.verify.inside.channel import Channel
from torchlint.verify.session.site import Site
from torchlint.verify.session.wire import Listener, ProgramError, asked, ending

IMPORT_SECONDS = 120.0
"""How long ``import torch`` may take, on a cold disk and a busy machine."""
FORK_SECONDS = 20.0
_GRACE = 0.5
"""Seconds that a worker which hung up may take to end, so that its exit code tells why."""


class Zygote:
    """A process that has imported torch and forks workers; use it with ``with``.

    Args:
        site: where.
        number: tells zygotes of one run apart.
        preload: modules imported before the first fork, if they are there.

    Raises:
        UsageError: this system cannot fork.
    """

    def __init__(self, site: Site, number: int = 0, preload: Sequence[str] = ()) -> None:
        if sys.platform == "win32":
            raise UsageError("this mode needs processes that fork, which Windows has not: use WSL")
        self.site = site
        self.number = number
        self.cwd = (
            site.folder / "cwd"
        )  # empty: a zygote in the project would import the project's own json.py
        self.cwd.mkdir(exist_ok=True)
        self._workers = 0
        self._listener = Listener(site.folder / f"z{number}")
        self.child = self._start(preload)
        self._channel: Channel | None = None
        self.facts: dict[str, Any] = {}

    def ready(self) -> Channel:
        """Wait until torch is imported; several zygotes import it at the same time.

        Raises:
            NoTorchError: it does not get that far.
        """
        if self._channel is None:
            try:
                self._channel, self.facts = self._called(IMPORT_SECONDS)
            except (OSError, ValueError):
                self.child.stop(0.5)
                python = self.site.options.python
                raise NoTorchError(f"{python} cannot import torch: {self._last_line()}") from None
        return self._channel

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the zygote and with it all workers."""
        if self._channel is not None:
            self._channel.close()
        self._listener.close()
        self.child.stop(1.0)

    def fork(self, cwd: Path | None = None) -> Worker:
        """Return a new worker; use it with ``with``.

        Raises:
            ProgramError: there is no room for one more process.
            NoTorchError: the zygote does not get as far as having imported torch.
        """
        self._workers += 1
        name = f"{self.number}-{self._workers}"
        log = self.site.folder / f"w{name}.log"
        threads = self.site.options.threads
        settings = {"id": name, "log": str(log), "threads": threads, "cwd": str(cwd or self.cwd)}
        own = self.ready()
        try:
            own.send({"fork": settings})
            answer = own.receive(FORK_SECONDS)
            if answer is None:
                raise ConnectionError
            pid = int(answer["pid"])
            channel, hello = self._called(FORK_SECONDS, name, pid)
        except (OSError, ValueError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}" if self._lives() else self._last_line()
            raise ProgramError(f"no worker could be started: {reason}", "ended") from None
        worker = Worker(self, channel, pid)
        if "error" in hello:
            worker.close()
            raise ProgramError(f"no worker could be started: {hello['error']}", "ended")
        return worker

    def end(self, pid: int, grace: float) -> int | None:
        """Reap a worker; return its exit code or minus the signal; None where the zygote is gone
        too."""
        with contextlib.suppress(OSError, ValueError):
            own = self.ready()
            own.send({"end": pid, "grace": grace})
            answer = own.receive(grace + 10.0)
            if answer is not None:
                return int(answer["status"])
        return None

    def _start(self, preload: Sequence[str]) -> Child:
        site, options = self.site, self.site.options
        given = {**os.environ, **options.env}.get("PYTHONPATH", "")
        path = os.pathsep.join([str(site.inject), *filter(None, [given])])
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if options.device in ("cpu", "virtual-cuda") else {}
        extra = {**hidden, **options.env, "PYTHONPATH": path}
        return site.start(
            [
                "-m",
                "torchlint_inside.verify.inside.zygote",
                str(self._listener.path),
                json.dumps(list(preload)),
            ],
            cwd=self.cwd,
            env=child_environment(os.environ, site.folder, threads=options.threads, extra=extra),
            log=site.folder / f"z{self.number}.log",
            own=[site.folder],
        )

    def _called(
        self, seconds: float, worker: str = "", pid: int = 0
    ) -> tuple[Channel, dict[str, Any]]:
        """Return the next connection and what it says first: of the zygote, or of a worker that it
        has forked."""
        while True:
            channel = self._listener.wait(
                seconds, lambda: self._lives() and not (pid and self._ended(pid))
            )
            said = channel.receive(seconds)
            if said is not None and (not worker or "error" in said or said.get("worker") == worker):
                return channel, said
            channel.close()  # of a worker that was given up

    def _lives(self) -> bool:
        return self.child.poll() is None

    def _ended(self, pid: int) -> bool:
        own = self.ready()
        own.send({"look": pid})
        return bool((own.receive(FORK_SECONDS) or {}).get("ended"))

    def _last_line(self) -> str:
        return self.child.tail(1).strip() or "it said nothing"


class Worker:
    """One program in a process of its own; use it with ``with``. After an error of its end it is
    gone."""

    def __init__(self, zygote: Zygote, channel: Channel, pid: int) -> None:
        self._zygote = zygote
        self._channel = channel
        self._pid = pid
        self._open = True
        self.timeout = zygote.site.options.timeout

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(self, **message: object) -> dict[str, Any]:
        """Send a word and return the answer (see `inside.worker`), within `timeout` seconds.

        Raises:
            ProgramError: the program failed, or the worker is gone.
        """
        try:
            return asked(self._channel, message, self.timeout)
        except ProgramError as error:
            if error.kind == "ended":
                raise ending(self.close(_GRACE)) from None
            if error.kind == "timeout":
                self.close()
            raise

    def load(self, program: Mapping[str, object]) -> dict[str, Any]:
        """Load a program; see `inside.example` and `inside.function` for its settings."""
        return self.ask(load=dict(program))

    def close(self, grace: float = 0.0) -> int | None:
        """End it; return its exit code, or minus the signal that ended it."""
        if not self._open:
            return None
        self._open = False
        self._channel.close()
        return self._zygote.end(self._pid, grace)
