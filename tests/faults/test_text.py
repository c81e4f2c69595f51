"""The faults of a file's text: T01 to T16."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.faults import plugin
from tests.faults.harness import Fault
from tests.faults.slow_code import (
    CODE,
    FAST,
    SLOW,
    applied,
    checked,
    linted,
    linted_and_fixed,
    linted_or_late,
    refused,
    same,
    unchanged,
)

BOM = codecs.BOM_UTF8
CALL = f"model(x, {SLOW}).sum().backward()"
INLINE = f"import torch\n\n\ndef f(model, loader, n):\n    for x in loader:\n        {CALL}\n"
"""`SLOW` inside the last line."""


def newlines(text: str, *kinds: str) -> str:
    """Return `text` with these newlines in turn."""
    lines = text.split("\n")
    return "".join(line + kinds[k % len(kinds)] for k, line in enumerate(lines[:-1])) + lines[-1]


@pytest.mark.fault("T01")
def test_t01_little_text(fault: Fault) -> None:
    files = {
        "empty.py": "",
        "blanks.py": "   \n\t\n  ",
        "newlines.py": "\n\n\n",
        "comment.py": "# import torch",
        "comment_line.py": "# import torch\n",
        "import.py": "import torch",
        "docstring.py": '"""torch"""',
        "no_final_newline.py": CODE.rstrip("\n"),
        "fix_on_the_last_line.py": INLINE.rstrip("\n"),
        "blanks_at_the_end.py": f"{INLINE}    ",
    }
    linted_and_fixed(fault, files)


@pytest.mark.fault("T02")
def test_t02_byte_order_mark(fault: Fault) -> None:
    files = {
        "lf.py": CODE,
        "crlf.py": CODE.replace("\n", "\r\n"),
        "cookie.py": f"# coding: utf-8\n{CODE}",
        "on_the_line.py": "import torch; x = n = 3\nfor model in ():\n    " + CALL + "\n",
        "only.py": "",
    }
    linted_and_fixed(fault, {name: f"\ufeff{text}" for name, text in files.items()})
    assert (fault.folder / "lf.py").read_bytes().startswith(BOM + b"import")


@pytest.mark.fault("T03")
def test_t03_newlines_stay_as_they_are(fault: Fault) -> None:
    files: dict[str, str] = {}
    for name, text in (("line", CODE), ("inline", INLINE)):
        files |= {
            f"{name}_crlf.py": newlines(text, "\r\n"),
            f"{name}_cr.py": newlines(text, "\r"),
            f"{name}_mixed.py": newlines(text, "\n", "\r\n", "\r"),
            f"{name}_mixed_2.py": newlines(text, "\r", "\n"),
            f"{name}_cr_cut.py": newlines(text, "\r")[:-1],
            f"{name}_lf_then_cr.py": f"{text}\r",
        }
    files["in_a_string.py"] = f'text = """a\r\nb\rc\nd"""\r\n{CODE}'
    linted_and_fixed(fault, files)


GROWN = """import torch


def train(model, loader):
\tlog = torch.zeros(0)
\tfor x in loader:
\t\tmodel(x).backward()
\t\tlog = torch.cat([log, x.detach().view(1)])
\treturn log
"""
GATHERED = """import torch


