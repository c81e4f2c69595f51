"""A real client at the other end of a real server process: pytest-lsp's, with the versions of what
it was sent."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pytest_lsp import LanguageClient, make_test_lsp_client

from tests.patience import PATIENCE

TORCHLINT = os.path.join(os.path.dirname(sys.executable), "torchlint")
HOT = """import torch


def f(model, loader, n):
    for x in loader:
        mask = torch.ones(n).cuda()
        model(x, mask).sum().backward()
"""
"""One finding, TL102 in line 6 (5 for the client) with a safe fix."""
FIXED = HOT.replace("torch.ones(n).cuda()", 'torch.ones(n, device="cuda")')
COLD = "import torch\n\nx = torch.ones(3)\n"


class Editor:
    """What a person's editor does.

    Args:
        client: connected to a server.
        folder: the workspace.
    """

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.published: list[lsp.PublishDiagnosticsParams] = []
        self.server: lsp.InitializeResult | None = None
        client.protocol.fm.features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = self.published.append

    @classmethod
    async def start(
        cls,
        folder: Path,
        *arguments: str,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> Editor:
        """Start a server in a folder."""
        client = make_test_lsp_client()
        await client.start_io(
            TORCHLINT, "server", *arguments, cwd=cwd or folder, env={**os.environ, **(env or {})}
        )
        return cls(client, folder)

    async def initialize(
        self,
        *,
        encodings: Sequence[str] = (),
        options: object = None,
        capabilities: lsp.ClientCapabilities | None = None,
        process: int | None = None,
    ) -> lsp.InitializeResult:
        """Say hello; by default as a client that is pushed diagnostics, with all that ours can
        use."""
        can = capabilities or able()
        if encodings:
            can.general = lsp.GeneralClientCapabilities(position_encodings=list(encodings))
        folder = lsp.WorkspaceFolder(self.folder.as_uri(), "w")
        params = lsp.InitializeParams(
            can, process, workspace_folders=[folder], initialization_options=options
        )
        self.server = await self.client.initialize_session(params)
        return self.server

    def write(self, name: str, text: str) -> str:
        """Write a file of the workspace, and return its URI."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="")
        return path.as_uri()

    def open(self, uri: str, text: str, version: int = 1, language: str = "python") -> None:
        item = lsp.TextDocumentItem(uri, language, version, text)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))

    def change(self, uri: str, version: int, *changes: Any) -> None:
        """Send changes: whole texts, or (start line, start column, end line, end column, text)."""
        events: list[Any] = [
            lsp.TextDocumentContentChangeWholeDocument(each)
            if isinstance(each, str)
            else lsp.TextDocumentContentChangePartial(span(*each[:4]), each[4])
            for each in changes
        ]
        identifier = lsp.VersionedTextDocumentIdentifier(version, uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(identifier, events))

    def save(self, uri: str) -> None:
        self.client.text_document_did_save(
            lsp.DidSaveTextDocumentParams(lsp.TextDocumentIdentifier(uri))
        )

    def close(self, uri: str) -> None:
        self.client.text_document_did_close(
            lsp.DidCloseTextDocumentParams(lsp.TextDocumentIdentifier(uri))
        )

    async def until(self, condition: Callable[[], Any], what: str = "") -> Any:
        """Wait until a condition holds, and return what it gives."""
        end = asyncio.get_running_loop().time() + PATIENCE
        while not (found := condition()):
            assert asyncio.get_running_loop().time() < end, (
                f"{what or 'nothing came'}: {self.published[-3:]}"
            )
            await asyncio.sleep(0.01)
        return found

    async def diagnostics(self, uri: str, version: int = 1) -> list[lsp.Diagnostic]:
        """Wait for the diagnostics of a version of a document, and return them."""
        found = await self.until(
            lambda: [each for each in self.published if each.uri == uri and each.version == version]
        )
        return list(found[-1].diagnostics)

    async def shown(self, uri: str, text: str, version: int = 1) -> list[lsp.Diagnostic]:
        """Open a document, and return its diagnostics."""
        self.open(uri, text, version)
        return await self.diagnostics(uri, version)

    async def actions(
        self,
        uri: str,
        row: int,
        only: Sequence[str] | None = None,
        diagnostics: Sequence[lsp.Diagnostic] = (),
    ) -> list[lsp.CodeAction]:
        """Return the actions that are offered on a line."""
        context = lsp.CodeActionContext(diagnostics, only, lsp.CodeActionTriggerKind.Invoked)
        identifier = lsp.TextDocumentIdentifier(uri)
        params = lsp.CodeActionParams(identifier, span(row, 0, row, 0), context)
        found = await self.client.text_document_code_action_async(params)
        assert found is not None
        assert all(isinstance(each, lsp.CodeAction) for each in found)
        return [each for each in found if isinstance(each, lsp.CodeAction)]

    async def edit(self, action: lsp.CodeAction) -> lsp.WorkspaceEdit:
        """Return the edit of an action, which may be worked out now."""
        if action.edit is None:
            action = await self.client.code_action_resolve_async(action)
        assert action.edit is not None
        return action.edit

    async def stop(self) -> int:
        """Say goodbye, and return the server's exit code."""
        process = self.client._server
        assert process is not None
        if process.returncode is None and self.server is not None:
            await self.client.shutdown_session()
        elif process.returncode is None:
            process.kill()
        code = await asyncio.wait_for(process.wait(), PATIENCE)
        await self.client.stop()
        return code


