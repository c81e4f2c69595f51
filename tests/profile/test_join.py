"""Findings beside a trace: what of it is theirs, what fixing them saves at most, and in which
order they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.trace.program import Machine, written
from torchlint.base.finding import Finding, Safety, Severity, TextFix
from torchlint.base.span import Position
from torchlint.profile import join
from torchlint.profile.bounds import Whole
from torchlint.profile.join import Costs, Found, joined
from torchlint.profile.lines import Lines
from torchlint.profile.live import Steps
from torchlint.profile.output.content import Content
from torchlint.profile.output.findings import basis, batches, bounded, parts, unbounded
from torchlint.profile.output.table import part, span
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.report import Summary, report
from torchlint.profile.sites import Source, Sources
from torchlint.profile.statements import loading
from torchlint.profile.waits import waits
from torchlint.profile.workers import WorkerLine, Workers
from torchlint.trace.stream import read

PROGRAM = """import torch

def helper(x):
    return torch.sort(x)

def train(x, y):
    a = x.item()
    b = y.relu()
    helper(y)
    for i in range(3):
        c = (y.tanh() if i else
        y.tanh())

def never(x):
    return x.item()
"""
SOURCES = Sources([Source("/p/train.py", "train.py", PROGRAM)])


def finding(row: int, end: int = 0, code: str = "TL101", **more: object) -> Finding:
    start = Position(row, 1)
    return Finding(code, "n", "m", Severity.WARNING, "train.py", start, Position(end or row, 9),
                   row, row, **more)  # type: ignore[arg-type]  # fmt: skip


class Program(Machine):
    """A machine whose host runs functions of a file."""

    @contextmanager
    def frame(self, name: str) -> Iterator[None]:
        begun = self.now
        self.now += 100
        yield
        self.now += 100
        self.event("python_function", name, begun, self.now - begun)

    @contextmanager
    def method(self, name: str) -> Iterator[None]:
        with self.frame(f"<built-in method {name} of Tensor object at 0x7f>"):
            yield


def trained(device: bool = True, alike: bool = False) -> Program:
    """Return what ran: a read that waits, a kernel, a helper, and copies of one of two lines that
    are alike."""
    machine = Program()
    with machine.frame("/p/train.py(1): <module>"), machine.frame("/p/train.py(6): train"):
        for _ in range(4):
            if device:
                machine.launch(500_000)
            with machine.method("item"):
                machine.host(10_000)
                if device:
                    machine.item("item")
            with machine.method("relu"):
                machine.host(50_000)
                if device:
                    machine.launch(20_000)
            with machine.frame("/p/train.py(3): helper"), machine.method("sort"):
                machine.host(200_000)
            if alike:
                with machine.method("tanh"), machine.operator("aten::tanh"):
                    machine.host(80_000)
                    machine.upload(40_000)
    return machine


def costs(
    path: Path,
    machine: Machine,
    *asked: tuple[str, Finding],
    whole: Whole | None = None,
    in_workers: Callable[[Finding], bool] = lambda finding: False,
) -> Costs:
    written_to = written(path / "t.json", machine.events)
    return joined_of(written_to, *asked, whole=whole, in_workers=in_workers)


def joined_of(
    path: str,
    *asked: tuple[str, Finding],
    whole: Whole | None = None,
    in_workers: Callable[[Finding], bool] = lambda finding: False,
) -> Costs:
    trace = read(path)
    replay, places = Replay(trace), Places(trace, SOURCES)
    effects = {one.code: (effect, True) for effect, one in asked}
    lines = Lines(places, replay).each
    found = Found(replay, places, waits(replay, places, 20), lines, whole or Whole(replay.span))
    return joined([one for _, one in asked], effects, found, in_workers)


def shown(found: Costs, top: int = 20, steps: Steps | None = None) -> Content:
    """Return what a report shows of findings alone."""
    nothing = report(Summary((), ()), ("profile",), "1")
    return Content(report=nothing, rank=None, top=top, costs=found, steps=steps)


def only(path: Path, effect: str, one: Finding, machine: Machine | None = None) -> join.FindingCost:
    (cost,) = costs(path, machine or trained(), (effect, one)).each
    return cost


def test_a_wait_at_a_line_has_a_bound(tmp_path: Path) -> None:
    cost = only(tmp_path, "wait", finding(7))
    assert (cost.seen, cost.why) == (True, "")
    assert cost.wait is not None
    assert cost.bound is not None
    assert cost.cost is not None
    assert cost.cost.wait_ns == cost.wait.waited
    # What the host does behind the read is as long as what the device does.
    assert 0 < cost.bound.alone_ns <= cost.wait.waited + 40_000


def test_a_line_that_is_only_probable_is_said_to_be(tmp_path: Path) -> None:
    found = costs(tmp_path, trained(), ("wait", finding(7)))
    (cost,) = found.each
    assert "probably" not in basis(cost, found)
    assert cost.cost is not None
    site = replace(cost.cost.site, certainty="aligned")
    probable = replace(cost, cost=replace(cost.cost, site=site))
    assert basis(probable, found).endswith("; its calls are probably those of the line")


def test_what_did_not_run_was_not_seen(tmp_path: Path) -> None:
    cost = only(tmp_path, "wait", finding(15))
    assert (cost.bound, cost.seen, cost.why) == (None, False, join.NOT_SEEN)


@pytest.mark.parametrize(
    ("row", "seen"),
    [
        (8, True),
        (7, False),  # would have left a mark
        (10, None),  # the head of a loop
        (15, False),  # its function did not run
    ],
)
def test_a_statement_without_its_mark_was_not_seen(
    tmp_path: Path, row: int, seen: bool | None
) -> None:
    machine = Program()
    with machine.operator("tl#1"), machine.operator("aten::relu"):
        machine.launch(20_000)
    marks = {"1": ["/p/train.py", 8, 8, "train"]}
    path = written(tmp_path / "t.json", machine.events, torchlint_marks=marks)
    (cost,) = joined_of(path, ("gpu", finding(row))).each
    assert cost.seen is seen
    assert (cost.why == join.NOT_SEEN) is (seen is False)


def test_calls_of_two_like_lines_belong_to_neither(tmp_path: Path) -> None:
    for line in (11, 12):
        cost = only(tmp_path, "copy", finding(line), trained(alike=True))
        assert (cost.bound, cost.why) == (None, join.NOT_TOLD)
        assert only(tmp_path, "none", finding(line)).why == join.ELSEWHERE


def test_calls_of_an_unknown_line_that_do_nothing_of_the_kind_are_no_hindrance(
    tmp_path: Path,
) -> None:
    cost = only(tmp_path, "launch", finding(12), trained())
    assert cost.bound is not None
    assert cost.bound.alone_ns == 0


def test_a_loop_has_what_its_body_has(tmp_path: Path) -> None:
    machine = trained()
    whole = only(tmp_path, "host", finding(7, 9), machine)
    one = only(tmp_path, "host", finding(7), machine)
    assert whole.bound is None or one.bound is None or whole.bound.alone_ns >= one.bound.alone_ns


def test_a_statement_has_what_the_functions_that_it_calls_do(tmp_path: Path) -> None:
    machine = Program()
    with machine.frame("/p/train.py(6): train"):
        for _ in range(4):
            with machine.frame("/p/train.py(3): helper"), machine.method("sort"):
                machine.host(200_000)
            with machine.method("relu"):
                machine.launch(1_000)
    cost = only(tmp_path, "host", finding(9), machine)
    assert cost.bound is not None
    assert cost.bound.alone_ns == pytest.approx(4 * 200_400, abs=2_000)


def test_without_a_device_the_host_is_what_counts(tmp_path: Path) -> None:
    machine = trained(device=False)
    assert only(tmp_path, "wait", finding(7), machine).why == join.NO_DEVICE
    assert only(tmp_path, "memory", finding(7), machine).why == join.NO_DEVICE
    upload = only(tmp_path, "upload", finding(7), machine)
    assert (upload.bound, upload.seen, upload.why) == (None, True, join.NO_DEVICE)
    for effect in ("launch", "gpu"):
        found = costs(tmp_path, machine, (effect, finding(9)))
        assert found.each[0].bound is not None
        assert "although its arithmetic may stay" in basis(found.each[0], found)
    unseen = only(tmp_path, "wait", finding(15), machine)
    assert (unseen.seen, unseen.why) == (False, join.NOT_SEEN)
    assert only(tmp_path, "host", finding(9), machine).why in ("", join.NOT_TOLD)


def test_a_loader_needs_no_line(tmp_path: Path) -> None:
    one = finding(3, code="TL201")
    assert only(tmp_path, "loader", one).why == join.NO_LOADER
    machine = trained()
    machine.batch(9_000_000, 100_000)
    cost = only(tmp_path, "loader", one, machine)
    assert cost.bound is not None
    assert cost.bound.alone_ns > 5_000_000


def test_work_for_samples_is_that_of_its_lines_where_these_are_known(tmp_path: Path) -> None:
    machine = trained()
    machine.batch(9_000_000, 100_000)
    seen = only(tmp_path, "sample", finding(9), machine)
    assert seen.bound == replace(only(tmp_path, "host", finding(9), machine).bound, basis="sample")
    unseen = only(tmp_path, "sample", finding(15), machine)
    loader = only(tmp_path, "loader", finding(15), machine)
    assert unseen.bound is not None
    assert loader.bound is not None
    assert unseen.bound.alone_ns == loader.bound.alone_ns > 5_000_000
    elsewhere = costs(tmp_path, machine, ("sample", finding(15)), in_workers=lambda one: True)
    assert (elsewhere.each[0].bound, elsewhere.each[0].why) == (None, join.NOT_SEEN)


def test_bounds_of_a_run_are_parts_of_its_steps_without_the_profiler(tmp_path: Path) -> None:
    asked = ("wait", finding(7))
    trace = costs(tmp_path, trained(), asked)
    alone = trace.each[0].bound
    assert alone is not None
    # Four steps, that take half as long without the profiler.
    whole = Whole(trace.span // 2, 4)
    run = costs(tmp_path, trained(), asked, whole=whole)
    assert run.each[0].bound == alone
    assert run.share(run.each[0]) == pytest.approx(2 * trace.share(trace.each[0]), rel=1e-3)
    assert part(alone.alone_ns, whole).startswith(span(alone.alone_ns / 4))
    assert " of a step of " in next(iter(list(bounded(shown(run), run, color=False))[1:]))
    under = f", {100 * alone.alone_ns / run.span:.1f} % of a step under the profiler"
    assert under in basis(run.each[0], run)
    assert "under the profiler" not in basis(trace.each[0], trace)
    # Disturbed steps without the profiler: the others are compared with, and these are told of.
    disturbed = Whole(trace.span, 4, trace.span / 2)
    assert part(trace.span // 10, disturbed) == f"{span(trace.span / 20)} (10.0 %)"
    # No part is more than the whole.
    assert Whole(1_000, 4).share(5_000) == 1
    assert part(5_000, Whole(1_000, 4)) == "250 ns (100.0 %)"


def test_a_trace_without_lines_says_so(tmp_path: Path) -> None:
    machine = Machine()
    machine.launch(500_000)
    machine.item("item")
    cost = only(tmp_path, "wait", finding(7), machine)
    assert (cost.bound, cost.seen, cost.why) == (None, None, join.NO_LINES)


def test_the_most_saving_stands_first(tmp_path: Path) -> None:
    machine = trained()
    machine.batch(20_000_000, 100_000)
    mendable = TextFix(Safety.SAFE, "t", ())
    found = costs(
        tmp_path,
        machine,
        ("none", finding(8, code="TL300")),
        ("wait", finding(15, code="TL101")),
        ("wait", finding(7, code="TL101", fix=mendable)),
        ("loader", finding(3, code="TL201")),
    )
    codes = [(cost.finding.code, cost.finding.start.row) for cost in found.each]
    assert codes == [("TL201", 3), ("TL101", 7), ("TL300", 8), ("TL101", 15)]
    bounds = [cost.bound for cost in found.each if cost.bound is not None]
    assert 0 < found.fixable <= found.joint <= found.span
    assert found.fixable == bounds[1].alone_ns
    assert found.joint >= max(bound.alone_ns for bound in bounds)
    assert found.share(found.each[0]) > 0.5
    assert found.share(found.each[2]) == 0


def test_findings_of_one_line_that_say_the_same_are_told_once(tmp_path: Path) -> None:
    twice = finding(7, code="TL101"), finding(7, code="TL101")
    found = costs(tmp_path, trained(), *(("wait", one) for one in twice))
    words = list(bounded(shown(found), found, color=False))
    assert [line for line in words if "TL101" in line] == [words[2]]
    assert words[2].endswith("(2 times)")
    assert "wait" in words[3]


def test_a_line_without_a_bound_says_what_it_takes(tmp_path: Path) -> None:
    calls = [("none", finding(row, code="TL501")) for row in (7, 8, 15)]
    found = costs(tmp_path, trained(), *calls)
    words = list(unbounded(shown(found), found))
    told = parts(found)[2][join.ELSEWHERE]
    times = [each.cost.most_ns for each in told]
    assert times == sorted(times, reverse=True)
    assert times[0] > 0
    assert times[-1] == 0
    assert words[1] == f"3 findings without a bound: {join.ELSEWHERE}"
    assert f"; its line takes {part(times[0], found.recorded)}" in words[2]
    assert "takes" not in next(line for line in words if "train.py:15" in line)


def test_of_findings_without_a_bound_few_are_listed(tmp_path: Path) -> None:
    calls = [("none", finding(15, code=f"TL{number}")) for number in range(100, 109)]
    found = costs(tmp_path, trained(), *calls)
    words = list(unbounded(shown(found), found))
    assert len(words) == 8
    assert words[-1] == "  and 4 more"
    assert len(list(unbounded(shown(found, top=2), found))) == 5


def test_what_is_not_played_is_bounded_more_coarsely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = only(tmp_path, "wait", finding(7)).bound
    monkeypatch.setattr(join, "_PLAYED", 0)
    coarse = only(tmp_path, "wait", finding(7)).bound
    assert exact is not None
    assert coarse is not None
    assert coarse.alone_ns >= exact.alone_ns


MENDABLE = TextFix(Safety.UNSAFE, "t", ())
PACE = Steps((".",), ("train.py",), "optimizer", None, None, options=("--env", "A=1"))


def validated(steps: int = 4) -> Machine:
    """Run a program whose evaluation, in line 7, calls a function that takes most of a step."""
    machine = Machine()
    for _ in range(steps):
        with machine.operator("tl#1"):
            machine.host(10_000)
            with machine.operator("tl#2"), machine.operator("aten::mm"):
                machine.host(700_000)
        with machine.operator("tl#3"), machine.operator("aten::add"):
            machine.host(290_000)
    return machine


MARKS = {
    "1": ["/home/me/train.py", 7, 7, "train"],
    "2": ["/home/me/train.py", 3, 3, "helper"],
    "3": ["/home/me/train.py", 8, 8, "train"],
}


def test_a_finding_whose_statement_calls_what_is_dear_says_so_and_comes_first(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "t.json", validated().events, torchlint_marks=MARKS)
    asked = (
        ("none", finding(8, code="TL102")),
        ("none", finding(7, code="TL501", fix=MENDABLE)),
        ("wait", finding(15, code="TL101", fix=MENDABLE)),
    )
    found = joined_of(path, *asked)
    by_code = {cost.finding.code: cost for cost in found.each}
    assert by_code["TL501"].inclusive_ns == 4 * 710_000
    assert by_code["TL501"].most_ns == 4 * 10_000
    assert by_code["TL102"].inclusive_ns == by_code["TL102"].most_ns == 4 * 290_000
    told = list(unbounded(shown(found, steps=PACE), found))
    assert told[1].endswith(join.ELSEWHERE)
    assert "TL501" in told[2]
    assert told[2].endswith("; its line takes 40.0 us (1.0 %), with what it calls 2.84 ms (71.0 %)")
    proof = "torchlint verify . --select TL501 --unsafe-fixes --env A=1 -- train.py"
    assert told[3] == f"    prove its fix: {proof}"
    assert told[4].endswith("; its line takes 1.16 ms (29.0 %)")
    # What did not run proves nothing.
    assert not [line for line in told if "--select TL101" in line]
    again = "torchlint profile . --memory --env A=1 -- train.py"
    assert told[-1] == f"whether memory grows from step to step: {again}"
    assert "--memory" not in " ".join(unbounded(shown(found), found))
    recorded = replace(shown(found, steps=PACE), growth=())
    assert "--memory" not in " ".join(unbounded(recorded, found))


def test_a_finding_about_the_wait_for_batches_names_what_they_go_into(tmp_path: Path) -> None:
    machine = Machine()
    for _ in range(4):
        with (
            machine.operator("tl#1"),
            machine.operator("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        ):
            machine.host(100_000)
            with machine.operator("tl#2"), machine.operator("aten::mm"):
                machine.host(700_000)
            with machine.operator("tl#3"):
                machine.host(200_000)
        machine.host(50_000)
    path = written(tmp_path / "t.json", machine.events, torchlint_marks=MARKS)
    found = joined_of(path, ("loader", finding(7, code="TL201")))
    trace = read(path)
    places = Places(trace, SOURCES)
    lines = Lines(places, Replay(trace))
    content = replace(shown(found, steps=PACE), loading=loading(lines, places))
    goes = "a batch goes into train.py:3 (70.0 %), train.py:8 (20.0 %)"
    asked = "torchlint profile . --sweep-workers --env A=1 -- train.py says whether workers help"
    assert f"  {goes}; {asked}" in list(bounded(content, found, color=False))
    read_only = replace(content, steps=None)
    assert f"  {goes}" in list(bounded(read_only, found, color=False))
    assert batches(content, replace(found.each[0], effect="host")) == ""
    line = WorkerLine("data.py", 9, 9, "f", 600.0, 600.0, 1.0)
    crew = Workers(2, 4, 900.0, 900, None, 2, 1000.0, (line,))
    workers = replace(content, steps=replace(PACE, workers=crew))
    assert batches(workers, found.each[0]).startswith("a batch goes into data.py:9 (60.0 %); ")
