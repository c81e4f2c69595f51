"""Ranks reduced one by one and put together say what they say when one process reads them all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.trace.program import Machine, written
from torchlint.cli.main import run

REDUCE = (sys.executable, "-m", "torchlint", "profile", "-q", "--summary")


def rank_of(machine: Machine, number: int, late: int) -> Machine:
    """Run four steps of a rank that comes to its collectives so late; they end together."""
    for step in range(4):
        begun = machine.now
        machine.host(late)
        machine.launch(100_000)
        machine.launch(50_000 + 300_000 - late, 20, "ncclKernel_AllReduce_RING_LL_Sum_float")
        machine.sync()
        machine.step(step, begun)
    return machine


def fleet(folder: Path, count: int) -> list[str]:
    """Write traces of ranks, of which rank 2 comes last."""
    return [
        written(
            folder / f"rank{number}.json",
            rank_of(Machine(), number, 200_000 if number == 2 else 10_000 + 1_000 * number).events,
            distributedInfo={"rank": number, "world_size": count},
        )
        for number in range(count)
    ]


def reported(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return a JSON report without what tells how it was made."""
    assert run(["profile", "-q", "--output-format", "json", *arguments]) == 0
    found = json.loads(capsys.readouterr().out)
    del found["command"]
    found["waits"] = found["lines"] = None  # places are of a trace that is at hand
    return found


def traces(files: list[str]) -> list[str]:
    return [word for file in files for word in ("--trace", file)]


def reduced(files: list[str]) -> list[str]:
    targets = [str(Path(file).with_suffix(".summary")) for file in files]
    for file, target in zip(files, targets, strict=True):
        assert run(["profile", "-q", "--trace", file, "--summary", target]) == 0
    return targets


def test_merged_ranks_are_as_if_read_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = fleet(tmp_path, 5)
    together = reported(capsys, *traces(files))
    summaries = reduced(files)
    assert reported(capsys, "--merge", *summaries) == together
    assert together["spread"]["waits"]["least"] == 2
    groups = [str(tmp_path / "left.summary"), str(tmp_path / "right.summary")]
    for group, part in zip(groups, (summaries[:2], summaries[2:]), strict=True):
        assert run(["profile", "-q", "--merge", *part, "--summary", group]) == 0
    assert reported(capsys, "--merge", *groups) == together


def test_a_fleet_is_told_by_whom_it_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summaries = reduced(fleet(tmp_path, 12))
    assert run(["profile", "--merge", *summaries, "--top", "3"]) == 0
    out = capsys.readouterr().out
    assert "the others wait for rank 2: it waits 0 in collectives, the median rank" in out
    assert "and 9 more, which wait longer for the others" in out
    assert "12 ranks" in out
    rows = out[out.index("\nrank") :].splitlines()
    assert rows[2].split()[0] == "2"


def test_traces_that_do_not_say_their_rank_are_numbered_as_they_come(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [
        written(tmp_path / f"{name}.json", rank_of(Machine(), 0, late).events)
        for name, late in (("a", 10_000), ("b", 20_000))
    ]
    summaries = reduced(files)
    found = reported(capsys, "--merge", *summaries)
    assert [rank["rank"] for rank in found["ranks"]] == [0, 1]
    again = reported(capsys, "--merge", *summaries, summaries[0])
    assert len(again["ranks"]) == 3


def test_one_rank_twice_counts_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summaries = reduced(fleet(tmp_path, 3))
    found = reported(capsys, "--merge", *summaries, summaries[1])
    assert len(found["ranks"]) == 3
    assert any("is of rank 1 as" in note for note in found["notes"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no summary"),
        (b'{"traceEvents": []}', "is no summary"),
        (b"\xff\xfe", "is no summary"),
        (b'{"kind": "torchlint profile summary", "version": 99}', "of version 99"),
        (b'{"kind": "torchlint profile summary", "version": 1}', "damaged summary"),
        (None, "No such file"),
    ],
)
def test_what_is_no_summary_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, words: str
) -> None:
    path = tmp_path / "x.summary"
    if content is not None:
        path.write_bytes(content)
    assert run(["profile", "--merge", str(path)]) == 2
    found = capsys.readouterr()
    assert words in found.err
    assert "x.summary" in found.err
    assert (found.out, found.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--merge"], "name the summaries"),
        (["--merge", "--trace", "{}"], "without --trace"),
        (["--trace", "{}", "--summary", "{}"], "one of the files"),
        (["--trace", "{}", "--summary", "x", "-o", "y"], "leave out -o"),
        (["--merge", "{folder}"], "holds no .json"),
    ],
)
def test_contradictions_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    (file,) = fleet(tmp_path, 1)
    filled = [each.format(file, folder=tmp_path / "empty") for each in arguments]
    before = Path(file).read_bytes()
    assert run(["profile", *filled]) == 2
    found = capsys.readouterr()
    assert words in found.err
    assert found.err.count("\n") == 1
    assert Path(file).read_bytes() == before


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ray_maps_and_one_process_joins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the documentation shows, over ranks that really lie in different files."""
    ray = pytest.importorskip("ray")
    files = fleet(tmp_path, 4)

    def reduce(trace: str) -> str:
        target = trace.removesuffix(".json") + ".summary"
        subprocess.run([*REDUCE, target, "--trace", trace], check=True)
        return target

    given = {"include_dashboard": False, "log_to_driver": False, "configure_logging": False}
    try:
        ray.init(num_cpus=2, **given)
    except Exception as error:  # its own servers want ports and shared memory
        pytest.skip(f"Ray does not start on this machine: {error}")
    try:
        summaries = ray.get([ray.remote(reduce).remote(file) for file in files])
    finally:
        ray.shutdown()
    assert reported(capsys, "--merge", *summaries) == reported(capsys, *traces(files))
