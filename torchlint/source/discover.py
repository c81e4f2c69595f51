"""From the paths that a user names to the files to check.

A named file is always taken; a directory is walked for names that `include` matches, leaving out
what `exclude` or git's ignore files match. Links to files are followed, links to directories met on
the way are not (as in ruff and git), so loops cannot happen; a link to a directory can be named.
"""

from __future__ import annotations

import enum
import errno
import os
import stat
from collections.abc import Sequence
from dataclasses import field

from torchlint.base.errors import ConfigError
from torchlint.base.records import frozen
from torchlint.source.document import reason_of
from torchlint.source.gitignore import Chain, GitIgnores, reason_to_ignore
from torchlint.source.globs import GlobList
from torchlint.source.paths import kind_of

DEFAULT_INCLUDE = ("*.py", "*.pyi", "*.ipynb")
DEFAULT_EXCLUDE = tuple(
    """
    .bzr .direnv .eggs .git .git-rewrite .hg .ipynb_checkpoints .mypy_cache .nox .pants.d .pyenv
    .pytest_cache .pytype .ruff_cache .svn .torchlint_cache .tox .venv .vscode __pycache__
    __pypackages__ _build buck-out build dist node_modules site-packages venv
    """.split()
)


MARKS = {".gitignore", ".torchlint.toml", "torchlint.toml", "pyproject.toml"}
"""Names of files that decide on others in and below their directory."""


@frozen
class DiscoverOptions:
    """How to look for files.

    Args:
        root: the project root, absolute; `include` and `exclude` are relative to it.
        include: globs of the names that are taken from a directory.
        exclude: globs of files and directories that are left out of a directory.
        respect_gitignore: whether git's ignore files count.
        force_exclude: whether excludes also hold for paths that are named, as pre-commit needs.
    """

    root: str
    include: tuple[str, ...] = DEFAULT_INCLUDE
    exclude: tuple[str, ...] = DEFAULT_EXCLUDE
    respect_gitignore: bool = True
    force_exclude: bool = False


@frozen
class Found:
    """A file to check: its name as the user should see it, and its real path (absolute, links
    resolved)."""

    filename: str
    path: str


class SkipKind(enum.Enum):
    """How much a path that was left out matters."""

    EXCLUDED = "excluded"
    """As configured; only worth a word when the user asks why."""
    NOTE = "note"
    """The user should hear of it, but it does not fail the run."""
    ERROR = "error"
    """A named path or a directory that cannot be read: fails the run."""


@frozen
class Skipped:
    """A path that was left out, and why."""

    filename: str
    reason: str
    kind: SkipKind


@frozen
class Discovery:
    """The files to check, sorted by name, each real file once; and what was left out, sorted too.

    `folders` are the real paths of the directories that were listed, and `marks` the paths in there
    that can decide on more than themselves: links, ignore files and configurations.
    """

    files: tuple[Found, ...]
    skipped: tuple[Skipped, ...]
    folders: tuple[str, ...] = field(default=(), compare=False)
    marks: tuple[str, ...] = field(default=(), compare=False)


def discover(paths: Sequence[str], options: DiscoverOptions) -> Discovery:
    """Find the files that `paths` stand for: files and directories, absolute or relative to the
    working one.

    Nothing that the file system does raises: it is listed in `Discovery.skipped`.

    Raises:
        ConfigError: a glob of `options` can match nothing.
    """
    search = _Search(options)
    for path in paths:
        search.named(path)
    search.resolve_links()
    files = sorted(search.files, key=lambda found: found.filename)
    skipped = sorted(set(search.skipped), key=lambda skip: (skip.filename, skip.reason))
    return Discovery(tuple(files), tuple(skipped), tuple(search.folders), tuple(search.marks))


def _globs(key: str, patterns: Sequence[str]) -> GlobList:
    globs = GlobList.parse(patterns)
    for pattern, reason in globs.bad:
        raise ConfigError(f"{key}: the glob '{pattern}' can match nothing: {reason}")
    return globs


def _shown(given: str) -> str:
    """Return a named path without ``./``, ``//`` and ``x/..``, where that still leads to the same
    place."""
    short = os.path.normpath(given)
    return short if os.path.realpath(short) == os.path.realpath(given) else given


