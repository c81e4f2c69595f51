"""A profile as a page: what is on it, what cannot get on it, and how it looks in a browser."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser import CHROMIUM, looked_at, needs_chromium
from tests.cli.test_cli_profile import PROGRAM, waiting
from tests.docs.chromium import tab
from tests.trace.program import Machine, steps, written
from torchlint.cli.main import run

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e" + "template<" * 200


def page_of(folder: Path, *arguments: str) -> str:
    target = folder / "page.html"
    given = ["profile", "-q", "--output-format", "html", "-o", str(target)]
    assert run([*given, *arguments]) == 0
    text = target.read_text("ascii")
    assert "http" not in text.replace("http-equiv", "")
    assert "<script" not in text
    return text


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    return tmp_path


def test_a_finding_shows_its_code_its_cost_and_its_fix(program: Path) -> None:
    text = page_of(program, "train.py", "--isolated", "--trace", waiting(program / "t.json"))
    finding = text[text.index('id="findings"') : text.index('id="timeline"')]
    assert re.search(r"at most [\d.]+ [mu]s \([\d.]+ %\)", finding)
    assert "train.py:10" in finding
    line = "        total += loss.item()"
    assert f'<span class="hit"><span class="row">   10  </span>{line}' in finding
    assert f'<span class="removed">-{line}</span>' in finding
    assert "1 finding measured, negligible" in finding


def test_findings_are_pinned_where_their_lines_ran(program: Path) -> None:
    text = page_of(program, "train.py", "--isolated", "--trace", waiting(program / "t.json"))
    lane = text[text.index('<div class="name">findings</div>') :]
    lane = lane[: lane.index("</svg>")]
    (pin,) = re.findall(r'<rect class="findings" x="([\d.]+)%".*?<title>([^<]*)', lane)
    assert 20 < float(pin[0]) < 60  # after 300 of 800 us of host work
    assert "train.py:10" in pin[1]


def test_the_page_draws_the_median_step(tmp_path: Path) -> None:
    text = page_of(tmp_path, "--trace", written(tmp_path / "t.json", steps(4).events))
    for words in ("A step takes", "the median one", "GPU stream 20", "queue of stream 7", "idle"):
        assert words in text
    assert text.count("<rect") >= 8


def test_ranks_stand_beside_each_other(tmp_path: Path) -> None:
    named = []
    for rank in range(3):
        info = {"rank": rank, "world_size": 3}
        path = tmp_path / f"{rank}.json"
        named += ["--trace", written(path, steps(4, rank=rank).events, distributedInfo=info)]
    text = page_of(tmp_path, *named)
    assert text.count('aria-labelledby="rank-') == 3
    assert "waits for others" in text


def test_summaries_that_are_put_together_make_a_page(tmp_path: Path) -> None:
    trace, summary = written(tmp_path / "t.json", steps(3).events), str(tmp_path / "s.json")
    assert run(["profile", "-q", "--trace", trace, "--summary", summary]) == 0
    assert "A step takes" in page_of(tmp_path, "--merge", summary)


def test_without_a_device_the_page_says_so(tmp_path: Path) -> None:
    machine = Machine()
    machine.event("cpu_op", "aten::mm", machine.now, 1_000)
    text = page_of(tmp_path, "--trace", written(tmp_path / "t.json", machine.events))
    assert "no GPU worked" in text
    assert 'id="kernels"' not in text


def hostile(folder: Path) -> str:
    machine = steps(2)
    machine.launch(400_000, name=HOSTILE)
    machine.sync()
    machine.step(9, machine.now - 450_000)
    machine.step(10, machine.now)
    return written(folder / "<b>&.json", machine.events, deviceProperties=[{"name": HOSTILE}])


def test_names_cannot_get_into_the_page(tmp_path: Path) -> None:
    text = page_of(tmp_path, "--trace", hostile(tmp_path))
    assert "&lt;script&gt;alert(1)" in text
    assert "&lt;b&gt;&amp;.json" in text
    assert "\x1b" not in text
    assert "&#8238;" not in text


def test_a_missing_jinja_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = written(tmp_path / "t.json", steps(2).events)
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run(["profile", "--trace", trace, "--output-format", "html"]) == 2
    found = capsys.readouterr()
    assert "python -m pip install '.[html]' in a clone" in found.err
    assert (found.out, found.err.count("\n")) == ("", 1)


def test_a_page_needs_no_torch(tmp_path: Path) -> None:
    trace = written(tmp_path / "t.json", steps(3).events)
    code = (
        "import sys; sys.modules['torch'] = None; sys.modules['libcst'] = None\n"
        "from torchlint.cli.main import run\n"
        f"sys.exit(run(['profile', '--trace', {trace!r}, '--output-format', 'html']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "</html>" in done.stdout


@pytest.mark.parametrize("width", [360, 1400])
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("name", ["plain", "hostile"])
class TestInABrowser:
    pytestmark = needs_chromium

    def test_it_fits_and_can_be_read(
        self, program: Path, name: str, width: int, scheme: str
    ) -> None:
        trace = waiting(program / "t.json") if name == "plain" else hostile(program)
        text = page_of(program, "train.py", "--isolated", "--trace", trace)
        seen = looked_at(program, text, width, scheme)
        assert seen["content"] <= width, "the page scrolls sideways"
        assert seen["dark"] is (scheme == "dark")
        assert (seen["faint"], seen["cut"], seen["touching"]) == ([], [], [])
        assert seen["asked"] == []
        assert seen["drawings"] >= 4
        assert seen["flat"] == 0


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian package chromium)")
def test_a_row_of_code_is_one_line(program: Path) -> None:
    """Its number stands before it, not above it."""
    text = page_of(program, "train.py", "--isolated", "--trace", waiting(program / "t.json"))
    numbers = text.count('class="row"')
    with tab(program / "profile") as page:
        page.open((program / "page.html").as_uri())
        heights = (
            "[...document.querySelectorAll('pre .row')].map(n => n.parentElement.offsetHeight)"
        )
        found = page.run(heights)
    assert len(found) == numbers > 3
    assert max(found) < 30
