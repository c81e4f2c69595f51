"""``torchlint rule --new``: what it writes works at once, and it overwrites nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import tomli
from click.testing import CliRunner, Result

import torchlint
from tests.conftest import BEING_WRITTEN
from tests.patience import PATIENCE
from torchlint.base.errors import ConfigError, UsageError
from torchlint.catalog.rule_file import read_rule_file
from torchlint.catalog.rules import load_catalog
from torchlint.cli.rule import rule_command

ROOT = Path(torchlint.__file__).parents[1]
PACKAGE = "src/torchlint_acme_corp"


def invoke(asked: str) -> Result:
    return CliRunner().invoke(rule_command, ["--new", asked], catch_exceptions=True)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_elsewhere_a_plugin_is_written(here: Path) -> None:
    done = invoke("acme-corp/double-detach")
    assert done.exit_code == 0, done.output
    folder = here / "torchlint-acme-corp"
    assert files(folder) == [
        "README.md",
        "pyproject.toml",
        f"{PACKAGE}/__init__.py",
        f"{PACKAGE}/rules/__init__.py",
        f"{PACKAGE}/rules/acme_corp/__init__.py",
        f"{PACKAGE}/rules/acme_corp/double_detach.py",
        "tests/test_manual.py",
    ]
    assert all(f"Wrote torchlint-acme-corp/{name}" in done.output for name in files(folder))
    assert "cd torchlint-acme-corp" in done.output
    project = tomli.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"] == {
        "torchlint.rules": {"acme_corp": "torchlint_acme_corp.rules"}
    }
    path = folder / PACKAGE / "rules" / "acme_corp" / "double_detach.py"
    info = read_rule_file(str(path), "x.double_detach", "acme_corp", plugin=True)
    assert (info.code, info.name) == ("ACMEC101", "double-detach")
    assert "$" not in "".join(
        (folder / name).read_text().replace("$ ", "") for name in files(folder)
    )


def test_in_a_plugin_a_rule_is_added(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("acme-corp/double-detach")
    rules = here / "torchlint-acme-corp" / PACKAGE / "rules"
    monkeypatch.chdir(rules)
    before = files(here)
    for asked, code in (("acme-corp/lost-graph", "ACMEC102"), ("late/lost-host", "ACMEC103")):
        done = invoke(asked)
        assert done.exit_code == 0, done.output
        path = rules / f"{asked.replace('-', '_')}.py"
        assert read_rule_file(str(path), path.stem, "", plugin=True).code == code
    added = {path.rpartition("rules/")[2] for path in set(files(here)) - set(before)}
    assert added == {"acme_corp/lost_graph.py", "late/__init__.py", "late/lost_host.py"}


def test_in_a_checkout_a_rule_of_our_own_is_written(here: Path) -> None:
    for name in ("torchlint/rules/transfer", "fixtures/rules/transfer"):
        shutil.copytree(ROOT / name, here / name)
    shutil.copy(ROOT / "torchlint" / "rule.py", here / "torchlint")
    before = files(here)
    done = invoke("transfer/double-detach")
    assert done.exit_code == 0, done.output
    assert set(files(here)) - set(before) == {
        "torchlint/rules/transfer/double_detach.py",
        "fixtures/rules/transfer/double_detach.py",
        "fixtures/rules/transfer/double_detach.diff",
    }
    path = here / "torchlint" / "rules" / "transfer" / "double_detach.py"
    code = read_rule_file(str(path), "torchlint.rules.transfer.double_detach", "transfer").code
    others = {
        info.code
        for info in load_catalog().rules
        if info.family == "transfer" and info.code.startswith("TL")
    }
    assert code == f"TL{max(int(other[2:]) for other in others) + 1}"
    assert code in (here / "fixtures" / "rules" / "transfer" / "double_detach.py").read_text()
    assert isinstance(invoke("acme/double-detached").exception, UsageError)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("double-detach", "is not of the form FAMILY/NAME"),
        ("/double-detach", "is not of the form FAMILY/NAME"),
        ("Acme/double-detach", "is not of the form FAMILY/NAME"),
        ("../double-detach", "is not of the form FAMILY/NAME"),
        ("acme/../../x", "lower-case words"),
        ("acme/Double", "lower-case words"),
        ("acme/", "lower-case words"),
        ("acme/a--b", "lower-case words"),
        ("a1/double-detach", "too short"),
        ("tl/double-detach", "torchlint's own"),
        (
            "acme/host-copy-in-loop",
            "the name host-copy-in-loop is already taken by TL113 of torchlint",
        ),
        ("acme/\x1b[31m", r"\x1b[31m"),
    ],
)
def test_a_name_that_cannot_be_used_is_explained(here: Path, asked: str, reason: str) -> None:
    done = invoke(asked)
    assert isinstance(done.exception, UsageError)
    assert str(done.exception).startswith("rule --new: ")
    assert reason in str(done.exception)
    assert files(here) == []


def test_nothing_is_overwritten(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "torchlint-acme").mkdir()
    assert "is there already" in str(invoke("acme/double-detach").exception)
    (here / "torchlint-acme").rmdir()
    invoke("acme/double-detach")
    monkeypatch.chdir(here / "torchlint-acme")
    before = {name: (here / name).read_bytes() for name in files(here)}
    done = invoke("acme/double-detach")
    assert "is there already; nothing was written" in str(done.exception)
    assert {name: (here / name).read_bytes() for name in files(here)} == before


@pytest.mark.parametrize("text", ["[project\n", "project = 1\n", "[project]\nentry-points = []\n"])
def test_a_project_file_that_cannot_be_read_is_named(here: Path, text: str) -> None:
    (here / "pyproject.toml").write_text(text)
    done = invoke("acme/double-detach")
    assert isinstance(done.exception, ConfigError)
    assert str(done.exception).startswith(str(here / "pyproject.toml"))


def test_a_plugin_without_a_folder_is_explained(here: Path) -> None:
    (here / "pyproject.toml").write_text(
        '[project.entry-points."torchlint.rules"]\nacme = "acme.rules"\n'
    )
    assert "there is no folder 'acme.rules' of rules here" in str(
        invoke("acme/double-detach").exception
    )


def test_the_project_of_somebody_else_gets_a_plugin_beside_it(here: Path) -> None:
    (here / "pyproject.toml").write_text('[project]\nname = "x"\n')
    assert invoke("acme/double-detach").exit_code == 0
    assert (here / "torchlint-acme" / "pyproject.toml").is_file()


def test_all_codes_of_a_family_can_be_given(here: Path) -> None:
    (here / "torchlint" / "rules" / "debug").mkdir(parents=True)
    (here / "fixtures" / "rules").mkdir(parents=True)
    (here / "torchlint" / "rule.py").touch()
    (here / "torchlint" / "rules" / "debug" / "last.py").write_text('rule = Rule(code="TL899")\n')
    assert "all codes TL8… are given" in str(invoke("debug/double-detach").exception)


@pytest.mark.parametrize("arguments", [["--new", "a/b", "TL101"], ["--new", "a/b", "--all"]])
def test_it_goes_with_nothing_else(arguments: list[str]) -> None:
    assert isinstance(CliRunner().invoke(rule_command, arguments).exception, UsageError)


@pytest.mark.slow
def test_a_rule_of_our_own_passes_our_tests(here: Path) -> None:
    for name in ("torchlint", "fixtures", "tests"):
        shutil.copytree(ROOT / name, here / name, ignore=BEING_WRITTEN)
    for name in ("pyproject.toml", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, here)
    run(here, "torchlint", "rule", "--new", "transfer/double-detach")
    tests = ["test_rules.py", "test_fixtures.py", "test_fixes_run.py"]
    path = here / "torchlint" / "rules" / "transfer" / "double_detach.py"
    code = read_rule_file(str(path), path.stem, "transfer").code
    done = run(
        here, "pytest", "-q", "-k", f"{code} or double_detach", *(f"tests/{name}" for name in tests)
    )
    # The manual, two about the fixture, and the safe fix and the examples executed.
    assert int(done.split(" passed")[0].split()[-1]) >= 5, done
    run(here, "pytest", "-q", "-k", "not sees", "tests/test_house.py")


def run(folder: Path, *arguments: str) -> str:
    """Run a module in a copy of the checkout with the torchlint of that copy, and return what it
    prints."""
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own that sees the packages of this one, so that only the plugin has to
    be installed."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    # With pip among them, which takes seconds to unpack, none is made.
    less = ["--without-pip"] if find_spec("pip") else []
    subprocess.run([sys.executable, "-m", "venv", *less, str(folder)], check=True, timeout=PATIENCE)
    (library,) = folder.glob("lib/python3*/site-packages")
    outer = [
        str(ROOT),
        *(entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")),
    ]
    (library / "outer.pth").write_text("\n".join(outer) + "\n")
    return folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the environment is laid out differently there")
@pytest.mark.parametrize("editable", [False, True], ids=["installed", "editable"])
def test_a_plugin_works_where_it_is_installed(here: Path, venv: Path, editable: bool) -> None:
    invoke("acme/double-detach")
    folder = here / "torchlint-acme"
    pip = [
        str(venv),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--no-deps",
        "--force-reinstall",
    ]
    # Where hatchling is here, nothing has to be fetched.
    pip += (
        ["--no-index", "--no-build-isolation"]
        if find_spec("hatchling") and find_spec("editables")
        else []
    )
    done = subprocess.run(
        [*pip, *(["-e"] if editable else []), "."], cwd=folder, capture_output=True, text=True
    )
    if "No matching distribution found for hatchling" in done.stderr:
        pytest.skip("hatchling is neither here nor to be had")
    assert done.returncode == 0, done.stdout + done.stderr
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def tool(*arguments: str, code: int = 0, cwd: Path = folder) -> str:
        done = subprocess.run(
            [str(venv), "-m", *arguments],
            cwd=cwd,
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    assert "Detach a tensor once [torchlint-acme]" in tool("torchlint", "rules")
    assert tool("torchlint", "rule", "ACME101").startswith("double-detach (ACME101)\n")
    example = (
        (ROOT / "torchlint" / "manual" / "template" / "fixture.py.txt")
        .read_text()
        .replace("$code", "ACME101")
    )
    (here / "train.py").write_text(example)
    assert "ACME101" in tool("torchlint", "check", "--select", "ACME", "train.py", code=1, cwd=here)
    tool("torchlint", "fix", "--apply", "--select", "ACME", "train.py", cwd=here)
    after = (here / "train.py").read_text()
    assert after == example.replace("loss.detach().detach()", "loss.detach()")
    # The tree of a plugin in work can be its own current folder, and its tests pass as they are.
    tool("torchlint", "rules", cwd=folder / "src")
    assert " passed" in tool("pytest", "-q", "-p", "no:cacheprovider")
