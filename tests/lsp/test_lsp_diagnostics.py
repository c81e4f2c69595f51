"""Diagnostics, end to end: when they come, what they hold, and for which text."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from lsprotocol import types as lsp

from tests.lsp.editor import COLD, FIXED, HOT, Editor, able, span

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
DEPRECATED = "import torch\n\nwith torch.cuda.amp.autocast():\n    pass\n"
IMPORTING = """import torch
from helpers import scalar


def train(model, loader, optimizer, loss_fn):
    for x, y in loader:
        loss = loss_fn(model(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        scalar(loss)
"""
REMOVED = """import torch


def train(model, loader):
    for x in loader:
        model(x).sum().backward()
        torch.cuda.empty_cache()
"""


async def test_a_finding_is_shown_when_a_file_is_opened(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    (found,) = await editor.shown(uri, HOT)
    assert (found.code, found.source, found.severity) == (
        "TL102",
        "torchlint",
        lsp.DiagnosticSeverity.Warning,
    )
    assert found.range == span(5, 15, 5, 35)
    assert found.related_information
    assert "loop" in found.related_information[0].message
    assert found.related_information[0].location.uri == uri
    assert found.data["fix"]["safety"] == "safe"
    assert found.data["fix"]["version"] == 1
    assert found.data["fix"]["edits"][0]["uri"] == uri


async def test_without_related_information_the_message_says_why(bare: Editor) -> None:
    can = able()
    assert can.text_document
    can.text_document.publish_diagnostics = None
    await bare.initialize(capabilities=can)
    (found,) = await bare.shown(bare.write("a.py", HOT), HOT)
    assert found.related_information is None
    assert "\nwhy: " in found.message


async def test_changes_are_followed_and_the_last_version_counts(editor: Editor) -> None:
    uri = editor.write("a.py", COLD)
    assert await editor.shown(uri, COLD) == []
    editor.change(uri, 2, HOT)
    editor.change(uri, 3, (5, 15, 5, 35, 'torch.ones(n, device="cuda")'))
    assert await editor.diagnostics(uri, 3) == []
    editor.change(
        uri,
        4,
        (5, 15, 5, 43, "0"),
        (5, 15, 5, 16, "torch.ones(n).cuda()"),
        (0, 0, 0, 0, "# one\r\n"),
    )
    (found,) = await editor.diagnostics(uri, 4)
    assert found.range == span(6, 15, 6, 35)
    assert not [each for each in editor.published if each.version == 2], (
        "an old version was analysed"
    )


async def test_a_closed_document_loses_its_diagnostics(editor: Editor) -> None:
    uri = editor.write("a.py", HOT)
    assert await editor.shown(uri, HOT)
    editor.close(uri)
    await editor.until(
        lambda: not editor.published[-1].diagnostics and editor.published[-1].uri == uri
    )


@pytest.mark.parametrize(
    ("text", "code", "tag"),
    [
        (DEPRECATED, "TL408", lsp.DiagnosticTag.Deprecated),
        (REMOVED, "TL701", lsp.DiagnosticTag.Unnecessary),
        ("x = 1  # torchlint: ignore[TL101]\n", "TL001", lsp.DiagnosticTag.Unnecessary),
    ],
)
async def test_tags(editor: Editor, text: str, code: str, tag: lsp.DiagnosticTag) -> None:
    uri = editor.write("a.py", text)
    found = [each for each in await editor.shown(uri, text) if each.code == code]
    assert found
    assert list(found[0].tags or ()) == [tag]


async def test_a_plain_finding_has_no_tag(editor: Editor) -> None:
    (found,) = await editor.shown(editor.write("a.py", HOT), HOT)
    assert found.tags is None


async def test_a_syntax_error_is_an_error_with_cpythons_words(editor: Editor) -> None:
    text = "import torch\nx = (\n"
    (found,) = await editor.shown(editor.write("a.py", text), text)
    assert (found.code, found.severity) == ("invalid-syntax", lsp.DiagnosticSeverity.Error)
    assert "never closed" in found.message
    assert found.range.start == lsp.Position(1, 4)


async def test_what_a_file_imports_counts_and_is_read_again_when_it_is_saved(
    editor: Editor,
) -> None:
    helper = editor.write(
        "with space/helpers.py", "import torch\n\n\ndef scalar(x):\n    return x.item()\n"
    )
    uri = editor.write("with space/train.py", IMPORTING)
    (found,) = [each for each in await editor.shown(uri, IMPORTING) if each.code == "TL101"]
    first, *rest = [each.location for each in found.related_information or ()]
    assert (first.uri, first.range.start.line) == (helper, 4)
    assert {each.uri for each in rest} == {uri}
    editor.write("with space/helpers.py", "import torch\n\n\ndef scalar(x):\n    return x\n")
    count = len(editor.published)
    editor.save(helper)  # which is not open
    await editor.until(lambda: len(editor.published) > count)
    assert "TL101" not in {each.code for each in editor.published[-1].diagnostics}


async def test_the_unsaved_text_of_what_a_file_imports_counts(editor: Editor) -> None:
    fine = "import torch\n\n\ndef scalar(x):\n    return x\n"
    helper = editor.write("helpers.py", fine)
    uri = editor.write("train.py", IMPORTING)

    def codes() -> set[object]:
        last = [each for each in editor.published if each.uri == uri][-1]
        return {each.code for each in last.diagnostics}

    await editor.shown(uri, IMPORTING)
    assert "TL101" not in codes()
    await editor.shown(helper, fine)
    editor.change(helper, 2, fine.replace("return x", "return x.item()"))
    await editor.until(lambda: "TL101" in codes())
    editor.change(uri, 2, f"{IMPORTING}\n")
    await editor.diagnostics(uri, 2)
    assert "TL101" in codes()
    editor.close(helper)  # and so its text is that of the disk again
    await editor.until(lambda: "TL101" not in codes())


async def test_the_unsaved_text_of_a_caller_counts(editor: Editor) -> None:
    """A file rests on who calls its functions, whether it imports the callers or not."""
    hot = "import torch\n\n\ndef scalar(x):\n    return x.item()\n"
    uri = editor.write("helpers.py", hot)
    cold = IMPORTING.replace("        scalar(loss)\n", "")
    train = editor.write("train.py", cold)

    def codes() -> set[object]:
        last = [each for each in editor.published if each.uri == uri][-1]
        return {each.code for each in last.diagnostics}

    await editor.shown(uri, hot)
    await editor.shown(train, cold)
    assert "TL101" not in codes()
    editor.change(train, 2, IMPORTING)
    await editor.until(lambda: "TL101" in codes())
    editor.change(train, 3, cold)
    await editor.until(lambda: "TL101" not in codes())


async def test_a_buffer_that_was_never_saved_counts_when_it_is_opened(editor: Editor) -> None:
    """An editor that was closed with unsaved text opens with it again."""
    fine = "import torch\n\n\ndef scalar(x):\n    return x\n"
    helper = editor.write("helpers.py", fine)
    await editor.shown(helper, fine.replace("return x", "return x.item()"))
    uri = editor.write("train.py", IMPORTING)
    assert "TL101" in {each.code for each in await editor.shown(uri, IMPORTING)}


@pytest.mark.parametrize(
    ("encoding", "start", "end"),
    [("utf-8", 30, 50), ("utf-16", 23, 43), ("utf-32", 20, 40), ("", 23, 43)],
)
async def test_columns_are_in_the_units_that_were_agreed_on(
    bare: Editor, encoding: str, start: int, end: int
) -> None:
    # One character beyond the 16-bit plane three times, and one that combines with the letter
    # before.
    line = "        e\u0301 = '\U0001f600\U0001f600\U0001f600', torch.ones(n).cuda()"
    text = HOT.replace("        mask = torch.ones(n).cuda()", line).replace(", mask", "")
    result = await bare.initialize(encodings=[encoding] if encoding else [])
    assert result.capabilities.position_encoding == (encoding or "utf-16")
    uri = bare.write("a.py", text)
    (found,) = await bare.shown(uri, text)
    assert found.range == span(5, start, 5, end)
    bare.change(uri, 2, (5, start, 5, end, "0"))
    assert await bare.diagnostics(uri, 2) == []
    bare.change(uri, 3, (5, start, 5, start + 1, "torch.ones(n).cuda()"))
    assert (await bare.diagnostics(uri, 3))[0].range == found.range


async def test_the_first_encoding_that_we_know_is_taken(bare: Editor) -> None:
    result = await bare.initialize(encodings=["utf-7", "utf-32", "utf-16"])
    assert result.capabilities.position_encoding == "utf-32"


async def test_lines_end_where_the_protocol_says(editor: Editor) -> None:
    """A form feed and a line separator end no line, and a lone carriage return does."""
    text = "# \f \u2028\x85\r# b\r\n" + HOT
    uri = editor.write("a.py", text)
    (found,) = await editor.shown(uri, text)
    assert found.range == span(7, 15, 7, 35)
    editor.change(uri, 2, (7, 15, 7, 35, "0"))
    assert await editor.diagnostics(uri, 2) == []


async def test_a_byte_order_mark_shifts_nothing(editor: Editor) -> None:
    text = "\ufeffimport torch; torch.autograd.set_detect_anomaly(True)\n"
    (found,) = await editor.shown(editor.write("a.py", text), text)
    assert found.code == "TL801"
    assert (
        text[found.range.start.character : found.range.end.character]
        == "torch.autograd.set_detect_anomaly(True)"
    )


async def test_a_client_that_asks_for_diagnostics_is_not_sent_them(bare: Editor) -> None:
    await bare.initialize(capabilities=able(pulls=True))
    uri = bare.write("a.py", HOT)
    bare.open(uri, HOT)
    params = lsp.DocumentDiagnosticParams(lsp.TextDocumentIdentifier(uri))
    report = await bare.client.text_document_diagnostic_async(params)
    assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
    assert [each.code for each in report.items] == ["TL102"]
    bare.change(uri, 2, FIXED)
    report = await bare.client.text_document_diagnostic_async(params)
    assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
    assert not report.items
    bare.save(uri)
    await bare.until(lambda: bare.client.diagnostic_refresh_count)
    bare.close(uri)
    report = await bare.client.text_document_diagnostic_async(params)
    assert isinstance(report, lsp.RelatedFullDocumentDiagnosticReport)
    assert not report.items
    assert bare.published == []


async def test_a_code_leads_to_the_page_on_this_machine_where_the_client_follows(
    bare: Editor,
) -> None:
    can = able()
    assert can.text_document is not None
    can.text_document.publish_diagnostics = lsp.PublishDiagnosticsClientCapabilities(
        code_description_support=True
    )
    await bare.initialize(capabilities=can)
    (found,) = await bare.shown(bare.write("a.py", HOT), HOT)
    assert found.code_description is not None
    page = Path(url2pathname(urlsplit(found.code_description.href).path))
    assert "cpu-create-then-move" in page.read_text(encoding="utf-8")
