"""``torchlint verify --against`` and ``--between``: two versions of a project in real repositories.

Programs and git are real and run here; where a verdict on time is told, the times are recorded
ones.
"""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.verify import reports
from tests.verify.verify_lab import FAST, Ran, RecordedTimes, doctor, fingerprint, git, warm
from torchlint.base.errors import UsageError
from torchlint.cli.history import of_versions
from torchlint.cli.main import run
from torchlint.program.command import parse
from torchlint.report.history import Entry, drawing, line, read, text
from torchlint.source.revisions import OldFile, difference
from torchlint.verify.model import (
    Equality,
    Expected,
    Level,
    Report,
    Speed,
    Status,
    VariantResult,
    Verdict,
)
from torchlint.verify.output import html, json_report, markdown, sentences
from torchlint.verify.output import text as text_output
from torchlint.verify.script import script_mode
from torchlint.verify.script.request import Request
from torchlint.verify.script.versions import Version, Versions

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.usefixtures("zygotes"),
]
MODEL = """\
import torch


def unused(x):
    return x + 1


def rows(h):
    found = torch.empty(0, 4, device=h.device)
    for row in h:
        found = torch.cat([found, row[None]])
    return found
"""
FAST_MODEL = MODEL.partition("    found")[0] + "    return h\n"
TRAIN = """\
import torch
from model import rows

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weights = torch.ones(4, 4, device=device, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for step in range(12):
    optimizer.zero_grad()
    loss = rows(torch.randn(3, 4, device=device) @ weights).pow(2).mean()
    loss.backward()
    optimizer.step()
    print(loss.item())
"""
QUIET = TRAIN.replace("    print(loss.item())\n", "")


class Repository:
    """A project in a git repository with one commit, tagged v1."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        git(root, "init", "-q", "-b", "main")
        git(root, "config", "user.name", "T")
        git(root, "config", "user.email", "t@example.org")
        self.write(model=MODEL, train=TRAIN)
        self.commit("v1")

    def write(self, **files: str) -> None:
        """Write modules: ``train="..."`` is train.py."""
        for name, content in files.items():
            (self.root / f"{name}.py").write_text(content, encoding="utf-8")

    def commit(self, tag: str) -> None:
        git(self.root, "add", "-A")
        git(self.root, "commit", "-qm", tag)
        git(self.root, "tag", tag)

    def __call__(self, *arguments: str, program: str = "train.py") -> Ran:
        """Run ``torchlint verify``, and see that neither files nor git's own changed."""
        before = fingerprint(self.root)
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(["verify", *FAST, *arguments, "--", *program.split()])
        assert "\nTraceback" not in f"\n{err.getvalue()}", err.getvalue()
        assert fingerprint(self.root) == before
        return Ran(code, out.getvalue(), err.getvalue())


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    warm()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", doctor)
    made = Repository(tmp_path / "project")
    monkeypatch.chdir(made.root)
    return made


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> type[RecordedTimes]:
    """Take times from here: the newer version's ratio is ``ratios["version"]``."""
    monkeypatch.setattr(script_mode, "TimePass", RecordedTimes)
    monkeypatch.setattr(RecordedTimes, "ratios", {"version": 1.3})
    return RecordedTimes


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Request, dict[str, dict[str, str]]]]:
    """Skip the run, and keep what it was asked for with the files of both versions."""
    kept: list[tuple[Request, dict[str, dict[str, str]]]] = []

    def ran(request: Request, say: object, tick: object, early: object) -> Report:
        versions = request.versions
        assert versions is not None
        sides = {"before": versions.before, "after": versions.after}
        kept.append((request, {name: _contents(each.folder) for name, each in sides.items()}))
        names = versions.before.name, versions.after.name
        return replace(_report(Speed(Verdict.NO_CHANGE)), versions=names)

    monkeypatch.setattr(script_mode, "run", ran)
    return kept


def _contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): os.readlink(path)
        if path.is_symlink()
        else path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*"))
        if ".git/" not in f"{path}/" and (path.is_symlink() or path.is_file())
    }


