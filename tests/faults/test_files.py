"""F01-F18: what a file system can put in the way."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote_to_bytes

import pytest

from tests.faults.harness import GOOD, GOOD_CODE, GOOD_FIXED, TORCHLINT, Done, Fault

POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX files")
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
FIXED = GOOD.replace("torch.ones(n).cuda()", GOOD_FIXED)
JSON = "--output-format=json"

_WITHOUT_RIGHTS = """
import ctypes, os, sys
if os.geteuid() == 0:
    for capability in (1, 2):  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root reads and writes everything
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP; takes effect with exec
os.execv(sys.argv[1], sys.argv[1:])
"""  # noqa: E501
NO_ROOT = (sys.executable, "-c", _WITHOUT_RIGHTS, TORCHLINT)
"""Runs torchlint as somebody for whom file modes count, root or not."""

_HOOKED = """
import sys
{hook}
from torchlint.cli.main import entry
sys.exit(entry())
"""


def hooked(hook: str) -> tuple[str, ...]:
    """Return a command that runs torchlint after the Python text `hook`, which may patch it."""
    return (sys.executable, "-c", _HOOKED.format(hook=textwrap.dedent(hook)))


def found(fault: Fault, done: Done, expected: dict[str, list[str]]) -> None:
    """Check that each file of `expected`, by the name that is shown, has these codes, and no other
    file has any."""
    entries: dict[str, list[str]] = {name: [] for name in expected}
    for entry in done.findings():
        shown = os.path.relpath(entry["filename"], os.path.realpath(fault.folder))
        entries.setdefault(shown, []).append(entry["code"])
    entries.pop("good.py", None)
    fault.holds("I3", entries == expected, f"{entries}\n{done.err.decode('utf-8', 'replace')}")


def exits(fault: Fault, done: Done, code: int) -> None:
    """Check the exit code."""
    fault.holds("I3", done.code == code, f"exit code {done.code}\n{done.text}")


def says(fault: Fault, done: Done, *words: str) -> None:
    """Check that one line on standard error holds all the words."""
    lines = done.err.decode("utf-8", "replace").splitlines()
    fault.holds(
        "I3", any(all(word in line for word in words) for line in lines), f"{words}\n{done.text}"
    )


@pytest.mark.fault("F01")
def test_f01_a_path_that_does_not_exist_is_named_and_the_rest_is_done(fault: Fault) -> None:
    missing = (
        "godo.py",
        "none/none.py",
        "none/../none.py",
        "good.py/x.py",
        "n" * 300 + ".py",
        "good.py ",
    )
    done = fault.run("check", *missing, "good.py", JSON)
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {os.path.normpath(name): ["unreadable"] for name in missing})
    done = fault.run("fix", *missing, "good.py", "--apply")
    exits(fault, done, 1)
    fault.others_fixed()
    for name in missing:
        says(fault, done, name, "unreadable")


@pytest.fixture
def special(fault: Fault) -> list[str]:
    """The names of things in the case's folder that are no files."""
    os.mkfifo(fault.folder / "fifo.py")
    names = ["fifo.py", "sock.py"]
    here = os.getcwd()
    os.chdir(fault.folder)  # the path of a socket has little room
    try:
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("sock.py")
    finally:
        os.chdir(here)
    for name, number in (("zero.py", 5), ("tty.py", 0)):
        try:
            os.mknod(
                fault.folder / name, 0o666 | stat.S_IFCHR, os.makedev(1 if number else 5, number)
            )
        except OSError:  # only root makes devices
            continue
        names.append(name)
    for name, target in (("to_zero.py", "/dev/zero"), ("to_fifo.py", "fifo.py")):
        (fault.folder / name).symlink_to(target)
        names.append(name)
    return names


@pytest.mark.fault("F02")
@POSIX
def test_f02_what_is_no_file_is_passed_over_in_a_tree_and_never_waited_for(
    fault: Fault, special: list[str]
) -> None:
    done = fault.run("check", ".", JSON)
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {})
    done = fault.run("fix", ".", "--apply")
    exits(fault, done, 0)
    fault.others_fixed()


