"""The documentation site as files: complete, linked, without other hosts, and true of the rules and
keys."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from torchlint.base import places
from torchlint.base.finding import ENGINE_CODES
from torchlint.catalog.rules import OWN_ROOT, load_catalog
from torchlint.cli.main import run
from torchlint.manual.site import FAMILY_WORDS, generated_pages, rule_page
from torchlint.settings.documentation import default_of
from torchlint.settings.keys import KEYS, checked

ROOT = Path(__file__).parent.parent.parent
CATALOG = load_catalog([OWN_ROOT])
# A page asks for these by itself; links (`a`) are followed by people only.
_ASKING = {
    "script": "src",
    "img": "src",
    "link": "href",
    "iframe": "src",
    "source": "src",
    "form": "action",
}


class Links(HTMLParser):
    """Gathers the ids of a page, its links, and the addresses that a browser asks for by itself."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.asked: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if _ASKING.get(tag, "") in found:
            self.asked.append(found[_ASKING[tag]])


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path: Links(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}


def text_of(page: Path) -> str:
    article = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", article)).split())


def test_every_rule_and_engine_code_has_a_page(site: Path) -> None:
    for code in (*(info.code for info in CATALOG.rules), *ENGINE_CODES):
        assert (site / "rules" / f"{code}.html").is_file()
    assert len(list((site / "rules").glob("*.html"))) == len(CATALOG.rules) + len(ENGINE_CODES) + 1


def dead_links(pages: dict[Path, Links]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target not in pages:
                yield f"{path.name}: {link}"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                yield f"{path.name}: {link} (no such place)"


def test_all_links_lead_somewhere(pages: dict[Path, Links]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert list(dead_links(pages)) == []


def test_a_dead_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<a href="gone.html">x</a> <a href="#gone">y</a> <a id="here" href="#here">z</a>'
    )
    assert list(dead_links({page: Links(page)})) == [
        "page.html: gone.html",
        "page.html: #gone (no such place)",
    ]


def test_nothing_is_asked_of_other_hosts(pages: dict[Path, Links], site: Path) -> None:
    for page in pages.values():
        assert [address for address in page.asked if urlsplit(address).netloc] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?https?:[^)]*", sheet.read_text(encoding="utf-8")) == []


def test_a_page_says_what_its_rule_file_says(site: Path) -> None:
    page = text_of(site / "rules" / "TL101.html")
    info = CATALOG.find("TL101")
    assert info
    assert f"{info.title}." in page
    assert info.message.replace("`", "") in page
    assert "When it is flagged¶ Such a read in a line that runs" in page
    assert "Once after the loop, or every fifty steps, a read costs little." in page
    assert "torch 2.13.0" in page
    assert "Not measured on a GPU." in page
    assert "# torchlint: ignore[TL101] the reason" in page


@pytest.mark.parametrize("info", CATALOG.rules, ids=lambda info: info.code)
def test_no_word_of_a_manual_is_lost(info) -> None:
    page = " ".join(re.sub(r"\]\(TL\d{3}\.md\)|[\[\]]", "", rule_page(info, CATALOG)).split())
    for heading, text in info.sections.items():
        for paragraph in text.replace("Flagged: ", "", 1).split("\n\n"):
            words = [" ".join(re.sub(r"[\[\]]", "", row).split()) for row in paragraph.splitlines()]
            missing = [row for row in words if row and row[1:] not in page]
            assert missing == [], heading


def test_a_change_shows_what_the_fix_does() -> None:
    info = CATALOG.find("TL503")
    assert info
    page = rule_page(info, CATALOG)
    assert '=== "Change"\n\n    ```diff\n' in page
    assert "\n    -    optimizer.zero_grad()\n" in page
    assert "\n    +        optimizer.zero_grad()\n" in page


def test_rules_are_linked_in_prose_and_not_in_code() -> None:
    info = CATALOG.find("TL101")
    assert info
    page = rule_page(info, CATALOG)
    assert "[TL105](TL105.md) `per-step-tensor-logging`" in page
    assert '["TL101"]' in page
    assert "](TL101.md)" not in page


def test_both_sides_of_giving_way_are_told() -> None:
    for info in CATALOG.rules:
        for code in info.yields_to:
            other = CATALOG.find(code)
            assert other
            assert (
                info.code
                in rule_page(other, CATALOG).partition("Goes before: ")[2].partition("\n")[0]
            )


def test_every_family_has_its_words() -> None:
    assert set(FAMILY_WORDS) == {info.family for info in CATALOG.rules}


def test_no_generated_page_is_kept_in_the_repository() -> None:
    kept = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert kept & {*generated_pages(CATALOG), "changelog.md", "contributing.md"} == set()


def test_every_key_is_told_with_a_sample_that_loads() -> None:
    tomli = pytest.importorskip("tomli")
    for key, row in KEYS.items():
        sample = tomli.loads(row.sample)
        assert list(sample) == [key]
        assert checked(key, sample[key], "", AssertionError) is not None


@pytest.mark.parametrize(
    ("key", "default"),
    [
        ("timeout", "`30`"),
        ("max-file-size", "`1000000`"),
        ("fail-on", '`"warning"`'),
        ("include", '`["*.py", "*.pyi", "*.ipynb"]`'),
        ("respect-gitignore", "`true`"),
        ("severity", "`{}`"),
        ("cache-dir", '`".torchlint_cache"`'),
        ("extend-exclude", "`[]`"),
        ("target-torch", "read from your dependencies"),
        ("extend", "none"),
        ("select", "the rules that are on by default"),
    ],
)
def test_defaults(key: str, default: str) -> None:
    assert default_of(KEYS[key]) == default


def test_commands_and_keys_are_filled_in(site: Path) -> None:
    assert "Worker processes at most." in text_of(site / "commands.html")
    assert "Default: 30" in text_of(site / "configuration.html")
    assert "Tried here (torch 2.13.0" in text_of(site / "faq.html")


def url_in_json(folder: Path) -> object:
    report = folder / "out.json"
    wanted = ["--select", "TL101", "--output-format", "json", "--no-cache", "-o", str(report)]
    assert run(["check", *wanted, str(ROOT / "fixtures" / "demo" / "train.py")]) == 1
    return json.loads(report.read_text(encoding="utf-8"))[0]["url"]


def test_reports_link_to_the_page_where_the_site_has_a_host(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, site: Path
) -> None:
    assert url_in_json(tmp_path) is None
    monkeypatch.setattr(places, "DOCS_URL", "https://example.org/torchlint/")
    assert url_in_json(tmp_path) == "https://example.org/torchlint/rules/TL101.html"
    assert (site / "rules" / "TL101.html").is_file()
    assert [places.rule_page(code) for code in ("ACME001", "TLX101", "TL001")] == [""] * 3
