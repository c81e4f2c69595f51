"""The parent's side of resident workers: a zygote in the user's interpreter, and the workers that it forks.

A worker that crashes, hangs or runs out of memory costs its own program and nothing else; each way to end is told
apart and said in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from torchlint.base.errors import UsageError
from torchlint.verify.errors import NoTorchError
from torchlint.verify.inside.channel import Channel
from torchlint.verify.machine.environment import child_environment
from torchlint.verify.machine.processes import Child, start
from torchlint.verify.options import Options

IMPORT_SECONDS = 120.0
"""How long ``import torch`` may take, on a cold disk and a busy machine."""
FORK_SECONDS = 20.0
_POLL = 0.05
_GRACE = 0.5
"""Seconds that a worker which hung up may take to end, so that its exit code tells why."""


class WorkerError(Exception):
    """A program could not be measured. The message is one line.

    Args:
        message: what happened.
        kind: "raised" (the program raised it), "usage" (the request does not fit the program), "empty" (there is
            nothing to time), "memory", "timeout", "died" (the process ended), "unsupported".
        where: ``"file:line"`` in the user's code, as far as known.
        missing: the module that could not be imported.
    """

    def __init__(self, message: str, kind: str, where: str = "", missing: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.where = where
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Place:
    """Where zygotes work.

    Args:
        folder: of the run: sockets, logs and snapshots go there; its path is short (see `workspace.Workspace`).
        inject: the folder that holds ``torchlint_inside``.
        cwd: where programs start.
        options: interpreter, threads, variables, folders that may be written.
        landlock: whether writes elsewhere are refused.
        cpu: whether GPUs are hidden.
    """

    folder: Path
    inject: Path
    cwd: Path
    options: Options
    landlock: bool
    cpu: bool = False


class Zygote:
    """A process that has imported torch and forks workers; use it with ``with``.

    Args:
        place: where.
        number: tells zygotes of one run apart.
        preload: modules imported before the first fork, if they are there.

    Raises:
        UsageError: this system cannot fork.
    """

    def __init__(self, place: Place, number: int = 0, preload: Sequence[str] = ()) -> None:
        if sys.platform == "win32":
            raise UsageError("this mode needs processes that fork, which Windows has not: use WSL")
        self.place = place
        self.number = number
        self._workers = 0
        self._address = place.folder / f"z{number}"
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._server.bind(str(self._address))
        self._server.listen(4)
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
                self._channel, self.facts = self._accept(IMPORT_SECONDS)
            except (OSError, ValueError):
                self.child.stop(0.5)
                python = self.place.options.python
                raise NoTorchError(f"{python} cannot import torch: {self._last_line()}") from None
        return self._channel

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the zygote and with it all workers."""
        if self._channel is not None:
            self._channel.close()
        self._server.close()
        self.child.stop(1.0)

    def fork(self, cwd: Path | None = None) -> Worker:
        """Return a new worker.

        Raises:
            WorkerError: there is no room for one more process.
            NoTorchError: the zygote does not get as far as having imported torch.
        """
        self._workers += 1
        name = f"{self.number}-{self._workers}"
        log = self.place.folder / f"w{name}.log"
        threads = self.place.options.threads
        settings = {"id": name, "log": str(log), "threads": threads, "cwd": str(cwd or self.place.cwd)}
        own = self.ready()
        try:
            own.send({"fork": settings})
            answer = own.receive(FORK_SECONDS)
            if answer is None:
                raise ConnectionError
            channel, hello = self._accept(FORK_SECONDS, name, int(answer["pid"]))
        except (OSError, ValueError, KeyError) as error:
            reason = f"{type(error).__name__}: {error}" if self.child.poll() is None else self._last_line()
            raise WorkerError(f"no worker could be started: {reason}", "died") from None
        worker = Worker(self, channel, int(answer["pid"]), log)
        if "error" in hello:
            worker.close()
            raise WorkerError(f"no worker could be started: {hello['error']}", "died")
        return worker

    def end(self, pid: int, grace: float) -> int | None:
        """Reap a worker; return its exit code or minus the signal; None where the zygote is gone too."""
        with contextlib.suppress(OSError, ValueError):
            own = self.ready()
            own.send({"end": pid, "grace": grace})
            answer = own.receive(grace + 10.0)
            if answer is not None:
                return int(answer["status"])
        return None

    def _start(self, preload: Sequence[str]) -> Child:
        place, options = self.place, self.place.options
        path = [str(place.inject), *filter(None, [os.environ.get("PYTHONPATH", "")])]
        extra = {"PYTHONPATH": os.pathsep.join(path), **({"CUDA_VISIBLE_DEVICES": ""} if place.cpu else {})}
        return start(
            [options.python, "-m", "torchlint_inside.zygote", str(self._address), json.dumps(list(preload))],
            cwd=place.cwd,
            env=child_environment(os.environ, place.folder, threads=options.threads, extra={**extra, **options.env}),
            log=place.folder / f"z{self.number}.log",
            writable=[place.folder, *options.allow_write] if place.landlock else None,
        )

    def _accept(self, seconds: float, worker: str = "", pid: int = 0) -> tuple[Channel, dict[str, Any]]:
        """Return the next connection and what it says first: of the zygote, or of a worker that it has forked."""
        end = time.monotonic() + seconds
        self._server.settimeout(_POLL)
        while time.monotonic() < end:
            try:
                connection, _ = self._server.accept()
            except TimeoutError:
                if self.child.poll() is not None or (pid and self._ended(pid)):
                    break
                continue
            channel = Channel(connection)
            said = channel.receive(seconds)
            if said is not None and (not worker or "error" in said or said.get("worker") == worker):
                return channel, said
            channel.close()  # of a worker that was given up
        raise ConnectionError("nobody has called")

    def _ended(self, pid: int) -> bool:
        own = self.ready()
        own.send({"look": pid})
        return bool((own.receive(FORK_SECONDS) or {}).get("ended"))

    def _last_line(self) -> str:
        return self.child.tail(1).strip() or "it said nothing"


