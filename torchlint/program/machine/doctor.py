"""What can be measured here: the user's interpreter, its torch, the GPU and this machine, and what
each means.

``torchlint verify --doctor`` prints it; a verification asks `diagnose` first and ends with
`require_torch` where it cannot run.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torchlint.program.errors import NoTorchError
from torchlint.program.machine.host import Host, look
from torchlint.program.machine.interpreter import Answers, Asked
from torchlint.report.kit.terminal import aligned
from torchlint.report.kit.words import visible

TIMEOUT_S = 60.0
"""A cold import of torch takes seconds; one that takes a minute hangs."""

OLDEST_PYTHON = (3, 10)
OLDEST_TORCH = (2, 2)


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device that torch can use; memory in bytes, `free` None where it could not be read."""

    name: str
    memory: int
    free: int | None


@dataclass(frozen=True, slots=True)
class Doctor:
    """An interpreter and the machine under it.

    Args:
        python: the interpreter as it was named.
        problem: why nothing can be verified with it, one line; empty where it can.
        executable, python_version: what it says of itself; None where it said nothing.
        torch: torch's version; None where it cannot be imported.
        build: what torch is built for: "CUDA 13.0", "ROCm 6.4" or "the CPU".
        gpus: the devices that torch can use.
        no_gpu: why there is none.
        no_gpu_profile: why the profiler does not see the GPU; empty where it does, None without
            one.
        kineto: whether torch can record a profile; None without torch.
        threads: threads that torch would take by itself.
    """

    python: str
    host: Host
    problem: str = ""
    executable: str | None = None
    python_version: str | None = None
    torch: str | None = None
    build: str = ""
    gpus: tuple[Gpu, ...] = ()
    no_gpu: str = ""
    no_gpu_profile: str | None = None
    kineto: bool | None = None
    threads: int | None = None


def diagnose(
    python: str,
    workspace: Path | None = None,
    *,
    timeout: float = TIMEOUT_S,
    asked: Answers | None = None,
) -> Doctor:
    """Ask `python` and this machine; never raises for what it finds, see `Doctor.problem`.

    Args:
        python: a path or a name on PATH.
        workspace: where copies of the program would go; the temporary folder by default.
        timeout: seconds the interpreter has to import torch.
        asked: what answers for the interpreter, where something has been started already; it need
            not know of profiler and threads.
    """
    host = look(workspace or Path(tempfile.gettempdir()))
    with asked or Asked(python) as one:
        lines, problem = one.answer(timeout)
    about, facts = lines.get(1, {}), lines.get(2, {})
    return Doctor(
        python=python,
        host=host,
        problem=problem or _unfit(python, about, facts),
        executable=about.get("executable"),
        python_version=about.get("python"),
        torch=facts.get("torch"),
        build=_build(facts),
        gpus=tuple(
            Gpu(gpu["name"], gpu["memory"], gpu["free"]) for gpu in facts.get("devices", ())
        ),
        no_gpu=_why_no_gpu(facts),
        no_gpu_profile=facts.get("no_gpu_profile"),
        kineto=facts.get("kineto"),
        threads=facts.get("threads"),
    )


def require_torch(doctor: Doctor) -> None:
    """End the run where nothing can be verified.

    Raises:
        NoTorchError: with `Doctor.problem`.
    """
    if doctor.problem:
        raise NoTorchError(doctor.problem)


def ready(python: str, device: str, asked: Answers | None = None) -> Doctor:
    """Return what an interpreter can do, where it can run a program on a device.

    Args:
        python: a path or a name on PATH.
        device: that is wanted.
        asked: as for `diagnose`.

    Raises:
        NoTorchError: it has no torch, or no GPU where one is asked for.
    """
    doctor = diagnose(python, asked=asked)
    require_torch(doctor)
    if device == "cuda" and not doctor.gpus:
        raise NoTorchError(
            f"--device cuda: torch in {python} finds no GPU (torchlint verify --doctor says more)"
        )
    return doctor


def _unfit(python: str, about: Mapping[str, Any], facts: Mapping[str, Any]) -> str:
    """Why an interpreter that answered cannot be used; empty where it can."""
    shown = visible(python)
    if _version(about["python"]) < OLDEST_PYTHON:
        return f"{shown} is Python {visible(about['python'])}; verify needs 3.10 or newer"
    if facts.get("missing"):
        return f"no torch in {shown}; use --python, or {shown} -m pip install torch"
    if facts["error"]:
        return f"torch in {shown} cannot be imported: {visible(_first_line(facts['error']))}"
    if _version(facts["torch"]) < OLDEST_TORCH:
        return f"torch {visible(facts['torch'])} in {shown}; verify needs 2.2 or newer"
    return ""


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:2])


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _build(facts: Mapping[str, Any]) -> str:
    if facts.get("cuda_build"):
        return f"CUDA {facts['cuda_build']}"
    return f"ROCm {facts['hip_build']}" if facts.get("hip_build") else "the CPU"


