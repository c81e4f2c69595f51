"""The file of a baseline, and how its entries are spent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from torchlint.base.errors import ConfigError, WriteError
from torchlint.engine.baseline import (
    Baseline,
    Holding,
    key,
    read_baseline,
    rendered,
    write_baseline,
)

ONE, TWO = "0" * 16, "1" * 16
ENTRIES = {
    "b.py": {key("TL101", ONE): 2},
    "a\udcff \u00e9.py": {key("TL102", TWO): 1, key("TL101", TWO): 1},
}
TEXT = f"""{{
"baseline-format": 1,
"entries": [
["a\\udcff \\u00e9.py", "TL101", "{TWO}", 1],
["a\\udcff \\u00e9.py", "TL102", "{TWO}", 1],
["b.py", "TL101", "{ONE}", 2],
[]
]
}}
"""


def read(path: Path, text: str | bytes) -> Baseline:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_baseline(str(path), path.name)


def test_the_text_is_sorted_json_with_an_entry_a_line() -> None:
    assert rendered(ENTRIES) == TEXT
    assert json.loads(TEXT)["entries"].pop() == []
    assert rendered({"a.py": {key("TL101", ONE): 0}}) == rendered({})


@pytest.mark.parametrize(
    "change", [str, lambda text: json.dumps(json.loads(text), indent=4, sort_keys=True)]
)
@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("\ufeff", "\r\n")])
def test_what_is_written_can_be_read_whatever_formatted_it(
    tmp_path: Path, change: object, mark: str, end: str
) -> None:
    assert callable(change)
    found = read(tmp_path / "x", mark + change(TEXT).replace("\n", end))
    assert found.entries == ENTRIES


def test_branches_that_add_entries_merge(tmp_path: Path) -> None:
    lines = TEXT.splitlines()
    merged = [
        *lines[:5],
        f'["a.py", "TL101", "{ONE}", 1],',
        *lines[5:-3],
        f'["c.py", "TL101", "{ONE}", 1],',
        *lines[-3:],
    ]
    assert len(read(tmp_path / "x", "\n".join(merged)).entries) == 4


def test_an_entry_that_a_merge_doubled_does_not_grow(tmp_path: Path) -> None:
    double = TEXT.replace(
        "[]", f'["b.py", "TL101", "{ONE}", 3],\n["b.py", "TL101", "{ONE}", 1],\n[]'
    )
    assert read(tmp_path / "x", double).entries["b.py"] == {key("TL101", ONE): 3}


ENTRY = f'["b.py", "TL101", "{ONE}", 2]'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "x:1: not usable: it does not start as a baseline does"),
        ("[]", "x:1: not usable: it does not start"),
        (
            '{"baseline-format": 2, "entries": [[]]}',
            "x: has format 2, and this torchlint knows 1 only",
        ),
        ('{"baseline-format": 1}', "x:1: not usable: it does not start"),
        (TEXT.replace("[]\n]", "[]\n"), "x:9: not usable: an entry without a comma"),
        (TEXT + "x", "x:8: not usable: it does not end as a baseline does"),
        (TEXT.replace(", 2]", ', "2"]'), "x:6: not usable: not an entry"),
        (TEXT.replace(", 2]", ", 0]"), "x:6: not usable: not an entry"),
        (TEXT.replace(", 2]", ", true]"), "x:6: not usable: not an entry"),
        (TEXT.replace(", 2]", ", 2.0]"), "x:6: not usable: not an entry"),
        (TEXT.replace(", 2]", ", NaN]"), "x:6: not usable: not an entry"),
        (TEXT.replace(", 2]", f", {'9' * 5000}]"), "x:6: not usable: "),
        (TEXT.replace('"b.py"', '""'), "x:6: not usable: not an entry"),
        (TEXT.replace(ONE, "0" * 15 + "G"), "x:6: not usable: not an entry"),
        (TEXT.replace("TL101", "TL 101"), "x:4: not usable: not an entry"),
        (TEXT.replace("[]", "{}"), "x:7: not usable: not an entry"),
        (TEXT.replace("[]", "null"), "x:7: not usable: not an entry"),
        (TEXT.replace("[]", "[" * 100_000), "x:7: not usable: "),
        (TEXT.replace(f"{ENTRY},", ENTRY), "x:7: not usable: an entry without a comma"),
        (TEXT[:100], "x:5: not usable: "),
        (
            TEXT.replace(ENTRY, f"<<<<<<< HEAD\n{ENTRY}"),
            "x:6: not usable: a merge conflict is not resolved",
        ),
        (
            TEXT.replace(ENTRY, f"=======\n{ENTRY}").replace("\n", "\r\n"),
            "x:6: not usable: a merge conflict",
        ),
        (b"\xff", "x: is not UTF-8 (byte 0)"),
    ],
)
def test_what_is_no_baseline(tmp_path: Path, text: str | bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(tmp_path / "x", text)
    assert f"baseline {words}" in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "x")
    assert read_baseline(path, "x", may_be_new=True) == Baseline(path, "x")
    with pytest.raises(ConfigError, match="there is no such file"):
        read_baseline(path, "x")
    (tmp_path / "x").symlink_to("y")
    with pytest.raises(ConfigError, match="no such file"):
        read_baseline(path, "x", may_be_new=True)


def test_a_file_that_changed_meanwhile_is_not_written(tmp_path: Path) -> None:
    found = read(tmp_path / "x", TEXT)
    (tmp_path / "x").write_text("mine")
    with pytest.raises(WriteError, match="baseline x: changed"):
        write_baseline(found, {})
    assert (tmp_path / "x").read_text() == "mine"


def test_a_link_and_a_byte_order_mark_stay(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real").touch()
    found = read(tmp_path / "link", "\ufeff" + TEXT)
    assert not write_baseline(found, found.entries)
    assert write_baseline(found, {"z.py": {key("TL101", ONE): 1}})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes().startswith(b"\xef\xbb\xbf{")


def test_entries_are_spent_one_by_one(tmp_path: Path) -> None:
    for name in ENTRIES:
        (tmp_path / name).touch()
    holding = Holding(Baseline("x", "x", ENTRIES), str(tmp_path))
    assert [holding.holds("b.py", key("TL101", ONE)) for _ in range(3)] == [True, True, False]
    assert holding.held == 2
    assert holding.left("b.py") == {key("TL101", ONE): 0}
    assert not holding.holds("b.py", key("TL102", TWO)), "of another file that is there"


def test_the_entries_of_a_file_that_is_gone_move(tmp_path: Path) -> None:
    holding = Holding(Baseline("x", "x", ENTRIES), str(tmp_path))
    assert [holding.holds("new.py", key("TL101", ONE)) for _ in range(3)] == [True, True, False]
    assert not holding.holds("new.py", key("TL999", ONE))
    (tmp_path / "b.py").touch()
    assert not Holding(Baseline("x", "x", ENTRIES), str(tmp_path)).holds(
        "new.py", key("TL101", ONE)
    )
