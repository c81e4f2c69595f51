"""How long a file may take: what counts is what its worker does, never how busy the machine is.

A limit is CPU time, counted by the kernel for the worker's process and ended by it (``ITIMER_PROF``
with the default action of its signal), so that nobody needs to be scheduled in time to notice, and
native code that holds the interpreter's lock is ended too. A worker that does nothing at all, so
that it uses no CPU time, notices that itself. Behind both stands a bound by the clock, far enough
away that only a worker which can neither run nor be ended by itself, such as one that was stopped,
comes to it. Who waits for a worker counts that bound in ticks of its own, as a process that was
stopped or starved for an hour must not conclude that its worker took an hour.
"""

from __future__ import annotations

import io
import math
import os
import signal
import sys
import threading
import time

TICK = 1.0
"""Seconds after which one who waits for a worker counts one tick."""
LATE = 87
"""Exit code of a worker that used up its CPU time and noticed it itself, where the kernel does
not."""
IDLE = 88
"""Exit code of a worker whose analysis did nothing for too long."""
LEAST_IDLE = 10.0
"""Seconds without any work that every file has, however low its limit: a slow disk is no fault of
the file."""
FACTOR = 20.0
LEAST_OUTER = 300.0
"""The outer bound in seconds: so many times the limit, and at least so much."""
_LATER = 5.0
"""Seconds after the outer bound at which a worker whose parent is gone dies by itself."""
_LOOK = 0.5
"""Seconds between a worker's looks at what its analysis has done."""
_STIR = 0.0001
"""CPU seconds between two looks below which nothing was done."""
_MOST = 1e8
"""Seconds that every timer of a system can count."""


def outer(limit: float) -> float:
    """Return the seconds by the clock after which nobody waits any more for a file with this
    limit."""
    return min(max(FACTOR * limit, LEAST_OUTER), _MOST)


def idle(limit: float) -> float:
    """Return the seconds for which the analysis of a file with this limit may do nothing at all."""
    return max(limit, LEAST_IDLE)


class Patience:
    """The outer bound of one file, for whoever waits for its worker.

    Args:
        limit: the file's limit in CPU seconds.
    """

    def __init__(self, limit: float) -> None:
        self.left = outer(limit)

    def tick(self, seconds: float = TICK) -> None:
        """Count one wait in vain, however long ago it began.

        Raises:
            TimeoutError: the bound is reached.
        """
        self.left -= seconds
        if self.left <= 0:
            raise TimeoutError


def prepare() -> None:
    """Make the signals of both timers end this process, whatever it inherited."""
    numbers = [getattr(signal, name) for name in ("SIGPROF", "SIGALRM") if hasattr(signal, name)]
    for number in numbers:
        signal.signal(number, signal.SIG_DFL)
    if numbers:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def start(limit: float) -> None:
    """Begin to count for a file, in its worker; both timers end the process."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, min(max(limit, 1e-6), _MOST))
        signal.alarm(math.ceil(outer(limit) + _LATER))


def stop() -> None:
    """End what `start` began."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.alarm(0)


def join(thread: threading.Thread, limit: float) -> None:
    """Wait in a worker for the thread that analyses a file; end the process where it does nothing
    for too long.

    The waiting thread's own CPU time is left out. That it runs at all shows that the other one
    could have run, so that a thread which waits for a CPU among many others is never taken for one
    that does nothing.
    """
    begun = time.process_time()
    before = -1.0
    still = 0.0
    thread.join(_LOOK)
    while thread.is_alive():
        # This thread's clock first: the process's, where a timer is set, is as old as the last tick
        # or as the last look at a thread's.
        own = time.thread_time()
        total = time.process_time()
        if total - begun > limit:
            os._exit(LATE)
        done = total - own
        still = still + _LOOK if done - before < _STIR else 0.0
        before = done
        if still >= idle(limit):
            os._exit(IDLE)
        thread.join(_LOOK)


def exceeded(code: int | None, limit: float) -> str:
    """Say which limit ended a worker that has this exit code (minus a signal's number); empty for
    none."""
    if code == LATE or (code is not None and code == -getattr(signal, "SIGPROF", 0) != 0):
        return f"took more than {limit:g} s of CPU time"
    if code == IDLE:
        return f"did nothing for {idle(limit):g} s"
    if code is not None and code == -getattr(signal, "SIGALRM", 0) != 0:
        return given_up(limit)
    return ""


def given_up(limit: float) -> str:
    """Say that the outer bound was reached."""
    return f"gave no answer within {outer(limit):g} s"


def cpu_seconds(process: int) -> float | None:
    """Return the CPU time of a process, or None where it is gone or the system (all but Linux) does
    not tell."""
    if sys.platform != "linux":
        return None
    try:
        with io.FileIO(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
