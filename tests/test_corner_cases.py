"""Corner cases keep the promises of a page's examples, and pages have no more examples than people
read."""

from __future__ import annotations

import dataclasses
from itertools import groupby

import pytest

from tests.checking import for_rule, rules
from tests.corner_cases import CORNERS, Corner, corners, read
from torchlint.catalog.manual import code_blocks
from torchlint.testing.execution import difference_in
from torchlint.testing.promises import cases_of, checked
from torchlint.verify.paired.sessions import Session

ALL = [
    (code, list(found)) for code, found in groupby(corners(), key=lambda corner: corner.info.code)
]
PAIRED = [
    (code, pairs)
    for code, found in ALL
    if (pairs := [each for each in found if "Good" in each.info.sections])
]
"""The programs that say what they become, by rule."""


def broken(corner: Corner) -> str:
    """Return which promise a program does not keep, or an empty string."""
    for case in cases_of(corner.info, execute=False):
        try:
            case.check()
        except AssertionError as error:
            return f"{corner}\n{error}"
    program = corner.programs[0]
    before = program.count("\n") - corner.code.count("\n")
    rows = sorted(
        {finding.start.row - before for finding in for_rule(checked(program), corner.info)}
    )
    return (
        ""
        if rows == list(corner.rows)
        else f"{corner}: rows {rows} are found, {list(corner.rows)} announced"
    )


@pytest.mark.parametrize(("code", "found"), ALL, ids=[code for code, _ in ALL])
def test_findings_and_fixes_are_the_announced_ones(code: str, found: list[Corner]) -> None:
    wrong = [said for corner in found if (said := broken(corner))]
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.slow
@pytest.mark.parametrize(("code", "pairs"), PAIRED, ids=[code for code, _ in PAIRED])
def test_what_fixes_give_computes_the_same(code: str, pairs: list[Corner], live: Session) -> None:
    page = pairs[0].info
    sides = {
        side: "\n\n".join(corner.info.sections[side] for corner in pairs)
        for side in ("Bad", "Good")
    }
    info = dataclasses.replace(page, sections={**page.sections, **sides})
    assert difference_in(live, info) == ""


def test_every_file_is_that_of_a_rule() -> None:
    names = {f"{info.family}/{info.name.replace('-', '_')}.py" for info in rules()}
    assert {path.relative_to(CORNERS).as_posix() for path in CORNERS.rglob("*.py")} <= names


def test_a_page_leaves_no_more_than_three_things_alone() -> None:
    assert [
        info.code for info in rules() if len(code_blocks(info.sections["Leave alone"])) > 3
    ] == []


INFO = rules()[0]
SPEAKS = (
    f"# --- A sentence\n#     of two lines.\nx = 1\ny = 2  # {INFO.code}\n\n# +++\nx = "
    "3\n\n# --- Silent.\nz = 4\n"
)


def test_a_file_is_cut_into_programs() -> None:
    first, second = read(SPEAKS, INFO)
    assert (first.sentence, first.code, first.rows) == (
        "A sentence of two lines.",
        "x = 1\ny = 2\n",
        (2,),
    )
    assert code_blocks(first.info.sections["Bad"]) == ["x = 1\ny = 2\n"]
    assert code_blocks(first.info.sections["Good"]) == ["x = 3\n"]
    assert (second.code, second.rows) == ("z = 4\n", ())
    assert code_blocks(second.info.sections["Leave alone"]) == ["z = 4\n"]


def test_a_case_that_is_not_kept_is_told() -> None:
    """A finding that is not announced, one that is not made, and another fix than the one that is
    written down."""
    loop = (
        "for x, y in loader:\n    loss = criterion(model(x.to(device)), y)\n    "
        "loss.backward()\n    optimizer.step()\n"
    )
    (rule,) = [info for info in rules() if info.code == "TL101"]
    said = {
        f"# --- Said to be silent.\n{loop}    seen = 2 * loss.item()\n": "it speaks of row",
        f"# --- Another row.\n{loop}    seen = loss.item()\n    seen += 1  # TL101\n": "announced",
        f"# --- No finding.\n{loop}    print(x.shape)  # TL101\n": "is not found",
        (
            f"# --- Another fix.\ntotal = 0.0\n{loop}    total += loss.item()  # TL101\n# +++\nx = "
            "1\n"
        ): "not give Good",
    }
    for text, why in said.items():
        (corner,) = read(text, rule)
        assert why in broken(corner)


@pytest.mark.parametrize(
    "text", ["x = 1\n", f"import torch\n{SPEAKS}", "# --- Silent.\nx = 1\n# +++\nx = 2\n"]
)
def test_a_file_that_cannot_be_cut_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"first program|nothing is found"):
        list(read(text, INFO))
