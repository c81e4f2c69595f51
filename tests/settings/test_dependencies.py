"""The torch that a project is for is read from its lists of dependencies, which are text from a
stranger."""

from __future__ import annotations

import os
import textwrap
import time
from pathlib import Path

import pytest

from torchlint.settings.dependencies import Declared, declared_above, declared_in, watched
from torchlint.settings.files import find_config
from torchlint.settings.keys import CONFIGURED
from torchlint.settings.load import in_folder, load_settings
from torchlint.settings.versions import DEFAULT_TORCH

SETUP = """
from setuptools import setup
# "torch>=1.1" was enough once
NEEDED = ['numpy', "torch >= 1.8"]
setup(name="x", install_requires=NEEDED, long_description='''
    torch is needed''')
"""
CONDA = """
name: x
channels: [pytorch]
dependencies:
  - python=3.9
  - pytorch::pytorch=1.12=py3.9_cuda11.6
  - pip:
    - einops
"""
POETRY = '[tool.poetry.dependencies]\ntorch = {version = "^1.13", source = "pytorch"}\n'

LINKED = """\
Name: x
Requires-Dist: torch

Needs:
- [PyTorch](https://pytorch.org/)>=1.11.0
- [Torchvision](https://pytorch.org/vision)>=0.12.0
- [PyTorch Lightning](https://lightning.ai)>=1.0
"""


