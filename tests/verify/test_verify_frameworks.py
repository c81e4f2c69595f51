"""Programs of every kind under the recorder, and two trainers that own the loop, through the whole
of verify."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.projects import Recorded, Verified, assert_sound, frameworks_python, hashes
from torchlint.verify.model import Level
from torchlint.verify.variants import NULL

pytestmark = [
    pytest.mark.usefixtures("zygotes"),
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the programs need torch"),
]


@pytest.mark.parametrize(
    ("program", "command", "boundary", "seen"),
    [
        ("workers", ["train.py", "spawn"], "optimizer", 6 + 4),
        ("adversaries", ["train.py"], "optimizer", 9 + 6),  # the maker's three, the judge's six
        ("closures", ["train.py"], "optimizer", 24 + 4),  # four calls of the closure each
        ("ranks", ["torchrun", "--nproc-per-node", "2", "train.py"], "optimizer", 6 + 4),
        ("spawned", ["train.py"], "optimizer", 6 + 4),
        ("compiled", ["train.py"], "backward", 64 + 6),
        ("inference", ["train.py"], "batch", 261),  # no loss, no weight: what the model gives
    ],
)
def test_steps_are_seen_stopped_and_timed(
    project: Callable[..., Path],
    recorded: Callable[..., Recorded],
    program: str,
    command: list[str],
    boundary: str,
    seen: int,
) -> None:
    root = project(program)
    before = hashes(root)
    found = recorded(root, *command)
    record = found.check.record
    assert (record["boundary"], record["steps"], record["reason"]) == (boundary, 6, "step budget")
    assert record["trouble"] == []
    assert record["seen"] == seen  # losses and weights, outputs of a model that evaluates
    assert found.timed.failures == {}
    assert len(found.timed.pairs(NULL)) == 3
    assert all(
        block.wall > 0 and block.cpu > 0 for pair in found.timed.pairs(NULL) for block in pair
    )
    assert hashes(root) == before


def test_module_with_worker_processes_scaler_and_schedule(
    project: Callable[..., Path], verify: Callable[..., Verified]
) -> None:
    root = project("workers", script="pkg/train.py")
    before = hashes(root)
    assert_sound(verify(root, "-m", "pkg.train"), root, before)


@pytest.mark.parametrize(
    ("mode", "level", "silent"),
    [(".eval()", Level.BITWISE, False), ("", Level.UNKNOWN, True)],
    ids=["a model that evaluates", "nothing that is known to be a result"],
)
def test_a_program_without_training_is_compared_by_what_its_model_gives(
    project: Callable[..., Path],
    verify: Callable[..., Verified],
    mode: str,
    level: Level,
    silent: bool,
) -> None:
    root = project("inference")
    script = root / "train.py"
    script.write_text(script.read_text().replace(".eval()", mode))
    done = verify(root, "train.py", options=("--device", "virtual-cuda"))
    assert done.report is not None, done.errors
    assert done.code == 0
    assert done.variant["equivalence"]["level"] == level.value
    assert (
        any("no results were compared" in warning for warning in done.report["warnings"]) is silent
    )
    assert done.variant["speed"]["verdict"] == "not measured"
    assert done.report["null_control"] is None


@pytest.mark.parametrize(
    ("program", "module"), [("with_lightning", "lightning"), ("with_transformers", "transformers")]
)
def test_trainer_that_owns_the_loop(
    project: Callable[..., Path], verify: Callable[..., Verified], program: str, module: str
) -> None:
    python = frameworks_python(module)
    root = project(program)
    before = hashes(root)
    assert_sound(verify(root, "train.py", options=("--python", python)), root, before)
