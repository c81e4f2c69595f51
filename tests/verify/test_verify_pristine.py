"""A copy is put back to what it was, whatever a program has done in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.verify.verify_lab import fingerprint
from torchlint.base.errors import UsageError
from torchlint.program.machine.workspace import Workspace, replace_file
from torchlint.verify.script.pristine import Pristine


def contents(root: Path) -> dict[str, str]:
    """Return what lies in a folder: text, link or folder, by relative path."""
    return {
        str(path.relative_to(root)): f"-> {os.readlink(path)}"
        if path.is_symlink()
        else "folder"
        if path.is_dir()
        else path.read_text()
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "data" / "deep").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "train.py").write_text("train")
    (root / "model.py").write_text("model")
    (root / "data" / "deep" / "numbers").write_text("1 2 3")
    (tmp_path / "elsewhere").write_text("far away")
    (root / "link").symlink_to("../elsewhere")
    return root


@pytest.fixture
def copy(source: Path, tmp_path: Path) -> Path:
    return Workspace.copy(made(tmp_path), source, "v0")


def made(tmp_path: Path) -> Workspace:
    workspace = Workspace()
    workspace.path = tmp_path / "workspace"
    workspace.path.mkdir(exist_ok=True)
    return workspace


def test_all_is_as_before(source: Path, copy: Path) -> None:
    (copy / "model.py").write_text("fixed")
    pristine = Pristine(copy, source, {"model.py": b"fixed"})
    before, users = contents(copy), fingerprint(source)
    (copy / "runs" / "1").mkdir(parents=True)
    (copy / "runs" / "1" / "last.pt").write_text("weights")
    (copy / "loose").symlink_to("/nowhere")
    (copy / "train.py").write_text("worse")
    (copy / "model.py").unlink()
    (copy / "link").unlink()
    (copy / "link").write_text("no link any more")
    (copy / "data" / "deep" / "numbers").unlink()
    (copy / "data" / "deep").rmdir()
    (copy / "empty").rmdir()
    (copy / "empty").write_text("a file now")
    pristine.restore()
    assert contents(copy) == before
    assert fingerprint(source) == users


def test_again_and_again(source: Path, copy: Path) -> None:
    pristine = Pristine(copy, source, {})
    before = contents(copy)
    for number in range(3):
        (copy / "train.py").write_text(str(number))
        pristine.restore()
        assert contents(copy) == before


def test_change_through_a_kept_time_and_size(source: Path, copy: Path) -> None:
    pristine = Pristine(copy, source, {})
    state = (copy / "train.py").stat()
    (copy / "new").write_text("other")
    os.utime(copy / "new", ns=(state.st_atime_ns, state.st_mtime_ns))
    os.replace(copy / "new", copy / "train.py")
    pristine.restore()
    assert (copy / "train.py").read_text() == "train"


def test_nothing_to_do_touches_nothing(source: Path, copy: Path) -> None:
    pristine = Pristine(copy, source, {})
    before = fingerprint(copy)
    pristine.restore()
    assert fingerprint(copy) == before


class TestReplaceFile:
    """Fixes are written into the copy, and never through a link to the user's own files."""

    def test_plain_file(self, source: Path, copy: Path) -> None:
        replace_file(copy, "model.py", b"fixed")
        assert (copy / "model.py").read_text() == "fixed"
        assert (source / "model.py").read_text() == "model"

    def test_link_out_of_the_project(self, source: Path, copy: Path) -> None:
        replace_file(copy, "link", b"fixed")
        assert (copy / "link").read_text() == "fixed"
        assert not (copy / "link").is_symlink()
        assert (source / "link").read_text() == "far away"

    def test_link_inside_the_project(self, copy: Path) -> None:
        (copy / "alias.py").symlink_to("model.py")
        replace_file(copy, "alias.py", b"fixed")
        assert (copy / "model.py").read_text() == "fixed"
        assert (copy / "alias.py").is_symlink()

    def test_file_in_a_folder_that_is_a_link(self, copy: Path, tmp_path: Path) -> None:
        (tmp_path / "lib").mkdir()
        (tmp_path / "lib" / "layer.py").write_text("the user's")
        (copy / "lib").symlink_to(tmp_path / "lib")
        with pytest.raises(
            UsageError, match=r"lib/layer\.py lies in a folder that the project links to"
        ):
            replace_file(copy, "lib/layer.py", b"fixed")
        assert (tmp_path / "lib" / "layer.py").read_text() == "the user's"
