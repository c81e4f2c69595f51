"""The site in a real browser, opened as files and from a server: no complaints, no other hosts,
filter and search."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser import CHROMIUM
from tests.checking import rules
from tests.docs.chromium import Tab, tab

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)"),
]
SCHEMES = ("light", "dark")
# Text whose contrast to what lies behind it is less than WCAG's 4.5.
FAINT = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = c => {
    const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const over = (ink, ground) => {
    const alpha = ink.length > 3 ? ink[3] : 1;
    return [0, 1, 2].map(i => ink[i] * alpha + ground[i] * (1 - alpha));
  };
  const behind = node => {
    if (!node) return [255, 255, 255];
    const text = getComputedStyle(node).backgroundColor;
    const own = text.startsWith("rgb") ? rgb(text) : [0, 0, 0, 0];
    return own.length < 4 || own[3] === 1 ? own.slice(0, 3) : over(own, behind(node.parentElement));
  };
  const found = [];
  for (const node of document.querySelectorAll("article *")) {
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || !node.checkVisibility({opacityProperty: true}) || node.closest(".headerlink, button")) continue;
    const ground = behind(node), ink = over(rgb(getComputedStyle(node).color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.push(node.className + ": " + node.textContent.slice(0, 30));
  }
  return found;
})()
"""  # noqa: E501


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    with tab(tmp_path_factory.mktemp("chromium") / "profile") as opened:
        yield opened


@pytest.fixture(scope="module")
def server(site: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}/"
        serving.shutdown()
        thread.join()


def watched(browser: Tab) -> Tab:
    """Return the browser with nothing noted yet."""
    browser.complaints.clear()
    browser.requests.clear()
    browser.look(1400, "light")
    return browser


def strangers(browser: Tab, own: tuple[str, ...]) -> list[str]:
    return [address for address in browser.requests if not address.startswith((*own, "data:"))]


@pytest.mark.slow
def test_every_page_loads_without_complaint_and_asks_no_other_host(
    site: Path, browser: Tab
) -> None:
    watched(browser)
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    for page in pages:
        browser.open(page.as_uri())
        assert browser.complaints == [], page
    assert len(pages) > 80
    assert browser.run("document.querySelector('h1').textContent")
    assert strangers(browser, (site.as_uri(),)) == []


def test_complaints_and_other_hosts_are_seen(tmp_path: Path, browser: Tab) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<h1>x</h1><img src="http://127.0.0.1:9/dot.png"><script>console.error("no"); '
        "gone()</script>"
    )
    watched(browser).open(page.as_uri())
    assert strangers(browser, (tmp_path.as_uri(),)) == ["http://127.0.0.1:9/dot.png"]
    assert len(browser.complaints) >= 2
    watched(browser)


@pytest.mark.parametrize("way", ["files", "server"])
def test_search_finds_a_rule(site: Path, server: str, browser: Tab, way: str) -> None:
    start = site.as_uri() + "/" if way == "files" else server
    watched(browser).open(f"{start}start.html")
    browser.run("document.querySelector('[data-md-component=search-query]').focus()")
    browser.wait("document.activeElement.matches('[data-md-component=search-query]')")
    browser.type("item()")
    hits = browser.wait(
        "[...document.querySelectorAll('.md-search-result__link')].map(link => "
        "link.href.split('?')[0])"
    )
    assert any(hit.startswith(f"{start}rules/TL604.html") for hit in hits)
    assert browser.complaints == []
    assert strangers(browser, (start, "blob:")) == []


def shown(browser: Tab) -> list[str]:
    rows = (
        "[...document.querySelectorAll('article tbody tr')].filter(row => row.cells.length === 5)"
    )
    found: list[str] = browser.run(
        f"{rows}.filter(row => row.checkVisibility()).map(row => row.cells[0].textContent)"
    )
    return found


def put(browser: Tab, name: str, value: str) -> None:
    browser.run(
        f"(() => {{ const field = document.getElementById('rule-{name}'); field.value = '{value}';"
        "field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


def test_the_table_of_rules_filters(site: Path, browser: Tab) -> None:
    watched(browser).open((site / "rules" / "index.html").as_uri())
    browser.wait("!document.querySelector('.rule-filter').hidden")
    everything = shown(browser)
    assert len(everything) == len(rules())
    put(browser, "text", "batch norm")
    assert shown(browser) == ["TL409"]
    assert (
        browser.run("document.getElementById('rule-count').textContent") == f"1 of {len(rules())}"
    )
    headings = (
        "[...document.querySelectorAll('article h2')].filter(h => "
        "h.checkVisibility()).map(h => h.id)"
    )
    assert browser.run(headings) == ["precision-and-kernels", "codes-of-the-engine"]
    put(browser, "text", "")
    put(browser, "severity", "error")
    put(browser, "fix", "unsafe")
    assert shown(browser) == ["TL109", "TL503"]
    put(browser, "severity", "")
    put(browser, "fix", "–")
    put(browser, "default", "off")
    assert "TL804" in shown(browser)
    assert not {"TL101", "TL505"} & set(shown(browser))
    for name in ("fix", "default"):
        put(browser, name, "")
    assert shown(browser) == everything


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [360, 1400])
def test_pages_fit_and_can_be_read(site: Path, browser: Tab, width: int, scheme: str) -> None:
    watched(browser).look(width, scheme)
    for page in (
        "index",
        "start",
        "configuration",
        "commands",
        "verify",
        "faq",
        "rules/index",
        "rules/TL101",
    ):
        browser.open((site / f"{page}.html").as_uri())
        assert browser.run("document.documentElement.scrollWidth") <= width, page
        assert (
            browser.run("document.body.dataset.mdColorScheme")
            == {"dark": "slate", "light": "default"}[scheme]
        )
        browser.run("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert browser.run(FAINT) == [], page


def test_faint_text_is_seen(tmp_path: Path, browser: Tab) -> None:
    page = tmp_path / "faint.html"
    page.write_text(
        '<article style="background: white"><p class="pale" style="color: '
        '#aaa">pale</p><p>clear</p></article>'
    )
    watched(browser).open(page.as_uri())
    assert browser.run(FAINT) == ["pale: pale"]


def test_light_and_dark_are_two_pictures(site: Path, browser: Tab, tmp_path: Path) -> None:
    watched(browser)
    for scheme in SCHEMES:
        browser.look(1400, scheme)
        browser.open((site / "rules" / "TL101.html").as_uri())
        browser.picture(tmp_path / f"{scheme}.png")
    pictures = [(tmp_path / f"{scheme}.png").read_bytes() for scheme in SCHEMES]
    assert [each[:8] for each in pictures] == [b"\x89PNG\r\n\x1a\n"] * 2
    assert pictures[0] != pictures[1]
