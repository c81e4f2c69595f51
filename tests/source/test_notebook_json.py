"""The JSON text of a notebook: read with its places, and changed in no place but the sources."""

from __future__ import annotations

import codecs
import json
import random
from pathlib import Path
from typing import Any

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from torchlint.base.errors import SourceError, TooLargeError
from torchlint.source.document import LARGEST_NOTEBOOK, Document, byte_limit, encode, loaded
from torchlint.source.notebook import Notebook

FIXTURES = Path(__file__).parents[2] / "fixtures" / "notebooks"
LAYOUTS: dict[str, dict[str, Any]] = {
    "indent 1": {"indent": 1, "ensure_ascii": False},
    "indent 4, ASCII": {"indent": 4},
    "tabs": {"indent": "\t", "ensure_ascii": False},
    "one line": {},
    "compact": {"separators": (",", ":"), "ensure_ascii": False},
}


def raw(*sources: Any, **more: Any) -> dict[str, Any]:
    """Return a notebook with code cells of these sources."""
    cells = [
        {
            "cell_type": "code",
            "execution_count": None,
            "metadata": {},
            "outputs": [],
            "source": source,
        }
        for source in sources
    ]
    return {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4, **more}


def document(data: bytes | str | dict[str, Any], limit: int = 0) -> Document:
    if isinstance(data, dict):
        data = json.dumps(data)
    return loaded(data.encode() if isinstance(data, str) else data, "/p/n.ipynb", "n.ipynb", limit)


def notebook_of(found: Document) -> Notebook:
    assert found.notebook is not None
    return found.notebook


def sources_of(data: bytes) -> list[str]:
    return ["".join(cell["source"]) for cell in json.loads(data.decode("utf-8-sig"))["cells"]]


# -- reading


@pytest.mark.parametrize("name", ["training", "colab", "jupytext"])
def test_notebooks_of_real_tools_are_read_as_nbformat_reads_them(name: str) -> None:
    data = (FIXTURES / f"{name}.ipynb").read_bytes()
    cells = nbformat.reads(data.decode(), as_version=4).cells
    found = {part.cell.number: part.cell for part in notebook_of(document(data)).parts}
    python = {
        number: cell.source
        for number, cell in enumerate(cells, 1)
        if cell.cell_type == "code" and "%%bash" not in cell.source and "%%shell" not in cell.source
    }
    assert {number: cell.source for number, cell in found.items()} == python
    assert {cell.id for cell in found.values()} == {
        cells[number - 1].get("id", "") for number in found
    }


@pytest.mark.parametrize("name", ["training", "colab", "jupytext"])
def test_rows_of_cells_are_known_in_the_file(name: str) -> None:
    data = (FIXTURES / f"{name}.ipynb").read_bytes()
    lines = data.decode().split("\n")
    for part in notebook_of(document(data)).parts:
        for row, text in enumerate(part.cell.source.split("\n")):
            if text:
                assert (
                    json.dumps(text, ensure_ascii=False)[1:-1]
                    in lines[part.cell.file_rows[row] - 1]
                )


def test_rows_of_one_string_are_all_in_its_line() -> None:
    text = json.dumps(raw("a\nb\nc"), indent=1)
    line = next(row for row, line in enumerate(text.split("\n"), 1) if "source" in line)
    assert notebook_of(document(text)).parts[0].cell.file_rows == (line, line, line)


@pytest.mark.parametrize(
    ("more", "source", "accelerated"),
    [
        ({}, "x = 1", False),
        ({"metadata": {"accelerator": "GPU"}}, "x = 1", True),
        ({"metadata": {"accelerator": "TPU"}}, "x = 1", True),
        ({"metadata": {"accelerator": "None"}}, "x = 1", False),
        ({"metadata": {"kaggle": {"accelerator": "nvidiaTeslaT4"}}}, "x = 1", True),
        ({"metadata": {"kaggle": {"accelerator": "none"}}}, "x = 1", False),
        ({}, "!nvidia-smi", True),
        ({}, "# tensor([0.], device='cuda:0')", True),
    ],
)
def test_a_notebook_says_whether_it_runs_on_an_accelerator(
    more: dict[str, Any], source: str, accelerated: bool
) -> None:
    assert notebook_of(document(raw(source, **more))).accelerated is accelerated


