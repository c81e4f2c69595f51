"""The formats for machines: azure, gitlab, json-lines, junit, pylint, rdjson; and grouped, for
people."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.finding import FileReport, Finding, Note, NoteKind, Safety, Severity, TextFix
from torchlint.base.span import Position
from torchlint.report import azure, gitlab, grouped, json_lines, json_list, junit, pylint, rdjson
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
MESSAGE = "Tensor is made on the CPU, then moved to `cuda`"
NOTES = (
    Note(NoteKind.SKIPPED, "big.py", "larger than 1 MB"),
    Note(NoteKind.FAILED, "crash.py", "rule TL101 crashed", 12),
    Note(NoteKind.WITHHELD, "w.py", "comment"),
)


# azure


@pytest.mark.parametrize(
    ("severity", "kind"),
    [(Severity.ERROR, "error"), (Severity.WARNING, "warning"), (Severity.INFO, "warning")],
)
def test_azure(make_finding: Findings, make_run: Runs, severity: Severity, kind: str) -> None:
    assert azure.render(make_run(make_finding(severity=severity))) == (
        "##vso[task.logissue "
        f"type={kind};sourcepath=/project/train.py;linenumber=6;columnnumber=16;code=TL102;]"
        f"{MESSAGE}\n"
    )


def test_azure_escapes_what_ends_a_property_or_a_line(
    make_finding: Findings, make_run: Runs
) -> None:
    text = azure.render(make_run(make_finding(filename="a];b%\n.py", message="100%\r\n##vso[x]")))
    assert "sourcepath=/project/a%5D%3Bb%AZP25%0A.py;" in text
    assert text.endswith("]100%AZP25%0D%0A##vso[x]\n")
    assert text.count("\n") == 1


def test_azure_names_the_cell_and_no_column_of_a_notebook(
    make_finding: Findings, make_run: Runs
) -> None:
    text = azure.render(make_run(make_finding(filename="n.ipynb", cell=4)))
    assert "columnnumber" not in text
    assert f"]cell 4:6:16: {MESSAGE}" in text


def test_azure_tells_of_files_not_analysed(make_run: Runs) -> None:
    first, second = azure.render(make_run(notes=NOTES)).splitlines()
    assert first.startswith(
        "##vso[task.logissue type=warning;sourcepath=/project/big.py;linenumber=1;"
    )
    assert second.startswith(
        "##vso[task.logissue type=error;sourcepath=/project/crash.py;linenumber=12;"
    )


def test_azure_gives_no_line_of_the_file_for_a_note_on_a_cell(make_run: Runs) -> None:
    text = azure.render(make_run(notes=(Note(NoteKind.FAILED, "n.ipynb", "crashed", 12, cell=3),)))
    assert "linenumber=1;" in text
    assert "]cell 3:12:1: crashed" in text


# gitlab


def issues(run: RunReport) -> list[dict[str, Any]]:
    found = json.loads(gitlab.render(run))
    assert isinstance(found, list)
    return found


def test_gitlab(make_finding: Findings, make_run: Runs) -> None:
    (issue,) = issues(make_run(make_finding(end=Position(8, 3))))
    assert len(issue.pop("fingerprint")) == 32
    assert issue == {
        "check_name": "TL102",
        "description": f"TL102 {MESSAGE}",
        "severity": "major",
        "location": {"path": "train.py", "lines": {"begin": 6, "end": 8}},
    }


def test_gitlab_severities(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(
        *(make_finding(severity=grade, filename=grade.value) for grade in Severity), notes=NOTES
    )
    assert [issue["severity"] for issue in issues(run)] == [
        "critical",
        "info",
        "major",
        "major",
        "critical",
    ]


def test_gitlab_fingerprints_stay_and_are_unique(make_finding: Findings, make_run: Runs) -> None:
    """They survive a shift of lines; equal ones, and findings without identity, still differ from
    each other."""
    same = [
        make_finding(),
        make_finding(),
        make_finding(fingerprint=""),
        make_finding(fingerprint="", message="other"),
    ]
    shifted = [
        dataclasses.replace(finding, start=Position(9, 2), end=Position(9, 9)) for finding in same
    ]
    first, second = (
        [issue["fingerprint"] for issue in issues(make_run(*found))] for found in (same, shifted)
    )
    assert first == second
    assert len(set(first)) == 4


def test_gitlab_paths_start_at_the_repository(
    make_finding: Findings, make_run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    run = make_run(make_finding(), make_finding(filename="/elsewhere/x.py"), cwd="/project/sub")
    assert [issue["location"]["path"] for issue in issues(run)] == [
        "/elsewhere/x.py",
        "sub/train.py",
    ]
    monkeypatch.setenv("CI_PROJECT_DIR", "/")
    assert [issue["location"]["path"] for issue in issues(run)] == [
        "elsewhere/x.py",
        "project/sub/train.py",
    ]


# json-lines


def test_json_lines_are_the_entries_of_json(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(
        make_finding(message="ä\u2028\udcff"), make_finding(filename="b.py"), notes=NOTES
    )
    text = json_lines.render(run)
    assert text.isascii()
    assert [json.loads(line) for line in text.splitlines()] == json.loads(json_list.render(run))
    assert len(text.splitlines()) == 4


# junit


def junit_report(tmp_path: Path, run: RunReport) -> Any:
    """Return the report as a JUnit reader sees it."""
    junitparser = pytest.importorskip("junitparser")
    path = tmp_path / "report.xml"
    path.write_text(junit.render(run), encoding="ascii")
    return junitparser.JUnitXml.fromfile(str(path))


def test_junit(tmp_path: Path, make_finding: Findings, make_run: Runs) -> None:
    found = [
        make_finding(),
        make_finding(start=Position(9, 1)),
        make_finding(filename="b.py", severity=Severity.ERROR),
    ]
    report = junit_report(tmp_path, make_run(*found, notes=NOTES))
    assert (report.tests, report.failures, report.errors, report.skipped) == (5, 3, 1, 1)
    suites = {suite.name: suite for suite in report}
    assert set(suites) == {"train.py", "b.py", "big.py", "crash.py"}
    first, second = suites["train.py"]
    assert (first.name, first.classname, first._elem.get("line")) == ("TL102 6:16", "train.py", "6")
    assert second.name == "TL102 9:1"
    (failure,) = first.result
    assert (failure.message, failure.type) == (MESSAGE, "warning")
    assert failure.text == f"train.py:6:16: TL102 {MESSAGE}"
    (crash,) = suites["crash.py"]
    assert (crash.result[0].message, crash.is_error) == ("rule TL101 crashed", True)
    (big,) = suites["big.py"]
    assert (big.result[0].message, big.is_skipped) == ("larger than 1 MB", True)


def test_junit_of_a_clean_run_has_a_case_that_passed(tmp_path: Path, make_run: Runs) -> None:
    report = junit_report(tmp_path, make_run())
    ((case,),) = report
    assert case.is_passed
    assert (report.tests, report.failures) == (1, 0)


# pylint


def test_pylint(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding(), make_finding(filename="n.ipynb", cell=4), notes=NOTES)
    assert pylint.render(run).splitlines() == [
        f"n.ipynb:6: [TL102] cell 4:6:16: {MESSAGE}",
        f"train.py:6: [TL102] {MESSAGE}",
        "big.py:1: [not-analysed] larger than 1 MB",
        "crash.py:12: [not-analysed] rule TL101 crashed",
    ]


# rdjson


def diagnostics(run: RunReport) -> list[dict[str, Any]]:
    report = json.loads(rdjson.render(run))
    assert report["source"] == {"name": "torchlint"}
    found = report["diagnostics"]
    assert isinstance(found, list)
    return found


def test_rdjson(make_finding: Findings, make_run: Runs) -> None:
    (found,) = diagnostics(make_run(make_finding()))
    place = {"start": {"line": 6, "column": 16}, "end": {"line": 6, "column": 41}}
    assert found == {
        "message": MESSAGE,
        "location": {"path": "train.py", "range": place},
        "severity": "WARNING",
        "code": {"value": "TL102", "url": "https://example.org/TL102"},
        "suggestions": [{"range": place, "text": 'torch.zeros(8, device="cuda")'}],
    }


def test_rdjson_counts_columns_in_bytes(make_finding: Findings, make_run: Runs) -> None:
    text = "x\n" * 5 + 'maß = f("ä€😀", torch.ones(8))\n'
    finding = make_finding(start=Position(6, 15), end=Position(6, 28), fix=None)
    (found,) = diagnostics(make_run(finding, text=text))
    before = 'maß = f("ä€😀"'.encode()
    assert found["location"]["range"]["start"]["column"] == len(before) + 3 - 1
    assert (
        found["location"]["range"]["end"]["column"] - found["location"]["range"]["start"]["column"]
        == 13
    )


def test_rdjson_proposes_only_what_one_click_may_do(
    make_finding: Findings, make_run: Runs, safe_fix: TextFix
) -> None:
    def proposed(unsafe_fixes: bool = False, cell: int | None = None, **changes: Any) -> bool:
        fix = dataclasses.replace(safe_fix, **changes)
        (found,) = diagnostics(
            make_run(make_finding(fix=fix, cell=cell), unsafe_fixes=unsafe_fixes)
        )
        return "suggestions" in found

    assert proposed()
    assert not proposed(safety=Safety.UNSAFE)
    assert proposed(True, safety=Safety.UNSAFE)
    assert not proposed(safety=Safety.SUGGESTION)
    assert not proposed(withheld="comment")
    assert not proposed(edits=safe_fix.edits * 2)
    assert not proposed(cell=1)


def test_rdjson_places_in_a_notebook_are_lines(make_finding: Findings, make_run: Runs) -> None:
    (found,) = diagnostics(make_run(make_finding(cell=4)))
    assert found["location"]["range"] == {"start": {"line": 6}}
    assert found["message"].startswith("cell 4:6:16: ")


def test_rdjson_paths(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding(), make_finding(filename="../x.py"), cwd="/project/sub")
    assert [found["location"]["path"] for found in diagnostics(run)] == [
        "/project/x.py",
        "train.py",
    ]


# grouped


def test_grouped(make_finding: Findings, make_run: Runs, safe_fix: TextFix) -> None:
    unsafe = dataclasses.replace(safe_fix, safety=Safety.UNSAFE)
    run = make_run(
        make_finding(),
        make_finding(start=Position(12, 1), fix=unsafe, message="other"),
        make_finding(filename="bad.py", code="invalid-syntax", message="bad", fix=None),
        make_finding(filename="n.ipynb", cell=4, fix=None),
    )
    assert grouped.render(run) == (
        "bad.py:\n  6:16 invalid-syntax: bad\n\n"
        f"n.ipynb:\n  cell 4:6:16 TL102 {MESSAGE}\n\n"
        f"train.py:\n  6:16 TL102 [*] {MESSAGE}\n  12:1 TL102 [~] other\n\n"
    )
    colored = grouped.render(dataclasses.replace(run, color=True))
    assert "\x1b[1mbad.py\x1b[0m:" in colored


# beside ruff


def keys(value: Any) -> Any:
    """Return the shape of JSON: its keys, of a list the shape of its first entry."""
    if isinstance(value, dict):
        return {key: keys(inner) for key, inner in value.items()}
    return [keys(value[0])] if isinstance(value, list) and value else None


@pytest.mark.parametrize("name", ["rdjson", "junit", "pylint", "azure"])
def test_ruff_writes_the_same_shape(
    tmp_path: Path, name: str, make_finding: Findings, make_run: Runs
) -> None:
    pytest.importorskip("ruff")
    (tmp_path / "a.py").write_text("import os\n")
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--no-cache",
        "--output-format",
        name,
        "a.py",
    ]
    theirs = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False
    ).stdout
    module = {"rdjson": rdjson, "junit": junit, "pylint": pylint, "azure": azure}[name]
    ours = module.render(make_run(make_finding()))
    if name == "rdjson":
        mine, other = keys(json.loads(ours)), keys(json.loads(theirs))
        del mine["diagnostics"][0]["severity"]  # ruff has one for all
        del other["source"]["url"]
        assert mine == other
    elif name == "junit":
        from xml.etree.ElementTree import fromstring

        tags = [
            [node.tag for node in fromstring(text).iter() if not node.tag.startswith("prop")]
            for text in (ours, theirs)
        ]
        assert tags[0] == tags[1]
    elif name == "pylint":
        assert ours.split()[0] == "train.py:6:"
        assert theirs.split()[0] == "a.py:1:"
        assert ours.split()[1] == "[TL102]"
        assert theirs.split()[1] == "[F401]"
    else:
        assert [part.partition("=")[0] for part in ours.partition("]")[0].split(";")] == [
            part.partition("=")[0] for part in theirs.partition("]")[0].split(";")
        ]


def test_a_file_may_have_findings_and_notes(
    make_finding: Findings, make_run: Runs, tmp_path: Path
) -> None:
    note = Note(NoteKind.FAILED, "train.py", "rule TL101 crashed", 12)
    run = make_run(files=(FileReport("train.py", (make_finding(),), (note,)),))
    (suite,) = junit_report(tmp_path, run)
    assert [case.name for case in suite] == ["TL102 6:16", "not-analysed 12:1"]
    assert [issue["check_name"] for issue in issues(run)] == ["TL102", "not-analysed"]


def test_a_note_on_a_cell_points_at_no_row_of_the_file(make_run: Runs) -> None:
    """Its row is one of the cell, and says nothing of the lines of a notebook's JSON text."""
    run = make_run(notes=(Note(NoteKind.FAILED, "n.ipynb", "rule TL101 crashed", 12, cell=3),))
    assert pylint.render(run) == "n.ipynb:1: [not-analysed] cell 3:12:1: rule TL101 crashed\n"
    assert "linenumber=1;" in azure.render(run)
    [issue] = json.loads(gitlab.render(run))
    assert issue["location"]["lines"] == {"begin": 1, "end": 1}
    [diagnostic] = json.loads(rdjson.render(run))["diagnostics"]
    assert diagnostic["location"]["range"] == {"start": {"line": 1}}
