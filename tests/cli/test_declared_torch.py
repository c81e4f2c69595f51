"""The lists of dependencies decide which torch fixes are for, whatever is named on the command
line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OLD = """
import torch


def f(loss):
    scaler = torch.cuda.amp.GradScaler()
    scaler.scale(loss).backward()
"""


def said(folder: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "torchlint", "check", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def found(folder: Path, *arguments: str) -> list[Any]:
    return list(
        json.loads(said(folder, "--select", "TL408", "--output-format", "json", *arguments))
    )


def test_the_nearest_list_decides(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    for name in ("old", "new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.py").write_text(OLD)
    requirements = tmp_path / "old" / "requirements.txt"
    requirements.write_text("torch>=1.8\n")
    (tmp_path / "new" / "setup.py").write_text("setup(install_requires=['torch>=2.4'])\n")
    both = found(tmp_path, ".")
    fixes = [
        (Path(finding["filename"]).parent.name, finding["fix"] is not None) for finding in both
    ]
    assert fixes == [("new", True)]  # an older torch has no other name
    assert found(tmp_path, "old/train.py") == []
    assert found(tmp_path, ".") == both
    requirements.write_text("torch>=2.6\n")
    assert all(finding["fix"] is not None for finding in found(tmp_path, "."))
    shown = said(tmp_path, "--show-settings", "old")
    assert 'target-torch = "2.6"' in shown
    assert f'target-torch-from = "{requirements}"' in shown


@pytest.mark.parametrize(
    ("code", "needs"),
    [
        (OLD, "2.3"),
        ("import torch\n\nwith torch.cuda.amp.autocast():\n    print(1)\n", "1.12"),
    ],
)
def test_where_nothing_says_which_torch_the_fix_says_what_it_needs(
    tmp_path: Path, code: str, needs: str
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(code)
    fix = found(tmp_path, ".")[0]["fix"]
    assert fix["applicability"] == "unsafe"
    assert fix["note"].startswith(f"It needs torch {needs} or newer, and nothing in the project")
    (tmp_path / "requirements.txt").write_text("torch>=2.5\n")
    assert found(tmp_path, ".")[0]["fix"]["applicability"] == "safe"
