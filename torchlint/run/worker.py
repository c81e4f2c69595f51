"""What happens inside a worker process: limits, silence, and one analysis at a time on a large
stack.

libcst can hang, fill the memory or overflow the stack on small inputs. A worker is set up so that
all of these end the worker alone: the system kills it when it asks for too much memory, and when it
has used up its CPU time (`limits`), even when the parent is gone and native code holds the
interpreter's lock.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from torchlint.base.finding import FileReport, Note, NoteKind
from torchlint.base.records import frozen
from torchlint.engine.job import Job
from torchlint.run import limits

if TYPE_CHECKING:
    from torchlint.semantic.project.outside import Outside

Analyse = Callable[[Job], FileReport]

OUT_OF_MEMORY = 86
"""Exit code of a worker that ran out of memory; it ends, as its heap is of no more use."""
_RECURSION_LIMIT = 20_000
_M_ARENA_MAX = -8
_PR_SET_PDEATHSIG = 1
_STACKS = (256 * 2**20, 64 * 2**20)
"""Stack sizes of the analysing thread in bytes; the smaller one where the system refuses the
larger."""


@frozen
class Task:
    """What a worker is asked to do.

    Args:
        analyse: what to run; a function that can be found by its module and name.
        job: the file.
        timeout: CPU seconds after which the worker is ended.
        memory: bytes of address space that the analysis may take on top of what is in use; 0 for no
            limit.
    """

    analyse: Analyse
    job: Job
    timeout: float
    memory: int

    @property
    def name(self) -> str:
        """The file's name."""
        return self.job.document.filename


def analyse_job(job: Job) -> FileReport:
    """Analyse a job for real. Imports the engine on first use, which is why it is called only in
    workers."""
    from torchlint.engine.analyse import analyse

    report = analyse(job, _outside)
    if not job.traced:
        return report
    # Where the rules did not run, that module was not imported, and nothing was asked.
    projects = sys.modules.get("torchlint.run.projects")
    return replace(report, rests_on=projects.rests_on(job) if projects is not None else ())


def analyse_among(job: Job) -> FileReport:
    """Analyse a job among files that say, for the time being, what its `unsaved` says."""
    from torchlint.run.projects import refresh

    refresh(job.unsaved)
    return analyse_job(job)


def confirm_job(job: Job) -> FileReport:
    """Say which of a job's facts still hold among files that say what its `unsaved` says, see
    `projects.confirmed`."""
    from torchlint.run.projects import confirmed, refresh

    refresh(job.unsaved)
    return FileReport(job.document.filename, rests_on=confirmed(job))


def _outside(job: Job) -> Outside:
    from torchlint.run.projects import outside_of

    return outside_of(job)


def prepare() -> None:
    """Set up a fresh worker process; see the module's docstring."""
    # A stuck worker never gets back to the interpreter, so only default actions can end it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(-1)  # a fork of a server has its event loop's
    limits.prepare()
    sys.setrecursionlimit(_RECURSION_LIMIT)
    if sys.platform == "linux":
        _set_up_linux()
    # A syntax tree is many objects that all live until the file is done: looking for garbage among
    # them is lost time.
    gc.set_threshold(1_000_000, 50, 1000)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # Rust writes to 2 when it runs out of memory
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _set_up_linux() -> None:
    """End with the parent, whatever native code is at; and have glibc use one heap for all threads
    (mallopt(3)).

    What one thread's heap freed, another's cannot reuse.
    """
    import ctypes

    with contextlib.suppress(AttributeError, OSError):  # another C library
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        library.mallopt(_M_ARENA_MAX, 1)


def work(task: Task) -> FileReport:
    """Do a task under all limits.

    Returns:
        The analysis' report, or one that says how it failed. Where memory runs out, the process
        exits.
    """
    _limit_memory(task.memory)
    limits.start(task.timeout)
    try:
        return _on_large_stack(task)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    finally:
        limits.stop()


def failed(filename: str, message: str) -> FileReport:
    """Return the report of a file that the tool failed on."""
    return FileReport(filename, notes=(Note(NoteKind.FAILED, filename, message),))


def death(code: int | None, timeout: float) -> str:
    """Say how a worker ended.

    Args:
        code: its exit code: minus a signal's number, or what it passed to exit.
        timeout: the CPU seconds that it had for the file it was at.
    """
    if code == OUT_OF_MEMORY:
        return "out of memory"
    if words := limits.exceeded(code, timeout):
        return words
    if code is not None and code < 0:
        try:
            return f"crashed ({signal.Signals(-code).name})"
        except ValueError:
            return f"crashed (signal {-code})"
    return f"crashed (exit code {code})"


def before_fork() -> None:
    """Make the parent ready to have workers.

    What of descriptors 0 to 2 is closed is opened: a pipe to a worker would get them, and the
    worker silences them.
    """
    descriptor = 0
    while descriptor <= 2:
        descriptor = os.open(os.devnull, os.O_RDWR)
    os.close(descriptor)
    # Python 3.12 and later warn about a fork beside threads. What runs after ours touches none of
    # their locks.
    warnings.filterwarnings("ignore", r".*multi-threaded.*fork", DeprecationWarning)


def _limit_memory(memory: int) -> None:
    """Limit the address space to `memory` more bytes than now, where the system can (Linux)."""
    if not memory or sys.platform != "linux":
        return
    import resource

    wanted = _address_space() + memory
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _address_space() -> int:
    """Return the bytes of address space that this process has (Linux)."""
    import resource

    with io.FileIO("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _stacks() -> tuple[int, ...]:
    """Return the sizes of stack to try, so that the first leaves room for the analysis under a
    limit on memory."""
    if sys.platform != "linux":
        return _STACKS
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return _STACKS
    left = limit - _address_space()
    return tuple(size for size in _STACKS if size <= left // 4) or _STACKS[-1:]


def _on_large_stack(task: Task) -> FileReport:
    """Do a task in a thread with a large stack, which the recursion of libcst and of our own
    visitors needs."""
    outcome: list[FileReport | BaseException] = []

    def target() -> None:
        try:
            outcome.append(_tried(task))
        except MemoryError as error:
            outcome.append(error)

    for size in _stacks():
        threading.stack_size(size)
        thread = threading.Thread(target=target, name="torchlint-analysis", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no room for such a stack
            continue
        limits.join(thread, task.timeout)
        break
    else:
        return failed(task.name, "no thread could be started")
    if not outcome or isinstance(outcome[0], BaseException):
        raise MemoryError
    return outcome[0]


def _tried(task: Task) -> FileReport:
    try:
        return task.analyse(task.job)
    except MemoryError:
        raise
    except RecursionError:
        return failed(task.name, "nested too deeply")
    except BaseException as error:  # whatever goes wrong costs this file only, and is said
        return failed(task.name, f"internal error: {_described(error)}")


def _described(error: BaseException) -> str:
    """Return class, words and innermost place of an error on one line."""
    import traceback

    words = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' * bool(words)}{words}{place}"
