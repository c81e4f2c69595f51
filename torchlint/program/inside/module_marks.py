"""Marks in a trace for calls of modules, by their names in `named_modules()`.

`torch.nn.Module.__call__` is replaced while steps are profiled, and nothing else: a hook of each
module would be copied and saved with it, and global hooks make compiled modules warn. What
`torch.compile` compiled before keeps the call that it saw; what it compiles meanwhile has no marks,
and is compiled anew where the program goes on without them.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections import Counter
from typing import Any

PREFIX = "nn.Module: "
"""How names of marks begin, as those of the profiler's own events with `with_stack=True` do."""


class ModuleMarks:
    """The names of a process' modules, and the marks of their calls.

    A mark is called ``nn.Module: Net`` for a model and ``nn.Module: Net: layers.0 (Block)`` for
    what is in it.
    """

    def __init__(self) -> None:
        self._places: dict[int, tuple[weakref.ref[Any], int, str]] = {}
        """The outermost module around each one, and its name there, by its `id`."""
        self._outermost: dict[int, str] = {}
        self._variables: dict[int, str] = {}
        """What the program calls models, where several are of one class."""
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._torch: Any = None
        self._call: Any = None

    def find(self, torch: Any) -> None:
        """Look up all modules that there are: which hold which."""
        self._torch, kind = torch, torch.nn.Module
        modules = [each for each in gc.get_objects() if issubclass(type(each), kind)]
        inner = {id(each) for module in modules for each in _children(module)}
        models = [module for module in modules if id(module) not in inner]
        times = Counter(map(type, models))
        self._variables = _variables({id(each) for each in models if times[type(each)] > 1})
        for outer in models:
            for name, module in outer.named_modules():
                place = weakref.ref(module), id(outer), name
                self._places.setdefault(id(module), place)

    def show(self) -> None:
        """Mark calls from now on."""
        from torch._C._profiler import _RecordFunctionFast

        module, compiler, name = self._torch.nn.Module, self._torch.compiler, self._name
        self._call = call = module.__call__

        def marked(self: Any, *args: Any, **kwargs: Any) -> Any:
            if compiler.is_compiling():
                return call(self, *args, **kwargs)
            with _RecordFunctionFast(name(self)):
                return call(self, *args, **kwargs)

        module.__call__ = marked

    def hide(self) -> None:
        """Mark no calls any more."""
        if self._call is not None:
            self._torch.nn.Module.__call__ = self._call
            self._call = None

    def _name(self, module: Any) -> str:
        known = self._names.get(id(module))
        if known is not None and known[0]() is module:
            return known[1]
        found = self._named(module)
        self._names[id(module)] = weakref.ref(module), found
        return found

    def _named(self, module: Any) -> str:
        kind = type(module).__name__
        place = self._places.get(id(module))
        if place is None or place[0]() is not module:  # made since
            return PREFIX + kind
        _, outer, name = place
        if outer not in self._outermost:
            own = self._places[outer][0]()
            own_kind = kind if own is None else type(own).__name__
            self._outermost[outer] = self._model(outer, own_kind)
        model = self._outermost[outer]
        return f"{PREFIX}{model}: {name} ({kind})" if name else PREFIX + model

    def _model(self, model: int, kind: str) -> str:
        """Return what a model is called: by its class; of several, with the variable that holds it,
        else with a number from the second one on."""
        if model in self._variables:
            return f"{kind} {self._variables[model]}"
        others = [name.partition(" ")[0] for name in self._outermost.values()].count(kind)
        return f"{kind} {others + 1}" if others else kind


def _variables(wanted: set[int]) -> dict[int, str]:
    """Return names of variables that hold objects, by `id`: of functions that run now, the
    innermost first, and attributes of what is `self` there."""
    found: dict[int, str] = {}
    frame = sys._getframe() if wanted else None
    while frame is not None:
        variables = frame.f_locals
        held = getattr(variables.get("self"), "__dict__", {})
        for name, value in (*variables.items(), *held.items()):
            if id(value) in wanted and name != "self":
                found.setdefault(id(value), name)
        frame = frame.f_back
    return found


def _children(module: Any) -> list[Any]:
    held = module.__dict__.get("_modules")
    return list(held.values()) if isinstance(held, dict) else []
