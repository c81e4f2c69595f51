"""What stands on the HTML page, section by section, as plain values for the template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlint.verify.model import CountLine, Counts, NullControl, Ratio, Report, VariantResult
from torchlint.verify.output import sentences, svg, words
from torchlint.verify.output.scale import Scale
from torchlint.verify.output.table import table

_ARROW = "→"
_OPEN = 4
"""So many fixes are shown unfolded."""
_LINES = 40
_METRICS = (("syncs", "Syncs"), ("h2d_bytes", "Bytes to the device (H2D)"), ("d2h_bytes", "Bytes to the host (D2H)"))
_STATISTICS = (
    "Paired blocks: the log ratio of each pair of blocks from one round, their Hodges-Lehmann estimate, and the exact "
    "Wilcoxon signed-rank interval. The null control, a byte-identical copy, is measured like a fix; where its 99 % "
    "interval excludes 1, nothing is decided."
)


class Drawing(str):
    """SVG in which all words are escaped already: jinja2 asks by ``__html__``."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def page(report: Report) -> dict[str, Any]:
    """Return the values that ``report.html.jinja`` shows."""
    found = table(report, _ARROW)
    clock = words.clock(report)
    tree, *_ = sentences.safety(report)
    fixes = [_fix(report, each) for each in report.variants]
    facts = [f"Not measured: {', '.join(found.unmeasured)}."] if found.unmeasured and found.rows else []
    return {
        "command": sentences.command(report),
        "headline": sentences.headline(report),
        "clock": f"{clock} times" if clock else "No times",
        "hardware": clock,
        "device": sentences.device_line(report),
        "alarms": [tree] if report.tree_unchanged is False else [],
        "warnings": sentences.warnings(report),
        "columns": found.columns,
        "rows": found.rows,
        "facts": [*facts, *filter(None, [sentences.process_times(report)])],
        "interactions": report.interactions,
        "min_effect": f"{report.plan.min_effect * 100:.3g} %",
        "unit": words.unit(report),
        **_forest(report),
        "blocks": list(_blocks(report)),
        "basis": _basis(report),
        "traffic": list(_traffic(report)),
        "uncounted": sentences.unavailable(report),
        "fixes": fixes,
        "open": len(fixes) <= _OPEN,
        "method": _method(report, tree),
        "skipped": report.skipped,
        "blocked": report.blocked_writes,
    }


def _forest(report: Report) -> dict[str, Any]:
    null = report.null_control
    timed = [each for each in report.variants if each.speed.ratio is not None]
    ratios = [each.speed.ratio for each in timed if each.speed.ratio is not None]
    if null is not None:
        ratios.append(null.ratio)
    if not ratios:
        return {"forest": [], "axis": ""}
    scale = svg.ratio_scale(ratios, report.plan.min_effect)
    rows = []
    for index, each in enumerate(timed):
        tone = words.verdict_tone(each)
        drawing = _strip(report, each.speed.ratio, scale, f"forest-{index}", words.label(each), tone)
        rows.append(
            {
                "name": words.label(each),
                "where": each.where,
                "drawing": drawing,
                "speed": words.shown_speed(each.speed),
                "verdict": words.verdict(each) + (", changed results" if words.changes_results(each) else ""),
                "tone": "bad" if words.changes_results(each) else tone,
            }
        )
    if null is not None:
        rows.append(_null_row(report, null, scale))
    return {"forest": rows, "axis": Drawing(svg.ratio_axis(scale, key="forest-axis"))}


def _null_row(report: Report, null: NullControl, scale: Scale) -> dict[str, Any]:
    tone = "" if null.ok else "bad"
    return {
        "name": "null control",
        "where": "",
        "drawing": _strip(report, null.ratio, scale, "forest-null", "null control", tone),
        "speed": words.ratio(null.ratio),
        "verdict": "" if null.ok else "too noisy",
        "tone": tone,
    }


def _strip(report: Report, ratio: Ratio | None, scale: Scale, key: str, title: str, tone: str) -> Drawing:
    return Drawing(svg.strip(ratio, scale, report.plan.min_effect, key=key, title=title, tone=tone))


def _blocks(report: Report) -> Iterator[dict[str, Any]]:
    measured = [(words.label(each), each.blocks_ns) for each in report.variants]
    if report.null_control is not None:
        measured.append(("null control", report.null_control.blocks_ns))
    for index, (name, blocks) in enumerate(measured):
        # A time of 0 cannot be measured, and has no place on a logarithmic axis.
        pairs = [pair for pair in blocks if min(pair) > 0]
        if pairs:
            title = f"Paired blocks of {name}"
            drawing = Drawing(svg.paired_blocks(pairs, key=f"blocks-{index}", title=title))
            yield {"name": name, "drawing": drawing, "caption": f"blocks 1 to {len(pairs)}"}


