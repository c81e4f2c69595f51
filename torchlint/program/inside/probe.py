"""What an interpreter and its torch can do, as lines of JSON; run as a script: ``python probe.py``.

The first line is printed before torch is imported, so that a crash of the import can be told from
other failures::

    {"torchlint_probe": 1, "python": "3.11.7", "executable": "/usr/bin/python3", "implementation":
    "CPython"} {"torchlint_probe": 2, "torch": "2.13.0", "error": null, "cuda_build": null,
    "devices": [], ...}

The code keeps to the syntax of Python 3.7, so that an old interpreter is told its version rather
than a syntax error. What it says of GPUs follows PyTorch's documentation; no GPU was at hand where
it was written.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
import warnings
from typing import Any


def emit(facts: dict[str, object]) -> None:
    """Print one line of JSON in ASCII, whatever the locale; a line break first, as the import of
    torch may print."""
    sys.stdout.write("\n" + json.dumps(facts) + "\n")
    sys.stdout.flush()


def python_facts() -> dict[str, object]:
    """The interpreter's version, path and kind."""
    return {
        "torchlint_probe": 1,
        "python": platform.python_version(),
        "executable": sys.executable,
        "implementation": platform.python_implementation(),
    }


def torch_facts() -> dict[str, object]:
    """Version, devices, profiler and threads of torch; ``error`` and its kind instead where it
    cannot be imported."""
    try:
        torch: Any = importlib.import_module("torch")
        facts: dict[str, object] = {"torchlint_probe": 2, "torch": str(torch.__version__)}
    except BaseException as error:  # whatever its import does is to be told, SystemExit too
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        words = f"{type(error).__name__}: {error}"
        return {"torchlint_probe": 2, "torch": None, "missing": missing, "error": words}
    facts.update(build_facts(torch))
    facts["threads"] = torch.get_num_threads()
    facts["kineto"] = bool(torch.autograd.kineto_available())
    facts["no_gpu_profile"] = gpu_profile(torch) if facts["devices"] else None
    return facts


def build_facts(torch: Any) -> dict[str, object]:
    """Version and devices of torch: what a run must know of it."""
    found, reason = devices(torch)
    return {
        "torch": str(torch.__version__),
        "error": None,
        "cuda_build": torch.version.cuda,
        "hip_build": getattr(torch.version, "hip", None),
        "devices": found,
        "no_device": reason,
    }


def devices(torch: Any) -> tuple[list[dict[str, object]], str]:
    """Name, total and free memory of each CUDA device in bytes, free None where it cannot be read;
    or why none is."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = (
                [device(torch, index) for index in range(torch.cuda.device_count())]
                if torch.cuda.is_available()
                else []
            )
            reason = ""
        except Exception as error:
            found, reason = [], f"{type(error).__name__}: {error}"
    if found:
        return found, ""
    return found, reason or " ".join(str(warning.message) for warning in caught)


def device(torch: Any, index: int) -> dict[str, object]:
    """One device's name and memory, bytes."""
    properties = torch.cuda.get_device_properties(index)
    try:
        free = torch.cuda.mem_get_info(index)[0]
    except Exception:  # a device that another process holds exclusively
        free = None
    return {"name": properties.name, "memory": properties.total_memory, "free": free}


def gpu_profile(torch: Any) -> str:
    """Why the profiler sees nothing of the GPU; empty where it sees a kernel.

    CUPTI is often there and still refused, as counters are for administrators only: so a kernel is
    run and looked for.
    """
    activity = torch.profiler.ProfilerActivity
    if activity.CUDA not in torch.profiler.supported_activities():
        return "torch is built without CUPTI"
    try:
        with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profile:
            torch.ones(8, device="cuda").add(1)
            torch.cuda.synchronize()
        seen = any(
            event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events()
        )
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if seen else "no GPU event was recorded; CUPTI may need permission"


def main() -> None:
    """Print both lines."""
    # The folder of this script must not lend its modules to torch.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or os.curdir) != here]
    emit(python_facts())
    emit(torch_facts())


if __name__ == "__main__":
    main()
