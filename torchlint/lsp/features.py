"""Which message of the protocol does what."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcContentModified

from torchlint.base.finding import Finding, Safety
from torchlint.lsp import actions
from torchlint.lsp.actions import FIX_ALL, IGNORES
from torchlint.lsp.analyses import Analysis
from torchlint.lsp.client import Client
from torchlint.lsp.convert import diagnostics
from torchlint.lsp.hover import hover
from torchlint.lsp.server import Server
from torchlint.lsp.uris import path_of

_WATCHED = (
    "**/*.py",
    "**/pyproject.toml",
    "**/torchlint.toml",
    "**/.torchlint.toml",
    "**/.gitignore",
)


def _initialize(ls: Server, params: lsp.InitializeParams) -> None:
    ls.client = Client.of(params.capabilities)
    ls.documents.encoding = ls.workspace.position_encoding or ls.documents.encoding
    folders = [folder.uri for folder in params.workspace_folders or ()] or [params.root_uri or ""]
    path = path_of(folders[0]) or params.root_path or ""
    if os.path.isabs(path) and os.path.isdir(path):
        ls.configured.folder = path
    ls.pool.warm()
    ls.protocol.client_process = params.process_id


def _initialized(ls: Server, params: lsp.InitializedParams) -> None:
    ls.find_pages()
    options = ls.protocol.options
    if options is not None:
        ls.configured.override(options)
    if ls.client.watches:
        watchers = [lsp.FileSystemWatcher(glob) for glob in _WATCHED]
        given = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
        method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
        ls.client_register_capability(
            lsp.RegistrationParams([lsp.Registration("torchlint", method, given)])
        )


def _opened(ls: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    ls.analyses.renew(ls.documents.open(params.text_document), pause=0)
    ls.renew_importers(params.text_document.uri)


def _changed(ls: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    key = ls.documents.change(params.text_document, params.content_changes)
    if key is None:
        ls.log(f"a change of {params.text_document.uri}, which is not open, was passed over")
    else:
        ls.analyses.renew(key)
        ls.renew_importers(params.text_document.uri)


def _on_close(ls: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    uri = params.text_document.uri
    if ls.documents.close(uri):
        ls.analyses.drop(uri)
        ls.renew_importers(uri)  # what the disk holds counts again
        if not ls.client.pulls:
            ls.clear(uri)


def _book_opened(ls: Server, params: lsp.DidOpenNotebookDocumentParams) -> None:
    ls.analyses.renew(ls.documents.open_book(params), pause=0)


def _book_changed(ls: Server, params: lsp.DidChangeNotebookDocumentParams) -> None:
    found = ls.documents.change_book(params)
    if found is None:
        ls.log(f"a change of {params.notebook_document.uri}, which is not open, was passed over")
        return
    key, gone = found
    ls.analyses.renew(key)
    for uri in gone:
        ls.clear(uri)


def _book_closed(ls: Server, params: lsp.DidCloseNotebookDocumentParams) -> None:
    uri = params.notebook_document.uri
    ls.analyses.drop(uri)
    for cell in ls.documents.close_book(uri):
        ls.clear(cell)


def _disk_changed(ls: Server, params: object) -> None:
    ls.renew_all()  # other documents may import the file, or it is a configuration


async def _pulled(
    ls: Server, params: lsp.DocumentDiagnosticParams
) -> lsp.RelatedFullDocumentDiagnosticReport:
    uri = params.text_document.uri
    # What a notebook's cells hold is sent: asking for a cell would be asking for all.
    analysis = await ls.analyses.latest(uri, hurry=False)
    items: list[lsp.Diagnostic] = []
    if analysis is not None:
        found = diagnostics(
            analysis.report, analysis.subject.places, related=ls.client.related, pages=ls.pages
        )
        items = found.get(uri, [])
    return lsp.RelatedFullDocumentDiagnosticReport(items)


async def _hovered(ls: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    uri = params.text_document.uri
    analysis = await ls.analyses.latest(ls.documents.key(uri), hurry=True)
    for cell, place in analysis.subject.places.items() if analysis is not None else ():
        if place.uri == uri and analysis is not None:
            findings = [finding for finding in analysis.report.findings if finding.cell == cell]
            return hover(findings, place, params.position, ls.configured.catalog, ls.page)
    return None


async def _actions(ls: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    uri, only = params.text_document.uri, params.context.only
    key = ls.documents.key(uri)
    by_itself = params.context.trigger_kind is lsp.CodeActionTriggerKind.Automatic
    analysis = await ls.analyses.latest(key, hurry=not by_itself)
    if analysis is None:
        return []
    found: list[lsp.CodeAction] = []
    places = analysis.subject.places
    if actions.wanted(lsp.CodeActionKind.QuickFix, only):
        near = actions.touched(analysis.report.findings, places, uri, params.range)
        found += actions.fixes(near, places, ls.client, lambda part: ls.other(part, key))
        found += await _resolved_here(ls, analysis, near)
    if actions.wanted(FIX_ALL, only) and _any_fix(ls, analysis):
        action = lsp.CodeAction("Fix all safe findings (torchlint)", FIX_ALL)
        if ls.client.resolves:
            action.data = {"key": key}
            found.append(action)
        elif (
            only is not None
        ):  # working it out takes an analysis, which a mere move of the cursor is not worth
            action.edit = await ls.fix_all(key)
            found += [action] if action.edit else []
    for action in found:
        if isinstance(action.data, dict):
            action.data |= {"key": key, "version": ls.documents.version(key)}
    return found


async def _resolved_here(
    ls: Server, analysis: Analysis, near: list[Finding]
) -> list[lsp.CodeAction]:
    """Return the actions that ignore findings; with their edits for a client that does not ask for
    these later."""
    found = list(actions.ignores(near, analysis.subject.places, ls.client))
    if ls.client.resolves:
        return found
    by_print = {finding.fingerprint: finding for finding in near}
    for action in found:
        assert isinstance(action.data, dict)
        finding = by_print[action.data[IGNORES]]
        action.edit = await asyncio.to_thread(
            actions.ignoring, finding, analysis.subject.places, ls.client
        )
        action.data = None
    return [action for action in found if action.edit is not None]


def _any_fix(ls: Server, analysis: Analysis) -> bool:
    task = analysis.subject.task
    allowed = {Safety.SAFE, Safety.UNSAFE} if task and task.settings.unsafe_fixes else {Safety.SAFE}
    fixes = [finding.fix for finding in analysis.report.findings if finding.fix is not None]
    return any(fix.safety in allowed and not fix.withheld and not fix.elsewhere for fix in fixes)


async def _resolved(ls: Server, action: lsp.CodeAction) -> lsp.CodeAction:
    data = action.data
    if not isinstance(data, dict) or not isinstance(key := data.get("key"), str):
        return action
    analysis = await ls.analyses.latest(key, hurry=True)
    if analysis is None or ls.documents.version(key) != data.get("version"):
        raise JsonRpcContentModified("the document has changed")
    if IGNORES not in data:
        action.edit = await ls.fix_all(key)
        return action
    for finding in analysis.report.findings:
        if finding.fingerprint == data[IGNORES]:
            action.edit = await asyncio.to_thread(
                actions.ignoring, finding, analysis.subject.places, ls.client
            )
    return action


def _nothing(ls: Server, params: Any) -> None:
    """Take a message that asks for nothing of ours."""


_KINDS = [lsp.CodeActionKind.QuickFix, FIX_ALL]
_HANDLERS: tuple[tuple[str, Callable[..., Any], Any], ...] = (
    (lsp.INITIALIZE, _initialize, None),
    (lsp.INITIALIZED, _initialized, None),
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (lsp.TEXT_DOCUMENT_DID_SAVE, _disk_changed, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _on_close, None),
    (lsp.NOTEBOOK_DOCUMENT_DID_OPEN, _book_opened, None),
    (lsp.NOTEBOOK_DOCUMENT_DID_CHANGE, _book_changed, None),
    (lsp.NOTEBOOK_DOCUMENT_DID_SAVE, _disk_changed, None),
    (lsp.NOTEBOOK_DOCUMENT_DID_CLOSE, _book_closed, None),
    (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, _disk_changed, None),
    (lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, _nothing, None),
    (lsp.TEXT_DOCUMENT_HOVER, _hovered, None),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, _actions, lsp.CodeActionOptions(_KINDS, resolve_provider=True)),
    (lsp.CODE_ACTION_RESOLVE, _resolved, None),
    (
        lsp.TEXT_DOCUMENT_DIAGNOSTIC,
        _pulled,
        lsp.DiagnosticOptions(
            inter_file_dependencies=True, workspace_diagnostics=False, identifier="torchlint"
        ),
    ),
)


def register(server: Server) -> None:
    """Make a server answer."""
    for method, handler, options in _HANDLERS:
        server.feature(method, options)(handler)
