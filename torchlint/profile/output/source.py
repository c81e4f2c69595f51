"""What stands at a place of the program, in a few words."""

from __future__ import annotations

from collections.abc import Mapping

from torchlint.profile.sites import Site
from torchlint.report.kit.words import clipped, visible

_LONGEST = 60
"""Characters of a statement that are shown."""
_OPENS, _CLOSES = "([{", ")]}"


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
