"""The values of a verification: what is compared, what was measured, and what it means. Plain and
picklable.

Nothing that was not measured is ever zero: it is None, and prints as a dash.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field

from torchlint.base.records import frozen
from torchlint.program.traffic import CountLine

Interval = tuple[float, float]
"""Lower and upper end; infinite where the sample is too small to bound it."""


class Verdict(enum.Enum):
    """What the timing says of a fix."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_CHANGE = "no change"
    """Equivalence was shown: the 95 % interval lies inside the minimum effect."""
    INCONCLUSIVE = "inconclusive"
    NOT_EXERCISED = "not exercised"
    """No line that the fix changes ran."""
    NOT_MEASURED = "not measured"
    """No times were taken (``--device virtual-cuda``), or the variant did not run."""


class Level(enum.Enum):
    """How far two runs agree, best first."""

    BITWISE = "bitwise"
    CLOSE = "close"
    """Within the defaults of ``torch.testing.assert_close`` for the dtype."""
    BAND = "within rounding band"
    """Within three times what a change of the initial weights by 2**-20 makes."""
    DISTRIBUTION = "same distribution, different random numbers"
    DIFFERENT = "different"
    UNKNOWN = "not compared"


class Expected(enum.Enum):
    """What a fix promises of its results."""

    BITWISE = "bitwise"
    CLOSE = "close"
    """Rounding may differ."""
    RNG = "rng"
    """Random numbers are drawn differently; shape, dtype and distribution stay."""
    ANY = "opt-in"
    """The fix changes results by design and its note says how; reported, never a failure."""


class Status(enum.Enum):
    """How the runs of a variant ended."""

    OK = "ok"
    BROKEN = "broken by fix"
    """It fails where the original does not; counts as different."""
    TIMEOUT = "timed out"
    OUT_OF_MEMORY = "out of memory"


@frozen
class Ratio:
    """Time before over time after: above 1 is a gain.

    Args:
        estimate: exp of the Hodges-Lehmann estimate of the paired log ratios.
        ci95: exact signed-rank interval at 95 %; infinite ends below 6 pairs.
        ci99: the same at 99 %; infinite ends below 8 pairs.
        p: two-sided exact signed-rank p-value.
        n: number of pairs.
    """

    estimate: float
    ci95: Interval
    ci99: Interval
    p: float
    n: int


@frozen
class Speed:
    """The timing of one variant; times are milliseconds a step (a call in function and rule
    mode)."""

    verdict: Verdict
    ratio: Ratio | None = None
    before_ms: float | None = None
    after_ms: float | None = None
    cpu_ratio: float | None = None
    """The same estimate from process CPU time; None on a GPU."""
    why: str = ""
    """What the verdict rests on where that is not plain: "only 5 rounds; raise --epochs"."""
    events_ratio: float | None = None
    """The same estimate from CUDA's events, of a function or rule on a GPU."""


@frozen
class Counts:
    """Host-device traffic per step, before and after; from the virtual-CUDA ledger ("predicted") or
    from a GPU.

    Args:
        basis: "virtual-cuda" or "cuda".
        steps: how many steps were counted.
        syncs, h2d_bytes, d2h_bytes, staged: per step, (before, after).
        before, after: by source line, over all counted steps.
        unavailable: why there are no counts; then the pairs are None.
        evaluation: the same of evaluation, whose steps are batches; None where none was run.
    """

    basis: str
    steps: int = 0
    syncs: tuple[float, float] | None = None
    h2d_bytes: tuple[float, float] | None = None
    d2h_bytes: tuple[float, float] | None = None
    staged: tuple[float, float] | None = None
    before: tuple[CountLine, ...] = ()
    after: tuple[CountLine, ...] = ()
    unavailable: str = ""
    evaluation: Counts | None = None


@frozen
class Memory:
    """Peak memory before and after, bytes. basis: "vmhwm" (resident, CPU) or "cuda" (allocated on
    the device)."""

    basis: str
    peak_bytes: tuple[int, int]
    alloc_retries: int | None = None


@frozen
class Equality:
    """Whether results agree, and whether that keeps the fix's promise.

    Args:
        level: how far they agree.
        expected: what the fix promises.
        ok: whether the promise is kept.
        max_abs: largest absolute difference of final weights or outputs.
        max_loss_diff: largest absolute difference of the loss series.
        self_noise: largest absolute difference of the original against itself; 0.0 is reproducible.
        rng_changed: whether the random streams end in another state.
        notes: in words, what differs ("out: torch.float32 and torch.float64").
        excused: whether they only agree as the original differs from itself by as much.
    """

    level: Level
    expected: Expected
    ok: bool
    max_abs: float | None = None
    max_loss_diff: float | None = None
    self_noise: float | None = None
    rng_changed: bool | None = None
    notes: tuple[str, ...] = ()
    excused: bool = False


