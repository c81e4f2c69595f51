"""``--shard`` and ``torchlint merge``: the parts make the whole, once each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from torchlint.report.kit.ascii_json import dump
from torchlint.report.merging import MergeError, merged

Cli = Any
Source = Callable[..., str]
PARTS = 3


@pytest.fixture
def tree(cli: Cli, source: Source) -> Cli:
    """Return a project with findings of several kinds in many files."""
    for number in range(12):
        cli.write(
            f"{'sub/' * (number % 3)}m{number}.py", source("slow", "odd", *["hint"] * (number % 2))
        )
    cli.write("sub/n \u00e9.py", source("slow"))
    cli.write("broken.py", "x = (\n")
    cli.write("large.py", source("odd") + "#" * 2000)
    cli.write("torchlint.toml", "max-file-size = 1000\n")
    (cli.cwd / "sub" / "gone.py").symlink_to("nothing.py")
    return cli


@pytest.mark.parametrize("format_", ["json", "sarif"])
def test_the_parts_merged_are_the_whole(tree: Cli, format_: str) -> None:
    whole = tree("check", "--output-format", format_, code=1)
    for number in range(1, PARTS + 1):
        arguments = ("--output-format", format_, "--output-file", f"{number}.out")
        tree("check", "--shard", f"{number}/{PARTS}", *arguments)
    names = [f"{number}.out" for number in range(PARTS, 0, -1)]
    assert tree("merge", *names, code=0).stdout == whole.stdout
    assert tree("merge", *names, "-o", "all.out", code=0).stdout == ""
    assert (tree.cwd / "all.out").read_text() == whole.stdout


@pytest.mark.parametrize("format_", ["json", "sarif"])
def test_a_shard_that_is_missing_or_there_twice_or_of_another_run_is_named(
    tree: Cli, format_: str
) -> None:
    def part(name: str, number: int, total: int, *arguments: str) -> None:
        tree(
            "check",
            "--shard",
            f"{number}/{total}",
            "--output-format",
            format_,
            "-o",
            name,
            *arguments,
        )

    for number in range(1, PARTS + 1):
        part(f"{number}.out", number, PARTS)
    part("other.out", 2, PARTS, "--ignore", "TL101")
    part("four.out", 2, 4)
    tree("check", "--output-format", format_, "-o", "whole.out", code=1)
    old = (tree.cwd / "2.out").read_text().replace('"version": "0.1.0"', '"version": "0.0.9"')
    tree.write("old.out", old)
    for names, words in (
        (["1.out", "3.out"], "error: no report of shard 2/3\n"),
        (["1.out"], "error: no report of shards 2/3, 3/3\n"),
        (["1.out", "2.out", "1.out"], "1.out: is shard 1/3, which is there already\n"),
        (["1.out", "four.out", "3.out"], "four.out: is shard 2/4, and others are of 3\n"),
        (
            ["1.out", "other.out", "3.out"],
            "other.out: was made with other settings or options than the first\n",
        ),
        (["1.out", "old.out", "3.out"], "old.out: is of torchlint 0.0.9, and others of 0.1.0\n"),
        (
            ["1.out", "2.out", "3.out", "whole.out"],
            "whole.out: is the report of no shard, and others are",
        ),
    ):
        done = tree("merge", *names, code=2)
        assert words in done.stderr
        assert done.stderr.count("\n") == 1
        assert done.stdout == ""


def test_an_empty_report_of_a_shard_stands_for_one_that_is_missing(
    cli: Cli, source: Source
) -> None:
    """A list without entries cannot say which shard it is of."""
    cli.write("a.py", source("slow"))
    for number in (1, 2, 3):
        cli("check", "--shard", f"{number}/3", "--output-format", "json", "-o", f"{number}.json")
    whole = cli("check", "--output-format", "json", code=1).stdout
    assert cli("merge", "1.json", "2.json", "3.json", code=0).stdout == whole
    [full] = [
        name for name in ("1.json", "2.json", "3.json") if (cli.cwd / name).read_text() != "[]\n"
    ]
    [empty, _] = sorted({"1.json", "2.json", "3.json"} - {full})
    done = cli("merge", full, empty, code=2)
    assert "/3; 1 empty report may be of 1 of them" in done.stderr
    assert "one is there twice" in cli("merge", full, empty, empty, empty, code=2).stderr


def test_every_file_falls_to_one_part_wherever_the_tree_lies(tree: Cli) -> None:
    def files(number: int, *paths: str) -> list[str]:
        done = tree("check", "--shard", f"{number}/{PARTS}", "--show-files", *paths)
        return [line.removeprefix("project/") for line in done.stdout.splitlines()]

    whole = tree("check", "--show-files").stdout.splitlines()
    parts = [files(number) for number in range(1, PARTS + 1)]
    assert sorted(name for part in parts for name in part) == whole
    assert all(parts)
    tree.cwd = tree.cwd.parent
    assert [files(number, "project") for number in range(1, PARTS + 1)] == parts


def test_a_part_without_files_says_so(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("fine"))
    said = [cli("check", "--shard", f"{number}/2", code=0).stderr for number in (1, 2)]
    assert sorted(said) == ["", "torchlint: no file falls to this shard\n"]


def test_a_part_knows_the_baseline(tree: Cli, source: Source) -> None:
    (tree.cwd / "broken.py").unlink()
    tree("check", "--baseline", "base.json", "--write-baseline", code=0)
    tree.write("sub/n \u00e9.py", source("fine"))
    (tree.cwd / "m0.py").unlink()
    said = ""
    for number in range(1, PARTS + 1):
        said += tree(
            "check", "--baseline", "base.json", "--shard", f"{number}/{PARTS}", code=0
        ).stdout
    assert said.count("fixed or gone") == 1
    assert "n \u00e9.py: 1 of TL101" in said


@pytest.mark.parametrize(
    "text", ["", "0/2", "3/2", "1", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "\u0661/2", "1/9999999"]
)
def test_malformed(cli: Cli, text: str) -> None:
    done = cli("check", f"--shard={text}", code=2)
    assert "write I/N with I from 1 to N" in done.stderr
    assert done.stderr.count("\n") == 1


SARIF: dict[str, Any] = {
    "runs": [
        {
            "tool": {"driver": {"name": "torchlint", "rules": []}},
            "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": []}],
            "results": [],
        }
    ]
}
OTHER_TOOL = json.loads(json.dumps(SARIF).replace("torchlint", "ruff"))
UNKNOWN_RULE = json.loads(
    json.dumps(SARIF).replace('"results": []', '"results": [{"ruleId": "X", "locations": [{}]}]')
)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["{", "[]"], "0.json: not JSON"),
        (["[" * 100_000, "[]"], "0.json: not JSON"),
        (["[]", "{}"], "a report of the json format cannot be joined with one that is not"),
        (["{}", "{}"], "0.json: is neither a report of the json format nor a SARIF log"),
        (["3"], "0.json: is neither"),
        (["[1]"], "0.json: holds what is no finding"),
        (["[]", '[{"code": "x"}]'], "1.json: holds what is no finding"),
        ([json.dumps(SARIF), json.dumps(OTHER_TOOL)], "1.json: is not a report of torchlint's"),
        ([json.dumps(SARIF), json.dumps(UNKNOWN_RULE)], "1.json: is neither"),
        ([json.dumps({"runs": []})], "0.json: holds not one run"),
        (
            ['{"runs": 3}'],
            (
                "0.json: is neither a report of the json format nor a SARIF log of torchlint's: "
                "runs "
                "is not a list"
            ),
        ),
        (['[{"location": {"row": NaN}}]'], "0.json: not JSON: NaN is no number"),
        (['[{"location": {"row": 1e999}}]'], "0.json: not JSON: 1e999 is no number"),
        (["\ufeff[\0]"], "0.json: not JSON"),
        (["[{}"], "0.json: not JSON"),
        (["[" * 900 + "]" * 900], "0.json: holds what is no finding"),
        (
            ["[]", "[" + json.dumps({"location": {"row": 1, "column": True}}) + "]"],
            "in entry 0, location.column is not a whole",
        ),
    ],
)
def test_reports_that_cannot_be_joined(cli: Cli, values: list[str], words: str) -> None:
    names = [f"{number}.json" for number in range(len(values))]
    for name, value in zip(names, values, strict=True):
        cli.write(name, value)
    done = cli("merge", *names, "-o", "out.json", code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (cli.cwd / "out.json").exists()


ENTRY: dict[str, Any] = {
    "cell": None,
    "code": "TL101",
    "filename": "/a.py",
    "location": {"row": 1, "column": 1},
    "shard": {"number": 1, "total": 1, "version": "1", "settings": "x"},
}
RESULT: dict[str, Any] = {
    "ruleId": "TL101",
    "locations": [
        {
            "physicalLocation": {
                "artifactLocation": {"uri": "a.py"},
                "region": {"startLine": 1, "startColumn": 1},
            },
            "logicalLocations": [{"name": "cell 1"}],
        }
    ],
    "suppressions": [],
}
RUN: dict[str, Any] = {
    "tool": {"driver": {"name": "torchlint", "rules": [{"id": "TL101"}]}},
    "invocations": [
        {
            "executionSuccessful": True,
            "toolExecutionNotifications": [{"locations": RESULT["locations"]}],
        }
    ],
    "results": [RESULT],
    "properties": {"shard": ENTRY["shard"]},
}
ODD: tuple[Any, ...] = (
    None,
    True,
    7,
    -1.5,
    10**400,
    "x",
    "\ud800",
    [],
    [[]],
    [None],
    {},
    {"x": []},
)


def spoiled(value: Any) -> Iterator[Any]:
    """Yield a value with one of its parts exchanged for something odd, or left out."""
    yield from ODD
    for key, part in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        for other in spoiled(part):
            copy = value.copy()
            copy[key] = other
            yield copy
        copy = value.copy()
        del copy[key]
        yield copy


@pytest.mark.parametrize(
    "report", [[ENTRY, {**ENTRY, "cell": 2}], {"version": "2.1.0", "runs": [RUN]}]
)
def test_no_malformed_report_is_more_than_one_line(report: Any) -> None:
    """Each part in turn, at every depth, is something else."""
    assert merged([report])
    refused = []
    for other in spoiled(report):
        for both in ([other], [report, other], [other, report]):
            try:
                dump(merged(both))
            except MergeError as error:
                refused.append(str(error))
    assert len(refused) > 300
    assert not [words for words in refused if "\n" in words]


def test_a_merged_report_does_not_take_the_place_of_one_of_its_parts(cli: Cli) -> None:
    for name in ("1.json", "2.json"):
        cli.write(name, "[]\n")
    (cli.cwd / "link.json").symlink_to("2.json")
    for name in ("1.json", "./2.json", "link.json"):
        done = cli("merge", "1.json", "2.json", "-o", name, code=2)
        assert (
            done.stderr
            == f"torchlint: error: --output-file {name}: is one of the reports to join\n"
        )
    assert (cli.cwd / "1.json").read_text() == (cli.cwd / "2.json").read_text() == "[]\n"


def test_empty_reports_alone_cannot_say_that_one_is_missing(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("fine"))
    for number in (1, 2):
        cli(
            "check",
            "--shard",
            f"{number}/2",
            "--output-format",
            "json",
            "-o",
            f"{number}.json",
            code=0,
        )
    done = cli("merge", "1.json", code=0)
    assert (
        "all reports are empty, so none says of how many shards it is; --of N makes sure"
        in done.stderr
    )
    assert done.stderr.count("\n") == 1
    assert (
        "error: 1 empty report, and 2 are asked for"
        in cli("merge", "--of", "2", "1.json", code=2).stderr
    )
    done = cli("merge", "--of", "2", "1.json", "2.json", code=0)
    assert (done.stdout, done.stderr) == ("[]\n", "")
    cli.write("a.py", source("slow"))
    for number in (1, 2):
        cli("check", "--shard", f"{number}/2", "--output-format", "json", "-o", f"{number}.json")
    cli("merge", "--of", "2", "1.json", "2.json", code=0)
    assert (
        "and those of 3 are asked for"
        in cli("merge", "--of", "3", "1.json", "2.json", code=2).stderr
    )
    cli("check", "--output-format", "json", "-o", "all.json", code=1)
    assert (
        "all.json: is the report of no shard"
        in cli("merge", "--of", "1", "all.json", code=2).stderr
    )


def test_a_missing_report_and_none(cli: Cli) -> None:
    assert "none.json: no such file" in cli("merge", "none.json", code=2).stderr
    assert "Missing argument" in cli("merge", code=2).stderr
