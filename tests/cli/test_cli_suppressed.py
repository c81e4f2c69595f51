"""``--report-suppressed``: SARIF knows what comments and baselines keep out of all other
reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]
IGNORED = """\
import torch
torch.slow()  # torchlint: ignore[TL101] the loader needs it
torch.slow()  # noqa: TL101
torch.odd()
"""


def results(cli: Cli, *arguments: str, code: int = 1) -> list[tuple[str, int, Any]]:
    """Return of each result its code, its row, and its suppressions."""
    text = cli("check", "--output-format", "sarif", *arguments, code=code).stdout
    return [
        (
            result["ruleId"],
            result["locations"][0]["physicalLocation"]["region"]["startLine"],
            result.get("suppressions"),
        )
        for result in json.loads(text)["runs"][0]["results"]
    ]


SAID = [
    ("TL102", 4, []),
    ("TL101", 2, [{"kind": "inSource", "justification": "the loader needs it"}]),
    ("TL101", 3, [{"kind": "inSource"}]),
]


@pytest.fixture
def ignored(cli: Cli) -> Cli:
    cli.write("a.py", IGNORED)
    return cli


def test_only_on_request(ignored: Cli) -> None:
    """GitHub opens an alert for every result, whatever suppressions say of it."""
    assert results(ignored) == [("TL102", 4, None)]
    assert results(ignored, "--report-suppressed") == SAID


def test_a_cached_report_holds_them(ignored: Cli) -> None:
    ignored("check", code=1)
    ignored("check", "--output-format", "concise", code=1)
    for _ in range(2):
        assert results(ignored, "--report-suppressed") == SAID


def test_they_change_neither_exit_code_nor_other_reports(cli: Cli) -> None:
    cli.write("a.py", IGNORED.replace("torch.odd()\n", ""))
    plain = cli("check", "--no-cache", code=0).stdout
    both = cli(
        "check", "--no-cache", "--report-suppressed", "--output-format", "sarif:out.sarif", code=0
    )
    assert (both.stdout, both.stderr) == (plain, "")
    assert len(json.loads((cli.cwd / "out.sarif").read_text())["runs"][0]["results"]) == 2
    for form in ("json", "junit", "concise", "grouped", "gitlab", "rdjson"):
        arguments = ("check", "--no-cache", "--output-format", form)
        more = ("--report-suppressed", "--output-format", "sarif:out.sarif")
        assert cli(*arguments, *more, code=0).stdout == cli(*arguments, code=0).stdout


def test_a_comment_changes_no_identity(cli: Cli, source: Source) -> None:
    """The result that is suppressed is the one that was open, and those beside it stay what they
    were."""

    def identities() -> dict[int, str]:
        text = cli("check", "--output-format", "sarif", "--report-suppressed", code=1).stdout
        found = json.loads(text)["runs"][0]["results"]
        rows = [
            result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in found
        ]
        prints = [result["partialFingerprints"]["torchlint/v1"] for result in found]
        return dict(zip(rows, prints, strict=True))

    cli.write("a.py", source("slow", "odd", "slow"))
    before = identities()
    cli.write("a.py", source("slow", "odd", "slow").replace("odd()", "odd()  # noqa"))
    assert identities() == before
    assert len(set(before.values())) == 3


def test_what_a_baseline_holds_back_is_external(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli("check", "--baseline", "base.json", "--write-baseline", code=0)
    cli.write("a.py", source("slow") + "torch.odd()  # noqa\n")
    said = results(cli, "--baseline", "base.json", "--report-suppressed", code=0)
    assert said == [("TL101", 2, [{"kind": "external"}]), ("TL102", 3, [{"kind": "inSource"}])]
    assert results(cli, "--baseline", "base.json", code=0) == []


def test_severities_are_those_of_the_project(ignored: Cli) -> None:
    ignored.write("torchlint.toml", '[severity]\nTL101 = "error"\n')
    text = ignored("check", "--output-format", "sarif", "--report-suppressed", code=1).stdout
    assert [result["level"] for result in json.loads(text)["runs"][0]["results"]] == ["error"] * 3


def test_a_notebook_names_the_cell(cli: Cli) -> None:
    lines = ["import torch\n", "torch.slow()  # torchlint: ignore[TL101] shown"]
    empty = {"cell_type": "markdown", "metadata": {}, "source": []}
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": lines,
    }
    value = {"cells": [empty, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    cli.write("n.ipynb", json.dumps(value, indent=1))
    for _ in range(2):
        text = cli("check", "--output-format", "sarif", "--report-suppressed", code=0).stdout
        [result] = json.loads(text)["runs"][0]["results"]
        assert result["locations"][0]["logicalLocations"] == [{"name": "cell 2"}]
        assert result["suppressions"] == [{"kind": "inSource", "justification": "shown"}]
        row = result["locations"][0]["physicalLocation"]["region"]["startLine"]
        assert "torch.slow()" in (cli.cwd / "n.ipynb").read_text().splitlines()[row - 1]


def test_after_fixes_they_stand_where_the_file_has_them_now(cli: Cli) -> None:
    cli.write("a.py", "# torchlint: ignore[TL102]\nimport torch\ntorch.odd()  # noqa: TL102\n")
    arguments = ("--fix", "--report-suppressed")
    assert results(cli, *arguments, code=0) == [("TL102", 2, [{"kind": "inSource"}])]
    assert (cli.cwd / "a.py").read_text().startswith("import torch\n")


def test_the_parts_merged_are_the_whole(cli: Cli, source: Source) -> None:
    """Also where only some parts hold suppressed findings."""
    for at in range(5):
        cli.write(f"m{at}.py", source("slow", "odd"))
    cli.write("m5.py", IGNORED)
    arguments = ("check", "--output-format", "sarif", "--report-suppressed")
    whole = cli(*arguments, code=1).stdout
    parts = []
    for part in (1, 2, 3):
        cli(*arguments, "--shard", f"{part}/3", "--output-file", f"{part}.sarif")
        parts.append(Path(f"{part}.sarif").name)
    assert cli("merge", *parts, code=0).stdout == whole


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--report-suppressed",), "--report-suppressed needs a report that can tell"),
        (("--report-suppressed", "--output-format", "json"), "--output-format sarif or sarif:FILE"),
        (
            ("--report-suppressed", "--write-baseline", "--baseline", "b.json"),
            "--write-baseline and --report-suppressed cannot be used together",
        ),
    ],
)
def test_what_cannot_be_meant(ignored: Cli, arguments: tuple[str, ...], words: str) -> None:
    done = ignored("check", *arguments, code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
