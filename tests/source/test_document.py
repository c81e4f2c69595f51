"""Reading, decoding and encoding source files."""

from __future__ import annotations

import codecs
import dataclasses
import os
import socket
from pathlib import Path

import pytest

from torchlint.base.errors import SourceError, TooLargeError
from torchlint.source.document import Document, decode, encode, fixable, read, read_bytes

needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")


def made(data: bytes) -> Document:
    return decode(data, "/x/a.py", "a.py")


@pytest.mark.parametrize(
    ("data", "text", "encoding", "bom"),
    [
        (b"", "", "utf-8", False),
        (b"x = 1", "x = 1", "utf-8", False),
        (b"\xef\xbb\xbfx = 1\r\n", "x = 1\r\n", "utf-8", True),
        (b"\xef\xbb\xbf# coding: utf-8\n", "# coding: utf-8\n", "utf-8", True),
        (b"a\rb\r\nc\n", "a\rb\r\nc\n", "utf-8", False),
        (b"# coding: latin-1\nx = '\xe9'\n", "# coding: latin-1\nx = 'é'\n", "iso8859-1", False),
        (
            b"# coding: Latin_1-unix\nx = '\xe9'\n",
            "# coding: Latin_1-unix\nx = 'é'\n",
            "iso8859-1",
            False,
        ),
        (
            b"#!x\n# vim: set fileencoding=cp1252 :\n\x80",
            "#!x\n# vim: set fileencoding=cp1252 :\n€",
            "cp1252",
            False,
        ),
        (b"#!x\r# coding: cp1252\r\x80", "#!x\r# coding: cp1252\r€", "cp1252", False),
        (b"x = 1\n# coding: latin-1\n", "x = 1\n# coding: latin-1\n", "utf-8", False),
        (b"\n\n# coding: latin-1\n", "\n\n# coding: latin-1\n", "utf-8", False),
        (b"# coding: gbk\nx = '\xc4\xe3'\n", "# coding: gbk\nx = '你'\n", "gbk", False),
        (b"# coding: utf-8-unix\n", "# coding: utf-8-unix\n", "utf-8", False),
        (b"x = '\0'\x0cy", "x = '\0'\x0cy", "utf-8", False),
    ],
)
def test_decode_and_back(data: bytes, text: str, encoding: str, bom: bool) -> None:
    document = made(data)
    assert (document.text, document.encoding, document.bom) == (text, encoding, bom)
    assert encode(document, document.text) == data
    assert fixable(document) == ""


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"# coding: nonsense\n", "unknown encoding nonsense"),
        (b"# coding: " + b"x" * 100_000, "unknown encoding xxx"),
        (b"# coding: rot13\n", "rot13 is not an encoding for text"),
        (b"# coding: hex\n", "hex is not an encoding for text"),
        (b"# coding: utf-16\n", "utf-16, in which"),
        (b"# coding: undefined\n", "undefined, in which"),
        (
            b"\xef\xbb\xbf# coding: latin-1\n",
            "has a UTF-8 byte order mark but declares the encoding iso8859-1",
        ),
        (b"x = '\xff'\n", "not valid utf-8: byte 0xff at offset 5"),
        (b"\xef\xbb\xbfx = '\xff'\n", "byte 0xff at offset 8"),
        (b"# coding: ascii\n\xe9", "not valid ascii: byte 0xe9 at offset 16"),
        (codecs.BOM_UTF16_LE + "x".encode("utf-16-le"), "starts with a utf-16 byte order mark"),
        (codecs.BOM_UTF32_LE + "x".encode("utf-32-le"), "starts with a utf-32 byte order mark"),
        (b"x = '\xed\xa0\x80'\n", "not valid utf-8: byte 0xed"),
    ],
)
def test_undecodable(data: bytes, words: str) -> None:
    with pytest.raises(SourceError, match=r"^a.py: ") as caught:
        made(data)
    assert words in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("codec", ["utf-7", "unicode_escape", "raw_unicode_escape", "idna", "hz"])
def test_odd_codecs_are_read_but_not_fixed(codec: str) -> None:
    document = made(f"# coding: {codec}\nx = 1\n".encode())
    assert document.text.endswith("x = 1\n")
    assert "does not keep ASCII" in fixable(document)


