"""pygls' protocol, made to survive clients that do not keep to it.

The documents are not pygls' own: it splits lines at form feeds, and fails on a change of a document
that is not open.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import (
    JsonRpcException,
    JsonRpcInvalidRequest,
    JsonRpcParseError,
    JsonRpcServerNotInitialized,
)
from pygls.protocol import LanguageServerProtocol, lsp_method

logging.getLogger("pygls").setLevel(
    logging.CRITICAL + 1
)  # its tracebacks are of no use to the user of an editor


class Protocol(LanguageServerProtocol):
    """Checks the order of messages, and leaves documents to the server."""

    _initialized = False
    client_process: int | None = None
    """The client's process, which may be where we cannot see it."""
    options: object = None
    """The client's initialization options, as plain data."""
    stopped: Callable[[], object] | None = None
    """Called when the client says exit."""

    @property
    def was_shut_down(self) -> bool:
        """Whether the client asked for a shutdown, as it should before it says exit."""
        return bool(self._shutdown)

    def hear(self, body: bytes | None) -> None:
        """Take a message as it arrived; None for one that was too large. Nothing that it holds
        raises."""
        try:
            if body is None:
                raise ValueError("the message is too large")
            raw = json.loads(body)
        except (ValueError, RecursionError) as error:
            self._refuse(None, JsonRpcParseError(str(error)))
            return
        if not isinstance(raw, dict) or raw.get("jsonrpc") != self.VERSION:
            self._refuse(None, JsonRpcInvalidRequest("not a message of JSON-RPC 2.0"))
            return
        if not _has_usable_ids(raw):
            self._refuse(
                None, JsonRpcInvalidRequest("an id is neither a string nor a whole number")
            )
            return
        asked = raw.get("id") if "method" in raw else None
        refusal = self._out_of_order(raw)
        if refusal is not None:
            if asked is not None:
                self._refuse(asked, refusal)
            return
        try:
            message = self.structure_message(raw)
        except JsonRpcException as error:
            if "id" not in raw or asked is not None:
                self._refuse(asked, error)
            return
        self.handle_message(message)

    def _out_of_order(self, raw: dict[str, Any]) -> JsonRpcException | None:
        """Return why a request or notification does not fit here."""
        method = raw.get("method")
        if method is None or method == lsp.EXIT:
            return None
        if self._shutdown:
            return JsonRpcInvalidRequest("the server was asked to shut down")
        if method == lsp.INITIALIZE:
            if self._initialized:
                return JsonRpcInvalidRequest("the server is initialized already")
            self._initialized = True
            params = raw.get("params")
            self.options = params.get("initializationOptions") if isinstance(params, dict) else None
            return None
        return (
            None
            if self._initialized
            else JsonRpcServerNotInitialized("the server is not initialized yet")
        )

    def _refuse(self, asked: Any, error: JsonRpcException) -> None:
        if asked is not None:
            self._send_response(asked, error=error.to_response_error())
        elif self._initialized:
            words = f"torchlint: a message was passed over: {error}"
            self.notify(
                lsp.WINDOW_LOG_MESSAGE, lsp.LogMessageParams(lsp.MessageType.Warning, words)
            )

    @lsp_method(lsp.EXIT)
    def lsp_exit(self, *args: object) -> None:  # type: ignore[override]
        """End the server."""
        if self.stopped is not None:
            self.stopped()

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> Any:
        """Leave it to the server's own handler, as do those below."""
        return self._handle_own(lsp.TEXT_DOCUMENT_DID_OPEN, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Any:
        return self._handle_own(lsp.TEXT_DOCUMENT_DID_CHANGE, params)

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> Any:
        return self._handle_own(lsp.TEXT_DOCUMENT_DID_CLOSE, params)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    def lsp_notebook_document__did_open(self, params: lsp.DidOpenNotebookDocumentParams) -> Any:
        return self._handle_own(lsp.NOTEBOOK_DOCUMENT_DID_OPEN, params)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def lsp_notebook_document__did_change(self, params: lsp.DidChangeNotebookDocumentParams) -> Any:
        return self._handle_own(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE, params)

    @lsp_method(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def lsp_notebook_document__did_close(self, params: lsp.DidCloseNotebookDocumentParams) -> Any:
        return self._handle_own(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE, params)

    def _handle_own(self, method: str, params: Any) -> Any:
        handler = self.fm.features.get(method)
        return handler(params) if handler is not None else None


def _has_usable_ids(raw: dict[str, Any]) -> bool:
    """Say whether the names of a message, and of what it wants cancelled, are such as JSON-RPC has
    them."""
    params = raw.get("params")
    cancels = raw.get("method") == lsp.CANCEL_REQUEST
    cancelled = params.get("id") if cancels and isinstance(params, dict) else None
    return all(isinstance(name, str | int | None) for name in (raw.get("id"), cancelled))
