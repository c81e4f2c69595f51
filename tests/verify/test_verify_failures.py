"""What ``torchlint verify`` says of programs that fail, and that it leaves nothing of them; most
import no torch."""

from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.verify.prepared import Prepared
from tests.verify.verify_lab import FAULTY, Lab, doctor, laboratory, left
from torchlint.program.command import parse
from torchlint.program.machine.doctor import diagnose
from torchlint.program.machine.sandbox import landlock_abi
from torchlint.source.document import read
from torchlint.verify.fixes import FixUnit, Replacement, Rows
from torchlint.verify.model import Expected, Report, Status
from torchlint.verify.options import Options
from torchlint.verify.script import script_mode
from torchlint.verify.script.request import Request
from torchlint.verify.session.workers import Zygote

pytestmark = [
    pytest.mark.skipif(
        not Path("/proc/self/stat").exists(), reason="needs /proc to look at processes"
    ),
    pytest.mark.usefixtures("zygotes"),
]
confined = pytest.mark.skipif(landlock_abi() == 0, reason="needs Landlock")


@pytest.fixture(name="lab")
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    with laboratory(tmp_path / "project", monkeypatch) as found:
        yield found


LOOP = """\
import os
import torch
from model import make
weights = torch.ones(2, 2, device=os.environ.get("PLACE", "cpu"), requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    (weights + make(weights)).sum().backward()
    optimizer.step()
    {then}
"""
"""A program that trains, with a line at the end of each step."""


class TestUsage:
    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                [".", "--min-effect", "abc", "--", "train.py"],
                "'abc' is no share below 1; write 3% or 0.03",
            ),
            (
                [".", "--min-effect", "100%", "--", "train.py"],
                "'100%' is no share below 1; write 3% or 0.03",
            ),
            ([".", "--budget", "0", "--", "train.py"], "'0' is no time; write 300s or 5m"),
            ([".", "--timeout", "nan", "--", "train.py"], "'nan' is no time; write 300s or 5m"),
            ([".", "--timeout", "-3s", "--", "train.py"], "'-3s' is no time; write 300s or 5m"),
            ([".", "--pairs", "7", "--", "train.py"], "7 is not in the range x>=8"),
            ([".", "--launches", "0", "--", "train.py"], "0 is not in the range x>=1"),
            (
                [".", "--device", "tpu", "--", "train.py"],
                "'tpu' is not one of 'auto', 'cuda', 'cpu', 'virtual-cuda'",
            ),
            (
                [".", "--fail-on", "bad", "--", "train.py"],
                "'bad' is none of slower, different, inconclusive, never",
            ),
            (
                [".", "--env", "=x", "--", "train.py"],
                "--env =x: write NAME=VALUE, or NAME to pass it on",
            ),
            (
                [".", "--env", "TL_UNSET", "--", "train.py"],
                "--env TL_UNSET: it is not set here; write TL_UNSET=VALUE",
            ),
            (
                [".", "--allow-write", "no/where", "--", "train.py"],
                "--allow-write no/where: there is no such file",
            ),
            (
                [".", "-o", "no/report.txt", "--", "train.py"],
                "--output-file no/report.txt: its directory does not",
            ),
            (
                [".", "-o", "model.py", "--", "train.py"],
                "--output-file model.py: is one of the files to check",
            ),
            (
                [".", "-o", "train.py", "--", "train.py"],
                "--output-file train.py: is one of the files to check",
            ),
            (
                [],
                (
                    "name what to run behind --: torchlint verify . -- train.py --epochs 1; or a "
                    "function, or 'rules'"
                ),
            ),
            (["."], "name what to run behind --: torchlint verify . -- train.py --epochs 1"),
            ([".", "--"], "name the program behind --: torchlint verify . -- train.py --epochs 1"),
            (
                [".", "--", "python"],
                "name the program behind --: torchlint verify . -- train.py --epochs 1",
            ),
            ([".", "--", "-m"], "-- -m needs a module: torchlint verify . -- -m pkg.train"),
            (
                [".", "--", "-c", "pass"],
                "cannot run -c: name a Python script, -m and a module, or torchrun",
            ),
            ([".", "--", "none.py"], "cannot run none.py: there is no such file in "),
            (
                [".", "--", "folder"],
                "cannot run folder: it is a folder; name a Python script, -m and a module, or",
            ),
            ([".", "--", "make", "train"], "cannot run make: there is no such file in "),
            (
                [".", "--", "run.sh"],
                "cannot run run.sh: name a Python script, -m and a module, or torchrun",
            ),
            ([".", "--", "../outside.py"], "../outside.py lies outside "),
            (["nowhere", "--", "train.py"], "nowhere: "),
            (
                ["-", "--", "train.py"],
                "standard input has no program to run; name files or folders",
            ),
        ],
        ids=lambda value: " ".join(value) or "nothing" if isinstance(value, list) else "",
    )
    def test_is_refused_before_anything_runs(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
    ) -> None:
        monkeypatch.delenv("TL_UNSET", raising=False)
        monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", None)
        lab.write(train="raise SystemExit('it ran')\n")
        (lab.root / "folder").mkdir()
        (lab.root / "run.sh").write_text("")
        (lab.root.parent / "outside.py").write_text("")
        ran = lab.verify(*arguments)
        assert ran.code == 2
        assert message in ran.message
        assert ran.out == ""


