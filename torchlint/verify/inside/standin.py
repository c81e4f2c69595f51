"""A stand-in for CUDA: runs code that names a CUDA device on another one.

A `TorchFunctionMode` replaces each CUDA target, and a move to it makes a copy, as on a real device.
Calls made by the C++ side are not seen, and nothing is as fast or as slow as on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class StandIn(TorchFunctionMode):
    """Runs code that names CUDA on `target`; a transfer to the device is a copy, as on the real
    one."""

    def __init__(self, target: str = "cpu") -> None:
        super().__init__()
        self.target = target

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func` with every CUDA device replaced."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name == "cuda":
            return args[0].to(self.target, copy=True)
        moved = name == "to" and any(
            _replaced(a, self.target) is not a for a in (*args[1:], *named.values())
        )
        args = tuple(_replaced(a, self.target) for a in args)
        named = {key: _replaced(value, self.target) for key, value in named.items()}
        if type(named.get("device")) is int:  # a CUDA device by its index
            named["device"] = self.target
        result = func(*args, **named)
        return result.clone() if moved and result is args[0] else result


def _replaced(value: object, target: str) -> object:
    if isinstance(value, str) and value.startswith("cuda"):
        return target
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device(target)
    return value
