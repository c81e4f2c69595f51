"""Programs that are forked from a warm process run as those that are started cold, or are started
cold. Times are never asserted."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from torchlint.program.command import parse
from torchlint.program.errors import NoTorchError
from torchlint.program.machine.doctor import diagnose
from torchlint.program.machine.process_tree import Family, table
from torchlint.program.machine.workspace import Workspace
from torchlint.verify.model import Status
from torchlint.verify.options import Options
from torchlint.verify.script.preload import imports_of
from torchlint.verify.script.runs import Home, Runner, RunRecord
from torchlint.verify.session.facts import WarmFacts
from torchlint.verify.session.site import site_in
from torchlint.verify.session.workers import Zygote
from torchlint.verify.variants import ORIGINAL

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not sys.platform.startswith("linux"),
    reason="programs are forked on Linux, from a process that has torch",
)
FACTS = """
import json, multiprocessing, os, random, resource, signal, sys, tempfile, threading, warnings
import torch


def facts():
    spec = __spec__ and __spec__.name
    return {
        "argv": sys.argv, "orig_argv": sys.orig_argv[1:], "path": sys.path, "name": __name__,
        "file": __file__, "package": __package__, "spec": spec, "cwd": os.getcwd(),
        "doc": __doc__, "main": sys.modules["__main__"].__dict__ is globals(),
        "env": {key: value for key, value in os.environ.items() if key != "TORCHLINT_RUN"},
        "signals": [str(signal.getsignal(number)) for number in (2, 13, 15)],
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "terminals": [os.isatty(number) for number in range(3)], "stdin": sys.stdin.read(),
        "flags": list(sys.flags), "umask": os.umask(0o22), "threads": threading.active_count(),
        "main_thread": threading.current_thread() is threading.main_thread(),
        "leads": os.getsid(0) == os.getpid() == os.getpgid(0), "temp": tempfile.gettempdir(),
        "start": multiprocessing.get_start_method(), "torch_threads": torch.get_num_threads(),
        "cuda": torch.cuda.is_initialized(), "seed": torch.initial_seed(),
        "random": [random.random(), torch.rand(1).item()], "encoding": sys.stdout.encoding,
        "limit": resource.getrlimit(resource.RLIMIT_NOFILE), "buffered": sys.stdout.line_buffering,
        "open": sorted(os.listdir("/proc/self/fd"))[:3], "hook": sys.excepthook.__name__,
    }
"""
TRAINS = """
weights = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(100):
    optimizer.zero_grad()
    weights.sum().backward()
    optimizer.step()
"""


@contextmanager
def runner(root: Path, *typed: str) -> Iterator[tuple[Runner, Home]]:
    """Give a runner of a command in a project, and its one copy."""
    with Workspace() as workspace:
        options = Options(isolation="copy", warmup=2)
        command = parse(list(typed), root, root)
        home = Home(ORIGINAL, workspace.copy(root, "v0/project"), workspace.path / "h0")
        home.folder.mkdir()
        with Runner(site_in(workspace, options), command, root, root, "cpu") as made:
            yield made, home
        assert Family(None, str(workspace.path), prefix=True).members() == []


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[RunRecord, str, str]]:
    """Return a function that writes files and runs one; it returns the record, all output, and why
    the program was started cold."""

    def ran(*typed: str, cold: bool = False, **files: str) -> tuple[RunRecord, str, str]:
        root = tmp_path / "project"
        for name, text in files.items():
            path = root / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        with runner(root, *(typed or ("train.py", "--epochs", "3"))) as (made, home):
            if cold:
                made.warm.be_cold("asked for")
            (record,) = made.all([(home, "check", {"steps": 6})], 1, lambda name: None)
            assert record is not None
            said = (record.folder / "output.txt").read_text()
            return record, said.replace(str(made.site.folder), "WORKSPACE"), made.warm.why_cold

    return ran


def forked_and_cold(run: Any, *typed: str, **files: str) -> list[tuple[RunRecord, str]]:
    found = []
    for cold in (False, True):
        record, said, why = run(*typed, cold=cold, **files)
        assert why == ("asked for" if cold else ""), why
        found.append((record, said))
    return found


@pytest.mark.parametrize(
    ("typed", "name"),
    [(("train.py", "--epochs", "3"), "train"), (("-m", "pkg.train", "-x"), "pkg/train")],
)
@needs_torch
@pytest.mark.slow
def test_a_forked_program_finds_what_a_cold_one_finds(
    run: Any, typed: tuple[str, ...], name: str
) -> None:
    program = f'"""Trains."""\n{FACTS}\nprint(json.dumps(facts()))\n{TRAINS}'
    found = forked_and_cold(run, *typed, **{"pkg/__init__": "", name: program})
    one, two = (json.loads(said.splitlines()[0]) for _, said in found)
    for each in (one, two):  # of each run
        each["env"].pop("TORCHLINT_RECORD")
    assert one == two
    assert [record.steps for record, _ in found] == [6, 6]


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_a_forked_program_fails_as_a_cold_one_does(run: Any) -> None:
    program = "import torch\n\ndef broken():\n    raise ValueError('no data')\n\nbroken()\n"
    (one, forked), (two, cold) = forked_and_cold(run, train=program)
    assert (one.status, one.code) == (two.status, two.code) == (Status.BROKEN, 1)
    assert forked == cold
    assert forked.splitlines()[-1] == "ValueError: no data"
    (one, _), (two, _) = forked_and_cold(run, train="import torch, sys\nsys.exit(7)\n")
    assert (one.code, two.code) == (7, 7)
    (one, _), (two, _) = forked_and_cold(run, train="import torch, os\nos.kill(os.getpid(), 6)\n")
    assert (one.code, two.code) == (-signal.SIGABRT, -signal.SIGABRT)


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_processes_of_a_forked_program_are_its_own(run: Any) -> None:
    program = """
