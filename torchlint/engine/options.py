"""The keys of a configuration: which there are, and what values they take. Command-line options share them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping

from torchlint.base.errors import TorchlintError
from torchlint.base.finding import Severity
from torchlint.engine.versions import meets

Value = object
"""What a checked option holds: plain, hashable, ready for `Settings`."""

_SHOWN = 60
_MINOR = re.compile(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,9})?")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if not value:
        raise ValueError("must not be empty")
    return value


def _path(value: object) -> str:
    path = _text(value)
    if "\0" in path:
        raise ValueError("holds a NUL character, which no path can")
    return path


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) and item for item in value):
        raise ValueError("must be a list of strings")
    return tuple(value)


def _selection(value: object) -> tuple[str, ...]:
    if not _texts(value):
        raise ValueError("is empty, so nothing would be checked; leave it out for the default rules")
    return _texts(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("must be a number of seconds above 0")
    return float(value)


def _choice(*names: str) -> Callable[[object], str]:
    def check(value: object) -> str:
        if value not in names:
            raise ValueError(f"must be one of {', '.join(names)}, not {shortened(value)}")
        return str(value)

    return check


def _format(value: object) -> str:
    from torchlint.report.formats import FORMATS

    return _choice(*FORMATS)(value)


def _severity(value: object) -> Severity:
    return Severity(_choice(*(severity.value for severity in Severity))(value))


def _severities(value: object) -> tuple[tuple[str, Severity], ...]:
    if not isinstance(value, Mapping):
        raise ValueError('must be a table of rule = "error", "warning" or "info"')
    return tuple((key, _severity(level)) for key, level in value.items())


def _per_file(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a table of glob = list of rules")
    return tuple((glob, _texts(rules)) for glob, rules in value.items())


def _torch(value: object) -> tuple[int, int]:
    found = _MINOR.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError('must be a version in quotes such as "2.4"')
    return int(found[1]), int(found[2])


def _specifier(value: object) -> str:
    meets("0", _text(value))
    return _text(value)


OPTIONS: Mapping[str, Callable[[object], Value]] = {
    "accelerator": _choice("auto", "cuda", "mps", "cpu"),
    "assume-hot": _texts,
    "baseline": _path,
    "cache-dir": _path,
    "exclude": _texts,
    "extend": _path,
    "extend-exclude": _texts,
    "extend-select": _texts,
    "fail-on": _severity,
    "force-exclude": _flag,
    "ignore": _texts,
    "include": _texts,
    "jobs": _count,
    "max-file-size": _count,
    "output-format": _format,
    "per-file-ignores": _per_file,
    "required-version": _specifier,
    "respect-gitignore": _flag,
    "select": _selection,
    "severity": _severities,
    "target-torch": _torch,
    "timeout": _seconds,
    "unsafe-fixes": _flag,
}
"""Key → what turns its value into a checked one, or raises a ValueError that says what it must be."""


def check_option(key: str, value: object, where: str, error: type[TorchlintError], section: str = "") -> Value:
    """Return the checked value of one key.

    Args:
        key: one of `OPTIONS`, or what a user wrote for one.
        value: as TOML or the command line gives it.
        where: what the message starts with, up to and with ``": "``.
        error: the class to raise.
        section: what the message says after an unknown key: `` in [tool.torchlint]``, say.

    Raises:
        TorchlintError: of class `error`; the key is unknown, or takes no such value.
    """
    if key not in OPTIONS:
        raise error(f"{where}unknown key {shortened(key)}{section}{_near_key(key)}")
    try:
        return OPTIONS[key](value)
    except ValueError as reason:
        raise error(f"{where}{key} {reason}") from None


def _near_key(key: str) -> str:
    import difflib

    near = difflib.get_close_matches(key[:_SHOWN].lower().replace("_", "-"), OPTIONS, 1)
    return f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(OPTIONS)}"


def shortened(value: object) -> str:
    """Return how a message shows a value that can be of any size."""
    text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}…"
