"""The table of keys as a JSON Schema, for editors that complete and check TOML."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torchlint.base.contract import Allowed, Contract
from torchlint.base.finding import Severity
from torchlint.settings import values
from torchlint.settings.keys import KEYS

_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "array", "items": _TEXT}
_LEVEL = {"enum": [severity.value for severity in Severity]}
_ALLOWED = {
    "type": "object",
    "properties": dict.fromkeys(Allowed._fields, _TEXT),
    "required": list(Allowed._fields),
    "additionalProperties": False,
}
_CONTRACT = {
    **dict.fromkeys(Contract._fields, _TEXTS),
    "allow": {"type": "array", "items": _ALLOWED},
}
_TYPES: Mapping[values.Checker, Mapping[str, Any]] = {
    values.path: _TEXT,
    values.texts: _TEXTS,
    values.rules: _TEXTS,
    values.selection: {**_TEXTS, "minItems": 1},
    values.flag: {"type": "boolean"},
    values.count: {"type": "integer", "minimum": 0},
    values.seconds: {"type": "number", "exclusiveMinimum": 0},
    values.severity: _LEVEL,
    values.severities: {"type": "object", "additionalProperties": _LEVEL},
    values.rules_by_glob: {"type": "object", "additionalProperties": _TEXTS},
    values.contract: {"type": "object", "properties": _CONTRACT, "additionalProperties": False},
    values.torch: {"type": "string", "pattern": r"^\d{1,3}\.\d{1,3}(\.\d{1,9})?$"},
    values.specifier: _TEXT,
}
"""The kind of value → what JSON Schema says of it; a choice says its words."""


def schema() -> dict[str, Any]:
    """Return the schema of a configuration, of what stands below ``[tool.torchlint]``."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "torchlint",
        "type": "object",
        "properties": {
            key: {
                "description": f"{row.words} {row.more}".strip(),
                **(
                    {"enum": list(row.check.names)}
                    if isinstance(row.check, values.Choice)
                    else _TYPES[row.check]
                ),
            }
            for key, row in KEYS.items()
        },
        "additionalProperties": False,
    }
