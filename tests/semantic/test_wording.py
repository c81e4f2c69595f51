"""A pattern behind words finds what the pattern alone finds: each text that it matches holds one of
the words."""

from __future__ import annotations

import importlib
import pkgutil
import re
from itertools import product
from typing import Any, cast

import pytest

import torchlint.semantic
from torchlint.semantic.code.wording import Wording

parser = importlib.import_module("re._parser" if hasattr(re, "_parser") else "sre_parse")
ANYTHING = "\0"


def spelled(pattern: Any) -> set[str]:
    """Return what a parsed pattern matches, with `ANYTHING` where that is not one of a few
    texts."""
    found = {""}
    for operation, argument in pattern:
        found = {
            before + after for before, after in product(found, _part(str(operation), argument))
        }
    return found


def _part(operation: str, argument: Any) -> set[str]:
    if operation == "LITERAL":
        return {chr(argument)}
    if operation in ("AT", "ASSERT", "ASSERT_NOT"):
        return {""}
    if operation == "SUBPATTERN":
        return spelled(argument[-1])
    if operation == "BRANCH":
        return set().union(*map(spelled, argument[1]))
    if operation == "IN" and all(str(kind) == "LITERAL" for kind, _ in argument):
        return {chr(each) for _, each in argument}
    return {ANYTHING}


def wordings() -> dict[str, Wording]:
    names = [
        each.name
        for each in pkgutil.walk_packages(torchlint.semantic.__path__, "torchlint.semantic.")
    ]
    held = {
        f"{name}.{key}": value
        for name in names
        for key, value in vars(importlib.import_module(name)).items()
    }
    return {name: value for name, value in held.items() if isinstance(value, Wording)}


@pytest.mark.parametrize("name", wordings())
def test_every_match_holds_a_word(name: str) -> None:
    wording = wordings()[name]
    texts = spelled(parser.parse(wording.pattern.pattern, wording.pattern.flags))
    assert texts
    assert [text for text in texts if not any(word in text for word in wording.words)] == []
    assert not wording.first or all(text.startswith(wording.words) for text in texts)


def test_a_wording_without_a_word_for_each_match_is_told() -> None:
    texts = spelled(parser.parse(r"\bsys\.(modules|monitoring)\b|\w+x", 0))
    assert texts == {"sys.modules", "sys.monitoring", f"{ANYTHING}x"}


def test_words_alone_are_no_match() -> None:
    wording = Wording(re.compile(r"\bjit\.trace\b"), ("jit.trace",))
    assert wording.search("torch.jit.trace(f)") is not None
    assert wording.search("torch.jit.traced(f)") is None


def test_a_pattern_that_begins_with_a_word_is_tried_where_one_stands() -> None:
    tried: list[int] = []
    pattern = re.compile(r"(?<!\.)\b(vars|exec)\(")

    class Noted:
        def match(self, text: str, at: int) -> re.Match[str] | None:
            tried.append(at)
            return pattern.match(text, at)

    wording = Wording(cast(Any, Noted()), ("vars(", "exec("), first=True)
    text = f"{'x = 1' * 99}\nself.exec()\nmyvars(1)\n"
    assert wording.search(text) is None
    assert tried == [text.index("vars("), text.index("exec(")]
    found = wording.search(f"{text}vars(f)\n")
    assert found is not None
    assert found.start() == len(text)
