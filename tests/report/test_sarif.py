from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest

from torchlint.base.finding import (
    FileReport,
    Finding,
    Note,
    NoteKind,
    Reason,
    Safety,
    Severity,
    Suppressed,
    TextFix,
)
from torchlint.report import sarif
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]

CONTROLS = "\x1b\x00"
NOTES = (
    Note(NoteKind.SKIPPED, "big.py", "larger than 1 MB"),
    Note(NoteKind.FAILED, "crash.py", "rule TL101 crashed", 12),
    Note(NoteKind.UNWRITTEN, "ro.py", "read-only"),
    Note(NoteKind.WITHHELD, "w.py", "comment"),
    Note(NoteKind.CHECKED_LESS, "x.py", "libcst alone"),
)


def log_of(run: RunReport) -> dict[str, Any]:
    text = sarif.render(run)
    assert text.isascii()
    log = json.loads(text)
    assert log["version"] == "2.1.0"
    (only,) = log["runs"]
    assert isinstance(only, dict)
    return only


@pytest.fixture
def rich_run(make_finding: Findings, make_run: Runs, safe_fix: TextFix) -> RunReport:
    unsafe = dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="may round")
    return make_run(
        make_finding(),
        make_finding(
            filename="src/ä b%#é\udcff\n.py", message="\x1b\x00", fix=unsafe, fingerprint=""
        ),
        make_finding(filename="/elsewhere/x.py", severity=Severity.INFO),
        make_finding(
            filename="bad.py", code="invalid-syntax", name="invalid-syntax", fix=None, why_hot=()
        ),
        make_finding(filename="n.ipynb", cell=2, severity=Severity.ERROR),
        notes=NOTES,
    )


def with_suppressed(run: RunReport) -> RunReport:
    """Return the run with each of its findings suppressed once more, by a comment and by a baseline
    in turn."""
    held = tuple(
        Suppressed(finding, bool(at % 2), CONTROLS[: at % 3])
        for at, finding in enumerate(run.findings())
        for _ in "ab"
    )
    return dataclasses.replace(run, files=(*run.files, FileReport("train.py", suppressed=held)))


def schema_path() -> Path | None:
    named = os.environ.get("TORCHLINT_SARIF_SCHEMA")
    path = (
        Path(named) if named else Path(__file__).parents[3] / "shared" / "sarif-schema-2.1.0.json"
    )
    return path if path.is_file() else None


