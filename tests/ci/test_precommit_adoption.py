"""A baseline and ``--since`` under the real pre-commit, which names the staged files one by one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torchlint.cli.init import PRE_COMMIT

OLD = """import torch


def old(model, loader, n):
    for x in loader:
        mask = torch.ones(n).cuda()
        model(x, mask).sum().backward()
"""
NEW = OLD.replace("old", "new").replace("ones(n)", "zeros(n)").replace("import torch\n", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


def hook(folder: Path, cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run pre-commit on what is staged, as `git commit` would."""
    env = {**os.environ, "PRE_COMMIT_HOME": str(cache), "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "pre_commit", "run", "--verbose", *words]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a repository with an old finding in each of two files, and the hook that `torchlint
    init` shows."""
    pytest.importorskip("pre_commit")
    torchlint = Path(sys.executable).parent / "torchlint"
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    for name in ("old one.py", "\u00e9.py"):
        (folder / name).write_text(OLD, "utf-8")
    more = (
        "name: x\n        language: system\n        types: [python]\n        entry: "
        f"{torchlint} check --force-exclude"
    )
    head, _, _ = PRE_COMMIT.partition("  - repo")
    config = f"{head}  - repo: local\n    hooks:\n      - id: torchlint\n        {more}\n"
    (folder / ".pre-commit-config.yaml").write_text(config)
    return folder


def grown(project: Path) -> None:
    """Add a finding to one of the files, and stage it."""
    with (project / "\u00e9.py").open("a", encoding="utf-8") as file:
        file.write(NEW)
    git(project, "add", "-A")


def test_a_baseline(project: Path, tmp_path: Path) -> None:
    torchlint = Path(sys.executable).parent / "torchlint"
    git(project, "add", "-A")
    assert hook(project, tmp_path / "cache").returncode == 1
    (project / "torchlint.toml").write_text(
        'baseline = "torchlint-baseline.json"\noutput-format = "concise"\n'
    )
    subprocess.run(
        [torchlint, "check", "--write-baseline"], cwd=project, check=True, capture_output=True
    )
    before = (project / "torchlint-baseline.json").read_bytes()
    git(project, "add", "-A")
    done = hook(project, tmp_path / "cache")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 findings held back" in done.stdout
    git(project, "commit", "-qm", "x")
    grown(project)
    done = hook(project, tmp_path / "cache")
    assert done.returncode == 1
    assert "\u00e9.py:12:16: TL102" in done.stdout
    assert "1 finding held back" in done.stdout
    assert "fixed or gone" not in done.stdout
    assert (project / "torchlint-baseline.json").read_bytes() == before


def test_changed_lines(project: Path, tmp_path: Path) -> None:
    config = project / ".pre-commit-config.yaml"
    config.write_text(config.read_text().rstrip() + " --since HEAD --output-format concise\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "x")
    done = hook(project, tmp_path / "cache", "--all-files")
    assert done.returncode == 0, done.stdout + done.stderr
    grown(project)
    done = hook(project, tmp_path / "cache")
    assert done.returncode == 1
    found = [line for line in done.stdout.splitlines() if ": TL" in line]
    assert [line.partition(": TL")[0] for line in found] == ["\u00e9.py:12:16"]
