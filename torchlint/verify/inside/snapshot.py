"""Everything a caller can see of a run, as a flat dict of plain facts that
``torch.load(weights_only=True)`` reads.

A value is taken apart into leaves by path (``out[0]``, ``model.weight.grad``): a class of the
user's is named, never pickled, so that reading a snapshot runs no code of anybody's.
"""

from __future__ import annotations

import collections
import copyreg
import dataclasses
import enum
import functools
import hashlib
import random
import sys
import types
from collections.abc import Mapping
from typing import Any

import torch

MARK = "torchlint snapshot"
_DEPTH = 30
_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_IMPLEMENTATION = frozenset(
    {"foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay"}
)
"""Keys of an optimizer's groups that say how it computes, not what."""

OF_MODULE = "module:"
"""What the name of a module's own variable begins with, at the top of a snapshot."""
_NOT_THE_USERS = (sys.stdlib_module_names - {"__main__"}) | {"torch", "numpy"}
_MOST_LEAVES = 200_000
"""Facts after which what is left of a value is not taken apart any more."""
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))
"""Attributes in which any `torch.nn.Module` keeps parameters, buffers, modules, hooks and its
mode."""
_OF_LOADER = ("dataset", "batch_size", "drop_last")
"""What of a DataLoader says which batches it gives; the rest says how it gets them."""
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_state_dict_hooks")
"""Where a `torch.nn.Module` keeps the hooks that were registered on it."""

Leaf = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Lazy:
    """An iterator that was returned, and its items, each with a snapshot of when it came.

    Args:
        type: of the iterator: ``"generator"``, ``"map"``.
        items: the objects, and what `snapshot` said of each under the name ``item``.
        returned: what a generator returned at its end.
    """

    type: str
    items: tuple[tuple[Any, dict[str, Any]], ...]
    returned: Any = None


def snapshot(
    values: Mapping[str, Any], rng: Mapping[str, Any] | None = None, *, aliases: bool = False
) -> dict[str, Any]:
    """Return values by name and the states of the random generators, copied to the host and taken
    apart.

    Args:
        values: what is visible after the run, by name: results, inputs, names bound.
        rng: what `random_states` gave when the run had ended; left out where it does not matter.
        aliases: whether to note which tensors are one object or share their memory.
    """
    taker = _Taker(aliases)
    for name, value in values.items():
        taker.take(str(name), value, 0)
    return {MARK: 1, "values": taker.leaves, "rng": dict(rng or {})}


def random_states() -> dict[str, Any]:
    """Return the states of the torch, Python and, where it is loaded, NumPy generators, by name."""
    states: dict[str, Any] = {
        "torch": torch.get_rng_state(),
        "Python": _digest(repr(random.getstate())),
    }
    if torch.cuda.is_initialized():
        for index, state in enumerate(torch.cuda.get_rng_state_all()):
            states[f"torch cuda:{index}"] = state
    if "numpy" in sys.modules:
        kind, keys, *rest = sys.modules["numpy"].random.get_state(legacy=True)
        states["NumPy"] = _digest(repr((kind, keys.tobytes(), rest)))
    return states


def top(path: str) -> str:
    """Return the name that a path starts with."""
    return path.partition("[")[0].partition(".")[0]


def seed(number: int) -> None:
    """Seed every generator that `random_states` looks at."""
    torch.manual_seed(number)
    random.seed(number)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(number % 2**32)


def _digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()


