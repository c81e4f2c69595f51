"""What a confined program can and cannot do to the file system."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from torchlint.program.machine import sandbox

ABI = sandbox.landlock_abi()
needs_landlock = pytest.mark.skipif(ABI == 0, reason="this system has no Landlock")

# Each acts on {place}, which holds file.txt, more.txt and an empty folder sub.
REFUSED = {
    "write": "open('{place}/file.txt', 'w').write('x')",
    "create": "open('{place}/fresh.txt', 'w')",
    "append": "open('{place}/file.txt', 'a')",
    "update": "open('{place}/file.txt', 'r+')",
    "remove": "os.remove('{place}/file.txt')",
    "rename": "os.rename('{place}/file.txt', '{place}/moved.txt')",
    "replace": "os.replace('{place}/more.txt', '{place}/file.txt')",
    "mkdir": "os.mkdir('{place}/folder')",
    "rmdir": "os.rmdir('{place}/sub')",
    "symlink": "os.symlink('/etc', '{place}/link')",
    "hard link": "os.link('{place}/file.txt', '{place}/link')",
    "fifo": "os.mkfifo('{place}/fifo')",
}


def run(
    writable: list[Path], code: str, *, python: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    options = [part for path in writable for part in ("--write", str(path))]
    script = [sys.executable, "-I", "-S", sandbox.__file__, "--landlock", *options, "--"]
    return subprocess.run(
        [*script, python, "-c", f"import os\n{code}"], capture_output=True, text=True
    )


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    return folder(tmp_path / "in side")


@pytest.fixture
def short() -> Iterator[Path]:
    """Yield a folder whose name leaves room for the address of a Unix socket, which has 107
    bytes."""
    with tempfile.TemporaryDirectory(prefix="tl") as name:
        yield Path(name).resolve()


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    return folder(tmp_path / "out side")


def folder(path: Path) -> Path:
    (path / "sub").mkdir(parents=True)
    (path / "file.txt").write_text("before")
    (path / "more.txt").write_text("more")
    return path


def state(path: Path) -> dict[str, str]:
    return {str(each): each.read_text() if each.is_file() else "" for each in path.rglob("*")}


@needs_landlock
@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_refused_outside(inside: Path, outside: Path, code: str) -> None:
    before = state(outside)
    result = run([inside], code.format(place=outside))
    assert "PermissionError" in result.stderr
    assert state(outside) == before


@needs_landlock
@pytest.mark.skipif(ABI < 3, reason="Landlock knows truncation from ABI 3")
def test_truncation_is_refused_outside(inside: Path, outside: Path) -> None:
    assert "PermissionError" in run([inside], f"os.truncate('{outside}/file.txt', 0)").stderr
    assert (outside / "file.txt").read_text() == "before"


@needs_landlock
@pytest.mark.parametrize("code", REFUSED.values(), ids=REFUSED)
def test_allowed_inside(inside: Path, code: str) -> None:
    result = run([inside], code.format(place=inside))
    assert (result.returncode, result.stderr) == (0, "")


@needs_landlock
def test_a_link_does_not_lead_out(inside: Path, outside: Path) -> None:
    (inside / "link").symlink_to(outside)
    assert "PermissionError" in run([inside], f"open('{inside}/link/file.txt', 'w')").stderr


@needs_landlock
@pytest.mark.skipif(ABI < 2, reason="renaming between folders needs ABI 2")
def test_files_move_between_folders_inside_but_not_out(inside: Path, outside: Path) -> None:
    assert run([inside], f"os.rename('{inside}/file.txt', '{inside}/sub/file.txt')").returncode == 0
    assert run([inside], f"os.rename('{inside}/more.txt', '{outside}/stolen.txt')").returncode != 0
    assert not (outside / "stolen.txt").exists()


@needs_landlock
def test_one_file_can_be_allowed(inside: Path, outside: Path) -> None:
    file = outside / "file.txt"
    assert run([inside, file], f"open('{file}', 'w').write('after')").returncode == 0
    assert file.read_text() == "after"
    assert "PermissionError" in run([inside, file], f"open('{outside}/more.txt', 'w')").stderr


@needs_landlock
def test_descendants_are_confined(inside: Path, outside: Path) -> None:
    code = f"import subprocess, sys; sys.exit(subprocess.call(['rm', '{outside}/file.txt']))"
    assert run([inside], code).returncode != 0
    assert (outside / "file.txt").exists()


@needs_landlock
def test_reading_is_free_and_devices_can_be_written(inside: Path, outside: Path) -> None:
    code = (
        f"print(open('{outside}/file.txt').read(), os.listdir('/usr') != "
        "[])\nopen('/dev/null', 'w').write('x')"
    )
    result = run([inside], code)
    assert (result.stdout, result.stderr) == ("before True\n", "")


@needs_landlock
def test_no_privileges_are_gained(inside: Path) -> None:
    """Without this the kernel refuses the rules to anyone but root."""
    assert (
        run([inside], "print('NoNewPrivs:\\t1' in open('/proc/self/status').read())").stdout
        == "True\n"
    )


@needs_landlock
def test_the_memory_mark_can_be_reset(inside: Path) -> None:
    assert run([inside], "open('/proc/self/clear_refs', 'w').write('5')").stderr == ""


@needs_landlock
def test_permissions_and_times_are_not_protected(inside: Path, outside: Path) -> None:
    """Landlock has no right for these: the reports must not promise it."""
    code = f"os.chmod('{outside}/file.txt', 0o600); os.utime('{outside}/file.txt', (1, 1))"
    assert run([inside], code).returncode == 0
    assert (outside / "file.txt").stat().st_mtime == 1


@pytest.mark.slow
@needs_landlock
def test_torchs_own_writer_is_refused(inside: Path, outside: Path) -> None:
    pytest.importorskip("torch")
    save = "import torch; torch.save(torch.zeros(3), '{}/file.txt')"
    result = run([inside], save.format(outside))
    assert result.returncode == 1
    assert "Permission denied" in result.stderr
    assert (outside / "file.txt").read_text() == "before"
    assert run([inside], save.format(inside)).returncode == 0


@pytest.mark.slow
@needs_landlock
def test_loader_workers_and_collectives_work(inside: Path, short: Path) -> None:
    """Shared memory and semaphores of two workers, Unix sockets between processes, and gloo over a
    file."""
    pytest.importorskip("torch")
    code = f"""