class TestOriginal:
    """The program itself fails: exit code 3. None of these programs imports torch, which takes
    seconds."""

    @pytest.mark.slow
    def test_crash_shows_its_last_lines(self, lab: Lab) -> None:
        lab.write(
            train="for line in range(30):\n    print('line', line)\nraise ValueError('no data')\n"
        )
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert ran.message == "train.py failed with exit code 1 after 0 steps: ValueError: no data"
        shown = [
            line.removeprefix("  | ") for line in ran.err.splitlines() if line.startswith("  | ")
        ]
        assert len(shown) == 20
        assert "line 12" not in shown
        assert shown[-1] == "ValueError: no data"
        assert "line 29" in shown

    @pytest.mark.slow
    def test_end_without_a_word(self, lab: Lab) -> None:
        lab.write(train="raise SystemExit(7)\n")
        ran = lab.verify(".", "--", "train.py")
        assert (ran.code, ran.message) == (3, "train.py failed with exit code 7 after 0 steps")

    @pytest.mark.slow
    def test_end_by_a_signal(self, lab: Lab) -> None:
        lab.write(train="import os, signal\nos.kill(os.getpid(), signal.SIGUSR1)\n")
        ran = lab.verify(".", "--", "train.py")
        assert (ran.code, ran.message) == (3, "train.py was ended by SIGUSR1 after 0 steps")

    @pytest.mark.slow
    def test_control_characters_of_the_program_do_not_reach_the_terminal(self, lab: Lab) -> None:
        lab.write(
            train="print('\\x1b[31mred', flush=True)\nraise SystemExit('\\x1b]0;title\\x07')\n"
        )
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert "\x1b" not in ran.err
        assert "red" in ran.err

    @pytest.mark.slow
    def test_hang_ends_with_all_it_started(self, lab: Lab) -> None:
        lab.write(
            train="import subprocess, time\nsubprocess.Popen(['sleep', '1000'], "
            "start_new_session=True)\n"
            "print('waiting', flush=True)\ntime.sleep(1000)\n"
        )
        ran = lab.verify(".", "--timeout", "3s", "--", "train.py")
        assert (ran.code, ran.message) == (
            3,
            "train.py timed out after 3 s after 0 steps (--timeout)",
        )
        assert "  | waiting" in ran.err

    @pytest.mark.slow
    def test_hang_that_ignores_sigterm(self, lab: Lab) -> None:
        lab.write(
            train=(
                "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile "
                "True: time.sleep(1)\n"
            )
        )
        ran = lab.verify(".", "--timeout", "3s", "--", "train.py")
        assert (ran.code, ran.message) == (
            3,
            "train.py timed out after 3 s after 0 steps (--timeout)",
        )

    @pytest.mark.slow
    def test_memory_that_the_system_refuses(self, lab: Lab) -> None:
        lab.write(
            train="import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
            "parts = []\nwhile True: parts.append(bytearray(1 << 26))\n"
        )
        ran = lab.verify(".", "--", "train.py")
        advice = "lower the batch size, or close other programs"
        assert (ran.code, ran.message) == (3, f"train.py ran out of memory after 0 steps: {advice}")

    @pytest.mark.slow
    def test_killed_by_the_system(self, lab: Lab) -> None:
        lab.write(train="import os\nos.kill(os.getpid(), 9)\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert ran.message.startswith(
            "train.py was killed after 0 steps, most often by the system for want of memory"
        )

    @pytest.mark.slow
    def test_torch_never_imported(self, lab: Lab) -> None:
        lab.write(train="print('done')\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        why = "it never imported torch, or ignores PYTHONPATH (python -I, -E)"
        assert ran.message == f"train.py: no training step was seen: {why}"

    def test_no_such_module(self, lab: Lab) -> None:
        ran = lab.verify(".", "--", "-m", "nowhere.train")
        assert ran.code == 3
        assert "No module named 'nowhere'" in ran.message

    @pytest.mark.slow
    @confined
    @pytest.mark.parametrize(
        "write",
        [
            "open({path!r}, 'w')",
            "os.mkdir({path!r})",
            "os.rename('model.py', {path!r})",
            "os.symlink('a', {path!r})",
        ],
    )
    def test_refused_write_is_named(self, lab: Lab, write: str) -> None:
        path = str(lab.root.parent / "outside")
        lab.write(train=f"import os\n{write.format(path=path)}\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert (
            f"it tried to write {path}, outside its copy: --allow-write lets a program write"
            in ran.message
        )
        assert "blocked (Landlock)" in ran.err
        assert not Path(path).exists()

    @pytest.mark.slow
    @confined
    def test_refused_change_of_the_users_own_file_is_named(self, lab: Lab) -> None:
        path = str(lab.root / "model.py")
        lab.write(train=f"import os\nos.remove({path!r})\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert f"it tried to write {path}, outside its copy" in ran.message

    @pytest.mark.slow
    @confined
    def test_failure_that_is_no_refusal_names_no_write(self, lab: Lab) -> None:
        lab.write(
            train="import os, tempfile\nos.makedirs('runs/1')\nopen('runs/1/log', 'w').write('x')\n"
            "tempfile.TemporaryFile().write(b'x')\nopen(os.devnull, 'w')\nos.makedirs('/tmp', "
            "exist_ok=True)\n"
            "open('/etc/hostname')\nopen('/nowhere/at/all', 'w')\n"
        )
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert ran.message.endswith("No such file or directory: '/nowhere/at/all'")

    def test_allowed_write(self, lab: Lab) -> None:
        outside = lab.root.parent / "out"
        outside.mkdir()
        lab.write(train=f"open({str(outside / 'note')!r}, 'a').write('x')\nraise SystemExit(7)\n")
        ran = lab.verify(".", "--allow-write", str(outside), "--", "train.py")
        assert (ran.code, ran.message) == (3, "train.py failed with exit code 7 after 0 steps")
        assert (outside / "note").read_text() == "x"

    @pytest.mark.slow
    def test_copy_alone_blocks_nothing_and_says_so(self, lab: Lab) -> None:
        outside = lab.root.parent / "note"
        lab.write(train=f"open({str(outside)!r}, 'a').write('x')\nraise SystemExit(7)\n")
        ran = lab.verify(".", "--isolation", "copy", "--", "train.py")
        assert (ran.code, ran.message) == (3, "train.py failed with exit code 7 after 0 steps")
        assert "writes to absolute paths outside the copy are NOT blocked" in ran.err
        assert outside.exists()

    @pytest.mark.slow
    def test_variables_are_passed_with_env_alone(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "one")
        monkeypatch.setenv("WANDB_API_KEY", "two")
        lab.write(
            train=(
                "import os\nraise SystemExit([os.environ.get(n) for n in ('HF_TOKEN', "
                "'WANDB_API_KEY')])\n"
            )
        )
        ran = lab.verify(".", "--env", "HF_TOKEN", "--", "train.py")
        assert ran.message.endswith(": ['one', None]")
        ran = lab.verify(".", "--env", "WANDB_API_KEY=three", "--", "train.py")
        assert ran.message.endswith(": [None, 'three']")

    @pytest.mark.slow
    def test_a_python_path_that_is_passed_goes_behind_what_the_run_needs(self, lab: Lab) -> None:
        lab.write(train="import elsewhere\nraise SystemExit(elsewhere.WORDS)\n")
        (lab.root / "lib").mkdir()
        (lab.root / "lib" / "elsewhere.py").write_text("WORDS = 'found in lib'\n")
        ran = lab.verify(".", "--env", "PYTHONPATH=lib", "--", "train.py")
        assert ran.message.endswith("found in lib")


class TestNothingToVerify:
    def test_no_finding(self, lab: Lab) -> None:
        lab.write(model="import torch\n", train="raise SystemExit('it ran')\n")
        ran = lab.verify("--", "train.py")
        assert (ran.code, ran.out) == (0, "")
        assert ran.err == "torchlint: no fixes to verify in .\n"

    def test_what_is_left_out_is_said(self, lab: Lab) -> None:
        lab.write(model="import torch\n", train="raise SystemExit('it ran')\n", broken="def (:\n")
        (lab.root / "latin.py").write_bytes(b"# \xe9\n")
        lab.write(**{"nested/__init__": ""})
        (lab.root / "nested" / "pyproject.toml").write_text("[tool.torchlint]\n")
        (lab.root / "nested" / "unsafe.py").write_text(
            "import torch\n\n\ndef grow(parts):\n    out = torch.empty(0, 4)\n    for part in "
            "parts:\n"
            "        out = torch.cat([out, part])\n    return out\n"
        )
        ran = lab.verify(".", "--", "train.py")
        first, *reasons = ran.err.splitlines()
        assert ran.code == 0
        assert first == "torchlint: no safe fixes to verify in .; with --unsafe-fixes: 1"
        assert len(reasons) == 3
        assert any(line.startswith("  broken.py:1: not analysed: ") for line in reasons)
        assert any(line.startswith("  latin.py:1: not analysed: ") for line in reasons)
        assert any(
            "@nested/unsafe.py:7: unsafe (--unsafe-fixes verifies it)" in line for line in reasons
        )

    def test_fix_outside_the_project(self, lab: Lab) -> None:
        lab.write(model="import torch\n", train="raise SystemExit('it ran')\n")
        (lab.root / "pyproject.toml").write_text("[tool.torchlint]\n")
        nested = lab.root / "nested"
        nested.mkdir()
        (nested / "pyproject.toml").write_text("[tool.torchlint]\nignore = ['TL102']\n")
        (nested / "model.py").write_text(FAULTY)
        other = lab.root.parent / "other"
        other.mkdir()
        (other / "model.py").write_text(FAULTY)
        ran = lab.verify(".", "../other", "--", "train.py")
        assert ran.code == 0
        assert f"../other/model.py: lies outside {lab.root}, the project that is copied" in ran.err


@pytest.mark.slow
class TestEnvironment:
    """Exit code 4: the machine lacks something."""

    def test_interpreter_without_torch(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        venv = lab.root.parent / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", diagnose)
        lab.write(train="raise SystemExit('it ran')\n")
        python = str(venv / "bin" / "python")
        ran = lab.verify(".", "--python", python, "--", "train.py")
        assert (ran.code, ran.message) == (
            4,
            f"no torch in {python}; use --python, or {python} -m pip install torch",
        )

    @pytest.mark.parametrize(
        ("python", "message"),
        [
            ("/nowhere/python", "no interpreter /nowhere/python; use --python"),
            ("/bin/true", "/bin/true is no Python that could be asked; use --python"),
            ("/tmp", "/tmp is a folder; give --python the interpreter in it, such as bin/python"),
        ],
    )
    def test_no_interpreter(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch, python: str, message: str
    ) -> None:
        monkeypatch.setattr("torchlint.program.machine.doctor.diagnose", diagnose)
        lab.write(train="raise SystemExit('it ran')\n")
        ran = lab.verify(".", "--python", python, "--", "train.py")
        assert (ran.code, ran.message) == (4, message)

    def test_no_gpu(self, lab: Lab) -> None:
        lab.write(train="raise SystemExit('it ran')\n")
        ran = lab.verify(".", "--device", "cuda", "--", "train.py")
        assert ran.code == 4
        assert ran.message.startswith("--device cuda: torch in ")

    def test_no_room_for_the_copies(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("torchlint.program.machine.workspace.free_bytes", lambda folder: 10)
        lab.write(train="raise SystemExit('it ran')\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 2
        assert ran.message.endswith("has 0 MB free; set TMPDIR to a larger disk")

    def test_disk_that_fills_up(self, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
        def full(source: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("torchlint.program.machine.copying.copy_file", full)
        lab.write(train="raise SystemExit('it ran')\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 2
        assert ran.message.endswith(" is full; set TMPDIR to a larger one")

    def test_project_that_holds_the_temporary_folder(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        inner = lab.root / "tmp"
        inner.mkdir()
        monkeypatch.setattr("torchlint.program.machine.workspace._base", lambda: inner)
        lab.write(train="raise SystemExit('it ran')\n")
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 2
        assert ran.message.startswith(
            f"{lab.root} holds {inner}, where its copies would go; set TMPDIR to a folder"
        )


@pytest.mark.slow
class TestTraining:
    """Programs that train until something goes wrong: each imports torch in two processes."""

    def test_crash_keeps_the_steps_that_were_done(self, lab: Lab) -> None:
        lab.write(train=LOOP.format(steps=20, then="assert step < 3, 'no more data'"))
        ran = lab.verify(".", "--", "train.py")
        message = "train.py failed with exit code 1 after 4 steps: AssertionError: no more data"
        assert (ran.code, ran.message) == (3, message)

    def test_no_steps(self, lab: Lab) -> None:
        lab.write(train=LOOP.format(steps=0, then="pass"))
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert ran.message.startswith(
            "train.py: no training step was seen: it ended before any optimizer step"
        )

    def test_code_from_the_users_own_tree(self, lab: Lab) -> None:
        lab.write(
            train=f"import sys\nsys.path.insert(0, {str(lab.root)!r})\n"
            + LOOP.format(steps=20, then="pass")
        )
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        place = lab.root / "model.py"
        assert ran.message.startswith(
            f"model came from your tree ({place}), not from the copy, so no fix would have"
        )


ODD = """\
import os
import torch
import linked
from pkg.model import make

assert os.environ["MY_API_KEY"] == "given"
assert open("../big.bin", "rb").read(3) == b"big"
assert open("../out of the tree").read() == "shared"
open("log.txt", "x").write("a program that wants to be the first one here")
for number in range(3):
    try:
        open(f"{outside}/{{number}}.txt", "w")
    except OSError:
        pass
try:
    torch.save(torch.ones(2), "{outside}/weights.pt")
except RuntimeError:
    pass
weights = torch.ones(2, 2, device=os.environ.get("PLACE", "cpu"), requires_grad=True)
optimizer = torch.optim.SGD([weights], lr=0.1)
for step in range(100):
    try:
        optimizer.zero_grad()
        (weights + make(weights) + linked.make(weights)).sum().backward()
        optimizer.step()
    except:
        pass
"""
"""Everything unusual at once: it must be run as if there were nothing unusual."""


@dataclass
class Odd:
    lab: Lab
    code: int
    report: dict[str, Any]
    outside: Path


@pytest.fixture(scope="module", name="odd")
def verified(tmp_path_factory: pytest.TempPathFactory, prepared: Prepared) -> Iterator[Odd]:
    """A project with an odd name, verified from a subfolder."""
    base = tmp_path_factory.mktemp("odd")
    outside, shared, output = base / "outside", base / "shared", base / "report.json"
    outside.mkdir()
    shared.mkdir()
    with pytest.MonkeyPatch.context() as patch, laboratory(base / "my Übung", patch) as lab:
        (lab.root / "model.py").unlink()
        (lab.root / "pyproject.toml").write_text("[tool.torchlint]\n")
        lab.write(**{"pkg/model": FAULTY, "pkg/unused": FAULTY, "pkg/__init__": ""})
        lab.write(**{"sub dir/train": ODD.format(outside=outside)})
        (shared / "linked.py").write_text(FAULTY)
        (shared / "text").write_text("shared")
        (lab.root / "linked.py").symlink_to(shared / "linked.py")
        (lab.root / "out of the tree").symlink_to("../shared/text")
        with (lab.root / "big.bin").open("wb") as big:
            big.write(b"big")
            big.truncate(70_000_000)
        (lab.root / "pkg").chmod(0o555)
        patch.setattr(Zygote, "_start", prepared.zygote)
        patch.chdir(lab.root / "sub dir")
        patch.setenv("PYTHONPATH", str(lab.root))
        patch.setenv("MY_API_KEY", "given")
        ran = lab.verify(
            *(
                "..",
                "--device",
                "virtual-cuda",
                "--ablation",
                "none",
                "--output-format",
                "json",
                "-o",
                str(output),
            ),
            *("--env", "MY_API_KEY", "--", "train.py"),
        )
        assert output.exists(), ran.err
        yield Odd(lab, ran.code, json.loads(output.read_text(encoding="utf-8")), outside)
        assert (shared / "linked.py").read_text() == FAULTY
        (lab.root / "pkg").chmod(0o755)


@pytest.mark.slow
class TestOddProject:
    def test_it_runs(self, odd: Odd) -> None:
        assert odd.code == 0, odd.report
        assert odd.report["safety"]["tree_unchanged"] is True

    def test_each_run_starts_with_nothing_left_of_the_last(self, odd: Odd) -> None:
        (together,) = [variant for variant in odd.report["variants"] if len(variant["fixes"]) == 2]
        # Each run comes after one that has written log.txt, and would fail where that is still
        # there.
        assert together["counts"]["unavailable"].startswith(
            "nothing was predicted, as the program stayed on the CPU"
        )
        assert together["equivalence"]["level"] == "bitwise"

    def test_fix_that_is_never_run(self, odd: Odd) -> None:
        exercised = {
            fix: variant["exercised"]
            for variant in odd.report["variants"]
            for fix in variant["fixes"]
        }
        assert exercised["TL102@pkg/model.py:5"] is True
        assert exercised["TL102@pkg/unused.py:5"] is False

    def test_fix_of_a_file_that_is_a_link_out_of_the_project(self, odd: Odd) -> None:
        exercised = {
            fix: variant["exercised"]
            for variant in odd.report["variants"]
            for fix in variant["fixes"]
        }
        assert exercised["TL102@linked.py:5"] is True

    @confined
    def test_refused_writes_are_named(self, odd: Odd) -> None:
        blocked = odd.report["safety"]["blocked_writes"]
        assert blocked == [
            str(odd.outside / name) for name in ("0.txt", "1.txt", "2.txt", "weights.pt")
        ]
        assert list(odd.outside.iterdir()) == []


def verify(lab: Lab, unit: FixUnit, **settings: Any) -> Report:
    """Verify a fix that no rule makes."""
    lab.write(train=LOOP.format(steps=40, then="pass"))
    options = Options(**{"check_steps": 5, "warmup": 2, "device": "virtual-cuda", **settings})
    document = read(str(lab.root / "model.py"), "model.py", 0)
    command = parse(["train.py"], lab.root, lab.root)
    documents = {"model.py": document}
    request = Request(
        lab.root, lab.root, command, (unit,), documents, (), options, doctor(sys.executable)
    )
    return script_mode.run(request, lambda line: None, lambda line: None)


def fix(old: str, new: str, row: int) -> FixUnit:
    """Return a fix that puts `new` in the place of `old` in model.py."""
    start = FAULTY.index(old)
    edit = Replacement("model.py", start, start + len(old), new)
    place = Rows("model.py", row, row)
    return FixUnit(
        "TL000@model.py", ("TL000",), "Break", "model.py", Expected.BITWISE, "", (edit,), (place,)
    )


@pytest.mark.slow
class TestFixThatBreaks:
    """Only a variant fails: its row says so, and counts as different."""

    def test_it_crashes(self, lab: Lab) -> None:
        report = verify(lab, fix("return torch.zeros(2, 2)", "return 1 / 0, torch.zeros(2, 2)", 5))
        (variant,) = report.variants
        assert variant.status is Status.BROKEN
        assert (
            variant.error
            == "failed with exit code 1 after 0 steps: ZeroDivisionError: division by zero"
        )
        assert variant.equality is not None
        assert not variant.equality.ok
        assert variant.counts is None
        assert left(lab.temp) == []

    def test_it_crashes_while_it_is_timed(self, lab: Lab) -> None:
        calls = "import itertools; count = globals().setdefault('count', itertools.count())"
        late = f"{calls}; next(count) < 30 or 1 / 0; return"
        report = verify(lab, fix("return", late, 5), device="cpu", launches=1, pairs=8, block=10)
        (variant,) = report.variants
        assert variant.status is Status.BROKEN
        assert re.fullmatch(
            r"failed with exit code 1 after \d+ steps: ZeroDivisionError: .*", variant.error
        )
        assert variant.equality is not None
        assert not variant.equality.ok

    def test_it_hangs(self, lab: Lab) -> None:
        report = verify(
            lab, fix("return", "import time; time.sleep(1000); return", 5), timeout=40.0
        )
        (variant,) = report.variants
        assert variant.status is Status.TIMEOUT
        assert variant.error == "timed out after 40 s after 0 steps (--timeout)"
        assert left(lab.temp) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("steps", "then", "why"),
    [
        (
            24,
            "pass",
            r"only [0-7] rounds?; the program ends after 24 steps: have it take more",
        ),
        (
            60,
            "assert step < 50, 'no data'",
            r"only \d rounds; .*; it failed with exit code 1 after 51 steps: .*: no data",
        ),
    ],
)
def test_program_with_too_few_steps(lab: Lab, steps: int, then: str, why: str) -> None:
    lab.write(train=LOOP.format(steps=steps, then=then))
    output = lab.root.parent / "report.json"
    settings = (
        "--block",
        "10",
        "--fail-on",
        "inconclusive",
        "--output-format",
        "json",
        "-o",
        str(output),
    )
    ran = lab.verify(".", *settings, "--", "train.py")
    (variant,) = json.loads(output.read_text())["variants"]
    assert ran.code == 1
    assert variant["speed"]["verdict"] == "inconclusive"
    assert re.fullmatch(why, variant["speed"]["why"]), variant["speed"]["why"]


@pytest.mark.slow
def test_writes_that_nothing_refuses_are_named(lab: Lab) -> None:
    outside = lab.root.parent / "note"
    lab.write(
        train=f"open({str(outside)!r}, 'a').write('x')\n" + LOOP.format(steps=20, then="pass")
    )
    settings = ("--isolation", "copy", "--device", "virtual-cuda", "--check-steps", "5")
    ran = lab.verify(".", *settings, "--", "train.py", settings=())
    assert ran.code == 0
    assert f"the program wrote outside its copy: {outside}" in ran.out
    assert "Blocked write" not in ran.out


@pytest.mark.slow
def test_kept_copies_of_a_program_that_fails(lab: Lab) -> None:
    lab.write(train="raise SystemExit(7)\n")
    lab.keeps = ["torchlint-"]
    ran = lab.verify(".", "--keep", "--", "train.py")
    (folder,) = lab.temp.glob("torchlint-*")
    assert ran.code == 3
    assert f"runs your code in copies under {folder};" in ran.err
    assert (folder / "v0" / "project" / "train.py").exists()


@pytest.mark.slow
class TestBeside:
    """Programs that read or write what lies beside their project, where the copy has nothing."""

    READS = "print(open('../data/points').read())\nraise SystemExit(7)\n"

    @pytest.fixture
    def data(self, lab: Lab) -> Path:
        folder = lab.root.parent / "data"
        folder.mkdir()
        (folder / "points").write_text("so many points")
        return folder

    @confined
    def test_what_lies_beside_the_project_is_read(self, lab: Lab, data: Path) -> None:
        lab.write(train=self.READS)
        ran = lab.verify(".", "--", "train.py")
        assert ran.code == 3
        assert ran.message.endswith("exit code 7 after 0 steps: so many points")

    @confined
    def test_a_program_trains_on_what_lies_beside_it(self, lab: Lab, data: Path) -> None:
        lab.write(model=FAULTY, train="open('../data/points')\n" + LOOP.format(steps=40, then=""))
        ran = lab.verify(".", "--output-format", "json", "--", "train.py")
        assert ran.code == 0, ran.err
        (variant,) = json.loads(ran.out)["variants"]
        assert variant["equivalence"]["ok"]

    @confined
    def test_it_is_not_written(self, lab: Lab, data: Path) -> None:
        lab.write(train="open('../data/points', 'w')\n")
        ran = lab.verify(".", "--", "train.py")
        assert (
            f"it tried to write {data / 'points'}, outside its copy: --allow-write" in ran.message
        )
        assert ran.message.endswith("copies the path too: torchlint verify .. -- train.py")
        assert (data / "points").read_text() == "so many points"

    @confined
    def test_a_new_folder_is_named_where_it_would_be(self, lab: Lab) -> None:
        lab.write(train="import os\nos.mkdir('../data')\n")
        ran = lab.verify(".", "--", "train.py")
        assert f"it tried to write {lab.root.parent / 'data'}, outside its copy" in ran.message

    @pytest.mark.parametrize(
        ("program", "folder"),
        [
            (READS, ""),
            ('import sys\nsys.exit("can\'t open/read file: ../data/points")\n', ""),
            (
                "from pathlib import Path\nopen(Path(__file__).parents[1] / 'data/points')\n",
                "",
            ),
            ("open('../../data/points')\n", "part"),
        ],
        ids=["relative", "without quotes", "absolute", "from a folder below"],
    )
    def test_without_links_the_file_and_the_command_are_named(
        self, lab: Lab, data: Path, program: str, folder: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lab.write(**{os.path.join(folder, "train"): program})
        monkeypatch.chdir(lab.root / folder)
        ran = lab.verify(str(lab.root), "--isolation", "copy", "--", "train.py", "--epochs", "1")
        up = os.path.relpath(lab.root.parent)
        assert ran.message.endswith(
            f"; {data / 'points'} lies outside of {lab.root}, the project that was copied; copy it "
            f"too: torchlint verify {up} -- train.py --epochs 1"
        )

    def test_the_command_names_the_folder_to_run_in(
        self, lab: Lab, data: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lab.write(train=self.READS)
        monkeypatch.chdir(lab.root.parent)
        ran = lab.verify("project", "--isolation", "copy", "--", "train.py")
        assert ran.message.endswith("too: cd project && torchlint verify .. -- train.py")

    def test_the_command_that_is_named_works(self, lab: Lab, data: Path) -> None:
        lab.write(train=self.READS)
        ran = lab.verify("..", "--isolation", "copy", "--", "train.py")
        assert ran.code == 3
        assert ran.message.endswith("exit code 7 after 0 steps: so many points")

    def test_what_is_missing_everywhere_has_no_advice(self, lab: Lab) -> None:
        lab.write(train=self.READS)
        ran = lab.verify(".", "--isolation", "copy", "--", "train.py")
        assert ran.message.endswith("No such file or directory: '../data/points'")


@pytest.mark.slow
def test_a_short_program_is_timed_in_shorter_blocks(lab: Lab) -> None:
    lab.write(train=LOOP.format(steps=60, then="pass"))
    output = lab.root.parent / "report.json"
    settings = ("--pairs", "12", "--launches", "2", "--output-format", "json", "-o", str(output))
    ran = lab.verify(".", *settings, "--", "train.py", settings=())
    assert ran.code in (0, 1), ran.err
    (variant,) = json.loads(output.read_text())["variants"]
    assert variant["speed"]["n"] >= 8
