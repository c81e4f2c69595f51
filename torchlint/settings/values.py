"""The values that configuration keys take.

A checker is given what TOML or the command line says. It returns what `Settings` holds, plain and
hashable, or raises a ValueError that says what the value must be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from torchlint.base.contract import Allowed, Contract
from torchlint.base.errors import TorchlintError
from torchlint.base.finding import Severity
from torchlint.base.regex import regex
from torchlint.catalog.rules import Catalog
from torchlint.report.formats import FORMATS
from torchlint.settings.versions import meets
from torchlint.source.globs import bad_globs

T = TypeVar("T")
Checker = Callable[[object], object]
SHOWN = 60
_MINOR = regex(r"(\d{1,3})\.(\d{1,3})(?:\.\d{1,9})?")


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string")
    if not value:
        raise ValueError("must not be empty")
    return value


def path(value: object) -> str:
    found = text(value)
    if "\0" in found:
        raise ValueError("holds a NUL character, which no path can")
    return found


def texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(
        isinstance(item, str) and item for item in value
    ):
        raise ValueError("must be a list of strings")
    return tuple(value)


def rules(value: object) -> tuple[str, ...]:
    """Return selectors of rules; `known_rules` says whether there are such rules."""
    return texts(value)


def selection(value: object) -> tuple[str, ...]:
    """Return selectors of rules, at least one."""
    found = rules(value)
    if not found:
        raise ValueError(
            "is empty, so nothing would be checked; leave it out for the default rules"
        )
    return found


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("must be a whole number, 0 or more")
    return value


def seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise ValueError("must be a number of seconds above 0")
    return float(value)


class Choice:
    """The checker of a value that is one of a few words."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def __call__(self, value: object) -> str:
        """Return the word."""
        if value not in self.names:
            raise ValueError(f"must be one of {', '.join(self.names)}, not {shortened(value)}")
        return str(value)


report_format = Choice(*FORMATS)
_level = Choice(*(severity.value for severity in Severity))


def severity(value: object) -> Severity:
    return Severity(_level(value))


def severities(value: object) -> tuple[tuple[str, Severity], ...]:
    if not isinstance(value, Mapping):
        raise ValueError('must be a table of rule = "error", "warning" or "info"')
    return tuple((key, severity(level)) for key, level in value.items())


def rules_by_glob(value: object) -> tuple[tuple[str, tuple[str, ...]], ...]:
    if not isinstance(value, Mapping):
        raise ValueError("must be a table of glob = list of rules")
    return tuple((glob, rules(selectors)) for glob, selectors in value.items())


def contract(value: object) -> Contract:
    """Return a contract of no waits."""
    given = _table(value, "", Contract._fields)
    allow = given.pop("allow", ())
    if not isinstance(allow, list | tuple):
        raise ValueError("allow must be a list of tables")
    lists = {key: _checked_part(f"{key} ", texts, part) for key, part in given.items()}
    return Contract(**lists, allow=tuple(map(_allowed, range(1, len(allow) + 1), allow)))


def _allowed(number: int, value: object) -> Allowed:
    where = f"allow, entry {number}: "
    given = _table(value, where, Allowed._fields)
    for key in Allowed._fields:
        if key not in given:
            raise ValueError(f"{where}lacks {key}")
    found = Allowed(
        **{key: _checked_part(f"{where}{key} ", text, part) for key, part in given.items()}
    )
    if ":" not in found.at:
        raise ValueError(f"{where}at must be path:function, not {shortened(found.at)}")
    return found


def _table(value: object, where: str, keys: Collection[str]) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}must be a table")
    for key in value:
        if key not in keys:
            raise ValueError(f"{where}has no key {shortened(key)}; its keys: {', '.join(keys)}")
    return dict(value)


def _checked_part(where: str, check: Callable[[object], T], value: object) -> T:
    try:
        return check(value)
    except ValueError as reason:
        raise ValueError(f"{where}{reason}") from None


def torch(value: object) -> tuple[int, int]:
    found = _MINOR.fullmatch(value) if isinstance(value, str) else None
    if not found:
        raise ValueError('must be a version in quotes such as "2.4"')
    return int(found[1]), int(found[2])


def specifier(value: object) -> str:
    found = text(value)
    meets("0", found)
    return found


def known_rules(
    value: tuple[str, ...], catalog: Catalog, where: str, error: type[TorchlintError]
) -> None:
    """Refuse selectors that stand for nothing."""
    catalog.resolve(value, where, error)


def known_in_severities(
    value: tuple[tuple[str, Severity], ...],
    catalog: Catalog,
    where: str,
    error: type[TorchlintError],
) -> None:
    """Refuse selectors that stand for nothing."""
    catalog.resolve((selector for selector, _ in value), where, error)


def known_globs(
    value: tuple[str, ...], catalog: Catalog, where: str, error: type[TorchlintError]
) -> None:
    """Refuse globs that match nothing."""
    for glob, reason in bad_globs(value):
        raise error(f"{where}: the glob {glob!r} can match nothing: {reason}")


def known_in_contract(
    value: Contract, catalog: Catalog, where: str, error: type[TorchlintError]
) -> None:
    """Refuse globs of files that match nothing."""
    known_globs(value.files, catalog, where, error)


def known_by_glob(
    value: tuple[tuple[str, tuple[str, ...]], ...],
    catalog: Catalog,
    where: str,
    error: type[TorchlintError],
) -> None:
    """Refuse selectors that stand for nothing, and globs that match nothing."""
    for glob, selectors in value:
        catalog.resolve(selectors, where, error)
        known_globs((glob,), catalog, where, error)


def shortened(value: object) -> str:
    """Return how a message shows a value that can be of any size."""
    shown = repr(value[:SHOWN] if isinstance(value, str) else value)
    return shown if len(shown) <= SHOWN + 2 else f"{shown[:SHOWN]}…"
