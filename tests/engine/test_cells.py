"""Findings and fixes in notebooks: told by cell, and never beyond one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.checking import every_code
from torchlint.base.finding import (
    Edit,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.span import LineIndex, Span
from torchlint.engine.analyse import analyse
from torchlint.engine.cells import Cells
from torchlint.engine.job import Job, Silence
from torchlint.run.run import RunOptions, run
from torchlint.source.document import Document
from torchlint.source.notebook import Cell, assembled
from torchlint.source.python import parsed

SETUP = "import torch\ndevice = torch.device('cuda')"
LOOP = "for x in loader:\n    loss = model(x)\n    loss.backward()\n    {}"
SLOW = "mask = torch.ones(3).to(device)"
FAST = "mask = torch.ones(3, device=device)"


def document(*sources: str, ids: bool = False) -> Document:
    """Return a document as an editor has it: cells without a file; every second number is a text
    cell's."""
    cells = [Cell(2 * at, source, f"id{at}" if ids else "") for at, source in enumerate(sources, 1)]
    notebook = assembled(cells)
    return Document("n.ipynb", "", notebook.text, "utf-8", False, b"", notebook)


def job(*sources: str, fix: str = "", ids: bool = False, **more: object) -> Job:
    codes = every_code() | {"TL001"}
    return Job(document(*sources, ids=ids), "n.ipynb", codes, fix=fix, show_source=True, **more)  # type: ignore[arg-type]


def check(*sources: str, fix: str = "") -> FileReport:
    return analyse(job(*sources, fix=fix))


def slow(*, before: str = "", after: str = "") -> list[str]:
    return [SETUP, before + LOOP.format(SLOW) + after]


def test_names_flow_from_cell_to_cell_and_places_are_those_of_the_cell() -> None:
    report = check("%load_ext autoreload\n" + SETUP, "", *slow(before="%%time\n")[1:])
    (found,) = report.findings
    assert (found.code, found.cell, found.start.row, found.start.column) == ("TL102", 6, 5, 12)
    assert (found.end.row, found.statement, found.statement_end, found.file_row) == (5, 5, 5, None)
    assert [(reason.cell, reason.line) for reason in found.why_hot] == [(6, 2)]
    assert found.fix is not None
    source = "%%time\n" + LOOP.format(SLOW)
    for edit in reversed(found.fix.edits):
        assert edit.cell == 6
        assert LineIndex(source).position(edit.span.start) == edit.start
        source = source[: edit.span.start] + edit.text + source[edit.span.end :]
    assert source == "%%time\n" + LOOP.format(FAST)


def test_source_rows_are_those_of_the_cell_as_it_is_stored() -> None:
    report = check(*slow(before="%%time\n", after="\n    !ls"))
    assert report.source == (
        (4, 3, "    loss = model(x)"),
        (4, 4, "    loss.backward()"),
        (4, 5, f"    {SLOW}"),
        (4, 6, "    !ls"),
    )


def test_seams_are_no_excerpt() -> None:
    report = check(SETUP, LOOP.format(SLOW), "x = 1")
    assert {row for cell, row, _ in report.source if cell == 4} == {2, 3, 4}
    assert not [text for _, _, text in report.source if "_ipynb" in text]


def test_fixes_change_their_cells_alone() -> None:
    report = check("%matplotlib inline\n" + SETUP, LOOP.format(SLOW), "!ls", fix="safe")
    assert report.cells == ((4, LOOP.format(SLOW), LOOP.format(FAST)),)
    assert (report.findings, report.applied, report.notes) == ((), 1, ())


def test_an_import_is_added_to_the_cell_of_the_imports() -> None:
    imports = "from torch.nn import Linear"
    code = (
        "net = Linear(4, 4)\n\n\ndef evaluate(net, loader):\n    net.eval()\n"
        "    for x in loader:\n        print(net(x).sum().item())"
    )
    report = check(imports, "%%bash\nls", "a = 1", code, fix="unsafe")
    assert report.cells == (
        (2, imports, f"{imports}\nimport torch"),
        (8, code, code.replace("def", "@torch.no_grad()\ndef")),
    )


