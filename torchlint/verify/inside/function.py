"""One function of the user's, imported from a copy of the project and called with given inputs."""

from __future__ import annotations

import asyncio
import builtins
import copy
import importlib
import importlib.util
import inspect
import itertools
import math
import os
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import torch

from . import clock
from .effects import Effects
from .program import RefusedError, described
from .snapshot import OF_MODULE, Lazy, random_states, seed, snapshot

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
MOST_ITEMS = 1_000
"""Items of an iterator that are taken; an endless one has more."""
_MOST_BYTES = 64 * 2**20
"""Size of a tensor or array of the module's that is still compared after each call."""
_EXAMPLES = {"int": "10", "float": "0.5", "bool": "True", "str": "'name'"}


class Function:
    """Calls ``settings["name"]`` of module ``settings["module"]`` in folder ``settings["root"]``.

    ``inputs`` is an expression (arguments of a call), ``factory`` [file, name] of a function that
    makes them; with neither, every parameter must have a default. ``grad`` calls ``backward`` on
    the sum of what is returned. ``mutates`` says that the function changes its inputs: then each
    timed call gets a copy, made outside of the time.
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

    def run(self, reps: int) -> clock.Taken:
        """Call it so often."""
        if not self.settings["mutates"]:
            return clock.timed_loop(lambda: self._call(self.inputs), reps)
        wall = cpu = events = 0
        for _ in range(reps):
            fresh = copied(self.inputs)
            one = clock.timed_loop(lambda fresh=fresh: self._call(fresh), 1)  # type: ignore[misc]
            wall, cpu, events = wall + one[0], cpu + one[1], events + one[2]
        return wall, cpu, events

    def check(self, path: str, seed_number: int) -> dict[str, Any]:
        """Call it once on inputs made from this seed; save all that a caller can see of the call.

        That is what it returned or raised, its inputs afterwards, its object, the names of its
        module, and its effects (see `effects`). What it raised is in the answer too.
        """
        seed(seed_number)
        inputs = self._inputs()
        before = snapshot({"inputs": inputs})
        result, raised = None, None
        with Effects(self.settings["folder"], self.settings["pristine"]) as effects:
            try:
                result = self._call(inputs, effects)
            except RefusedError:
                raise
            except Exception as error:
                raised = error
        states = random_states()
        values = {"result": result, "inputs": list(inputs[0]), "keywords": inputs[1]}
        if self.owner is not None:
            values["self"] = self.owner
        values |= self._names(effects) | effects.values
        values["raised"] = "" if raised is None else _described(raised)
        taken = self._without_folder(snapshot(values, states, aliases=True))
        torch.save(taken, path)
        after = snapshot({"inputs": inputs})
        return {
            "mutates": not self.settings["grad"] and _differ(before, after),
            "raised": None if raised is None else described(raised),
            "notes": effects.notes,
        }

    def _without_folder(self, taken: dict[str, Any]) -> dict[str, Any]:
        """Return a snapshot that does not tell in which copy of the project the call ran."""
        places = {self.settings["folder"], os.path.realpath(self.settings["folder"])}
        for leaf in taken["values"].values():
            for fact in ("text", "order"):
                for place in places if isinstance(leaf.get(fact), str) else ():
                    leaf[fact] = leaf[fact].replace(place, "<project>")
        return taken

    def _names(self, effects: Effects) -> dict[str, Any]:
        """Return the data that the function's module holds: what a call may leave for the next one.

        Of its functions and classes that are attributes: a count, a cache.
        """
        names = vars(sys.modules[self.settings["module"]])
        found = {
            name: value
            for name, value in names.items()
            if not (name.startswith("__") or _is_code(value))
        }
        for name, value in names.items():
            if _is_code(value) and getattr(value, "__module__", "") == self.settings["module"]:
                data = {
                    key: part
                    for key, part in getattr(value, "__dict__", {}).items()
                    if not (key.startswith("__") or _is_code(part))
                }
                found |= {
                    f"{name}.{key}": part
                    for key, part in data.items()
                    if not hasattr(type(part), "__get__")
                }
        large = [name for name, value in found.items() if _bytes(value) > _MOST_BYTES]
        effects.notes += [
            f"{name}: more than {_MOST_BYTES >> 20} MB, not compared" for name in large
        ]
        return {f"{OF_MODULE}{name}": value for name, value in found.items() if name not in large}

    def count(self) -> dict[str, Any]:
        """Not offered: the module was imported before a ledger could watch it."""
        raise RefusedError("traffic is not counted in function mode", "unsupported")

    # Finding it

    def _find(self) -> None:
        root, dotted, name = self.settings["root"], self.settings["module"], self.settings["name"]
        module = importlib.import_module(dotted)
        origin = os.path.realpath(module.__file__ or "")
        if not origin.startswith(os.path.realpath(root) + os.sep):
            raise RefusedError(
                f"{dotted} was imported from {origin}, not from the copy of the project"
            )
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
        if (
            owner_name
            and inspect.isclass(holder)
            and not isinstance(inspect.getattr_static(holder, last), (staticmethod, classmethod))
        ):
            self.owner = self._built(holder, owner_name)
            found = getattr(self.owner, last)
        self.function = found

    def _built(self, holder: type, name: str) -> Any:
        try:
            return holder()
        except TypeError as error:
            raise RefusedError(
                f"{name} cannot be built without arguments ({error}); name a function that "
                "builds and calls it"
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
            for tensor in _tensors(made):
                if tensor.is_leaf and (tensor.is_floating_point() or tensor.is_complex()):
                    tensor.requires_grad_(True)
        return made

    def _made(self) -> Inputs:
        file, name = self.settings["factory"]
        spec = importlib.util.spec_from_file_location("torchlint_inputs", file)
        if spec is None or spec.loader is None:
            raise RefusedError(f"cannot import {file}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        if not callable(getattr(module, name, None)):
            raise RefusedError(
                f"{os.path.basename(file)} has no function {name}{_hint(module, name)}"
            )
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
        needed = [
            p
            for p in parameters
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
        if needed:
            example = ", ".join(f"{p.name}={_example(p)}" for p in needed)
            names = ", ".join(p.name for p in needed)
            raise RefusedError(
                f'{self.settings["name"]} needs inputs for {names}: --inputs "{example}", or '
                "--inputs FILE.py:FUNCTION that returns them"
            )
        return (), {}

    def _fits(self) -> None:
        try:
            signature = inspect.signature(self.function)
        except (ValueError, TypeError):
            return
        try:
            signature.bind(*self.inputs[0], **self.inputs[1])
        except TypeError as error:
            raise RefusedError(
                f"--inputs do not fit {self.settings['name']}{signature}: {error}"
            ) from None

    def _call(self, inputs: Inputs, effects: Effects | None = None) -> Any:
        if not self.settings["grad"]:
            return consumed(self.function(*inputs[0], **inputs[1]), effects)
        for leaf in (
            *_tensors(inputs),
            *(list(self.owner.parameters()) if isinstance(self.owner, torch.nn.Module) else []),
        ):
            leaf.grad = None
        result = consumed(self.function(*inputs[0], **inputs[1]), effects)
        parts = [part.sum() for part in _tensors(result) if part.requires_grad]
        if not parts:
            raise RefusedError(
                f"--grad: {self.settings['name']} returns no tensor that has a gradient"
            )
        if effects is not None:
            effects.say("backward")
        sum(parts[1:], parts[0]).backward()
        return result


def consumed(result: Any, effects: Effects | None) -> Any:
    """Wait for what a coroutine returns, and take the items of an iterator: what is lazy does its
    work only then.

    Args:
        result: what the function returned.
        effects: of the call, where they are watched: then each item's place among what is printed
            is marked, and an iterator becomes `Lazy`, whose items are seen as they were when they
            came.
    """
    if inspect.iscoroutine(result):
        if effects is not None:
            effects.say("awaited")
        return consumed(asyncio.run(result), effects)
    if isinstance(result, AsyncIterator):
        items: Iterator[Any] = iter(asyncio.run(_awaited(result)))
    elif isinstance(result, Iterator) and not hasattr(result, "read"):
        items = result
    else:
        return result
    if effects is None:
        return list(itertools.islice(items, MOST_ITEMS))
    effects.say("returned")
    seen: list[tuple[Any, dict[str, Any]]] = []
    returned = None
    while len(seen) < MOST_ITEMS:
        try:
            item = next(items)
        except StopIteration as end:
            returned = end.value
            break
        effects.say(f"item {len(seen)}")
        seen.append((item, snapshot({"item": item})))
    else:
        effects.notes.append(f"what was returned was compared as far as {MOST_ITEMS:,} items")
    return Lazy(type(result).__name__, tuple(seen), returned)


def _described(error: BaseException, depth: int = 5) -> str:
    """Return what a caller can see of an exception: type and bases, message, cause, notes,
    attributes, members."""
    kind = type(error)
    lines = [f"{kind.__name__}: {error}"]
    if kind.__module__ != "builtins":
        lines.append(
            "is a " + ", ".join(base.__name__ for base in kind.__mro__[1:-2])
        )  # all but itself and object
    lines += [
        f"argument of type {type(each).__name__}" for each in error.args if type(each) is not str
    ]
    lines += [
        f"{name} = {value!r}" for name, value in vars(error).items() if not _is_address(repr(value))
    ]
    others = [error.__cause__, *getattr(error, "exceptions", ())]
    return "\n".join(
        [
            *lines,
            *(
                f"from {_described(other, depth - 1)}"
                for other in others
                if other is not None and depth
            ),
        ]
    )


def _is_address(text: str) -> bool:
    """Say whether what Python says of an object tells only where it lies."""
    return " at 0x" in text


async def _awaited(result: AsyncIterator[Any]) -> list[Any]:
    found = []
    async for item in result:
        found.append(item)
        if len(found) == MOST_ITEMS:
            break
    return found


def evaluated(text: str) -> Inputs:
    """Return the arguments that `text` writes, with torch's names, ``torch``, ``np`` and ``math``
    in scope."""
    # Python's own names win: torch has a range and a sum of its own.
    torchs = {
        name: value
        for name, value in vars(torch).items()
        if not (name.startswith("_") or hasattr(builtins, name))
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
    """Return a copy in which nothing is shared with `value`; leaves that want gradients want them
    again."""
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


def _is_code(value: Any) -> bool:
    return inspect.ismodule(value) or inspect.isroutine(value) or inspect.isclass(value)


def _bytes(value: Any) -> int:
    """Return how much a tensor, an array or a model holds, where it is one."""
    if isinstance(value, torch.nn.Module):
        return sum(each.nbytes for each in value.parameters())
    size = getattr(value, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _tensors(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, Lazy):
        value = [item for item, _ in value.items]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [found for item in value for found in _tensors(item)]
        if isinstance(value, (list, tuple))
        else []
    )


def _hint(module: Any, name: str) -> str:
    import difflib

    known = [key for key, value in vars(module).items() if inspect.isfunction(value)]
    for key, value in vars(module).items():
        if inspect.isclass(value) and value.__module__ == module.__name__:
            known += [
                f"{key}.{inner}" for inner, what in vars(value).items() if inspect.isfunction(what)
            ]
    close = difflib.get_close_matches(name, known, 3, 0.5)
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _example(parameter: inspect.Parameter) -> str:
    kind = (
        parameter.annotation
        if isinstance(parameter.annotation, str)
        else getattr(parameter.annotation, "__name__", "")
    )
    return _EXAMPLES.get(kind, "randn(64, 512)")
