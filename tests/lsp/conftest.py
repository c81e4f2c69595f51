"""The fixtures of the server's tests: a folder, and an editor that works in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.lsp.editor import Editor


@pytest_asyncio.fixture
async def bare(tmp_path: Path) -> AsyncIterator[Editor]:
    """Return an editor that has not said hello to its server yet."""
    folder = tmp_path / "work"
    folder.mkdir()
    editor = await Editor.start(folder, env={"XDG_CACHE_HOME": str(tmp_path / "cache")})
    yield editor
    await editor.stop()


@pytest_asyncio.fixture
async def editor(bare: Editor) -> Editor:
    """Return an editor with a server that is ready."""
    await bare.initialize()
    return bare
