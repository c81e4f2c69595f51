"""The server of one client: what it knows, and what it sends. `torchlint.lsp.features` says which
message does what."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lsprotocol import converters
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcContentModified, JsonRpcMethodNotFound
from pygls.lsp.server import LanguageServer

from torchlint import __version__
from torchlint.base.content import text_digest
from torchlint.base.errors import SourceError, TorchlintError
from torchlint.base.finding import FileEdits
from torchlint.catalog.rules import Catalog, load_catalog
from torchlint.lsp.analyses import Analyses, Analysis, Subject
from torchlint.lsp.client import Client
from torchlint.lsp.columns import Columns
from torchlint.lsp.configured import Configured
from torchlint.lsp.convert import Pages, Place, diagnostics, difference, workspace_edit
from torchlint.lsp.documents import Documents
from torchlint.lsp.hover import Page
from torchlint.lsp.pool import Pool
from torchlint.lsp.profiled import Profiled
from torchlint.lsp.protocol import Protocol
from torchlint.lsp.uris import path_of, real_place, uri_of
from torchlint.source.document import generated, read
from torchlint.source.write import read_only

LocalPages = Callable[[Catalog], Mapping[str, Path]]
_SUFFIXES = (".py", ".pyi")
_NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    [
        lsp.NotebookDocumentFilterWithNotebook(
            "jupyter-notebook", [lsp.NotebookCellLanguage("python")]
        )
    ],
    save=True,
)


class Server(LanguageServer):
    """One client's server.

    Args:
        page: gives the manual of a rule as markdown.
        local_pages: writes the manual to this machine, and gives the file of each code.
        profile: a report of ``torchlint profile``, absolute; none where empty.
    """

    protocol: Protocol

    def __init__(self, page: Page, local_pages: LocalPages, profile: str = "") -> None:
        super().__init__(
            "torchlint",
            __version__,
            text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental,
            notebook_document_sync=_NOTEBOOKS,
            protocol_cls=Protocol,
            converter_factory=converters.get_converter,
        )
        self.page = page
        self.pages: Pages = {}
        self._local_pages = local_pages
        self.client = Client()
        self.configured = Configured(load_catalog(), self.tell, os.path.abspath(os.sep))
        self.pool = Pool(self.log)
        self.documents = Documents()
        profiled = Profiled(profile, self.tell)
        self.analyses = Analyses(self.pool, self.subject, self.publish, self.log, profiled.beside)

    def find_pages(self) -> None:
        """Find where codes may lead, for a client that shows that; without pages there is the hover
        all the same."""
        if not self.client.links:
            return
        try:
            self.pages = {
                code: uri_of(str(path))
                for code, path in self._local_pages(self.configured.catalog).items()
            }
        except TorchlintError as error:
            self.log(str(error))

    def log(self, words: str) -> None:
        """Write a line to the client's log."""
        self.window_log_message(
            lsp.LogMessageParams(lsp.MessageType.Warning, f"torchlint: {words}")
        )

    def tell(self, words: str) -> None:
        """Show a line to the person at the client."""
        self.window_show_message(
            lsp.ShowMessageParams(lsp.MessageType.Warning, f"torchlint: {words}")
        )

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log a mistake of ours; a refusal is none, and who asked has it in the answer."""
        if not isinstance(error, (JsonRpcContentModified, JsonRpcMethodNotFound)):
            self.log(f"internal error: {error}")

    def subject(self, key: str, fix: str = "") -> Subject:
        """Return what is open under a key, with what is to be done for it; `fix` is as of `Job`."""
        places = self.documents.places(key)
        notebook = self.documents.notebook(key)
        unsaved = self.documents.texts()
        if notebook is not None:
            return Subject(self.configured.task(key, notebook.text, fix, notebook, unsaved), places)
        buffer = self.documents.buffers[key]
        ours = buffer.language == "python" or key.endswith(_SUFFIXES)
        return Subject(
            self.configured.task(key, buffer.text, fix, unsaved=unsaved) if ours else None, places
        )

    def publish(self, key: str, analysis: Analysis) -> None:
        """Send the diagnostics of an analysis, unless the client asks for them; for cells no client
        does."""
        if self.client.pulls and key not in self.documents.books:
            return
        places = analysis.subject.places
        found = diagnostics(analysis.report, places, related=self.client.related, pages=self.pages)
        for place in analysis.subject.places.values():
            params = lsp.PublishDiagnosticsParams(place.uri, found[place.uri], place.version)
            self.text_document_publish_diagnostics(params)

    def clear(self, uri: str) -> None:
        """Take the diagnostics of a document away."""
        self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))

    def renew_all(self) -> None:
        """Analyse all open documents anew; a client that asks for diagnostics is told to ask
        again."""
        self.analyses.renew_all()
        if self.client.refreshes:
            self.workspace_diagnostic_refresh(None)

    def renew_importers(self, uri: str) -> None:
        """Analyse the open documents anew that rest on one whose text has changed."""
        path = path_of(uri)
        if (
            path
            and self.analyses.renew_resting_on(real_place(path), self.documents.key(uri))
            and self.client.refreshes
        ):
            self.workspace_diagnostic_refresh(None)

    def other(self, part: FileEdits, key: str) -> Place | str:
        """Return the text of a file that a fix of the document `key` changes too, as it is now; or
        why it is not for this fix."""
        place = self.documents.opened(part.path)
        reason = self.configured.foreign(part.path, path_of(key))
        if reason:
            return reason
        if place is None:
            try:
                if read_only(part.path, os.stat(part.path)):
                    return "is read-only"
                document = read(part.path, part.filename, 0)
            except (OSError, SourceError):
                return "cannot be read"
            columns = Columns(document.text, self.documents.encoding)
            place = Place(uri_of(part.path), None, columns)
        if generated(place.columns.text):
            return "says that a program wrote it"
        same = text_digest(place.columns.text.removeprefix("\ufeff")) == part.text
        return place if same else "has changed since"

    async def fix_all(self, key: str) -> lsp.WorkspaceEdit | None:
        """Return the edit that applies all fixes that need not be looked at, or None where there is
        none."""
        settings = self.subject(key).task
        subject = self.subject(
            key, "unsafe" if settings and settings.settings.unsafe_fixes else "safe"
        )
        if subject.task is None:
            return None
        report = await self.analyses.report(subject.task)
        changed = report.cells or ((None, report.before, report.after),)
        edits = {}
        for cell, before, after in changed:
            if before != after:
                place = subject.places[cell]
                edits[place.uri] = await asyncio.to_thread(difference, place, before, after)
        return (
            workspace_edit(edits, subject.places.values(), versioned=self.client.versioned)
            if edits
            else None
        )
