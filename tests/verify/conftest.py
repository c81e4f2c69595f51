"""Makes a training project, and runs it: through the command line, or by the passes alone."""

from __future__ import annotations

import io
import json
import random
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.verify.prepared import Prepared
from tests.verify.projects import MODEL, PROGRAMS, SMALL, Recorded, Verified
from tests.verify.verify_lab import Ran
from torchlint.cli.main import run
from torchlint.program.command import Command, parse
from torchlint.program.machine.process_tree import Family
from torchlint.program.machine.workspace import Workspace
from torchlint.verify.model import Status
from torchlint.verify.options import Options
from torchlint.verify.script.pacing import Pace
from torchlint.verify.script.runs import Home, Runner
from torchlint.verify.script.time_pass import TimePass
from torchlint.verify.session.site import site_in
from torchlint.verify.session.workers import Zygote
from torchlint.verify.variants import NULL, ORIGINAL, Variant


@pytest.fixture
def zygotes(prepared: Prepared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork all zygotes of a test, and programs under the ledger, from what is there already."""
    monkeypatch.setattr("torchlint.profile.running.start", prepared.program)
    monkeypatch.setattr(Zygote, "_start", prepared.zygote)


@pytest.fixture
def project(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that makes a project: a program under a name of one's own, and the module
    with the finding."""

    def make(program: str, name: str = "project", script: str = "train.py") -> Path:
        root = tmp_path / name
        for path, text in {
            ".git/HEAD": "ref: refs/heads/main\n",
            "pkg/__init__.py": "",
            "pkg/model.py": MODEL,
            script: (PROGRAMS / f"{program}.py").read_text(encoding="utf-8"),
        }.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
        return root

    return make


@pytest.fixture
def verify(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Verified]:
    """Return a function that runs ``torchlint verify`` with small settings: here, or from nothing,
    in a process of its own."""

    def here(words: Sequence[str], folder: Path) -> Ran:
        out, err = io.StringIO(), io.StringIO()
        with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(folder)
            code = run(list(words))
        return Ran(code, out.getvalue(), err.getvalue())

    def process(words: Sequence[str], folder: Path) -> Ran:
        command = [sys.executable, "-m", "torchlint", *words]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
        return Ran(done.returncode, done.stdout, done.stderr)

    def verified(
        root: Path,
        *command: str,
        options: tuple[str, ...] = (),
        cwd: Path | None = None,
        from_nothing: bool = False,
    ) -> Verified:
        words = ["verify", str(root), *SMALL, *options, "--", *command]
        done = (process if from_nothing else here)(words, cwd or root)
        found = re.search(r"copies under (\S+);", done.err)
        left = Family(None, f"{found[1]}", prefix=True).members() if found else []
        report = json.loads(done.out) if done.out.strip() else None
        return Verified(done.code, report, done.err, Path(found[1]) if found else None, tuple(left))

    return verified


@pytest.fixture
def workspace() -> Iterator[Workspace]:
    """Return a workspace that lasts as long as the test."""
    with Workspace() as made:
        yield made


@pytest.fixture
def runner(workspace: Workspace) -> Iterator[Callable[..., tuple[Runner, Home]]]:
    """Return a function that makes a runner of a command in a project, and its one copy."""
    runners = ExitStack()

    def make(root: Path, *typed: str, **options: Any) -> tuple[Runner, Home]:
        command: Command = parse(list(typed), root, root)
        settings = Options(
            **{"warmup": 2, "block": 5, "check_steps": 6, "isolation": "copy", **options}
        )
        made = runners.enter_context(
            Runner(site_in(workspace, settings), command, root, root, "cpu")
        )
        home = Home(
            ORIGINAL,
            workspace.copy(root, f"original/{root.name}"),
            workspace.path / "original-home",
        )
        home.folder.mkdir()
        return made, home

    with runners:
        yield make


@pytest.fixture
def recorded(
    runner: Callable[..., tuple[Runner, Home]], workspace: Workspace
) -> Callable[..., Recorded]:
    """Return a function that runs a program once for its results, and twice in lock-step: the
    passes without fixes."""

    def passes(root: Path, *typed: str, rounds: int = 3, **options: Any) -> Recorded:
        made, home = runner(root, *typed, **options)
        (check,) = made.all(
            [(home, "check", {"steps": made.options.check_steps})], 2, lambda name: None
        )
        assert check is not None
        assert check.status is Status.OK, check.tail
        other = Home(NULL, workspace.copy(root, f"null/{root.name}"), workspace.path / "null-home")
        other.folder.mkdir()
        sockets = workspace.path / "s"
        sockets.mkdir()
        homes = {ORIGINAL: home, NULL: other}
        timing = TimePass(made, homes, sockets, 2, 64, random.Random(0), lambda line: None)
        pace = Pace(0.001, 1.0, 2, 2, made.options)
        timing.launch([Variant(ORIGINAL, "original"), Variant(NULL, "null")], rounds, 20.0, pace)
        made.warm.close()
        assert Family(None, str(workspace.path), prefix=True).members() == []
        return Recorded(check, timing.found)

    return passes
