"""A loop over a handful of things that are written down waits a handful of times, whatever leads
from there to the loop: a default, a choice, a comprehension."""

from __future__ import annotations

import pytest

from tests.findings.test_fresh_misreadings import messages

PHASES = """\
@torch.no_grad()
def diagnose(batch, wanted, steps={default}):
    {line}
    results = []
    for step in steps:
        off = model(batch[:, step].to(device)) - batch[:, step + 1].to(device)
        results.append({{"step": step, "mse": float(off.square().mean())}})
    return results


print(diagnose(torch.rand(8, 100, 8), None{given}))
"""


@pytest.mark.parametrize(
    ("default", "line", "given", "said"),
    [
        ("None", "if steps is None: steps = tuple(s for s in (0, 5, 20) if s < 9)", "", False),
        ("(0, 5, 20)", "pass", "", False),
        ("None", "steps = steps or [0, 5, 20]", "", False),
        ("None", "steps = (0, 5, 20) if steps is None else steps", ", (1, 2)", False),
        ("(0, 5, 20)", "steps = sorted(steps)", "", False),
        ("(0, 5)", "pass", ", (7, 8, 9)", False),
        ("None", "steps = steps or range(90)", "", True),
        ("(0, 5)", "pass", ", range(90)", True),
        ("None", "steps = wanted or (0, 5, 20)", "", True),
        ("None", "steps = tuple(s for s in range(90) if s < 9)", "", True),
        ("None", "steps = [s + t for s in (0, 5) for t in range(40)]", "", True),
        ("None", "steps = [torch.randint(s, (4,)) for s in (5, 9)]", "", True),
        ("None", "pass", "", True),
        ("(0, 5)", "steps = list_of(steps)", "", True),
    ],
)
def test_a_read_of_each_of_a_handful(default: str, line: str, given: str, said: bool) -> None:
    program = PHASES.format(default=default, line=line, given=given)
    assert bool(messages(program, "TL101")) is said
