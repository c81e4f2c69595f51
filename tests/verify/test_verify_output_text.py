"""The text report: aligned, honest on what was not measured, safe on a terminal."""

from __future__ import annotations

import dataclasses
import re

import pytest

from tests.verify import reports
from torchlint.report.kit import words
from torchlint.report.kit.terminal import shown_line
from torchlint.verify.model import Counts, Report, Speed, Verdict
from torchlint.verify.output import phrases, sentences, text

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def columns(line: str) -> int:
    """Return how many terminal columns a line takes."""
    return shown_line(line).columns[-1]


def row(report: Report, start: str) -> str:
    """Return the only line of the text that begins so."""
    found = [line for line in text.render(report).splitlines() if line.startswith(start)]
    assert len(found) == 1
    return found[0]


def test_the_head_says_who_measured() -> None:
    lines = text.render(reports.SCRIPT).splitlines()
    assert lines[0] == "torchlint verify: train.py --epochs 1 (script mode)"
    assert lines[1] == (
        "CPU, 2 cores, torch 2.13.0, 1 thread. No GPU used: times are CPU times; syncs and bytes "
        "are predicted."
    )


def test_a_row_has_the_measured_facts() -> None:
    cells = re.split(r" {2,}", row(reports.SCRIPT, "TL603"))
    assert cells == [
        "TL603 gather instead of a loop",
        "pkg/model.py:15",
        "2.51x [2.32, 2.68]",
        "faster",
        "35 -> 3",
        "8,448 -> 8,448 B",
        "260 -> 4 B",
        "248 -> 153 MB",
        "weights bitwise, loss 7e-07",
    ]


def test_the_null_control_is_the_last_row_and_has_no_verdict() -> None:
    assert re.split(r" {2,}", row(reports.SCRIPT, "null control")) == [
        "null control",
        "1.01x [0.98, 1.04]",
        *"––––––",
    ]
    assert "too noisy" in row(reports.NOISY, "null control")


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            reports.SCRIPT,
            "Predicted for a GPU: 35 -> 1 waits and 8,708 -> 8,448 B copied a step, by 2 of 3 "
            "fixes. "
            "On this CPU (2 cores, torch 2.13.0): 1 of 3 fixes is faster, 1 no change, 1 "
            "inconclusive; "
            "together 3.09x [2.78, 3.28].",
        ),
        (
            reports.MIXED,
            "Predicted for a GPU: 35 -> 1 waits and 8,708 -> 8,448 B copied a step, by 2 of 7 "
            "fixes. "
            "On this CPU (2 cores, torch 2.13.0): 2 of 7 fixes are faster (1 of them with "
            "changed results), 1 slower, "
            "1 no change, 1 inconclusive, 1 not exercised, 1 broken by fix; together 3.09x "
            "[2.78, 3.28].",
        ),
        (
            reports.NOISY,
            "Predicted for a GPU: 35 -> 1 waits and 8,708 -> 8,448 B copied a step, by 2 of 3 "
            "fixes. "
            "On this CPU (2 cores, torch 2.13.0): no time is decided. "
            "The machine is too noisy: the null control read 1.08x [1.04, 1.12].",
        ),
        (
            reports.FAR,
            "Predicted for a GPU: 35 -> 1 waits and 8,708 -> 8,448 B copied a step, by 2 of 3 "
            "fixes. "
            "On this CPU (2 cores, torch 2.13.0): 1 of 3 fixes is faster, 1 no change, 1 "
            "inconclusive; together 3.09x [2.78, 3.28]. The machine is noisy: the null "
            "control read 1.08x [1.04, 1.12], and less than that is open.",
        ),
        (
            reports.VIRTUAL,
            "Predicted for a CUDA device, no times taken: 2 of 3 fixes lower syncs or bytes; "
            "together 35 -> 1 syncs a step.",
        ),
        (
            reports.FEW_PAIRS,
            "Predicted for a GPU: 35 -> 3 waits and 8,708 -> 8,452 B copied a step. "
            "On this CPU (2 cores, torch 2.13.0): 1 fix: inconclusive, 1.40x (no interval: 5 "
            "pairs).",
        ),
        (reports.EMPTY, "On this CPU (2 cores, torch 2.13.0): nothing was compared."),
    ],
    ids=["script", "mixed", "noisy", "far beyond noise", "virtual", "few-pairs", "empty"],
)
def test_the_headline_says_what_is_known(report: Report, sentence: str) -> None:
    assert sentences.headline(report) == sentence
    assert sentence in text.render(report).splitlines()


