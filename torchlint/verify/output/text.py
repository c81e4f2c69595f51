"""A verification for the terminal: who measured, the table, and the reasons behind it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torchlint.report.kit import words
from torchlint.report.kit.terminal import BOLD, GREEN, RED, YELLOW, columns, paint, shown_line
from torchlint.verify.model import Report
from torchlint.verify.output import sentences
from torchlint.verify.output.table import Cell, Table, table

_ARROW = "->"
_GAP = "  "
_TONES = {"good": GREEN, "bad": RED, "doubt": YELLOW}
_NARROWEST = {"where": 16, "fix": 20, "name": 16}
"""Terminal columns below which a column is not shortened."""


def render(report: Report, *, color: bool = False, width: int | None = None) -> str:
    """Return the report as text with a final newline.

    Args:
        report: what was found.
        color: use ANSI colours.
        width: of the terminal in columns. Where the table is wider, places and titles are
            shortened; where that does not do, each fix gets lines of its own. None is no limit, for
            files and pipes.
    """
    found = table(report, _ARROW)
    lines = [
        paint(f"torchlint verify: {sentences.command(report)} ({report.mode} mode)", BOLD, color),
        sentences.device_line(report),
        sentences.surroundings(report),
        "",
        paint(sentences.headline(report), BOLD, color),
        "",
        *(_laid_out(found, width, color) if found.rows else ["No fix was verified."]),
        *_below(report, found, color),
    ]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _laid_out(found: Table, width: int | None, color: bool) -> Iterator[str]:
    texts = {
        column.name: [
            column.head,
            column.basis,
            *(shown_line(row.cells[column.name].text).text for row in found.rows),
        ]
        for column in found.columns
    }
    if width is not None:
        for name in ("where", "name", "fix"):
            if name in texts:
                _shorten(texts, name, width)
        if _table_width(texts) > width:
            yield from _stacked(found, color)
            return
    widths = {name: max(map(columns, column)) for name, column in texts.items()}
    for index in range(len(found.rows) + 2):
        if index == 1 and not any(column.basis for column in found.columns):
            continue
        row = found.rows[index - 2] if index >= 2 else None
        if row is not None and row.kind == "all" and len(found.rows) > 2:
            yield ""
        yield _GAP.join(
            _padded(texts[name][index], widths[name], _style(row.cells[name]) if row else "", color)
            for name in texts
        )


def _stacked(found: Table, color: bool) -> Iterator[str]:
    first = found.columns[0].name
    names = {
        column.name: f"{column.head} ({column.basis})" if column.basis else column.head
        for column in found.columns
    }
    indent = max(map(columns, names.values())) + len(_GAP)
    for index, row in enumerate(found.rows):
        if index:
            yield ""
        yield paint(shown_line(row.cells[first].text).text, BOLD, color)
        for column in found.columns[1:]:
            cell = row.cells[column.name]
            if cell.text and not (row.kind == "null" and cell.text == words.DASH):
                value = paint(shown_line(cell.text).text, _style(cell), color)
                yield f"{_GAP}{names[column.name]:<{indent}}{value}"


def _below(report: Report, found: Table, color: bool) -> Iterator[str]:
    for title, lines in sentences.parts(report, found.unmeasured if found.rows else ()).items():
        yield from _block(title, lines)
    tree, *blocked = sentences.safety(report)
    yield from ("", paint(tree, RED, color and report.tree_unchanged is False))
    yield from (shown_line(line).text for line in (*blocked, sentences.took(report)))


def _block(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield ""
    if title:
        yield f"{title}:"
    yield from (f"{_GAP if title else ''}{shown_line(line).text}" for line in lines)


def _shorten(texts: dict[str, list[str]], name: str, width: int) -> None:
    """Take from a column what the table is too wide by; places lose their left end, titles their
    right."""
    excess = _table_width(texts) - width
    own = max(map(columns, texts[name]))
    if excess <= 0:
        return
    target = max(_NARROWEST[name], own - excess)
    texts[name] = [_cut(text, target, from_left=name == "where") for text in texts[name]]


def _cut(text: str, target: int, *, from_left: bool) -> str:
    if columns(text) <= target:
        return text
    while text and columns(text) > target - 3:
        text = text[1:] if from_left else text[:-1]
    return f"...{text}" if from_left else f"{text}..."


def _table_width(texts: dict[str, list[str]]) -> int:
    return sum(max(map(columns, column)) for column in texts.values()) + len(_GAP) * (
        len(texts) - 1
    )


def _padded(text: str, width: int, style: str, color: bool) -> str:
    return paint(text, style, color) + " " * (width - columns(text))


def _style(cell: Cell) -> str:
    return _TONES.get(cell.tone, "")
