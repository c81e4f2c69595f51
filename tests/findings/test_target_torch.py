"""What an older torch lacks is not asked for."""

from __future__ import annotations

import pytest

from tests.checking import check, for_rule, rules
from tests.corner_cases import corners_of
from torchlint.testing.promises import programs

# Code, target-torch, number of the Bad block or, behind them, of the corner case, findings, and
# whether one has a fix.
CASES = [
    ("TL401", (1, 13), 0, 0, False),
    ("TL401", (2, 0), 0, 1, True),
    ("TL405", (1, 13), 0, 0, False),
    ("TL405", (2, 0), 0, 1, False),
    ("TL408", (1, 11), 0, 0, False),
    ("TL408", (1, 12), 0, 1, False),
    ("TL408", (2, 3), 0, 1, False),
    ("TL408", (2, 4), 0, 1, True),
    ("TL410", (1, 13), 0, 0, False),
    ("TL410", (2, 0), 0, 1, False),
    ("TL411", (2, 3), 0, 0, False),
    ("TL411", (2, 4), 0, 1, False),
]


@pytest.mark.parametrize(("code", "target", "block", "count", "fixed"), CASES)
def test_target(code: str, target: tuple[int, int], block: int, count: int, fixed: bool) -> None:
    info = next(info for info in rules() if info.code == code)
    examples = [*programs(info, "Bad"), *(corner.programs[0] for corner in corners_of(info))]
    found = for_rule(check(examples[block], target_torch=target), info)
    assert len(found) == count
    assert any(finding.fix is not None for finding in found) is fixed


@pytest.mark.parametrize(("newest", "count"), [((1, 7), 0), ((1, 8), 1), (None, 1)])
def test_distributions_check_nothing_before_1_8(newest: tuple[int, int] | None, count: int) -> None:
    info = next(info for info in rules() if info.code == "TL116")
    bad = programs(info, "Bad")[0]
    assert len(for_rule(check(bad, newest_torch=newest), info)) == count


@pytest.mark.parametrize(
    ("newest", "count"), [((1, 13), 0), ((2, 0), 0), ((2, 3), 0), ((2, 4), 1), (None, 1)]
)
def test_what_is_not_deprecated_yet_is_left(newest: tuple[int, int] | None, count: int) -> None:
    info = next(info for info in rules() if info.code == "TL408")
    bad = programs(info, "Bad")[0]
    assert len(for_rule(check(bad, target_torch=(1, 13), newest_torch=newest), info)) == count


@pytest.mark.parametrize(
    ("target", "backend"),
    [((1, 8), "nccl"), ((1, 13), "nccl"), ((2, 0), "cpu:gloo,cuda:nccl")],
)
def test_a_pair_of_backends_is_written_for_a_torch_that_takes_one(
    target: tuple[int, int], backend: str
) -> None:
    info = next(info for info in rules() if info.code == "TL305")
    (found,) = for_rule(check(programs(info, "Bad")[0], target_torch=target), info)
    assert found.fix is not None
    assert [edit.text for edit in found.fix.edits] == [backend]
    assert ("takes no CPU tensors" in (found.fix.note or "")) is (target < (2, 0))
