"""Workers: what a bad file may cost, and what it may not."""

from __future__ import annotations

import ctypes
import dataclasses
import faulthandler
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from torchlint.base.finding import INVALID_SYNTAX, FileReport, Note, NoteKind
from torchlint.engine.job import Job
from torchlint.run import limits, worker
from torchlint.run import run as run_module
from torchlint.run.run import RunOptions, run
from torchlint.source.document import Document

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs fork")

FAST = RunOptions(timeout=1.0, quarantine_timeout=0.5)
PATIENT = RunOptions(timeout=60.0, quarantine_timeout=60.0)
"""Where no limit of time is asked about: a process that forks may be large, and the machine
busy."""


def job(name: str, text: str = "", data: bytes | None = None) -> Job:
    return Job(
        Document(name, "", text, "utf-8", False, text.encode() if data is None else data),
        name,
        frozenset(),
    )


def behave(job: Job) -> FileReport:
    """Do what the file's text says."""
    faulthandler.disable()  # pytest enables it, and it would write to the terminal
    name, what = job.document.filename, job.document.text
    if what == "segfault":
        ctypes.string_at(0)
    elif what == "exit 0":
        os._exit(0)
    elif what == "exit 3":
        os._exit(3)
    elif what == "abort":
        os.abort()
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what.startswith("hang"):
        time.sleep(600)
    elif what.startswith("spin"):
        while True:
            pass
    elif what == "match":
        re.match(r"(a+)+$", "a" * 60 + "b")  # native code that holds the interpreter's lock
    elif what == "hold":
        ctypes.PyDLL(None).sleep(600)  # the same, and it uses no CPU time
    elif what == "stop":
        subprocess.Popen(["sh", "-c", f"sleep 3; kill -CONT {os.getpid()}"])
        os.kill(os.getpid(), signal.SIGSTOP)
    elif what == "work":
        end = time.process_time() + 0.15
        while time.process_time() < end:
            pass
    elif what == "naps":
        for _ in range(8):
            time.sleep(0.7)
            sum(range(100_000))
    elif what == "memory":
        bytearray(8 * 2**30)
    elif what == "memory error":
        raise MemoryError
    elif what == "recursion":
        recurse(10**9)
    elif what == "deep":
        assert recurse(15_000) == 15_000
    elif what == "error":
        raise ValueError("two\nlines")
    elif what == "exit":
        raise SystemExit(0)
    elif what == "unpicklable":
        return FileReport(name, notes=(Note(NoteKind.FAILED, name, lambda: 0),))  # type: ignore[arg-type]
    elif what == "noise":
        os.write(1, b"noise")
        os.write(2, b"noise")
    elif what == "pid":
        return FileReport(name, applied=os.getpid())
    elif what == "core":
        return FileReport(name, applied=resource.getrlimit(resource.RLIMIT_CORE)[0])
    return FileReport(name, applied=1)


def recurse(depth: int) -> int:
    return 1 + recurse(depth - 1) if depth else 0


def messages(report: FileReport) -> list[str]:
    return [note.message for note in report.notes if note.kind is NoteKind.FAILED]


def reports(*texts: str, options: RunOptions = FAST, pool: bool = False) -> list[FileReport]:
    """Run files of these texts: a small run in one fork, or one large enough for a pool, of one
    worker."""
    data = b" " * run_module.SMALL_RUN if pool else None
    jobs = (job(f"{number}.py", text, data) for number, text in enumerate((*texts, "")))
    options = dataclasses.replace(options, jobs=1)
    return list(run(jobs, options, behave))[: len(texts)]


BOTH = pytest.mark.parametrize("pool", [False, True], ids=["fork", "pool"])


