"""Diagnostics, end to end: when they come, what they hold, and for which text."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import COLD, FIXED, HOT, Editor, able, span

pytestmark = pytest.mark.asyncio


async def test_a_finding_is_shown_when_a_file_is_opened(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    (found,) = await editor.shown(uri, HOT)
    assert (found.code, found.source, found.severity) == ("TL102", "torchlint", lsp.DiagnosticSeverity.Warning)
    assert found.range == span(5, 15, 5, 35)
    assert found.related_information
    assert "loop" in found.related_information[0].message
    assert found.related_information[0].location.uri == uri
