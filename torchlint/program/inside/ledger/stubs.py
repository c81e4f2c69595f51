"""``torch.cuda`` and its neighbours, as a program finds them on a machine with one GPU."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch

from .devices import (
    CAPABILITY,
    NAME,
    TOTAL_BYTES,
    generator_class,
    legacy_types,
    properties,
    stream_classes,
)
from .events import Events
from .patches import Patches
from .tags import CUDA

_ZERO = (
    "memory_allocated max_memory_allocated memory_reserved max_memory_reserved memory_cached "
    "max_memory_cached "
    "current_device utilization memory_usage device_memory_used _exchange_device "
    "_maybe_exchange_device initial_seed "
    "current_blas_handle current_solver_handle get_sync_debug_mode"
)
_NOTHING = (
    "_lazy_init init set_device empty_cache ipc_collect reset_peak_memory_stats "
    "reset_max_memory_allocated "
    "reset_max_memory_cached reset_accumulated_memory_stats reset_accumulated_host_memory_stats "
    "reset_peak_host_memory_stats set_per_process_memory_fraction manual_seed manual_seed_all "
    "seed seed_all "
    "set_rng_state set_rng_state_all set_sync_debug_mode set_stream _sleep "
    "_record_memory_history _dump_snapshot"
)
_TRUE = "is_available is_initialized is_bf16_supported is_tf32_supported _is_compiled"
_RNG_BYTES = 16
"""Size of a CUDA generator's state."""


def _constant(value: Any) -> Callable[..., Any]:
    return lambda *args, **kwargs: value


def _constants(names: str, value: Any) -> dict[str, Callable[..., Any]]:
    """A function for each name: ``torch._dynamo`` refuses one that stands under several."""
    return {name: _constant(value) for name in names.split()}


class _StreamContext:
    """``torch.cuda.stream(s)``: makes a stream the current one for the block."""

    def __init__(self, state: Any, stream: Any) -> None:
        self._state, self._stream, self._before = state, stream, None

    def __enter__(self) -> Any:
        self._before = self._state.current
        self._state.current = self._stream or self._before
        return self._stream

    def __exit__(self, *exception: object) -> None:
        self._state.current = self._before