@pytest.mark.fault("F02")
@POSIX
def test_f02_what_is_no_file_is_unreadable_when_named(fault: Fault, special: list[str]) -> None:
    done = fault.run("check", "good.py", *special, "/dev/null", JSON)
    exits(fault, done, 1)
    fault.others(done)
    fault.holds(
        "I3",
        {Path(entry["filename"]).name for entry in done.findings()}
        == {*special, "null", "good.py"},
    )
    for entry in done.findings():
        fault.holds(
            "I3", "good" in entry["filename"] or "not a regular file" in entry["message"], entry
        )
    done = fault.run("fix", "good.py", *special, "--apply")
    exits(fault, done, 1)
    fault.others_fixed()
    for name in special:
        says(fault, done, name, "not a regular file")


@pytest.mark.fault("F03")
def test_f03_a_directory_that_is_named_like_a_module_is_walked(fault: Fault) -> None:
    fault.write("x.py/inner.py", GOOD)
    fault.write("x.py/y.pyi/more.py", GOOD)
    inner = {"x.py/inner.py": [GOOD_CODE], "x.py/y.pyi/more.py": [GOOD_CODE]}
    for arguments in ((".",), ("x.py", "good.py")):
        done = fault.run("check", *arguments, JSON)
        exits(fault, done, 1)
        fault.others(done)
        found(fault, done, inner)
    exits(fault, fault.run("fix", "x.py", "good.py", "--apply"), 0)
    fault.others_fixed()
    for name in inner:
        fault.holds("I4", (fault.folder / name).read_text() == FIXED, name)


@pytest.mark.fault("F04")
@POSIX
def test_f04_links_to_nothing_are_noted_in_a_tree_and_unreadable_when_named(fault: Fault) -> None:
    links = {
        "dangling.py": "none.py",
        "self.py": "self.py",
        "ping.py": "pong.py",
        "pong.py": "ping.py",
    }
    for name, target in links.items():
        (fault.folder / name).symlink_to(target)
    done = fault.run("check", ".", JSON, "--exit-zero")
    exits(fault, done, 0)
    fault.others(done)
    found(fault, done, {name: ["not-analysed"] for name in links})
    for name in links:
        says(fault, done, name, "link")
    done = fault.run("check", "good.py", *links, JSON, "--exit-zero")
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {name: ["unreadable"] for name in links})
    exits(fault, fault.run("fix", ".", "--apply"), 0)
    fault.others_fixed()
    for name, target in links.items():
        fault.holds("I4", os.readlink(fault.folder / name) == target, name)


@pytest.mark.fault("F05")
@POSIX
def test_f05_each_real_file_once_whatever_links_lead_to_it(fault: Fault) -> None:
    fault.write("pkg/mod.py", GOOD)
    (fault.folder / "pkg/loop").symlink_to("..")
    (fault.folder / "pkg/here").symlink_to(".")
    (fault.folder / "again").symlink_to("pkg")
    (fault.folder / "one.py").symlink_to("pkg/mod.py")
    (fault.folder / "two.py").symlink_to("one.py")
    done = fault.run("check", ".", "pkg", "again", "one.py", "pkg/loop/pkg/mod.py", JSON)
    exits(fault, done, 1)
    fault.others(done)
    fault.holds("I3", len(done.findings()) == 2, done.text)
    done = fault.run("fix", ".", "again", "two.py", "pkg/loop", "--apply")
    exits(fault, done, 0)
    says(fault, done, "Fixed 2 findings in 2 files with 2 edits.")
    fault.others_fixed()
    fault.holds("I4", (fault.folder / "pkg/mod.py").read_text() == FIXED)
    fault.holds(
        "I4",
        all(
            (fault.folder / name).is_symlink() for name in ("one.py", "two.py", "again", "pkg/loop")
        ),
    )


