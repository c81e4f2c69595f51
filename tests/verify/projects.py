"""Small training projects with one fixable finding, requests with fixes by hand, and what is true
of a sound result."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from torchlint.program.command import parse
from torchlint.program.machine import host
from torchlint.program.machine.doctor import Doctor
from torchlint.program.machine.process_tree import Process
from torchlint.source.document import read
from torchlint.verify.fixes import FixUnit, Replacement, Rows
from torchlint.verify.model import Expected, Verdict
from torchlint.verify.options import Options
from torchlint.verify.script.request import Request
from torchlint.verify.script.runs import RunRecord
from torchlint.verify.session.times import Times

PROGRAMS = Path(__file__).with_name("programs")
FINDING = "TL102@pkg/model.py:12"
MODEL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 10)

    def forward(self, x):
        h = torch.relu(self.a(x))
        pad = torch.zeros(x.size(0), 64).to(x.device)
        return self.b(h + pad)
"""
"""Holds the finding; written into each project, as a file of the tests with a finding would fail
our own check."""
SMALL = (
    *("--select", "TL102", "--output-format", "json", "--color", "never"),
    *(
        "--pairs",
        "8",
        "--launches",
        "1",
        "--block",
        "5",
        "--budget",
        "100s",
        "--check-steps",
        "6",
        "--warmup",
        "2",
    ),
)


@dataclass(frozen=True)
class Verified:
    """What the command line said: exit code, report (None without one), standard error, processes
    left over."""

    code: int
    report: dict[str, Any] | None
    errors: str
    workspace: Path | None
    left: tuple[Process, ...]

    @property
    def variant(self) -> dict[str, Any]:
        """The one fix's result."""
        assert self.report is not None, self.errors
        (variant,) = self.report["variants"]
        return dict(variant)


@dataclass(frozen=True)
class Recorded:
    """One check run, and one launch of the original and its copy in lock-step."""

    check: RunRecord
    timed: Times


def hashes(root: Path) -> dict[str, str]:
    """Return the hash of every file of a project."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def assert_sound(done: Verified, root: Path, before: dict[str, str]) -> None:
    """Hold what is true of every verification whose fix is right."""
    assert done.report is not None, done.errors
    report, variant = done.report, done.variant
    assert done.code == (1 if variant["speed"]["verdict"] == "slower" else 0), done.errors
    assert (report["schema_version"], report["mode"]) == (1, "script")
    assert variant["id"] == f"fix:{FINDING}"
    assert variant["status"] == "ok", variant["error"]
    assert variant["exercised"] is True
    equivalence = variant["equivalence"]
    assert (equivalence["level"], equivalence["ok"]) == ("bitwise", True), equivalence
    assert variant["speed"]["verdict"] in {verdict.value for verdict in Verdict} - {
        "not measured",
        "not exercised",
    }
    assert variant["speed"]["n"] == len(variant["blocks_ns"]) > 0
    assert report["null_control"]["n"] > 0
    assert report["safety"]["tree_unchanged"] is True
    assert hashes(root) == before
    assert done.workspace is not None
    assert not done.workspace.exists()
    assert done.left == ()


def planted(root: Path, *, timeout: float = 120.0, **fixes: tuple[str, ...]) -> Request:
    """Return a request to compare results and counts alone, with fixes by hand: old and new texts
    of ``train.py``."""
    source = read(str(root / "train.py"), "train.py", 0)
    units = []
    for name, texts in fixes.items():
        pairs = [
            (source.text.index(old), old, new)
            for old, new in zip(texts[::2], texts[1::2], strict=True)
        ]
        row = source.text.count("\n", 0, pairs[0][0]) + 1
        units.append(
            FixUnit(
                id=f"{name}@train.py:{row}",
                codes=(name,),
                title=name,
                where=f"train.py:{row}",
                expected=Expected.BITWISE,
                note="",
                replacements=tuple(
                    Replacement("train.py", at, at + len(old), new) for at, old, new in pairs
                ),
                places=(Rows("train.py", row, row),),
            )
        )
    options = Options(device="virtual-cuda", check_steps=6, timeout=timeout)
    command = parse(["train.py"], root, root)
    doctor = Doctor(sys.executable, host.look(root), torch="")
    return Request(root, root, command, tuple(units), {"train.py": source}, (), options, doctor)


def frameworks_python(module: str) -> str:
    """Return an interpreter that has a framework, or skip: ``TORCHLINT_FRAMEWORKS_PYTHON`` names
    one."""
    named = os.environ.get("TORCHLINT_FRAMEWORKS_PYTHON")
    if named is None and importlib.util.find_spec(module) is None:
        pytest.skip(
            f"{module} is not installed; TORCHLINT_FRAMEWORKS_PYTHON may name an interpreter "
            "that has it"
        )
    return named or sys.executable
