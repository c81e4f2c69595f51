"""Rule mode: pages are read, their examples compared and timed, planted wrong fixes caught,
measurements written."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import json
import math
import subprocess
import symtable
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
if sys.platform == "win32":
    pytest.skip("zygotes fork", allow_module_level=True)

from torchlint.base.errors import UsageError
from torchlint.base.finding import Safety
from torchlint.catalog.rule_file import RuleInfo
from torchlint.catalog.rules import load_catalog
from torchlint.cli.verify import verify_command
from torchlint.cli.verify_options import options
from torchlint.manual.measurements import lines
from torchlint.verify.model import (
    Counts,
    Equality,
    Expected,
    Level,
    Machine,
    Plan,
    Ratio,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.options import Options
from torchlint.verify.output import json_report
from torchlint.verify.paired import rule_mode, sessions
from torchlint.verify.paired.rule_check import STANDIN, VIRTUAL, ExampleRunner
from torchlint.verify.paired.rule_page import Page, applied_fixes, page
from torchlint.verify.paired.sessions import Session
from torchlint.verify.session.times import Times
from torchlint.verify.session.timing import Block, take_turns
from torchlint.verify.session.wire import ProgramError
from torchlint.verify.variants import NULL

INFO = RuleInfo(
    code="TL999",
    name="planted",
    family="debug",
    title="T",
    message="m",
    severity="info",
    default=True,
    triggers=(),
    yields_to=(),
    fixes=(Safety.SAFE,),
    manual="",
    sections={},
    module="m",
    path="p",
)
SETUP = "import torch\nx = torch.arange(4.0)\nmodel = torch.nn.Linear(4, 1)\n"


def planted(bad: str, good: str, equivalence: str = "close", **more: str) -> Page:
    info = dataclasses.replace(INFO, equivalence=equivalence)
    plain = {"setup": SETUP, "prepare": "", "timed": "", "untimed": ""}
    return Page(info=info, pairs=((bad, good),), **{**plain, **more})


def equality(live: Session, each: Page, fix: str = "safe") -> Equality:
    return ExampleRunner(live, each).equality([fix])


# Pages


def test_a_page_is_read() -> None:
    fence = "```"
    sections = {
        "Setup": f"{fence}python\na = 1\n{fence}",
        "Bad": f"{fence}python\nimport numpy\n{fence}\nMore.\n{fence}python\nb = 2\n{fence}",
        "Good": (
            f"{fence}python\nfrom torch.nn import Linear\n{fence}\n{fence}python\nc = 2\n{fence}"
        ),
        "Measure": f"Words.\n{fence}python\na = 9\n{fence}\n{fence}python\nrun()\n{fence}",
    }
    found = page(dataclasses.replace(INFO, sections=sections))
    assert (found.setup, found.prepare, found.timed, found.untimed) == (
        "a = 1\n",
        "a = 9\n",
        "run()\n",
        "",
    )
    assert found.pairs == (
        ("import numpy\n", "from torch.nn import Linear\n"),
        ("b = 2\n", "c = 2\n"),
    )
    assert found.imports == {"numpy", "torch"}


@pytest.mark.parametrize(
    ("measure", "reason"),
    [
        ("Not timed: it is about results.", "it is about results"),
        (
            "Not timed: the example\nneeds two GPUs. A gain is expected.",
            "the example needs two GPUs",
        ),
        ("Timed is one call.\n\nNot timed: x.", ""),
    ],
)
def test_a_page_says_why_nothing_is_timed(measure: str, reason: str) -> None:
    assert page(dataclasses.replace(INFO, sections={"Measure": measure})).untimed == reason


def test_fixes_of_examples_come_from_the_engine() -> None:
    catalog = load_catalog()
    pages = [page(info) for info in catalog.rules if info.code in ("TL102", "TL206", "TL509")]
    found = applied_fixes(pages)
    assert found["TL102", 0] == "safe"
    assert found["TL509", 0] == "unsafe"
    assert found["TL206", 0] == ""
    assert found.keys() == {
        (each.info.code, index) for each in pages for index in range(len(each.pairs))
    }


# Equality


WRONG = {
    "dtype": ("y = x + 1\n", "y = (x + 1).double()\n", "y: torch.float32 and torch.float64"),
    "random numbers shifted": (
        "y = x + 1\n",
        "torch.rand(1)\ny = x + 1\n",
        "random numbers: the torch generator ends in another state",
    ),
    "in-place update dropped": (
        "y = x.add_(1)\n",
        "y = x + 1\n",
        "x: 4 of 4 numbers differ, by up to 1",
    ),
    "gradient": (
        "model(x).sum().backward()\ny = 1\n",
        "model(x).sum().mul(2).backward()\ny = 1\n",
        "model.weight.grad: 3 of 4 numbers differ, by up to 3",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("fix", ["safe", "unsafe"])
def test_a_wrong_fix_is_caught(live: Session, case: tuple[str, str, str], fix: str) -> None:
    bad, good, note = case
    found = equality(live, planted(bad, good), fix)
    assert (found.level, found.ok) == (Level.DIFFERENT, False)
    assert note in found.notes


def test_a_right_fix_is_bitwise(live: Session) -> None:
    found = equality(live, planted("y = x + 1\na = 1\n", "y = 1 + x\nb = 2\n"))
    assert (found.level, found.expected, found.ok, found.notes) == (
        Level.BITWISE,
        Expected.BITWISE,
        True,
        (),
    )


def test_a_safe_fix_keeps_what_is_visible_besides_values(live: Session) -> None:
    bad, good = "y = model(x)\n", "y = model(x).detach()\n"
    assert not equality(live, planted(bad, good)).ok
    assert equality(live, planted(bad, good), "unsafe").ok


@pytest.mark.slow
@pytest.mark.parametrize(
    ("equivalence", "good", "level", "ok"),
    [
        ("close", "y = x / 3 + 1e-7\n", Level.CLOSE, True),
        ("bitwise", "y = x / 3 + 1e-7\n", Level.CLOSE, False),
        ("close", "torch.rand(1)\ny = x / 3\n", Level.DIFFERENT, False),
        ("rng", "torch.rand(1)\ny = x / 3\n", Level.DISTRIBUTION, True),
        ("rng", "y = x / 3 + 1000\n", Level.DISTRIBUTION, True),
        ("rng", "y = x / 3 + torch.tensor([1e9], dtype=torch.float64)\n", Level.DIFFERENT, False),
        ("opt-in", "y = None\n", Level.DIFFERENT, True),
    ],
)
def test_a_promise_is_the_pages(
    live: Session, equivalence: str, good: str, level: Level, ok: bool
) -> None:
    found = equality(live, planted("y = x / 3\n", good, equivalence), "unsafe")
    assert (found.level, found.ok) == (level, ok)


def test_without_a_fix_the_comparison_is_for_information(live: Session) -> None:
    found = equality(live, planted("y = 1\n", "y = 2\n"), "")
    assert (found.level, found.ok) == (Level.DIFFERENT, True)
    assert found.notes[-1].startswith("for information")


def test_an_example_that_computes_nothing_is_not_compared(live: Session) -> None:
    found = equality(live, planted("def f():\n    pass\n", "def f():\n    return\n"))
    assert found.level is Level.UNKNOWN
    assert "binds and changes nothing" in found.notes[0]


@pytest.mark.slow
def test_what_an_example_changes_is_compared_too(live: Session) -> None:
    found = equality(live, planted("x.add_(1)\n", "x.add_(1)\n"))
    assert found.level is Level.BITWISE


def test_the_first_example_is_compared_with_what_measure_adds(live: Session) -> None:
    each = planted(
        "def f():\n    return n\n",
        "def f():\n    return n + 1\n",
        prepare="n = 5\n",
        timed="y = f()\n",
    )
    assert "y: 5 and 6" in equality(live, each).notes
    pair = each.pairs[0]
    second = dataclasses.replace(
        each, pairs=(("y = 1\n", "y = 1\n"), ("y = 'n' in dir()\n",) * 2), timed=""
    )
    found = ExampleRunner(live, second).equality(["safe", "safe"])
    assert (found.level, pair) == (Level.BITWISE, each.pairs[0])


def test_only_fixed_examples_are_compared_beyond_the_first(live: Session) -> None:
    same, other = ("y = 1\n", "y = 1\n"), ("y = 1\n", "y = 2\n")
    each = dataclasses.replace(planted(*same), pairs=(same, other))
    runner = ExampleRunner(live, each)
    assert runner.equality(["safe", ""]).level is Level.BITWISE
    found = runner.equality(["safe", "safe"])
    assert (found.ok, found.notes) == (False, ("example 2: y: 1 and 2",))


def test_cuda_is_stood_in_for(live: Session) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    for bad, good, instead in (
        ('y = x.to("cuda") + 1\n', 'y = 1 + x.to("cuda")\n', STANDIN),
        ("torch.cuda.synchronize()\ny = x + 1\n", "y = x + 1\n", VIRTUAL),
        ("y = x + 1\n", "y = 1 + x\n", ""),
    ):
        runner = ExampleRunner(live, planted(bad, good))
        assert runner.equality(["safe"]).level is Level.BITWISE
        assert runner.instead == instead
    with pytest.raises(ProgramError, match="ZeroDivisionError"):
        equality(live, planted('y = x.to("cuda")\n1 / 0\n', "y = 1\n"))


def test_traffic_is_predicted(live: Session) -> None:
    bad = 'y = 0.0\nfor v in x.to("cuda"):\n    y += v.item()\n'
    runner = ExampleRunner(live, planted(bad, 'y = x.to("cuda").sum().item()\n'))
    counts = runner.counts()
    assert (counts.basis, counts.unavailable, counts.syncs) == ("virtual-cuda", "", (5.0, 2.0))
    assert counts.h2d_bytes == (16.0, 16.0)
    assert {line.file for line in counts.before} == {"TL999.py"}


def test_traffic_that_cannot_be_predicted_is_unknown(live: Session) -> None:
    counts = ExampleRunner(live, planted("1 / 0\n", "y = 1\n")).counts()
    assert (counts.syncs, counts.unavailable) == (
        None,
        "the example does not run under it: ZeroDivisionError: division by zero",
    )


# The whole


def test_a_rules_null_control_is_paired() -> None:
    """Medians of either side would say 1.25."""
    blocks = [(Block(one, one), Block(two, two)) for one, two in ((1, 1.2), (2, 1.6), (3, 3))]
    result = rule_mode._unmeasured(planted("y = 1\n", "y = 2\n"), "")
    control = rule_mode._all_nulls([(result, Times({NULL: [blocks]})), (result, None)])
    assert control is not None
    assert control.ratio.n == 1
    assert control.ratio.estimate == pytest.approx(1.01, abs=0.01)
    assert rule_mode._all_nulls([(result, None)]) is None


def run(
    monkeypatch: pytest.MonkeyPatch,
    *pages: Page,
    fix: str = "safe",
    say: Callable[[str], None] = lambda line: None,
    **options: object,
) -> Report:
    monkeypatch.setattr(rule_mode, "BLOCK_MS", 0.1)
    monkeypatch.setattr(rule_mode, "PRELOAD", ())
    monkeypatch.setattr(rule_mode, "wanted", lambda codes: [each.info for each in pages])
    left = iter(pages)
    monkeypatch.setattr(rule_mode, "page", lambda info: next(left))
    monkeypatch.setattr(
        rule_mode, "applied_fixes", lambda pages: {(each.info.code, 0): fix for each in pages}
    )
    given = Options(launches=1, pairs=8, **options)  # type: ignore[arg-type]
    return rule_mode.run([], given, say=say)


def test_a_rule_is_not_begun_when_the_time_is_over(live: Session) -> None:
    result, times = rule_mode._Examples(live, {}).rule(planted("1 / 0\n", "1\n"), 0.0)
    assert (result.speed.verdict, result.speed.why, result.status, times) == (
        Verdict.NOT_MEASURED,
        "no time was left for it (--budget)",
        Status.OK,
        None,
    )
    assert rule_mode._ended(result, times) == "spent"
    assert not rule_mode._ended(rule_mode._unmeasured(planted("1\n", "1\n"), ""), Times())


@pytest.mark.parametrize(
    ("typed", "budget"),
    [
        (["rules"], math.inf),
        (["rules", "--budget", "90s"], 90),
        (["a.py::f"], 300),
        (["."], 300),
    ],
)
def test_only_rules_take_the_time_that_they_need(typed: list[str], budget: float) -> None:
    given = verify_command.make_context("verify", list(typed)).params
    assert options(given).budget == budget


@pytest.mark.slow
def test_a_run_reports_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(
        monkeypatch,
        planted("y = [v.item() for v in x]\n", "y = x.tolist()\n"),
        planted("y = 1\n", "y = 2\n", untimed="it is about results"),
        planted("import no_such_package\n", "y = 1\n"),
        planted("y = 1\n", "1 / 0\n"),
    )
    right, wrong, absent, broken = report.variants
    assert (right.id, right.kind, right.fixes, right.title) == (
        "rule:TL999",
        "rule",
        ("TL999",),
        "planted",
    )
    assert right.speed.ratio is not None
    assert (right.speed.ratio.n, len(right.blocks_ns), right.status) == (8, 8, Status.OK)
    assert right.equality is not None
    assert right.equality.ok
    assert right.counts is not None
    assert wrong.equality is not None
    assert not wrong.equality.ok
    assert (wrong.speed.verdict, wrong.speed.why) == (
        Verdict.NOT_MEASURED,
        "not timed: it is about results",
    )
    assert (absent.status, absent.speed.why, absent.error) == (
        Status.OK,
        "needs no_such_package",
        "",
    )
    assert (broken.status, broken.error) == (Status.BROKEN, "ZeroDivisionError: division by zero")
    assert (report.mode, report.plan.pairs, report.machine.threads) == ("rules", 8, 1)
    assert report.null_control is not None
    assert report.null_control.ratio.n == 1


@pytest.mark.slow
def test_times_on_a_stand_in_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    side = 'y = x.to("cuda").sum().item()\n'
    nothing = dataclasses.replace(planted("y = 1\n", "y = 1\n"), pairs=())
    found, empty = run(monkeypatch, planted(side, side), nothing, device="cpu").variants
    assert found.speed.ratio is not None
    assert found.speed.why.endswith(f"run on {STANDIN}")
    assert found.equality is not None
    assert found.equality.notes == (f"run on {STANDIN}",)
    assert (empty.status, empty.speed.why) == (Status.OK, "its page has no Bad with a Good")


@pytest.mark.slow
def test_an_interrupt_leaves_the_rules_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes in the first round of the second rule, whose results were compared by then."""
    left = [5]  # four makings of the first rule

    def turns(*arguments: Any, **more: Any) -> None:
        left[0] -= 1
        take_turns(*arguments, **more)
        if not left[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(sessions, "take_turns", turns)
    plan: list[str] = []
    same = planted("y = 1\n", "y = 1\n")
    report = run(monkeypatch, same, same, same, say=plan.append)
    assert report.cut == "interrupted"
    assert [len(each.blocks_ns) for each in report.variants] == [8, 2, 0]
    assert [each.equality is not None for each in report.variants] == [True, True, False]
    assert report.variants[2].speed.why == "interrupted before that"
    assert report.warnings[0].startswith("interrupted after ")
    assert len(plan) == 2


@pytest.mark.slow
@pytest.mark.parametrize("known", [1, 0])
def test_an_interrupt_between_times_is_one(monkeypatch: pytest.MonkeyPatch, known: int) -> None:
    left, compared = [known], ExampleRunner.equality

    def interrupted(*arguments: Any) -> Equality:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return compared(*arguments)

    monkeypatch.setattr(ExampleRunner, "equality", interrupted)
    same = planted("y = 1\n", "y = 1\n")
    if not known:
        with pytest.raises(KeyboardInterrupt):
            run(monkeypatch, same, same)
        return
    report = run(monkeypatch, same, same)
    assert (report.cut, len(report.variants)) == ("interrupted", 2)


@pytest.mark.slow
def test_virtual_cuda_takes_counts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    report = run(
        monkeypatch,
        planted('y = x.to("cuda").sum().item()\n', "y = x.sum().item()\n"),
        device="virtual-cuda",
    )
    (found,) = report.variants
    assert (found.speed.verdict, found.speed.ratio, found.blocks_ns) == (
        Verdict.NOT_MEASURED,
        None,
        (),
    )
    assert found.counts is not None
    assert found.counts.syncs == (2.0, 0.0)
    assert (report.machine.device, report.null_control) == ("virtual-cuda", None)


def test_an_unknown_rule_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="verify rules: unknown rule 'TL12345'"):
        rule_mode.run(["TL12345"], Options())


