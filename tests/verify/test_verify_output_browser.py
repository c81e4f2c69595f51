"""The HTML report in a real browser: light and dark, wide and narrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser import SCHEMES, chromium, looked_at, needs_chromium
from tests.verify import reports
from torchlint.verify.output import html as html_report

pytestmark = needs_chromium


def probed(folder: Path, name: str, width: int, scheme: str) -> Any:
    """Return what the probe saw of a sample's page."""
    return looked_at(folder, html_report.render(reports.SAMPLES[name]), width, scheme)


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
    assert seen["drawings"] >= 5
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
