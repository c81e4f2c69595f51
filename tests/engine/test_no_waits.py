"""A contract of no waits: which code it is about, and how waits are listed."""

from __future__ import annotations

import textwrap

import pytest

from torchlint.base.contract import Allowed, Contract
from torchlint.engine.analyse import analyse
from torchlint.testing import findings
from torchlint.testing.source import job

CODES = ("TL115", "TL001")
PROGRAM = """\
import torch
from torch import nn

device = torch.device("cuda")
model = nn.Linear(8, 3).to(device)


def hot(function):
    return function


class Trainer:
    @hot
    def training_step(self, x):
        return model(x).sum().item()

    def evaluate(self, x):
        return model(x).sum().item()


def step(x):
    def inner():
        return model(x).sum().item()

    return inner() + model(x).max().item()
"""
IN_TRAINING_STEP, IN_EVALUATE, IN_INNER, IN_STEP = 15, 18, 23, 25


def rows(contract: Contract, source: str = PROGRAM, name: str = "pkg/train.py") -> list[int]:
    """Return the rows of the waits that are errors."""
    found = findings(source, CODES, contract=contract, name=name)
    assert {each.severity.value for each in found} <= {"error"}
    return [each.start.row for each in found]


def said(source: str, *allow: Allowed, name: str = "train.py") -> list[tuple[str, int, str]]:
    """Return code, row and message of all that is found in a function under the contract."""
    contract = Contract(("step",), allow=allow)
    found = findings(textwrap.dedent(source), CODES, contract=contract, name=name)
    return [(each.code, each.start.row, each.message) for each in found]


@pytest.mark.parametrize(
    ("contract", "expected"),
    [
        (Contract(), []),
        (Contract(("step",)), [IN_INNER, IN_STEP]),
        (Contract(("train.step",)), [IN_INNER, IN_STEP]),
        (Contract(("pkg.train.step",)), [IN_INNER, IN_STEP]),
        (Contract(("other.step", "Trainer", "ain.step")), []),
        (Contract(("Trainer.training_step",)), [IN_TRAINING_STEP]),
        (Contract(("*_step", "Trainer.ev*")), [IN_TRAINING_STEP, IN_EVALUATE]),
        (Contract(("step.inner",)), [IN_INNER]),
        (Contract(decorators=("hot",)), [IN_TRAINING_STEP]),
        (Contract(decorators=("cold",)), []),
        (Contract(files=("pkg/*.py",)), [IN_TRAINING_STEP, IN_EVALUATE, IN_INNER, IN_STEP]),
        (Contract(files=("lib/*.py",)), []),
    ],
)
def test_functions_files_and_decorators(contract: Contract, expected: list[int]) -> None:
    assert rows(contract) == expected


def test_a_decorator_of_the_usual_name_needs_no_configuration() -> None:
    marked = PROGRAM.replace("@hot", "@no_waits")
    assert rows(Contract(), marked) == [IN_TRAINING_STEP]
    assert rows(Contract(), PROGRAM.replace("@hot", "@marks.no_waits()")) == [IN_TRAINING_STEP]


HEAD = "import torch\nmodel = torch.nn.Linear(8, 3).cuda()\ndef step(x):\n"


@pytest.mark.parametrize(
    ("comment", "words"),
    [
        ("allow-wait[ada] the log", []),
        ("Allow-Wait[ada, bob] the log", []),
        ("allow-wait[ada]", ["in `step`, which must not wait", "a wait without a reason"]),
        ("allow-wait[] why", ["in `step`, which must not wait", "a wait without an owner"]),
        ("allow-wait the log", ["in `step`, which must not wait", "a wait without an owner"]),
        (
            "allow-wiat[ada] x",
            ["in `step`, which must not wait", "'# torchlint: allow-wait["],
        ),
        ("ignore[TL115] the log", []),
    ],
)
def test_a_comment_lists_a_wait_with_owner_and_reason(comment: str, words: list[str]) -> None:
    found = said(f"{HEAD}    return model(x).sum().item()  # torchlint: {comment}\n")
    assert len(found) == len(words)
    for word, (_, row, message) in zip(words, found, strict=True):
        assert word in message
        assert row == 4


def test_a_comment_without_a_reason_is_an_error() -> None:
    text = f"{HEAD}    return x.dim()  # torchlint: allow-wait[ada]\n"
    (only,) = findings(text, CODES)
    assert (only.code, only.severity.value) == ("TL001", "error")


def test_a_wait_that_a_comment_lists_and_that_is_gone_is_told_with_its_removal() -> None:
    text = f"{HEAD}    return model(x).sum()  # torchlint: allow-wait[ada] the log\n"
    (only,) = findings(text, CODES, contract=Contract(("step",)))
    assert only.message == "the wait that ada answers for is gone: nothing waits here"
    assert only.fix is not None
    assert not findings(text, ["TL101"])


def test_a_comment_outside_of_the_contract_lists_a_wait_of_the_steps() -> None:
    text = "    return model(x).sum().item()  # torchlint: allow-wait[ada] the log\n"
    assert said(f"{HEAD.replace('step', 'log')}{text}") == []
    assert len(said(f"{HEAD.replace('step', 'log')}{text.replace('.item()', '')}")) == 1


