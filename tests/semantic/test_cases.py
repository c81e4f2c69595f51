"""Situations that need more than a pattern: where a value lives, who calls whom, and how often.

Each folder of ``fixtures/cases`` is a small project. The first line of a file names the rules for
which it speaks: every line that ends in ``# TLnnn`` has a finding of that code, and for these rules
every other line is silent. ``info`` or ``warning`` behind the codes is their severity. Where the
analysis does not understand a file yet, that line says so and why.
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
SPEAKS = re.compile(r"# rules:((?: TL\d{3})+)(?:; not yet: (.+))?\n")
EXPECTED = re.compile(r"#((?: TL\d{3})+)(?: (info|warning))?$")


def announced(text: str) -> dict[tuple[int, str], str | None]:
    """Return the (row, code) pairs that the comments of a file announce, each with its severity
    where the comment says it."""
    rows = enumerate(text.split("\n"), 1)
    return {
        (row, code): found[2]
        for row, line in rows
        if (found := EXPECTED.search(line))
        for code in found[1].split()
    }


def spoken_for(path: Path) -> re.Match[str]:
    """Return the first line of a file: the rules, and why they do not understand it yet."""
    found = SPEAKS.match(path.read_text(encoding="utf-8"))
    assert found is not None, f"{path}: the first line names no rules"
    return found


def param(path: Path) -> object:
    """Return one file of one case, marked where the case is not understood yet."""
    name, why = path.parent.name, spoken_for(path)[2]
    marks = [pytest.mark.xfail(strict=True, reason=why)] if why else []
    one = len(list(path.parent.glob("*.py"))) == 1
    return pytest.param(path, id=name if one else f"{name}-{path.stem}", marks=marks)


@pytest.mark.parametrize("path", [param(path) for path in FILES])
def test_case(path: Path) -> None:
    forget()
    text = path.read_text(encoding="utf-8")
    codes = frozenset(spoken_for(path)[1].split())
    report = analyse_job(job(text, name=path.name, root=str(path.parent)))
    assert not report.notes
    found = {(f.start.row, f.code): f.severity.value for f in report.findings if f.code in codes}
    wanted = announced(text)
    assert found.keys() == wanted.keys()
    graded = {at: severity for at, severity in wanted.items() if severity}
    assert {at: found[at] for at in graded} == graded
