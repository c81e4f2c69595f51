"""A fix that changes several files is shown, written and refused as one: real files, real
processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.forked import Origin
from tests.patience import PATIENCE
from tests.two_files import DATA, MOVED, PINNED, TRAIN

UNSAFE = ("--unsafe-fixes", "--select", "TL103")


class Project:
    """A git repository of small files, and torchlint run in it: as a fork of `origin`, or from
    nothing."""

    def __init__(self, root: Path, origin: Origin | None) -> None:
        self.root = root
        self.origin = origin
        subprocess.run(["git", "init", "-q", "."], cwd=root, check=True)

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def read(self, name: str) -> str:
        return (self.root / name).read_text()

    def __call__(
        self, *arguments: str, code: int | None = None, before: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run torchlint; `before` is code that its process runs first."""
        if self.origin is None:
            start = f"{before}\nfrom torchlint.__main__ import program\nprogram()"
            done = subprocess.run(
                [sys.executable, "-c", start, *arguments],
                capture_output=True,
                text=True,
                cwd=self.root,
                timeout=PATIENCE,
                check=False,
            )
        else:
            ended = self.origin.run(
                arguments,
                cwd=self.root,
                env=self.origin.environment,
                stdin=b"",
                timeout=PATIENCE,
                before=before,
            )
            done = subprocess.CompletedProcess(
                arguments, ended.code, ended.out.decode(), ended.err.decode()
            )
        assert "Traceback" not in done.stderr, done.stderr
        assert code is None or done.returncode == code, done.stdout + done.stderr
        return done

    def runs(self) -> str:
        done = subprocess.run(
            [sys.executable, "train.py"],
            capture_output=True,
            text=True,
            cwd=self.root,
            timeout=PATIENCE,
            check=True,
        )
        return done.stdout

    @property
    def untouched(self) -> bool:
        return (self.read("data.py"), self.read("train.py")) == (DATA, TRAIN)


@pytest.fixture
def project(tmp_path: Path, copies: Origin | None) -> Project:
    made = Project(tmp_path, copies)
    made.write({"data.py": DATA, "train.py": TRAIN})
    return made


@pytest.mark.slow
def test_both_files_are_fixed_and_the_program_gives_the_same(project: Project) -> None:
    pytest.importorskip("torch")
    before = project.runs()
    done = project("fix", *UNSAFE, "--apply", code=0)
    assert done.stderr.count("one fix with data.py:14, all of it or nothing\n") == 1
    assert "Fixed 2 findings in 2 files with 3 edits" in done.stderr
    assert project.read("data.py") == DATA.replace("num_workers=1)", PINNED)
    assert project.read("train.py").count("non_blocking=True") == 2
    assert project.runs() == before
    again = project("fix", *UNSAFE, code=0)
    assert (again.stdout, "Nothing to fix." in again.stderr) == ("", True)


def test_the_patch_holds_both_files_and_applies(project: Project) -> None:
    done = project("fix", *UNSAFE, code=1)
    assert project.untouched
    assert done.stdout.count("\n+++ ") == 2
    subprocess.run(
        ["git", "apply", "-"], input=done.stdout, text=True, cwd=project.root, check=True
    )
    patched = {name: project.read(name) for name in ("data.py", "train.py")}
    project.write({"data.py": DATA, "train.py": TRAIN})
    project("fix", *UNSAFE, "--apply", code=0)
    assert {name: project.read(name) for name in patched} == patched
    project.write({"data.py": DATA, "train.py": TRAIN})
    assert project("check", *UNSAFE, "--diff", code=1).stdout == done.stdout


def test_two_loaders_of_one_file_need_one_import(project: Project) -> None:
    data = DATA.replace("import torch\n", "from torch import full, tensor\n", 1)
    data = data.replace("torch.full", "full").replace("torch.tensor", "tensor")
    both = data.replace("(Pairs(), n)", "(Pairs(), n, num_workers=1)")
    both = both.replace("return train, val", "return train if n else val, val")
    project.write({"data.py": both})
    project("fix", *UNSAFE, "--apply", code=0)
    assert project.read("data.py").count("import torch\n") == 1
    assert project.read("data.py").count("pin_memory") == 2


