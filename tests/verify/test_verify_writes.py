"""Writes outside a program's copy are named: those that could happen, each once, whoever of its
processes tries."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.verify.inside import writes

Seen = Callable[[str], list[str]]
"""Runs code under the watch, and returns what was named, relative to the folder of the copy."""
HEAD = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("writes", sys.argv[1])
writes = importlib.util.module_from_spec(spec)
spec.loader.exec_module(writes)
watch = writes.Writes([os.getcwd()], os.path.abspath("seen"))
watch.start()
"""
"""An audit hook stays for good, so each case has a process of its own."""


@pytest.fixture
def seen(tmp_path: Path) -> Seen:
    inside = tmp_path / "copy"
    inside.mkdir()
    (tmp_path / "there").write_text("x")
    (tmp_path / "folder").mkdir()

    def look(code: str) -> list[str]:
        subprocess.run([sys.executable, "-c", HEAD + code, writes.__file__], cwd=inside, check=True)
        file = inside / "seen"
        lines = os.fsdecode(file.read_bytes()).splitlines() if file.exists() else []
        return [str(Path(line).relative_to(tmp_path.resolve())) for line in lines]

    return look


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("open('../a', 'w')", ["a"]),
        ("open(b'../a', 'ab')", ["a"]),
        ("import pathlib; pathlib.Path('../there').open('r+')", ["there"]),
        ("open('../there')", []),
        ("open('inside', 'w')", []),
        ("os.open('../a', os.O_CREAT)", ["a"]),
        ("open(os.open('../there', os.O_RDONLY))", []),
        (
            (
                "open(os.devnull, 'w'); open('/dev/shm/torchlint-test', 'w'); "
                "os.remove('/dev/shm/torchlint-test')"
            ),
            [],
        ),
        ("os.mkdir('../a')", ["a"]),
        ("os.makedirs('../folder', exist_ok=True)", []),
        ("os.remove('../there')", ["there"]),
        ("os.rmdir('../folder')", ["folder"]),
        ("open('own', 'w').close(); os.rename('own', '../a')", ["a"]),
        ("os.rename('../there', 'own')", ["there"]),
        ("os.symlink('x', '../a'); os.link('../there', '../b')", ["a", "b"]),
        ("os.truncate('../there', 0)", ["there"]),
        ("os.symlink('../there', 'own'); open('own', 'w')", ["there"]),
        ("os.symlink('../there', 'own'); os.remove('own')", []),
        ("open('../a', 'w'); open('../a', 'w')", ["a"]),
        ("os.path.exists('../a'); os.listdir('..')", []),
    ],
)
def test_what_is_named(seen: Seen, code: str, names: list[str]) -> None:
    assert seen(code) == names


@pytest.mark.parametrize(
    "code",
    [
        "open('../none/a', 'w')",
        "os.remove('../none')",
        "os.rmdir('../none')",
        "os.rename('../none', '../a')",
    ],
)
def test_what_fails_by_itself_is_not_named(seen: Seen, code: str) -> None:
    assert seen(f"try: {code}\nexcept FileNotFoundError: pass") == []


def test_limit(seen: Seen) -> None:
    assert len(seen("for n in range(100): open(f'../{n}', 'w').close()")) == writes.LIMIT == 20


def test_forked_processes_and_sudden_ends(seen: Seen) -> None:
    assert seen(
        "if os.fork() == 0:\n    open('../a', 'w')\n    os._exit(0)\nos.wait()\nos._exit(0)"
    ) == ["a"]


def test_odd_names(seen: Seen) -> None:
    assert seen("open(b'../two\\nlines \\xff', 'w')") == ["two?lines \udcff"]


def test_torch_save(seen: Seen) -> None:
    stand_in = (
        "import types\nopened = []\nlike = "
        "types.SimpleNamespace(_open_zipfile_writer=opened.append)\n"
    )
    calls = "watch.watch_saves(types.SimpleNamespace(serialization=like))\nlike._open_zipfile_writer('../a')\n"  # noqa: E501
    buffer = "import io\nlike._open_zipfile_writer(io.BytesIO())\nassert len(opened) == 2\n"
    assert seen(stand_in + calls + buffer) == ["a"]


def test_torch_without_that_function(seen: Seen) -> None:
    code = (
        "import types\nempty = "
        "types.SimpleNamespace()\nwatch.watch_saves(types.SimpleNamespace(serialization=empty))"
    )
    assert seen(f"{code}\nassert not vars(empty)") == []


def test_what_a_process_opens_as_it_ends_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes the names of a module away first, and hooks are asked still."""
    watch = writes.Writes([], os.devnull)
    monkeypatch.setattr(writes, "_HEARD", None)
    watch._hear("open", ("there", "w", os.O_WRONLY))
    assert watch.seen == set()