@BOTH
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("segfault", "crashed (SIGSEGV)"),
        ("abort", "crashed (SIGABRT)"),
        ("kill", "crashed (SIGKILL)"),
        ("exit 3", "crashed (exit code 3)"),
        ("exit 0", ""),
        ("hang", "did nothing for 1 s"),
        pytest.param("spin", "took more than 1 s of CPU time", marks=pytest.mark.slow),
        pytest.param("match", "took more than 1 s of CPU time", marks=pytest.mark.slow),
        pytest.param("hold", "gave no answer within 4 s", marks=pytest.mark.slow),
        ("memory", "out of memory"),
        ("memory error", "out of memory"),
        ("recursion", "nested too deeply"),
        ("error", "internal error: ValueError: two lines (test_run.py:"),
        ("exit", "internal error: SystemExit: 0 (test_run.py:"),
        ("unpicklable", ""),
    ],
)
def test_a_bad_file_costs_itself_alone(
    text: str, message: str, pool: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LEAST_IDLE", 1.0)
    if text == "hold":
        near(monkeypatch)
    if text == "exit 0":  # pebble takes this for a worker that left in peace
        message = "crashed" if pool else "crashed (exit code 0)"
    found = reports("", "", text, "", "", pool=pool)
    assert [report.filename for report in found] == ["0.py", "1.py", "2.py", "3.py", "4.py"]
    assert [report.applied for report in found] == [1, 1, 0, 1, 1]
    assert len(messages(found[2])) == 1
    assert messages(found[2])[0].startswith(message)


def near(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bring the outer bound near; a worker has what its parent has, being its fork."""
    monkeypatch.setattr(limits, "LEAST_OUTER", 4.0)
    monkeypatch.setattr(limits, "FACTOR", 4.0)


@pytest.mark.slow
@BOTH
def test_a_file_is_ended_when_it_has_used_its_cpu_time(pool: bool) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    reports("spin", pool=pool)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert 0.5 < used < 5, used  # its limit is 1 s; two processes start meanwhile


@pytest.mark.slow
@BOTH
def test_a_worker_that_was_stopped_for_longer_than_its_limit_finishes(pool: bool) -> None:
    assert reports("", "stop", "", pool=pool)[1].applied == 1


@pytest.mark.slow
@BOTH
def test_waiting_is_no_work(pool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LEAST_IDLE", 3.0)
    assert reports("naps", pool=pool)[0].applied == 1


@pytest.mark.slow
@BOTH
def test_small_files_are_analysed_beside_many_busy_processes(pool: bool) -> None:
    """As many as leave a process one eighth of a CPU: by the clock the file takes longer than its
    limit."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(7 * run_module.cpu_count())
    ]
    try:
        start = time.monotonic()
        found = reports("work", "work", options=RunOptions(timeout=0.3), pool=pool)
        taken = time.monotonic() - start
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert [report.applied for report in found] == [1, 1]
    assert taken > 2 * 0.3


def test_a_parent_that_was_stopped_does_not_count_that_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    near(monkeypatch)
    patience = limits.Patience(1.0)
    for _ in range(3):
        patience.tick()
    with pytest.raises(TimeoutError):
        patience.tick()


def test_the_limits_of_a_file_by_the_clock() -> None:
    assert (limits.outer(30), limits.outer(5)) == (600, 300)
    assert (limits.idle(30), limits.idle(5)) == (30, 10)
    assert limits.outer(1e300) == 1e8


@BOTH
@pytest.mark.parametrize("timeout", [1e-9, 1e300])
def test_odd_limits(pool: bool, timeout: float) -> None:
    (found,) = reports("work", pool=pool, options=RunOptions(timeout=timeout))
    assert (found.applied, len(messages(found))) == ((1, 0) if timeout > 1 else (0, 1))


@pytest.mark.slow
@BOTH
def test_many_bad_files(pool: bool) -> None:
    texts = ["segfault", "exit 0", "", "error", "", "abort", "", "exit 0", "kill"] * 3
    found = reports(*texts, options=PATIENT, pool=pool)
    ends = {
        "segfault": "crashed (SIGSEGV)",
        "exit 0": "crashed" if pool else "crashed (exit code 0)",
        "error": "internal error: ValueError: two lines",
        "abort": "crashed (SIGABRT)",
        "kill": "crashed (SIGKILL)",
    }
    said = [
        (report.applied, [line.partition(" (test_")[0] for line in messages(report)])
        for report in found
    ]
    assert said == [(0, [ends[text]]) if text else (1, []) for text in texts]


def test_what_was_being_sent_as_the_pool_stopped_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sending into a closed pipe raises a TypeError, which pebble takes for one of pickling."""
    from pebble.pool.process import WorkerManager

    dispatch, failed = WorkerManager.dispatch, list[str]()

    def late(self: WorkerManager, task: object) -> None:
        name = task.payload.args[0].name  # type: ignore[attr-defined]
        if name == "1.py" and not failed:
            failed.append(name)
            os.write(None, b"")  # type: ignore[arg-type]
        dispatch(self, task)  # type: ignore[arg-type]

    monkeypatch.setattr(WorkerManager, "dispatch", late)
    found = reports("exit 0", "", options=PATIENT, pool=True)
    assert failed
    assert [(each.applied, messages(each)) for each in found] == [(0, ["crashed"]), (1, [])]


def test_a_death_is_blamed_on_what_the_worker_was_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is seen long before the worker's last messages are read, as on a busy machine."""
    from pebble.pool.process import WorkerManager

    receive, heard = WorkerManager.receive, list[str]()

    def late(self: WorkerManager, timeout: float) -> object:
        if heard == ["Acknowledgement"]:  # the first file is begun; its report waits
            while not all(ended(worker) for worker in list(self.workers)):
                time.sleep(0.01)
            time.sleep(0.2)
        message = receive(self, timeout)
        if (kind := type(message).__name__) != "NoMessage":
            heard.append(kind)
        return message

    monkeypatch.setattr(WorkerManager, "receive", late)
    found = reports("", "abort", "", options=PATIENT, pool=True)
    assert [report.applied for report in found] == [1, 0, 1]
    assert messages(found[1]) == ["crashed (SIGABRT)"]


def ended(process: int) -> bool:
    """Say whether a process runs no more, whether or not somebody knows it."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@BOTH
def test_deep_recursion_has_room(pool: bool) -> None:
    assert reports("deep", pool=pool)[0].applied == 1


@BOTH
def test_no_core_dumps(pool: bool) -> None:
    assert reports("core", pool=pool)[0].applied == 0


@BOTH
def test_quarantined_file_gets_less_time(pool: bool) -> None:
    found = reports("spin\n" + "case ((((a,),),),):\n", pool=pool)
    assert messages(found[0]) == ["took more than 0.5 s of CPU time"]


@BOTH
def test_too_deep_is_refused_without_a_worker(pool: bool) -> None:
    found = reports("\n" + "(" * 201 + ")" * 201, "", pool=pool)
    (finding,) = found[0].findings
    assert (finding.code, finding.message, finding.start.row) == (
        INVALID_SYNTAX,
        "too many nested parentheses",
        2,
    )
    assert found[1].applied == 1


def test_small_run_uses_one_worker() -> None:
    assert len({report.applied for report in reports(*["pid"] * 40)}) == 1


def test_large_run_uses_more_workers_but_no_more_than_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_module, "cpu_count", lambda: 2)

    def pids(jobs: int | None) -> int:
        padding = b" " * (run_module.SMALL_RUN // 4)
        many = (job(f"{number}.py", "pid", padding) for number in range(400))
        return len({report.applied for report in run(many, RunOptions(jobs=jobs), behave)})

    assert pids(1) == 1
    assert pids(None) == 2


def test_jobs_are_read_on_demand() -> None:
    taken = 0

    def many() -> Iterator[Job]:
        nonlocal taken
        for number in range(2_000):
            taken += 1
            yield job(f"{number}.py")

    stream = run(many(), FAST, behave)
    assert next(stream).filename == "0.py"
    assert taken < 1_000
    assert len(list(stream)) == 1_999


def test_no_files() -> None:
    assert reports() == []


def test_pool_that_breaks_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file at the head is run again by itself, the others are scheduled again."""
    from pebble.pool.process import BrokenProcessPool, PoolManager

    calls = 0
    original = PoolManager.update_workers

    def breaking(self: PoolManager) -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise BrokenProcessPool("All workers expired")
        original(self)

    monkeypatch.setattr(PoolManager, "update_workers", breaking)
    assert [report.applied for report in reports("", "", "", pool=True)] == [1, 1, 1]
    assert calls > 1


@BOTH
def test_no_worker_can_be_started(pool: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    found = reports("", "", pool=pool)
    assert [message.partition(":")[0] for report in found for message in messages(report)] == [
        "no worker could be started"
    ] * 2


SCRIPT = """
    import sys
    sys.path[:0] = {path!r}
    from test_run import FAST, RunOptions, behave, job
    from torchlint.run.run import run
    padding = b" " * {padding}
    jobs = [job(f"{{n}}.py", text, padding) for n, text in enumerate({texts!r})]
    for report in run(jobs, RunOptions(timeout={timeout}), behave):
        print(report.filename, flush=True)
"""


def script(tmp_path: Path, *texts: str, timeout: float = 30, pool: bool = True) -> list[str]:
    padding = 300_000 if pool else 0
    path = [str(Path(__file__).parent), str(Path(run_module.__file__).parents[2])]
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(SCRIPT.format(path=path, texts=texts, timeout=timeout, padding=padding))
    )
    return [sys.executable, str(program)]


def children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(condition: object, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


@BOTH
def test_ctrl_c_leaves_no_process(tmp_path: Path, pool: bool) -> None:
    with subprocess.Popen(
        script(tmp_path, "", "hang", "hang", "hang", pool=pool),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        workers = children(process.pid)
        assert workers
        process.send_signal(signal.SIGINT)
        process.wait(timeout=PATIENCE)
    assert not any(map(alive, workers))


@BOTH
def test_workers_do_not_outlive_a_killed_parent(tmp_path: Path, pool: bool) -> None:
    with subprocess.Popen(
        script(tmp_path, "", "hang", timeout=0.5, pool=pool), stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        workers = children(process.pid)
        assert workers
        process.kill()
        process.wait(timeout=PATIENCE)
    wait_for(lambda: not any(map(alive, workers)))


@BOTH
def test_nothing_leaks_from_a_worker(tmp_path: Path, pool: bool) -> None:
    done = subprocess.run(
        script(tmp_path, "noise", pool=pool), capture_output=True, timeout=PATIENCE, check=True
    )
    assert (done.stdout, done.stderr) == (b"0.py\n", b"")


def test_the_parent_never_imports_the_parser(tmp_path: Path) -> None:
    program = (
        "import sys, torchlint.run.run; sys.exit('libcst' in sys.modules or 'pebble' in "
        "sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, cwd=Path(run_module.__file__).parents[2]
    )


def test_a_report_larger_than_a_pipe_holds_comes_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "x" * 150_000
    assert [report.filename for report in run([job(text), job("b")], FAST, behave)] == [text, "b"]


def test_a_small_run_stops_its_worker_when_nobody_wants_the_rest() -> None:
    stream = run([job("a", "pid"), job("b", "hang")], FAST, behave)
    worker = next(stream).applied
    assert alive(worker)
    stream.close()
    assert not alive(worker)


def test_a_small_run_needs_no_pebble(tmp_path: Path) -> None:
    program = script(tmp_path, "", pool=False)
    Path(program[1]).write_text(
        Path(program[1]).read_text()
        + "sys.exit(bool({'pebble', 'multiprocessing', 'libcst'} & sys.modules.keys()))\n"
    )
    assert subprocess.run(program, timeout=PATIENCE, capture_output=True).returncode == 0


SPAWNED = """
import sys
from torchlint.run import run, workers
run.AVAILABLE = workers.AVAILABLE = False
from torchlint.cli.main import run
if __name__ == "__main__":
    sys.exit(run(["check", "--isolated", "train.py"]))
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 knows no safe path")
def test_where_workers_are_no_forks_they_import_nothing_of_what_is_checked(tmp_path: Path) -> None:
    """As on macOS and Windows: an interpreter of its own, which looks into the current directory
    first."""
    program, tree = tmp_path / "program.py", tmp_path / "tree"
    program.write_text(SPAWNED)
    tree.mkdir()
    for name in (
        "multiprocessing",
        "pickle",
        "signal",
        "torchlint",
        "pebble",
        "libcst",
        "torch",
        "tokenize",
    ):
        (tree / f"{name}.py").write_text(
            "open('marker', 'w').write(__file__)\nraise SystemExit(9)\n"
        )
    (tree / "train.py").write_text("import torch\nfor i in range(9):\n    x = (\n")
    command = [sys.executable, str(program)]
    environment = {**os.environ, "PYTHONPATH": str(Path(run_module.__file__).parents[2])}
    done = subprocess.run(
        command, cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert (done.returncode, done.stderr) == (1, ""), done.stderr
    assert "train.py:3" in done.stdout
    assert not (tree / "marker").exists(), (tree / "marker").read_text()


@pytest.mark.parametrize(("limit", "count"), [(400 << 20, 1), (2 << 30, 2), (-1, 2)])
def test_the_stack_leaves_room_for_the_analysis(
    monkeypatch: pytest.MonkeyPatch, limit: int, count: int
) -> None:
    monkeypatch.setattr(worker, "_address_space", lambda: 0)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, resource.RLIM_INFINITY))
    assert worker._stacks() == worker._STACKS[-count:]