def train(model, loader):
\tlog_parts = [torch.zeros(0)]
\tfor x in loader:
\t\tmodel(x).backward()
\t\tlog_parts.append(x.detach().view(1))
\tlog = torch.cat(log_parts)
\treturn log
"""
"""`GROWN` after the unsafe fix of TL603, which adds a line."""


@pytest.mark.fault("T03")
def test_t03_added_lines_take_the_newline_of_their_place(fault: Fault) -> None:
    kinds = {"lf.py": "\n", "crlf.py": "\r\n", "cr.py": "\r"}
    for name, kind in kinds.items():
        fault.write(name, newlines(GROWN, kind))
    done = applied(fault, "--unsafe-fixes")
    fault.holds("I3", done.code == 0, done.text[-800:])
    for name, kind in kinds.items():
        same(fault, name, newlines(GATHERED, kind).encode())


@pytest.mark.fault("T04")
def test_t04_declared_encodings(fault: Fault) -> None:
    words = {
        "latin-1": "é ü ÿ \xa0",
        "cp1252": "é € „",
        "gbk": "乗 燶 亄 俓 許",  # the second bytes of some are brackets and backslashes
        "shift_jis": "表 ソ 能 予",
        "big5": "功 許 蓋",
        "koi8-r": "Привет",
        "euc-jp": "日本語",
        "cp437": "é █",
        "utf-8": "é 日本語 😀",
    }
    files: dict[str, str] = {}
    used: dict[str, str] = {}
    for codec, word in words.items():
        first, second = f"{codec}.py", f"{codec}_line_2.py"
        body = CODE.replace("        mask", f"        s = '{word}'; mask") + f"# {word}\n"
        files[first] = f"# -*- coding: {codec} -*-\n{body}"
        files[second] = f"#!/usr/bin/env python\n# vim: set fileencoding={codec} :\n{body}"
        used |= {first: codec, second: codec}
    linted_and_fixed(fault, files, used)


@pytest.mark.fault("T05")
def test_t05_fix_that_the_encoding_cannot_hold(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No rule of ours brings letters into a file, so a plugin does."""
    monkeypatch.setitem(
        plugin.RULES, "letters", ("FT110", "cst.parse_expression('torch.fine(\"😀\")')")
    )
    env = plugin.install(tmp_path / "plugin")
    kept = {
        f"{codec}.py": f"# coding: {codec}\n{CODE}torch.letters()\n"
        for codec in ("latin-1", "cp1252", "gbk")
    }
    for name, text in kept.items():
        fault.write(name, text)
    fault.write("utf8.py", "import torch\ntorch.letters()\n")
    done = fault.run("fix", "--apply", ".", env=env)
    fault.holds("I3", done.code == 0, done.text[-800:])
    fault.others_fixed()
    same(fault, "utf8.py", 'import torch\ntorch.fine("😀")\n'.encode())
    for name, text in kept.items():
        words = f"{name}:9: withheld: FT110: fix not applied, its text cannot be written"
        fault.holds("I3", words in done.text, done.text[-800:])
        same(fault, name, text.replace(SLOW, FAST).encode())


@pytest.mark.fault("T06")
def test_t06_encodings_that_are_none(fault: Fault) -> None:
    rest = CODE.encode()
    files = {
        "unknown.py": b"# coding: no-such-codec\n" + rest,
        "rot13.py": b"# coding: rot13\n" + rest,
        "hex.py": b"#!/bin/sh\n# coding: hex\n" + rest,
        "zip.py": b"# coding: zlib_codec\n" + rest,
        "wide.py": b"# coding: utf-16\n" + rest,
        "bom_latin.py": BOM + b"# coding: latin-1\n" + rest,
        "bom_unknown.py": BOM + b"# coding: klingon\n" + rest,
        "long.py": b"# coding: " + b"x" * 100_000 + b"\n" + rest,
        "dots.py": b"# coding: ...\n" + rest,
    }
    words = {
        "unknown.py": "no-such-codec",
        "rot13.py": "rot13",
        "hex.py": "hex",
        "zip.py": "zlib_codec",
        "wide.py": "utf-16",
        "bom_latin.py": "iso8859-1",
        "bom_unknown.py": "klingon",
        "long.py": "unknown encoding x",
        "dots.py": "...",
    }
    refused(fault, files, {name: ("unreadable", None, word) for name, word in words.items()})


@pytest.mark.fault("T07")
def test_t07_encodings_that_are_not_written(fault: Fault) -> None:
    codec = ("utf-7", "unicode_escape", "raw_unicode_escape", "idna")
    files = {f"{name}.py": f"# coding: {name}\n{CODE}" for name in codec}
    done = linted(fault, files)
    for name in files:
        (entry,) = done.of(name)
        fault.holds("I3", "encoding" in entry["fix"]["note"], entry)
    done = applied(fault)
    unchanged(fault, {name: text.encode() for name, text in files.items()})


@pytest.mark.fault("T08")
def test_t08_bytes_that_are_no_text(fault: Fault) -> None:
    text = CODE.encode()
    files = {
        "invalid.py": text + b"# \xff\n",
        "cut.py": text + b"# \xe2\x82",
        "overlong.py": text + b"# \xc0\x80\n",
        "surrogate.py": text + b"# \xed\xa0\x80\n",
        "cp936.py": b"# coding: gbk\n" + text + b"# \xff\n",
        "utf16le.py": codecs.BOM_UTF16_LE + CODE.encode("utf-16-le"),
        "utf16be.py": codecs.BOM_UTF16_BE + CODE.encode("utf-16-be"),
        "utf32.py": codecs.BOM_UTF32_LE + CODE.encode("utf-32-le"),
        "elf.py": b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 20,
        "png.py": b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "gzip.py": b"\x1f\x8b\x08\x00" + bytes(range(255, -1, -1)),
    }
    size = len(text)
    words = {
        "invalid.py": f"byte 0xff at offset {size + 2}",
        "cut.py": f"byte 0xe2 at offset {size + 2}",
        "overlong.py": f"byte 0xc0 at offset {size + 2}",
        "surrogate.py": f"byte 0xed at offset {size + 2}",
        "cp936.py": f"byte 0xff at offset {size + 16}",
        "utf16le.py": "utf-16",
        "utf16be.py": "utf-16",
        "utf32.py": "utf-32",
        "elf.py": "offset 135",
        "png.py": "byte 0x89 at offset 0",
        "gzip.py": "byte 0x8b at offset 1",
    }
    refused(fault, files, {name: ("unreadable", None, word) for name, word in words.items()})


