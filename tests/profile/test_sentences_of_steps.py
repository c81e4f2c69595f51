"""What a report says first of a run, and of steps of another kind."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.profile.divided import divided
from tests.trace.program import Machine, steps, written
from torchlint.cli.main import run
from torchlint.profile.bounds import Whole
from torchlint.profile.join import Aside, FindingCost
from torchlint.profile.live import Pace, Steps
from torchlint.profile.output.findings import aside
from torchlint.profile.output.run import rows
from torchlint.profile.output.sentences import headline
from torchlint.profile.report import Rank, summarised
from torchlint.profile.running import Aside as Other
from torchlint.profile.running import usual_of
from torchlint.trace.division import LOADING, Division


@pytest.fixture
def rank(tmp_path: Path) -> Rank:
    path = written(tmp_path / "t.json", steps(2).events)
    return summarised([path])[0].ranks[0]


def of_run(busy: int | None, loading: int = 0, **more: Any) -> Steps:
    """Return a run whose steps take 1 ms, with so much work for the device and waiting for data."""
    device = None if busy is None else {"computing": busy, "copying alone": 0}
    parts = divided(4, 1_000_000, {LOADING: loading, "operators": 400_000}, device)
    pace = Pace((1_000_000,) * 4, (loading,) * 4, 4_000_000)
    return Steps((".",), ("t.py",), "optimizer", pace, parts, **more)


@pytest.mark.parametrize(
    ("busy", "loading", "answer"),
    [
        (380_000, 0, "the GPU works for 38 % of it; the host is what it waits for."),
        (380_000, 320_000, "the GPU works for 38 % of it; data is what it waits for, 32 %."),
        (380_000, 300_000, "the GPU works for 38 % of it; the host is what it waits for."),
        (960_000, 0, "the GPU works for 96 % of it; the GPU is what it waits for."),
        (1_400_000, 0, "the GPU is never idle; the GPU is what it waits for."),
    ],
)
def test_the_answer_says_what_a_step_waits_for(
    rank: Rank, busy: int, loading: int, answer: str
) -> None:
    assert headline(rank, None, of_run(busy, loading)) == f"A step takes 1.00 ms; {answer}"


def test_without_a_gpu_it_says_what_a_step_goes_into(rank: Rank) -> None:
    assert headline(rank, None, of_run(None)) == (
        "A step takes 1.00 ms, without a GPU; it goes into other work of the host 60 %, operators "
        "40 %."
    )


@pytest.mark.parametrize(
    ("step", "told"), [(300_000, "too short"), (500_000, "operators"), (30_000_000, "operators")]
)
def test_a_step_that_is_mostly_the_profiler_has_no_shares(rank: Rank, step: int, told: str) -> None:
    """Of the others one takes twice as long under the profiler, one is long."""
    seen = 4 * step if step > 1_000_000 else 1_000_000
    run = of_run(None)
    parts = divided(4, seen, {LOADING: 0, "operators": step // 3})
    run = replace(run, division=parts, pace=Pace((step,) * 4, (0,) * 4, 4 * step))
    first = headline(rank, None, run)
    assert told in first
    assert (" %" in first) is (told == "operators")


def test_the_text_begins_with_the_answer_as_the_page_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "t.json", steps(4).events)
    assert run(["profile", "-q", "--trace", path, "--color", "never"]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("A step takes ")
    assert "the GPU computes for" in first
    assert second.startswith(f"{path}: rank 0")
    page = tmp_path / "page.html"
    options = ["--output-format", "html", "-o", str(page)]
    assert run(["profile", "-q", "--trace", path, *options]) == 0
    assert f'<p class="headline">{first}</p>' in page.read_text()


def odd_of(time: int, *why: str) -> Division:
    """Return four steps of 1 ms, and one that is of another kind."""
    alike = divided(5, 1_000_000, {}).each
    return Division((*alike[:4], replace(alike[4], time=time, why=why, odd=True)))


@pytest.mark.parametrize(
    ("why", "words"),
    [
        (("pass", "evaluation"), "that hold an evaluation"),
        (("data", "forward"), "that run a model without gradients, as an evaluation does"),
        (("data",), "that take batches of another DataLoader"),
        (("save",), "that hold a save"),
        (("pass",), "that begin a new pass over the data"),
        ((), "unlike the others"),
    ],
)
def test_steps_of_another_kind_are_told_with_what_they_did(
    rank: Rank, why: tuple[str, ...], words: str
) -> None:
    run = of_run(None, aside=(Other(3_000_000, why), Other(5_000_000, why)))
    run = replace(run, division=odd_of(6_000_000, *why))
    found = [value for name, value in rows(run) if name == "  not counted"]
    assert found == [
        f"2 of 6 steps {words}: 4.00 ms each, 66.7 % of the time",
        f"1 of 5 steps {words}: 6.00 ms, 60.0 % of the time",
    ]
    told = f"That is without 1 of 5 steps {words}, which took most of the time."
    assert told in headline(rank, None, run)
    short = replace(run, division=odd_of(3_000_000, *why))
    assert "That is" not in headline(rank, None, short)


def test_a_finding_of_such_steps_is_told_of_them() -> None:
    whole = Whole(20_000_000, 2)
    assert aside(Aside("save", 5_000_000, whole)) == (
        "saves at most 2.50 ms (25.0 %) of a step of 10.0 ms under the profiler, of those that "
        "hold a save"
    )
    assert aside(Aside("", None, whole)).startswith("it ran in a step of 10.0 ms under")
    assert FindingCost.__dataclass_fields__["aside"].default is None


def record(**more: Any) -> dict[str, Any]:
    """Return what a run left of five steps, the third of them long."""
    ends = [(0, 0, 0, 0), (10, 1, 1, 1), (20, 2, 2, 2), (90, 9, 9, 8), (101, 10, 10, 9)]
    kinds = [[], [], [], ["evaluation"], []]
    return {"ends_ns": ends, "total_ns": 105, "kinds": kinds, "device": "", "threads": 1,
            "cores": 2, **more}  # fmt: skip


def test_steps_of_another_kind_are_none_of_the_programs_pace() -> None:
    pace, other = usual_of(record())
    assert pace is not None
    assert (pace.each, pace.loading) == ((10, 10, 11), (1, 1, 1))
    assert (pace.total, pace.batches, pace.waited) == (35, 3, 3)
    assert other == (Other(70, ("evaluation",)),)
    assert usual_of(record(total_ns=None)) == (None, ())
    assert usual_of(record(ends_ns=[(0, 0, 0, 0)], kinds=[[]])) == (None, ())


MARKS = {"1": ["train.py", 1, 1, "train"], "2": ["train.py", 2, 2, "evaluate"]}


def test_every_form_of_a_report_has_places_of_such_steps_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine()
    for number in range(5):
        begun = machine.now
        for mark, times in (("tl#1", 1), ("tl#2", 5 * (number == 3))):
            for _ in range(times):
                with machine.operator(mark), machine.operator("aten::mm"):
                    machine.host(100_000)
                    machine.launch(20_000)
        machine.event("user_annotation", f"ProfilerStep#{number}", begun, machine.now - begun)
    told = {"3": ["evaluation"]}
    path = written(tmp_path / "t.json", machine.events, torchlint_marks=MARKS, torchlint_steps=told)

    def report(form: str) -> str:
        assert run(["profile", "-q", "--trace", path, "--output-format", form]) == 0
        return capsys.readouterr().out

    lines = {line["line"]: line for line in json.loads(report("json"))["lines"]}
    assert {at: line["calls"] for at, line in lines.items()} == {1: 4}
    assert lines[1]["gpu_ns"] == 4 * 20_000
    text = report("text")
    assert "hot, only in steps that hold an evaluation: above 3 % of a step of 624 us" in text
    assert "520 us" in text  # of five, all of the one step
    assert "note: steps that hold an evaluation (1) are left out of lines and bounds" in text
    assert "### Hot, only in steps that hold an evaluation: above 3" in report("markdown")
    assert "<h2>Hot, only in steps that hold an evaluation: above 3" in report("html")
