"""Where the time goes by statement, each with all that it calls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.trace.program import Machine, written
from torchlint.profile.bounds import Whole
from torchlint.profile.lines import Lines
from torchlint.profile.output import tables
from torchlint.profile.output.content import Content
from torchlint.profile.output.source import source
from torchlint.profile.output.tables import COSTS, place_row
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.report import Summary, report
from torchlint.profile.sites import Site, Source, Sources
from torchlint.profile.statements import statements
from torchlint.profile.waits import waits
from torchlint.trace.columns import Trace
from torchlint.trace.stream import read

TEXT = """def main():
    epoch()
    images = augment(batch)
    loss = model(images)

def augment(batch):
    return torch.stack([flip(one) for one in batch])

def flip(one):
    return one.flip(0)
"""
MARKS = {
    str(line): ["/home/me/train.py", line, line, function]
    for line, function in ((2, "main"), (3, "main"), (4, "main"), (7, "augment"), (10, "flip"))
}
SOURCES = Sources([Source("/home/me/train.py", "train.py", TEXT)])


def stepped(path: Path) -> tuple[Lines, Replay]:
    machine = Machine()
    with machine.operator("tl#2"):
        for _ in range(4):
            with machine.operator("tl#3"):
                machine.host(10_000)
                with machine.operator("tl#7"):
                    machine.host(100_000)
                    for _ in range(5):
                        with machine.operator("tl#10"), machine.operator("aten::flip"):
                            machine.host(100_000)
            with machine.operator("tl#4"), machine.operator("aten::mm"):
                machine.host(390_000)
    trace = read(written(path / "t.json", machine.events, torchlint_marks=MARKS))
    replay = Replay(trace)
    return Lines(Places(trace, SOURCES), replay), replay


def replay_trace(path: Path) -> Trace:
    return read(str(path / "t.json"))


def test_statements_stand_with_all_that_they_call(tmp_path: Path) -> None:
    lines, replay = stepped(tmp_path)
    found = statements(lines, replay.span)
    # Line 2 holds all of it; line 3 calls line 7, which takes the same.
    shown = [(one.cost.site.line, one.cost.inclusive_ns) for one in found]
    assert shown == [(7, 4 * 600_000), (10, 4 * 500_000), (4, 4 * 390_000)]
    assert [cost.site.line for cost in found[0].callers] == [3]
    assert [one.callers for one in found[1:]] == [(), ()]


def test_their_rows_have_share_place_and_text(tmp_path: Path) -> None:
    lines, replay = stepped(tmp_path)
    content = Content(
        report=report(Summary((), ()), ("profile",), "1"),
        rank=None,
        top=20,
        waits=waits(replay, Places(replay_trace(tmp_path), SOURCES), 20),
        whole=Whole(replay.span, 4),
        lines=lines.each,
        texts={"train.py": TEXT},
        statements=statements(lines, replay.span),
    )
    whole = Whole(replay.span, 4)
    words = list(next(tables.costs(content)).text(color=False))
    assert words[1] == (
        "where a step's time goes, each statement with all it calls: of a step of 1.00 ms under "
        "the profiler"
    )
    assert re.sub(r" +", " ", words[2]) == "time place statement"
    assert words[3:] == [
        "600 us (60.0 %)  train.py:7, in augment, from train.py:3, in main  "
        "return torch.stack([flip(one) for one in batch])",
        "500 us (50.0 %)  train.py:10, in flip                              return one.flip(0)",
        "390 us (39.0 %)  train.py:4, in main                               loss = model(images)",
    ]
    flip = next(cost for cost in lines.each if cost.site.line == 10)
    row = dict(zip(COSTS, place_row(flip, whole, (), {"train.py": TEXT}), strict=True))
    assert (row["times"], row["statement"]) == ("5 x", "return one.flip(0)")


def test_without_marks_and_frames_nothing_is_known(tmp_path: Path) -> None:
    machine = Machine()
    with machine.operator("aten::mm"):
        machine.host(1_000_000)
    trace = read(written(tmp_path / "t.json", machine.events))
    lines = Lines(Places(trace, SOURCES), Replay(trace))
    assert {cost.inclusive_ns for cost in lines.each} == {None}
    assert statements(lines, 1_000_000) == ()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (1, "x = f(a, b)"),
        (4, "return x"),
        (5, "long = one_name_that_is_long + another_name_that_is_long ..."),
        (9, ""),
    ],
)
def test_a_statement_is_one_line(line: int, words: str) -> None:
    many = "_that_is_long"
    text = (
        f"x = f(\n    a,\n    b)\nreturn x\n"
        f"long = one_name{many} + another_name{many} + a_third_name{many}\n"
    )
    assert source(Site("a.py", line, "f", "marked"), {"a.py": text}) == words
    assert source(Site("a.py", line, "f", "function"), {"a.py": text}) == ""
