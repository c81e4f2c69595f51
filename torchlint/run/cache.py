"""The cache: reports of earlier runs, looked up by all that a report depends on, and stored for the
next run.

The cache is what lies on the disk between runs; what one process knows while it lasts is its
memory.

One file holds the reports of one project under one set of settings; its name is the digest of
torchlint's own code, the rules, the versions of Python and libcst, and the settings that reach the
analysis. A report of it counts where the file holds the same content, and where each other file
that the analysis read still does, and none that it looked for in vain has appeared.

Questions about all files of the project (who calls this function?) would have each report rest on
each file. So their answers are kept: while no file of the project has changed they hold, and else
a worker asks the questions again, for all reports at once, before any report is looked up. That
reads the files, and analyses none.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from importlib.machinery import PathFinder
from itertools import chain
from typing import Any

import torchlint
from torchlint.base.finding import FileReport, NoteKind
from torchlint.base.remembered import remembered
from torchlint.base.trail import (
    ASKED,
    IS_FILE,
    LISTING,
    NO_MODULE,
    NOTHING,
    TREE,
    is_content,
    listing,
    tree,
)
from torchlint.catalog.rules import Catalog
from torchlint.run.cache_folder import CacheFolder, on_ci, open_folder
from torchlint.run.digests import Contents, State, digest_of
from torchlint.run.report_json import NoReportError, packed, unpacked
from torchlint.settings.keys import Decides, Settings, deciding
from torchlint.source.paths import shown

PARTS = (
    "base",
    "catalog",
    "edits",
    "engine",
    "fixes",
    "rules",
    "run",
    "semantic",
    "settings",
    "source",
    "rule.py",
)
"""The parts of the package that decide what is found."""

_PATIENCE = 60.0
"""CPU seconds that a worker may take to ask again what is known of all files of a project."""

Fact = tuple[str, str]
"""Another path that a report depends on, and its state: a digest, or a word of
`torchlint.base.trail`."""


class Cache:
    """What a run that checks files uses: folders, opened before its files are looked for, with a
    part for each project.

    Args:
        catalog: the rules.
        named: whether the user named the folder in the command.
        reading: whether reports are only looked up: then no folder is made.
    """

    def __init__(self, catalog: Catalog, *, named: bool, reading: bool = False) -> None:
        self.catalog = catalog
        self.named = named
        self.reading = reading
        self.exact = on_ci()
        self._folders: dict[str, CacheFolder | None] = {}
        self._projects: dict[Settings, ProjectCache] = {}
        self._code = ""
        self._warning = ""

    @property
    def warning(self) -> str:
        """What was wrong with a folder or a file in it, in one line; empty where nothing was."""
        troubles = (folder.trouble for folder in self._folders.values() if folder is not None)
        return self._warning or next(filter(None, troubles), "")

    def folder(self, settings: Settings) -> CacheFolder | None:
        """Return the folder of a project's cache, or None where it cannot be used."""
        path = settings.cache_dir
        if path not in self._folders:
            wanted = path and (not self.reading or os.path.isdir(path))
            found = open_folder(path, named=self.named) if wanted else ""
            if isinstance(found, str):
                self._warning = self._warning or found
            self._folders[path] = found if isinstance(found, CacheFolder) else None
        return self._folders[path]

    def of(self, settings: Settings) -> ProjectCache | None:
        """Return the part for the files with these settings, or None where there can be none."""
        if settings in self._projects:
            return self._projects[settings]
        folder = self.folder(settings)
        if folder is None:
            return None
        self._code = self._code or code_digest(self.catalog, exact=self.exact)
        self._projects[settings] = ProjectCache(folder, settings, self._code, exact=self.exact)
        return self._projects[settings]

    def facts(self) -> Iterator[Fact]:
        """Yield what the reports of this run depend on besides the files themselves."""
        for project in self._projects.values():
            yield from project.facts()

    def save(self) -> None:
        """Write what is new."""
        for project in () if self.reading else self._projects.values():
            project.save()


