"""The formats of a report by the name the user types; each one's module is imported when it is
asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from torchlint.report.run_report import RunReport

DEFAULT = "ranked"
TEXT_FORMATS = frozenset({"ranked", "full", "concise", "grouped", "agent"})
"""The formats in words: the summary follows them on standard output."""
WITH_SOURCE = frozenset({"ranked", "full", "agent", "html", "rdjson"})
"""The formats that need the source around findings."""
WITH_MANUAL = frozenset({"html", "sarif"})
"""The formats that hold the manual pages of rules."""
WITH_WEIGHTS = frozenset({"ranked", "agent"})
"""The formats that need to know what was measured of rules."""
_MODULES = {
    "ranked": "ranked",
    "full": "full",
    "concise": "concise",
    "grouped": "grouped",
    "agent": "agent",
    "json": "json_list",
    "json-lines": "json_lines",
    "github": "github",
    "gitlab": "gitlab",
    "azure": "azure",
    "junit": "junit",
    "pylint": "pylint",
    "rdjson": "rdjson",
    "sarif": "sarif",
    "html": "html",
}


def _render(module: str, run: RunReport) -> str:
    text: str = importlib.import_module(f"torchlint.report.{module}").render(run)
    return text


FORMATS: Mapping[str, Callable[[RunReport], str]] = MappingProxyType(
    {name: partial(_render, module) for name, module in _MODULES.items()}
)
"""Name → ``render(run)``, which returns the report; it ends with a newline unless it is empty."""
