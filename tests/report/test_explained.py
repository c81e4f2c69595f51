"""Explanations as text and as JSON: what is told first, what is left to JSON, and that no line runs
wide."""

from __future__ import annotations

import json

from torchlint.base.explanation import (
    Belief,
    ExplainedReport,
    Explanation,
    Guard,
    Pace,
    Place,
    State,
    Verdict,
)
from torchlint.base.finding import Reason
from torchlint.report import explained, explained_json


def verdict(code: str, state: State, because: str = "", expression: str = "loss.item()") -> Verdict:
    where = "torchlint/rules/transfer/a.py"
    return Verdict(code, f"name-{code}", state, 7, 5, expression, because, decided_by=where)


def belief(number: int) -> Belief:
    return Belief(f"x{number}", 7, 5, "tensor", "cuda", None, True, None, "tensor on the GPU")


def report(explanation: Explanation) -> ExplainedReport:
    return ExplainedReport("train.py", explanations=(explanation,))


def text(explanation: Explanation, color: bool = False) -> str:
    return explained.render([report(explanation)], color)


def test_rules_that_say_the_same_share_an_entry() -> None:
    same = (
        verdict("TL101", State.SILENT, "it is cold"),
        verdict("TL105", State.SILENT, "it is cold"),
    )
    out = text(Explanation(Place(7), "x", verdicts=same))
    assert (
        "  TL101 name-TL101, TL105 name-TL105: silent about `loss.item()`\n      because it is "
        "cold\n"
    ) in out


def test_rules_with_other_reasons_do_not() -> None:
    other = (
        verdict("TL101", State.SILENT, "it is cold"),
        verdict("TL105", State.SILENT, "it is on the CPU"),
    )
    assert text(Explanation(Place(7), "x", verdicts=other)).count("silent about") == 2


def test_a_verdict_on_another_row_of_the_statement_says_which() -> None:
    out = text(Explanation(Place(6), "x", verdicts=(verdict("TL101", State.FLAGGED),)))
    assert "TL101 name-TL101: flagged (line 7)" in out


def test_many_silent_rules_and_values_are_counted() -> None:
    silent = tuple(verdict(f"TL1{n:02}", State.SILENT, f"reason {n}") for n in range(11))
    out = text(Explanation(Place(7), "x", verdicts=silent, beliefs=tuple(map(belief, range(9)))))
    assert "reason 7" in out
    assert "reason 8" not in out
    assert "… and 3 more (--output-format json has them)" in out
    assert "`x5`" in out
    assert "`x6`" not in out


def test_guards_say_whether_they_make_a_line_rare() -> None:
    guards = (Guard("rank == 0", 3, True, False), Guard("step % 9", 4, False, True))
    out = text(
        Explanation(
            Place(7),
            "x",
            Pace("train", "runs every training step", (), guards, ("autograd is off",)),
        )
    )
    line = "only if `rank == 0` (line 3): may be so every time, so the line does not count as rare"
    assert line in " ".join(out.split())
    assert "only if not `step % 9` (line 4): seldom the case" in out
    assert "        autograd is off\n" in out


def test_lines_are_folded_at_100_columns() -> None:
    long = verdict("TL101", State.SILENT, "the line " + "runs only now and then, " * 20)
    chain = (Reason("`x` = `" + "y + " * 40 + "y`", "other.py", 3),)
    out = text(Explanation(Place(7), "x", Pace("train", "w " * 90, chain), verdicts=(long,)))
    assert max(map(len, out.split("\n"))) <= 100
    assert "(other.py line 3)" in " ".join(out.split())


def test_colours_are_used_where_they_may_be() -> None:
    one = Explanation(Place(7), "x", verdicts=(verdict("TL101", State.FLAGGED),))
    assert "\x1b[" in text(one, color=True)
    assert "\x1b[" not in text(one)


def test_json_has_everything_under_frozen_keys() -> None:
    one = Explanation(
        Place(7, 5),
        "x",
        Pace(
            "train",
            "often",
            (Reason("loop", "train.py", 2),),
            (Guard("a", 1, True, False),),
            ("r",),
        ),
        (belief(1),),
        (verdict("TL101", State.SILENT, "cold"),),
    )
    (entry,) = json.loads(explained_json.render([report(one)]))
    assert list(entry) == [
        "filename",
        "cell",
        "row",
        "column",
        "source",
        "remark",
        "rules",
        "pace",
        "values",
        "waits",
    ]
    assert entry["rules"] == [
        {
            "code": "TL101",
            "name": "name-TL101",
            "state": "silent",
            "because": "cold",
            "message": None,
            "expression": "loss.item()",
            "row": 7,
            "column": 5,
            "decided_by": "torchlint/rules/transfer/a.py",
        }
    ]
    assert entry["pace"]["guards"] == [{"test": "a", "row": 1, "needed": True, "throttles": False}]
    assert list(entry["values"][0]) == [
        *("expression", "row", "column", "kind", "device", "dtype"),
        *("on_device", "grad", "words", "origin", "unknown"),
    ]
