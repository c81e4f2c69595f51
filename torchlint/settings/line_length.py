"""How wide a project's formatter or style checker lets lines be.

Its configuration comes with the code that is checked, so it is read as text from a stranger: only
regular files of at most `MAX_BYTES`, and what cannot be read says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping

from torchlint.base.errors import ConfigError, SourceError
from torchlint.base.regex import regex
from torchlint.settings.files import MAX_BYTES, read_toml
from torchlint.source.document import read_bytes

_DEFAULT = 88
"""What black and ruff keep to where their tables say nothing else."""
_PLAUSIBLE = range(40, 401)
_SECTIONS = ("flake8", "pycodestyle", "pep8", "yapf", "style")
_WORDS = ("max-line-length", "max_line_length", "column_limit")
_SECTION = regex(r"\[([^\]\n]*(?:\][^\]\n]*)*)\]\s*$")
_WIDTH = regex(r"max_line_length\s*[=:]\s*(\d+)\s*(?:[#;].*)?$", re.IGNORECASE)


def declared_length(folder: str) -> int:
    """Return the limit that the formatter's configuration in a folder gives; 0 where none does."""
    found = (
        length
        for name, reader in _READERS.items()
        for length in reader(os.path.join(folder, name))
        if length in _PLAUSIBLE
    )
    return next(found, 0)


def watched(folder: str) -> Iterator[str]:
    """Yield the paths that decide on `declared_length`."""
    yield from (os.path.join(folder, name) for name in _READERS)


def _of_ruff(path: str) -> Iterator[int]:
    data = _toml(path)
    if data is not None:
        yield _number(data.get("line-length"), _DEFAULT)


def _of_pyproject(path: str) -> Iterator[int]:
    tools = _table((_toml(path) or {}).get("tool"))
    for name in ("ruff", "black"):
        if isinstance(tools.get(name), Mapping):
            yield _number(_table(tools[name]).get("line-length"), _DEFAULT)
    for name, key in (("yapf", "column_limit"), ("autopep8", "max_line_length")):
        yield _number(_table(tools.get(name)).get(key), 0)


def _of_sections(path: str) -> Iterator[int]:
    """Yield what the sections of the style checkers say in an INI file."""
    text = _text(path)
    if not text:
        return
    import configparser  # few projects have such a file

    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    for section in _SECTIONS:
        for word in _WORDS if parser.has_section(section) else ():
            value = parser.get(section, word, fallback="") or ""
            yield int(value) if value.isdecimal() and len(value) < 9 else 0


def _of_editor(path: str) -> Iterator[int]:
    """Yield what an ``.editorconfig`` says of Python files, the sections for these alone first."""
    own: list[int] = []
    every: list[int] = []
    section = ""
    for line in map(str.strip, _text(path).splitlines()):
        header = _SECTION.match(line)
        found = _WIDTH.match(line)
        if header is not None:
            section = header[1]
        elif found is not None and len(found[1]) < 9:
            if re.search(r"\bpy\b", section):
                own.append(int(found[1]))
            elif section == "*":
                every.append(int(found[1]))
    yield from own or every


def _toml(path: str) -> Mapping[str, object] | None:
    try:
        return read_toml(path)[0] if os.path.isfile(path) else None
    except ConfigError:  # As it need not configure us, that is not ours to say.
        return None


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _text(path: str) -> str:
    try:
        return read_bytes(path, path, MAX_BYTES).decode("utf-8", "replace")
    except SourceError:
        return ""


_READERS: Mapping[str, Callable[[str], Iterator[int]]] = {
    "pyproject.toml": _of_pyproject,
    "ruff.toml": _of_ruff,
    ".ruff.toml": _of_ruff,
    "setup.cfg": _of_sections,
    "tox.ini": _of_sections,
    ".flake8": _of_sections,
    ".pycodestyle": _of_sections,
    ".style.yapf": _of_sections,
    ".editorconfig": _of_editor,
}
"""Configuration files by name, the formatters' before the checkers'."""
