"""JSON that every parser and every terminal takes: ASCII only, and no lone surrogate."""

from __future__ import annotations

import json
import re
from typing import Any

_BEYOND_ASCII = re.compile(r"[^\x00-\x7e]")


def dump(value: Any) -> str:
    r"""Return `value` as indented JSON with a final newline.

    A lone surrogate, which stands for an undecodable byte of a file name, becomes the six
    characters ``\udcff``: as a JSON escape it would make strict parsers (serde, I-JSON) refuse the
    whole report.
    """
    return _ascii(json.dumps(value, ensure_ascii=False, indent=2)) + "\n"


def dump_line(value: Any) -> str:
    """Return `value` as JSON on one line with its newline; characters as in `dump`."""
    return _ascii(json.dumps(value, ensure_ascii=False)) + "\n"


def _ascii(text: str) -> str:
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if "\ud800" <= character <= "\udfff":
        return f"\\\\u{ord(character):04x}"
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