import torch, torch.distributed as dist, multiprocessing as mp
from torch.utils.data import DataLoader, TensorDataset
if __name__ == "__main__":
    os.environ["TMPDIR"] = {str(short)!r}
    loader = DataLoader(TensorDataset(torch.arange(8.0)), batch_size=2, num_workers=2)
    total = sum(batch.sum().item() for (batch,) in loader)
    dist.init_process_group("gloo", init_method="file://{inside}/store", rank=0, world_size=1)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    with mp.Manager() as manager:
        print(total, tensor.tolist(), list(manager.list([1])))
"""
    result = run([inside, short], code)
    assert result.stdout == "28.0 [1.0, 1.0] [1]\n", result.stderr


def test_without_options_it_only_runs_the_command() -> None:
    command = [
        sys.executable,
        "-I",
        "-S",
        sandbox.__file__,
        "--",
        sys.executable,
        "-c",
        "import sys; sys.exit(7)",
    ]
    assert subprocess.run(command).returncode == 7


def test_signals_are_as_in_a_shell() -> None:
    """Python ignores SIGPIPE and what is ignored survives exec: ``yes | head`` in the user's
    program would not end."""
    code = "grep SigIgn /proc/self/status"
    command = [sys.executable, "-I", "-S", sandbox.__file__, "--", "sh", "-c", code]
    if not Path("/proc/self/status").exists():
        pytest.skip("no /proc")
    assert int(subprocess.run(command, capture_output=True, text=True).stdout.split()[1], 16) == 0


@pytest.mark.parametrize(
    ("options", "words", "code"),
    [
        (
            ["--landlock", "--write", "/no/such/place", "--", "true"],
            "writes cannot be confined",
            126,
        ),
        (["--", "/no/such/program"], "cannot run /no/such/program: No such file", 127),
        (["--lock", "--", "true"], "unknown option --lock", 126),
        (["--parent", "1", "--", "true"], "", 1),  # the parent is another: it has ended
    ],
)
def test_failures_are_one_line(options: list[str], words: str, code: int) -> None:
    command = [sys.executable, "-I", "-S", sandbox.__file__, *options]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == code
    assert words in result.stderr
    assert result.stderr.count("\n") <= 1


@pytest.mark.parametrize(
    ("abi", "rights"),
    [(1, 0x1FF2), (2, 0x3FF2), (3, 0x7FF2), (5, 0x7FF2), (7, 0x7FF2), (99, 0x7FF2)],
)
def test_rights_follow_the_abi(abi: int, rights: int) -> None:
    """Rights an ABI does not know are errors; device control, reading and running are never
    handled."""
    assert sandbox.write_rights(abi) == rights


def test_no_landlock_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert sandbox.landlock_abi() == 0


def test_the_abi_is_the_kernels() -> None:
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no Linux")
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import sandbox; print(sandbox.landlock_abi())"
    )
    command = [sys.executable, "-I", "-c", code, str(Path(sandbox.__file__).parent)]
    assert subprocess.run(command, capture_output=True, text=True).stdout == f"{ABI}\n"
