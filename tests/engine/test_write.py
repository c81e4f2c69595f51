"""Writing: all or nothing, never over someone else's edit, and nothing but the content changes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from torchlint.base.errors import WriteError
from torchlint.source import write as write_module
from torchlint.source.document import Document, read
from torchlint.source.former import former_content
from torchlint.source.write import remove_stale, write

ROOT = Path(write_module.__file__).parents[2]
POSIX = pytest.mark.skipif(os.name == "nt", reason="needs POSIX modes and links")


def document(path: Path) -> Document:
    return read(str(path), path.name, 0)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(b"old\r\nline")
    return path


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_replaces_the_content_byte_for_byte(file: Path) -> None:
    write(document(file), "new\r\n\x0cé")
    assert file.read_bytes() == "new\r\n\x0cé".encode()
    assert names(file.parent) == ["a.py"]


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa\r\n", "# coding: latin-1\né".encode("latin-1")])
def test_keeps_encoding_and_bom(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    found = document(file)
    write(found, found.text + "\nb")
    assert file.read_bytes() == data + b"\nb"


def test_text_that_the_codec_cannot_hold(file: Path) -> None:
    file.write_bytes(b"# coding: latin-1\n")
    with pytest.raises(WriteError, match=r"a\.py.*cannot hold"):
        write(document(file), "\u20ac")
    assert file.read_bytes() == b"# coding: latin-1\n"


def test_same_text_touches_nothing(file: Path) -> None:
    os.utime(file, ns=(1, 1))
    found = document(file)
    write(found, found.text)
    assert file.stat().st_mtime_ns == 1


@POSIX
@pytest.mark.parametrize("mode", [0o644, 0o755, 0o600, 0o664])
def test_keeps_the_mode(file: Path, mode: int) -> None:
    file.chmod(mode)
    write(document(file), "new")
    assert stat.S_IMODE(file.stat().st_mode) == mode


@POSIX
@pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files away")
def test_keeps_the_owner(file: Path) -> None:
    os.chown(file, 12345, 23456)
    write(document(file), "new")
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 23456)


@pytest.mark.skipif(sys.platform != "linux", reason="needs extended attributes")
def test_keeps_extended_attributes(file: Path) -> None:
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("the file system has none")
    write(document(file), "new")
    assert os.getxattr(file, "user.note") == b"mine"


@POSIX
def test_follows_a_link_and_keeps_it(file: Path) -> None:
    link = file.parent / "b.py"
    link.symlink_to(file)
    write(document(link), "new")
    assert link.is_symlink()
    assert file.read_text() == "new"


@POSIX
@pytest.mark.parametrize("text", ["n", "new and longer than before"])
def test_hard_links_stay_together(file: Path, text: str) -> None:
    other = file.parent / "b.py"
    other.hardlink_to(file)
    write(document(file), text)
    assert other.read_text() == text
    assert other.samefile(file)


@POSIX
@pytest.mark.parametrize("linked", [False, True])
def test_an_edit_made_meanwhile_stays(file: Path, linked: bool) -> None:
    if linked:
        (file.parent / "b.py").hardlink_to(file)
    found = document(file)
    file.write_text("mine")
    with pytest.raises(WriteError, match=r"a\.py: changed while fixing"):
        write(found, "new")
    assert file.read_text() == "mine"
    assert not [name for name in names(file.parent) if name.endswith(".tmp")]


def test_file_is_gone(file: Path) -> None:
    found = document(file)
    file.unlink()
    with pytest.raises(WriteError, match=r"a\.py: cannot be written: No such file"):
        write(found, "new")
    assert names(file.parent) == []


@POSIX
def test_read_only_means_do_not_even_for_root(file: Path) -> None:
    file.chmod(0o444)
    with pytest.raises(WriteError, match="read-only"):
        write(document(file), "new")
    assert file.read_bytes() == b"old\r\nline"


@POSIX
@pytest.mark.parametrize("linked", [False, True])
def test_full_disk_leaves_the_old_text(
    file: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    if linked:
        (file.parent / "b.py").hardlink_to(file)
    before = names(file.parent)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate" if linked else "write", full, raising=False)
    with pytest.raises(WriteError, match="No space left"):
        write(document(file), "new and longer than before")
    assert file.read_bytes() == b"old\r\nline"
    assert names(file.parent) == before


AS_USER = """
    import os, sys
    sys.path.insert(0, {root!r})
    from torchlint.base.errors import WriteError
    from torchlint.source.write import write
    from torchlint.source.document import read
    if os.geteuid() == 0:
        os.setgid(65534); os.setuid(65534)
    try:
        write(read({path!r}, "a.py", 0), {text!r})
    except WriteError as error:
        sys.exit(str(error))
