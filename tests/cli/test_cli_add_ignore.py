"""``--add-ignore`` and ``--add-noqa``: afterwards a run is silent, and nothing else in the files
has changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]
IGNORE = "# torchlint: ignore"


@pytest.mark.parametrize(
    ("option", "comment"),
    [
        ("--add-ignore", "# torchlint: ignore[TL101]"),
        ("--add-ignore=see #12", "# torchlint: ignore[TL101] see #12"),
        ("--add-noqa", "# noqa: TL101"),
        ("--add-noqa=old", "# noqa: TL101 old"),
    ],
)
def test_a_run_is_silent_afterwards(cli: Cli, source: Source, option: str, comment: str) -> None:
    path = cli.write("a.py", source("slow"))
    done = cli("check", option, ".", code=0)
    assert done.stderr == "Silenced 1 finding in 1 file.\n"
    assert done.stdout == "All checks passed.\n"
    assert path.read_text() == f"import torch\ntorch.slow()  {comment}\n"
    assert cli("check", code=0).stdout == "All checks passed.\n"
    before = path.stat().st_mtime_ns
    assert cli("check", option, code=0).stderr == "Silenced 0 findings in 0 files.\n"
    assert path.stat().st_mtime_ns == before


def test_the_option_does_not_take_a_path_for_its_reason(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli.write("b.py", source("slow"))
    cli("check", "--add-ignore", "a.py", code=0)
    assert "ignore[TL101]\n" in (cli.cwd / "a.py").read_text()
    assert (cli.cwd / "b.py").read_text() == source("slow")


ODD = [
    b"\xef\xbb\xbfimport torch\r\ntorch.slow()\r\n",
    b"# coding: latin-1\nimport torch\ntorch.slow('\xe9')\n",
    b"import torch\rif 1:\r\ttorch.slow()\r",
    b"import torch\ntorch.slow('''\n# x\n''')",
    b"import torch\ntorch.slow(), \\\n  1\n",
    b"import torch\nx = f'{torch.slow()}'; torch.odd()\n",
    b"import torch\n@torch.slow()\ndef f(a=lambda: torch.odd()): torch.slow(); torch.odd()\n",
    b"import torch\nwith torch.slow() as a, \\\n     torch.odd() as b:\n    pass\n",
    b"import torch\nif torch.slow(): pass\nelif torch.odd(): pass\nelse: torch.slow()\n",
    b"import torch\nx = (torch\n  .slow()  # one\n  .y)  # two\n",
    b"import torch\nclass A(torch.slow()): x: torch.odd() = 1\n",
    b"import torch\nmatch torch.slow():\n    case 1 if torch.odd(): pass\n",
    b"import torch\ntorch.slow()  # type: ignore  # noqa: E501\n",
    b"import torch\n\x0c\ntorch.slow()\n",
]
"""Places and bytes of which nothing may be lost."""


@pytest.mark.parametrize("option", ["--add-ignore", "--add-noqa"])
def test_odd_places_and_bytes(cli: Cli, option: str) -> None:
    paths = [cli.write(f"odd_{number}.py", data) for number, data in enumerate(ODD)]
    for path in paths:
        path.chmod(0o640)
    cli("check", option, code=0)
    assert cli("check", code=0).stdout == "All checks passed.\n"
    for path, data in zip(paths, ODD, strict=True):
        after = path.read_bytes()
        assert after != data, f"nothing is silenced in {data!r}"
        assert path.stat().st_mode & 0o777 == 0o640
        for line in data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
            assert line in after
        assert after.count(b"\r\n") == data.count(b"\r\n")
        assert after.count(b"\r") == data.count(b"\r")
        assert after.endswith(b"\n") == data.endswith(b"\n")


def test_only_what_would_be_reported(cli: Cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd"))
    cli("check", "--baseline", "base.json", "--write-baseline", "--select", "TL101", code=0)
    cli("check", "--baseline", "base.json", "--add-ignore", code=0)
    assert (
        cli.cwd / "a.py"
    ).read_text() == "import torch\ntorch.slow()\ntorch.odd()  # torchlint: ignore[TL102]\n"


def test_what_cannot_be_silenced_is_reported(cli: Cli, source: Source) -> None:
    cli.write("broken.py", "x = (\n")
    cli.write("unused.py", source("fine").replace("\n", f"  {IGNORE}[TL101]\n"))
    cli.write("good.py", source("slow"))
    done = cli("check", "--add-ignore", "--output-format", "concise", code=1)
    assert "broken.py:1:5: invalid-syntax" in done.stdout
    assert "unused.py:1:35: TL001" in done.stdout
    assert "good.py" not in done.stdout
    assert IGNORE in (cli.cwd / "good.py").read_text()


def test_a_file_that_may_not_be_written(cli: Cli, source: Source) -> None:
    path = cli.write("a.py", source("slow"))
    path.chmod(0o444)
    done = cli("check", "--add-ignore", code=1)
    assert "Silenced 0 findings in 0 files." in done.stderr
    assert "is read-only" in done.stdout
    assert path.read_text() == source("slow")
    assert [name for name in os.listdir(cli.cwd) if name.startswith(".torchlint-")] == []


def test_an_encoding_that_cannot_be_written(cli: Cli) -> None:
    data = b"# coding: utf-7\nimport torch\ntorch.slow()\n"
    path = cli.write("a.py", data)
    done = cli("check", "--add-ignore", code=1)
    assert "no suppressions are written: the encoding utf-7 " in done.stdout
    assert path.read_bytes() == data


def test_a_reason_that_the_codec_cannot_hold(cli: Cli) -> None:
    data = b"# coding: ascii\nimport torch\ntorch.slow()\n"
    path = cli.write("a.py", data)
    done = cli("check", "--add-ignore=caf\u00e9", code=1)
    assert "ascii cannot hold '\\xe9' on line 3" in done.stdout
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--add-ignore=a\nb"], "must be one line"),
        (["--add-ignore=a # noqa"], "must not hold a '#'"),
        (["--add-ignore", "--add-noqa"], "--add-ignore and --add-noqa cannot be used together"),
        (["--add-ignore", "--fix"], "--add-ignore and --fix cannot be used together"),
        (["--add-noqa", "--diff"], "--add-noqa and --diff cannot be used together"),
        (["--add-ignore", "--watch"], "--add-ignore and --watch cannot be used together"),
        (["--add-ignore", "-"], "--add-ignore cannot be used with - (standard input)"),
    ],
)
def test_what_cannot_be_meant(cli: Cli, source: Source, arguments: list[str], words: str) -> None:
    path = cli.write("a.py", source("slow"))
    done = cli("check", *arguments, code=2)
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert path.read_text() == source("slow")


def test_what_could_not_be_silenced_is_found(cli, source: Source) -> None:
    cli.write("a.py", source("slow")).chmod(0o444)
    cli.write("b.py", source("slow"))
    done = cli("check", "--add-ignore", "--output-format", "concise", code=1)
    assert "Found 1 finding (0 errors, 1 warning, 0 infos) in 1 file." in done.stdout
    assert "a.py: is read-only" in done.stdout
    assert done.stderr == "Silenced 1 finding in 1 file.\n"
