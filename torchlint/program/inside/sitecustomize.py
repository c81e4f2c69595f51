"""Runs the recorder, then the sitecustomize that this one shadows: that may import torch itself.

Python imports ``sitecustomize`` before the program. Loading the recorder here, rather than running
the program under one, keeps ``__main__``, argv, ``-m``, torchrun and spawned workers as they are.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys


def _run_shadowed() -> None:
    here = os.path.dirname(os.path.realpath(__file__))
    path = [entry for entry in sys.path if os.path.realpath(entry or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _install_recorder() -> None:
    settings = os.environ.get("TORCHLINT_RECORD")
    if not settings:
        return
    try:
        recorder = importlib.import_module(f"torchlint_inside.{os.environ['TORCHLINT_RECORDER']}")
        recorder.install(settings)
    except Exception as error:
        with open(f"{settings}.disabled", "a", encoding="utf-8") as note:  # noqa: PTH123 - before anything else
            note.write(f"recorder disabled: {type(error).__name__}: {error}\n")


_install_recorder()
_run_shadowed()