"""


def as_user(path: Path, text: str) -> str:
    """Write as somebody who is not root; return what went wrong."""
    for folder in path.parents:  # pytest's folders are the owner's alone
        if (
            os.access(folder, os.W_OK)
            and folder.stat().st_uid == os.getuid()
            and "pytest" in str(folder)
        ):
            folder.chmod(folder.stat().st_mode | 0o055)
    program = textwrap.dedent(AS_USER.format(root=str(ROOT), path=str(path), text=text))
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd="/", check=False
    )
    if "PermissionError" in done.stderr or "ModuleNotFoundError" in done.stderr:
        pytest.skip("another user cannot run this Python")
    return done.stderr.strip()


@POSIX
def test_folder_that_takes_no_files_is_written_in_place(file: Path) -> None:
    file.chmod(0o666)
    file.parent.chmod(0o555)
    try:
        inode = file.stat().st_ino
        assert as_user(file, "new") == ""
        assert (file.read_text(), file.stat().st_ino) == ("new", inode)
    finally:
        file.parent.chmod(0o755)


@POSIX
def test_file_of_somebody_else(file: Path) -> None:
    file.chmod(0o644)
    if os.geteuid() != 0:
        file.chmod(0o444)
    assert as_user(file, "new") == "a.py: is read-only, not fixed"
    assert file.read_bytes() == b"old\r\nline"


KILLED = """
    import sys
    sys.path.insert(0, {root!r})
    from torchlint.source.write import write
    from torchlint.source.document import read
    print("ready", flush=True)
    while True:
        for text in {texts!r}:
            write(read({path!r}, "a.py", 0), text * 200_000)
"""


@POSIX
def test_killed_at_any_moment_the_file_is_old_or_new(file: Path) -> None:
    texts = ["old\n", "something new\n"]
    file.write_text(texts[1] * 200_000)
    program = textwrap.dedent(KILLED.format(root=str(ROOT), path=str(file), texts=texts))
    for attempt in range(8):
        with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(0.011 * attempt)
            process.send_signal(signal.SIGKILL)
        assert file.read_text() in [text * 200_000 for text in texts]


IN_PLACE = """
    import os, sys, time
    sys.path.insert(0, {root!r})
    from torchlint.source import write as module
    from torchlint.source.document import read
    {before}
    found = read({path!r}, "a.py", 0)
    write_all = module.write_all
    def slow(descriptor, data):
        if bytes(data) != {new!r}:
            return write_all(descriptor, data)
        write_all(descriptor, data[: len(data) // 2])
        print("half", flush=True)
        {then}
    module.write_all = slow
    module.write(found, {new!r}.decode())
"""
WAIT = "time.sleep(600)"
FAIL = "raise OSError(5, 'Input/output error')"


def written_in_place(path: Path, new: bytes, then: str = WAIT, before: str = "pass") -> None:
    """Write a file in place in a process of its own, and kill that in the middle unless it ends by
    itself."""
    program = textwrap.dedent(
        IN_PLACE.format(root=str(ROOT), path=str(path), new=new, then=then, before=before)
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n", (process.kill(), process.communicate())[1]
        if then == WAIT:
            process.send_signal(signal.SIGKILL)


@POSIX
@pytest.mark.parametrize("name", ["a.py", "\u00e9" * 120 + ".py"])
@pytest.mark.parametrize("new", [b"fixed and longer than before", b"new"])
def test_killed_in_the_middle_of_a_hard_linked_file_its_text_is_kept_and_told(
    tmp_path: Path, new: bytes, name: str
) -> None:
    file = tmp_path / name
    file.write_bytes(b"# what it was\n")
    other = tmp_path / "b.py"
    other.hardlink_to(file)
    written_in_place(file, new)
    assert file.read_bytes() not in (b"# what it was\n", new), "it is torn"
    [kept] = set(tmp_path.iterdir()) - {file, other}
    remove_stale(str(tmp_path))
    assert kept.read_bytes() == b"# what it was\n"
    with pytest.raises(
        WriteError, match=f"may be half old and half new.*{kept}: copy that back if it is needed"
    ):
        write(document(file), "newer")
    kept_bytes = kept.read_bytes()
    file.write_bytes(kept_bytes)
    kept.unlink()
    write(document(file), "newer")
    assert other.read_bytes() == b"newer"
    assert names(tmp_path) == sorted((file.name, "b.py"))


@POSIX
def test_an_interrupted_or_failing_write_in_place_is_taken_back(file: Path) -> None:
    (file.parent / "b.py").hardlink_to(file)
    for then in (FAIL, "raise KeyboardInterrupt"):
        written_in_place(file, b"something new", then)
        assert file.read_bytes() == b"old\r\nline"
        assert names(file.parent) == ["a.py", "b.py"]


@POSIX
def test_killed_in_a_folder_that_takes_no_files_the_text_is_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, temporary = tmp_path / "folder", tmp_path / "temporary"
    for each in (folder, temporary):
        each.mkdir()
        each.chmod(0o777)
    file = folder / "a.py"
    file.write_bytes(b"# what it was\n")
    file.chmod(0o666)
    folder.chmod(0o555)
    for above in file.parents:  # pytest's folders are the owner's alone
        if "pytest" in str(above) and above not in (folder, temporary):
            above.chmod(above.stat().st_mode | 0o055)
    before = f"import tempfile; tempfile.tempdir = {str(temporary)!r}; 'x'.encode('ascii')"
    before += "; module._machine(); os.geteuid() or os.setuid(65534)"
    try:
        written_in_place(file, b"new", before=before)
        assert file.read_bytes() == b"n what it was\n"
        [kept] = temporary.iterdir()
        assert kept.read_bytes() == b"# what it was\n"
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        monkeypatch.setattr(os, "access", lambda *_: False)
        monkeypatch.setattr(os, "geteuid", lambda: kept.stat().st_uid)
        assert former_content(str(file)) == str(kept)
    finally:
        folder.chmod(0o755)


@POSIX
def test_what_is_kept_of_another_run_is_not_written_over(file: Path) -> None:
    """It may be that of a run that goes on."""
    (file.parent / "b.py").hardlink_to(file)
    kept = file.parent / "a.py.torchlint-former"
    kept.write_text("mine")
    with pytest.raises(WriteError, match="may be half old and half new"):
        write(document(file), "new")
    assert (file.read_bytes(), kept.read_text()) == (b"old\r\nline", "mine")


def test_stale_temporary_files_are_removed_and_others_are_not(tmp_path: Path) -> None:
    old = time.time() - 3700
    for name in (".torchlint-old.tmp", ".torchlint-young.tmp", ".torchlint.toml", "mine.tmp"):
        (tmp_path / name).write_text("")
        if "young" not in name:
            os.utime(tmp_path / name, (old, old))
    (tmp_path / ".torchlint-folder.tmp").mkdir()
    os.utime(tmp_path / ".torchlint-folder.tmp", (old, old))
    remove_stale(str(tmp_path))
    assert names(tmp_path) == [
        ".torchlint-folder.tmp",
        ".torchlint-young.tmp",
        ".torchlint.toml",
        "mine.tmp",
    ]


def test_remove_stale_in_no_folder(tmp_path: Path) -> None:
    remove_stale(str(tmp_path / "none"))


LEFT = """
import sys, time
sys.path.insert(0, {root!r})
from torchlint.source.write import atomically
with atomically({path!r}):
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere it is not known whose process it was"
)
def test_what_a_killed_run_left_is_removed_at_once_and_what_is_being_written_is_not(
    file: Path,
) -> None:
    program = LEFT.format(root=str(ROOT), path=str(file))
    runs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) for _ in range(2)
    ]
    try:
        for run in runs:
            assert run.stdout is not None
            run.stdout.readline()
        assert len(names(file.parent)) == 3
        runs[0].kill()
        runs[0].wait()
        remove_stale(str(file.parent))
        assert len(names(file.parent)) == 2
    finally:
        for run in runs:
            run.kill()
            run.communicate()
    remove_stale(str(file.parent))
    assert names(file.parent) == [file.name]


