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


if os.environ.get("TORCHLINT_RECORD"):
    importlib.import_module("torchlint_inside.program.inside.installing").install_recorder()
_run_shadowed()
