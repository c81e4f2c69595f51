"""Notebooks on the command line: real files, standard input, patches that git takes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from tests.cli.conftest import Cli

ROOT = Path(__file__).parents[2]


def notebook(*sources: str, **metadata: object) -> str:
    cells = [new_markdown_cell("# Text"), *(new_code_cell(source) for source in sources)]
    return nbformat.writes(new_notebook(cells=cells, metadata=metadata)) + "\n"


SLOW = notebook("%matplotlib inline\nimport torch", "y = 1\ntorch.slow()\ny")
FIXED = SLOW.replace("torch.slow()", "torch.fine()")


def test_fixes_in_an_indented_cell_below_a_magic_keep_its_indentation(cli: Cli) -> None:
    """IPython takes the indentation off what ``%%time`` runs."""
    body = "%%time\n\n    import torch\n    for x in y:\n        torch.slow()\n"
    cells = [
        {
            "cell_type": "code",
            "source": body,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
    ]
    cli.write(
        "n.ipynb", json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    )
    assert "n.ipynb:cell 1:5:9: TL101" in cli("check", "--output-format", "concise", code=1).stdout
    cli("fix", "--apply", code=0)
    [cell] = json.loads((cli.cwd / "n.ipynb").read_text())["cells"]
    assert "".join(cell["source"]) == body.replace("torch.slow()", "torch.fine()")


def test_places_are_told_by_cell(cli: Cli) -> None:
    cli.write("n.ipynb", SLOW)
    done = cli("check", ".", "--output-format", "concise", code=1)
    assert done.stdout.startswith("n.ipynb:cell 3:2:1: TL101 [*] Found slow.\n")
    (entry,) = json.loads(cli("check", "n.ipynb", "--output-format", "json", code=1).stdout)
    assert (entry["cell"], entry["location"], entry["noqa_row"]) == (3, {"row": 2, "column": 1}, 2)
    assert [edit["cell"] for edit in entry["fix"]["edits"]] == [3]
    full = cli("check", "n.ipynb", code=1).stdout
    assert "--> n.ipynb:cell 3:2:1\n" in full
    assert "\n2 | torch.slow()\n" in full


def test_sarif_gives_the_line_of_the_file(cli: Cli) -> None:
    cli.write("n.ipynb", SLOW)
    log = json.loads(cli("check", ".", "--output-format", "sarif", code=1).stdout)
    (result,) = log["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert "torch.slow()" in SLOW.split("\n")[region["startLine"] - 1]
    assert result["message"]["text"].startswith("cell 3:2:1: ")


def test_fix_changes_the_source_and_nothing_else(cli: Cli) -> None:
    path = cli.write("n.ipynb", SLOW)
    assert "Fixed 1 finding in 1 file" in cli("fix", "--apply", ".", code=0).stderr
    assert path.read_text() == FIXED
    before = path.stat().st_mtime_ns
    cli("fix", "--apply", ".", code=0)
    assert path.stat().st_mtime_ns == before
    nbformat.validate(nbformat.reads(path.read_text(), as_version=4))


def test_lines_of_the_file_are_right_after_a_fix(cli: Cli) -> None:
    cli.write("n.ipynb", notebook("import torch\ntorch.slow()", "torch.odd()"))
    done = cli("check", "--fix", ".", "--output-format", "sarif", code=1)
    (result,) = json.loads(done.stdout)["runs"][0]["results"]
    region = result["locations"][0]["physicalLocation"]["region"]
    assert "torch.odd()" in (cli.cwd / "n.ipynb").read_text().split("\n")[region["startLine"] - 1]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_preview_in_a_pipe_is_for_git(cli: Cli, newline: str) -> None:
    path = cli.write("a dir/n.ipynb", SLOW.replace("\n", newline))
    patch = cli("fix", ".", code=1).stdout
    assert "cell" not in patch.split("\n")[0]
    (cli.cwd / "p").write_bytes(patch.encode("utf-8", "surrogateescape"))
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(cli.cwd.parent)}
    (cli.cwd / ".git").rmdir()
    subprocess.run(["git", "apply", "p"], cwd=cli.cwd, check=True, env=environment)
    assert path.read_bytes() == FIXED.replace("\n", newline).encode()


def test_a_preview_for_eyes_is_told_by_cell(cli: Cli) -> None:
    cli.write("n.ipynb", SLOW)
    shown = cli("fix", ".", "--color", "always", code=1).stdout
    assert "--- a/n.ipynb:cell 3" in shown
    assert "-torch.slow()" in shown
    assert "cell 2" not in shown


def test_a_notebook_on_standard_input(cli: Cli) -> None:
    name = ("--stdin-filename", "n.ipynb")
    done = cli("check", "-", *name, "--output-format", "concise", stdin=SLOW.encode(), code=1)
    assert done.stdout.startswith("n.ipynb:cell 3:2:1: TL101")
    assert cli("fix", "-", "--apply", *name, stdin=SLOW.encode(), code=0).stdout == FIXED
    assert cli("check", "--fix", "-", *name, stdin=SLOW.encode(), code=0).stdout == FIXED
    assert cli("fix", "-", "--apply", *name, stdin=FIXED.encode(), code=0).stdout == FIXED


def test_a_notebook_that_is_left_out_comes_back_from_standard_input(cli: Cli) -> None:
    text = notebook("torch.slow()", kernelspec={"language": "R", "name": "ir", "display_name": "R"})
    done = cli("fix", "-", "--apply", "--stdin-filename", "n.ipynb", stdin=text.encode(), code=0)
    assert done.stdout == text
    assert "n.ipynb: not analysed: is written in R, not in Python" in done.stderr


def test_what_is_left_out_is_listed(cli: Cli) -> None:
    path = cli.write("n.ipynb", notebook("torch.slow()").replace('"nbformat": 4', '"nbformat": 3'))
    before = path.read_bytes()
    done = cli("check", ".", code=0)
    assert "1 file not analysed:\n  n.ipynb: has nbformat 3" in done.stdout
    cli("fix", "--apply", ".", code=0)
    assert path.read_bytes() == before


def test_broken_json_is_unreadable_at_its_place(cli: Cli) -> None:
    path = cli.write("n.ipynb", SLOW.replace('"cells": [', '"cells": [,'))
    before = path.read_bytes()
    done = cli("check", ".", "--output-format", "concise", code=1)
    assert done.stdout.startswith(
        "n.ipynb:2:12: unreadable: not a notebook: Expecting '{' (line 2, column 12 of the JSON "
        "text)"
    )
    cli("fix", "--apply", ".", code=1)
    assert path.read_bytes() == before


def test_outputs_do_not_count_for_the_size_limit(cli: Cli) -> None:
    cell = new_code_cell("import torch\ntorch.slow()")
    cell.outputs = [nbformat.v4.new_output("stream", text="x" * 3_000_000)]
    cli.write("n.ipynb", nbformat.writes(new_notebook(cells=[cell])))
    assert "cell 1:2:1: TL101" in cli("check", ".", "--output-format", "concise", code=1).stdout
    done = cli("check", ".", "--max-file-size", "20", code=0)
    assert "has 25 bytes of code, more than 20 (--max-file-size)" in done.stdout


def test_a_notebook_reads_the_project_but_is_not_read_by_it(ours: Cli) -> None:
    ours.write("helpers.py", "import torch\n\n\ndef report(loss):\n    print(loss.item())\n")
    loop = "for x in loader:\n    loss = model(x).sum()\n    loss.backward()\n    report(loss)"
    for name, module in (("n", "helpers"), ("m", "n")):
        imports = f"import torch\nfrom {module} import report\nmodel = torch.nn.Linear(3, 1).cuda()"
        ours.write(f"{name}.ipynb", notebook(imports, loop))
    done = ours("check", ".", "--select", "TL105", "--output-format", "concise", code=1)
    assert done.stdout.count(": TL105 ") == done.stdout.count("n.ipynb:cell 3:4:5: TL105") == 1


@pytest.mark.parametrize("ci", [True, False])
def test_the_cache_says_the_same_again(cli: Cli, ci: bool) -> None:
    cli.environment.update({"CI": "true"} if ci else {"CI": ""})
    path = cli.write("n.ipynb", SLOW)
    first, second = (cli("check", "n.ipynb", "--output-format", "sarif", code=1) for _ in range(2))
    assert first.stdout == second.stdout
    path.write_text(FIXED)
    cli("check", "n.ipynb", code=0)


def test_checkpoints_are_left_out(cli: Cli) -> None:
    cli.write(".ipynb_checkpoints/n-checkpoint.ipynb", SLOW)
    cli.write("sub/N.ipynb", SLOW)
    done = cli("check", ".", "--output-format", "concise", code=1)
    assert done.stdout.startswith("sub/N.ipynb:cell 3")
    assert done.stdout.count("TL101") == 1


def test_a_crash_in_a_rule_names_the_cell(cli: Cli) -> None:
    cli.write("n.ipynb", notebook("import torch", "\ntorch.crash()"))
    done = cli("check", ".", code=2)
    assert "n.ipynb:cell 3:2: TL104 failed on cell 3 line 2: ZeroDivisionError" in done.stdout


def test_a_plain_run_does_not_load_what_notebooks_need(cli: Cli) -> None:
    cli.write("a.py", "import torch\ntorch.slow()\n")
    code = (
        "import sys; from torchlint.cli.main import run; run(['check', 'a.py', "
        "'--no-cache']); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cli.cwd,
        env=cli.variables(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "TL101" in done.stdout
    assert "torchlint.source.document" in done.stdout
    assert not [
        name
        for name in done.stdout.split()
        if "notebook" in name or name.endswith((".cells", ".ipython"))
    ]


def test_fixtures_are_fixed_as_announced(ours: Cli) -> None:
    """The real rules on notebooks that real tools made; they stay valid, and only sources
    change."""
    for fixture in sorted((ROOT / "fixtures" / "notebooks").glob("*.ipynb")):
        path = ours.write(fixture.name, fixture.read_bytes())
        old = nbformat.read(path, as_version=4)
        ours("fix", "--apply", "--unsafe-fixes", fixture.name, code=0)
        new = nbformat.read(path, as_version=4)
        nbformat.validate(new)
        assert [cell.source for cell in old.cells] != [cell.source for cell in new.cells]
        for cell in (*old.cells, *new.cells):
            cell.pop("source")
        assert old == new
        before = path.read_bytes()
        ours("fix", "--apply", "--unsafe-fixes", fixture.name, code=0)
        assert path.read_bytes() == before


def test_a_fix_of_two_cells_is_shown_and_applied_in_both(ours: Cli) -> None:
    first, second = (
        "import os\nfrom torch import cuda\n%pwd",
        "a = cuda.is_available(), os.sep\nb = cuda.amp.GradScaler()",
    )
    path = ours.write("n.ipynb", notebook(first, second))
    shown = ours("check", "n.ipynb", code=0).stdout
    assert (
        " cell 2:\n  |\n1 | import os\n2 | from torch import cuda\n3 + import torch\n4 | %pwd\n"
    ) in shown
    assert (
        " cell 3:\n  |\n1 | a = cuda.is_available(), os.sep\n  - b = cuda.amp.GradScaler()\n"
        '2 + b = torch.amp.GradScaler("cuda")\n'
    ) in shown
    ours("fix", "--apply", "--unsafe-fixes", "n.ipynb", code=0)
    cells = nbformat.read(path, as_version=4).cells
    assert cells[1].source == first.replace("\n%", "\nimport torch\n%")
    assert cells[2].source == second.replace(
        "cuda.amp.GradScaler()", 'torch.amp.GradScaler("cuda")'
    )


@pytest.mark.parametrize("option", ["--add-ignore=why", "--add-noqa"])
def test_suppressions_are_written_into_the_sources_and_work(ours: Cli, option: str) -> None:
    for fixture in sorted((ROOT / "fixtures" / "notebooks").glob("*.ipynb")):
        path = ours.write(fixture.name, fixture.read_bytes())
        old = nbformat.read(path, as_version=4)
        ours("check", option, fixture.name, code=0)
        new = nbformat.read(path, as_version=4)
        nbformat.validate(new)
        for before, after in zip(old.cells, new.cells, strict=True):
            rows = zip(before.source.split("\n"), after.source.split("\n"), strict=True)
            added = [now.removeprefix(was) for was, now in rows if was != now]
            assert all(each.startswith(("  # torchlint: ignore[", "  # noqa: ")) for each in added)
        assert [cell.source for cell in old.cells] != [cell.source for cell in new.cells]
        for cell in (*old.cells, *new.cells):
            cell.pop("source")
        assert old == new
        assert ours("check", fixture.name, code=0).stdout == "All checks passed.\n"
        data = path.read_bytes()
        assert (
            ours("check", option, fixture.name, code=0).stderr
            == "Silenced 0 findings in 0 files.\n"
        )
        assert path.read_bytes() == data


MAGICS = "%%time\n%matplotlib inline\n%time torch.slow()\nx = !ls\n"


@pytest.mark.parametrize(
    ("cell", "silent"),
    [
        (f"{MAGICS}torch.slow()", f"{MAGICS}torch.slow()  # torchlint: ignore[TL101]"),
        ("torch.slow()\n!ls", "torch.slow()  # torchlint: ignore[TL101]\n!ls"),
        ("  torch.slow();", "  torch.slow();  # torchlint: ignore[TL101]"),
        ("torch.slow(\n)\n", "torch.slow(\n)  # torchlint: ignore[TL101]\n"),
        (
            "torch.slow()  # torchlint: ignore[TL102] odd",
            "torch.slow()  # torchlint: ignore[TL102, TL101] odd",
        ),
    ],
    ids=["magics", "command", "indented", "rows", "merged"],
)
def test_suppressions_keep_out_of_magics(cli: Cli, cell: str, silent: str) -> None:
    path = cli.write("n.ipynb", notebook("import torch", cell, "torch.odd()"))
    cli("check", "--add-ignore", "--select", "TL101", ".", code=0)
    assert [each.source for each in nbformat.read(path, as_version=4).cells[1:]] == [
        "import torch",
        silent,
        "torch.odd()",
    ]
    cli("check", "--select", "TL101", ".", code=0)
