"""What a run computed: its losses, final weights and random streams, to compare with another
run's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from .snapshot import random_states, snapshot

OUTPUTS = 10_000
"""The most outputs of evaluation whose sums are kept."""


class Results:
    """Collects losses as they are differentiated, the weights of every optimizer that has stepped,
    and what modules in evaluation mode return."""

    def __init__(self) -> None:
        self.loss: list[float] = []
        self.outputs: list[float] = []
        self.optimizers: dict[int, Any] = {}

    def see_loss(self, tensors: Any) -> None:
        """Keep the value that ``backward`` starts from: the sum of the first tensor, as a float."""
        first = tensors
        while isinstance(first, (list, tuple)) and first:
            first = first[0]
        if isinstance(first, torch.Tensor):
            with torch.no_grad():
                self.loss.append(float(first.detach().double().sum()))

    def see_output(self, value: Any) -> None:
        """Keep the sums of the tensors that a module in evaluation mode returned."""
        for tensor in _tensors(value, 3):
            if len(self.outputs) < OUTPUTS:
                with torch.no_grad():
                    self.outputs.append(
                        float(tensor.detach().double().sum()) if tensor.numel() else 0.0
                    )

    @property
    def seen(self) -> int:
        """The number of losses and weights; none are seen of a program that does not train."""
        groups = (
            group for optimizer in self.optimizers.values() for group in optimizer.param_groups
        )
        return len(self.loss) + len(self.outputs) + sum(len(group["params"]) for group in groups)

    def save(self, path: str) -> None:
        """Write losses, weights and the states of the random streams as a `snapshot`."""
        weights = {
            f"optimizer {number}, group {group}, parameter {index}": parameter.detach()
            for number, optimizer in enumerate(self.optimizers.values())
            for group, content in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(content["params"])
        }
        loss = torch.tensor(self.loss, dtype=torch.float64)
        values: dict[str, Any] = {"loss": loss, "weights": weights}
        if self.outputs:
            values["evaluation"] = torch.tensor(self.outputs, dtype=torch.float64)
        torch.save(snapshot(values, random_states()), path)


def _tensors(value: Any, depth: int) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        if value.layout is torch.strided and not value.is_complex():
            yield value
    elif depth and isinstance(value, Mapping):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth - 1)


def shake(optimizer: Any) -> None:
    """Multiply all weights of a new optimizer by 1 + 2**-20: a change of the size of rounding."""
    with torch.no_grad():
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if isinstance(parameter, torch.Tensor) and parameter.is_floating_point():
                    parameter.mul_(1 + 2**-20)
