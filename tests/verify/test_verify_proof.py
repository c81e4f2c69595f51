"""What counts as proved, on figures that were recorded; what a report and a commit say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.verify import reports
from torchlint.verify.fixes import FixUnit, Replacement, Rows
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Judged,
    Level,
    Memory,
    Proof,
    Speed,
    Status,
    Verdict,
)
from torchlint.verify.output import json_report, markdown, text
from torchlint.verify.output.commit_message import commit_message
from torchlint.verify.proof import Grounds, held, judged

GROUNDS = Grounds("cpu", 0.03, steady=True, memory_noise=1_000_000)
SAME = Speed(Verdict.NO_CHANGE, reports.ratio(1.0, 0.985, 1.015), 3.1, 3.1)
FASTER = Speed(Verdict.FASTER, reports.ratio(1.2, 1.1, 1.3), 3.1, 2.6)
KEPT = Equality(Level.BITWISE, Expected.BITWISE, True, 0.0, 0.0, 0.0, False)
ALIKE = Counts("virtual-cuda", 20, (4.0, 4.0), (80.0, 80.0), (4.0, 4.0), (0.0, 0.0))


def judge(grounds: Grounds = GROUNDS, **changes: Any) -> Judged:
    """Judge a fix that waits once less a step, with other values in some fields."""
    fewer = replace(ALIKE, syncs=(4.0, 3.0))
    given = {"exercised": True, "counts": fewer, "equality": KEPT, **changes}
    speed = given.pop("speed", SAME)
    result = reports.fix("TL101", "Read once", "train.py:9", speed, **given)
    return judged("TL101@train.py:9", result, grounds)


def test_fewer_waits_as_fast_as_before_with_the_same_results_are_a_proof() -> None:
    assert judge() == Judged("TL101@train.py:9", True, ("waits 4 -> 3 a step (predicted)",))


def test_a_count_of_a_real_gpu_is_called_observed() -> None:
    counts = replace(ALIKE, basis="cuda", d2h_bytes=(4.0, 0.0))
    assert judge(counts=counts).gains == ("device to host 4 -> 0 B a step (observed)",)


def test_more_speed_alone_is_a_proof_and_says_where() -> None:
    assert judge(speed=FASTER, counts=ALIKE).gains == ("1.20x [1.10, 1.30] on this CPU",)
    on_gpu = judge(replace(GROUNDS, device="cuda"), speed=FASTER, counts=ALIKE)
    assert on_gpu.gains == ("1.20x [1.10, 1.30] on this GPU",)


def test_less_memory_than_the_noise_of_two_equal_copies_explains_is_a_proof() -> None:
    less = Memory("vmhwm", (300_000_000, 200_000_000))
    assert judge(counts=ALIKE, memory=less).gains == ("peak memory 300 -> 200 MB (resident)",)
    noisy = replace(GROUNDS, memory_noise=40_000_000)
    assert "no gain" in judge(noisy, counts=ALIKE, memory=less).why
    little = Memory("vmhwm", (300_000_000, 295_000_000))
    assert "no gain" in judge(counts=ALIKE, memory=little).why


def test_what_evaluation_saves_counts() -> None:
    found = judge(counts=replace(ALIKE, evaluation=replace(ALIKE, syncs=(2.0, 1.0))))
    assert found.gains == ("waits 2 -> 1 a batch of evaluation (predicted)",)


def test_an_asynchronous_copy_from_pageable_memory_saves_no_wait() -> None:
    staged = replace(ALIKE, syncs=(4.0, 3.0), staged=(0.0, 1.0))
    assert judge(counts=staged).why == (
        "no gain seen: 1.00x [0.98, 1.01]; copies from pageable memory wait until they are staged "
        "(pin_memory)"
    )
    evaluated = judge(counts=replace(ALIKE, evaluation=staged))
    assert evaluated.why.endswith("(pin_memory)")
    pinned = replace(ALIKE, syncs=(4.0, 3.0), staged=(1.0, 0.0))
    assert judge(counts=pinned).gains == ("waits 5 -> 3 a step (predicted)",)


SLOW = Speed(Verdict.SLOWER, reports.ratio(0.8, 0.75, 0.85), 3.1, 3.9)
WIDE = Speed(Verdict.INCONCLUSIVE, reports.ratio(1.0, 0.9, 1.1), 3.1, 3.1)
FEW = Speed(
    Verdict.INCONCLUSIVE, reports.ratio(1.0, 0.99, 1.01, n=5), 3.1, 3.1, why="only 5 rounds"
)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exercised": False, "speed": Speed(Verdict.NOT_EXERCISED, why="not reached in 20 steps")},
         "not reached in 20 steps"),
        ({"exercised": False}, "no line that the fix changes ran"),
        ({"status": Status.BROKEN, "error": "KeyError: 'x'"}, "broken by fix: KeyError: 'x'"),
        ({"equality": None}, "its results could not be compared"),
        ({"equality": replace(KEPT, level=Level.UNKNOWN)}, "its results could not be compared"),
        ({"equality": replace(KEPT, level=Level.CLOSE, ok=False)},
         "results differ: close, promised is bitwise"),
        ({"equality": replace(KEPT, level=Level.CLOSE, self_noise=0.017, excused=True)},
         "the program does not reproduce itself (by 1.7e-02), so equal results cannot be shown"),
        ({"speed": SLOW}, "slower: 0.80x [0.75, 0.85]"),
        ({"speed": WIDE}, "may be slower: 1.00x [0.90, 1.10] reaches below 0.97x"),
        ({"speed": FEW}, "may be slower: only 5 rounds"),
        ({"speed": Speed(Verdict.NOT_MEASURED, why="no time was taken")},
         "not timed: no time was taken"),
        ({"counts": ALIKE}, "no gain seen: 1.00x [0.98, 1.01]"),
        ({"counts": None}, "no gain seen: 1.00x [0.98, 1.01]; waits and transfers could not be"),
        ({"counts": Counts("virtual-cuda", unavailable="streams")}, "no gain seen"),
    ],
)  # fmt: skip
def test_what_lacks_a_part_of_the_proof_says_which(changes: dict[str, Any], why: str) -> None:
    found = judge(**changes)
    assert not found.proven
    assert found.why.startswith(why)


def test_an_undecided_time_that_excludes_slower_is_enough() -> None:
    """The twin of the case above: the interval reaches far up, and not below 0.97."""
    assert judge(speed=Speed(Verdict.INCONCLUSIVE, reports.ratio(1.05, 0.98, 1.12))).proven


def test_a_machine_whose_null_control_differs_proves_nothing() -> None:
    noisy = replace(GROUNDS, steady=False)
    why = "machine too noisy: null control read 1.08x"
    speed = Speed(Verdict.INCONCLUSIVE, reports.ratio(1.05, 0.98, 1.12), why=why)
    assert judge(noisy, speed=speed).why == f"may be slower: {why}"


def test_fewer_waits_for_more_bytes_is_no_proof_unless_the_program_is_faster() -> None:
    traded = replace(ALIKE, syncs=(4.0, 3.0), h2d_bytes=(80.0, 90.0))
    assert judge(counts=traded).why == (
        "waits 4 -> 3 a step (predicted), but host to device 80 -> 90 B a step (predicted): which "
        "of them weighs more was not shown"
    )
    assert judge(counts=traded, speed=FASTER).proven


def test_a_few_bytes_that_go_with_a_wait_are_neither_gain_nor_loss() -> None:
    more = replace(ALIKE, syncs=(4.0, 3.0), h2d_bytes=(34_800.0, 34_816.0))
    assert judge(counts=more).gains == ("waits 4 -> 3 a step (predicted)",)
    few = replace(ALIKE, h2d_bytes=(34_816.0, 34_800.0))
    assert judge(counts=few).why.startswith("no gain seen")


def unit(name: str, row: int, expected: Expected = Expected.BITWISE, column: int = 0) -> FixUnit:
    at = row * 100 + column
    edit = Replacement("train.py", at, at + 1, "x")
    where = f"train.py:{row}:{column}"
    places = (Rows("train.py", row, row),)
    return FixUnit(f"{name}@{where}", (name,), "Do it", where, expected, "", (edit,), places)


def test_what_changes_results_by_design_is_held_to_the_same_results() -> None:
    (found,) = held([unit("TL105", 3, Expected.ANY)])
    assert found.expected is Expected.CLOSE
    (other,) = held([unit("TL114", 3, Expected.RNG)])
    assert other.expected is Expected.RNG


def test_fixes_of_one_rule_in_one_statement_are_proved_as_one() -> None:
    units = [unit("TL103", 3, column=1), unit("TL103", 3, Expected.CLOSE, 9), unit("TL103", 4),
             unit("TL101", 3)]  # fmt: skip
    found = held(units)
    assert [each.id for each in found] == [
        "TL103@train.py:3:1 +1",
        "TL103@train.py:4:0",
        "TL101@train.py:3:0",
    ]
    assert found[0].expected is Expected.CLOSE


PROOF = Proof(
    (
        Judged(reports.GATHER.fixes[0], True, ("2.51x [2.32, 2.68] on this CPU",)),
        Judged(reports.CAT.fixes[0], False, (), "no gain seen: 1.11x [1.03, 1.18]"),
        Judged(reports.ITEM.fixes[0], True, ("waits 35 -> 34 a step (predicted)",)),
    ),
    Judged("all", True, ("3.09x [2.78, 3.28] on this CPU",)),
)


def test_the_proof_is_what_holds_together() -> None:
    assert PROOF.proven == ("TL603@pkg/model.py:15", "TL801@train.py:25")
    assert replace(PROOF, together=Judged("all", False, (), "slower")).proven == ()
    assert replace(PROOF, together=None).proven == ()


def test_a_report_lists_what_was_proved_and_why_the_rest_was_not() -> None:
    done = replace(PROOF, outcome="Applied 2 fixes in 2 files.", written=PROOF.proven)
    said = text.render(reports.changed(proof=done))
    assert (
        "Proved:\n"
        "  TL603@pkg/model.py:15: 2.51x [2.32, 2.68] on this CPU\n"
        "  TL801@train.py:25: waits 35 -> 34 a step (predicted)\n"
        "  together: 3.09x [2.78, 3.28] on this CPU\n"
        "\n"
        "Not proved:\n"
        "  TL604@pkg/model.py:9: no gain seen: 1.11x [1.03, 1.18]\n"
    ) in said
    assert "Times are those of this CPU; waits and transfers are predicted for a GPU" in said
    assert "Applied 2 fixes in 2 files." in said
    assert "Your files are unchanged" not in said
    assert "not proved" not in text.render(reports.SCRIPT).lower()
    assert "**Not proved**" in markdown.render(reports.changed(proof=done))


def test_a_report_says_what_does_not_hold_together() -> None:
    failed = replace(PROOF, together=Judged("all", False, (), "slower: 0.80x [0.75, 0.85]"))
    said = text.render(reports.changed(proof=failed))
    assert "  all that is proved, together: slower: 0.80x [0.75, 0.85]\n" in said
    assert "Your files are unchanged." in said


def test_fixes_with_the_same_reason_share_a_line() -> None:
    idle = [Judged(f"TL101@a.py:{row}", False, (), "not reached in 20 steps") for row in (1, 2)]
    said = text.render(reports.changed(proof=Proof((*idle, *PROOF.fixes), PROOF.together)))
    assert "  TL101@a.py:1, TL101@a.py:2: not reached in 20 steps\n" in said


def test_the_json_report_holds_the_proof() -> None:
    found = json_report.document(reports.changed(proof=PROOF))["proof"]
    assert [each["proven"] for each in found["fixes"]] == [True, False, True]
    assert found["together"]["gains"] == ["3.09x [2.78, 3.28] on this CPU"]
    assert (found["written"], found["outcome"]) == ([], None)
    assert json_report.document(reports.SCRIPT)["proof"] is None


def test_a_commit_says_rule_figures_how_they_were_measured_and_the_command() -> None:
    fix = replace(
        unit("TL801", 25),
        id="TL801@train.py:25",
        where="train.py:25",
        title="Read loss.item() once an epoch",
        note="The running loss is a tensor.",
    )
    said = commit_message(fix, reports.changed(proof=PROOF), "torchlint verify . --apply -- x.py")
    subject, blank, place = said.splitlines()[:3]
    assert (subject, blank) == ("TL801: Read loss.item() once an epoch", "")
    assert place == "train.py:25, proved by torchlint verify on train.py --epochs 1:"
    flat = " ".join(said.split())
    assert "- Results: close: weights 1.9e-06, loss 7e-07." in flat
    assert "- Speed: 1.00x [0.98, 1.02], not slower." in flat
    assert (
        "- All 2 fixes proved in this run, together: weights bitwise, loss 7e-07; "
        "3.09x [2.78, 3.28], faster." in flat
    )
    assert "- Better: waits 35 -> 34 a step (predicted)." in flat
    assert "The fix says: The running loss is a tensor." in flat
    assert "CPU, 2 cores, torch 2.13.0, 1 thread. No GPU used: times are CPU times" in flat
    assert "torchlint 0.3.0: torchlint verify . --apply -- x.py" in flat
    assert max(map(len, said.splitlines())) <= 78