def test_strictly_safe_fixes_leave_it(project: Project) -> None:
    strict = ("--config", 'safe = "strict"')
    done = project("fix", "--select", "TL103", *strict, "--apply", code=0)
    assert project.untouched
    assert done.stderr == "Nothing to fix, but 2 with `--unsafe-fixes`.\n"


def test_reports_name_both_files(project: Project) -> None:
    options = ("--select", "TL103", "--no-cache", "--exit-zero", "--output-format")
    (found, *_) = json.loads(project("check", *options, "json").stdout)
    (other,) = found["fix"]["elsewhere"]
    assert Path(other["filename"]).name == "data.py"
    assert "pin_memory" in "".join(edit["content"] for edit in other["edits"])
    (log,) = json.loads(project("check", *options, "sarif").stdout)["runs"]
    changes = log["results"][0]["fixes"][0]["artifactChanges"]
    assert [each["artifactLocation"]["uri"] for each in changes] == ["train.py", "data.py"]
    shown = project("check", *options, "full").stdout
    assert "data.py:\n" in shown
    assert f"+     train = DataLoader(Pairs(), n, {PINNED}" in shown
    pytest.importorskip("jinja2")
    page = project("check", *options, "html").stdout
    assert "<p>Change in data.py</p>" in page


def test_the_cache_holds_while_the_second_file_does(project: Project) -> None:
    command = ("check", "--select", "TL103", "--exit-zero", "--output-format", "json")
    first = project(*command).stdout
    assert project(*command).stdout == first
    assert '"elsewhere"' in first
    project.write({"data.py": "# moved down\n" + DATA})
    moved = project(*command).stdout
    fresh = project(*command, "--no-cache").stdout
    assert moved == fresh != first
    project.write({"data.py": DATA.replace("num_workers=1", "num_workers=1, pin_memory=True")})
    assert '"elsewhere"' not in project(*command).stdout


@pytest.mark.parametrize("fix", [("fix",), ("check", "--diff")])
def test_a_fix_after_a_check_is_that_of_all_files(project: Project, fix: tuple[str, ...]) -> None:
    """The check has found nothing to fix in data.py, which the fix of train.py changes."""
    fresh = project(*fix, *UNSAFE, "--no-cache", code=1)
    assert not (project.root / ".torchlint_cache").exists()
    project("check", "--select", "TL103", "--exit-zero", code=0)
    assert (project.root / ".torchlint_cache").exists()
    found = project(*fix, *UNSAFE, code=1)
    assert (found.stdout, found.stderr) == (fresh.stdout, fresh.stderr)
    assert "--- a/data.py" in found.stdout
    project.write({"data.py": "# moved down\n" + DATA})
    moved = project(*fix, *UNSAFE, code=1)
    assert moved.stdout != found.stdout
    assert moved.stdout == project(*fix, *UNSAFE, "--no-cache", code=1).stdout


def _read_only(project: Project) -> None:
    (project.root / "data.py").chmod(0o444)


def _excluded(project: Project) -> None:
    project.write({"torchlint.toml": 'exclude = ["data.py"]\n'})


def _ignored(project: Project) -> None:
    project.write({"torchlint.toml": '[per-file-ignores]\n"data.py" = ["TL103"]\n'})


def _generated(project: Project) -> None:
    project.write({"data.py": "# @generated by a program\n" + DATA})


def _not_named(project: Project) -> None:
    pass


