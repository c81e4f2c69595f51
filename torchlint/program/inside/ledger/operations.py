"""What the ledger reads of torchlint's table of operations, for the torch that is here.

The rows come with the settings of a run, as plain data: this package imports nothing of
torchlint's.
"""

from __future__ import annotations

from typing import Any

import torch

from .costs import costs_of
from .factories import factories_of


class Operations:
    """Operators and functions that the ledger treats on their own.

    Args:
        rows: see `torchlint.api.ledger_rows`.
    """

    def __init__(self, rows: dict[str, Any]) -> None:
        self.costs = costs_of(rows["cost"], rows["says"])
        """By operator, what a call on CUDA tensors costs."""
        self.mixes = frozenset(f"aten::{name}" for name in rows["mixes"])
        """Operators that take tensors of both sides."""
        self.strict = frozenset(f"aten::{name}" for name in rows["strict"])
        """Operators that refuse even a number in host memory."""
        self.factories = factories_of(rows["factories"], rows["new"])
        """By function, how it is called on the virtual device."""
        self.legacy = {name: getattr(torch, dtype) for name, dtype in rows["legacy"].items()}
        """Names of the old tensor types, and their dtypes."""