class _Search:
    """One discovery: what was found so far, and what was seen already."""

    def __init__(self, options: DiscoverOptions) -> None:
        self.options = options
        self.root = os.path.realpath(options.root)
        self.include = _globs("include", options.include)
        self.exclude = _globs("exclude", options.exclude)
        self.git = GitIgnores(
            self.root, lambda path, reason: self.skip(path, reason, SkipKind.NOTE)
        )
        self.files: list[Found] = []
        self.skipped: list[Skipped] = []
        self.links: list[tuple[str, str]] = []
        self.folders: list[str] = []
        self.marks: list[str] = []
        self.seen_files: set[str | tuple[int, int]] = set()

    def skip(self, filename: str, reason: str, kind: SkipKind) -> None:
        self.skipped.append(Skipped(filename, reason, kind))

    def failed(self, filename: str, error: Exception) -> None:
        """Record a path that the system refuses; one that is too long is no fault of the file's."""
        long = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
        self.skip(filename, reason_of(error), SkipKind.NOTE if long else SkipKind.ERROR)

    def named(self, given: str) -> None:
        """Take a path that the user named."""
        try:
            mode = os.stat(given).st_mode
            shown, real = _shown(given), os.path.realpath(given)
            place = real
            if stat.S_ISREG(mode):
                # Of a link, the place of the link counts, not that of its target.
                place = os.path.join(
                    os.path.realpath(os.path.dirname(given) or os.curdir), os.path.basename(given)
                )
        except (OSError, ValueError) as error:
            dangling = isinstance(error, FileNotFoundError) and os.path.islink(given)
            reason = "is a link to nothing" if dangling else reason_of(error)
            self.skip(given, reason, SkipKind.ERROR)
            return
        excluded = (
            self.why_not_named(place, stat.S_ISDIR(mode)) if self.options.force_exclude else ""
        )
        if excluded:
            self.skip(shown, excluded, SkipKind.EXCLUDED)
        elif stat.S_ISDIR(mode):
            self.walk(shown, real)
        elif stat.S_ISREG(mode):
            self.take(shown, real)
        else:
            self.skip(shown, f"is {kind_of(mode)}, not a regular file", SkipKind.ERROR)

    def why_not_named(self, place: str, is_directory: bool) -> str:
        """Return why the real path `place`, or a directory above it, is excluded, or an empty
        string."""
        relative = self.relative(place, os.path.dirname(place))
        glob = self.exclude.covering(relative, is_directory) if relative != "." else None
        if glob is not None:
            return f"excluded by '{glob.text}'"
        if not self.options.respect_gitignore:
            return ""
        chain = self.git.chain(os.path.dirname(place))
        path, levels = place, [place]
        while chain and os.path.dirname(path) != chain[0].base:
            path = os.path.dirname(path)
            levels.append(path)
        for path in reversed(levels):
            above = self.git.chain(os.path.dirname(path))
            reason = reason_to_ignore(above, path, is_directory or path != place)
            if reason:
                return reason
        return ""

    def relative(self, path: str, base: str) -> str:
        """Return the posix path of `path` under the root, or under `base` where it lies
        elsewhere."""
        inside = os.path.join(path, "").startswith(os.path.join(self.root, ""))
        return os.path.relpath(path, self.root if inside else base).replace(os.sep, "/")

    def take(self, filename: str, real: str) -> None:
        """Add a regular file, unless it is known by this or another name."""
        try:
            state = os.stat(real)
        except OSError as error:
            self.failed(filename, error)
            return
        # Two names with one inode and one link are one file on a file system that folds case.
        keys: list[str | tuple[int, int]] = [real]
        if state.st_nlink == 1:
            keys.append((state.st_dev, state.st_ino))
        if self.seen_files.isdisjoint(keys):
            self.files.append(Found(filename, real))
        self.seen_files.update(keys)

    def walk(self, shown: str, real: str) -> None:
        """Take the files of a directory and of those below it; an explicit stack, as trees can be
        deep."""
        git = self.git.chain(os.path.dirname(real)) if self.options.respect_gitignore else ()
        stack = [(shown, real, git)]
        while stack:
            prefix, directory, chain = stack.pop()
            self.folders.append(directory)
            try:
                with os.scandir(directory) as entries:
                    listing = list(entries)
            except OSError as error:
                self.failed(prefix, error)
                continue
            chain = self.chain_inside(directory, chain, listing)
            inner = self.relative(directory, real)
            for entry in listing:
                name = entry.name if prefix == os.curdir else os.path.join(prefix, entry.name)
                place = os.path.join(directory, entry.name)
                relative = entry.name if inner == "." else f"{inner}/{entry.name}"
                try:
                    if self.visit(entry, name, place, relative, chain):
                        stack.append((name, place, chain))
                except OSError as error:
                    self.failed(name, error)

    def chain_inside(
        self, directory: str, chain: Chain, listing: Sequence[os.DirEntry[str]]
    ) -> Chain:
        """Return the ignore files for what lies in `directory`, given those of its parent."""
        names = {entry.name for entry in listing}
        self.marks += (os.path.join(directory, name) for name in MARKS & names)
        if ".git" in names:
            self.marks.append(os.path.join(directory, ".git", "info", "exclude"))
        if not self.options.respect_gitignore or names.isdisjoint((".git", ".gitignore")):
            return chain
        # A repository inside another one does not obey the outer one.
        return (() if ".git" in names else chain) + self.git.own(directory)

    def visit(
        self, entry: os.DirEntry[str], name: str, place: str, relative: str, chain: Chain
    ) -> bool:
        """Take a file that was met in a directory; return whether the entry is a directory to
        walk."""
        is_directory = entry.is_dir(follow_symlinks=False)
        is_link = entry.is_symlink()
        if not is_directory:
            if not (is_link or entry.is_file(follow_symlinks=False)):
                return False
            wanted = self.include.deciding(relative, False)
            if wanted is None or wanted.negated:
                return False
        glob = self.exclude.deciding(relative, is_directory)
        if glob is not None and not glob.negated:
            self.skip(name, f"excluded by '{glob.text}'", SkipKind.EXCLUDED)
            return False
        ignored = reason_to_ignore(chain, place, is_directory)
        if ignored:
            self.skip(name, ignored, SkipKind.EXCLUDED)
        elif is_link:
            self.links.append((name, place))
            self.marks.append(place)
        elif not is_directory:
            self.take(name, place)
        return is_directory and not ignored

    def resolve_links(self) -> None:
        """Take the links that were met, last, so that a file that has a name of its own is shown by
        that."""
        for name, place in sorted(self.links):
            try:
                mode = os.stat(place).st_mode
            except OSError as error:
                reason = (
                    "is a link to nothing"
                    if isinstance(error, FileNotFoundError)
                    else reason_of(error)
                )
                self.skip(name, reason, SkipKind.NOTE)
                continue
            if stat.S_ISREG(mode):
                self.take(name, os.path.realpath(place))
            else:
                self.skip(name, f"is a link to {kind_of(mode)}", SkipKind.EXCLUDED)
