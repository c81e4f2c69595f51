"""The `agent` format: complete blocks whose patches apply, the most worth first, within a number of
tokens."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.finding import FileEdits, Safety, Severity, TextFix
from torchlint.cli.main import run as torchlint
from torchlint.report.agent import render
from torchlint.report.kit.tokens import fitting, within
from torchlint.report.run_report import Portion

FIXTURES = Path(__file__).parent.parent.parent / "fixtures"


@pytest.fixture
def fix(safe_fix: TextFix) -> TextFix:
    return dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="It may round.")


def blocks(text: str) -> list[str]:
    """Return what is said of each finding."""
    return [part for part in text.split("\n\n") if re.match(r"\S+:\d+:\d+ ", part)]


def test_a_block_is_complete(fix: TextFix, make_finding, make_run) -> None:
    run = make_run(make_finding(fix=fix))
    prove = "  prove: torchlint verify --output-format agent train.py --select TL102 --unsafe-fixes"
    assert render(run).splitlines() == [
        "train.py:6:16 TL102 warning: Tensor is made on the CPU, then moved to `cuda`",
        '  code: mask = torch.zeros(8).to("cuda")',
        "  why: every step: for x in loader (train.py:5) <- called from main() (main.py:88)",
        "  fix[unsafe]: Pass device= to the factory",
        "  note: It may round.",
        "--- a/train.py",
        "+++ b/train.py",
        "@@ -5,3 +5,3 @@",
        "     for x in loader:",
        '-        mask = torch.zeros(8).to("cuda")',
        '+        mask = torch.zeros(8, device="cuda")',
        "         loss = model(x, mask)",
        f"{prove} -- SCRIPT.py",
        "",
    ]
    known = dataclasses.replace(run, portion=Portion(programs={"train.py": "run/all.py"}))
    assert f"{prove} -- run/all.py\n" in render(known)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (None, "repair: by hand; read `torchlint rule TL102`"),
        ({"safety": Safety.SUGGESTION}, "fix[suggestion]: Pass device= to the factory"),
        ({"withheld": "a comment is in the way"}, "note: not applied: a comment is in the way"),
    ],
)
def test_what_torchlint_does_not_write_is_proved_against_the_last_commit(
    changes: dict[str, Any] | None, said: str, fix: TextFix, make_finding, make_run
) -> None:
    offered = None if changes is None else dataclasses.replace(fix, **changes)
    lines = render(make_run(make_finding(fix=offered))).splitlines()
    assert f"  {said}" in lines
    assert lines[-2] == (
        "  prove: torchlint verify --output-format agent . --against HEAD -- SCRIPT.py"
    )


def test_a_notebook_has_patches_of_its_cells_and_no_program(fix, make_finding, make_run) -> None:
    edits = tuple(dataclasses.replace(edit, cell=4) for edit in fix.edits)
    fix = dataclasses.replace(fix, edits=edits)
    text = render(make_run(make_finding(filename="n.ipynb", cell=4, fix=fix)))
    assert text.startswith("n.ipynb:cell 4:6:16 TL102 ")
    assert "\n--- a/n.ipynb:cell 4\n+++ b/n.ipynb:cell 4\n" in text
    assert "prove:" not in text


def test_the_most_worth_comes_first_and_a_fix_of_several_once(
    fix: TextFix, make_finding, make_run
) -> None:
    info = make_finding(severity=Severity.INFO, code="TL405", fix=None)
    error = make_finding(severity=Severity.ERROR, code="TL909", fix=None)
    run = make_run(info, make_finding(fix=fix), make_finding(fix=fix, code="TL103"), error)
    found = blocks(render(run))
    assert [block.split()[1] for block in found] == ["TL909", "TL102", "TL103", "TL405"]
    assert [block.count("@@ -") for block in found] == [0, 1, 0, 0]
    assert f"fix[unsafe]: the one at {found[1].split()[0]}" in found[2]


def test_the_other_files_of_a_fix_are_in_its_patch_and_its_proof(
    fix: TextFix, make_finding, make_run
) -> None:
    rows = tuple((row, text) for _, row, text in make_run(make_finding()).files[0].source)
    other = FileEdits("lib/other.py", "/project/lib/other.py", "", fix.edits, rows)
    text = render(make_run(make_finding(fix=dataclasses.replace(fix, elsewhere=(other,)))))
    assert "+++ b/lib/other.py\n@@ -5,3 +5,3 @@\n" in text
    assert " lib/other.py --select TL102 " in text


def test_portions_join_to_the_whole(make_finding, make_run) -> None:
    found = (make_finding(message=f"{at} " + "word " * 40, fix=None) for at in range(9))
    run = make_run(*found)
    again = ("torchlint", "check", ".")
    whole = render(dataclasses.replace(run, portion=Portion(10_000, 0, again)))
    assert "left out" not in whole
    assert len(blocks(whole)) == 9
    parts, skip = "", 0
    while True:
        text = render(dataclasses.replace(run, portion=Portion(200, skip, again)))
        shown, left, command = text.partition("left out: ")
        assert len(shown) <= 4 * 200
        parts += shown
        if not left:
            break
        skip = int(re.search(r"--skip (\d+) \.$", command)[1])
    assert parts == whole


def test_one_block_is_shown_however_small_the_number_of_tokens_is() -> None:
    assert fitting(["a" * 100, "b"], 1) == 1
    assert fitting(["a" * 4, "b" * 4, "c"], 2) == 2
    assert fitting([], 1) == 0
    assert within(["a" * 7, "b" * 7], 2, "next") == (
        "aaaaaaa\nleft out: 1 of 2 lines; --max-tokens N allows more\nnext\n"
    )


@pytest.mark.slow
def test_each_patch_applies(tmp_path: Path, monkeypatch, capsys) -> None:
    """Of the fixtures of rules: safe fixes, unsafe ones and suggestions."""
    for path in FIXTURES.glob("rules/*/*.py"):
        shutil.copy(path, tmp_path / f"{path.parent.name}_{path.name}")
    monkeypatch.chdir(tmp_path)
    words = ("--isolated", "--select", "ALL", "--no-cache", "--max-tokens", "9999999")
    torchlint(["check", "--output-format", "agent", *words, "."])
    found = [block for block in blocks(capsys.readouterr().out) if "\n@@ -" in block]
    assert len(found) > 300
    refused = []
    for block in found:
        done = subprocess.run(
            ["git", "apply", "--check", "-"], input=block + "\n", text=True, capture_output=True
        )
        refused += [f"{block}\n{done.stderr}"] * bool(done.returncode)
    assert refused == []
