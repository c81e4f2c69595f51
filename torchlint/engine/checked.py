"""What one text comes to, and what comes of changing it: the values that pass between the steps of
an analysis."""

from __future__ import annotations

from collections.abc import Callable

from torchlint.base.finding import AppliedFix, Finding, Note, Suppressed
from torchlint.base.records import frozen


@frozen
class Checked:
    """A text with its findings in order, those that comments silence, and what could not be
    done."""

    text: str
    findings: tuple[Finding, ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    notes: tuple[Note, ...] = ()


Check = Callable[[str], Checked]


@frozen
class Changed:
    """What came of changing a text: findings fixed, or comments written.

    `checked` is the text as it is in the end, `count` says for how many findings it was changed;
    `notes` say what was not changed and why. A note of kind FAILED is our bug. The others are as of
    `FileReport`.
    """

    checked: Checked
    count: int = 0
    notes: tuple[Note, ...] = ()
    joint: tuple[Finding, ...] = ()
    edits: int = 0
    unsafe: int = 0
    had: tuple[str, ...] = ()
    fixes: tuple[AppliedFix, ...] = ()
    could: int = 0
