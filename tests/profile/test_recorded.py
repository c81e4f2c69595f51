"""Traces that this torch records: they are read, and lines that are told are the right ones."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests.profile import test_replay
from torchlint.profile.places import Places
from torchlint.profile.sites import Source, Sources
from torchlint.trace.columns import NONE, OPERATOR, PYTHON, Ints, Trace
from torchlint.trace.figures import figures
from torchlint.trace.nest import parents
from torchlint.trace.stream import read

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("recorded.py")
ROOT = Path(test_replay.__file__).parents[2]
RECORD = """
import sys
from torch.profiler import ProfilerActivity, profile
from tests.profile.recorded import main
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as found:
    main(3)
found.export_chrome_trace(sys.argv[1])
"""


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    pytest.importorskip("torch")
    path = tmp_path_factory.mktemp("recorded") / "t.json"
    subprocess.run([sys.executable, "-c", RECORD, str(path)], cwd=ROOT, check=True)
    return read(str(path))


def test_a_recorded_trace_is_read_whole(trace: Trace) -> None:
    assert (trace.lost, trace.repaired, trace.cut_off) == (0, 0, "")
    found = figures(trace)
    assert found.temporal is None
    assert found.events > 100
    assert {OPERATOR, PYTHON} <= set(trace.cats)


def marked(trace: Trace, around: Ints, row: int) -> int:
    """Return the line of the statement around an operator: the one below its mark."""
    while row != NONE:
        name = trace.names[trace.columns.name[row]]
        if name.startswith("line "):
            return int(name.split()[1]) + 1
        row = int(around[row])
    return 0


def test_lines_that_are_told_are_right(trace: Trace) -> None:
    """Operators stand in marks that know their lines; all that is told must agree."""
    source = Source(str(PROGRAM), "recorded.py", PROGRAM.read_text(encoding="utf-8"))
    places = Places(trace, Sources([source]))
    told: Counter[str] = Counter()
    around = parents(trace, np.ones(len(trace.columns.ts), np.bool_))
    for row in np.flatnonzero(trace.of_cat(OPERATOR)).tolist():
        site, truth = places.of(row), marked(trace, around, row)
        if truth:
            told[site.certainty] += 1
            assert not site.has_line or site.line == truth, site
            assert site.file == "recorded.py", site
    assert told["unique"] + told["aligned"] > 0.99 * told.total(), told
    assert told["unique"] > 0.4 * told.total(), told
