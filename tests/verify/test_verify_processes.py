"""Children with real processes: frozen, thawed and ended with all they have started; times are
never asserted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from torchlint.base.errors import UsageError
from torchlint.program.machine import process_tree, processes
from torchlint.program.machine.environment import RUN_VARIABLE, child_environment
from torchlint.program.machine.process_tree import PS, Family, Process, from_ps, send, table
from torchlint.program.machine.processes import Child, start, stop_run, sweep
from torchlint.program.machine.sandbox import landlock_abi

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes"
    ),
]

# Writes its number, then a byte a millisecond; the root of its family waits for a line of {ready}.
COUNT = """
import os, sys, time
name = sys.argv[1]
open(name + ".pid", "w").write(str(os.getpid()))
os.rename(name + ".pid", name + ".ready")
with open(name, "ab", buffering=0) as file:
    while True:
        file.write(b".")
        time.sleep(0.001)
"""
SPAWN = (
    "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {code!r}, {name!r}], "
    "start_new_session=True)\n"
)
FORK_TWICE = """
import os, subprocess, sys
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, '-c', {code!r}, {name!r}], start_new_session=True)
    os._exit(0)
os.wait()
"""
FOREVER = "import time\nwhile True: time.sleep(1)\n"
DEAF = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nopen('deaf', 'w')\n" + FOREVER


@pytest.fixture(autouse=True)
def ended(tmp_path: Path) -> Iterator[None]:
    """End what the test has launched, and nothing else: other tests' children stay as they are."""
    yield
    for folder in (tmp_path, *(path for path in tmp_path.iterdir() if path.is_dir())):
        stop_run(str(folder / "work"), grace=0)


def launch(folder: Path, code: str, *, writable: list[Path] | None = None) -> Child:
    env = child_environment(os.environ, folder / "work", threads=1, extra={})
    return start(
        [sys.executable, "-c", code], cwd=folder, env=env, log=folder / "log", writable=writable
    )


def until(condition: Callable[[], bool]) -> None:
    """Wait for what must come; the test's own timeout ends it otherwise."""
    while not condition():
        time.sleep(0.002)


def counter(folder: Path, name: str) -> int:
    """Return the number of a counting process once it counts."""
    until((folder / f"{name}.ready").exists)
    until(lambda: (folder / name).exists() and (folder / name).stat().st_size > 0)
    return int((folder / f"{name}.ready").read_text())


def counts(folder: Path, name: str) -> bool:
    """Say whether a counter goes on: by far the time of a count is given."""
    size = (folder / name).stat().st_size
    time.sleep(0.1)
    return (folder / name).stat().st_size > size


def alive(pid: int) -> bool:
    process = table().get(pid)
    return process is not None and process.state not in "ZX"


# Beginning and end


def test_exit_code_output_and_input(tmp_path: Path) -> None:
    code = (
        "import sys\nprint(repr(sys.stdin.read()), flush=True)\nprint('oops', "
        "file=sys.stderr)\nsys.exit(3)"
    )
    with launch(tmp_path, code) as child:
        assert child.wait(60) == 3
        assert child.tail() == "''\noops"
    assert (child.poll(), child.poll()) == (3, 3)


def test_it_does_not_read_what_is_typed(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"typed")
    os.close(writer)
    saved = os.dup(0)
    os.dup2(reader, 0)
    try:
        with launch(tmp_path, "import sys\nprint(repr(sys.stdin.read()))") as child:
            child.wait(60)
    finally:
        os.dup2(saved, 0)
        os.close(saved)
        os.close(reader)
    assert child.tail() == "''"


def test_a_signal_is_a_negative_exit_code(tmp_path: Path) -> None:
    with launch(tmp_path, "import os\nos.kill(os.getpid(), 9)") as child:
        assert child.wait(60) == -9
    assert child.poll() == -9


def test_wait_gives_up(tmp_path: Path) -> None:
    with launch(tmp_path, FOREVER) as child:
        assert child.wait(0.01) is None
        assert child.poll() is None


def test_the_number_of_an_ended_child_stays_taken_until_stop(tmp_path: Path) -> None:
    child = launch(tmp_path, "")
    child.wait(60)
    assert table()[child.pid].state == "Z"
    child.stop()
    assert child.pid not in table()


def test_without_waitid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """macOS before Python 3.13: an ended child is collected at once, so its number must not be
    trusted."""
    monkeypatch.delattr(os, "waitid")
    with launch(tmp_path, "import sys; sys.exit(4)") as child:
        assert child.wait(60) == 4
        assert child._family.root is None
    assert child.poll() == 4


