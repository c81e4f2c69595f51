"""The ``torchlint`` command: finds the subcommand, and turns every error into one line and an exit
code."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Sequence

from torchlint import __version__
from torchlint.base.errors import TorchlintError
from torchlint.cli.arguments import expanded
from torchlint.cli.output import complain, emit, make_lenient
from torchlint.report.kit.words import visible

INTERRUPTED = 130
"""The exit code after Ctrl-C."""
as_program = False
"""Whether this process is the command, and not one that calls `run`."""
_COLLECT = (50_000, 20, 100)
"""How rarely to look for garbage, in allocations; Python's 700 cost a tenth of a short run."""


def run(arguments: Sequence[str]) -> int:
    """Run the command line, and return its exit code; no exception leaves, and no traceback."""
    if not arguments:
        arguments = ["--help"]
    try:
        whole = list(expanded(arguments))
        if whole in (["--version"], ["-V"]):
            emit(f"torchlint {__version__}\n")
            return 0
        if whole[:1] == ["check"] and "--no-cache" not in whole:
            from torchlint.cli import cached_run

            before = cached_run.look_up(whole)
            if before is not None:
                emit(before[0])
                complain(before[1])
                return before[2]
        from torchlint.cli.commands import dispatch

        return dispatch(whole)
    except TorchlintError as error:
        complain(f"torchlint: error: {visible(str(error))}")
        return error.exit_code
    except KeyboardInterrupt:
        complain("torchlint: interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        _forget_output()
        return 0
    except OSError as error:
        _forget_output()
        complain(f"torchlint: error: {visible(str(error))}")
        return 2


def entry() -> None:
    """Run as a program; see `torchlint.__main__`, which catches Ctrl-C before and after `run`."""
    global as_program
    as_program = True
    gc.set_threshold(*_COLLECT)  # start-up makes no garbage, only modules
    _distrust_current_directory()
    make_lenient()
    signal.signal(signal.SIGTERM, _interrupt)  # like Ctrl-C: no worker may outlive us
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)  # the terminal was closed, and there is no nohup
    code = run(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # all is said; Python would answer Ctrl-C with a traceback
    gc.freeze()  # the interpreter looks for garbage among all modules once more before it ends
    sys.exit(code)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def _forget_output() -> None:
    """Leave nothing for the interpreter to flush at its exit, which would fail again."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
    except OSError:
        pass


def _distrust_current_directory() -> None:
    """Take the current directory off the import path: what is checked must not be able to pose as a
    module of ours.

    What stands behind the installed packages was put there by one of them, as an editable install
    does. It can pose as none of them, and a plugin that is worked on in its own folder is found
    there.
    """
    try:
        here = os.path.realpath(os.getcwd())
    except OSError:  # it was deleted
        here = ""
    places = [entry and os.path.realpath(entry) for entry in sys.path]
    if here in places or "" in places:
        kept = _library() if here in places else frozenset()
        behind = max((at for at, place in enumerate(places) if place in kept), default=len(places))
        sys.path[:] = [
            entry
            for at, entry in enumerate(sys.path)
            if entry and (places[at] != here or here in kept or at > behind)
        ]


def _library() -> frozenset[str]:
    """Return the folders of the standard library and of the installed packages."""
    import sysconfig

    names = ("stdlib", "platstdlib", "purelib", "platlib")
    return frozenset(os.path.realpath(sysconfig.get_paths()[name]) for name in names)
