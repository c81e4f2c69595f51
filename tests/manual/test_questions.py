"""The page of questions lists each of them once, with what it answers."""

from __future__ import annotations

from torchlint.manual.questions import questions_page
from torchlint.semantic.question import QUESTIONS


def test_every_question_is_listed_once_with_its_sentence() -> None:
    page = questions_page()
    shared = [each for each in QUESTIONS.values() if each.home.startswith("torchlint.semantic.")]
    public = [question for question in shared if not question.name.startswith("_")]
    assert len(public) > 150
    missing = [each.name for each in public if page.count(f"| `{each.name}(module") != 1]
    assert missing == []
    assert [each.name for each in public if not each.sentence.endswith((".", "…"))] == []


def test_a_row_names_parameters_and_file() -> None:
    assert (
        "| `on_device(module, node)` | `values/place.py` | Say whether an expression is a tensor"
        in questions_page()
    )