@pytest.mark.parametrize(
    ("output", "lines", "expected"),
    [
        (b"a\nb\nc\n", 2, "b\nc"),
        (b"1%\r50%\r100%\nend\n", 20, "100%\nend"),
        (b"windows\r\nline\r\n", 20, "windows\nline"),
        (b"\xff\n", 20, "�"),
        (b"x" * 70_000 + b"\nend", 1, "end"),
        (b"", 20, ""),
    ],
)
def test_tail(tmp_path: Path, output: bytes, lines: int, expected: str) -> None:
    with launch(tmp_path, "") as child:
        child.wait(60)
        child.log.write_bytes(output)
        assert child.tail(lines) == expected
        child.log.unlink()
        assert child.tail(lines) == ""


@pytest.mark.parametrize("name", ["no-such-program", "./no-such-program", "/no/such/program"])
def test_a_missing_program_is_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=r"cannot run .*no.such.program: there is no such program"):
        start([name], cwd=tmp_path, env=dict(os.environ), log=tmp_path / "log", writable=None)


def test_a_relative_program_is_looked_up_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    program = tmp_path / "there" / "run.sh"
    program.write_text("#!/bin/sh\necho ran\n")
    program.chmod(0o755)
    with start(
        ["./run.sh"], cwd=program.parent, env=dict(os.environ), log=tmp_path / "log", writable=None
    ) as child:
        assert child.wait(60) == 0
    assert child.tail() == "ran"


def test_a_program_is_looked_up_in_its_own_path(tmp_path: Path) -> None:
    program = tmp_path / "prog"
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/bin:/usr/bin"}
    with start(["prog"], cwd=Path("/"), env=env, log=tmp_path / "log", writable=None) as child:
        child.wait(60)
    assert child.tail() == "found"


@pytest.mark.skipif(landlock_abi() == 0, reason="this system has no Landlock")
def test_writes_are_confined_where_asked(tmp_path: Path) -> None:
    (tmp_path / "free").mkdir()
    code = "open('free/a', 'w')\nopen('b', 'w')"
    with launch(tmp_path, code, writable=[tmp_path / "free"]) as child:
        assert child.wait(60) == 1
    assert "PermissionError" in child.tail()
    assert (tmp_path / "free/a").exists()
    with launch(tmp_path, code) as child:
        assert child.wait(60) == 0


def test_a_folder_to_write_must_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot allow writing to .*gone: it does not exist"):
        launch(tmp_path, "", writable=[tmp_path / "gone"])


# Freezing


@pytest.mark.parametrize("spawn", [SPAWN, FORK_TWICE], ids=["new session", "forked twice"])
def test_a_frozen_tree_rests_and_goes_on(tmp_path: Path, spawn: str) -> None:
    code = spawn.format(code=COUNT, name="far") + "sys.argv = ['', 'near']\n" + COUNT
    with launch(tmp_path, code) as child:
        for name in ("near", "far"):
            counter(tmp_path, name)
        child.freeze()
        assert not counts(tmp_path, "near")
        assert not counts(tmp_path, "far")
        assert child.poll() is None
        child.thaw()
        for name in ("near", "far"):
            until(lambda name=name: counts(tmp_path, name))  # type: ignore[misc]


def test_a_tree_that_keeps_forking_is_frozen(tmp_path: Path) -> None:
    code = """
import subprocess, sys
while True:
    subprocess.run([sys.executable, "-S", "-c", "open('log2', 'a').write('.')"])
"""
    with launch(tmp_path, code) as child:
        until((tmp_path / "log2").exists)
        for _ in range(5):
            child.freeze()
            # "D": a parent inside vfork, which waits for its stopped child.
            assert all(process.state in "TtD" for process in child._family.members())
            assert not counts(tmp_path, "log2")
            child.thaw()


