"""``torchlint profile -- train.py``: a program is run, and its lines are told."""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("msgspec")

from jsonschema import validate

from tests.profile.divided import divided
from tests.verify.prepared import Prepared
from tests.verify.projects import MODEL as NET
from tests.verify.verify_lab import Lab, Ran, doctor, fingerprint, left, warm
from torchlint.cli.main import run
from torchlint.cli.profile import profile_command
from torchlint.cli.profile_live import for_verify
from torchlint.profile import live
from torchlint.profile.live import Pace, Steps, doubts
from torchlint.profile.output import json_report
from torchlint.profile.output.run import rows, with_trace
from torchlint.profile.running import Wanted
from torchlint.profile.workers import Batch, Workers
from torchlint.program.command import Command
from torchlint.program.inside import launch, profiling
from torchlint.program.machine.sandbox import landlock_abi
from torchlint.trace.division import LOADING
from torchlint.verify.session.workers import Zygote

SCHEMA = Path(json_report.__file__).with_name("profile-report.schema.json")
VERIFIED = Path(__file__).parents[1] / "verify" / "programs"
TRAIN = """\
import torch
from model import Net, encode
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(4096, 32), torch.randint(10, (4096,)))
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for x, y in DataLoader(data, batch_size=64, shuffle=True):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(encode(x)), y)
    loss.backward()
    optimizer.step()
open("written.txt", "w").write("by the program")
"""
MODEL = """\
import torch
from torch import nn


def encode(x):
    found = torch.zeros(0, 32)
    for row in x:
        found = torch.cat([found, (row / row.norm())[None]])
    return found


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(32, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        return self.last(hidden)
"""
FAST = ("--warmup", "4", "--steps", "3", "--color", "never")


class Profiled(Lab):
    """A project that is profiled."""

    def profile(self, *arguments: str) -> Ran:
        """Run ``torchlint profile``, and see that the project is as before and nothing is left."""
        before = fingerprint(self.root)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(["profile", *FAST, *arguments])
        own = [line for line in err.getvalue().splitlines() if not line.startswith("  | ")]
        assert "Traceback" not in "".join(own), err.getvalue()
        assert fingerprint(self.root) == before
        assert left(self.temp) == []
        return Ran(code, out.getvalue(), err.getvalue())


def laboratory(
    root: Path, monkeypatch: pytest.MonkeyPatch, prepared: Prepared | None = None
) -> Iterator[Profiled]:
    """Give a `Profiled`, whose programs start from nothing where none is `prepared`."""
    warm()
    if prepared is not None:
        monkeypatch.setattr("torchlint.profile.running.start", prepared.program)
        monkeypatch.setattr(Zygote, "_start", prepared.zygote)
    with tempfile.TemporaryDirectory(prefix="lab-", dir="/tmp") as name:
        root.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", doctor)
        monkeypatch.chdir(root)
        yield Profiled(root, Path(name))


@pytest.fixture
def lab(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prepared: Prepared,
    request: pytest.FixtureRequest,
) -> Iterator[Profiled]:
    # What is quick runs programs without torch.
    slow = request.node.get_closest_marker("slow")
    yield from laboratory(tmp_path / "project", monkeypatch, prepared if slow else None)


# One run that serves several tests


@dataclasses.dataclass
class Once:
    """A run's document, what was printed, and the trace that was kept."""

    document: dict[str, Any]
    ran: Ran
    trace: Path


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory, prepared: Prepared) -> Iterator[Once]:
    folder = tmp_path_factory.mktemp("live")
    trace, report = folder / "kept.json.gz", folder / "report.json"
    with pytest.MonkeyPatch.context() as monkeypatch:
        for made in laboratory(folder / "project", monkeypatch, prepared):
            made.write(train=TRAIN, model=MODEL)
            options = ("--output-format", "json", "-o", str(report), "--keep-trace", str(trace))
            ran = made.profile(".", *options, "--", "train.py")
            assert ran.code == 0, ran.err
            yield Once(json.loads(report.read_text()), ran, trace)


