"""Which files a command is about, and which settings hold for each."""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache

from torchlint.base.errors import ConfigError, TooLargeError, UsageError
from torchlint.base.places import VARIABLES
from torchlint.base.records import frozen
from torchlint.base.regex import regex
from torchlint.catalog.rules import Catalog
from torchlint.cli.options import Given, from_environment, overrides, variable
from torchlint.cli.output import complain
from torchlint.cli.terminal import is_terminal
from torchlint.settings import values
from torchlint.settings.dependencies import Declared
from torchlint.settings.files import find_config
from torchlint.settings.keys import FIELDS, KEYS, Settings
from torchlint.settings.load import (
    discover_options,
    find_root,
    in_folder,
    load_settings,
    marked_root,
    parse_inline,
)
from torchlint.source.discover import Found, SkipKind, Skipped, discover
from torchlint.source.document import Document, byte_limit, loaded, read, read_up_to
from torchlint.source.globs import matches
from torchlint.source.paths import folder_under, lies_in, real_folder_of

STDIN = "-"
PLACE = regex(
    r"(?P<path>.+?):(?:cell ?(?P<cell>\d{1,9}):)?(?P<row>\d{1,9})(?::(?P<column>\d{1,9}))?"
)
"""A file with a line, and maybe a column; of a notebook with a cell."""


@frozen
class Target:
    """A file to check with its settings; the path is empty for standard input."""

    found: Found
    settings: Settings

    @property
    def relative(self) -> str:
        """The posix path under the project root; of a link, the place of the link counts."""
        return place_under(self.settings.root, self.found.filename)

    @property
    def identity(self) -> str:
        """The path in fingerprints: the same whatever was named in the command, and from wherever.

        It is the path under the folder of the file's own configuration; where there is none, under
        the git root above the file, else under the nearest folder with a mark of a project, else
        the absolute one.
        """
        if (
            self.settings.config
            and os.path.dirname(os.path.realpath(self.settings.config)) == self.settings.root
        ):
            return self.relative
        folder = os.path.realpath(os.path.dirname(self.found.filename) or os.curdir)
        return place_under(marked_root(folder) or os.path.abspath(os.sep), self.found.filename)


def place_under(root: str, filename: str) -> str:
    """Return the posix path under a folder of a file as it was named; of a link, the place of the
    link counts."""
    folder, name = os.path.split(filename)
    return posixpath.join(_folder_under(root, folder), name)


_folder_under = lru_cache(maxsize=256)(folder_under)


@frozen
class Scope:
    """What a command is about.

    Args:
        settings: those of the first path; they decide what holds for the whole run.
        targets: the files, sorted by name.
        skipped: what was left out.
        named: the paths as the user gave them.
        folders: the real paths of the directories that were listed.
        marks: what lies in there and can decide on more than itself, see `Discovery`.
        declaring: the folders whose lists of dependencies were asked which torch the files are for.
    """

    settings: Settings
    targets: tuple[Target, ...]
    skipped: tuple[Skipped, ...]
    named: tuple[str, ...] = ()
    folders: frozenset[str] = frozenset()
    marks: frozenset[str] = frozenset()
    declaring: frozenset[str] = frozenset()

    def holds(self, target: Target) -> bool:
        """Say whether a file may be written: it is no link, or one to a file of the project or of a
        named folder.

        Folders on the way to it are followed, as the user named them: discovery follows no link to
        a folder.
        """
        folder, name = os.path.split(target.found.filename)
        path = target.found.path
        if os.path.join(os.path.realpath(folder or os.curdir), name) == path:
            return True
        places = {
            target.settings.root,
            *(os.path.realpath(each) for each in self.named if os.path.isdir(each)),
        }
        return any(path.startswith(os.path.join(place, "")) for place in places)

    def lacks_rules(self, catalog: Catalog) -> bool:
        """Say whether there are files, and the settings of all of them switch every rule off."""
        every = {target.settings for target in self.targets}
        return bool(every) and not any(
            catalog.enabled(each.select, each.ignore, each.extend_select) for each in every
        )

    def refused(self) -> tuple[str, ...]:
        """Return what configurations ask for that only the user may, a line each."""
        every = (self.settings, *(target.settings for target in self.targets))
        return tuple(
            dict.fromkeys(words for settings in dict.fromkeys(every) for words in settings.refused)
        )