@pytest.mark.fault("T09")
def test_t09_null_bytes(fault: Fault) -> None:
    text = CODE.encode()
    files = {
        "top.py": text + b"\0\n",
        "string.py": text + b"s = 'a\0b'\n",
        "comment.py": text + b"# \0\n",
        "first.py": b"\0" + text,
        "crlf.py": text.replace(b"\n", b"\r\n") + b"\0",
        "cr.py": text.replace(b"\n", b"\r") + b"\0",
    }
    lines = dict.fromkeys(files, 8) | {"first.py": 1}
    refused(
        fault, files, {name: ("invalid-syntax", line, "null bytes") for name, line in lines.items()}
    )


@pytest.mark.fault("T10")
def test_t10_form_feeds(fault: Fault) -> None:
    head, rest = CODE.split("\n\n\n")
    files = {
        "line.py": f"{head}\n\f\n\n{rest}",
        "glued.py": f"{head}\n\n\n\f{rest}",
        "first.py": f"\f{CODE}",
        "in_indent.py": CODE.replace("        mask", "    \f        mask"),
        "behind_indent.py": CODE.replace("    for", "\f    for").replace("        ", "\f        "),
        "between.py": CODE.replace("mask = ", "mask\f=\f"),
        "last.py": f"{CODE}\f",
        "many.py": "\f\n\f\n\f" + CODE.replace("\n\n\n", "\n\f\n\f\n"),
        "crlf.py": f"{head}\n\f\n{rest}".replace("\n", "\r\n"),
        "class.py": f"{head}\n\fclass A: pass\n\f{rest}",
    }
    linted_and_fixed(fault, files)


@pytest.mark.fault("T11")
def test_t11_tabs(fault: Fault) -> None:
    files = {
        "tabs.py": CODE.replace("    ", "\t"),
        "deep.py": CODE.replace("        ", "    \t"),
        "spaces_then_tabs.py": CODE.replace("        ", "    \t \t"),
        "before.py": CODE.replace("mask = ", "mask\t=\t"),
        "other_blocks.py": f"if 1:\n\tpass\nif 2:\n  pass\n{CODE}",
    }
    linted_and_fixed(fault, files)


@pytest.mark.fault("T11")
def test_t11_tabs_that_contradict_spaces(fault: Fault) -> None:
    files = {
        "mixed.py": b"import torch\nif 1:\n        x = 1\n\ty = 2\n",
        "less.py": b"import torch\nif 1:\n        if 2:\n\t  x = 1\n",
    }
    due = dict.fromkeys(files, ("invalid-syntax", 4, "inconsistent use of tabs"))
    refused(fault, files, due)


@pytest.mark.fault("T11")
def test_t11_added_lines_copy_the_indentation(fault: Fault) -> None:
    indents = {"tab.py": "\t", "one.py": " ", "three.py": "   ", "mixed.py": " \t"}
    for name, indent in indents.items():
        fault.write(name, GROWN.replace("\t", indent))
    applied(fault, "--unsafe-fixes")
    for name, indent in indents.items():
        same(fault, name, GATHERED.replace("\t", indent).encode())


@pytest.mark.fault("T12")
def test_t12_line_ends_that_are_none(fault: Fault) -> None:
    odd = "\u2028 \u2029 \x85 \v \f \x1c \x1d \x1e"
    files = {
        "string.py": f's = "{odd}"\n{CODE}',
        "long_string.py": f's = """{odd}\n{odd}"""\n{CODE}',
        "comment.py": f"# {odd}\n{CODE}",
        "same_line.py": CODE.replace("        mask", f"        s = '{odd}'; mask"),
        "formatted.py": f's = f"{odd}{{1}}{odd}"\n{CODE}',
        "crlf.py": f's = "{odd}"\r\n' + CODE.replace("\n", "\r\n"),
    }
    linted_and_fixed(fault, files)


