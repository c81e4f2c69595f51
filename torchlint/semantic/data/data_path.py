"""Questions about the way of data to the device: loaders, factories and transfers. A part of `Module`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torchlint.semantic.data import datasets, loaders
from torchlint.semantic.device import factories, transfers
from torchlint.semantic.device.transfers import Transfer
from torchlint.semantic.part import Part

if TYPE_CHECKING:
    pass


class DataPath(Part):
    """The part of `Module` that knows loaders, tensor factories, and copies to the accelerator."""

    _consumers: dict[cst.Call, list[cst.For | cst.CompFor]] | None = None

    # -- transfers ----------------------------------------------------------------------------------------------

    def transfer(self, call: cst.Call) -> Transfer | None:
        """Return the copy to the accelerator that ``.to``, ``.cuda`` or ``.type_as`` asks for, or None."""
        return transfers.transfer(self._module, call)

    def certainly_tensor(self, node: cst.BaseExpression) -> bool:
        """Say whether the code uses what is moved, or the move's result, as nothing but a tensor can be."""
        return transfers.certainly_tensor(self._module, node)

    def changed_later(self, node: cst.BaseExpression) -> bool:
        """Say whether a tensor that is moved is written in place afterwards, under the same name."""
        return transfers.changed_later(self._module, node)

    def cached(self, node: cst.CSTNode) -> bool:
        """Say whether what a statement stores is kept, and a condition spares later calls the work."""
        return transfers.cached(self._module, node)

    # -- factories ----------------------------------------------------------------------------------------------

    def factories(self, node: cst.BaseExpression, filled: bool = False) -> list[cst.Call]:
        """Return the factory calls a tensor's values come from; with `filled` also if the host writes elements."""
        return factories.factories(self._module, node, filled)

    def takes_device(self, factory: cst.Call) -> bool:
        """Say whether ``device=`` can be passed to a factory call: its arguments do not tie it to the CPU."""
        return factories.takes_device(self._module, factory)

    def device_effect(self, factory: cst.Call) -> str:
        """Return what ``device=`` changes beside the place: ``random``, ``grad``, ``fill``, ``range``, with commas."""
        return factories.device_effect(self._module, factory)

    def any_dtype(self, factory: cst.Call) -> bool:
        """Say whether a factory takes every dtype, and its values are exact in each."""
        return factories.any_dtype(self._module, factory)

    # -- loaders ------------------------------------------------------------------------------------------------

    def loader_loops(self, loader: cst.Call) -> list[cst.For | cst.CompFor]:
        """Return the loops and comprehensions of this file that go over the loader that a call makes."""
        if self._consumers is None:
            self._consumers = loaders.consumers(self._module)
        return self._consumers.get(loader, [])

    def loader_role(self, loader: cst.Call) -> str:
        """Return what a loader feeds: ``train``, ``eval``, ``other`` (no model there), or ``unseen`` in this file."""
        return loaders.role(self._module, loader, self.loader_loops(loader))

    def feeding(self, node: cst.CSTNode) -> list[cst.Call]:
        """Return the calls that may have made the loader whose batches are at hand at `node`."""
        return loaders.feeding(self._module, node)

    def moves_batches(self, node: cst.CSTNode) -> str | None:
        """Return the device to which code inside `node`, or a function it calls, brings batches; None for none."""
        return loaders.moves(self._module, node)

    @property
    def batches_go_to(self) -> str | None:
        """The device to which the loops over loaders of this file bring their batches; None where none does."""
        return loaders.batches_go_to(self._module)

    def makes_loader(self, call: cst.Call) -> bool:
        """Say whether a call makes a `DataLoader`, or a class derived from it that takes the same arguments."""
        return loaders.makes(self._module, call)

    def pins(self, loader: cst.Call) -> bool | None:
        """Say whether a loader pins its batches; None where that is decided elsewhere."""
        return loaders.pins(self._module, loader)

    def sample_cost(self, loader: cst.Call) -> bool | None:
        """Say whether fetching a loader's sample reads, decodes or augments (True) or only indexes memory (False)."""
        return datasets.sample_cost(self._module, loader)

    def streams(self, dataset: cst.BaseExpression) -> bool:
        """Say whether a dataset is iterable: each worker would yield the whole stream unless it shards itself."""
        return datasets.streams(self._module, dataset)

    def cuda_samples(self, loader: cst.Call) -> bool:
        """Say whether a loader's dataset or collate function puts samples on the device itself."""
        return datasets.cuda_samples(self._module, loader)
