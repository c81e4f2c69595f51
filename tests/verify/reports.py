"""Sample reports: the demo project of the design on a CPU, and one report for each thing that can
go another way."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

from torchlint.program.traffic import CountLine
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Level,
    Machine,
    Memory,
    NullControl,
    Plan,
    Ratio,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)

HOSTILE = (
    "a|b`c</td></details><script>alert(1)</script> @maintainer #12 \x1b[31m\u202e\"'&amp; "
    "[x](http://evil.example/)"
)
"""What a file name or a message of a hostile project may hold."""
UNDECODABLE = "caf\udce9.py"
"""A file name that is not UTF-8, as Python has it."""
DIFF = """\
--- a/pkg/model.py
+++ b/pkg/model.py
@@ -12,5 +12,3 @@
 def forward(self, x, index):
-    out = []
-    for i in index:
-        out.append(x[i])
-    return torch.stack(out)
+    # <b>one</b> gather
+    return x[index]
"""
CPU = Machine("cpu", None, "2.13.0", "3.11.7", 1, 2, 1.2, 3.1, "copy + Landlock 7")
PLAN = Plan(24, 2, 10, 10, 2, 0, 0.03)


def ratio(estimate: float, low: float, high: float, n: int = 24) -> Ratio:
    """Return a ratio whose 99 % interval is the 95 % one, a third wider on the log scale."""
    wider = (estimate * (low / estimate) ** 1.33, estimate * (high / estimate) ** 1.33)
    return Ratio(estimate, (low, high), wider, 0.001, n)


def blocks(
    estimate: float, before_ms: float, n: int = 24, seed: int = 0
) -> tuple[tuple[float, float], ...]:
    """Return paired nanoseconds with drift and an outlier, as a shared machine gives."""
    noise = random.Random(seed)
    found = []
    for index in range(n):
        drift = before_ms * 1e6 * (1 + 0.1 * math.sin(index / 4) + (0.6 if index == 17 else 0))
        found.append(
            (drift * noise.uniform(0.96, 1.06), drift / estimate * noise.uniform(0.95, 1.06))
        )
    return tuple(found)


def counts(
    syncs: tuple[float, float], d2h: tuple[float, float], basis: str = "virtual-cuda"
) -> Counts:
    """Return counts over 20 steps with two source lines before and one after."""
    return Counts(
        basis,
        20,
        syncs,
        (8448.0, 8448.0),
        d2h,
        (0.0, 0.0),
        before=(
            CountLine("sync", "pkg/model.py", 15, 640, 0, "item()"),
            CountLine("sync", "train.py", 25, 20, 80, "item()"),
            CountLine("h2d", "train.py", 20, 40, 168960, "copy to device"),
        ),
        after=(
            CountLine("sync", "train.py", 25, 20, 80, "item()"),
            CountLine("h2d", "train.py", 20, 40, 168960, "copy to device"),
        ),
    )


def fix(code: str, title: str, where: str, speed: Speed, **changes: Any) -> VariantResult:
    """Return the result of one fix."""
    unit = f"{code}@{where}"
    return VariantResult(f"fix:{unit}", "single", (unit,), title, where, speed, **changes)


GATHER = fix(
    "TL603",
    "gather instead of a loop",
    "pkg/model.py:15",
    Speed(Verdict.FASTER, ratio(2.51, 2.32, 2.68), 3.10, 1.23, 2.53),
    exercised=True,
    counts=counts((35.0, 3.0), (260.0, 4.0)),
    memory=Memory("vmhwm", (248_000_000, 153_000_000)),
    equality=Equality(Level.BITWISE, Expected.CLOSE, True, 0.0, 7e-7, 0.0, False),
    blocks_ns=blocks(2.51, 3.1),
    diff=DIFF,
)
CAT = fix(
    "TL604",
    "one cat after the loop",
    "pkg/model.py:9",
    Speed(
        Verdict.INCONCLUSIVE,
        ratio(1.11, 1.03, 1.18),
        3.10,
        2.79,
        1.08,
        "p = 0.015 misses the 99 % rule",
    ),
    exercised=True,
    counts=counts((35.0, 35.0), (260.0, 260.0)),
    equality=Equality(Level.BITWISE, Expected.BITWISE, True, 0.0, 0.0, 0.0, False),
    blocks_ns=blocks(1.11, 3.1, seed=1),
    diff=DIFF,
)
ITEM = fix(
    "TL801",
    "loss.item() once an epoch",
    "train.py:25",
    Speed(Verdict.NO_CHANGE, ratio(1.004, 0.985, 1.021), 3.10, 3.09, 1.0),
    exercised=True,
    counts=counts((35.0, 34.0), (260.0, 256.0)),
    equality=Equality(Level.CLOSE, Expected.CLOSE, True, 1.9e-6, 7e-7, 1e-7, False),
    blocks_ns=blocks(1.0, 3.1, seed=2),
    diff=DIFF,
    note="the running loss is a tensor until the epoch ends",
)
ALL = VariantResult(
    "all",
    "all",
    (*GATHER.fixes, *CAT.fixes, *ITEM.fixes),
    "",
    "",
    Speed(Verdict.FASTER, ratio(3.09, 2.78, 3.28), 3.10, 1.0, 3.06),
    exercised=True,
    counts=counts((35.0, 1.0), (260.0, 0.0)),
    equality=Equality(Level.BITWISE, Expected.CLOSE, True, 0.0, 7e-7, 0.0, False),
    blocks_ns=blocks(3.09, 3.1, seed=3),
    diff=DIFF,
)
NULL = NullControl(ratio(1.01, 0.98, 1.04), True, blocks(1.0, 3.1, seed=4))
SCRIPT = Report(
    "script",
    ("train.py", "--epochs", "1"),
    "0.3.0",
    "2026-11-21",
    CPU,
    PLAN,
    (GATHER, CAT, ITEM, ALL),
    NULL,
    interactions=("TL603 and TL604 together give 3.09x; their single effects multiply to 2.79x.",),
    tree_unchanged=True,
    blocked_writes=("/home/user/.cache/model.bin",),
    warnings=("load average 1.2 is over half of 2 cores",),
    skipped=("TL101@data.py:3: the fix is a suggestion",),
    seconds=47.25,
)


def changed(report: Report = SCRIPT, **changes: Any) -> Report:
    """Return `report` with other values in some fields."""
    return dataclasses.replace(report, **changes)


def only(variant: VariantResult = GATHER, /, **changes: Any) -> Report:
    """Return a report of one variant, with other values in some of its fields."""
    return changed(variants=(dataclasses.replace(variant, **changes),))


NOT_TIMED = Speed(Verdict.NOT_MEASURED)
NO_LEDGER = Counts("virtual-cuda", unavailable="torch.cuda.Stream is not simulated")
SLOWER = fix(
    "TL201",
    "pin_memory for the loader",
    "data.py:7",
    Speed(Verdict.SLOWER, ratio(0.81, 0.77, 0.85), 3.1, 3.8, 0.8),
    exercised=True,
    blocks_ns=blocks(0.81, 3.1, seed=5),
)
DIFFERENT = fix(
    "TL401",
    "float32 mask",
    "pkg/mask.py:3",
    Speed(Verdict.FASTER, ratio(1.5, 1.4, 1.6), 3.1, 2.1, 1.5),
    equality=Equality(
        Level.DIFFERENT,
        Expected.BITWISE,
        False,
        0.25,
        notes=("out: torch.float32 and torch.float64", "loss differs"),
    ),
)
BROKEN = fix(
    "TL301",
    "static graph",
    "pkg/ddp.py:30",
    NOT_TIMED,
    status=Status.BROKEN,
    error="AttributeError: no static_graph",
)
UNRUN = fix(
    "TL701", "zero_grad before backward", "eval.py:4", Speed(Verdict.NOT_EXERCISED), exercised=False
)
MIXED = changed(variants=(GATHER, CAT, ITEM, SLOWER, DIFFERENT, BROKEN, UNRUN, ALL))
NOISE = NullControl(ratio(1.08, 1.04, 1.12), False, blocks(1.08, 3.1))
FAR = changed(null_control=NOISE)
NOISY = changed(
    null_control=NOISE,
    variants=tuple(
        dataclasses.replace(
            each,
            speed=dataclasses.replace(
                each.speed,
                verdict=Verdict.INCONCLUSIVE,
                why="machine too noisy: null control read 1.08x",
            ),
        )
        for each in SCRIPT.variants
    ),
)
FEW_PAIRS = only(
    speed=Speed(
        Verdict.INCONCLUSIVE,
        Ratio(1.4, (0.0, math.inf), (-math.inf, math.inf), 0.06, 5),
        3.1,
        2.2,
        None,
        "only 5 rounds; raise --epochs",
    )
)
VIRTUAL = changed(
    machine=dataclasses.replace(CPU, device="virtual-cuda"),
    variants=tuple(
        dataclasses.replace(each, speed=NOT_TIMED, blocks_ns=()) for each in SCRIPT.variants
    ),
    null_control=None,
)
UNCOUNTED = changed(
    variants=tuple(dataclasses.replace(each, counts=NO_LEDGER) for each in SCRIPT.variants)
)
CUDA = changed(
    machine=dataclasses.replace(CPU, device="cuda", device_name="NVIDIA H200"),
    variants=tuple(
        dataclasses.replace(
            each,
            counts=dataclasses.replace(counts((35.0, 3.0), (260.0, 4.0)), basis="cuda"),
            memory=Memory("cuda", (2_480_000_000, 1_530_000_000), 0),
        )
        for each in SCRIPT.variants
    ),
)
RULES = changed(
    mode="rules",
    command=("rules",),
    variants=tuple(
        VariantResult(
            f"rule:{code}",
            "rule",
            (),
            title,
            "",
            speed,
            counts=Counts("virtual-cuda", 1, syncs, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
            equality=equality,
        )
        for code, title, speed, syncs, equality in (
            (
                "TL603",
                "cat-in-loop",
                Speed(Verdict.FASTER, ratio(19.9, 17.8, 22.4), 4.0, 0.2, 19.1),
                (0.0, 0.0),
                Equality(Level.BITWISE, Expected.BITWISE, True, 0.0),
            ),
            (
                "TL801",
                "item-in-loop",
                Speed(Verdict.FASTER, ratio(388.0, 356.0, 422.0), 4.0, 0.01, 387.0),
                (64.0, 1.0),
                Equality(Level.CLOSE, Expected.CLOSE, True, 1.9e-6),
            ),
        )
    ),
)
FUNCTION = changed(
    only(equality=Equality(Level.BITWISE, Expected.CLOSE, True, 0.0)),
    mode="function",
    command=("pkg/model.py::forward", "--inputs", "randn(64,512)"),
)
EMPTY = changed(variants=(), null_control=None, tree_unchanged=None)
HOSTILE_NAMES = changed(
    command=("train.py", HOSTILE),
    variants=(
        dataclasses.replace(
            GATHER,
            title=HOSTILE,
            where=f"{HOSTILE}:15",
            error=HOSTILE,
            note=HOSTILE,
            diff=f"--- a\n+++ b\n@@ -1 +1 @@\n-{HOSTILE}\n+````\n",
            speed=dataclasses.replace(GATHER.speed, why=HOSTILE),
            counts=dataclasses.replace(
                counts((35.0, 3.0), (260.0, 4.0)),
                after=(CountLine("sync", HOSTILE, 1, 20, 0, HOSTILE),),
            ),
            equality=Equality(Level.DIFFERENT, Expected.BITWISE, False, notes=(HOSTILE,)),
        ),
        dataclasses.replace(CAT, where=f"{UNDECODABLE}:3"),
        ALL,
    ),
    interactions=(HOSTILE,),
    warnings=(HOSTILE,),
    skipped=(HOSTILE,),
    blocked_writes=(HOSTILE,),
    extra={"note": HOSTILE},
)
SAMPLES = {
    "script": SCRIPT,
    "mixed": MIXED,
    "noisy": NOISY,
    "few-pairs": FEW_PAIRS,
    "virtual": VIRTUAL,
    "uncounted": UNCOUNTED,
    "cuda": CUDA,
    "rules": RULES,
    "function": FUNCTION,
    "empty": EMPTY,
    "hostile": HOSTILE_NAMES,
}
