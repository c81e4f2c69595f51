"""Pages in a real browser, laid out at some width in light or dark, and looked at by a probe."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

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

needs_chromium = [
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
