"""A fix that changes two files is one edit of both documents, for the versions that it was made
for."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import Editor, able, applied
from tests.two_files import DATA, MOVED, PINNED, TRAIN

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
ROW = TRAIN[: TRAIN.index("x = x.to")].count("\n")


async def fix(editor: Editor, uri: str) -> lsp.CodeAction:
    found = await editor.actions(uri, ROW, only=["quickfix"])
    return next(each for each in found if "Copy without waiting" in each.title)


def versions(edit: lsp.WorkspaceEdit) -> dict[str, int | None]:
    changes = edit.document_changes or ()
    found = [each.text_document for each in changes if isinstance(each, lsp.TextDocumentEdit)]
    return {each.uri.rpartition("/")[2]: each.version for each in found}


async def test_both_documents_are_one_edit(editor: Editor) -> None:
    data, train = editor.write("data.py", DATA), editor.write("train.py", TRAIN)
    await editor.shown(data, DATA, version=3)
    await editor.shown(train, TRAIN, version=7)
    action = await fix(editor, train)
    assert "unsafe" not in action.title
    assert action.edit is not None
    assert versions(action.edit) == {"train.py": 7, "data.py": 3}
    assert MOVED in applied(TRAIN, action.edit, train)
    assert PINNED in applied(DATA, action.edit, data)


async def test_a_file_that_is_not_open_has_no_version(editor: Editor) -> None:
    data, train = editor.write("data.py", DATA), editor.write("train.py", TRAIN)
    (shown, *_) = await editor.shown(train, TRAIN)
    action = await fix(editor, train)
    assert action.edit is not None
    assert versions(action.edit) == {"train.py": 1, "data.py": None}
    assert PINNED in applied(DATA, action.edit, data)
    assert "fix" not in shown.data, "a client that applies edits by itself would apply half of it"


async def test_what_the_editor_holds_counts(editor: Editor) -> None:
    data, train = editor.write("data.py", DATA), editor.write("train.py", TRAIN)
    unsaved = "# not saved yet\n" + DATA
    await editor.shown(data, unsaved)
    await editor.shown(train, TRAIN)
    action = await fix(editor, train)
    assert action.edit is not None
    assert PINNED in applied(unsaved, action.edit, data)


async def test_a_second_file_that_may_not_be_changed_is_the_reason_given(editor: Editor) -> None:
    data, train = editor.write("data.py", DATA), editor.write("train.py", TRAIN)
    await editor.shown(train, TRAIN)
    (editor.folder / "data.py").write_text("# changed\n" + DATA)  # and nobody told the server
    action = await fix(editor, train)
    assert action.edit is None
    assert action.disabled is not None
    assert action.disabled.reason == "it also changes data.py, which has changed since"
    (editor.folder / "data.py").write_text(DATA)
    (editor.folder / "data.py").chmod(0o444)
    action = await fix(editor, train)
    assert action.disabled is not None
    assert action.disabled.reason == "it also changes data.py, which is read-only"
    (editor.folder / "data.py").chmod(0o644)
    (editor.folder / "torchlint.toml").write_text('exclude = ["data.py"]\n')
    action = await fix(editor, train)
    assert action.disabled is not None
    assert action.disabled.reason == "it also changes data.py, which is excluded"
    assert data


async def test_a_client_without_versions_gets_both_files(bare: Editor) -> None:
    await bare.initialize(capabilities=able(versioned=False))
    data, train = bare.write("data.py", DATA), bare.write("train.py", TRAIN)
    await bare.shown(train, TRAIN)
    action = await fix(bare, train)
    assert action.edit is not None
    assert set(action.edit.changes or ()) == {data, train}


async def test_fix_all_leaves_it_to_a_person(editor: Editor) -> None:
    editor.write("data.py", DATA)
    (editor.folder / "torchlint.toml").write_text("unsafe-fixes = true\nselect = ['TL103']\n")
    train = editor.write("train.py", TRAIN)
    await editor.shown(train, TRAIN)
    found = await editor.actions(train, ROW, only=["source.fixAll.torchlint"])
    assert found == []