@POSIX
def test_stale_means_a_regular_file_of_this_user(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("mine")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / ".torchlint-link.tmp").symlink_to(outside)
    os.utime(folder / ".torchlint-link.tmp", (0, 0), follow_symlinks=False)
    os.mkfifo(folder / ".torchlint-pipe.tmp")
    os.utime(folder / ".torchlint-pipe.tmp", (0, 0))
    remove_stale(str(folder))
    assert names(folder) == [".torchlint-link.tmp", ".torchlint-pipe.tmp"]
    assert outside.read_text() == "mine"


@POSIX
def test_a_link_out_of_its_folder_is_not_followed(file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    link = folder / "b.py"
    link.symlink_to(file)
    before = file.read_bytes()
    with pytest.raises(WriteError, match="is a link out of its folder"):
        write(document(link), "new")
    assert file.read_bytes() == before


@POSIX
def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at a path and the write, somebody swaps one of its folders."""
    real, other = tmp_path / "real", tmp_path / "other"
    for folder in (real / "sub", other / "sub"):
        folder.mkdir(parents=True)
        (folder / "a.py").write_text("old")
    found = document(real / "sub" / "a.py")
    resolve = os.path.realpath

    def swapped(path: str, **more: bool) -> str:
        result = resolve(path, **more)
        if real.is_dir() and not real.is_symlink():
            real.rename(tmp_path / "moved")
            real.symlink_to(other)
        return result

    monkeypatch.setattr(os.path, "realpath", swapped)
    with pytest.raises(WriteError, match="moved while fixing"):
        write(found, "new")
    assert (other / "sub" / "a.py").read_text() == "old"
