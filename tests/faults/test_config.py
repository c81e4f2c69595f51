"""Faults C01 to C07: configuration that is broken, hostile, or meant for another torchlint.

A configuration that cannot be used stops the run with 2 before any file is looked at, so that the
good file beside it is not reported either: invariant I2 has nothing to say here but where the table
says "ignored".
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.faults.harness import GOOD, Done, Fault

LONG = 20
"""CPU seconds; a run that reads a hostile file must be over by far before, a parser that hangs is
not."""


def refused(fault: Fault, done: Done, *words: str) -> None:
    """Check that a run stopped with 2, wrote nothing, and said so in one line with these words."""
    fault.holds("I3", done.code == 2, f"exit code {done.code}: {done.text[-2000:]}")
    fault.holds("I3", done.out == b"", done.out[:300])
    said = done.err.decode()
    fault.holds(
        "I3",
        said.startswith("torchlint: error: ") and said.count("\n") == 1 and len(said) < 3000,
        said[:3000],
    )
    for word in words:
        fault.holds("I3", word in said, f"{word!r} is not in {said}")
    fault.holds("I4", (fault.folder / "good.py").read_text("utf-8") == GOOD, "the file was changed")
    fault.holds("I5", done.cpu < LONG, f"{done.cpu:.1f} s")


BROKEN = {
    "syntax": (b"\n\nselect = [\n", "torchlint.toml:3: not valid TOML"),
    "mark": (b"\xef\xbb\xbfselect = []\n", "torchlint.toml:1: starts with a byte order mark"),
    "latin": (b"# one\n# \xe9\n", "torchlint.toml:2: not UTF-8 (byte 0xe9)"),
    "null": (b'\nselect = ["TL1\x00"]\n', "torchlint.toml:2: not valid TOML"),
    "deep": (b"select = " + b"[" * 400 + b"]" * 400 + b"\n", "torchlint.toml:1: "),
    "deeper": (
        b"select = " + b"[" * 9_000 + b"]" * 9_000 + b"\n",
        "torchlint.toml:1: not usable TOML",
    ),
    "long-key": (b".".join([b"a"] * 20_000) + b" = 1\n", "torchlint.toml:1: "),
    "large": (
        b"# " + b"x" * 5_000_000 + b"\nselect = []\n",
        "torchlint.toml:1: is larger than 1000000 bytes",
    ),
}


@pytest.mark.fault("C01")
@pytest.mark.parametrize("name", BROKEN)
def test_c01_unusable_toml(fault: Fault, name: str) -> None:
    data, words = BROKEN[name]
    fault.write("torchlint.toml", data)
    refused(fault, fault.run("fix", "--apply"), words)


@pytest.mark.fault("C01")
@pytest.mark.parametrize("name", ["syntax", "latin", "deep", "deeper", "large"])
def test_c01_unusable_pyproject(fault: Fault, name: str) -> None:
    data, words = BROKEN[name]
    fault.write("pyproject.toml", data.replace(b"select", b"tool.torchlint.select"))
    if name == "latin":  # a pyproject.toml that does not speak of torchlint is not ours to judge
        fault.others(fault.run("check"))
        fault.write("pyproject.toml", data + b"[tool.torchlint]\n")
    refused(fault, fault.run("check"), words.replace("torchlint.toml", "pyproject.toml"))


@pytest.mark.fault("C02")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\nselekt = []", "torchlint.toml:2: unknown key 'selekt'; did you mean 'select'?"),
        ("timeout = 'x'", "torchlint.toml:1: timeout must be a number of seconds"),
        ("select = 'TL102'", "torchlint.toml:1: select must be a list"),
        ("fail-on = 'warnings'", "torchlint.toml:1: fail-on "),
        ("select = ['TL1O2']", "torchlint.toml:1: select: unknown rule 'TL1O2'; did you mean 'TL"),
        ("ignore = ['cpu-create-then-moev']", "did you mean 'cpu-create-then-move'?"),
        ("[severity]\nTL999 = 'error'", "severity: unknown rule 'TL999'"),
        ("[per-file-ignores]\n'*.py' = ['TL99']", "per-file-ignores: unknown rule 'TL99'"),
        ("select = []", "torchlint.toml:1: select is empty, so nothing would be checked"),
        ("exclude = ['[']", "torchlint.toml:1: exclude: the glob '[' can match nothing"),
    ],
    ids="key type list choice code name severity per-file empty glob".split(),
)
def test_c02_wrong_key_or_value(fault: Fault, text: str, words: str) -> None:
    fault.write("torchlint.toml", text + "\n")
    refused(fault, fault.run("fix", "--apply"), words)


@pytest.mark.fault("C02")
def test_c02_wrong_on_the_command_line(fault: Fault) -> None:
    refused(
        fault,
        fault.run("check", "--select", "TL1O2"),
        "--select: unknown rule 'TL1O2'; did you mean 'TL",
    )
    refused(
        fault,
        fault.run("check", "--config", "selekt = []"),
        "unknown key 'selekt'; did you mean 'select'?",
    )


@pytest.mark.fault("C03")
@pytest.mark.parametrize(
    "kind", ["loop", "itself", "missing", "directory", "fifo", "device", "eleven"]
)
def test_c03_extend(fault: Fault, kind: str) -> None:
    target, words = {
        "loop": ("b.toml", "leads back"),
        "itself": ("torchlint.toml", "leads back"),
        "missing": ("none.toml", "No such file"),
        "directory": ("folder", "is a directory"),
        "fifo": ("pipe.toml", "is a FIFO"),
        "device": ("/dev/zero", "is a device"),
        "eleven": ("1.toml", "more than 10 files in a chain"),
    }[kind]
    fault.write("torchlint.toml", f"extend = '{target}'\n")
    fault.write("b.toml", "extend = 'torchlint.toml'\n")
    (fault.folder / "folder").mkdir()
    os.mkfifo(fault.folder / "pipe.toml")
    for number in range(1, 11):
        fault.write(f"{number}.toml", f"extend = '{number + 1}.toml'\n" * (number < 10))
    done = fault.run("check")
    refused(fault, done, words, ".toml:1: extend")
    if kind == "eleven":  # ten are allowed
        fault.write("9.toml", "")
        fault.others(fault.run("check"))


@pytest.mark.fault("C04")
def test_c04_broken_configuration_in_an_excluded_folder(fault: Fault) -> None:
    fault.write(".git/HEAD", "ref: refs/heads/main\n")
    fault.write(".gitignore", "ignored/\n")
    fault.write("torchlint.toml", "extend-exclude = ['mine']\n")
    for folder in ("build", "ignored", "mine", "mine/deeper"):
        fault.write(f"{folder}/torchlint.toml", "this is no TOML")
        fault.write(f"{folder}/bad.py", GOOD)
    done = fault.run("check", "--output-format", "json")
    fault.others(done)
    fault.holds("I3", done.code == 1 and len(done.findings()) == 1, done.text)
    fault.write("taken/torchlint.toml", "this is no TOML")
    fault.write("taken/bad.py", GOOD)
    refused(fault, fault.run("check"), "taken/torchlint.toml:1: not valid TOML")


GLOBS = [
    "*a" * 8 + "b",
    "*" + "?*" * 10,
    "**/" * 12 + "x",
    "/".join(["*a*a*"] * 8),
    "[!a-z]" * 20,
    "*[[:alpha:]]*" * 20,
]
NAMES = ["a" * 60 + ".py", "/".join(["a" * 25] * 8) + ".py"]


@pytest.mark.fault("C05")
@pytest.mark.parametrize("where", ["ignore", "config"])
def test_c05_hostile_globs(fault: Fault, where: str) -> None:
    for name in NAMES:
        fault.write(name, "import torch\n")
    bad = [
        "[a-\\]]",
        "[z-a]",
        "x\\",
    ]  # the first of them is a good one: ']' is escaped, and before 'a'
    if where == "ignore":
        fault.write(".git/HEAD", "")
        fault.write(".gitignore", "\n".join([*GLOBS, *bad[1:]]) + "\n")
        done = fault.run("check")
        for pattern in bad[1:]:
            fault.holds("I3", f"'{pattern}' is not used" in done.text, done.text)
        fault.others(done)
    else:
        fault.write("torchlint.toml", f"extend-exclude = {GLOBS!r}\n")
        done = fault.run("check")
        fault.others(done)
    fault.holds("I5", done.cpu < LONG, f"{done.cpu:.1f} s")


@pytest.mark.fault("C05")
def test_c05_reversed_range_and_large_gitignore(fault: Fault) -> None:
    fault.write(".git/HEAD", "")
    fault.write(".gitignore", "[a-\\]]\n")
    done = fault.run("check")
    fault.holds("I3", "'[a-\\]]' is not used" in done.text, done.text)
    fault.others(done)
    fault.write(".gitignore", "*a*b*c*d*e*f*g\n" * 70_000)
    done = fault.run("check")
    fault.holds(
        "I3", ".gitignore" in done.text and "is larger than 1000000 bytes" in done.text, done.text
    )
    fault.others(done)
    fault.write(".gitignore", "*a*b*c*d*e*f*g\n" * 66_000)  # just below: read, and slow at worst
    fault.others(fault.run("check"))


@pytest.mark.fault("C06")
@pytest.mark.parametrize("name", ["pyproject.toml", "torchlint.toml", ".torchlint.toml"])
def test_c06_configuration_that_is_no_file(fault: Fault, name: str) -> None:
    path = fault.folder / name
    os.mkfifo(path)
    refused(fault, fault.run("check"), f"{name}: is a FIFO, not a regular file")
    path.unlink()
    path.mkdir()
    done = fault.run("check")
    fault.others(done)
    fault.holds("I3", done.code == 1, done.text)


@pytest.mark.fault("C07")
@pytest.mark.parametrize("wanted", [">=99", "==0.0.1", "<0.0.1,>=0"])
def test_c07_required_version(fault: Fault, wanted: str) -> None:
    fault.write("torchlint.toml", f"no-such-key = 1\nrequired-version = '{wanted}'\n")
    done = fault.run("fix", "--apply", "-o", "out.diff")
    refused(
        fault, done, f"torchlint.toml:2: required-version is '{wanted}', but this is torchlint "
    )
    fault.holds("I4", not Path(fault.folder, "out.diff").exists(), "the report was written")
