"""Rules of an installed plugin are rules like ours for every command, and a broken plugin costs
only itself."""

from __future__ import annotations

import json
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.small_plugin import install, rule_text
from torchlint.cli.main import _distrust_current_directory

SOURCE = "import torch\ntorch.acme()\ntorch.slow()\n"
"""A finding of the plugin's in line 2, and one of ours (see `conftest`) in line 3."""


def plug(cli: Any, files: Mapping[str, str], package: str = "torchlint_acme") -> Path:
    """Install a plugin for the runs of `cli`, and return the folder on the import path that it lies
    in."""
    folder = cli.cwd.parent / "installed"
    install(folder, package, files, entry=f"{package}.rules")
    cli.environment["PYTHONPATH"] = os.pathsep.join((str(cli.package), str(folder)))
    return folder


@pytest.fixture
def acme(cli: Any) -> Any:
    """A `cli` with a plugin of one rule, AC101, and a file that it finds something in."""
    plug(cli, {"rules/acme.py": rule_text("acme", "AC101")})
    cli.write("train.py", SOURCE)
    return cli


def codes(done: Any) -> list[str]:
    return [entry["code"] for entry in json.loads(done.stdout)]


def test_it_is_listed_with_its_package(acme: Any) -> None:
    lines = acme("rules", code=0).stdout.splitlines()
    assert [
        line.endswith("Title of acme [torchlint-acme]") for line in lines if "AC101" in line
    ] == [True]
    assert not [line for line in lines if "TL101" in line and "[" in line]
    packages = {
        info["code"]: info["package"]
        for info in json.loads(acme("rules", "--output-format", "json").stdout)
    }
    assert (packages["AC101"], packages["TL101"]) == ("torchlint-acme", "torchlint")
    assert "Title of acme" in acme("rule", "AC101", code=0).stdout


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["AC101", "TL101"]),
        (["--select", "AC"], ["AC101"]),
        (["--select", "acme"], ["AC101"]),
        (["--ignore", "AC101"], ["TL101"]),
        (["--isolated"], ["AC101", "TL101"]),
    ],
)
def test_it_is_selected_and_ignored(acme: Any, options: list[str], found: list[str]) -> None:
    assert codes(acme("check", "--output-format", "json", *options, code=1)) == found


def test_it_is_configured(acme: Any) -> None:
    acme.write("other.py", SOURCE)
    ignores = '"train.py" = ["TL"]\n"other.py" = ["AC1", "slow"]\n'
    acme.write("torchlint.toml", f'[severity]\nAC = "info"\n\n[per-file-ignores]\n{ignores}')
    (entry,) = json.loads(acme("check", "--output-format", "json", code=0).stdout)
    assert (entry["code"], entry["severity"]) == ("AC101", "info")


@pytest.mark.parametrize(
    "comment",
    [
        "torchlint: ignore[AC101]",
        "torchlint: ignore[AC1]",
        "torchlint: ignore[acme]",
        "noqa: AC101",
        "noqa: E501, AC101",
    ],
)
def test_a_comment_silences_it(acme: Any, comment: str) -> None:
    acme.write("train.py", SOURCE.replace("acme()", f"acme()  # {comment}"))
    assert codes(acme("check", "--output-format", "json", code=1)) == ["TL101"]


def test_a_prefix_in_a_comment_holds_all_letters(acme: Any) -> None:
    acme.write("train.py", SOURCE.replace("acme()", "acme()  # torchlint: ignore[A]"))
    found = codes(acme("check", "--output-format", "json", code=1))
    assert sorted(found) == ["AC101", "TL001", "TL101"]


def test_sarif_describes_it(acme: Any) -> None:
    (run,) = json.loads(acme("check", "--output-format", "sarif", code=1).stdout)["runs"]
    rules = {rule["id"]: rule for rule in run["tool"]["driver"]["rules"]}
    assert rules["AC101"]["help"]["markdown"].startswith("# acme (AC101)")
    result = next(result for result in run["results"] if result["ruleId"] == "AC101")
    assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == "AC101"
    assert result["fixes"]


def test_its_fix_is_applied(acme: Any) -> None:
    acme("fix", "--apply", code=0)
    assert (acme.cwd / "train.py").read_text() == "import torch\ntorch.fine()\ntorch.fine()\n"


# Broken plugins


def test_a_broken_file_is_said_in_one_line_and_stops_nothing(cli: Any) -> None:
    files = {
        "rules/acme.py": rule_text("acme", "AC101"),
        "rules/broken.py": rule_text("broken", "TL999"),
    }
    folder = plug(cli, files)
    cli.write("train.py", SOURCE + "torch.broken()  # torchlint: ignore[AC999]\n")
    cli.write("torchlint.toml", 'extend-select = ["AC999"]\n')
    done = cli("check", code=2)
    broken = str(folder / "torchlint_acme" / "rules" / "broken.py")
    assert [line for line in (done.stdout + done.stderr).splitlines() if "broken.py" in line] == [
        f"  {broken}: rules of the plugin torchlint-acme are left out: "
        "code TL999 is torchlint's own; a plugin needs another prefix than TL"
    ]
    assert "AC101" in done.stdout
    assert "TL101" in done.stdout
    assert "TL001" not in done.stdout
    entries = json.loads(cli("check", "--output-format", "json", code=2).stdout)
    assert [entry["filename"] for entry in entries if entry["code"] == "not-analysed"] == [broken]
    cli("fix", "--apply", code=2)
    assert "torch.acme" not in (cli.cwd / "train.py").read_text()


