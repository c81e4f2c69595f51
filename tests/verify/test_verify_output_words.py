"""One spelling for all formats: results, reasons, warnings, names."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.verify import reports
from torchlint.program.traffic import CountLine
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Level,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.output import html, markdown, phrases, sentences, text
from torchlint.verify.output.table import table


def result(**changes: Any) -> VariantResult:
    """Return the sample fix with other values in some fields."""
    return dataclasses.replace(reports.GATHER, **changes)


def equality(level: Level, ok: bool = True, **changes: Any) -> Equality:
    return Equality(level, Expected.CLOSE, ok, **changes)


@pytest.mark.parametrize(
    ("found", "mode", "shown"),
    [
        (equality(Level.BITWISE, max_loss_diff=0.0), "script", "weights and loss bitwise"),
        (equality(Level.BITWISE, max_loss_diff=7e-7), "script", "weights bitwise, loss 7e-07"),
        (equality(Level.BITWISE), "script", "weights bitwise"),
        (equality(Level.BITWISE, max_loss_diff=0.0), "function", "bitwise"),
        (equality(Level.CLOSE, max_abs=1.9e-6), "function", "close: 1.9e-06"),
        (equality(Level.CLOSE), "function", "close"),
        (
            equality(Level.BAND, max_abs=1e-4, max_loss_diff=0.0),
            "script",
            "within rounding band: weights 1e-04, loss 0",
        ),
        (
            equality(Level.DISTRIBUTION, max_abs=3.0),
            "script",
            "same distribution, different random numbers",
        ),
        (
            equality(Level.DIFFERENT, notes=("dtype",)),
            "function",
            "different: dtype, as the fix says",
        ),
        (
            equality(Level.DIFFERENT, False, notes=("dtype\x1b",)),
            "function",
            r"different: dtype\x1b (promised close)",
        ),
        (equality(Level.UNKNOWN, False), "script", "not compared"),
        (None, "script", "–"),
    ],
    ids=str,
)
def test_results(found: Equality | None, mode: str, shown: str) -> None:
    assert phrases.results(result(equality=found), mode) == shown


@pytest.mark.parametrize("status", Status)
def test_a_fix_that_fails_changes_results(status: Status) -> None:
    broken = result(status=status)
    assert phrases.changes_results(broken) is (status is Status.BROKEN)
    assert phrases.results(broken, "script").startswith("different: it fails") is (
        status is Status.BROKEN
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"error": " RuntimeError\n"}, "RuntimeError"),
        ({"exercised": False}, "no line that the fix changes ran"),
        (
            {"equality": equality(Level.CLOSE, self_noise=1e-7)},
            "the original differs from itself by 1e-07",
        ),
        (
            {"equality": equality(Level.CLOSE, rng_changed=True)},
            "random streams end in another state",
        ),
        ({"note": "rounding"}, "the fix says of other devices and other data: rounding"),
        (
            {"counts": Counts("virtual-cuda", 20, (1.0, 1.0), staged=(4.0, 0.0))},
            "4 -> 0 copies from pageable memory with non_blocking (predicted)",
        ),
    ],
    ids=str,
)
def test_reasons(changes: dict[str, Any], reason: str) -> None:
    assert sentences.reasons(result()) == ()
    (found,) = sentences.reasons(result(**changes))
    assert found.startswith(reason)


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Level.CLOSE, "the fix says: it rounds"),
        (Level.DIFFERENT, "the fix says: it rounds"),
    ],
)
def test_a_note_is_about_this_program_where_it_changes_results(level: Level, words: str) -> None:
    assert sentences.reasons(result(note="it rounds", equality=equality(level))) == (words,)


@pytest.mark.parametrize(
    ("report", "basis"), [(reports.SCRIPT, "on this CPU"), (reports.CUDA, "on this GPU")]
)
def test_results_name_the_device_that_they_are_of(report: Report, basis: str) -> None:
    assert [each.basis for each in table(report, "->").columns if each.name == "results"] == [basis]


def test_a_reason_is_given_once() -> None:
    speed = Speed(Verdict.NOT_EXERCISED, why="no changed line ran")
    assert sentences.reasons(result(speed=speed, error="no changed line ran", exercised=False)) == (
        "no changed line ran",
    )


def test_a_changed_result_without_a_gain_is_in_the_headline() -> None:
    slow = dataclasses.replace(reports.DIFFERENT, speed=reports.SLOWER.speed)
    found = sentences.headline(reports.changed(variants=(slow, reports.CAT)))
    assert (
        "none of 2 fixes is shown to be faster, 1 slower, 1 inconclusive, 1 with changed results"
        in found
    )


def test_the_command_is_quoted_as_a_shell_needs_it() -> None:
    assert sentences.command(reports.FUNCTION) == "pkg/model.py::forward --inputs 'randn(64,512)'"


def test_only_mismatches_become_warnings() -> None:
    assert sentences.warnings(reports.SCRIPT) == reports.SCRIPT.warnings


def test_a_long_reason_of_the_ledger_is_cut_in_the_head_only() -> None:
    counts = Counts("virtual-cuda", unavailable="x" * 500)
    report = reports.only(counts=counts)
    assert len(sentences.device_line(report)) < 300
    assert sentences.unavailable(report) == (f"ledger unavailable: {'x' * 500}",)


def test_left_over_lists_syncs_most_first_and_counts_the_rest() -> None:
    lines = tuple(
        CountLine("sync", f"f{number}\x1b.py", number, number, 0) for number in range(1, 8)
    )
    counts = Counts(
        "virtual-cuda", 1, (9.0, 9.0), after=(*lines, CountLine("h2d", "g.py", 1, 99, 1))
    )
    shown = text.render(reports.only(reports.ALL, counts=counts)).splitlines()
    start = shown.index("Left after all fixes (predicted):")
    assert shown[start + 1] == r"  f7\x1b.py:7  7 sync/step"
    assert shown[start + 6 : start + 8] == ["  and 2 more lines", ""]


def test_places_lose_their_hidden_characters() -> None:
    cells = table(reports.only(where="a\u202eb.py:1", title="\x1b[2J"), "->").rows[0].cells
    assert cells["where"].text == r"a\u202eb.py:1"
    assert cells["fix"].text == r"TL603 \x1b[2J"


def test_zeros_beside_a_reason_are_not_shown() -> None:
    zeros = Counts(
        "virtual-cuda", 20, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), unavailable="a gap"
    )
    found = table(reports.only(counts=zeros), "->")
    assert found.unmeasured == ("syncs/step", "H2D/step", "D2H/step")
    assert 'class="bar' not in html.render(reports.only(counts=zeros))
    assert "Nothing was predicted" in sentences.headline(
        reports.changed(reports.VIRTUAL, variants=(result(counts=zeros),))
    )


def test_a_place_is_no_measurement() -> None:
    assert table(reports.only(where=""), "->").unmeasured == ()


def test_totals_stand_apart() -> None:
    lines = text.render(reports.SCRIPT).splitlines()
    (total,) = (index for index, line in enumerate(lines) if line.startswith("all together  "))
    assert lines[total - 1] == ""


def test_titles_lose_their_right_end() -> None:
    report = reports.only(title="gather " * 20)
    assert "\nTL603 gather gather" in text.render(report, width=170)
    assert "...  pkg/model.py:15" in text.render(report, width=170)


@pytest.mark.parametrize(("unchanged", "red"), [(True, False), (False, True), (None, False)])
def test_only_a_changed_tree_is_red(unchanged: bool | None, red: bool) -> None:
    shown = text.render(reports.changed(tree_unchanged=unchanged, variants=()), color=True)
    assert ("\x1b[31m" in shown) is red


def test_the_narrow_null_control_has_only_what_it_has() -> None:
    lines = text.render(reports.SCRIPT, width=80).splitlines()
    start = lines.index("null control")
    assert lines[start + 1 : start + 3] == [
        "  speed on CPU (95 % interval)  1.01x [0.98, 1.04]",
        "",
    ]


def test_no_line_of_bases_where_there_are_none() -> None:
    plain = reports.changed(
        reports.VIRTUAL, variants=(result(speed=reports.NOT_TIMED, counts=None, memory=None),)
    )
    lines = text.render(plain).splitlines()
    assert (
        lines[
            lines.index(
                "fix                             where            speed  verdict       results"
            )
            + 1
        ][:5]
        == "TL603"
    )


def test_a_tree_that_was_not_copied_is_no_fact_for_a_comment() -> None:
    assert "Nothing was copied" not in markdown.render(reports.changed(tree_unchanged=None))


def test_a_long_sentence_is_cut_in_a_comment() -> None:
    shown = markdown.render(reports.changed(warnings=("x" * 2_000, "next")))
    assert "x" * 597 + "..." in shown
    assert "- next" in shown


def test_one_huge_diff_leaves_room_for_others() -> None:
    huge = result(diff="+line\n" * 30_000)
    shown = markdown.render(reports.changed(variants=(huge, reports.CAT)))
    assert "more lines are left out" in shown
    assert reports.DIFF in shown


def test_a_diff_in_a_comment_hides_nothing() -> None:
    shown = markdown.render(reports.only(diff="--- a\n+++ b\n+x = 1  # \u202e\x1b[2J\n"))
    assert r"+x = 1  # \u202e\x1b[2J" in shown


def test_a_tab_in_a_message_is_a_space() -> None:
    assert markdown.escaped("a\tb") == "a b"


@pytest.mark.parametrize(("count", "named"), [(0, False), (12, True), (13, False)])
def test_process_times_are_named_while_they_are_few(count: int, named: bool) -> None:
    found = sentences.process_times(reports.changed(variants=(reports.GATHER,) * count))
    assert found.startswith("By process CPU time: TL603 2.53x") is named
    assert bool(found) is named


def idle_report(count: int) -> Report:
    """Return the first sample with `count` more fixes that no run reached."""
    speed = Speed(Verdict.NOT_EXERCISED, why="no line ran in the first 20 steps")
    more = tuple(
        result(id=f"fix:TL102@idle.py:{row}", where=f"idle.py:{row}", speed=speed, exercised=False)
        for row in range(count)
    )
    report = next(iter(reports.SAMPLES.values()))
    return dataclasses.replace(report, variants=(*report.variants, *more))


def test_what_did_not_run_shares_one_reason() -> None:
    (line,) = [line for line in sentences.why(idle_report(3)) if "idle.py:0" in line]
    assert line.endswith(
        "idle.py:0, TL603 at idle.py:1, TL603 at idle.py:2: no line ran in the first 20 steps"
    )


@pytest.mark.parametrize(
    ("count", "rows"), [(sentences.IDLE_ROWS, sentences.IDLE_ROWS), (sentences.IDLE_ROWS + 1, 0)]
)
def test_many_fixes_that_did_not_run_take_no_rows(count: int, rows: int) -> None:
    assert (
        sum("idle.py" in row.cells["where"].text for row in table(idle_report(count), "->").rows)
        == rows
    )
