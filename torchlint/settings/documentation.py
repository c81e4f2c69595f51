"""The table of keys in words: for the documentation and for `torchlint init`."""

from __future__ import annotations

from enum import Enum

from torchlint.settings.keys import KEYS, Key


def default_of(row: Key) -> str:
    """Return a key's default as TOML would have it, in words where there is no such value."""
    if row.unset:
        return row.unset
    if row.default == "":
        return "none"
    return "`{}`" if row.sample.startswith("[") else f"`{_toml(row.default)}`"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return f"{value:.15g}"
    return f'"{value.value if isinstance(value, Enum) else value}"'


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
