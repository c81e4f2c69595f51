"""Several files are written together: all of them, or none is another than it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from torchlint.base.errors import WriteError
from torchlint.source import write
from torchlint.source.document import Document, encode, read

Files = Callable[..., dict[str, Document]]
NEW = "new = 1\n"


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Return a function that makes files, and reads them."""

    def make(**texts: bytes) -> dict[str, Document]:
        found = {}
        for name, data in texts.items():
            path = tmp_path / f"{name}.py"
            path.write_bytes(data)
            found[name] = read(os.path.realpath(path), f"{name}.py", 0)
        return found

    return make


def contents(documents: dict[str, Document]) -> dict[str, bytes]:
    return {name: Path(each.path).read_bytes() for name, each in documents.items()}


def changes(documents: dict[str, Document]) -> dict[str, tuple[Document, str]]:
    return {name: (each, NEW) for name, each in documents.items()}


def test_all_are_written(files: Files) -> None:
    documents = files(a=b"a = 1\n", b=b"b = 1\n")
    with write.written(changes(documents)):
        assert contents(documents) == {"a": NEW.encode(), "b": NEW.encode()}
    assert contents(documents) == {"a": NEW.encode(), "b": NEW.encode()}


@pytest.mark.parametrize("error", [KeyboardInterrupt, WriteError, MemoryError])
def test_an_interruption_between_two_files_puts_the_first_back(
    files: Files, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    before = {"a": "# -*- coding: latin-1 -*-\r\na = 'é'\r\n".encode("latin-1"), "b": b"b = 1\n"}
    documents = files(**before)
    real = write.write
    seen: list[bytes] = []

    def interrupted(document: Document, text: str, **more: bool) -> None:
        if document.filename == "b.py":
            seen.append(Path(documents["a"].path).read_bytes())
            raise error
        real(document, text, **more)

    monkeypatch.setattr(write, "write", interrupted)
    with pytest.raises(error), write.written(changes(documents)):
        raise AssertionError("not reached")
    assert seen == [encode(documents["a"], NEW)]
    assert contents(documents) == before


def test_an_interruption_that_comes_right_after_a_file_was_replaced_puts_it_back(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = files(a=b"a = 1\n")
    real = os.replace

    def interrupted(*given: Any, **more: Any) -> None:
        real(*given, **more)
        monkeypatch.setattr(os, "replace", real)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt), write.written(changes(documents)):
        raise AssertionError("not reached")
    assert contents(documents) == {"a": b"a = 1\n"}


def test_what_fails_inside_puts_all_back(files: Files) -> None:
    documents = files(a=b"a = 1\n", b=b"b = 1\n")
    with pytest.raises(ZeroDivisionError), write.written(changes(documents)):
        raise ZeroDivisionError
    assert contents(documents) == {"a": b"a = 1\n", "b": b"b = 1\n"}


def test_what_somebody_else_wrote_meanwhile_is_theirs(files: Files) -> None:
    documents = files(a=b"a = 1\n", b=b"b = 1\n")

    def fails() -> None:
        Path(documents["a"].path).write_bytes(b"theirs = 1\n")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), write.written(changes(documents)):
        fails()
    assert contents(documents) == {"a": b"theirs = 1\n", "b": b"b = 1\n"}


def _edited(path: Path) -> None:
    path.write_bytes(b"edited = 1\n")


def _read_only(path: Path) -> None:
    path.chmod(0o444)


def _gone(path: Path) -> None:
    path.unlink()


def _linked(path: Path) -> None:
    path.rename(path.with_suffix(".moved"))
    path.symlink_to(path.with_suffix(".moved"))


def _half_written(path: Path) -> None:
    path.with_name(f"{path.name}.torchlint-former").write_bytes(b"old = 1\n")


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (_edited, "b.py: changed while fixing, not written"),
        (_read_only, "b.py: is read-only, not fixed"),
        (_gone, "b.py: moved while fixing, not written"),
        (_linked, "b.py: moved while fixing, not written"),
        (_half_written, "b.py: may be half old and half new"),
    ],
)
def test_a_second_file_that_cannot_be_written_is_named_before_the_first_is_touched(
    files: Files,
    monkeypatch: pytest.MonkeyPatch,
    meanwhile: Callable[[Path], None],
    reason: str,
) -> None:
    documents = files(a=b"a = 1\n", b=b"b = 1\n")
    meanwhile(Path(documents["b"].path))
    monkeypatch.setattr(write, "write", lambda *given: pytest.fail("a file was written"))
    with pytest.raises(WriteError) as raised, write.written(changes(documents)):
        raise AssertionError("not reached")
    assert str(raised.value).startswith(reason)
    assert Path(documents["a"].path).read_bytes() == b"a = 1\n"
