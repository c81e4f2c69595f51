"""The one worker of a small run: a bare fork.

A pool of pebble's (`workers`) would do as well, but its start is a third of what a short file
costs: a whole check of one without torch took 0.47 in place of 0.37 s of CPU time (medians of 21
pairs on a slow machine; the median difference is 0.12 s, and importing pebble alone takes 0.10 s).
The limits are the same (`worker.work`). Whatever ends the worker costs the one file that it was at;
the files behind go on in another fork. Only where the system forks well: see `AVAILABLE`.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from torchlint.base.finding import FileReport
from torchlint.run import limits
from torchlint.run.worker import OUT_OF_MEMORY, Task, before_fork, death, failed, prepare, work

AVAILABLE = sys.platform == "linux"
"""Whether this system forks safely; macOS' own libraries do not survive it."""
_HELD = {signal.SIGINT, signal.SIGTERM, *({signal.SIGHUP} if hasattr(signal, "SIGHUP") else ())}
_PREFIX = 8
"""Bytes that hold the length of a report."""
_CHUNK = 1 << 20


class ForkedWorker:
    """Gives the reports of `tasks` one by one, in order, from a forked process.

    Args:
        tasks: the files; the worker has them all from the start, as a fork shares the memory of its
            parent.
        waiting: is called at every tick of waiting.
    """

    def __init__(self, tasks: Sequence[Task], waiting: Callable[[], object] = lambda: None) -> None:
        self.tasks = tasks
        self.waiting = waiting
        self.done = 0
        self.pid = 0
        self.pipe = -1
        self.buffer = b""

    def __enter__(self) -> ForkedWorker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def next(self) -> FileReport:
        """Wait for the next task's report; whatever happens to the worker, there is one."""
        task = self.tasks[self.done]
        try:
            if not self.pid:
                self.start()
            report = self.received(limits.Patience(task.timeout))
        except TimeoutError:
            self.stop()
            report = failed(task.name, limits.given_up(task.timeout))
        except EOFError:
            report = failed(task.name, death(self.stop(), task.timeout))
        except OSError as error:
            self.stop()
            report = failed(task.name, f"no worker could be started: {error}")
        self.done += 1
        return report

    def start(self) -> None:
        """Fork.

        Raises:
            OSError: the system has no room for a process or a pipe.
        """
        before_fork()
        reader, writer = os.pipe()
        # Ctrl-C between the fork and the next line would leave a process behind, or let it run as a
        # second parent.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD)
        try:
            self.pid = os.fork()
            if not self.pid:
                _serve(self.tasks[self.done :], reader, writer)
            self.pipe = reader
        except OSError:
            os.close(reader)
            raise
        finally:
            os.close(writer)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def received(self, patience: limits.Patience) -> FileReport:
        """Return the report that the worker sends next.

        Args:
            patience: how long to wait; a worker ends itself long before.

        Raises:
            TimeoutError: it does not come in time.
            EOFError: the worker ends before.
        """
        size = int.from_bytes(self.read(_PREFIX, patience), "big")
        if not size:
            return _silent(self.tasks[self.done])
        import pickle

        report: FileReport = pickle.loads(self.read(size, patience))
        return report

    def read(self, count: int, patience: limits.Patience) -> bytes:
        """Return so many bytes from the worker; errors as for `received`."""
        poll = select.poll()
        poll.register(self.pipe, select.POLLIN)
        while len(self.buffer) < count:
            if not poll.poll(limits.TICK * 1000):
                self.waiting()
                patience.tick()
                continue
            chunk = os.read(self.pipe, _CHUNK)
            if not chunk:
                raise EOFError
            self.buffer += chunk
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def stop(self) -> int:
        """End the worker now; return its exit code, or minus the signal that ended it, or 0 where
        there is none."""
        if not self.pid:
            return 0
        os.close(self.pipe)
        pid, self.pid, self.pipe, self.buffer = self.pid, 0, -1, b""
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            os.kill(pid, signal.SIGKILL)
            status = os.waitpid(pid, 0)[1]
        return os.waitstatus_to_exitcode(status)


def _serve(tasks: Sequence[Task], reader: int, writer: int) -> NoReturn:
    """Be the worker: send a report for each task, and end without returning to what the parent was
    at."""
    code = 1
    try:
        os.close(reader)  # else nothing would tell this process that the parent is gone
        prepare()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _HELD)
        for task in tasks:
            data = _packed(task)
            data = len(data).to_bytes(_PREFIX, "big") + data
            while data:
                data = data[os.write(writer, data) :]
        code = 0
    except MemoryError:
        code = OUT_OF_MEMORY
    finally:
        os._exit(code)


def _packed(task: Task) -> bytes:
    """Return the bytes of a report: none for one that has nothing to say, as most files need no
    pickle then."""
    report = work(task)
    if report == _silent(task):
        return b""
    import pickle

    try:
        return pickle.dumps(report)
    except MemoryError:
        raise
    except Exception as error:  # a report that cannot cross the process boundary
        return pickle.dumps(failed(task.name, f"internal error: {type(error).__name__}: {error}"))


def _silent(task: Task) -> FileReport:
    """Return the report of a file that has nothing to say and rests on no other."""
    return FileReport(task.name, rests_on=() if task.job.traced else None)