def test_a_headline_without_counts_does_not_say_that_no_fix_lowers_them() -> None:
    """A function has no counts, and --device virtual-cuda takes no times: neither was looked at."""
    variants = tuple(dataclasses.replace(each, counts=None) for each in reports.VIRTUAL.variants)
    report = dataclasses.replace(reports.VIRTUAL, mode="function", variants=variants)
    assert sentences.headline(report) == (
        "Nothing was predicted, no times taken: 3 fixes, none is shown to change results."
    )


def timed_together(ratio: float, evaluation: Counts | None = None) -> Report:
    """Return the sample report with no fix timed alone, as the default has it where all together do
    not move."""
    found = []
    for each in reports.SCRIPT.variants:
        speed = Speed(Verdict.NOT_MEASURED, why="not timed alone")
        if each.kind == "all":
            speed = Speed(Verdict.NO_CHANGE, reports.ratio(ratio, 0.99, 1.02), 3.1, 3.1)
        counts = each.counts and dataclasses.replace(each.counts, evaluation=evaluation)
        found.append(dataclasses.replace(each, speed=speed, counts=counts))
    return dataclasses.replace(reports.SCRIPT, variants=tuple(found))


def test_the_headline_of_a_cpu_begins_with_what_a_gpu_would_gain() -> None:
    said = sentences.headline(timed_together(1.0))
    assert said.startswith(
        "Predicted for a GPU: 35 -> 1 waits and 8,708 -> 8,448 B copied a step, by 2 of 3 fixes. "
    )
    assert said.endswith(
        "On this CPU (2 cores, torch 2.13.0): together no change, 1.00x [0.99, 1.02]."
    )
    assert "none" not in said


def test_what_evaluation_would_gain_stands_in_headline_and_table() -> None:
    counts = Counts("virtual-cuda", 6, (4.0, 3.0), (0.0, 0.0), (8.0, 8.0), (0.0, 0.0))
    report = timed_together(1.0, counts)
    assert "a step, 4 -> 3 waits a batch of evaluation, by" in sentences.headline(report)
    assert "; eval 4 -> 3" in row(report, "all together")


def test_nothing_to_gain_is_said() -> None:
    same = Counts("virtual-cuda", 6, (4.0, 4.0), (0.0, 0.0), (8.0, 8.0), (0.0, 0.0))
    found = tuple(dataclasses.replace(each, counts=same) for each in reports.SCRIPT.variants)
    said = sentences.headline(dataclasses.replace(reports.SCRIPT, variants=found))
    assert said.startswith("Predicted for a GPU: no fewer waits or bytes a step. On this CPU")


def test_sizes_that_look_the_same_are_no_gain() -> None:
    counts = Counts("virtual-cuda", 6, (4.0, 3.0), (21_004.0, 21_004.0), (4.0, 0.0), (0.0, 0.0))
    assert sentences._saved(counts, "step") == "4 -> 3 waits a step"


def test_the_headline_names_the_gpu() -> None:
    assert sentences.headline(reports.CUDA).startswith(
        "On NVIDIA H200 (torch 2.13.0): 1 of 3 fixes is faster"
    )


def test_a_gain_with_changed_results_is_not_sold_as_one() -> None:
    bundle = dataclasses.replace(reports.ALL, equality=reports.DIFFERENT.equality)
    report = reports.changed(variants=(reports.GATHER, reports.CAT, bundle))
    assert sentences.headline(report).endswith("together 3.09x [2.78, 3.28], with changed results.")


