"""``--explain``: for each rule the fact that decides, what is believed of values, and how often
lines run."""

from __future__ import annotations

import ast
import importlib
import inspect
import string
from pathlib import Path

import pytest

from tests.checking import check, every_code, rules
from tests.engine.explaining import explained, program, report
from torchlint.base.explanation import ExplainedReport, State, Verdict
from torchlint.catalog import rule_file
from torchlint.report.explained import render
from torchlint.semantic.question import QUESTIONS
from torchlint.testing.promises import programs

PACKAGE = Path(rule_file.__file__).parents[1]
FIXTURES = PACKAGE.parent / "fixtures"

RARE = "the line runs only now and then, behind `if step % 50 == 0` (line 22)"
EPOCH = "the line runs once per epoch"
ONCE = "the line runs once for each call of train(): nothing shows that train() is called in a step"
ERROR = (
    "it only runs on the way to an exception (a raise, an assert's message, an except block), or "
    "never: a constant decides a test, or a return stands before it"
)
BENCH = (
    "this is benchmark or test code (by its path, a function's name or timing events), which "
    "does so on purpose"
)
HOST = "`host` is a tensor on the CPU"

ITEM = "total += loss.item()"
COPY = "outs.append(out.detach().cpu())"
MOVE = "x = host.to(device)"
TRIP = "v = torch.from_numpy(x.cpu().numpy()).to(device)"
LOG = "log.info('loss %f' % loss)"
SYNC = "torch.cuda.synchronize()"
SCALAR = "w = torch.tensor(3.0, device=device)"
GROW = "total += loss"
SETUP = "model.to(device)"
SAVE = "torch.save(model.state_dict(), 'a.pt')"
BRANCH = "if loss > 3: total = 1"
EMPTY = "torch.cuda.empty_cache()"
COLLECT = "gc.collect()"
ANOMALY = "torch.autograd.set_detect_anomaly(True)"
CAT = "acc = torch.cat([acc, loss[None]])"
FACTORY = "z = torch.zeros(4).to(device)"
EACH = "total = sum([v.item() for v in y])"
DEMAND = "it only runs when somebody asks for it (a flag, a debug or profiling script)"
LOADER = "data = DataLoader(rank, num_workers=4, pin_memory=True)"

