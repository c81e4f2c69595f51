"""The JSON Schema of the configuration says what the reader of configurations says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tomli
from jsonschema import Draft7Validator

import torchlint
from torchlint.settings.keys import KEYS, checked
from torchlint.settings.schema import schema

ROOT = Path(__file__).parents[2]
VALIDATOR = Draft7Validator(schema())
WRITTEN = Path(torchlint.__file__).parent / "settings" / "torchlint.schema.json"
VALUES = (
    "",
    "x",
    "auto",
    "warning",
    "2.4",
    1,
    0,
    -1,
    1.5,
    True,
    [],
    ["a"],
    [""],
    [1],
    {},
    {"a": ["TL1"]},
)
VALUES += (
    {"TL1": "info"},
    {"TL1": "loud"},
    {"functions": ["f"]},
    {"allow": [{"at": "a.py:f"}]},
    {"no": 1},
)


def test_the_file_in_the_wheel_is_the_table() -> None:
    """``torchlint config --output-format schema`` writes it."""
    assert json.loads(WRITTEN.read_text(encoding="utf-8")) == schema()
    Draft7Validator.check_schema(schema())


def test_it_takes_the_examples_of_the_documentation() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    blocks = [tomli.loads(text) for text in re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    tables = [
        block["tool"]["torchlint"] for block in blocks if "torchlint" in block.get("tool", {})
    ]
    assert len(tables) > len(KEYS)
    assert [error.message for table in tables for error in VALIDATOR.iter_errors(table)] == []


@pytest.mark.parametrize("key", KEYS)
def test_it_refuses_nothing_that_the_reader_takes(key: str) -> None:
    """And where it lets something pass, the reader says more, of a specifier say."""
    taken = 0
    for value in VALUES:
        try:
            checked(key, value, "", ValueError)
        except ValueError:
            continue
        taken += 1
        assert VALIDATOR.is_valid({key: value}), value
    refused = [value for value in VALUES if not VALIDATOR.is_valid({key: value})]
    assert len(refused) >= len(VALUES) // 2
    assert taken or key in ("accelerator", "output-format", "required-version", "safe", "fail-on")


def test_it_refuses_keys_that_there_are_not() -> None:
    assert not VALIDATOR.is_valid({"no-such-key": 1})
