"""The server's workers: what becomes of those who wait where none can be started."""

from __future__ import annotations

import asyncio

import pytest

from tests.checking import job
from tests.lsp.editor import HOT
from tests.patience import PATIENCE
from torchlint.lsp.pool import Pool, Worker

pytestmark = pytest.mark.asyncio


async def test_where_no_worker_can_be_started_all_are_told_and_later_ones_work(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    pool = Pool(told.append)
    start = Worker.start

    async def refused() -> Worker:
        await asyncio.sleep(0)
        raise OSError("no room for a process")

    monkeypatch.setattr(Worker, "start", refused)
    pool.warm()
    found = await asyncio.wait_for(asyncio.gather(*(pool.analyse(job(HOT)) for _ in range(3))), PATIENCE)
    assert [[note.message for note in report.notes] for report in found] == [["no room for a process"]] * 3
    assert set(told) == {"no room for a process"}
    monkeypatch.setattr(Worker, "start", start)
    report = await pool.analyse(job(HOT))
    assert (report.notes, [finding.code for finding in report.findings]) == ((), ["TL102"])
    await pool.close()


async def test_one_worker_is_enough_until_it_is_busy() -> None:
    pool = Pool(lambda words: None)
    pool.warm()
    for _ in range(3):
        await pool.analyse(job(HOT))
    assert len(pool._workers) == 1
    await asyncio.gather(*(pool.analyse(job(HOT)) for _ in range(6)))
    assert len(pool._workers) <= 2
    await pool.close()
