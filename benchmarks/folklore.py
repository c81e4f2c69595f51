"""Tries common beliefs about fast PyTorch on a CPU, and keeps what came of it for the page on
folklore.

    python benchmarks/folklore.py [--keep]

Prints one line for each belief; with --keep, writes ``benchmarks/results/folklore-DATE.json``, from
which ``docs/hooks.py`` fills the page in. Times are ratios of medians of 15 rounds that take turns;
on a busy machine only large ones mean something.
"""

from __future__ import annotations

import argparse
import inspect
import statistics
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from measuring import environment, keep
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

ROUNDS = 15
NAME = "folklore-2026-11-21"


def compared(one: Callable[[], object], other: Callable[[], object]) -> str:
    """Return the medians of two calls that take turns: ``"8.4 ms against 8.3 ms"``."""
    times: tuple[list[float], list[float]] = ([], [])
    for call in (one, other):
        call()
    for _ in range(ROUNDS):
        for call, found in zip((one, other), times, strict=True):
            start = time.perf_counter()
            call()
            found.append(time.perf_counter() - start)
    return " against ".join(_span(statistics.median(found)) for found in times)


def _span(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def zero_grad() -> str:
    """``zero_grad`` drops gradients by default."""
    default = inspect.signature(torch.optim.Optimizer.zero_grad).parameters["set_to_none"].default
    model, x = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))), torch.randn(64, 256)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(drop: bool) -> None:
        optimizer.zero_grad(set_to_none=drop)
        model(x).sum().backward()
        optimizer.step()

    took = compared(lambda: step(True), lambda: step(False))
    return (
        f"the default of `set_to_none` is {default}; a step of eight linear layers took "
        f"{took} with zeros"
    )


def workers() -> str:
    """Workers for data that is in memory anyway."""
    data = TensorDataset(torch.randn(20_000, 32), torch.randn(20_000))

    def epoch(count: int) -> None:
        for _ in DataLoader(data, batch_size=256, num_workers=count):
            pass

    return (
        "an epoch over 20,000 rows in memory took "
        f"{compared(lambda: epoch(2), lambda: epoch(0))} without workers"
    )


def pinning() -> str:
    """``pin_memory=True`` without an accelerator."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        (batch,) = next(iter(DataLoader(TensorDataset(torch.zeros(4)), pin_memory=True)))
    words = (
        "a warning" if any("pin_memory" in str(each.message) for each in caught) else "no warning"
    )
    pinned = "pinned" if batch.is_pinned() else "not pinned"
    return f"without an accelerator it gives {words}, and batches that are {pinned}"


def in_place() -> str:
    """In-place operations on what the backward pass needs."""
    x = torch.ones(3, requires_grad=True)
    y = x.sigmoid()
    y.mul_(2)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return (
            "`y = x.sigmoid(); y.mul_(2); y.sum().backward()` raises a RuntimeError: "
            f"{str(error).split(':')[0]}"
        )
    return "no error"


class Saved:
    """What the graph holds in the place of a tensor, so that one sees when it lets go."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def accumulated_loss() -> str:
    """What a sum of losses keeps alive, with and without a backward pass."""
    counts = []
    for backward in (True, False):
        held: weakref.WeakSet[Saved] = weakref.WeakSet()

        def pack(tensor: torch.Tensor, held: weakref.WeakSet[Saved] = held) -> Saved:
            held.add(saved := Saved(tensor))
            return saved

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda saved: saved.tensor):
            loss = (torch.randn(8, 8) @ torch.randn(8, 8, requires_grad=True)).exp().sum()
            total = 0 + loss
        if backward:
            loss.backward()
        del loss
        counts.append(len(held))
        assert total.grad_fn is not None
    return (
        f"a summed loss keeps {counts[0]} saved tensors alive after `backward()`, and "
        f"{counts[1]} where there was none"
    )


def numpy_in_compile() -> str:
    """Graph breaks by NumPy code."""

    def both(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(np.sin(x.numpy()) + 1) * 2

    explained = torch._dynamo.explain(both)(torch.ones(3))
    return f"a function that goes through `np.sin` has {explained.graph_break_count} graph breaks"


def compile_in_loop() -> str:
    """``torch.compile`` called again for the same function."""
    graphs = []

    def backend(graph: Any, inputs: object) -> Any:
        graphs.append(graph)
        return graph.forward

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    for _ in range(10):
        torch.compile(double, backend=backend)(torch.ones(3))
    count = f"{len(graphs)} graph{'s' * (len(graphs) != 1)}"
    return f"ten calls of `torch.compile(f)` in a loop, each used once, compiled {count}"


def inference_mode() -> str:
    """``inference_mode`` beside ``no_grad``."""
    model, x = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).eval(), torch.randn(64, 256)

    def call(context: Callable[[], Any]) -> None:
        with context():
            model(x)

    took = compared(lambda: call(torch.inference_mode), lambda: call(torch.no_grad))
    return f"eight linear layers took {took} under `no_grad`"


def record_function() -> str:
    """``record_function`` where no profiler runs."""

    def marked() -> None:
        for _ in range(1000):
            with torch.profiler.record_function("step"):
                pass

    def plain() -> None:
        for _ in range(1000):
            pass

    return f"1,000 empty blocks took {compared(marked, plain)} for the loop alone"


class Drawn(Dataset[float]):
    """Samples that are NumPy's next random number."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> float:
        return float(np.random.rand())


def numpy_seeds() -> str:
    """NumPy's random numbers in workers."""
    drawn = [float(x) for x in DataLoader(Drawn(), num_workers=2)]
    same = len({*drawn}) < len(drawn)
    return (
        f"two workers drew {'the same number' if same else 'different numbers'}: "
        f"{', '.join(f'{x:.3f}' for x in drawn)}"
    )


def channels_last() -> str:
    """``channels_last`` on a CPU in float32."""
    model = nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3)).eval()
    x = torch.randn(8, 16, 64, 64)
    other = (
        nn.Sequential(nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3))
        .eval()
        .to(memory_format=torch.channels_last)
    )
    y = x.to(memory_format=torch.channels_last)
    with torch.no_grad():
        took = compared(lambda: other(y), lambda: model(x))
    return f"two convolutions in float32 took {took} in the usual layout"


def cudnn_default() -> str:
    """The default of ``cudnn.benchmark``."""
    return f"the default of `torch.backends.cudnn.benchmark` is {torch.backends.cudnn.benchmark}"


BELIEFS = (
    zero_grad, workers, pinning, in_place, accumulated_loss, numpy_in_compile, compile_in_loop, inference_mode,  # noqa: E501
    record_function, numpy_seeds, channels_last, cudnn_default,
)  # fmt: skip


def facts() -> Iterator[tuple[str, str]]:
    """Yield name and words of what was seen of each belief."""
    for belief in BELIEFS:
        yield belief.__name__.replace("_", "-"), belief()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keep", action="store_true", help="write benchmarks/results/NAME.json")
    keeping = parser.parse_args().keep
    torch.set_num_threads(1)
    found = {}
    for name, words in facts():
        found[name] = words
        print(f"{name}: {words}.")
    if keeping:
        keep(
            NAME,
            {**environment({"torch": torch.__version__, "numpy": np.__version__}), "facts": found},
        )


if __name__ == "__main__":
    main()
