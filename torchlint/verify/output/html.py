"""A verification as one HTML file: no scripts, nothing from the network, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlint.program.traffic import CountLine
from torchlint.report.kit import html, svg, words
from torchlint.verify.model import Counts, Ratio, Report, VariantResult
from torchlint.verify.output import phrases, sentences
from torchlint.verify.output.table import table

_ARROW = "→"
_OPEN = 4
"""So many fixes are shown unfolded."""
_LINES = 40
_STATISTICS = (
    "Paired blocks: the log ratio of each pair of blocks from one round, their Hodges-Lehmann "
    "estimate, and the exact "
    "Wilcoxon signed-rank interval. The null control, a byte-identical copy, is measured like a "
    "fix; where its 99 % "
    "interval excludes 1, nothing is decided."
)


def render(report: Report, *, color: bool = False) -> str:
    """Return the report as one HTML document; it has its own colours.

    Raises:
        UsageError: jinja2 is not installed.
    """
    return html.rendered(
        __package__,
        "report.html.jinja",
        shared="measured.css",
        style="report.css",
        page=_page(report),
    )


def _page(report: Report) -> dict[str, Any]:
    """Return the values that ``report.html.jinja`` shows."""
    found = table(report, _ARROW)
    clock = phrases.clock(report)
    tree, *_ = sentences.safety(report)
    fixes = [_fix(report, each) for each in report.variants]
    changed = "with the fix" if report.versions is None else report.versions[1]
    parts = sentences.parts(report, found.unmeasured if found.rows else ())
    aside = ("Why", "Warnings", "How this was measured")
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
        "parts": {title: lines for title, lines in parts.items() if title not in aside},
        "min_effect": f"{report.plan.min_effect * 100:.3g} %",
        "unit": phrases.unit(report),
        **_forest(report),
        "fixes": fixes,
        "open": len(fixes) <= _OPEN,
        "changed": changed,
        "method": _method(report, tree),
        "blocked": report.blocked_writes,
    }


def _forest(report: Report) -> dict[str, Any]:
    """Return the forest plot: a row for each variant that was timed, the null control last, and the
    axis."""
    rows: list[tuple[str, str, Ratio, str, str, str]] = []
    for each in report.variants:
        if each.speed.ratio is not None:
            changed, marks = phrases.changes_results(each), phrases.verdict_tone(each)
            verdict = phrases.verdict(each) + (", changed results" if changed else "")
            tone = "bad" if changed else marks
            rows.append((phrases.label(each), each.where, each.speed.ratio, verdict, tone, marks))
    null = report.null_control
    if null is not None:
        verdict, tone = ("", "") if null.ok else ("too noisy", "bad")
        rows.append(("null control", "", null.ratio, verdict, tone, tone))
    if not rows:
        return {"forest": [], "axis": ""}
    band = (1 / (1 + report.plan.min_effect), 1 + report.plan.min_effect)
    ends = (end for _, _, ratio, *_ in rows for end in (*ratio.ci95, ratio.estimate))
    scale = svg.axis([*ends, *band])
    forest = [
        {
            "name": name,
            "where": where,
            "drawing": svg.strip(
                ratio.estimate,
                (phrases.bounded(ratio.ci95[0]), phrases.bounded(ratio.ci95[1])),
                scale,
                band,
                key=f"forest-{at}",
                title=name,
                said=phrases.ratio(ratio),
                tone=marks,
            ),
            "speed": phrases.ratio(ratio),
            "verdict": verdict,
            "tone": tone,
        }
        for at, (name, where, ratio, verdict, tone, marks) in enumerate(rows)
    ]
    title = "Axis: time before over time after, logarithmic"
    return {"forest": forest, "axis": svg.strip_axis(scale, key="forest-axis", title=title)}


def _fix(report: Report, variant: VariantResult) -> dict[str, Any]:
    counts = phrases.counted(variant)
    changed = "with the fix" if report.versions is None else report.versions[1]
    lines = list(_lines(counts, changed)) if counts is not None else []
    return {
        "name": phrases.label(variant),
        "where": variant.where,
        "verdict": phrases.verdict(variant),
        "tone": phrases.verdict_tone(variant),
        "results": phrases.results(variant, report.mode),
        "results_tone": phrases.results_tone(variant),
        "numbers": list(_numbers(report, variant)),
        "reasons": sentences.reasons(variant),
        "diff": [_diff_line(line) for line in variant.diff.splitlines()],
        "lines": lines[:_LINES],
        "more": f"{len(lines) - _LINES} more lines: see the JSON." if len(lines) > _LINES else "",
        "basis": phrases.basis_label(counts.basis) if counts is not None else "",
    }


def _numbers(report: Report, variant: VariantResult) -> Iterator[tuple[str, str]]:
    speed, memory, equality = variant.speed, variant.memory, variant.equality
    unit, clock = phrases.unit(report), phrases.clock(report)
    if speed.ratio is not None:
        yield f"speed on {clock}, 95 %", phrases.shown_speed(speed)
        yield "99 % interval", phrases.interval(speed.ratio.ci99)
        yield "pairs, p-value", f"{speed.ratio.n}, p = {speed.ratio.p:.2g}"
    if speed.before_ms is not None and speed.after_ms is not None:
        pair = (
            f"{phrases.milliseconds(speed.before_ms)} {_ARROW} "
            f"{phrases.milliseconds(speed.after_ms)}"
        )
        yield f"{clock} wall time a {unit}", pair
    if speed.cpu_ratio is not None:
        yield "by process CPU time", words.times(speed.cpu_ratio)
    if speed.events_ratio is not None:
        yield "by CUDA's events", words.times(speed.events_ratio)
    if variant.exercised is not None:
        yield "changed lines ran", "yes" if variant.exercised else "no"
    if memory is not None:
        yield (
            f"peak memory ({phrases.memory_label(memory.basis)})",
            words.sizes(memory.peak_bytes, _ARROW),
        )
    if equality is not None:
        yield "results promised", equality.expected.value
        found = [
            ("largest difference", equality.max_abs),
            ("largest difference of the loss", equality.max_loss_diff),
        ]
        found.append(("original against itself", equality.self_noise))
        yield from ((name, phrases.difference(value)) for name, value in found if value is not None)


def _lines(counts: Counts, changed: str) -> Iterator[dict[str, str]]:
    for version, lines in (("original", counts.before), (changed, counts.after)):
        yield from (_line(version, line, counts) for line in lines)


def _line(version: str, line: CountLine, counts: Counts) -> dict[str, str]:
    steps = counts.steps
    return {
        "version": version,
        "where": f"{line.file}:{line.line}",
        "kind": {"mismatch": "device mismatch", "h2d": "H2D", "d2h": "D2H"}.get(
            line.kind, line.kind
        ),
        "times": words.number(line.count / steps) if steps else words.DASH,
        "bytes": words.size(line.bytes / steps) if steps else words.DASH,
        "what": line.what,
    }


def _diff_line(line: str) -> dict[str, str]:
    kinds = (("---", "file"), ("+++", "file"), ("@@", "hunk"), ("+", "added"), ("-", "removed"))
    return {
        "kind": next((kind for start, kind in kinds if line.startswith(start)), ""),
        "text": line,
    }


def _method(report: Report, tree: str) -> list[tuple[str, str]]:
    found = [
        ("mode", report.mode),
        ("hardware", sentences.device_line(report)),
        ("surroundings", sentences.surroundings(report)),
        ("measurements", sentences.method(report)),
        ("statistics", _STATISTICS if phrases.clock(report) else ""),
        ("your files", tree),
        ("torchlint", f"{report.version}, {report.date}"),
        ("time", sentences.took(report)),
        *report.extra.items(),
    ]
    return [(name, value) for name, value in found if value]
