"""What kind of work a device did, by its name: the patterns of Holistic Trace Analysis."""

from __future__ import annotations

import re

import numpy as np

from torchlint.trace.columns import Ints, Trace

COMMUNICATION, MEMORY, COMPUTE, OTHER = range(4)
KINDS = ("communication", "memory", "compute", "other")
"""The kinds by number."""
_COMMUNICATION = re.compile(r"nccl|hip(?!Memcpy|Memset)|hccl|.*ncclKernel")
_MEMORY = re.compile(r"(?:hip)?Memcpy|(?:hip)?Memset|dma")
_NO_WORK = re.compile(
    r".*Memcpy|.*Memset|.*dma|.*Sync|Stream Wait Event|cuda.*LaunchKernel|runFunction|job_exe|"
    r"packet|pe_exe|cpum_exe_subgraph|collective_subgraph_execution"
)
_COPY = re.compile(r"Memcpy \w+|Memset")


def kind_of(name: str) -> int:
    """Return the number of the kind, see `KINDS`."""
    if _COMMUNICATION.match(name):
        return COMMUNICATION
    if _MEMORY.match(name):
        return MEMORY
    return OTHER if _NO_WORK.match(name) else COMPUTE


def kinds(trace: Trace) -> Ints:
    """Return the kind of each of a trace's names."""
    return np.array([kind_of(name) for name in trace.names] or [OTHER], dtype=np.int64)


def copy_of(name: str) -> str:
    """Return the direction of a copy: ``Memcpy HtoD``, ``Memset``; ``Memcpy Unknown`` where the
    name does not say it."""
    found = _COPY.match(name)
    return found[0] if found else "Memcpy Unknown"
