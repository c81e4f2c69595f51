"""Fixtures: each line that ends in ``# TLnnn`` has a finding of that code, every other line has
none of its rule.

``fixtures/rules/<family>/<name>.py`` speaks for the rule of that name; where ``<name>.diff`` stands
beside it, that is what its safe fixes change, to the byte; ``python -m tests.test_fixtures`` writes
these anew. A seed speaks for every rule named in it and must be silent for the rules of its ``#
silent: TLnnn`` line, if it has one.
"""

from __future__ import annotations

import ast
import difflib
import re
import sys
from pathlib import Path

import pytest

from tests.checking import check, every_code, fixed, rules

FIXTURES = Path(__file__).parent.parent / "fixtures"
RULE_FILES = sorted(FIXTURES.glob("rules/*/*.py"))
SEEDS = sorted(FIXTURES.glob("seeds/*.py"))
EXPECTED = re.compile(r"#\s*((?:TL\d{3}[ ,]*)+)\s*$")
BY_NAME = {info.name.replace("-", "_"): info for info in rules()}


def expected(text: str, codes: frozenset[str]) -> list[tuple[int, str]]:
    """Return the (row, code) pairs that the comments of a fixture announce."""
    out = []
    for row, line in enumerate(text.split("\n"), 1):
        found = EXPECTED.search(line)
        if found:
            out.extend(
                (row, code) for code in re.findall(r"TL\d{3}", found.group(1)) if code in codes
            )
    return sorted(out)


def changes(path: Path) -> str:
    """Return what the safe fixes of its rule change in a fixture, as a diff without context;
    nothing for nothing."""
    text = path.read_text(encoding="utf-8")
    report = fixed(text, "safe", codes=frozenset({BY_NAME[path.stem].code}), name="src/train.py")
    assert not [note for note in report.notes if note.kind.value == "failed"]
    if not report.after:
        return ""
    ast.parse(report.after)
    rows = difflib.unified_diff(
        text.splitlines(keepends=True), report.after.splitlines(keepends=True), n=0
    )
    return "".join(list(rows)[2:])


def name_of(path: Path) -> str:
    return str(path.relative_to(FIXTURES))


@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_findings_are_exactly_the_announced_ones(path: Path) -> None:
    info = BY_NAME[path.stem]
    text = path.read_text(encoding="utf-8")
    report = check(text, name="src/train.py")
    assert not report.notes
    found = sorted({(f.start.row, f.code) for f in report.findings if f.code == info.code})
    assert found == expected(text, frozenset({info.code}))


@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_safe_fixes_change_what_the_diff_announces(path: Path) -> None:
    announced = path.with_suffix(".diff")
    due = announced.read_text(encoding="utf-8") if announced.exists() else ""
    assert changes(path) == due, "where that is right, run: python -m tests.test_fixtures"


@pytest.mark.slow
@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_unsafe_fixes_still_parse_and_settle(path: Path) -> None:
    info = BY_NAME[path.stem]
    report = fixed(
        path.read_text(encoding="utf-8"),
        "unsafe",
        codes=frozenset({info.code}),
        name="src/train.py",
    )
    assert not [note for note in report.notes if note.kind.value == "failed"]
    if report.after:
        ast.parse(report.after)
        assert (
            fixed(report.after, "unsafe", codes=frozenset({info.code}), name="src/train.py").after
            == ""
        )


@pytest.mark.parametrize("path", SEEDS, ids=name_of)
def test_seeds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    named = frozenset(re.findall(r"TL\d{3}", text)) & every_code()
    report = check(text, name="src/train.py")
    assert not report.notes
    found = sorted({(f.start.row, f.code) for f in report.findings if f.code in named})
    assert found == expected(text, named)


def test_every_rule_has_a_fixture() -> None:
    assert {path.stem for path in RULE_FILES} == set(BY_NAME)


def test_every_diff_stands_beside_its_fixture() -> None:
    assert [
        path
        for path in FIXTURES.glob("rules/*/*.diff")
        if path.with_suffix(".py") not in RULE_FILES
    ] == []


if __name__ == "__main__":
    for each in RULE_FILES:
        diff = each.with_suffix(".diff")
        if found := changes(each):
            diff.write_text(found, encoding="utf-8", newline="")
        elif diff.exists():
            diff.unlink()
            sys.stdout.write(f"removed {diff}: {each.name} has no safe fix\n")
