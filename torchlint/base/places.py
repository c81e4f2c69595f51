"""Names of what torchlint itself puts into a project."""

from __future__ import annotations

CACHE_NAME = ".torchlint_cache"
"""The folder of the cache, in the project's root, unless ``cache-dir`` says otherwise."""
