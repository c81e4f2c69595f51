from __future__ import annotations

from collections.abc import Callable

import pytest

from torchlint.base.finding import Finding, Note, NoteKind, Severity
from torchlint.base.span import Position
from torchlint.report.github import render
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]


@pytest.mark.parametrize(
    ("severity", "command"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "notice")],
)
def test_golden(make_finding: Findings, make_run: Runs, severity: Severity, command: str) -> None:
    assert render(make_run(make_finding(severity=severity))) == (
        f"::{command} "
        "file=/project/train.py,line=6,col=16,endLine=6,endColumn=41,title=torchlint (TL102)"
        "::train.py:6:16: TL102 Tensor is made on the CPU, then moved to `cuda`\n"
    )


def test_several_rows_carry_no_columns(make_finding: Findings, make_run: Runs) -> None:
    text = render(make_run(make_finding(end=Position(8, 3))))
    assert text.startswith(
        "::warning file=/project/train.py,line=6,endLine=8,title=torchlint (TL102)::"
    )


def test_a_notebook_finding_names_its_cell(make_finding: Findings, make_run: Runs) -> None:
    text = render(make_run(make_finding(filename="n.ipynb", cell=4, file_row=88)))
    assert text.startswith(
        "::warning file=/project/n.ipynb,line=88,title=torchlint (TL102)::n.ipynb:cell 4:6:16: "
        "TL102 "
    )


def test_a_note_on_a_cell_gives_no_line_of_the_file(make_run: Runs) -> None:
    note = Note(NoteKind.FAILED, "n.ipynb", "rule TL101 crashed", 12, cell=3)
    assert render(make_run(notes=(note,))) == (
        "::error file=/project/n.ipynb,line=1,title=torchlint (not-analysed)"
        "::n.ipynb:cell 3:12: not-analysed: rule TL101 crashed\n"
    )


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "%0A", "\u2028", "\x85", "\x0b", "\x0c"])
def test_no_name_or_message_starts_a_command(
    make_finding: Findings, make_run: Runs, end: str
) -> None:
    name, message = f"a{end}::error::x.py", f"m{end}::add-mask::secret"
    text = render(make_run(make_finding(filename=name, message=message)))
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert text.startswith("::warning file=")
    assert ":" not in text.removeprefix("::").partition("::")[0]


def test_properties_and_message_are_escaped(make_finding: Findings, make_run: Runs) -> None:
    name = "a%,b:\r\nc\x1b.py"
    text = render(make_run(make_finding(filename=name, message="100%\r\n\x1b, a:b")))
    assert text.startswith(r"::warning file=/project/a%25%2Cb%3A%0D%0Ac\x1b.py,line=6,")
    assert text.endswith(r" TL102 100%25%0D%0A\x1b, a:b" + "\n")


def test_files_not_analysed(make_run: Runs) -> None:
    notes = (
        Note(NoteKind.SKIPPED, "big.py", "larger than 1 MB"),
        Note(NoteKind.FAILED, "crash.py", "rule TL101 crashed", 12),
        Note(NoteKind.WITHHELD, "w.py", "comment"),
    )
    assert render(make_run(notes=notes)).splitlines() == [
        (
            "::warning file=/project/big.py,line=1,title=torchlint (not-analysed)::big.py: "
            "not-analysed: larger than 1 MB"
        ),
        "::error file=/project/crash.py,line=12,title=torchlint (not-analysed)"
        "::crash.py: not-analysed: rule TL101 crashed",
    ]
