"""What the ledger predicts is told by line, beside findings, and as a prediction; where it predicts
nothing, that is said."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.profile.test_growth import MARKS, program
from tests.trace.program import written
from torchlint.base.finding import Finding, Severity
from torchlint.base.span import Position
from torchlint.profile.bounds import Whole
from torchlint.profile.growth import Growth, Kept
from torchlint.profile.join import Costs, FindingCost
from torchlint.profile.lines import LineCost
from torchlint.profile.output import agent, forecast, html, json_report, markdown, text
from torchlint.profile.output.content import Content
from torchlint.profile.predicted import Predicted, Traffic, predicted
from torchlint.profile.report import report, summarised
from torchlint.profile.sites import Site, Source, Sources
from torchlint.profile.statements import Statement
from torchlint.profile.virtual_run import Counted
from torchlint.profile.waits import Waits

SOURCES = Sources([Source("/home/me/pkg/train.py", "pkg/train.py", "x\n" * 20)])
SUMMARY: dict[str, Any] = {
    "basis": "virtual-cuda",
    "unavailable": "",
    "notes": ["torch.compile: counted in eager mode"],
    "steps": 4,
    "syncs": 2.5,
    "h2d_bytes": 1000.0,
    "d2h_bytes": 8.0,
    "staged": 0.0,
    "used": True,
    "lines": [
        {"kind": "sync", "file": "train.py", "line": 7, "count": 8, "bytes": 0, "what": "item()"},
        {"kind": "d2h", "file": "train.py", "line": 7, "count": 8, "bytes": 32, "what": "item()"},
        {"kind": "h2d", "file": "train.py", "line": 3, "count": 4, "bytes": 4000, "what": "copy"},
        {"kind": "sync", "file": "<library>", "line": 0, "count": 2, "bytes": 0, "what": "nonzero"},
        {"kind": "mismatch", "file": "train.py", "line": 9, "count": 4, "bytes": 0, "what": "add"},
    ],
}


def finding(line: int, effect: str = "wait") -> FindingCost:
    at = Position(line, 1)
    one = Finding(
        "TL101", "x", "reads a value", Severity.WARNING, "pkg/train.py", at, at, line, line
    )
    return FindingCost(one, effect, seen=True, why="only a GPU tells")


FOUND = predicted(Counted(SUMMARY, ""), SOURCES)


def test_lines_are_those_of_the_user_and_counts_those_of_a_step() -> None:
    assert FOUND.of == Traffic(2.5, 1000.0, 8.0)
    assert [(one.file, one.line, one.of, one.causes) for one in FOUND.each] == [
        ("pkg/train.py", 7, Traffic(2.0, 0.0, 8.0), ("item()",)),
        ("<library>", 0, Traffic(0.5, 0.0, 0.0), ("nonzero",)),
        ("pkg/train.py", 3, Traffic(0.0, 1000.0, 0.0), ("copy",)),
    ]
    assert FOUND.doubts == (
        "predicted: torch.compile: counted in eager mode",
        "predicted: pkg/train.py:9 mixes devices (add); a real GPU stops there",
    )


@pytest.mark.parametrize(
    ("line", "effect", "words"),
    [
        (7, "host", "predicted for a GPU, in each step: 2 waits, 8 B back"),
        (3, "copy", "predicted for a GPU, in each step: 1,000 B to the GPU"),
        (12, "wait", "predicted for a GPU, in each step: no wait and no copy"),
        (12, "gpu", ""),
    ],
)
def test_a_finding_has_what_its_statement_does(line: int, effect: str, words: str) -> None:
    assert forecast.of_finding(finding(line, effect), FOUND) == words
    assert forecast.of_finding(finding(line, effect), None) == ""
    assert forecast.of_finding(finding(line, effect), Predicted("a gap")) == ""


@pytest.mark.parametrize(
    ("counts", "failed", "why"),
    [
        (None, "under the ledger it failed", "under the ledger it failed"),
        ({**SUMMARY, "unavailable": "no stub"}, "it failed", "no stub"),
        (None, "", "ended before a step"),
        ({**SUMMARY, "steps": 0}, "", "ended before a step"),
        ({**SUMMARY, "used": False}, "", "the program stayed on the CPU though a CUDA device was"),
    ],
)
def test_where_nothing_is_predicted_no_number_is_told(
    counts: dict[str, Any] | None, failed: str, why: str
) -> None:
    found = predicted(Counted(counts, failed), SOURCES)
    assert why in found.unavailable
    assert why in forecast.headline(found)
    assert found.at(finding(7).finding) is None
    document = forecast.document(found)
    assert document is not None
    assert (document["per_step"], document["lines"]) == (None, [])


@pytest.mark.parametrize(
    ("text", "told"), [("device = 'cuda'", True), ("device = 'cpu'", False), ("cudart = 1", False)]
)
def test_how_a_device_is_chosen_matters_where_a_file_names_one(text: str, told: bool) -> None:
    sources = Sources([Source("/home/me/train.py", "train.py", text)])
    found = predicted(Counted({**SUMMARY, "used": False}, ""), sources)
    assert ("chooses its device by something else" in found.unavailable) == told


def test_every_form_of_the_report_tells_both(tmp_path: Path) -> None:
    path = written(tmp_path / "t.json", program(0).events, torchlint_marks=MARKS)
    counted, _ = summarised([path])
    heavy = LineCost(Site("a.py", 3, "f", "marked"), 1, 9, 0, None, None, None, None, 700_000)
    growth = Growth("CPU", 4096_000, 5, (Kept(Site("a.py", 3, "f", "marked"), 4096_000),))
    content = Content(
        report=report(counted, ("profile",), "1"),
        rank=None,
        top=20,
        costs=Costs((finding(7),), 0, 0, 1_000_000, False, Whole(1_000_000)),
        predicted=FOUND,
        growth=(growth,),
        waits=Waits((), 0, 1_000_000, True, np.zeros(0, np.int64)),
        texts={"a.py": "\n\nmodel(x)\n"},
        statements=(Statement(heavy),),
    )
    for_agents = partial(agent.render, tokens=8000)
    for render in (text.render, markdown.render, html.render, for_agents):
        shown = render(content).replace("\\", "")
        assert "redicted for a GPU, in each step: 2.5 waits, 1,000 B to the GPU, 8 B back" in shown
        assert "emory of the CPU grows by 4.1 MB in each of 5 steps" in shown
        assert "a.py:3, in f" in shown
        assert "pkg/train.py:9 mixes devices" in shown
        assert "each statement with all it calls" in shown
        assert "700 us (70.0 %)" in shown
        assert "model(x)" in shown
    assert '"to_host_bytes": 8.0' in json_report.render(content)
