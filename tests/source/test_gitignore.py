"""Which files git ignores: git itself is asked."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from torchlint.source.discover import DiscoverOptions, SkipKind, discover
from torchlint.source.gitignore import IgnoreFile, reason_to_ignore
from torchlint.source.globs import GlobList

PATHS = """
a.py b.py gen/a.py gen/keep.py gen/sub/a.py build/x.py src/build/x.py src/a.py src/b.py src/gen/a.py
src/deep/er/a.py src/deep/er/test_a.py data/x.py data/y/x.py data/y/keep.py [x].py #a.py !b.py s/p_1.py s/p_22.py
foo/bar/baz.py foo/baz.py x/foo/bar/q.py é.py
""".split()  # noqa: E501


def git(directory: Path, *arguments: str, stdin: str = "") -> str:
    env = {
        "PATH": os.environ["PATH"],
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": "/",
    }
    command = ["git", "-c", "core.quotePath=false", *arguments]
    done = subprocess.run(
        command,
        cwd=directory,
        env=env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def tree(directory: Path, paths: list[str]) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("x = 1\n")


def found(directory: Path, *, exclude: tuple[str, ...] = (".git",)) -> list[str]:
    discovery = discover([str(directory)], DiscoverOptions(str(directory), exclude=exclude))
    return [os.path.relpath(file.filename, directory) for file in discovery.files]


@pytest.mark.parametrize(
    "ignores",
    [
        {"": "gen/"},
        {"": "gen"},
        {"": "/gen/*\n!/gen/keep.py"},
        {"": "gen/\n!gen/keep.py"},
        {"": "*\n!*/\n!*.py"},
        {"": "*.py\n!a.py"},
        {"": "src/**/a.py"},
        {"": "**/foo/bar"},
        {"": "foo/**"},
        {"": "foo/*"},
        {"": "/build\n"},
        {"": "data/*\n!data/y\ndata/y/*\n!data/y/keep.py"},
        {"": "\\#a.py\n\\!b.py\n\\[x\\].py\n# a.py"},
        {"": "[[]x].py\ns/p_[0-9].py"},
        {"": "p_??.py   \r\nb.py\r\n"},
        {"": "\ufeffa.py\nb.py"},
        {"": "é.py\n?.py"},
        {"": "[a-\nx\\\n/\n!\na//b"},
        {"": "*.py", "src": "!a.py", "src/deep": "*\n!*/"},
        {"": "!src/a.py", "src": "/a.py\ndeep/"},
        {"src": "gen", "gen": "sub/\nkeep.py"},
        {"": "src/*\n!src/gen", "src/gen": "!a.py"},
        {"": "**"},
        {"": "**/"},
        {"": "foo**z.py\ns/p**.py"},
        {"": "[[:alpha:]].py\n[^[:alpha:]]*.py"},
        {"": "/src/\n/foo//bar\n./a.py"},
    ],
    ids=lambda ignores: repr(ignores)[:60],
)
def test_agrees_with_git(tmp_path: Path, ignores: dict[str, str]) -> None:
    git(tmp_path, "init", "-q")
    tree(tmp_path, PATHS)
    for directory, text in ignores.items():
        (tmp_path / directory / ".gitignore").write_bytes(text.encode())
    ignored = set(
        git(tmp_path, "check-ignore", "--stdin", "-z", stdin="\0".join(PATHS)).split("\0")
    )
    assert found(tmp_path) == sorted(path for path in PATHS if path not in ignored)


def test_info_exclude_counts_least(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    tree(tmp_path, ["a.py", "b.py"])
    (tmp_path / ".git/info").mkdir(exist_ok=True)
    (tmp_path / ".git/info/exclude").write_text("*.py\n")
    (tmp_path / ".gitignore").write_text("!b.py\n")
    assert found(tmp_path) == ["b.py"]


def test_walking_a_subdirectory_reads_the_files_above(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    tree(tmp_path, ["src/a.py", "src/b.py"])
    (tmp_path / ".gitignore").write_text("/src/a.py\n")
    assert found(tmp_path / "src") == ["b.py"]


def test_a_nested_repository_does_not_obey_the_outer_one(tmp_path: Path) -> None:
    tree(tmp_path, ["a.py", "inner/a.py", "inner/b.py"])
    git(tmp_path, "init", "-q")
    git(tmp_path / "inner", "init", "-q")
    (tmp_path / ".gitignore").write_text("a.py\n")
    (tmp_path / "inner/.gitignore").write_text("b.py\n")
    assert found(tmp_path) == ["inner/a.py"]
    assert found(tmp_path / "inner") == ["a.py"]
    (tmp_path / "inner/.gitignore").unlink()
    assert found(tmp_path) == ["inner/a.py", "inner/b.py"]


def test_an_ignore_file_in_the_file_systems_root() -> None:
    chain = (IgnoreFile("/", "/.gitignore", GlobList.parse(["/tmp/a.py"])),)
    assert reason_to_ignore(chain, "/tmp/a.py", False) == "ignored by '/tmp/a.py' in /.gitignore"


def test_without_git_the_project_root_is_the_top(tmp_path: Path) -> None:
    tree(tmp_path, ["p/a.py", "p/src/a.py", "p/src/b.py"])
    (tmp_path / ".gitignore").write_text("b.py\n")
    (tmp_path / "p/.gitignore").write_text("/src/a.py\n")
    options = DiscoverOptions(str(tmp_path / "p"))
    discovery = discover([str(tmp_path / "p/src")], options)
    assert [os.path.basename(file.path) for file in discovery.files] == ["b.py"]


def test_can_be_switched_off(tmp_path: Path) -> None:
    tree(tmp_path, ["a.py"])
    (tmp_path / ".gitignore").write_text("a.py\n")
    options = DiscoverOptions(str(tmp_path), respect_gitignore=False)
    assert len(discover([str(tmp_path)], options).files) == 1


@pytest.mark.cpu(60)
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("x\n" * 500_001, "larger than 1000000 bytes"),
        ("[a-\\]]\n", "the pattern '[a-\\]]' is not used: a range in brackets runs backwards"),
        ("[\n" * 50, "47 more patterns are not used"),
    ],
)
def test_unusable_ignore_files_are_noted(tmp_path: Path, text: str, word: str) -> None:
    tree(tmp_path, ["a.py", "b/c.py"])
    (tmp_path / ".gitignore").write_text(text)
    discovery = discover([str(tmp_path)], DiscoverOptions(str(tmp_path)))
    assert len(discovery.files) == 2
    assert {skip.kind for skip in discovery.skipped} == {SkipKind.NOTE}
    assert any(word in skip.reason for skip in discovery.skipped)
    assert len(discovery.skipped) <= 4


@pytest.mark.cpu(20)
def test_an_ignore_file_is_never_waited_for(tmp_path: Path) -> None:
    tree(tmp_path, ["a.py", "b/b.py", "c/c.py"])
    os.mkfifo(tmp_path / ".gitignore")
    (tmp_path / "b/.gitignore").symlink_to("../a.py")
    (tmp_path / "c/.gitignore").write_text("*a" * 20 + "\n" + "**/a/" * 12 + "b\n")
    discovery = discover([str(tmp_path)], DiscoverOptions(str(tmp_path)))
    assert len(discovery.files) == 3
    assert [os.path.relpath(skip.filename, tmp_path) for skip in discovery.skipped] == [
        ".gitignore",
        "b/.gitignore",
    ]
    assert discovery.skipped[0].reason == "not used: is a FIFO, not a regular file"
