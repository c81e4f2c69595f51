"""Resident workers: a zygote in the user's interpreter has imported torch, and forks a process for
each program.

A worker that crashes, hangs or runs out of memory costs its own program and nothing else; each way
to end is told apart and said in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torchlint.base.errors import UsageError
from torchlint.program.errors import NoTorchError
from torchlint.program.machine import sandbox
from torchlint.program.machine.environment import child_environment
from torchlint.program.machine.processes import Child, adopted
from torchlint.verify.inside.channel import Channel
from torchlint.verify.session.site import Site
from torchlint.verify.session.wire import Listener, ProgramError, asked, ending

IMPORT_SECONDS = 120.0
"""How long ``import torch`` may take, on a cold disk and a busy machine."""
FORK_SECONDS = 20.0
CACHE = "cache"
"""The folder of a zygote's caches, which modules that it imported go on to use in programs."""
_GRACE = 0.5
"""Seconds that a worker which hung up may take to end, so that its exit code tells why."""


class Zygote:
    """A process that has imported torch and forks workers; use it with ``with``.

    Args:
        site: where.
        number: tells zygotes of one run apart.
        preload: modules imported before the first fork, if they are there.
        variables: of a training program; those of a worker by default.
        typed: what ``sys.argv`` is while modules are imported.

    Raises:
        UsageError: this system cannot fork.
    """

    def __init__(
        self,
        site: Site,
        number: int = 0,
        preload: Sequence[str] = (),
        variables: Mapping[str, str] | None = None,
        typed: Sequence[str] = (),
    ) -> None:
        if sys.platform == "win32":
            raise UsageError("this mode needs processes that fork, which Windows has not: use WSL")
        self.site = site
        self.number = number
        self.cwd = (
            site.folder / "cwd"
        )  # empty: a zygote in the project would import the project's own json.py
        self.cwd.mkdir(exist_ok=True)
        self._workers = self._asked = 0
        self._listener = Listener(site.folder / f"z{number}")
        try:
            self.child = self._start(preload, variables or self._variables(), typed)
        except UsageError:
            self._listener.close()
            raise
        self._channel: Channel | None = None
        self.facts: dict[str, Any] = {}

    def ready(self, seconds: float = IMPORT_SECONDS) -> Channel:
        """Wait until torch is imported; several zygotes import it at the same time.

        Raises:
            TimeoutError: it did not get that far in so many seconds, fewer than it may take.
            NoTorchError: it does not get that far.
        """
        if self._channel is None:
            try:
                self._channel, self.facts = self._called(min(seconds, IMPORT_SECONDS))
            except (OSError, ValueError):
                if self._lives() and seconds < IMPORT_SECONDS:
                    raise TimeoutError("torch is being imported") from None
                self.child.stop(0.5)
                python = self.site.options.python
                raise NoTorchError(f"{python} cannot import torch: {self._last_line()}") from None
        return self._channel

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *raised: object) -> None:
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
        self.ready()
        try:
            pid = int(self._ask(fork=settings)["pid"])
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
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(self._ask(grace + 10.0, end=pid, grace=grace)["status"])
        return None

    def code(self, pid: int) -> int:
        """Return the exit code of a program that has ended, or minus the signal; its number stays
        taken."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            return int(self._ask(look=pid)["status"])
        return -signal.SIGKILL  # the zygote is gone, and all its programs died with it

    def program(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
        own: Sequence[Path],
    ) -> Child:
        """Start a training program in a forked process, as `Site.start` does in a new one; see
        `inside.forked`.

        Raises:
            ProgramError: the zygote is gone.
        """
        writable = self.site.writable([*own, self.site.folder / CACHE])

        def begin(env: Mapping[str, str]) -> Forked:
            settings = {
                "arguments": list(arguments),
                "cwd": str(cwd),
                "env": dict(env),
                "log": str(log),
                "sandbox": sandbox.__file__,
                "writable": None
                if writable is None
                else [str(path.resolve()) for path in writable if path.exists()],
            }
            self.ready()
            return Forked(self, int(self._ask(program=settings)["pid"]))

        log.touch()
        try:
            return adopted(begin, env=env, log=log)
        except (OSError, ValueError, KeyError) as error:
            raise ProgramError(f"no program could be started: {error}", "ended") from None

    def _ask(self, seconds: float = FORK_SECONDS, **message: object) -> dict[str, Any]:
        """Send a word and return its answer; that of an earlier one, which an interrupt left
        behind, is passed over."""
        own = self.ready()
        self._asked += 1
        own.send({**message, "number": self._asked})
        while (answer := own.receive(seconds)) is not None:
            if answer.get("number") == self._asked:
                return answer
        raise ConnectionError("the zygote is gone")

    def _variables(self) -> dict[str, str]:
        site, options = self.site, self.site.options
        given = {**os.environ, **options.env}.get("PYTHONPATH", "")
        path = os.pathsep.join([str(site.inject), *filter(None, [given])])
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if options.device in ("cpu", "virtual-cuda") else {}
        extra = {**hidden, **options.env, "PYTHONPATH": path}
        return child_environment(os.environ, site.folder, threads=options.threads, extra=extra)

    def _start(
        self, preload: Sequence[str], variables: Mapping[str, str], typed: Sequence[str]
    ) -> Child:
        return self.site.start(
            [
                "-m",
                "torchlint_inside.verify.inside.zygote",
                str(self._listener.path),
                json.dumps(list(preload)),
                json.dumps(list(typed)),
            ],
            cwd=self.cwd,
            env=variables,
            log=self.site.folder / f"z{self.number}.log",
            own=[self.site.folder],
        )

    def _called(
        self, seconds: float, worker: str = "", pid: int = 0
    ) -> tuple[Channel, dict[str, Any]]:
        """Return the next connection and what it says first: of the zygote, or of a worker that it
        has forked."""
        while True:
            channel = self._listener.wait(
                seconds, lambda: self._lives() and not (pid and self._is_ended(pid))
            )
            said = channel.receive(seconds)
            if said is not None and (not worker or "error" in said or said.get("worker") == worker):
                return channel, said
            channel.close()  # of a worker that was given up

    def _lives(self) -> bool:
        return self.child.poll() is None

    def _is_ended(self, pid: int) -> bool:
        return self._ask(look=pid).get("status") is not None

    def _last_line(self) -> str:
        return self.child.tail(1).strip() or "it said nothing"


class Forked:
    """A forked training program, as `processes.Child` sees a `subprocess.Popen`: its exit code is
    with the zygote, whose child it is."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self.pid = pid
        self._zygote = zygote
        self._code: int | None = None
        self._let_go = False
        self._end = os.pidfd_open(pid)

    def look(self) -> int | None:
        """Return the exit code, or minus the signal, once it has ended; None while it runs."""
        if self._code is None and select.select([self._end], [], [], 0)[0]:
            self._code = self._zygote.code(self.pid)
        return self._code

    def poll(self) -> int | None:
        """Return the same, and let go of its number."""
        if self.look() is not None and not self._let_go:
            self._let_go = True
            os.close(self._end)
            self._zygote.end(self.pid, 0.0)
        return self._code

    def kill(self) -> None:
        """End it at once."""
        if self._code is None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self._end, signal.SIGKILL)


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

    def __exit__(self, *raised: object) -> None:
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
