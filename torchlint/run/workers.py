"""Worker processes of a large run, and of an editor's server: pebble's, and words for their ends.

Imported only where there is work for it, as importing pebble takes time (see `fork`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager, suppress
from multiprocessing import context as contexts
from multiprocessing.process import BaseProcess
from typing import Any

from pebble import CONSTS, ProcessExpired, ProcessFuture, ProcessPool
from pebble.pool.process import PoolManager

from torchlint.base.finding import FileReport
from torchlint.run import limits
from torchlint.run.fork import AVAILABLE
from torchlint.run.worker import Task, before_fork, death, failed, prepare, work

CONSTS.term_timeout = 0.2
"""Seconds that pebble waits for a worker to end before it kills it; its 3 would slow Ctrl-C."""


class _Manager(PoolManager):
    """Reads all that a worker sent before its death is blamed on a task.

    Pebble's threads for messages and for deaths do not wait for each other: on a busy machine a
    task that is done is blamed, and the one that the worker died of is waited for in vain.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._reading = threading.Lock()

    def process_next_message(self, timeout: float) -> None:
        with suppress(OSError):  # of a closed pool, which the next line hears too
            self.worker_manager.pool_channel.poll(timeout)  # type: ignore[union-attr]
        with self._reading:
            super().process_next_message(0)

    def handle_worker_expiration(self, expiration: tuple[Any, ...]) -> None:
        with self._reading:
            while self.worker_manager.pool_channel.poll(0):  # type: ignore[union-attr]
                super().process_next_message(0)
        super().handle_worker_expiration(expiration)


class _Pool(ProcessPool):
    def __init__(self, count: int, set_up: Callable[[], object], context: Any) -> None:
        super().__init__(count, initializer=set_up, context=context)
        self._pool_manager = _Manager(self._context, context)


