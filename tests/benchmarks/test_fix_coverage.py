"""The count of fixes tells what is applied from what is only shown, project by project."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fixes import CLASSES, class_of, projects, share, table

LOOP = """\
import torch
from torch import nn
from data import loader
model = nn.Linear(8, 3).cuda()
sgd = torch.optim.SGD(model.parameters())
total = 0.0
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sgd.step()
    noise = torch.zeros(3).cuda()
    torch.cuda.empty_cache()
    if noise.sum() > 0:
        report(noise)
"""


@pytest.mark.slow
def test_findings_are_counted_by_what_becomes_of_their_fix(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(LOOP)
    program = Path(__file__).parents[2] / "benchmarks" / "fixes.py"
    options = ["--show", "TL602", "--severity", "all"]
    command = [sys.executable, str(program), str(tmp_path), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()[1:]}
    counts = {
        code: [int(cell) for cell in cells[:5]] for code, cells in rows.items() if code[0] != "/"
    }
    assert all(row[4] == sum(row[:4]) for row in counts.values())
    assert counts["TL701"] == [0, 2, 0, 0, 2]
    assert counts["all"][4] == sum(row[4] for code, row in counts.items() if code != "all")
    assert done.stdout.count("train.py:13: ") == 2, "the two loops have no fix that is applied"


def test_a_class_is_that_of_the_fix() -> None:
    fixes = [{"applicability": each} for each in ("safe", "unsafe", "display")]
    found = [{"code": "TL101", "fix": fix} for fix in (*fixes, None)]
    assert tuple(map(class_of, found)) == CLASSES
    counts = table(found)["all"]
    assert share(counts, "safe", "unsafe") == 0.5
    assert json.dumps(counts) == json.dumps(dict.fromkeys(CLASSES, 1))


def test_a_folder_with_files_is_one_project(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    assert list(projects([tmp_path])) == [tmp_path / "package"]
    (tmp_path / "train.py").touch()
    assert list(projects([tmp_path])) == [tmp_path]


@pytest.mark.slow
def test_findings_at_lines_that_a_fix_wrote_are_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOOP)
    program = Path(__file__).parents[2] / "benchmarks" / "fixes.py"
    command = [sys.executable, str(program), str(tmp_path), "--again", "--severity", "all"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.endswith("findings at lines that a fix wrote: 0\n")
    assert (tmp_path / "train.py").read_text() == LOOP, "a copy is fixed"
