"""Which processes belong to a child of ours, and how to signal them without hitting a stranger."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from torchlint.program.machine.environment import RUN_VARIABLE

PS = ("ps", "-axo", "pid=,ppid=,pgid=,stat=,lstart=")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A line of the process table.

    Args:
        pid, parent, session: as the system numbers them; `session` is the process group where there
            is no /proc.
        state: "R", "S", "D", "T" (stopped), "Z" (ended, not yet collected) ...
        start: when it started, in clock ticks after boot (seconds since 1970 from ``ps``); tells a
            reused number apart.
    """

    pid: int
    parent: int
    session: int
    state: str
    start: int


def table() -> dict[int, Process]:
    """Return all processes by number: from /proc, else from ``ps``, else nothing."""
    if (_PROC / "self" / "stat").exists():
        found = (_stat(int(name)) for name in os.listdir(_PROC) if name.isdigit())
        return {process.pid: process for process in found if process is not None}
    try:
        listing = subprocess.run(
            PS, env={**os.environ, "LC_ALL": "C"}, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    return from_ps(listing.stdout)


def from_ps(listing: str) -> dict[int, Process]:
    """Read the output of `PS`; its last column is a date as C's ``ctime`` writes it."""
    found = {}
    for line in listing.splitlines():
        pid, parent, group, state, date = line.split(None, 4)
        start = int(time.mktime(time.strptime(date.strip(), "%a %b %d %H:%M:%S %Y")))
        found[int(pid)] = Process(int(pid), int(parent), int(group), state[0], start)
    return found


def _stat(pid: int) -> Process | None:
    try:
        line = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name in parentheses may itself hold spaces and parentheses. Fields: proc_pid_stat(5).
    fields = line[line.rindex(b")") + 2 :].split()
    return Process(pid, int(fields[1]), int(fields[3]), fields[0].decode(), int(fields[19]))


def run_of(pid: int) -> str:
    """Return a process' `RUN_VARIABLE`; empty where it has none or may not be read."""
    key = os.fsencode(RUN_VARIABLE) + b"="
    try:
        block = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return ""
    return next(
        (os.fsdecode(item[len(key) :]) for item in block.split(b"\0") if item.startswith(key)), ""
    )


class Family:
    """All processes of one child: its descendants, its session, whoever holds its run's name, and
    who once was one.

    The run's name finds those that were forked twice and left the session, so that nothing else
    links them to us; the memory finds those whose parent has ended since, where there are no names
    to read (macOS).

    Args:
        root: number of the child; None to go by name alone, or when it has been collected and may
            be reused.
        run: its `RUN_VARIABLE`; with `prefix`, those of all runs that begin so.
    """

    def __init__(self, root: int | None, run: str, *, prefix: bool = False) -> None:
        self.root = root
        self._run = run
        self._prefix = prefix
        self._seen: dict[
            tuple[int, int], bool
        ] = {}  # a process is ours from its beginning to its end, or never

    def members(self) -> list[Process]:
        """Return the living members, parents before children."""
        processes = table()
        own = os.getpid()
        known: dict[int, bool] = {own: False}
        for pid in processes:
            self._belongs(pid, processes, known)
        living = (p for p in processes.values() if known.get(p.pid) and p.state not in "ZX")
        return sorted(
            living, key=lambda process: (_depth(process, processes), process.start, process.pid)
        )

    def _belongs(self, pid: int, processes: dict[int, Process], known: dict[int, bool]) -> bool:
        """Decide on a process and, on the way, on all its ancestors."""
        chain = []
        while pid not in known and pid in processes:
            chain.append(pid)
            known[pid] = (
                False  # ends a cycle, which a table that is not read at one instant may hold
            )
            pid = processes[pid].parent
        ours = known.get(pid, False)
        for number in reversed(chain):
            ours = self._itself(processes[number]) or ours
            if ours:
                self._seen[number, processes[number].start] = True
            known[number] = ours
        return ours

    def _itself(self, process: Process) -> bool:
        key = (process.pid, process.start)
        if key not in self._seen:
            self._seen[key] = self.root in (process.pid, process.session) or self._is_named(
                process.pid
            )
        return self._seen[key]

    def _is_named(self, pid: int) -> bool:
        run = run_of(pid)
        return bool(run) and (run.startswith(self._run) if self._prefix else run == self._run)


def _depth(process: Process, processes: dict[int, Process]) -> int:
    depth, seen = 0, {process.pid}
    while process.parent in processes and process.parent not in seen:
        seen.add(process.parent)
        process = processes[process.parent]
        depth += 1
    return depth


def send(processes: Iterable[Process], number: signal.Signals) -> None:
    """Signal each process that still is the one that was listed; the others have ended."""
    for process in processes:
        try:
            _send(process, number)
        except (ProcessLookupError, PermissionError):
            continue


def _send(process: Process, number: signal.Signals) -> None:
    if not hasattr(signal, "pidfd_send_signal") or not _PROC.exists():
        now = table().get(process.pid)
        if now is not None and now.start == process.start:
            os.kill(process.pid, number)
        return
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        raise
    except OSError:  # Linux before 5.3
        os.kill(process.pid, number)
        return
    try:
        # The descriptor names one process for ever: whether it is the listed one is settled before
        # the signal.
        now = _stat(process.pid)
        if now is not None and now.start == process.start:
            signal.pidfd_send_signal(descriptor, number)
    finally:
        os.close(descriptor)
