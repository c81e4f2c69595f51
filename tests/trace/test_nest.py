"""What ran inside of what, also where an annotation begins in the call that opens it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.trace.program import Machine, written
from torchlint.trace.columns import NONE
from torchlint.trace.nest import parents
from torchlint.trace.stream import read


def test_an_annotation_lies_in_the_function_not_in_the_call_that_opens_it(tmp_path: Path) -> None:
    machine = Machine()
    for name, start, end in (
        ("function", 0, 100_000),
        ("enter", 1_000, 9_000),
        ("annotation", 5_000, 55_000),
        ("operator", 20_000, 40_000),
        ("inner", 25_000, 40_500),  # clocks differ a little
        ("exit", 50_000, 60_000),
        ("in exit", 56_000, 58_000),
        ("after", 70_000, 80_000),
        ("later", 200_000, 210_000),
    ):
        machine.event("cpu_op", name, machine.now + start, end - start)
    trace = read(written(tmp_path / "t.json", machine.events))
    found = parents(trace, np.ones(len(machine.events), np.bool_)).tolist()
    names = [trace.names[name] for name in trace.columns.name.tolist()]
    around = {
        name: NONE if up == NONE else names[up] for name, up in zip(names, found, strict=True)
    }
    assert around == {
        "function": NONE,
        "enter": "function",
        "annotation": "function",
        "operator": "annotation",
        "inner": "operator",
        "exit": "function",
        "in exit": "exit",
        "after": "function",
        "later": NONE,
    }
