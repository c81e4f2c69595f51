"""A program cut into cells has the findings and the fixes that it has in one file."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from tests.checking import every_code, job
from torchlint.engine.analyse import analyse
from torchlint.engine.job import Job
from torchlint.source.document import Document
from torchlint.source.notebook import Cell, Notebook, assembled

RULES = Path(__file__).parents[2] / "fixtures" / "rules"
FILES = sorted(RULES.glob("*/*.py"))


def cut(source: str, seed: str) -> list[str]:
    """Return the source in cells that start where statements at top level do, with the newline
    between them gone.

    None ends with an import below an expression: a cell would show the expression without it.
    """
    body = ast.parse(source).body
    chance = random.Random(seed)
    starts = [
        min(each.lineno for each in (*getattr(one, "decorator_list", ()), one)) for one in body
    ]
    rows = [
        start
        for before, above, start in zip([None, *body], body, starts[1:], strict=False)
        if start > (above.end_lineno or 0)
        and not (isinstance(before, ast.Expr) and isinstance(above, ast.Import))
    ]
    ends = [row - 1 for row in rows if chance.random() < 0.4]
    lines = source.split("\n")
    return ["\n".join(lines[a:b]) for a, b in zip([0, *ends], [*ends, len(lines)], strict=True)]


def in_cells(notebook: Notebook, fix: str) -> Job:
    document = Document("train.py", "", notebook.text, "utf-8", False, b"", notebook)
    return Job(document, "train.py", every_code(), fix=fix)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_cells_say_what_the_file_says(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    cells = cut(source, path.name)
    first = [sum(len(cell.split("\n")) for cell in cells[:at]) for at in range(len(cells))]
    notebook = assembled(Cell(number, cell) for number, cell in enumerate(cells))
    found = {
        (each.code, first[each.cell or 0] + each.start.row, each.start.column, each.message)
        for each in analyse(in_cells(notebook, "")).findings
    }
    due = analyse(job(source, codes=every_code())).findings
    assert found == {(each.code, each.start.row, each.start.column, each.message) for each in due}
    changed = {number: after for number, _, after in analyse(in_cells(notebook, "unsafe")).cells}
    fixed = "\n".join(changed.get(number, cell) for number, cell in enumerate(cells))
    assert fixed == (analyse(job(source, codes=every_code(), fix="unsafe")).after or source)


def test_an_import_without_a_use_stays_where_the_cell_would_show_something_else() -> None:
    cells = [
        "h()\nimport gc",
        "import torch\nfrom torch import nn\n\nmodel = nn.Linear(2, 2).cuda()",
        "for x in [torch.ones(2, device='cuda')] * 9:\n"
        "    model(x).sum().backward()\n"
        "    gc.collect()",
    ]
    notebook = assembled(Cell(number, cell) for number, cell in enumerate(cells))
    changed = {number: after for number, _, after in analyse(in_cells(notebook, "unsafe")).cells}
    assert list(changed) == [2]
    assert "gc" not in changed[2]
