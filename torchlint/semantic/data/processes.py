"""Questions about training on several processes: replicas, gradient accumulation, memory. A part of `Module`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.data import datasets, replicas
from torchlint.semantic.data.replicas import Accumulation
from torchlint.semantic.part import Part
from torchlint.semantic.values import constructions

if TYPE_CHECKING:
    pass


class Processes(Part):
    """The part of `Module` that knows DistributedDataParallel models and accumulating loops."""

    @property
    def replica_wraps(self) -> list[cst.Call]:
        """The calls of this file that wrap a model in DistributedDataParallel."""
        return replicas.wraps(self._module)

    def is_replica(self, node: cst.CSTNode) -> bool:
        """Say whether an expression holds a model that this file, on some path, has wrapped in DDP."""
        return replicas.is_replica(self._module, node)

    def assigned(self, place: cst.BaseExpression) -> list[cst.BaseExpression]:
        """Return what a function assigns to a plain name, or a class to an attribute of ``self``, on any path."""
        return datasets.assigned(self._module, place)

    def runs_replica(self, loop: cst.For | cst.While) -> bool:
        """Say whether a DDP model runs in a loop, or in a function called there, or is handed to other code."""
        return replicas.runs_replica(self._module, loop)

    def accumulation(self, loop: cst.For | cst.While) -> Accumulation | None:
        """Return how a loop accumulates gradients over micro-batches; None where it does not."""
        return replicas.accumulation(self._module, loop)

    def saves_memory(self, node: cst.CSTNode) -> bool:
        """Say whether a setting about memory asks for the code at `node`."""
        return replicas.saves_memory(self._module, node)

    def called_at_once(self, made: cst.Call) -> bool:
        """Say whether a new module is called on the spot, or by the name it is given, and goes nowhere else."""
        return constructions.called_at_once(self._module, made)
