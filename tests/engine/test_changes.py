"""Which rows a range of changed lines touches, and what `--since` makes of cells."""

from __future__ import annotations

from typing import Any

import pytest

from torchlint.base.finding import Finding, Severity
from torchlint.base.span import Position
from torchlint.cli.since import _is_new
from torchlint.source.changes import ALL_LINES, ChangedLines, _files


@pytest.mark.parametrize(
    ("ranges", "first", "last", "expected"),
    [
        (((3, 5),), 1, 2, False),
        (((3, 5),), 1, 3, True),
        (((3, 5),), 4, 9, True),
        (((3, 5),), 5, 9, False),
        (((3, 5),), 1, 9, True),
        (((3, 3),), 2, 3, True),
        (((3, 3),), 3, 4, False),
        (((3, 3),), 1, 2, False),
        (((1, 2), (7, 8)), 7, 7, True),
        ((), 1, 99, False),
    ],
)
def test_rows(ranges: tuple[tuple[int, int], ...], first: int, last: int, expected: bool) -> None:
    assert ChangedLines(ranges).touches(first, last) is expected
    assert ALL_LINES.touches(first, last)


PATCH = rb"""* Unmerged path z.py
diff --git "a/\303\251\"\\\t.py" "b/\303\251\"\\\t.py"
index 1..2 100644
--- "a/\303\251\"\\\t.py"
+++ "b/\303\251\"\\\t.py"
@@ -1,2 +1,3 @@ def f():
--- a/no.py
-+++ b/no.py
++++ b/no.py
+@@ -1 +1 @@
+diff --git a/no.py b/no.py
\ No newline at end of file
@@ -9,0 +11 @@
+x
diff --git a/gone b.py b/new b.py
similarity index 100%
rename from gone b.py
rename to new b.py
diff --git a/c d.py b/c d.py
--- a/c d.py
+++ b/c d.pyTAB
@@ -4,2 +3,0 @@
-x
-y
""".replace(b"TAB", b"\t")


def test_a_patch() -> None:
    assert [(name.decode(), lines.ranges) for name, lines in _files(PATCH)] == [
        ('\u00e9"\\\t.py', ((1, 4), (11, 12))),
        ("c d.py", ((4, 4),)),
    ]


def in_cell(**more: Any) -> Finding:
    start, end = Position(2, 1), Position(2, 5)
    return Finding("TL101", "x", "m", Severity.WARNING, "a.ipynb", start, end, 1, 3, cell=4, **more)


def test_a_finding_in_a_cell_counts_where_its_row_in_the_file_is_not_known() -> None:
    assert _is_new(in_cell(), ChangedLines(((999, 1000),)))


@pytest.mark.skipif(
    "file_row" not in Finding.__dataclass_fields__, reason="findings have no row in the notebook"
)
@pytest.mark.parametrize(("row", "expected"), [(20, False), (21, True), (23, True), (24, False)])
def test_a_finding_in_a_cell_lies_in_the_rows_of_the_file(row: int, expected: bool) -> None:
    assert _is_new(in_cell(file_row=22), ChangedLines(((row, row + 1),))) is expected
