"""Unsafe fixes say in one sentence what may change: each note is quoted here, and each quote is a
note.

The findings are those of a rule's own Bad examples, of its fixture and of its corner cases.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

from tests.checking import check, rules
from tests.corner_cases import corners_of
from torchlint.base.finding import Safety, TextFix
from torchlint.testing.promises import programs

FIXTURES = Path(__file__).parents[2] / "fixtures" / "rules"
RULES = {info.code: info for info in rules()}
NOTES = [
    ("TL101", "an exception handler or debugger"),
    ("TL101", "float64 (MPS) the sum raises"),
    ("TL101", "rounded to the tensor's own dtype"),
    ("TL101", "gives 0.0 instead of 0"),
    ("TL101", "the list holds tensors"),
    ("TL101", "or a division by zero, raises after the loop"),
    ("TL101", "of different devices would raise"),
    ("TL101", "Only every 50th step is logged"),
    ("TL101", "Between the uses the name holds a tensor"),
    ("TL101", "redrawn every 50th step only"),
    ("TL101", "division by zero gives inf or nan"),
    ("TL101", "as it was before the loop"),
    ("TL101", "multiplies by its inverse"),
    ("TL101", "number of NumPy may raise"),
    ("TL101", "whole part is taken"),
    ("TL101", "does not go on at the line after the loop"),
    ("TL101", "code outside of this project"),
    ("TL101", "no longer includes the wait"),
    ("TL101", "the dictionary holds tensors"),
    ("TL101", "in the dictionary become numbers"),
    ("TL102", "the next shuffle change"),
    ("TL102", "differ in the last place"),
    ("TL102", "not known to be a plain number"),
    ("TL102", "becomes the leaf"),
    ("TL102", "device=None the CPU"),
    ("TL102", "evaluated twice"),
    ("TL102", "in the other dtype at once"),
    ("TL102", "gets the default one from the factory"),
    ("TL102", "computed on the device may round"),
    ("TL102", "on several devices"),
    ("TL102", "among the items of the loop"),
    ("TL102", "with the strides of one"),
    ("TL102", "torch.arange raises there"),
    ("TL102", "is a view of the tensor"),
    ("TL102", "is said by its name alone"),
    ("TL102", "has tensors of its own"),
    ("TL103", "takes no non_blocking"),
    ("TL103", "under its other names too"),
    ("TL103", "instead of on the host"),
    ("TL103", "other than CUDA"),
    ("TL103", "may be written again before the copy has ended"),
    ("TL103", "memory that cannot be swapped out"),
    ("TL104", "round differently"),
    ("TL104", "on the tensor's own device"),
    ("TL105", "Only every 50th step"),
    ("TL106", "DDP broadcasts it"),
    ("TL106", "torch.arange raises there"),
    ("TL106", "no number but a tensor"),
    ("TL106", "default dtype was changed"),
    ("TL106", "has tensors of its own"),
    ("TL109", "a `to` of its own"),
    ("TL111", "raised at a later line"),
    ("TL112", "does not fit the dtype, torch.full raises"),
    ("TL112", "has tensors of its own"),
    ("TL113", "memory grows with the loop"),
    ("TL113", "whose memory fills with it"),
    ("TL113", "it now keeps a copy"),
    ("TL113", "has to be another tensor in each step"),
    ("TL113", "the list is left with tensors of the device"),
    ("TL113", "no longer takes a graph along"),
    ("TL113", "also the parts that the loop does not come to"),
    ("TL201", "draw from the workers' seeds"),
    ("TL202", "cannot be swapped out"),
    ("TL203", "drew random numbers"),
    ("TL116", "no longer raise"),
    ("TL208", "the shuffled order"),
    ("TL305", "Needs NCCL"),
    ("TL401", "other random numbers for dropout"),
    ("TL402", "rounded to float32"),
    ("TL404", "finite where a probability underflows"),
    ("TL404", "applied once instead of twice"),
    ("TL406", "kernels are not deterministic"),
    ("TL408", "no longer an instance of the old class"),
    ("TL408", "takes over the dtype and the cache"),
    ("TL408", "bind its names anew"),
    ("TL409", "no longer load strictly"),
    ("TL501", "lose their grad_fn"),
    ("TL501", "compute otherwise"),
    ("TL501", "gets no gradients from this loss"),
    ("TL502", "no longer require gradients"),
    ("TL503", "check the learning rate"),
    ("TL504", "leaves the module where it was"),
    ("TL504", "what the loop moves elsewhere"),
    ("TL504", "What the loop moves elsewhere"),
    ("TL507", "that backward pass raises"),
    ("TL509", "skipped instead of decayed"),
    ("TL601", "round differently in the last place"),
    ("TL602", "as it was before the loop"),
    ("TL602", "in the side not taken"),
    ("TL603", "stay alive until the loop ends"),
    ("TL604", "read before the first iteration"),
    ("TL605", "the integer type of a sum"),
    ("TL606", "stays on the device and in the graph"),
    ("TL701", "reserved memory can rise"),
    ("TL702", "until Python's next collection"),
    ("TL801", "no longer raises a RuntimeError"),
    ("TL803", "Errors of kernels are reported later"),
    ("TL803", "is compiled again"),
    ("TL901", "an integer is converted with a warning"),
    ("TL902", "lies on the module's device"),
    ("TL904", "the run takes all batches"),
    ("TL906", "no longer kept in the metric"),
    ("TL907", "draws from the workers' generators"),
    ("TL908", "stay on the GPU"),
    ("TL908", "fewer lines in the log"),
]


@functools.cache
def fixes_of(code: str) -> tuple[TextFix, ...]:
    """Return the fixes that a rule offers where nothing is taken for granted: for Bad examples, its
    fixture, its corner cases."""
    info = RULES[code]
    texts = programs(info, "Bad")
    texts += [text for corner in corners_of(info) for text in corner.programs]
    texts += [
        path.read_text(encoding="utf-8")
        for path in FIXTURES.glob(f"*/{info.name.replace('-', '_')}.py")
    ]
    codes = frozenset({code})
    reports = [check(text, codes=codes, name="src/train.py", strict=True) for text in texts]
    fixes = [finding.fix for report in reports for finding in report.findings]
    return tuple(fix for fix in fixes if fix is not None)


@pytest.mark.slow
@pytest.mark.parametrize("code", sorted(RULES))
def test_the_kinds_of_fix_and_their_notes_are_those_that_the_tables_name(code: str) -> None:
    """One test for each rule, which checks all its programs once."""
    held = [fix for fix in fixes_of(code) if "beside it waits as well" in fix.note]
    fixes = [fix for fix in fixes_of(code) if fix not in held]
    assert {fix.safety for fix in fixes} <= set(RULES[code].fixes)
    notes = sorted({fix.note for fix in fixes if fix.safety is Safety.UNSAFE})
    notes += [fix.note for fix in held]
    phrases = [phrase for each, phrase in NOTES if each == code]
    assert [phrase for phrase in phrases if not any(phrase in note for note in notes)] == [], notes
    assert [note for note in notes if not any(phrase in note for phrase in phrases)] == []
    for note in notes:
        assert note.endswith("."), note
        assert not re.search(r"[a-z`)]\. [A-Z]", note), note


@pytest.mark.parametrize(
    ("line", "code", "phrases"),
    [
        (
            "y = y.to(device, torch.float16)",
            "TL103",
            ("takes no non_blocking", "cast then runs"),
        ),
        (
            "y = torch.rand(3, requires_grad=True).to(x.device)",
            "TL102",
            ("shuffle change", "becomes the leaf"),
        ),
        (
            "y = torch.empty(3).to(model(x))",
            "TL102",
            ("in the other dtype", "evaluated twice"),
        ),
        (
            "y = torch.tensor(300.5, device=x.device, dtype=torch.uint8)",
            "TL112",
            ("not fit", "replaces"),
        ),
    ],
)
def test_a_note_says_all_that_may_change(line: str, code: str, phrases: tuple[str, ...]) -> None:
    source = f"""\
import numpy as np
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = nn.Linear(8, 3).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
torch.full = watched(torch.full)


def run(loader, fn):
    for x, y in loader:
        x = x.to(device, non_blocking=True)
        {line}
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


run(torch.utils.data.DataLoader(samples, pin_memory=True), fn)
"""
    found = [
        finding
        for finding in check(source, codes=frozenset({code}), strict=True).findings
        if finding.fix is not None
    ]
    assert [finding.fix.safety.value for finding in found if finding.fix is not None] == ["unsafe"]
    for finding in found:
        note = finding.fix.note if finding.fix is not None else ""
        assert all(phrase in note for phrase in phrases), note
