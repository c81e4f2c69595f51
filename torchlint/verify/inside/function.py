"""One function of the user's, imported from a copy of the project and called with given inputs."""

from __future__ import annotations

import builtins
import copy
import importlib
import importlib.util
import inspect
import math
import os
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

import torch

from . import clock
from .program import RefusedError
from .snapshot import random_states, seed, snapshot

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
_EXAMPLES = {"int": "10", "float": "0.5", "bool": "True", "str": "'name'"}


class Function:
    """Calls ``settings["name"]`` of module ``settings["module"]`` in folder ``settings["root"]``.

    ``inputs`` is an expression (arguments of a call), ``factory`` [file, name] of a function that makes them; with
    neither, every parameter must have a default. ``grad`` calls ``backward`` on the sum of what is returned.
    ``mutates`` says that the function changes its inputs: then each timed call gets a copy, made outside of the time.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.function: Callable[..., Any] = len
        self.owner: Any = None
        self.inputs: Inputs = ((), {})

    def load(self) -> None:
        """Import the module, find the function, make the inputs."""
        sys.path.insert(0, self.settings["root"])
        warnings.simplefilter("ignore")
        self._find()
        self.inputs = self._inputs()
        self._fits()

    def run(self, reps: int) -> tuple[int, int]:
        """Call it so often."""
        if not self.settings["mutates"]:
            return clock.timed_loop(lambda: self._call(self.inputs), reps)
        wall = cpu = 0
        for _ in range(reps):
            fresh = copied(self.inputs)
            one = clock.timed_loop(lambda fresh=fresh: self._call(fresh), 1)  # type: ignore[misc]
            wall, cpu = wall + one[0], cpu + one[1]
        return wall, cpu

    def check(self, path: str, seed_number: int) -> dict[str, Any]:
        """Call it once on inputs made from this seed; save what it returned, its inputs afterwards and its object."""
        seed(seed_number)
        inputs = self._inputs()
        before = snapshot({"inputs": inputs})
        result = self._call(inputs)
        values = {"result": result, "inputs": list(inputs[0]), "keywords": inputs[1]}
        if self.owner is not None:
            values["self"] = self.owner
        torch.save(snapshot(values, random_states()), path)  # torchlint: ignore[TL508] one call, not a training loop
        after = snapshot({"inputs": inputs})
        return {"mutates": not self.settings["grad"] and _differ(before, after)}

    def count(self) -> dict[str, Any]:
        """Not offered: the module was imported before a ledger could watch it."""
        raise RefusedError("traffic is not counted in function mode", "unsupported")

    # Finding it

    def _find(self) -> None:
        root, dotted, name = self.settings["root"], self.settings["module"], self.settings["name"]
        module = importlib.import_module(dotted)
        origin = os.path.realpath(module.__file__ or "")
        if not origin.startswith(os.path.realpath(root) + os.sep):
            raise RefusedError(f"{dotted} was imported from {origin}, not from the copy of the project")
        owner_name, _, last = name.rpartition(".")
        found: Any = module
        for part in name.split("."):
            if not hasattr(found, part):
                raise RefusedError(f"{dotted} has no function {name}{_hint(module, name)}")
            holder, found = found, getattr(found, part)
        if inspect.isclass(found):
            raise RefusedError(f"{name} is a class; name one of its methods: {name}.forward")
        if not callable(found):
            raise RefusedError(f"{name} is no function (its class is {type(found).__name__})")
        if owner_name and inspect.isclass(holder) and not _stands_alone(holder, last):
            self.owner = self._built(holder, owner_name)
            found = getattr(self.owner, last)
        self.function = found

    def _built(self, holder: type, name: str) -> Any:
        try:
            return holder()
        except TypeError as error:
            raise RefusedError(
                f"{name} cannot be built without arguments ({error}); name a function that builds and calls it"
            ) from None

    # Its inputs

    def _inputs(self) -> Inputs:
        if self.settings["factory"]:
            made = self._made()
        elif self.settings["inputs"] is not None:
            made = evaluated(self.settings["inputs"])
        else:
            made = self._defaults()
        if self.settings["grad"]:
            _require_grad(made)
        return made

    def _made(self) -> Inputs:
        file, name = self.settings["factory"]
        spec = importlib.util.spec_from_file_location("torchlint_inputs", file)
        if spec is None or spec.loader is None:
            raise RefusedError(f"cannot import {file}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not callable(getattr(module, name, None)):
            raise RefusedError(f"{os.path.basename(file)} has no function {name}{_hint(module, name)}")
        made = getattr(module, name)()
        if (
            isinstance(made, tuple)
            and len(made) == 2
            and isinstance(made[1], dict)
            and isinstance(made[0], (tuple, list))
        ):
            return tuple(made[0]), made[1]
        return (made if isinstance(made, tuple) else (made,)), {}

    def _defaults(self) -> Inputs:
        parameters = inspect.signature(self.function).parameters.values()
        needed = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if needed:
            example = ", ".join(f"{p.name}={_example(p)}" for p in needed)
            names = ", ".join(p.name for p in needed)
            raise RefusedError(f'{self.settings["name"]} needs inputs for {names}: --inputs "{example}"')
        return (), {}

    def _fits(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except (ValueError, TypeError):
            return
        try:
            signature.bind(*self.inputs[0], **self.inputs[1])
        except TypeError as error:
            raise RefusedError(f"--inputs do not fit {self.settings['name']}{signature}: {error}") from None

    def _call(self, inputs: Inputs) -> Any:
        if not self.settings["grad"]:
            result = self.function(*inputs[0], **inputs[1])
            return list(result) if isinstance(result, types.GeneratorType) else result
        for leaf in (*_tensors(inputs), *_parameters(self.owner)):
            leaf.grad = None
        result = self.function(*inputs[0], **inputs[1])
        parts = [part.sum() for part in _tensors(result) if part.requires_grad]
        if not parts:
            raise RefusedError(f"--grad: {self.settings['name']} returns no tensor that has a gradient")
        sum(parts[1:], parts[0]).backward()
        return result


def evaluated(text: str) -> Inputs:
    """Return the arguments that `text` writes, with torch's names, ``torch``, ``np`` and ``math`` in scope."""
    # Python's own names win: torch has a range and a sum of its own.
    torchs = {
        name: value for name, value in vars(torch).items() if not (name.startswith("_") or hasattr(builtins, name))
    }
    names: dict[str, Any] = {**torchs, "torch": torch}
    names |= {"math": math, "_collect": lambda *args, **kwargs: (args, kwargs)}
    if importlib.util.find_spec("numpy"):
        names["np"] = names["numpy"] = importlib.import_module("numpy")
    if "cuda" in text and not torch.cuda.is_available():
        raise RefusedError("--inputs ask for CUDA, and there is no GPU here")
    try:
        made: Inputs = eval(compile(f"_collect({text}\n)", "--inputs", "eval"), names)  # noqa: S307 - the user wrote it
    except Exception as error:
        shown = "".join(str(error).split("\n")[:1])
        raise RefusedError(f"--inputs {text!r}: {type(error).__name__}: {shown}") from None
    return made