@pytest.mark.parametrize("fix", ["", "safe"])
def test_each_cell_with_a_syntax_error_is_named(fix: str) -> None:
    report = check("x = (1,\n", "ok = 1", "%foo\nif x:\nprint(1)", ")", fix=fix)
    places = [(found.code, found.cell, found.start.row) for found in report.findings]
    assert places == [("invalid-syntax", 2, 1), ("invalid-syntax", 6, 3), ("invalid-syntax", 8, 1)]
    assert "line 2" in report.findings[1].message
    assert report.before == report.after


@pytest.mark.parametrize("bad", ["y = (", "    y = (", "  y = 1\n z = 2", "%foo\ny = ("])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("fix", ["", "unsafe"])
def test_the_other_cells_of_a_half_written_one_are_checked_but_not_fixed(
    bad: str, at: int, fix: str
) -> None:
    sources = slow()
    sources.insert(at, bad)
    report = check(*sources, fix=fix)
    cell = 6 if at < 2 else 4
    places = {(found.code, found.cell, found.start.row) for found in report.findings}
    assert places == {("invalid-syntax", 2 * at + 2, bad.count("\n") + 1), ("TL102", cell, 4)}
    assert {found.fix.withheld for found in report.findings if found.fix} == {
        "another cell is not Python yet"
    }
    assert (report.cells, report.before, report.applied) == ((), "", 0)


@pytest.mark.parametrize(
    ("bad", "due"),
    [
        ("zeros = (", set()),
        ("torch = (", set()),
        ("from helpers import *\nx = (", {"TL102"}),
        ("import torch\nx = (", {"TL102"}),
        ("zeros == (", {"TL102"}),
        ("x = (  # torchlint: file-ignore[TL102]", set()),
        ("# torchlint: disable[TL102]\nx = (", set()),
        ("# torchlint: ignore[TL102]\nx = (", {"TL102"}),
    ],
)
def test_what_a_half_written_cell_binds_is_unknown(bad: str, due: set[str]) -> None:
    imports, loop = f"{SETUP}\nzeros = torch.zeros", LOOP.format("mask = zeros(3).to(device)")
    assert {found.code for found in check(imports, bad, loop).findings} == {"invalid-syntax", *due}


@pytest.mark.parametrize("bad", ["y = = 1", "y = ("])
def test_suppressions_are_written_into_cells_unless_one_is_half_written(bad: str) -> None:
    sources = slow()
    cells = ((4, LOOP.format(SLOW), LOOP.format(f"{SLOW}  # torchlint: ignore[TL102]")),)
    prints = frozenset(found.fingerprint for found in check(*sources).findings)
    silenced = analyse(job(*sources, silence=Silence(prints)))
    assert (silenced.findings, silenced.cells, silenced.notes, silenced.applied) == (
        (),
        cells,
        (),
        1,
    )
    left = analyse(job(*sources, bad, silence=Silence(prints)))
    assert [(found.code, found.cell) for found in left.findings] == [
        ("TL102", 4),
        ("invalid-syntax", 6),
    ]
    assert (left.cells, left.applied) == ((), 0)
    assert [note.message for note in left.notes] == [
        "no suppressions are written: another cell is not Python yet"
    ]


def test_no_suppression_is_unused_while_a_cell_is_half_written() -> None:
    unused = "x = 1  # torchlint: ignore[TL101]"
    assert [found.code for found in check(SETUP, unused, "y = 1").findings] == ["TL001"]
    assert [found.code for found in check(SETUP, unused, "y = (").findings] == ["invalid-syntax"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("'''", "'''"),
        ("x = [", "]"),
        ("if x:\n    y", "else:\n    z"),
        ("x = \\", "1"),
        ("@f", "def g(): pass"),
    ],
)
def test_a_cell_is_not_completed_by_the_next(first: str, second: str) -> None:
    assert {found.code for found in check(first, second).findings} == {"invalid-syntax"}


