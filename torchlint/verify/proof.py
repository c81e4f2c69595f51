"""Which fixes a run proved: ``--apply`` writes these, and no other.

A fix is proved where its results are as promised, it is shown not to be slower, and speed, waits,
transfers or memory are better. What got worse counts too, unless the program is faster all the
same: nothing here weighs waits against bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from torchlint.base.records import frozen
from torchlint.report.kit import words
from torchlint.verify.fixes import FixUnit, joined
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Judged,
    Level,
    Memory,
    Ratio,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.statistics import MIN_PAIRS

MEMORY_NOISE = 3.0
"""How many times the difference of two byte-identical copies a peak of memory must move by."""
_BYTES = {"h2d_bytes": "host to device", "d2h_bytes": "device to host"}
_ARROW = "->"


@frozen
class Grounds:
    """What a judgement rests on besides the variant's own result.

    Args:
        device: where times were taken: "cpu" or "cuda".
        min_effect: the least change worth a verdict, 0.03 for 3 %.
        steady: whether the null control reads no difference.
        memory_noise: by how many bytes the peaks of the original and its copy differ.
    """

    device: str
    min_effect: float
    steady: bool
    memory_noise: int


def held(units: Sequence[FixUnit]) -> tuple[FixUnit, ...]:
    """Return the units to prove.

    What may change results by design is held to the same results but for rounding: a run cannot
    show that another result is the one that is wanted. Fixes of one rule in one statement are one
    unit: half of them would be no repair that anybody writes.
    """
    groups: dict[object, list[FixUnit]] = {}
    for unit in units:
        alike = (unit.codes, unit.places) if len(unit.codes) == 1 else unit.id
        promise = Expected.CLOSE if unit.expected is Expected.ANY else unit.expected
        groups.setdefault(alike, []).append(replace(unit, expected=promise))
    return tuple(joined(group) for group in groups.values())


def judged(fix: str, result: VariantResult, grounds: Grounds) -> Judged:
    """Judge what was measured of one fix, or of several as one.

    Args:
        fix: its id.
        result: all that is known of it.
        grounds: of the run.
    """
    better, worse = _changes(result, grounds)
    reason = (
        _unrun(result)
        or _different(result.equality)
        or _slower(result.speed, grounds)
        or _no_gain(result, better, worse)
    )
    return Judged(fix, not reason, tuple(better), reason)


def _unrun(result: VariantResult) -> str:
    if result.exercised is False or result.speed.verdict is Verdict.NOT_EXERCISED:
        return result.speed.why or "no line that the fix changes ran"
    if result.status is not Status.OK:
        return f"{result.status.value}: {result.error}".rstrip(": ")
    return ""


def _different(equality: Equality | None) -> str:
    if equality is None or equality.level is Level.UNKNOWN:
        why = "; ".join(equality.notes) if equality is not None else ""
        return f"its results could not be compared{': ' * bool(why)}{why}"
    if equality.ok and equality.excused:
        noise = f" (by {equality.self_noise:.1e})" if equality.self_noise else ""
        return (
            f"the program does not reproduce itself{noise}, so equal results cannot be shown: give "
            "each of its random streams and processes a seed"
        )
    if equality.ok:
        return ""
    notes = "; ".join(equality.notes[:3])
    streams = " (random streams end in another state)" if equality.rng_changed else ""
    return (
        f"results differ: {equality.level.value}, promised is {equality.expected.value}{streams}"
        f"{': ' * bool(notes)}{notes}"
    )


def _slower(speed: Speed, grounds: Grounds) -> str:
    """Say why a variant is not shown to be as fast as the original, at least."""
    if speed.verdict is Verdict.SLOWER:
        return f"slower: {shown(speed.ratio)}"
    if speed.verdict is Verdict.NOT_MEASURED or speed.ratio is None:
        why = speed.why or "no time was taken"
        return why if why.startswith("not timed") else f"not timed: {why}"
    if speed.verdict in (Verdict.FASTER, Verdict.NO_CHANGE):
        return ""
    if not grounds.steady or speed.ratio.n < MIN_PAIRS:
        return f"may be slower: {speed.why}"
    least = 1 / (1 + grounds.min_effect)
    if speed.ratio.ci95[0] >= least:
        return ""
    return (
        f"may be slower: {shown(speed.ratio)} reaches below {words.times(least)}; more pairs or a "
        "quieter machine decide it (--pairs, --budget)"
    )


def _no_gain(result: VariantResult, better: Sequence[str], worse: Sequence[str]) -> str:
    if not better:
        counted = result.counts is not None and not result.counts.unavailable
        traffic = "" if counted else "; waits and transfers could not be counted"
        if _stages_more(result.counts):
            traffic = "; copies from pageable memory wait until they are staged (pin_memory)"
        return f"no gain seen: {shown(result.speed.ratio)}{traffic}"
    if worse and result.speed.verdict is not Verdict.FASTER:
        return (
            f"{', '.join(better)}, but {', '.join(worse)}: which of them weighs more was not shown"
        )
    return ""


def _stages_more(counts: Counts | None) -> bool:
    if counts is None:
        return False
    staged = counts.staged
    return (staged is not None and staged[1] > staged[0]) or _stages_more(counts.evaluation)


def _changes(result: VariantResult, grounds: Grounds) -> tuple[list[str], list[str]]:
    """Return what is better and what is worse, in words."""
    better: list[str] = []
    worse: list[str] = []
    if result.speed.verdict is Verdict.FASTER:
        clock = "GPU" if grounds.device == "cuda" else "CPU"
        better.append(f"{shown(result.speed.ratio)} on this {clock}")
    for text, less in (
        *_traffic(result.counts, "a step", grounds.min_effect),
        *_peak(result.memory, grounds),
    ):
        (better if less else worse).append(text)
    return better, worse


def _traffic(counts: Counts | None, per: str, least: float) -> Iterator[tuple[str, bool]]:
    """Yield what changed in words, and whether it is less; of bytes that is what changed by more
    than the `least` share: the few that go with a wait are counted as the wait."""
    if counts is None or counts.unavailable:
        return
    label = f"{per} ({'observed' if counts.basis == 'cuda' else 'predicted'})"
    waits = _waits(counts)
    if waits is not None and waits[0] != waits[1]:
        yield f"waits {words.counts(waits, _ARROW)} {label}", waits[1] < waits[0]
    for name, title in _BYTES.items():
        pair = getattr(counts, name)
        if pair is not None and abs(pair[1] - pair[0]) > least * max(pair):
            yield f"{title} {words.sizes(pair, _ARROW)} {label}", pair[1] < pair[0]
    yield from _traffic(counts.evaluation, "a batch of evaluation", least)


def _waits(counts: Counts) -> tuple[float, float] | None:
    """Return how often the host waits; a copy from pageable memory waits with ``non_blocking``
    too, until the data is staged."""
    if counts.syncs is None:
        return None
    staged = counts.staged or (0.0, 0.0)
    return counts.syncs[0] + staged[0], counts.syncs[1] + staged[1]


def _peak(memory: Memory | None, grounds: Grounds) -> Iterator[tuple[str, bool]]:
    if memory is None:
        return
    before, after = memory.peak_bytes
    least = max(grounds.min_effect * before, MEMORY_NOISE * grounds.memory_noise)
    if abs(after - before) > least:
        whose = "resident" if memory.basis == "vmhwm" else "device"
        yield f"peak memory {words.sizes((before, after), _ARROW)} ({whose})", after < before


def shown(ratio: Ratio | None) -> str:
    """Return ``1.11x [1.08, 1.13]``."""
    if ratio is None:
        return "no time"
    low, high = (words.digits(end) for end in ratio.ci95)
    return f"{words.times(ratio.estimate)} [{low}, {high}]"