class Pending:
    """A task that was given to `Workers`.

    Args:
        task: what is to be done.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.future: ProcessFuture[FileReport] | None = None
        """What brings the report; None where no worker could be started."""
        self.lost = ""
        """How the worker that was at it ended; empty where it lives."""

    @property
    def done(self) -> bool:
        """Whether its report is there."""
        return self.future is not None and self.future.done()

    def give_up(self, words: str) -> None:
        """End the worker that is at it, and say why; nothing happens where it is done."""
        self.lost = words
        if self.future is None or not self.future.cancel():  # type: ignore[no-untyped-call]
            self.lost = ""


class Workers:
    """A pool of pebble's, started when there is work, and anew where it breaks.

    Args:
        count: how many workers it has.
        set_up: what each of them does first; a function that can be found by its module and name.
        look: seconds between pebble's looks at whether they live; its 0.1 slows every run.
    """

    def __init__(
        self,
        count: int,
        set_up: Callable[[], object] = prepare,
        look: float = 0.02,
    ) -> None:
        self._count = count
        self._set_up = set_up
        self._look = look
        self._pool: ProcessPool | None = None
        self._processes: list[BaseProcess] = []
        self._awaits: ProcessFuture[Any] | None = None
        self._closed = False
        self._trouble = ""
        self.waiting: Callable[[], object] = lambda: None
        """Is called at every tick of waiting."""

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def broken(self) -> bool:
        """Whether the pool needs to be started anew, as a worker ended that had nothing to do."""
        return self._pool is not None and not self._pool.active

    def process(self) -> int:
        """Start the workers, if there are none; return the process id of one, once that is set up.

        Raises:
            OSError: there is none, or none in time.
        """
        try:
            if self.broken:
                self.stop()
            future = self._started().schedule(os.getpid)
            if self._awaited(future, limits.Patience(0), queued=False):
                return future.result()
            trouble = "it ended while it was set up"
        except TimeoutError:
            trouble = limits.given_up(0)
        except (OSError, RuntimeError) as error:
            trouble = str(error.__cause__ or error)
        self.stop()
        raise OSError(f"no worker could be started: {trouble}")

    def submit(self, task: Task) -> Pending:
        """Have a task done."""
        pending = Pending(task)
        self._schedule(pending)
        return pending

    def finish(self, pending: Pending, behind: Iterable[Pending] = ()) -> FileReport:
        """Wait for the report on a task; whatever happens to its worker, there is one.

        Where the pool breaks, nobody knows which task was to blame: this one is done once more by
        itself, and then those `behind` it are scheduled again.
        """
        report = self._outcome(pending)
        if report is None:
            report = self._alone(pending)
            for other in behind:
                if _nothing_came(other.future):
                    self._schedule(other)
        return report

    def stop(self) -> None:
        """End all workers now."""
        if self._pool is not None:
            pool, self._pool = self._pool, None
            pool.stop()  # type: ignore[no-untyped-call]
            pool.join()
            self._processes.clear()

    def close(self) -> None:
        """End all workers for good; who waits for one in another thread is told at once."""
        self._closed = True
        self.stop()
        if self._awaits is not None:
            self._awaits.cancel()  # type: ignore[no-untyped-call]

    def _started(self) -> ProcessPool:
        if self._closed:
            raise RuntimeError("no work is taken any more")
        if self._pool is None:
            before_fork()
            CONSTS.sleep_unit = self._look
            context: Any = contexts.ForkContext() if AVAILABLE else _Context()
            context.Process = self._noted(context.Process)
            self._pool = _Pool(self._count, self._set_up, context)
        return self._pool

    def _noted(self, make: Callable[..., BaseProcess]) -> Callable[..., BaseProcess]:
        """Return a function that makes a worker's process, and takes note of it."""

        def noted(**how: Any) -> BaseProcess:
            process = make(**how)
            # The others would keep descriptors open.
            alive_or_in_peace = [each for each in self._processes if not each.exitcode]
            self._processes = [*alive_or_in_peace, process]
            return process

        return noted

    def _schedule(self, pending: Pending) -> None:
        try:
            pending.future = self._started().schedule(work, args=(pending.task,))
        except (OSError, RuntimeError) as error:  # no process, pipe, semaphore; or it broke
            pending.future = None
            self._trouble = str(error.__cause__ or error)

    def _alone(self, pending: Pending) -> FileReport:
        self.stop()
        self._count = max(1, self._count // 2)  # fewer, in case the system has no room for more
        self._schedule(pending)
        report = self._outcome(pending)
        if report is None:
            self.stop()
            pending.lost = "crashed"
            if pending.future is None:
                pending.lost = f"no worker could be started: {self._trouble}"
            report = failed(pending.task.name, pending.lost)
        return report

    def _outcome(self, pending: Pending) -> FileReport | None:
        """Return what became of a task, or None where the pool broke."""
        future, task = pending.future, pending.task
        try:
            if future is None or not self._awaited(future, limits.Patience(task.timeout)):
                return None
            return future.result()
        except TimeoutError:
            words = limits.given_up(task.timeout)
            pending.give_up(words)
            return failed(task.name, words)
        except ProcessExpired as error:
            pending.lost = death(error.exitcode, task.timeout)
        except (RuntimeError, futures.CancelledError):  # BrokenProcessPool is one
            if not pending.lost:
                return None
        except Exception as error:  # a report that cannot cross the process boundary
            return failed(task.name, f"internal error: {type(error).__name__}: {error}")
        return failed(task.name, pending.lost)

    def _awaited(
        self,
        future: ProcessFuture[Any],
        patience: limits.Patience,
        queued: bool = True,
    ) -> bool:
        """Wait until `future` is done; return False where pool or worker died without saying so.

        Args:
            future: what is waited for.
            patience: how long.
            queued: whether others may come first; that time does not count.

        Raises:
            TimeoutError: it took longer.
        """
        self._awaits = future
        while not _is_settled(future):
            pool = self._pool
            # A worker that exits with 0 was told to, pebble thinks, and forgets its task.
            in_peace = any(process.exitcode == 0 for process in self._processes)
            if pool is None or not pool.active or in_peace:
                return future.done()
            self.waiting()
            if future.running() or not queued:
                patience.tick()
        return True


def _is_settled(future: ProcessFuture[Any]) -> bool:
    """Wait a tick; say whether `future` is done, or cancelled: `futures.wait` hears that late."""
    try:
        future.exception(limits.TICK)
    except futures.CancelledError:
        return True
    except futures.TimeoutError:
        return False
    return True


def _nothing_came(future: ProcessFuture[FileReport] | None) -> bool:
    """Say whether nothing can be learnt from `future` as its pool broke.

    A task that was being sent as its pool was stopped fails with what a closed pipe raises, a
    TypeError; of a report that cannot be pickled the next worker says the same once more.
    """
    if future is None or not future.done() or future.cancelled():
        return True
    return not isinstance(future.exception(), ProcessExpired | None)


@contextmanager
def _safe_path() -> Iterator[None]:
    """Have interpreters that start now not look for modules in the current directory.

    What is checked lies there. Python 3.10 does not know of this.
    """
    before = os.environ.get("PYTHONSAFEPATH")
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        yield
    finally:
        del os.environ["PYTHONSAFEPATH"]
        if before is not None:
            os.environ["PYTHONSAFEPATH"] = before


class _Process(contexts.SpawnProcess):
    def start(self) -> None:
        with _safe_path():
            super().start()


class _Context(contexts.SpawnContext):
    Process = _Process

    def RLock(self) -> Any:  # noqa: N802  # the first one starts a process that watches over all
        with _safe_path():
            return super().RLock()
