"""A torchlint with rules made for tests, so that the command line is not at the mercy of what real
rules find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import torchlint
from tests.conftest import BEING_WRITTEN
from tests.forked import Origin, origin
from tests.patience import PATIENCE
from tests.small_plugin import fix, rule_text
from torchlint.base.places import VARIABLES

RULES = (
    ("TL101", "slow", "warning", "SAFE", "", "pass"),
    ("TL102", "odd", "error", "UNSAFE", "It may round.", "pass"),
    ("TL103", "hint", "info", "SUGGESTION", "", "pass"),
    ("TL104", "crash", "warning", "SAFE", "", "1 / 0"),
    ("TL105", "hang", "warning", "SAFE", "", "time.sleep(600)"),
    ("TL106", "die", "warning", "SAFE", "", "ctypes.string_at(0)"),
)


@pytest.fixture(scope="session")
def small_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds a copy of the package with `RULES` instead of its own rules."""
    folder = tmp_path_factory.mktemp("small")
    source = Path(torchlint.__file__).parent
    shutil.copytree(source, folder / "torchlint", ignore=BEING_WRITTEN)
    rules = folder / "torchlint" / "rules"
    for path in rules.glob("*/*.py"):
        if path.name != "__init__.py":
            path.unlink()
    for code, name, severity, safety, note, action in RULES:
        text = rule_text(name, code, f"{action}\n{fix('fine', safety, note)}", severity=severity)
        (rules / "transfer" / f"{name}.py").write_text(text)
    return folder


@pytest.fixture(scope="session")
def small_copies(small_package: Path) -> Iterator[Origin | None]:
    """What runs of that copy are forks of."""
    with origin(small_package) as found:
        yield found


@dataclass
class Cli:
    """Runs ``torchlint`` in a folder of its own.

    Args:
        package: the folder that holds the package.
        cwd: the folder.
        origin: what a run is a fork of; None for a process that starts from nothing.
        environment: variables on top of the environment.
    """

    package: Path
    cwd: Path
    origin: Origin | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "torchlint", *arguments]

    def variables(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS")
            and name not in VARIABLES.values()
        }
        return {**kept, "PYTHONPATH": str(self.package), **self.environment}

    def forks(self, environment: Mapping[str, str]) -> bool:
        """Say whether a run may be a fork: it looks for modules in the package first, as the origin
        did."""
        if self.origin is None or not self.origin.takes(environment):
            return False
        return environment["PYTHONPATH"].split(os.pathsep)[0] == self.origin.path

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, code: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; with `code`, hold the exit code to it."""
        data, environment = stdin or b"", self.variables()
        if self.forks(environment):
            assert self.origin is not None
            ended = self.origin.run(
                arguments, cwd=self.cwd, env=environment, stdin=data, timeout=PATIENCE
            )
            code_, out, err = ended.code, ended.out, ended.err
        else:
            done = subprocess.run(
                self.command(*arguments),
                input=data,
                capture_output=True,
                cwd=self.cwd,
                env=environment,
                timeout=PATIENCE,
                check=False,
            )
            code_, out, err = done.returncode, done.stdout, done.stderr
        result = subprocess.CompletedProcess(
            self.command(*arguments),
            code_,
            out.decode("utf-8", "surrogateescape"),
            err.decode("utf-8", "surrogateescape"),
        )
        assert "Traceback" not in result.stdout + result.stderr, result.stderr
        if code is not None:
            assert result.returncode == code, result.stdout + result.stderr
        return result

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path


@pytest.fixture
def cli(small_package: Path, small_copies: Origin | None, tmp_path: Path) -> Cli:
    cwd = tmp_path / "project"
    cwd.mkdir()
    (cwd / ".git").mkdir()
    return Cli(small_package, cwd, small_copies)


@pytest.fixture
def ours(cli: Cli, package: Path, copies: Origin | None) -> Cli:
    """A `cli` with the rules that torchlint has."""
    cli.package, cli.origin = package, copies
    return cli


@pytest.fixture
def process(cli: Cli) -> Cli:
    """A `cli` whose runs start from nothing, for what is said about starting."""
    cli.origin = None
    return cli


@pytest.fixture
def source() -> Callable[..., str]:
    """Return Python text that calls ``torch.NAME()`` for each name, from the second line on."""
    return lambda *names: "import torch\n" + "".join(f"torch.{name}()\n" for name in names)
