"""The command itself: start-up, argument files, help."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchlint
from torchlint.base.errors import UsageError
from torchlint.cli import progress as progress_module
from torchlint.cli.arguments import expanded
from torchlint.cli.options import wants_color
from torchlint.cli.progress import Progress

HEAVY = ("libcst", "torch", "pebble", "torchlint.run.run", "multiprocessing")


@pytest.mark.parametrize(
    ("arguments", "modules"),
    [
        (["--version"], (*HEAVY, "torchlint.engine")),
        (["--help"], ("libcst", "torch", "pebble")),
        (["rules"], ("libcst", "torch", "pebble")),
        (["check", "--show-files"], ("libcst", "torch", "pebble")),
    ],
)
def test_start_up_stays_light(cli, arguments: list[str], modules: tuple[str, ...]) -> None:
    program = (
        f"import sys; from torchlint.cli.main import run; code = run({arguments!r});"
        f"print([name for name in {modules!r} if name in sys.modules], code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=cli.variables(),
        cwd=cli.cwd,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "[] 0"


def test_only_files_that_mention_torch_need_the_parser(cli, tmp_path: Path) -> None:
    """A stand-in for libcst kills whoever imports it."""
    trap = tmp_path / "trap"
    trap.mkdir()
    (trap / "libcst.py").write_text("import os\nos.kill(os.getpid(), 9)\n")
    cli.environment = {"PYTHONPATH": os.pathsep.join((str(trap), str(cli.package)))}
    cli.write("a.py", "x = 1\n")
    cli("check", code=0)
    cli.write("a.py", "import torch\ntorch.slow()\n")
    cli("check", code=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "--apply"), "`torchlint fix --apply` writes fixes"),
        (("fix", "--fix"), "`torchlint fix --apply` writes fixes"),
        (("fix", "--dry-run", "."), "nothing is written without --apply"),
        (("verify", "--dry-run", "."), "nothing is written without --apply"),
        (("fix", "--no-such-option"), "No such option"),
    ],
)
def test_options_of_other_tools(cli, arguments: tuple[str, ...], words: str) -> None:
    done = cli(*arguments, code=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert words in done.stderr


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("stream", "shown"), [(_Terminal, True), (io.StringIO, False)])
def test_progress_is_for_terminals_and_wiped(
    monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO], shown: bool
) -> None:
    errors = stream()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("CI", raising=False)  # a build shows none
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(progress_module, "_PATIENCE", 0.0)
    with Progress(2, wanted=True) as progress:
        progress.step()
    assert ("1/2 files" in errors.getvalue()) is shown
    assert errors.getvalue().endswith("\r\x1b[K") is shown


@pytest.mark.parametrize(
    ("patience", "wanted", "term"),
    [(60.0, True, "xterm"), (0.0, False, "xterm"), (0.0, True, "dumb")],
)
def test_no_progress_for_short_or_quiet_runs_or_dumb_terminals(
    monkeypatch: pytest.MonkeyPatch, patience: float, wanted: bool, term: str
) -> None:
    errors = _Terminal()
    monkeypatch.setenv("TERM", term)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr(progress_module, "_PATIENCE", patience)
    with Progress(2, wanted) as progress:
        progress.step()
    assert errors.getvalue() == ""


def test_version(cli) -> None:
    for option in ("--version", "-V"):
        assert cli(option, code=0).stdout == f"torchlint {torchlint.__version__}\n"
    assert cli("version", code=0).stdout == f"torchlint {torchlint.__version__}\n"
    said = json.loads(cli("version", "--output-format", "json", code=0).stdout)
    assert said == {"version": torchlint.__version__, "commit_info": None}


def test_nothing_asked_shows_help(cli) -> None:
    done = cli(code=0)
    for command in ("check", "fix", "rule", "rules"):
        assert f"\n  {command} " in done.stdout


def test_rule_and_rules(cli) -> None:
    assert "TL101" in cli("rules", code=0).stdout
    assert "Title of slow" in cli("rule", "TL101", code=0).stdout
    assert json.loads(cli("rule", "TL101", "--output-format", "json", code=0).stdout)["since"]
    assert cli("rule", "error", code=0).stdout.split()[0] == "TL102"


def test_argument_file(cli) -> None:
    cli.write("a.py", "def (\n")
    cli.write("b c.py", "def (\n")
    cli.write("d.py", "def (\n")
    cli.write("args.txt", "\ufeff--output-format\r\nconcise\r\n\r\na.py\r\nb c.py\r\n")
    done = cli("check", "@args.txt", code=1)
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[:2]] == ["a.py", "b c.py"]
    assert "d.py" not in done.stdout


def test_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("one\n@x\n")
    assert list(expanded(["@x", "@none", "--", "@x"])) == ["one", "@x", "@none", "--", "@x"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"check\na\0b.py\n", "@x: holds a NUL byte in line 2, which no argument can"),
        (b"a.py\n" * 20, "@x: is larger than 50 bytes"),
        (None, "@x: permission denied"),
    ],
)
def test_a_file_of_arguments_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes | None, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("torchlint.cli.arguments._LARGEST", 50)
    (tmp_path / "x").write_bytes(data or b"")

    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    if data is None:
        monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError) as told:
        list(expanded(["@x"]))
    assert str(told.value) == words


@pytest.mark.parametrize(
    ("choice", "terminal", "environment", "wanted"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"TERM": "dumb"}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", False, {"FORCE_COLOR": "0"}, False),
        ("auto", False, {"CLICOLOR_FORCE": "1", "TERM": "dumb"}, True),
        ("never", True, {"FORCE_COLOR": "1"}, False),
    ],
)
def test_wants_color(
    choice: str, terminal: bool, environment: dict[str, str], wanted: bool
) -> None:
    assert wants_color(choice, terminal, environment) is wanted


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("chek", "."), "there is no command 'chek'; did you mean 'torchlint check'?"),
        (("a.py",), "there is no command 'a.py'; write 'torchlint check a.py'"),
        (("a.py:3",), "there is no command 'a.py:3'; write 'torchlint check --explain a.py:3'"),
        (("TL101",), "there is no command 'TL101'; write 'torchlint rule TL101'"),
        (("explain", "TL101"), "there is no command 'explain'; write 'torchlint rule TL101'"),
        (("why", "a.py:1"), "there is no command 'why'; write 'torchlint check --explain a.py:1'"),
        (("why",), "there is no command 'why'; 'torchlint rule CODE' explains a rule"),
        (("help", "fix"), "there is no command 'help'; see 'torchlint fix --help'"),
        (("nothing",), "there is no command 'nothing'; see 'torchlint --help'"),
        (
            ("explain", "a.py:1"),
            "there is no command 'explain'; write 'torchlint check --explain a.py:1'",
        ),
        (("rule", "TL1000"), "unknown rule 'TL1000'; 'torchlint rules' lists all"),
        (
            ("check", "--select", "TL103", "TL102", "tl101", "a.py"),
            "TL102 is a rule, and no file: join rules by commas, as in --select TL103,TL102,tl101",
        ),
        (("check", "--ignore", "TL1", "TL102"), "commas, as in --ignore TL1,TL102"),
        (
            ("check", "TL102"),
            "TL102 is a rule, and no file: name rules in an option, as in --select TL102",
        ),
        (
            ("check", "a.py:1"),
            "there is no file a.py:1; did you mean `torchlint check --explain a.py:1`?",
        ),
        (
            ("verify", ".", "main.py", "--epochs", "3"),
            "--epochs is no option of verify; put -- before the program: "
            "torchlint verify . -- main.py --epochs 3",
        ),
        (
            ("profile", "-m", "pkg.main", "--epochs", "3"),
            "put -- before the program: torchlint profile -- -m pkg.main --epochs 3",
        ),
    ],
)
def test_mistakes_are_said_in_one_line(cli, arguments: tuple[str, ...], words: str) -> None:
    cli.write("a.py", "x = 1\n")
    done = cli(*arguments, code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("capitals", "small"), [("TL101", "tl101"), ("TL1", "tl1"), ("ALL", "all"), ("slow", "SLOW")]
)
def test_rules_are_named_in_capitals_or_small_letters(cli, capitals: str, small: str) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\n")
    cli.write("b.py", "import torch\n")
    wanted = cli("check", "a.py", "-q", "--select", capitals, code=1).stdout
    assert "TL101" in wanted
    assert cli("check", "a.py", "-q", "--select", small, code=1).stdout == wanted
    cli.write("torchlint.toml", f"select = ['{small}']\n[severity]\n'{small}' = 'error'\n")
    assert "1 error" in cli("check", "a.py", code=1).stdout
    assert cli("rule", small, code=0).stdout == cli("rule", capitals, code=0).stdout


def test_a_page_is_named_in_small_letters(cli) -> None:
    for code in ("tl101", "tl001"):
        assert f"{code.upper()}.html" in cli("docs", code, code=0).stdout


def test_a_run_without_a_rule_says_so(cli) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\n")
    for _ in range(2):  # the second time from the cache
        done = cli("check", "--ignore", "ALL", code=0)
        assert done.stderr == "torchlint: warning: no rule is on: all are ignored\n"
    assert cli("check", "--ignore", "ALL", "--quiet", code=0).stderr == ""
    assert cli("check", "--ignore", "TL", "--extend-select", "TL102", code=0).stderr == ""
    assert "no rule is on" in cli("fix", "--ignore", "ALL", code=0).stderr


def test_a_file_may_be_named_like_a_rule(cli) -> None:
    cli.write("TL102", "import torch\ntorch.slow()\n")
    assert "TL101" in cli("check", "TL102", code=1).stdout


def test_an_option_that_verify_lacks_is_said_plainly_where_no_program_is_in_sight(cli) -> None:
    assert "No such option" in cli("verify", ".", "--epochs", "3", code=2).stderr


@pytest.mark.parametrize("key", ["include", "exclude", "extend-exclude"])
def test_a_bad_glob_is_said_with_its_file_and_key(cli, key: str) -> None:
    cli.write("torchlint.toml", f"timeout = 3\n{key} = ['[']\n")
    done = cli("check", code=2)
    assert f"torchlint.toml:2: {key}: the glob '[' can match nothing" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        (("--exclude", "gen, scripts"), {"a.py", "old/o.py"}),
        (("--extend-exclude", "gen"), {"a.py", "scripts/s.py"}),
        (("--exclude", "gen", "--exclude", "a.py"), {"scripts/s.py", "old/o.py"}),
        (("--per-file-ignores", "scripts/*:TL1,gen/*:slow"), {"a.py"}),
        (("--per-file-ignores", "a.py:TL102"), {"a.py", "scripts/s.py", "gen/g.py"}),
        (("--per-file-ignores", "!gen/g.py:TL1"), {"gen/g.py"}),
        (("--per-file-ignores", "!scripts/*:slow,a.py:TL102"), {"scripts/s.py"}),
        (("--exclude", "{here}/gen,{here}/old/o.py"), {"a.py", "scripts/s.py"}),
        (("--extend-exclude", "{here}/scripts/"), {"a.py", "gen/g.py"}),
        (("--per-file-ignores", "{here}/gen/*:TL1"), {"a.py", "scripts/s.py"}),
        (("--exclude", "{here}"), {"a.py", "scripts/s.py", "gen/g.py", "old/o.py"}),
    ],
)
def test_files_are_left_out_as_ruff_leaves_them_out(
    cli, arguments: tuple[str, ...], left: set[str]
) -> None:
    """Options win over the file; only ``--extend-exclude`` adds to it. Whole paths name files of
    the project, too."""
    arguments = tuple(word.format(here=os.path.realpath(cli.cwd)) for word in arguments)
    cli.write("torchlint.toml", "exclude = ['old']\n[per-file-ignores]\n'a.py' = ['TL1']\n")
    for name in ("a.py", "scripts/s.py", "gen/g.py", "old/o.py"):
        cli.write(name, "import torch\ntorch.slow()\n")
    of_file = () if "--per-file-ignores" in arguments else ("--per-file-ignores", "x.py:TL1")
    done = cli("check", "-en", "--output-format", "concise", *arguments, *of_file, code=0)
    assert {line.split(":")[0] for line in done.stdout.splitlines() if ": TL101" in line} == left
    hint = [line for line in done.stdout.splitlines() if "fix --apply" in line]
    assert len(hint) == 1
    assert arguments[0] in hint[0]  # what is shown would not fix what was left out


@pytest.mark.parametrize(
    ("options", "fixable"),
    [
        ((), {"TL101", "TL102"}),
        (("--unfixable", "TL101"), {"TL102"}),
        (("--fixable", "TL101"), {"TL101"}),
        (("--fixable", "TL1", "--unfixable", "slow"), {"TL102"}),
    ],
)
def test_whose_fixes_are_offered(cli, options: tuple[str, ...], fixable: set[str]) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\ntorch.odd()\n")
    done = cli("check", "-en", "--output-format", "json", *options, code=0)
    found = json.loads(done.stdout)
    assert {each["code"] for each in found if each["fix"]} == fixable
    assert {each["code"] for each in found} >= {"TL101", "TL102"}


@pytest.mark.parametrize(
    ("options", "fixable"),
    [
        ((), True),
        (("--unfixable", "TL001"), False),
        (("--unfixable", "ALL"), False),
        (("--fixable", "TL101"), False),
        (("--fixable", "TL001"), True),
        (("--unfixable", "TL101"), True),
    ],
)
def test_whether_unused_suppressions_are_taken_away(
    cli, options: tuple[str, ...], fixable: bool
) -> None:
    path = cli.write("a.py", "import torch\ntorch.fine()  # torchlint: ignore[TL101]\n")
    done = cli("check", "-n", "--output-format", "json", *options)
    (found,) = json.loads(done.stdout)
    assert (found["code"], found["fix"] is not None) == ("TL001", fixable)
    cli("fix", "--apply", *options, code=0)
    assert ("ignore" not in path.read_text()) is fixable


def test_a_hint_is_shortened_and_says_that_it_is(cli) -> None:
    names = [f"some_folder/some_file_{number}.py" for number in range(4)]
    for name in names:
        cli.write(name, "import torch\ntorch.slow()\n")
    done = cli("check", "-en", "--output-format", "concise", "--select", "TL101", *names, code=0)
    (hint,) = (line for line in done.stdout.splitlines() if "fix --apply" in line)
    assert f"`torchlint fix --apply --select TL101 {names[0]} …`" in hint


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_who_types_the_program_is_told_to(cli) -> None:
    import pty

    cli.write("a.py", "")
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(cli.cwd)
        os.execv(sys.executable, [sys.executable, "-m", "torchlint", "check", "--isolated", "-"])
    said = os.read(terminal, 200)
    os.write(terminal, b"\x04")
    while b"checks passed" not in said:
        said += os.read(terminal, 200)
    os.close(terminal)
    os.waitpid(pid, 0)
    assert said.splitlines()[0] == (b"torchlint: reading from standard input; end it with Ctrl-D")


@pytest.mark.parametrize("pairs", ["a.py", "a.py:TL101,TL102", ":TL101", "a.py:"])
def test_rules_of_no_glob_are_refused_as_ruff_does(cli, pairs: str) -> None:
    done = cli("check", "--per-file-ignores", pairs, code=2)
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert "is not GLOB:RULE" in done.stderr
