"""Corner cases of rules, which no reader of a page needs: ``fixtures/corners/<family>/<name>.py``.

Each ``# --- sentence`` begins a program of its own, which stands behind the Setup of the rule's
page. A line that ends in the rule's code has a finding, every other line has none. ``# +++`` begins
what the program before it becomes: what its fix gives, where one is applied.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.checking import rules
from torchlint.catalog.manual import WITH_CODE
from torchlint.catalog.rule_file import RuleInfo
from torchlint.testing.promises import programs

CORNERS = Path(__file__).parent.parent / "fixtures" / "corners"
_BEGIN = re.compile(r"^# (?:--- (?P<sentence>.*(?:\n#     .*)*)|\+\+\+)\n", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Corner:
    """One program.

    Args:
        info: the rule, its page cut down to this program.
        sentence: what the case is.
        code: the program without Setup and without the announcements.
        rows: the rows of `code` with a finding, counted from 1.
    """

    info: RuleInfo
    sentence: str
    code: str
    rows: tuple[int, ...]

    def __str__(self) -> str:
        """Return the rule's code and the sentence."""
        return f"{self.info.code}: {self.sentence}"

    @property
    def programs(self) -> list[str]:
        """The program behind its Setup, and what it becomes."""
        return [text for heading in WITH_CODE for text in programs(self.info, heading)]


def corners() -> Iterator[Corner]:
    """Yield the corner cases of all rules."""
    for info in rules():
        yield from corners_of(info)


def corners_of(info: RuleInfo) -> Iterator[Corner]:
    """Yield the corner cases of one rule."""
    path = CORNERS / info.family / f"{info.name.replace('-', '_')}.py"
    if path.exists():
        yield from read(path.read_text(encoding="utf-8"), info)


def read(text: str, info: RuleInfo) -> Iterator[Corner]:
    """Yield the corner cases in a file's text.

    Raises:
        ValueError: text stands before the first program, or ``# +++`` behind one without a finding.
    """
    begins = list(_BEGIN.finditer(text))
    ends = [*(found.start() for found in begins[1:]), len(text)]
    if text[: begins[0].start() if begins else None].strip():
        raise ValueError(f"{info.name}: text stands before the first program")
    parts = [
        (begin["sentence"], text[begin.end() : end].strip("\n") + "\n")
        for begin, end in zip(begins, ends, strict=True)
    ]
    mark = re.compile(rf"  # {info.code}$", re.MULTILINE)
    for (sentence, marked), (after, good) in zip(parts, [*parts[1:], ("", "")], strict=True):
        if sentence is None:
            continue
        rows = tuple(row for row, line in enumerate(marked.split("\n"), 1) if mark.search(line))
        code = mark.sub("", marked)
        if after is None and not rows:
            raise ValueError(
                f"{info.name}: nothing is found in what becomes something else: {sentence}"
            )
        blocks = (
            {"Bad": code, "Good": good if after is None else ""} if rows else {"Leave alone": code}
        )
        sections = {heading: f"```python\n{block}```" for heading, block in blocks.items() if block}
        kept = {
            heading: info.sections[heading]
            for heading in ("Setup", "Fix safety")
            if heading in info.sections
        }
        page = dataclasses.replace(info, sections={**kept, **sections})
        yield Corner(page, re.sub(r"\n#     ", " ", sentence), code, rows)