class Worker:
    """One program in a process of its own. After any `WorkerError` but "raised", "usage" and "empty" it is gone."""

    def __init__(self, zygote: Zygote, channel: Channel, pid: int, log: Path) -> None:
        self._zygote = zygote
        self._channel = channel
        self._pid = pid
        self._log = log
        self._open = True

    def ask(self, timeout: float, **message: object) -> dict[str, Any]:
        """Send a word and return the answer (see `inside.worker`).

        Raises:
            WorkerError: the program failed, or the worker is gone.
        """
        try:
            self._channel.send(message)
            answer = self._channel.receive(timeout)
        except TimeoutError:
            self.close()
            raise WorkerError(f"timed out after {timeout:g} s", "timeout") from None
        except (OSError, ValueError):
            answer = None
        if answer is None:
            raise self._death(self.close(_GRACE))
        if "error" in answer:
            raise WorkerError(
                str(answer["error"]), str(answer["kind"]), str(answer.get("where", "")), str(answer.get("missing", ""))
            )
        return answer

    def load(self, timeout: float, program: Mapping[str, object]) -> dict[str, Any]:
        """Load a program; see `inside.example` and `inside.function` for its settings."""
        return self.ask(timeout, load=dict(program))

    def close(self, grace: float = 0.0) -> int | None:
        """End it; return its exit code, or minus the signal that ended it."""
        if not self._open:
            return None
        self._open = False
        self._channel.close()
        return self._zygote.end(self._pid, grace)

    def _death(self, code: int | None) -> WorkerError:
        if code == -signal.SIGKILL:
            return WorkerError("killed by the system, most often for want of memory", "memory")
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                return WorkerError(f"crashed ({signal.Signals(-code).name})", "died")
        return WorkerError(f"its process ended with exit code {code}", "died")
