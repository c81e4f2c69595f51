"""Faults R01 to R09: workers that die, signals, closed streams, small limits, odd environments and
clocks."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, GOOD_FIXED, TORCHLINT, Done, Fault
from tests.patience import PATIENCE
from tests.small_plugin import install, rule_text

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes"
    ),
]
STUCK = f"import torch\nmatch x:\n    case {'(' * 13}a{',)' * 13}:\n        pass\n"
"""The parser spends minutes of native code on this, and no signal handler of Python runs
meanwhile."""
MANY = GOOD + f"        torch.ones(n).cuda()  # {'x' * 200}\n" * 300
"""More findings than a pipe holds."""


@pytest.fixture
def tag() -> Iterator[str]:
    """Return a value for the variable TORCHLINT_CASE; whatever still carries it at the end is
    killed, and told of."""
    value = uuid.uuid4().hex
    yield value
    left = tagged(value)
    for process in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    assert not left


def tagged(tag: str) -> list[int]:
    """Return the processes, zombies not counted, that carry the tag in their environment."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):  # gone meanwhile, or another user's
                if tag.encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
    return found


def cpu_seconds(process: int) -> float:
    """Return the CPU time of a process; 0 where it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text("ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until(condition: Callable[[], object], seconds: float) -> bool:
    """Wait for a condition; say whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def started(
    fault: Fault, tag: str, *arguments: str, cpu: float = 2.5, large: bool = False
) -> subprocess.Popen[bytes]:
    """Start torchlint on `STUCK` in a session of its own; return when a worker has worked for `cpu`
    seconds."""
    fault.write("good.py", GOOD)
    if large:
        fault.write("zz.py", LARGE)
    fault.write("stuck.py", STUCK)
    process = subprocess.Popen(
        [TORCHLINT, *arguments],
        cwd=fault.folder,
        env={**os.environ, "TORCHLINT_CASE": tag},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )

    def busy() -> bool:
        assert process.poll() is None, process.communicate()
        return any(cpu_seconds(child) > cpu for child in tagged(tag) if child != process.pid)

    assert until(busy, PATIENCE), "no worker got to work"
    return process


def ended(process: subprocess.Popen[bytes], limit: float = PATIENCE) -> Done:
    """Wait for a process that was sent a signal just now."""
    start = time.monotonic()
    out, err = process.communicate(timeout=limit)
    return Done(process.returncode, out, err, time.monotonic() - start)


def listing(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder with their bytes; what a cache keeps is left out."""
    files = (
        path
        for path in folder.rglob("*")
        if path.is_file() and ".torchlint_cache" not in path.parts
    )
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


GRIEF = """\
how = node.args[0].value.raw_value
if how.startswith("SIG"):
    os.kill(os.getpid(), getattr(signal, how))
if how == "exits":
    os._exit(0)
if how == "hangs":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGALRM])
    time.sleep(1000)
if how == "memory":
    bytearray(2**42)
