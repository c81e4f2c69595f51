"""What the passes of script mode say together: a result for each variant, the null control, how
fixes interact."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from torchlint.api import Document
from torchlint.report.kit.words import pluralise
from torchlint.verify import statistics
from torchlint.verify.fixes import FixUnit, diff
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Level,
    Memory,
    NullControl,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.options import Options
from torchlint.verify.script.check_pass import Checked
from torchlint.verify.script.reference import Reference
from torchlint.verify.session.times import NO_TIME, Times
from torchlint.verify.variants import ALL, ORIGINAL, Variant, single

_NO_GPU = "; it takes times of this CPU where it uses a GPU only if torch.cuda.is_available()"


def _speed(
    variant: Variant,
    base: Reference,
    checked: Checked,
    timed: Times,
    options: Options,
    null: NullControl | None,
    adjusted: float | None,
) -> Speed:
    name = variant.name
    if name not in checked.status:
        return Speed(Verdict.NOT_MEASURED, why=NO_TIME)
    if checked.status[name] is not Status.OK:
        return Speed(Verdict.NOT_MEASURED, why=checked.status[name].value)
    if options.device == "virtual-cuda":
        return Speed(Verdict.NOT_MEASURED, why="--device virtual-cuda takes counts only")
    if name in timed.left_out:
        return Speed(Verdict.NOT_MEASURED, why=timed.left_out[name])
    if ORIGINAL in timed.failed() and timed.ratio(ALL) is None and timed.ratio(name) is None:
        failed = str(timed.failures[ORIGINAL])
        no_gpu = options.device != "cuda" and ("CUDA" in failed or "NVIDIA" in failed)
        return Speed(
            Verdict.NOT_MEASURED,
            why=f"not timed: the original {failed}{_NO_GPU if no_gpu else ''}",
        )
    if timed.ratio(name) is None and timed.cut:
        return Speed(Verdict.NOT_MEASURED, why=NO_TIME)
    if name not in timed.launches and ALL in timed.launches:
        return Speed(
            Verdict.NOT_MEASURED,
            why=f"not timed alone, as all together {_why_not_each(timed)}; see --ablation",
        )
    speed = timed.speed(
        name,
        options,
        null,
        cpu_time=timed.basis == "vmhwm",
        remedy=_remedy(timed),
        exercised=_is_exercised(variant, base),
        adjusted_p=adjusted,
    )
    lost = timed.why_lost(name)
    if lost is None or (lost.kind == "done" and (speed.ratio is not None or timed.length)):
        return speed
    return replace(speed, why="; ".join(filter(None, (speed.why, f"it {lost}"))))


def _remedy(timed: Times) -> str:
    """Say what gives more rounds."""
    if timed.length:
        return f"the program ends after {pluralise(timed.length, 'step')}: have it take more"
    return "give verify more time (--budget)"


def _why_not_each(timed: Times) -> str:
    """Say what the timing of all fixes together came to, where that is a reason not to time
    each."""
    ratio = timed.ratio(ALL)
    if ratio is None or not math.isfinite(ratio.ci95[1]):
        return "could not be timed"
    return f"change the time by {ratio.ci95[0]:.2f}x to {ratio.ci95[1]:.2f}x"


def results(
    variants: Sequence[Variant],
    base: Reference,
    checked: Checked,
    timed: Times,
    counts: Mapping[str, Counts],
    diffs: Mapping[str, str],
    options: Options,
) -> tuple[VariantResult, ...]:
    """Return one result a variant, "all" last; of many fixes p-values are adjusted for their
    number."""
    null = timed.null_control()
    fixes = [each.name for each in variants if each.unit is not None and each.kind != "all"]
    ps = statistics.adjusted_ps([timed.ratio(name) for name in fixes])
    adjusted = dict(zip(fixes, ps, strict=True))
    found = []
    for variant in variants:
        if variant.unit is None:
            continue
        name = variant.name
        found.append(
            variant.result(
                _speed(variant, base, checked, timed, options, null, adjusted.get(name)),
                status=checked.status.get(name, Status.OK),
                exercised=_is_exercised(variant, base),
                counts=counts.get(name),
                memory=_memory(timed, name),
                equality=checked.equality.get(name) or _broken(variant, checked),
                blocks_ns=timed.blocks_ns(name),
                error=checked.errors.get(name, ""),
                diff=diffs.get(name, ""),
            )
        )
    return tuple(found)


def _is_exercised(variant: Variant, base: Reference) -> bool | None:
    """Say whether any of a variant's fixes ran."""
    seen = [base.exercised.get(name) for name in variant.ids]
    return True if True in seen else None if None in seen else False


