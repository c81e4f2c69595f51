"""What works inside the user's interpreter, without torch: marks, steps, the recorder, its start,
its blocks."""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from torchlint.program.inside import imports
from torchlint.program.inside.ending import Stop
from torchlint.program.inside.steps import BACKWARD_FALLBACK, BATCH_FALLBACK, Boundary
from torchlint.program.machine.workspace import Workspace
from torchlint.verify import inside
from torchlint.verify.inside import timing
from torchlint.verify.inside.marks import Marks
from torchlint.verify.inside.recorder import Recorder

VERIFY = Path(inside.__file__).parent

# Marks


@contextlib.contextmanager
def untraced() -> Iterator[None]:
    """Leave trace functions and finders of modules as they were."""
    old, threads, finders = sys.gettrace(), threading.gettrace(), [*sys.meta_path]
    try:
        yield
    finally:
        sys.settrace(old)
        threading.settrace(threads)
        sys.meta_path[:] = finders


def traced(source: str, marks: list[tuple[str, int, int]], folder: Path, run: str = "") -> set[str]:
    """Run a program under marks in the lines given, and return those that ran."""
    file = folder / "program.py"
    file.write_text(source)
    watch = Marks(
        [(name, str(file.resolve()), first, last) for name, first, last in marks],
        str(folder / "marks"),
    )
    (folder / "marks").mkdir()
    code: CodeType = compile(source, str(file), "exec")
    with untraced():
        watch.start()
        exec(code, {})  # noqa: S102 - the test's own text
    return {path.name for path in (folder / "marks").iterdir()}


MARKED = """\
import threading
def ran():
    x = (
        1 +
        2)
    return [
        y for y in range(2)
    ]
def never():
    return 1
ran()
if never is None:
    never()
thread = threading.Thread(target=lambda:
    ran)
thread.start()
thread.join()
"""


def test_marks(tmp_path: Path) -> None:
    marks = [
        ("body", 3, 5),
        ("comprehension", 7, 7),
        ("never", 10, 10),
        ("top", 11, 11),
        ("branch", 13, 13),
    ]
    seen = traced(MARKED, [*marks, ("thread", 15, 15), ("definition", 9, 9)], tmp_path)
    assert seen == {"body", "comprehension", "top", "thread", "definition"}


def test_program_that_traces_itself_ends_the_watch(tmp_path: Path) -> None:
    watch = Marks([], str(tmp_path))
    with untraced():
        watch.start()
        before = watch.watching()
        sys.settrace(None)
        after = watch.watching()
    assert (before, after) == (True, False)