import torch
import torch.multiprocessing as mp


def work(rank, lines):
    lines.put((rank, __name__, torch.rand(1).item()))


if __name__ == "__main__":
    lines = mp.get_context("spawn").SimpleQueue()
    mp.spawn(work, args=(lines,), nprocs=2)
    print(sorted(lines.get()[:2] for _ in range(2)))
"""
    (_, forked), (_, cold) = forked_and_cold(run, train=program)
    assert forked == cold == "[(0, '__mp_main__'), (1, '__mp_main__')]\n"


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_what_is_left_of_a_forked_program_is_ended(run: Any) -> None:
    program = "import torch, os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(600)\n"
    record, _, why = run(train=program + TRAINS)
    assert (record.steps, why) == (6, "")


@needs_torch
@pytest.mark.slow
@pytest.mark.parametrize(
    ("why", "files"),
    [
        ("", {"helper": "import threading\n", "train": "import helper\n"}),
        ("train.py sets OMP_SCHEDULE", {"train": "import os\nos.environ['OMP_SCHEDULE'] = 'a'\n"}),
        ("the project has a file with the name of queue", {"queue_": "", "train": ""}),
    ],
)
def test_where_it_is_not_safe_a_program_is_started_cold(
    run: Any, why: str, files: dict[str, str]
) -> None:
    files = {"queue" if name == "queue_" else name: text for name, text in files.items()}
    if why.endswith("queue"):
        files["queue"] = "from _queue import Empty, SimpleQueue\nFull = Queue = LifoQueue = Empty\n"
    files["train"] += f"import torch\n{TRAINS}"
    record, said, reason = run(**files)
    assert reason.startswith(why)
    assert bool(reason) is bool(why)
    assert (record.status, record.steps) == (Status.OK, 6), said


@needs_torch
@pytest.mark.slow
def test_an_import_that_starts_a_thread_is_left_to_the_program(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "threaded.py").write_text(
        "from threading import Thread\nfrom time import sleep\n"
        "Thread(target=sleep, args=(60,), daemon=True).start()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(library))
    program = "import torch, threaded, threading\nprint(threading.active_count())\n"
    record, said, why = run(train=program + TRAINS)
    assert (record.steps, why, said.splitlines()[0]) == (6, "", "2")


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_a_stopped_program_ends_without_taking_the_interpreter_apart(run: Any) -> None:
    program = f"""
import atexit, sys
import torch


class Held:
    def __del__(self):
        print("taken apart")


held = Held()
atexit.register(print, "handler")
try:
    {TRAINS.replace(chr(10), chr(10) + "    ")}
finally:
    print("finally")
