"""Doing something around the import of a module, whichever finder knows it."""

from __future__ import annotations

import importlib.abc
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Run = Callable[[ModuleType], object]


def found_behind(
    own: importlib.abc.MetaPathFinder, name: str, path: Any, target: Any
) -> ModuleSpec | None:
    """Return what the finders behind one's own say: a module may be part of an editable install."""
    for finder in sys.meta_path[sys.meta_path.index(own) + 1 :]:
        spec = finder.find_spec(name, path, target)
        if spec is not None:
            return spec
    return None


def executed_by(execute: Callable[[Run, ModuleType], object], spec: ModuleSpec) -> ModuleSpec:
    """Have a function run the module's code, which it is handed with the module.

    It is called when the module is imported, not when somebody asks whether it is there, as
    transformers asks for torch.
    """
    if spec.loader is not None:
        run = spec.loader.exec_module

        def executed(module: ModuleType) -> None:
            execute(run, module)

        spec.loader.exec_module = executed  # type: ignore[method-assign]
    return spec
