"""Marks of statements: what a program computes, and what it sees of itself, is the same with and
without them."""

from __future__ import annotations

import builtins
import functools
import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from torchlint.program.inside import statement_marks
from torchlint.program.inside.statement_marks import Marks

ALONE = "TORCHLINT_TEST_ALONE"
PROGRAMS = Path(__file__).parent / "programs"


def alone(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test in a process of its own: torch's profiler and compiler keep what other tests of a
    process did."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        if os.environ.get(ALONE):
            test(**given)
            return
        command = [sys.executable, "-m", "pytest", "-q", "-m", "", "-p", "no:cacheprovider"]
        # "path::name[parameters] (call)"
        name = os.environ["PYTEST_CURRENT_TEST"].rpartition(" (")[0].partition("::")[2]
        done = subprocess.run(
            [*command, f"{__file__}::{name}"],
            env={**os.environ, ALONE: "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout

    return run


@pytest.fixture
def marks() -> Iterator[Marks]:
    """Mark what is imported from the folder of programs; leave no trace of that."""
    finders, path = [*sys.meta_path], [*sys.path]
    sys.path.insert(0, str(PROGRAMS))
    found = Marks(str(PROGRAMS))
    found.start()
    try:
        yield found
    finally:
        sys.meta_path[:], sys.path[:] = finders, path
        for name in [name for name in vars(builtins) if name.startswith("_torchlint_")]:
            delattr(builtins, name)


def imported(name: str) -> ModuleType:
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def made(marks: Marks, source: str) -> dict[str, Any]:
    """Return the names of a module of this source, with marks."""
    code = marks.code(source.encode(), str(PROGRAMS / "made.py"))
    assert code is not None, marks.unmarked
    names: dict[str, Any] = {"__name__": "made", "torch": sys.modules.get("torch")}
    exec(code, names)  # noqa: S102 - the test's own source
    return names


def test_a_module_that_looks_at_itself_sees_no_mark(marks: Marks) -> None:
    sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "_Marking"]
    plain = imported("hostile").results()
    marks.start()
    marked = imported("hostile").results()
    assert len(marks.rows) > 80
    assert marks.unmarked == []
    for name, value in plain.items():
        assert marked[name] == value, name


def test_a_mark_says_file_lines_and_function(marks: Marks) -> None:
    made(
        marks,
        "x = len('a')\ndef f(a):\n    return sum(\n        a\n    )\nfor i in f([1]),: pass\n",
    )
    assert marks.rows == [
        ("made.py", 1, 1, "<module>"),
        ("made.py", 3, 5, "f"),
        ("made.py", 6, 6, "<module>"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nfrom os import path\n",
        "x = 1\ny = x\na, b = x, y\ndel a\npass\n",
        "def f():\n    'only words'\n",
        "class A:\n    x = len('a')\n    y: int = len('b')\n",
        "async def f(x):\n    y = await x\n    return await y\n",
        "def f(x):\n    y = yield x + 1\n    return (z := y + 1)\n",
        "x: int = len('a')\n",
        "import numba\n\n@numba.njit\ndef f(x):\n    return x + 1\n",
    ],
)
def test_what_stays_as_it_is(marks: Marks, source: str) -> None:
    marks.code(source.encode(), str(PROGRAMS / "made.py"))
    assert marks.rows == []


def test_what_cannot_be_rewritten_stays_and_is_told(marks: Marks) -> None:
    nested = "".join(f"{' ' * depth}while x:\n" for depth in range(20)) + " " * 20 + "x = f()\n"
    compile(nested, "made.py", "exec")
    assert marks.code(nested.encode(), str(PROGRAMS / "made.py")) is None
    assert marks.rows == []
    assert marks.unmarked[0].startswith("made.py: SyntaxError: too many")


def test_installed_packages_and_other_folders_are_not_the_projects_own(tmp_path: Path) -> None:
    found = Marks(str(tmp_path))
    assert found.below(str(tmp_path / "a" / "b.py")) == "a/b.py"
    assert found.below(str(tmp_path / "venv/lib/site-packages/x.py")) == ""
    assert found.below(str(tmp_path) + "other/b.py") == ""


@pytest.mark.slow
@alone
def test_iterators_that_nobody_waits_for_stay(marks: Marks) -> None:
    names = made(marks, "def f(of):\n    for x in of: return x\n    return None\n")
    each = statement_marks.each
    for quick in ([1], (1,), {1: 2}.items(), range(3), enumerate([1]), zip([1], (2,), strict=True)):
        assert not isinstance(each("tl#0", quick), statement_marks.Each)
    assert isinstance(each("tl#0", enumerate(item for item in [1])), statement_marks.Each)
    assert names["f"](iter([1])) == 1


# With torch


@pytest.fixture
def torch(marks: Marks) -> Any:
    found = pytest.importorskip("torch")
    statement_marks.compiled_by(found)
    statement_marks.show()
    return found


def seen(torch: Any, run: Callable[[], object]) -> list[tuple[str, str]]:
    """Return (name, name of the event around it) of what the profiler sees of a run."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    return [
        (event.name, event.cpu_parent.name if event.cpu_parent else "")
        for event in profiler.events()
    ]


@pytest.mark.slow
@alone
def test_operators_lie_in_the_mark_of_their_statement(marks: Marks, torch: Any) -> None:
    names = made(
        marks,
        "def f(t):\n    u = t + 1\n    if u.sum():\n        u = g(u)\n    return u\n"
        "def g(u):\n    return u * 2\n",
    )
    found = seen(torch, lambda: names["f"](torch.ones(3)))
    line = {f"tl#{number}": row[1] for number, row in enumerate(marks.rows)}
    assert {(name, line.get(around)) for name, around in found} >= {
        ("aten::add", 2),
        ("aten::sum", 3),
        ("aten::is_nonzero", 3),  # the test reads a value
        ("aten::mul", 7),
    }
    assert ("tl#3", "tl#2") in found  # the innermost one counts


@pytest.mark.slow
@pytest.mark.parametrize("head", ["if [][1] + 1: pass", "while torch.ones(2): pass"])
@alone
def test_a_mark_ends_where_its_statement_raises(marks: Marks, torch: Any, head: str) -> None:
    names = made(marks, f"def f():\n    {head}\n")

    def run() -> None:
        for _ in range(2):
            with pytest.raises((IndexError, RuntimeError)):
                names["f"]()
        torch.ones(5)

    assert ("aten::ones", "") in seen(torch, run)


@pytest.mark.slow
@alone
def test_a_statement_may_run_while_the_profiler_starts_and_stops(marks: Marks, torch: Any) -> None:
    statement_marks.forget()
    names = made(marks, "def f(a):\n    for x in a:\n        x()\n")
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])

    def start() -> None:
        profiler.start()
        statement_marks.show()

    def stop() -> None:
        statement_marks.forget()
        profiler.stop()

    def items() -> Iterator[Callable[[], object]]:
        yield start
        torch.ones(1)
        yield stop

    names["f"](items())
    around = {event.name: event.cpu_parent for event in profiler.events()}
    assert around["aten::ones"].name == "tl#0"  # the loop's next item, though it began before


@pytest.mark.slow
@alone
def test_a_statement_that_calls_itself_has_a_mark_each_time(marks: Marks, torch: Any) -> None:
    names = made(marks, "def f(t, n):\n    return f(t + 1, n - 1) if n else t\n")
    found = seen(torch, lambda: names["f"](torch.ones(1), 5))
    assert [name for name, _ in found].count("tl#0") == 6


@pytest.mark.slow
@alone
def test_the_compiler_sees_none(marks: Marks, torch: Any) -> None:
    names = made(
        marks,
        "def inner(x):\n    y = x.relu()\n    return y + 1\n"
        "def f(x):\n    z = inner(x)\n    for w in [1, 2]:\n        z = z * w\n"
        "    with torch.no_grad():\n        z = z + 1\n    return z.sin()\n",
    )
    compiled = torch.compile(names["f"], fullgraph=True, backend="eager")
    t = torch.ones(3)
    assert torch.equal(compiled(t), names["f"](t))
    found = [name for name, _ in seen(torch, lambda: compiled(t))]
    assert "aten::relu" in found
    assert not [name for name in found if name.startswith(statement_marks.PREFIX)]


@pytest.mark.slow
def test_training_is_bitwise_the_same(
    marks: Marks, torch: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    finders = [*sys.meta_path]
    sys.meta_path[:] = [each for each in finders if type(each).__name__ != "_Marking"]
    imported("training").main()
    sys.meta_path[:] = finders
    training = imported("training")
    with torch.profiler.profile():
        training.main()
    plain, marked = capsys.readouterr().out.splitlines()
    assert plain == marked
    assert len(marks.rows) > 20