CASES = [
    ("TL101", ITEM, "hot", State.FLAGGED, ""),
    ("TL101", ITEM, "rare", State.SILENT, RARE),
    ("TL101", ITEM, "epoch", State.SILENT, EPOCH),
    ("TL101", ITEM, "once", State.SILENT, ONCE),
    ("TL101", ITEM, "error", State.SILENT, ERROR),
    ("TL101", ITEM, "bench", State.SILENT, BENCH),
    (
        "TL101",
        "total += int(x.shape[0])",
        "hot",
        State.SILENT,
        "`x.shape[0]` is a Python number: reading it waits for nothing",
    ),
    ("TL101", "print(host)", "rare", State.SILENT, f"{RARE}; {HOST}"),
    ("TL101", LOG, "hot", State.YIELDED, "TL105 says it more exactly"),
    (
        "TL101",
        "outs += x[: loss.argmax()].tolist()",
        "hot",
        State.SILENT,
        "the same expression copies to the host what `x[: loss.argmax()]` takes, and waits for "
        "that in any case",
    ),
    ("TL102", FACTORY, "hot", State.FLAGGED, ""),
    ("TL102", FACTORY, "error", State.SILENT, ERROR),
    ("TL102", FACTORY, "bench", State.SILENT, BENCH),
    ("TL103", MOVE, "hot", State.FLAGGED, ""),
    ("TL103", MOVE, "rare", State.SILENT, RARE),
    ("TL103", MOVE, "epoch", State.SILENT, EPOCH),
    ("TL104", TRIP, "hot", State.FLAGGED, ""),
    ("TL104", TRIP, "rare", State.SILENT, RARE),
    ("TL104", TRIP, "bench", State.SILENT, BENCH),
    ("TL105", LOG, "hot", State.FLAGGED, ""),
    ("TL105", LOG, "once", State.SILENT, ONCE),
    ("TL105", "print(host)", "hot", State.SILENT, HOST),
    (
        "TL107",
        "total = torch.cat([row[:m] for row, m in zip(x, y)])",
        "hot",
        State.SILENT,
        "`row[:m]` is not known to select by a mask, or to ask for positions, on the device",
    ),
    ("TL111", SYNC, "hot", State.FLAGGED, ""),
    ("TL111", SYNC, "rare", State.SILENT, RARE),
    ("TL111", SYNC, "bench", State.SILENT, BENCH),
    ("TL112", SCALAR, "hot", State.FLAGGED, ""),
    ("TL112", SCALAR, "once", State.SILENT, ONCE),
    ("TL113", COPY, "hot", State.FLAGGED, ""),
    ("TL113", COPY, "rare", State.SILENT, RARE),
    ("TL113", "outs.append(host.cpu())", "hot", State.SILENT, HOST),
    ("TL113", TRIP, "hot", State.YIELDED, "TL104 says it more exactly"),
    ("TL502", GROW, "hot", State.FLAGGED, ""),
    ("TL502", GROW, "rare", State.SILENT, RARE),
    ("TL504", SETUP, "hot", State.FLAGGED, ""),
    ("TL504", SETUP, "epoch", State.SILENT, EPOCH),
    ("TL504", SETUP, "bench", State.SILENT, BENCH),
    ("TL508", SAVE, "hot", State.FLAGGED, ""),
    ("TL508", SAVE, "rare", State.SILENT, RARE),
    ("TL602", BRANCH, "hot", State.FLAGGED, ""),
    ("TL602", BRANCH, "epoch", State.SILENT, EPOCH),
    (
        "TL602",
        "if host.sum() > 3: total = 1",
        "hot",
        State.SILENT,
        "`host.sum() > 3` is a tensor on the CPU, bool, a single value",
    ),
    ("TL603", CAT, "hot", State.FLAGGED, ""),
    ("TL603", CAT, "epoch", State.SILENT, "the loop runs 3 times, as the source says"),
    ("TL604", EACH, "hot", State.FLAGGED, ""),
    ("TL604", EACH, "rare", State.SILENT, RARE),
    ("TL701", EMPTY, "hot", State.FLAGGED, ""),
    ("TL701", EMPTY, "once", State.SILENT, ONCE),
    ("TL702", COLLECT, "hot", State.FLAGGED, ""),
    ("TL702", COLLECT, "rare", State.SILENT, RARE),
    ("TL702", COLLECT, "bench", State.SILENT, BENCH),
    ("TL801", ANOMALY, "hot", State.FLAGGED, ""),
    ("TL801", ANOMALY, "rare", State.SILENT, DEMAND),
]


def verdicts(statement: str, where: str, code: str, **settings: object) -> list[Verdict]:
    """Return what one rule says about a statement of a training program."""
    source, row = program(statement, where)
    return [
        verdict for verdict in explained(source, row, **settings).verdicts if verdict.code == code
    ]


@pytest.mark.parametrize(
    ("code", "statement", "where", "state", "because"),
    CASES,
    ids=[f"{c[0]}-{c[2]}-{c[1]}" for c in CASES],
)
def test_the_fact_that_decides(
    code: str, statement: str, where: str, state: State, because: str
) -> None:
    assert (state, because) in [
        (each.state, each.because) for each in verdicts(statement, where, code)
    ]


FLAGGED = sorted(
    {(code, statement) for code, statement, _, state, _ in CASES if state is State.FLAGGED}
)


@pytest.mark.parametrize(("code", "statement"), FLAGGED)
def test_a_comment_that_suppresses_is_named_with_its_line(code: str, statement: str) -> None:
    comment = f"# torchlint: ignore[{code}] wanted"
    (verdict, *_) = verdicts(f"{statement}  {comment}", "hot", code)
    _, row = program(f"{statement}  {comment}", "hot")
    assert (verdict.state, verdict.because) == (
        State.SUPPRESSED,
        f"the comment `{comment}` on line {row} suppresses it",
    )


