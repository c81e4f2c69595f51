"""The drawings of the HTML report, as inline SVG without fixed width: places are percentages, text keeps its size.

Colours come from the page's style sheet by class, so light and dark need no second drawing.
"""

from __future__ import annotations

import html
from collections.abc import Sequence

from torchlint.report.text import visible
from torchlint.verify.model import Ratio
from torchlint.verify.output import words
from torchlint.verify.output.scale import Scale, fitting

_STRIP = 30
_AXIS = 24
_BLOCKS = 150
_BARS = 44
_WIDEST_BAR = 70.0
"""Per cent of the width that the longest bar takes; the rest is for its number."""


def ratio_scale(ratios: Sequence[Ratio], min_effect: float) -> Scale:
    """Return the axis of a forest plot: all intervals that are bounded, 1, and the band of the minimum effect."""
    ends = [end for each in ratios for end in (*each.ci95, each.estimate)]
    return fitting([*ends, 1 + min_effect, 1 / (1 + min_effect)])


def strip(ratio: Ratio | None, scale: Scale, min_effect: float, *, key: str, title: str, tone: str) -> str:
    """Return one row of a forest plot: a square at the estimate, a whisker for the 95 % interval.

    An end that the sample does not bound is an arrow to the edge.

    Args:
        ratio: what to draw; None draws the axis lines only.
        scale: the axis, the same for all rows.
        min_effect: half the width of the band, as a share.
        key: makes ids unique on the page.
        title: what the row is of.
        tone: class of the marks.
    """
    middle = _STRIP / 2
    low, high = scale.at(1 / (1 + min_effect)), scale.at(1 + min_effect)
    marks = [f'<rect class="band" x="{_share(low)}" y="0" width="{_share(high - low)}" height="{_STRIP}"/>']
    marks += [_vertical(scale.at(tick), _STRIP, "grid") for tick in scale.ticks]
    marks.append(_vertical(scale.at(1.0), _STRIP, "one"))
    if ratio is not None:
        left, right = (words.bounded(end) for end in ratio.ci95)
        x1, x2 = 0.0 if left is None else scale.at(left), 1.0 if right is None else scale.at(right)
        marks.append(f'<line class="whisker {tone}" x1="{_share(x1)}" x2="{_share(x2)}" y1="{middle}" y2="{middle}"/>')
        marks.append(_end(x1, middle, tone, "l" if left is None else ""))
        marks.append(_end(x2, middle, tone, "r" if right is None else ""))
        marks.append(
            _anchored(
                scale.at(ratio.estimate), f'<rect class="mark {tone}" x="-5" y="{middle - 5}" width="10" height="10"/>'
            )
        )
    return _drawing(key, title, words.ratio(ratio), _STRIP, _inset(marks, 4, 92))


def ratio_axis(scale: Scale, *, key: str) -> str:
    """Return the axis below a forest plot."""
    marks = [
        _anchored(
            scale.at(tick), f'<line class="grid" y1="0" y2="5"/><text y="18" text-anchor="middle">{tick:g}x</text>'
        )
        for tick in scale.ticks
    ]
    ticks = ", ".join(f"{tick:g}x" for tick in scale.ticks)
    return _drawing(key, "Axis: time before over time after, logarithmic", ticks, _AXIS, _inset(marks, 4, 92))


def paired_blocks(blocks: Sequence[tuple[float, float]], *, key: str, title: str) -> str:
    """Return the raw times of paired blocks in the order measured: circles are the original, squares the variant.

    Args:
        blocks: (original, variant) nanoseconds; the axis is logarithmic, in milliseconds.
        key: makes ids unique on the page.
        title: what the variant is.
    """
    pairs = [(before / 1e6, after / 1e6) for before, after in blocks]
    scale = fitting([value for pair in pairs for value in pair], least_span=1.2)
    top, bottom = 8.0, _BLOCKS - 8.0

    def height(value: float) -> float:
        return round(bottom - (bottom - top) * scale.at(value), 1)

    lines = [
        f'<line class="grid" x1="0%" x2="100%" y1="{height(tick)}" y2="{height(tick)}"/>'
        f'<text class="end" x="-6" y="{height(tick) + 4}" text-anchor="end">{tick:g} ms</text>'
        for tick in scale.ticks
    ]
    points = []
    for index, (before, after) in enumerate(pairs):
        x, first, second = _share((index + 0.5) / len(pairs)), height(before), height(after)
        points.append(f'<line class="link" x1="{x}" x2="{x}" y1="{first}" y2="{second}"/>')
        points.append(f'<circle class="before" cx="{x}" cy="{first}" r="3.5"/>')
        points.append(
            f'<svg class="at" x="{x}"><rect class="after" x="-3" y="{second - 3}" width="6" height="6"/></svg>'
        )
    said = f"{len(pairs)} pairs, logarithmic axis from {scale.low:.3g} to {scale.high:.3g} ms"
    return _drawing(key, title, said, _BLOCKS, _inset([*lines, *points], 22, 76))


def bars(pair: tuple[float, float], largest: float, *, key: str, title: str, shown: tuple[str, str]) -> str:
    """Return two bars, before over after, on a linear axis that ends at `largest`.

    Args:
        pair: before and after.
        largest: what the longest bar of the group stands for, above 0.
        key: makes ids unique on the page.
        title: what the bars are of.
        shown: the numbers in words.
    """
    marks = []
    for index, (kind, value, text) in enumerate(zip(("before", "after"), pair, shown, strict=True)):
        y = 3 + index * 20
        share = _WIDEST_BAR * value / largest / 100
        marks.append(f'<rect class="bar {kind}" x="0" y="{y}" width="{_share(share)}" height="16"/>')
        marks.append(_anchored(share, f'<text x="6" y="{y + 12.5}">{html.escape(text)}</text>'))
    return _drawing(key, title, f"{shown[0]} before, {shown[1]} after", _BARS, marks)


def _drawing(key: str, title: str, description: str, height: float, marks: Sequence[str]) -> str:
    ids = f"{key}-t", f"{key}-d"
    return (
        f'<svg role="img" aria-labelledby="{ids[0]} {ids[1]}" width="100%" height="{height}">'
        f'<title id="{ids[0]}">{html.escape(visible(title))}</title>'
        f'<desc id="{ids[1]}">{html.escape(visible(description))}</desc>'
        f"{''.join(marks)}</svg>"
    )


def _inset(marks: Sequence[str], left: int, width: int) -> list[str]:
    """Return the marks in a part of the width, so that what hangs over its ends is not cut."""
    return [f'<svg class="at" x="{left}%" width="{width}%">', *marks, "</svg>"]


def _anchored(share: float, mark: str) -> str:
    """Return a mark whose own places are pixels from a share of the width."""
    return f'<svg class="at" x="{_share(share)}">{mark}</svg>'


def _vertical(share: float, height: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{_share(share)}" x2="{_share(share)}" y1="0" y2="{height}"/>'


def _end(share: float, middle: float, tone: str, arrow: str) -> str:
    if not arrow:
        return _anchored(share, f'<line class="whisker {tone}" y1="{middle - 5}" y2="{middle + 5}"/>')
    far = -8 if arrow == "l" else 8
    return _anchored(share, f'<path class="arrow {tone}" d="M{far} {middle}L0 {middle - 6}V{middle + 6}Z"/>')


def _share(share: float) -> str:
    return f"{share * 100:.4g}%"
