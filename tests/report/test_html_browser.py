"""The HTML report in a real browser: light and dark, wide and narrow, with its filters and without
its script."""

from __future__ import annotations

import dataclasses
import html as escaping
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM, FRAME, PROBE, WATCH, chromium
from torchlint.base.finding import (
    FileReport,
    Finding,
    Note,
    NoteKind,
    Reason,
    Safety,
    Severity,
    TextFix,
)
from torchlint.base.span import Position
from torchlint.report import html
from torchlint.report.run_report import RuleMeta, RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
Looks = Callable[..., Any]
HOSTILE = (
    "</script><img src=http://localhost/x onerror=alert(1)><script>document.title='owned'</script>"
)
_POLICY = re.compile(r"script-src '[^']*'")

# Works the filters as a reader would; `steps` say what was shown after each.
WORKER = """
<script>
addEventListener("load", async () => {
  const form = document.getElementById("filters");
  const field = form.elements;
  const seen = [];
  const wait = time => new Promise(done => setTimeout(done, time));
  const look = name => seen.push([name, document.querySelectorAll(".finding:not([hidden])").length,
    [...document.querySelectorAll(".file:not([hidden])")].map(f => f.dataset.file),
    document.getElementById("shown").textContent,
    !document.getElementById("nothing").hidden]);
  const choose = (name, value) => {
    field[name].value = value;
    field[name].dispatchEvent(new Event("input", {bubbles: true}));
  };
  const reset = async () => { form.querySelector("[type=reset]").click(); await wait(20); };
  const press = key => (document.activeElement || document.body).dispatchEvent(
    new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  const search = async text => { choose("text", text); await wait(150); };
  look("all");
  form.querySelector("[value=warning]").click(); look("without warnings"); await reset();
  choose("family", "memory"); look("family"); await reset();
  choose("rule", "TL102"); look("rule"); await reset();
  for (const kind of ["safe", "unsafe", "any", "none"]) { choose("fix", kind); look("fix " + kind); } await reset();
  choose("file", "b.py"); look("file"); await reset();
  await search("LOADER every"); look("text"); await search("no such words"); look("nothing");
  await reset(); look("reset");
  document.querySelector("a[data-filter=family][data-value=memory]").click(); look("summary"); await reset();
  press("/"); seen.push(["slash", document.activeElement === field.text]);
  field.text.value = "b.py"; press("Escape"); look("escape"); field.text.blur();
  press("j"); const first = document.activeElement; press("j"); const second = document.activeElement; press("k");
  seen.push(["keys", first.tagName, first !== second, document.activeElement === first]);
  const before = document.querySelectorAll(".finding[open]").length;
  document.getElementById("fold").click();
  seen.push(["fold", before, document.querySelectorAll(".finding[open]").length]);
  document.querySelector("a[href='#rule-TL102']:not([data-filter])").click(); await wait(50);
  seen.push(["manual", document.getElementById("rule-TL102").closest("details").open]);
  dispatchEvent(new Event("beforeprint"));
  const printed = document.querySelectorAll(".finding[open]").length;
  dispatchEvent(new Event("afterprint"));
  seen.push(["print", printed, document.querySelectorAll(".finding[open]").length]);
  seen.push(["loaded", performance.getEntriesByType("resource").length, document.title]);
  document.body.dataset.worked = JSON.stringify(seen);
});
</script>
"""  # noqa: E501

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)"),
]


@pytest.fixture
def rich(make_finding: Findings, make_run: Runs, safe_fix: TextFix) -> RunReport:
    """Four files, three severities, two families, every kind of fix, a notebook, and words that
    attack."""
    unsafe = dataclasses.replace(safe_fix, safety=Safety.UNSAFE, note="It may round.")
    other = RuleMeta(
        "TL701",
        "kept",
        "Let go of it",
        Severity.ERROR,
        "memory",
        help_markdown="## Why\n" + HOSTILE,
    )
    run = make_run(
        make_finding(),
        make_finding(start=Position(7, 16), end=Position(7, 30), fix=unsafe, why_hot=()),
        make_finding(filename="b.py", code="TL701", severity=Severity.ERROR, fix=None, why_hot=()),
        make_finding(
            filename="n.ipynb",
            cell=4,
            severity=Severity.INFO,
            fix=None,
            why_hot=(Reason("x" * 300, "b.py", 1),),
        ),
        make_finding(filename=HOSTILE, message=HOSTILE + "w" * 200, fix=None, help=HOSTILE),
        notes=(
            Note(NoteKind.SKIPPED, "big.py", HOSTILE),
            Note(NoteKind.FAILED, "c.py", "crashed", 3),
        ),
        files_checked=7,
    )
    return dataclasses.replace(run, rules={**run.rules, "TL701": other})


def unlocked(text: str, probe: str) -> str:
    """Return a page in which a test's own script runs too."""
    assert len(_POLICY.findall(text)) == 1
    text = _POLICY.sub("script-src 'unsafe-inline'", text)
    return text.replace("<title>", f"{WATCH}<title>", 1).replace("</body>", f"{probe}</body>")


def dumped(folder: Path, text: str, name: str) -> Any:
    """Return what a probe wrote into a page's body."""
    page = folder / "page.html"
    page.write_text(text, encoding="utf-8")
    dom = chromium(page, 1400, "light", "--virtual-time-budget=10000", "--dump-dom").stdout
    found = re.search(rf'<body[^>]* data-{name}="([^"]*)"', dom)
    assert found, dom[:2000]
    return json.loads(escaping.unescape(found[1]))


