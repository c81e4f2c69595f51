"""The Markdown report: fits a comment on GitHub, and nothing of the user's code becomes markup."""

from __future__ import annotations

import dataclasses
import html
import re

import pytest

from tests.verify import reports
from torchlint.verify.model import Report, VariantResult
from torchlint.verify.output import markdown

REFERENCE = re.compile(r"&#\d+;")


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table, split as GitHub splits them."""
    return [line.strip("|").split("|") for line in text.splitlines() if line.startswith("|")]


def outside_diffs(text: str) -> str:
    """Return the text without its fenced blocks."""
    return re.sub(r"^(`{3,})diff\n.*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def without_own_tags(text: str) -> str:
    """Return the text without the tags that the renderer writes."""
    return re.sub(r"</?(?:details|summary|code)>|<!-- -->", "", outside_diffs(text))


def with_diff(lines: int, count: int = 1) -> Report:
    """Return a report of `count` fixes with diffs of so many lines."""
    diff = "--- a\n+++ b\n" + "".join(f"+line {number}\n" for number in range(lines))
    fix = dataclasses.replace(reports.GATHER, diff=diff)
    return reports.changed(variants=(fix,) * count)


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_every_row_has_the_columns_of_the_head(name: str) -> None:
    report = reports.SAMPLES[name]
    found = rows(markdown.render(report))
    extra = report.null_control is not None
    assert len(found) == (len(report.variants) + extra + 2 if report.variants else 0)
    assert len({len(row) for row in found}) <= 1


def test_the_comment_begins_with_what_is_known() -> None:
    lines = markdown.render(reports.SCRIPT).splitlines()
    assert lines[0] == "### torchlint verify: <code>train.py --epochs 1</code>"
    assert html.unescape(lines[2]).startswith("**Predicted for a GPU: 35 -> 1 waits and")
    assert "No GPU used: times are CPU times; syncs and bytes are predicted." in lines[4]


def test_columns_are_labelled() -> None:
    head = "|".join(rows(markdown.render(reports.SCRIPT))[0])
    assert "speed on CPU (95 % interval)" in head
    assert head.count("(predicted)") == 3
    assert markdown.render(reports.CUDA).count("(observed)") == 4


def test_an_unavailable_ledger_is_said() -> None:
    assert "- Ledger unavailable: torch.cuda.Stream is not simulated" in markdown.render(
        reports.UNCOUNTED
    )


def test_a_changed_tree_comes_before_the_folds() -> None:
    text = markdown.render(reports.changed(tree_unchanged=False))
    assert text.index("YOUR FILES CHANGED") < text.index("<details>")


def test_a_gain_that_changes_results_gets_no_tick() -> None:
    (row,) = (row for row in rows(markdown.render(reports.MIXED)) if "TL401" in row[0])
    assert row[3].strip() == "faster"
    assert row[-1].strip().startswith("❌ different")


@pytest.mark.parametrize("tag", ["<script", "</td>", "</details><script"])
def test_tags_of_a_hostile_name_are_words(tag: str) -> None:
    assert tag not in outside_diffs(markdown.render(reports.HOSTILE_NAMES))


@pytest.mark.parametrize("character", "`[]\\|<>~_*$^")
def test_characters_with_a_meaning_are_references(character: str) -> None:
    escaped = markdown.escaped(f"a{character}b")
    assert escaped == f"a&#{ord(character)};b"
    assert html.unescape(escaped) == f"a{character}b"


@pytest.mark.parametrize("text", ["@maintainer", "see #12", "me@host", "a#b"])
def test_mentions_and_issue_numbers_are_parted(text: str) -> None:
    escaped = markdown.escaped(text)
    assert not re.search(r"[@#]\w", escaped)
    assert escaped.replace("<!-- -->", "") == text


@pytest.mark.parametrize(
    "text", ["http://evil.example", "https://evil.example", "www.evil.example", "WWW.evil.example"]
)
def test_addresses_do_not_become_links(text: str) -> None:
    escaped = markdown.escaped(text)
    assert "://" not in escaped
    assert "www." not in escaped.lower()
    assert html.unescape(escaped) == text


def test_a_message_stays_one_line() -> None:
    report = reports.changed(warnings=("first\n\n# second\n</details>",), blocked_writes=())
    assert r"first&#92;n&#92;n#<!-- --> second" in markdown.render(report)


@pytest.mark.parametrize("start", ["# a", "- a", "1. a", "+ a", "2) a", "=="])
def test_a_message_that_begins_like_a_list_stays_a_line(start: str) -> None:
    (line,) = (
        line
        for line in markdown.render(reports.changed(warnings=(start,))).splitlines()
        if line[:6] == "- <!--"
    )
    assert html.unescape(line.replace("<!-- -->", "")) == f"- {start}"


def test_a_fence_is_longer_than_those_in_the_diff() -> None:
    assert re.search(
        r"^`````diff\n.*?\n\+````\n`````$",
        markdown.render(reports.HOSTILE_NAMES),
        re.DOTALL | re.MULTILINE,
    )


def test_only_own_tags_and_ends_match() -> None:
    text = outside_diffs(markdown.render(reports.HOSTILE_NAMES))
    assert "<" not in without_own_tags(text)
    for tag in ("details", "summary", "code"):
        assert text.count(f"<{tag}>") == text.count(f"</{tag}>") > 0


def test_a_long_diff_is_cut_and_says_so() -> None:
    text = markdown.render(with_diff(20_000))
    assert len(text) <= markdown.LONGEST
    cut = re.search(r"^\.\.\. (\d+) more lines are left out", text, re.MULTILINE)
    assert cut
    assert int(cut[1]) + text.count("\n+line ") + 2 == 20_002


def test_diffs_that_do_not_fit_are_counted() -> None:
    text = markdown.render(with_diff(3_000, count=8))
    assert len(text) <= markdown.LONGEST
    left = re.search(r"^(\d+) more diffs are left out", text, re.MULTILINE)
    assert left
    assert int(left[1]) + text.count("<summary>Diff:") == 8


def test_short_diffs_are_whole() -> None:
    text = markdown.render(reports.SCRIPT)
    assert "left out" not in text
    assert text.count(reports.DIFF) == 3


def everything_long(count: int) -> Report:
    """Return a report in which every list and every name is long."""
    long = "@|`<" * 500
    variant: VariantResult = dataclasses.replace(
        reports.DIFFERENT,
        title=long,
        where=long,
        error=long,
        note=long,
        diff=f"+{long}\n" * 100,
        counts=reports.NO_LEDGER,
    )
    many = (long,) * count
    return reports.changed(
        machine=dataclasses.replace(reports.CPU, device_name=long, isolation=long),
        command=many,
        variants=(
            *(variant,) * count,
            dataclasses.replace(variant, id="all", kind="all", title=""),
        ),
        interactions=many,
        warnings=many,
        skipped=many,
        blocked_writes=many,
    )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 10, 300])
def test_a_comment_never_outgrows_github(count: int) -> None:
    text = markdown.render(everything_long(count))
    assert len(text) <= markdown.LONGEST
    assert "| null control |" in text
    assert "all together" in text
    if count == 300:
        assert re.search(r"^\| \d+ more, see the other formats \|", text, re.MULTILINE)
        assert re.search(r"^- and \d+ more$", text, re.MULTILINE)
