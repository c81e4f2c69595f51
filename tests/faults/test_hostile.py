"""Faults H01 to H04: a tree that wants its code to be run, and `verify` on a program that behaves
badly."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, GOOD_FIXED, TORCHLINT, Fault
from tests.faults.test_processes import listing, tagged, until
from tests.patience import PATIENCE
from torchlint.program.machine.sandbox import landlock_abi

MODULES = (
    "conftest.py setup.py sitecustomize.py usercustomize.py torchlint.py torchlint_inside.py "
    "click.py libcst.py "
    "tomli.py pebble.py json.py signal.py ast.py importlib.py __init__.py __main__.py "
    "torch/__init__.py "
    "torchlint/__init__.py torchlint/cli/__init__.py torchlint/rules/evil.py rules/evil.py "
    "torchlint_rules.py"
).split()
"""Names under which a program might import a file of the tree."""


@pytest.mark.slow
@pytest.mark.fault("H01")
@pytest.mark.parametrize("launch", ["script", "module"])
def test_h01_nothing_is_imported_or_run(fault: Fault, launch: str) -> None:
    marker = fault.folder.parent / "marker"
    evil = f"open({str(marker)!r}, 'a').write(__file__ + '\\n')\n"
    # With -m, Python itself looks in the current folder first, before a line of ours runs; the
    # script does not.
    modules = [
        name
        for name in MODULES
        if launch == "script" or not name.startswith(("torchlint", "importlib"))
    ]
    for name in modules:
        fault.write(name, evil + GOOD)
    fault.write("evil.pth", f"import os; {evil}")
    fault.write("torch.egg-info/entry_points.txt", "[torchlint.rules]\nevil = torchlint_rules\n")
    fault.write("evil-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 1\n")
    fault.write("evil-1.dist-info/entry_points.txt", "[torchlint.rules]\nevil = torchlint_rules\n")
    fault.write(
        "pyproject.toml", "[project]\nname = 'x'\ndependencies = ['torch>=2.6']\n[tool.torchlint]\n"
    )
    command = (TORCHLINT,) if launch == "script" else (sys.executable, "-m", "torchlint")
    done = fault.run("check", "--output-format", "json", command=command)
    fault.holds("I3", not marker.exists(), lambda: marker.read_text())
    fault.others(done)
    found = {os.path.relpath(entry["filename"], fault.folder) for entry in done.findings()}
    expected = {*modules, "good.py"} - {"conftest.py"}  # test code is no hot code
    fault.holds("I3", found == expected, expected ^ found)
    done = fault.run("fix", "--apply", "--unsafe-fixes", command=command)
    fault.others_fixed()
    given = ("check", "-", "--stdin-filename", "torch/x.py", "--fail-on", "info")
    done = fault.run(*given, stdin=GOOD.encode(), command=command)
    fault.holds("I3", done.code == 1, done.text)
    for words in (("rules",), ("rule", "TL102"), ("--version",)):
        fault.holds("I3", fault.run(*words, command=command).code == 0, words)
    fault.holds("I3", not marker.exists(), lambda: marker.read_text())


@pytest.mark.fault("H02")
def test_h02_git_is_not_run(fault: Fault) -> None:
    marker = fault.folder.parent / "marker"
    evil = fault.write("evil", f"#!/bin/sh\necho $0 >> '{marker}'\n")
    evil.chmod(0o755)
    subprocess.run(["git", "init", "-q", "."], cwd=fault.folder, check=True)
    for hook in ("pre-commit", "post-checkout", "post-index-change", "fsmonitor-watchman"):
        (fault.write(f".git/hooks/{hook}", evil.read_bytes())).chmod(0o755)
    with (fault.folder / ".git" / "config").open("a") as config:
        for section, key in (
            ("core", "fsmonitor"),
            ("core", "pager"),
            ("core", "sshCommand"),
            ("diff", "external"),
            ('filter "f"', "clean"),
            ('filter "f"', "smudge"),
            ('diff "d"', "textconv"),
            ("include", "path"),
        ):
            config.write(f"[{section}]\n\t{key} = {evil}\n")
    fault.write(".gitattributes", "*.py filter=f diff=d\n")
    fault.write(".gitignore", "ignored.py\n")
    fault.write("ignored.py", GOOD)
    # A git that leaves a mark, too: what git is not run cannot run anything.
    (fault.write("bin/git", evil.read_bytes())).chmod(0o755)
    env = {
        "PATH": f"{fault.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "GIT_EXTERNAL_DIFF": str(evil),
    }
    done = fault.run("check", "--output-format", "json", env=env)
    fault.others(done)
    fault.holds("I3", not done.of("ignored.py"), done.text)
    fault.run("fix", env=env)
    fault.run("fix", "--apply", env=env)
    fault.others_fixed()
    fault.holds("I3", not marker.exists(), lambda: marker.read_text())


class _Mark:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.slow
@pytest.mark.fault("H03")
def test_h03_archives_bytecode_and_pickles(fault: Fault) -> None:
    marker = fault.folder.parent / "marker"
    code = compile(f"import os\nos.mkdir({str(marker)!r})", "x", "exec")
    import importlib._bootstrap_external as loader

    bytecode = loader._code_to_timestamp_pyc(code)
    tag = sys.implementation.cache_tag
    for name in ("good", "conftest", "click", "libcst"):
        fault.write(f"__pycache__/{name}.{tag}.pyc", bytecode)
        fault.write(f"{name}.pyc", bytecode)
    fault.write("bomb.zip", b"PK\x03\x04" + b"\x00" * 100)
    fault.write("bomb.py.zip", b"PK\x03\x04" + b"\x00" * 100)
    fault.write("torch.egg", b"PK\x03\x04")
    fault.write("zipped.py", b"PK\x03\x04\x14\x00\xff" + b"\x00" * 100)
    for name in (
        "cache.pkl",
        "results",
        "0.1.0/results.pickle",
        "results.json",
        "cache.db",
        "index",
    ):
        fault.write(f".torchlint_cache/{name}", pickle.dumps(_Mark(marker)))
    for _ in range(2):
        done = fault.run("check", "--output-format", "json", command=(TORCHLINT,))
        fault.others(done)
        fault.holds(
            "I3",
            {Path(entry["filename"]).name for entry in done.findings()} == {"good.py", "zipped.py"},
            done.text,
        )
    fault.run("fix", "--apply")
    fault.others_fixed()
    fault.holds("I3", not marker.exists(), "it was run")


PROGRAM = """
import os, shutil, signal, socket, subprocess, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
listener = socket.create_server(("127.0.0.1", 0))
print("listening", flush=True)
for path in ("model.py", "kept", os.path.join("/", *{parts!r}, "model.py")):
    try:
        (shutil.rmtree if os.path.isdir(path) else os.remove)(path)
        print("removed", path.count("/"), flush=True)
    except OSError as error:
        print(type(error).__name__, flush=True)
