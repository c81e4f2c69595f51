"""``torchlint fix`` as a program: the preview, and what is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from torchlint.cli.main import run
from torchlint.cli.session import Session

Source = Callable[..., str]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        (("fine",), (), 0),
        (("slow",), (), 1),
        (("odd",), (), 0),
        (("odd",), ("--unsafe-fixes",), 1),
        (("hint",), ("--unsafe-fixes",), 0),
        (("slow",), ("--apply",), 0),
        (("odd",), ("--apply",), 0),
        (("odd",), ("--apply", "--unsafe-fixes"), 0),
        (("slow", "crash"), ("--apply",), 2),
    ],
)
def test_exit_codes_and_what_is_written(
    cli, source: Source, names: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    path = cli.write("a.py", source(*names))
    cli("fix", *options, code=code)
    text = source(*names)
    if "--apply" in options:
        text = text.replace("slow", "fine")
        if "--unsafe-fixes" in options:
            text = text.replace("odd", "fine")
    assert path.read_text() == text


def test_says_what_it_did(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "slow", "odd"))
    done = cli("fix", code=1)
    rest = "2 findings in 1 file with 2 edits. 1 more with `--unsafe-fixes`.\n"
    assert done.stderr == f"Would fix {rest}"
    done = cli("fix", "--apply", code=0)
    assert (done.stdout, done.stderr) == ("", f"Fixed {rest}")
    done = cli("fix", "--apply", "-q", code=0)
    assert (done.stdout, done.stderr) == ("", "")
    assert cli("fix", code=0).stderr == "Nothing to fix, but 1 with `--unsafe-fixes`.\n"
    cli.write("a.py", source("slow", "hint", "hint"))  # hint has a suggestion
    assert cli("fix", "--apply", code=0).stderr.endswith("with 1 edit. 2 findings remain.\n")


@pytest.mark.parametrize(
    "data",
    [
        b"import torch\ntorch.slow()\n",
        b"import torch\r\ntorch.slow()\r\n",
        b"import torch\ntorch.slow()",
        b"\xef\xbb\xbfimport torch\ntorch.slow()\n",
        b"# coding: latin-1\nimport torch\nx = '\xe9'\ntorch.slow()  # \xe9\n",
    ],
)
def test_the_patch_applies_and_equals_apply(cli, data: bytes) -> None:
    path = cli.write("sub/a.py", data)
    patch = cli("fix").stdout.encode("utf-8", "surrogateescape")
    subprocess.run(["git", "init", "-q", "."], cwd=cli.cwd, check=True)
    subprocess.run(["git", "apply", "-"], input=patch, cwd=cli.cwd, check=True, capture_output=True)
    patched = path.read_bytes()
    path.write_bytes(data)
    cli("fix", "--apply", code=0)
    assert path.read_bytes() == patched == data.replace(b"slow", b"fine")


def test_a_second_time_changes_nothing(cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    cli("fix", "--apply", code=0)
    os.utime(path, ns=(1, 1))
    done = cli("fix", "--apply", code=0)
    assert done.stderr == "Nothing to fix.\n"
    assert path.stat().st_mtime_ns == 1


def test_unreadable_and_broken_files_are_named(cli, source: Source) -> None:
    cli.write("bad.py", "def (\n")
    good = cli.write("good.py", source("slow"))
    done = cli("fix", "--apply", ".", "none.py", code=1)
    assert "bad.py:1:5: invalid-syntax" in done.stderr
    assert "none.py:1:1: unreadable" in done.stderr
    assert "fine" in good.read_text()


@POSIX
def test_read_only_file_is_said_and_fails(cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    path.chmod(0o444)
    other = cli.write("b.py", source("slow"))
    done = cli("fix", "--apply", code=1)
    assert "a.py: not written: is read-only" in done.stderr
    assert "Fixed 1 finding in 1 file with 1 edit. 1 finding remains." in done.stderr
    assert path.read_text() == source("slow")
    assert "fine" in other.read_text()
    done = cli("check", "--fix", code=1)
    assert "a.py: is read-only" in done.stdout
    assert "Found 1 finding (0 errors, 1 warning, 0 infos) in 1 file." in done.stdout
    done = cli("fix", "--apply", "a.py", code=1)
    assert done.stderr.endswith("\nNothing was fixed. 1 finding remains.\n")


@POSIX
def test_what_is_left_in_a_read_only_file_is_what_a_check_finds(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd", "slow")).chmod(0o444)
    cli.write("b.py", source("slow"))
    shown = cli("check", "--fix", code=1).stdout
    assert "[*] 2 fixable with" in shown
    assert "2 fixes not written:\n  a.py: is read-only" in shown
    cli.write("b.py", source("slow"))
    left = json.loads(cli("check", "--fix", "--output-format", "json", code=1).stdout)
    found = json.loads(cli("check", "--output-format", "json", code=1).stdout)
    assert left == found
    assert len(found) == 3


@POSIX
def test_two_links_to_one_file(cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    (cli.cwd / "b.py").symlink_to("a.py")
    cli("fix", "--apply", code=0)
    assert (cli.cwd / "b.py").is_symlink()
    assert "fine" in path.read_text()


def test_stale_temporary_files_go(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    stale = cli.write(".torchlint-x.tmp", "")
    os.utime(stale, (1, 1))
    cli("fix", code=1)
    assert stale.exists()
    cli("fix", "--apply", code=0)
    assert not stale.exists()


def test_standard_input(cli, source: Source) -> None:
    text = source("slow").encode()
    assert "+torch.fine()" in cli("fix", "-", stdin=text, code=1).stdout
    assert cli("fix", "-", "--apply", stdin=text, code=0).stdout == source("fine")
    assert cli("fix", "-", "--apply", stdin=source("fine").encode(), code=0).stdout == source(
        "fine"
    )
    done = cli("fix", "-", "--apply", stdin=b"def (\n", code=1)
    assert done.stdout == "def (\n"


def test_output_file_takes_the_patch(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    done = cli("fix", "-o", "out.diff", code=1)
    assert done.stdout == ""
    assert "+torch.fine()" in (cli.cwd / "out.diff").read_text()
    cli("fix", "-o", "a.py", code=2)


@pytest.mark.slow
def test_two_at_once(cli, source: Source) -> None:
    paths = [cli.write(f"a{number}.py", source(*["slow"] * 50)) for number in range(20)]
    with ThreadPoolExecutor(2) as both:
        ended = list(both.map(lambda _: cli("fix", "--apply").returncode, range(2)))
    assert set(ended) <= {0, 1}
    assert {path.read_text() for path in paths} == {source(*["fine"] * 50)}
    assert not list(Path(cli.cwd).glob(".torchlint*"))


HALF = """
import sys, time
from torchlint.source import write
whole = write.write_all
def half(descriptor, data):
    whole(descriptor, data if b"slow" in data else data[: len(data) // 2])
    if b"slow" not in data:
        print("half", flush=True)
        time.sleep(600)
write.write_all = half
from torchlint.cli.main import run
run(sys.argv[1:])
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals and hard links")
def test_what_a_killed_run_left_of_a_hard_linked_file_is_told_until_it_is_put_right(
    cli: Any, source: Source
) -> None:
    cli.write("torchlint.toml", "")
    cli.write("a.py", source("slow", "slow"))
    cli.write("other.py", source("slow"))
    file, kept = cli.cwd / "a.py", cli.cwd / "a.py.torchlint-former"
    (cli.cwd / "linked").hardlink_to(file)
    words = [sys.executable, "-c", HALF, "fix", "--apply", "a.py"]
    with subprocess.Popen(
        words, cwd=cli.cwd, env=cli.variables(), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.kill()
    torn = file.read_bytes()
    assert kept.read_text() == source("slow", "slow")
    os.utime(kept, (1, 1))
    for path in (file, cli.cwd):
        os.utime(path, (1e9, 1e9))
    for command in (
        ("check", "a.py"),
        ("check", "a.py"),
        ("check",),
        ("fix", "--apply"),
        ("fix", "--apply"),
    ):
        done = cli(*command, code=1)
        said = done.stdout + done.stderr
        assert (
            "may be half old and half new, as a run that wrote it was killed or goes on; " in said
        )
        assert f"all of the old is in {kept}: copy that back if it is needed, and remove it" in said
        assert said.count("may be half old") == 1
    cli("clean", code=0)
    assert file.read_bytes() == torn
    assert kept.read_text() == source("slow", "slow")
    assert "slow()" not in (cli.cwd / "other.py").read_text(), "the rest is fixed"
    file.write_bytes(kept.read_bytes())
    kept.unlink()
    assert "half old" not in cli("check", "a.py", code=1).stdout
    cli("fix", "--apply", code=0)
    assert "slow()" not in file.read_text()
    assert file.samefile(cli.cwd / "linked")


def noted(cli, *names: str) -> Path:
    """Write a program with unsafe fixes far from each other, as git has it."""
    calls = "".join(f"torch.{name}()\n" + "x = 1\n" * 9 for name in names)
    path = cli.write("a.py", f"import torch\n{calls}")
    subprocess.run(["git", "init", "-q"], cwd=cli.cwd, check=True)
    return path


def test_each_hunk_says_which_fix_and_what_it_may_change(cli) -> None:
    noted(cli, "slow", "odd", "odd")
    lines = cli("fix", "--unsafe-fixes", code=1).stdout.splitlines()
    assert lines[:2] == ["# a.py:12, 22: TL102 (unsafe): It may round.", "--- a/a.py"]
    hunks = [line.partition(" @@ ")[2] for line in lines if line.startswith("@@")]
    assert hunks == ["TL101", "TL102 (unsafe)", "TL102 (unsafe)"]
    safe = cli("fix", code=1).stdout
    assert "#" not in safe
    assert "@@ TL101\n" in safe


@pytest.mark.parametrize(
    "tool", [("git", "apply", "fix.patch"), ("patch", "-p1", "-i", "fix.patch")]
)
def test_a_patch_with_notes_applies(cli, tool: tuple[str, ...]) -> None:
    """Notes stand before each file's part, also between those of two files."""
    path = noted(cli, "slow", "odd", "odd")
    other = cli.write("b.py", "import torch\ntorch.odd()")
    cli("fix", "--unsafe-fixes", "-o", "fix.patch", code=1)
    assert (cli.cwd / "fix.patch").read_text().count("# ") == 2
    subprocess.run(tool, cwd=cli.cwd, check=True, capture_output=True)
    assert path.read_text().count("torch.fine()") == 3
    assert other.read_text() == "import torch\ntorch.fine()"


@pytest.mark.slow
def test_what_check_counts_is_what_fix_counts(ours) -> None:
    """One fix fixes several findings of the loop: those that read a value, and those of a copy."""
    demo = Path(__file__).parents[2] / "fixtures" / "demo" / "train.py"
    ours.write("train.py", demo.read_bytes())
    fixable = ours("check", "--unsafe-fixes", code=1).stdout
    shown = ours("fix", "--unsafe-fixes", code=1).stderr
    done = ours("fix", "--unsafe-fixes", "--apply", code=0).stderr
    count = re.search(r"(\d+) fixable", fixable)
    assert count
    assert f"Would fix {count[1]} findings in 1 file " in shown
    assert f"Fixed {count[1]} findings in 1 file " in done


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--output-format", "json"), "--output-format json: fix writes a patch and no report"),
        (("--output-format", "sarif:x"), "--output-format sarif:x: fix writes a patch"),
        (("--apply", "-o", "x"), "--output-file: with --apply no patch is printed"),
        (("--apply", "--diff"), "--diff and --apply cannot be used together"),
    ],
)
def test_what_fix_cannot_write_is_refused(
    cli, source: Source, arguments: tuple[str, ...], words: str
) -> None:
    path = cli.write("a.py", source("slow"))
    done = cli("fix", *arguments, code=2)
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    assert path.read_text() == source("slow")


def test_help_lists_no_option_that_is_refused(cli) -> None:
    assert "--output-format" not in cli("fix", "--help", code=0).stdout
    assert "--output-format" in cli("check", "--help", code=0).stdout


def test_diff_is_what_fix_shows_anyway(cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    assert cli("fix", "--diff", code=1).stdout == cli("fix", code=1).stdout
    assert path.read_text() == source("slow")


def test_no_cache_is_an_option_as_of_check(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    assert cli("fix", "--no-cache", code=1).stdout == cli("fix", code=1).stdout


def test_after_a_check_only_files_with_fixes_are_analysed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "pyproject.toml").touch()
    text = "import torch\n\n\ndef step(x):\n    return x + torch.{}\n"
    (tmp_path / "fine.py").write_text(text.format("ones(3, device=x.device)"))
    (tmp_path / "forward.py").write_text(
        text.format("ones(3).to(x.device)").replace("step", "forward")
    )
    (tmp_path / "bad.py").write_text("import torch\ndef (\n")
    asked = []
    job = Session._job
    monkeypatch.setattr(
        Session, "_job", lambda self, *of: (asked.append(of[1].relative), job(self, *of))[1]
    )

    def analysed(*words: str) -> list[str]:
        asked.clear()
        run(words)
        return sorted(set(asked))

    assert analysed("fix") == ["bad.py", "fine.py", "forward.py"]
    assert not (tmp_path / ".torchlint_cache").exists()
    assert analysed("check") == ["bad.py", "fine.py", "forward.py"]
    capfd.readouterr()
    assert analysed("fix") == ["forward.py"]
    said = capfd.readouterr()
    assert "ones(3, device=x.device)" in said.out
    assert "bad.py:2:5: invalid-syntax" in said.err
    assert analysed("fix", "--no-cache") == ["bad.py", "fine.py", "forward.py"]
    assert capfd.readouterr() == said
    (tmp_path / "fine.py").write_text(text.format("ones(4, device=x.device)"))
    assert analysed("fix", "--apply") == ["fine.py", "forward.py"]
    assert analysed("check") == ["fine.py", "forward.py"]
    assert analysed("fix", "--apply") == []
    assert "Nothing to fix." in capfd.readouterr().err


def test_check_fix_and_statistics_count_the_same(cli, source: Source) -> None:
    """What is not read as Python counts in each of them."""
    cli.write("a.py", source("slow", "odd"))
    cli.write("bad.py", "def (\n")
    cli.write("latin.py", b"x = '\xe9'\n")
    checked = cli("check", "--output-format", "concise", code=1).stdout
    assert checked.count("\n") - 2 == 4
    assert "Found 4 findings (3 errors, 1 warning, 0 infos) in 3 files." in checked
    counted = cli("check", "--statistics", code=1).stdout
    assert sum(int(line.split("\t")[0]) for line in counted.splitlines() if "\t" in line) == 4
    assert "By family: " in counted
    assert "Found 4 findings" in counted
    for fix in (("fix",), ("check", "--diff")):
        said = cli(*fix, code=1).stderr
        assert "Would fix 1 finding in 1 file with 1 edit. 1 more with `--unsafe-fixes`. 3 " in said
