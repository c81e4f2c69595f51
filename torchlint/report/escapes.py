"""Text that may be shown on a terminal: what could steer it, or hide code, is spelled out."""

from __future__ import annotations

import os
import re

_HIDDEN = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f"  # C0 but tab, DEL, C1
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    r"\u2028\u2029"  # line separators: one finding stays one line
    r"\ud800-\udfff]"  # undecodable bytes of file names
)
_SHORT = {"\n": r"\n", "\r": r"\r"}


def visible(text: str) -> str:
    r"""Return `text` with all that could steer a terminal or hide code spelled out (``\x1b``, ``\u202e``)."""
    return _HIDDEN.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _SHORT.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")


def visible_path(filename: str) -> str:
    """Return a file name to show; one that starts with ``::`` would be a command in a GitHub log."""
    shown = visible(filename)
    return f"./{shown}" if shown.lstrip().startswith("::") else shown


def path_bytes(path: str) -> bytes:
    """Return the bytes of a path as the file system has them; what cannot be one is spelled out."""
    try:
        return os.fsencode(path)
    except UnicodeEncodeError:
        return visible(path).encode()
