"""The server's workers: what becomes of those who wait where none can be started."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys

import pytest

from tests.checking import job
from tests.lsp.editor import HOT
from tests.patience import PATIENCE
from torchlint.base.finding import FileReport
from torchlint.lsp.pool import Pool
from torchlint.run import workers
from torchlint.run.workers import Workers

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]
POSIX = pytest.mark.skipif(
    sys.platform != "linux", reason="needs a worker that can be stopped, and its CPU time"
)


async def test_where_no_worker_can_be_started_all_are_told_and_later_ones_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[str] = []
    pool = Pool(told.append)
    start = Workers.process

    def refused(workers: Workers) -> int:
        raise OSError("no room for a process")

    monkeypatch.setattr(Workers, "process", refused)
    pool.warm()
    found = await asyncio.wait_for(
        asyncio.gather(*(pool.analyse(job(HOT)) for _ in range(3))), PATIENCE
    )
    assert [[note.message for note in report.notes] for report in found] == [
        ["no room for a process"]
    ] * 3
    assert set(told) == {"no room for a process"}
    monkeypatch.setattr(Workers, "process", start)
    report = await pool.analyse(job(HOT))
    assert (report.notes, [finding.code for finding in report.findings]) == ((), ["TL102"])
    await pool.close()


async def test_one_worker_is_enough_until_it_is_busy() -> None:
    pool = Pool(lambda words: None)
    pool.warm()
    for _ in range(3):
        await pool.analyse(job(HOT))
    assert len(pool._processes) == 1
    await asyncio.gather(*(pool.analyse(job(HOT)) for _ in range(6)))
    assert len(pool._processes) <= 2
    await pool.close()


async def test_a_worker_that_is_no_fork_answers_as_one_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on macOS and Windows: an interpreter of its own."""
    monkeypatch.setattr(workers, "AVAILABLE", False)
    told: list[str] = []
    pool = Pool(told.append)
    report = await pool.analyse(job(HOT))
    assert ([finding.code for finding in report.findings], told) == (["TL102"], [])
    await pool.close()


async def stopped(told: list[str]) -> tuple[Pool, int, asyncio.Future[FileReport]]:
    """Return a pool with a limit of one second, its one worker, which is stopped, and an analysis
    that it is at."""
    pool = Pool(told.append, timeout=1.0)
    await pool.analyse(job(HOT))
    (process,) = pool._processes.values()
    os.kill(process, signal.SIGSTOP)
    asked = asyncio.ensure_future(pool.analyse(job(HOT)))
    return pool, process, asked


@POSIX
async def test_a_worker_that_was_stopped_for_longer_than_its_limit_answers() -> None:
    told: list[str] = []
    pool, process, asked = await stopped(told)
    await asyncio.sleep(2.5)
    assert not asked.done()
    os.kill(process, signal.SIGCONT)
    report = await asked
    assert (report.notes, [finding.code for finding in report.findings], told) == (
        (),
        ["TL102"],
        [],
    )
    await pool.close()


@POSIX
async def test_an_analysis_that_nobody_wants_costs_its_worker_only_when_it_has_worked_on_it() -> (
    None
):
    told: list[str] = []
    pool, process, asked = await stopped(told)
    await asyncio.sleep(0.1)
    asked.cancel()
    await asyncio.sleep(2.5)
    os.kill(process, signal.SIGCONT)
    while not pool._idle.qsize():
        await asyncio.sleep(0.05)
    assert (list(pool._processes.values()), told) == ([process], [])
    await pool.close()


@POSIX
async def test_a_pool_that_closes_while_a_worker_is_at_something_ends_without_complaint() -> None:
    complaints: list[str] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: complaints.append(context["message"])
    )
    pool, _, asked = await stopped([])
    await asyncio.sleep(0.1)
    asked.cancel()
    await asyncio.wait([asked])
    await pool.close()
    while len(asyncio.all_tasks()) > 1:
        await asyncio.sleep(0.01)
    del asked, pool
    gc.collect()
    assert complaints == []
