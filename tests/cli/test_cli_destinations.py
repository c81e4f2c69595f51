"""``--output-format FORMAT[:FILE]`` on the command line: which reports go where, and what is
refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import parse

import pytest

from torchlint.cli.check import check_command
from torchlint.cli.destinations import Asked, AskedType
from torchlint.report.formats import FORMATS, TEXT_FORMATS

Source = Callable[..., str]


def test_several_reports_at_once(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd"))
    words = (
        "--output-format",
        "sarif:out.sarif",
        "--output-format=junit:sub/out.xml",
        "--output-format",
        "concise",
    )
    (cli.cwd / "sub").mkdir()
    done = cli("check", *words, code=1)
    assert done.stdout.startswith("a.py:2:1: TL101 [*] Found slow.\n")
    log = json.loads((cli.cwd / "out.sarif").read_text())
    assert [result["ruleId"] for result in log["runs"][0]["results"]] == ["TL101", "TL102"]
    assert log["runs"][0]["tool"]["driver"]["rules"][0]["help"]["text"].startswith("slow (TL101)")
    assert parse(cli.cwd / "sub" / "out.xml").getroot().get("failures") == "2"


def test_what_is_printed_is_for_the_configuration_where_only_files_are_named(
    cli, source: Source
) -> None:
    cli.write("a.py", source("slow"))
    cli.write("torchlint.toml", 'output-format = "json"\n')
    done = cli("check", "--output-format", "gitlab:gl.json", code=1)
    assert json.loads(done.stdout)[0]["code"] == "TL101"
    assert json.loads((cli.cwd / "gl.json").read_text())[0]["check_name"] == "TL101"


def test_a_file_beside_output_file(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    done = cli(
        "check",
        "--output-format",
        "json:a.json",
        "--output-format",
        "pylint",
        "-o",
        "b.txt",
        code=1,
    )
    assert done.stdout == ""
    assert (cli.cwd / "b.txt").read_text() == "a.py:2: [TL101] Found slow.\n"
    assert json.loads((cli.cwd / "a.json").read_text())[0]["code"] == "TL101"


@pytest.mark.parametrize("name", FORMATS)
def test_output_file_of_each_format(cli, source: Source, name: str) -> None:
    """Both ways to a file give the bytes that are printed, less the summary."""
    cli.write("a.py", source("slow", "odd"))
    printed = cli("check", "--output-format", name, code=1).stdout
    cli("check", "--output-format", name, "-o", "one", code=1)
    cli("check", "--output-format", f"{name}:two", "-q", code=1)
    one, two = ((cli.cwd / file).read_text(encoding="utf-8") for file in ("one", "two"))
    assert one == two
    assert one
    assert printed.startswith(one)
    assert printed[len(one) :].startswith("Found 2 findings" if name in TEXT_FORMATS else "")


def test_colours_stay_on_the_terminal(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    done = cli("check", "--color", "always", "--output-format", "full:a.txt", code=1)
    assert "\x1b[" in done.stdout
    assert "\x1b" not in (cli.cwd / "a.txt").read_text()


@pytest.mark.parametrize("name", ["html", "full", "rdjson"])
def test_a_report_in_a_file_has_the_source(cli, source: Source, name: str) -> None:
    """Also where what is printed needs none."""
    cli.write("a.py", "import torch\nprint('äöü', torch.slow())\n")
    cli(
        "check",
        "--no-cache",
        "--output-format",
        f"{name}:out",
        "--output-format",
        "concise",
        code=1,
    )
    text = (cli.cwd / "out").read_text()
    assert '"column": 17' in text if name == "rdjson" else "print(" in text


def test_dash_is_standard_output(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    assert json.loads(cli("check", "--output-format", "json:-", code=1).stdout)
    assert not (cli.cwd / "-").exists()


REFUSED = [
    (("sarf",), "there is no format 'sarf'; did you mean 'sarif'?"),
    (("html2:x",), "there is no format 'html2'; did you mean 'html'?"),
    (("zzz",), "there is no format 'zzz'; the formats are ranked, full, concise,"),
    (("sarif:",), "'sarif:' names no file after the colon"),
    (
        ("json", "full"),
        "json and full would both be printed; give one a file: --output-format full:FILE",
    ),
    (
        ("json:x", "sarif:./sub/../x"),
        "--output-format sarif:./sub/../x: --output-format json:x writes the same file",
    ),
    (("json:a.py",), "--output-format json:a.py: is one of the files to check"),
    (("json:sub",), "--output-format json:sub: is a directory"),
    (("json:none/x",), "--output-format json:none/x: its directory does not exist"),
    (("sarif:x", "json:none/x"), "--output-format json:none/x: its directory does not exist"),
]


@pytest.mark.parametrize(
    ("formats", "words"), REFUSED, ids=lambda value: " ".join(value) if value else ""
)
def test_refused_and_nothing_written(
    cli, source: Source, formats: tuple[str, ...], words: str
) -> None:
    text = source("slow")
    cli.write("a.py", text)
    (cli.cwd / "sub").mkdir()
    done = cli("check", *(f"--output-format={name}" for name in formats), code=2)
    assert words in done.stderr
    assert (done.stdout, done.stderr.count("\n")) == ("", 1)
    assert sorted(path.name for path in cli.cwd.iterdir() if path.name != ".torchlint_cache") == [
        ".git",
        "a.py",
        "sub",
    ]
    assert (cli.cwd / "a.py").read_text() == text


def test_output_file_and_a_report_in_one_file(cli) -> None:
    cli.write("a.py", "")
    done = cli("check", "-o", "x", "--output-format", "json:x", code=2)
    assert "--output-format json:x: --output-file x writes the same file" in done.stderr


@pytest.mark.parametrize("command", [("fix",), ("fix", "--apply"), ("check", "--diff")])
def test_patches_are_no_reports(cli, source: Source, command: tuple[str, ...]) -> None:
    cli.write("a.py", source("slow"))
    done = cli(*command, "--output-format", "json:x", code=2)
    assert (
        f"--output-format json:x: {' '.join(command[: 2 - ('fix' in command)])} writes a patch"
        in done.stderr
    )
    assert "torch.slow" in (cli.cwd / "a.py").read_text()


def test_unwritable(cli, source: Source) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    cli.write("a.py", source("slow"))
    done = cli("check", "--output-format", "json:/dev/full", code=2)
    assert "--output-format json:/dev/full: No space left on device" in done.stderr


@pytest.mark.parametrize("words", [("--output-format", "html"), ("--output-format", "html:r.html")])
def test_html_without_jinja2_says_what_to_install(
    cli, source: Source, words: tuple[str, ...]
) -> None:
    cli.write("a.py", source("slow"))
    blocked = cli.package.parent / "blocked"
    (blocked / "jinja2").mkdir(parents=True, exist_ok=True)
    (blocked / "jinja2" / "__init__.py").write_text("raise ImportError('not here')\n")
    cli.package = f"{blocked}{os.pathsep}{cli.package}"
    done = cli("check", *words, code=2)
    assert done.stderr == (
        "torchlint: error: --output-format html needs jinja2: "
        "python -m pip install '.[html]' in a clone of torchlint\n"
    )
    assert (done.stdout, (cli.cwd / "r.html").exists()) == ("", False)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("json", "json-lines")])
def test_statistics_are_a_table_in_all_other_formats(cli, source: Source, name: str) -> None:
    cli.write("a.py", source("slow", "slow"))
    assert cli("check", "--statistics", "--output-format", name, code=1).stdout.startswith(
        "2\tTL101\t[*] slow"
    )


def test_statistics_as_json_lines(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "slow", "odd"))
    done = cli("check", "--statistics", "--output-format", "json-lines", code=1)
    assert [json.loads(line)["count"] for line in done.stdout.splitlines()] == [2, 1]


def test_statistics_are_printed_and_reports_hold_the_findings(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "slow"))
    done = cli("check", "--statistics", "--output-format", "json:a.json", code=1)
    assert done.stdout.startswith("2\tTL101")
    assert [entry["code"] for entry in json.loads((cli.cwd / "a.json").read_text())] == [
        "TL101",
        "TL101",
    ]


def test_sarif_fingerprints_survive_a_shift_of_lines(cli, source: Source) -> None:
    def found() -> list[Any]:
        log = json.loads(cli("check", "--output-format", "sarif", code=1).stdout)
        return [
            (
                result["partialFingerprints"],
                result["locations"][0]["physicalLocation"]["region"]["startLine"],
            )
            for result in log["runs"][0]["results"]
        ]

    cli.write("a.py", source("slow", "odd", "slow"))
    before = found()
    cli.write("a.py", "# one\n\n# two\n" + source("slow", "odd", "slow"))
    after = found()
    assert [identity for identity, _ in before] == [identity for identity, _ in after]
    assert [row + 3 for _, row in before] == [row for _, row in after]
    assert len({str(identity) for identity, _ in before}) == 3


def test_sarif_describes_the_engines_own_codes(cli) -> None:
    cli.write("a.py", "def f(:\n")
    log = json.loads(cli("check", "--output-format", "sarif", code=1).stdout)
    rules = {rule["id"]: rule for rule in log["runs"][0]["tool"]["driver"]["rules"]}
    assert rules["invalid-syntax"]["help"]["text"].startswith("The file is not valid Python")
    assert "unreadable" not in rules


def test_shells_complete_the_formats() -> None:
    context = check_command.make_context("check", [], resilient_parsing=True)
    option = next(each for each in check_command.params if each.name == "output_format")
    assert [item.value for item in option.shell_complete(context, "js")] == ["json", "json-lines"]


def test_a_path_may_hold_colons() -> None:
    assert AskedType()("sarif:C:\\out:1.sarif") == Asked("sarif", "C:\\out:1.sarif")
