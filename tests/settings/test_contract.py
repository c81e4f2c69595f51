"""``[tool.torchlint.no-waits]``: what it may say, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from torchlint.base.contract import UNSAID, Allowed, Contract
from torchlint.base.errors import ConfigError
from torchlint.settings.load import load_settings

ENTRY = '{ at = "train.py:step", line = "loss.item()", owner = "ada", reason = "the log" }'


def read(folder: Path, text: str) -> Contract:
    path = folder / "torchlint.toml"
    path.write_text(text, encoding="utf-8")
    return load_settings(str(path)).no_waits


def test_it_names_functions_files_decorators_and_listed_waits(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        '[no-waits]\nfunctions = ["train.step"]\nfiles = ["steps/*.py"]\n'
        f'decorators = ["hot"]\nallow = [{ENTRY}]\n',
    )
    assert found == Contract(
        ("train.step",),
        ("steps/*.py",),
        ("hot",),
        (Allowed("train.py:step", "loss.item()", "ada", "the log"),),
    )


def test_what_it_does_not_say_stays_as_it_is(tmp_path: Path) -> None:
    assert read(tmp_path, "") == UNSAID
    assert read(tmp_path, '[no-waits]\nfiles = ["a.py"]\n').decorators == ("no_waits",)


def entry(old: str, new: str = "") -> str:
    """Return a contract whose entries are a good one and that with something replaced."""
    assert old in ENTRY
    return f"[no-waits]\nallow = [{ENTRY}, {ENTRY.replace(old, new)}]"


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("no-waits = 1", "no-waits must be a table"),
        ("[no-waits]\nfunction = []", "no-waits has no key 'function'; its keys: functions, files"),
        ("[no-waits]\nfunctions = 'step'", "no-waits functions must be a list of strings"),
        ("[no-waits]\ndecorators = [1]", "no-waits decorators must be a list of strings"),
        ("[no-waits]\nfiles = ['a/../b']", "no-waits: the glob 'a/../b' can match nothing"),
        ("[no-waits]\nallow = 3", "no-waits allow must be a list of tables"),
        ("[no-waits]\nallow = ['x']", "no-waits allow, entry 1: must be a table"),
        (entry(', owner = "ada"'), "no-waits allow, entry 2: lacks owner"),
        (entry(', reason = "the log"'), "no-waits allow, entry 2: lacks reason"),
        (entry('"ada"', '""'), "no-waits allow, entry 2: owner must not be empty"),
        (entry("train.py:step", "step"), "entry 2: at must be path:function, not 'step'"),
        (entry("line", "row"), "no-waits allow, entry 2: has no key 'row'; its keys: at, line"),
    ],
)
def test_an_error_names_the_file_and_the_key(tmp_path: Path, said: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(tmp_path, said + "\n")
    assert message in str(raised.value)
    assert str(raised.value).startswith(f"{tmp_path / 'torchlint.toml'}:1: no-waits")