class ProjectCache:
    """The cached reports of one project under one set of settings.

    Args:
        folder: where they lie.
        settings: those of the project's files.
        code: the digest of all that decides what is found in a file, see `code_digest`.
        exact: whether every file shall be read, whatever its state says.
    """

    def __init__(self, folder: CacheFolder, settings: Settings, code: str, *, exact: bool) -> None:
        self.folder = folder
        self.root = settings.root
        torch = bool(settings.target_torch_from), settings.newest_torch
        values = json.dumps([code, settings.root, torch, *deciding(settings, Decides.FINDINGS)])
        self.name = f"results-{hashlib.sha256(values.encode()).hexdigest()[:32]}.json"
        self._value = _Value(folder.read(self.name))
        self._contents = Contents({} if exact else self._value.known, folder.settled)
        self._every: dict[str, str] = {}
        self._tree_now = ""
        self._confirmed: frozenset[Fact] | None = None
        self._then: list[Fact] = []
        self._renewed: dict[str, list[Fact]] = {}
        self._hits: set[str] = set()
        self._seen: set[str] = set()
        self._fresh: dict[str, tuple[str, tuple[Fact, ...], list[Any]]] = {}

    def look_up(
        self, relative: str, path: str, filename: str, max_size: int, identity: str = ""
    ) -> FileReport | None:
        """Return the report of a file, or None where none is known that holds.

        Args:
            relative: the file's posix path under the root.
            path: its real path.
            filename: the name that the user sees.
            max_size: the largest size of a file that is looked into; 0 for no limit.
            identity: the path in its fingerprints.
        """
        self._seen.add(relative)
        entry = self._value.files.get(relative)
        if (
            not isinstance(entry, list)
            or len(entry) != 6
            or f"{self._contents.digest(path)} {identity}" != entry[0]
        ):
            return None
        if not self._contents.digest(path) or (
            max_size and self._contents.sizes.get(path, 0) > max_size
        ):
            return None
        try:
            if not self._all_hold(relative, entry[1]):
                return None
            report = unpacked(entry[2:], filename, lambda name: self._shown(name, filename))
            report = replace(report, rests_on=tuple(map(self._value.facts.__getitem__, entry[1])))
        except (NoReportError, TypeError, IndexError):
            return None
        self._hits.add(relative)
        return report

    def store(
        self, relative: str, path: str, content: str, report: FileReport, identity: str = ""
    ) -> None:
        """Store the report of a file whose content has the digest `content`; not where torchlint
        itself failed."""
        failed = any(
            note.kind not in (NoteKind.SKIPPED, NoteKind.UNSUPPORTED)
            or note.filename != report.filename
            for note in report.notes
        )
        if report.rests_on is None or failed:
            return
        self._contents.note(path, content)
        for other, state in report.rests_on:
            if is_content(state):
                self._contents.note(other, state)
        stored = packed(report, lambda name: self._stored(name, report))
        self._fresh[relative] = (f"{content} {identity}", report.rests_on, stored)

    def facts(self) -> Iterator[Fact]:
        """Yield the other paths that the reports of this run depend on, some more than once."""
        for relative in self._hits:
            yield from self._named(self._value.facts[i] for i in self._value.files[relative][1])
        for _, facts, _ in self._fresh.values():
            yield from self._named(facts)
        yield from self._every.items()
        if self._renewed:
            yield from self._named(self._then)

    def _named(self, facts: Iterable[Fact]) -> Iterator[Fact]:
        """Yield facts, but for questions about all files; these files are yielded by themselves."""
        for path, state in facts:
            if state.startswith(TREE):
                self._tree()
            elif not state.startswith(ASKED):
                yield path, state

    def save(self) -> None:
        """Write what is new, with what other runs wrote meanwhile; reports of files that are gone
        are dropped."""
        fresh = (fact for _, facts, _ in self._fresh.values() for fact in facts)
        if any(state.startswith(TREE) for _, state in chain(self._value.facts, fresh)):
            self._tree()  # so that the next run knows these files by their states
        settled = self._contents.settled()
        new = self._fresh or self._renewed or not settled.items() <= self._value.known.items()
        if not new:
            return
        value = _Value(self.folder.read(self.name))
        files: dict[str, Any] = {}
        facts: dict[Fact, int] = {}
        for relative, entry in value.files.items():
            if relative in self._fresh or not self._still_counts(relative):
                continue
            try:
                used = [value.facts[index] for index in entry[1]]
            except (TypeError, IndexError):
                continue
            if used == self._renewed.get(relative):  # else another run was quicker
                used = self._as_confirmed(used)
            files[relative] = [
                entry[0],
                [facts.setdefault(fact, len(facts)) for fact in used],
                *entry[2:],
            ]
        for relative, (content, used_here, report) in self._fresh.items():
            files[relative] = [
                content,
                [facts.setdefault(fact, len(facts)) for fact in used_here],
                *report,
            ]
        named = {path for path, _ in facts} | self._every.keys()
        named |= {os.path.normpath(os.path.join(self.root, name)) for name in files}
        known = {path: item for path, item in value.known.items() if path in named} | settled
        self.folder.write(
            self.name,
            {
                "facts": list(facts),
                "known": {path: [*state, content] for path, (state, content) in known.items()},
                "files": files,
            },
        )

    def _still_counts(self, relative: str) -> bool:
        if relative in self._seen:
            return relative in self._hits
        return os.path.lexists(os.path.join(self.root, relative))

    def _all_hold(self, relative: str, indexes: list[int]) -> bool:
        """Say whether the facts of a report are still ones."""
        facts = [self._value.facts[index] for index in indexes]
        trees = [state for _, state in facts if state.startswith(TREE)]
        asked = [fact for fact in facts if fact[1].startswith(ASKED)]
        of_all = len(trees) + len(asked)  # they stand behind the others
        if not all(map(self._fact_holds, indexes[: len(indexes) - of_all])):
            return False
        if not asked or trees == [self._tree()]:
            return True
        if not self._answers() >= {*asked}:
            return False
        self._renewed[relative] = facts
        return True

    def _tree(self) -> str:
        """Return the state of all files of the project."""
        if not self._tree_now:
            from torchlint.semantic.project.search import Search

            search = Search(self.root)
            every = search.every_file()
            contents = [(path, self._contents.digest(path)) for path in every or ()]
            self._every = {**search.listings, **dict(contents)}
            self._tree_now = tree(search.listings, contents if every is not None else None)
        return self._tree_now

    def _answers(self) -> frozenset[Fact]:
        """Return the stored answers to questions about all files that are still right; none where
        the worker fails that asks again."""
        if self._confirmed is None:
            from torchlint.engine.job import Job
            from torchlint.run.run import RunOptions, run
            from torchlint.run.worker import confirm_job
            from torchlint.source.document import Document

            facts = tuple(fact for fact in self._value.facts if fact[1].startswith(ASKED))
            document = Document(self.root, "", "", "utf-8", bom=False, data=b"")
            job = Job(document, "", frozenset(), root=self.root, facts=facts)
            with closing(run([job], RunOptions(jobs=1, timeout=_PATIENCE), confirm_job)) as reports:
                found = next(reports).rests_on or ()
            self._confirmed = frozenset(fact for fact in found if fact[1].startswith(ASKED))
            self._then = [fact for fact in found if not fact[1].startswith(ASKED)]
        return self._confirmed

    def _as_confirmed(self, facts: list[Fact]) -> list[Fact]:
        """Return the facts of a report whose answers were confirmed: with what these rest on
        now."""
        asked = [fact for fact in facts if fact[1].startswith(ASKED)]
        others = [fact for fact in facts if not fact[1].startswith((TREE, ASKED))]
        return [*dict.fromkeys([*others, *self._then]), *asked]

    @remembered
    def _fact_holds(self, index: int) -> bool:
        """Say whether a stored fact is still one."""
        path, state = self._value.facts[index]
        if state == IS_FILE:
            holds = os.path.isfile(path)
        elif state == NOTHING:
            holds = not os.path.lexists(path)
        elif state == NO_MODULE:
            holds = not os.path.lexists(path) and not os.path.lexists(f"{path}.py")
        elif state.startswith(LISTING):
            holds = listing(path)[2] == state
        else:
            holds = self._contents.digest(path) == state
        return holds

    def _stored(self, name: str, report: FileReport) -> str:
        """Return the name of a file to store: nothing for the report's own, else as seen from the
        root."""
        return "" if name == report.filename else os.path.relpath(os.path.abspath(name), self.root)

    def _shown(self, name: str, filename: str) -> str:
        return shown(os.path.join(self.root, name)) if name else filename


