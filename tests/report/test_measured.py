"""What a profile says of findings, beside them: read from its report, shown by every format."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.errors import UsageError
from torchlint.base.finding import FileReport, Finding, Measured, Severity
from torchlint.base.span import Position
from torchlint.report.formats import FORMATS
from torchlint.report.measured import READS, Measurements, read_measurements
from torchlint.report.run_report import RunReport

MUCH = Measured(0.288, 0.401, 932_000, False)
SOME = Measured(0.05, 0.05, 162_000, False)
NONE = Measured(0.001, 0.001, 3_000, True)


def one(
    row: int, file: str = "a.py", severity: Severity = Severity.WARNING, **more: Any
) -> Finding:
    start = Position(row, 1)
    given = {"fingerprint": f"{row:016x}", **more}
    return Finding(
        f"TL10{row}", "n", f"message {row}", severity, file, start, start, row, row, **given
    )


def run_of(*findings: Finding, **more: Any) -> RunReport:
    files: dict[str, list[Finding]] = {}
    for finding in findings:
        files.setdefault(finding.filename, []).append(finding)
    reports = tuple(FileReport(name, tuple(found)) for name, found in files.items())
    return RunReport(reports, "0", {}, "/p", len(files), 0, False, False, **more)


def report(*bounds: Measured | None, **more: Any) -> dict[str, Any]:
    """Return a report of a profile whose findings have bounds."""
    span = 1_000_000_000
    findings = [
        {
            "code": f"TL10{row}",
            "filename": "src/a.py",
            "line": row,
            "fingerprint": f"{row:016x}",
            "bound": None
            if bound is None
            else {
                "alone_ns": bound.alone_ns,
                "joint_ns": round(bound.joint * span),
                "share": bound.share,
                "basis": "wait",
                "negligible": bound.negligible,
            },
        }
        for row, bound in enumerate(bounds, 1)
    ]
    whole = {"schema_version": READS, "window": {}, "figures": {}, "bounds": {"span_ns": span}}
    return {**whole, "findings": findings, **more}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[object], str]:
    def write(found: object) -> str:
        path = tmp_path / "cost.json"
        path.write_text(found if isinstance(found, str) else json.dumps(found))
        return str(path)

    return write


def test_what_is_read_is_what_profile_writes() -> None:
    pytest.importorskip("numpy")
    from torchlint.profile.output.json_report import SCHEMA_VERSION

    assert READS == SCHEMA_VERSION


def test_a_finding_is_known_by_its_fingerprint_then_by_its_place(
    written: Callable[[object], str],
) -> None:
    found = read_measurements(written(report(MUCH, None, SOME)))
    assert found.of(one(1, "moved.py")) == MUCH
    assert found.of(one(2)) is None
    changed = one(3, "/home/u/src/a.py", fingerprint="f" * 16)
    assert found.of(changed) == SOME
    assert found.of(dataclasses.replace(changed, code="TL999")) is None
    assert found.of(dataclasses.replace(changed, filename="src/b.py")) is None
    assert found.of(dataclasses.replace(changed, filename="other_src/a.py")) is None
    assert found.of(dataclasses.replace(changed, cell=2)) is None
    file = found.beside(FileReport("x.py", (one(1), one(2))))
    assert [each.measured for each in file.findings] == [MUCH, None]


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ("not json", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ([], "is no report of torchlint profile"),
        ({"findings": []}, "is no report of torchlint profile"),
        (report(schema_version=2), "has schema_version 2; this torchlint reads 1"),
        (report(schema_version=[1] * 99), "has schema_version"),
        (report(findings=3), "is a damaged report"),
        (report(findings=[{"bound": {}}]), "is a damaged report"),
        (report(Measured(7.5, 0.1, 1, False)), "is a damaged report"),
        (report(findings=["x"]), "is a damaged report"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    written: Callable[[object], str], found: object, words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        read_measurements(written(found))
    assert words in str(caught.value)
    assert str(caught.value).startswith("--profile ")
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    for path in (tmp_path / "no.json", tmp_path):
        with pytest.raises(UsageError, match=r"--profile .*: \w"):
            read_measurements(str(path))


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("ranked", "html")])
def test_every_format_shows_it(name: str) -> None:
    run = run_of(one(1, measured=MUCH), one(2, measured=NONE), one(3))
    text = FORMATS[name](run)
    if name in ("json", "json-lines"):
        assert '"share": 0.288' in text
        assert text.count('"measured"') == 2
    else:
        words = text.replace("%AZP25", "%").replace("%25", "%").replace("&#37;", "%")
        assert "fixing saves at most 28.8 %, 40.1 % once the others are fixed" in words
        assert "fixing saves at most 0.1 %, negligible" in words
        assert "message 3 (" not in words


@pytest.mark.parametrize("name", ["full", "concise", "ranked"])
def test_formats_for_people_are_sorted_by_it(name: str) -> None:
    findings = [one(1), one(2, measured=SOME), one(3, "b.py", measured=MUCH), one(4, "b.py")]
    text = FORMATS[name](run_of(*findings, show_source=False if name == "ranked" else None))
    places = [text.index(f"TL10{row}") for row in (3, 2, 1, 4)]
    assert places == sorted(places)


def test_files_are_sorted_by_the_costliest_in_them() -> None:
    findings = [one(1), one(2), one(3, "b.py", measured=SOME), one(4, "b.py", measured=MUCH)]
    text = FORMATS["grouped"](run_of(*findings))
    places = [text.index(f"TL10{row}") for row in (4, 3, 1, 2)]
    assert places == sorted(places)


def test_ranked_leaves_wrong_results_first_and_lists_infos_that_cost() -> None:
    findings = [
        *(one(row, f"{row}.py") for row in (5, 6, 7, 8)),
        one(1, severity=Severity.ERROR),
        one(2, measured=SOME),
        one(3, severity=Severity.INFO, measured=MUCH),
        one(4, severity=Severity.INFO, measured=NONE),
    ]
    text = FORMATS["ranked"](run_of(*findings))
    places = [text.index(f"TL10{row}") for row in (1, 3, 2, 5)]
    assert places == sorted(places)
    assert "(at most 28.8 %, 40.1 % once the others are fixed)" in text
    assert "1 info not listed (1 TL104)" in text


def test_nothing_measured_changes_nothing() -> None:
    run = run_of(one(1), one(2, "b.py"))
    none = dataclasses.replace(run, files=tuple(map(Measurements(()).beside, run.files)))
    assert none == run
