"""Fixtures: each line that ends in ``# TLnnn`` has a finding of that code, every other line has none of its rule.

``fixtures/rules/<family>/<name>.py`` speaks for the rule of that name; where ``<name>.fixed.py`` stands beside it,
applying its safe fixes gives that file to the byte. A seed speaks for every rule named in it and must be silent
for the rules of its ``# silent: TLnnn`` line, if it has one.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.checking import check, every_code, fixed, rules

FIXTURES = Path(__file__).parent.parent / "fixtures"
RULE_FILES = sorted(p for p in FIXTURES.glob("rules/*/*.py") if not p.name.endswith(".fixed.py"))
SEEDS = sorted(FIXTURES.glob("seeds/*.py"))
EXPECTED = re.compile(r"#\s*((?:TL\d{3}[ ,]*)+)\s*$")
BY_NAME = {info.name.replace("-", "_"): info for info in rules()}


def expected(text: str, codes: frozenset[str]) -> list[tuple[int, str]]:
    """Return the (row, code) pairs that the comments of a fixture announce."""
    out = []
    for row, line in enumerate(text.split("\n"), 1):
        found = EXPECTED.search(line)
        if found:
            out.extend((row, code) for code in re.findall(r"TL\d{3}", found.group(1)) if code in codes)
    return sorted(out)


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
def test_safe_fixes_give_the_fixed_file(path: Path) -> None:
    info = BY_NAME[path.stem]
    text = path.read_text(encoding="utf-8")
    report = fixed(text, "safe", codes=frozenset({info.code}), name="src/train.py")
    assert not [note for note in report.notes if note.kind.value == "failed"]
    after = path.with_name(f"{path.stem}.fixed.py")
    if after.exists():
        assert report.after == after.read_text(encoding="utf-8")
        ast.parse(report.after)
    else:
        assert report.after == "", "this fixture has safe fixes but no .fixed.py beside it"


@pytest.mark.parametrize("path", RULE_FILES, ids=name_of)
def test_unsafe_fixes_still_parse_and_settle(path: Path) -> None:
    info = BY_NAME[path.stem]
    report = fixed(path.read_text(encoding="utf-8"), "unsafe", codes=frozenset({info.code}), name="src/train.py")
    assert not [note for note in report.notes if note.kind.value == "failed"]
    if report.after:
        ast.parse(report.after)
        assert fixed(report.after, "unsafe", codes=frozenset({info.code}), name="src/train.py").after == ""


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
