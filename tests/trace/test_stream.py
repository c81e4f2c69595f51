"""A trace is read whatever is wrong with it, and what is lost is told."""

from __future__ import annotations

import gzip
import json
import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trace.program import document, steps, written
from torchlint.base.errors import TraceError
from torchlint.trace import stream
from torchlint.trace.columns import Trace
from torchlint.trace.stream import read

EVENTS = steps(12).events
"""About 130 events."""


def raw(**meta: Any) -> bytes:
    return json.dumps(document(EVENTS, **meta), indent=1).encode()


def of(tmp_path: Path, data: bytes, name: str = "t.json") -> Trace:
    path = tmp_path / name
    path.write_bytes(data)
    return read(str(path))


def rows(trace: Trace) -> list[tuple[str, int, int]]:
    columns = trace.columns
    names = [trace.names[name] for name in columns.name.tolist()]
    return list(zip(names, columns.ts.tolist(), columns.dur.tolist(), strict=True))


TRUE = [(event["name"], round(event["ts"] * 1000), round(event["dur"] * 1000)) for event in EVENTS]


@pytest.mark.parametrize("piece", [200, 1000, 1 << 21])
def test_pieces_of_every_size_give_every_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr(stream, "_PIECE", piece)
    trace = of(tmp_path, raw(deviceProperties=[{"id": 0}, {"id": 1}]))
    assert rows(trace) == TRUE
    assert (trace.lost, trace.repaired, trace.cut_off) == (0, 0, "")
    assert trace.meta["deviceProperties"] == [{"id": 0}, {"id": 1}]
    assert trace.meta["traceName"] == "t.json"


@pytest.mark.parametrize("piece", [300, 1 << 21])
def test_forms_are_read_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int) -> None:
    monkeypatch.setattr(stream, "_PIECE", piece)
    after = {"traceEvents": EVENTS, "distributedInfo": {"rank": 3, "pg": [{"a": 1}, {"b": 2}]}}
    forms = {
        "bare": json.dumps(EVENTS).encode(),
        "minified": json.dumps(document(EVENTS), separators=(",", ":")).encode(),
        "metadata behind": json.dumps(after).encode(),
        "gzip": gzip.compress(raw()),
        "two members": gzip.compress(raw()[:5000]) + gzip.compress(raw()[5000:]),
        "byte order mark": b"\xef\xbb\xbf" + raw(),
    }
    for name, data in forms.items():
        assert rows(of(tmp_path, data)) == TRUE, name
    assert of(tmp_path, forms["metadata behind"]).rank() == 3


def test_lists_of_objects_inside_of_events_are_no_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_PIECE", 400)
    events = [
        {**event, "args": {**event["args"], "kernels": [{"n": at}, {"n": 2}, {"n": 3}]}}
        for at, event in enumerate(EVENTS)
    ]
    trace = of(tmp_path, json.dumps(document(events)).encode())
    assert rows(trace) == TRUE
    assert trace.lost == 0


@pytest.mark.parametrize("offset", [0.0, 1.7e15])
@pytest.mark.parametrize("whole", [False, True])
def test_times_are_exact(tmp_path: Path, offset: float, whole: bool) -> None:
    """64 bits of float hold quarters of a microsecond since 1970, and thousandths of one since the
    machine started."""
    times = [1.0, 2.25, 3.5, 1e6 + 0.75]
    micros = [int(each) if whole else each for each in times]
    events = [{"ph": "X", "name": "a", "ts": each + int(offset), "dur": 0} for each in micros]
    trace = of(tmp_path, json.dumps(events).encode())
    assert trace.columns.ts.tolist() == [int(each * 1000) + int(offset) * 1000 for each in micros]
    assert trace.columns.ts.dtype == np.int64


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"<!DOCTYPE html><html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "Git LFS pointer"),
        (b'{"a": 1}', "without traceEvents"),
        (b"hello", "is not JSON"),
        (b"\x80\x04K\x01.", "a pickle"),
        (b"PK\x03\x04abc", "a zip archive"),
        (gzip.compress(b"", mtime=0), "is empty"),
    ],
)
def test_what_is_no_trace_is_named(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(TraceError, match=words) as error:
        of(tmp_path, data)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        read(str(tmp_path / "no.json"))


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("piece", [500, 1 << 21])
def test_every_whole_event_of_a_cut_file_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: float, zipped: bool, piece: int
) -> None:
    monkeypatch.setattr(stream, "_PIECE", piece)
    text = raw()
    events = text.index(b"[")
    end = events + int((text.rindex(b"]") - events) * share)
    if zipped:
        packed = gzip.compress(text)
        trace = of(tmp_path, packed[: int(len(packed) * share)])
        assert "cut off" in trace.cut_off
    else:
        trace = of(tmp_path, text[:end])
        whole = text[:end].count(b"\n  },\n") + (text[:end].endswith(b"\n  }"))
        assert len(trace.columns.ts) >= whole
        assert trace.cut_off
    found = rows(trace)
    assert found == TRUE[: len(found)]
    assert found or share < 0.5
    assert trace.lost == 0