def _report(
    speed: Speed,
    level: Level = Level.BITWISE,
    status: Status = Status.OK,
    *,
    excused: bool = False,
    **more: object,
) -> Report:
    same = level in (Level.BITWISE, Level.CLOSE)
    notes = ("loss: 3 of 5 numbers differ",)
    equality = Equality(level, Expected.CLOSE, same, notes=notes, excused=excused)
    variant = VariantResult(
        "version", "version", ("version",), "main", "", speed, status, equality=equality, **more
    )
    found = reports.changed(variants=(variant,), interactions=(), skipped=())
    return replace(found, versions=("v1.2", "main"))


# Programs that are run


@pytest.mark.slow
def test_faster_with_the_same_results_and_fewer_waits(
    repo: Repository, recorded: type[RecordedTimes]
) -> None:
    repo.write(model=FAST_MODEL, train=QUIET)
    done = repo("--against", "v1", "--launches", "2", "--output-format", "json")
    assert done.code == 0, done.err
    report = json.loads(done.out)
    (variant,) = report["variants"]
    assert (variant["id"], variant["kind"], variant["title"]) == (
        "version",
        "version",
        "the working tree",
    )
    assert report["versions"] == {"before": "v1", "after": "the working tree"}
    assert report["extra"]["v1"] == git(repo.root, "rev-parse", "v1")
    assert (variant["speed"]["verdict"], variant["equivalence"]["level"]) == ("faster", "bitwise")
    before, after = variant["counts"]["syncs"]
    assert (before, after) == (1, 0)
    assert "-        found = torch.cat([found, row[None]])" in variant["diff"]
    assert report["safety"]["tree_unchanged"] is True


@pytest.mark.slow
def test_the_same_speed_and_the_sentence(repo: Repository, recorded: type[RecordedTimes]) -> None:
    recorded.ratios = {"version": 1.001}
    repo.write(model=MODEL.replace("for row in h:", "for row in iter(h):"))
    done = repo("--against", "v1", "--launches", "2")
    assert done.code == 0, done.err
    assert "the working tree is neither faster nor slower: 1.00x as fast as v1 [" in done.out
    assert "with the same results to the last bit" in done.out
    assert "Predicted for a GPU: as many waits and bytes a step." in done.out
    assert "the working tree against v1, which differ in 1 file" in done.err


@pytest.mark.slow
def test_slower_fails(repo: Repository, recorded: type[RecordedTimes]) -> None:
    recorded.ratios = {"version": 0.7}
    repo.write(train=QUIET)
    slow = ("--against", "v1", "--launches", "2")
    done = repo(*slow)
    assert done.code == 1
    assert "the working tree is slower: 0.70x as fast as v1 [" in done.out
    assert repo(*slow, "--fail-on", "different").code == 0


@pytest.mark.slow
def test_different_results_fail(repo: Repository) -> None:
    repo.write(train=TRAIN.replace("lr=0.1", "lr=0.3"))
    done = repo("--against", "v1", "--device", "virtual-cuda")
    assert done.code == 1, done.err
    assert "No times taken: the working tree beside v1, with different results (loss: " in done.out
    assert repo("--against", "v1", "--device", "virtual-cuda", "--fail-on", "slower").code == 0


@pytest.mark.slow
def test_rounding_is_told_and_fails_nothing(repo: Repository) -> None:
    repo.write(train=TRAIN.replace(".pow(2).mean()", ".pow(2).sum() * (1 / 12)"))
    done = repo("--against", "v1", "--device", "virtual-cuda", "--output-format", "json")
    assert done.code == 0, done.err
    (variant,) = json.loads(done.out)["variants"]
    equality = variant["equivalence"]
    assert equality["ok"]
    assert equality["level"] in ("close", "within rounding band")


@pytest.mark.slow
def test_numbers_drawn_for_later_are_no_difference_and_others_are(repo: Repository) -> None:
    """A newer version may draw the next batch already; one that computes with other numbers
    differs."""
    once = TRAIN.replace("range(12)", "range(1)")
    repo.write(train=once)
    repo.commit("v2")
    repo.write(train=once.replace("    optimizer.step", "    torch.rand(1)\n    optimizer.step"))
    later = repo("--against", "v2", "--device", "virtual-cuda", "--check-steps", "1")
    assert later.code == 0, later.err
    assert "with the same results to the last bit" in later.out
    assert "random streams end in another state" in later.out
    repo.write(train=TRAIN.replace("manual_seed(0)", "manual_seed(1)"))
    other = repo("--against", "v1", "--device", "virtual-cuda")
    assert other.code == 1, other.err
    assert "with the same results" not in other.out


