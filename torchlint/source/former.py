"""Where the former content of a file is kept while the file is written in place, so that a kill can
cost nothing."""

from __future__ import annotations

import os
import stat

_SUFFIX = ".torchlint-former"
_LONGEST_NAME = 255


def place_for_former(path: str) -> str:
    """Return where to keep the content of a file: beside it, or where temporary files lie if its
    folder takes none."""
    folder, name = os.path.split(path)
    if not os.access(folder, os.W_OK | os.X_OK):
        import tempfile

        return os.path.join(os.path.realpath(tempfile.gettempdir()), f"{_digest(path)}{_SUFFIX}")
    if len(os.fsencode(name)) + len(_SUFFIX) > _LONGEST_NAME:
        name = _digest(path)
    return os.path.join(folder, f"{name}{_SUFFIX}")


def _digest(path: str) -> str:
    import hashlib  # loads OpenSSL

    return hashlib.sha256(os.fsencode(path)).hexdigest()[:20]


def former_content(path: str) -> str:
    """Return the path of what a run that was killed kept of a file (absolute, links resolved), or
    an empty string.

    Nothing removes it but the run that made it, as soon as the file is whole.
    """
    place = place_for_former(path)
    try:
        state = os.lstat(place)
    except (OSError, ValueError):
        return ""
    # Where all put their temporary files, somebody else may have made it.
    own = os.path.dirname(place) == os.path.dirname(path) or (
        not hasattr(os, "geteuid") or state.st_uid == os.geteuid()
    )
    return place if own and stat.S_ISREG(state.st_mode) else ""


def half_written(former: str) -> str:
    """Return what to say of a file whose former content is still kept."""
    return (
        "may be half old and half new, as a run that wrote it was killed or goes on; all of the "
        "old is in "
        f"{former}: copy that back if it is needed, and remove it"
    )
