"""Infos of a library are listed only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.base.finding import UNUSED_SUPPRESSION
from torchlint.cli.main import run

LAYER = """
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x)) + torch.zeros(8, 1, 1).cuda()
"""
TRAINS = """
from kit.layer import Head

model = Head()
for x in batches():
    model(x).sum().backward()
"""
GUARDED = """
def main():
    pass


if __name__ == "__main__":
    main()
"""
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    package = tmp_path / "kit"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "layer.py").write_text(LAYER)
    (tmp_path / "pyproject.toml").write_text("[tool.torchlint]\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


Said = Callable[..., str]


@pytest.fixture
def said(kit: Path, capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*arguments: str) -> str:
        run(["check", "--output-format", "concise", *arguments])
        return " ".join(capsys.readouterr().out.split())

    return said


def test_a_library_gets_warnings(kit: Path, said: Said) -> None:
    fresh = "--no-cache", "kit/layer.py"
    assert "TL102" in said(*fresh)
    assert "TL409" not in said(*fresh)
    assert "TL409" in said("--library-infos", *fresh)
    (kit / "pyproject.toml").write_text("[tool.torchlint]\nlibrary-infos = true\n")
    assert "TL409" in said(*fresh)


@pytest.mark.parametrize(
    ("path", "text", "library"),
    [
        ("kit/game.py", "from layer import Head\n" + GUARDED, False),
        ("kit/game.py", "from kit.layer import Head\n" + GUARDED, True),
        ("kit/game.py", "from layer import Head\n", True),
        ("train.py", TRAINS, False),
        ("kit/train.py", GUARDED, False),
        ("kit/run_epochs.py", GUARDED, False),
        ("kit/demo.py", GUARDED, True),
        ("kit/ppo.py", f"def fit(loss):\n    loss.backward()\n{GUARDED}", False),
        ("kit/ppo.py", "def fit(loss):\n    loss.backward()\n", True),
        ("kit/tests/test_kit.py", f"def test(loss):\n    loss.backward()\n{GUARDED}", True),
        ("kit/__main__.py", "from kit.layer import main\nmain()\n", False),
        ("notebooks/fit.ipynb", NOTEBOOK, False),
        ("kit/fit.ipynb", NOTEBOOK, False),
        ("docs/fit.ipynb", NOTEBOOK, True),
        ("kit/train.py", "def train():\n    pass\n", True),
        ("tests/test_kit.py", TRAINS, True),
        ("examples/train.py", TRAINS, True),
        ("constants.py", "WIDTH = 3\n", True),
        ("setup.py", "setup()\n", True),
    ],
)
def test_a_project_with_a_program_is_no_library(
    kit: Path, said: Said, path: str, text: str, library: bool
) -> None:
    file = kit / path
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert ("TL409" not in said("--no-cache", "kit/layer.py")) is library


def test_what_is_installed_is_a_library(kit: Path, said: Said) -> None:
    (kit / "kit" / "train.py").write_text(GUARDED)
    assert "TL409" in said("--no-cache", "kit/layer.py")
    (kit / "kit" / "__main__.py").write_text("import kit\n")
    (kit / "kit" / "fit.ipynb").write_text(NOTEBOOK)
    (kit / "kit-1.0.dist-info").mkdir()
    assert "TL409" not in said("--no-cache", "kit/layer.py")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[project]\nname = "kit"\n[tool.torchlint]\n'),
        ("setup.cfg", "[options]\npackages =\n  other\n  kit\n"),
        ("setup.py", 'setup(name="my-kit", packages=["kit.layers", "other"])\n'),
        ("kit-1.0.dist-info/METADATA", "Name: kit\n"),
    ],
)
def test_a_package_needs_no_init(kit: Path, said: Said, file: str, text: str) -> None:
    (kit / "kit" / "__init__.py").unlink()
    assert "TL409" in said("--no-cache", "kit/layer.py")
    (kit / file).parent.mkdir(exist_ok=True)
    (kit / file).write_text(text)
    assert "TL409" not in said("--no-cache", "kit/layer.py")


@pytest.mark.parametrize("folder", ["src/my_kit", "my_kit"])
def test_a_package_without_init_has_the_name_of_the_project(
    kit: Path, said: Said, folder: str
) -> None:
    (kit / "pyproject.toml").write_text(
        '[project]\nname = "my-kit"\n[tool.torchlint]\nexclude = ["old"]\n'
    )
    (kit / folder).mkdir(parents=True)
    (kit / "examples").mkdir()
    (kit / folder / "layer.py").write_text(LAYER)
    (kit / "examples" / "layer.py").write_text(LAYER)
    assert "TL409" not in said("--no-cache", f"{folder}/layer.py")
    assert "TL409" in said("--no-cache", "examples/layer.py")


def test_a_part_of_a_package_is_no_library(kit: Path, said: Said) -> None:
    (kit / "pyproject.toml").unlink()
    assert "TL409" in said("--no-cache", "kit/layer.py")


def test_a_comment_on_an_info_of_a_library_is_no_idle_one(kit: Path, said: Said) -> None:
    ignored = LAYER.replace("8, 3)", "8, 3)  # torchlint: ignore[TL409]")
    (kit / "kit" / "layer.py").write_text(ignored)
    assert UNUSED_SUPPRESSION not in said("--no-cache", "--select", "ALL", "kit")


def test_explain_says_why_an_info_is_not_listed(
    kit: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["check", "--no-cache", "--explain", "kit/layer.py:9"])
    words = " ".join(capsys.readouterr().out.split())
    assert "those of a library are only listed with library-infos" in words


def test_a_file_beside_decides_it_anew(kit: Path, said: Said) -> None:
    """A report of the cache rests on what the project holds."""
    assert "TL409" not in said("kit/layer.py")
    (kit / "train.py").write_text(TRAINS)
    assert "TL409" in said("kit/layer.py")