@pytest.mark.parametrize(
    ("name", "text", "bound"),
    [
        ("requirements.txt", "numpy\ntorch>=1.8  # at least\n", (1, 8)),
        ("requirements.txt", "torch==1.13.1+cu117 ; python_version < '3.11'\n", (1, 13)),
        ("requirements.txt", "torch[opt]~=2.1.0\n", (2, 1)),
        ("requirements.txt", "torch==2.0.1 \\\n    --hash=sha256:00\n", (2, 0)),
        (
            "requirements.txt",
            "torch @ https://example.org/whl/torch-1.13.1%2Bcu117-cp310-linux.whl\n",
            (1, 13),
        ),
        ("requirements.txt", "https://example.org/whl/torch-2.0.1-cp310-linux.whl\n", (2, 0)),
        ("requirements.txt", "torch<2\n", (1, 13)),
        ("requirements.txt", "torch<2.4\n", (2, 3)),
        ("requirements.txt", "torch<=2.2.1\n", (2, 2)),
        ("requirements.txt", "torch<3\n", None),
        ("requirements.txt", "torch\ntorchvision>=0.9\npytorch-lightning>=1.5\n", None),
        ("requirements.txt", "-r other.txt\n-e .\n==\ntorch>=\n", None),
        ("requirements-dev.txt", "torch>=2.2", (2, 2)),
        ("dev_requirements.txt", "torch>=2.2", (2, 2)),
        ("requirements/base.txt", "torch>=1.9", (1, 9)),
        ("setup.py", SETUP, (1, 8)),
        ("setup.py", "setup(install_requires='''\nnumpy\ntorch==1.10.0\n'''.split())", (1, 10)),
        ("setup.cfg", "[options]\ninstall_requires =\n    numpy\n    torch>=1.7\n", (1, 7)),
        ("setup.cfg", "[options]\ninstall_requires = torch>=1.7\n", (1, 7)),
        ("PKG-INFO", "Name: x\nRequires-Dist: torch!=1.8,>=1.13.1\n\ntorch>=1.2\n", (1, 13)),
        ("PKG-INFO", "Name: torch-x\nSummary: torch>=1.2\n\nRequires-Dist: torch>=1.2\n", None),
        ("x-1.0.dist-info/METADATA", "Name: x\nRequires-Dist: torch (>=1.7.0)\n", (1, 7)),
        ("PKG-INFO", LINKED, (1, 11)),
        ("PKG-INFO", "Name: x\nRequires-Dist: torch\n\nTested with PyTorch >= 2.1.\n", None),
        ("PKG-INFO", "Name: x\n\n* PyTorch version >= 1.12\n* torchvision>=0.9\n", (1, 12)),
        ("PKG-INFO", "Name: x\n\nThe main branch works with **PyTorch 1.6+**.\n", (1, 6)),
        ("PKG-INFO", "Name: x\n\nNeeds Python 3.8 and PyTorch 1.10 or later.\n", (1, 10)),
        ("x.egg-info/PKG-INFO", "Name: x\nRequires-Dist: torch>=2.2\n", (2, 2)),
        ("x.egg-info/requires.txt", "numpy\n\n[train]\ntorch>=2.2\n", (2, 2)),
        ("x.egg-info/top_level.txt", "torch>=2.2\n", None),
        ("environment.yml", CONDA, (1, 12)),
        ("env.yml", CONDA, (1, 12)),
        ("conda.yaml", CONDA, (1, 12)),
        ("environment.yaml", "dependencies:\n- pytorch>=1.10\n- pip:\n  - torch==1.9.0\n", (1, 9)),
        ("pyproject.toml", "[project.optional-dependencies]\ntrain = ['torch>=2.1']\n", (2, 1)),
        (
            "pyproject.toml",
            "[dependency-groups]\ndev = ['torch>=2.1', {include-group = 'x'}]\n",
            (2, 1),
        ),
        ("pyproject.toml", POETRY, (1, 13)),
        ("pyproject.toml", "[tool.poetry.dependencies]\ntorch = '2.0.1'\n", (2, 0)),
        ("notes.txt", "torch>=1.8", None),
    ],
)
def test_a_bound_is_read(
    tmp_path: Path, name: str, text: str, bound: tuple[int, int] | None
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(textwrap.dedent(text))
    found = declared_in(str(tmp_path))
    assert (found and found[:2]) == (None if bound is None else (bound, str(path)))


def test_an_environment_of_several_wheels_says_nothing(tmp_path: Path) -> None:
    for name in ("x-1.0.dist-info", "y-2.0.dist-info", "x.egg-info", "y.egg-info"):
        (tmp_path / name).mkdir()
        file = "METADATA" if name.endswith("dist-info") else "PKG-INFO"
        (tmp_path / name / file).write_text("Requires-Dist: torch>=1.7\n")
    assert declared_in(str(tmp_path)) is None


def test_a_wheel_counts_for_its_package_beside_it(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "x-1.0.dist-info").mkdir()
    (tmp_path / "x-1.0.dist-info" / "METADATA").write_text("Requires-Dist: torch>=1.7\n")
    assert load_settings(None, start=str(tmp_path / "x")).target_torch == (1, 7)


def test_the_lowest_of_several_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.5.1\n")
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "requirements-gpu.txt").write_text("torch>=2.0\n")
    found = declared_in(str(tmp_path))
    assert found is not None
    assert found[:2] == ((1, 8), str(tmp_path / "setup.py"))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_a_list_with_a_byte_order_mark_is_read(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "requirements.txt").write_bytes("torch==1.13.1\r\n".encode(encoding))
    found = declared_in(str(tmp_path))
    assert found is not None
    assert found[:2] == ((1, 13), str(tmp_path / "requirements.txt"))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("requirements.txt", b"torch>=1.8\n" + b"#" * 1_000_000),
        ("requirements.txt", b"torch" + b" " * 900_000 + b">=x"),
        ("requirements.txt", b"torch" + b"(" * 900_000),
        ("setup.py", b"'torch" + b"\\\\'" * 300_000),
        ("setup.py", b"'''torch " + b"'' " * 300_000),
        ("setup.py", b'"torch\n' * 140_000),
        ("setup.py", b"(" * 900_000),
        ("setup.cfg", b"torch=" * 160_000),
        ("environment.yml", b"- " + b"a" * 900_000 + b"torch"),
        ("environment.yml", b"- " + b"a/" * 450_000),
        ("pyproject.toml", b"[project]\ndependencies = ['torch>=1.8'\n" * 20_000),
        ("pyproject.toml", b"\xff\xfe\x00"),
    ],
    ids=range(12),
)
def test_a_hostile_list_says_nothing_and_takes_no_time(
    tmp_path: Path, name: str, data: bytes
) -> None:
    (tmp_path / name).write_bytes(data)
    start = time.process_time()
    assert declared_in(str(tmp_path)) is None
    assert time.process_time() - start < 5


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "requirements.txt")
    os.mkfifo(tmp_path / "requirements-x.txt")
    (tmp_path / "setup.py").mkdir()
    (tmp_path / "setup.cfg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "requirements").write_text("torch>=1.8")
    assert declared_in(str(tmp_path)) is None


def test_setup_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nx = 'torch>=1.8'\n")
    assert declared_in(str(tmp_path)) is not None
    assert not (tmp_path / "ran").exists()


def test_the_nearest_list_holds_for_a_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "requirements.txt").write_text("torch>=2.5")
    (tmp_path / "old" / "deep").mkdir(parents=True)
    (tmp_path / "old" / "pyproject.toml").write_text("[project]\ndependencies = ['torch>=1.8']\n")
    (tmp_path / "new").mkdir()
    settings = load_settings(None, start=str(tmp_path))
    assert (settings.target_torch, settings.target_torch_from) == (
        (2, 5),
        str(tmp_path / "requirements.txt"),
    )
    deep = in_folder(settings, str(tmp_path / "old" / "deep"), {})
    assert (deep.target_torch, deep.target_torch_from) == (
        (1, 8),
        str(tmp_path / "old" / "pyproject.toml"),
    )
    assert in_folder(settings, str(tmp_path / "new"), {}) is settings
    assert in_folder(settings, str(tmp_path.parent), {}) is settings


