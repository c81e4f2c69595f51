"""The table of keys in words: for the documentation and for `torchlint init`; and settings as
TOML."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from enum import Enum
from typing import Any

from torchlint.base.regex import regex
from torchlint.settings.keys import KEYS, Key, Settings

_BARE = regex(r"[\w-]+", re.ASCII)


def default_of(row: Key) -> str:
    """Return a key's default as TOML would have it, in words where there is no such value."""
    if row.unset:
        return row.unset
    if row.default == "":
        return "none"
    return "`{}`" if row.sample.startswith("[") else f"`{_toml(row.default)}`"


def settings_page(found: Settings) -> str:
    """Return settings as TOML in the words of the configuration, a line for each key, and for each
    of a table."""
    lines = []
    for spec in fields(found):
        value = getattr(found, spec.name)
        name = spec.name.replace("_", "-")
        if spec.name == "refused" or value is None:
            continue
        table = name in KEYS and KEYS[name].sample.startswith("[")
        rows = _table(value).items() if table else ()
        lines += [f"{name}.{key} = {part}\n" for key, part in rows] or [
            f"{name} = {'{}' if table else _toml(value)}\n"
        ]
    return "".join(lines)


def _table(value: Any) -> dict[str, str]:
    """Return the keys and values of a table as TOML; settings hold one as pairs, or as a record."""
    named = value._asdict() if hasattr(value, "_asdict") else dict(value)
    return {key if _BARE.fullmatch(key) else _toml(key): _toml(part) for key, part in named.items()}


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if hasattr(value, "_asdict"):
        return f"{{ {', '.join(f'{key} = {part}' for key, part in _table(value).items())} }}"
    if isinstance(value, tuple) and value and all(isinstance(part, int) for part in value):
        value = ".".join(map(str, value))  # a version
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return f"{value:.15g}"
    text = str(value.value if isinstance(value, Enum) else value)
    return json.dumps(text, ensure_ascii=not text.isprintable())


def keys_page() -> str:
    """Return a section of markdown for each key, in the order of the alphabet."""
    parts = []
    for key, row in KEYS.items():
        said = f"{row.words} {row.more}".strip()
        parts.append(f"### `{key}`\n\n{said}\n\n- Takes: {row.takes}\n- Default: {default_of(row)}")
        parts.append(f"```toml\n{in_pyproject(row.sample)}\n```")
    return "\n\n".join(parts) + "\n"


def configuration(section: str = "") -> str:
    """Return a configuration with all keys, commented out; `section` is the table that holds it in
    a pyproject.toml."""
    parts = [f"[{section}]"] if section else []
    for row in sorted(KEYS.values(), key=lambda row: row.place):
        lines = [row.words, *_below(section, row.sample).split("\n")]
        parts.append("".join(f"# {line}\n" for line in lines))
    return "\n".join(parts)


def in_pyproject(sample: str) -> str:
    """Return a sample as it stands in pyproject.toml."""
    below = _below("tool.torchlint", sample)
    return below if below != sample else f"[tool.torchlint]\n{sample}"


def _below(section: str, sample: str) -> str:
    """Return a sample as it stands in a table; only one that is a table itself names it."""
    return sample.replace("[", f"[{section}.", 1) if section and sample.startswith("[") else sample
