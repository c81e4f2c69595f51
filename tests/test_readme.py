"""The README tells the truth: its outputs, rule table, configuration and commands are checked
against the tool.

Run ``python -m tests.test_readme`` to write the generated parts anew.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tomli
import yaml

from torchlint.catalog.rules import load_catalog
from torchlint.cli.main import run
from torchlint.manual.pages import readme_table
from torchlint.settings.load import load_settings

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
TESTS = "python -m pytest -n auto"
"""Runs what is not marked slow."""
ALL_TESTS = f'{TESTS} -m ""'
"""Runs all tests."""
_OUTPUT = re.compile(r"<!-- output: (.*?) -->\n```(\w+)\n(.*?)```\n", re.DOTALL)
_EXAMPLE = re.compile(r"<!-- example: (.*?) -->\n```python\n(.*?)```\n", re.DOTALL)
_TABLE = re.compile(r"<!-- rules -->\n(.*?)\n`torchlint rule TL101`", re.DOTALL)


def output_of(command: str) -> str:
    """Run a torchlint command of the README in the checkout and return its standard output."""
    words = shlex.split(command)
    assert words[0] == "torchlint"
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def regenerated(text: str) -> str:
    """Return the README with all generated parts made anew."""
    text = _EXAMPLE.sub(
        lambda m: (
            f"<!-- example: {m[1]} -->\n```python\n{(ROOT / m[1]).read_text(encoding='utf-8')}```\n"
        ),
        text,
    )
    text = _OUTPUT.sub(
        lambda m: f"<!-- output: {m[1]} -->\n```{m[2]}\n{output_of(m[1])}```\n", text
    )
    table = readme_table(load_catalog()).strip()
    return _TABLE.sub(lambda m: f"<!-- rules -->\n{table}\n\n`torchlint rule TL101`", text)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)


def test_generated_parts_are_current() -> None:
    text = README.read_text(encoding="utf-8")
    assert len(_OUTPUT.findall(text)) == 2
    assert len(_EXAMPLE.findall(text)) == 1
    assert _TABLE.search(text)
    assert regenerated(text) == text, "run: python -m tests.test_readme"


def test_the_number_of_rules_is_the_catalogues() -> None:
    rules = load_catalog().rules
    wanted = f"All {len(rules)} rules, {sum(rule.default for rule in rules)} of them on by default"
    assert wanted in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("sample", blocks("toml"))
def test_configuration_samples_load(sample: str, tmp_path: Path) -> None:
    assert tomli.loads(sample)
    (tmp_path / "pyproject.toml").write_text(sample, encoding="utf-8")
    settings = load_settings(str(tmp_path / "pyproject.toml"), {}, catalog=load_catalog())
    assert settings.assume_hot == ("act", "*_update")
    assert settings.target_torch == (2, 4)


def test_pre_commit_sample_names_real_hooks() -> None:
    hooks = {
        hook["id"]: hook
        for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    }
    [repository] = yaml.safe_load(blocks("yaml")[0])["repos"]
    [hook] = repository["hooks"]
    same = ("id", "name", "entry", "types_or", "require_serial")
    assert {key: hook[key] for key in same} == {key: hooks["torchlint"][key] for key in same}
    assert set(hooks) == {"torchlint", "torchlint-fix"}


def test_the_first_commands_find_and_repair(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes((ROOT / "fixtures" / "demo" / "train.py").read_bytes())
    codes = []
    install, *lines = blocks("console")[0].splitlines()
    assert install.startswith("$ python -m pip install .")
    home = "$ cd path/to/your/project && "
    assert lines[0].startswith(home)  # the files of the clone are not the reader's
    for line in lines:
        words = shlex.split(line.removeprefix(home).removeprefix("$ "))
        assert words[0] == "torchlint"
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        codes.append(done.returncode)
    assert codes == [1, 0]
    assert "loss.item()" not in (tmp_path / "train.py").read_text(encoding="utf-8")


def test_the_clone_leaves_out_its_fixtures_unless_they_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert run(["check", "--show-files", "."]) == 0
    files = capsys.readouterr().out.splitlines()
    assert "torchlint/cli/main.py" in files
    assert not [file for file in files if file.startswith("fixtures/")]
    assert run(["check", "--show-files", "fixtures/demo/train.py"]) == 0
    assert capsys.readouterr().out == "fixtures/demo/train.py\n"


def test_the_test_commands_are_what_ci_runs() -> None:
    commands = " ".join(blocks("console"))
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    for piece in ("torch==2.13.0", "[dev]", ALL_TESTS):
        assert piece in commands
        assert piece in ci
    assert f"{TESTS}\n" in commands


def test_the_last_test_command_leaves_out_no_test(tmp_path: Path) -> None:
    """The options of the project leave out slow tests; the README's last command runs them too."""
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_two.py").write_text(
        "import pytest\n\n\ndef test_quick(): pass\n\n\n@pytest.mark.slow\ndef test_slow(): pass\n"
    )
    short, whole = shlex.split(TESTS), shlex.split(ALL_TESTS)
    assert short == whole[:5] == ["python", "-m", "pytest", "-n", "auto"]
    for words, names in ((short[5:], ["test_quick"]), (whole[5:], ["test_quick", "test_slow"])):
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-q",
            "-p",
            "no:randomly",
            *words,
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert re.findall(r"::(\w+)", done.stdout) == names, done.stdout


@pytest.mark.parametrize("command", ["check", "fix", "rule", "rules", "docs", "verify"])
def test_commands_named_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"torchlint {command}" in README.read_text(encoding="utf-8")
    assert run([command, "--help"]) == 0
    said = capsys.readouterr().out
    for option in re.findall(r"--[a-z][a-z-]+", README.read_text(encoding="utf-8")):
        if option in ("--select", "--ignore", "--fail-on", "--output-file") and command == "check":
            assert option in said


if __name__ == "__main__":
    README.write_text(regenerated(README.read_text(encoding="utf-8")), encoding="utf-8")