def test_no_faster_fix_is_said_plainly() -> None:
    report = reports.changed(variants=(reports.CAT, reports.ITEM))
    assert (
        "none of 2 fixes is shown to be faster, 1 no change, 1 inconclusive"
        in sentences.headline(report)
    )


def test_counts_and_times_are_labelled() -> None:
    head, basis = text.render(reports.SCRIPT).splitlines()[6:8]
    assert "speed on CPU" in head
    assert basis.split() == [
        "95",
        "%",
        "interval",
        "predicted",
        "predicted",
        "predicted",
        "resident",
        *("on", "this", "CPU"),
    ]
    head, basis = text.render(reports.CUDA).splitlines()[6:8]
    assert "speed on GPU" in head
    assert basis.split()[2:] == ["interval", *["observed"] * 3, "device", "on", "this", "GPU"]


def test_an_unavailable_ledger_gives_its_reason_and_no_zero() -> None:
    shown = text.render(reports.UNCOUNTED)
    assert "Ledger unavailable: torch.cuda.Stream is not simulated" in shown.splitlines()
    assert "Not measured: syncs/step, H2D/step, D2H/step." in shown.splitlines()
    assert "predicted" not in shown
    assert " 0 " not in shown.split("Original:")[0]


def test_a_ledger_that_fails_for_one_fix_names_the_fix() -> None:
    report = reports.changed(
        variants=(dataclasses.replace(reports.GATHER, counts=reports.NO_LEDGER), reports.CAT)
    )
    shown = text.render(report)
    assert (
        "Ledger unavailable: torch.cuda.Stream is not simulated (TL603 at pkg/model.py:15)" in shown
    )
    assert re.split(r" {2,}", row(report, "TL603"))[4:7] == ["–", "–", "–"]


def test_what_failed_says_why() -> None:
    shown = text.render(reports.MIXED)
    assert "TL301 at pkg/ddp.py:30: AttributeError: no static_graph" in shown
    assert "TL701 at eval.py:4: no line that the fix changes ran" in shown
    assert re.split(r" {2,}", row(reports.MIXED, "TL301"))[2:4] == ["–", "broken by fix"]
    assert row(reports.MIXED, "TL401").endswith(
        "different: out: torch.float32 and torch.float64 (promised bitwise)"
    )


def test_rules_have_a_row_each() -> None:
    assert re.split(r" {2,}", row(reports.RULES, "TL801")) == [
        "TL801",
        "item-in-loop",
        "388x [356, 422]",
        "faster",
        "64 -> 1",
        "close: 1.9e-06",
    ]
    assert "syncs/run" in text.render(reports.RULES)


def test_functions_have_calls() -> None:
    assert "syncs/call" in text.render(reports.FUNCTION)
    assert "Original: 3.10 ms a call on the CPU with 1 thread (--threads; " in text.render(
        reports.FUNCTION
    )


def test_the_method_counts_the_pairs_that_were_measured() -> None:
    assert "from 24 pairs of blocks of 10 steps (planned: 24), 2 launches" in text.render(
        reports.SCRIPT
    )
    few = dataclasses.replace(reports.FEW_PAIRS.variants[0], id="few")
    mixed = reports.changed(variants=(few, reports.CAT))
    assert "from 5 to 24 pairs of blocks" in text.render(mixed)
    assert "Speed is" not in text.render(reports.VIRTUAL)


def test_other_notes_are_printed() -> None:
    assert "clock: performance counter" in text.render(
        reports.changed(extra={"clock": "performance counter"})
    )


def test_a_device_mismatch_is_a_warning() -> None:
    line = dataclasses.replace(reports.GATHER.counts.before[0], kind="mismatch", what="cat")  # type: ignore[union-attr]
    report = reports.only(counts=Counts("virtual-cuda", 20, (1.0, 1.0), before=(line,)))
    assert "predicted: pkg/model.py:15 mixes devices (cat); a real GPU stops there" in text.render(
        report
    )