@pytest.mark.parametrize(
    ("width", "scheme"), [(360, "dark"), (360, "light"), (1400, "dark"), (1400, "light")]
)
def test_the_page_fits_and_can_be_read(
    tmp_path: Path, rich: RunReport, width: int, scheme: str
) -> None:
    laid_out = escaping.escape(unlocked(html.render(rich), PROBE))
    page = tmp_path / "frame.html"
    page.write_text(FRAME.format(width=width, page=laid_out), encoding="utf-8")
    found = re.search(
        r'<body data-probe="([^"]*)"', chromium(page, width, scheme, "--dump-dom").stdout
    )
    assert found
    seen = json.loads(escaping.unescape(found[1]))
    assert seen["width"] == width
    assert seen["content"] <= width, "the page scrolls sideways"
    assert seen["dark"] is (scheme == "dark")
    assert (seen["ground"] < 0.2) is (scheme == "dark")
    assert seen["faint"] == []
    assert seen["asked"] == []


def test_filters(tmp_path: Path, rich: RunReport) -> None:
    seen = {
        entry[0]: entry[1:]
        for entry in dumped(tmp_path, unlocked(html.render(rich), WORKER), "worked")
    }
    every = [HOSTILE, "b.py", "n.ipynb", "train.py"]
    assert seen == {
        "all": [5, every, "5 shown", False],
        "without warnings": [2, ["b.py", "n.ipynb"], "2 of 5 shown", False],
        "family": [1, ["b.py"], "1 of 5 shown", False],
        "rule": [4, [HOSTILE, "n.ipynb", "train.py"], "4 of 5 shown", False],
        "fix safe": [1, ["train.py"], "1 of 5 shown", False],
        "fix unsafe": [1, ["train.py"], "1 of 5 shown", False],
        "fix any": [2, ["train.py"], "2 of 5 shown", False],
        "fix none": [3, [HOSTILE, "b.py", "n.ipynb"], "3 of 5 shown", False],
        "file": [1, ["b.py"], "1 of 5 shown", False],
        "text": [2, [HOSTILE, "train.py"], "2 of 5 shown", False],
        "nothing": [0, [], "0 of 5 shown", True],
        "reset": [5, every, "5 shown", False],
        "summary": [1, ["b.py"], "1 of 5 shown", False],
        "slash": [True],
        "escape": [5, every, "5 shown", False],
        "keys": ["SUMMARY", True, True],
        "fold": [5, 0],
        "manual": [True],
        "print": [5, 0],
        "loaded": [0, "torchlint: 5 findings in 7 checked files"],
    }


def test_nothing_is_said_on_the_console(tmp_path: Path, rich: RunReport) -> None:
    """The page as it is, with its own policy: its script runs, and no part of it is refused."""
    page = tmp_path / "page.html"
    page.write_text(html.render(rich), encoding="utf-8")
    done = chromium(page, 1400, "light", "--enable-logging=stderr", "--dump-dom")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    assert re.search(r'<form id="filters"[^>]*>', done.stdout)[0].count("hidden") == 0  # type: ignore[index]
    assert ">5 shown<" in done.stdout
    page.write_text(
        page.read_text().replace("form.hidden = false", "form.hidden = 1"), encoding="utf-8"
    )
    done = chromium(page, 1400, "light", "--enable-logging=stderr", "--dump-dom")
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line], (
        "a script of another digest is refused"
    )


def test_without_script_all_is_shown(tmp_path: Path, rich: RunReport) -> None:
    bare = re.sub(r"<script>.*?</script>", "", html.render(rich), flags=re.DOTALL)
    probe = """<script>document.body.dataset.bare = JSON.stringify([
      [...document.querySelectorAll(".finding")].filter(f => f.checkVisibility() && f.open).length,
      document.getElementById("filters").checkVisibility()]);</script>"""
    assert dumped(tmp_path, unlocked(bare, probe), "bare") == [5, False]


def test_light_and_dark_are_two_pictures(tmp_path: Path, rich: RunReport) -> None:
    page = tmp_path / "page.html"
    page.write_text(html.render(rich), encoding="utf-8")
    pictures = []
    for scheme in ("light", "dark"):
        picture = tmp_path / f"{scheme}.png"
        chromium(page, 1400, scheme, f"--screenshot={picture}")
        pictures.append(picture.read_bytes())
    assert [each[:8] for each in pictures] == [b"\x89PNG\r\n\x1a\n"] * 2
    assert pictures[0] != pictures[1]


def test_five_thousand_findings_can_be_filtered(
    tmp_path: Path, make_finding: Findings, make_run: Runs
) -> None:
    source = make_run(make_finding()).files[0].source
    files = tuple(
        FileReport(
            f"src/part{file}.py",
            tuple(
                make_finding(filename=f"src/part{file}.py", start=Position(6, 16 + n % 9))
                for n in range(100)
            ),
            source=source,
        )
        for file in range(50)
    )
    probe = """<script>addEventListener("load", () => {
      const field = document.getElementById("filters").elements;
      field.file.value = "src/part7.py"; field.file.dispatchEvent(new Event("input", {bubbles: true}));
      const one = document.querySelectorAll(".finding:not([hidden])").length;
      document.getElementById("filters").querySelector("[value=warning]").click();
      document.body.dataset.many = JSON.stringify([document.querySelectorAll(".finding").length, one,
        document.querySelectorAll(".finding:not([hidden])").length,
        document.querySelectorAll(".finding[open]").length]);
    });</script>"""  # noqa: E501
    text = html.render(make_run(files=files))
    assert len(text) < 20_000_000
    assert dumped(tmp_path, unlocked(text, probe), "many") == [5_000, 100, 0, 0]
