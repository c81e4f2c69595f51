"""Rule pages and the README table, and the commands that show them."""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from torchlint.base.errors import CatalogError, UsageError
from torchlint.base.finding import ENGINE_CODES, Safety
from torchlint.catalog.rules import Catalog, RuleInfo
from torchlint.cli import rule as rule_module
from torchlint.cli import rules as rules_module
from torchlint.cli.rule import rule_command
from torchlint.cli.rules import rules_command
from torchlint.manual import pages
from torchlint.manual.measurements import lines

SECTIONS = {
    "Bad": "Text.\n\n```python\nfor x in y:\n    pass\n```",
    "Why": "It waits.",
    "Fix safety": "Bit for bit.",
    "Measure": "Once.",
}
HOST_READ = RuleInfo(
    code="TL101",
    name="host-read",
    family="transfer",
    title="Read a | b.",
    message="`{name}` waits",
    severity="warning",
    default=True,
    triggers=(b"item",),
    yields_to=("TL104",),
    fixes=(Safety.SAFE, Safety.UNSAFE),
    manual="",
    sections=SECTIONS,
    module="m",
    path="p",
)
SLOW_LOADER = RuleInfo(
    code="TL201",
    name="slow-loader",
    family="loading",
    title="T.",
    message="M",
    severity="info",
    default=False,
    triggers=(b"x",),
    fixes=(),
    manual="",
    sections={},
    module="m",
    path="p",
)
CATALOG = Catalog([HOST_READ, SLOW_LOADER])


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put two rules in the place of ours, with no measurements."""
    monkeypatch.setattr(rule_module, "load_catalog", lambda: CATALOG)
    monkeypatch.setattr(rules_module, "load_catalog", lambda: CATALOG)
    monkeypatch.setattr(pages, "measurements", dict)


def test_page() -> None:
    assert pages.page(HOST_READ) == (
        "# host-read (TL101)\n\n"
        "warning · on by default · safe fix, unsafe fix\n\n"
        "Read a | b.\n\n"
        "> `{name}` waits\n\n"
        "## Why\n\nIt waits.\n\n"
        "## Bad\n\nText.\n\n```python\nfor x in y:\n    pass\n```\n\n"
        "## Fix safety\n\nBit for bit.\n\n"
        "## Measure\n\nOnce.\n\nNot measured here.\n"
    )


def test_page_of_a_rule_that_was_measured() -> None:
    page = pages.page(HOST_READ, {"TL101": ("2 µs -> 1 µs", "on a machine")})
    assert page.endswith("## Measure\n\nOnce.\n\n2 µs -> 1 µs\non a machine\n")
    assert pages.NOT_MEASURED not in page


def test_page_of_a_rule_without_fix() -> None:
    assert "info · off by default · no fix" in pages.page(SLOW_LOADER)


def test_page_for_the_terminal() -> None:
    text = pages.page_text(HOST_READ)
    assert text.startswith("host-read (TL101)\n\nwarning · on by default")
    assert "BAD\n\nText.\n\n    for x in y:\n        pass\n\nFIX SAFETY\n" in text
    assert "```" not in text


def test_prose_for_the_terminal_is_broken_where_a_line_is_too_long() -> None:
    long, code = " ".join(["a word"] * 20), "x" * 120
    text = f"Short.\nLines.\n\n{long}\nmore\n\n- {long}\n- b\n\n```python\n{code}\n```"
    sections = {**HOST_READ.sections, "Why": text}
    shown = pages.page_text(dataclasses.replace(HOST_READ, message=long, sections=sections))
    assert [line for line in shown.split("\n") if len(line) > pages.WIDTH] == [f"    {code}"]
    assert "Short.\nLines.\n\na word a word" in shown
    assert " ".join(shown.split()).count(long) == 3
    assert re.search(r"\n- a word .*\n  \w+ .*\n- b\n\n    x", shown)


def test_readme_table() -> None:
    assert pages.readme_table(CATALOG) == (
        "| Code | Rule | What | Fix | Default | Severity |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        "| TL101 | `host-read` | Read a \\| b. | safe, unsafe | on | warning |\n"
        "| TL201 | `slow-loader` | T. | – | off | info |\n"
    )


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of measurements of a test; what was read of it is forgotten after the test, as
    others of this process read ours."""
    monkeypatch.undo()  # of `known`
    monkeypatch.setattr(pages, "MEASURED", tmp_path / "measured.json")
    pages.measurements.cache_clear()
    yield tmp_path / "measured.json"
    pages.measurements.cache_clear()


