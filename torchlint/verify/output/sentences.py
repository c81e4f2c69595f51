"""What a report says in sentences: the headline, the machine, the reasons, what the reader must
know."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence

from torchlint.program.traffic import CountLine
from torchlint.report.kit import words
from torchlint.report.kit.words import pluralise, visible
from torchlint.verify.model import Counts, Level, Report, Status, VariantResult, Verdict
from torchlint.verify.output import phrases, versions

_SINGLE = frozenset({"single", "group", "rule"})
_LONGEST_REASON = 160
_MOST_NAMED = 12
_ORDER = (
    Verdict.SLOWER,
    Verdict.NO_CHANGE,
    Verdict.INCONCLUSIVE,
    Verdict.NOT_EXERCISED,
    Verdict.NOT_MEASURED,
)


def command(report: Report) -> str:
    """Return what was run, as typed."""
    return visible(shlex.join(report.command))


def headline(report: Report) -> str:
    """Return what is known, with the hardware it is known for."""
    null = report.null_control
    if report.versions is not None:
        found = versions.change(report)
        counts = phrases.counted(found) if found is not None else None
        gain = "" if counts is None else _saved_all(counts, phrases.unit(report))
        return versions.outcome(report, _machine(report), gain)
    gain = _for_a_gpu(report)
    noise = ""
    if null is not None and not null.ok:
        read = phrases.ratio(null.ratio)
        if not any(
            each.speed.verdict in (Verdict.FASTER, Verdict.SLOWER) for each in report.variants
        ):
            what = "no time is decided" if gain else "nothing is decided"
            return (
                f"{gain}{_machine(report)}: {what}. The machine is too noisy: the null control "
                f"read {read}."
            )
        noise = f" The machine is noisy: the null control read {read}, and less than that is open."
    if gain:
        return f"{gain}{_machine(report)}: {_speeds(report)}.{noise}"
    if report.machine.device == "virtual-cuda":
        if report.variants and not any(phrases.counted(each) for each in report.variants):
            return f"Nothing was predicted, no times taken: {_compared(report)}."
        return f"{_machine(report)}: {_traffic(report)}."
    return f"{_machine(report)}: {_speeds(report)}.{noise}"


def device_line(report: Report) -> str:
    """Return what measured what: ``CPU, 2 cores, torch 2.13.0, 1 thread. No GPU used: times are CPU
    times; …``."""
    machine = report.machine
    name = visible(machine.device_name or "")
    torch = f"torch {visible(machine.torch)}"
    cpu = f"{pluralise(machine.cores, 'core')}, {torch}, {pluralise(machine.threads, 'thread')}"
    if machine.device == "cuda":
        return (
            f"GPU{f' {name}' if name else ''}, {torch}. Times are wall times with this GPU; "
            f"{_counted(report)}."
        )
    if machine.device == "virtual-cuda":
        return f"Virtual CUDA on a CPU, {cpu}. No times are taken; {_counted(report)}."
    return (
        f"CPU{f' {name}' if name else ''}, {cpu}. No GPU used: times are CPU times; "
        f"{_counted(report)}."
    )


def surroundings(report: Report) -> str:
    """Return what else may bear on the numbers: Python, load, isolation."""
    machine = report.machine
    load = "not known" if machine.loadavg is None else f"{machine.loadavg:.1f}"
    pressure = machine.psi_cpu_some_avg10
    parts = [f"Python {visible(machine.python)}", f"load average {load}"]
    parts += [] if pressure is None else [f"CPU pressure {pressure:.1f} %"]
    return ", ".join([*parts, f"isolation: {visible(machine.isolation)}"]) + "."


def plan_line(report: Report) -> str:
    """Return how many measurements the numbers rest on; the pairs are those that were measured."""
    plan, unit = report.plan, phrases.unit(report)
    found = sorted({each.speed.ratio.n for each in report.variants if each.speed.ratio is not None})
    pairs = (
        f"{found[0]} to {found[-1]} pairs"
        if len(found) > 1
        else pluralise(found[0] if found else 0, "pair")
    )
    block = "calibrated length" if plan.block_steps is None else pluralise(plan.block_steps, unit)
    launches = "1 launch" if plan.launches == 1 else f"{plan.launches} launches"
    return (
        f"{pairs} of blocks of {block} (planned: {plan.pairs}), {launches}, warm-up {plan.warmup}, "
        f"settle {plan.settle}, seed {plan.seed}, minimum effect {plan.min_effect * 100:.3g} %, "
        f"ablation {visible(plan.ablation)}, results compared over "
        f"{pluralise(plan.check_steps, unit)}."
    )


def unavailable(report: Report) -> tuple[str, ...]:
    """Return why there are no counts, each reason once: ``ledger unavailable: …``.

    Where only some variants lack counts, the sentence names them.
    """
    counted = [each for each in report.variants if each.counts is not None]
    found: dict[str, list[str]] = {}
    for each in counted:
        if each.counts is not None and each.counts.unavailable:
            found.setdefault(_no_counts(each.counts), []).append(name(each))
    return tuple(
        reason if len(names) == len(counted) else f"{reason} ({', '.join(names)})"
        for reason, names in found.items()
    )


def name(variant: VariantResult) -> str:
    """Return how a sentence calls a variant: ``TL603 at pkg/model.py:15``, ``all together``."""
    if variant.kind in ("all", "version"):
        return phrases.label(variant)
    return (
        f"{phrases.code(variant)} at {visible(variant.where)}"
        if variant.where
        else phrases.code(variant)
    )


def reasons(variant: VariantResult) -> tuple[str, ...]:
    """Return what stands behind a verdict: why, what failed, what differs, what the fix says it
    changes."""
    found = [variant.speed.why, variant.error]
    if variant.exercised is False and not variant.speed.why:
        found.append("no line that the fix changes ran")
    found += _staged(phrases.counted(variant))
    if variant.equality is not None:
        found += variant.equality.notes
        if variant.equality.self_noise:
            noise = phrases.difference(variant.equality.self_noise)
            found.append(
                f"the original differs from itself by {noise}: it is not reproducible to the bit"
            )
        if variant.equality.rng_changed:
            found.append("random streams end in another state")
    if variant.note:
        equality = variant.equality
        same = equality is not None and equality.level is Level.BITWISE
        # What was compared is this program on this device; what a note says may happen on others.
        elsewhere = " of other devices and other data" if same else ""
        found.append(f"the fix says{elsewhere}: {variant.note}")
    return tuple(dict.fromkeys(visible(each.strip()) for each in found if each.strip()))


IDLE_ROWS = 5
"""How many fixes that no run reached get rows in the table; of more, a sentence names them."""


def idle(report: Report) -> tuple[VariantResult, ...]:
    """Return the variants that no run reached, as no line that they change ran."""
    return tuple(each for each in report.variants if each.speed.verdict is Verdict.NOT_EXERCISED)


def why(report: Report) -> tuple[str, ...]:
    """Return the reasons behind all verdicts, each once, with the names of the variants that it is
    said of."""
    groups: dict[str, list[str]] = {}
    for each in report.variants:
        known = reasons(each)
        idle = each.speed.verdict is Verdict.NOT_EXERCISED
        for reason in known[:1] if idle else known:
            groups.setdefault(reason, []).append(name(each))
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in groups.items())


LEFT_OVER = 5
"""Lines that still wait of which is told."""


def parts(report: Report, unmeasured: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return what is said below the table, by title; what has none is without a word.

    Args:
        report: what was found.
        unmeasured: columns of the table that were left out.
    """
    proved, unproved = proof(report)
    outcome = "" if report.proof is None else visible(report.proof.outcome)
    before = phrases.before_ms(report)
    facts = [f"Not measured: {', '.join(unmeasured)}."] if unmeasured else []
    if before is not None:
        threads = ""
        if report.machine.device == "cpu":  # which are others under profile
            count = pluralise(report.machine.threads, "thread")
            threads = f" with {count} (--threads; profile leaves a program its own number)"
        time = f"{phrases.milliseconds(before)} a {phrases.unit(report)}"
        facts.insert(0, f"Original: {time} on the {phrases.clock(report)}{threads}.")
    lines, counts = unused_imports(report)
    left = [] if counts is None else [line_words(line, counts, report) for line in lines]
    if len(left) > LEFT_OVER:
        left[LEFT_OVER:] = [f"and {len(left) - LEFT_OVER} more lines"]
    where = "after all fixes" if report.versions is None else f"in {report.versions[1]}"
    basis = "" if counts is None else phrases.basis_label(counts.basis)
    found: dict[str, Sequence[str]] = {
        "Proved": proved,
        "Not proved": unproved,
        "Written": [outcome],
        "": [
            basis_of_proof(report),
            *facts,
            *(f"{each[0].upper()}{each[1:]}" for each in unavailable(report)),
        ],
        "Why": why(report),
        "Interactions": [visible(each) for each in report.interactions],
        f"Left {where} ({basis})": left,
        "Warnings": warnings(report),
        "Not verified": [visible(each) for each in report.skipped],
        "How this was measured": [process_times(report), method(report), *extra(report)],
    }
    told = {title: tuple(filter(None, each)) for title, each in found.items()}
    return {title: each for title, each in told.items() if each}