@frozen
class VariantResult:
    """All that is known of one variant.

    Args:
        id: ``"fix:TL603@pkg/model.py:15"``, ``"all"``, ``"rule:TL603"``.
        kind: "single", "all", "group", "rule" or "version" (``--against``).
        fixes: ids of the fix units it holds (``"TL603@pkg/model.py:15"``).
        title: what the fix does, or the rule's name.
        where: ``"pkg/model.py:15"``; empty for bundles of many places.
        exercised: whether a changed line ran; None where not looked at.
        blocks_ns: (original, variant) nanoseconds per step of each paired block, in the order
            measured.
        error: the last words of a variant that failed.
        diff: the change as a unified diff.
        note: what an unsafe fix says it changes.
    """

    id: str
    kind: str
    fixes: tuple[str, ...]
    title: str
    where: str
    speed: Speed
    status: Status = Status.OK
    exercised: bool | None = None
    counts: Counts | None = None
    memory: Memory | None = None
    equality: Equality | None = None
    blocks_ns: tuple[tuple[float, float], ...] = ()
    error: str = ""
    diff: str = ""
    note: str = ""


@frozen
class Judged:
    """Whether one fix was proved (``--apply``).

    Args:
        fix: its id: ``"TL603@pkg/model.py:15"``.
        proven: whether its results are as promised, it is not slower, and something is better.
        gains: what is better, in words that say where each figure comes from.
        why: what the proof lacks; empty where it is proved.
    """

    fix: str
    proven: bool
    gains: tuple[str, ...] = ()
    why: str = ""


@frozen
class Proof:
    """What ``--apply`` may write: the proved fixes, if the program with all of them holds too.

    Args:
        fixes: the judgements.
        together: the judgement on the program with every proved fix; None where none was proved.
        outcome: what was written, or why nothing was, in words.
        written: the ids of the fixes that were written.
    """

    fixes: tuple[Judged, ...]
    together: Judged | None = None
    outcome: str = ""
    written: tuple[str, ...] = ()

    @property
    def proven(self) -> tuple[str, ...]:
        """The ids of the fixes that may be written."""
        if self.together is None or not self.together.proven:
            return ()
        return tuple(each.fix for each in self.fixes if each.proven)


@frozen
class NullControl:
    """A byte-identical copy measured like a fix. `ok` is False where its 99 % interval excludes
    1."""

    ratio: Ratio
    ok: bool
    blocks_ns: tuple[tuple[float, float], ...] = ()


@frozen
class Machine:
    """Where it ran. `device` is "cpu", "cuda" or "virtual-cuda"; `isolation` is in words ("copy +
    Landlock 7")."""

    device: str
    device_name: str | None
    torch: str
    python: str
    threads: int
    cores: int
    loadavg: float | None
    psi_cpu_some_avg10: float | None
    isolation: str


@frozen
class Plan:
    """What was to be run: see verify's options of the same names."""

    pairs: int
    launches: int
    block_steps: int | None
    warmup: int
    settle: int
    seed: int
    min_effect: float
    ablation: str = "each"
    check_steps: int = 20


@frozen
class Report:
    """A finished verification.

    Args:
        mode: "script", "function" or "rules".
        command: what was run, as typed.
        version: torchlint's.
        date: ISO 8601 date.
        variants: the results, "all" last.
        interactions: sentences on fixes whose joint effect is not the sum of their single effects.
        tree_unchanged: whether the user's files are as before; None where nothing was copied.
        blocked_writes: paths that the program tried to write outside its copy, as far as seen.
        warnings: what the reader must know.
        skipped: fixes that were not verified, each with the reason.
        seconds: what it took.
        proof: which fixes were proved; None where nobody asked (``--apply``).
        cut: why it ended before all was known: "spent" (the budget) or "interrupted"; else empty.
        versions: what the older and the newer version are called, where two versions were compared;
            None where fixes were.
    """

    mode: str
    command: tuple[str, ...]
    version: str
    date: str
    machine: Machine
    plan: Plan
    variants: tuple[VariantResult, ...]
    null_control: NullControl | None = None
    interactions: tuple[str, ...] = ()
    tree_unchanged: bool | None = None
    blocked_writes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    seconds: float = 0.0
    extra: Mapping[str, str] = field(default_factory=dict)
    proof: Proof | None = None
    cut: str = ""
    versions: tuple[str, str] | None = None
