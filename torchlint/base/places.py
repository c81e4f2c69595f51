"""Names of what torchlint itself puts into a project, of its variables, and where its pages lie."""

from __future__ import annotations

import re

CACHE_NAME = ".torchlint_cache"
"""The folder of the cache, in the project's root, unless ``cache-dir`` says otherwise."""
TEMPORARY_PREFIX, TEMPORARY_SUFFIX = ".torchlint-", ".tmp"
"""How the names of temporary files begin and end, beside what they will replace."""

VARIABLES = {
    option: f"TORCHLINT_{option.upper().replace('-', '_')}"
    for option in ("cache-dir", "config", "no-cache", "output-file", "output-format")
}
"""Option → the variable of the environment that sets it where the command line does not; the names
are ruff's but for ``config``, which has none there."""

DOCS_URL = ""
"""Where the documentation site is served, ending with a slash; empty while it has no public host.

All links to rule pages start here: those of JSON, SARIF and the editor. ``torchlint rule CODE`` and
``torchlint docs`` need none; without one, JSON and SARIF name no page, and the editor leads to that
of ``torchlint docs``.
"""


def rule_page(code: str) -> str:
    """Return the address of a rule's page on the web, or an empty string where there is none.

    Rules of plugins have none there (theirs never start with TL and a digit), nor has what the
    engine itself reports.
    """
    return f"{DOCS_URL}rules/{code}.html" if DOCS_URL and re.match("TL[1-9]", code) else ""


def fixes_page() -> str:
    """Return where is told what a safe fix takes for granted, on the web or in the repository."""
    return f"{DOCS_URL}fixes.html" if DOCS_URL else "docs/fixes.md of torchlint's repository"


def is_temporary(name: str) -> bool:
    """Say whether a file's name is that of a temporary file of ours."""
    return name.startswith(TEMPORARY_PREFIX) and name.endswith(TEMPORARY_SUFFIX)
