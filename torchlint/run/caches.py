"""The caches that one run of `check` uses: one for each project and set of settings."""

from __future__ import annotations

from collections.abc import Iterator

from torchlint.catalog.rules import Catalog
from torchlint.run.cache import Cache, Fact, code_digest
from torchlint.run.cache_folder import CacheFolder, on_ci, open_folder
from torchlint.settings.keys import Settings


class Caches:
    """Opens the cache folders of a run before its files are looked for, and writes them when it is over.

    Args:
        catalog: the rules.
        named: whether the user named the folder in the command.
    """

    def __init__(self, catalog: Catalog, *, named: bool) -> None:
        self.catalog = catalog
        self.named = named
        self.exact = on_ci()
        self._folders: dict[str, CacheFolder | None] = {}
        self._caches: dict[Settings, Cache] = {}
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
            found = open_folder(path, named=self.named) if path else ""
            if isinstance(found, str):
                self._warning = self._warning or found
            self._folders[path] = found if isinstance(found, CacheFolder) else None
        return self._folders[path]

    def cache(self, settings: Settings) -> Cache | None:
        """Return the cache of the files with these settings, or None where there can be none."""
        if settings in self._caches:
            return self._caches[settings]
        folder = self.folder(settings)
        if folder is None:
            return None
        self._code = self._code or code_digest(self.catalog, exact=self.exact)
        self._caches[settings] = Cache(folder, settings, self._code, exact=self.exact)
        return self._caches[settings]

    def facts(self) -> Iterator[Fact]:
        """Yield what the reports of this run depend on besides the files themselves."""
        for cache in self._caches.values():
            yield from cache.facts()

    def save(self) -> None:
        """Write what is new."""
        for cache in self._caches.values():
            cache.save()
