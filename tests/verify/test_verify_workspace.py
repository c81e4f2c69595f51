"""The workspace: what a copy holds, that it shares nothing with the original, and that nothing
stays behind."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.base.errors import UsageError
from torchlint.program.machine import beside, copying, workspace
from torchlint.program.machine.environment import child_environment
from torchlint.program.machine.manifest import changes, manifest
from torchlint.program.machine.process_tree import table
from torchlint.program.machine.processes import start
from torchlint.program.machine.workspace import Workspace

ROOT = Path(__file__).parents[2]
FOREVER = "import time\nopen('up', 'w')\nwhile True: time.sleep(1)\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "my pröject ✓"
    files = {
        "train.py": "print('hi')\n",
        "pkg/model.py": "x = 1\n",
        "pkg/data/ünï côde.txt": "data",
        "run.sh": "#!/bin/sh\n",
        ".git/HEAD": "ref",
        "pkg/__pycache__/model.pyc": "",
        ".mypy_cache/x": "",
        "node_modules/x": "",
        "venv/pyvenv.cfg": "",
        "venv/lib.py": "",
        "env/conda-meta/history": "",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    (root / "run.sh").chmod(0o755)
    (root / "empty").mkdir()
    return root


@pytest.fixture
def base(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    return tmp_path / "t"


def names(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*")}


# Copies


def test_a_copy_holds_the_program_and_no_more(project: Path, base: Path) -> None:
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert copy == work.path / "v0"
        assert names(copy) == {
            "train.py",
            "pkg",
            "pkg/model.py",
            "pkg/data",
            "pkg/data/ünï côde.txt",
            "run.sh",
            "empty",
        }
        assert (copy / "pkg/data/ünï côde.txt").read_text() == "data"
        assert work.notes == []


def test_a_copy_keeps_permissions_and_times(project: Path, base: Path) -> None:
    os.utime(project / "train.py", ns=(10**18, 10**18 + 7))
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert stat.S_IMODE((copy / "run.sh").stat().st_mode) & 0o711 == 0o711
        assert (copy / "train.py").stat().st_mtime_ns == 10**18 + 7


def refuses(*_: int) -> int:
    raise OSError(18, "Invalid cross-device link")


def copies_a_part(reader: int, writer: int, _size: int) -> int:
    return os.write(writer, os.read(reader, 10)) if os.lseek(reader, 0, os.SEEK_CUR) == 0 else 0


@pytest.mark.parametrize(
    "system", [None, refuses, copies_a_part], ids=["as it is", "refuses", "copies a part"]
)
def test_a_copy_shares_nothing_with_the_original(
    project: Path, base: Path, system: Callable[..., int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if system is not None:
        monkeypatch.setattr(os, "copy_file_range", system, raising=False)
    content = os.urandom(3_000_000)
    (project / "weights.pt").write_bytes(content)
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert (copy / "weights.pt").read_bytes() == content
        for path in (copy / "weights.pt", copy / "train.py"):
            assert path.stat().st_nlink == 1
            with path.open("r+b") as file:
                file.write(b"overwritten")
    assert (project / "weights.pt").read_bytes() == content
    assert (project / "train.py").read_text() == "print('hi')\n"


def test_read_only_files_and_folders_are_copied_writable_and_removed(
    project: Path, base: Path
) -> None:
    (project / "pkg/model.py").chmod(0o400)
    (project / "pkg").chmod(0o500)
    try:
        with Workspace(base=base) as work:
            copy = work.copy(project, "v0")
            assert stat.S_IMODE((copy / "pkg").stat().st_mode) & 0o700 == 0o700
            assert stat.S_IMODE((copy / "pkg/model.py").stat().st_mode) & 0o600 == 0o600
            (copy / "pkg/data").chmod(0)  # as a program might
        assert list(base.iterdir()) == []
    finally:
        (project / "pkg").chmod(0o700)


def test_large_files_become_links(project: Path, base: Path) -> None:
    with (project / "data.bin").open("wb") as file:
        file.truncate(copying.LARGE_BYTES + 1)
    with (project / "limit.bin").open("wb") as file:
        file.truncate(copying.LARGE_BYTES)
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert (copy / "data.bin").readlink() == project / "data.bin"
        assert not (copy / "limit.bin").is_symlink()
    assert (project / "data.bin").exists()


def test_a_project_full_of_data_is_linked_largest_first(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "TOTAL_BYTES", 2500)
    for name, size in {"a.bin": 900, "b.bin": 1000, "c.bin": 1100, "big.py": 1200}.items():
        (project / name).write_bytes(b"x" * size)
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert {path.name for path in copy.iterdir() if path.is_symlink()} == {"b.bin", "c.bin"}
        assert work.notes == [
            "2 data files are linked to, not copied: they can be read, not changed"
        ]


def test_links_within_the_project_lead_to_the_copy(project: Path, base: Path) -> None:
    (project / "relative").symlink_to("pkg/model.py")
    (project / "pkg/up").symlink_to("../train.py")
    (project / "pkg/absolute").symlink_to(project / "train.py")
    (project / "folder").symlink_to("pkg")
    (project.parent / "alias").symlink_to(project)
    (project / "aliased").symlink_to(project.parent / "alias" / "train.py")
    (project / "dangling").symlink_to("nothing")
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        for name in ("relative", "pkg/up", "pkg/absolute", "folder", "aliased"):
            assert (copy / name).is_symlink()
            assert (copy / name).resolve().is_relative_to(copy)
            assert (copy / name).exists()
        assert os.readlink(copy / "relative") == "pkg/model.py"
        assert os.readlink(copy / "dangling") == "nothing"


def test_links_out_of_the_project_lead_where_they_did(
    project: Path, base: Path, tmp_path: Path
) -> None:
    (tmp_path / "data").write_text("far")
    (project / "absolute").symlink_to(tmp_path / "data")
    (project / "pkg/relative").symlink_to("../../data")
    (project / "python").symlink_to("venv/lib.py")  # in the project, but not copied
    (project / "environment").symlink_to("venv")
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert os.readlink(copy / "absolute") == str(tmp_path / "data")
        assert (copy / "pkg/relative").read_text() == "far"
        assert (copy / "python").resolve() == project / "venv/lib.py"
        assert (copy / "environment").resolve() == project / "venv"


def test_what_is_no_file_is_left_out_with_a_note(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(project / "fifo")
    monkeypatch.chdir(project)
    with socket.socket(socket.AF_UNIX) as server, Workspace(base=base) as work:
        server.bind("pkg/socket")
        copy = work.copy(project, "v0")
        work.copy(project, "v1")
        assert not {"fifo", "pkg/socket"} & names(copy)
        assert sorted(work.notes) == [
            "fifo was left out: it is no file, folder or link",
            "pkg/socket was left out: it is no file, folder or link",
        ]


def test_unreadable_files_and_folders_are_left_out_with_a_note(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played, as root may read everything."""
    scan, access = os.scandir, os.access

    def scandir(path: str) -> object:
        if str(path).endswith("data"):
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(
        os, "access", lambda path, mode: "run.sh" not in str(path) and access(path, mode)
    )
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        assert not (copy / "run.sh").exists()
        assert sorted(work.notes) == [
            "pkg/data was left out: Permission denied",
            "run.sh was left out: it cannot be read",
        ]


