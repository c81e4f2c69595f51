"""``torchlint check FILE:LINE --explain`` as a program: places, errors, exit codes, and files that
hurt a worker."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import torchlint

Source = Callable[..., str]
PACKAGE = Path(torchlint.__file__).parents[1]
DEMO = PACKAGE / "fixtures" / "demo" / "train.py"

CELL = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "metadata": {}, "source": "Text"},
            {**CELL, "source": "import torch\ny = 1"},
            {**CELL, "source": "torch.slow()\ntorch.crash()"},
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 4,
    }
)


LINE = "name a line as FILE:LINE, such as train.py:88"
IN_NOTEBOOK = "name a line of a cell as FILE:cell N:LINE, such as 'train.ipynb:cell 3:5'"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), f"--explain: {LINE}"),
        (("a.py",), f"--explain: a.py: {LINE}"),
        (("a.py:0",), "--explain: a.py:0: cells, lines and columns are counted from 1"),
        (("a.py:1:0",), "--explain: a.py:1:0: cells, lines and columns are counted from 1"),
        (
            ("a.py:cell 1:1",),
            f"--explain: a.py:cell 1:1: only notebooks have cells; {LINE}",
        ),
        (
            ("n.ipynb",),
            f"--explain: n.ipynb: {IN_NOTEBOOK}",
        ),
        (
            ("n.ipynb:cell 2",),
            f"--explain: n.ipynb:cell 2: {IN_NOTEBOOK}",
        ),
        (
            ("n.ipynb:2",),
            f"--explain: n.ipynb:2: {IN_NOTEBOOK}",
        ),
        (
            ("n.ipynb:cell:3:1",),
            f"--explain: n.ipynb:cell:3:1: {IN_NOTEBOOK}",
        ),
        (
            ("n.ipynb:cell 0:1",),
            "--explain: n.ipynb:cell 0:1: cells, lines and columns are counted from 1",
        ),
        (
            ("n.ipynb:cell 1:1",),
            "n.ipynb:cell 1:1: the notebook has no such cell, or it holds no Python",
        ),
        (("n.ipynb:cell 2:3:1",), "--explain: n.ipynb:cell 2:3:1: the cell has 2 lines"),
        (("a.py:3",), "--explain: a.py:3: the file has 2 lines"),
        (("a.py:x",), f"--explain: a.py:x: {LINE}"),
        (
            ("folder:3",),
            f"--explain: folder:3: folder is a directory; {LINE}",
        ),
        (("a.py:1", "--fix"), "--explain and --fix cannot be used together"),
        (("a.py:1", "--diff"), "--explain and --diff cannot be used together"),
        (("a.py:1", "--statistics"), "--explain and --statistics cannot be used together"),
        (
            ("a.py:1", "--write-baseline", "--baseline", "b"),
            "--explain and --write-baseline cannot be used together",
        ),
        (("a.py:1", "--add-ignore"), "--explain and --add-ignore cannot be used together"),
        (("a.py:1", "--add-noqa=why"), "--explain and --add-noqa cannot be used together"),
        (("a.py:1", "--since", "HEAD"), "--explain and --since cannot be used together"),
        (("a.py:1", "--shard", "1/2"), "--explain and --shard cannot be used together"),
        (("a.py:1", "--watch"), "--explain and --watch cannot be used together"),
        (
            ("a.py:1", "--report-suppressed"),
            "--explain and --report-suppressed cannot be used together",
        ),
        (("a.py:1", "-o", "out.txt"), "--explain and --output-file cannot be used together"),
        (
            ("a.py:1", "--output-format", "sarif"),
            "--explain prints text or json, not --output-format sarif",
        ),
    ],
)
def test_wrong_usage_is_one_line(
    cli, source: Source, arguments: tuple[str, ...], message: str
) -> None:
    cli.write("a.py", source("slow"))
    cli.write("n.ipynb", NOTEBOOK)
    (cli.cwd / "folder").mkdir()
    done = cli("check", *arguments, "--explain", code=2)
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_explaining_gates_nothing(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "fine"))
    assert "TL101 slow: flagged" in cli("check", "a.py:2", "--explain", code=0).stdout
    for place in ("a.py:1", "a.py:3"):
        told = cli("check", place, "--explain", code=0).stdout
        assert "No rule has anything to say here" in told, "an import, a statement"


def test_several_places_in_several_files(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "odd"))
    cli.write("b.py", source("hint"))
    done = cli(
        "check", "a.py:3", "b.py:2:1", "a.py:2", "--explain", "--output-format", "json", code=0
    )
    entries = json.loads(done.stdout)
    assert [(each["filename"], each["row"], each["column"]) for each in entries] == [
        ("a.py", 3, None),
        ("a.py", 2, None),
        ("b.py", 2, 1),
    ]
    assert [[rule["code"] for rule in each["rules"]] for each in entries] == [
        ["TL102"],
        ["TL101"],
        ["TL103"],
    ]


def test_a_file_of_that_name_wins(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli.write("a.py:2", source("odd"))
    assert "name a line" in cli("check", "a.py:2", "--explain", code=2).stderr


def test_standard_input(cli, source: Source) -> None:
    done = cli("check", "--explain", "--", "-:2", stdin=source("slow").encode(), code=0)
    assert done.stdout.startswith("-:2: torch.slow()\n\n  TL101 slow: flagged")


@pytest.mark.parametrize(
    ("text", "arguments", "message", "code"),
    [
        (b"import torch\nx = (\n", (), "a.py:2:5: invalid-syntax", 1),
        (b"import torch\n\xff\xfe\n", (), "a.py", 1),
        (
            b"import torch\ntorch.hang()\n",
            ("--timeout", "1"),
            "a.py: not analysed: did nothing for 10 s",
            2,
        ),
        (b"import torch\ntorch.die()\n", (), "a.py: not analysed: crashed", 2),
    ],
    ids=["syntax", "encoding", "hang", "crash"],
)
def test_a_file_that_cannot_be_analysed(
    cli, text: bytes, arguments: tuple[str, ...], message: str, code: int
) -> None:
    cli.write("a.py", text)
    done = cli("check", "a.py:2", "--explain", *arguments, code=code)
    assert done.stdout == ""
    assert message in done.stderr


def test_a_missing_file(cli) -> None:
    assert "gone.py: no such file" in cli("check", "gone.py:3", "--explain", code=1).stderr


def test_a_rule_that_crashes_does_not_silence_the_others(cli, source: Source) -> None:
    cli.write("a.py", source("slow", "crash"))
    done = cli("check", "a.py:2", "--explain", code=2)
    assert "TL101 slow: flagged" in done.stdout
    assert "TL104 failed on line 3" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "config", "because"),
    [
        (("--ignore", "TL101"), "", "because --ignore leaves it out"),
        (("--select", "TL102"), "", "because --select names other rules only"),
        ((), 'ignore = ["TL101"]', "because `ignore` in torchlint.toml leaves it out"),
        ((), 'select = ["TL102"]', "because `select` in torchlint.toml names other rules only"),
        (
            (),
            '[per-file-ignores]\n"a*.py" = ["slow"]',
            "because `per-file-ignores` switches it off for `a*.py`",
        ),
    ],
)
def test_why_a_rule_is_off(
    cli, source: Source, arguments: tuple[str, ...], config: str, because: str
) -> None:
    cli.write("a.py", source("slow"))
    cli.write("torchlint.toml", config)
    out = cli("check", "a.py:2", "--explain", *arguments, code=0).stdout
    assert "TL101 slow: found, but switched off" in out
    assert because in out


def test_a_selected_rule_is_told_of_where_it_has_nothing_to_say(cli, source: Source) -> None:
    cli.write("a.py", source("odd", "slow"))
    out = cli("check", "a.py:2", "--explain", "--select", "slow", code=0).stdout
    assert "TL101 slow: not about this line" in out
    assert "it is about: Title of slow" in out


def test_a_line_of_a_notebook(cli) -> None:
    cli.write("n.ipynb", NOTEBOOK)
    done = cli(
        "check", "n.ipynb:cell3:1", "n.ipynb:cell 3:1:7", "n.ipynb:cell 2:2", "--explain", code=2
    )
    assert done.stdout.startswith("n.ipynb:cell 3:1: torch.slow()\n\n  TL101 slow: flagged")
    assert "\nn.ipynb:cell 3:1:7: torch.slow()\n" in done.stdout
    assert "\nn.ipynb:cell 2:2: y = 1\n" in done.stdout
    assert "n.ipynb:cell 3:2: not analysed: TL104 failed on cell 3 line 2" in done.stderr
    name = ("--stdin-filename", "n.ipynb")
    done = cli("check", "--explain", *name, "--", "-:cell 3:1", stdin=NOTEBOOK.encode(), code=2)
    assert done.stdout.startswith("n.ipynb:cell 3:1: torch.slow()\n\n  TL101 slow: flagged")


@pytest.mark.parametrize(
    ("old", "new", "message", "code"),
    [
        ('"nbformat": 4', '"nbformat": 3', "n.ipynb: not analysed: has nbformat 3", 0),
        ('"cells": [', '"cells": [,', "n.ipynb: not a notebook: Expecting", 1),
        ("y = 1", "y = (", "n.ipynb:cell 2:2:5: invalid-syntax: '(' was never closed", 2),
    ],
    ids=["old", "json", "syntax"],
)
def test_a_notebook_that_cannot_be_analysed(
    cli, old: str, new: str, message: str, code: int
) -> None:
    cli.write("n.ipynb", NOTEBOOK.replace(old, new, 1))
    done = cli("check", "n.ipynb:cell 3:1", "--explain", code=code)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert message in lines[0]
    # The cells beside one that is no Python are still checked, so that the rule that fails there
    # says so.
    assert [line for line in lines[1:] if "TL104 failed on cell 3" not in line] == []


def test_a_hostile_line_cannot_steer_the_terminal(cli) -> None:
    cli.write("a.py", "import torch\ntorch.slow('\x1b[2J\u202e')\n")
    out = cli("check", "a.py:2", "--explain", code=0).stdout
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_the_cache_is_neither_read_nor_written(cli, source: Source) -> None:
    cli.write("a.py", source("slow"))
    cli("check", "a.py:2", "--explain", code=0)
    assert not (cli.cwd / ".torchlint_cache").exists()


def test_the_parent_does_not_import_libcst(process, source: Source) -> None:
    process.write("a.py", source("slow"))
    program = (
        "import sys; from torchlint.cli.main import run; run(sys.argv[1:]); print('libcst' "
        "in sys.modules)"
    )
    process.command = lambda *arguments: [sys.executable, "-c", program, *arguments]
    assert process("check", "a.py:2", "--explain").stdout.endswith("False\n")


GOLDEN = """train.py:15: total += loss.item()

  TL101 sync-scalar-read-in-loop: flagged
      `loss.item()` reads a GPU value on the host every step; keep it on the device and read it once
        after the loop. The step waits for the GPU in `torch.zeros(x.size(0), 16).to(device)` as
        well; while it does, the host does not run ahead.
      decided by torchlint/rules/transfer/sync_scalar_read_in_loop.py

  What the host waits for
      `loss.item()`: Python reads it on the host

  How often
      runs every training step
        every training step of the loop (line 8)

  What is known of its values
      `loss`: tensor on the GPU, float32, a single value, with a gradient graph
        `loss` = `F.cross_entropy(model(x, noise), y)` (line 11)
        `model` runs a model (line 11)
        `model` is a parameter of train() (line 5)
      `total`: Python number, on the host
      `loss.item()`: Python number, on the host

