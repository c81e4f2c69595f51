"""Configuration files: where they lie, how they are read, and which others they extend.

They come with the code that is checked, so they are read as data from a stranger: only regular
files of at most `MAX_BYTES`, and TOML by tomli, whose limits hold on every Python (tomllib takes 10
s for one long key).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from torchlint import __version__
from torchlint.base.errors import ConfigError, TorchlintError
from torchlint.base.records import frozen
from torchlint.settings.keys import EXTEND, REQUIRED_VERSION, checked
from torchlint.settings.versions import meets
from torchlint.source.paths import kind_of

if TYPE_CHECKING:
    import tomli

NAMES = (".torchlint.toml", "torchlint.toml", "pyproject.toml")
"""Names of configuration files; of several in one folder the first counts."""
MAX_BYTES = 1_000_000
MAX_CHAIN = 10
"""How many files a chain of ``extend`` may hold, the first one included."""

_LONGEST_KEY = 200
"""In characters; the line of a longer key is not looked for, as its pattern alone takes a second to
compile."""


@frozen
class Layer:
    """The checked keys of one configuration file.

    Args:
        path: the file, absolute.
        values: the checked values by key.
        text: the file's text, to find the lines of keys.
    """

    path: str
    values: Mapping[str, object]
    text: str

    def place(self, key: str) -> str:
        """Return ``file:line: `` of a key for a message; without the line where it cannot be
        told."""
        return _place_of_key(self.path, self.text, key)


def read_toml(path: str) -> tuple[dict[str, object], str]:
    """Return the data and the text of a TOML file.

    Raises:
        ConfigError: not a regular file of at most `MAX_BYTES` with valid TOML in UTF-8; names file
            and line.
    """
    try:
        data = _read(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}:{line}: not UTF-8 (byte {data[error.start]:#04x})") from None
    if text.startswith("\ufeff"):
        raise ConfigError(f"{path}:1: starts with a byte order mark, which TOML does not allow")
    import tomli

    try:
        return tomli.loads(text), text
    except tomli.TOMLDecodeError as error:
        raise ConfigError(f"{path}:{_line_of(error, text)}: not valid TOML: {error}") from None
    except (
        RecursionError,
        ValueError,
    ) as error:  # nested too deeply, or a number of too many digits
        raise ConfigError(f"{path}:1: not usable TOML: {error}") from None


def _line_of(error: tomli.TOMLDecodeError, text: str) -> int:
    """Return the line of a TOML error; old versions of tomli say it in the message only."""
    found = re.search(r"\(at line (\d+)", str(error))
    return int(found[1]) if found else text.count("\n", 0, len(text.rstrip())) + 1


def _read(path: str) -> bytes:
    """Return a file's bytes; opening without waiting, so that a pipe cannot hang us."""
    state = os.stat(path)
    if not stat.S_ISREG(state.st_mode):  # said before it is opened: opening a device can act on it
        raise ConfigError(f"{path}: is {kind_of(state.st_mode)}, not a regular file")
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ConfigError(f"{path}: is not a regular file")
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}:1: is larger than {MAX_BYTES} bytes")
    return data


def find_config(path: str, memory: dict[str, str | None] | None = None) -> str | None:
    """Return the configuration file nearest to `path` (a file or folder): in its folder or in one
    above.

    Args:
        path: need not exist.
        memory: what is known by folder; pass the same dict to look each folder up once.

    Raises:
        ConfigError: a candidate cannot be read.
    """
    memory = {} if memory is None else memory
    try:
        folder = os.path.abspath(path)
    except (OSError, ValueError):  # the current directory was deleted, say
        return None
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    climbed = []
    while folder not in memory:
        climbed.append(folder)
        memory[folder] = _config_in(folder)
        if memory[folder] or os.path.dirname(folder) == folder:
            break
        folder = os.path.dirname(folder)
    for passed in climbed:
        memory[passed] = memory[folder]
    return memory[folder]


def _config_in(folder: str) -> str | None:
    for name in NAMES:
        path = os.path.join(folder, name)
        try:
            mode = os.stat(path).st_mode
        except (OSError, ValueError):
            continue
        if stat.S_ISDIR(mode):
            continue
        if name != "pyproject.toml" or _is_ours(path):
            return path
    return None