def test_a_folder_without_lists_asks_those_above_it(tmp_path: Path) -> None:
    (tmp_path / "environment.yml").write_text("dependencies:\n  - pytorch=1.8.0\n")
    (tmp_path / "src" / "deep").mkdir(parents=True)
    settings = load_settings(None, start=str(tmp_path / "src" / "deep"))
    assert (settings.target_torch, settings.root) == ((1, 8), str(tmp_path / "src" / "deep"))
    (tmp_path / "src" / "environment.yml").write_text("dependencies:\n  - numpy\n")
    assert load_settings(None, start=str(tmp_path / "src" / "deep")).target_torch == (2, 4)


@pytest.mark.parametrize("folder", [os.sep, os.path.join(os.sep, "no", "such", "folder")])
def test_the_root_of_the_file_system_ends_the_search(folder: str) -> None:
    """It is the project of what lies in a container's top folder."""
    memory: dict[str, Declared | None] = {}
    assert declared_above(folder, os.sep, memory) is None
    assert os.sep not in memory


def test_what_is_configured_holds_everywhere(tmp_path: Path) -> None:
    (tmp_path / "torchlint.toml").write_text("target-torch = '2.6'\n")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "requirements.txt").write_text("torch>=1.8")
    settings = load_settings(find_config(str(tmp_path)))
    assert settings.target_torch_from == CONFIGURED
    assert in_folder(settings, str(tmp_path / "old"), {}).target_torch == (2, 6)


@pytest.mark.parametrize(
    ("requirement", "newest"),
    [
        ("torch==2.0.0", (2, 0)),
        ("torch==2.1", (2, 1)),
        ("torch===1.13.1+cu117", (1, 13)),
        ("torch==2.2.*", (2, 2)),
        ("torch~=2.2.1", (2, 2)),
        ("torch @ https://x.org/torch-1.13.1-cp310.whl", (1, 13)),
        ("torch>=1.8,<2.4", (2, 3)),
        ("torch<=2.2", (2, 2)),
        ("torch==2.*", None),
        ("torch~=2.0", None),
        ("torch>=2.0", None),
        ("torch==2.0.1\ntorch>=2.1; python_version > '3.11'", None),
        ("torch==2.0.1\ntorch==2.1.0; python_version > '3.11'", (2, 1)),
    ],
)
def test_the_last_torch_that_is_allowed(
    tmp_path: Path, requirement: str, newest: tuple[int, int] | None
) -> None:
    (tmp_path / "requirements.txt").write_text(requirement)
    assert load_settings(None, start=str(tmp_path)).newest_torch == newest


@pytest.mark.parametrize(("other", "newest"), [("torch>=2.0", None), ("torch", (2, 0))])
def test_all_lists_hold_torch_fast(
    tmp_path: Path, other: str, newest: tuple[int, int] | None
) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.0.0")
    (tmp_path / "requirements-gpu.txt").write_text(other)
    assert load_settings(None, start=str(tmp_path)).newest_torch == newest


def test_a_list_of_a_folder_takes_the_place_of_the_one_above_it(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==2.0.0")
    for name, torch in (("open", "torch>=1.8"), ("fast", "torch==2.2.2")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "requirements.txt").write_text(torch)
    settings = load_settings(None, start=str(tmp_path))
    found = [
        in_folder(settings, str(tmp_path / name), {}).newest_torch for name in ("open", "fast")
    ]
    assert found == [None, (2, 2)]


@pytest.mark.parametrize(
    ("files", "bound"),
    [
        ({"README.md": "# Nets\n```shell\ntorch >= 1.6.0\n```\n"}, (1, 6)),
        ({"README.rst": "Needs\n\n- PyTorch>=1.7\n", "requirements.txt": "torch\n"}, (1, 7)),
        ({"README.md": "It works with PyTorch 1.9+ on Linux.\n", "net/README.md": ""}, (1, 9)),
        ({"README.md": "torch >= 1.6.0\n", "requirements.txt": "torch>=2.5\n"}, (2, 5)),
        ({"README.md": "# Nets\n", "net/README.md": "torch >= 1.6.0\n"}, None),
        ({"README.md": "torchvision >= 0.7\nResults are of PyTorch 1.6.\n"}, None),
        ({"NOTES.md": "torch >= 1.6.0\n"}, None),
    ],
)
def test_a_readme_says_what_no_list_says(
    tmp_path: Path, files: dict[str, str], bound: tuple[int, int] | None
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "net").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    settings = load_settings(None, start=str(tmp_path))
    inner = in_folder(settings, str(tmp_path / "net"), {})
    for each in (settings, inner):
        assert each.target_torch == (bound or DEFAULT_TORCH)
        assert bool(each.target_torch_from) is (bound is not None)


def test_a_run_is_done_again_when_the_readme_changed(tmp_path: Path) -> None:
    names = [os.path.basename(path) for path in watched(str(tmp_path))]
    assert "README.md" in names
