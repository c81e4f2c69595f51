"""The HTML report: one safe file that holds everything, with or without its script."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from torchlint.base.errors import UsageError
from torchlint.base.finding import (
    Edit,
    FileReport,
    Finding,
    Note,
    NoteKind,
    Reason,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.span import Position, Span
from torchlint.catalog.rules import load_catalog
from torchlint.manual.pages import page as manual_page
from torchlint.report import html
from torchlint.report.html import page as html_page
from torchlint.report.kit import html as kit_html
from torchlint.report.kit import markdown
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
TEXT = (
    "import torch\n\n\ndef train(model, loader):\n    for x in loader:\n        mask = "
    'torch.zeros(8).to("cuda")\n'
)
VOID = {"meta", "link", "br", "input"}
LOADING = ("src", "href", "action", "data", "poster", "srcset", "xlink:href", "formaction")


def rows_of(text: str, cell: int) -> list[tuple[int | None, int, str]]:
    return [(cell, row, line) for row, line in enumerate(text.split("\n"), 1)]


class Page(HTMLParser):
    """The tags and words of a page; `crossed` holds the end tags that close something else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.crossed: list[str] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def all(self, tag: str, kind: str = "") -> list[dict[str, str | None]]:
        """Return the attributes of each tag, of those with a class where one is named."""
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and (not kind or kind in (attributes.get("class") or "").split())
        ]

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture
def rich(make_finding: Findings, make_run: Runs, safe_fix: TextFix) -> RunReport:
    unsafe = dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="It may round.")
    withheld = dataclasses.replace(safe_fix, withheld="it would lose a comment")
    return make_run(
        make_finding(),
        make_finding(
            start=Position(7, 16),
            end=Position(7, 30),
            fix=unsafe,
            severity=Severity.ERROR,
            help="Try this.",
        ),
        make_finding(filename="b.py", fix=withheld, severity=Severity.INFO),
        make_finding(
            filename="gone.py",
            code="unreadable",
            name="unreadable",
            message="no such file",
            fix=None,
        ),
        make_finding(filename="n.ipynb", cell=4),
        notes=(
            Note(NoteKind.SKIPPED, "big.py", "too large"),
            Note(NoteKind.FAILED, "c.py", "crashed", 3, cell=2),
        ),
        files_checked=7,
    )


def test_one_file_that_loads_nothing(rich: RunReport) -> None:
    page = Page(html.render(rich))
    assert (page.crossed, page.open) == ([], [])
    links = [
        attributes[key] or "" for _, attributes in page.tags for key in LOADING if key in attributes
    ]
    outside = [link for link in links if not link.startswith(("#", "data:,"))]
    assert set(outside) == {"https://example.org/TL102"}, (
        "the rule's page is for a reader to follow, not to load"
    )
    assert "url(" not in page.text
    assert "@import" not in page.text