@pytest.mark.parametrize(("folder", "watched"), [("site-packages", False), ("project", True)])
def test_nothing_is_watched_while_an_installed_package_is_imported(
    folder: str, watched: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The import of torch takes several times as long while it is watched."""
    place = tmp_path / folder
    place.mkdir()
    (place / "imported_once.py").write_text("import sys\nWATCHED = sys.gettrace() is not None\n")
    monkeypatch.syspath_prepend(place)
    source = f"import imported_once\nif imported_once.WATCHED is {watched}:\n    pass\n"
    seen = traced(source, [("before", 1, 1), ("after", 3, 3)], tmp_path)
    del sys.modules["imported_once"]
    assert seen == {"before", "after"}


def test_a_trace_function_that_an_import_sets_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "site-packages"
    place.mkdir()
    (place / "sets_trace.py").write_text("import sys\nsys.settrace(lambda *given: None)\n")
    monkeypatch.syspath_prepend(place)
    watch = Marks([], str(tmp_path / "marks"))
    with untraced():
        watch.start()
        importlib.import_module("sets_trace")
        assert not watch.watching()
    del sys.modules["sets_trace"]


def test_mark_that_cannot_be_written_does_not_harm(tmp_path: Path) -> None:
    watch = Marks([], str(tmp_path / "missing"))
    watch._note("x")
    assert list(tmp_path.iterdir()) == []


# Steps


def test_the_optimizer_with_most_steps_is_the_boundary() -> None:
    boundary, one, two = Boundary(), object(), object()
    assert boundary.optimizer(one)
    assert not boundary.optimizer(two)
    assert boundary.optimizer(two)
    assert boundary.optimizer(two)
    assert not boundary.optimizer(one)
    assert boundary.kind == "optimizer"


def test_backward_counts_after_a_while_without_optimizer() -> None:
    boundary = Boundary()
    assert [boundary.backward() for _ in range(BACKWARD_FALLBACK + 2)] == [
        False
    ] * BACKWARD_FALLBACK + [True, True]
    assert boundary.kind == "backward"
    assert boundary.optimizer(object())
    assert not boundary.backward()
    assert boundary.kind == "optimizer"


def test_batches_count_after_a_while_without_training() -> None:
    boundary = Boundary()
    assert [boundary.batch() for _ in range(BATCH_FALLBACK + 1)] == [False] * BATCH_FALLBACK + [
        True
    ]
    assert boundary.kind == "batch"
    boundary.backward()
    assert not boundary.batch()


# The recorder


class Elsewhere(importlib.abc.MetaPathFinder):
    """Finds one module in a folder that is not in ``sys.path``, as an editable install does."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        return (
            importlib.util.spec_from_file_location(name, self.file)
            if name == self.file.stem
            else None
        )


def test_import_is_seen_whoever_finds_the_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "torch_of_a_test.py"
    file.write_text("ready = True\n")
    seen: list[Any] = []
    waiting = imports._AfterImport(file.stem, lambda module: seen.append(module.ready))
    monkeypatch.setattr(sys, "meta_path", [waiting, *sys.meta_path, Elsewhere(file)])
    with pytest.raises(ImportError):
        importlib.import_module("another_of_a_test")
    assert importlib.util.find_spec(file.stem) is not None  # asked, and not imported
    assert seen == []
    importlib.import_module(file.stem)
    del sys.modules[file.stem]
    assert seen == [True]
    assert waiting not in sys.meta_path


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    """Return a recorder that writes no record, for two steps."""
    old = signal.getsignal(signal.SIGTERM)
    found = Recorder({"phase": "check", "steps": 2})
    found.dumped = True
    yield found
    signal.signal(signal.SIGTERM, old)


def test_program_is_stopped_after_its_steps(made: Recorder) -> None:
    made.step()
    with pytest.raises(Stop):
        made.step()
    assert (made.steps, made.reason) == (2, "step budget")
    assert not issubclass(Stop, Exception)  # ``except Exception`` lets it by


def test_program_that_swallows_everything_is_ended(
    made: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)
    for _ in range(4):
        with pytest.raises(Stop):
            made.step() or made.step()  # type: ignore[func-returns-value]
    assert codes == [0]


def test_forked_child_starts_anew(made: Recorder) -> None:
    made.step()
    made.boundary.optimizer(made)
    made._forked()
    assert (made.steps, made.reason, made.dumped, made.boundary.kind) == (0, "ended", False, "")


# Its start


FINDERS = "import sys; sys.stdout.write(repr([type(one).__name__ for one in sys.meta_path]))"


def started(
    folder: Path, settings: str, *shadowed: Path, code: str = FINDERS
) -> subprocess.CompletedProcess[str]:
    """Run a program under the injected ``sitecustomize``."""
    with Workspace(base=folder) as workspace:
        path = os.pathsep.join(map(str, (workspace.inject(VERIFY), *shadowed)))
        own = {"TORCHLINT_RECORDER": "verify.inside.recorder", "TORCHLINT_RECORD": settings}
        env = {**os.environ, "PYTHONPATH": path, **own}
        return subprocess.run(
            [sys.executable, "-c", code],
            cwd=folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )


