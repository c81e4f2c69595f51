"""The cache: whatever is in its place, what it says, and who else uses it, costs a warning at
most."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, GOOD_CODE, Done, Fault
from tests.patience import PATIENCE
from torchlint.run.cache_folder import FORMAT, TAG

BAD = GOOD.replace("mask", "cover")
SETUID = hasattr(os, "geteuid") and os.geteuid() == 0


COMMAND = (sys.executable, "-m", "torchlint")
_WITHOUT_RIGHTS = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root reads and writes everything
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; takes effect with exec
os.execv(sys.argv[1], sys.argv[1:])
"""  # noqa: E501
NO_ROOT = (sys.executable, "-c", _WITHOUT_RIGHTS, *COMMAND)


@pytest.fixture(autouse=True)
def everywhere(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have processes that start from nothing run the same copy of torchlint."""
    monkeypatch.setenv("PYTHONPATH", str(package))
    monkeypatch.delenv("CI", raising=False)


def cache(fault: Fault) -> Path:
    return fault.folder / ".torchlint_cache"


def checked(fault: Fault, *words: str, command: Sequence[str] | None = None) -> Done:
    fault.seconds = 60  # no file here is slow, but the machine may be
    return fault.run("check", ".", *words, command=command)


def results(fault: Fault) -> Path:
    (path,) = cache(fault).glob("results-*.json")
    return path


def same(fault: Fault, plain: Done, done: Done, *, warned: bool) -> None:
    """Check that a run says what it says without a cache, with a warning of one line, or without
    any."""
    fault.others(done)
    fault.holds("I3", (done.code, done.out) == (plain.code, plain.out), done.text)
    rows = [row for row in done.err.splitlines() if row]
    fault.holds(
        "I3", len(rows) <= 1 and (not warned or b"torchlint: warning" in done.err), done.err
    )


def garbage(data: bytes) -> bytes:
    return os.urandom(len(data))


def head(data: bytes, body: bytes) -> bytes:
    """Put a valid checksum on a body."""
    identity = data.split(b" ", 2)[1].decode()
    return f"{FORMAT} {identity} {hashlib.sha256(body).hexdigest()}\n".encode() + body


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "garbage": garbage,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "one bit": lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:],
    "another version": lambda data: data.replace(FORMAT.encode(), b"torchlint-cache-0"),
    "pickle": lambda data: b"cos\nsystem\n(S'touch pwned'\ntR.",
    "list": lambda data: head(data, b"[]"),
    "no keys": lambda data: head(data, b"{}"),
    "wrong types": lambda data: head(
        data, b'{"facts": 1, "known": {"a": 3}, "files": [], "watched": 1, "there": 2}'
    ),
    "wrong entries": lambda data: head(
        data,
        b'{"facts": [], "known": {}, "files": {"good.py": [1, [9], {}, [], []], "bad.py": null}}',
    ),
    "deep": lambda data: head(data, b"[" * 100_000),
    "number": lambda data: head(data, b'{"facts": ' + b"9" * 10_000 + b"}"),
}


@pytest.mark.fault("C08")
def test_c08_damage(fault: Fault) -> None:
    fault.write("bad.py", BAD)
    plain = checked(fault, "--no-cache")
    fault.holds("I4", not cache(fault).exists(), "--no-cache made a cache")
    checked(fault)
    stored = {path: path.read_bytes() for path in cache(fault).glob("*.json")}
    for name, damage in DAMAGES.items():
        for path, data in stored.items():
            path.write_bytes(damage(data))
        same(
            fault,
            plain,
            checked(fault),
            warned=name not in ("no keys", "wrong types", "wrong entries"),
        )
    same(fault, plain, checked(fault), warned=False)
    fault.holds("I4", not (fault.folder / "pwned").exists(), "the cache was executed")


@pytest.mark.fault("C08")
def test_c08_something_else_in_its_place(fault: Fault) -> None:
    plain = checked(fault, "--no-cache")
    outside = fault.folder.parent / "outside"
    outside.mkdir()
    (outside / "precious").write_text("kept")
    place = cache(fault)
    for make in (
        lambda: place.write_text("a file"),
        lambda: place.symlink_to("/etc"),
        lambda: place.symlink_to(outside),
        lambda: place.symlink_to(outside / "missing"),
        lambda: os.mkfifo(place),
        lambda: shutil.copytree(outside, place),
    ):
        make()
        before = sorted(path.name for path in outside.iterdir())
        same(fault, plain, checked(fault), warned=True)
        fault.holds(
            "I4", sorted(path.name for path in outside.iterdir()) == before, "written outside"
        )
        quiet = checked(fault, "-q")
        fault.holds("I3", quiet.err == b"", quiet.err)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()


@pytest.mark.fault("C08")
def test_c08_links_inside(fault: Fault) -> None:
    """A link to where the results go is neither read nor written through."""
    plain = checked(fault, "--no-cache")
    checked(fault)
    victim = fault.folder.parent / "victim"
    names = [path.name for path in cache(fault).glob("*.json")]
    for name in names:
        victim.write_bytes((cache(fault) / name).read_bytes())
        (cache(fault) / name).unlink()
        (cache(fault) / name).symlink_to(victim)
    before = victim.read_bytes()
    same(fault, plain, checked(fault), warned=True)
    fault.holds("I4", victim.read_bytes() == before, "written through a link")
    for name in (".gitignore", "CACHEDIR.TAG"):
        (cache(fault) / name).unlink()
        (cache(fault) / name).symlink_to(fault.folder.parent / "made")
    same(fault, plain, checked(fault), warned=False)
    fault.holds("I4", not (fault.folder.parent / "made").exists(), "made through a link")


@pytest.mark.fault("C08")
@pytest.mark.skipif(not SETUID, reason="only root can give a folder away")
def test_c08_wrong_owner(fault: Fault) -> None:
    plain = checked(fault, "--no-cache")
    checked(fault)
    for path in (cache(fault), *cache(fault).iterdir()):
        os.chown(path, 65534, 65534)
    same(fault, plain, checked(fault), warned=True)
    os.chown(cache(fault), 0, 0)
    same(fault, plain, checked(fault), warned=True)


@pytest.mark.slow
@pytest.mark.fault("C08")
def test_c08_read_only(fault: Fault) -> None:
    """Without leave to write there is no cache and nothing to say; one that is there already is
    used."""
    fault.write("bad.py", BAD)
    plain = checked(fault, "--no-cache")
    fault.folder.chmod(0o555)
    try:
        same(fault, plain, checked(fault, command=NO_ROOT), warned=False)
        fault.holds("I4", not cache(fault).exists(), "made in a folder that is read-only")
        same(fault, plain, checked(fault, "--cache-dir", "here", command=NO_ROOT), warned=True)
        fault.folder.chmod(0o755)
        checked(fault)
        before = {path.name: path.read_bytes() for path in cache(fault).iterdir()}
        cache(fault).chmod(0o555)
        same(
            fault,
            plain,
            checked(fault, "--statistics", command=NO_ROOT) and checked(fault, command=NO_ROOT),
            warned=False,
        )
        fault.holds(
            "I4",
            {path.name: path.read_bytes() for path in cache(fault).iterdir()} == before,
            "changed",
        )
    finally:
        for folder in (fault.folder, cache(fault)):
            if folder.exists():
                folder.chmod(0o755)


@pytest.mark.fault("C09")
def test_c09_poisoned(fault: Fault) -> None:
    """What says "clean" for another content, or for the old states of files, is no hit."""
    path = fault.write("bad.py", "import torch\n")
    fault.write("good.py", GOOD)
    clean = checked(fault)
    checked(fault)
    fault.holds("I3", b"bad.py" not in clean.out, clean.text)
    state = path.stat()
    path.write_text(BAD)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    done = checked(fault)
    fault.others(done)
    fault.holds("I3", b"bad.py:6" in done.out and GOOD_CODE.encode() in done.out, done.text)


@pytest.mark.fault("C09")
def test_c09_states_that_lie(fault: Fault) -> None:
    """A cache with the states of today's files and yesterday's digests is read by its author
    only."""
    fault.write("bad.py", BAD)
    checked(fault)
    path = results(fault)
    data = path.read_bytes()
    value = json.loads(data.partition(b"\n")[2])
    value["files"]["bad.py"][0] = hashlib.sha256(b"import torch\n").hexdigest()
    value["files"]["bad.py"][2] = []
    value["known"] = {}
    path.write_bytes(head(data, json.dumps(value).encode()))
    for run in cache(fault).glob("run-*"):
        run.unlink()
    done = checked(fault)
    fault.holds("I3", b"bad.py:6" in done.out, done.text)


@pytest.mark.fault("C09")
def test_c09_cache_that_came_with_the_project(fault: Fault) -> None:
    """Valid in every word but made elsewhere: the folder's number gives it away."""
    fault.write("bad.py", BAD)
    fault.write("good.py", GOOD)
    time.sleep(0.05)
    plain = checked(fault)
    path = results(fault)
    data = path.read_bytes()
    value = json.loads(data.partition(b"\n")[2])
    value["files"]["bad.py"][2] = []
    path.write_bytes(head(data, json.dumps(value).encode()))
    for run in cache(fault).glob("run-*"):
        run.unlink()
    fault.holds("I3", b"bad.py" not in checked(fault, "-q").out, "the test poisons nothing")
    moved = fault.folder / "moved"
    cache(fault).rename(moved)
    shutil.copytree(moved, cache(fault))
    shutil.rmtree(moved)
    same(fault, plain, checked(fault), warned=False)
    (cache(fault) / "CACHEDIR.TAG").write_bytes(TAG)


@pytest.mark.slow
@pytest.mark.fault("C10")
def test_c10_eight_processes(fault: Fault) -> None:
    """Runs beside each other, some over changing files, all say what they say alone; nothing stays
    behind."""
    for number in range(12):
        fault.write(f"bad{number}.py", BAD + f"\nx = {number}\n")
    plain = checked(fault, "--no-cache")
    command = [*COMMAND, "check", ".", f"--timeout={fault.seconds}"]
    for round_ in range(2):
        started = [
            subprocess.Popen(
                [*command, "--select", "TL1"] if number % 4 == 3 else command,
                cwd=fault.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            for number in range(8)
        ]
        if round_:
            cache(fault).joinpath("results-" + "0" * 32 + ".json").write_bytes(b"in between")
        for process in started:
            out, err = process.communicate(timeout=PATIENCE)
            done = Done(process.returncode, out, err, 0.0)
            fault.contained(done)
            fault.holds("I3", err == b"", err)
            fault.holds("I3", "--select" in process.args or out == plain.out, done.text)  # type: ignore[operator]
    for path in cache(fault).glob("results-*.json"):
        words, _, body = path.read_bytes().partition(b"\n")
        torn = (
            words != b"in between"
            and words.split(b" ")[2].decode() != hashlib.sha256(body).hexdigest()
        )
        fault.holds("I4", not torn, f"{path.name} is torn")
    fault.holds("I4", not list(cache(fault).glob("*.tmp")), "temporary files are left")
    same(fault, plain, checked(fault), warned=False)
