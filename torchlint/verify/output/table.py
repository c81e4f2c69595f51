"""The table of a report, as cells: what text, Markdown and HTML lay out."""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.base.records import frozen
from torchlint.report.kit import words
from torchlint.report.kit.words import visible
from torchlint.verify.model import NullControl, Report, VariantResult
from torchlint.verify.output import phrases, sentences

_FIXES = ("fix", "where", "speed", "verdict", "syncs", "h2d", "d2h", "peak", "results")
_RULES = ("code", "name", "speed", "verdict", "syncs", "results")
_ALWAYS = frozenset({"fix", "code", "name", "speed", "verdict", "results"})


@frozen
class Cell:
    """What stands in a cell, and its tone: "good", "bad", "doubt" or nothing."""

    text: str
    tone: str = ""


@frozen
class Column:
    """A column: its name in `Row.cells`, its heading, and where the numbers come from."""

    name: str
    head: str
    basis: str = ""


@frozen
class Row:
    """A row: a variant, or the null control (kind "null")."""

    id: str
    kind: str
    cells: Mapping[str, Cell]


@frozen
class Table:
    """The table, without the columns in which nothing was measured; those are named in
    `unmeasured`."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    unmeasured: tuple[str, ...]


def table(report: Report, arrow: str) -> Table:
    """Return the table of a report; `arrow` stands between before and after."""
    idle = sentences.idle(report)
    folded = idle if len(idle) > sentences.IDLE_ROWS else ()
    rows = [_row(report, variant, arrow) for variant in report.variants if variant not in folded]
    if report.null_control is not None:
        rows.append(_null_row(report.null_control))
    names = _RULES if report.mode == "rules" else _FIXES
    columns = [_column(report, name) for name in names]
    kept = [
        each
        for each in columns
        if each.name in _ALWAYS
        or any(
            row.cells[each.name].text not in ("", words.DASH)
            for row in rows
            if each.name in row.cells
        )
    ]
    missing = [each.head for each in columns if each not in kept and each.name != "where"]
    return Table(tuple(kept), tuple(rows), tuple(missing))


def _column(report: Report, name: str) -> Column:
    unit = phrases.unit(report)
    counted = {each.counts.basis for each in report.variants if each.counts is not None}
    memories = {each.memory.basis for each in report.variants if each.memory is not None}
    basis = "/".join(sorted({phrases.basis_label(each) for each in counted}))
    peak = "/".join(sorted({phrases.memory_label(each) for each in memories}))
    clock = phrases.clock(report)
    heads = {
        "fix": ("fix" if report.versions is None else "version", ""),
        "code": ("rule", ""),
        "name": ("name", ""),
        "where": ("where", ""),
        "speed": (f"speed on {clock}" if clock else "speed", "95 % interval" if clock else ""),
        "verdict": ("verdict", ""),
        "syncs": (f"syncs/{unit}", basis),
        "h2d": (f"H2D/{unit}", basis),
        "d2h": (f"D2H/{unit}", basis),
        "peak": ("peak memory", peak),
        "results": ("results", f"on this {clock}" if clock else ""),
    }
    return Column(name, *heads[name])


def _row(report: Report, variant: VariantResult, arrow: str) -> Row:
    counts, memory = phrases.counted(variant), variant.memory
    cells = {
        "fix": Cell(phrases.label(variant)),
        "code": Cell(phrases.code(variant) if variant.kind != "all" else phrases.label(variant)),
        "name": Cell(visible(variant.title)),
        "where": Cell(visible(variant.where)),
        "speed": Cell(phrases.shown_speed(variant.speed)),
        "verdict": Cell(phrases.verdict(variant), phrases.verdict_tone(variant)),
        "syncs": Cell(phrases.with_evaluation(counts, "syncs", arrow)),
        "h2d": Cell(phrases.with_evaluation(counts, "h2d_bytes", arrow)),
        "d2h": Cell(phrases.with_evaluation(counts, "d2h_bytes", arrow)),
        "peak": Cell(words.sizes(memory.peak_bytes if memory else None, arrow)),
        "results": Cell(phrases.results(variant, report.mode), phrases.results_tone(variant)),
    }
    return Row(variant.id, variant.kind, cells)


def _null_row(null: NullControl) -> Row:
    dash = Cell(words.DASH)
    names = dict.fromkeys((*_FIXES, *_RULES))
    verdict = dash if null.ok else Cell("too noisy", "bad")
    filled = {
        "fix": Cell("null control"),
        "code": Cell("null control"),
        "name": Cell(""),
        "where": Cell(""),
        "speed": Cell(phrases.ratio(null.ratio)),
        "verdict": verdict,
    }
    return Row("null", "null", {name: filled.get(name, dash) for name in names})