@pytest.mark.fault("F06")
@POSIX
def test_f06_of_a_link_the_target_is_fixed_and_the_link_kept(fault: Fault) -> None:
    plain = fault.folder / "other" / "plain.py.txt"
    links = {
        "relative.py": "data/target.txt",
        "absolute.py": str(plain),
        "through.py": "data/link",
        "named/deep.py": "../data/deep.txt",
    }
    targets = ("data/target.txt", str(plain), "data/last.txt", "data/deep.txt")
    fault.write("named/keep", "")
    for name, target in links.items():
        (fault.folder / name).symlink_to(target)
    for target in targets:
        fault.write(target, GOOD).chmod(0o640)
    (fault.folder / "data/link").symlink_to("last.txt")
    done = fault.run("fix", ".", "named/deep.py", "--apply")
    exits(fault, done, 0)
    fault.others_fixed()
    for target in targets:
        path = fault.folder / target
        fault.holds("I4", path.read_text() == FIXED and not path.is_symlink(), target)
        fault.holds("I4", stat.S_IMODE(path.stat().st_mode) == 0o640, f"mode of {target}")
    for name, target in links.items():
        fault.holds("I4", os.readlink(fault.folder / name) == target, name)
    fault.holds("I4", os.listdir(plain.parent) == [plain.name], os.listdir(plain.parent))