def test_the_parent_imports_neither_libcst_nor_torch() -> None:
    program = (
        "import sys\nfrom torchlint.verify.paired import rule_mode, function_mode, rule_page\n"
        "from torchlint.catalog.rules import load_catalog\n"
        "pages = [rule_page.page(info) for info in load_catalog().rules if info.code == 'TL102']\n"
        "assert rule_page.applied_fixes(pages)['TL102', 0] == 'safe'\n"
        "print(sorted({'libcst', 'torch', 'torchlint.rule'} & set(sys.modules)))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "[]"


# Measurements


MACHINE = Machine("cpu", None, "2.13.0+cpu", "3.11.7", 1, 2, 0.5, None, "copy")
PLAN = Plan(24, 2, None, 0, 1, 0, 0.03)
RATIO = Ratio(19.91234, (17.8, 22.4), (float("-inf"), float("inf")), 0.0, 24)
TIMED = VariantResult(
    id="rule:TL603",
    kind="rule",
    fixes=("TL603",),
    title="t",
    where="",
    speed=Speed(Verdict.FASTER, RATIO, 20.0, 1.0, 19.1),
    counts=Counts("virtual-cuda", 1, (3.0, 2.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    equality=Equality(Level.BITWISE, Expected.BITWISE, True, 0.0),
)


BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def measured() -> Iterator[Any]:
    """The benchmark that writes measurements, as a module."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        yield importlib.import_module("rules")
    finally:
        sys.path.remove(str(BENCHMARKS))
        sys.modules.pop("rules", None)


def told(*variants: VariantResult, device: str = "cpu") -> dict[str, Any]:
    """A report as it is printed in JSON."""
    machine = dataclasses.replace(MACHINE, device=device)
    return json_report.document(Report("rules", (), "0", "2026-11-21", machine, PLAN, variants))


def test_what_prepares_a_measurement_needs_nothing_of_the_examples() -> None:
    """It runs before them."""
    early = []
    for info in load_catalog().rules:
        found = page(info)
        own = bound(found.setup) | bound(found.prepare)
        later = {name for pair in found.pairs for side in pair for name in bound(side)} - own
        names = {node.id for node in ast.walk(ast.parse(found.prepare)) if type(node) is ast.Name}
        early += [f"{info.code}: {name}" for name in sorted(names & later)]
    assert early == []


def bound(source: str) -> set[str]:
    """Return the names that source text binds at its top level."""
    table = symtable.symtable(source, "page", "exec")
    symbols = table.get_symbols()
    return {each.get_name() for each in symbols if each.is_assigned() or each.is_imported()}


def test_measurements_are_written_and_read_by_the_page(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    measured.write(told(TIMED), path)
    assert list(tmp_path.iterdir()) == [path]
    (entry,) = json.loads(path.read_text())["TL603"]
    assert (entry["ratio"], entry["ci95"], entry["n"], entry["verdict"]) == (
        19.912,
        [17.8, 22.4],
        24,
        "faster",
    )
    assert lines([entry]) == [
        (
            "- CPU (2 cores, torch 2.13.0, 2026-11-21): 19.9x [17.8, 22.4], n = 24: faster; "
            "results "
            "bitwise equal."
        ),
        "- Predicted for CUDA, not observed: 3 → 2 waits for the device a run.",
        "- Not measured on a GPU.",
    ]


NULLS = {"blocks_ns": [[8.0, 10.0], [12.0, 10.0]]}


def gpu() -> dict[str, Any]:
    """A report of a GPU whose null controls read 0.8 and 1.2."""
    return {**told(TIMED, device="cuda"), "null_control": NULLS}


def test_a_gpus_entry_says_what_identical_work_read(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    measured.write(gpu(), path)
    (entry,) = json.loads(path.read_text())["TL603"]
    assert entry["nulls"] == [0.8, 1.2]
    assert lines([entry])[0].endswith("bitwise equal; null controls of that run 0.80x to 1.20x.")


def test_a_report_of_a_run_elsewhere_is_taken_in(tmp_path: Path, measured: Any) -> None:
    document = gpu()
    items = {"TL6": {"report": document}, "TL7": {"error": "no time was left"}}
    assert measured._documents(document) == [document]
    assert measured._documents({"stages": {"rules": {"items": items}}}) == [document]
    measured.write(document, tmp_path / "measured.json", ["TL101"])
    assert json.loads((tmp_path / "measured.json").read_text()) == {}


def test_a_run_replaces_the_entry_of_its_own_device_only(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    measured.write(told(TIMED, device="cuda"), path)
    measured.write(told(TIMED), path)
    slower = dataclasses.replace(
        TIMED, speed=dataclasses.replace(TIMED.speed, verdict=Verdict.SLOWER)
    )
    measured.write(told(slower), path)
    entries = json.loads(path.read_text())["TL603"]
    assert [(entry["device"], entry["verdict"]) for entry in entries] == [
        ("cpu", "slower"),
        ("cuda", "faster"),
    ]
    measured.write(told(dataclasses.replace(TIMED, id="rule:TL101")), path)
    assert sorted(json.loads(path.read_text())) == ["TL101", "TL603"]


def test_examples_that_did_not_run_leave_no_entry(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    measured.write(told(TIMED), path)
    needy = dataclasses.replace(
        TIMED, speed=Speed(Verdict.NOT_MEASURED, why="needs lightning"), equality=None, counts=None
    )
    measured.write(told(needy), path)
    assert json.loads(path.read_text()) == {}
    measured.write(told(dataclasses.replace(TIMED, status=Status.BROKEN)), path)
    assert json.loads(path.read_text()) == {}


def test_what_is_not_known_is_null(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    speed = Speed(Verdict.INCONCLUSIVE, dataclasses.replace(RATIO, ci95=(0.5, float("inf"))))
    measured.write(told(dataclasses.replace(TIMED, speed=speed, counts=None)), path)
    (entry,) = json.loads(path.read_text())["TL603"]
    assert (entry["ci95"], entry["before_ms"], entry["counts"]) == ([0.5, None], None, None)


def test_measurements_are_guarded(tmp_path: Path, measured: Any) -> None:
    path = tmp_path / "measured.json"
    for text in ("{", "[]", '{"TL1": 1}'):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"measurements|Expecting"):
            measured.write(told(TIMED), path)
        assert path.read_text() == text
