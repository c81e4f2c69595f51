"""A place of the program in words: where it is, and what stands there."""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.profile.sites import Site
from torchlint.report.kit.words import clipped, visible

_LONGEST = 60
"""Characters of a statement that are shown."""
_OPENS, _CLOSES = "([{", ")]}"


def place(site: Site) -> str:
    """Return where a call came from, as surely as that is known."""
    if site.certainty == "call":
        return site.function
    if site.has_line:
        probably = "probably " if site.certainty == "aligned" else ""
        return f"{probably}{site.file}:{site.line}, in {site.function}"
    if site.differs:
        return f"{site.file}, in {site.function} (source differs from the trace)"
    return f"{site.file}, in {site.function} (from line {site.line} on)"


def source(site: Site, texts: Mapping[str, str]) -> str:
    """Return the text of the statement that begins at a place, on one line; empty where it is not
    known.

    Args:
        site: the place.
        texts: the files of the program by their names.
    """
    rows = texts.get(site.file, "").splitlines() if site.has_line else []
    found = ""
    for row in rows[max(0, site.line - 1) :]:
        part = row.strip()
        glued = not found or found[-1] in _OPENS or part[:1] in tuple(_CLOSES)
        found += part if glued else f" {part}"
        whole = sum(map(found.count, _OPENS)) <= sum(map(found.count, _CLOSES))
        if whole or len(found) > _LONGEST:
            break
    return visible(clipped(found, _LONGEST))
