"""The virtual-CUDA ledger: counts a program's host-device syncs and copies on a machine without a
GPU."""

from __future__ import annotations

from .recorder import Ledger, virtual_cuda

__all__ = ["Ledger", "virtual_cuda"]
