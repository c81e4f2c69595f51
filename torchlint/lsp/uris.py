"""Names of documents: which of them are files, and which are nothing that we look at."""

from __future__ import annotations

import os
import re
import sys
from urllib.parse import quote, unquote, urlsplit

UNTITLED = "untitled"
_DRIVE = re.compile(r"/[A-Za-z]:")


def scheme_of(uri: str) -> str:
    """Return what stands before the first colon, in lower case; nothing where it is no URI."""
    try:
        return urlsplit(uri).scheme
    except ValueError:  # a bracket that does not close
        return ""


def path_of(uri: str) -> str:
    """Return the absolute path of a ``file:`` URI, or an empty string for all that is no file.

    ``file://host/share/x.py`` is a path on another machine, ``//host/share/x.py``.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return ""
    path = unquote(parts.path, errors="surrogateescape")
    if parts.scheme != "file" or "\0" in path or not path.startswith("/"):
        return ""
    host = unquote(parts.netloc)
    if host and host != "localhost":
        path = f"//{host}{path}"
    elif sys.platform == "win32" and _DRIVE.match(path):
        path = path[1:]
    return os.path.normpath(path) if sys.platform == "win32" else path


def uri_of(path: str) -> str:
    """Return the ``file:`` URI of an absolute path."""
    posix = path.replace(os.sep, "/")
    if posix.startswith("//"):
        return f"file:{quote(os.fsencode(posix))}"
    return f"file://{'' if posix.startswith('/') else '/'}{quote(os.fsencode(posix))}"


def real_place(path: str) -> str:
    """Return a path with the links of its folder resolved; of a link, the place of the link
    counts."""
    folder, name = os.path.split(path)
    return os.path.join(os.path.realpath(folder), name)
