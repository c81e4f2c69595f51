"""Words that may be shown anywhere, and numbers with their units.

What could steer a terminal, or hide code from a reader, is spelled out: names and messages come
from the code that is checked. A run that repeats the last one's words imports this module too, so
it imports little itself.
"""

from __future__ import annotations

import os
import re

DASH = "–"
"""Stands for what was not measured, which is never 0."""
_HIDDEN = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 but tab, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    r"\u2028\u2029"  # line separators: one finding stays one line
    r"\ud800-\udfff]"  # undecodable bytes of file names
)
_SHORT = {"\n": r"\n", "\r": r"\r"}
_SIZES = (("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12))


def visible(text: str) -> str:
    r"""Return `text` with what could steer a terminal or hide code spelled out (``\x1b``)."""
    return _HIDDEN.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def visible_path(filename: str) -> str:
    """Return a file name to show; one that starts with ``::`` would command a GitHub log."""
    shown = visible(filename)
    return f"./{shown}" if shown.lstrip().startswith("::") else shown


def path_bytes(path: str) -> bytes:
    """Return the bytes of a path as the file system has them; what cannot be one is spelled out."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return visible(path).encode()


def location(filename: str, cell: int | None, row: int = 0, column: int = 0) -> str:
    """Return ``path:row:column``, with the cell of a notebook after the path.

    A row or column of 0, and a file without a name, are left out.
    """
    inside = "" if cell is None else f"cell {cell}"
    return ":".join(str(part) for part in (filename, inside, row, column) if part)


def pluralise(count: int, word: str) -> str:
    """Return ``1 file``, ``2 files``, ``2 fixes``."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}{'es' if word.endswith(('x', 's', 'ch')) else 's'}"


def clipped(text: str, longest: int) -> str:
    """Return `text`, cut at the end where it has more than `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def number(value: float) -> str:
    """Return a number with three digits: ``35``, ``0.05``, ``12,000``."""
    if abs(value) >= 999.5:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def digits(value: float) -> str:
    """Return a number with the places that say something: ``0.004``, ``2.51``, ``388``."""
    places = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    # 0.004 must not read 0.00: a ratio is never zero.
    return f"{value:.{places}f}" if abs(value) >= 0.05 else f"{value:.2g}"


def times(value: float) -> str:
    """Return a ratio: ``2.51x``, ``19.9x``, ``388x``."""
    return f"{digits(value)}x"


def size(value: float) -> str:
    """Return a number of bytes with a decimal unit: ``260 B``, ``65.5 kB``."""
    return " ".join(_sized(value))


def sizes(pair: tuple[float, float] | None, arrow: str) -> str:
    """Return bytes before and after: ``260 -> 4 B``, ``65.5 kB -> 0 B``."""
    if pair is None:
        return DASH
    (before, unit_before), (after, unit_after) = _sized(pair[0]), _sized(pair[1])
    if unit_before == unit_after:
        return f"{before} {arrow} {after} {unit_after}"
    return f"{before} {unit_before} {arrow} {after} {unit_after}"


def counts(pair: tuple[float, float] | None, arrow: str) -> str:
    """Return counts before and after: ``35 -> 3``."""
    return DASH if pair is None else f"{number(pair[0])} {arrow} {number(pair[1])}"


def _sized(value: float) -> tuple[str, str]:
    if abs(value) < 9999.5:
        return number(value), "B"
    fitting = (each for each in _SIZES if abs(value) / each[1] < 999.5)
    name, factor = next(fitting, _SIZES[-1])
    return number(value / factor), name
