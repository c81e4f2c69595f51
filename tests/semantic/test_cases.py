"""Situations that need more than a pattern: where a value lives, who calls whom, and how often.

Each folder of ``fixtures/cases`` is a small project. The first line of a file names the rules for
which it speaks: every line that ends in ``# TLnnn`` has a finding of that code, and for these rules
every other line is silent.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.checking import job
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

CASES = Path(__file__).parent.parent.parent / "fixtures" / "cases"
FILES = sorted(CASES.glob("*/*.py"))
SPEAKS = re.compile(r"# rules:((?: TL\d{3})+)\n")
EXPECTED = re.compile(r"#((?: TL\d{3})+)$")

NOT_YET = {
    "15_move_hidden_in_a_callees_result": (
        "TL102 looks for the factory in the function that moves the tensor only"
    ),
}
"""By folder: why the analysis does not understand a case yet."""


def announced(text: str) -> set[tuple[int, str]]:
    """Return the (row, code) pairs that the comments of a file announce."""
    rows = enumerate(text.split("\n"), 1)
    return {
        (row, code)
        for row, line in rows
        if (found := EXPECTED.search(line))
        for code in found[1].split()
    }


def param(path: Path) -> object:
    """Return one file of one case, marked where the case is not understood yet."""
    name = path.parent.name
    marks = [pytest.mark.xfail(strict=True, reason=NOT_YET[name])] if name in NOT_YET else []
    one = len(list(path.parent.glob("*.py"))) == 1
    return pytest.param(path, id=name if one else f"{name}-{path.stem}", marks=marks)


@pytest.mark.parametrize("path", [param(path) for path in FILES])
def test_case(path: Path) -> None:
    forget()
    text = path.read_text(encoding="utf-8")
    speaks = SPEAKS.match(text)
    assert speaks is not None
    codes = frozenset(speaks[1].split())
    report = analyse_job(job(text, name=path.name, root=str(path.parent)))
    assert not report.notes
    assert {(f.start.row, f.code) for f in report.findings if f.code in codes} == announced(text)


def test_every_case_not_understood_exists() -> None:
    assert set(NOT_YET) <= {path.parent.name for path in FILES}