def _basis(report: Report) -> str:
    labels = {words.basis_label(counts.basis) for counts in map(words.counted, report.variants) if counts is not None}
    return labels.pop() if len(labels) == 1 else ""


def _traffic(report: Report) -> Iterator[dict[str, Any]]:
    for name, heading in _METRICS:
        pairs = [
            (each, counts, pair)
            for each in report.variants
            if (counts := words.counted(each)) is not None and (pair := getattr(counts, name)) is not None
        ]
        if not pairs:
            continue
        largest = max(max(pair) for _, _, pair in pairs)
        moved = [found for found in pairs if any(found[2])]
        drawn = []
        for index, (each, counts, pair) in enumerate(moved):
            first, second = (words.number(value) if name == "syncs" else words.size(value) for value in pair)
            title = f"{words.label(each)}: {heading} a {words.unit(report)}, {words.basis_label(counts.basis)}"
            drawing = svg.bars(pair, largest, key=f"{name}-{index}", title=title, shown=(first, second))
            drawn.append({"name": words.label(each), "drawing": Drawing(drawing)})
        nothing = f"0 before and after: {len(pairs) - len(moved)} of {len(pairs)} measured."
        yield {"name": heading, "bars": drawn, "nothing": nothing if len(moved) < len(pairs) else ""}


def _fix(report: Report, variant: VariantResult) -> dict[str, Any]:
    counts = words.counted(variant)
    lines = list(_lines(counts)) if counts is not None else []
    return {
        "name": words.label(variant),
        "where": variant.where,
        "verdict": words.verdict(variant),
        "tone": words.verdict_tone(variant),
        "results": words.results(variant, report.mode),
        "results_tone": words.results_tone(variant),
        "numbers": list(_numbers(report, variant)),
        "reasons": sentences.reasons(variant),
        "diff": [_diff_line(line) for line in variant.diff.splitlines()],
        "lines": lines[:_LINES],
        "more": f"{len(lines) - _LINES} more lines: see the JSON." if len(lines) > _LINES else "",
        "basis": words.basis_label(counts.basis) if counts is not None else "",
    }


def _numbers(report: Report, variant: VariantResult) -> Iterator[tuple[str, str]]:
    speed, memory, equality = variant.speed, variant.memory, variant.equality
    unit, clock = words.unit(report), words.clock(report)
    if speed.ratio is not None:
        yield f"speed on {clock}, 95 %", words.shown_speed(speed)
        yield "99 % interval", words.interval(speed.ratio.ci99)
        yield "pairs, p-value", f"{speed.ratio.n}, p = {speed.ratio.p:.2g}"
    if speed.before_ms is not None and speed.after_ms is not None:
        pair = f"{words.milliseconds(speed.before_ms)} {_ARROW} {words.milliseconds(speed.after_ms)}"
        yield f"{clock} wall time a {unit}", pair
    if speed.cpu_ratio is not None:
        yield "by process CPU time", words.times(speed.cpu_ratio)
    if variant.exercised is not None:
        yield "changed lines ran", "yes" if variant.exercised else "no"
    if memory is not None:
        yield f"peak memory ({words.memory_label(memory.basis)})", words.sizes(memory.peak_bytes, _ARROW)
    if equality is not None:
        yield "results promised", equality.expected.value
        found = [("largest difference", equality.max_abs), ("largest difference of the loss", equality.max_loss_diff)]
        found.append(("original against itself", equality.self_noise))
        yield from ((name, words.difference(value)) for name, value in found if value is not None)


def _lines(counts: Counts) -> Iterator[dict[str, str]]:
    for version, lines in (("original", counts.before), ("with the fix", counts.after)):
        yield from (_line(version, line, counts) for line in lines)


def _line(version: str, line: CountLine, counts: Counts) -> dict[str, str]:
    steps = counts.steps
    return {
        "version": version,
        "where": f"{line.file}:{line.line}",
        "kind": {"mismatch": "device mismatch", "h2d": "H2D", "d2h": "D2H"}.get(line.kind, line.kind),
        "times": words.number(line.count / steps) if steps else words.DASH,
        "bytes": words.size(line.bytes / steps) if steps else words.DASH,
        "what": line.what,
    }


def _diff_line(line: str) -> dict[str, str]:
    kinds = (("---", "file"), ("+++", "file"), ("@@", "hunk"), ("+", "added"), ("-", "removed"))
    return {"kind": next((kind for start, kind in kinds if line.startswith(start)), ""), "text": line}


def _method(report: Report, tree: str) -> list[tuple[str, str]]:
    found = [
        ("mode", report.mode),
        ("hardware", sentences.device_line(report)),
        ("surroundings", sentences.surroundings(report)),
        ("measurements", sentences.method(report)),
        ("statistics", _STATISTICS if words.clock(report) else ""),
        ("your files", tree),
        ("torchlint", f"{report.version}, {report.date}"),
        ("time", sentences.took(report)),
        *report.extra.items(),
    ]
    return [(name, value) for name, value in found if value]
