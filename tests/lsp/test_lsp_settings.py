"""Which settings hold, end to end: the project's, read anew when they change, and what the client
says on top."""

from __future__ import annotations

import sys

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import COLD, HOT, Editor, able

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
HOTTER = HOT + "        torch.cuda.empty_cache()\n"
"""TL102 and TL701."""


async def codes(editor: Editor, uri: str, text: str, version: int = 1) -> list[object]:
    """Return the codes that are shown for a document."""
    return sorted(str(each.code) for each in await editor.shown(uri, text, version))


async def test_the_nearest_configuration_holds(editor: Editor) -> None:
    editor.write("pyproject.toml", '[tool.torchlint]\nignore = ["TL102"]\n')
    editor.write("inner/torchlint.toml", '[severity]\nTL102 = "error"\n')
    assert await codes(editor, editor.write("a.py", HOTTER), HOTTER) == ["TL701"]
    uri = editor.write("inner/a.py", HOTTER)
    found = {each.code: each.severity for each in await editor.shown(uri, HOTTER)}
    assert found == {"TL102": lsp.DiagnosticSeverity.Error, "TL701": lsp.DiagnosticSeverity.Warning}


async def test_per_file_ignores_and_excludes(editor: Editor) -> None:
    editor.write(
        "torchlint.toml",
        'extend-exclude = ["gen"]\n[per-file-ignores]\n"lib/*" = ["TL1"]\n"b.py" = ["ALL"]\n',
    )
    editor.write(".gitignore", "ignored.py\n")
    (editor.folder / ".git").mkdir()
    for name, expected in (
        ("lib/a.py", ["TL701"]),
        ("b.py", []),
        ("gen/a.py", []),
        ("ignored.py", []),
        ("a.py", ["TL102", "TL701"]),
    ):
        assert await codes(editor, editor.write(name, HOTTER), HOTTER) == expected, name


async def test_a_configuration_that_changes_is_read_again(editor: Editor) -> None:
    uri = editor.write("a.py", HOTTER)
    assert await codes(editor, uri, HOTTER) == ["TL102", "TL701"]
    config = editor.write("torchlint.toml", 'ignore = ["TL701"]\n')
    count = len(editor.published)
    event = lsp.FileEvent(config, lsp.FileChangeType.Created)
    editor.client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams([event]))
    await editor.until(lambda: len(editor.published) > count)
    assert [each.code for each in editor.published[-1].diagnostics] == ["TL102"]


async def test_a_client_is_asked_to_watch(bare: Editor) -> None:
    can = able()
    assert can.workspace
    can.workspace.did_change_watched_files = lsp.DidChangeWatchedFilesClientCapabilities(
        dynamic_registration=True
    )
    asked: list[lsp.RegistrationParams] = []
    bare.client.feature(lsp.CLIENT_REGISTER_CAPABILITY)(lambda params: asked.append(params))
    await bare.initialize(capabilities=can)
    await bare.until(lambda: asked)
    (registered,) = asked[0].registrations
    assert registered.method == "workspace/didChangeWatchedFiles"
    assert "pyproject.toml" in str(registered.register_options)


async def test_a_broken_configuration_is_told_once_and_the_last_good_one_kept(
    editor: Editor,
) -> None:
    editor.write("torchlint.toml", 'ignore = ["TL701"]\n')
    uri = editor.write("a.py", HOTTER)
    assert await codes(editor, uri, HOTTER) == ["TL102"]
    editor.write("torchlint.toml", 'ignore = ["TL701"\n')
    for version in (2, 3):
        editor.change(uri, version, HOTTER)
        assert [each.code for each in await editor.diagnostics(uri, version)] == ["TL102"]
    (told,) = editor.client.messages
    assert "torchlint.toml:" in told.message
    assert "not valid TOML" in told.message
    editor.write("torchlint.toml", "")
    editor.change(uri, 4, HOTTER)
    assert len(await editor.diagnostics(uri, 4)) == 2
    editor.write("torchlint.toml", "selekt = 3")
    editor.change(uri, 5, HOTTER)
    assert len(await editor.diagnostics(uri, 5)) == 2
    assert "did you mean 'select'" in editor.client.messages[-1].message
    assert len(editor.client.messages) == 2