@pytest.mark.parametrize(
    ("call", "gone"),
    [
        ("meter.update(model(x))", False),
        ("library.log(model(x))", False),
        ("saved(x)", False),
        ("model(x).mean()", True),
        ("torch.relu(x)", True),
        ("read(x)", True),
    ],
)
def test_a_library_may_wait_where_nobody_looks(call: str, gone: bool) -> None:
    """A run may show that it does, so that its line has to be listed."""
    head = f"import library\nfrom library import saved\n{HEAD.replace('(x)', '(x, meter)')}"
    helper = "def read(x):\n    return x.item()  # torchlint: allow-wait[bob] of a run\n"
    found = said(f"{head}    {call}  # torchlint: allow-wait[ada] of a run\n{helper}")
    assert [code for code, _, _ in found] == ["TL001"] * gone


def test_the_header_of_a_compound_statement_is_a_line_of_its_own() -> None:
    header = "    if meter.full(x):  # torchlint: allow-wait[ada] of a run\n"
    body = "        return model(x).sum().item()\n"
    head = HEAD.replace("(x)", "(x, meter)")
    assert [row for _, row, _ in said(f"{head}{header}{body}")] == [5]
    assert [row for _, row, _ in said(f"{head}{header.replace('meter.full(x)', 'x')}{body}")] == [
        4,
        5,
    ]


LISTED = Allowed("train.py:step", "total = model(x).sum().item()", "ada", "the log")
BODY = "    total = model(x).sum().item()\n    return total\n"


@pytest.mark.parametrize(
    "body",
    [
        BODY,
        f"    x = x + 1\n\n    # moved\n{BODY}",
        "    total = model(x).sum(\n    ).item()\n    return total\n",
        "    if True:\n        total = model(x).sum().item()  # for the log\n    return total\n",
    ],
)
def test_an_entry_survives_when_lines_move(body: str) -> None:
    entry = LISTED._replace(line="total = model(x).sum(")
    assert said(HEAD + body, entry) == []


def test_an_entry_is_about_one_function_of_one_file() -> None:
    for entry in (
        LISTED._replace(at="train.py:other"),
        LISTED._replace(at="train.py:"),
        LISTED._replace(line="model(x).max()"),
    ):
        codes = [code for code, _, _ in said(HEAD + BODY, entry)]
        assert codes == ["TL001", "TL115"]
    assert [code for code, _, _ in said(HEAD + BODY, LISTED, name="b.py")] == ["TL115"]


def test_an_entry_of_a_wait_that_is_gone_is_told() -> None:
    (only,) = said(f"{HEAD}    total = model(x).sum()\n    return total\n", LISTED)
    assert only[0] == "TL001"
    assert "the wait in `step` that ada answers for is gone" in only[2]
    still = LISTED._replace(line="total = model(x).sum()")
    (only,) = said(f"{HEAD}    total = model(x).sum()\n    return total\n", still)
    assert only[1] == 4


def test_what_is_listed_is_kept_with_owner_and_reason() -> None:
    text = f"{HEAD}{BODY}    print(total)\n    x.cpu()  # torchlint: allow-wait[bob] a copy\n"
    text = text.replace("    return total\n", "")
    report = analyse(
        job(text, codes=frozenset(CODES), contract=Contract(("step",), allow=(LISTED,)))
    )
    kept = [(each.finding.start.row, each.owner, each.reason) for each in report.suppressed]
    assert (report.findings, kept) == ((), [(6, "bob", "a copy"), (4, "ada", "the log")])


TWINS = [
    ("helper(x).item()", "len(x)"),
    ("float(helper(x))", "float(x.size(0))"),
    ("helper(x).cpu()", "torch.randperm(4).cpu()"),
    ("x.to('cuda')", "x.to('cuda', non_blocking=True)"),
    ("print(f'{model(x)}')", "print(f'{x.shape}')"),
    ("0 if model(x).sum() > 0 else 1", "0 if x.dim() > 0 else 1"),
    ("model(x)[model(x) > 0]", "model(x)[:, 0]"),
    ("torch.tensor([1.0], device='cuda')", "torch.tensor([1.0])"),
    ("torch.cuda.synchronize()", "torch.cuda.is_available()"),
    ("str(model(x))", "str(x.dtype)"),
]


@pytest.mark.parametrize(("waits", "free"), TWINS)
def test_what_certainly_lies_on_the_host_waits_for_nothing(waits: str, free: str) -> None:
    head = HEAD.replace("(x)", "(x, helper)")
    assert [code for code, _, _ in said(f"{head}    return {waits}\n")] == ["TL115"]
    assert said(f"{head}    return {free}\n") == []


@pytest.mark.parametrize(
    ("switch", "words"),
    [
        ("", ["waits for the device"]),
        (", enabled=half", ["may wait for the device"]),
        (", enabled=True", ["may wait for the device"]),
        (", enabled=False", []),
    ],
)
def test_a_gradient_scaler_that_is_switched_off_waits_for_nothing(
    switch: str, words: list[str]
) -> None:
    scaler = f"import torch\nscaler = torch.amp.GradScaler('cuda'{switch})\n"
    found = said(f"{scaler}def step(optimizer):\n    scaler.step(optimizer)\n")
    assert [f"`scaler.step(optimizer)` {each} in `step`" for each in words] == [
        message.partition(",")[0] for _, _, message in found
    ]


@pytest.mark.parametrize(
    ("branch", "count"),
    [
        ("device.type == 'cuda'", 0),
        ("torch.cuda.is_available()", 0),
        ("x.dim() == 2", 1),
    ],
)
def test_what_runs_only_without_a_gpu_is_left_out(branch: str, count: int) -> None:
    text = (
        "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')\n"
        f"def step(x):\n    if {branch}:\n"
        "        x = x.pin_memory().to(device, non_blocking=True)\n"
        "    else:\n        x = x.to(device)\n    return x\n"
    )
    assert len(said(text)) == count
