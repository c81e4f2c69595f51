"""What the rest of the project says about the names of a file: the one way from a file's analysis
to other files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint.semantic.module import Module
from torchlint.semantic.question import question
from torchlint.semantic.torch import names as torch_names

if TYPE_CHECKING:
    from torchlint.semantic.project.exports import ArgumentRead


@question(ground=True, remember=False)
def reached_elsewhere(module: Module, name: str) -> bool | None:
    """Say whether code elsewhere may read or replace a top-level name of this file; None where that
    is not known.

    That is another file of the project, or this one where it looks itself up as a module or by a
    string."""
    return module.outside.reached(name, module.text, module.filename)


@question(yes="a file of the project says so", no="no file of the project says so", ground=True)
def said_somewhere(module: Module, test: Callable[[str], bool]) -> bool:
    """Say whether a test holds, or may hold, for the text of this file or of another one of the
    project."""
    return test(module.text) or module.outside.others_say(test) is not False


@question(ground=True)
def outside_bases(module: Module, name: str) -> list[str]:
    """Return the dotted names of the bases of a class in another file of the project."""
    return [torch_names.canonical(n) for n in module.outside.lineage(name).outside]


@question(ground=True)
def argument_reads(module: Module, name: str) -> tuple[ArgumentRead, ...]:
    """Return the arguments that a function of another file, by its dotted name here, always reads
    on the host."""
    return module.outside.reads(name)
