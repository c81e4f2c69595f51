"""Faults O01 to O04 and N04: hostile text in reports, very many findings, output files, standard
input."""

from __future__ import annotations

import array
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import termios
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes
from xml.etree.ElementTree import fromstring

import junitparser
import pytest

from tests.faults.harness import GOOD, GOOD_FIXED, TORCHLINT, Done, Fault
from tests.faults.test_processes import until
from tests.patience import PATIENCE
from tests.report.test_sarif import schema_path
from torchlint.base.finding import FileReport, Finding, Severity
from torchlint.base.span import Position
from torchlint.report.formats import FORMATS
from torchlint.report.run_report import RunReport

STEERING = "\x1b[2J\x1b]0;title\x07\x9b31m\x08\x7f\u202e\u2066\u2028"
"""Clears a screen, sets a title, rings, colours, deletes, and turns text around."""
FORMS = tuple(FORMATS)


def hostile_source(extra: str) -> str:
    return GOOD.replace("torch.ones(n).cuda()", f"torch.ones(n).cuda()  # {extra}")


@pytest.mark.fault("O01")
@pytest.mark.parametrize("form", FORMS)
def test_o01_steering_characters(fault: Fault, form: str) -> None:
    fault.seconds = 30  # words are what matters here, not time
    fault.write(f"a{STEERING}.py", hostile_source(STEERING))
    fault.write("cr\rname\n.py", GOOD)
    fault.write("message.py", f'import torch\nx = torch.{{"\u202e\x1b": 1}}  # {STEERING}\n')
    fault.write("string.py", f"import torch\nx = '{STEERING}\n")
    done = fault.run("check", "--output-format", form)
    fault.others(done)
    fault.holds("I3", done.code == 1 and done.text.count("TL102") >= 3, done.text)
    for name in ("message.py", "string.py"):
        fault.holds("I3", name in done.text, done.text)
    lines = done.out.decode().splitlines()
    if form in ("concise", "pylint"):
        fault.holds(
            "I3", len([line for line in lines if re.search(r"\.py:\d+:(\d+:)? ", line)]) == 5, lines
        )
    if form in ("azure", "json-lines"):
        fault.holds("I3", len(lines) == 5, lines)
    if form == "github":
        fault.holds(
            "I3", all(line.startswith(b"::") for line in done.out.split(b"\n") if line), done.out
        )


@pytest.mark.fault("O01")
def test_o01_in_names_configuration_and_usage(fault: Fault) -> None:
    fault.write("good.py", GOOD)
    for arguments in (
        ("check", "--select", f"TL{STEERING}"),
        ("check", f"none{STEERING}.py"),
        ("check", f"--{STEERING}"),
        (f"che{STEERING}ck",),
        ("check", "--config", f"'a{STEERING}' = 1"),
        ("check", "--show-files", "."),
        ("check", "-v", "good.py"),
    ):
        fault.write(f"build{STEERING}/a.py", "")
        done = fault.run(*arguments)
        fault.holds("I3", done.code in (0, 1, 2), done.text)
    fault.write(
        "torchlint.toml",
        f'"k{STEERING.encode("unicode_escape").decode()}" = 1\n'.replace("\\x", "\\u00"),
    )
    done = fault.run("check")
    fault.holds("I3", done.code == 2 and "torchlint.toml" in done.text, done.text)


@pytest.mark.fault("O01")
def test_o01_preview_on_a_terminal(fault: Fault) -> None:
    """A patch for ``git apply`` holds the source's own bytes; one that is shown to eyes does
    not."""
    path = fault.write("a.py", hostile_source(STEERING))
    done = subprocess.run(
        [TORCHLINT, "fix", "--color", "always", "a.py"], cwd=fault.folder, capture_output=True
    )
    shown = re.sub(rb"\x1b\[[0-9;]*m", b"", done.stdout)
    fault.contained(Done(done.returncode, shown, done.stderr, 0))
    fault.holds("I3", b"\\x1b[2J" in shown, shown)
    fault.holds(
        "I4", path.read_text("utf-8") == hostile_source(STEERING), "the preview changed the file"
    )


