"""Variables of the environment that set options, ``--silent`` and ``--ignore-noqa``, which are as
in ruff."""

from __future__ import annotations

import re

import click
import pytest

from tests.docs.generated import variables_page
from torchlint.base.places import VARIABLES
from torchlint.cli import cached_run
from torchlint.cli.commands import COMMANDS, main

NOISY = "import torch\ntorch.slow()\ntorch.odd()  # noqa\n"


@pytest.fixture
def noisy(cli):
    """A `cli` in a project with one finding and one that a comment suppresses."""
    cli.write("a.py", NOISY)
    cli.write("torchlint.toml", 'output-format = "concise"\n')
    return cli


def out(cli, *arguments: str, **environment: str) -> str:
    """Return what `check` prints on standard output with variables set."""
    names = {f"TORCHLINT_{name}": value for name, value in environment.items()}
    cli.environment = names
    return cli("check", *arguments, code=1).stdout


@pytest.mark.parametrize("again", [False, True], ids=["first", "repeated"])
def test_a_variable_wins_over_the_file_and_the_command_line_over_it(noisy, again: bool) -> None:
    runs = [
        ([], {}, "a.py:2:1: TL101"),
        ([], {"OUTPUT_FORMAT": "grouped"}, "a.py:\n"),
        (["--output-format", "json-lines"], {"OUTPUT_FORMAT": "grouped"}, '{"'),
        (["--config", 'output-format="json-lines"'], {"OUTPUT_FORMAT": "grouped"}, '{"'),
        (["--isolated"], {"OUTPUT_FORMAT": "grouped"}, "a.py:\n"),
    ]
    for arguments, environment, begin in runs * (1 + again):
        assert out(noisy, *arguments, **environment).startswith(begin)


def test_a_repeated_run_knows_every_variable(noisy, tmp_path) -> None:
    assert set(VARIABLES.values()) <= set(cached_run._ENVIRONMENT)
    other = tmp_path / "other.toml"
    other.write_text('output-format = "grouped"\n')
    assert out(noisy).startswith("a.py:2")
    assert out(noisy, CONFIG=str(other)).startswith("a.py:\n")
    assert out(noisy).startswith("a.py:2")
    assert out(noisy, OUTPUT_FILE=str(tmp_path / "report")) == out(noisy).partition("\n")[2]
    assert (tmp_path / "report").read_text().startswith("a.py:2:1: TL101")


def test_the_cache_lies_where_its_variable_says(noisy, tmp_path) -> None:
    noisy.environment = {"TORCHLINT_CACHE_DIR": "kept", "CI": ""}
    first = noisy("check", code=1)
    assert list((noisy.cwd / "kept").glob("results-*"))
    assert noisy("check", code=1).stdout == first.stdout
    noisy("clean", code=0)
    assert not (noisy.cwd / "kept").exists()
    noisy.environment = {"TORCHLINT_NO_CACHE": "true", "TORCHLINT_CACHE_DIR": "kept", "CI": ""}
    noisy("check", code=1)
    assert not (noisy.cwd / "kept").exists()
    assert not (noisy.cwd / ".torchlint_cache").exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("output-format", "bad", ": output-format must be one of "),
        ("no-cache", "yes", " must be true or false, not 'yes'"),
        ("output-file", "missing/report", " missing/report: its directory does not exist"),
        ("config", "missing.toml", ": there is no file missing.toml"),
        *((option, "", " is empty: unset it, or give it a value") for option in VARIABLES),
    ],
)
def test_a_bad_variable_is_one_line_that_names_it(noisy, option: str, value: str, said) -> None:
    noisy.environment = {VARIABLES[option]: value}
    done = noisy("check", code=2)
    assert done.stdout == ""
    assert done.stderr.startswith(f"torchlint: error: {VARIABLES[option]}{said}")
    assert done.stderr.count("\n") == 1