def test_a_gzip_with_a_damaged_byte_gives_what_comes_before(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(raw()))
    packed[len(packed) // 2] ^= 0xFF
    trace = of(tmp_path, bytes(packed))
    found = rows(trace)
    assert trace.cut_off
    assert found[:5] == TRUE[:5]


def nan(event: bytes) -> bytes:
    return event.replace(b'"ph": "X"', b'"ph": "X", "occupancy": NaN, "x": -Infinity', 1)


def control(event: bytes) -> bytes:
    return event.replace(b'"ph": "X"', b'"ph": "X", "text": "a\x01\nb"', 1)


def encoding(event: bytes) -> bytes:
    return event.replace(b'"name": "', b'"name": "\xff\xfe', 1)


def quotes(event: bytes) -> bytes:
    return event.replace(b'"ph": "X"', b'"ph": "X", "text": "say "hello" and {go}"', 1)


def no_time(event: bytes) -> bytes:
    return event.replace(b'"ts": ', b'"ts": NaN, "was": ', 1)


def wrong_type(event: bytes) -> bytes:
    return event.replace(b'"ts": ', b'"ts": "soon", "was": ', 1)


def backwards(event: bytes) -> bytes:
    return event.replace(b'"dur": ', b'"dur": -', 1)


FAULTS = {
    each.__name__: each for each in (nan, control, encoding, quotes, no_time, wrong_type, backwards)
}
HARMLESS = {"nan", "control", "encoding"}
"""Faults of which every event is read all the same."""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("count", [1, 5, len(EVENTS)])
@pytest.mark.parametrize("piece", [700, 1 << 21])
def test_bad_events_cost_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, count: int, piece: int
) -> None:
    monkeypatch.setattr(stream, "_PIECE", piece)
    chosen = set(random.Random(f"{fault}{count}").sample(range(len(EVENTS)), count))
    parts = [
        FAULTS[fault](data) if at in chosen else data
        for at, data in enumerate(json.dumps(event).encode() for event in EVENTS)
    ]
    trace = of(tmp_path, b'{"traceEvents": [' + b",\n".join(parts) + b'], "traceName": "x"}')
    good = [row for at, row in enumerate(TRUE) if at not in chosen]
    assert [row for row in rows(trace) if row in good] == good or fault in HARMLESS
    assert len(trace.columns.ts) >= len(EVENTS) - count
    if fault in HARMLESS:
        assert (len(trace.columns.ts), trace.lost) == (len(EVENTS), 0)
        assert trace.repaired == count
    else:
        assert trace.lost == len(EVENTS) - len(trace.columns.ts) == count
    assert trace.meta == {"traceName": "x"}
    assert trace.cut_off == ""


def test_a_clean_file_is_never_read_event_by_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "_PIECE", 2000)
    taken: list[int] = []
    salvage = stream._Reader._salvage

    def counted(self: Any, buffer: bytes, *, final: bool) -> tuple[int, bool]:
        taken.append(len(buffer))
        return salvage(self, buffer, final=final)

    monkeypatch.setattr(stream._Reader, "_salvage", counted)
    of(tmp_path, raw())
    assert len(taken) == 1  # the last event with what stands behind it
    assert taken[0] < 2000


def test_odd_values_of_arguments_are_none(tmp_path: Path) -> None:
    args = {"correlation": "x", "stream": "7", "bytes": 2**70, "Python parent id": None}
    event = {"ph": "X", "name": "a", "cat": "kernel", "ts": 1, "dur": 1, "args": args}
    columns = of(tmp_path, json.dumps([event, {**event, "args": {"stream": 7}}]).encode()).columns
    assert columns.corr.tolist() == [-1, -1]
    assert columns.stream.tolist() == [7, 7]
    assert columns.nbytes.tolist() == [-1, -1]


def test_any_bytes_give_a_trace_or_one_line(tmp_path: Path) -> None:
    source = random.Random(5)
    text = raw()
    for _ in range(150):
        data = bytearray(text)
        for _ in range(source.randrange(1, 6)):
            at = source.randrange(len(data))
            data[at : at + source.randrange(3)] = struct.pack("B", source.randrange(256))
        try:
            trace = of(tmp_path, bytes(data))
        except TraceError:
            continue
        assert len(trace.columns.ts) <= len(EVENTS) + 1


def test_a_trace_of_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    trace = of(tmp_path, b'{"traceEvents": [' + b"[" * 200_000)
    assert trace.cut_off


def test_written_traces_say_their_rank(tmp_path: Path) -> None:
    path = written(tmp_path / "a.json", EVENTS, distributedInfo={"rank": 2, "world_size": 4})
    assert read(path).rank() == 2
