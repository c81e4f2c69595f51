"""What a process that a zygote has forked does to become the user's program, as ``python train.py``
starts it.

torch is imported already, and CUDA is not initialised. All that differs from one run to the next is
set here: session, output, folder, variables, what may be written, ``sys.argv`` and ``sys.path``.
Then the recorder is loaded, and the program run.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import importlib
import importlib.util
import multiprocessing.process
import os
import runpy
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from types import ModuleType, TracebackType
from typing import Any

from ...program.inside.ending import Stop
from ...program.inside.installing import install_recorder

_BASE: list[str] = []
"""The zygote's ``sys.path`` without what its own start put there."""


def remember_path() -> None:
    """Keep the part of ``sys.path`` that every program has too; called before anything is
    forked."""
    given = (os.environ.get("PYTHONPATH") or "").split(os.pathsep)
    own = {os.path.realpath(each) for each in (os.getcwd(), *filter(None, given))}
    _BASE[:] = [each for each in sys.path if os.path.realpath(each or os.curdir) not in own]


def settle(settings: dict[str, Any], zygote: int) -> None:
    """Leave the zygote, in the new process.

    Args:
        settings: ``arguments`` (as for the interpreter), ``cwd``, ``env``, ``log``, ``sandbox``
            (its file), ``writable`` (None to restrict nothing).
        zygote: its process number.

    Raises:
        OSError: a folder is not there, or writes cannot be confined.
    """
    os.setsid()
    sandbox = _loaded(settings["sandbox"])
    sandbox.die_with(zygote)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(settings["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    os.chdir(settings["cwd"])
    os.environ.clear()
    os.environ.update(settings["env"])
    if settings["writable"] is not None:
        sandbox.confine(settings["writable"])
    tempfile.tempdir = None
    multiprocessing.process.ORIGINAL_DIR = os.getcwd()  # type: ignore[attr-defined]
    dynamo = sys.modules.get("torch._dynamo.config")
    if dynamo is not None and settings["env"].get("TORCHDYNAMO_DISABLE") == "1":
        dynamo.disable = True  # type: ignore[attr-defined] # it has read the variable already
    path = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [*path, *_BASE]
    importlib.invalidate_caches()


def _loaded(file: str) -> Any:
    spec = importlib.util.spec_from_file_location("_torchlint_sandbox", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(arguments: list[str]) -> None:
    """Load the recorder and run the program as ``__main__``; returns, or raises, as it ends."""
    install_recorder()
    main = ModuleType("__main__")
    main.__dict__.update(__builtins__=builtins, __annotations__={})
    sys.modules["__main__"] = main
    sys.orig_argv[:] = [sys.executable, *arguments]
    sys.argv[:] = arguments
    try:
        if arguments[0] == "-m":
            sys.argv[:] = ["-m", *arguments[2:]]
            _lead(os.getcwd())
            runpy._run_module_as_main(arguments[1])  # type: ignore[attr-defined] # as Python does
        else:
            path = os.path.abspath(arguments[0])
            _lead(os.path.dirname(os.path.realpath(path)))
            loader = SourceFileLoader("__main__", path)
            main.__dict__.update(
                __file__=path, __cached__=None, __loader__=loader, __package__=None
            )
            code = compile(loader.get_data(path), path, "exec", dont_inherit=True)
            exec(code, main.__dict__)  # noqa: S102 - that is the task
    except Stop:
        # Taking the interpreter apart would copy most of what it shares with the zygote.
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)
    except Exception as error:  # as Python shows it: without the frames of this file
        trace = _below(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        with contextlib.suppress(OSError):
            sys.stderr.flush()
        sys.exit(1)


def _lead(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):
        sys.path.insert(0, folder)


def _below(trace: TracebackType | None) -> TracebackType | None:
    own = {__file__, runpy.__file__, "<frozen runpy>"}
    while trace is not None and trace.tb_frame.f_code.co_filename in own:
        trace = trace.tb_next
    return trace
