"""Starts, freezes and ends the processes that run the user's program, each with everything it has
started itself.

A signal to the process group is not enough: torchrun starts its ranks in sessions of their own, and
a program may fork twice. So every signal goes to a `process_tree.Family`, found again each time.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from torchlint.base.errors import UsageError
from torchlint.program.machine.environment import RUN_VARIABLE
from torchlint.program.machine.process_tree import Family, send
from torchlint.program.machine.sandbox import landlock_abi

_SANDBOX = Path(__file__).with_name("sandbox.py")
_TAIL_BYTES = 1 << 16
_FREEZE_SECONDS = 2.0
"""How long to wait until all processes have stopped; one in an uninterruptible wait (disk, driver)
takes longer."""
_KILL_SECONDS = 5.0
_numbers = itertools.count(1)
_children: set[Child] = set()


class Handle(Protocol):
    """What is asked of a program that another process of ours has forked."""

    pid: int

    def look(self) -> int | None:
        """Return the exit code (``-N`` when signal N ended it), or None while it runs; its number
        stays taken."""

    def poll(self) -> int | None:
        """Return the same; its number may be that of another process from then on."""

    def kill(self) -> None:
        """End it at once."""


class Child:
    """A running program and its descendants: in a session of its own, without input, its output in
    a log file.

    Use `start` to make one, and `stop` (or ``with``) to end it, also when it has ended by itself:
    it may have left processes behind.
    """

    def __init__(self, popen: subprocess.Popen[bytes] | Handle, log: Path, run: str) -> None:
        self.pid = popen.pid
        self.log = log
        self.run = run
        self._popen = popen
        self._family = Family(popen.pid, run)
        self._ended: int | None = None

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    def poll(self) -> int | None:
        """Return the exit code (``-N`` when signal N ended it), or None while it runs. Its number
        stays taken."""
        if self._ended is None:
            if not isinstance(self._popen, subprocess.Popen):
                self._ended = self._popen.look()
            elif hasattr(os, "waitid"):
                # WNOWAIT leaves the ended process uncollected, so its number cannot go to another
                # before `stop`.
                result = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
                if result is not None:
                    by_itself = result.si_code == os.CLD_EXITED
                    self._ended = result.si_status if by_itself else -result.si_status
            else:
                self._ended = self._popen.poll()
                if self._ended is not None:
                    self._family.root = None
        return self._ended

    def wait(self, timeout: float | None = None) -> int | None:
        """Return the exit code as soon as there is one, or None after `timeout` seconds."""
        _until(lambda: self.poll() is not None, timeout)
        return self._ended

    def freeze(self) -> None:
        """Stop all its processes (SIGSTOP), parents first, and return when they have stopped.

        One in an uninterruptible wait stops when that is over; after 2 s it is no longer waited
        for.
        """

        def stopped() -> bool:
            members = self._family.members()
            held = {process.parent for process in members if process.state in "Tt"}
            # A parent inside vfork waits uninterruptibly for the child that is stopped, and stops
            # when that goes on.
            running = [
                p for p in members if p.state not in "Tt" and not (p.state == "D" and p.pid in held)
            ]
            send(running, signal.SIGSTOP)
            # Only a look at the table that finds all at rest says that none has forked meanwhile.
            return not running

        _until(stopped, _FREEZE_SECONDS)

    def thaw(self) -> None:
        """Let all its processes go on (SIGCONT), children first."""
        send(reversed(self._family.members()), signal.SIGCONT)

    def stop(self, grace: float = 5.0) -> None:
        """End it and all its processes: SIGTERM, at most `grace` seconds, then SIGKILL. Does
        nothing the second time.

        The program itself is asked first, for half of `grace`, as a trainer that loses its workers
        reports a failure that is none. Afterwards the exit code is known and nothing of it is left.
        """
        _stop((self,), grace)

    def tail(self, lines: int = 20) -> str:
        """Return the last lines of its output; of a line that was rewritten (progress bars), what
        it last showed."""
        try:
            with self.log.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        shown = (
            line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.rstrip().split("\n")
        )
        return "\n".join(list(shown)[-lines:])

    def _finish(self) -> None:
        """Kill what is left, and take the exit code from the system, which frees the process'
        number."""
        _until(lambda: _kill(self._family), _KILL_SECONDS)
        if self.poll() is None:  # not in the table: there is none, or it cannot be killed now
            self._popen.kill()
        _until(self._is_collected, _KILL_SECONDS)
        self._family.root = None
        _children.discard(self)

    def _is_collected(self) -> bool:
        self._ended = self._popen.poll()
        return self._ended is not None


def start(
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: Path,
    writable: Sequence[Path] | None,
) -> Child:
    """Start a program and return at once.

    Args:
        command: the program and its arguments; a relative path is looked up from `cwd`, a name in
            the PATH of `env`.
        cwd: the folder it starts in.
        env: all its variables, from `environment.child_environment`; `RUN_VARIABLE` gets a number
            for this child.
        log: the file that takes its output, emptied first.
        writable: where it may write, with /dev and /proc, if the system has Landlock
            (`sandbox.landlock_abi`); None to restrict nothing.

    Raises:
        UsageError: there is no such program, or a path of `writable` does not exist.
    """
    for path in writable or ():
        if not path.exists():
            raise UsageError(f"cannot allow writing to {path}: it does not exist")
    full = [*_wrapper(writable), _executable(command[0], cwd, env), *command[1:]]

    def begin(env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                full,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    return adopted(begin, env=env, log=log)


def adopted(
    begin: Callable[[Mapping[str, str]], subprocess.Popen[bytes] | Handle],
    *,
    env: Mapping[str, str],
    log: Path,
) -> Child:
    """Have a program started, by another process of ours or by this one, and return at once.

    Args:
        begin: starts it with its variables, in a session of its own.
        env, log: as for `start`; `begin` has it write there.
    """
    run = f"{env.get(RUN_VARIABLE, f'torchlint-{os.getpid()}')}:{next(_numbers)}"
    child = Child(begin({**env, RUN_VARIABLE: run}), log, run)
    _children.add(child)
    return child


def stop_run(run: str, grace: float = 5.0) -> None:
    """End all children of a run that were started and not yet stopped, given its `RUN_VARIABLE`."""
    _stop([child for child in _children if child.run.startswith(f"{run}:")], grace)


def signal_name(number: int) -> str:
    """Return ``SIGSEGV`` for 11."""
    known = {one.value: one.name for one in signal.Signals}
    return known.get(number, f"signal {number}")


def ending(code: int | None) -> str:
    """Say how a program ended, by its exit code."""
    if code is not None and code < 0:
        return f"was ended by {signal_name(-code)}"
    return f"failed with exit code {'unknown' if code is None else code}"


def sweep(run: str) -> None:
    """Kill what a run has left behind whose torchlint is gone, by the name in its variables (Linux
    only)."""
    family = Family(None, f"{run}:", prefix=True)
    _until(lambda: _kill(family), _KILL_SECONDS)


def _wrapper(writable: Sequence[Path] | None) -> list[str]:
    """Return the start of the command line: our interpreter running sandbox.py, on Linux alone."""
    if not sys.platform.startswith("linux"):
        return []
    options: list[str] = []
    if threading.current_thread() is threading.main_thread():  # see sandbox.die_with
        options += ["--parent", str(os.getpid())]
    if writable is not None and landlock_abi() > 0:
        options += [
            "--landlock",
            *(part for path in writable for part in ("--write", str(path.resolve()))),
        ]
    return [sys.executable, "-I", "-S", str(_SANDBOX), *options, "--"] if options else []


def _executable(name: str, cwd: Path, env: Mapping[str, str]) -> str:
    """Return where a program lies."""
    local = os.path.dirname(name) != ""
    found = shutil.which(str(cwd / name) if local else name, path=env.get("PATH", os.defpath))
    if found is None:
        raise UsageError(
            f"cannot run {name}: there is no such program{'' if local else ' in PATH'}"
        )
    return found  # links are not followed: where a python lies decides which venv it is of


def _stop(children: Sequence[Child], grace: float) -> None:
    living = [child for child in children if child in _children]
    end = time.monotonic() + grace
    try:
        for child in living:
            if child.poll() is None:
                _terminate(child, root=True)
        _until(lambda: all(child.poll() is not None for child in living), grace / 2)
        for child in living:
            _terminate(child, root=False)
        _until(lambda: not any(child._family.members() for child in living), end - time.monotonic())
    finally:  # also on a second Ctrl-C
        for child in living:
            child._finish()


def _terminate(child: Child, *, root: bool) -> None:
    """Ask the program, or all of its processes, to end; frozen ones go on, to be able to."""
    members = child._family.members()
    send((process for process in members if not root or process.pid == child.pid), signal.SIGTERM)
    send(reversed(members), signal.SIGCONT)


def _kill(family: Family) -> bool:
    members = family.members()
    send(members, signal.SIGKILL)
    return not members


def _until(condition: Callable[[], bool], timeout: float | None) -> bool:
    """Ask again and again, ever more rarely, until it holds or the time is over; asks at least
    once."""
    end = None if timeout is None else time.monotonic() + timeout
    pause = 0.0005
    while not condition():
        if end is not None and time.monotonic() >= end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    return True