@pytest.mark.skipif(
    schema_path() is None, reason="set TORCHLINT_SARIF_SCHEMA to OASIS's schema file"
)
def test_valid_against_the_schema(rich_run: RunReport, make_run: Runs) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    path = schema_path()
    assert path is not None
    schema = json.loads(path.read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    for run in (rich_run, make_run(), with_suppressed(rich_run)):
        assert list(validator.iter_errors(json.loads(sarif.render(run)))) == []


def test_required_shape(rich_run: RunReport) -> None:
    run = log_of(rich_run)
    driver = run["tool"]["driver"]
    assert (driver["name"], driver["version"]) == ("torchlint", "1.2.3")
    assert run["columnKind"] == "unicodeCodePoints"
    ids = [rule["id"] for rule in driver["rules"]]
    assert ids == sorted(set(ids)) == ["TL102", "invalid-syntax"]
    assert len(run["results"]) == 5
    for result in run["results"]:
        assert result["message"]["text"]
        assert result["level"] in {"error", "warning", "note"}
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        columns = {"startColumn", "endLine", "endColumn"}
        assert set(region) == {"startLine"} | (set() if "logicalLocations" in location else columns)
        assert min(region.values()) >= 1


def test_rule_metadata(rich_run: RunReport) -> None:
    rules = log_of(rich_run)["tool"]["driver"]["rules"]
    assert rules[0] == {
        "id": "TL102",
        "name": "cpu-then-move",
        "shortDescription": {"text": "Tensor made on the CPU, then moved"},
        "help": {"text": "WHY\n\nThe copy waits.", "markdown": "## Why\nThe copy waits."},
        "helpUri": "https://example.org/TL102",
        "defaultConfiguration": {"enabled": True, "level": "warning"},
        "properties": {"tags": ["performance", "pytorch", "transfer"]},
    }
    assert rules[1]["shortDescription"] == {"text": "Invalid syntax"}
    assert "helpUri" not in rules[1]


def test_uris_are_relative_and_percent_encoded(rich_run: RunReport) -> None:
    results = log_of(rich_run)["results"]
    places = [result["locations"][0]["physicalLocation"]["artifactLocation"] for result in results]
    odd = "src/%C3%A4%20b%25%23%C3%A9%FF%0A.py"
    assert places == [
        {"uri": "file:///elsewhere/x.py"},
        {"uri": "bad.py", "uriBaseId": "%SRCROOT%"},
        {"uri": "n.ipynb", "uriBaseId": "%SRCROOT%"},
        {"uri": odd, "uriBaseId": "%SRCROOT%"},
        {"uri": "train.py", "uriBaseId": "%SRCROOT%"},
    ]
    assert unquote_to_bytes(odd) == os.fsencode("src/ä b%#é\udcff\n.py")


def test_uri_of_a_name_that_no_file_system_holds(make_finding: Findings, make_run: Runs) -> None:
    (result,) = log_of(make_run(make_finding(filename="\ud800:.py")))["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == "%5Cud800%3A.py"


def test_paths_are_relative_to_the_root_not_the_working_folder(
    make_finding: Findings, make_run: Runs
) -> None:
    (result,) = log_of(make_run(make_finding(), cwd="/project/src"))["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "src/train.py"


def test_levels_fingerprint_and_cell(rich_run: RunReport) -> None:
    results = log_of(rich_run)["results"]
    assert [result["level"] for result in results] == [
        "note",
        "warning",
        "error",
        "warning",
        "warning",
    ]
    assert results[4]["partialFingerprints"] == {"torchlint/v1": "0123456789abcdef"}
    assert "partialFingerprints" not in results[3]
    assert results[2]["locations"][0]["logicalLocations"] == [{"name": "cell 2"}]
    assert results[2]["message"]["text"].startswith("cell 2:6:16: ")
    related = results[4]["relatedLocations"]
    assert [place["message"]["text"] for place in related] == [
        "every step: for x in loader",
        "called from main()",
    ]


def test_a_reason_in_a_notebook_names_its_cell(make_finding: Findings, make_run: Runs) -> None:
    reason = Reason("every step", "n.ipynb", 3, cell=7)
    (result,) = log_of(make_run(make_finding(filename="n.ipynb", cell=8, why_hot=(reason,))))[
        "results"
    ]
    (related,) = result["relatedLocations"]
    assert related["message"] == {"text": "cell 7:3: every step"}
    assert "region" not in related["physicalLocation"]


def test_a_note_in_a_notebook_names_its_cell(make_run: Runs) -> None:
    note = Note(NoteKind.WITHHELD, "n.ipynb", "comment", 3, cell=2)
    (told,) = log_of(make_run(notes=(note,)))["invocations"][0]["toolExecutionNotifications"]
    assert told["message"] == {"text": "cell 2: comment"}
    assert "region" not in told["locations"][0]["physicalLocation"]


def test_a_reason_about_a_whole_file_points_at_its_first_row(
    make_finding: Findings, make_run: Runs
) -> None:
    (result,) = log_of(make_run(make_finding(why_hot=(Reason("configured as hot", "a.py", 0),))))[
        "results"
    ]
    assert result["relatedLocations"][0]["physicalLocation"]["region"] == {"startLine": 1}


def test_fixes_are_those_a_tool_may_apply(
    make_finding: Findings, make_run: Runs, safe_fix: TextFix
) -> None:
    def fixes(**changes: Any) -> list[Any]:
        cell = changes.pop("cell", None)
        fix = dataclasses.replace(safe_fix, **changes)
        (result,) = log_of(make_run(make_finding(fix=fix, cell=cell)))["results"]
        found = result.get("fixes", [])
        assert isinstance(found, list)
        return found

    (safe,) = fixes()
    assert safe["description"] == {"text": "Pass device= to the factory"}
    (change,) = safe["artifactChanges"]
    assert change["artifactLocation"]["uri"] == "train.py"
    assert change["replacements"] == [
        {
            "deletedRegion": {"startLine": 6, "startColumn": 16, "endLine": 6, "endColumn": 41},
            "insertedContent": {"text": 'torch.zeros(8, device="cuda")'},
        }
    ]
    (unsafe,) = fixes(safety=Safety.UNSAFE, note="may round")
    assert unsafe["description"]["text"] == "Pass device= to the factory (unsafe: may round)"
    assert fixes(safety=Safety.SUGGESTION) == fixes(withheld="comment") == fixes(cell=1) == []


def test_notes_are_notifications(rich_run: RunReport, make_run: Runs) -> None:
    (invocation,) = log_of(rich_run)["invocations"]
    assert invocation["executionSuccessful"] is False
    told = invocation["toolExecutionNotifications"]
    assert [(one["level"], one["descriptor"]["id"], one["message"]["text"]) for one in told] == [
        ("warning", "skipped", "larger than 1 MB"),
        ("error", "failed", "rule TL101 crashed"),
        ("error", "unwritten", "read-only"),
        ("note", "withheld", "comment"),
        ("note", "checked-less", "libcst alone"),
    ]
    assert told[1]["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "crash.py", "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": 12},
    }
    (clean,) = log_of(make_run(notes=NOTES[:1]))["invocations"]
    assert clean["executionSuccessful"] is True


def test_results_are_limited_and_it_is_said(
    make_finding: Findings, make_run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    findings = [make_finding(filename=f"{n}.py", severity=Severity.INFO) for n in range(4)]
    findings.append(make_finding(filename="9.py", severity=Severity.ERROR))
    run = log_of(make_run(*findings))
    uris = [
        r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in run["results"]
    ]
    assert uris == ["0.py", "1.py", "9.py"]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "2 findings are left out: a SARIF run holds at most 3."


def test_suppressed_findings_come_last_and_say_why(make_finding: Findings, make_run: Runs) -> None:
    by_comment = Suppressed(make_finding(code="TL001", name="unused"), True, "why")
    held = (Suppressed(make_finding(filename="b.py"), False), by_comment)
    files = (
        FileReport("a.py", (make_finding(filename="z.py"),)),
        FileReport("b.py", suppressed=held),
    )
    run = log_of(make_run(files=files))
    assert [result["suppressions"] for result in run["results"]] == [
        [],
        [{"kind": "external"}],
        [{"kind": "inSource", "justification": "why"}],
    ]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [ids[result["ruleIndex"]] for result in run["results"]] == ["TL102", "TL102", "TL001"]
    assert "suppressions" not in log_of(make_run(make_finding()))["results"][0]


def test_the_limit_leaves_out_suppressed_ones_first(
    make_finding: Findings, make_run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sarif, "MOST_RESULTS", 3)
    findings = tuple(make_finding(filename=f"{n}.py", severity=Severity.INFO) for n in range(2))
    held = tuple(Suppressed(make_finding(severity=Severity.ERROR), True) for _ in range(3))
    run = log_of(make_run(files=(FileReport("a.py", findings, suppressed=held),)))
    assert [len(result["suppressions"]) for result in run["results"]] == [0, 0, 1]
    (told,) = run["invocations"][0]["toolExecutionNotifications"]
    assert told["message"]["text"] == "2 findings are left out: a SARIF run holds at most 3."


def test_limit_is_githubs() -> None:
    assert sarif.MOST_RESULTS == 25_000