def test_only_python_cells_of_python_notebooks_count() -> None:
    notebook = raw("a = 1", "SELECT 1", "b = 2", "print 3")
    for cell, language in zip(notebook["cells"], ("python", "sql", None, [3]), strict=True):
        cell["metadata"] = {"vscode": {"languageId": language}} if language else {"vscode": 7}
    notebook["cells"].insert(0, {"cell_type": "markdown", "metadata": {}, "source": ["# x"]})
    notebook["cells"].insert(0, {"cell_type": "raw", "metadata": {}, "source": "x ="})
    assert [part.cell.number for part in notebook_of(document(notebook)).parts] == [3, 5, 6]


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        (raw("a", nbformat=3), "has nbformat 3; `jupyter nbconvert --to notebook`"),
        (
            {
                "worksheets": [{"cells": []}],
                "metadata": {"name": ""},
                "nbformat": 3,
                "nbformat_minor": 0,
            },
            "nbformat 3",
        ),
        (raw("a", nbformat=5), "has nbformat 5; torchlint reads 4"),
        (raw("a", nbformat="4"), "is no notebook: its nbformat is no number"),
        ({"cells": []}, "is no notebook: its nbformat is missing"),
        (raw(), "has no cells"),
        ({"metadata": {}, "nbformat": 4}, "has no cells"),
        (
            raw("1", metadata={"kernelspec": {"language": "R", "name": "ir"}}),
            "is written in R, not in Python",
        ),
        (
            raw("1", metadata={"language_info": {"name": "julia"}}),
            "is written in julia, not in Python",
        ),
        (
            raw(
                "1",
                metadata={"kernelspec": {"language": "sage"}, "language_info": {"name": "python"}},
            ),
            "in sage",
        ),
    ],
)
def test_what_is_left_out_says_why(notebook: dict[str, Any], words: str) -> None:
    found = document(notebook)
    assert words in found.left_out
    assert (found.text, found.notebook) == ("", None)


@pytest.mark.parametrize(
    "metadata",
    [
        {"kernelspec": {"language": "python"}},
        {"language_info": {"name": "ipython"}},
        {"kernelspec": 3},
        7,
        None,
        [],
    ],
)
def test_python_and_unknown_languages_are_read(metadata: Any) -> None:
    assert document(raw("a = 1", metadata=metadata)).text == "a = 1"


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", (1, 1), "Expecting '{'"),
        ("[]", (1, 1), "Expecting '{'"),
        (
            '{"cells": [\n  {"cell_type": "code",\n   "source": [1]}]}',
            (3, 15),
            "source of cell 1 is not text",
        ),
        ('{"cells": [\n {"cell_type": "code"}]}', (2, 2), "Cell 1 has no source"),
        ('{"cells": {}}', (1, 11), "Expecting the list of cells"),
        ('{"cells": [3]}', (1, 12), "'{'"),
        ('{"cells": [],\n}', (2, 1), "property name"),
        ('{"cells": []} x', (1, 15), "Extra data"),
        ('{"cells": [],\n "cells": []}', (2, 2), "'cells' stands here for the second time"),
        (
            '{"cells": [{"source": "a",\n "source": "b", "cell_type": "code"}]}',
            (2, 2),
            "second time",
        ),
        ('{"a": "\n"}', (1, 8), "control character"),
        ('{"a": "x', (1, 7), "Unterminated"),
        ('{"a" 1}', (1, 6), "':'"),
        ('{"a": 1 "b": 2}', (1, 9), "','"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", (1, 1), "nested too deeply"),
        (
            json.dumps(raw("x = 1\ny = '\ud800'"), indent=1),
            (8, 1),
            "half of a surrogate pair in row 2",
        ),
    ],
)
def test_what_is_no_notebook_is_refused_with_its_place(
    text: str, place: tuple[int, int], words: str
) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        document(text)
    assert caught.value.place == place


def test_what_json_readers_argue_about_is_no_matter_outside_of_sources() -> None:
    text = (
        json.dumps(raw("a = 1"))[:-1]
        + ', "x": [NaN, -Infinity, 1e999, '
        + "9" * 10_000
        + ', "\\ud800"]}'
    )
    found = document(text)
    assert encode(found, "a = 2").decode() == text.replace("a = 1", "a = 2")


def test_the_size_limit_is_for_the_code() -> None:
    notebook = raw("x = 1")
    notebook["cells"][0]["outputs"] = ["x" * 5_000]
    assert document(notebook, 5).text == "x = 1"
    with pytest.raises(TooLargeError, match="has 5 bytes of code, more than 4"):
        document(notebook, 4)
    assert byte_limit("a.ipynb", 10) == LARGEST_NOTEBOOK
    assert byte_limit("a.ipynb", 2 * LARGEST_NOTEBOOK) == 2 * LARGEST_NOTEBOOK
    assert (byte_limit("a.ipynb", 0), byte_limit("a.py", 10)) == (0, 10)


