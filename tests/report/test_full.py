from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from torchlint.base.finding import Edit, Finding, Safety, TextFix
from torchlint.base.span import Position, Span
from torchlint.report.full import render
from torchlint.report.patch import MOST_ROWS
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
Edits = Callable[[str, str, str], Edit]

GOLDEN = """\
TL102 [*] Tensor is made on the CPU, then moved to `cuda`
 --> train.py:6:16
  |
4 | def train(model, loader):
5 |     for x in loader:
6 |         mask = torch.zeros(8).to("cuda")
  |                ^^^^^^^^^^^^^^^^^^^^^^^^^
7 |         loss = model(x, mask)
8 |         loss.backward()
  |
why: every step: for x in loader (train.py:5) <- called from main() (main.py:88)
help: Pass device= to the factory
  |
5 |     for x in loader:
  -         mask = torch.zeros(8).to("cuda")
6 +         mask = torch.zeros(8, device="cuda")
7 |         loss = model(x, mask)
  |

"""


def test_golden(make_finding: Findings, make_run: Runs) -> None:
    assert render(make_run(make_finding())) == GOLDEN


def test_colours_add_nothing_but_colour(make_finding: Findings, make_run: Runs) -> None:
    colored = render(make_run(make_finding(), color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == GOLDEN


@pytest.mark.parametrize("width", [20, 40, 80, 100])
@pytest.mark.parametrize("color", [False, True])
def test_a_long_message_is_wrapped_to_the_terminal(
    make_finding: Findings, make_run: Runs, width: int, color: bool
) -> None:
    message = "Tensor is made on the CPU, " * 6 + "then moved"
    found = dataclasses.replace(make_finding(), message=message)
    report = re.sub(r"\x1b\[[0-9;]*m", "", render(make_run(found, color=color, width=width)))
    lines = report.partition("\n -->")[0].split("\n")
    assert all(len(line) <= width for line in lines)
    assert lines[0].startswith("TL102 [*] Tensor")
    assert all(line.startswith(" " * len("TL102 [*] ") + line.strip()[0]) for line in lines[1:])
    assert " ".join(line.strip() for line in lines) == f"TL102 [*] {message}"


def carets(report: str) -> tuple[str, str]:
    """Return the line above the carets and the line of the carets."""
    lines = report.splitlines()
    at = next(at for at, line in enumerate(lines) if re.fullmatch(r" *\| *\^+", line))
    return lines[at - 1], lines[at]


@pytest.mark.parametrize(
    ("text", "start", "end", "line", "under"),
    [
        ("\tx = f(a)", (1, 6), (1, 10), "1 |     x = f(a)", "  |         ^^^^"),
        ("s = '漢字'; f(a)", (1, 11), (1, 15), "1 | s = '漢字'; f(a)", "  |             ^^^^"),
        ("s = '\x1b'; f(a)", (1, 10), (1, 14), r"1 | s = '\x1b'; f(a)", "  |             ^^^^"),
        ("f(a,  \n  b)", (1, 1), (2, 5), "1 | f(a,", "  | ^^^^"),
        ("f(", (1, 3), (1, 3), "1 | f(", "  |   ^"),
    ],
)
def test_carets_stand_under_the_span(
    make_finding: Findings,
    make_run: Runs,
    text: str,
    start: tuple[int, int],
    end: tuple[int, int],
    line: str,
    under: str,
) -> None:
    finding = make_finding(start=Position(*start), end=Position(*end), fix=None)
    assert carets(render(make_run(finding, text=text))) == (line, under)


def test_very_long_line_is_cut_around_the_finding(make_finding: Findings, make_run: Runs) -> None:
    text = "a" * 100_000 + "BAD" + "c" * 100_000
    finding = make_finding(start=Position(1, 100_001), end=Position(1, 100_004), fix=None)
    line, under = carets(render(make_run(finding, text=text)))
    assert len(line) < 250
    assert line[under.index("^") : under.rindex("^") + 1] == "BAD"


def test_very_long_rows_around_the_finding_and_in_the_patch_are_cut(
    make_finding: Findings, make_run: Runs, make_edit: Edits
) -> None:
    text = "\n".join(["a" * 100_000, "b" * 50_000 + "BAD" + "b" * 50_000, "c" * 100_000])
    fix = TextFix(Safety.SAFE, "Do it", (make_edit(text, "BAD", "GOOD"),))
    finding = make_finding(start=Position(2, 50_001), end=Position(2, 50_004), fix=fix)
    report = render(make_run(finding, text=text))
    assert max(map(len, report.splitlines())) < 250
    assert re.search(r"\n  - \.\.\.b+BADb+\.\.\.\n2 \+ \.\.\.b+GOODb+", report)


def test_blank_rows_at_the_edges_of_the_excerpt_are_left_out(
    make_finding: Findings, make_run: Runs
) -> None:
    finding = make_finding(start=Position(3, 1), end=Position(3, 2), fix=None, why_hot=())
    assert render(make_run(finding, text="\n\nx\n\ny\n")).endswith(
        ":1\n  |\n3 | x\n  | ^\n4 |\n5 | y\n  |\n\n"
    )
    assert render(make_run(finding, text="\n\nx\n \n\n")).endswith(":1\n  |\n3 | x\n  | ^\n  |\n\n")


def test_control_characters_of_name_message_and_source(
    make_finding: Findings, make_run: Runs
) -> None:
    finding = make_finding(filename="a\x1b\n.py", message="m\x1b\u202e", fix=None, help="h\x9b")
    text = "\n" * 5 + "x = '\x1b]0;t\x07\u202e'  # \u2066 \x85\n"
    report = render(make_run(finding, text=text))
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", report)
    assert r" --> a\x1b\n.py:6:16" in report
    assert r"6 | x = '\x1b]0;t\x07\u202e'  # \u2066 \x85" in report
    assert "help: h\\x9b" in report


@pytest.mark.parametrize(
    ("safety", "note", "withheld", "lines"),
    [
        (Safety.SAFE, "", "", []),
        (Safety.UNSAFE, "rounding may change", "", ["note: unsafe fix: rounding may change"]),
        (Safety.SUGGESTION, "", "", ["note: a suggestion: never applied, for you to judge"]),
        (
            Safety.SAFE,
            "",
            "a comment stands inside",
            ["note: not applied: a comment stands inside"],
        ),
    ],
)
def test_notes_on_the_fix(
    make_finding: Findings,
    make_run: Runs,
    safe_fix: TextFix,
    safety: Safety,
    note: str,
    withheld: str,
    lines: list[str],
) -> None:
    fix = dataclasses.replace(safe_fix, safety=safety, note=note, withheld=withheld)
    report = render(make_run(make_finding(fix=fix)))
    assert [line for line in report.splitlines() if line.startswith("note:")] == lines


def test_no_excerpt_without_source_or_in_a_notebook(make_finding: Findings, make_run: Runs) -> None:
    finding = make_finding(fix=None, why_hot=(), cell=3, filename="n.ipynb")
    head = "TL102 Tensor is made on the CPU, then moved to `cuda`"
    assert render(make_run(finding)) == f"{head}\n --> n.ipynb:cell 3:6:16\n\n"


def patch(report: str) -> str:
    return report.partition("help: ")[2].partition("\n")[2]


def test_patch_of_several_places_counts_rows_of_the_fixed_file(
    make_finding: Findings, make_run: Runs, make_edit: Edits
) -> None:
    text = "import os\nimport sys\n\nx = 1\ny = 2\nz = 3\n\nlast(x)\n"
    edits = (
        make_edit(text, "last(x)", "last(x, y)"),
        make_edit(text, "import os\n", "import a\nimport b\n"),
    )
    fix = TextFix(Safety.SAFE, "Do it", edits)
    finding = make_finding(fix=fix, start=Position(8, 1), end=Position(8, 8), why_hot=())
    assert patch(render(make_run(finding, text=text))) == (
        "   |\n"
        "   - import os\n"
        " 1 + import a\n"
        " 2 + import b\n"
        " 3 | import sys\n"
        " 4 |\n"
        "   |\n"
        " 8 |\n"
        "   - last(x)\n"
        " 9 + last(x, y)\n"
        "10 |\n"
        "   |\n\n"
    )


def test_patch_of_near_edits_is_one_block(
    make_finding: Findings, make_run: Runs, make_edit: Edits
) -> None:
    text = "a\nb\nc"
    fix = TextFix(Safety.SAFE, "Do it", (make_edit(text, "a", "A"), make_edit(text, "c", "C")))
    run = make_run(
        make_finding(fix=fix, start=Position(1, 1), end=Position(1, 2), why_hot=()), text=text
    )
    assert patch(render(run)) == "  |\n  - a\n1 + A\n2 | b\n  - c\n3 + C\n  |\n\n"


def test_patch_that_deletes_the_last_row(
    make_finding: Findings, make_run: Runs, make_edit: Edits
) -> None:
    text = "x = 1\ny = 2\n"
    fix = TextFix(Safety.SAFE, "Remove it", (make_edit(text, "y = 2\n", ""),))
    run = make_run(
        make_finding(fix=fix, start=Position(2, 1), end=Position(2, 6), why_hot=()), text=text
    )
    source = tuple(line for line in run.files[0].source if line[1] < 3)
    run = dataclasses.replace(run, files=(dataclasses.replace(run.files[0], source=source),))
    assert patch(render(run)) == "  |\n1 | x = 1\n  - y = 2\n  |\n\n"


@pytest.mark.parametrize("end", [Position(40, 9), Position(41, 1)])
def test_patch_shows_new_text_alone_where_the_row_is_not_known(
    make_finding: Findings, make_run: Runs, end: Position
) -> None:
    edit = Edit(Span(900, 904), "import a\r\n", Position(40, 5), end)
    finding = make_finding(fix=TextFix(Safety.SAFE, "Do it", (edit,)), why_hot=())
    assert patch(render(make_run(finding))) == "   |\n40 + import a\n   |\n\n"


def test_patch_of_a_crlf_edit_shows_no_carriage_return(
    make_finding: Findings, make_run: Runs, make_edit: Edits
) -> None:
    text = "x = 1\r\ny = 2\r\n"
    fix = TextFix(Safety.SAFE, "Do it", (make_edit(text, "x = 1", "a = 1\r\nb = 2"),))
    finding = make_finding(fix=fix, start=Position(1, 1), end=Position(1, 2), why_hot=())
    assert patch(render(make_run(finding, text=text))).startswith(
        "  |\n  - x = 1\n1 + a = 1\n2 + b = 2\n"
    )


def test_long_patch_is_cut(make_finding: Findings, make_run: Runs, make_edit: Edits) -> None:
    text = "x = 1\n"
    fix = TextFix(Safety.SAFE, "Do it", (make_edit(text, "x = 1", "a\n" * 500),))
    finding = make_finding(fix=fix, start=Position(1, 1), end=Position(1, 2), why_hot=())
    report = render(make_run(finding, text=text))
    assert report.count(" + a\n") == MOST_ROWS - 1
    assert "more rows\n" in report
