"""The parent's side of the wire: where processes call, what they are asked, and how they ended.

All modes speak it: resident training programs (`script.lockstep`), zygotes and the workers that
they fork.
"""

from __future__ import annotations

import contextlib
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torchlint.program.machine.processes import signal_name
from torchlint.verify.inside.channel import POLL, Channel
from torchlint.verify.model import Status

_STATUSES = {"memory": Status.OUT_OF_MEMORY, "timeout": Status.TIMEOUT, "done": Status.OK}


class ProgramError(Exception):
    """A program gave no answer. The message is one line.

    Args:
        message: what happened.
        kind: "raised" (the program raised it), "usage" (the request does not fit the program),
            "empty" (there is nothing to time), "memory", "timeout", "ended" (its process is gone),
            "done" (it came to its end, before all was measured), "unsupported".
        where: ``"file:line"`` in the user's code, as far as known.
        missing: the module that could not be imported.
    """

    def __init__(self, message: str, kind: str, where: str = "", missing: str = "") -> None:
        super().__init__(message)
        self.kind = kind
        self.where = where
        self.missing = missing

    @property
    def status(self) -> Status:
        """What a variant that fails so has come to."""
        return _STATUSES.get(self.kind, Status.BROKEN)


class Listener:
    """A Unix socket at which processes of ours call.

    Args:
        path: its address; short, see `workspace.Workspace`.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._server.bind(str(path))
        except OSError:
            self._server.close()
            raise
        self._server.listen(4)
        self._server.settimeout(POLL)

    def look(self) -> Channel | None:
        """Return the next caller, if there is one within `POLL` seconds."""
        with contextlib.suppress(TimeoutError):
            return Channel(self._server.accept()[0])
        return None

    def wait(self, seconds: float, alive: Callable[[], bool]) -> Channel:
        """Return the next caller.

        Raises:
            ConnectionError: nobody has called for so long, or who should call is not `alive` any
                more.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            caller = self.look()
            if caller is not None:
                return caller
            if not alive():
                break
        raise ConnectionError("nobody has called")

    def close(self) -> None:
        """Let nobody call any more, and free the address."""
        self._server.close()
        self.path.unlink(missing_ok=True)


def asked(
    channel: Channel,
    message: dict[str, object],
    timeout: float,
    alive: Callable[[], bool] = lambda: True,
) -> dict[str, Any]:
    """Send a word and return the answer; `alive` as in `Channel.receive`.

    Raises:
        ProgramError: of kind "ended" or "timeout": there is none; of another: it is an error.
    """
    answer = None
    try:
        channel.send(message)
        answer = channel.receive(timeout, alive)
    except TimeoutError:
        raise ProgramError(f"timed out after {timeout:g} s", "timeout") from None
    except (OSError, ValueError):
        pass
    if answer is None:
        raise ProgramError("ended", "ended")
    if "error" in answer:
        told = (str(answer.get(key, "")) for key in ("error", "kind", "where", "missing"))
        raise ProgramError(*told)
    return answer


def ending(code: int | None) -> ProgramError:
    """Return the error of a process that ended without an answer, by its exit code (minus the
    signal's number)."""
    if code == -signal.SIGKILL:
        return ProgramError("killed by the system, most often for want of memory", "memory")
    if code is not None and code < 0:
        return ProgramError(f"crashed ({signal_name(-code)})", "ended")
    return ProgramError(f"its process ended with exit code {code}", "ended")
