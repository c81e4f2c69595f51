"""Code actions and hover, end to end: each edit is applied as a client would, and checked again."""

from __future__ import annotations

import pytest
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from tests.lsp.editor import COLD, FIXED, HOT, Editor, able, applied
from torchlint.catalog.rules import load_catalog
from torchlint.manual.pages import page

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
FIX_ALL = "source.fixAll.torchlint"
TWO = HOT.replace(
    "mask = torch.ones(n).cuda()", "mask = torch.ones(n).cuda() + torch.zeros(n).cuda()"
)
UNSAFE = "import torch\n\ntorch.autograd.set_detect_anomaly(True)\n"
COMMENT = HOT.replace("torch.ones(n).cuda()", "torch.ones(n).cuda(  # why\n        )")


async def test_a_safe_fix_is_preferred_and_holds_for_its_version(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    (shown,) = await editor.shown(uri, HOT, version=7)
    fix = (await editor.actions(uri, 5))[0]
    assert fix.title.startswith("TL102: ")
    assert (fix.kind, fix.is_preferred) == ("quickfix", True)
    assert list(fix.diagnostics or ()) == [shown]
    edit = await editor.edit(fix)
    assert edit.document_changes
    assert isinstance(edit.document_changes[0], lsp.TextDocumentEdit)
    assert edit.document_changes[0].text_document.version == 7
    assert applied(HOT, edit, uri) == FIXED


async def test_a_client_without_versions_gets_plain_changes(bare: Editor) -> None:
    await bare.initialize(capabilities=able(versioned=False, resolves=False))
    uri = bare.write("a.py", HOT)
    await bare.shown(uri, HOT)
    fix, ignore = await bare.actions(uri, 5, only=["quickfix"])
    assert fix.edit
    assert fix.edit.document_changes is None
    assert applied(HOT, fix.edit, uri) == FIXED
    assert ignore.edit, "a client that resolves nothing needs the edit at once"


async def test_an_unsafe_fix_says_what_it_changes(editor: Editor) -> None:
    uri = editor.write("a.py", UNSAFE)
    await editor.shown(uri, UNSAFE)
    fix = (await editor.actions(uri, 2))[0]
    assert fix.title.endswith(" (unsafe)")
    assert not fix.is_preferred


@pytest.mark.parametrize(
    ("more", "fixes"),
    [("", ["TL102: Pass device= to the factory"]), ("x = 1  # noqa: TL101\n", [", column "] * 2)],
    ids=["one fix for both", "each its own, as a comment may keep one back"],
)
async def test_a_title_is_a_sentence_and_each_is_there_once(
    editor: Editor, more: str, fixes: list[str]
) -> None:
    text = TWO + more
    uri = editor.write("a.py", text)
    await editor.shown(uri, text)
    titles = [each.title for each in await editor.actions(uri, 5)]
    assert len(set(titles)) == len(titles)
    assert sum("Ignore on this line" in each for each in titles) == 1
    told = [each for each in titles if "Pass device=" in each]
    assert len(told) == len(fixes)
    assert all(part in each for part, each in zip(fixes, told, strict=True))
    assert max(map(len, titles)) < 80


async def test_where_the_pointer_rests_it_is_told_what_an_unsafe_fix_changes(
    editor: Editor,
) -> None:
    uri = editor.write("a.py", UNSAFE)
    await editor.shown(uri, UNSAFE)
    told = await hovered(editor, uri, 2, 3)
    assert "Its fix is unsafe: " in told


async def test_a_withheld_fix_is_shown_with_its_reason(editor: Editor) -> None:
    uri = editor.write("a.py", COMMENT)
    (shown,) = await editor.shown(uri, COMMENT)
    assert "fix" not in shown.data
    fix = (await editor.actions(uri, 5))[0]
    assert fix.disabled
    assert "comment" in fix.disabled.reason
    assert fix.edit is None
    assert await editor.actions(uri, 5, only=[FIX_ALL]) == []


async def test_an_action_that_ignores_the_finding(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    await editor.shown(uri, HOT)
    (ignore,) = [each for each in await editor.actions(uri, 5) if "Ignore" in each.title]
    text = applied(HOT, await editor.edit(ignore), uri)
    assert text == HOT.replace(".cuda()", ".cuda()  # torchlint: ignore[TL102]")
    editor.change(uri, 2, text)
    assert await editor.diagnostics(uri, 2) == []


async def test_all_safe_fixes_at_once(editor: Editor) -> None:
    uri = editor.write("a.py", TWO)
    await editor.shown(uri, TWO)
    (fix,) = await editor.actions(uri, 0, only=["source.fixAll"])
    assert fix.kind == FIX_ALL
    text = applied(TWO, await editor.edit(fix), uri)
    assert text.count('device="cuda"') == 2
    editor.change(uri, 2, text)
    assert await editor.diagnostics(uri, 2) == []
    assert await editor.actions(uri, 0, only=[FIX_ALL]) == []


async def test_all_safe_fixes_for_a_client_that_resolves_nothing(bare: Editor) -> None:
    await bare.initialize(capabilities=able(resolves=False))
    uri = bare.write("a.py", TWO)
    await bare.shown(uri, TWO)
    assert not [each for each in await bare.actions(uri, 5) if each.kind == FIX_ALL], (
        "nobody asked for it"
    )
    (fix,) = await bare.actions(uri, 0, only=["source"])
    assert fix.edit
    assert applied(TWO, fix.edit, uri).count('device="cuda"') == 2


async def test_a_configuration_does_not_allow_unsafe_fixes(editor: Editor) -> None:
    uri = editor.write("a.py", UNSAFE)
    await editor.shown(uri, UNSAFE)
    assert await editor.actions(uri, 0, only=[FIX_ALL]) == []
    editor.write("torchlint.toml", "unsafe-fixes = true\n")
    editor.change(uri, 2, UNSAFE)
    await editor.diagnostics(uri, 2)
    assert await editor.actions(uri, 0, only=[FIX_ALL]) == [], "the project is not the user"


async def test_unsafe_fixes_are_for_those_who_allow_them(bare: Editor) -> None:
    await bare.initialize(options={"unsafe-fixes": True})
    editor = bare
    uri = editor.write("a.py", UNSAFE)
    await editor.shown(uri, UNSAFE)
    (fix,) = await editor.actions(uri, 0, only=[FIX_ALL])
    assert "set_detect_anomaly(True)" not in applied(UNSAFE, await editor.edit(fix), uri)


@pytest.mark.parametrize(
    ("only", "count"), [(["refactor"], 0), (["quickfix"], 2), (None, 3), ([], 0)]
)
async def test_only_what_is_asked_for(editor: Editor, only: list[str] | None, count: int) -> None:
    uri = editor.write("a.py", HOT)
    await editor.shown(uri, HOT)
    assert len(await editor.actions(uri, 5, only=only)) == count


async def test_lines_without_a_finding_have_no_quick_fix(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    await editor.shown(uri, HOT)
    assert await editor.actions(uri, 4, only=["quickfix"]) == []


async def test_actions_are_for_the_text_as_it_is_now(editor: Editor) -> None:
    uri = editor.write("a.py", COLD)
    editor.open(uri, COLD)
    editor.change(uri, 2, TWO)
    fix = (await editor.actions(uri, 5))[0]  # asked before any analysis has come to its end
    (every,) = await editor.actions(uri, 5, only=[FIX_ALL])
    assert 'device="cuda"' in applied(TWO, await editor.edit(fix), uri)
    editor.change(uri, 3, COLD)
    with pytest.raises(Exception, match="changed"):
        await editor.edit(every)


@pytest.mark.parametrize("eol", ["\r\n", "\r", "\n"])
async def test_edits_keep_line_ends(editor: Editor, eol: str) -> None:
    text = TWO.replace("\n", eol)
    uri = editor.write("a.py", text)
    await editor.shown(uri, text)
    (every,) = await editor.actions(uri, 5, only=[FIX_ALL])
    fixed = applied(text, await editor.edit(every), uri)
    assert fixed.count(eol) == text.count(eol)
    assert fixed.replace(eol, "\n").count("\n") == fixed.count(eol)


async def test_edits_behind_emoji(editor: Editor) -> None:
    text = HOT.replace("        mask = ", "        e\u0301, mask = '\U0001f600', ")
    uri = editor.write("a.py", text)
    await editor.shown(uri, text)
    fix = (await editor.actions(uri, 5))[0]
    assert applied(text, await editor.edit(fix), uri) == text.replace(
        "torch.ones(n).cuda()", 'torch.ones(n, device="cuda")'
    )


async def hovered(editor: Editor, uri: str, line: int, column: int) -> str:
    """Return what is shown at a position."""
    params = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(line, column))
    found = await editor.client.text_document_hover_async(params)
    if found is None:
        return ""
    assert isinstance(found.contents, lsp.MarkupContent)
    assert found.contents.kind is lsp.MarkupKind.Markdown
    assert found.range
    assert found.range.start.line == line
    return found.contents.value


async def test_hover_shows_the_manual(editor: Editor) -> None:
    info = load_catalog().find("TL102")
    assert info is not None
    text = HOT + "x = 1  # torchlint: ignore[TL102, TL9, sync-scalar-read-in-loop, TL999]\n"
    uri = editor.write("a.py", text)
    await editor.shown(uri, text)
    assert await hovered(editor, uri, 5, 20) == page(info)
    assert await hovered(editor, uri, 7, 29) == page(info)
    assert (await hovered(editor, uri, 7, 45)).startswith("# sync-scalar-read-in-loop (TL101)")
    for line, column in ((5, 3), (7, 0), (7, 35), (7, 70), (99, 0)):
        assert await hovered(editor, uri, line, column) == ""


async def test_a_refusal_is_no_mistake_of_ours(editor: Editor) -> None:
    logged: list[lsp.LogMessageParams] = []
    editor.client.protocol.fm.features[lsp.WINDOW_LOG_MESSAGE] = logged.append
    uri = editor.write("a.py", HOT)
    await editor.shown(uri, HOT)
    action = next(each for each in await editor.actions(uri, 5) if each.edit is None)
    editor.change(uri, 2, COLD)
    with pytest.raises(JsonRpcException, match="the document has changed"):
        await editor.client.code_action_resolve_async(action)
    editor.client.protocol.notify("workspace/unheardOf", {})
    await editor.diagnostics(uri, 2)
    assert logged == []