def process_times(report: Report) -> str:
    """Return the ratios of process CPU time and of CUDA's events; nothing where there are none, or
    too many for a sentence."""
    told = []
    for clock, field in (("process CPU time", "cpu_ratio"), ("CUDA's events", "events_ratio")):
        known = [
            (
                f"{phrases.code(each) if each.kind != 'all' else 'all together'} "
                f"{words.times(getattr(each.speed, field))}"
            )
            for each in report.variants
            if getattr(each.speed, field) is not None
        ]
        if 0 < len(known) <= _MOST_NAMED:
            told.append(f"By {clock}: {', '.join(known)}.")
    return " ".join(told)


def warnings(report: Report) -> tuple[str, ...]:
    """Return the report's warnings, and the places where the original would mix devices on a
    GPU."""
    mixed = dict.fromkeys(
        f"{phrases.basis_label(each.counts.basis)}: {visible(line.file)}:{line.line} mixes devices"
        f"{f' ({visible(line.what)})' if line.what else ''}; a real GPU stops there"
        for each in report.variants
        if each.counts is not None
        for line in each.counts.before
        if line.kind == "mismatch"
    )
    return (*(visible(each) for each in report.warnings), *mixed)


def safety(report: Report) -> tuple[str, ...]:
    """Return whether the user's files are as before, and what the program tried to write."""
    wrote = report.proof is not None and bool(report.proof.written)
    tree = {
        True: "While verify ran, your files did not change."
        if wrote
        else "Your files are unchanged.",
        False: "YOUR FILES CHANGED while verify ran.",
        None: "Nothing was copied, so your files were not compared.",
    }[report.tree_unchanged]
    return (tree, *(f"Blocked write: {visible(path)}" for path in report.blocked_writes))


