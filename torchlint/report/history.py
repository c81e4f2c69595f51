"""A history of comparisons: one line of JSON for each, and drawings of them all."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import groupby
from pathlib import Path

from torchlint.base.errors import UsageError
from torchlint.report.kit import svg, words
from torchlint.report.kit.terminal import BOLD, GREEN, RED, aligned, paint
from torchlint.report.kit.words import DASH, visible

Pair = tuple[float, float]
_STRIP = 31
_ROW, _LABEL, _DRAWN, _SAID = 30, 380, 360, 300
"""Pixels of a row's height, and of the width of its name, its drawing and its words."""
_BAND = (1 / 1.03, 1.03)
_TONES = {"faster": "good", "slower": "bad", "inconclusive": "doubt"}
_STYLE = """
svg{color-scheme:light dark;font:13px sans-serif;fill:#222}
text.head{font-weight:bold}line{stroke:#999}line.grid{stroke:#ddd}line.one{stroke:#555}
rect.band{fill:#eee}rect.mark,path.arrow{fill:#777}line.whisker{stroke:#777;stroke-width:2}
.good.mark,.good.arrow{fill:#1a7f37}.good.whisker{stroke:#1a7f37}
.bad.mark,.bad.arrow{fill:#c62828}.bad.whisker{stroke:#c62828}svg.at{overflow:visible}
@media(prefers-color-scheme:dark){svg{fill:#ddd}rect.band{fill:#333}line.grid{stroke:#444}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one comparison came to; None is what was not measured. Pairs are before and after.

    Args:
        date: ISO 8601, in UTC.
        command: the program, or the trace.
        machine: what measured; times of different ones are never drawn together.
        before, after: what was compared.
        commit: of the newer, as ``git describe`` calls it; empty where it is in no repository.
        verdict: on the time.
        ratio, ci95: time before over time after, and its interval; None for an open end.
        results: how far they agree.
        ms, waits, copied_bytes: of a step.
        peak_bytes: of memory.
    """

    date: str
    command: str
    machine: str
    before: str
    after: str
    commit: str = ""
    verdict: str = ""
    ratio: float | None = None
    ci95: tuple[float | None, float | None] | None = None
    results: str | None = None
    ms: Pair | None = None
    waits: Pair | None = None
    copied_bytes: Pair | None = None
    peak_bytes: Pair | None = None


def line(entry: Entry) -> bytes:
    """Return an entry as its line."""
    return json.dumps(asdict(entry), allow_nan=False).encode() + b"\n"