@pytest.mark.slow
def test_the_report_keeps_its_schema(once: Once) -> None:
    validate(once.document, json.loads(SCHEMA.read_text(encoding="utf-8")))


@pytest.mark.slow
def test_lines_are_those_of_statements(once: Once) -> None:
    found = {(line["file"], line["line"]): line for line in once.document["lines"]}
    text = {"train.py": TRAIN.splitlines(), "model.py": MODEL.splitlines()}
    assert {line["certainty"] for line in found.values() if line["file"]} == {"marked"}
    cat = found["model.py", 8]
    assert "torch.cat" in text["model.py"][7]
    assert cat["calls"] % 64 == 0
    assert found["train.py", 10]["calls"] == 3
    model = found["train.py", 10]["inclusive_ns"]
    assert model > cat["inclusive_ns"] >= cat["host_ns"]
    assert cat["host_ns"] > 0
    assert found["model.py", 19]["backward_ns"] > 0  # of the first layer
    assert found["model.py", 20]["backward_ns"] > 0
    assert {(file, line) for file, line in found if file == "train.py"} >= {
        ("train.py", number) for number in (8, 9, 10, 11, 12)
    }


@pytest.mark.slow
def test_figures_of_a_gpu_are_not_known_on_a_cpu(once: Once) -> None:
    assert once.document["environment"]["device"] == "CPU"
    assert once.document["figures"]["temporal"] is None
    assert once.document["run"]["profiled"]["device_ns"] is None
    assert {line["gpu_ns"] for line in once.document["lines"]} == {None}


@pytest.mark.slow
def test_a_step_is_timed_without_the_profiler_and_divided(once: Once) -> None:
    of = once.document["run"]
    assert of["boundary"] == "optimizer"
    assert len(of["unprofiled"]["each_ns"]) == len(of["unprofiled"]["loading_ns"]) == 2
    assert of["profiled"]["steps"] == 3
    assert sum(of["profiled"]["host_ns"].values()) == pytest.approx(of["profiled"]["step_ns"])
    assert min(of["profiled"]["host_ns"].values()) >= 0
    assert of["profiled"]["host_ns"]["operators"] > 0
    assert of["profiled"]["host_ns"]["waiting for data"] > 0


@pytest.mark.slow
def test_findings_stand_beside_what_their_statement_cost(once: Once) -> None:
    first = once.document["findings"][0]
    assert (first["code"], first["filename"], first["line"]) == ("TL603", "model.py", 8)
    assert first["cost"]["certainty"] == "marked"
    assert 0 < first["bound"]["alone_ns"] <= first["cost"]["host_ns"] + first["cost"]["backward_ns"]
    assert first["proof"] == (
        "torchlint verify . --select TL603 --unsafe-fixes --warmup 4 -- train.py"
    )