CPU = {
    "device": "cpu",
    "device_name": None,
    "cores": 2,
    "torch": "2.13.0+cpu",
    "date": "2026-11-21",
    "n": 24,
    "ratio": 19.94,
    "ci95": [17.8, 22.4],
    "verdict": "faster",
    "equal": "bitwise",
    "expected": "bitwise",
    "counts": None,
}
TRAFFIC = {"basis": "virtual-cuda", "syncs": [3, 2.5], "h2d_bytes": [4096, 0], "d2h_bytes": [0, 0]}
SPOKEN = (
    "- CPU (2 cores, torch 2.13.0, 2026-11-21): 19.9x [17.8, 22.4], n = 24: faster; results "
    "bitwise equal."
)


def test_measurements_are_read(measured: Path) -> None:
    measured.write_text(json.dumps({"TL101": [CPU]}))
    assert pages.measurements() == {"TL101": (SPOKEN, "- Not measured on a GPU.")}
    pages.measurements.cache_clear()
    measured.unlink()
    assert pages.measurements() == {}


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({}, SPOKEN),
        ({"cores": 1}, SPOKEN.replace("2 cores", "1 core")),
        (
            {
                "device": "cuda",
                "device_name": "L4",
                "ratio": 302.4,
                "ci95": [0.971, None],
                "equal": "close",
            },
            (
                "- GPU (L4, torch 2.13.0, 2026-11-21): 302x [0.97, ∞], n = 24: faster; results "
                "equal "
                "up to rounding."
            ),
        ),
        (
            {"ratio": None, "ci95": None, "n": 0, "equal": "different", "expected": "opt-in"},
            "- CPU (2 cores, torch 2.13.0, 2026-11-21): results differ, as the page says.",
        ),
        ({"equal": "not compared"}, SPOKEN.replace("; results bitwise equal", "")),
    ],
)
def test_an_entry_in_words(change: dict[str, object], line: str) -> None:
    assert lines([{**CPU, **change}])[0] == line


def test_predicted_traffic_is_labelled() -> None:
    predicted = (
        "- Predicted for CUDA, not observed: 3 → 2.5 waits for the device, 4,096 → 0 "
        "bytes to the device a run."
    )
    assert lines([{**CPU, "counts": TRAFFIC}]) == [SPOKEN, predicted, "- Not measured on a GPU."]
    observed = {**CPU, "device": "cuda", "counts": {**TRAFFIC, "basis": "cuda"}}
    assert lines([observed])[1].startswith("- Observed on CUDA: 3 → 2.5 waits")
    assert "- Not measured on a GPU." not in lines([observed])


@pytest.mark.parametrize(
    "counts",
    [{"unavailable": "a gap", "syncs": None}, {**TRAFFIC, "syncs": [0, 0], "h2d_bytes": [0, 0]}],
)
def test_traffic_that_is_unknown_or_nothing_is_left_out(counts: dict[str, object]) -> None:
    assert lines([{**CPU, "counts": counts}]) == [SPOKEN, "- Not measured on a GPU."]


def test_a_rule_that_was_neither_timed_nor_compared_says_so() -> None:
    nothing = {**CPU, "ratio": None, "ci95": None, "equal": "not compared"}
    assert lines([nothing]) == ["- Not measured on a GPU."]