class _Taker:
    """Takes values apart; `leaves` holds the facts by path."""

    def __init__(self, aliases: bool) -> None:
        self.leaves: dict[str, Leaf] = {}
        self.aliases = aliases
        self.objects: dict[int, tuple[str, Any]] = {}
        """Path and object by identity; the object is kept, so that no other one gets its number."""
        self.memory: dict[int, str] = {}
        self.kept: list[Any] = []
        """Arrays whose addresses are noted, so that no other one gets them."""
        self.open: set[int] = set()
        """Objects that are being taken apart further up: a cycle ends there."""

    def take(self, path: str, value: Any, depth: int) -> None:
        if isinstance(value, enum.Enum):
            self.leaves[path] = _words(type(value).__name__, str(value))
            self.take(f"{path}.value", value.value, depth + 1)
        elif isinstance(value, _SCALARS):
            self.leaves[path] = _scalar(value)
            if type(value) not in _SCALARS:
                self._attributes(path, value, depth + 1)
        elif id(value) in self.open:
            self.leaves[path] = {"kind": "object", "type": type(value).__name__}
        elif depth > _DEPTH or len(self.leaves) > _MOST_LEAVES:
            self._unseen(path, value)
        else:
            self.open.add(id(value))
            try:
                self._compound(path, value, depth + 1)
            finally:
                self.open.discard(id(value))
            if (
                self.aliases
                and path in self.leaves
                and not isinstance(value, (torch.Tensor, tuple, Lazy))
            ):
                self.leaves[path] |= self._alias_of(path, value)

    def _unseen(self, path: str, value: Any) -> None:
        """Note a value of which only the type is known."""
        self.leaves[path] = {"kind": "object", "type": type(value).__name__, "unseen": True}

    def _alias_of(self, path: str, value: Any) -> Leaf:
        """Return which value seen before is this very object."""
        first, _ = self.objects.setdefault(id(value), (path, value))
        return {"same object as": "" if first == path else first}

    def _attributes(self, path: str, value: Any, depth: int) -> None:
        """Take what a value of a class of the user's carries besides what it holds as a list, a
        number, a tensor."""
        if _is_users(type(value)) or isinstance(value, torch.Tensor):
            for name, part in _attributes(value).items():
                self.take(f"{path}.{name}", part, depth)

    def _compound(self, path: str, value: Any, depth: int) -> None:
        name = type(value).__name__
        if isinstance(value, torch.nn.parameter.UninitializedTensorMixin):
            self.leaves[path] = _words(name, "not initialized")
        elif isinstance(value, torch.Tensor):
            self._tensor(path, value, depth)
        elif isinstance(value, Lazy):
            self._lazy(path, value)
        elif isinstance(value, Mapping):
            kind = type(value).__name__
            self.leaves[path] = {
                "kind": "keys",
                "type": kind,
                "text": ", ".join(sorted(map(repr, value))),
                "order": str(list(value)),
            }
            for key, item in value.items():
                self.take(f"{path}[{key!r}]", item, depth)
            if isinstance(value, collections.defaultdict):
                self.take(f"{path}.default_factory", value.default_factory, depth)
            self._attributes(path, value, depth)
        elif isinstance(value, (set, frozenset)):
            self.leaves[path] = _words(name, str(sorted(map(repr, value))))
        elif isinstance(value, (list, tuple)):
            self._items(path, value, depth)
        elif isinstance(value, (torch.dtype, torch.device, torch.layout, range, slice)):
            self.leaves[path] = _words(name, str(value))
        elif isinstance(value, torch.Generator):
            self.take(f"{path}.get_state()", value.get_state(), depth)
        elif type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            self._numpy(path, value)
        else:
            self._object(path, value, depth)

    def _items(self, path: str, value: list[Any] | tuple[Any, ...], depth: int) -> None:
        fields = ", ".join(map(str, getattr(type(value), "_fields", ())))
        text = f"{len(value)} items" + (f": {fields}" if fields else "")
        self.leaves[path] = {"kind": "items", "type": type(value).__name__, "text": text}
        for index, item in enumerate(value):
            self.take(f"{path}[{index}]", item, depth)
        self._attributes(path, value, depth)

    def _lazy(self, path: str, value: Lazy) -> None:
        self.leaves[path] = {
            "kind": "lazy",
            "type": value.type,
            "text": f"{len(value.items)} items",
        }
        for index, (_, taken) in enumerate(value.items):
            for below, leaf in taken["values"].items():
                self.leaves[f"{path}[{index}]{below.removeprefix('item')}"] = leaf
        if not self.aliases:
            return
        for index, (item, _) in enumerate(
            value.items
        ):  # one buffer that is given out again and again
            here = f"{path}[{index}]"
            if isinstance(item, torch.Tensor):
                self.leaves[here] = self.leaves[here] | self._aliases(here, item)
            elif not isinstance(item, (*_SCALARS, tuple)):
                self.leaves[here] = self.leaves[here] | self._alias_of(here, item)
        if value.returned is not None:
            self.take(f"{path}.returned", value.returned, 1)

    def _function(self, path: str, value: Any, depth: int) -> None:
        """Take apart what a function carries with it; what it does when called is not seen."""
        while (
            isinstance(value, types.FunctionType)
            and hasattr(value, "__wrapped__")
            and not _is_users_code(value)
        ):
            # A decorator of a library's, torch.no_grad() say: how it wraps is not what a caller
            # asks for.
            value = value.__wrapped__
        if isinstance(value, functools.partial):
            parts: Any = {"func": value.func, "args": value.args, "keywords": value.keywords}
        elif isinstance(value, types.MethodType):
            parts = {"__self__": value.__self__}
        else:
            cells = zip(value.__code__.co_freevars, value.__closure__ or ())  # noqa: B905 - one length
            parts = {name: _content(cell) for name, cell in cells}
            defaults = {"__defaults__": value.__defaults__, "__kwdefaults__": value.__kwdefaults__}
            parts |= {name: part for name, part in defaults.items() if part} | vars(value)
        self.leaves[path]["text"] = getattr(value, "__qualname__", "")
        for name, part in parts.items():
            self.take(f"{path}.{name}", part, depth)

    def _object(self, path: str, value: Any, depth: int) -> None:
        self.leaves[path] = {"kind": "object", "type": type(value).__name__}
        if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType)):
            self.leaves[path]["text"] = getattr(value, "__qualname__", "") or getattr(
                value, "__name__", ""
            )
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._function(path, value, depth)
        elif isinstance(value, torch.nn.Module):
            self._module(path, value, depth)
        elif isinstance(value, torch.optim.Optimizer):
            state = value.state_dict()
            self.take(f"{path}.state", state["state"], depth)
            groups = [
                {k: v for k, v in g.items() if k not in _IMPLEMENTATION}
                for g in state["param_groups"]
            ]
            self.take(f"{path}.param_groups", groups, depth)
        elif isinstance(value, torch.utils.data.DataLoader):
            for key in _OF_LOADER:
                self.take(f"{path}.{key}", getattr(value, key), depth)
        elif isinstance(value, BaseException):
            self.take(f"{path}.args", value.args, depth)
            self.take(f"{path}.__cause__", value.__cause__, depth)
            for key, item in _attributes(value).items():
                self.take(f"{path}.{key}", item, depth)
        elif (
            dataclasses.is_dataclass(value)
            or isinstance(value, types.SimpleNamespace)
            or _is_users(type(value))
        ):
            names = (
                [each.name for each in dataclasses.fields(value)]
                if dataclasses.is_dataclass(value)
                else []
            )
            for key, item in {
                **{name: getattr(value, name, None) for name in names},
                **_attributes(value),
            }.items():
                self.take(f"{path}.{key}", item, depth)
        else:
            self._reduced(path, value, depth)

    def _module(self, path: str, value: torch.nn.Module, depth: int) -> None:
        """Take what a module holds, and of each module in it the mode and the attributes: sizes,
        rates, lists."""
        hooks = sum(len(getattr(each, name, ())) for each in value.modules() for name in _HOOKS)
        self.leaves[path] |= {"text": f"training={value.training}", "hooks": hooks}
        kept = value.state_dict(keep_vars=True)
        for key, item in kept.items():
            self.take(f"{path}.{key}", item, depth)
        for key, item in value.named_buffers():
            if key not in kept:
                self.take(f"{path}.{key}", item, depth)
        for name, module in value.named_modules():
            below = f"{path}.{name}" if name else path
            if name:
                text = f"training={module.training}"
                self.leaves[below] = {"kind": "object", "type": type(module).__name__, "text": text}
            own = not _is_users(type(module))
            for key, item in vars(module).items():
                if (
                    key not in _OF_EVERY_MODULE
                    and not (own and key.startswith("_"))
                    and f"{below}.{key}" not in kept
                ):
                    self.take(f"{below}.{key}", item, depth)

    def _reduced(self, path: str, value: Any, depth: int) -> None:
        """Take apart an object of Python's, torch's or NumPy's by what `pickle` would write of
        it."""
        try:
            known = copyreg.dispatch_table.get(type(value))
            reduced = known(value) if known is not None else value.__reduce_ex__(4)
        except Exception:
            self._unseen(path, value)
            return
        if isinstance(reduced, str):
            self.leaves[path]["text"] = reduced
            return
        names = ("args", "state", "items", "pairs")
        for name, part in zip(names, reduced[1:]):  # noqa: B905 - what is None may be left out at the end
            if part is not None and part != ():
                self.take(
                    f"{path}.<{name}>", list(part) if name in ("items", "pairs") else part, depth
                )

    def _numpy(self, path: str, value: Any) -> None:
        leaf: Leaf = {
            "kind": "array",
            "type": type(value).__name__,
            "dtype": str(value.dtype),
            "shape": list(value.shape),
        }
        try:
            # A copy that is contiguous and writable; NumPy's bytes where torch has no such dtype.
            leaf["value"] = torch.tensor(value)
        except (TypeError, RuntimeError):
            leaf["text"] = (
                _digest(value.tobytes())
                if not value.dtype.hasobject
                else _digest(repr(value.tolist()))
            )
        if self.aliases and hasattr(value, "ctypes"):  # an array, no number
            root = value
            while type(root.base).__module__ == "numpy":
                root = root.base
            whole = (
                root.base.untyped_storage().data_ptr()
                if isinstance(root.base, torch.Tensor)
                else root.ctypes.data
            )
            shared = self.memory.setdefault(whole, path) if value.size else path
            sizes = zip(value.strides, value.shape)  # noqa: B905 - one length
            steps = [step for step, size in sizes if size > 1] if value.size else []
            leaf |= {"stride": steps, "writeable": bool(value.flags.writeable)}
            leaf["memory shared with"] = "" if shared == path else shared
            self.kept.append(root)
        self.leaves[path] = leaf

    def _tensor(self, path: str, value: torch.Tensor, depth: int) -> None:
        leaf: Leaf = {
            "kind": "tensor",
            "type": type(value).__name__,
            "dtype": str(value.dtype),
            "shape": list(value.shape) if not value.is_nested else [],
            "device": value.device.type,
            "layout": str(value.layout),
            "requires_grad": value.requires_grad,
            "is_leaf": value.is_leaf,
            "hooks": len(value._backward_hooks or ())
            + len(getattr(value, "_post_accumulate_grad_hooks", None) or ()),
            "inference": value.is_inference(),
            "retains_grad": value.retains_grad,
        }
        self.leaves[path] = leaf
        if self.aliases:
            leaf |= self._aliases(path, value)
        self._attributes(path, value, depth)
        plain = value.detach()
        if value.device.type == "meta":
            leaf["stride"] = _strides(value) if value.layout == torch.strided else []
            return
        if value.is_nested:
            for index, part in enumerate(plain.unbind()):
                self.take(f"{path}[{index}]", part, depth)
        elif value.is_quantized:
            leaf["value"] = plain.int_repr().cpu().clone()
            self.take(f"{path}.dequantize()", plain.dequantize(), depth)
        elif value.layout == torch.strided:
            leaf["stride"] = _strides(value)
            host = (
                plain.cpu()
                .resolve_conj()
                .resolve_neg()
                .clone(memory_format=torch.contiguous_format)
            )
            leaf["value"] = host if type(host) is torch.Tensor else host.as_subclass(torch.Tensor)
        elif value.layout == torch.sparse_coo:
            leaf["coalesced"] = plain.is_coalesced()
            parts = plain.coalesce()
            self.take(f"{path}.indices()", parts.indices(), depth)
            self.take(f"{path}.values()", parts.values(), depth)
        else:
            leaf["value"] = plain.to_dense().cpu().clone()
        if (value.is_leaf or value.retains_grad) and value.grad is not None:
            self.take(f"{path}.grad", value.grad, depth)

    def _aliases(self, path: str, value: torch.Tensor) -> Leaf:
        """Return which tensor seen before is this very object, and which shares its memory."""
        first, _ = self.objects.setdefault(id(value), (path, value))
        found = {"same object as": "" if first == path else first, "memory shared with": ""}
        if (
            value.layout == torch.strided
            and not value.is_nested
            and value.numel()
            and value.device.type != "meta"
        ):
            shared = self.memory.setdefault(value.untyped_storage().data_ptr(), path)
            found["memory shared with"] = "" if shared == path else shared
        return found


