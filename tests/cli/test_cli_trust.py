"""What a tree of strangers can ask for: nothing is written outside of it, and no unsafe fix is
applied, by its word."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]
pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs links and pipes")


@pytest.mark.parametrize("command", [("fix", "--apply"), ("check", "--fix")])
def test_a_configuration_cannot_have_unsafe_fixes_applied(
    cli: Cli, source: Source, command: tuple[str, ...]
) -> None:
    cli.write("a.py", source("slow", "odd"))
    cli.write("torchlint.toml", "unsafe-fixes = true\n")
    done = cli(*command, "a.py")
    assert "odd()" in (cli.cwd / "a.py").read_text(), done.stderr
    assert "slow()" not in (cli.cwd / "a.py").read_text()
    assert (
        done.stderr.count(
            "torchlint.toml:1: unsafe-fixes is ignored: only --unsafe-fixes in the command"
        )
        == 1
    )
    assert " unsafe." not in done.stdout + done.stderr
    done = cli(*command, "a.py", "--unsafe-fixes", code=0)
    assert "odd()" not in (cli.cwd / "a.py").read_text()
    assert "ignored" not in done.stderr
    assert "Fixed 1 finding in 1 file with 1 edit, 1 of them unsafe." in done.stdout + done.stderr


def test_a_file_that_the_user_names_may_allow_them(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd"))
    cli.write("mine.toml", "unsafe-fixes = true\n")
    done = cli("fix", "--apply", "--config", "mine.toml", "a.py", code=0)
    assert "Fixed 2 findings in 1 file with 2 edits, 1 of them unsafe." in done.stderr


@pytest.mark.parametrize("place", ["{tmp}/outside", "../outside", "link/outside", "~/outside"])
def test_a_configuration_cannot_have_a_cache_made_elsewhere(
    cli: Cli, source: Source, place: str, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    cli.environment["HOME"] = str(home)
    (cli.cwd / "link").symlink_to(home)
    cli.write("a.py", source("slow"))
    cli.write("torchlint.toml", f'cache-dir = "{place.format(tmp=tmp_path)}"\n')
    for _ in range(2):
        done = cli("check", "a.py", code=1)
        assert (
            "torchlint.toml:1: cache-dir is ignored: only --cache-dir in the command can allow"
            in done.stderr
        )
    assert (cli.cwd / ".torchlint_cache").is_dir()
    assert not list(tmp_path.rglob("outside*")) + list(home.iterdir())
    cli("clean", code=0)
    assert not (cli.cwd / ".torchlint_cache").exists()


def test_a_configuration_cannot_have_a_baseline_written_elsewhere(
    cli: Cli, source: Source, tmp_path: Path
) -> None:
    cli.write("a.py", source("slow"))
    cli.write("torchlint.toml", f'baseline = "{tmp_path}/outside.json"\n')
    done = cli("check", "--write-baseline", "a.py", code=2)
    assert "outside of the project; to write there, name it yourself with --baseline" in done.stderr
    assert not (tmp_path / "outside.json").exists()
    cli("check", "--write-baseline", "--baseline", f"{tmp_path}/outside.json", "a.py", code=0)
    cli("check", "a.py", code=0)


class Outside:
    """A file beside the project, with something to fix, and links to it from inside."""

    def __init__(self, cli: Cli, source: Source, folder: Path) -> None:
        self.folder = folder / "elsewhere"
        self.folder.mkdir()
        self.file = self.folder / "b.py"
        self.text = source("slow")
        self.file.write_text(self.text)
        cli.write("a.py", self.text)
        cli.write("torchlint.toml", "")
        (cli.cwd / "link.py").symlink_to(self.file)
        (cli.cwd / "folder").symlink_to(self.folder)

    @property
    def same(self) -> bool:
        return self.file.read_text() == self.text and len(list(self.folder.iterdir())) == 1


@pytest.fixture
def outside(cli: Cli, source: Source, tmp_path: Path) -> Outside:
    return Outside(cli, source, tmp_path)


@pytest.mark.parametrize("command", [("fix", "--apply"), ("check", "--fix")])
@pytest.mark.parametrize("paths", [(".",), ("a.py", "link.py"), ("a.py", "./link.py")])
def test_a_link_out_of_the_project_is_checked_and_not_fixed(
    cli: Cli, outside: Outside, command: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    done = cli(*command, *paths, code=1)
    said = f"is a link to {outside.file}, outside of what is fixed; name that file itself"
    assert said in done.stdout + done.stderr
    assert outside.same
    assert "slow()" not in (cli.cwd / "a.py").read_text()


@pytest.mark.parametrize(
    "command",
    [
        ("fix", "--apply"),
        ("check", "--fix"),
        ("check", "--add-noqa"),
        ("fix", "--apply", "--isolated"),
    ],
)
@pytest.mark.parametrize("paths", [("link.py",), ("link.py", "a.py")])
def test_a_link_that_a_glob_named_first_does_not_make_its_target_the_project(
    cli: Cli, outside: Outside, command: tuple[str, ...], paths: tuple[str, ...]
) -> None:
    """There is neither a configuration nor a repository, which would say where the project ends."""
    (cli.cwd / "torchlint.toml").unlink()
    (cli.cwd / ".git").rmdir()
    done = cli(*command, *paths, code=1)
    assert "outside of what is fixed; name that file itself" in done.stdout + done.stderr
    assert outside.same, sorted(outside.folder.iterdir())


def test_the_cache_of_a_run_on_a_link_lies_beside_the_link(cli: Cli, outside: Outside) -> None:
    (cli.cwd / "torchlint.toml").unlink()
    (cli.cwd / ".git").rmdir()
    cli("check", "link.py", code=1)
    assert outside.same, sorted(outside.folder.iterdir())
    assert (cli.cwd / ".torchlint_cache").is_dir()


@pytest.mark.parametrize("path", ["{file}", "folder", "folder/b.py"])
def test_what_the_user_names_is_fixed_wherever_it_lies(
    cli: Cli, outside: Outside, path: str
) -> None:
    cli("fix", "--apply", path.format(file=outside.file), code=0)
    assert not outside.same


def test_a_link_within_the_project_is_followed(cli: Cli, source: Source) -> None:
    cli.write("torchlint.toml", "")
    cli.write("data/real.txt", source("slow"))
    (cli.cwd / "link.py").symlink_to("data/real.txt")
    cli("fix", "--apply", "link.py", code=0)
    assert "slow()" not in (cli.cwd / "data/real.txt").read_text()
    assert (cli.cwd / "link.py").is_symlink()


OUTPUTS = (
    ("-o", "out"),
    ("--output-format", "sarif:out"),
    ("--output-format", "json", "--output-file", "out"),
)


@pytest.mark.parametrize("options", OUTPUTS)
def test_a_pipe_as_output_file_is_refused_and_does_not_hang(
    cli: Cli, source: Source, options: tuple[str, ...]
) -> None:
    cli.write("a.py", source("slow"))
    os.mkfifo(cli.cwd / "out")
    done = cli("check", "a.py", *options, code=2)
    assert "is a FIFO, not a regular file" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_report_does_not_follow_a_link_that_lies_in_the_tree(
    cli: Cli, source: Source, tmp_path: Path
) -> None:
    cli.write("a.py", source("slow"))
    (cli.cwd / "out.json").symlink_to(tmp_path / "profile")
    done = cli("check", "a.py", "-o", "out.json", code=2)
    assert done.stderr.count("\n") == 1
    (tmp_path / "profile").write_text("mine")
    cli("check", "a.py", "-o", "out.json", code=2)
    assert (tmp_path / "profile").read_text() == "mine"
    (cli.cwd / "last.json").write_text("")
    (cli.cwd / "in.json").symlink_to("last.json")
    cli("check", "a.py", "-o", "in.json", code=1)
    assert (cli.cwd / "last.json").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such devices")
def test_devices_and_open_pipes_take_reports(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    assert "No space left" in cli("check", "a.py", "-o", "/dev/full", code=2).stderr
    cli("check", "a.py", "-o", "/dev/null", code=1)
    assert "a.py" in cli("check", "a.py", "-o", "/dev/stdout", code=1).stdout
    words = [
        sys.executable,
        "-P",
        "-m",
        "torchlint",
        "check",
        "--no-cache",
        "a.py",
        "-o",
        "/dev/fd/1",
    ]
    if sys.version_info < (3, 11):
        words.remove("-P")
    done = subprocess.run(words, cwd=cli.cwd, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("mark", [".git", "setup.py", "requirements.txt", ""])
def test_fingerprints_do_not_depend_on_what_is_named(cli: Cli, source: Source, mark: str) -> None:
    top = cli.cwd / "tree"
    (cli.cwd / ".git").rmdir()
    (top / "a").mkdir(parents=True)
    (top / "a" / "b.py").write_text(source("slow"))
    (top / "c.py").write_text(source("slow"))
    if mark:
        (top / mark).mkdir() if mark == ".git" else (top / mark).write_text("")
    seen = set()
    for folder, *paths in (
        (top, "."),
        (top, "a/b.py"),
        (top / "a", "b.py"),
        (top.parent, "tree"),
        (top, "c.py", "a"),
    ):
        cli.cwd = folder
        for _ in range(2):  # the second time from the cache
            listed = json.loads(cli("check", "--output-format", "json", *paths, code=1).stdout)
            seen |= {entry["fingerprint"] for entry in listed if entry["filename"].endswith("b.py")}
    assert len(seen) == 1