def copied(value: Any) -> Any:
    """Return a copy in which nothing is shared with `value`; leaves that want gradients want them again."""
    if isinstance(value, torch.Tensor):
        fresh = value.detach().clone()
        return fresh.requires_grad_(value.requires_grad)
    if type(value) in (list, tuple):
        return type(value)(copied(item) for item in value)
    if type(value) is dict:
        return {key: copied(item) for key, item in value.items()}
    try:
        return copy.deepcopy(value)
    except Exception:
        return value  # a file, a lock: it stays the same


def _differ(before: dict[str, Any], after: dict[str, Any]) -> bool:
    from .equality import compare

    return bool(compare(before, after)["level"] != "bitwise")


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [found for item in value for found in _tensors(item)] if isinstance(value, (list, tuple)) else []


def _parameters(owner: Any) -> list[torch.Tensor]:
    return list(owner.parameters()) if isinstance(owner, torch.nn.Module) else []


def _require_grad(inputs: Inputs) -> None:
    for tensor in _tensors(inputs):
        if tensor.is_leaf and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_(True)


def _stands_alone(holder: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(holder, name), (staticmethod, classmethod))


def _hint(module: Any, name: str) -> str:
    import difflib

    known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
    for key, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            known += [f"{key}.{inner}" for inner, what in vars(value).items() if inspect.isfunction(what)]
    close = difflib.get_close_matches(name, known, 3, 0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _example(parameter: inspect.Parameter) -> str:
    kind = (
        parameter.annotation if isinstance(parameter.annotation, str) else getattr(parameter.annotation, "__name__", "")
    )
    return _EXAMPLES.get(kind, "randn(64, 512)")
