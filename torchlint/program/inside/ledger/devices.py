"""Stand-ins for the objects of ``torch.cuda``: streams, events, generators, device properties, old
tensor types."""

from __future__ import annotations

import time
from abc import ABCMeta
from typing import Any

import torch

from .events import Events
from .tags import CUDA, names_cuda, set_cuda
from .transfers import record_copy

NAME = "Virtual CUDA device"
TOTAL_BYTES = 80 * 1024**3
CAPABILITY = (8, 0)
"""What programs read that choose a dtype or a kernel: an A100's figure."""


class Properties:
    """What ``torch.cuda.get_device_properties`` gives, as far as programs commonly read it."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def properties(device: Any = None) -> Any:
    """Describe the virtual device."""
    return Properties(
        name=NAME,
        major=CAPABILITY[0],
        minor=CAPABILITY[1],
        total_memory=TOTAL_BYTES,
        multi_processor_count=108,
        max_threads_per_multi_processor=2048,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=49152,
        shared_memory_per_multiprocessor=167936,
        warp_size=32,
        is_integrated=False,
        is_multi_gpu_board=False,
        gcnArchName="",
        L2_cache_size=40 * 1024**2,
    )


class Event:
    """Stands for ``torch.cuda.Event``: complete as soon as it is recorded."""

    events: Events

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self.device = CUDA
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Remember the host's time, seconds."""
        self._time = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Order streams; the host goes on."""

    def query(self) -> bool:
        """Whether the work before it is done."""
        return True

    def elapsed_time(self, end_event: Any) -> float:
        """Host time between two events, milliseconds."""
        return float(end_event._time - self._time) * 1e3

    def synchronize(self) -> None:
        """Let the host wait."""
        self.events.sync("Event.synchronize")


class Stream:
    """Stands for ``torch.cuda.Stream``."""

    events: Events
    event: type[Event]

    def __init__(self, device: Any = None, priority: int = 0, **kwargs: Any) -> None:
        self.device = CUDA
        self.device_index = 0
        self.priority = priority
        self.cuda_stream = self.stream_id = 0
        self.device_type = 1

    def record_event(self, event: Any = None) -> Any:
        """Record an event, a new one if none is given."""
        event = self.event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Any) -> None:
        """Order streams; the host goes on."""

    def wait_stream(self, stream: Any) -> None:
        """Order streams; the host goes on."""

    def query(self) -> bool:
        """Whether its work is done."""
        return True

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being captured; never, as graphs are refused."""
        return False

    def synchronize(self) -> None:
        """Let the host wait."""
        self.events.sync("Stream.synchronize")


def stream_classes(events: Events) -> tuple[type[Stream], type[Event]]:
    """Classes to stand for ``torch.cuda.Stream`` and ``torch.cuda.Event``, which count in
    `events`."""
    same: dict[str, Any] = {"events": events, "__eq__": object.__eq__, "__hash__": object.__hash__}
    event = _made(Event, "_EventBase", same)
    return _made(Stream, "_StreamBase", {**same, "event": event}), event


def _made(kind: type, abstract: str, members: dict[str, Any]) -> Any:
    """A subclass; below the abstract class where there is one (torch 2.2 to 2.4), as PyTorch's
    compiler asks for it."""
    base = getattr(getattr(torch, "_streambase", None), abstract, None)
    if type(base) is ABCMeta:
        return ABCMeta(kind.__name__, (kind, base), members)
    return type(kind.__name__, (kind,), members)


def generator_class() -> Any:
    """A class to stand for ``torch.Generator``: those of the GPU draw from a host generator of
    their own."""
    plain: Any = torch.Generator

    class Meta(type):
        """All generators are instances, those made before it too."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, plain)

        def __call__(cls, device: Any = "cpu") -> Any:
            if not names_cuda(device):
                return plain(device)
            return Virtual("cpu")

    class Virtual(plain):
        """A generator that says that it lies on the GPU."""

        device = property(lambda self: CUDA)

    class Generator(metaclass=Meta):
        """Makes host generators, whichever device is named."""

    return Generator


def legacy_types(events: Events, legacy: dict[str, Any]) -> dict[str, Any]:
    """Classes to stand for ``torch.cuda.FloatTensor`` and its like."""

    def made(name: str, dtype: Any) -> Any:
        class Meta(type):
            def __instancecheck__(cls, instance: Any) -> bool:
                return (
                    isinstance(instance, torch.Tensor)
                    and instance.is_cuda
                    and instance.dtype == dtype
                )

            def __call__(cls, *args: Any, **kwargs: Any) -> Any:
                result = getattr(torch, name)(*args, **kwargs)
                set_cuda(result, True)
                if args and not isinstance(args[0], (int, torch.Size, torch.Tensor)):
                    record_copy(
                        events, result, result, to_device=True, non_blocking=False, pinned=False
                    )
                return result

        return Meta(name, (), {"__module__": "torch.cuda", "dtype": dtype, "is_cuda": True})

    return {name: made(name, dtype) for name, dtype in legacy.items() if hasattr(torch, name)}
