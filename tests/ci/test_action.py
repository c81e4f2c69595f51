"""The GitHub Action: its file is what GitHub expects, and its steps run in bash as a runner runs
them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
BASH = shutil.which("bash")
BAD = """import torch


def train(model, loader):
    for x in loader:
        mask = torch.ones(8).cuda()
        model(x, mask).sum().backward()
"""
# Stands in for a Python: makes an environment whose pip notes what it is asked for, and whose
# torchlint is this one.
PYTHON = """#!/bin/sh
[ "$1 $2" = "-I -m" ] || exit 3
case "$3" in
  venv) mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; ln -s "{torchlint}" "$4/bin/torchlint";;
  pip) shift 3; echo "$@" > "$RUNNER_TEMP/pip.txt";;
esac
"""
pytestmark = pytest.mark.skipif(BASH is None or os.name == "nt", reason="needs bash")


@dataclass
class Runner:
    """A job in a folder of its own."""

    folder: Path
    python: str

    def run(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run the action's shell steps in order, each after the last succeeded; return the last
        one."""
        values = {name: str(given.get("default", "")) for name, given in ACTION["inputs"].items()}
        values.update(
            {
                "python": self.python,
                **{name.replace("_", "-"): value for name, value in inputs.items()},
            }
        )
        assert set(values) == set(ACTION["inputs"])
        temp = self.folder.parent / "temp"
        temp.mkdir(exist_ok=True)
        for step in STEPS:
            if "run" not in step:
                continue
            own = {name: _filled(value, values) for name, value in step["env"].items()}
            places = {
                "RUNNER_TEMP": temp,
                "GITHUB_OUTPUT": temp / "output",
                "GITHUB_ACTION_PATH": ROOT,
            }
            env = {
                **os.environ,
                **{name: str(path) for name, path in places.items()},
                **own,
                "CI": "true",
            }
            script = temp / "step.sh"
            script.write_text(step["run"], encoding="utf-8")
            command = [str(BASH), "--noprofile", "--norc", "-eo", "pipefail", str(script)]
            done = subprocess.run(
                command, cwd=self.folder, env=env, capture_output=True, text=True, check=False
            )
            if done.returncode:
                break
        return done

    @property
    def installed(self) -> str:
        return (self.folder.parent / "temp" / "pip.txt").read_text().strip().rpartition(" ")[2]

    @property
    def output(self) -> str:
        return (self.folder.parent / "temp" / "output").read_text()


def _filled(text: str, inputs: dict[str, str]) -> str:
    """Return a value of ``env`` with its one expression replaced, as GitHub replaces it."""
    found = re.fullmatch(r"\$\{\{ inputs\.([\w-]+) \}\}", text)
    assert found, text
    return inputs[found[1]]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "train.py").write_text(BAD)
    python = tmp_path / "python"
    python.write_text(PYTHON.format(torchlint=Path(sys.executable).with_name("torchlint")))
    python.chmod(0o755)
    return Runner(folder, str(python))


def test_the_file_is_a_composite_action() -> None:
    assert set(ACTION) == {"name", "description", "branding", "inputs", "outputs", "runs"}
    assert ACTION["runs"]["using"] == "composite"
    for given in ACTION["inputs"].values():
        assert set(given) == {"description", "default"}
        assert isinstance(given["default"], str)
    for step in STEPS:
        assert "uses" in step or step["shell"] == "bash"
    ids = {step["id"] for step in STEPS if "id" in step}
    assert {
        re.findall(r"steps\.(\w+)\.outputs", value["value"])[0]
        for value in ACTION["outputs"].values()
    } <= ids


def test_no_input_is_pasted_into_a_script() -> None:
    """What a pull request can name must reach the shell as a variable, not as code."""
    assert not [step["name"] for step in STEPS if "${{" in step.get("run", "")]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])


def test_findings_are_annotations_and_fail_the_step(runner: Runner) -> None:
    done = runner.run()
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("::warning file=")
    assert runner.output == "exit-code=1\n"
    assert runner.installed == f"{ROOT}[html]"


def test_nothing_to_find(runner: Runner) -> None:
    (runner.folder / "train.py").write_text("x = 1\n")
    assert runner.run().returncode == 0
    assert runner.output == "exit-code=0\n"


def test_inputs(runner: Runner) -> None:
    (runner.folder / "a b").mkdir()
    (runner.folder / "a b" / "$(touch owned).py").write_text(BAD)
    (runner.folder / "other.py").write_text(BAD)
    done = runner.run(
        paths="a b\r\n\ntrain.py\n",
        args="--fail-on error\n --select TL102",
        format="concise",
        sarif_file="out.sarif",
        version="0.1.0",
    )
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()[:2]] == [
        "a b/$(touch owned).py",
        "train.py",
    ]
    assert "other.py" not in done.stdout
    assert len(json.loads((runner.folder / "out.sarif").read_text())["runs"][0]["results"]) == 2
    assert runner.installed == "torchlint[html]==0.1.0"
    assert not (runner.folder / "owned").exists()


def test_wrong_usage_is_told(runner: Runner) -> None:
    done = runner.run(format="sarf")
    assert done.returncode == 2
    assert "did you mean 'sarif'?" in done.stderr
    assert runner.output == "exit-code=2\n"


def test_no_python(runner: Runner) -> None:
    assert runner.run(python="/none/python3").returncode == 127


def test_modules_of_the_folder_are_not_run(runner: Runner) -> None:
    """Python looks for the modules of ``-m`` where it is started, and venv starts Python once
    more."""
    marker = runner.folder.parent / "marker"
    for name in (
        "venv",
        "pip",
        "ensurepip",
        "torchlint",
        "sitecustomize",
        "click",
        "subprocess",
        "logging",
    ):
        (runner.folder / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write({name!r})\n")
    python = Path(runner.python)
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@" --without-pip\n')
    done = runner.run()
    assert "No module named pip" in done.stderr, done.stderr
    assert not marker.exists(), marker.read_text()
    assert (runner.folder.parent / "temp" / "torchlint" / "pyvenv.cfg").exists()


@pytest.mark.parametrize("python", ["bin/python", "./bin/python"])
def test_a_python_of_the_folder_that_the_workflow_names(runner: Runner, python: str) -> None:
    (runner.folder / "bin").mkdir()
    Path(runner.python).rename(runner.folder / "bin" / "python")
    assert runner.run(python=python, paths="train.py").returncode == 1


@pytest.mark.slow
def test_installed_for_real(runner: Runner) -> None:
    runner.python = sys.executable
    done = runner.run(sarif_file="out.sarif")
    assert done.returncode == 1, done.stderr
    assert (runner.folder / "out.sarif").exists()
    assert runner.run(format="html:r.html").returncode == 1
    assert (runner.folder / "r.html").read_text().startswith("<!DOCTYPE html>")
