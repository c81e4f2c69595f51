"""What fixes leave has no new finding at the lines that they wrote.

A line is written where the unfixed text has none like it, whatever its indentation. A finding is
new where the lines that were replaced have none of its rule that no fix fixes. Where one wait is
left of many, an ``info`` may say so: `LEFT` has the pairs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.fixes import new_at_written
from tests.checking import check, fixed, rules
from tests.corner_cases import corners
from torchlint.base.finding import Finding, Safety
from torchlint.testing.promises import programs

FIXTURES = Path(__file__).parents[2] / "fixtures"
FILES = [
    path
    for folder in ("rules/*", "seeds", "planted")
    for path in sorted(FIXTURES.glob(f"{folder}/*.py"))
]
LEFT = {
    ("TL113", "info"): "TL101, TL602 and TL604 make one copy of the reads of single elements; the "
    "step still waits for that one",
    ("TL602", "info"): "TL605 asks once in an assert; the step still waits for the answer",
}
"""The code and severity of what may be found at a repaired line, and why."""


def entry(finding: Finding) -> dict[str, Any]:
    """Return what the law asks of a finding, as the JSON report has it."""
    fix = finding.fix
    shown = fix is not None and (fix.withheld or fix.safety is Safety.SUGGESTION)
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "location": {"row": finding.start.row},
        "fix": fix and {"applicability": "display" if shown else fix.safety.value},
    }


def again(text: str, name: str = "src/train.py") -> list[tuple[str, str, str]]:
    """Return code, severity and line of what is found anew where the fixes wrote."""
    report = fixed(text, "unsafe", name=name)
    left = [entry(finding) for finding in report.findings]
    if not report.after or not any(new_at_written(text, report.after, [], left)):
        return []
    before = [entry(finding) for finding in check(text, name=name).findings]
    lines = report.after.splitlines()
    return [
        (finding["code"], finding["severity"], lines[finding["location"]["row"] - 1].strip())
        for finding in new_at_written(text, report.after, before, left)
    ]


def unexpected(text: str, name: str = "src/train.py") -> list[tuple[str, str, str]]:
    return [found for found in again(text, name) if found[:2] not in LEFT]


@pytest.mark.parametrize("info", rules(), ids=lambda info: info.code)
def test_repairs_of_the_examples_are_not_found_again(info: Any) -> None:
    assert [found for bad in programs(info, "Bad") for found in unexpected(bad)] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_repairs_of_the_fixtures_are_not_found_again(path: Path) -> None:
    assert unexpected(path.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_repairs_of_the_corner_cases_are_not_found_again() -> None:
    found = {
        str(corner): unexpected(corner.programs[0], "train.py")
        for corner in corners()
        if corner.rows
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def test_a_finding_is_new_where_no_fix_had_left_its_cause() -> None:
    def told(*rows: int, code: str = "TL101", fix: str | None = None) -> list[dict[str, Any]]:
        kept = fix and {"applicability": fix}
        return [{"code": code, "location": {"row": row}, "fix": kept} for row in rows]

    before, after = "a\nb\nc\n", "a\nif x:\n    B\n    c\n"

    def new(old: list[dict[str, Any]], left: list[dict[str, Any]]) -> list[int]:
        return [each["location"]["row"] for each in new_at_written(before, after, old, left)]

    assert new([], told(1, 2, 3, 4)) == [2, 3], "the others stood there"
    assert new(told(2), told(3)) == []
    assert new(told(2, fix="display"), told(3, 3)) == [3]
    assert new(told(2, fix="unsafe"), told(3)) == [3]
    assert new(told(2, code="TL102"), told(3)) == [3]
    assert new(told(1), told(3)) == [3], "another place"


LOOP = """import torch
import torch.nn.functional as F

def train(model, loader, optimizer, weights):
    model.cuda()
    log = []
    for x, y in loader:
        out = model(x.cuda())
        loss = (out - y.cuda()).pow(2).mean()
        other = out.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        flat = out.flatten()
        {line}
    return log
"""


def levels(line: str) -> list[str]:
    """Return the severities of what TL101 and TL113 find in a line of a training step."""
    codes = frozenset({"TL101", "TL113"})
    report = check(LOOP.format(line=line), codes=codes, name="src/train.py")
    return [finding.severity.value for finding in report.findings if finding.code in codes]


@pytest.mark.parametrize(
    "line",
    [
        "a, b = torch.stack((loss, other)).tolist()",
        "log.append(torch.stack([loss, other]).tolist())",
        "log += torch.stack((loss.detach(), other, out.max())).tolist()",
    ],
)
def test_values_read_together_are_not_found_again(line: str) -> None:
    assert levels(line) == []


@pytest.mark.parametrize(
    "line",
    [
        "log += flat.tolist()",
        "log.append(out.flatten().tolist())",
        "for v in flat.cpu():\n            log.append(v > 0)",
        "flat_cpu = flat.cpu()\n        for i in range(9):\n            log.append(flat_cpu[i])",
    ],
)
def test_one_wait_that_is_left_of_many_is_an_info(line: str) -> None:
    assert levels(line) == ["info"]


@pytest.mark.parametrize(
    "line",
    [
        "log.append(out.tolist())",
        "log.append(flat.cpu())",
        "log.append(torch.stack((loss, other)).cpu())",
        "log.append(torch.stack((out,)).tolist())",
        "log.append(torch.stack((torch.ones(9).cuda(), torch.ones(9).cuda())).tolist())",
        "log.append((loss / (other + 1e-6)).item())",
        "log.append((loss.double() / (other.double() + 1e-6)).item())",
        "flat_cpu = flat.cpu()\n        log.append(flat_cpu[0])",
    ],
)
def test_other_waits_are_still_warnings(line: str) -> None:
    assert levels(line) == ["warning"]


@pytest.mark.parametrize(
    "line",
    [
        "log += [v.item() for v in flat]",
        "log.extend([float(v) for v in flat])",
        "for v in flat:\n            log.append(v.item())",
        "for i in range(512):\n            if flat[i].item() > 0:\n                log.append(i)",
        "log.append(float(loss) / (float(other) + 1e-6))",
        "log.append(any(flat > 3))",
        "if all(flat > 3):\n            log.append(1)",
        "assert all(flat > 3)",
        "weights = [sum(row) for row in out]",
    ],
)
def test_repairs_in_a_training_step_are_not_found_again(line: str) -> None:
    assert unexpected(LOOP.format(line=line)) == []
