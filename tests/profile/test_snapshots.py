"""Snapshots of PyTorch's allocator: what they say is what happened, and nothing in them runs."""

from __future__ import annotations

import json
import pickle
import random
from collections import OrderedDict
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.trace.allocator import Allocator, frames
from torchlint.base.errors import TraceError
from torchlint.cli.main import run
from torchlint.profile.output import memory
from torchlint.profile.sites import Source, Sources
from torchlint.profile.snapshot import Snapshot, snapshots
from torchlint.trace.snapshot import SnapshotError, counted, loaded

MB = 1_000_000
SOURCES = Sources([Source("/p/train.py", "train.py", "")])
SCHEMA = json.loads(
    Path(memory.__file__).with_name("snapshot-report.schema.json").read_text(encoding="utf-8")
)


def read(path: Path, allocator: Allocator, protocol: int = 4) -> Snapshot:
    (found,) = snapshots(allocator.written(path / "s.pickle", protocol), SOURCES)
    return found


def at_random(seed: int, unrecorded: int = 0) -> Allocator:
    """Return an allocator that has had a random life; of its first events some are not kept."""
    source = random.Random(seed)
    allocator = Allocator(recording=not unrecorded)
    for step in range(source.randrange(20, 120)):
        if step == unrecorded:
            allocator.recording = True
            if unrecorded:  # what was most before is not known
                allocator.most, allocator.at_peak = 0, {}
        line = source.randrange(1, 6)
        if allocator.alive and source.random() < 0.45:
            allocator.free(source.choice(list(allocator.alive)))
        elif source.random() < 0.1:
            allocator.release(frames(30))
        elif source.random() < 0.2:
            allocator.reserve(source.randrange(1, 50) * MB, frames(line, 40))
        else:
            allocator.alloc(source.randrange(1, 20) * MB, frames(line, 40))
    allocator.recording = True
    return allocator


@pytest.mark.parametrize("seed", range(12))
def test_the_peak_is_what_was_allocated_by_line(tmp_path: Path, seed: int) -> None:
    allocator = at_random(seed)
    found = read(tmp_path, allocator, 2 + seed % 4)
    assert found.allocated_most == allocator.most
    assert {(held.file, held.line): held.nbytes for held in found.held} == {
        ("train.py", line): nbytes for line, nbytes in allocator.at_peak.items()
    }
    assert found.reserved_most == allocator.reserved_most
    assert found.used == allocator.allocated
    assert found.used + found.free_in_use + found.free_whole == found.reserved
    assert found.up - found.down == found.reserved
    assert found.events == len(allocator.events)


@pytest.mark.parametrize("seed", range(12))
def test_what_was_there_before_is_counted(tmp_path: Path, seed: int) -> None:
    """Of what was allocated and freed before recording began nothing is known; the rest is."""
    allocator = at_random(seed, unrecorded=15)
    found = read(tmp_path, allocator)
    assert found.allocated_most >= allocator.most
    assert sum(held.nbytes for held in found.held) == found.allocated_most
    assert found.used == allocator.allocated
    assert found.used + found.free_in_use + found.free_whole == found.reserved


def test_fragmentation_is_what_lies_apart(tmp_path: Path) -> None:
    allocator = Allocator()
    segment = allocator.reserve(40 * MB, frames(1))
    kept = [allocator.alloc(10 * MB, frames(1), segment) for _ in range(4)]
    allocator.free(kept[0])
    allocator.free(kept[2])
    allocator.reserve(5 * MB, frames(2))
    found = read(tmp_path, allocator)
    assert (found.reserved, found.used, found.segments) == (45 * MB, 20 * MB, 2)
    assert (found.free_in_use, found.free_whole) == (20 * MB, 5 * MB)
    assert found.largest_free == 10 * MB
    assert found.fragmented == pytest.approx(0.6)