@pytest.mark.fault("F06")
@POSIX
def test_f06_a_link_out_of_the_tree_is_checked_and_not_fixed(fault: Fault, tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(GOOD)
    (fault.folder / "link.py").symlink_to(outside)
    done = fault.run("fix", ".", "--apply")
    exits(fault, done, 1)
    fault.others_fixed()
    says(fault, done, "outside of what is fixed; name that file itself")
    fault.holds("I4", outside.read_text() == GOOD, outside)


@pytest.mark.fault("F07")
@POSIX
def test_f07_all_names_of_a_hard_linked_file_see_the_fix(fault: Fault, tmp_path: Path) -> None:
    one = fault.write("one.py", GOOD)
    os.link(one, fault.folder / "two.py")
    outer = fault.write("outer.py", GOOD)
    os.link(outer, tmp_path / "elsewhere.py")
    short = fault.write("shorter.py", GOOD.replace("cuda()", 'to(device = torch.device("cuda"))'))
    os.link(short, tmp_path / "shorter.py")
    inode = one.stat().st_ino
    done = fault.run("fix", ".", "--apply")
    exits(fault, done, 0)
    fault.others_fixed()
    for path in (one, fault.folder / "two.py", outer, tmp_path / "elsewhere.py"):
        fault.holds("I4", path.read_text() == FIXED, path)
    fault.holds("I4", "device=torch.device" in short.read_text(), short.read_text())
    fault.holds(
        "I4",
        one.samefile(fault.folder / "two.py") and one.stat().st_ino == inode,
        "one file, two names",
    )
    fault.holds("I4", outer.samefile(tmp_path / "elsewhere.py"), "linked from outside")


@pytest.fixture
def shut(fault: Fault) -> Iterator[Fault]:
    """A folder with things in it that their modes forbid to read."""
    fault.write("secret.py", GOOD).chmod(0)
    fault.write("shut/inner.py", GOOD)
    fault.write("listed/inner.py", GOOD)
    (fault.folder / "shut").chmod(0)
    (fault.folder / "listed").chmod(0o444)
    yield fault
    for name in ("shut", "listed"):
        (fault.folder / name).chmod(0o755)


@pytest.mark.slow
@pytest.mark.fault("F08")
@POSIX
def test_f08_what_may_not_be_read_is_unreadable(shut: Fault) -> None:
    if os.geteuid() == 0 and sys.platform != "linux":
        pytest.skip("root may read everything")
    done = shut.run("check", ".", JSON, "--exit-zero", command=NO_ROOT)
    exits(shut, done, 1)
    shut.others(done)
    expected = {
        "secret.py": ["unreadable"],
        "shut": ["unreadable"],
        "listed/inner.py": ["unreadable"],
    }
    found(shut, done, expected)
    done = shut.run(
        "check",
        "good.py",
        "secret.py",
        "shut",
        "shut/inner.py",
        JSON,
        "--exit-zero",
        command=NO_ROOT,
    )
    exits(shut, done, 1)
    shut.others(done)
    found(
        shut,
        done,
        {"secret.py": ["unreadable"], "shut": ["unreadable"], "shut/inner.py": ["unreadable"]},
    )
    done = shut.run("fix", ".", "--apply", command=NO_ROOT)
    exits(shut, done, 1)
    shut.others_fixed()
    for name in expected:
        says(shut, done, name, "unreadable", "permission denied")


@pytest.mark.slow
@pytest.mark.fault("F09")
@POSIX
@pytest.mark.parametrize("command", [(TORCHLINT,), NO_ROOT], ids=["self", "no_root"])
def test_f09_a_read_only_file_is_not_written(fault: Fault, command: Sequence[str]) -> None:
    modes = {"mine.py": 0o444, "program.py": 0o555, "private.py": 0o400}
    for name, mode in modes.items():
        fault.write(name, GOOD).chmod(mode)
    target = fault.write("data/target", GOOD)
    target.chmod(0o444)
    (fault.folder / "link.py").symlink_to("data/target")
    done = fault.run("fix", ".", "--apply", command=command)
    exits(fault, done, 1)
    fault.others_fixed()
    says(fault, done, "Fixed 1 finding in 1 file with 1 edit.")
    for name, mode in modes.items():
        state = (fault.folder / name).stat()
        fault.holds(
            "I4",
            (fault.folder / name).read_text() == GOOD and stat.S_IMODE(state.st_mode) == mode,
            name,
        )
        says(fault, done, name, "read-only")
    fault.holds("I4", target.read_text() == GOOD, "the target of a link")
    says(fault, done, "link.py", "read-only")
    again = fault.run("check", ".", "--fix", command=command)
    exits(fault, again, 1)
    for name in (*modes, "link.py"):
        fault.holds("I3", f"{name}: is read-only" in again.text, again.text)


DISK = """
set -e
mount -t tmpfs -o size=256k none disk
cp -a files/. disk
case $1 in
full) dd if=/dev/zero of=disk/ballast bs=1k 2>/dev/null || true ;;
nearly) dd if=/dev/zero of=disk/ballast bs=1k 2>/dev/null || true; truncate -s -16384 disk/ballast ;;
read-only) mount -o remount,ro disk ;;
esac
shift
cd disk
set +e
"$@"
code=$?
rm -f ballast 2>/dev/null
cp -a . ../after
exit $code
"""  # noqa: E501
"""Runs a command in a small file system of its own, and copies what it leaves there to the folder
``after``."""


def can_mount() -> bool:
    """Say whether this process, or one in a user namespace of its own, may mount a file system."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    trial = [*_unshare(), "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(trial, capture_output=True, check=False).returncode == 0


def _unshare() -> list[str]:
    return ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]


@pytest.mark.slow
@pytest.mark.fault("F10")
@LINUX
@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("full", "No space left on device"),
        ("nearly", "No space left on device"),
        ("read-only", "read-only"),
    ],
)
def test_f10_a_disk_that_takes_no_more(fault: Fault, state: str, words: str) -> None:
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    big = (
        GOOD + "#" * (16 * 4096 - 1 - len(GOOD)) + "\n"
    )  # whole pages: a byte more needs a page more
    files = {"plain.py": big, "linked.py": big, "crlf.py": big.replace("\n", "\r\n")}
    for name, text in files.items():
        fault.write(f"files/{name}", text)
    os.link(fault.folder / "files/linked.py", fault.folder / "files/linked.txt")
    fault.write("files/good.py", GOOD)
    (fault.folder / "disk").mkdir()
    command = (*_unshare(), "sh", "-c", DISK, "sh", state, TORCHLINT)
    done = fault.run("fix", ".", "--apply", command=command, bad=2)
    exits(fault, done, 1)
    after = fault.folder / "after"
    fault.holds(
        "I4",
        sorted(os.listdir(after)) == sorted([*files, "linked.txt", "good.py"]),
        os.listdir(after),
    )
    # All of a new file has to find room, and of one that is written in place all of its former
    # content.
    files["good.py"] = GOOD
    roomy = ("good.py",) if state == "nearly" else ()
    for name, text in files.items():
        new = text.replace(GOOD, FIXED) if name in roomy else text
        fault.holds("I4", (after / name).read_bytes() == new.encode(), name)
        if name not in roomy:
            says(fault, done, name, "not written", words)
    fault.holds("I4", (after / "linked.py").samefile(after / "linked.txt"), "the links stay")


@pytest.mark.slow
@pytest.mark.fault("F10")
@POSIX
def test_f10_a_limit_on_the_size_of_files_stands_for_a_quota(fault: Fault) -> None:
    big = GOOD + "# filler\n" * 2_000
    for name in ("plain.py", "linked.py"):
        fault.write(name, big)
    os.link(fault.folder / "linked.py", fault.folder / "linked.txt")
    command = (
        shutil.which("sh") or "sh",
        "-c",
        'ulimit -f 8; exec "$0" "$@"',
        TORCHLINT,
    )  # 4 or 8 kB
    done = fault.run("fix", ".", "--apply", command=command)
    exits(fault, done, 1)
    fault.others_fixed()
    for name in ("plain.py", "linked.py"):
        fault.holds("I4", (fault.folder / name).read_text() == big, name)
        says(fault, done, name, "not written", "File too large")
    left = sorted(os.listdir(fault.folder))
    fault.holds("I4", left == ["good.py", "linked.py", "linked.txt", "plain.py"], left)


VANISH = """
import os
from torchlint.cli import scope
found = scope.discover
def discover(*arguments):
    result = found(*arguments)
    for name in ("gone.py", "folder.py", "fifo.py", "loop.py"):
        os.unlink(name)
    os.mkdir("folder.py")
    os.mkfifo("fifo.py")
    os.symlink("loop.py", "loop.py")
    os.rename("moved", "elsewhere")
    return result
scope.discover = discover
"""


@pytest.mark.slow
@pytest.mark.fault("F11")
@POSIX
@pytest.mark.parametrize(
    "arguments", [("check", ".", JSON), ("fix", ".", "--apply")], ids=["check", "fix"]
)
def test_f11_files_that_go_between_listing_and_reading(
    fault: Fault, arguments: tuple[str, ...]
) -> None:
    names = ("gone.py", "folder.py", "fifo.py", "loop.py", "moved/inner.py")
    for name in names:
        fault.write(name, GOOD)
    done = fault.run(*arguments, command=hooked(VANISH))
    exits(fault, done, 1)
    if arguments[0] == "check":
        fault.others(done)
        found(fault, done, {name: ["unreadable"] for name in names})
        return
    fault.others_fixed()
    for name in names:
        says(fault, done, name, "unreadable")


EDIT = """
import os
from pathlib import Path
from torchlint.source import write
STEP = "{step}"
kept = getattr(os, STEP)
def step(*arguments):
    result = kept(*arguments)
    edit()
    return result
def edit():
    setattr(os, STEP, kept)
    for name in ("appended.py", "linked.py", "same_time.py"):
        state = os.stat(name)
        with open(name, "a") as file:
            file.write("# mine\\n")
        if name == "same_time.py":
            os.utime(name, ns=(state.st_atime_ns, state.st_mtime_ns))
    Path("new.py").write_text("mine = 1\\n")
    os.replace("new.py", "replaced.py")
    os.truncate("emptied.py", 0)
    os.unlink("gone.py")
    os.unlink("folder.py")
    os.mkdir("folder.py")
setattr(os, STEP, step)
"""


@pytest.mark.slow
@pytest.mark.fault("F12")
@POSIX
@pytest.mark.parametrize("step", ["fsync", "fchmod"])
def test_f12_an_edit_made_meanwhile_stays(fault: Fault, step: str) -> None:
    """The user saves all files while the first of them, `a.py`, is being written: before, or at,
    its `step`."""
    names = (
        "appended.py",
        "linked.py",
        "same_time.py",
        "replaced.py",
        "emptied.py",
        "gone.py",
        "folder.py",
    )
    for name in ("a.py", *names):
        fault.write(name, GOOD)
    os.link(fault.folder / "linked.py", fault.folder / "linked.txt")
    done = fault.run("fix", ".", "--apply", command=hooked(EDIT.format(step=step)))
    exits(fault, done, 1)
    fault.others_fixed()
    mine = dict.fromkeys(
        ("appended.py", "linked.py", "same_time.py", "linked.txt"), GOOD + "# mine\n"
    )
    for name, text in {
        **mine,
        "replaced.py": "mine = 1\n",
        "emptied.py": "",
        "a.py": FIXED,
    }.items():
        fault.holds("I4", (fault.folder / name).read_text() == text, name)
    fault.holds(
        "I4", not (fault.folder / "gone.py").exists() and (fault.folder / "folder.py").is_dir()
    )
    fault.holds("I4", not list(fault.folder.glob(".torchlint-*")), "a temporary file is left")
    for name in names:
        says(fault, done, name, "not written")


NAMES = (
    b"\xff.py",
    b"new\nline.py",
    b"carriage\r.py",
    b"\x1b[31mred\x1b]0;title\x07.py",
    b"-x.py",
    b"--apply.py",
    b" blanks  in it .py",
    b"100%.py",
    b"%0A::error::x.py",
    b"::error::y.py",
    b"hash#tag?.py",
    b"quote\"'&<>]]>.py",
    b"colon:1:2.py",
    b"@file.py",
    b"tab\t.py",
    b"back\\slash.py",
    "\U0001f525e\u0301\u202e.py".encode(),
    b"n" * 252 + b".py",
)


NAMES_LAST = (
    sys.executable,
    "-c",
    f"import os, sys; os.execv({TORCHLINT!r}, [{TORCHLINT!r}, *sys.argv[1:-1]])",
)
"""Drops the last argument, the ``--timeout`` of the harness, which cannot follow ``--``."""


def named(fault: Fault) -> None:
    """Write a file for each of `NAMES`."""
    for name in NAMES:
        Path(os.fsdecode(os.fsencode(fault.folder) + b"/" + name)).write_text(GOOD)


@pytest.mark.fault("F13")
@LINUX
def test_f13_odd_names_in_json_and_sarif(fault: Fault) -> None:
    named(fault)
    done = fault.run("check", ".", JSON)
    exits(fault, done, 1)
    fault.others(done)
    fault.holds("I3", done.out.isascii() and len(done.findings()) == len(NAMES) + 1, done.text)
    bases = {os.path.basename(entry["filename"]) for entry in done.findings()}
    fault.holds("I3", len(bases) == len(NAMES) + 1, "names stay apart")
    done = fault.run("check", ".", "--output-format=sarif")
    exits(fault, done, 1)
    fault.holds("I3", done.out.isascii(), "SARIF is ASCII")
    results = json.loads(done.out)["runs"][0]["results"]
    uris = [
        found["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for found in results
    ]
    fault.holds(
        "I3",
        {os.path.basename(unquote_to_bytes(uri)) for uri in uris} == {*NAMES, b"good.py"},
        uris,
    )


@pytest.mark.fault("F13")
@LINUX
@pytest.mark.parametrize("format_", ["concise", "github"])
def test_f13_odd_names_take_one_line_each(fault: Fault, format_: str) -> None:
    named(fault)
    done = fault.run("check", ".", f"--output-format={format_}")
    exits(fault, done, 1)
    fault.others(done)
    lines = [line for line in done.out.decode().split("\n") if GOOD_CODE in line]
    fault.holds("I3", len(lines) == len(NAMES) + 1, done.text)
    if format_ == "github":
        fault.holds(
            "I3",
            all(line.startswith("::warning ") for line in done.out.decode().splitlines()),
            done.text,
        )
    else:
        fault.holds(
            "I3",
            not any(line.startswith("::") for line in done.out.decode().splitlines()),
            done.text,
        )


@pytest.mark.slow
@pytest.mark.fault("F13")
@LINUX
def test_f13_odd_names_can_be_named_and_are_fixed(fault: Fault) -> None:
    named(fault)
    done = fault.run("check", "--output-format=full")
    exits(fault, done, 1)
    fault.others(done)
    done = fault.run(
        "fix",
        f"--timeout={fault.seconds}",
        "--apply",
        "-q",
        "--",
        "good.py",
        *NAMES,
        command=NAMES_LAST,
    )
    exits(fault, done, 0)
    fault.others_fixed()
    for name in NAMES:
        fault.holds(
            "I4",
            Path(os.fsdecode(os.fsencode(fault.folder) + b"/" + name)).read_text() == FIXED,
            name,
        )


@pytest.fixture
def depths(fault: Fault) -> Iterator[Fault]:
    """A tree 120 deep with a file at its end, and one whose paths are longer than the system
    takes."""
    here = os.getcwd()
    for count, name in ((120, "d"), (300, "e" * 30)):
        os.chdir(fault.folder)
        for _ in range(count):
            os.mkdir(name)
            os.chdir(name)
        Path("end.py").write_text(GOOD)
    os.chdir(here)
    yield fault
    subprocess.run(["rm", "-rf", fault.folder / ("e" * 30), fault.folder / "d"], check=True)


@pytest.mark.fault("F14")
@POSIX
def test_f14_deep_trees_and_paths_beyond_the_systems_limit(depths: Fault) -> None:
    done = depths.run("check", ".", JSON, "--exit-zero")
    exits(depths, done, 0)
    depths.others(done)
    deep = "d/" * 120 + "end.py"
    expected = {
        os.path.relpath(entry["filename"], depths.folder): entry["code"]
        for entry in done.findings()
    }
    depths.holds("I3", expected.pop(deep, "") == GOOD_CODE, "the deep file is checked")
    depths.holds("I3", expected.pop("good.py", "") == GOOD_CODE, "the good file is checked")
    depths.holds("I3", [*expected.values()] == ["not-analysed"], done.err[-500:])
    says(depths, done, "eee", "file name too long")
    done = depths.run("fix", ".", "--apply")
    exits(depths, done, 0)
    depths.others_fixed()
    depths.holds("I4", (depths.folder / deep).read_text() == FIXED)


PEAK = """
import atexit, re
from pathlib import Path
def tell():
    if os.getpid() == parent:
        peak = re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())
        Path("../peak").write_text(peak[1] if peak else "")
