"""What a cold analysis costs, counted in calls of functions and not in seconds: for each line of
some programs, and for a library of twice as many files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from benchmarks.library import library
from tests.checking import job
from tests.semantic.test_project import write
from torchlint.engine.job import Job
from torchlint.run.projects import forget
from torchlint.run.worker import analyse_job

CASES = Path(__file__).parents[2] / "fixtures" / "cases"
MOST = {
    "29_loops_over_elements/train.py": 4_100,
    "29_what_an_interval_guards/train.py": 2_750,
    "30_attention_by_hand/model.py": 1_600,
    "30_loops_that_run_a_model/train.py": 2_350,
}
"""By program a seventh more than the calls for each line of it on 2026-11-27, CPython 3.11."""


def cost(jobs: Iterable[Job]) -> int:
    """Return how many functions are called to analyse files of one project that nobody has read
    yet."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    forget()
    for each in jobs:
        sys.setprofile(note)
        try:
            analyse_job(each)
        finally:
            sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", MOST)
def test_a_line_costs_so_many_calls(name: str) -> None:
    text = (CASES / name).read_text()
    cost([job(text)])  # what is imported and remembered once
    assert cost([job(f"# As a new text.\n{text}")]) / text.count("\n") < MOST[name]


def cost_of(folder: Path, files: Mapping[str, str]) -> int:
    """Return what it costs to analyse all files of a project."""
    write(folder, files)
    return cost(job(text, name=name, root=str(folder)) for name, text in files.items())


def test_twice_the_files_are_about_twice_the_work(tmp_path: Path) -> None:
    cost_of(tmp_path / "before", library(5))  # what is imported and remembered once
    some = cost_of(tmp_path / "some", library(10))
    twice = cost_of(tmp_path / "twice", library(20))
    assert twice / some < 2.3