def test_the_policy_names_script_and_style_by_digest(rich: RunReport) -> None:
    text = html.render(rich)
    (policy,) = (each["content"] or "" for each in Page(text).all("meta") if "http-equiv" in each)
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (body,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert directives[directive] == f"'sha256-{digest}'"
    attributes = [key for _, each in Page(text).tags for key in each]
    assert not [key for key in attributes if key.startswith("on") or key == "style"], (
        "the policy would stop these"
    )


def test_every_link_within_the_page_leads_somewhere(rich: RunReport) -> None:
    page = Page(html.render(rich))
    ids = [each["id"] for _, each in page.tags if "id" in each]
    assert len(ids) == len(set(ids))
    assert not [name for name in ids if not name or " " in name]
    links = {each["href"] for each in page.all("a")}
    assert {link[1:] for link in links if link and link.startswith("#")} <= set(ids)


def test_all_is_said(rich: RunReport) -> None:
    page = Page(html.render(rich))
    assert "5 findings in 7 checked files" in page.said
    assert len(page.all("details", "finding")) == 5
    for words in (
        "Tensor is made on the CPU, then moved to `cuda`",
        "every step: for x in loader line 5",
        "called from main() main.py:88",
        "It may round.",
        "Not applied: it would lose a comment",
        "Try this.",
        "Cell 4",
        "left out big.py too large",
        "failed c.py:cell 2:3 crashed",
        "The copy waits.",
        "2.00x faster on a GPU",
        "/project",
    ):
        assert words in page.said
    counts = re.findall(r"<li class=\"card[^>]*><b>(\d+).*?<span>([^<]+)</span>", page.text)
    assert {name: number for number, name in counts} == {
        "errors": "1",
        "warnings": "3",
        "infos": "1",
        "with a safe fix": "2",
        "with an unsafe fix": "1",
        "files with findings": "4",
        "files not analysed": "2",
    }


def test_the_script_finds_what_it_filters_by(rich: RunReport) -> None:
    page = Page(html.render(rich))
    found = [
        (each["data-grade"], each["data-rule"], each["data-fix"])
        for each in page.all("details", "finding")
    ]
    assert found == [
        ("info", "TL102", "none"),
        ("warning", "unreadable", "none"),
        ("warning", "TL102", "safe"),
        ("warning", "TL102", "safe"),
        ("error", "TL102", "unsafe"),
    ]
    assert [each["data-file"] for each in page.all("section", "file")] == [
        "b.py",
        "gone.py",
        "n.ipynb",
        "train.py",
    ]
    assert "hidden" in page.all("form")[0], "without the script the filters would do nothing"


def test_source_is_marked_and_the_fix_is_a_diff(make_finding: Findings, make_run: Runs) -> None:
    text = html.render(make_run(make_finding()))
    assert (
        '<span data-n="6" class="hit">        mask = '
        "<mark>torch.zeros(8).to(&#34;cuda&#34;)</mark></span>"
    ) in text
    assert '<span data-n="5">    for x in loader:</span>' in text
    assert (
        '<span data-n="" class="cut">        mask = torch.zeros(8).to(&#34;cuda&#34;)</span>'
        in text
    )
    assert (
        '<span data-n="6" class="add">        mask = torch.zeros(8, device=&#34;cuda&#34;)</span>'
        in text
    )


def test_a_fix_over_several_cells_says_which(
    make_finding: Findings, make_run: Runs, safe_fix: TextFix
) -> None:
    (edit,) = safe_fix.edits
    start = Position(1, 1)
    first = Edit(Span(0, 0), "import os\n", start, start, cell=1)
    fix = dataclasses.replace(safe_fix, edits=(first, dataclasses.replace(edit, cell=4)))
    finding = make_finding(filename="n.ipynb", cell=4, fix=fix)
    source = (*rows_of("import torch\n", 1), *rows_of(TEXT, 4))
    text = html.render(make_run(files=(FileReport("n.ipynb", (finding,), source=source),)))
    said = Page(text).said
    assert "Change in cell 1 import os import torch Change in cell 4 for x in loader:" in said
    alone = html.render(
        make_run(make_finding(cell=4, fix=dataclasses.replace(fix, edits=fix.edits[1:])))
    )
    assert "Change in cell" not in Page(alone).said


def excerpt(finding: Finding, rows: dict[int, str]) -> list[tuple[int, tuple[str, str, str]]]:
    return [(line["row"], line["text"]) for line in html_page._excerpt(finding, rows)]


def test_excerpts(make_finding: Findings) -> None:
    rows = {4: "", 5: "a", 6: "x = y", 7: "b", 8: " "}
    here = make_finding(start=Position(6, 5), end=Position(6, 6))
    assert excerpt(here, rows) == [(5, ("a", "", "")), (6, ("x = ", "y", "")), (7, ("b", "", ""))]
    several = make_finding(start=Position(6, 3), end=Position(7, 2))
    assert excerpt(several, rows)[1] == (6, ("x ", "= y", ""))
    behind = make_finding(start=Position(6, 6), end=Position(6, 6))
    assert excerpt(behind, rows)[1] == (6, ("x = y", " ", ""))
    assert excerpt(make_finding(start=Position(9, 1)), rows) == []
    assert excerpt(make_finding(start=Position(4, 1), end=Position(4, 1)), {4: ""}) == [
        (4, ("", " ", ""))
    ]
    long = make_finding(start=Position(1, 5_000), end=Position(1, 5_002))
    ((_, (before, within, after)),) = excerpt(long, {1: "." * 4_999 + "XY" + "." * 5_000})
    assert within == "XY"
    assert len(before) + len(after) < 200


def test_many_findings_are_folded(make_finding: Findings, make_run: Runs) -> None:
    few, many = (
        Page(html.render(make_run(*(make_finding(start=Position(6, 1 + n)) for n in range(count)))))
        for count in (html_page.OPEN, html_page.OPEN + 1)
    )
    assert all("open" in each for each in few.all("details", "finding"))
    assert not any("open" in each for each in many.all("details", "finding"))


def test_long_lists_in_the_summary_are_folded(make_finding: Findings, make_run: Runs) -> None:
    page = Page(
        html.render(
            make_run(*(make_finding(filename=f"{n:02}.py") for n in range(html_page.MOST + 3)))
        )
    )
    assert "3 more" in page.said
    assert (
        len([each for each in page.all("a") if each.get("data-filter") == "file"])
        == html_page.MOST + 3
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"files_checked": 3}, "All checks passed"),
        ({"files_checked": 0}, "No files were checked"),
        (
            {"files_checked": 1, "notes": (Note(NoteKind.FAILED, "a.py", "crashed"),)},
            "not everything was analysed",
        ),
        ({"files": (FileReport("a.py", applied=2),), "fix_applied": 2}, "already fixed"),
    ],
)
def test_runs_without_findings(make_run: Runs, fields: dict[str, object], words: str) -> None:
    page = Page(html.render(make_run(**fields)))
    assert words in page.said
    assert page.all("form") == []


