"""The page of the documentation that lists the questions a rule may ask; what one rule alone asks
stands beside it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import torchlint.semantic
from torchlint.semantic.module import Question
from torchlint.semantic.question import QUESTIONS

_ORDER = ("code", "values", "time", "device", "uses", "data", "project")


def questions_page() -> str:
    """Return a section of markdown for each subject: its questions with parameters and first
    sentence."""
    for found in pkgutil.walk_packages(torchlint.semantic.__path__, "torchlint.semantic."):
        importlib.import_module(found.name)
    return "\n\n".join(_sections()) + "\n"


def _sections() -> Iterator[str]:
    public = [question for question in QUESTIONS.values() if not question.name.startswith("_")]
    for subject in _ORDER:
        package = importlib.import_module(f"torchlint.semantic.{subject}")
        yield f"## {subject}\n\n{(package.__doc__ or '').strip()}"
        asked = [
            question for question in public if question.home.startswith(f"{package.__name__}.")
        ]
        rows = [
            _row(question) for question in sorted(asked, key=lambda each: (each.home, each.name))
        ]
        yield "\n".join(("| Question | File | Answer |", "| --- | --- | --- |", *rows))


def _row(question: Question) -> str:
    asked = getattr(importlib.import_module(question.home), question.name)
    parameters = ", ".join(inspect.signature(asked).parameters)
    home = "/".join(question.home.split(".")[2:])
    return (
        f"| `{question.name}({parameters})` | `{home}.py` | "
        f"{question.sentence.replace('|', chr(92) + '|')} |"
    )