@pytest.mark.slow
def test_a_crash_of_the_newer_fails_and_one_of_the_older_ends_it(repo: Repository) -> None:
    repo.write(train=TRAIN.replace("loss.backward()", "loss.backwards()"))
    new = repo("--against", "v1")
    assert new.code == 1, new.err
    assert "the working tree fails where v1 runs: failed with exit code 1" in new.out
    assert "'Tensor' object has no attribute 'backwards'" in new.out
    repo.commit("broken")
    repo.write(train=TRAIN)
    old = repo("--against", "broken")
    assert old.code == 3
    assert old.message.startswith("broken: train.py failed with exit code 1")


@pytest.mark.slow
def test_what_no_run_reaches_is_told(repo: Repository) -> None:
    repo.write(model=MODEL.replace("x + 1", "x + 2"))
    done = repo("--against", "v1", "--device", "virtual-cuda")
    assert done.code == 0, done.err
    assert "nothing in which the working tree differs from v1 ran: not reached in" in done.out


@pytest.mark.slow
def test_a_newer_version_that_compiles_is_compared_as_it_runs(repo: Repository) -> None:
    text = TRAIN.replace(
        "from model import rows", "import model\n\nrows = torch.compile(model.rows)"
    )
    repo.write(train=text.replace("torch.compile(", 'torch.compile(backend="eager", model='))
    done = repo("--against", "v1", "--device", "virtual-cuda")
    assert done.code == 0, done.err
    assert "Ledger unavailable: it compiles its code" in done.out
    assert "with the same results to the last bit" in done.out


@pytest.mark.slow
def test_modules_of_one_version_are_not_those_of_the_other(repo: Repository) -> None:
    """Both versions are forked from one process, which must not have imported what one of them has
    as a file of its own."""
    own = {"iniconfig": MODEL, "train": TRAIN.replace("from model", "from iniconfig")}
    repo.write(**own)
    repo.commit("own")
    git(repo.root, "checkout", "-q", "v1")
    repo.write(train=f"import iniconfig\n{TRAIN}")
    repo.commit("installed")
    done = repo("--between", "own", "installed", "--device", "virtual-cuda")
    assert done.code == 0, done.err
    assert "installed beside own, with the same results to the last bit" in done.out


# Which versions


@pytest.mark.slow
def test_a_revision_is_put_back_beside_what_git_does_not_know(
    repo: Repository, asked: list[tuple[Request, dict[str, dict[str, str]]]]
) -> None:
    (repo.root / "old").mkdir()
    repo.write(**{"old/gone": "gone = 1\n"})
    (repo.root / "link").symlink_to("model.py")
    repo.commit("v2")
    shutil.rmtree(repo.root / "old")
    (repo.root / "link").unlink()
    (repo.root / "link").write_text("a file now\n")
    repo.write(new="new = 1\n", model=FAST_MODEL)
    git(repo.root, "add", "-A")
    (repo.root / "data.bin").write_text("data")
    assert repo("--against", "v2").code == 0
    (request, files) = asked[0]
    kept = {"train.py": TRAIN, "data.bin": "data"}
    assert files["before"] == {
        **kept,
        "model.py": MODEL,
        "old/gone.py": "gone = 1\n",
        "link": "model.py",
    }
    assert files["after"] == {
        **kept,
        "model.py": FAST_MODEL,
        "new.py": "new = 1\n",
        "link": "a file now\n",
    }
    assert request.versions is not None
    assert request.versions.changed == ("link", "model.py", "new.py", "old/gone.py")
    assert request.root == repo.root


