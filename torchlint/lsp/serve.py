"""The server's process: from its first message to its end, which comes in many ways."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys

from torchlint.lsp import stdio
from torchlint.lsp.features import register
from torchlint.lsp.hover import Page
from torchlint.lsp.pool import HOME
from torchlint.lsp.server import LocalPages, Server

_LOOK = 2.0
"""Seconds between looks at whether the client's process is alive."""


def serve(page: Page, local_pages: LocalPages, profile: str = "") -> int:
    """Serve on standard input and output until the client goes; return the exit code.

    Args:
        page: gives the manual of a rule as markdown.
        local_pages: as of `Server`.
        profile: as of `Server`.

    Raises:
        KeyboardInterrupt: the server was interrupted or told to end by a signal.
    """
    reader, writer = stdio.taken()
    os.chdir(HOME)  # in its own current directory a worker that is no fork looks for modules first
    return asyncio.run(_Service(reader, writer).run(page, local_pages, profile))


class _Service:
    """One run of a server.

    Args:
        reader: the descriptor that messages come from.
        writer: the one that they go to.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self.reader = reader
        self.writer = writer
        self.ended = asyncio.Event()
        self.interrupted = False

    async def run(self, page: Page, local_pages: LocalPages, profile: str) -> int:
        """Serve; whatever happens, no worker is left behind."""
        loop = asyncio.get_running_loop()
        server = Server(page, local_pages, profile)
        register(server)
        protocol = server.protocol
        protocol.set_writer(stdio.Writer(self.writer, self.ended.set))
        protocol.stopped = self.ended.set
        self._obey_signals(loop)

        def heard(body: bytes | None) -> None:
            loop.call_soon_threadsafe(protocol.hear, body)

        def over() -> None:
            loop.call_soon_threadsafe(self.ended.set)

        stdio.listen(self.reader, heard, over)
        watch = asyncio.ensure_future(self._watch(server))
        try:
            await self.ended.wait()
        finally:
            watch.cancel()
            await server.analyses.close()
            await server.pool.close()
        if self.interrupted:
            raise KeyboardInterrupt
        return 0 if protocol.was_shut_down else 1

    def _obey_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        def stop() -> None:
            self.interrupted = True
            self.ended.set()

        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            # Windows' loops know of no signals; there the interpreter's own way has to do.
            with contextlib.suppress(NotImplementedError, AttributeError, ValueError):
                loop.add_signal_handler(getattr(signal, name), stop)

    async def _watch(self, server: Server) -> None:
        """End where the client's process is gone: something else may still hold our input open."""
        if sys.platform == "win32":  # there is no harmless way to ask
            return
        process: int | None = None
        while True:
            await asyncio.sleep(_LOOK)
            if process is None:
                process = server.protocol.client_process
                # One that was never there lives where we cannot see it: in front of a container,
                # say.
                if process is None or not _alive(process):
                    process = None
                    continue
            elif not _alive(process):
                self.ended.set()
                return


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # it is another user's
        return True
    return True
