"""Which torch a project is for, where only its lists of dependencies, or its README, say so.

They come with the code that is checked, so they are read as text from a stranger: only regular
files of at most `MAX_BYTES`, nothing is run, parsed as Python, or fetched, and what cannot be read
says nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from torchlint.base.errors import ConfigError, SourceError
from torchlint.base.regex import regex
from torchlint.settings.files import MAX_BYTES, read_toml
from torchlint.settings.versions import Version, latest, lowest_torch, newest_torch
from torchlint.source.document import read_bytes


class Declared(NamedTuple):
    """Which torch lists of dependencies ask for.

    Args:
        lowest: the lowest one as (major, minor).
        path: the file that says so.
        newest: the last one that all of the lists allow; None where one is open.
    """

    lowest: tuple[int, int]
    path: str
    newest: Version | None


_MOST_ENTRIES = 20_000
_MOST_FILES = 20
_ENVIRONMENTS = "environment.yml environment.yaml env.yml env.yaml conda.yml conda.yaml".split()
_NAMES = (
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "PKG-INFO",
    *_ENVIRONMENTS,
    "requirements.txt",
)
_READMES = ("README.md", "README.rst", "README.txt", "README", "readme.md")
_LISTS = regex(r"[\w.-]*requirements[\w.-]*\.txt")
_FOLDER = "requirements"
_INSTALLED = ".dist-info"
_BUILT = ".egg-info"
_METADATA = "METADATA"
_OF_KIND = {_INSTALLED: (_METADATA,), _BUILT: ("PKG-INFO", "requires.txt")}
"""Folders of metadata, and the files in them that list what a distribution requires."""
_BOMS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))
_STRING = regex(
    r"#[^\n]*|'''((?:[^'\\]|\\.|'(?!''))*)'''|\"\"\"((?:[^\"\\]|\\.|\"(?!\"\"))*)\"\"\""
    r"|'((?:[^'\\\n]|\\.)*)'|\"((?:[^\"\\\n]|\\.)*)\"",
    re.DOTALL,
)
_COMMENT = regex(r"(?:^|\s)#.*$")
_HASH = regex(r"\s--\w.*$")
_CONDA = regex(r"-\s*[\"']?(?:[\w./-]+::)?(py)?torch\s*([<>=!~][^\"'\s#]*)")
_POETRY = regex(r"\^\s*(?=\d)|~\s*(?=\d)")
_SAID = regex(
    r"^\s*[-*]?\s*\[?(?:py)?torch\]?(?:\([^)\s]*\))?\s*(?:version\s*)?(?:>=|≥)\s*(\d+\.\d+)",
    re.IGNORECASE,
)
"""A line of a description: ``- [PyTorch](https://pytorch.org/)>=1.11.0``."""
_WORKS = regex(
    r"\bpytorch\s+v?(\d+\.\d+)(?:\.\d+)?(?:\s*\+|\s+(?:or|and)\s+(?:later|higher|newer|above)\b)",
    re.IGNORECASE,
)
"""The same in a sentence: ``works with PyTorch 1.6+``."""
_KEY = regex(r"^\s*install_requires\s*[=:]")


def declared_in(folder: str) -> Declared | None:
    """Return what the lists of dependencies in one folder say: of several the lowest bound
    counts."""
    return _lowest(lists_in(folder))


def declared_at(root: str) -> Declared | None:
    """Return what the lists of dependencies in the root of a project say, or else the torch that a
    line of its README asks for."""
    readmes = (os.path.join(root, name) for name in _READMES)
    return declared_in(root) or _lowest(path for path in readmes if os.path.isfile(path))


def _lowest(paths: Iterable[str]) -> Declared | None:
    found = []
    for path in paths:
        required = _requirements(path)
        bound = lowest_torch(required)
        if bound is not None:
            found.append(Declared(bound, path, newest_torch(required)))
    if not found:
        return None
    return min(found)._replace(newest=latest(each.newest for each in found))


def declared_above(folder: str, root: str, memory: dict[str, Declared | None]) -> Declared | None:
    """Return what the nearest list of dependencies says, in a folder or in one above it, but below
    `root`.

    Args:
        folder: absolute, links resolved.
        root: the same; nothing is looked for outside of it.
        memory: what is known by folder; pass the same dict to look each folder up once.
    """
    if folder == root or not folder.startswith(os.path.join(root, "")):
        return None
    if folder not in memory:
        memory[folder] = declared_in(folder) or declared_above(
            os.path.dirname(folder), root, memory
        )
    return memory[folder]


def declared_over(folder: str) -> Declared | None:
    """Return what the lists of dependencies in a folder say, or its README, or those in the nearest
    folder above it that has any, up to the top of its git repository."""
    while not (
        lists_in(folder) or declared_at(folder) or os.path.lexists(os.path.join(folder, ".git"))
    ):
        above = os.path.dirname(folder)
        if above == folder:
            return None
        folder = above
    return declared_at(folder)


def lists_in(folder: str) -> list[str]:
    """Return the lists of dependencies in a folder and in its folder ``requirements``, no more than
    `_MOST_FILES`.

    The metadata of a wheel lie beside its package, in ``<name>-<version>.dist-info``, those of a
    built source distribution in ``<name>.egg-info``; several of one kind are those of an
    environment, and say nothing of one package.
    """
    named = {os.path.join(folder, name) for name in _NAMES}
    entries = list(_entries(folder))
    listed = {path for path in entries if _LISTS.fullmatch(os.path.basename(path))}
    below = {path for path in _entries(os.path.join(folder, _FOLDER)) if path.endswith(".txt")}
    for kind, files in _OF_KIND.items():
        folders = [path for path in entries if path.endswith(kind)]
        if len(folders) == 1:
            named.update(os.path.join(folders[0], name) for name in files)
    return (
        sorted(path for path in named if os.path.isfile(path))
        + sorted({*listed, *below} - named)[:_MOST_FILES]
    )


def watched(folder: str) -> Iterator[str]:
    """Yield the paths that decide on `declared_in`, those that may come included, but for new lists
    of other names."""
    yield from (os.path.join(folder, name) for name in (*_NAMES, *_READMES, _FOLDER))
    yield from lists_in(folder)


def _entries(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count >= _MOST_ENTRIES:
                    return
                if entry.name.endswith((".txt", *_OF_KIND)):
                    yield entry.path
    except (OSError, ValueError):
        return


def _requirements(path: str) -> list[str]:
    """Return the requirements that a file lists; some of the lines may be none."""
    name = os.path.basename(path)
    if name == "pyproject.toml":
        return list(_of_pyproject(path))
    text = _text(path)
    reader = _READERS.get(name, _of_list)
    return list(reader(text))


def _text(path: str) -> str:
    try:
        data = read_bytes(path, path, MAX_BYTES)
    except SourceError:
        return ""
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    return data.decode(encoding, "replace")


def _of_pyproject(path: str) -> Iterator[str]:
    try:
        data, _ = read_toml(path)
    except ConfigError:  # It is broken; as it need not configure us, that is not ours to say.
        return
    project, groups = _table(data.get("project")), _table(data.get("dependency-groups"))
    lists = [
        project.get("dependencies"),
        *_table(project.get("optional-dependencies")).values(),
        *groups.values(),
    ]
    for each in lists:
        yield from (
            item for item in (each if isinstance(each, list) else ()) if isinstance(item, str)
        )
    poetry = _table(_table(_table(data.get("tool")).get("poetry")).get("dependencies"))
    wanted = poetry.get("torch")
    for one in wanted if isinstance(wanted, list) else [wanted]:
        version = _table(one).get("version") if isinstance(one, Mapping) else one
        if isinstance(version, str):
            bounds = _POETRY.sub(">=", version)
            yield f"torch=={bounds}" if bounds[:1].isdigit() else f"torch{bounds}"


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def _of_setup(text: str) -> Iterator[str]:
    """Yield the lines of the strings in Python code."""
    for found in _STRING.finditer(text):
        body = next((group for group in found.groups() if group), "")
        if "torch" in body:
            yield from (line.strip() for line in body.split("\n"))


def _of_list(text: str) -> Iterator[str]:
    """Yield the requirements of a list for pip."""
    for line in text.replace("\\\r\n", " ").replace("\\\n", " ").splitlines():
        if "torch" in line:
            yield _HASH.sub("", _COMMENT.sub("", line)).strip()


def _of_setup_cfg(text: str) -> Iterator[str]:
    yield from (_KEY.sub("", line) for line in _of_list(text))


def _of_metadata(text: str) -> Iterator[str]:
    """Yield the requirements in the metadata of an unpacked distribution, whose headers end at the
    first empty line (core metadata, packaging.python.org), or else the torch that a line of its
    description asks for."""
    headers, _, description = text.replace("\r\n", "\n").partition("\n\n")
    lines = [line for line in headers.splitlines() if line.startswith("Requires-Dist:")]
    required = [line.partition(":")[2].strip() for line in lines]
    yield from required
    if lowest_torch(required) is None:
        yield from _of_description(description)


def _of_description(text: str) -> Iterator[str]:
    said = (_SAID.match(line) or _WORKS.search(line) for line in text.splitlines())
    yield from (f"torch>={found[1]}" for found in said if found)


def _of_environment(text: str) -> Iterator[str]:
    """Yield the requirements of an environment for conda, in the words of pip."""
    for line in text.splitlines():
        found = _CONDA.match(line.strip())
        if found:
            version = found[2]
            if re.match(r"=[^=]", version):  # ``pytorch=1.10=py3.9_cuda11``
                version = "==" + version[1:].partition("=")[0]
            yield f"torch{version}"


_READERS: Mapping[str, Callable[[str], Iterator[str]]] = {
    "setup.py": _of_setup,
    "setup.cfg": _of_setup_cfg,
    "PKG-INFO": _of_metadata,
    _METADATA: _of_metadata,
    **dict.fromkeys(_ENVIRONMENTS, _of_environment),
    **dict.fromkeys(_READMES, _of_description),
}