def test_compiled_files_that_git_knows_are_in_neither_version(
    repo: Repository, asked: list[tuple[Request, dict[str, dict[str, str]]]]
) -> None:
    (repo.root / "__pycache__").mkdir()
    for number in (1, 2):
        (repo.root / "__pycache__" / f"model{number}.pyc").write_text("compiled")
        repo.write(model=MODEL + f"# {number}\n")
        repo.commit(f"compiled{number}")
    git(repo.root, "rm", "-rq", "--cached", "__pycache__")
    repo.write(model=FAST_MODEL)
    repo.commit("clean")
    for versions in (["--against", "compiled1"], ["--between", "v1", "compiled2"]):
        assert repo(*versions).code == 0
    (repo.root / "__pycache__" / "model3.pyc").write_text("compiled")
    repo.commit("again")
    assert repo("--against", "v1").code == 0
    for request, files in asked:
        assert request.versions is not None
        assert request.versions.changed == ("model.py",)
        assert set(files["before"]) == {"model.py", "train.py"}


def test_a_folder_and_two_folders(
    repo: Repository,
    asked: list[tuple[Request, dict[str, dict[str, str]]]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = repo.root.parent / "old", repo.root.parent / "new"
    for folder in (old, new):
        shutil.copytree(repo.root, folder, ignore=shutil.ignore_patterns(".git"))
    (new / "model.py").write_text(FAST_MODEL)
    repo.write(train=QUIET)
    assert repo("--against", str(old)).code == 0
    assert asked[0][1]["before"]["train.py"] == TRAIN
    monkeypatch.chdir(repo.root.parent)
    assert repo("--between", "old", "new").code == 0
    request, files = asked[1]
    assert (request.root, request.cwd) == (new, new)
    assert [files[side]["model.py"] for side in ("before", "after")] == [MODEL, FAST_MODEL]


def test_a_patch_is_tried_both_ways(
    repo: Repository, asked: list[tuple[Request, dict[str, dict[str, str]]]], tmp_path: Path
) -> None:
    repo.write(model=FAST_MODEL)
    patch = tmp_path / "fast.patch"
    patch.write_text(f"{git(repo.root, 'diff')}\n")
    assert repo("--against", str(patch)).code == 0
    git(repo.root, "checkout", "-q", ".")
    assert repo("--against", str(patch)).code == 0
    names = [request.versions for request, _ in asked]
    assert [(each.before.name, each.after.name) for each in names if each] == [
        ("the working tree without fast.patch", "the working tree"),
        ("the working tree", "the working tree with fast.patch"),
    ]
    for _, files in asked:
        assert [files[side]["model.py"] for side in ("before", "after")] == [MODEL, FAST_MODEL]


def test_a_patch_of_a_repository_whose_project_lies_deeper(
    repo: Repository, asked: list[tuple[Request, dict[str, dict[str, str]]]], tmp_path: Path
) -> None:
    inner = repo.root / "sub"
    inner.mkdir()
    for name in ("model.py", "train.py"):
        shutil.copy(repo.root / name, inner / name)
    (inner / "torchlint.toml").write_text("")
    repo.commit("deeper")
    (inner / "model.py").write_text(FAST_MODEL)
    patch = tmp_path / "fast.patch"
    patch.write_text(f"{git(repo.root, 'diff')}\n")
    os.chdir(inner)
    assert repo("--against", str(patch)).code == 0
    assert repo("--against", "deeper").code == 0
    for request, files in asked:
        assert request.root == inner
        assert [files[side]["model.py"] for side in ("before", "after")] == [MODEL, FAST_MODEL]


def test_versions_that_do_not_differ_are_no_failure(repo: Repository) -> None:
    done = repo("--against", "v1")
    assert done.code == 0
    assert done.err.endswith("the working tree and v1 do not differ: nothing to compare\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--against", "nope"), "--against nope: no such revision in "),
        (("--against", "-x"), "--against '-x': not the name of a revision"),
        (("--between", "v1", "nope"), "--between nope: no such revision in "),
        (("--between", "v1", "model.py"), "--between model.py: is a file; name a revision"),
        (("--against", "model.py"), "the patch is neither in the working tree nor applies to it"),
        (("--against", "v1", "--apply"), "--against and --apply cannot be used together"),
        (("--against", "v1", "--patch", "x"), "--against and --patch cannot be used together"),
        (("--against", "v1", "--between", "v1", "v1"), "cannot be used together"),
        (("--history", "x.jsonl"), "--history goes with --against or --between"),
        (("--against", "v1", "--history", "no/x"), "--history no/x: its directory does not exist"),
        (("rules", "--against", "v1"), "--against needs a program behind --: rules is none"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    repo: Repository, arguments: tuple[str, ...], words: str
) -> None:
    done = repo(*arguments)
    assert done.code == 2
    assert words in done.message


def test_a_program_that_one_version_lacks_is_one_line(repo: Repository) -> None:
    repo.write(fit=TRAIN)
    git(repo.root, "add", "-A")
    absent = "v1 has no fit.py, so the program cannot be run there"
    assert repo("--against", "v1", program="fit.py").message == absent
    assert repo("--against", "v1", program="-m fit").message == absent


def test_outside_of_git_only_folders_and_patches_are_known(repo: Repository) -> None:
    shutil.rmtree(repo.root / ".git")
    done = repo("--against", "v1")
    assert done.code == 2
    assert done.message.startswith("--against v1: there is no such file or folder, and ")
    assert done.message.endswith(" is in no git repository")


def test_files_in_a_linked_folder_are_never_written(repo: Repository, tmp_path: Path) -> None:
    (repo.root / "data").mkdir()
    repo.write(**{"data/table": "rows = 1\n"})
    repo.commit("v2")
    shutil.rmtree(repo.root / "data")
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo.root / "data").symlink_to(outside)
    git(repo.root, "rm", "-qr", "--cached", "data")
    done = repo("--against", "v2")
    assert done.code == 2
    assert "data/table.py lies in a folder that the project links to" in done.message
    assert list(outside.iterdir()) == []