import os
parent = os.getpid()
atexit.register(tell)
"""


def crowd(fault: Fault) -> None:
    """Make 100,000 empty files, half of them in one folder."""
    for number in range(500):
        folder = fault.folder / f"pkg{number}"
        folder.mkdir()
        for each in range(100):
            os.close(os.open(f"{folder}/m{each}.py", os.O_CREAT | os.O_WRONLY))
    (fault.folder / "flat").mkdir()
    for number in range(50_000):
        os.close(os.open(f"{fault.folder}/flat/m{number}.py", os.O_CREAT | os.O_WRONLY))


@pytest.mark.fault("F15")
@pytest.mark.slow
@LINUX
def test_f15_a_hundred_thousand_files_take_little_memory(fault: Fault) -> None:
    """Of files without findings nothing is kept. The report is printed at the end, as JSON and
    SARIF are one value."""
    crowd(fault)
    done = fault.run("check", ".", JSON, command=hooked(PEAK), bad=10)
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {})
    peak = int((fault.folder / "../peak").read_text())
    fault.holds("I5", peak < 500_000, f"the parent took {peak} kB")
    shutil.rmtree(fault.folder)


@pytest.mark.fault("F16")
def test_f16_a_file_that_is_named_in_many_ways_is_checked_once(fault: Fault) -> None:
    fault.write("pkg/mod.py", GOOD)
    whole = str(fault.folder / "pkg/mod.py")
    ways = (
        "pkg/mod.py",
        "./pkg/mod.py",
        whole,
        "pkg/../pkg/mod.py",
        "pkg//mod.py",
        "pkg",
        "pkg/",
        ".",
        whole,
        "good.py",
    )
    done = fault.run("check", *ways, JSON)
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {"pkg/mod.py": [GOOD_CODE]})
    fault.holds("I3", len(done.of("good.py")) == 1, done.text)
    done = fault.run("fix", *ways, "--apply")
    exits(fault, done, 0)
    says(fault, done, "Fixed 2 findings in 2 files with 2 edits.")
    fault.others_fixed()
    fault.holds("I4", (fault.folder / "pkg/mod.py").read_text() == FIXED)


@pytest.mark.fault("F17")
@LINUX
def test_f17_composed_and_decomposed_names_are_two_files(fault: Fault) -> None:
    names = ("caf\u00e9.py", "cafe\u0301.py", "MOD.py", "mod.py")
    for name in names:
        fault.write(name, GOOD)
    if len(os.listdir(fault.folder)) < len(names):
        pytest.skip("this file system folds names")
    done = fault.run("check", ".", *names, JSON)
    exits(fault, done, 1)
    fault.others(done)
    found(fault, done, {name: [GOOD_CODE] for name in names})
    exits(fault, fault.run("fix", ".", *names, "--apply"), 0)
    fault.others_fixed()
    fault.holds("I4", all((fault.folder / name).read_text() == FIXED for name in names))


FOLDED = """
set -e
touch MOD.py
mount --bind mod.py MOD.py
"$@"
"""
"""One inode under two names and with one link, as a file system shows it that folds case."""


@pytest.mark.fault("F17")
@LINUX
def test_f17_two_names_of_one_inode_are_one_file(fault: Fault) -> None:
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    fault.write("mod.py", GOOD)
    command = (*_unshare(), "sh", "-c", FOLDED, "sh", TORCHLINT)
    done = fault.run("check", ".", "mod.py", "MOD.py", JSON, command=command)
    exits(fault, done, 1)
    fault.others(done)
    fault.holds("I3", len(done.findings()) == 2, done.text)


@pytest.mark.slow
@pytest.mark.fault("F18")
@POSIX
def test_f18_in_a_folder_that_was_deleted(fault: Fault) -> None:
    good = fault.write("good.py", GOOD)
    gone = 'mkdir gone; cd gone; rmdir ../gone; exec "$0" "$@"'
    command = (shutil.which("sh") or "sh", "-c", gone, TORCHLINT)
    done = fault.run("check", str(good), JSON, command=command)
    exits(fault, done, 1)
    fault.others(done)
    for arguments in (("check", "."), ("check", "x.py"), ("check",)):
        done = fault.run(*arguments, JSON, command=command)
        exits(fault, done, 1)
        fault.holds("I3", [entry["code"] for entry in done.findings()] == ["unreadable"], done.text)
    exits(fault, fault.run("fix", str(good), "--apply", command=command), 0)
    fault.others_fixed()


@pytest.mark.slow
@pytest.mark.fault("F18")
@POSIX
def test_f18_without_a_home(fault: Fault) -> None:
    unset = (
        "env",
        *(f"-u{name}" for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "USER", "TMPDIR")),
        TORCHLINT,
    )
    for command, env in (
        (unset, {}),
        ((TORCHLINT,), {"HOME": "/nonexistent", "XDG_CACHE_HOME": "/dev/null/x"}),
    ):
        done = fault.run("check", ".", JSON, command=command, env=env)
        exits(fault, done, 1)
        fault.others(done)
    exits(fault, fault.run("fix", ".", "--apply", command=unset), 0)
    fault.others_fixed()


@pytest.mark.slow
@pytest.mark.fault("F18")
@POSIX
def test_f18_in_a_folder_that_takes_no_files(fault: Fault) -> None:
    """Nothing can be kept beside the sources; files that may be written are fixed in place."""
    good, other = fault.write("good.py", GOOD), fault.write("pkg/mod.py", GOOD)
    folders = (fault.folder, fault.folder / "pkg")
    for folder in folders:
        folder.chmod(0o555)
    try:
        for _ in range(2):
            done = fault.run("check", ".", JSON, command=NO_ROOT)
            exits(fault, done, 1)
            fault.others(done)
            found(fault, done, {"pkg/mod.py": [GOOD_CODE]})
        inode = good.stat().st_ino
        exits(fault, fault.run("fix", ".", "--apply", command=NO_ROOT), 0)
    finally:
        for folder in folders:
            folder.chmod(0o755)
    fault.others_fixed()
    fault.holds("I4", other.read_text() == FIXED and good.stat().st_ino == inode)
    fault.holds(
        "I4", sorted(os.listdir(fault.folder)) == ["good.py", "pkg"], os.listdir(fault.folder)
    )
