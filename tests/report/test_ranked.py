"""The default report: readable at hundreds of findings, on every terminal, the same words whoever
looks on."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

import pytest

from torchlint.base.finding import Finding, Frequency, Safety, Severity, TextFix
from torchlint.base.span import Position
from torchlint.report import full
from torchlint.report.kit.terminal import fitted, shown_line
from torchlint.report.ranked import FEW, render
from torchlint.report.run_report import RuleMeta, RunReport
from torchlint.report.summary import next_steps

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
LINE = 'mask = torch.zeros(8).to("cuda")'


@pytest.fixture
def many(make_finding: Findings, safe_fix: TextFix) -> list[Finding]:
    """Findings of three rules in two files, with what decides on their order."""
    unsafe = dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="n")
    return [
        make_finding(),
        make_finding(start=Position(6, 30)),
        make_finding(start=Position(7, 9), fix=unsafe, frequency=Frequency.TRAINING),
        make_finding(filename="b.py", start=Position(8, 9), fix=None, message="other"),
        make_finding(code="TL201", name="one", message="cold", fix=None),
        make_finding(
            code="TL202", name="two", message="hot", fix=None, frequency=Frequency.TRAINING
        ),
        make_finding(code="TL203", name="bad", message="wrong", fix=None, severity=Severity.ERROR),
        make_finding(code="TL409", name="hint", message="slow", fix=None, severity=Severity.INFO),
        make_finding(
            code="invalid-syntax",
            name="invalid-syntax",
            message="no Python",
            severity=Severity.ERROR,
            fix=None,
        ),
    ]


GOLDEN = f"""\
TL203 bad
  1 error in 1 file
  wrong
  train.py
    6:16  {LINE}

TL102 Tensor made on the CPU, then moved
  4 warnings in 2 files, 1 of them every training step; 2 [*], 1 [~]
  Tensor is made on the CPU, then moved to `cuda`
  train.py
    6:16  [*] {LINE}  (2x)
     7:9  [~] loss = model(x, mask)
  other
  b.py
    8:9  loss.backward()

TL202 two
  1 warning in 1 file, every training step
  hot
  train.py
    6:16  {LINE}

TL201 one
  1 warning in 1 file
  cold
  train.py
    6:16  {LINE}

1 file not read as Python
  train.py:6:16: no Python

1 info not listed (1 TL409); --show-infos lists them.