class _DeviceBlock:
    """``torch.cuda.device(d)``: there is only one, so nothing changes."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        return None


def _cuda_values() -> dict[str, Any]:
    """Functions that answer, by name."""
    return {
        **_constants(_ZERO, 0),
        **_constants(_NOTHING, None),
        **_constants(_TRUE, True),
        "device_count": _constant(1),
        "_device_count_nvml": _constant(1),
        "get_device_name": _constant(NAME),
        "get_device_capability": _constant(CAPABILITY),
        "get_device_properties": properties,
        "get_arch_list": _constant(["sm_80"]),
        "can_device_access_peer": _constant(False),
        "is_current_stream_capturing": _constant(False),
        "_is_in_bad_fork": _constant(False),
        "mem_get_info": _constant((TOTAL_BYTES, TOTAL_BYTES)),
        "memory_stats": lambda *a, **k: OrderedDict(),
        "memory_stats_as_nested_dict": lambda *a, **k: {},
        "memory_snapshot": lambda *a, **k: [],
        "memory_summary": _constant("no memory statistics on the virtual CUDA device"),
        "get_rng_state": lambda device="cuda": torch.zeros(
            _RNG_BYTES, dtype=torch.uint8, device="cpu"
        ),
        "get_rng_state_all": lambda: [torch.zeros(_RNG_BYTES, dtype=torch.uint8, device="cpu")],
        "device": _DeviceBlock,
        "device_of": _DeviceBlock,
        "_DeviceGuard": _DeviceBlock,
        "default_generators": (torch.default_generator,),
    }


def _cuda(events: Events, patches: Patches, legacy: dict[str, Any]) -> Any:
    cuda: Any = torch.cuda
    for name, value in _cuda_values().items():
        for owner in (
            cuda,
            getattr(cuda, "memory", None),
            getattr(cuda, "random", None),
            getattr(cuda, "graphs", None),
        ):
            if owner is not None and not (owner is not cuda and name == "device"):
                patches.set(owner, name, value)
    stream, event = stream_classes(events)
    state = SimpleNamespace(current=stream(), default=stream())
    for owner in (cuda, cuda.streams):
        patches.set(owner, "Stream", stream)
        patches.set(owner, "ExternalStream", stream)
        patches.set(owner, "Event", event)
    patches.set(cuda, "current_stream", lambda device=None: state.current)
    patches.set(cuda, "default_stream", lambda device=None: state.default)
    patches.set(cuda, "StreamContext", lambda stream: _StreamContext(state, stream))
    patches.set(cuda, "stream", lambda stream: _StreamContext(state, stream))
    patches.set(cuda, "synchronize", lambda device=None: events.sync("torch.cuda.synchronize"))
    for name, kind in legacy_types(events, legacy).items():
        patches.set(cuda, name, kind)
    for name in ("CUDAGraph", "graph", "make_graphed_callables"):
        refuse = _refuse(events, f"CUDA graphs (torch.cuda.{name}) cannot be followed")
        patches.set(cuda, name, type(name, (), {"__new__": refuse}))
    patches.set(cuda.nccl, "version", _constant((2, 27, 0)))
    for name, value in (("_cuda_getDeviceCount", 1), ("_cuda_getCurrentRawStream", 0)):
        patches.set(torch._C, name, _constant(value), new=True)
    patches.set(torch._C, "_nccl_version", _constant((2 << 32) | (27 << 16)), new=True)
    patches.set(torch, "has_cuda", True, new=True)
    names = "rangePushA rangePop markA rangeStartA rangeEnd deviceRangeStart deviceRangeEnd"
    marks = SimpleNamespace(**_constants(names, 0))
    patches.set(cuda.nvtx, "_nvtx", marks)
    return state


def _refuse(events: Events, reason: str) -> Callable[..., Any]:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        events.gap(reason)
        raise NotImplementedError(reason)

    return refuse


def _accelerator(events: Events, patches: Patches, state: Any) -> None:
    module: Any = getattr(torch, "accelerator", None)
    if module is None:
        return
    nothing = (
        "set_device_index set_device_idx set_stream empty_cache empty_host_cache "
        "reset_peak_memory_stats reset_accumulated_memory_stats"
    )
    values = {
        **_constants(nothing, None),
        **_constants("current_device_index current_device_idx", 0),
        **{name: _constant(0) for name in _ZERO.split()[:4]},
        "is_available": _constant(True),
        "device_count": _constant(1),
        "current_accelerator": _constant(torch.device("cuda")),
        "current_stream": lambda device=None: state.current,
        "synchronize": lambda device=None: events.sync("torch.accelerator.synchronize"),
        "device_index": _DeviceBlock,
        "get_device_capability": _constant({}),
        "get_memory_info": _constant((TOTAL_BYTES, TOTAL_BYTES)),
        "memory_stats": lambda *a, **k: OrderedDict(),
    }
    for name, value in values.items():
        patches.set(module, name, value)


def _defaults(patches: Patches) -> None:
    plain: Any = torch.set_default_tensor_type

    def set_default_tensor_type(kind: Any) -> None:
        name = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"
        plain(name.replace("torch.cuda.", "torch."))
        torch.set_default_device("cuda" if name.startswith("torch.cuda.") else None)

    patches.set(torch, "set_default_tensor_type", set_default_tensor_type)
    patches.set(torch, "Generator", generator_class())


def _single_device_parallel(patches: Patches) -> None:
    """``DataParallel`` copies in C++ code of CUDA builds; of the devices that it names there is
    one."""
    plain: Any = torch.nn.DataParallel.__init__

    def init(
        self: Any, module: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0
    ) -> None:
        plain(self, module, None if device_ids is None else [0], None, dim)

    patches.set(torch.nn.DataParallel, "__init__", init)
    comm: Any = torch.nn.parallel.comm
    patches.set(comm, "scatter", lambda tensor, *args, **kwargs: (tensor.to(CUDA),))


def _eager(events: Events, patches: Patches) -> None:
    """Run compiled programs eagerly: what the compiler makes of them for a GPU is not seen here."""
    plain: Any = torch.compile

    def compile(model: Any = None, **kwargs: Any) -> Any:  # noqa: A001
        events.note("torch.compile: counted in eager mode")
        return plain(model, **kwargs)

    patches.set(torch, "compile", compile)
    state: Any = torch.jit._state
    patches.set(state._enabled, "enabled", False)


def _autocast(events: Events, patches: Patches) -> None:
    """``autocast("cuda")`` casts CUDA tensors in C++ only: here the arithmetic stays as it is."""
    plain: Any = torch.autocast.__enter__

    def enter(self: Any) -> Any:
        if self.device == "cuda" and self._enabled:
            events.note("autocast: arithmetic and sizes stay in the tensors' own dtype")
        return plain(self)

    patches.set(torch.autocast, "__enter__", enter)


@contextmanager
def environment() -> Iterator[None]:
    """``TORCHDYNAMO_DISABLE=1`` while it lasts; the same in a compiler that is imported already."""
    before = os.environ.get("TORCHDYNAMO_DISABLE")
    os.environ["TORCHDYNAMO_DISABLE"] = "1"
    config: Any = getattr(sys.modules.get("torch._dynamo"), "config", SimpleNamespace(disable=True))
    disabled, config.disable = config.disable, True
    try:
        yield
    finally:
        config.disable = disabled
        if before is None:
            os.environ.pop("TORCHDYNAMO_DISABLE", None)
        else:
            os.environ["TORCHDYNAMO_DISABLE"] = before


def install(events: Events, patches: Patches, legacy: dict[str, Any]) -> None:
    """Replace them all; `legacy` holds the old tensor types' dtypes."""
    state = _cuda(events, patches, legacy)
    _accelerator(events, patches, state)
    cudnn: Any = torch.backends.cudnn
    patches.set(cudnn, "is_acceptable", _constant(False))
    for name, value in (("is_available", True), ("version", 90000)):
        patches.set(cudnn, name, _constant(value))
    patches.set(torch.backends.cuda, "is_built", _constant(True))
    if torch.version.cuda is None:
        patches.set(torch.version, "cuda", "12.6")
    _defaults(patches)
    _single_device_parallel(patches)
    _eager(events, patches)
    _autocast(events, patches)
