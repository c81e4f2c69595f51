"""How long lines may be is what the project's formatter or style checker says."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.settings.line_length import declared_length
from torchlint.settings.load import load_settings

SAID = [
    ("pyproject.toml", "[tool.black]\nline-length = 79\n", 79),
    ("pyproject.toml", "[tool.black]\nskip-string-normalization = true\n", 88),
    ("pyproject.toml", "[tool.black]\nline-length = 79\n[tool.ruff]\nline-length = 99\n", 99),
    ("pyproject.toml", "[tool.yapf]\ncolumn_limit = 91\n", 91),
    ("pyproject.toml", "[tool.autopep8]\nmax_line_length = 92\n", 92),
    ("pyproject.toml", "[tool.black]\nline-length = 'wide'\n", 88),
    ("pyproject.toml", "[tool.black]\nline-length = 5\n", 0),
    ("pyproject.toml", "[project]\nname = 'a'\n", 0),
    ("pyproject.toml", "[tool.black\n", 0),
    ("ruff.toml", "line-length = 110\n", 110),
    (".ruff.toml", "", 88),
    ("setup.cfg", "[flake8]\nmax-line-length = 101\n", 101),
    ("setup.cfg", "[yapf]\ncolumn_limit = 102\n", 102),
    ("setup.cfg", "[metadata]\nname = a\n", 0),
    ("setup.cfg", "no section\n", 0),
    ("tox.ini", "[pycodestyle]\nmax_line_length = 103\n", 103),
    (".flake8", "[flake8]\nmax-line-length = 104\n", 104),
    (".flake8", "[flake8]\nmax-line-length = many\n", 0),
    (".style.yapf", "[style]\ncolumn_limit = 105\n", 105),
    (".editorconfig", "[*]\nmax_line_length = 106\n", 106),
    (".editorconfig", "[*]\nmax_line_length = 80\n[*.{py,pyi}]\nmax_line_length=107 # ours\n", 107),
    (".editorconfig", "[*.md]\nmax_line_length = 80\n[*.py]\nmax_line_length = off\n", 0),
]


@pytest.mark.parametrize(("name", "text", "length"), SAID)
def test_what_the_formatter_says_is_the_limit(
    tmp_path: Path, name: str, text: str, length: int
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert declared_length(str(tmp_path)) == length
    assert load_settings(None, root=str(tmp_path)).line_length == length


def test_a_formatter_goes_before_a_checker(tmp_path: Path) -> None:
    (tmp_path / ".flake8").write_text("[flake8]\nmax-line-length = 200\n", encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text("[tool.black]\n", encoding="utf-8")
    assert declared_length(str(tmp_path)) == 88


def test_our_own_key_goes_before_both(tmp_path: Path) -> None:
    config = tmp_path / "torchlint.toml"
    config.write_text("line-length = 120\n", encoding="utf-8")
    (tmp_path / "ruff.toml").write_text("line-length = 100\n", encoding="utf-8")
    assert load_settings(str(config)).line_length == 120


def test_what_is_no_file_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    (tmp_path / "setup.cfg").mkdir()
    assert declared_length(str(tmp_path)) == 0
