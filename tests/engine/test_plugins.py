"""Which plugins are installed: told from file names where there are none, else asked of
importlib.metadata."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile
from pathlib import Path

import pytest

from torchlint.catalog.plugins import installed

STANDARD = [
    entry for entry in sys.path if Path(entry, "json").is_dir() or Path(entry).name == "lib-dynload"
]
ENTRY = "[torchlint.rules]\nmine = my_rules\n"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is first on an import path which holds nothing else but the standard
    library."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *STANDARD])
    monkeypatch.setattr(
        sys, "meta_path", [finder for finder in sys.meta_path if isinstance(finder, type)]
    )
    return tmp_path


def distribution(folder: Path, entry_points: str, kind: str = "dist-info") -> None:
    metadata = folder / f"my_plugin-1.0.{kind}"
    metadata.mkdir(parents=True)
    (metadata / ("METADATA" if kind == "dist-info" else "PKG-INFO")).write_text(
        "Name: my-plugin\nVersion: 1.0\n"
    )
    (metadata / "entry_points.txt").write_text(entry_points)


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_an_installed_plugin_is_found(place: Path, kind: str) -> None:
    distribution(place, ENTRY, kind)
    assert [(entry.name, entry.value) for entry in installed()] == [("mine", "my_rules")]


def test_a_plugin_in_a_zip_file_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = place / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("my_plugin-1.0.dist-info/METADATA", "Name: my-plugin\nVersion: 1.0\n")
        packed.writestr("my_plugin-1.0.dist-info/entry_points.txt", ENTRY)
    monkeypatch.setattr(sys, "path", [str(archive), *STANDARD])
    assert [entry.name for entry in installed()] == ["mine"]


def test_a_plugin_in_an_egg_is_found(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    egg = place / "my_plugin-1.0-py3.11.egg"
    (egg / "EGG-INFO").mkdir(parents=True)
    (egg / "EGG-INFO" / "PKG-INFO").write_text("Name: my-plugin\nVersion: 1.0\n")
    (egg / "EGG-INFO" / "entry_points.txt").write_text(ENTRY)
    monkeypatch.setattr(sys, "path", [str(egg), *STANDARD])
    assert [entry.name for entry in installed()] == ["mine"]


def test_a_finder_that_knows_distributions_is_asked(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Finder:
        @staticmethod
        def find_spec(*_: object) -> None:
            return None

        @staticmethod
        def find_distributions(*_: object) -> list[importlib.metadata.Distribution]:
            distribution(place / "elsewhere", ENTRY)
            return [
                importlib.metadata.PathDistribution(place / "elsewhere" / "my_plugin-1.0.dist-info")
            ]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    assert [entry.name for entry in installed()] == ["mine"]


def test_nobody_is_asked_where_nothing_can_be(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    distribution(place, "[console_scripts]\nmine = my_rules\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(place / "missing")])
    monkeypatch.setattr(importlib.metadata, "entry_points", None)
    assert installed() == ()
