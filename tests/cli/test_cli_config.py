"""``torchlint config``."""

from __future__ import annotations

import json

import pytest
import tomli

from torchlint.settings.keys import KEYS, checked


def test_the_list_has_each_key_once_with_what_it_does(cli) -> None:
    lines = cli("config", code=0).stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(KEYS)
    assert all(line.endswith(row.words) for line, row in zip(lines, KEYS.values(), strict=True))


def test_json_has_examples_that_the_configuration_takes(cli) -> None:
    rows = json.loads(cli("config", "--output-format", "json", code=0).stdout)
    assert list(rows) == list(KEYS)
    for key, row in rows.items():
        table = tomli.loads(row["example"])["tool"]["torchlint"]
        assert list(table) == [key]
        checked(key, table[key], "", ValueError)


@pytest.mark.parametrize("key", ["timeout", "no-waits", "select"])
def test_one_key_is_explained(cli, key: str) -> None:
    said = cli("config", key, code=0).stdout
    row = json.loads(cli("config", key, "--output-format", "json", code=0).stdout)
    assert " ".join(said.split()).startswith(f"{key} {KEYS[key].words}")
    assert f"Default: {row['default']}\nExample:\n{row['example']}\n" in said
    assert "](" not in said
    assert max(map(len, said.partition("Example:")[0].splitlines())) <= 100


def test_an_unknown_key_is_one_line_with_the_nearest(cli) -> None:
    done = cli("config", "tineout", code=2)
    assert done.stdout == ""
    assert done.stderr == "torchlint: error: unknown key 'tineout'; did you mean 'timeout'?\n"