class _Configured:
    """Finds the settings of arguments and files; each configuration file is read once."""

    def __init__(self, given: Given, catalog: Catalog) -> None:
        self.catalog = catalog
        self.isolated: bool = given["isolated"]
        self.here: bool = given.get("here", False)
        self.named: str | None = None
        self.overrides = from_environment(given)
        self.memory: dict[str, str | None] = {}
        self.by_config: dict[str, Settings] = {}
        self.declared: dict[str, Declared | None] = {}
        for config in given["configs"]:
            if "=" in config and not os.path.exists(config):
                self.overrides.update(parse_inline(config))
            elif self.named is not None:
                raise UsageError(
                    f"--config: only one file can be used, not {self.named} and {config}"
                )
            elif self.isolated:
                raise UsageError("--config FILE and --isolated cannot be used together")
            else:
                self.named = config
        if self.named is None and not self.isolated:
            self.named = variable("config")
            if self.named is not None and not os.path.isfile(self.named):
                raise UsageError(f"{VARIABLES['config']}: there is no file {self.named}")
        self.overrides.update(
            (key, value) for key, value in overrides(given).items() if value is not None
        )

    def of_argument(self, path: str) -> Settings:
        """Return the settings that hold where `path` is: a file or folder, which need not exist."""
        folder = path if os.path.isdir(path) else os.path.dirname(path)
        return in_folder(self._of_project(path), folder, self.declared)

    def _start(self, path: str) -> str:
        """Return where to look for the root of a path that no configuration holds for."""
        here = os.path.realpath(os.curdir) if self.here and os.path.exists(os.curdir) else ""
        inside = bool(here) and lies_in(path, here)
        return os.curdir if inside and not marked_root(real_folder_of(path)) else path

    def _of_project(self, path: str) -> Settings:
        if self.named is not None or self.isolated:
            root = find_root(self._unread(path), self._start(path))
            return load_settings(
                self.named, self.overrides, root=root, catalog=self.catalog, trusted=True
            )
        config = find_config(path, self.memory)
        if config is None:
            start = self._start(path)
            return load_settings(None, self.overrides, start=start, catalog=self.catalog)
        if config not in self.by_config:
            self.by_config[config] = load_settings(config, self.overrides, catalog=self.catalog)
        return self.by_config[config]

    def _unread(self, path: str) -> str | None:
        """Return the configuration file that would hold without ``--isolated``: its folder is the
        project's root all the same. One that cannot be read is none."""
        if not self.isolated:
            return None
        try:
            return find_config(path, self.memory)
        except ConfigError:
            return None

    def of_file(self, filename: str, argument: Settings) -> Settings:
        """Return the settings of a file that was found by an argument with the settings
        `argument`."""
        config = (
            None if self.named is not None or self.isolated else find_config(filename, self.memory)
        )
        if config is None or os.path.abspath(config) == argument.config:
            return in_folder(argument, os.path.dirname(filename), self.declared)
        return self.of_argument(filename)


def refuse_configuration(given: Given, catalog: Catalog) -> None:
    """Refuse a configuration that the user named and that cannot be used, where no file is looked
    for.

    Raises:
        UsageError: options that contradict each other, or no such file.
        ConfigError: it cannot be used.
    """
    if given["configs"] or variable("config") is not None:
        asked = {name: given[name] for name in ("configs", "isolated")}
        _Configured(asked, catalog).of_argument(os.curdir)


