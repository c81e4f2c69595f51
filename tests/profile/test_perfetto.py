"""A trace with tracks added: what it held is there as it was, and what is added lies where it
happened."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli_profile import PROGRAM, waiting
from tests.trace.program import document, steps, written
from torchlint.cli.main import run
from torchlint.profile.perfetto import PROCESS, Track, exported
from torchlint.trace.stream import read

TRACKS = [Track("TL101 a.py:1", ((1_700_000_000_000_000_123, 4_567),), {"message": 'say "it"'})]


def added(path: str) -> tuple[Any, list[Any]]:
    """Return a trace without what was added, and that."""
    found = json.loads(b"".join(exported(path, TRACKS)))
    events = found if isinstance(found, list) else found["traceEvents"]
    ours = [event for event in events if event.get("pid") == PROCESS]
    rest = [event for event in events if event.get("pid") != PROCESS]
    return (rest if isinstance(found, list) else {**found, "traceEvents": rest}), ours


@pytest.mark.parametrize("form", ["indented", "minified", "gzip", "bare", "events last", "empty"])
def test_all_that_was_there_stays(tmp_path: Path, form: str) -> None:
    whole: Any = document([] if form == "empty" else steps(2).events)
    if form == "bare":
        whole = whole["traceEvents"]
    if form == "events last":
        whole = {"note": "x" * 3_000_000, **whole}
    data = json.dumps(whole, indent=None if form == "minified" else 1).encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(data) if form == "gzip" else data)
    rest, ours = added(str(path))
    assert rest == whole
    assert [event["ph"] for event in ours] == ["M"] * 4 + ["X"]
    assert ours[-1]["args"] == {"message": 'say "it"'}
    text = b"".join(exported(str(path), TRACKS))
    assert b'"ts": 1700000000000000.123, "dur": 4.567' in text


def test_a_file_that_is_cut_off_keeps_what_it_has(tmp_path: Path) -> None:
    data = gzip.compress(json.dumps(document(steps(3).events)).encode())
    path = tmp_path / "t.json.gz"
    path.write_bytes(data[:-40])
    text = b"".join(exported(str(path), TRACKS))
    assert b"TL101 a.py:1" in text
    assert b"cudaDeviceSynchronize" in text


def test_findings_and_places_lie_where_they_ran(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    trace = waiting(tmp_path / "t.json")
    target = tmp_path / "out.json"
    given = ["profile", "-q", "train.py", "--isolated", "--trace", trace]
    assert run([*given, "--perfetto", str(target), "-o", str(tmp_path / "report.txt")]) == 0
    events = json.loads(target.read_text())["traceEvents"]
    ours = [event for event in events if event.get("pid") == PROCESS and event["ph"] == "X"]
    mine = [event for event in ours if event["name"].endswith(" train.py:10")]
    waits = [event for event in events if event["name"] == "cudaStreamSynchronize"]
    assert (len(mine), len(waits)) == (3, 4)  # not in the last step, which nothing is told of
    for event, wait in zip(mine, waits, strict=False):
        assert event["ts"] <= wait["ts"]
        assert wait["ts"] + wait["dur"] <= event["ts"] + event["dur"] + 0.001
    assert mine[0]["args"]["message"]
    again = read(str(target))  # what we write we read
    assert again.lost == again.repaired == 0


def test_what_is_no_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = written(tmp_path / "t.json", steps(2).events)
    for words, arguments in (
        ("one of the files", ["--trace", trace, "--perfetto", trace]),
        ("summaries hold none", ["--merge", trace, "--perfetto", "x.json"]),
        ("directory does not exist", ["--trace", trace, "--perfetto", "/nowhere/x.json"]),
    ):
        assert run(["profile", *arguments]) == 2
        found = capsys.readouterr()
        assert words in found.err
        assert (found.out, found.err.count("\n")) == ("", 1)
