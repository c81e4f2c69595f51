"""Baselines on the command line: old findings are silent, new ones are not, and the file never
grows by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]
BASE = "base.json"


@pytest.fixture
def old(cli: Cli, source: Source) -> Cli:
    """Return a project with three old findings in two files, all in the baseline that is
    configured."""
    cli.write("torchlint.toml", f'baseline = "{BASE}"\noutput-format = "concise"\n')
    cli.write("a.py", source("slow", "odd"))
    cli.write("b.py", source("slow"))
    cli("check", "--write-baseline", code=0)
    return cli


def entries(cli: Cli) -> list[list[object]]:
    found: list[list[object]] = json.loads((cli.cwd / BASE).read_bytes())["entries"]
    assert found.pop() == []
    return found


def state(cli: Cli) -> tuple[bytes, int]:
    return (cli.cwd / BASE).read_bytes(), (cli.cwd / BASE).stat().st_mtime_ns


def test_what_writing_says(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd", "slow"))
    done = cli("check", "--write-baseline", "--baseline", BASE, code=0)
    assert done.stdout == (
        f"Wrote {BASE}: 3 findings (3 added, 0 removed).\n + a.py: 2 of TL101\n + a.py: 1 of "
        "TL102\n"
    )
    assert [(entry[:2], entry[3]) for entry in entries(cli)] == [
        (["a.py", "TL101"], 2),
        (["a.py", "TL102"], 1),
    ]
    before = state(cli)
    assert (
        cli("check", "--write-baseline", "--baseline", BASE, code=0).stdout
        == f"{BASE}: 3 findings, as before.\n"
    )
    assert state(cli) == before


def test_old_findings_are_silent_and_do_not_gate(old: Cli) -> None:
    done = old("check", code=0)
    assert done.stdout == "All checks passed.\n3 findings held back by the baseline.\n"
    assert done.stderr == ""
    assert old("check", "--output-format", "json", code=0).stdout == "[]\n"
    assert "TL101" in old("check", "--no-baseline", code=1).stdout
    assert old("check", "--quiet", code=0).stdout == ""


def test_a_report_for_machines_leaves_the_words_to_standard_error(old: Cli) -> None:
    done = old("check", "--output-format", "json", code=0)
    assert done.stderr == "3 findings held back by the baseline.\n"


def test_new_findings_are_reported_and_the_file_stays(old: Cli, source: Source) -> None:
    before = state(old)
    old.write("a.py", source("slow", "odd", "slow"))
    old.write("new.py", source("slow"))
    done = old("check", code=1)
    assert [line.split(" ")[0] for line in done.stdout.splitlines()[:2]] == [
        "a.py:4:1:",
        "new.py:2:1:",
    ]
    assert "3 findings held back" in done.stdout
    assert state(old) == before


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n\n\n\n# a remark\ntorch.odd()\n\ndef f():\n    torch.slow()\n",
        "import torch\r\ntorch.slow(\r\n)\r\ntorch.odd( ) # why\r\n",
        "import torch\n\n(torch.slow())\ntorch . odd()\n",
    ],
)
def test_shifts_and_layout_change_nothing(old: Cli, text: str) -> None:
    old.write("a.py", text)
    assert old("check", code=0).stdout.endswith("3 findings held back by the baseline.\n")


def test_stale_entries_are_named_and_only_taken_out_on_request(old: Cli, source: Source) -> None:
    old.write("a.py", source("odd"))
    (old.cwd / "b.py").unlink()
    before = state(old)
    done = old("check", code=0)
    assert f"{BASE}: 2 findings fixed or gone since it was written; " in done.stdout
    assert done.stdout.endswith("  a.py: 1 of TL101\n  b.py: 1 of TL101\n")
    assert state(old) == before
    done = old("check", "--write-baseline", code=0)
    assert done.stdout == (
        f"Wrote {BASE}: 1 finding (0 added, 2 removed).\n - a.py: 1 of TL101\n - b.py: 1 of TL101\n"
    )
    assert (
        old("check", code=0).stdout == "All checks passed.\n1 finding held back by the baseline.\n"
    )


def test_a_fixed_finding_does_not_make_room_for_another(old: Cli, source: Source) -> None:
    old.write("b.py", source("odd"))
    assert "b.py:2:1: TL102" in old("check", code=1).stdout


def test_a_moved_file_keeps_its_findings(old: Cli) -> None:
    (old.cwd / "sub").mkdir()
    (old.cwd / "a.py").rename(old.cwd / "sub" / "moved.py")
    assert (
        old("check", code=0).stdout == "All checks passed.\n3 findings held back by the baseline.\n"
    )
    assert "2 findings held back" in old("check", "sub/moved.py", code=0).stdout


def test_a_copied_file_does_not(old: Cli) -> None:
    shutil.copy(old.cwd / "a.py", old.cwd / "copy.py")
    assert "copy.py:2:1: TL101" in old("check", code=1).stdout


def test_a_run_on_some_files_says_nothing_of_others(old: Cli) -> None:
    (old.cwd / "b.py").unlink()
    assert "fixed or gone" not in old("check", "a.py", code=0).stdout
    assert "fixed or gone" in old("check", ".", code=0).stdout
    assert "fixed or gone" not in old("check", "--select", "TL102", "a.py", code=0).stdout


def test_writing_for_some_files_or_rules_leaves_the_others(old: Cli, source: Source) -> None:
    before = entries(old)
    old.write("a.py", source("slow", "odd", "odd"))
    old("check", "--write-baseline", "--select", "TL102", "a.py", code=0)
    assert [(entry[:2], entry[3]) for entry in entries(old)] == [
        (["a.py", "TL101"], 1),
        (["a.py", "TL102"], 2),
        (["b.py", "TL101"], 1),
    ]
    assert [entry[2] for entry in entries(old)] == [entry[2] for entry in before]


def test_an_excluded_file_is_stale(old: Cli) -> None:
    assert "b.py: 1 of TL101" in old("check", "--config", 'exclude = ["b.py"]', code=0).stdout


def test_from_another_folder(old: Cli, source: Source) -> None:
    (old.cwd / "sub").mkdir()
    old.write("sub/c.py", source("slow"))
    old("check", "--write-baseline", code=0)
    top = old.cwd
    old.cwd = top / "sub"
    assert "1 finding held back" in old("check", code=0).stdout
    assert "1 finding held back" in old("check", "--baseline", "../base.json", code=0).stdout
    assert "4 findings held back" in old("check", "..", code=0).stdout
    old.cwd = top.parent
    assert "4 findings held back" in old("check", "project", code=0).stdout


def test_a_baseline_that_lies_elsewhere_speaks_of_the_root(
    old: Cli, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("elsewhere") / "x.json"
    other = str(path)
    old("check", "--baseline", other, "--write-baseline", code=0)
    assert [entry[0] for entry in json.loads(path.read_bytes())["entries"][:-1]] == [
        "a.py",
        "a.py",
        "b.py",
    ]
    assert "1 finding held back" in old("check", "--baseline", other, "b.py", code=0).stdout


def test_what_cannot_be_checked_is_never_held_back(old: Cli) -> None:
    old.write("b.py", "x = (\n")
    old.write("c.py", b"\xff\n")
    done = old("check", "--write-baseline", code=1)
    assert "b.py:1:5: invalid-syntax" in done.stdout
    assert "c.py:1:1: unreadable" in done.stdout
    assert [entry[:2] for entry in entries(old)] == [
        ["a.py", "TL101"],
        ["a.py", "TL102"],
        ["b.py", "TL101"],
    ]
    assert "fixed or gone" not in old("check", code=1).stdout


def test_a_file_that_the_tool_fails_on_keeps_its_entries(old: Cli, source: Source) -> None:
    old.write("b.py", source("slow", "crash"))
    before = entries(old)
    assert "held back" in old("check", code=2).stdout
    old("check", "--write-baseline", code=2)
    assert entries(old) == before


def test_fix_does_not_ask_the_baseline(old: Cli, source: Source) -> None:
    old("fix", "--apply", code=0)
    assert (old.cwd / "b.py").read_text() == source("fine")
    assert "b.py: 1 of TL101" in old("check", code=0).stdout


def test_a_repeated_run_knows_that_the_baseline_changed(old: Cli, source: Source) -> None:
    old.environment["CI"] = ""
    for path in (*old.cwd.glob("*.py"), old.cwd / BASE, old.cwd / "torchlint.toml", old.cwd):
        os.utime(path, (1e9, 1e9))
    for _ in range(3):
        old("check", code=0)
    (old.cwd / BASE).write_text('{"baseline-format": 1, "entries": [[]]}')
    assert "a.py:2:1: TL101" in old("check", code=1).stdout
    (old.cwd / BASE).unlink()
    assert "there is no such file" in old("check", code=2).stderr


def test_a_repeated_run_knows_that_a_file_is_back(old: Cli, source: Source) -> None:
    old.environment["CI"] = ""
    (old.cwd / "sub").mkdir()
    (old.cwd / "a.py").rename(old.cwd / "sub" / "a.py")
    for path in (old.cwd / "sub" / "a.py", old.cwd / BASE, old.cwd / "torchlint.toml"):
        os.utime(path, (1e9, 1e9))
    for _ in range(3):
        assert "2 findings held back" in old("check", "sub/a.py", code=0).stdout
    old.write("a.py", "")
    assert "sub/a.py:2:1: TL101" in old("check", "sub/a.py", code=1).stdout


def test_standard_input_is_held_to_the_baseline(old: Cli, source: Source) -> None:
    arguments = ("check", "-", "--stdin-filename", "a.py")
    assert "held back" in old(*arguments, stdin=source("slow").encode(), code=0).stderr
    assert (
        "a.py:3:1: TL101" in old(*arguments, stdin=source("slow", "slow").encode(), code=1).stdout
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--write-baseline"], "--write-baseline needs --baseline FILE, or the key 'baseline'"),
        (
            ["--write-baseline", "--baseline", "x", "--fix"],
            "--write-baseline and --fix cannot be used together",
        ),
        (
            ["--write-baseline", "--baseline", "x", "--since", "HEAD"],
            "--write-baseline and --since cannot be",
        ),
        (
            ["--write-baseline", "--baseline", "x", "--shard", "1/2"],
            "--write-baseline and --shard cannot be",
        ),
        (["--write-baseline", "--diff"], "--write-baseline and --diff cannot be"),
        (["--no-baseline", "--baseline", "x"], "--no-baseline and --baseline cannot be"),
        (
            ["--write-baseline", "--baseline", "x", "-"],
            "--write-baseline cannot be used with - (standard input)",
        ),
        (
            ["--baseline", "none.json"],
            "baseline none.json: there is no such file; --write-baseline makes one",
        ),
        (["--baseline", "."], "baseline .: is a directory"),
        (["--baseline", ""], "--baseline must not be empty"),
    ],
)
def test_what_cannot_be_meant(cli: Cli, arguments: list[str], words: str) -> None:
    done = cli("check", *arguments, code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert {path.name for path in cli.cwd.iterdir()} <= {".git", ".torchlint_cache"}


def test_a_read_only_baseline_is_not_written(old: Cli, source: Source) -> None:
    (old.cwd / BASE).chmod(0o444)
    before = state(old)
    old.write("a.py", source("slow", "slow"))
    done = old("check", "--write-baseline", code=2)
    assert f"baseline {BASE}: is read-only" in done.stderr
    assert state(old) == before


def test_nested_projects_have_their_own_baselines(cli: Cli, source: Source) -> None:
    for folder in ("one", "two"):
        cli.write(
            f"{folder}/torchlint.toml", f'baseline = "{folder}.json"\noutput-format = "concise"\n'
        )
        cli.write(f"{folder}/a.py", source("slow"))
    done = cli("check", "--write-baseline", "one", "two", code=0)
    assert done.stdout.count("Wrote") == 2
    assert "2 findings held back" in cli("check", "one", "two", code=0).stdout
    cli.write("two/a.py", source("odd"))
    assert "two/a.py:2:1\n" in cli("check", ".", code=1).stdout


@pytest.mark.skipif(os.name == "nt", reason="needs limits of POSIX")
def test_a_full_disk_is_no_finding(cli: Cli, source: Source) -> None:
    """The limit on the size of files stands for a disk that takes no more."""
    cli.write("a.py", source("slow"))
    limit = "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))"
    program = f"import os, resource, sys; {limit}; os.execv(sys.argv[1], sys.argv[1:])"
    for arguments, words in (
        (
            ("check", "--no-cache", "--baseline", "base.json", "--write-baseline"),
            "baseline base.json: cannot be written: file too",
        ),
        (("init",), "torchlint.toml: cannot be written: file too large"),
    ):
        command = [sys.executable, "-c", program, *cli.command(*arguments)]
        done = subprocess.run(
            command, cwd=cli.cwd, env=cli.variables(), capture_output=True, text=True, check=False
        )
        assert done.returncode == 2, done.stderr
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
        assert not {"base.json", "torchlint.toml"} & set(os.listdir(cli.cwd))