@pytest.mark.fault("T13")
def test_t13_columns_are_code_points(fault: Fault) -> None:
    """There is no language server yet, so that UTF-16 columns cannot be looked at."""
    words = (
        "😀" * 3,
        "e\u0301 n\u0303",
        "日本",
        "\u202e abc \u202c \u2066x\u2069",
        "👩‍👩‍👧",
        "\u200b\ufeff\u00ad",
        "ﬁ ｗ",
    )
    files = {
        f"string_{k}.py": CODE.replace("mask =", f"s = '{word}'; mask =")
        for k, word in enumerate(words)
    }
    files |= {
        f"comment_{k}.py": CODE.replace("\n        mask", f"  # {word}\n        mask")
        for k, word in enumerate(words)
    }
    files |= {
        "name.py": CODE.replace("mask =", "ﬁ = 𝔵 = ｗide = é = 1; mask ="),
        "mask.py": CODE.replace("mask", "ﬁ"),
        "before.py": CODE.replace("        mask", "        é = 'ß'; mask"),
        "greek.py": CODE.replace("loader", "δεδομένα").replace("model", "ｍodel"),
    }
    linted_and_fixed(fault, files)


@pytest.mark.fault("T13")
@pytest.mark.parametrize("format_", ["full", "concise", "github"])
def test_t13_controls_are_shown_as_escapes(fault: Fault, format_: str) -> None:
    fault.write("bidi.py", CODE.replace("mask =", "s = '\u202e\u2066\x1b[31m\x9b'; mask ="))
    done = fault.run("check", ".", "--output-format", format_)
    fault.others(done)
    fault.holds("I3", done.code == 1 and b"bidi.py" in done.out, done.text[-800:])
    if format_ == "full":
        fault.holds("I3", b"\\u202e\\u2066\\x1b[31m\\x9b" in done.out, done.text[-800:])


@pytest.mark.fault("T14")
def test_t14_what_the_parser_does_not_give_back(fault: Fault) -> None:
    files = {
        "except.py": f"try:\n    pass\nexcept OSError :\n    pass\n{CODE}",
        "except_group.py": f"try:\n    pass\nexcept* OSError :\n    pass\n{CODE}",
        "conversion.py": f's = f"{{3!s  }}" f"{{4!r  :10}}"\n{CODE}',
        "lone_backslash.py": f"x = 1\n\\\ny = 2\n{CODE}",
        "backslash_first.py": f"\\\nx = 1\n{CODE}",
        "backslashes.py": f"x = \\\n  1 + \\\n\\\n  2\n{CODE}",
        "backslash_inside.py": CODE.replace("        mask = ", "        mask = \\\n  "),
        "backslash_before.py": CODE.replace("        model", "\\\n        model"),
        "blanks_at_end.py": f"{CODE}x = 1;\n\n   # a\n  ",
        "blank_lines_at_end.py": f"{CODE}   \n\t\n    \n",
        "comment_at_end.py": f"{CODE}    # a\n  # b",
        "brackets.py": CODE.replace(SLOW, f"(\n  # a\n\n    {SLOW}  # b\n  )"),
    }
    if sys.version_info < (3, 11):
        del files["except_group.py"]
    done = linted_and_fixed(fault, files)
    fault.holds("I3", done.code == 0, done.text[-800:])


HUGE: Mapping[str, Callable[[], str]] = {
    "string.py": lambda: f"s = '{'a' * 10_000_000}'\n",
    "comment.py": lambda: f"# {'a' * 10_000_000}\n",
    "identifier.py": lambda: f"{'a' * 1_000_001} = 1\n",
}
DIGITS: Mapping[str, Callable[[], str]] = {
    "digits.py": lambda: f"x = {'7' * 5_000_000}\n",
    "blanks.py": lambda: f"x = 1{' ' * 10_000_000}\n",
}


def huge(fault: Fault, made: Mapping[str, Callable[[], str]]) -> dict[str, str]:
    """Hold that these files are left out with a note by default, and return them."""
    files = {name: make() + CODE for name, make in made.items()}
    for name, text in files.items():
        fault.write(name, text)
    done = checked(fault)
    fault.holds("I3", done.code == 1, done.text[-800:])
    for name in files:
        (entry,) = done.of(name)
        fault.holds(
            "I3", entry["code"] == "not-analysed" and "--max-file-size" in entry["message"], entry
        )
    return files


@pytest.mark.fault("T15")
@pytest.mark.slow
def test_t15_huge_tokens(fault: Fault) -> None:
    files = huge(fault, HUGE)
    fault.seconds = 30
    linted(fault, files, "--max-file-size", "0")


@pytest.mark.fault("T15")
def test_t15_long_tokens(fault: Fault) -> None:
    """Tokens just below the limit for a file."""
    codes = {
        "string.py": f"s = '{'a' * 990_000}'\n",
        "comment.py": f"# {'a' * 990_000}\n",
        "identifier.py": f"{'a' * 990_000} = 1\n",
    }
    linted(fault, {name: code + CODE for name, code in codes.items()})


@pytest.mark.slow
@pytest.mark.fault("T16")
def test_t16_huge_numbers_and_blanks(fault: Fault) -> None:
    linted_or_late(fault, huge(fault, DIGITS))
