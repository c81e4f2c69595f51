"""Faults C11 and C12: baselines that are missing, broken, huge or old, and code that moved since
they were written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, GOOD_CODE, Done, Fault

BASE = "base.json"
HEAD = '{\n"baseline-format": 1,\n"entries": [\n'
TAIL = "[]\n]\n}\n"
LINE = '["good.py", "TL102", "a0098fd583d252fe", 1],\n'
HELD = "1 finding held back by the baseline."

UNUSABLE: dict[str, tuple[bytes | None, str]] = {
    "missing": (None, "there is no such file"),
    "empty": (b"", ":1: not usable"),
    "garbage": (os.urandom(64).replace(b"\xff", b"") + b"\xff", "is not UTF-8"),
    "other-json": (b'{"version": 1}', ":1: not usable: it does not start as a baseline does"),
    "truncated": ((HEAD + LINE).encode()[:-9], ":4: not usable"),
    "conflict": (
        f"{HEAD}<<<<<<< HEAD\n{LINE}=======\n{LINE}>>>>>>> x\n{TAIL}".encode(),
        ":4: not usable: a merge conf",
    ),
    "newer": (
        (HEAD + TAIL).replace("1", "2").encode(),
        "has format 2, and this torchlint knows 1 only",
    ),
    "deep": (HEAD.encode() + b"[" * 200_000, "not usable"),
    "digits": ((HEAD + LINE).replace("1]", f"{'1' * 100_000}]").encode(), ":4: not usable"),
    "escapes": ((HEAD + '["\\u001b[31m", 1],\n' + TAIL).encode(), ":4: not usable"),
}


def refused(fault: Fault, done: Done, words: str) -> None:
    fault.holds("I3", done.code == 2, f"exit code {done.code}: {done.text[-2000:]}")
    fault.holds("I3", done.out == b"", done.out[:300])
    said = done.err.decode()
    fault.holds(
        "I3", said.startswith("torchlint: error: baseline ") and said.count("\n") == 1, said[:3000]
    )
    fault.holds("I3", words in said, said[:3000])


@pytest.mark.fault("C11")
@pytest.mark.parametrize("write", [False, True], ids=["check", "write"])
@pytest.mark.parametrize("name", UNUSABLE)
def test_c11_unusable(fault: Fault, name: str, write: bool) -> None:
    data, words = UNUSABLE[name]
    if data is not None:
        fault.write(BASE, data)
    done = fault.run("check", "--baseline", BASE, *["--write-baseline"] * write)
    if data is None and write:  # the one way to make one
        fault.holds(
            "I3",
            done.code == 0 and b"Wrote base.json: 1 finding (1 added, 0 removed)" in done.out,
            done.text,
        )
        return
    refused(fault, done, words)
    now = (fault.folder / BASE).read_bytes() if data is not None else None
    fault.holds("I4", now == data, "the baseline was changed")
    fault.holds("I4", (fault.folder / "good.py").read_text() == GOOD, "the file was changed")


@pytest.mark.fault("C11")
@pytest.mark.parametrize("kind", ["directory", "fifo", "link-to-nothing", "device"])
def test_c11_no_file(fault: Fault, kind: str) -> None:
    path = fault.folder / BASE
    if kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else "nothing")
    for more in ([], ["--write-baseline"]):
        refused(fault, fault.run("check", "--baseline", BASE, *more), "base.json")


MEASURED = """
import re, sys
from pathlib import Path
from torchlint.cli.main import run
code = run(sys.argv[1:])
Path("../peak").write_text(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


@pytest.mark.fault("C11")
@pytest.mark.slow
@pytest.mark.skipif(
    sys.platform != "linux", reason="reads the memory of a process as Linux tells it"
)
def test_c11_a_million_entries(fault: Fault) -> None:
    lines = (
        f'["src/module_{number // 100}.py", "TL102", "{number:016x}", 1],\n'
        for number in range(1_000_000)
    )
    data = f"{HEAD}{LINE}{''.join(lines)}{TAIL}".encode()
    path = fault.write(BASE, data)
    fault.write("other.py", GOOD + "x = 1\n")
    command = (sys.executable, "-c", MEASURED, "check", "--baseline", BASE)

    def small(*arguments: str) -> Done:
        done = fault.run(*arguments, command=command, bad=12)
        peak = int((fault.folder / "../peak").read_text())
        fault.holds("I5", peak < 550_000, f"the parent took {peak} kB")
        return done

    done = small("good.py")
    fault.holds("I3", done.code == 0 and HELD in done.text, done.text[-500:])
    done = small("other.py")
    fault.holds("I3", done.code == 1 and GOOD_CODE in done.text, done.text[-500:])
    fault.holds("I4", path.read_bytes() == data, "the baseline was changed")
    done = small("--write-baseline", "other.py")
    fault.holds("I3", "1000002 findings (1 added, 0 removed)" in done.text, done.text[-500:])


@pytest.mark.fault("C11")
def test_c11_it_never_grows_by_itself(fault: Fault) -> None:
    data = (HEAD + TAIL).encode()
    path = fault.write(BASE, data)
    for command in (["check"], ["check", "--fix"], ["check", "--add-ignore"]):
        fault.write("good.py", GOOD)
        fault.run(*command, "--baseline", BASE)
        fault.holds("I4", path.read_bytes() == data, f"{command} changed the baseline")


@pytest.mark.fault("C11")
def test_c11_an_interrupted_write_leaves_the_old_one(fault: Fault) -> None:
    """The disk takes no more while the baseline is written."""
    path = fault.write(BASE, HEAD + TAIL)
    before = path.read_bytes()
    fault.write("good.py", GOOD)
    script = "ulimit -f 0; trap '' XFSZ; exec \"$@\""
    torchlint = str(Path(sys.executable).parent / "torchlint")
    words = ["bash", "-c", script, "-", torchlint]
    done = fault.run("check", "--no-cache", "--baseline", BASE, "--write-baseline", command=words)
    fault.holds("I3", done.code == 2 and "cannot be written" in done.text, done.text)
    fault.holds("I4", path.read_bytes() == before, "the baseline was changed")
    left = [entry for entry in os.listdir(fault.folder) if entry.startswith(".torchlint-")]
    fault.holds("I4", left == [], left)


def with_baseline(fault: Fault, text: str = GOOD) -> None:
    """Write the control file and a baseline of it."""
    fault.write("good.py", text)
    fault.run("check", "--baseline", BASE, "--write-baseline")


def held(fault: Fault, count: int, *paths: str) -> None:
    """Check that all findings are held back, and how many."""
    done = fault.run("check", "--baseline", BASE, *paths, control=False)
    fault.holds("I3", done.code == 0, done.text)
    fault.holds("I3", f"{count} finding{'s' * (count != 1)} held back" in done.text, done.text)


CALL = "torch.ones(n).cuda()"
LAYOUTS = {
    "shift": GOOD.replace("def f", "# one\n\n\nX = 1\n\n\ndef f"),
    "crlf": GOOD.replace("\n", "\r\n"),
    "split": GOOD.replace(CALL, "torch.ones(\n            n,\n        ).cuda()"),
    "wrapped": GOOD.replace(CALL, f"(\n            {CALL}  # why\n        )"),
    "spaces": GOOD.replace(CALL, "torch . ones( n ).cuda( )"),
    "tabs": GOOD.replace("    ", "\t"),
    "nested": GOOD.replace("    for", "    if n:\n     for").replace("        ", "          "),
}


@pytest.mark.fault("C12")
@pytest.mark.parametrize("name", LAYOUTS)
def test_c12_shifts_and_layout(fault: Fault, name: str) -> None:
    with_baseline(fault)
    fault.write("good.py", LAYOUTS[name])
    held(fault, 1)


@pytest.mark.fault("C12")
def test_c12_a_formatter(fault: Fault) -> None:
    ruff = Path(sys.executable).parent / "ruff"
    with_baseline(
        fault, GOOD.replace(CALL, "torch.ones( n,\n  n, 'x'    ).cuda( )") + "x = {'a':1}\n"
    )
    subprocess.run(
        [ruff, "format", "--isolated", "good.py"], cwd=fault.folder, check=True, capture_output=True
    )
    fault.holds(
        "I3",
        'torch.ones(n, n, "x").cuda()' in (fault.folder / "good.py").read_text(),
        "ruff did nothing",
    )
    held(fault, 1)


@pytest.mark.fault("C12")
def test_c12_a_moved_file(fault: Fault) -> None:
    with_baseline(fault)
    (fault.folder / "pkg").mkdir()
    (fault.folder / "good.py").rename(fault.folder / "pkg" / "better.py")
    held(fault, 1)
    held(fault, 1, "pkg/better.py")
    fault.run("check", "--baseline", BASE, "--write-baseline", control=False)
    places = [
        entry[0] for entry in json.loads((fault.folder / BASE).read_bytes())["entries"] if entry
    ]
    fault.holds("I3", places == ["pkg/better.py"], places)
    held(fault, 1)


@pytest.mark.fault("C12")
def test_c12_duplicates_are_counted(fault: Fault) -> None:
    line = f"        mask = {CALL}\n"
    with_baseline(fault, GOOD.replace(line, line * 2))
    held(fault, 2)
    fault.write("good.py", GOOD.replace(line, line * 3))
    done = fault.run("check", "--baseline", BASE, "--output-format", "json")
    rows = [entry["location"]["row"] for entry in done.of("good.py")]
    fault.holds("I3", done.code == 1 and rows == [8], rows)
    fault.write("good.py", GOOD)
    held(fault, 1)
    done = fault.run("check", "--baseline", BASE)
    fault.holds("I3", "1 finding fixed or gone" in done.text, done.text)


@pytest.mark.fault("C12")
def test_c12_another_statement_is_another_finding(fault: Fault) -> None:
    with_baseline(fault)
    fault.write("good.py", GOOD.replace("ones(n)", "ones(n, n)"))
    done = fault.run("check", "--baseline", BASE)
    fault.holds("I3", done.code == 1, done.text)
    fault.others(done)


@pytest.mark.fault("O01")
def test_o01_names_in_a_baseline(fault: Fault) -> None:
    name = "\x1b]0;x\x07\u202e\rq.py"
    (fault.folder / name).write_text(GOOD)
    done = fault.run("check", "--baseline", "b\x1b.json", "--write-baseline")
    fault.holds("I3", done.code == 0 and "2 added" in done.text, done.text)
    data = (fault.folder / "b\x1b.json").read_bytes()
    fault.holds("I1", all(32 <= byte < 127 or byte == 10 for byte in data), data)
    (fault.folder / name).unlink()
    done = fault.run("check", "--baseline", "b\x1b.json")
    fault.holds("I3", "\\x1b]0;x" in done.text and "fixed or gone" in done.text, done.text)
