"""Which operations make the host wait for the GPU, and how many bytes come back with each wait.

Read in PyTorch's sources (``aten/src/ATen/native/cuda``): ``Nonzero.cu`` copies one int,
``UniqueCub.cu`` one int64, ``SummaryOps.cu`` the smallest and the largest value, ``Repeat.h`` the
sum and the sign check, and so on. ``tests/verify/ledger_observed.json`` has what a GPU did.
Where releases of PyTorch differ, `_RELEASE` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from .events import Events
from .tags import is_cuda
from .transfers import record_copy

Cost = Callable[[Events, Sequence[Any], dict[str, Any]], None]
_MASKS = (torch.bool, torch.uint8)
_RELEASE = tuple(int(part) for part in torch.__version__.split(".")[:2])
_INT = 4
_LONG = 8


def _argument(
    args: Sequence[Any], kwargs: dict[str, Any], index: int, name: str, default: Any = None
) -> Any:
    return args[index] if len(args) > index else kwargs.get(name, default)


def _flat(what: str, nbytes: int) -> Cost:
    """An operation that waits once, whatever it is given."""

    def cost(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        events.sync(what, nbytes)

    return cost


def _item(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    events.sync("item()", args[0].element_size())


def _extremes(what: str) -> Cost:
    """Reads the smallest and the largest value."""

    def cost(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if what == "histc" and _argument(args, kwargs, 2, "min", 0) != _argument(
            args, kwargs, 3, "max", 0
        ):
            return
        reads = 1 if args[0].dtype is torch.uint8 else 2  # of bytes the smallest is known
        for _ in range(reads if args[0].numel() else 0):
            events.sync(what, args[0].element_size())

    return cost


def _unique(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if args[0].numel():
        events.sync("unique", _INT if args[0].dtype is torch.bool else _LONG)


def _repeat_interleave(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if kwargs.get("output_size") is None and args[0].numel():
        events.sync("repeat_interleave", _LONG)
        events.sync("repeat_interleave", 1)


def _multinomial(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if _RELEASE >= (2, 6):
        return  # checks on the device since pytorch/pytorch#134818
    drawn, replacement = (
        _argument(args, kwargs, 1, "num_samples"),
        _argument(args, kwargs, 2, "replacement", False),
    )
    if not replacement or drawn == 1:
        events.sync("multinomial", 1)
        events.sync("multinomial", 1)


def _indices(events: Events, indices: Any) -> None:
    """Masks are counted on the device; indices on the host are copied over first."""
    for index in indices:
        if index is None:
            continue
        if is_cuda(index):
            if index.dtype in _MASKS:
                events.sync("boolean index", _INT)
        elif index.dtype not in _MASKS:
            _sent(events, index, "index from host")
        elif _RELEASE >= (2, 9):  # by way of pinned memory since pytorch/pytorch#156384
            _sent(events, index.nonzero(), "index from host", waits=False)
        else:
            for positions in index.nonzero().unbind(1):
                _sent(events, positions, "index from host")


def _sent(events: Events, tensor: Any, what: str, *, waits: bool = True) -> None:
    """A copy of a host tensor to the device; one that does not wait is made from pinned memory."""
    record_copy(
        events, tensor, tensor, to_device=True, non_blocking=not waits, pinned=not waits, what=what
    )


def _index(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    if is_cuda(args[0]):
        _indices(events, args[1])
    else:
        events.add("mismatch", "index")


def _index_put(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    target, indices = args[0], args[1]
    value = _argument(args, kwargs, 2, "values")
    if not is_cuda(target):
        events.add("mismatch", "index_put_")
        return
    from_host = not is_cuda(value)
    given = [index for index in indices if index is not None]
    fills = from_host and value.numel() == 1 and not _argument(args, kwargs, 3, "accumulate", False)
    if fills and len(given) == 1 and given[0].dtype in _MASKS and is_cuda(given[0]):
        return  # becomes masked_fill_, which takes the number as a kernel argument
    _indices(events, indices)
    if from_host and value.dim():
        events.add("mismatch", "index_put_")
    elif from_host:
        _sent(events, value, "value from host")


def _normal(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """The sign of deviations is checked on the host up to torch 2.13 (``DistributionTemplates.h``):
    before memory is made for the result, and again where it is filled."""
    deviation = _argument(args, kwargs, 1, "std")
    if _RELEASE < (2, 14) and isinstance(deviation, torch.Tensor) and deviation.numel():
        for _ in range(1 if kwargs.get("out") is not None else 2):
            events.sync("normal", 1)


def _equal(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Only tensors of the same sizes and other memory are compared (``Equal.cpp``)."""
    one, other = args
    alias = one.dtype == other.dtype and one.is_set_to(other)
    if one.shape == other.shape and one.numel() and not alias:
        events.sync("equal", 1)


def _value_read(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """A number of the device becomes one of the host before it is written."""
    value = kwargs.get("value", args[-1])
    if isinstance(value, torch.Tensor) and is_cuda(value):
        _item(events, (value,), {})


def _where(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Numbers of the host are copied over."""
    for value in args:
        if not value.dim() and not is_cuda(value):
            _sent(events, value, "value from host")


def _errors(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    events.sync("linalg error check", 1)


_CONDITIONS: dict[str, Cost] = {
    "element": _item,
    "any-element": _unique,
    "no-size-given": _repeat_interleave,
    "extremes": _extremes("bincount"),
    "extremes-or-range": _extremes("histc"),
    "old-draws": _multinomial,
    "indices": _index,
    "indices-and-value": _index_put,
    "drawn-deviation": _normal,
    "other-memory": _equal,
    "device-value": _value_read,
    "host-numbers": _where,
    "errors": _errors,
}
"""What a wait depends on, by its name in the table of operations."""


def costs_of(costs: dict[str, str], said: dict[str, str]) -> dict[str, Cost]:
    """Return, by operator, what a call on CUDA tensors costs.

    Args:
        costs: by operator, the bytes of its one wait, or the name of a condition.
        said: under what name the wait is reported, where that is not the operator's.
    """
    return {
        f"aten::{name}": _flat(said.get(name, name), int(cost))
        if cost.isdigit()
        else _CONDITIONS[cost]
        for name, cost in costs.items()
    }
