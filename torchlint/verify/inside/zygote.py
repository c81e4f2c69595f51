"""Imports torch once, then forks a worker for every program to be measured: ``python -m
torchlint_inside.verify.inside.zygote``.

An import takes seconds, a fork a tenth of one. The zygote computes nothing: it forks before any
parallel operation, whose thread pool a fork would break, and never asks for CUDA devices, as a
forked process cannot use a CUDA context that its parent has started.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import platform
import signal
import sys
import time

from . import channel, worker


def main(address: str, preload: list[str]) -> None:
    """Serve the parent at `address` until it hangs up; then no worker is left.

    Args:
        address: path of the parent's socket.
        preload: modules that many of the programs import; one that is missing is left to the
            program to miss.
    """
    import torch

    for name in preload:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    # What stands now never becomes garbage: without this the first collection in a worker copies
    # all its pages.
    gc.collect()
    gc.freeze()
    parent = channel.connect(address)
    facts = {"pid": os.getpid(), "torch": torch.__version__, "python": platform.python_version()}
    parent.send(facts)
    children: set[int] = set()
    try:
        while (message := parent.receive()) is not None:
            if "fork" in message:
                pid = os.fork()
                if pid == 0:
                    parent.close()
                    worker.become(address, message["fork"])
                children.add(pid)
                parent.send({"pid": pid})
            elif message.get("look") in children:
                parent.send({"ended": _ended(message["look"])})
            elif message.get("end") in children:
                children.discard(message["end"])
                parent.send({"status": _end(message["end"], float(message.get("grace", 0.0)))})
    finally:
        for pid in children:
            _end(pid, 0.0)


def _end(pid: int, grace: float) -> int:
    """Reap a worker and all it started; return its exit code, or minus the signal that ended it.

    Args:
        pid: the worker, which leads a process group of its own and has not been reaped.
        grace: seconds in which it may end by itself.
    """
    status = _wait(pid, grace)
    if status is None:
        # Not reaped yet, so the number is still its own: its group first, which outlives it where
        # it has children.
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _ended(pid: int) -> bool:
    """Say whether a worker has ended, without reaping it; False where the system cannot tell."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0
    return bool(flags) and os.waitid(os.P_PID, pid, flags) is not None


def _wait(pid: int, seconds: float) -> int | None:
    """Wait for a worker's end, if possible without reaping it; return its status where it had to be
    reaped."""
    end = time.monotonic() + seconds
    while True:
        if _ended(pid):
            return None
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
