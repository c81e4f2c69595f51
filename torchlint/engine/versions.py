"""Version numbers, as far as a configuration speaks of them: ``required-version`` and the torch dependency."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping

Version = tuple[int, ...]
_NUMBER = re.compile(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|dev|post)[-_.]?\d+)*(?:\+[\w.]*)?"
)
_CLAUSE = re.compile(r"(===?|>=|<=|~=|!=|>|<|)\s*(\S+)")
_REQUIREMENT = re.compile(r"([\w.-]+)\s*(?:\[[^]]*\])?(.*)", re.DOTALL)
_LOWER = (">=", ">", "~=", "==", "===")
_COMPARE: Mapping[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    "===": operator.eq,
    "": operator.eq,
    "!=": operator.ne,
}


def parse_version(text: str) -> Version:
    """Return the release numbers of a version without trailing zeros; pre-releases count as their release.

    Raises:
        ValueError: not a version.
    """
    found = _NUMBER.fullmatch(text.strip().lower())
    if not found:
        raise ValueError(f"{text!r} is not a version")
    numbers = [int(part) for part in found[1].split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def meets(version: str, specifier: str) -> bool:
    """Say whether `version` meets a specifier such as ``">=0.2,<1"``; a bare version demands just that one.

    Raises:
        ValueError: not a specifier, or not a version.
    """
    own = parse_version(version)
    return all(_meets_clause(own, clause) for clause in specifier.split(","))


def _meets_clause(own: Version, clause: str) -> bool:
    found = _CLAUSE.fullmatch(clause.strip())
    if not found:
        raise ValueError(f"{clause.strip()!r} is not a version specifier")
    wanted = parse_version(found[2])
    if found[1] == "~=":
        written = found[2].split(".")
        same = len(written) - 1
        return own >= wanted and (*own, *(0,) * same)[:same] == (*wanted, *(0,) * same)[:same]
    return _COMPARE[found[1]](own, wanted)


def lowest_torch(requirements: Iterable[object]) -> tuple[int, int] | None:
    """Return the (major, minor) that is the lower bound of torch in a list of requirements, or None.

    Of several requirements on torch (for several platforms, say) the lowest bound counts; a requirement without
    a lower bound, and what is no requirement, counts for nothing.
    """
    bounds = []
    for requirement in requirements:
        found = _REQUIREMENT.fullmatch(requirement.strip()) if isinstance(requirement, str) else None
        if found and found[1].lower() == "torch":
            clauses = found[2].partition(";")[0].strip(" ()").split(",")
            lower = [bound for clause in clauses if (bound := _lower(clause))]
            bounds += [max(lower)] if lower else []
    if not bounds:
        return None
    major, minor, *_ = (*min(bounds), 0)
    return major, minor


def _lower(clause: str) -> Version | None:
    found = _CLAUSE.fullmatch(clause.strip())
    if not found or found[1] not in _LOWER:
        return None
    try:
        return parse_version(found[2].removesuffix(".*"))
    except ValueError:
        return None