def test_pointers_of_large_files_are_no_difference(repo: Repository) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"
    (repo.root / "large.bin").write_text(pointer)
    repo.commit("v2")
    (repo.root / "large.bin").write_text("123456789")
    repo.write(model=FAST_MODEL)
    found = difference("v2", str(repo.root), "--against v2")
    assert found.files == {"model.py": OldFile(MODEL.encode(), "100644")}


# What of a change is looked for


def _versions(tmp_path: Path, old: dict[str, str], new: dict[str, str]) -> Versions:
    for name, files in (("old", old), ("new", new)):
        (tmp_path / name).mkdir()
        for file, content in files.items():
            (tmp_path / name / file).write_text(content)
    return Versions(Version("old", tmp_path / "old"), Version("new", tmp_path / "new"))


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (("x + 1", "x + 2"), [(5, 5)]),
        (("    return x + 1\n", "    y = x\n    return y + 1\n"), [(5, 5)]),
        (("    for row", "    # why\n    for row"), [(9, 12)]),
        (("def unused(x)", "def unused(x=1)"), [(1, 13)]),
        (("import torch\n", "import torch\nimport os\n"), [(1, 13)]),
        (("    return found\n", "    return found\n\n\nrows(1)\n"), [(1, 13)]),
    ],
)
def test_a_changed_function_has_to_run_or_the_file_for_what_stands_outside(
    tmp_path: Path, change: tuple[str, str], rows: list[tuple[int, int]]
) -> None:
    versions = _versions(tmp_path, {"model.py": MODEL}, {"model.py": MODEL.replace(*change)})
    assert [(each.first, each.last) for each in versions.unit().places] == rows


def test_of_what_is_no_function_of_both_nobody_sees_whether_it_is_used(tmp_path: Path) -> None:
    old = {"model.py": MODEL, "README.md": "a"}
    new = {"model.py": FAST_MODEL, "README.md": "b"}
    versions = _versions(tmp_path, old, new)
    assert len(versions.unit().places) > 0
    (tmp_path / "new" / "extra.py").write_text("")
    assert Versions(versions.before, versions.after).unit().places == ()
    assert versions.changed == ("README.md", "model.py")


def test_a_module_that_neither_version_has_is_an_installed_one(tmp_path: Path) -> None:
    versions = _versions(tmp_path, {"model.py": MODEL}, {"model.py": MODEL})
    new = tmp_path / "new"
    versions.demand(parse(["-m", "pytest"], new, new), new, new)
    versions.demand(parse([str(new / "model.py")], new, new), new, new)
    (tmp_path / "old" / "model.py").unlink()
    with pytest.raises(UsageError, match=r"^old has no model\.py, "):
        versions.demand(parse(["-m", "model"], new, new), new, new)


