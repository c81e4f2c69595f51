"""Questions are remembered with their file, let go with it, and come to an end where they ask
themselves."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import libcst as cst

from torchlint.semantic.module import Module, Question
from torchlint.semantic.project.outside import Outside
from torchlint.semantic.question import question
from torchlint.semantic.time.heat import heat_map, heat_of
from torchlint.semantic.values.facts import values
from torchlint.semantic.values.inferred import inferred

TEXT = (
    "import torch\nfor batch in loader:\n    loss = model(batch)\n    loss.backward()\n    "
    "print(loss.item())\n"
)
asked: list[int] = []


def analysed(text: str = TEXT) -> Module:
    return Module(cst.parse_module(text), text, "train.py", Outside())


@question()
def _half(module: Module, number: int) -> int:
    """Return half of a number."""
    asked.append(number)
    return number // 2


@question()
def _numbers(module: Module, below: int) -> Iterator[int]:
    """Yield the numbers below one."""
    asked.append(below)
    yield from range(below)


@question(circular="unknown")
def _around(module: Module, at: str) -> str:
    """Return what the ring a, b, c says of itself, beside the place where it was asked."""
    return at + _around(module, {"a": "b", "b": "c", "c": "a"}[at])


@question(yes="the number is even", no="the number is odd")
def _even(module: Module, number: int) -> bool:
    """Say whether a number is even."""
    return _half(module, number) * 2 == number


def test_an_answer_is_worked_out_once() -> None:
    asked.clear()
    module = analysed()
    assert [_half(module, 8), _half(module, 8), _half(module, 6)] == [4, 4, 3]
    assert asked == [8, 6]
    assert _half(analysed(), 8) == 4
    assert asked == [8, 6, 8]


def test_what_is_yielded_can_be_asked_for_again() -> None:
    asked.clear()
    module = analysed()
    assert next(_numbers(module, 3)) == 0
    assert [list(_numbers(module, 3)), list(_numbers(module, 3))] == [[0, 1, 2], [0, 1, 2]]
    assert asked == [3]


def test_a_circle_ends_in_what_is_not_known_and_is_cut_for_the_one_that_was_asked() -> None:
    module = analysed()
    assert _around(module, "a") == "abcunknown"
    assert (
        _around(module, "b") == "bcabcunknown"
    )  # from a as it was answered, not from the cut way through c


class Other:
    """Gives the opposite of what is true."""

    def __init__(self) -> None:
        self.told: list[tuple[str, tuple[object, ...], object]] = []
        self.pending: set[object] = set()

    def tell(self, question: Question, arguments: tuple[object, ...], truth: object) -> object:
        self.told.append((question.name, arguments, truth))
        return not truth


def test_who_imagines_other_answers_is_told_those_with_words() -> None:
    module = analysed()
    imagined = analysed()
    imagined.ground, imagined.counterfactual = module, Other()
    assert (_even(module, 4), _even(imagined, 4)) == (True, False)
    assert imagined.counterfactual.told == [("_even", (4,), True)]


def test_a_closed_file_is_freed_without_the_garbage_collector() -> None:
    module = analysed()
    for call in module.nodes(cst.Call):
        heat_of(module, call)
        inferred(module, call)
    kept = [weakref.ref(part) for part in (module, module.tree, values(module), heat_map(module))]
    gc.disable()
    try:
        module.close()
        del module, call
        assert [ref() for ref in kept] == [None] * len(kept)
    finally:
        gc.enable()
