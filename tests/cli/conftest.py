"""A torchlint with rules made for tests, so that the command line is not at the mercy of what real rules find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import torchlint
from tests.patience import PATIENCE
from tests.small_plugin import fix, rule_text

RULES = (
    ("TL101", "slow", "warning", "SAFE", "", "pass"),
    ("TL102", "odd", "error", "UNSAFE", "It may round.", "pass"),
    ("TL103", "hint", "info", "SUGGESTION", "", "pass"),
    ("TL104", "crash", "warning", "SAFE", "", "1 / 0"),
    ("TL105", "hang", "warning", "SAFE", "", "time.sleep(600)"),
    ("TL106", "die", "warning", "SAFE", "", "ctypes.string_at(0)"),
)


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds a copy of the package with `RULES` instead of its own rules."""
    folder = tmp_path_factory.mktemp("package")
    source = Path(torchlint.__file__).parent
    shutil.copytree(source, folder / "torchlint", ignore=shutil.ignore_patterns("__pycache__"))
    rules = folder / "torchlint" / "rules"
    for path in rules.glob("*/*.py"):
        if path.name != "__init__.py":
            path.unlink()
    for code, name, severity, safety, note, action in RULES:
        text = rule_text(name, code, f"{action}\n{fix('fine', safety, note)}", severity=severity)
        (rules / "transfer" / f"{name}.py").write_text(text)
    return folder


@dataclass
class Cli:
    """Runs ``torchlint`` in a folder of its own."""

    package: Path
    cwd: Path
    environment: dict[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "torchlint", *arguments]

    def variables(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS")
        }
        return {**kept, "PYTHONPATH": str(self.package), **self.environment}

    def __call__(
        self, *arguments: str, stdin: bytes | None = None, code: int | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end; with `code`, hold the exit code to it."""
        done = subprocess.run(
            self.command(*arguments),
            input=b"" if stdin is None else stdin,
            capture_output=True,
            cwd=self.cwd,
            env=self.variables(),
            timeout=PATIENCE,
            check=False,
        )
        result = subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode("utf-8", "surrogateescape"),
            done.stderr.decode("utf-8", "surrogateescape"),
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
def cli(package: Path, tmp_path: Path) -> Cli:
    cwd = tmp_path / "project"
    cwd.mkdir()
    (cwd / ".git").mkdir()
    return Cli(package, cwd)


@pytest.fixture
def source() -> Callable[..., str]:
    """Return Python text that calls ``torch.NAME()`` for each name, from the second line on."""
    return lambda *names: "import torch\n" + "".join(f"torch.{name}()\n" for name in names)
