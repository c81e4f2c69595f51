"""Version numbers, as far as a configuration speaks of them: ``required-version`` and the torch
dependency."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torchlint.base.regex import regex

Version = tuple[int, ...]
_NUMBER = regex(
    r"v?(\d{1,9}(?:\.\d{1,9}){0,5})(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|dev|post)[-_.]?\d+)*(?:\+[\w.]*)?"
)
_CLAUSE = regex(r"(===?|>=|<=|~=|!=|>|<|)\s*(\S+)")
_REQUIREMENT = regex(r"([\w.-]+)\s*(?:\[[^]]*\])?(.*)", re.DOTALL)
_WHEEL = regex(r"[/\\]torch-(\d{1,4}(?:\.\d{1,4}){1,3})")
"""The name of a wheel in an address: ``torch @ https://…/torch-1.13.1%2Bcu117-cp310-….whl``."""
_LONGEST = 2_000
_LAST_MINOR = {0: 4, 1: 13}
"""The last minor version of each major one of torch that is complete."""
_NO_LAST = 99
DEFAULT_TORCH = (2, 4)
"""The lowest torch where nothing says which."""
_LOWER = (">=", ">", "~=", "==", "===")


def parse_version(text: str) -> Version:
    """Return the release numbers of a version without trailing zeros; pre-releases count as their
    release.

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
    """Say whether `version` meets a specifier of PEP 440 such as ``">=0.2,<1"``; a bare version
    demands just that one.

    Raises:
        ValueError: not a specifier, or not a version.
    """
    # Few configurations ask for it.
    from packaging.specifiers import InvalidSpecifier, Specifier

    if len(specifier) > _LONGEST:
        raise ValueError(f"{specifier[:60]!r}… is not a version specifier of PEP 440")
    met = True
    for clause in map(str.strip, specifier.split(",")):
        try:
            wanted = Specifier(f"=={clause}" if clause[:1].isalnum() else clause, prereleases=True)
        except InvalidSpecifier:
            raise ValueError(f"{clause[:60]!r} is not a version specifier of PEP 440") from None
        met = met and wanted.contains(version)
    return met


def lowest_torch(requirements: Iterable[object]) -> tuple[int, int] | None:
    """Return the (major, minor) that is the lower bound of torch in a list of requirements, or
    None.

    Of several requirements on torch (for several platforms, say) the lowest bound counts; what is
    no requirement counts for nothing, and neither does one without a lower bound, unless it only
    allows versions before `DEFAULT_TORCH`: then the last of these counts.
    """
    bounds = [bound for requirement in requirements if (bound := _bound(requirement)) is not None]
    if not bounds:
        return None
    major, minor, *_ = (*min(bounds), 0)
    return major, minor


def newest_torch(requirements: Iterable[object]) -> Version | None:
    """Return the last (major, minor) of torch that those of a list of requirements allow that
    `lowest_torch` goes by; None where one of them has no end."""
    ends = [_end(each) for each in requirements if _bound(each) is not None]
    return latest(ends)


def latest(ends: Iterable[Version | None]) -> Version | None:
    """Return the last of several ends; None where there is none, or one is open."""
    found = list(ends)
    known = [end for end in found if end is not None]
    return max(known) if known and len(known) == len(found) else None


def _clauses(requirement: object) -> list[str]:
    """Return what a requirement demands of the version of torch; nothing where it is about
    something else."""
    text = (
        requirement.strip() if isinstance(requirement, str) and len(requirement) <= _LONGEST else ""
    )
    wheel = _WHEEL.search(text)
    if wheel:
        return [f"=={wheel[1]}"]
    found = _REQUIREMENT.fullmatch(text)
    if not found or found[1].lower() != "torch":
        return []
    return found[2].partition(";")[0].strip(" ()").split(",")


def _end(requirement: object) -> Version | None:
    """Return the (major, minor) of the last torch that a requirement allows."""
    ends = [_pinned_version(clause) or _upper(clause) for clause in _clauses(requirement)]
    return min((end for end in ends if end), default=None)


def _pinned_version(clause: str) -> Version | None:
    """Return the (major, minor) that a clause holds fast: ``==2.1``, ``==2.1.*``, ``~=2.1.0``."""
    found = _CLAUSE.fullmatch(clause.strip())
    if found is None or found[1] not in ("==", "===", "~="):
        return None
    kept = found[2].rpartition(".")[0] if found[1] == "~=" else found[2].removesuffix(".*")
    several = found[1] == "~=" or kept != found[2]
    bound = None if several and "." not in kept else _version(kept)
    return (*bound, 0)[:2] if bound is not None else None


def _bound(requirement: object) -> Version | None:
    """Return the lowest version of torch that a requirement is about."""
    clauses = _clauses(requirement)
    lower = [bound for clause in clauses if (bound := _lower(clause))]
    if lower:
        return max(lower)
    upper = [bound for clause in clauses if (bound := _upper(clause))]
    return min(upper) if upper and min(upper) < DEFAULT_TORCH else None


def _lower(clause: str) -> Version | None:
    found = _CLAUSE.fullmatch(clause.strip())
    return _version(found[2].removesuffix(".*")) if found and found[1] in _LOWER else None


def _upper(clause: str) -> Version | None:
    """Return the (major, minor) of the last version that ``<`` or ``<=`` allows."""
    found = _CLAUSE.fullmatch(clause.strip())
    bound = _version(found[2]) if found and found[1] in ("<", "<=") else None
    if found is None or bound is None:
        return None
    major, minor, *rest = (*bound, 0)
    if found[1] == "<=" or any(rest):
        return major, minor
    return (major, minor - 1) if minor else (major - 1, _LAST_MINOR.get(major - 1, _NO_LAST))


def _version(text: str) -> Version | None:
    try:
        return parse_version(text)
    except ValueError:
        return None
