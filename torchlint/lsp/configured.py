"""Which settings hold for an open document, and what a worker is asked to do for it.

Configuration files are read anew for each analysis, so that a change of them counts at once. Where
one is broken, the client is told once, and the last good settings hold.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import field, replace

from torchlint.base.errors import TorchlintError
from torchlint.base.finding import FileReport, Note, NoteKind, Severity
from torchlint.base.records import frozen
from torchlint.catalog.rules import Catalog
from torchlint.engine.job import Job
from torchlint.lsp.uris import UNTITLED, path_of, scheme_of
from torchlint.run.jobs import job_for
from torchlint.settings.files import find_config
from torchlint.settings.keys import KEYS, Settings
from torchlint.settings.load import (
    Overrides,
    discover_options,
    in_folder,
    load_settings,
    severities,
)
from torchlint.source.discover import SkipKind, discover
from torchlint.source.document import Document
from torchlint.source.notebook import Notebook
from torchlint.source.paths import folder_under

Texts = tuple[tuple[str, str], ...]
"""Paths with the texts of the files."""
ALLOWED = sorted((key for key, row in KEYS.items() if row.editor), key=lambda key: KEYS[key].editor)
"""Keys that a client may set in its initialization options; they win over the configuration
files."""


@frozen
class Task:
    """What is known of a document before its analysis.

    Args:
        job: for a worker; None where nothing is to be done.
        settings: those that hold for it.
        grades: configured severities by code.
        known: the report where no worker is needed for it.
    """

    job: Job | None
    settings: Settings
    grades: Mapping[str, Severity] = field(default_factory=dict)
    known: FileReport | None = None


class Configured:
    """Finds the settings of documents.

    Args:
        catalog: the rules.
        tell: is given each trouble with a configuration, once.
        folder: where documents that are no files lie, absolute.
    """

    def __init__(self, catalog: Catalog, tell: Callable[[str], object], folder: str) -> None:
        self.catalog = catalog
        self.folder = folder
        self._tell = tell
        self._overrides: Overrides = {}
        self._good: dict[str, Settings] = {}
        self._told: dict[str, str] = {}

    def override(self, options: object) -> None:
        """Take a client's initialization options; what cannot be used is told, and left out."""
        if not isinstance(options, Mapping):
            return
        taken: dict[str, object] = {}
        for key, value in options.items():
            try:
                if key not in ALLOWED:
                    self._tell(
                        f"unknown initialization option {key!r:.80}; known are {', '.join(ALLOWED)}"
                    )
                    continue
                load_settings(None, {key: value}, start=self.folder, catalog=self.catalog)
                taken[key] = value
            except TorchlintError as error:
                self._tell(f"initialization option {str(error).removeprefix('--')}")
        self._overrides = taken

    def task(
        self,
        uri: str,
        text: str,
        fix: str = "",
        notebook: Notebook | None = None,
        unsaved: Texts = (),
    ) -> Task | None:
        """Return what to do for a text, or None for one that is not ours to look at.

        Args:
            uri: of the document, or of the notebook.
            text: as the client has it.
            fix: as of `Job`.
            notebook: the cells that the text is made of, where it is a notebook's.
            unsaved: as of `Job`.
        """
        path = path_of(uri)
        if not path and scheme_of(uri) != UNTITLED:
            return None
        name = UNTITLED + (".py" if notebook is None else ".ipynb")
        settings = self.settings(path or os.path.join(self.folder, name))
        if path and self._is_excluded(path, settings):
            return None
        text = text.removeprefix("\ufeff")
        data = text.encode("utf-8", "surrogatepass")
        shown = path or uri
        if settings.max_file_size and len(data) > settings.max_file_size:
            words = f"is larger than {settings.max_file_size} bytes (max-file-size)"
            return Task(
                None,
                settings,
                known=FileReport(shown, notes=(Note(NoteKind.SKIPPED, shown, words),)),
            )
        if path:  # of a link, the place of the link counts
            folder, name = os.path.split(path)
            name = posixpath.join(folder_under(settings.root, folder), name)
        # The bytes of a notebook are not ours to write: its fixes go to the client by cell.
        written = data if notebook is None else b""
        document = Document(shown, path, text, "utf-8", False, written, notebook)
        job = replace(
            job_for(document, name, settings, self.catalog),
            fix=fix,
            root=settings.root if path else "",
            traced=bool(path),
            unsaved=unsaved if path else (),
        )
        return Task(job, settings, severities(settings, self.catalog))

    def settings(self, path: str) -> Settings:
        """Return the settings of a path, which need not exist."""
        folder = os.path.dirname(path)
        try:
            found = load_settings(
                find_config(folder), self._overrides, start=folder, catalog=self.catalog
            )
            found = in_folder(found, folder, {})
        except TorchlintError as error:
            if self._told.get(folder) != str(error):
                if str(error) not in self._told.values():
                    self._tell(f"{error}; the last good settings are kept")
                self._told[folder] = str(error)
            return self._good.get(folder) or load_settings(None, start=folder, catalog=self.catalog)
        said = "; ".join(found.refused)
        if said and said not in self._told.values():
            self._tell(said)
        self._told[folder] = said
        self._good[folder] = found
        return found

    def foreign(self, path: str, home: str) -> str:
        """Return why a fix of the file `home` may not change another one, or an empty string."""
        settings = self.settings(path)
        if settings.root != self.settings(home).root:
            return "belongs to another project"
        return "is excluded" if self._is_excluded(path, settings) else ""

    def _is_excluded(self, path: str, settings: Settings) -> bool:
        """Say whether a file is left out by the configuration or by git; one that is not there is
        not."""
        options = replace(discover_options(settings), force_exclude=True)
        try:
            skipped = discover((path,), options).skipped
        except TorchlintError as error:  # a glob that can match nothing
            if self._told.get(settings.root) != str(error):
                self._told[settings.root] = str(error)
                self._tell(str(error))
            return False
        return any(skip.kind is SkipKind.EXCLUDED for skip in skipped)