def span(line: int, column: int, end_line: int, end_column: int) -> lsp.Range:
    """Return a range."""
    return lsp.Range(lsp.Position(line, column), lsp.Position(end_line, end_column))


def able(
    *, pulls: bool = False, resolves: bool = True, versioned: bool = True
) -> lsp.ClientCapabilities:
    """Return the capabilities of a client."""
    resolve = lsp.ClientCodeActionResolveOptions(["edit"]) if resolves else None
    kinds = lsp.ClientCodeActionKindOptions(
        [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.SourceFixAll]
    )
    action = lsp.CodeActionClientCapabilities(
        code_action_literal_support=lsp.ClientCodeActionLiteralOptions(kinds),
        resolve_support=resolve,
        disabled_support=True,
        data_support=True,
    )
    return lsp.ClientCapabilities(
        text_document=lsp.TextDocumentClientCapabilities(
            publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(related_information=True),
            code_action=action,
            diagnostic=lsp.DiagnosticClientCapabilities() if pulls else None,
            hover=lsp.HoverClientCapabilities(content_format=[lsp.MarkupKind.Markdown]),
        ),
        workspace=lsp.WorkspaceClientCapabilities(
            workspace_edit=lsp.WorkspaceEditClientCapabilities(document_changes=versioned),
            diagnostics=lsp.DiagnosticWorkspaceClientCapabilities(refresh_support=True)
            if pulls
            else None,
        ),
    )


def applied(
    text: str, edit: lsp.WorkspaceEdit, uri: str, units: str = "utf-16-le", size: int = 2
) -> str:
    """Return a text after an edit, as a client would have it: columns in code units of a codec."""
    edits: list[Any] = list((edit.changes or {}).get(uri, ()))
    for change in edit.document_changes or ():
        if isinstance(change, lsp.TextDocumentEdit) and change.text_document.uri == uri:
            edits += change.edits
    lines = [*text.splitlines(keepends=True), ""]

    def offset(place: lsp.Position) -> int:
        line = lines[place.line].encode(units)
        return sum(map(len, lines[: place.line])) + len(
            line[: place.character * size].decode(units)
        )

    for each in sorted(
        edits, key=lambda each: (each.range.start.line, each.range.start.character), reverse=True
    ):
        text = text[: offset(each.range.start)] + each.new_text + text[offset(each.range.end) :]
    return text
