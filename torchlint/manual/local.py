"""The manual pages of all rules as plain HTML in the user's cache folder: they need no network, and
no host to lie on.

The files name what they hold in the name of their folder, so that another version, or another set
of plugins, has pages of its own, and pages that are there are complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import html
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from torchlint import __version__
from torchlint.base.errors import OutputError
from torchlint.base.places import TEMPORARY_PREFIX, TEMPORARY_SUFFIX
from torchlint.base.regex import regex
from torchlint.catalog.rules import Catalog
from torchlint.manual.engine_codes import ENGINE_PAGES
from torchlint.manual.pages import page
from torchlint.report.kit.markdown import Block, blocks
from torchlint.source.write import remove_stale

INDEX = "index"
_CODE = regex(r"\b[A-Z]{2,}[0-9]{3,}\b")
_STYLE = """\
:root { color-scheme: light dark; --line: #8885; --soft: #8881; }
body { font: 16px/1.6 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 14px/1.5 ui-monospace, monospace; background: var(--soft); border-radius: 4px; }
code { padding: 0 .25em; } pre { padding: .8em 1em; overflow-x: auto; }
pre code { padding: 0; background: none; }
table { border-collapse: collapse; }
td { border-bottom: 1px solid var(--line); padding: .2em .8em .2em 0; }
nav { font-size: 14px; }"""


def local_pages(catalog: Catalog, environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """Write the pages where they are not there yet, and return the file of each rule and engine
    code, and of `INDEX`.

    Args:
        catalog: the rules.
        environment: says where the cache folder of the user is.

    Raises:
        OutputError: they cannot be written.
    """
    pages = dict(_rendered(catalog))
    digest = hashlib.sha256(
        "\0".join(f"{name}\0{text}" for name, text in pages.items()).encode()
    ).hexdigest()
    folder = cache_home(environment) / "torchlint" / f"docs-{__version__}-{digest[:12]}"
    files = {name: folder / f"{name}.html" for name in pages}
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_stale(str(folder))
        for name, text in pages.items():
            _write(files[name], text.encode())
    except OSError as error:
        raise OutputError(
            f"the pages cannot be written to {folder}: {error.strerror or error}"
        ) from error
    return files


def cache_home(environment: Mapping[str, str]) -> Path:
    """Return the folder for what programs keep for a user and can make again.

    Raises:
        OutputError: nothing says where that is.
    """
    asked = environment.get("XDG_CACHE_HOME", "")
    if os.path.isabs(asked):
        return Path(asked)
    if sys.platform == "win32" and environment.get("LOCALAPPDATA"):
        return Path(environment["LOCALAPPDATA"])
    home = Path(_home(environment))
    return home / "Library" / "Caches" if sys.platform == "darwin" else home / ".cache"


def _home(environment: Mapping[str, str]) -> str:
    """Return the home folder; a variable that is empty or relative says nothing."""
    home = environment.get("HOME", "")
    if sys.platform == "win32" or os.path.isabs(home):
        return home if os.path.isabs(home) else os.path.expanduser("~")
    import pwd

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user without a name
        home = ""
    if not os.path.isabs(home):
        raise OutputError(
            "the pages cannot be written: you have no home folder; set XDG_CACHE_HOME to an "
            "absolute path"
        )
    return home


def _write(path: Path, data: bytes) -> None:
    """Write a file as a whole, unless it holds that already; what else stands at its name is
    replaced."""
    with contextlib.suppress(OSError):
        if not path.is_symlink() and path.read_bytes() == data:
            return
    descriptor, name = tempfile.mkstemp(TEMPORARY_SUFFIX, TEMPORARY_PREFIX, path.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _rendered(catalog: Catalog) -> Iterator[tuple[str, str]]:
    names = {info.code: info.name for info in catalog.rules}
    rows = [
        f"<tr><td><a href={code}.html>{code}</a></td><td><code>{html.escape(name)}</code></td>"
        f"<td>{_title(catalog, code)}</td></tr>"
        for code, name in names.items()
    ]
    rows += [
        f"<tr><td><a href={code}.html>{code}</a></td><td></td><td></td></tr>"
        for code in ENGINE_PAGES
    ]
    yield INDEX, _page(f"torchlint {__version__}: all rules", f"<table>{''.join(rows)}</table>")
    known = names.keys() | ENGINE_PAGES.keys()
    for info in catalog.rules:
        yield (
            info.code,
            _page(f"{info.code} {info.name}", "\n".join(_body(page(info), info.code, known))),
        )
    for code, text in ENGINE_PAGES.items():
        yield code, _page(code, "\n".join(_body(text, code, known)))


def _title(catalog: Catalog, code: str) -> str:
    info = catalog.find(code)
    return html.escape(info.title) if info is not None else ""


def _page(title: str, body: str) -> str:
    shown = html.escape(title)
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1">'
        f"<title>{shown}</title><style>\n{_STYLE}\n</style></head>\n<body><nav><a "
        "href=index.html>all rules</a></nav>\n"
        f"<h1>{shown}</h1>\n{body}\n</body></html>\n"
    )


def _body(markdown: str, own: str, known: set[str]) -> Iterator[str]:
    for block in blocks(markdown):
        yield _block(block, own, known)


def _block(block: Block, own: str, known: set[str]) -> str:
    if block.kind == "code":
        rows = "\n".join("".join(words for _, words in line) for line in block.lines)
        return f"<pre><code>{html.escape(rows)}</code></pre>"
    lines = [
        "".join(_piece(is_code, words, own, known) for is_code, words in line)
        for line in block.lines
    ]
    if block.kind == "heading":
        return f"<h2>{lines[0]}</h2>"
    if block.kind == "list":
        return f"<ul>{''.join(f'<li>{line}</li>' for line in lines)}</ul>"
    return f"<p>{lines[0]}</p>"


def _piece(is_code: bool, words: str, own: str, known: set[str]) -> str:
    shown = html.escape(words)
    if is_code:
        return f"<code>{shown}</code>"

    def link(found: re.Match[str]) -> str:
        code = found[0]
        return f"<a href={code}.html>{code}</a>" if code in known and code != own else code

    return _CODE.sub(link, shown)