def test_a_patch_takes_no_notice_of_variables_for_reports(noisy) -> None:
    arguments = [("fix",), ("check", "--diff"), ("check", "--show-files")]
    plain = [noisy(*each).stdout for each in arguments]
    noisy.environment = {"TORCHLINT_OUTPUT_FORMAT": "sarif", "TORCHLINT_OUTPUT_FILE": "report"}
    assert [noisy(*each).stdout for each in arguments] == plain
    assert not (noisy.cwd / "report").exists()


def test_the_help_of_each_option_names_its_variable() -> None:
    named = set()
    for name in COMMANDS:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        for parameter in command.params:
            words = getattr(parameter, "help", None) or ""
            for variable in re.findall(r"\[env: (\w+)\]", words):
                assert (
                    f"--{next(k for k, v in VARIABLES.items() if v == variable)}" in parameter.opts
                )
                named.add(variable)
    assert named == set(VARIABLES.values())
    assert all(f"| `{variable}` |" in variables_page() for variable in named)


def test_silent_says_nothing_but_by_the_exit_code(noisy) -> None:
    for arguments in (["check"], ["check", "--output-format", "json"]):
        done = noisy(*arguments, "-s")
        assert (done.stdout, done.stderr) == ("", "")
    for _ in range(2):
        assert noisy("check", "-s", code=1).stdout == ""
    done = noisy("fix", "--apply", "-s", code=0)
    assert (done.stdout, done.stderr) == ("", "")
    assert noisy("check", "-s", code=0).stdout == ""
    noisy.write("bad.py", "x = = 1\n")
    assert noisy("check", "--silent", "bad.py", code=1).stderr == ""
    assert noisy("fix", "-s", "bad.py", code=1).stderr == ""
    assert "rule" in noisy("check", "-s", "--select", "NOPE", code=2).stderr


@pytest.mark.parametrize(
    ("one", "other"),
    [("--silent", "--quiet"), ("--silent", "--verbose"), ("--quiet", "--verbose")],
)
@pytest.mark.parametrize("command", ["check", "fix"])
def test_a_run_has_one_loudness(noisy, command: str, one: str, other: str) -> None:
    said = noisy(command, one, other, code=2).stderr
    assert said == f"torchlint: error: {one} and {other} cannot be used together\n"


def test_silent_prints_what_is_asked_for_besides_findings(noisy) -> None:
    assert noisy("check", "-s", "--statistics", code=1).stdout
    assert noisy("check", "-s", "--show-files", code=0).stdout == "a.py\n"
    noisy("check", "-s", "-o", "report", code=1)
    assert (noisy.cwd / "report").read_text().startswith("a.py:2:1: TL101")


def test_ignore_noqa_reports_what_comments_suppress(noisy) -> None:
    assert [line[:8] for line in out(noisy).splitlines()[:-1] if ": T" in line] == ["a.py:2:1"]
    for _ in range(2):  # no cache answers for the other kind of run
        found = [line[:8] for line in out(noisy, "--ignore-noqa").splitlines() if ": T" in line]
        assert found == ["a.py:2:1", "a.py:3:1"]
        assert "a.py:3:1" not in out(noisy)


@pytest.mark.parametrize(
    "comments",
    [
        "torch.slow()  # torchlint: ignore[TL1] why\n",
        "# torchlint: file-ignore[TL1]\ntorch.slow()\n",
        "# torchlint: disable[TL1]\ntorch.slow()\n# torchlint: enable[TL1]\n",
        "torch.slow()  # noqa: TL1\n",
    ],
)
def test_ignore_noqa_is_about_every_kind_of_comment(cli, comments: str) -> None:
    text = "import torch\n" + comments
    assert "TL101" not in out_of(cli, text)
    assert "TL101" in out_of(cli, text, "--ignore-noqa")


def out_of(cli, text: str, *arguments: str) -> str:
    cli.write("a.py", text)
    return str(cli("check", "--output-format", "concise", *arguments).stdout)


@pytest.mark.parametrize("other", ["--add-noqa", "--add-ignore", "--explain"])
def test_ignore_noqa_writes_no_second_comment(noisy, other: str) -> None:
    said = noisy("check", "--ignore-noqa", other, code=2).stderr
    assert said == f"torchlint: error: --ignore-noqa and {other} cannot be used together\n"
