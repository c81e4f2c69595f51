"""Traces whose truth is known: a small machine that runs programs with a host, streams and
synchronisations, and writes down what it did as PyTorch's profiler would.

Times are nanoseconds; what is written are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOST, OTHER = "100", "101"
"""The training thread and the thread of autograd."""
CALL = 4_000
LATENCY = 2_000
BEGIN = 5_000_000_000


@dataclass
class Machine:
    """Runs a program instruction by instruction; `now` is the host's time."""

    now: int = BEGIN
    events: list[dict[str, Any]] = field(default_factory=list)
    streams: dict[int, int] = field(default_factory=dict)
    thread: str = HOST
    correlation: int = 0
    dropped: frozenset[str] = frozenset()
    calls: dict[str, list[int]] = field(default_factory=dict)
    """When the calls of each place in the program that waits began."""
    ready: list[int] = field(default_factory=list)
    """When each batch so far was there."""
    taken: list[int] = field(default_factory=list)
    """When each batch so far was taken."""

    @contextmanager
    def operator(self, name: str) -> Iterator[None]:
        """Write down an operator that holds what is done meanwhile."""
        begun, at = self.now, len(self.events)
        yield
        self.event("cpu_op", name, begun, self.now - begun)
        self.events.insert(at, self.events.pop())

    def event(self, cat: str, name: str, ts: int, dur: int, **args: Any) -> None:
        """Write down what took time."""
        self.events.append(
            {
                "ph": "X",
                "cat": cat,
                "name": name,
                "pid": 1 if "stream" not in args else 0,
                "tid": args.get("stream", self.thread),
                "ts": ts / 1000,
                "dur": dur / 1000,
                "args": args,
            }
        )

    def host(self, time: int) -> None:
        """Let the host compute."""
        self.now += time

    def launch(
        self, work: int, stream: int = 7, name: str = "gemm", cat: str = "kernel", **args: Any
    ) -> int:
        """Put work into a stream; return when it ends."""
        self.correlation += 1
        call = "cudaLaunchKernel" if cat == "kernel" else "cudaMemcpyAsync"
        self.event("cuda_runtime", call, self.now, CALL, correlation=self.correlation)
        start = max(self.now + CALL + LATENCY, self.streams.get(stream, 0))
        self.streams[stream] = start + work
        self.event(
            cat, name, start, work, stream=stream, correlation=self.correlation, device=0, **args
        )
        self.now += CALL
        return start + work

    def sync(self, place: str = "", stream: int | None = None) -> None:
        """Wait until a stream, or all, are empty."""
        if place in self.dropped:
            return
        begun = self.now
        self.calls.setdefault(place, []).append(begun)
        ends = [end for of, end in self.streams.items() if stream in (None, of)]
        self.now = max([begun, *ends]) + 1_000
        name = "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize"
        self.event("cuda_runtime", name, begun, self.now - begun)

    def item(self, place: str, stream: int = 7) -> None:
        """Read a value back: a copy, and a wait for it."""
        if place in self.dropped:
            return
        self.calls.setdefault(place, []).append(self.now)
        self.launch(1_500, stream, "Memcpy DtoH (Device -> Pinned)", "gpu_memcpy")
        self.sync(place, stream)

    def upload(self, time: int, stream: int = 7) -> None:
        """Copy from pageable memory to the device, and wait for it."""
        self.correlation += 1
        begun = self.now
        start = max(begun + CALL + LATENCY, self.streams.get(stream, 0))
        self.streams[stream] = start + time
        self.now = start + time + 1_000
        args = {"correlation": self.correlation}
        self.event("cuda_runtime", "cudaMemcpyAsync", begun, self.now - begun, **args)
        name = "Memcpy HtoD (Pageable -> Device)"
        self.event("gpu_memcpy", name, start, time, stream=stream, device=0, **args)

    def batch(self, time: int, own: int, workers: int = 4) -> None:
        """Take a batch of worker processes, each of which makes one in `time` nanoseconds, and at
        most two ahead; unpacking it takes `own`."""
        begun, number = self.now, len(self.ready)
        before = self.ready[number - workers] if number >= workers else BEGIN
        ahead = 2 * workers
        room = self.taken[number - ahead] if number >= ahead else BEGIN
        self.ready.append(max(before, room) + time)
        self.now = max(begun, self.ready[-1]) + own
        self.taken.append(self.now)
        name = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
        self.event("user_annotation", name, begun, self.now - begun)

    def allocate(self, time: int) -> None:
        """Take memory from the driver."""
        self.event("cuda_runtime", "cudaMalloc", self.now, time)
        self.now += time

    def free(self, time: int) -> None:
        """Give memory back to the driver, once the device is done with it."""
        self.sync("free")
        self.event("cuda_runtime", "cudaFree", self.now, time)
        self.now += time

    def depend(self, stream: int, on: int) -> None:
        """Let a stream wait for what another one has to do so far."""
        self.event("cuda_runtime", "cudaStreamWaitEvent", self.now, 1_000)
        self.host(1_000)
        ready = self.streams.get(on, 0)
        self.streams[stream] = max(self.streams.get(stream, 0), ready)

    def step(self, number: int, begun: int) -> None:
        """Mark a step that ends now."""
        self.event("user_annotation", f"ProfilerStep#{number}", begun, self.now - begun)


def document(events: Iterable[dict[str, Any]], **meta: Any) -> dict[str, Any]:
    """Return a trace as PyTorch writes it."""
    return {"schemaVersion": 1, **meta, "traceEvents": list(events), "traceName": "t.json"}


def written(path: Path, events: Iterable[dict[str, Any]], **meta: Any) -> str:
    """Write a trace; return the file's name."""
    path.write_text(json.dumps(document(events, **meta), indent=1))
    return str(path)


def steps(count: int = 4, *, work: int = 100_000, sync: bool = True, rank: int = 0) -> Machine:
    """Return what ran a loop: a copy, three kernels, a collective on another stream, and a wait."""
    machine = Machine()
    for number in range(count):
        begun = machine.now
        machine.host(20_000)
        machine.launch(
            10_000, 7, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy", bytes=40_000,
            **{"memory bandwidth (GB/s)": 4.0},
        )  # fmt: skip
        for _ in range(3):
            machine.launch(work)
        machine.launch(50_000 + 10_000 * rank, 20, "ncclKernel_AllReduce_RING_LL_Sum_float")
        if sync:
            machine.sync()
        machine.host(5_000)
        machine.step(number, begun)
    return machine