# What is said


@pytest.mark.parametrize(
    ("report", "words"),
    [
        (
            _report(Speed(Verdict.FASTER, reports.ratio(1.31, 1.25, 1.37))),
            "main is 1.31x as fast as v1.2 [1.25, 1.37], with the same results to the last bit.",
        ),
        (
            _report(Speed(Verdict.SLOWER, reports.ratio(0.5, 0.4, 0.6)), Level.CLOSE),
            "main is slower: 0.50x as fast as v1.2 [0.40, 0.60], with the same results but for "
            "rounding.",
        ),
        (
            _report(Speed(Verdict.INCONCLUSIVE, reports.ratio(1.1, 0.9, 1.3)), Level.DIFFERENT),
            "whether main is faster or slower is open: 1.10x as fast as v1.2 [0.90, 1.30], with "
            "different results (loss: 3 of 5 numbers differ).",
        ),
        (
            _report(Speed(Verdict.NO_CHANGE, reports.ratio(1, 0.99, 1.01)), excused=True),
            "main is neither faster nor slower: 1.00x as fast as v1.2 [0.99, 1.01], with results "
            "no further apart than those of two runs of the older.",
        ),
        (
            _report(Speed(Verdict.NOT_EXERCISED, why="not reached in 20 steps")),
            "nothing in which main differs from v1.2 ran: not reached in 20 steps.",
        ),
        (
            _report(Speed(Verdict.NOT_MEASURED), status=Status.BROKEN, error="it crashed"),
            "main fails where v1.2 runs: it crashed.",
        ),
        (
            _report(
                Speed(Verdict.NO_CHANGE, reports.ratio(1, 0.99, 1.01)),
                counts=reports.counts((35.0, 3.0), (260.0, 4.0)),
            ),
            "Predicted for a GPU: 35 -> 3 waits and 8,708 -> 8,452 B copied a step.",
        ),
    ],
)
def test_the_headline_says_speed_results_and_traffic(report: Report, words: str) -> None:
    assert sentences.headline(report).endswith(words)


def test_every_format_names_the_versions() -> None:
    report = _report(
        Speed(Verdict.FASTER, reports.ratio(1.31, 1.25, 1.37), 3.1, 2.4),
        counts=reports.counts((35.0, 3.0), (260.0, 4.0)),
        diff=reports.DIFF,
        blocks_ns=reports.blocks(1.3, 3.1),
    )
    assert "Left in main (predicted):" in text_output.render(report)
    assert "Diff: main" in markdown.render(report)
    page = html.render(report)
    assert "<td>main</td>" in page
    assert "with the fix" not in page
    assert json_report.document(report)["versions"] == {"before": "v1.2", "after": "main"}


# The history


def _entry(**changes: object) -> Entry:
    known = {
        "date": "2026-11-28T10:00:00+00:00",
        "command": "train.py --name <a&b>",
        "machine": "cpu, 2 cores, torch 2.13.0",
        "before": "v1",
        "after": "the working tree",
        "commit": "v1-dirty",
        "verdict": "faster",
        "ratio": 1.31,
        "ci95": (1.25, None),
        "results": "the same results to the last bit",
        "ms": (1.22, 0.93),
        "waits": (4, 2),
    }
    return Entry(**{**known, **changes})  # type: ignore[arg-type]


@pytest.mark.slow
def test_each_run_adds_a_line(
    repo: Repository, recorded: type[RecordedTimes], tmp_path: Path
) -> None:
    repo.write(train=QUIET)
    place = tmp_path / "speed.jsonl"
    for ratio in (1.3, 0.7):
        recorded.ratios = {"version": ratio}
        repo("--against", "v1", "--launches", "2", "--history", str(place))
    first, second = read(str(place))
    assert (first.verdict, second.verdict) == ("faster", "slower")
    assert (first.before, first.after, first.commit) == ("v1", "the working tree", "v1-dirty")
    assert first.waits == [1, 0]
    assert first.command == "train.py"
    assert first.ratio == pytest.approx(1.3, abs=0.01)


