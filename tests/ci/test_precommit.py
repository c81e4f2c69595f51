"""The hooks, run by the real pre-commit in a real git repository, installed from this checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BAD = """import torch


def train(model, loader, optimizer, criterion):
    total = 0.0
    device = torch.device("cuda")
    for x, y in loader:
        noise = torch.zeros(8, 3).to(device)
        loss = criterion(model(x.to(device) + noise), y.to(device))
        loss.backward()
        optimizer.step()
    return total
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


def git(folder: Path, *args: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *args], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def hook_repository(tmp_path: Path) -> Path:
    """Return a git repository that holds this checkout's package and hooks."""
    repository = tmp_path / "hooks"
    repository.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".pre-commit-hooks.yaml"):
        shutil.copy(ROOT / name, repository / name)
    shutil.copytree(
        ROOT / "torchlint", repository / "torchlint", ignore=shutil.ignore_patterns("__pycache__")
    )
    git(repository, "init", "-q")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "hooks")
    return repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a git repository with one slow training script, the same as a notebook, and a file
    that is not Python."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(BAD, encoding="utf-8")
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": BAD.splitlines(True),
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    (folder / "train.ipynb").write_text(json.dumps(notebook, indent=1), encoding="utf-8")
    (folder / "notes.txt").write_text("torch.zeros(8).to(device)\n", encoding="utf-8")
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    return folder


def test_check_blocks_and_fix_repairs(project: Path, hook_repository: Path, tmp_path: Path) -> None:
    """Both hooks in one run, as each run of ``try-repo`` installs anew."""
    pytest.importorskip("pre_commit")
    words = ("try-repo", str(hook_repository), "--all-files", "--verbose")
    env = {
        **os.environ,
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
        "PYTHONWARNINGS": "default",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pre_commit", *words],
        cwd=project,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    checked, fix, fixed = done.stdout.partition("- hook id: torchlint-fix")
    assert fix, done.stdout
    assert "train.py" in checked
    assert "TL102" in checked
    assert all(words in checked for words in ("train.ipynb", "cell 1", "8:17"))
    assert "notes.txt" not in checked
    assert "- exit code: 1" in checked
    assert "files were modified" not in checked

    assert "files were modified by this hook" in fixed, "pre-commit fails a hook that does so"
    for name in ("train.py", "train.ipynb"):
        assert "torch.zeros(8, 3, device=device)" in (project / name).read_text(encoding="utf-8")


def test_the_samples_of_the_documentation_run(
    project: Path, hook_repository: Path, tmp_path: Path
) -> None:
    """The installed torchlint as a local hook, and a commit of a clone, as the page on CI says."""
    pytest.importorskip("pre_commit")
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    local, clone = re.findall(r"```yaml\n(repos:.*?)```", page, re.DOTALL)
    head = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(head, cwd=hook_repository, check=True, capture_output=True, text=True)
    clone = clone.replace("/path/to/torchlint", str(hook_repository))
    program = tmp_path / "bin" / "torchlint"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m torchlint "$@"\n')
    program.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "PRE_COMMIT_HOME": str(tmp_path / "cache"),
    }
    for sample in (local, clone.replace("0" * 40, commit.stdout.strip())):
        (project / ".pre-commit-config.yaml").write_text(sample, encoding="utf-8")
        git(project, "add", "-A")
        command = [sys.executable, "-m", "pre_commit", "run", "--all-files"]
        ran = subprocess.run(
            command, cwd=project, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == 1, ran.stdout + ran.stderr
        assert "TL102" in ran.stdout
        assert "train.ipynb" in ran.stdout
