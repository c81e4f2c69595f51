"""What a profile says of findings, in the editor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import HOT, Editor

pytestmark = pytest.mark.asyncio


def cost(path: Path, fingerprint: str, share: float) -> None:
    bound = {"alone_ns": 1, "joint_ns": 1, "share": share, "basis": "host", "negligible": False}
    entry = {"fingerprint": fingerprint, "code": "TL102", "filename": "a.py", "line": 99}
    whole = {"schema_version": 1, "window": {}, "figures": {}, "bounds": {"span_ns": 100}}
    path.write_text(json.dumps({**whole, "findings": [{**entry, "bound": bound}]}))


async def test_findings_and_hover_show_it_and_changes_count(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    cost(tmp_path / "cost.json", "0" * 16, 0.25)
    env = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    editor = await Editor.start(folder, "--profile", "../cost.json", env=env)
    try:
        await editor.initialize()
        uri = editor.write("a.py", HOT)
        (shown,) = await editor.shown(uri, HOT)
        assert "fixing saves" not in shown.message
        cost(tmp_path / "cost.json", shown.data["fingerprint"], 0.25)
        editor.change(uri, 2, HOT)
        (shown,) = await editor.diagnostics(uri, 2)
        assert "(fixing saves at most 25.0 %)" in shown.message
        at = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), shown.range.start)
        found = await editor.client.text_document_hover_async(at)
        assert found is not None
        assert isinstance(found.contents, lsp.MarkupContent)
        assert found.contents.value.startswith("Fixing this saves at most 25.0 % of the time.\n\n#")
        (tmp_path / "cost.json").unlink()
        editor.change(uri, 3, HOT)
        (shown,) = await editor.diagnostics(uri, 3)
        assert "fixing saves" not in shown.message
    finally:
        assert await editor.stop() == 0
