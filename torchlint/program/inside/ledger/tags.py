"""Virtual device tags: which storages count as CUDA memory, and which host storages count as
pinned.

The tag is an attribute of the storage's Python object, which PyTorch keeps for as long as the
memory block lives (PyObject preservation). So all views share it, and a new tensor at a reused
address does not inherit it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

CUDA: Any = torch.device("cuda", 0)
_DEVICE = "_torchlint_cuda"
MOST_DEVICES = 64
"""Ordinals below this are all taken for the one virtual device; PyTorch itself has no more."""
_PINNED = "_torchlint_pinned"
_untyped_storage: Any = torch.Tensor.untyped_storage
_no_function: Any = torch._C.DisableTorchFunction


def parts(tensor: Any) -> tuple[Any, ...]:
    """The strided tensors that hold a tensor's memory: those of a sparse one, and below functorch's
    wrappers."""
    functorch = torch._C._functorch
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), tensor.crow_indices(), tensor.col_indices()
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return tensor.values(), tensor.ccol_indices(), tensor.row_indices()
    return (tensor,)


def storages_of(tensor: Any) -> tuple[Any, ...]:
    """The storages that carry the tensor's tag; none where it has no memory of its own."""
    with _no_function():
        try:
            return (_untyped_storage(tensor),)
        except (NotImplementedError, RuntimeError):
            pass
        try:
            return tuple(_untyped_storage(part) for part in parts(tensor))
        except (NotImplementedError, RuntimeError, AttributeError):
            return ()


def is_cuda(tensor: Any) -> bool:
    """Whether the tensor lies on the virtual CUDA device."""
    storages = storages_of(tensor)
    return bool(storages) and _DEVICE in storages[0].__dict__


def set_cuda(tensor: Any, cuda: bool) -> None:
    """Put the tensor's storage on the virtual device, or back on the host."""
    for storage in storages_of(tensor):
        set_storage(storage, cuda)


class Use:
    """Whether the program has put anything on the virtual device since the ledger was started.

    `lately`: since the last mark that ended a step, or worked with something that lies there.
    """

    cuda = False
    lately = False


def set_storage(storage: Any, cuda: bool) -> None:
    """The same for a storage itself."""
    if cuda:
        Use.cuda = Use.lately = True
        storage.__dict__[_DEVICE] = True
        storage.__dict__.pop(_PINNED, None)
    else:
        storage.__dict__.pop(_DEVICE, None)


def storage_is_cuda(storage: Any) -> bool:
    """Whether an untyped storage lies on the virtual device."""
    return _DEVICE in storage.__dict__


def is_pinned(tensor: Any) -> bool:
    """Whether the tensor lies in host memory that counts as page-locked."""
    storages = storages_of(tensor)
    return bool(storages) and _PINNED in storages[0].__dict__


def pin(tensor: Any) -> None:
    """Let the tensor's host storage count as page-locked."""
    for storage in storages_of(tensor):
        if _DEVICE not in storage.__dict__:
            storage.__dict__[_PINNED] = True


def elsewhere(device: Any) -> bool:
    """Whether a ``device=`` argument names neither the host nor the GPU: "meta"."""
    if not isinstance(device, (str, torch.device)):
        return False
    return torch.device(device).type not in ("cpu", "cuda")


def names_cuda(device: Any) -> bool:
    """Whether a ``device=`` argument (string, number, ``torch.device``) means the GPU.

    A program that was written for a machine with several GPUs and names ``cuda:1`` gets the one
    there is: its traffic with the host is the same.

    Raises:
        RuntimeError: for an ordinal that no machine has, as CUDA does.
    """
    if device is None or elsewhere(device):
        return False
    if isinstance(device, int) and not isinstance(device, bool):
        kind, index = "cuda", device
    else:
        parsed = torch.device(device)
        kind, index = parsed.type, parsed.index
    if kind == "cuda" and index is not None and not -1 <= index < MOST_DEVICES:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return kind == "cuda"


def tensors_in(value: Any, depth: int = 3) -> Iterator[Any]:
    """The tensors in arguments, through lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, depth - 1)
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from tensors_in(item, depth - 1)


def any_cuda(*values: Any) -> bool:
    """Whether any tensor in the values lies on the virtual device."""
    return any(is_cuda(t) for value in values for t in tensors_in(value))