@pytest.mark.parametrize(
    ("unchanged", "sentence"),
    [
        (True, "Your files are unchanged."),
        (False, "YOUR FILES CHANGED while verify ran."),
        (None, "Nothing was copied, so your files were not compared."),
    ],
)
def test_the_users_tree_is_accounted_for(unchanged: bool | None, sentence: str) -> None:
    assert sentence in text.render(reports.changed(tree_unchanged=unchanged)).splitlines()


@pytest.mark.parametrize("title", ["画像を読む", "ｆｕｌｌ", "e\u0301te\u0301", "a\tb"], ids=ascii)
def test_columns_line_up_with_wide_characters(title: str) -> None:
    report = reports.changed(
        variants=(dataclasses.replace(reports.GATHER, title=title), reports.CAT)
    )
    lines = [
        line
        for line in text.render(report).splitlines()
        if line.startswith("TL60") and "x [" in line
    ]
    starts = {columns(line[: re.search(r"\d\.\d\dx", line).start()]) for line in lines}  # type: ignore[union-attr]
    assert len(lines) == 2
    assert len(starts) == 1


@pytest.mark.parametrize("color", [False, True])
def test_a_hostile_name_cannot_steer_the_terminal(color: bool) -> None:
    shown = (
        ANSI.sub("", text.render(reports.HOSTILE_NAMES, color=color))
        if color
        else text.render(reports.HOSTILE_NAMES)
    )
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert r"\x1b[31m\u202e" in shown
    assert r"caf\udce9.py:3" in shown
    assert shown.encode()


def test_colours_only_where_asked() -> None:
    assert "\x1b" not in text.render(reports.MIXED)
    colored = text.render(reports.MIXED, color=True)
    assert "\x1b[32mfaster\x1b[0m" in colored
    assert "\x1b[31mbroken by fix\x1b[0m" in colored
    assert ANSI.sub("", colored) == text.render(reports.MIXED)


def test_a_narrow_terminal_shortens_places_from_the_left() -> None:
    deep = reports.only(where=f"{'deep/' * 30}model.py:15")
    wide = text.render(deep)
    narrow = text.render(deep, width=170)
    assert f"{'deep/' * 30}model.py:15  2.51x" in wide
    assert re.search(r" \.\.\.[a-z/]*deep/model\.py:15 +2\.51x", narrow)
    table = narrow.splitlines()[6:10]
    assert max(map(columns, table)) <= 170


def test_a_very_narrow_terminal_gets_lines_instead_of_columns() -> None:
    lines = text.render(reports.SCRIPT, width=80).splitlines()
    start = lines.index("TL603 gather instead of a loop")
    assert lines[start + 1 : start + 5] == [
        "  where                         pkg/model.py:15",
        "  speed on CPU (95 % interval)  2.51x [2.32, 2.68]",
        "  verdict                       faster",
        "  syncs/step (predicted)        35 -> 3",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.004, "0.004x"),
        (0.97, "0.97x"),
        (2.514, "2.51x"),
        (9.999, "10.0x"),
        (19.94, "19.9x"),
        (388.2, "388x"),
    ],
)
def test_ratios_have_three_digits(value: float, shown: str) -> None:
    assert words.times(value) == shown


@pytest.mark.parametrize(
    ("pair", "shown"),
    [
        ((260, 4), "260 -> 4 B"),
        ((65_536, 0), "65.5 kB -> 0 B"),
        ((999_900, 999_400), "1 MB -> 999 kB"),
        ((0.5, 0.05), "0.5 -> 0.05 B"),
        ((3e15, 2e12), "3,000 -> 2 TB"),
        (None, "–"),
    ],
    ids=str,
)
def test_sizes(pair: tuple[float, float] | None, shown: str) -> None:
    assert words.sizes(pair, "->") == shown


def test_a_ratio_that_is_not_a_number_is_not_measured() -> None:
    speed = Speed(Verdict.INCONCLUSIVE, reports.ratio(1.0, 1.0, 1.0))
    broken = dataclasses.replace(
        speed, ratio=dataclasses.replace(speed.ratio, estimate=float("nan"))
    )  # type: ignore[type-var]
    assert phrases.shown_speed(broken) == "–"
