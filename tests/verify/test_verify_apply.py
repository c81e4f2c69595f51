"""``torchlint verify --apply``: what a program proves is written, all of it or nothing.

Programs and git are real and run here; the times are recorded ones, by the name of the version.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests import two_files
from tests.verify import reports
from tests.verify.projects import planted
from tests.verify.verify_lab import FAST, Ran, RecordedTimes, doctor, fingerprint, git, warm
from torchlint.cli import verify_apply
from torchlint.cli.main import INTERRUPTED, run
from torchlint.source import write
from torchlint.verify.fixes import OVERLAPS
from torchlint.verify.model import Judged, Proof, Report
from torchlint.verify.script import script_mode
from torchlint.verify.script.request import Request
from torchlint.verify.variants import NULL

pytestmark = [
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
    pytest.mark.usefixtures("zygotes"),
]
MODEL = """\
import torch


def make(like):
    return torch.zeros(2, 2).to(like.device)
"""
"""TL102 in line 5, safe."""
NOISE = """\
import torch


def noise(like):
    return torch.zeros(3, 2).to(like.device)
"""
"""The same in another file."""
TRAIN = """\
import torch
from model import make
from noise import noise

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
weights = torch.ones(2, 2, device=device, requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    loss = (weights * 2 + make(weights)).sum() + noise(weights).sum()
    loss.backward()
    optimizer.step()
"""
FIRST, SECOND = "TL102@model.py:5", "TL102@noise.py:5"
FIXED = MODEL.replace("2, 2).to(like.device)", "2, 2, device=like.device)")


@dataclass
class Repository:
    """A project with two safe fixes, in a git repository with one commit."""

    root: Path
    patch: pytest.MonkeyPatch
    said: list[str] = field(default_factory=list)

    def times(self, **ratios: float) -> None:
        """Record the ratios of the first fix, the second, all and the null control; else 1."""
        names = {"first": FIRST, "second": SECOND, "all": "all", "null": NULL}
        self.patch.setattr(script_mode, "TimePass", RecordedTimes)
        self.patch.setattr(
            RecordedTimes, "ratios", {names[key]: value for key, value in ratios.items()}
        )

    def proves(self, *ids: str, then: Callable[[], object] = lambda: None) -> None:
        """Skip the run: these are proved, and something happens meanwhile."""

        def ran(request: Request, say: object, tick: object, early: object) -> Report:
            then()
            self.said = [unit.id for unit in request.units]
            fixes = tuple(
                Judged(unit.id, unit.id in ids, ("waits 4 -> 3 a step (predicted)",) * 1, "")
                for unit in request.units
            )
            variants = tuple(
                reports.fix(unit.codes[0], unit.title, unit.where, reports.GATHER.speed)
                for unit in request.units
            )
            together = Judged("all", True) if ids else None
            return reports.changed(variants=variants, proof=Proof(fixes, together), skipped=())

        self.patch.setattr(script_mode, "run", ran)

    def __call__(self, *arguments: str, command: str = "verify") -> Ran:
        out, err = io.StringIO(), io.StringIO()
        out_bytes = io.TextIOWrapper(io.BytesIO(), write_through=True)
        with redirect_stdout(out_bytes), redirect_stderr(err):
            code = run([command, *FAST, "--launches", "2", *arguments, "--", "train.py"])
        del out
        assert isinstance(out_bytes.buffer, io.BytesIO)
        assert "Traceback" not in err.getvalue(), err.getvalue()
        return Ran(code, out_bytes.buffer.getvalue().decode(), err.getvalue())

    def read(self, name: str) -> str:
        return (self.root / name).read_text(encoding="utf-8")

    @property
    def untouched(self) -> bool:
        """Whether files, index and branch are as after the first commit."""
        same = (self.read("model.py"), self.read("noise.py")) == (MODEL, NOISE)
        log = git(self.root, "log", "--format=%s")
        return same and log == "start" and not git(self.root, "status", "--porcelain", "-uno")


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    warm()
    root = tmp_path / "project"
    root.mkdir()
    for name, text in {"model": MODEL, "noise": NOISE, "train": TRAIN}.items():
        (root / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "T")
    git(root, "config", "user.email", "t@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", doctor)
    monkeypatch.chdir(root)
    return Repository(root, monkeypatch)


# Programs that are run


@pytest.mark.slow
def test_each_proved_fix_is_a_commit_of_its_own_and_the_slower_one_is_not_there(
    repo: Repository,
) -> None:
    repo.times(second=0.8)
    done = repo(".", "--apply", "--commit")
    assert done.code == 0, done.err
    assert repo.read("model.py") == FIXED
    assert repo.read("noise.py") == NOISE
    assert git(repo.root, "status", "--porcelain") == ""
    assert git(repo.root, "log", "--format=%s") == "TL102: Pass device= to the factory\nstart"
    message = " ".join(git(repo.root, "log", "-1", "--format=%B").split())
    assert "model.py:5, proved by torchlint verify on train.py:" in message
    assert "Better: waits" in message
    assert "(predicted)" in message
    assert "verify --pairs 8" in message
    assert message.endswith("--apply --commit -- train.py")
    assert f"{FIRST}: waits" in done.out
    assert f"{SECOND}: slower: 0.80x" in done.out
    assert "Committed 1 fix in 1 file, each fix by itself" in done.err


@pytest.mark.slow
def test_what_is_proved_alone_and_together_is_applied(repo: Repository) -> None:
    repo.times(first=1.2, second=1.1, all=1.3)
    done = repo(".", "--apply", "--output-format", "json")
    assert done.code == 0, done.err
    assert repo.read("model.py") == FIXED
    assert repo.read("noise.py") != NOISE
    assert git(repo.root, "log", "--format=%s") == "start"
    proof = json.loads(done.out)["proof"]
    assert [each["proven"] for each in proof["fixes"]] == [True, True]
    assert proof["together"]["gains"][0] == "1.30x [1.30, 1.30] on this CPU"
    assert proof["written"] == [FIRST, SECOND]
    assert "Applied 2 fixes in 2 files." in done.err


@pytest.mark.slow
def test_what_does_not_hold_together_is_not_applied(repo: Repository) -> None:
    repo.times(first=1.2, second=1.1, all=0.8)
    done = repo(".", "--apply", "--commit")
    assert done.code == verify_apply.UNPROVEN
    assert repo.untouched
    assert "proved together" in done.out
    assert "the program with all proved fixes does not hold (slower: 0.80x" in done.err


@pytest.mark.slow
def test_a_machine_that_is_too_noisy_proves_nothing(repo: Repository) -> None:
    repo.times(first=1.2, second=1.1, null=1.1)
    done = repo(".", "--apply")
    assert done.code == verify_apply.UNPROVEN
    assert repo.untouched
    assert "machine too noisy" in done.out
    assert "Nothing was written: no fix was proved." in done.err


@pytest.mark.slow
def test_what_is_not_decided_yet_is_measured_once_more(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.times()
    monkeypatch.setattr(RecordedTimes, "shake", 0.3)
    given = ("--pairs", "24", "--launches", "2", "--budget", "300s")
    done = repo(".", "--apply", *given, "--output-format", "json")
    assert done.code == verify_apply.UNPROVEN
    report = json.loads(done.out)
    assert [each["speed"]["n"] for each in report["variants"]] == [48, 48]
    assert "may be slower: 1.0" in report["proof"]["fixes"][0]["why"]


@pytest.mark.slow
def test_launches_of_few_pairs_are_all_measured(repo: Repository) -> None:
    repo.times(first=1.2, second=1.2, all=1.2)
    done = repo(".", "--apply", "--pairs", "12", "--output-format", "json")
    assert done.code == 0, done.err
    speeds = [each["speed"] for each in json.loads(done.out)["variants"]]
    assert [(each["verdict"], each["n"]) for each in speeds] == [("faster", 12)] * 3


@pytest.mark.slow
def test_fixes_that_are_right_alone_and_wrong_together_are_not_proved(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TRAIN.replace(
        "loss.backward()", "one, two = 1, 1\n    (loss * max(one, two)).backward()"
    )
    (repo.root / "train.py").write_text(text)
    request = planted(
        repo.root,
        TL1=("one, two = 1, 1", "one, two = 0, 1"),
        TL2=("max(one, two)", "max(one, 0)"),
        TL3=("lr=0.1", "lr=0.2"),
    )
    monkeypatch.setattr(script_mode, "TimePass", RecordedTimes)
    names = [unit.id for unit in request.units]
    monkeypatch.setattr(RecordedTimes, "ratios", dict.fromkeys((*names, "all"), 1.2))
    options = replace(request.options, device="cpu", pairs=8, launches=2, budget=100.0)
    found = script_mode.run(
        replace(request, options=options, proving=True), lambda line: None, lambda line: None
    )
    assert found.proof is not None
    assert [each.proven for each in found.proof.fixes] == [True, True, False]
    assert "results differ" in found.proof.fixes[2].why
    assert found.proof.together is not None
    assert "results differ: different" in found.proof.together.why
    assert found.proof.proven == ()
    timed = {each.id: each.speed.ratio is not None for each in found.variants}
    assert not timed[f"fix:{names[2]}"]


@pytest.mark.slow
def test_a_fix_that_no_run_reaches_is_not_proved(repo: Repository) -> None:
    repo.times(first=1.2, second=1.2)
    text = TRAIN.replace(
        "noise(weights).sum()", "(noise(weights).sum() if len(device.type) > 9 else 0)"
    )
    (repo.root / "train.py").write_text(text)
    done = repo(".", "--apply")
    assert done.code == 0, done.err
    assert repo.read("model.py") == FIXED
    assert repo.read("noise.py") == NOISE
    assert f"{SECOND}: not reached in" in done.out


# What is asked for, and how


def test_a_patch_applies_and_changes_nothing_itself(repo: Repository, tmp_path: Path) -> None:
    repo.proves(FIRST, SECOND)
    place = tmp_path / "proved.patch"
    done = repo(".", "--patch", str(place))
    assert done.code == 0, done.err
    assert repo.untouched
    git(repo.root, "apply", str(place))
    assert repo.read("model.py") == FIXED
    assert repo.read("noise.py") != NOISE


def test_a_patch_on_standard_output_is_alone_there(repo: Repository) -> None:
    repo.proves(FIRST)
    done = repo(".", "--patch", "-")
    assert done.out.startswith("--- a/model.py\n+++ b/model.py\n@@ ")
    assert "noise.py" not in done.out
    assert "Proved:" in done.err
    assert repo.untouched


def test_fix_proven_shows_the_patch_and_writes_it_with_apply(repo: Repository) -> None:
    repo.proves(FIRST)
    assert repo("--proven", ".", command="fix").out.startswith("--- a/model.py\n")
    assert repo.untouched
    done = repo("--proven", "--apply", "--commit", command="fix")
    assert done.code == 0, done.err
    message = git(repo.root, "log", "-1", "--format=%B")
    assert "torchlint fix" in message
    assert "--proven --apply --commit -- train.py" in " ".join(message.split())


@pytest.mark.slow
def test_unsafe_fixes_are_proved_too_unless_the_user_says_no(repo: Repository) -> None:
    text = TRAIN.replace(
        "    loss.backward()", "    x = torch.randn(2, 2).to(device)\n    loss.backward()"
    )
    (repo.root / "train.py").write_text(text)
    repo.proves()
    repo(".", "--apply")
    every = repo.said
    assert any("train.py" in name for name in every)
    repo(".", "--apply", "--no-unsafe-fixes")
    assert repo.said == [FIRST, SECOND]


@pytest.mark.slow
def test_a_verdict_that_the_user_names_still_fails_the_run(repo: Repository) -> None:
    repo.times(first=1.2, second=0.8)
    assert repo(".", "--apply", "--fail-on", "slower").code == 1
    assert repo.read("model.py") == FIXED


def test_nothing_to_prove_is_no_failure(repo: Repository) -> None:
    done = repo(".", "--apply", "--select", "TL901")
    assert done.code == 0
    assert "no fixes to verify" in done.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--commit",), "--commit goes with --apply"),
        (("--apply", "--patch", "x"), "--patch and --apply cannot be used together"),
        (("--apply", "--device", "virtual-cuda"), "takes no times, so it can prove nothing"),
        (("--apply", "--ablation", "none"), "times no fix alone, so it can prove none"),
        (("--patch", "model.py"), "--patch model.py: is one of the files to check"),
        (("rules", "--apply"), "needs a program behind --: rules is none"),
        (("model.py::make", "--apply"), "needs a program behind --: model.py::make is none"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_the_run(
    repo: Repository, arguments: tuple[str, ...], words: str
) -> None:
    repo.proves(FIRST, then=lambda: pytest.fail("it ran"))
    done = repo(*arguments)
    assert done.code == 2
    assert words in done.message
    assert repo.untouched


# What cannot be written


def test_a_dirty_tree_is_refused_before_the_run(repo: Repository) -> None:
    (repo.root / "noise.py").write_text(NOISE + "# mine\n")
    before = fingerprint(repo.root)
    repo.proves(FIRST, then=lambda: pytest.fail("it ran"))
    done = repo(".", "--apply", "--commit")
    assert done.code == 2
    assert done.message == (
        "--commit: there are changes since the last commit (noise.py); commit or stash them first"
    )
    assert {k: v for k, v in fingerprint(repo.root).items() if "/.git/" not in k} == {
        k: v for k, v in before.items() if "/.git/" not in k
    }


def test_a_folder_outside_git_is_refused_before_the_run(repo: Repository) -> None:
    shutil.rmtree(repo.root / ".git")
    repo.proves(FIRST, then=lambda: pytest.fail("it ran"))
    done = repo(".", "--apply", "--commit")
    assert done.code == 2
    assert done.message.endswith("is in no git repository")
    assert repo.read("model.py") == MODEL


@pytest.mark.slow
def test_a_fix_in_a_read_only_file_is_refused_and_the_others_go_on(repo: Repository) -> None:
    (repo.root / "noise.py").chmod(0o444)
    repo.proves(FIRST, SECOND)
    done = repo(".", "--apply")
    assert done.code == 1
    assert f"torchlint: not applied: {SECOND}: noise.py: is read-only, not fixed\n" in done.err
    assert repo.said == [FIRST]
    assert (repo.read("model.py"), repo.read("noise.py")) == (FIXED, NOISE)


@pytest.mark.slow
def test_a_fix_that_would_bring_a_new_file_into_git_is_refused(repo: Repository) -> None:
    (repo.root / "late.py").write_text(MODEL)
    repo.proves(FIRST)
    done = repo(".", "--apply", "--commit")
    assert done.code == 1
    assert "TL102@late.py:5: late.py: is not known to git" in done.err
    assert git(repo.root, "status", "--porcelain") == "?? late.py"
    assert git(repo.root, "log", "--format=%s").startswith("TL102: ")


@pytest.mark.slow
def test_a_fix_of_which_one_file_is_excluded_is_refused_whole(repo: Repository) -> None:
    applying = verify_apply.Applying({"patch": None, "commit": False}, ())
    request = planted(repo.root, TL1=("lr=0.1", "lr=0.2"))
    (unit,) = request.units
    more = replace(unit.replacements[0], file="model.py")
    both = replace(unit, replacements=(*unit.replacements, more))
    found = _scope_of("train.py")
    assert applying.writable([both], request.documents, found) == ()
    assert applying.refused == [f"{unit.id}: model.py: is excluded, not fixed"]
    assert applying.code == 1
    assert applying.writable([unit], request.documents, found) == (unit,)


@pytest.mark.slow
def test_a_fix_of_two_files_is_one_commit_and_is_refused_whole(repo: Repository) -> None:
    for name, text in {"data.py": two_files.DATA, "fit.py": two_files.TRAIN}.items():
        (repo.root / name).write_text(text)
    git(repo.root, "add", "-A")
    git(repo.root, "commit", "-qm", "two more")
    row = two_files.TRAIN[: two_files.TRAIN.index("x = x.to")].count("\n") + 1
    name = f"TL103@fit.py:{row}"
    repo.proves(name)
    (repo.root / "data.py").chmod(0o444)
    done = repo(".", "--select", "TL103", "--apply")
    assert f"torchlint: not applied: {name}: data.py: is read-only, not fixed\n" in done.err
    assert repo.read("fit.py") == two_files.TRAIN
    (repo.root / "data.py").chmod(0o644)
    assert repo(".", "--select", "TL103", "--apply", "--commit").code == 0
    changed = git(repo.root, "show", "--name-only", "--format=", "HEAD").split()
    assert changed == ["data.py", "fit.py"]
    assert two_files.PINNED in repo.read("data.py")
    assert two_files.MOVED in repo.read("fit.py")


def _scope_of(*paths: str) -> Any:
    from torchlint.catalog.rules import load_catalog
    from torchlint.cli.scope import scope

    given: dict[str, Any] = {
        "paths": paths,
        "stdin_filename": None,
        "configs": (),
        "isolated": True,
    }
    return scope(given, load_catalog())


@pytest.mark.slow
def test_a_link_out_of_the_project_is_refused(repo: Repository, tmp_path: Path) -> None:
    place = tmp_path / "elsewhere.py"
    place.write_text(NOISE)
    (repo.root / "noise.py").unlink()
    (repo.root / "noise.py").symlink_to(place)
    repo.proves(FIRST, SECOND)
    done = repo("model.py", "noise.py", "--apply")
    assert done.code == 1
    assert f"{SECOND}: noise.py: is a link to {place}, outside of what is fixed" in done.err
    assert (repo.read("model.py"), place.read_text()) == (FIXED, NOISE)


@pytest.mark.slow
def test_fixes_that_overlapped_are_left_to_another_run(repo: Repository) -> None:
    repo.proves(FIRST)
    real = script_mode.run

    def ran(*given: Any) -> Report:
        return replace(real(*given), skipped=(f"TL101@model.py:9: {OVERLAPS}",))

    repo.patch.setattr(script_mode, "run", ran)
    done = repo(".", "--apply")
    assert "1 fix overlapped with others: another run looks at what is left." in done.err


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--apply",), ("--apply", "--commit"), ("--patch", "out.patch")])
def test_a_file_that_changed_meanwhile_is_named_and_nothing_is_written(
    repo: Repository, how: tuple[str, ...]
) -> None:
    mine = NOISE + "# mine\n"
    repo.proves(FIRST, SECOND, then=lambda: (repo.root / "noise.py").write_text(mine))
    done = repo(".", *how)
    assert done.code == 1
    assert "noise.py" in done.err.splitlines()[-1]
    assert "torchlint: Nothing was written: " in done.err
    assert (repo.read("model.py"), repo.read("noise.py")) == (MODEL, mine)
    assert not (repo.root / "out.patch").exists()
    assert git(repo.root, "log", "--format=%s") == "start"


@pytest.mark.slow
@pytest.mark.parametrize("how", [("--apply",), ("--apply", "--commit")])
def test_an_interruption_between_two_files_leaves_neither(
    repo: Repository, monkeypatch: pytest.MonkeyPatch, how: tuple[str, ...]
) -> None:
    repo.proves(FIRST, SECOND)
    real = write.write
    written: list[str] = []

    def interrupted(document: Any, text: str, **more: bool) -> None:
        if written and text != MODEL:
            raise KeyboardInterrupt
        written.append(document.filename)
        real(document, text, **more)

    monkeypatch.setattr(write, "write", interrupted)
    done = repo(".", *how)
    assert done.code == INTERRUPTED
    assert written[0] == "model.py"
    assert repo.untouched


def test_a_signal_while_files_are_written_waits_until_all_are(
    repo: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.proves(FIRST, SECOND)
    real = write.write

    def signalled(document: Any, text: str, **more: bool) -> None:
        real(document, text, **more)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(write, "write", signalled)
    done = repo(".", "--apply", "--commit")
    assert done.code == INTERRUPTED
    assert git(repo.root, "log", "--format=%s").count("TL102") == 2
    assert git(repo.root, "status", "--porcelain") == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
def test_a_branch_that_moved_meanwhile_is_left_alone(repo: Repository) -> None:
    def meanwhile() -> None:
        git(repo.root, "commit", "-q", "--allow-empty", "-m", "theirs")

    repo.proves(FIRST, then=meanwhile)
    done = repo(".", "--apply", "--commit")
    assert done.code == 1
    assert "the branch has moved meanwhile" in done.err
    assert repo.read("model.py") == MODEL
    assert git(repo.root, "log", "-1", "--format=%s") == "theirs"


@pytest.mark.slow
def test_two_fixes_of_one_file_are_two_commits_that_add_up(repo: Repository) -> None:
    twice = MODEL + "\n\ndef more(like):\n    return torch.ones(2, 2).to(like.device)\n"
    (repo.root / "model.py").write_text(twice)
    git(repo.root, "commit", "-qam", "start")
    repo.proves(FIRST, "TL102@model.py:9")
    assert repo(".", "--apply", "--commit").code == 0
    first, second = (git(repo.root, "show", f"HEAD{at}:model.py") for at in ("~1", ""))
    assert first == twice.replace("(2, 2).to(like.device)", "(2, 2, device=like.device)", 1).strip()
    assert second == twice.replace("(2, 2).to(like.device)", "(2, 2, device=like.device)").strip()
    assert repo.read("model.py").strip() == second
