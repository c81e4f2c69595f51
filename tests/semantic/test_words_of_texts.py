"""Words that are looked for in whole texts: the quick ways find what the patterns say."""

from __future__ import annotations

import itertools
import re

import pytest

from torchlint.semantic.code.text import spoken, uncommented
from torchlint.semantic.project.caller_files import _names

_PIECES = (
    "run", "_run", "run_", "x.run", "mod.run", "amod.run", "mod", "mods", "import mod",
    "imports mod", "# run", "\t# mod import", "def run(", "x = 1  # run", "",
)  # fmt: skip
_TEXTS = [
    "\n".join(lines) + end
    for lines in itertools.combinations_with_replacement(_PIECES, 2)
    for end in ("", "\n", " run")
]


@pytest.mark.parametrize("word", ["run", "mod", "import"])
def test_a_word_is_found_where_no_comment_says_it(word: str) -> None:
    for text in _TEXTS:
        code = re.sub(r"(?m)^[ \t]*#.*$", "", text)
        assert len(list(uncommented(text, word))) == code.count(word), text
        places = re.findall(rf"(?m)^(.*?)\b{word}\b", code)
        assert len(list(spoken(text, word))) == len(re.findall(rf"\b{word}\b", code)), text
        assert next(spoken(text, word), None) == next(iter(places), None), text


def test_a_function_of_a_module_is_named_as_the_pattern_says() -> None:
    pattern = re.compile(
        r"(?m)(?<![\w.])run\b|\bmod\.run\b|^(?=.*\bimport\b).*\bmod\b",
    )
    found = {text: _names(text, "run", "mod") for text in _TEXTS}
    assert found == {text: pattern.search(text) is not None for text in _TEXTS}
    assert set(found.values()) == {True, False}
