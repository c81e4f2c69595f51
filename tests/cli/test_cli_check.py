"""``torchlint check`` as a program: exit codes, what goes where, and what one bad file may cost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.patience import PATIENCE

Source = Callable[..., str]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


@pytest.mark.parametrize(
    ("names", "options", "code"),
    [
        ((), (), 0),
        (("fine",), (), 0),
        (("slow",), (), 1),
        (("odd",), (), 1),
        (("hint",), (), 0),
        (("hint",), ("--fail-on", "info"), 1),
        (("slow",), ("--fail-on", "error"), 0),
        (("odd",), ("--fail-on", "error"), 1),
        (("slow",), ("--exit-zero",), 0),
        (("slow",), ("--ignore", "TL101"), 0),
        (("slow", "odd"), ("--select", "slow"), 1),
        (("slow",), ("--select", "TL102,TL103"), 0),
        (("crash",), (), 2),
        (("crash",), ("--exit-zero",), 2),
        (("slow",), ("--fix",), 0),
        (("slow", "odd"), ("--fix",), 1),
        (("slow", "odd"), ("--fix", "--unsafe-fixes"), 0),
        (("slow",), ("--fix", "--exit-non-zero-on-fix"), 1),
        (("fine",), ("--fix", "--exit-non-zero-on-fix"), 0),
        (("slow",), ("--diff",), 1),
        (("odd",), ("--diff",), 0),
        (("slow",), ("--config", "fail-on = 'error'"), 0),
        (("slow",), ("--statistics",), 1),
    ],
)
def test_exit_codes(
    cli, source: Source, names: tuple[str, ...], options: tuple[str, ...], code: int
) -> None:
    cli.write("a.py", source(*names))
    cli("check", *options, code=code)


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--no-such-option"),
        ("no-such-command",),
        ("check", "--select", "TL999"),
        ("check", "--output-format", "none"),
        ("check", "--target-torch", "two"),
        ("check", "--timeout", "0"),
        ("check", "--max-file-size", "-1"),
        ("check", "--config", "no-such-file.toml"),
        ("check", "--config", "no-such-key=1"),
        ("check", "--config", "a.toml", "--config", "b.toml"),
        ("check", "--config", "a.toml", "--isolated"),
        ("check", "-", "a.py"),
        ("check", "--stdin-filename", "a.py"),
        ("rule", "TL999"),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_one_line_and_2(cli, arguments: tuple[str, ...]) -> None:
    done = cli(*arguments, code=2)
    assert done.stdout == ""
    assert done.stderr.startswith("torchlint: error: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def (\n", "invalid-syntax: "),
        ("(" * 300, "invalid-syntax: too many nested parentheses"),
        (b"x = '\xff'\n", "unreadable: not valid utf-8"),
        ("# coding: none\n", "unreadable: unknown encoding"),
    ],
)
def test_file_that_is_no_python_fails_and_costs_only_itself(
    cli, source: Source, text: str | bytes, words: str
) -> None:
    cli.write("bad.py", text)
    cli.write("good.py", source("hint"))
    done = cli("check", "--output-format", "concise", "--exit-zero", code=1)
    assert f"bad.py:1:1: {words}" in done.stdout.replace(":1:5:", ":1:1:").replace(
        ":1:201:", ":1:1:"
    )
    assert "good.py:2:1: TL103 Found hint." in done.stdout


def test_missing_path_is_named_and_the_rest_is_done(cli, source: Source) -> None:
    cli.write("a.py", source("hint"))
    done = cli("check", "--output-format", "concise", "a.py", "none.py", code=1)
    assert "none.py:1:1: unreadable: no such file" in done.stdout
    assert "a.py:2:1: TL103" in done.stdout
    found = "Found 2 findings (1 error, 0 warnings, 1 info) in 2 files.\n"
    assert found in done.stdout


def test_paths_that_cannot_be_read_are_no_findings(cli) -> None:
    done = cli("check", "--output-format", "concise", "no.py", "none.py", code=1)
    assert done.stdout.endswith("No findings, but 2 paths could not be read.\n")


@POSIX
def test_fifo_in_a_tree_is_passed_over_and_named_is_unreadable(cli) -> None:
    os.mkfifo(cli.cwd / "pipe.py")
    cli("check", code=0)
    assert "a FIFO" in cli("check", "pipe.py", code=1).stdout


def test_too_large_is_a_note(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    done = cli("check", "--max-file-size", "10", code=0)
    assert "a.py: is larger than 10 bytes" in done.stdout
    cli("check", "--max-file-size", "0", code=1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("hang", "did nothing for 10 s", marks=pytest.mark.slow),
        ("die", "crashed (SIGSEGV)"),
        ("crash", "ZeroDivisionError"),
    ],
)
def test_a_file_that_the_tool_fails_on_is_listed(
    cli, source: Source, name: str, words: str
) -> None:
    cli.write("bad.py", source(name))
    cli.write("good.py", source("slow"))
    done = cli("check", "--output-format", "concise", "--timeout", "8", code=2)
    assert words in done.stdout
    assert "good.py:2:1: TL101 [*] Found slow." in done.stdout
    quiet = cli("check", "--quiet", "--output-format", "concise", "--timeout", "8", code=2)
    assert quiet.stdout == "good.py:2:1: TL101 [*] Found slow.\n"
    assert words in quiet.stderr


def test_text_ends_with_a_summary_and_machine_formats_do_not(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli.write("b.py", " " * 2_000)
    done = cli("check", "--output-format", "concise", "--max-file-size", "1000", code=1)
    assert done.stdout.startswith("a.py:2:1: TL101 [*] Found slow.\nFound 1 finding")
    done = cli("check", "--output-format", "json", "--max-file-size", "1000", code=1)
    assert [entry["code"] for entry in json.loads(done.stdout)] == ["TL101", "not-analysed"]
    assert "b.py: not analysed: is larger" in done.stderr
    done = cli("check", "--output-format", "sarif", code=1)
    (run,) = json.loads(done.stdout)["runs"]
    assert "## Why" in run["tool"]["driver"]["rules"][0]["help"]["markdown"]


def test_quiet(cli, source: Source) -> None:
    cli.write("a.py", source("fine"))
    done = cli("check", "-q", code=0)
    assert (done.stdout, done.stderr) == ("", "")


def test_no_files(cli) -> None:
    done = cli("check", code=0)
    assert "no Python files found" in done.stderr


def test_statistics(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "slow", "odd"))
    done = cli("check", "--statistics", code=1)
    assert done.stdout.startswith("2\tTL101\t[*] slow  transfer  2 safe fixes")
    assert "\n1\tTL102\t[ ] odd   transfer  1 unsafe fix" in done.stdout
    assert "\nBy family: 3 transfer.\n[*] all fixable, [-] some, [ ] none (" in done.stdout
    done = cli("check", "--statistics", "--output-format", "json", code=1)
    assert [entry["count"] for entry in json.loads(done.stdout)] == [2, 1]


def test_unused_suppression_is_a_warning(cli) -> None:
    cli.write("a.py", "import torch\nx = 1  # torchlint: ignore[TL101] why\n")
    assert "TL001" in cli("check", code=1).stdout
    cli("check", "--fail-on", "error", code=0)


def test_show_files_and_settings(cli, source: Source) -> None:
    cli.write("a.py", "")
    cli.write("build/b.py", "")
    assert cli("check", "--show-files", code=0).stdout == "a.py\n"
    assert (
        "build: left out: excluded by 'build'" in cli("check", "--show-files", "-v", code=0).stderr
    )
    assert "no such file" in cli("check", "--show-files", "none", code=1).stderr
    assert (
        'target-torch = "2.5"'
        in cli("check", "--show-settings", "--target-torch", "2.5", code=0).stdout
    )


class TestConfiguration:
    def test_nearest_file_holds_for_each_file(self, cli, source: Source) -> None:
        cli.write("torchlint.toml", "ignore = ['TL101']\n")
        cli.write("a.py", source("slow"))
        cli.write("sub/.torchlint.toml", "severity = {slow = 'error'}\n")
        cli.write("sub/b.py", source("slow"))
        entries = json.loads(cli("check", "--output-format", "json", code=1).stdout)
        assert [(Path(entry["filename"]).name, entry["severity"]) for entry in entries] == [
            ("b.py", "error")
        ]

    def test_severity_gates(self, cli, source: Source) -> None:
        cli.write("torchlint.toml", "severity = {TL101 = 'info'}\n")
        cli.write("a.py", source("slow"))
        cli("check", code=0)

    def test_fail_on_is_per_file(self, cli, source: Source) -> None:
        cli.write("sub/torchlint.toml", "fail-on = 'error'\n")
        cli.write("sub/a.py", source("slow"))
        cli("check", code=0)
        cli.write("b.py", source("slow"))
        cli("check", code=1)

    def test_broken_file_stops_the_run_with_its_line(self, cli) -> None:
        cli.write("torchlint.toml", "\nselekt = []\n")
        cli.write("a.py", "")
        done = cli("check", code=2)
        assert "torchlint.toml:2: unknown key 'selekt'" in done.stderr
        cli("check", "--isolated", code=0)

    @pytest.mark.parametrize("key", ["ignore = ['TL101']", "selekt = []", "not TOML"])
    def test_isolated_keeps_the_root(self, cli, source: Source, key: str) -> None:
        """The folder of a configuration file is the root, though nothing in the file counts."""
        cli.write("torchlint.toml", f"{key}\n")
        cli.write("sub/a.py", source("slow"))
        done = cli("check", "sub", "--isolated", "--show-settings", code=0)
        assert f'root = "{os.path.realpath(cli.cwd)}"' in done.stdout
        assert "ignore = []" in done.stdout
        cli("check", "sub", "--isolated", code=1)

    def test_named_file(self, cli, source: Source) -> None:
        cli.write("torchlint.toml", "selekt = []\n")
        cli.write("other/mine.toml", "ignore = ['TL101']\n")
        cli.write("a.py", source("slow"))
        cli("check", "--config", "other/mine.toml", code=0)

    def test_options_win(self, cli, source: Source) -> None:
        cli.write("torchlint.toml", "fail-on = 'error'\noutput-format = 'json'\n")
        cli.write("a.py", source("slow"))
        done = cli("check", "--fail-on", "info", "--output-format", "concise", code=1)
        assert done.stdout.startswith("a.py:2:1: ")

    def test_force_exclude(self, cli, source: Source) -> None:
        cli.write("build/a.py", source("slow"))
        cli("check", "build/a.py", code=1)
        cli("check", "--force-exclude", "build/a.py", code=0)
        text = source("slow").encode()
        cli("check", "-", "--stdin-filename", "build/a.py", stdin=text, code=1)
        cli("check", "--force-exclude", "-", "--stdin-filename", "build/a.py", stdin=text, code=0)

    def test_the_same_file_named_twice_is_checked_once(self, cli, source: Source) -> None:
        cli.write("sub/torchlint.toml", "")
        cli.write("sub/a.py", source("slow"))
        done = cli("check", "--output-format", "concise", ".", "sub", "sub/../sub/a.py", code=1)
        assert done.stdout.count("TL101") == 1


class TestStandardInput:
    def test_check(self, cli, source: Source) -> None:
        done = cli(
            "check", "-", "--output-format", "concise", stdin=source("slow").encode(), code=1
        )
        assert done.stdout.startswith("-:2:1: TL101")
        assert done.stdout.endswith(" fixable with `torchlint fix --apply -`.\n")

    def test_name_finds_the_configuration(self, cli, source: Source) -> None:
        cli.write("sub/torchlint.toml", "ignore = ['TL101']\n")
        words = ("check", "-", "--stdin-filename", "sub/new.py")
        cli(*words, stdin=source("slow").encode(), code=0)
        done = cli(*words, "--isolated", stdin=source("slow").encode(), code=1)
        assert (
            " fixable with `torchlint fix --apply --stdin-filename sub/new.py -`.\n" in done.stdout
        )

    def test_fix_prints_the_source_and_reports_beside_it(self, cli, source: Source) -> None:
        text = b"\xef\xbb\xbf" + source("slow", "odd").replace("\n", "\r\n").encode()
        done = cli("check", "-", "--fix", "--output-format", "concise", stdin=text, code=1)
        assert done.stdout.encode() == text.replace(b"slow", b"fine")
        assert "-:3:1: TL102" in done.stderr

    def test_empty_binary_and_too_large(self, cli) -> None:
        cli("check", "-", stdin=b"", code=0)
        assert "not valid utf-8" in cli("check", "-", stdin=b"\xff", code=1).stdout
        assert (
            "larger than 5"
            in cli("check", "-", "--max-file-size", "5", stdin=b"#" * 6, code=0).stdout
        )


class TestOutputFile:
    def test_holds_the_report(self, cli, source: Source) -> None:
        cli.write("a.py", source("slow"))
        done = cli("check", "--output-format", "json", "-o", "out.json", code=1)
        assert done.stdout == ""
        assert json.loads((cli.cwd / "out.json").read_text())[0]["code"] == "TL101"

    @pytest.mark.parametrize("name", ["a.py", "sub/../a.py", "link.py", ".", "none/out.json"])
    def test_refused(self, cli, source: Source, name: str) -> None:
        cli.write("a.py", source("slow"))
        cli.write("sub/b.py", "")
        (cli.cwd / "link.py").symlink_to("a.py")
        done = cli("check", "-o", name, code=2)
        assert done.stderr.startswith("torchlint: error: --output-file")
        assert (cli.cwd / "a.py").read_text() == source("slow")

    @pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
    def test_full_disk(self, cli, source: Source) -> None:
        cli.write("a.py", source("slow"))
        assert "No space left" in cli("check", "-o", "/dev/full", code=2).stderr
        with Path("/dev/full").open("wb") as full:
            done = subprocess.run(
                cli.command("check"),
                stdout=full,
                stderr=subprocess.PIPE,
                cwd=cli.cwd,
                env=cli.variables(),
                check=False,
            )
        assert done.returncode == 2
        assert (
            done.stderr
            == b"torchlint: error: standard output cannot be written: No space left on device\n"
        )


@pytest.mark.slow
@POSIX
@pytest.mark.parametrize("redirect", [">&-", "| true", "2>&-", "<&-"])
def test_closed_streams_are_no_error(cli, source: Source, redirect: str) -> None:
    cli.write("a.py", source(*["slow"] * 500))  # more than a pipe holds
    command = f"{' '.join(cli.command('check'))} {redirect}; echo $? >code"
    script = f"set -o pipefail; {command}"
    done = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        cwd=cli.cwd,
        env=cli.variables(),
        check=True,
    )
    assert done.stderr == ""
    assert (cli.cwd / "code").read_text() == "1\n"


@POSIX
@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_with_a_stuck_worker(cli, source: Source, signal_number: int) -> None:
    cli.write("a.py", source("hang"))
    started = time.monotonic()
    with subprocess.Popen(
        cli.command("check"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cli.cwd,
        env=cli.variables(),
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        workers: list[str] = []
        while not workers:
            assert time.monotonic() - started < PATIENCE
            time.sleep(0.05)
            workers = children.read_text().split() if children.exists() else ["unknown"]
        time.sleep(0.5)
        process.send_signal(signal_number)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert errors.strip() == b"torchlint: interrupted"
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


@POSIX
def test_ctrl_c_keeps_what_was_analysed(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli.write("z.py", source("hang"))
    cli.environment = {"CI": ""}
    pause, kept = 0.25, []
    while not kept:  # until it was interrupted at the second file
        pause *= 2
        assert pause < PATIENCE
        with subprocess.Popen(
            cli.command("check"), stderr=subprocess.PIPE, cwd=cli.cwd, env=cli.variables()
        ) as process:
            time.sleep(pause)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
        assert process.returncode == 130
        kept = list(cli.cwd.glob(".torchlint_cache/results-*.json"))
    (path,) = kept
    assert list(json.loads(path.read_text().partition("\n")[2])["files"]) == ["a.py"]
    cli.write("z.py", source("fine"))
    assert "a.py:2:1" in cli("check", "--output-format", "concise", code=1).stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs names that are no UTF-8")
@pytest.mark.parametrize(
    "name", [b"\xff.py", b"a\nb.py", b"\x1b[31m.py", b"-x.py", b"a b%#.py", "é🙂.py".encode()]
)
@pytest.mark.parametrize(
    "environment",
    [
        {},
        pytest.param(
            {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}, marks=pytest.mark.slow
        ),
    ],
    ids=["as-it-is", "ascii"],
)
def test_odd_file_names(cli, source: Source, name: bytes, environment: dict[str, str]) -> None:
    Path(os.fsdecode(os.fsencode(cli.cwd) + b"/" + name)).write_text(source("slow"))
    cli.environment = environment
    done = cli("check", "--output-format", "concise", code=1)
    assert done.stdout.count("TL101") == 1
    assert "\x1b" not in done.stdout
    assert "Found 1 finding" in done.stdout.splitlines()[1]
    json.loads(cli("check", "--output-format", "json", code=1).stdout)


@pytest.mark.parametrize(
    ("environment", "option", "colored"),
    [
        ({}, "auto", False),
        ({}, "always", True),
        ({"FORCE_COLOR": "1"}, "auto", True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, "auto", False),
        ({"NO_COLOR": "1"}, "always", True),
        ({"FORCE_COLOR": "1"}, "never", False),
    ],
)
def test_color(
    cli, source: Source, environment: dict[str, str], option: str, colored: bool
) -> None:
    cli.write("a.py", source("slow"))
    cli.environment = environment
    assert ("\x1b[" in cli("check", "--color", option, code=1).stdout) is colored


@POSIX
def test_deleted_working_directory(cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    gone = cli.cwd / "gone"
    gone.mkdir()
    script = (
        f"cd {gone} && rmdir {gone} && exec "
        f"{' '.join(cli.command('check', '--output-format=concise', str(path)))}"
    )
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, env=cli.variables(), check=False
    )
    assert done.returncode == 1, done.stderr
    assert "TL101" in done.stdout


def test_modules_in_the_working_directory_are_not_imported(process, source: Source) -> None:
    for name in (
        "click",
        "torch",
        "libcst",
        "json",
        "pebble",
        "tomli",
        "conftest",
        "setup",
        "sitecustomize",
    ):
        process.write(f"{name}.py", "open('marker', 'w').write('x')\nraise SystemExit(9)\n")
    process.write("a.py", source("slow"))
    process("check", "a.py", code=1)
    process("fix", "--apply", code=0)
    assert not (process.cwd / "marker").exists()


def test_strict_warnings(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "die"))
    cli.write("b.py", "x = '\\d'\nassert (1, 2)\n")
    cli.environment = {"PYTHONWARNINGS": "error"}
    done = cli("check", "--output-format", "concise", code=2)
    assert done.stderr == ""
