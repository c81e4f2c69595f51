"""What fixing lines in workers of DataLoaders saves at most: held against what loaders of a model
save, in which batches are made, queued and taken as DataLoaders do."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

pytest.importorskip("numpy")

from torchlint.base.finding import Finding, Safety, Severity, TextFix
from torchlint.base.span import Position
from torchlint.profile import join
from torchlint.profile.bounds import Bound, Whole
from torchlint.profile.join import Costs, FindingCost
from torchlint.profile.output.findings import basis
from torchlint.profile.running import Pace
from torchlint.profile.worker_bounds import IN_WORKERS, Loading, loading, with_workers
from torchlint.profile.workers import Batch, WorkerLine, Workers

AHEAD = 2
"""Batches that a DataLoader asks of each worker in advance."""


def finding(row: int, code: str = "TL603", fix: TextFix | None = None) -> Finding:
    start = Position(row, 1)
    return Finding(code, "n", "m", Severity.WARNING, "data.py", start, Position(row, 9), row, row,
                   fix=fix)  # fmt: skip


def batch(
    took: int, lines: Mapping[int, int] | None, worker: int = 0, workers: int = 1, loader: int = 1
) -> Batch:
    known = None if lines is None else {("data.py", row): time for row, time in lines.items()}
    return Batch(loader, workers, worker, took, known)


def workers(single: Sequence[Batch]) -> Workers:
    timed = [each for each in single if each.lines is not None]
    rows = {row for each in timed for row in each.lines or ()}
    lines = tuple(
        WorkerLine(file, row, row, "f", 0.0, mean, 1.0)
        for file, row in rows
        for mean in [sum((each.lines or {}).get((file, row), 0) for each in timed) / len(timed)]
    )
    took = sum(each.took for each in timed) / len(timed) if timed else 0.0
    return Workers(
        max(each.workers for each in single), 1, 1.0, 1, 1.0, len(timed), took, lines, tuple(single)
    )


def of(single: Sequence[Batch], step: float, waits: float, crowded: bool = False) -> Loading:
    return Loading(workers(single), step, 1.0, waits, crowded)


# A line's own time


def test_one_worker_saves_what_its_line_takes() -> None:
    found = of([batch(100, {3: 60, 4: 30})] * 6, step=110, waits=100)
    assert found.without([finding(3)]) == 60
    assert found.without([finding(3), finding(4)]) == 90
    assert found.without([finding(3), finding(3)]) == 60
    assert found.without([finding(9)]) == 0


def test_workers_work_side_by_side() -> None:
    single = [batch(100, {3: 60}, worker=at % 4, workers=4) for at in range(8)]
    assert of(single, step=40, waits=30).without([finding(3)]) == 15


def test_a_step_may_take_several_batches() -> None:
    single = [batch(100, {3: 60})] * 6
    assert Loading(workers(single), 400.0, 3.0, 300.0, False).without([finding(3)]) == 180


def test_of_unlike_batches_the_dearest_are_taken() -> None:
    # One of two workers has all that are slow: each second batch is late by all of it.
    single = [batch(100 * (at % 2), {3: 80 * (at % 2)}, at % 2, 2) for at in range(8)]
    assert of(single, step=60, waits=50).without([finding(3)]) == 40


def test_a_worker_that_makes_more_than_its_turn_counts_for_more() -> None:
    single = [batch(100, {3: 60}, worker=at == 0, workers=2) for at in range(8)]
    assert of(single, step=100, waits=90).without([finding(3)]) == pytest.approx(60 * 7 / 8)


def test_a_line_that_is_called_by_another_one_counts_once_at_most() -> None:
    found = of([batch(100, {3: 80, 4: 70})] * 4, step=200, waits=150)
    assert found.without([finding(3), finding(4)]) == 100


# The waits


def test_no_more_is_saved_than_is_waited() -> None:
    single = [batch(100, None), *[batch(100, {3: 60})] * 5]
    assert of(single, step=110, waits=25).without([finding(3)]) == 25


def test_batches_made_ahead_hide_waits_for_a_while_only() -> None:
    single = [batch(100, None), *[batch(130, {3: 60})] * 5]
    assert of(single, step=80, waits=0).lasting == 20
    assert of(single, step=80, waits=0).without([finding(3)]) == 20


def test_where_cores_are_short_waits_are_no_limit() -> None:
    single = [batch(100, {3: 60})] * 4
    assert of(single, step=200, waits=10, crowded=True).without([finding(3)]) == 60


def pace(cores: int, **more: int) -> Pace:
    each = (100,) * 5
    return Pace(
        each, each, 500, **{"batches": 10, "waited": 250, "threads": 1, **more}, cores=cores
    )


def test_cores_are_short_where_workers_and_threads_are_more() -> None:
    single = workers([batch(100, {3: 60}, workers=2)])
    assert loading(single, pace(3), False) == Loading(single, 100, 2, 50, False)
    for short in (
        loading(single, pace(2), False),
        loading(single, pace(3, threads=2), False),
        loading(single, pace(3), True),
    ):
        assert short is not None
        assert short.crowded
    assert loading(single, pace(3, batches=0), False) is None
    assert loading(single, None, False) is None
    assert loading(None, pace(3), False) is None


# Against loaders whose truth is known


def run(times: Sequence[float], own: Sequence[float], count: int) -> tuple[float, float]:
    """Return how long a program takes, and how long of that it waits for batches.

    Args:
        times: of each batch in its worker.
        own: of the program behind each batch.
        count: of workers.
    """
    done = [0.0] * count
    taken: list[float] = []
    now = waited = 0.0
    for at, time in enumerate(times):
        asked = taken[at - AHEAD * count] if at >= AHEAD * count else 0.0
        done[at % count] = ready = max(done[at % count], asked) + time
        waited += max(0.0, ready - now)
        now = max(now, ready)
        taken.append(now)
        now += own[at]
    return now, waited


def test_loaders_save_no_more_than_is_promised() -> None:
    chance = random.Random(7)
    close = 0
    for _ in range(300):
        count, batches = chance.randint(1, 5), 400
        size, spread = chance.uniform(1, 40), chance.choice([0.0, 0.2, 1.0])
        part = chance.uniform(0.1, 1.0)
        noise = [1 + spread * chance.expovariate(1) for _ in range(batches)]
        lines = [round(1000 * size * part * each) for each in noise]
        times = [line + round(1000 * size * (1 - part)) for line in lines]
        own = [1000 * chance.uniform(2, 18)] * batches
        before, waited = run(times, own, count)
        rest = [time - line for time, line in zip(times, lines, strict=True)]
        saved = (before - run(rest, own, count)[0]) / batches
        single = [
            batch(time, {3: line}, at % count, count)
            for at, (time, line) in enumerate(zip(times, lines, strict=True))
        ]
        bound = of(single, before / batches, waited / batches).without([finding(3)])
        assert bound >= saved - 0.001 * before / batches
        close += bound - saved <= 0.05 * before / batches
    assert close >= 200


# Beside the trace


def cost(row: int, effect: str = "host", alone: int = 0, why: str = join.NOT_SEEN) -> FindingCost:
    bound = Bound(alone, alone, effect) if alone else None
    one = finding(row, f"TL{row}", TextFix(Safety.SAFE, "t", ()) if row == 3 else None)
    return FindingCost(one, effect, bound=bound, seen=bool(alone), why="" if alone else why)


def together(*each: FindingCost, single: Sequence[Batch] | None = None) -> Costs:
    """Return the costs of findings in a run of five steps of 200 ns, which take 300 in the trace
    and of which 150 are a wait for a batch."""
    joint = sum(one.bound.alone_ns for one in each if one.bound is not None)
    costs = Costs(each, joint, 0, 1500, False, Whole(1000, 5))
    made = workers(single or [batch(150, {3: 60, 4: 50})] * 5)
    return with_workers(costs, made, Loading(made, 200.0, 1.0, 150.0, False))


def test_a_finding_in_workers_has_a_bound_for_the_steps_that_were_recorded() -> None:
    found = together(cost(3), cost(4))
    assert [one.bound for one in found.each] == [Bound(300, 300, "host"), Bound(250, 250, "host")]
    assert [(one.seen, one.why, one.worker_ns) for one in found.each] == [
        (True, "", 60),
        (True, "", 50),
    ]
    assert (found.joint, found.fixable) == (550, 300)
    assert found.share(found.each[0]) == pytest.approx(60 / 200)
    assert basis(found.each[0], found) == "without the 60 ns that it takes a worker for a batch"


def test_what_one_finding_covers_another_one_may_uncover() -> None:
    found = together(cost(3), cost(4), single=[batch(150, {3: 100, 4: 100})] * 5)
    assert found.joint == 750
    assert [one.bound for one in found.each] == [Bound(500, 250, "host")] * 2


def test_what_runs_in_the_program_too_has_both() -> None:
    (both,) = together(cost(3, alone=40)).each
    assert both.bound == Bound(340, 340, "host")


def test_what_costs_nothing_without_a_device_costs_nothing_in_workers() -> None:
    found = {one.effect: one for one in together(cost(3, "wait"), cost(4, "none")).each}
    assert (found["wait"].bound, found["wait"].why) == (None, join.NO_DEVICE)
    assert (found["none"].bound, found["none"].why) == (None, join.ELSEWHERE)
    assert found["wait"].seen


def test_what_cannot_be_told_apart_in_the_trace_has_no_bound() -> None:
    (found,) = together(cost(3, why=join.NOT_TOLD)).each
    assert (found.bound, found.why) == (None, join.NOT_TOLD)


def test_waits_that_the_trace_does_not_show_count() -> None:
    found = together(cost(9, "loader", alone=100), cost(3))
    assert found.each[0].effect == "loader"
    assert found.each[0].bound == Bound(750, 750 - 300, "loader")
    assert found.joint == 750
    shown = together(cost(9, "loader", alone=900))
    assert shown.each[0].bound == Bound(900, 900, "loader")


def test_without_timed_steps_there_is_no_bound() -> None:
    costs = Costs((cost(3), cost(9)), 0, 0, 1500, False, Whole(1500))
    found = with_workers(costs, workers([batch(150, {3: 60})]), None)
    assert [(one.bound, one.seen, one.why) for one in found.each] == [
        (None, True, IN_WORKERS),
        (None, False, join.NOT_SEEN),
    ]
    assert with_workers(costs, None, None) is costs