def _why_no_gpu(facts: Mapping[str, Any]) -> str:
    if not facts.get("torch") or facts["devices"]:
        return ""
    if _build(facts) == "the CPU":
        return "torch is built without CUDA"
    if facts["no_device"]:
        return _first_line(str(facts["no_device"]))
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return "CUDA_VISIBLE_DEVICES hides all devices"
    return "no device or driver was found"


def render(doctor: Doctor) -> str:
    """The diagnosis as text, a line a fact, each with what it means for a verification; ends with a
    line break."""
    rows = [
        *_python_rows(doctor),
        *(_torch_rows(doctor) if doctor.torch else ()),
        *_host_rows(doctor.host),
    ]
    lines = aligned([(name, visible(text)) for name, text in rows])
    end = f"verify cannot run: {doctor.problem}" if doctor.problem else "verify can run here"
    return "\n".join([*lines, "", end, ""])


def _python_rows(doctor: Doctor) -> list[tuple[str, str]]:
    answer = f"Python {doctor.python_version}" if doctor.python_version else "no answer"
    named = (
        doctor.python
        if doctor.executable in (None, doctor.python)
        else f"{doctor.python} ({doctor.executable})"
    )
    return [("interpreter", f"{named}: {answer}")]


def _torch_rows(doctor: Doctor) -> list[tuple[str, str]]:
    rows = [("torch", f"{doctor.torch}, built for {doctor.build}")]
    for gpu in doctor.gpus:
        free = "" if gpu.free is None else f", {_size(gpu.free)} free"
        rows.append(
            (
                "gpu",
                f"{gpu.name}, {_size(gpu.memory)}{free}: times, syncs and bytes are the device's",
            )
        )
    if not doctor.gpus:
        rows.append(
            ("gpu", f"none ({doctor.no_gpu}): times are CPU times; syncs and bytes are predicted")
        )
    rows.append(("profiler", _profiler(doctor)))
    rows.append(
        (
            "threads",
            f"torch takes {doctor.threads}; verify gives it 1 unless --threads says otherwise",
        )
    )
    return rows


def _profiler(doctor: Doctor) -> str:
    if not doctor.kineto:
        return "torch is built without Kineto: no profile, so no milliseconds a finding"
    if doctor.no_gpu_profile:
        return f"Kineto, without the GPU ({doctor.no_gpu_profile}): profiles hold CPU time only"
    return (
        "Kineto and CUPTI: profiles hold CPU and GPU time"
        if doctor.gpus
        else "Kineto: profiles hold CPU time"
    )


def _host_rows(host: Host) -> list[tuple[str, str]]:
    return [
        ("cores", f"{host.cores}: variants take turns, so one is enough for --threads 1"),
        (
            "load",
            host.busy
            or ("not known here" if host.loadavg is None else f"{host.loadavg:.1f}: quiet enough"),
        ),
        ("pressure", _pressure(host)),
        ("freeze", _FREEZE[host.can_freeze]),
        ("isolation", _isolation(host)),
        (
            "disk",
            (
                f"{_free_words(host.disk_free)} in {host.folder}: each variant is a copy of the "
                "program there"
            ),
        ),
        (
            "memory",
            (
                f"{_free_words(host.memory_free)}: all variants stay loaded; fewer at a time where "
                "they do "
                "not fit"
            ),
        ),
    ]


_FREEZE = {
    True: "SIGSTOP: the variants that wait are frozen, so their workers do not run ahead",
    False: "no SIGSTOP: variants run one after the other in fresh processes; times are coarse",
}


def _pressure(host: Host) -> str:
    if host.psi_cpu_some_avg10 is None:
        return "not known here"
    return (
        f"{host.psi_cpu_some_avg10:.1f} % of the last 10 s something waited for a core; "
        "waiting shows as noise"
    )


def _isolation(host: Host) -> str:
    if host.landlock:
        return (
            f"Landlock {host.landlock}: programs write to their own copy only (chmod and file "
            "times are not stopped)"
        )
    return "no Landlock: programs run in a copy, but writes to absolute paths are not stopped"


def _free_words(size: int | None) -> str:
    return "not known" if size is None else f"{_size(size)} free"


def _size(size: int) -> str:
    """Bytes in GiB, or MiB below one."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"