train.py:16: return total / len(loader)

  No rule reports this line. These rules check such code:
  TL102 cpu-create-then-move: looked at `len(loader)`
      its last question: `loader` is a loader: it gives batches
  TL103 blocking-batch-copy: looked at `len(loader)`
      its last question: the line runs once for each call of train(): nothing shows that train() is
        called in a step
  TL106 constant-moved-every-forward: looked at `len(loader)`
      its last question: `len(loader)` is not known to send host data to the device
  Other rules that looked at it and found no match: TL101, TL110, TL113, TL404, TL501, TL604.

  How often
      runs once for each call of train(): nothing shows that train() is called in a step

  What is known of its values
      `loader`: loader: it gives batches
      `total / len(loader)`: Python number, on the host
      `total`: Python number, on the host
      `len(loader)`: Python number, on the host
"""


def test_the_demo_is_explained_word_for_word(ours) -> None:
    ours.write("train.py", DEMO.read_bytes())
    assert ours("check", "train.py:15", "train.py:16", "--explain", code=0).stdout == GOLDEN


def test_the_root_is_that_of_check(ours) -> None:
    """Without a mark of a project the root is the folder that `check` starts in: imports from it
    are followed."""
    (ours.cwd / ".git").rmdir()
    ours.write("parts/sizes.py", "def device():\n    return 'cpu'\n")
    ours.write(
        "train/run.py",
        "import torch\nfrom parts.sizes import device\nx = torch.zeros(3).to(device())\n",
    )
    out = ours("check", "train/run.py:3", "--explain", code=0).stdout
    assert "`x`: tensor on the CPU" in out
