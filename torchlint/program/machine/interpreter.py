"""Asks a Python interpreter what it and its torch are, by running ``inside/probe.py`` in it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from torchlint.program import inside
from torchlint.program.machine.processes import signal_name
from torchlint.program.machine.sandbox import die_with
from torchlint.report.kit.words import visible

_END_S = 5.0
"""How long the output of a killed interpreter may take to end."""

_PROBE = Path(inside.__file__).with_name("probe.py")


class Answers(Protocol):
    """Says what an interpreter and its torch are; use it with ``with``."""

    def __enter__(self) -> Answers: ...

    def __exit__(self, *raised: object) -> None: ...

    def answer(self, timeout: float) -> tuple[dict[int, dict[str, Any]], str]:
        """Return the probe's lines by their number (see ``inside/probe.py``), and why the second is
        missing: one line of text, empty where it is there."""


class Asked:
    """An interpreter that runs the probe; use it with ``with``, which ends it.

    Args:
        python: a path or a name on PATH.
    """

    def __init__(self, python: str) -> None:
        self.python = python
        self.problem = ""
        self._process: subprocess.Popen[bytes] | None = None
        shown = visible(python)
        try:
            self._process = subprocess.Popen(
                # The option makes a shell refuse: it would run the probe's lines, and `import` may
                # be a program.
                [python, "-W", "ignore", str(_PROBE)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=_dying(),
            )
        except FileNotFoundError:
            self.problem = f"no interpreter {shown}; use --python"
        except (OSError, ValueError) as error:
            self.problem = (
                f"{shown} is a folder; give --python the interpreter in it, such as bin/python"
            )
            if not Path(python).is_dir():
                why = getattr(error, "strerror", None) or error
                self.problem = f"{shown} cannot be run ({why}); use --python"

    def __enter__(self) -> Asked:
        return self

    def __exit__(self, *raised: object) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            _end(process)
        elif process is not None and process.stdout is not None:
            process.stdout.close()

    def answer(self, timeout: float) -> tuple[dict[int, dict[str, Any]], str]:
        """See `Answers`."""
        process = self._process
        if process is None:
            return {}, self.problem
        try:
            out, _ = process.communicate(timeout=timeout)
            late = False
        except subprocess.TimeoutExpired:
            late = True
            out = _end(process)
        except BaseException:  # Ctrl-C
            _end(process)
            raise
        # The probe's lines among all that was printed.
        lines = {}
        for line in out.splitlines():
            with contextlib.suppress(ValueError):
                facts = json.loads(line)
                if isinstance(facts, dict) and facts.get("torchlint_probe") in (1, 2):
                    lines[facts["torchlint_probe"]] = facts
        return lines, "" if 2 in lines else _unfinished(
            visible(self.python), process.returncode, 1 in lines, timeout if late else None
        )


def _dying() -> Callable[[], None] | None:
    """Return what has a new process killed when this one ends, also by ``kill -9``; see
    `sandbox.die_with`."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not sys.platform.startswith("linux"):
        return None
    return functools.partial(die_with, os.getpid())


def _end(process: subprocess.Popen[bytes]) -> bytes:
    """Kill the interpreter with all that it started, and return what it had said."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    try:
        out, _ = process.communicate(timeout=_END_S)
    except subprocess.TimeoutExpired as error:  # a process of another session holds the pipe
        if process.stdout:
            process.stdout.close()
        out = error.stdout or b""
    process.wait()
    return out


def _unfinished(shown: str, code: int | None, started: bool, late: float | None) -> str:
    what = f"torch in {shown}" if started else shown
    if late is not None:
        return f"{what} did not {'load' if started else 'answer'} within {late:g} s; use --python"
    if not started:
        return f"{shown} is no Python that could be asked; use --python"
    if code is not None and code < 0:
        return f"{what} crashes on import ({signal_name(-code)}); use --python"
    return f"{what} ends the interpreter on import (exit code {code}); use --python"
