"""The primer on a small scale: real files are analysed without a crash, and two runs compare as
they should."""

from __future__ import annotations

import copy
import importlib.util
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import primer

FIXTURES = Path(__file__).parents[2] / "fixtures"
SAMPLE = 30
LARGEST = 40_000
KNOWN = "the parser does not support this valid Python"
HOT = "import torch\ndef f():\n    x = torch.zeros(3).cuda()\n"


def torch_folder() -> Path:
    """Return where torch's own Python files are, without importing it."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("torch is not installed")
    return Path(next(iter(spec.submodule_search_locations)))


@pytest.fixture(scope="module")
def fixtures_run(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("packages")
    shutil.copytree(FIXTURES / "rules" / "transfer", folder / "transfer")
    shutil.copytree(FIXTURES / "seeds", folder / "seeds")
    return primer.run([folder], jobs=2)


def planted(folder: Path, text: str) -> dict[str, Any]:
    """Return a run over one package with one file; a project's findings have one identity wherever
    it lies."""
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "setup.cfg").touch()
    (folder / "package" / "train.py").write_text(text, encoding="utf-8")
    return primer.run([folder], jobs=1)


@pytest.mark.slow
def test_fixtures_are_analysed(fixtures_run: dict[str, Any]) -> None:
    assert fixtures_run["crashes"] == 0
    assert not fixtures_run["not_analysed"]
    assert fixtures_run["lines"] > 500
    assert sum(fixtures_run["findings_per_rule"].values()) > 50
    assert [package["name"] for package in fixtures_run["packages"]] == ["seeds", "transfer"]


@pytest.mark.slow
def test_files_of_torch_are_analysed(tmp_path: Path) -> None:
    root = torch_folder()
    files = [path for path in primer.sources(root) if path.stat().st_size < LARGEST]
    for path in random.Random(0).sample(files, SAMPLE):
        target = tmp_path / "torch" / path.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    kept = primer.run([tmp_path], jobs=2)
    assert kept["files"] == SAMPLE
    assert kept["crashes"] == 0
    assert all(KNOWN in reason for reason in kept["not_analysed"])


@pytest.mark.slow
def test_a_run_does_not_differ_from_itself(fixtures_run: dict[str, Any], tmp_path: Path) -> None:
    for name in ("kept.json", "kept.json.gz"):
        primer.write(tmp_path / name, fixtures_run)
        assert primer.difference(fixtures_run, primer.read(tmp_path / name)) == {}


@pytest.mark.slow
def test_a_planted_finding_is_a_difference(tmp_path: Path) -> None:
    old = planted(tmp_path / "old", "import torch\n")
    new = planted(tmp_path / "new", HOT)
    assert primer.difference(old, new) == {"TL102": (["package/train.py:3"], [])}
    assert list(primer.words(primer.difference(new, old))) == [
        "TL102: +0 -1",
        "  - package/train.py:3",
    ]


@pytest.mark.slow
def test_a_finding_that_moved_is_none_and_a_second_one_is(tmp_path: Path) -> None:
    once = planted(tmp_path / "once", HOT)
    lower = planted(tmp_path / "lower", "# words\n" + HOT)
    twice = planted(tmp_path / "twice", HOT + "    x = torch.zeros(3).cuda()\n")
    assert primer.difference(once, lower) == {}
    assert primer.difference(once, twice) == {"TL102": (["package/train.py:4"], [])}


def test_equal_findings_are_counted() -> None:
    finding = ["a.py", "TL101", 1, "f"]
    package = {"name": "p", "findings": [finding], "not_analysed": [], "crash": ""}
    two = {"packages": [{**package, "findings": [finding, ["a.py", "TL101", 9, "f"]]}]}
    assert primer.difference({"packages": [package]}, two) == {"TL101": (["p/a.py:9"], [])}


@pytest.mark.slow
def test_only_packages_of_both_runs_are_compared(fixtures_run: dict[str, Any]) -> None:
    fewer = {**fixtures_run, "packages": fixtures_run["packages"][:1]}
    assert primer.difference(fixtures_run, fewer) == {}


@pytest.mark.slow
def test_what_is_not_analysed_any_more_is_a_difference(fixtures_run: dict[str, Any]) -> None:
    worse = copy.deepcopy(fixtures_run)
    worse["packages"][0]["not_analysed"].append(
        ["a.py", "error", "took more than 30 s of CPU time"]
    )
    worse["packages"][0]["crash"] = "Traceback"
    name = worse["packages"][0]["name"]
    expected = {
        "crash": ([name], []),
        "not-analysed": ([f"{name}/a.py: took more than 30 s of CPU time"], []),
    }
    assert primer.difference(fixtures_run, worse) == expected


def test_a_package_is_checked_once(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "loose.py").write_text("y = 1\n", encoding="utf-8")
    kept = primer.run([tmp_path], jobs=1)
    assert [package["name"] for package in kept["packages"]] == ["one", f"{tmp_path.name}/*.py"]
    assert (kept["files"], kept["lines"]) == (2, 2)


@pytest.mark.parametrize(
    ("code", "out", "err", "crashed"),
    [
        (0, b"[]", b"", 0),
        (1, b"[]", b"a note", 0),
        (-11, b"", b"", 1),
        (2, b"", b"usage", 1),
        (1, b"[]", b"Traceback", 1),
    ],
)
def test_a_crash_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, out: bytes, err: bytes, crashed: int
) -> None:
    done = subprocess.CompletedProcess([], code, out, err)
    monkeypatch.setattr(primer, "torchlint", lambda paths, jobs, timeout: (done, 0.0, 0.0))
    assert planted(tmp_path, HOT)["crashes"] == crashed


@pytest.mark.slow
def test_the_commands(tmp_path: Path) -> None:
    script = Path(primer.__file__)
    (tmp_path / "project" / "package").mkdir(parents=True)
    (tmp_path / "project" / "package" / "train.py").write_text(HOT, encoding="utf-8")
    kept = tmp_path / "kept.json.gz"
    command = [sys.executable, str(script), "run", str(tmp_path / "project"), "--keep", str(kept)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "package: 1 files, 3 lines" in ran.stdout
    command = [sys.executable, str(script), "diff", str(kept), str(kept)]
    assert (
        subprocess.run(command, capture_output=True, text=True, check=True).stdout
        == "no difference\n"
    )
