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


def verdicts(found: list[Counted], kind: str) -> list[str]:
    return [each.verdict for each in found if each.kind == kind]


def test_callers_in_other_files_say_how_often_a_function_runs(tmp_path: Path) -> None:
    helper = "import torch\ndef ready(x):\n    return x.sum().item()\n"
    (tmp_path / "start.py").write_text(
        "import torch\nfrom train import ready\n\nready(torch.load('x'))\n", encoding="utf-8"
    )
    assert verdicts(counted(tmp_path, helper), "read") == ["cold"]
    (tmp_path / "start.py").unlink()
    assert verdicts(counted(tmp_path, helper), "read") == ["unknown heat"]


@pytest.mark.parametrize(
    ("loop", "verdict"),
    [
        ("for layer in self.layers:", "cold"),
        ("for scale in (1, 2, 4):", "cold"),
        ("for row in rows:", "unknown heat"),
    ],
)
def test_a_loop_over_parts_or_a_handful_runs_as_often_as_what_is_around(
    tmp_path: Path, loop: str, verdict: str
) -> None:
    text = f"""\
import torch
def main(self, rows):
    {loop}
        total = rows.mean().item()
"""
    assert verdicts(counted(tmp_path, text), "read") == [verdict]


def test_what_runs_in_a_constructor_is_cold_in_its_loops_too(tmp_path: Path) -> None:
    text = """\
import torch
class Rows:
    def __init__(self, rows):
        for row in rows:
            total = row.mean().item()
"""
    assert verdicts(counted(tmp_path, text), "read") == ["cold"]


def test_kernels_are_no_python(tmp_path: Path) -> None:
    text = """\
import torch
import triton
import triton.language as tl
@triton.jit
def add(x, y):
    z = tl.load(x).to(tl.float32)
"""
    assert counted(tmp_path, text) == []
    found = counted(tmp_path, text.replace("@triton.jit\n", ""))
    assert [each.kind for each in found] == ["upload"]


def test_a_comparison_that_gives_a_bool_asks_nothing_of_a_device(tmp_path: Path) -> None:
    text = "import torch\ndef step_batch(rows, other):\n    if rows {}:\n        return 1\n"
    assert verdicts(counted(tmp_path, text.format("== []")), "test") == ["host"]
    assert verdicts(counted(tmp_path, text.format("== other")), "test") != ["host"]


def test_a_project_that_speaks_of_no_gpu_is_on_the_host(tmp_path: Path) -> None:
    text = PROGRAM.replace("net.cuda()", "net.train()").replace(
        "cuda(non_blocking=True)", "float()"
    )
    found = counted(tmp_path, text, on_gpu=False)
    assert found
    assert {each.verdict for each in found} <= {"host", "flagged"}


@pytest.mark.slow
def test_the_command_prints_a_table_and_draws_from_the_unknown(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM, encoding="utf-8")
    script = Path(__file__).parents[2] / "benchmarks" / "census.py"
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
