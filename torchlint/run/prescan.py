"""Cheap checks of a file's bytes before anything parses them.

libcst crashes or hangs on small inputs with deep nesting and with long chains. CPython refuses more
than 200 open brackets, so that such a file can be refused here; the other signs only shorten the
time that a file gets. The scan passes over strings and comments and costs about 0.05 CPU seconds
per megabyte of ordinary code.
"""

from __future__ import annotations

import re
from itertools import accumulate

from torchlint.base.records import frozen
from torchlint.base.regex import regex

MOST_OPEN = 200
"""Open brackets that CPython's tokenizer allows (``MAXLEVEL``)."""
_DEEP = 60
_MANY_ELIF = 200
_ELIF_APART = 1000
"""Bytes from one ``elif`` to the next, on average, from which on they are no one chain but a large
file's."""
_LONG_LINE = 20_000
_CASE_BRACKETS = 4
TOO_DEEP = "too many nested parentheses"
"""CPython's own words."""


@frozen
class Prescan:
    """What a file's bytes promise.

    Args:
        refuse: why no parser needs to see the file, or an empty string.
        line: the 1-based line that `refuse` speaks of, or 0.
        quarantine: whether the file looks like one that libcst hangs on, so that it gets less time.
    """

    refuse: str = ""
    line: int = 0
    quarantine: bool = False


# A backslash outside strings takes the next byte with it: otherwise `\"""` repeated would cost
# quadratic time.
_HIDDEN = regex(
    rb'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    rb"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    rb'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    rb"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
    rb"|#[^\n]*|\\.",
    re.DOTALL,
)
_STEP = dict.fromkeys(b"([{", 1) | dict.fromkeys(b")]}", -1)
_NO_BRACKET = bytes(byte for byte in range(256) if byte not in _STEP)
# No pattern starts like the rest of ``case = f(...)`` or ``case.run(...)``, where ``case`` is a
# variable.
_CASE = regex(rb"^[ \t]*case\b(?![ \t]*[=.,])([^\n]*)", re.MULTILINE)
_FORMATTED = regex(rb"[fFtT][rR]?[\"']")


def prescan(data: bytes) -> Prescan:
    """Look at UTF-8 source `data` without parsing it; works on any bytes."""
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    code = _HIDDEN.sub(b"", data)
    depths = accumulate(map(_STEP.__getitem__, code.translate(None, _NO_BRACKET)))
    deepest = max(depths, default=0)
    # Since Python 3.12 the quotes of an f-string may come again inside it, which this scan takes
    # apart wrongly.
    if deepest > MOST_OPEN and not _FORMATTED.search(data):
        return Prescan(TOO_DEEP, _line_of_excess(data))
    return Prescan(quarantine=deepest > _DEEP or _looks_slow(data, code))


def _looks_slow(data: bytes, code: bytes) -> bool:
    if code.count(b"elif ") > max(_MANY_ELIF, len(data) // _ELIF_APART):
        return True
    # A long string or comment is one token, so that only the code beside it counts.
    if len(code) > _LONG_LINE and max(map(len, code.split(b"\n"))) > _LONG_LINE:
        return True
    return b"case" in code and any(
        _opening(found[1]) >= _CASE_BRACKETS for found in _CASE.finditer(code)
    )


def _opening(line: bytes) -> int:
    return line.count(b"(") + line.count(b"[") + line.count(b"{")


def _line_of_excess(data: bytes) -> int:
    """Return the line of the first bracket that is one too many."""
    blank = _HIDDEN.sub(lambda found: b"\n" * found[0].count(b"\n"), data)
    depth = 0
    line = 1
    for byte in blank:
        depth += _STEP.get(byte, 0)
        if depth > MOST_OPEN:
            break
        line += byte == 0x0A
    return line
