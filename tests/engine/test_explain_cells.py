"""``--explain`` in notebooks: all places are told by cell, and what is flagged is what `check`
flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.checking import every_code
from torchlint.base.explanation import Asked, ExplainedReport, Explanation, Place, State
from torchlint.engine.job import Job
from torchlint.explain.file import explain
from torchlint.report import explained, explained_json
from torchlint.run.worker import analyse_job
from torchlint.source.document import Document, read
from torchlint.source.notebook import Cell, assembled

NOTEBOOKS = sorted((Path(__file__).parents[2] / "fixtures" / "notebooks").glob("*.ipynb"))
SETUP = (
    "import torch\nfrom torch import nn\ndevice = torch.device('cuda')\nmodel = nn.Linear(3, "
    "1).to(device)"
)
LOOP = (
    "%%time\nfor x in loader:\n    loss = model(x.to(device)).sum()\n    loss.backward()\n    "
    "print(loss.item())"
)


def job_of(document: Document) -> Job:
    return Job(document, "n.ipynb", every_code() | {"TL001"})


def document(*sources: str) -> Document:
    """Return a notebook whose cells have odd numbers."""
    notebook = assembled(Cell(2 * at + 1, source) for at, source in enumerate(sources))
    return Document("n.ipynb", "", notebook.text, "utf-8", False, b"", notebook)


def report(sources: tuple[str, ...], *places: Place) -> ExplainedReport:
    return explain(job_of(document(*sources)), Asked(places, {}))


def one(sources: tuple[str, ...], cell: int, row: int, column: int | None = None) -> Explanation:
    (found,) = report(sources, Place(row, column, cell)).explanations
    return found


def text_of(sources: tuple[str, ...], cell: int, row: int) -> str:
    return explained.render([report(sources, Place(row, None, cell))], False)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_flagged_means_what_check_reports_on_every_line(path: Path) -> None:
    job = job_of(read(str(path), path.name, 0))
    assert job.document.notebook is not None
    cells = [part.cell for part in job.document.notebook.parts]
    places = [
        Place(row + 1, None, each.number)
        for each in cells
        for row in range(len(each.source.split("\n")))
    ]
    found = explain(job, Asked(tuple(places), {}))
    assert not found.notes
    said = {
        (one.place.cell, each.row, each.column, each.code, each.message)
        for one in found.explanations
        for each in one.verdicts
        if each.state is State.FLAGGED
    }
    due = analyse_job(job).findings
    assert said == {
        (each.cell, each.start.row, each.start.column, each.code, each.message) for each in due
    }
    lines = {each.number: each.source.split("\n") for each in cells}
    assert [each.place for each in found.explanations] == places
    assert [each.source for each in found.explanations] == [
        lines[each.cell or 0][each.row - 1].strip() for each in places
    ]


def test_what_other_cells_hold_is_told_by_cell() -> None:
    sources = (SETUP, "", LOOP)
    found = one(sources, 5, 5)
    assert found.verdicts[0].state is State.FLAGGED
    assert {each.row for each in found.verdicts} == {5}
    assert found.pace is not None
    assert [(each.cell, each.line) for each in found.pace.why] == [(5, 2)]
    places = {(link.cell, link.line) for belief in found.beliefs for link in belief.origin}
    assert {(1, 4), (5, 3)} <= places
    out = text_of(sources, 5, 5)
    assert out.startswith("n.ipynb:cell 5:5: print(loss.item())\n")
    assert "(cell 1 line 4)" in out
    assert "(cell 5 line 2)" in out
    assert "(line " not in out


def test_a_column_picks_the_expression() -> None:
    found = one((SETUP, LOOP), 3, 5, 11)
    assert found.place.words == "cell 3:5:11"
    assert {(belief.expression, belief.row, belief.column) for belief in found.beliefs} == {
        ("loss", 5, 11),
        ("loss.item()", 5, 11),
    }


def test_words_about_several_lines_name_their_cells() -> None:
    read_it = "def show(t):\n    return t.item()"
    calls = "show(torch.ones(3, device=device).sum())\nshow(other)"
    found = one((SETUP, read_it, calls), 3, 2)
    words = " ".join(
        [found.pace.words if found.pace else "", *(each.because for each in found.verdicts)]
    )
    assert "cell 5 line 1, cell 5 line 2" in words


def test_a_suppression_in_a_notebook() -> None:
    sources = (SETUP, LOOP.replace("item())", "item())  # noqa"))
    states = {each.state: each.because for each in one(sources, 3, 5).verdicts}
    assert states[State.SUPPRESSED] == "the comment `# noqa` on cell 3 line 5 suppresses it"


def test_an_idle_suppression_in_a_notebook() -> None:
    sources = (SETUP, "y = 1\nx = 1  # torchlint: ignore[TL102]")
    (found,) = one(sources, 3, 2).verdicts
    assert (found.code, found.row, found.column) == ("TL001", 2, 28)
    assert one(sources, 3, 1).verdicts == ()
    assert one(sources, 1, 2).verdicts == ()


@pytest.mark.parametrize("row", [1, 2, 3])
def test_a_line_of_ipython_is_shown_as_it_is(row: int) -> None:
    source = "%%time\nfiles = !ls\n%run other.ipynb"
    found = one((SETUP, source), 3, row)
    assert found.remark == "only IPython understands this line: no rule looks at it"
    assert found.source == source.split("\n")[row - 1]
    assert (found.pace, found.beliefs, found.verdicts) == (None, (), ())


def test_nothing_that_stands_for_ipython_is_ever_told() -> None:
    sources = (
        SETUP,
        "files = !ls -l\n%time made = model(files)",
        "for x in made:\n    print(x.item(), files)",
    )
    out = text_of(sources, 5, 2) + explained_json.render([report(sources, Place(2, None, 5))])
    assert "!ls -l" in out
    assert "_ipynb" not in out


def test_an_indented_cell_is_not_behind_a_condition() -> None:
    found = one((SETUP, "  if flag:\n    y = model(x).item()"), 3, 2)
    assert found.pace is not None
    assert [(each.test, each.cell, each.row) for each in found.pace.guards] == [("flag", 3, 1)]


def test_a_condition_of_another_cell_names_it() -> None:
    sources = (SETUP, "x = 1\nif not x:\n    raise SystemExit", "y = model(x).item()")
    found = one(sources, 5, 1)
    assert found.pace is not None
    assert [(each.cell, each.row) for each in found.pace.guards] == [(3, 2)]
    assert "only if not `not x` (cell 3 line 2)" in text_of(sources, 5, 1)


def test_json_names_cells() -> None:
    (entry,) = json.loads(explained_json.render([report((SETUP, LOOP), Place(5, None, 3))]))
    assert (entry["cell"], entry["row"]) == (3, 5)
    assert entry["pace"]["why"][0]["cell"] == 3
    assert {link["cell"] for value in entry["values"] for link in value["origin"]} == {1, 3}


def test_a_notebook_of_another_world_says_so() -> None:
    found = one(("import os", "%ls\nos.getcwd()"), 3, 2)
    assert found.remark.startswith("no rule looks at this file")
    assert found.source == "os.getcwd()"