@pytest.mark.parametrize(("code", "statement"), FLAGGED)
def test_a_rule_that_is_off_says_why(code: str, statement: str) -> None:
    (verdict, *_) = verdicts(
        statement, "hot", code, codes=every_code() - {code}, off={code: "--ignore leaves it out"}
    )
    assert (verdict.state, verdict.because) == (State.OFF, "--ignore leaves it out")


@pytest.mark.parametrize(
    ("comment", "row"),
    [
        ("# noqa", 22),
        ("# noqa: TL101", 22),
        ("# torchlint: file-ignore[TL101]", 1),
        ("# torchlint: disable[TL1]", 1),
    ],
)
def test_every_form_of_suppression_is_found(comment: str, row: int) -> None:
    source, at = program(ITEM, "hot")
    lines = source.split("\n")
    lines[row - 1] += f"  {comment}"
    (verdict,) = (each for each in explained("\n".join(lines), at).verdicts if each.code == "TL101")
    assert verdict.because == f"the comment `{comment}` on line {row} suppresses it"


def test_a_suppression_that_does_nothing_is_flagged_on_its_line() -> None:
    source, row = program(f"{ITEM.replace('.item()', '')}  # torchlint: ignore[TL101]", "once")
    found = explained(source, row, codes=every_code() | {"TL001"}).verdicts
    assert ("TL001", State.FLAGGED) in [(each.code, each.state) for each in found]


def test_a_rule_asked_for_by_name_tells_what_it_is_about() -> None:
    source, row = program("step = 7", "hot")
    found = explained(source, row, codes=frozenset({"TL101"}), named=("TL101",))
    (verdict,) = (each for each in found.verdicts if each.code == "TL101")
    assert verdict.state is State.ABSENT
    assert verdict.because.endswith("; nothing of that kind is on this line")


def test_a_rule_that_looks_and_is_silent_tells_what_it_asked_last() -> None:
    source, row = program(SYNC, "hot")
    found = explained(source, row, codes=frozenset({"TL101"}), named=("TL101",))
    (verdict,) = (each for each in found.verdicts if each.code == "TL101")
    assert (verdict.state, verdict.expression) == (State.ASKED, SYNC)
    assert verdict.because == f"`{SYNC}` reads no single value of a device tensor"
    assert "No rule has anything to say" not in told(report(source, row))


def test_a_rule_that_is_about_nothing_in_the_file_keeps_no_other_from_being_told() -> None:
    source = "import torch\ndef move(table, device):\n    return [v.to(device) for v in table]\n"
    codes = frozenset({"TL103", "TL115"})
    assert {each.code for each in explained(source, 3, codes=codes).verdicts} == {"TL103"}
    named = explained(source, 3, codes=codes, named=("TL115",)).verdicts
    assert {each.code for each in named} >= {"TL115"}


def told(found: ExplainedReport) -> str:
    return " ".join(render([found], color=False).split())


BY_SPELLING = {
    ("TL115", 2),
    ("TL204", 1),
    ("TL301", 0),
    ("TL301", 1),
    ("TL301", 2),
    ("TL406", 0),
    ("TL406", 1),
    ("TL408", 1),
    ("TL409", 2),
    ("TL505", 1),
    ("TL602", 0),
    ("TL609", 0),
    ("TL802", 2),
    ("TL803", 1),
    ("TL901", 1),
    ("TL902", 1),
    ("TL906", 1),
}
"""Leave-alone examples without any node that the rule looks at: other names, other statements, no
contract."""
LEFT_ALONE = [
    (info.code, index, source)
    for info in rules()
    for index, source in enumerate(programs(info, "Leave alone"))
    if any(trigger in source.encode() for trigger in info.triggers)
]


@pytest.mark.parametrize(
    ("code", "source"),
    [(code, source) for code, index, source in LEFT_ALONE if (code, index) not in BY_SPELLING],
)
def test_where_a_rule_looks_it_is_never_said_that_none_does(code: str, source: str) -> None:
    """In each example that a page says to leave alone, the rule is heard of, with a reason."""
    rows = [row for row, line in enumerate(source.split("\n"), 1) if line.strip()]
    found = report(source, *rows, codes=frozenset({code}))
    every = [each for place in found.explanations for each in place.verdicts]
    heard = [each for each in every if each.code == code]
    assert heard
    silent = (State.SILENT, State.LOOKED, State.ASKED, State.SUPPRESSED)
    assert all(each.state in silent for each in heard)
    assert any(each.because for each in heard)