def read(path: str) -> tuple[Entry, ...]:
    """Return what a file holds.

    Raises:
        UsageError: it cannot be read, or a line is none of ours.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    kinds = {each.name: str(each.type) for each in fields(Entry)}
    found = []
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
            known = {name: value[name] for name in kinds.keys() & value.keys()}
            if not all(_fits(kinds[name], part) for name, part in known.items()):
                raise ValueError
            found.append(Entry(**known))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            raise UsageError(f"{path}:{number}: is no line of --history") from None
    return tuple(found)


def _fits(kind: str, value: object) -> bool:
    """Say whether what a file holds is a field's value; `kind` is the field's type as written."""
    if value is None:
        return kind.endswith("None")
    if kind.startswith("str"):
        return isinstance(value, str)
    if kind.startswith("float"):
        return isinstance(value, int | float) and math.isfinite(value)
    ends = "float | None" if kind.startswith("tuple") else "float"
    return isinstance(value, list) and len(value) == 2 and all(_fits(ends, part) for part in value)


def text(entries: Sequence[Entry], *, color: bool = False) -> str:
    """Return the history as tables, one for each program and machine, with a drawing in each row:
    the interval, and where it lies beside 1."""
    parts = []
    for (command, machine), group in _groups(entries):
        scale = _scale(group)
        head = ("date", "version", "against", "slower | faster", "speed", "verdict", "a step")
        rows: list[tuple[str, ...]] = [(*head, "waits", "copied", "peak memory", "results")]
        rows += [_cells(each, scale) for each in group]
        kept = [column for column in zip(*rows, strict=True) if {*column[1:]} != {DASH}]
        first, *others = aligned(list(zip(*kept, strict=True)))
        parts.append(paint(f"{visible(command)} on {visible(machine)}", BOLD, color))
        parts.append(first)
        for each, row in zip(group, others, strict=True):
            tone = {"faster": GREEN, "slower": RED}.get(each.verdict, "")
            parts.append(paint(row, tone, color))
        parts.append("")
    return "\n".join(parts or ["nothing was compared yet", ""])


def drawing(entries: Sequence[Entry]) -> str:
    """Return the history as one SVG: a forest plot for each program and machine."""
    parts, y = [], 0
    width = _LABEL + _DRAWN + _SAID
    for number, ((command, machine), group) in enumerate(_groups(entries)):
        scale = _scale(group)
        y += _ROW
        parts.append(_text(0, y - 10, f"{command} on {machine}", "head"))
        for index, each in enumerate(group):
            parts.append(_text(0, y + 20, f"{each.date[:10]} {_name(each)}, against {each.before}"))
            if each.ratio is not None:
                strip = svg.strip(
                    each.ratio,
                    each.ci95 or (None, None),
                    scale,
                    _BAND,
                    key=f"run-{number}-{index}",
                    title=f"{_name(each)} against {each.before}",
                    said=_speed(each),
                    tone=_TONES.get(each.verdict, ""),
                )
                parts.append(f'<svg x="{_LABEL}" y="{y}" width="{_DRAWN}">{strip}</svg>')
            said = ", ".join(filter(None, (_speed(each), each.verdict, _ms(each))))
            parts.append(_text(_LABEL + _DRAWN + 8, y + 20, said))
            y += _ROW
        axis = svg.strip_axis(scale, key=f"axis-{number}", title="time before over time after")
        parts.append(f'<svg x="{_LABEL}" y="{y}" width="{_DRAWN}">{axis}</svg>')
        y += _ROW
    inside = "".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y}" '
        f'viewBox="0 0 {width} {y}"><style>{_STYLE}</style>{inside}</svg>\n'
    )


def _groups(
    entries: Iterable[Entry],
) -> list[tuple[tuple[str, str], list[Entry]]]:
    ordered = sorted(entries, key=lambda each: (each.command, each.machine, each.date))
    return [
        (key, list(group))
        for key, group in groupby(ordered, key=lambda each: (each.command, each.machine))
    ]


def _scale(group: Iterable[Entry]) -> svg.Scale:
    ends = (end for each in group for end in (each.ratio, *(each.ci95 or ())) if end is not None)
    return svg.axis([*ends, *_BAND])


def _cells(entry: Entry, scale: svg.Scale) -> tuple[str, ...]:
    return (
        entry.date[:10],
        visible(_name(entry)),
        visible(entry.before),
        _strip(entry, scale),
        _speed(entry) or DASH,
        visible(entry.verdict) or DASH,
        _ms(entry) or DASH,
        words.counts(entry.waits, "->"),
        words.sizes(entry.copied_bytes, "->"),
        words.sizes(entry.peak_bytes, "->"),
        visible(entry.results or DASH),
    )


def _strip(entry: Entry, scale: svg.Scale) -> str:
    """Return the interval in characters: ``*`` at the estimate, ``|`` at 1."""
    if entry.ratio is None:
        return DASH
    drawn = [" "] * _STRIP
    low, high = entry.ci95 or (None, None)
    first = 0 if low is None else _column(low, scale)
    last = _STRIP - 1 if high is None else _column(high, scale)
    drawn[first : last + 1] = "-" * (last + 1 - first)
    drawn[_column(1.0, scale)] = "|"
    drawn[_column(entry.ratio, scale)] = "*"
    return "".join(drawn)


def _column(value: float, scale: svg.Scale) -> int:
    return round(scale.at(value) * (_STRIP - 1))


def _name(entry: Entry) -> str:
    return f"{entry.after} ({entry.commit})" if entry.commit else entry.after


def _speed(entry: Entry) -> str:
    if entry.ratio is None or not math.isfinite(entry.ratio):
        return ""
    low, high = entry.ci95 or (None, None)
    ends = f"{DASH if low is None else words.digits(low)}, "
    return f"{words.times(entry.ratio)} [{ends}{DASH if high is None else words.digits(high)}]"


def _ms(entry: Entry) -> str:
    if entry.ms is None:
        return ""
    return f"{words.digits(entry.ms[0])} -> {words.digits(entry.ms[1])} ms"


def _text(x: int, y: int, said: str, kind: str = "") -> str:
    shown = html.escape(visible(words.clipped(said, 140 if kind else 60)))
    return f'<text x="{x}" y="{y}" class="{kind}">{shown}</text>'
