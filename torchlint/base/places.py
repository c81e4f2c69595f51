"""Names of what torchlint itself puts into a project."""

from __future__ import annotations

CACHE_NAME = ".torchlint_cache"
"""The folder of the cache, in the project's root, unless ``cache-dir`` says otherwise."""
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".torchlint-", ".tmp"
"""How the names of temporary files begin and end, beside what they will replace."""


def is_temporary(name: str) -> bool:
    """Say whether a file's name is that of a temporary file of ours."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
