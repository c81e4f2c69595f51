"""The pure parts of the server: columns, changes, names and frames."""

from __future__ import annotations

import sys
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from tests.lsp.editor import applied, span
from torchlint.base import places
from torchlint.base.finding import Finding, Severity
from torchlint.base.span import Position
from torchlint.lsp.actions import wanted
from torchlint.lsp.columns import Columns
from torchlint.lsp.convert import Place, diagnostic, difference
from torchlint.lsp.documents import Buffer, changed
from torchlint.lsp.stdio import LARGEST, bodies
from torchlint.lsp.uris import path_of, scheme_of, uri_of

LINE = "a\u0301\U0001f600é"
"""Five code points with one, two, four and two bytes; a pair of units for the third."""


@pytest.mark.parametrize(
    ("encoding", "units"),
    [("utf-8", (0, 1, 3, 7, 9)), ("utf-16", (0, 1, 2, 4, 5)), ("utf-32", (0, 1, 2, 3, 4))],
)
def test_columns_there_and_back(encoding: str, units: tuple[int, ...]) -> None:
    columns = Columns(f"x\n{LINE}\n", encoding)
    for at, unit in enumerate(units):
        assert columns.position(Position(2, at + 1)) == lsp.Position(1, unit)
        assert columns.offset(lsp.Position(1, unit)) == 2 + at


def test_columns_inside_a_character_go_to_its_start() -> None:
    assert Columns(LINE, "utf-16").offset(lsp.Position(0, 3)) == 2
    assert Columns(LINE, "utf-8").offset(lsp.Position(0, 5)) == 2


def test_columns_behind_the_end() -> None:
    columns = Columns("ab\r\ncd")
    assert columns.offset(lsp.Position(0, 99)) == 2
    assert columns.offset(lsp.Position(9, 0)) == 6
    assert columns.position(Position(1, 99)) == lsp.Position(0, 2)
    assert columns.position(Position(9, 1)) == lsp.Position(1, 2)


def test_a_lone_surrogate_is_a_character() -> None:
    assert Columns("\ud800x", "utf-16").position(Position(1, 2)) == lsp.Position(0, 1)
    assert Columns("\ud800x", "utf-8").offset(lsp.Position(0, 3)) == 1


def test_a_byte_order_mark_counts_for_the_client_only() -> None:
    columns = Columns("\ufeffab\nc")
    assert columns.text == "ab\nc"
    assert columns.position(Position(1, 2)) == lsp.Position(0, 2)
    assert columns.position(Position(2, 1)) == lsp.Position(1, 0)


@given(
    st.text("ab\n\r\u0301\U0001f600\f\u2028", max_size=12),
    st.integers(0, 12),
    st.integers(0, 12),
    st.text("x\n\r\U0001f600", max_size=3),
    st.sampled_from(["utf-8", "utf-16", "utf-32"]),
)
def test_an_incremental_change_is_a_splice(
    text: str, first: int, second: int, new: str, encoding: str
) -> None:
    start, end = sorted((min(first, len(text)), min(second, len(text))))
    columns = Columns(text, encoding)
    # No position of the protocol lies between the two characters of a line end.
    start, end = (at - (text[at - 1 : at + 1] == "\r\n") for at in (start, end))
    places = [columns.position(columns.index.position(at)) for at in (start, end)]
    change = lsp.TextDocumentContentChangePartial(lsp.Range(*places), new)
    assert changed(Buffer("u", 1, text), [change], 2, encoding) == Buffer(
        "u", 2, text[:start] + new + text[end:]
    )


def test_a_range_that_ends_before_it_starts_only_inserts() -> None:
    change = lsp.TextDocumentContentChangePartial(span(0, 2, 0, 1), "-")
    assert changed(Buffer("u", 1, "abc"), [change], 2, "utf-16").text == "ab-c"


@given(st.text("ab\n", max_size=20), st.text("ab\n", max_size=20))
def test_the_difference_leads_from_one_text_to_the_other(before: str, after: str) -> None:
    place = Place("u", 1, Columns(before))
    assert (
        applied(before, lsp.WorkspaceEdit(changes={"u": difference(place, before, after)}), "u")
        == after
    )


