"""Facts about this machine that decide how well times can be measured. Read from the system,
standard library only."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

from torchlint.program.machine.sandbox import landlock_abi

_CGROUP = Path("/sys/fs/cgroup")
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Host:
    """This machine, now. What the system does not tell is None.

    Args:
        cores: cores that this process may use, by affinity and by the cgroup's quota.
        loadavg: runnable processes, the mean of the last minute.
        psi_cpu_some_avg10: percent of the last ten seconds in which something waited for a core.
        landlock: version of the Landlock interface; 0 where there is none.
        can_freeze: whether processes can be stopped and continued.
        folder: where copies of the program go.
        disk_free: bytes free there.
        memory_free: bytes available to new processes.
    """

    cores: int
    loadavg: float | None
    psi_cpu_some_avg10: float | None
    landlock: int
    can_freeze: bool
    folder: str
    disk_free: int | None
    memory_free: int | None

    @property
    def busy(self) -> str:
        """A warning where more than half of the cores are taken; empty where not."""
        if self.loadavg is None or self.loadavg <= self.cores / 2:
            return ""
        return (
            f"load average {self.loadavg:.1f} on {self.cores} cores in the last minute: times will "
            "be noisy; stop other work (or wait, where a run of torchlint has just ended)"
        )


def look(folder: Path) -> Host:
    """Read the facts; `folder` is where copies of the program would go."""
    return Host(
        cores=cores(),
        loadavg=load_average(),
        psi_cpu_some_avg10=cpu_pressure(),
        landlock=landlock_abi(),
        can_freeze=hasattr(signal, "SIGSTOP"),
        folder=str(folder),
        disk_free=disk_free(folder),
        memory_free=memory_free(),
    )


def cores(cgroup: Path = _CGROUP) -> int:
    """Cores that this process may use; a container's quota counts as so many whole cores, rounded
    up."""
    allowed = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    match _words(cgroup / "cpu.max"):
        case [quota, period] if quota.isdigit() and period.isdigit() and int(period) > 0:
            return max(1, min(allowed, math.ceil(int(quota) / int(period))))
    return allowed


def load_average() -> float | None:
    """The mean number of runnable processes over the last minute."""
    with contextlib.suppress(AttributeError, OSError):  # not on Windows
        return os.getloadavg()[0]
    return None


def cpu_pressure(proc: Path = _PROC) -> float | None:
    """Percent of the last ten seconds in which some process waited for a core (Linux 4.20 and
    newer)."""
    found = re.search(r"^some avg10=([\d.]+)", _text(proc / "pressure" / "cpu"), re.MULTILINE)
    return float(found[1]) if found else None


def disk_free(folder: Path) -> int | None:
    """Bytes free where `folder` is or would be made."""
    for place in (folder, *folder.parents):
        with contextlib.suppress(OSError):
            return shutil.disk_usage(place).free
    return None


def memory_free(proc: Path = _PROC, cgroup: Path = _CGROUP) -> int | None:
    """Bytes that new processes can take: the machine's, or what a container's limit leaves if that
    is less."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _text(proc / "meminfo"), re.MULTILINE)
    available = [int(found[1]) * 1024] if found else []
    match _words(cgroup / "memory.max"), _words(cgroup / "memory.current"):
        case [limit], [current] if limit.isdigit() and current.isdigit():
            # Files read once count as used but are given up first.
            cached = re.search(r"^inactive_file (\d+)", _text(cgroup / "memory.stat"), re.MULTILINE)
            available.append(max(0, int(limit) - int(current) + (int(cached[1]) if cached else 0)))
    return min(available, default=None)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _words(path: Path) -> list[str]:
    return _text(path).split()