def test_odd_escapes_warn_nobody() -> None:
    assert "does not keep ASCII" in fixable(made(b"# coding: unicode_escape\nx = '\\d'\n"))


def test_not_fixable_without_a_round_trip() -> None:
    # Two byte sequences for one character: encoding gives the other one.
    document = made(b"# coding: iso2022_jp\n\x1b(B\x1b(Bx = 1\n")
    assert "does not give the same bytes" in fixable(document)


def test_not_fixable_when_the_text_cannot_be_encoded() -> None:
    document = dataclasses.replace(made(b"# coding: latin-1\n"), text="€")
    assert "does not give the same bytes" in fixable(document)


def test_codecs_that_fail_without_an_offset() -> None:
    with pytest.raises(SourceError, match=r"^a.py: not valid idna") as caught:
        made(b"# coding: idna\n.xn--0\n")
    assert "\n" not in str(caught.value)
    with pytest.raises(SourceError, match=r"^a.py: idna cannot hold"):
        encode(made(b"# coding: idna\n"), "é" * 100)


def test_encode_names_the_character() -> None:
    document = made(b"# coding: latin-1\nx = 1\n")
    with pytest.raises(SourceError, match=r"^a.py: iso8859-1 cannot hold '\\u20ac' on line 2$"):
        encode(document, "# coding: latin-1\nx = '€'\n")
    with pytest.raises(SourceError, match="cannot hold"):
        encode(made(b""), "\udcff")


def test_read(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"x = 1\r\n")
    assert read(str(path), "a.py", 0) == Document(
        "a.py", str(path), "x = 1\r\n", "utf-8", False, b"x = 1\r\n"
    )
    assert read(str(path), "a.py", 7).data == b"x = 1\r\n"
    with pytest.raises(TooLargeError, match=r"^a.py: is larger than 6 bytes"):
        read(str(path), "a.py", 6)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.py")
    (tmp_path / "dir.py").mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s.py"))
    (tmp_path / "loop.py").symlink_to("loop.py")
    for name, reason in [
        ("fifo.py", "is a FIFO, not a regular file"),
        ("dir.py", "is a directory, not a regular file"),
        ("s.py", ""),
        ("loop.py", "too many levels of symbolic links"),
        ("none.py", "no such file or directory"),
        ("a" * 300, "file name too long"),
        ("nul\0", "null"),
    ]:
        with pytest.raises(SourceError, match=f"^x.py: .*{reason}"):
            read(str(tmp_path / name), "x.py", 0)
    with pytest.raises(SourceError, match="is a device"):
        read(os.devnull, "x.py", 0)


def test_refused_reads_leave_no_descriptor_open(tmp_path: Path) -> None:
    before = os.open(tmp_path, os.O_RDONLY)
    os.close(before)
    for _ in range(3):
        with pytest.raises(SourceError):
            read_bytes(str(tmp_path), "x", 0)
    after = os.open(tmp_path, os.O_RDONLY)
    os.close(after)
    assert after == before


def test_links_are_followed_only_where_allowed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_bytes(b"x")
    (tmp_path / "b.py").symlink_to("a.py")
    assert read_bytes(str(tmp_path / "b.py"), "b.py", 0) == b"x"
    with pytest.raises(SourceError):
        read_bytes(str(tmp_path / "b.py"), "b.py", 0, follow=False)


@needs_user
def test_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"")
    path.chmod(0)
    with pytest.raises(SourceError, match=r"^a.py: permission denied$"):
        read(str(path), "a.py", 0)


@pytest.mark.parametrize("limit", [5, 6, 10**12, 2**63, 10**30])
def test_a_limit_that_is_larger_than_the_memory_is_no_buffer(tmp_path: Path, limit: int) -> None:
    file = tmp_path / "a.py"
    file.write_bytes(b"x = 1")
    assert read_bytes(str(file), "a.py", limit) == b"x = 1"


def test_a_file_larger_than_a_piece_is_read_whole_and_its_limit_holds(tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    data = b"".join(b"x = %d\n" % number for number in range(400_000))
    file.write_bytes(data)
    for limit in (len(data), len(data) + 1, 10 * len(data)):
        assert read_bytes(str(file), "a.py", limit) == data
    for limit in (len(data) - 1, 1 << 20, 5):
        with pytest.raises(TooLargeError):
            read_bytes(str(file), "a.py", limit)
