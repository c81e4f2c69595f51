"""What decides on the shape of the default report: the number of findings, options, and the width
of the terminal."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

Cli = Any
Source = Callable[..., str]


@pytest.fixture
def crowded(cli: Cli, source: Source) -> Cli:
    cli.write("a.py", source(*["slow"] * 6, "hint"))
    return cli


def test_many_findings_are_listed_and_followed_by_what_to_do(crowded: Cli) -> None:
    done = crowded("check", code=1)
    assert "    2:1  [*] torch.slow()\n" in done.stdout
    assert "1 info not listed (1 TL103); --show-infos lists them.\n" in done.stdout
    assert "Found 7 findings (0 errors, 6 warnings, 1 info) in 1 file.\n" in done.stdout
    assert "  torchlint check --show-source  " in done.stdout
    assert "    8:1  torch.hint()\n" in crowded("check", "--show-infos", code=1).stdout
    assert "Next:" not in crowded("check", "-q", code=1).stdout


def test_what_to_do_next_is_about_the_paths_that_were_named(crowded: Cli) -> None:
    crowded.write("b c.py", "import torch\ntorch.slow()\n")
    shown = crowded("check", "a.py", code=1).stdout
    assert "  torchlint fix a.py  " in shown
    assert "  torchlint check --statistics a.py  " in shown
    assert "fixable with `torchlint fix --apply a.py`" in shown
    shown = crowded("check", "--select", "TL101", "--ignore", "odd", ".", code=1).stdout
    assert "fixable with `torchlint fix --apply --ignore odd --select TL101`" in shown
    assert "torchlint fix a.py 'b c.py'" in crowded("check", "a.py", "b c.py", code=1).stdout
    shown = crowded("check", "a.py", *["a.py"] * 20, code=1).stdout
    assert f"  torchlint fix {'a.py ' * 12}…\n" in shown


def test_what_fails_a_run_is_listed(crowded: Cli) -> None:
    assert "    8:1  torch.hint()\n" in crowded("check", "--fail-on", "info", code=1).stdout


def test_show_source_is_the_full_format(crowded: Cli) -> None:
    shown = crowded("check", "--show-source", code=1)
    assert shown.stdout == crowded("check", "--output-format", "full", code=1).stdout
    assert "Next:" in crowded("check", "--no-show-source", "--select", "TL103", code=0).stdout
    assert "Next:" not in crowded("check", "--select", "TL103", code=0).stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("--show-source", "--output-format", "concise"),
        ("--no-show-source", "--statistics"),
        ("--show-infos", "--statistics"),
    ],
)
def test_options_of_the_default_format_go_with_no_other(
    crowded: Cli, arguments: tuple[str, ...]
) -> None:
    assert "cannot be used together" in crowded("check", *arguments, code=2).stderr


def test_other_formats_list_infos_with_and_without_the_option(crowded: Cli) -> None:
    bare = crowded("check", "--output-format", "concise", code=1).stdout
    assert "TL103" in bare
    shown = crowded("check", "--show-infos", "--output-format", "concise", code=1)
    assert (shown.stdout, shown.stderr) == (bare, "")


def test_a_cached_run_knows_the_width(crowded: Cli) -> None:
    """The words of the last run are those for its terminal, not for another one."""
    os.utime(crowded.cwd / "a.py", (1e9, 1e9))
    seen = {}
    for columns in ("40", "100", "40"):
        crowded.environment["COLUMNS"] = columns
        for _ in range(3):
            seen.setdefault(columns, set()).add(crowded("check", code=1).stdout)
    assert len(seen["40"]) == len(seen["100"]) == 1
    assert seen["40"] != seen["100"]


@pytest.mark.skipif(os.name == "nt", reason="needs pseudo-terminals")
@pytest.mark.parametrize("term", ["xterm", "dumb"])
def test_a_terminal_of_a_hundred_columns_reads_what_a_pipe_gets(crowded: Cli, term: str) -> None:
    """Apart from colour, which a dumb terminal does not get."""
    import fcntl
    import re
    import struct
    import termios

    crowded.environment["TERM"] = term
    piped = crowded("check", "--no-cache", code=1).stdout
    main, other = os.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    subprocess.run(
        crowded.command("check", "--no-cache"),
        cwd=crowded.cwd,
        env=crowded.variables(),
        stdout=other,
        timeout=120,
    )
    os.close(other)
    seen = b""
    while True:
        try:
            data = os.read(main, 4096)
        except OSError:  # all was read
            break
        if not data:
            break
        seen += data
    os.close(main)
    text = seen.decode().replace("\r\n", "\n")
    assert ("\x1b[" in text) is (term == "xterm")
    assert re.sub(r"\x1b\[[0-9;]*m", "", text) == piped
