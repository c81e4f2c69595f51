"""Tests of a text by a word hold for no text without it, so that only files with it are read."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import torchlint
from tests.checking import job
from tests.semantic.test_project import analysed, write
from torchlint.run.projects import forget, outside_of
from torchlint.semantic.code import always_given
from torchlint.semantic.code.left_out import concerns
from torchlint.semantic.code.named_tests import Holds, name_of, names, words_of
from torchlint.semantic.code.wording import Wording

ROOT = Path(torchlint.__file__).parent
FIXTURES = ROOT.parent / "fixtures"
OTHERS = {"position": "0", "place": "0", "wanted": "True", "by": "0"}
NO_TESTS = {"torchlint.semantic.code.named_tests:named"}


def by_word() -> Iterator[tuple[str, Callable[..., bool], list[str]]]:
    """Yield the tests of a text that begin with words, with words that no text holds."""
    for path in sorted([*ROOT.glob("semantic/**/*.py"), *ROOT.glob("rules/**/*.py")]):
        dotted = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        module = importlib.import_module(dotted.removesuffix(".__init__"))
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ != module.__name__ or name_of(function) is None:
                continue
            params = inspect.signature(function).parameters
            kinds = {each.annotation for each in params.values()}
            returns = inspect.signature(function).return_annotation
            if [*params][1:] and [*params][-1] == "text" and kinds == {"str"} and returns == "bool":
                yield f"{module.__name__}:{name}", function, words_for(params)


def words_for(params: Mapping[str, object]) -> list[str]:
    return [OTHERS.get(each, "no_such_word") for each in [*params][:-1]]


TESTS = {name: (function, words) for name, function, words in by_word()}


def test_there_are_tests_by_word() -> None:
    assert "torchlint.semantic.code.left_out:concerns" in TESTS
    assert len(TESTS) >= 20


@pytest.mark.parametrize("name", TESTS)
def test_a_test_by_word_holds_for_no_text_without_it(name: str) -> None:
    function, words = TESTS[name]
    texts = [path.read_text() for path in sorted(FIXTURES.glob("rules/training/*.py"))]
    for text in ("", "\n".join(texts), "def (:\n    from import x.multiple("):
        assert not function(*words, text)


def test_words_are_the_first_of_a_test_or_those_of_a_pattern() -> None:
    assert words_of(functools.partial(names, "Net")) == ("Net",)
    assert words_of(functools.partial(names, "--")) == ()
    assert words_of(bool) == ()
    assert words_of(Holds(re.compile("a"))) == ()
    assert words_of(Holds(Wording(re.compile("a b|c"), ("a b", "c")))) == ("a b", "c")


def test_a_name_is_looked_for_in_the_files_that_hold_it(tmp_path: Path) -> None:
    """In a library of 200 files one test for each of 200 names looks at 200 files, not 40,000."""
    files = {
        f"part{one}.py": f"import part{(one + 1) % 200}\nname{one}_ = 1\n" for one in range(200)
    }
    write(tmp_path, files)
    outside = analysed(tmp_path, files, "part0.py").outside
    looked: list[str] = []

    def holds(word: str, text: str) -> bool:
        looked.append(word)
        return f"{word} =" in text

    for one in range(200):
        test = functools.partial(holds, f"name{one}_")
        assert outside.others_say(test, near=False) is (one != 0)
    assert len(looked) <= 400


def test_an_answer_for_a_program_is_found_once(tmp_path: Path) -> None:
    files = {f"part{one}.py": f"import part{(one + 1) % 40}\n" for one in range(40)}
    write(tmp_path, files)
    looked: list[str] = []

    def test(text: str) -> bool:
        looked.append(text)
        return "torch" in text

    forget()
    for name, text in files.items():
        outside = outside_of(job(text, name=name, root=str(tmp_path)))
        assert outside.others_say(test, near=False) is False
    assert len(looked) == 40


@pytest.mark.parametrize(
    "text",
    [
        "from nets import Net\n",
        "from nets import Net\n\ndef run(net: Net, *more: Net):\n    '''Runs a Net.'''\n",
        "import nets\n\ndef run(net: nets.Net):\n    return net(1)  # a Net\n",
        "class Networks:\n    Nets = 1\n",
    ],
)
def test_who_only_names_a_class_has_nothing_to_do_with_it(text: str) -> None:
    assert not concerns("Net", text)
    assert always_given._calls_that_give("Net", "x", "0", text) == []


@pytest.mark.parametrize(
    "text",
    [
        "from nets import Net\n\nnet = Net()\n",
        "import nets\n\nmake(nets.Net)\n",
        "from nets import Net\n\ndef run(net: Net = Net()):\n    net(1)\n",
        "class Net:\n    pass\n",
        "def run(net) -> Net:\n    return make()\n",
        "print 'Net'\n",
    ],
)
def test_who_makes_or_hands_on_a_class_has_something_to_do_with_it(text: str) -> None:
    assert concerns("Net", text)
