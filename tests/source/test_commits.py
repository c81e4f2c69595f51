"""Commits of fixes in a real git repository: all or none, of the fix and nothing else."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

from torchlint.base.errors import UsageError
from torchlint.source.commits import Commit, Committer
from torchlint.source.document import Document, read
from torchlint.source.git import GitError

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with one commit of a.py, sub/b.py and run.py, which is executable."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    root = tmp_path / "my Übung"
    (root / "sub").mkdir(parents=True)
    for name in ("a.py", "sub/b.py", "run.py"):
        (root / name).write_text("old = 1\n")
    (root / "run.py").chmod(0o755)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "T")
    git(root, "config", "user.email", "t@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


def document(root: Path, name: str) -> Document:
    return read(os.path.realpath(root / name), name, 0)


def committer(root: Path) -> Committer:
    return Committer(os.path.realpath(root), "--commit")


def commits(root: Path, **messages: str) -> list[Commit]:
    """Return commits that change the files named, one each."""
    names = {"a": "a.py", "b": "sub/b.py", "run": "run.py"}
    found = []
    for key, message in messages.items():
        held = document(root, names[key])
        found.append(Commit(message, {names[key]: (held, b"new = 1\n")}))
    return found


def write_all(made: list[Commit]) -> list[Document]:
    held = [pair for each in made for pair in each.files.values()]
    for each, data in held:
        Path(each.path).write_bytes(data)
    return [each for each, _ in held]


def test_each_is_a_commit_and_nothing_is_left_over(repo: Path) -> None:
    made = commits(repo, a="TL1: é", b="TL2: b", run="TL3: c")
    by = committer(repo)
    last = by.prepared(made)
    assert git(repo, "log", "--format=%s") == "start"
    by.publish(last, write_all(made), "torchlint verify")
    assert git(repo, "log", "--format=%s by %an") == (
        "TL3: c by T\nTL2: b by T\nTL1: é by T\nstart by T"
    )
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "diff", "--name-only", "HEAD~2", "HEAD~1") == "sub/b.py"
    assert git(repo, "ls-tree", "HEAD", "run.py").startswith("100755")
    assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"


def test_names_with_signs_of_patterns_are_names(repo: Path) -> None:
    for name in ("*.py", "a[1].py", "-x.py"):
        (repo / name).write_text("old = 1\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "odd")
    made = [
        Commit(name, {name: (document(repo, name), b"new = 1\n")})
        for name in ("*.py", "a[1].py", "-x.py")
    ]
    by = committer(repo)
    assert [by.refused(each) for commit in made for each, _ in commit.files.values()] == [""] * 3
    by.publish(by.prepared(made), write_all(made), "torchlint verify")
    assert git(repo, "log", "-3", "--format=%s", "--name-only").split() == [
        "-x.py", "-x.py", "a[1].py", "a[1].py", "*.py", "*.py",
    ]  # fmt: skip
    assert git(repo, "status", "--porcelain") == ""


def test_untracked_files_stay_where_they_are(repo: Path) -> None:
    (repo / "note.txt").write_text("mine")
    made = commits(repo, a="x")
    by = committer(repo)
    by.publish(by.prepared(made), write_all(made), "torchlint verify")
    assert git(repo, "status", "--porcelain") == "?? note.txt"


def test_line_ends_that_git_converts_stay_converted(repo: Path) -> None:
    (repo / ".gitattributes").write_text("*.py text eol=crlf\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "attributes")
    (repo / "a.py").write_bytes(b"old = 1\r\n")
    git(repo, "add", "a.py")
    held = document(repo, "a.py")
    by = committer(repo)
    assert by.refused(held) == ""
    made = [Commit("x", {"a.py": (held, b"new = 1\r\n")})]
    by.publish(by.prepared(made), write_all(made), "torchlint verify")
    assert git(repo, "cat-file", "-p", "HEAD:a.py") == "new = 1"
    assert git(repo, "status", "--porcelain") == ""


def test_no_hook_and_no_filter_of_the_repository_runs(repo: Path, tmp_path: Path) -> None:
    for name in ("pre-commit", "commit-msg", "post-commit", "reference-transaction"):
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran-{name}'\nexit 1\n")
        hook.chmod(0o755)
    git(repo, "config", "commit.gpgsign", "true")
    made = commits(repo, a="x")
    by = committer(repo)
    by.publish(by.prepared(made), write_all(made), "torchlint verify")
    assert git(repo, "log", "-1", "--format=%s") == "x"
    assert list(tmp_path.glob("ran-*")) == []


def _edit(repo: Path) -> None:
    (repo / "a.py").write_text("mine = 1\n")


def _stage(repo: Path) -> None:
    _edit(repo)
    git(repo, "add", "a.py")


def _remove(repo: Path) -> None:
    (repo / "a.py").unlink()


def _merge(repo: Path) -> None:
    (repo / ".git" / "MERGE_HEAD").write_text(git(repo, "rev-parse", "HEAD"))


def _rebase(repo: Path) -> None:
    (repo / ".git" / "rebase-merge").mkdir()


def _nameless(repo: Path) -> None:
    git(repo, "config", "--unset", "user.name")
    git(repo, "config", "--unset", "user.email")
    git(repo, "config", "user.useConfigOnly", "true")


def _unborn(repo: Path) -> None:
    git(repo, "checkout", "-q", "--orphan", "other")


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (_edit, "there are changes since the last commit (a.py); commit or stash them first"),
        (_stage, "there are changes since the last commit (a.py); commit or stash them first"),
        (_remove, "there are changes since the last commit (a.py); commit or stash them first"),
        (_merge, "a merge is under way; finish or abort it first"),
        (_rebase, "a rebase is under way; finish or abort it first"),
        (_nameless, "git does not know whose commit it is; set user.name and user.email"),
        (_unborn, "has no commit yet"),
    ],
)
def test_a_tree_that_is_not_ready_is_refused(repo: Path, spoil: object, reason: str) -> None:
    spoil(repo)  # type: ignore[operator]
    with pytest.raises(UsageError) as raised:
        committer(repo)
    assert str(raised.value).startswith("--commit: ")
    assert str(raised.value).endswith(reason)


def test_a_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is in no git repository"):
        committer(tmp_path)


def test_a_file_whose_fix_would_bring_more_than_itself_is_refused(repo: Path) -> None:
    by = committer(repo)
    assert by.refused(document(repo, "a.py")) == ""
    (repo / "new.py").write_text("old = 1\n")
    assert by.refused(document(repo, "new.py")) == (
        "is not known to git, so that its fix cannot be a commit"
    )
    git(repo, "update-index", "--assume-unchanged", "a.py")
    (repo / "a.py").write_text("mine = 1\n")
    assert committer(repo).refused(document(repo, "a.py")) == "differs from the last commit"
    inner = repo / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    (inner / "c.py").write_text("old = 1\n")
    assert by.refused(document(repo, "inner/c.py")).startswith("lies in another git repository")


def test_a_file_behind_a_filter_is_refused(repo: Path) -> None:
    (repo / ".gitattributes").write_text("a.py filter=secret\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "attributes")
    by = committer(repo)
    assert (
        by.refused(document(repo, "a.py")) == "goes through git's filter 'secret', which is not run"
    )
    assert by.refused(document(repo, "sub/b.py")) == ""


def test_a_branch_that_moved_meanwhile_is_left_alone(repo: Path) -> None:
    made = commits(repo, a="x")
    by = committer(repo)
    git(repo, "commit", "-q", "--allow-empty", "-m", "theirs")
    with pytest.raises(UsageError, match="the branch has moved meanwhile"):
        by.prepared(made)


def test_a_branch_that_moves_at_the_last_moment_leaves_no_trace(repo: Path) -> None:
    made = commits(repo, a="x")
    by = committer(repo)
    last = by.prepared(made)
    git(repo, "commit", "-q", "--allow-empty", "-m", "theirs")
    documents = write_all(made)
    with pytest.raises(GitError):
        by.publish(last, documents, "torchlint verify")
    (repo / "a.py").write_text("old = 1\n")
    assert git(repo, "log", "-1", "--format=%s") == "theirs"
    assert git(repo, "status", "--porcelain") == ""


def test_a_lock_of_another_git_is_no_half_commit(repo: Path) -> None:
    made = commits(repo, a="x")
    by = committer(repo)
    last = by.prepared(made)
    (repo / ".git" / "index.lock").touch()
    with pytest.raises(GitError):
        by.publish(last, write_all(made), "torchlint verify")
    assert git(repo, "log", "--format=%s") == "start"


def test_the_index_of_the_user_is_not_touched_before_all_is_made(repo: Path) -> None:
    before = (repo / ".git" / "index").read_bytes()
    committer(repo).prepared(commits(repo, a="x", b="y"))
    assert (repo / ".git" / "index").read_bytes() == before
    assert stat.S_ISREG((repo / ".git" / "index").stat().st_mode)
    assert git(repo, "status", "--porcelain") == ""