def test_one_child_is_frozen_not_its_sibling(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one, two = (
        launch(tmp_path / name, f"import sys\nsys.argv = ['', {name!r}]\n{COUNT}")
        for name in ("a", "b")
    )
    counter(tmp_path / "a", "a")
    counter(tmp_path / "b", "b")
    one.freeze()
    assert not counts(tmp_path / "a", "a")
    until(lambda: counts(tmp_path / "b", "b"))
    one.stop(0)
    assert two.poll() is None
    assert alive(two.pid)


# Ending


@pytest.mark.parametrize("spawn", [SPAWN, FORK_TWICE], ids=["new session", "forked twice"])
@pytest.mark.parametrize("frozen", [False, True], ids=["running", "frozen"])
def test_nothing_is_left(tmp_path: Path, spawn: str, frozen: bool) -> None:
    child = launch(tmp_path, spawn.format(code=COUNT, name="far") + FOREVER)
    far = counter(tmp_path, "far")
    if frozen:
        child.freeze()
    child.stop()
    assert not alive(far)
    assert not alive(child.pid)
    assert child.poll() == -signal.SIGTERM


def test_what_an_ended_child_left_behind_ends_too(tmp_path: Path) -> None:
    child = launch(tmp_path, FORK_TWICE.format(code=COUNT, name="far"))
    far = counter(tmp_path, "far")
    assert child.wait(60) == 0
    assert alive(far)
    child.stop()
    assert not alive(far)
    assert child.poll() == 0


@pytest.mark.parametrize("clean", ["os.environ.clear()", "os.environ['TORCHLINT_RUN'] = 'x'"])
def test_a_process_of_its_session_ends_without_the_runs_name(tmp_path: Path, clean: str) -> None:
    code = (
        f"import os\n{clean}\nif os.fork() == 0:\n os.execv({sys.executable!r}, ['p', '-c', "
        f"{COUNT!r}, 'far'])\n"
    )
    child = launch(tmp_path, code)
    far = counter(tmp_path, "far")
    child.wait(60)
    child.stop()
    assert not alive(far)


def test_one_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    child = launch(tmp_path, DEAF)
    until((tmp_path / "deaf").exists)
    child.stop(grace=0.05)
    assert child.poll() == -signal.SIGKILL


def test_a_program_may_end_in_its_own_way(tmp_path: Path) -> None:
    """It is asked before its workers are, so it does not see them die."""
    code = (
        "import os, signal, subprocess, sys, time\n"
        "worker = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "def end(*_):\n"
        "    time.sleep(0.05)\n"
        "    open('record', 'w').write(str(worker.poll()))\n"
        "    sys.exit(5)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "open('there', 'w')\n"
    ) + FOREVER
    child = launch(tmp_path, code)
    until((tmp_path / "there").exists)
    child.stop(grace=60)
    assert child.poll() == 5
    assert (tmp_path / "record").read_text() == "None"


def test_a_second_interrupt_still_kills(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    child = launch(tmp_path, DEAF)
    until((tmp_path / "deaf").exists)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(processes, "_terminate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        child.stop()
    assert not alive(child.pid)
    assert child.poll() == -signal.SIGKILL


def test_stop_twice_and_freeze_after_the_end_do_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = launch(tmp_path, "")
    child.stop()
    code = child.poll()
    child.freeze()
    child.thaw()
    assert child.poll() == code
    monkeypatch.setattr(processes, "_kill", None)
    child.stop()


def test_the_number_of_a_stopped_child_means_nothing_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = launch(tmp_path, "")
    child.stop()
    monkeypatch.setattr(
        process_tree, "table", lambda: {child.pid: Process(child.pid, 1, child.pid, "S", 1)}
    )
    assert child._family.members() == []


def test_stop_run_ends_every_child_of_one_run_and_no_other(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    first, second = (launch(folder, FOREVER) for folder in folders)
    stop_run(str(folders[0] / "wor"))  # another run, whose name is the beginning of ours
    assert alive(first.pid)
    stop_run(str(folders[0] / "work"))
    assert not alive(first.pid)
    assert alive(second.pid)
    stop_run(str(folders[1] / "work"))
    assert not alive(second.pid)


def test_sweep_finds_what_a_run_left_behind(tmp_path: Path) -> None:
    run = str(tmp_path / "torchlint-x")
    mine, other = (
        subprocess.Popen([sys.executable, "-c", FOREVER], env={**os.environ, RUN_VARIABLE: name})
        for name in (f"{run}:3", f"{run}y:3")
    )
    try:
        sweep(run)
        assert mine.wait() == -signal.SIGKILL
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


STARTER = """
import os, sys, threading, time
from pathlib import Path
from torchlint.program.machine.processes import start
folder = Path(sys.argv[1])
child = start([sys.executable, "-c", {code!r}], cwd=folder, env=dict(os.environ), log=folder / "log", writable=None)
(folder / "new").write_text(str(child.pid))
(folder / "new").rename(folder / "pid")
time.sleep(1000)
"""  # noqa: E501


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="Linux alone tells a child of its parent's end"
)
@pytest.mark.parametrize("frozen", [False, True])
def test_a_child_ends_with_a_killed_parent(tmp_path: Path, frozen: bool) -> None:
    code = STARTER.format(code="open('up', 'w')\n" + FOREVER)
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2]
    ) as parent:
        until((tmp_path / "pid").exists)
        until((tmp_path / "up").exists)  # by then sandbox.py has done its part
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
        if frozen:
            os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        until(lambda: not alive(pid))


def test_a_child_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    """Linux takes the end of a thread for the end of the parent."""
    children: list[Child] = []

    def work() -> None:
        children.append(launch(tmp_path, "open('up', 'w')\n" + FOREVER))
        until((tmp_path / "up").exists)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert children[0].wait(0.1) is None


# Who belongs to whom


def test_a_signal_does_not_hit_another_process_of_the_same_number(tmp_path: Path) -> None:
    with launch(tmp_path, FOREVER) as child:
        real = table()[child.pid]
        send(
            [Process(real.pid, real.parent, real.session, real.state, real.start - 1)],
            signal.SIGKILL,
        )
        assert child.wait(0.05) is None
        send([real], signal.SIGKILL)
        assert child.wait(60) == -signal.SIGKILL
    send([real], signal.SIGKILL)  # long gone


def test_children_have_numbers_of_their_own(tmp_path: Path) -> None:
    code = f"import os\nprint(os.environ[{RUN_VARIABLE!r}])"
    with launch(tmp_path, code) as one:
        one.wait(60)
        first = one.tail()
    with launch(tmp_path, code) as two:
        two.wait(60)
    assert first.startswith(f"{tmp_path}/work:")
    assert first != two.tail()


def processes_of(monkeypatch: pytest.MonkeyPatch, *rows: tuple[int, int, int, str]) -> list[int]:
    """Return the family of number 10 in a table of (pid, parent, session, state)."""
    rows_by_pid = {
        pid: Process(pid, parent, session, state, pid) for pid, parent, session, state in rows
    }
    monkeypatch.setattr(process_tree, "table", lambda: rows_by_pid)
    monkeypatch.setattr(
        process_tree, "run_of", lambda pid: {40: "r:1", 41: "r:11", os.getpid(): "r:1"}.get(pid, "")
    )
    return [process.pid for process in Family(10, "r:1").members()]


def test_a_family(monkeypatch: pytest.MonkeyPatch) -> None:
    found = processes_of(
        monkeypatch,
        (1, 0, 1, "S"),
        (50, 40, 50, "S"),  # child of one that was found by its run's name
        (40, 1, 40, "S"),
        (41, 1, 41, "S"),  # another run
        (12, 11, 12, "T"),
        (11, 10, 10, "S"),
        (9, 11, 9, "S"),  # numbers begin anew some day
        (13, 10, 10, "Z"),  # ended
        (14, 1, 10, "S"),  # its parent has ended; still in the session
        (10, os.getpid(), 10, "R"),
        (os.getpid(), 1, 1, "R"),
        (30, os.getpid(), 30, "S"),  # another child of ours
    )
    assert sorted(found) == [9, 10, 11, 12, 14, 40, 50]
    order = {pid: index for index, pid in enumerate(found)}
    assert order[10] < order[11] < min(order[9], order[12])
    assert order[40] < order[50]


def test_a_name_that_looks_like_the_tables_own_signs(tmp_path: Path) -> None:
    program = tmp_path / "a) R 1 (b"
    program.write_text(f"#!{sys.executable} -S\nopen('up', 'w')\n{FOREVER}")
    program.chmod(0o755)
    with start(
        [str(program)], cwd=tmp_path, env=dict(os.environ), log=tmp_path / "log", writable=None
    ) as child:
        until((tmp_path / "up").exists)
        assert (table()[child.pid].parent, table()[child.pid].session) == (os.getpid(), child.pid)


def test_a_table_with_a_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read at one instant, so two numbers may each be the other's parent."""
    assert processes_of(monkeypatch, (20, 21, 1, "S"), (21, 20, 1, "S"), (10, 1, 10, "S")) == [10]


def test_ps_and_proc_agree(tmp_path: Path) -> None:
    date = "Sat Nov 21 10:42:11 2026"
    start_time = int(time.mktime(time.strptime(date)))
    listing = f"    1     0     1 Ss   {date}    \n 4242     1  4242 S+   {date}\n"
    assert from_ps(listing) == {
        1: Process(1, 0, 1, "S", start_time),
        4242: Process(4242, 1, 4242, "S", start_time),
    }
    with launch(tmp_path, FOREVER) as child:
        try:
            text = subprocess.run(PS, capture_output=True, text=True, check=True).stdout
        except FileNotFoundError:
            pytest.skip("no ps")
        other, own = from_ps(text)[child.pid], table()[child.pid]
        assert (other.parent, other.session) == (own.parent, own.session)


def test_without_proc_the_tree_is_read_from_ps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with launch(tmp_path, SPAWN.format(code=COUNT, name="far") + FOREVER) as child:
        far = counter(tmp_path, "far")
        monkeypatch.setattr(process_tree, "_PROC", tmp_path / "no-proc")
        try:
            subprocess.run(["ps"], capture_output=True, check=True)
        except FileNotFoundError:
            pytest.skip("no ps")
        assert {process.pid for process in child._family.members()} == {child.pid, far}
        child.stop()
        assert (child.poll(), alive(far)) == (-signal.SIGTERM, False)


def test_without_any_table_the_child_itself_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = launch(tmp_path, FOREVER)
    monkeypatch.setattr(process_tree, "_PROC", tmp_path / "no-proc")
    monkeypatch.setenv("PATH", "")
    assert table() == {}
    child.stop(grace=0)
    assert child.poll() == -signal.SIGKILL
