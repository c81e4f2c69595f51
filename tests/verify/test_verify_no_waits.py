"""``torchlint verify --no-waits``: a run is held to the list of the contract."""

from __future__ import annotations

import io
import json
import re
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from tests.verify.verify_lab import Ran, doctor
from torchlint.cli.main import run

ROOT = Path(__file__).parents[2]
SHOWN = ROOT / "fixtures" / "contract"
Verified = Callable[..., Ran]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the program of the documentation, with its contract."""
    return Path(shutil.copytree(SHOWN, tmp_path / "project"))


@pytest.fixture
def verified(project: Path, zygotes: None, monkeypatch: pytest.MonkeyPatch) -> Verified:
    """Return a function that holds the program of the project to its list."""
    monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", doctor)
    monkeypatch.chdir(project)

    def hold(*options: str) -> Ran:
        words = ["verify", "--no-waits", "-q", "--color", "never", "--device", "virtual-cuda"]
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run([*words, *options, "--", "train.py"])
        return Ran(code, out.getvalue(), err.getvalue())

    return hold


def change(project: Path, old: str, new: str) -> None:
    path = project / "train.py"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.mark.slow
def test_it_fails_where_a_step_waits_at_a_line_that_nobody_lists(
    project: Path, verified: Verified
) -> None:
    done = verified()
    page = (ROOT / "docs" / "no-waits.md").read_text(encoding="utf-8")
    assert (done.code, done.err) == (1, "")
    assert f"```text\n{done.out}```\n" in page


@pytest.mark.slow
def test_it_holds_where_every_wait_is_listed(project: Path, verified: Verified) -> None:
    change(project, "if norm > 100:", "if norm > 100:  # torchlint: allow-wait[bob] a guard")
    done = verified()
    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("the contract holds: every wait is listed\n")
    assert "bob: a guard" in done.out


@pytest.mark.slow
def test_it_sees_waits_of_helpers_that_no_contract_names(project: Path, verified: Verified) -> None:
    change(project, "if norm > 100:", "if guarded(norm):")
    change(
        project,
        "losses = []\n",
        "losses = []\n\n\ndef guarded(norm):\n    return bool(norm > 9)\n\n",
    )
    change(project, "def train_step", "def unlisted():\n    pass\n\n\ndef train_step")
    done = verified("--output-format", "json")
    found = json.loads(done.out)
    (line,) = [each for each in found["lines"] if each["owner"] is None]
    text = (project / "train.py").read_text(encoding="utf-8").splitlines()
    assert (found["basis"], found["holds"], done.code) == ("virtual-cuda", False, 1)
    assert text[line["line"] - 1].strip() == "return bool(norm > 9)"
    assert line["waits_per_step"] == 1.0


@pytest.mark.slow
def test_a_program_that_fails_and_one_that_stays_on_the_cpu_prove_nothing(
    project: Path, verified: Verified
) -> None:
    change(project, 'device = "cuda" if torch.cuda.is_available() else "cpu"', 'device = "cpu"')
    done = verified()
    assert (done.code, done.out) == (5, "")
    assert "the contract is not checked: nothing was predicted" in done.err
    change(project, "losses = []", "raise SystemExit(3)")
    done = verified()
    assert done.code == 3
    assert re.search("exit code 3", done.err)
    change(project, "raise SystemExit(3)", "print(undefined)")
    done = verified()
    assert done.code == 3
    said = done.err.splitlines()
    assert "  | Traceback (most recent call last):" in said
    assert any(
        re.fullmatch(r"  \|   File \".*train.py\", line \d+, in <module>", each) for each in said
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--no-waits"], "--no-waits needs a program: torchlint verify --no-waits -- train.py"),
        (["--no-waits", "--apply", "--", "train.py"], "--no-waits and --apply cannot be used"),
        (["--no-waits", "rules", "--", "train.py"], "about a program, not about functions"),
        (["--no-waits", "a.py::f", "--", "train.py"], "about a program, not about functions"),
        (["--no-waits", "--output-format", "html", "--", "a.py"], "--no-waits prints text, or"),
    ],
)
def test_what_makes_no_sense_with_it_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["verify", *words]) == 2
    assert message in capsys.readouterr().err
