"""``torchlint init``: what it writes can be used as it is, key by key, and nothing is ever
overwritten."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tomli
import yaml

from torchlint.cli.init import PRE_COMMIT
from torchlint.settings.documentation import configuration
from torchlint.settings.keys import KEYS, checked

Cli = Any
Source = Callable[..., str]


@pytest.mark.parametrize("section", ["", "tool.torchlint"])
def test_every_line_can_be_used(section: str) -> None:
    text = configuration(section)
    assert tomli.loads(text) == ({"tool": {"torchlint": {}}} if section else {})
    used = tomli.loads(re.sub(r"^# (?=\S+ = |\[)", "", text, flags=re.MULTILINE))
    values = used["tool"]["torchlint"] if section else used
    assert sorted(values) == sorted(KEYS)
    for key, value in values.items():
        checked(key, value, "", AssertionError)  # type: ignore[arg-type]


def test_a_configuration_of_its_own(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    done = cli("init", code=0)
    assert done.stdout.startswith("Wrote torchlint.toml; every key is commented out.\n")
    assert done.stdout.endswith(PRE_COMMIT)
    [repository] = yaml.safe_load(PRE_COMMIT)["repos"]
    [hook] = repository["hooks"]
    assert (hook["id"], hook["entry"]) == ("torchlint", "torchlint check --force-exclude")
    assert (cli.cwd / "torchlint.toml").read_text() == configuration()
    assert cli("check", "--output-format", "concise", code=1).stdout.startswith("a.py:2:1: TL101")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_section_of_pyproject(cli: Cli, source: Source, end: str) -> None:
    before = f'[project]{end}name = "x"{end}'
    path = cli.write("pyproject.toml", before)
    path.chmod(0o640)
    cli("init", "--pyproject", code=0)
    assert path.read_bytes().decode() == before + ("\n" + configuration("tool.torchlint")).replace(
        "\n", end
    )
    assert path.stat().st_mode & 0o777 == 0o640
    cli.write("a.py", source("slow"))
    assert f"{path}" in cli("check", "--verbose", code=1).stderr


@pytest.mark.parametrize("pyproject", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("torchlint.toml", "", "torchlint.toml configures torchlint already"),
        (".torchlint.toml", "jobs = 1\n", ".torchlint.toml configures torchlint already"),
        ("pyproject.toml", "[tool.torchlint]\n", "pyproject.toml configures torchlint already"),
    ],
)
def test_nothing_is_overwritten(
    cli: Cli, name: str, text: str, words: str, pyproject: bool
) -> None:
    path = cli.write(name, text)
    done = cli("init", *["--pyproject"] * pyproject, code=2)
    assert words in done.stderr
    assert path.read_text() == text
    assert sorted(path.name for path in cli.cwd.iterdir()) == sorted([".git", name])


def test_a_dangling_link_is_not_written_through(cli: Cli) -> None:
    (cli.cwd / "torchlint.toml").symlink_to("elsewhere.toml")
    assert "exists already" in cli("init", code=2).stderr
    assert not (cli.cwd / "elsewhere.toml").exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "there is no pyproject.toml here"),
        ("x = [\n", "pyproject.toml:1: not valid TOML"),
        ("tool = {a = 1}\n", "[tool.torchlint] cannot be added"),
        ("\ufeffx = 1\n", "byte order mark"),
    ],
)
def test_a_pyproject_that_takes_no_section(cli: Cli, text: str | None, words: str) -> None:
    if text is not None:
        cli.write("pyproject.toml", text)
    assert words in cli("init", "--pyproject", code=2).stderr
    if text is not None:
        assert (cli.cwd / "pyproject.toml").read_text("utf-8") == text


def test_a_configuration_above_is_named(cli: Cli) -> None:
    cli.write("torchlint.toml", "jobs = 1\n")
    (cli.cwd / "sub").mkdir()
    cli.cwd /= "sub"
    assert "In this folder it takes the place of " in cli("init", code=0).stdout