"""
"""What a rule does whose worker comes to grief over files that ask for it."""
HURTS = {
    "SIGSEGV": ("crashed (SIGSEGV)",),
    "SIGKILL": ("crashed (SIGKILL)",),
    # To the pool, a worker that exits with 0 is one that was told to.
    "exits": ("crashed (exit code 0)", "crashed"),
    "hangs": ("did nothing for 10 s",),
    "memory": ("out of memory",),
}
LARGE = "import torch\n" + f"# {'x' * 97}\n" * 2_500
"""More than the bytes up to which one worker does everything."""
WORKERS = pytest.mark.parametrize("large", [False, True], ids=["one-worker", "pool"])


@pytest.mark.fault("R01")
@WORKERS
def test_r01_worker_dies_or_hangs(fault: Fault, tag: str, large: bool) -> None:
    fault.seconds = 10
    rules = {"worker_dies.py": rule_text("grief", "FT201", GRIEF)}
    plugin = install(fault.folder.parent / "plugin", "grief", rules)
    for name in HURTS:
        fault.write(f"{name}.py", GOOD + f"torch.grief('{name}')\n")
    if large:
        fault.write("zz.py", LARGE)
    env = {"TORCHLINT_CASE": tag, **plugin}
    done = fault.run("check", "--output-format", "json", bad=5, env=env, command=(TORCHLINT,))
    fault.others(done)
    fault.holds("I3", done.code == 2, done.text[:3000])
    for name, words in HURTS.items():
        entries = [(entry["code"], entry["message"]) for entry in done.of(f"{name}.py")]
        good = len(entries) == 1 and entries[0][0] == "not-analysed" and entries[0][1] in words
        fault.holds("I3", good, f"{name}: {entries}")
    fault.holds("I1", not tagged(tag), "workers are left")
    for name in ("hangs", "exits"):  # once is slow enough
        (fault.folder / f"{name}.py").unlink()
    before = listing(fault.folder)
    done = fault.run("fix", "--apply", bad=5, env=env)
    fault.holds("I3", done.code == 2, done.text)
    fault.others_fixed()
    fault.holds(
        "I4",
        {**listing(fault.folder), "good.py": b""} == {**before, "good.py": b""},
        "other files changed",
    )


@pytest.mark.fault("R01")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL, signal.SIGTERM])
def test_r01_worker_is_killed_from_outside(fault: Fault, tag: str, number: int) -> None:
    process = started(fault, tag, "check", "--output-format", "json", "--timeout", "60", cpu=2.5)
    worker = max((child for child in tagged(tag) if child != process.pid), key=cpu_seconds)
    os.kill(worker, number)
    done = ended(process)
    fault.contained(done)
    fault.others(done)
    entries = [(entry["code"], entry["message"]) for entry in done.of("stuck.py")]
    words = f"crashed ({signal.Signals(number).name})"
    fault.holds(
        "I3", entries == [("not-analysed", words)] and done.code == 2, f"{done.code} {entries}"
    )


@pytest.mark.fault("R02")
@pytest.mark.parametrize(
    ("command", "group", "large"),
    [
        (("check",), True, False),
        (("fix", "--apply"), False, False),
        (("fix", "--apply"), True, True),
        (("check",), False, True),
    ],
    ids=[
        "check-group-one-worker",
        "apply-parent-one-worker",
        "apply-group-pool",
        "check-parent-pool",
    ],
)
def test_r02_interrupt_in_native_code(
    fault: Fault,
    tag: str,
    command: Sequence[str],
    group: bool,
    large: bool,
    request: pytest.FixtureRequest,
) -> None:
    process = started(fault, tag, *command, "--timeout", "60", large=large)
    before = listing(fault.folder)
    (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    done = ended(process)
    request.node.user_properties.append(("interrupt_seconds", round(done.seconds, 3)))
    fault.contained(done)
    fault.holds("I3", done.code == 130, f"exit code {done.code}: {done.text}")
    fault.holds("I3", done.err.strip().endswith(b"torchlint: interrupted"), done.err)
    # The target is 1 s, which the score prints; here it is held that nobody waited for the worker's
    # 60 s of CPU time.
    fault.holds("I5", done.seconds < 50, f"{done.seconds:.2f} s")
    fault.holds("I1", until(lambda: not tagged(tag), 30), "processes are left")
    fault.holds("I4", listing(fault.folder) == before, "files were changed")


@pytest.mark.fault("R03")
@pytest.mark.parametrize(
    ("number", "large"),
    [(signal.SIGTERM, False), (signal.SIGTERM, True), (signal.SIGHUP, False)],
)
def test_r03_terminated(fault: Fault, tag: str, number: int, large: bool) -> None:
    process = started(fault, tag, "fix", "--apply", "--timeout", "60", large=large)
    before = listing(fault.folder)
    process.send_signal(number)
    done = ended(process)
    fault.contained(done)
    fault.holds("I3", done.code == 130, f"exit code {done.code}: {done.text}")
    fault.holds("I5", done.seconds < 50, f"{done.seconds:.2f} s")
    fault.holds("I1", until(lambda: not tagged(tag), 30), "processes are left")
    fault.holds("I4", listing(fault.folder) == before, "files were changed")


@pytest.mark.fault("R03")
@pytest.mark.parametrize("large", [False, True], ids=["one-worker", "pool"])
def test_r03_parent_is_killed(fault: Fault, tag: str, large: bool) -> None:
    process = started(fault, tag, "fix", "--apply", "--timeout", "8", cpu=0.6, large=large)
    before = listing(fault.folder)
    process.kill()
    ended(process)
    # Where the system does not end the worker with its parent, its limit does: 8 s of CPU time on a
    # busy machine.
    fault.holds("I5", until(lambda: not tagged(tag), PATIENCE), "a worker outlives its parent")
    fault.holds("I4", listing(fault.folder) == before, "files were changed")


def shell(fault: Fault, script: str, **env: str) -> Done:
    """Run a bash script in which ``torchlint`` is a function for the installed command, and check
    I1."""
    fault.write("good.py", GOOD)
    start = time.monotonic()
    done = subprocess.run(
        ["bash", "-c", f'torchlint() {{ "{TORCHLINT}" "$@"; }}\n{script}'],
        cwd=fault.folder,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    result = Done(done.returncode, done.stdout, done.stderr, time.monotonic() - start)
    fault.contained(result)
    return result


@pytest.mark.fault("R04")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("check many.py", 1),
        ("check many.py --output-format json", 1),
        ("fix many.py", 1),
        ("rule --all", 0),
    ],
)
def test_r04_reader_goes_away(fault: Fault, command: str, code: int) -> None:
    fault.write("many.py", MANY)
    done = shell(fault, f"torchlint {command} | head -1; echo ${{PIPESTATUS[0]}}")
    fault.holds("I3", done.out.splitlines()[-1] == str(code).encode(), done.out[-100:])
    fault.holds("I1", not done.err or b"fix" in done.err, done.err)


@pytest.mark.fault("R04")
@pytest.mark.parametrize("command", ["check", "fix", "check --output-format sarif"])
def test_r04_closed_and_full(fault: Fault, command: str) -> None:
    for redirect in (">&-", ">&- 2>&-", "<&-", "2>&-") if command == "check" else (">&-",):
        done = shell(fault, f"torchlint {command} {redirect}")
        fault.holds("I3", done.code == 1, f"{redirect}: {done.code} {done.text}")
        if redirect == "<&-":
            fault.holds("I2", b"good.py" in done.out, done.text)
    done = shell(fault, f"torchlint {command} >/dev/full")
    fault.holds(
        "I3", done.code == 2 and b"No space left on device" in done.err, f"{done.code} {done.text}"
    )


@pytest.mark.fault("R05")
def test_r05_two_at_once(fault: Fault) -> None:
    for round_ in range(2):
        paths = [fault.write(f"sub{number % 3}/a{number}.py", GOOD * 8) for number in range(24)]
        both = [
            subprocess.Popen(
                [TORCHLINT, "fix", "--apply"],
                cwd=fault.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for _ in range(2)
        ]
        for process in both:
            done = ended(process)
            fault.contained(done)
            fault.holds("I3", done.code in (0, 1), f"round {round_}: {done.code} {done.text}")
        fixed = (GOOD * 8).replace("torch.ones(n).cuda()", GOOD_FIXED).encode()
        fault.holds(
            "I4",
            {path.read_bytes() for path in paths} == {fixed},
            "a file is lost, mixed or not fixed",
        )
        fault.holds("I4", not list(fault.folder.rglob(".torchlint-*")), "temporary files are left")


NOBODY = 65534
"""The user that owns nothing, for what root is never refused."""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user may enter and write to, as pytest's own are the owner's
    alone."""
    with tempfile.TemporaryDirectory(prefix="torchlint-fault-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o777)
        path = folder / "good.py"
        path.write_text(GOOD)
        path.chmod(0o666)
        yield folder
        for left in folder.rglob("*"):
            if left.is_dir() and not left.is_symlink():
                left.chmod(0o777)


def works_or_says_why(fault: Fault, done: Done) -> None:
    """Check that a run under a limit found what is there, or ended with 2 and a reason."""
    if done.code == 2:
        reasons = (
            "no worker could be started",
            "no thread could be started",
            "torchlint: error: ",
            "out of memory",
        )
        fault.holds("I3", any(reason in done.text for reason in reasons), done.text)
    else:
        fault.holds("I3", done.code == 1, done.text)
        fault.others(done)


@pytest.mark.fault("R06")
@pytest.mark.parametrize("limit", ["-n 32", "-n 10", "-v 4194304", "-v 600000", "-s 256"])
def test_r06_small_limits(fault: Fault, limit: str) -> None:
    for number in range(12):  # enough text for a second worker
        fault.write(f"more{number}.py", "import torch\n" + "x = torch.zeros(3)\n" * 1_100)
    done = shell(fault, f"ulimit {limit} && torchlint check --output-format concise")
    works_or_says_why(fault, done)
    if limit in ("-n 32", "-v 4194304"):
        fault.holds("I3", done.code == 1, done.text)


@pytest.mark.fault("R06")
@pytest.mark.parametrize("most", [0, 1, 2])
def test_r06_few_processes(fault: Fault, open_folder: Path, most: int) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become a user that has no other processes")
    if any(owner_of(path) == NOBODY for path in Path("/proc").glob("[0-9]*")):
        pytest.skip("the user nobody has processes already")
    # Nobody, but able to read this Python wherever it lies.
    reads = (
        "--inh-caps=+dac_read_search,+dac_override --ambient-caps=+dac_read_search,+dac_override"
    )
    become = f"setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {reads}"
    if subprocess.run(
        [*become.split(), TORCHLINT, "--version"], capture_output=True, check=False
    ).returncode:
        pytest.skip("another user cannot run this Python")
    limited = f'ulimit -u {most + 1}; exec "{TORCHLINT}" check --output-format concise'
    works_or_says_why(fault, shell(fault, f"cd \"{open_folder}\" && {become} bash -c '{limited}'"))


def owner_of(path: Path) -> int:
    """Return the owner of a file; -1 where it is gone."""
    try:
        return path.stat().st_uid
    except OSError:
        return -1


@pytest.mark.fault("R06")
@pytest.mark.parametrize(
    "shm", ["umount -l /dev/shm && rmdir /dev/shm", "mount -o remount,ro /dev/shm"]
)
def test_r06_no_shared_memory(fault: Fault, shm: str) -> None:
    script = (
        "mount -t tmpfs tmpfs /dev && mkdir /dev/shm && mount -t tmpfs tmpfs /dev/shm && "
        f"{shm} || exit 99"
    )
    script += "; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9"
    probe = subprocess.run(
        ["unshare", "-m", "bash", "-c", script], capture_output=True, check=False
    )
    if probe.returncode:
        pytest.skip("needs a mount namespace")
    done = shell(
        fault, f"unshare -m bash -c '{script}; exec \"{TORCHLINT}\" check --output-format concise'"
    )
    works_or_says_why(fault, done)


@pytest.mark.fault("R06")
def test_r06_one_cpu(fault: Fault) -> None:
    cpu = min(os.sched_getaffinity(0))
    done = shell(
        fault,
        (
            f"taskset -c {cpu} true 2>/dev/null || exec true; exec taskset -c {cpu} '{TORCHLINT}' "
            "check"
        ),
    )
    fault.others(done)
    fault.holds("I3", done.code == 1, done.text)


ODD = GOOD.replace(
    "        mask",
    '        s = "\U0001f642 \u65e5\u672c \u202e \x9b"  # \u00e9 \u20ac\n        mask',
).replace("n).cuda()", "n).cuda()  # \U0001f642 \u65e5\u672c")
ENVIRONMENTS = {
    "c": {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "ascii-strict": {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "C", "PYTHONUTF8": "0"},
    "cp1252": {"PYTHONIOENCODING": "cp1252", "TERM": "dumb", "COLUMNS": "20"},
    "dumb": {"TERM": "dumb", "COLUMNS": "20", "LINES": "2"},
    "no-term": {
        "TERM": "",
        "COLUMNS": "0",
        "HOME": "",
        "LANG": "no_SUCH.codec",
        "LC_ALL": "no_SUCH.codec",
    },
}


@pytest.mark.fault("R07")
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_r07_streams_that_hold_little(fault: Fault, name: str) -> None:
    fault.write("odd \u00e9\U0001f642.py", ODD)
    fault.write("broken.py", "x = '\u65e5\u672c\n")
    env = ENVIRONMENTS[name]
    done = fault.run("check", env=env)
    fault.others(done)
    fault.holds("I3", done.code == 1 and b"UnicodeEncodeError" not in done.err, done.text)
    fault.holds("I3", done.out.count(b"TL102") == 2 and b"broken.py" in done.out, done.text)
    if name not in ("c", "cp1252"):
        return
    done = fault.run("fix", "--apply", env=env)
    fault.others_fixed()
    fixed = ODD.replace("torch.ones(n).cuda()", GOOD_FIXED).encode()
    fault.holds(
        "I4",
        (fault.folder / "odd \u00e9\U0001f642.py").read_bytes() == fixed,
        "other bytes changed",
    )


FAKES = ("libcst", "torch", "pebble", "numpy", "torchlint_inside")


@pytest.mark.fault("R08")
def test_r08_odd_interpreter_settings(fault: Fault) -> None:
    marker = fault.folder / "marker"
    for name in FAKES:
        fault.write(
            f"{name}.py", f"open({str(marker)!r}, 'a').write({name!r})\nraise SystemExit(9)\n"
        )
    for env in (
        {"PYTHONWARNINGS": "error"},
        {"PYTHONOPTIMIZE": "2"},
        {"PYTHONPATH": "."},
        {"PYTHONPATH": str(fault.folder)},
        {"PYTHONPATH": f"{os.pathsep}x"},
        {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "7", "PYTHONDEVMODE": "1"},
    ):
        for command in ((TORCHLINT,), (sys.executable, "-m", "torchlint"))[
            : 2 if "PYTHONPATH" in env else 1
        ]:
            done = fault.run("check", "--output-format", "concise", env=env, command=command)
            fault.others(done)
            fault.holds("I3", done.code == 1, f"{env}: {done.code} {done.text}")
            fault.holds("I1", not done.err, f"{env}: {done.err!r}")
            fault.holds(
                "I1", not marker.exists(), f"{env}: a module of the current folder was imported"
            )
    done = fault.run("rule", "TL102", env={"PYTHONOPTIMIZE": "2"}, control=False)
    fault.holds(
        "I3",
        done.code == 0 and b"cpu-create-then-move" in done.out and b"WHY" in done.out,
        done.text,
    )


@pytest.mark.fault("R09")
def test_r09_clocks_that_lie(fault: Fault) -> None:
    clean = GOOD.replace("torch.ones(n).cuda()", GOOD_FIXED)
    dirty = (
        clean.replace(GOOD_FIXED, "torch.ones(n).cuda()")
        + "# "
        + "x" * (len(clean) - len(GOOD) - 3)
        + "\n"
    )
    assert len(clean) == len(dirty)
    path = fault.write("a.py", clean)
    future = time.time() + 10**8
    for text, when in (
        (clean, 0),
        (dirty, 0),
        (clean, 0),
        (dirty, future),
        (clean, future),
        (dirty, 1),
    ):
        path.write_text(text)
        os.utime(path, (when, when))
        # As if the clock had been ahead when the cache was written, and was set back since.
        for kept in fault.folder.glob(".torchlint_cache/**/*"):
            os.utime(kept, (future, future))
        done = fault.run("check", "--output-format", "json")
        fault.others(done)
        found = [entry["code"] for entry in done.of("a.py")]
        fault.holds("I3", found == ["TL102"] * (text == dirty), f"{when}: {found}")
    os.utime(path, (future, future))
    done = fault.run("fix", "--apply")
    fault.holds("I3", done.code == 0 and GOOD_FIXED in path.read_text(), done.text)


@pytest.mark.fault("R09")
def test_r09_report_has_no_times(fault: Fault) -> None:
    """Two runs of one tree are equal to the byte, whatever the clock says."""
    first, second = (fault.run("check", "--output-format", "json") for _ in range(2))
    fault.others(first)
    fault.holds("I3", json.loads(first.out) == json.loads(second.out), "the reports differ")