def test_an_indented_cell_is_read_in_its_columns() -> None:
    indented = "\n".join("  " + line for line in LOOP.format(SLOW).split("\n"))
    (found,) = check(SETUP, indented).findings
    assert (found.cell, found.start.row, found.start.column) == (4, 4, 14)
    (broken,) = check(SETUP, "  x = 1\n  y = )").findings
    assert (broken.code, broken.cell, broken.start.row) == ("invalid-syntax", 4, 2)


def test_top_level_await_is_python() -> None:
    assert check("await f()\nasync with a as b:\n    pass\nasync for c in d: pass").findings == ()


# -- suppressions


@pytest.mark.parametrize("comment", ["  # torchlint: ignore[TL102]", "  # noqa: TL102"])
def test_a_suppression_behind_the_statement(comment: str) -> None:
    assert check(*slow(after=comment)).findings == ()


def test_a_suppression_speaks_of_its_own_cell_alone() -> None:
    loop = "for x in loader: mask = torch.ones(3).to(device); model(x).backward()"
    above = check(SETUP, f"# torchlint: ignore[TL102]\n{loop}")
    assert [found.code for found in above.findings] == []
    report = check(f"{SETUP}\n# torchlint: ignore[TL102]", loop)
    assert [(found.code, found.cell, found.start.row) for found in report.findings] == [
        ("TL001", 2, 3),
        ("TL102", 4, 1),
    ]
    fixed = check(f"{SETUP}\n# torchlint: ignore[TL102]", "x = 1", fix="safe")
    assert fixed.cells == ((2, f"{SETUP}\n# torchlint: ignore[TL102]", SETUP),)


@pytest.mark.parametrize(
    "comment", ["# torchlint: file-ignore[TL102]", "# torchlint: disable[TL102]"]
)
def test_wide_suppressions_hold_across_cells(comment: str) -> None:
    assert check(f"{comment}\n{SETUP}", *slow()[1:]).findings == ()


# -- identity


def test_identity_is_the_id_of_the_cell_or_its_number() -> None:
    def of(given: Job) -> str:
        return analyse(given).findings[0].fingerprint

    assert of(job(*slow())) != of(job(*slow()[:1], "", *slow()[1:]))
    with_id = job(*slow(), ids=True)
    moved = [
        Cell(9, part.cell.source, part.cell.id)
        for part in (with_id.document.notebook or assembled([])).parts
    ]
    notebook = assembled(moved)
    assert of(with_id) == of(
        replace(with_id, document=replace(with_id.document, notebook=notebook))
    )
    assert of(with_id) != of(job(*slow()))
    rows_above = job(SETUP, f"y = 1\n{slow()[1]}")
    assert of(rows_above) == of(job(*slow()))


# -- fixes that would reach too far


def contained(given: Document, start: str, end: str, new: str) -> TextFix:
    """Return a fix of one edit after it met the cells: from where `start` starts to where `end`
    ends."""
    text = given.text
    index = LineIndex(text)
    span = Span(text.index(start), text.index(end) + len(end))
    place = index.position(span.start), index.position(span.end)
    fix = TextFix(Safety.SAFE, "t", (Edit(span, new, *place),))
    found = Finding(
        "TL102", "n", "m", Severity.WARNING, "n.ipynb", *place, place[0].row, place[1].row, fix=fix
    )
    (after,) = Cells(given).contained(text, [found], parsed(text))
    assert after.fix is not None
    return after.fix


@pytest.mark.parametrize(
    ("start", "end", "new", "words"),
    [
        ("a = 1\nb", "c = 2", "", "beyond one cell"),
        ("pass  # _ipynb1_", "pass  # _ipynb1_", "", "beyond one cell"),
        ("c = 2", "pass  # _ipynb2_", "", "only IPython"),
        ("pass  # _ipynb2_", "pass  # _ipynb2_", "x", "only IPython"),
        ("pass  # _ipynb4_", "pass  # _ipynb4_", "x", "only IPython"),
        ("g()", "g()", "", "what the cell shows"),
        ("g()\n", "g()\n", "", "what the cell shows"),
        ("h = 3", "h = 3", "", "what the cell shows"),
        ("b = 1", "b = 1", "", ""),
        ("g(", "g(", "g(1, ", ""),
        ("quiet()", "quiet()", "", ""),
    ],
)
def test_a_fix_that_reaches_too_far_is_withheld(start: str, end: str, new: str, words: str) -> None:
    given = document("a = 1\nb = 1", "c = 2\n%magic\ng()", "%%time\nf()\nh = 3", "x = 1\nquiet();")
    fix = contained(given, start, end, new)
    assert (words in fix.withheld) if words else fix.withheld == ""


