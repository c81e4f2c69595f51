"""Questions about training on several processes: replicas, gradient accumulation, memory. A part of `Module`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import libcst as cst

from torchlint.semantic import constructions, datasets, replicas
from torchlint.semantic.replicas import Accumulation

if TYPE_CHECKING:
    from torchlint.semantic.module import Module


class Processes:
    """The part of `Module` that knows DistributedDataParallel models and accumulating loops."""

    @property
    def _whole(self) -> Module:
        return cast("Module", self)

    @property
    def replica_wraps(self) -> list[cst.Call]:
        """The calls of this file that wrap a model in DistributedDataParallel."""
        return replicas.wraps(self._whole)

    def is_replica(self, node: cst.CSTNode) -> bool:
        """Say whether an expression holds a model that this file, on some path, has wrapped in DDP."""
        return replicas.is_replica(self._whole, node)

    def assigned(self, place: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return what a function assigns to a plain name, or a class to an attribute of ``self``, on any path."""
        return datasets.assigned(self._whole, place)

    def runs_replica(self, loop: cst.For | cst.While) -> bool:
        """Say whether a DDP model runs in a loop, or in a function called there, or is handed to other code."""
        return replicas.runs_replica(self._whole, loop)

    def accumulation(self, loop: cst.For | cst.While) -> Accumulation | None:
        """Return how a loop accumulates gradients over micro-batches; None where it does not."""
        return replicas.accumulation(self._whole, loop)

    def saves_memory(self, node: cst.CSTNode) -> bool:
        """Say whether a setting about memory asks for the code at `node`."""
        return replicas.saves_memory(self._whole, node)

    def called_at_once(self, made: cst.Call) -> bool:
        """Say whether a new module is called on the spot, or by the name it is given, and goes nowhere else."""
        return constructions.called_at_once(self._whole, made)