def _words(kind: str, text: str) -> Leaf:
    return {"kind": "plain", "type": kind, "text": text}


def _scalar(value: Any) -> Leaf:
    name = type(value).__name__
    if isinstance(value, complex):
        return {
            "kind": "number",
            "type": name,
            "value": torch.tensor(value, dtype=torch.complex128),
        }
    if isinstance(value, float):
        return {"kind": "number", "type": name, "value": torch.tensor(value, dtype=torch.float64)}
    if isinstance(value, bytes):
        return _words(name, f"{len(value)} bytes, {_digest(value)[:16]}")
    return _words(name, str.__str__(value) if isinstance(value, str) else repr(value))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # not bound yet


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object has in its ``__dict__`` and its slots."""
    found = dict(vars(value)) if hasattr(value, "__dict__") else {}
    for name in copyreg._slotnames(type(value)):  # type: ignore[attr-defined]
        if hasattr(value, name):
            found[name] = getattr(value, name)
    return found


def _strides(value: torch.Tensor) -> list[int]:
    """Return the strides that matter: none of an empty tensor, none of a dimension of size one."""
    if not value.numel():
        return []
    return [step for step, size in zip(value.stride(), value.shape) if size > 1]  # noqa: B905 - one length


def _is_users(kind: type) -> bool:
    """Say whether a class is neither Python's, torch's nor NumPy's: its attributes are then part of
    a result."""
    return _is_users_module(kind.__module__)


def _is_users_code(function: types.FunctionType) -> bool:
    """Say whether a function was written by the user; a wrapper's ``__module__`` is that of what it
    wraps."""
    return _is_users_module(function.__globals__.get("__name__", ""))


def _is_users_module(name: str) -> bool:
    return name.partition(".")[0] not in _NOT_THE_USERS
