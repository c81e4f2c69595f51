"""Runs a script as ``python script.py`` would, with marks in it: ``python -m
torchlint_inside.program.inside.launch script.py …``.

What is imported is marked by a finder; the script itself is not imported, and Python compiles it
by itself.
"""

from __future__ import annotations

import builtins
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType, ModuleType

from . import profiling


def main() -> None:
    """Run the script that the arguments name; torchrun puts ``-u`` before it, or names a module."""
    words = sys.argv[1:]
    if words[:1] == ["-u"]:
        del words[0]
    if words[:1] == ["-m"]:  # that is imported
        os.execv(sys.executable, [sys.executable, "-u", *words])
    path = os.path.abspath(words[0])
    sys.argv = words
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.realpath(path))
    run(path)


def run(path: str) -> None:
    """Run a script as ``__main__``."""
    module = ModuleType("__main__")
    loader = SourceFileLoader("__main__", path)
    module.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=loader,
        __package__=None,
        __annotations__={},
    )
    sys.modules["__main__"] = module
    try:
        exec(code(path, loader.get_data(path)), module.__dict__)  # noqa: S102 - that is the task
    except Exception as error:  # as Python shows it: without the frames of this file
        frames = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.excepthook(type(error), error.with_traceback(frames), frames)
        sys.exit(1)


def code(path: str, source: bytes) -> CodeType:
    """Return the code of a script, with marks where it is the project's own."""
    marks = profiling.marks()
    found = marks.code(source, path) if marks.below(path) else None
    return found or compile(source, path, "exec", dont_inherit=True)


if __name__ == "__main__":
    main()