@pytest.mark.parametrize(
    ("how", "paths", "code", "reason"),
    [
        (_read_only, (".",), 1, "which is read-only"),
        (_excluded, (".",), 0, "which is excluded, or not among the files that are fixed"),
        (_ignored, (".",), 0, "which has TL103 switched off"),
        (_generated, (".",), 0, "which says that a program wrote it"),
        (_not_named, ("train.py",), 0, "which is excluded, or not among the files"),
    ],
    ids=["read-only", "excluded", "ignored", "generated", "not named"],
)
def test_a_second_file_that_is_not_to_be_changed_keeps_the_fix_back(
    project: Project, how, paths: tuple[str, ...], code: int, reason: str
) -> None:
    how(project)
    data = project.read("data.py")
    done = project("fix", *UNSAFE, "--apply", *paths, code=code)
    assert (project.read("data.py"), project.read("train.py")) == (data, TRAIN)
    told = [line for line in done.stderr.splitlines() if "fix not applied" in line]
    assert told
    assert all(f"TL103: fix not applied, it also changes data.py, {reason}" in x for x in told)


def test_other_fixes_of_the_first_file_are_written_all_the_same(project: Project) -> None:
    _read_only(project)
    synced = TRAIN.replace(
        "    return total\n", "        torch.cuda.empty_cache()\n    return total\n"
    )
    project.write({"train.py": synced})
    project("fix", "--unsafe-fixes", "--select", "TL103,TL701", "--apply", code=1)
    assert project.read("train.py") == TRAIN
    assert project.read("data.py") == DATA


MEANWHILE = """
from torchlint.cli.session import Session
real = Session._write
def write(self, group):
    with open("data.py", "a") as file:
        file.write("# mine\\n")
    real(self, group)
Session._write = write
"""
BETWEEN = """
import os, signal
from torchlint.source import write
real = write.write
def stopped(document, text, **more):
    real(document, text, **more)
    os.kill(os.getpid(), signal.{signal})
write.write = stopped
"""
FAILING = """
from torchlint.base.errors import WriteError
from torchlint.source import write
real = write.write
def failing(document, text, **more):
    if document.filename == "train.py":
        raise WriteError("train.py: cannot be written: no space left on device")
    real(document, text, **more)
write.write = failing
"""


def test_a_second_file_that_changed_meanwhile_keeps_both_as_they_are(project: Project) -> None:
    done = project("fix", *UNSAFE, "--apply", code=1, before=MEANWHILE)
    assert project.read("train.py") == TRAIN
    assert project.read("data.py") == DATA + "# mine\n"
    (told,) = (line for line in done.stderr.splitlines() if "not written" in line)
    assert told == (
        "data.py: not written: changed while fixing, not written; so train.py not either, which "
        "is fixed with it"
    )


def test_a_disk_that_is_full_between_the_files_leaves_both(project: Project) -> None:
    done = project("fix", *UNSAFE, "--apply", code=1, before=FAILING)
    assert project.untouched
    assert "train.py: not written: cannot be written: no space left on device" in done.stderr
    assert not list(project.root.glob("*.torchlint-former"))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_between_the_files_waits_until_both_are_written(
    project: Project, name: str
) -> None:
    project("fix", *UNSAFE, "--apply", code=130, before=BETWEEN.format(signal=name))
    assert PINNED in project.read("data.py")
    assert MOVED in project.read("train.py")
    assert not list(project.root.glob("*.torchlint-former"))


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX")
def test_a_kill_between_the_files_loses_nothing_and_the_next_run_says_where_it_is(
    project: Project,
) -> None:
    done = project("fix", *UNSAFE, "--apply", before=BETWEEN.format(signal="SIGKILL"))
    assert done.returncode == -signal.SIGKILL
    half = {name: project.read(name) for name in ("data.py", "train.py")}
    assert half != {"data.py": DATA, "train.py": TRAIN}
    kept = {name: project.read(f"{name}.torchlint-former") for name in half}
    assert kept == {"data.py": DATA, "train.py": TRAIN}
    again = project("fix", *UNSAFE, "--apply", code=1)
    assert {name: project.read(name) for name in half} == half
    assert again.stderr.count("copy that back if it is needed") == 2
    for name in half:
        os.replace(project.root / f"{name}.torchlint-former", project.root / name)
    project("fix", *UNSAFE, "--apply", code=0)
    assert PINNED in project.read("data.py")


