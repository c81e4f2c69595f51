"""What a command does not import: the time to start is the time to import."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from importlib import import_module
from pathlib import Path

import click
import pytest

import torchlint
from tests.patience import PATIENCE
from torchlint import __version__
from torchlint.cli.commands import COMMANDS, main

HEAVY = {
    "libcst",
    "torch",
    "pebble",
    "multiprocessing",
    "concurrent",
    "asyncio",
    "importlib.metadata",
    "tomli",
}
"""Each of these costs between one and several hundred milliseconds."""
PROGRAM = """
import sys
from torchlint.cli.main import run
code = run(sys.argv[1:])
print("loaded", *sorted(name for name in sys.modules), file=sys.stderr)
sys.exit(code)
"""
TRAINING = """import torch
from torch import nn
from torch.utils.data import DataLoader


def train(dataset, device):
    model = nn.Linear(4, 1).to(device)
    loader = DataLoader(dataset, batch_size=8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x.to("cuda")), y.to("cuda"))
        loss.backward()
        optimizer.step()
        print(loss.item())
"""


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(torchlint.__file__).parents[1])}
ENVIRONMENT.pop("CI", None)  # in a build no run is answered from the last one
UNWATCHED = (
    "from torchlint.cli import cached_run\ncached_run._watched_files = lambda cache: iter(())\n"
)
"""Lets a repeated run take no notice of torchlint's own files, which somebody may be editing."""


def loaded(folder: Path, *arguments: str, code: int = 0, before: str = "") -> tuple[set[str], str]:
    """Run a command in `folder`; return the modules that its own process imported, and what it
    printed."""
    run = subprocess.run(
        [sys.executable, "-c", before + PROGRAM, *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert run.returncode == code, run.stderr
    return set(run.stderr.rpartition("loaded ")[2].split()) - anyway(), run.stdout


@cache
def anyway() -> frozenset[str]:
    """Return the modules that this machine's Python imports by itself."""
    command = [sys.executable, "-c", "import sys; print(*sys.modules)"]
    return frozenset(subprocess.run(command, capture_output=True, text=True).stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "more"),
    [
        (
            ["--version"],
            0,
            {"click", "dataclasses", "torchlint.catalog.rules", "torchlint.cli.session"},
        ),
        (["--help"], 0, {"torchlint.catalog.rules", "torchlint.cli.session"}),
        (["rule", "TL101"], 0, {"torchlint.cli.session"}),
        (["rules"], 0, {"torchlint.cli.session"}),
        (
            ["check", "plain.py"],
            0,
            {"torchlint.cli.fix", "torchlint.engine.analyse", "difflib", "string"},
        ),
        (
            ["check", "--no-cache", "plain.py"],
            0,
            {"hashlib", "json", "pickle", "tempfile", "pathlib", "difflib"},
        ),
        (["check", "broken.py"], 1, {"torchlint.cli.fix", "torchlint.engine.analyse"}),
        (["check", "train.py"], 1, {"torchlint.cli.fix", "torchlint.engine.analyse"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_command_starts_without(
    tmp_path: Path, arguments: list[str], code: int, more: set[str]
) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("x = = 1\n")
    (tmp_path / "train.py").write_text(TRAINING)
    modules, _ = loaded(tmp_path, *arguments, code=code)
    assert "torchlint.cli.main" in modules
    assert sorted(modules & (HEAVY | more)) == []


@pytest.mark.slow
def test_a_run_that_finds_all_as_it_was_needs_no_click(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    os.utime(tmp_path / "train.py", (1e9, 1e9))
    found = [
        loaded(tmp_path, "check", "--isolated", "train.py", code=1, before=UNWATCHED)
        for _ in range(4)
    ]
    assert len({text for _, text in found}) == 1
    unneeded = {"click", "dataclasses", "torchlint.catalog.rules", "torchlint.cli.session"}
    assert sorted(found[0][0] & unneeded) == sorted(unneeded)
    assert sorted(found[-1][0] & (HEAVY | unneeded)) == []


@pytest.mark.slow
def test_a_file_without_torch_is_checked_for_syntax_without_the_parser(tmp_path: Path) -> None:
    """The worker too does without libcst, whose import is most of the time that a short file
    takes."""
    (tmp_path / "plain.py").write_text("def f():\n    return 1\n")
    (tmp_path / "train.py").write_text(TRAINING)
    refusing = f"import sys\nsys.modules['libcst'] = None\n{PROGRAM}"  # an import of None fails
    for name, code in (("plain.py", 0), ("train.py", 2)):
        command = [sys.executable, "-c", refusing, "check", "--isolated", name]
        run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
        assert run.returncode == code, run.stderr


@pytest.mark.slow
def test_help_lists_every_command_without_importing_it(tmp_path: Path) -> None:
    modules, text = loaded(tmp_path, "--help")
    for name, (_, words) in COMMANDS.items():
        assert f"  {name}" in text
        assert words.split()[0] in text
    assert not [
        name for name in modules if name in {f"torchlint.cli.{command}" for command in COMMANDS}
    ]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_a_command_lies_where_the_table_says(name: str) -> None:
    module, _, attribute = COMMANDS[name][0].partition(":")
    command = getattr(import_module(f"torchlint.cli.{module}"), attribute)
    assert command is main.get_command(click.Context(main), name)
    assert command.name == name


@pytest.mark.slow
def test_version_is_ours(tmp_path: Path) -> None:
    assert loaded(tmp_path, "--version")[1] == f"torchlint {__version__}\n"


INTERRUPTING = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
"""
STARTS = {
    "module": "import runpy; runpy.run_module('torchlint', run_name='__main__', alter_sys=True)",
    "script": "from torchlint.__main__ import program; program()",
}


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="needs signals")
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize(
    "name",
    [
        "torchlint.cli",
        "torchlint.cli.main",
        "torchlint.base.errors",
        "torchlint.cli.output",
        "torchlint.cli.commands",
    ],
)
def test_ctrl_c_while_modules_are_imported_is_one_line(
    tmp_path: Path, start: str, name: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTING.format(name=name) + STARTS[start], "rules"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "torchlint: interrupted\n")


def test_the_installed_script_is_the_program_that_catches_it() -> None:
    project = (Path(torchlint.__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '\ntorchlint = "torchlint.__main__:program"\n' in project


COUNTED = """
import sys
from re import _compiler as compiler
from torchlint.cli.main import run
from torchlint.run import run as runs
compiled, compile = [], compiler.compile
compiler.compile = lambda *args: compiled.append(args[0]) or compile(*args)
def in_this_process(jobs, options, analyse):
    for job in jobs:
        yield analyse(job)
runs.run = in_this_process  # to be counted
code = run(sys.argv[1:])
ours = sum(name.startswith("torchlint") for name in sys.modules)
print("counted", len(compiled), ours, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="re was one module")
def test_a_check_of_one_small_file_makes_only_what_it_uses(tmp_path: Path) -> None:
    """A pattern costs a fifth of a millisecond to compile, a module half a one to load: without
    `torchlint.base.regex` there were 400 patterns."""
    (tmp_path / "train.py").write_text(TRAINING)
    command = [sys.executable, "-c", COUNTED, "check", "--isolated", "--no-cache", "train.py"]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert run.returncode == 1, run.stderr
    patterns, modules = map(int, run.stderr.rpartition("counted ")[2].split())
    assert 20 < patterns < 150
    assert 100 < modules < 380