def proof(report: Report) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what was proved, with what it gains, and what was not, with the reason; the program
    with all that was proved is the last of either."""
    if report.proof is None:
        return (), ()
    proved = [
        f"{visible(each.fix)}: {visible('; '.join(each.gains))}"
        for each in report.proof.fixes
        if each.proven
    ]
    groups: dict[str, list[str]] = {}
    for each in report.proof.fixes:
        if not each.proven:
            groups.setdefault(visible(each.why), []).append(visible(each.fix))
    unproved = [f"{', '.join(names)}: {why}" for why, names in groups.items()]
    together = report.proof.together
    if together is not None and len(proved) > 1 and together.proven:
        proved.append(f"together: {visible('; '.join(together.gains))}")
    elif together is not None and not together.proven:
        unproved.append(f"all that is proved, together: {visible(together.why)}")
    return tuple(proved), tuple(unproved)


def basis_of_proof(report: Report) -> str:
    """Say what a proof rests on where it was made; nothing where none was asked for."""
    if report.proof is None:
        return ""
    clock = "GPU" if report.machine.device == "cuda" else "CPU"
    traffic = (
        "waits and transfers are those observed"
        if clock == "GPU"
        else "waits and transfers are predicted for a GPU that is not here"
    )
    return (
        "Proved: results as promised, not slower, and speed, waits, transfers or memory better, in "
        f"the steps of this program that ran. Times are those of this {clock}; {traffic}."
    )


def unused_imports(report: Report) -> tuple[tuple[CountLine, ...], Counts | None]:
    """Return what the lines still do after all fixes, most first."""
    for variant in report.variants:
        counts = phrases.counted(variant)
        if variant.kind in ("all", "version") and counts is not None:
            lines = [line for line in counts.after if line.kind == "sync"]
            return tuple(sorted(lines, key=lambda line: -line.count)), counts
    return (), None


def line_words(line: CountLine, counts: Counts, report: Report) -> str:
    """Return what one source line does a step: ``pkg/model.py:15  3 syncs/step (item())``."""
    what = f" ({visible(line.what)})" if line.what else ""
    amount = words.number(line.count / counts.steps) if counts.steps else words.DASH
    return f"{visible(line.file)}:{line.line}  {amount} {line.kind}/{phrases.unit(report)}{what}"


def method(report: Report) -> str:
    """Return what the speeds rest on, or nothing where no time was taken."""
    if all(each.speed.ratio is None for each in report.variants):
        return ""
    return (
        f"Speed is time before over time after, from {plan_line(report)} "
        "The interval shown is at 95 %; faster and slower need 99 %, the minimum effect, and an "
        "interval outside of the null control's."
    )


def took(report: Report) -> str:
    """Return how long the verification took."""
    minutes, seconds = divmod(round(report.seconds), 60)
    return f"Took {minutes} min {seconds} s." if minutes else f"Took {report.seconds:.1f} s."


def extra(report: Report) -> tuple[str, ...]:
    """Return what else the report notes, as ``name: value``."""
    return tuple(f"{visible(name)}: {visible(value)}" for name, value in report.extra.items())


def _for_a_gpu(report: Report) -> str:
    """Say what all fixes together would save on a GPU, where times are those of a CPU and traffic
    was predicted."""
    if report.machine.device != "cpu" or report.mode != "script":
        return ""
    single = [each for each in report.variants if each.kind in _SINGLE]
    known = [counts for each in report.variants if (counts := phrases.counted(each)) is not None]
    if not known:
        return ""
    together = (
        next((phrases.counted(each) for each in report.variants if each.kind == "all"), None)
        or known[-1]
    )
    if len(known) > 1 and not any(each.kind == "all" for each in report.variants):
        return ""
    fewer = sum(counts is not None and lowers(counts) for counts in map(phrases.counted, single))
    saved = _saved_all(together, phrases.unit(report))
    said = saved or f"no fewer waits or bytes a {phrases.unit(report)}"
    of = f", by {fewer} of {pluralise(len(single), 'fix')}" if len(single) > 1 and saved else ""
    return f"Predicted for a GPU: {said}{of}. "


def _saved_all(counts: Counts, unit: str) -> str:
    """Return `_saved` of training and of evaluation."""
    parts = [_saved(counts, unit)]
    if counts.evaluation is not None:
        parts.append(_saved(counts.evaluation, "batch of evaluation"))
    return ", ".join(part for part in parts if part)


def _saved(counts: Counts, unit: str) -> str:
    """Return ``4 -> 0 waits and 33.3 -> 16.9 kB a step``; nothing where nothing gets less."""
    parts = []
    if counts.syncs is not None and counts.syncs[0] != counts.syncs[1]:
        parts.append(f"{words.counts(counts.syncs, '->')} waits")
    if counts.h2d_bytes is not None and counts.d2h_bytes is not None:
        pair = (
            counts.h2d_bytes[0] + counts.d2h_bytes[0],
            counts.h2d_bytes[1] + counts.d2h_bytes[1],
        )
        if words.size(pair[0]) != words.size(pair[1]):  # as it is shown
            parts.append(f"{words.sizes(pair, '->')} copied")
    return f"{' and '.join(parts)} a {unit}" if parts else ""


def _machine(report: Report) -> str:
    machine = report.machine
    if machine.device == "virtual-cuda":
        return "Predicted for a CUDA device, no times taken"
    if machine.device == "cuda":
        return f"On {visible(machine.device_name or 'this GPU')} (torch {visible(machine.torch)})"
    return f"On this CPU ({pluralise(machine.cores, 'core')}, torch {visible(machine.torch)})"


def _speeds(report: Report) -> str:
    single = [each for each in report.variants if each.kind in _SINGLE]
    together = [
        each for each in report.variants if each.kind == "all" and each.speed.ratio is not None
    ]
    if len(single) == 1 and not together:
        return f"1 fix: {_outcome(single[0])}"
    alone = [
        each
        for each in single
        if each.speed.verdict not in (Verdict.NOT_MEASURED, Verdict.NOT_EXERCISED)
    ]
    odd = any(each.status is not Status.OK or phrases.changes_results(each) for each in single)
    parts = [_tally(single)] if single and (alone or odd or not together) else []
    parts += [f"together {_outcome(each)}" for each in together]
    return "; ".join(parts) or "nothing was compared"


def _tally(single: list[VariantResult]) -> str:
    ran = Counter(each.speed.verdict for each in single if each.status is Status.OK)
    failed = Counter(each.status for each in single if each.status is not Status.OK)
    faster = ran[Verdict.FASTER]
    amount = (
        f"{faster} of {pluralise(len(single), 'fix')}"
        if faster
        else f"none of {pluralise(len(single), 'fix')}"
    )
    parts = [
        f"{amount} {'is' if faster <= 1 else 'are'} {'faster' if faster else 'shown to be faster'}"
    ]
    parts += [f"{ran[kind]} {kind.value}" for kind in _ORDER if ran[kind]]
    parts += [f"{count} {status.value}" for status, count in failed.items()]
    changed = [
        each for each in single if phrases.changes_results(each) and each.status is Status.OK
    ]
    unsound = sum(each.speed.verdict is Verdict.FASTER for each in changed)
    if unsound:
        parts[0] += f" ({unsound} of them with changed results)"
    elif changed:
        parts.append(f"{len(changed)} with changed results")
    return ", ".join(parts)


def _outcome(variant: VariantResult) -> str:
    speed = phrases.shown_speed(variant.speed)
    decided = variant.status is Status.OK and variant.speed.verdict is Verdict.FASTER
    verdict = "" if decided and variant.kind == "all" else f"{phrases.verdict(variant)}, "
    changed = ", with changed results" if phrases.changes_results(variant) else ""
    return f"{verdict}{speed}{changed}"


def _traffic(report: Report) -> str:
    single = [each for each in report.variants if each.kind in _SINGLE]
    fewer = sum(counts is not None and lowers(counts) for counts in map(phrases.counted, single))
    parts = [
        (
            f"{fewer} of {pluralise(len(single), 'fix')} {'lowers' if fewer == 1 else 'lower'} "
            "syncs "
            "or bytes"
        )
    ]
    parts += [
        f"together {words.counts(counts.syncs, '->')} syncs a {phrases.unit(report)}"
        for each in report.variants
        if each.kind == "all"
        and (counts := phrases.counted(each)) is not None
        and counts.syncs is not None
    ]
    changed = sum(phrases.changes_results(each) for each in single)
    parts += [f"{changed} with changed results"] if changed else []
    return "; ".join(parts)


def _compared(report: Report) -> str:
    """Say what is left to tell where neither times nor counts were taken: whether results are
    kept."""
    single = [each for each in report.variants if each.kind in _SINGLE]
    changed = sum(phrases.changes_results(each) for each in single)
    same = f"{changed} with changed results" if changed else "none is shown to change results"
    return f"{pluralise(len(single), 'fix')}, {same}"


def lowers(counts: Counts) -> bool:
    """Say whether waits or copied bytes get less."""
    pairs = (counts.syncs, counts.h2d_bytes, counts.d2h_bytes)
    if any(pair is not None and pair[1] < pair[0] for pair in pairs):
        return True
    return counts.evaluation is not None and lowers(counts.evaluation)


def _counted(report: Report) -> str:
    found = [each.counts for each in report.variants if each.counts is not None]
    measured = [counts for counts in found if not counts.unavailable]
    if not measured:
        reasons_found = unavailable(report)
        return (
            words.clipped(reasons_found[0].rstrip("."), _LONGEST_REASON)
            if reasons_found
            else "syncs and bytes were not counted"
        )
    if all(counts.basis == "virtual-cuda" for counts in measured):
        return "syncs and bytes are predicted"
    return "syncs and bytes are observed, a lower bound"


def _no_counts(counts: Counts) -> str:
    what = "ledger" if counts.basis == "virtual-cuda" else "GPU counts"
    return f"{what} unavailable: {visible(counts.unavailable)}"


def _staged(counts: Counts | None) -> list[str]:
    if counts is None or counts.staged is None or not any(counts.staged):
        return []
    pair = words.counts(counts.staged, "->")
    return [
        (
            f"{pair} copies from pageable memory with non_blocking "
            f"({phrases.basis_label(counts.basis)})"
        )
    ]
