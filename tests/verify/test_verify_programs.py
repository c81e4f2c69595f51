"""Whole programs through ``torchlint verify``: what it finds, what it leaves, and wrong fixes that
it must catch."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.verify.projects import Recorded, Verified, assert_sound, hashes, planted
from torchlint.cli.verify import failures
from torchlint.verify.model import Expected, Level, Status, VariantResult, Verdict
from torchlint.verify.script import script_mode
from torchlint.verify.script.request import Request
from torchlint.verify.variants import NULL, ORIGINAL

pytestmark = [
    pytest.mark.usefixtures("zygotes"),
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the programs need torch"),
]

RIGHT = ("lr=1e-3", "lr=1e-3, amsgrad=False")
DTYPE = (
    "model = Net()",
    "model = Net().double()",
    "torch.randn(16, 32)",
    "torch.randn(16, 32).double()",
)
RNG = ("optimizer.zero_grad()", "optimizer.zero_grad(), torch.rand(1)")
UPDATE = ("optimizer.step()", "optimizer.step() if _ % 3 else None")
CRASH = ("nn.CrossEntropyLoss()", "nn.CrossEntropyLose()")
IDLE = ("int(sys.argv[2])", "int(sys.argv[3])")
HANG = ("for _ in range(steps):", "__import__('time').sleep(1000)\nfor _ in range(steps):")


def verified(request: Request) -> dict[str, VariantResult]:
    """Return the results by the rule's made-up code."""
    report = script_mode.run(request, lambda line: None, lambda line: None)
    assert report.tree_unchanged is True
    return {
        variant.id.partition("@")[0].removeprefix("fix:"): variant for variant in report.variants
    }


def test_script_in_subfolder_of_path_with_spaces(
    project: Callable[..., Path], verify: Callable[..., Verified]
) -> None:
    root = project("plain", name="my pröject ✓", script="scripts of mine/train.py")
    before = hashes(root)
    done = verify(root, "train.py", cwd=root / "scripts of mine", from_nothing=True)
    assert_sound(done, root, before)
    assert done.report is not None
    assert done.report["command"] == ["train.py"]
    assert done.report["plan"]["block_steps"] == 5
    assert done.variant["counts"]["basis"] == "virtual-cuda"
    assert done.variant["memory"]["basis"] == "vmhwm"


def test_wrong_fixes_are_caught(project: Callable[..., Path]) -> None:
    request = planted(
        project("plain"), right=RIGHT, dtype=DTYPE, rng=RNG, update=UPDATE, crash=CRASH, idle=IDLE
    )
    report = script_mode.run(request, lambda line: None, lambda line: None)
    found = {
        variant.id.partition("@")[0].removeprefix("fix:"): variant for variant in report.variants
    }
    wrong = [found[name].id for name in ("dtype", "rng", "update", "crash", "all")]
    assert failures(report, ("different",)) == wrong
    levels = {
        name: variant.equality.level
        for name, variant in found.items()
        if variant.equality is not None
    }
    assert levels.pop("right") is Level.BITWISE
    assert set(levels.values()) == {Level.DIFFERENT}
    dtype, rng = found["dtype"].equality, found["rng"].equality
    assert dtype is not None
    assert rng is not None
    assert any("torch.float32 and torch.float64" in note for note in dtype.notes)
    assert (rng.rng_changed, dtype.rng_changed) == (True, False)
    assert any("random numbers: the torch generator" in note for note in rng.notes)
    crash = found["crash"]
    assert (crash.status, found["all"].status) == (Status.BROKEN, Status.BROKEN)
    assert "CrossEntropyLose" in crash.error
    assert crash.speed.verdict is Verdict.NOT_MEASURED
    assert {found[name].status for name in ("right", "dtype", "rng", "update")} == {Status.OK}
    assert [name for name, variant in found.items() if variant.exercised is not True] == ["idle"]
    idle = found["idle"]
    assert (idle.exercised, idle.speed.verdict) == (False, Verdict.NOT_EXERCISED)
    assert report.tree_unchanged is True


def test_short_program_keeps_its_complete_rounds(
    project: Callable[..., Path], recorded: Callable[..., Recorded]
) -> None:
    # Two steps to warm up and seven for the trial leave the original 21: three rounds of two and
    # five.
    found = recorded(project("plain"), "train.py", "--steps", "30", rounds=10)
    assert len(found.timed.pairs(NULL)) == 3
    assert {name: (str(error), error.kind) for name, error in found.timed.failures.items()} == {
        ORIGINAL: ("ended", "done")
    }


@pytest.mark.slow
def test_fix_that_hangs_times_out_and_the_others_stand(project: Callable[..., Path]) -> None:
    found = verified(planted(project("plain"), timeout=60.0, right=RIGHT, hang=HANG))
    assert (found["hang"].status, found["all"].status) == (Status.TIMEOUT, Status.TIMEOUT)
    assert "timed out after 60 s after 0 steps" in found["hang"].error
    assert found["hang"].equality is not None
    assert not found["hang"].equality.ok
    right = found["right"]
    assert right.status is Status.OK
    assert right.equality is not None
    assert (right.equality.level, right.equality.expected) == (Level.BITWISE, Expected.BITWISE)
    assert right.counts is not None
