"""Imports torch once, then forks a worker for every program to be measured: ``python -m
torchlint_inside.verify.inside.zygote``.

An import takes seconds, a fork a tenth of one. The zygote computes nothing: it forks before any
parallel operation, whose thread pool a fork would break, and never asks for CUDA devices, as a
forked process cannot use a CUDA context that its parent has started. Whether an import does one of
these things all the same, or opens a connection, is told to the parent: then no training program is
forked from it, as that would not run as it does by itself.
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
from typing import Any

from . import channel, forked, worker


def main(address: str, preload: list[str], typed: list[str]) -> list[str] | None:
    """Serve the parent at `address` until it hangs up; then no worker is left.

    Args:
        address: path of the parent's socket.
        preload: modules that many of the programs import; one that fails is left to the program to
            fail with.
        typed: what ``sys.argv`` is meanwhile; a program's.

    Returns:
        In a process that is to become a program, its arguments (see `forked`); else None.
    """
    forked.remember_path()
    sys.argv[:] = typed or sys.argv
    import torch

    begun = _tasks()
    for name in preload:
        with contextlib.suppress(Exception, SystemExit):
            importlib.import_module(name)
    unsafe = _unsafe(torch, begun)
    # What stands now never becomes garbage: without this the first collection in a worker copies
    # all its pages.
    gc.collect()
    gc.freeze()
    parent = channel.connect(address)
    parent.send(
        {
            "pid": os.getpid(),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "unsafe": unsafe,
            "modules": sorted({name.partition(".")[0] for name in sys.modules} - {"__main__"}),
        }
    )
    children: set[int] = set()
    own = os.getpid()
    try:
        while (message := parent.receive()) is not None:
            answer = _answered(message, children)
            if os.getpid() != own:
                parent.close()
                if "fork" in message:
                    worker.become(address, message["fork"])
                return _become(message["program"], own)
            parent.send({**answer, "number": message.get("number")})
    finally:
        for pid in children if os.getpid() == own else ():
            _end(pid, 0.0)
    return None


def _answered(message: channel.Message, children: set[int]) -> channel.Message:
    """Do what one message asks; in a process that it forks, the answer is nobody's."""
    if "fork" in message or "program" in message:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        children.add(pid)
        return {"pid": pid}
    if message.get("look") in children:
        return {"status": _code(message["look"])}
    if message.get("end") in children:
        children.discard(message["end"])
        return {"status": _end(message["end"], float(message.get("grace", 0.0)))}
    return {}


def _become(settings: dict[str, Any], zygote: int) -> list[str]:
    try:
        forked.settle(settings, zygote)
    except BaseException as error:
        sys.stderr.write(f"torchlint: the program cannot be started: {error}\n")
        sys.stderr.flush()
        os._exit(126)
    return list(settings["arguments"])


def _tasks() -> int:
    """Return the number of threads."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return 1


def _unsafe(torch: Any, begun: int) -> str:
    """Say why programs cannot be forked from here; empty where they can.

    Args:
        torch: the module.
        begun: threads after its import. Those of its numeric libraries outlive a fork well.
    """
    if _tasks() > begun:
        return "an import starts a thread"
    opened = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            opened.append(os.readlink(f"/proc/self/fd/{name}"))
    if torch.cuda.is_initialized() or any(each.startswith("/dev/nvidia") for each in opened):
        return "an import initialises CUDA"
    if any(each.startswith("socket:") for each in opened):
        return "an import opens a connection"
    pid = os.fork()
    if pid == 0:
        os._exit(int(getattr(torch._C, "_cuda_isInBadFork", bool)()))
    return "an import asks for CUDA devices" if os.waitpid(pid, 0)[1] else ""


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


def _code(pid: int) -> int | None:
    """Return the exit code of a process, or minus the signal that ended it, without reaping it;
    None while it runs, or where the system cannot tell."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT if hasattr(os, "waitid") else 0
    found = os.waitid(os.P_PID, pid, flags) if flags else None
    if found is None:
        return None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _wait(pid: int, seconds: float) -> int | None:
    """Wait for a worker's end, if possible without reaping it; return its status where it had to be
    reaped."""
    end = time.monotonic() + seconds
    while True:
        if _code(pid) is not None:
            return None
        if not hasattr(os, "waitid"):  # macOS before Python 3.13
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


if __name__ == "__main__":
    program = main(sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]))
    if program is not None:
        forked.run(program)
