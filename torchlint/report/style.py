"""ANSI colours, used only where the run allows them."""

from __future__ import annotations

from torchlint.base.finding import Severity

BOLD = "\x1b[1m"
DIM = "\x1b[2m"
RED = "\x1b[31m"
GREEN = "\x1b[32m"
CYAN = "\x1b[36m"
GUTTER = "\x1b[1;34m"
RESET = "\x1b[0m"
SEVERITY = {Severity.ERROR: "\x1b[1;31m", Severity.WARNING: "\x1b[1;33m", Severity.INFO: "\x1b[1;36m"}


def paint(text: str, style: str, color: bool) -> str:
    """Return `text` in `style`, or as it is where there is no colour or no text."""
    return f"{style}{text}{RESET}" if color and text else text
