"""Calls of modules in a trace: as torchlint marked them, by their names in `named_modules()`, or as
the profiler recorded them with `with_stack=True`, by class and number."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from torchlint.base.records import frozen
from torchlint.trace.columns import OPERATOR, PYTHON, Columns, Ints, Mask, Trace
from torchlint.trace.marks import recorded
from torchlint.trace.nest import parents

_CALL = re.compile(r"nn\.Module: (.+)", re.DOTALL)
_MARK = re.compile(r"(?P<model>[^:]+): (?P<name>.+) \((?P<kind>[^()]+)\)", re.DOTALL)


@frozen
class Module:
    """A module: the model that it is in, its name there, empty for the model itself, and its
    class."""

    model: str
    name: str
    kind: str


@frozen
class ModuleCalls:
    """Calls of modules, with the call around each one, and the number of its module."""

    columns: Columns
    around: Ints
    of: Ints
    modules: tuple[Module, ...]
    exact: bool
    """Whether names are those of `named_modules()`."""


def apart(trace: Trace) -> Trace:
    """Return a trace that torchlint recorded with its marks of modules apart from all else."""
    if not recorded(trace):
        return trace
    marks = _calls(trace) & trace.of_cat(OPERATOR)
    if not marks.any():
        return trace
    columns = trace.columns
    return replace(trace, columns=columns.where(~marks), modules=columns.where(marks))


def module_calls(trace: Trace) -> ModuleCalls | None:
    """Return the calls of modules; None where the trace shows none."""
    columns = trace.modules
    if columns is None:
        rows = _calls(trace) & trace.of_cat(PYTHON)
        if not rows.any():
            return None
        columns = trace.columns.where(rows)
    columns = columns.where(np.lexsort((-columns.dur, columns.ts, columns.thread)))
    around = parents(trace.with_columns(columns), np.ones(len(columns.ts), dtype=np.bool_))
    names = [trace.names[name].partition(": ")[2] for name in columns.name.tolist()]
    exact = trace.modules is not None
    numbers: dict[Module, int] = {}
    of: list[int] = []
    found: list[Module] = []
    for name, above in zip(names, around.tolist(), strict=True):
        module = _marked(name) if exact else _nested(name, found[above] if above >= 0 else None)
        found.append(module)
        of.append(numbers.setdefault(module, len(numbers)))
    return ModuleCalls(columns, around, np.array(of, dtype=np.int64), tuple(numbers), exact)


def _calls(trace: Trace) -> Mask:
    return np.isin(trace.columns.name, trace.named(_CALL))


def _marked(name: str) -> Module:
    parts = _MARK.fullmatch(name)
    if parts is None:
        return Module(name, "", name.partition(" ")[0])
    return Module(parts["model"], parts["name"], parts["kind"])


def _nested(name: str, above: Module | None) -> Module:
    """Return a module that the profiler calls ``Linear_3``: its name is the way to it."""
    kind = re.sub(r"_\d+$", "", name)
    if above is None:
        return Module(name, "", kind)
    return Module(above.model, f"{above.name}.{name}" if above.name else name, kind)
