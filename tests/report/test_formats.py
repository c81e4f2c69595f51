"""What every format keeps: hostile text stays text, notebooks name their cells, nothing is left out
silently."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from xml.etree.ElementTree import fromstring

import pytest

from torchlint.base.finding import Finding, Note, NoteKind, Reason
from torchlint.report import concise
from torchlint.report.formats import DEFAULT, FORMATS, TEXT_FORMATS, WITH_MANUAL, WITH_SOURCE
from torchlint.report.run_report import RunReport

Findings = Callable[..., Finding]
Runs = Callable[..., RunReport]
HOSTILE = (
    "]]><script>alert(1)</script>%0A::error file=x::y ##vso[task.complete]; &amp; \" ' \\ {0}\ufffe"
)
CONTROLS = "\x00\x1b\x9b\u2066\u202e\udcff\r\n"
ASCII = frozenset({"json", "json-lines", "gitlab", "junit", "rdjson", "sarif", "html"})


class Text(HTMLParser):
    """The words of a page outside its style and script, and its tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._inside = tag

    def handle_data(self, data: str) -> None:
        if self._inside not in ("style", "script"):
            self.words.append(data)


def readable(name: str, text: str) -> str:
    """Return the words of a report after a strict parser has taken it, as its reader sees them."""
    if name in ("json", "gitlab", "rdjson", "sarif"):
        return json.dumps(json.loads(text), ensure_ascii=False)
    if name == "json-lines":
        return "".join(
            json.dumps(json.loads(line), ensure_ascii=False) for line in text.splitlines()
        )
    if name == "junit":
        return " ".join(
            word
            for node in fromstring(text).iter()
            for word in (*node.attrib.values(), node.text or "")
        )
    if name == "html":
        return "".join(Text(text).words)
    return text


def test_names() -> None:
    assert set(FORMATS) == {
        *(
            "ranked",
            "full",
            "concise",
            "grouped",
            "agent",
            "json",
            "json-lines",
            "github",
            "gitlab",
            "azure",
        ),
        *("junit", "pylint", "rdjson", "sarif", "html"),
    }
    assert DEFAULT in TEXT_FORMATS
    assert set(FORMATS) > TEXT_FORMATS | WITH_SOURCE | WITH_MANUAL


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_ends_with_a_newline_and_hides_controls(
    name: str, make_finding: Findings, make_run: Runs
) -> None:
    finding = make_finding(
        filename=f"a{CONTROLS}.py", message=CONTROLS, why_hot=(Reason(CONTROLS, CONTROLS, 1),)
    )
    run = make_run(
        finding, notes=(Note(NoteKind.FAILED, f"b{CONTROLS}.py", CONTROLS, 3),), text=CONTROLS * 9
    )
    text = FORMATS[name](run)
    assert text.endswith("\n")
    assert not set(text) & (set(CONTROLS) - {"\n"})
    text.encode()
    assert name not in ASCII or text.isascii()


@pytest.mark.parametrize("name", FORMATS)
def test_hostile_words_stay_words(name: str, make_finding: Findings, make_run: Runs) -> None:
    """A message, name or source of markup and commands is shown to the letter, and adds nothing to
    the report."""
    plain = make_run(
        make_finding(filename="a.py"), notes=(Note(NoteKind.SKIPPED, "b.py", "words"),)
    )
    finding = make_finding(filename=f"{HOSTILE}.py", message=HOSTILE)
    run = make_run(
        finding, notes=(Note(NoteKind.SKIPPED, f"b{HOSTILE}.py", HOSTILE),), text=f"{HOSTILE}\n" * 9
    )
    text = FORMATS[name](run)
    words = readable(name, text)
    if name == "html":
        assert (
            Text(text).tags.count("script") == Text(FORMATS[name](plain)).tags.count("script") == 1
        )
        assert "<script>alert(1)" in words
    elif name in ("github", "azure"):
        commands = re.compile(r"^(::(error|warning|notice) |##vso\[task\.logissue )")
        assert all(commands.match(line) for line in text.splitlines())
        assert len(text.splitlines()) == len(FORMATS[name](plain).splitlines()) == 2
    else:
        assert "]]><script>alert(1)</script>" in words.replace("\\\\", "\\")


@pytest.mark.parametrize("name", FORMATS)
def test_a_notebook_finding_names_its_cell(
    name: str, make_finding: Findings, make_run: Runs
) -> None:
    words = readable(name, FORMATS[name](make_run(make_finding(filename="n.ipynb", cell=4))))
    place = {"json": '"cell": 4', "json-lines": '"cell": 4', "html": "Cell 4"}.get(
        name, "cell 4:6:16"
    )
    assert place in words


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("azure", "linenumber=31;"),
        ("github", ",line=31,"),
        ("gitlab", '"lines": {"begin": 31, "end": 31}'),
        ("junit", "31"),
        ("pylint", "n.ipynb:31: "),
        ("rdjson", '"range": {"start": {"line": 31}}'),
        ("sarif", '"region": {"startLine": 31}'),
    ],
)
def test_a_line_of_a_notebook_is_one_of_its_file(
    name: str, line: str, make_finding: Findings, make_run: Runs
) -> None:
    """Where a format knows files but no cells; the column of a cell says nothing there."""
    words = readable(
        name, FORMATS[name](make_run(make_finding(filename="n.ipynb", cell=4, file_row=31)))
    )
    assert line in words
    assert "col=" not in words
    assert "columnnumber" not in words
    assert '"column"' not in words


@pytest.mark.parametrize("name", FORMATS)
def test_no_findings(name: str, make_run: Runs) -> None:
    text = FORMATS[name](make_run())
    if name in ("junit", "rdjson", "sarif", "html"):  # which say so in a document of their own
        assert "torchlint" in readable(name, text)
    else:
        assert text == ("[]\n" if name in ("json", "gitlab") else "")


@pytest.mark.parametrize("name", sorted(set(FORMATS) - TEXT_FORMATS))
def test_files_that_were_left_out_are_in_the_report(
    name: str, make_finding: Findings, make_run: Runs
) -> None:
    """The formats for people leave these to the summary."""
    unreadable = make_finding(
        filename="gone.py", code="unreadable", name="unreadable", message="no such file", fix=None
    )
    notes = (
        Note(NoteKind.SKIPPED, "big.py", "is too large"),
        Note(NoteKind.FAILED, "crash.py", "rule crashed", 12),
    )
    words = readable(name, FORMATS[name](make_run(unreadable, notes=notes)))
    for expected in (
        "gone.py",
        "no such file",
        "big.py",
        "is too large",
        "crash.py",
        "rule crashed",
    ):
        assert expected in words


def test_table_leads_to_the_modules(make_finding: Findings, make_run: Runs) -> None:
    run = make_run(make_finding())
    assert FORMATS["concise"](run) == concise.render(run)


def test_formats_are_imported_when_asked_for() -> None:
    code = "import sys, torchlint.report.formats; print('torchlint.report.sarif' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
