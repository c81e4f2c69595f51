"""What variants, their verdicts and their results are called: one spelling for text, Markdown and
HTML.

Counts of the virtual-CUDA ledger are called predicted, counts of a GPU
observed.
"""

from __future__ import annotations

import math

from torchlint.report.kit.words import (
    DASH,
    clipped,
    counts,
    digits,
    pluralise,
    sizes,
    times,
    visible,
)
from torchlint.verify.model import (
    Counts,
    Equality,
    Interval,
    Level,
    Ratio,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)

UNITS = {"script": "step", "function": "call", "rules": "run"}
"""What one time or count is of, by `Report.mode`."""
_LONGEST_NOTE = 56


def unit(report: Report) -> str:
    """Return what one time or count is of: a step, a call or a run."""
    return UNITS.get(report.mode, "step")


def bounded(end: float) -> float | None:
    """Return an end of an interval of ratios, or None where the sample is too small to bound it."""
    return end if math.isfinite(end) and end > 0 else None


def interval(ends: Interval) -> str:
    """Return ``[2.32, 2.68]``; ``0`` and ``inf`` are ends that the sample does not bound."""
    low, high = bounded(ends[0]), bounded(ends[1])
    return f"[{'0' if low is None else digits(low)}, {'inf' if high is None else digits(high)}]"


def ratio(value: Ratio | None) -> str:
    """Return an estimate with its 95 % interval, or says that there are too few pairs for one."""
    if value is None or not math.isfinite(value.estimate):
        return DASH
    if bounded(value.ci95[0]) is None and bounded(value.ci95[1]) is None:
        return f"{times(value.estimate)} (no interval: {pluralise(value.n, 'pair')})"
    return f"{times(value.estimate)} {interval(value.ci95)}"


def with_evaluation(found: Counts | None, name: str, arrow: str) -> str:
    """Return counts or bytes a step before and after, and a batch of evaluation's where these
    change."""
    if found is None:
        return DASH
    shown = counts if name == "syncs" else sizes
    text = shown(getattr(found, name), arrow)
    pair = getattr(found.evaluation, name) if found.evaluation is not None else None
    if pair is None or pair[0] == pair[1]:
        return text
    return f"{text}; eval {shown(pair, arrow)}"


def milliseconds(value: float | None) -> str:
    """Return a time: ``3.10 ms``."""
    return DASH if value is None or not math.isfinite(value) else f"{digits(value)} ms"


def difference(value: float) -> str:
    """Return a numeric difference of results: ``7e-07``."""
    return f"{value:.1e}".replace(".0e", "e") if value else "0"


def basis_label(basis: str) -> str:
    """Return ``predicted`` for the virtual-CUDA ledger, ``observed`` for a GPU."""
    return "predicted" if basis == "virtual-cuda" else "observed"


def memory_label(basis: str) -> str:
    """Return whose peak it is: the process's resident set, or what the device's allocator gave
    out."""
    return "resident" if basis == "vmhwm" else "device"


def code(variant: VariantResult) -> str:
    """Return the codes of the rules behind a variant: ``TL603``, ``TL101+TL201``."""
    if variant.kind == "rule":
        return visible(variant.id.removeprefix("rule:"))
    if variant.kind == "version":
        return visible(variant.title)
    return visible("+".join(dict.fromkeys(fix.partition("@")[0] for fix in variant.fixes)))


def label(variant: VariantResult) -> str:
    """Return how a variant is called in a table: its codes and what it does."""
    title = visible(variant.title)
    if variant.kind == "all":
        return title or "all together"
    if variant.kind == "version":
        return title
    if variant.kind == "group":
        return title or code(variant)
    return f"{code(variant)} {title}".strip()


def verdict(variant: VariantResult) -> str:
    """Return the verdict on the time, or how the variant failed."""
    if variant.kind == "version" and variant.status is Status.BROKEN:
        return "fails"
    return variant.speed.verdict.value if variant.status is Status.OK else variant.status.value


def verdict_tone(variant: VariantResult) -> str:
    """Return ``good``, ``bad``, ``doubt`` or nothing, for colours."""
    if variant.status is not Status.OK:
        return "bad"
    if changes_results(variant) and variant.speed.verdict is Verdict.FASTER:
        return ""  # no praise for a gain that breaks its promise
    tones = {Verdict.FASTER: "good", Verdict.SLOWER: "bad", Verdict.INCONCLUSIVE: "doubt"}
    return tones.get(variant.speed.verdict, "")


def results(variant: VariantResult, mode: str) -> str:
    """Return whether results agree: ``weights bitwise, loss 7e-07``."""
    if variant.status is Status.BROKEN:
        return "different: it fails"
    equality = variant.equality
    if equality is None:
        return DASH
    words = _level(equality, "weights " if mode == "script" else "")
    if variant.kind == "version":
        return words
    if not equality.ok and equality.level is not Level.UNKNOWN:
        return f"{words} (promised {equality.expected.value})"
    return f"{words}, as the fix says" if equality.level is Level.DIFFERENT else words


def results_tone(variant: VariantResult) -> str:
    """Return ``bad`` where a promise on results is broken, ``good`` where results are the same to
    the bit."""
    if changes_results(variant):
        return "bad"
    equality = variant.equality
    return "good" if equality is not None and equality.level is Level.BITWISE else ""


def changes_results(variant: VariantResult) -> bool:
    """Say whether a variant breaks what its fix promises of results."""
    if variant.status is Status.BROKEN:
        return True
    equality = variant.equality
    return equality is not None and not equality.ok and equality.level is not Level.UNKNOWN


def clock(report: Report) -> str:
    """Return whose time it is: ``CPU`` or ``GPU``; nothing where no time is taken."""
    return {"cpu": "CPU", "cuda": "GPU"}.get(report.machine.device, "")


def counted(variant: VariantResult) -> Counts | None:
    """Return a variant's counts where there are any; numbers beside a reason for their absence do
    not count."""
    return None if variant.counts is None or variant.counts.unavailable else variant.counts


def before_ms(report: Report) -> float | None:
    """Return the original's time, as measured beside the last variant that has one."""
    if report.mode == "rules":  # each rule has an original of its own
        return None
    known = [each.speed.before_ms for each in report.variants if each.speed.before_ms is not None]
    return known[-1] if known else None


def shown_speed(speed: Speed) -> str:
    """Return the wall-time ratio with its interval."""
    return ratio(speed.ratio)


def _level(equality: Equality, weights: str) -> str:
    level = equality.level
    loss = equality.max_loss_diff
    if level is Level.BITWISE:
        if weights and loss == 0:
            return "weights and loss bitwise"
        return f"{weights}bitwise, loss {difference(loss)}" if loss else f"{weights}bitwise"
    if level is Level.DIFFERENT and equality.notes:
        return f"different: {clipped(visible(equality.notes[0]), _LONGEST_NOTE)}"
    if level in (Level.DISTRIBUTION, Level.UNKNOWN):
        return str(level.value)
    found = [(weights, equality.max_abs), ("loss ", loss)]
    amounts = ", ".join(f"{name}{difference(value)}" for name, value in found if value is not None)
    return f"{level.value}: {amounts}" if amounts else str(level.value)