@pytest.mark.slow
def test_two_files_that_need_the_same_loader_are_fixed_whatever_the_workers(
    project: Project,
) -> None:
    project.write({"finetune.py": TRAIN, "padding.py": "import torch\n" + "# x\n" * 60_000})
    one = project("fix", *UNSAFE, "--jobs", "1", code=1)
    two = project("fix", *UNSAFE, "--jobs", "2", code=1)
    assert (one.stdout, one.stderr) == (two.stdout, two.stderr)
    assert one.stdout.count("\n+++ ") == 3
    assert one.stdout.count("pin_memory") == 1
    project("fix", *UNSAFE, "--apply", code=0)
    assert project("fix", *UNSAFE, code=0).stdout == ""
    assert project.read("finetune.py") == project.read("train.py")


def test_the_second_files_own_fixes_go_on_top(project: Project) -> None:
    project("fix", "--unsafe-fixes", "--apply", code=0)
    data = project.read("data.py")
    assert data.count("pin_memory=torch.cuda.is_available()") >= 1
    assert MOVED in project.read("train.py")
    assert project("fix", "--unsafe-fixes", code=0).stdout == ""


LOADERS = """\
from torch.utils.data import DataLoader


class AudioDataLoader(DataLoader):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
"""
MAIN = """\
import torch

from loaders import AudioDataLoader
from train import evaluate


def main(dataset, model):
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    loader = AudioDataLoader(dataset, batch_size=8, num_workers=2)
    evaluate(model.to(device), loader, device)
"""
EVALUATION = """\
import torch


def evaluate(model, loader, device):
    hits = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in loader:
            x = x.to(device)
            y = y.to(device)
            hits += (model(x).argmax(1) == y).sum()
    print(hits.item())
"""
CHAIN = {"loaders.py": LOADERS, "main.py": MAIN, "train.py": EVALUATION}
BOTH = ("--unsafe-fixes", "--select", "TL103,TL202")


def test_what_one_files_fixes_make_of_another_is_fixed_in_the_same_run(project: Project) -> None:
    """The loader's memory is pinned in the one file; so copies in the other need not wait."""
    project.write(CHAIN)
    shown = project("fix", *BOTH, "main.py", "train.py", code=1)
    told = project("fix", *BOTH, "main.py", "train.py", "--apply", code=0)
    assert "num_workers=2, pin_memory=use_cuda)" in project.read("main.py")
    assert project.read("train.py").count("non_blocking=True") == 2
    assert project("fix", *BOTH, "main.py", "train.py", code=0).stdout == ""
    assert shown.stdout.count("\n+++ ") == 2
    assert shown.stdout.count("non_blocking=True") == 2
    assert "with 3 edits; 2 could be fixed only once others were.\n" in told.stderr


@pytest.mark.parametrize("files", [{}, CHAIN], ids=["one-fix-of-both", "one-after-the-other"])
def test_what_is_fixed_and_what_remains_are_what_a_check_found(
    project: Project, files: Mapping[str, str]
) -> None:
    """In the first program, TL103's fix of the other file is what TL202 finds there; in the second
    TL103 has a fix only once the loader pins its memory."""
    project.write(files)
    checked = project("check", *BOTH, "--output-format", "json", "--no-cache").stdout
    found = len(json.loads(checked))
    told = project("fix", *BOTH, "--apply").stderr
    assert sum(map(int, re.findall(r"(\d+)(?: findings?) (?:in|remain)", told))) == found > 0


def test_what_rests_on_a_file_that_is_not_written_is_not_written_either(project: Project) -> None:
    project.write(CHAIN)
    before = FAILING.replace("train.py", "main.py")
    done = project("fix", *BOTH, "main.py", "train.py", "--apply", code=1, before=before)
    assert (project.read("main.py"), project.read("train.py")) == (MAIN, EVALUATION)
    assert "so train.py not either, which is fixed with it" in done.stderr


def test_standard_input_is_one_file(project: Project) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "torchlint", "fix", *UNSAFE, "--stdin-filename", "train.py", "-"],
        input=TRAIN,
        capture_output=True,
        text=True,
        cwd=project.root,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert project.untouched
