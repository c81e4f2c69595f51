"""JSON lines over a Unix socket: what parent, zygote and workers say to each other. Standard library only.

No pickle: the parent reads nothing that could run code, whatever the user's program writes into the socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any

Message = dict[str, Any]


class Channel:
    """One end of a connection.

    Args:
        connection: a connected stream socket; closed with the channel.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._stream = connection.makefile("rwb")

    def send(self, message: Message) -> None:
        """Send one message.

        Raises:
            OSError: the other end is gone.
        """
        self._stream.write(json.dumps(message).encode() + b"\n")
        self._stream.flush()

    def receive(self, timeout: float | None = None) -> Message | None:
        """Return the next message; None where the other end has closed. After a timeout the channel is of no more use.

        Raises:
            TimeoutError: nothing came for `timeout` seconds.
            OSError, ValueError: the other end broke off or does not speak JSON lines.
        """
        self._connection.settimeout(timeout)
        try:
            line = self._stream.readline()
        except socket.timeout as error:  # noqa: UP041 - on Python 3.10 its message is all that makefile gives
            raise TimeoutError(str(error)) from None
        if not line.endswith(b"\n"):
            return None
        message = json.loads(line)
        if not isinstance(message, dict):
            raise ValueError("a message must be an object")
        return message

    def close(self) -> None:
        """Close this end."""
        for part in (self._stream, self._connection):
            with contextlib.suppress(OSError):  # unsent bytes for an end that is gone
                part.close()


def connect(path: str) -> Channel:
    """Connect to the socket at `path`; programs started from here do not inherit the connection.

    Raises:
        OSError: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    os.set_inheritable(connection.fileno(), False)
    return Channel(connection)