@pytest.mark.parametrize(
    "store", ["acc[step] = loss", "acc[step], y = loss, y", "acc[0][1] = loss"]
)
def test_what_is_stored_into_is_no_origin_of_it(store: str) -> None:
    """``acc[i] = loss`` reads `acc`, binds nothing, and reads no element."""
    source, row = program(store, "hot")
    beliefs = {each.expression: each for each in explained(source, row).beliefs}
    origin = [link.text for link in beliefs["acc"].origin]
    assert origin == ["`acc` = `torch.zeros(1, device=device)`"]
    assert not any(each.startswith("acc[step]") for each in beliefs)
    assert "acc[0][1]" not in beliefs


@pytest.mark.parametrize("given", ["outs", "range(9)", "x.shape", "loader.dataset.items()"])
def test_an_ordinary_loop_is_no_loop_over_modules_that_differ(given: str) -> None:
    source, row = program(f"for each in {given}: print(each)", "hot")
    said = told(report(source, row))
    assert "modules differ" not in said


UNUSED_SCALER = """import torch
class Scaler:
    def overflows(self, params):
        for p in params:
            if p.grad is not None and float(p.grad.float().sum()) != 0:
                return True
        return False
"""
OWN_STEP = """import torch
class Attack:
    def __init__(self, model):
        self.model = model
    def push(self):
        for p in self.model.parameters():
            norm = torch.norm(p.grad)
            if norm != 0:
                p.data.add_(p.grad / norm)
"""
DECAYED = """import torch
def decay(optimizer, lr):
    for group in optimizer.param_groups:
        for p in group["params"]:
            print(p.grad.norm().item())
"""


@pytest.mark.parametrize(
    ("source", "row", "code"),
    [(UNUSED_SCALER, 5, "TL101"), (OWN_STEP, 8, "TL602"), (DECAYED, 5, "TL105")],
)
def test_where_nothing_shows_an_accelerator_that_is_the_reason(
    source: str, row: int, code: str
) -> None:
    (verdict,) = (each for each in explained(source, row).verdicts if each.code == code)
    assert verdict.state is State.SILENT
    assert verdict.because.startswith("nothing in the file shows an accelerator")


def test_an_argument_that_decides_is_named() -> None:
    source = (
        "import torch\nfrom torch.utils.data import DataLoader\nfrom torchvision.datasets import "
        "ImageFolder\n"
        "loader = DataLoader(ImageFolder('a'), num_workers=4, shuffle=True)\nmodel = "
        "torch.nn.Linear(1, 1).cuda()\n"
        "opt = torch.optim.SGD(model.parameters())\nfor x, y in loader:\n    loss = "
        "model(x.cuda()).sum()\n"
        "    loss.backward()\n    opt.step()\n"
    )
    (verdict,) = (each for each in explained(source, 4).verdicts if each.code == "TL201")
    assert (verdict.state, verdict.because) == (State.SILENT, "the call gives `num_workers=4`")


def test_a_column_chooses_one_expression() -> None:
    statement = "total += loss.item() + out.sum().item()"
    source, row = program(statement, "hot")
    line = source.split("\n")[row - 1]
    whole = explained(source, row).verdicts
    second = explained(source, row, column=line.index("out") + 1)
    assert [each.expression for each in whole if each.state is State.FLAGGED] == [
        "loss.item()",
        "out.sum().item()",
    ]
    assert [each.expression for each in second.verdicts if each.state is State.FLAGGED] == [
        "out.sum().item()"
    ]
    assert "loss" not in [belief.expression for belief in second.beliefs]


BELIEFS = [
    ("k = loss", "k", "tensor on the GPU, float32, a single value, with a gradient graph", ""),
    ("k = host", "k", "tensor on the CPU", ""),
    ("k = y.shape", "k", "shape, on the host", ""),
    ("k = step + 1", "step", "Python number, on the host", ""),
    ("k = acc.double()", "k", "tensor on the GPU, float64, 1-dimensional", ""),
    (
        "k = writer.get()",
        "k",
        "not known",
        (
            "`writer` is a parameter of train(), which nothing in this file calls; its annotation "
            "and its uses do not tell"
        ),
    ),
    ("k = later(loss)", "k", "not known", "what `later()` returns is not known"),
]