class _Value:
    """What a file of the cache holds, in types that can be relied on but for the single reports."""

    def __init__(self, value: dict[str, Any] | None) -> None:
        self.facts: list[Fact] = []
        self.known: dict[str, tuple[State, str]] = {}
        self.files: dict[str, Any] = {}
        try:
            facts = [(path, state) for path, state in value["facts"]] if value else []
            known = (
                {path: (tuple(item[:4]), item[4]) for path, item in value["known"].items()}
                if value
                else {}
            )
            files = value["files"] if value else {}
        except (AttributeError, IndexError, KeyError, TypeError, ValueError):
            return
        if isinstance(files, dict) and all(
            isinstance(word, str) for fact in facts for word in fact
        ):
            self.facts, self.known, self.files = facts, known, files


def code_digest(catalog: Catalog, *, exact: bool) -> str:
    """Return the digest of torchlint's own code, of the rules of plugins, and of the versions of
    Python and libcst.

    Args:
        catalog: the rules.
        exact: whether to read all files; else their times and sizes are enough.
    """
    package = os.path.dirname(os.path.abspath(torchlint.__file__))
    libcst = digest_of(libcst_version_file())
    found = hashlib.sha256(f"{torchlint.__version__} {sys.version} {libcst}".encode())
    for path in sorted([*own_files(package, PARTS), *plugin_files(catalog)]):
        found.update(os.path.relpath(path, package).encode("utf-8", "surrogateescape"))
        if exact:
            found.update(digest_of(path).encode())
        else:
            state = os.stat(path)
            found.update(b"%d %d" % (state.st_mtime_ns, state.st_size))
    return found.hexdigest()


def own_files(folder: str, parts: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the Python files of a folder and of those below it; of the folder itself only `parts`,
    if there are any."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if parts and entry.name not in parts:
                continue
            if entry.name.endswith(".py"):
                yield entry.path
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from own_files(entry.path)


def plugin_files(catalog: Catalog) -> Iterator[str]:
    """Yield the files of plugins that decide what their rules find."""
    for root in {info.root for info in catalog.rules if info.root}:
        if os.path.isdir(root):
            yield from own_files(root)
        else:
            yield root


def libcst_version_file() -> str:
    """Return the path of the file that names libcst's version; libcst is not imported."""
    spec = PathFinder.find_spec("libcst")
    return (
        os.path.join(os.path.dirname(spec.origin), "_version.py")
        if spec is not None and spec.origin
        else ""
    )
