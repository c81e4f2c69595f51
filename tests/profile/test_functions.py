"""What functions of a program take themselves of the host's time, and when that is told."""

from __future__ import annotations

from pathlib import Path

from tests.profile.divided import divided
from tests.profile.test_join import SOURCES, Program
from tests.trace.program import written
from torchlint.profile.functions import FunctionCost, functions
from torchlint.profile.live import Steps
from torchlint.profile.output import run
from torchlint.profile.places import Places
from torchlint.trace.stream import read


def test_python_is_a_functions_own_without_operators_and_batches(tmp_path: Path) -> None:
    machine = Program()
    with machine.frame("/p/train.py(1): <module>"):
        machine.host(30_000)
        begun = machine.now
        machine.host(500_000)
        wait = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        machine.event("user_annotation", wait, begun, machine.now - begun)
        with machine.frame("/p/train.py(6): train"):
            machine.host(200_000)
            with machine.operator("aten::relu"):
                machine.host(900_000)
            with machine.frame("/p/train.py(3): helper"):
                machine.host(50_000)
            with machine.frame("torch/nn/modules/module.py(1): _call_impl"):
                machine.host(40_000)
    trace = read(written(tmp_path / "t.json", machine.events))
    found = {each.function: each.python_ns for each in functions(Places(trace, SOURCES))}
    assert [*found] == ["train", "helper", "<module>"]
    # Each frame takes 100 ns to begin and 100 to end.
    assert abs(found["train"] - 240_000) <= 500
    assert abs(found["helper"] - 50_000) <= 500
    assert abs(found["<module>"] - 30_000) <= 500


def told(rest: int, *costs: FunctionCost) -> str:
    """Return what is said of functions, where of a step of 1 ms so much is Python's."""
    parts = divided(4, 1_000_000, {"operators": 1_000_000 - rest})
    steps = Steps((".",), ("t.py",), "optimizer", None, parts, functions=costs)
    return dict(run.rows(steps)).get("    most of it Python in", "")


def test_functions_are_named_where_python_is_the_bottleneck() -> None:
    costs = [
        FunctionCost("a.py", name, time)
        for name, time in (("f", 1_000_000), ("g", 200_000), ("h", 100_000))
    ]
    shares = "f of a.py (25.0 %), g of a.py (5.0 %)"
    assert told(400_000, *costs) == f"{shares} of a step under the profiler"
    assert not told(200_000, *costs)
    assert not told(400_000, costs[2])