def test_a_file_that_vanishes_meanwhile_is_noted(project: Path, base: Path) -> None:
    found = copying.survey(project)
    (project / "train.py").unlink()
    assert copying.write_copy(found, base / "copy") == [
        "train.py was left out: No such file or directory"
    ]
    assert (base / "copy/pkg/model.py").exists()


def test_a_file_that_vanishes_while_looking_is_not_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list(copying.walk(project, []))
    (project / "train.py").unlink()
    for module in ("copying", "manifest"):
        monkeypatch.setattr(f"torchlint.program.machine.{module}.walk", lambda *_: iter(entries))
    assert "train.py" not in dict(copying.survey(project).files)
    assert "train.py" not in manifest(project)
    assert "run.sh" in manifest(project)


def test_too_little_room_is_one_line(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspace, "free_bytes", lambda _: 1_000)
    with (
        pytest.raises(UsageError, match=r"takes 0 MB to copy and .* has 0 MB free; set TMPDIR"),
        Workspace(base=base) as work,
    ):
        work.copy(project, "v0")
    assert list(base.iterdir()) == []


def test_a_copy_leaves_room(base: Path) -> None:
    assert copying.free_bytes(base) < os.statvfs(base).f_bavail * os.statvfs(base).f_frsize


def test_only_folders_are_copied(project: Path, base: Path) -> None:
    with Workspace(base=base) as work, pytest.raises(UsageError, match=r"train\.py is no folder"):
        work.copy(project / "train.py", "v0")


def test_the_original_is_not_touched(project: Path, base: Path) -> None:
    before = manifest(project)
    with Workspace(base=base) as work:
        copy = work.copy(project, "v0")
        (copy / "train.py").write_text("changed")
        (copy / "pkg/model.py").unlink()
    assert changes(before, manifest(project)) == ()


