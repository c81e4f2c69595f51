from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.finding import Finding, Note, NoteKind, Safety, TextFix
from torchlint.report.json_list import render
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]

PLACES = {"cell", "filename", "location", "end_location", "noqa_row"}
ENTRY_KEYS = PLACES | {"code", "fix", "message", "name", "severity", "url"}
EXTRA_ENTRY_KEYS = {"fingerprint", "why_hot"}
FIX_KEYS = {"applicability", "edits", "message"}
EXTRA_FIX_KEYS = {"note"}
EDIT_KEYS = {"content", "end_location", "location"}
PLACE_KEYS = {"column", "row"}


def check_keys(entry: dict[str, Any], extra: set[str], fix_extra: set[str]) -> None:
    assert set(entry) == ENTRY_KEYS | extra
    assert set(entry["location"]) == set(entry["end_location"]) == PLACE_KEYS
    if entry["fix"] is not None:
        assert set(entry["fix"]) == FIX_KEYS | fix_extra
        for edit in entry["fix"]["edits"]:
            assert set(edit) == EDIT_KEYS
            assert set(edit["location"]) == set(edit["end_location"]) == PLACE_KEYS


def test_ruff_itself_prints_the_frozen_keys(tmp_path: Path) -> None:
    pytest.importorskip("ruff")
    (tmp_path / "a.py").write_text("import os\n")
    (tmp_path / "b.py").write_text("def f(:\n")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        "json",
    ]
    done = subprocess.run([*command, "."], cwd=tmp_path, capture_output=True, text=True)
    entries = json.loads(done.stdout)
    assert {entry["code"] for entry in entries} >= {"F401", "invalid-syntax"}
    assert any(entry["fix"] for entry in entries)
    for entry in entries:
        check_keys(entry, set(), set())
        assert Path(entry["filename"]).is_absolute()


def test_entry(make_finding: Findings, make_run: Runs) -> None:
    (entry,) = json.loads(render(make_run(make_finding(statement_end=7))))
    check_keys(entry, EXTRA_ENTRY_KEYS, EXTRA_FIX_KEYS)
    assert entry == {
        "cell": None,
        "code": "TL102",
        "name": "cpu-then-move",
        "message": "Tensor is made on the CPU, then moved to `cuda`",
        "severity": "warning",
        "filename": "/project/train.py",
        "location": {"row": 6, "column": 16},
        "end_location": {"row": 6, "column": 41},
        "noqa_row": 7,
        "url": "https://example.org/TL102",
        "fingerprint": "0123456789abcdef",
        "fix": {
            "applicability": "safe",
            "message": "Pass device= to the factory",
            "note": "",
            "edits": [
                {
                    "content": 'torch.zeros(8, device="cuda")',
                    "location": {"row": 6, "column": 16},
                    "end_location": {"row": 6, "column": 41},
                }
            ],
        },
        "why_hot": [
            {"text": "every step: for x in loader", "filename": "/project/train.py", "line": 5},
            {"text": "called from main()", "filename": "/project/main.py", "line": 88},
        ],
    }


@pytest.mark.parametrize(
    ("safety", "withheld", "word", "note"),
    [
        (Safety.UNSAFE, "", "unsafe", "may round"),
        (Safety.SUGGESTION, "", "display", "may round"),
        (Safety.SAFE, "a comment stands inside", "display", "a comment stands inside"),
    ],
)
def test_applicability(
    make_finding: Findings,
    make_run: Runs,
    safe_fix: TextFix,
    safety: Safety,
    withheld: str,
    word: str,
    note: str,
) -> None:
    fix = dataclasses.replace(safe_fix, safety=safety, note="may round", withheld=withheld)
    (entry,) = json.loads(render(make_run(make_finding(fix=fix))))
    assert (entry["fix"]["applicability"], entry["fix"]["note"]) == (word, note)


@pytest.mark.parametrize("code", ["invalid-syntax", "unreadable"])
def test_engine_codes_take_no_comment_and_have_no_page(
    make_finding: Findings, make_run: Runs, code: str
) -> None:
    (entry,) = json.loads(render(make_run(make_finding(code=code, name=code, fix=None))))
    check_keys(entry, EXTRA_ENTRY_KEYS, EXTRA_FIX_KEYS)
    assert (entry["code"], entry["noqa_row"], entry["url"]) == (code, None, None)


def test_files_not_analysed_are_entries_and_other_notes_are_not(make_run: Runs) -> None:
    notes = (
        Note(NoteKind.SKIPPED, "big.py", "larger than 1 MB"),
        Note(NoteKind.FAILED, "crash.py", "rule TL101 crashed", 12),
        Note(NoteKind.UNWRITTEN, "ro.py", "read-only"),
        Note(NoteKind.WITHHELD, "w.py", "comment"),
    )
    entries = json.loads(render(make_run(notes=notes)))
    for entry in entries:
        check_keys(entry, EXTRA_ENTRY_KEYS, EXTRA_FIX_KEYS)
    assert [(e["code"], e["filename"], e["severity"], e["location"]["row"]) for e in entries] == [
        ("not-analysed", "/project/big.py", "warning", 1),
        ("not-analysed", "/project/crash.py", "error", 12),
    ]


def test_rule_without_a_page_has_no_url(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding())
    rules = {code: dataclasses.replace(rule, url="") for code, rule in run.rules.items()}
    (entry,) = json.loads(render(dataclasses.replace(run, rules=rules)))
    assert entry["url"] is None


def test_names_are_joined_to_the_working_folder(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(
        make_finding(filename="../a.py", fix=None),
        make_finding(filename="/abs/b.py"),
        cwd="/project/src",
    )
    names = [entry["filename"] for entry in json.loads(render(run))]
    assert names == ["/project/a.py", "/abs/b.py"]


def test_ascii_and_well_formed_whatever_the_text_holds(
    make_finding: Findings, make_run: Runs
) -> None:
    name, message = "a\udcff\x1b\n😀.py", "\x00\x7f\x9b\u202e\ud800"
    text = render(make_run(make_finding(filename=name, message=message)))
    assert text.isascii()
    assert "\x1b" not in text
    assert "\x7f" not in text
    (entry,) = json.loads(text)
    entry["filename"].encode()  # no lone surrogate is left
    assert entry["filename"] == "/project/a\\udcff\x1b\n😀.py"
    assert entry["message"] == "\x00\x7f\x9b\u202e\\ud800"


def test_nothing_found_is_an_empty_list(make_run: Runs) -> None:
    assert render(make_run()) == "[]\n"
