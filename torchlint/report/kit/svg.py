"""Drawings for HTML pages, as inline SVG without fixed width.

Places are percentages, and text keeps its size. Colours come from the
page's style sheet by class, so light and dark need no second drawing.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torchlint.report.kit.html import Markup
from torchlint.report.kit.words import visible

Ends = tuple[float | None, float | None]
"""The ends of an interval; None for one that the sample does not bound."""
_TICKS = 6
"""Ticks that fit beside each other on a telephone."""
_APART = 0.11
"""Share of the axis between neighbouring ticks at least, so that their labels do not touch."""
_DIGITS = ((1, 2, 5), (1, 1.5, 2, 3, 5, 7))
_STEPS = (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005)
"""Steps of evenly spaced ticks, as shares of the decade below the high end."""
_STRIP = 30
_AXIS = 24
_LANE = 22


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from `low` to `high`, both above 0, with its ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        """Return where `value` lies, from 0.0 at `low` to 1.0 at `high`; beyond, on the ends."""
        if value <= self.low:
            return 0.0
        return min(1.0, math.log(value / self.low) / math.log(self.high / self.low))


def axis(values: Iterable[float], *, least_span: float = 1.1) -> Scale:
    """Return an axis that holds all `values`, with a margin and at most six ticks.

    Args:
        values: what to show; values that are not finite or not above 0 are left out.
        least_span: ratio of the ends that the axis has at least.
    """
    known = [value for value in values if math.isfinite(value) and value > 0] or [1.0]
    low, high = min(known), max(known)
    span = max(high / low, least_span) ** 1.1
    middle = math.sqrt(low) * math.sqrt(high)
    low, high = middle / math.sqrt(span), middle * math.sqrt(span)
    return Scale(low, high, _ticks(low, high))


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Return the roundest numbers of which three or more fit, or as many as there are."""
    fit = []
    for choice in _choices(low, high):
        ticks = tuple(tick for tick in choice if low <= tick <= high)
        if 1 <= len(ticks) <= _TICKS and _gap(ticks, low, high) >= _APART:
            fit.append(ticks)
    return next((ticks for ticks in fit if len(ticks) >= 3), max(fit, key=len, default=()))


def _choices(low: float, high: float) -> Iterator[list[float]]:
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for digits in _DIGITS:
        yield [float(f"{digit}e{decade}") for decade in decades for digit in digits]
    for step in (1, 2, 4):
        yield [float(f"1e{decade}") for decade in decades if decade % step == 0]
    for share in _STEPS:
        size = share * 10 ** math.floor(math.log10(high))
        first, last = math.ceil(low / size), math.floor(high / size)
        if last - first <= _TICKS:
            yield [float(f"{number * size:.6g}") for number in range(first, last + 1)]


def _gap(ticks: tuple[float, ...], low: float, high: float) -> float:
    gaps = [math.log(after / before) for before, after in itertools.pairwise(ticks)]
    return min(gaps, default=math.inf) / math.log(high / low)


def strip(
    estimate: float,
    ends: Ends,
    scale: Scale,
    band: tuple[float, float],
    *,
    key: str,
    title: str,
    said: str,
    tone: str,
) -> Markup:
    """Return one row of a forest plot: a square at the estimate, a whisker for the interval.

    An end that the sample does not bound is an arrow to the edge.

    Args:
        estimate: where the square stands.
        ends: the interval around it.
        scale: the axis, the same for all rows.
        band: what counts as no change, around 1.
        key: makes ids unique on the page.
        title: what the row is of.
        said: estimate and interval in words.
        tone: class of the marks.
    """
    middle = _STRIP / 2
    low, high = map(scale.at, band)
    band_width = _share(high - low)
    marks = [f'<rect class="band" x="{_share(low)}" y="0" width="{band_width}" height="{_STRIP}"/>']
    marks += [_vertical(scale.at(tick), "grid") for tick in scale.ticks]
    marks.append(_vertical(scale.at(1.0), "one"))
    left, right = ends
    x1, x2 = 0.0 if left is None else scale.at(left), 1.0 if right is None else scale.at(right)
    reach = f'x1="{_share(x1)}" x2="{_share(x2)}" y1="{middle}" y2="{middle}"'
    marks.append(f'<line class="whisker {tone}" {reach}/>')
    marks.append(_end(x1, middle, tone, "l" if left is None else ""))
    marks.append(_end(x2, middle, tone, "r" if right is None else ""))
    square = f'<rect class="mark {tone}" x="-5" y="{middle - 5}" width="10" height="10"/>'
    marks.append(_anchored(scale.at(estimate), square))
    return _drawing(key, title, said, _STRIP, _inset(marks))


