"""Everything a caller can see of a run, as a flat dict of plain facts that ``torch.load(weights_only=True)`` reads.

A value is taken apart into leaves by path (``out[0]``, ``model.weight.grad``): a class of the user's is named, never
pickled, so that reading a snapshot runs no code of anybody's.
"""

from __future__ import annotations

import dataclasses
import enum
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
_IMPLEMENTATION = frozenset({"foreach", "fused", "capturable", "differentiable", "decoupled_weight_decay"})
"""Keys of an optimizer's groups that say how it computes, not what."""

Leaf = dict[str, Any]


def snapshot(values: Mapping[str, Any], rng: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return values by name and the states of the random generators, copied to the host and taken apart.

    Args:
        values: what is visible after the run, by name: results, inputs, names bound.
        rng: what `random_states` gave when the run had ended; left out where it does not matter.
    """
    taker = _Taker()
    for name, value in values.items():
        taker.take(str(name), value, 0)
    return {MARK: 1, "values": taker.leaves, "rng": dict(rng or {})}


def random_states() -> dict[str, Any]:
    """Return the states of the torch, Python and, where it is loaded, NumPy generators, by name."""
    states: dict[str, Any] = {"torch": torch.get_rng_state(), "Python": _digest(repr(random.getstate()))}
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

    def __init__(self) -> None:
        self.leaves: dict[str, Leaf] = {}
        self.open: set[int] = set()
        """Objects that are being taken apart further up: a cycle ends there."""

    def take(self, path: str, value: Any, depth: int) -> None:
        if isinstance(value, enum.Enum):
            self.leaves[path] = {"kind": "plain", "type": type(value).__name__, "text": str(value)}
        elif isinstance(value, _SCALARS):
            self.leaves[path] = _scalar(value)
        elif id(value) in self.open or depth > _DEPTH:
            self.leaves[path] = {"kind": "object", "type": type(value).__name__}
        else:
            self.open.add(id(value))
            try:
                self._compound(path, value, depth + 1)
            finally:
                self.open.discard(id(value))

    def _compound(self, path: str, value: Any, depth: int) -> None:
        name = type(value).__name__
        if isinstance(value, torch.Tensor):
            self._tensor(path, value, depth)
        elif isinstance(value, Mapping):
            self.leaves[path] = {"kind": "keys", "type": name, "text": _keys(value)}
            for key, item in value.items():
                self.take(f"{path}[{key!r}]", item, depth)
        elif isinstance(value, (set, frozenset)):
            self.leaves[path] = {"kind": "plain", "type": name, "text": str(sorted(map(repr, value)))}
        elif isinstance(value, (list, tuple)):
            self.leaves[path] = {"kind": "items", "type": name, "text": f"{len(value)} items"}
            for index, item in enumerate(value):
                self.take(f"{path}[{index}]", item, depth)
        elif isinstance(value, (torch.dtype, torch.device, torch.layout, range, slice)):
            self.leaves[path] = {"kind": "plain", "type": name, "text": str(value)}
        elif isinstance(value, torch.Generator):
            self.take(f"{path}.get_state()", value.get_state(), depth)
        elif type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            self._numpy(path, value)
        else:
            self._object(path, value, depth)

    def _object(self, path: str, value: Any, depth: int) -> None:
        self.leaves[path] = {"kind": "object", "type": type(value).__name__}
        if isinstance(value, (type, types.ModuleType, types.FunctionType)):
            return
        if isinstance(value, torch.nn.Module):
            self.leaves[path]["text"] = f"training={value.training}"
            for key, item in value.state_dict(keep_vars=True).items():
                self.take(f"{path}.{key}", item, depth)
        elif isinstance(value, torch.optim.Optimizer):
            state = value.state_dict()
            self.take(f"{path}.state", state["state"], depth)
            groups = [{k: v for k, v in g.items() if k not in _IMPLEMENTATION} for g in state["param_groups"]]
            self.take(f"{path}.param_groups", groups, depth)
        elif dataclasses.is_dataclass(value):
            for each in dataclasses.fields(value):
                self.take(f"{path}.{each.name}", getattr(value, each.name, None), depth)
        elif isinstance(value, types.SimpleNamespace) or _is_users(type(value)):
            for key, item in vars(value).items() if hasattr(value, "__dict__") else ():
                self.take(f"{path}.{key}", item, depth)

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
            leaf["text"] = _digest(value.tobytes()) if not value.dtype.hasobject else _digest(repr(value.tolist()))
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
        }
        self.leaves[path] = leaf
        plain = value.detach()
        if value.device.type == "meta":
            return
        if value.is_nested:
            for index, part in enumerate(plain.unbind()):
                self.take(f"{path}[{index}]", part, depth)
        elif value.is_quantized:
            leaf["value"] = plain.int_repr().cpu().clone()
            self.take(f"{path}.dequantize()", plain.dequantize(), depth)
        elif value.layout == torch.strided:
            leaf["stride"] = _strides(value)
            leaf["value"] = plain.cpu().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
        elif value.layout == torch.sparse_coo:
            parts = plain.coalesce()
            self.take(f"{path}.indices()", parts.indices(), depth)
            self.take(f"{path}.values()", parts.values(), depth)
        else:
            leaf["value"] = plain.to_dense().cpu().clone()
        if value.is_leaf and value.grad is not None:
            self.take(f"{path}.grad", value.grad, depth)


def _scalar(value: Any) -> Leaf:
    name = type(value).__name__
    if isinstance(value, complex):
        return {"kind": "number", "type": name, "value": torch.tensor(value, dtype=torch.complex128)}
    if isinstance(value, float):
        return {"kind": "number", "type": name, "value": torch.tensor(value, dtype=torch.float64)}
    if isinstance(value, bytes):
        return {"kind": "plain", "type": name, "text": f"{len(value)} bytes, {_digest(value)[:16]}"}
    return {"kind": "plain", "type": name, "text": value if isinstance(value, str) else repr(value)}


def _keys(value: Mapping[Any, Any]) -> str:
    return ", ".join(sorted(map(repr, value)))


def _strides(value: torch.Tensor) -> list[int]:
    """Return the strides that matter: none of an empty tensor, none of a dimension of size one."""
    if not value.numel():
        return []
    return [step for step, size in zip(value.stride(), value.shape) if size > 1]  # noqa: B905 - one length


def _is_users(kind: type) -> bool:
    """Say whether a class is neither Python's, torch's nor NumPy's: its attributes are then part of a result."""
    top = kind.__module__.partition(".")[0]
    return top not in sys.stdlib_module_names - {"__main__"} and top not in ("torch", "numpy")