def test_the_difference_touches_changed_lines_only() -> None:
    before = "a\r\nb\r\nc\r\nd"
    (edit,) = difference(Place("u", 1, Columns(before)), before, before.replace("b", "B"))
    assert edit == lsp.TextEdit(span(1, 0, 2, 0), "B\r\n")


@pytest.mark.skipif(sys.platform == "win32", reason="posix paths")
@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c%25.py", "/a/b c%.py"),
        ("file:///a/%C3%A9.py", "/a/é.py"),
        ("file://localhost/a.py", "/a.py"),
        ("file://server/share/a.py", "//server/share/a.py"),
        ("file:///a/%FF.py", "/a/\udcff.py"),
        ("file:///a%23b.py", "/a#b.py"),
        ("untitled:Untitled-1", ""),
        ("file:relative.py", ""),
        ("file:///a%00b.py", ""),
        ("http://[/a.py", ""),
        ("", ""),
    ],
)
def test_paths_of_uris(uri: str, path: str) -> None:
    assert path_of(uri) == path


@pytest.mark.skipif(sys.platform == "win32", reason="posix paths")
@pytest.mark.parametrize(
    "path", ["/a b/%/#?.py", "/é\U0001f600.py", "//server/share/a.py", "/\udcff.py"]
)
def test_uris_of_paths(path: str) -> None:
    assert path_of(uri_of(path)) == path


def test_schemes() -> None:
    assert [scheme_of(uri) for uri in ("FILE:///x", "untitled:x", "x", "http://[x")] == [
        "file",
        "untitled",
        "",
        "",
    ]


def read(data: bytes) -> list[bytes | None]:
    """Return the bodies of what arrives on a descriptor."""
    with tempfile.TemporaryFile() as stream:
        stream.write(data)
        stream.seek(0)
        return list(bodies(stream.fileno()))


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"Content-Length: 2\r\n\r\n{}Content-Length: 1\r\n\r\n1", [b"{}", b"1"]),
        (b"content-length:2\r\nContent-Type: x; charset=utf-8\r\n\r\n{}", [b"{}"]),
        (b"Content-Length: 2\n\n{}", [b"{}"]),
        (b"garbage\r\n\r\n\xff\xfe\nContent-Length: x\r\n\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        (b"Content-Length: -2\r\n\r\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        (b"x" * 100_000 + b"\nContent-Length: 2\r\n\r\n{}", [b"{}"]),
        (b"Content-Length: 0\r\n\r\nContent-Length: 2\r\n\r\n{}", [b"", b"{}"]),
        (b"Content-Length: 20\r\n\r\n{}", []),
        (f"Content-Length: {LARGEST + 1}\r\n\r\n".encode() + b"{}", []),
        (b"Content-Length: 2", []),
        (b"", []),
    ],
)
def test_frames(data: bytes, found: list[bytes | None]) -> None:
    assert read(data) == found


def test_a_message_that_is_too_large_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchlint.lsp.stdio.LARGEST", 5)
    data = b"Content-Length: 6\r\n\r\n123456Content-Length: 2\r\n\r\n{}"
    assert read(data) == [None, b"{}"]


@pytest.mark.parametrize(
    ("only", "kind", "answer"),
    [
        (None, "quickfix", True),
        (["quickfix"], "quickfix", True),
        (["source"], "source.fixAll.torchlint", True),
        (["source.fixAll.ruff"], "source.fixAll.torchlint", False),
        (["source.fix"], "source.fixAll.torchlint", False),
        ([""], "quickfix", True),
        ([], "quickfix", False),
    ],
)
def test_kinds_of_actions(only: list[str] | None, kind: str, answer: bool) -> None:
    assert wanted(kind, only) is answer


def test_a_code_links_to_its_page_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def link(code: str) -> lsp.CodeDescription | None:
        at = Position(1, 1)
        finding = Finding(code, "x", "m", Severity.WARNING, "a.py", at, at, 1, 1)
        return diagnostic(
            finding, {None: Place("u", 1, Columns("x\n"))}, related=True
        ).code_description

    assert link("TL101") is None
    monkeypatch.setattr(places, "DOCS_URL", "https://example.org/torchlint/")
    assert link("TL101") == lsp.CodeDescription("https://example.org/torchlint/rules/TL101.html")
    assert [link(code) for code in ("TL001", "ACME001", "TLX101", "invalid-syntax")] == [None] * 4