"""
    record, said, why = run(train=program)
    assert (record.status, record.steps, why) == (Status.OK, 6, "")
    assert said.split() == ["finally", "handler"]


# The interpreter's facts


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_the_interpreter_is_asked_in_the_process_that_has_imported_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> object:
        raise AssertionError("a second import of torch")

    (tmp_path / "train.py").write_text(f"import torch\n{TRAINS}")
    with runner(tmp_path, "train.py") as (made, _), monkeypatch.context() as patch:
        patch.setattr("torchlint.verify.session.facts.Asked", refused)
        facts = WarmFacts(sys.executable, lambda end: made.warm.zygote(0, end), cold=False)
        found = diagnose(sys.executable, asked=facts)
    cold = diagnose(sys.executable)
    same = ("problem", "executable", "python_version", "torch", "build", "gpus", "no_gpu")
    assert [getattr(found, name) for name in same] == [getattr(cold, name) for name in same]


def test_where_none_has_imported_torch_the_interpreter_says_why() -> None:
    def cannot(end: float) -> Zygote | None:
        raise NoTorchError("no torch")

    for zygote in (cannot, lambda end: None):
        with WarmFacts("/nowhere/python", zygote, cold=False) as facts:
            assert facts.answer(1.0) == ({}, "no interpreter /nowhere/python; use --python")


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_without_its_zygote_a_program_is_started_cold(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{TRAINS}")
    with runner(tmp_path, "train.py") as (made, home):
        zygote = made.warm.zygote(0)
        assert zygote is not None
        os.kill(zygote.facts["pid"], signal.SIGKILL)
        (record,) = made.all([(home, "check", {"steps": 6})], 1, lambda name: None)
        assert record is not None
        assert (record.status, record.steps) == (Status.OK, 6)
        assert "no program could be started" in made.warm.why_cold


@pytest.mark.usefixtures("zygotes")
@needs_torch
@pytest.mark.slow
def test_forked_programs_die_with_their_zygote(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import time, torch\nopen('started', 'w')\ntime.sleep(600)\n"
    )
    with runner(tmp_path, "train.py") as (made, home):
        zygote = made.warm.zygote(0)
        assert zygote is not None
        child, _ = made.start(home, "check", steps=6)
        while not (home.copy / "started").exists():
            time.sleep(0.01)
        assert child.poll() is None
        os.kill(zygote.facts["pid"], signal.SIGKILL)
        while child.pid in table() and table()[child.pid].state != "Z":
            time.sleep(0.01)
        assert child.poll() == -signal.SIGKILL
        child.stop()


# What is imported beforehand


@pytest.fixture
def imports(tmp_path: Path) -> Callable[..., Any]:
    """Return a function that reads files of which ``train.py`` is the program."""

    def read(*typed: str, **files: str) -> Any:
        for name, text in files.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return imports_of(tmp_path, tmp_path, parse(typed or ["train.py"], tmp_path, tmp_path))

    return read


def test_imports_at_the_top_of_the_programs_own_files_are_found(imports: Any) -> None:
    found = imports(
        train="import os, numpy as np\nfrom lib.net import Net\nimport torch.nn as nn\n",
        unused="import pandas\n",
        **{
            "lib/net": "from scipy import stats\nfrom . import parts\n",
            "lib/parts": "import yaml\n",
        },
    )
    assert {"numpy", "torch.nn", "scipy", "scipy.stats"} <= set(found.modules)
    assert found.early == ""
    assert {"train", "lib", "unused"} <= found.own


def test_a_module_is_a_program_too(imports: Any) -> None:
    assert imports("-m", "pkg", **{"pkg/__main__": "import numpy\n"}).modules == ("numpy",)
    assert imports("-m", "pkg.run", **{"pkg/run": "import scipy\n"}).modules == ("scipy",)
    none = imports("-m", "not_here", train="import scipy\n")
    assert (none.modules, none.early) == ((), "its files import nothing at their top")


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    import numpy\nexcept ImportError:\n    pass\n",
        "def late():\n    import numpy\n",
        "from . import numpy\n",
        "import helper.numpy\n",
        "this is no Python",
        "import sys, json\n",
    ],
)
def test_what_may_not_be_imported_is_left_to_the_program(imports: Any, text: str) -> None:
    assert imports(train=text, **{"sub/helper": ""}).modules == ()


@pytest.mark.parametrize(
    ("text", "variable"),
    [
        ("os.environ['OMP_NUM_THREADS'] = '4'", "OMP_NUM_THREADS"),
        ("os.environ.setdefault('TORCH_LOGS', 'x')", "TORCH_LOGS"),
        ("environ['A'] = 'x'", "A"),
        ("os.environ[name] = 'x'", "variables"),
        ("os.putenv('A', 'x')", "variables"),
        ("os.environ.update(A='x')", "variables"),
        ("load_dotenv()", "variables"),
        ("def main():\n    os.environ['A'] = 'x'", "A"),
        ("os.environ['CUDA_VISIBLE_DEVICES'] = '0'", ""),
        ("os.environ['TOKENIZERS_PARALLELISM'] = 'false'", ""),
        ("print(os.environ['A'])", ""),
    ],
)
def test_a_program_that_sets_variables_for_its_imports_is_started_cold(
    imports: Any, text: str, variable: str
) -> None:
    found = imports(train="import torch, helper\n", helper=f"import os\n{text}\n")
    assert found.early == (variable and f"helper.py sets {variable}, which an import may read")
