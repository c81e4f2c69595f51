"""What the comparison of two versions came to, in a sentence: speed, results, traffic, memory."""

from __future__ import annotations

from torchlint.report.kit import words
from torchlint.report.kit.words import visible
from torchlint.verify.model import Equality, Level, Report, Status, VariantResult, Verdict
from torchlint.verify.output import phrases


def change(report: Report) -> VariantResult | None:
    """Return the result of the newer version; None where there was no time for it."""
    return next((each for each in report.variants if each.kind == "version"), None)


def outcome(report: Report, clock: str, gain: str) -> str:
    """Return what is known of the newer version beside the older one.

    Args:
        report: of two versions.
        clock: whose times they are: ``On this CPU (2 cores, torch 2.13.0)``.
        gain: what waits and bytes change, empty where they do not.
    """
    assert report.versions is not None
    before, after = map(visible, report.versions)
    found = change(report)
    if report.machine.device == "virtual-cuda":
        clock = "No times taken"
    if found is not None and found.status is not Status.OK:
        return f"{clock}: {after} fails where {before} runs: {visible(found.error)}."
    if found is not None and found.speed.verdict is Verdict.NOT_EXERCISED:
        why = visible(found.speed.why)
        return f"{clock}: nothing in which {after} differs from {before} ran: {why}."
    if found is None or (found.equality is None and found.speed.ratio is None):
        why = visible(found.speed.why) if found is not None else "no time was left for it"
        return f"{clock}: {after} was not compared with {before}: {why}."
    parts = [_speed(report, found, before, after), f"with {results(found.equality)}"]
    if report.machine.device != "virtual-cuda":
        parts.append(_memory(report, found))
    said = ", ".join(part for part in parts if part)
    counted = phrases.counted(found)
    traffic = f"as many waits and bytes a {phrases.unit(report)}" if counted is not None else ""
    if gain or traffic:
        basis = phrases.basis_label(counted.basis) if counted is not None else ""
        where = "Predicted for a GPU" if basis == "predicted" else "Observed"
        return f"{clock}: {said}. {where}: {gain or traffic}."
    return f"{clock}: {said}."


def results(equality: Equality | None) -> str:
    """Return whether results agree, as a part of a sentence."""
    if equality is None:
        return "results that were not compared"
    if equality.excused:
        return "results no further apart than those of two runs of the older"
    note = visible(equality.notes[0]) if equality.notes else ""
    said = {
        Level.BITWISE: "the same results to the last bit",
        Level.CLOSE: "the same results but for rounding",
        Level.BAND: "the same results but for rounding, as training amplifies it",
        Level.DISTRIBUTION: "other random numbers of the same distribution",
        Level.UNKNOWN: "results that were not compared",
        Level.DIFFERENT: "different results",
    }[equality.level]
    told = equality.level in (Level.DIFFERENT, Level.UNKNOWN) and note
    return f"{said} ({words.clipped(note, 120)})" if told else said


def _speed(report: Report, found: VariantResult, before: str, after: str) -> str:
    null, speed = report.null_control, found.speed
    decided = speed.verdict in (Verdict.FASTER, Verdict.SLOWER)
    if null is not None and not null.ok and not decided:
        noise = phrases.ratio(null.ratio)
        return (
            f"no time of {after} is decided, as the machine is too noisy (the null control read "
            f"{noise})"
        )
    if speed.ratio is None:
        return f"{after} beside {before}"
    times = f"{words.times(speed.ratio.estimate)} as fast as {before}"
    interval = phrases.interval(speed.ratio.ci95)
    if speed.verdict is Verdict.INCONCLUSIVE:
        return f"whether {after} is faster or slower is open: {times} {interval}"
    kind = {Verdict.SLOWER: "slower: ", Verdict.NO_CHANGE: "neither faster nor slower: "}
    return f"{after} is {kind.get(speed.verdict, '')}{times} {interval}"


def _memory(report: Report, found: VariantResult) -> str:
    """Return the peak of memory where it changes by more than the least effect."""
    if found.memory is None:
        return ""
    before, after = found.memory.peak_bytes
    if abs(after - before) <= report.plan.min_effect * before:
        return ""
    return f"peak memory {words.sizes((before, after), '->')}"
