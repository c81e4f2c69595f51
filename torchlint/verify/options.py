"""How a verification is run; the command line's options, checked."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from torchlint.base.records import frozen

PROGRAM_LAUNCHES, PAIRED_LAUNCHES = 4, 2
"""How often the versions of a program, and those of a function or rule, are started anew."""


@frozen
class Options:
    """Settings that all modes share.

    Args:
        python: the interpreter that has torch.
        device: "auto", "cuda", "cpu" or "virtual-cuda" (counts only, no times).
        pairs: paired blocks of each variant, over all launches.
        launches: how often every variant is started anew; address layout differs per process.
        block: steps of a block; None to choose.
        warmup: steps before anything is measured.
        settle: steps before each block that are not measured.
        budget: seconds for the whole run.
        timeout: seconds for one process.
        min_effect: the least change worth a verdict, 0.03 for 3 %.
        seed: of all random streams, and of the order of rounds.
        check_steps: steps whose results are compared and whose traffic is counted.
        threads: of each process on a CPU.
        isolation: "auto" (copy, and Landlock where the kernel has it) or "copy".
        allow_write: folders outside the copy that the program may write to.
        env: variables passed to the program as they are, credentials too.
        keep: whether the copies stay.
        ablation: "auto" (all together, each alone where these are faster or slower), "each" or
            "none".
    """

    python: str = sys.executable
    device: str = "auto"
    pairs: int = 24
    launches: int = PROGRAM_LAUNCHES
    block: int | None = None
    warmup: int = 10
    settle: int = 2
    budget: float = 300.0
    timeout: float = 600.0
    min_effect: float = 0.03
    seed: int = 0
    check_steps: int = 20
    threads: int = 1
    isolation: str = "auto"
    allow_write: tuple[Path, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    keep: bool = False
    ablation: str = "auto"