@pytest.mark.slow
def test_the_trace_that_was_kept_says_the_same(
    once: Once, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["profile", ".", "--trace", str(once.trace), "--output-format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["lines"] == once.document["lines"]
    assert again["figures"] == once.document["figures"]
    assert again["run"] is None


@pytest.mark.slow
def test_the_text_names_lines(once: Once, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["profile", ".", "--trace", str(once.trace), "--color", "never"]) == 0
    out = capsys.readouterr().out
    assert "model.py:8" in out
    assert "with_stack" not in out


# Steps of another kind

EVALUATED = """\
import time
import torch
from torch.utils.data import DataLoader, TensorDataset


def evaluate(model, loader):
    model.eval()
    found = torch.zeros(0, 4)
    with torch.no_grad():
        for (x,) in loader:
            found = torch.cat([found, model(x)])
    time.sleep(2)
    model.train()
    return found


held = DataLoader(TensorDataset(torch.randn(8, 16)), batch_size=2)
model = torch.nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    loss = model(torch.randn(8, 16)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 5:
        evaluate(model, held)
"""


@pytest.mark.slow
def test_an_evaluation_between_two_steps_is_told_beside_the_others(lab: Profiled) -> None:
    lab.write(train=EVALUATED)
    kept = lab.root.parent / "kept.json"
    options = ("--device", "cpu", "--output-format", "json", "--keep-trace", str(kept))
    ran = lab.profile(".", *options, "--", "train.py")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    of = found["run"]
    (aside,) = (each for each in of["other_kinds"] if each["why"])
    assert aside["profiled"]
    assert {"data", "evaluation"} <= set(aside["why"])
    assert aside["step_ns"] > 2e9 > of["profiled"]["step_ns"]
    assert 0 < of["event_ns"] <= 1_000
    (grown,) = (one for one in found["findings"] if one["code"] == "TL603")
    assert (grown["line"], grown["seen"], grown["bound"]) == (11, True, None)
    assert grown["why"] == "the line ran only in steps of another kind"
    assert grown["aside"]["kind"] == "evaluation"
    assert 0 < grown["aside"]["alone_ns"] < grown["aside"]["whole_ns"] == aside["step_ns"]
    lines = {line["line"]: line["calls"] for line in found["lines"] if line["file"]}
    assert lines[23] == of["profiled"]["steps"]
    assert not lines.keys() & set(range(7, 14))
    trace = json.loads(kept.read_text())
    assert trace["torchlint_steps"] == {"5": [], "6": ["data", "evaluation"], "7": []}
    assert trace["torchlint_queued"].keys() <= {"5", "6", "7"}  # empty where it is not known


# Steps with the profiler and without


def of_run(each: tuple[int, ...], profiled: int, events: int = 0) -> Steps:
    """Return a run whose steps took these times without the profiler, and under it another, with so
    many events in each."""
    pace = Pace(each, (0,) * len(each), sum(each))
    parts = divided(3, profiled, {"operators": profiled}, events={"operators": events})
    return Steps((".",), ("train.py",), "optimizer", pace, parts)


def test_both_times_of_a_step_are_told() -> None:
    found = dict(rows(of_run((1_000_000, 3_000_000), 2_400_000)))
    assert found["step, without the profiler"] == "2.00 ms (1.00 ms to 3.00 ms in 2 steps)"
    assert found["step, under the profiler"] == (
        "2.40 ms (3 steps, 1.20 x as long): figures are of these"
    )


def test_several_threads_are_told_as_verify_has_one() -> None:
    of = of_run((1_000_000, 3_000_000), 2_400_000)
    found = dict(rows(dataclasses.replace(of, pace=dataclasses.replace(of.pace, threads=2))))
    assert found["step, without the profiler"].endswith("ms in 2 steps, 2 threads)")
    found = dict(rows(dataclasses.replace(of, pace=dataclasses.replace(of.pace, threads=1))))
    assert found["step, without the profiler"].endswith("ms in 2 steps)")


def test_one_step_has_no_spread() -> None:
    found = dict(rows(of_run((245_000,), 245_000)))
    assert found["step, without the profiler"] == "245 us (of one step alone)"


@pytest.mark.parametrize(
    ("profiled", "events", "words"),
    [
        (1_400_000, 3_000, ""),
        (700_000, 3_000, ""),
        (200_000, 3_000, "0.2 x as long under the profiler as without it: recording makes none"),
        (4_000_000, 1_500, "4 x as long under the profiler as without it: recording its 1,500 ev"),
        (4_000_000, 1_400, "its 1,400 events explains 47 % of that, the rest is not explained;"),
    ],
)
def test_steps_that_differ_under_the_profiler_are_doubted(
    profiled: int, events: int, words: str
) -> None:
    found = " ".join(doubts(of_run((1_000_000,), profiled, events), "cpu"))
    assert words in found
    assert bool(found) == bool(words)
    assert ("--env OMP_NUM_THREADS=1" in found) == bool(words)
    assert ("not explained" in found) == (events == 1_400)
    assert "OMP" not in " ".join(doubts(of_run((1_000_000,), profiled), "cuda"))


@pytest.mark.parametrize(("timed", "words"), [(30.0, "timing the lines"), (10.0, "for data; ")])
def test_workers_are_blamed_where_the_wait_for_data_grew(timed: float, words: str) -> None:
    workers = Workers(2, 1, 10.0, 10, None, 1, timed, (), (Batch(0, 2, 0, 10, None),))
    waiting = divided(3, 2_000_000, {LOADING: 600_000, "operators": 1_400_000})
    of = dataclasses.replace(of_run((1_000_000,), 2_000_000), workers=workers, division=waiting)
    (told,) = doubts(of, "cuda")
    assert "it waited longer for data" in told
    assert words in told
    other = dataclasses.replace(of, division=divided(3, 2_000_000, {LOADING: 400_000}))
    assert "data" not in " ".join(doubts(other, "cuda"))


def test_what_recording_took_is_known_where_steps_became_longer() -> None:
    # Three steps of 1 ms take 2.1 ms each: a tenth is left to chance, the rest is of 6,000 events.
    whole = of_run((1_000_000,), 2_100_000).whole(6_300_000, 6_000)
    assert (whole.ns, whole.steps) == (3_000_000, 3)
    assert whole.event == pytest.approx(0.8 * 500)
    assert whole.least == pytest.approx(1.1 * 3 / 6.3)
    assert of_run((1_000_000,), 9_000_000).whole(27_000_000, 6_000).event == 800
    assert of_run((1_000_000,), 1_050_000).whole(3_150_000, 6_000).event == 0
    assert whole.unrecorded(1_000, 0) == 1_000


def test_what_a_run_says_of_a_cpu_is_told_once() -> None:
    found = dict(with_trace(of_run((1_000_000,), 1_000_000), [("events", "7"), ("GPU", "-")]))
    assert "events" not in found
    assert found["GPU"] == "-"
    assert with_trace(None, [("events", "7")]) == [("events", "7")]


@pytest.mark.parametrize(
    ("loading", "words"), [(0, "no DataLoader seen"), (100_000, "100 us (10.0 %)")]
)
def test_a_program_without_a_loader_waits_for_none(loading: int, words: str) -> None:
    pace = Pace((1_000_000,), (loading,), 1_000_000)
    parts = divided(3, 1_000_000, {"operators": 1_000_000})
    found = dict(rows(Steps((".",), ("train.py",), "optimizer", pace, parts)))
    assert found["  waiting for data"] == words


@pytest.fixture
def apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Profiled]:
    """Give a project beside whose folder is one of data."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "points").write_text("many")
    yield from laboratory(tmp_path / "project", monkeypatch)


@pytest.mark.skipif(landlock_abi() == 0, reason="needs Landlock")
def test_what_lies_beside_the_project_is_read(apart: Profiled) -> None:
    apart.write(train="import sys\nprint(open('../data/points').read())\nsys.exit(7)\n")
    ran = apart.profile(".", "--", "train.py")
    assert (ran.code, ran.message) == (3, "the program failed with exit code 7 after 0 steps")
    assert "  | many" in ran.err


def test_what_lies_beside_the_project_and_is_missed_is_named(apart: Profiled) -> None:
    apart.write(train="open('../data/points')\n")
    ran = apart.profile(".", "--isolation", "copy", "--", "train.py", "--epochs", "1")
    missed, root = apart.root.parent / "data" / "points", apart.root
    assert ran.message.endswith(
        f"after 0 steps; {missed} lies outside of {root}, the project that was copied; copy it "
        "too: torchlint profile .. -- train.py --epochs 1"
    )


def test_the_command_of_a_proof_keeps_the_options_of_the_run() -> None:
    given = ["--env", "A=1", "--env", "API_KEY=x", "--timeout", "2m", "--device", "cpu"]
    more = ["--steps", "3", "--isolated", "--top", "4", "--against", "old", "--history", "file"]
    with profile_command.make_context("profile", [*given, *more, "--", "train.py"]) as ctx:
        words = for_verify(ctx)
    expected = ("--device", "cpu", "--timeout", "120", "--env", "A=1", "--env", "API_KEY")
    assert words == (*expected, "--isolated")


# What a GPU would wait for, and memory that grows

ON_A_GPU = """\
import torch

device = {device}
model = torch.nn.Linear(64, 64).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(60):
    x = torch.randn(256, 64).to(device)
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append({kept})
"""
SECOND = "model(x).square().mean()"
"""A loss that nobody takes backward, so that its graph keeps what it needs."""
CHOSEN = '"cuda" if torch.cuda.is_available() else "cpu"'


def predicted(lab: Profiled, *options: str, **named: str) -> tuple[dict[str, Any], str]:
    """Profile that program; return its report, and the text of the same."""
    lab.write(train=ON_A_GPU.format(**{"device": CHOSEN, "kept": "loss.item()", **named}))
    ran = lab.profile(".", *options, "--output-format", "json", "--", "train.py")
    assert ran.code == 0, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    validate(found, json.loads(SCHEMA.read_text(encoding="utf-8")))
    return found, ran.err


@pytest.mark.slow
def test_without_a_gpu_its_waits_and_bytes_are_predicted(lab: Profiled) -> None:
    found, _ = predicted(lab)
    assert found["predicted"]["steps"] == 3
    assert found["predicted"]["per_step"] == {
        "waits": 2.0, "to_device_bytes": 256 * 64 * 4, "to_host_bytes": 4
    }  # fmt: skip
    assert {
        (line["file"], line["line"], *line["causes"]) for line in found["predicted"]["lines"]
    } == {("train.py", 8, "copy to device"), ("train.py", 13, "item()")}
    by_line = {one["line"]: one["predicted"] for one in found["findings"]}
    assert by_line[13] == {"waits": 1.0, "to_device_bytes": 0.0, "to_host_bytes": 4.0}


@pytest.mark.slow
def test_a_program_that_chooses_the_cpu_is_told_so(lab: Profiled) -> None:
    found, _ = predicted(lab, device='"cpu"')
    assert found["predicted"]["unavailable"] == (
        "the program stayed on the CPU though a CUDA device was offered to it"
    )
    assert found["predicted"]["per_step"] is None
    assert found["predicted"]["lines"] == []
    assert {one["predicted"] for one in found["findings"]} <= {None}


@pytest.mark.slow
def test_who_asks_for_the_cpu_gets_no_prediction(lab: Profiled) -> None:
    found, _ = predicted(lab, "--device", "cpu")
    assert found["predicted"] is None


@pytest.mark.slow
def test_losses_that_keep_their_graphs_are_told_with_the_lines_of_what_stays(
    lab: Profiled,
) -> None:
    found, _ = predicted(lab, "--memory", "--device", "cpu", "--steps", "5", kept=SECOND)
    (growth,) = found["growth"]
    assert (growth["device"], growth["steps"]) == ("CPU", 5)
    kept = {place["line"]: place["bytes_per_step"] for place in growth["places"]}
    assert kept[8] == 256 * 64 * 4  # the input that the graph needs
    assert kept[13] >= 256 * 64 * 4  # the output of the model
    assert growth["bytes_per_step"] >= kept[8] + kept[13]


@pytest.mark.slow
def test_losses_that_keep_none_are_not(lab: Profiled) -> None:
    found, _ = predicted(
        lab, "--memory", "--device", "cpu", "--steps", "5", kept=f"{SECOND}.detach()"
    )
    assert found["growth"] == []


@pytest.mark.parametrize(
    ("queued", "told"),
    [(None, ""), (0, ""), (90, ""), (250, "for 25 % of the steps without the profiler")],
)
def test_a_thread_that_had_no_core_is_told(queued: int | None, told: str) -> None:
    record = {
        "steps": 16,
        "timed_to": 10,
        "boundary": "optimizer",
        "marks": 3,
        "leaked": {},
        "unmarked": [],
        "trouble": [],
        "total_ns": 1000,
        "queued_ns": queued,
    }
    command = Command((), (), None)
    wanted = Wanted(Path(), Path(), command, doctor("python"), "python", "cpu")
    notes = list(live._notes([record], wanted))
    assert len(notes) == bool(told)
    assert all(note.startswith(told) for note in notes)


def test_the_system_says_how_long_a_thread_had_no_core(monkeypatch: pytest.MonkeyPatch) -> None:
    known = profiling._queued()
    assert known is None or known >= 0
    monkeypatch.setattr("builtins.open", lambda *given, **named: io.StringIO("7 12 3\n"))
    assert profiling._queued() == 12
    monkeypatch.setattr("builtins.open", lambda *given, **named: io.StringIO("\n"))
    assert profiling._queued() is None


# What goes wrong


@pytest.mark.parametrize(
    ("train", "code", "message", "shown"),
    [
        ("1 / 0\n", 3, "failed with exit code 1 after 0 steps", "ZeroDivisionError"),
        ("import os\nos.kill(os.getpid(), 9)\n", 3, "was ended by SIGKILL after 0 steps", ""),
        ("print('done')\n", 2, "the program ended without a step", ""),
        ("import time\ntime.sleep(60)\n", 3, "did not get there within 1 s (--timeout)", ""),
    ],
    ids=["it raises", "it is killed", "it does not train", "it takes too long"],
)
def test_a_program_that_cannot_be_measured(
    lab: Profiled, train: str, code: int, message: str, shown: str
) -> None:
    lab.write(train=train)
    ran = lab.profile("--timeout", "1s" if "sleep" in train else "60s", "--", "train.py")
    assert ran.code == code
    assert message in ran.message
    assert shown in ran.err
    assert str(lab.temp) not in ran.err


@pytest.mark.slow
def test_a_python_path_that_is_passed_goes_behind_what_the_run_needs(lab: Profiled) -> None:
    lab.write(train="import elsewhere\n" + TRAIN, model=MODEL)
    (lab.root / "lib").mkdir()
    (lab.root / "lib" / "elsewhere.py").write_text("import sys\nFOUND = __file__\n")
    ran = lab.profile(".", "--env", "PYTHONPATH=lib", "--", "train.py")
    assert ran.code == 0, ran.err
    assert "train.py:" in ran.out


@pytest.mark.slow
def test_a_program_that_is_too_short_is_told_what_fits(lab: Profiled) -> None:
    short = TRAIN.replace("4096", "320")
    lab.write(train=short, model=MODEL)
    ran = lab.profile("--", "train.py")
    assert ran.code == 2
    assert "ended after 5 steps, and 8 are needed: --warmup 2 --steps 2" in ran.message


@pytest.mark.slow
def test_a_program_too_short_to_let_a_devices_first_steps_go_by_is_run_again(
    lab: Profiled, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.write(train=TRAIN.replace("4096", "1024"), model=MODEL)
    numbers, held, plain = [], [], live._run_in_copy

    def run_once(wanted: Any, kept: Any, hold: float, show: Any) -> Any:
        held.append(hold)
        return plain(wanted, kept, hold, show)

    monkeypatch.setattr(live, "_run_in_copy", run_once)
    for hold in ({}, {"cpu": 3600.0}):
        monkeypatch.setattr(live, "HOLD_SECONDS", hold)
        ran = lab.profile("--output-format", "json", "--", "train.py")
        assert ran.code == 0, ran.err
        numbers.append([step["number"] for step in json.loads(ran.out)["steps"]])
    assert numbers[0] == numbers[1] == [5, 6, 7]
    assert held == [0.0, 3600.0, 0.0]


@pytest.mark.parametrize(
    ("ranks", "times", "settle"),
    [(1, [10.0, 10.2, 10.4, 10.6], 4), (1, [10.0, 10.6], 2), (2, [10.0, 10.2], 1)],
)
def test_a_devices_first_steps_are_let_go_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ranks: int, times: list[float], settle: int
) -> None:
    """The clock is read once a step; half a second is waited for, but not by a rank of several."""
    settings = {"root": str(tmp_path), "warmup": 2, "steps": 1, "hold": 0.5}
    recorder = profiling.Profiling(settings)
    monkeypatch.setattr(recorder, "rank", lambda: (0, ranks))
    monkeypatch.setattr("time.monotonic", iter(times).__next__)
    for recorder.steps in range(1, len(times) + 1):
        recorder._hold()
    monkeypatch.undo()
    assert (recorder.settle, recorder.timed_to) == (settle, settle + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--", "nothing.py"], "there is no such file"),
        (["--"], "torchlint profile . -- train.py"),
        (["--trace", "x.json", "--", "train.py"], "--trace reads what has been measured"),
        (["--merge", "x.json", "--", "train.py"], "--merge reads what has been measured"),
        (["--memory", "--trace", "x.json"], "--memory is for a program to run"),
        (["--device", "cuda", "--", "train.py"], "finds no GPU"),
        (["nowhere", "--", "train.py"], "nowhere"),
    ],
)
def test_what_is_refused_before_anything_runs(
    lab: Profiled, arguments: list[str], message: str
) -> None:
    lab.write(train="raise SystemExit('it ran')\n")
    ran = lab.profile(*arguments)
    assert ran.code == (4 if "cuda" in arguments else 2)
    assert message in ran.message


def test_an_interpreter_without_torch(lab: Profiled, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(python: str, asked: object = None) -> Any:
        return dataclasses.replace(doctor(python), problem="no torch in it")

    monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", without)
    lab.write(train="")
    ran = lab.profile("--", "train.py")
    assert (ran.code, ran.message) == (4, "no torch in it")


# The launcher of scripts

SELF = """\
import os, pickle, sys, __main__

class A:
    pass

def shown():
    names = sorted(set(vars(__main__)) - {"__annotations__"})
    return [names, __name__, __file__, sys.argv, sys.path[0], __spec__, __main__.A is A]

print(shown(), pickle.loads(pickle.dumps(A())).__class__, type(__loader__).__name__)
sys.stdout.flush()
if len(sys.argv) > 2:
    raise ValueError("told")
sys.exit(3)
"""


@pytest.mark.parametrize("words", [["a"], ["a", "b"]])
def test_a_script_is_run_as_python_runs_it(tmp_path: Path, words: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(SELF)
    code = textwrap.dedent(
        f"""
        import sys
        sys.path.insert(0, {str(Path(launch.__file__).parents[3])!r})
        from torchlint.program.inside import launch, profiling
        profiling._current = profiling.Profiling(
            dict(root={str(tmp_path)!r}, warmup=2, steps=1))
        profiling._current.marks.start()
        sys.path[0] = ""
        launch.main()
        """
    )
    plain, launched = (
        subprocess.run(
            [sys.executable, *start, "script.py", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        for start in ([], ["-c", code])
    )
    assert launched.stdout == plain.stdout
    assert launched.stderr == plain.stderr
    assert launched.returncode == plain.returncode


# Whole programs of other kinds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "arguments", "ranks"),
    [
        ("workers", [], 1),
        ("with_lightning", [], 1),
        ("with_transformers", [], 1),
        ("ranks", ["torchrun", "--nproc-per-node", "2"], 2),
        ("plain", ["-m"], 1),
    ],
)
def test_programs_of_other_kinds(
    lab: Profiled, program: str, arguments: list[str], ranks: int
) -> None:
    if program.startswith("with_"):
        pytest.importorskip(program.removeprefix("with_"))
    names = {path.stem: path.read_text() for path in VERIFIED.glob("*.py")}
    lab.write(**{program: names[program], "pkg/__init__": "", "pkg/model": NET})
    script = program if arguments == ["-m"] else f"{program}.py"
    ran = lab.profile("--output-format", "json", "--", *arguments, script)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert len(found["ranks"]) == ranks
    marked = {line["file"] for line in found["lines"] if line["certainty"] == "marked"}
    assert f"{program}.py" in marked or "pkg/model.py" in marked, found["lines"]
