from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from torchlint.base.finding import Finding
from torchlint.report import concise
from torchlint.report.formats import DEFAULT, FORMATS, TEXT_FORMATS
from torchlint.report.run_report import RunReport


def test_names() -> None:
    assert list(FORMATS) == ["full", "concise", "json", "github", "sarif"]
    assert DEFAULT in TEXT_FORMATS
    assert set(FORMATS) > TEXT_FORMATS


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_ends_with_a_newline_and_hides_controls(
    name: str, make_finding: Callable[..., Finding], make_run: Callable[..., RunReport]
) -> None:
    finding = make_finding(filename="a\x1b\u202e\udcff\n.py", message="\x1b\x00\x9b\u2066")
    text = FORMATS[name](make_run(finding))
    assert text.endswith("\n")
    assert not set(text) & set("\x00\x1b\x9b\u2066\u202e\udcff")
    text.encode()


def test_table_leads_to_the_modules(make_finding: Callable[..., Finding], make_run: Callable[..., RunReport]) -> None:
    run = make_run(make_finding())
    assert FORMATS["concise"](run) == concise.render(run)


def test_formats_are_imported_when_asked_for() -> None:
    code = "import sys, torchlint.report.formats; print('torchlint.report.sarif' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
