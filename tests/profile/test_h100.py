"""What is said of three programs that ran on an H100, from their traces and their steps' times.

The files in `h100` were made by `torchlint profile` on an NVIDIA H100 80GB (torch 2.11, CUDA 13).
Of the traces what the reader reads was kept, times to a tenth of a microsecond, of the reports the
steps without the profiler. mask makes a mask of 200 x 200 x 200 doubles on the host in each step,
nanogpt is a small GPT in bfloat16, unet a U-Net of which one of five profiled steps held an
evaluation.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("msgspec")

from torchlint.profile.elsewhen import elsewhen
from torchlint.profile.join import Found, joined
from torchlint.profile.lines import Lines
from torchlint.profile.live import Steps, divided, doubts
from torchlint.profile.output.run import rows
from torchlint.profile.output.sentences import headline
from torchlint.profile.places import Places
from torchlint.profile.replay import Replay
from torchlint.profile.report import Rank, summarised
from torchlint.profile.running import Pace
from torchlint.profile.sites import Sources
from torchlint.profile.waits import waits
from torchlint.profile.workers import Batch, Workers
from torchlint.trace.columns import Trace
from torchlint.trace.division import Division

FOLDER = Path(__file__).with_name("h100")


@dataclass
class Ran:
    """A run as it is told."""

    trace: Trace
    replay: Replay
    rank: Rank
    steps: Steps

    @property
    def division(self) -> Division:
        assert self.steps.division is not None
        return self.steps.division

    @property
    def told(self) -> dict[str, str]:
        return {name.strip(): value for name, value in rows(self.steps)}

    @property
    def headline(self) -> str:
        return headline(self.rank, None, self.steps)


def run_of(name: str) -> Ran:
    left = json.loads((FOLDER / f"{name}.run.json").read_text())
    summary, trace = summarised([str(FOLDER / f"{name}.json.gz")], keep=lambda at: True)
    assert trace is not None
    replay, timed, crew = Replay(trace), left["unprofiled"], left["workers"]
    each = tuple(timed["each_ns"])
    pace = Pace(each, tuple(timed["loading_ns"]), round(timed["step_ns"] * len(each)))
    workers = crew and Workers(
        crew["processes"],
        crew["batches"],
        crew["batch_ns"],
        crew["longest_ns"],
        crew["busy"],
        crew["timed_batches"],
        crew["timed_batch_ns"],
        (),
        (Batch(0, crew["processes"], 0, round(crew["batch_ns"]), None),),
    )
    parts = divided(trace, replay)
    steps = Steps((".",), ("train.py",), "optimizer", pace, parts, workers)
    return Ran(trace, replay, summary.ranks[0], steps)


@pytest.fixture(scope="module")
def unet() -> Ran:
    return run_of("unet")


@pytest.mark.parametrize(
    ("name", "busy", "answer"),
    [
        ("nanogpt", 7.37e6, "A step takes 19.2 ms; the GPU works for 38 % of it"),
        ("mask", 64.7e6, "A step takes 268 ms; the GPU works for 24 % of it"),
        ("unet", 3.10e6, "A step takes 14.9 ms; the GPU works for 21 % of it"),
    ],
)
def test_how_long_a_gpu_works_does_not_depend_on_the_profiler(
    name: str, busy: float, answer: str
) -> None:
    ran = run_of(name)
    account = ran.steps.account
    assert account is not None
    assert account.busy == pytest.approx(busy, rel=0.002)
    assert account.device is not None
    assert sum(account.device.values()) == pytest.approx(account.step)
    assert sum(account.host.values()) == pytest.approx(account.step)
    assert ran.headline.startswith(f"{answer}; the host is what it waits for.")
    # Each step launches the same work, whatever else it took.
    each = [sum(part.device.values()) for part in ran.division.usual if part.device is not None]
    assert max(each) <= (1.15 if name == "mask" else 1.005) * min(each)


def test_what_a_step_launched_that_ran_in_the_next_one_is_its_own(unet: Ran) -> None:
    """Clipped by the marks a step has 2.99 ms of work, or 20 %: the last of it runs later."""
    numbers = {part.number for part in unet.division.usual}
    clipped = [step.busy for step in unet.rank.figures.steps.each if step.number in numbers]
    assert sorted(clipped)[1:3] == pytest.approx([2.97e6, 3.01e6], rel=0.002)
    assert unet.division.device is not None
    assert max(clipped) < sum(unet.division.device.values())


def test_a_step_that_held_an_evaluation_is_told_beside_the_others(unet: Ran) -> None:
    assert [part.why for part in unet.division.odd] == [("forward",)]
    kind = "1 of 5 steps that run a model without gradients, as an evaluation does"
    assert unet.told["not counted"] == f"{kind}: 689 ms, 88.0 % of the time"
    assert unet.headline.endswith(f" That is without {kind}, which took most of the time.")
    assert unet.told["step, under the profiler"] == (
        "23.5 ms (4 steps, 1.57 x as long): figures are of these"
    )


def test_workers_that_the_steps_do_not_wait_for_are_not_blamed(unet: Ran) -> None:
    assert unet.steps.workers is not None
    assert unet.steps.workers.slower > 2
    (told,) = doubts(unet.steps, "cuda")
    assert told.startswith(
        "a step took 1.6 x as long under the profiler as without it: recording its 2,556 events "
        "explains 30 % of that, the rest is not explained; what the host does may be told wrong"
    )
    (told,) = doubts(run_of("nanogpt").steps, "cuda")
    assert "1.7 x as long" in told
    assert doubts(run_of("mask").steps, "cuda") == ()


def test_lines_of_the_evaluation_are_told_of_it(unet: Ran) -> None:
    parts, everywhere = unet.division, Places(unet.trace, Sources([]))
    places = everywhere.within(parts.spans(unet.trace, parts.usual))
    lines = Lines(places, unet.replay).each
    found = waits(unet.replay, places, 0, parts.time)
    on = Found(unet.replay, places, found, lines, unet.steps.whole(parts.time, 0))
    _, (there,) = elsewhen(joined([], {}, on), {}, on, everywhere, parts)
    assert there.kind == "forward"
    assert there.whole.ns == parts.odd[0].time
    files = {line.site.file for line in there.lines}
    assert "evaluate.py" in files
    assert "evaluate.py" not in {line.site.file for line in lines}
    # The model runs in both: what its lines take is that of the steps that train.
    forward = {line.site: line.calls for line in lines if line.site.file == "unet/unet_model.py"}
    assert set(forward.values()) == {4}
    assert not forward.keys() & {line.site for line in there.lines}
    assert "evaluate.py" not in {wait.site.file for wait in found.each}
