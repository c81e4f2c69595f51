"""JSON lines over a Unix socket: what the parent and its processes say to each other. Standard
library only.

No pickle: the parent reads nothing that could run code, whatever the user's program writes into the
socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable
from typing import Any

Message = dict[str, Any]
POLL = 0.05
"""Seconds between two looks whether the other end's process lives."""


class Channel:
    """One end of a connection.

    Args:
        connection: a connected stream socket; closed with the channel.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._unread = b""

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            OSError: the other end is gone.
        """
        self._connection.settimeout(None)
        self._connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(
        self, timeout: float | None = None, alive: Callable[[], bool] = lambda: True
    ) -> Message | None:
        """Return the next message; None where the other end has closed.

        Args:
            timeout: seconds to wait; None for ever, in which case `alive` is not asked.
            alive: asked now and then whether the other end's process runs: one that it has started
                may hold a copy of its socket, so that its end alone would not be seen.

        Raises:
            TimeoutError: nothing came for `timeout` seconds; what came in part is kept.
            OSError, ValueError: the other end broke off or does not speak JSON lines.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while b"\n" not in self._unread:
            data = self._read(end, alive)
            if not data:
                return None
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a message must be an object")
        return message

    def _read(self, end: float | None, alive: Callable[[], bool]) -> bytes:
        gone = False
        while True:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError("timed out")
            self._connection.settimeout(None if left is None else min(POLL, left))
            try:
                return self._connection.recv(65536)
            except TimeoutError:
                if gone:
                    return b""
                gone = not alive()  # what it said at last may have come meanwhile: one more look

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self._connection.close()


def connect(path: str) -> Channel:
    """Connect to the socket at `path`; programs started from here do not inherit the connection.

    Raises:
        OSError: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    os.set_inheritable(connection.fileno(), False)
    return Channel(connection)