# -- writing


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("bom", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("end", ["", "\n"])
def test_a_line_more_or_less_is_all_that_changes(
    layout: str, listed: bool, bom: bytes, newline: str, end: str
) -> None:
    old, new = "import torch\nx = 'é'\ny = 2", "import torch\nimport os\nx = 'é'\ny = 'ü'"

    def written(source: str) -> bytes:
        cells = raw(source.splitlines(True) if listed else source, "z")
        cells["cells"][0]["outputs"] = [{"text": "é/\u2028", "source": "import torch\n"}]
        text = json.dumps(cells, **LAYOUTS[layout]) + end
        return bom + (text.replace("\n", newline) if newline != "\n" else text).encode()

    found = document(written(old))
    assert encode(found, found.text) is found.data
    assert encode(found, found.text.replace(old, new)) == written(new)
    assert encode(document(written(new)), document(written(new)).text.replace(new, old)) == written(
        old
    )


@pytest.mark.parametrize(
    ("written", "new", "due"),
    [
        (r'"a\u0020=\/1\n"', "b =/1\n", r'"b\u0020=\/1\n"'),
        (
            r'"\ud83d\ude00 a \ud83d\ude01"',
            "\U0001f600 b \U0001f601",
            r'"\ud83d\ude00 b \ud83d\ude01"',
        ),
        (r'["a\n", "b\u006e\n",  "c"]', "a\nbn\nc\nd", r'["a\n", "b\u006e\n",  "c\n", "d"]'),
        (r'["a\n" , "b\n" ,"c"]', "b\nc", r'["b\n" ,"c"]'),
        (r'["a\n" , "b\n" ,"c"]', "a\nc", r'["a\n" ,"c"]'),
        (r'[ "a" ]', "a\nb", r'[ "a\n", "b" ]'),
        (r'["a"]', "a\nb", r'["a\n", "b"]'),
        (r'["a"]', "", "[]"),
        (r'["a\nb\nc"]', "a\nB\nc", r'["a\nB\nc"]'),
        (r'["a\nb", "c\nd", "e"]', "a\nbc\nxd\ne", r'["a\nb", "c\nxd\n", "e"]'),
        (r'["a", "b", "c"]', "ac", r'["a", "c"]'),
        (r'["", "a"]', "b", r'["", "b"]'),
        ('""', "a", '"a"'),
        ("[]", "a\nb", r'["a\n", "b"]'),
    ],
)
def test_what_stays_stays_as_it_is_written(written: str, new: str, due: str) -> None:
    before, after = json.dumps(raw("@")).split('"@"')
    assert encode(document(before + written + after), new).decode() == before + due + after


def test_new_text_is_written_in_the_style_of_the_file() -> None:
    for style in (True, False):
        text = json.dumps(raw("a", "# é"), ensure_ascii=style)
        assert encode(
            document(text), document(text).text.replace("a", "ü", 1)
        ).decode() == text.replace('"a"', json.dumps("ü", ensure_ascii=style))


def test_a_notebook_that_lost_a_seam_is_not_written() -> None:
    found = document(raw("a", "b"))
    with pytest.raises(SourceError, match="there is no row"):
        encode(found, "a\nb")


@settings(deadline=None, derandomize=True)
@given(
    st.lists(
        st.lists(
            st.sampled_from(
                ["a = 1\n", "é\n", "\\\n", '"""\n', "\n", "%x\n", "\u2028", "\U0001f600 \x7f"]
            )
        ),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 10_000),
)
def test_any_layout_keeps_all_but_the_changed_source(lines: list[list[str]], seed: int) -> None:
    chance = random.Random(seed)
    cells = raw(*[each if chance.random() < 0.5 else "".join(each) for each in lines])
    for cell in cells["cells"]:
        cell["outputs"] = [{"source": cell["source"]}]
        if chance.random() < 0.5:
            cell["source"] = list("".join(cell["source"]))
    text = loosened(cells, chance)
    found = document(text)
    notebook = notebook_of(found)
    at = chance.randrange(len(notebook.parts))
    part = notebook.parts[at]
    start = notebook.text.index(part.seam) + len(part.seam) + 1 if part.seam else 0
    data = encode(found, f"{notebook.text[:start]}new = 'ß'\n{notebook.text[start:]}")
    wanted = sources_of(text.encode())
    wanted[part.cell.number - 1] = "new = 'ß'\n" + wanted[part.cell.number - 1]
    assert sources_of(data) == wanted
    again = document(data)
    assert encode(again, found.text) == data if notebook_of(again).text == found.text else True
    for old, new in zip(json.loads(text)["cells"], json.loads(data)["cells"], strict=True):
        assert {**old, "source": 0} == {**new, "source": 0}


def loosened(value: Any, chance: random.Random) -> str:
    """Return JSON text with white space and escapes at random."""

    def space() -> str:
        return "".join(chance.choices(" \t\r\n", k=chance.choice((0, 0, 1, 3))))

    if isinstance(value, dict):
        inner = ",".join(
            f"{space()}{json.dumps(k)}{space()}:{space()}{loosened(v, chance)}{space()}"
            for k, v in value.items()
        )
        return f"{{{inner}}}"
    if isinstance(value, list):
        return (
            f"[{','.join(space() + loosened(each, chance) + space() for each in value)}{space()}]"
        )
    if isinstance(value, str) and chance.random() < 0.3:
        units = value.encode("utf-16-be")
        return (
            '"' + "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)) + '"'
        )
    return json.dumps(value, ensure_ascii=chance.random() < 0.5)
