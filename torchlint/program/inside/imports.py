"""Doing something around the import of a module, whichever finder knows it; and where modules came
from."""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Callable, Iterator
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


def after_import(name: str, after: Callable[[Any], None]) -> None:
    """Call a function with a module: now, or once it has been imported."""
    if name in sys.modules:
        after(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, after))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function once a module has been imported."""

    def __init__(self, name: str, after: Callable[[Any], None]) -> None:
        self.name = name
        self.after = after

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        spec = found_behind(self, name, path, target) if name == self.name else None
        return executed_by(self._execute, spec) if spec is not None else None

    def _execute(self, run: Run, module: ModuleType) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        run(module)
        self.after(module)


def leaked(original: str, copy: str) -> dict[str, str]:
    """Return modules that were imported from the user's own tree instead of the copy, by name."""
    found: dict[str, str] = {}
    if not original:
        return found
    for name, file in module_files():
        if file.startswith(original + os.sep) and not file.startswith(copy + os.sep):
            found[name] = file
    return found


def module_files() -> Iterator[tuple[str, str]]:
    """Yield the name of each imported module that has a file, and that, as `os.path.realpath`
    gives it.

    There are thousands, in hundreds of folders: each folder is resolved once.
    """
    folders: dict[str, str] = {}
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) or ""
        if not os.path.isabs(file):
            continue  # It is built in, or made by another one, as torch.ops is.
        folder, base = os.path.split(file)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        path = os.path.join(folders[folder], base)
        yield name, os.path.realpath(path) if os.path.islink(path) else path
