"""``--since``: findings on lines that changed in a real git repository, and on no others."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "x")


@pytest.fixture
def repo(cli: Cli, source: Source) -> Cli:
    """Return a repository with one commit: a.py and b.py with old findings."""
    (cli.cwd / ".git").rmdir()
    git(cli.cwd, "init", "-q", "-b", "main")
    cli.write("torchlint.toml", 'output-format = "concise"\n')
    cli.write(".gitignore", ".torchlint_cache/\nignored.py\n")
    cli.write("a.py", source("slow", "odd"))
    cli.write("b.py", source("slow"))
    commit(cli.cwd)
    return cli


def found(cli: Cli, *arguments: str, revision: str = "HEAD", code: int | None = None) -> list[str]:
    """Return the places of the findings."""
    done = cli("check", "--since", revision, *arguments, code=code)
    return [line.partition(": TL")[0] for line in done.stdout.splitlines() if ": TL" in line]


def test_nothing_changed(repo: Cli) -> None:
    done = repo("check", "--since", "HEAD", code=0)
    assert done.stderr == "torchlint: no Python file has changed\n"
    assert done.stdout == "No files were checked.\n"


def test_changed_lines_only(repo: Cli, source: Source) -> None:
    repo.write("a.py", source("slow", "odd", "slow"))
    assert found(repo, code=1) == ["a.py:4:1"]
    repo.write("a.py", "import torch\nx = 1\ntorch.slow()\ntorch.odd()\n")
    assert found(repo, code=0) == []
    commit(repo.cwd)
    assert found(repo, revision="HEAD~1", code=0) == []
    repo.write("a.py", "import torch\nx = 1\ntorch.slow(1)\ntorch.odd()\n")
    assert found(repo, revision="HEAD~1", code=1) == ["a.py:3:1"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_any_row_of_the_statement_counts(repo: Cli, end: str) -> None:
    lines = ["import torch", "torch.slow(", "    1,", "    2,", ")", "torch.odd(", ")", ""]
    repo.write("a.py", end.join(lines))
    commit(repo.cwd)
    repo.write("a.py", end.join([*lines[:3], "    3,", *lines[4:]]))
    assert found(repo) == ["a.py:2:1"]
    repo.write("a.py", end.join([*lines[:2], *lines[3:]]))
    assert found(repo) == ["a.py:2:1"], "a row was taken out of it"
    repo.write("a.py", end.join([lines[0], "", *lines[1:]]))
    assert found(repo) == []


def test_a_row_taken_out_before_or_behind_a_statement_does_not_count(
    repo: Cli, source: Source
) -> None:
    repo.write("a.py", "import torch\nx = 1\ntorch.slow()\ny = 1\n")
    commit(repo.cwd)
    repo.write("a.py", "import torch\ntorch.slow()\n")
    assert found(repo) == []


def test_new_files_are_changed_as_a_whole(repo: Cli, source: Source) -> None:
    names = ["n w.py", "\u00e9\u4e2d.py", 'q"uo\\te.py', "t\tab.py", "sub/x.py"]
    for name in names:
        repo.write(name, source("slow"))
    repo.write("staged.py", source("slow"))
    git(repo.cwd, "add", "staged.py")
    repo.write("intended.py", source("slow"))
    git(repo.cwd, "add", "-N", "intended.py")
    assert len(found(repo)) == len(names) + 2
    commit(repo.cwd)
    for name in names:
        repo.write(name, source("slow", "odd"))
    places = found(repo)
    assert len(places) == len(names)
    assert all(place.endswith(":3:1") for place in places)


def test_a_submodule_is_compared_with_the_commit_that_the_revision_names(
    repo: Cli, source: Source, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q", "-b", "trunk")
    (other / "s.py").write_text(source("slow"))
    commit(other)
    git(repo.cwd, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(other), "sub")
    assert found(repo, revision="main") == ["sub/s.py:2:1"], "the submodule is new"
    commit(repo.cwd)
    assert found(repo, revision="main", code=0) == []
    repo.write("sub/s.py", source("slow", "odd"))
    assert found(repo, revision="main", code=1) == ["sub/s.py:3:1"]
    commit(repo.cwd / "sub")
    assert found(repo, revision="main", code=1) == ["sub/s.py:3:1"]
    commit(repo.cwd)
    assert found(repo, revision="main", code=0) == []
    assert found(repo, revision="main~1", code=1) == ["sub/s.py:3:1"]
    assert found(repo, "sub", revision="trunk~1", code=1) == ["sub/s.py:3:1"]
    (repo.cwd / "clone").mkdir()
    git(repo.cwd / "clone", "init", "-q", "-b", "main")
    repo.write("clone/c.py", source("slow"))
    commit(repo.cwd / "clone")
    assert found(repo, revision="main", code=0) == [], "a repository that is no submodule"


def test_an_ignored_file_that_is_named_is_new(repo: Cli, source: Source) -> None:
    repo.write("ignored.py", source("slow"))
    assert found(repo, ".") == []
    assert found(repo, "ignored.py") == ["ignored.py:2:1"]


def test_a_renamed_file_has_changed_where_it_changed(repo: Cli, source: Source) -> None:
    repo.write("long.py", source("slow", "odd") + "x = 1\n" * 50)
    commit(repo.cwd)
    git(repo.cwd, "mv", "long.py", "other.py")
    assert found(repo) == []
    repo.write("other.py", source("slow", "odd", "slow") + "x = 1\n" * 50)
    git(repo.cwd, "add", "-A")
    assert found(repo) == ["other.py:4:1"]


def test_lines_that_look_like_a_patch(repo: Cli, source: Source) -> None:
    text = "x = '''\n++ b/b.py\n@@ -1 +1 @@\n-- a\ndiff --git a/b.py b/b.py\n'''\n"
    repo.write("a.py", text + source("slow", "slow"))
    assert found(repo) == ["a.py:9:1"]
    repo.write("a.py", source("slow"))
    commit(repo.cwd)
    repo.write("a.py", source("slow") + text)
    assert found(repo) == []


def test_a_file_without_a_final_newline(repo: Cli, source: Source) -> None:
    repo.write("a.py", source("slow", "odd").rstrip())
    assert found(repo) == ["a.py:3:1"]
    commit(repo.cwd)
    repo.write("a.py", "import torch\ntorch.slow(1)\ntorch.odd()")
    assert found(repo) == ["a.py:2:1"]


def test_lines_that_git_does_not_know_count_all(repo: Cli, source: Source) -> None:
    repo.write("a.py", source("slow", "odd").replace("\n", "\r"))
    assert found(repo) == ["a.py:2:1", "a.py:3:1"]


def test_broken_files_are_reported_if_they_changed(repo: Cli) -> None:
    repo.write("a.py", "x = 1\ny = (\n")
    commit(repo.cwd)
    assert found(repo, code=0) == []
    repo.write("a.py", "x = 2\ny = (\n")
    assert "a.py:2:5: invalid-syntax" in repo("check", "--since", "HEAD", code=1).stdout


def test_an_unresolved_merge_counts_all(repo: Cli, source: Source) -> None:
    git(repo.cwd, "checkout", "-qb", "other")
    repo.write("a.py", source("slow", "slow"))
    commit(repo.cwd)
    git(repo.cwd, "checkout", "-q", "main")
    repo.write("a.py", source("slow"))
    commit(repo.cwd)
    with pytest.raises(subprocess.CalledProcessError):
        git(repo.cwd, "merge", "other")
    assert "a.py:3:1: invalid-syntax" in repo("check", "--since", "HEAD", code=1).stdout


def test_since_a_branch_was_left(repo: Cli, source: Source) -> None:
    git(repo.cwd, "checkout", "-qb", "topic")
    repo.write("a.py", source("slow", "odd", "slow"))
    commit(repo.cwd)
    git(repo.cwd, "checkout", "-q", "main")
    repo.write("b.py", source("fine"))
    commit(repo.cwd)
    git(repo.cwd, "checkout", "-q", "topic")
    assert found(repo, revision="main") == ["a.py:4:1", "b.py:2:1"]
    assert found(repo, revision="main...") == ["a.py:4:1"]


def test_from_a_folder_below_and_from_above(repo: Cli, source: Source) -> None:
    repo.write("sub/c.py", source("slow"))
    commit(repo.cwd)
    repo.write("sub/c.py", source("slow", "odd"))
    repo.write("a.py", source("slow", "odd", "odd"))
    top = repo.cwd
    repo.cwd = top / "sub"
    assert found(repo) == ["c.py:3:1"]
    assert found(repo, "..") == ["../a.py:4:1", "../sub/c.py:3:1"]
    repo.cwd = top.parent
    assert found(repo, "project") == ["project/a.py:4:1", "project/sub/c.py:3:1"]


def test_a_worktree_and_the_variables_of_a_hook(repo: Cli, source: Source, tmp_path: Path) -> None:
    git(repo.cwd, "worktree", "add", "-q", str(tmp_path / "tree"))
    repo.environment |= {
        "GIT_DIR": str(repo.cwd / ".git"),
        "GIT_INDEX_FILE": str(repo.cwd / ".git" / "index"),
    }
    repo.cwd = tmp_path / "tree"
    repo.write("a.py", source("slow", "odd", "odd"))
    assert found(repo) == ["a.py:4:1"]


def test_with_a_baseline(repo: Cli, source: Source) -> None:
    repo("check", "--baseline", "base.json", "--write-baseline", code=0)
    repo.write("a.py", source("odd", "slow", "odd"))
    done = repo("check", "--since", "HEAD", "--baseline", "base.json", code=1)
    assert done.stdout.startswith("a.py:2:1: TL102")
    assert "2 findings held back by the baseline." in done.stdout
    assert "fixed or gone" not in done.stdout


def test_the_second_run_looks_again(repo: Cli, source: Source) -> None:
    repo.environment["CI"] = ""
    for path in repo.cwd.glob("*.py"):
        os.utime(path, (1e9, 1e9))
    repo.write("a.py", source("slow", "odd", "odd"))
    os.utime(repo.cwd / "a.py", (1e9, 1e9))
    assert found(repo) == found(repo) == ["a.py:4:1"]
    commit(repo.cwd)
    assert found(repo) == []


@pytest.mark.parametrize(
    ("revision", "words"),
    [
        ("nope", "--since nope: no such revision in "),
        ("--output=x", "--since '--output=x': not the name of a revision"),
        ("", "--since '': not the name of a revision"),
        ("...--output=x", "not the name of a revision"),
        ("HEAD..main", "no such revision"),
        ("HEAD:a.py", "no such revision"),
        ("HEAD; touch x", "no such revision"),
        ("$(touch x)", "no such revision"),
        ("a\nb", "no such revision"),
        ("\x1b[31m", "--since \\x1b[31m: no such revision"),
    ],
)
def test_revisions_that_are_none(repo: Cli, revision: str, words: str) -> None:
    done = repo("check", f"--since={revision}", code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (repo.cwd / "x").exists()


def test_no_repository_and_no_git(repo: Cli, source: Source, tmp_path: Path) -> None:
    repo.environment["PATH"] = str(tmp_path)
    assert (
        "--since HEAD needs git, which is not installed"
        in repo("check", "--since", "HEAD", code=2).stderr
    )
    del repo.environment["PATH"]
    repo.cwd = tmp_path / "plain"
    repo.write("a.py", source("slow"))
    done = repo("check", "--since", "HEAD", code=2)
    assert "plain is in no git repository" in done.stderr
    (repo.cwd / ".git").mkdir()
    assert "not a git repository" in repo("check", "--since", "HEAD", code=2).stderr


def test_a_repository_without_commits_and_a_shallow_one(
    repo: Cli, source: Source, tmp_path: Path
) -> None:
    repo.write("a.py", source("slow", "odd", "odd"))
    commit(repo.cwd)
    git(tmp_path, "clone", "-q", "--depth=1", repo.cwd.as_uri(), "shallow")
    repo.cwd = tmp_path / "shallow"
    assert "it is a shallow clone" in repo("check", "--since", "HEAD~1", code=2).stderr
    repo.cwd = tmp_path / "empty"
    repo.cwd.mkdir()
    git(repo.cwd, "init", "-q")
    assert "no such revision" in repo("check", "--since", "HEAD", code=2).stderr


def test_programs_that_a_repository_names_are_not_run(repo: Cli, source: Source) -> None:
    """The configuration of a repository and its attributes may come from a stranger, say in an
    archive."""
    marker = repo.cwd / "marker"
    program = repo.write("program", f"#!/bin/sh\ntouch '{marker}'\ncat\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for name in (
        "core.fsmonitor",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.e.vil.process",
        "core.pager",
        "pager.diff",
        "core.editor",
        "core.sshCommand",
    ):
        git(repo.cwd, "config", name, str(program))
    git(repo.cwd, "config", "filter.evil.required", "true")
    git(repo.cwd, "config", "core.hooksPath", str(repo.cwd))
    for hook in ("post-index-change", "fsmonitor-watchman", "query-watchman"):
        shutil.copy(program, repo.cwd / hook)
    repo.write(".gitattributes", "a.py diff=evil filter=evil\nb.py filter=e.vil -diff\n")
    repo.environment["GIT_EXTERNAL_DIFF"] = str(program)
    repo.write("a.py", source("slow", "odd", "odd"))
    repo.write("b.py", source("slow", "odd"))
    os.utime(repo.cwd / "torchlint.toml", (1e9, 1e9))
    assert found(repo) == ["a.py:4:1", "b.py:3:1"]
    git(repo.cwd, "config", "filter.e=vil.clean", str(program))
    assert "which cannot be switched off" in repo("check", "--since", "HEAD", code=2).stderr
    assert not marker.exists()


def notebook(*rows: str) -> str:
    """Return a notebook with an import and a cell of these rows, one row of the file each."""
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for source in (["import torch"], [f"{row}\n" for row in rows])
    ]
    return (
        json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}, indent=1)
        + "\n"
    )


def test_changed_lines_of_a_notebook(repo: Cli) -> None:
    repo.write("n.ipynb", notebook("torch.slow()", "torch.odd(", "    1,", ")", "torch.slow(2)"))
    commit(repo.cwd)
    assert found(repo, code=0) == []
    repo.write("n.ipynb", notebook("torch.slow()", "torch.odd(", "    2,", ")", "torch.slow(2)"))
    assert found(repo, code=1) == ["n.ipynb:cell 2:2:1"], "any row of the statement counts"
    repo.write(
        "n.ipynb", notebook("x = 1", "torch.slow()", "torch.odd(", "    1,", ")", "torch.slow(3)")
    )
    assert found(repo, code=1) == ["n.ipynb:cell 2:6:1"]
    text = notebook("torch.slow()", "torch.odd(", "    1,", ")", "torch.slow(2)")
    repo.write("n.ipynb", text.replace('"execution_count": null', '"execution_count": 7'))
    assert found(repo, code=0) == [], "only the counts of runs have changed"
    repo.write("new.ipynb", text)
    assert found(repo, code=1) == [f"new.ipynb:cell 2:{row}:1" for row in (1, 2, 5)]


def test_suppressed_findings_on_other_lines_are_left_out_too(repo: Cli, source: Source) -> None:
    repo.write("a.py", source("slow", "odd").replace("slow()", "slow()  # noqa"))
    commit(repo.cwd)
    repo.write("a.py", (repo.cwd / "a.py").read_text() + "torch.odd()  # noqa\n")
    arguments = ("--since", "HEAD", "--report-suppressed", "--output-format", "sarif:out.sarif")
    repo("check", *arguments, code=0)
    results = json.loads((repo.cwd / "out.sarif").read_text())["runs"][0]["results"]
    assert [one["locations"][0]["physicalLocation"]["region"]["startLine"] for one in results] == [
        4
    ]