def strip_axis(scale: Scale, *, key: str, title: str) -> Markup:
    """Return the axis below a forest plot of ratios."""
    line, text = '<line class="grid" y1="0" y2="5"/>', '<text y="18" text-anchor="middle">'
    marks = [_anchored(scale.at(tick), f"{line}{text}{tick:g}x</text>") for tick in scale.ticks]
    ticks = ", ".join(f"{tick:g}x" for tick in scale.ticks)
    return _drawing(key, title, ticks, _AXIS, _inset(marks))


@dataclass(frozen=True, slots=True)
class Mark:
    """A bar of a lane: where it begins and ends as shares of the width, its class, what it says
    when pointed at, and how much of its colour it takes."""

    begin: float
    end: float
    kind: str
    title: str
    weight: float = 1.0


def lane(marks: Sequence[Mark], *, key: str, title: str, said: str) -> Markup:
    """Return one row of bars over time; later ones lie over earlier ones.

    Args:
        marks: the bars.
        key: makes ids unique on the page.
        title: what the row is of.
        said: what it shows, in words.
    """
    drawn = [
        f'<rect class="{mark.kind}" x="{_share(mark.begin)}" y="0" height="{_LANE}" '
        f'width="{_share(mark.end - mark.begin)}"{_opacity(mark.weight)}>'
        f"<title>{html.escape(visible(mark.title))}</title></rect>"
        for mark in marks
    ]
    return _drawing(key, title, said, _LANE, drawn)


def _opacity(weight: float) -> str:
    return "" if weight > 0.95 else f' fill-opacity="{max(weight, 0.15):.2g}"'


def levels(values: Sequence[float], *, key: str, title: str, said: str) -> Markup:
    """Return a level over time as a filled line; the highest value reaches the top.

    Args:
        values: the level in each of equal parts of the time, not negative.
        key: makes ids unique on the page.
        title: what the level is of.
        said: what it shows, in words.
    """
    most = max(values, default=0) or 1
    steps = "".join(
        f"V{_LANE - _LANE * value / most:.4g}H{at + 1}" for at, value in enumerate(values)
    )
    path = f'<path class="level" d="M0 {_LANE}{steps}V{_LANE}Z"/>'
    box = f'viewBox="0 0 {max(len(values), 1)} {_LANE}" preserveAspectRatio="none"'
    inner = f'<svg {box} width="100%" height="{_LANE}">{path}</svg>'
    return _drawing(key, title, said, _LANE, [inner])


def ruler(ticks: Sequence[tuple[float, str]], *, key: str, title: str) -> Markup:
    """Return the axis below lanes.

    Args:
        ticks: where each stands, as a share of the width, and what it says.
        key: makes ids unique on the page.
        title: what the axis is of.
    """
    marks = []
    for share, words in ticks:
        anchor = "start" if share < 0.05 else "end" if share > 0.95 else "middle"
        text = f'<text y="18" text-anchor="{anchor}">{html.escape(words)}</text>'
        marks.append(_anchored(share, f'<line class="grid" y1="0" y2="5"/>{text}'))
    return _drawing(key, title, ", ".join(words for _, words in ticks), _AXIS, marks)


def _drawing(key: str, title: str, description: str, height: float, marks: Sequence[str]) -> Markup:
    ids = f"{key}-t", f"{key}-d"
    return Markup(
        f'<svg role="img" aria-labelledby="{ids[0]} {ids[1]}" width="100%" height="{height}">'
        f'<title id="{ids[0]}">{html.escape(visible(title))}</title>'
        f'<desc id="{ids[1]}">{html.escape(visible(description))}</desc>'
        f"{''.join(marks)}</svg>"
    )


def _inset(marks: Sequence[str]) -> list[str]:
    """Return the marks in a part of the width, so that what hangs over its ends is not cut."""
    return ['<svg class="at" x="4%" width="92%">', *marks, "</svg>"]


def _anchored(share: float, mark: str) -> str:
    """Return a mark whose own places are pixels from a share of the width."""
    return f'<svg class="at" x="{_share(share)}">{mark}</svg>'


def _vertical(share: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_share(share)}" x2="{_share(share)}" y1="0" y2="{_STRIP}"/>'


def _end(share: float, middle: float, tone: str, arrow: str) -> str:
    if not arrow:
        mark = f'<line class="whisker {tone}" y1="{middle - 5}" y2="{middle + 5}"/>'
    else:
        far = -8 if arrow == "l" else 8
        mark = f'<path class="arrow {tone}" d="M{far} {middle}L0 {middle - 6}V{middle + 6}Z"/>'
    return _anchored(share, mark)


def _share(share: float) -> str:
    return f"{share * 100:.4g}%"
