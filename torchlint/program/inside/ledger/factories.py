"""Functions that make tensors: the device they are asked for, and what it costs to fill it from the
host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import torch
from torch.utils import _device

from .events import Events
from .tags import CUDA, any_cuda, elsewhere, is_cuda, names_cuda, pin, set_cuda, tensors_in
from .transfers import record_copy

Factory = Callable[[Events, Any, Sequence[Any], dict[str, Any]], Any]


def default_is_cuda() -> bool:
    """Whether ``torch.set_default_device`` or ``with torch.device(...)`` names the GPU."""
    return names_cuda(getattr(_device, "CURRENT_DEVICE", None))


def _wanted(args: Sequence[Any], kwargs: dict[str, Any], inherits: bool) -> bool:
    """The device a factory is asked for; those that `inherits` take the tensors' they are given."""
    device = kwargs.get("device")
    if device is not None:
        return names_cuda(device)
    if inherits and any(True for _ in tensors_in(args)):
        return any_cuda(args)
    return default_is_cuda()


def _make(
    events: Events,
    func: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    cuda: bool,
    default: bool = True,
) -> Any:
    """Call the factory on the host and tag what it makes; some take no `default` device."""
    if elsewhere(kwargs.get("device")):
        return func(*args, **kwargs)
    now = events.now
    kwargs = dict(kwargs)
    pinned = bool(kwargs.pop("pin_memory", False))
    if kwargs.get("device") is not None or (default and default_is_cuda()):
        kwargs["device"] = "cpu"
    before, now.requested = now.requested, cuda
    try:
        result = func(*args, **kwargs)
    finally:
        now.requested = before
    if result is not kwargs.get("out"):
        set_cuda(result, cuda)
    if pinned:
        pin(result)
    return result


def device(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``torch.device(0)`` is the GPU; a build without one refuses it."""
    if len(args) == 1 and isinstance(args[0], int) and not kwargs:
        return func("cuda", args[0])
    return func(*args, **kwargs)


def _module_to(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Read the arguments of ``Module.to``: a number, a rank say, is the GPU; a build without one
    refuses it."""
    if args and type(args[0]) is int:
        args = (torch.device("cuda", args[0]), *args[1:])
    if type(kwargs.get("device")) is int:
        kwargs = {**kwargs, "device": torch.device("cuda", kwargs["device"])}
    return func(*args, **kwargs)


def _plain(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return _make(events, func, args, kwargs, _wanted(args, kwargs, inherits=False))


def _like(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """``*_like`` and ``new_*`` take no default device."""
    if kwargs.get("device") is not None:
        return _inheriting(events, func, args, kwargs)
    return _make(events, func, args, kwargs, is_cuda(args[0] if args else kwargs["input"]), False)


def _inheriting(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return _make(events, func, args, kwargs, _wanted(args, kwargs, inherits=True))


def _from_tensor(
    events: Events, func: Any, source: Any, args: Sequence[Any], kwargs: dict[str, Any]
) -> Any:
    """``torch.tensor(t)``, ``torch.as_tensor(t)``: a tensor's own device unless another is
    named."""
    device = kwargs.get("device")
    cuda = is_cuda(source) if device is None else names_cuda(device)
    rest = {**kwargs, "device": "cpu"} if device is not None else dict(kwargs)
    with events.silence():
        result = func(source, *args[1:], **rest)
    if result is source and cuda == is_cuda(source):
        return result
    if cuda != is_cuda(source):
        result = result.detach().clone() if result is source else result
        record_copy(events, source, result, to_device=cuda, non_blocking=False, pinned=False)
    set_cuda(result, cuda)
    return result


def _from_data(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Factories that fill memory with host data, element by element where these are tensors."""
    kwargs = dict(kwargs)
    if func is torch.as_tensor:
        for name, value in zip(("dtype", "device"), args[1:]):  # noqa: B905
            kwargs[name] = value
        args = args[:1]
    method = func is torch.Tensor.new_tensor
    data = (
        args[1]
        if method and len(args) > 1
        else args[0]
        if args and not method
        else kwargs.get("data")
    )
    if isinstance(data, torch.Tensor) and not method:
        return _from_tensor(
            events, func, data, args or (data,), {k: v for k, v in kwargs.items() if k != "data"}
        )
    for element in tensors_in(data):
        if is_cuda(element):
            events.sync("item()", element.element_size())
    cuda = _wanted(args[:1] if method else (), kwargs, inherits=method)
    result = _make(events, func, args, kwargs, cuda)
    from_cuda = isinstance(data, torch.Tensor) and is_cuda(data)
    if cuda and not from_cuda:
        record_copy(events, result, result, to_device=True, non_blocking=False, pinned=False)
    return result


def masks_made(events: Events, args: Sequence[Any]) -> Sequence[Any]:
    """Turn lists and arrays of truth values, as indices of a CUDA tensor, into tensors on its
    device, as PyTorch does (``sequenceToVariable``); return the arguments of ``x[...]`` or
    ``x[...] = v``."""
    target, index = args[0], args[1]
    parts = index if isinstance(index, tuple) else (index,)
    if not any(_is_mask(part) for part in parts) or not is_cuda(target):
        return args
    with events.cause("index from host"):
        made = tuple(
            _from_data(events, torch.tensor, (part,), {"device": CUDA}) if _is_mask(part) else part
            for part in parts
        )
    return target, made, *args[2:]


def _is_mask(index: Any) -> bool:
    if isinstance(index, list):
        return bool(index) and isinstance(index[0], bool)
    return str(getattr(index, "dtype", "")) == "bool" and bool(index.shape)


def _one_hot(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """On a GPU the largest class is read only where the number of classes is not given; a CPU
    checks always."""
    source: Any = args[0] if args else kwargs.get("tensor", kwargs.get("input", kwargs.get("self")))
    classes = args[1] if len(args) > 1 else kwargs.get("num_classes", -1)
    cuda = isinstance(source, torch.Tensor) and is_cuda(source)
    if cuda and classes == -1 and source.numel():
        events.sync("one_hot", source.element_size())
    before, events.now.ambient = events.now.ambient, cuda
    try:
        with events.silence():
            return func(*args, **kwargs)
    finally:
        events.now.ambient = before


def _pad_packed(events: Events, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The lengths that come back lie in host memory."""
    before, events.now.ambient = events.now.ambient, any_cuda(args)
    try:
        result = func(*args, **kwargs)
    finally:
        events.now.ambient = before
    set_cuda(result[1], False)
    return result


_WAYS: dict[str, Factory] = {
    "plain": _plain,
    "placed": _inheriting,
    "like": _like,
    "from-data": _from_data,
}


def factories_of(made: dict[str, list[str]], methods: list[str]) -> dict[Any, Factory]:
    """Return, by function, how it is called on the virtual device.

    Args:
        made: dotted names of functions that make tensors, by where these lie.
        methods: those of tensors that do.
    """
    table: dict[Any, Factory] = {}
    for way, names in made.items():
        found = (
            reduce(lambda at, part: getattr(at, part, None), name.split(".")[1:], torch)
            for name in names
        )
        table.update({function: _WAYS[way] for function in found if function is not None})
    table.update({getattr(torch.Tensor, name): _inheriting for name in methods})
    table[torch.Tensor.new_tensor] = _from_data
    table[torch.device] = device
    table[torch._C._nn._parse_to] = _module_to
    table[torch.nn.functional.one_hot] = _one_hot
    table[torch._C._VariableFunctions._pad_packed_sequence] = _pad_packed
    return table
