"""The lists of dependencies decide which torch fixes are for, whatever is named on the command
line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

OLD = """
import torch


def f(loss):
    scaler = torch.cuda.amp.GradScaler()
    scaler.scale(loss).backward()
"""


def found(cli: Cli, *arguments: str) -> list[Any]:
    words = ("check", "--select", "TL408", "--output-format", "json", *arguments)
    return list(json.loads(cli(*words, code=0).stdout))


def test_the_nearest_list_decides(ours: Cli) -> None:
    folder = ours.cwd
    for name in ("old", "new"):
        (folder / name).mkdir()
        (folder / name / "train.py").write_text(OLD)
    requirements = folder / "old" / "requirements.txt"
    requirements.write_text("torch>=1.8\n")
    (folder / "new" / "setup.py").write_text("setup(install_requires=['torch>=2.4'])\n")
    both = found(ours, ".")
    fixes = [
        (Path(finding["filename"]).parent.name, finding["fix"] is not None) for finding in both
    ]
    assert fixes == [("new", True)]  # an older torch has no other name
    assert found(ours, "old/train.py") == []
    assert found(ours, ".") == both
    requirements.write_text("torch>=2.6\n")
    assert all(finding["fix"] is not None for finding in found(ours, "."))
    shown = ours("check", "--show-settings", "old", code=0).stdout
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
    ours: Cli, code: str, needs: str
) -> None:
    folder = ours.cwd
    (folder / "train.py").write_text(code)
    fix = found(ours, ".")[0]["fix"]
    assert fix["applicability"] == "unsafe"
    assert fix["note"].startswith(f"It needs torch {needs} or newer, and nothing in the project")
    (folder / "requirements.txt").write_text("torch>=2.5\n")
    assert found(ours, ".")[0]["fix"]["applicability"] == "safe"
