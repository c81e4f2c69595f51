from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from torchlint.base.finding import FileReport, Finding, Note, NoteKind, Safety, Severity, TextFix
from torchlint.report import counts
from torchlint.report.run_report import RunReport
from torchlint.report.summary import summary

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]


@pytest.fixture
def mixed(make_finding: Findings, safe_fix: TextFix) -> list[Finding]:
    """Two safe fixes, one unsafe, one withheld, one suggestion."""
    return [
        make_finding(),
        make_finding(filename="b.py", severity=Severity.ERROR),
        make_finding(fix=dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="n")),
        make_finding(fix=dataclasses.replace(safe_fix, withheld="comment"), severity=Severity.INFO),
        make_finding(fix=dataclasses.replace(safe_fix, safety=Safety.SUGGESTION)),
    ]


def test_counts_findings_and_fixes(mixed: list[Finding], make_run: Runs) -> None:
    assert summary(make_run(*mixed)) == (
        "Found 5 findings (1 error, 3 warnings, 1 info) in 2 files.\n"
        "[*] 2 fixable with `torchlint fix --apply` (1 more with `--unsafe-fixes`).\n"
    )


@pytest.mark.parametrize(
    ("chosen", "unsafe_fixes", "line"),
    [
        ([0], False, "[*] 1 fixable with `torchlint fix --apply`."),
        ([2], False, "[~] 1 fixable with `torchlint fix --apply --unsafe-fixes`."),
        ([0, 2], True, "[*] 2 fixable with `torchlint fix --apply --unsafe-fixes`."),
        ([3, 4], False, None),
        ([3, 4], True, None),
    ],
)
def test_fixable_line(
    mixed: list[Finding], make_run: Runs, chosen: list[int], unsafe_fixes: bool, line: str | None
) -> None:
    lines = summary(make_run(*(mixed[at] for at in chosen), unsafe_fixes=unsafe_fixes)).splitlines()
    assert lines[1:] == ([] if line is None else [line])


def test_infos_that_are_not_listed_are_told_apart(mixed: list[Finding], make_run: Runs) -> None:
    infos = [dataclasses.replace(found, severity=Severity.INFO) for found in mixed[:3]]
    run = make_run(*mixed, *infos, named="src a.py")
    assert summary(run, infos).splitlines()[1] == (
        "[*] 4 fixable with `torchlint fix --apply src a.py`, 2 of them in infos not listed "
        "(2 more with `--unsafe-fixes`, 1 of them in infos not listed)."
    )
    unsafe = make_run(mixed[2], infos[2], named="src")
    assert summary(unsafe, infos[2:]).splitlines()[1] == (
        "[~] 2 fixable with `torchlint fix --apply --unsafe-fixes src`, "
        "1 of them in infos not listed."
    )


def test_edits_of_unsafe_fixes_are_counted_apart(make_run: Runs) -> None:
    fixed = FileReport("a.py", applied=2, before="a", after="b", unsafe=1, edits=4, could=2)
    files = (fixed, FileReport("b.py", applied=1, could=1))
    assert summary(make_run(files=files, fix_applied=3)).splitlines()[0] == (
        "Fixed 3 findings in 1 file with 4 edits, 1 of them unsafe."
    )


def test_clean_run(make_run: Runs) -> None:
    assert summary(make_run(files_checked=3)) == "All checks passed.\n"


def test_a_run_over_nothing_does_not_claim_success(make_run: Runs) -> None:
    assert summary(make_run()) == "No files were checked.\n"


