"""What the client at the other end understands."""

from __future__ import annotations

from lsprotocol import types as lsp

from torchlint.base.records import frozen


@frozen
class Client:
    """The capabilities that matter to us.

    Args:
        versioned: edits that hold for one version of a text only.
        related: related information of diagnostics.
        disabled: actions that cannot be used, with the reason.
        resolves: actions whose edit is worked out when it is wanted.
        pulls: it asks for diagnostics by itself.
        refreshes: it does so anew when told.
        watches: it can be asked to watch files.
        links: codes of findings may lead to a page.
    """

    versioned: bool = False
    related: bool = False
    disabled: bool = False
    resolves: bool = False
    pulls: bool = False
    refreshes: bool = False
    watches: bool = False
    links: bool = False

    @classmethod
    def of(cls, capabilities: lsp.ClientCapabilities) -> Client:
        """Read what the client says of itself."""
        text, workspace = capabilities.text_document, capabilities.workspace
        edit = workspace.workspace_edit if workspace else None
        published = text.publish_diagnostics if text else None
        action = text.code_action if text else None
        files = workspace.did_change_watched_files if workspace else None
        pulls = bool(text and text.diagnostic)
        refresh = workspace.diagnostics if workspace else None
        return cls(
            versioned=bool(edit and edit.document_changes),
            related=bool(published and published.related_information),
            disabled=bool(action and action.disabled_support),
            resolves=bool(
                action and action.resolve_support and "edit" in action.resolve_support.properties
            ),
            pulls=pulls,
            refreshes=bool(pulls and refresh and refresh.refresh_support),
            watches=bool(files and files.dynamic_registration),
            links=bool(published and published.code_description_support),
        )
