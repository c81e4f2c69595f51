"""The parts of torchlint that take bytes as they come, each as a function that atheris can call.

Each checks what its part promises, so that a wrong answer is a crash too.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from torchlint.base.errors import SourceError
from torchlint.base.finding import Edit, Finding, Safety, Severity, TextFix
from torchlint.base.span import LineIndex, Position, Span
from torchlint.engine.overlaps import edits_of, independent
from torchlint.run.prescan import MOST_OPEN, prescan
from torchlint.source.document import decode, encode, fixable
from torchlint.source.globs import GlobList
from torchlint.source.suppress import Suppressions

_NAMES = {
    "TL101": "sync-scalar-read-in-loop",
    "TL102": "cpu-create-then-move",
    "TL201": "loader-without-workers",
}


def guard(data: bytes) -> None:
    """`prescan` never raises, and refuses nothing with few brackets."""
    found = prescan(data)
    if found.refuse:
        assert sum(map(data.count, (b"(", b"[", b"{"))) > MOST_OPEN
        rows = len(re.split(rb"\r\n|\r|\n", data))
        assert 1 <= found.line <= rows, (found.line, rows)


def suppress(data: bytes) -> None:
    """Reading pragmas never raises; what it reports lies inside the text; each finding is kept or
    silenced."""
    text = data.decode("utf-8", "replace")
    index = LineIndex(text)
    found = [
        Finding(
            "TL101",
            _NAMES["TL101"],
            "m",
            Severity.WARNING,
            "f",
            Position(row, 1),
            Position(row, 2),
            row,
            row,
        )
        for row in range(1, len(index) + 1)
    ]
    after = Suppressions.parse(text).filter(found, frozenset(_NAMES), _NAMES, "f")
    assert (
        sorted([*after.kept, *(one for one, _ in after.silenced)], key=lambda one: one.sort_key)
        == found
    )
    for complaint in after.unused:
        assert 1 <= complaint.start.row <= len(index)
        for edit in complaint.fix.edits if complaint.fix is not None else ():
            assert 0 <= edit.span.start <= edit.span.end <= len(text)
            assert (index.position(edit.span.start), index.position(edit.span.end)) == (
                edit.start,
                edit.end,
            )


def decoding(data: bytes) -> None:
    """Decoding raises `SourceError` or nothing; a document that may be fixed can be written
    back."""
    document, words = None, ""
    try:
        document = decode(data, "", "f.py")
    except SourceError as error:
        words = str(error)
    if document is None:
        assert words
        assert "\n" not in words
        return
    if not fixable(document):
        assert encode(document, document.text) == data
    index = LineIndex(document.text)
    for offset in range(0, len(document.text) + 1, 7):
        place = index.position(offset)
        assert index.offset(place) <= offset


def globs(data: bytes) -> None:
    """Patterns are read without raising; each is used, refused, or a comment; a plain name matches
    itself."""
    text = data.decode("utf-8", "surrogateescape")
    path, *lines = text.split("\n")
    read = GlobList.parse(lines)
    assert len(read.globs) + len(read.bad) <= len(lines)
    for is_directory in (False, True):
        found = read.covering(path, is_directory)
        assert found is None or not found.negated
        alone = read.deciding(path, is_directory)
        assert alone is None or alone.matches(path.split("/"), is_directory)
        for name in path.split("/"):
            special = (
                name.startswith(("#", "!"))
                or re.search(r"[*?\[\\]| $", name)
                or name in ("", ".", "..")
            )
            assert special or GlobList.parse([name]).covering(path, is_directory) is not None, name


def edits(data: bytes) -> None:
    """Edits chosen to be applied together stand apart, and all of one fix are chosen or none."""
    count = min(data[0] % 6, (len(data) - 1) // 4) if data else 0
    text = data[1 + 4 * count :].decode("latin-1")
    index = LineIndex(text)
    found = []
    for number in range(count):
        a, b, size, kind = data[1 + 4 * number : 5 + 4 * number]
        start, end = sorted((a % (len(text) + 1), b % (len(text) + 1)))
        made = [
            Edit(Span(start, end), "x" * (size % 4), index.position(start), index.position(end))
        ]
        if kind & 4:
            made.append(Edit(Span(0, 0), "import torch", index.position(0), index.position(0)))
        fix = TextFix(Safety.SAFE, "t", tuple(made))
        at = made[0]
        rows = (at.start.row, at.end.row)
        found.append(
            Finding(f"TL{kind % 3}", "n", "m", Severity.INFO, "f", at.start, at.end, *rows, fix=fix)
        )
    taken = independent(found)
    chosen = edits_of(taken)
    assert {edit for one in taken if one.fix for edit in one.fix.edits} == set(chosen)
    for one, other in pairwise(chosen):
        assert one.span.end <= other.span.start, (one, other)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "guard": guard,
    "edits": edits,
    "suppress": suppress,
    "decode": decoding,
    "globs": globs,
}
_ROOT = Path(__file__).parent.parent
# Imports are instrumented as they happen, so this is a process of its own.
_LAUNCH = """
import sys
import atheris
with atheris.instrument_imports(include=["torchlint", "benchmarks"]):
    from benchmarks import fuzz_bytes
atheris.Setup([sys.argv[0], *sys.argv[2:]], fuzz_bytes.TARGETS[sys.argv[1]])
atheris.Fuzz()
"""
SEEDS: dict[str, tuple[bytes, ...]] = {
    "guard": (
        b"f((1,), [{}])",
        b"case ((((a,),),)): pass",
        rb"f'{x!r:>{y}}' '''a\''' # (",
        b"elif elif \\\n" * 9,
    ),
    "edits": (bytes(range(60)), bytes(range(200, 255))),
    "suppress": (
        b"x  # torchlint: ignore[TL101, a-b] y",
        b"# torchlint: disable[TL1]\n# noqa: TL101,E1 # noqa",
    ),
    "decode": (
        b"\xef\xbb\xbf# coding: latin-1\n\xe4",
        b"#!x\n# -*- coding: utf-8-unix -*-",
        b"# coding=utf_16",
    ),
    "globs": (b"a/b/c.py\n**/b/*.p[xy]\n!a/\n[[:alpha:]-z]?", b"a\n\\#a\n a \\ "),
}


def guided(target: str, seconds: float, seed: int) -> int:
    """Run one target under atheris and return its exit code; libFuzzer prints the input that
    fails."""
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(SEEDS[target]):
            (Path(folder) / f"seed{number}").write_bytes(data)
        options = [
            f"-max_total_time={int(seconds)}",
            f"-seed={seed + 1}",
            "-timeout=10",
            "-print_final_stats=1",
        ]
        command = [
            sys.executable,
            "-c",
            _LAUNCH,
            target,
            *options,
            f"-artifact_prefix={folder}/",
            folder,
        ]
        return subprocess.run(command, cwd=_ROOT, check=False).returncode
