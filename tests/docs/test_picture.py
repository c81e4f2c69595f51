"""The picture at the top of the README is that of a run of today, and stands alone."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from xml.etree.ElementTree import fromstring

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    spec = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_is_current_and_the_readme_opens_with_it(picture: ModuleType) -> None:
    drawn = picture.svg(picture.shown())
    assert picture.PICTURE.read_text(encoding="utf-8") == drawn, "run: python docs/picture.py"
    name = picture.PICTURE.relative_to(ROOT).as_posix()
    assert f"({name})" in (ROOT / "README.md").read_text(encoding="utf-8").split("\n\n")[1]


def test_it_needs_nothing_else_and_nothing_sticks_out(picture: ModuleType) -> None:
    text = picture.PICTURE.read_text(encoding="utf-8")
    root = fromstring(text)
    assert text.count("http") == 1  # the name space
    assert "url(" not in text
    assert not {node.tag.rpartition("}")[2] for node in root.iter()} & {
        "script",
        "image",
        "foreignObject",
        "use",
    }
    for node in root.iter("{http://www.w3.org/2000/svg}text"):
        assert float(node.attrib["x"]) + float(node.attrib["textLength"]) < float(
            root.attrib["width"]
        )
        assert float(node.attrib["y"]) < float(root.attrib["height"])
    assert "prefers-color-scheme: dark" in text


def test_lines_are_cut_at_their_colours(picture: ModuleType) -> None:
    line = "\x1b[1;33mTL101\x1b[0m \x1b[36m[*]\x1b[0m  a <b>"
    assert list(picture.pieces(line)) == [("b y", 0, "TL101"), ("c", 6, "[*]"), ("", 11, "a <b>")]
    assert "a &lt;b&gt;" in picture.svg([line])
