"""A rule's page as programs to run: Setup, Bad against Good, what Measure adds, and which fix leads
from Bad to Good.

The convention of ``## Measure``: its first block of Python only prepares (binds names to larger
sizes). Then the imports, functions and classes of Bad (of Good) run once, and what is timed are its
other statements. With a second block all of Bad (of Good) runs once and that block is timed. A
first line "Not timed: ..." says why nothing is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence

from torchlint.api import RuleInfo, code_blocks, rule_findings
from torchlint.base.records import frozen

_NOT_TIMED = re.compile(r"Not timed:\s*(.*?)(?:\.\s|\n\s*\n|\Z)", re.DOTALL)


@frozen
class Page:
    """The programs of one rule's page, as source text.

    Args:
        info: the rule.
        setup: run before everything else.
        prepare: the first block of Measure; empty for none.
        timed: the second block of Measure; empty for none.
        untimed: why nothing is timed; empty where it is.
        pairs: Bad and Good.
    """

    info: RuleInfo
    setup: str
    prepare: str
    timed: str
    untimed: str
    pairs: tuple[tuple[str, str], ...]

    @property
    def text(self) -> str:
        """All code of the page."""
        return "\n".join(
            (self.setup, self.prepare, self.timed, *(side for pair in self.pairs for side in pair))
        )

    @property
    def imports(self) -> frozenset[str]:
        """Top-level packages that the examples import."""
        return frozenset(_imported(self.text))


def page(info: RuleInfo) -> Page:
    """Read a rule's page."""
    sections = info.sections
    bads, goods = (code_blocks(sections.get(heading, "")) for heading in ("Bad", "Good"))
    blocks = [*code_blocks(sections.get("Measure", "")), "", ""]
    untimed = _NOT_TIMED.match(sections.get("Measure", ""))
    return Page(
        info=info,
        setup="".join(code_blocks(sections.get("Setup", ""))),
        prepare=blocks[0],
        timed=blocks[1],
        untimed=" ".join(untimed[1].split()).rstrip(".") if untimed else "",
        pairs=tuple(zip(bads, goods, strict=False)),
    )


def applied_fixes(pages: Sequence[Page]) -> Mapping[tuple[str, int], str]:
    """Return which fix leads from each Bad to its Good: "safe", "unsafe", or "" where none is
    applied."""
    wanted = [(page, index) for page in pages for index in range(len(page.pairs))]
    texts = [
        (
            each.info.code,
            f"{each.setup}\n{each.pairs[index][0]}" if each.setup else each.pairs[index][0],
        )
        for each, index in wanted
    ]
    found = {}
    for (each, index), findings in zip(wanted, rule_findings(texts), strict=True):
        offered = {f.fix.safety.value for f in findings if f.fix is not None and not f.fix.withheld}
        found[each.info.code, index] = next(
            (kind for kind in ("safe", "unsafe") if kind in offered), ""
        )
    return found


def _imported(text: str) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return names