def _broken(variant: Variant, checked: Checked) -> Equality | None:
    """A variant that fails where the original does not counts as different."""
    if checked.status.get(variant.name, Status.OK) is Status.OK or variant.unit is None:
        return None
    return Equality(
        Level.DIFFERENT, variant.unit.expected, ok=False, notes=(checked.errors[variant.name],)
    )


def _memory(timed: Times, name: str) -> Memory | None:
    before, after = timed.peak(ORIGINAL), timed.peak(name)
    if before is None or after is None:
        return None
    return Memory(timed.basis, (before, after), timed.retries.get(name))


def unreached(
    units: Sequence[FixUnit], documents: Mapping[str, Document], extent: str
) -> tuple[VariantResult, ...]:
    """Return the results of fixes that were not compared, as no line that they change runs;
    `extent` is how far."""
    return tuple(
        single(unit).result(
            Speed(Verdict.NOT_EXERCISED, why=f"not reached in {extent} (--check-steps, --budget)"),
            exercised=False,
            diff=diff([unit], documents),
        )
        for unit in units
    )


def undecided(
    timed: Times,
    variants: Sequence[Variant],
    options: Options,
    *,
    level: float = statistics.ALPHA,
    last: bool = False,
) -> list[Variant]:
    """Return the variants for which more rounds could bring a verdict that there is none of yet.

    Args:
        timed: so far.
        variants: that were timed; the original and the null control are never among those returned.
        options: the least effect.
        level: the error that this look may spend.
        last: whether the next look is the last: only what lies half way to the least effect is
            worth that.
    """
    null = timed.null_control()
    half = math.log1p(options.min_effect) / 2
    found = []
    for variant in variants:
        ratio = timed.ratio(variant.name) if variant.unit is not None else None
        if ratio is None:
            continue
        verdict, _ = statistics.verdict(
            ratio,
            min_effect=options.min_effect,
            null=null,
            samples=timed.samples(variant.name),
            level=level,
        )
        settled = last and abs(math.log(ratio.estimate)) < half
        if verdict is Verdict.INCONCLUSIVE and (ratio.n < statistics.MIN_PAIRS or not settled):
            found.append(variant)
    return found


def moved(timed: Times, variant: Variant, options: Options) -> bool:
    """Say whether a group of fixes is faster or slower as a whole, so that its members are worth a
    look."""
    samples = timed.samples(variant.name)
    verdict, _ = statistics.verdict(
        timed.ratio(variant.name), min_effect=options.min_effect, samples=samples
    )
    return verdict in (Verdict.FASTER, Verdict.SLOWER)


def interactions(variants: Sequence[Variant], timed: Times) -> tuple[str, ...]:
    """Say where the joint effect of all fixes is not the sum of their single effects, if the
    intervals show it."""
    together = timed.ratio(ALL)
    held = {name for variant in variants if variant.kind == "all" for name in variant.ids}
    singles = [
        timed.ratio(variant.name)
        for variant in variants
        if variant.kind in ("single", "group") and held.issuperset(variant.ids)
    ]
    known = [ratio for ratio in singles if ratio is not None]
    if together is None or len(known) < 2 or len(known) != len(singles):
        return ()
    total = math.prod(ratio.estimate for ratio in known)
    low, high = (math.prod(ratio.ci95[end] for ratio in known) for end in (0, 1))
    sentence = f"single effects multiply to {total:.2f}x; all together {together.estimate:.2f}x"
    if together.ci95[1] < low:
        return (f"{sentence}: the fixes overlap, some gain is counted in several",)
    if together.ci95[0] > high:
        return (f"{sentence}: the fixes help each other",)
    return (f"{sentence}: no interaction is shown",)


def opt_in_notes(variants: Sequence[Variant]) -> tuple[str, ...]:
    """Return what the reader must know of fixes that change results by design."""
    return tuple(
        f"{variant.unit.id} changes results by design: {variant.unit.note}"
        for variant in variants
        if variant.kind == "single"
        and variant.unit is not None
        and variant.unit.expected is Expected.ANY
    )