def test_retries_are_told_from_an_emptied_cache(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator.reserve(10 * MB, frames(1))
    allocator.release(frames(7))
    allocator.alloc(20 * MB, frames(7))  # gave back, and took at once, at one line
    allocator.reserve(5 * MB, frames(1))
    stack = frames(8)
    stack[2]["name"] = "empty_cache"
    allocator.release(stack)
    allocator.reserve(5 * MB, stack)
    allocator.reserve(5 * MB, frames(1))
    allocator.release(frames(9))
    allocator.reserve(30 * MB, frames(1))  # at another line
    found = read(tmp_path, allocator)
    assert found.retries == 1
    assert (found.driver_allocs, found.driver_frees) == (6, 4)
    allocator.events.append({"action": "oom", "size": 99 * MB, "device_free": 1, "frames": []})
    found = read(tmp_path, allocator)
    assert (found.failures, found.failed) == (1, (99 * MB,))


def test_segments_alone_and_older_forms_are_read(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator.alloc(3 * MB, frames(4))
    segments = allocator.snapshot()["segments"]
    for block in segments[0]["blocks"]:
        block["history"] = [{"addr": block.pop("address"), "frames": block.pop("frames")}]
    (tmp_path / "s.pickle").write_bytes(pickle.dumps(segments, 2))
    (found,) = snapshots(str(tmp_path / "s.pickle"), SOURCES)
    assert found.events == 0
    assert found.allocated_most == 3 * MB
    assert [(held.file, held.line) for held in found.held] == [("train.py", 4)]


def test_lines_of_other_libraries_stand_where_none_is_the_programs(tmp_path: Path) -> None:
    allocator = Allocator()
    allocator.alloc(3 * MB, frames(4, file="/v/lib/python3.11/site-packages/timm/vit.py"))
    allocator.alloc(2 * MB, [])
    found = read(tmp_path, allocator)
    assert found.held[0].file.endswith("timm/vit.py")
    assert (found.held[1].file, found.held[1].function) == ("", "no Python frames were recorded")


class Runs:
    """What a pickle can do."""

    def __reduce__(self) -> Any:
        return Path.write_text, (Path("ran"), "x")


def test_nothing_that_a_pickle_names_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for protocol in range(2, 6):
        for inside in (Runs(), OrderedDict(), {"segments": [Runs()]}):
            (tmp_path / "s.pickle").write_bytes(pickle.dumps(inside, protocol))
            with pytest.raises(TraceError, match=r"s\.pickle: names .* never does; it is not read"):
                snapshots("s.pickle", SOURCES)
    (tmp_path / "s.pickle").write_bytes(b"\x80\x02Vid\nQ.")
    with pytest.raises(TraceError, match="names an object outside"):
        snapshots("s.pickle", SOURCES)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is no pickle"),
        (b"<html>", "is no pickle"),
        (pickle.dumps({"segments": []}, 0), "is no pickle"),
        (b"\x80\x09.", "is no pickle"),
        (pickle.dumps({"segments": [1] * 99}, 4)[:40], "is cut off or damaged"),
        (b"\x80\x04X\xff\xff\xff\x7fx.", "is cut off or damaged"),
        (b"\x80\x04" + b"\x8e" + (2**40).to_bytes(8, "little") + b".", "more memory|is cut off"),
        (b"\x80\x04" + b"]" * 10 + b".", "holds nothing"),
        (pickle.dumps({"a": 1}, 4), "it has no segments"),
        (pickle.dumps([1, 2], 4), "is no snapshot"),
        (pickle.dumps({"segments": [{"blocks": 3}]}, 4), "is no snapshot"),
        (pickle.dumps({"segments": [{"total_size": 2**70, "blocks": []}]}, 4), "is no snapshot"),
        (pickle.dumps({"segments": [], "device_traces": [[{"action": "alloc"}]]}, 4), "is no snap"),
        (pickle.dumps({"segments": [], "device_traces": 5}, 4), "is no snapshot"),
    ],
)
def test_what_is_no_snapshot_is_one_line(data: bytes, words: str) -> None:
    with pytest.raises(SnapshotError, match=words):
        counted(loaded(data))


def test_a_file_that_takes_too_much_ends_the_reader_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.pickle"
    path.write_bytes(b"\x80\x04]" + b"(]" * 2_000_000)
    with pytest.raises(TraceError, match=r"s\.pickle: "):
        snapshots(str(path), SOURCES)


def test_a_report_of_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n\nx = torch.ones(9)\n")
    allocator = Allocator()
    allocator.alloc(3 * MB, frames(3, file=str(tmp_path / "train.py")))
    path = allocator.written(tmp_path / "s.pickle")
    arguments = ["profile", "-q", "train.py", "--isolated", "--snapshot", path]
    assert run(arguments) == 0
    out = capsys.readouterr().out
    for words in ("GPU 0", "most allocated at once", "3 MB", "train.py:3, in f3", "(100.0 %)"):
        assert words in out
    assert run([*arguments, "--output-format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    assert found["devices"][0]["held"][0]["nbytes"] == 3 * MB
    assert run(["profile", "--snapshot", path, "-o", str(tmp_path / "out")]) == 0
    assert "GPU 0" in (tmp_path / "out").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--snapshot", "no.pickle"], "no.pickle: No such file"),
        (["--snapshot", "s.pickle", "--trace", "t.json"], "--snapshot and --trace"),
        (["--snapshot", "s.pickle", "--merge"], "--snapshot and --merge"),
        (["--snapshot", "s.pickle", "--output-format", "html"], "gives text or json, not html"),
        (["--snapshot", "s.pickle", "-o", "s.pickle"], "s.pickle"),
        (["--snapshot", "s.pickle", "--", "train.py"], "--snapshot and a program"),
    ],
)
def test_wrong_usage_of_snapshots_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    allocator = Allocator()
    allocator.reserve(MB, [])
    allocator.written(tmp_path / "s.pickle")
    assert run(["profile", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert words in found.err
    assert found.err.count("\n") == 1
