"""What one text comes to, and what comes of changing it: the values that pass between the steps of
an analysis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torchlint.base.finding import Finding, Note, Suppressed


@dataclass(frozen=True, slots=True)
class Checked:
    """A text with its findings in order, those that comments silence, and what could not be
    done."""

    text: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[Note, ...] = ()


Check = Callable[[str], Checked]


@dataclass(frozen=True, slots=True)
class Changed:
    """What came of changing a text: fixes applied, or comments written.

    `checked` is the text as it is in the end, `count` says how many changes it holds, `unsafe` how
    many of these are fixes that are not safe, `later` how many at least could be applied only when
    others were; `notes` say what was not changed and why. A note of
    kind FAILED is our bug. `joint` is as of `FileReport`.
    """

    checked: Checked
    count: int = 0
    unsafe: int = 0
    notes: tuple[Note, ...] = ()
    joint: tuple[Finding, ...] = ()
    later: int = 0
