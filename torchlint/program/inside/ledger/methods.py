"""Methods and properties of tensors and storages that name a device, made to tell of the virtual
one."""

from __future__ import annotations

from typing import Any

import torch

from .events import Events
from .patches import Patches
from .tags import CUDA, elsewhere, is_cuda, is_pinned, names_cuda, pin, set_storage, storage_is_cuda
from .transfers import move, record_copy


def _parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
    """(wanted CUDA or None, dtype, non_blocking, copy, other keywords) of a call of
    ``Tensor.to``."""
    kwargs = dict(kwargs)
    device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
    other = kwargs.pop("other", None)
    flags = []
    for arg in args:
        if isinstance(arg, torch.Tensor):
            other = arg
        elif isinstance(arg, torch.dtype):
            dtype = arg
        elif isinstance(arg, bool):
            flags.append(arg)
        elif arg is not None:
            device = arg
    non_blocking = kwargs.pop("non_blocking", flags[0] if flags else False)
    copy = kwargs.pop("copy", flags[1] if len(flags) > 1 else False)
    if other is not None:
        return is_cuda(other), other.dtype, non_blocking, copy, kwargs
    return (None if device is None else names_cuda(device)), dtype, non_blocking, copy, kwargs


def _transfers(events: Events, patches: Patches) -> None:
    tensor = torch.Tensor
    plain_to: Any = tensor.to

    def to(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.is_meta or any(elsewhere(value) for value in (*args, kwargs.get("device"))):
            return plain_to(self, *args, **kwargs)
        cuda, dtype, non_blocking, copy, rest = _parse_to(args, kwargs)
        return move(
            events, self, is_cuda(self) if cuda is None else cuda, dtype, non_blocking, copy, **rest
        )

    def cuda(self: Any, device: Any = None, non_blocking: bool = False, **rest: Any) -> Any:
        if device is not None and not names_cuda(device):
            raise ValueError(f"Invalid device, must be cuda device but got {device}")
        return move(events, self, True, None, non_blocking, **rest)

    def cpu(self: Any, **rest: Any) -> Any:
        return move(events, self, False, None, **rest)

    def type_as(self: Any, other: Any) -> Any:
        return move(events, self, is_cuda(other), other.dtype)

    for function in (to, cuda, cpu, type_as):
        patches.set(tensor, function.__name__, function)
    lazy: Any = (
        torch.nn.parameter.UninitializedTensorMixin
    )  # parameters of lazy modules allow these by identity
    patches.set(lazy, "_allowed_methods", [*lazy._allowed_methods, to, cuda, cpu])


def _legacy_type(events: Events, patches: Patches, legacy: dict[str, Any]) -> None:
    plain: Any = torch.Tensor.type

    def type(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:  # noqa: A001
        if dtype is None:
            name = str(plain(self))
            return name.replace("torch.", "torch.cuda.") if is_cuda(self) else name
        if isinstance(dtype, torch.dtype):
            return move(events, self, is_cuda(self), dtype, non_blocking)
        full = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        known = legacy.get(full.rpartition(".")[2])
        if known is None:
            return plain(self, dtype, non_blocking, **kwargs)
        return move(events, self, full.startswith("torch.cuda."), known, non_blocking)

    patches.set(torch.Tensor, "type", type)


def _reads(events: Events, patches: Patches) -> None:
    tensor = torch.Tensor
    plain_numpy: Any = tensor.numpy
    plain_list: Any = tensor.tolist

    def numpy(self: Any, *, force: bool = False) -> Any:
        if not is_cuda(self):
            return plain_numpy(self, force=force)
        if not force:
            raise TypeError(
                "can't convert cuda:0 device type tensor to numpy. "
                "Use Tensor.cpu() to copy the tensor to host memory first."
            )
        return plain_numpy(self.detach().cpu(), force=True)

    def tolist(self: Any) -> Any:
        if is_cuda(self):
            record_copy(
                events,
                self,
                self,
                to_device=False,
                non_blocking=False,
                pinned=False,
                what="tolist()",
            )
            with events.silence():
                return plain_list(self)
        return plain_list(self)

    patches.set(tensor, "numpy", numpy)
    patches.set(tensor, "tolist", tolist)


def _places(patches: Patches) -> None:
    tensor = torch.Tensor
    plain: Any = tensor.device
    plain_number: Any = tensor.get_device
    plain_host: Any = tensor.is_cpu

    def device(self: Any) -> Any:
        return CUDA if is_cuda(self) and not self.is_meta else plain.__get__(self)

    patches.set(tensor, "device", property(device))
    patches.set(tensor, "is_cuda", property(is_cuda))
    patches.set(
        tensor, "is_cpu", property(lambda self: not is_cuda(self) and plain_host.__get__(self))
    )
    patches.set(tensor, "get_device", lambda self: 0 if is_cuda(self) else plain_number(self))


def _pinning(events: Events, patches: Patches) -> None:
    tensor = torch.Tensor

    def pin_memory(self: Any, device: Any = None) -> Any:
        if is_cuda(self):
            raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
        if is_pinned(self):
            return self
        with events.silence():
            result = self.clone()
        pin(result)
        return result

    patches.set(tensor, "pin_memory", pin_memory)
    patches.set(tensor, "is_pinned", lambda self, device=None: is_pinned(self))
    patches.set(tensor, "record_stream", lambda self, stream: None)


def _backward(events: Events, patches: Patches) -> None:
    """Run the engine with the function mode on, so that hooks and recomputed forwards are followed
    too."""

    def backward(
        self: Any,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        inputs: Any = None,
    ) -> None:
        before, events.now.ambient = events.now.ambient, is_cuda(self)
        try:
            torch.autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)
        finally:
            events.now.ambient = before

    patches.set(torch.Tensor, "backward", backward)


def _printing(events: Events, patches: Patches) -> None:
    module: Any = torch._tensor_str
    plain = module._str

    def _str(self: Any, *, tensor_contents: Any = None) -> Any:
        if not is_cuda(self):
            return plain(self, tensor_contents=tensor_contents)
        with torch.no_grad(), events.cause("print"):
            return module._str_intern(self, tensor_contents=tensor_contents)

    patches.set(module, "_str", _str)


def _storages(events: Events, patches: Patches) -> None:
    owner: Any = torch.UntypedStorage
    plain_device = owner.device

    def copied(storage: Any, cuda: bool) -> Any:
        with events.silence():
            result = owner(storage.nbytes()).copy_(storage)
        if cuda != storage_is_cuda(storage) and storage.nbytes():
            count = torch.empty(0, dtype=torch.uint8).set_(storage)
            record_copy(events, count, count, to_device=cuda, non_blocking=False, pinned=False)
        set_storage(result, cuda)
        return result

    def to(self: Any, *, device: Any, non_blocking: bool = False) -> Any:
        cuda = names_cuda(device)
        return self if cuda == storage_is_cuda(self) else copied(self, cuda)

    new = {
        "device": property(lambda s: CUDA if storage_is_cuda(s) else plain_device.__get__(s)),
        "is_cuda": property(storage_is_cuda),
        "clone": lambda self: copied(self, storage_is_cuda(self)),
        "to": to,
        "cpu": lambda self: to(self, device="cpu"),
        "cuda": lambda self, device=None, non_blocking=False: to(self, device="cuda"),
    }
    for name, value in new.items():
        patches.set(owner, name, value, new=True)


def _grouping(patches: Patches) -> None:
    """PyTorch groups optimizer tensors by device in C++, which sees host memory; group by the
    virtual device."""
    plain = getattr(torch._C, "_group_tensors_by_device_and_dtype", None)
    if plain is None:
        return

    def group(lists: Any, with_indices: bool = False) -> dict[Any, Any]:
        tags = [is_cuda(tensor) for tensor in lists[0]]
        groups: dict[Any, Any] = {}
        for tag in sorted(set(tags)):
            keep = [i for i, found in enumerate(tags) if found == tag]
            part = [[column[i] for i in keep] if column else [] for column in lists]
            for (device, dtype), (columns, indices) in plain(part, True).items():
                place = CUDA if tag else device
                groups[(place, dtype)] = (
                    columns,
                    [keep[i] for i in indices] if with_indices else [],
                )
        return groups

    patches.set(torch._C, "_group_tensors_by_device_and_dtype", group)


def _fast_paths(patches: Patches) -> None:
    """Let attention take its fast path: PyTorch avoids it where a function mode is on, as ours
    is."""

    def has_torch_function(tensors: Any) -> bool:
        return any(getattr(type(t), "__torch_function__", plain) not in ordinary for t in tensors)

    plain = torch._C._disabled_torch_function_impl
    ordinary = (plain, torch.Tensor.__torch_function__)
    patches.set(torch.overrides, "has_torch_function", has_torch_function)


def install(events: Events, patches: Patches, legacy: dict[str, Any]) -> None:
    """Replace them all; `legacy` holds the old tensor types' dtypes."""
    _transfers(events, patches)
    _legacy_type(events, patches, legacy)
    _reads(events, patches)
    _places(patches)
    _pinning(events, patches)
    _backward(events, patches)
    _printing(events, patches)
    _storages(events, patches)
    _grouping(patches)
    _fast_paths(patches)