@pytest.mark.parametrize("arguments", [("rules",), ("rule", "AC999")])
def test_commands_about_rules_say_it_too(cli: Any, arguments: tuple[str, ...]) -> None:
    plug(cli, {"rules/broken.py": "x = 1\n"})
    done = cli(*arguments, code=2)
    assert (
        "broken.py: rules of the plugin torchlint-acme are left out: a rule file needs a docstring"
        in done.stderr
    )
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("failure", ["raise SystemExit('no')", "import no_such_module", "1 / 0"])
def test_a_rule_that_cannot_be_imported_is_said_once(cli: Any, failure: str) -> None:
    plug(cli, {"rules/acme.py": f"{rule_text('acme', 'AC101')}\n{failure}\n"})
    cli.write("a.py", SOURCE)
    cli.write("b.py", SOURCE)
    done = cli("check", "--output-format", "json", code=2)
    assert sorted(codes(done)) == ["TL101", "TL101", "not-analysed"]
    (entry,) = [entry for entry in json.loads(done.stdout) if entry["code"] == "not-analysed"]
    assert entry["filename"].endswith("rules/acme.py")
    assert entry["message"].startswith("rule AC101 of the plugin torchlint-acme is left out: ")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("yield node", "TypeError: a check yields Hit(node, ...), not Call"),
        ("yield Hit('x')", "TypeError: a check yields Hit(node, ...), not Hit"),
        ("yield Hit(node, message='{nothing}')", "KeyError: 'nothing'"),
        ("yield Hit(node, fix=Fix((1,), Safety.SAFE, 'Change'))", ""),
        ("yield Hit(node, fix=Fix((Replace(node, None),), Safety.SAFE, 'Change'))", ""),
    ],
)
def test_a_rule_that_does_nonsense_hides_no_other_finding(cli: Any, body: str, words: str) -> None:
    plug(cli, {"rules/acme.py": rule_text("acme", "AC101", body)})
    cli.write("train.py", SOURCE)
    done = cli("check", "--output-format", "json", code=2)
    assert "TL101" in codes(done)
    (entry,) = [entry for entry in json.loads(done.stdout) if entry["code"] == "not-analysed"]
    assert entry["message"].startswith(f"AC101 failed on line 2: {words}")
    assert entry["message"].endswith("; this is a bug in torchlint-acme, please report it")


# Where plugins come from


def test_nothing_in_the_checked_tree_is_a_plugin(cli: Any) -> None:
    install(
        cli.cwd,
        "torchlint_acme",
        {"rules/acme.py": rule_text("acme", "AC101")},
        entry="torchlint_acme.rules",
    )
    cli.write("train.py", SOURCE)
    assert codes(cli("check", "--output-format", "json", "train.py", code=1)) == ["TL101"]
    cli.environment["PYTHONPATH"] = os.pathsep.join((str(cli.package), str(cli.cwd)))
    assert codes(cli("check", "--output-format", "json", "train.py", code=1)) == ["TL101"]


def test_a_folder_that_an_editable_install_names_stays_on_the_import_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, library = str(tmp_path), sysconfig.get_paths()["purelib"]
    monkeypatch.chdir(tmp_path)
    for before, after in (
        (["", here, library, here], [library, here]),
        ([here, library], [library]),
        (
            [here, sysconfig.get_paths()["stdlib"], here, library],
            [sysconfig.get_paths()["stdlib"], library],
        ),
        ([here], []),
        (["", library], [library]),
    ):
        monkeypatch.setattr(sys, "path", before)
        _distrust_current_directory()
        assert sys.path == after


# The cache


@pytest.mark.parametrize("name", ["rules/_words.py", "words.py"])
def test_a_change_beside_the_rule_is_seen(
    cli: Any, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("CI", raising=False)
    body = (
        f"from torchlint_acme.{name[:-3].replace('/', '.')} import WORD\nyield Hit(node, "
        "message=WORD)"
    )
    folder = plug(cli, {"rules/acme.py": rule_text("acme", "AC101", body), name: "WORD = 'one'\n"})
    os.utime(cli.write("train.py", SOURCE), (1e9, 1e9))
    for word in ("one", "three"):
        (folder / "torchlint_acme" / name).write_text(f"WORD = '{word}'\n")
        for _ in range(3):
            entries = json.loads(cli("check", "--output-format", "json", code=1).stdout)
            assert [entry["message"] for entry in entries if entry["code"] == "AC101"] == [word]
