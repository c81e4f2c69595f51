"""Safe fixes of many rules in one file: whatever fixtures stand together, all is fixed and nothing
else is touched."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checking import job
from torchlint.base.finding import Finding, Safety
from torchlint.base.span import LineIndex
from torchlint.engine.checked import Checked
from torchlint.engine.fix import fixed
from torchlint.run.worker import analyse_job

pytestmark = pytest.mark.slow
FIXTURES = Path(__file__).parents[2] / "fixtures"
PIECES = sorted(FIXTURES.glob("rules/*/*.py"))
SAFE = [p for p in PIECES if p.with_suffix(".diff").exists()]


def findings(text: str) -> tuple[Finding, ...]:
    report = analyse_job(job(text, name="src/train.py"))
    assert not report.notes
    return report.findings


def safe(found: Finding) -> bool:
    return found.fix is not None and found.fix.safety is Safety.SAFE and not found.fix.withheld


def comments(text: str) -> Counter[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return Counter(token.string for token in tokens if token.type == tokenize.COMMENT)


def untouched(text: str, found: list[Finding]) -> list[str]:
    """Return the pieces of a text that lie outside of all edits of these findings, in order."""
    index = LineIndex(text)
    spans = sorted(
        (e.span.start, e.span.end) for f in found if f.fix is not None for e in f.fix.edits
    )
    # A statement that is taken out may leave ``pass``, and an import joins its neighbours: whole
    # lines are touched.
    rows = {
        row
        for start, end in spans
        for row in range(index.position(start).row, index.position(end).row + 1)
    }
    pieces, current = [], ""
    for row in range(1, len(index) + 1):
        if row in rows:
            pieces.append(current)
            current = ""
        else:
            current += text[
                index.starts[row - 1] : index.starts[row] if row < len(index) else len(text)
            ]
    return [piece for piece in (*pieces, current) if piece.strip()]


@pytest.mark.parametrize("path", SAFE, ids=lambda p: p.stem)
def test_one_fixture_alone(path: Path) -> None:
    holds([path])


@settings(
    max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
@given(
    st.lists(st.sampled_from(SAFE), min_size=1, max_size=2),
    st.lists(st.sampled_from(PIECES), max_size=2),
)
def test_random_combinations(with_fixes: list[Path], others: list[Path]) -> None:
    holds([*with_fixes, *others])


def holds(paths: list[Path]) -> None:
    text = "\n\n".join(path.read_text(encoding="utf-8") for path in paths)
    rounds: list[tuple[str, tuple[Finding, ...]]] = []

    def check(current: str) -> Checked:
        rounds.append((current, findings(current)))
        return Checked(*rounds[-1])

    outcome = fixed(text, check, lambda fix: fix.safety is Safety.SAFE and not fix.withheld)
    assert not outcome.notes
    after = outcome.checked.text
    ast.parse(after)
    assert not [f for f in findings(after) if safe(f)]
    assert comments(after) == comments(text)
    for (before, found), (after, _) in pairwise(rounds):
        at = 0
        for piece in untouched(before, [f for f in found if safe(f)]):
            at = after.find(piece, at)
            assert at >= 0, f"changed outside of the edits: {piece[:200]!r}"
            at += len(piece)