def test_an_entry_is_what_the_report_says(tmp_path: Path) -> None:
    report = _report(
        Speed(Verdict.FASTER, reports.ratio(1.31, 1.25, 1.37), 3.1, 2.4),
        counts=reports.counts((35.0, 3.0), (260.0, 4.0)),
    )
    entry = of_versions(replace(report, extra={"main": "0123456789abcdef"}), str(tmp_path))
    assert (entry.before, entry.after, entry.commit) == ("v1.2", "main", "0123456789")
    assert (entry.ratio, entry.ci95, entry.ms) == (1.31, (1.25, 1.37), (3.1, 2.4))
    assert (entry.waits, entry.copied_bytes) == ((35.0, 3.0), (8708.0, 8452.0))
    assert entry.machine == "cpu, 2 cores, torch 2.13.0"


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    place = tmp_path / "h.jsonl"
    place.write_bytes(line(_entry()) + b'{"later": 1, ' + line(_entry(ratio=None))[1:])
    first, second = read(str(place))
    assert (first.ratio, first.after, second.ratio) == (1.31, "the working tree", None)
    place.write_text('{"date": "x"}\n')
    with pytest.raises(UsageError, match=r":1: is no line of --history$"):
        read(str(place))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("date", 1),
        ("machine", None),
        ("verdict", ["slower"]),
        ("ratio", "1.2"),
        ("ratio", 10**400),
        ("ci95", [1.0]),
        ("ci95", ["a", "b"]),
        ("ms", 3),
        ("waits", [None, None]),
    ],
)
def test_a_value_of_another_kind_is_no_line_of_a_history(
    tmp_path: Path, key: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "h.jsonl"
    wrong = {**json.loads(line(_entry())), key: value}
    place.write_bytes(line(_entry(ci95=(None, 1.5))) + b"\n" + json.dumps(wrong).encode())
    assert run(["history", str(place)]) == 2
    assert capsys.readouterr().err.endswith("h.jsonl:3: is no line of --history\n")


def test_the_text_draws_each_interval_beside_one() -> None:
    entries = [_entry(), _entry(verdict="slower", ratio=0.8, ci95=(0.7, 0.9), waits=None)]
    title, head, first, second, _ = text([*entries, _entry(machine="gpu")]).splitlines()[:5]
    assert title == "train.py --name <a&b> on cpu, 2 cores, torch 2.13.0"
    assert "slower | faster" in head
    assert "peak memory" not in head
    at = head.index("slower | faster")
    drawn = [row[at : at + 31] for row in (first, second)]
    assert [row.index("|") for row in drawn] == [drawn[0].index("|")] * 2
    assert drawn[0].index("*") > drawn[0].index("|")
    assert drawn[1].index("*") < drawn[1].index("|")
    assert drawn[0].rstrip().endswith("-")
    assert "1.31x [1.25, –] faster 1.22 -> 0.93 ms 4 -> 2" in " ".join(first.split())
    assert "\x1b[31m" in text(entries, color=True)


def test_the_drawing_is_one_svg_with_a_mark_for_each_run() -> None:
    entries = [_entry(), _entry(after="v3", commit=""), _entry(machine="gpu", ratio=None)]
    root = ElementTree.fromstring(drawing(entries))
    space = "{http://www.w3.org/2000/svg}"
    assert root.tag == f"{space}svg"
    marks = [each for each in root.iter(f"{space}rect") if "mark" in each.get("class", "")]
    assert [each.get("class") for each in marks] == ["mark good", "mark good"]
    texts = [each.text or "" for each in root.iter(f"{space}text")]
    assert "train.py --name <a&b> on cpu, 2 cores, torch 2.13.0" in texts
    assert "2026-11-28 v3, against v1" in texts
    ids = [each.get("id") for each in root.iter() if each.get("id")]
    assert len(set(ids)) == len(ids)


def test_the_command_writes_either_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, picture = tmp_path / "h.jsonl", tmp_path / "h.svg"
    place.write_bytes(line(_entry()))
    assert run(["history", str(place)]) == 0
    assert "the working tree (v1-dirty)" in capsys.readouterr().out
    assert run(["history", str(place), "--output-format", "svg", "-o", str(picture)]) == 0
    assert picture.read_text().startswith("<svg ")
    assert run(["history", str(place), "-o", str(place)]) == 2
    assert run(["history", str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