def test_injected_code_is_found_by_another_python(base: Path) -> None:
    with Workspace(base=base) as work:
        folder = work.inject()
        assert folder == work.path / "inject"
        code = "import torchlint_inside; print(torchlint_inside.__file__)"
        env = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        output = subprocess.run(
            [sys.executable, "-S", "-c", code], env=env, capture_output=True, text=True, check=True
        )
        assert output.stdout.strip() == str(folder / "torchlint_inside/__init__.py")
        assert not list(folder.rglob("__pycache__"))


def test_the_injected_hook_lies_at_the_top(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, file in {"program": "sitecustomize.py", "verify": "recorder.py"}.items():
        (tmp_path / name / "inside").mkdir(parents=True)
        (tmp_path / name / "inside" / file).write_text("")
    monkeypatch.setattr(workspace, "_INSIDE", tmp_path / "program/inside")
    with Workspace(base=base) as work:
        assert names(work.inject(tmp_path / "verify/inside")) == {
            "sitecustomize.py",
            "torchlint_inside",
            "torchlint_inside/__init__.py",
            "torchlint_inside/program",
            "torchlint_inside/program/inside",
            "torchlint_inside/verify",
            "torchlint_inside/verify/inside",
            "torchlint_inside/verify/inside/recorder.py",
        }


# Beginning and end


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_it_is_removed_after_an_error(
    project: Path, base: Path, error: type[BaseException]
) -> None:
    def fail() -> None:
        with Workspace(base=base) as work:
            work.copy(project, "v0")
            assert work.path.parent == base
            raise error

    with pytest.raises(error):
        fail()
    assert list(base.iterdir()) == []


def test_an_interrupt_during_removal_does_not_stop_it(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remove = workspace._remove_tree
    calls = iter([KeyboardInterrupt])

    def once(root: Path) -> None:
        for error in calls:
            raise error
        remove(root)

    monkeypatch.setattr(workspace, "_remove_tree", once)
    with pytest.raises(KeyboardInterrupt), Workspace(base=base):
        pass
    assert list(base.iterdir()) == []


def test_its_children_are_stopped_first(base: Path) -> None:
    with Workspace(base=base) as work:
        env = child_environment(os.environ, work.path, threads=1, extra={})
        command = [sys.executable, "-c", FOREVER]
        child = start(command, cwd=work.path, env=env, log=work.path / "log", writable=None)
    assert child.poll() == -signal.SIGTERM
    assert list(base.iterdir()) == []


def test_it_can_be_kept(project: Path, base: Path) -> None:
    with Workspace(base=base, keep=True) as work:
        work.copy(project, "v0")
    with Workspace(base=base):
        pass
    assert (work.path / "v0/train.py").exists()


KILLED = """
import os, sys
from pathlib import Path
from torchlint.program.machine.environment import child_environment
from torchlint.program.machine.processes import start
from torchlint.program.machine.workspace import Workspace
base = Path(sys.argv[1])
with Workspace(base=base) as work:
    env = child_environment(os.environ, work.path, threads=1, extra={})
    code = "import subprocess as s, sys; s.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True).wait()"
    command = [sys.executable, "-c", code, sys.argv[2]]
    child = start(command, cwd=work.path, env=env, log=work.path / "log", writable=None)
    while not (work.path / "up").exists():
        pass
    child.freeze()
    print(*(process.pid for process in child._family.members()), flush=True)
    child.wait()
"""  # noqa: E501


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="processes are found by name on Linux alone"
)
def test_what_a_killed_run_left_is_cleared_away(base: Path) -> None:
    """Its frozen grandchild would otherwise stay for ever."""
    command = [sys.executable, "-c", KILLED, str(base), FOREVER]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        child, grandchild = map(int, run.stdout.readline().split())
        with Workspace(base=base) as other:
            assert len(list(base.iterdir())) == 2  # the run goes on, so its folder is not stale
        run.kill()
        run.wait()
        assert table()[grandchild].state == "T"
        with Workspace(base=base) as other:
            assert list(base.iterdir()) == [other.path]
            left = table()
            assert grandchild not in left or left[grandchild].state == "Z"
            assert child not in left or left[child].state == "Z"


def stale(base: Path, name: str) -> Path:
    folder = base / name
    folder.mkdir()
    (folder / "owner").write_text("1\n")
    return folder


def test_only_own_stale_workspaces_are_removed(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = stale(tmp_path, "elsewhere")
    (target / "sub").mkdir(mode=0o500)
    gone = stale(base, "torchlint-gone")
    stale(base, "another-tool")
    (base / "torchlint-link").symlink_to(target)
    (base / "torchlint-file").write_text("")
    (base / "torchlint-starting").mkdir()
    with Workspace(base=base):
        assert not gone.exists()
    assert names(base) == {
        "another-tool",
        "another-tool/owner",
        "torchlint-link",
        "torchlint-file",
        "torchlint-starting",
    }
    assert (target / "owner").exists()
    assert stat.S_IMODE((target / "sub").stat().st_mode) == 0o500
    stale(base, "torchlint-theirs")
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with Workspace(base=base):
        assert (base / "torchlint-theirs").exists()


def test_no_room_for_a_workspace_is_one_line(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"no workspace can be made in .*nowhere: No such file"),
        Workspace(base=tmp_path / "nowhere"),
    ):
        pass


def test_addresses_of_sockets_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = tmp_path / ("n" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    with Workspace() as work:
        address = work.path / "tmp" / "pymp-abcdefgh" / "listener-abcdefgh"
        assert len(os.fsencode(address)) <= 103
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp")
    with Workspace() as work:
        assert work.path.parent == Path("/var/tmp").resolve()


def test_a_long_folder_is_used_where_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = tmp_path / ("n" * 60)
    long.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(long))
    monkeypatch.setattr(os, "access", lambda *_: False)
    with Workspace() as work:
        assert work.path.parent == long


def test_closed_folders_are_opened_for_removal(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Root may remove from any folder, so it is looked at before."""
    (base / "work/a/b").mkdir(parents=True)
    for name in ("work/a/b", "work/a"):
        (base / name).chmod(0o100)
    modes: list[int] = []
    real = shutil.rmtree

    def rmtree(root: Path, *, ignore_errors: bool) -> None:
        modes.extend(stat.S_IMODE((base / name).stat().st_mode) for name in ("work/a", "work/a/b"))
        real(root, ignore_errors=ignore_errors)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    workspace._remove_tree(base / "work")
    assert modes == [0o700, 0o700]
    assert not (base / "work").exists()


def test_a_folder_that_resists_is_noted(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remove = workspace._remove_tree
    monkeypatch.setattr(workspace, "_remove_tree", lambda _: None)
    with Workspace(base=base) as work:
        pass
    assert work.notes == [f"{work.path} could not be removed"]
    remove(work.path)


# Manifests


def test_changes_are_named(project: Path) -> None:
    before = manifest(project)
    time.sleep(0.01)
    (project / "train.py").write_text("print('ho')\n")  # of the same length
    (project / "run.sh").chmod(0o644)
    (project / "pkg/model.py").unlink()
    (project / "out").mkdir()
    (project / "out/a.pt").write_text("")
    assert changes(before, manifest(project)) == (
        "new: out",
        "new: out/a.pt",
        "removed: pkg/model.py",
        "changed: run.sh",
        "changed: train.py",
    )


def test_another_file_of_the_same_size_and_time_is_a_change(project: Path) -> None:
    before = manifest(project)
    times = (project / "train.py").stat()
    (project / "new").write_text("print('ho')\n")
    os.utime(project / "new", ns=(times.st_atime_ns, times.st_mtime_ns))
    (project / "new").replace(project / "train.py")
    assert changes(before, manifest(project)) == ("changed: train.py",)


def test_a_link_is_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (project / "link").symlink_to(tmp_path / "far")
    before = manifest(project)
    (tmp_path / "far/file").write_text("")
    assert changes(before, manifest(project)) == ()
    (project / "link").unlink()
    (project / "link").symlink_to(tmp_path)
    assert changes(before, manifest(project)) == ("changed: link",)


@pytest.mark.parametrize(
    "name", [".git/index", "pkg/__pycache__/b.pyc", "venv/b.py", "env/x", ".ruff_cache"]
)
def test_what_is_no_part_of_the_program_does_not_count(project: Path, name: str) -> None:
    before = manifest(project)
    (project / name).write_text("x")
    (project / "pkg/.pytest_cache").mkdir()
    assert changes(before, manifest(project)) == ()


def test_links_beside_a_copy_lead_to_what_lies_beside_the_project(
    project: Path, base: Path
) -> None:
    (project.parent / "data").mkdir()
    (project.parent / "data" / "points").write_text("1")
    with Workspace(base=base) as space:
        copy = space.copy(project, f"v0/{project.name}", beside=project)
        assert (copy.parent / "data" / "points").read_text() == "1"
        assert sorted(path.name for path in copy.parent.iterdir()) == ["data", project.name]
        assert not copy.is_symlink()
        assert not (space.copy(project, f"v1/{project.name}").parent / "data").exists()
    assert (project.parent / "data" / "points").read_text() == "1"


def test_a_folder_of_too_many_names_is_not_linked_to(
    project: Path, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.parent / "data").mkdir()
    monkeypatch.setattr(beside, "MOST", 1)
    with Workspace(base=base) as space:
        copy = space.copy(project, f"v0/{project.name}", beside=project)
        assert [path.name for path in copy.parent.iterdir()] == [project.name]
