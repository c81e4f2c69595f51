"""The HTML report in a real browser: light and dark, wide and narrow."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.verify import reports
from torchlint.verify.output import html as html_report

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking "
    "--disable-component-update --disable-sync --hide-scrollbars --allow-file-access-from-files"
).split()
POLICY = "default-src 'none';"
# The page's own policy, but for the probe; what it keeps from loading is written down.
WATCHED = "default-src 'none'; script-src 'unsafe-inline';"
WATCH = """
<script>
document.asked = [];
document.addEventListener("securitypolicyviolation", event => document.asked.push(event.blockedURI));
</script>
"""  # noqa: E501
SCHEMES = {"dark": 0, "light": 1}
# Looks at the page as laid out; runs only in the copy that a test opens.
PROBE = """
<script>
function rgb(text) { return text.match(/[\\d.]+/g).map(Number); }
function light(c) {
  const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function behind(node) {
  for (; node; node = node.parentElement) {
    const c = rgb(getComputedStyle(node).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c.slice(0, 3);
  }
  return [255, 255, 255];
}
function faint() {
  const found = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
    if (!own || node.closest("script,title,desc") || !node.getClientRects().length) continue;
    const style = getComputedStyle(node);
    const ink = light(rgb(node.tagName === "text" ? style.fill : style.color).slice(0, 3));
    const ground = light(behind(node));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    if (contrast < 4.5) found.push([node.tagName, node.textContent.slice(0, 30), contrast]);
  }
  return found;
}
function labels() {
  const cut = [], touching = [];
  for (const drawing of document.querySelectorAll("svg[role=img]")) {
    const boxes = [...drawing.querySelectorAll("text")].map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, box] of boxes) if (box.left < 0 || box.right > innerWidth) cut.push(text);
    boxes.forEach(([a, x], i) => boxes.slice(i + 1).forEach(([b, y]) => {
      const beside = x.right - 0.5 <= y.left || y.right - 0.5 <= x.left;
      const apart = x.bottom - 2 <= y.top || y.bottom - 2 <= x.top;
      if (!beside && !apart) touching.push([a, b]);
    }));
  }
  return {cut, touching};
}
document.querySelectorAll("details").forEach(d => d.open = true);
document.body.dataset.probe = JSON.stringify({
  width: innerWidth,
  content: document.documentElement.scrollWidth,
  dark: matchMedia("(prefers-color-scheme: dark)").matches,
  ground: light(behind(document.body)),
  rows: [...document.querySelectorAll("tr[data-variant]")].map(r => r.dataset.variant),
  drawings: document.querySelectorAll("svg[role=img]").length,
  flat: [...document.querySelectorAll("svg[role=img]")].filter(d => d.getBoundingClientRect().width < 100).length,
  faint: faint(), ...labels(),
});
</script>
"""  # noqa: E501

# A window of Chromium is not narrower than 500 pixels, so the page is laid out in a frame.
FRAME = """<!DOCTYPE html>
<meta name="color-scheme" content="light dark">
<body><iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>
onload = () => {{
  const inner = frames[0];
  const seen = JSON.parse(inner.document.body.dataset.probe);
  document.body.dataset.probe = JSON.stringify({{...seen, asked: inner.document.asked}});
}};
</script>
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)"),
]


def chromium(
    page: Path, width: int, scheme: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run Chromium without a window on a file."""
    assert CHROMIUM
    return subprocess.run(
        [
            CHROMIUM,
            *FLAGS,
            f"--user-data-dir={page.parent / 'profile'}",
            f"--blink-settings=preferredColorScheme={SCHEMES[scheme]}",
            f"--window-size={width},900",
            *arguments,
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def probed(folder: Path, name: str, width: int, scheme: str) -> Any:
    """Return what the probe saw of a sample's page."""
    return looked_at(folder, html_report.render(reports.SAMPLES[name]), width, scheme)


def looked_at(folder: Path, text: str, width: int, scheme: str) -> Any:
    """Return what the probe sees of a page."""
    page = folder / "page.html"
    assert text.count(POLICY) == 1
    watched = text.replace(POLICY, WATCHED).replace("<title>", f"{WATCH}<title>", 1)
    laid_out = html.escape(watched.replace("</body>", f"{PROBE}</body>"))
    page.write_text(FRAME.format(width=width, page=laid_out), encoding="utf-8")
    found = re.search(
        r'<body data-probe="([^"]*)"', chromium(page, width, scheme, "--dump-dom").stdout
    )
    assert found
    return json.loads(html.unescape(found[1]))


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("mixed", 360, "dark"),
        ("mixed", 360, "light"),
        ("mixed", 1400, "dark"),
        ("mixed", 1400, "light"),
        ("hostile", 360, "light"),
        ("hostile", 1400, "dark"),
    ],
)
def test_the_page_fits_and_can_be_read(tmp_path: Path, name: str, width: int, scheme: str) -> None:
    seen = probed(tmp_path, name, width, scheme)
    assert seen["width"] == width
    assert seen["content"] <= width, "the page scrolls sideways"
    assert seen["dark"] is (scheme == "dark")
    assert (seen["ground"] < 0.2) is (scheme == "dark")
    assert (seen["faint"], seen["cut"], seen["touching"]) == ([], [], [])
    assert seen["asked"] == []
    assert seen["rows"] == [*(each.id for each in reports.SAMPLES[name].variants), "null"]
    assert seen["drawings"] >= 15
    assert seen["flat"] == 0


def test_the_probe_sees_what_is_wrong(tmp_path: Path) -> None:
    head = html_report.render(reports.EMPTY)
    policy = head[head.index("<meta http-equiv") :].partition(">")[0]
    bad = (
        f"<!DOCTYPE html>{policy}><title>bad</title>"
        '<body style="background: white"><p style="width: 500px; color: #aaa">faint</p>'
        '<img src="http://localhost/dot.png">'
        '<svg role="img" width="90"><text x="0" y="20">one</text><text x="9" y="22">two</text>'
        '<text x="-99" y="60">out</text></svg></body>'
    )
    seen = looked_at(tmp_path, bad, 360, "light")
    assert seen["content"] > 360
    assert seen["cut"] == ["out"]
    assert seen["touching"] == [["one", "two"]]
    assert [text for _, text, _ in seen["faint"]] == ["faint"]
    assert seen["asked"] == ["http://localhost/dot.png"]
    assert seen["flat"] == 1


@pytest.mark.parametrize("name", ["rules", "few-pairs", "cuda"])
def test_other_reports_fit_a_telephone(tmp_path: Path, name: str) -> None:
    seen = probed(tmp_path, name, 360, "dark")
    assert seen["content"] <= 360
    assert (seen["faint"], seen["cut"], seen["touching"]) == ([], [], [])


def test_light_and_dark_are_two_pictures(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html_report.render(reports.SCRIPT), encoding="utf-8")
    pictures = []
    for scheme in SCHEMES:
        picture = tmp_path / f"{scheme}.png"
        chromium(page, 1400, scheme, f"--screenshot={picture}")
        pictures.append(picture.read_bytes())
    assert [each[:8] for each in pictures] == [b"\x89PNG\r\n\x1a\n"] * 2
    assert pictures[0] != pictures[1]
