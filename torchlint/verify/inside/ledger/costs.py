"""Which operations make the host wait for the GPU, and how many bytes come back with each wait.

Read in PyTorch's sources (``aten/src/ATen/native/cuda``): ``Nonzero.cu`` copies one int, ``UniqueCub.cu`` one int64,
``SummaryOps.cu`` the smallest and the largest value, ``Repeat.h`` the sum and the sign check, and so on. They are
predictions until a run on a GPU has confirmed them.
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


def _argument(args: Sequence[Any], kwargs: dict[str, Any], index: int, name: str, default: Any = None) -> Any:
    return args[index] if len(args) > index else kwargs.get(name, default)


def _flat(what: str, nbytes: int, times: int = 1) -> Cost:
    """An operation that waits a fixed number of times, for as many bytes each time."""

    def cost(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        for _ in range(times):
            events.sync(what, nbytes)

    return cost


def _item(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    events.sync("item()", args[0].element_size())


def _extremes(what: str) -> Cost:
    """Reads the smallest and the largest value."""

    def cost(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        if what == "histc" and _argument(args, kwargs, 2, "min", 0) != _argument(args, kwargs, 3, "max", 0):
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
    drawn, replacement = _argument(args, kwargs, 1, "num_samples"), _argument(args, kwargs, 2, "replacement", False)
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
        elif index.dtype in _MASKS:
            for positions in index.nonzero().unbind(1):
                record_copy(
                    events,
                    positions,
                    positions,
                    to_device=True,
                    non_blocking=False,
                    pinned=False,
                    what="index from host",
                )
        else:
            record_copy(events, index, index, to_device=True, non_blocking=False, pinned=False, what="index from host")


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
        record_copy(events, value, value, to_device=True, non_blocking=False, pinned=False, what="value from host")


def _normal(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    deviation = _argument(args, kwargs, 1, "std")
    if isinstance(deviation, torch.Tensor):
        events.sync("normal", 1)


def _errors(events: Events, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    events.sync("linalg error check", 1)


COSTS: dict[str, Cost] = {
    "aten::_local_scalar_dense": _item,
    "aten::nonzero": _flat("nonzero", _INT),
    "aten::masked_select": _flat("masked_select", _INT),
    "aten::equal": _flat("equal", 1),
    "aten::allclose": _flat("allclose", 1),
    "aten::_unique": _unique,
    "aten::_unique2": _unique,
    "aten::unique_dim": _flat("unique", _LONG),
    "aten::unique_consecutive": _unique,
    "aten::unique_dim_consecutive": _flat("unique", _LONG),
    "aten::repeat_interleave": _repeat_interleave,
    "aten::bincount": _extremes("bincount"),
    "aten::histc": _extremes("histc"),
    "aten::multinomial": _multinomial,
    "aten::normal": _normal,
    "aten::nanmedian": _flat("nanmedian", _LONG),
    "aten::index": _index,
    "aten::_unsafe_index": _index,
    "aten::index_put": _index_put,
    "aten::index_put_": _index_put,
    "aten::_index_put_impl_": _index_put,
    "aten::_unsafe_index_put": _index_put,
    "aten::_linalg_check_errors": _errors,
    "aten::is_nonzero": _item,
    "aten::item": _item,
}
"""By operator name, what a call on CUDA tensors costs."""

MIXES = frozenset(
    "aten::" + name
    for name in (
        "copy_ _to_copy to index _unsafe_index index_put index_put_ _index_put_impl_ _unsafe_index_put fill_ "
        "_pack_padded_sequence _pad_packed_sequence _ctc_loss tensor_split set_ lift_fresh lift _foreach_copy_ "
        "_local_scalar_dense record_stream _has_compatible_shallow_copy_type resize_as_ _reshape_alias"
    ).split()
)
"""Operators that take tensors of both sides."""

STRICT = frozenset({"aten::cat", "aten::stack"})
"""Operators that refuse even a number in host memory."""
