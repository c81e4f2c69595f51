"""The formats of a report by the name the user types; each one's module is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from torchlint.report.run_report import RunReport

DEFAULT = "full"
TEXT_FORMATS = frozenset({"full", "concise"})
"""The formats for people: the summary follows them on standard output."""
_MODULES = {
    "full": "full",
    "concise": "concise",
    "json": "json_list",
    "github": "github",
    "sarif": "sarif",
}


def _render(module: str, run: RunReport) -> str:
    text: str = importlib.import_module(f"torchlint.report.{module}").render(run)
    return text


FORMATS: Mapping[str, Callable[[RunReport], str]] = MappingProxyType(
    {name: partial(_render, module) for name, module in _MODULES.items()}
)
"""Name → ``render(run)``, which returns the report; it ends with a newline unless it is empty."""
