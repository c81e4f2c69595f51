"""Programs of tests, run on a CPU stand-in for the device, and what came of them compared. It
imports torch."""

from __future__ import annotations

import contextlib
import io
import math
import random
import warnings
from typing import Any

import numpy as np
import torch

from torchlint.verify.inside.standin import StandIn


def ran(source: str, **bound: Any) -> tuple[dict[str, Any], str]:
    """Run a program, in which these names are bound already; return its names and what it
    printed."""
    torch.manual_seed(0)
    random.seed(0)
    names: dict[str, Any] = {"__name__": "__main__", **bound}
    with contextlib.redirect_stdout(io.StringIO()) as out, StandIn("cpu"):
        exec(compile(source, "program", "exec"), names)  # noqa: S102 - a program of our tests
    return names, out.getvalue()


def execute(source: str, target: str = "cpu") -> tuple[dict[str, Any], Any]:
    """Run a module's source under the stand-in; return its names and the final RNG state."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    names: dict[str, Any] = {"__name__": "example"}
    with warnings.catch_warnings(), StandIn(target):
        warnings.simplefilter("ignore")
        exec(compile(source, "example", "exec"), names)  # noqa: S102 - our own documentation, run to prove it
    return names, torch.get_rng_state()


def differences(name: str, a: Any, b: Any) -> list[str]:
    """Return in words how two values differ; only kinds that can be compared are."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        facts = ("dtype", "shape", "requires_grad", "is_leaf")
        out = [
            f"{name}.{f}: {getattr(a, f)} and {getattr(b, f)}"
            for f in facts
            if getattr(a, f) != getattr(b, f)
        ]
        same = (
            a.shape == b.shape
            and a.dtype == b.dtype
            and torch.equal(torch.nan_to_num(a), torch.nan_to_num(b))
        )
        return out if same else [*out, f"{name}: other values"]
    if isinstance(a, torch.nn.Module) and isinstance(b, torch.nn.Module):
        left, right = a.state_dict(), b.state_dict()
        if left.keys() != right.keys():
            return [f"{name}: other state_dict keys"]
        return [d for key in left for d in differences(f"{name}.{key}", left[key], right[key])]
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return []
    if isinstance(a, bool | int | float | str | bytes | None) and type(a) is type(b):
        return [] if a == b else [f"{name}: {a!r} and {b!r}"]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return [f"{name}: {len(a)} and {len(b)} items"]
        return [
            d
            for i, (x, y) in enumerate(zip(a, b, strict=True))
            for d in differences(f"{name}[{i}]", x, y)
        ]
    return [] if type(a).__name__ == type(b).__name__ else [f"{name}: {type(a)} and {type(b)}"]