@pytest.mark.parametrize(("statement", "expression", "words", "unknown"), BELIEFS)
def test_what_is_believed_of_a_value(
    statement: str, expression: str, words: str, unknown: str
) -> None:
    source, row = program(statement, "hot")
    found = {each.expression: each for each in explained(source, row).beliefs}[expression]
    assert (found.words, found.unknown) == (words, unknown)


def test_a_name_that_is_read_and_set_is_told_as_both() -> None:
    source, row = program("loss = loss.cpu()", "hot")
    told = [each.words for each in explained(source, row).beliefs if each.expression == "loss"]
    assert told == [
        "tensor on the CPU, float32, a single value, with a gradient graph, from here on",
        "tensor on the GPU, float32, a single value, with a gradient graph",
    ]


def test_what_is_silent_twice_for_one_reason_is_told_once() -> None:
    source, row = program("outs[0] = outs[0] + loss.item()", "once")
    said = [(each.code, each.expression, each.because) for each in explained(source, row).verdicts]
    assert said
    assert len(said) == len(set(said))


def test_a_plain_loop_in_a_function_is_cold_because_nobody_calls_it_in_a_step() -> None:
    source = (
        "import torch\ndef merge(parts, x):\n    for part in parts:\n        "
        "x.add_(part.sum().item())\n"
    )
    pace = explained(source, 4).pace
    assert pace is not None
    assert pace.words.endswith(
        "takes no training steps and runs no model, and nothing shows that merge() is called in a "
        "step"
    )


def test_the_origin_is_told_link_by_link() -> None:
    source, row = program("k = x", "hot")
    (belief,) = (each for each in explained(source, row).beliefs if each.expression == "k")
    assert [(link.text, link.line) for link in belief.origin] == [
        ("`k` = `x`", 22),
        ("`x` = `x.to(device)`", 16),
        ('`device` = `torch.device("cuda")`', 6),
    ]


PACES = [
    (13, "epoch", "its body runs once per epoch"),
    (14, "train", "its body runs every training step"),
    (22, "train", "runs every training step"),
    (6, "cold", "runs once: it is in no loop"),
    (
        10,
        "cold",
        "runs once for each call of train(): nothing shows that train() is called in a step",
    ),
]


@pytest.mark.parametrize(("row", "grade", "words"), PACES)
def test_how_often_a_line_runs(row: int, grade: str, words: str) -> None:
    pace = explained(program(ITEM, "hot")[0], row).pace
    assert pace is not None
    assert (pace.grade, pace.words) == (grade, words)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("zeros = lambda n: torch.zeros(n).cuda()", "runs where its lambda is called: "),
        ("steps = {'a': lambda n: torch.zeros(n).cuda()}", "runs once: it is in no loop"),
        ("zeros = torch.zeros(4).cuda()", "runs once: it is in no loop"),
    ],
)
def test_a_lambda_runs_where_it_is_called(line: str, words: str) -> None:
    pace = explained(f"import torch\n{line}\n", 2).pace
    assert pace is not None
    assert pace.words.startswith(words)


def test_guards_are_listed_with_what_they_do() -> None:
    source, _ = program(ITEM, "rare")
    source = source.replace(
        "total += loss.item()", "if rank == 0:\n                    total += loss.item()"
    )
    pace = explained(source, 24).pace
    assert pace is not None
    assert [(guard.test, guard.row, guard.throttles) for guard in pace.guards] == [
        ("rank == 0", 23, False),
        ("step % 50 == 0", 22, True),
    ]


def test_heat_from_callers_is_told_in_order() -> None:
    source = program("helper(loss)", "hot")[0] + "def helper(value):\n    print(value)\n"
    row = source.count("\n")
    pace = explained(source, row).pace
    assert pace is not None
    assert [(why.text, why.line) for why in pace.why] == [
        ("helper() is called", 22),
        ("every training step of the loop", 14),
    ]


