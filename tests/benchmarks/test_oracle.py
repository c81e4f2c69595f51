"""What torchlint says of a project is written down whole, and what differs afterwards is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import oracle

LOOP = """\
import torch
from torch import nn
from data import loader
model = nn.Linear(8, 3).cuda()
sgd = torch.optim.SGD(model.parameters())
for x, y in loader:
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    sgd.step()
    noise = torch.zeros(3).cuda()
"""


@pytest.mark.slow
def test_findings_edits_and_reasons_are_kept_and_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(LOOP)
    told = oracle.written(project, 4)
    assert [(each["code"], each["filename"]) for each in told["findings"]] == [
        ("TL102", "train.py")
    ], "without the folder it lies in"
    assert "+    noise = torch.zeros(3, device='cuda')" in told["patch"].replace('"', "'")
    assert len(told["explained"]) == 4
    assert "TL102 cpu-create-then-move: flagged" in told["explained"]["train.py:10"]
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, value in (before, told), (after, told):
        folder.mkdir()
        (folder / "project.json").write_text(json.dumps(value))
    assert oracle.compare(before, after) == 0
    assert capsys.readouterr().out == "0 of 1 projects differ\n"
    told["explained"]["train.py:10"] = "no reason"
    (after / "project.json").write_text(json.dumps(told))
    assert oracle.compare(before, after) == 1
    out = capsys.readouterr().out
    assert "+train.py:10 no reason\n" in out
    assert "-train.py:10   TL102 cpu-create-then-move: flagged\n" in out


def test_folders_of_other_projects_are_not_compared(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"not the same projects: \['one.json'\]"):
        oracle.compare(tmp_path, tmp_path / "none")
