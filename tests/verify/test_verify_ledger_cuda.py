"""Counts from a real GPU: how the profiler's trace is read, on made-up traces."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torchlint.program.inside import cuda_counts  # noqa: E402
from torchlint.program.inside.cuda_counts import CudaCounts, copies  # noqa: E402


def mark(ts: float) -> dict[str, Any]:
    return {"name": "torchlint#step", "cat": "user_annotation", "ts": ts, "tid": 1, "args": {}}


def call(ts: float, correlation: int, name: str = "cudaMemcpyAsync") -> dict[str, Any]:
    return {
        "name": name,
        "cat": "cuda_runtime",
        "ts": ts,
        "tid": 1,
        "args": {"correlation": correlation},
    }


def copy(correlation: int, name: str, nbytes: int, ts: float = 999.0) -> dict[str, Any]:
    return {
        "name": name,
        "cat": "gpu_memcpy",
        "ts": ts,
        "tid": 7,
        "args": {"correlation": correlation, "bytes": nbytes},
    }


TO = "Memcpy HtoD (Pageable -> Device)"
PINNED = "Memcpy HtoD (Pinned -> Device)"
BACK = "Memcpy DtoH (Device -> Pageable)"


def test_copies_belong_to_the_step_in_which_the_host_asked_for_them() -> None:
    trace = [mark(10), mark(20), mark(30)]
    trace += [
        call(5, 1),
        copy(1, TO, 100),
        call(15, 2),
        copy(2, TO, 8),
        call(25, 3),
        copy(3, BACK, 4),
    ]
    trace += [call(35, 4), copy(4, BACK, 1000)]
    assert copies(trace, 1, 2) == {"h2d_bytes": 4.0, "d2h_bytes": 2.0, "staged": 0.5}


def test_a_pageable_copy_that_the_host_waits_for_is_not_staged() -> None:
    waits = call(16, 9, "cudaStreamSynchronize")
    trace = [
        mark(10),
        call(15, 2),
        waits,
        copy(2, TO, 8),
        mark(20),
        call(25, 3),
        copy(3, PINNED, 8),
        mark(30),
    ]
    assert copies(trace, 1, 2) == {"h2d_bytes": 8.0, "d2h_bytes": 0.0, "staged": 0.0}
    other_thread = [event for event in trace if event is not waits] + [{**waits, "tid": 2}]
    assert copies(other_thread, 1, 2)["staged"] == 0.5


def test_the_profilers_own_wait_at_its_end_is_not_the_last_copys() -> None:
    end = call(22, 9, "cudaDeviceSynchronize")
    trace = [mark(10), call(15, 2), copy(2, TO, 8), mark(20), end]
    assert copies(trace, 1, 1) == {"h2d_bytes": 8.0, "d2h_bytes": 0.0, "staged": 1.0}


def test_copies_on_the_device_and_unknown_calls_do_not_count() -> None:
    trace = [
        mark(10),
        call(15, 2),
        copy(2, "Memcpy DtoD (Device -> Device)", 8),
        copy(77, TO, 8),
        mark(20),
    ]
    assert copies(trace, 1, 1) == {"h2d_bytes": 0.0, "d2h_bytes": 0.0, "staged": 0.0}


def test_sync_warnings_are_counted_by_line_and_others_pass(tmp_path: Path) -> None:
    counts = CudaCounts(str(Path(__file__).parent))
    passed = []
    counts._show = lambda *args, **kwargs: passed.append(args[0])
    counts._shown(
        "called a synchronizing CUDA operation (Triggered internally)", UserWarning, "x.py", 1
    )
    counts._shown("something else", UserWarning, "x.py", 1)
    counts.mark_step()
    summary = counts.summary(0)
    assert passed == ["something else"]
    assert (summary["basis"], summary["steps"], summary["syncs"], summary["h2d_bytes"]) == (
        "cuda",
        1,
        1.0,
        0.0,
    )
    assert [line["file"] for line in summary["lines"]] == [Path(__file__).name]


def test_without_a_gpu_there_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_counts.torch.cuda, "is_available", lambda: False)
    counts = CudaCounts(".")
    counts.start()
    counts.mark_step()
    counts.stop()
    summary = counts.summary(0)
    assert summary["unavailable"] == "torch sees no CUDA device"
    assert summary["syncs"] is None
