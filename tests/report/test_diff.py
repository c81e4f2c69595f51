from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from torchlint.base.finding import FileReport
from torchlint.report.diff import render_diff
from torchlint.report.run_report import RunReport

Runs = Callable[..., RunReport]

LINES = [f"line {n}" for n in range(1, 13)]


def changed(end: str, last: str = "") -> tuple[str, str]:
    """Return a text of twelve lines and the same with a changed second and a new eleventh line."""
    before = end.join(LINES) + last
    return before, before.replace("line 2", "Line two").replace(
        f"line 10{end}", f"line 10{end}new{end}"
    )


CASES = {
    "lf": changed("\n", "\n"),
    "crlf": changed("\r\n", "\r\n"),
    "cr": changed("\r", "\r"),
    "no-final-newline": changed("\n"),
    "crlf-no-final-newline": changed("\r\n"),
    "newline-added": ("a\nb", "a\nb\n"),
    "newline-removed": ("a\nb\n", "a\nb"),
    "last-line-changed": ("a\nb", "a\nc"),
    "from-empty": ("", "a\n"),
    "mixed": ("a\r\nb\nc\rd\r\n", "a\r\nB\nc\rd\r\n"),
    "form-feed-and-line-separator": ("a\x0cb\u2028c\n\x0c\nx\n", "a\x0cb\u2028c\n\x0c\ny\n"),
    "bom": ("\ufeffa\nb\n", "\ufeffA\nb\n"),
    "looks-like-a-header": ("-- x\n++ y\n", "-- z\n++ y\n"),
    "escape": ("a = '\x1b[31m'\n", "b = '\x1b[31m'\n"),
}


def apply(folder: Path, patch: str, name: str) -> bytes:
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    for command in (["init", "-q"], ["apply", "--whitespace=nowarn", "-"]):
        data = patch.encode("utf-8", "surrogateescape")
        done = subprocess.run(
            ["git", *command], cwd=folder, input=data, capture_output=True, env=environment
        )
        assert done.returncode == 0, done.stderr
    return (folder / name).read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_git_applies_it(tmp_path: Path, make_run: Runs, case: str) -> None:
    before, after = CASES[case]
    (tmp_path / "a.py").write_bytes(before.encode())
    patch = render_diff(make_run(files=(FileReport("a.py", before=before, after=after),)))
    assert apply(tmp_path, patch, "a.py") == after.encode()


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such file names")
@pytest.mark.parametrize(
    "name",
    [
        "with space.py",
        "tab\t.py",
        'quo"te.py',
        "back\\slash.py",
        "new\nline.py",
        "é漢.py",
        "\udcff.py",
        "-p.py",
    ],
)
def test_git_applies_it_to_odd_names(tmp_path: Path, make_run: Runs, name: str) -> None:
    (tmp_path / name).write_text("x\n")
    patch = render_diff(make_run(files=(FileReport(name, before="x\n", after="y\n"),)))
    assert apply(tmp_path, patch, name) == b"y\n"


def test_golden_and_order(make_run: Runs) -> None:
    files = (
        FileReport("b.py", before="x", after="y"),
        FileReport("same.py", before="x\n", after="x\n"),
        FileReport("/project/sub/a.py", before="x\n", after="y\n"),
    )
    assert render_diff(make_run(files=files)) == (
        "--- a/sub/a.py\n+++ b/sub/a.py\n@@ -1 +1 @@\n-x\n+y\n"
        "--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n"
        "-x\n\\ No newline at end of file\n+y\n\\ No newline at end of file\n"
    )


def test_names_are_relative_to_the_working_folder(make_run: Runs) -> None:
    files = (FileReport("/project/sub/a.py", after="y\n"), FileReport("/tmp/b.py", after="y\n"))
    patch = render_diff(make_run(files=files, cwd="/project/sub"))
    assert [line for line in patch.splitlines() if line.startswith("+++")] == [
        "+++ b/a.py",
        "+++ b/tmp/b.py",
    ]


@pytest.mark.parametrize(("color", "for_eyes"), [(True, None), (False, True)])
def test_a_terminal_gets_no_control_characters(
    make_run: Runs, color: bool, for_eyes: bool | None
) -> None:
    files = (FileReport("a.py", before="a = '\x1b]0;t\x07'\r\n", after="b = '\u202e'\r\n"),)
    text = render_diff(make_run(files=files, color=color), for_eyes=for_eyes)
    assert r"-a = '\x1b]0;t\x07'" in text
    assert r"+b = '\u202e'" in text
    assert "\r" not in text
    assert r"\r" not in text
    assert "\x07" not in text
    assert ("\x1b[" in text) == color


def test_a_name_with_a_space_ends_with_a_tab_as_git_writes_it(make_run: Runs) -> None:
    patch = render_diff(make_run(files=(FileReport("a b.py", after="x\n"),)))
    assert patch.startswith("--- a/a b.py\t\n+++ b/a b.py\t\n")


def test_no_change_is_empty(make_run: Runs) -> None:
    assert render_diff(make_run(files=(FileReport("a.py"),))) == ""