@pytest.mark.parametrize(
    ("row", "remark"), [(2, "there is no code on this line"), (3, "there is no code on this line")]
)
def test_lines_without_code(row: int, remark: str) -> None:
    assert explained("import torch\n\n# torch\n", row).remark == remark


def test_a_file_of_another_world_says_so() -> None:
    assert explained("import os\n", 1).remark.startswith("no rule looks at this file")


def test_a_broken_file_has_findings_and_no_explanation() -> None:
    found = report("import torch\nx = (\n", 1)
    assert [finding.code for finding in found.findings] == ["invalid-syntax"]
    assert found.explanations == ()


# -- the table of words ----------------------------------------------------------------------------


for _path in PACKAGE.glob("rules/*/*.py"):
    importlib.import_module(".".join(_path.relative_to(PACKAGE.parent).with_suffix("").parts))


OF_RULES = ("torchlint.semantic.", "torchlint.rules.")
REPAIRS = ("Fix", "Fix | None", "Deferred | None")  # what is asked for an edit is no question


def asked_by_rules() -> set[str]:
    """Return the names that rules import, also from beside them, and call with the module first."""
    asked: set[str] = set()
    asking = (*PACKAGE.glob("rules/*/[!_]*.py"), *PACKAGE.glob("fixes/*.py"), PACKAGE / "rule.py")
    for path in asking:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.args
        ]
        about = [
            n.func.id for n in calls if isinstance(n.args[0], ast.Name) and n.args[0].id == "module"
        ]
        imports = (
            n
            for n in ast.walk(tree)
            if isinstance(n, ast.ImportFrom) and (n.module or "").startswith(OF_RULES)
        )
        asked |= {
            alias.name
            for node in imports
            for alias in node.names
            if alias.name in about and not builds_a_repair(node.module or "", alias.name)
        }
    return asked


def builds_a_repair(module: str, name: str) -> bool:
    function = getattr(importlib.import_module(module), name)
    return inspect.get_annotations(function).get("return") in REPAIRS


def test_what_rules_ask_are_questions() -> None:
    assert asked_by_rules() - QUESTIONS.keys() == set()


@pytest.mark.parametrize("name", QUESTIONS)
def test_words_speak_of_arguments_that_there_are(name: str) -> None:
    question = QUESTIONS[name]
    count = (
        len(inspect.signature(getattr(importlib.import_module(question.home), name)).parameters) - 1
    )
    for sentence in (question.yes, question.no):
        fields = {name for _, name, _, _ in string.Formatter().parse(sentence) if name}
        assert fields <= {"answer", *map(str, range(count))}


# -- agreement with check --------------------------------------------------------------------------

FILES = [
    *sorted(FIXTURES.glob("rules/*/*.py"))[::4],
    *sorted(FIXTURES.glob("seeds/*.py"))[:6],
    FIXTURES / "demo" / "train.py",
]


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_flagged_means_what_check_reports_on_every_line(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    rows = text.count("\n")
    found = report(text, *range(1, rows + 1))
    assert not found.notes
    said = {
        (each.code, each.row)
        for one in found.explanations
        for each in one.verdicts
        if each.state is State.FLAGGED
    }
    wanted = {
        (finding.code, finding.start.row) for finding in check(text, name="src/train.py").findings
    }
    assert said == wanted
    assert len(found.explanations) == rows


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ("[torch.zeros(2), torch.ones(2)]", "list of tensors on the CPU"),
        ("[torch.zeros(n) for n in range(3)]", "list of tensors on the CPU"),
        ("[torch.zeros(n, device='cuda') for n in range(3)]", "list of tensors on the GPU"),
        ("tuple(torch.zeros(n) for n in range(3))", "tuple of tensors on the CPU"),
    ],
)
def test_what_a_list_holds_is_told_in_the_plural(made: str, words: str) -> None:
    source = f"import torch\n\nheld = {made}\nprint(held)\n"
    found = explained(source, 4, codes=frozenset({"TL101"}))
    assert words in [belief.words for belief in found.beliefs if belief.expression == "held"]