def test_all_that_was_not_done_is_listed(make_run: Runs) -> None:
    notes = (
        Note(NoteKind.WITHHELD, "w.py", "a comment stands inside", 3),
        Note(NoteKind.UNWRITTEN, "ro.py", "read-only\x1b", count=3),
        Note(NoteKind.UNWRITTEN, "rp.py", "gone"),
        Note(NoteKind.FAILED, "z\n.py", "rule TL101 crashed", 12),
        Note(NoteKind.FAILED, "z\n.py", "rule TL102 crashed", 2),
        Note(NoteKind.SKIPPED, "::big.py", "larger than 1 MB"),
        Note(NoteKind.CHECKED_LESS, "new.py", "libcst alone"),
    )
    assert summary(make_run(notes=notes)) == (
        "No findings, but not everything was done.\n"
        "2 files not analysed:\n"
        "  ./::big.py: larger than 1 MB\n"
        "  z\\n.py:2: rule TL102 crashed\n"
        "  z\\n.py:12: rule TL101 crashed\n"
        "4 fixes not written:\n"
        "  ro.py: read-only\\x1b\n"
        "  rp.py: gone\n"
        "1 fix withheld:\n"
        "  w.py:3: a comment stands inside\n"
        "1 file fixed with fewer checks:\n"
        "  new.py: libcst alone\n"
    )


@pytest.mark.parametrize("kind", [NoteKind.WITHHELD, NoteKind.CHECKED_LESS])
def test_a_note_on_a_fix_alone_does_not_spoil_a_clean_run(make_run: Runs, kind: NoteKind) -> None:
    assert summary(make_run(notes=(Note(kind, "w.py", "why"),))).startswith("All checks passed.")


def test_applied_fixes_are_counted(make_run: Runs) -> None:
    fixed = (
        FileReport(f"{n}.py", applied=n, before="a", after="b", edits=n, could=n) for n in (1, 2)
    )
    files = (*fixed, FileReport("c.py"))
    assert summary(make_run(files=files, fix_applied=3)) == (
        "Fixed 3 findings in 2 files with 3 edits.\nAll checks passed.\n"
    )


COSTS = {"TL102": "2.00x faster on a GPU"}


def test_statistics(mixed: list[Finding], make_finding: Findings, make_run: Runs) -> None:
    found = [*mixed, make_finding(code="TL001", name="unused-suppression")]
    found += [make_finding(code="TL9", name="other", fix=None)] * 10
    assert counts.render(make_run(*found), COSTS) == (
        "10\tTL9  \t[ ] other               engine\n"
        " 5\tTL102\t[-] cpu-then-move       transfer  2 safe + 1 unsafe fixes  "
        "the example in its manual: 2.00x faster on a GPU\n"
        " 1\tTL001\t[*] unused-suppression  engine    1 safe fix\n"
        "By family: 11 engine, 5 transfer.\n"
        "[*] all fixable, [-] some, [ ] none (safe fixes; more with `--unsafe-fixes`).\n"
    )
    assert json.loads(counts.render_json(make_run(*found), COSTS))[1] == {
        "code": "TL102",
        "name": "cpu-then-move",
        "count": 5,
        "fixable": False,
        "fixable_count": 2,
        "unsafe_count": 1,
        "severity": "error",
        "family": "transfer",
        "cost": "2.00x faster on a GPU",
    }


def test_statistics_count_unsafe_fixes_where_they_are_allowed(
    mixed: list[Finding], make_run: Runs
) -> None:
    (one,) = json.loads(counts.render_json(make_run(*mixed[:3], unsafe_fixes=True), {}))
    assert (one["fixable"], one["fixable_count"], one["cost"]) == (True, 3, None)


def test_statistics_as_json_lines(
    mixed: list[Finding], make_finding: Findings, make_run: Runs
) -> None:
    run = make_run(*mixed, make_finding(code="TL9", fix=None))
    lines = counts.FORMATS["json-lines"](run, COSTS).splitlines()
    assert list(map(json.loads, lines)) == json.loads(counts.FORMATS["json"](run, COSTS))


def test_statistics_of_nothing(make_run: Runs) -> None:
    assert counts.render(make_run(), COSTS) == ""
    assert counts.render_json(make_run(), COSTS) == "[]\n"
