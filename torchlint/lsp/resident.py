"""The worker that stays: imports all rules once, then answers job after job under the limits of every worker.

Runs as a process of its own, started by `torchlint.lsp.pool`. Requests and replies are pickles with their length in
front; both sides are this program. It ends where its input ends, so that none is left where the server dies.
"""

from __future__ import annotations

import gc
import os
import pickle
from dataclasses import dataclass

from torchlint.base.finding import FileReport
from torchlint.engine.job import Job
from torchlint.run.prescan import prescan
from torchlint.run.run import refused
from torchlint.run.worker import OUT_OF_MEMORY, analyse_job, failed, prepare, work

PREFIX = 8
"""Bytes that hold the length of a message."""
_TIDY = 20
"""Jobs between two looks for garbage, which take as long as a job."""


@dataclass(frozen=True, slots=True)
class Request:
    """A job with its limits: seconds, and bytes of memory on top of what the worker holds."""

    job: Job
    timeout: float
    memory: int


def main() -> None:
    """Serve until the input ends."""
    requests, replies = os.dup(0), os.dup(1)
    prepare()
    _warm()
    _send(replies, b"")
    count = 0
    while data := _received(requests):
        request: Request = pickle.loads(data)
        try:
            _send(replies, _answered(request))
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        count += 1
        if count % _TIDY == 0:
            gc.collect()


def analysed(job: Job) -> FileReport:
    """Analyse a job; other files of its project are read again where they have changed."""
    found = prescan(job.document.text.encode("utf-8", "surrogatepass"))
    if found.refuse:
        return refused(job.document, found)
    from torchlint.run import projects

    projects.refresh(job.unsaved)
    return analyse_job(job)


def _warm() -> None:
    """Import what every analysis needs."""
    import torchlint.engine.fix
    import torchlint.engine.hits
    import torchlint.source.suppress  # noqa: F401
    from torchlint.catalog.rules import load_catalog, load_rules

    load_rules([info.code for info in load_catalog().rules])
    gc.freeze()


def _answered(request: Request) -> bytes:
    report = work(analysed, request.job, request.timeout, request.memory)
    try:
        return pickle.dumps(report)
    except MemoryError:
        raise
    except Exception as error:  # a report that cannot cross the process boundary
        words = f"internal error: {type(error).__name__}: {error}"
        return pickle.dumps(failed(request.job.document.filename, words))


def _send(descriptor: int, data: bytes) -> None:
    left = memoryview(len(data).to_bytes(PREFIX, "big") + data)
    while left:
        left = left[os.write(descriptor, left) :]


def _received(descriptor: int) -> bytes:
    """Return the next message, or nothing where the input has ended."""
    head = _read(descriptor, PREFIX)
    return _read(descriptor, int.from_bytes(head, "big")) if head else b""


def _read(descriptor: int, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        chunk = os.read(descriptor, count - len(data))
        if not chunk:
            return b""
        data += chunk
    return bytes(data)
