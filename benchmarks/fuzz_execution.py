"""Executes generated programs in a process that has imported torch once: it forks for each program.

    python benchmarks/fuzz_execution.py

reads one JSON list of `[folder, mode]` per line and answers each line with a list of `[status,
output]`. In the mode ``cpu`` a program runs as it is. In the mode ``cuda`` a CUDA device is played:
``torch.cuda.is_available()`` says True, a move to the device or back is a copy, and a pinned source
that changes before an asynchronous copy of it has surely ended is told in the output. What a
program prints and its exception are the output.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import random
import re
import runpy
import signal
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch
from torch.utils.data import DataLoader
from torch.utils.data._utils.pin_memory import pin_memory

from torchlint.verify.inside.standin import StandIn

_EARLY = (
    "torch._dynamo",
    "torch.utils.data",
    "torch.optim",
    "torch.func",
    "torch.nn.utils",
    "torch.amp.autocast_mode",
)
"""Imported before the first fork: torch would import them in each child, which takes two
seconds."""
_SECONDS = 60
_WAITS = frozenset(
    (
        "item tolist numpy cpu synchronize nonzero __bool__ __float__ __int__ __index__ __repr__ "
        "__format__"
    ).split()
)
"""What returns to the host only after the device has done its work, asynchronous copies among
it."""
_ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")
_FUNCTION = re.compile(rb"grad_fn=<\w+>")
"""Which of autograd's functions a printed tensor names is not promised (``docs/fixes.md``)."""


class Device(StandIn):
    """Plays a CUDA device on the CPU, and watches the sources of asynchronous copies."""

    def __init__(self) -> None:
        super().__init__("cpu")
        self.under_way: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.pinned: dict[int, torch.Tensor] = {}
        """What lies in page-locked memory, by its address, kept alive: an address is not used
        again."""

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call `func`; a copy to the host is a new tensor, and one to the device may still be under
        way."""
        named = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in _WAITS:
            self.arrive()
        if name == "is_pinned":
            return _address(args[0]) in self.pinned
        if name == "pin_memory":
            return args[0] if _address(args[0]) in self.pinned else self.pin(args[0].clone())
        if named.pop("pin_memory", False) and name != "DataLoader":
            return self.pin(super().__torch_function__(func, types, args, named))
        result = super().__torch_function__(func, types, args, named)
        if (
            name in ("to", "cuda")
            and isinstance(result, torch.Tensor)
            and _moves(name, args, named)
        ):
            if named.get("non_blocking") is True and _address(args[0]) in self.pinned:
                source = args[0].detach()
                self.under_way.append((source, source.clone()))
            return result
        to_host = name == "cpu" or (name == "to" and "cpu" in (*args[1:2], named.get("device")))
        return result.clone() if to_host and result is args[0] else result

    def pin(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor, which counts as page-locked from now on."""
        self.pinned[_address(tensor)] = tensor
        return tensor

    def arrive(self) -> None:
        """Say which copies took values that were written too late; then all have ended."""
        waiting, self.under_way = self.under_way, []
        with torch._C.DisableTorchFunctionSubclass(), torch.no_grad():
            for source, then in waiting:
                same = source.shape == then.shape and torch.equal(
                    torch.nan_to_num(source), torch.nan_to_num(then)
                )
                if not same:
                    print("a copy to the device was under way when its source changed")


def _address(tensor: torch.Tensor) -> int:
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.untyped_storage().data_ptr()


def _pinning(iterate: Any) -> Any:
    """Return a loader's `__iter__` that pins what it yields, as the loader's thread does beside a
    real device."""

    def pinned(self: Any) -> Any:
        for batch in iterate(self):
            yield pin_memory(batch) if self.pin_memory else batch

    return pinned


def _moves(name: str, args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    targets = (*args[1:], *named.values())
    return name == "cuda" or any(
        str(t).startswith("cuda") for t in targets if isinstance(t, str | torch.device)
    )


class LightningModule(torch.nn.Module):
    """What `log` of a real LightningModule does with a value: a number becomes a tensor, a tensor
    is kept."""

    device = torch.device("cpu")

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, torch.Tensor] = {}

    def log(self, name: str, value: Any, *args: Any, **options: Any) -> None:
        """Keep a value as the real one does, and print it."""
        if isinstance(value, torch.Tensor):
            kept = value.detach().clone()
        else:
            kept = torch.tensor(value, device=self.device, dtype=torch.get_default_dtype())
        if kept.numel() != 1:
            raise ValueError(
                f"`self.log({name}, {value})` was called, but the tensor must have a single "
                "element."
            )
        if not kept.is_floating_point():
            warnings.warn(f"You called `self.log({name!r}, ...)` with an integer", stacklevel=2)
            kept = kept.to(torch.get_default_dtype())
        self.logged[name] = kept
        print("logged", name, kept.dtype, tuple(kept.shape), kept.double().item())

    def log_dict(self, values: Mapping[str, Any], *args: Any, **options: Any) -> None:
        """Log each value."""
        for name, value in values.items():
            self.log(name, value)


def _lightning() -> None:
    """Let programs import a Lightning that is not installed."""
    for name in ("lightning", "lightning.pytorch", "pytorch_lightning"):
        module: Any = types.ModuleType(name)
        module.LightningModule = LightningModule
        sys.modules[name] = module
    sys.modules["lightning"].pytorch = sys.modules["lightning.pytorch"]  # type: ignore[attr-defined]


def _child(folder: str, mode: str, out: str) -> None:
    """Run a program in this process, which ends with it."""
    os.chdir(folder)
    os.dup2(os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    sys.stdout = open(1, "w", closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.path.insert(0, folder)
    sys.argv = ["main.py"]
    signal.alarm(_SECONDS)
    atexit._clear()  # the parent's
    code = 0
    try:
        with contextlib.ExitStack() as stack:
            if mode == "cuda":
                torch.cuda.is_available = lambda: True
                torch.cuda.synchronize = lambda device=None: None
                DataLoader.__iter__ = _pinning(DataLoader.__iter__)
                device = stack.enter_context(Device())
                stack.callback(device.arrive)
            try:
                runpy.run_path("main.py", run_name="__main__")
            except SystemExit as error:
                print("SystemExit", error.code)
            except (
                BaseException
            ) as error:  # also KeyboardInterrupt: it is what the program ends with
                # Before Python 3.14 the message also says that a float was divided.
                print("EXC", type(error).__name__, str(error).removeprefix("float ")[:300])
                code = 1
        atexit._run_exitfuncs()
        sys.stdout.flush()
    finally:
        os._exit(code)


def execute(folder: str, mode: str) -> tuple[int, str]:
    """Return the exit status of a program and what it printed."""
    out = f"{folder}.out"
    pid = os.fork()
    if pid == 0:
        _child(folder, mode, out)
    status = os.waitpid(pid, 0)[1]
    data = Path(out).read_bytes()
    Path(out).unlink()
    data = _FUNCTION.sub(b"grad_fn=<>", _ADDRESS.sub(b"0x", data))
    return status, data.decode("utf-8", "replace")


def main() -> None:
    """Answer until the input ends."""
    torch.set_num_threads(1)
    for name in _EARLY:
        importlib.import_module(name)
    _lightning()
    warnings.simplefilter("ignore")
    sys.dont_write_bytecode = True
    asyncio.run(asyncio.sleep(0))
    model = torch.nn.Linear(2, 2)
    torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)
    gc.collect()
    gc.freeze()  # what is not looked at again need not be copied by a child
    for line in sys.stdin:
        answers = [execute(folder, mode) for folder, mode in json.loads(line)]
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
