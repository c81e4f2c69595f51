"""What a program's files import at their top, as far as it can be imported before the program
runs."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torchlint.program.command import Command

_MOST_FILES = 100
_MOST_NAMES = 5000
_READ_LATER = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "CUDA_LAUNCH_BLOCKING",
        "CUBLAS_WORKSPACE_CONFIG",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "PYTHONHASHSEED",
        "PYTORCH_CUDA_ALLOC_CONF",
        "RANK",
        "TOKENIZERS_PARALLELISM",
        "WORLD_SIZE",
    }
)
"""Variables that nothing reads while it is imported: torch and CUDA ask for them when they begin to
work with a device, others not at all."""
_SETTERS = frozenset({"putenv", "load_dotenv", "set_key", "environ.update", "environ.setdefault"})


@dataclass(slots=True)
class Imports:
    """What is known without running anything.

    Args:
        modules: to import beforehand, in order.
        own: names that the program finds among its own files.
        early: why nothing can be imported before the program runs; empty where it can.
    """

    modules: tuple[str, ...] = ()
    own: frozenset[str] = frozenset()
    early: str = ""


@dataclass(slots=True)
class _Reading:
    places: list[Path]
    names: frozenset[str]
    """Of all files and folders of the project: what may be its own, wherever it is looked for."""
    waiting: list[Path] = field(default_factory=list)
    modules: dict[str, None] = field(default_factory=dict)


def common(several: Sequence[Imports]) -> Imports:
    """Return what is known of several versions of a program that are forked from one process: what
    all import, and what is any one's own."""
    first, *others = several
    return Imports(
        tuple(name for name in first.modules if all(name in each.modules for each in others)),
        frozenset().union(*(each.own for each in several)),
        next(filter(None, (each.early for each in several)), ""),
    )


def imports_of(root: Path, cwd: Path, command: Command) -> Imports:
    """Read the program's file and, from there, those of the project that are imported.

    Args:
        root: the project.
        cwd: where the program is run.
        command: the program.
    """
    places = [cwd, root, root / "src"]
    if command.script is not None:
        start = [cwd / command.arguments[command.script]]
        places.insert(0, start[0].resolve().parent)
    else:
        name = command.arguments[1]
        start = [*_files(name, places), *_files(f"{name}.__main__", places)]
    own = frozenset(path.stem for place in places if place.is_dir() for path in place.iterdir()) - {
        "sitecustomize"
    }
    reading = _Reading(places, _names(root), start)
    seen: set[Path] = set()
    while reading.waiting and len(seen) < _MOST_FILES:
        path = reading.waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            tree = ast.parse(path.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        variable = next(_variables_set(tree), "")
        if variable:
            return Imports((), own, f"{path.name} sets {variable}, which an import may read")
        _read(tree, reading)
    # Such a program may never import torch, and is told so where it starts cold.
    early = "" if reading.modules else "its files import nothing at their top"
    return Imports(tuple(reading.modules), own, early)


def _read(tree: ast.Module, reading: _Reading) -> None:
    """Take the imports of one file that are not conditional."""
    for node in tree.body:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.ImportFrom) and node.level:
            reading.waiting += [  # of a package: whichever it is, it is the project's own
                found
                for each in (node.module, *(alias.name for alias in node.names))
                if each
                for found in _files(each, reading.places)
            ]
        for name in names:
            mine = _files(name, reading.places)
            reading.waiting += mine
            top = name.partition(".")[0]
            if not mine and top not in reading.names and top not in sys.stdlib_module_names:
                reading.modules[name] = None


def _files(name: str, places: list[Path]) -> list[Path]:
    """Return the files that may hold a module of the project."""
    parts = Path(*name.split("."))
    ends = (parts.with_suffix(".py"), parts / "__init__.py")
    return [place / end for place in places for end in ends if (place / end).is_file()]


def _names(root: Path) -> frozenset[str]:
    found: set[str] = set()
    for _, folders, files in os.walk(root):
        folders[:] = [each for each in folders if not each.startswith(".")]
        if "pyvenv.cfg" in files:
            folders.clear()
            continue
        found.update(each.partition(".")[0] for each in files if each.endswith(".py"))
        found.update(folders)
        if len(found) > _MOST_NAMES:
            break
    return frozenset(found)


def _variables_set(tree: ast.Module) -> Iterator[str]:
    """Yield the variables that a file sets, wherever, that an import may read."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if (
                    isinstance(target, ast.Subscript)
                    and _dotted(target.value).rpartition(".")[2] == "environ"
                ):
                    yield from _unless_later(target.slice)
        elif isinstance(node, ast.Call):
            name = _dotted(node.func)
            if name.endswith("environ.setdefault") and node.args:
                yield from _unless_later(node.args[0])
            elif any(name == each or name.endswith(f".{each}") for each in _SETTERS):
                yield "variables"


def _unless_later(name: ast.expr) -> Iterator[str]:
    value = name.value if isinstance(name, ast.Constant) else None
    if value not in _READ_LATER:
        yield str(value or "variables")


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return f"{_dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""