def test_nothing_is_put_above_the_magic_of_a_cell_or_below_what_it_shows() -> None:
    given = document("# note\n%%time\nf()", "%foo\ng()")
    assert "only IPython" in contained(given, "# note", "# note", "import a\n# note").withheld
    index = given.text.index("g()") + 3
    place = LineIndex(given.text).position(index)
    fix = TextFix(Safety.SAFE, "t", (Edit(Span(index, index), "\nimport a", place, place),))
    found = Finding("TL102", "n", "m", Severity.WARNING, "n.ipynb", place, place, 1, 1, fix=fix)
    (after,) = Cells(given).contained(given.text, [found], parsed(given.text))
    assert after.fix is not None
    assert "what the cell shows" in after.fix.withheld


@pytest.mark.parametrize(
    ("start", "end", "new", "due"),
    [
        ("b = 1\n", "b = 1\n", "", "a = 1"),
        ("b = 1\n", "b = 1\n", "B\n", "a = 1\nB"),
        ("b = 1", "b = 1", "", "a = 1\n"),
        ("a = 1\nb = 1\n", "b = 1\n", "", ""),
    ],
)
def test_the_last_row_of_a_cell_goes_with_the_newline_before_it(
    start: str, end: str, new: str, due: str
) -> None:
    given = document("a = 1\nb = 1", "c = 2")
    fix = contained(given, start, end, new)
    (edit,) = fix.edits
    assert fix.withheld == ""
    text = given.text[: edit.span.start] + edit.text + given.text[edit.span.end :]
    assert given.notebook is not None
    assert given.notebook.sources(text) == (due, "c = 2")


def test_a_text_that_cannot_be_put_back_is_our_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cells, "contained", lambda self, text, findings, python: iter(findings))
    monkeypatch.setattr(Cells, "unsound", lambda self, text: "its cells cannot be put back")
    report = check(*slow(), fix="safe")
    assert [note.kind for note in report.notes] == [NoteKind.FAILED]
    assert (report.applied, report.cells, report.before) == (0, (), "")
    assert [found.code for found in report.findings] == ["TL102"]


def test_unsound_says_what_is_wrong() -> None:
    given = document("a = 1", "b = 2")
    assert Cells(given).unsound(given.text) == ""
    assert "no row" in Cells(given).unsound("a = 1\nb = 2")


def test_words_of_ours_name_the_cell() -> None:
    cells = Cells(document("a = 1", "b = 2\nc = 3"))
    text = cells.document.text
    told = cells.told(
        FileReport("n.ipynb", notes=(note("TL101 failed on line 4: x", 4), note("plain", 0))), text
    )
    assert [(each.message, each.cell, each.line) for each in told.notes] == [
        ("TL101 failed on cell 4 line 2: x", 4, 2),
        ("plain", None, 0),
    ]


def note(message: str, line: int) -> Note:
    return Note(NoteKind.FAILED, "n.ipynb", message, line)


def test_what_no_parser_may_see_is_told_by_cell_too() -> None:
    (report,) = run([job("x = 1", "a\n" + "(" * 300 + ")" * 300)], RunOptions())
    (found,) = report.findings
    assert (found.code, found.cell, found.start.row) == ("invalid-syntax", 4, 2)


def test_a_notebook_without_python_says_nothing() -> None:
    assert check("%%bash\nls") == FileReport("n.ipynb")
    assert check() == FileReport("n.ipynb")