HOSTILE = "]]><script>alert(1)</script>%0A::error file=x::y &amp; \" ' \\ %s {0} \u0000"
NAMES = (
    "]]>&<b>.py",
    "%0A::error title=x::.py",
    "::warning::.py",
    "a,b=c;d.py",
    "\"'`$(x).py",
    " #%23?.py",
    "{0}%s.py",
)


@pytest.mark.fault("O02")
@pytest.mark.parametrize("form", FORMS)
def test_o02_markup_and_commands(fault: Fault, form: str) -> None:
    fault.seconds = 30
    text = hostile_source(HOSTILE.replace("\u0000", ""))
    for name in NAMES:
        fault.write(name, text)
    fault.write("null.py", "import torch\nx = '\u0000'\n")
    done = fault.run("check", "--output-format", form)
    fault.others(done)
    fault.holds("I3", done.code == 1, done.text)
    lines = [line for line in done.out.decode().split("\n") if line]
    if form in ("agent", "concise", "full", "grouped", "ranked"):
        fault.holds("I3", not any(line.lstrip().startswith("::") for line in lines), lines)
        each = "6:16" if form in ("agent", "ranked") else "TL102"
        fault.holds("I3", done.text.count(each) == len(NAMES) + 1, done.text)
    else:
        names = READERS[form](fault, done)
        fault.holds("I3", names == {*NAMES, "good.py", "null.py"}, names)


def commands(fault: Fault, done: Done) -> set[str]:
    """Return the files that logging commands name; each line is one, and no name or message made
    another."""
    lines = done.out.decode().split("\n")[:-1]
    fault.holds("I3", len(lines) == len(NAMES) + 2, lines)
    if lines[0].startswith("::"):
        found = [
            re.match(r"::(?:error|warning|notice) file=([^,:]*),line=\d+,", line) for line in lines
        ]
        escapes = {"%3A": ":", "%2C": ",", "%25": "%"}
    else:
        found = [
            re.match(r"##vso\[task\.logissue type=\w+;sourcepath=([^;\]]*);linenumber=\d+;", line)
            for line in lines
        ]
        escapes = {"%3B": ";", "%5D": "]", "%AZP25": "%"}
    names = set()
    for match in found:
        fault.holds("I3", match is not None, lines)
        name = os.path.basename(match[1]) if match else ""
        for escape, character in escapes.items():
            name = name.replace(escape, character)
        names.add(name)
    return names


def listed(fault: Fault, done: Done) -> set[str]:
    """Return the files in JSON: a list of findings, or a line for each."""
    text = done.out.decode("ascii")
    whole = text.startswith("[")
    entries = json.loads(text) if whole else [json.loads(line) for line in text.splitlines()]
    if "check_name" in entries[0]:
        fault.holds(
            "I3",
            len({entry["fingerprint"] for entry in entries}) == len(entries),
            "fingerprints repeat",
        )
        return {entry["location"]["path"] for entry in entries}
    return {os.path.basename(entry["filename"]) for entry in entries}


def diagnosed(fault: Fault, done: Done) -> set[str]:
    return {found["location"]["path"] for found in json.loads(done.out)["diagnostics"]}


def parseable(fault: Fault, done: Done) -> set[str]:
    found = [
        re.fullmatch(r"(.*?):\d+: \[[\w-]+\] .*", line)
        for line in done.out.decode().split("\n")[:-1]
    ]
    fault.holds("I3", all(found) and len(found) == len(NAMES) + 2, done.text)
    return {match[1].removeprefix("./") for match in found if match}


def xml(fault: Fault, done: Done) -> set[str]:
    """Return the files in JUnit's XML, which a strict parser and a JUnit reader take."""
    root = fromstring(done.out.decode("ascii"))
    report = junitparser.JUnitXml.fromstring(done.out)
    cases = [case for suite in report for case in suite]
    fault.holds(
        "I3",
        len(cases) == report.failures == len(NAMES) + 2 == len(root.findall(".//failure")),
        done.text,
    )
    return {str(case.classname) for case in cases}


