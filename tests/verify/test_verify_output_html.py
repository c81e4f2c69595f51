"""The HTML report: one safe file, and drawings that say what the numbers say."""

from __future__ import annotations

import dataclasses
import html
import itertools
import math
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.verify import reports
from torchlint.base.errors import UsageError
from torchlint.program.traffic import CountLine
from torchlint.report.kit import svg
from torchlint.verify.model import Counts, NullControl, Ratio, Report
from torchlint.verify.output import html as html_report

VOID = {"meta", "link", "br"}
LOADING = ("src", "href", "action", "data", "poster", "srcset", "xlink:href")
BAND = (1 / 1.03, 1.03)
BASE = svg.axis([0.5, 1.0, 4.0, *BAND])


class Page(HTMLParser):
    """The tags and words of a page; `crossed` holds the end tags that close something else."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.crossed: list[str] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def unclosed(self) -> list[str]:
        return self._open


def rendered(name: str) -> Page:
    """Return a sample's page, parsed."""
    return Page(html_report.render(reports.SAMPLES[name], color=True))


def addresses(page: Page) -> Iterator[str]:
    """Yield what a page would load."""
    for _, attributes in page.tags:
        yield from (attributes[key] or "" for key in LOADING if key in attributes)


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_tags_nest_and_close(name: str) -> None:
    page = rendered(name)
    assert (page.crossed, page.unclosed) == ([], [])


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_nothing_runs_and_nothing_is_loaded(name: str) -> None:
    page = rendered(name)
    assert page.all("script") == []
    assert [key for _, attributes in page.tags for key in attributes if key.startswith("on")] == []
    assert set(addresses(page)) == {"data:,"}
    (policy,) = (
        meta for meta in page.all("meta") if meta.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert "url(" not in html_report.render(reports.SAMPLES[name])


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_the_page_can_be_heard(name: str) -> None:
    page = rendered(name)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    drawings = [each for each in page.all("svg") if each.get("role") == "img"]
    for drawing in drawings:
        assert set((drawing["aria-labelledby"] or "").split()) <= set(ids)
    assert len(page.all("title")) - 1 == len(page.all("desc")) == len(drawings)
    assert all(each.get("scope") in ("col", "row") for each in page.all("th"))
    assert page.all("html") == [{"lang": "en"}]


@pytest.mark.parametrize("name", reports.SAMPLES)
def test_a_row_for_every_variant(name: str) -> None:
    report = reports.SAMPLES[name]
    shown = [each["data-variant"] for each in rendered(name).all("tr") if "data-variant" in each]
    assert shown == [each.id for each in report.variants] + (
        ["null"] if report.null_control and report.variants else []
    )


def test_words_of_the_user_are_words() -> None:
    page = rendered("hostile")
    said = "".join(page.words)
    assert said.count("<script>alert(1)</script>") >= 8
    assert "\x1b" not in said
    assert "\u202e" not in said
    assert r"caf\udce9.py:3" in said
    assert html_report.render(reports.HOSTILE_NAMES).encode("utf-8")


def test_an_id_of_the_user_stays_in_its_attribute() -> None:
    report = reports.only(id='"><script>alert(1)</script>')
    assert Page(html_report.render(report)).all("script") == []


def test_the_head_says_what_is_known_and_on_what() -> None:
    said = "".join(rendered("script").words)
    assert "On this CPU (2 cores, torch 2.13.0): 1 of 3 fixes is faster" in said
    assert "CPU times" in said
    assert "syncs and bytes are predicted" in said
    assert "GPU times" in "".join(rendered("cuda").words)
    assert "No times" in "".join(rendered("virtual").words)


def sections(report: Report) -> list[str]:
    return re.findall(r'<section id="(\w+)">', html_report.render(report))


def test_sections_come_in_order() -> None:
    assert sections(reports.SCRIPT) == ["results", "forest", "fixes", "method"]
    assert sections(reports.VIRTUAL) == ["results", "fixes", "method"]
    assert sections(reports.EMPTY) == ["results", "method"]


def test_an_unavailable_ledger_says_why() -> None:
    text = html_report.render(reports.UNCOUNTED)
    assert "ledger unavailable: torch.cuda.Stream is not simulated" in text


def test_the_null_control_is_the_last_row_of_the_forest() -> None:
    text = html_report.render(reports.SCRIPT)
    titles = re.findall(r'<title id="(forest-\w+)-t">([^<]*)', text)
    assert [title for _, title in titles] == [
        "TL603 gather instead of a loop",
        "TL604 one cat after the loop",
        "TL801 loss.item() once an epoch",
        "all together",
        "null control",
        "Axis: time before over time after, logarithmic",
    ]


def test_a_changed_tree_is_loud() -> None:
    assert (
        "YOUR FILES CHANGED"
        in html_report.render(reports.changed(tree_unchanged=False)).split("<main>")[0]
    )
    assert "YOUR FILES CHANGED" not in html_report.render(reports.SCRIPT)


def test_every_fix_shows_its_diff_and_its_lines() -> None:
    text = html_report.render(reports.SCRIPT)
    assert text.count('<span class="removed">-    out = []</span>') == 4
    assert '<span class="added">+    # &lt;b&gt;one&lt;/b&gt; gather</span>' in text
    said = html.unescape(re.sub(r"<[^>]+>", " ", text))
    assert re.search(r"original\s+pkg/model\.py:15\s+sync\s+32\s+0 B\s+item\(\)", said)


def test_without_jinja2_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    words = (
        "--output-format html needs jinja2: python -m pip install '.[html]' in a clone of torchlint"
    )
    with pytest.raises(UsageError, match=f"^{re.escape(words)}$"):
        html_report.render(reports.SCRIPT)


# Drawings


def strip(estimate: float = 2.0, ends: svg.Ends = (1.5, 3.0)) -> str:
    return svg.strip(
        estimate, ends, BASE, BAND, key="k", title="a <b>", said="2.00x & more", tone="good"
    )


def test_the_square_stands_at_the_estimate() -> None:
    drawing = strip()
    (at,) = re.findall(r'x="([\d.]+)%"><rect class="mark good"', drawing)
    (ends,) = re.findall(r'<line class="whisker good" x1="([\d.]+)%" x2="([\d.]+)%"', drawing)
    assert float(at) == pytest.approx(100 * BASE.at(2.0), abs=0.1)
    assert [float(end) for end in ends] == pytest.approx(
        [100 * BASE.at(1.5), 100 * BASE.at(3.0)], abs=0.1
    )
    assert "arrow" not in drawing
    assert '<title id="k-t">a &lt;b&gt;</title><desc id="k-d">2.00x &amp; more</desc>' in drawing


@pytest.mark.parametrize(
    ("ends", "arrows"),
    [
        ((0.0, math.inf), 2),
        ((-math.inf, math.inf), 2),
        ((1.2, math.inf), 1),
        ((0.0, 3.0), 1),
        ((1.2, 3.0), 0),
    ],
)
def test_open_ends_are_arrows(ends: tuple[float, float], arrows: int) -> None:
    report = dataclasses.replace(
        reports.only(), null_control=NullControl(Ratio(2.0, ends, ends, 0.5, 5), True)
    )
    drawing = (
        html_report.render(report)
        .partition('aria-labelledby="forest-1-t')[2]
        .partition("</title>")[2]
    )
    assert drawing.partition("</div>")[0].count('class="arrow') == arrows


def test_the_band_is_the_minimum_effect() -> None:
    (x, width) = re.findall(r'class="band" x="([\d.]+)%" y="0" width="([\d.]+)%"', strip())[0]
    assert float(x) == pytest.approx(100 * BASE.at(1 / 1.03), abs=0.1)
    assert float(x) + float(width) == pytest.approx(100 * BASE.at(1.03), abs=0.1)


positive = st.floats(1e-6, 1e9)


@given(st.lists(positive, min_size=1, max_size=8))
def test_an_axis_holds_its_values_and_its_ticks_are_apart(values: list[float]) -> None:
    scale = svg.axis(values)
    assert all(0 < scale.at(value) < 1 for value in values)
    places = [scale.at(tick) for tick in scale.ticks]
    assert 1 <= len(places) <= 6
    assert all(after - before > 0.1 for before, after in itertools.pairwise(places))


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.5, 4.6], (0.5, 1.0, 2.0, 5.0)),
        ([0.8, 3.3], (1.0, 1.5, 2.0, 3.0)),
        ([0.9, 388.0], (1.0, 10.0, 100.0)),
        ([0.97, 1.2], (1.0, 1.1, 1.2)),
        ([], (0.95, 1.0, 1.05)),
        ([math.inf, -1.0, math.nan], (0.95, 1.0, 1.05)),
    ],
    ids=str,
)
def test_ticks_are_round(values: list[float], ticks: tuple[float, ...]) -> None:
    assert svg.axis(values).ticks == ticks


def test_an_unchanged_tree_is_no_alarm() -> None:
    assert "Your files are unchanged." not in html_report.render(reports.SCRIPT).split("<main>")[0]


def test_a_mismatch_of_devices_has_its_name() -> None:
    line = CountLine("mismatch", "m.py", 3, 1, 0, "cat")
    report = reports.only(counts=Counts("virtual-cuda", 1, (1.0, 1.0), before=(line,)))
    assert "<td>device mismatch</td>" in html_report.render(report)
