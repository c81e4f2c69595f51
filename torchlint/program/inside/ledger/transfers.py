"""Copies between host and virtual device: what they move, and whether the host waits.

The rules are those of PyTorch's ``Copy.cu`` and of CUDA's "API synchronization behavior":

* A blocking copy is a ``cudaMemcpyAsync`` and a stream synchronisation: one sync.
* ``non_blocking`` from page-locked memory, or into it: no sync.
* ``non_blocking`` from pageable memory to the device returns once the data is staged: not a sync,
  counted as staged.
* ``non_blocking`` from the device into pageable memory returns only when the copy is complete: one
  sync, which ``torch.cuda.set_sync_debug_mode`` does not see.
* ``.to("cpu", non_blocking=True)`` allocates its result in page-locked memory: no sync.
* Where the dtype changes too, a blocking copy converts on the host and a non-blocking one on the
  device.
"""

from __future__ import annotations

from typing import Any

import torch

from .events import Events
from .tags import is_cuda, is_pinned, parts, pin, set_cuda

_to: Any = torch.Tensor.to
_no_function: Any = torch._C.DisableTorchFunction


def _is_dense(tensor: Any) -> bool:
    """Whether the elements fill one block of memory, in any order of dimensions."""
    expected = 1
    for size, stride in sorted(
        zip(tensor.shape, tensor.stride(), strict=True), key=lambda pair: pair[1]
    ):
        if size != 1 and stride != expected:
            return False
        expected *= size
    return True


def direct(host: Any, other: Any, non_blocking: bool) -> bool:
    """Whether page-locked memory of the host's side takes part in the copy itself, with no
    temporary between."""
    if not is_pinned(host):
        return False
    same_layout = host.stride() == other.stride() and _is_dense(host)
    return (host.dtype == other.dtype and same_layout) or (
        non_blocking and bool(host.is_contiguous())
    )


def record_copy(
    events: Events,
    source: Any,
    target: Any,
    *,
    to_device: bool,
    non_blocking: bool,
    pinned: bool,
    what: str = "",
) -> None:
    """Count one copy between host and device; `source` and `target` tell dtypes, `target` tells the
    shape.

    Args:
        pinned: whether the host side is page-locked.
    """
    if target.layout is not torch.strided:
        for part in parts(target):
            record_copy(
                events,
                part,
                part,
                to_device=to_device,
                non_blocking=non_blocking,
                pinned=pinned,
                what=what,
            )
        return
    count = target.numel()
    if not count:
        return
    on_device = non_blocking if to_device else not non_blocking
    nbytes = count * (source if on_device else target).element_size()
    if to_device:
        events.add("h2d", what or "copy to device", nbytes)
        if not non_blocking:
            events.add("sync", what or "copy to device")
        elif not pinned:
            events.add("staged", what or "copy to device", nbytes)
        return
    events.add("d2h", what or "copy to host", nbytes)
    if not non_blocking:
        events.add("sync", what or "copy to host")
    elif not pinned:
        events.add("sync", what or "copy to pageable memory")


def _moved(
    events: Events,
    tensor: Any,
    cuda: bool,
    dtype: Any,
    non_blocking: bool,
    keywords: dict[str, Any],
) -> Any:
    """A copy on the other side, outside autograd's view."""
    with events.silence():
        result = _to(tensor, dtype=dtype, copy=True, **keywords)
    with _no_function():
        pinned = direct(tensor, result, non_blocking) if cuda else True
        record_copy(
            events, tensor, result, to_device=cuda, non_blocking=non_blocking, pinned=pinned
        )
    set_cuda(result, cuda)
    if non_blocking and not cuda:
        pin(result)
    return result


class _Move(torch.autograd.Function):
    """The copy as autograd sees it: the gradient goes the other way, and blocks."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, events: Any, cuda: bool, dtype: Any, how: Any) -> Any:
        ctx.back = (events, not cuda, tensor.dtype)
        return _moved(events, tensor, cuda, dtype, *how)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        events, cuda, dtype = ctx.back
        return move(events, grads[0], cuda, dtype), None, None, None, None


def move(
    events: Events,
    tensor: Any,
    cuda: bool,
    dtype: Any = None,
    non_blocking: bool = False,
    copy: bool = False,
    **keywords: Any,
) -> Any:
    """``tensor.to(...)`` with the virtual device: the tensor itself, a converted copy, or a copy on
    the other side."""
    dtype = dtype or tensor.dtype
    if is_cuda(tensor) == cuda:
        result = _to(tensor, dtype=dtype, copy=copy, **keywords)
        if result is not tensor:
            set_cuda(result, cuda)
        return result
    if tensor.requires_grad and torch.is_grad_enabled():
        return _Move.apply(tensor, events, cuda, dtype, (non_blocking, keywords))
    return _moved(events, tensor, cuda, dtype, non_blocking, keywords)