class Reader(HTMLParser):
    """Counts tags, and takes the file names of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.scripts = 0
        self.names: set[str] = set()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.scripts += tag == "script"
        name = dict(attrs).get("data-file")
        if name is not None:
            self.names.add(name)


def markup(fault: Fault, done: Done) -> set[str]:
    """Return the files on the page; its one script is its own."""
    page = Reader(done.out.decode("ascii"))
    fault.holds("I3", page.scripts == 1, "a script was let in")
    return page.names


def sarif(fault: Fault, done: Done) -> set[str]:
    """Check a SARIF report against the schema where that is at hand; return the files that its URIs
    lead to."""
    log: dict[str, Any] = json.loads(done.out)
    path = schema_path()
    if path is not None:
        jsonschema = pytest.importorskip("jsonschema")
        validator = jsonschema.validators.validator_for(json.loads(path.read_text("utf-8")))
        errors = list(validator(json.loads(path.read_text("utf-8"))).iter_errors(log))
        fault.holds("I3", not errors, errors[:3])
    (run,) = log["runs"]
    places = [
        result["locations"][0]["physicalLocation"]["artifactLocation"] for result in run["results"]
    ]
    found = {os.fsdecode(unquote_to_bytes(place["uri"])) for place in places}
    fault.holds(
        "I3",
        all(re.fullmatch(r"[\w./~%!$&'()*+,;=:@-]+", place["uri"]) for place in places),
        places,
    )
    return found


READERS: dict[str, Callable[[Fault, Done], set[str]]] = {
    "azure": commands,
    "github": commands,
    "gitlab": listed,
    "html": markup,
    "json": listed,
    "json-lines": listed,
    "junit": xml,
    "pylint": parseable,
    "rdjson": diagnosed,
    "sarif": sarif,
}


def many(count: int) -> RunReport:
    places = Position(3, 1), Position(3, 9)
    files = tuple(
        FileReport(
            f"file{file}.py",
            tuple(
                Finding(
                    "TL102",
                    "cpu-create-then-move",
                    "words",
                    Severity.WARNING,
                    f"file{file}.py",
                    *places,
                    row,
                    row,
                )
                for row in range(1, 101)
            ),
        )
        for file in range(count // 100)
    )
    return RunReport(files, "0.1.0", {}, "/project", len(files))


@pytest.mark.slow
@pytest.mark.fault("O03")
def test_o03_very_many_findings(fault: Fault) -> None:
    """All formats hold all, but for SARIF: it holds the 25,000 that GitHub takes, and says so."""
    report = many(30_000)
    log = json.loads(FORMATS["sarif"](report))
    (run,) = log["runs"]
    fault.holds("I3", len(run["results"]) == 25_000, len(run["results"]))
    (note,) = run["invocations"][0]["toolExecutionNotifications"]
    fault.holds("I3", note["message"]["text"].startswith("5000 findings are left out"), note)
    fault.holds("I3", len(json.loads(FORMATS["json"](report))) == 30_000, "json lost some")
    for form in ("azure", "concise", "github", "json-lines", "pylint"):
        fault.holds("I3", FORMATS[form](report).count("\n") == 30_000, f"{form} lost some")
    fault.holds("I3", FORMATS["grouped"](report).count("TL102") == 30_000, "grouped lost some")
    fault.holds("I3", FORMATS["junit"](report).count("<testcase") == 30_000, "junit lost some")
    identities = {issue["fingerprint"] for issue in json.loads(FORMATS["gitlab"](report))}
    fault.holds("I3", len(identities) == 30_000, "gitlab lost some")
    fault.holds(
        "I3",
        len(json.loads(FORMATS["rdjson"](report))["diagnostics"]) == 30_000,
        "rdjson lost some",
    )


@pytest.mark.slow
@pytest.mark.fault("O03")
def test_o03_many_in_one_file(fault: Fault) -> None:
    """A file of 1,500 findings is analysed and fixed within its time: the work grows with their
    number."""
    fault.seconds = 60
    count = 1_500
    path = fault.write("many.py", GOOD + "        torch.ones(n).cuda()\n" * count)
    done = fault.run("check", "--output-format", "json")
    fault.others(done)
    fault.holds("I3", len(done.of("many.py")) == count + 1, len(done.of("many.py")))
    done = fault.run("fix", "--apply")
    fault.others_fixed()
    fault.holds("I3", done.code == 0, done.text)
    fault.holds("I4", path.read_text("utf-8").count(GOOD_FIXED) == count + 1, "not all were fixed")


@pytest.mark.fault("O03")
@pytest.mark.slow
def test_o03_more_than_sarif_takes_for_real(fault: Fault) -> None:
    fault.seconds = 120
    for number in range(13):
        fault.write(f"many{number}.py", GOOD + "        torch.ones(n).cuda()\n" * 1_999)
    done = fault.run("check", "--output-format", "sarif", bad=13)
    fault.holds("I3", done.code == 1, done.text[-2000:])
    (run,) = json.loads(done.out)["runs"]
    fault.holds("I3", len(run["results"]) == 25_000, len(run["results"]))
    fault.holds(
        "I3", b"1001 findings are left out" in done.out, "nothing is said of those left out"
    )


@pytest.mark.fault("O04")
@pytest.mark.parametrize(
    ("form", "name"),
    [
        *(
            ("check", name)
            for name in (
                "good.py",
                "sub/../good.py",
                "link.py",
                "hard.py",
                "sub",
                "none/x",
                "",
                "/proc/x",
            )
        ),
        *(("fix", name) for name in ("link.py", "sub")),
    ],
)
def test_o04_output_file_that_cannot_be_meant(fault: Fault, form: str, name: str) -> None:
    path = fault.write("good.py", GOOD)
    fault.write("sub/b.py", "")
    (fault.folder / "link.py").symlink_to("good.py")
    os.link(path, fault.folder / "hard.py")
    done = fault.run(form, "-o", name)
    fault.holds("I3", done.code == 2 and "--output-file" in done.text, done.text)
    fault.holds(
        "I4",
        path.read_text("utf-8") == GOOD and path.stat().st_nlink == 2,
        "the input was overwritten",
    )
    fault.holds("I4", (fault.folder / "link.py").is_symlink(), "the link was replaced")
    fault.holds("I4", not list(fault.folder.rglob(".torchlint-*.tmp")), "a temporary file is left")


@pytest.mark.fault("O04")
@pytest.mark.parametrize(
    "name", ["good.py", "sub/../good.py", "link.py", "hard.py", "sub", "none/x"]
)
def test_o04_report_in_a_file_that_cannot_be_meant(fault: Fault, name: str) -> None:
    path = fault.write("good.py", GOOD)
    fault.write("sub/b.py", "")
    (fault.folder / "link.py").symlink_to("good.py")
    os.link(path, fault.folder / "hard.py")
    done = fault.run(
        "check", "--output-format", "junit:first.xml", "--output-format", f"sarif:{name}"
    )
    fault.holds("I3", done.code == 2 and f"--output-format sarif:{name}: " in done.text, done.text)
    fault.holds(
        "I4",
        path.read_text("utf-8") == GOOD and path.stat().st_nlink == 2,
        "the input was overwritten",
    )
    fault.holds("I4", (fault.folder / "link.py").is_symlink(), "the link was replaced")
    left = [
        found.name
        for found in fault.folder.iterdir()
        if found.name not in ("good.py", "link.py", "hard.py", "sub")
    ]
    fault.holds("I4", set(left) <= {".torchlint_cache"}, left)


@pytest.mark.fault("O04")
def test_o04_device_and_read_only_folder(fault: Fault) -> None:
    fault.write("good.py", GOOD)
    if Path("/dev/full").exists():
        done = fault.run("check", "-o", "/dev/full")
        fault.holds("I3", done.code == 2 and "No space left on device" in done.text, done.text)
    out = fault.folder / "out"
    out.mkdir()
    fault.holds(
        "I3", fault.run("check", "-o", "out/report.txt").code == 1, "a report can be written"
    )
    before = (out / "report.txt").read_bytes()
    if os.geteuid() == 0:
        if shutil.which("unshare") is None:
            pytest.skip("root may write everywhere")
        script = (
            f'mount -t tmpfs -o ro tmpfs "{out}" || exit 99; exec "{TORCHLINT}" check -o '
            "out/new.txt"
        )
        command = ["unshare", "-m", "bash", "-c", script]
    else:
        out.chmod(0o555)
        command = [TORCHLINT, "check", "-o", "out/new.txt"]
    done = fault.run(command=command)
    out.chmod(0o755)
    if b"mount" in done.err or b"unshare" in done.err:
        pytest.skip("root may write everywhere")
    fault.holds("I3", done.code == 2 and "--output-file out/new.txt: " in done.text, done.text)
    fault.holds("I4", [path.name for path in out.iterdir()] == ["report.txt"], "a file is left")
    fault.holds("I4", (out / "report.txt").read_bytes() == before, "the old report was changed")


@pytest.mark.fault("N04")
def test_n04_empty_and_binary(fault: Fault) -> None:
    done = fault.run("check", "-", stdin=b"")
    fault.holds("I3", done.code == 0, done.text)
    for data, words in (
        (b"\x7fELF\x00\xff\xfe", "not valid utf-8"),
        (b"\xff\xfe\x00", "byte order mark"),
    ):
        done = fault.run("check", "-", stdin=data)
        fault.holds("I3", done.code == 1 and words in done.text, done.text)
        done = fault.run("fix", "--apply", "-", stdin=data)
        fault.holds("I3", done.code == 1 and words in done.text, done.text)
    for data, words in (
        (b"", "Expecting '{'"),
        (b"\x00", "Expecting '{'"),
        (b"{" * 100_000, "property name"),
    ):
        done = fault.run("check", "-", "--stdin-filename", "n.ipynb", stdin=data)
        fault.holds("I3", done.code == 1 and words in done.text, done.text)
    done = fault.run("check", "-", stdin=b"x = '\x00'\n")
    fault.holds("I3", done.code == 1 and "null byte" in done.text, done.text)
    done = fault.run(
        "check", "-", stdin=GOOD.encode(), command=["bash", "-c", f'exec "{TORCHLINT}" check - <&-']
    )
    fault.holds("I3", done.code == 2 and "standard input is closed" in done.text, done.text)


@pytest.mark.fault("N04")
def test_n04_endless(fault: Fault) -> None:
    """Of a stream that never ends, a little more than the largest size is read."""
    for command in ("check -", "fix --apply -"):
        limited = f'ulimit -v 3000000; exec "{TORCHLINT}" {command} </dev/zero'
        done = fault.run(command=["bash", "-c", limited])
        fault.holds("I3", done.code == 0 and "is larger than 1000000 bytes" in done.text, done.text)
    limited = f'ulimit -v 3000000; exec "{TORCHLINT}" check - --stdin-filename n.ipynb </dev/zero'
    done = fault.run(command=["bash", "-c", limited])
    fault.holds("I3", done.code == 0 and "is larger than 100000000 bytes" in done.text, done.text)
    piped = (
        f'set -o pipefail; head -c 1000000000 /dev/zero | "{TORCHLINT}" check -; echo "code '
        f'${{PIPESTATUS[1]}}"; exit 0'
    )
    done = fault.run(command=["bash", "-c", piped])
    fault.holds("I3", b"code 0" in done.out and b"is larger than" in done.out, done.text)


def unread(process: subprocess.Popen[bytes]) -> int:
    """Return how many bytes a process has not read yet of its standard input."""
    assert process.stdin is not None
    count = array.array("i", [0])
    fcntl.ioctl(process.stdin, termios.FIONREAD, count)
    return count[0]


@pytest.mark.fault("N04")
@pytest.mark.parametrize("number", [None, signal.SIGINT])
def test_n04_waits_for_the_end_only(fault: Fault, number: int | None) -> None:
    with subprocess.Popen(
        [TORCHLINT, "check", "-", "--output-format", "concise", "--timeout", "5"],
        cwd=fault.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        process.stdin.write(GOOD.encode())
        process.stdin.flush()
        fault.holds("I3", until(lambda: not unread(process), PATIENCE), "it does not read")
        time.sleep(0.5)  # while it is open, whether the rest comes is not known
        fault.holds("I3", process.poll() is None, "it did not wait")
        if number is not None:
            process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE)
    done = Done(process.returncode, out, err, 0)
    fault.contained(done)
    if number is None:
        fault.holds("I3", done.code == 1 and out.startswith(b"-:6:16: TL102"), done.text)
    else:
        fault.holds("I3", done.code == 130 and b"interrupted" in err, f"{done.code} {done.text}")