def scope(
    given: Given, catalog: Catalog, before: Callable[[Settings], object] | None = None
) -> Scope:
    """Find the files that a command's paths stand for.

    Args:
        given: the command's parameters; ``here`` says that a root that nothing marks is the current
            folder, for what lies in it, as if that were named.
        catalog: the rules.
        before: is told the settings of the paths that exist, before any file is looked for.

    Raises:
        UsageError: paths or options that contradict each other.
        ConfigError: a configuration cannot be used.
    """
    configured = _Configured(given, catalog)
    paths: Sequence[str] = given["paths"] or (os.curdir,)
    if STDIN in paths:
        if len(paths) > 1:
            raise UsageError("- (standard input) cannot be named together with other paths")
        return _of_stdin(given["stdin_filename"], configured)
    if given["stdin_filename"] is not None:
        raise UsageError("--stdin-filename needs the path - (standard input)")
    groups: dict[Settings, list[str]] = {}
    for path in paths:
        groups.setdefault(configured.of_argument(path), []).append(path)
    targets: dict[str, Target] = {}
    skipped: set[Skipped] = set()
    folders: set[str] = set()
    marks: set[str] = set()
    for settings, group in groups.items():
        if before is not None and any(map(os.path.exists, group)):
            before(settings)
    for settings, group in groups.items():
        discovery = discover(group, discover_options(settings))
        skipped.update(discovery.skipped)
        _refuse_selectors(discovery.skipped, catalog, given)
        _refuse_places(discovery.skipped)
        folders.update(discovery.folders)
        marks.update(discovery.marks)
        for found in discovery.files:
            if found.path not in targets:
                targets[found.path] = Target(found, configured.of_file(found.filename, settings))
    in_order = sorted(targets.values(), key=lambda target: target.found.filename)
    return Scope(
        next(iter(groups)),
        tuple(in_order),
        tuple(sorted(skipped, key=lambda skip: skip.filename)),
        tuple(paths),
        frozenset(folders),
        frozenset(marks),
        frozenset(configured.declared),
    )


def _absent(skipped: Sequence[Skipped]) -> list[str]:
    """Return the named paths that do not exist."""
    return [
        skip.filename
        for skip in skipped
        if skip.kind is SkipKind.ERROR and not os.path.lexists(skip.filename)
    ]


def _refuse_selectors(skipped: Sequence[Skipped], catalog: Catalog, given: Given) -> None:
    """Refuse paths that are rules, and no files: words behind the first of ``--select``.

    Raises:
        UsageError: there is one.
    """
    absent = _absent(skipped)
    names = [name for name in given["paths"] if name in absent and catalog.stands_for(name)]
    if not names:
        return
    options = [key for key, row in KEYS.items() if row.check in (values.rules, values.selection)]
    asked = [(key, typed) for key in options if (typed := given.get(FIELDS[key]))]
    if len(asked) == 1:
        [(key, typed)] = asked
        how = f"join rules by commas, as in --{key} {','.join((*typed, *names))}"
    else:
        how = f"name rules in an option, as in --select {','.join(names)}"
    raise UsageError(f"{names[0]} is a rule, and no file: {how}")


def _refuse_places(skipped: Sequence[Skipped]) -> None:
    """Refuse paths that do not exist and are a file with a line: ``--explain`` takes those.

    Raises:
        UsageError: there is one.
    """
    for name in _absent(skipped):
        place = PLACE.fullmatch(name)
        if place is not None and os.path.isfile(place["path"]):
            import shlex  # only a mistake needs it

            raise UsageError(
                f"there is no file {name}; did you mean `torchlint check --explain "
                f"{shlex.quote(name)}`?"
            )


def _of_stdin(filename: str | None, configured: _Configured) -> Scope:
    settings = configured.of_argument(filename or os.curdir)
    target = Target(Found(filename or STDIN, ""), settings)
    if filename is not None and settings.force_exclude:
        parts = target.relative.split("/")
        if any(matches("/".join(parts[: end + 1]), settings.exclude) for end in range(len(parts))):
            return Scope(settings, (), (Skipped(filename, "excluded", SkipKind.EXCLUDED),))
    return Scope(settings, (target,), ())


def read_target(target: Target) -> Document:
    """Read a file of the scope, or standard input in its place; errors are those of `read` and
    `read_stdin`."""
    limit, name = target.settings.max_file_size, target.found.filename
    if not target.found.path:
        return loaded(read_stdin(byte_limit(name, limit), name), "", name, limit)
    return read(target.found.path, name, limit)


def read_stdin(max_size: int, filename: str) -> bytes:
    """Read standard input to its end.

    Args:
        max_size: the largest size allowed, in bytes; 0 for no limit.
        filename: what to call it in messages.

    Raises:
        TooLargeError: there is more.
        UsageError: there is no standard input.
    """
    if sys.stdin is None:
        raise UsageError("standard input is closed")
    if is_terminal(sys.stdin):
        complain("torchlint: reading from standard input; end it with Ctrl-D")
    data = read_up_to(sys.stdin.buffer, max_size)
    if max_size and len(data) > max_size:
        raise TooLargeError(f"{filename}: is larger than {max_size} bytes (--max-file-size)")
    return data