"""


def test_golden(many: list[Finding], make_run: Runs) -> None:
    run = make_run(*many)
    rules = {"TL102": dataclasses.replace(run.rules["TL102"], waits=1.0)}
    assert render(dataclasses.replace(run, rules=rules)) == GOLDEN


def test_what_differs_in_a_rules_messages_is_shown(make_finding: Findings, make_run: Runs) -> None:
    words = (
        "`a.item()` waits; use torch.where(m, a, b).",
        "`b[0].item()` waits; use torch.where(m, a, b).",
        "torch.ones builds; pass device=x.device instead.",
        "torch.zeros builds; pass device=y.device instead.",
        "`c` waits; use torch.where(m, a, b), or a mask.",
    )
    found = [
        make_finding(message=message, start=Position(row, 9), fix=None)
        for row, message in enumerate([*words, *words[:2]], 1)
    ]
    run = make_run(*found, text="x = 1\n" * 9)
    lines = [line.strip() for line in render(run).splitlines()]
    told = [line for line in lines if "waits" in line or "builds" in line]
    assert told == [
        "`a.item()` or `b[0].item()` waits; use torch.where(m, a, b).",
        "torch.ones or torch.zeros builds; pass device=x.device or device=y.device instead.",
        "`c` waits; use torch.where(m, a, b), or a mask.",
    ]
    at = lines.index(told[1])
    assert [line.split()[0] for line in lines[at + 1 : at + 4]] == ["train.py", "3:9", "4:9"]


def test_of_many_names_the_first_is_told(make_finding: Findings, make_run: Runs) -> None:
    words = [f"`{name}.item()` waits; use torch.zeros(m)." for name in "abcdefg"]
    found = [
        make_finding(message=message, start=Position(row, 9), fix=None)
        for row, message in enumerate(words, 1)
    ]
    shown = render(make_run(*found, text="x = 1\n" * 9))
    assert "  `a.item()` (or the like) waits; use torch.zeros(m).\n" in shown


def test_the_order_of_the_files_does_not_matter(many: list[Finding], make_run: Runs) -> None:
    run = make_run(*many)
    turned = dataclasses.replace(run, files=run.files[::-1])
    assert render(turned) == render(run)


def test_colours_add_nothing_but_colour(many: list[Finding], make_run: Runs) -> None:
    colored = render(make_run(*many, color=True))
    assert "\x1b[" in colored
    assert re.sub(r"\x1b\[[0-9;]*m", "", colored) == render(make_run(*many))


@pytest.mark.parametrize(
    ("few", "show", "listed"), [(True, None, False), (True, False, True), (False, True, False)]
)
def test_source_is_shown_for_few_findings_and_on_request(
    many: list[Finding], make_run: Runs, few: bool, show: bool | None, listed: bool
) -> None:
    run = make_run(*many[: FEW if few else None], show_source=show)
    assert (render(run) != full.render(run)) is listed
    assert bool(next_steps(run)) is listed


def test_infos_in_code_that_nothing_uses_are_counted_apart(
    many: list[Finding], make_finding: Findings, make_run: Runs
) -> None:
    dead = make_finding(severity=Severity.INFO, fix=None, frequency=Frequency.UNUSED)
    text = " ".join(render(make_run(*many, dead)).split())
    assert "2 infos not listed (1 TL102, 1 TL409), 1 of them in code that nothing uses;" in text
    shown = render(dataclasses.replace(make_run(*many, dead), show_infos=True))
    assert shown.index("TL409") < shown.index("1 info in 1 file\n  Tensor is made")


def test_a_line_in_code_that_nothing_uses_is_marked(
    many: list[Finding], make_finding: Findings, make_run: Runs
) -> None:
    dead = make_finding(start=Position(7, 9), end=Position(7, 12), frequency=Frequency.UNUSED)
    lines = render(make_run(*many, dead, show_source=False)).splitlines()
    marked = [line for line in lines if line.endswith("  (in unused code)")]
    assert [line.split()[0] for line in marked] == ["7:9"]


def test_infos_are_listed_on_request(many: list[Finding], make_run: Runs) -> None:
    report = render(make_run(*many, show_infos=True))
    assert report.index("TL201") < report.index("TL409") < report.index("not read as Python")
    assert "not listed" not in report


@pytest.mark.parametrize("width", [1, 20, 40, 60, 80, 120, 500])
def test_a_line_is_as_wide_as_the_terminal_at_most(
    many: list[Finding], make_run: Runs, width: int
) -> None:
    """Places are never cut: who copies one needs all of it."""
    long = f"x = f('漢\t{'a' * 500}')\n" * 9
    run = make_run(*many, text=long, width=width)
    places = re.compile(r" *\S+:\d+:\d+:?$| *\d+:\d+( +\[.\])?$")
    for line in render(run).splitlines():
        assert shown_line(line).columns[-1] <= max(20, min(width, 120)) or places.match(line), line
    steps = next_steps(run).splitlines()
    assert any(line == "  torchlint rule TL102" for line in steps) is (width < 80)


def test_a_finding_without_source_says_its_message(many: list[Finding], make_run: Runs) -> None:
    run = make_run(*many)
    bare = dataclasses.replace(
        run, files=tuple(dataclasses.replace(file, source=()) for file in run.files)
    )
    assert "[*] Tensor is made on the CPU, then moved to `cuda`  (2x)\n" in render(bare)


def test_every_finding_is_counted_and_each_place_listed_once(
    make_finding: Findings, make_run: Runs
) -> None:
    found = [
        make_finding(
            code=f"TL{101 + number % 7}",
            filename=f"p{number % 30}.py",
            start=Position(number + 1, 5),
        )
        for number in range(300)
    ]
    report = render(make_run(*found))
    assert sum(map(int, re.findall(r"^  (\d+) warnings? in", report, re.MULTILINE))) == 300
    assert len(re.findall(r"^ +\d+:5 ", report, re.MULTILINE)) == 300
    assert len(report.splitlines()) < 600


def test_of_equally_frequent_rules_that_which_waits_comes_first(
    make_finding: Findings, make_run: Runs
) -> None:
    found = [
        make_finding(code=f"TL60{number % 3}", start=Position(number + 1, 1)) for number in range(7)
    ]
    meta = make_run().rules["TL102"]
    rules = {
        "TL600": meta,
        "TL601": dataclasses.replace(meta, code="TL601", faster=3.0),
        "TL602": dataclasses.replace(meta, code="TL602", waits=0.5),
    }
    report = render(dataclasses.replace(make_run(*found), rules=rules))
    assert re.findall(r"^TL\d+", report, re.MULTILINE) == ["TL602", "TL600", "TL601"]


def test_next_steps_name_only_what_there_is(many: list[Finding], make_run: Runs) -> None:
    assert next_steps(make_run(*many)) == (
        "Next:\n"
        "  torchlint fix                  2 safe repairs [*] as a diff (--apply: write)\n"
        "  torchlint fix --unsafe-fixes   1 repair [~] more, and what each may change\n"
        "  torchlint check --show-source  the code, why it runs so often, the repair\n"
        "  torchlint check --statistics   how often each rule was broken\n"
        "  torchlint check --show-infos   the infos, too\n"
        "  torchlint rule TL102           why it costs, and when it is left alone\n"
    )
    assert next_steps(make_run(*[many[-1]] * 9)) == ""
    assert "fix" not in next_steps(make_run(*[many[5]] * 9))


@pytest.mark.parametrize(
    ("text", "at", "room", "shown"),
    [
        ("abc", 0, 8, "abc"),
        ("a" * 20, 0, 10, "aaaaaaa..."),
        ("a" * 20 + "BAD", 20, 10, "...aaBAD"),
        ("a" * 20 + "BAD" + "c" * 20, 20, 12, "...aaaBAD..."),
        ("漢" * 9, 0, 10, "漢漢漢..."),
        ("\t" * 9, 3, 10, "..." + " " * 4 + "..."),
    ],
)
def test_a_line_is_cut_around_the_finding(text: str, at: int, room: int, shown: str) -> None:
    assert fitted(text, at, room) == shown


def test_rules_of_a_run_know_what_was_measured(make_run: Runs) -> None:
    assert RuleMeta("TL1", "n", "t", Severity.INFO, "f").waits == 0.0