def test_a_manual_does_not_repeat_the_title(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding())
    meta = run.rules["TL102"]
    whole = dataclasses.replace(
        meta, help_markdown=f"# name\n\n{meta.title}\n\n## Why\n{meta.title} again.\n"
    )
    said = Page(html.render(dataclasses.replace(run, rules={"TL102": whole}))).said
    assert said.count(meta.title) == 2
    assert f"Why {meta.title} again." in said


def test_the_same_run_gives_the_same_bytes(rich: RunReport) -> None:
    assert html.render(rich) == html.render(rich)


def test_an_address_of_a_rule_must_be_one(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding())
    bad = dataclasses.replace(run.rules["TL102"], url="javascript:alert(1)")
    assert "javascript:" not in html.render(dataclasses.replace(run, rules={"TL102": bad}))


def test_a_reason_elsewhere_names_its_file(make_finding: Findings, make_run: Runs) -> None:
    reasons = (Reason("here", "train.py", 0), Reason("cell", "n.ipynb", 3, cell=7))
    page = Page(html.render(make_run(make_finding(why_hot=reasons))))
    assert "here cell n.ipynb:cell 7:3" in page.said


def test_without_jinja2(monkeypatch: pytest.MonkeyPatch, make_run: Runs) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=re.escape("python -m pip install '.[html]' in a clone")):
        kit_html.demand()


# manuals


def test_manual_blocks() -> None:
    text = (
        "# name (TL1)\n\nOne `code`\nline.\n\n> quote\n\n## Why\nBecause.\n\n- a\n- `b`\n  more\n\n"
        "```python\nx = '`'\n\n## no heading\n```\nEnd.\n"
    )
    assert [(block.kind, block.lines) for block in markdown.blocks(text)] == [
        ("text", (((False, "One "), (True, "code"), (False, " line.")),)),
        ("text", (((False, "quote"),),)),
        ("heading", (((False, "Why"),),)),
        ("text", (((False, "Because."),),)),
        ("list", (((False, "a"),), ((True, "b"), (False, " more")))),
        ("code", (((True, "x = '`'"),), ((True, ""),), ((True, "## no heading"),))),
        ("text", (((False, "End."),),)),
    ]


@pytest.mark.parametrize("info", load_catalog().rules, ids=lambda info: info.code)
def test_no_word_of_a_manual_is_lost(info: object) -> None:
    text = manual_page(info)  # type: ignore[arg-type]
    shown = [
        word
        for block in markdown.blocks(text)
        for line in block.lines
        for _, part in line
        for word in part.split()
    ]
    plain = re.sub(r"^(# .*|```\w*|## |> |[-*] )", "", text, flags=re.MULTILINE).replace("`", "")
    assert "".join(shown).replace("`", "").replace("-", "") == "".join(plain.split()).replace(
        "-", ""
    )
