"""Factories for findings and runs; every test states only what it is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from torchlint.base.finding import (
    Edit,
    FileReport,
    Finding,
    Note,
    Reason,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.span import LineIndex, Position, Span
from torchlint.report.run_report import RuleMeta, RunReport

TEXT = """\
import torch


def train(model, loader):
    for x in loader:
        mask = torch.zeros(8).to("cuda")
        loss = model(x, mask)
        loss.backward()
"""
META = RuleMeta(
    code="TL102",
    name="cpu-then-move",
    title="Tensor made on the CPU, then moved",
    severity=Severity.WARNING,
    family="transfer",
    help_markdown="## Why\nThe copy waits.",
    url="https://example.org/TL102",
    help_text="WHY\n\nThe copy waits.",
    cost="2.00x faster on a GPU",
)


def edit_of(text: str, old: str, new: str) -> Edit:
    """Return the edit that replaces the only `old` of `text`."""
    assert text.count(old) == 1
    begin = text.index(old)
    index = LineIndex(text)
    span = Span(begin, begin + len(old))
    return Edit(span, new, index.position(span.start), index.position(span.end))


def rows_of(text: str, cell: int | None = None) -> tuple[tuple[int | None, int, str], ...]:
    index = LineIndex(text)
    return tuple((cell, row, index.line(row)) for row in range(1, len(index) + 1))


@pytest.fixture
def make_edit() -> Callable[[str, str, str], Edit]:
    return edit_of


@pytest.fixture
def safe_fix() -> TextFix:
    edit = edit_of(TEXT, 'torch.zeros(8).to("cuda")', 'torch.zeros(8, device="cuda")')
    return TextFix(Safety.SAFE, "Pass device= to the factory", (edit,))


@pytest.fixture
def make_finding(safe_fix: TextFix) -> Callable[..., Finding]:
    def make(**changes: Any) -> Finding:
        finding = Finding(
            code="TL102",
            name="cpu-then-move",
            message="Tensor is made on the CPU, then moved to `cuda`",
            severity=Severity.WARNING,
            filename="train.py",
            start=Position(6, 16),
            end=Position(6, 41),
            statement=6,
            statement_end=6,
            fingerprint="0123456789abcdef",
            fix=safe_fix,
            why_hot=(
                Reason("every step: for x in loader", "train.py", 5),
                Reason("called from main()", "main.py", 88),
            ),
        )
        return dataclasses.replace(finding, **changes)

    return make


@pytest.fixture
def make_run() -> Callable[..., RunReport]:
    """Return a factory: findings, with `text` as the file they stand in, plus fields of the run."""

    def make(
        *findings: Finding,
        text: str = TEXT,
        notes: tuple[Note, ...] = (),
        files: tuple[FileReport, ...] | None = None,
        **fields: Any,
    ) -> RunReport:
        if files is None:
            names = dict.fromkeys([*(f.filename for f in findings), *(n.filename for n in notes)])
            files = tuple(
                FileReport(
                    name,
                    tuple(f for f in findings if f.filename == name),
                    tuple(n for n in notes if n.filename == name),
                    source=rows_of(text),
                )
                for name in names
            )
        fields = {"files_checked": len(files), **fields}
        return RunReport(files, "1.2.3", {META.code: META}, "/project", **fields)

    return make