async def test_a_configuration_that_was_broken_from_the_start(editor: Editor) -> None:
    editor.write("pyproject.toml", "[tool.torchlint]\nselect = 3\n")
    uri = editor.write("a.py", HOT)
    assert await codes(editor, uri, HOT) == ["TL102"]
    await editor.until(lambda: editor.client.messages)
    assert "pyproject.toml:2: select" in editor.client.messages[0].message


async def test_a_client_may_set_a_few_things(bare: Editor) -> None:
    bare.write("torchlint.toml", 'select = ["TL1"]\n')
    await bare.initialize(options={"select": ["TL7"], "unsafe-fixes": True})
    uri = bare.write("a.py", HOTTER)
    assert await codes(bare, uri, HOTTER) == ["TL701"]
    (fix,) = await bare.actions(uri, 0, only=["source.fixAll.torchlint"])
    assert await bare.edit(fix), "the fix of TL701 is unsafe"
    assert bare.client.messages == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"selekt": ["TL1"]}, "unknown initialization option 'selekt'"),
        ({"select": "TL1"}, "select must be a list"),
        ({"ignore": ["TL999"]}, "TL999"),
        ({"timeout": 3}, "unknown initialization option 'timeout'"),
    ],
)
async def test_what_a_client_sets_wrongly_is_told(
    bare: Editor, options: object, words: str
) -> None:
    await bare.initialize(options=options)
    await bare.until(lambda: bare.client.messages)
    assert words in bare.client.messages[0].message
    assert await codes(bare, bare.write("a.py", HOT), HOT) == ["TL102"], "the others hold"


@pytest.mark.parametrize("options", [None, [], "x", {}])
async def test_no_options(bare: Editor, options: object) -> None:
    await bare.initialize(options=options)
    assert await codes(bare, bare.write("a.py", HOT), HOT) == ["TL102"]
    assert bare.client.messages == []


async def test_a_file_over_the_limit_is_told_of(editor: Editor) -> None:
    editor.write("torchlint.toml", "max-file-size = 100\n")
    (found,) = await editor.shown(editor.write("a.py", HOT), HOT)
    assert (found.code, found.severity) == ("not-analysed", lsp.DiagnosticSeverity.Information)
    assert "larger than 100 bytes" in found.message


async def test_names_of_documents(editor: Editor) -> None:
    """Files with odd names, documents that are none, and those that are nothing to us."""
    uri = editor.write("a b%20#é.py", HOT)
    assert await codes(editor, uri, HOT) == ["TL102"]
    assert await codes(editor, "untitled:Untitled-1", HOT) == ["TL102"]
    assert await codes(editor, (editor.folder / "new.py").as_uri(), HOT) == ["TL102"], (
        "not saved yet"
    )
    if sys.platform != "win32":
        assert await codes(editor, "file://host/share/a.py", HOT) == ["TL102"]
    strange = (
        "git:/work/a.py",
        "vscode-notebook-cell:/a.ipynb#X1",
        "http://[x/a.py",
        "x",
        "",
        "file:///a%00.py",
    )
    for other in strange:
        assert await codes(editor, other, HOT) == [], other
    editor.open(editor.write("a.md", HOT), HOT, language="markdown")
    assert await editor.diagnostics((editor.folder / "a.md").as_uri()) == []
    assert await codes(editor, editor.write("last.py", COLD), COLD) == []


async def test_a_file_that_is_deleted_while_it_is_open(editor: Editor) -> None:
    uri = editor.write("deep/a.py", HOT)
    assert await codes(editor, uri, HOT) == ["TL102"]
    (editor.folder / "deep" / "a.py").unlink()
    (editor.folder / "deep").rmdir()
    editor.change(uri, 2, HOT + "\n")
    assert [each.code for each in await editor.diagnostics(uri, 2)] == ["TL102"]
