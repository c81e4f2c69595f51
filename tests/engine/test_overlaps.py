"""Which fixes are applied together: as the plain definition has it, in time that grows with their
number."""

from __future__ import annotations

import random

import pytest

from torchlint.base.finding import Edit, Finding, Safety, Severity, TextFix
from torchlint.base.span import Position, Span
from torchlint.engine.overlaps import edits_of, independent, rows_before
from torchlint.engine.yielding import parts_of_wider


def edit(start: int, end: int, text: str = "x") -> Edit:
    return Edit(Span(start, end), text, Position(1, start + 1), Position(1, end + 1))


def finding(start: int, end: int, *edits: Edit) -> Finding:
    fix = TextFix(Safety.SAFE, "Change it", edits) if edits else None
    places = Position(1, start + 1), Position(1, end + 1)
    return Finding("TL101", "name", "words", Severity.WARNING, "a.py", *places, 1, 1, fix=fix)


def test_which_of_several_wider_fixes_is_taken_depends_on_no_hash() -> None:
    """A run gives the same fix each time: hashes of texts differ from process to process."""
    narrow = finding(0, 1, edit(0, 1))
    wider = [finding(at, at + 1, edit(0, 1), edit(at, at + 1)) for at in range(2, 22, 2)]
    beside = {(each.code, Span(at, at + 1)): each for at, each in enumerate([narrow, *wider])}
    assert parts_of_wider(beside)["TL101", Span(0, 1)].fix == wider[-1].fix


def by_definition(findings: list[Finding]) -> list[Finding]:
    taken: list[Finding] = []
    for found in findings:
        nested = any(found.start < other.end and other.start < found.end for other in taken)
        meets = any(
            one.span.start <= other.span.end
            and other.span.start <= one.span.end
            and not (one == other and one.text.startswith("import "))
            for one in edits_of([found])
            for other in edits_of(taken)
        )
        if not nested and not meets:
            taken.append(found)
    return taken


def test_as_the_definition_has_it() -> None:
    luck = random.Random(7)
    for _ in range(400):
        findings = []
        for _ in range(luck.randint(1, 9)):
            start = luck.randint(0, 60)
            end = start + luck.randint(0, 9)
            middle = luck.randint(start, end)
            edits = [edit(start, middle), *([edit(middle + 1, end)] if middle < end else [])]
            edits += [edit(0, 0, "import math\n")] * luck.randint(0, 1)
            findings.append(finding(start, end, *luck.sample(edits, len(edits))))
        assert independent(findings) == by_definition(findings)


def test_lines_behind_one_statement_stand_in_the_order_of_the_findings() -> None:
    first = finding(0, 2, edit(0, 1), edit(9, 9, "\nx = float(x)"))
    second = finding(3, 5, edit(3, 4), edit(9, 9, "\na = float(a)"))
    assert independent([first, second]) == [first, second]
    behind = [each.text for each in edits_of([first, second]) if each.span.start == 9]
    assert behind == ["\nx = float(x)", "\na = float(a)"]
    before = finding(3, 5, edit(3, 4), edit(9, 9, "a = 1\n"))
    assert independent([first, before]) == [first]


@pytest.mark.parametrize(
    ("one", "two", "together"),
    [
        ("x_host = x.cpu()\n", "    y_host = y.cpu()\n", True),
        ("    kept = []\n", "    pending = []\n", True),
        ("x_host = x.cpu()\n", "x_host = z.x.cpu()\n", False),
        ("x_host = x.cpu()\n", "if x:\n    y = 1\n", False),
        ("import math\n", "import torch\n", False),
        ("x_host = x.cpu()\n", "\nx = float(x)", False),
    ],
)
def test_lines_before_one_statement_that_bind_other_names(
    one: str, two: str, together: bool
) -> None:
    first = finding(0, 2, edit(0, 1), edit(9, 9, one))
    second = finding(3, 5, edit(3, 4), edit(9, 9, two))
    assert (independent([first, second]) == [first, second]) is together


def test_many() -> None:
    many = [finding(at, at + 2, edit(at, at + 1)) for at in range(0, 100_000, 5)]
    assert len(independent(many)) == 20_000  # the time of pairs would be minutes


@pytest.mark.parametrize("newline", ["\n", "\r", "\r\n"])
def test_rows_are_counted_by_each_kind_of_line_end(newline: str) -> None:
    before, now = newline.join(("a", "b", "c")), newline.join(("a", "new", "b", "c"))
    row_before = rows_before(before, now)
    assert [row_before(row) for row in (1, 3, 4)] == [1, 2, 3]