for _ in range(5):
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        while True:
            time.sleep(1)
while True:
    pass
"""  # noqa: E501


@pytest.mark.slow
@pytest.mark.fault("H04")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes")
def test_h04_verify_of_a_program_that_loops_forks_listens_and_deletes(fault: Fault) -> None:
    case = uuid.uuid4().hex
    fault.write(
        "model.py",
        "import torch\n\n\ndef make(like):\n    return torch.zeros(2, 2).to(like.device)\n",
    )
    fault.write("kept/data.txt", "mine")
    confined = landlock_abi() > 0
    # Without Landlock only the copy keeps a program from the files, and an absolute path leads past
    # that.
    parts = fault.folder.parts[1:] if confined else ("nowhere",)
    fault.write("train.py", PROGRAM.format(parts=parts))
    before = listing(fault.folder)
    with tempfile.TemporaryDirectory(prefix="tl-", dir="/tmp") as temp:
        env = {"TORCHLINT_CASE": case, "TMPDIR": temp}
        start = time.monotonic()
        # Its code 3 says that the program failed, which no other command has.
        run = f'"{TORCHLINT}" verify . --timeout 4s -- train.py; test $? = 3 || exit 9'
        done = fault.run(control=False, env=env, bad=10, command=["bash", "-c", run])
        fault.holds(
            "I5", time.monotonic() - start < 0.9 * PATIENCE, "it took far longer than its timeout"
        )
        fault.holds("I1", until(lambda: not tagged(case), 30), "processes are left")
        fault.holds("I4", not list(Path(temp).iterdir()), "a copy is left")
    fault.holds(
        "I3", "train.py timed out after 4 s" in done.text and "listening" in done.text, done.text
    )
    fault.holds("I4", listing(fault.folder) == before, "files of the project changed")


@pytest.mark.fault("H04")
def test_h04_help_says_what_is_run_and_what_is_not_blocked(fault: Fault) -> None:
    done = fault.run("verify", "--help")
    words = " ".join(done.out.decode().split())
    for said in (
        "Your code is run in copies",
        "your files are written with --apply alone",
        "network, which is not blocked",
    ):
        fault.holds("I3", said in words, words)


def test_the_control_file_is_what_it_says() -> None:
    """Guards the cases above: a good file that no longer has its finding would show nothing."""
    assert "torch.ones(n).cuda()" in GOOD
    assert GOOD_FIXED not in GOOD