def _is_ours(path: str) -> bool:
    """Say whether a pyproject.toml configures torchlint; one that never names it is not even
    parsed."""
    try:
        if b"torchlint" not in _read(path):
            return False
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None
    tool = read_toml(path)[0].get("tool")
    return isinstance(tool, Mapping) and "torchlint" in tool


def read_chain(path: str) -> list[Layer]:
    """Return the layers of a configuration file: first what it extends, furthest first, last
    itself.

    Raises:
        ConfigError: a file cannot be read or used, or the chain of ``extend`` loops or is too long.
    """
    layers = [_read_layer(os.path.abspath(path))]
    seen = {os.path.realpath(path)}
    while isinstance(extend := layers[-1].values.get(EXTEND), str):
        where = layers[-1].place(EXTEND)
        target = os.path.join(os.path.dirname(layers[-1].path), os.path.expanduser(extend))
        target = os.path.normpath(target)
        if os.path.realpath(target) in seen:
            raise ConfigError(
                f"{where}{EXTEND} {extend!r} leads back to a file that extends this one"
            )
        if len(layers) == MAX_CHAIN:
            raise ConfigError(f"{where}{EXTEND}: more than {MAX_CHAIN} files in a chain")
        seen.add(os.path.realpath(target))
        try:
            layers.append(_read_layer(target))
        except ConfigError as error:
            raise ConfigError(f"{where}{EXTEND}: {error}") from None
    return layers[::-1]


def _read_layer(path: str) -> Layer:
    data, text = read_toml(path)
    section = ""
    if os.path.basename(path) == "pyproject.toml":
        section = " in [tool.torchlint]"
        tool = data.get("tool")
        table = tool.get("torchlint") if isinstance(tool, Mapping) else None
        if table is None:
            raise ConfigError(f"{path}: has no [tool.torchlint]")
        if not isinstance(table, dict):
            raise ConfigError(
                f"{_place_of_key(path, text, 'torchlint')}tool.torchlint must be a table"
            )
        data = table
    elif isinstance(data.get("tool"), Mapping):
        raise ConfigError(
            f"{_place_of_key(path, text, 'tool')}write the keys without [tool.torchlint] here"
        )
    # A file made for another torchlint is refused before anything in it can be found wrong.
    check_version(data, lambda key: _place_of_key(path, text, key), ConfigError)
    values = {
        key: checked(key, value, _place_of_key(path, text, key), ConfigError, section)
        for key, value in data.items()
    }
    return Layer(path, values, text)


def check_version(
    data: Mapping[str, object], place: Callable[[str], str], error: type[TorchlintError]
) -> None:
    """Refuse keys made for another torchlint.

    Args:
        data: the keys as they were written.
        place: gives what a message on a key starts with.
        error: the class to raise.

    Raises:
        TorchlintError: of class `error`; they ask for another version.
    """
    if REQUIRED_VERSION not in data:
        return
    where = place(REQUIRED_VERSION)
    wanted = str(checked(REQUIRED_VERSION, data[REQUIRED_VERSION], where, error))
    if not meets(__version__, wanted):
        raise error(f"{where}{REQUIRED_VERSION} is {wanted!r}, but this is torchlint {__version__}")


def _place_of_key(path: str, text: str, key: str) -> str:
    """Return ``file:line: `` with the first line after our header that starts with the key or names
    it in a header."""
    if len(key) > _LONGEST_KEY:
        return f"{path}: "
    header = re.search(r"^[ \t]*\[[ \t]*tool[ \t]*\.[ \t]*torchlint\b", text, re.MULTILINE)
    start = header.start() if header else 0
    quoted = rf"[\"']?{re.escape(key)}[\"']?"
    dotted = r"(?:(?:tool[ \t]*\.[ \t]*)?torchlint[ \t]*\.[ \t]*)?"
    found = re.compile(
        rf"^[ \t]*(?:\[[^\]\n]*\b)?{dotted}{quoted}[ \t]*[=.\]]", re.MULTILINE
    ).search(text, start)
    return f"{path}:{text.count(chr(10), 0, found.start()) + 1}: " if found else f"{path}: "
