"""A notebook computes the same after its safe fixes: its cells are run before and after, and
compared."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import re
import textwrap
from pathlib import Path
from types import FunctionType
from typing import Any

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

from tests.checking import every_code
from tests.patience import PATIENCE
from torchlint.base.finding import Safety
from torchlint.engine.analyse import analyse
from torchlint.engine.job import Job
from torchlint.source.document import Document, encode, loaded

FIXTURES = Path(__file__).parents[2] / "fixtures" / "notebooks"
CELLS = (
    "import asyncio\nimport torch\nfrom torch import nn\n\ntorch.manual_seed(0)",
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\n'
    "model = nn.Linear(3, 1).to(device)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    "batches = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(5)];",
    "losses = []\nfor x, y in batches:\n    noise = torch.zeros(8, 3).to(device)\n"
    "    loss = ((model(x.to(device) + noise) - y.to(device)) ** 2).mean()\n"
    "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    "
    "losses.append(loss.detach())",
    "await asyncio.sleep(0)\nweight = model.weight.detach().clone()",
    "def again():\n    for x, y in batches:\n        mask = torch.ones(8, 3).to(device)\n"
    "        loss = (model(x.to(device) * mask) - y.to(device)).pow(2).mean()\n"
    "        loss.backward()\n    return loss\n",
    "last = again()",
)


def fixed(document: Document) -> bytes:
    """Return the bytes of a notebook after its safe fixes."""
    report = analyse(Job(document, document.filename, every_code(), fix="safe"))
    assert report.applied
    assert report.notes == ()
    return encode(document, report.after)


def run(data: bytes) -> dict[str, Any]:
    """Run the code cells one by one, as a kernel does, and return the names they bind."""
    names: dict[str, Any] = {}
    for cell in json.loads(data)["cells"]:
        code = compile("".join(cell["source"]), "cell", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        running = FunctionType(code, names)()
        if inspect.iscoroutine(running):
            asyncio.run(running)
    return names


def test_names_across_cells_and_the_same_results() -> None:
    data = nbformat.writes(new_notebook(cells=[new_code_cell(source) for source in CELLS])).encode()
    after = fixed(loaded(data, "/p/n.ipynb", "n.ipynb", 0))
    assert after.decode().count("device=device") == 2
    old, new = run(data), run(after)
    assert torch.equal(torch.stack(old["losses"]), torch.stack(new["losses"]))
    assert torch.equal(old["weight"], new["weight"])
    assert torch.equal(old["last"], new["last"])


BEFORE = """import torch
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
SUM = """total = 0.0
for x, y in loader:
    loss = model(x.cuda()).sum()
    loss.backward()
    optimizer.step()
    total += loss.item()
print(total)"""


@pytest.mark.parametrize(
    ("text", "safe"),
    [(SUM, False), ("def main():\n" + textwrap.indent(SUM, "    ") + "\n\nmain()", True)],
    ids=["top-level", "function"],
)
def test_a_sum_is_kept_on_the_device_for_sure_only_in_a_function(text: str, safe: bool) -> None:
    """A cell that is interrupted leaves what stands at its top level to the next one."""
    data = nbformat.writes(new_notebook(cells=[new_code_cell(f"{BEFORE}\n{text}")])).encode()
    document = loaded(data, "/p/n.ipynb", "n.ipynb", 0)
    found = analyse(Job(document, document.filename, frozenset({"TL101"}))).findings
    assert [each.fix and each.fix.safety is Safety.SAFE for each in found] == [safe]


@pytest.mark.slow
def outputs(notebook: Any) -> list[Any]:
    """Return what the cells gave, with as many digits of numbers as all CPUs agree on."""
    text = json.dumps([cell.get("outputs") for cell in notebook.cells], sort_keys=True)
    found: list[Any] = json.loads(re.sub(r"\d+\.\d{5,}", lambda n: f"{float(n[0]):.5f}", text))
    return found


def test_a_kernel_gives_the_same_outputs() -> None:
    """The fixture holds what IPython's kernel gave before the fixes; magics, commands and await run
    here as well."""
    pytest.importorskip("ipykernel")
    executed = pytest.importorskip("nbconvert.preprocessors").ExecutePreprocessor(
        timeout=int(PATIENCE), startup_timeout=int(PATIENCE)
    )
    data = (FIXTURES / "training.ipynb").read_bytes()
    after = fixed(loaded(data, "/p/training.ipynb", "training.ipynb", 0))
    before, again = (
        nbformat.reads(data.decode(), as_version=4),
        nbformat.reads(after.decode(), as_version=4),
    )
    executed.preprocess(again, {})
    assert outputs(again) == outputs(before)
