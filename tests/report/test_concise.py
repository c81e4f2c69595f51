from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from torchlint.base.finding import Finding, Safety, TextFix
from torchlint.base.span import Position
from torchlint.report.concise import render
from torchlint.report.run_report import RunReport

MESSAGE = "Tensor is made on the CPU, then moved to `cuda`"


@pytest.mark.parametrize(
    ("safety", "withheld", "mark"),
    [
        (Safety.SAFE, "", "[*] "),
        (Safety.UNSAFE, "", "[~] "),
        (Safety.SUGGESTION, "", ""),
        (Safety.SAFE, "a comment stands inside", ""),
    ],
)
def test_marker_says_how_safe_the_fix_is(
    make_finding: Callable[..., Finding],
    make_run: Callable[..., RunReport],
    safe_fix: TextFix,
    safety: Safety,
    withheld: str,
    mark: str,
) -> None:
    fix = dataclasses.replace(safe_fix, safety=safety, withheld=withheld)
    assert render(make_run(make_finding(fix=fix))) == f"train.py:6:16: TL102 {mark}{MESSAGE}\n"


def test_order_is_file_cell_row_column_code(
    make_finding: Callable[..., Finding], make_run: Callable[..., RunReport]
) -> None:
    places = [("b.py", None, 1), ("a.ipynb", 2, 1), ("a.ipynb", 1, 9), ("a.ipynb", 1, 3)]
    run = make_run(
        *(
            make_finding(filename=name, cell=cell, start=Position(row, 1), fix=None)
            for name, cell, row in places
        )
    )
    assert [line.partition(": ")[0] for line in render(run).splitlines()] == [
        "a.ipynb:cell 1:3:1",
        "a.ipynb:cell 1:9:1",
        "a.ipynb:cell 2:1:1",
        "b.py:1:1",
    ]


@pytest.mark.parametrize(
    ("code", "shown"),
    [("invalid-syntax", "invalid-syntax: "), ("unreadable", "unreadable: "), ("TL001", "TL001 ")],
)
def test_engine_codes(
    make_finding: Callable[..., Finding], make_run: Callable[..., RunReport], code: str, shown: str
) -> None:
    assert (
        render(make_run(make_finding(code=code, fix=None))) == f"train.py:6:16: {shown}{MESSAGE}\n"
    )


def test_one_line_per_finding_whatever_the_name_and_message_hold(
    make_finding: Callable[..., Finding], make_run: Callable[..., RunReport]
) -> None:
    run = make_run(
        make_finding(filename="a\n\x1b]0;t\x07\udcff.py", message="x\r\n\u2028\u202ey", fix=None)
    )
    assert render(run) == (r"a\n\x1b]0;t\x07\udcff.py:6:16: TL102 x\r\n\u2028\u202ey" + "\n")


def test_colour_only_where_allowed(
    make_finding: Callable[..., Finding], make_run: Callable[..., RunReport]
) -> None:
    assert "\x1b[1;33mTL102\x1b[0m" in render(make_run(make_finding(), color=True))
    assert "\x1b" not in render(make_run(make_finding()))


def test_nothing_found_is_empty(make_run: Callable[..., RunReport]) -> None:
    assert render(make_run()) == ""
