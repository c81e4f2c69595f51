"""The census of silence gives each candidate the verdict that its code deserves."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.census import Counted, census
from torchlint.catalog.rules import load_catalog
from torchlint.run.projects import forget

CODES = frozenset(info.code for info in load_catalog().rules if info.default)
PROGRAM = """\
import torch
from somewhere import mystery


def drill(net, feed, sgd, notes):
    net.cuda()
    rows = []
    for step, words in enumerate(feed):
        loss = net(words.cuda(non_blocking=True)).mean()
        loss.backward()
        sgd.step()
        total = loss.item()  # flagged
        if step % 100 == 0:
            notes.append(loss.item())  # guarded
        width = int(len(rows))  # host
        other = mystery(step).item()  # unknown value
        rows.append((total, width, other))
    return rows


def nobody_calls(found):
    return found.mean().item()  # unknown heat


class Net(torch.nn.Module):
    def __init__(self, start):
        super().__init__()
        self.start = float(start.sum())  # cold
"""


def counted(tmp_path: Path, text: str, *, on_gpu: bool = True) -> list[Counted]:
    forget()
    path = tmp_path / "train.py"
    path.write_text(text, encoding="utf-8")
    return list(census(path, tmp_path, CODES, on_gpu=on_gpu))


@pytest.mark.parametrize(
    "verdict", ["flagged", "guarded", "host", "unknown value", "unknown heat", "cold"]
)
def test_a_read_gets_the_verdict_that_its_line_announces(tmp_path: Path, verdict: str) -> None:
    rows = {row for row, line in enumerate(PROGRAM.split("\n"), 1) if line.endswith(f"# {verdict}")}
    found = [each for each in counted(tmp_path, PROGRAM) if each.kind == "read"]
    assert len(rows) == 1
    assert {each.row for each in found if each.verdict == verdict} == rows


def test_a_project_that_speaks_of_no_gpu_is_on_the_host(tmp_path: Path) -> None:
    text = PROGRAM.replace("net.cuda()", "net.train()").replace(
        "cuda(non_blocking=True)", "float()"
    )
    found = counted(tmp_path, text, on_gpu=False)
    assert found
    assert {each.verdict for each in found} <= {"host", "flagged"}


def test_the_command_prints_a_table_and_draws_from_the_unknown(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM, encoding="utf-8")
    script = Path(__file__).parent.parent / "benchmarks" / "census.py"
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "--unknown", "9", "--kind", "read"],
        capture_output=True,
        text=True,
        check=True,
    )
    table = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert table["read"][1:-1] == ["1", "1", "1", "1", "0", "1", "0", "1"]
    assert table["read"][-1] == "66.7%"
    assert done.stdout.count("train.py:") == 2
