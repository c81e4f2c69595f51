"""One session from hello to goodbye: what the quick tests ask of a real server; the slow ones go
into detail."""

from __future__ import annotations

import pytest

from tests.lsp.editor import COLD, FIXED, HOT, Editor, applied

pytestmark = pytest.mark.asyncio


async def test_a_finding_is_shown_fixed_and_gone(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    (shown,) = await editor.shown(uri, HOT)
    assert (shown.code, shown.range.start.line) == ("TL102", 5)
    fix = (await editor.actions(uri, 5))[0]
    after = applied(HOT, await editor.edit(fix), uri)
    assert after == FIXED
    editor.change(uri, 2, after)
    assert await editor.diagnostics(uri, 2) == []
    other = editor.write("b.py", COLD)
    assert await editor.shown(other, COLD) == []
    assert await editor.stop() == 0