@pytest.mark.parametrize("text", ["{", "[]", '{"TL101": 1}', '{"TL101": [{}]}', '{"TL101": [1]}'])
def test_damaged_measurements_are_an_error(measured: Path, text: str) -> None:
    measured.write_text(text)
    with pytest.raises(CatalogError, match=r"measured.json: "):
        pages.measurements()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(rule_command, arguments)


@pytest.mark.parametrize("asked", ["TL101", "host-read", "tl101", "Host-Read"])
def test_rule_shows_a_page(asked: str) -> None:
    result = run(asked)
    assert (result.exit_code, result.output) == (0, pages.page_text(HOST_READ))


def test_rule_as_json() -> None:
    shown = json.loads(run("TL101", "--output-format", "json").output)
    assert (shown["code"], shown["fixes"], shown["default"]) == ("TL101", ["safe", "unsafe"], True)
    assert shown["sections"]["Measure"] == "Once.\n\nNot measured here."


def test_all_rules() -> None:
    assert run("--all").output == pages.page_text(HOST_READ) + "\n\n" + pages.page_text(SLOW_LOADER)
    shown = json.loads(run("--all", "--output-format", "json").output)
    assert [rule["code"] for rule in shown] == ["TL101", "TL201"]


def test_a_prefix_lists_the_rules_that_it_stands_for() -> None:
    line = "TL101  host-read  warning  on  safe, unsafe  Read a | b.\n"
    assert (run("tl1").exit_code, run("TL1").output) == (0, line)
    assert len(run("TL").output.splitlines()) == len(run("all").output.splitlines()) == 2
    shown = json.loads(run("TL1", "--output-format", "json").output)
    assert [(rule["code"], "sections" in rule) for rule in shown] == [("TL101", True)]


@pytest.mark.parametrize("code", [*ENGINE_CODES, "tl001", "Unreadable"])
def test_the_engines_own_codes_are_explained(code: str) -> None:
    assert run(code).exit_code == 0
    assert json.loads(run(code, "--output-format", "json").output)["code"].lower() == code.lower()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "name one rule"),
        (("TL101", "--all"), "name one rule"),
        (("TL110",), "unknown rule 'TL110'; did you mean 'TL101'?"),
        (("TL1000",), "unknown rule 'TL1000'; 'torchlint rules' lists all"),
        (("TL00",), "'TL00' stands for TL001"),
        (("",), "unknown rule ''"),
    ],
)
def test_what_rule_cannot_show_is_a_usage_error(arguments: tuple[str, ...], reason: str) -> None:
    error = run(*arguments).exception
    assert isinstance(error, UsageError)
    assert reason in str(error)


def test_rules_lists_a_line_each() -> None:
    result = CliRunner().invoke(rules_command, [])
    assert result.output == (
        "TL101  host-read    warning  on   safe, unsafe  Read a | b.\n"
        "TL201  slow-loader  info     off  -             T.\n"
    )


def test_rules_as_json() -> None:
    shown = json.loads(CliRunner().invoke(rules_command, ["--output-format", "json"]).output)
    assert [(rule["code"], rule["severity"]) for rule in shown] == [
        ("TL101", "warning"),
        ("TL201", "info"),
    ]
    assert "sections" not in shown[0]


def test_no_rules_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules_module, "load_catalog", lambda: Catalog([]))
    assert CliRunner().invoke(rules_command, []).output == ""


@pytest.mark.parametrize(
    "call",
    ["rule_command(['--all'], standalone_mode=False)", "rules_command([], standalone_mode=False)"],
)
def test_the_commands_import_neither_libcst_nor_torch(call: str) -> None:
    program = (
        "import sys\nfrom torchlint.cli.rule import rule_command\nfrom torchlint.cli.rules "
        "import rules_command\n"
        f"{call}\n"
        "print('imported:', sorted({'libcst', 'torch', 'torchlint.rule'} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert run.stdout.splitlines()[-1] == "imported: []"