def test_recorder_starts_and_the_shadowed_sitecustomize_runs(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"phase": "check", "steps": 2, "out": str(tmp_path)}))
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    done = started(tmp_path, str(settings), other)
    assert (done.stderr, done.returncode) == ("", 0)
    assert "_AfterImport" in done.stdout
    assert (tmp_path / "ran").exists()


DETERMINISTIC = """
import sys, torch
print(torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
print("torch._inductor" in sys.modules)
import torch._inductor.config
print(torch._inductor.config.deterministic)
"""  # noqa: E501


@pytest.mark.slow
def test_what_is_compared_is_deterministic_and_its_compiler_is_not_imported_for_that(
    tmp_path: Path,
) -> None:
    pytest.importorskip("torch")
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"phase": "check", "steps": 2, "out": str(tmp_path)}))
    done = started(tmp_path, str(settings), code=DETERMINISTIC)
    assert (done.stdout.split(), done.returncode) == (["True", "True", "False", "True"], 0), (
        done.stderr
    )


def test_without_settings_nothing_is_recorded(tmp_path: Path) -> None:
    done = started(tmp_path, "")
    assert (done.stderr, done.returncode) == ("", 0)
    assert "_AfterImport" not in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_recorder_that_fails_leaves_the_program_alone_and_says_so(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text("{")
    done = started(tmp_path, str(settings))
    assert (done.stderr, done.returncode) == ("", 0)
    assert (
        (tmp_path / "settings.json.disabled")
        .read_text()
        .startswith("recorder disabled: JSONDecodeError")
    )


# Blocks


@pytest.fixture
def parent() -> Iterator[tuple[str, list[dict[str, Any]], list[dict[str, Any]]]]:
    """Return an address, the words that a parent will say there, and the list that takes the
    answers."""
    words: list[dict[str, Any]] = []
    heard: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(prefix="tl") as folder,
        socket.socket(socket.AF_UNIX) as server,
    ):
        server.bind(f"{folder}/s")
        server.listen(1)

        def talk() -> None:
            stream, _ = server.accept()
            with stream, stream.makefile("rwb") as file:
                for word in words:
                    heard.append(json.loads(file.readline()))
                    file.write(json.dumps(word).encode() + b"\n")
                    file.flush()
                heard.append(json.loads(file.readline() or b"null"))

        thread = threading.Thread(target=talk)
        thread.start()
        yield f"{folder}/s", words, heard
        thread.join(10)
        assert not thread.is_alive()


def test_blocks_are_timed_on_the_parents_word(
    parent: tuple[str, list[dict[str, Any]], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "_reset_peak", lambda: None)
    address, words, heard = parent
    words += [{"settle": 2, "steps": 3}, {"settle": 0, "steps": 1}, {"quit": True}]
    synced: list[int] = []
    waited = iter(range(0, 1000, 7))
    child = timing.Timing(
        address, 2, lambda: synced.append(child.steps), lambda: {"pid": 1}, lambda: next(waited)
    )
    answers = [child.step() for _ in range(8)]
    assert answers == [True] * 7 + [False]
    # After the warm-up of two; at both ends of the block of three; the second block follows at
    # once, without settling.
    assert synced == [2, 4, 7, 7, 8]
    assert child.parent is not None
    child.parent.close()
    assert heard[0] == {"ready": 2, "pid": 1}
    assert [message["wait_ns"] for message in heard[1:3]] == [7, 7]
    assert all(message["wall_ns"] > 0 for message in heard[1:3])


def test_child_ends_when_the_parent_has_gone(
    parent: tuple[str, list[dict[str, Any]], list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "_reset_peak", lambda: None)
    address, words, heard = parent
    words += [{"settle": 1, "steps": 1}]
    child = timing.Timing(address, 1, lambda: None, dict, lambda: 0)
    assert [child.step() for _ in range(3)] == [True, True, False]
    assert child.parent is not None
    child.parent.close()
    assert len(heard) == 2
